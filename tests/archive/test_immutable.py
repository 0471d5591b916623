"""What an archive hands out cannot be changed, at any depth, and is otherwise a dict or list like any other."""

from __future__ import annotations

import copy
import json
import pickle
from operator import delitem, iadd, imul, ior, setitem
from typing import TYPE_CHECKING, Any, Final

import pytest

import sbformat
from sbformat import data, values
from sbformat.data import Serialized
from sbformat.immutable import FrozenDict, FrozenList, freeze, thaw
from sbformat.limits import Budget, Limits
from tests.helpers.bundled import PPO
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Callable

VALUE: Final = {"net_arch": [64, {"pi": [64, 64], "vf": []}], "nested": {"a": {"b": [[1], [2]]}}, "x": None, "f": 0.5}

CHANGES: Final[dict[str, tuple[Callable[..., object], type]]] = {
    "d[k] = v": (lambda value: setitem(value, "x", 1), dict),
    "del d[k]": (lambda value: delitem(value, "x"), dict),
    "d |= d": (lambda value: ior(value, {"x": 1}), dict),
    **{
        f"dict.{name}": (lambda value, name=name, args=args: getattr(value, name)(*args), dict)
        for name, args in {
            "clear": (), "pop": ("x",), "popitem": (), "setdefault": ("y", 1), "update": ({"x": 1},),
        }.items()
    },
    "l[i] = v": (lambda value: setitem(value, 0, 1), list),
    "l[:] = v": (lambda value: setitem(value, slice(None), [1]), list),
    "del l[i]": (lambda value: delitem(value, 0), list),
    "l += l": (lambda value: iadd(value, [1]), list),
    "l *= 2": (lambda value: imul(value, 2), list),
    **{
        f"list.{name}": (lambda value, name=name, args=args: getattr(value, name)(*args), list)
        for name, args in {
            "append": (1,), "clear": (), "extend": ([1],), "insert": (0, 1), "pop": (), "remove": (64,), "reverse": (),
            "sort": (),
        }.items()
    },
}  # fmt: skip
UNCHANGING: Final = {
    dict: {"copy", "fromkeys", "get", "items", "keys", "values"},
    list: {"copy", "count", "index"},
}


