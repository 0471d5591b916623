"""What a caller passes to ``load`` beside the file: ``custom_objects`` and attributes of the agent."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import RENAMED
from sbformat.known.sb3 import SCHEDULE_KEYS
from sbformat.known.types import ConstantSchedule, FloatSchedule, LinearSchedule
from sbformat.schema import known_keys
from sbformat.schema.assigned import parse_schedule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_NOT_OF_LOAD: Final = {
    "assign": "custom_objects={'learning_rate': 3e-4} sets values",
    "target": "the target is the installed release of SB3",
    "on_unknown": "what is not known is dropped with a warning; custom_objects replaces it, allow=[NAME] keeps a class",
    "policy_class": "custom_objects={'policy_class': CLASS} sets the class",
    "keep_system_info": "SB3 does not load it",
    "supplied_at_load": "custom_objects has the values",
}
"""The arguments of :func:`sbformat.rebuild` that ``load`` does not have, and what to use."""
_SCHEDULES: Final = (ConstantSchedule, LinearSchedule, FloatSchedule)
_SIMILARITY: Final = 0.8


def check_attributes(attributes: Mapping[str, object]) -> None:
    """Check that none of the attributes is an argument of ``rebuild``, which SB3 would set without effect.

    A class as ``policy_class`` is an attribute that SB3 uses; a name is not.

    :raises TypeError: for one that is
    """
    for name, value in attributes.items():
        if name in _NOT_OF_LOAD and not (name == "policy_class" and isinstance(value, type)):
            message = f"sbformat.sb3.load has no argument {name}, which is one of rebuild: {_NOT_OF_LOAD[name]}"
            raise TypeError(message)


def make_schedules(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by key of ``data`` with SB3's own schedules where ``assign`` of ``rebuild`` accepts one.

    :raises ValidationError: for a schedule under another key, and for one with other numbers than SB3 accepts
    """
    return {key: _make_schedule(key, value) for key, value in values.items()}


def _make_schedule(key: str, value: Any) -> Any:
    if not isinstance(value, (*_SCHEDULES, Mapping) if key in SCHEDULE_KEYS else _SCHEDULES):
        return value
    schedule = parse_schedule(key, value)
    from stable_baselines3.common import utils

    has_classes = hasattr(utils, "LinearSchedule")
    if isinstance(schedule, ConstantSchedule):
        return (utils.ConstantSchedule if has_classes else utils.constant_fn)(schedule.value)
    if isinstance(schedule, LinearSchedule):
        return (utils.LinearSchedule if has_classes else utils.get_linear_fn)(*schedule)
    return value


def iter_misspelt(given: Iterable[str], present: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each key of ``custom_objects`` that SB3 ignores and that resembles one of ``data``.

    :param given: the keys of ``custom_objects``
    :param present: the keys of ``data``
    """
    known = frozenset(RENAMED).union(present, *map(known_keys, ALGORITHMS))
    for key in given:
        near = get_close_matches(key, sorted(present), 1, _SIMILARITY) if key not in known else []
        if near:
            yield f"custom_objects: {escape(key, 80)} is ignored, since data has no such key; did you mean {near[0]}?"
