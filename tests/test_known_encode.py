"""Values to pickles of today's libraries and back: decode gives the value again, in the one form that is written.

Neither gym, torch nor SB3 is needed: their classes are stand-ins that keep what a real unpickler gives them.
"""

from __future__ import annotations

import datetime as dt
import glob
import io
import json
import os
import pathlib
import pickle
import pickletools
import re
import struct
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sbformat
from beside import CORPUS, GENERATED, told
from making_known import UTILS, call, function, new, recognise, understood
from sbformat import UnsupportedError
from sbformat.data import Serialized
from sbformat.known.encode import _DEEPEST, encode
from sbformat.known.targets import RELEASES, Target, target_of
from sbformat.known.values import (
    Box, CarriedClass, ConstantSchedule, Cycle, DefaultDict, Described, DictSpace, Discrete, DType, EnumMember,
    FloatSchedule, Function, Graph, Instance, LinearSchedule, Module, MultiBinary, MultiDiscrete, ObjectArray, OneOf,
    Partial, RandomState, Reference, RNNStates, SeedSequence, Sequence, Text, TrainFreq, TupleSpace, Value,
)  # fmt: skip
from sbformat.names.moved import MOVED
from sbformat.numpy_pickles import ArrayInfo, Field
from sbformat.pkl import Call, Dict, Extension, FrozenSet, Global, Persistent, Set
from sbformat.pth import Device, DTypeName, Size, Storage, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTS: Final[Counter[str]] = Counter()
_summary = told(COUNTS, "test_known_encode.py wrote and read again")

SB3: Final = "stable_baselines3"
CONTRIB: Final = "sb3_contrib"
NOISE: Final = f"{SB3}.common.noise"
AWAITED: Final = pytest.mark.xfail(strict=True, reason="a fault of the product's, told to its author")


def held(items: object, code: str = "<f4", order: Any = "C") -> ArrayInfo:
    """An array of its own, shape and all."""
    array = np.asarray(items, code)
    return ArrayInfo(array.dtype.str, array.shape, order, array.tobytes(order), is_scalar=False)


def scalar(value: float, code: str) -> ArrayInfo:
    return held(value, code)._replace(is_scalar=True)


def exact(value: Any) -> Any:
    """A value told by its types and bits: NaN is NaN, 0.0 not -0.0, 1 not True; an array by its items and layout."""
    kind = type(value).__name__
    if type(value) is float:
        return kind, struct.pack(">d", value)
    if isinstance(value, np.ndarray):
        order: Any = "F" if value.flags.fnc else "C"
        value = ArrayInfo(value.dtype.str, value.shape, order, value.tobytes(order), is_scalar=False)
    if isinstance(value, ArrayInfo):
        array = value.to_numpy()
        return "array", value.dtype, value.shape, value.is_scalar, array.flags.fnc, array.tobytes("C")
    if isinstance(value, Value):
        return kind, *((name, exact(part)) for name, part in vars(value).items())
    if isinstance(value, dict):
        return kind, *((exact(key), exact(part)) for key, part in value.items())
    if isinstance(value, (set, frozenset)):
        return kind, frozenset(map(exact, value))
    if isinstance(value, (list, tuple, deque)):
        return kind, getattr(value, "maxlen", None), *map(exact, value)
    return kind, value


def normal(value: Any) -> Any:
    """The form in which a value is written (FORMAT.md 13.7), made anew: nothing in it is shared."""
    if isinstance(value, ArrayInfo):
        array = value.to_numpy()
        return array.item() if value.is_scalar else held(array, value.dtype) if value.axes else value
    if isinstance(value, Reference):
        return Reference(*MOVED.get((value.module, value.name), (value.module, value.name)))
    if isinstance(value, Function):
        return normal(value.schedule)
    if isinstance(value, Value):
        parts = {name: normal(part) for name, part in vars(value).items() if name != "random"}
        if isinstance(value, Box):
            parts["bounded_below"] = flag(value.bounded_below, -np.inf < value.low.to_numpy())
            parts["bounded_above"] = flag(value.bounded_above, value.high.to_numpy() < np.inf)
        if isinstance(value, MultiDiscrete):
            parts["start"] = parts["start"] or held(np.zeros(value.nvec.shape), value.nvec.dtype)
        if isinstance(value, Instance) and "Vectorized" not in value.type.name:
            parts["attributes"].setdefault("_dtype", Reference("numpy", "float32"))
        if "library" in parts:
            parts |= {"library": "gymnasium", "random": None}
        return type(value)(**parts)
    if isinstance(value, dict):
        return type(value)((normal(key), normal(part)) for key, part in value.items())
    if isinstance(value, deque):
        return deque(map(normal, value), value.maxlen)
    return type(value)(map(normal, value)) if type(value) in (list, tuple, set, frozenset) else value


def flag(given: ArrayInfo | None, made: Any) -> ArrayInfo:
    """Where a box is bounded; a scalar, as gymnasium < 1.2 has it for a box without axes, is an array too."""
    return held(made, "?") if given is None else given._replace(is_scalar=False)


