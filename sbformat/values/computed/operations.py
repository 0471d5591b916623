"""Pure operations on numbers: what each computes, how it is written, and what it does to affine functions.

The machine applies them to numbers of the file immediately, and records them as expressions where the remaining
progress is an operand. Integers, powers and floats are bounded: what CPython would compute for hours is refused.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from sbformat.values.computed import piecewise
from sbformat.values.computed.errors import refuse
from sbformat.values.computed.piecewise import Line, Piecewise

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

Number: TypeAlias = "int | float"

_BITS: Final = 256
"""Of an integer."""


class Operation(NamedTuple):
    """A row of the table."""

    name: str
    """A sign between operands, or the name of a function of them."""
    compute: Callable[..., Number]
    precedence: int
    """As in Python's grammar; 0 for a function."""
    affine: Callable[..., Piecewise | None] | None = None
    """What it makes of functions that are affine by pieces; None when it makes no line of lines."""
    returns: str = "like"
    """``float``, ``bool``, ``int``, or ``like`` for a float if all operands are floats."""

    @property
    def can_fail(self) -> bool:
        """Whether it raises an error for some numbers."""
        return self.name not in _SAFE


_SAFE: Final = frozenset(
    {"+", "-", "*", "-x", "not", "if", "float", "min", "max", "abs", "<", "<=", "==", "!=", ">", ">="}
)


def apply_operation(operation: Operation, values: tuple[Number, ...]) -> Number:
    """Return the result for numbers.

    :raises NotUnderstoodError: when Python raises an error, or the result is not a finite number of bounded size
    """
    try:
        result = operation.compute(*values)
    except (ArithmeticError, ValueError, TypeError) as error:
        refuse(f"it fails: {error}")
    if isinstance(result, int) and result.bit_length() <= _BITS:
        return result
    if isinstance(result, float) and (
        math.isfinite(result) or (operation.name in _OF_INFINITIES and not math.isnan(result))
    ):
        return result
    return refuse("it computes something other than a finite number")


_OF_INFINITIES: Final = frozenset({"min", "max", "float", "-x"})
"""Operations that pass an infinite operand on: ``min(p, math.inf)``."""


def _power(base: Number, exponent: Number) -> Number:
    """Return a power, unless it is an integer that is too long."""
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > 2 * _BITS:
        message = "a power is too large"
        raise ValueError(message)
    return base**exponent


def _pick(index: Number, values: tuple[Number, ...]) -> Number:
    if not isinstance(index, int) or not -len(values) <= index < len(values):
        message = "a list lacks an item"
        raise ValueError(message)
    return values[index]


def _round(value: Number, digits: Number | None = None) -> Number:
    if digits is not None and not (isinstance(digits, int) and abs(digits) <= _BITS):
        message = "rounded to an unusual number of digits"
        raise ValueError(message)
    return round(value) if digits is None else round(value, digits)


def _integers(compute: Callable[[int, int], int]) -> Callable[[Number, Number], Number]:
    def checked(one: Number, other: Number) -> Number:
        if not isinstance(one, int) or not isinstance(other, int):
            message = "operands of & | ^ are not integers"
            raise TypeError(message)
        return compute(one, other)

    return checked


def _float(compute: Callable[..., Number]) -> Callable[..., Number]:
    """Return a function with a float as its result, as numpy's have."""
    return lambda *values: float(compute(*values))


def _sign(value: float) -> Number:
    return math.copysign(1.0, value) if value else 0.0


# -- affine functions ---------------------------------------------------------------------------------


def _by_cell(make: Callable[..., Line | None]) -> Callable[..., Piecewise | None]:
    return lambda *functions: piecewise.combine(make, *functions)


def _ordering(holds: Callable[[Fraction], bool]) -> Callable[[Piecewise, Piecewise], Piecewise | None]:
    return lambda one, other: piecewise.compare(one, other, holds)


def _extremum(holds: Callable[[Fraction], bool]) -> Callable[..., Piecewise | None]:
    """Return the rule of min or max: of two functions, the one for which the difference has a sign."""

    def rule(*functions: Piecewise) -> Piecewise | None:
        found: Piecewise | None = functions[0]
        for function in functions[1:]:
            if found is None:
                return None
            condition = piecewise.compare(found, function, holds, ties=True)
            found = None if condition is None else piecewise.combine(piecewise.choose, condition, found, function)
        return found

    return rule


