"""Write a catalogue, or bring one up to date: only what is new or has changed is read.

In come sources and the present output, out comes a new output. The state of the work is one SQLite database beside the
output (:class:`Spool`), so that a run that was killed goes on where it was:

1. The sources are listed into the database, which may have the rows of an interrupted run.
2. Rows of the present output are taken over if their source has the same size and version.
3. The others are read, by this process or by workers, and each row is added to the database.
4. The columns of all rows are found, and the output is written from the database, in the order of the sources, to a
   temporary file that replaces it. A catalogue of SQLite is written like the others: which columns it has, and in which
   order, is only known when all rows are.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from functools import partial
from itertools import islice, tee
from typing import TYPE_CHECKING, Any, Final

from sbformat.catalogue.catalog import CatalogSource, import_tools, list_sources, make_lost_row, make_work
from sbformat.catalogue.rows import OK, SourceState, compute_checksum, encode_name, is_as_written, update_statistics
from sbformat.catalogue.table_files import DamagedTableError, find_columns, find_format, make_system_error, read_table
from sbformat.errors import COULD_NOT_OPEN, UnsupportedError, quote
from sbformat.folders.trees import Beside
from sbformat.immutable import Record
from sbformat.io.atomic import new_file
from sbformat.io.opening import is_remote
from sbformat.io.patterns import NOTHING, Exclusion
from sbformat.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sbformat.catalogue.rows import Row
    from sbformat.limits import Limits

    RowMapper = Callable[
        [Callable[[CatalogSource], Row], Iterable[CatalogSource], Callable[[CatalogSource], Row], int], Iterator[Row]
    ]
    """Calls the first argument on each source and returns the rows in their order; the third gives the row of a source
    whose worker was killed, and the last is the number of sources."""

SUFFIX: Final = ".partial"
"""The name of the spool is that of the output with this suffix."""
_FORMAT: Final = 5
_APPLICATION: Final = 0x5B4F4341
"""``application_id`` of the database, so that another file of this name is not taken for a spool."""
_SECONDS: Final = 1.0
_ROWS: Final = 200  # rows after which, and seconds after which, rows are committed
_FETCHED: Final = 500
_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS sources (position INTEGER PRIMARY KEY, name BLOB UNIQUE, target BLOB,
    size INTEGER, version TEXT, beside TEXT, source TEXT);
CREATE INDEX IF NOT EXISTS by_source ON sources (source);
CREATE TABLE IF NOT EXISTS done (name BLOB PRIMARY KEY, size INTEGER, version TEXT, made_by TEXT, outcome TEXT,
    row TEXT) WITHOUT ROWID;

CREATE TEMP VIEW finished AS SELECT position, beside, outcome, row FROM sources JOIN done
    ON done.name = sources.name AND done.size IS sources.size AND done.version IS sources.version;
CREATE TEMP VIEW failures AS SELECT position, row FROM finished WHERE outcome <> '{OK}';
CREATE TEMP VIEW pending AS SELECT * FROM sources WHERE NOT EXISTS (SELECT 1 FROM done
    WHERE done.name = sources.name AND done.size IS sources.size AND done.version IS sources.version)
"""  # noqa: S608 -- our own text
"""Sources and rows; sources with a row of their present state, with one of a failure, and without one."""
_PASSING: Final = (COULD_NOT_OPEN, "process ended", "internal error")  # outcomes that may be others in the next run


