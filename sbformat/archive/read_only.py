"""``ReadOnlyArchive``: other formats with the interface of an archive; they can be read and not written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.archive.algorithm import Algorithm
from sbformat.archive.archive import Archive
from sbformat.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping


class ReadOnlyArchive(Archive):
    """The base class of Stable Baselines 2 files, single pickles and files of arrays (SB2.md 16)."""

    __slots__ = ()

    def require_writable(self) -> None:
        """Raise.

        :raises UnsupportedError: always
        """
        hint = "; rebuild makes an archive of Stable-Baselines3 of it" if self.format.startswith("sb2-") else ""
        message = (
            f"expected an archive of Stable-Baselines3 to edit or write, got a file of the kind {self.format}{hint}"
        )
        raise UnsupportedError(message)


class SingleFileArchive(ReadOnlyArchive):
    """The base class of formats whose parts are not entries of a zip: all of them are in one file."""

    __slots__ = ()

    @property
    def algorithm(self) -> Algorithm:
        """Unknown: such a file does not contain it."""
        return Algorithm(None, certain=False, evidence=())

    @property
    def extra(self) -> Mapping[str, bytes]:
        """Empty: there is one file only."""
        return {}

    def raw(self, name: str) -> memoryview:  # noqa: ARG002 -- every part is in the one file
        """Return the bytes of the file."""
        return super().raw(next(iter(self.entries)))
