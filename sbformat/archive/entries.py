"""Where an archive's entries come from, whatever holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.container.records import Entry
    from sbformat.io.source import Source


class Entries(Protocol):
    """A :class:`~sbformat.container.reader.Container`, loose files, or either with some entries replaced."""

    entries: dict[str, Entry]

    def entry(self, name: str) -> Entry: ...
    def read(self, name: str, *, limit: str | None = None) -> memoryview: ...
    def view(self, name: str) -> memoryview: ...
    def raw(self, name: str) -> memoryview: ...
    def stream(self, name: str) -> Iterator[memoryview | bytes]: ...
    def is_new(self, name: str) -> bool: ...

    def source(self, name: str) -> Source:
        """Return an entry's bytes as a source; nothing checks them."""

    def check(self, name: str, total: Callable[[], int]) -> None:
        """Check the CRC-32 of an entry as a whole, which ``total`` computes, where one was saved and not checked."""

    def crc(self, name: str) -> Callable[[], int] | None:
        """Return what gives the CRC-32 of what :meth:`stream` gave, once it has ended; None: nothing computes it."""
