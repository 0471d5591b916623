"""Open what the caller passed as a source: a path, a URL, bytes, or a binary file object.

:func:`open_source` reads all of it into memory, or maps a file. :func:`open_large` leaves a large file where it is.
A URL is opened by :mod:`sbformat.io.remote`, which is imported for URLs only; nothing here reaches a network otherwise.
:func:`find_roots` and :func:`is_within` say which symbolic links lead to files that belong to a folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
from itertools import zip_longest
from typing import IO, TYPE_CHECKING, Final, TypeAlias, cast

from sbformat.errors import ContainerError, UnsupportedError, quote, require_type
from sbformat.io.source import CHUNK_BYTES, BytesSource, FileSource, read_ahead
from sbformat.io.urls import copy_options, is_url, join_url, last_name, local_path
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from mmap import mmap
    from typing import TypeGuard

    from sbformat.io.remote import RemoteSource
    from sbformat.io.source import Path


SourceLike: TypeAlias = "Path | bytes | bytearray | memoryview | IO[bytes]"
"""What every public reader takes, as SB3's own ``load`` does: a path, a URL, bytes, or a binary file object."""

LARGE_FILE_BYTES: Final = 32 << 20
"""A larger file can stay on the disk while it is read; a smaller one is always read into memory."""
_PIECE_BYTES: Final = 8 << 20  # size of the pieces in which a file is read whole, in bytes
_PARALLEL_BYTES: Final = 64 << 20
"""A file of at least this size is read by two threads: 512 MiB in the cache of the system take 0.15 s instead of 0.26,
nearly all of it for memory that is used for the first time."""


def open_source(
    source: SourceLike,
    *,
    mapped: bool = False,
    budget: Budget | None = None,
    progress: Callable[[int], None] | None = None,
) -> BytesSource:
    """Read or map what the caller passed.

    A path that does not exist falls back to ``name.zip`` (SB3 ``open_path``). A seekable file object is read from its
    start, whatever its position, as ``zipfile`` does in SB3's ``load``. A remote file is fetched whole.

    :param mapped: map a file on disk instead of reading it; it must then not shrink while it is in use
    :param budget: charged for the bytes of pipes and other streams, whose size is not known beforehand
    :param progress: called with a number of bytes whenever that many of a file were read
    """
    if isinstance(source, bytes):
        return BytesSource(source)
    if is_remote(source):
        limits = budget.limits if budget is not None else DEFAULT_LIMITS
        return open_url(source, limits, is_whole=True).load(progress)
    if isinstance(source, (str, os.PathLike)):
        with open_path(source) as file:
            return _open_file(file, quote(os.fspath(source)), mapped, budget, progress)
    try:
        view = memoryview(source)  # type: ignore[arg-type]
    except TypeError:
        view = None
    if view is not None:  # of a buffer that its owner can change, a copy
        return BytesSource(view if isinstance(view.obj, bytes) and view.c_contiguous else view.tobytes())
    if not hasattr(source, "read"):
        require_type(source, (), "an Archive, a path, bytes or a binary file")
    return BytesSource(_read_stream(cast("IO[bytes]", source), budget))


def open_large(source: SourceLike, *, limits: Limits = DEFAULT_LIMITS) -> FileSource | None:
    """Open a path to a file of more than ``LARGE_FILE_BYTES`` without reading it; return None for everything else."""
    if not isinstance(source, (str, os.PathLike)) or is_remote(source):
        return None
    path = to_path(source)
    try:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            path = f"{os.fspath(path)}.zip"
            status = os.stat(path)
    except (OSError, ValueError):  # opening it raises the same, or a clearer error
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size <= LARGE_FILE_BYTES:
        return None
    return FileSource(path, limits=limits)


def is_remote(source: object) -> TypeGuard[str]:
    """Return whether a source is a URL of a remote file system; ``file://`` is a path."""
    return is_url(source) and local_path(source) is None