def box(low: Any, high: Any, code: str = "<f4", *flags: Any) -> Box:
    bounds = held(low, code), held(high, code)
    return Box("gymnasium", (*bounds[0].shape,), code, *bounds, None, *(held(part, "?") for part in flags))


def discrete(n: int = 2, library: Any = "gymnasium", random: Any = None) -> Discrete:
    return Discrete(library, n, 0, "<i8", random)


def noise(name: str, **attributes: Any) -> Instance:
    return Instance(Reference(NOISE, f"{name}ActionNoise"), attributes)


GRID: Final = np.arange(24, dtype="i1").reshape(2, 3, 4)
WILD: Final = np.array([0x7FC00001, 0xFFC00000, 0x7F800000, 0xFF800000, 0x80000000, 1], "u4").view("f4")
"""Two NaN, two infinities, -0.0 and the smallest number."""
INF: Final = np.inf
CODES: Final = ("|b1", "|i1", "|u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8", "<c8", "<c16")
RANDOM: Final = RandomState("RandomState", "MT19937", None, None)
LINE: Final = LinearSchedule(0.5, 0.25, 1.0)
PUBLISHED: Final = understood(function())[0]
"""A schedule function by value, as it is found in archives."""
UNIT: Final = EnumMember(Reference(f"{SB3}.common.type_aliases", "TrainFrequencyUnit"), "step")
FLOAT32, LINEAR = Reference("numpy", "float32"), Reference("torch.nn.modules.linear", "Linear")
OU: Final = {"_theta": 0.15, "_mu": held([0, 0], "<f8"), "_sigma": held([1, 1]), "_dt": 0.01, "initial_noise": None}
INNER: Final = DictSpace("gym", {"y": discrete(3, "gym", RANDOM)}, RANDOM)

