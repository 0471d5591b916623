"""Deflated members, inflated step by step: in one pass, or from marks along the way.

There is one inflater, :class:`Inflation`; whoever wants a member whole fills one buffer of its size from it. A large
member is not held at all: :class:`InflatedSource` inflates it once to check it, remembers the inflater's state every
mebibyte or so (48 KB each), and inflates from the last such mark whatever range is asked for afterwards. What comes in
is the source of the zip and an entry of its directory; what goes out is bytes, or a ``ContainerError`` where the stream
does not end at both sizes. The CRC is checked by the container, behind the first pass.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NoReturn

from sbformat.errors import ContainerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.container.records import Entry
    from sbformat.io.source import Source
    from sbformat.limits import Budget

CHUNK_BYTES: Final = 1 << 18
"""The most that is inflated in one step, unless it is asked for in smaller ones."""
RATIO_FREE: Final = 1 << 20
"""Up to here no ratio is asked for."""
_COMPRESSED_BYTES: Final = 1 << 16
"""What is given to the inflater at a time."""
_LEAST_APART: Final = 1 << 20
_MOST_MARKS: Final = 64
_MARK_BYTES: Final = 48 << 10
"""What a mark takes: the window of 32 KiB, and zlib's state."""


class Inflation:
    """The bytes of a deflated member, in steps.

    :param source: of the zip
    :param entry: the member
    """

    __slots__ = ("_consumed", "_entry", "_inflater", "_source", "produced")

    produced: int
    """Bytes that it has given."""

    def __init__(self, source: Source, entry: Entry) -> None:
        self._source = source
        self._entry = entry
        self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        self._consumed = 0
        self.produced = 0

    def copy(self) -> Inflation:
        """Return one that goes on from the same place."""
        made = Inflation(self._source, self._entry)
        made._inflater = self._inflater.copy()
        made._consumed, made.produced = self._consumed, self.produced
        return made

    def step(self, most: int = CHUNK_BYTES) -> bytes:
        """Return the next bytes, at most so many; none at the end.

        :raises ContainerError: where it is damaged, or does not end exactly at both sizes (FORMAT.md 2.5)
        """
        entry, inflater = self._entry, self._inflater
        while not inflater.eof:
            left = entry.compressed_size - self._consumed
            given = self._source.view(entry.data_offset + self._consumed, min(left, _COMPRESSED_BYTES))
            try:
                chunk = inflater.decompress(given, most)
            except zlib.error:
                refuse_member(entry, "its deflate stream is damaged")
            self._consumed += len(given) - len(inflater.unconsumed_tail) - len(inflater.unused_data)
            self.produced += len(chunk)
            if self.produced > entry.size:
                refuse_member(entry, f"it inflates to more than the {entry.size:,} bytes it claims")
            if chunk:
                return chunk
            if not given and not inflater.eof:
                refuse_member(entry, "its deflate stream does not end where its bytes end")
        if self._consumed != entry.compressed_size:
            refuse_member(entry, "its deflate stream ends before its bytes do")
        if self.produced != entry.size:
            refuse_member(entry, f"it inflates to {self.produced:,} bytes but claims {entry.size:,}")
        return b""


class InflatedSource:
    """The bytes of a deflated member as a source that holds none of them.

    :param source: of the zip
    :param entry: the member
    :param budget: charged for the marks, and asked for what is inflated again: at most ``ratio`` times what
        is compressed
    """

    __slots__ = ("_again", "_apart", "_budget", "_entry", "_marks", "_now", "_source", "size")

    def __init__(self, source: Source, entry: Entry, budget: Budget) -> None:
        self.size = entry.size
        self._entry = entry
        self._budget = budget
        self._source = source
        self._apart = max(_LEAST_APART, entry.size // _MOST_MARKS)
        self._now = Inflation(source, entry)
        self._marks = [self._now.copy()]
        self._again = 0

    def first_pass(self) -> Iterator[bytes]:
        """Yield all of it once, and remember marks on the way."""
        inflation = Inflation(self._source, self._entry)
        self._budget.keep(_MARK_BYTES)
        while chunk := inflation.step():
            yield chunk
            if inflation.produced - self._marks[-1].produced >= self._apart:
                self._budget.keep(_MARK_BYTES)
                self._marks.append(inflation.copy())

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``, inflated anew.

        :raises LimitError: for more than may be kept in memory, or than may be inflated again
        """
        length = max(min(length, self.size - offset), 0)
        self._budget.keep(0, meanwhile=length)
        mark = self._marks[bisect_right(self._marks, offset, key=attrgetter("produced")) - 1]
        if not mark.produced <= self._now.produced <= offset:
            self._now = mark.copy()
        inflation = self._now
        self._charge(offset + length - inflation.produced)
        while inflation.produced < offset:
            inflation.step(min(CHUNK_BYTES, offset - inflation.produced))
        found = bytearray(length)
        at = 0
        while at < length:
            chunk = inflation.step(min(CHUNK_BYTES, length - at))
            found[at : at + len(chunk)] = chunk
            at += len(chunk)
        return memoryview(found).toreadonly()

    def _charge(self, size: int) -> None:
        self._again += size
        if self._again > max(RATIO_FREE, self.size):
            self._budget.spend("ratio", -(-self._again // max(self._entry.compressed_size, 1)))


def refuse_member(entry: Entry, message: str) -> NoReturn:
    """Say what is wrong with a member.

    :raises ContainerError: always
    """
    raise ContainerError(message, entry=entry.name)
