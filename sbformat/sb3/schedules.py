"""Schedules that SB3 has no class for, and that are understood, as objects that the real SB3 calls (VALUES.md 13.5).

The function of the file is not created: its instructions are followed here, one by one.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.kinds import SB3_ARCHIVES
from sbformat.data import Serialized
from sbformat.errors import SbformatError
from sbformat.known.sb3 import SCHEDULE_KEYS
from sbformat.known.types import ConstantSchedule
from sbformat.pkl.numpy import ArrayInfo
from sbformat.schema.assigned import encode_assigned, find_release
from sbformat.tools.rebuild.algorithms import RECREATED
from sbformat.values.computed import ComputedSchedule
from sbformat.values.schedule_meaning import SAMPLED, describe_samples, find_meaning

if TYPE_CHECKING:
    from collections.abc import Container

    from sbformat.archive.archive import Archive

_INTERVALS: Final = 1000


class EvaluatedSchedule:
    """A schedule that was found in bytecode.

    It is pickled as a linear interpolation of 1,001 of its values by numpy, so that an agent that is saved with it
    loads where sbformat is not installed.

    :param schedule: as :func:`sbformat.values.computed.understand` returns it
    """

    def __init__(self, schedule: ComputedSchedule) -> None:
        self._schedule = schedule

    def __call__(self, progress_remaining: float) -> float:
        """Return the value; SB3 also asks beyond the end of the training, where the last value stays."""
        return self._schedule.sample(min(max(float(progress_remaining), 0.0), 1.0))

    def __repr__(self) -> str:
        return f"EvaluatedSchedule({describe_samples(self._schedule)} during training)"

    def __reduce__(self) -> Any:
        import numpy as np

        grid = [step / _INTERVALS for step in range(_INTERVALS + 1)]
        return partial(np.interp, xp=grid, fp=list(map(self, grid))).__reduce__()


def make_live_schedules(archive: Archive) -> dict[str, EvaluatedSchedule]:
    """Return the schedules of an archive that no class of SB3 computes, by their keys of ``data``."""
    found = {key: find_meaning(value).schedule for key, value in _decode_schedules(archive).items()}
    return {
        key: EvaluatedSchedule(value)
        for key, value in found.items()
        if isinstance(value, ComputedSchedule) and _is_usable(value)
    }


def _is_usable(schedule: ComputedSchedule) -> bool:
    """Return whether its values are finite, and the first is one that torch accepts as a learning rate."""
    return schedule.sample(1.0) >= 0 and all(math.isfinite(schedule.sample(progress)) for progress in SAMPLED)


def keep_callable(archive: Archive, original: Archive, given: Container[str]) -> Archive:
    """Return a rebuilt archive whose constant learning rate is a schedule if the original was one.

    :param archive: the rebuilt one, where it is a number
    :param given: keys that the caller supplies
    """
    rate = archive.data.get("learning_rate")
    was_schedule = "learning_rate" in _decode_schedules(original) and "learning_rate" not in given
    if not was_schedule or not isinstance(rate, (int, float)):
        return archive
    release = find_release(archive.stable_baselines3_version)
    written = encode_assigned("learning_rate", ConstantSchedule(rate), release)
    return archive.replace(data={**archive.data, "learning_rate": written})


def _decode_schedules(archive: Archive) -> dict[str, object]:
    """Return the values of an archive's keys of schedules that are not numbers."""
    made: dict[str, object] = {}
    for key in SCHEDULE_KEYS - RECREATED.keys() if archive.format in SB3_ARCHIVES else ():
        if isinstance(archive.data.get(key), Serialized):
            try:
                made[key] = archive.decode(key)
            except SbformatError:
                continue
    return {key: value for key, value in made.items() if not isinstance(value, (int, float, ArrayInfo))}
