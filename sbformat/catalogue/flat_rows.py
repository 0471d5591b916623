"""The row of a file in a catalogue: one flat dict of numbers, truth values and texts.

What is known of a file, and how a value is rendered, is decided by :mod:`sbformat.catalogue.rows`, which makes the
table of ``report`` and ``inspect`` as well; here it gets names and types for SQL and data frames.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.archive.kinds import OBJECTS
from sbformat.catalogue.column_names import name_columns
from sbformat.catalogue.rows import FACTS, MOST_KEYS, SENTENCE, Scalar, make_cells, make_text
from sbformat.errors import escape
from sbformat.folders.places import AGENTS
from sbformat.immutable import Record
from sbformat.rendering import write_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.catalogue.collect import FileData
    from sbformat.policies.summary import Summary
    from sbformat.schema import Problem
    from sbformat.tools.inspect import InspectReport

Row: TypeAlias = "dict[str, Scalar]"

COLUMNS: Final[dict[str, type]] = {
    "source": str, "size": int, "sha256": str, "version": str, "format": str, "algorithm": str,
    "algorithm_certain": bool, "sb3_version": str, "python_version": str, "torch_version": str, "numpy_version": str,
    "gym_version": str, "policy_class": str, "observation_space": str, "action_space": str, "layers": int,
    "network": str, "parameters": int, "timesteps": int, "mean_reward": float, "episodes": int, "statistics": str,
    "verdict": str, "reason": str, "finding": str, "findings": int, "problems": int, "problem": str, "outcome": str,
    "error": str, "sbformat": str, "checksum": int,
}  # fmt: skip
"""The columns that every row has, in their order, with the type of their values."""
BUNDLED: Final = "bundled"
"""The statistics of an agent whose archive contains them."""
OK: Final = "ok"
_TAKEN: Final = frozenset(COLUMNS)
_COUNTS: Final = tuple(name for name, kind in COLUMNS.items() if kind is int)
_NETWORK: Final = 200
_VERSIONS: Final = {
    "python_version": ("Python",),
    "torch_version": ("PyTorch",),
    "numpy_version": ("Numpy",),
    "gym_version": ("Gymnasium", "OpenAI Gym", "Gym"),
}
"""The fields of ``system_info.txt`` by the column that has their value; of several, the first that is there."""
_ABSENT: Final = frozenset({"", "None", "not installed"})


class SourceState(Record):
    """What is known of a source without reading it."""

    name: str
    """Its path or URL."""
    size: int | None
    version: str | None
    """What changes when its contents do: the time of the last modification, an ETag, a commit."""
    statistics: str | None = None
    """The file beside it that has its statistics."""


def make_row(file: FileData, problems: Sequence[Problem], state: SourceState, *, made_by: str) -> Row:
    """Return the row of a file.

    :param file: of :func:`sbformat.catalogue.collect.collect_file`
    :param problems: of :func:`sbformat.schema.iter_problems`
    :param state: of its source
    :param made_by: the value of the column ``sbformat``
    """
    row = make_empty_row(state, made_by=made_by)
    cells = make_cells(file)
    for name in ("algorithm", "sb3_version", "observation_space", "action_space", "parameters", "timesteps",
                 "mean_reward", "episodes", "verdict"):  # fmt: skip
        if name in cells:
            row[name] = cells[name].value
    if row["size"] is None and "size" in cells:
        row["size"] = cells["size"].value
    if file.inspected is not None:
        row.update(_describe_contents(file.inspected))
        row["statistics"] = _choose_statistics(file.inspected, state.statistics)
    row.update(_describe_findings(file))
    row.update(_describe_problems(problems))
    row.update(_describe_outcome(file))
    keys = [key for key in cells if key not in FACTS][:MOST_KEYS]
    row.update((name, cells[key].value) for key, name in name_columns(keys, _TAKEN).items())
    for name in _COUNTS:
        if not isinstance(row[name], int):  # a forged size, which has more than 64 bits
            row[name] = None
    return row


def make_empty_row(state: SourceState, *, made_by: str) -> Row:
    """Return the row of a source of which nothing is known yet."""
    row: Row = dict.fromkeys(COLUMNS)
    row.update(source=encode_name(state.name), size=state.size, version=state.version, outcome=OK, sbformat=made_by)
    return row


def make_failed_row(state: SourceState, outcome: str, message: str, *, made_by: str) -> Row:
    """Return the row of a source that could not be read.

    :param outcome: a word, as in the reports of the command line
    :param message: why
    """
    row = make_empty_row(state, made_by=made_by)
    row.update(outcome=outcome, error=escape(message, SENTENCE))
    return row


def encode_name(name: str) -> str:
    """Return the name of a file as a text of a table: escaped whole, so that it is one line of UTF-8."""
    return escape(name, len(name))


def compute_checksum(row: Row) -> int:
    """Return the checksum of the values of a row: CRC-32, the same for every format of tables.

    Formats differ in what is an integer, a number with a fraction or a truth value, and in how they store NaN.

    :raises UnicodeError: for half a character
    :raises OverflowError: for an integer that has more than 1,024 bits
    """
    values = {
        name: value if isinstance(value, str) else write_number(value + 0.0)
        for name, value in row.items()
        if value is not None and name != "checksum"
    }
    return zlib.crc32(json.dumps(values, ensure_ascii=False, sort_keys=True).encode())


def is_as_written(row: Row) -> bool:
    """Return whether a row that was read from a table is the one that was written."""
    try:
        return row["checksum"] == compute_checksum(row)
    except (UnicodeError, OverflowError):
        return False


def update_statistics(row: Row, statistics: str | None) -> None:
    """Set the statistics of a row to a file that is beside its agent now."""
    if row["statistics"] != BUNDLED and row["format"] in AGENTS:
        row["statistics"] = None if statistics is None else encode_name(statistics)


def _choose_statistics(report: InspectReport, beside: str | None) -> str | None:
    if report.format not in AGENTS:
        return None
    if report.statistics is not None:
        return BUNDLED
    return None if beside is None else encode_name(beside)


def _describe_contents(report: InspectReport) -> Row:
    row: Row = {"format": report.format, "policy_class": make_text(report.policy_class).value}
    if report.algorithm is not None and report.algorithm.name is not None:
        row["algorithm_certain"] = report.algorithm.certain
    fields = report.system_info or {}
    for name, keys in _VERSIONS.items():
        found = next((fields[key] for key in keys if fields.get(key, "") not in _ABSENT), None)
        row[name] = make_text(found).value
    if report.network is not None:
        row["layers"] = len(report.network.layers)
        row["network"] = _render_network(report.network)
    elif report.network_error is not None and report.format not in OBJECTS:
        row["network"] = escape(f"not known: {report.network_error}", _NETWORK)
    return row


def _render_network(network: Summary) -> str:
    """Return the layers as a text, ``linear 4 -> 64 Tanh, linear 64 -> 2``."""
    from sbformat.policies.describe import render_shape

    parts = []
    for layer in network.layers:
        before = ", ".join(dict.fromkeys(map(render_shape, layer.input_shapes)))
        shape = f"{before} -> {render_shape(layer.shape)}" if before else render_shape(layer.shape)
        parts.append(" ".join(filter(None, (layer.operation, shape, layer.activation))))
    return escape(", ".join(parts), _NETWORK)


def _describe_findings(file: FileData) -> Row:
    report = file.scanned
    if report is None:
        return {}
    from sbformat.tools.scan.findings import VERDICTS

    row: Row = {
        "sha256": report.sha256,
        "reason": report.reason,
        "findings": len(report.findings) + report.omitted,
        "finding": None,
    }
    if report.findings:
        worst = max(report.findings, key=lambda finding: VERDICTS.index(finding.verdict))
        row["finding"] = _join(", ".join(part for part in (worst.entry, worst.key) if part), worst.message)
    return row


def _describe_problems(problems: Sequence[Problem]) -> Row:
    errors = [problem for problem in problems if problem.level == "error"]
    if not errors:
        return {"problems": 0, "problem": None}
    first = errors[0]
    return {"problems": len(errors), "problem": _join(f"{first.entry} {first.loc}".strip(), first.message)}


def _describe_outcome(file: FileData) -> Row:
    """Return why the file, or one of its entries, could not be read."""
    if file.failure is not None:
        return {"outcome": file.failure.outcome, "error": escape(file.failure.message, SENTENCE), "problems": None}
    for broken in file.inspected.broken if file.inspected is not None else ():
        return {"outcome": broken.outcome, "error": _join(broken.entry, broken.message)}
    return {}


def _join(place: str, message: Any) -> str:
    return escape(f"{place}: {message}" if place else str(message), SENTENCE)
