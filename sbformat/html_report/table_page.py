"""The page about many files: a table of them, a chart of their rewards, and curves of their runs.

In come rows, out comes HTML. The table contains all rows; scripts of the page sort, filter and hide columns, and draw
the chart of the rows that are shown.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Final

from sbformat.archive.kinds import KIND_TITLES, STATISTICS
from sbformat.catalogue.rows import make_table
from sbformat.folders.names import AGENTS
from sbformat.html_report.curves import make_curves
from sbformat.html_report.page import count_decimals, format_reward, read_template, render_page
from sbformat.html_report.plots import Plots
from sbformat.immutable import Record
from sbformat.io.urls import is_url
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from sbformat.catalogue.rows import Column, FileRow, FileTable

_CLEAN: Final = "clean"
REWARDS: Final = ("mean_reward", "last_evaluation", "best_evaluation")
"""The columns that the chart draws, the first of which it shows."""
_FIRST: Final = ("algorithm", "env", "seed", "best_evaluation", "last_evaluation", "mean_reward", "timesteps")
"""The columns that are shown first and always: what was trained, in what, and how well."""
_TITLES: Final = {"seed": "Seed"}
"""Titles of hyper-parameters that are among facts; others have their name in SB3."""
_NEARLY_ALL: Final = 0.9  # of the files have the value of a column that is not shown
_MOST_EXCEPTIONS: Final = 3  # that are listed
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
    usual = list_usual(table)
    columns = _place_columns(table, {row.key for row in usual})
    table = table._replace(rows=_align_rewards(table.rows), columns=columns, verdicts=verdicts)
    contents = describe_files(listed)
    heading = title or contents
    rewards = list_rewards(table.columns, kept)
    is_agents = all(_find_kind(row) in _AGENT_KINDS for row in kept)
    context = {
        "table": table,
        "heading": heading,
        "contents": contents,
        "noun": "agents" if is_agents else "rows" if folded else "files",
        "total": len(listed),
        "usual": usual,
        "folded": folded,
        "rewards": rewards,
        "curves": make_curves(kept, plots),
    }
    style = read_template("table.css")
    scripts = [read_template(name) for name in ("table.js", *(["chart.js"] if rewards else []))]
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


_AGENT_KINDS: Final = frozenset(title for kind, title in KIND_TITLES.items() if kind in AGENTS)
_STATISTICS_KINDS: Final = frozenset(title for kind, title in KIND_TITLES.items() if kind in STATISTICS)


def _find_kind(row: FileRow) -> str:
    return row.cells["kind"].text if "kind" in row.cells else ""


def describe_files(rows: Iterable[FileRow]) -> str:
    """Return how many agents and other files there are: ``25 agents and 1 file of statistics``."""
    kinds = [_find_kind(row) for row in rows]
    agents = sum(kind in _AGENT_KINDS for kind in kinds)
    statistics = sum(kind in _STATISTICS_KINDS for kind in kinds)
    others = len(kinds) - agents - statistics
    parts = [
        count_noun(agents, "agent") if agents else "",
        count_noun(statistics, "file of statistics", "files of statistics") if statistics else "",
        count_noun(others, "other file" if agents or statistics else "file") if others else "",
    ]
    *before, last = filter(None, parts)
    return f"{', '.join(before)} and {last}" if before else last


class Usual(Record):
    """A column that is not shown, because nearly all files have the same value."""

    key: str
    title: str
    value: str
    """Empty if nearly all have none."""
    exceptions: tuple[tuple[str, str], ...]
    """The first files with another value, and that."""
    omitted: int
    """Number of further exceptions."""


def list_usual(table: FileTable) -> list[Usual]:
    """Return the columns, of those shown, in which nearly all files that can be read have one value or none."""
    rows = [row for row in table.rows if row.failure is None]
    found = []
    for column in table.columns:
        if not column.is_shown or column.key in _FIRST or column.key == "verdict":
            continue
        values = [row.cells[column.key].text if column.key in row.cells else "" for row in rows]
        ((value, count),) = Counter(values).most_common(1)
        if count >= _NEARLY_ALL * len(rows):
            others = [(row.name, other) for row, other in zip(rows, values) if other != value]
            omitted = max(0, len(others) - _MOST_EXCEPTIONS)
            found.append(Usual(column.key, column.title, value, tuple(others[:_MOST_EXCEPTIONS]), omitted))
    return found


def _place_columns(table: FileTable, hidden: Container[str]) -> tuple[Column, ...]:
    """Return the columns in the order of the page: the verdict unless all files are clean, then those of all runs."""
    is_clean = all(_is_clean(row) for row in table.rows)
    columns = {column.key: column._replace(title=_TITLES.get(column.key, column.title)) for column in table.columns}
    ordered = [columns[key] for key in dict.fromkeys(("verdict", *_FIRST, "learning_rate", *columns)) if key in columns]
    return tuple(
        column._replace(
            is_shown=not is_clean if column.key == "verdict"
            else column.key in _FIRST or (column.is_shown and column.key not in hidden)
        )
        for column in ordered
    )  # fmt: skip


def _align_rewards(rows: Iterable[FileRow]) -> tuple[FileRow, ...]:
    """Return the rows with rewards that have as many decimals as the others of their column, up to two."""
    listed = list(rows)
    for key in REWARDS:
        numbers = [row.cells[key].number if key in row.cells else None for row in listed]
        known = [number for number in numbers if number is not None]
        decimals = min(2, max((count_decimals(format_reward(number)) for number in known), default=0))
        for at, number in enumerate(numbers):
            if number is not None:
                cell = listed[at].cells[key]._replace(text=format_reward(number, decimals))
                listed[at] = listed[at]._replace(cells={**listed[at].cells, key: cell})
    return tuple(listed)


def list_rewards(columns: Sequence[Column], rows: Sequence[FileRow]) -> list[Column]:
    """Return the columns of rewards that enough rows have: fewer are read faster in the table."""
    found = {column.key: column for column in columns if column.key in REWARDS and column.is_number}
    return [found[key] for key in REWARDS if key in found and sum(key in row.cells for row in rows) >= FEWEST_IN_CHART]
