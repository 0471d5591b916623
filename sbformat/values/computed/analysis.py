"""What a function is for all progress in [0, 1]: constant, linear, or neither (VALUES.md 13.5).

The machine runs the function for one progress. As long as every decision has a slope, the run holds up to the next
point at which a decision changes, on both sides, and its result is a line there. So a few runs cover [0, 1] with
pieces, and the function is constant or linear if these pieces are. A function that is curved, or decides by a curved
value, is neither; it is run for many values of the progress, to find out whether it fails for one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from sbformat.immutable import Record
from sbformat.known.types import ConstantSchedule, LinearSchedule, Partial
from sbformat.values.computed.arithmetic import NotUnderstoodError, Number, OtherReleaseError, refuse
from sbformat.values.computed.bytecode import PYTHON_3_5, PYTHON_3_14, list_releases
from sbformat.values.computed.library import Closure, Object, Unusable, convert
from sbformat.values.computed.machine import INEXACT, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.values.computed.bytecode import Release

_TOLERANCE: Final = 1e-9  # of the greatest value: rounding errors of a few operations are below 1e-12
_MOST_STEPS: Final = 10_000  # instructions and decisions of all runs. A schedule that is computed in a loop takes 3,000
_NOISE: Final = 1e-10  # errors of a result, of the greatest one, from which on it is not a line
_MOST_RUNS: Final = 400
_NARROW: Final = 2e-14  # the width of the gaps between pieces that rounding leaves: no training has as many steps
_LEAST: Final = 1e-15  # of the points that are tried beside 0: one step of a training is more
_ULPS: Final = 3  # floats on each side of an end of a piece that are tried
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_GRID: Final = frozenset(
    {step / 32 for step in range(33)}
    | {step / 10 for step in range(10)}
    | {step * _GOLDEN % 1 for step in range(1, 16)}
    | {2.0**-step for step in range(8, 50, 10)}
    | {1 - 2.0**-step for step in range(8, 54, 10)}
)
"""The progress that is tried for a function that is neither constant nor linear."""
_ZERO: Final = Fraction(0)
_ONE: Final = Fraction(1)


def evaluate(function: object, python: str, progress: float) -> float:
    """Return the value of a function that is understood, for one progress; NaN where Python raises an error.

    :param python: the releases of CPython that may have compiled it, as :func:`analyze` returns them
    """
    callee = convert(function)
    (release,) = (release for release in _list_releases(callee) if release.name == python)
    try:
        return float(Machine(release, is_strict=False).run(callee, progress).value)
    except NotUnderstoodError:
        return math.nan


def analyze(function: object) -> tuple[ConstantSchedule | LinearSchedule | None, str]:
    """Return what a function is: a schedule, or None if it is neither constant nor linear; and which CPython runs it.

    Every release that can have compiled the function agrees on it.
    """
    callee = convert(function)
    found: dict[str, Any] = {}
    reasons: list[str] = []
    is_certain = False
    for release in _list_releases(callee):
        try:
            found[release.name] = _Analysis(callee, release).find()
        except NotUnderstoodError as error:
            reasons.append(str(error))
            is_certain |= not (isinstance(error, OtherReleaseError) or release is PYTHON_3_5)
    if not found or is_certain:  # a release that may have compiled it does something else
        # what another release would make of the bytecode says least
        refuse(min(reasons, key=lambda reason: 2 if "known release" in reason else "uses opcode" in reason))
    (python, first), *others = found.items()
    if any(other != first for _, other in others):
        refuse("it means something else in another release of CPython")
    return first[0], python


def _list_releases(callee: Any) -> tuple[Release, ...]:
    """Return the releases that may have compiled what a call executes first; any one for a schedule of SB3."""
    if isinstance(callee, Unusable):
        refuse(callee.reason)
    callee = _unwrap(callee)
    if isinstance(callee, Object):
        if "__getattribute__" in callee.methods:
            refuse("it is an object of a class that may act when it is created, or computes its attributes")
        callee = convert(callee.methods.get("__call__"))
    if isinstance(callee, Closure):
        return list_releases(callee.code)
    if not isinstance(callee, (ConstantSchedule, LinearSchedule)):
        refuse("it is not a function whose bytecode is in the file")
    return (PYTHON_3_14,)


def _unwrap(callee: Any) -> Any:
    """Return the function of a partial or method."""
    while isinstance(callee, Partial):
        callee = convert(callee.function)
    return callee


class _Piece(Record):
    """An interval of the progress in which no decision changes, and the line that the function is there."""

    left: Fraction
    right: Fraction
    at: Fraction
    value: Fraction
    slope: Fraction

    def compute(self, progress: Fraction) -> Fraction:
        return self.value + self.slope * (progress - self.at)

    def is_flat(self, value: Fraction, allowed: float) -> bool:
        """Return whether the function has a value in the whole piece."""
        return abs(self.slope) <= allowed and abs(self.value - value) <= allowed


class _Analysis:
    """Runs a function of one release until its pieces cover [0, 1], or until it is known to have none."""

    def __init__(self, callee: Any, release: Release) -> None:
        self.callee = callee
        self.machine = Machine(release)
        self.values: dict[float, float] = {}
        self.results: list[Number] = []
        self.pieces: list[_Piece] = []
        self.ends: list[float] = []
        """Where decisions change."""
        self.is_regular = True

    def find(self) -> tuple[ConstantSchedule | LinearSchedule | None, dict[float, float]]:
        """Return what the function is, or None if it is neither, and its values where it was run."""
        todo = [1.0, 0.0, 0.5]
        while todo and self.is_regular:
            self._run_all(todo)
            todo = [float((left + right) / 2) for left, right in self._list_gaps()]
        self.is_regular &= not self._list_noisy()
        if not self.is_regular:
            self._run_all([*todo, *_GRID, *self._list_constants()])
        if any(not part.is_exact for part in self._list_noisy()):
            refuse(INEXACT)
        return self._find_schedule() if self.is_regular else None, self.values

    def _list_noisy(self) -> list[Number]:
        """Return the results whose errors are too great for a line."""
        greatest = max(map(abs, self.values.values()))
        return [part for part in self.results if not part.noise <= _NOISE * greatest]

    def _run_all(self, points: list[float]) -> None:
        """Run the function for these points, and for those next to which a decision changes."""
        todo = sorted(points)
        while todo:
            point = todo.pop()
            if point in self.values or not (point == 0 or _LEAST <= point <= 1):
                continue
            result = self.machine.run(self.callee, point)
            self.machine.total_steps += len(self.machine.decisions)
            if self.machine.total_steps > _MOST_STEPS or len(self.values) >= _MOST_RUNS:
                refuse("it needs too many steps, or has too many pieces")
            self.values[point] = float(result.value)
            self.results.append(result)
            todo += self._add_piece(point, result)

    def _add_piece(self, point: float, result: Number) -> Iterator[float]:
        """Add the piece to which a run belongs; yield the points at its ends, and those next to them."""
        left, right = (-1.0, _ZERO), (2.0, _ONE)  # the ends as a float, by which they are compared, and exactly
        is_narrow = False
        for decision in self.machine.decisions:
            slope: Any = decision.slope
            root = point - decision.value / slope
            margin = decision.noise / abs(slope) + _LEAST
            self.is_regular &= margin <= _NARROW
            is_narrow |= abs(root - point) <= margin
            if left[0] < root < point:
                left = root, decision.find_root(point)
            elif point <= root < right[0]:
                right = root, decision.find_root(point)
        self.is_regular &= self.machine.is_regular and result.slope is not None
        at = Fraction(point)
        low, high = (at, at) if is_narrow else (max(left[1], _ZERO), min(right[1], _ONE))
        self.pieces.append(_Piece(low, high, at, Fraction(result.value), Fraction(result.slope or 0)))
        for end in () if is_narrow else (float(low), float(high)):
            if all(abs(end - other) > _ULPS * math.ulp(end) for other in self.ends):  # not only rounded in another way
                self.ends.append(end)
                yield from (end - _TOLERANCE, end, end + _TOLERANCE)
                for side in (0.0, 1.0):
                    near = end
                    for _ in range(_ULPS):
                        near = math.nextafter(near, side)
                        yield near

    def _list_gaps(self) -> list[tuple[Fraction, Fraction]]:
        """Return the intervals that no piece covers, without those that rounding leaves."""
        gaps = []
        reached = _ZERO
        for left, right in [*sorted((piece.left, piece.right) for piece in self.pieces), (_ONE, _ONE)]:
            if left > reached + Fraction(_NARROW):
                gaps.append((reached, left))
            reached = max(reached, right)
        return gaps

    def _list_constants(self) -> Iterator[float]:
        """Yield the numbers of the function that may be a progress, and their differences from 1."""
        values = [made.arg for instructions in self.machine.decoded.values() for made in instructions]
        callee = _unwrap(self.callee)
        if isinstance(callee, Closure):
            values += [cell.content for cell in callee.cells.values()]
        for value in values:
            for part in map(convert, value if type(value) is tuple else (value,)):
                if isinstance(part, Number) and 0 < part.value < 1:
                    yield float(part.value)
                    yield float(1 - part.value)

    def _find_schedule(self) -> ConstantSchedule | LinearSchedule | None:
        """Return the schedule that all pieces and points agree with, if there is one."""
        start, end = self.values[1.0], self.values[0.0]
        allowed = _TOLERANCE * max(map(abs, self.values.values()))
        pieces = sorted(piece for piece in self.pieces if piece.left < piece.right)
        flat_pieces = list(takewhile(lambda piece: piece.is_flat(Fraction(end), allowed), pieces))
        flat = max((piece.right for piece in flat_pieces), default=_ZERO)
        if flat_pieces:  # the end is most exact where it was found from far away
            near = [piece for piece in flat_pieces if flat - piece.right <= _NARROW]
            flat = max(near, key=lambda piece: abs(piece.right - piece.at)).right
        if flat == 1:
            value = self.results[0].value if all(part.kind == "int" for part in self.results) else start
            schedule: ConstantSchedule | LinearSchedule = ConstantSchedule(value)
        else:
            schedule = LinearSchedule(start, end, float(1 - flat))
        agrees = all(
            abs(piece.compute(point) - Fraction(_compute(schedule, float(point), float(piece.at)))) <= allowed
            for piece in pieces
            for point in (piece.left, piece.right)
        ) and all(abs(_compute(schedule, point, point) - value) <= allowed for point, value in self.values.items())
        return schedule if agrees else None


def _compute(schedule: ConstantSchedule | LinearSchedule, progress: float, piece: float) -> float:
    """Return the value of a schedule, as SB3 computes it.

    :param piece: a point of the piece that is extended to the progress
    """
    if isinstance(schedule, ConstantSchedule):
        return schedule.value
    if 1 - piece > schedule.end_fraction:
        return schedule.end
    return schedule.start + (1 - progress) * (schedule.end - schedule.start) / schedule.end_fraction
