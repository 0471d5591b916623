"""What blobs decode to: plain values, without numpy, torch or gym (FORMAT.md 13).

Arrays and numpy scalars are :class:`~sbformat.pkl.numpy.ArrayInfo`, tensors
:class:`~sbformat.pth.TensorInfo`; containers, dates and paths are Python's own. What is not known stays a node of
:mod:`sbformat.pkl.tree`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import dataclass_transform

    from sbformat.pkl.numpy import ArrayInfo, Field
    from sbformat.values.code import Code
else:

    def dataclass_transform(**_: bool) -> Callable[[type], type]:
        """Return what leaves a class as it is: only type checkers ask for more."""
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Value:
    """A frozen record of the fields that its class annotates; iterates over them, equal when type and fields are.

    Not a NamedTuple: making three dozen of those classes costs as much as reading an archive.
    """

    _fields: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)

    def __init__(self, *values: object, **named: object) -> None:
        kind = type(self)
        given = {**dict(zip(self._fields, values)), **named}
        own = {name: given[name] if name in given else vars(kind).get(name, _ABSENT) for name in self._fields}
        if (
            len(values) + len(named) != len(given)
            or len(given.keys() - own.keys())
            or any(value is _ABSENT for value in own.values())
        ):
            message = f"{kind.__name__} takes {', '.join(self._fields)}"
            raise TypeError(message)
        self.__dict__.update(own)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        message = f"{type(self).__name__} is frozen"
        raise AttributeError(message)

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__dict__.values())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _equal(self, other)

    def __hash__(self) -> int:
        plain = (value for value in self if value is None or isinstance(value, (bool, int, float, str)))
        return hash((type(self), *plain))

    def __repr__(self) -> str:
        return _shown(self, 0)


def _equal(one: object, other: object) -> bool:
    """Compare two values; each pair of parts once, however often sharing has them meet."""
    todo = [(one, other)]
    compared: set[tuple[int, int]] = set()
    while todo:
        left, right = todo.pop()
        if left is right or (id(left), id(right)) in compared:
            continue
        if type(left) is not type(right):
            return False
        compared.add((id(left), id(right)))
        if isinstance(left, Value):
            todo.extend(zip(left, right))  # type: ignore[call-overload]
        elif isinstance(left, dict):
            if list(left) != list(right):  # type: ignore[call-overload]
                return False
            todo.extend(zip(left.values(), right.values()))  # type: ignore[attr-defined]
        elif isinstance(left, (list, tuple)):
            if len(left) != len(right):  # type: ignore[arg-type]
                return False
            todo.extend(zip(left, right))  # type: ignore[call-overload]
        elif left != right:
            return False
    return True


_ABSENT: Final = object()
_DEEPEST_SHOWN: Final = 3
_SHOWN: Final = 100


def _shown(value: object, depth: int) -> str:
    """A value for its repr: a few levels of it, whatever a file holds."""
    if isinstance(value, Value):
        if depth > _DEEPEST_SHOWN:
            return f"{type(value).__name__}(...)"
        parts = [f"{name}={_shown(part, depth + 1)}" for name, part in vars(value).items()]
        return f"{type(value).__name__}({', '.join(parts)})"
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and value.bit_length() <= _SHOWN):
        return repr(value)
    if isinstance(value, str):
        return repr(value[:_SHOWN])
    if isinstance(value, tuple) and len(value) <= _SHOWN and all(type(part) is int for part in value):
        return f"({', '.join(_shown(part, depth) for part in value)}{',' if len(value) == 1 else ''})"
    return f"<{type(value).__name__}>"


class Reference(Value):
    """A class, function or dtype by its name: known, and never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def pair(self) -> tuple[str, str]:
        """As the tables of :mod:`sbformat.globals` have it."""
        return self.module, self.name


class Cycle(Value):
    """Where a value holds itself."""


class DType(Value):
    """A numpy dtype."""

    code: str
    """In the array interface: ``<f4``."""
    fields: tuple[Field, ...] = ()


class ObjectArray(Value):
    """A numpy array of Python objects."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    """In memory."""
    items: list[object]
    """The last axis fastest, whatever the order in memory."""


class RandomState(Value):
    """A random number generator of numpy, or its bit generator alone."""

    kind: Literal["RandomState", "Generator", "BitGenerator"]
    bit_generator: str
    """``MT19937``, ``PCG64``, ..."""
    state: object
    """As numpy's own ``state`` gives it, arrays as ArrayInfo."""
    seed_sequence: SeedSequence | None


class SeedSequence(Value):
    """A ``numpy.random.SeedSequence``."""

    entropy: object
    spawn_key: tuple[int, ...]
    pool_size: int
    n_children_spawned: int
    pool: ArrayInfo
    """What numbers are drawn from: numpy does not derive it again from the entropy."""


# -- spaces (FORMAT.md 13.4) --------------------------------------------------------------------------

Library: TypeAlias = Literal["gym", "gymnasium"]


class Box(Value):
    """A box of numbers, bounded or not."""

    library: Library
    shape: tuple[int, ...]
    dtype: str
    low: ArrayInfo
    high: ArrayInfo
    random: RandomState | None
    bounded_below: ArrayInfo | None = None
    """Where the lower bound is one; None where the oldest releases did not say. A whole number has no infinity."""
    bounded_above: ArrayInfo | None = None


