"""Values of a file as the machine uses them, and functions of Python, math and numpy, by name (VALUES.md 13.5).

None, short text and tuples are Python's own. Everything else is a :class:`~sbformat.values.computed.arithmetic.Number`
or one of the classes here, none of which can run anything but the machine's own instructions and the functions of a
table. What a kind of value can be used for is listed where it is used; any other use is refused.

Each function receives the machine and its arguments. Nothing is imported: the names are text. Functions of numpy are
computed by Python's on float64, and their results are known to differ between machines in the last digits.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import SbformatError, escape, quote
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
    Value,
)
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.values.computed import arithmetic
from sbformat.values.computed.arithmetic import INTEGERS, Number, apply_function, is_numpy, make_number, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from sbformat.known.code import Code
    from sbformat.values.computed.machine import Machine


MOST_ITEMS: Final = 200
"""Of a list, a tuple, an array or a loop."""
_BITS: Final = 256
_CHARACTERS: Final = 1000
_LEVELS: Final = 6


class ArrayNumber(Number):
    """A number of numpy in an array without dimensions, which is not everywhere the same as a float64."""

    __slots__ = ()


class Part(Value):
    """A value that only the machine has: fields as its class annotates them, equal to itself alone."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__
    __repr__ = object.__repr__

    def __init__(self, *values: object, **named: object) -> None:
        self.__dict__.update(zip(self._fields, values), **named)

    def replace(self, **changes: object) -> Self:
        """Return a copy with other values of some fields."""
        return type(self)(**{**self.__dict__, **changes})


class Closure(Part):
    """A function whose bytecode is executed."""

    code: Code
    cells: dict[str, Cell]
    defaults: tuple[Any, ...]
    keyword_defaults: dict[str, Any]
    globals: dict[str, object]
    """As in the file; converted when they are used."""


class Method(Part):
    """A function, and what it receives as its first arguments."""

    function: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]


class Library(Part):
    """A function or type of Python, math or numpy that is known, by its row of the table."""

    name: str
    call: Callable[..., Any]


class Known(Part):
    """A schedule of SB3."""

    schedule: ConstantSchedule | LinearSchedule


class Package(Part):
    """A module: math or numpy."""

    name: str


class Object(Part):
    """An object of a class pickled by value, the class itself, or a namespace."""

    attributes: dict[str, object]
    methods: dict[str, object]
    is_class: bool = False


class Table(Part):
    """A dict, by plain keys; it is not changed."""

    items: dict[object, Any]
    is_own: bool = False
    """Whether the function has made it; values of the file are converted when they are used."""


class Unusable(Part):
    """A value that is not known here; using it fails for this reason."""

    reason: str


class Row(Part):
    """A short array of numpy, or a range."""

    items: tuple[Any, ...]


class List(Part):
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
    """Return a value that is a number."""
    if isinstance(value, Number):
        return value
    return refuse(value.reason if isinstance(value, Unusable) else f"it computes with {describe(value)}")


def require_int(value: Any) -> int:
    """Return an integer of Python that does not depend on the progress, and is not very great."""
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
    """Return a value as it is compared with ``==``: a number of Python, text or None."""
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


_NOTHING: Final = make_number(0)
_RELATIVE: Final = make_number(1e-9)
PACKAGES: Final = ("math", "numpy", "builtins", "operator")


def find_name(module: str, name: str) -> Any:
    """Return what a name of a module means here."""
    module = "numpy" if module in _NUMPY else module
    found = _TABLES.get(module, {}).get(name)
    if found is None:
        return Unusable(f"it uses {escape(f'{module}.{name}', 100)}, which is not arithmetic that is known here")
    return found


_NUMPY: Final = (
    "numpy.core._multiarray_umath",
    "numpy._core._multiarray_umath",
    "numpy.core.umath",
    "numpy._core.umath",
)


