"""Of pickles whose fields contradict one another, known reads what the real libraries make of them, or refuses.

Each part of each kind of value that is known is replaced, left out, given twice or under its other name; where nothing
of the result is in doubt, cloudpickle loads it too, and the two values are equal.
"""

from __future__ import annotations

import datetime as dt
import functools
import pathlib
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

import cloudpickle
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common import noise, running_mean_std, type_aliases, utils
from stable_baselines3.her import GoalSelectionStrategy

from sbformat import pkl
from sbformat.errors import SbformatError
from sbformat.known import types as values
from sbformat.pkl import Call, Dict, FrozenSet, Global, Set
from sbformat.pkl.tree import walk
from tests.helpers.build_blobs import array, call, decode_outcome, dtype
from tests.helpers.sampling import HAS_ALL
from tests.helpers.shared_files import summarize_counts
from tests.interop.test_values_live import same, same_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.filterwarnings("ignore")]

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_values_differential.py:")


def seeded(space: Any) -> Any:
    space.seed(7)
    return space


BOX: Final = spaces.Box(-1.0, 1.0, (2,), np.float32)
FIELDS: Final = np.dtype([("a", "<f4"), ("b", ">i2")])
REAL: Final[dict[str, Callable[[], Any]]] = {
    "Box": lambda: spaces.Box(np.array([-np.inf, 0], "f4"), np.array([1, np.inf], "f4")),
    "Box seeded": lambda: seeded(spaces.Box(0, 255, (2, 1), np.uint8)),
    "Discrete": lambda: spaces.Discrete(4, start=-1),
    "Discrete of int32": lambda: spaces.Discrete(4, dtype=np.int32),
    "MultiDiscrete": lambda: spaces.MultiDiscrete([3, 4], start=[1, -1]),
    "MultiBinary": lambda: spaces.MultiBinary(2),
    "MultiBinary of a shape": lambda: spaces.MultiBinary((2, 3)),
    "Text": lambda: spaces.Text(5, min_length=2, charset="abc"),
    "Dict": lambda: spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Discrete(3)}),
    "Tuple": lambda: spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))),
    "Sequence": lambda: spaces.Sequence(spaces.Discrete(2), stack=True),
    "Graph": lambda: spaces.Graph(spaces.Discrete(2), spaces.Discrete(3)),
    "OneOf": lambda: spaces.OneOf((spaces.Discrete(2), spaces.Discrete(3))),
    "array": lambda: np.arange(6, dtype="f4").reshape(2, 3),
    "array in columns": lambda: np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
    "array transposed": lambda: np.arange(24, dtype="i2").reshape(2, 3, 4).transpose(1, 2, 0),
    "array of objects": lambda: np.array([[1, "a"], [None, 2.5]], dtype=object),
    "array of text": lambda: np.array(["a", "bc"]),
    "array of bytes": lambda: np.array([b"a", b"bc"]),
    "array of rows": lambda: np.array([(1.5, 2)], FIELDS),
    "array without axes": lambda: np.array(1.5),
    "bools": lambda: np.array([True, False]),
    "scalar": lambda: np.float32(2.5),
    "scalar of text": lambda: np.str_("ab"),
    "dtype": lambda: np.dtype(">f4"),
    "dtype of rows": lambda: FIELDS,
    "dtype of objects": lambda: np.dtype("O"),
    **{
        f"{name} as {kind.__name__}": functools.partial(lambda bits, as_: as_(bits(5)), getattr(np.random, name), kind)
        for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
        for kind in (np.random.Generator, np.random.RandomState)
    },
    "SeedSequence": lambda: np.random.SeedSequence(7, spawn_key=(1, 2)),
    "schedules": lambda: utils.FloatSchedule(utils.LinearSchedule(1.0, 0.1, 0.5)),
    "constant": lambda: utils.ConstantSchedule(0.5),
    "noise": lambda: noise.NormalActionNoise(np.zeros(2), np.ones(2)),
    "noise of several": lambda: noise.VectorizedActionNoise(noise.NormalActionNoise(np.zeros(2), np.ones(2)), 2),
    "statistics": lambda: running_mean_std.RunningMeanStd(shape=(2,)),
    "TrainFreq": lambda: type_aliases.TrainFreq(3, type_aliases.TrainFrequencyUnit.EPISODE),
    "strategy": lambda: GoalSelectionStrategy.FINAL,
    "states": lambda: RNNStates((torch.zeros(1, 2),), (torch.ones(1, 2),)),
    "tensor": lambda: torch.arange(6.0).reshape(2, 3).T,
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "tensor of ints": lambda: torch.arange(6),
    "complex tensor": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "device": lambda: torch.device("cuda", 1),
    "size": lambda: torch.Size((2, 3)),
    "deque": lambda: deque([1, 2, 3], maxlen=5),
    "OrderedDict": lambda: OrderedDict(a=1, b=2),
    "defaultdict": lambda: defaultdict(int, {"a": 1}),
    "dict": lambda: {"a": 1, "b": (2, 3.0), 3: None},
    "sets": lambda: [{1, 2}, frozenset({"a"})],
    "partial": lambda: functools.partial(torch.nn.LeakyReLU, 0.1, inplace=True),
    "range": lambda: [range(1, 9, 2), slice(1, None)],
    "complex": lambda: 1 + 2j,
    "bytearray": lambda: bytearray(b"ab"),
    "times": lambda: [dt.datetime(2020, 1, 2, 3, 4, 5, 6, dt.timezone.utc, fold=1), dt.date(2020, 1, 2),
                      dt.time(1, 2, 3), dt.timedelta(1, 2, 3)],
    "path": lambda: pathlib.PurePosixPath("a/b"),
}  # fmt: skip


