"""The strict zip: what zipfile and torch write is read; every other way to write it is refused."""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_zips import (
    BIDI,
    DEFLATED,
    MAX16,
    MAX32,
    POLICY,
    UTF8_FLAG,
    Forged,
    Member,
    build_zip,
    changed,
    deflate,
    extra_field,
    is_terminal_safe,
    sb3_archive,
    state_dict_zip,
    zip64_field,
)
from sbformat.container.reader import CHUNK_BYTES, Container, Entry, InflatedSource
from sbformat.errors import ContainerError, LimitError, MissingEntryError, SbformatError
from sbformat.io.source import BytesSource
from sbformat.limits import Budget, Limits
from tests.helpers.sampling import more_examples, with_exhaustive

ONE = Member(b"data", b"{}")
TWO = Member(b"policy.pth", b"0123456789")
CHUNK = CHUNK_BYTES
END = "end record|the end of the zip is missing|truncated"
LOCAL = "local header|does not end where|expected the next header or the directory after"
"""What messages about the structure speak of: which of its rules is met first is not the format's business."""


def records(data: bytes, **options: Any) -> Container:
    """Open as torch's zips are opened: names are looked up, not extracted."""
    return Container(data, names="record", **options)


def contents(container: Container) -> dict[str, bytes]:
    return {name: bytes(container.read(name)) for name in container}


def refused(data: bytes, match: str, **options: Any) -> ContainerError:
    """The container, or the first member that is not good, is refused with a message fit to be shown."""
    with pytest.raises(ContainerError, match=match) as caught:
        contents(Container(data, **options))
    assert is_terminal_safe(str(caught.value))
    return caught.value


def pad(size: int) -> bytes:
    """Torch's padding in a local header."""
    return extra_field(0x4246, b"Z" * size)


# -- what is read -------------------------------------------------------------------------------------


def test_a_container_is_a_mapping_of_names_in_the_order_of_the_directory() -> None:
    container = Container(build_zip(ONE, TWO, order=[1, 0]))
    assert list(container) == ["policy.pth", "data"]
    assert len(container) == 2
    assert "data" in container
    assert "other" not in container
    assert 5 not in container


def test_an_entry_says_where_its_bytes_are() -> None:
    data = build_zip(ONE, Member(b"x", b"aaaa" * 100, method=DEFLATED))
    entry = Container(data).entry("x")
    size = len(deflate(b"aaaa" * 100))
    assert entry == Entry("x", 36, 36 + 30 + 1, size, 400, zlib.crc32(b"aaaa" * 100), DEFLATED)
    assert data[entry.data_offset : entry.data_offset + size] == deflate(b"aaaa" * 100)


def test_a_stored_member_is_a_view_of_the_bytes() -> None:
    data = build_zip(ONE)
    assert Container(data).read("data").obj is data
    assert Container(data).view("data").obj is data


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_bytes_like_is_taken(wrap: Any) -> None:
    assert contents(Container(wrap(build_zip(ONE)))) == {"data": b"{}"}


def test_a_strided_view_is_taken() -> None:
    doubled = bytes(byte for value in build_zip(ONE) for byte in (value, 0))
    assert contents(Container(memoryview(doubled)[::2])) == {"data": b"{}"}


def test_a_member_that_is_not_there_suggests_the_nearest_one() -> None:
    container = Container(build_zip(ONE, TWO))
    for ask in (container.entry, container.read, container.view, container.stream):
        with pytest.raises(MissingEntryError, match=r"did you mean 'policy\.pth'"):
            ask("polcy.pth")


@pytest.mark.parametrize("method", [0, DEFLATED])
@pytest.mark.parametrize("chunk_bytes", [1, 3, 10, 10_000])
def test_a_member_is_streamed_in_chunks_of_at_most_the_size_asked_for(method: int, chunk_bytes: int) -> None:
    content = bytes(range(256)) * 3
    container = Container(build_zip(Member(b"data", content, method=method)))
    chunks = list(container.stream("data", chunk_bytes))
    assert b"".join(chunks) == content
    assert max(map(len, chunks)) <= chunk_bytes


@pytest.mark.parametrize("method", [0, DEFLATED])
def test_an_empty_member_streams_nothing(method: int) -> None:
    container = Container(build_zip(Member(b"data", b"", method=method)))
    assert list(container.stream("data")) == []
    assert container.read("data") == b""


def test_a_folder_is_an_empty_member_whose_name_ends_with_a_slash() -> None:
    container = Container(build_zip(Member(b"folder/", central={"attributes": 0o40755 << 16 | 0x10}), ONE))
    assert container.entry("folder/").is_folder
    assert not container.entry("data").is_folder


@pytest.mark.parametrize("descriptor", ["32", "64"])
@pytest.mark.parametrize("method", [0, DEFLATED])
@pytest.mark.parametrize("content", [b"", b"0123456789" * 9])
def test_a_descriptor_of_either_size_may_follow_a_member(descriptor: str, method: int, content: bytes) -> None:
    member = Member(b"x", content, method=method, descriptor=descriptor)
    assert contents(Container(build_zip(member, ONE))) == {"x": content, "data": b"{}"}
    assert contents(Container(build_zip(ONE, member))) == {"data": b"{}", "x": content}


def test_with_a_descriptor_the_local_header_may_hold_the_values_all_the_same() -> None:
    facts = {"crc": zlib.crc32(TWO.data), "compressed": 10, "size": 10}
    container = Container(build_zip(Member(b"x", TWO.data, descriptor="32", local=facts)))
    assert container.read("x") == TWO.data


@pytest.mark.parametrize("flags", [0, 0x2, 0x4, 0x6, UTF8_FLAG, UTF8_FLAG | 0x6])
def test_flags_for_deflate_levels_and_utf8_names_mean_nothing(flags: int) -> None:
    assert contents(Container(build_zip(Member(b"data", b"{}", flags=flags)))) == {"data": b"{}"}


@pytest.mark.parametrize("side", ["local", "central"])
@pytest.mark.parametrize("field", ["version", "time", "date"])
def test_versions_and_dates_may_be_anything(side: str, field: str) -> None:
    headers: dict[str, Any] = {side: {field: 0xFFFF}}
    assert contents(Container(build_zip(Member(b"data", b"{}", **headers)))) == {"data": b"{}"}


def test_internal_attributes_and_comments_of_members_may_be_anything() -> None:
    member = Member(b"data", b"{}", comment=b"PK\x05\x06 any bytes \xff", central={"internal": 0xFFFF})
    assert contents(Container(build_zip(member))) == {"data": b"{}"}