def find_builtin(name: str) -> Any:
    """Return what a global name means that the file does not define."""
    found = _TABLES["builtins"].get(name)
    return found or Unusable(f"it uses {escape(name, 100)}, which the file does not contain")


def find_package(name: str) -> Any:
    """Return a module that a function imports, as far as it is known."""
    return Package(name) if name in PACKAGES else Unusable(f"it imports {escape(name, 100)}")


# -- functions of numbers -----------------------------------------------------------------------------

_STEPS: Final[dict[str, Callable[[float], int]]] = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}
_EXACT: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(math, name) for name in ("sqrt", "fabs", "fmod", "copysign")
}
_LIMITS: Final = {
    **dict.fromkeys(("sqrt", "log", "log2", "log10", "pow", "fmod", "sign"), (0.0,)),
    "log1p": (-1.0,), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0),
}  # fmt: skip
"""Where functions begin to fail, or have a step."""
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **_EXACT,
    **{
        name: getattr(math, name)
        for name in (
            "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log2", "log10",
            "log1p", "degrees", "radians", "erf", "hypot", "atan2", "pow",
        )
    },
    "sign": lambda x: math.copysign(1.0, x) if x else 0.0,
    "rint": lambda x: math.copysign(round(x), x),
}  # fmt: skip
"""Functions with a float as their result."""
_OF_TWO: Final = ("fmod", "copysign", "hypot", "atan2", "pow")
_NUMPY_NAMES: Final = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "deg2rad": "radians", "power": "pow",
    **{name: name for name in (
        "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "degrees",
        "radians", "fabs", "fmod", "hypot", "copysign", "sign", "rint",
    )},
}  # fmt: skip


def _function(name: str, kind: str) -> Callable[..., Number]:
    """Return a function of math, or of numpy.

    :param kind: ``float`` or ``f8``
    """
    compute = _FUNCTIONS[name]
    count = 2 if name in _OF_TWO else 1

    def call(machine: Machine, *args: Any) -> Number:
        if len(args) != count and not (kind == "float" and name == "log" and len(args) == 2):
            refuse(f"it calls {name} with {len(args)} arguments")
        numbers = tuple(_as_float(part, kind) for part in args)
        if kind == "f8" and name in ("fmod", "sign", "fabs") and require_number(args[0]).kind not in ("float", "f8"):
            refuse("it computes with integers of numpy")
        for limit in _LIMITS.get(name, ()):
            machine.note_limit(numbers[-1 if name == "fmod" else 0], limit)
        how = "exact" if name in _EXACT else "steps" if name in ("sign", "rint") else ""
        return machine.check_handlers(apply_function(compute, numbers, kind, how=how))

    return call


def _as_float(value: Any, kind: str) -> Number:
    """Return a number as a float; numpy computes with short integers and conditions in shorter floats."""
    number = require_number(value)
    if kind == "f8" and number.kind not in ("int", "float", "i4", "i8", "u4", "u8", "f8", arithmetic.ANY):
        refuse("it calls a function of numpy with short numbers or conditions")
    return arithmetic.convert(number, kind)


def _to_int(function: Callable[[float], int], name: str) -> Callable[..., Number]:
    """Return a function of math that rounds to an integer."""

    def call(machine: Machine, value: Any, /) -> Number:
        number = require_number(value)
        if number.kind not in ("float", "int", "f8"):
            refuse(f"it calls {name} with an unusual number")
        return machine.check_handlers(apply_function(function, (number,), "int", how="steps"))

    return call


def _step_of_numpy(name: str) -> Callable[..., Number]:
    def call(machine: Machine, value: Any, /) -> Number:
        number = require_number(value)
        if number.kind not in ("float", "f8"):
            refuse(f"it calls numpy.{name} with something other than a float")  # integers since numpy 2.1
        return machine.check_handlers(
            apply_function(lambda x: math.copysign(_STEPS[name](x), x), (number,), "f8", how="steps")
        )

    return call


