"""``history.md``: the instructions of each release, of which ``--history NAME`` adds or replaces a column."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import report

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.results import Line

PAGE: Final = Path(__file__).with_name("history.md")
RATIO: Final = "ratio"
MEASURED_WITH: Final = "CPython, numpy, jsonschema"
"""The row with the versions of each column."""
THOUSAND: Final = 1000
EXACT: Final = 100
"""From so many thousands on, a count has no decimals."""


def find_versions() -> str:
    """Return the versions that a count depends on."""
    return ", ".join((platform.python_version(), *map(importlib.metadata.version, ("numpy", "jsonschema"))))


def make_columns(lines: Iterable[Line], name: str, against: str) -> dict[str, dict[str, float]]:
    """Return the counts of this commit by the name of its column, and those of the other one, if there is one."""
    found: dict[str, dict[str, float]] = {f"commit {against}": {}, name: {}} if against else {name: {}}
    for line in lines:
        if line.ours is not None:
            found[name][line.of] = line.ours
        if line.rival and line.theirs is not None:
            found[f"commit {against}"][line.of] = line.theirs
    return found


def add_column(page: str, name: str, counts: Mapping[str, float], versions: str) -> str:
    """Return the page with a column of counts, in the place of one of that name or as the last.

    The last column of the table is the ratio of the last two releases.
    """
    lines = page.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| path |"))
    stop = next((at for at in range(start, len(lines)) if not lines[at].startswith("|")), len(lines))
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:stop])
    titles = [title for title in header[1:] if title != RATIO]
    table = {row[0]: dict(zip(titles, row[1:])) for row in rows}
    if name not in titles:
        titles.append(name)
    for path, row in table.items():
        row[name] = "" if path in counts else row.get(name, "")
    for path, count in {MEASURED_WITH: None, **counts}.items():
        table.setdefault(path, {})[name] = versions if count is None else render_count(count)
    made = [["path", *titles, RATIO], ["---", *["---:"] * (len(titles) + 1)]]
    for path, row in table.items():
        cells = [row.get(title, "") for title in titles]
        made.append([path, *cells, "" if path == MEASURED_WITH else render_ratio(cells)])
    text = [report.table_row(cells).rstrip() for cells in made]
    return "\n".join((*lines[:start], *text, *lines[stop:])) + "\n"


def render_count(count: float) -> str:
    """Return instructions in thousands."""
    return f"{count / THOUSAND:,.0f}" if count >= EXACT * THOUSAND else f"{count / THOUSAND:.1f}"


def render_ratio(cells: Sequence[str]) -> str:
    """Return the last count divided by the one before; empty without one."""
    if len(cells) < 2 or not cells[-1] or not cells[-2]:
        return ""
    last, before = (float(cell.replace(",", "")) for cell in (cells[-1], cells[-2]))
    return f"{last / before:.2f}"


def write(lines: Sequence[Line], name: str, against: str) -> None:
    """Add the counts of a run to the page."""
    page = PAGE.read_text("utf-8")
    for title, counts in make_columns(lines, name, against).items():
        page = add_column(page, title, counts, find_versions())
    PAGE.write_text(page, "utf-8", newline="\n")
