"""Curves of several runs in one figure: the reward over the steps of training, by the logs beside the agents.

In comes the curve of each run; out come figures. Of the page about many files there is one for each environment, with a
line for each algorithm, which is the mean of its runs, and a band from the lowest to the highest of them; of the page
about two files one, with a line for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.catalogue.rows import SENTENCE
from sbformat.errors import escape
from sbformat.html_report.page import format_number
from sbformat.html_report.plots import SERIES, Line, Plots
from sbformat.immutable import Record
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.catalogue.collect import FileData
    from sbformat.catalogue.rows import FileRow, RunCurve
    from sbformat.folders.logs import Curve

CURVES: Final = {"evaluations": "Mean reward of evaluations", "training": "Mean reward of the last 100 episodes"}
"""The curves of training, with the titles of their plots."""
MOST_FIGURES: Final = 12
"""Environments whose curves are drawn."""
_MOST_POINTS: Final = 60  # of a mean


class CurveRow(Record):
    """A line of a figure, as a row of its table."""

    name: str
    runs: int
    steps: int
    """The last one."""
    last: float
    """Of the line, as the next one."""
    best: float


class CurveFigure(Record):
    """The curves of one environment."""

    title: str
    caption: str
    svg: Any
    rows: tuple[CurveRow, ...]
    has_bands: bool
    omitted: int
    """Number of lines beyond those that have a colour."""


def make_curves(rows: Iterable[FileRow], plots: Plots) -> dict[str, Any]:
    """Return a figure for each environment, and how many more there are.

    Runs of an algorithm in an environment are one line. Those whose environment is not known are a line each, because
    their rewards cannot be compared.
    """
    runs: dict[tuple[str, ...], tuple[FileRow, RunCurve]] = {}
    for row in rows:
        if row.run is not None:
            runs.setdefault(row.run.logs, (row, row.run))  # checkpoints of a run have the same logs
    groups: dict[tuple[str, str], dict[str, list[Curve]]] = {}
    for row, run in runs.values():
        env, algorithm = (row.cells[key].text if key in row.cells else "" for key in ("env", "algorithm"))
        line = algorithm or "unknown algorithm" if env else row.name
        groups.setdefault((env, run.kind), {}).setdefault(line, []).append(run.curve)
    drawn = list(groups.items())[:MOST_FIGURES] if len(runs) > 1 else []
    figures = [draw_figure(env, kind, lines, plots) for (env, kind), lines in drawn]
    return {"figures": figures, "omitted": len(groups) - len(drawn) if drawn else 0}


def compare_curves(first: FileData, second: FileData, plots: Plots) -> CurveFigure | None:
    """Return the curves of two files in one figure; None if neither has one."""
    files = {"First": first, "Second": second}
    for kind in CURVES:
        curves = {name: getattr(file.training, kind, None) for name, file in files.items()}
        known = {name: [curve] for name, curve in curves.items() if curve is not None}
        if known:
            envs = dict.fromkeys(file.training.env for file in files.values() if file.training and file.training.env)
            return draw_figure(" and ".join(escape(env, SENTENCE) for env in envs), kind, known, plots)
    return None


def draw_figure(env: str, kind: str, curves: dict[str, list[Curve]], plots: Plots) -> CurveFigure:
    """Return the figure of an environment, with the first lines that have a colour."""
    shown = dict(list(curves.items())[: len(SERIES)])
    lines = {name: average_curves(found) for name, found in shown.items()}
    rows = tuple(
        CurveRow(name, len(shown[name]), round(line.steps[-1]), line.values[-1], max(line.values))
        for name, line in lines.items()
    )
    words = (f"{row.name} {format_number(row.last)} at step {row.steps:,}" for row in rows)
    title, caption = env or "Environment not known", CURVES[kind]
    svg = plots.draw_lines(list(lines.values()), label=f"{caption} in {title}, at the end: {', '.join(words)}")
    has_bands = any(line.low for line in lines.values())
    runs = count_noun(sum(map(len, shown.values())), "run")
    return CurveFigure(title, f"{caption}, {runs}", svg, rows, has_bands, len(curves) - len(shown))


def average_curves(curves: Sequence[Curve]) -> Line:
    """Return the mean of curves, and of several their lowest and highest value at each step.

    A curve counts from its first step to its last one, with straight lines between its points.
    """
    ordered = [dict(sorted(zip(map(float, curve.steps), curve.rewards))) for curve in curves]
    steps = np.array(sorted({step for points in ordered for step in points}))
    if len(steps) > _MOST_POINTS:
        steps = np.linspace(steps[0], steps[-1], _MOST_POINTS)
    table = np.array(
        [np.interp(steps, list(points), list(points.values()), left=np.nan, right=np.nan) for points in ordered]
    )
    is_there = np.isfinite(table).any(axis=0)  # a step between the end of one run and the start of another is not
    steps, table = steps[is_there], table[:, is_there]
    bands = (np.nanmin(table, axis=0).tolist(), np.nanmax(table, axis=0).tolist()) if len(curves) > 1 else ([], [])
    return Line(steps.tolist(), np.nanmean(table, axis=0).tolist(), *bands)
