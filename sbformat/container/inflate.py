"""Inflate deflated members, in one pass or from checkpoints (FORMAT.md 2.5).

In: the source of the zip, and an entry of its directory. Out: bytes, or a ``ContainerError`` where the stream does not
end at both sizes. The CRC is checked by :mod:`sbformat.container.integrity`, over the chunks.

:class:`Inflation` is the one inflater. A member that is needed whole is inflated into one buffer. A large member is not
kept in memory: :class:`InflatedSource` inflates it once to check it and copies the inflater's state (48 KB) every
mebibyte or so; a view is inflated again from the last checkpoint before it::

    first pass   0 ----- c1 ----- c2 ----- c3 ----- size
    view(x, n)                    c2 --xx->               inflates from c2 to the end of the view
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from sbformat.container.integrity import refuse_member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.container.records import Entry
    from sbformat.io.source import Source
    from sbformat.limits import Budget

CHUNK_BYTES: Final = 1 << 18
"""Largest number of bytes inflated in one step, by default."""
RATIO_FREE: Final = 1 << 20
"""Members up to this size may have any compression ratio."""
_COMPRESSED_BYTES: Final = 1 << 16
"""Number of compressed bytes passed to the inflater in one step."""
_LEAST_DISTANCE: Final = 1 << 20
_MOST_CHECKPOINTS: Final = 64
_CHECKPOINT_BYTES: Final = 48 << 10
"""Memory of one checkpoint: the window of 32 KiB, and zlib's state."""


class Inflation:
    """The bytes of a deflated member, step by step.

    :param source: of the zip
    :param entry: the member
    """

    __slots__ = ("_consumed", "_entry", "_inflater", "_source", "produced")

    produced: int
    """Number of bytes inflated so far."""

    def __init__(self, source: Source, entry: Entry) -> None:
        self._source = source
        self._entry = entry
        self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        self._consumed = 0
        self.produced = 0

    def copy(self) -> Inflation:
        """Return a copy that continues from the same position."""
        made = Inflation(self._source, self._entry)
        made._inflater = self._inflater.copy()
        made._consumed, made.produced = self._consumed, self.produced
        return made

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
        """Yield all that is left, in chunks of at most ``chunk_bytes``."""
        while chunk := self.step(chunk_bytes):
            yield chunk

    def step(self, most: int = CHUNK_BYTES) -> bytes:
        """Return at most ``most`` more bytes; none at the end.

        :raises ContainerError: where it is damaged, or does not end exactly at both sizes (FORMAT.md 2.5)
        """
        entry, inflater = self._entry, self._inflater
        while not inflater.eof:
            left = entry.compressed_size - self._consumed
            given = self._source.view(entry.data_offset + self._consumed, min(left, _COMPRESSED_BYTES))
            try:
                chunk = inflater.decompress(given, most)
            except zlib.error:
                refuse_member(entry, "its deflate stream is damaged: download the file again")
            self._consumed += len(given) - len(inflater.unconsumed_tail) - len(inflater.unused_data)
            self.produced += len(chunk)
            if self.produced > entry.size:
                refuse_member(entry, f"expected {entry.size:,} inflated bytes, got more")
            if chunk:
                return chunk
            if not given and not inflater.eof:
                refuse_member(entry, f"its deflate stream does not end within its {entry.compressed_size:,} bytes")
        if self._consumed != entry.compressed_size:
            refuse_member(
                entry, f"expected a deflate stream of {entry.compressed_size:,} bytes, got {self._consumed:,}"
            )
        if self.produced != entry.size:
            refuse_member(entry, f"expected {entry.size:,} inflated bytes, got {self.produced:,}")
        return b""


class InflatedSource:
    """The bytes of a deflated member as a source that keeps none of them.

    :param source: of the zip
    :param entry: the member
    :param budget: charged for the checkpoints, and for bytes that are inflated again: at most ``ratio`` times the
        compressed size
    """

    __slots__ = ("_again", "_budget", "_checkpoints", "_current", "_distance", "_entry", "_source", "size")

    def __init__(self, source: Source, entry: Entry, budget: Budget) -> None:
        self.size = entry.size
        self._entry = entry
        self._budget = budget
        self._source = source
        self._distance = max(_LEAST_DISTANCE, entry.size // _MOST_CHECKPOINTS)
        self._current = Inflation(source, entry)
        self._checkpoints = [self._current.copy()]
        self._again = 0

    def first_pass(self) -> Iterator[bytes]:
        """Yield all bytes once, and make checkpoints."""
        inflation = Inflation(self._source, self._entry)
        self._budget.keep(_CHECKPOINT_BYTES)
        for chunk in inflation.chunks():
            yield chunk
            if inflation.produced - self._checkpoints[-1].produced >= self._distance:
                self._budget.keep(_CHECKPOINT_BYTES)
                self._checkpoints.append(inflation.copy())

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``, inflated again.

        :raises LimitError: for more than may be kept in memory, or inflated again
        """
        length = max(min(length, self.size - offset), 0)
        self._budget.keep(0, meanwhile=length)
        checkpoint = self._checkpoints[bisect_right(self._checkpoints, offset, key=attrgetter("produced")) - 1]
        if not checkpoint.produced <= self._current.produced <= offset:
            self._current = checkpoint.copy()
        inflation = self._current
        self._charge(offset + length - inflation.produced)
        while inflation.produced < offset:
            inflation.step(min(CHUNK_BYTES, offset - inflation.produced))
        buffer = bytearray(length)
        at = 0
        while at < length:
            chunk = inflation.step(min(CHUNK_BYTES, length - at))
            buffer[at : at + len(chunk)] = chunk
            at += len(chunk)
        return memoryview(buffer).toreadonly()

    def _charge(self, size: int) -> None:
        self._again += size
        if self._again > max(RATIO_FREE, self.size):
            self._budget.spend("ratio", -(-self._again // max(self._entry.compressed_size, 1)))