class Spool:
    """The database of a run."""

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
            if "locked" in str(error):
                raise UnsupportedError(f"another run writes this catalogue: {quote(self.path)} is locked") from None
            if isinstance(error, sqlite3.OperationalError):
                raise make_system_error(error, self.path) from None
            message = f"{quote(self.path)} is not what an unfinished run left: {error}"
            raise UnsupportedError(message, hint="remove it") from None

    def _prepare(self, *, fresh: bool) -> None:
        run = self._database.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA synchronous = NORMAL")
        run("BEGIN EXCLUSIVE")
        (application,), (version,) = run("PRAGMA application_id").fetchone(), run("PRAGMA user_version").fetchone()
        is_empty = run("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        if application != _APPLICATION and not is_empty:
            raise sqlite3.DatabaseError("not a spool")
        if version != _FORMAT or fresh:
            run("DROP TABLE IF EXISTS sources")
            run("DROP TABLE IF EXISTS done")
        for statement in _SCHEMA.split(";"):  # executescript would commit first
            run(statement)
        run(f"PRAGMA application_id = {_APPLICATION}")
        run(f"PRAGMA user_version = {_FORMAT}")
        run("DELETE FROM sources")
        marks = ", ".join("?" * len(_PASSING))
        query = f"DELETE FROM done WHERE made_by IS NOT ? OR outcome IN ({marks})"  # noqa: S608 -- our own text
        run(query, (self._made_by, *_PASSING))
        run("COMMIT")
        run("BEGIN")

    # -- what is to be done ---------------------------------------------------------------------------

    def add_sources(self, sources: Iterable[CatalogSource]) -> None:
        """Add the sources of the run, each once."""
        for (name, size, version, beside), target in sources:
            files = None if beside is None else json.dumps(beside)
            self._add_source(os.fsencode(name), os.fsencode(target), size, version, encode_name(name), files)
        self._commit()

    def _add_source(self, *values: Any) -> bool:
        """Add a source by the values of its columns; return whether it is new."""
        columns = "name, target, size, version, source, beside"
        query = f"INSERT OR IGNORE INTO sources ({columns}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 -- our own text
        return self._database.execute(query, values).rowcount > 0

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
            source = str(row["source"])
            name, state = source.encode(), (row["size"], row["version"])
            if name.startswith(unlisted):
                if self._add_source(name, name, *state, source, None):
                    self._insert("REPLACE", name, row, *state)
                continue
            if row["sbformat"] != self._made_by or row["outcome"] in _PASSING:
                continue
            found = self._database.execute(query, (source, str(row["version"]))).fetchall()
            if len(found) == 1 and found[0][1] in (None, row["size"]):  # two names may be one when they are escaped
                name, *state = found[0]
                self._insert("IGNORE", name, row, *state)

    def count(self, what: str) -> int:
        """Return the number of ``sources``, of those that are ``pending``, and of ``failures``."""
        return int(self._database.execute(f"SELECT count(*) FROM {what}").fetchone()[0])  # noqa: S608 -- our own text

    def list_pending(self) -> Iterator[CatalogSource]:
        """Yield the sources that have no row, in their order; rows may be added meanwhile. URLs are without options."""
        columns = "position, name, target, size, version, beside"
        query = f"SELECT {columns} FROM pending WHERE position > ? ORDER BY position LIMIT {_FETCHED}"  # noqa: S608
        last = 0
        while found := self._database.execute(query, (last,)).fetchall():
            for position, name, target, size, version, beside in found:
                state = SourceState(os.fsdecode(name), size, version, _read_beside(beside))
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

    def _insert(self, conflict: str, name: bytes, row: Row, *state: Any) -> None:
        """Add a row."""
        query = f"INSERT OR {conflict} INTO done VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 -- our own text
        text = json.dumps(row, separators=(",", ":"))
        self._database.execute(query, (name, *state, row["sbformat"], row["outcome"], text))

    def _commit(self) -> None:
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")
        self._uncommitted, self._committed = 0, time.monotonic()

    def added_rows(self) -> Iterator[Row]:
        """Yield the rows of all sources in their order, as they were added."""
        return (json.loads(text) for (text,) in self._database.execute("SELECT row FROM finished ORDER BY position"))

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all sources in their order, with the statistics that are beside local ones now."""
        for beside, text in self._database.execute("SELECT beside, row FROM finished ORDER BY position"):
            row: Row = json.loads(text)
            statistics = row["statistics"]
            if not is_remote(row["source"]):  # those of a remote agent are found when it is read
                update_statistics(row, _read_beside(beside))
            if row["checksum"] is None or row["statistics"] != statistics:
                row["checksum"] = compute_checksum(row)
            yield row

    def failures(self) -> Iterator[Row]:
        """Yield the rows of sources that could not be read, or that have an entry that could not be, in their order."""
        return (json.loads(text) for (text,) in self._database.execute("SELECT row FROM failures ORDER BY position"))

    # -- the end --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit what was added, if the disk has room for it, and leave the spool to the next run if it has a row."""
        is_empty = False
        with contextlib.suppress(sqlite3.Error):
            self._database.execute("COMMIT")
        with contextlib.suppress(sqlite3.Error):
            self._database.rollback()
            is_empty = not self.count("done")
        self._database.close()
        if is_empty:
            os.unlink(self.path)

    def remove(self) -> None:
        """Remove the spool, when the output is written."""
        self._database.execute("ROLLBACK")
        self._database.close()
        os.unlink(self.path)


def _read_beside(text: str | None) -> Beside | None:
    """Return what belongs to an agent, of the JSON that the spool has."""
    if text is None:
        return None
    top, folder, *files = json.loads(text)
    return Beside(top, folder, *map(tuple, files))


class CatalogReport(Record):
    """The result of :func:`update_catalog`."""

    output: str
    rows: int
    """Number of sources, each with a row."""
    read: int
    """How many of them were read in this run."""
    resumed: bool
    """Whether an interrupted run had left rows."""
    columns: int
    failed: int
    """Number of rows of sources that could not be read, or that have an entry that could not be."""
    failures: tuple[tuple[str, str, str], ...]
    """The first of these: source, outcome and message."""
    nbytes: int


_LISTED: Final = 100


def update_catalog(
    sources: Iterable[str],
    output: str,
    *,
    map_rows: RowMapper,
    limits: Limits = DEFAULT_LIMITS,
    allow: Iterable[str] = (),
    exclude: Exclusion = NOTHING,
    fresh: bool = False,
    overwrite: bool = False,
) -> CatalogReport | None:
    """Write a catalogue of many archives, or bring it up to date; None, and no file, if there are no sources.

    :param exclude: what is left out of folders
    :param output: the file; its suffix decides on the format. One that exists is brought up to date
    """
    table = find_format(output)
    work = make_work(limits, tuple(allow))
    is_catalogue = check_output(output, overwrite=overwrite)
    had_spool = os.path.exists(output + SUFFIX)
    spool = Spool(output, made_by=work.keywords["made_by"], fresh=fresh)
    try:
        finds_states = (is_catalogue or had_spool) and not fresh
        spool.add_sources(list_sources(sources, limits, exclude=exclude, finds_states=finds_states))
        if not spool.count("sources"):
            spool.remove()
            return None
        if is_catalogue and not fresh:
            with contextlib.suppress(DamagedTableError):  # what it lacks is read again
                spool.take_over(read_table(output))
        pending = spool.count("pending")
        if pending:
            import_tools()
        lost = partial(make_lost_row, made_by=work.keywords["made_by"])
        read_next, read = tee(spool.list_pending())
        for row, source in zip(map_rows(work, read_next, lost, pending), read):
            spool.add_row(source, row)
        count, failed = spool.count("sources"), spool.count("failures")
        listed = islice(spool.failures(), _LISTED)
        failures = tuple((str(row["source"]), str(row["outcome"]), str(row["error"])) for row in listed)
        if failed == count and is_catalogue and not overwrite and _has_good_row(output):
            spool.remove()
            reason = ": ".join(failures[0])
            message = f"no source can be read ({reason}): the table is left as it is"
            raise UnsupportedError(message, hint="--force replaces it")
        columns = find_columns(spool.added_rows())
        with new_file(output, overwrite=True) as temporary:
            table.write(os.fspath(temporary), spool.rows(), columns)
    except sqlite3.Error as error:
        spool.close()
        raise make_system_error(error, spool.path) from None
    except BaseException:
        spool.close()
        raise
    spool.remove()
    resumed = had_spool and not fresh
    size = os.path.getsize(output)
    return CatalogReport(output, count, pending, resumed, len(columns.names), failed, failures, size)


def check_output(output: str, *, overwrite: bool) -> bool:
    """Return whether there is a catalogue at the output, whose rows can be taken over."""
    if not os.path.lexists(output):
        return False
    try:
        next(read_table(output), None)
    except DamagedTableError:
        return True
    except UnsupportedError as error:
        if not overwrite:
            error.add_hint("--force replaces it")
            raise
        return False
    return True


def _has_good_row(output: str) -> bool:
    """Return whether a catalogue has the row of a file that could be read."""
    with contextlib.suppress(DamagedTableError):
        return any(row["outcome"] == OK for row in read_table(output))
    return False