SAME: Final[dict[str, Any]] = {
    "leaves": [None, True, False, "", "a" * 300, "\N{SNOWMAN} \U0001f600 \0", "\ud800", b"", b"\0" * 300],
    "numbers": [0, 1, 255, 256, 65536, -1, -128, 2**31 - 1, 2**31, -(2**31), -(2**63), 2**64, -(1 << 100_000)],
    "floats": [0.0, -0.0, 1e-320, float("nan"), INF, -INF],
    "arrays": [held([[0, 1, 2], [3, 4, 5]], code) for code in CODES],
    "big-endian arrays": [held([0, 1], ">" + code[1:]) for code in CODES[3:]],
    "arrays in columns": [held(GRID, order="F"), held(GRID, ">i2", "F")],
    "arrays without axes or items": [held(2.5, "<f8"), held(np.zeros((0, 3))), held(WILD)],
    "dtypes": [DType(code) for code in (*CODES, ">f8")],
    "containers": [(), [], {}, set(), frozenset(), OrderedDict(), deque(), ((),), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "long containers": [[0] * 2500, {str(index): index for index in range(2500)}, deque(range(1001), 2000)],
    "keys": {"z": 1, 2: "b", None: [3], b"c": (4,), 0.5: {}, -1: {"a": OrderedDict([("z", {}), ("a", [1])])}},
    "deques": [deque([{"r": 1.5}, [2]], maxlen=100), deque(maxlen=0)],
    "sets": [{"a", "b"}, frozenset({1, 2.5, b"c", None}), {True, 8, 0}],
    "classes": [Reference("torch.optim.adam", "Adam"), Reference(f"{SB3}.her.her_replay_buffer", "HerReplayBuffer")],
    "a box": box([-INF, -1], [INF, 1], "<f4", [0, 1], [0, 1]),
    "a box of bits": box(WILD, WILD[::-1], "<f4", [0, 1, 0, 1, 0, 1], [1] * 6),
    "multi-discrete": MultiDiscrete("gymnasium", held([3, 4], "<i8"), held([1, -1], "<i8"), "<i8", None),
    "spaces in order": DictSpace("gymnasium", {"b": discrete(3), "a": box([0], [1], "<f8", [1], [0])}, None),
    "schedules": [ConstantSchedule(3), LinearSchedule(1, 0.0, 0.3), FloatSchedule(FloatSchedule(LINE))],
    "enumerations": [UNIT, EnumMember(Reference(f"{SB3}.her.goal_selection_strategy", "GoalSelectionStrategy"), 0)],
    "a frequency": TrainFreq(4, UNIT),
    "layers": [Partial(LINEAR, (3, [4]), {"bias": False, "dtype": Reference("torch", "float32")}),
               Partial(Reference(f"{SB3}.common.torch_layers", "NatureCNN"), (), {})],
    "noise": noise("Normal", _mu=held([0]), _sigma=held([1]), _dtype=Reference("numpy", "float64")),
}  # fmt: skip
"""In normal form."""

ROWS: Final[dict[str, tuple[Any, Any, str]]] = {
    **{name: (value, value, "2.9") for name, value in SAME.items()},
    "other axes": (ArrayInfo("|i1", (4, 2, 3), "C", GRID.tobytes(), False, (), (2, 0, 1)),
                   held(GRID.transpose(2, 0, 1), "|i1"), "2.9"),
    "big-endian of other axes": (ArrayInfo(">f8", (4, 3, 2), "C", GRID.astype(">f8").tobytes(), False, (), (2, 1, 0)),
                                 held(GRID.T, ">f8"), "2.9"),
    "whole scalars": ([scalar(1, code) for code in ("|i1", "|u1", ">i2", "<u4", "<i8")], [1] * 5, "2.9"),
    "scalars": ({"a": deque([scalar(2**64 - 1, "<u8"), scalar(0.5, ">f4")], 3), "b": (scalar(1, "|b1"),)},
                {"a": deque([2**64 - 1, 0.5], 3), "b": (True,)}, "2.9"),
    "policies of 0.6": (
        [Reference(f"{SB3}.ppo.policies", "PPOPolicy"), Reference(f"{SB3}.common.policies", "NatureCNN")],
        [Reference(f"{SB3}.common.policies", "ActorCriticPolicy"), Reference(f"{SB3}.common.torch_layers", "NatureCNN")],
        "2.9"),
    "names of gym and numpy": ([Reference("numpy", "bool"), Reference("gym.spaces.box", "Box")],
                               [Reference("numpy", "bool_"), Reference("gymnasium.spaces.box", "Box")], "2.9"),
    "a box of gym": (Box("gym", (1,), "|u1", held([0], "|u1"), held([9], "|u1"), RANDOM),
                     box([0], [9], "|u1", [1], [1]), "2.9"),
    "a box unbounded": (box([-INF, 0, -INF, INF], [INF, INF, 5, -INF]),
                        box([-INF, 0, -INF, INF], [INF, INF, 5, -INF], "<f4", [0, 1, 0, 1], [0, 0, 1, 1]), "2.9"),
    "a box of one flag": (box([0], [1], "<f4", [0]), box([0], [1], "<f4", [0], [1]), "2.9"),
    "a box without axes": (box(0, INF, "<f8"), box(0, INF, "<f8", True, False), "2.9"),
    "a box of no numbers": (box([np.nan], [np.nan]), box([np.nan], [np.nan], "<f4", [0], [0]), "2.9"),
    "a box with scalar flags": (
        Box("gym", (), "<f4", held(0), held(1), None, scalar(1, "|b1"), scalar(1, "|b1")), box(0, 1, "<f4", 1, 1), "2.9"),
    "huge sets": ({1 << 20_000}, {1 << 20_000}, "2.9"),
    "an empty box": (box([], []), box([], [], "<f4", [], []), "2.9"),
    "discrete": (Discrete("gym", 2**40, -3, "<i8", RANDOM), Discrete("gymnasium", 2**40, -3, "<i8", None), "2.9"),
    "multi-discrete without a start": (
        MultiDiscrete("gym", held([[3], [4]], "<i4"), None, "<i4", RANDOM),
        MultiDiscrete("gymnasium", held([[3], [4]], "<i4"), held([[0], [0]], "<i4"), "<i4", None), "2.9"),
    "bits": ([MultiBinary("gym", shape, "|i1", RANDOM) for shape in ((4,), (2, 3), ())],
             [MultiBinary("gymnasium", shape, "|i1", None) for shape in ((4,), (2, 3), ())], "2.9"),
    "spaces in spaces": (
        TupleSpace("gym", (DictSpace("gym", {"z": INNER, "a": discrete()}, None), TupleSpace("gym", (), None)), RANDOM),
        TupleSpace("gymnasium", (
            DictSpace("gymnasium", {"z": DictSpace("gymnasium", {"y": discrete(3)}, None), "a": discrete()}, None),
            TupleSpace("gymnasium", (), None)), None), "2.9"),
    "published functions": ([PUBLISHED, PUBLISHED, FloatSchedule(PUBLISHED)],
                            [ConstantSchedule(0.5), ConstantSchedule(0.5), FloatSchedule(ConstantSchedule(0.5))], "2.9"),
    "schedules in 2.7": (FloatSchedule(PUBLISHED), FloatSchedule(ConstantSchedule(0.5)), "2.7"),
    "schedules in 2.6": ([FloatSchedule(PUBLISHED), LINE, ConstantSchedule(3), FloatSchedule(FloatSchedule(LINE))],
                         [ConstantSchedule(0.5), LINE, ConstantSchedule(3.0), LINE], "2.6"),
    "lines in 2.0": ([LinearSchedule(1, 0, 1), LinearSchedule(3e-4, 0.0, 1.0)],
                     [LinearSchedule(1.0, 0.0, 1.0), LinearSchedule(3e-4, 0.0, 1.0)], "2.0"),
    "new in 2.7": ([value := [Reference(UTILS, "LinearSchedule"),
                              Reference(f"{SB3}.common.buffers", "NStepReplayBuffer")], value, "2.7"]),
    "new in 2.4": (Reference("sb3_contrib.crossq.policies", "Actor"),) * 2 + ("2.4",),
    "noise before 1.8": ([noise("Normal", _mu=scalar(0, "<f8"), _sigma=held([1])), noise("OrnsteinUhlenbeck", **OU)],
                         [noise("Normal", _mu=0.0, _sigma=held([1]), _dtype=FLOAT32),
                          noise("OrnsteinUhlenbeck", **OU, _dtype=FLOAT32)], "2.9"),
    "noises": (noise("Vectorized", n_envs=1, _base_noise=noise("Normal"), _noises=[noise("Normal")]),
               noise("Vectorized", n_envs=1, _base_noise=noise("Normal", _dtype=FLOAT32),
                     _noises=[noise("Normal", _dtype=FLOAT32)]), "2.9"),
}  # fmt: skip
"""A value, its normal form, and the target."""


ROWS_AWAITED: Final = ("a box of no numbers", "a box with scalar flags", "huge sets")


@pytest.mark.parametrize("what", [pytest.param(row, marks=AWAITED if row in ROWS_AWAITED else ()) for row in ROWS])
def test_decode_gives_back_what_encode_was_given(what: str) -> None:
    value, wanted, target = ROWS[what]
    data = encode(value, target)
    assert exact(understood(data)) == exact(understood(encode(understood(data), target))) == exact(wanted)
    assert target != "2.9" or exact(wanted) == exact(normal(value))
    assert all(NAMES.fullmatch(name) or ASKED.fullmatch(name) for name in names(data))
    loaded(value, target)


def test_what_is_shared_stays_shared_and_nothing_else() -> None:
    for part in ([1], {"a": 1}, OrderedDict(a=1), deque([1]), (1, [2]), held([1]), discrete(), LINE):
        one, two, keyed = understood(encode([part, part, {"k": part}]))
        assert one is two is keyed["k"]
        one, two = understood(encode([part, part._replace() if isinstance(part, ArrayInfo) else normal(part)]))
        assert one is not two
        assert exact(one) == exact(two) == exact(part)
    grown: list[Any] = []
    for _ in range(50):
        grown = [grown, grown]
    assert len(encode(grown)) < 500


def test_equal_values_are_written_alike() -> None:
    assert encode({0, 8}) == encode({8, 0})
    assert encode(frozenset([0, 8])) == encode(frozenset([8, 0]))


@AWAITED
def test_equal_boxes_are_written_alike() -> None:
    low, high = held([0, 0]), held([1, 1])
    assert encode(Box("gym", low.shape, "<f4", low, high, None)) == encode(Box("gym", (2,), "<f4", low, high, None))


# -- what is refused ----------------------------------------------------------------------------------

CARRIED: Final = Function("make.<locals>.f", "m", None, {}, (), {}, None)
STORAGE: Final = Storage("0", "float32", 1, "cpu", "little", lambda _: memoryview(bytes(4)), "")
WRAPS: Final[dict[str, tuple[Callable[[Any], Any], Any]]] = {
    "lists": (lambda part: [part], 1),
    "tuples": (lambda part: (part,), 1),
    "dicts": (lambda part: {"a": part}, 1),
    "OrderedDicts": (lambda part: OrderedDict(a=part), 1),
    "deques": (lambda part: deque([part]), 1),
    "tuples of spaces": (lambda part: TupleSpace("gymnasium", (part,), None), discrete()),
    "dicts of spaces": (lambda part: DictSpace("gymnasium", {"a": part}, None), discrete()),
    "schedules": (FloatSchedule, LINE),
    "partials": (lambda part: Partial(LINEAR, (part,), {}), 1),
}  # fmt: skip


def nested(depth: int, what: str) -> Any:
    wrap, made = WRAPS[what]
    for _ in range(depth - (type(made) is not int)):
        made = wrap(made)
    return made


REFUSED: Final[dict[str, tuple[Any, str]]] = {
    **{type(value).__name__: (value, f"a {type(value).__name__} has no form without code that every release reads")
       for value in (
        Dict([((), 1)]), Set([()]), FrozenSet([()]), CarriedClass("m", "C", (), {}), Module("os"), Cycle(), RANDOM,
        ObjectArray((1,), "C", [None]), SeedSequence(1, (), 4, 0), Described("range", (3,)), RNNStates((), ()),
        DefaultDict(None, {}), TensorInfo("float32", (1,), (1,), 0, STORAGE), Device("cpu"), DTypeName("float32"),
        Size((1,)), Graph("gym", discrete(), None, None), Sequence("gym", discrete(), False, None), dict, print,
        Text("gym", 1, 2, "ab", None), OneOf("gym", (discrete(),), None), pathlib.PurePosixPath("/a"), NotImplemented,
        pathlib.PureWindowsPath("a"), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), dt.timedelta(1), bytearray(b"a"),
        1j, ..., range(3), object(), Counter("a"), np.float64(1), np.zeros(1), memoryview(b""),
    )},
    "an unknown name": (Global("os", "system"), "'os.system' is not known"),
    "an unknown call": (call("os", "system", "true"), "'os.system' is not known"),
    "an unknown object": (new("my.spaces", "Box", {"n": 2}), "'my.spaces.Box' is not known"),
    "a computed call": (Call("REDUCE", call("a", "b"), ()), "what builds it is not known"),
    "a persistent reference": (Persistent("0"), "what builds it is not known"),
    "a number of the registry": (Extension(3), "what builds it is not known"),
    "an unknown reference": (Reference("my.policies", "Policy"), "'my.policies.Policy' is no class that is known"),
    "a known function": (Reference("numpy.core.multiarray", "_reconstruct"), "'numpy.core.multiarray._reconstruct'"),
    "a function by value": (CARRIED, "the function 'make.<locals>.f' is carried by value"),
    "a schedule of a function": (FloatSchedule(CARRIED), "the function 'make.<locals>.f' is carried by value"),
    "a schedule of a name": (FloatSchedule(Global("my", "schedule")), "'my.schedule' is not known"),
    "a partial of a function": (Partial(CARRIED, (), {}), "the function 'make.<locals>.f' is carried by value"),
    "a partial of a schedule": (Partial(PUBLISHED, (), {}), "a partial of a function that is carried by value"),
    "a structure": (ArrayInfo("|V4", (1,), "C", bytes(4), False, (Field("a", "<f4", 0),)), "the dtype '|V4'"),
    **{f"an array of {code}": (held([], code), f"the dtype '{code}'") for code in ("<U2", "|S3", "|V3", "<M8[s]", "<f16")},
    "a text of numpy": (held("ab", "<U2")._replace(is_scalar=True), "the dtype '<U2'"),
    "a complex scalar": (held(1j, "<c16")._replace(is_scalar=True), "a number of the dtype '<c16'"),
    "what decode leaves of dates": (recognise(pickle.dumps(np.zeros(2, "M8[s]"))).value, "_reconstruct' is not known"),
    **{f"the dtype {code}": (DType(code), f"the dtype '{code}' is none of numbers") for code in ("|O8", "<U3", "<M8[s]")},
    "the dtype of a structure": (DType("|f8", (Field("a", "<f4", 0),)), "the dtype '|f8' is none of numbers"),
    "a space of text": (Discrete("gym", 2, 0, "<U0", None), "the dtype '<U0' is none of numbers"),
    "a space of a graph": (TupleSpace("gym", (Graph("gym", discrete(), None, None),), None), "a Graph has no form"),
    "a buffer": (Instance(Reference(f"{SB3}.common.buffers", "ReplayBuffer"), {}), "common.buffers.ReplayBuffer'"),
    "noise of SB2": (Instance(Reference("stable_baselines.common.noise", "NormalActionNoise"), {}), "an object of"),
    "an unknown enumeration": (EnumMember(Reference("my", "Colour"), 1), "'my.Colour' is no class that is known"),
    **{f"{depth} {name}": (nested(depth, name), "it is nested too deep") for name in WRAPS for depth in (61, 50_000)},
    "a list of itself": ((knot := []).append(knot) or knot, "it is nested too deep"),
}  # fmt: skip


