"""The page about one file: what it is, whether it is safe to load, and what is in it.

In comes a :class:`~sbformat.catalogue.collect.FileData`, out comes HTML. What the template prints is collected here:
facts, settings and spaces (also for comparisons), statistics of VecNormalize, curves of training, episodes, and the
plots of weights.
"""

from __future__ import annotations

import json
import math
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
from sbformat.folders.names import name_in_run
from sbformat.html_report.curves import CURVES
from sbformat.html_report.diagram import make_diagram
from sbformat.html_report.page import (
    format_number,
    format_reward,
    format_shape,
    mark_safe,
    read_template,
    render_page,
)
from sbformat.html_report.plots import Plots
from sbformat.html_report.weights import MOST_PLOTS, Distribution, collect_weights, describe_numbers
from sbformat.immutable import Record
from sbformat.known.sb3 import EXAMINED_KEYS, START_TIME
from sbformat.known.spaces import Space
from sbformat.known.types import ConstantSchedule
from sbformat.policies.describe import list_tables
from sbformat.rendering import count_noun, format_size, render_time
from sbformat.values.render import render_line
from sbformat.values.schedule_meaning import find_meaning, sample, unwrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.archive.hyperparameters import Hyperparameter
    from sbformat.catalogue.collect import FileData
    from sbformat.formats.vecnormalize import RunningMeanStd
    from sbformat.html_report.actions_panel import ActionsPanel
    from sbformat.policies.describe import Layer
    from sbformat.tools.inspect import InspectReport
    from sbformat.values.schedule_meaning import Meaning


OTHERS: Final = "Other values"
"""The group of all other keys."""
_SPACES: Final = {"observation_space": "Observation", "action_space": "Action"}


class Setting(Record):
    """A value of ``data``."""

    name: str
    value: str
    note: str
    """How it is stored, unless as JSON; or why it could not be decoded."""
    schedule: Meaning | None = None
    """What it computes, if that changes during the training."""


class SpaceRow(Record):
    """A space of the agent."""

    role: str
    """``Observation`` or ``Action``."""
    kind: str
    """``Box``, ``Discrete``, ..., or an empty text if the space is not known."""
    text: str
    parts: tuple[tuple[str, str], ...] = ()
    """The name and the text of each space in a Dict or Tuple."""


RATE, RATE_SCHEDULE = "learning_rate", "lr_schedule"
"""What the user gave, and the schedule that SB3 makes of it."""


def list_settings(report: InspectReport, *, repeats_rate: bool = False) -> dict[str, list[Setting]]:
    """Return the settings by group; groups without settings are left out, and files of one object have one group.

    :param repeats_rate: whether to list ``lr_schedule`` beside a ``learning_rate`` that says the same
    """
    found = {key: value for key, value in (report.hyperparameters or {}).items() if key not in _SPACES}
    if not repeats_rate and is_rate_repeated(found):
        del found[RATE_SCHEDULE]
    groups: dict[str, list[Setting]] = {}
    for group, keys in () if report.format in OBJECTS else GROUPS.items():
        groups[group] = [make_setting(key, found.pop(key)) for key in keys if key in found]
    groups[OTHERS] = [make_setting(key, value) for key, value in found.items()]
    return {group: rows for group, rows in groups.items() if rows}


def is_rate_repeated(values: Mapping[str, Hyperparameter]) -> bool:
    """Return whether ``lr_schedule`` is the ``learning_rate``, as a number, or as the same function."""
    if not {RATE, RATE_SCHEDULE} <= set(values):
        return False
    rate, schedule = values[RATE].value, values[RATE_SCHEDULE].value
    one, other = find_meaning(rate).schedule, find_meaning(schedule).schedule
    if isinstance(one, ConstantSchedule) and isinstance(other, ConstantSchedule):
        return one.value == other.value  # an integer, of which SB3 makes a float
    try:
        if one is not None:
            return one == other
        return not isinstance(rate, Serialized) and bool(unwrap(rate) == unwrap(schedule))
    except RecursionError:  # two functions with values too deep to be compared: both are listed
        return False


def make_setting(name: str, found: Hyperparameter) -> Setting:
    """Return a value of ``data`` as text."""
    value = found.value
    if name == START_TIME and (time := render_time(value)):
        return Setting(name, time, "")
    if found.how == "json":
        if isinstance(value, (dict, list)):  # in the form of pickled ones, which the other file of two may have
            return Setting(name, render_line(value, name), "")
        return Setting(name, value if isinstance(value, str) else json.dumps(value), "")
    if isinstance(value, Serialized):
        return Setting(name, describe_undecoded(value), found.why or "")
    meaning = find_meaning(value, examines=name in EXAMINED_KEYS)
    schedule = meaning.schedule
    is_known = schedule is not None and not meaning.is_from_bytecode  # then the name of a function says no more
    shown = schedule.value if is_known and isinstance(schedule, ConstantSchedule) else schedule if is_known else value
    changing = None if isinstance(schedule, ConstantSchedule) else schedule
    return Setting(name, render_line(shown, name), found.why or "", changing)


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
    name: str = ""
    """Its id in the page."""


