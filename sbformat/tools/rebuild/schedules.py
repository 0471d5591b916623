"""Schedules of ``data``: a number where they are constant, else SB3's own, or one that is allowed (FORMAT.md 15.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sbformat.errors import UnsupportedError, escape
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild import policies, releases
from sbformat.tools.rebuild.encode import written
from sbformat.values.render import render_line
from sbformat.values.types import ConstantSchedule, FloatSchedule, Function, LinearSchedule, Partial, Reference

if TYPE_CHECKING:
    from sbformat.tools.rebuild.context import Job


def rebuilt_schedule(job: Job, key: str, value: object) -> Any:
    """Return a number, or a schedule that is known."""
    default = releases.DEFAULTS.get(key, f"{job.family.learning_rate}, the default of {job.algorithm}")
    try:
        meaning = job.meaning(key)
        if (meaning is None and key == "clip_range_vf") or type(meaning) in (int, float):
            _check_rate(meaning)
            job.told("kept", "", key=key)
            return meaning
        return _written_schedule(job, key, job.allowed.value(key, meaning))
    except UnsupportedError as error:
        last = f"; its last value was {job.last_rate}" if key == "learning_rate" and job.last_rate is not None else ""
        return job.unknown(key, value, f"{error.message}{last}; --set {key}=NUMBER gives one", default)


def _written_schedule(job: Job, key: str, meaning: object) -> Any:
    schedule = meaning.schedule if isinstance(meaning, Function) and meaning.schedule is not None else meaning
    if _is_allowed(job, schedule):
        result = written(schedule, job.target, foreign=job.allowed.pairs)
        job.told("kept", f"{escape(render_line(meaning), 200)}, which is allowed: the loader imports it", key=key)
        return result
    constant = _constant(schedule)
    _check_rate(constant)
    if constant is not None and key != "delta_std_schedule":  # ARS takes that one as it stands, and calls it
        job.told("translated", f"{escape(render_line(meaning), 200)}: {constant}", key=key)
        return constant
    if not _is_schedule(schedule):
        while isinstance(schedule, FloatSchedule):
            schedule = schedule.schedule
        raise UnsupportedError(policies.describe_unknown(schedule, "a schedule"))
    result = written(schedule, job.target)
    job.told("translated", escape(render_line(meaning), 200), key=key)
    return result


def _check_rate(value: float | None) -> None:
    """Check that torch takes a number as a learning rate.

    :raises UnsupportedError: when it is negative, infinite or no number
    """
    if value is not None and not 0 <= value < math.inf:
        message = f"expected a number of at least 0, got {value}"
        raise UnsupportedError(message)


def _is_allowed(job: Job, schedule: object) -> bool:
    while isinstance(schedule, FloatSchedule):
        schedule = schedule.schedule
    function = schedule.function if isinstance(schedule, Partial) else schedule
    return isinstance(function, Reference) and function.pair in job.allowed.pairs


def _is_schedule(schedule: object) -> bool:
    """Say whether a schedule, and each one in it, is known and made of numbers."""
    inner = _innermost(schedule)
    if isinstance(inner, LinearSchedule):
        return all(type(value) in (int, float) for value in inner)
    return _constant(inner) is not None


def _innermost(schedule: object) -> object:
    while isinstance(schedule, (FloatSchedule, Function)):
        schedule = schedule.schedule
    return schedule


def _constant(schedule: object) -> float | None:
    """The number that a schedule always gives."""
    schedule = _innermost(schedule)
    if isinstance(schedule, ConstantSchedule):
        schedule = schedule.value
    if isinstance(schedule, ArrayInfo) and schedule.is_scalar and schedule.dtype[1] in "fiu":
        return schedule.to_numpy().item()  # type: ignore[no-any-return]
    return schedule if type(schedule) in (int, float) else None  # type: ignore[return-value]