def refused(value: Any, message: str, target: str = "2.9") -> None:
    with pytest.raises(UnsupportedError, match=re.escape(message)) as caught:
        encode(value, target)
    assert type(caught.value) is UnsupportedError
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_form_without_code_is_refused_wherever_it_stands(what: str) -> None:
    value, message = REFUSED[what]
    for around in (value, [1, value], (value,), {"a": value}, OrderedDict(a=value), deque([value], 2)):
        refused(around, message)
    refused(Partial(LINEAR, (), {"a": value}), message)


@pytest.mark.parametrize("what", WRAPS)
def test_the_deepest_that_is_written_is_read(what: str) -> None:
    assert _DEEPEST == 60
    assert exact(understood(encode(nested(_DEEPEST, what)))) == exact(nested(_DEEPEST, what))


@pytest.mark.parametrize(("value", "target", "message"), [
    (LinearSchedule(1.0, 0.0, 0.5), "2.6", "SB3 2.6 has no class for a schedule that ends before the training does"),
    (FloatSchedule(CARRIED), "2.6", "the function 'make.<locals>.f' is carried by value"),
    *((Reference(UTILS, f"{name}Schedule"), "2.6", f"{name}Schedule exists since SB3 2.7, not in 2.6")
      for name in ("Constant", "Linear", "Float")),
    (Reference(f"{SB3}.common.buffers", "NStepReplayBuffer"), "2.6", "NStepReplayBuffer exists since SB3 2.7, not in 2"),
    (Reference(f"{CONTRIB}.crossq.policies", "CrossQPolicy"), "2.3", "CrossQPolicy exists since SB3 2.4, not in 2.3"),
    pytest.param(Reference(f"{CONTRIB}.crossq.crossq", "CrossQ"), "2.3", "CrossQ", marks=AWAITED),
    pytest.param(Reference(f"{CONTRIB}.common.torch_layers", "BatchRenorm1d"), "2.3", "BatchRenorm1d", marks=AWAITED),
    *(pytest.param(Reference(module, name), "2.9", name, marks=AWAITED) for module, name in (
        ("gym.spaces.text", "Text"), ("stable_baselines.common.policies", "MlpPolicy"), (f"{SB3}.her.her", "HER"),
        ("tensorflow.python.ops.math_ops", "tanh"), (f"{SB3}.sac.policies", "Critic"),
        ("stable_baselines.her.replay_buffer", "GoalSelectionStrategy"),
    )),
    pytest.param(EnumMember(LINEAR, 3), "2.9", "Linear", marks=AWAITED),
    pytest.param(Partial(Reference("builtins", "type"), (1,), {}), "2.9", "builtins.type", marks=AWAITED),
    pytest.param(ConstantSchedule(10**400), "2.6", "", marks=AWAITED),
])  # fmt: skip
def test_what_a_release_does_not_have_is_refused_for_it(value: Any, target: str, message: str) -> None:
    refused([value], message, target)


