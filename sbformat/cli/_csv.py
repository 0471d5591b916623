"""``--format csv``: one table a run, for spreadsheets and pandas.

UTF-8, commas, lines that end with a line feed, and always a header, also without rows. Numbers are written as Python
reads them back, and as ``NaN``, ``Infinity`` and ``-Infinity``; true and false in lower case; no value as nothing;
lists and objects as JSON.

Text of a file is escaped as everywhere, so that a cell is one line (FORMAT.md 10). A spreadsheet evaluates text that
begins with ``=``, ``+``, ``-`` or ``@``, wherever it comes from: an apostrophe is put before it, which a spreadsheet
takes as "this is text". The same is done after a semicolon, at which some spreadsheets divide a line.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli._output import report_failure
from sbformat.errors import escape
from sbformat.rendering import protect_text, write_number, write_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO, TypeAlias

    RowLister: TypeAlias = Callable[[dict[str, Any]], Iterable[Mapping[str, Any]]]

_CELL: Final = 32_000
"""Characters of a cell; Excel has room for 32,767."""
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LONGEST_INTEGER: Final = 4000
"""Bits of an integer that Python converts to decimal digits without refusing."""


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, stream: TextIO | None = None) -> None:
    """Print a table.

    :param columns: the header
    :param rows: values by column; a missing one is an empty cell
    :param stream: where it goes; standard output by default
    """
    if stream is None and hasattr(sys.stdout, "reconfigure"):  # whatever the locale and the system are
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    writer = csv.writer(stream or sys.stdout, lineterminator="\n")
    writer.writerow([encode_cell(column) for column in columns])
    for row in rows:
        writer.writerow([encode_cell(row.get(column)) for column in columns])


def print_report(
    report: Mapping[str, Any],
    columns: Sequence[str],
    list_rows: Callable[[dict[str, Any]], Iterable[Mapping[str, Any]]],
) -> None:
    """Print the report of a command on one file; that of a file that failed is one row, and a line on standard error.

    :param columns: the header, with ``path``, ``outcome`` and ``message``
    :param list_rows: returns the rows of a report without an error; the path and the outcome are added
    """
    print_reports([report], columns, list_rows)
    if report["outcome"] != "ok":
        report_failure(dict(report), lists_problems=False)


def print_reports(reports: Iterable[Mapping[str, Any]], columns: Sequence[str], list_rows: RowLister) -> None:
    """Print the reports of a command on several files, each of which has a row at least.

    :param columns: the header, with ``path``, ``outcome`` and ``message``
    :param list_rows: returns the rows of a report without an error; the path and the outcome are added
    """
    print_csv(columns, chain.from_iterable(_list_rows(dict(report), list_rows) for report in reports))


def _list_rows(report: dict[str, Any], list_rows: RowLister) -> Iterable[Mapping[str, Any]]:
    name = {"path": report["path"], "outcome": report["outcome"]}
    if "message" in report:
        about = f"{report['file']}: " if "file" in report else ""
        return [{**name, "message": f"{about}{report['message']}"}]
    return [{**name, **row} for row in list_rows(report)]


def encode_cell(value: Any) -> str:
    """Return a value as the text of a cell.

    >>> encode_cell("=SUM(A1)"), encode_cell(-1.5), encode_cell(None), encode_cell([1, 2])
    ("'=SUM(A1)", '-1.5', '', '[1, 2]')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _LONGEST_INTEGER else hex(value)[:_CELL]
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(write_number(value))
    if isinstance(value, (list, tuple, dict)):
        value = json.dumps(write_numbers(value), ensure_ascii=False)
    return _encode_text(str(value))


def _encode_text(text: str) -> str:
    if len(text) <= _CELL and _NUMBER.fullmatch(text):
        return text
    return protect_text(escape(text, _CELL))
