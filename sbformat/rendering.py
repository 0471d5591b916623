"""How reports render what Python and JSON do not agree on: numbers, and tables of plain text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def write_number(value: float) -> Any:
    """Return a number as JSON: text for infinities and NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    return value


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
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(parts).rstrip())
    return lines