def _power_of_numpy(machine: Machine, base: Any, exponent: Any, /) -> Number:
    """``numpy.power``, which computes with integers if both are."""
    if not any(require_number(part).kind in ("float", "f8") for part in (base, exponent)):
        refuse("it computes with integers of numpy")
    return _function("pow", "f8")(machine, base, exponent)


def _operator(symbol: str) -> Callable[..., Number]:
    return lambda machine, one, other, /: machine.combine(symbol, one, other)


def _operator_of_numpy(symbol: str) -> Callable[..., Number]:
    """Return numpy's function of an operator, whose result is numpy's."""
    return lambda machine, one, other, /: machine.combine(symbol, *_as_operands(one, other))


def _as_operands(one: Any, other: Any) -> tuple[Number, Number]:
    """Return two numbers as a function of numpy takes them: one of Python has its own type only beside another."""
    left, right = require_number(one), require_number(other)
    if is_numpy(left.kind) or is_numpy(right.kind):
        return left, right
    return _as_numpy(left), _as_numpy(right)


def _as_numpy(value: Any) -> Number:
    """Return a number of Python as numpy takes it alone."""
    number = require_number(value)
    return arithmetic.convert(number, {"float": "f8", "int": "i8", "bool": "b1"}.get(number.kind, number.kind))


# -- the greatest and the least -----------------------------------------------------------------------


def _extremum(symbol: str) -> Callable[..., Any]:
    """Return ``min`` or ``max``, of arguments or of a list."""

    def call(machine: Machine, *args: Any) -> Any:
        items = require_items(args[0]) if len(args) == 1 else list(args)
        if not items:
            refuse("it calls min or max of nothing")
        found = require_number(items[0])
        for item in items[1:]:
            found = machine.choose(symbol, require_number(item), found)
        return found

    return call


def _float_extremum(symbol: str) -> Callable[..., Number]:
    """Return numpy's maximum or minimum of two numbers."""

    def call(machine: Machine, one: Any, other: Any, /) -> Number:
        left, right = _as_operands(one, other)
        kind = arithmetic.promote(left.kind, right.kind)
        if kind == "b1":
            refuse("it computes with conditions of numpy")
        _refuse_zeros(left, right)
        return machine.choose(symbol, arithmetic.convert(left, kind), arithmetic.convert(right, kind))

    return call


def _array_extremum(symbol: str) -> Callable[..., Any]:
    """Return numpy's ``min`` or ``max`` of a list: a second argument would be an axis."""

    def call(machine: Machine, items: Any, /) -> Any:
        numbers = _require_floats(items)
        _refuse_zeros(*numbers)
        return _extremum(symbol)(machine, tuple(numbers))

    return call


def _refuse_zeros(*numbers: Number) -> None:
    """Refuse zeros of both signs, of which the releases of numpy do not choose the same."""
    if len({math.copysign(1.0, part.value) for part in numbers if part.value == 0}) > 1:
        refuse("it compares zeros of both signs, as the releases of numpy do differently")


def _clip(machine: Machine, value: Any, /, a_min: Any, a_max: Any) -> Number:
    if a_min is None and a_max is None:
        refuse("it clips nothing")
    found = require_number(value)
    if a_min is not None:
        found = _float_extremum(">")(machine, found, a_min)
    return found if a_max is None else _float_extremum("<")(machine, found, a_max)


# -- lists --------------------------------------------------------------------------------------------


def _require_array(value: Any) -> list[Any]:
    """Return the items of what numpy makes an array from."""
    if isinstance(value, Iterator):
        refuse("it makes an array from an iterator")
    return require_items(value)


def _require_floats(value: Any) -> list[Number]:
    """Return the numbers of an array of float64: without a float, numpy makes one of integers."""
    numbers = [require_number(part) for part in _require_array(value)]
    if not any(part.kind in ("float", "f8") for part in numbers):
        refuse("it computes with integers of numpy")
    return [_as_float(part, "f8") for part in numbers]


