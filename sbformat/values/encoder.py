"""Encode values as pickles that current libraries load: the inverse of the node decoders (VALUES.md 13.7).

The pickles contain references to classes and plain data: no code, and nothing that some release of Python, numpy,
gymnasium or the target cannot load. A value that has no such form is refused, never approximated.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.errors import UnsupportedError, quote
from sbformat.immutable import FrozenDict, FrozenList
from sbformat.known.changes import SCHEDULE_CLASSES
from sbformat.known.table import find
from sbformat.known.types import (
    Box,
    ConstantSchedule,
    DictSpace,
    Discrete,
    DType,
    EnumMember,
    FloatSchedule,
    Function,
    Instance,
    InterpolatedSchedule,
    LinearSchedule,
    MultiBinary,
    MultiDiscrete,
    Partial,
    Reference,
    TrainFreq,
    TupleSpace,
)
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.names import NUMPY_NDARRAY
from sbformat.pkl.numpy import ITEM_SIZES, ArrayInfo
from sbformat.pkl.numpy_calls import dtype_tree
from sbformat.pkl.tree import Call, Dict, FrozenSet, Global, Node, Set, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.known.changes import Release
    from sbformat.known.types import Space
    from sbformat.pkl.names import Pair

_PROTOCOL: Final = 4
_DEEPEST: Final = 60
_SB3_UTILS: Final = "stable_baselines3.common.utils"
_LEAVES: Final = (type(None), bool, int, float, str, bytes)


def encode_value(value: object, target: Release, foreign: frozenset[Pair]) -> bytes:
    """Return a pickle of a value; see :func:`sbformat.values.encode`.

    :raises UnsupportedError: for a value that has no form without code, or that is not known
    """
    return encode_pickle(_Encoder(target, foreign).tree(value), protocol=_PROTOCOL)


def make_tree(value: object, target: Release) -> Any:
    """Return the tree of a value, to be a part of another pickle.

    :raises UnsupportedError: as :func:`encode_value`
    """
    return _Encoder(target, frozenset()).tree(value)


class _Encoder:
    """Encodes one value; shared parts stay shared."""

    def __init__(self, target: Release, foreign: frozenset[Pair]) -> None:
        self.target = target
        self._foreign = foreign
        self._made: dict[int, tuple[object, object]] = {}
        """The tree of a container or value by its ``id()``, and the value itself, which keeps the id in use."""
        self._depth = 0

    def tree(self, value: object) -> Any:
        if type(value) in _LEAVES:
            return value
        known = self._made.get(id(value))
        if known is not None:
            return known[0]
        write = _ENCODERS.get(type(value))
        if write is None:
            _refuse(_why_not(value))
        self._depth += 1
        if self._depth > _DEEPEST:
            _refuse(f"a value is nested more than {_DEEPEST} levels deep")
        made = write(self, value)
        self._depth -= 1
        self._made[id(value)] = made, value
        return made

    def trees(self, values: Iterable[object]) -> list[Any]:
        return [self.tree(value) for value in values]

    # -- containers -----------------------------------------------------------------------------------

    def pairs(self, value: dict[object, object]) -> Dict:
        return Dict([(self.tree(key), self.tree(part)) for key, part in value.items()])

    def ordered_dict(self, value: OrderedDict[object, object]) -> Call:
        made = Call("REDUCE", Global("collections", "OrderedDict"), ())
        if value:
            made.updates = [Update("SETITEMS", made, self.pairs(value))]
        return made

    def deque(self, value: deque[object]) -> Call:
        made = Call("REDUCE", Global("collections", "deque"), ((), value.maxlen))
        if value:
            made.updates = [Update("APPENDS", made, self.trees(value))]
        return made

    # -- arrays (13.2) --------------------------------------------------------------------------------

    def array(self, info: ArrayInfo) -> object:
        """Encode an array in the form that numpy 1 and 2 share, and a scalar as a Python number."""
        if info.fields or info.dtype[1:] not in ITEM_SIZES:
            _refuse(f"an array of the dtype {quote(info.dtype)} has no form that every numpy loads")
        if info.is_scalar:
            return _number(info)
        if info.axes:
            array = info.to_numpy()
            info = ArrayInfo(info.dtype, array.shape, "C", array.astype(info.dtype).tobytes(), is_scalar=False)
        return encode_array(info)

    def dtype(self, value: DType) -> Call:
        if value.fields or value.code[1:] not in ITEM_SIZES:
            _refuse(f"expected a dtype of numbers, got {quote(value.code)}")
        return dtype_tree(value.code)

    # -- names (13.3) ---------------------------------------------------------------------------------

    def reference(self, value: Reference) -> Global:
        if value.pair in self._foreign:
            return Global(*value.pair)
        pair = find(value.pair).current or value.pair
        row = find(pair)
        if not row.is_reference:
            _refuse(f"{quote('.'.join(pair))} is not a known class")
        if "algorithm" in row.uses:
            _refuse(f"{'.'.join(pair)} is an algorithm, which constructs the environment that its argument names")
        missing = row.explain_missing(self.target)
        if missing:
            _refuse(f"{'.'.join(pair)} {missing}")
        return Global(*pair)

    # -- spaces (13.4) --------------------------------------------------------------------------------

    def space(self, value: Space, **state: object) -> Call:
        made = Call("NEWOBJ", Global(*value.pair), ())
        made.updates = [Update("BUILD", made, Dict([*state.items(), ("_np_random", None)]))]
        return made

    def box(self, value: Box) -> Call:
        parts = {
            "low": value.low,
            "high": value.high,
            "bounded_below": value.bounded_below or _flags(value.low, _is_above),
            "bounded_above": value.bounded_above or _flags(value.high, _is_below),
        }  # gymnasium derives low_repr and high_repr
        arrays = {name: self.array(info._replace(is_scalar=False)) for name, info in parts.items()}
        return self.space(value, dtype=self._space_dtype(value.dtype), _shape=_own(value.shape), **arrays)

    def discrete(self, value: Discrete) -> Call:
        return self.space(value, n=value.n, start=value.start, _shape=(), dtype=self._space_dtype(value.dtype))

    def multi_discrete(self, value: MultiDiscrete) -> Call:
        start = value.start
        if start is None:
            start = ArrayInfo(value.nvec.dtype, value.nvec.shape, "C", bytes(len(value.nvec.buffer)), is_scalar=False)
        return self.space(
            value, nvec=self.tree(value.nvec), start=self.tree(start),
            _shape=_own(value.nvec.shape), dtype=self._space_dtype(value.dtype),
        )  # fmt: skip

    def multi_binary(self, value: MultiBinary) -> Call:
        n = value.shape[0] if len(value.shape) == 1 else value.shape
        return self.space(
            value,
            n=_own(n) if isinstance(n, tuple) else n,
            _shape=_own(value.shape),
            dtype=self._space_dtype(value.dtype),
        )

    def dict_space(self, value: DictSpace) -> Call:
        spaces = self.ordered_dict(OrderedDict(value.spaces))  # SB3 before 2.4 accepts nothing else
        return self.space(value, spaces=spaces, sort_keys=value.sort_keys, _shape=None, dtype=None)

    def tuple_space(self, value: TupleSpace) -> Call:
        return self.space(value, spaces=tuple(self.trees(value.spaces)), _shape=None, dtype=None)

    def _space_dtype(self, code: str) -> Call:
        return self.dtype(DType(code))

    # -- schedules (13.5) -----------------------------------------------------------------------------

    def schedule(self, name: str, **state: object) -> Call:
        made = Call("NEWOBJ", Global(_SB3_UTILS, name), ())
        made.updates = [Update("BUILD", made, Dict(list(state.items())))]
        return made

    def constant(self, value: ConstantSchedule) -> Call:
        if self.target < SCHEDULE_CLASSES:
            return _called("constant_fn", value.value)
        return self.schedule("ConstantSchedule", val=value.value)

    def linear(self, value: LinearSchedule) -> Call:
        if self.target < SCHEDULE_CLASSES:
            return _called("get_linear_fn", value.start, value.end, value.end_fraction)
        return self.schedule("LinearSchedule", start=value.start, end=value.end, end_fraction=value.end_fraction)

    def floats(self, value: FloatSchedule) -> Call:
        if self.target < SCHEDULE_CLASSES:
            return self.tree(value.schedule)  # type: ignore[no-any-return]
        return self.schedule("FloatSchedule", value_schedule=self.tree(value.schedule))

    def interpolated(self, value: InterpolatedSchedule) -> Call:
        keywords = Dict([("xp", list(map(float, value.progress))), ("fp", list(map(float, value.values)))])
        return _make_partial(Global("numpy", "interp"), (), keywords)

    def function(self, value: Function) -> Call:
        if value.schedule is None:
            _refuse(f"the function {quote(value.qualname, 100)} is pickled by value: its meaning is its code")
        return self.tree(value.schedule)  # type: ignore[no-any-return]

    # -- objects (13.6) -------------------------------------------------------------------------------

    def enum(self, value: EnumMember) -> Call:
        if find(value.enum.pair).role != "enum":
            _refuse(f"{quote(value.enum)} is not a known enumeration")
        return Call("REDUCE", self.tree(value.enum), (value.value,))

    def train_freq(self, value: TrainFreq) -> Call:
        return Call("NEWOBJ", Global(*_TRAIN_FREQ), (value.frequency, self.tree(value.unit)))

    def partial(self, value: Partial) -> Call:
        function = self.tree(value.function)
        if not isinstance(function, Global):
            _refuse("a partial of a function that is pickled by value")
        if function.pair not in self._foreign and "layer" not in find(function.pair).uses:
            _refuse(f"expected a layer or optimizer in a partial, got {quote(str(function))}")
        return _make_partial(function, tuple(self.trees(value.args)), self.pairs(value.keywords))  # type: ignore[arg-type]

    def instance(self, value: Instance) -> Call:
        if find(value.type.pair).kind != "noise":
            _refuse(f"an object of {quote(value.type)} has no form that is known to load")
        made = Call("NEWOBJ", self.tree(value.type), ())
        attributes = dict(value.attributes)
        if "Vectorized" not in value.type.name:
            attributes.setdefault("_dtype", Reference("numpy", "float32"))  # since SB3 1.8
        made.updates = [Update("BUILD", made, self.pairs(attributes))]  # type: ignore[arg-type]
        return made


_TRAIN_FREQ: Final = ("stable_baselines3.common.type_aliases", "TrainFreq")


def _refuse(message: str) -> NoReturn:
    raise UnsupportedError(message)


def _members(values: Iterable[object]) -> list[object]:
    """Return the members of a set in a fixed order: equal sets give equal bytes."""
    made = list(values)
    if any(type(value) not in _LEAVES for value in made):
        _refuse("expected numbers and text in a set")
    return sorted(made, key=lambda value: (type(value).__name__, 0 if value is None else value))


def _why_not(value: object) -> str:
    if isinstance(value, Node):
        return f"{quote(_name_of(value), 200)} is not known" if _name_of(value) else "its constructor is not known"
    return f"a {type(value).__name__} has no form without code that every release loads"


def _name_of(node: Node) -> str:
    func = node.func if isinstance(node, Call) else node
    return str(func) if isinstance(func, Global) else ""


def encode_array(info: ArrayInfo) -> Call:
    """Return the one form of an array that loads without a warning in numpy 1 and 2.

    It is ``numpy.ndarray.__new__`` with a state; numpy itself writes the name of a module that moved in 2.0.
    """
    array = Call("NEWOBJ", Global(*NUMPY_NDARRAY), ((0,),))
    state = (1, _own(info.shape), dtype_tree(info.dtype), info.order == "F", info.read())
    array.updates = [Update("BUILD", array, state)]
    return array


def _own(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a tuple that nothing else refers to: equal values give equal bytes, whatever they share."""
    return tuple(size for size in shape)


