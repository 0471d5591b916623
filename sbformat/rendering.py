"""Render numbers, sizes and tables for reports: what Python, JSON and spreadsheets do not agree on, once for all."""

from __future__ import annotations

import math
import re
from time import gmtime, strftime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


_WIDEST: Final = 80
"""Characters of a cell that widens its column: a longer one moves the rest of its row alone."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_NANOSECONDS: Final = 10**14  # a greater time counts these, as newer releases of SB3 do, and not seconds
_YEAR_10000: Final = 253_402_300_800

_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_FORMULA: Final = r"(^|;)([\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20])"
"""Where a formula begins: also with the full-width forms of these characters, which Excel accepts."""
_PROTECTED: Final = r"(^|;)'([\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20])"


def format_size(nbytes: int) -> str:
    """Return a number of bytes with its unit, ``1.5 KiB``."""
    value = float(nbytes)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{nbytes} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return str(nbytes)


def count_noun(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, ``1 tensor`` or ``2 tensors``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def render_time(value: object) -> str | None:
    """Return seconds or nanoseconds since 1970 as a date and time; None for what is neither.

    >>> render_time(1643522319123456789)
    '2022-01-30 05:58:39 UTC'
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < math.inf:
        return None
    seconds = value // 10**9 if value >= _NANOSECONDS else value
    return strftime("%Y-%m-%d %H:%M:%S UTC", gmtime(seconds)) if seconds < _YEAR_10000 else None


def write_number(value: Any) -> Any:
    """Return a number as JSON: text for infinities and NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    return value


def read_number(value: Any) -> Any:
    """Return what :func:`write_number` was given: a number for its text."""
    return _NUMBERS.get(value, value) if isinstance(value, str) else value


def protect_text(text: str) -> str:
    """Return a text of a table with an apostrophe before what a spreadsheet would evaluate.

    A spreadsheet evaluates text that begins with ``=``, ``+``, ``-`` or ``@``, and some divide a line at a semicolon.

    >>> protect_text("=SUM(A1)")
    "'=SUM(A1)"
    """
    return re.sub(_FORMULA, r"\1'\2", text)


def unprotect_text(text: str) -> str:
    """Return the text that :func:`protect_text` was given."""
    return re.sub(_PROTECTED, r"\1\2", text)


def write_numbers(value: Any) -> Any:
    """Return plain values as JSON, with :func:`write_number` for each number and lists for tuples.

    :param value: dicts, lists and tuples, nested no deeper than the readers allow
    """
    if isinstance(value, dict):
        return {key: write_numbers(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [write_numbers(part) for part in value]
    return write_number(value)


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return the lines of a table with aligned columns.

    :param header: the titles of the columns; empty for none
    :param rows: the cells, at least one row
    :param right: columns that are right-aligned
    """
    cells = [header, *rows] if header else rows
    widths = [max((len(cell) for cell in column if len(cell) <= _WIDEST), default=0) for column in zip(*cells)]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(parts).rstrip())
    return lines
