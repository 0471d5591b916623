"""Bounded reads: every read names what it wants, and none comes back short.

For the layouts that are read field by field (zip extras, the legacy torch stream). The pickle machine
keeps its own position, for speed, and the same promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sbformat.errors import FormatError


class Cursor:
    """A position in bytes.

    :param view: the bytes
    :param failure: the error class of the layer that reads
    :param offset: where ``view`` begins, for messages
    """

    __slots__ = ("_failure", "_offset", "position", "view")

    def __init__(self, view: memoryview | bytes, failure: type[FormatError], offset: int = 0) -> None:
        self.view = view
        self.position = 0
        self._failure = failure
        self._offset = offset

    @property
    def left(self) -> int:
        """Bytes not yet taken."""
        return len(self.view) - self.position

    def take(self, size: int, what: str) -> memoryview | bytes:
        """Take the next bytes.

        :param size: how many
        :param what: what they are, for the message
        :raises FormatError: when fewer are left; ``failure`` says which
        """
        start = self.position
        if not 0 <= size <= len(self.view) - start:
            message = f"{what}: needs {size} bytes, {len(self.view) - start} are left"
            raise self._failure(message, offset=self._offset + start)
        self.position = start + size
        return self.view[start : start + size]

    def uint(self, size: int, what: str) -> int:
        """Take a little-endian unsigned integer of ``size`` bytes."""
        return int.from_bytes(self.take(size, what), "little")
