"""The results of a measurement as lines: our value, a rival's, the ratio with its spread, and the goal."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FASTEST: Final = "the fastest rival"
Samples = dict[str, dict[str, float]]
"""By subject, then by the key that makes pairs: the number of a round, or the name of an archive."""


class Curve(NamedTuple):
    """The seconds of one operation at several sizes."""

    name: str
    unit: str
    """The unit of the sizes."""
    points: tuple[tuple[int, float], ...]


class Spread(NamedTuple):
    """A median and its quartiles."""

    median: float
    lower: float
    upper: float


class Line(NamedTuple):
    """One number of sbformat, and that of a rival if there is one."""

    measure: str
    of: str
    """What was measured: ``time``, ``peak RSS``."""
    unit: str
    """``s``, ``B``, ``instructions``, or empty for a plain number."""
    ours: float | None
    rival: str = ""
    theirs: float | None = None
    ratio: Spread | None = None
    """Our value divided by theirs, pair by pair."""
    limit: float | None = None
    """The goal: for the median ratio if there is a rival, otherwise for our number."""
    our_peak: int | None = None
    """Peak resident memory in bytes."""
    their_peak: int | None = None
    note: str = ""

    @property
    def found(self) -> float | None:
        """The number that the goal limits."""
        return (self.ratio and self.ratio.median) if self.rival else self.ours

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without a goal, or if it was not measured."""
        return None if self.limit is None or self.found is None else self.found <= self.limit


def spread(values: Iterable[float]) -> Spread:
    """Return the median and the quartiles of one or more values."""
    found = sorted(values)
    if len(found) == 1:
        return Spread(found[0], found[0], found[0])
    lower, median, upper = statistics.quantiles(found, n=4, method="inclusive")
    return Spread(median, lower, upper)


def ratios(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Spread | None:
    """Return the ratios of the pairs that both have."""
    paired = [ours[key] / theirs[key] for key in theirs if key in ours]
    return spread(paired) if paired else None


def compare(
    measure: str,
    samples: Samples,
    *,
    us: str,
    goals: Mapping[str, float] | None = None,
    rivals: Iterable[str] = (),
    peaks: Mapping[str, int] | None = None,
    missing: Mapping[str, str] | None = None,
    of: str = "time",
    unit: str = "s",
    note: str = "",
) -> list[Line]:
    """Return a line for each rival.

    :param goals: the largest allowed ratio to a subject, or to ``FASTEST``
    :param rivals: the subjects of which the fastest is ``FASTEST``
    :param missing: subjects that could not be measured, and why
    """
    goals, peaks, ours = dict(goals or {}), peaks or {}, samples[us]
    others = {name: values for name, values in samples.items() if name != us and values}
    pairs = {name: ratios(ours, values) for name, values in others.items()}
    racing = [name for name in rivals if pairs.get(name)]
    first = max(racing, key=lambda name: pairs[name].median, default=None)
    median = statistics.median(ours.values())
    lines = []
    for name, values in others.items():
        limits = [goals[name]] if name in goals else []
        if name == first and FASTEST in goals:
            limits.append(goals[FASTEST])
        notes = [note] if note else []
        if name == first and len(racing) > 1:
            notes.append("the fastest rival")
        if len(values) < len(ours):
            notes.append(f"{len(values)} of {len(ours)} pairs")
        lines.append(
            Line(
                measure, of, unit, median, name, statistics.median(values.values()), pairs[name],
                min(limits, default=None), peaks.get(us), peaks.get(name), "; ".join(notes),
            )
        )  # fmt: skip
    for name, why in (missing or {}).items():
        lines.append(Line(measure, of, unit, median, name, limit=goals.get(name), our_peak=peaks.get(us), note=why))
    return lines or [Line(measure, of, unit, median, our_peak=peaks.get(us), note=note)]
