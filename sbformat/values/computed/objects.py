"""What the machine's variables contain, and what values of a file become for it (VALUES.md 13.5).

None, short text and tuples are Python's own. Everything else is a :class:`~sbformat.values.computed.arithmetic.Number`
or one of the classes here, none of which can run anything but the machine's own instructions and the functions of a
table. What a kind of value can be used for is listed where it is used; any other use is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import SbformatError, quote
from sbformat.known.numpy import unpack_items
from sbformat.known.types import (
    CarriedClass,
    CarriedObject,
    ConstantSchedule,
    Contradiction,
    Cycle,
    Described,
    FloatSchedule,
    Function,
    LinearSchedule,
    Module,
    Partial,
    Reference,
)
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.values.computed.arithmetic import Number, make_number
from sbformat.values.computed.errors import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.known.code import Code

MOST_ITEMS: Final = 200
"""Of a list, a tuple, an array or a loop."""
_BITS: Final = 256
_CHARACTERS: Final = 1000
_LEVELS: Final = 6


class ArrayNumber(Number):
    """A number of numpy in an array without dimensions, which is not everywhere the same as a float64."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class Closure:
    """A function whose bytecode is executed."""

    code: Code
    cells: dict[str, Cell]
    defaults: tuple[Any, ...]
    keyword_defaults: dict[str, Any]
    globals: dict[str, object]
    """As in the file; converted when they are used."""


@dataclass(frozen=True, eq=False)
class Method:
    """A function, and what it receives as its first arguments."""

    function: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Library:
    """A function or type of Python, math or numpy that is known, by its row of the table."""

    name: str
    call: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Known:
    """A schedule of SB3."""

    schedule: ConstantSchedule | LinearSchedule


@dataclass(frozen=True, eq=False)
class Package:
    """A module: math or numpy."""

    name: str


@dataclass(frozen=True, eq=False)
class Object:
    """An object of a class pickled by value, the class itself, or a namespace."""

    attributes: dict[str, object]
    methods: dict[str, object]
    is_class: bool = False


@dataclass(frozen=True, eq=False)
class Table:
    """A dict, by plain keys; it is not changed."""

    items: dict[object, Any]
    is_own: bool = False
    """Whether the function has made it; values of the file are converted when they are used."""


@dataclass(frozen=True, eq=False)
class Unusable:
    """A value that is not known here; using it fails for this reason."""

    reason: str


@dataclass(frozen=True, eq=False)
class Row:
    """A short array of numpy, or a range."""

    items: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class List:
    """A list. Only the instructions of the call that made it add items."""

    items: list[Any]
    is_own: bool = True
    """Whether the function has made it, so that nothing outside of the call has it."""