def _require_some_items(value: Any) -> list[Any]:
    """Return the items of something from which Python takes them later, or not all of them."""
    items = require_items(value)
    if isinstance(value, Iterator):
        value.is_shared = True
    return items


def _sum(machine: Machine, items: Any, /, start: Any = _NOTHING) -> Number:
    """``sum``, which adds floats with a compensation of rounding errors since 3.12, and integers to them since 3.14."""
    total = require_number(start)
    compensated = ("float", "int", "bool")[: machine.release.compensated_sum]
    lost = 0.0
    for part in map(require_number, require_items(items)):
        added = machine.combine("+", total, part)
        if total.kind == "float" and part.kind in compensated:
            great, small = sorted((total.value, float(part.value)), key=abs, reverse=True)
            lost += (great - added.value) + small
        elif lost and (part.kind not in ("int", "bool") or abs(part.value) >= 1 << 63):
            added = machine.combine("+", _compensate(total, lost), part)
            lost = 0.0
        total = added
    return _compensate(total, lost)


def _compensate(number: Number, lost: float) -> Number:
    """Return a sum with what was lost by rounding."""
    noise = number.noise + 2 * abs(lost)
    return Number(number.value + lost, number.kind, number.slope, noise, is_exact=number.is_exact) if lost else number


_PAIRWISE: Final = 8
"""The number of items from which on numpy adds them in another order."""


def _array_sum(machine: Machine, items: Any, /) -> Number:
    numbers = _require_floats(items)
    if len(numbers) >= _PAIRWISE:
        refuse("it adds a long array")
    total = Number(0.0, "f8")
    for part in numbers:
        total = machine.combine("+", total, part)
    return total


def _mean(machine: Machine, items: Any, /) -> Number:
    numbers = _require_array(items)
    if not numbers:
        refuse("it calls mean of nothing")
    return machine.combine("/", _array_sum(machine, items), make_number(len(numbers)))


def _length(_: Machine, value: Any, /) -> Number:
    if isinstance(value, Iterator):
        refuse("it asks for the length of an iterator")
    return make_number(len(require_items(value)))


def _range(_: Machine, *args: Any) -> Row:
    numbers = [require_int(part) for part in args]
    if not 1 <= len(numbers) <= 3 or numbers[2:] == [0] or len(range(*numbers)) > MOST_ITEMS:
        refuse("it loops too often")
    return Row(tuple(map(make_number, range(*numbers))))


def _interpolate(machine: Machine, value: Any, points: Any, values: Any, /) -> Number:
    """``numpy.interp``: lines between points, and constants outside of them."""
    x = _as_float(value, "f8")
    places, levels = ([_as_float(part, "f8") for part in _require_array(part)] for part in (points, values))
    if len(places) != len(levels) or not 1 <= len(places) <= _MOST_POINTS:
        refuse("it interpolates between an unusual number of points")
    if any(part.slope != 0 or not part.is_exact for part in (*places, *levels)):
        refuse("it interpolates between points that depend on the progress")
    if any(right.value <= left.value for left, right in pairwise(places)):
        refuse("it interpolates between points that do not increase")
    if machine.compare("<", x, places[0]):
        return levels[0]
    for left, right, low, high in zip(places, places[1:], levels, levels[1:]):
        if machine.compare("<", x, right):
            slope = machine.combine("/", machine.combine("-", high, low), machine.combine("-", right, left))
            return machine.combine("+", machine.combine("*", slope, machine.combine("-", x, left)), low)
    return levels[-1]


_MOST_POINTS: Final = 32


# -- other functions ----------------------------------------------------------------------------------


def _float(_: Machine, value: Any = None, /) -> Number:
    """``float`` of a number, or of the text of one."""
    if not isinstance(value, str):
        return arithmetic.convert(require_number(value), "float")
    if len(value) > _MOST_DIGITS or not value.isascii():
        refuse("it computes with text")
    try:
        return make_number(float(value)) if math.isfinite(float(value)) else refuse("it computes with text")
    except ValueError:
        return refuse("it computes with text")


