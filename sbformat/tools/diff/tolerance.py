"""How far two numbers may be apart and count as equal: ``rtol`` and ``atol``, as numpy has them."""

from __future__ import annotations

import math
from typing import Any

from sbformat.errors import require_type
from sbformat.immutable import Record


class Tolerance(Record):
    """``|new - old| <= atol + rtol * |old|``; two NaN are close, and an infinity only to itself."""

    rtol: float = 0.0
    atol: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Return whether nothing but equal numbers is close."""
        return not self.rtol and not self.atol

    def is_close(self, old: float, new: float) -> bool:
        """Return whether two numbers count as equal.

        >>> Tolerance(rtol=0.1).is_close(10.0, 11.0)
        True
        """
        try:
            one, other = float(old), float(new)
        except OverflowError:  # an integer of more than 300 digits
            return old == new
        if not (math.isfinite(one) and math.isfinite(other)):
            return one == other or (math.isnan(one) and math.isnan(other))
        return abs(other - one) <= self.atol + self.rtol * abs(one)

    def is_close_json(self, old: Any, new: Any) -> bool:
        """Return whether two values of ``data`` differ in nothing but numbers that are close.

        Numbers of another type are not close: SB3 may treat ``1`` and ``1.0`` differently.
        """
        todo = [(old, new)]
        while todo:
            one, other = todo.pop()
            if type(one) is not type(other):
                return False
            if isinstance(one, dict):
                if list(one) != list(other):
                    return False
                todo += zip(one.values(), other.values())
            elif isinstance(one, list):
                if len(one) != len(other):
                    return False
                todo += zip(one, other)
            elif type(one) in (int, float):
                if not self.is_close(one, other):
                    return False
            elif one != other:
                return False
        return True


def make_tolerance(rtol: float, atol: float) -> Tolerance:
    """Return the tolerance of two arguments.

    :raises TypeError: when one is not a number
    :raises ValueError: when one is negative or not finite
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        require_type(value, (int, float), f"{name} to be a number")
        if not (math.isfinite(value) and value >= 0):
            message = f"expected {name} to be a finite number of 0 or more, got {value}"
            raise ValueError(message)
    return Tolerance(float(rtol), float(atol))
