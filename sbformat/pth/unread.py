"""Storages whose bytes stay in a file until they are asked for, each time anew (FORMAT.md 18.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.pth.values import Storage, swapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.numpy_pickles import ArrayInfo
    from sbformat.pth.values import Chunk


class UnreadStorage(Storage):
    """The items of an array that was too large to hold: read at each use, and never kept.

    :param array: whose buffer was left unread; its items may run in any order
    :param dtype: its dtype as torch names it
    :param key: the storage's name
    """

    __slots__ = ("_array",)

    def __init__(self, array: ArrayInfo, dtype: str, key: str = "") -> None:
        order = "big" if array.dtype.startswith(">") else "little"
        super().__init__(key, dtype, array.numel, "cpu", order, lambda _: array.view(), key)
        self._array = array

    @property
    def swapped(self) -> dict[int, bytes]:
        """Nothing: a copy in another byte order is not kept either."""
        return {}

    @swapped.setter
    def swapped(self, _: object) -> None:
        """Forget it."""

    def bytes(self) -> memoryview:
        """Return its bytes, read anew.

        :raises ContainerError: when the file has changed since it was first looked at
        :raises TensorError: for bools other than 0 and 1
        """
        return self._array.view()

    def chunks(self, swap: int = 1) -> Iterator[Chunk]:
        """Yield its bytes in pieces, each read when it is asked for."""
        for piece in self._array.chunks():
            yield piece if swap == 1 else swapped(memoryview(piece), swap)