@pytest.mark.parametrize("attributes", [0, 0o600 << 16, 0o100644 << 16, 0o777 << 16, 0x20, 0x01])
@pytest.mark.parametrize("made_by", [0, 3 << 8, 10 << 8, 19 << 8])
def test_a_regular_file_of_any_system_is_accepted(made_by: int, attributes: int) -> None:
    member = Member(b"data", b"{}", central={"made_by": made_by, "attributes": attributes})
    assert contents(Container(build_zip(member))) == {"data": b"{}"}


@pytest.mark.parametrize(
    "comment", [b"", b"a comment", b"P" * 65_535, b"PK\x05", b"PK\x01\x02PK\x03\x04PK\x06\x06PK\x06\x07"]
)
def test_the_zip_may_have_a_comment(comment: bytes) -> None:
    assert contents(Container(build_zip(ONE, comment=comment))) == {"data": b"{}"}


def test_zip64_end_records_may_stand_in_the_smallest_of_files() -> None:
    assert contents(Container(build_zip(ONE, TWO, zip64=True))) == {"data": b"{}", "policy.pth": TWO.data}


@pytest.mark.parametrize(
    "fields", [("count", "count_here"), ("length",), ("start",), ("count", "count_here", "length", "start")]
)
def test_sentinels_in_the_end_record_are_replaced_by_the_zip64_record(fields: tuple[str, ...]) -> None:
    sentinels = {"count": MAX16, "count_here": MAX16, "length": MAX32, "start": MAX32}
    made = build_zip(ONE, TWO, zip64=True, end={field: sentinels[field] for field in fields})
    assert list(Container(made)) == ["data", "policy.pth"]


@pytest.mark.parametrize("forged", [{"made_by": 0, "version": 0}, {"made_by": 0xFFFF, "version": 0xFFFF}])
def test_versions_in_the_zip64_record_may_be_anything(forged: Forged) -> None:
    assert list(Container(build_zip(ONE, zip64=True, zip64_end=forged))) == ["data"]


@pytest.mark.parametrize("disks", [0, 1])
def test_the_locator_counts_no_disk_or_one(disks: int) -> None:
    assert list(Container(build_zip(ONE, zip64=True, locator={"disks": disks}))) == ["data"]


def test_sizes_may_stand_in_a_zip64_extra_as_python_writes_since_3_11() -> None:
    member = Member(b"x", TWO.data, extra=zip64_field(10, 10), local={"compressed": MAX32, "size": MAX32})
    assert contents(Container(build_zip(member))) == {"x": TWO.data}


def test_a_zip64_extra_may_stand_beside_equal_sizes_as_python_wrote_before() -> None:
    member = Member(b"x", b"a" * 100, method=DEFLATED, extra=zip64_field(100, len(deflate(b"a" * 100))))
    assert contents(Container(build_zip(member))) == {"x": b"a" * 100}


@pytest.mark.parametrize("local", [{"compressed": MAX32, "size": MAX32}, {}])
@pytest.mark.parametrize("descriptor", ["32", "64"])
def test_with_a_descriptor_a_zip64_extra_may_hold_zeros(local: Forged, descriptor: str) -> None:
    member = Member(b"x", TWO.data, descriptor=descriptor, extra=zip64_field(0, 0), local=local)
    assert contents(Container(build_zip(member))) == {"x": TWO.data}


@pytest.mark.parametrize("fields", [("size", "compressed"), ("offset",), ("size", "compressed", "offset")])
def test_sentinels_in_the_directory_are_replaced_in_the_order_size_compressed_offset(fields: tuple[str, ...]) -> None:
    content = b"a" * 100
    values = {"size": 100, "compressed": len(deflate(content)), "offset": 36}
    member = Member(
        b"x", content, method=DEFLATED, central_extra=zip64_field(*[values[name] for name in fields]),
        central=dict.fromkeys(fields, MAX32),
    )  # fmt: skip
    assert contents(Container(build_zip(ONE, member))) == {"data": b"{}", "x": content}


def test_padding_of_torch_may_repeat_and_other_extras_may_stand_once() -> None:
    extra = pad(3) + extra_field(0x5455, b"\x01time") + pad(0) + pad(5)
    member = Member(b"data", b"{}", extra=extra, central_extra=extra_field(0x7875, b"ids"))
    assert contents(Container(build_zip(member))) == {"data": b"{}"}


def test_a_unicode_path_that_repeats_the_name_is_harmless() -> None:
    extra = extra_field(0x7075, b"\x01" + struct.pack("<I", zlib.crc32(b"data")) + b"data")
    assert list(Container(build_zip(Member(b"data", b"{}", extra=extra, central_extra=extra)))) == ["data"]


def test_the_archive_and_the_torch_zip_of_these_tests_are_read() -> None:
    archive = Container(sb3_archive())
    assert list(archive) == ["data", "policy.pth", "_stable_baselines3_version", "system_info.txt"]
    inner = records(bytes(archive.read("policy.pth")))
    assert inner.read("archive/data/0") == struct.pack("<2f", *POLICY["w"])
    assert inner.entry("archive/data/0").data_offset % 64 == 0


# -- the standard library as an oracle ----------------------------------------------------------------


class Unseekable(io.RawIOBase):
    """Makes zipfile write descriptors."""

    def __init__(self) -> None:
        self.written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.written += data
        return len(data)


MEMBERS = {"data": b'{"a": 1}' * 9, "empty": b"", "b/\u00e9.pth": bytes(range(256)), "folder/": b""}


def zipfile_writes(*, method: int, seekable: bool, force_zip64: bool = False, comment: bytes = b"") -> bytes:
    file: Any = io.BytesIO() if seekable else Unseekable()
    with zipfile.ZipFile(file, "w", method) as opened:
        opened.comment = comment
        for name, content in MEMBERS.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            if name.endswith("/"):
                info.compress_type = zipfile.ZIP_STORED
                opened.writestr(info, b"")
                continue
            with opened.open(info, "w", force_zip64=force_zip64) as member:
                member.write(content)
    return bytes(file.getvalue() if seekable else file.written)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize("force_zip64", [True, False])
