"""A catalogue as a database of SQLite: the table ``catalog``."""

from __future__ import annotations

import errno
import math
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbformat.catalogue.files.columns import OTHER, read_row
from sbformat.catalogue.files.formats import refuse_file, require_columns
from sbformat.catalogue.flat_rows import COLUMNS
from sbformat.errors import escape
from sbformat.rendering import read_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.catalogue.files.columns import Columns
    from sbformat.catalogue.flat_rows import Row
    from sbformat.catalogue.rows import Scalar

TABLE: Final = "catalog"
"""The name of the table."""
_TYPES: Final = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "BOOLEAN"}


def require_packages() -> None:
    """Need nothing."""


def write(path: str, rows: Iterable[Row], columns: Columns) -> None:
    """Write a new file; see :class:`.formats.TableFormat`."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        try:
            # no journal: the caller syncs the file, and removes one that is not complete
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("BEGIN")
            fill_table(database, rows, columns)
            database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise make_system_error(error, path) from None


def make_system_error(error: sqlite3.Error, path: str) -> OSError:
    """Return the error of the operating system that SQLite has in its own words."""
    if "full" in str(error):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    return OSError(errno.EIO, escape(str(error)), path)


def fill_table(database: sqlite3.Connection, rows: Iterable[Row], columns: Columns) -> None:
    """Create the table and fill it.

    Columns of facts have the type of their values. The others have none, so that SQLite converts nothing; truth values
    are 1 and 0 everywhere, as SQLite has them.
    """
    names = columns.names
    types = {column.name: column.types for column in columns.listed}
    declared = [f"{quote_name(name)} {_declare(name, types)}".rstrip() for name in names]
    database.execute(f'CREATE TABLE "{TABLE}" ({", ".join(declared)})')
    marks = ", ".join("?" * len(names))
    values = ([_encode(value) for value in columns.arrange(row)] for row in rows)
    database.executemany(f'INSERT INTO "{TABLE}" VALUES ({marks})', values)  # noqa: S608 -- our own names


def quote_name(name: str) -> str:
    """Return the name of a column, which may be of a file of somebody else, as SQL has it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _declare(name: str, types: dict[str, frozenset[type]]) -> str:
    """Return the type of a column: none for one with several types, whose values stay as they are."""
    if name == OTHER:
        return "TEXT"
    found = types[name]
    if name in COLUMNS or found in (frozenset({str}), frozenset({bool})):
        (kind,) = found
        return _TYPES[kind]
    return ""


def _encode(value: Scalar) -> Scalar:
    is_nan = isinstance(value, float) and math.isnan(value)
    return "NaN" if is_nan else value


def read(path: str) -> Iterator[Row]:
    """Yield the rows of a file; see :class:`.formats.TableFormat`."""
    with closing(open_read_only(path)) as database:
        kind = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone()
        if kind != ("table",):  # a view runs a query of the author
            raise refuse_file(path)
        found = database.execute(f'SELECT * FROM "{TABLE}" ORDER BY rowid')  # noqa: S608 -- our own name
        names = [column[0] for column in found.description]
        types = dict(database.execute(f"SELECT name, type FROM pragma_table_info('{TABLE}')"))  # noqa: S608
        require_columns(names, path)
        truths = [types.get(name) == _TYPES[bool] for name in names]
        texts = [types.get(name) == _TYPES[str] for name in names]
        for line in found:
            yield read_row(names, map(_decode, line, truths, texts))


def _decode(value: Scalar, is_truth: bool, is_text: bool) -> Scalar:  # noqa: FBT001 -- called by map
    if is_truth and isinstance(value, int):
        return bool(value)
    return read_number(value) if isinstance(value, str) and not is_text else value


def open_read_only(path: str) -> sqlite3.Connection:
    """Open a database that is not written to.

    :raises OSError: when it cannot be opened
    """
    with open(path, "rb"):  # whose error names the reason
        pass
    uri = f"{Path(path).resolve().as_uri()}?mode=ro"
    database = sqlite3.connect(uri, uri=True, isolation_level=None)
    database.execute("PRAGMA trusted_schema = OFF")
    database.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
    return database