class Discrete(Value):
    """Whole numbers ``start`` to ``start + n - 1``."""

    library: Library
    n: int
    start: int
    """0 before gym 0.22, which had no other."""
    dtype: str
    random: RandomState | None


class MultiDiscrete(Value):
    """Several discrete numbers at once."""

    library: Library
    nvec: ArrayInfo
    start: ArrayInfo | None
    """None before gymnasium 0.29: zeros."""
    dtype: str
    random: RandomState | None


class MultiBinary(Value):
    """Bits."""

    library: Library
    shape: tuple[int, ...]
    dtype: str
    random: RandomState | None


class DictSpace(Value):
    """Spaces by name, in order."""

    library: Library
    spaces: dict[str, Space]
    random: RandomState | None
    sort_keys: bool = True
    """Whether gymnasium >= 1.4 sorts the names of spaces made of it; those before always did."""


class TupleSpace(Value):
    """Spaces in order."""

    library: Library
    spaces: tuple[Space, ...]
    random: RandomState | None


class OneOf(Value):
    """One of several spaces."""

    library: Library
    spaces: tuple[Space, ...]
    random: RandomState | None


class Text(Value):
    """Strings."""

    library: Library
    min_length: int
    max_length: int
    characters: str
    random: RandomState | None


class Sequence(Value):
    """Sequences of any length."""

    library: Library
    feature_space: Space
    stack: bool
    random: RandomState | None
    stacked_feature_space: Space | None = None
    """With ``stack``: the space of a sequence in one array. gymnasium does not derive it again."""


class Graph(Value):
    """Graphs with spaces at nodes and edges."""

    library: Library
    node_space: Space
    edge_space: Space | None
    random: RandomState | None
    batch_node_space: Space | None = None
    """Of several nodes (gymnasium 1.4), which is not derived again."""
    batch_edge_space: Space | None = None


Space: TypeAlias = (
    Box | Discrete | MultiDiscrete | MultiBinary | DictSpace | TupleSpace | OneOf | Text | Sequence | Graph
)


# -- schedules and functions (FORMAT.md 13.5) ---------------------------------------------------------


class ConstantSchedule(Value):
    """The same value throughout."""

    value: float


class LinearSchedule(Value):
    """From ``start`` to ``end`` while the first ``end_fraction`` of the training passes, then ``end``."""

    start: float
    end: float
    end_fraction: float


class FloatSchedule(Value):
    """Another schedule, its values made Python floats."""

    schedule: Schedule | Function | object
    """An object that is not known stays inert."""


Schedule: TypeAlias = ConstantSchedule | LinearSchedule | FloatSchedule


class Function(Value):
    """A function that was pickled by value: described, never made."""

    qualname: str
    """``get_schedule_fn.<locals>.func``."""
    module: str | None
    code: Code | None
    """None when the code object itself is not understood."""
    closure: dict[str, object]
    """Its free variables and what their cells hold."""
    defaults: tuple[object, ...]
    globals: dict[str, object]
    """The global names that its code uses, as far as they were pickled along."""
    schedule: Schedule | None
    """What it computes, when its code is that of a schedule function that was published, and all around it is as
    its library leaves it."""

    @property
    def digest(self) -> str | None:
        """Of its code: SHA-256 of what executes, in hex."""
        return None if self.code is None else self.code.digest


class CarriedClass(Value):
    """A class that was pickled by value: described, never built."""

    module: str | None
    name: str
    bases: tuple[object, ...]
    attributes: dict[str, object]
    """Its methods (:class:`Function`) and other attributes."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of its functions."""
        return tuple(name for name, value in self.attributes.items() if isinstance(value, Function))


class CarriedObject(Value):
    """An object of a class that was pickled by value: described, never made."""

    type: Reference
    args: tuple[object, ...]
    """What its class is called with, or its ``__new__``; of keyword arguments the values."""
    attributes: dict[str, object]
    """Its attributes and slots."""
    state: object
    """A state other than attributes, for ``__setstate__`` of its class, or None."""
    items: tuple[object, ...]
    """What it contains, when it is a container: items, or pairs of key and value."""


class Module(Value):
    """A module that a function or class carried by value refers to."""

    name: str


class Partial(Value):
    """A ``functools.partial``."""

    function: object
    args: tuple[object, ...]
    keywords: dict[str, object]


class Described(Value):
    """A small value of Python that has no literal: ``range(3)``, ``typing.Union[...]``, a property, a module."""

    kind: str
    parts: tuple[object, ...]


# -- objects (FORMAT.md 13.6) -------------------------------------------------------------------------


class EnumMember(Value):
    """A member of an enumeration, by its value."""

    enum: Reference
    value: object


class TrainFreq(Value):
    """How often an off-policy algorithm trains: every so many steps or episodes."""

    frequency: int
    unit: EnumMember


class RNNStates(Value):
    """The LSTM states of a recurrent policy: hidden and cell state of actor and critic."""

    pi: tuple[object, ...]
    vf: tuple[object, ...]


class DefaultDict(Value):
    """A ``collections.defaultdict``."""

    factory: object
    items: dict[object, object]


class Instance(Value):
    """An object that is nothing but its attributes: action noise, statistics, buffers."""

    type: Reference
    attributes: dict[str, object]