def _number(info: ArrayInfo) -> bool | int | float:
    value = info.to_numpy().item()
    if type(value) not in (bool, int, float):
        _refuse(f"a scalar of the dtype {quote(info.dtype)} is not a Python number")
    return value  # type: ignore[no-any-return]


def _flags(bounds: ArrayInfo, is_bound: Callable[[Any], Any]) -> ArrayInfo:
    """Return the flags that gym saves with the bounds of a Box since 0.13."""
    return ArrayInfo("|b1", bounds.shape, "C", is_bound(bounds.to_numpy()).tobytes(), is_scalar=False)


def _is_above(low: Any) -> Any:
    return low > float("-inf")


def _is_below(high: Any) -> Any:
    return high < float("inf")


def _make_partial(function: Global, args: tuple[Any, ...], keywords: Dict) -> Call:
    made = Call("REDUCE", Global("functools", "partial"), (function,))
    made.updates = [Update("BUILD", made, (function, args, keywords, None))]
    return made


def _called(name: str, *values: float) -> Call:
    """Return a schedule for SB3 < 2.7: a call of one of its functions with plain numbers."""
    return Call("REDUCE", Global(_SB3_UTILS, name), values)


_ENCODERS: Final[dict[type, Callable[[_Encoder, Any], Any]]] = {
    list: _Encoder.trees,
    tuple: lambda writer, value: tuple(writer.trees(value)),
    set: lambda writer, value: Set(writer.trees(_members(value))),
    frozenset: lambda writer, value: FrozenSet(writer.trees(_members(value))),
    dict: _Encoder.pairs,
    FrozenList: _Encoder.trees,
    FrozenDict: _Encoder.pairs,
    OrderedDict: _Encoder.ordered_dict,
    deque: _Encoder.deque,
    ArrayInfo: _Encoder.array,
    DType: _Encoder.dtype,
    Reference: _Encoder.reference,
    Box: _Encoder.box,
    Discrete: _Encoder.discrete,
    MultiDiscrete: _Encoder.multi_discrete,
    MultiBinary: _Encoder.multi_binary,
    DictSpace: _Encoder.dict_space,
    TupleSpace: _Encoder.tuple_space,
    ConstantSchedule: _Encoder.constant,
    LinearSchedule: _Encoder.linear,
    FloatSchedule: _Encoder.floats,
    InterpolatedSchedule: _Encoder.interpolated,
    Function: _Encoder.function,
    EnumMember: _Encoder.enum,
    TrainFreq: _Encoder.train_freq,
    Partial: _Encoder.partial,
    Instance: _Encoder.instance,
}
