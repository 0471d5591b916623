"""Numbers of a schedule, and what CPython and numpy compute with them (VALUES.md 13.5).

A number has its exact value and type, and three facts about how the value depends on the remaining progress p: its
slope in p, or None if it is not known to be a line as long as every decision stays the same; a bound of its errors; and
whether the value is the same on every machine, as the results of IEEE 754 are and those of ``exp`` or ``pow`` are not.
The errors are what rounding has added to the line; of a number that differs between machines, also by how much.

What numpy 1 and numpy 2 compute differently, such as float32 with a number of Python, is refused. Whatever is refused
raises a reason, which :func:`sbformat.values.computed.examine` returns.
"""

from __future__ import annotations

import math
import operator
import struct
from fractions import Fraction
from itertools import product
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
_LONG: Final = "it computes with an integer that is too long"
EPSILON: Final = 2.0**-52
_TINY: Final = 2.0**-1074  # what rounding adds to numbers next to 0
_ERRORS: Final = {"exact": 2 * EPSILON, "steps": 2 * EPSILON, "library": 8 * EPSILON, "single": 2.0**-23}
"""What a function adds to the error of its result, of which half covers how the errors of its operands are measured.

``exact`` is rounded as IEEE 754 requires, on every machine, as ``steps`` are, which jump for some operands. ``library``
is of a C library or of numpy, whose last digits differ between machines. ``single`` is rounded to float32.
"""
_BITS: Final = 256  # the largest integer of Python that is computed, in bits

PYTHON: Final = frozenset({"bool", "int", "float"})
ARRAY: Final = "array"
"""A float64 in an array without dimensions, which can be changed."""
ANY: Final = "any"
"""A float of Python or a float64, which the file does not contain."""
FLOATS: Final = frozenset({"float", "f8", ARRAY, ANY})
_SHORT: Final = "it computes with short numbers of numpy, as numpy 1 and numpy 2 do differently"
_SHORT_FLOATS: Final = frozenset({"f2", "f4"})


class Number(Record):
    """A number, and how it depends on the remaining progress."""

    value: Plain
    kind: str
    """``int``, ``float`` or ``bool`` of Python; ARRAY or ANY; or the code of a numpy dtype: ``i8``, ``f4``.

    ``b1`` may also be a bool of Python: as for ANY, what that computes in another way is refused.
    """
    slope: float | None = 0.0
    noise: float = 0.0
    """The bound of its errors. Infinite for one of several numbers, of which rounding errors choose."""
    is_exact: bool = True


def make_number(value: Plain) -> Number:
    """Return a number of Python that does not depend on the progress."""
    return Number(value, type(value).__name__)


ZERO: Final = make_number(0)


def apply(
    function: Callable[..., Plain],
    operands: tuple[Number, ...],
    kind: str,
    how: str = "exact",
    *,
    slope: float | None = None,
) -> Number:
    """Return the result of a function of numbers, with what is known of it.

    :param kind: of the result; empty for the type that Python gives it
    :param how: a key of ``_ERRORS``
    :param slope: of the result, if that is a line
    """
    try:
        value = function(*[part.value for part in operands])
    except (ArithmeticError, ValueError, TypeError):
        refuse(FAILS)
    kind = kind or type(value).__name__
    if not isinstance(value, (int, float)) or (isinstance(value, float) and math.isnan(value)):
        refuse(FAILS)  # an infinite one is not an error of Python
    if isinstance(value, int) and (~value if value < 0 else value).bit_length() > _INTEGERS.get(kind, _BITS):
        refuse(_LONG if kind == "int" else f"{_LONG} for its dtype")
    is_exact = how != "library"
    is_flat = is_precise = True
    for part in operands:
        is_exact &= part.is_exact
        is_flat &= part.slope == 0
        is_precise &= part.noise == 0
    if is_flat:
        if is_exact and is_precise:  # the same for all progress, to the last digit
            return Number(value, kind)
        slope = 0.0
    if is_exact and slope is None:
        return Number(value, kind, None)  # not a line, and the same everywhere
    noise = 0.0 if is_precise else _measure_noise(function, operands, value)
    if noise and how == "steps":
        noise = math.inf
    if isinstance(value, float):
        noise += _ERRORS[how] * abs(value) + _TINY
    return Number(value, kind, slope if slope is not None and math.isfinite(slope) else None, noise, is_exact)


