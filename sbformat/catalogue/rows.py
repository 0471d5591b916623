"""The row of a file: what it is, its hyper-parameters, and why it is not clean.

:func:`collect_row` keeps of a file what its row shows, so that a thousand files are not in memory together.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.archive.kinds import KIND_TITLES, OBJECTS
from sbformat.catalogue.collect import Failure, FileData
from sbformat.catalogue.episodes import collect_episodes
from sbformat.constants import OPTIMIZER_WORD
from sbformat.data import Serialized
from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.known.sb3 import EXAMINED_KEYS
from sbformat.known.types import ConstantSchedule, InterpolatedSchedule, LinearSchedule
from sbformat.pkl.numpy import ArrayInfo
from sbformat.rendering import format_size
from sbformat.values.computed import ComputedSchedule
from sbformat.values.render import render_line, render_linear
from sbformat.values.schedule_meaning import describe_samples, find_meaning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.hyperparameters import Hyperparameter

_CELL: Final = 80
"""Characters of a cell."""
MOST_KEYS: Final = 300
"""Keys of one file that can become columns."""
_MOST_FINDINGS: Final = 5
"""Findings of one file that are listed."""
SENTENCE: Final = 400
"""Characters of a message."""
_LARGEST: Final = 1 << 63
"""Integers of a catalogue are less: formats of tables have 64 bits."""
_NUMBER: Final = re.compile(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?= \(|$)")
"""A number, or what :func:`~sbformat.values.render.render_line` writes for an array of one item."""

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
_IN_FACTS: Final = frozenset({"policy_class", "policy", "num_timesteps", "observation_space", "action_space"})
"""Keys of ``data`` that have a column of another name."""


Scalar: TypeAlias = "int | float | bool | str | None"
"""A value of a catalogue."""


class Cell(Record):
    """A value of a row."""

    text: str
    number: float | None = None
    """What it is sorted by, if it is a number."""
    is_words: bool = False
    """Whether the text is more than the number: of a linear schedule, which is sorted by its start."""
    value: Scalar = None
    """What a catalogue stores: a number, a truth value or a text; None for no value."""


class Remark(Record):
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


def collect_row(file: FileData) -> FileRow:
    """Return the row of a file, without what else was read from it."""
    remarks, omitted = list_remarks(file)
    return FileRow(
        name=file.name,
        cells={key: cell for key, cell in make_cells(file).items() if cell.text},
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


def make_cells(file: FileData) -> dict[str, Cell]:
    """Return what is known of a file, by the key of the column: facts, then hyper-parameters in the order of the file.

    A cell without a text is one without a value.
    """
    cells: dict[str, Cell] = {}
    if file.scanned is not None:
        cells["verdict"] = Cell(file.scanned.verdict, _rank(file.scanned.verdict), value=file.scanned.verdict)
        cells["size"] = Cell(format_size(file.scanned.size), file.scanned.size, value=file.scanned.size)
    elif file.failure is not None:
        cells["verdict"] = Cell(file.failure.outcome, _rank(file.failure.outcome))
    if file.inspected is None:
        return cells
    report = file.inspected
    cells["kind"] = make_text(KIND_TITLES.get(report.format, report.format))
    cells["sb3_version"] = make_text(report.stable_baselines3_version)
    if report.algorithm is not None and report.algorithm.name is not None:
        cells["algorithm"] = make_text(report.algorithm.name)
    cells["policy"] = make_text((report.policy_class or "").rpartition(".")[2])
    if report.state_dicts and report.format not in OBJECTS:
        count = sum(row.numel for row in report.state_dicts if OPTIMIZER_WORD not in row.name)
        cells["parameters"] = _make_count(count)
    values = report.hyperparameters or {}
    cells.update(_describe_training(file, values))
    cells.update(_list_hyperparameters(values))
    return cells


def make_text(text: str | None) -> Cell:
    """Return a text of a file as a cell: escaped and shortened; no value if it is empty."""
    shown = escape(text or "", _CELL)
    return Cell(shown, value=shown or None)


def _make_count(count: int) -> Cell:
    return Cell(f"{count:,}", float(count), value=to_scalar(count))


def to_scalar(value: float) -> int | float | str:
    """Return a number as a table stores it: one that has more than 64 bits as a float, or as text."""
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        try:
            return float(value)
        except OverflowError:
            return render_line(value)
    return value


def _rank(verdict: str) -> int:
    """Return the place of a verdict from best to worst; what is not one, because nothing could be judged, is last."""
    from sbformat.tools.scan.findings import VERDICTS

    return VERDICTS.index(verdict) if verdict in VERDICTS else len(VERDICTS)


def _describe_training(file: FileData, values: Mapping[str, Hyperparameter]) -> dict[str, Cell]:
    """Return the cells of spaces, of timesteps, and of the last episodes."""
    cells = {}
    for key in ("observation_space", "action_space"):
        if key in values:
            cells[key] = render_value(key, values[key])
    steps = values.get("num_timesteps")
    if steps is not None and type(steps.value) is int:
        cells["timesteps"] = _make_count(steps.value) if abs(steps.value) < _LARGEST else Cell("")
    episodes = collect_episodes(file)
    if (
        episodes is not None
        and episodes.rewards
        and file.inspected is not None
        and file.inspected.format not in OBJECTS
    ):
        mean = math.fsum(episodes.rewards) / len(episodes.rewards)
        cells["mean_reward"] = Cell(f"{mean:.6g}", mean, value=mean)
        cells["episodes"] = _make_count(len(episodes.rewards))
    return cells


def _list_hyperparameters(values: Mapping[str, Hyperparameter]) -> dict[str, Cell]:
    """Return a cell for each value of ``data``; those of a dict such as ``policy_kwargs`` have cells of their own."""
    cells: dict[str, Cell] = {}
    for key, found in values.items():
        if key in _IN_FACTS or len(cells) >= MOST_KEYS:
            continue
        name = _name_column(key)
        cells[name] = render_value(key, found)
        if key.endswith("_kwargs") and isinstance(found.value, dict):
            for part, value in list(found.value.items())[:MOST_KEYS]:
                if isinstance(part, str):
                    cells[f"{name}.{escape(part, _CELL)}"] = _render_plain(value)
    return cells


def _name_column(key: str) -> str:
    shown = escape(key, _CELL)
    return f"data.{shown}" if shown in FACTS or shown == NAME else shown


def render_value(key: str, found: Hyperparameter) -> Cell:
    """Return a value of ``data`` as a cell."""
    value = found.value
    if isinstance(value, Serialized):
        return make_text(f"{escape(value.type or 'pickle', _CELL)}, not decoded")
    return _render_plain(value, key)


def _render_plain(value: Any, key: str | None = None) -> Cell:
    if value is None or isinstance(value, bool):
        return Cell(json.dumps(value), value=value)
    schedule = find_meaning(value, examines=key in EXAMINED_KEYS).schedule
    if isinstance(schedule, LinearSchedule):
        return _make_schedule_cell(render_linear(schedule), schedule.start)
    if isinstance(schedule, (ComputedSchedule, InterpolatedSchedule)):
        return _make_schedule_cell(describe_samples(schedule), schedule.sample(1.0))
    if isinstance(schedule, ConstantSchedule) and not isinstance(value, ArrayInfo):
        value = schedule.value
    text = value if isinstance(value, str) else render_line(value)
    shown = escape(text, _CELL)
    match = None if isinstance(value, str) else _NUMBER.fullmatch(shown) or _NUMBER.match(shown)
    number = float(match[1]) if match is not None else None
    scalar: Scalar = shown
    if type(value) in (int, float):
        scalar = to_scalar(value)
    elif isinstance(schedule, ConstantSchedule):  # an array of one number
        scalar = to_scalar(schedule.value)
    return Cell(shown or "''", number, value=scalar)


def _make_schedule_cell(text: str, start: float) -> Cell:
    """Return a schedule as a cell: ``linear 0.0008 -> 0.0``, which is sorted by its start."""
    shown = escape(text, _CELL)
    return Cell(shown, float(start) if math.isfinite(start) else None, is_words=True, value=shown)


def list_remarks(file: FileData) -> tuple[list[Remark], int]:
    """Return why a file is not clean, and the number of reasons that are not listed."""
    remarks: list[Remark] = []
    if file.failure is not None:
        remarks.append(Remark(file.failure.outcome, "", escape(file.failure.message, SENTENCE)))
    if file.inspected is not None:
        remarks += [
            Remark(row.outcome, escape(row.entry, _CELL), escape(row.message, SENTENCE))
            for row in file.inspected.broken
        ]
    findings = file.scanned.findings if file.scanned is not None else ()
    for finding in sorted(findings, key=lambda finding: -_rank(finding.verdict)):
        place = ", ".join(part for part in (finding.entry, finding.key) if part)
        remarks.append(Remark(finding.verdict, escape(place, _CELL), escape(finding.message, SENTENCE)))
    listed = list({row.message: row for row in reversed(remarks)}.values())[::-1]
    omitted = len(listed) - _MOST_FINDINGS if len(listed) > _MOST_FINDINGS else 0
    return listed[:_MOST_FINDINGS], omitted + (file.scanned.omitted if file.scanned is not None else 0)
