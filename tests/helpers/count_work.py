"""Count the work of a call: what tests of costs compare, because seconds depend on how busy the machine is."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

COUNTED: Final = "SBFORMAT_COUNT_CALLS"
"""The environment variable with which children compute seconds from calls (``read_hostile_pth.ask``)."""
CALLS_PER_SECOND: Final = 12_000_000
"""Beginnings and ends of functions in a second of the machine that the budgets were set on.

Of the hostile files, the slowest decodes with 11.7 million in 1.0 s. Others have fewer in a second, which they spend
within functions.
"""
PATIENCE: Final = 500
"""Seconds until a child is killed: it has hung. Where nothing else runs, an answer takes a few."""
LONGEST: Final = 4
"""Work that is not counted, such as copies in numpy, may take so many times the budget: a busy machine takes fewer."""
LONGEST_SECONDS: Final = 60.0
"""Processor time of any work that is counted: it takes a few seconds, and a search that backtracks takes minutes."""


class Count:
    """The number of what was counted."""

    number = 0


@contextmanager
def count_calls(longest: float = LONGEST_SECONDS) -> Iterator[Count]:
    """Count the beginnings and ends of functions within a ``with`` block, those written in C included.

    This takes two to three times as long as the work, and loops without calls are not seen. What runs in threads that
    begin in the block is counted.

    :param longest: seconds of processor time after which it fails, however few the calls are
    """
    count, before, start = Count(), sys.getprofile(), time.process_time()

    def add(_frame: object, _event: object, _arg: object) -> None:
        count.number += 1

    threading.setprofile(add)
    sys.setprofile(add)
    try:
        yield count
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]
    assert time.process_time() - start < longest


def count_lines(work: Callable[[], object]) -> int:
    """Return how many lines of Python run during a call, each as often as it runs; this takes ten times as long."""
    count = 0

    def trace(*_: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before, start = sys.gettrace(), time.process_time()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    assert time.process_time() - start < LONGEST_SECONDS
    return count


def stay_within(run: Callable[[dict[str, str]], T], seconds: Callable[[T], float], allowed: float) -> T:
    """Return what a child answers, and assert that it keeps its budget.

    If it takes more seconds, the machine may be busy: the child runs again and counts its calls, which decides.

    :param run: runs the child with an environment
    :param seconds: those of its slowest task, which the child reports: of processor time, or computed from calls
    """
    result = run({**os.environ})
    taken = seconds(result)
    if taken > allowed:
        assert taken <= LONGEST * allowed, f"took {taken:.2f} s of {allowed:.2f} s"
        counted = seconds(run({**os.environ, COUNTED: "1"}))
        calls = f"{counted * CALLS_PER_SECOND:,.0f} beginnings and ends of functions"
        assert counted <= allowed, f"took {taken:.2f} s of {allowed:.2f} s, and {calls}: {counted:.2f} s"
    return result
