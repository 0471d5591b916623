"""A schedule that is neither constant nor linear: a pure function of the remaining progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.values.base import Value

if TYPE_CHECKING:
    from sbformat.values.computed.expressions import Expression


class ComputedSchedule(Value):
    """A pure function of the remaining progress that is neither constant nor linear."""

    text: str
    """Its formula in plain notation, of which ``p`` is the remaining progress: ``0.0003 * p ** 2``."""
    expression: Expression
    """What :meth:`sample` evaluates."""

    def sample(self, progress: float) -> float:
        """Return the value at a remaining progress from 1 (start of the training) to 0 (its end).

        :param progress: in [0, 1]
        :return: as Python would compute it; NaN where it raises an error
        """
        return self.expression.evaluate(float(progress))
