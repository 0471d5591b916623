"""Write zips, in the two shapes that an archive has: the mirror of ``layout`` (WRITER.md 12.1, 12.2).

:class:`ContainerWriter` writes the outer zip as SB3 does, member after member into a file. :class:`TorchZip` is torch's
inner zip as a stream of chunks; its size is known before the first chunk, so that it can be a member without being in
memory. Both have fixed dates.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import IO, TYPE_CHECKING, Final

from sbformat.constants import (
    CENTRAL_SIGNATURE,
    DESCRIPTOR_SIGNATURE,
    END_SIGNATURE,
    LOCAL_SIGNATURE,
    ZIP64_END_SIGNATURE,
    ZIP64_LOCATOR_SIGNATURE,
)
from sbformat.container import layout
from sbformat.container.checksums import crc32_pair, refuse_member
from sbformat.container.layout import MAX16, MAX32, STORED, Member, check_paths, encode_name, encode_path
from sbformat.errors import ContainerError
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DATE: Final = 0x21  # 1980-01-01, the earliest date of a zip
_UNIX: Final = 3 << 8
_VERSION: Final = 20
_VERSION_ZIP64: Final = 45
_MODE: Final = 0o600 << 16  # as Python's zipfile writes it, and so SB3
_FOLDER_MODE: Final = (layout.MODE_FOLDER | 0o755) << 16 | layout.DOS_FOLDER
_ALIGNMENT: Final = 64
_ZIP64_REST: Final = layout.ZIP64_END.size - 12


class _Record(Record):
    """The fields of a directory record that differ between members."""

    name: bytes
    offset: int
    size: int
    crc: int
    flags: int


def _is_wide(size: int) -> bool:
    return size >= MAX32


def _zip64_extra(*values: int) -> bytes:
    return layout.EXTRA.pack(layout.EXTRA_ZIP64, 8 * len(values)) + Struct(f"<{len(values)}Q").pack(*values)


def _pack_central(record: _Record, made_by: int, version: int, date: int, attributes: int) -> bytes:
    """Pack a record of the directory; a number that does not fit 32 bits goes into a zip64 extra (FORMAT.md 2.3)."""
    name, offset, size, crc, flags = record
    wide = ([size, size] if _is_wide(size) else []) + ([offset] if _is_wide(offset) else [])
    extra = _zip64_extra(*wide) if wide else b""
    size = min(size, MAX32)
    version = max(version, _VERSION_ZIP64) if wide else version
    head = layout.CENTRAL.pack(
        CENTRAL_SIGNATURE, made_by, version, flags, STORED, 0, date, crc, size, size, len(name), len(extra), 0, 0, 0,
        attributes, min(offset, MAX32),
    )  # fmt: skip
    return head + name + extra


def _pack_end(count: int, length: int, start: int, *, always_zip64: bool) -> bytes:
    """Pack the end records; with both zip64 ones when a number needs them, or always, as torch does (FORMAT.md 2.2)."""
    zip64 = b""
    if always_zip64 or count >= MAX16 or _is_wide(max(length, start)):
        zip64 = layout.ZIP64_END.pack(
            ZIP64_END_SIGNATURE, _ZIP64_REST, _UNIX | _VERSION_ZIP64, _VERSION_ZIP64, 0, 0, count, count, length, start
        )
        zip64 += layout.ZIP64_LOCATOR.pack(ZIP64_LOCATOR_SIGNATURE, 0, start + length, 1)
    entries = min(count, MAX16)
    return zip64 + layout.END.pack(END_SIGNATURE, 0, 0, entries, entries, min(length, MAX32), min(start, MAX32), 0)


# -- the outer zip (WRITER.md 12.1) -------------------------------------------------------------------


class ContainerWriter:
    """Writes the archive's own zip: stored members with complete local headers, zip64 only when a size needs it.

    :param file: empty and seekable: a header is completed once its member's CRC is known
    """

    __slots__ = ("_at", "_file", "_names", "_records")

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._at = 0
        self._names: dict[str, None] = {}  # in order; to look one up takes as long for the last as for the first
        self._records: list[_Record] = []

    def add(self, member: Member) -> None:
        name = encode_path(member.name)
        if member.name in self._names:
            refuse_member(member, "there are two members of this name")
        if member.size and name.endswith(b"/"):
            refuse_member(member, "a folder cannot have content")
        flags = 0 if name.isascii() else layout.FLAG_UTF8
        start = self._at
        self._put(_outer_header(name, flags, member.size, 0))
        crc = written = 0
        for chunk in member.chunks():
            if member.crc is None:
                crc = zlib.crc32(chunk, crc)
            written += len(chunk)
            self._put(chunk)
        _check_size(member, written)
        crc = crc if member.crc is None else member.crc()
        if crc:
            self._file.seek(start)
            write_all(self._file, _outer_header(name, flags, member.size, crc))
            self._file.seek(self._at)
        self._names[member.name] = None
        self._records.append(_Record(name, start, member.size, crc, flags))

    def finish(self) -> None:
        if not self._records:
            raise ContainerError("an archive needs at least one entry")
        check_paths(self._names)
        start = self._at
        for record in self._records:
            attributes = _FOLDER_MODE if record.name.endswith(b"/") else _MODE
            self._put(_pack_central(record, _UNIX | _VERSION, _VERSION, _DATE, attributes))
        self._put(_pack_end(len(self._records), self._at - start, start, always_zip64=False))

    def _put(self, chunk: bytes | memoryview) -> None:
        write_all(self._file, chunk)
        self._at += len(chunk)


def write_all(file: IO[bytes], chunk: bytes | memoryview) -> None:
    """Write a whole chunk: one write to a raw file may take less."""
    left = memoryview(chunk)
    while left:
        left = left[file.write(left) :]


def _check_size(member: Member, written: int) -> None:
    if written != member.size:
        refuse_member(member, f"expected {member.size:,} bytes, got {written:,}: it changed while it was written")


def _pack_local(name: bytes, extra: bytes, version: int, flags: int, date: int, crc: int, size: int) -> bytes:
    sizes = (len(name), len(extra))
    return layout.LOCAL.pack(LOCAL_SIGNATURE, version, flags, STORED, 0, date, crc, size, size, *sizes) + name + extra


def _outer_header(name: bytes, flags: int, size: int, crc: int) -> bytes:
    extra = _zip64_extra(size, size) if _is_wide(size) else b""
    version = _VERSION_ZIP64 if extra else _VERSION
    return _pack_local(name, extra, version, flags, _DATE, crc, min(size, MAX32))


# -- torch's zip (WRITER.md 12.2) ---------------------------------------------------------------------


class TorchZip:
    """A torch zip that is made while it is read: records aligned to 64 bytes, each followed by a descriptor.

    Sizes are known beforehand, CRCs only after the bytes; this is why torch's own writer has the same shape.
    """

    __slots__ = ("_crc", "_members", "_records", "size")

    size: int  # total size in bytes

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._crc = 0
        self._records: list[tuple[bytes, _Record, bytes]] = []
        at = 0
        for member in members:
            name = encode_name(member.name)
            flags = layout.FLAG_UTF8 | (layout.FLAG_DESCRIPTOR if member.size else 0)
            header = _torch_header(name, flags, member.size, at)
            record = _Record(name, at, member.size, 0, flags)
            self._records.append((header, record, _descriptor(0, member.size)))
            at += len(header) + member.size + len(_descriptor(0, member.size))
        directory = sum(len(_pack_central(record, 0, 0, 0, 0)) for _, record, _ in self._records)
        self.size = at + directory + len(_pack_end(len(members), directory, at, always_zip64=True))

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Yield its bytes from the start."""
        central = bytearray()
        total = at = 0
        for member, (header, record, blank) in zip(self._members, self._records):
            total = zlib.crc32(header, total)
            yield header
            crc, total = yield from crc32_pair(_exact_chunks(member), member.size, total)
            if blank:
                descriptor = _descriptor(crc, member.size)
                total = zlib.crc32(descriptor, total)
                yield descriptor
            central += _pack_central(record._replace(crc=crc), 0, 0, 0, 0)
            at += len(header) + member.size + len(blank)
        central += _pack_end(len(self._members), len(central), at, always_zip64=True)
        self._crc = zlib.crc32(central, total)
        yield bytes(central)

    def crc(self) -> int:
        """Return the CRC-32 of the whole zip, after the last chunk was yielded."""
        return self._crc


def _exact_chunks(member: Member) -> Iterator[bytes | memoryview]:
    """Yield a member's bytes, copied if they can change: an array may before it is in the file, unlike its CRC."""
    written = 0
    for chunk in member.chunks():
        piece = chunk if isinstance(chunk, bytes) or isinstance(chunk.obj, bytes) else bytes(chunk)
        written += len(piece)
        yield piece
    _check_size(member, written)


def _torch_header(name: bytes, flags: int, size: int, at: int) -> bytes:
    extra = _zip64_extra(0, 0) if _is_wide(size) else b""
    size32 = MAX32 if extra else 0
    filler = -(at + layout.LOCAL.size + len(name) + len(extra) + layout.EXTRA.size) % _ALIGNMENT
    extra += layout.EXTRA.pack(layout.EXTRA_TORCH_PADDING, filler) + b"Z" * filler
    return _pack_local(name, extra, 0, flags, 0, 0, size32)


def _descriptor(crc: int, size: int) -> bytes:
    if not size:
        return b""
    return (layout.DESCRIPTOR64 if _is_wide(size) else layout.DESCRIPTOR).pack(DESCRIPTOR_SIGNATURE, crc, size, size)
