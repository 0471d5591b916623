"""Functions and numbers of Python, math and numpy that a schedule may use, by name.

Each function receives the machine and the arguments, and returns a value or an expression. Nothing is imported: the
names are text, and numpy's functions are computed with Python's on floats, which gives the same to the last digits.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.values.computed import operations
from sbformat.values.computed.errors import refuse
from sbformat.values.computed.expressions import Expression, find_kind
from sbformat.values.computed.objects import MOST_ITEMS, Iterator, Library, List, Package, Row, Unusable
from sbformat.values.computed.operations import ARITIES, BINARY, COMPARE, FUNCTIONS, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sbformat.values.computed.expressions import Operand
    from sbformat.values.computed.machine import Machine

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


def _require_some_items(value: Any) -> list[Any]:
    """Return the items of something from which Python takes them later, or not all of them."""
    items = require_items(value)
    if isinstance(value, Iterator):
        value.is_shared = True
    return items


def _number_function(operation: Operation, least: int = 1, most: int | None = None) -> Callable[..., Operand]:
    """Return a function that applies an operation."""
    limit = least if most is None else most

    def call(machine: Machine, *args: Any) -> Operand:
        if not least <= len(args) <= limit:
            refuse(f"it calls {operation.name} with {len(args)} arguments")
        return machine.apply(operation, *(machine.require_number(part) for part in args))

    return call


def _extremum(operation: Operation) -> Callable[..., Operand]:
    """Return ``min`` or ``max``, of arguments or of a list."""

    def call(machine: Machine, *args: Any) -> Operand:
        return _apply_to_all(machine, operation, require_items(args[0]) if len(args) == 1 else args)

    return call


def _apply_to_all(machine: Machine, operation: Operation, items: Sequence[Any]) -> Operand:
    if not items:
        refuse(f"it calls {operation.name} of nothing")
    numbers = [machine.require_number(part) for part in items]
    return numbers[0] if len(numbers) == 1 else machine.apply(operation, *numbers)


def _array_extremum(operation: Operation) -> Callable[..., Operand]:
    """Return numpy's ``min`` or ``max`` of a list: a second argument would be an axis."""
    return lambda machine, items, /: _apply_to_all(
        machine, operation, [_require_no_condition(machine, part) for part in _require_array(items)]
    )


def _require_array(value: Any) -> list[Any]:
    """Return the items of what numpy makes an array from."""
    if isinstance(value, Iterator):
        refuse("it makes an array from an iterator")
    return require_items(value)


def _float_extremum(operation: Operation) -> Callable[..., Operand]:
    """Return numpy's maximum or minimum: of two numbers, as floats."""

    def call(machine: Machine, *args: Any) -> Operand:
        if len(args) != 2:
            refuse(f"it calls numpy's {operation.name} with {len(args)} arguments")
        one, other = (_require_no_condition(machine, part) for part in args)
        return machine.apply(operation, one, other)

    return call


def _as_float(machine: Machine, value: Any) -> Operand:
    return machine.apply(operations.FLOAT, machine.require_number(value))


def _require_no_condition(machine: Machine, value: Any) -> Operand:
    """Return a number as a float, unless it is a bool, of which numpy makes another."""
    if find_kind(machine.require_number(value)) == "bool":
        refuse("it computes with conditions of numpy")
    return _as_float(machine, value)


def _clip(machine: Machine, value: Any, /, a_min: Any, a_max: Any) -> Operand:
    found = machine.require_number(value)
    if a_min is None and a_max is None:
        refuse("it clips nothing")
    if a_min is not None:
        found = machine.apply(operations.MAX, found, machine.require_number(a_min))
    return found if a_max is None else machine.apply(operations.MIN, found, machine.require_number(a_max))


def _where(machine: Machine, condition: Any, one: Any, other: Any, /) -> Operand:
    test = _truth(machine, condition)
    return _choose(machine, test, _require_no_condition(machine, one), _require_no_condition(machine, other))


