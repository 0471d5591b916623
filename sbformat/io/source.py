"""Where the bytes are: ``size`` and ``view(offset, length)``, over bytes or a mapped file.

A source hands out memoryviews and copies nothing. Anything with the same two members can stand in its
place (a ranged remote file, say). The layers above never see a path or a file object.
"""

from __future__ import annotations

import os
import stat
import zlib
from typing import IO, TYPE_CHECKING, Final, NoReturn, Protocol, TypeAlias, cast

from sbformat.errors import ContainerError, LimitError, UnsupportedError, quote
from sbformat.io.crc32 import combined
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from mmap import mmap
    from typing import TypeGuard

Path: TypeAlias = "str | os.PathLike[str]"
SourceLike: TypeAlias = "Path | bytes | bytearray | memoryview | IO[bytes]"
"""What every public reader takes, as SB3's own ``load`` does: a path, bytes, or a binary file object."""

HELD_BYTES: Final = 32 << 20
"""Of a file that is read at once where its bytes could stay on the disk; of a larger one they do."""
BLOCK_BYTES: Final = 1 << 19
"""What of a large file is summed up by itself."""
_PIECE_BYTES: Final = 1 << 22
"""What of it is read at once: some blocks."""
_CHUNK = 1 << 20


class Source(Protocol):
    """Bytes at known offsets."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``; the caller has checked both against ``size``."""


class BytesSource:
    """A source over bytes that are held in memory or mapped.

    :param buffer: it is viewed, not copied, unless it is not contiguous
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

    def crc(self, start: int, stop: int, before: int = 0) -> int:
        """Return the CRC-32 of a run of bytes, which continues that of others before them."""
        return zlib.crc32(self._view[start:stop], before)

    def part(self, start: int, size: int) -> BytesSource:
        """Return a run of the bytes as a source."""
        return BytesSource(self.view(start, size))


class SummedSource(BytesSource):
    """A source over bytes whose blocks were summed up as they came, so that no CRC has to sweep them again.

    :param buffer: as for :class:`BytesSource`
    :param sums: the CRC-32 of each run of ``BLOCK_BYTES`` of a file, from its start
    :param start: where in that file the buffer begins
    """

    __slots__ = ("_start", "_sums")

    def __init__(self, buffer: memoryview, sums: list[int], start: int = 0) -> None:
        super().__init__(buffer)
        self._sums = sums
        self._start = start

    def crc(self, start: int, stop: int, before: int = 0) -> int:
        """Return the CRC-32 of a run of bytes, which continues that of others before them."""
        first, last = -(-(self._start + start) // BLOCK_BYTES), (self._start + stop) // BLOCK_BYTES
        if first >= last:
            return super().crc(start, stop, before)
        total = super().crc(start, first * BLOCK_BYTES - self._start, before)
        for known in self._sums[first:last]:
            total = combined(total, known, BLOCK_BYTES)
        return super().crc(last * BLOCK_BYTES - self._start, stop, total)

    def part(self, start: int, size: int) -> BytesSource:
        """Return a run of the bytes as a source."""
        return SummedSource(self.view(start, size), self._sums, self._start + start)


class FileSource:
    """A source that reads from a file what is asked for, and keeps nothing: for files larger than memory.

    :param path: a regular file; use it as a context manager
    """

    __slots__ = ("_file", "size")

    def __init__(self, path: Path) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 -- __exit__ closes it
        self.size = os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> FileSource:  # noqa: PYI034 -- Self is not in Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``.

        :raises OSError: when they cannot be read
        """
        self._file.seek(offset)
        found = _taken(self._file, length)
        if len(found) < length:
            message = "the file ends before it should"
            raise OSError(5, message)
        return memoryview(found)


