"""The layout of a zip: its records, the names of its members, and the check of its whole structure (FORMAT.md 2).

In: a source. Out: the entries by name, or a ``ContainerError`` with the position of the first fault. No byte of a
member is read. Python's ``zipfile`` believes the central directory alone, and finds it by searching; so a file can have
bytes that only other programs see. Here each byte of the file has exactly one meaning (FORMAT.md 2.1 to 2.5):

1. The first four bytes are the signature of a local header, so nothing precedes the zip.
2. The last end signature in the file is that of the end record, and its comment ends the file: nothing follows.
3. With a zip64 locator directly before it, and a zip64 end record directly before that, 64-bit fields replace the
   sentinels; all others are equal.
4. The directory ends where the end records start, and its records fill it exactly.
5. The local headers, sorted by offset, tile the file: the first is at 0, and from each to the next (from the last to
   the directory) there is the header with its name and extras, the member's bytes as the directory gives their size,
   and a descriptor if flag 8 is set; nothing else. This excludes gaps, overlaps, and hidden or shared members.
6. Each local header agrees with its record in name, flags, method, CRC and sizes.

The table of records is what :mod:`~sbformat.container.writer` writes by, too. ``Entry`` is a member that was read,
``Member`` one that is to be written.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from sbformat.constants import (
    CENTRAL_SIGNATURE,
    DESCRIPTOR_SIGNATURE,
    END_SIGNATURE,
    LOCAL_SIGNATURE,
    PTH_SUFFIX,
    ZIP64_END_SIGNATURE,
    ZIP64_LOCATOR_SIGNATURE,
)
from sbformat.errors import ContainerError, quote
from sbformat.immutable import Record
from sbformat.io.source import is_by_range, is_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.io.source import Source
    from sbformat.limits import Budget, LimitName

# -- records ------------------------------------------------------------------------------------------

Chunks: TypeAlias = "Iterable[bytes | memoryview]"

STORED: Final = 0
DEFLATED: Final = 8

END: Final = Struct("<4s4H2IH")
"""Signature; this disk, disk of the directory; entries here, entries; size and start of the directory; comment size."""
ZIP64_END: Final = Struct("<4sQ2H2I4Q")
"""Signature, size of the rest; made by, version; two disks; entries here, entries, size and start of the directory."""
ZIP64_LOCATOR: Final = Struct("<4sIQI")  # signature, disk, offset of the zip64 end record, disks
CENTRAL: Final = Struct("<4s6H3I5H2I")
"""Signature; made by, version, flags, method, time, date; CRC, compressed size, size; sizes of name, extras and
comment, disk, internal attributes; external attributes, offset of the local header."""
LOCAL: Final = Struct("<4s5H3I2H")
"""Signature; version, flags, method, time, date; CRC, compressed size, size; sizes of name and extras."""
EXTRA: Final = Struct("<2H")  # id and size of an extra field
DESCRIPTOR: Final = Struct("<4s3I")  # signature; CRC, compressed size, size
DESCRIPTOR64: Final = Struct("<4sI2Q")

MAX16: Final = 0xFFFF
MAX32: Final = 0xFFFFFFFF  # both are sentinels: the value is in a zip64 record or extra field instead

FLAG_DESCRIPTOR: Final = 0x8
FLAG_UTF8: Final = 0x800

EXTRA_ZIP64: Final = 0x0001
EXTRA_TORCH_PADDING: Final = 0x4246  # "FB": aligns a record's data; may repeat

DOS_FOLDER: Final = 0x10
MODE_FILE: Final = 0o100000
MODE_FOLDER: Final = 0o040000


class Entry(Record):
    """One member of a zip that was read; its local header and its directory record agree on it."""

    name: str
    offset: int  # position of the local header in the zip, in bytes
    data_offset: int
    """Position of the member's bytes, as they are stored; -1 for one that is fetched by ranges, until it is used."""
    compressed_size: int
    size: int
    crc: int
    method: int  # 0 stored, 8 deflated

    @property
    def is_folder(self) -> bool:
        """A directory entry: its name ends with a slash and it is empty."""
        return self.name.endswith("/")


class Member(Record):
    """One member of a zip that is to be written; its size is known before its bytes are made."""

    name: str
    size: int
    chunks: Callable[[], Chunks]  # returns an iterable over its bytes, from the start at each call
    crc: Callable[[], int] | None = None
    """Returns their CRC-32 after the last chunk, when iterating over them computes it or has checked it."""


