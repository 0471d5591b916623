"""The page about one file: what it is, whether it is safe to load, and what is in it."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.kinds import KIND_TITLES, OBJECTS
from sbformat.catalogue.collect import collect_episodes
from sbformat.constants import OPTIMIZER_WORD, PTH_SUFFIX
from sbformat.html_report.diagram import make_diagram
from sbformat.html_report.episodes import average, summarize_numbers
from sbformat.html_report.normalization import collect_statistics
from sbformat.html_report.page import format_number, format_shape, format_size, render_page
from sbformat.html_report.plots import Plots
from sbformat.html_report.settings import OTHERS, list_settings, list_spaces
from sbformat.html_report.weights import MOST_PLOTS, collect_weights
from sbformat.immutable import Record
from sbformat.policies.describe import list_tables

if TYPE_CHECKING:
    from sbformat.catalogue.collect import FileData
    from sbformat.html_report.weights import TensorData
    from sbformat.policies.describe import Table
    from sbformat.tools.inspect import InspectReport

MOST_ROWS: Final = 500
"""Rows of a table; the others are counted."""


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
    return render_page("archive.html.jinja", context, title=shown, style=plots.style)


def make_context(file: FileData, plots: Plots) -> dict[str, Any]:
    """Return what the template prints."""
    inspected = file.inspected
    return {
        "file": file,
        "inspected": inspected,
        "scanned": file.scanned,
        "kind": KIND_TITLES.get(inspected.format, inspected.format) if inspected else "file that could not be read",
        "facts": list_facts(file, inspected) if inspected else [],
        "settings": list_settings(inspected) if inspected else {},
        "spaces": list_spaces(inspected) if inspected else [],
        "others": OTHERS,
        "diagram": make_diagram(inspected.network) if inspected and inspected.network else None,
        "network_tables": _list_network_tables(inspected),
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


def _list_network_tables(report: InspectReport | None) -> list[Table]:
    if report is None or report.network is None:
        return []
    return [table for table in list_tables(report.network) if table.rows]


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
            label = f"Histogram: {distribution.describe()}"
            svg = plots.draw_histogram(distribution.histogram, label=label)
            drawn.append(Plot(_name_tensor(tensor), svg, format_shape(tensor.row.shape)))
            left -= 1
        made.append({"data": state_dict, "plots": drawn})
    return made


def _name_tensor(tensor: TensorData) -> str:
    """Return what a plot of a tensor is called: ``exp_avg of action_net.bias`` in the state of an optimizer."""
    if not tensor.parameter:
        return tensor.row.name or "(the whole entry)"
    return f"{tensor.row.name.rpartition('/')[2]} of {tensor.parameter}"


def make_episodes(file: FileData, plots: Plots) -> dict[str, Any] | None:
    """Return the episodes with plots of their rewards and lengths."""
    found = collect_episodes(file)
    if found is None:
        return None
    drawn = []
    for title, values in (("Reward", found.rewards), ("Length in steps", found.lengths)):
        numbers = summarize_numbers(values)
        caption = numbers.describe() if numbers is not None else ""
        svg = plots.draw_series(values, average(values), label=f"{title} of {len(values)} episodes: {caption}")
        drawn.append(Plot(title, svg, caption))
    return {
        "data": found,
        "plots": drawn,
        "rows": list(zip(found.rewards, found.lengths)),
        "has_averages": bool(average(found.rewards)),
    }


def make_statistics(file: FileData, plots: Plots) -> dict[str, Any] | None:
    """Return the statistics of VecNormalize with a plot of each."""
    found = collect_statistics(file)
    if found is None:
        return None
    drawn = []
    for part in found.parts:
        if len(part.components) > 1:
            centers, widths = [row.mean for row in part.components], [row.std for row in part.components]
            is_finite = all(map(math.isfinite, (*centers, *widths)))
            svg = plots.draw_intervals(centers, widths, label=f"Mean and deviation of {part.name}") if is_finite else ""
            drawn.append([Plot("Mean \u00b1 standard deviation by component", svg, "")] if is_finite else [])
        else:
            drawn.append([])
            for title, numbers in (("Means", part.mean), ("Standard deviations", part.std)):
                if numbers is not None and numbers.histogram is not None:
                    svg = plots.draw_histogram(numbers.histogram, label=f"{title}: {numbers.describe()}")
                    drawn[-1].append(Plot(title, svg, numbers.describe()))
    return {"data": found, "parts": list(zip(found.parts, drawn))}
