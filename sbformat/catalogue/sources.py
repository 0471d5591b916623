"""The sources of a catalogue: files, folders of them, globs and URLs, each with what changes when its contents do."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.archive import Archive
from sbformat.catalogue.collect import name_source
from sbformat.catalogue.rows import SourceState
from sbformat.errors import SbformatError, escape, require_type
from sbformat.folders.trees import StatisticsFinder, expand_paths
from sbformat.immutable import Record
from sbformat.io.opening import is_remote, open_url
from sbformat.io.urls import hide_secrets
from sbformat.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.limits import Limits

_GLOB: Final = frozenset("*?[")


class CatalogSource(Record):
    """One source of a catalogue; it can be sent to other machines if it is a path or a URL."""

    state: SourceState
    target: Any
    """What is read: an absolute path, a URL, or what the caller gave."""


def list_sources(
    sources: Iterable[Any], limits: Limits = DEFAULT_LIMITS, *, finds_states: bool = False
) -> Iterator[CatalogSource]:
    """Yield the sources to read, in the order of those that are given; of a folder and a glob sorted by name.

    :param sources: paths, folders, globs with ``**``, URLs, or anything else that :func:`sbformat.read` takes
    :param finds_states: ask for size and version of remote files that are named, not listed: a request for each
    """
    finder = StatisticsFinder(limits)
    for source in sources:
        if is_remote(source):
            yield from _list_url(source, finds_states=finds_states)
        elif isinstance(source, (str, os.PathLike)):
            for path in expand_paths(_expand_glob(os.fsdecode(source))):
                yield describe_path(path, finder)
        else:
            if not is_one_source(source):
                require_type(source, (), "an Archive, a path, bytes or a binary file")
            yield CatalogSource(SourceState(name_source(source), None, None), source)


def _list_url(url: str, *, finds_states: bool) -> Iterator[CatalogSource]:
    """Yield the archives that a URL stands for."""
    from sbformat.io.remote.clients import require_packages
    from sbformat.io.remote.listing import iter_files

    require_packages(url)
    try:
        for found in iter_files(url):
            size, version = found.size, None if found.version is None else escape(found.version)
            if version is None and finds_states:
                size = None
                with contextlib.suppress(OSError, SbformatError):  # one that cannot be opened has neither
                    opened = open_url(found.url)
                    size, version = opened.size, None if opened.version is None else escape(opened.version)
            yield CatalogSource(SourceState(name_url(found.name or found.url), size, version), found.url)
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


def _expand_glob(path: str) -> Iterable[str]:
    """Return the paths that a glob matches; the path itself if it is none, or matches nothing."""
    if os.path.lexists(path) or _GLOB.isdisjoint(path):
        return [path]
    import glob

    found = glob.glob(path, recursive=True)
    if "**" in path:  # which leaves out folders that cannot be listed
        found += find_unlisted(os.path.dirname(path[: min(path.find(mark) for mark in _GLOB if mark in path)]) or ".")
    return sorted(set(found)) or [path]


def find_unlisted(top: str) -> list[str]:
    """Return the folders below a folder that cannot be listed."""
    errors: list[OSError] = []
    for _ in os.walk(top, onerror=errors.append):
        pass
    return [str(error.filename) for error in errors]


def describe_path(path: str, finder: StatisticsFinder | None = None) -> CatalogSource:
    """Return a file, or an unzipped archive, as a source, with the statistics that a finder finds beside it."""
    found = path if os.path.exists(path) else f"{path}.zip"
    size, version = find_state(found)
    statistics = None if finder is None or size is None else finder.find(found)
    return CatalogSource(SourceState(path, size, version, statistics), os.path.abspath(path))


def find_state(path: str) -> tuple[int | None, str | None]:
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
