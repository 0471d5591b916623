"""Functions on [0, 1] that are affine between finitely many points, in exact arithmetic (VALUES.md 13.5).

A function is stored as *cuts* 0 = c0 < c1 < ... < cn = 1 and 2n + 1 *cells*: at c0, between c0 and c1, at c1, and so on
to cn. Points are cells of their own, because a schedule may have a value of its own at progress 1. A cell contains the
offset and the slope of the line there; a condition contains (1, 0) where it is true, and (0, 0) elsewhere.

    max(p * 0.5, 0.25)      cuts 0, 1/2, 1      cells 1/4, 1/4, 1/4, p/2, p/2
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST_CUTS: Final = 100
_BITS: Final = 400
"""Of a numerator or denominator. Longer ones are rounded to binary64, with an error that comparisons allow for."""


class Line(NamedTuple):
    """A line in the remaining progress."""

    offset: Fraction
    slope: Fraction

    def at(self, progress: Fraction) -> Fraction:
        return self.offset + self.slope * progress


class Piecewise(NamedTuple):
    """A function that is affine in each cell."""

    cuts: tuple[Fraction, ...]
    cells: tuple[Line, ...]

    @property
    def is_constant_by_cell(self) -> bool:
        return all(not line.slope for line in self.cells)


ZERO: Final = Fraction(0)
ONE: Final = Fraction(1)
_ENDS: Final = (ZERO, ONE)
TRUE: Final = Line(ONE, ZERO)
FALSE: Final = Line(ZERO, ZERO)
PROGRESS: Final = Piecewise(_ENDS, (Line(ZERO, ONE),) * 3)


def make_constant(value: float) -> Piecewise:
    """Return the function with this finite value."""
    return Piecewise(_ENDS, (Line(Fraction(value), ZERO),) * 3)


def probes(cuts: tuple[Fraction, ...]) -> Iterator[Fraction]:
    """Yield one point of each cell."""
    for left, right in pairwise(cuts):
        yield left
        yield (left + right) / 2
    yield cuts[-1]


def align(*functions: Piecewise) -> tuple[tuple[Fraction, ...], list[tuple[Line, ...]]] | None:
    """Return common cuts of functions, and the cells of each; None for too many."""
    cuts = tuple(sorted({cut for function in functions for cut in function.cuts}))
    if len(cuts) > _MOST_CUTS:
        return None
    return cuts, [_refine(function, cuts) for function in functions]


def _refine(function: Piecewise, cuts: tuple[Fraction, ...]) -> tuple[Line, ...]:
    """Return the cells of a function for more cuts."""
    if cuts == function.cuts:
        return function.cells
    cells = []
    index = 0
    for point in probes(cuts):
        while index < len(function.cuts) - 1 and function.cuts[index + 1] <= point:
            index += 1
        cells.append(function.cells[2 * index + (point != function.cuts[index])])
    return tuple(cells)


def combine(make: Callable[..., Line | None], *functions: Piecewise) -> Piecewise | None:
    """Return the function whose line in each cell is made from theirs; None if one cannot be made."""
    aligned = align(*functions)
    if aligned is None:
        return None
    cuts, rows = aligned
    cells = []
    for lines in zip(*rows):
        line = make(*lines)
        if line is None:
            return None
        try:
            cells.append(Line(_shorten(line.offset), _shorten(line.slope)))
        except OverflowError:
            return None
    return Piecewise(cuts, tuple(cells))


def _shorten(value: Fraction) -> Fraction:
    if value.numerator.bit_length() <= _BITS and value.denominator.bit_length() <= _BITS:
        return value
    return Fraction(float(value))


def add(one: Line, other: Line) -> Line:
    """Return the sum of two lines."""
    return Line(one.offset + other.offset, one.slope + other.slope)


def subtract(one: Line, other: Line) -> Line:
    """Return the difference of two lines."""
    return Line(one.offset - other.offset, one.slope - other.slope)


def multiply(one: Line, other: Line) -> Line | None:
    """Return the product of two lines, one of them constant, or None."""
    if one.slope and other.slope:
        return None
    product = one.offset * other.offset
    return Line(product, one.offset * other.slope + one.slope * other.offset)


def divide(one: Line, other: Line) -> Line | None:
    """Return a line divided by a constant that is not 0, or None."""
    if other.slope or not other.offset:
        return None
    return Line(one.offset / other.offset, one.slope / other.offset)


def choose(condition: Line, one: Line, other: Line) -> Line:
    """Return one of two lines: the first where the condition is not 0."""
    return one if condition != FALSE else other


def compare(
    one: Piecewise, other: Piecewise, holds: Callable[[Fraction], bool], *, ties: bool = False
) -> Piecewise | None:
    """Return the condition that the difference of two functions has a sign.

    :param holds: whether a difference, of which only the sign matters, makes the condition true
    :param ties: whether it does not matter what the condition is where the functions are equal
    :return: None also where the functions are one line, because rounding decides
    """
    difference = combine(subtract, one, other)
    cuts = None if difference is None else _cut_at_roots(difference)
    if difference is None or cuts is None:
        return None
    lines = _refine(difference, cuts)
    if (
        not ties
        and one is not other
        and any(not any(line) and own.slope for line, own in zip(lines, _refine(one, cuts)))
    ):
        return None
    cells = (TRUE if holds(line.at(point)) else FALSE for line, point in zip(lines, probes(cuts)))
    return Piecewise(cuts, tuple(cells))


def _cut_at_roots(function: Piecewise) -> tuple[Fraction, ...] | None:
    """Return the cuts of a function and the points between them at which it is 0."""
    cuts = set(function.cuts)
    for left, right, line in zip(function.cuts, function.cuts[1:], function.cells[1::2]):
        root = -line.offset / line.slope if line.slope else left
        if left < root < right:
            cuts.add(root)
    return tuple(sorted(cuts)) if len(cuts) <= _MOST_CUTS else None


# -- sets of progress ---------------------------------------------------------------------------------


def intersect(one: Piecewise, other: Piecewise, *, inverted: bool) -> Piecewise | None:
    """Return the set of points in both sets, or in the first alone if inverted; None for too many cuts."""

    def both(left: Line, right: Line) -> Line:
        return TRUE if left != FALSE and (right != FALSE) is not inverted else FALSE

    return combine(both, one, other)


def is_empty(points: Piecewise) -> bool:
    """Return whether a set has no point."""
    return all(line == FALSE for line in points.cells)


def find_roots(function: Piecewise, levels: tuple[int, ...]) -> set[Fraction]:
    """Return the points at which a function takes one of some values, other than where it is constant."""
    found: set[Fraction] = set()
    for left, right, line in zip(function.cuts, function.cuts[1:], function.cells[1::2]):
        roots = [(level - line.offset) / line.slope for level in levels] if line.slope else []
        found.update(root for root in roots if left <= root <= right)
    return found
