"""``portable``: state dicts as JSON and tensors by name, and back (WRITER.md 12.6)."""

from __future__ import annotations

import json
import struct
from collections import OrderedDict
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_pth import floats, ordered, torch_zip
from conformance.generators.build_zips import is_terminal_safe
from sbformat import DataError, LimitError, Limits, SbformatError, UnsupportedError, data, pth
from sbformat.limits import Budget
from sbformat.pkl.tree import LAYOUTS
from sbformat.pth import Device, DTypeName, Layout, MemoryFormat, Size, StateDict
from sbformat.pth.compare import equal
from sbformat.pth.portable import from_portable, to_portable
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import more_examples

TENSORS: Final = StateDict.from_arrays({"t": np.arange(4, dtype="f4"), "u": np.zeros((2, 3), "i8")}).tree

finite_or_not = st.one_of(
    st.floats(),
    st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", bits.to_bytes(8, "big"))[0]),
    st.just(-0.0),
)
texts = st.one_of(st.text(), st.text(st.characters(codec=None, min_codepoint=0, max_codepoint=0xFFFF), max_size=9))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**53 - 2, 2**53 + 2),
    st.integers(-(2**200), 2**200),
    finite_or_not,
    texts,
    st.binary(),
    st.builds(complex, finite_or_not, finite_or_not),
    st.builds(Device, st.text(), st.one_of(st.none(), st.integers(-1, 127))),
    st.sampled_from(sorted(LAYOUTS)).map(Layout),
    st.sampled_from(["float32", "qint8", "bool"]).map(DTypeName),
    st.sampled_from(["channels_last", "preserve_format"]).map(MemoryFormat),
    st.lists(st.integers(0, 2**70), max_size=3).map(Size),
)
keys = st.one_of(scalars, st.tuples(scalars, scalars), st.frozensets(scalars, max_size=2))
leaves = st.one_of(
    scalars,
    st.binary().map(bytearray),
    st.sets(keys, max_size=3),
    st.frozensets(keys, max_size=3),
    st.builds(
        lambda name, flags: TENSORS[name]._replace(**flags),
        st.sampled_from("tu"),
        st.fixed_dictionaries({"requires_grad": st.booleans(), "is_parameter": st.booleans()}),
    ),
)


def with_metadata(pairs: dict[Any, Any], metadata: Any) -> OrderedDict[Any, Any]:
    made = OrderedDict(pairs)
    if metadata is not None:
        made._metadata = metadata  # type: ignore[attr-defined]
    return made


trees = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, max_size=4),
        st.lists(parts, max_size=4).map(tuple),
        st.dictionaries(keys, parts, max_size=4),
        st.builds(with_metadata, st.dictionaries(keys, parts, max_size=4), parts),
    ),
    max_leaves=12,
)


def through_json(value: Any) -> Any:
    """What a reader gets: the text of the file by the rules of ``data``."""
    text = json.dumps({"tree": value})
    assert text.isascii()
    return data.loads(text.encode())["tree"]


@more_examples(400)
@given(trees)
def test_a_tree_comes_back_as_it_was(tree: Any) -> None:
    """``from_portable(to_portable(tree)) == tree``, bit for bit; in a file both are the same."""
    split, tensors = to_portable(StateDict(tree, Budget()), "policy")
    used: set[str] = set()
    back = from_portable(through_json(split), tensors, used=used)
    assert equal(tree, back, Budget(), Budget())
    assert used == set(tensors)
    assert to_portable(StateDict(back, Budget()), "policy")[0] == split


def test_json_says_what_it_can_plainly() -> None:
    tree = OrderedDict([("w", TENSORS["t"]), ("n", 3), ("x", 0.5), ("z", float("inf")), ("big", -(2**60)), (1, None)])
    assert to_portable(StateDict(tree, Budget()), "policy")[0] == {
        "ordered_dict": [
            ["w", {"tensor": "policy:w"}],
            ["n", 3],
            ["x", {"float": 0.5}],
            ["z", {"float": "7ff0000000000000"}],
            ["big", {"int": "-0x1000000000000000"}],
            [1, None],
        ]
    }


def test_views_that_are_one_stand_once_and_share_again() -> None:
    shared = np.arange(6, dtype="f4")
    state_dict = StateDict.from_arrays({"a": shared, "b": {"c": shared}, "half": shared[:3]})
    split, tensors = to_portable(state_dict, "policy")
    assert list(tensors) == ["policy:a", "policy:half"]
    back = from_portable(split, tensors)
    assert back["a"].storage is back["b"]["c"].storage


def test_members_of_sets_stand_in_an_order_that_no_hash_decides() -> None:
    for value in ({"b", "a", 3, None}, frozenset([frozenset("xy"), frozenset("z")])):
        (members,) = to_portable(StateDict(value, Budget()), "policy")[0].values()
        assert members == sorted(members, key=json.dumps)


@check_each(
    "tree",
    [
        {"a": TENSORS["t"]._replace(state={"mine": 1})},
        {"a": TENSORS["t"]._replace(dtype="complex32")},
        {"a": TENSORS["t"].storage},
        {"a\0b": TENSORS["t"]},
        {"a\ud800": TENSORS["t"]},
        {"x" * 70_000: TENSORS["t"]},
        {"a": "x" * 60_000_000},
        {"a": [bytes(1 << 20)] * 99},
        [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]],
    ],
)
def test_what_has_no_word_is_refused(tree: Any) -> None:
    with pytest.raises(UnsupportedError) as caught:
        to_portable(StateDict(tree, Budget()), "policy")
    assert is_terminal_safe(str(caught.value))