@pytest.mark.parametrize("comment", [b"", b"a comment"])
def test_what_zipfile_writes_is_read(method: int, seekable: bool, force_zip64: bool, comment: bytes) -> None:  # noqa: FBT001
    made = zipfile_writes(method=method, seekable=seekable, force_zip64=force_zip64, comment=comment)
    container = Container(made)
    with zipfile.ZipFile(io.BytesIO(made)) as oracle:
        assert list(container) == oracle.namelist()
        assert contents(container) == {name: oracle.read(name) for name in oracle.namelist()} == MEMBERS
        assert [entry.offset for entry in container.entries.values()] == [i.header_offset for i in oracle.infolist()]


@more_examples(100)
@given(
    st.dictionaries(
        st.lists(st.text("abcxyz", min_size=1, max_size=3), min_size=1, max_size=2).map("/".join),
        st.binary(max_size=50),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
)
def test_any_members_that_zipfile_writes_are_read(members: dict[str, bytes], method: int) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    assert contents(records(file.getvalue())) == members


@pytest.mark.parametrize("made", [sb3_archive(), state_dict_zip(POLICY), zipfile_writes(method=8, seekable=False)])
@given(data=st.data())
@more_examples(150)
def test_what_is_accepted_after_random_changes_reads_the_same_with_zipfile(made: bytes, data: st.DataObject) -> None:
    forged = bytearray(made)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(made) - 1))
        forged[at] = data.draw(st.integers(0, 255))
    try:
        read = contents(records(bytes(forged)))
    except SbformatError as error:
        assert is_terminal_safe(str(error))  # noqa: PT017
        return
    with zipfile.ZipFile(io.BytesIO(forged)) as oracle:
        assert {info.filename: oracle.read(info) for info in oracle.infolist()} == read


# -- the ends of the file -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(23))
def test_few_bytes_are_no_zip(size: int) -> None:
    refused(
        (b"PK\x03\x04" + bytes(18))[:size],
        "empty"
        if not size
        else "expected a zip, which starts"
        if size < 4
        else "expected a zip of at least 22 bytes|the end of the zip is missing",
    )


@pytest.mark.parametrize("head", [b"PK\x05\x06", b"PK\x01\x02", b"PK\x03\x05", b"\x80\x02}.", b"GIF8", b"\0\0\0\0"])
def test_a_zip_starts_with_a_local_header(head: bytes) -> None:
    assert refused(head + build_zip(ONE)[4:], "which starts with a local header").offset == 0


def test_an_empty_zip_is_no_archive() -> None:
    refused(build_zip(), "which starts with a local header")


@pytest.mark.parametrize("prefix", [b"MZ", b"PK\x03\x04", b"#!/bin/sh\n", build_zip(ONE)])
def test_nothing_may_lie_before_the_first_member(prefix: bytes) -> None:
    refused(build_zip(ONE, TWO, prefix=prefix), "local header")
    refused(prefix + build_zip(ONE, TWO), "local header|directory")


def test_a_member_before_the_first_listed_one_is_a_gap() -> None:
    assert refused(build_zip(ONE, TWO, order=[1]), "local header").offset == 36


def test_a_member_behind_the_last_listed_one_is_refused() -> None:
    refused(build_zip(ONE, TWO, order=[0]), LOCAL)


@pytest.mark.parametrize("tail", [b"\0", b"\n", b"PK\x05\x06", b"trailing bytes", bytes(70_000)])
def test_nothing_may_lie_behind_the_end_record(tail: bytes) -> None:
    refused(build_zip(ONE, tail=tail), END)


@pytest.mark.parametrize("size", [0, 1, 8, 10, 65_535])
def test_the_comment_ends_exactly_where_the_file_ends(size: int) -> None:
    refused(build_zip(ONE, comment=b"a comment", end={"comment_size": size}), END)


def test_every_truncation_is_refused_although_the_members_are_zips_themselves() -> None:
    archive = sb3_archive()
    for size in range(len(archive)):
        with pytest.raises(ContainerError):
            Container(archive[:size])


@pytest.mark.parametrize("behind", [b"", b"x", bytes(22)])
def test_the_comment_may_not_hold_a_second_signature(behind: bytes) -> None:
    refused(build_zip(ONE, comment=b"PK\x05\x06" + behind), END)


def test_two_end_records_that_both_end_the_file_are_refused() -> None:
    good = build_zip(ONE)
    inner = good[-22:]
    refused(build_zip(ONE, comment=inner), END + "|directory")
    refused(build_zip(ONE, comment=inner[:20] + b"\x01\0" + b"x"), END + "|directory")


@pytest.mark.parametrize(
    ("forged", "match"),
    [
        ({"disk": 1}, "disk numbers 1 and 0"),
        ({"start_disk": 1}, "disk numbers 0 and 1"),
        ({"disk": MAX16, "start_disk": MAX16}, "disk numbers 65535 and 65535"),
        ({"count_here": 1}, "on this disk and in total, got 1 and 2"),
        ({"count": 3}, "on this disk and in total, got 2 and 3"),
        ({"count": 1, "count_here": 1}, "1 records to fill the directory, got 56 bytes more"),
        ({"count": 3, "count_here": 3}, "too small for 3|expected 3 records"),
        ({"count": 0, "count_here": 0}, "0 records to fill the directory, got 106 bytes more"),
        ({"count": 60_000, "count_here": 60_000}, "too small for 60000"),
        ({"count": MAX16, "count_here": MAX16}, "expected a zip64 end record, .* got none"),
        ({"length": MAX32}, "expected a zip64 end record, .* got none"),
        ({"start": MAX32}, "expected a zip64 end record, .* got none"),
        ({"length": 0}, "expected the directory to end at byte"),
        ({"start": 0}, "expected the directory to end at byte"),
        ({"start": 0, "length": 0}, "expected the directory to end at byte"),
        ({"length": MAX32 - 1}, "expected the directory to end at byte"),
        ({"start": MAX32 - 1}, "expected the directory to end at byte"),
    ],
    ids=str,
)
def test_a_forged_end_record_is_refused(forged: Forged, match: str) -> None:
    made = build_zip(ONE, TWO, end=forged)
    assert refused(made, match).offset is not None


def test_the_directory_ends_where_the_end_record_starts() -> None:
    refused(build_zip(ONE, behind_directory=b"\0"), "expected the directory to end at byte")
    refused(build_zip(ONE, behind_directory=b"\0" * 56, zip64=True), "expected the directory to end at byte")


