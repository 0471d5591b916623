"""Work that tests give to other processes, which import it: light, and some of it deadly."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any


def double(number: int) -> int:
    """Return twice the number; the first take the longest."""
    time.sleep(max(0, 10 - number) * 0.003)
    return number * 2


def double_or_die(number: int) -> int:
    """Return twice the number; die of every seventh."""
    if number % 7 == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * 2


def fail(error: type[Exception]) -> int:
    """Raise an error that nobody expects."""
    raise error


def die_once(item: tuple[int, str]) -> int:
    """Return the number; be ended by the system at the first try of some."""
    number, folder = item
    mark = Path(folder) / f"{number}.tried"
    if number % 3 == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def many(text: str) -> str:
    """Return ten times the text: more than any pipe holds, either way."""
    return text * 10


def lost(item: Any) -> Any:
    """Return what stands for a number whose process died."""
    return -item


def sleep(folder: str) -> None:
    """Say that the work has begun, then take longer than any test."""
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)
