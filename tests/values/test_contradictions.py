"""Fields that contradict one another, occur twice, or are ignored by their library: the library's value, or none.

What the libraries make of each was looked up in them; ``interop/test_values_differential.py`` asks them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import pytest

from sbformat import pkl
from sbformat.errors import TensorError
from sbformat.known.spaces import Graph, Sequence
from sbformat.known.types import ConstantSchedule, LinearSchedule
from sbformat.pkl import Call, Dict, Global, Node
from sbformat.pkl.numpy import ArrayInfo, array_info
from sbformat.tools.scan import scan
from tests.helpers.build_blobs import (
    UTILS,
    array,
    box,
    call,
    change,
    decode_outcome,
    discrete,
    dtype,
    new,
    refused,
    understood,
)
from tests.helpers.many_cases import check_each
from tests.values.test_spaces import space

if TYPE_CHECKING:
    from collections.abc import Callable

ONE: Final = struct.pack("<f", 0.0003)
"""0.0003 as a little-endian binary32; as a big-endian one it is another number."""


def scalar(kind: Call, items: bytes = ONE) -> Call:
    return call("numpy.core.multiarray", "scalar", kind, items)


def kind_of(copy: object, order: str, code: str = "f4", *, is_built: bool = True) -> Call:
    made = call("numpy", "dtype", code, False, copy)
    return change(made, (3, order, None, None, None, -1, -1, 0)) if is_built else made  # type: ignore[no-any-return]


# -- numpy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copy", [False, 0])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_state_that_numpy_ignores_is_refused(copy: object, order: str) -> None:
    """numpy.dtype("f4", False, False) is the one of the process: BUILD does nothing to it."""
    refused(scalar(kind_of(copy, order)), "ignores")
    refused(kind_of(copy, order), "ignores")
    refused(change(call("numpy", "dtype", "f4"), (3, order, None, None, None, -1, -1, 0)), "ignores")
    found = understood(scalar(kind_of(copy, order, is_built=False)))
    assert found.to_numpy() == pytest.approx(0.0003)


def test_a_scan_does_not_call_it_clean() -> None:
    for order in "<>":
        assert scan(pkl.dumps(scalar(kind_of(False, order)))).verdict != "clean"
        assert scan(pkl.dumps(scalar(kind_of(True, order)))).verdict == "clean"


STREAM: Final = b"cnumpy\ndtype\n(\x8c\x02i4\x89\x88tR\x94"
BUILT: Final = b"(K\x03\x8c\x01>NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
ARRAY: Final = b"cnumpy.core.numeric\n_frombuffer\n(C\x04\x00\x00\x00\x01%sK\x01\x85\x8c\x01CtR"


@pytest.mark.parametrize(
    "body",
    [
        STREAM + ARRAY % b"h\x00" + b"h\x00" + BUILT + b"\x86",
        STREAM + ARRAY % b"h\x00" + b"\x86" + b"h\x00" + BUILT + b"\x86",
        STREAM + b"2" + ARRAY % b"h\x00" + b"0" + BUILT + b"0" + ARRAY % b"h\x00",
    ],
)
def test_a_dtype_that_changes_after_an_array_has_it(body: bytes) -> None:
    """The tree has the dtype as it is in the end; numpy's array was made of what it was."""
    outcome = decode_outcome(b"\x80\x04" + body + b".")
    parts = outcome.value if isinstance(outcome.value, tuple) else (outcome.value,)
    assert not any(isinstance(part, ArrayInfo) for part in parts)
    assert any("changed afterwards" in issue.message for issue in outcome.issues)


def test_a_list_that_grows_after_it_was_given() -> None:
    """deque([1]) copies the list; what is appended to that afterwards is not in it."""
    outcome = decode_outcome(b"\x80\x04ccollections\ndeque\n]\x94K\x01a\x85Rh\x00K\x02a\x86.")
    assert isinstance(outcome.value[0], Node)
    assert "changed afterwards" in outcome.issues[0].message


OBJECTS: Final = (3, "|", None, None, None, -1, -1, 63)
REBUILT: Final = (Global("numpy", "ndarray"), (0,), b"b")


def rebuilt(state: tuple[Any, ...], *args: Any) -> Call:
    return change(call("numpy.core.multiarray", "_reconstruct", *(args or REBUILT)), state)  # type: ignore[no-any-return]


