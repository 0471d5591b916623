"""Constant, linear, or neither: what an expression is for all progress in [0, 1] (VALUES.md 13.5)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from sbformat.values.computed.errors import refuse
from sbformat.values.computed.expressions import Expression, render_formula
from sbformat.values.computed.piecewise import probes
from sbformat.values.computed.schedule import ComputedSchedule
from sbformat.values.computed.trials import run_trials
from sbformat.values.types import ConstantSchedule, LinearSchedule

if TYPE_CHECKING:
    from sbformat.values.computed.expressions import Operand
    from sbformat.values.computed.machine import Trace
    from sbformat.values.computed.piecewise import Piecewise

_TOLERANCE: Final = 1e-9
"""Of the greatest value: rounding errors of a few operations are below 1e-12."""


def classify(found: Operand, traces: list[Trace]) -> ConstantSchedule | LinearSchedule | ComputedSchedule:
    """Return the schedule of an expression.

    :param traces: how it was computed
    :raises NotUnderstoodError: when it fails, or is infinite, at one of the points that are tried
    """
    if not isinstance(found, Expression):
        if not math.isfinite(found):
            refuse("it returns something other than a finite number")
        if any(value != found for value in run_trials(traces).values()):
            refuse("it depends on how numbers are rounded")
        return ConstantSchedule(float(found) if isinstance(found, bool) else found)
    affine = found.affine
    tried = run_trials(traces, () if affine is None else tuple(probes(affine.cuts)))
    schedule = None if affine is None else _find_line(affine, start=tried[1.0], end=tried[0.0])
    if affine is not None and schedule is not None:
        allowed = _tolerance(list(tried.values()))
        if _has_shape(affine, schedule, allowed) and all(
            abs(_value_at(schedule, point) - value) <= allowed for point, value in tried.items()
        ):
            return schedule
    return ComputedSchedule(render_formula(found), found)


def _has_shape(affine: Piecewise, schedule: ConstantSchedule | LinearSchedule, allowed: float) -> bool:
    """Return whether a function is a schedule at both ends of each piece, and so between them."""
    for index, line in enumerate(affine.cells):
        left, right = affine.cuts[index // 2], affine.cuts[(index + 1) // 2]
        middle = float((left + right) / 2)
        for point in {left, right}:
            expected = _value_at(schedule, float(point), piece=middle)
            if abs(line.at(point) - Fraction(expected)) > allowed:
                return False
    return True


def _tolerance(values: list[float]) -> float:
    return _TOLERANCE * max(map(abs, values))


def _find_line(affine: Piecewise, *, start: float, end: float) -> ConstantSchedule | LinearSchedule | None:
    """Return the schedule that agrees with a function at both ends, if its shape can be one.

    A linear schedule is one line from progress 1 down to some point, and constant below it.
    """
    cells = affine.cells
    scale = max(abs(start), abs(end))
    if all(not line.slope or abs(line.slope) <= scale * Fraction(_TOLERANCE) for line in cells):
        return ConstantSchedule(start) if _is_close(start, end, scale) else None
    index = 0
    while index < len(cells) - 1 and not cells[index + 1].slope:
        index += 2
    index = min(index, len(cells) - 1)
    fraction = float(1 - affine.cuts[index // 2])
    return LinearSchedule(start, end, fraction) if fraction > 0 else None


def _is_close(one: float, other: float, scale: float) -> bool:
    return abs(one - other) <= _TOLERANCE * scale


def _value_at(schedule: ConstantSchedule | LinearSchedule, progress: float, piece: float | None = None) -> float:
    """Return the value of a schedule, as SB3 computes it.

    :param piece: another point, whose piece is extended to the progress
    """
    if isinstance(schedule, ConstantSchedule):
        return schedule.value
    if 1 - (progress if piece is None else piece) > schedule.end_fraction:
        return schedule.end
    return schedule.start + (1 - progress) * (schedule.end - schedule.start) / schedule.end_fraction