class Cell:
    """A variable that functions share."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content


class Iterator:
    """The remaining items of a loop, which are taken once."""

    __slots__ = ("is_shared", "items", "position")

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.position = 0
        self.is_shared = False
        """Whether something else takes items from it later than it does here."""

    def take_all(self) -> list[Any]:
        """Return the rest of the items."""
        if self.is_shared:
            refuse("it uses an iterator twice")
        rest = self.items[self.position :]
        self.position = len(self.items)
        return rest


UNBOUND: Final = Unusable("it uses a variable before it is assigned")


def convert(value: object) -> Any:
    """Return a value of the file as the machine uses it; it never fails before it is used."""
    return _Conversion().convert(value)


class _Conversion:
    """Converts values within values, up to a number of levels and of values."""

    def __init__(self) -> None:
        self.level = 0
        self.left = 2 * MOST_ITEMS

    def convert(self, value: object) -> Any:
        self.left -= 1
        if self.left < 0 or self.level > _LEVELS:
            return Unusable("it uses a value that is too large")
        self.level += 1
        made = self.convert_part(value)
        self.level -= 1
        return made

    def convert_part(self, value: object) -> Any:
        if value is None or isinstance(value, (Number, Unusable)):
            return value
        if isinstance(value, (bool, int, float)):
            if isinstance(value, int) and value.bit_length() > _BITS:
                return Unusable("it uses an integer that is too long")
            is_finite = isinstance(value, int) or not math.isnan(value)
            return make_number(value) if is_finite else Unusable("it computes with NaN")
        if isinstance(value, str):
            return value if len(value) <= _CHARACTERS else Unusable("it uses a long text")
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):  # an ArrayInfo is a tuple, too
            if len(value) > MOST_ITEMS:
                return Unusable("it uses a long list")
            items = tuple(map(self.convert, value))
            return items if type(value) is tuple else List(list(items), is_own=False)
        if type(value) is dict:
            return Table(value)
        for kind, rule in _CONVERTERS:
            if isinstance(value, kind):
                return rule(value, self)
        return Unusable("it uses a value that is not known here")


def _convert_array(value: ArrayInfo, _: _Conversion) -> Any:
    if len(value.shape) > 1 or math.prod(value.shape) > MOST_ITEMS:
        return _ARRAY
    try:
        items = unpack_items(value)
    except SbformatError:
        return _ARRAY
    if any(isinstance(item, float) and math.isnan(item) for item in items):
        return Unusable("it computes with NaN")
    numbers = tuple(Number(item, value.dtype[1:]) for item in items)
    if value.shape:
        return Row(numbers)
    return numbers[0] if value.is_scalar else _ARRAY  # an array can be changed


_ARRAY: Final = Unusable("it uses an array that is not a short one of numbers")


def _convert_function(value: Function, conversion: _Conversion) -> Any:
    if value.is_changed:
        return Unusable("other parts of the pickle may change what it computes")
    if value.schedule is not None:
        return conversion.convert(value.schedule)
    if value.code is None:
        return Unusable("its code object is not valid")
    if len(value.closure) + len(value.defaults) + len(value.keyword_defaults) > MOST_ITEMS:
        return Unusable("it has too many variables")
    cells = {name: Cell(conversion.convert(content)) for name, content in value.closure.items()}
    defaults = tuple(map(conversion.convert, value.defaults))
    keywords = {str(name): conversion.convert(part) for name, part in value.keyword_defaults.items()}
    return Closure(value.code, cells, defaults, keywords, value.globals)


def _convert_schedule(value: ConstantSchedule | LinearSchedule, _: _Conversion) -> Any:
    if not all(type(number) in (int, float) and math.isfinite(number) for number in value):
        return Unusable("it calls a schedule whose numbers are not known")
    return Known(value)


def _convert_float_schedule(value: FloatSchedule, conversion: _Conversion) -> Any:
    inner = conversion.convert(value.schedule)
    return Library("float", lambda machine, *args: machine.call_as_float(inner, args))


def _convert_object(value: CarriedObject, _: _Conversion) -> Any:
    if (
        value.is_called
        or value.state is not None
        or value.items
        or value.args
        or not isinstance(value.cls, CarriedClass)
    ):
        return Unusable("it uses an object that is more than its attributes")
    return Object(value.attributes, _collect_methods(value.cls))


def _collect_methods(cls: CarriedClass) -> dict[str, object]:
    """Return the attributes of a class and its bases, each of the first class that has it.

    Only classes with one base each, none of which does anything when it or an object is created, or an attribute is
    read or set.
    """
    found: dict[str, object] = {}
    current = cls
    for _ in range(_LEVELS):
        found = {**current.attributes, **found}
        carried = [base for base in current.bases if isinstance(base, CarriedClass)]
        others = [base for base in current.bases if not isinstance(base, CarriedClass)]
        if not _is_plain_class(current, others) or len(carried) > 1:
            break
        if not carried:
            return found
        current = carried[0]
    return {"__getattribute__": None}  # a class that is not known: every use of the object is refused


def _is_plain_class(cls: CarriedClass, others: list[Any]) -> bool:
    """Return whether a class consists of attributes and methods, and its other bases of nothing."""
    return (
        cls.metaclass in _METACLASSES
        and all(isinstance(base, Reference) and base.pair in _PLAIN_BASES for base in others)
        and all(name in _PASSIVE or not name.startswith("__") for name in cls.attributes)
        and not any(isinstance(part, (CarriedObject, Call)) for part in cls.attributes.values())
        and not cls.attributes.get("__abstractmethods__")
        and len(cls.attributes) <= MOST_ITEMS
    )


_METACLASSES: Final = (Reference("builtins", "type"), Reference("abc", "ABCMeta"), Reference("typing", "GenericMeta"))
_PLAIN_BASES: Final = frozenset({("builtins", "object"), ("abc", "ABC"), ("typing", "Generic"), ("typing", "Protocol")})
_PASSIVE: Final = frozenset(
    {
        "__call__", "__init__", "__module__", "__doc__", "__qualname__", "__annotations__",
        "__annotate__", "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__",
        "__type_params__", "__abstractmethods__", "__orig_bases__", "__parameters__", "__slotnames__", "__repr__",
        "__str__", "__eq__", "__ne__", "__hash__", "__reduce__", "__reduce_ex__", "__getstate__", "__len__", "__bool__",
        "__iter__", "__contains__", "__getitem__", "__match_args__", "__dataclass_fields__", "__dataclass_params__",
        "__post_init__", "__replace__", "__class_getitem__", "__subclasshook__",
    }
)  # fmt: skip
"""Special attributes of a class that act on nothing which the machine does with an object."""


def _convert_partial(value: Partial, conversion: _Conversion) -> Any:
    if len(value.args) + len(value.keywords) > MOST_ITEMS:
        return Unusable("it has too many arguments")
    keywords = {name: conversion.convert(part) for name, part in value.keywords.items()}
    return Method(conversion.convert(value.function), tuple(map(conversion.convert, value.args)), keywords)


def _convert_described(value: Described, conversion: _Conversion) -> Any:
    if value.kind == "types.SimpleNamespace":
        return Object(dict(part for part in value.parts if type(part) is tuple and len(part) == 2), {})
    if value.kind == "builtins.slice" and all(part is None or type(part) is int for part in value.parts):
        return slice(*value.parts) if len(value.parts) in (2, 3) else Unusable("it takes an unusual part of a list")
    if value.kind == "method" and len(value.parts) == 2:
        function, owner = map(conversion.convert, value.parts)
        return Method(function, (owner,), {})
    return Unusable("it uses a value that is not known here")


def _convert_reference(value: Reference | Global, _: _Conversion) -> Any:
    from sbformat.values.computed.library import find_name

    if isinstance(value, Global) and value.updates:
        return Unusable("it uses a function that is changed")
    return find_name(*value.pair)


def _convert_call(value: Call, _: _Conversion) -> Any:
    """Convert an ``argparse.Namespace``, which is nothing but its attributes."""
    updates = value.updates or ()
    if not isinstance(value.func, Global) or value.func.pair != _NAMESPACE or value.args not in ((), []):
        return Unusable("it uses a value that is not known here")
    state = updates[0].value if len(updates) == 1 and updates[0].how == "BUILD" else None
    rows = list(state) if isinstance(state, Dict) else [None]
    if value.func.updates or not all(row is not None and type(row[0]) is str for row in rows):
        return Unusable("it uses a value that is not known here")
    return Object({str(row[0]): row[1] for row in rows if row is not None}, {})


_NAMESPACE: Final = ("argparse", "Namespace")


_CONVERTERS: Final[tuple[tuple[Any, Callable[[Any, _Conversion], Any]], ...]] = (
    (ArrayInfo, _convert_array),
    (Function, _convert_function),
    (ConstantSchedule, _convert_schedule),
    (LinearSchedule, _convert_schedule),
    (FloatSchedule, _convert_float_schedule),
    (CarriedObject, _convert_object),
    (CarriedClass, lambda value, _: Object({}, _collect_methods(value), is_class=True)),
    (Cycle, lambda *_: Unusable("it refers to itself")),
    (Contradiction, lambda *_: Unusable("two of its functions give a global variable different values")),
    (Partial, _convert_partial),
    (Described, _convert_described),
    (Module, lambda value, _: Package(value.name)),
    (Reference, _convert_reference),
    (Global, _convert_reference),
    (Call, _convert_call),
)


def require_number(value: Any) -> Number:
    """Return a value that is a number.

    :raises NotUnderstoodError: when it is something else
    """
    if isinstance(value, Number):
        return value
    return refuse(value.reason if isinstance(value, Unusable) else f"it computes with {describe(value)}")


def require_int(value: Any) -> int:
    """Return an integer of Python that does not depend on the progress, and is not very great.

    :raises NotUnderstoodError: when it is something else
    """
    if not isinstance(value, Number) or value.kind != "int" or abs(value.value) > _MOST_COUNT or value.slope != 0:
        refuse("it counts with something other than integers that do not depend on the progress")
    return int(value.value)


_MOST_COUNT: Final = 1 << 31


def require_items(value: Any) -> list[Any]:
    """Return the items of a tuple, list, range, array or iterator, of which nothing is left then."""
    if isinstance(value, Iterator):
        return value.take_all()
    if isinstance(value, Unusable):
        refuse(value.reason)
    if isinstance(value, (List, Row)):
        return list(value.items)
    if type(value) is not tuple:
        refuse("it iterates over something other than a list")
    return list(value)


def find_key(value: Any) -> object:
    """Return a value as it is compared with ``==``: a number of Python, text or None.

    :raises NotUnderstoodError: when it is something else
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Number) and value.kind in ("int", "float", "bool") and value.slope == 0 and value.is_exact:
        return value.value
    return refuse("it searches for something other than a number or text")


def describe(value: object) -> str:
    """Return what a value is, for a reason."""
    if value is None:
        return "None"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (Closure, Method, Known)):
        return "a function"
    if isinstance(value, Library):
        return f"the function {value.name}"
    if isinstance(value, Package):
        return f"the module {quote(value.name)}"
    if isinstance(value, (tuple, List, Row, Iterator)):
        return "a list"
    return "a dict" if isinstance(value, Table) else "an object"