def rows(**changes: Any) -> Call:
    """A structured dtype, with what differs in its state."""
    parts = {"order": "|", "base": None, "names": ("a",), "fields": {"a": (dtype("f4"), 0)}, "size": 4, "align": 1,
             "flags": 0, **changes}  # fmt: skip
    return change(call("numpy", "dtype", "V4", False, True), (3, *parts.values()))  # type: ignore[no-any-return]


def dtype_call() -> Call:
    return kind_of(True, "", is_built=False)


NUMPY: Final[dict[str, Callable[[], Any]]] = {
    "got a bytearray": lambda: array((1,), bytearray(4)),
    "a scalar in a bytearray": lambda: scalar(dtype("f4"), bytearray(4)),  # type: ignore[arg-type]
    "an order of 2": lambda: rebuilt((1, (1,), dtype("f4"), 2, bytes(4))),
    "an order larger than numpy's": lambda: rebuilt((1, (1,), dtype("f4"), 2**40, bytes(4))),
    "a version of another": lambda: rebuilt((2, (1,), dtype("O8", "|"), False, [1])),
    "objects in an order of 2": lambda: rebuilt((1, (1,), dtype("O8", "|"), 2, [1])),
    "objects of a byte order": lambda: rebuilt((1, (1,), dtype("O8", ">"), False, [1])),
    "objects of another start": lambda: rebuilt((1, (1,), dtype("O8", "|"), False, [1]), REBUILT[0], (1,), b"b"),
    "a start of a bool": lambda: rebuilt((1, (1,), dtype("f4"), False, bytes(4)), REBUILT[0], (False,), b"b"),
    "a start of a float": lambda: rebuilt((1, (1,), dtype("f4"), False, bytes(4)), REBUILT[0], (0.0,), b"b"),
    "a bool in a state": lambda: change(dtype_call(), (3, "<", None, None, None, -1, -1, False)),
    "a float in a state": lambda: change(dtype_call(), (3, "<", None, None, None, -1.0, -1, 0)),
    "objects of no copy": lambda: change(call("numpy", "dtype", "O8", False, False), OBJECTS),
    "a field without a name": lambda: rows(names=("",), fields={"": (dtype("f4"), 0)}),
    "a field with a title": lambda: rows(fields={"a": (dtype("f4"), 0, "t")}),
    "no fields": lambda: rows(names=(), fields=Dict()),
    "fields that overlap": lambda: rows(names=("a", "b"), fields={"a": (dtype("f4"), 0), "b": (dtype("i1", "|"), 3)}),
    "text beyond Unicode": lambda: array((1,), b"\0\0\x11\0", "U1"),
    "a character beyond Unicode": lambda: scalar(dtype("U1"), b"\0\0\x11\0"),
    "bytes that are big-endian": lambda: array((2,), b"ab", "u1", ">"),
    "an alignment of 3": lambda: rows(align=3),
    "a flag that is a bool": lambda: rows(flags=False),
    "a buffer of nothing": lambda: call("numpy.core.numeric", "_frombuffer", b"", dtype("U0"), (4,), "C"),
}  # fmt: skip


@check_each("what", NUMPY)
def test_what_numpy_reads_otherwise_or_not_at_all(what: str) -> None:
    refused(NUMPY[what]())


# -- random generators --------------------------------------------------------------------------------

PICKLE: Final = "numpy.random._pickle"
PCG: Final = {"bit_generator": "PCG64", "state": {"state": 5, "inc": 7}, "has_uint32": 0, "uinteger": 0}
GAUSS: Final = {"has_gauss": 0, "gauss": 0.0}


def bits(state: object = PCG) -> Call:
    return change(call(PICKLE, "__bit_generator_ctor", Global("numpy.random._pcg64", "PCG64")), (state, None))  # type: ignore[no-any-return]


