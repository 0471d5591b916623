"""Which files the paths of a command line stand for, and what is passed over in its folders."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from sbformat.tools.scan.folders import find_roots, list_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.tools.scan.report import Skipped


class Found(NamedTuple):
    """What the paths of a command line stand for."""

    paths: list[str]
    """Files, and folders that are an archive; in an order that does not depend on the system."""
    roots: dict[str, tuple[str, ...]]
    """For each path that was found in a folder, the folders that its links may lead to."""
    names: dict[str, list[str]]
    """Other names of files."""
    skipped: list[Skipped]
    """Files of folders that have no verdict, each with its reason."""


def find(paths: Iterable[str]) -> Found:
    """Find the files to look into.

    A file that is named is one of them, whatever it is, also through a link. Of a folder so is every file below, each
    once; see :mod:`sbformat.tools.scan.folders`.

    :param paths: files and folders
    """
    paths, found, seen = list(paths), Found([], {}, {}, []), set()
    for path in paths:
        if not os.path.isdir(path):
            with contextlib.suppress(OSError):  # whoever opens it tells
                status = os.stat(path)
                seen.add((status.st_dev, status.st_ino))
    for path in paths:
        if not os.path.isdir(path):
            found.paths.append(path)
            continue
        roots = find_roots(path)
        tree = list_tree(path, roots, seen, finds_archives=True)
        found.paths.extend([*tree.unreadable, *tree.files])
        found.roots.update(dict.fromkeys(tree.files, roots))
        found.names.update(tree.names)
        found.skipped.extend(tree.skipped)
    return found
