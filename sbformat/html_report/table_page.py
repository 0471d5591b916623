"""The page about many files: a table of them, a chart of their rewards, and curves of their runs.

In come rows, out comes HTML. The table contains all rows; scripts of the page sort, filter and hide columns, and draw
the chart of the rows that are shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sbformat.catalogue.rows import make_table
from sbformat.html_report.curves import make_curves
from sbformat.html_report.page import read_template, render_page
from sbformat.html_report.plots import Plots
from sbformat.io.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.catalogue.rows import Column, FileRow

_CLEAN: Final = "clean"
REWARDS: Final = ("mean_reward", "last_evaluation", "best_evaluation")
"""The columns that the chart draws, the first of which it shows."""
_BESIDE: Final = ("env", "seed")
"""Columns that are shown beside each other: what was trained in, and the number that differs between runs."""
FEWEST_IN_CHART: Final = 4
"""Rewards that a chart is drawn of."""


def render_table(rows: Iterable[FileRow], *, title: str | None = None) -> str:
    """Return the page about many files, in their order."""
    plots = Plots()
    listed = list(rows)
    kept = fold_statistics(listed)
    table = make_table(kept)
    folded = len(listed) - len(kept)
    verdicts = tuple((text, count + folded * (text == _CLEAN)) for text, count in table.verdicts)
    table = table._replace(columns=_place_columns(table.columns), verdicts=verdicts)
    heading = title or f"{len(listed):,} files"
    rewards = list_rewards(table.columns, kept)
    context = {
        "table": table,
        "heading": heading,
        "folded": folded,
        "rewards": rewards,
        "curves": make_curves(kept, plots),
    }
    style = read_template("table.css")
    scripts = ["table.js", *(["chart.js"] if rewards else [])]
    page_title = f"{heading} \u2013 sbformat report"
    return render_page("table.html.jinja", context, title=page_title, style=style, scripts=scripts)


def fold_statistics(rows: Sequence[FileRow]) -> list[FileRow]:
    """Return the rows without those of statistics that belong to an agent of another row, which names them.

    Statistics that are not clean stay.
    """
    belonging = {_find_path(path) for row in rows for path in row.statistics}
    return [row for row in rows if not _is_clean(row) or _find_path(row.name) not in belonging]


def _is_clean(row: FileRow) -> bool:
    return not row.is_broken and "verdict" in row.cells and row.cells["verdict"].text == _CLEAN


def _find_path(name: str) -> str:
    return name if is_url(name) else os.path.abspath(name)


def _place_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns with the environment and the seed beside each other, and both shown."""
    moved = [column._replace(is_shown=True) for key in _BESIDE for column in columns if column.key == key]
    others = [column for column in columns if column.key not in _BESIDE]
    before = sum(column.key in ("verdict", "algorithm") for column in others)
    return (*others[:before], *moved, *others[before:])


def list_rewards(columns: Sequence[Column], rows: Sequence[FileRow]) -> list[Column]:
    """Return the columns of rewards that enough rows have: fewer are read faster in the table."""
    found = {column.key: column for column in columns if column.key in REWARDS and column.is_number}
    return [found[key] for key in REWARDS if key in found and sum(key in row.cells for row in rows) >= FEWEST_IN_CHART]
