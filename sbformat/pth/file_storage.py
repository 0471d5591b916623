"""Storages whose bytes stay in a file until requested, and are read again each time (REPLAY-BUFFERS.md 18.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.container.layout import STORED
from sbformat.io.source import iter_views, slice_source
from sbformat.pth.values import STORAGE_ITEMSIZES, Storage, check_bools, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.container.reader import Container
    from sbformat.io.source import Source
    from sbformat.pkl.numpy import ArrayInfo
    from sbformat.pth.values import Chunk

_BOOLS: Final = "a bool storage"


class RecordStorage(Storage):
    """A record of a torch zip that is not in memory: the zip is over a file, and the record is stored, not deflated."""

    __slots__ = ("_is_checked", "_records")
    is_kept = False

    def __init__(
        self, key: str, dtype: str, numel: int, location: str, byte_order: str, records: Container, name: str
    ) -> None:
        super().__init__(key, dtype, numel, location, byte_order, records.read, name)
        self._records = records
        self._is_checked = False

    def check(self) -> None:
        """Check its CRC once, without keeping it."""
        if not self._is_checked:
            for _ in self.chunks():
                pass
            self._is_checked = True

    def _pieces(self, start: int, stop: int) -> Iterator[Chunk]:
        """Yield a run of its bytes; the first time all of it is read, for the CRC."""
        return self._records.span(self._where, start, stop) if self._bytes is None else super()._pieces(start, stop)


class InflatedStorage(RecordStorage):
    """A record that is inflated in chunks where that is enough, and kept once all of it is requested.

    The record is deflated, or the zip is.
    """

    __slots__ = ()
    is_kept = True

    def bytes(self) -> memoryview:
        """Return its bytes, which are charged as kept."""
        if self._bytes is None:
            where, records = self._where, self._records
            is_deflated = records.entries[where].method != STORED
            self._bytes = records.source(where).view(0, self.nbytes) if is_deflated else super().bytes()
            records.keep(where)
        return self._bytes


class FileStorage(Storage):
    """A run of a source's bytes, little-endian, which no CRC covers.

    :param start: the offset of the first byte in the source
    :param dtype: as in :class:`Storage`; a storage of bools may have no bytes other than 0 and 1
    """

    __slots__ = ("_part",)
    is_kept = False

    def __init__(self, source: Source, start: int, dtype: str, numel: int) -> None:
        part = slice_source(source, start, numel * STORAGE_ITEMSIZES[dtype])

        def load(_: str) -> memoryview:  # a method would refer to this storage, and so keep the file
            whole = part.view(0, part.size)
            if dtype == "bool":
                check_bools(whole, _BOOLS)
            return whole

        super().__init__("", dtype, numel, "cpu", "little", load, "")
        self._part = part

    def source(self) -> Source:
        """Return its bytes as a source."""
        return self._part

    def _pieces(self, start: int, stop: int) -> Iterator[Chunk]:
        for piece in iter_views(self._part, start, stop):
            yield check_bools(piece, _BOOLS) if self.dtype == "bool" else piece


class UnreadStorage(Storage):
    """The items of an array that is too large for memory: read at each use, and never kept.

    :param array: whose buffer was left unread; its items may run in any order
    """

    __slots__ = ("_array",)
    is_kept = False

    def __init__(self, array: ArrayInfo, dtype: str, key: str = "") -> None:
        order = "big" if array.dtype.startswith(">") else "little"
        super().__init__(key, dtype, array.numel, "cpu", order, lambda _: array.view(), key)
        self._array = array

    def _pieces(self, start: int, stop: int) -> Iterator[Chunk]:
        return cut(self._array.chunks(), start, stop)