_INTEGERS: Final = {f"{sign}{width}": 8 * width - (sign == "i") for sign in "iu" for width in (1, 2, 4, 8)}
"""Bits of the integers of numpy, without the sign."""


def _measure_noise(function: Callable[..., Plain], operands: tuple[Number, ...], value: Plain) -> float:
    """Return how much a result changes where its operands change by their errors."""
    if not sum([part.noise for part in operands]) < math.inf:
        return math.inf
    ends = [(part.value - part.noise, part.value + part.noise) if part.noise else (part.value,) for part in operands]
    try:
        return max([abs(function(*corner) - value) for corner in product(*ends)])
    except (ArithmeticError, ValueError, TypeError):
        return math.inf  # it may fail on another machine


# -- types --------------------------------------------------------------------------------------------


def convert(number: Number, kind: str) -> Number:
    """Return a number as a float (``float``, ``f8``, ``f4``) or an integer, as Python and numpy convert it."""
    if number.kind == kind:
        return number
    if kind == "f4":
        if isinstance(number.value, int) and abs(number.value) > _EXACT:
            refuse(_LONG)  # float64 would round it first
        return apply(lambda x: _fit(x, kind), (number,), kind, "single")
    if kind in FLOATS:
        try:
            return number._replace(value=float(number.value), kind=kind)
        except OverflowError:
            refuse(_LONG)
    is_int = isinstance(number.value, int)
    return apply(math.trunc, (number,), kind, "exact" if is_int else "steps", slope=number.slope if is_int else None)


def _fit(value: Plain, kind: str) -> Plain:
    """Return what numpy stores of a result: a float32 is rounded, and an integer has no error if it overflows."""
    if kind in _INTEGERS:
        least = -(1 << _INTEGERS[kind]) if kind[0] == "i" else 0
        return (int(value) - least) % ((1 << _INTEGERS[kind]) - least) + least
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


def _combine_kinds(symbol: str, kinds: set[str]) -> str:
    """Return the type in which numpy computes with two types, of which one is numpy's; refuse where releases differ."""
    if symbol in "&|^":
        return "b1" if kinds <= {"bool", "b1"} else refuse("it computes with the bits of integers of numpy")
    if (len(kinds) > 1 and kinds & _SHORT_FLOATS) or "f2" in kinds:
        refuse(_SHORT)
    if kinds & FLOATS:
        return ANY if kinds <= {"bool", "int", "float", ANY, "b1"} else "f8"
    if symbol == "**" or kinds <= {"bool", "int", "b1"} or (symbol in ("//", "%") and "f4" in kinds):
        refuse("it computes with conditions or powers of numpy")
    if len(kinds) > 1 and not kinds <= {"bool", "int", "b1", "i8"}:
        refuse(_SHORT)
    (kind,) = kinds if len(kinds) == 1 else ("i8",)
    return "f8" if symbol == "/" and kind != "f4" else kind


# -- operators ----------------------------------------------------------------------------------------


def _power(one: Plain, other: Plain) -> Plain:
    if type(one) is int and type(other) is int and one.bit_length() * abs(other) > 2 * _BITS:
        refuse(_LONG)
    found: Plain = one**other
    return found


