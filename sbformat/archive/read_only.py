"""Archives of other formats in the shape of SB3's: read like those, never written."""

from __future__ import annotations

from sbformat.archive.archive import Archive
from sbformat.errors import UnsupportedError


class ForeignArchive(Archive):
    """What Stable Baselines 2 and lone pickles have in common: nothing here writes them (FORMAT.md 16)."""

    __slots__ = ()

    def require_own(self) -> None:
        """Refuse.

        :raises UnsupportedError: always
        """
        message = (
            f"only archives of Stable-Baselines3 are edited and written, and this is a file of the kind {self.format}"
        )
        raise UnsupportedError(message)
