"""Find the files that the paths of a command line name, and those in its folders that are skipped."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from sbformat.errors import SbformatError
from sbformat.immutable import Record
from sbformat.io.links import find_roots
from sbformat.io.opening import is_folder, is_remote
from sbformat.io.urls import hide_secrets, join_url
from sbformat.tools.scan.folders import is_unzipped_archive, list_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.tools.scan.findings import Skipped


class Found(Record):
    """The files that the paths of a command line name."""

    paths: list[str]
    """Files, and folders that are an unzipped archive, in the same order on every system."""
    roots: dict[str, tuple[str, ...]]
    """For each path that was found in a folder, the folders that its links may point into."""
    names: dict[str, list[str]]
    """Other names of files."""
    skipped: list[Skipped]
    """Files in folders that are not judged, each with its reason."""
    folders: dict[str, frozenset[str]]
    """Folders that the command line names, with those of ``paths`` that are only in them; without those of which
    another path names a file, too."""


def find_files(paths: Iterable[str]) -> Found:
    """Find the files to scan.

    A file that is named is scanned, whatever it is, also through a link. In a folder every file below is scanned, each
    once; see :mod:`sbformat.tools.scan.folders`.

    :param paths: files and folders
    """
    paths, found, seen = list(paths), Found([], {}, {}, [], {}), set()
    for path in paths:
        if not is_remote(path) and not os.path.isdir(path):
            with contextlib.suppress(OSError):  # opening it gives the error
                status = os.stat(path)
                seen.add((status.st_dev, status.st_ino))
    for path in paths:
        if is_remote(path):
            _add_url(path, found)
            continue
        if not os.path.isdir(path):
            found.paths.append(path)
            continue
        roots = find_roots(path)
        tree = list_tree(path, roots, seen, finds_archives=True)
        found.paths.extend([*tree.unreadable, *tree.files])
        found.roots.update(dict.fromkeys(tree.files, roots))
        found.names.update(tree.names)
        found.skipped.extend(tree.skipped)
        if not any(row.reason == "link" for row in tree.skipped):
            found.folders[path] = frozenset((*tree.unreadable, *tree.files))
    return found


def _add_url(url: str, found: Found) -> None:
    """Add a remote file, or all files of a remote folder; an unzipped archive, with all below it, is one file.

    Of a pattern, and of a query of the Hub, the archives are added.
    """
    from sbformat.io.remote.listing import is_pattern, iter_files, pin_folder, walk_folder

    try:
        if is_pattern(url):
            found.paths.extend([row.name or row.url for row in iter_files(url)] or [url])
            return
        if not is_folder(url):
            found.paths.append(url)
            return
        pinned, files, archive = pin_folder(url), [], None
        for folder in walk_folder(pinned):
            if archive is not None and f"{folder.name}/".startswith(archive):
                continue
            names = [row.name for row in folder.files]
            if is_unzipped_archive({name.rpartition("/")[2] for name in names}):
                archive = f"{folder.name}/" if folder.name else ""
                names = [folder.name]
            files += [join_url(pinned, name) if name else pinned for name in names]
    except (OSError, SbformatError):  # opening it gives the error
        found.paths.append(url)
        return
    found.paths.extend(files)
    found.roots.update(dict.fromkeys(files, ()))
    found.folders[hide_secrets(url)] = frozenset(map(hide_secrets, files))