def is_folder(source: object) -> TypeGuard[Path]:
    """Return whether a source is a folder, on the disk or remote."""
    if is_remote(source):
        from sbformat.io.remote.listing import is_folder as is_remote_folder

        return is_remote_folder(source)
    return isinstance(source, (str, os.PathLike)) and os.path.isdir(to_path(source))


def list_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the files directly in a folder, on the disk or remote."""
    if is_remote(folder):
        from sbformat.io.remote.listing import walk_folder

        return tuple(row.name for row in next(iter(walk_folder(folder, depth=0))).files)
    with os.scandir(to_path(folder)) as found:
        return tuple(sorted(os.fsdecode(item.name) for item in found if item.is_file()))


def pin_folder(url: str) -> str:
    """Return the URL of a remote folder as it is now: of the Hub with the commit."""
    from sbformat.io.remote.listing import pin_folder as pin

    return pin(url)


def has_file(folder: Path, name: str) -> bool:
    """Return whether a folder has a file of this name directly in it."""
    if is_remote(folder):
        return name in list_names(folder)
    return os.path.isfile(os.path.join(os.fsdecode(to_path(folder)), name))


def join_path(folder: str, name: str) -> str:
    """Return the path or URL of a file below a folder."""
    return join_url(folder, name) if is_url(folder) else os.path.join(folder, *name.split("/"))


def read_start(path: str, size: int) -> bytes:
    """Return the first bytes of a file, on the disk or remote."""
    if is_remote(path):
        source = open_url(path)
        return bytes(source.view(0, min(size, source.size)))
    with open(to_path(path), "rb") as file:
        return file.read(size)


def open_url(url: str, limits: Limits = DEFAULT_LIMITS, *, is_whole: bool = False) -> RemoteSource:
    """Open a remote file, or ``url + ".zip"`` when it does not exist and its name has no suffix.

    :param is_whole: the whole file will be read: a small one is fetched in one request
    """
    from sbformat.io.remote import open_remote
    from sbformat.io.remote.source import OPENING_BYTES, WHOLE_BYTES

    first_bytes = WHOLE_BYTES if is_whole else OPENING_BYTES
    try:
        return open_remote(url, limits=limits, first_bytes=first_bytes)
    except FileNotFoundError:
        if "." in last_name(url) or "?" in url:
            raise
        with contextlib.suppress(FileNotFoundError):
            return open_remote(copy_options(url, f"{url}.zip"), limits=limits, first_bytes=first_bytes)
        raise


def base_name(source: object) -> str:
    """Return the file name of a path or URL; empty for any other source."""
    if is_url(source):
        return last_name(source)
    return os.path.basename(os.fsdecode(source)) if isinstance(source, (str, os.PathLike)) else ""


def to_path(path: Path) -> Path:
    """Return a path, also for a ``file://`` URL."""
    found = local_path(path) if is_url(path) else None
    return path if found is None else found


def open_path(path: Path) -> IO[bytes]:
    """Open a path for reading, or ``path + ".zip"`` when it does not exist (SB3 ``open_path``)."""
    path = to_path(path)
    try:
        return open(path, "rb", buffering=0)
    except FileNotFoundError:
        fallback = f"{os.fspath(path)}.zip"
        if not os.path.exists(fallback):
            raise
        return open(fallback, "rb", buffering=0)


def _open_file(
    file: IO[bytes],
    name: str,
    mapped: bool,  # noqa: FBT001
    budget: Budget | None,
    progress: Callable[[int], None] | None,
) -> BytesSource:
    status = os.fstat(file.fileno())
    size = status.st_size
    is_regular = stat.S_ISREG(status.st_mode)
    if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or (is_regular and not size):
        return BytesSource(_read_stream(file, budget))
    if not is_regular:
        raise UnsupportedError(f"expected a file, a folder or a pipe, got {name}")
    if mapped:
        from mmap import ACCESS_READ, mmap

        return BytesSource(mmap(file.fileno(), size, access=ACCESS_READ))
    if budget is not None:
        budget.limits.check("total_bytes", size)
    if progress is None and size < _PARALLEL_BYTES:
        content = file.read()
        source, count = BytesSource(content), len(content)
    else:
        data = _allocate(size)
        source, count = BytesSource(data), _read_pieces(file, data, progress)
    if count != size:
        raise ContainerError(f"{name} changed its size while it was read: expected {size} bytes, got {count}")
    return source


