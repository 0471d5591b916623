"""The start and end of a zip: end records, zip64 records, the central directory (FORMAT.md 2.1 to 2.3)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_zips import (
    MAX16,
    MAX32,
    UTF8_FLAG,
    Member,
    build_zip,
    extra_field,
    sb3_archive,
    zip64_field,
)
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE: Final = Member(b"data", b"{}")
TWO: Final = Member(b"note.txt", b"0123456789")
BOTH: Final = expected.archive({"data": expected.plain({}), "note.txt": expected.other(TWO.data)})
"""The expected output for a zip of ``ONE`` and ``TWO``."""
ALONE: Final = expected.archive({"data": expected.plain({})})
REFUSED: Final = "container failure"


def second(**fields: Any) -> bytes:
    """A zip whose second member is forged."""
    return build_zip(ONE, Member(TWO.name, TWO.data, **fields))


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from start()
    yield from end_record()
    yield from comments()
    yield from zip64()
    yield from locators()
    yield from directory()
    yield from directory_records()
    yield from directory_zip64()


def start() -> Iterator[Vector]:
    rule = Rule("2", "A zip starts with a local header: its first four bytes MUST be `PK\\x03\\x04`.")
    good = build_zip(ONE, TWO)
    yield rule.accepts("zip-plain", good, BOTH)
    for name, data in {
        "prefix-exe": build_zip(ONE, TWO, prefix=b"MZ"),
        "prefix-script": build_zip(ONE, TWO, prefix=b"#!/bin/sh\n"),
        "spanned": b"PK\x07\x08" + good,
        "directory-first": b"PK\x01\x02" + good[4:],
    }.items():
        yield rule.refuses(f"zip-{name}", data, REFUSED)
    rule = Rule("2", "A truncated archive is still a zip to a lenient reader")
    whole = sb3_archive()
    policy_end = whole.index(b"_stable_baselines3_version")
    yield rule.accepts("zip-whole", whole, expected.ARCHIVE)
    yield rule.refuses("zip-cut-in-half", whole[: len(whole) // 2], REFUSED)
    yield rule.refuses("zip-cut-behind-a-torch-zip", whole[: policy_end - 30], REFUSED)
    yield rule.refuses("zip-cut-by-one", whole[:-1], REFUSED)
    yield rule.refuses("zip-four-bytes", whole[:4], REFUSED)


def end_record() -> Iterator[Vector]:
    rule = Rule("2.1", "u2 this disk, u2 disk of the directory")
    for name, forged in {"this": {"disk": 1}, "start": {"start_disk": 1}, "both": {"disk": 1, "start_disk": 1}}.items():
        yield rule.refuses(f"end-disk-{name}", build_zip(ONE, TWO, end=forged), REFUSED)
    rule = Rule("2.1", "u2 entries on this disk, u2 entries")
    for name, forged in {"here": {"count_here": 1}, "in-all": {"count": 3}}.items():
        yield rule.refuses(f"end-counts-differ-{name}", build_zip(ONE, TWO, end=forged), REFUSED)


def comments() -> Iterator[Vector]:
    rule = Rule("2.1", "The record and its comment MUST end exactly at the end of the file.")
    for name, comment in {"short": b"a comment", "signature-of-a-member": b"PK\x03\x04", "no-text": bytes(30)}.items():
        yield rule.accepts(f"comment-{name}", build_zip(ONE, TWO, comment=comment), BOTH)
    for size in (0, 8, 10, MAX16):
        forged = build_zip(ONE, TWO, comment=b"a comment", end={"comment_size": size})
        yield rule.refuses(f"comment-size-{size}", forged, REFUSED)
    for name, tail in {"byte": b"\0", "newline": b"\n", "second-zip": build_zip(ONE)}.items():
        yield rule.refuses(f"end-tail-{name}", build_zip(ONE, TWO, tail=tail), REFUSED)

    rule = Rule("2.1", "which MUST be within its last 22 + 65,535 bytes")
    yield rule.accepts("comment-longest", build_zip(ONE, TWO, comment=b"x" * MAX16), BOTH)
    far = build_zip(ONE, TWO, comment=b"x" * MAX16, tail=b"x")
    yield rule.refuses("comment-too-long", far, REFUSED)

    rule = Rule("2.1", "a comment contains no second signature")
    good = build_zip(ONE, TWO)
    inner = good[-22:]
    for name, comment in {"alone": b"PK\x05\x06", "and-more": b"PK\x05\x06x", "whole-record": inner}.items():
        yield rule.refuses(f"comment-signature-{name}", build_zip(ONE, TWO, comment=comment), REFUSED)
    rule = Rule("2.1", "A signature inside a member, as in every inner zip, is part of that member's bytes.")
    found = {"data": expected.plain({}), "in.zip": expected.other(good)}
    yield rule.accepts("end-signature-in-a-member", build_zip(ONE, Member(b"in.zip", good)), expected.archive(found))


WIDE: Final = {"count": MAX16, "count_here": MAX16, "length": MAX32, "start": MAX32}


def zip64() -> Iterator[Vector]:
    rule = Rule("2.2", "MUST be its sentinel (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF) or equal the record's value")
    yield rule.accepts("zip64-sentinels", build_zip(ONE, TWO, zip64=True, end=WIDE), BOTH)
    for field in ("length", "start"):
        forged = build_zip(ONE, TWO, zip64=True, end={field: MAX32})
        yield rule.accepts(f"zip64-sentinel-{field}", forged, BOTH)
    for name, forged in {
        "count": {"count": 1, "count_here": 1}, "length": {"length": 1}, "start": {"start": 1},
    }.items():  # fmt: skip
        yield rule.refuses(f"zip64-{name}-differs", build_zip(ONE, TWO, zip64=True, zip64_end=forged), REFUSED)
        yield rule.refuses(f"end-{name}-differs-from-zip64", build_zip(ONE, TWO, zip64=True, end=forged), REFUSED)
    for name, forged in {"count": ("count", "count_here"), "length": ("length",), "start": ("start",)}.items():
        absurd = build_zip(ONE, TWO, zip64=True, end=WIDE, zip64_end=dict.fromkeys(forged, 2**64 - 1))
        yield rule.refuses(f"zip64-{name}-absurd", absurd, REFUSED)

    rule = Rule("2.2", "Without a locator, no field of the end record may be a sentinel.")
    for name, forged in {
        "count": {"count": MAX16, "count_here": MAX16}, "length": {"length": MAX32}, "start": {"start": MAX32},
    }.items():  # fmt: skip
        yield rule.refuses(f"end-sentinel-{name}-without-zip64", build_zip(ONE, TWO, end=forged), REFUSED)


def locators() -> Iterator[Vector]:
    rule = Rule("2.2", "u8 44, u2 and u2 versions (any), u4 and u4 disks (0), u8 and u8 entries (equal)")
    any_version = {"made_by": 0, "version": MAX16}
    yield rule.accepts("zip64-any-version", build_zip(ONE, TWO, zip64=True, zip64_end=any_version), BOTH)
    for name, forged in {
        "signature": {"signature": b"PK\x06\x05"}, "record-size-less": {"record_size": 43},
        "record-size-more": {"record_size": 45}, "disk": {"disk": 1}, "start-disk": {"start_disk": 1},
        "counts-differ": {"count_here": 1},
    }.items():  # fmt: skip
        yield rule.refuses(f"zip64-record-{name}", build_zip(ONE, TWO, zip64=True, zip64_end=forged), REFUSED)

    rule = Rule("2.2", "u4 disk (0), u8 offset of the record, u4 number of disks (0 or 1)")
    yield rule.accepts("zip64-locator-no-disk", build_zip(ONE, TWO, zip64=True, locator={"disks": 0}), BOTH)
    for name, forged in {"disk": {"disk": 1}, "disks": {"disks": 2}}.items():
        yield rule.refuses(f"zip64-locator-{name}", build_zip(ONE, TWO, zip64=True, locator=forged), REFUSED)
    rule = Rule(
        "2.2", "MUST be the 56 bytes directly before the locator, and the offset MUST be the offset of those bytes."
    )
    yield rule.accepts("zip64-locator", build_zip(ONE, TWO, zip64=True, locator={"disks": 1}), BOTH)
    for name, place in {"first-byte": 0, "past-the-end": 2**64 - 1}.items():
        forged = build_zip(ONE, TWO, zip64=True, locator={"record_at": place})
        yield rule.refuses(f"zip64-locator-{name}", forged, REFUSED)
    apart = build_zip(ONE, TWO, zip64=True)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, apart.index(b"PK\x06\x06"), 1)
    yield rule.refuses("zip64-locator-apart", apart.replace(locator, bytes(8) + locator), REFUSED)
    room = b"PK\x03\x04" + struct.pack("<4sIQI", b"PK\x06\x07", 0, 0, 1)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0, 0, 0, 0, 0)
    yield rule.refuses("zip64-locator-without-record", room + end, REFUSED)


def directory() -> Iterator[Vector]:
    rule = Rule(
        "2.3",
        "The offset of the directory plus its size MUST be the offset of the zip64 record, or of the end record if there is no zip64 record.",
    )
    for name, forged in {
        "size-0": {"length": 0}, "start-0": {"start": 0}, "size-large": {"length": MAX32 - 1},
        "start-large": {"start": MAX32 - 1}, "both-0": {"start": 0, "length": 0},
    }.items():  # fmt: skip
        yield rule.refuses(f"directory-{name}", build_zip(ONE, TWO, end=forged), REFUSED)
    yield rule.accepts("directory-before-end", build_zip(ONE, TWO, comment=b"c"), BOTH)
    yield rule.accepts("directory-before-zip64", build_zip(ONE, TWO, zip64=True, comment=b"c"), BOTH)
    yield rule.refuses("directory-gap-before-end", build_zip(ONE, TWO, behind_directory=b"\0"), REFUSED)
    yield rule.refuses("directory-gap-before-zip64", build_zip(ONE, TWO, behind_directory=b"\0", zip64=True), REFUSED)

    rule = Rule(
        "2.3", "The number of entries x 46 MUST NOT exceed the size; a reader checks this before it allocates any list"
    )
    yield rule.accepts("directory-two", build_zip(ONE, TWO, end={"count": 2, "count_here": 2}), BOTH)
    for count in (3, 60_000):
        forged = build_zip(ONE, TWO, end={"count": count, "count_here": count})
        yield rule.refuses(f"directory-count-{count}", forged, REFUSED)
    rule = Rule("2.3", "There is at least one entry. The records occupy the size exactly.")
    yield rule.refuses("directory-count-0", build_zip(ONE, TWO, end={"count": 0, "count_here": 0}), REFUSED)
    yield rule.refuses("directory-count-1-of-2", build_zip(ONE, TWO, end={"count": 1, "count_here": 1}), REFUSED)


def directory_records() -> Iterator[Vector]:
    rule = Rule("2.3", "u2 version needed")
    for name, fields in {
        "versions": {"made_by": (3 << 8) | 63, "version": MAX16}, "dates": {"time": MAX16, "date": MAX16},
        "internal": {"internal": 1},
    }.items():  # fmt: skip
        yield rule.accepts(f"directory-any-{name}", second(central=fields), BOTH)
    yield rule.accepts("directory-comment", second(comment=b"a comment"), BOTH)
    yield Rule("2.3", "`PK\\x01\\x02`").refuses(
        "directory-signature", second(central={"signature": b"PK\x01\x03"}), REFUSED
    )

    rule = Rule("2.3", "only 0x2, 0x4 (deflate level), 0x8 (descriptor), 0x800 (UTF-8)")
    for flags in (0x2, 0x4, 0x6, UTF8_FLAG, UTF8_FLAG | 0x6):
        yield rule.accepts(f"flags-{flags:x}", second(flags=flags), BOTH)
    for bit in range(16):
        if 1 << bit not in (0x2, 0x4, 0x8, UTF8_FLAG):
            yield rule.refuses(f"flags-{1 << bit:x}", second(flags=1 << bit), REFUSED)
    rule = Rule("2.3", "0 stored, 8 deflated")
    yield rule.accepts("method-deflated", second(method=8), BOTH)
    for method in (1, 9, 12, 14, 93, 99):
        fields = {"method": method}
        yield rule.refuses(f"method-{method}", second(local=fields, central=fields), REFUSED)
    rule = Rule("2.3", "equal if stored")
    for name, fields in {"size": {"size": 11}, "compressed": {"compressed": 9}}.items():
        yield rule.refuses(f"stored-{name}-differs", second(local=fields, central=fields), REFUSED)
    rule = Rule("2.3", "all three are within the directory")
    for field in ("name_size", "extra_size", "comment_size"):
        yield rule.refuses(f"directory-{field.replace('_', '-')}", second(central={field: MAX16}), REFUSED)
    yield Rule("2.3", "u2 disk").refuses("directory-disk", second(central={"disk": 1}), REFUSED)


def directory_zip64() -> Iterator[Vector]:
    rule = Rule(
        "2.3",
        "the zip64 extra field (id 0x0001) MUST contain exactly the values of those fields, as u8, in the order uncompressed size, compressed size, offset.",
    )
    sizes = {"size": MAX32, "compressed": MAX32}
    offset = len(ONE.local_header()) + len(ONE.data)
    for name, values, fields in (
        ("sizes", (10, 10), sizes),
        ("offset", (offset,), {"offset": MAX32}),
        ("all", (10, 10, offset), {**sizes, "offset": MAX32}),
    ):
        made = second(central_extra=zip64_field(*values), central=fields)
        yield rule.accepts(f"directory-zip64-{name}", made, BOTH)
    for name, extra, fields in (
        ("missing", b"", sizes),
        ("one-of-two", zip64_field(10), sizes),
        ("three-of-two", zip64_field(10, 10, offset), sizes),
        ("empty", extra_field(1, b""), {"offset": MAX32}),
        ("seven-bytes", extra_field(1, bytes(7)), {"offset": MAX32}),
        ("wrong-size", zip64_field(11, 11), sizes),
        ("absurd-size", zip64_field(2**64 - 1, 2**64 - 1), sizes),
        ("wrong-offset", zip64_field(offset + 1), {"offset": MAX32}),
    ):
        yield rule.refuses(f"directory-zip64-{name}", second(central_extra=extra, central=fields), REFUSED)
    rule = Rule("2.3", "Without such a sentinel the zip64 extra field MUST NOT be present.")
    yield rule.accepts("directory-without-zip64", second(central_extra=extra_field(0x5455, b"\0" * 5)), BOTH)
    yield rule.refuses("directory-zip64-unasked", second(central_extra=zip64_field(10, 10)), REFUSED)
