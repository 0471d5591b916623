"""What a schedule function that was pickled by value computes, found from its bytecode without running it.

:func:`understand` returns a schedule for a pure function of the remaining progress, and None for anything else. What it
finds is kept apart from :attr:`Function.schedule <sbformat.known.types.Function.schedule>`, which is for published
functions alone: ``scan`` reports every other function as ``code``.
"""

from __future__ import annotations

from typing import TypeAlias

from sbformat.immutable import Record
from sbformat.known.types import ConstantSchedule, FloatSchedule, LinearSchedule, Value

__all__ = ["ComputedSchedule", "Understanding", "examine", "understand"]


class ComputedSchedule(Value):
    """A pure function of the remaining progress that is neither constant nor linear."""

    function: object
    """The function of the file, as :func:`sbformat.values.decode` returns it."""
    python: str
    """The releases of CPython that may have compiled it: ``3.8 and 3.9``."""

    def sample(self, progress: float) -> float:
        """Return the value at a remaining progress from 1 (start of the training) to 0 (its end).

        :param progress: in [0, 1]
        :return: as Python would compute it; NaN where it raises an error
        """
        from sbformat.values.computed.analysis import evaluate

        return evaluate(self.function, self.python, float(progress))


Understood: TypeAlias = ConstantSchedule | LinearSchedule | ComputedSchedule


class Understanding(Record):
    """The result of :func:`examine`."""

    schedule: Understood | None
    """None when the function is not understood."""
    reason: str
    """Why it is not understood, as the end of a sentence ("it calls print"); empty when it is."""


def understand(function: object) -> Understood | None:
    """Return the schedule that a function computes, or None when it is not understood.

    :param function: a :class:`~sbformat.known.types.Function` as :func:`sbformat.values.decode` returns it
    :return: a constant; a line from progress 1 to 0, also one that ends early; any other pure function as a
        :class:`ComputedSchedule`. "Constant" and "line" hold for each remaining progress from 1 to 0

    Nothing of the file is executed by Python, and no input raises an error. VALUES.md 13.5.

    Example::

        function = sbformat.read("agent.zip").decode("learning_rate")  # lambda p: p * 3e-4
        understand(function)  # LinearSchedule(start=0.0003, end=0.0, end_fraction=1.0)
    """
    return examine(function).schedule


def examine(function: object) -> Understanding:
    """Return what :func:`understand` returns, and otherwise a reason.

    :param function: as for :func:`understand`
    """
    from sbformat.values.computed.analysis import analyze
    from sbformat.values.computed.arithmetic import NotUnderstoodError

    while isinstance(function, FloatSchedule):
        function = function.schedule
    try:
        schedule, python = analyze(function)
    except NotUnderstoodError as error:
        return Understanding(None, str(error))
    return Understanding(schedule or ComputedSchedule(function, python), "")
