"""Numbers of episodes for a page: moving averages, and their distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.html_report.weights import Distribution, describe_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

_WINDOW: Final = 10
"""Episodes of a moving average."""


def average(values: Sequence[float], window: int = _WINDOW) -> list[float]:
    """Return the mean of each number and those before it, up to ``window`` of them; none for few numbers."""
    if len(values) < 2 * window:
        return []
    parts = (values[max(0, end - window) : end] for end in range(1, len(values) + 1))
    return [math.fsum(part) / len(part) for part in parts]


def summarize_numbers(values: Sequence[float]) -> Distribution | None:
    """Return mean, deviation and range of numbers."""
    return describe_numbers(np.asarray(values, np.float64))
