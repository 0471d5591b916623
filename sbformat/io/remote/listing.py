"""Folders of remote file systems: what is in them, and the archives below them.

In: the URL of a file, a folder, a pattern, or a query of the Hub. Out: folders with their files (:func:`walk_folder`),
or the archives among them (:func:`iter_files`), each with what identifies its contents, in as few requests as the file
system allows.
"""

from __future__ import annotations

import hashlib
import re
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from sbformat.constants import ARCHIVE_SUFFIXES, DATA_ENTRY
from sbformat.errors import UnsupportedError, quote
from sbformat.immutable import Record
from sbformat.io.patterns import translate_pattern
from sbformat.io.remote.clients import S3_SCHEMES, RemoteEntry, call_client, not_found, open_file_system, read_version
from sbformat.io.remote.hub import (
    HUB_PREFIX,
    HUB_SCHEME,
    find_repositories,
    is_hub_folder,
    list_repository,
    parse_hub_url,
    pin_commit,
)
from sbformat.io.urls import copy_options, find_scheme, hide_secrets, join_url, last_name
from sbformat.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_WEB: Final = ("http", "https")
_FILE_SUFFIXES: Final = (*ARCHIVE_SUFFIXES, ".safetensors", ".npz", ".npy", ".json", ".yml", ".yaml")
"""A URL that ends with one of these, and not with a slash, is taken for a file without asking."""
_HUB_SLASHES: Final = 4  # slashes of ``hf://AUTHOR/NAME/``
_MAGIC: Final = ("*", "[")
_QUESTION: Final = r"\?"  # itself, because it begins the query of a URL


class ListedUrl(Record):
    """An archive that a URL names or that is below it."""

    url: str
    size: int | None  # in bytes; None if it was not listed, but named
    version: str | None  # identifies its contents: ETag, checksum or time
    name: str | None = None  # its URL without the commit that ``url`` has, if it was listed at one


class RemoteFolder(Record):
    """A folder below a remote folder."""

    name: str  # the path from the top; empty for the top itself
    files: tuple[RemoteEntry, ...]  # the files directly in it, in the order of their names


def is_folder(url: str) -> bool:
    """Return whether a URL names a folder of a remote file system; the web has none."""
    scheme = find_scheme(url)
    if scheme in _WEB or (not url.endswith("/") and last_name(url).lower().endswith(_FILE_SUFFIXES)):
        return False
    if scheme == HUB_SCHEME:
        return is_hub_folder(url)
    if url.endswith("/"):
        return True
    fs, path = open_file_system(url)
    return bool(call_client(url, lambda: fs.isdir(path)))


def is_pattern(url: str) -> bool:
    """Return whether a URL is a pattern of files, or a query of repositories of the Hub; the web has no patterns."""
    scheme = find_scheme(url)
    is_query = scheme == HUB_SCHEME and _is_query(url)
    return is_query or (scheme not in _WEB and any(mark in url for mark in _MAGIC))


def pin_folder(url: str) -> str:
    """Return the URL of a folder as it is now, if its file system has versions: of the Hub with the commit."""
    return pin_commit(url) if find_scheme(url) == HUB_SCHEME else url


def walk_folder(url: str, *, depth: int | None = None) -> Iterator[RemoteFolder]:
    """Yield a remote folder and all folders below it, from the top down, in the order of their names."""
    scheme = find_scheme(url)
    if scheme in _WEB:
        raise UnsupportedError(f"a web server has no folders to list: {quote(hide_secrets(url))}")
    if scheme == HUB_SCHEME or (scheme in S3_SCHEMES and depth is None):
        entries = list_repository(url) if scheme == HUB_SCHEME else _list_keys(url)
        yield from (row for row in _group(entries) if depth is None or _find_depth(row.name) <= depth)
        return
    fs, top = open_file_system(url)
    pending = [""]
    while pending:
        here = pending.pop()
        rows = call_client(url, partial(fs.ls, f"{top}/{here}" if here else top, detail=True))
        if not rows and not here:
            raise not_found(hide_secrets(url))
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
        yield RemoteFolder(here, tuple(sorted(files)))
        pending += sorted((name for name in folders if depth is None or _find_depth(name) <= depth), reverse=True)


