"""Statistics of VecNormalize: what the agent's observations and rewards were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.archive.kinds import STATISTICS
from sbformat.constants import ARRAYS_ENTRY, SETTINGS_ENTRY
from sbformat.errors import SbformatError
from sbformat.html_report.weights import Distribution, describe_numbers
from sbformat.immutable import Record

if TYPE_CHECKING:
    from sbformat.catalogue.collect import FileData
    from sbformat.formats.vecnormalize import RunningMeanStd

MOST_PARTS: Final = 40
"""Statistics that are shown: those of observations, by key, and those of returns."""
MOST_COMPONENTS: Final = 64
"""Components of an observation that are listed one by one."""


@dataclass(frozen=True, slots=True)
class Component:
    """A component of an observation."""

    index: str
    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class RunningStatistics:
    """Mean and deviation of observations, or of returns."""

    name: str
    shape: tuple[int, ...]
    count: float
    components: tuple[Component, ...]
    """None of a large observation."""
    mean: Distribution | None
    """Of the means of all components."""
    std: Distribution | None


class StatisticsData(Record):
    """Statistics of VecNormalize, as a page shows them."""

    settings: tuple[tuple[str, Any], ...]
    parts: tuple[RunningStatistics, ...]
    omitted: int
    """Number of keys of observations whose statistics are left out."""


def collect_statistics(file: FileData) -> StatisticsData | None:
    """Return the statistics of a file or bundle; None if it has none that can be read."""
    report = file.inspected
    if file.archive is None or report is None:
        return None
    is_bundle = {SETTINGS_ENTRY, ARRAYS_ENTRY} <= set(report.extra)
    if report.format not in STATISTICS and not is_bundle:
        return None
    from sbformat.formats.vecnormalize import read_vecnormalize

    try:
        found = read_vecnormalize(file.archive)
    except SbformatError:
        return None
    observations = found.obs_rms if isinstance(found.obs_rms, dict) else {"": found.obs_rms}
    known = [(f"observations {key}".strip(), part) for key, part in observations.items() if part is not None]
    rows = [_describe(name, part) for name, part in known[: MOST_PARTS - 1]]
    rows += [_describe("returns", found.ret_rms)] if found.ret_rms is not None else []
    names = ("norm_obs", "norm_reward", "clip_obs", "clip_reward", "gamma", "epsilon", "training")
    return StatisticsData(
        tuple((name, getattr(found, name)) for name in names), tuple(rows), max(0, len(known) - MOST_PARTS + 1)
    )


def _describe(name: str, found: RunningMeanStd) -> RunningStatistics:
    mean = np.asarray(found.mean, np.float64)
    with np.errstate(all="ignore"):
        std = np.sqrt(np.asarray(found.var, np.float64))
    indices = np.ndindex(mean.shape) if mean.size <= MOST_COMPONENTS else ()
    components = tuple(Component(", ".join(map(str, at)), float(mean[at]), float(std[at])) for at in indices)
    return RunningStatistics(name, found.shape, found.count, components, describe_numbers(mean), describe_numbers(std))
