"""The structure of a zip: end records, central directory, local headers that tile the file.

The grammar of FORMAT.md 2.1 to 2.5, read in that order; no member's bytes are touched.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from sbformat.constants import (
    CENTRAL_SIGNATURE,
    DESCRIPTOR_SIGNATURE,
    END_SIGNATURE,
    LOCAL_SIGNATURE,
    ZIP64_END_SIGNATURE,
    ZIP64_LOCATOR_SIGNATURE,
)
from sbformat.container.names import check_name
from sbformat.container.records import (
    CENTRAL,
    DEFLATED,
    DESCRIPTOR,
    DESCRIPTOR64,
    DOS_FOLDER,
    END,
    EXTRA,
    EXTRA_TORCH_PADDING,
    EXTRA_ZIP64,
    FLAG_DESCRIPTOR,
    FLAG_UTF8,
    LOCAL,
    MAX16,
    MAX32,
    MODE_FILE,
    MODE_FOLDER,
    STORED,
    ZIP64_END,
    ZIP64_LOCATOR,
    Entry,
)
from sbformat.errors import ContainerError, quote

if TYPE_CHECKING:
    from sbformat.io.source import Source
    from sbformat.limits import Budget, LimitName

_LARGEST_COMMENT: Final = 0xFFFF
_LARGEST_OVERHEAD: Final = LOCAL.size + 2 * 0xFFFF + DESCRIPTOR64.size
_FLAGS_ALLOWED: Final = 0x2 | 0x4 | FLAG_DESCRIPTOR | FLAG_UTF8  # deflate level, descriptor, UTF-8 names
_TORCH_PADDING: Final = EXTRA_TORCH_PADDING.to_bytes(2, "little")
_EXTRA_UNICODE_PATH: Final = 0x7075  # a second name for the entry: some readers believe it
_MODE_TYPE: Final = 0o170000

_CENTRAL_SIZE: Final = CENTRAL.size
_LOCAL_SIZE: Final = LOCAL.size
_EXTRA_SIZE: Final = EXTRA.size
_DESCRIPTOR_SIZE: Final = DESCRIPTOR.size

_entry: Final = partial(tuple.__new__, Entry)  # half the price of Entry(...), once a record

_Central: TypeAlias = tuple[bytes, int, int, int, int, int, int]
"""A record of the central directory: name, offset of the local header, compressed and inflated size, CRC,
method, flags. A plain tuple: it lives for microseconds, and there are as many as tensors."""


def read_layout(source: Source, budget: Budget, entry_limit: LimitName) -> dict[str, Entry]:
    """Read and check the whole structure.

    :param source: the zip
    :param budget: the operation's
    :param entry_limit: the field of ``Limits`` that caps the number of entries
    :return: the members by name, in the order of the directory
    :raises ContainerError: when it breaks a rule
    """
    return _match_local_headers(source, _read_directory(source, budget, entry_limit))


def _refuse(message: str, offset: int | None = None) -> NoReturn:
    raise ContainerError(message, offset=offset)


# -- the end records and the directory (FORMAT.md 2.1 to 2.3) -----------------------------------------


def _read_directory(source: Source, budget: Budget, entry_limit: LimitName) -> tuple[list[_Central], int]:
    """Return the directory's records and the offset at which it starts."""
    size = source.size
    head = bytes(source.view(0, min(4, size)))
    if head != LOCAL_SIGNATURE:
        _refuse("not a zip: it does not start with a local header" if size else "the file is empty", 0)
    end = _find_end(source)
    _, disk, start_disk, count_here, count, length, start, _ = END.unpack(source.view(end, END.size))
    if disk or start_disk:
        _refuse("the zip is split over several disks", end)
    if count_here != count:
        _refuse(f"the end record counts {count_here} entries on this disk but {count} in all", end)
    count, length, start, stop = _apply_zip64(source, end, count, length, start)
    if start + length != stop:
        _refuse(f"the directory claims bytes {start} to {start + length}, the end records start at {stop}", end)
    if count * CENTRAL.size > length:
        _refuse(f"{count} entries cannot fit in a directory of {length} bytes", end)
    budget.spend(entry_limit, count, offset=end)
    budget.spend("directory_bytes", length, offset=end)
    return _read_central(bytes(source.view(start, length)), count, start), start


