"""Details of the zip layer that no other family shows: found with mutants of a decoder (FORMAT.md 2)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from conformance.generators import expected
from conformance.generators.build_zips import (
    DEFLATED,
    MAX32,
    Member,
    build_zip,
    deflate,
    state_dict_pickle,
    zip64_field,
)
from conformance.generators.ends import BOTH, ONE, REFUSED, TWO, second
from conformance.generators.members import unchecked
from conformance.generators.names import expected_names, named
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from end_records()
    yield from directories()
    yield from local_headers()
    yield from descriptors()
    yield from names()
    yield from checksums()


def end_records() -> Iterator[Vector]:
    rule = Rule("2.3", "The number of entries x 46 MUST NOT exceed the size;")
    more = build_zip(ONE, TWO, end={"count": 5, "count_here": 5})
    yield rule.refuses("directory-count-above-the-limit", more, REFUSED, "--limit", "inner_entries=4")
    rule = Rule("2.3", "There is at least one entry.")
    signature = b"PK\x03\x04"
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0, 0, 0, len(signature), 0)
    yield rule.refuses("directory-empty-behind-a-signature", signature + end, REFUSED)
    yield rule.refuses("directory-empty", build_zip(ONE, order=()), REFUSED)


def directories() -> Iterator[Vector]:
    rule = Rule("2.3", "The records occupy the size exactly.")
    records = ONE.central_record(0) + TWO.central_record(len(ONE.local_header() + ONE.content()))
    yield rule.accepts("directory-of-two-records", build_zip(ONE, TWO, directory=records), BOTH)
    yield rule.refuses("directory-and-a-byte", build_zip(ONE, TWO, directory=records + b"x"), REFUSED)
    long = Member(b"data", b"{}", comment=bytes(46)).central_record(0) + b"PK\x01\x02"
    forged = build_zip(ONE, directory=long, end={"count": 2, "count_here": 2})
    yield rule.refuses("directory-record-of-a-signature", forged, REFUSED)

    rule = Rule("2.3", "0 stored, 8 deflated")
    yield rule.refuses("method-9-deflated", second(method=9, stored=deflate(TWO.data)), REFUSED)
    rule = Rule("2.3", "only 0x2, 0x4 (deflate level), 0x8 (descriptor), 0x800 (UTF-8)")
    yield rule.refuses("flag-encrypted-with-a-descriptor", second(flags=0x1, descriptor="32"), REFUSED)
    rule = Rule("2.3", "Without such a sentinel the zip64 extra field MUST NOT be present.")
    yield rule.refuses("central-zip64-empty", second(central_extra=zip64_field()), REFUSED)
    rule = Rule("2.6", "a folder has compressed and uncompressed size 0")
    folder = build_zip(ONE, Member(b"x/", b"x", DEFLATED, stored=b""))
    yield rule.refuses("folder-of-no-bytes-with-a-size", folder, REFUSED, "--entry", "data")
    rule = Rule("2.6", "Bit 4 (folder in DOS) MUST NOT be set for a file.")
    yield rule.accepts("kind-dos-read-only", named(b"x", central={"attributes": 0x1}), expected_names("x"))


def local_headers() -> Iterator[Vector]:
    size = len(TWO.data)
    rule = Rule("2.4", "If both sizes in the header are 0xFFFFFFFF, the sizes in the extra field replace them.")
    forged = second(local={"size": MAX32}, extra=zip64_field(size, size))
    yield rule.refuses("local-zip64-only-size-is-a-sentinel", forged, REFUSED)
    rule = Rule("2.4", "A reader MUST accept the extra field if its values equal the directory's.")
    other = second(descriptor="32", extra=zip64_field(size + 1, size + 1))
    yield rule.refuses("local-zip64-other-sizes-with-a-descriptor", other, REFUSED)


def descriptors() -> Iterator[Vector]:
    rule = Rule("2.4", "A value that is neither equal nor 0 is an error.")
    yield rule.refuses("descriptor-zeros-but-compressed", second(descriptor="32", local={"compressed": 1}), REFUSED)
    yield rule.refuses("descriptor-zeros-but-size", second(descriptor="32", local={"size": 1}), REFUSED)
    rule = Rule("2.4", "With flag 0x8, exactly one data descriptor follows the member's bytes:")
    yield rule.refuses("descriptor-64-and-a-byte", second(descriptor="64", behind=b"x"), REFUSED)


def names() -> Iterator[Vector]:
    rule = Rule("2.6", "1 to 1,024 bytes of UTF-8, whatever flag 0x800 is; unique, compared byte for byte;")
    contents = {"data.pkl": state_dict_pickle({}), "version": b"3\n"}
    records = [Member(f"archive/{name}".encode(), data) for name, data in contents.items()]
    yield rule.refuses("record-name-empty", build_zip(*records, Member(b"", b"x")), REFUSED)
    rule = Rule("2.6", "no file whose folded name is a folder of another name.")
    yield rule.accepts("names-file-and-longer-folder", named(b"a", b"ab/c"), expected_names("a", "ab/c"))


def checksums() -> Iterator[Vector]:
    rule = Rule("2.5", "The option applies only if *all* CRCs of the zip are 0, and never to the outer zip.")
    records = [(b"a/data.pkl", state_dict_pickle({})), (b"a/version", b"3\n"), (b"a/empty", b"")]
    made = unchecked(*records)
    nothing = expected.lone(expected.state_dict({}))
    yield rule.accepts("crc-all-zero-with-an-empty-record-unchecked", made, nothing, "--unchecked-crc")
    yield rule.refuses("crc-all-zero-with-an-empty-record", made, REFUSED)
    made = unchecked((b"a/data.pkl", b""), (b"a/version", b""))
    yield rule.refuses("crc-of-empty-records", made, "tensor failure")
    made = unchecked((b"a/data.pkl", b"."), (b"a/version", b"3"))
    yield rule.refuses("crc-all-zero-of-records-of-a-byte-unchecked", made, "pickle failure", "--unchecked-crc")
