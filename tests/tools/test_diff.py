"""``diff``: what differs between two archives (FORMAT.md 9)."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict, deque
from glob import glob
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sbformat
from conformance.generators.build_pth import Run, floats, legacy_stream, ordered, storage, tensor, torch_zip
from conformance.generators.build_zips import is_terminal_safe
from sbformat import Archive, LimitError, Limits, Serialized, StateDict
from sbformat.known.spaces import Discrete
from sbformat.pth import Device, DTypeName
from sbformat.tools.diff import Change, DiffReport, diff
from sbformat.values import encode
from sbformat.values.render import ValueRenderer
from tests.helpers import thresholds
from tests.helpers.bundled import PPO, SAC, changed, entries, set_data, with_data, zipped
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import more_examples
from tests.helpers.shared_files import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BASE: Final = sbformat.read(PPO)
SMALL: Final = BASE.without("policy.optimizer.pth", "pytorch_variables.pth")
OTHERS: Final = (
    sorted(glob(str(SHARED / "corpus" / "sb3" / "*")))[::9]
    + sorted(glob(str(SHARED / "generated" / "2*" / "*.zip")))[::9]
)


@pytest.fixture(scope="module", autouse=True, params=["as arrays", "in pieces"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Small tensors are compared whole, those of a megabyte and more in pieces: both say the same of all."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "in pieces":
            patch.setattr(thresholds.COMPARED_IN_PIECES, 0)
            patch.setattr(thresholds.TENSOR_PIECE, 48)
        yield request.param


without_tensors = pytest.mark.parametrize("way", ["as arrays"], indirect=True)
"""Only values of ``data`` differ: nothing is compared in pieces."""


def compare(old: Archive, new: Archive) -> DiffReport:
    """``diff``, with its law checked in both directions, and what it says fit to be shown."""
    there, back = diff(old, new), diff(new, old)
    assert bool(there.changes) == (old != new)
    assert bool(back.changes) == (old != new)
    for change in there.changes:
        assert is_terminal_safe(change.message), change
        assert len(change.message) < 500
    return there


def one(old: Archive, new: Archive) -> Change:
    (change,) = compare(old, new).changes
    return change


def with_policy(tree: Any, base: Archive = BASE) -> Archive:
    return base.replace(parameters={"policy": StateDict.from_arrays(tree)})


def pair(left: Any, right: Any) -> Change:
    return one(with_policy({"a": left, "b": 1}, SMALL), with_policy({"a": right, "b": 1}, SMALL))


# -- the values that differ ---------------------------------------------------------------------------


def with_value(key: str, value: Any) -> Archive:
    return set_data(BASE, {**BASE.data, key: value})


@check_each("value", [0.5, "text", None, True, [1, [2]], {"a": {"b": 1}}, 2**60])
def test_a_change_of_data_has_both_values(value: Any) -> None:
    assert one(BASE, with_value("gamma", value))[-2:] == (0.99, value)
    added = one(BASE, with_value("new", value))
    assert (added.kind, added.old, added.new) == ("added", None, value)
    removed = one(with_value("new", value), BASE)
    assert (removed.kind, removed.old, removed.new) == ("removed", value, None)


def test_a_change_of_a_pickle_has_its_meaning() -> None:
    change = one(BASE, with_value("clip_range", 0.5))
    assert change.old == {"kind": "FloatSchedule", "schedule": {"kind": "ConstantSchedule", "value": 0.2}}
    assert change.new == 0.5
    broken = one(BASE, with_value("clip_range", Serialized("x", b"no pickle")))
    assert broken.new == {"kind": "broken pickle", "bytes": 9}


def test_a_change_of_a_tensor_has_its_dtype_shape_flags_and_few_elements() -> None:
    few = pair(np.float32([1, 2]), np.float32([1, 3]))
    common = {"kind": "tensor", "dtype": "float32", "shape": [2], "requires_grad": False, "is_parameter": False}
    assert few[-2:] == ({**common, "items": [1.0, 2.0]}, {**common, "items": [1.0, 3.0]})
    many = pair(np.zeros(17), np.ones(17))
    assert many.old == {**common, "dtype": "float64", "shape": [17]}
    shape = pair(np.zeros(2, "f4"), np.zeros(3, "f4"))
    assert (shape.old["shape"], shape.new["shape"]) == ([2], [3])
    assert pair(1, 2.5)[-2:] == (1, 2.5)
    assert pair(1, DTypeName("float32")).new == {"kind": "DTypeName", "text": "torch.float32"}


def test_values_of_a_report_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sbformat.tools.diff.ValueRenderer", lambda: ValueRenderer(500))
    other = BASE.replace(data={**BASE.data, **{f"key{index}": ["a" * 90] * 3 for index in range(9)}})
    values = [change.new for change in diff(BASE, other).changes]
    assert values[0] == ["a" * 90] * 3
    assert values[-1] == {"kind": "more"}


def test_versions_and_system_information_have_both_values() -> None:
    change = one(BASE, BASE.replace(stable_baselines3_version="1.0"))
    assert change[-2:] == (BASE.stable_baselines3_version, "1.0")


def test_the_same_archive_differs_in_nothing() -> None:
    report = compare(BASE, sbformat.read(PPO))
    assert report.changes == ()
    assert [(row.name, row.different) for row in report.state_dicts] == [
        ("pytorch_variables.pth", 0),
        ("policy.pth", 0),
        ("policy.optimizer.pth", 0),
    ]
    assert report.state_dicts[1].equal == 12


def test_the_law_holds_for_archives_that_have_little_in_common() -> None:
    archives = [BASE, sbformat.read(SAC), BASE.without("policy.pth"), sbformat.reads(changed(extra=b"x"))]
    archives += [sbformat.read(path, on_unknown="inert") for path in OTHERS]
    for left in archives:
        for right in archives[:4]:
            compare(left, right)


def test_headers_dates_and_compression_do_not_count() -> None:
    import zipfile

    assert not compare(BASE, sbformat.reads(zipped(entries(), zipfile.ZIP_DEFLATED))).changes
    assert not compare(BASE, sbformat.reads(zipped(dict(reversed(entries().items()))))).changes
    assert not compare(BASE, sbformat.reads(sbformat.writes(BASE, reencode=True))).changes


# -- data ---------------------------------------------------------------------------------------------


def edited(change: Any) -> Archive:
    return sbformat.reads(with_data(change))


def reverse(data: dict[str, Any]) -> None:
    items = list(data.items())
    data.clear()
    data.update(reversed(items))


@check_each(
    ("change", "row"),
    [
        (lambda d: d.update(gamma=0.5), ("/gamma", "value", "0.99 became 0.5")),
        (lambda d: d.update(gamma=1), ("/gamma", "type", "0.99 became 1")),
        (lambda d: d.update(seed="\x1b[31m\u202e"), ("/seed", "type", r'0 became "\u001b[31m\u202e"')),
        (lambda d: d.update(mine=float("nan")), ("/mine", "added", "is now NaN")),
        (lambda d: d.pop("gamma"), ("/gamma", "removed", "was 0.99")),
        (lambda d: d["policy_kwargs"].update(net_arch=[8]), ("/policy_kwargs/net_arch", "value", "[8, 8] became [8]")),
        (lambda d: d["policy_kwargs"].update({"a/b~": 1}), ("/policy_kwargs/a~1b~0", "added", "is now 1")),
        (lambda d: d.update(policy_kwargs=[]), ("/policy_kwargs", "type", '{"net_arch": [8, 8]} became []')),
        (reverse, ("", "order", "the order of the keys differs")),
    ],
)
def test_changes_of_data_are_told_by_their_place(change: Any, row: tuple[str, str, str]) -> None:
    found = one(BASE, edited(change))
    assert (found.entry, found.loc, found.kind, found.message) == ("data", *row)
    assert found.max_abs_difference is None


@pytest.mark.parametrize("change", [lambda d: d.update(gamma=0.99), lambda d: d.update(ent_coef=-0.0)])
def test_what_is_equal_by_value_is_no_change(change: Any) -> None:
    assert not compare(BASE, edited(change)).changes


_UNKNOWN = tuple(base64.b64encode(b"\x80" + version + b"cmine\nthing\n.").decode() for version in (b"\x02", b"\x03"))
"""One unknown class, in two protocols."""


@without_tensors
@pytest.mark.parametrize(
    ("key", "left", "right", "message"),
    [
        (
            "start_time", 1643522319123456789, 1643522409123456789,
            "2022-01-30 05:58:39 UTC became 2022-01-30 06:00:09 UTC",
        ),
        ("start_time", 1643522319123456789, 1643522319123456790, "1643522319123456789 became 1643522319123456790"),
        ("tensorboard_log", "a" * 90 + "b", "a" * 90 + "c", f'"\u2026{"a" * 20}b" became "\u2026{"a" * 20}c"'),
        ("tensorboard_log", "a" * 90, "a" * 91, f'"\u2026{"a" * 20}" became "\u2026{"a" * 21}"'),
        ("net", [*range(40), 1], [*range(40), 1.0], f"{str([*range(40)])[:60]}\u2026, at /40: 1 became 1.0"),
        ("net", [*range(40), {"a/b": [1]}], [*range(40), {"a/b": []}], "at /40/a~1b/0: was 1"),
        ("net", [*range(40)], [*range(41)], "at /40: is now 40"),
    ],
)  # fmt: skip
def test_values_that_read_alike_are_told_by_where_they_differ(key: str, left: Any, right: Any, message: str) -> None:
    found = one(edited(lambda d: d.update({key: left})), edited(lambda d: d.update({key: right})))
    assert found.message.endswith(message)


@without_tensors
def test_pickles_that_read_alike_are_told_by_where_they_differ() -> None:
    rows = [deque([{"r": 1.0, "l": 9}, {"r": reward, "l": 9}], maxlen=100) for reward in (2.5, 1 / 3)]
    old, new = (BASE.replace(data={**BASE.data, "ep_info_buffer": Serialized(None, encode(row))}) for row in rows)
    assert one(old, new).message == "deque of 2, at /items/1/r: 2.5 became 0.3333333333333333"


def test_blobs_are_told_by_what_they_mean() -> None:
    found = one(BASE, edited(lambda d: d.update(policy_class=d["rollout_buffer_class"])))
    assert found.message == (
        "the class stable_baselines3.common.policies.ActorCriticPolicy became "
        "the class stable_baselines3.common.buffers.RolloutBuffer"
    )
    found = one(BASE, edited(lambda d: d.update(lr_schedule={":serialized:": "gARLBy4=" * 1})))
    assert found.message == "constant 0.0003, pickled in 132 bytes became 7, pickled in 5 bytes"
    left = edited(lambda d: d.update(lr_schedule={":type:": "\x1b[2J" * 99, ":serialized:": "gARLBy4="}))
    right = edited(lambda d: d.update(lr_schedule={":type:": "\x1b[2J" * 99, ":serialized:": "gAJLBy4="}))
    assert one(left, right).message == "7: same value, pickled differently (5 and 5 bytes)"
    carried = [edited(lambda d, b=b: d.update(lr_schedule={":type:": "x", ":serialized:": b})) for b in _UNKNOWN]
    assert one(*carried).message.endswith(": other bytes in the pickle")
    described = [
        edited(lambda d, name=name: d.update(lr_schedule={":type:": "x", ":serialized:": "gARLBy4=", **name}))
        for name in ({"__init__": "at 0x1"}, {"__init__": "at 0x2"}, {str(key): 1 for key in range(5)})
    ]
    assert one(*described[:2]).message == "7, pickled in 5 bytes: same pickle, other description ('__init__')"
    assert one(*described[1:]).message.endswith(": same pickle, other description ('__init__', '0', '1' and 3 more)")
    space = BASE.decode("action_space")
    plain = Discrete("gymnasium", space.n, space.start, space.dtype, None)
    found = one(BASE, BASE.replace(data={**BASE.data, "action_space": sbformat.Serialized(None, encode(plain))}))
    assert found.message.startswith("Discrete(2): its random generator differs (670 and ")
    broken = edited(lambda d: d.update(lr_schedule={":type:": "\x1b[2J" * 99, ":serialized:": "gARL"}))
    assert one(left, broken).message == "7, pickled in 5 bytes became a broken pickle of 3 bytes"
    hostile = edited(lambda d: d.update(lr_schedule={":type:": "x", ":serialized:": "gARYBAAAABtbMkou"}))
    assert "\x1b" not in one(left, hostile).message


def test_the_place_of_a_key_is_its_pointer_whatever_it_is_called() -> None:
    evil = "\x1b]0;pwned\x07\u202e~/" * 100
    found = one(BASE, edited(lambda d: d.update({evil: {evil: evil}})))
    assert found.loc == f"/{evil}".replace("~/", "~0~1")
    assert is_terminal_safe(found.message)


@without_tensors
def test_large_objects_take_linear_time() -> None:
    limits = Limits(memory_bytes=1 << 30)
    left = sbformat.reads(with_data(lambda d: d.update(mine={str(n): n for n in range(30_000)})), limits=limits)
    right = sbformat.reads(
        with_data(lambda d: d.update(mine={str(n): n + (n % 9 == 0) for n in range(30_000)})), limits=limits
    )
    assert len(diff(left, right).changes) == 3334


@without_tensors
def test_what_a_report_holds_is_limited() -> None:
    deep: dict[str, Any] = {str(n): n for n in range(2000)}
    for _ in range(50):
        deep = {"k" * 80: deep}
    right = edited(lambda d: d.update(mine=deep))
    left = edited(lambda d: d.update(mine=json.loads(json.dumps(deep).replace(": 1", ": 2"))))
    small = sbformat.read(PPO, limits=Limits(reported_values=500))
    assert len(diff(left, right).changes) > 1000
    for archive in (left, small.replace(data=left.data)):
        if archive is not left:
            with pytest.raises(LimitError, match="reported_values"):
                diff(archive, right)


# -- entries ------------------------------------------------------------------------------------------


@check_each("name", ["data", "policy.pth", "_stable_baselines3_version", "system_info.txt"])
def test_entries_that_one_lacks(name: str) -> None:
    found = compare(BASE, BASE.without(name))
    assert [(row.entry, row.loc, row.kind) for row in found.changes] == [(name, "", "removed")]
    assert one(BASE.without(name), BASE).kind == "added"


def test_versions_and_system_info() -> None:
    found = one(BASE, BASE.replace(stable_baselines3_version="1.0"))
    assert (found.entry, found.kind, found.message) == ("_stable_baselines3_version", "value", "2.9.2 became 1.0")
    assert one(BASE, BASE.replace(stable_baselines3_version="2.9.2\n")).kind == "bytes"
    assert BASE.system_info is not None
    text = BASE.system_info.text
    assert one(BASE, BASE.replace(system_info=text + "no field\n")).kind == "bytes"
    found = one(BASE, BASE.replace(system_info=text + "- Mi/ne: \x1b[2J\n"))
    assert (found.loc, found.kind, found.message) == ("/Mi~1ne", "added", r"is now \x1b[2J")
    found = one(BASE, BASE.replace(system_info=text.replace("- OS: ", "- OS: Plan 9, not ")))
    assert (found.loc, found.kind) == ("/OS", "value")
    found = one(BASE.replace(system_info=text + "- Mine: nothing\n"), BASE)
    assert (found.loc, found.kind, found.message) == ("/Mine", "removed", "was nothing")


def test_extra_entries_by_their_bytes() -> None:
    left, right = BASE.replace(extra={"notes": b"ab"}), BASE.replace(extra={"notes": b"abc"})
    assert one(left, right).message == "2 bytes became 3 other bytes"


@check_each("name", ["policy_pth", "data", "_stable_baselines3_version"])
def test_broken_entries_are_compared_by_bytes(name: str) -> None:
    left, right = (sbformat.reads(changed(**{name: raw})) for raw in (b"\xffa", b"\xffb"))
    found = one(left, right)
    assert found.kind == "bytes"
    assert not compare(left, sbformat.reads(changed(**{name: b"\xffa"}))).changes
    assert one(BASE, left).kind == "bytes"


def test_a_broken_tensor_is_compared_by_bytes() -> None:
    good = torch_zip(ordered({"a": floats((2,)), "b": floats((2,), "1")}), {"0": b"goodgood", "1": bytes(8)})
    bad = good.replace(b"goodgood", b"goodbad!")
    left, right = (sbformat.reads(zipped({**entries(), "policy.pth": raw})) for raw in (good, bad))
    assert one(left, right).kind == "bytes"
    assert not compare(right, sbformat.reads(zipped({**entries(), "policy.pth": bad}))).changes


def test_lone_files_and_folders(tmp_path: Path) -> None:
    for name, content in entries().items():
        (tmp_path / name).write_bytes(content)
    assert not compare(BASE, sbformat.read(tmp_path)).changes
    lone = sbformat.read(tmp_path / "policy.pth")
    assert {change.kind for change in compare(BASE, lone).changes} == {"removed"}
    assert not compare(lone, sbformat.reads(entries()["policy.pth"])).changes
    legacy = legacy_stream(
        ordered({"w": tensor(storage(2, "0", "FloatStorage", "cpu", None), (2,))}), [Run("0", 2, bytes(8))]
    )
    assert not compare(
        sbformat.reads(legacy), sbformat.reads(torch_zip(ordered({"w": floats((2,))}), {"0": bytes(8)}))
    ).changes


# -- state dicts --------------------------------------------------------------------------------------

INF, NAN = float("inf"), float("nan")


@check_each(
    ("left", "right", "distance"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 2.5]), 0.5),
        (np.array(1.0), np.array(3.0), 2.0),
        (np.array([False, True]), np.array([True, True]), 1.0),
        (np.array([True]), np.array([False]), 1.0),
        (np.array([2**63 - 1]), np.array([-(2**63)]), 2.0**64),
        (np.array([-(2**63)]), np.array([2**63 - 1]), 2.0**64),
        (np.array([0], "u8"), np.array([2**64 - 1], "u8"), 2.0**64),
        (np.array([2**63], "u8"), np.array([2**63 + 1], "u8"), 1.0),
        (np.array([-128], "i1"), np.array([127], "i1"), 255.0),
        (np.array([0], "u1"), np.array([255], "u1"), 255.0),
        (np.array([3 + 0j], "c8"), np.array([0 + 4j], "c8"), 5.0),
        (np.array([0.0]), np.array([-0.0]), 0.0),
        (np.array([INF]), np.array([1.0]), INF),
        (np.array([INF]), np.array([-INF]), INF),
        (np.array([INF, 1.0]), np.array([INF, 2.0]), 1.0),
        (np.array([1.7e308]), np.array([-1.7e308]), INF),
        (np.array([NAN, 1.0]), np.array([2.0, 2.0]), None),
        (np.array([NAN, 1.0]), np.array([NAN, 2.0]), 1.0),
        (np.array([0x7FF8000000000000], "u8").view("f8"), np.array([0x7FF8000000000001], "u8").view("f8"), None),
        (np.array([65504], "f2"), np.array([-65504], "f2"), 131008.0),
        (np.array([1, 2]).astype(ml_dtypes.bfloat16), np.array([1, 4]).astype(ml_dtypes.bfloat16), 2.0),
        (np.array([1, 2]).astype(ml_dtypes.float8_e4m3fn), np.array([1, 4]).astype(ml_dtypes.float8_e4m3fn), 2.0),
        (np.array([1, 2]).astype(ml_dtypes.float8_e5m2), np.array([1, 4]).astype(ml_dtypes.float8_e5m2), 2.0),
        (np.arange(6.0).reshape(2, 3).T, np.zeros((3, 2)), 5.0),
        (np.broadcast_to(np.float32(1), (3, 4)), np.zeros((3, 4), "f4"), 1.0),
    ],
)  # fmt: skip
def test_how_far_tensors_are_apart(left: np.ndarray, right: np.ndarray, distance: float | None) -> None:
    found = pair(left, right)
    assert (found.entry, found.loc, found.kind) == ("policy.pth", "a", "value")
    assert found.max_abs_difference == distance
    assert pair(right, left).max_abs_difference == distance
    assert f"of {left.size} elements differ" in found.message


def test_a_difference_is_found_wherever_it_lies(way: str) -> None:
    rows, elements = (700, "630,000") if way == "as arrays" else (50, "45,000")
    large = np.zeros((rows, 900), "f4")
    other = large.copy()
    other[-1, -1] = 3
    other[0, 0] = -1
    found = pair(large, other)
    assert found.max_abs_difference == 3
    assert found.message == f"2 of {elements} elements differ, by at most 3"


def test_equal_items_in_another_layout_are_no_change() -> None:
    left = with_policy({"a": np.arange(6.0).reshape(2, 3).T, "b": np.zeros((0, 2)), "c": np.broadcast_to(1.0, (2, 2))})
    right = with_policy({"a": np.array(np.arange(6.0).reshape(2, 3).T), "b": np.zeros((0, 2)), "c": np.ones((2, 2))})
    assert not compare(left, right).changes


@check_each(
    ("left", "right", "kind", "message"),
    [
        (np.zeros(2, "f4"), np.zeros(3, "f4"), "shape", "(2) became (3)"),
        (np.zeros((0, 2), "f4"), np.zeros((2, 0), "f4"), "shape", "(0, 2) became (2, 0)"),
        (np.zeros(2, "f4"), np.zeros(2, "f8"), "dtype", "float32 became float64"),
        (np.zeros(2, "f4"), 3, "type", "a tensor float32 (2) became 3"),
        (1, 1.0, "type", "1 became 1.0"),
        (1, True, "type", "1 became True"),
        (0.0, -0.0, "value", "0.0 became -0.0"),
        (NAN, INF, "value", "nan became inf"),
        (1, 1 << 9_000, "value", "1 became an integer of 9001 bits"),
        ("x", "y" * 1000, "value", "'x' became '" + "y" * 59 + "\u2026"),
        ("x", "\x1b[2J", "value", r"'x' became '\x1b[2J'"),
        (b"ab", b"ac", "value", "a bytes of 2 became a different one"),
        ({1}, {2}, "value", "a set of 1 became a different one"),
        ({}, [], "type", "a dict of 0 became a list of 0"),
        ({}, OrderedDict(), "type", "a dict of 0 became an OrderedDict of 0"),
        (DTypeName("float32"), DTypeName("float64"), "value", "torch.float32 became torch.float64"),
        (Device("cpu"), Device("cuda", 1), "value", "the device cpu became the device cuda:1"),
        ({"x": 1}, OrderedDict(x=1), "structure", None),
        ([1], (1,), "structure", None),
        ([1], {0: 1}, "structure", None),
    ],
)
def test_changes_of_values_in_a_state_dict(left: Any, right: Any, kind: str, message: str | None) -> None:
    found = pair(left, right)
    assert found.kind == kind
    assert found.loc == ("" if kind == "structure" else "a")
    assert message is None or found.message == message
    assert found.max_abs_difference is None


def test_flags_and_attributes() -> None:
    state_dict = BASE.parameters["policy"]
    name, info = next(iter(state_dict.tensors().items()))

    def policy(**fields: Any) -> Archive:
        tree = OrderedDict(state_dict.tree)
        tree[name] = info._replace(**fields)
        tree._metadata = state_dict.tree._metadata  # type: ignore[attr-defined]
        return BASE.replace(parameters={"policy": state_dict.with_tree(tree)})

    found = one(policy(), policy(requires_grad=True, is_parameter=True))
    assert (found.loc, found.kind) == (name, "flags")
    assert found.message == "requires_grad False became True, is_parameter False became True"
    assert one(policy(), policy(state={"mine": 1})).message == "the attributes differ"
    assert one(policy(state={"mine": 1}), policy(state={"mine": 2})).kind == "flags"


def test_order_and_metadata() -> None:
    left = with_policy({"a": 1, "b": np.zeros(2)})
    assert one(left, with_policy({"b": np.zeros(2), "a": 1})).kind == "order"
    tree = OrderedDict(a=1)
    tree._metadata = {"version": 1}  # type: ignore[attr-defined]
    assert one(with_policy(OrderedDict(a=1)), with_policy(tree)).kind == "structure"


def test_all_in_which_a_tensor_differs_is_told() -> None:
    kinds = [
        row.kind for row in compare(with_policy({"a": np.zeros(2)}), with_policy({"a": np.zeros(3, "i4")})).changes
    ]
    assert kinds == ["shape", "dtype"]


def test_what_one_lacks_and_a_summary() -> None:
    left = with_policy({"a": np.zeros(2), "b": np.zeros(2), "c": np.zeros(2), "n": 1})
    right = with_policy({"a": np.zeros(2), "b": np.array([0, 3.0]), "d": [np.zeros(2)], "n": 2})
    report = compare(left, right)
    assert [(row.loc, row.kind) for row in report.changes] == [
        ("b", "value"), ("c", "removed"), ("n", "value"), ("d/[0]", "added"),
    ]  # fmt: skip
    row = next(row for row in report.state_dicts if row.name == "policy.pth")
    assert (row.equal, row.different, row.max_abs_difference) == (1, 3, 3.0)


def test_a_lone_tensor() -> None:
    left, right = (sbformat.reads(sbformat.pth.dumps(StateDict.from_arrays(np.array([n])))) for n in (1, 3))
    assert one(left, right)[1:3] == ("", "value")
    assert diff(left, right).state_dicts[0].different == 1


@without_tensors
def test_more_values_than_are_walked_are_compared_all_the_same() -> None:
    values: Any = 1
    for _ in range(5):
        values = [values] * 8
    limits = Limits(leaves=20_000)
    files = [torch_zip({"a": values, "b": n}, protocol=p) for n, p in ((1, 2), (1, 4), (2, 2))]
    left, right, other = (sbformat.reads(file, limits=limits) for file in files)
    assert not compare(left, right).changes
    assert one(left, other).kind == "bytes"


values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.just({"a": 1}))
parts = st.recursive(values, lambda p: st.one_of(st.lists(p, max_size=2), st.dictionaries(st.text(max_size=2), p)))
arrays = st.sampled_from(
    [np.zeros(2), np.zeros(2, "f4"), np.array([-0.0, 0]), np.zeros((2, 1)), np.array([NAN, 1]), np.ones(2), 1, {}]
)
edits = st.tuples(
    st.dictionaries(st.sampled_from("abc"), parts, max_size=3), st.dictionaries(st.sampled_from("abc"), arrays)
)


@more_examples(60)
@given(st.tuples(edits, edits))
def test_the_law_holds_for_any_edit(sides: tuple[tuple[Any, Any], ...]) -> None:
    """``bool(diff(a, b).changes) == (a != b)``"""
    compare(*[with_policy(weights, SMALL).replace(data={"gamma": 0.9, "mine": mine}) for mine, weights in sides])
