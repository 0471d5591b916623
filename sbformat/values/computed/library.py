"""Values of a file as the machine uses them, and functions of Python, math and numpy, by name (VALUES.md 13.5).

None, text, tuples, lists, dicts, ranges, slices and iterators are Python's own, and arrays, modules, schedules and
``functools.partial`` are as :mod:`sbformat.known` has them. Everything else is a
:class:`~sbformat.values.computed.arithmetic.Number` or one of the classes here. What a kind of value can be used for is
listed where it is used; any other use is refused. A value of the file within another is converted when it is used.

Each function receives the machine and its arguments. Nothing is imported: the names are text. Functions of numpy are
computed by Python's on float64, and their results are known to differ between machines in the last digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import SbformatError, escape, quote
from sbformat.immutable import Record
from sbformat.known import types
from sbformat.known.code import Code
from sbformat.known.numpy import unpack_items
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.values.computed import arithmetic
from sbformat.values.computed.arithmetic import FLOATS, PYTHON, ZERO, Number, make_number, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.values.computed.machine import Machine


MOST_ITEMS: Final = 200
"""Of a list, a tuple, an array or a loop."""
_BITS: Final = 256
_LEVELS: Final = 6  # classes of which each is the base of another


class Closure(Record):
    """A function whose bytecode is executed."""

    code: Code
    cells: dict[str, Cell]
    globals: dict[str, object]
    defaults: tuple[Any, ...] = ()
    keyword_defaults: dict[str, Any] = {}


class Cell:
    """A variable that functions share."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content


class Library(Record):
    """A function or type of Python, math or numpy that is known, by its row of the table."""

    name: str
    call: Callable[..., Any]


class Object(Record):
    """An object of a class pickled by value, the class itself, or a namespace."""

    attributes: dict[str, object]
    methods: dict[str, object] = {}
    is_class: bool = False


class Unusable(Record):
    """A value that is not known here; using it fails for this reason."""

    reason: str


class OwnList(list[Any]):
    """A list that the function has made, so that nothing outside of the call has it."""

    __slots__ = ()


UNBOUND: Final = Unusable("it uses a variable before it is assigned")
NULL: Final = Unusable("its bytecode uses an absent object")
"""What CPython pushes in the place of an object whose method is called."""
_UNKNOWN: Final = Unusable("it uses a value that is not known here")
_UNCHANGED: Final = frozenset(
    {
        Number, Library, Unusable, Closure, Cell, Object, Code, type(None), str, tuple, list, OwnList, dict, range,
        slice, types.ConstantSchedule, types.LinearSchedule, types.FloatSchedule, types.Partial, types.Module,
    }
)  # fmt: skip


