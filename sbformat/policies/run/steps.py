"""What kernels take and return, as types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Step: TypeAlias = Callable[[], object]
"""A call of a numpy function with all arguments bound."""
Steps: TypeAlias = Iterator[Step]


def make_number(value: float, like: Array) -> Array:
    """Return a number as an array without axes, of the dtype of another array, which no kernel writes."""
    number = np.asarray(value, dtype=like.dtype)
    number.flags.writeable = False
    return number
