"""Types of decoded values (VALUES.md 13): plain records, defined without numpy, torch or gymnasium.

Spaces are in :mod:`sbformat.known.spaces`. Arrays and numpy scalars are
:class:`~sbformat.pkl.numpy.ArrayInfo`, tensors :class:`~sbformat.pth.TensorInfo`; containers, dates and paths are
Python's own. What is not known stays a node of :mod:`sbformat.pkl.tree`.
"""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

from sbformat.errors import UnsupportedError, quote
from sbformat.immutable import freeze
from sbformat.known.changes import SCHEDULE_CLASSES
from sbformat.known.rows import find
from sbformat.pkl.numpy import ITEM_SIZES, dtype_tree
from sbformat.pkl.tree import Call, Dict, Global

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Self, dataclass_transform

    from sbformat.known.code import Code
    from sbformat.known.encoder import Encoder
    from sbformat.pkl.numpy import ArrayInfo, Field
else:

    def dataclass_transform(**_: bool) -> Callable[[type], type]:
        """Return a decorator that changes nothing: only type checkers use the real one."""
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Value:
    """A frozen record of the fields that its class annotates; iterates over them, equal when type and fields are.

    Not a Record: records are equal to tuples with the same items.
    """

    _fields: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)

    def __init__(self, *values: object, **named: object) -> None:
        kind = type(self)
        given = {**dict(zip(self._fields, values)), **named}
        own = {name: given[name] if name in given else vars(kind).get(name, _ABSENT) for name in self._fields}
        is_whole = len(values) + len(named) == len(given) and given.keys() <= own.keys()
        if not is_whole or any(value is _ABSENT for value in own.values()):
            raise TypeError(f"expected the fields {', '.join(self._fields)} of {kind.__name__}, got {', '.join(given)}")
        self.__dict__.update(own)

    def encode(self, encoder: Encoder) -> Any:  # noqa: ARG002 -- most values need it
        """Return its tree for a pickle that the target loads (VALUES.md 13.7); a value of code has none."""
        refuse(f"a {type(self).__name__} has no form without code that every release loads")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__dict__.values())

    def shown_fields(self) -> Iterable[tuple[str, Any]]:
        """Return the fields that a report shows, with their names."""
        return zip(self._fields, self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _equal(self, other)

    def __hash__(self) -> int:
        plain = (value for value in self if value is None or isinstance(value, (bool, int, float, str)))
        return hash((type(self), *plain))

    def __repr__(self) -> str:
        return _render(self, 0)


def _equal(one: object, other: object) -> bool:
    """Return whether two values are equal; each pair of shared parts is compared once."""
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


def own_tuple(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a tuple that nothing else refers to: equal values give equal bytes, whatever they share."""
    return tuple(size for size in shape)


def refuse(message: str) -> NoReturn:
    """Raise :class:`UnsupportedError`, for a value that cannot be written."""
    raise UnsupportedError(message)


_ABSENT: Final = object()
_MOST_LEVELS: Final = 3
_MOST_ITEMS: Final = 100


def _render(value: object, depth: int) -> str:
    """Return a value for a repr: a few levels of it, whatever a file contains."""
    if isinstance(value, Value):
        if depth > _MOST_LEVELS:
            return f"{type(value).__name__}(...)"
        parts = [f"{name}={_render(part, depth + 1)}" for name, part in vars(value).items()]
        return f"{type(value).__name__}({', '.join(parts)})"
    is_short = isinstance(value, int) and value.bit_length() <= _MOST_ITEMS
    if is_short or value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, str):
        return repr(value[:_MOST_ITEMS])
    if isinstance(value, tuple) and len(value) <= _MOST_ITEMS and all(type(part) is int for part in value):
        return f"({', '.join(_render(part, depth) for part in value)}{',' if len(value) == 1 else ''})"
    return f"<{type(value).__name__}>"


class Reference(Value):
    """A known class, function or dtype by its name; it is never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    def encode(self, encoder: Encoder) -> Any:
        if self.pair in encoder.foreign:
            return Global(*self.pair)
        row = find(self.pair).for_target(encoder.target)
        if not row.is_reference:
            refuse(f"{quote(str(self))} is not a known class")
        if "algorithm" in row.uses:
            refuse(f"{row} is an algorithm, which constructs the environment that its argument names")
        missing = row.explain_missing(encoder.target)
        if missing:
            refuse(f"{row} {missing}")
        return Global(*row.pair)

    @property
    def pair(self) -> tuple[str, str]:
        """Module and name, as in the tables of :mod:`sbformat.known`."""
        return self.module, self.name


class Contradiction(Value):
    """A variable to which two functions of a file give different values, though they share it."""


class Cycle(Value):
    """The place where a value contains itself."""


GeneratorKind: TypeAlias = Literal["RandomState", "Generator", "BitGenerator"]


class _Constant(Value):
    """A value that has no part that can be changed."""

    def __init__(self, *values: object, **named: object) -> None:
        super().__init__(*values, **named)
        self.__dict__.update({name: freeze(value) for name, value in self.__dict__.items()})

    def __deepcopy__(self, _: object) -> Self:
        return self


class RandomState(_Constant):
    """A random number generator of numpy, or its bit generator alone."""

    kind: GeneratorKind
    bit_generator: str
    """``MT19937``, ``PCG64``, ..."""
    state: object
    """As the ``state`` attribute of numpy's generator, with arrays as ArrayInfo."""
    seed_sequence: SeedSequence | None


class SeedSequence(_Constant):
    """A ``numpy.random.SeedSequence``."""

    entropy: object
    spawn_key: tuple[int, ...]
    pool_size: int
    n_children_spawned: int
    pool: ArrayInfo
    """The mixed entropy; numpy does not derive it again."""


SB3_UTILS: Final = "stable_baselines3.common.utils"
TRAIN_FREQ: Final = ("stable_baselines3.common.type_aliases", "TrainFreq")


class DType(Value):
    """A numpy dtype."""

    code: str
    """As in numpy's array interface: ``<f4``."""
    fields: tuple[Field, ...] = ()

    def encode(self, encoder: Encoder) -> Call:  # noqa: ARG002 -- as of every value
        if self.fields or self.code[1:] not in ITEM_SIZES:
            refuse(f"expected a dtype of numbers, got {quote(self.code)}")
        return dtype_tree(self.code)


class ObjectArray(Value):
    """A numpy array of Python objects."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    """Order in memory."""
    items: list[object]
    """In C order, whatever the order in memory."""


# -- schedules and functions (VALUES.md 13.5) ---------------------------------------------------------


class ConstantSchedule(Value):
    """The same value during the whole training."""

    value: float

    def encode(self, encoder: Encoder) -> Call:
        if encoder.target < SCHEDULE_CLASSES:
            return Call("REDUCE", encoder.name((SB3_UTILS, "constant_fn")), (self.value,))
        return encoder.make(encoder.name((SB3_UTILS, "ConstantSchedule")), {"val": self.value})


class LinearSchedule(Value):
    """From ``start`` to ``end`` during the first ``end_fraction`` of the training, then ``end``."""

    start: float
    end: float
    end_fraction: float = 1.0

    def encode(self, encoder: Encoder) -> Call:
        if encoder.target < SCHEDULE_CLASSES:
            return Call("REDUCE", encoder.name((SB3_UTILS, "get_linear_fn")), tuple(self))
        return encoder.make(encoder.name((SB3_UTILS, "LinearSchedule")), vars(self))


class FloatSchedule(Value):
    """Another schedule, with its values converted to Python floats."""

    schedule: Schedule | Function | object
    """An unknown object stays inert."""

    def encode(self, encoder: Encoder) -> Any:
        if encoder.target < SCHEDULE_CLASSES:
            return encoder.tree(self.schedule)
        return encoder.make(encoder.name((SB3_UTILS, "FloatSchedule")), {"value_schedule": self.schedule})


class InterpolatedSchedule(Value):
    """A table of values with lines between them: ``functools.partial(numpy.interp, xp=..., fp=...)``.

    SB3 has no class for it, and every release calls it. Example::

        InterpolatedSchedule((0.0, 0.5, 1.0), (1e-5, 1e-4, 3e-4)).sample(0.75)  # 0.0002
    """

    progress: tuple[float, ...]
    """The remaining progress of each point, increasing: ``xp``. At least one point, and all numbers are finite."""
    values: tuple[float, ...]
    """The value at each point: ``fp``."""

    def encode(self, encoder: Encoder) -> Call:
        keywords = Dict([("xp", list(map(float, self.progress))), ("fp", list(map(float, self.values)))])
        return encoder.partial(Global("numpy", "interp"), (), keywords)

    def sample(self, progress: float) -> float:
        """Return the value at a remaining progress, as numpy computes it.

        :param progress: from 1 (start of the training) to 0 (its end)
        :return: below and above all points that of the nearest
        """
        points, values = self.progress, self.values
        right = bisect.bisect_right(points, progress)
        if right in (0, len(points)) or points[right - 1] == progress:
            return values[max(right - 1, 0)]
        slope = (values[right] - values[right - 1]) / (points[right] - points[right - 1])
        found = slope * (progress - points[right - 1]) + values[right - 1]
        return slope * (progress - points[right]) + values[right] if math.isnan(found) else found


Schedule: TypeAlias = ConstantSchedule | LinearSchedule | FloatSchedule | InterpolatedSchedule


class Function(Value):
    """A function that was pickled by value: described, never created."""

    qualname: str
    """``get_schedule_fn.<locals>.func``."""
    module: str | None
    code: Code | None
    """None when the code object is not understood."""
    closure: dict[str, object]
    """Its free variables, with the contents of their cells."""
    defaults: tuple[object, ...]
    globals: dict[str, object]
    """The global names that its code uses, as far as they were pickled with it."""
    schedule: Schedule | None
    """What it computes, when it is a published schedule function, unchanged."""
    keyword_defaults: dict[str, object] = {}
    is_changed: bool = False
    """Whether other parts of the pickle may change what it computes, or its globals are not a plain dict."""

    def encode(self, encoder: Encoder) -> Any:
        if self.schedule is None:
            refuse(f"the function {quote(self.qualname, 100)} is pickled by value: its meaning is its code")
        return encoder.tree(self.schedule)

    @property
    def digest(self) -> str | None:
        """SHA-256 of the parts of its code that execute, in hex."""
        return None if self.code is None else self.code.digest


class CarriedClass(Value):
    """A class that was pickled by value: described, never created."""

    module: str | None
    name: str
    bases: tuple[object, ...]
    attributes: dict[str, object]
    """Its methods (:class:`Function`) and other attributes."""
    metaclass: object = Reference("builtins", "type")

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of its functions."""
        return tuple(name for name, value in self.attributes.items() if isinstance(value, Function))


class CarriedObject(Value):
    """An object of a class that was pickled by value: described, never created."""

    type: Reference
    args: tuple[object, ...]
    """Arguments of its class or of ``__new__``; of keyword arguments the values."""
    attributes: dict[str, object]
    """Its attributes and slots."""
    state: object
    """A state other than attributes, for ``__setstate__`` of its class, or None."""
    items: tuple[object, ...]
    """Its contents, when it is a container: items, or pairs of key and value."""
    cls: CarriedClass | Cycle | None = None
    """Its class."""
    is_called: bool = False
    """Whether a call of its class made it, which also runs ``__init__``."""

    def shown_fields(self) -> Iterable[tuple[str, Any]]:
        """Return the fields that a report shows: not its class, which its type names."""
        return ((name, part) for name, part in super().shown_fields() if name != "cls")


class Module(Value):
    """A module that a function or class pickled by value refers to."""

    name: str


class Partial(Value):
    """A ``functools.partial``."""

    function: object
    args: tuple[object, ...]
    keywords: dict[str, object]

    def encode(self, encoder: Encoder) -> Call:
        function = encoder.tree(self.function)
        if not isinstance(function, Global):
            refuse("a partial of a function that is pickled by value")
        if function.pair not in encoder.foreign and "layer" not in find(function.pair).uses:
            refuse(f"expected a layer or optimizer in a partial, got {quote(str(function))}")
        return encoder.partial(function, tuple(encoder.trees(self.args)), encoder.pairs(self.keywords))


class Described(Value):
    """A small value of Python without a literal: ``range(3)``, ``typing.Union[...]``, a property."""

    kind: str
    parts: tuple[object, ...]


# -- objects (VALUES.md 13.6) -------------------------------------------------------------------------


class EnumMember(Value):
    """A member of an enumeration, by its value."""

    enum: Reference
    value: object

    def encode(self, encoder: Encoder) -> Call:
        if find(self.enum.pair).role != "enum":
            refuse(f"{quote(self.enum)} is not a known enumeration")
        return Call("REDUCE", encoder.tree(self.enum), (self.value,))


class TrainFreq(Value):
    """How often an off-policy algorithm trains: every ``frequency`` steps or episodes."""

    frequency: int
    unit: EnumMember

    def encode(self, encoder: Encoder) -> Call:
        return Call("NEWOBJ", encoder.name(TRAIN_FREQ), (self.frequency, encoder.tree(self.unit)))


class RNNStates(Value):
    """The LSTM states of a recurrent policy: hidden and cell state of actor and critic."""

    pi: tuple[object, ...]
    vf: tuple[object, ...]


class DefaultDict(Value):
    """A ``collections.defaultdict``."""

    factory: object
    items: dict[object, object]


class Instance(Value):
    """An object that consists of its attributes alone: action noise, statistics, buffers."""

    type: Reference
    attributes: dict[str, object]

    def encode(self, encoder: Encoder) -> Call:
        row = find(self.type.pair)
        if row.kind != "noise" and self.type.pair not in encoder.foreign:
            refuse(f"an object of {quote(self.type)} has no form that is known to load")
        attributes = dict(self.attributes)
        if "_dtype" in (row.attributes or ()):
            attributes.setdefault("_dtype", Reference("numpy", "float32"))  # since SB3 1.8
        return encoder.make(encoder.tree(self.type), attributes)