def convert(value: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 -- a case for each kind of value
    """Return a value of the file as the machine uses it; it never fails before it is used."""
    if type(value) in _UNCHANGED or isinstance(value, Iterator):
        return value
    match value:
        case bool() | int() | float():
            if isinstance(value, int) and value.bit_length() > _BITS:
                return Unusable("it uses an integer that is too long")
            return Unusable("it computes with NaN") if value != value else make_number(value)  # noqa: PLR0124
        case ArrayInfo():
            return _unpack(value)[0] if value.is_scalar else value
        case types.Function():
            return _convert_function(value)
        case types.Reference() | Global():
            if isinstance(value, Global) and value.updates:
                return Unusable("it uses a function that is changed")
            return find_name(*value.pair)
        case types.CarriedObject(is_called=False, state=None, items=(), args=(), cls=types.CarriedClass() as cls):
            return Object(value.attributes, _collect_methods(cls))
        case types.CarriedObject():
            return Unusable("it uses an object that is more than its attributes")
        case types.CarriedClass():
            return Object({}, _collect_methods(value), is_class=True)
        case types.Cycle():
            return Unusable("it refers to itself")
        case types.Contradiction():
            return Unusable("two of its functions give a global variable different values")
        case types.Described(kind="types.SimpleNamespace"):
            return Object(dict(part for part in value.parts if type(part) is tuple and len(part) == 2))
        case types.Described(kind="builtins.slice") if all(part is None or type(part) is int for part in value.parts):
            return slice(*value.parts) if len(value.parts) in (2, 3) else _UNKNOWN
        case types.Described(kind="method", parts=(function, owner)):
            return types.Partial(function, (owner,), {})
        case Call():
            return _convert_namespace(value)
    return _UNKNOWN


def _convert_function(value: types.Function) -> Any:
    if value.is_changed:
        return Unusable("other parts of the pickle may change what it computes")
    if value.schedule is not None:
        return convert(value.schedule)
    if value.code is None:
        return Unusable("its code object is not valid")
    if len(value.closure) + len(value.defaults) + len(value.keyword_defaults) > MOST_ITEMS:
        return Unusable("it has too many variables")
    cells = {name: Cell(content) for name, content in value.closure.items()}
    return Closure(value.code, cells, value.globals, value.defaults, value.keyword_defaults)


def _collect_methods(cls: types.CarriedClass) -> dict[str, object]:
    """Return the attributes of a class and its bases, each of the first class that has it.

    Only classes with one base each, none of which does anything when it or an object is created, or an attribute is
    read or set.
    """
    found: dict[str, object] = {}
    current = cls
    for _ in range(_LEVELS):
        found = {**current.attributes, **found}
        carried = [base for base in current.bases if isinstance(base, types.CarriedClass)]
        others = [base for base in current.bases if not isinstance(base, types.CarriedClass)]
        is_plain = (
            current.metaclass in _METACLASSES
            and all(isinstance(base, types.Reference) and base.pair in _PLAIN_BASES for base in others)
            and all(name in _PASSIVE or not name.startswith("__") for name in current.attributes)
            and not any(isinstance(part, (types.CarriedObject, Call)) for part in current.attributes.values())
            and not current.attributes.get("__abstractmethods__")
            and len(current.attributes) <= MOST_ITEMS
        )
        if not is_plain or len(carried) > 1:
            break
        if not carried:
            return found
        current = carried[0]
    return {"__getattribute__": None}  # a class that is not known: every use of the object is refused


_METACLASSES: Final = (
    types.Reference("builtins", "type"),
    types.Reference("abc", "ABCMeta"),
    types.Reference("typing", "GenericMeta"),
)
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


def _convert_namespace(value: Call) -> Any:
    """Convert an ``argparse.Namespace``, which is nothing but its attributes."""
    func: Any = value.func
    updates = value.updates or ()
    if (
        not isinstance(func, Global)
        or func.pair != ("argparse", "Namespace")
        or func.updates
        or value.args not in ((), [])
    ):
        return _UNKNOWN
    state: Any = updates[0].value if len(updates) == 1 and updates[0].how == "BUILD" else None
    if not isinstance(state, Dict) or not all(type(name) is str for name, _ in state):
        return _UNKNOWN
    return Object({str(name): content for name, content in state})


def _unpack(array: ArrayInfo) -> list[Any]:
    """Return the numbers of a short array without or with one dimension; what cannot be used where it has others."""
    if len(array.shape) > 1 or math.prod(array.shape) > MOST_ITEMS or not (array.shape or array.is_scalar):
        return [_ARRAY]  # one without dimensions that is not a scalar can be changed
    try:
        items = unpack_items(array)
    except SbformatError:
        return [_ARRAY]
    if any(isinstance(item, float) and math.isnan(item) for item in items):
        return [Unusable("it computes with NaN")]
    return [Number(item, array.dtype[1:]) for item in items]


_ARRAY: Final = Unusable("it uses an array that is not a short one of numbers")


def iterate(value: Any) -> Iterator[Any]:
    """Return the items of a tuple, list, range, array or iterator, each converted when it is taken."""
    if isinstance(value, ArrayInfo):
        items = _unpack(value)
        if items and isinstance(items[0], Unusable):
            refuse(items[0].reason)
        return iter(items)
    if isinstance(value, Unusable):
        refuse(value.reason)
    if not isinstance(value, Iterator):
        if type(value) not in (tuple, list, OwnList, range):
            refuse("it iterates over something other than a list")
        if len(value) > MOST_ITEMS:
            refuse("it uses a long list")
    return map(convert, value)


def require_number(value: Any) -> Number:
    """Return a value that is a number."""
    if isinstance(value, Number):
        return value
    return refuse(value.reason if isinstance(value, Unusable) else f"it computes with {describe(value)}")


def require_int(value: Any) -> int:
    """Return an integer of Python that does not depend on the progress, and is not very great."""
    if (
        not isinstance(value, Number)
        or value.kind != "int"
        or abs(value.value) > _MOST_COUNT
        or value.slope != 0
        or value.noise
    ):
        refuse("it counts with something other than integers that do not depend on the progress")
    return int(value.value)


_MOST_COUNT: Final = 1 << 31


def find_key(value: Any) -> object:
    """Return a value as it is compared with ``==``: a number of Python, text or None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Number) and value.kind in PYTHON and value.slope == 0 and not value.noise and value.is_exact:
        return value.value
    return refuse("it searches for something other than a number or text")


def describe(value: object) -> str:
    """Return what a value is, for a reason."""
    if value is None:
        return "None"
    if isinstance(value, Library):
        return f"the function {value.name}"
    if isinstance(value, types.Module):
        return f"the module {quote(value.name)}"
    if isinstance(value, (Closure, types.Partial, types.ConstantSchedule, types.LinearSchedule)):
        return "a function"
    if type(value) in (tuple, list, OwnList, range, ArrayInfo):
        return "a list"
    return "text" if isinstance(value, str) else "a dict" if isinstance(value, dict) else "an object"


def find_name(module: str, name: str) -> Any:
    """Return what a name of a module means here."""
    if re.fullmatch(r"numpy\._?core\.(_multiarray_)?umath", module):  # where numpy's releases define functions
        module = "numpy"
    found = TABLES.get(module, {}).get(name)
    if found is None:
        return Unusable(f"it uses {escape(f'{module}.{name}', 100)}, which is not arithmetic that is known here")
    return found


# -- functions of numbers -----------------------------------------------------------------------------


def _signed(function: Callable[[float], int]) -> Callable[[float], float]:
    """Return a function that rounds to an integer as numpy's do: to a float with the sign of the operand."""
    return lambda x: math.copysign(function(x), x)


_LIBRARY: Final = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log2", "log10",
    "log1p", "degrees", "radians", "erf", "hypot", "atan2", "pow",
)  # fmt: skip
_FUNCTIONS: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    **{name: (getattr(math, name), "library") for name in _LIBRARY},
    **{name: (getattr(math, name), "exact") for name in ("sqrt", "fabs", "fmod", "copysign")},
    "sign": (lambda x: math.copysign(1.0, x) if x else 0.0, "steps"),
    "rint": (_signed(round), "steps"),
    "floor": (_signed(math.floor), "steps"),
    "ceil": (_signed(math.ceil), "steps"),
    "trunc": (_signed(math.trunc), "steps"),
}
"""Functions with a float as their result, and how they are computed (a key of ``arithmetic._ERRORS``)."""
_LIMITS: Final = {
    **dict.fromkeys(("sqrt", "log", "log2", "log10", "pow", "fmod", "sign"), (0,)),
    "log1p": (-1,), "asin": (-1, 1), "acos": (-1, 1),
}  # fmt: skip
"""Where functions begin to fail, or have a step."""
_OF_TWO: Final = ("fmod", "copysign", "hypot", "atan2", "pow")
_OF_FLOATS: Final = ("sign", "rint", "floor", "ceil", "trunc", "fmod", "fabs", "pow")
"""Functions that in numpy have integers as their results for integers, in some releases."""
_NUMPY_NAMES: Final = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "deg2rad": "radians", "power": "pow",
    **{name: name for name in _FUNCTIONS.keys() - {"asin", "acos", "atan", "atan2", "pow", "erf"}},
}  # fmt: skip


