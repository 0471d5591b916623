"""Schedules of users: what their bytecode computes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from conformance.generators.build_zips import is_terminal_safe
from sbformat import SbformatError
from sbformat.known.types import ConstantSchedule, Function
from sbformat.limits import Budget
from sbformat.values import decode_blob
from sbformat.values.computed import ComputedSchedule, examine
from tests.fuzz.law import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_FUNCTIONS = 20


def one_input(data: bytes) -> None:
    """A function of a pickle is a schedule with finite numbers, or is refused for a reason that can be shown."""
    value = ask(decode_blob, data, Budget())
    if isinstance(value, SbformatError):
        return
    for number, function in enumerate(functions(value)):
        if number == _MOST_FUNCTIONS:
            return
        check(function)


def functions(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield what may be a schedule: the value, and functions within it."""
    if depth == 0 or isinstance(value, Function):
        yield value
    if isinstance(value, (list, tuple)) and depth < 4:
        for part in value[:_MOST_FUNCTIONS]:
            yield from functions(part, depth + 1)


def check(function: Any) -> None:
    schedule, reason = examine(function)
    assert (schedule is None) is bool(reason)
    assert is_terminal_safe(reason), reason
    if isinstance(schedule, ComputedSchedule):
        values = [schedule.sample(progress) for progress in (1.0, 0.5, 0.0)]
    elif isinstance(schedule, ConstantSchedule):
        values = [schedule.value]
    else:
        values = list(schedule or ())
    assert all(math.isfinite(number) for number in values), values
