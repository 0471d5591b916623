"""Folders of remote file systems: what is in them, and the archives below them."""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.constants import ARCHIVE_SUFFIXES, DATA_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.io.remote.errors import not_found, translate
from sbformat.io.remote.filesystem import open_file_system, read_version
from sbformat.io.remote.hub import (
    HUB_SCHEME,
    find_repositories,
    is_hub_folder,
    list_repository,
    parse_hub_url,
    pin_commit,
)
from sbformat.io.remote.patterns import compile_pattern
from sbformat.io.urls import copy_options, find_scheme, hide_secrets, join_url, last_name

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

_WEB: Final = ("http", "https")
_FILE_SUFFIXES: Final = (*ARCHIVE_SUFFIXES, ".safetensors", ".npz", ".npy", ".json", ".yml", ".yaml")
"""A URL that ends with one of these, and not with a slash, is taken for a file without asking."""
_PREFIX: Final = f"{HUB_SCHEME}://"
_HUB_SLASHES: Final = 4
"""Slashes of ``hf://AUTHOR/NAME/``."""
_MAGIC: Final = ("*", "[")


class ListedUrl(NamedTuple):
    """An archive that a URL names or that is below it."""

    url: str
    size: int | None
    """In bytes; None if it was not listed, but named."""
    version: str | None
    """What identifies its contents: ETag, checksum or time."""


class RemoteEntry(NamedTuple):
    """A file of a remote folder."""

    name: str
    """The path from the top of the folder, with slashes."""
    size: int
    version: str | None


class RemoteFolder(NamedTuple):
    """A folder below a remote folder."""

    name: str
    """The path from the top; empty for the top itself."""
    files: tuple[RemoteEntry, ...]
    """The files directly in it, in the order of their names."""


def is_folder(url: str) -> bool:
    """Return whether a URL names a folder of a remote file system; the web has none.

    :raises OSError: if the file system cannot be reached
    :raises UnsupportedError: if it is not known, or needs a package
    """
    scheme = find_scheme(url)
    if scheme in _WEB or (not url.endswith("/") and last_name(url).lower().endswith(_FILE_SUFFIXES)):
        return False
    if scheme == HUB_SCHEME:
        return is_hub_folder(url)
    if url.endswith("/"):
        return True
    fs, path = open_file_system(url)
    return bool(_call(url, lambda: fs.isdir(path)))


def is_pattern(url: str) -> bool:
    """Return whether a URL is a pattern of files, or a query of repositories of the Hub; the web has no patterns."""
    scheme = find_scheme(url)
    is_query = scheme == HUB_SCHEME and _is_query(url)
    return is_query or (scheme not in _WEB and any(mark in url for mark in _MAGIC))


def pin_folder(url: str) -> str:
    """Return the URL of a folder as it is now, if its file system has versions: of the Hub with the commit."""
    return pin_commit(url) if find_scheme(url) == HUB_SCHEME else url


def walk_folder(url: str) -> Iterator[RemoteFolder]:
    """Yield a remote folder and all folders below it, from the top down, in the order of their names.

    :raises OSError: if it cannot be listed
    """
    if find_scheme(url) == HUB_SCHEME:
        yield from _walk_hub(url)
        return
    fs, top = open_file_system(url)
    pending = [""]
    while pending:
        here = pending.pop()
        rows = _call(url, lambda here=here: fs.ls(f"{top}/{here}" if here else top, detail=True))  # type: ignore[misc]
        files, folders = [], []
        listed = f"{top}/{here}".strip("/")
        for row in rows:
            path = str(row["name"]).strip("/")
            if path == listed:  # an object of no bytes that some programs make for a folder
                continue
            name = path.rpartition("/")[2]
            inner = f"{here}/{name}" if here else name
            if row["type"] == "directory":
                folders.append(inner)
            elif row["type"] == "file" and name:
                files.append(RemoteEntry(inner, int(row.get("size") or 0), read_version(row)))
        if not rows and not here:
            raise not_found(hide_secrets(url))
        yield RemoteFolder(here, tuple(sorted(files)))
        pending += sorted(folders, reverse=True)


def _walk_hub(url: str) -> Iterator[RemoteFolder]:
    place = parse_hub_url(url)
    start = len(f"{place.path}/") if place is not None and place.path else 0
    folders: dict[str, list[RemoteEntry]] = {}
    for row in list_repository(url):
        name = row.path[start:]
        folders.setdefault(name.rpartition("/")[0], []).append(RemoteEntry(name, row.size, row.version))
    folders.setdefault("", [])
    for name in sorted(folders, key=lambda name: name.split("/")):
        yield RemoteFolder(name, tuple(sorted(folders[name])))


