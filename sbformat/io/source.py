"""Sources of bytes: in memory, mapped, or left in a file.

Every layer above reads through two members, ``size`` and ``view(offset, length)``, and never sees a path or a file
object. Any object with these two is a source; one that fetches ranges of a remote file needs nothing else.

* :class:`BytesSource` has its bytes in memory, or mapped: views are not copies, and what was read once stays the same.
* :class:`FileSource` reads from the disk at each call, so memory does not grow with the file; it notices that the
  file has changed.
"""

from __future__ import annotations

import os
import stat
from typing import IO, TYPE_CHECKING, Final, NoReturn, Protocol, TypeAlias, cast

from sbformat.errors import ContainerError, LimitError, UnsupportedError, quote, require_type
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from mmap import mmap
    from typing import TypeGuard

Path: TypeAlias = "str | os.PathLike[str]"
SourceLike: TypeAlias = "Path | bytes | bytearray | memoryview | IO[bytes]"
"""What every public reader takes, as SB3's own ``load`` does: a path, bytes, or a binary file object."""

LARGE_FILE_BYTES: Final = 32 << 20
"""A larger file can stay on the disk while it is read; a smaller one is always read into memory."""
CHUNK_BYTES: Final = 1 << 20
"""Size of the pieces in which large members are read, in bytes."""


_PIECE_BYTES: Final = 8 << 20
"""Size of the pieces in which a file is read whole, in bytes."""


class Source(Protocol):
    """Bytes at known offsets."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``; the caller has checked both against ``size``."""


class BytesSource:
    """A source over bytes in memory, or over a mapped file.

    :param buffer: viewed, not copied, unless it is not contiguous
    """

    __slots__ = ("_view", "size")

    def __init__(self, buffer: bytes | bytearray | memoryview | mmap) -> None:
        view = memoryview(buffer)
        if not view.c_contiguous:
            view = memoryview(bytes(view))
        if view.format != "B" or view.ndim != 1:
            view = view.cast("B")
        self._view = view.toreadonly()
        self.size = view.nbytes

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``."""
        return self._view[offset : offset + length]


class FileSource:
    """A source that reads from a regular file at each call and keeps nothing, neither bytes nor a descriptor.

    :param path: of the file
    :param limits: ``member_bytes`` limits how much one call may read
    :raises OSError: from the path, unchanged
    :raises UnsupportedError: when it is not a regular file
    """

    __slots__ = ("_identity", "_limits", "_path", "size")

    def __init__(self, path: Path, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._path = os.path.abspath(os.fspath(path))
        status = os.stat(self._path)
        if not stat.S_ISREG(status.st_mode):
            message = f"{quote(os.fspath(path))} is not a regular file"
            raise UnsupportedError(message)
        self._identity = _identify(status)
        self.size = status.st_size

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``.

        :raises ContainerError: when the file was replaced or changed since it was opened
        :raises LimitError: for more bytes than ``member_bytes`` allows, or than fit into memory
        :raises OSError: when it cannot be read
        """
        length = max(min(length, self.size - offset), 0)
        self._limits.check("member_bytes", length)
        return memoryview(self._read(offset, length, "member_bytes"))

    def load(self) -> BytesSource:
        """Return all bytes of the file, in memory.

        :raises ContainerError: when the file was replaced or changed since it was opened
        :raises LimitError: for more bytes than ``total_bytes`` allows, or than fit into memory
        :raises OSError: when it cannot be read
        """
        self._limits.check("total_bytes", self.size)
        return BytesSource(self._read(0, self.size, "total_bytes"))

    def with_limits(self, limits: Limits) -> FileSource:
        """Return the same file with other limits; it must not have changed since this source was made."""
        other = object.__new__(FileSource)
        other._limits, other._path, other._identity, other.size = limits, self._path, self._identity, self.size
        return other

    def _read(self, offset: int, length: int, limit: str) -> bytes:
        """Read ``length`` bytes.

        :param limit: the name of the limit for memory that does not suffice
        """
        try:
            file = open(self._path, "rb", buffering=0, opener=_open_without_waiting)  # noqa: SIM115
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            self._refuse_changed()
        with file:
            if _identify(os.fstat(file.fileno())) != self._identity:
                self._refuse_changed()
            file.seek(offset)
            try:
                data = _read_up_to(file, length)
            except MemoryError:
                raise LimitError(limit, allowed=getattr(self._limits, limit), actual=length) from None
            if len(data) < length or _identify(os.fstat(file.fileno())) != self._identity:
                self._refuse_changed()
        return data

    def _refuse_changed(self) -> NoReturn:
        message = f"{quote(self._path)} has changed since it was opened"
        raise ContainerError(message)


def _identify(status: os.stat_result) -> tuple[int, ...]:
    """Return what differs once a file is replaced or written to: st_mtime can be set back, st_ctime cannot."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read_up_to(file: IO[bytes], length: int) -> bytes:
    """Read ``length`` bytes, or as many as there are: one read of a raw file may return fewer."""
    data = file.read(length)
    if len(data) == length:
        return data
    chunks = [data]
    left = length - len(data)
    while left and (chunk := file.read(left)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; a named pipe that has taken its place would otherwise block until somebody writes to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class SourceSlice:
    """A range of another source's bytes, as a source.

    :param source: the other one
    :param start: first byte of the range
    :param size: its length in bytes
    """

    __slots__ = ("_source", "_start", "size")

    def __init__(self, source: Source, start: int, size: int) -> None:
        self._source = source
        self._start = start
        self.size = size

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``."""
        return self._source.view(self._start + offset, min(length, self.size - offset))