# -- names (FORMAT.md 1.2, 2.6) -----------------------------------------------------------------------

NAME_BYTES: Final = 1024

_CONTROL_AND_BIDI: Final = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
_STRAY_PARTS: Final = r"(?m)^/|^[A-Za-z]:|\\|//|(?:^|/)\.\.?(?:/|$)"
"""Matches what no name of a record may contain, in a list of names with one on each line."""
_STRAY_TEXTS: Final = ("//", "/./", "/../", "\\", ":")
"""A list of names that it matches contains one of these texts once each name is between slashes; searching for them is
faster."""
_DEVICES: Final = frozenset({"con", "prn", "aux", "nul", "conin$", "conout$"})
_NUMBERED_DEVICES: Final = ("com", "lpt")
_DEVICE_NUMBERS: Final = frozenset("0123456789\u00b9\u00b2\u00b3")


def _refuse(message: str, offset: int | None = None, *, hint: str = "") -> NoReturn:
    raise ContainerError(message, offset=offset, hint=hint)


def is_state_dict(name: str) -> bool:
    """Return whether SB3 would load this entry with torch: a ``.pth`` at the top level."""
    return name.endswith(PTH_SUFFIX) and "/" not in name and name != PTH_SUFFIX


def check_name(raw: bytes, offset: int | None = None) -> str:
    """Decode a member's name and check it."""
    try:
        return _decode_name(raw)
    except ContainerError as error:
        error.offset = offset
        raise


@lru_cache(maxsize=1024)  # SB3 and torch write the same few in every file
def _decode_name(raw: bytes) -> str:
    if not 1 <= len(raw) <= NAME_BYTES:
        _refuse(f"expected a name of 1 to {NAME_BYTES} bytes, got {len(raw)}")
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        _refuse(f"the name {quote(raw.decode('utf-8', 'backslashreplace'))} is not UTF-8")
    if not (name.isascii() and name.isprintable()) and re.search(_CONTROL_AND_BIDI, name):
        _refuse(f"the name {quote(name)} holds a control or bidi character")
    return name


def encode_name(name: str) -> bytes:
    """Return the bytes of the name for a new member."""
    try:
        raw = name.encode("utf-8")
    except UnicodeEncodeError:
        _refuse(f"the name {quote(name)} holds a lone surrogate")
    check_name(raw)
    return raw


def encode_path(name: str) -> bytes:
    """Return the bytes of a name that also follows the path rules."""
    raw = encode_name(name)
    check_path(name)
    return raw


def check_path(name: str, offset: int | None = None) -> None:
    """Check that a name, which passed :func:`check_name`, is safe on any file system, as it is and normalized."""
    try:
        _check_path(name)
    except ContainerError as error:
        error.offset = offset
        raise


@lru_cache(maxsize=1024)
def _check_path(name: str) -> None:
    for path in dict.fromkeys((name, _normalize(name))):
        if "\\" in path or ":" in path or path.startswith("/"):
            _refuse(f"the name {quote(name)} is a path outside its folder")
        for part in path.removesuffix("/").split("/"):
            if part in ("", ".", "..") or part[-1] in ". ":
                _refuse(f"the name {quote(name)} has a part that is empty, a dot or ends with a dot or space")
            if part[0] in "cpanlCPANL" and _is_device(part):
                _refuse(f"the name {quote(name)} is a device on Windows")


def _normalize(name: str) -> str:
    if name.isascii():
        return name
    import unicodedata

    return unicodedata.normalize("NFKC", name)


def _is_device(part: str) -> bool:
    """Return whether Windows opens a device for a name, in any case and with any suffix: ``NUL.txt``, ``com1 .pth``."""
    stem = part.partition(".")[0].rstrip().lower()
    return stem in _DEVICES or (stem[:3] in _NUMBERED_DEVICES and len(stem) == 4 and stem[3] in _DEVICE_NUMBERS)


