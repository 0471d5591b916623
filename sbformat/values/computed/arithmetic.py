"""Numbers of a schedule, and what CPython and numpy compute with them (VALUES.md 13.5).

A number has its exact value and type, and three facts about how the value depends on the remaining progress p: its
slope in p, or None if it is not known to be a line as long as every decision stays the same; a bound of what rounding
has added to that line; and whether the value is the same on every machine, as the results of IEEE 754 are and those of
``exp`` or ``pow`` are not.

What numpy 1 and numpy 2 compute differently, such as float32 with a number of Python, is refused.

Whatever is refused here raises a reason, which :func:`sbformat.values.computed.examine` returns.
"""

from __future__ import annotations

import math
import operator
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Callable


class NotUnderstoodError(Exception):
    """A function is not a pure function of numbers, or not one that is known here; never leaves the package."""


class OtherReleaseError(NotUnderstoodError):
    """Bytecode is not what a release of CPython compiles."""


def refuse(reason: str) -> NoReturn:
    """Raise a reason.

    :param reason: the end of a sentence about the function: "it calls print"; text of the file in it is escaped
    """
    raise NotUnderstoodError(reason)


Plain: TypeAlias = int | float

FAILS: Final = "it has no finite value"
"""The reason where Python raises an error, or a number is not finite; followed by the progress."""
EPSILON: Final = 2.0**-52
_TINY: Final = 2.0**-1074
"""What rounding adds to numbers next to 0."""
_LOST: Final = 4
"""Units in the last place by which functions of a C library or of numpy may differ between machines."""
_BITS: Final = 256
"""The largest integer of Python that is computed, in bits."""
_EXACT: Final = 1 << 53

PYTHON: Final = ("bool", "int", "float")
ANY: Final = "any"
"""A float of Python or a float64, which the file does not tell."""
TRUTH: Final = "truth"
"""The result of a comparison with such a number: a bool of Python or of numpy."""
_TRUTH_USED: Final = "it computes with the result of a comparison that may be numpy's"
_WIDTHS: Final = (1, 2, 4, 8)
INTEGERS: Final = {f"{sign}{width}": (sign, 8 * width) for sign in "iu" for width in _WIDTHS}
"""numpy's integers: whether they have a sign, and their bits."""
_PRECISION: Final = {"f2": 2.0**-11, "f4": 2.0**-24}
_FORMATS: Final = {"f2": "<e", "f4": "<f"}
NAMES: Final = {
    "bool_": "b1", "bool": "b1", "float16": "f2", "float32": "f4", "single": "f4", "float64": "f8", "double": "f8",
    **{f"{name}{8 * width}": f"{name[0]}{width}" for name in ("int", "uint") for width in _WIDTHS},
}  # fmt: skip
"""The types of numpy by their names in ``numpy``, as dtypes have them."""


class Number:
    """A number, and how it depends on the remaining progress."""

    __slots__ = ("is_exact", "kind", "noise", "slope", "value")

    def __init__(
        self, value: Plain, kind: str, slope: float | None = 0.0, noise: float = 0.0, *, is_exact: bool = True
    ) -> None:
        self.value = value
        self.kind = kind
        """``int``, ``float`` or ``bool`` of Python, or the code of a numpy dtype: ``i8``, ``f4``, ``b1``."""
        self.slope = slope
        self.noise = noise
        """Infinite for one of several numbers, of which rounding errors choose."""
        self.is_exact = is_exact


def make_number(value: Plain) -> Number:
    """Return a number of Python that does not depend on the progress."""
    return Number(value, type(value).__name__)


def check_value(value: object, kind: str) -> Plain:
    """Return a result that is a finite number of bounded size, as its type holds it."""
    if type(value) is float:
        if math.isnan(value):
            refuse(FAILS)
        return value  # an infinite one is no error of Python
    if not isinstance(value, int):
        return refuse(FAILS)
    if kind in INTEGERS:
        sign, bits = INTEGERS[kind]
        value &= (1 << bits) - 1
        return value - (1 << bits) if sign == "i" and value >> (bits - 1) else value
    if value.bit_length() > _BITS:
        refuse("it computes with an integer that is too long")
    return value