def slice_source(source: Source, start: int, size: int) -> Source:
    """Return a range of a source's bytes as a source, which is in memory when the source is."""
    return BytesSource(source.view(start, size)) if is_in_memory(source) else SourceSlice(source, start, size)


def is_in_memory(source: Source) -> TypeGuard[BytesSource]:
    """Return whether a source's bytes are in memory, or mapped: views cost nothing, and bytes do not change."""
    return isinstance(source, BytesSource)


def iter_views(source: Source, start: int, stop: int, chunk_bytes: int | None = None) -> Iterator[memoryview]:
    """Yield the bytes from ``start`` to ``stop`` in chunks.

    :param chunk_bytes: largest size of a chunk, ``CHUNK_BYTES`` by default
    """
    step = chunk_bytes or CHUNK_BYTES
    for at in range(start, stop, step):
        yield source.view(at, min(step, stop - at))


def open_source(
    source: SourceLike,
    *,
    mapped: bool = False,
    budget: Budget | None = None,
    progress: Callable[[int], None] | None = None,
) -> BytesSource:
    """Read or map what the caller passed.

    A path that does not exist falls back to ``name.zip`` (SB3 ``open_path``). A seekable file object is read from its
    start, whatever its position, as ``zipfile`` does in SB3's ``load``.

    :param source: path, bytes-like or binary file object
    :param mapped: map a file on disk instead of reading it; it must then not shrink while it is in use
    :param budget: charged for the bytes of pipes and other streams, whose size is not known beforehand
    :param progress: called with a number of bytes whenever that many of a file were read
    :raises OSError: from the path, unchanged
    :raises UnsupportedError: for a path that is neither a file nor a pipe
    """
    if isinstance(source, bytes):
        return BytesSource(source)
    if isinstance(source, (str, os.PathLike)):
        with open_path(source) as file:
            return _open_file(file, quote(os.fspath(source)), mapped, budget, progress)
    try:
        view = memoryview(source)  # type: ignore[arg-type]
    except TypeError:
        view = None
    if view is not None:
        return BytesSource(_copy_if_mutable(view))
    if not hasattr(source, "read"):
        require_type(source, (), "an Archive, a path, bytes or a binary file")
    return BytesSource(_read_stream(cast("IO[bytes]", source), budget))


def open_large(source: SourceLike, *, limits: Limits = DEFAULT_LIMITS) -> FileSource | None:
    """Open a path to a file of more than ``LARGE_FILE_BYTES`` without reading it; return None for everything else.

    :param source: as for :func:`open_source`, with the same fallback to ``name.zip``
    :param limits: as for :class:`FileSource`
    """
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = source
    try:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            path = f"{os.fspath(source)}.zip"
            status = os.stat(path)
    except (OSError, ValueError):  # opening it raises the same, or a clearer error
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size <= LARGE_FILE_BYTES:
        return None
    return FileSource(path, limits=limits)


def open_path(path: Path) -> IO[bytes]:
    """Open a path for reading, or ``path + ".zip"`` when it does not exist (SB3 ``open_path``)."""
    try:
        return open(path, "rb", buffering=0)
    except FileNotFoundError:
        fallback = f"{os.fspath(path)}.zip"
        if not os.path.exists(fallback):
            raise
        return open(fallback, "rb", buffering=0)


def _copy_if_mutable(view: memoryview) -> bytes | memoryview:
    """Return an immutable buffer as it is, and a copy of one that its owner could still change."""
    return view if isinstance(view.obj, bytes) and view.c_contiguous else view.tobytes()


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
        message = f"expected a file, a folder or a pipe, got {name}"
        raise UnsupportedError(message)
    if mapped:
        import mmap

        return BytesSource(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
    if budget is not None:
        budget.limits.check("total_bytes", size)
    data = file.read() if progress is None else _read_pieces(file, size, progress)
    if len(data) < size:
        data += file.read(size - len(data))
    if len(data) != size:
        message = f"{name} changed its size while it was read: expected {size} bytes, got {len(data)}"
        raise ContainerError(message)
    return BytesSource(data)


def _read_pieces(file: IO[bytes], size: int, progress: Callable[[int], None]) -> bytes | bytearray:
    """Read a file to its end in pieces, into memory that is allocated once if it has ``size`` bytes."""
    data = bytearray(size)
    at = 0
    with memoryview(data) as view:
        while at < size:
            count = file.readinto(view[at : at + _PIECE_BYTES])  # type: ignore[attr-defined]
            if not count:
                break
            at += count
            progress(count)
    rest = file.read()
    return data if at == size and not rest else bytes(data[:at]) + rest


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
            message = "the source is non-blocking and has no data yet"
            raise BlockingIOError(11, message)
        if not isinstance(chunk, bytes):
            message = f"expected a binary file object, whose read returns bytes; got {type(chunk).__name__}"
            raise TypeError(message)
        if not size:  # a pipe, or a system file that reports no size
            budget.spend("total_bytes", len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)
