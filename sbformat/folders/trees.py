"""The archives in folders, as a command lists them, and what is beside one of them (FOLDERS.md 21).

``inspect_folder`` opens every file of a folder and of those below. Of many agents in many folders only the folders in
which files of an agent can be are listed, and their archives are opened only where there are logs, settings, or a
pickle that may be statistics. What was found of a folder is kept while its agents are asked for one after another.
"""

from __future__ import annotations

import os
import posixpath
import re
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from sbformat.archive.kinds import STATISTICS
from sbformat.constants import ARCHIVE_SUFFIXES, DATA_ENTRY, PICKLE_SUFFIXES
from sbformat.errors import SbformatError
from sbformat.folders.listing import (
    PICKLE,
    ListedFile,
    classify_file,
    classify_unusual,
    is_other_zip,
    read_head,
    walk_files,
)
from sbformat.folders.logs import METRICS_FILE, is_log
from sbformat.folders.names import PARTS_OF_RUNS, Index, has_usual_suffix, is_settings, parse_name
from sbformat.immutable import Record
from sbformat.io.opening import is_link, is_remote, join_path
from sbformat.io.patterns import NOTHING, Exclusion, find_start, has_marks
from sbformat.io.urls import copy_options, is_url
from sbformat.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.limits import Limits


def is_zip_of_logs(path: str) -> bool:
    """Return whether a file is rl_zoo3's zip of logs, by its name and contents: it belongs to an agent."""
    return path.replace("\\", "/").rpartition("/")[2].lower() == METRICS_FILE and is_other_zip(path)


def expand_pattern(path: str, exclude: Exclusion = NOTHING) -> list[str]:
    """Return the paths that a pattern such as ``runs/**/*.zip`` matches, sorted; the path itself without any.

    A file or folder of this name is no pattern. ``**`` does not follow links, and is the folder itself at the end. Of
    ``**``, folders that cannot be listed are returned: reading them gives the error.

    :param exclude: what is left out, by its path below the folder that is before the pattern
    """
    if not has_marks(path) or os.path.lexists(path):
        return [path]
    import fnmatch

    start = os.path.dirname(find_start(path))
    pending = [(start, tuple(re.split(_SLASHES, path[len(start) :].lstrip(os.sep + "/"))))]
    found, seen = set(), set(pending)
    while pending:
        folder, (part, *rest) = pending.pop()
        is_deep = part == "**"
        if is_deep and not rest:
            found.add(folder or os.curdir)
            continue
        try:
            with os.scandir(folder or os.curdir) as items:
                inner = [item for item in items if part.startswith(".") or not item.name.startswith(".")]
        except OSError:
            found |= {folder} if is_deep else set()
            continue
        steps = [(folder, tuple(rest))] if is_deep else []
        for item in inner:
            name = os.path.join(folder, item.name)
            if is_deep and item.is_dir(follow_symlinks=False) and not is_link(item):
                steps.append((name, (part, *rest)))
            elif not is_deep and fnmatch.fnmatch(item.name, part):
                if not rest:
                    found.add(name)
                elif item.is_dir():
                    steps.append((name, tuple(rest)))
        pending += [step for step in steps if step not in seen]
        seen.update(steps)
    below = {name: name[len(start) :].replace(os.sep, "/").lstrip("/") + "/" * os.path.isdir(name) for name in found}
    return sorted(name for name in found if not exclude.covers(below[name])) if found else [path]


def find_unlisted(top: str) -> list[str]:
    """Return the folders below a folder that cannot be listed."""
    errors: list[OSError] = []
    for _ in os.walk(top, onerror=errors.append):
        pass
    return [str(error.filename) for error in errors]


def expand_paths(paths: Iterable[str], exclude: Exclusion = NOTHING) -> Iterator[str]:
    """Yield the files to read: of a folder the archives below it, unless it is an unzipped archive.

    An agent, statistics or a replay buffer whose name is not that of an archive is found by what it starts with. Names
    are sorted in each folder. A folder without an archive is yielded itself, and so is one below it that cannot be
    listed: reading it gives the error.

    :param exclude: what is left out of folders
    """
    for path in paths:
        found: Iterator[str] = iter(())
        if is_remote(path):
            found = _list_remote(path, exclude)
        elif os.path.isdir(path):
            found = _walk(path, exclude)
        yield next(found, path)
        yield from found


def _list_remote(url: str, exclude: Exclusion) -> Iterator[str]:
    """Return the URLs of a remote folder's archives."""
    from sbformat.io.remote.listing import iter_files

    try:
        found = [row.name or row.url for row in iter_files(url)]
    except (OSError, SbformatError):  # opening it gives the error
        return iter(())
    return (name for name in found if not is_excluded_url(url, name, exclude))


def is_excluded_url(url: str, found: str, exclude: Exclusion) -> bool:
    """Return whether an archive, or a folder that is an unzipped one, is left out of those that a URL names."""
    from sbformat.io.remote.listing import name_below

    name = name_below(url, found)
    return exclude.covers(name if name.lower().endswith(ARCHIVE_SUFFIXES) else f"{name}/")