def _call_function(name: str, kind: str, machine: Machine, *args: Any) -> Number:
    """Call a function of math, or of numpy.

    :param kind: ``float`` or ``f8``
    """
    if len(args) != (2 if name in _OF_TWO else 1) and not (kind == "float" and name == "log" and len(args) == 2):
        refuse(f"it calls {name} with {len(args)} arguments")
    if kind == "f8" and name in _OF_FLOATS:
        numbers = _as_floats(*args)
    else:
        check = require_number if kind == "float" else _require_kind
        numbers = tuple(arithmetic.convert(check(part), kind) for part in args)
    for limit in _LIMITS.get(name, ()):
        machine.note_limit(numbers[-1 if name == "fmod" else 0], limit)
    compute, how = _FUNCTIONS[name]
    return machine.apply(compute, numbers, kind, how)


def _require_kind(value: Any, *kinds: str) -> Number:
    """Return a number of the kinds that numpy computes as Python does, or only of some of them."""
    number = require_number(value)
    if number.kind not in (kinds or ("int", "float", "f8", arithmetic.ANY, "i8", "i4", "u4", "u8")):
        refuse("it calls a function with a condition, an integer, or a number of numpy, as releases do differently")
    return number


def _as_floats(*values: Any) -> tuple[Number, ...]:
    """Return numbers as numpy computes with them if one of them is a float; without, it would use integers."""
    numbers = tuple(map(require_number, values))
    if not any(part.kind in FLOATS for part in numbers) or any(part.kind in ("f2", "f4") for part in numbers):
        refuse("it computes with integers or short floats of numpy")
    return tuple(arithmetic.convert(part, "f8") for part in numbers)