def test_a_foreign_name_may_stand_where_it_is_allowed_and_no_other() -> None:
    pair = ("my.policies", "Policy")
    assert names(encode([Reference(*pair)], foreign=frozenset({pair}))) == {"my.policies.Policy"}
    for value in (Reference("my.policies", "Other"), Global(*pair), call(*pair)):
        with pytest.raises(UnsupportedError, match="my.policies"):
            encode(value, foreign=frozenset({pair}))


# -- what a real unpickler makes of it ----------------------------------------------------------------

OPCODES: Final = re.compile(
    "PROTO|STOP|MARK|NONE|NEW(TRUE|FALSE)|BININT[12]?|LONG[14]|BINFLOAT|(SHORT_)?BIN(UNICODE|BYTES)|(EMPTY_)?TUPLE"
    "|TUPLE[123]|EMPTY_(LIST|DICT|SET)|APPENDS?|SETITEMS?|ADDITEMS|FROZENSET|STACK_GLOBAL|REDUCE|NEWOBJ|BUILD|MEMOIZE"
    "|(LONG_)?BINGET"
)
NAMES: Final = re.compile(
    r"numpy\.(dtype|ndarray|poly1d|float(32|64)|bool_)|collections\.(OrderedDict|deque)|functools\.partial"
    r"|gymnasium\.spaces\.(box\.Box|dict\.Dict|discrete\.Discrete|tuple\.Tuple|multi_(binary\.MultiB|discrete\.MultiD)\w+)"
    r"|stable_baselines3\.(common\.(utils\.(Constant|Linear|Float)Schedule|type_aliases\.TrainFreq(uencyUnit)?"
    r"|noise\.(Normal|OrnsteinUhlenbeck|Vectorized)ActionNoise)|her\.goal_selection_strategy\.GoalSelectionStrategy)"
)
"""Every name that is written, but for the classes below that stand alone."""
ASKED: Final = re.compile(
    r"(torch|stable_baselines3|sb3_contrib)\.[a-z0-9_.]+\.(Adam|Linear|HerReplayBuffer|NatureCNN|ActorCriticPolicy"
    r"|NStepReplayBuffer|Actor)|torch\.float32"
)


