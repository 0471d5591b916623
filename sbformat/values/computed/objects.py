"""What the machine's variables contain, and what values of a file become for it (VALUES.md 13.5).

Numbers, None, short text and tuples are Python's own. Everything else is one of the classes here, none of which is a
tuple, or can run anything but the machine's own instructions and the operations of a table. What a kind of value can be
used for is listed where it is used; any other use is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import SbformatError, quote
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.values.computed.errors import refuse
from sbformat.values.context import UnrecognizedError
from sbformat.values.numbers import to_float64, to_number, unpack_items
from sbformat.values.types import (
    CarriedClass,
    CarriedObject,
    ConstantSchedule,
    Cycle,
    Described,
    FloatSchedule,
    Function,
    LinearSchedule,
    Module,
    Partial,
    Reference,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.values.code import Code
    from sbformat.values.computed.expressions import Operand

MOST_ITEMS: Final = 200
"""Of a list, a tuple, an array or a loop."""
_BITS: Final = 256
_CHARACTERS: Final = 1000
_LEVELS: Final = 6
_INTEGER: Final = 1 << 31
"""Of an integer of numpy, whose operations are those of a float."""


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
    """A function of Python, math or numpy that is known, by its row of the table."""

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
    """A dict of the file; it is not changed."""

    items: dict[object, object]


@dataclass(frozen=True, eq=False)
class Unusable:
    """A value that is not known here; using it fails for this reason."""

    reason: str


@dataclass(frozen=True, eq=False)
class Scalar:
    """A number of numpy in the file: a float64, or an int64 that no operation distinguishes from one."""

    value: float


@dataclass(frozen=True, eq=False)
class Row:
    """A short array of numpy (items are :class:`Scalar`), or a range (items are integers)."""

    items: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class List:
    """A list. Only the instructions that create it add items, when nothing else refers to it."""

    items: list[Any]


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
        if value is None or isinstance(value, (bool, float)):
            return value
        if isinstance(value, int):
            return value if value.bit_length() <= _BITS else Unusable("it uses an integer that is too long")
        if isinstance(value, str):
            return value if len(value) <= _CHARACTERS else Unusable("it uses a long text")
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):  # an ArrayInfo is a tuple, too
            if len(value) > MOST_ITEMS:
                return Unusable("it uses a long list")
            items = tuple(map(self.convert, value))
            return items if type(value) is tuple else List(list(items))
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
        if value.shape == () and value.dtype[1:] == "i8":
            number = to_number(value, "a number of the function")
            return Scalar(float(number)) if abs(number) <= _INTEGER else _ARRAY
        if value.shape == ():
            return Scalar(to_float64(value, "a number of the function"))
        return Row(tuple(map(Scalar, unpack_items(value)))) if value.dtype[1:] == "f8" else _ARRAY
    except UnrecognizedError:
        return Unusable(f"it computes with a number of the dtype {value.dtype}, as numpy does")
    except SbformatError:
        return _ARRAY


_ARRAY: Final = Unusable("it uses an array that is not a short one of float64")


def _convert_function(value: Function, conversion: _Conversion) -> Any:
    known = value.schedule
    return _make_closure(value, conversion) if known is None else conversion.convert(known)


def _make_closure(value: Function, conversion: _Conversion) -> Closure | Unusable:
    if value.code is None:
        return Unusable("its code object is not valid")
    if len(value.closure) + len(value.defaults) + len(value.keyword_defaults) > MOST_ITEMS:
        return Unusable("it has too many variables")
    cells = {name: Cell(conversion.convert(content)) for name, content in value.closure.items()}
    defaults = tuple(map(conversion.convert, value.defaults))
    keywords = {str(name): conversion.convert(part) for name, part in value.keyword_defaults.items()}
    return Closure(value.code, cells, defaults, keywords, value.globals)


def _convert_schedule(value: ConstantSchedule | LinearSchedule, conversion: _Conversion) -> Any:
    numbers = tuple(map(conversion.convert, value))
    if not all(isinstance(number, (int, float)) for number in numbers):
        return Unusable("it calls a schedule whose numbers are not known")
    return Known(type(value)(*numbers))


def _convert_float_schedule(value: FloatSchedule, conversion: _Conversion) -> Any:
    inner = conversion.convert(value.schedule)
    return Library("float", lambda machine, *args: machine.call_as_float(inner, args))


def _convert_object(value: CarriedObject, _: _Conversion) -> Any:
    if value.state is not None or value.items or not isinstance(value.cls, CarriedClass):
        return Unusable("it uses an object that is more than its attributes")
    return Object(value.attributes, _collect_methods(value.cls))


def _collect_methods(cls: CarriedClass) -> dict[str, object]:
    """Return the attributes of a class and its bases, each of the first class that has it.

    Only classes with one base each, whose order nothing changes.
    """
    found: dict[str, object] = {}
    current = cls
    for _ in range(_LEVELS):
        found = {**current.attributes, **found}
        carried = [base for base in current.bases if isinstance(base, CarriedClass)]
        others = [base for base in current.bases if not isinstance(base, CarriedClass)]
        if not all(isinstance(base, Reference) and base.pair in _PLAIN_BASES for base in others):
            break
        if len(carried) > 1 or not _CHANGES.isdisjoint(found):
            break
        if not carried:
            return found
        current = carried[0]
    return {"__getattribute__": None}  # a class that is not known: every use of the object is refused


_CHANGES: Final = frozenset(
    {"__getattribute__", "__getattr__", "__slots__", "__setstate__", "__get__", "__set__", "__init_subclass__"}
)
"""Attributes of a class that change what its attributes mean."""

_PLAIN_BASES: Final = frozenset({("builtins", "object"), ("abc", "ABC"), ("typing", "Generic"), ("typing", "Protocol")})


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
    (Partial, _convert_partial),
    (Described, _convert_described),
    (Module, lambda value, _: Package(value.name)),
    (Reference, _convert_reference),
    (Global, _convert_reference),
    (Call, _convert_call),
)


def require_number(value: Any) -> Operand:
    """Return a value that is a number or an expression.

    :raises NotUnderstoodError: when it is something else
    """
    from sbformat.values.computed.expressions import Expression

    if isinstance(value, Scalar):
        value = value.value
    if isinstance(value, (int, float, Expression)):
        if isinstance(value, float) and math.isnan(value):
            refuse("it computes with NaN")
        return value
    if isinstance(value, Unusable):
        refuse(value.reason)
    return refuse(f"it computes with {describe(value)}")


def is_plain(value: Any) -> bool:
    """Return whether a value is None, text or a number of Python: what is compared with == as Python does."""
    return value is None or type(value) in (str, int, bool) or (type(value) is float and not math.isnan(value))


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
