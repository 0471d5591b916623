"""Which module writes and reads the file of a catalogue, by its suffix."""

from __future__ import annotations

import csv
import os
import sqlite3
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from sbformat.catalogue.flat_rows import COLUMNS
from sbformat.errors import UnsupportedError, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.catalogue.files.columns import Columns
    from sbformat.catalogue.flat_rows import Row

_MODULES: Final = {
    ".parquet": "parquet_file",
    ".csv": "csv_file",
    ".jsonl": "json_lines",
    ".sqlite": "sqlite_file",
}
SUFFIXES: Final = tuple(_MODULES)
"""Suffixes of the files of catalogues."""


class TableFormat(Protocol):
    """A format of catalogues: what its module defines."""

    def require_packages(self) -> None:
        """Refuse to begin without the packages that it needs.

        :raises UnsupportedError: which names the extra
        """

    def write(self, path: str, rows: Iterable[Row], columns: Columns) -> None:
        """Write a new file.

        :param path: where; the caller makes it the output when it is complete
        :param rows: consumed one by one
        """

    def read(self, path: str) -> Iterator[Row]:
        """Yield the rows of a file; :func:`read_table` calls it, and makes errors of the format ours."""


def find_format(path: str) -> TableFormat:
    """Return what writes and reads a file.

    :raises UnsupportedError: for another suffix
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _MODULES:
        message = f"expected a file that ends with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {quote(path)}"
        raise UnsupportedError(message)
    module: Any = import_module(f"sbformat.catalogue.files.{_MODULES[suffix]}")
    return module  # type: ignore[no-any-return]


class DamagedTableError(UnsupportedError):
    """A catalogue whose rows are not those that were written: it was cut off, or changed by another program."""


def read_table(path: str) -> Iterator[Row]:
    """Yield the rows of a catalogue.

    :raises DamagedTableError: when it is one up to a row
    :raises UnsupportedError: when it is not one
    :raises OSError: when it cannot be opened
    """
    row = None
    try:
        for row in find_format(path).read(path):
            yield row
    except DamagedTableError:
        raise
    except UnsupportedError:
        if row is None:
            raise
        raise refuse_rest(path) from None
    except (ValueError, LookupError, TypeError, RecursionError, csv.Error, sqlite3.Error):
        raise refuse_file(path) if row is None else refuse_rest(path) from None


def require_columns(names: Iterable[str], path: str) -> None:
    """Check that a table is a catalogue.

    :param names: of its columns
    :raises UnsupportedError: when it does not begin with the columns that every catalogue has
    """
    if list(names)[: len(COLUMNS)] != list(COLUMNS):
        raise refuse_file(path)


def refuse_file(path: str) -> UnsupportedError:
    """Return the error for a file that is not a catalogue."""
    return UnsupportedError(f"{quote(path)} is not a catalogue that sbformat wrote")


def refuse_rest(path: str, place: str = "") -> DamagedTableError:
    """Return the error for a catalogue that is damaged.

    :param place: the row, if it is known: ``line 7``
    """
    where = f" in {place}" if place else ""
    repair = "'sbformat catalog SOURCE -o TABLE' repairs it"
    return DamagedTableError(f"{quote(path)} was cut off, or changed by another program{where}; {repair}")