def _find_end(source: Source) -> int:
    """Find the end record: the last signature in the file, whose comment ends it (FORMAT.md 2.1).

    Its comment may hold no second signature, so no other signature can begin an end record: one inside
    a member, as every inner zip has, is that member's bytes.
    """
    size = source.size
    at = size - END.size
    if at < 0:
        _refuse(f"cut short: {size} bytes hold no zip", size)
    if bytes(source.view(at, 4)) == END_SIGNATURE:
        last = at
    else:
        start = max(0, at - _LARGEST_COMMENT)
        found = bytes(source.view(start, size - start)).rfind(END_SIGNATURE)
        last = start + found
        if found < 0 or last > at:
            _refuse("no end record ends this file: it is cut short or has bytes behind it", size)
    comment_size = int.from_bytes(source.view(last + END.size - 2, 2), "little")
    if last + END.size + comment_size != size:
        _refuse("the last end record does not end this file: it is cut short or has bytes behind it", last)
    return last


def _apply_zip64(source: Source, end: int, count: int, length: int, start: int) -> tuple[int, int, int, int]:
    """Read the zip64 end record when there is one (FORMAT.md 2.2); return count, length, start, stop."""
    at = end - ZIP64_LOCATOR.size
    signature, disk, record_at, disks = b"", 0, 0, 0
    if at >= 0:
        signature, disk, record_at, disks = ZIP64_LOCATOR.unpack(source.view(at, ZIP64_LOCATOR.size))
    if signature != ZIP64_LOCATOR_SIGNATURE:
        if count == MAX16 or MAX32 in (length, start):
            _refuse("the end record points to a zip64 record that is not there", end)
        return count, length, start, end
    if disk or disks > 1:
        _refuse("the zip is split over several disks", at)
    stop = at - ZIP64_END.size
    if record_at != stop or stop < 0:
        _refuse(f"the zip64 record must end at its locator, but is said to start at {record_at}", at)
    record = ZIP64_END.unpack(source.view(stop, ZIP64_END.size))
    signature, record_size, _, _, disk, start_disk, count_here, count64, length64, start64 = record
    if signature != ZIP64_END_SIGNATURE or record_size != ZIP64_END.size - 12:
        _refuse("there is no zip64 record of 56 bytes before its locator", stop)
    if disk or start_disk or count_here != count64:
        _refuse("the zip64 record contradicts itself on disks or entries", stop)
    for narrow, wide, sentinel in ((count, count64, MAX16), (length, length64, MAX32), (start, start64, MAX32)):
        if narrow not in (sentinel, wide):
            _refuse(f"the end record says {narrow} where the zip64 record says {wide}", end)
    return count64, length64, start64, stop


def _read_central(directory: bytes, count: int, start: int) -> list[_Central]:
    """Read the directory's records; they use it up exactly (FORMAT.md 2.3)."""
    records = []
    at = 0
    size = len(directory)
    for _ in range(count):
        if size - at < _CENTRAL_SIZE:
            _refuse("the directory ends within a record", start + at)
        (
            signature, _, _, flags, method, _, _, crc, compressed, inflated,
            name_size, extra_size, comment_size, disk, _, attributes, offset,
        ) = CENTRAL.unpack_from(directory, at)  # fmt: skip
        if signature != CENTRAL_SIGNATURE:
            _refuse("a record of the directory has a wrong signature", start + at)
        name_at = at + _CENTRAL_SIZE
        extra_at = name_at + name_size
        following = extra_at + extra_size + comment_size
        if following > size:
            _refuse("the directory ends within a record", start + at)
        name = directory[name_at:extra_at]
        zip64 = None
        if extra_size:
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
        _refuse(f"{size - at} bytes of the directory belong to no record", start + at)
    return records


