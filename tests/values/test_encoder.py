"""Values to pickles of today's libraries and back: decode gives the value again, in the one form that is written.

Neither gym, torch nor SB3 is needed: their classes are stand-ins that keep what a real unpickler gives them.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import pathlib
import pickle
import pickletools
import re
import struct
from collections import Counter, OrderedDict, deque
from functools import reduce
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sbformat
from sbformat import UnsupportedError
from sbformat.data import Serialized
from sbformat.known.spaces import (
    Box,
    DictSpace,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    TupleSpace,
)
from sbformat.known.table import current_name, find
from sbformat.known.types import (
    CarriedClass,
    ConstantSchedule,
    Cycle,
    DefaultDict,
    Described,
    DType,
    EnumMember,
    FloatSchedule,
    Function,
    Instance,
    LinearSchedule,
    Module,
    ObjectArray,
    Partial,
    RandomState,
    Reference,
    RNNStates,
    SeedSequence,
    TrainFreq,
    Value,
)
from sbformat.pkl import Call, Dict, Extension, FrozenSet, Global, Persistent, Set
from sbformat.pkl.numpy import ArrayInfo, Field
from sbformat.pth import Device, DTypeName, Size, Storage, TensorInfo
from sbformat.values import encode
from tests.helpers.build_blobs import UTILS, call, decode_outcome, function, new, understood
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import more_examples, with_exhaustive
from tests.helpers.shared_files import CORPUS, GENERATED, summarize_counts

COUNTS: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTS, "test_encoder.py wrote and read again")
SB3: Final = "stable_baselines3"
NOISE: Final = f"{SB3}.common.noise"


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
        value = held(value, value.dtype.str, "F" if value.flags.fnc else "C")
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
    """The form in which a value is written (VALUES.md 13.7), made anew: nothing in it is shared."""
    if isinstance(value, ArrayInfo):
        array = value.to_numpy()
        return array.item() if value.is_scalar else held(array, value.dtype) if value.axes else value
    if isinstance(value, Reference):
        return Reference(*current_name(value.pair))
    if isinstance(value, Function):
        return normal(value.schedule)
    if isinstance(value, Value):
        parts = {name: normal(part) for name, part in vars(value).items() if name != "random"}
        if isinstance(value, Box):
            below, above = -np.inf < value.low.to_numpy(), value.high.to_numpy() < np.inf
            parts["bounded_below"] = (value.bounded_below or held(below, "?"))._replace(is_scalar=False)
            parts["bounded_above"] = (value.bounded_above or held(above, "?"))._replace(is_scalar=False)
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


def box(low: Any, high: Any, code: str = "<f4", *flags: Any) -> Box:
    bounds = held(low, code), held(high, code)
    return Box("gymnasium", (*bounds[0].shape,), code, *bounds, None, *(held(part, "?") for part in flags))


def discrete(n: int = 2, library: Any = "gymnasium", random: Any = None) -> Discrete:
    return Discrete(library, n, 0, "<i8", random)


def noise(name: str, **attributes: Any) -> Instance:
    return Instance(Reference(NOISE, f"{name}ActionNoise"), attributes)


GRID: Final = np.arange(24, dtype="i1").reshape(2, 3, 4)
WILD: Final = np.array([0x7FC00001, 0xFFC00000, 0x7F800000, 0xFF800000, 0x80000000, 1], "u4").view("f4")  # NaN to tiny
INF: Final = np.inf
CODES: Final = ("|b1", "|i1", "|u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8", "<c8", "<c16")
RANDOM: Final = RandomState("RandomState", "MT19937", None, None)
HALF, LINE = ConstantSchedule(0.5), LinearSchedule(0.5, 0.25, 1.0)
PUBLISHED: Final = understood(function())[0]
"""A schedule function by value, as it is found in archives."""
UNIT: Final = EnumMember(Reference(f"{SB3}.common.type_aliases", "TrainFrequencyUnit"), "step")
ACTOR_CRITIC: Final = Reference(f"{SB3}.common.policies", "ActorCriticPolicy")
GOAL: Final = EnumMember(Reference(f"{SB3}.her.goal_selection_strategy", "GoalSelectionStrategy"), 0)
FLOAT32, LINEAR = Reference("numpy", "float32"), Reference("torch.nn.modules.linear", "Linear")
OU: Final = {"_theta": 0.15, "_mu": held([0, 0], "<f8"), "_sigma": held([1, 1]), "_dt": 0.01, "initial_noise": None}
INNER: Final = DictSpace("gym", {"y": discrete(3, "gym", RANDOM)}, RANDOM)
LINES, ACTOR = Reference(UTILS, "LinearSchedule"), Reference("sb3_contrib.crossq.policies", "Actor")

SAME: Final[dict[str, Any]] = {
    "leaves": [None, True, False, 0.0, -0.0, 1e-320, float("nan"), INF, -INF],
    "texts": ["", "a" * 300, "\N{SNOWMAN} \U0001f600 \0", "\ud800", b"", b"\0" * 300],
    "numbers": [0, 1, 255, 256, 65536, -1, -128, 2**31 - 1, 2**31, -(2**31), -(2**63), 2**64, -(1 << 100_000)],
    "arrays": [held([[0, 1, 2], [3, 4, 5]], code) for code in CODES],
    "big-endian arrays": [*(held([0, 1], ">" + code[1:]) for code in CODES[3:]), held(GRID, ">i2", "F")],
    "other arrays": [held(GRID, order="F"), held(2.5, "<f8"), held(np.zeros((0, 3))), held(WILD)],
    "dtypes": [DType(code) for code in (*CODES, ">f8")],
    "containers": [(), [], {}, set(), frozenset(), OrderedDict(), deque(), ((),), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "long containers": [[0] * 2500, {str(index): index for index in range(2500)}, deque(range(1001), 2000)],
    "keys": {"z": 1, 2: "b", None: [3], b"c": (4,), 0.5: {}, -1: {"a": OrderedDict([("z", {}), ("a", [1])])}},
    "deques": [deque([{"r": 1.5}, [2]], maxlen=100), deque(maxlen=0)],
    "sets": [{"a", "b"}, frozenset({1, 2.5, b"c", None}), {True, 8, 0}, {1 << 20_000}],
    "classes": [Reference("torch.optim.adam", "Adam"), Reference(f"{SB3}.her.her_replay_buffer", "HerReplayBuffer")],
    "boxes": [box([-INF, -1], [INF, 1], "<f4", [0, 1], [0, 1]), box(WILD, WILD[::-1], "<f4", [0, 1] * 3, [1] * 6)],
    "multi-discrete": MultiDiscrete("gymnasium", held([3, 4], "<i8"), held([1, -1], "<i8"), "<i8", None),
    "spaces in order": DictSpace("gymnasium", {"b": discrete(3), "a": box([0], [1], "<f8", [1], [0])}, None),
    "schedules": [ConstantSchedule(3), LinearSchedule(1, 0.0, 0.3), FloatSchedule(FloatSchedule(LINE))],
    "enumerations": [UNIT, TrainFreq(4, UNIT), GOAL],
    "layers": [Partial(LINEAR, (3, [4]), {"bias": False, "dtype": Reference("torch", "float32")}),
               Partial(Reference(f"{SB3}.common.torch_layers", "NatureCNN"), (), {})],
    "noise of today": noise("Normal", _mu=held([0]), _sigma=held([1]), _dtype=Reference("numpy", "float64")),
}  # fmt: skip
"""In normal form."""

CHANGED: Final[dict[str, Any]] = {
    "a box of gym": Box("gym", (1,), "|u1", held([0], "|u1"), held([9], "|u1"), RANDOM),
    "discrete": [Discrete("gym", 2**40, -3, "<i8", RANDOM),
                 MultiDiscrete("gym", held([[3], [4]], "<i4"), None, "<i4", RANDOM)],
    "big-endian of other axes": ArrayInfo(">f8", (4, 3, 2), "C", GRID.astype(">f8").tobytes(), False, (), (2, 1, 0)),
    "bits": [MultiBinary("gym", shape, "|i1", RANDOM) for shape in ((4,), (2, 3), ())],
    "spaces in spaces": TupleSpace("gym", (DictSpace("gym", {"z": INNER, "a": discrete()}, None), INNER), RANDOM),
    "noise": [noise("Normal", _mu=scalar(0, "<f8"), _sigma=held([1])), noise("OrnsteinUhlenbeck", **OU),
              noise("Vectorized", n_envs=1, _base_noise=noise("Normal"), _noises=[noise("Normal")])],
}  # fmt: skip
"""To what :func:`normal` says."""

ROWS: Final[dict[str, tuple[Any, Any, str]]] = {
    **{name: (value, value, "2.9") for name, value in SAME.items()},
    **{name: (value, normal(value), "2.9") for name, value in CHANGED.items()},
    "other axes": (ArrayInfo("|i1", (4, 2, 3), "C", GRID.tobytes(), False, (), (2, 0, 1)),
                   held(GRID.transpose(2, 0, 1), "|i1"), "2.9"),
    "scalars": ([deque([scalar(2**64 - 1, "<u8"), scalar(0.5, ">f4")], 3), {"b": scalar(1, "|b1")}, scalar(1, ">i2")],
                [deque([2**64 - 1, 0.5], 3), {"b": True}, 1], "2.9"),
    "moved classes": (
        [Reference(f"{SB3}.ppo.policies", "PPOPolicy"), Reference("numpy", "bool"), Reference("gym.spaces.box", "Box")],
        [ACTOR_CRITIC, Reference("numpy", "bool_"), Reference("gymnasium.spaces.box", "Box")], "2.9"),
    "a box unbounded": (box([-INF, 0, -INF, INF], [INF, INF, 5, -INF]),
                        box([-INF, 0, -INF, INF], [INF, INF, 5, -INF], "<f4", [0, 1, 0, 1], [0, 0, 1, 1]), "2.9"),
    "other boxes": ([box([0], [1], "<f4", [0]), box(0, INF, "<f8"), box([], [])],
                    [box([0], [1], "<f4", [0], [1]), box(0, INF, "<f8", 1, 0), box([], [], "<f4", [], [])], "2.9"),
    "a box of no numbers": (box([np.nan], [np.nan]), box([np.nan], [np.nan], "<f4", [0], [0]), "2.9"),
    "a box with scalar flags": (
        Box("gym", (), "<f4", held(0), held(1), None, *[scalar(1, "|b1")] * 2), box(0, 1, "<f4", 1, 1), "2.9"),
    "published functions": ([PUBLISHED, PUBLISHED, FloatSchedule(PUBLISHED)],
                            [HALF, HALF, FloatSchedule(HALF)], "2.9"),
    "schedules in 2.6": ([FloatSchedule(PUBLISHED), LINE, ConstantSchedule(3), FloatSchedule(FloatSchedule(LINE))],
                         [HALF, LINE, ConstantSchedule(3), LINE], "2.6"),
    "a line in 2.0": (LinearSchedule(1, 0, 0.5), LinearSchedule(1, 0, 0.5), "2.0"),
    "new in 2.7": (LINES, LINES, "2.7"),
    "new in 2.4": (ACTOR, ACTOR, "2.4"),
}  # fmt: skip
"""A value, its normal form, and the target."""


@check_each("what", ROWS)
def test_decode_gives_back_what_encode_was_given(what: str) -> None:
    value, wanted, target = ROWS[what]
    data = encode(value, target)
    assert exact(understood(data)) == exact(understood(encode(understood(data), target))) == exact(wanted)
    assert target != "2.9" or exact(wanted) == exact(normal(value))
    assert all(map(NAMES.fullmatch, names(data)))
    loaded(value, target)


def test_what_is_shared_stays_shared_and_nothing_else() -> None:
    for part in ([1], {"a": 1}, OrderedDict(a=1), deque([1]), (1, [2]), held([1]), discrete(), LINE):
        one, two, keyed = understood(encode([part, part, {"k": part}]))
        assert one is two is keyed["k"]
        one, two = understood(encode([part, part._replace() if isinstance(part, ArrayInfo) else normal(part)]))
        assert one is not two
        assert exact(one) == exact(two) == exact(part)
    assert len(encode(nested(50, lambda part: [part, part], 1))) < 500


def test_equal_values_are_written_alike() -> None:
    assert encode([{0, 8}, frozenset([0, 8])]) == encode([{8, 0}, frozenset([8, 0])])
    low, high = held([0, 0]), held([1, 1])
    assert encode(Box("gym", low.shape, "<f4", low, high, None)) == encode(Box("gym", (2,), "<f4", low, high, None))


CARRIED: Final = Function("make.<locals>.f", "m", None, {}, (), {}, None)
STORAGE: Final = Storage("0", "float32", 1, "cpu", "little", lambda _: memoryview(bytes(4)), "")
WRAPS: Final[list[Any]] = [
    (lambda part: [part], 1), (lambda part: (part,), 1), (lambda part: {"a": part}, 1),
    (lambda part: OrderedDict(a=part), 1), (lambda part: deque([part]), 1), (FloatSchedule, LINE),
    (lambda part: TupleSpace("gymnasium", (part,), None), discrete()),
    (lambda part: DictSpace("gymnasium", {"a": part}, None), discrete()),
    (lambda part: Partial(LINEAR, (part,), {}), 1),
]  # fmt: skip


def nested(depth: int, wrap: Any, made: Any) -> Any:
    return reduce(lambda part, _: wrap(part), range(depth - (type(made) is not int)), made)


REFUSED: Final[dict[str, tuple[Any, str]]] = {
    **{type(value).__name__: (value, f"a {type(value).__name__} has no form without code that every release loads")
       for value in (
        Dict([((), 1)]), Set([()]), FrozenSet([()]), CarriedClass("m", "C", (), {}), Module("os"), Cycle(), RANDOM,
        ObjectArray((1,), "C", [None]),
        SeedSequence(1, (), 4, 0, ArrayInfo("<u4", (4,), "C", bytes(16), False)), Described("range", (3,)),
        RNNStates((), ()),
        DefaultDict(None, {}), TensorInfo("float32", (1,), (1,), 0, STORAGE), Device("cpu"), DTypeName("float32"),
        Size((1,)), Graph("gym", discrete(), None, None), Sequence("gym", discrete(), False, None), dict, print,
        Text("gym", 1, 2, "ab", None), OneOf("gym", (discrete(),), None), pathlib.PurePosixPath("/a"), NotImplemented,
        pathlib.PureWindowsPath("a"), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), dt.timedelta(1), bytearray(b"a"),
        1j, ..., range(3), object(), Counter("a"), np.float64(1), np.zeros(1), memoryview(b""),
    )},
    "an unknown name": (Global("os", "system"), "'os.system' is not known"),
    "an unknown object": (new("my.spaces", "Box", {"n": 2}), "'my.spaces.Box' is not known"),
    **{repr(node): (node, "its constructor is not known")
       for node in (Call("REDUCE", call("a", "b"), ()), Persistent("0"), Extension(3))},
    "an unknown reference": (Reference("my.policies", "Policy"), "'my.policies.Policy' is not a known class"),
    **{f"a {type(value).__name__} by value": (value, "the function 'make.<locals>.f' is pickled by value")
       for value in (CARRIED, FloatSchedule(CARRIED), Partial(CARRIED, (), {}))},
    "a schedule of a name": (FloatSchedule(Global("my", "schedule")), "'my.schedule' is not known"),
    "a partial of a schedule": (Partial(PUBLISHED, (), {}), "a partial of a function that is pickled by value"),
    "a structure": (ArrayInfo("|V4", (1,), "C", bytes(4), False, (Field("a", "<f4", 0),)), "the dtype '|V4'"),
    **{f"an array of {code}": (ArrayInfo(code, (0,), "C", b"", False), f"the dtype '{code}'")
       for code in ("<U2", "|S3", "<M8[s]", "<f16")},
    "a complex scalar": (held(1j, "<c16")._replace(is_scalar=True), "a scalar of the dtype '<c16'"),
    "what decode leaves of dates": (
        decode_outcome(pickle.dumps(np.zeros(2, "M8[s]"))).value,
        "_reconstruct' is not known",
    ),
    **{f"the dtype {code}": (DType(code), f"expected a dtype of numbers, got '{code}'") for code in ("|O8", "<U3")},
    "a space of text": (Discrete("gym", 2, 0, "<U0", None), "expected a dtype of numbers, got '<U0'"),
    "a space of a graph": (TupleSpace("gym", (Graph("gym", discrete(), None, None),), None), "a Graph has no form"),
    "a buffer": (Instance(Reference(f"{SB3}.common.buffers", "ReplayBuffer"), {}), "common.buffers.ReplayBuffer'"),
    "noise of SB2": (Instance(Reference("stable_baselines.common.noise", "NormalActionNoise"), {}), "an object of"),
    "an unknown enumeration": (EnumMember(Reference("my", "Colour"), 1), "'my.Colour' is not a known enumeration"),
    "a list of itself": ((knot := []).append(knot) or knot, "nested more than 60 levels deep"),
}  # fmt: skip


def refused(value: Any, message: str, target: str = "2.9") -> None:
    with pytest.raises(UnsupportedError, match=re.escape(message)) as caught:
        encode(value, target)
    assert type(caught.value) is UnsupportedError
    assert len(str(caught.value)) < 300


@check_each("what", REFUSED)
def test_what_has_no_form_without_code_is_refused_wherever_it_stands(what: str) -> None:
    refused_anywhere(*REFUSED[what])


def refused_anywhere(value: Any, message: str) -> None:
    partial = Partial(LINEAR, (), {"a": value})
    for around in (value, [1, value], (value,), {"a": value}, OrderedDict(a=value), deque([value], 2), partial):
        refused(around, message)


@pytest.mark.parametrize("depth", with_exhaustive([61, 5000], [50_000]))
@pytest.mark.parametrize("row", range(len(WRAPS)))
def test_what_is_nested_deeper_is_refused_wherever_it_stands(row: int, depth: int) -> None:
    refused_anywhere(nested(depth, *WRAPS[row]), "nested more than 60 levels deep")


@check_each("wrap", WRAPS)
def test_the_deepest_that_is_written_is_read(wrap: Any) -> None:
    assert exact(understood(encode(nested(60, *wrap)))) == exact(nested(60, *wrap))


@check_each(("value", "target", "message"), [
    (FloatSchedule(CARRIED), "2.6", "the function 'make.<locals>.f' is pickled by value"),
    *((Reference(UTILS, f"{name}Schedule"), "2.6", f"{name}Schedule exists since SB3 2.7, not in 2.6")
      for name in ("Constant", "Linear", "Float")),
    (Reference(f"{SB3}.common.buffers", "NStepReplayBuffer"), "2.6", "NStepReplayBuffer exists since SB3 2.7"),
    (Reference("sb3_contrib.crossq.policies", "CrossQPolicy"), "2.3", "CrossQPolicy exists since SB3 2.4, not in 2.3"),
    (Reference("sb3_contrib.crossq.crossq", "CrossQ"), "2.9", "CrossQ is an algorithm, which constructs"),
    (Reference("sb3_contrib.common.torch_layers", "BatchRenorm1d"), "2.3", "exists since SB3 2.4, not in 2.3"),
    *((Reference(module, name), "2.9", f"{module}.{name} is in no release of SB3 2") for module, name in (
        ("stable_baselines.common.policies", "MlpPolicy"), (f"{SB3}.sac.policies", "Critic"),
        ("gymnasium.spaces.oneof", "OneOf"),
    )),
    (EnumMember(LINEAR, 3), "2.9", "is not a known enumeration"),
    (Partial(Reference("builtins", "type"), (1,), {}), "2.9", "expected a layer or optimizer in a partial"),
])  # fmt: skip
def test_what_a_release_does_not_have_is_refused_for_it(value: Any, target: str, message: str) -> None:
    refused([value], message, target)


def test_a_foreign_name_may_stand_where_it_is_allowed_and_no_other() -> None:
    pair = ("my.policies", "Policy")
    assert names(encode([Reference(*pair)], foreign=frozenset({pair}))) == {"my.policies.Policy"}
    for value in (Reference("my.policies", "Other"), Global(*pair), call(*pair)):
        with pytest.raises(UnsupportedError, match="my.policies"):
            encode(value, foreign=frozenset({pair}))


OLDER: Final = re.compile("INST|OBJ|NEWOBJ_EX|GLOBAL|EXT.|.*PERSID|(.*BIN)?STRING|INT|LONG|FLOAT|UNICODE")
NAMES: Final = re.compile(
    r"numpy\.(dtype|ndarray|float(32|64)|bool_)|collections\.(OrderedDict|deque)|functools\.partial"
    r"|gymnasium\.spaces\.(box\.Box|dict\.Dict|(multi_)?discrete\.(Multi)?Discrete|tuple\.Tuple|multi_binary\.Multi.*)"
    r"|stable_baselines3\.(common\.(utils\.((Constant|Linear|Float)Schedule|get_linear_fn|constant_fn)|type_aliases\.TrainFreq(uencyUnit)?"
    r"|noise\.(Normal|OrnsteinUhlenbeck|Vectorized)ActionNoise)|her\.goal_selection_strategy\.GoalSelectionStrategy)"
    r"|(torch|stable_baselines3|sb3_contrib)\.[a-z0-9_.]+\.(Adam|Linear|HerReplayBuffer|NatureCNN|ActorCriticPolicy"
    r"|NStepReplayBuffer|Actor)|torch\.float32"
)
"""Every name that is written, with the classes of the rows above."""


def names(data: bytes) -> set[str]:
    """The names in a pickle as the standard library lists its opcodes, which are checked too."""
    found, stack, memo = set(), [], []
    for opcode, argument, _ in pickletools.genops(data):
        assert opcode.proto <= 4
        assert not OLDER.fullmatch(opcode.name), opcode.name
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

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state


class Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy", "collections"):
            return super().find_class(module, name)
        return type(name, (StandIn,), {"__module__": module})


def loaded(value: Any, target: str = "2.9") -> Any:
    return Unpickler(io.BytesIO(encode(value, target))).load()


COMMON: Final = {"_np_random": None, "dtype": np.dtype("i8")}
PARTS: Final = {"_np_random": None, "dtype": None, "_shape": None}
ZEROS: Final = held([0, 0], "<i8")


@check_each(("value", "state"), [
    (Box("gym", (2,), "<i8", ZEROS, ZEROS, RANDOM), {
        "low": ZEROS, "high": ZEROS, "bounded_below": held([1, 1], "?"), "bounded_above": held([1, 1], "?"),
        "_shape": (2,), **COMMON}),
    (Discrete("gym", 3, -1, "<i8", None), {"n": 3, "start": -1, "_shape": (), **COMMON}),
    (MultiDiscrete("gym", ZEROS, None, "<i8", None), {"nvec": ZEROS, "start": ZEROS, "_shape": (2,), **COMMON}),
    (MultiBinary("gym", (2, 3), "<i8", None), {"n": (2, 3), "_shape": (2, 3), **COMMON}),
    (DictSpace("gym", {}, RANDOM), {"spaces": OrderedDict(), "sort_keys": True, **PARTS}),
    (TupleSpace("gym", (), RANDOM), {"spaces": (), **PARTS}),
])  # fmt: skip
def test_what_gymnasium_is_given(value: Any, state: dict[str, Any]) -> None:
    assert dict(exact(loaded(value).state)[1:]) == dict(exact(state)[1:])


def test_functions_of_sb3_are_called_with_numbers() -> None:
    assert loaded(FloatSchedule(LinearSchedule(3e-4, 1e-5, 0.5)), "2.6").args == (3e-4, 1e-5, 0.5)
    assert loaded(ConstantSchedule(3), "2.0").args == (3,)


def test_big_endian_items_are_turned_round_and_equal_arrays_stay_apart() -> None:
    assert loaded(held([1, 2], ">i4")).tolist() == [1, 2]
    one, two = loaded([held([0.0] * 200), held([0.0] * 200)])
    one[0] = 7
    assert two[0] == 0


texts = st.text(st.characters(), max_size=8)
plain = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), texts, st.binary(max_size=300))
keys = st.one_of(texts, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.binary(max_size=8))
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def arrays(draw: Any, codes: tuple[str, ...] = CODES) -> ArrayInfo:
    """Any bits, in rows, in columns or along other axes."""
    code, lengths = draw(st.sampled_from(codes)), (*draw(shapes),)
    size = int(np.prod(lengths)) * np.dtype(code).itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    raw = bytes(byte & 1 for byte in raw) if code == "|b1" else raw
    axes = draw(st.permutations(range(len(lengths))).map(tuple)) if draw(st.booleans()) else ()
    shape = tuple(lengths[axis] for axis in axes) if axes else lengths
    return ArrayInfo(code, shape, "C" if axes else draw(st.sampled_from("CF")), raw, False, (), axes)


ints, floats = arrays(("<i8", "|u1")), arrays((">f8", "<f4"))
spaces = st.recursive(st.one_of(
    ints.map(lambda low: Box("gym", low.shape, "<i4", low, low, RANDOM)),
    floats.map(lambda low: Box("gym", low.shape, "<f4", low, low, None, *[held(np.zeros(low.shape), "?")] * 2)),
    ints.map(lambda nvec: MultiDiscrete("gym", nvec, None, nvec.dtype, None)),
), lambda inner: (
    st.dictionaries(texts, inner, max_size=3).map(lambda parts: DictSpace("gym", parts, None))
    | st.lists(inner, max_size=3).map(lambda parts: TupleSpace("gym", tuple(parts), RANDOM))
), max_leaves=4)  # fmt: skip
rows = st.sampled_from([*SAME, *CHANGED])
leaves = plain | arrays((*CODES, ">i2", ">c16")) | spaces | rows.map(lambda name: ROWS[name][0])


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists, dicts, sets = st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4), st.sets(keys)
    deques = st.builds(deque, lists, st.none() | st.integers(4, 9))
    return st.one_of(lists, lists.map(tuple), dicts, dicts.map(OrderedDict), sets, sets.map(frozenset), deques)


@more_examples(300)
@given(st.recursive(leaves, containers, max_leaves=12))
def test_any_value_comes_back_in_normal_form(value: Any) -> None:
    """decode(encode(v)) is v in normal form, which encodes to the same; only known names are called."""
    data = encode(value)
    assert all(map(NAMES.fullmatch, names(data)))
    back = understood(data)
    assert exact(back) == exact(normal(value))
    assert encode(back) == encode(value) == data


@more_examples(300)
@given(st.recursive(plain | arrays(), containers, max_leaves=12))
def test_python_and_numpy_load_what_decode_gives(value: Any) -> None:
    """A real unpickler makes the same of plain values and arrays, without a warning (they are errors here)."""
    assert exact(loaded(value)) == exact(understood(encode(value))) == exact(normal(value))


def archives() -> list[Any]:
    found = [*GENERATED.glob("[0-9]*/*.zip"), *GENERATED.glob("extra/*.zip")]
    manifest = CORPUS / "manifest.json"
    if manifest.exists():
        found += [CORPUS / row["file"] for row in json.loads(manifest.read_text("utf-8")) if row["kind"] == "sb3"]
    return [pytest.param(path, id=str(path.relative_to(CORPUS.parent))) for path in sorted(found)]


@pytest.mark.parametrize("path", archives())
def test_every_value_of_real_archives_comes_back(path: pathlib.Path) -> None:
    blobs = [
        decode_outcome(value.pickle) for value in sbformat.read(path).data.values() if isinstance(value, Serialized)
    ]
    for value in (outcome.value for outcome in blobs if not outcome.issues and not outcome.overlooked):
        if re.search("'(TensorInfo|RNNStates|Device)'", repr(exact(value))):
            COUNTS["blobs with values of torch, refused"] += 1
            refused(value, " has no form without code")
        elif isinstance(value, Reference) and "algorithm" in find(value.pair).uses:
            refused(value, "is an algorithm")
        else:
            COUNTS["blobs"] += 1
            assert exact(understood(encode(value))) == exact(normal(value))
            assert encode(understood(encode(value))) == encode(value)