def convert(number: Number, kind: str) -> Number:
    """Return a number in another type, as Python and numpy convert it."""
    if number.kind == kind:
        return number
    value, slope, noise = number.value, number.slope, number.noise
    if kind in ("float", "f8", ANY):
        found: Plain = _to_float(value)
    elif kind in _FORMATS:
        if number.kind in ("i8", "u8") and abs(value) > _EXACT:
            refuse("it computes with an integer that is too long for its dtype")  # float64 would round it first
        try:
            found = struct.unpack(_FORMATS[kind], struct.pack(_FORMATS[kind], _to_float(value)))[0]
        except OverflowError:
            refuse(FAILS)
        noise += 0.0 if is_constant(number) else abs(found) * _PRECISION[kind]
        slope = _stepped(slope)
    elif kind in ("bool", "b1"):
        return Number(bool(value), kind, _stepped(slope))
    else:
        if not math.isfinite(value):
            refuse(FAILS)
        found = math.trunc(value)
        slope = slope if type(value) is int else _stepped(slope)
        if kind in INTEGERS and check_value(found, kind) != found:
            refuse("it computes with an integer that is too long for its dtype")
    return Number(check_value(found, kind), kind, slope, noise, is_exact=number.is_exact)


def _stepped(slope: float | None) -> float | None:
    """Return the slope of a number that is rounded in steps: it is known only if the number does not change."""
    return 0.0 if slope == 0 else None


def is_constant(number: Number) -> bool:
    """Return whether a number is the same for all progress, to the last digit."""
    return number.slope == 0 and number.noise == 0


def _to_float(value: Plain) -> float:
    try:
        return float(value)
    except OverflowError:
        return refuse("it computes with an integer that is too long")


# -- types --------------------------------------------------------------------------------------------


def promote(one: str, other: str) -> str:
    """Return the type in which numpy combines two types, of which one is numpy's; refuse where releases differ."""
    if one == other:
        return one if one != TRUTH else refuse(_TRUTH_USED)
    for kind, partner in ((one, other), (other, one)):
        if kind == "bool":
            return partner
        if kind in ("int", "float"):
            return _promote_python(kind, partner)
    return _promote_numpy(one, other)


def _promote_python(kind: str, partner: str) -> str:
    if partner == ANY:
        return ANY
    if partner == "f8" or (kind == "float" and (partner in INTEGERS or partner == "b1")):
        return "f8"
    if kind == "int" and partner in ("i8", "b1"):
        return "i8"
    name = next(name for name, code in NAMES.items() if code == partner and name != "bool_")
    return refuse(f"it computes with {name} and Python's numbers, as numpy 1 and numpy 2 do differently")


def _promote_numpy(one: str, other: str) -> str:
    if TRUTH in (one, other):
        refuse(_TRUTH_USED)
    if ANY in (one, other):
        return ANY if "f8" in (one, other) else refuse("it computes with a number that may be numpy's")
    if "b1" in (one, other):
        return other if one == "b1" else one
    floats = [kind for kind in (one, other) if kind[0] == "f"]
    widths = {kind: int(kind[1:]) for kind in (one, other)}
    if floats:  # an integer needs a float of twice its width, and of 8 bytes from int32 on
        need = max(widths[kind] if kind[0] == "f" else min(2 * widths[kind], 8) for kind in (one, other))
        return f"f{need}"
    if one[0] == other[0]:
        return max(one, other, key=widths.__getitem__)
    signed, unsigned = sorted((one, other))
    need = max(widths[signed], 2 * widths[unsigned])
    return f"i{need}" if need <= 8 else "f8"


def is_numpy(kind: str) -> bool:
    """Return whether a type is numpy's."""
    return kind not in PYTHON


# -- operators ----------------------------------------------------------------------------------------


def _power(one: Plain, other: Plain) -> Plain:
    if type(one) is int and type(other) is int and one.bit_length() * abs(other) > 2 * _BITS:
        refuse("it computes with an integer that is too long")
    found: Plain = one**other
    return found


