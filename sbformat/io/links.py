"""Symbolic links in folders: which of them lead to files that belong to the folder.

A link within a folder is a second name of a file. In a snapshot of the Hugging Face cache (``models--x/snapshots/y``)
every file is a link to the ``blobs`` folder of the same repository, which therefore belongs to the folder.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_HUB_FOLDERS: Final = ("models--", "datasets--", "spaces--")
_SNAPSHOTS: Final = "snapshots"
_BLOBS: Final = "blobs"


def find_roots(folder: str) -> tuple[str, ...]:
    """Return the folders that belong to a tree: its top, and the ``blobs`` that a Hugging Face snapshot links to."""
    top = os.path.realpath(folder)
    parts = top.split(os.sep)
    for at in range(len(parts) - 1, 1, -1):
        blobs = os.sep.join([*parts[:at], _BLOBS])
        if parts[at] == _SNAPSHOTS and parts[at - 1].startswith(_HUB_FOLDERS) and os.path.isdir(blobs):
            return top, os.path.realpath(blobs)
    return (top,)


def is_within(path: str, roots: Iterable[str]) -> bool:
    """Return whether a path, or the target of a link, is in a tree.

    :param path: of a link or anything else
    :param roots: as :func:`find_roots` returns them
    """
    target = os.path.realpath(path)
    return any(target == root or target.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
