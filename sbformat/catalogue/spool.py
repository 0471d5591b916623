"""The work of a run on its way: a database beside the output, so that a run that was killed goes on where it was.

In comes the list of sources, then a row for each, in any order of time; out come the rows in the order of the sources.
All of it is on the disk. Rows are committed together every second: a kill loses those since then. A second run with the
same output is refused, because the database is locked as long as the first one runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any, Final

from sbformat.catalogue.files.sqlite_file import make_system_error
from sbformat.catalogue.flat_rows import (
    OK,
    SourceState,
    compute_checksum,
    encode_name,
    is_as_written,
    update_statistics,
)
from sbformat.catalogue.sources import CatalogSource
from sbformat.errors import COULD_NOT_OPEN, UnsupportedError, quote
from sbformat.io.opening import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.catalogue.flat_rows import Row

SUFFIX: Final = ".partial"
"""What follows the name of the output in that of the spool."""
_FORMAT: Final = 4
"""Version of the tables below; another one is not read."""
_APPLICATION: Final = 0x5B4F4341
"""``application_id`` of the database, so that another file of this name is not taken for a spool."""
_SECONDS: Final = 1.0
_ROWS: Final = 200
"""Rows after which, and seconds after which, rows are committed."""
_FETCHED: Final = 500
_SOURCES: Final = (
    "CREATE TABLE IF NOT EXISTS sources (position INTEGER PRIMARY KEY, name BLOB UNIQUE, target BLOB, "
    "size INTEGER, version TEXT, statistics BLOB, source TEXT)"
)
_INDEX: Final = "CREATE INDEX IF NOT EXISTS by_source ON sources (source)"
_DONE: Final = (
    "CREATE TABLE IF NOT EXISTS done (name BLOB PRIMARY KEY, size INTEGER, version TEXT, made_by TEXT, outcome TEXT, "
    "row TEXT) WITHOUT ROWID"
)
_MATCHES: Final = "done.name = sources.name AND done.size IS sources.size AND done.version IS sources.version"
_PASSING: Final = (COULD_NOT_OPEN, "process ended", "internal error")
"""Outcomes that may be others in the next run."""


class Spool:
    """The database of a run.

    :param output: the file that is written at the end
    :param made_by: what makes rows now: those of another reader are made again
    :param fresh: forget what an earlier run left
    :raises UnsupportedError: when another run writes the same output, or a file of the name is not a spool
    :raises OSError: when it cannot be written
    """

    def __init__(self, output: str, *, made_by: str, fresh: bool) -> None:
        self.path = output + SUFFIX
        self._made_by = made_by
        self._uncommitted = 0
        self._committed = time.monotonic()
        is_new = not os.path.exists(self.path)
        if is_new:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # URLs may have tokens
        self._database = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            self._prepare(fresh=fresh)
        except sqlite3.DatabaseError as error:
            self._database.close()
            if is_new:
                os.unlink(self.path)
            raise self._explain(error) from None

    def _prepare(self, *, fresh: bool) -> None:
        run = self._database.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA synchronous = NORMAL")
        run("BEGIN EXCLUSIVE")
        (application,), (version,) = run("PRAGMA application_id").fetchone(), run("PRAGMA user_version").fetchone()
        is_empty = run("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        if application != _APPLICATION and not is_empty:
            message = "not a spool"
            raise sqlite3.DatabaseError(message)
        if version != _FORMAT or fresh:
            run("DROP TABLE IF EXISTS sources")
            run("DROP TABLE IF EXISTS done")
        for statement in (_SOURCES, _DONE, _INDEX):
            run(statement)
        run(f"PRAGMA application_id = {_APPLICATION}")
        run(f"PRAGMA user_version = {_FORMAT}")
        run("DELETE FROM sources")
        marks = ", ".join("?" * len(_PASSING))
        query = f"DELETE FROM done WHERE made_by IS NOT ? OR outcome IN ({marks})"  # noqa: S608 -- our own text
        run(query, (self._made_by, *_PASSING))
        run("COMMIT")
        run("BEGIN")

    def _explain(self, error: sqlite3.DatabaseError) -> UnsupportedError | OSError:
        if "locked" in str(error):
            return UnsupportedError(f"another run writes this catalogue: {quote(self.path)} is locked")
        if isinstance(error, sqlite3.OperationalError):
            return make_system_error(error, self.path)
        return UnsupportedError(f"{quote(self.path)} is not what an unfinished run left: {error}; remove it")

    # -- what is to be done ---------------------------------------------------------------------------

    def add_sources(self, sources: Iterable[CatalogSource]) -> None:
        """Add the sources of the run, each once."""
        lines = (
            (
                os.fsencode(state.name),
                os.fsencode(target),
                state.size,
                state.version,
                _encode(state.statistics),
                encode_name(state.name),
            )
            for state, target in sources
        )
        self._database.executemany(
            "INSERT OR IGNORE INTO sources (name, target, size, version, statistics, source) VALUES (?, ?, ?, ?, ?, ?)",
            lines,
        )
        self._commit()

    def take_over(self, rows: Iterable[Row]) -> None:
        """Add the rows of an earlier catalogue whose sources are the same; those of this spool are kept.

        A row that is not as it was written is left out, and its source read again. Rows of files in a folder that
        cannot be listed now are kept with their sources, after all others.
        """
        names = self._database.execute("SELECT name FROM sources WHERE size IS NULL")
        unlisted = tuple(os.path.join(name, b"") for (name,) in names if os.path.isdir(name))
        query = "SELECT name, size, version FROM sources WHERE source = ? AND version = ?"
        for row in rows:
            if not is_as_written(row):
                continue
            if str(row["source"]).encode().startswith(unlisted):
                self._keep(row)
                continue
            if row["sbformat"] != self._made_by or row["outcome"] in _PASSING:
                continue
            found = self._database.execute(query, (str(row["source"]), str(row["version"]))).fetchall()
            if len(found) == 1 and found[0][1] in (None, row["size"]):  # two names may be one when they are escaped
                ((name, *state),) = found
                self._insert("IGNORE", name, row, *state)

    def _keep(self, row: Row) -> None:
        """Add a row with its source, unless that was found."""
        source = str(row["source"])
        state: Any = row["size"], row["version"]
        query = "INSERT OR IGNORE INTO sources (name, target, size, version, source) VALUES (?, ?, ?, ?, ?)"
        if self._database.execute(query, (source.encode(), source.encode(), *state, source)).rowcount:
            self._insert("REPLACE", source.encode(), row, *state)

    def count_sources(self) -> int:
        """Return how many sources there are."""
        return int(self._count("sources"))

    def count_pending(self) -> int:
        """Return how many sources have no row."""
        missing = f"NOT EXISTS (SELECT 1 FROM done WHERE {_MATCHES})"  # noqa: S608 -- our own text
        return int(self._count(f"sources WHERE {missing}"))

    def list_pending(self) -> Iterator[CatalogSource]:
        """Yield the sources that have no row, in their order; rows may be added meanwhile. URLs are without options."""
        query = (
            "SELECT position, name, target, size, version, statistics FROM sources WHERE position > ? "  # noqa: S608
            f"AND NOT EXISTS (SELECT 1 FROM done WHERE {_MATCHES}) ORDER BY position LIMIT {_FETCHED}"
        )
        last = 0
        while found := self._database.execute(query, (last,)).fetchall():
            for position, name, target, size, version, statistics in found:
                state = SourceState(os.fsdecode(name), size, version, _decode(statistics))
                yield CatalogSource(state, os.fsdecode(target))
                last = position

    # -- what is done ---------------------------------------------------------------------------------

    def add_row(self, source: CatalogSource, row: Row) -> None:
        """Add the row of a source. It belongs to the state in which the source was listed."""
        name, size, version = os.fsencode(source.state.name), source.state.size, source.state.version
        if version is None and row["version"] is not None:  # a remote file that was named, not listed
            size, version = row["size"], row["version"]  # type: ignore[assignment]
            self._database.execute("UPDATE sources SET size = ?, version = ? WHERE name = ?", (size, version, name))
        self._insert("REPLACE", name, row, size, version)
        self._uncommitted += 1
        if self._uncommitted >= _ROWS or time.monotonic() - self._committed >= _SECONDS:
            self._commit()

    def _insert(self, conflict: str, name: bytes, row: Row, size: int | None, version: str | None) -> None:
        query = f"INSERT OR {conflict} INTO done VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 -- our own text
        text = json.dumps(row, separators=(",", ":"))
        self._database.execute(query, (name, size, version, row["sbformat"], row["outcome"], text))

    def _commit(self) -> None:
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")
        self._uncommitted, self._committed = 0, time.monotonic()

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all sources in their order, with the statistics that are beside local ones now."""
        query = f"SELECT statistics, row FROM sources JOIN done ON {_MATCHES} ORDER BY position"  # noqa: S608
        for statistics, text in self._database.execute(query):
            row: Row = json.loads(text)
            if not is_remote(row["source"]):  # those of a remote agent are found when it is read
                update_statistics(row, _decode(statistics))
            row["checksum"] = compute_checksum(row)
            yield row

    def count_failures(self) -> int:
        """Return how many sources have an entry that could not be read, or could not be read at all."""
        query = f"SELECT count(*) FROM sources JOIN done ON {_MATCHES} WHERE outcome <> ?"  # noqa: S608
        return int(self._database.execute(query, (OK,)).fetchone()[0])

    def failures(self) -> Iterator[Row]:
        """Yield the rows of sources that could not be read, or that have an entry that could not be, in their order."""
        query = f"SELECT row FROM sources JOIN done ON {_MATCHES} WHERE outcome <> ? ORDER BY position"  # noqa: S608
        return (json.loads(text) for (text,) in self._database.execute(query, (OK,)))

    def _count(self, what: str) -> Any:
        return self._database.execute(f"SELECT count(*) FROM {what}").fetchone()[0]  # noqa: S608 -- our own text

    # -- the end --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit what was added, if the disk has room for it, and leave the spool to the next run if it has a row."""
        is_empty = False
        with contextlib.suppress(sqlite3.Error):
            self._database.execute("COMMIT")
        with contextlib.suppress(sqlite3.Error):
            self._database.rollback()
            is_empty = not self._count("done")
        self._database.close()
        if is_empty:
            os.unlink(self.path)

    def remove(self) -> None:
        """Remove the spool, when the output is written."""
        self._database.execute("ROLLBACK")
        self._database.close()
        os.unlink(self.path)


def _encode(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _decode(text: bytes | None) -> str | None:
    return None if text is None else os.fsdecode(text)
