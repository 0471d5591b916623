"""Local headers, extra fields, descriptors, and the bytes of members (FORMAT.md 2.4, 2.5)."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_pth import storage, tensor
from conformance.generators.build_torch_zips import pth
from conformance.generators.build_zips import (
    DEFLATED,
    MAX16,
    MAX32,
    POLICY,
    UTF8_FLAG,
    Member,
    build_zip,
    changed,
    deflate,
    extra_field,
    state_dict_pickle,
    zip64_field,
)
from conformance.generators.ends import ALONE, BOTH, ONE, REFUSED, TWO, second
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OFFSET: Final = len(ONE.local_header()) + len(ONE.data)
"""Offset of the second local header."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from tiling()
    yield from equality()
    yield from zip64_extras()
    yield from descriptors()
    yield from extras()
    yield from deflated()
    yield from checksums()


def zip_of(body: bytes, *records: bytes) -> bytes:
    """A zip built from the bytes of members and of the directory's records."""
    directory = b"".join(records)
    counts = len(records), len(records), len(directory), len(body)
    return body + directory + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, *counts, 0)


def whole(member: Member) -> bytes:
    """The bytes of a member in a zip."""
    return member.local_header() + member.content() + member.trailer()


def tiling() -> Iterator[Vector]:
    rule = Rule(
        "2.4",
        "Sorted by offset, the local headers MUST *tile* the file: the first is at offset 0, each member ends where the next begins, and the last ends where the directory begins.",
    )
    backwards = expected.archive({"note.txt": expected.other(TWO.data), "data": expected.plain({})})
    yield rule.accepts("members-listed-backwards", build_zip(ONE, TWO, order=[1, 0]), backwards)
    body = whole(ONE) + whole(TWO)
    inner = whole(TWO)
    outer = Member(b"data", inner)
    hidden = Member(b"note.txt", b"hidden")
    last = Member(b"z", b"z")
    for name, made in {
        "prefix": build_zip(ONE, TWO, prefix=b"PK\x03\x04"),
        "prefix-zip": build_zip(ONE, TWO, prefix=build_zip(ONE)),
        "first-not-listed": build_zip(ONE, TWO, last, order=[1, 2]),
        "last-not-listed": build_zip(ONE, TWO, last, order=[0, 1]),
        "middle-not-listed": build_zip(ONE, TWO, last, order=[0, 2]),
        "gap": build_zip(Member(ONE.name, ONE.data, behind=b"\0"), TWO),
        "gap-at-the-end": build_zip(ONE, Member(TWO.name, TWO.data, behind=b"\0")),
        "hidden-between": build_zip(Member(ONE.name, ONE.data, behind=whole(hidden)), TWO),
        "inside-another": zip_of(whole(outer), outer.central_record(0), TWO.central_record(len(outer.local_header()))),
        "shared-header": zip_of(whole(ONE), ONE.central_record(0), Member(b"date", b"{}").central_record(0)),
        "offset-before": zip_of(body, ONE.central_record(0), TWO.central_record(OFFSET - 1)),
        "offset-behind": zip_of(body, ONE.central_record(0), TWO.central_record(OFFSET + 1)),
        "offset-far": zip_of(body, ONE.central_record(0), TWO.central_record(MAX32 - 1)),
        "listed-twice": zip_of(body, ONE.central_record(0), ONE.central_record(0), TWO.central_record(OFFSET)),
    }.items():
        yield rule.refuses(f"members-{name}", made, REFUSED)


def equality() -> Iterator[Vector]:
    rule = Rule(
        "2.4",
        "Its name (byte for byte), flags and method MUST equal the directory's, and its CRC and sizes MUST equal the directory's too",
    )
    any_fields = {"version": MAX16, "time": MAX16, "date": MAX16}
    yield rule.accepts("local-any-version-and-date", second(local=any_fields), BOTH)
    for name, fields in {
        "flags": {"flags": UTF8_FLAG}, "flag-descriptor": {"flags": 0x8}, "method": {"method": 8}, "crc": {"crc": 1},
        "crc-0": {"crc": 0}, "compressed": {"compressed": 9}, "compressed-0": {"compressed": 0}, "size": {"size": 11},
        "sizes-0": {"crc": 0, "compressed": 0, "size": 0}, "sentinels": {"compressed": MAX32, "size": MAX32},
        "name-size-less": {"name_size": 7}, "name-size-0": {"name_size": 0}, "name-size-most": {"name_size": MAX16},
        "extra-size": {"extra_size": 1}, "extra-size-most": {"extra_size": MAX16}, "signature": {"signature": b"PK\3\5"},
    }.items():  # fmt: skip
        yield rule.refuses(f"local-{name}", second(local=fields), REFUSED)
    for name, local_name in {"case": b"Note.txt", "other": b"note.tx_", "shorter": b"note.tx"}.items():
        yield rule.refuses(f"local-name-{name}", second(local_name=local_name), REFUSED)