@pytest.mark.parametrize(
    ("forged", "match"),
    [
        ({"signature": b"PK\x06\x05"}, "expected a zip64 end record of 56 bytes"),
        ({"record_size": 43}, "expected a zip64 end record of 56 bytes"),
        ({"record_size": 45}, "expected a zip64 end record of 56 bytes"),
        ({"record_size": 2**64 - 1}, "expected a zip64 end record of 56 bytes"),
        ({"disk": 1}, "disk numbers 1 and 0, 2 and 2 entries"),
        ({"start_disk": 1}, "disk numbers 0 and 1, 2 and 2 entries"),
        ({"count_here": 1}, "disk numbers 0 and 0, 1 and 2 entries"),
        ({"count": 3}, "disk numbers 0 and 0, 2 and 3 entries"),
        ({"count": 1, "count_here": 1}, "expected 1 in the end record, as in the zip64 end record, got 2"),
        ({"length": 1}, "expected 1 in the end record"),
        ({"start": 1}, "expected 1 in the end record"),
    ],
    ids=str,
)
def test_a_forged_zip64_record_is_refused(forged: Forged, match: str) -> None:
    assert refused(build_zip(ONE, TWO, zip64=True, zip64_end=forged), match).offset is not None


@pytest.mark.parametrize(
    ("forged", "match"),
    [
        ({"disk": 1}, "disk number 1 of 1"),
        ({"disks": 2}, "disk number 0 of 2"),
        ({"record_at": 0}, "directly before its locator, got 0"),
        ({"record_at": 2**64 - 1}, "directly before its locator, got 18446744073709551615"),
        ({"signature": b"PK\x06\x08"}, "expected the directory to end at byte"),
    ],
    ids=str,
)
def test_a_forged_zip64_locator_is_refused(forged: Forged, match: str) -> None:
    assert refused(build_zip(ONE, TWO, zip64=True, locator=forged), match).offset is not None


@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
@pytest.mark.parametrize("fields", [("count", "count_here"), ("length",), ("start",)])
def test_absurd_numbers_in_the_zip64_record_are_refused_before_anything_is_made(
    fields: tuple[str, ...], value: int
) -> None:
    end = {"count": MAX16, "count_here": MAX16, "length": MAX32, "start": MAX32}
    refused(
        build_zip(ONE, zip64=True, end=end, zip64_end=dict.fromkeys(fields, value)),
        "expected the directory to end at byte|too small for",
    )


def test_a_locator_without_room_for_its_record_is_refused() -> None:
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, 0, 1)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0, 0, 0, 0, 0)
    refused(b"PK\x03\x04" + locator + end, "directly before its locator, got 0")


# -- the directory ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forged", "match"),
    [
        ({"signature": b"PK\x01\x03"}, "expected the signature of a directory record"),
        ({"flags": 0x1}, "unsupported flags 0x0001"),
        ({"flags": 0x20}, "flags 0x0020"),
        ({"flags": 0x40}, "flags 0x0040"),
        ({"flags": 0x2000}, "flags 0x2000"),
        ({"method": 1}, r"\(deflated\), got 1$"),
        ({"method": 9}, r"\(deflated\), got 9$"),
        ({"method": 12}, r"\(deflated\), got 12$"),
        ({"method": 14}, r"\(deflated\), got 14$"),
        ({"method": 93}, r"\(deflated\), got 93$"),
        ({"method": 99}, r"\(deflated\), got 99$"),
        ({"size": 11}, "stored member, got 10 compressed and 11 inflated"),
        ({"compressed": 9}, "stored member, got 9 compressed"),
        ({"disk": 1}, "expected a member on disk 0"),
        ({"disk": MAX16}, "expected a member on disk 0"),
        ({"size": MAX32, "compressed": MAX32}, "expected a zip64 extra of"),
        ({"offset": MAX32}, "expected a zip64 extra of"),
        ({"name_size": 9}, "record"),
        ({"name_size": 11}, "the directory ends"),
        ({"name_size": MAX16}, "the directory ends"),
        ({"extra_size": 1}, "the directory ends"),
        ({"extra_size": MAX16}, "the directory ends"),
        ({"comment_size": 1}, "the directory ends"),
        ({"comment_size": MAX16}, "the directory ends"),
    ],
    ids=str,
)
def test_a_forged_directory_record_is_refused(forged: Forged, match: str) -> None:
    member = Member(TWO.name, TWO.data, central=forged)
    assert refused(build_zip(ONE, member), match).offset is not None


@pytest.mark.parametrize("flag", [1 << bit for bit in range(16) if 1 << bit not in (0x2, 0x4, 0x8, 0x800)])
def test_any_other_flag_is_refused_even_when_both_headers_have_it(flag: int) -> None:
    refused(build_zip(Member(b"data", b"{}", flags=flag)), f"flags {flag:#06x}")


@pytest.mark.parametrize(
    ("central_extra", "forged"),
    [
        (zip64_field(10, 10), {}),  # nothing asks for it
        (zip64_field(10), {"size": MAX32, "compressed": MAX32}),
        (zip64_field(10, 10, 36), {"size": MAX32, "compressed": MAX32}),
        (extra_field(1, b""), {"offset": MAX32}),
        (extra_field(1, bytes(7)), {"offset": MAX32}),
        (extra_field(1, bytes(12)), {"offset": MAX32}),
    ],
)
def test_the_zip64_extra_of_the_directory_holds_what_its_record_asks_for(central_extra: bytes, forged: Forged) -> None:
    refused(
        build_zip(ONE, Member(TWO.name, TWO.data, central_extra=central_extra, central=forged)),
        "expected a zip64 extra of",
    )


@pytest.mark.parametrize("value", [9, 11, 2**64 - 1])
def test_wide_sizes_are_held_to_the_file_too(value: int) -> None:
    forged = {"size": MAX32, "compressed": MAX32}
    refused(build_zip(ONE, Member(TWO.name, TWO.data, central_extra=zip64_field(value, value), central=forged)), LOCAL)