def check_records(names: Iterable[str]) -> None:
    """Check the names of a torch zip's records: as paths, all are in the folder that the zip is unpacked into.

    The name of the file when it was saved is the name of that folder, so colons, device names and trailing dots occur.

    :param names: names that passed :func:`check_name`
    """
    joined = "\n".join(names)
    if not joined.isascii():
        joined += f"\n{_normalize(joined)}"
    parts = f"/{joined}/".replace("\n", "/\n/")
    if not any(stray in parts for stray in _STRAY_TEXTS):
        return
    found = re.search(_STRAY_PARTS, joined)
    if found:
        name = joined[joined.rfind("\n", 0, found.end()) + 1 :].partition("\n")[0]
        _refuse(f"the record {quote(name)} is a path outside its folder, or has a part that is empty or a dot")


def check_paths(names: Iterable[str]) -> None:
    """Check that no two names are the same path on a file system that folds case or normalizes."""
    names = list(names)
    joined = "\n".join(names)
    if joined.isascii() and "/" not in joined and len(set(joined.lower().split("\n"))) == len(names):
        return  # as of nearly every archive
    seen: dict[str, str] = {}
    for name in names:
        folded = _normalize(_normalize(name.removesuffix("/")).casefold())
        other = seen.setdefault(folded, name)
        if other is not name:
            _refuse(f"the names {quote(other)} and {quote(name)} are equal when case is folded")
    for folded, name in seen.items():
        parent = folded.rpartition("/")[0]
        while parent:
            if parent in seen and not seen[parent].endswith("/"):
                _refuse(f"the member {quote(name)} is inside the file {quote(seen[parent])}")
            parent = parent.rpartition("/")[0]


# -- structure ----------------------------------------------------------------------------------------

_LARGEST_COMMENT: Final = 0xFFFF
_CUT_OFF: Final = "the file was cut off"
_CUT_OFF_OR_LONGER: Final = "the file was cut off, or bytes were appended"
_COPY_AGAIN: Final = "download or copy the file again"
_LARGEST_OVERHEAD: Final = LOCAL.size + 2 * 0xFFFF + DESCRIPTOR64.size
_FLAGS_ALLOWED: Final = 0x2 | 0x4 | FLAG_DESCRIPTOR | FLAG_UTF8  # deflate level, descriptor, UTF-8 names
_EXTRA_UNICODE_PATH: Final = 0x7075  # a second name for the entry, which some readers use
_MODE_TYPE: Final = 0o170000

_CENTRAL_SIZE: Final = CENTRAL.size
_LOCAL_SIZE: Final = LOCAL.size
_EXTRA_SIZE: Final = EXTRA.size
_DESCRIPTOR_SIZE: Final = DESCRIPTOR.size

_READ_CENTRAL: Final = Struct("<I4x2H4x3I4H2x2I").unpack_from
"""Reads of CENTRAL: signature; flags, method; CRC, compressed size, size; sizes of name, extras and comment, disk;
external attributes, offset of the local header. Fields that no check needs would cost an object for each record."""
_READ_LOCAL: Final = Struct("<I2x2H4x3I2H").unpack_from
"""Reads of LOCAL: signature; flags, method; CRC, compressed size, size; sizes of name and extras."""
_READ_EXTRA: Final = EXTRA.unpack_from
_CENTRAL_NUMBER: Final = int.from_bytes(CENTRAL_SIGNATURE, "little")
_LOCAL_NUMBER: Final = int.from_bytes(LOCAL_SIGNATURE, "little")
_DESCRIPTOR_NUMBER: Final = int.from_bytes(DESCRIPTOR_SIGNATURE, "little")
_READ_DESCRIPTOR: Final = Struct("<4I").unpack_from
_READ_DESCRIPTOR64: Final = Struct("<2I2Q").unpack_from

_ONE_DIGIT: Final = 2**30 - 1  # the largest integer that CPython compares fast
_new: Final = tuple.__new__  # takes half the time of calling the class, once for each record

NOT_READ: Final = -1  # the offset of the bytes of a member whose local header was not read

_Central: TypeAlias = tuple[bytes, int, int, int, int, int, int]
"""A record of the central directory: name, offset of the local header, compressed and inflated size, CRC,
method, flags. A plain tuple, because it is short-lived and there are as many as tensors."""


Unread: TypeAlias = "tuple[_Central, int]"
"""A member whose local header was not read: its record, and where the next header or the directory starts."""