def _round_to_int(function: Callable[[float], int], machine: Machine, value: Any, /) -> Number:
    """Call a function of math that rounds to an integer, or ``round`` without digits."""
    return machine.apply(function, (_require_kind(value, "int", "float", "f8"),), "int", "steps")


def _int(machine: Machine, value: Any, /) -> Number:
    number = require_number(value)
    if number.kind in FLOATS:
        return _round_to_int(int, machine, number)
    return arithmetic.convert(number, "int")


def _round(machine: Machine, value: Any, /, ndigits: Any = None) -> Number:
    if ndigits is None:
        return _round_to_int(round, machine, value)
    digits = require_int(ndigits)
    if abs(digits) > _MOST_DIGITS:
        refuse("it rounds to an unusual number of digits")
    number = _require_kind(value, "int", "float")
    return machine.apply(lambda x: round(x, digits), (number,), number.kind, "steps")


def _round_of_numpy(machine: Machine, value: Any, /, decimals: Any = ZERO) -> Number:
    """``numpy.round``, which multiplies by a power of 10, rounds, and divides."""
    digits = require_int(decimals)
    if not 0 <= digits <= _MOST_DECIMALS:
        refuse("it rounds to an unusual number of digits")
    scale = 10.0**digits
    number = _require_kind(value, "float", "f8")
    return machine.apply(lambda x: math.copysign(round(x * scale) / scale, x), (number,), "f8", "steps")


_MOST_DECIMALS: Final = 15
_MOST_DIGITS: Final = 40


def _float(_: Machine, value: Any, /) -> Number:
    """``float`` of a number, or of the text of one."""
    if not isinstance(value, str):
        return arithmetic.convert(require_number(value), "float")
    try:
        number = float(value) if len(value) <= _MOST_DIGITS and value.isascii() else math.inf
    except ValueError:
        number = math.inf
    return make_number(number) if math.isfinite(number) else refuse("it computes with text")


def _absolute(machine: Machine, value: Any, /) -> Number:
    number = _require_kind(value)
    if not machine.compare("<", number, ZERO):
        return number._replace(value=abs(number.value))  # not -0.0
    return arithmetic.negate(number)


# -- the greatest and the least, and lists -------------------------------------------------------------


def _choose(symbol: str, machine: Machine, *args: Any) -> Any:
    """``min`` or ``max``, of arguments or of a list."""
    items = list(iterate(args[0])) if len(args) == 1 else args
    if not items:
        refuse("it calls min or max of nothing")
    found = require_number(items[0])
    for item in items[1:]:
        found = machine.choose(symbol, require_number(item), found)
    return found