def _allocate(size: int) -> bytearray | mmap:
    """Return memory of that many bytes, if possible without writing zeros to it, which takes as long as reading."""
    import mmap

    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return bytearray(size)
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        raise MemoryError from None


def _read_pieces(file: IO[bytes], data: bytearray | mmap, progress: Callable[[int], None] | None) -> int:
    """Read a file into memory of its size in pieces, a large one with two threads; return how many bytes it has."""
    is_parallel = len(data) >= _PARALLEL_BYTES and hasattr(os, "preadv")
    middle = len(data) // 2 if is_parallel else len(data)
    found = 0
    with memoryview(data) as view, contextlib.ExitStack() as threads:
        runs = [_read_range(file, view[:middle], 0)]
        if is_parallel:
            other = read_ahead(_read_range(file, view[middle:], middle))
            runs.append(threads.enter_context(contextlib.closing(other)))
        for counts in zip_longest(*runs, fillvalue=0):
            found += sum(counts)
            if progress is not None:
                progress(sum(counts))
    return file.seek(0, os.SEEK_END) if found == len(data) else found


def _read_range(file: IO[bytes], view: memoryview, start: int) -> Iterator[int]:
    """Read the bytes of a file from ``start`` into a view, until it is full or the file ends; yield their numbers."""
    at = 0
    while at < len(view):
        piece = view[at : at + _PIECE_BYTES]
        is_positional = hasattr(os, "preadv")
        count = os.preadv(file.fileno(), [piece], start + at) if is_positional else file.readinto(piece)  # type: ignore[attr-defined]
        if not count:
            return
        at += count
        yield count


def _read_stream(file: IO[bytes], budget: Budget | None) -> bytes:
    """Read a file object to its end; when its size is not known, each chunk is charged as it is read."""
    size = 0
    if hasattr(file, "seekable") and file.seekable():
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
    budget = budget or Budget()
    chunks = []
    while (chunk := file.read(CHUNK_BYTES)) or chunk is None:
        if chunk is None:
            raise BlockingIOError(11, "the source is non-blocking and has no data yet")
        if not isinstance(chunk, bytes):
            raise TypeError(f"expected a binary file object, whose read returns bytes; got {type(chunk).__name__}")
        if not size:  # a pipe, or a system file that reports no size
            budget.spend("total_bytes", len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


_HUB_FOLDERS: Final = ("models--", "datasets--", "spaces--")
_SNAPSHOTS: Final = "snapshots"
_BLOBS: Final = "blobs"


def is_link(item: os.DirEntry[str]) -> bool:
    """Return whether an item of a folder leads to another: a symbolic link, or a junction of Windows."""
    return item.is_symlink() or bool(getattr(item, "is_junction", bool)())  # from Python 3.12


def find_roots(folder: str) -> tuple[str, ...]:
    """Return the folders that belong to a tree: its top, and the ``blobs`` that a Hugging Face snapshot links to.

    A link within a folder is a second name of a file. In a snapshot of the Hugging Face cache
    (``models--x/snapshots/y``) every file is a link to the ``blobs`` folder of the same repository.
    """
    top = os.path.realpath(folder)
    parts = top.split(os.sep)
    for at in range(len(parts) - 1, 1, -1):
        blobs = os.sep.join([*parts[:at], _BLOBS])
        if parts[at] == _SNAPSHOTS and parts[at - 1].startswith(_HUB_FOLDERS) and os.path.isdir(blobs):
            return top, os.path.realpath(blobs)
    return (top,)


def is_within(path: str, roots: Iterable[str]) -> bool:
    """Return whether a path, or the target of a link, is in a tree."""
    target = os.path.realpath(path)
    return any(target == root or target.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
