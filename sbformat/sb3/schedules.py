"""Schedules that stay functions when SB3 loads an agent (FORMAT.md 13.5).

:func:`sbformat.rebuild` writes a number for a constant learning rate, and drops a function that SB3 has no class for.
Where the agent is loaded at once, a constant function stays a function, and any other pure one becomes a
:class:`FormulaSchedule`: its formula, found from the bytecode without running it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import SbformatError
from sbformat.tools.rebuild.releases import SCHEDULES
from sbformat.values.computed import ComputedSchedule
from sbformat.values.schedule_meaning import SAMPLED, find_meaning
from sbformat.values.types import CarriedObject, ConstantSchedule, FloatSchedule, Function, Partial

if TYPE_CHECKING:
    from collections.abc import Collection

    from sbformat.archive.archive import Archive

_CALLABLES: Final = (CarriedObject, ConstantSchedule, FloatSchedule, Function, Partial)
_KEPT_AS_IT_WAS: Final = "learning_rate"
"""The key whose value SB3 keeps as it was given; it wraps the others in a ``FloatSchedule``, numbers included."""


class FormulaSchedule:
    """A schedule of a user, evaluated by its formula; a program can save it, and loads it again with sbformat.

    Example: ``model.learning_rate`` is ``FormulaSchedule(0.0003 * p ** 2)``, and ``model.learning_rate(0.5)`` is
    7.5e-05.
    """

    def __init__(self, schedule: ComputedSchedule) -> None:
        self.schedule = schedule

    def __call__(self, progress_remaining: float) -> float:
        """Return the value at a remaining progress, from 1 at the start of the training to 0 at its end."""
        return self.schedule.sample(progress_remaining)

    def __repr__(self) -> str:
        return f"FormulaSchedule({self.schedule.text})"


def find_functions(archive: Archive, without: Collection[str]) -> dict[str, Any]:
    """Return the schedules of an archive that are to be functions of Python, by key of ``data``.

    :param without: keys that are given otherwise
    """
    found: dict[str, Any] = {}
    for key in SCHEDULES.intersection(archive.data).difference(without):
        if not isinstance(archive.data[key], Serialized):
            continue
        try:
            meaning = archive.decode(key)
        except SbformatError:  # rebuild reports it
            continue
        schedule = find_meaning(meaning).schedule if isinstance(meaning, _CALLABLES) else None
        if isinstance(schedule, ComputedSchedule) and _is_rate(schedule):
            found[key] = FormulaSchedule(schedule)
        elif isinstance(schedule, ConstantSchedule) and key == _KEPT_AS_IT_WAS and 0 <= schedule.value < math.inf:
            found[key] = _make_constant(schedule.value)
    return found


def _is_rate(schedule: ComputedSchedule) -> bool:
    """Return whether torch accepts the first value as a learning rate, and the others are numbers."""
    return schedule.sample(1.0) >= 0 and all(math.isfinite(schedule.sample(progress)) for progress in SAMPLED)


def _make_constant(value: float) -> Any:
    """Return SB3's own constant schedule: a class since 2.7, a function before."""
    from stable_baselines3.common import utils

    make = utils.ConstantSchedule if hasattr(utils, "ConstantSchedule") else utils.constant_fn
    return make(value)