_MOST_DIGITS: Final = 40


def _int(machine: Machine, value: Any, /) -> Number:
    number = require_number(value)
    if number.kind in INTEGERS or number.kind in ("int", "bool", "b1"):
        return arithmetic.convert(number, "int")
    return machine.check_handlers(apply_function(int, (number,), "int", how="steps"))


def _round(machine: Machine, value: Any, /, ndigits: Any = None) -> Number:
    number = require_number(value)
    if number.kind not in ("int", "float", "f8") or (ndigits is not None and is_numpy(number.kind)):
        refuse("it rounds a number of numpy, which numpy's releases do in different ways")
    if ndigits is None:
        return machine.check_handlers(apply_function(round, (number,), "int", how="steps"))
    digits = require_int(ndigits)
    if abs(digits) > _MOST_DIGITS:
        refuse("it rounds to an unusual number of digits")
    return machine.check_handlers(apply_function(lambda x: round(x, digits), (number,), number.kind, how="steps"))


def _round_of_numpy(machine: Machine, value: Any, /, decimals: Any = _NOTHING) -> Number:
    """``numpy.round``, which multiplies by a power of 10, rounds, and divides."""
    digits = require_int(decimals)
    number = require_number(value)
    if not 0 <= digits <= _MOST_DECIMALS or number.kind not in ("float", "f8"):
        refuse("it rounds to an unusual number of digits")
    scale = 10.0**digits
    return machine.check_handlers(
        apply_function(lambda x: math.copysign(round(x * scale) / scale, x), (number,), "f8", how="steps")
    )


_MOST_DECIMALS: Final = 15


def _is_instance(_: Machine, value: Any, kinds: Any, /) -> Number:
    """``isinstance`` of a value whose type is known, and types of Python; numpy's are of several."""
    wanted = kinds if type(kinds) is tuple else (kinds,)
    names = {name for name in _TYPE_NAMES if any(kind is _TABLES["builtins"].get(name) for kind in wanted)}
    known = value.kind if isinstance(value, Number) else _TYPES.get(type(value), "")
    if len(names) != len(wanted) or known not in _TYPE_NAMES:
        refuse("it asks for the type of a value")
    return make_number(known in names or (known == "bool" and "int" in names))


_TYPES: Final = {tuple: "tuple", List: "list", str: "str"}
_TYPE_NAMES: Final = frozenset({"int", "float", "bool", "tuple", "list", "str"})


def _absolute(machine: Machine, value: Any, /) -> Number:
    number = require_number(value)
    if number.kind in ("bool", "b1", arithmetic.TRUTH):
        refuse("it computes with the sign of a condition")
    if not machine.compare("<", number, make_number(0)):
        return Number(abs(number.value), number.kind, number.slope, number.noise, is_exact=number.is_exact)  # not -0.0
    return arithmetic.negate(number)


def _is_close(
    machine: Machine, one: Any, other: Any, /, *, rel_tol: Any = _RELATIVE, abs_tol: Any = _NOTHING
) -> Number:
    """``math.isclose`` of finite numbers."""
    left, right, relative, absolute = (_as_float(part, "float") for part in (one, other, rel_tol, abs_tol))
    if any(part.value < 0 or part.slope != 0 for part in (relative, absolute)):
        refuse("it calls isclose with unusual arguments")
    greatest = machine.choose(">", _absolute(machine, left), _absolute(machine, right))
    allowed = machine.choose(">", machine.combine("*", relative, greatest), absolute)
    return make_number(machine.compare("<=", _absolute(machine, machine.combine("-", left, right)), allowed))


def _where(machine: Machine, condition: Any, one: Any, other: Any, /) -> Number:
    """``numpy.where`` of numbers, whose result is an array without dimensions."""
    if not any(require_number(part).kind in ("float", "f8") for part in (one, other)):
        refuse("it computes with integers of numpy")
    left, right = _as_float(one, "f8"), _as_float(other, "f8")
    found = left if machine.is_true(require_number(condition)) else right
    return ArrayNumber(found.value, "f8", found.slope, found.noise, is_exact=found.is_exact)