def _find_depth(name: str) -> int:
    return name.count("/") + 1 if name else 0


def _group(entries: Iterable[RemoteEntry]) -> Iterator[RemoteFolder]:
    """Yield files by folder, from the top down; none is left out, whatever its name is."""
    folders: dict[str, list[RemoteEntry]] = {"": []}
    for entry in entries:
        if entry.name and not entry.name.endswith("/"):  # an object that stands for a folder
            folders.setdefault(entry.name.rpartition("/")[0], []).append(entry)
    for name in sorted(folders, key=lambda name: name.split("/")):
        yield RemoteFolder(name, tuple(sorted(folders[name])))


def iter_files(url: str) -> Iterator[ListedUrl]:
    """Yield the archives that a URL stands for, in the order of their names.

    A URL of a file is one; of a folder, all ``.zip``, ``.pth`` and ``.pkl`` below it and the folders that archives were
    unzipped into; of a pattern (``*``, ``**``, ``[abc]``), what it matches; of a query of the Hub, those of each model.
    """
    scheme = find_scheme(url)
    if scheme == HUB_SCHEME and _is_query(url):
        yield from _iter_repositories(url)
    elif is_pattern(url):
        yield from _iter_matches(url)
    elif not is_folder(url):
        yield ListedUrl(url, None, None)
    elif scheme == HUB_SCHEME:
        yield from _iter_commit(url)
    else:  # in the way that its file system lists with the fewest requests
        yield from _iter_archives(url, _iter_complete(_list_keys(url)) if scheme in S3_SCHEMES else walk_folder(url))


def name_below(url: str, found: str) -> str:
    """Return the path of an archive below the folder that a URL names, or that its pattern or query begins with.

    :param found: the URL of the archive
    """
    start = _without_pattern(url).partition("?")[0]
    base = start if start == url else start[: start.rfind("/") + 1]
    return found[len(base.rstrip("/")) :].strip("/")


def _without_pattern(url: str) -> str:
    return url[: min((url.find(mark) for mark in _MAGIC if mark in url), default=len(url))]


def _is_query(url: str) -> bool:
    """Return whether a URL of the Hub names an author, a query, or a pattern of an author's repositories."""
    start = _without_pattern(url)
    is_in_repository = start.count("/") >= _HUB_SLASHES
    return parse_hub_url(start) is None or (start != url and not is_in_repository)


def _iter_repositories(url: str) -> Iterator[ListedUrl]:
    """Yield the archives of the repositories that a query of the Hub, or a pattern of an author's, finds."""
    author, _, rest = url[len(HUB_PREFIX) :].partition("/")
    name, _, inner = rest.partition("/")
    is_query = author.startswith("?")
    if not is_query and any(mark in author for mark in _MAGIC):
        message = f"expected the name of an author before a pattern of repositories, got {quote(hide_secrets(url))}"
        raise UnsupportedError(message)
    pattern = "*" if is_query or not name else f"{author}/{name}"
    query = url if is_query or not name else copy_options(url, HUB_PREFIX + author)
    for repository in find_repositories(query):
        if not fnmatchcase(repository[len(HUB_PREFIX) :], pattern):
            continue
        if inner and name and not is_query:
            yield from _iter_matches(join_url(repository, inner))
        else:
            yield from _iter_commit(repository)


def _iter_commit(url: str) -> Iterator[ListedUrl]:
    """Yield the archives of a repository, at the commit at which it is listed, by names without it."""
    pinned = pin_commit(url)
    for found in _iter_archives(pinned, walk_folder(pinned)):
        yield found._replace(name=copy_options(url, url.rstrip("/") + found.url[len(pinned.rstrip("/")) :]))


