"""What a schedule of ``data`` computes, in whatever form: a number, a class of SB3, a published or a user's function.

A user's function is examined by :mod:`sbformat.values.computed`; nothing of the file is executed. The result is apart
from the decoded value, so that ``scan`` judges the function as ``code`` (VALUES.md 13.5).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.immutable import Record
from sbformat.known import types
from sbformat.known.numpy import unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.known.types import ConstantSchedule, Function, InterpolatedSchedule, LinearSchedule
from sbformat.pkl.numpy import ArrayInfo
from sbformat.values.computed import ComputedSchedule, examine

if TYPE_CHECKING:
    from collections.abc import Sequence

Meaning: TypeAlias = ConstantSchedule | LinearSchedule | ComputedSchedule | InterpolatedSchedule

SAMPLED: Final = (1.0, 0.75, 0.5, 0.25, 0.0)
"""The remaining progress at which a schedule is sampled for people."""
_CARRIED: Final = (Function, types.CarriedObject, types.Partial)
_DEEPEST: Final = 8  # schedules within schedules
_FITTED: Final = 200  # intervals of the training at whose ends a schedule is compared with a simpler one
_FRACTIONS: Final = tuple(part / 20 for part in range(20, 0, -1))
"""End fractions that are tried, the whole training first."""
_GAIN: Final = 0.5  # how much smaller the squared error of a form with one more number has to be


class ScheduleMeaning(Record):
    """The result of :func:`find_meaning`."""

    schedule: Meaning | None
    """None if the value is not a schedule, or not understood."""
    function: Function | types.CarriedObject | types.Partial | None
    """The function or callable object whose bytecode was examined; None where none was."""
    reason: str
    """Why it is not understood, as the end of a sentence; empty if no bytecode was examined, or if it is."""

    @property
    def is_from_bytecode(self) -> bool:
        """Whether the schedule was found by examining the bytecode of a user's function."""
        return self.function is not None and self.schedule is not None


def find_meaning(value: object, *, examines: bool = True) -> ScheduleMeaning:
    """Return what a schedule computes.

    :param value: as :func:`sbformat.values.decode` returns it: a number, a schedule or a function
    :param examines: whether to examine the bytecode of functions
    """
    inner = unwrap(value)
    if isinstance(inner, _CARRIED):
        if not examines:
            return ScheduleMeaning(None, None, "")
        schedule, reason = examine(inner)
        return ScheduleMeaning(schedule, inner, reason)
    if isinstance(inner, InterpolatedSchedule):
        return ScheduleMeaning(inner, None, "")
    if isinstance(inner, LinearSchedule):
        is_plain = all(type(number) in (int, float) for number in inner)
        return ScheduleMeaning(inner if is_plain else None, None, "")
    number = _find_number(inner.value if isinstance(inner, ConstantSchedule) else inner)
    return ScheduleMeaning(None if number is None else ConstantSchedule(number), None, "")


def unwrap(value: object) -> object:
    """Return the innermost schedule, or the function of a user in it."""
    for _ in range(_DEEPEST):
        inner = value.schedule if isinstance(value, (types.FloatSchedule, Function)) else None
        if inner is None:
            break
        value = inner
    return value


def _find_number(value: object) -> float | None:
    if isinstance(value, ArrayInfo) and value.is_scalar and value.dtype[1] in "fiu":
        try:
            (number,) = unpack_items(value)
        except UnrecognizedError:
            return None
        return number
    return value if type(value) in (int, float) else None  # type: ignore[return-value]


def sample(schedule: Meaning, progress: float) -> float:
    """Return the value at a remaining progress (1 to 0) as SB3 computes it; NaN where that is an error."""
    if isinstance(schedule, ConstantSchedule):
        return schedule.value
    if isinstance(schedule, (ComputedSchedule, InterpolatedSchedule)):
        return schedule.sample(progress)
    if 1 - progress > schedule.end_fraction:
        return schedule.end
    try:
        return schedule.start + (1 - progress) * (schedule.end - schedule.start) / schedule.end_fraction
    except (ArithmeticError, TypeError):
        return math.nan


def describe_samples(schedule: ComputedSchedule | InterpolatedSchedule) -> str:
    """Return the values of a schedule during the training, for people: ``0.0003, 0.000169, ..., 0``."""
    return ", ".join(f"{schedule.sample(progress):.3g}" for progress in SAMPLED)


# -- the nearest schedule of SB3 ----------------------------------------------------------------------


def find_nearest(schedule: ComputedSchedule) -> ConstantSchedule | LinearSchedule | None:
    """Return the constant or linear schedule with the smallest squared error during the training.

    One with fewer numbers is preferred unless the other is clearly nearer. Its numbers have three digits, and are not
    negative.

    :return: None if the values are not finite, or so large that their squares are not
    """
    points = [(part / _FITTED, schedule.sample(1 - part / _FITTED)) for part in range(_FITTED + 1)]
    points = [(elapsed, value) for elapsed, value in points if math.isfinite(value)]
    scale = max((abs(value) for _, value in points), default=0.0)
    if not points or not 0 < scale < math.inf:
        return ConstantSchedule(0.0) if points else None
    points = [(elapsed, value / scale) for elapsed, value in points]  # whose squares do not overflow
    mean = math.fsum(value for _, value in points) / len(points)
    best: tuple[float, ...] = (mean,)
    error = _GAIN * _find_error(ConstantSchedule(mean), points)
    for fraction in _FRACTIONS:
        line = _fit_line(points, fraction)
        found = math.inf if line is None else _find_error(line, points)
        if line is not None and found < error:
            error = found * _GAIN if fraction == 1 else found
            best = (line.start, line.end, fraction)
    start, *rest = (_round(value * scale) for value in best[:2])
    return LinearSchedule(start, rest[0], best[2]) if rest and rest[0] != start else ConstantSchedule(start)


def _fit_line(points: Sequence[tuple[float, float]], fraction: float) -> LinearSchedule | None:
    """Return the linear schedule with an end fraction that has the smallest squared error, or None.

    Each value is ``weight * start + (1 - weight) * end``, and these are the two normal equations.
    """
    weights = [(max(0.0, 1 - elapsed / fraction), value) for elapsed, value in points]
    ss = math.fsum(weight * weight for weight, _ in weights)
    se = math.fsum(weight * (1 - weight) for weight, _ in weights)
    ee = math.fsum((1 - weight) ** 2 for weight, _ in weights)
    try:
        sv = math.fsum(weight * value for weight, value in weights)
        ev = math.fsum((1 - weight) * value for weight, value in weights)
        determinant = ss * ee - se * se
        return LinearSchedule((sv * ee - ev * se) / determinant, (ev * ss - sv * se) / determinant, fraction)
    except (ArithmeticError, ValueError):
        return None


def _find_error(schedule: Any, points: Sequence[tuple[float, float]]) -> float:
    try:
        return math.fsum((value - sample(schedule, 1 - elapsed)) ** 2 for elapsed, value in points)
    except (ArithmeticError, ValueError):
        return math.inf


def _round(value: float) -> float:
    return max(0.0, float(f"{value:.3g}"))
