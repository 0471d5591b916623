"""Which files of a tree ``scan`` looks into: every one that could be loaded, told by its content, not its name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.errors import LimitError, PickleError
from sbformat.limits import Budget
from sbformat.pkl import Call, attempt
from sbformat.sniff import sniff
from sbformat.source import BytesSource
from sbformat.spec import DATA_ENTRY, END_SIGNATURE, PICKLE_SUFFIXES, PTH_SUFFIX, VERSION_ENTRY, NPY_MAGIC
from sbformat.tools.scan.carve import holds_marker, is_tar, npy_pickle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from mmap import mmap

    from sbformat.limits import Limits

_ALWAYS: Final = frozenset({"zip", "torch-legacy", "pickle"})
_HEAD_BYTES: Final = 4096
_ZIP_TAIL_BYTES: Final = 22 + 0xFFFF
"""An end record and its longest comment: ``zipfile`` finds an archive behind whatever stands before it."""


class Found(NamedTuple):
    """What the paths of a command line stand for."""

    paths: list[str]
    """Files, and folders that are an archive; in an order that does not depend on the system."""
    skipped: int
    """Files and folders that were not looked into: they hold nothing that could be loaded, or are hidden."""


def find(paths: Iterable[str], limits: Limits) -> Found:
    """Find the files to look into.

    A file that is named is one of them, whatever it is. In a folder, so is every file that could be loaded: archives,
    torch files, pickles, JSON with blobs, and what only begins like something else. Folders whose names start with a
    dot are not entered, nor are links to folders.

    :param paths: files and folders
    :param limits: of what is read to tell
    """
    found, skipped = [], 0
    for path in paths:
        if not os.path.isdir(path):
            found.append(path)
            continue
        for item, is_candidate in _walk(path):
            if is_candidate is None or (is_candidate and _is_candidate(item, limits)):
                found.append(item)
            else:
                skipped += 1
    return Found(found, skipped)


def _walk(top: str) -> Iterator[tuple[str, bool | None]]:
    """Yield what is in a tree: True for files to look at, None for what is taken as it is, False for what is not."""
    folders = [top]
    while folders:
        here = folders.pop()
        try:
            with os.scandir(here) as scanned:
                items = sorted(scanned, key=lambda item: item.name)
        except OSError:
            yield here, None  # to be told that it cannot be opened
            continue
        if _is_archive(items):
            yield here, None  # with all that lies below
            continue
        below = []
        for item in items:
            if not item.is_dir(follow_symlinks=False):
                yield item.path, os.path.isfile(item.path)
            elif item.name.startswith("."):
                yield item.path, False
            else:
                below.append(item.path)
        folders += reversed(below)


def _is_archive(items: list[os.DirEntry[str]]) -> bool:
    names = {item.name for item in items if os.path.isfile(item.path)}
    return DATA_ENTRY in names or (VERSION_ENTRY in names and any(name.endswith(PTH_SUFFIX) for name in names))


def _is_candidate(path: str, limits: Limits) -> bool:
    """Say whether a file could be loaded, by its content; one that cannot be read is for the scan to tell.

    :param path: a regular file
    :param limits: of what is read to tell
    """
    import mmap

    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return False
            if path.lower().endswith(PICKLE_SUFFIXES):
                return True
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
                return _holds_something(data, limits)
    except (OSError, ValueError):  # ValueError: it was cut to nothing meanwhile
        return True


def _holds_something(data: mmap, limits: Limits) -> bool:
    head = data[:_HEAD_BYTES]
    kind = sniff(BytesSource(head))
    if kind in _ALWAYS:
        return True
    if data.rfind(END_SIGNATURE, max(0, len(data) - _ZIP_TAIL_BYTES)) >= 0:
        return True
    if is_tar(memoryview(head)):
        return True
    if kind == "data-json":
        return holds_marker(data)
    if head.startswith(NPY_MAGIC):
        return npy_pickle(memoryview(head)) is not None
    return _looks_like_a_pickle(data, limits)


def _looks_like_a_pickle(data: mmap, limits: Limits) -> bool:
    """Say whether what has no pickle's first opcode is one all the same.

    Text and numbers begin like a pickle by chance, but do not go on to a call or to its end.
    """
    for size in (min(_HEAD_BYTES, limits.pickle_bytes), limits.pickle_bytes):
        found = attempt(data[:size], Budget(limits), encoding="utf-8")
        if found.pickle is not None:
            return bool(found.log) or found.pickle.size < len(data)
        if any(isinstance(row, Call) for row in found.log):
            return True
        if isinstance(found.error, LimitError):
            return True
        if not isinstance(found.error, PickleError) or not found.error.is_cut_short or len(data) <= size:
            return False
    return True