def _walk(top: str, exclude: Exclusion) -> Iterator[str]:
    """Yield the archives of a folder, and the folders below it that cannot be listed."""
    pending = [(top, "")]
    while pending:
        folder, below = pending.pop()
        try:
            with os.scandir(folder) as items:
                folders = {item.name: item.is_dir() and not is_link(item) for item in items}
        except OSError:
            yield folder
            continue
        if folders.get(DATA_ENTRY) is False:
            yield folder
            continue
        names = [name for name in sorted(folders) if not exclude.covers(below + name + "/" * folders[name])]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (name.lower().endswith(ARCHIVE_SUFFIXES) or _is_other_name(path)):
                yield path
        inner = (name for name in names[::-1] if folders[name] and not name.startswith("."))
        pending += [(os.path.join(folder, name), f"{below}{name}/") for name in inner]


def _is_other_name(path: str) -> bool:
    """Return whether a file of a folder is an agent or belongs to one, by its contents.

    Not a hidden file, and none of the ``blobs`` of the Hugging Face cache, which have their names in ``snapshots``.
    """
    folder, name = os.path.split(path)
    above, last = os.path.split(folder)
    if name.startswith(".") or (last == "blobs" and os.path.isdir(os.path.join(above, "snapshots"))):
        return False
    file = classify_unusual(path, DEFAULT_LIMITS, path)
    return file.kind is not None or bool(file.outcome)


_SLASHES: Final = r"[/\\]+" if os.sep == "\\" else "/+"
_KEPT: Final = 16  # folders whose files are remembered


class Beside(Record):
    """The files that belong to an agent, by their paths below a folder."""

    top: str
    folder: str
    """The folder of the agent in ``top``; empty if it is that."""
    statistics: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    def name(self, files: Iterable[str]) -> str | None:
        """Return the paths of files from the folder of the agent, separated by commas; None without any."""
        return ", ".join(posixpath.relpath(file, self.folder or ".") for file in files) or None

    def digest(self) -> str:
        """Return what changes with the logs and settings: of their sizes and times; empty without any, and remote."""
        files = () if is_remote(self.top) else (*self.logs, *self.settings)
        states = []
        for file in files:
            try:
                status = os.stat(join_path(self.top, file))
            except OSError:
                continue
            states.append((file, status.st_size, status.st_mtime_ns))
        return f"{zlib.crc32(repr(states).encode('utf-8', 'backslashreplace')):08x}" if states else ""


class BesideFinder:
    """Finds the files that belong to agents; ask for those of one folder one after another.

    ::

        BesideFinder().find("logs/ppo/best_model.zip").statistics  # ('vecnormalize.pkl',)
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._indexes: OrderedDict[str, Index | None] = OrderedDict()

    def find(self, path: str) -> Beside | None:
        """Return what belongs to an agent; None without any, and of a file that is not an agent.

        :param path: of the agent: a file, or an unzipped archive
        """
        here, last = _split(path)
        above, folder = _split(here)
        top, folder = (above, folder) if folder.lower() in PARTS_OF_RUNS else (here, "")
        if top not in self._indexes:
            self._indexes[top] = _list_places(top, folder, self._limits)
            if len(self._indexes) > _KEPT:
                self._indexes.popitem(last=False)
        index = self._indexes[top]
        file = f"{folder}/{last}" if folder else last
        if index is None or file in index.others:
            return None
        name = parse_name(file)
        found = Beside(top, folder, index.find_statistics(name), index.find_logs(name), index.find_settings(name))
        return found if any(found[2:]) else None


def _split(path: str) -> tuple[str, str]:
    """Return the folder of a path or URL, and its last name."""
    if not is_url(path):
        return os.path.split(os.path.abspath(path))
    folder, _, name = path.rstrip("/").rpartition("/")
    return copy_options(path, folder) if is_url(folder) else folder, name


def _list_places(top: str, near: str, limits: Limits) -> Index | None:
    """Return the files of a folder and of those directly in it; None if nothing in them can belong to an agent.

    :param near: the folder of the agents, directly in the top; empty if it is the top
    """
    is_local = not is_remote(top)
    try:
        paths = {name: join_path(top, name) for name in sorted(walk_files(top, near=near))}
    except (OSError, SbformatError):  # reading the agents gives the error
        return None
    folders = {name for name, path in paths.items() if is_local and os.path.isdir(path)}
    found: dict[str, ListedFile] = {}
    for name, path in paths.items():
        if name in folders or name.lower().endswith(".zip"):
            continue
        # opening a remote file costs a request
        if read_head(path).startswith(PICKLE) if is_local else name.lower().endswith(PICKLE_SUFFIXES):
            found[name] = classify_file(path, limits, name)
    if not any(file.kind in STATISTICS for file in found.values()) and not any(
        is_log(name) or is_settings(name) for name in paths
    ):
        return None
    for name, path in paths.items():
        if name not in found and (name in folders or has_usual_suffix(name)):
            found[name] = classify_file(path, limits, name)
    return Index(found.get(name) or ListedFile(name) for name in paths)