GENERATORS: Final[dict[str, Callable[[], Any]]] = {
    "no state": lambda: call(PICKLE, "__generator_ctor", "PCG64"),
    "a state of None": lambda: change(call(PICKLE, "__generator_ctor", "PCG64"), None),
    "a RandomState of no state": lambda: call("numpy.random", "__RandomState_ctor"),
    "another state than its bits": lambda: change(
        call(PICKLE, "__randomstate_ctor", bits()), {**PCG, **GAUSS, "uinteger": 1}
    ),
    "another state than its generator's": lambda: change(
        call(PICKLE, "__generator_ctor", bits()), {**PCG, "uinteger": 1}
    ),
    "a RandomState of bits alone": lambda: call(PICKLE, "__randomstate_ctor", bits()),
    "a pair for a generator": lambda: change(call(PICKLE, "__generator_ctor", "PCG64"), (PCG, None)),
    "a Gaussian in a generator": lambda: change(call(PICKLE, "__generator_ctor", "PCG64"), {**PCG, **GAUSS}),
    "no Gaussian in a RandomState": lambda: change(call(PICKLE, "__randomstate_ctor", "PCG64"), PCG),
    "numbers beside the inner state": lambda: bits({**PCG, "state": {}, "inc": 7}),
    "numbers within the inner state": lambda: bits({**PCG, "state": {**PCG["state"], "has_uint32": 1}}),  # type: ignore[dict-item]
    "a constructor of another kind": lambda: change(
        call(PICKLE, "__generator_ctor", "PCG64", Global(PICKLE, "__randomstate_ctor")), PCG
    ),
}


@check_each("what", GENERATORS)
def test_generators_that_numpy_makes_otherwise(what: str) -> None:
    refused(GENERATORS[what](), "generator")


def test_a_random_state_has_the_state_of_its_bits_once_more() -> None:
    found = understood(change(call(PICKLE, "__randomstate_ctor", bits()), {**PCG, **GAUSS}))
    assert (found.kind, found.state) == ("RandomState", {**PCG, **GAUSS})


# -- spaces -------------------------------------------------------------------------------------------

LOW: Final = array((2,), bytes(8))
BOUNDS: Final[dict[str, Any]] = {"low": LOW, "high": LOW, "dtype": dtype("f4")}
NVEC: Final[dict[str, Any]] = {"nvec": array((2,), bytes([3, 4]), "i1", "|"), "dtype": dtype("i1", "|")}
LETTERS: Final[dict[str, Any]] = {"min_length": 0, "max_length": 2, "_char_list": ("a", "b")}
SPACES: Final[dict[str, Callable[[], Any]]] = {
    "two shapes": lambda: space("box", "Box", **BOUNDS, _shape=(2,), shape=(2, 1)),
    "one shape twice": lambda: space("box", "Box", **BOUNDS, _shape=(2,), shape=(2,)),
    "two generators": lambda: discrete(2, np_random=None, _np_random=None),
    "a Box without a shape": lambda: box(LOW, LOW, None),
    "a Box of text": lambda: box(LOW, LOW, (2,), dtype=dtype("U1")),
    "a Box without a dtype": lambda: box(LOW, LOW, (2,), dtype=None),
    "a Box of a dtype of torch": lambda: box(LOW, LOW, (2,), dtype=Global("torch", "float32")),
    "a Box bounded by numbers": lambda: box(LOW, LOW, (2,), bounded_below=LOW),
    "a Box bounded by None": lambda: box(LOW, LOW, (2,), bounded_below=None),
    "a Discrete of a shape": lambda: discrete(2, _shape=(3,)),
    "a Discrete without a shape": lambda: discrete(2, _shape=None),
    "a Discrete of floats": lambda: discrete(2, dtype=dtype("f4")),
    "a Discrete that starts at None": lambda: discrete(2, start=None),
    "a MultiDiscrete of a shape": lambda: space("multi_discrete", "MultiDiscrete", _shape=(3,), **NVEC),
    "a MultiDiscrete that starts at None": lambda: space(
        "multi_discrete", "MultiDiscrete", _shape=(2,), start=None, **NVEC
    ),
    "a MultiDiscrete of floats": lambda: space(
        "multi_discrete", "MultiDiscrete", _shape=(2,), nvec=LOW, dtype=dtype("i8")
    ),
    "a MultiDiscrete without _shape": lambda: new(
        "gymnasium.spaces.multi_discrete", "MultiDiscrete", {"shape": (2,), **NVEC}
    ),
    "a MultiBinary of a shape": lambda: space("multi_binary", "MultiBinary", _shape=(3,), n=2, dtype=dtype("i1", "|")),
    "a Dict of a shape": lambda: space("dict", "Dict", _shape=(2,), spaces={"a": discrete(2)}),
    "a Dict of a dtype": lambda: space("dict", "Dict", dtype=dtype("f4"), spaces={"a": discrete(2)}),
    "a Dict that sorts None": lambda: space("dict", "Dict", sort_keys=None, spaces={"a": discrete(2)}),
    "a Tuple of a list": lambda: space("tuple", "Tuple", spaces=[discrete(2)]),
    "a Text of other members": lambda: space("text", "Text", **LETTERS, _char_set=frozenset("ac")),
    "a Text of another text": lambda: space("text", "Text", **LETTERS, _char_str="ac"),
    "a Text of another index": lambda: space("text", "Text", **LETTERS, _char_index={"a": 1, "b": 0}),
    "a Text of words": lambda: space("text", "Text", min_length=0, max_length=2, _char_list=("ab", "c")),
    "a Text of two lists": lambda: space("text", "Text", **LETTERS, _charlist=["a", "b"]),
    "a Text of numbers": lambda: space("text", "Text", **LETTERS, dtype=dtype("f4")),
    "a Sequence that stacks None": lambda: space("sequence", "Sequence", feature_space=discrete(2), stack=None),
}


