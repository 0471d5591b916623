"""Storages whose bytes stay in a file until requested, and are read again each time (REPLAY-BUFFERS.md 18.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.container.layout import STORED
from sbformat.errors import TensorError
from sbformat.io.source import iter_views, slice_source
from sbformat.pth.values import Storage, storage_itemsize, swapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.container.reader import Container
    from sbformat.io.source import Source
    from sbformat.pkl.numpy import ArrayInfo
    from sbformat.pth.values import Chunk


class _Unkept(Storage):
    """A storage that keeps no bytes of the file in memory."""

    __slots__ = ()

    @property
    def swapped(self) -> dict[int, bytes]:
        """Nothing: a copy in another byte order is not kept either."""
        return {}

    @swapped.setter
    def swapped(self, _: object) -> None:
        """Forget it."""

    def bytes(self) -> memoryview:
        """Return its bytes, read anew."""
        return self._load(self._where)


class _ZipStorage(Storage):
    """A record of a zip.

    :param records: the zip
    :param name: the record
    """

    __slots__ = ("_is_checked", "_records")

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


class RecordStorage(_Unkept, _ZipStorage):
    """A record of a torch zip that is not in memory: the zip is over a file, and the record is stored, not deflated."""

    __slots__ = ()

    def chunks(self, swap: int = 1) -> Iterator[Chunk]:
        """Yield its bytes in chunks, each read on access; the CRC is checked after the last one."""
        return self.span(0, self.nbytes, swap)

    def span(self, start: int, stop: int, swap: int = 1) -> Iterator[Chunk]:
        """Yield a run of its bytes; the first time all of it is read, for the CRC."""
        for piece in self._records.span(self._where, start, stop):
            yield piece if swap == 1 else swapped(piece, swap)


class InflatedStorage(_ZipStorage):
    """A record that is inflated in chunks where that is enough, and kept once all of it is requested.

    The record is deflated, or the zip is.
    """

    __slots__ = ()

    def bytes(self) -> memoryview:
        """Return its bytes, which are charged as kept."""
        if self._bytes is None:
            where, records = self._where, self._records
            is_deflated = records.entries[where].method != STORED
            self._bytes = records.source(where).view(0, self.nbytes) if is_deflated else super().bytes()
            records.keep(where)
        return self._bytes

    def span(self, start: int, stop: int, swap: int = 1) -> Iterator[Chunk]:
        """Yield a run of its bytes in pieces."""
        if self._bytes is not None:
            yield from super().span(start, stop, swap)
            return
        for piece in self._records.span(self._where, start, stop):
            yield piece if swap == 1 else swapped(piece, swap)

    def chunks(self, swap: int = 1) -> Iterator[Chunk]:
        """Yield its bytes in pieces."""
        return super().chunks(swap) if self._bytes is not None else self.span(0, self.nbytes, swap)


class FileStorage(_Unkept):
    """A run of a source's bytes, little-endian, which no CRC covers.

    :param source: of the whole file
    :param start: the offset of the first byte
    :param dtype: of its items as torch names it, or ``""`` for bytes
    :param numel: of those
    :param is_bool: no byte may be other than 0 and 1
    """

    __slots__ = ("_is_bool", "_part")

    def __init__(self, source: Source, start: int, dtype: str, numel: int, *, is_bool: bool) -> None:
        part = slice_source(source, start, numel * storage_itemsize(dtype))

        def load(_: str) -> memoryview:  # a method would refer to this storage, and so keep the file
            return _checked(part.view(0, part.size), is_bool=is_bool)

        super().__init__("", dtype, numel, "cpu", "little", load, "")
        self._part = part
        self._is_bool = is_bool

    def source(self) -> Source:
        """Return its bytes as a source."""
        return self._part

    def chunks(self, swap: int = 1) -> Iterator[Chunk]:
        """Yield its bytes in pieces, each read on access."""
        return self.span(0, self.nbytes, swap)

    def span(self, start: int, stop: int, swap: int = 1) -> Iterator[Chunk]:
        """Yield a run of its bytes in pieces, each read on access."""
        for view in iter_views(self._part, start, stop):
            piece = _checked(view, is_bool=self._is_bool)
            yield piece if swap == 1 else swapped(piece, swap)


def _checked(piece: memoryview, *, is_bool: bool) -> memoryview:
    """Return bytes of a storage."""
    if is_bool and bytes(piece).translate(None, b"\0\1"):
        message = "expected only bytes 0 and 1 in a bool storage, got others"
        raise TensorError(message)
    return piece


class UnreadStorage(_Unkept):
    """The items of an array that is too large for memory: read at each use, and never kept.

    :param array: whose buffer was left unread; its items may run in any order
    :param dtype: its dtype as torch names it
    :param key: the storage's name
    """

    __slots__ = ("_array",)

    def __init__(self, array: ArrayInfo, dtype: str, key: str = "") -> None:
        order = "big" if array.dtype.startswith(">") else "little"
        super().__init__(key, dtype, array.numel, "cpu", order, lambda _: array.view(), key)
        self._array = array

    def chunks(self, swap: int = 1) -> Iterator[Chunk]:
        """Yield its bytes in pieces, each read on access."""
        for piece in self._array.chunks():
            yield piece if swap == 1 else swapped(memoryview(piece), swap)
