"""The interface of an archive's entries, wherever they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sbformat.container.reader import Container
    from sbformat.container.records import Entry, Member
    from sbformat.io.source import Source
    from sbformat.limits import LimitName


class Entries(Protocol):
    """A :class:`~sbformat.container.reader.Container`, separate files, or either with some entries replaced."""

    entries: dict[str, Entry]

    def entry(self, name: str) -> Entry: ...
    def read(self, name: str, *, limit: LimitName | None = None) -> memoryview: ...
    def view(self, name: str) -> memoryview: ...
    def raw(self, name: str) -> memoryview: ...
    def stream(self, name: str) -> Iterator[memoryview | bytes]: ...
    def is_new(self, name: str) -> bool: ...

    def source(self, name: str) -> Source:
        """Return an entry's bytes as a source; its CRC, if it has one, need not be checked."""

    def member(self, name: str) -> Member:
        """Return an entry as it can be written into a zip."""

    def verify(self, name: str) -> None:
        """Check the CRC of an entry, if it has one."""

    def check_zip(self, name: str, inner: Container) -> None:
        """Check the CRC of an entry that is itself a zip, if it has one, or defer that to :meth:`check_deferred`."""

    def check_deferred(self, names: Collection[str]) -> None:
        """Check the CRCs of those entries among ``names`` for which :meth:`check_zip` deferred it."""
