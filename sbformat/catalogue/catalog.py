"""``catalog``: a row for each of many archives, made by this process or by any executor.

The sources are files, folders of them, globs and URLs, each with what changes when its contents do.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat import __version__
from sbformat.archive.archive import Archive
from sbformat.catalogue.collect import add_training, collect_file, find_beside, name_source, try_to
from sbformat.catalogue.rows import SourceState, make_failed_row, make_row
from sbformat.errors import SbformatError, escape, require_names, require_type
from sbformat.folders.names import AGENTS
from sbformat.folders.trees import (
    BesideFinder,
    expand_paths,
    expand_pattern,
    find_unlisted,
    is_excluded_url,
    is_zip_of_logs,
)
from sbformat.immutable import Record
from sbformat.io.opening import is_remote, open_url
from sbformat.io.patterns import NOTHING, Exclusion
from sbformat.io.urls import find_scheme, hide_secrets
from sbformat.limits import DEFAULT_LIMITS
from sbformat.parallel import WORKER_TIMEOUT, map_in_order
from sbformat.pkl.tree import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Executor

    from sbformat.catalogue.collect import FileData
    from sbformat.catalogue.rows import Row
    from sbformat.folders.trees import Beside
    from sbformat.limits import Limits
    from sbformat.reader import ArchiveLike
    from sbformat.schema import Problem

PROCESS_ENDED: Final = "process ended"
LOST: Final = "the process that read it was killed: it may need more memory than this machine has"


def catalog(
    sources: ArchiveLike | Iterable[ArchiveLike],
    *,
    executor: Executor | None = None,
    worker_timeout: float = WORKER_TIMEOUT,
    limits: Limits = DEFAULT_LIMITS,
    allow: Iterable[str] = (),
) -> Iterator[Row]:
    """Yield what is known of each of many archives, as one flat dict: a row of a table. Nothing in them is executed.

    A row has the facts (algorithm, versions, spaces, network, verdict of :func:`sbformat.scan`, problems of
    :func:`sbformat.validate`, why it could not be read), and each hyper-parameter under its name. The values are
    numbers, truth values and texts::

        import pandas
        runs = pandas.DataFrame(sbformat.catalog("logs/"))

        with concurrent.futures.ProcessPoolExecutor() as pool:
            for row in sbformat.catalog(["logs/", "old/*.zip"], executor=pool):
                print(row["source"], row["algorithm"], row.get("gamma"))

    :param sources: paths, folders, globs with ``**``, URLs, or anything else that :func:`sbformat.read` takes; one or
        several
    :param executor: does the work: any of :mod:`concurrent.futures`, or Dask's ``Client(...).get_executor()``. The
        files are read where it runs. By default this process does it
    :param worker_timeout: seconds that a cluster of Dask may be without workers
    :param limits: for reading each file
    :param allow: dotted names that the scan treats as known, as in :func:`sbformat.scan`
    :return: rows in the order of the sources, as they are finished; a file that cannot be read is a row with
        ``outcome`` and ``error``
    :raises ValueError: for a name in ``allow`` that is known to run, import, open or connect
    :raises UnsupportedError: for URLs without the extra ``remote``
    :raises sbformat.parallel.WorkersError: when the executor takes no more work, or has had no workers for that time
    """
    work = make_work(limits, require_names(allow, "allow"))
    import_tools()
    listed: Any = [sources] if is_one_source(sources) else sources
    found = list_sources(listed, limits)
    lost = partial(make_lost_row, made_by=work.keywords["made_by"])
    return map_in_order(work, found, lost=lost, executor=executor, worker_timeout=worker_timeout)


def make_work(limits: Limits, allow: Sequence[str]) -> partial[Row]:
    """Return the function that makes a source a row; it can be sent to other processes."""
    if allow:
        from sbformat.tools.scan import scan

        scan(b"", allow=allow)  # refuses names that cannot be allowed
    names = tuple(sorted(allow))
    return partial(describe_source, limits=limits, allow=names, made_by=name_reader(limits, names))


def import_tools() -> None:
    """Import what makes rows: once, before processes are forked, and not if all rows are known."""
    from sbformat.schema import known_keys
    from sbformat.tools import inspect, scan  # noqa: F401 -- for the workers

    known_keys(None)  # imports jsonschema


def name_reader(limits: Limits, allow: Sequence[str]) -> str:
    """Return what made a row: the release, and a digest of the options if they are not the default ones.

    Rows of another reader are made again.
    """
    if limits == DEFAULT_LIMITS and not allow:
        return __version__
    return f"{__version__}+{zlib.crc32(repr((limits, sorted(allow))).encode('utf-8', 'backslashreplace')):08x}"


def describe_source(source: CatalogSource, *, limits: Limits, allow: Sequence[str], made_by: str) -> Row:
    """Return the row of a source; runs in a worker process when there are many."""
    state, target = source
    if isinstance(target, str) and not is_remote(target):
        size, version = find_state(target if os.path.exists(target) else f"{target}.zip", state.beside)
        state = state._replace(size=size, version=version)
    try:
        file = collect_file(target, name=state.name, limits=limits, allow=allow)
        if file.version is not None and (state.version is None or find_scheme(target) != "hf"):
            state = state._replace(size=file.size, version=file.version)  # of what was read, whatever was listed
        if is_remote(target) and file.inspected is not None and file.inspected.format in AGENTS:
            state = state._replace(beside=find_beside(target, limits))
        file = add_training(file, state.beside, limits)
        problems, failure = try_to(lambda: list_problems(file, target, limits))
        if failure is not None and file.failure is None:
            file = file._replace(failure=failure)
        return make_row(file, problems or (), state, made_by=made_by)
    except Exception as error:  # noqa: BLE001 -- a bug in reading one file of a million is one row
        return make_failed_row(state, "internal error", f"{type(error).__name__}: {error}", made_by=made_by)


def make_lost_row(source: CatalogSource, *, made_by: str) -> Row:
    """Return the row of a source whose worker was killed each time."""
    return make_failed_row(source.state, PROCESS_ENDED, LOST, made_by=made_by)


def list_problems(file: FileData, target: ArchiveLike, limits: Limits) -> list[Problem]:
    """Return the problems of a file; none if it cannot be read.

    The archive that was read for ``inspect`` is used again, unless a constructor is not known, which is a problem.
    """
    from sbformat.schema import iter_problems

    if file.archive is None:
        return []
    reports = file.inspected.state_dicts if file.inspected is not None else ()
    is_whole = not any(isinstance(value, Node) for report in reports for value in report.values.values())
    return list(iter_problems(file.archive if is_whole else target, limits=limits))


# -- sources: files, folders of them, globs and URLs --------------------------------------------------


class CatalogSource(Record):
    """One source of a catalogue; it can be sent to other machines if it is a path or a URL."""

    state: SourceState
    target: Any
    """What is read: an absolute path, a URL, or what the caller gave."""


def list_sources(
    sources: Iterable[Any],
    limits: Limits = DEFAULT_LIMITS,
    *,
    exclude: Exclusion = NOTHING,
    finds_states: bool = False,
) -> Iterator[CatalogSource]:
    """Yield the sources to read, in the order of those that are given; of a folder and a glob sorted by name.

    :param sources: paths, folders, globs with ``**``, URLs, or anything else that :func:`sbformat.read` takes
    :param exclude: what is left out of folders
    :param finds_states: ask for size and version of remote files that are named, not listed: a request for each
    """
    finder = BesideFinder(limits)
    for source in sources:
        if is_remote(source):
            yield from _list_url(source, exclude, finds_states=finds_states)
        elif isinstance(source, (str, os.PathLike)):
            for path in expand_paths(expand_pattern(os.fsdecode(source), exclude), exclude):
                if path == os.fsdecode(source) or not is_zip_of_logs(path):
                    yield describe_path(path, finder)
        else:
            if not is_one_source(source):
                require_type(source, (), "an Archive, a path, bytes or a binary file")
            yield CatalogSource(SourceState(name_source(source), None, None), source)


def _list_url(url: str, exclude: Exclusion, *, finds_states: bool) -> Iterator[CatalogSource]:
    """Yield the archives that a URL stands for."""
    from sbformat.io.remote.clients import require_packages
    from sbformat.io.remote.listing import iter_files

    require_packages(url)
    try:
        for found in iter_files(url):
            name = found.name or found.url
            if found.url != url and (is_zip_of_logs(found.url) or is_excluded_url(url, name, exclude)):
                continue
            size, version = found.size, None if found.version is None else escape(found.version)
            if version is None and finds_states:
                size = None
                with contextlib.suppress(OSError, SbformatError):  # one that cannot be opened has neither
                    opened = open_url(found.url)
                    size, version = opened.size, None if opened.version is None else escape(opened.version)
            yield CatalogSource(SourceState(name_url(name), size, version), found.url)
    except (OSError, SbformatError) as error:  # reading it gives the error
        if finds_states and not isinstance(error, (FileNotFoundError, PermissionError, SbformatError)):
            raise  # the rows of a table that exists are not lost because a server does not answer
        yield CatalogSource(SourceState(name_url(url), None, None), url)


def name_url(url: str) -> str:
    """Return what a catalogue calls a URL: without secrets, and different for each user."""
    user, at, _ = url.partition("://")[2].partition("/")[0].rpartition("@")
    if not at:
        return hide_secrets(url)
    return f"{hide_secrets(url)}#{hashlib.sha256(user.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def describe_path(path: str, finder: BesideFinder | None = None) -> CatalogSource:
    """Return a file, or an unzipped archive, as a source, with what a finder finds beside it."""
    found = path if os.path.exists(path) else f"{path}.zip"
    beside = None if finder is None or not os.path.exists(found) else finder.find(found)
    size, version = find_state(found, beside)
    return CatalogSource(SourceState(path, size, version, beside), os.path.abspath(path))


def find_state(path: str, beside: Beside | None = None) -> tuple[int | None, str | None]:
    """Return the size in bytes and what changes with a file, or an unzipped archive, and with the logs beside it."""
    size, version = _find_own_state(path)
    digest = "" if beside is None else beside.digest()
    return size, f"{version}+{digest}" if version and digest else version


def _find_own_state(path: str) -> tuple[int | None, str | None]:
    """Return the size in bytes and the time of the last modification of a file, or of all files of a folder."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None, None
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size, str(status.st_mtime_ns)
    if find_unlisted(path):
        return None, None
    size = latest = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                status = os.stat(os.path.join(folder, name))
            except OSError:
                continue
            size += status.st_size
            latest = max(latest, status.st_mtime_ns)
    return size, str(latest)


def is_one_source(sources: object) -> bool:
    """Return whether a caller passed one source instead of several."""
    return isinstance(sources, (str, os.PathLike, bytes, bytearray, memoryview, Archive)) or hasattr(sources, "read")
