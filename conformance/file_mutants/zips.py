"""Zips, read leniently into members and put together again with everything right, but for faults that are meant.

A zip that keeps the rules comes back byte for byte. What its headers say of sizes, CRCs and offsets is made anew from
the contents; versions, dates, flags, extra fields, descriptors and zip64 records stay in their own shape.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from conformance.generators.build_zips import (
    DEFLATED,
    DESCRIPTOR_FLAG,
    MAX16,
    MAX32,
    Member,
    build_zip,
    extra_field,
)

LOCAL_SIGNATURE: Final = b"PK\x03\x04"
MOST_INFLATED: Final = 1 << 18

_END: Final = struct.Struct("<4s4H2IH")
_ZIP64_END: Final = struct.Struct("<4sQ2H2I4Q")
_LOCATOR_SIZE: Final = 20
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_ZIP64: Final = 1

Sizes = tuple[int, int, int]
"""Inflated size, compressed size and offset: the order in which a zip64 extra has them."""
_WIDE: Final = ("size", "compressed", "offset")


class Broken(Exception):  # noqa: N818 -- a word between functions here, never raised to a caller
    """No directory can be found."""


@dataclass
class Part(Member):
    """A member as it was read. ``data`` may be changed: the rest follows when it is put together."""

    repeats: bool = False
    """Its local header has CRC and sizes although a descriptor follows."""
    narrow: tuple[str, ...] = ()
    """Fields of its record in the directory that are sentinels."""
    is_local_wide: bool = False
    """The sizes in its local header are sentinels."""

    def replace(self, content: bytes) -> None:
        """Give it other content."""
        if content != self.data:
            self.data, self.stored = content, None

    def settle(self, offset: int) -> int:
        """Write what follows from its content into its headers; return where the next member begins."""
        sizes = len(self.data), len(self.content()), offset
        if self.repeats and self.descriptor:
            facts = {"crc": zlib.crc32(self.data), "size": min(sizes[0], MAX32), "compressed": min(sizes[1], MAX32)}
            self.local.update(facts)
        self.extra = _with_zip64(self.extra, _local_zip64(self.extra, sizes))
        if self.is_local_wide:
            self.local.update(size=MAX32, compressed=MAX32)
        wide = b"".join(struct.pack("<Q", value) for name, value in zip(_WIDE, sizes) if name in self.narrow)
        self.central_extra = _with_zip64(self.central_extra, wide)
        self.central.update(dict.fromkeys(self.narrow, MAX32))
        return offset + len(self.local_header()) + sizes[1] + len(self.trailer())


@dataclass
class Fault:
    """One field that is left wrong on purpose."""

    where: Literal["local", "central", "end", "zip64_end", "locator"]
    field: str
    value: int | bytes
    member: int = 0


@dataclass
class Zip:
    """A zip as its parts."""

    parts: list[Part]
    order: list[int] | None = None
    """Of the directory, where it is not that of the file."""
    is_zip64: bool = False
    comment: bytes = b""
    faults: list[Fault] = field(default_factory=list)
    around: dict[str, bytes] = field(default_factory=dict)
    """Bytes that belong to nothing, by the options of ``build_zips.build_zip``."""


# -- reading ------------------------------------------------------------------------------------------


def parse(data: bytes) -> Zip | None:
    """Take a zip apart, as far as its directory can be found; None when it cannot."""
    try:
        return _parse(data)
    except (Broken, OverflowError, struct.error, zlib.error):
        return None


def _parse(data: bytes) -> Zip:
    end = data.rfind(b"PK\x05\x06")
    if end < 0:
        raise Broken
    _, _, _, _, count, _, start, comment_size = _END.unpack_from(data, end)
    is_zip64 = end >= _LOCATOR_SIZE + _ZIP64_END.size and data[end - 20 : end - 16] == b"PK\x06\x07"
    if is_zip64:
        count, _, start = _ZIP64_END.unpack_from(data, end - _LOCATOR_SIZE - _ZIP64_END.size)[7:]
    records = _records(data, start, min(count, MAX16))
    bounds = sorted([*(record.offset for record in records), start])
    places = sorted(range(len(records)), key=lambda index: records[index].offset)
    parts = [records[index].part(data, bounds[place + 1]) for place, index in enumerate(places)]
    order = [places.index(index) for index in range(len(records))]
    is_plain = order == list(range(len(records)))
    return Zip(parts, None if is_plain else order, is_zip64, data[end + _END.size :][:comment_size])


@dataclass
class _Record:
    """What the directory says of a member."""

    name: bytes
    flags: int
    method: int
    size: int
    compressed: int
    offset: int
    narrow: tuple[str, ...]
    extra: bytes
    comment: bytes
    kept: dict[str, Any]

    def part(self, data: bytes, following: int) -> Part:
        """The member itself, with what its local header says."""
        signature, version, _, _, time, date, crc, shown, size, name_size, extra_size = _LOCAL.unpack_from(
            data, self.offset
        )
        if signature != LOCAL_SIGNATURE:
            raise Broken
        at = self.offset + _LOCAL.size + name_size
        stored = data[at + extra_size : at + extra_size + self.compressed]
        inflated = _inflated(stored) if self.method == DEFLATED else stored
        trailer = following - at - extra_size - self.compressed
        kind = {16: "32", 24: "64"}.get(trailer, "32") if self.flags & DESCRIPTOR_FLAG else ""
        return Part(
            self.name, inflated, self.method, self.flags & ~DESCRIPTOR_FLAG,
            stored=None if stored == inflated else stored,
            extra=data[at : at + extra_size], central_extra=self.extra, comment=self.comment, descriptor=kind,
            local={"version": version, "time": time, "date": date}, central=self.kept,
            repeats=bool(kind and (crc or size)) and shown != MAX32, narrow=self.narrow, is_local_wide=size == MAX32,
        )  # fmt: skip


def _records(data: bytes, start: int, count: int) -> list[_Record]:
    found = []
    at = start
    for _ in range(count):
        fields = _CENTRAL.unpack_from(data, at)
        if fields[0] != b"PK\x01\x02":
            break
        made_by, version, flags, method, time, date = fields[1:7]
        compressed, size, name_size, extra_size, comment_size = fields[8:13]
        internal, attributes, offset = fields[14:]
        name_at = at + _CENTRAL.size
        extra = data[name_at + name_size : name_at + name_size + extra_size]
        wide = dict(zip(_WIDE, (size, compressed, offset)))
        narrow = tuple(name for name, value in wide.items() if value == MAX32)
        zip64 = next((value for kind, value in _fields(extra) if kind == _ZIP64), b"")
        wide.update(zip(narrow, struct.unpack(f"<{len(zip64) // 8}Q", zip64[: len(zip64) // 8 * 8])))
        kept = {"made_by": made_by, "version": version, "time": time, "date": date, "internal": internal,
                "attributes": attributes}  # fmt: skip
        following = name_at + name_size + extra_size + comment_size
        comment = data[following - comment_size : following]
        name = data[name_at : name_at + name_size]
        found.append(_Record(name, flags, method, *wide.values(), narrow, extra, comment, kept))
        at = following
    if not found:
        raise Broken
    return found


def _inflated(stored: bytes) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(stored, MOST_INFLATED)


def _fields(extra: bytes) -> list[tuple[int, bytes]]:
    """The extra fields; what is cut short is one of no kind."""
    found = []
    while extra:
        kind, size = struct.unpack("<2H", extra[:4].ljust(4, b"\0"))
        found.append((kind, extra[4 : 4 + size]) if 4 + size <= len(extra) else (-1, extra))
        extra = extra[4 + size :]
    return found


# -- writing ------------------------------------------------------------------------------------------


def build(made: Zip) -> bytes:
    """Put a zip together."""
    at = len(made.around.get("prefix", b""))
    for part in made.parts:
        at = part.settle(at)
    forged: dict[str, dict[str, Any]] = {"end": {}, "zip64_end": {}, "locator": {}}
    for fault in made.faults:
        if fault.where in forged:
            forged[fault.where][fault.field] = fault.value
        elif made.parts:
            part = made.parts[fault.member % len(made.parts)]
            getattr(part, fault.where)[fault.field] = fault.value
    options: dict[str, Any] = {**forged, **made.around}
    return build_zip(*made.parts, order=made.order, zip64=made.is_zip64, comment=made.comment, **options)


def _local_zip64(extra: bytes, sizes: Sizes) -> bytes | None:
    """The zip64 extra of a local header anew, in the length it had; None where there is none, or another one."""
    old = next((value for kind, value in _fields(extra) if kind == _ZIP64), b"")
    if not any(old):  # torch has zeros there before a descriptor
        return old or None
    return struct.pack("<3Q", *sizes)[: len(old)] if len(old) in (16, 24) else old


def _with_zip64(extra: bytes, zip64: bytes | None) -> bytes:
    """Extra fields with the zip64 one replaced or added; without it when that is empty."""
    made, is_there = b"", False
    for kind, value in _fields(extra):
        is_there = is_there or kind == _ZIP64
        if kind < 0:
            made += value
        elif kind != _ZIP64:
            made += extra_field(kind, value)
        elif zip64:
            made += extra_field(kind, zip64)
    return made if is_there or not zip64 else made + extra_field(_ZIP64, zip64)
