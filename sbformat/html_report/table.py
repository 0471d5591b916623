"""Many files as a table: a row for each, with columns for what they are and for the hyper-parameters that differ.

:func:`collect_row` keeps of a file what its row shows, so that a thousand files are not in memory together.
:func:`make_table` divides what the rows have into columns, which differ between files, and values that all files share.
The page contains the whole table; its script sorts, filters and hides columns, and without it everything is there.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.archive.kinds import KIND_TITLES, OBJECTS
from sbformat.constants import OPTIMIZER_WORD
from sbformat.data import Serialized
from sbformat.errors import escape
from sbformat.html_report.collect import Failure, FileData
from sbformat.html_report.episodes import collect_episodes
from sbformat.html_report.page import format_size, read_template, render_page
from sbformat.html_report.settings import GROUPS
from sbformat.tools.scan.report import VERDICTS
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.archive.hyperparameters import Hyperparameter

_CELL: Final = 80
"""Characters of a cell."""
_NAME: Final = 300
"""Characters of the name of a file."""
_MOST_COLUMNS: Final = 150
_MOST_KEYS: Final = 300
"""Keys of one file that can become columns."""
_SHOWN_COLUMNS: Final = 12
"""Hyper-parameters that a page shows at first; the others can be added."""
_MOST_FINDINGS: Final = 5
"""Findings of one file that are listed."""
_SENTENCE: Final = 400
_NUMBER: Final = re.compile(r"(?:constant )?(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?= \(|, from|$)")
"""A number, or what :func:`~sbformat.values.render.render_line` writes for an array of one item or a schedule."""

NAME: Final = "file"
FACTS: Final = {
    "verdict": "Verdict",
    "algorithm": "Algorithm",
    "policy": "Policy",
    "sb3_version": "SB3 version",
    "timesteps": "Timesteps",
    "mean_reward": "Mean reward",
    "episodes": "Episodes",
    "parameters": "Parameters",
    "size": "Size",
    "kind": "Kind",
    "observation_space": "Observation space",
    "action_space": "Action space",
}
"""The columns that are not hyper-parameters, with their titles."""
_HIDDEN_FACTS: Final = frozenset({"kind", "episodes", "observation_space", "action_space"})
_IN_FACTS: Final = frozenset({"policy_class", "policy", "num_timesteps", "observation_space", "action_space"})
"""Keys of ``data`` that have a column of another name."""
_CHOICES: Final = tuple(key for group in ("Optimization", "Policy", "Replay and rollout") for key in GROUPS[group])
"""The hyper-parameters in their order, without what agents keep of their run."""
_NOT_SHOWN: Final = ("_schedule", "_kwargs", "_class", "train_freq", "action_noise")
"""Ends of the names of hyper-parameters that say the same as others, or more than a cell should contain."""
_NET_ARCH: Final = "policy_kwargs.net_arch"


class Cell(NamedTuple):
    """A value of a row."""

    text: str
    number: float | None = None
    """What it is sorted by, if it is a number."""


class Remark(NamedTuple):
    """A finding of a file, or why it or one of its entries could not be read."""

    label: str
    """The verdict or outcome."""
    place: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """What the table shows of a file; it can be sent between processes."""

    name: str
    cells: Mapping[str, Cell]
    """By the key of the column; of a hyper-parameter its key in ``data``, with ``data.`` before it if that is also the
    key of another column."""
    remarks: tuple[Remark, ...]
    omitted: int
    """Number of remarks that are not listed."""
    failure: Failure | None
    """Why the file could not be read."""
    is_broken: bool
    """Whether the file, or one of its entries, could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table."""

    key: str
    title: str
    is_number: bool
    is_shown: bool
    """Whether it is shown when the page opens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTable:
    """Rows and columns of a page about many files."""

    folder: str
    """The folder in which all files are, to which their names are relative; or empty."""
    rows: tuple[FileRow, ...]
    """With names relative to the folder."""
    columns: tuple[Column, ...]
    shared: tuple[tuple[str, str], ...]
    """Titles and values that all readable files have in common."""
    omitted_columns: int
    """Number of columns beyond the first 150, which are left out."""
    verdicts: tuple[tuple[str, int], ...]
    """Number of files of each verdict, from worst to best."""


# -- rows ---------------------------------------------------------------------------------------------


def collect_row(file: FileData) -> FileRow:
    """Return the row of a file, without what else was read from it."""
    remarks, omitted = _list_remarks(file)
    return FileRow(
        name=file.name,
        cells={key: cell for key, cell in _make_cells(file).items() if cell.text},
        remarks=tuple(remarks),
        omitted=omitted,
        failure=file.failure,
        is_broken=file.is_broken,
    )