def _interpolate(machine: Machine, value: Any, points: Any, values: Any, /) -> Operand:
    """``numpy.interp``: lines between points, and constants outside of them."""
    x = machine.require_number(value)
    places = [_require_float(machine, part) for part in _require_array(points)]
    levels = [_require_float(machine, part) for part in _require_array(values)]
    if len(places) != len(levels) or not 1 <= len(places) <= 32:
        refuse("it interpolates between an unusual number of points")
    if any(right <= left for left, right in pairwise(places)):
        refuse("it interpolates between points that do not increase")
    found: Operand = levels[-1]
    for left, right, low, high in reversed(list(zip(places, places[1:], levels, levels[1:]))):
        slope = (high - low) / (right - left)
        line = machine.apply(
            operations.ADD, machine.apply(operations.MULTIPLY, slope, machine.apply(operations.SUBTRACT, x, left)), low
        )
        found = _choose(machine, machine.apply(COMPARE["<"], x, right), line, found)
    return _choose(machine, machine.apply(COMPARE["<"], x, places[0]), levels[0], found)


def _choose(machine: Machine, condition: Operand, one: Operand, other: Operand) -> Operand:
    if isinstance(condition, Expression):
        return machine.apply(operations.IF, condition, one, other)
    return one if condition else other


def _require_float(machine: Machine, value: Any) -> float:
    number = machine.require_number(value)
    if isinstance(number, Expression) or not math.isfinite(number) or abs(number) > 1e100:
        return refuse("it interpolates between points that are not plain numbers")
    return float(number)


def _any(machine: Machine, items: Any, /) -> bool:
    return any(machine.is_true(part) for part in _require_some_items(items))


def _all(machine: Machine, items: Any, /) -> bool:
    return all(machine.is_true(part) for part in _require_some_items(items))


def _float(machine: Machine, value: Any, /) -> Operand:
    """``float`` of a number, or of the text of one."""
    if not isinstance(value, str):
        return _as_float(machine, value)
    if len(value) > _MOST_DIGITS or not value.isascii():
        refuse("it computes with text")
    try:
        return machine.require_number(float(value))
    except ValueError:
        return refuse("it computes with text")


_MOST_DIGITS: Final = 40


def _mean(machine: Machine, items: Any, /) -> Operand:
    found = [_as_float(machine, part) for part in _require_array(items)]
    if not found:
        refuse("it calls mean of nothing")
    return machine.apply(operations.DIVIDE, _sum(machine, found), len(found))