class Fact(Record):
    """A figure of the summary."""

    label: str
    value: str
    remark: str = ""


TRAINING_REWARD: Final = "Training reward"
REWARDS: Final = ("Best evaluation", "Last evaluation", TRAINING_REWARD)
"""The figures that are rewards: their remarks are the step or the episodes."""


def render_archive(file: FileData, *, title: str | None = None, panel: ActionsPanel | None = None) -> str:
    """Return the page about one file, with the panel of its actions if there is one."""
    plots = Plots()
    context = make_context(file, plots)
    name = name_in_run(file.name) or file.name
    context |= {"heading": title or name, "path": file.name if file.name != (title or name) else ""}
    shown = title or f"{name} \u2013 sbformat report"
    if panel is None:
        return render_page("archive.html.jinja", context | {"actions": None}, title=shown)
    from sbformat.html_report.actions_panel import STYLE, make_script

    context |= {"actions": {"notes": panel.notes, "program": mark_safe(panel.program)}}
    style, scripts = read_template(STYLE), [make_script()]
    return render_page("archive.html.jinja", context, title=shown, style=style, scripts=scripts)


def make_context(file: FileData, plots: Plots) -> dict[str, Any]:
    """Return what the template prints."""
    inspected = file.inspected
    network = inspected.network if inspected else None
    settings = list_settings(inspected) if inspected else {}
    diagram = make_diagram(network) if network else None
    state_dicts = make_weights(file, plots)
    return {
        "file": file,
        "inspected": inspected,
        "scanned": file.scanned,
        "kind": KIND_TITLES.get(inspected.format, inspected.format) if inspected else "file that could not be read",
        "facts": list_facts(file, inspected) if inspected else [],
        "settings": settings,
        "schedules": draw_schedules([row for rows in settings.values() for row in rows], plots),
        "spaces": list_spaces(inspected) if inspected else [],
        "others": OTHERS,
        "diagram": diagram,
        "panels": make_panels(network.layers, state_dicts) if network and diagram else {},
        "network_tables": [table for table in list_tables(network) if table.rows] if network else [],
        "training": make_training(file, plots),
        "episodes": make_episodes(file, plots),
        "statistics": make_statistics(file, plots),
        "state_dicts": state_dicts,
        "is_object": inspected is not None and inspected.format in OBJECTS,
        "most_rows": MOST_ROWS,
    }


def list_facts(file: FileData, report: InspectReport) -> list[Fact]:
    """Return the figures at the top of a page."""
    facts = []
    if report.algorithm is not None:
        certain = "" if report.algorithm.certain else "inferred, not certain"
        facts.append(Fact("Algorithm", report.algorithm.name or "unknown", certain))
    facts += _list_run_facts(file, report)
    steps = (report.data or {}).get("num_timesteps")
    if type(steps) is int:
        facts.append(Fact("Training steps", format_number(steps)))
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
    if file.scanned is not None:
        facts.append(Fact("Size", format_size(file.scanned.size)))
    return facts


def _list_run_facts(file: FileData, report: InspectReport) -> list[Fact]:
    """Return what an agent was trained in, with which seed, and what rewards it had."""
    facts = []
    training = file.training
    if training is not None and training.env is not None:
        facts.append(Fact("Environment", escape(training.env, SENTENCE), _name_source(training.env_file)))
    seed = (report.hyperparameters or {}).get("seed")
    if seed is not None and seed.value is not None:
        facts.append(Fact("Seed", make_setting("seed", seed).value))
    elif training is not None and training.seed is not None:
        facts.append(Fact("Seed", str(training.seed), _name_source(training.seed_file)))
    curve = training.evaluations if training is not None else None
    if curve is not None:
        for label, at in zip(REWARDS, (curve.best, -1)):
            facts.append(Fact(label, format_reward(curve.rewards[at]), f"at step {curve.steps[at]:,}"))
    episodes = collect_episodes(file)
    if episodes is not None:
        mean = math.fsum(episodes.rewards) / len(episodes.rewards)
        which = "the last episode" if len(episodes.rewards) == 1 else f"the last {len(episodes.rewards):,} episodes"
        facts.append(Fact(TRAINING_REWARD, format_reward(mean), f"in {which}"))
    return facts


def _name_source(name: str) -> str:
    return f"from {escape(name.rpartition('/')[2], SENTENCE)}"


_MOST_SCHEDULES: Final = 20  # that are drawn
_SAMPLES: Final = 40  # of a schedule, and one more


