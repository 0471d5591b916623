"""The spaces of gym and gymnasium, in the spellings that their releases have had, and what no release writes."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from sbformat import UnsupportedError
from sbformat.known.spaces import (
    Box,
    DictSpace,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Space,
    Text,
    TupleSpace,
)
from sbformat.known.types import RandomState
from sbformat.pkl import Call, Global, Node
from sbformat.pkl.numpy import ArrayInfo
from tests.helpers.build_blobs import (
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

if TYPE_CHECKING:
    from collections.abc import Callable

TWO: Final = ("discrete", "Discrete")


def space(module: str, name: str, library: str = "gymnasium", **state: object) -> Call:
    return new(f"{library}.spaces.{module}", name, {"_shape": None, "dtype": None, "_np_random": None, **state})


def bounds(low: bytes = bytes(8), shape: tuple[int, ...] = (2,)) -> Call:
    return array(shape, low)


def scalar(value: int, code: str = "i8") -> Call:
    return call("numpy.core.multiarray", "scalar", dtype(code), value.to_bytes(8, "little"))


EIGHT_BITS: Final[dict[str, Any]] = {"_shape": (2,), "dtype": dtype("i1", "|")}
TEXTS: Final[dict[str, Callable[[], Call]]] = {
    "gym 0.26": lambda: space("text", "Text", "gym", min_length=1, max_length=5, _char_set=frozenset("ab"),
                              _char_list=("a", "b"), _char_index={"a": 0, "b": scalar(1)}, _char_str="ab"),
    "gym 0.25": lambda: space("text", "Text", "gym", min_length=1, max_length=5, _charlist=["a", "b"],
                              _charset_str="ab",
                              charset={"a", "b"}),
}  # fmt: skip


def test_a_box_of_every_era() -> None:
    low, high = bounds(), bounds(b"\0\0\x80?" * 2)
    new_one = understood(
        box(low, high, (2,), low_repr="0.0", high_repr="1.0", bounded_below=array((2,), b"\1\1", "b1", "|"))
    )
    assert isinstance(new_one, Box)
    assert (new_one.library, new_one.shape, new_one.dtype, new_one.random) == ("gymnasium", (2,), "<f4", None)
    assert new_one.high.to_numpy().tolist() == [1, 1]
    old = understood(
        new("gym.spaces.box", "Box", {"low": low, "high": high, "shape": (2,), "dtype": Global("numpy", "float32")})
    )
    assert (old.library, old.shape, old.dtype) == ("gym", (2,), "<f4")
    assert (
        understood(new("gym.spaces.box", "Box", {"low": low, "high": high, "shape": [2], "dtype": None})).dtype == "<f4"
    )
    assert understood(new("gym.spaces.box", "Box", {"low": low, "high": high})).shape == (2,)


def test_a_discrete_of_every_era() -> None:
    assert understood(discrete(4, start=-1)) == Discrete("gymnasium", 4, -1, "<i8", None)
    assert understood(discrete(scalar(4), start=scalar(1))) == Discrete("gymnasium", 4, 1, "<i8", None)
    assert understood(new("gym.spaces.discrete", "Discrete", {"n": 4})) == Discrete("gym", 4, 0, "<i8", None)
    assert understood(discrete(2**40)).n == 2**40


def test_several_numbers_and_bits() -> None:
    nvec = array((2,), bytes([3, 4]), "i1", "|")
    start = array((2,), bytes(2), "i1", "|")
    found = understood(space("multi_discrete", "MultiDiscrete", **EIGHT_BITS, nvec=nvec, start=start))
    assert isinstance(found, MultiDiscrete)
    assert (found.nvec.to_numpy().tolist(), found.dtype) == ([3, 4], "|i1")
    assert understood(space("multi_discrete", "MultiDiscrete", **EIGHT_BITS, nvec=nvec)).start is None
    assert understood(new("gym.spaces.multi_discrete", "MultiDiscrete", {"nvec": nvec})).dtype == "|i1"
    for n, shape in ((4, (4,)), ((2, 3), (2, 3)), ([2, 3], (2, 3)), (nvec, (3, 4)), (scalar(4), (4,))):
        found = understood(space("multi_binary", "MultiBinary", **{**EIGHT_BITS, "_shape": shape}, n=n))
        assert found == MultiBinary("gymnasium", shape, "|i1", None)


def test_spaces_of_spaces() -> None:
    one, two = discrete(2), discrete(3)
    pairs = [("b", one), ("a", two)]
    ordered = change(call("collections", "OrderedDict"), pairs, "SETITEMS")
    for spaces in (dict(pairs), ordered):
        found = understood(space("dict", "Dict", spaces=spaces, sort_keys=True))
        assert isinstance(found, DictSpace)
        assert list(found.spaces) == ["b", "a"]
        assert found.spaces["a"].n == 3
    assert understood(new("gym.spaces.dict_space", "Dict", {"spaces": ordered})).library == "gym"
    for kind, module, library, spaces in (
        (TupleSpace, "tuple", "gymnasium", (one, two)), (TupleSpace, "tuple", "gym", (one, two)),
        (TupleSpace, "tuple", "gym", [one, two]), (OneOf, "oneof", "gymnasium", (one, two)),
    ):  # fmt: skip
        found = understood(space(module, kind.class_name, library, spaces=spaces))
        assert type(found) is kind
        assert [part.n for part in found.spaces] == [2, 3]
    found = understood(space("sequence", "Sequence", feature_space=one, stack=True, stacked_feature_space=two))
    assert (type(found), found.feature_space.n, found.stack) == (Sequence, 2, True)
    assert found.stacked_feature_space.n == 3
    assert understood(space("sequence", "Sequence", "gym", feature_space=one)).stack is False
    found = understood(space("graph", "Graph", node_space=one, edge_space=None))
    assert (type(found), found.node_space.n, found.edge_space) == (Graph, 2, None)
    assert understood(space("graph", "Graph", node_space=one, edge_space=two)).edge_space.n == 3


@pytest.mark.parametrize("era", TEXTS)
def test_a_text_of_every_era(era: str) -> None:
    found = understood(TEXTS[era]())
    assert found == Text("gym", 1, 5, "ab", None)


PICKLE: Final = "numpy.random._pickle"
STATE: Final = {"bit_generator": "PCG64", "state": {"state": 2**100, "inc": 5}, "has_uint32": 0, "uinteger": 0}


def test_the_random_generator_of_a_space() -> None:
    nested = change(call(PICKLE, "__bit_generator_ctor", Global("numpy.random._pcg64", "PCG64")), (STATE, None))
    spellings = [
        change(call(PICKLE, "__generator_ctor", "PCG64"), STATE),
        change(call(PICKLE, "__generator_ctor", "PCG64", Global(PICKLE, "__bit_generator_ctor")), STATE),
        call(PICKLE, "__generator_ctor", nested),
        change(call(PICKLE, "__generator_ctor", nested), None),
        change(call("gym.utils.seeding", "RandomNumberGenerator._generator_ctor", "PCG64"), STATE),
        change(
            Call(
                "REDUCE",
                call("builtins", "getattr", Global("gym.utils.seeding", "RandomNumberGenerator"), "_generator_ctor"),
                ("PCG64",),
            ),
            STATE,
        ),
    ]
    for generator in spellings:
        assert understood(discrete(2, _np_random=generator)).random == RandomState("Generator", "PCG64", STATE, None)


# -- what no release writes ---------------------------------------------------------------------------

LOW: Final = bounds()
REFUSED: Final[dict[str, Callable[[], Any]]] = {
    "a box of text": lambda: box("low", LOW, (2,)),
    "a box without bounds": lambda: new("gymnasium.spaces.box", "Box", {"_shape": (2,)}),
    "a box of another shape": lambda: box(LOW, LOW, (3,)),
    "bounds of two shapes": lambda: box(LOW, bounds(bytes(4), (1,)), (2,)),
    "a box bounded in another shape": lambda: box(LOW, LOW, (2,), bounded_below=array((3,), bytes(3), "b1", "|")),
    "a box with text in its shape": lambda: box(LOW, LOW, ("a",)),
    "a box whose shape is a number": lambda: box(LOW, LOW, 2),
    "a box described by a list": lambda: box(LOW, LOW, (2,), low_repr=[1]),
    "a foreign attribute": lambda: box(LOW, LOW, (2,), sample=1),
    "a foreign dtype": lambda: discrete(2, dtype="O"),
    "a dtype that is a list": lambda: discrete(2, dtype=[1]),
    "a foreign random generator": lambda: discrete(2, _np_random=5),
    "arguments": lambda: new("gymnasium.spaces.discrete", "Discrete", {"n": 2}, 1),
    "no state": lambda: new("gymnasium.spaces.discrete", "Discrete"),
    "two states": lambda: change(discrete(2), {"n": 3}),
    "a state that is a list": lambda: new("gymnasium.spaces.discrete", "Discrete", [1]),
    "a discrete without n": lambda: new("gymnasium.spaces.discrete", "Discrete", {"start": 0}),
    "a discrete of a float": lambda: discrete(2.5),
    "a discrete of a bool": lambda: discrete(True),
    "a start of text": lambda: discrete(2, start="0"),
    "nvec that is a list": lambda: space("multi_discrete", "MultiDiscrete", nvec=[2, 3]),
    "start of another shape": lambda: space(
        "multi_discrete", "MultiDiscrete", nvec=array((2,), bytes(2), "i1", "|"), start=array((1,), bytes(1), "i1", "|")
    ),
    "bits of text": lambda: space("multi_binary", "MultiBinary", n="abc"),
    "bits of none": lambda: space("multi_binary", "MultiBinary"),
    "a dict of a list": lambda: space("dict", "Dict", spaces=[discrete()]),
    "a dict by number": lambda: space("dict", "Dict", spaces={1: discrete()}),
    "a dict of numbers": lambda: space("dict", "Dict", spaces={"a": 1}),
    "a dict with odd order": lambda: space("dict", "Dict", spaces={"a": discrete()}, sort_keys=1),
    "a tuple of text": lambda: space("tuple", "Tuple", spaces="abc"),
    "a tuple of numbers": lambda: space("tuple", "Tuple", spaces=(1, 2)),
    "a text without characters": lambda: space("text", "Text", min_length=1, max_length=2),
    "a text of numbers": lambda: space("text", "Text", min_length=1, max_length=2, _char_list=(1, 2)),
    "a text of no length": lambda: space("text", "Text", _char_list=("a",)),
    "a sequence of nothing": lambda: space("sequence", "Sequence"),
    "a sequence with odd stack": lambda: space("sequence", "Sequence", feature_space=discrete(), stack=1),
    "a graph without nodes": lambda: space("graph", "Graph", edge_space=discrete()),
    "a graph with odd edges": lambda: space("graph", "Graph", node_space=discrete(), edge_space=1),
}


@check_each("what", REFUSED)
def test_what_no_release_writes_stays_inert(what: str) -> None:
    refused(REFUSED[what]())


def test_a_space_around_a_refused_one_stays_inert_too() -> None:
    outcome = decode_outcome(space("tuple", "Tuple", spaces=(discrete(2.5), discrete(2))))
    assert isinstance(outcome.value, Node)
    assert len(outcome.issues) == 2


def test_a_space_of_the_users_is_no_space() -> None:
    outcome = decode_outcome(new("my.spaces", "Box", {"n": 2}))
    assert isinstance(outcome.value, Node)
    assert outcome.overlooked


def test_the_bounds_of_a_box_are_an_array_to_numpy() -> None:
    found = understood(box(bounds(), bounds(), (2,)))
    made = np.asarray(found.low)
    assert (made.dtype, made.shape) == (np.dtype(found.low.dtype), found.shape)
    assert not made.flags.writeable
    assert np.array(found.low).flags.writeable
    assert np.asarray(found.low, "f8").tolist() == made.tolist()
    assert np.asarray(found.low, "f8").dtype == np.float64
    assert np.less_equal(found.low, found.high).all()


@pytest.mark.skipif(int(np.__version__.partition(".")[0]) < 2, reason="numpy 1 copies where it must")
def test_an_array_without_a_copy_is_of_its_own_dtype() -> None:
    found = understood(box(bounds(), bounds(), (2,)))
    assert np.asarray(found.low, copy=False).shape == found.shape
    with pytest.raises(ValueError, match="expected a copy, to convert float32 to float64"):
        np.asarray(found.low, "f8", copy=False)


def test_spaces_have_the_shape_of_an_element() -> None:
    assert Discrete("gym", 2, 0, "<i8", None).shape == ()
    nvec = understood(array((2,), bytes([3, *bytes(7), 4, *bytes(7)]), "i8"))
    assert MultiDiscrete("gym", nvec, None, "<i8", None).shape == (2,)


@pytest.mark.skipif(importlib.util.find_spec("gymnasium") is not None, reason="gymnasium is installed")
def test_a_space_says_what_to_install_for_gymnasium() -> None:
    with pytest.raises(UnsupportedError, match=r'gymnasium is not installed: pip install "sbformat\[gym\]"'):
        Discrete("gym", 2, 0, "<i8", None).to_gymnasium()


def numbers(values: Any, code: str = "<f4") -> ArrayInfo:
    made = np.asarray(values, code)
    return ArrayInfo(code, made.shape, "C", made.tobytes(), is_scalar=False)


def make_box(low: Any, high: Any, code: str = "<f4") -> Box:
    below, above = numbers(low, code), numbers(high, code)
    return Box("gymnasium", below.shape, code, below, above, None)


INF: Final = float("inf")
CHOICE: Final = Discrete("gymnasium", 3, -1, "<i8", None)
CHOICES: Final = MultiDiscrete("gymnasium", numbers([[2, 3]], "<i8"), numbers([[1, -1]], "<i8"), "<i8", None)
BITS: Final = MultiBinary("gymnasium", (2, 2), "|i1", None)
LETTERS: Final = Text("gymnasium", 1, 3, "ab", None)
ELEMENTS: Final[list[tuple[Space, list[Any], list[Any]]]] = [
    (make_box([-1, -INF], [INF, 2]), [[0, 0], np.array([-1, 2], "f4")], [[-2, 0], [0, 3], [0], "a", np.zeros(2)]),
    (make_box([0, 0], [9, 9], "|u1"), [[0, 9], np.array([1, 2], "u1")], [[0, 10], [300, 0], np.zeros(2, "i8")]),
    (CHOICE, [-1, 1, np.int64(0), np.array(1)], [-2, 2, 0.0, np.array([0]), "0", 2**70]),
    (CHOICES, [[[1, -1]], np.array([[2, 1]])], [[[0, 0]], [[2, 2]], [1, -1], [[1.0, 0.0]], [[1], [2, 3]], None]),
    (BITS, [[[0, 1], [1, 0]], np.zeros((2, 2))], [[0, 1], [[0, 2], [0, 0]], 0, [["a", "b"], ["c", "d"]]]),
    (LETTERS, ["a", "aba"], ["", "abab", "ac", 1]),
    (DictSpace("gymnasium", {"a": CHOICE}, None), [{"a": 0}], [{}, {"a": 2}, {"a": 0, "b": 0}, [0]]),
    (TupleSpace("gymnasium", (CHOICE, LETTERS), None), [(0, "a"), [1, "b"]], [(0,), (0, "c"), 0]),
    (OneOf("gymnasium", (CHOICE, LETTERS), None), [(0, 1), (np.int64(1), "a")], [(2, 0), (1, 0), (0, 0, 0), [0, 1]]),
    (Sequence("gymnasium", CHOICE, False, None), [(), (0, 1, -1)], [[0], (2,)]),
]  # fmt: skip


@check_each(("space", "inside", "outside"), ELEMENTS)
def test_what_is_an_element(space: Space, inside: list[Any], outside: list[Any]) -> None:
    assert [space.contains(value) for value in inside] == [True] * len(inside)
    assert [space.contains(value) for value in outside] == [False] * len(outside)


WIDE: Final = make_box([-(2**63), -5, 0], [2**63 - 1, 5, 0], "<i8")


@check_each("space", [*(row[0] for row in ELEMENTS), WIDE, make_box(0, 255, "|u1"), make_box(-INF, INF, "<f8")])
def test_a_random_element_is_an_element(space: Space) -> None:
    rng, same = np.random.default_rng(0), np.random.default_rng(0)
    made = [space.sample(rng) for _ in range(30)]
    assert all(map(space.contains, made))
    assert str(made) == str([space.sample(same) for _ in range(30)])
    assert len(set(map(str, made))) > 1
    if space.shape is not None:
        assert {(value.shape, value.dtype) for value in made} == {(space.shape, np.dtype(space.dtype))}


def test_elements_that_are_objects_of_gymnasium_are_refused() -> None:
    for space in (Graph("gymnasium", CHOICE, None, None), Sequence("gymnasium", CHOICE, True, None)):
        for act in (space.contains, space.sample):
            with pytest.raises(UnsupportedError, match=r"objects of gymnasium: call to_gymnasium\(\)"):
                act(np.random.default_rng(0))


def test_what_sb3_does_with_a_space() -> None:
    found = {space.class_name: (space.observed, space.distribution, space.has_keys) for space, *_ in ELEMENTS}
    assert found == {
        "Box": ("numbers", "gaussian", False),
        "Discrete": ("one-hot", "categorical", False),
        "MultiDiscrete": ("one-hot", "multi-categorical", False),
        "MultiBinary": ("numbers", "bernoulli", False),
        "Dict": ("by key", "", True),
        **dict.fromkeys(("Text", "Tuple", "OneOf", "Sequence"), ("", "", False)),
    }
    assert [space.flat_size() for space in (CHOICE, CHOICES, BITS, make_box([[0, 0]], [[1, 1]]))] == [3, 5, 4, 2]
    assert [space.choices() for space in (CHOICE, CHOICES, BITS)] == [(3,), (2, 3), ()]
    assert DictSpace("gymnasium", {"a": CHOICE}, None).parts() == {"a": CHOICE}
    assert CHOICE.parts() == {None: CHOICE}


def test_what_is_an_image() -> None:
    bytes_, floats = make_box(np.zeros((2, 3, 4)), np.full((2, 3, 4), 255), "|u1"), make_box([[[0]]], [[[255]]])
    assert [space.is_image() for space in (bytes_, floats, make_box([[0]], [[255]], "|u1"), CHOICE)] == [True] + [
        False
    ] * 3
    assert not make_box([[[0]]], [[[254]]], "|u1").is_image()
    assert floats.is_image(is_normalized=True)