def zip64_extras() -> Iterator[Vector]:
    wide = {"compressed": MAX32, "size": MAX32}
    rule = Rule("2.4", "If both sizes in the header are 0xFFFFFFFF, the sizes in the extra field replace them.")
    yield rule.accepts("local-zip64-sizes", second(extra=zip64_field(10, 10), local=wide), BOTH)
    for name, values, local in (
        ("sizes-differ", (11, 11), wide), ("size-differs", (9, 10), wide), ("sizes-0", (0, 0), wide),
        ("one-sentinel", (10, 10), {"compressed": MAX32}), ("offset-alone", (OFFSET,), wide),
    ):  # fmt: skip
        yield rule.refuses(f"local-zip64-{name}", second(extra=zip64_field(*values), local=local), REFUSED)

    rule = Rule("2.4", "A local zip64 extra field MUST be 8, 16 or 24 bytes")
    for name, values in {"8": (OFFSET,), "24": (10, 10, OFFSET)}.items():
        yield rule.accepts(f"local-zip64-of-{name}", second(extra=zip64_field(*values)), BOTH)
    for size in (0, 7, 12, 32):
        yield rule.refuses(f"local-zip64-of-{size}", second(extra=extra_field(1, bytes(size))), REFUSED)

    rule = Rule("2.4", "A reader MUST accept the extra field if its values equal the directory's")
    yield rule.accepts("local-zip64-redundant", second(extra=zip64_field(10, 10)), BOTH)
    for name, values in {"size": (9, 10), "compressed": (10, 9), "zeros": (0, 0)}.items():
        yield rule.refuses(f"local-zip64-redundant-{name}", second(extra=zip64_field(*values)), REFUSED)
    rule = Rule(
        "2.4",
        "With flag 0x8, either value MAY be 0 instead (torch, for a record of 4 GiB: the uncompressed size, then 0).",
    )
    for values in ((10, 0), (0, 0), (0, 10)):
        made = second(extra=zip64_field(*values), descriptor="64")
        yield rule.accepts(f"local-zip64-{values[0]}-{values[1]}-with-descriptor", made, BOTH)
    rule = Rule(
        "2.4", "torch writes it for every record that starts past 4 GiB. The offset MUST be that of the header itself."
    )
    yield rule.accepts("local-zip64-offset", second(extra=zip64_field(OFFSET), descriptor="32"), BOTH)
    for name, values in {"alone": (OFFSET + 1,), "behind-sizes": (10, 10, 0)}.items():
        yield rule.refuses(f"local-zip64-offset-wrong-{name}", second(extra=zip64_field(*values)), REFUSED)


def descriptor(layout: str = "<4s3I", **forged: Any) -> bytes:
    """The descriptor of ``TWO``."""
    facts = {"signature": b"PK\x07\x08", "crc": zlib.crc32(TWO.data), "compressed": 10, "size": 10, **forged}
    return struct.pack(layout, *facts.values())