def names(data: bytes) -> set[str]:
    """The names in a pickle as the standard library lists its opcodes, which are checked too."""
    found, stack, memo = set(), [], []
    for opcode, argument, _ in pickletools.genops(data):
        assert OPCODES.fullmatch(opcode.name), opcode.name
        if opcode.name == "STACK_GLOBAL":
            found.add(".".join(stack[-2:]))
        if opcode.name == "MEMOIZE":
            memo.append(stack[-1])
        else:
            stack.append(memo[argument] if "BINGET" in opcode.name else argument)
    assert data[:2] == b"\x80\x04"
    return found


class StandIn:
    """What is made of a class that is not there: its arguments, and the state it is given."""

    def __new__(cls, *args: Any) -> Any:
        made = super().__new__(cls)
        made.args = args
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state


class Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy", "collections"):
            return super().find_class(module, name)
        return type(name, (StandIn,), {"__module__": module})


def loaded(value: Any, target: str = "2.9") -> Any:
    return Unpickler(io.BytesIO(encode(value, target))).load()


I8: Final = {"_np_random": None, "dtype": np.dtype("i8")}
ZEROS: Final = held([0, 0], "<i8")
FLAGS: Final = {"bounded_below": held([1, 1], "?"), "bounded_above": held([1, 0], "?")}


