"""The archives in folders, as a command lists them, and the statistics beside one of them (FOLDERS.md 21).

``inspect_folder`` opens every file of a folder and of those below. Of many agents in many folders only the folders in
which statistics of an agent can be are listed, and their archives are opened only where there is a pickle that may be
statistics. What was found of a folder is kept while its agents are asked for one after another.
"""

from __future__ import annotations

import os
import posixpath
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from sbformat.archive.kinds import STATISTICS
from sbformat.constants import ARCHIVE_SUFFIXES, DATA_ENTRY, PICKLE_SUFFIXES
from sbformat.errors import SbformatError
from sbformat.folders.listing import ListedFile, classify_file, is_known_by_content, starts_like_pickle
from sbformat.folders.names import PARTS_OF_RUNS, Index, has_usual_suffix, parse_name
from sbformat.io.opening import is_remote, join_path
from sbformat.io.urls import copy_options, is_url
from sbformat.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.limits import Limits


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


_KEPT: Final = 16
"""Folders whose files are remembered."""


class StatisticsFinder:
    """Finds the statistics of agents; ask for those of one folder one after another.

    ::

        StatisticsFinder().find("logs/ppo/best_model.zip")  # 'vecnormalize.pkl'

    :param limits: for opening one file
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._indexes: OrderedDict[str, Index | None] = OrderedDict()

    def find(self, path: str) -> str | None:
        """Return the path of an agent's statistics from the folder of the agent, with slashes; None without any.

        :param path: of the agent: a file, or an unzipped archive. Two files, as SB2 has them, are separated by a comma
        """
        here, last = _split(path)
        above, folder = _split(here)
        top, folder = (above, folder) if folder.lower() in PARTS_OF_RUNS else (here, "")
        if top not in self._indexes:
            self._indexes[top] = _list_places(top, here, self._limits)
            if len(self._indexes) > _KEPT:
                self._indexes.popitem(last=False)
        index = self._indexes[top]
        if index is None:
            return None
        found = index.find_statistics(parse_name(f"{folder}/{last}" if folder else last))
        return ", ".join(posixpath.relpath(file, folder or ".") for file in found) or None


def _split(path: str) -> tuple[str, str]:
    """Return the folder of a path or URL, and its last name."""
    if not is_url(path):
        return os.path.split(os.path.abspath(path))
    folder, _, name = path.rstrip("/").rpartition("/")
    return copy_options(path, folder) if is_url(folder) else folder, name


def _list_places(top: str, here: str, limits: Limits) -> Index | None:
    """Return the files of a folder and of those directly in it; None if none of them can be statistics.

    :param here: the folder of the agents: the top, or directly in it, and then the folders in it are listed, too
    """
    try:
        names = list(_walk_remote(top, here) if is_remote(top) else _walk_near(top, here))
    except (OSError, SbformatError):  # reading the agents gives the error
        return None
    pickles = [name for name in names if not name.lower().endswith(".zip") and _may_be_statistics(top, name)]
    found = {name: classify_file(join_path(top, name), limits, name) for name in pickles}
    if not any(file.kind in STATISTICS for file in found.values()):
        return None
    return Index(found.get(name) or _classify(top, name, limits) for name in names)


def _may_be_statistics(top: str, name: str) -> bool:
    if is_remote(top):  # opening a file costs a request
        return name.lower().endswith(PICKLE_SUFFIXES)
    path = join_path(top, name)
    return not os.path.isdir(path) and starts_like_pickle(path)


def _classify(top: str, name: str, limits: Limits) -> ListedFile:
    path = join_path(top, name)
    if has_usual_suffix(name) or (not is_remote(top) and os.path.isdir(path)):
        return classify_file(path, limits, name)
    return ListedFile(name, None, "", "")


def _walk_near(top: str, here: str) -> Iterator[str]:
    """Yield the names of files and unzipped archives, from the top, with slashes; hidden ones are left out."""
    todo = [("", True)]
    while todo:
        folder, has_places_below = todo.pop()
        path = join_path(top, folder) if folder else top
        try:
            with os.scandir(path) as scanned:
                items = sorted((item for item in scanned if not item.name.startswith(".")), key=lambda item: item.name)
        except OSError:
            continue
        for item in items:
            name = f"{folder}/{item.name}" if folder else item.name
            if item.is_file():
                yield name
            elif not item.is_dir(follow_symlinks=False):
                continue
            elif os.path.isfile(os.path.join(item.path, DATA_ENTRY)):
                yield name
            elif has_places_below:
                todo.append((name, item.path == here))


def _walk_remote(top: str, here: str) -> Iterator[str]:
    """Yield the names of files and unzipped archives of a remote folder, as :func:`_walk` does of one on the disk."""
    from sbformat.io.remote.listing import walk_folder

    parent = "" if top == here else _split(here)[1]
    for folder in walk_folder(top, depth=2 if parent else 1):
        if any(part.startswith(".") for part in folder.name.split("/")):
            continue
        if folder.name.count("/") and not folder.name.startswith(f"{parent}/"):
            continue
        names = [row.name for row in folder.files]
        if folder.name not in ("", parent) and f"{folder.name}/{DATA_ENTRY}" in names:
            yield folder.name
            continue
        yield from (name for name in names if not name.rpartition("/")[2].startswith("."))