def _choose_float(symbol: str, machine: Machine, one: Any, other: Any, /) -> Number:
    """``minimum`` or ``maximum`` of numpy."""
    left, right = _as_floats(one, other)
    if left.value == right.value == 0 and math.copysign(1, left.value) != math.copysign(1, right.value):
        refuse("it compares zeros of both signs, as the releases of numpy do differently")
    return machine.choose(symbol, left, right)


def _choose_item(symbol: str, machine: Machine, items: Any, /) -> Number:
    """``min`` or ``max`` of numpy, of a list: a second argument would be an axis."""
    found, *others = _as_floats(*_take_array(items))
    for number in others:
        found = _choose_float(symbol, machine, found, number)
    return found


def _take_array(value: Any) -> list[Any]:
    """Return the items of what numpy makes an array from."""
    if isinstance(value, Iterator):
        refuse("it uses an iterator as a list")
    return list(iterate(value))


def _clip(machine: Machine, value: Any, /, a_min: Any, a_max: Any) -> Number:
    if a_min is None and a_max is None:
        refuse("it clips nothing")
    found = require_number(value)
    if a_min is not None:
        found = _choose_float(">", machine, found, a_min)
    return found if a_max is None else _choose_float("<", machine, found, a_max)


def _sum(machine: Machine, items: Any, /, start: Any = ZERO) -> Number:
    """``sum``, which adds floats with a compensation of rounding errors since 3.12, and integers to them since 3.14."""
    total = require_number(start)
    kinds = machine.release.compensated
    lost = doubt = 0.0
    for part in map(require_number, iterate(items)):
        added = machine.combine("+", total, part)
        if kinds and isinstance(added.value, float):
            great, small = sorted((float(total.value), float(part.value)), key=abs, reverse=True)
            error = (great - added.value) + small
            if total.kind == "float" and part.kind in kinds:
                lost += error
            elif added.kind != "float" or abs(part.value) >= _LONG:  # a float of numpy ends it, one of Python does not
                doubt += abs(error) + abs(lost)
        total = added
    if not lost and not doubt:
        return total
    noise = total.noise + 2 * abs(lost) + 2 * doubt
    return total._replace(value=total.value + lost, noise=noise, is_exact=total.is_exact and not doubt)


_LONG: Final = 1 << 63


def _range(_: Machine, *args: Any) -> range:
    numbers = [require_int(part) for part in args]
    if not 1 <= len(numbers) <= 3 or numbers[2:] == [0] or len(range(*numbers)) > MOST_ITEMS:
        refuse("it loops too often")
    return range(*numbers)


def _enumerate(_: Machine, items: Any, /) -> Iterator[Any]:
    return ((make_number(index), item) for index, item in enumerate(iterate(items)))


def _interpolate(machine: Machine, value: Any, points: Any, values: Any, /) -> Number:
    """``numpy.interp``: lines between points, and constants outside of them."""
    (x,), places, levels = (
        [arithmetic.convert(_require_kind(part), "f8") for part in parts]
        for parts in ((value,), _take_array(points), _take_array(values))
    )
    if len(places) != len(levels) or not 1 <= len(places) <= _MOST_POINTS:
        refuse("it interpolates between an unusual number of points")
    if any(part.slope != 0 or part.noise for part in (*places, *levels)):
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


def _where(machine: Machine, condition: Any, one: Any, other: Any, /) -> Number:
    """``numpy.where`` of numbers."""
    found = _as_floats(one, other)[0 if machine.is_true(require_number(condition)) else 1]
    return found._replace(kind=arithmetic.ARRAY)


def _operator(symbol: str, machine: Machine, one: Any, other: Any, /) -> Number:
    return machine.combine(symbol, one, other)


def _operator_of_numpy(symbol: str, machine: Machine, one: Any, other: Any, /) -> Number:
    return machine.combine(symbol, *_as_floats(one, other))


def _call_type(kind: str, _: Machine, value: Any, /) -> Number:
    """Convert a number to a type of numpy."""
    return arithmetic.convert(_require_kind(value, *PYTHON, "f8", "i8", "b1"), kind)