@check_each("what", SPACES)
def test_spaces_whose_attributes_contradict_one_another(what: str) -> None:
    refused(SPACES[what]())


def test_attributes_that_are_referred_to_elsewhere() -> None:
    """VecNormalize changes the dict that it is given, which the other reference would have as it is then."""
    state = Dict([("val", 0.5)])
    outcome = decode_outcome([new(UTILS, "ConstantSchedule", state), state])
    assert "of its own" in outcome.issues[0].message


def test_spaces_that_gymnasium_does_not_derive_again_are_kept() -> None:
    found = understood(
        space("sequence", "Sequence", feature_space=discrete(2), stack=True, stacked_feature_space=discrete(9))
    )
    assert isinstance(found, Sequence)
    assert found.stacked_feature_space is not None
    assert found.stacked_feature_space.n == 9  # type: ignore[union-attr]
    found = understood(space("graph", "Graph", node_space=discrete(2), edge_space=None, batch_node_space=discrete(9)))
    assert isinstance(found, Graph)
    assert (found.batch_node_space.n, found.batch_edge_space) == (9, None)  # type: ignore[union-attr]


# -- others -------------------------------------------------------------------------------------------


def test_numbers_that_numpy_calculates_with_in_another_dtype() -> None:
    single, double = scalar(dtype("f4")), scalar(dtype("f8"), bytes(8))
    assert isinstance(understood(new(UTILS, "ConstantSchedule", {"val": single})), ConstantSchedule)
    line = {"start": double, "end": 0.5, "end_fraction": 1}
    assert understood(new(UTILS, "LinearSchedule", line)) == LinearSchedule(0.0, 0.5, 1)
    for name in line:
        refused(new(UTILS, "LinearSchedule", {**line, name: single}), "float64")
    refused(call(UTILS, "get_linear_fn", single, 0.0, 1.0), "float64")
    refused(new("rl_zoo3.utils", "SimpleLinearSchedule", {"initial_value": single}), "float64")


UNIT: Final = ("stable_baselines3.common.type_aliases", "TrainFrequencyUnit")
GOAL: Final = ("stable_baselines3.her.goal_selection_strategy", "GoalSelectionStrategy")
OTHERS: Final[dict[str, Callable[[], Any]]] = {
    "no member": lambda: call(*UNIT, "day"),
    "a member by its number": lambda: call(*UNIT, 1),
    "no goal": lambda: call(*GOAL, 3),
    "a goal that is a bool": lambda: call(*GOAL, True),
    "a frequency in goals": lambda: new(UNIT[0], "TrainFreq", None, 1, call(*GOAL, 1)),
    "a length of numpy": lambda: call("collections", "deque", (), scalar(dtype("i8"), bytes(8))),
    "a length that is a float": lambda: call("collections", "deque", (), 1.0),
    "a range of None": lambda: call("builtins", "range", None),
    "a range of no step": lambda: call("builtins", "range", 1, 2, 0),
}


@check_each("what", OTHERS)
def test_others_that_python_makes_otherwise_or_not_at_all(what: str) -> None:
    refused(OTHERS[what]())


def test_a_state_dict_refuses_the_same() -> None:
    for order in "<>":
        with pytest.raises(TensorError, match="ignores"):
            array_info(scalar(kind_of(False, order)))