def parts(value: object) -> list[Any]:
    """All dicts and lists of a value, itself as well."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, (dict, list)) else []), *(part for item in inner for part in parts(item))]


@pytest.mark.parametrize("name", CHANGES)
def test_no_dict_or_list_of_a_value_can_be_changed(name: str) -> None:
    change, kind = CHANGES[name]
    frozen = freeze(VALUE)
    for part in parts(frozen):
        if isinstance(part, kind):
            with pytest.raises(TypeError, match=r"archive\.replace\(data=\{\*\*archive\.data, "):
                change(part)
    assert frozen == VALUE


@pytest.mark.parametrize("kind", UNCHANGING, ids=str)
def test_every_method_that_changes_is_refused(kind: type) -> None:
    """A method that a later Python adds is noticed here."""
    frozen = FrozenDict if kind is dict else FrozenList
    public = {name for name in dir(kind) if not name.startswith("_")} - UNCHANGING[kind]
    changing = public | {
        name for name in ("__setitem__", "__delitem__", "__ior__", "__iadd__", "__imul__") if hasattr(kind, name)
    }
    assert {name for name in changing if getattr(frozen, name) is getattr(kind, name)} == set()


def test_a_value_is_used_like_any_other() -> None:
    frozen = freeze(VALUE)
    assert frozen == VALUE == dict(frozen)
    assert frozen["net_arch"][1]["pi"] == [64, 64]
    assert [*frozen["net_arch"][1]["pi"], 1] == frozen["net_arch"][1]["pi"] + [1]
    for indent in (None, 4):
        assert json.dumps(frozen, indent=indent) == json.dumps(VALUE, indent=indent)
    assert {**frozen, "x": 1}["x"] == (frozen | {"x": 1})["x"] == 1
    assert list(map(type, parts(frozen))) == [FrozenDict if type(part) is dict else FrozenList for part in parts(VALUE)]


def test_pickling_keeps_a_value_frozen() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(freeze(VALUE), protocol))
        assert again == VALUE
        assert {type(part) for part in parts(again)} == {FrozenDict, FrozenList}


@pytest.mark.parametrize("thawed", [copy.deepcopy, thaw])
def test_a_deep_copy_can_be_changed(thawed: Callable[[Any], Any]) -> None:
    frozen = freeze(VALUE)
    made = thawed(frozen)
    assert made == VALUE
    assert {type(part) for part in parts(made)} == {dict, list}
    made["net_arch"][1]["pi"].append(1)
    made["new"] = 1
    assert frozen == VALUE


# -- archives -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(PPO.parent.glob("*.zip")), ids=lambda path: path.stem)
def test_nothing_in_data_can_be_changed(path: Any) -> None:
    archive = sbformat.read(path)
    found: list[Any] = [archive.data]
    for value in archive.data.values():
        found.extend(parts(value.hints if isinstance(value, Serialized) else value))
    assert len(found) > 1
    assert {type(part) for part in found} <= {FrozenDict, FrozenList}
    again = archive.replace(data={**copy.deepcopy(archive.data), "net": ({"a": [1]},)})
    assert {type(part) for part in parts(again.data["net"])} == {FrozenDict, FrozenList}


def test_the_message_gives_the_way_to_edit() -> None:
    archive = sbformat.read(PPO)
    with pytest.raises(TypeError, match="gamma") as caught:
        archive.data["gamma"] = 0.98  # type: ignore[index]
    edited = eval(str(caught.value).partition("; make another one with ")[2], {"archive": archive})  # noqa: S307 -- ours
    assert (archive.data["gamma"], edited.data["gamma"]) == (0.99, 0.98)


def test_fields_of_the_system_info_cannot_be_changed() -> None:
    info = sbformat.read(PPO).system_info
    assert info is not None
    assert info.fields["OS"]
    with pytest.raises(TypeError):
        info.fields["OS"] = "another"  # type: ignore[index]


def test_hints_of_a_blob_of_ones_own_cannot_be_changed() -> None:
    hints = {"shape": [1]}
    made = Serialized("<class 'int'>", b"\x80\x04K\x07.", hints)
    hints["shape"].append(2)
    assert made.hints == {"shape": [1]}
    assert type(made.hints["shape"]) is FrozenList


def test_what_is_decoded_is_the_callers() -> None:
    """``decode`` gives values made anew; ``data`` does not change with them."""
    archive = sbformat.read(PPO)
    archive = archive.replace(data={**archive.data, "policy_kwargs": {"net_arch": [8]}})
    for made in (archive.decode("policy_kwargs"), archive.hyperparameters()["policy_kwargs"].value):
        assert type(made) is dict
        made["net_arch"].append(8)
    assert archive.data["policy_kwargs"] == {"net_arch": [8]}


def test_a_second_initialization_changes_nothing() -> None:
    value = freeze({"a": [1], "b": []})
    value.__init__({"c": 1})
    value["a"].__init__([2])
    value["b"].__init__([3])
    assert value == {"a": [1], "b": []}


def test_frozen_parts_of_plain_containers_are_thawed() -> None:
    """``{**archive.data["policy_kwargs"]}`` is a plain dict of frozen parts."""
    made = thaw({**freeze({"net_arch": [64, {"pi": [64]}]}), "pair": [freeze([1]), 2]})
    made["net_arch"][1]["pi"].append(32)
    made["pair"][0].append(3)
    assert made == {"net_arch": [64, {"pi": [64, 32]}], "pair": [[1, 3], 2]}


def test_parts_of_data_are_edited_rebuilt_and_encoded() -> None:
    archive = sbformat.read(PPO)
    given = {**archive.data["policy_kwargs"]}
    rebuilt = sbformat.rebuild(archive, assign={"policy_kwargs": given}).archive
    assert rebuilt.data["policy_kwargs"] == given
    edited, _ = sbformat.edit(archive, assign=[("policy_kwargs", given), ("/policy_kwargs/net_arch/0", 8)])
    assert edited.data["policy_kwargs"] == given
    assert values.decode_blob(values.encode(archive.data["policy_kwargs"]), Budget(Limits())) == given


def test_options_of_reading_are_refused_for_an_archive() -> None:
    archive = sbformat.read(PPO)
    for options in ({"copy": True}, {"unchecked_crc": True}):
        for function in (sbformat.read, sbformat.read_parameters):
            with pytest.raises(TypeError, match="has been read already"):
                function(archive, **options)
    with pytest.raises(TypeError, match="has been read already"):
        sbformat.safe_open(archive, unchecked_crc=True)


def test_words_of_rebuild_are_checked() -> None:
    with pytest.raises(ValueError, match="expected on_unknown to be one of drop, keep, error, got 'Error'"):
        sbformat.rebuild(PPO, on_unknown="Error")
    with pytest.raises(TypeError, match="supplied_at_load: expected a collection of names"):
        sbformat.rebuild(PPO, supplied_at_load="gamma")
    for name in (None, 5):
        with pytest.raises(sbformat.MissingEntryError, match="there is no"):
            sbformat.read(PPO).parameters[name]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda _: sbformat.scan(PPO, allow=[5]), "expected names in allow, got int"),
        (lambda _: sbformat.edit(PPO, unset=[5]), "expected names in unset, got int"),
        (lambda _: sbformat.edit(PPO, drop=5), "expected drop to be a collection of names, got int"),
        (
            lambda path: sbformat.convert(PPO, path / "policy.pth", entry=None),
            "expected entry to be the name of a state",
        ),
        (lambda _: sbformat.read(PPO).replace(extra=5), "expected extra to be bytes by entry name, got int"),
        (lambda _: sbformat.read(PPO).state_dict(5), "expected the name of an entry, got int"),
    ],
)
def test_an_argument_of_a_wrong_type_is_a_type_error(call: Any, match: str, tmp_path: Any) -> None:
    with pytest.raises(TypeError, match=match):
        call(tmp_path)


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="expected limits of 0 or more, got tensors=-1"):
        sbformat.read(PPO, limits=sbformat.Limits(tensors=-1))


@pytest.mark.parametrize("levels", with_exhaustive([10_000], [100_000]))
def test_a_value_that_is_shared_deep_or_contains_itself_is_thawed(levels: int) -> None:
    shared: list[Any] = [1]
    deep: list[Any] = shared
    for _ in range(levels):
        deep = [deep, deep]
    made = thaw(deep)
    assert made is not deep
    assert made[0] is made[1]
    cyclic: dict[str, Any] = {}
    cyclic["self"] = cyclic
    made = thaw(cyclic)
    assert made["self"] is made
    while deep is not shared:  # a deep list is freed without recursion, level by level
        deep = deep.pop()


def test_lists_are_frozen_as_deep_as_they_are_parsed() -> None:
    levels = 400
    text = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
    value = data.loads(text, limits=Limits(json_depth=1000))["a"]
    for _ in range(levels - 1):
        (value,) = value
    assert value == []