def _is_instance(_: Machine, value: Any, kinds: Any, /) -> Number:
    """``isinstance`` of a value whose type is known, and types of Python; numpy's are of several."""
    wanted = kinds if type(kinds) is tuple else (kinds,)
    names = {name for name in _TYPE_NAMES if any(kind is TABLES["builtins"].get(name) for kind in wanted)}
    known = value.kind if isinstance(value, Number) else "list" if type(value) is OwnList else type(value).__name__
    if len(names) != len(wanted) or known not in _TYPE_NAMES:
        refuse("it asks for the type of a value")
    return make_number(known in names or (known == "bool" and "int" in names))


_TYPE_NAMES: Final = frozenset({"int", "float", "bool", "tuple", "list", "str"})
_BUILTINS: Final[dict[str, Any]] = {
    "float": _float,
    "str": lambda *_: refuse("it computes with text"),
    "any": lambda machine, items, /: make_number(any(map(machine.is_true, iterate(items)))),
    "all": lambda machine, items, /: make_number(all(map(machine.is_true, iterate(items)))),
    "int": _int,
    "bool": lambda machine, value, /: make_number(machine.is_true(require_number(value))),
    "abs": _absolute,
    "min": partial(_choose, "<"),
    "max": partial(_choose, ">"),
    "round": _round,
    "pow": partial(_operator, "**"),
    "sum": _sum,
    "len": lambda _, value, /: make_number(len(_take_array(value))),
    "range": _range,
    "isinstance": _is_instance,
    "tuple": lambda _, items=(), /: tuple(iterate(items)),
    "list": lambda _, items=(), /: OwnList(iterate(items)),
    "reversed": lambda _, items, /: iter(_take_array(items)[::-1]),
    "zip": lambda _, *rows: zip(*(iterate(row) for row in rows)),
    "enumerate": _enumerate,
}
_NUMBERS: Final = {name: make_number(getattr(math, name)) for name in ("pi", "e", "inf")}
_OPERATORS: Final = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}
_OF_NUMPY: Final = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/"}
_TYPES: Final = {"float64": "f8", "double": "f8", "float32": "f4", "single": "f4", "int64": "i8", "int32": "i4"}


_NUMPY_FUNCTIONS: Final[dict[str, Any]] = {
    **{name: partial(_call_function, known, "f8") for name, known in _NUMPY_NAMES.items()},
    **{name: partial(_operator_of_numpy, symbol) for name, symbol in _OF_NUMPY.items()},
    **{name: partial(_call_type, kind) for name, kind in _TYPES.items()},
    **dict.fromkeys(("abs", "absolute"), lambda machine, value, /: _absolute(machine, *_as_floats(value))),
    "negative": lambda _, value, /: arithmetic.negate(*_as_floats(value)),
    "square": lambda machine, value, /: machine.combine("*", *_as_floats(value, value)),
    **dict.fromkeys(("maximum", "fmax"), partial(_choose_float, ">")),
    **dict.fromkeys(("minimum", "fmin"), partial(_choose_float, "<")),
    **dict.fromkeys(("max", "amax"), partial(_choose_item, ">")),
    **dict.fromkeys(("min", "amin"), partial(_choose_item, "<")),
    "clip": _clip,
    "where": _where,
    "interp": _interpolate,
    **dict.fromkeys(("round", "around"), _round_of_numpy),
}
TABLES: Final[dict[str, dict[str, Any]]] = {
    module: {name: part if isinstance(part, Number) else Library(name, part) for name, part in table.items()}
    for module, table in {
        "builtins": _BUILTINS,
        "math": {
            **{name: partial(_call_function, name, "float") for name in _FUNCTIONS.keys() - {"sign", "rint"}},
            **{name: partial(_round_to_int, getattr(math, name)) for name in ("floor", "ceil", "trunc")},
            **_NUMBERS,
            "tau": make_number(math.tau),
        },
        "numpy": {**_NUMPY_FUNCTIONS, **_NUMBERS},
        "operator": {name: partial(_operator, symbol) for name, symbol in _OPERATORS.items()},
    }.items()
}
