"""The archives in folders: what a command reads of the paths that it is given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sbformat.constants import ARCHIVE_SUFFIXES, DATA_ENTRY
from sbformat.errors import SbformatError
from sbformat.folders.listing import is_known_by_content
from sbformat.io.opening import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def expand_paths(paths: Iterable[str]) -> Iterator[str]:
    """Yield the files to read: of a folder the archives below it, unless it is an unzipped archive.

    An agent, statistics or a replay buffer whose name is not that of an archive is found by what it starts with. Names
    are sorted in each folder. A folder without an archive is yielded itself, and so is one below it that cannot be
    listed: reading it gives the error.

    :param paths: files and folders
    """
    for path in paths:
        if is_remote(path):
            yield from _expand_url(path)
            continue
        found = _walk(path) if os.path.isdir(path) else iter(())
        yield next(found, path)
        yield from found


def _walk(top: str) -> Iterator[str]:
    """Yield the archives of a folder, and the folders below it that cannot be listed."""
    pending = [top]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as items:
                folders = {item.name: item.is_dir() and not item.is_symlink() for item in items}
        except OSError:
            yield folder
            continue
        if folders.get(DATA_ENTRY) is False:
            yield folder
            continue
        names = sorted(folders)
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (name.lower().endswith(ARCHIVE_SUFFIXES) or _is_other_name(path)):
                yield path
        pending += [os.path.join(folder, name) for name in names[::-1] if folders[name] and not name.startswith(".")]


def _expand_url(url: str) -> Iterator[str]:
    """Yield the URLs of a remote folder's archives, or the URL itself if it is a file or has none."""
    from sbformat.io.remote.listing import iter_files

    try:
        yield from [row.name or row.url for row in iter_files(url)] or [url]
    except (OSError, SbformatError):  # opening it gives the error
        yield url


def _is_other_name(path: str) -> bool:
    """Return whether a file of a folder is an agent or belongs to one, by its contents.

    Not a hidden file, and none of the ``blobs`` of the Hugging Face cache, which have their names in ``snapshots``.
    """
    folder, name = os.path.split(path)
    above, last = os.path.split(folder)
    if name.startswith(".") or (last == "blobs" and os.path.isdir(os.path.join(above, "snapshots"))):
        return False
    return is_known_by_content(path)