class Layout(Record):
    """The structure of a zip."""

    source: Source
    entries: dict[str, Entry]  # the members by name, in the order of the directory
    unread: dict[str, Unread]  # those whose local headers were not read: first all, if the zip is fetched by ranges

    def read_header(self, name: str) -> None:
        """Read the local header of a member, and check it against its record in the directory."""
        record, following = self.unread[name]
        (self.entries[name],) = _match_local(self.source, [record], [following])
        del self.unread[name]

    def read_headers(self) -> None:
        """Read all headers that were left unread, in the order of the file."""
        for name in sorted(self.unread, key=lambda name: self.entries[name].offset):
            self.read_header(name)


def read_layout(source: Source, budget: Budget, entry_limit: LimitName) -> Layout:
    """Read and check the whole structure; the local headers of a zip that is fetched by ranges are left unread."""
    return _match_local_headers(source, *_read_directory(source, budget, entry_limit))


# -- the end records and the directory (FORMAT.md 2.1 to 2.3) -----------------------------------------


def _read_directory(source: Source, budget: Budget, entry_limit: LimitName) -> tuple[list[_Central], int]:
    """Return the directory's records and the offset at which it starts."""
    size = source.size
    head = bytes(source.view(0, min(4, size)))
    if head != LOCAL_SIGNATURE:
        _refuse("expected a zip, which starts with a local header" if size else "the file is empty", 0)
    end, (_, disk, start_disk, count_here, count, length, start, _) = _find_end(source)
    if disk or start_disk:
        _refuse(f"expected a zip on one disk, got disk numbers {disk} and {start_disk}", end)
    if count_here != count:
        _refuse(f"expected equal numbers of entries on this disk and in total, got {count_here} and {count}", end)
    count, length, start, stop = _apply_zip64(source, end, count, length, start)
    if start + length != stop:
        _refuse(f"expected the directory to end at byte {stop}, where the end records start, got {start + length}", end)
    if count * CENTRAL.size > length:
        _refuse(f"a directory of {length} bytes is too small for {count} entries", end)
    budget.spend(entry_limit, count, offset=end)
    budget.spend("directory_bytes", length, offset=end)
    return _read_central(bytes(source.view(start, length)), count, start), start


def _find_end(source: Source) -> tuple[int, tuple[Any, ...]]:
    """Return the position and the fields of the end record.

    Its signature is the last one in the file, and its comment ends the file.

    The comment must not contain a signature (FORMAT.md 2.1); so an earlier signature, as every inner zip has one, is
    never taken for the end record.
    """
    size = source.size
    at = size - END.size
    if at < 0:
        _refuse(f"{_CUT_OFF}: expected a zip of at least {END.size} bytes, got {size}", size, hint=_COPY_AGAIN)
    last = at
    record = END.unpack(source.view(at, END.size))
    if record[0] != END_SIGNATURE:
        start = max(0, at - _LARGEST_COMMENT)
        found = bytes(source.view(start, size - start)).rfind(END_SIGNATURE)
        last = start + found
        if found < 0 or last > at:
            _refuse(f"the end of the zip is missing: {_CUT_OFF_OR_LONGER}", size, hint=_COPY_AGAIN)
        record = END.unpack(source.view(last, END.size))
    if last + END.size + record[-1] != size:
        message = f"the zip does not end with its last end record: {_CUT_OFF_OR_LONGER}"
        _refuse(message, last, hint=_COPY_AGAIN)
    return last, record


def _apply_zip64(source: Source, end: int, count: int, length: int, start: int) -> tuple[int, int, int, int]:
    """Read the zip64 end record, if there is one (FORMAT.md 2.2).

    :return: number of entries, length and start of the directory, and where it has to end
    """
    at = end - ZIP64_LOCATOR.size
    locator = source.view(at, ZIP64_LOCATOR.size) if at >= 0 else bytes(ZIP64_LOCATOR.size)
    signature, disk, record_at, disks = ZIP64_LOCATOR.unpack(locator)
    if signature != ZIP64_LOCATOR_SIGNATURE:
        if count == MAX16 or MAX32 in (length, start):
            _refuse("expected a zip64 end record, because a field of the end record is all ones, got none", end)
        return count, length, start, end
    if disk or disks > 1:
        _refuse(f"expected a zip on one disk, got disk number {disk} of {disks}", at)
    stop = at - ZIP64_END.size
    if record_at != stop or stop < 0:
        _refuse(f"expected the zip64 end record at byte {stop}, directly before its locator, got {record_at}", at)
    record = ZIP64_END.unpack(source.view(stop, ZIP64_END.size))
    signature, record_size, _, _, disk, start_disk, count_here, count64, length64, start64 = record
    if signature != ZIP64_END_SIGNATURE or record_size != ZIP64_END.size - 12:
        _refuse(f"expected a zip64 end record of {ZIP64_END.size} bytes directly before its locator", stop)
    if disk or start_disk or count_here != count64:
        _refuse(
            "expected a zip64 end record for one disk with equal numbers of entries, got "
            f"disk numbers {disk} and {start_disk}, {count_here} and {count64} entries",
            stop,
        )
    if (count, length, start) != (count64, length64, start64):
        for narrow, wide, sentinel in ((count, count64, MAX16), (length, length64, MAX32), (start, start64, MAX32)):
            if narrow not in (sentinel, wide):
                _refuse(f"expected {wide} in the end record, as in the zip64 end record, got {narrow}", end)
    return count64, length64, start64, stop


