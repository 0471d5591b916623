"""Folders of remote file systems: what is in them, and the archives below them."""

from __future__ import annotations

import hashlib
import re
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
from sbformat.io.urls import find_scheme, hide_secrets, join_url, last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

_WEB: Final = ("http", "https")
_FILE_SUFFIXES: Final = (*ARCHIVE_SUFFIXES, ".safetensors", ".npz", ".npy", ".json", ".yml", ".yaml")
"""A URL that ends with one of these, and not with a slash, is taken for a file without asking."""
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


def pin_folder(url: str) -> str:
    """Return the URL of a folder as it is now, if its file system has versions: of the Hub with the commit."""
    return pin_commit(url) if find_scheme(url) == HUB_SCHEME else url


def walk_folder(url: str, *, depth: int | None = None) -> Iterator[RemoteFolder]:
    """Yield a remote folder and all folders below it, from the top down, in the order of their names.

    :param url: of the folder
    :param depth: how many levels of folders below it are listed; by default all
    :raises OSError: if it cannot be listed
    :raises UnsupportedError: for a web server, which has no folders
    """
    if find_scheme(url) in _WEB:
        message = f"a web server has no folders to list: {quote(hide_secrets(url))}"
        raise UnsupportedError(message)
    if find_scheme(url) == HUB_SCHEME:
        yield from (row for row in _walk_hub(url) if depth is None or _find_depth(row.name) <= depth)
        return
    fs, top = open_file_system(url)
    pending = [""]
    while pending:
        here = pending.pop()
        rows = _call(url, lambda here=here: fs.ls(f"{top}/{here}" if here else top, detail=True))  # type: ignore[misc]
        files, folders = [], []
        for row in rows:
            name = str(row["name"]).rstrip("/").rpartition("/")[2]
            inner = f"{here}/{name}" if here else name
            if row["type"] == "directory":
                folders.append(inner)
            elif row["type"] == "file" and name:
                files.append(RemoteEntry(inner, int(row.get("size") or 0), read_version(row)))
        if not rows and not here:
            raise not_found(hide_secrets(url))
        yield RemoteFolder(here, tuple(sorted(files)))
        pending += sorted((name for name in folders if depth is None or _find_depth(name) <= depth), reverse=True)


def _find_depth(name: str) -> int:
    """Return how many levels below the top a folder is."""
    return name.count("/") + 1 if name else 0


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
    scheme = find_scheme(url)
    if scheme == HUB_SCHEME and parse_hub_url(_without_pattern(url)) is None:
        for repository in find_repositories(url):
            yield from _iter_tree(repository)
    elif scheme not in _WEB and any(mark in url for mark in _MAGIC):
        yield from _iter_matches(url)
    elif is_folder(url):
        yield from _iter_tree(url)
    else:
        yield ListedUrl(url, None, None)


def _without_pattern(url: str) -> str:
    return url[: min((url.find(mark) for mark in _MAGIC if mark in url), default=len(url))]


def _iter_tree(url: str) -> Iterator[ListedUrl]:
    archives: list[str] = []
    for folder in walk_folder(url):
        if any(folder.name.startswith(f"{name}/") for name in archives):
            continue
        if any(row.name.rpartition("/")[2] == DATA_ENTRY for row in folder.files):
            archives = [folder.name]
            target = join_url(url, folder.name) if folder.name else url
            yield ListedUrl(target, sum(row.size for row in folder.files), _digest_versions(folder.files))
            if not folder.name:
                return
            continue
        for row in folder.files:
            if row.name.lower().endswith(ARCHIVE_SUFFIXES):
                yield ListedUrl(join_url(url, row.name), row.size, row.version)


def _digest_versions(files: Iterable[RemoteEntry]) -> str:
    text = "\n".join(f"{row.name} {row.size} {row.version}" for row in files)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _iter_matches(url: str) -> Iterator[ListedUrl]:
    """Yield the archives that a pattern matches; folders that it matches are listed."""
    from fsspec.utils import glob_translate

    base = _without_pattern(url).rpartition("/")[0]
    pattern = re.compile(glob_translate(url[len(base) + 1 :]))
    matched = ""
    for folder in walk_folder(base):
        if matched and folder.name.startswith(matched):
            continue
        if folder.name and pattern.match(folder.name):
            matched = f"{folder.name}/"
            yield from _iter_tree(join_url(base, folder.name))
            continue
        for row in folder.files:
            if pattern.match(row.name):
                yield ListedUrl(join_url(base, row.name), row.size, row.version)


def _call(url: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except SbformatError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever a client raises
        raise translate(error, find_scheme(url), hide_secrets(url)) from None


__all__ = ["ListedUrl", "RemoteEntry", "RemoteFolder", "is_folder", "iter_files", "pin_folder", "walk_folder"]