OPERATORS: Final[dict[str, Callable[[Plain, Plain], Plain]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": _power, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip


def _find_quotient(symbol: str, kind: str) -> Callable[[Plain, Plain], Plain]:
    """Return how numpy divides by 0, without an error."""
    if kind == ANY:
        refuse("it divides a number that may be numpy's by 0")
    if kind in _INTEGERS:
        return lambda *_: 0
    if symbol != "/":
        refuse(FAILS)
    return lambda one, zero: math.copysign(math.inf, one) * math.copysign(1.0, zero) if one else math.nan


def combine(symbol: str, one: Number, other: Number) -> Number:
    """Return the result of an operator, with Python's types and numpy's."""
    kinds = {one.kind, other.kind}
    kind = "" if kinds <= PYTHON else _combine_kinds(symbol, kinds)
    if kinds & _INTEGERS.keys():
        for side in (one, other):
            if side.kind == "int" and not -(2**63) <= side.value < 2**63:  # numpy 1 converts both, numpy 2 fails
                refuse(f"{_LONG} for its dtype")
    if kind in ("f8", ANY):
        one, other = convert(one, kind), convert(other, kind)
    is_root = symbol == "**" and not (other.slope == 0 and other.value in (0, 1))  # which the C library computes
    if is_root and (isinstance(one.value, float) or isinstance(other.value, float) or other.value < 0):
        how = "library"
    else:
        how = "steps" if symbol == "//" else "exact"
    function = OPERATORS[symbol]
    if kind and other.value == 0 and symbol in ("/", "//", "%"):
        function = _find_quotient(symbol, kind)
    fitted = (lambda *values: _fit(function(*values), kind)) if kind == "f4" or kind in _INTEGERS else function
    how = "single" if kind == "f4" else how
    found = apply(fitted, (one, other), kind, how, slope=_find_slope(symbol, one, other))
    if found.noise and _has_pole(symbol, one, other):
        return found._replace(noise=math.inf)
    return found


def _has_pole(symbol: str, one: Number, other: Number) -> bool:
    """Return whether a result may be anything within the errors of the operands, whatever it is at their ends."""
    if symbol == "**":
        return other.value < 0 and one.noise >= abs(one.value) / 2
    noise = max(one.noise, other.noise) if symbol == "%" else other.noise
    return symbol in ("/", "//", "%") and noise >= abs(other.value) / 2


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


def negate(number: Number) -> Number:
    """Return ``-x``."""
    if number.kind not in ("bool", "int", "float", "f8", ANY, "i8"):
        refuse("it computes with the sign of a condition or of a short number of numpy")
    kind = "" if number.kind == "bool" else number.kind
    return apply(operator.neg, (number,), kind, slope=None if number.slope is None else -number.slope)


# -- comparisons --------------------------------------------------------------------------------------

COMPARE: Final[dict[str, Callable[[Plain, Plain], bool]]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_EXACT: Final = 1 << 53


def align(one: Number, other: Number) -> tuple[Number, Number]:
    """Return two numbers as they are compared."""
    kinds = {one.kind, other.kind}
    if kinds <= PYTHON:
        return one, other
    if kinds & _SHORT_FLOATS:
        refuse(_SHORT)
    if any(isinstance(part.value, int) and abs(part.value) > _EXACT for part in (one, other)):
        refuse("it compares integers of numpy that are long")
    return (convert(one, "f8"), convert(other, "f8")) if kinds & FLOATS else (one, other)


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

    def find_root(self, progress: float) -> Fraction:
        """Return the progress for which the numbers are equal, if they have these slopes from a progress on."""
        difference = Fraction(self.left.value) - Fraction(self.right.value)
        return Fraction(progress) - difference / Fraction(self.slope or 1)


def make_decision(one: Number, other: Number) -> Decision:
    """Return the decision between two numbers."""
    try:
        value = float(one.value - other.value)
    except OverflowError:
        refuse(_LONG)
    slope = None if one.slope is None or other.slope is None else one.slope - other.slope
    if slope is not None and not math.isfinite(slope):
        slope = None
    return Decision(one, other, value, slope, one.noise + other.noise, one.is_exact and other.is_exact)