def _read_central(directory: bytes, count: int, start: int) -> list[_Central]:
    """Read the records of the directory; they fill it exactly (FORMAT.md 2.3)."""
    records: list[_Central] = []
    at = 0
    size = len(directory)
    for _ in range(count):
        try:
            (
                signature, flags, method, crc, compressed, inflated, name_size, extra_size, comment_size, disk,
                attributes, offset,
            ) = _READ_CENTRAL(directory, at)  # fmt: skip
        except struct.error:
            _refuse(f"expected {count} records in the directory, got {len(records)} and {size - at} bytes", start + at)
        if signature != _CENTRAL_NUMBER:
            _refuse(f"expected the signature of a directory record, got {directory[at : at + 4]!r}", start + at)
        name_at = at + _CENTRAL_SIZE
        extra_at = name_at + name_size
        following = extra_at + extra_size + comment_size
        if following > size:
            _refuse(f"expected a record of {following - at} bytes, got {size - at}: the directory ends", start + at)
        name = directory[name_at:extra_at]
        if extra_size or compressed > _ONE_DIGIT or inflated > _ONE_DIGIT or offset > _ONE_DIGIT:
            zip64 = _read_extras(directory[extra_at : extra_at + extra_size], name, start + extra_at)
            if zip64 is not None or MAX32 in (compressed, inflated, offset):
                inflated, compressed, offset = _widen((inflated, compressed, offset), zip64, start + at)
        if flags & ~_FLAGS_ALLOWED or disk or method or compressed != inflated:
            _check_central(flags, method, disk, compressed, inflated, start + at)
        if attributes:
            _check_kind(name, attributes, start + at)
        records.append((name, offset, compressed, inflated, crc, method, flags))
        at = following
    if at != size:
        _refuse(f"expected {count} records to fill the directory, got {size - at} bytes more", start + at)
    return records


def _check_central(flags: int, method: int, disk: int, compressed: int, inflated: int, offset: int) -> None:
    if flags & ~_FLAGS_ALLOWED:
        _refuse(f"unsupported flags {flags:#06x}: only {_FLAGS_ALLOWED:#06x} are read, so no encryption", offset)
    if method not in (STORED, DEFLATED):
        _refuse(f"expected compression method 0 (stored) or 8 (deflated), got {method}", offset)
    if method == STORED and compressed != inflated:
        _refuse(f"expected equal sizes of a stored member, got {compressed} compressed and {inflated} inflated", offset)
    if disk:
        _refuse(f"expected a member on disk 0, got disk {disk}", offset)


def _check_kind(name: bytes, attributes: int, offset: int) -> None:
    """Refuse links, devices, and folders without a final slash, for every system that made the zip (FORMAT.md 2.6)."""
    kind = attributes >> 16 & _MODE_TYPE
    is_folder = name.endswith(b"/")
    if kind not in (0, MODE_FOLDER if is_folder else MODE_FILE) or (attributes & DOS_FOLDER and not is_folder):
        shown = quote(name.decode("utf-8", "replace"))
        expected = "a folder" if is_folder else "a regular file"
        _refuse(f"expected attributes of {expected} for {shown}, got {attributes:#010x}", offset)


def _widen(narrow: tuple[int, int, int], zip64: bytes | None, offset: int) -> tuple[int, ...]:
    """Replace the sentinels among size, compressed size and offset, in that order (FORMAT.md 2.4)."""
    sentinels = sum(value == MAX32 for value in narrow)
    if zip64 is None or len(zip64) != 8 * sentinels or not sentinels:
        size = "none" if zip64 is None else len(zip64)
        _refuse(f"expected a zip64 extra of {8 * sentinels} bytes, got {size}", offset)
    wide = iter(Struct(f"<{sentinels}Q").unpack(zip64))
    return tuple(next(wide) if value == MAX32 else value for value in narrow)


