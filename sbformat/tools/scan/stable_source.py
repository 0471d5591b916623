"""A file that is scanned without reading it into memory, and the digest of exactly the bytes that were scanned."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from sbformat.errors import ContainerError
from sbformat.io.source import read_ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.io.source import Source

PIECE_BYTES: Final = 1 << 23
"""Bytes that are read in one piece for the digest."""


class StableSource:
    """A source that remembers a digest of the bytes that it returned, to detect that the file has changed.

    The size and times of a file do not show what is written to it through a memory map.

    :param source: the file
    """

    __slots__ = ("_returned", "_source", "size")

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size = source.size
        self._returned: defaultdict[int, set[tuple[int, int, bytes]]] = defaultdict(set)
        """For each piece, by number: the ranges of it that were returned, and the digest of each."""

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``."""
        view = self._source.view(offset, length)
        stop = offset + len(view)
        for number in range(offset // PIECE_BYTES, -(-stop // PIECE_BYTES)):
            start = number * PIECE_BYTES
            first, last = max(offset, start), min(stop, start + PIECE_BYTES)
            digest = hashlib.sha256(view[first - offset : last - offset]).digest()
            self._returned[number].add((first - start, last - start, digest))
        return view

    def sha256(self, progress: Callable[[int], None] | None = None) -> str:
        """Read all of the file once more, and return its SHA-256 in hexadecimal.

        :param progress: called with the number of bytes of each piece
        :raises ContainerError: when the file no longer contains the bytes that were returned
        """
        whole = hashlib.sha256()
        for number, piece in enumerate(read_ahead(self._pieces())):
            whole.update(piece)
            if progress is not None:
                progress(len(piece))
            for first, last, digest in self._returned.get(number, ()):
                if hashlib.sha256(piece[first:last]).digest() != digest:
                    message = "the file changed while it was scanned"
                    raise ContainerError(message, offset=number * PIECE_BYTES + first)
        return whole.hexdigest()

    def _pieces(self) -> Iterator[memoryview]:
        for start in range(0, self.size, PIECE_BYTES):
            yield self._source.view(start, min(PIECE_BYTES, self.size - start))
