"""``report``: a page about one archive, a comparison of two, or a table of many."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sbformat.catalogue.collect import COULD_NOT_OPEN, FileData, collect_file
from sbformat.catalogue.rows import FileRow, collect_row
from sbformat.errors import require_names
from sbformat.html_report.page import require_packages
from sbformat.html_report.table import render_table
from sbformat.io.atomic import new_file
from sbformat.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.limits import Limits
    from sbformat.reader import ArchiveLike

FEWEST_IN_TABLE: Final = 3
"""Number of files from which on a page is a table, and keeps of each file only its row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlReport:
    """What :func:`report` wrote."""

    output: str
    """The path of the page."""
    nbytes: int
    """Its size."""
    files: tuple[str, ...]
    """The names of the files that it is about."""
    broken: tuple[str, ...]
    """Those that could not be read, or that have an entry that could not be."""


def report(
    sources: ArchiveLike | Sequence[ArchiveLike],
    output: str | os.PathLike[str],
    *,
    title: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    allow: Iterable[str] = (),
    overwrite: bool = False,
) -> HtmlReport:
    """Write a page of HTML about archives, to look at in a browser. Nothing in them is executed.

    Of one file the page shows what it is, the verdict of :func:`sbformat.scan`, settings, spaces, the network, the
    distribution of weights, episodes and statistics; of two, how they differ; of more, a table to sort and filter.
    The page is one file, which loads nothing from elsewhere: its Content-Security-Policy forbids it. The same files
    give the same page. The extra ``report`` installs what this needs. ::

        sbformat.report("agent.zip", "agent.html")
        sbformat.report(["before.zip", "after.zip"], "comparison.html")

    :param sources: an archive, a path, bytes or a binary file, or a sequence of these. A file that cannot be read is
        in the page with the reason
    :param output: the path of the page
    :param title: of the page; by default it is made of the names of the files
    :param limits: for reading
    :param allow: dotted names that the scan treats as known, as in :func:`sbformat.scan`
    :param overwrite: replace a file that exists
    :raises UnsupportedError: when a package of the extra is not installed
    :raises ValueError: without sources
    :raises FileExistsError: when the output exists and ``overwrite`` is False
    :raises OSError: when the only source cannot be opened, or the page cannot be written
    """
    require_packages()
    allowed = require_names(allow, "allow")
    target = os.fspath(output)
    several: Any = sources if type(sources) in (list, tuple) else [sources]
    listed = list(several)
    if not listed:
        message = "expected at least one source, got none"
        raise ValueError(message)
    files = (collect_file(source, limits=limits, allow=allowed) for source in listed)
    found = list(files) if len(listed) < FEWEST_IN_TABLE else [collect_row(file) for file in files]
    require_opened(found)
    return write_report(found, target, title=title, overwrite=overwrite)


def write_report(
    found: Sequence[FileData] | Sequence[FileRow], output: str, *, title: str | None = None, overwrite: bool = False
) -> HtmlReport:
    """Write the page about one or two files that were collected, or a table of rows; see :func:`report`."""
    content = render_report(found, title=title).encode("utf-8", "backslashreplace")
    with new_file(output, overwrite=overwrite) as temporary:
        temporary.write_bytes(content)
    return HtmlReport(
        output=output,
        nbytes=len(content),
        files=tuple(file.name for file in found),
        broken=tuple(file.name for file in found if file.is_broken),
    )


def render_report(found: Sequence[FileData] | Sequence[FileRow], *, title: str | None = None) -> str:
    """Return the page about one or two files, or about rows, as text."""
    from sbformat.html_report.archive_page import render_archive
    from sbformat.html_report.comparison_page import render_comparison

    files = [file for file in found if isinstance(file, FileData)]
    if not files:
        return render_table([row for row in found if isinstance(row, FileRow)], title=title)
    if len(files) == 1:
        return render_archive(files[0], title=title)
    return render_comparison(*files, title=title)


def require_opened(found: Sequence[FileData] | Sequence[FileRow]) -> None:
    """Refuse files of which not one could be opened.

    :raises OSError: with the first reason
    """
    failure = found[0].failure
    if failure is not None and all(file.failure and file.failure.outcome == COULD_NOT_OPEN for file in found):
        raise OSError(failure.errno, failure.message, found[0].name)
