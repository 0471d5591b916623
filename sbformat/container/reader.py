"""Read a strict zip: the archive itself, and the torch zips inside it (FORMAT.md 2).

In: a source. Out: the bytes of members, or a ``ContainerError``. Opening a :class:`Container` checks the structure
(``layout``) and reads no member. A stored member is a view of the source, a deflated one is inflated in chunks under
the budget, and the CRC-32 of either is checked when its bytes are handed out (``checksums``).

A deflated member that is needed whole is inflated into one buffer. A large one is not kept in memory:
:class:`InflatedSource` inflates it once to check it and copies the inflater's state (48 KB) every mebibyte or so; a
view is inflated again from the last checkpoint before it (FORMAT.md 2.5).
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

from sbformat.container.checksums import Checksums, refuse_member
from sbformat.container.layout import STORED, Entry, Member, check_path, check_paths, read_layout
from sbformat.errors import MissingEntryError
from sbformat.immutable import Record
from sbformat.io.source import BytesSource, find_ranged, is_by_range, iter_views, slice_source
from sbformat.limits import DEFAULT_LIMITS, Budget, LimitName, Limits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from zipfile import ZipInfo

    from sbformat.io.source import Source


CHUNK_BYTES: Final = 1 << 18  # largest number of bytes inflated in one step, by default
RATIO_FREE: Final = 1 << 20  # members up to this size may have any compression ratio
_COMPRESSED_BYTES: Final = 1 << 16  # number of compressed bytes passed to the inflater in one step
_LEAST_DISTANCE: Final = 1 << 20
_MOST_CHECKPOINTS: Final = 64
_CHECKPOINT_BYTES: Final = 48 << 10  # memory of one checkpoint: the window of 32 KiB, and zlib's state


class Inflation:
    """The bytes of a deflated member, step by step."""

    __slots__ = ("_consumed", "_entry", "_inflater", "_source", "produced")

    produced: int  # number of bytes inflated so far

    def __init__(self, source: Source, entry: Entry) -> None:
        self._source = source
        self._entry = entry
        self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        self._consumed = 0
        self.produced = 0

    def copy(self) -> Inflation:
        """Return a copy that continues from the same position."""
        made = Inflation(self._source, self._entry)
        made._inflater = self._inflater.copy()
        made._consumed, made.produced = self._consumed, self.produced
        return made

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
        """Yield all that is left, in chunks of at most ``chunk_bytes``."""
        while chunk := self.step(chunk_bytes):
            yield chunk

    def take(self, size: int) -> Iterator[bytes]:
        """Yield the next ``size`` bytes, of which there must be as many, in chunks."""
        stop = self.produced + size
        while self.produced < stop:
            yield self.step(min(CHUNK_BYTES, stop - self.produced))

    def step(self, most: int = CHUNK_BYTES) -> bytes:
        """Return at most ``most`` more bytes; none at the end."""
        entry, inflater = self._entry, self._inflater
        while not inflater.eof:
            left = entry.compressed_size - self._consumed
            given = self._source.view(entry.data_offset + self._consumed, min(left, _COMPRESSED_BYTES))
            try:
                chunk = inflater.decompress(given, most)
            except zlib.error:
                refuse_member(entry, "its deflate stream is damaged: download the file again")
            self._consumed += len(given) - len(inflater.unconsumed_tail) - len(inflater.unused_data)
            self.produced += len(chunk)
            if self.produced > entry.size:
                refuse_member(entry, f"expected {entry.size:,} inflated bytes, got more")
            if chunk:
                return chunk
            if not given and not inflater.eof:
                refuse_member(entry, f"its deflate stream does not end within its {entry.compressed_size:,} bytes")
        if self._consumed != entry.compressed_size:
            expected = f"expected a deflate stream of {entry.compressed_size:,} bytes"
            refuse_member(entry, f"{expected}, got {self._consumed:,}")
        if self.produced != entry.size:
            refuse_member(entry, f"expected {entry.size:,} inflated bytes, got {self.produced:,}")
        return b""


class InflatedSource:
    """The bytes of a deflated member as a source that keeps none of them.

    :param budget: charged for the checkpoints, and for bytes that are inflated again: at most ``ratio`` times the
        compressed size
    """

    __slots__ = ("_again", "_budget", "_checkpoints", "_current", "_distance", "_entry", "_source", "size")

    def __init__(self, source: Source, entry: Entry, budget: Budget) -> None:
        self.size = entry.size
        self._entry = entry
        self._budget = budget
        self._source = source
        self._distance = max(_LEAST_DISTANCE, entry.size // _MOST_CHECKPOINTS)
        self._current = Inflation(source, entry)
        self._checkpoints = [self._current.copy()]
        self._again = 0

    def first_pass(self) -> Iterator[bytes]:
        """Yield all bytes once, and make checkpoints."""
        inflation = Inflation(self._source, self._entry)
        self._budget.keep(_CHECKPOINT_BYTES)
        for chunk in inflation.chunks():
            yield chunk
            if inflation.produced - self._checkpoints[-1].produced >= self._distance:
                self._budget.keep(_CHECKPOINT_BYTES)
                self._checkpoints.append(inflation.copy())

    def view(self, offset: int, length: int) -> memoryview:
        length = max(min(length, self.size - offset), 0)
        self._budget.keep(0, meanwhile=length)
        checkpoint = self._checkpoints[bisect_right(self._checkpoints, offset, key=attrgetter("produced")) - 1]
        # a read that continues the last one starts where that ended, not at the checkpoint
        if not checkpoint.produced <= self._current.produced <= offset:
            self._current = checkpoint.copy()
        inflation = self._current
        self._again += offset + length - inflation.produced
        if self._again > max(RATIO_FREE, self.size):
            self._budget.spend("ratio", -(-self._again // max(self._entry.compressed_size, 1)))
        for _ in inflation.take(offset - inflation.produced):
            pass
        return _join(inflation.take(length), length)


def _join(chunks: Iterable[bytes], size: int) -> memoryview:
    """Return chunks of known total size in one buffer."""
    buffer = bytearray(size)
    at = 0
    for chunk in chunks:
        buffer[at : at + len(chunk)] = chunk
        at += len(chunk)
    return memoryview(buffer).toreadonly()


INFLATED_WHOLE_BYTES: Final = 1 << 20
"""A deflated member up to this size is inflated into memory when it is requested as a source; a larger one is inflated
in pieces, each time they are read."""

_MOST_PREFETCHED: Final = 16
"""Members around whose start an archive that is fetched by ranges is fetched in advance (largest real archive: 8)."""
_CHECKED_WHOLE_BYTES: Final = 1 << 16
"""A member of a zip that is fetched by ranges up to this size is checked whole: one request, if any."""
_PREFETCHED_BEFORE: Final = 1 << 14  # bytes before the start of a member: the directory of the ``.pth`` before it
_PREFETCHED_AFTER: Final = 1 << 15  # bytes after it: its header, and the pickle of a ``.pth``

Names = Literal["path", "record"]
"""The rules for names: ``path`` for members that may be extracted to disk, ``record`` for members that are only looked
up. The records of a torch zip have rules of their own, checked once it is known to be one (FORMAT.md 2.6)."""


class Unchecked(Record):
    """A member of a zip of which something was not checked."""

    name: str
    header: bool  # its local header was not compared with the directory
    crc: bool  # the CRC-32 of its bytes was not computed


class Entries:
    """Entries by name: members of a zip, files outside one (``FileEntries``), or either edited (``EditedEntries``)."""

    __slots__ = ("entries",)

    entries: dict[str, Entry]  # in the order of the file
    left_out: Sequence[str] = ()
    """The files of a folder that cannot be entries, because of their names."""

    if TYPE_CHECKING:

        def read(self, name: str, *, limit: LimitName | None = None) -> memoryview: ...
        def view(self, name: str) -> memoryview: ...
        def raw(self, name: str) -> memoryview: ...
        def stream(self, name: str) -> Iterator[memoryview | bytes]: ...
        def source(self, name: str) -> Source: ...
        def member(self, name: str) -> Member: ...

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def file(self) -> Source | None:
        """The bytes of the one file that it is; None for several files, and for edited entries."""
        return None

    def entry(self, name: str) -> Entry:
        """Return the name, sizes, CRC and position of an entry, as far as it has them."""
        try:
            return self.entries[name]
        except KeyError:
            raise MissingEntryError(name, present=self.entries) from None

    def is_new(self, name: str) -> bool:  # noqa: ARG002 -- an edited one can be
        """Return whether an entry was made here, not read."""
        return False

    def verify(self, name: str) -> None:
        """Check the CRC of an entry, if it has one."""

    def check_zip(self, name: str, inner: Container) -> None:
        """Check the CRC of an entry that is itself a zip, if it has one, or defer that to :meth:`check_deferred`."""

    def check_deferred(self, names: Collection[str]) -> None:
        """Check the CRCs of those entries among ``names`` for which :meth:`check_zip` deferred it."""


class Container(Entries):
    """A zip that keeps every rule of FORMAT.md 2.

    :param limits: for a budget of its own
    :param unchecked_crc: accept CRC fields that are all zero, as torch writes them after
        ``set_crc32_options(False)``; damage of the members is then not detected
    """

    __slots__ = ("_budget", "_charged", "_checksums", "_inflated", "_kept", "_layout", "_source", "_sources")

    def __init__(
        self,
        source: Source | bytes | bytearray | memoryview,
        *,
        limits: Limits = DEFAULT_LIMITS,
        budget: Budget | None = None,
        names: Names = "path",
        unchecked_crc: bool = False,
    ) -> None:
        if isinstance(source, (bytes, bytearray, memoryview)):
            source = BytesSource(source)
        self._source = source
        self._budget = budget or Budget(limits)
        self._charged: set[str] = set()
        self._kept: set[str] = set()
        self._sources: dict[str, InflatedSource] = {}
        self._inflated = (0, 0)
        self._layout = read_layout(source, self._budget, "outer_entries" if names == "path" else "inner_entries")
        self.entries = self._layout.entries
        self._checksums = Checksums(self._layout, unchecked_crc=unchecked_crc)
        if names == "path":
            self.require_paths()

    @property
    def file(self) -> Source:
        return self._source

    @property
    def is_in_memory(self) -> bool:
        """Its bytes are in memory, or mapped; otherwise they are read from a file each time."""
        return self._checksums.is_in_memory

    def require_paths(self) -> None:
        """Check that every name can be a path: the rule for archives, and for members that are extracted."""
        for entry in self.entries.values():
            check_path(entry.name, entry.offset)
        check_paths(self.entries)

    def entry(self, name: str) -> Entry:
        """Return a member; of a zip that is fetched by ranges, its local header is read and checked."""
        if name in self._layout.unread:
            self._layout.read_header(name)
        return super().entry(name)

    def prefetch(self) -> None:
        """Fetch where members meet, if the zip is fetched by ranges: headers, directories and pickles."""
        ranged, start = find_ranged(self._source)
        if ranged is not None:
            places = sorted(start + entry.offset for entry in self.entries.values())[:_MOST_PREFETCHED]
            ranged.prefetch((place - _PREFETCHED_BEFORE, place + _PREFETCHED_AFTER) for place in places)

    def list_unchecked(self) -> list[Unchecked]:
        """Return the members of which something was not checked, because it was not fetched.

        In memory, and of a file on the disk, every local header is checked when the zip is opened.
        """
        if not is_by_range(self._source):
            return []
        rows = ((name, name in self._layout.unread, not self._checksums.is_checked(name)) for name in self.entries)
        return [Unchecked(*row) for row in rows if row[1] or row[2]]

    def check_rest(self) -> None:
        """Check what :meth:`list_unchecked` returns; it is fetched if it was not before."""
        for row in self.list_unchecked():
            self.verify(row.name)

    # -- bytes of members -----------------------------------------------------------------------------

    def read(self, name: str, *, limit: LimitName | None = None) -> memoryview:
        """Return a member's bytes, with its CRC checked.

        A stored member is a view of the source if that is in memory. Members that are inflated, or read from a file,
        are charged.
        """
        entry = self.entry(name) if self._layout.unread else self.entries.get(name) or self.entry(name)
        size = entry.size
        if limit is not None:
            self._budget.spend(limit, size)
        if entry.method != STORED:
            return self._inflate_whole(entry)
        if not self._checksums.is_in_memory:
            self._budget.spend("total_bytes", size)  # each read is a copy, and a file may refer to it many times
        view = self._source.view(entry.data_offset, size)
        self._checksums.check_view(entry, view)
        return view

    def view(self, name: str) -> memoryview:
        """Return a member's bytes without a check of the CRC of a stored one: the caller checks what is inside."""
        entry = self.entry(name)
        if entry.method == STORED:
            return self._source.view(entry.data_offset, entry.size)
        return self.read(name)

    def source(self, name: str) -> Source:
        """Return a member's bytes as a source; the CRC of a stored one is not checked, that of a deflated one is.

        A large deflated member is not kept: it is inflated once to check it, and again where it is read.
        """
        entry = self.entry(name)
        if entry.method == STORED:
            return slice_source(self._source, entry.data_offset, entry.size)
        if entry.size <= INFLATED_WHOLE_BYTES:
            return BytesSource(self._inflate_whole(entry))
        found = self._sources.get(name)
        if found is None:
            self._charge(entry)
            found = InflatedSource(self._source, entry, self._budget)
            for _ in self._checksums.check_chunks(entry, found.first_pass()):
                pass
            self._sources[name] = found
        return found

    def raw(self, name: str) -> memoryview:
        """Return a member's bytes as they are stored, compressed or not; nothing is checked."""
        entry = self.entry(name)
        return self._source.view(entry.data_offset, entry.compressed_size)

    def stream(self, name: str, chunk_bytes: int | None = None) -> Iterator[memoryview | bytes]:
        """Yield a member's bytes in chunks; its CRC is checked after the last one."""
        entry = self.entry(name)
        if chunk_bytes is not None and chunk_bytes < 1:
            raise ValueError(f"chunk_bytes must be at least 1, not {chunk_bytes}")
        if entry.method == STORED:
            return self._stored_chunks(entry, chunk_bytes)
        return self._inflate(entry, chunk_bytes or CHUNK_BYTES)

    def _stored_chunks(self, entry: Entry, chunk_bytes: int | None = None) -> Iterator[memoryview]:
        start = entry.data_offset
        return self._checksums.check_chunks(entry, iter_views(self._source, start, start + entry.size, chunk_bytes))

    def span(self, name: str, start: int, stop: int) -> Iterator[memoryview]:
        """Yield a part of a member's bytes in chunks.

        Of a stored member, all bytes are read the first time, and its CRC is checked at the end. When it is not in
        memory, this happens each time that all of it is requested.
        """
        entry = self.entry(name)
        if entry.method != STORED:
            yield from iter_views(self.source(name), start, stop)
            return
        if self._checksums.is_known(entry) and (self.is_in_memory or stop - start < entry.size):
            self._checksums.check_stored(entry)
            yield from iter_views(self._source, entry.data_offset + start, entry.data_offset + stop)
            return
        at = 0
        for chunk in self._stored_chunks(entry):
            part = chunk[max(start - at, 0) : max(stop - at, 0)]
            at += len(chunk)
            if part:
                yield part

    def member(self, name: str) -> Member:
        entry = self.entry(name)
        return Member(name, entry.size, partial(self.stream, name), lambda: entry.crc)

    # -- CRCs of whole members ------------------------------------------------------------------------

    def check_zip(self, name: str, inner: Container) -> None:
        """Check the CRC of a member that is itself a zip, reading each of its bytes once for both zips.

        When the bytes are not in memory, this is deferred to :meth:`check_deferred`; but a small member of a zip that
        is fetched by ranges is fetched whole, and checked with all of its own members.
        """
        if self.entry(name).size <= _CHECKED_WHOLE_BYTES and is_by_range(self._source):
            self._checksums.check_stored(self.entry(name))
            inner.verify_all()
            return
        self._checksums.check_zip(self.entry(name), inner._checksums)

    def check_deferred(self, names: Collection[str]) -> None:
        self._checksums.check_deferred(names)

    def verify(self, name: str) -> None:
        entry = self.entry(name)
        if entry.method == STORED:
            self._checksums.check_stored(entry)
        else:
            for _ in self.stream(name):
                pass

    def verify_all(self) -> None:
        self.check_deferred(self.entries)
        for name in self.entries:
            self.verify(name)

    # -- deflated members -----------------------------------------------------------------------------

    def is_inflated(self, name: str) -> bool:
        """Return whether a member is inflated in pieces: it is deflated and large, or the whole zip is."""
        entry = self.entries[name]
        if entry.method != STORED:
            return entry.size > INFLATED_WHOLE_BYTES
        return isinstance(self._source, InflatedSource)

    def _inflate(self, entry: Entry, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
        """Inflate under the budget: the stream must end exactly at both sizes (FORMAT.md 2.5)."""
        self._charge(entry)
        return self._checksums.check_chunks(entry, Inflation(self._source, entry).chunks(chunk_bytes))

    def _inflate_whole(self, entry: Entry) -> memoryview:
        """Inflate into one buffer of the size that the directory gives."""
        self._charge(entry)
        if entry.name not in self._kept:  # a caller that reports an error in it may compare or copy its bytes
            self._budget.keep(0, meanwhile=2 * entry.size)
        self.keep(entry.name)
        return _join(self._inflate(entry), entry.size)

    def keep(self, name: str) -> None:
        """Charge the memory of a member that is kept, once."""
        if name not in self._kept:
            self._budget.keep(self.entry(name).size)
            self._kept.add(name)

    def _charge(self, entry: Entry) -> None:
        if entry.name in self._charged:
            return
        stored, inflated = self._inflated
        totals = stored + entry.compressed_size, inflated + entry.size
        for compressed, size in ((entry.compressed_size, entry.size), totals):
            if size > RATIO_FREE:
                self._budget.spend("ratio", -(-size // max(compressed, 1)))
        self._budget.inflate(entry.size)
        self._charged.add(entry.name)
        self._inflated = totals


def list_by_zipfile(file: Any) -> list[ZipInfo] | None:
    """Return the members that Python's zipfile finds, with which SB3 and users of torch read; None if it cannot open.

    :param file: a path, or a file object
    """
    import struct
    import warnings
    import zipfile

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zipfile warns of odd extra fields, on standard error
            opened = zipfile.ZipFile(file)
        with opened:
            return opened.infolist()
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OSError, LookupError, ArithmeticError):
        return None