@pytest.mark.parametrize("side", ["extra", "central_extra"])
@pytest.mark.parametrize(
    ("extra", "match"),
    [
        (b"\x55", "extra field .* got"),
        (b"\x55\x54\x01", "extra field .* got"),
        (b"\x55\x54\x05\x00abcd", "extra field .* got"),
        (b"\x55\x54\xff\xffabcd", "extra field .* got"),
        (extra_field(0x5455, b"a") + b"\0", "extra field .* got"),
        (extra_field(0x5455, b"a") * 2, "0x5455 is repeated"),
        (zip64_field(10, 10) * 2, "is repeated"),
        (extra_field(0x7075, b"\x01" + struct.pack("<I", zlib.crc32(TWO.name)) + b"other"), "another name"),
        (extra_field(0x7075, b""), "another name"),
        (extra_field(0x7075, b"\x01\0\0\0\0"), "another name"),
        (extra_field(0x7075, b"\x01\0\0\0\0" + TWO.name + b"\0"), "another name"),
        (pad(4) + b"\x01\x00", "extra field .* got"),
    ],
)
def test_extra_fields_are_well_formed_and_none_stands_twice(side: str, extra: bytes, match: str) -> None:
    headers: dict[str, Any] = {side: extra}
    assert refused(build_zip(ONE, Member(TWO.name, TWO.data, **headers)), match).offset is not None


# -- names and kinds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [b"", b"\xff", b"a\0b", b"a\nb", b"\x1b[31m", "\u202e".encode(), b"x" * 1025, b"\x7f"])
def test_names_are_printable_utf8_of_1_to_1024_bytes(name: bytes) -> None:
    error = refused(build_zip(ONE, Member(name, b"x")), "name", names="record")
    assert error.offset == 36


def test_two_members_of_one_name_are_refused() -> None:
    refused(build_zip(ONE, Member(b"data", b"[]")), "two members named 'data'")
    refused(build_zip(ONE, order=[0, 0]), LOCAL + "|two members")


@pytest.mark.parametrize("name", [b"/etc/passwd", b"../up", b"a\\b", b"C:x", b"nul", b"a//b", b"a."])
def test_names_of_an_archive_are_fit_to_be_paths_and_names_of_records_need_not_be(name: bytes) -> None:
    made = build_zip(Member(name, b"x"))
    refused(made, "the name")
    assert contents(records(made)) == {name.decode(): b"x"}
    with pytest.raises(ContainerError):
        records(made).require_paths()


@pytest.mark.parametrize("names", [(b"data", b"DATA"), (b"a", b"a/b"), ("\u00e9".encode(), "e\u0301".encode())])
def test_names_of_an_archive_do_not_meet(names: tuple[bytes, bytes]) -> None:
    made = build_zip(*[Member(name, flags=UTF8_FLAG) for name in names])
    refused(made, "are equal when case is folded|is inside the file")
    assert len(records(made)) == 2


@pytest.mark.parametrize("flags", [0, UTF8_FLAG])
def test_names_are_utf8_whatever_their_flag_says(flags: int) -> None:
    assert list(Container(build_zip(Member("\u00e9.pth".encode(), b"x", flags=flags)))) == ["\u00e9.pth"]


@pytest.mark.parametrize("kind", [0o120000, 0o020000, 0o060000, 0o010000, 0o140000, 0o040000, 0o170000])
@pytest.mark.parametrize("system", [3, 19])
def test_links_devices_and_folders_without_a_slash_are_refused(kind: int, system: int) -> None:
    member = Member(b"data", b"{}", central={"made_by": system << 8, "attributes": (kind | 0o644) << 16})
    refused(build_zip(member), "attributes of a regular file for 'data'")


def test_a_file_with_a_slash_behind_its_name_is_refused() -> None:
    refused(
        build_zip(Member(b"folder/", central={"attributes": 0o100644 << 16})), "attributes of a folder for 'folder/'"
    )


@pytest.mark.parametrize("system", [0, 3, 10])
def test_a_file_that_dos_attributes_call_a_folder_is_refused_since_torch_would_read_nothing(system: int) -> None:
    member = Member(b"archive/data/0", bytes(8), central={"made_by": system << 8, "attributes": 0x10})
    refused(build_zip(member), "attributes of a regular file", names="record")


@pytest.mark.parametrize("member", [Member(b"folder/", b"x"), Member(b"folder/", b"", method=DEFLATED)])
def test_a_folder_with_content_is_refused(member: Member) -> None:
    refused(build_zip(member), "the folder 'folder/' to be empty")


# -- local headers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forged", "match"),
    [
        ({"signature": b"PK\x03\x05"}, LOCAL),
        ({"flags": UTF8_FLAG}, LOCAL),
        ({"flags": 0x8}, LOCAL),
        ({"method": 8}, LOCAL),
        ({"crc": 0}, LOCAL),
        ({"crc": 1}, LOCAL),
        ({"compressed": 0}, LOCAL),
        ({"compressed": 9}, LOCAL),
        ({"size": 0}, LOCAL),
        ({"size": 11}, LOCAL),
        ({"crc": 0, "compressed": 0, "size": 0}, LOCAL),
        ({"compressed": MAX32, "size": MAX32}, LOCAL),
        ({"name_size": 9}, LOCAL),
        ({"name_size": 11}, LOCAL),
        ({"name_size": 0}, LOCAL),
        ({"name_size": MAX16}, LOCAL),
        ({"extra_size": 1}, LOCAL),
        ({"extra_size": MAX16}, LOCAL),
    ],
    ids=str,
)
@pytest.mark.parametrize("first", [True, False])
def test_a_forged_local_header_is_refused(forged: Forged, match: str, first: bool) -> None:  # noqa: FBT001
    if first and "signature" in forged:
        match = "which starts with"
    member = Member(TWO.name, TWO.data, local=forged)
    assert refused(build_zip(*((member, ONE) if first else (ONE, member))), match).offset is not None


@pytest.mark.parametrize("name", [b"Policy.pth", b"policy.ptx", b"policy_pth"])
def test_the_local_name_equals_the_directorys(name: bytes) -> None:
    refused(build_zip(ONE, Member(TWO.name, TWO.data, local_name=name)), LOCAL)


def test_gaps_between_members_are_refused() -> None:
    gap = Member(b"data", b"{}", behind=b"\0")
    refused(build_zip(gap, TWO), "after 'data', got 1 other bytes")
    refused(build_zip(TWO, gap), "after 'data', got 1 other bytes")


def test_a_hidden_member_between_two_is_refused() -> None:
    hidden = Member(b"policy.pth", b"hidden")
    cover = Member(b"data", b"{}", behind=hidden.local_header() + hidden.content())
    refused(build_zip(cover, TWO), "after 'data', got .* other bytes")


def test_a_member_inside_another_is_refused() -> None:
    inner = TWO.local_header() + TWO.content()
    outer = Member(b"data", inner)
    directory = outer.central_record(0) + TWO.central_record(34)
    refused(build_zip(outer, TWO, directory=directory), LOCAL)
    body = outer.local_header() + outer.content()
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 2, 2, len(directory), len(body), 0)
    refused(body + directory + end, LOCAL)


