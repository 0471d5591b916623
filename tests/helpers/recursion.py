"""A lower limit of recursion: what recurses fails for small inputs as it does for large ones."""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def allow_calls_within_one_another(count: int) -> Iterator[None]:
    """Let functions call one another so many levels deep within a ``with`` block."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + count)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