@pytest.mark.parametrize(("value", "state"), [
    (box([0, 1], [1, INF], "<f8"),
     {**FLAGS, "low": held([0, 1], "<f8"), "high": held([1, INF], "<f8"), "_shape": (2,), **I8, "dtype": np.dtype("f8")}),
    (Discrete("gym", 3, -1, "<i8", RANDOM), {"n": 3, "start": -1, "_shape": (), **I8}),
    (MultiDiscrete("gym", ZEROS, None, "<i8", None), {"nvec": ZEROS, "start": ZEROS, "_shape": (2,), **I8}),
    (MultiBinary("gym", (4,), "<i8", None), {"n": 4, "_shape": (4,), **I8}),
    (MultiBinary("gym", (2, 3), "<i8", None), {"n": (2, 3), "_shape": (2, 3), **I8}),
    (DictSpace("gym", {}, RANDOM), {"spaces": {}, "_shape": None, "dtype": None, "_np_random": None}),
    (TupleSpace("gym", (), RANDOM), {"spaces": (), "_shape": None, "dtype": None, "_np_random": None}),
    (ConstantSchedule(0.5), {"val": 0.5}),
    (LinearSchedule(1.0, 0.5, 0.3), {"start": 1.0, "end": 0.5, "end_fraction": 0.3}),
    (noise("Normal", _mu=scalar(2, "<f4")), {"_mu": 2.0, "_dtype": np.float32}),
    (noise("Vectorized", n_envs=2), {"n_envs": 2}),
])  # fmt: skip
def test_what_a_class_is_given(value: Any, state: dict[str, Any]) -> None:
    made = loaded(value)
    assert made.args == ()
    assert dict(exact(made.state)[1:]) == dict(exact(state)[1:])


def test_what_is_called() -> None:
    assert loaded(FloatSchedule(PUBLISHED)).state["value_schedule"].state == {"val": 0.5}
    frequency, unit = loaded(TrainFreq(4, UNIT)).args
    assert (frequency, unit.args) == (4, ("step",))
    made = loaded(Partial(LINEAR, (3,), {"bias": False}))
    assert (made.args, made.state) == ((made.state[0],), (made.state[0], (3,), {"bias": False}, None))
    assert loaded(held([1, 2], ">i4")).tolist() == [1, 2]


@pytest.mark.parametrize("schedule", [ConstantSchedule(3e-4), LinearSchedule(3e-4, 1e-5, 1.0), LinearSchedule(0, 1, 1)])
def test_a_schedule_of_old_is_one_that_numpy_computes(schedule: Any) -> None:
    made = loaded(FloatSchedule(schedule), "2.6")
    start, end = (schedule.value,) * 2 if isinstance(schedule, ConstantSchedule) else (schedule.start, schedule.end)
    for remaining in (1.0, 0.75, 0.1, 0.0):
        assert made(remaining) == pytest.approx(end + remaining * (start - end), rel=1e-12, abs=0)


# -- laws ---------------------------------------------------------------------------------------------

texts = st.text(st.characters(), max_size=8)
numbers = st.integers(-(2**63), 2**63 - 1)
plain = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), texts, st.binary(max_size=300))
keys = st.one_of(texts, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.binary(max_size=8))
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def arrays(draw: Any, codes: tuple[str, ...] = CODES, shape: Any = shapes, *, may_turn: bool = True) -> ArrayInfo:
    """Any bits, in rows, in columns or along other axes."""
    code, lengths = draw(st.sampled_from(codes)), (*draw(shape),)
    size = int(np.prod(lengths)) * np.dtype(code).itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    raw = bytes(byte & 1 for byte in raw) if code == "|b1" else raw
    axes = draw(st.permutations(range(len(lengths))).map(tuple)) if may_turn and draw(st.booleans()) else ()
    shape = tuple(lengths[axis] for axis in axes) if axes else lengths
    return ArrayInfo(code, shape, "C" if axes else draw(st.sampled_from("CF")), raw, False, (), axes)


def boxes(shape: tuple[int, ...]) -> st.SearchStrategy[Box]:
    def part(*codes: str) -> Any:
        return arrays(codes, st.just(shape), may_turn=False)

    flags = st.none() | part("|b1")
    whole = st.builds(Box, LIBRARIES, st.just(shape), CODE, part("<i8", "|u1"), part("|i1"), st.none(), flags, flags)
    floats = (part("<f4"), part(">f8"), st.none(), part("|b1"), part("|b1"))
    return whole | st.builds(Box, LIBRARIES, st.just(shape), CODE, *floats)


LIBRARIES, CODE = st.sampled_from(["gym", "gymnasium"]), st.sampled_from(["<i8", "<f4", ">f8"])
flat_spaces = st.one_of(
    shapes.flatmap(boxes),
    st.builds(Discrete, LIBRARIES, numbers, numbers, CODE, st.none()),
    st.builds(MultiDiscrete, LIBRARIES, arrays(("<i8", "<i4")), st.none(), CODE, st.none()),
    st.builds(MultiBinary, LIBRARIES, shapes, CODE, st.none()),
)
spaces = st.recursive(flat_spaces, lambda inner: st.one_of(
    st.builds(DictSpace, LIBRARIES, st.dictionaries(texts, inner, max_size=3), st.none()),
    st.builds(TupleSpace, LIBRARIES, st.lists(inner, max_size=3).map(tuple), st.none()),
), max_leaves=4)  # fmt: skip
objects = st.one_of(
    st.sampled_from([UNIT, FLOAT32, PUBLISHED, DType(">f8"), Reference("gym.spaces.box", "Box")]),
    st.builds(ConstantSchedule, st.floats()),
    st.builds(FloatSchedule, st.builds(LinearSchedule, st.floats(), numbers, st.floats())),
    st.builds(TrainFreq, numbers, st.just(UNIT)),
    st.builds(noise, st.just("Normal"), _mu=arrays(), _sigma=arrays()),
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists, dicts, sets = st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4), st.sets(keys)
    deques = st.builds(deque, lists, st.none() | st.integers(4, 9))
    return st.one_of(lists, lists.map(tuple), dicts, dicts.map(OrderedDict), sets, sets.map(frozenset), deques)