def test_two_records_that_share_one_local_header_are_refused() -> None:
    directory = ONE.central_record(0) + Member(b"date", b"{}").central_record(0)
    body = ONE.local_header() + ONE.content()
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 2, 2, len(directory), len(body), 0)
    refused(body + directory + end, LOCAL)


def test_two_members_that_overlap_are_refused() -> None:
    made = build_zip(ONE, TWO)
    refused(made.replace(TWO.central_record(36), TWO.central_record(35)), LOCAL)
    refused(made.replace(TWO.central_record(36), TWO.central_record(37)), LOCAL)


@pytest.mark.parametrize("offset", [MAX32 - 1, 10_000])
def test_an_offset_past_the_file_is_refused(offset: int) -> None:
    refused(build_zip(ONE, Member(TWO.name, TWO.data, central={"offset": offset})), LOCAL)


@pytest.mark.parametrize(
    "extra", [zip64_field(36), zip64_field(10, 0), zip64_field(10, 0, 36), zip64_field(10, 10, 36)]
)
def test_torch_writes_size_zero_and_offset_into_the_local_extra_past_4_gib(extra: bytes) -> None:
    made = build_zip(ONE, Member(TWO.name, TWO.data, descriptor="64", extra=extra))
    assert contents(Container(made)) == {"data": b"{}", "policy.pth": TWO.data}


@pytest.mark.parametrize(
    ("extra", "local", "match"),
    [
        (zip64_field(10), {"compressed": MAX32, "size": MAX32}, "expected offset 36 in the zip64 extra"),
        (zip64_field(36), {"compressed": MAX32, "size": MAX32}, "differs"),
        (zip64_field(10, 10, 0), {"compressed": MAX32, "size": MAX32}, "expected offset 36 in the zip64 extra"),
        (zip64_field(9, 10, 36), {}, "differs"),
        (zip64_field(10, 10, 36, 0), {}, "expected a zip64 extra of 8, 16 or 24 bytes"),
        (extra_field(1, b""), {}, "expected a zip64 extra of 8, 16 or 24 bytes"),
        (zip64_field(11, 11), {"compressed": MAX32, "size": MAX32}, "differs"),
        (zip64_field(9, 10), {"compressed": MAX32, "size": MAX32}, "differs"),
        (zip64_field(9, 10), {}, "zip64 extra of 'policy.pth' differs"),
        (zip64_field(10, 9), {}, "zip64 extra of 'policy.pth' differs"),
        (zip64_field(0, 0), {}, "zip64 extra of 'policy.pth' differs"),
        (zip64_field(10, 10), {"compressed": MAX32}, "differs"),
        (zip64_field(10, 10), {"size": MAX32}, "differs"),
        (zip64_field(0, 0), {"compressed": MAX32, "size": MAX32}, "differs"),
    ],
)
def test_a_forged_local_zip64_extra_is_refused(extra: bytes, local: Forged, match: str) -> None:
    refused(build_zip(ONE, Member(TWO.name, TWO.data, extra=extra, local=local)), match)


@pytest.mark.parametrize(
    "local",
    [{"crc": 1}, {"size": 9}, {"compressed": 11}, {"compressed": 9, "size": 10}, {"crc": 1, "size": 10}],
)
def test_with_a_descriptor_a_local_value_is_zero_or_equal(local: Forged) -> None:
    refused(build_zip(Member(TWO.name, TWO.data, descriptor="32", local=local)), LOCAL)


def test_the_finder_of_macos_writes_the_size_alone() -> None:
    files = {"data": b"{}" * 40, "system_info.txt": b"- OS: macOS\n"}
    members = [
        Member(name.encode(), data, method=DEFLATED, descriptor="32", local={"size": len(data)})
        for name, data in files.items()
    ]
    container = Container(BytesSource(build_zip(*members)))
    assert {name: bytes(container.read(name)) for name in container} == files
    for member in members:
        refused(build_zip(replace(member, descriptor="", local={"crc": 0, "compressed": 0})), LOCAL)


def descriptor(layout: str = "<4s3I", **forged: Any) -> bytes:
    facts = {"signature": b"PK\x07\x08", "crc": zlib.crc32(TWO.data), "compressed": 10, "size": 10, **forged}
    return struct.pack(layout, *facts.values())


@pytest.mark.parametrize(
    "bad",
    [
        descriptor()[4:],  # without its signature, as the specification allows and nobody we read writes
        descriptor("<4sI2Q")[4:],
        descriptor(signature=b"PK\x07\x09"),
        descriptor(crc=0),
        descriptor(compressed=9),
        descriptor(size=11),
        descriptor("<4sI2Q", size=2**32 + 10),
        descriptor() + b"\0",
        descriptor()[:-1],
        descriptor() + bytes(8),
        descriptor() * 2,
    ],
)
@pytest.mark.parametrize("last", [True, False])
def test_a_descriptor_that_does_not_agree_with_the_directory_is_refused(bad: bytes, last: bool) -> None:  # noqa: FBT001
    member = Member(TWO.name, TWO.data, descriptor=bad)
    refused(build_zip(*((ONE, member) if last else (member, ONE))), "expected a data descriptor after")


def test_a_missing_descriptor_is_refused() -> None:
    zeros = {"crc": 0, "compressed": 0, "size": 0}
    refused(build_zip(Member(TWO.name, TWO.data, flags=0x8, local=zeros)), "expected a data descriptor after")


def test_a_descriptor_without_its_flag_is_refused() -> None:
    refused(build_zip(Member(TWO.name, TWO.data, behind=descriptor())), "got 16 other bytes")


# -- member bytes -------------------------------------------------------------------------------------


def test_damaged_bytes_are_seen_by_their_crc_in_every_way_to_read_them() -> None:
    made = changed(build_zip(ONE, TWO), b"0123456789", b"0123456780")
    container = Container(made)
    assert container.read("data") == b"{}"
    for _ in range(2):
        with pytest.raises(ContainerError, match=r"expected CRC-32 0x[0-9a-f]{8}, got 0x[0-9a-f]{8}") as caught:
            container.read("policy.pth")
        assert caught.value.entry == "policy.pth"
    chunks = container.stream("policy.pth", 4)
    assert [bytes(next(chunks)) for _ in range(3)] == [b"0123", b"4567", b"80"]
    with pytest.raises(ContainerError, match="CRC-32"):
        next(chunks)


