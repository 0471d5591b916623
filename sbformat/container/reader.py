"""The strict zip: the archive itself and, through the same code, the torch zips inside it.

The structure is checked when a container is opened: one end record, a central directory that ends
where it must, local headers that tile the file and say what the directory says (FORMAT.md 2.1 to 2.5).
No member is touched until it is asked for; stored members are views, deflated ones are inflated in
chunks under the budget; a member's CRC is checked when its bytes are handed out.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, Literal

from sbformat.container.inflate import CHUNK_BYTES, RATIO_FREE, InflatedSource, Inflation, refuse_member
from sbformat.container.layout import read_layout
from sbformat.container.names import check_path, check_paths
from sbformat.container.records import STORED, Entry
from sbformat.errors import MissingEntryError
from sbformat.io.crc32 import COMBINED_BYTES, combined
from sbformat.io.source import BLOCK_BYTES, BytesSource, is_held, part_of
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.io.source import Source

STORED_CHUNK_BYTES: Final = 1 << 20
"""Of what is stored: where it is read from a file and written to another, small pieces cost more calls."""
HELD_INFLATED: Final = 1 << 20
"""A deflated member up to here is inflated whole when it is asked for as a source; of a larger one nothing is held."""

Names = Literal["path", "record"]
"""What names must be fit for: ``path`` for what may be extracted to disk, ``record`` for what is only looked up; the
records of a torch zip keep rules of their own, once it is known to be one (FORMAT.md 2.6)."""


class Container:
    """A zip that keeps every rule of FORMAT.md 2.

    :param source: the bytes, or a :class:`~sbformat.io.source.Source`
    :param limits: what it may ask for
    :param budget: the operation it belongs to, when it is a part of one
    :param names: the name rules to apply
    :param entry_limit: the field of ``Limits`` that caps the number of entries
    :param unchecked_crc: accept CRC fields that are all zero, as torch writes them after
        ``set_crc32_options(False)``; nothing is then known of those members' integrity
    :raises ContainerError: when the structure breaks a rule
    :raises LimitError: for more entries or bytes than allowed
    """

    __slots__ = (
        "_budget", "_charged", "_inflated", "_kept", "_source", "_sources", "_sums", "entries", "is_held",
        "unchecked_crc",
    )  # fmt: skip

    entries: dict[str, Entry]
    """The members by name, in the order of the directory."""
    is_held: bool
    """Its bytes are in memory, or mapped; otherwise they are read from a file each time."""

    def __init__(
        self,
        source: Source | bytes | bytearray | memoryview,
        *,
        limits: Limits = DEFAULT_LIMITS,
        budget: Budget | None = None,
        names: Names = "path",
        entry_limit: Literal["outer_entries", "inner_entries"] = "outer_entries",
        unchecked_crc: bool = False,
    ) -> None:
        if isinstance(source, (bytes, bytearray, memoryview)):
            source = BytesSource(source)
        self._source = source
        self._budget = budget or Budget(limits)
        self.is_held = is_held(source)
        self._sums: dict[str, int] = {}
        self._charged: set[str] = set()
        self._kept: set[str] = set()
        self._sources: dict[str, InflatedSource] = {}
        self._inflated = (0, 0)
        self.unchecked_crc = unchecked_crc
        self.entries = read_layout(source, self._budget, entry_limit)
        if names == "path":
            self.require_paths()
        if unchecked_crc and any(entry.crc for entry in self.entries.values()):
            self.unchecked_crc = False

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def require_paths(self) -> None:
        """Check that every name is fit to be a path: the rule for archives and for what is extracted.

        :raises ContainerError: when one is not, or two would meet on some file system (FORMAT.md 2.6)
        """
        for entry in self.entries.values():
            check_path(entry.name, entry.offset)
        check_paths(self.entries)

    def entry(self, name: str) -> Entry:
        """Return what is known of a member.

        :raises MissingEntryError: when there is none of that name
        """
        try:
            return self.entries[name]
        except KeyError:
            raise MissingEntryError(name, present=self.entries) from None

    def read(self, name: str, *, limit: str | None = None) -> memoryview:
        """Return a member's bytes, whole, with its CRC checked.

        A stored member is a view of the source, if that is held; a deflated one is inflated, and charged, as is what
        is read from a file.

        :param name: the member
        :param limit: a field of ``Limits`` that caps this member
        :raises ContainerError: when it does not inflate to its size or its CRC is wrong
        :raises LimitError: when it is larger than allowed
        """
        entry = self.entries.get(name) or self.entry(name)
        _, _, at, _, size, crc, method = entry
        if limit is not None:
            self._budget.spend(limit, size)
        if method != STORED:
            return self._inflated_whole(entry)
        if not self.is_held:
            self._budget.spend("total_bytes", size)  # it is a copy; and no file makes us read it over and over
        view = self._source.view(at, size)
        actual = self._sums.get(name) if self.is_held else None
        if actual is None:
            is_summed = size >= BLOCK_BYTES and self.is_held
            actual = self._sums[name] = self._sum_of(at, at + size) if is_summed else zlib.crc32(view)
        if actual != crc:
            self._refuse_crc(entry, actual)
        return view

    def view(self, name: str) -> memoryview:
        """Return a member's bytes without reading them all: the CRC of a stored member is not checked.

        For a caller that checks what lies inside, as ``safe_open`` does record by record.

        :raises ContainerError: when a deflated member does not inflate
        """
        entry = self.entry(name)
        if entry.method == STORED:
            return self._source.view(entry.data_offset, entry.size)
        return self.read(name)

    def source(self, name: str) -> Source:
        """Return a member's bytes as a source; the CRC of a stored one is not checked, that of a deflated one is.

        Of a large deflated member nothing is held: it is inflated once to check it, and again where it is looked at.

        :raises ContainerError: when a deflated member does not inflate
        """
        entry = self.entry(name)
        if entry.method == STORED:
            return part_of(self._source, entry.data_offset, entry.size)
        if entry.size <= HELD_INFLATED:
            return BytesSource(self._inflated_whole(entry))
        found = self._sources.get(name)
        if found is None:
            found = self._sources[name] = self._inflated_source(entry)
        return found

    def is_inflated(self, name: str) -> bool:
        """Say whether a member is inflated in pieces: a large one that is deflated, any one of a zip that is."""
        entry = self.entries[name]
        return entry.size > HELD_INFLATED if entry.method != STORED else isinstance(self._source, InflatedSource)

    def is_new(self, name: str) -> bool:  # noqa: ARG002 -- an overlay's entries can be
        """Say whether an entry was made here, not read."""
        return False

    def raw(self, name: str) -> memoryview:
        """Return a member's bytes as they are stored, compressed or not; nothing is checked."""
        entry = self.entry(name)
        return self._source.view(entry.data_offset, entry.compressed_size)

    def stream(self, name: str, chunk_bytes: int | None = None) -> Iterator[memoryview | bytes]:
        """Yield a member's bytes in chunks; its CRC is checked after the last one.

        :param name: the member
        :param chunk_bytes: the most bytes in one chunk; None for what suits the member
        :raises ContainerError: at the end when the CRC is wrong, or where it stops inflating
        """
        entry = self.entry(name)
        if chunk_bytes is not None and chunk_bytes < 1:
            message = f"chunk_bytes must be at least 1, not {chunk_bytes}"
            raise ValueError(message)
        if entry.method == STORED:
            return self._stored_chunks(entry, chunk_bytes or STORED_CHUNK_BYTES)
        return self._inflate(entry, chunk_bytes or CHUNK_BYTES)

    def _stored_chunks(self, entry: Entry, chunk_bytes: int = STORED_CHUNK_BYTES) -> Iterator[memoryview]:
        known = self._sums.get(entry.name) if self.is_held else None
        crc = 0
        for chunk in self._views(entry.data_offset, entry.data_offset + entry.size, chunk_bytes):
            if known is None:
                crc = zlib.crc32(chunk, crc)
            yield chunk
        self._check_sum(entry, crc if known is None else known)

    def _views(self, start: int, stop: int, chunk_bytes: int = STORED_CHUNK_BYTES) -> Iterator[memoryview]:
        for at in range(start, stop, chunk_bytes):
            yield self._source.view(at, min(chunk_bytes, stop - at))

    def _views_ahead(self, start: int, stop: int) -> Iterator[memoryview]:
        """Those of :meth:`_views`, of a file: each is read while the one before it is summed up."""
        if stop - start < 2 * STORED_CHUNK_BYTES:
            return self._views(start, stop)
        from sbformat.io.readahead import ahead

        return ahead(self._views(start, stop))

    def _check_sum(self, entry: Entry, actual: int) -> None:
        self._sums[entry.name] = actual
        if actual != entry.crc:
            self._refuse_crc(entry, actual)

    def span(self, name: str, start: int, stop: int) -> Iterator[memoryview]:
        """Yield a part of a member's bytes in chunks.

        Of a stored one the whole member is read, and its CRC checked behind it, unless that was done before; of one
        that is not held, it is done again for all of it.

        :raises ContainerError: at the end when the CRC is wrong
        """
        entry = self.entry(name)
        if entry.method != STORED:
            source = self.source(name)
            for at in range(start, stop, STORED_CHUNK_BYTES):
                yield source.view(at, min(STORED_CHUNK_BYTES, stop - at))
            return
        if name in self._sums and (self.is_held or stop - start < entry.size):
            self._check_sum(entry, self._sums[name])
            yield from self._views(entry.data_offset + start, entry.data_offset + stop)
            return
        at = 0
        for chunk in self._stored_chunks(entry):
            part = chunk[max(start - at, 0) : max(stop - at, 0)]
            at += len(chunk)
            if part:
                yield part

    # -- sums of what lies in one another (FORMAT.md 2.5) ---------------------------------------------

    def crc_of_all(self) -> int:
        """Return the CRC-32 of the whole zip, from its bytes, reading none of them twice.

        Those of large stored members are remembered, so that they need no second sweep when they are handed out. They
        are not checked here; and what was read before, is not read again.
        """
        total = at = 0
        for entry in sorted(self.entries.values(), key=_offset_of):
            if entry.method == STORED and entry.size >= COMBINED_BYTES:
                total = self._sum_of(at, entry.data_offset, total)
                at = entry.data_offset + entry.size
                if entry.name not in self._sums:
                    self._sums[entry.name] = self._sum_of(entry.data_offset, at)
                total = combined(total, self._sums[entry.name], entry.size)
        return self._sum_of(at, self._source.size, total)

    def _sum_of(self, start: int, stop: int, crc: int = 0) -> int:
        if is_held(self._source):
            return self._source.crc(start, stop, crc)
        for chunk in self._views_ahead(start, stop):
            crc = zlib.crc32(chunk, crc)
        return crc

    def check(self, name: str, total: Callable[[], int]) -> None:
        """Check the CRC of a member as a whole, unless that was done.

        :param total: gives it, from the bytes: :meth:`crc_of_all`, where the member is a zip itself
        :raises ContainerError: when it is wrong
        """
        entry = self.entry(name)
        self._check_sum(entry, self._sums[name] if name in self._sums else total())

    def crc(self, name: str) -> Callable[[], int]:
        """Return what gives the CRC-32 of what :meth:`stream` gave, which has checked it."""
        said = self.entry(name).crc
        return lambda: said

    # -- deflated members -----------------------------------------------------------------------------

    def _inflate(self, entry: Entry, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
        """Inflate under the budget: the stream must end exactly at both sizes (FORMAT.md 2.5)."""
        self._charge(entry)
        inflation = Inflation(self._source, entry)
        crc = 0
        while chunk := inflation.step(chunk_bytes):
            crc = zlib.crc32(chunk, crc)
            yield chunk
        self._check_sum(entry, crc)

    def _inflated_whole(self, entry: Entry) -> memoryview:
        """Inflate into one buffer of the size that the directory claims."""
        self._charge(entry)
        if entry.name not in self._kept:  # whoever is refused what is in it may compare or copy its bytes
            self._budget.keep(0, meanwhile=2 * entry.size)
        self.keep(entry.name)
        held = bytearray(entry.size)
        at = 0
        for chunk in self._inflate(entry):
            held[at : at + len(chunk)] = chunk
            at += len(chunk)
        return memoryview(held).toreadonly()

    def keep(self, name: str) -> None:
        """Charge the memory of a member that is kept, unless that was done.

        :raises LimitError: for more than ``memory_bytes`` allows
        """
        if name not in self._kept:
            self._budget.keep(self.entry(name).size)
            self._kept.add(name)

    def _inflated_source(self, entry: Entry) -> InflatedSource:
        self._charge(entry)
        source = InflatedSource(self._source, entry, self._budget)
        crc = 0
        for chunk in source.first_pass():
            crc = zlib.crc32(chunk, crc)
        self._check_sum(entry, crc)
        return source

    def _charge(self, entry: Entry) -> None:
        if entry.name in self._charged:
            return
        stored, inflated = self._inflated
        totals = stored + entry.compressed_size, inflated + entry.size
        for cost, size in ((entry.compressed_size, entry.size), totals):
            if size > RATIO_FREE:
                self._budget.spend("ratio", -(-size // max(cost, 1)))
        self._budget.inflate(entry.size)
        self._charged.add(entry.name)
        self._inflated = totals

    def _refuse_crc(self, entry: Entry, actual: int) -> None:
        """Say that a CRC is wrong, unless none was saved and that was accepted."""
        if self.unchecked_crc:
            return
        message = f"its CRC-32 is {actual:08x} but the zip says {entry.crc:08x}: the bytes are damaged"
        if entry.crc == 0 and entry.size and all(other.crc == 0 for other in self.entries.values()):
            message = (
                "no CRC-32 was saved in this zip (torch does so after set_crc32_options(False)), so damage "
                "could not be seen; unchecked_crc=True reads it all the same"
            )
        refuse_member(entry, message)


def _offset_of(entry: Entry) -> int:
    return entry.offset