def _absolute(function: Piecewise) -> Piecewise | None:
    return MAX.affine(function, NEGATE.affine(function)) if MAX.affine and NEGATE.affine else None


def _keep(function: Piecewise) -> Piecewise:
    return function


_NEGATIVE: Final = Line(piecewise.ZERO - 1, piecewise.ZERO)

ADD: Final = Operation("+", operator.add, 9, _by_cell(piecewise.add))
SUBTRACT: Final = Operation("-", operator.sub, 9, _by_cell(piecewise.subtract))
MULTIPLY: Final = Operation("*", operator.mul, 10, _by_cell(piecewise.multiply))
DIVIDE: Final = Operation("/", operator.truediv, 10, _by_cell(piecewise.divide), "float")
NEGATE: Final = Operation("-x", operator.neg, 11, _by_cell(lambda line: piecewise.multiply(line, _NEGATIVE)))
NOT: Final = Operation(
    "not", operator.not_, 3, _by_cell(lambda line: piecewise.choose(line, piecewise.FALSE, piecewise.TRUE)), "bool"
)


def _power_of_line(base: Piecewise, exponent: Piecewise) -> Piecewise | None:
    """Return a power whose exponent is 0 or 1."""
    if exponent.cells == piecewise.make_constant(1).cells:
        return base
    return piecewise.make_constant(1) if exponent.cells == piecewise.make_constant(0).cells else None


IF: Final = Operation("if", lambda test, one, other: one if test else other, 1, _by_cell(piecewise.choose))
"""Its operands are the condition, the value where it is true, and the value elsewhere; only one value is evaluated."""
FLOAT: Final = Operation("float", float, 0, _keep, "float")
MIN: Final = Operation("min", lambda *values: min(values), 0, _extremum(lambda difference: difference <= 0))
MAX: Final = Operation("max", lambda *values: max(values), 0, _extremum(lambda difference: difference >= 0))
ABS: Final = Operation("abs", abs, 0, _absolute)

BINARY: Final = {
    "+": ADD,
    "-": SUBTRACT,
    "*": MULTIPLY,
    "/": DIVIDE,
    "//": Operation("//", operator.floordiv, 10),
    "%": Operation("%", operator.mod, 10),
    "**": Operation("**", _power, 12, _power_of_line),
    "&": Operation("&", _integers(operator.and_), 7, returns="int"),
    "|": Operation("|", _integers(operator.or_), 5, returns="int"),
    "^": Operation("^", _integers(operator.xor), 6, returns="int"),
}

COMPARE: Final = {
    "<": Operation("<", operator.lt, 4, _ordering(lambda difference: difference < 0), "bool"),
    "<=": Operation("<=", operator.le, 4, _ordering(lambda difference: difference <= 0), "bool"),
    "==": Operation("==", operator.eq, 4, _ordering(lambda difference: difference == 0), "bool"),
    "!=": Operation("!=", operator.ne, 4, _ordering(lambda difference: difference != 0), "bool"),
    ">": Operation(">", operator.gt, 4, _ordering(lambda difference: difference > 0), "bool"),
    ">=": Operation(">=", operator.ge, 4, _ordering(lambda difference: difference >= 0), "bool"),
}

ITEM: Final = Operation("item", lambda index, *values: _pick(index, values), 0, returns="number")
"""Its operands are a position and the items of a list."""
INT: Final = Operation("int", int, 0, returns="int")
ROUND: Final = Operation("round", _round, 0)
POW: Final = BINARY["**"]

FUNCTIONS: Final = {
    **{
        name: Operation(name, getattr(math, name), 0, returns="float")
        for name in (
            "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log2", "log10",
            "log1p", "sqrt", "degrees", "radians", "erf", "fabs", "fmod", "hypot", "atan2", "copysign",
        )
    },
    **{name: Operation(name, getattr(math, name), 0, returns="int") for name in ("floor", "ceil", "trunc")},
    "sign": Operation("sign", _sign, 0, returns="float"),
    "rint": Operation("round", _float(round), 0, returns="float"),
    **{
        f"numpy {name}": Operation(name, _float(getattr(math, name)), 0, returns="float")
        for name in ("floor", "ceil", "trunc")
    },
}  # fmt: skip
"""Functions of math and numpy, most with one operand."""

ARITIES: Final = {"log": (1, 2), "fmod": (2, 2), "hypot": (2, 2), "atan2": (2, 2), "copysign": (2, 2)}
"""The least and greatest number of operands, where it is not one."""