def _check_central(flags: int, method: int, disk: int, compressed: int, inflated: int, offset: int) -> None:
    if flags & ~_FLAGS_ALLOWED:
        _refuse(f"a member has flags {flags:#06x}: encrypted or otherwise outside the format", offset)
    if method not in (STORED, DEFLATED):
        _refuse(f"a member has compression method {method}; only stored and deflated are read", offset)
    if method == STORED and compressed != inflated:
        _refuse(f"a stored member claims {compressed} bytes stored and {inflated} inflated", offset)
    if disk:
        _refuse("a member is on another disk", offset)


def _check_kind(name: bytes, attributes: int, offset: int) -> None:
    """Refuse links and devices, whatever system the record names (FORMAT.md 2.6)."""
    kind = attributes >> 16 & _MODE_TYPE
    if attributes & DOS_FOLDER and not name.endswith(b"/"):
        _refuse(f"{quote(name.decode('utf-8', 'replace'))} is not a regular file: its attributes say folder", offset)
    expected = MODE_FOLDER if name.endswith(b"/") else MODE_FILE
    if kind not in (0, expected):
        _refuse(f"the member {quote(name.decode('utf-8', 'replace'))} is not a regular file", offset)


def _widen(narrow: tuple[int, int, int], zip64: bytes | None, offset: int) -> tuple[int, ...]:
    """Replace the sentinels among size, compressed size and offset, in that order (FORMAT.md 2.4)."""
    sentinels = sum(value == MAX32 for value in narrow)
    if zip64 is None or len(zip64) != 8 * sentinels or not sentinels:
        _refuse("a member's zip64 sizes are not those that its record asks for", offset)
    wide = iter(Struct(f"<{sentinels}Q").unpack(zip64))
    return tuple(next(wide) if value == MAX32 else value for value in narrow)


def _read_extras(extras: bytes, name: bytes, offset: int) -> bytes | None:
    """Check that extra fields are well formed and none stands twice; return the zip64 one."""
    at = 0
    seen: set[int] = set()
    zip64 = None
    while at < len(extras):
        if len(extras) - at < EXTRA.size:
            _refuse("an extra field is cut short", offset + at)
        kind, size = EXTRA.unpack_from(extras, at)
        value = extras[at + 4 : at + 4 + size]
        if len(value) != size:
            _refuse("an extra field is cut short", offset + at)
        if kind in seen and kind != EXTRA_TORCH_PADDING:
            _refuse(f"the extra field {kind:#06x} stands twice", offset + at)
        if kind == _EXTRA_UNICODE_PATH and value[5:] != name:
            _refuse("an extra field gives the member a second name", offset + at)
        seen.add(kind)
        if kind == EXTRA_ZIP64:
            zip64 = value
        at += 4 + size
    return zip64


# -- local headers (FORMAT.md 2.4, 2.5) ---------------------------------------------------------------


def _match_local_headers(source: Source, directory: tuple[list[_Central], int]) -> dict[str, Entry]:
    """Check that the local headers tile the file and agree with the directory; return the entries."""
    records, stop = directory
    if not records:
        _refuse("the directory names no member", stop)
    offsets = [record[1] for record in records]
    boundaries = sorted(offsets)
    if boundaries[0] != 0:
        _refuse(f"the first local header is not at the start, but at {boundaries[0]}", boundaries[0])
    boundaries.append(stop)
    found: list[Entry] = []
    if boundaries[:-1] == offsets:
        found = [_match_local(source, record, end) for record, end in zip(records, boundaries[1:])]
    else:  # in the order of the file, which need not be in memory
        order = sorted(range(len(offsets)), key=offsets.__getitem__)
        matched = [(index, _match_local(source, records[index], end)) for index, end in zip(order, boundaries[1:])]
        found = [entry for _, entry in sorted(matched)]
    entries: dict[str, Entry] = {}
    for entry in found:
        name = entry[0]
        if name in entries:
            _refuse(f"two members are named {quote(name)}", entry.offset)
        entries[name] = entry
    return entries


def _shown(record: _Central) -> str:
    return quote(record[0].decode("utf-8", "replace"))


