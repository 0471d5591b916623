"""Entries with some of them replaced: what an edited archive is made of.

The same interface as :class:`~sbformat.container.reader.Container`. What was not replaced is the old entries' own; a
state dict is encoded when its bytes are requested, so that no copy of its tensors is kept in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sbformat.container.names import check_paths, encode_path
from sbformat.container.records import STORED, Entry, Member
from sbformat.container.writer import TorchZip
from sbformat.errors import MissingEntryError, SbformatError
from sbformat.io.source import BytesSource
from sbformat.pth import StateDict, encode_pth

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sbformat.archive.entries import Entries
    from sbformat.container.reader import Container
    from sbformat.io.source import Source
    from sbformat.limits import LimitName

Content: TypeAlias = "bytes | StateDict | None"
"""What an entry becomes: bytes, a state dict, or None for nothing."""


class Overlay:
    """Old entries, and what stands in place of some.

    :param base: the old ones; when they are an overlay, its changes are taken over, so that none lies upon another
    :param changes: by name
    :raises UnsupportedError: for a state dict that no ``.pth`` can hold
    :raises ContainerError: for names that no entry can have
    """

    __slots__ = ("_base", "_made", "entries")

    entries: dict[str, Entry]
    """The old ones in their order, then the new by name: edits in another order give the same."""

    def __init__(self, base: Entries, changes: Mapping[str, Content]) -> None:
        self._base = base
        self._made: dict[str, bytes | TorchZip] = {}
        if isinstance(base, Overlay):
            self._base, self._made = base._base, dict(base._made)  # noqa: SLF001 -- its own class
        for name, content in changes.items():
            self._made.pop(name, None)
            if content is not None:
                self._made[name] = _encoded(name, content)
        kept = {name for name in base.entries if name not in changes} | self._made.keys()
        old = self._base.entries
        self.entries = {
            name: self._entry_of(name) if name in self._made else old[name]
            for name in [*filter(kept.__contains__, old), *sorted(kept - old.keys())]
        }
        check_paths(self.entries)

    def _entry_of(self, name: str) -> Entry:
        made = self._made[name]
        size = made.size if isinstance(made, TorchZip) else len(made)
        return Entry(name, 0, 0, size, size, 0, STORED)

    def entry(self, name: str) -> Entry:
        """Return what is known of an entry; a new one has no CRC yet."""
        try:
            return self.entries[name]
        except KeyError:
            raise MissingEntryError(name, present=self.entries) from None

    def is_new(self, name: str) -> bool:
        """Say whether an entry was replaced or added here."""
        return name in self._made

    def read(self, name: str, *, limit: LimitName | None = None) -> memoryview:
        """Return an entry's bytes."""
        self.entry(name)
        if name in self._made:
            return memoryview(b"".join(self._chunks(self._made[name])))
        return self._base.read(name, limit=limit)

    def view(self, name: str) -> memoryview:
        """Return an entry's bytes; nothing checks them."""
        return self.read(name) if name in self._made else self._base.view(self.entry(name).name)

    def raw(self, name: str) -> memoryview:
        """Return an entry's bytes as they are stored."""
        return self.read(name) if name in self._made else self._base.raw(self.entry(name).name)

    def stream(self, name: str) -> Iterator[memoryview | bytes]:
        """Yield an entry's bytes in chunks."""
        self.entry(name)
        return self._chunks(self._made[name]) if name in self._made else self._base.stream(name)

    def source(self, name: str) -> Source:
        """Return an entry's bytes as a source; nothing checks them."""
        return BytesSource(self.read(name)) if name in self._made else self._base.source(self.entry(name).name)

    def member(self, name: str) -> Member:
        """Return an entry as it can be written into a zip."""
        made = self._made.get(name)
        if made is None:
            return self._base.member(self.entry(name).name)
        if isinstance(made, TorchZip):
            return Member(name, made.size, made.chunks, made.crc)
        return Member(name, len(made), lambda: (made,))

    def verify(self, name: str) -> None:
        """Check the CRC of an entry that was read; a new one has none."""
        if name not in self._made:
            self._base.verify(self.entry(name).name)

    def check_zip(self, name: str, inner: Container) -> None:
        """Check the CRC of an entry that was read and is itself a zip; a new one has none."""
        if name not in self._made:
            self._base.check_zip(self.entry(name).name, inner)

    def check_deferred(self, names: Collection[str]) -> None:
        """Check the CRCs of those old entries among ``names`` for which :meth:`check_zip` deferred it."""
        self._base.check_deferred({name for name in names if name in self.entries and name not in self._made})

    def _chunks(self, made: bytes | TorchZip) -> Iterator[memoryview | bytes]:
        return made.chunks() if isinstance(made, TorchZip) else iter((made,))


def _encoded(name: str, content: bytes | StateDict) -> bytes | TorchZip:
    encode_path(name)
    if not isinstance(content, StateDict):
        return content
    try:
        return encode_pth(content)
    except SbformatError as error:
        raise error.within(name) from None
