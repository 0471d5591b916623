"""``RemoteSource``: the bytes of a remote file, of which only the ranges that are asked for are fetched.

In: a :class:`RangedFile`, which fetches ranges and refuses a file that is no longer the one that was opened. Out:
``size`` and ``view``, as every source has them.

* Small reads fetch whole blocks of 16 KiB, and missing blocks that are neighbours are one request. What a zip is read
  for (end record, directory, local headers, small entries) is close together, so that a block often has the next part.
* Blocks are kept up to 16 MiB, the ones that were used last.
* A read of 1 MiB or more is fetched as it is, and not kept. If it follows the one before it, more than it asks for is
  fetched, up to 8 MiB: a file that is read from start to end takes few requests and little memory.
* :meth:`RemoteSource.prefetch` fetches several places together, before they are read one by one: ``inspect`` of an
  archive of 200 MB with six entries takes 1 request for the directory, and 4 that are sent together for the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import TYPE_CHECKING, Final, Protocol

from sbformat.errors import ContainerError, escape, quote
from sbformat.io.source import BytesSource
from sbformat.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

BLOCK_BYTES: Final = 1 << 14  # size of the blocks in which small reads are fetched and kept
OPENING_BYTES: Final = 4 * BLOCK_BYTES  # bytes that opening a file fetches from its start
WHOLE_BYTES: Final = 1 << 20  # bytes that opening a file fetches if all of it will be read: most archives are smaller
_KEPT_BYTES: Final = 1 << 24  # bytes of blocks that are kept
_LARGE_READ: Final = 1 << 20  # a read of so many bytes is not kept in blocks
_AHEAD_BYTES: Final = 1 << 23  # most bytes that are fetched for a read that follows the one before it
_PIECE_BYTES: Final = 1 << 23  # size of the pieces in which a whole file is fetched

Range = tuple[int, int]  # first byte, and the one after the last


class RangedFile(Protocol):
    """A remote file at the version that it had when it was opened."""

    @property
    def name(self) -> str: ...  # its URL without secrets
    @property
    def size(self) -> int: ...
    @property
    def version(self) -> str | None: ...  # ETag, commit or time; None if the server gives none
    @property
    def whole(self) -> bytes | bytearray | None: ...  # all bytes, of a server that sends nothing less

    def fetch(self, ranges: Sequence[Range]) -> Sequence[bytes | bytearray]:
        """Return the bytes of ranges, each of exactly the length that was asked for."""


class RemoteSource:
    """A source over a remote file.

    :param start: its first bytes, if opening it fetched any
    :param limits: ``member_bytes`` limits how much one call may read, ``total_bytes`` the whole file
    """

    __slots__ = ("_ahead", "_blocks", "_end", "_file", "_limits", "_lock", "fetched", "size")

    def __init__(self, file: RangedFile, start: bytes = b"", *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._file = file
        self._limits = limits
        self._blocks: OrderedDict[int, bytes | bytearray] = OrderedDict()
        self._ahead: tuple[int, bytes | bytearray] = (0, b"")
        self._end = -1  # where the last large read ended
        self._lock = RLock()
        self.size = file.size
        self.fetched = len(start)  # bytes that were fetched
        self._keep(0, start)

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def version(self) -> str | None:
        """The ETag, commit or time of the file's contents; None if it is not known."""
        return None if self._file.version is None else escape(self._file.version)

    def is_by_range(self) -> bool:
        """Return whether ranges can be fetched; otherwise the server sends the whole file, which is in memory."""
        return self._file.whole is None

    def is_fetched(self) -> bool:
        """Return whether all of the file is in memory."""
        return self._file.whole is not None or len(self._blocks) * BLOCK_BYTES >= self.size

    def view(self, offset: int, length: int) -> memoryview:
        length = max(min(length, self.size - offset), 0)
        self._limits.check("member_bytes", length)
        if not length:
            return memoryview(b"")
        if self._file.whole is not None:
            return memoryview(self._file.whole)[offset : offset + length].toreadonly()
        with self._lock:
            found = self._read_large(offset, length) if length >= _LARGE_READ else self._read(offset, length)
        return memoryview(found).toreadonly()

    def prefetch(self, ranges: Iterable[Range]) -> None:
        """Fetch the blocks of ranges that are read next, as far as they fit into what is kept."""
        if self._file.whole is not None:
            return
        with self._lock:
            numbers = {number for start, stop in ranges for number in self._find_blocks(start, stop)}
            self._fetch_blocks(sorted(numbers)[: _KEPT_BYTES // BLOCK_BYTES // 2])
            self._drop_blocks()

    def load(self, progress: Callable[[int], None] | None = None) -> BytesSource:
        self._limits.check("total_bytes", self.size)
        if self._file.whole is not None:
            if progress is not None:
                progress(self.size)
            return BytesSource(self._file.whole)
        data = bytearray()  # it grows with what was sent, not with what a server says
        with self._lock:
            for number in range(-(-self.size // BLOCK_BYTES)):
                if number not in self._blocks:
                    break
                data += self._blocks[number]
            if progress is not None and data:
                progress(len(data))
            while len(data) < self.size:
                [piece] = self._fetch([(len(data), min(len(data) + _PIECE_BYTES, self.size))])
                data += piece
                if progress is not None:
                    progress(len(piece))
        return BytesSource(data)

    def with_limits(self, limits: Limits) -> RemoteSource:
        return RemoteSource(self._file, limits=limits)

    # -- blocks ---------------------------------------------------------------------------------------

    def _read(self, offset: int, length: int) -> bytes | bytearray:
        """Return a few bytes, from blocks."""
        numbers = self._find_blocks(offset, offset + length)
        self._fetch_blocks(numbers)
        parts = []
        for number in numbers:
            self._blocks.move_to_end(number)
            parts.append(self._blocks[number])
        self._drop_blocks()
        at = offset - numbers[0] * BLOCK_BYTES
        return (parts[0] if len(parts) == 1 else b"".join(parts))[at : at + length]

    def _find_blocks(self, start: int, stop: int) -> range:
        start, stop = max(start, 0), min(stop, self.size)
        return range(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)) if stop > start else range(0)

    def _fetch_blocks(self, numbers: Iterable[int]) -> None:
        """Fetch those blocks that are missing; neighbours are one range."""
        ranges: list[Range] = []
        for number in numbers:
            if number in self._blocks:
                continue
            start, stop = number * BLOCK_BYTES, min((number + 1) * BLOCK_BYTES, self.size)
            if ranges and ranges[-1][1] == start:
                start, _ = ranges.pop()
            ranges.append((start, stop))
        if ranges:
            for (start, _), data in zip(ranges, self._fetch(ranges)):
                self._keep(start, data)

    def _keep(self, start: int, data: bytes | bytearray) -> None:
        """Keep the whole blocks of what was fetched from the start of a block on."""
        for at in range(0, len(data), BLOCK_BYTES):
            block = data[at : at + BLOCK_BYTES]
            if len(block) == BLOCK_BYTES or start + at + len(block) == self.size:
                self._blocks[(start + at) // BLOCK_BYTES] = block

    def _drop_blocks(self) -> None:
        while len(self._blocks) * BLOCK_BYTES > _KEPT_BYTES:
            self._blocks.popitem(last=False)

    # -- large reads ----------------------------------------------------------------------------------

    def _read_large(self, offset: int, length: int) -> memoryview:
        """Return many bytes; of a file that is read in order, those that follow are fetched as well."""
        start, data = self._ahead
        if not start <= offset <= offset + length <= start + len(data):
            count = length
            if offset == self._end and length < _AHEAD_BYTES:
                count = min(max(2 * len(data), 2 * length), _AHEAD_BYTES, self.size - offset)
            [data] = self._fetch([(offset, offset + count)])
            start = offset
            self._ahead = (start, data) if count <= _AHEAD_BYTES else (0, b"")
        self._end = offset + length
        return memoryview(data)[offset - start : offset - start + length]

    def _fetch(self, ranges: list[Range]) -> Sequence[bytes | bytearray]:
        found = self._file.fetch(ranges)
        for (start, stop), data in zip(ranges, found):
            self.fetched += len(data)
            if len(data) != stop - start:  # a file system that did not notice it
                found_bytes = f"expected {stop - start} bytes, got {len(data)}"
                raise ContainerError(f"{quote(self.name)} was cut off or has changed: {found_bytes}", offset=start)
        return found
