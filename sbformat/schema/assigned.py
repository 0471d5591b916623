"""Values that a caller assigns to keys of ``data``: schedules are written as SB3's own (VALUES.md 13.7).

``--set`` and ``assign`` take plain JSON. Where SB3 has a schedule, an object with one of two names stands for it::

    {"constant": 0.0003}            ConstantSchedule(0.0003)
    {"linear": [0.0003, 0]}         LinearSchedule(0.0003, 0.0, 1.0)
    {"linear": [0.2, 0.05, 0.5]}    LinearSchedule(0.2, 0.05, 0.5): 0.05 after half of the training

Spaces are objects with their kind, as ``inspect --format json`` prints them::

    {"kind": "Box", "low": -1, "high": 1, "shape": [3]}
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.constants import DATA_ENTRY
from sbformat.data import Serialized
from sbformat.errors import DataError, ValidationError, escape
from sbformat.known.changes import NEWEST, RELEASES, SCHEDULE_CLASSES, UNKNOWN, Release, parse_release
from sbformat.known.sb3 import SCHEDULE_KEYS
from sbformat.known.spaces import Space
from sbformat.known.table import find
from sbformat.known.types import ConstantSchedule, FloatSchedule, LinearSchedule
from sbformat.schema.schemas import Problem, ProblemKind
from sbformat.values import encode

if TYPE_CHECKING:
    from sbformat.known.types import Schedule

_CALLED: Final = frozenset({"lr_schedule", "exploration_schedule", "delta_std_schedule"})
"""Those that SB3 calls without a check, so that a number is written as a schedule."""
WRAPPED: Final = frozenset({"lr_schedule", "clip_range", "clip_range_vf", "delta_std_schedule"})
"""Those that SB3 wraps in a ``FloatSchedule`` since it has classes of schedules."""
_FORMS: Final = (
    'a number, {"constant": NUMBER} or {"linear": [START, END]} with END_FRACTION as an optional third number'
)
_LEAST_FRACTION: Final = 1e-12  # SB3 divides by the end fraction
_SPACES: Final = frozenset({"observation_space", "action_space"})
_SB3_UTILS: Final = "stable_baselines3.common.utils"


def encode_assigned(key: str, value: Any, target: Release) -> Any:
    """Return what ``data`` contains for a value that a caller assigns to a key; all but schedules unchanged.

    :param value: JSON, or a :class:`~sbformat.Serialized`; for a key that can have a schedule also
        ``{"constant": number}``, ``{"linear": [start, end, end_fraction]}``, or a schedule of
        :mod:`sbformat.known.types`; for a space what :func:`sbformat.spaces.from_json` takes, or a space
    :param target: the release that loads the result

    >>> encode_assigned("learning_rate", {"linear": [3e-4, 0]}, Release(2, 9))
    <Serialized "<class 'stable_baselines3.common.utils.LinearSchedule'>" 114 bytes>
    """
    if key in _SPACES and (isinstance(value, Space) or _is_form(value)):
        return _serialize_space(key, value, target)
    schedule = parse_schedule(key, value)
    if schedule is None:
        return value
    hints: dict[str, Any] = {}
    name = "function"
    written: Schedule = schedule
    if target >= SCHEDULE_CLASSES and key in WRAPPED:
        name = f"{_SB3_UTILS}.FloatSchedule"
        written = FloatSchedule(schedule)
    elif target >= SCHEDULE_CLASSES:
        name = f"{_SB3_UTILS}.{type(schedule).__name__}"
        hints = {"val": schedule.value} if isinstance(schedule, ConstantSchedule) else dict(vars(schedule))
    return Serialized(f"<class '{name}'>", encode(written, target), hints)


def _is_form(value: object) -> bool:
    """Return whether JSON stands for a value; an object of a serialized value is refused as what it is."""
    return isinstance(value, Mapping) and ":serialized:" not in value


def _serialize_space(key: str, value: Any, target: Release) -> Serialized:
    """Return a space as SB3 saves it under a key."""
    from sbformat.spaces import from_json

    try:
        space = value if isinstance(value, Space) else from_json(value)
    except DataError as error:
        _refuse(key, error.message)
    cls = find(space.pair).for_target(target)
    return Serialized(f"<class '{cls}'>", encode(space, target), space.make_hints())


def parse_schedule(key: str, value: Any) -> ConstantSchedule | LinearSchedule | None:
    """Return the schedule that a caller assigns to a key, or None for any other value."""
    while isinstance(value, FloatSchedule):
        value = value.schedule
    if key not in SCHEDULE_KEYS:
        if isinstance(value, (ConstantSchedule, LinearSchedule)):
            _refuse(key, f"a schedule is possible for {', '.join(sorted(SCHEDULE_KEYS))}, got {escape(repr(value))}")
        return None
    if isinstance(value, ConstantSchedule):
        return ConstantSchedule(_check_number(key, value.value, "a constant schedule"))
    if isinstance(value, LinearSchedule):
        return _check_linear(key, *value)
    if isinstance(value, Real) and not isinstance(value, bool):
        number = _check_number(key, value, "a constant schedule")
        return ConstantSchedule(number) if key in _CALLED else None
    if not _is_form(value):
        return None
    if set(value) == {"constant"}:
        return ConstantSchedule(_check_number(key, value["constant"], "a constant schedule"))
    numbers = value["linear"] if set(value) == {"linear"} else None
    if not isinstance(numbers, (list, tuple)) or len(numbers) not in (2, 3):
        _refuse(key, f"expected {_FORMS}, got {_show(value)}")
    return _check_linear(key, *numbers)


def find_release(version: str | None) -> Release:
    """Return the target whose values an archive of a release can have: that release, or the nearest target.

    :param version: of SB3, as the archive contains it; None before 0.9
    """
    release = parse_release(version) if version else UNKNOWN
    return NEWEST if release is None else max(min(RELEASES), min(release, NEWEST))


def _check_linear(key: str, start: object, end: object, end_fraction: object = 1.0) -> LinearSchedule:
    numbers = [_check_number(key, number, "the start and end of a linear schedule") for number in (start, end)]
    fraction = _check_number(key, end_fraction, "the end fraction of a linear schedule")
    if not _LEAST_FRACTION <= fraction <= 1:
        message = (
            f"expected an end fraction from {_LEAST_FRACTION} to 1, the part of the training after which a linear "
            f"schedule has its end value, got {fraction}"
        )
        _refuse(key, message, "value")
    return LinearSchedule(numbers[0], numbers[1], fraction)


def _check_number(key: str, value: Any, what: str) -> float:
    """Return a number of a schedule as a float: in SB3 none is negative."""
    if not isinstance(value, Real) or isinstance(value, bool):
        _refuse(key, f"expected a number of at least 0 in {what}, got {_show(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        _refuse(key, f"expected a number of at least 0 in {what}, got {number}", "value")
    return number


def _show(value: object) -> str:
    """Return a value as JSON where it is, for a message."""
    try:
        return escape(json.dumps(value), 100)
    except (TypeError, ValueError, RecursionError):
        return escape(type(value).__name__)


def _refuse(key: str, message: str, kind: ProblemKind = "type") -> NoReturn:
    shown = f"/{escape(key, 80)}"
    text = f"{shown}: {message}"
    raise ValidationError(text, problems=[Problem(DATA_ENTRY, shown, kind, "error", message)], entry=DATA_ENTRY)
