"""How slow this machine is at this moment: budgets of time hold on the machine that they were set on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

TRIES: Final = 3
"""A machine that is busy for a moment slows one try; what is slow is slow each time."""

_NUMBERS: Final = 100_000
_SECONDS: Final = 0.023
"""What the loop took there, with CPython 3.11 and nothing else to do."""


def pace() -> float:
    """How many times slower than that machine this one is now, in time of its processor; at least 1."""
    began = time.process_time()
    made = [(number, str(number)) for number in range(_NUMBERS)]
    sum(number for number, _ in made)
    return max(1.0, (time.process_time() - began) / _SECONDS)


def within(run: Callable[[], T], seconds: Callable[[T], float], allowed: float) -> T:
    """What a run gave that took no more than it may, at this machine's pace, in the best of a few tries."""
    for _ in range(TRIES):
        before = pace()
        result = run()
        taken, slowness = seconds(result), max(before, pace())
        if taken <= allowed * slowness:
            return result
    message = f"took {taken:.2f} s, {slowness:.1f} times slower than the machine that {allowed} s were set on"
    raise AssertionError(message)