def made(value: Any, protocol: int = 4) -> Any:
    return pkl.loads(cloudpickle.dumps(value, protocol))


def scalar(code: str, order: str, items: bytes) -> Call:
    return call("numpy.core.multiarray", "scalar", dtype(code, order), items)


REPLACEMENTS: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, 2, 3, -1, 255, 2**31, 2**64, 1.0, 0.5, float("inf"), "", "a", "f4", "O8",
    ">", "|", "C", "F", "episode", "float32", "MT19937", "PCG64", b"", b"b", b"\1\0", bytes(8), (), (0,), (1,), (2,),
    (3,), (2, 3),
    (-1,), (2.0,), [], [1], [2, 3], Dict(), Dict([("a", 1)]), Dict([("b", 2), ("a", 1)]), Set([1]), FrozenSet(["a"]),
    bytearray(b"ab"),
    dtype("f4"), dtype("i8", ">"), dtype("O8", "|"), dtype("U1"), call("numpy", "dtype", "f8", False, False),
    array((2,), bytes(8)), array((2,), bytes(16), "i8"), array((2,), bytes(2), "b1", "|"), array((1, 2), bytes(8)),
    array((2,), b"\0\0\0\1\0\0\0\2", "i4", ">"), array((), b"\0\0\x80?"), array((1,), [None], "O8", "|"),
    scalar("f4", "<", b"\xcd\xcc\xcc="), scalar("i8", "<", bytes([2, *bytes(7)])), scalar("b1", "|", b"\1"),
    call("collections", "OrderedDict"),
    Global("numpy", "float32"), Global("numpy", "ndarray"), Global("builtins", "int"), Global("torch", "float32"),
    made(spaces.Discrete(3)), made(BOX), made(np.random.default_rng(3)), made(utils.ConstantSchedule(1.0)),
)  # fmt: skip
"""What each part is replaced by: values that are near to those of some library, and in contradiction to the others."""

MOST_REPLACED: Final = 1500 if HAS_ALL else 500
"""Of one kind: of larger ones each part is replaced by every second, third, ... value, in turn."""
NEAR: Final = (None, 1, (2,), (3,), dtype("i8", ">"), array((2,), bytes(8)), made(np.random.default_rng(3)), ("a",))
"""What is given besides, or under another name."""
ALIASES: Final = {
    "_shape": "shape", "_np_random": "np_random", "_char_list": "_charlist", "_char_set": "charset",
    "_char_str": "_charset_str", "n": "nvec", "low": "low_repr",
}  # fmt: skip


