"""Read, inspect and scan a file: everything that can be found out, and why the rest could not be."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from sbformat.archive.archive import Archive
from sbformat.errors import LimitError, SbformatError
from sbformat.io.source import open_source
from sbformat.limits import DEFAULT_LIMITS, Budget
from sbformat.reader import read_in_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.io.source import SourceLike
    from sbformat.limits import Limits
    from sbformat.reader import ArchiveLike
    from sbformat.tools.inspect import InspectReport
    from sbformat.tools.scan import ScanReport

T = TypeVar("T")

COULD_NOT_OPEN: Final = "cannot open"
"""The outcome of a path that the operating system cannot open."""


class Failure(NamedTuple):
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
        return os.fsdecode(source)
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

    :param source: an archive, a path, bytes, or a binary file
    :param name: what a page calls it; by default its path
    :param limits: for reading
    :param allow: names that the scan treats as known
    :raises TypeError: if it is not a source
    """
    from sbformat.tools.inspect import inspect
    from sbformat.tools.scan import scan

    shown = name_source(source) if name is None else name
    content, failure = _try_to(lambda: _keep_content(source, limits))
    if content is None:
        return FileData(name=shown, archive=None, failure=failure, inspected=None, scanned=None)
    archive, failure = _try_to(lambda: read_in_place(content, limits=limits, on_unknown="inert"))
    inspected = None
    if archive is not None:
        inspected, failure = _try_to(lambda: inspect(archive, limits=limits))
    scanned, _ = _try_to(lambda: scan(content, limits=limits, allow=allow))
    if failure is not None and (archive is not None or (scanned is not None and scanned.size)):
        failure = failure._replace(error=None)  # there is something to show
    return FileData(name=shown, archive=archive, failure=failure, inspected=inspected, scanned=scanned)


def _keep_content(source: ArchiveLike, limits: Limits) -> Archive | SourceLike:
    """Return a source that can be read twice: of a binary file or pipe, its bytes."""
    if isinstance(source, Archive) or (isinstance(source, (str, os.PathLike)) and not _is_pipe(source)):
        return source
    opened = open_source(source, budget=Budget(limits))
    return opened.view(0, opened.size)


def _is_pipe(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a pipe, such as that of ``<(program)`` in a shell."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):  # opening it gives the error
        return False


def _try_to(get: Callable[[], T]) -> tuple[T, None] | tuple[None, Failure]:
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
