"""Read fields one after the other from bytes; a read of more bytes than are left is an error that names the field.

The legacy torch stream and ``.npy`` headers are read this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sbformat.errors import FormatError


class Cursor:
    """A position in bytes.

    :param view: the bytes
    :param failure: the error class of the layer that reads
    :param offset: position of ``view`` in the entry, for messages
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

        :param size: number of bytes
        :param what: name of the field, for the message
        :raises FormatError: of the class ``failure``, when fewer are left
        """
        start = self.position
        if not 0 <= size <= len(self.view) - start:
            message = f"{what}: expected {size} bytes, got {len(self.view) - start}"
            raise self._failure(message, offset=self._offset + start)
        self.position = start + size
        return self.view[start : start + size]

    def uint(self, size: int, what: str) -> int:
        """Take a little-endian unsigned integer of ``size`` bytes."""
        return int.from_bytes(self.take(size, what), "little")