def _is_close(machine: Machine, one: Any, other: Any, /, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Operand:
    """``math.isclose`` of finite numbers."""
    left, right = machine.require_number(one), machine.require_number(other)
    absolute = [machine.apply(operations.ABS, part) for part in (left, right)]
    allowed = machine.apply(
        operations.MULTIPLY, machine.require_number(rel_tol), machine.apply(operations.MAX, *absolute)
    )
    allowed = machine.apply(operations.MAX, allowed, machine.require_number(abs_tol))
    difference = machine.apply(operations.ABS, machine.apply(operations.SUBTRACT, left, right))
    return machine.apply(COMPARE["<="], difference, allowed)


def _range(_: Machine, *args: Any) -> Any:
    if not 1 <= len(args) <= 3 or any(type(part) is not int for part in args) or args[2:] == (0,):
        refuse("it calls range with something other than integers")
    if any(abs(part) > _MOST_COUNT for part in args) or len(range(*args)) > MOST_ITEMS:
        refuse("it loops too often")
    return Row(tuple(range(*args)))


_MOST_COUNT: Final = 1 << 31


def _sum(machine: Machine, items: Any, /, start: Any = 0) -> Operand:
    total = machine.require_number(start)
    for part in require_items(items):
        total = machine.apply(operations.ADD, total, machine.require_number(part))
    return total


def _array_sum(machine: Machine, items: Any, /) -> Operand:
    return _sum(machine, tuple(_as_float(machine, part) for part in _require_array(items)), 0.0)


def _length(_: Machine, value: Any, /) -> int:
    if isinstance(value, Iterator):
        refuse("it asks for the length of an iterator")
    return len(require_items(value))


def _truth(machine: Machine, value: Any, /) -> Operand:
    number = machine.require_number(value)
    if not isinstance(number, Expression):
        return bool(number)
    return number if number.kind == "bool" else machine.apply(COMPARE["!="], number, 0)


def _is_instance(machine: Machine, value: Any, kinds: Any, /) -> bool:
    """``isinstance`` of a value whose type is known, and types of Python; numpy's are of several."""
    machine.asks_for_types = True
    wanted = kinds if type(kinds) is tuple else (kinds,)
    names = {kind.name for kind in wanted if isinstance(kind, Library) and _BUILTINS.get(kind.name) is kind.call}
    known = value.kind if isinstance(value, Expression) else _TYPES.get(type(value), "number")
    if len(names) != len(wanted) or not names <= set(_TYPES.values()) or known == "number":
        refuse("it asks for the type of a value")
    return known in names or (known == "bool" and "int" in names)


_TYPES: Final = {int: "int", float: "float", bool: "bool", tuple: "tuple", List: "list"}


def _round(machine: Machine, value: Any, /, ndigits: Any = None) -> Operand:
    args = (value,) if ndigits is None else (value, ndigits)
    machine.asks_for_types |= len(args) > 1  # numpy rounds to digits in another way
    return _number_function(operations.ROUND, 1, 2)(machine, *args)


def _numpy_round(machine: Machine, value: Any, /, decimals: Any = 0) -> Operand:
    """``numpy.round``, which multiplies by a power of 10, rounds, and divides."""
    if type(decimals) is not int or not 0 <= decimals <= _MOST_DECIMALS:
        refuse("it rounds to an unusual number of digits")
    found = _as_float(machine, value)
    if not decimals:
        return machine.apply(FUNCTIONS["rint"], found)
    scale = 10.0**decimals
    rounded = machine.apply(FUNCTIONS["rint"], machine.apply(operations.MULTIPLY, found, scale))
    return machine.apply(operations.DIVIDE, rounded, scale)


_MOST_DECIMALS: Final = 15


_BUILTINS: Final[dict[str, Any]] = {
    "float": _float,
    "any": _any,
    "all": _all,
    "int": _number_function(operations.INT),
    "bool": _truth,
    "abs": _number_function(operations.ABS),
    "min": _extremum(operations.MIN),
    "max": _extremum(operations.MAX),
    "round": _round,
    "pow": _number_function(operations.POW, 2),
    "sum": _sum,
    "len": _length,
    "range": _range,
    "isinstance": _is_instance,
    "tuple": lambda _, items=(), /: tuple(require_items(items)),
    "list": lambda _, items=(), /: List(require_items(items)),
    "reversed": lambda _, items, /: Iterator(_require_array(items)[::-1]),
    "zip": lambda _, *rows: Iterator(list(zip(*(_require_some_items(row) for row in rows)))),
    "enumerate": lambda _, items, /: Iterator(list(enumerate(_require_some_items(items)))),
}

_NUMBERS: Final = {"pi": math.pi, "e": math.e, "inf": math.inf}
_FUNCTIONS: Final = {
    name: _number_function(operation, *ARITIES.get(name, (1, 1))) for name, operation in FUNCTIONS.items()
}
_MATH_NAMES: Final = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log2", "log10",
    "log1p", "sqrt", "degrees", "radians", "erf", "fabs", "fmod", "hypot", "atan2", "copysign", "floor", "ceil",
    "trunc",
)  # fmt: skip
_NUMPY_NAMES: Final = {
    **{
        name: name
        for name in (
            "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "expm1", "log2", "log10", "log1p", "sqrt", "degrees",
            "radians", "fabs", "fmod", "hypot", "copysign", "sign", "rint",
        )
    },
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "deg2rad": "radians",
    **{name: f"numpy {name}" for name in ("floor", "ceil", "trunc")},
}  # fmt: skip