def test_a_view_of_a_stored_member_is_handed_out_unchecked_for_those_who_check_inside() -> None:
    made = changed(build_zip(TWO), b"0123456789", b"0123456780")
    assert Container(made).view("policy.pth") == b"0123456780"


def test_damaged_deflated_bytes_are_seen_in_every_way_to_read_them() -> None:
    crc = zlib.crc32(b"a" * 100) ^ 1
    forged = {"crc": crc}
    container = Container(build_zip(Member(b"x", b"a" * 100, method=DEFLATED, local=forged, central=forged)))
    for read in (container.read, container.view, lambda name: list(container.stream(name))):
        with pytest.raises(ContainerError, match="CRC-32"):
            read("x")


CONTENT = b"0123456789" * 20


@pytest.mark.parametrize(
    ("stored", "size", "match"),
    [
        (deflate(CONTENT)[:-1], 200, r"does not end within its \d+ bytes|damaged"),
        (deflate(CONTENT) + b"\0", 200, "expected a deflate stream of"),
        (deflate(CONTENT) * 2, 200, "expected a deflate stream of"),
        (deflate(CONTENT), 199, "expected 199 inflated bytes, got more"),
        (deflate(CONTENT), 201, "expected 201 inflated bytes, got 200"),
        (deflate(CONTENT), 0, "expected 0 inflated bytes, got more"),
        (b"\x07" + deflate(CONTENT)[1:], 200, "damaged"),
        (b"", 200, "does not end within its 0 bytes"),
        (b"", 0, "does not end within its 0 bytes"),
        (zlib.compress(CONTENT), 200, "damaged"),
        (b"\x03\x00" + deflate(CONTENT), 200, "expected a deflate stream of"),
    ],
)
def test_a_deflate_stream_ends_exactly_at_both_sizes(stored: bytes, size: int, match: str) -> None:
    forged = {"size": size}
    member = Member(b"x", CONTENT, method=DEFLATED, stored=stored, local=forged, central=forged)
    for made in (build_zip(member), build_zip(member, ONE)):
        assert refused(made, match).entry == "x"
        with pytest.raises(ContainerError):
            list(Container(made).stream("x", 7))


@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK, *range(CHUNK + 1, CHUNK + 300, 13), 2 * CHUNK + 100, 4 * CHUNK])
def test_zeros_are_inflated_to_any_size_around_that_of_a_chunk(size: int) -> None:
    content = bytes(size)
    assert Container(build_zip(Member(b"x", content, method=DEFLATED))).read("x") == content


def test_parts_of_a_deflated_member_have_the_requested_size() -> None:
    content = bytes(range(251)) * 3000 + random.Random(0).randbytes(20_000)  # noqa: S311 -- no secret
    made = build_zip(Member(b"x", content, method=DEFLATED))
    source = InflatedSource(BytesSource(made), Container(made).entry("x"), Budget(Limits()))
    for offset, length in ((0, 10), (5, CHUNK + 7), (3, len(content)), (len(content) - 3, 10), (len(content), 1)):
        assert source.view(offset, length) == content[offset : offset + length]


@pytest.mark.parametrize("chunk_bytes", [1, 2, 7, 258, 259, 1000])
def test_repetitive_bytes_are_streamed_in_chunks_of_any_size(chunk_bytes: int) -> None:
    content = b"ab" * 700
    container = Container(build_zip(Member(b"x", content, method=DEFLATED)))
    assert b"".join(container.stream("x", chunk_bytes)) == content


def test_stored_deflate_blocks_larger_than_a_chunk_are_inflated() -> None:
    packer = zlib.compressobj(0, zlib.DEFLATED, -zlib.MAX_WBITS)
    content = bytes(range(256)) * 1200
    stored = packer.compress(content) + packer.flush()
    assert len(stored) > CHUNK
    assert Container(build_zip(Member(b"x", content, method=DEFLATED, stored=stored))).read("x") == content


# -- CRCs that were never saved -----------------------------------------------------------------------

ZEROS = {"crc": 0}
UNCHECKED = build_zip(
    Member(b"a/x", b"0123", local=ZEROS, central=ZEROS), Member(b"a/y", b"45", local=ZEROS, central=ZEROS)
)


def test_a_zip_without_crcs_is_refused_with_the_keyword_that_reads_it() -> None:
    assert refused(UNCHECKED, "unchecked_crc=True").entry == "a/x"


def test_unchecked_crc_reads_a_zip_whose_crcs_are_all_zero() -> None:
    container = Container(UNCHECKED, unchecked_crc=True)
    assert contents(container) == {"a/x": b"0123", "a/y": b"45"}
    assert b"".join(container.stream("a/x", 3)) == b"0123"


def test_unchecked_crc_changes_nothing_where_any_crc_was_saved() -> None:
    mixed = build_zip(Member(b"a/x", b"0123", local=ZEROS, central=ZEROS), Member(b"a/y", b"45"))
    container = Container(mixed, unchecked_crc=True)
    assert container.read("a/y") == b"45"
    with pytest.raises(ContainerError, match="expected CRC-32"):
        container.read("a/x")


def test_an_empty_member_has_the_crc_zero() -> None:
    assert contents(Container(build_zip(Member(b"empty", b"")))) == {"empty": b""}


# -- limits -------------------------------------------------------------------------------------------


def limit_of(data: bytes, **limits: int) -> LimitError:
    with pytest.raises(LimitError) as caught:
        contents(Container(data, limits=Limits(**limits)))
    assert is_terminal_safe(str(caught.value))
    return caught.value


def test_entries_are_counted_before_they_are_read() -> None:
    made = build_zip(ONE, TWO)
    assert len(Container(made, limits=Limits(outer_entries=2))) == 2
    assert limit_of(made, outer_entries=1).actual == 2
    assert len(records(made, limits=Limits(inner_entries=2, outer_entries=1))) == 2
    with pytest.raises(LimitError) as caught:
        records(made, limits=Limits(inner_entries=1))
    assert caught.value.limit == "inner_entries"


