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
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.rendering import write_number, write_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

_CELL: Final = 32_000
"""Characters of a cell; Excel has room for 32,767."""
_FORMULA: Final = re.compile(r"(^|;)([\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20])")
"""Where a formula begins: also with the full-width forms of these characters, which Excel accepts."""
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LONGEST_INTEGER: Final = 4000
"""Bits of an integer that Python converts to decimal digits without refusing."""


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, stream: TextIO | None = None) -> None:
    """Print a table.

    :param columns: the header
    :param rows: values by column; a missing one is an empty cell
    :param stream: where it goes; standard output by default
    """
    writer = csv.writer(stream or sys.stdout, lineterminator="\n")
    writer.writerow([encode_cell(column) for column in columns])
    for row in rows:
        writer.writerow([encode_cell(row.get(column)) for column in columns])


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
    if _NUMBER.fullmatch(text):
        return text
    return _FORMULA.sub(r"\1'\2", escape(text, _CELL))
