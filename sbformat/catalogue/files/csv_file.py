"""A catalogue as CSV, for spreadsheets and pandas."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Final

from sbformat.catalogue.files.columns import OTHER, read_row
from sbformat.catalogue.files.formats import refuse_rest, require_columns
from sbformat.catalogue.flat_rows import COLUMNS
from sbformat.rendering import protect_text, read_number, unprotect_text, write_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.catalogue.files.columns import Columns
    from sbformat.catalogue.flat_rows import Row
    from sbformat.catalogue.rows import Scalar

_INTEGER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_FLOAT: Final = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.ASCII)
_WORDS: Final = {"true": True, "false": False}
_APOSTROPHE: Final = "'"
_LONGEST: Final = 1 << 24
"""Characters of a cell that is read."""


def require_packages() -> None:
    """Need nothing."""


def write(path: str, rows: Iterable[Row], columns: Columns) -> None:
    """Write a new file; see :class:`.formats.TableFormat`."""
    names = columns.names
    is_text = [COLUMNS.get(name) is str or name == OTHER for name in names]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            values = zip(columns.arrange(row), is_text)
            writer.writerow([_encode(value, is_typed=is_typed) for value, is_typed in values])


def read(path: str) -> Iterator[Row]:
    """Yield the rows of a file; see :class:`.formats.TableFormat`."""
    csv.field_size_limit(_LONGEST)
    with open(path, encoding="utf-8", newline="") as file:
        names = next(csv.reader(file, strict=True), [])
        require_columns(names, path)
        is_text = [COLUMNS.get(name) is str or name == OTHER for name in names]
        for number, line in enumerate(csv.reader(_require_ends(file, path), strict=True), 2):
            if len(line) != len(names):
                raise refuse_rest(path, f"line {number}")
            values = [_decode(cell, is_typed=is_typed) for cell, is_typed in zip(line, is_text)]
            yield read_row(names, values)


def _require_ends(lines: Iterable[str], path: str) -> Iterator[str]:
    """Yield the lines of a file, each of which ends: the last cell of one that does not may be cut off."""
    for line in lines:
        if not line.endswith(("\n", "\r")):
            raise refuse_rest(path, "its last line")
        yield line


def _encode(value: Scalar, *, is_typed: bool) -> str:
    """Return a value as a cell.

    :param is_typed: the column has texts only
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        found = write_number(value)
        return found if isinstance(found, str) else repr(found)
    if value == "" or value.startswith(_APOSTROPHE) or (not is_typed and not isinstance(_read(value), str)):
        return _APOSTROPHE + value
    return protect_text(value)


def _decode(cell: str, *, is_typed: bool) -> Scalar:
    if not cell:
        return None
    if cell.startswith(_APOSTROPHE):
        rest = cell[1:]
        if not rest or rest.startswith(_APOSTROPHE) or (not is_typed and not isinstance(_read(rest), str)):
            return rest
        return unprotect_text(cell)
    return unprotect_text(cell) if is_typed else _read(cell, is_written=True)


def _read(cell: str, *, is_written: bool = False) -> Scalar:
    """Return the number or truth value that a cell is, or the text.

    :param is_written: a text may have been changed so that it is not a formula
    """
    if cell in _WORDS:
        return _WORDS[cell]
    if _INTEGER.fullmatch(cell):
        return int(cell)
    if _FLOAT.fullmatch(cell):
        return float(cell)
    found = read_number(cell)
    return unprotect_text(cell) if is_written and isinstance(found, str) else found