@pytest.mark.parametrize("where", ["values", "metadata"])
def test_shared_containers_do_not_explode(where: str) -> None:
    value: Any = (None,) * 9
    for _ in range(12):
        value = (value,) * 9
    trees = {"values": {"a": value}, "metadata": with_metadata({}, value)}
    with pytest.raises((UnsupportedError, LimitError)):
        to_portable(StateDict(trees[where], Budget()), "policy")


def test_inert_nodes_have_no_word() -> None:
    from conformance.generators.build_pth import Apply, Name

    state_dict = pth.loads(torch_zip({"a": Apply(Name("os", "system"), ("true",))}), on_unknown="inert")
    with pytest.raises(UnsupportedError, match="no portable form"):
        to_portable(state_dict, "policy")


def test_a_file_of_torch_comes_back() -> None:
    state_dict = pth.loads(torch_zip(ordered({"w": floats((2,))}, {"": {"version": 1}}), {"0": bytes(8)}))
    split, tensors = to_portable(state_dict, "policy")
    assert StateDict(from_portable(through_json(split), tensors), Budget()) == state_dict


# -- hostile ------------------------------------------------------------------------------------------

NESTED: Final = [
    {"dict": [[{"list": []}, 1]]},
    {"dict": [[{"dict": []}, 1]]},
    {"dict": [[{"tuple": [{"list": []}]}, 1]]},
    {"dict": [[{"bytearray": ""}, 1]]},
    {"dict": [["a", 1], ["a", 2]]},
    {"dict": [[1, 1], [True, 2]]},
    {"dict": [[1, 1], [{"float": 1.0}, 2]]},
    {"dict": [["a"]]},
    {"dict": [["a", 1, 2]]},
    {"dict": {"a": 1}},
    {"dict": ["ab"]},
    {"dict": [], "more": 1},
    {"dict": [], "_metadata": None},
    {"ordered_dict": [], "__class__": "x"},
    {"set": [{"list": []}]},
    {"set": [1, 1]},
    {"set": {}},
    {"list": "abc"},
    {"tuple": None},
    {"list": [[1]]},
    {"tensor": "nothing"},
    {"tensor": 1},
    {"tensor": ["t"]},
    {"tensor": {"t": 1}},
    {"tensor": "t", "requires_grad": 1},
    {"tensor": "t", "dtype": "float64"},
    {"int": 5},
    {"int": "5"},
    {"int": "0X5"},
    {"int": " 0x5"},
    {"int": "0x_5"},
    {"int": "0x05"},
    {"int": "\u0665"},
    {"int": ""},
    {"float": True},
    {"float": None},
    {"float": 10**400},
    {"float": "nan"},
    {"float": "7ff00000 0000000"},
    {"float": "7ff000000000000g"},
    {"float": []},
    {"complex": [1]},
    {"complex": [1, 2, 3]},
    {"complex": [1, 10**400]},
    {"complex": 1},
    {"bytes": 1},
    {"bytes": "a"},
    {"bytes": "\u00e9"},
    {"bytes": "aGk"},
    {"bytes": "a\nGk="},
    {"size": [-1]},
    {"size": [True]},
    {"size": [1.0]},
    {"size": 3},
    {"device": ["cpu"]},
    {"device": [1, None]},
    {"device": ["cpu", "0"]},
    {"device": ["cpu", True]},
    {"dtype": "load"},
    {"dtype": "float32\nos\nsystem"},
    {"dtype": ["float32"]},
    {"layout": "evil"},
    {"memory_format": "save"},
    {"memory_format": None},
    {"eval": "1"},
    {"__class__": "dict"},
    {"": 1},
    {"\x1b[31m" * 99: 1},
    {},
    [],
    [1],
    1.5,
]


@check_each("value", NESTED)
def test_forged_trees_are_refused(value: Any) -> None:
    for forged in (value, {"list": [value]}, {"dict": [["key", value]]}, {"ordered_dict": [], "_metadata": value}):
        with pytest.raises(DataError) as caught:
            from_portable(forged, TENSORS)
        assert is_terminal_safe(str(caught.value))


def test_keys_that_could_have_one_hash_are_counted() -> None:
    collide = [{"int": hex(n * (2**61 - 1))} for n in range(1, 1100)]
    for forged in ({"dict": [[key, 1] for key in collide]}, {"set": collide}, {"frozenset": collide}):
        with pytest.raises(LimitError, match="other_keys"):
            from_portable(forged, TENSORS)
        assert len(next(iter([from_portable(forged, TENSORS, limits=Limits(other_keys=2000))]))) == 1099
    rows = {"dict": [[n, 1] for n in range(5000)]}
    assert len(from_portable(rows, TENSORS)) == 5000


@pytest.mark.parametrize("word", ["list", "tuple", "ordered_dict"])
def test_deep_trees_are_refused_without_a_crash(word: str) -> None:
    value: Any = {"list": []}
    for _ in range(3000):
        value = {"ordered_dict": [], "_metadata": value} if word == "ordered_dict" else {word: [value]}
    with pytest.raises(DataError, match="deep"):
        from_portable(value, TENSORS)


words = st.sampled_from([*(next(iter(value)) for value in NESTED[:60] if type(value) is dict), "requires_grad"])
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(["t", "u", "0x1f"])),
    lambda parts: st.one_of(st.lists(parts, max_size=3), st.dictionaries(words, parts, max_size=3)),
    max_leaves=15,
)


@more_examples(400)
@given(json_values)
def test_any_json_is_a_tree_or_an_error_of_ours(value: Any) -> None:
    """What is accepted can be encoded, or is refused by the encoder: nothing else happens."""
    try:
        made = from_portable(value, TENSORS)
        raw = pth.dumps(StateDict(made, Budget()))
    except SbformatError:
        return
    try:
        back = pth.loads(raw)
    except SbformatError:
        return
    assert equal(back.tree, made, Budget(), Budget())