class PathSource:
    """A source that opens its file anew for each read and keeps none open: for files that are read long after.

    :param path: a regular file
    :param limits: how much may be read at once
    :raises OSError: from the path, unchanged
    :raises UnsupportedError: for what is no regular file
    """

    __slots__ = ("_limits", "_path", "_stamp", "size")

    def __init__(self, path: Path, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._path = os.path.abspath(os.fspath(path))
        status = os.stat(self._path)
        if not stat.S_ISREG(status.st_mode):
            message = f"{quote(os.fspath(path))} is no file"
            raise UnsupportedError(message)
        self._stamp = _stamp(status)
        self.size = status.st_size

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``.

        :raises ContainerError: when the file is another one by now, or has changed
        :raises LimitError: for more bytes than ``member_bytes`` allows, or than this machine has memory for
        :raises OSError: when it cannot be read
        """
        length = max(min(length, self.size - offset), 0)
        Budget(self._limits).spend("member_bytes", length)
        try:
            file = open(self._path, "rb", buffering=0, opener=_open_at_once)  # noqa: SIM115
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            self._changed()
        with file:
            if _stamp(os.fstat(file.fileno())) != self._stamp:
                self._changed()
            file.seek(offset)
            try:
                made = _taken(file, length)
            except MemoryError:
                limit = "member_bytes"
                raise LimitError(limit, allowed=self._limits.member_bytes, actual=length) from None
            if len(made) < length or _stamp(os.fstat(file.fileno())) != self._stamp:
                self._changed()
        return memoryview(made)

    def _changed(self) -> NoReturn:
        message = f"{quote(self._path)} has changed since it was first looked at"
        raise ContainerError(message)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """What tells that a file is still the one that it was; times of contents can be set back, those of changes not."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _taken(file: IO[bytes], length: int) -> bytes:
    """Read so many bytes, or what there is: a raw file may give fewer at a time."""
    found = file.read(length)
    if len(found) == length:
        return found
    chunks = [found]
    left = length - len(found)
    while left and (chunk := file.read(left)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: a pipe in the place of the file would have no writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def part_of(source: Source, start: int, size: int) -> Source:
    """Return a run of another source's bytes as a source, which is held when that is."""
    return source.part(start, size) if is_held(source) else Part(source, start, size)


def is_held(source: Source) -> TypeGuard[BytesSource]:
    """Say whether a source's bytes are in memory, or mapped: what was seen of them once stays so."""
    return isinstance(source, BytesSource)


class Part:
    """A run of another source's bytes, as a source.

    :param source: the other one
    :param start: where it begins in that
    :param size: its bytes
    """

    __slots__ = ("_source", "_start", "size")

    def __init__(self, source: Source, start: int, size: int) -> None:
        self._source = source
        self._start = start
        self.size = size

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``."""
        return self._source.view(self._start + offset, min(length, self.size - offset))


def open_source(source: SourceLike, *, mapped: bool = False, budget: Budget | None = None) -> BytesSource:
    """Open what the caller gave.

    A bare name that does not exist falls back to ``name.zip`` (SB3 ``open_path``). A seekable file
    object is read from its start wherever it stands, as ``zipfile`` does in SB3's ``load``.

    :param source: path, bytes-like or binary file object
    :param mapped: map a file on disk instead of reading it; it must then not shrink while in use
    :param budget: charged for what cannot be measured first (pipes and other streams)
    :raises OSError: from the path, unchanged
    :raises UnsupportedError: for a path that is neither a file nor a pipe
    """
    if isinstance(source, bytes):
        return BytesSource(source)
    if isinstance(source, (str, os.PathLike)):
        with open_path(source) as file:
            return _open_file(file, quote(os.fspath(source)), mapped, budget)
    try:
        view = memoryview(source)  # type: ignore[arg-type]
    except TypeError:
        view = None
    if view is not None:
        return BytesSource(_held(view))
    if not hasattr(source, "read"):
        message = f"expected an Archive, a path, bytes or a binary file, got {_name_type(source)}"
        raise TypeError(message)
    return BytesSource(_read_stream(cast("IO[bytes]", source), budget))


def _name_type(value: object) -> str:
    return "None" if value is None else type(value).__name__


def open_large(source: SourceLike, *, limits: Limits = DEFAULT_LIMITS) -> PathSource | None:
    """Open a path whose file is larger than ``HELD_BYTES``, so that its bytes stay there; None for all else.

    :param source: as for :func:`open_source`, the same fallback to ``name.zip`` included
    :param limits: how much may be read at once
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
    except (OSError, ValueError):  # whoever opens it tells
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size <= HELD_BYTES:
        return None
    return PathSource(path, limits=limits)


def open_path(path: Path) -> IO[bytes]:
    """Open a path for reading, or ``path + ".zip"`` when it does not exist (SB3 ``open_path``)."""
    try:
        return open(path, "rb", buffering=0)
    except FileNotFoundError:
        fallback = f"{os.fspath(path)}.zip"
        if not os.path.exists(fallback):
            raise
        return open(fallback, "rb", buffering=0)


def _held(view: memoryview) -> bytes | memoryview:
    """Keep an immutable buffer as it is, copy one that its owner could still change."""
    return view if isinstance(view.obj, bytes) and view.c_contiguous else view.tobytes()


def _open_file(file: IO[bytes], name: str, mapped: bool, budget: Budget | None) -> BytesSource:  # noqa: FBT001
    status = os.fstat(file.fileno())
    size = status.st_size
    is_regular = stat.S_ISREG(status.st_mode)
    if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or (is_regular and not size):
        return BytesSource(_read_stream(file, budget))
    if not is_regular:
        message = f"{name} is neither a file, a folder nor a pipe"
        raise UnsupportedError(message)
    if mapped:
        import mmap

        return BytesSource(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
    if budget is not None:
        Budget(budget.limits).spend("total_bytes", size)  # what is read is held
    found, opened = (_read_and_sum(file, size) if size > HELD_BYTES else None) or _read_whole(file, size)
    if found != size:
        message = f"{name} changed its size while it was read: {size} bytes, then {found}"
        raise ContainerError(message)
    return opened


def _read_whole(file: IO[bytes], size: int) -> tuple[int, BytesSource]:
    data = file.read()
    if len(data) < size:
        data += file.read(size - len(data))
    return len(data), BytesSource(data)


def _read_and_sum(file: IO[bytes], size: int) -> tuple[int, BytesSource] | None:
    """Read a large file into memory that nobody can write to, and sum up each block while the next ones are read.

    A sweep behind it would take half as long again: 0.38 s for 512 MiB instead of 0.24. The system copies the bytes
    into a file of ours that has no name and lies in memory, and that is mapped.

    :return: how many bytes there were, one more than ``size`` when there are more than that; and those. None where the
        system has no such files, or no room for one
    """
    import mmap
    from contextlib import closing

    from sbformat.io.readahead import ahead

    try:
        handle = os.memfd_create("sbformat")
    except (AttributeError, OSError):
        return None
    sums: list[int] = []
    found = 0
    try:
        os.ftruncate(handle, size)
        memory = memoryview(mmap.mmap(handle, size, access=mmap.ACCESS_READ))
        with closing(ahead(_copied(file.fileno(), handle, size))) as stops:
            for stop in stops:
                sums += [zlib.crc32(memory[at : min(at + BLOCK_BYTES, stop)]) for at in range(found, stop, BLOCK_BYTES)]
                found = stop
        if found == size:
            found += len(os.pread(file.fileno(), 1, size))
    except OSError:  # whoever reads it the usual way tells
        return None
    finally:
        os.close(handle)
    return found, SummedSource(memory, sums)


def _copied(source: int, target: int, size: int) -> Iterator[int]:
    """Copy a file into an empty one, and yield after each piece how much was copied."""
    at = 0
    while at < size:
        stop = min(at + _PIECE_BYTES, size)
        while at < stop and (count := os.sendfile(target, source, at, stop - at)):
            at += count
        yield at
        if at < stop:
            return


def _read_stream(file: IO[bytes], budget: Budget | None) -> bytes:
    """Read a stream whose size is not known, charged as it comes."""
    size = 0
    if hasattr(file, "seekable") and file.seekable():
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
    budget = budget or Budget()
    chunks = []
    while (chunk := file.read(_CHUNK)) or chunk is None:
        if chunk is None:
            message = "the source has no data yet: it does not block"
            raise BlockingIOError(11, message)
        if not isinstance(chunk, bytes):
            message = f"a binary file object must return bytes, this one returned {type(chunk).__name__}"
            raise TypeError(message)
        if not size:  # a pipe, or a file of the system that tells no size
            budget.spend("total_bytes", len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)
