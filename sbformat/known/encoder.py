"""Encode values as pickles that current libraries load: the inverse of the node decoders (VALUES.md 13.7).

The pickles contain references to classes and plain data: no code, and nothing that some release of Python, numpy,
gymnasium or the target cannot load. A value that has no such form is refused, never approximated.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import quote
from sbformat.immutable import FrozenDict, FrozenList
from sbformat.known.table import find
from sbformat.known.types import Value, own_tuple, refuse
from sbformat.pkl.numpy import ITEM_SIZES, ArrayInfo, dtype_tree
from sbformat.pkl.tree import NUMPY_NDARRAY, Call, Dict, FrozenSet, Global, Node, Set, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.known.changes import Release
    from sbformat.pkl.tree import How, Pair, UpdateHow

_DEEPEST: Final = 60
_LEAVES: Final = (type(None), bool, int, float, str, bytes)


class Encoder:
    """Makes the trees of values, for a pickle that a target loads; shared parts stay shared."""

    def __init__(self, target: Release, foreign: frozenset[Pair] = frozenset()) -> None:
        self.target = target
        self.foreign = foreign
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
        if isinstance(value, Node):
            func = value.func if isinstance(value, Call) else value
            refuse(f"{quote(str(func), 200) if isinstance(func, Global) else 'its constructor'} is not known")
        if write is None and not isinstance(value, Value):
            refuse(f"a {type(value).__name__} has no form without code that every release loads")
        self._depth += 1
        if self._depth > _DEEPEST:
            refuse(f"a value is nested more than {_DEEPEST} levels deep")
        made = write(self, value) if write is not None else value.encode(self)  # type: ignore[attr-defined]
        self._depth -= 1
        self._made[id(value)] = made, value
        return made

    def trees(self, values: Iterable[object]) -> list[Any]:
        return [self.tree(value) for value in values]

    # -- containers -----------------------------------------------------------------------------------

    def pairs(self, value: dict[Any, Any]) -> Dict:
        return Dict([(self.tree(key), self.tree(part)) for key, part in value.items()])

    def ordered_dict(self, value: OrderedDict[object, object]) -> Call:
        return make_call("REDUCE", Global("collections", "OrderedDict"), (), "SETITEMS", self.pairs(value) or None)

    def deque(self, value: deque[object]) -> Call:
        func, items = Global("collections", "deque"), self.trees(value) or None
        return make_call("REDUCE", func, ((), value.maxlen), "APPENDS", items)

    # -- arrays (13.2) --------------------------------------------------------------------------------

    def array(self, info: ArrayInfo) -> object:
        """Encode an array in the form that numpy 1 and 2 share, and a scalar as a Python number."""
        if info.fields or info.dtype[1:] not in ITEM_SIZES:
            refuse(f"an array of the dtype {quote(info.dtype)} has no form that every numpy loads")
        if info.is_scalar:
            return _number(info)
        if info.axes:
            array = info.to_numpy()
            info = ArrayInfo(info.dtype, array.shape, "C", array.astype(info.dtype).tobytes(), is_scalar=False)
        return encode_array(info)

    # -- objects --------------------------------------------------------------------------------------

    def name(self, pair: Pair) -> Global:
        """Return the name that a class or function has in the target."""
        return Global(*find(pair).for_target(self.target).pair)

    def make(self, cls: Global, state: dict[str, Any]) -> Call:
        """Return an object that is given its attributes, which are encoded; without any, it is given no state."""
        return make_call("NEWOBJ", cls, (), "BUILD", self.pairs(state) or None)

    def partial(self, function: Global, args: tuple[Any, ...], keywords: Dict) -> Call:
        """Return a ``functools.partial``."""
        state = (function, args, keywords, None)
        return make_call("REDUCE", Global("functools", "partial"), (function,), "BUILD", state)


def make_call(how: How, func: Global, args: tuple[Any, ...], change: UpdateHow, value: Any) -> Call:
    """Return the tree of a call, and of one change of what it makes unless its value is None."""
    made = Call(how, func, args)
    if value is not None:
        made.updates = [Update(change, made, value)]
    return made


def _members(values: Iterable[object]) -> list[object]:
    """Return the members of a set in a fixed order: equal sets give equal bytes."""
    made = list(values)
    if any(type(value) not in _LEAVES for value in made):
        refuse("expected numbers and text in a set")
    return sorted(made, key=lambda value: (type(value).__name__, 0 if value is None else value))


def encode_array(info: ArrayInfo) -> Call:
    """Return the form of an array that numpy 1 and 2 load without a warning: ``ndarray.__new__`` with a state."""
    state = (1, own_tuple(info.shape), dtype_tree(info.dtype), info.order == "F", info.read())
    return make_call("NEWOBJ", Global(*NUMPY_NDARRAY), ((0,),), "BUILD", state)


def _number(info: ArrayInfo) -> bool | int | float:
    value = info.to_numpy().item()
    if type(value) not in (bool, int, float):
        refuse(f"a scalar of the dtype {quote(info.dtype)} is not a Python number")
    return value  # type: ignore[no-any-return]


_ENCODERS: Final[dict[type, Callable[[Encoder, Any], Any]]] = {
    list: Encoder.trees,
    tuple: lambda writer, value: tuple(writer.trees(value)),
    set: lambda writer, value: Set(writer.trees(_members(value))),
    frozenset: lambda writer, value: FrozenSet(writer.trees(_members(value))),
    dict: Encoder.pairs,
    FrozenList: Encoder.trees,
    FrozenDict: Encoder.pairs,
    OrderedDict: Encoder.ordered_dict,
    deque: Encoder.deque,
    ArrayInfo: Encoder.array,
}