def make_lost_row(report: dict[str, Any]) -> FileRow:
    """Return the row of a file whose worker process was killed.

    :param report: its ``path``, ``outcome`` and ``message``
    """
    failure = Failure(report["outcome"], report["message"])
    return collect_row(FileData(name=report["path"], archive=None, failure=failure, inspected=None, scanned=None))


def _make_cells(file: FileData) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    if file.scanned is not None:
        cells["verdict"] = Cell(file.scanned.verdict, VERDICTS.index(file.scanned.verdict))
        cells["size"] = Cell(format_size(file.scanned.size), file.scanned.size)
    elif file.failure is not None:
        cells["verdict"] = Cell(file.failure.outcome, len(VERDICTS))
    if file.inspected is None:
        return cells
    report = file.inspected
    cells["kind"] = Cell(KIND_TITLES.get(report.format, report.format))
    cells["sb3_version"] = Cell(escape(report.stable_baselines3_version or "", _CELL))
    if report.algorithm is not None and report.algorithm.name is not None:
        cells["algorithm"] = Cell(escape(report.algorithm.name, _CELL))
    cells["policy"] = Cell(escape((report.policy_class or "").rpartition(".")[2], _CELL))
    if report.state_dicts and report.format not in OBJECTS:
        count = sum(row.numel for row in report.state_dicts if OPTIMIZER_WORD not in row.name)
        cells["parameters"] = Cell(f"{count:,}", count)
    values = report.hyperparameters or {}
    cells.update(_describe_training(file, values))
    cells.update(_list_hyperparameters(values))
    return cells


def _describe_training(file: FileData, values: Mapping[str, Hyperparameter]) -> dict[str, Cell]:
    """Return the cells of spaces, of timesteps, and of the last episodes."""
    cells = {}
    for key in ("observation_space", "action_space"):
        if key in values:
            cells[key] = render_value(values[key])
    steps = values.get("num_timesteps")
    if steps is not None and type(steps.value) is int:
        cells["timesteps"] = Cell(f"{steps.value:,}", float(steps.value)) if abs(steps.value) < 1 << 63 else Cell("")
    episodes = collect_episodes(file)
    if episodes is not None and episodes.rewards:
        mean = math.fsum(episodes.rewards) / len(episodes.rewards)
        cells["mean_reward"] = Cell(f"{mean:.6g}", mean)
        cells["episodes"] = Cell(f"{len(episodes.rewards):,}", len(episodes.rewards))
    return cells


def _list_hyperparameters(values: Mapping[str, Hyperparameter]) -> dict[str, Cell]:
    """Return a cell for each value of ``data``; those of a dict such as ``policy_kwargs`` have cells of their own."""
    cells: dict[str, Cell] = {}
    for key, found in values.items():
        if key in _IN_FACTS or len(cells) >= _MOST_KEYS:
            continue
        name = _name_column(key)
        cells[name] = render_value(found)
        if key.endswith("_kwargs") and isinstance(found.value, dict):
            for part, value in list(found.value.items())[:_MOST_KEYS]:
                if isinstance(part, str):
                    cells[f"{name}.{escape(part, _CELL)}"] = _render_plain(value)
    return cells


def _name_column(key: str) -> str:
    shown = escape(key, _CELL)
    return f"data.{shown}" if shown in FACTS or shown == NAME else shown


def render_value(found: Hyperparameter) -> Cell:
    """Return a value of ``data`` as a cell."""
    value = found.value
    if isinstance(value, Serialized):
        return Cell(f"{escape(value.type or 'pickle', _CELL)}, not decoded")
    return _render_plain(value)


def _render_plain(value: Any) -> Cell:
    if value is None or isinstance(value, bool):
        return Cell(json.dumps(value))
    text = value if isinstance(value, str) else render_line(value)
    shown = escape(text, _CELL)
    match = None if isinstance(value, str) else _NUMBER.fullmatch(shown) or _NUMBER.match(shown)
    return Cell(shown or "''", float(match[1]) if match is not None else None)


def _list_remarks(file: FileData) -> tuple[list[Remark], int]:
    """Return why a file is not clean, and the number of reasons that are not listed."""
    remarks: list[Remark] = []
    if file.failure is not None:
        remarks.append(Remark(file.failure.outcome, "", escape(file.failure.message, _SENTENCE)))
    if file.inspected is not None:
        remarks += [
            Remark(row.outcome, escape(row.entry, _CELL), escape(row.message, _SENTENCE))
            for row in file.inspected.broken
        ]
    findings = file.scanned.findings if file.scanned is not None else ()
    for finding in sorted(findings, key=lambda finding: -VERDICTS.index(finding.verdict)):
        place = ", ".join(part for part in (finding.entry, finding.key) if part)
        remarks.append(Remark(finding.verdict, escape(place, _CELL), escape(finding.message, _SENTENCE)))
    listed = list({row.message: row for row in reversed(remarks)}.values())[::-1]
    omitted = len(listed) - _MOST_FINDINGS if len(listed) > _MOST_FINDINGS else 0
    return listed[:_MOST_FINDINGS], omitted + (file.scanned.omitted if file.scanned is not None else 0)


