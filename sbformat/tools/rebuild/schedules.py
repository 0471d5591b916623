"""Schedules of ``data``: a number if they are constant, else SB3's own, or one that is allowed (REBUILDING.md 15.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, escape
from sbformat.known.types import ConstantSchedule, FloatSchedule, Function, InterpolatedSchedule, Partial, Reference
from sbformat.schema.assigned import WRAPPED
from sbformat.tools.rebuild.algorithms import find_default
from sbformat.tools.rebuild.allowed import describe_unknown
from sbformat.tools.rebuild.encode import encode_value
from sbformat.values.computed import ComputedSchedule
from sbformat.values.render import FROM_BYTECODE, render_line
from sbformat.values.schedule_meaning import describe_samples, find_meaning, find_nearest, unwrap

if TYPE_CHECKING:
    from sbformat.tools.rebuild.context import RebuildContext
    from sbformat.values.schedule_meaning import ScheduleMeaning

_REASON: Final = 100
"""Characters of a reason in a message."""


def rebuild_schedule(context: RebuildContext, key: str, value: object) -> Any:
    """Return a number, or a known schedule, as ``data`` contains it.

    :param value: as the archive has it
    """
    number = find_default(context.algorithm, key)
    default = "no clipping" if number is None else str(number)
    if key == "learning_rate":
        default = f"{default}, the default of {context.algorithm}"
    try:
        meaning = context.decode(key)
        if key == "clip_range_vf" and type(meaning) in (int, float) and meaning == 0:
            meaning = ConstantSchedule(0.0)
        if (meaning is None and key == "clip_range_vf") or type(meaning) in (int, float):
            if key != "clip_range":  # SB3 takes any number there
                _check_rate(meaning)
            context.report("kept", "", key=key)
            return meaning
        return _encode_schedule(context, key, context.allowed.replace_names(key, meaning))
    except _ComputedError as error:
        return context.handle_unknown(key, value, error.message, default)
    except UnsupportedError as error:
        rate = context.last_learning_rate
        last = f"; its last value was {rate}" if key == "learning_rate" and rate is not None else ""
        message = f"{error.message}{last}; {context.options.advice.set_value(key)}"
        return context.handle_unknown(key, value, message, default)


class _ComputedError(UnsupportedError):
    """A schedule is understood, and SB3 has no class for it; the message has the nearest one."""


def _encode_schedule(context: RebuildContext, key: str, meaning: object) -> Any:
    if _is_allowed(context, meaning):
        shown = escape(render_line(meaning), 200)
        return context.keep_allowed(key, meaning, shown)
    found = find_meaning(meaning)
    _check_meaning(context, key, found, meaning)
    how = FROM_BYTECODE if found.is_from_bytecode else ""
    if isinstance(found.schedule, ConstantSchedule) and _may_be_number(key, found.schedule.value):
        form = "a function" if isinstance(meaning, Function) or how else "an object"
        context.report("translated", f"a number instead of {form}{how and ', '}{how}", key=key)
        return found.schedule.value
    written: Any = found.schedule
    published = meaning.schedule if isinstance(meaning, Function) else None
    if isinstance(published or meaning, FloatSchedule) or (how and key in WRAPPED):
        written = FloatSchedule(written)
    result = encode_value(written, context.target)
    shown = escape(render_line(found.schedule), 200)
    context.report("translated", f"{shown}{how and f' ({how})'}", key=key)
    return result


def _may_be_number(key: str, value: float) -> bool:
    """Return False where ARS calls without a check, and where PPO refuses the number 0 but not a schedule of it."""
    return key != "delta_std_schedule" and not (key == "clip_range_vf" and value == 0)


def _check_meaning(context: RebuildContext, key: str, found: ScheduleMeaning, meaning: object) -> None:
    """Check that SB3 has a schedule for what was found, and accepts its numbers.

    :raises UnsupportedError: when it has not, or when the schedule is not understood
    """
    schedule = found.schedule
    if isinstance(schedule, ComputedSchedule):
        raise _ComputedError(_describe_computed(context, key, schedule))
    if schedule is None:
        reason = "" if not found.reason else f" ({escape(found.reason, _REASON)})"
        message = f"{describe_unknown(unwrap(meaning), 'a schedule', context.options.advice)}{reason}"
        raise UnsupportedError(message)
    if isinstance(schedule, ConstantSchedule):
        _check_rate(schedule.value)
    elif isinstance(schedule, InterpolatedSchedule):
        _check_rate(schedule.sample(1.0))
    else:
        _check_rate(schedule.start)  # torch checks the first one only
        if not math.isfinite(schedule.end) or not 0 < schedule.end_fraction < math.inf:
            message = f"expected finite numbers in a linear schedule, got {escape(repr(schedule))}"
            raise UnsupportedError(message)


def _describe_computed(context: RebuildContext, key: str, schedule: ComputedSchedule) -> str:
    """Return what a schedule computes, and the option that sets the nearest one."""
    message = f"neither constant nor linear, as SB3's schedules are: {describe_samples(schedule)} during training"
    nearest = find_nearest(schedule)
    return (
        message if nearest is None else f"{message}; the nearest is {context.options.advice.set_schedule(key, nearest)}"
    )


def _check_rate(value: float | None) -> None:
    """Check that torch accepts a number as a learning rate.

    :raises UnsupportedError: when it is negative, infinite or NaN
    """
    if value is not None and not 0 <= value < math.inf:
        message = f"expected a number of at least 0, got {value}"
        raise UnsupportedError(message)


def _is_allowed(context: RebuildContext, meaning: object) -> bool:
    schedule = unwrap(meaning)
    function = schedule.function if isinstance(schedule, Partial) else schedule
    return isinstance(function, Reference) and function.pair in context.allowed.pairs
