"""List a folder: the files to scan, unzipped archives, and the files that are skipped, each with the reason.

Every folder below is listed, hidden ones included: a download cache is ``~/.cache``. Links out of the tree and links to
folders are not followed, so there are no cycles; a link within the tree is a second name of a file. One exception: in a
snapshot of the Hugging Face cache (``models--x/snapshots/y``) every file is a link to the ``blobs`` folder of the same
repository, which therefore belongs to the tree. A file with several names is listed once.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

from sbformat.archive.kinds import detect_kind, is_safetensors
from sbformat.constants import DATA_ENTRY, END_SIGNATURE, NPY_MAGIC, PICKLE_SUFFIXES, PTH_SUFFIX, VERSION_ENTRY
from sbformat.errors import LimitError, PickleError
from sbformat.io.opening import LARGE_FILE_BYTES, is_link, is_within
from sbformat.io.patterns import NOTHING, Exclusion
from sbformat.io.source import BytesSource
from sbformat.io.urls import last_name
from sbformat.limits import Budget
from sbformat.pkl.decode import attempt
from sbformat.tools.scan.findings import Skipped
from sbformat.tools.scan.recover import contains_blob_key, find_npy_pickle, is_tar
from sbformat.tools.scan.sidecars import contains_tags

if TYPE_CHECKING:
    from collections.abc import Collection
    from mmap import mmap

    from sbformat.io.remote import RemoteSource
    from sbformat.io.source import Source
    from sbformat.limits import Limits

_ALWAYS: Final = frozenset({"zip", "torch-legacy", "pickle"})
_HEAD_BYTES: Final = 4096
_ZIP_TAIL_BYTES: Final = 22 + 0xFFFF
"""An end record and its longest comment: ``zipfile`` opens an archive after any other bytes."""

FileId = tuple[int, int]
"""Device and inode number of a file, which all of its names share."""


class Tree:
    """The files of a folder and of all folders below it.

    :param roots: the folders that links may lead to
    :param seen: files that were listed before and are not listed again; updated
    :param finds_archives: list an unzipped archive, with everything below it, as one file
    :param exclude: what is left out of the tree, but not of unzipped archives in it
    """

    def __init__(
        self,
        top: str,
        roots: tuple[str, ...],
        seen: set[FileId],
        *,
        finds_archives: bool,
        exclude: Exclusion = NOTHING,
    ) -> None:
        self._roots = roots
        self._seen = seen
        self._finds_archives = finds_archives
        self._exclude = exclude
        self._listed: dict[FileId, str] = {}
        self.files: list[str] = []
        """Regular files, and folders that are unzipped archives, in an order that does not depend on the system."""
        self.unreadable: dict[str, OSError] = {}
        self.names: dict[str, list[str]] = {}
        """Second names of files, by the name under which each is listed."""
        self.skipped: list[Skipped] = []
        # Links come last, when all files with a name of their own are known.
        for path, is_in_archive in self._list_folder(top):
            self._resolve(path, is_in_archive=is_in_archive)

    def _list_folder(self, top: str) -> list[tuple[str, bool]]:
        """List all folders from here down; return the links, and whether each is in an archive."""
        links: list[tuple[str, bool]] = []
        folders = [(top, "", False)]
        while folders:
            here, below, is_in_archive = folders.pop()
            try:
                with os.scandir(here) as scanned:
                    items = sorted(scanned, key=lambda item: item.name)
            except OSError as error:
                self.unreadable[here] = error
                continue
            if self._finds_archives and not is_in_archive:
                files = (item for item in items if os.path.isfile(item.path))
                names = {item.name for item in files if not item.is_symlink() or is_within(item.path, self._roots)}
                if is_unzipped_archive(names):
                    self.files.append(here)
                    is_in_archive = True
            inner = []
            for item in items:
                is_folder = item.is_dir(follow_symlinks=False) and not is_link(item)
                name = f"{below}{item.name}{'/' * is_folder}"
                if not is_in_archive and self._exclude.covers(name):
                    self.skipped.append(Skipped(item.path, "excluded"))
                elif is_link(item):
                    links.append((item.path, is_in_archive))
                elif is_folder:
                    inner.append((item.path, name, is_in_archive))
                else:
                    with contextlib.suppress(FileNotFoundError):  # it was removed in the meantime
                        # not item.stat(), which on Windows does not identify a file
                        self._add(item.path, os.stat(item.path, follow_symlinks=False), is_in_archive=is_in_archive)
            folders += reversed(inner)
        return links

    def _add(self, path: str, status: os.stat_result, *, is_in_archive: bool) -> None:
        """List a file unless it is listed under another name; a file of an archive is listed with the archive."""
        from sbformat.io.atomic import is_temporary

        key = status.st_dev, status.st_ino
        if stat.S_ISREG(status.st_mode) and is_temporary(path):
            self.skipped.append(Skipped(path, "temporary"))
        elif not stat.S_ISREG(status.st_mode):
            if not is_in_archive:
                self.skipped.append(Skipped(path, "special"))
        elif is_in_archive:
            self._seen.add(key)
        elif not status.st_ino:  # a file system that does not identify files: each name is a file
            self.files.append(path)
        elif key in self._listed:
            self.names.setdefault(self._listed[key], []).append(path)
            self.skipped.append(Skipped(path, "link"))
        elif key in self._seen:
            self.skipped.append(Skipped(path, "link"))
        else:
            self._seen.add(key)
            self._listed[key] = path
            self.files.append(path)

    def _resolve(self, path: str, *, is_in_archive: bool) -> None:
        """List what a link leads to."""
        try:
            status = os.stat(path)
        except OSError:  # a link to nothing, or to itself
            status = None
        if is_in_archive:  # the scan of the archive counts it
            if status is not None and is_within(path, self._roots):
                self._add(path, status, is_in_archive=True)
        elif status is None:
            self.skipped.append(Skipped(path, "broken-link"))
        elif not is_within(path, self._roots):
            self.skipped.append(Skipped(path, "link-out"))
        elif stat.S_ISDIR(status.st_mode):
            self.skipped.append(Skipped(path, "link"))
        else:
            self._add(path, status, is_in_archive=False)


def is_unzipped_archive(names: Collection[str]) -> bool:
    """Return whether a folder is an unzipped archive, by the names of its files."""
    return DATA_ENTRY in names or (VERSION_ENTRY in names and any(name.endswith(PTH_SUFFIX) for name in names))


def is_large_and_unknown(path: str, limits: Limits, remote: RemoteSource | None = None) -> bool:
    """Return whether a file is large, its start and end are not those of anything to scan, and it has no YAML tags.

    :param remote: the file, if it is a remote one: its start and end are fetched, and all of it if it may be YAML. A
        pickle without the marks of one, which protocols 0 and 1 do not have, is known by its suffix only
    """
    if remote is not None:
        is_large = remote.size > LARGE_FILE_BYTES and not last_name(remote.name).lower().endswith(PICKLE_SUFFIXES)
        return is_large and _is_unknown(remote, limits)
    import mmap

    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size <= LARGE_FILE_BYTES or path.lower().endswith(PICKLE_SUFFIXES):
                return False
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
                return _is_unknown(BytesSource(data), limits, data)
    except (OSError, ValueError):  # the scan reports it; ValueError: the file was truncated to nothing in the meantime
        return False


def _is_unknown(source: Source, limits: Limits, data: mmap | None = None) -> bool:
    """Return whether a large file contains neither pickles nor YAML tags."""
    head = bytes(source.view(0, _HEAD_BYTES))
    kind = detect_kind(BytesSource(head))
    if kind in _ALWAYS or is_safetensors(head, source.size) or is_tar(memoryview(head)):
        return False
    if END_SIGNATURE in bytes(source.view(max(0, source.size - _ZIP_TAIL_BYTES), _ZIP_TAIL_BYTES)):
        return False
    if kind == "data-json":
        has_pickle = data is None or contains_blob_key(data)
    elif head.startswith(NPY_MAGIC):
        has_pickle = find_npy_pickle(memoryview(head)) is not None
    else:
        has_pickle = data is not None and _begins_as_pickle(data, limits)
    return not (has_pickle or contains_tags(source))


def _begins_as_pickle(data: mmap, limits: Limits) -> bool:
    found = attempt(data[: limits.pickle_bytes], Budget(limits), encoding="utf-8")
    if found.pickle is not None:
        return bool(found.log) or found.pickle.size < len(data)
    is_cut = isinstance(found.error, PickleError) and found.error.is_cut_short
    return bool(found.log) or is_cut or isinstance(found.error, LimitError)
