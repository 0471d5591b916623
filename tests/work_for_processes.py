"""Work that tests give to other processes, which import it: light, and some of it deadly."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def double(number: int) -> int:
    """Return twice the number; the first take the longest."""
    time.sleep(max(0, 10 - number) * 0.003)
    return number * 2


def double_or_die(number: int) -> int:
    """Return twice the number; die of every seventh."""
    if number % 7 == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * 2


def fail(number: int) -> int:
    """Raise an error that nobody expects."""
    raise ZeroDivisionError(number)


def lost(number: int) -> int:
    """Return what stands for a number whose process died."""
    return -number


def sleep(folder: str) -> None:
    """Say that the work has begun, then take longer than any test."""
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)