def iter_files(url: str) -> Iterator[ListedUrl]:
    """Yield the archives that a URL stands for, in the order of their names.

    A URL of a file is one; of a folder, all ``.zip``, ``.pth`` and ``.pkl`` below it and the folders that archives were
    unzipped into; of a pattern (``*``, ``**``, ``[abc]``), what it matches; of a query of the Hub, those of each model.

    :raises OSError: if the file system cannot be reached
    :raises UnsupportedError: for a pattern on the web, and for an unknown file system
    """
    if find_scheme(url) == HUB_SCHEME and _is_query(url):
        yield from _iter_repositories(url)
    elif is_pattern(url):
        yield from _iter_matches(url)
    elif is_folder(url):
        yield from _iter_archives(url, walk_folder(url))
    else:
        yield ListedUrl(url, None, None)


def _without_pattern(url: str) -> str:
    return url[: min((url.find(mark) for mark in _MAGIC if mark in url), default=len(url))]


def _is_query(url: str) -> bool:
    """Return whether a URL of the Hub names an author, a query, or a pattern of an author's repositories."""
    start = _without_pattern(url)
    is_in_repository = start.count("/") >= _HUB_SLASHES
    return parse_hub_url(start) is None or (start != url and not is_in_repository)


def _iter_repositories(url: str) -> Iterator[ListedUrl]:
    """Yield the archives of the repositories that a query of the Hub finds, or a pattern of an author's repositories.

    :raises UnsupportedError: for a pattern of authors
    """
    author, _, rest = url[len(_PREFIX) :].partition("/")
    name, _, inner = rest.partition("/")
    is_query = author.startswith("?")
    if not is_query and any(mark in author for mark in _MAGIC):
        message = f"expected the name of an author before a pattern of repositories, got {quote(hide_secrets(url))}"
        raise UnsupportedError(message)
    if is_query or not name:
        repositories, pattern, inner = find_repositories(url), "*", ""
    else:
        repositories, pattern = find_repositories(copy_options(url, _PREFIX + author)), f"{author}/{name}"
    for repository in repositories:
        if not fnmatchcase(repository[len(_PREFIX) :], pattern):
            continue
        if inner:
            yield from _iter_matches(join_url(repository, inner))
        else:
            yield from _iter_archives(repository, walk_folder(repository))


def _iter_archives(
    url: str, folders: Iterable[RemoteFolder], pattern: re.Pattern[str] | None = None
) -> Iterator[ListedUrl]:
    """Yield the archives in folders, and the folders that archives were unzipped into.

    :param url: of the top folder
    :param folders: all below it, from the top down
    :param pattern: of names of files, whatever their suffix, and of folders, whose archives are yielded; without it all
    """
    archive: str | None = None
    matched = None if pattern is not None else ""
    for folder in folders:
        here = f"{folder.name}/" if folder.name else ""
        if archive is not None and here.startswith(archive):
            continue
        if pattern is not None and folder.name and pattern.match(folder.name):
            matched = matched if matched is not None and here.startswith(matched) else here
        is_inside = matched is not None and here.startswith(matched)
        if is_inside and any(row.name == f"{here}{DATA_ENTRY}" for row in folder.files):
            archive = here
            target = join_url(url, folder.name) if folder.name else url
            yield ListedUrl(target, sum(row.size for row in folder.files), _digest_versions(folder.files))
            continue
        for row in folder.files:
            is_archive = is_inside and row.name.lower().endswith(ARCHIVE_SUFFIXES)
            if is_archive or (pattern is not None and pattern.match(row.name)):
                yield ListedUrl(join_url(url, row.name), row.size, row.version)


def _digest_versions(files: Iterable[RemoteEntry]) -> str:
    text = "\n".join(f"{row.name} {row.size} {row.version}" for row in files)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _iter_matches(url: str) -> Iterator[ListedUrl]:
    """Yield the archives that a pattern matches; folders that it matches are listed."""
    base = copy_options(url, _without_pattern(url).rpartition("/")[0])
    yield from _iter_archives(base, walk_folder(base), compile_pattern(url[len(base) + 1 :]))


def _call(url: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except SbformatError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever a client raises
        raise translate(error, find_scheme(url), hide_secrets(url)) from None


__all__ = [
    "ListedUrl",
    "RemoteEntry",
    "RemoteFolder",
    "is_folder",
    "is_pattern",
    "iter_files",
    "pin_folder",
    "walk_folder",
]
