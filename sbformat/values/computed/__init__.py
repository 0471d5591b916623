"""What a schedule function that was pickled by value computes, found from its bytecode without running it.

:func:`understand` returns a schedule for a pure function of the remaining progress, and None for anything else. What it
finds is kept apart from :attr:`Function.schedule <sbformat.values.types.Function.schedule>`, which is for published
functions alone: ``scan`` reports every other function as ``code``.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from sbformat.values.computed.schedule import ComputedSchedule
from sbformat.values.types import ConstantSchedule, LinearSchedule

__all__ = ["ComputedSchedule", "Understanding", "examine", "understand"]

Understood: TypeAlias = ConstantSchedule | LinearSchedule | ComputedSchedule


class Understanding(NamedTuple):
    """The result of :func:`examine`."""

    schedule: Understood | None
    """None when the function is not understood."""
    reason: str
    """Why it is not understood, as the end of a sentence ("it calls print"); empty when it is."""


def understand(function: object) -> Understood | None:
    """Return the schedule that a function computes, or None when it is not understood.

    :param function: a :class:`~sbformat.values.types.Function` as :func:`sbformat.values.decode` returns it
    :return: a constant; a line from progress 1 to 0, also one that ends early; any other pure function as a
        :class:`ComputedSchedule`. "Constant" and "line" hold for each remaining progress from 1 to 0

    Nothing of the file is executed, and no input raises an error. VALUES.md 13.5.

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

    return Understanding(*analyze(function))