def slots(root: list[Any]) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    """Yield each part of a tree in a list, and what puts another in its place."""
    for node in walk(root):
        if isinstance(node, Call):
            yield node.args, functools.partial(setattr, node, "args")
            yield from of_tuple(node.args, functools.partial(setattr, node, "args"))
            for update in node.updates or ():
                yield update.value, functools.partial(setattr, update, "value")
                yield from of_tuple(update.value, functools.partial(setattr, update, "value"))
        elif isinstance(node, Dict):
            for at, (key, value) in enumerate(node):
                put = functools.partial(set_value, node, at, key)
                yield key, functools.partial(set_key, node, at, value)
                yield value, put
                yield from of_tuple(value, put)
        elif type(node) is list:
            for at, part in enumerate(node):
                yield part, functools.partial(node.__setitem__, at)


def set_key(node: Dict, at: int, value: object, key: object) -> None:
    node[at] = (key, value)


def set_value(node: Dict, at: int, key: object, value: object) -> None:
    node[at] = (key, value)


def set_part(whole: tuple[Any, ...], at: int, put: Callable[[Any], None], part: object) -> None:
    put((*whole[:at], part, *whole[at + 1 :]))


def of_tuple(value: Any, put: Callable[[Any], None]) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    if type(value) is not tuple:
        return
    for at, part in enumerate(value):
        inner = functools.partial(set_part, value, at, put)
        yield part, inner
        yield from of_tuple(part, inner)