def _of_type(kind: str) -> Callable[..., Number]:
    """Return a type of numpy, which converts a number."""
    return lambda _, value, /: arithmetic.convert(require_number(value), kind)


_BUILTINS: Final[dict[str, Any]] = {
    "float": _float,
    "str": lambda *_: refuse("it computes with text"),
    "any": lambda machine, items, /: make_number(any(map(machine.is_true, _require_some_items(items)))),
    "all": lambda machine, items, /: make_number(all(map(machine.is_true, _require_some_items(items)))),
    "int": _int,
    "bool": lambda machine, value, /: make_number(machine.is_true(require_number(value))),
    "abs": _absolute,
    "min": _extremum("<"),
    "max": _extremum(">"),
    "round": _round,
    "pow": _operator("**"),
    "sum": _sum,
    "len": _length,
    "range": _range,
    "isinstance": _is_instance,
    "tuple": lambda _, items=(), /: tuple(require_items(items)),
    "list": lambda _, items=(), /: List(require_items(items)),
    "reversed": lambda _, items, /: Iterator(_require_array(items)[::-1]),
    "zip": lambda _, *rows: Iterator(list(zip(*(_require_some_items(row) for row in rows)))),
    "enumerate": lambda _, items, /: Iterator(
        [(make_number(index), item) for index, item in enumerate(_require_some_items(items))]
    ),
}
_MATH_NAMES: Final = _FUNCTIONS.keys() - {"sign", "rint"}
_NUMBERS: Final = {name: make_number(getattr(math, name)) for name in ("pi", "e", "inf")}
_OPERATORS: Final = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}
_OF_NUMPY: Final = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/"}
_NUMPY_FUNCTIONS: Final[dict[str, Any]] = {
    **{name: _function(known, "f8") for name, known in _NUMPY_NAMES.items()},
    **{name: _operator_of_numpy(symbol) for name, symbol in _OF_NUMPY.items()},
    **{name: _step_of_numpy(name) for name in _STEPS},
    **{name: _of_type(kind) for name, kind in arithmetic.NAMES.items() if kind != "b1"},
    "power": _power_of_numpy,
    "abs": lambda machine, value, /: _absolute(machine, _as_numpy(value)),
    "absolute": lambda machine, value, /: _absolute(machine, _as_numpy(value)),
    "negative": lambda _, value, /: arithmetic.negate(_as_numpy(value)),
    "square": lambda machine, value, /: machine.combine("*", *_as_operands(value, value)),
    "maximum": _float_extremum(">"),
    "minimum": _float_extremum("<"),
    "fmax": _float_extremum(">"),
    "fmin": _float_extremum("<"),
    "max": _array_extremum(">"),
    "min": _array_extremum("<"),
    "amax": _array_extremum(">"),
    "amin": _array_extremum("<"),
    "clip": _clip,
    "where": _where,
    "interp": _interpolate,
    "sum": _array_sum,
    "mean": _mean,
    "round": _round_of_numpy,
    "around": _round_of_numpy,
}


def _wrap(functions: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    return {name: Library(name, call) for name, call in functions.items()}


_TABLES: Final[dict[str, dict[str, Any]]] = {
    "builtins": _wrap(_BUILTINS),
    "math": {
        **_wrap({name: _function(name, "float") for name in _MATH_NAMES}),
        **_wrap({name: _to_int(function, name) for name, function in _STEPS.items()}),
        **_wrap({"isclose": _is_close}),
        **_NUMBERS,
        "tau": make_number(math.tau),
    },
    "numpy": {**_wrap(_NUMPY_FUNCTIONS), **_NUMBERS},
    "operator": _wrap({name: _operator(symbol) for name, symbol in _OPERATORS.items()}),
}