@pytest.mark.parametrize("most", with_exhaustive([100], [65_536]))
def test_a_directory_of_65536_entries_is_within_the_default_limits_and_one_more_is_not(most: int) -> None:
    assert Limits().inner_entries == 65_536
    limits = Limits(inner_entries=most)

    def many(count: int) -> bytes:
        header = Member(b"").local_header()[:26] + struct.pack("<2H", 5, 0)
        record = Member(b"").central_record(0)[:28] + struct.pack("<4HI", 5, 0, 0, 0, 0)
        names = [b"%05x" % index for index in range(count)]
        body = b"".join([header + name for name in names])
        directory = b"".join([record + bytes(2) + struct.pack("<I", i * 35) + name for i, name in enumerate(names)])
        order = [0] * count
        sentinels = {"count": MAX16, "count_here": MAX16}
        forged = {"count": count, "count_here": count}
        return build_zip(prefix=body, directory=directory, order=order, zip64=True, end=sentinels, zip64_end=forged)

    assert len(records(many(most), limits=limits)) == most
    with pytest.raises(LimitError):
        records(many(most + 1), limits=limits)


def test_an_inflated_member_is_charged_before_it_is_made() -> None:
    made = build_zip(Member(b"x", b"a" * 100, method=DEFLATED))
    assert Container(made, limits=Limits(member_bytes=100, total_bytes=100)).read("x") == b"a" * 100
    assert limit_of(made, member_bytes=99).limit == "member_bytes"
    assert limit_of(made, total_bytes=99).limit == "total_bytes"


def test_all_members_are_charged_to_one_total() -> None:
    made = build_zip(*[Member(name, b"a" * 100, method=DEFLATED) for name in (b"x", b"y")])
    assert len(contents(Container(made, limits=Limits(total_bytes=200)))) == 2
    assert limit_of(made, total_bytes=199).actual == 200


def test_a_budget_is_shared_with_the_zips_inside() -> None:
    inner = build_zip(Member(b"x", b"a" * 100, method=DEFLATED))
    budget = Budget(Limits(total_bytes=150))
    Container(inner, budget=budget).read("x")
    with pytest.raises(LimitError):
        Container(inner, budget=budget).read("x")


def test_a_stored_member_that_is_viewed_is_not_charged() -> None:
    limits = Limits(member_bytes=1, total_bytes=1)
    assert Container(build_zip(TWO), limits=limits).read("policy.pth") == TWO.data


def test_what_was_refused_once_is_refused_again() -> None:
    container = Container(build_zip(Member(b"x", b"a" * 100, method=DEFLATED)), limits=Limits(member_bytes=99))
    for _ in range(2):
        with pytest.raises(LimitError):
            container.read("x")


@pytest.mark.parametrize("method", [0, DEFLATED])
def test_a_reader_may_cap_a_member(method: int) -> None:
    container = Container(
        build_zip(Member(b"data", b"x" * 10, method=method)), limits=Limits(version_bytes=9, json_bytes=10)
    )
    assert container.read("data", limit="json_bytes") == b"x" * 10
    with pytest.raises(LimitError) as caught:
        container.read("data", limit="version_bytes")
    assert (caught.value.limit, caught.value.actual) == ("version_bytes", 10)


def test_a_member_above_one_mib_may_be_200_times_smaller_and_no_more() -> None:
    content = bytes(1 << 20)
    assert Container(build_zip(Member(b"x", content, method=DEFLATED))).read("x") == content
    member = Member(b"x", content + b"\0", method=DEFLATED)
    ratio = -(-len(member.data) // len(member.content()))
    assert limit_of(build_zip(member)).limit == "ratio"
    assert limit_of(build_zip(member), ratio=ratio - 1).actual == ratio
    assert len(Container(build_zip(member), limits=Limits(ratio=ratio)).read("x")) == (1 << 20) + 1


def test_reading_a_member_again_costs_nothing_again() -> None:
    container = Container(build_zip(Member(b"x", b"a" * 100, method=DEFLATED)), limits=Limits(total_bytes=250))
    for _ in range(3):
        assert container.read("x") == b"a" * 100


class Sparse:
    """A huge file with holes, mapped: whoever views much of it at once would fill the memory."""

    def __init__(self, head: bytes, tail: bytes, size: int) -> None:
        self.head = head
        self.tail = tail
        self.size = size

    def view(self, offset: int, length: int) -> memoryview:
        assert length <= 1 << 20, "viewed at once"
        whole = bytearray(length)
        for at, part in ((0, self.head), (self.size - len(self.tail), self.tail)):
            first, last = max(offset, at), min(offset + length, at + len(part))
            if first < last:
                whole[first - offset : last - offset] = part[first - at : last - at]
        return memoryview(bytes(whole))


def test_a_hole_of_gigabytes_in_the_file_is_refused_before_it_is_read() -> None:
    head = ONE.local_header() + ONE.content()
    directory = ONE.central_record(0)
    start = (1 << 32) - 1000
    end = {"signature": b"PK\x05\x06", "count": 1, "count_here": 1, "length": len(directory), "start": start}
    tail = directory + build_zip(order=[0], directory=b"", end=end)
    with pytest.raises(SbformatError):
        Container(Sparse(head, tail, start + len(tail)))


def test_a_directory_of_gigabytes_is_refused_before_it_is_read() -> None:
    head = ONE.local_header() + ONE.content()
    length = (1 << 32) - 1000
    tail = build_zip(order=[0], directory=b"", end={"length": length, "start": len(head)})
    with pytest.raises(SbformatError):
        Container(Sparse(head, tail, len(head) + length + len(tail)))


# -- laws ---------------------------------------------------------------------------------------------


@more_examples(100)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_container_or_a_container_error(data: bytes) -> None:
    for given_bytes in (data, b"PK\x03\x04" + data, b"PK\x03\x04" + data + build_zip(ONE)[-22:]):
        with pytest.raises(ContainerError) as caught:
            Container(given_bytes)
        assert is_terminal_safe(str(caught.value))


@pytest.mark.parametrize("hostile", [f"a{c}b" for c in ("\x1b[31m", "\n", *BIDI)])
def test_hostile_names_are_escaped_in_every_message_that_shows_them(hostile: str) -> None:
    name = hostile.encode()
    for bad in (
        Member(name, b"x"),
        Member(name, b"x", local={"crc": 1}),
        Member(name, b"x", local={"flags": 0x2}),
        Member(name, b"x", local={"signature": b"PK\x03\x05"}),
        Member(name, b"x", behind=b"x"),
        Member(name, b"x", descriptor=b"PK\x07\x08"),
        Member(name, b"x", extra=zip64_field(1)),
        Member(name, b"x", central={"attributes": 0o120644 << 16}),
        Member(name, b"x", central={"offset": 5}),
    ):
        refused(build_zip(ONE, bad), ".")
