"""The page about one file: what it is, whether it is safe to load, and what is in it.

In comes a :class:`~sbformat.catalogue.collect.FileData`, out comes HTML. What the template prints is collected here:
facts, settings and spaces (also for comparisons), statistics of VecNormalize, curves of training, episodes, and the
plots of weights.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.archive.hyperparameters import describe_undecoded
from sbformat.archive.kinds import KIND_TITLES, OBJECTS, STATISTICS
from sbformat.catalogue.collect import collect_episodes
from sbformat.catalogue.rows import GROUPS, SENTENCE
from sbformat.constants import ARRAYS_ENTRY, OPTIMIZER_WORD, PTH_SUFFIX, SETTINGS_ENTRY
from sbformat.data import Serialized
from sbformat.errors import SbformatError, escape
from sbformat.html_report.diagram import make_diagram
from sbformat.html_report.page import format_number, format_shape, render_page
from sbformat.html_report.plots import Plots
from sbformat.html_report.weights import MOST_PLOTS, Distribution, collect_weights, describe_numbers
from sbformat.immutable import Record
from sbformat.known.spaces import Space
from sbformat.policies.describe import list_tables
from sbformat.rendering import count_noun, format_size
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.archive.hyperparameters import Hyperparameter
    from sbformat.catalogue.collect import FileData
    from sbformat.formats.vecnormalize import RunningMeanStd
    from sbformat.tools.inspect import InspectReport


OTHERS: Final = "Other values"
"""The group of all other keys."""
_SPACES: Final = {"observation_space": "Observation", "action_space": "Action"}


class Setting(Record):
    """A value of ``data``."""

    name: str
    value: str
    note: str
    """How it is stored, unless as JSON; or why it could not be decoded."""


class SpaceRow(Record):
    """A space of the agent."""

    role: str
    """``Observation`` or ``Action``."""
    kind: str
    """``Box``, ``Discrete``, ..., or an empty text if the space is not known."""
    text: str
    parts: tuple[tuple[str, str], ...] = ()
    """The name and the text of each space in a Dict or Tuple."""


def list_settings(report: InspectReport) -> dict[str, list[Setting]]:
    """Return the settings by group; groups without settings are left out, and files of one object have one group."""
    found = {key: value for key, value in (report.hyperparameters or {}).items() if key not in _SPACES}
    groups: dict[str, list[Setting]] = {}
    for group, keys in () if report.format in OBJECTS else GROUPS.items():
        groups[group] = [make_setting(key, found.pop(key)) for key in keys if key in found]
    groups[OTHERS] = [make_setting(key, value) for key, value in found.items()]
    return {group: rows for group, rows in groups.items() if rows}


def make_setting(name: str, found: Hyperparameter) -> Setting:
    """Return a value of ``data`` as text."""
    value = found.value
    if found.how == "json":
        return Setting(name, value if isinstance(value, str) else json.dumps(value), "")
    if isinstance(value, Serialized):
        return Setting(name, describe_undecoded(value), found.why or "")
    return Setting(name, render_line(value, name), found.why or "")


def list_spaces(report: InspectReport) -> list[SpaceRow]:
    """Return the spaces of an agent."""
    rows = []
    for key, role in _SPACES.items():
        found = (report.hyperparameters or {}).get(key)
        if found is None:
            continue
        space, text = found.value, make_setting(key, found).value
        if not isinstance(space, Space):
            rows.append(SpaceRow(role, "", text))
            continue
        kind = f"{space.class_name} of {format_shape(space.shape)}" if space.shape else space.class_name
        parts = getattr(space, "spaces", ())
        pairs = parts.items() if isinstance(parts, dict) else enumerate(parts)
        rows.append(SpaceRow(role, kind, text, tuple((str(name), render_line(part)) for name, part in pairs)))
    return rows


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
    """The distribution of the means of all components."""
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
    if report.format not in STATISTICS and not {SETTINGS_ENTRY, ARRAYS_ENTRY} <= set(report.extra):
        return None
    from sbformat.formats.vecnormalize import read_vecnormalize

    try:
        found = read_vecnormalize(file.archive)
    except SbformatError:
        return None
    observations = found.obs_rms if isinstance(found.obs_rms, dict) else {"": found.obs_rms}
    known = [(f"observations {key}".strip(), part) for key, part in observations.items() if part is not None]
    shown = known[: MOST_PARTS - 1] + ([("returns", found.ret_rms)] if found.ret_rms is not None else [])
    names = ("norm_obs", "norm_reward", "clip_obs", "clip_reward", "gamma", "epsilon", "training")
    settings = tuple((name, getattr(found, name)) for name in names)
    parts = tuple(_describe(name, part) for name, part in shown)
    return StatisticsData(settings, parts, max(0, len(known) - MOST_PARTS + 1))


def _describe(name: str, found: RunningMeanStd) -> RunningStatistics:
    mean = np.asarray(found.mean, np.float64)
    with np.errstate(all="ignore"):
        std = np.sqrt(np.asarray(found.var, np.float64))
    indices = np.ndindex(mean.shape) if mean.size <= MOST_COMPONENTS else ()
    components = tuple(Component(", ".join(map(str, at)), float(mean[at]), float(std[at])) for at in indices)
    return RunningStatistics(name, found.shape, found.count, components, describe_numbers(mean), describe_numbers(std))


_WINDOW: Final = 10  # episodes of a moving average


def average(values: Sequence[float], window: int = _WINDOW) -> list[float]:
    """Return the mean of each number and those before it, up to ``window`` of them; none for few numbers."""
    if len(values) < 2 * window:
        return []
    parts = (values[max(0, end - window) : end] for end in range(1, len(values) + 1))
    return [math.fsum(part) / len(part) for part in parts]


MOST_ROWS: Final = 500
"""Rows of a table; the others are counted."""
MOST_POINTS: Final = 500
"""Points of a curve of training: of more, means of neighbours."""


class Plot(Record):
    """A plot with its caption."""

    title: str
    svg: Any
    caption: str


class Fact(Record):
    """A figure of the summary."""

    label: str
    value: str
    remark: str = ""


def render_archive(file: FileData, *, title: str | None = None) -> str:
    """Return the page about one file."""
    plots = Plots()
    context = make_context(file, plots)
    name = os.path.basename(file.name.rstrip("/\\")) or file.name
    context |= {"heading": title or name, "path": file.name if file.name != (title or name) else ""}
    shown = title or f"{name} \u2013 sbformat report"
    return render_page("archive.html.jinja", context, title=shown)


def make_context(file: FileData, plots: Plots) -> dict[str, Any]:
    """Return what the template prints."""
    inspected = file.inspected
    network = inspected.network if inspected else None
    return {
        "file": file,
        "inspected": inspected,
        "scanned": file.scanned,
        "kind": KIND_TITLES.get(inspected.format, inspected.format) if inspected else "file that could not be read",
        "facts": list_facts(file, inspected) if inspected else [],
        "settings": list_settings(inspected) if inspected else {},
        "spaces": list_spaces(inspected) if inspected else [],
        "others": OTHERS,
        "diagram": make_diagram(network) if network else None,
        "network_tables": [table for table in list_tables(network) if table.rows] if network else [],
        "training": make_training(file, plots),
        "episodes": make_episodes(file, plots),
        "statistics": make_statistics(file, plots),
        "state_dicts": make_weights(file, plots),
        "is_object": inspected is not None and inspected.format in OBJECTS,
        "most_rows": MOST_ROWS,
    }


def list_facts(file: FileData, report: InspectReport) -> list[Fact]:
    """Return the figures at the top of a page."""
    facts = []
    if report.algorithm is not None:
        certain = "" if report.algorithm.certain else "inferred, not certain"
        facts.append(Fact("Algorithm", report.algorithm.name or "unknown", certain))
    if report.stable_baselines3_version is not None:
        facts.append(Fact("Stable-Baselines3", report.stable_baselines3_version))
    if report.policy_class is not None:
        package, _, name = report.policy_class.rpartition(".")
        facts.append(Fact("Policy", name, package))
    numel = sum(row.numel for row in report.state_dicts if OPTIMIZER_WORD not in row.name)
    lost = any(row.entry.partition("/")[0].endswith(PTH_SUFFIX) for row in report.broken)
    if report.state_dicts:
        label = "Numbers in arrays" if report.format in OBJECTS else "Parameters"
        facts.append(Fact(label, format_number(numel), "without entries that cannot be read" if lost else ""))
    steps = (report.data or {}).get("num_timesteps")
    if type(steps) is int:
        facts.append(Fact("Training steps", format_number(steps)))
    if file.scanned is not None:
        facts.append(Fact("Size", format_size(file.scanned.size)))
    return facts


def make_weights(file: FileData, plots: Plots) -> list[dict[str, Any]]:
    """Return the state dicts with the histograms of their tensors, up to :data:`MOST_PLOTS` in all."""
    made = []
    left = MOST_PLOTS
    for state_dict in collect_weights(file):
        drawn = []
        for tensor in state_dict.tensors:
            distribution = tensor.distribution
            if distribution is None or distribution.histogram is None or left == 0:
                continue
            title = tensor.row.name or "(the whole entry)"
            if tensor.parameter:  # of an optimizer: "exp_avg of action_net.bias"
                title = f"{tensor.row.name.rpartition('/')[2]} of {tensor.parameter}"
            svg = plots.draw_histogram(distribution.histogram, label=f"Histogram: {distribution.describe()}")
            drawn.append(Plot(title, svg, format_shape(tensor.row.shape)))
            left -= 1
        made.append({"data": state_dict, "plots": drawn})
    return made


def make_episodes(file: FileData, plots: Plots) -> dict[str, Any] | None:
    """Return the episodes with plots of their rewards and lengths."""
    found = collect_episodes(file)
    if found is None:
        return None
    drawn = []
    for title, values in (("Reward", found.rewards), ("Length in steps", found.lengths)):
        numbers = describe_numbers(np.asarray(values, np.float64))
        caption = numbers.describe() if numbers is not None else ""
        svg = plots.draw_series(values, average(values), label=f"{title} of {len(values)} episodes: {caption}")
        drawn.append(Plot(title, svg, caption))
    return {
        "data": found,
        "plots": drawn,
        "rows": list(zip(found.rewards, found.lengths)),
        "has_averages": bool(average(found.rewards)),
    }


_CURVES: Final = {"evaluations": "Mean reward of evaluations", "training": "Mean reward of the last 100 episodes"}
"""The curves of training, with the titles of their plots."""


def make_training(file: FileData, plots: Plots) -> dict[str, Any] | None:
    """Return what the logs beside an agent say, with a plot of each curve."""
    found = file.training
    if found is None:
        return None
    drawn, tables = [], []
    for name, title in _CURVES.items():
        curve = getattr(found, name)
        if curve is None:
            continue
        places = {"best": curve.best, "last": -1}
        points = (f"{what} {curve.rewards[at]:,.6g} at step {curve.steps[at]:,}" for what, at in places.items())
        caption = f"{count_noun(len(curve.steps), 'point')}: {', '.join(points)}"
        shown = curve.thin(MOST_POINTS)
        svg = plots.draw_curve(shown.steps, shown.rewards, label=f"{title}, {caption}")
        drawn.append(Plot(title, svg, caption))
        tables.append((title, list(zip(shown.steps, shown.rewards))))
    facts = (("Environment", found.env and escape(found.env, SENTENCE)), ("Seed", found.seed))
    return {
        "facts": [Fact(label, str(value)) for label, value in facts if value is not None],
        "plots": drawn,
        "tables": tables,
        "files": found.files,
        "problems": list(found.problems.items()),
    }


def make_statistics(file: FileData, plots: Plots) -> dict[str, Any] | None:
    """Return the statistics of VecNormalize with a plot of each."""
    found = collect_statistics(file)
    if found is None:
        return None
    drawn = []
    for part in found.parts:
        figures = []
        centers, widths = [row.mean for row in part.components], [row.std for row in part.components]
        if len(part.components) > 1 and all(map(math.isfinite, (*centers, *widths))):
            svg = plots.draw_intervals(centers, widths, label=f"Mean and deviation of {part.name}")
            figures.append(Plot("Mean \u00b1 standard deviation by component", svg, ""))
        for title, numbers in (("Means", part.mean), ("Standard deviations", part.std)):
            if len(part.components) <= 1 and numbers is not None and numbers.histogram is not None:
                svg = plots.draw_histogram(numbers.histogram, label=f"{title}: {numbers.describe()}")
                figures.append(Plot(title, svg, numbers.describe()))
        drawn.append((part, figures))
    return {"data": found, "parts": drawn}
