"""``report``: a page about one archive, a comparison of two, or a table of many.

In come archives, out comes a file of HTML. The table contains all rows; its script sorts, filters and hides columns.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.catalogue.collect import FileData, add_training, collect_file
from sbformat.catalogue.rows import FileRow, collect_row
from sbformat.errors import SbformatError, UnsupportedError, escape, require_names
from sbformat.folders.agents import find_in_folder
from sbformat.folders.trees import BesideFinder
from sbformat.html_report.page import require_packages
from sbformat.immutable import Record
from sbformat.io.atomic import check_new_file, new_file
from sbformat.limits import DEFAULT_LIMITS
from sbformat.tools.scan.findings import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.html_report.actions_panel import ActionsPanel
    from sbformat.limits import Limits
    from sbformat.reader import ArchiveLike


FEWEST_IN_TABLE: Final = 3
"""Number of files from which on a page is a table, and keeps of each file only its row."""
_LONGEST_REASON: Final = 500


class HtmlReport(Record):
    """The result of :func:`report`: the page that was written."""

    output: str
    """The path of the page."""
    nbytes: int
    """Its size."""
    files: tuple[str, ...]
    """The names of the files that it is about."""
    broken: tuple[str, ...]
    """Those that could not be read, or that have an entry that could not be."""
    reasons: tuple[str, ...]
    """Why, a sentence for each of ``broken``."""


def report(
    sources: ArchiveLike | Sequence[ArchiveLike],
    output: str | os.PathLike[str],
    *,
    title: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    allow: Iterable[str] = (),
    overwrite: bool = False,
    interactive: bool = False,
    vecnormalize: VecNormalize | ArchiveLike | bool | None = None,
) -> HtmlReport:
    """Write a page of HTML about archives, to look at in a browser. Nothing in them is executed.

    Of one file the page shows what it is, the verdict of :func:`sbformat.scan`, settings, spaces, the network, the
    distribution of weights, episodes, statistics, and how the reward rose, by the logs beside it; of two, how they
    differ; of more, a table to sort and filter, with a chart of their rewards and curves of their runs. The page is one
    file, which loads nothing from elsewhere: its Content-Security-Policy forbids it. The same files give the same page.
    The extra ``report`` installs what this needs. ::

        sbformat.report("agent.zip", "agent.html")
        sbformat.report(["before.zip", "after.zip"], "comparison.html")
        sbformat.report("agent.zip", "agent.html", interactive=True)

    An interactive page of one agent has its policy, too, and a panel: controls for the observation, and what the agent
    answers to it. The policy runs in the browser, without a request.

    :param sources: an archive, a path, bytes or a binary file, or a sequence of these. A damaged file is in the page
        with the reason; so is, in a table of three or more, one that cannot be opened
    :param output: the path of the page
    :param title: of the page; by default it is made of the names of the files
    :param limits: for reading
    :param allow: dotted names that the scan treats as known, as in :func:`sbformat.scan`
    :param overwrite: replace a file that exists
    :param interactive: whether the page of one agent has a panel with its actions. Of a folder with agents the page is
        about the one that :func:`sbformat.load_policy` loads
    :param vecnormalize: for an interactive page, as for :func:`sbformat.load_policy`; by default the statistics of a
        bundle, or those beside the agent
    :raises UnsupportedError: when a package of the extra is not installed, or the output is one of the sources; of an
        interactive page, when there is more than one source, the file has no policy that is known, or more than 64 MiB
        of weights
    :raises ValueError: without sources, and for statistics of a page that is not interactive
    :raises FileExistsError: when the output exists and ``overwrite`` is False
    :raises OSError: when a source of one or two, or every one, cannot be opened, or the page cannot be written
    :raises SbformatError: when these are empty files, or folders without an archive
    """
    require_packages()
    allowed = require_names(allow, "allow")
    target = os.fspath(output)
    several: Any = sources if type(sources) in (list, tuple) else [sources]
    listed = list(several)
    if not listed:
        raise ValueError("expected at least one source, got none")
    if vecnormalize is not None and not interactive:
        raise ValueError("vecnormalize is for interactive pages: pass interactive=True, too")
    for source in listed:
        is_file = isinstance(source, (str, os.PathLike)) and os.path.exists(source) and os.path.exists(target)
        if is_file and os.path.samefile(source, target):
            raise UnsupportedError("the output and the input are the same file")
    check_new_file(target, overwrite=overwrite)
    if interactive:
        require_one(listed)
        chosen = find_in_folder(listed[0], limits)
        listed = [listed[0] if chosen is None else chosen.path]
    finder = BesideFinder(limits)
    files = (_collect(source, finder, limits, allowed) for source in listed)
    found = list(files) if len(listed) < FEWEST_IN_TABLE else [collect_row(file) for file in files]
    if not is_complete(found):
        raise _find_error(find_missing(found)[0], len(found))
    panel = None
    if interactive:
        from sbformat.html_report.actions_panel import make_panel

        [file] = select_files(found)
        panel = make_panel(file, vecnormalize=vecnormalize, limits=limits)
    return write_report(found, target, title=title, overwrite=overwrite, panel=panel)


def require_one(sources: Sequence[object]) -> None:
    """Refuse an interactive page about several files."""
    if len(sources) != 1:
        raise UnsupportedError(f"an interactive page is about one agent: expected one file, got {len(sources):,}")


def _collect(source: ArchiveLike, finder: BesideFinder, limits: Limits, allow: Iterable[str]) -> FileData:
    """Collect a file, and what the logs beside it say."""
    found = collect_file(source, limits=limits, allow=allow)
    if not isinstance(source, (str, os.PathLike)):
        return found
    return add_training(found, finder.find(os.fsdecode(source)), limits)


def write_report(
    found: Sequence[FileData] | Sequence[FileRow],
    output: str,
    *,
    title: str | None = None,
    overwrite: bool = False,
    panel: ActionsPanel | None = None,
) -> HtmlReport:
    """Write the page about one or two files that were collected, or a table of rows; see :func:`report`.

    :param panel: of the one file
    """
    content = render_report(found, title=title, panel=panel).encode("utf-8", "backslashreplace")
    with new_file(output, overwrite=overwrite) as temporary:
        temporary.write_bytes(content)
    names = tuple(file.name for file in found)
    broken = [file for file in found if file.is_broken]
    reasons = tuple(map(_describe_reason, broken))
    broken_names = tuple(file.name for file in broken)
    return HtmlReport(output=output, nbytes=len(content), files=names, broken=broken_names, reasons=reasons)


def _describe_reason(file: FileData | FileRow) -> str:
    """Return why a file is broken, as a sentence."""
    if isinstance(file, FileData):
        return escape(file.reason, _LONGEST_REASON)
    if file.failure is not None:
        return escape(f"{file.failure.outcome}: {file.failure.message}", _LONGEST_REASON)
    reasons = (f"{row.place}: {row.label}: {row.message}" for row in file.remarks if row.label not in VERDICTS)
    return next(reasons, "an entry cannot be read")


def render_report(
    found: Sequence[FileData] | Sequence[FileRow], *, title: str | None = None, panel: ActionsPanel | None = None
) -> str:
    """Return the page about one or two files, or about rows, as text."""
    from sbformat.html_report.archive_page import render_archive
    from sbformat.html_report.comparison_page import render_comparison
    from sbformat.html_report.table_page import render_table

    files = select_files(found)
    if not files:
        return render_table([row for row in found if isinstance(row, FileRow)], title=title)
    if len(files) == 1:
        return render_archive(files[0], title=title, panel=panel)
    return render_comparison(*files, title=title)


def select_files(found: Sequence[FileData] | Sequence[FileRow]) -> list[FileData]:
    """Return the one or two files; none of rows."""
    return [file for file in found if isinstance(file, FileData)]


def find_missing(found: Sequence[FileData] | Sequence[FileRow]) -> list[FileData | FileRow]:
    """Return the files of which nothing can be shown: they cannot be opened, or are empty."""
    return [file for file in found if file.failure is not None and file.failure.error is not None]


def is_complete(found: Sequence[FileData] | Sequence[FileRow]) -> bool:
    """Return whether there is enough for a page.

    A page about one or two files shows each of them. A table shows one at least, and lists the others as failed.
    """
    missing = find_missing(found)
    return not missing or FEWEST_IN_TABLE <= len(found) > len(missing)


def _find_error(file: FileData | FileRow, count: int) -> Exception:
    """Return the error of a file of which there is nothing to show, which names it if there are others."""
    error: Any = file.failure and file.failure.error
    if isinstance(error, SbformatError):
        return error.within(file.name) if count > 1 else error
    return OSError(*error.args, file.name)
