"""Many files as one table: a row for each, with the hyper-parameters in which they differ.

The rows are those of the page that ``sbformat report`` writes (:mod:`sbformat.catalogue`), so that both have
the same columns. A column is called by its key everywhere: in the header, after ``--columns`` and ``--sort``, in CSV.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from sbformat.catalogue.collect import FileData
from sbformat.catalogue.rows import (
    COLUMNS,
    FACTS,
    NAME,
    OF_TRAINING,
    Cell,
    FileRow,
    collect_row,
    make_lost_row,
    make_table,
)
from sbformat.cli import _output
from sbformat.errors import MissingEntryError
from sbformat.folders.names import AGENTS
from sbformat.immutable import Record
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.catalogue.rows import FileTable
    from sbformat.tools.inspect import InspectReport

_NOT_INSPECTED: Final = frozenset({"verdict", "size", *OF_TRAINING})  # facts that ``inspect`` does not find out
_FIRST: Final = ("path", "outcome", "message")
_FACTS: Final = tuple(key for key in FACTS if key not in _NOT_INSPECTED)
CSV_COLUMNS: Final = (*_FIRST, "format", "broken", *_FACTS)
"""The columns of CSV before those of hyper-parameters."""
_PATH: Final = "path"
_PLAIN: Final = re.compile(r"-?\d+")
_LONGEST: Final = 300
_WIDTH: Final = 120  # characters of a line for all columns but the names of files, where no terminal has a width
_LEADING: Final = ("algorithm", "seed", "mean_reward", "timesteps", "learning_rate")
"""The first columns of the text: by these, runs are told apart. Facts that are not among them are the last ones."""
_LISTED: Final = 12  # columns that are named because they are not shown


class TableRow(Record):
    """The row of one file: small, so that thousands are kept."""

    outcome: dict[str, Any]
    """``path`` and ``outcome``; of a file that could not be read also ``message``."""
    format: str
    broken: int
    """Number of entries that could not be read."""
    row: FileRow


def make_row(outcome: dict[str, Any], report: InspectReport | None, archive: Archive | None) -> TableRow:
    """Return the row of a file.

    :param outcome: its report without the contents
    :param report: its contents, unless it could not be read
    :param archive: the file, unless it could not be read
    """
    if report is None:
        return TableRow(outcome, "", 0, make_lost_row(outcome))
    data = FileData(name=outcome[_PATH], archive=archive, failure=None, inspected=report, scanned=None)
    return TableRow(outcome, report.format, len(report.broken), collect_row(data))


def sort_rows(rows: Sequence[TableRow], key: str | None, *, is_reversed: bool) -> list[TableRow]:
    """Return the rows sorted by a column, numbers before text; those without a value come last.

    :param key: of a column; None keeps the order of the files
    """
    if key is None:
        return list(rows)[:: -1 if is_reversed else 1]
    _require_columns(rows, [key], _FACTS)
    present, absent = [], []
    for row in rows:
        cell = Cell(row.outcome[_PATH]) if key in (_PATH, NAME) else row.row.cells.get(key)
        if cell is None or cell.text == "null":
            absent.append(row)
        elif cell.number is None:
            present.append(((True, 0.0, cell.text.casefold()), row))
        else:
            present.append(((False, cell.number, cell.text), row))
    present.sort(key=lambda pair: pair[0], reverse=is_reversed)
    return [row for _, row in present] + absent


def _require_columns(rows: Iterable[TableRow], keys: Iterable[str], always: Sequence[str]) -> None:
    """Check that some file has each column.

    :param always: columns that there are without a value, too
    """
    present = dict.fromkeys([_PATH, NAME, *always, *(key for row in rows for key in row.row.cells)])
    for key in keys:
        if key not in present:
            hint = "a table of sbformat catalog has it: sbformat catalog FOLDER -o runs.csv" if key in COLUMNS else ""
            raise MissingEntryError(key, present=present, what="column", hint=hint)


# -- CSV ----------------------------------------------------------------------------------------------


def print_csv(rows: Sequence[TableRow], columns: Sequence[str] | None) -> None:
    """Print all rows, also those of files that could not be read.

    :param columns: keys of columns to print after ``path``, ``outcome`` and ``message``; None for all
    """
    if columns is None:
        keys = dict.fromkeys(_name(key) for row in rows for key in row.row.cells if key not in FACTS)
        header = (*CSV_COLUMNS, *keys)
    else:
        _require_columns(rows, columns, CSV_COLUMNS)
        header = tuple(dict.fromkeys((*_FIRST, *columns)))
    _output.print_csv(header, map(_list_values, rows))


def _list_values(row: TableRow) -> dict[str, Any]:
    cells = {_name(key): _encode(cell) for key, cell in row.row.cells.items()}
    return {**cells, **row.outcome, "format": row.format or None, "broken": row.broken if row.format else None}


def _name(key: str) -> str:
    """Return the name of a column: a file chooses keys of data, and must not hide a column of ours."""
    return f"data.{key}" if key in CSV_COLUMNS and key not in FACTS else key


def _encode(cell: Cell) -> Any:
    """Return a cell as a value: a number where it is one."""
    if cell.text == "null":
        return None
    if cell.number is None or cell.is_words:
        return cell.text
    digits = cell.text.replace(",", "")
    return digits if _PLAIN.fullmatch(digits) else cell.number


# -- text ---------------------------------------------------------------------------------------------


def print_text(
    printer: _output.Plain, rows: Sequence[TableRow], columns: Sequence[str] | None, *, with_notes: bool
) -> None:
    """Print the rows of the files that could be read, and what they have in common.

    Where there are agents, only these decide what differs: statistics and buffers have none of their values.

    :param columns: keys of the columns to print; None for facts and hyper-parameters that differ
    :param with_notes: also what is the same in all files, and which columns are not shown
    """
    readable = [row for row in rows if row.format]
    if columns is not None:
        _require_columns(readable, columns, _FACTS)
    table = make_table(row.row for row in readable)
    agents = [row.row for row in readable if row.format in AGENTS]
    has_others = 0 < len(agents) < len(readable)
    compared = make_table(agents) if has_others else table
    differing = sorted(compared.columns, key=lambda column: _order(column.key))  # is stable
    keys = [column.key for column in differing if column.is_shown] if columns is None else list(columns)
    keys = [key for key in keys if key not in (NAME, _PATH)]
    notes = [count_noun(row.broken, "broken entry", "broken entries") if row.broken else "" for row in readable]
    if columns is None:
        widths = {key: max(len(key), *(len(_render(row, key)) for row in table.rows)) for key in keys}
        names = max((len(row.name) for row in table.rows), default=0)
        room = _WIDTH if printer.width is None else _output.find_room(printer.width, names)
        keys = _output.keep_narrow(widths, room - max(map(len, notes), default=0))
    cells = [(row.name, *(_render(row, key) for key in keys), note) for row, note in zip(table.rows, notes)]
    header = (NAME, *keys, "")
    right = [place for place, key in enumerate(header) if _is_number(table, key)]
    title = count_noun(len(readable), "file") + (f" in {table.folder}" if table.folder else "")
    printer.table(title, header, cells, right=right, longest=_LONGEST, leaves_out=(len(keys) + 1,))
    if columns is None and with_notes:
        shared = [row for row in compared.shared if not row[0].startswith("_")]
        printer.table(f"the same in all {'agents' if has_others else 'files'}", (), shared)
        others = [column.key for column in differing if column.key not in keys]
        more = f", \u2026 {len(others) - _LISTED} more" if len(others) > _LISTED else ""
        if others:
            printer.line(f"\n  --columns shows others that differ: {', '.join(others[:_LISTED])}{more}")


def _order(key: str) -> tuple[bool, int]:
    return key in FACTS and key not in _LEADING, _LEADING.index(key) if key in _LEADING else len(_LEADING)


def _is_number(table: FileTable, key: str) -> bool:
    cells = [row.cells[key] for row in table.rows if key in row.cells]
    return bool(cells) and all(cell.number is not None or cell.text == "null" for cell in cells)


def _render(row: FileRow, key: str) -> str:
    cell = row.cells.get(key)
    return "" if cell is None else "-" if cell.text == "null" else cell.text