@settings(max_examples=300)
@given(st.recursive(plain | arrays((*CODES, ">i2", ">c16")) | spaces | objects, containers, max_leaves=12))
def test_any_value_comes_back_in_normal_form(value: Any) -> None:
    """decode(encode(v)) is v in normal form, which encodes to the same; only known names are called."""
    data = encode(value)
    assert encode(value) == data
    assert all(map(NAMES.fullmatch, names(data)))
    back = understood(data)
    assert exact(back) == exact(understood(encode(back))) == exact(normal(value))


@settings(max_examples=300)
@given(st.recursive(plain | arrays(), containers, max_leaves=12))
def test_python_and_numpy_load_what_decode_gives(value: Any) -> None:
    """A real unpickler makes the same of plain values and arrays, without a warning (they are errors here)."""
    assert exact(loaded(value)) == exact(understood(encode(value))) == exact(normal(value))


def archives() -> list[Any]:
    manifest = os.path.join(CORPUS, "manifest.json")
    found = [path for part in ("[0-9]*", "extra") for path in glob.glob(os.path.join(GENERATED, part, "*.zip"))]
    if os.path.exists(manifest):
        with open(manifest, encoding="utf-8") as file:
            found += [os.path.join(CORPUS, row["file"]) for row in json.load(file) if row["kind"] == "sb3"]
    return [pytest.param(path, id=os.path.relpath(path, CORPUS.parent)) for path in sorted(found)]


def encoded(value: Any, target: str) -> bytes:
    """A value as it is written, or nothing where it holds something of torch's or is too new."""
    try:
        return encode(value, target)
    except UnsupportedError as error:
        return b"" if re.search("(TensorInfo|RNNStates|Device) has no form|since SB3|that ends", str(error)) else b"?"


def older(value: Any) -> Any:
    """A schedule in normal form as SB3 < 2.7 has it."""
    if isinstance(value, FloatSchedule):
        return older(value.schedule)
    return type(value)(*map(float, value)) if isinstance(value, (ConstantSchedule, LinearSchedule)) else value


@pytest.mark.parametrize("path", archives())
def test_every_value_of_real_archives_comes_back(path: str) -> None:
    blobs = [recognise(value.pickle) for value in sbformat.read(path).data.values() if isinstance(value, Serialized)]
    for value in (outcome.value for outcome in blobs if not outcome.doubts and not outcome.overlooked):
        wanted = normal(value) if encoded(value, "2.9") else None
        for target, form in (("2.9", wanted), ("2.0", older(wanted))):
            data = encoded(value, target)
            COUNTS[f"blobs {'for' if data else 'refused for'} {target}"] += 1
            assert not data or exact(understood(data)) == exact(form)


def test_a_target_is_a_release_with_its_patch_number_or_without() -> None:
    for text, target in (("2.9", (2, 9)), ("2.9.2", (2, 9)), ("2.0", (2, 0)), ("2.2.1", (2, 2)), ("2.0.0", (2, 0))):
        assert target_of(text) == target_of(target_of(text)) == target
        assert str(target_of(text)) == f"{target[0]}.{target[1]}"
    for target, version in RELEASES.items():
        assert target_of(str(target)) == target_of(version) == target_of(target.version) == target
    assert list(RELEASES) == [Target(2, minor) for minor in range(10)]


NONSENSE: Final = ("1.8", "3.0", "2.10", "", "2", "2.", ".9", "v2.9", " 2.9", "-2.9", "29", "12.9", "2,9", "nan", "\x1b[2J",
                   "x" * 10_000, "2" * 10_000, "2." + "9" * 10_000, "\0", "\ud800")  # fmt: skip
TAKEN: Final = ("2.9e", "2.9" + "x" * 10_000, "2.9.", "2.9\n", "\u0662.\u0669", Target(1, 8), Target(3, 0))


@pytest.mark.parametrize("text", [*NONSENSE, *(pytest.param(text, marks=AWAITED) for text in TAKEN)])
def test_any_other_target_is_refused_with_what_there_is(text: str) -> None:
    for ask in (target_of, lambda target: encode(None, target)):
        with pytest.raises(UnsupportedError, match="they are 2.0 to 2.9") as caught:
            ask(text)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 200
