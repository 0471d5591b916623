"""Read, inspect and scan a file: everything that can be found out, and why the rest could not be."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sbformat.archive.archive import Archive
from sbformat.archive.entries import ReadOptions
from sbformat.errors import COULD_NOT_OPEN, LimitError, SbformatError, escape
from sbformat.formats.opener import open_archive, open_once
from sbformat.immutable import Record
from sbformat.io.opening import is_folder, is_remote, open_url
from sbformat.io.urls import hide_secrets, is_url
from sbformat.limits import DEFAULT_LIMITS, Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.io.source import Source
    from sbformat.limits import Limits
    from sbformat.reader import ArchiveLike
    from sbformat.tools.inspect import InspectReport
    from sbformat.tools.scan import ScanReport

T = TypeVar("T")


class Failure(Record):
    """Why something could not be read."""

    outcome: str
    """A word, as in the reports of the command line: ``container failure``, ``limit exceeded``, ``cannot open``, ..."""
    message: str
    error: SbformatError | OSError | None = None
    """If there is nothing to show of the source, the error: it cannot be opened, or is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileData:
    """What is known of one file."""

    name: str
    """Its path as the caller gave it; ``<archive>``, ``<bytes>`` or ``<file>`` without one."""
    archive: Archive | None
    """None if the file could not be read."""
    failure: Failure | None
    """Why the file could not be read."""
    inspected: InspectReport | None
    """None if the file could not be read."""
    scanned: ScanReport | None
    """The verdict, which a damaged file has, too; None if the file could not be opened."""
    size: int | None = None
    version: str | None = None
    """Of a remote file: its size in bytes and its ETag, commit or time when it was opened."""

    @property
    def is_broken(self) -> bool:
        """Whether the file, or one of its entries, could not be read."""
        return self.failure is not None or bool(self.inspected and self.inspected.broken)

    @property
    def reason(self) -> str:
        """Why it is broken, as a sentence; empty if it is not."""
        if self.failure is not None:
            return f"{self.failure.outcome}: {self.failure.message}"
        for row in self.inspected.broken if self.inspected else ():
            return f"{row.entry}: {row.outcome}: {row.message}"
        return ""


def name_source(source: ArchiveLike) -> str:
    """Return what a page or table calls a source."""
    if isinstance(source, (str, os.PathLike)):
        return hide_secrets(source) if is_url(source) else os.fsdecode(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return "<bytes>"
    if isinstance(source, Archive):
        return "<archive>"
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<file>"


def collect_file(
    source: ArchiveLike, *, name: str | None = None, limits: Limits = DEFAULT_LIMITS, allow: Iterable[str] = ()
) -> FileData:
    """Read, inspect and scan a file; one that cannot be read is described as far as possible.

    A file is opened once, so that the verdict is that of the bytes that are shown. Of a large one that changes
    meanwhile, what is read later cannot be read. The files of a folder are read twice.

    :param source: an archive, a path, bytes, or a binary file
    :param name: what a page calls it; by default its path
    :param limits: for reading
    :param allow: names that the scan treats as known
    :raises TypeError: if it is not a source
    """
    from sbformat.tools.inspect import inspect
    from sbformat.tools.scan import scan, scan_opened

    shown = name_source(source) if name is None else name
    opened = remote = None
    if not isinstance(source, Archive):
        is_whole, failure = try_to(lambda: not is_folder(source))
        if is_whole and is_remote(source):
            remote, failure = try_to(lambda: open_url(source, limits, is_whole=True))
        if is_whole and failure is None:
            opened, failure = try_to(lambda: open_once(source, Budget(limits), remote=remote))
        if failure is not None:
            return FileData(name=shown, archive=None, failure=failure, inspected=None, scanned=None)
    archive, failure = try_to(lambda: _read(source, opened, limits))
    inspected = None
    if archive is not None:
        inspected, failure = try_to(lambda: inspect(archive, limits=limits))
    if opened is None:
        scanned, _ = try_to(lambda: scan(source, limits=limits, allow=allow))
    else:
        scanned, _ = try_to(lambda: scan_opened(opened, limits=limits, allow=allow))
    if failure is not None and (archive is not None or (scanned is not None and scanned.size)):
        failure = failure._replace(error=None)  # there is something to show
    return FileData(
        name=shown,
        archive=archive,
        failure=failure,
        inspected=inspected,
        scanned=scanned,
        size=None if remote is None else remote.size,
        version=None if remote is None or remote.version is None else escape(remote.version),
    )


def _read(source: ArchiveLike, opened: Source | None, limits: Limits) -> Archive:
    """Read an archive of which a large file stays on the disk.

    :param opened: the contents of a file; None for a folder and an archive
    """
    return open_archive(source, Budget(limits), ReadOptions("inert"), in_memory=False, opened=opened)


def try_to(get: Callable[[], T]) -> tuple[T, None] | tuple[None, Failure]:
    """Return a value, or why there is none."""
    try:
        return get(), None
    except SbformatError as error:
        is_limit = isinstance(error, LimitError)
        return None, Failure(error.outcome, str(error), None if is_limit else error.again())
    except MemoryError:
        return None, Failure(LimitError.outcome, "out of memory: this machine has less than the file needs")
    except OSError as error:
        text = error.strerror or str(error)
        return None, Failure(COULD_NOT_OPEN, text, OSError(error.errno or 0, text))  # without what a traceback keeps
