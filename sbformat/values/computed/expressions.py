"""Expressions of the remaining progress."""

from __future__ import annotations

from typing import Protocol


class Expression(Protocol):
    """A pure function of the remaining progress."""

    def evaluate(self, progress: float) -> float:
        """Return its value, NaN where it has none."""