# -- columns ------------------------------------------------------------------------------------------


def make_table(rows: Iterable[FileRow]) -> FileTable:
    """Return the table of the rows: columns for what differs, and apart from these what is the same in all files."""
    listed = list(rows)
    folder, names = _find_folder([row.name for row in listed])
    readable = [row for row in listed if row.failure is None]
    values: dict[str, dict[str, int]] = {key: {} for key in FACTS}
    for row in listed:
        for key, cell in row.cells.items():
            counts = values.setdefault(key, {})
            counts[cell.text] = counts.get(cell.text, 0) + 1
    shared, differing = [], []
    for key, counts in values.items():
        if key != "verdict" and len(readable) > 1 and list(counts.values()) == [len(readable)]:
            shared.append((FACTS.get(key, key), next(iter(counts))))
        elif counts:
            differing.append(key)
    sizes = {key: sum(values[key].values()) for key in differing}
    kept = _keep_columns(differing, sizes)
    chosen = _choose_columns(kept, sizes)
    return FileTable(
        folder=folder,
        rows=tuple(replace(row, name=name) for row, name in zip(listed, names)),
        columns=tuple(_make_column(key, listed, is_shown=key in chosen) for key in kept),
        shared=tuple(shared),
        omitted_columns=len(differing) - len(kept),
        verdicts=_count_verdicts(listed),
    )


def _find_folder(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the folder in which all files are, and their names relative to it, escaped."""
    folder = ""
    if len(names) > 1 and all("/" in name or os.sep in name for name in names):
        try:
            folder = os.path.commonpath([os.path.dirname(name) for name in names])
        except ValueError:  # absolute and relative paths, or several drives
            folder = ""
    below = [name[len(folder) :].lstrip("/" + os.sep) if folder else name for name in names]
    return escape(folder, _NAME), [escape(name, _NAME) for name in below]


def _keep_columns(keys: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    """Return the columns that the page has, in their order: if there are too many, those of most files."""
    ordered = sorted(keys, key=_order_column)
    if len(ordered) <= _MOST_COLUMNS:
        return ordered
    most = sorted(ordered, key=lambda key: (key not in FACTS, -counts[key]))[:_MOST_COLUMNS]
    return [key for key in ordered if key in set(most)]


def _order_column(key: str) -> tuple[int, int]:
    """Facts, hyper-parameters as on the page of one file, other keys, and what agents keep of their run."""
    known = key.partition(".")[0]
    if key in FACTS:
        return 0, list(FACTS).index(key)
    if known in _CHOICES:
        return 1, _CHOICES.index(known)
    return (3 if key.startswith("_") or key in GROUPS["Run"] else 2), 0


def _choose_columns(keys: Sequence[str], counts: Mapping[str, int]) -> frozenset[str]:
    """Return the columns that are shown at first: the hyper-parameters of most files."""
    facts = [key for key in keys if key in FACTS and key not in _HIDDEN_FACTS]
    choices = [key for key in keys if (key in _CHOICES and not key.endswith(_NOT_SHOWN)) or key == _NET_ARCH]
    choices.sort(key=lambda key: -counts[key])
    return frozenset((*facts, *choices[:_SHOWN_COLUMNS]))


def _make_column(key: str, rows: Sequence[FileRow], *, is_shown: bool) -> Column:
    cells = [row.cells[key] for row in rows if key in row.cells]
    is_number = key != "verdict" and all(cell.number is not None or cell.text == "null" for cell in cells)
    return Column(key=key, title=FACTS.get(key, key), is_number=is_number, is_shown=is_shown)


def _count_verdicts(rows: Sequence[FileRow]) -> tuple[tuple[str, int], ...]:
    counts = Counter(row.cells["verdict"] for row in rows if "verdict" in row.cells)
    return tuple(
        (cell.text, counts[cell]) for cell in sorted(counts, key=lambda cell: (-(cell.number or 0), cell.text))
    )


def render_table(rows: Iterable[FileRow], *, title: str | None = None) -> str:
    """Return the page about many files.

    :param rows: of :func:`collect_row`, in the order of the files
    :param title: of the page; by default the number of files
    """
    table = make_table(rows)
    heading = title or f"{len(table.rows):,} files"
    return render_page(
        "table.html.jinja",
        {"table": table, "heading": heading},
        title=f"{heading} \u2013 sbformat report",
        style=read_template("table.css"),
        scripts=["table.js"],
    )