def descriptors() -> Iterator[Vector]:
    rule = Rule(
        "2.4", "With flag 0x8, each of the CRC and both sizes (after the extra field is applied) MAY be 0 instead"
    )
    for kind in ("32", "64"):
        yield rule.accepts(f"descriptor-{kind}-first", build_zip(Member(b"data", b"{}", descriptor=kind), TWO), BOTH)
        yield rule.accepts(f"descriptor-{kind}-deflated", second(descriptor=kind, method=DEFLATED), BOTH)
    facts = {"crc": zlib.crc32(TWO.data), "compressed": 10, "size": 10}
    yield rule.accepts("descriptor-beside-real-values", second(descriptor="32", local=facts), BOTH)
    for name, value in facts.items():
        yield rule.accepts(f"descriptor-beside-a-real-{name}", second(descriptor="32", local={name: value}), BOTH)
    finder = second(descriptor="32", method=DEFLATED, local={"size": 10})
    yield rule.accepts("descriptor-of-the-finder", finder, BOTH)
    rule = Rule("2.4", "A value that is neither equal nor 0 is an error.")
    for name, local in {
        "crc": {"crc": 1}, "size": {"size": 9}, "both-sizes": {"compressed": 9, "size": 9},
        "crc-of-another": {**facts, "crc": 1}, "size-of-another": {**facts, "size": 11},
    }.items():  # fmt: skip
        yield rule.refuses(f"descriptor-local-{name}", second(descriptor="32", local=local), REFUSED)

    rule = Rule(
        "2.4",
        "All MUST equal the directory's. The number of bytes before the next member determines which of the two forms it is. A descriptor without a signature is an error.",
    )
    for kind in ("32", "64"):
        yield rule.accepts(f"descriptor-{kind}", second(descriptor=kind), BOTH)
    for name, made in {
        "without-signature": descriptor()[4:], "without-signature-64": descriptor("<4sI2Q")[4:],
        "wrong-signature": descriptor(signature=b"PK\x07\x09"), "crc": descriptor(crc=0),
        "compressed": descriptor(compressed=9), "size": descriptor(size=11),
        "wide-size": descriptor("<4sI2Q", size=2**32 + 10), "byte-behind": descriptor() + b"\0",
        "cut": descriptor()[:-1], "eight-behind": descriptor() + bytes(8), "twice": descriptor() * 2,
    }.items():  # fmt: skip
        yield rule.refuses(f"descriptor-{name}", build_zip(Member(TWO.name, TWO.data, descriptor=made), ONE), REFUSED)
    zeros = {"crc": 0, "compressed": 0, "size": 0}
    yield rule.refuses("descriptor-missing", second(flags=0x8, local=zeros), REFUSED)
    rule = Rule("2.4", "Without flag 0x8, nothing is between a member's bytes and what follows the member.")
    yield rule.refuses("descriptor-without-flag", second(behind=descriptor()), REFUSED)


def both_sides(extra: bytes) -> Sequence[tuple[str, bytes]]:
    """A zip with these extra fields in the local header, and one with them in the directory."""
    return ("local", second(extra=extra)), ("directory", second(central_extra=extra))


def extras() -> Iterator[Vector]:
    rule = Rule("2.4", "They MUST fill their space exactly. An id MUST NOT occur twice, except 0x4246")
    padding = extra_field(0x4246, b"ZZ")
    for name, extra in {"padding-twice": padding * 2, "unknown": extra_field(0x5455, bytes(5)) + padding,
                        "empty": extra_field(0xCAFE, b"")}.items():  # fmt: skip
        for side, made in both_sides(extra):
            yield rule.accepts(f"extra-{name}-{side}", made, BOTH)
    for name, extra in {
        "one-byte": b"\x55", "three-bytes": b"\x55\x54\x01", "too-long": b"\x55\x54\x05\x00abcd",
        "byte-behind": extra_field(0x5455, b"a") + b"\0", "twice": extra_field(0x5455, b"a") * 2,
    }.items():  # fmt: skip
        for side, made in both_sides(extra):
            yield rule.refuses(f"extra-{name}-{side}", made, REFUSED)
    rule = Rule("2.4", "0x7075 (Unicode path) MUST contain the member's own name after its first five bytes")
    head = b"\x01" + struct.pack("<I", zlib.crc32(TWO.name))
    for side, made in both_sides(extra_field(0x7075, head + TWO.name)):
        yield rule.accepts(f"unicode-path-{side}", made, BOTH)
    for name, value in {
        "other": head + b"other",
        "longer": head + TWO.name + b"\0",
        "empty": b"",
        "no-name": head,
    }.items():
        for side, made in both_sides(extra_field(0x7075, value)):
            yield rule.refuses(f"unicode-path-{name}-{side}", made, REFUSED)


CONTENT: Final = b"0123456789" * 20