def _read_extras(extras: bytes, name: bytes, offset: int) -> bytes | None:
    """Check that extra fields are well formed and that none is repeated; return the zip64 one."""
    at = 0
    seen: set[int] = set()
    zip64 = None
    while at < len(extras):
        if len(extras) - at < EXTRA.size:
            _refuse(f"expected an extra field of at least {EXTRA.size} bytes, got {len(extras) - at}", offset + at)
        kind, size = EXTRA.unpack_from(extras, at)
        value = extras[at + 4 : at + 4 + size]
        if len(value) != size:
            _refuse(f"expected {size} bytes in the extra field {kind:#06x}, got {len(value)}", offset + at)
        if kind in seen and kind != EXTRA_TORCH_PADDING:
            _refuse(f"the extra field {kind:#06x} is repeated", offset + at)
        if kind == _EXTRA_UNICODE_PATH and value[5:] != name:
            _refuse(f"the extra field {kind:#06x} gives the member another name", offset + at)
        seen.add(kind)
        if kind == EXTRA_ZIP64:
            zip64 = value
        at += 4 + size
    return zip64


# -- local headers (FORMAT.md 2.4, 2.5) ---------------------------------------------------------------


def _match_local_headers(source: Source, records: list[_Central], stop: int) -> Layout:
    """Check that the local headers tile the file and agree with the directory, which starts at ``stop``."""
    if not records:
        _refuse("expected at least one member, got none", stop)
    offsets = [record[1] for record in records]
    boundaries = sorted(offsets)
    if boundaries[0] != 0:
        _refuse(f"expected the first local header at byte 0, got {boundaries[0]}", boundaries[0])
    boundaries.append(stop)
    unread: dict[str, Unread] = {}
    if is_by_range(source):
        following = dict(pairwise(boundaries))
        found = []
        for record in records:
            raw_name, offset, stored, inflated, crc, method, _ = record
            # what the directory alone shows: the name, and that the member and a header fit between its neighbours
            _check_overhead(record, following[offset])
            name = _check_member_name(raw_name, offset, stored, inflated)
            unread[name] = record, following[offset]
            found.append(_new(Entry, (name, offset, NOT_READ, stored, inflated, crc, method)))
    elif boundaries[:-1] == offsets:
        found = _match_local(source, records, boundaries[1:])
    else:  # read in the order of the file, which may be on the disk
        order = sorted(range(len(offsets)), key=offsets.__getitem__)
        matched = _match_local(source, [records[index] for index in order], boundaries[1:])
        found = [entry for _, entry in sorted(zip(order, matched))]
    entries = {entry[0]: entry for entry in found}
    if len(entries) != len(found):
        seen: set[str] = set()
        for name, offset, *_ in found:
            if name in seen:
                _refuse(f"there are two members named {quote(name)}", offset)
            seen.add(name)
    return Layout(source, entries, unread)


def _quote_name(record: _Central) -> str:
    return quote(record[0].decode("utf-8", "replace"))


def _check_overhead(record: _Central, following: int) -> None:
    """Check that a member's content and a header fit between its offset and the next header, and nothing else does."""
    overhead = following - record[1] - record[2]  # the header, its name and extras, and a descriptor
    if not _LOCAL_SIZE <= overhead <= _LARGEST_OVERHEAD:
        _refuse(f"{_quote_name(record)} does not end where the next header or the directory starts", record[1])


def _check_member_name(raw_name: bytes, offset: int, stored: int, inflated: int) -> str:
    try:
        name = _decode_name(raw_name)
    except ContainerError as error:
        error.offset = offset
        raise
    if name[-1] == "/" and (inflated or stored):
        _refuse(f"expected the folder {quote(name)} to be empty, got {inflated} bytes", offset)
    return name


