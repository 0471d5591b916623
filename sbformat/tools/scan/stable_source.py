"""A file that is judged where it lies, and its digest: of the very bytes that were judged."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from sbformat.errors import ContainerError
from sbformat.io.readahead import read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.io.source import Source

PIECE_BYTES: Final = 1 << 23
"""What is read at once for the digest."""


class WatchedSource:
    """A source that remembers what it gave, so that the digest can be refused for a file that has given other bytes.

    Size and times of a file tell nothing of what is written to it through memory that maps it.

    :param source: the file
    """

    __slots__ = ("_given", "_source", "size")

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size = source.size
        self._given: defaultdict[int, set[tuple[int, int, bytes]]] = defaultdict(set)
        """By the number of a piece: runs of it that were given, and the digest of each."""

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``."""
        view = self._source.view(offset, length)
        stop = offset + len(view)
        for number in range(offset // PIECE_BYTES, -(-stop // PIECE_BYTES)):
            start = number * PIECE_BYTES
            first, last = max(offset, start), min(stop, start + PIECE_BYTES)
            digest = hashlib.sha256(view[first - offset : last - offset]).digest()
            self._given[number].add((first - start, last - start, digest))
        return view

    def sha256(self) -> str:
        """Read all of it once more, and return its SHA-256 in hexadecimal.

        :raises ContainerError: when something that was given is not what stands there
        """
        whole = hashlib.sha256()
        for number, piece in enumerate(read_ahead(self._pieces())):
            whole.update(piece)
            for first, last, digest in self._given.get(number, ()):
                if hashlib.sha256(piece[first:last]).digest() != digest:
                    message = "the file has changed while it was judged"
                    raise ContainerError(message, offset=number * PIECE_BYTES + first)
        return whole.hexdigest()

    def _pieces(self) -> Iterator[memoryview]:
        for start in range(0, self.size, PIECE_BYTES):
            yield self._source.view(start, min(PIECE_BYTES, self.size - start))