def _match_local(source: Source, record: _Central, following: int) -> Entry:
    """Check one local header against its record; what it heads must end where the next one begins."""
    raw_name, offset, stored, inflated, crc, method, flags = record
    overhead = following - offset - stored  # the header, its name and extras, and a descriptor
    if not _LOCAL_SIZE <= overhead <= _LARGEST_OVERHEAD:
        _refuse(f"{_shown(record)} does not end where the next header begins", offset)
    head = bytes(source.view(offset, overhead))
    (
        signature, _, local_flags, local_method, _, _, local_crc, local_stored, local_inflated, name_size, extra_size,
    ) = LOCAL.unpack_from(head)  # fmt: skip
    extra_at = _LOCAL_SIZE + name_size
    data_at = extra_at + extra_size
    if (
        signature != LOCAL_SIGNATURE
        or data_at > overhead
        or head[_LOCAL_SIZE:extra_at] != raw_name
        or local_flags != flags
        or local_method != method
    ):
        _refuse(f"the local header of {_shown(record)} differs from the directory, or is none", offset)
    if (
        extra_size
        and not (  # as torch pads nearly every record: one field of that kind
            extra_size >= _EXTRA_SIZE
            and head[extra_at : extra_at + 2] == _TORCH_PADDING
            and head[extra_at + 2] | head[extra_at + 3] << 8 == extra_size - _EXTRA_SIZE
        )
    ):
        zip64 = _read_extras(head[extra_at:data_at], raw_name, offset + extra_at)
        if zip64 is not None:
            local_stored, local_inflated = _local_sizes(local_stored, local_inflated, zip64, record)
    described = flags & FLAG_DESCRIPTOR
    if (local_crc != crc or local_stored != stored or local_inflated != inflated) and (
        local_crc or local_stored or local_inflated or not described
    ):
        _refuse(f"the local header of {_shown(record)} differs from the directory in CRC or sizes", offset)
    trailer = overhead - data_at
    if described:
        layout = DESCRIPTOR if trailer == _DESCRIPTOR_SIZE and stored <= MAX32 >= inflated else DESCRIPTOR64
        if source.view(following - trailer, trailer) != layout.pack(DESCRIPTOR_SIGNATURE, crc, stored, inflated):
            _refuse(f"no data descriptor that agrees with the directory follows {_shown(record)}", following - trailer)
    elif trailer:
        _refuse(f"{trailer} bytes lie between {_shown(record)} and what follows", following - trailer)
    name = check_name(raw_name, offset)
    if (inflated or stored) and name[-1] == "/":
        _refuse(f"the folder {quote(name)} has content", offset)
    return _entry((name, offset, offset + data_at, stored, inflated, crc, method))


def _local_sizes(compressed: int, size: int, zip64: bytes, record: _Central) -> tuple[int, int]:
    """Return compressed and inflated size as the local header and its zip64 extra give them.

    The extra holds both sizes, the header's own offset (torch, past 4 GiB), or all three. When both fields of the
    header are sentinels the sizes replace them (Python >= 3.11), else they are redundant but equal (Python before
    3.11.4); with a descriptor each may be 0 (torch gives the size, and 0 for the compressed one).
    """
    _, offset, stored, inflated, *_, flags = record
    sizes, place = (b"", zip64) if len(zip64) == 8 else (zip64[:16], zip64[16:])
    if len(zip64) not in (8, 16, 24):
        _refuse(f"the zip64 extra of {_shown(record)} must hold both sizes, its offset, or all three", offset)
    if place and int.from_bytes(place, "little") != offset:
        _refuse(f"the zip64 extra of {_shown(record)} says another offset than its own", offset)
    if not sizes:
        return compressed, size
    wide_size, wide_compressed = Struct("<2Q").unpack(sizes)
    if (compressed, size) == (MAX32, MAX32):
        return wide_compressed, wide_size
    unknown = 0 if flags & FLAG_DESCRIPTOR else None
    if wide_size not in (inflated, unknown) or wide_compressed not in (stored, unknown):
        _refuse(f"the zip64 extra of {_shown(record)} differs from the directory", offset)
    return compressed, size