def _sample(schedule: Meaning, elapsed: float) -> float:
    """Return the value of a schedule; NaN for an integer that is larger than any float."""
    try:
        return float(sample(schedule, 1 - elapsed))
    except OverflowError:
        return math.nan


def draw_schedules(settings: Iterable[Setting], plots: Plots) -> dict[str, Any]:
    """Return a plot of each schedule that changes during the training, by the name of the setting."""
    drawn: dict[str, Any] = {}
    for setting in settings:
        if setting.schedule is None or len(drawn) >= _MOST_SCHEDULES:
            continue
        values = [_sample(setting.schedule, part / _SAMPLES) for part in range(_SAMPLES + 1)]
        finite = [value for value in values if math.isfinite(value)]
        if finite:
            ends = f"from {format_number(finite[0])} to {format_number(finite[-1])}"
            drawn[setting.name] = plots.draw_schedule(values, label=f"{setting.name} during the training: {ends}")
    return drawn


def make_weights(file: FileData, plots: Plots) -> list[dict[str, Any]]:
    """Return the state dicts with the histograms of their tensors, up to :data:`MOST_PLOTS` in all."""
    made = []
    left = MOST_PLOTS
    for state_dict in collect_weights(file):
        drawn: dict[str, Plot] = {}
        for tensor in state_dict.tensors:
            distribution = tensor.distribution
            if distribution is None or distribution.histogram is None or left == 0:
                continue
            title = tensor.row.name or "(the whole entry)"
            if tensor.parameter:  # of an optimizer: "exp_avg of action_net.bias"
                title = f"{tensor.row.name.rpartition('/')[2]} of {tensor.parameter}"
            name = plots.next_name
            svg = plots.draw_histogram(distribution.histogram, label=f"Histogram: {distribution.describe()}")
            drawn[tensor.row.name] = Plot(title, svg, format_shape(tensor.row.shape), name)
            left -= 1
        made.append({"data": state_dict, "plots": drawn})
    return made


class Weight(Record):
    """A tensor of a layer."""

    name: str
    caption: str
    """Its shape and its numbers."""
    plot: str
    """The id of its histogram; empty without one."""


class Panel(Record):
    """What the page shows of a layer that is selected in the diagram."""

    id: str
    facts: tuple[tuple[str, str], ...]
    weights: tuple[Weight, ...]


def make_panels(layers: Iterable[Layer], state_dicts: Sequence[dict[str, Any]]) -> dict[str, Panel]:
    """Return the panel of each layer by its name.

    :param state_dicts: of :func:`make_weights`
    """
    known: dict[str, Weight] = {}
    for state_dict in state_dicts:
        entry, drawn = state_dict["data"].report.name, state_dict["plots"]
        for tensor in state_dict["data"].tensors:
            name = tensor.row.name
            numbers = tensor.distribution.describe() if tensor.distribution is not None else tensor.remark
            caption = "; ".join(filter(None, (format_shape(tensor.row.shape), numbers)))
            shown = name.replace("~1", "/").replace("~0", "~")  # names of SB2 have slashes, which paths escape
            weight = Weight(shown, caption, drawn[name].name if name in drawn else "")
            known |= {f"{entry}:{name}": weight, f"{entry}:{shown}": weight}
    panels: dict[str, Panel] = {}
    for place, layer in enumerate(layers):
        before = ", ".join(dict.fromkeys(map(format_shape, layer.input_shapes)))
        facts = {
            "Operation": layer.operation,
            "Reads": ", ".join(layer.inputs),
            "Shape": f"{before} \u2192 {format_shape(layer.shape)}" if before else format_shape(layer.shape),
            "Activation": layer.activation or "",
            "Parameters": f"{layer.parameter_count:,}" if layer.weights else "",
        }
        weights = tuple(known.get(address) or Weight(address, "", "") for address in layer.weights)
        panels[layer.name] = Panel(f"layer-{place}", tuple(row for row in facts.items() if row[1]), weights)
    return panels


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


def make_training(file: FileData, plots: Plots) -> dict[str, Any] | None:
    """Return what the logs beside an agent say, with a plot of each curve."""
    found = file.training
    if found is None or not (found.files or found.evaluations or found.training or found.problems):
        return None
    drawn, tables = [], []
    for name, title in CURVES.items():
        curve = getattr(found, name)
        if curve is None:
            continue
        places = {"best": curve.best, "last": -1}
        points = (
            f"{what} {format_reward(curve.rewards[at])} at step {curve.steps[at]:,}" for what, at in places.items()
        )
        caption = f"{count_noun(len(curve.steps), 'point')}: {', '.join(points)}"
        shown = curve.thin(MOST_POINTS)
        svg = plots.draw_curve(shown.steps, shown.rewards, label=f"{title}, {caption}")
        drawn.append(Plot(title, svg, caption))
        tables.append((title, list(zip(shown.steps, shown.rewards))))
    return {
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
