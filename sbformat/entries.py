"""Where an archive's entries come from, whatever holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.zip_records import Entry


class Entries(Protocol):
    """A :class:`~sbformat.container.Container`, loose files, or either with some entries replaced."""

    entries: dict[str, Entry]

    def entry(self, name: str) -> Entry: ...
    def read(self, name: str, *, limit: str | None = None) -> memoryview: ...
    def view(self, name: str) -> memoryview: ...
    def raw(self, name: str) -> memoryview: ...
    def stream(self, name: str) -> Iterator[memoryview | bytes]: ...
    def is_new(self, name: str) -> bool: ...
