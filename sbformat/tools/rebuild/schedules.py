"""Schedules of ``data``: a number if they are constant, else SB3's own, or one that is allowed (FORMAT.md 15.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sbformat.errors import UnsupportedError, escape
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild.allowed import describe_unknown
from sbformat.tools.rebuild.encode import encode_value
from sbformat.tools.rebuild.releases import SCHEDULE_DEFAULTS
from sbformat.values.render import render_line
from sbformat.values.types import ConstantSchedule, FloatSchedule, Function, LinearSchedule, Partial, Reference

if TYPE_CHECKING:
    from sbformat.tools.rebuild.context import RebuildContext


def rebuild_schedule(context: RebuildContext, key: str, value: object) -> Any:
    """Return a number, or a known schedule, as ``data`` contains it.

    :param value: as the archive has it
    """
    default = SCHEDULE_DEFAULTS.get(key, f"{context.family.learning_rate}, the default of {context.algorithm}")
    try:
        meaning = context.decode(key)
        if (meaning is None and key == "clip_range_vf") or type(meaning) in (int, float):
            _check_rate(meaning)
            context.report("kept", "", key=key)
            return meaning
        return _encode_schedule(context, key, context.allowed.replace_names(key, meaning))
    except UnsupportedError as error:
        rate = context.last_learning_rate
        last = f"; its last value was {rate}" if key == "learning_rate" and rate is not None else ""
        message = f"{error.message}{last}; --set {key}=NUMBER (assign={{'{key}': NUMBER}}) sets one"
        return context.handle_unknown(key, value, message, default)


def _encode_schedule(context: RebuildContext, key: str, meaning: object) -> Any:
    shown = escape(render_line(meaning), 200)
    schedule = meaning.schedule if isinstance(meaning, Function) and meaning.schedule is not None else meaning
    if _is_allowed(context, schedule):
        return context.keep_allowed(key, schedule, shown)
    constant = _find_constant(schedule)
    _check_rate(constant)
    if constant is not None and key != "delta_std_schedule":  # ARS calls that one without a check
        form = "a function" if isinstance(meaning, Function) else "an object"
        context.report("translated", f"a number instead of {form}", key=key)
        return constant
    if not _is_known(schedule):
        while isinstance(schedule, FloatSchedule):
            schedule = schedule.schedule
        raise UnsupportedError(describe_unknown(schedule, "a schedule"))
    result = encode_value(schedule, context.target)
    context.report("translated", shown, key=key)
    return result


def _check_rate(value: float | None) -> None:
    """Check that torch accepts a number as a learning rate.

    :raises UnsupportedError: when it is negative, infinite or NaN
    """
    if value is not None and not 0 <= value < math.inf:
        message = f"expected a number of at least 0, got {value}"
        raise UnsupportedError(message)


def _is_allowed(context: RebuildContext, schedule: object) -> bool:
    while isinstance(schedule, FloatSchedule):
        schedule = schedule.schedule
    function = schedule.function if isinstance(schedule, Partial) else schedule
    return isinstance(function, Reference) and function.pair in context.allowed.pairs


def _is_known(schedule: object) -> bool:
    """Return whether a schedule, and each one in it, is known and consists of numbers."""
    inner = _unwrap(schedule)
    if isinstance(inner, LinearSchedule):
        return all(type(value) in (int, float) for value in inner)
    return _find_constant(inner) is not None


def _unwrap(schedule: object) -> object:
    """Return the innermost schedule."""
    while isinstance(schedule, (FloatSchedule, Function)):
        schedule = schedule.schedule
    return schedule


def _find_constant(schedule: object) -> float | None:
    """Return the number that a schedule always returns, or None."""
    schedule = _unwrap(schedule)
    if isinstance(schedule, ConstantSchedule):
        schedule = schedule.value
    if isinstance(schedule, ArrayInfo) and schedule.is_scalar and schedule.dtype[1] in "fiu":
        return schedule.to_numpy().item()  # type: ignore[no-any-return]
    return schedule if type(schedule) in (int, float) else None  # type: ignore[return-value]
