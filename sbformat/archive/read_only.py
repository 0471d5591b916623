"""``ReadOnlyArchive``: other formats with the interface of an archive; they can be read and not written."""

from __future__ import annotations

from sbformat.archive.archive import Archive
from sbformat.errors import UnsupportedError


class ReadOnlyArchive(Archive):
    """The base class of Stable Baselines 2 files, single pickles and files of arrays (FORMAT.md 16)."""

    __slots__ = ()

    def require_writable(self) -> None:
        """Raise.

        :raises UnsupportedError: always
        """
        message = f"expected an archive of Stable-Baselines3 to edit or write, got a file of the kind {self.format}"
        raise UnsupportedError(message)
