"""``Entries``: the interface to the bytes of an archive's entries, and how they are decoded and encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sbformat.container.records import Entry
    from sbformat.io.source import Source
    from sbformat.pth.values import OnUnknown


class Entries(Protocol):
    """The entries of an archive.

    A :class:`~sbformat.container.reader.Container` (a zip), :class:`~sbformat.archive.folder.FileEntries` (files
    outside a zip), or :class:`~sbformat.archive.edited_entries.EditedEntries` (either, with some entries replaced).
    """

    entries: dict[str, Entry]

    def entry(self, name: str) -> Entry: ...
    def read(self, name: str, *, limit: str | None = None) -> memoryview: ...
    def view(self, name: str) -> memoryview: ...
    def raw(self, name: str) -> memoryview: ...
    def stream(self, name: str) -> Iterator[memoryview | bytes]: ...
    def is_new(self, name: str) -> bool: ...

    def source(self, name: str) -> Source:
        """Return an entry's bytes as a source; their CRC is not checked."""

    def check(self, name: str, total: Callable[[], int]) -> None:
        """Check the CRC-32 of an entry if one is stored and not yet checked; ``total`` computes it."""

    def crc(self, name: str) -> Callable[[], int] | None:
        """Return a function that gives the CRC-32 of the bytes of :meth:`stream` after its end; None if unknown."""


class ReadOptions(NamedTuple):
    """How entries are decoded; see :func:`sbformat.read`."""

    on_unknown: OnUnknown = "error"
    unchecked_crc: bool = False
    copy: bool = False
    check_entry_crc: bool = True
    """Check the CRC of a ``.pth`` entry as a whole, in addition to those of the records that are read."""


class EncodedEntry(NamedTuple):
    """An entry as it is written."""

    size: int
    chunks: Callable[[], Iterable[bytes | memoryview]]
    is_new: bool
    """It differs from what was read: it was replaced, added or encoded again."""
    crc: Callable[[], int] | None = None
    """Returns the CRC-32 after the last chunk, if it is computed on the way."""