OPERATORS: Final[dict[str, Callable[[Plain, Plain], Plain]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": _power, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip


def combine(symbol: str, one: Number, other: Number) -> Number:
    """Return the result of an operator, with Python's types and numpy's."""
    kind = ""
    if is_numpy(one.kind) or is_numpy(other.kind):
        kind = promote(one.kind, other.kind)
        one, other, kind = _prepare(symbol, convert(one, kind), convert(other, kind))
    elif symbol in "&|^" and "float" in (one.kind, other.kind):
        refuse(FAILS)
    if kind and other.value == 0 and symbol in ("/", "//", "%"):
        value = _divide_by_zero(symbol, one.value, other.value, kind)
    else:
        try:
            value = OPERATORS[symbol](one.value, other.value)
        except (ArithmeticError, ValueError, TypeError):
            refuse(FAILS)
    if not kind:
        kind = type(value).__name__
    elif kind in _FORMATS:
        return convert(_make(symbol, one, other, value, "f8"), kind)
    elif kind == "b1":
        value = bool(value)
    return _make(symbol, one, other, check_value(value, kind), kind)


def _divide_by_zero(symbol: str, value: Plain, zero: Plain, kind: str) -> Plain:
    """Return what numpy computes, without an error."""
    if kind in INTEGERS:
        return 0
    if symbol != "/" or not value:
        refuse(FAILS)
    return math.copysign(math.inf, value) * math.copysign(1.0, zero)


def _prepare(symbol: str, one: Number, other: Number) -> tuple[Number, Number, str]:
    """Return the operands as numpy uses them, and the type of its result."""
    kind = one.kind
    if kind == "b1":
        if symbol not in "+*&|^/":
            refuse("it computes with conditions of numpy")
        return (convert(one, "f8"), convert(other, "f8"), "f8") if symbol == "/" else (one, other, "b1")
    if symbol in "&|^":
        refuse("it computes with the bits of integers of numpy")
    if symbol == "/" and kind in INTEGERS:
        return convert(one, "f8"), convert(other, "f8"), "f8"
    if symbol == "**" and kind in INTEGERS and other.value < 0:
        refuse(FAILS)
    if symbol in ("//", "%", "**") and kind in _FORMATS:
        refuse(f"it computes {symbol} of float{8 * int(kind[1])}")
    if symbol in ("/", "//", "%") and kind == ANY and other.value == 0:
        refuse("it divides a number that may be numpy's by 0")
    return one, other, kind


def _make(symbol: str, one: Number, other: Number, value: Plain, kind: str) -> Number:
    """Return the result, with its slope and the bound of its rounding errors."""
    is_exact = one.is_exact and other.is_exact
    is_power = symbol == "**" and type(value) is float and not (other.slope == 0 and other.value in (0, 1))
    if is_constant(one) and is_constant(other) and not is_power:
        return Number(value, kind)
    noise = EPSILON * abs(value) + _TINY if type(value) is float else 0.0
    if symbol in "+-":
        noise += one.noise + other.noise
    elif symbol == "*":
        noise += abs(one.value) * other.noise + (abs(other.value) + other.noise) * one.noise
    elif symbol == "/":
        noise += _divide_noise(one, other, value)
    elif is_power:
        is_exact = False  # computed by the C library
        noise = _measure_noise(operator.pow, (one, other), value) + _LOST * EPSILON * abs(value)
    elif not is_exact and _measure_noise(OPERATORS[symbol], (one, other), value) > abs(other.value) / 2:
        noise = math.inf
    slope = None if kind in INTEGERS else _find_slope(symbol, one, other)
    slope = 0.0 if one.slope == other.slope == 0 else _check_slope(slope)
    return Number(value, kind, slope, noise, is_exact=is_exact)


def _check_slope(slope: float | None) -> float | None:
    """Return a slope, unless it is infinite."""
    return slope if slope is not None and math.isfinite(slope) else None


def _find_slope(symbol: str, one: Number, other: Number) -> float | None:
    """Return the slope of a result; None if it is not a line, as far as is known here."""
    left, right = one.slope, other.slope
    if left is None or right is None:
        return None
    if symbol in "+-":
        return left + right if symbol == "+" else left - right
    if right == 0:
        if symbol == "/":
            return left / other.value if other.value else None
        return left * other.value if symbol == "*" or (symbol == "**" and other.value in (0, 1)) else None
    return right * one.value if symbol == "*" and left == 0 else None


def _divide_noise(one: Number, other: Number, value: float) -> float:
    distance = abs(other.value) - other.noise
    return (one.noise + abs(value) * other.noise) / distance if distance > 0 else math.inf


def _measure_noise(function: Callable[..., Plain], operands: tuple[Number, ...], value: float) -> float:
    """Return how much a result changes where its operands change by their rounding errors."""
    found = 0.0
    for index, operand in enumerate(operands):
        for noise in (operand.noise, -operand.noise) if operand.noise else ():
            values = [part.value for part in operands]
            values[index] = operand.value + noise
            try:
                found += abs(function(*values) - value)
            except (ArithmeticError, ValueError, TypeError):
                found = math.inf  # it may fail on another machine
    return found


def negate(number: Number) -> Number:
    """Return ``-x``."""
    if number.kind in ("b1", TRUTH):
        refuse("it computes with conditions of numpy")
    slope = number.slope if number.slope is None else -number.slope
    kind = "int" if number.kind == "bool" else number.kind
    return Number(check_value(-number.value, kind), kind, slope, number.noise, is_exact=number.is_exact)


def apply_function(function: Callable[..., Plain], operands: tuple[Number, ...], kind: str, *, how: str = "") -> Number:
    """Return the result of a function of numbers that is computed in float64.

    :param kind: of the result
    :param how: ``exact`` if every machine computes the same result, ``steps`` if it also rounds to integers
    """
    try:
        value = check_value(function(*(part.value for part in operands)), kind)
    except (ArithmeticError, ValueError, TypeError):
        refuse(FAILS)
    if how and all(map(is_constant, operands)):
        return Number(value, kind)
    is_exact = bool(how) and all(part.is_exact for part in operands)
    noise = 0.0 if how == "steps" and is_exact else _measure_noise(function, operands, value)
    if how == "steps" and noise:
        noise = math.inf
    noise += (EPSILON if how else _LOST * EPSILON) * abs(value) + _TINY
    slope = None if any(part.slope != 0 for part in operands) else 0.0
    return Number(value, kind, slope, noise, is_exact=is_exact)


# -- comparisons --------------------------------------------------------------------------------------

COMPARE: Final[dict[str, Callable[[Plain, Plain], bool]]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def align(one: Number, other: Number) -> tuple[Number, Number]:
    """Return two numbers as they are compared."""
    kinds = (one.kind, other.kind)
    if not any(map(is_numpy, kinds)):
        return one, other
    if all(kind in INTEGERS or kind in ("int", "bool", "b1", TRUTH) for kind in kinds):
        if TRUTH in kinds:
            refuse(_TRUTH_USED)
        if "u8" in kinds and max(abs(one.value), abs(other.value)) > _EXACT:
            refuse("it compares integers of numpy that are long")
        return one, other
    kind = promote(*kinds)
    return convert(one, kind), convert(other, kind)


class Decision(Record):
    """A comparison: of the difference of two numbers with 0."""

    left: Number
    right: Number
    value: float
    slope: float | None
    noise: float
    is_exact: bool

    @property
    def is_close(self) -> bool:
        """Whether rounding errors may decide it."""
        return not abs(self.value) > self.noise  # which can be NaN

    @property
    def margin(self) -> float:
        """How far from the root rounding may move it."""
        return self.noise / abs(self.slope) if self.slope else math.inf

    def find_root(self, progress: float) -> Fraction:
        """Return the progress for which the numbers are equal, if they have these slopes from a progress on."""
        difference = Fraction(self.left.value) - Fraction(self.right.value)
        return Fraction(progress) - difference / Fraction(self.slope or 1)


def make_decision(one: Number, other: Number) -> Decision:
    """Return the decision between two numbers."""
    try:
        value = float(one.value - other.value)
    except OverflowError:
        refuse("it computes with an integer that is too long")
    slope = None if one.slope is None or other.slope is None else _check_slope(one.slope - other.slope)
    return Decision(one, other, value, slope, one.noise + other.noise, one.is_exact and other.is_exact)