def mutants(root: list[Any]) -> Iterator[bytes]:
    """Yield the pickles that one change of a tree gives."""
    places = list(slots(root))
    stride = -(-len(places) * len(REPLACEMENTS) // MOST_REPLACED)
    for turn, (old, put) in enumerate(places):
        for new in REPLACEMENTS[turn % stride :: stride]:
            put(new)
            yield from written(root)
        put(old)
    for node in list(walk(root)):
        if isinstance(node, Dict):
            yield from of_dict(root, node)
        elif isinstance(node, Call) and node.updates:
            kept = node.updates
            for others in ([], kept * 2, kept[:1]):
                node.updates = others
                yield from written(root)
            node.updates = kept


def of_dict(root: list[Any], node: Dict) -> Iterator[bytes]:
    kept = list(node)
    for at, (key, _) in enumerate(kept):
        node[:] = [*kept[:at], *kept[at + 1 :]]
        yield from written(root)
        for new in NEAR:
            node[:] = [*kept, (key, new)]
            yield from written(root)
            if isinstance(key, str) and key in ALIASES:
                for pairs in ([*kept, (ALIASES[key], new)], [*kept[:at], *kept[at + 1 :], (ALIASES[key], new)]):
                    node[:] = pairs
                    yield from written(root)
    node[:] = kept[::-1]
    yield from written(root)
    node[:] = kept


def written(root: list[Any]) -> Iterator[bytes]:
    try:
        yield pkl.dumps(root[0])
    except (SbformatError, TypeError, AttributeError, ValueError, IndexError):
        COUNTED["changes that no pickle has"] += 1


# -- a value and what it is said to be, of any kind ---------------------------------------------------


def equal(found: Any, real: Any) -> None:  # noqa: C901, PLR0912, PLR0915 -- a case a kind
    """Assert that a value of ours is the real one."""
    if isinstance(real, np.dtype):
        assert isinstance(found, values.DType)
        if found.fields:
            assert real.names == tuple(field.name for field in found.fields)
            assert [(real[name], real.fields[name][1]) for name in real.names] == [
                (np.dtype(field.dtype), field.offset) for field in found.fields
            ]
        else:
            assert np.dtype(found.code) == real
    elif isinstance(real, np.ndarray) and real.dtype == object:
        assert (found.shape, len(found.items)) == (real.shape, real.size)
        for mine, part in zip(found.items, real.ravel().tolist()):
            equal(mine, part)
    elif isinstance(real, (np.random.Generator, np.random.RandomState)):
        state = real.bit_generator.state if isinstance(real, np.random.Generator) else real.get_state(legacy=False)
        assert (found.kind, found.bit_generator) == (type(real).__name__, state["bit_generator"])
        same_numbers(found.state, state)
        if found.seed_sequence is not None:
            equal(found.seed_sequence, getattr(real, "bit_generator", getattr(real, "_bit_generator", None)).seed_seq)
    elif isinstance(real, np.random.SeedSequence):
        assert (found.spawn_key, found.pool_size, found.n_children_spawned) == (
            real.spawn_key, real.pool_size, real.n_children_spawned)  # fmt: skip
        np.testing.assert_array_equal(found.pool.to_numpy(), real.pool)
        equal(found.entropy, real.entropy)
    elif isinstance(found, values.Instance):
        assert found.type.pair == (type(real).__module__, type(real).__qualname__)
        equal(found.attributes, vars(real))
    elif isinstance(real, defaultdict):
        assert getattr(found.factory, "name", None) == getattr(real.default_factory, "__name__", None)
        equal(found.items, dict(real))
    elif isinstance(real, functools.partial):
        equal([found.function, found.args, found.keywords], [real.func, real.args, real.keywords])
    elif isinstance(real, (range, slice)):
        assert eval(found.kind.removeprefix("builtins."))(*found.parts) == real  # noqa: S307 -- one of two
    elif isinstance(real, pathlib.PurePath):
        assert found == pathlib.PurePosixPath(real)
    elif isinstance(real, RNNStates):
        assert isinstance(found, values.RNNStates)
        equal([found.pi, found.vf], [real.pi, real.vf])
    elif isinstance(real, torch.dtype):
        assert (found.module, found.name) == tuple(str(real).split("."))
    elif isinstance(real, (set, frozenset)):
        assert (type(found), found) == (type(real), real)
    elif isinstance(real, torch.Size):
        assert tuple(found) == tuple(real)
    elif isinstance(real, (utils.ConstantSchedule, utils.LinearSchedule, utils.FloatSchedule)):
        equal_schedule(found, real)
    elif isinstance(real, dict):
        assert isinstance(found, OrderedDict) == isinstance(real, OrderedDict)
        assert list(map(repr, found)) == list(map(repr, real))
        for mine, part in zip(found.values(), real.values()):
            equal(mine, part)
    elif type(real) in (list, tuple, deque):
        assert type(found) is type(real)
        assert (len(found), getattr(found, "maxlen", None)) == (len(real), getattr(real, "maxlen", None))
        for mine, part in zip(found, real):
            equal(mine, part)
    elif isinstance(real, float) and real != real:  # noqa: PLR0124 -- NaN
        assert found != found  # noqa: PLR0124
    else:
        same(found, real)


def equal_schedule(found: Any, real: Any) -> None:
    """By what it computes, to the last bit where it computes anything."""
    if isinstance(real, utils.ConstantSchedule):
        value = real.val.item() if isinstance(real.val, (np.generic, np.ndarray)) else real.val
        assert (type(found), repr(found.value)) == (values.ConstantSchedule, repr(value))
    elif isinstance(real, utils.FloatSchedule):
        assert isinstance(found, values.FloatSchedule)
        equal_schedule(found.schedule, real.value_schedule)
    else:
        again = utils.LinearSchedule(found.start, found.end, found.end_fraction)
        for progress in (1.0, 0.7, 0.1):
            assert outcome(again, progress) == outcome(real, progress)


def outcome(schedule: Any, progress: float) -> str:
    try:
        return repr(float(schedule(progress)))
    except (ZeroDivisionError, OverflowError) as error:
        return type(error).__name__


def holds_pairs(value: Any) -> bool:
    """Say whether a dict or set in a value stays as it is in the tree, since its keys are not hashed."""
    if isinstance(value, (Dict, Set, FrozenSet)):
        return True
    if isinstance(value, values.Value):
        return any(map(holds_pairs, value))
    if isinstance(value, dict):
        return any(map(holds_pairs, value.values()))
    return isinstance(value, (list, tuple, deque)) and any(map(holds_pairs, value))


@pytest.mark.parametrize("what", REAL)
def test_what_is_understood_is_what_the_library_makes_of_it(what: str) -> None:
    root = [made(REAL[what]())]
    checked: set[bytes] = set()
    wrong: list[str] = []
    for data in mutants(root):
        if data in checked:
            continue
        checked.add(data)
        try:
            found = decode_outcome(data)
        except SbformatError:
            COUNTED["refused"] += 1
            continue
        if found.issues or found.overlooked or found.decoder.pickle.flags or holds_pairs(found.value):
            COUNTED["refused"] += 1
            continue
        COUNTED["understood"] += 1
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                equal(found.value, cloudpickle.loads(data))
        except Exception as error:  # noqa: BLE001 -- whatever a library raises
            if "device" in str(error).lower():  # each build of torch has others
                continue
            wrong.append(f"{type(error).__name__}: {str(error)[:200]}: {found.value!r:.300}")
    assert wrong == []
    assert len(checked) > 1