def _match_local(source: Source, records: list[_Central], ends: list[int]) -> list[Entry]:  # noqa: C901 -- a call for each check would take half as long again
    """Check local headers against their records.

    :param ends: where each member must end: at the next header, or at the directory
    """
    whole = source.view(0, source.size) if is_in_memory(source) else None
    found: list[Entry] = []
    for record, following in zip(records, ends):
        raw_name, offset, stored, inflated, crc, method, flags = record
        overhead = following - offset - stored
        if overhead < _LOCAL_SIZE or overhead > _LARGEST_OVERHEAD:
            _check_overhead(record, following)
        data, at = whole, offset
        if data is None:
            data, at = source.view(offset, overhead), 0
        (
            signature, local_flags, local_method, local_crc, local_stored, local_inflated, name_size, extra_size,
        ) = _READ_LOCAL(data, at)  # fmt: skip
        name_at = at + _LOCAL_SIZE
        extra_at = name_at + name_size
        trailer = at + overhead - extra_at - extra_size
        if (
            signature != _LOCAL_NUMBER
            or trailer < 0
            or data[name_at:extra_at].tobytes() != raw_name
            or local_flags != flags
            or local_method != method
        ):
            _refuse(f"the local header of {_quote_name(record)} is missing or differs from the directory", offset)
        if extra_size:
            kind, size = _READ_EXTRA(data, extra_at) if extra_size >= _EXTRA_SIZE else (0, 0)
            if kind != EXTRA_TORCH_PADDING or size != extra_size - _EXTRA_SIZE:  # torch pads nearly every record so
                extras = data[extra_at : extra_at + extra_size].tobytes()
                zip64 = _read_extras(extras, raw_name, offset + extra_at - at)
                if zip64 is not None:
                    local_stored, local_inflated = _local_sizes(local_stored, local_inflated, zip64, record)
        described = flags & FLAG_DESCRIPTOR
        if (local_crc != crc or local_stored != stored or local_inflated != inflated) and not (
            described
            and (not local_crc or local_crc == crc)
            and (not local_stored or local_stored == stored)
            and (not local_inflated or local_inflated == inflated)
        ):
            _refuse(f"the local header of {_quote_name(record)} differs from the directory in CRC or sizes", offset)
        if described:
            at = following - trailer
            if whole is None:
                data, at = source.view(at, trailer), 0
            fields: tuple[int, ...] = ()
            if trailer == _DESCRIPTOR_SIZE:
                fields = _READ_DESCRIPTOR(data, at)
            elif trailer == DESCRIPTOR64.size:
                fields = _READ_DESCRIPTOR64(data, at)
            if fields != (_DESCRIPTOR_NUMBER, crc, stored, inflated):
                message = f"expected a data descriptor after {_quote_name(record)} that equals the directory"
                _refuse(message, following - trailer)
        elif trailer:
            expected = f"expected the next header or the directory after {_quote_name(record)}"
            _refuse(f"{expected}, got {trailer} other bytes", following - trailer)
        name = _check_member_name(raw_name, offset, stored, inflated)
        found.append(_new(Entry, (name, offset, following - stored - trailer, stored, inflated, crc, method)))
    return found


def _local_sizes(compressed: int, size: int, zip64: bytes, record: _Central) -> tuple[int, int]:
    """Return compressed and inflated size of a local header with a zip64 extra.

    The extra has both sizes, the offset of the header itself (torch, past 4 GiB), or all three. When both size fields
    of the header are sentinels, the sizes of the extra replace them (Python >= 3.11); otherwise they are redundant but
    equal (Python before 3.11.4). With a descriptor each may be 0 (torch writes the size, and 0 for the compressed one).
    """
    _, offset, stored, inflated, *_, flags = record
    sizes, place = (b"", zip64) if len(zip64) == 8 else (zip64[:16], zip64[16:])
    if len(zip64) not in (8, 16, 24):
        _refuse(f"expected a zip64 extra of 8, 16 or 24 bytes for {_quote_name(record)}, got {len(zip64)}", offset)
    if place and int.from_bytes(place, "little") != offset:
        _refuse(f"expected offset {offset} in the zip64 extra of {_quote_name(record)}, got another", offset)
    if not sizes:
        return compressed, size
    wide_size, wide_compressed = Struct("<2Q").unpack(sizes)
    if (compressed, size) == (MAX32, MAX32):
        return wide_compressed, wide_size
    unknown = 0 if flags & FLAG_DESCRIPTOR else None
    if wide_size not in (inflated, unknown) or wide_compressed not in (stored, unknown):
        _refuse(f"the zip64 extra of {_quote_name(record)} differs from the directory", offset)
    return compressed, size