def deflated() -> Iterator[Vector]:
    rule = Rule(
        "2.5",
        "one raw deflate stream that MUST end exactly at the compressed size and produce exactly the uncompressed size.",
    )
    blocks = b"\x00\x05\x00\xfa\xff01234" + b"\x01\x05\x00\xfa\xff56789"
    for name, member in {
        "packed": Member(b"note.txt", CONTENT, DEFLATED),
        "empty": Member(b"note.txt", b"", DEFLATED, stored=b"\x03\x00"),
        "stored-blocks": Member(b"note.txt", TWO.data, DEFLATED, stored=blocks),
    }.items():
        found = {"data": expected.plain({}), "note.txt": expected.other(member.data)}
        yield rule.accepts(f"deflate-{name}", build_zip(ONE, member), expected.archive(found))
    packed = deflate(CONTENT)
    for name, stored, size in (
        ("cut", packed[:-1], 200), ("byte-behind", packed + b"\0", 200), ("stream-behind", packed * 2, 200),
        ("gives-more", packed, 199), ("gives-less", packed, 201), ("says-0", packed, 0), ("reserved-block", b"\x07", 200),
        ("no-bytes", b"", 0), ("zlib-header", zlib.compress(CONTENT), 200), ("empty-stream-first", b"\x03\x00" + packed, 200),
        ("block-length", b"\x01\x05\x00\x00\x0001234", 5), ("distance-too-far", b"\x4b\x04\x12\x00", 5),
    ):  # fmt: skip
        fields = {"size": size}
        member = Member(b"note.txt", CONTENT, DEFLATED, stored=stored, local=fields, central=fields)
        yield rule.refuses(f"deflate-{name}", build_zip(ONE, member), REFUSED)


def unchecked(*records: tuple[bytes, bytes], checked: Sequence[bytes] = ()) -> bytes:
    """A torch zip without CRCs, except for the records in ``names``."""
    return build_zip(*[
        Member(name, data, **({} if name in checked else {"local": {"crc": 0}, "central": {"crc": 0}}))
        for name, data in records
    ])  # fmt: skip


def checksums() -> Iterator[Vector]:
    rule = Rule("2.5", "a member's CRC-32 MUST be verified before its bytes are returned as complete and correct.")
    good = build_zip(ONE, TWO)
    yield rule.refuses("crc-flipped-bit", changed(good, b"0123456789", b"0123456788"), REFUSED)
    yield rule.accepts("crc-wrong-elsewhere", changed(good, b"0123456789", b"0123456788"), ALONE, "--entry", "data")
    for side, fields in {"both": {"crc": 1}, "zero": {"crc": 0}}.items():
        yield rule.refuses(f"crc-wrong-{side}", second(local=fields, central=fields), REFUSED)
    forged = {"crc": zlib.crc32(CONTENT) ^ 1}
    packed = Member(b"note.txt", CONTENT, DEFLATED, local=forged, central=forged)
    yield rule.refuses("crc-wrong-deflated", build_zip(ONE, packed), REFUSED)

    rule = Rule("2.5", "the CRC of its record MUST be verified when the tensor is returned.")
    empty = pth(tensor(storage(4), (0,)), {"0": b"0123456789ABCDEF"})
    yield rule.accepts("crc-right-of-a-tensor-without-items", empty, expected.lone(expected.floats()))
    wrong = changed(empty, b"0123456789ABCDEF", b"0123456789ABCDE0")
    yield rule.refuses("crc-wrong-of-a-tensor-without-items", wrong, REFUSED)

    rule = Rule(
        "2.5", "Such a `.pth` MUST be refused (container failure) unless the user requested reading without CRC checks."
    )
    storages = {f"a/data/{key}".encode(): struct.pack(f"<{len(v)}f", *v) for key, v in enumerate(POLICY.values())}
    records = [(b"a/data.pkl", state_dict_pickle(POLICY)), *storages.items(), (b"a/version", b"3\n")]
    made = unchecked(*records)
    yield rule.accepts("crc-all-zero-unchecked", made, expected.lone(expected.POLICY), "--unchecked-crc")
    yield rule.refuses("crc-all-zero", made, REFUSED)
    rule = Rule("2.5", "The option applies only if *all* CRCs of the zip are 0, and never to the outer zip.")
    some = unchecked(*records, checked=[b"a/version"])
    yield rule.refuses("crc-one-saved-unchecked", some, REFUSED, "--unchecked-crc")
    outer = unchecked((b"data", b"{}"), (b"note.txt", b"x"))
    yield rule.refuses("crc-outer-all-zero-unchecked", outer, REFUSED, "--unchecked-crc")
