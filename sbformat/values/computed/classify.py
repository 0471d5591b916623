"""Constant, linear, or neither: what an expression is for all progress in [0, 1] (FORMAT.md 13.5)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from sbformat.values.computed.errors import refuse
from sbformat.values.computed.expressions import Expression, render_formula
from sbformat.values.computed.piecewise import probes
from sbformat.values.computed.schedule import ComputedSchedule
from sbformat.values.types import ConstantSchedule, LinearSchedule

if TYPE_CHECKING:
    from sbformat.values.computed.expressions import Operand
    from sbformat.values.computed.piecewise import Piecewise

_TOLERANCE: Final = 1e-9
"""Of the greatest value: rounding errors of a few operations are below 1e-12."""
_SAMPLES: Final = 128


def classify(found: Operand) -> ConstantSchedule | LinearSchedule | ComputedSchedule:
    """Return the schedule of an expression.

    :raises NotUnderstoodError: when it fails, or is infinite, at one of the points that are tried
    """
    if not isinstance(found, Expression):
        if not math.isfinite(found):
            refuse("it returns something other than a finite number")
        return ConstantSchedule(float(found) if isinstance(found, bool) else found)
    affine = found.affine
    cuts = [] if affine is None else [float(point) for point in probes(affine.cuts)]
    points = sorted({step / _SAMPLES for step in range(_SAMPLES + 1)} | set(cuts))
    values = [found.evaluate(point) for point in points]
    for point, value in zip(points, values):
        if not math.isfinite(value):
            refuse(f"it has no finite value at progress {point:.6g}")
    schedule = None if affine is None else _find_line(affine, start=values[-1], end=values[0])
    if schedule is not None and all(
        abs(_value_at(schedule, point) - value) <= _tolerance(values) for point, value in zip(points, values)
    ):
        return schedule
    return ComputedSchedule(render_formula(found), found)


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
    fraction = 1 - affine.cuts[index // 2]
    return LinearSchedule(start, end, float(fraction)) if fraction > 0 else None


def _is_close(one: float, other: float, scale: float) -> bool:
    return abs(one - other) <= _TOLERANCE * scale


def _value_at(schedule: ConstantSchedule | LinearSchedule, progress: float) -> float:
    """Return the value of a schedule, as SB3 computes it."""
    if isinstance(schedule, ConstantSchedule):
        return schedule.value
    if 1 - progress > schedule.end_fraction:
        return schedule.end
    return schedule.start + (1 - progress) * (schedule.end - schedule.start) / schedule.end_fraction
