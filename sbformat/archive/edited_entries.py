"""``EditedEntries``: the entries of an edited archive, some of them replaced.

The same interface as :class:`~sbformat.container.reader.Container`. Entries that were not replaced are read from the
old archive; a state dict is encoded when its bytes are read, so that no copy of its tensors is kept in memory.
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
"""The new content of an entry: bytes, a state dict, or None to remove it."""


class EditedEntries:
    """Old entries and new ones.

    :param base: the old entries; if they are edited ones themselves, both sets of changes are merged
    :param changes: the new contents by name
    :raises UnsupportedError: for a state dict that a ``.pth`` cannot represent
    :raises ContainerError: for invalid entry names
    """

    __slots__ = ("_base", "_new", "entries")

    entries: dict[str, Entry]
    """The old ones in their order, then the new ones by name, so that the order of edits does not matter."""

    def __init__(self, base: Entries, changes: Mapping[str, Content]) -> None:
        self._base = base
        self._new: dict[str, bytes | TorchZip] = {}
        if isinstance(base, EditedEntries):
            self._base, self._new = base._base, dict(base._new)  # noqa: SLF001 -- its own class
        for name, content in changes.items():
            self._new.pop(name, None)
            if content is not None:
                self._new[name] = _encode_content(name, content)
        kept = {name for name in base.entries if name not in changes} | self._new.keys()
        old = self._base.entries
        self.entries = {
            name: self._make_entry(name) if name in self._new else old[name]
            for name in [*filter(kept.__contains__, old), *sorted(kept - old.keys())]
        }
        check_paths(self.entries)

    def _make_entry(self, name: str) -> Entry:
        new = self._new[name]
        size = new.size if isinstance(new, TorchZip) else len(new)
        return Entry(name, 0, 0, size, size, 0, STORED)

    @property
    def file(self) -> Source | None:
        """None: no file has these entries."""
        return None

    def entry(self, name: str) -> Entry:
        """Return the sizes of an entry; a new one has no CRC yet."""
        try:
            return self.entries[name]
        except KeyError:
            raise MissingEntryError(name, present=self.entries) from None

    def is_new(self, name: str) -> bool:
        """Return whether an entry was replaced or added."""
        return name in self._new

    def read(self, name: str, *, limit: LimitName | None = None) -> memoryview:
        """Return an entry's bytes."""
        self.entry(name)
        if name in self._new:
            return memoryview(b"".join(self._chunks(self._new[name])))
        return self._base.read(name, limit=limit)

    def view(self, name: str) -> memoryview:
        """Return an entry's bytes; their CRC is not checked."""
        return self.read(name) if name in self._new else self._base.view(self.entry(name).name)

    def raw(self, name: str) -> memoryview:
        """Return an entry's bytes as they are stored."""
        return self.read(name) if name in self._new else self._base.raw(self.entry(name).name)

    def stream(self, name: str) -> Iterator[memoryview | bytes]:
        """Yield an entry's bytes in chunks."""
        self.entry(name)
        return self._chunks(self._new[name]) if name in self._new else self._base.stream(name)

    def source(self, name: str) -> Source:
        """Return an entry's bytes as a source; their CRC is not checked."""
        return BytesSource(self.read(name)) if name in self._new else self._base.source(self.entry(name).name)

    def member(self, name: str) -> Member:
        """Return an entry as it can be written into a zip."""
        new = self._new.get(name)
        if new is None:
            return self._base.member(self.entry(name).name)
        if isinstance(new, TorchZip):
            return Member(name, new.size, new.chunks, new.crc)
        return Member(name, len(new), lambda: (new,))

    def verify(self, name: str) -> None:
        """Check the CRC of an old entry; a new one has none."""
        if name not in self._new:
            self._base.verify(self.entry(name).name)

    def check_zip(self, name: str, inner: Container) -> None:
        """Check the CRC of an old entry that is itself a zip; a new one has none."""
        if name not in self._new:
            self._base.check_zip(self.entry(name).name, inner)

    def check_deferred(self, names: Collection[str]) -> None:
        """Check the CRCs of those old entries among ``names`` for which :meth:`check_zip` deferred it."""
        self._base.check_deferred({name for name in names if name in self.entries and name not in self._new})

    def _chunks(self, new: bytes | TorchZip) -> Iterator[memoryview | bytes]:
        return new.chunks() if isinstance(new, TorchZip) else iter((new,))


def _encode_content(name: str, content: bytes | StateDict) -> bytes | TorchZip:
    encode_path(name)
    if not isinstance(content, StateDict):
        return content
    try:
        return encode_pth(content)
    except SbformatError as error:
        raise error.within(name) from None
