"""``Entries``: the interface to the bytes of an archive's entries, and how they are decoded and encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sbformat.container.reader import Container
    from sbformat.container.records import Entry, Member
    from sbformat.io.source import Source
    from sbformat.limits import LimitName
    from sbformat.pth.values import OnUnknown


class Entries(Protocol):
    """The entries of an archive.

    A :class:`~sbformat.container.reader.Container` (a zip), :class:`~sbformat.archive.folder.FileEntries` (files
    outside a zip), or :class:`~sbformat.archive.edited_entries.EditedEntries` (either, with some entries replaced).
    """

    entries: dict[str, Entry]

    @property
    def file(self) -> Source | None:
        """The bytes of the one file that it is; None for several files, and for edited entries."""

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


class ReadOptions(Record):
    """How entries are decoded; see :func:`sbformat.read`."""

    on_unknown: OnUnknown = "error"
    unchecked_crc: bool = False
    copy: bool = False
    check_crc: bool = True
    """Check the CRC of a ``.pth`` entry as a whole, in addition to those of the records that are read."""


class EncodedEntry(Record):
    """An entry as it is written."""

    member: Member
    is_new: bool
    """It differs from what was read: it was replaced, added or encoded again."""
