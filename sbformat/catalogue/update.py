"""Write a catalogue, or bring one up to date: only what is new or has changed is read.

1. The sources are listed into a spool (:mod:`sbformat.catalogue.spool`), with what an interrupted run left.
2. Rows of the present output are taken over if their source has the same size and version.
3. The others are read, by this process or by workers, and each row goes into the spool.
4. The output is written from the spool in the order of the sources, to a temporary file that replaces it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sbformat.catalogue.catalog import make_lost_row, make_work
from sbformat.catalogue.files.columns import find_columns
from sbformat.catalogue.files.formats import DamagedTableError, find_format, read_table
from sbformat.catalogue.files.sqlite_file import make_system_error
from sbformat.catalogue.flat_rows import OK
from sbformat.catalogue.sources import list_sources
from sbformat.catalogue.spool import SUFFIX, Spool
from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.io.atomic import new_file
from sbformat.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sbformat.catalogue.files.formats import TableFormat
    from sbformat.catalogue.flat_rows import Row
    from sbformat.catalogue.sources import CatalogSource
    from sbformat.limits import Limits

    RowMapper = Callable[
        [Callable[[CatalogSource], Row], Iterable[CatalogSource], Callable[[CatalogSource], Row], int], Iterator[Row]
    ]
    """Calls the first argument on each source and returns the rows in their order; the third gives the row of a source
    whose worker was killed, and the last is the number of sources."""


class CatalogReport(Record):
    """What :func:`update_catalog` wrote."""

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
    """Size of the file."""


_LISTED: Final = 100
"""Failures that are listed."""


def update_catalog(
    sources: Iterable[str],
    output: str,
    *,
    map_rows: RowMapper,
    limits: Limits = DEFAULT_LIMITS,
    allow: Iterable[str] = (),
    fresh: bool = False,
    overwrite: bool = False,
) -> CatalogReport | None:
    """Write a catalogue of many archives, or bring it up to date; None, and no file, if there are no sources.

    :param sources: as in :func:`sbformat.catalog`, paths and URLs only
    :param output: the file; its suffix decides on the format. One that exists is brought up to date
    :param map_rows: does the work
    :param limits: for reading each file
    :param allow: names that the scan treats as known
    :param fresh: read everything again
    :param overwrite: replace a file that is not a catalogue
    :raises UnsupportedError: for a suffix that is not one of a catalogue, a package that is not installed, a file that
        is not a catalogue, and while another run writes the same output
    :raises OSError: when it cannot be written
    """
    table = find_format(output)
    table.require_packages()
    work = make_work(limits, tuple(allow))
    made_by = work.keywords["made_by"]
    is_catalogue = check_output(output, overwrite=overwrite)
    had_spool = os.path.exists(output + SUFFIX)
    spool = Spool(output, made_by=made_by, fresh=fresh)
    try:
        spool.add_sources(list_sources(sources, limits, finds_states=(is_catalogue or had_spool) and not fresh))
        if not spool.count_sources():
            spool.remove()
            return None
        if is_catalogue and not fresh:
            with contextlib.suppress(DamagedTableError):  # what it lacks is read again
                spool.take_over(read_table(output))
        pending = spool.count_pending()
        _read_pending(spool, pending, work, map_rows)
        count, failed = spool.count_sources(), spool.count_failures()
        listed = islice(spool.failures(), _LISTED)
        failures = tuple((str(row["source"]), str(row["outcome"]), str(row["error"])) for row in listed)
        if failed == count and is_catalogue and not overwrite and _has_good_row(output):
            spool.remove()
            source, outcome, error = failures[0]
            message = (
                f"no source can be read ({source}: {outcome}: {error}): the table is left as it is; --force replaces it"
            )
            raise UnsupportedError(message)
        columns = _write_output(spool, output, table)
    except sqlite3.Error as error:
        spool.close()
        raise make_system_error(error, spool.path) from None
    except BaseException:
        spool.close()
        raise
    spool.remove()
    resumed = had_spool and not fresh
    return CatalogReport(output, count, pending, resumed, columns, failed, failures, os.path.getsize(output))


def check_output(output: str, *, overwrite: bool) -> bool:
    """Return whether there is a catalogue at the output, whose rows can be taken over.

    :raises UnsupportedError: when there is another file, unless it is overwritten
    """
    if not os.path.lexists(output):
        return False
    try:
        next(read_table(output), None)
    except DamagedTableError:
        return True
    except UnsupportedError as error:
        if not overwrite:
            message = f"{error.message}; --force replaces it"
            raise UnsupportedError(message) from None
        return False
    return True


def _read_pending(spool: Spool, count: int, work: Any, map_rows: RowMapper) -> None:
    """Read the sources that have no row, and add their rows to the spool."""
    under_way: deque[CatalogSource] = deque()

    def list_pending() -> Iterator[CatalogSource]:
        for source in spool.list_pending():
            under_way.append(source)
            yield source

    def make_lost(source: CatalogSource) -> Row:
        return make_lost_row(source, made_by=work.keywords["made_by"])

    for row in map_rows(work, list_pending(), make_lost, count):
        spool.add_row(under_way.popleft(), row)


def _has_good_row(output: str) -> bool:
    """Return whether a catalogue has the row of a file that could be read."""
    with contextlib.suppress(DamagedTableError):
        return any(row["outcome"] == OK for row in read_table(output))
    return False


def _write_output(spool: Spool, output: str, table: TableFormat) -> int:
    """Write the output from the spool; return the number of columns."""
    columns = find_columns(spool.rows())
    with new_file(output, overwrite=True) as temporary:
        table.write(os.fspath(temporary), spool.rows(), columns)
    return len(columns.names)