def _float_power(machine: Machine, base: Any, exponent: Any, /) -> Operand:
    return machine.apply(operations.POW, _as_float(machine, base), _as_float(machine, exponent))


def _array_power(machine: Machine, base: Any, exponent: Any, /) -> Operand:
    """``numpy.power``, which fails for integers with a negative exponent."""
    if find_kind(machine.require_number(base)) != "float" and find_kind(machine.require_number(exponent)) != "float":
        refuse("it computes with integers of numpy")
    return _float_power(machine, base, exponent)


_MATH: Final[dict[str, Any]] = {
    **{name: _FUNCTIONS[name] for name in _MATH_NAMES},
    "pow": _float_power,
    "isclose": _is_close,
}
_NUMPY_FUNCTIONS: Final[dict[str, Any]] = {
    **{name: _FUNCTIONS[known] for name, known in _NUMPY_NAMES.items()},
    "log": _number_function(FUNCTIONS["log"]),
    "float64": lambda machine, value, /: _as_float(machine, value),
    "double": lambda machine, value, /: _as_float(machine, value),
    "abs": _number_function(operations.ABS),
    "absolute": _number_function(operations.ABS),
    "power": _array_power,
    "float_power": _float_power,
    "square": lambda machine, value, /: machine.apply(operations.MULTIPLY, *2 * (machine.require_number(value),)),
    "add": _number_function(BINARY["+"], 2),
    "subtract": _number_function(BINARY["-"], 2),
    "multiply": _number_function(BINARY["*"], 2),
    "divide": _number_function(BINARY["/"], 2),
    "true_divide": _number_function(BINARY["/"], 2),
    "negative": _number_function(operations.NEGATE),
    "max": _array_extremum(operations.MAX),
    "amax": _array_extremum(operations.MAX),
    "min": _array_extremum(operations.MIN),
    "amin": _array_extremum(operations.MIN),
    "sum": _array_sum,
    "mean": _mean,
    "minimum": _float_extremum(operations.MIN),
    "maximum": _float_extremum(operations.MAX),
    "fmin": _float_extremum(operations.MIN),
    "fmax": _float_extremum(operations.MAX),
    "clip": _clip,
    "where": _where,
    "interp": _interpolate,
    "round": _numpy_round,
    "around": _numpy_round,
}
_OPERATORS: Final = {
    "add": BINARY["+"],
    "sub": BINARY["-"],
    "mul": BINARY["*"],
    "truediv": BINARY["/"],
    "pow": BINARY["**"],
}


def _wrap(functions: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    return {name: Library(name, call) for name, call in functions.items()}


def _of_numpy(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose result is a number of numpy."""

    def noted(machine: Machine, *args: Any, **keywords: Any) -> Any:
        machine.uses_numpy = True
        return call(machine, *args, **keywords)

    return noted


_TABLES: Final[dict[str, dict[str, Any]]] = {
    "builtins": _wrap(_BUILTINS),
    "math": {**_wrap(_MATH), **_NUMBERS, "tau": math.tau},
    "numpy": {**_wrap({name: _of_numpy(call) for name, call in _NUMPY_FUNCTIONS.items()}), **_NUMBERS},
    "operator": _wrap({name: _number_function(row, 2) for name, row in _OPERATORS.items()}),
}


def find_builtin(name: str) -> Any:
    """Return what a global name means that the file does not define."""
    found = _TABLES["builtins"].get(name)
    return found or Unusable(f"it uses {escape(name, 100)}, which the file does not contain")


def find_package(name: str) -> Any:
    """Return a module that a function imports, as far as it is known."""
    return Package(name) if name in PACKAGES else Unusable(f"it imports {escape(name, 100)}")