def _iter_archives(
    url: str, folders: Iterable[RemoteFolder], pattern: re.Pattern[str] | None = None
) -> Iterator[ListedUrl]:
    """Yield the archives in folders, and the folders that archives were unzipped into.

    :param folders: all below it, from the top down, or none that is within an unzipped archive
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
        if is_inside and _has_data(here, folder.files):
            archive = here
            text = "\n".join(f"{row.name} {row.size} {row.version}" for row in folder.files)
            digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
            size = sum(row.size for row in folder.files)
            yield ListedUrl(join_url(url, folder.name) if folder.name else url, size, digest)
            continue
        for row in folder.files:
            is_archive = is_inside and row.name.lower().endswith(ARCHIVE_SUFFIXES)
            if is_archive or (pattern is not None and pattern.match(row.name)):
                yield ListedUrl(join_url(url, row.name), row.size, row.version)


def _has_data(folder: str, files: Iterable[RemoteEntry]) -> bool:
    """Return whether an archive was unzipped into a folder, whose name ends with a slash, as far as its files show."""
    return any(row.name == f"{folder}{DATA_ENTRY}" for row in files)


def _iter_complete(entries: Iterable[RemoteEntry]) -> Iterator[RemoteFolder]:
    """Yield the folders of a bucket while its keys are listed, but none that is within an unzipped archive.

    Keys come in the order of their bytes, so that those of a folder are together: it is complete at the first key
    outside of it. Its own files are kept until then, because ``data`` among them makes all of them one archive; but not
    more than an archive may have: of a larger folder they are yielded as they come, and its ``data`` means nothing.
    """
    opened: dict[str, list[RemoteEntry]] = {}  # from the outermost in
    large: set[str] = set()
    for entry in chain(entries, (None,)):
        here = None if entry is None else entry.name[: entry.name.rfind("/") + 1]
        while opened and (here is None or not here.startswith(next(reversed(opened)))):
            folder, files = opened.popitem()
            if not any(_has_data(*outer) for outer in opened.items()):
                yield RemoteFolder(folder[:-1], tuple(files))
        if entry is None or here is None:
            return
        files = opened.setdefault(here, [])
        if entry.name != here:
            files.append(entry)
        if here in large or len(files) > DEFAULT_LIMITS.outer_entries:
            large.add(here)
            yield RemoteFolder(here[:-1], tuple(row for row in files if row.name != f"{here}{DATA_ENTRY}"))
            files.clear()


def _list_keys(url: str) -> Iterator[RemoteEntry]:
    """Yield the objects below a prefix of S3, in the order of their keys, a page at a time."""
    fs, path = open_file_system(url)
    bucket, prefix, _ = fs.split_path(path)
    prefix = f"{prefix.rstrip('/')}/" if prefix else ""
    more: dict[str, str] = {}
    is_empty = True
    while True:
        page = call_client(url, partial(fs.call_s3, "list_objects_v2", fs.req_kw, Bucket=bucket, Prefix=prefix, **more))
        for row in page.get("Contents", ()):
            yield RemoteEntry(row["Key"][len(prefix) :], row["Size"], row.get("ETag"))
            is_empty = False
        if not page.get("NextContinuationToken"):
            break
        more = {"ContinuationToken": page["NextContinuationToken"]}
    if is_empty:
        raise not_found(hide_secrets(url))


def _iter_matches(url: str) -> Iterator[ListedUrl]:
    """Yield the archives that a pattern matches; folders that it matches are listed."""
    base = copy_options(url, _without_pattern(url).rpartition("/")[0])
    yield from _iter_archives(base, walk_folder(base), compile_pattern(url[len(base) + 1 :]))


# -- patterns -----------------------------------------------------------------------------------------


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern as a regular expression.

    ``*`` is anything without a slash, ``**`` any folders, ``[abc]`` one of these characters, ``?`` itself.

    >>> compile_pattern("**/best*.zip").fullmatch("runs/ppo/best_model.zip") is not None
    True
    """
    try:
        return re.compile(rf"(?s:{translate_pattern(text, question=_QUESTION)})\Z")
    except re.error:
        raise UnsupportedError(f"expected a pattern such as *.zip or runs/[a-c]*, got {quote(text)}") from None
