"""Search a catalogue: conditions of SQL, by SQLite, which may read the table ``catalog`` and nothing else."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from typing import TYPE_CHECKING, Final

from sbformat.catalogue.table_files import (
    TABLE,
    fill_table,
    find_columns,
    open_read_only,
    quote_name,
    read_table,
    refuse_rest,
)
from sbformat.errors import MissingEntryError, UnsupportedError, escape, quote
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sbformat.catalogue.rows import Scalar

_NO_COLUMN: Final = re.compile(r"no such column: \"?(?:\w+\.)?(.+?)\"?(?: - .*)?")
_TOKEN: Final = re.compile(
    r"""'(?:[^']|'')*'|"((?:[^"]|"")*)"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)""", re.DOTALL
)
"""A text, a quoted name, or a comment of SQL; the first group is a name in double quotes."""
_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_REFUSED_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer", "writefile", "edit", "readfile"})
_SOURCE: Final = "source"


class Found(Record):
    """The result of :func:`search`."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Scalar, ...]]
    """Read as they are taken. SQLite has 1 and 0 for truth values."""


@contextlib.contextmanager
def search(
    path: str,
    *,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    is_reversed: bool = False,
    most: int | None = None,
) -> Iterator[Found]:
    """Yield the rows of a catalogue that meet a condition; they can be read within the block.

    ::

        with search("runs.csv", where="algorithm = 'PPO' and gamma < 0.99", columns=["source", "gamma"]) as found:
            for source, gamma in found.rows:
                print(source, gamma)

    :param sort: the name of a column; rows without a value come last
    """
    with contextlib.closing(_open(path)) as database:
        names = tuple(row[0] for row in database.execute(f"SELECT name FROM pragma_table_info('{TABLE}')"))  # noqa: S608
        chosen = names if columns is None else tuple(columns)
        for name in (*chosen, *([sort] if sort is not None else [])):
            if name not in names:
                raise MissingEntryError(name, present=names, what="column")
        query = f'SELECT {", ".join(map(quote_name, chosen))} FROM "{TABLE}"'  # noqa: S608 -- see _authorize
        if where is not None:
            query += f" WHERE (\n{_TOKEN.sub(_requote, where)}\n)"
        direction = "DESC" if is_reversed else "ASC"
        order = f"rowid {direction}"
        if sort is not None:
            order = f"{quote_name(sort)} IS NULL, {quote_name(sort)} {direction}, rowid"
        query += f" ORDER BY {order}"
        if most is not None:
            query += f" LIMIT {most}"
        database.set_authorizer(_authorize)
        database.set_progress_handler(lambda: 0, _STEPS)  # so that Ctrl-C ends a condition that takes long
        try:
            cursor = database.execute(query)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _explain(error, names, path) from None
        yield Found(chosen, _fetch(cursor, names, path))


_STEPS: Final = 1_000_000
"""Steps of SQLite's machine, some milliseconds."""


def _open(path: str) -> sqlite3.Connection:
    """Open a catalogue as a database: one of SQLite itself, of another format a temporary copy."""
    next(read_table(path), None)  # whether it is one
    if path.lower().endswith(".sqlite"):
        return open_read_only(path)
    database = sqlite3.connect("", isolation_level=None)  # a temporary file, which SQLite removes
    try:
        fill_table(database, read_table(path), find_columns(read_table(path)))
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.Error):  # names of columns that are equal but for their case, a full disk
            message = f"{quote(path)} cannot be searched: {escape(str(error))}"
            raise UnsupportedError(message) from None
        if isinstance(error, (UnicodeError, OverflowError)):  # half a character; an integer of more than 64 bits
            raise refuse_rest(path) from None
        raise
    return database


def _requote(token: re.Match[str]) -> str:
    """Return a name in double quotes in grave accents: with those, SQLite never takes a wrong name for a text."""
    if token[1] is None:
        return token[0]
    name = token[1].replace('""', '"').replace("`", "``")
    return f"`{name}`"


def _authorize(action: int, argument: str | None, name: str | None, *_: object) -> int:
    """Allow what only reads; SQLite asks when it compiles a statement."""
    is_function = action == sqlite3.SQLITE_FUNCTION and (name or argument or "").lower() in _REFUSED_FUNCTIONS
    return sqlite3.SQLITE_OK if action in _ALLOWED and not is_function else sqlite3.SQLITE_DENY


def _fetch(cursor: sqlite3.Cursor, names: Sequence[str], path: str) -> Iterator[tuple[Scalar, ...]]:
    try:
        for row in cursor:  # noqa: UP028 -- "yield from" would close the cursor at the end, after its database
            yield row
    except sqlite3.Error as error:
        raise _explain(error, names, path) from None


def _explain(error: Exception, names: Sequence[str], path: str) -> MissingEntryError | UnsupportedError:
    """Return the error for a condition: that of a column that is not there names the nearest one."""
    if "malformed" in str(error):
        return refuse_rest(path)
    found = _NO_COLUMN.fullmatch(str(error))
    if found is not None:
        missing = MissingEntryError(found[1], present=names, what="column")
        missing.message += "; texts are in single quotes"
        return missing
    what = "it may only read the table" if "not authorized" in str(error) else escape(str(error))
    return UnsupportedError(f"the condition is not SQL that SQLite accepts: {what}")
