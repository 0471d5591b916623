"""A zip that is fetched by ranges: its local headers are read when a member is used, and what was not is listed."""

from __future__ import annotations

import struct

import pytest

from conformance.generators.build_zips import DEFLATED, Member, build_zip
from sbformat.container.layout import NOT_READ
from sbformat.container.reader import Container, Unchecked
from sbformat.errors import ContainerError, MissingEntryError
from sbformat.io.remote.source import RemoteSource
from sbformat.io.source import find_ranged, is_by_range, slice_source
from tests.helpers.large_agents import make_many_tensors
from tests.helpers.recorded_file import RecordedFile

LARGE = bytes(range(256)) * 1000
MEMBERS = (
    Member(b"data", b"{}"),
    Member(b"first", LARGE),
    Member(b"deflated", LARGE, method=DEFLATED),
    Member(b"described", LARGE, descriptor="32"),
    Member(b"last", LARGE),
)
DATA = build_zip(*MEMBERS)
LOCAL = Container(DATA)


def open_ranged(data: bytes = DATA) -> tuple[RecordedFile, Container]:
    file = RecordedFile(data)
    return file, Container(RemoteSource(file))


def replace(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def test_opening_reads_no_local_header() -> None:
    file, container = open_ranged()
    last = LOCAL.entries["last"]
    assert all(stop <= 1 << 14 or start >= last.data_offset for start, stop in file.ranges)
    assert list(container) == list(LOCAL)
    for name, entry in container.entries.items():
        assert entry == LOCAL.entries[name]._replace(data_offset=NOT_READ)


@pytest.mark.parametrize("name", LOCAL.entries)
def test_a_member_is_the_same_once_it_is_used(name: str) -> None:
    expected = bytes(LOCAL.read(name))
    for use in (
        lambda container: container.read(name),
        lambda container: b"".join(container.stream(name)),
        lambda container: b"".join(container.stream(name, 1000)),
        lambda container: b"".join(container.span(name, 0, len(expected))),
        lambda container: container.source(name).view(0, len(expected)),
        lambda container: b"".join(container.member(name).chunks()),
    ):
        container = open_ranged()[1]
        assert bytes(use(container)) == expected  # type: ignore[no-untyped-call]
        assert container.entry(name) == LOCAL.entry(name)
    assert bytes(container.raw(name)) == bytes(LOCAL.raw(name))


def test_a_missing_member_is_missing() -> None:
    with pytest.raises(MissingEntryError, match="frist"):
        open_ranged()[1].entry("frist")


def test_what_was_not_checked_is_listed_until_it_is() -> None:
    container = open_ranged()[1]
    assert container.list_unchecked() == [Unchecked(name, header=True, crc=True) for name in container]
    container.entry("first")
    container.read("deflated")
    container.view("described")
    assert container.list_unchecked() == [
        Unchecked("data", header=True, crc=True),
        Unchecked("first", header=False, crc=True),
        Unchecked("described", header=False, crc=True),
        Unchecked("last", header=True, crc=True),
    ]
    container.check_rest()
    assert container.list_unchecked() == []


def test_a_part_of_a_stream_is_not_checked() -> None:
    container = open_ranged()[1]
    next(container.stream("first", 1000))
    assert Unchecked("first", header=False, crc=True) in container.list_unchecked()


def test_nothing_is_listed_of_a_zip_in_memory() -> None:
    assert Container(DATA).list_unchecked() == []
    whole = Container(RemoteSource(RecordedFile(DATA, whole=True)).load())
    assert whole.list_unchecked() == []


def test_a_computed_crc_that_is_wrong_does_not_count_as_checked() -> None:
    """The CRC of a zip within a zip is made of those of its members, before these are compared."""
    inner = build_zip(Member(b"good", LARGE), Member(b"bad", LARGE, local={"crc": 7}, central={"crc": 7}))
    outer = build_zip(Member(b"policy.pth", inner))
    container = open_ranged(outer)[1]
    records = Container(container.source("policy.pth"), names="record")
    container.check_zip("policy.pth", records)
    container.check_deferred(["policy.pth"])
    assert container.list_unchecked() == []
    assert records.list_unchecked() == [Unchecked("bad", header=False, crc=True)]
    with pytest.raises(ContainerError, match="expected CRC-32 0x00000007"):
        records.check_rest()


def test_every_byte_is_fetched_once_to_check_a_zip_within_a_zip() -> None:
    data = make_many_tensors(30, 50_000)
    file, container = open_ranged(data)
    container.prefetch()
    records = Container(container.source("policy.pth"), names="record")
    container.check_zip("policy.pth", records)
    container.check_deferred(["policy.pth"])
    records.check_rest()
    for name in container:
        container.verify(name)
    assert records.list_unchecked() == container.list_unchecked() == []
    assert file.fetched < len(data) + 300_000


# -- faults -------------------------------------------------------------------------------------------

OTHER_HEADERS = {
    "signature": (0, b"PK\x03\x05"),
    "flags": (6, b"\x02\x00"),
    "method": (8, b"\x08\x00"),
    "crc": (14, b"\x01\x02\x03\x04"),
    "stored size": (18, b"\x01\x00\x00\x00"),
    "size": (22, b"\x01\x00\x00\x00"),
    "name size": (26, b"\x03\x00"),
    "extra size": (28, b"\x01\x00"),
    "name": (30, b"lost"),
}


@pytest.mark.parametrize("fault", OTHER_HEADERS)
def test_a_local_header_that_differs_is_refused_when_the_member_is_used(fault: str) -> None:
    at, new = OTHER_HEADERS[fault]
    damaged = replace(DATA, LOCAL.entries["last"].offset + at, new)
    with pytest.raises(ContainerError) as local:
        Container(damaged)
    container = open_ranged(damaged)[1]
    assert bytes(container.read("first")) == LARGE
    assert Unchecked("last", header=True, crc=True) in container.list_unchecked()
    for use in (container.read, container.entry, container.view, container.source, container.verify, container.stream):
        with pytest.raises(ContainerError) as remote:
            use("last")
        assert str(remote.value) == str(local.value)
    with pytest.raises(ContainerError):
        container.check_rest()


def test_a_descriptor_that_differs_is_refused_when_the_member_is_used() -> None:
    entry = LOCAL.entries["described"]
    damaged = replace(DATA, entry.data_offset + entry.size + 5, b"\xff")
    with pytest.raises(ContainerError, match="data descriptor"):
        Container(damaged)
    container = open_ranged(damaged)[1]
    assert any(row.name == "described" and row.header for row in container.list_unchecked())
    with pytest.raises(ContainerError, match="data descriptor"):
        container.read("described")


def test_hidden_bytes_after_a_member_are_refused_when_it_is_used() -> None:
    data = build_zip(Member(b"a", LARGE, behind=b"hidden"), Member(b"b", LARGE))
    with pytest.raises(ContainerError) as local:
        Container(data)
    container = open_ranged(data)[1]
    assert bytes(container.read("b")) == LARGE
    with pytest.raises(ContainerError) as remote:
        container.check_rest()
    assert str(remote.value) == str(local.value)


@pytest.mark.parametrize(
    "data",
    [
        build_zip(Member(b"a", LARGE), Member(b"a", LARGE)),
        build_zip(Member(b"a", LARGE), Member(b"b", LARGE)) + b"x",
        build_zip(Member(b"a", LARGE), Member(b"b", LARGE))[:-1],
        b"x" + build_zip(Member(b"a", LARGE)),
        build_zip(Member(b"../a", LARGE)),
        build_zip(Member(b"a/", LARGE)),
        b"PK\x03\x04" + bytes(100_000),
        b"PK\x03\x04",
        b"PK",
    ],
    ids=range(9),
)
def test_what_the_directory_shows_is_refused_at_opening(data: bytes) -> None:
    with pytest.raises(ContainerError) as local:
        Container(data)
    with pytest.raises(ContainerError) as remote:
        open_ranged(data)
    assert str(remote.value) == str(local.value)


def test_a_member_that_leaves_no_room_for_its_header_is_refused_at_opening() -> None:
    """The directory alone shows it."""
    data = bytearray(build_zip(Member(b"a", b"x" * 40), Member(b"b", LARGE)))
    directory = Container(bytes(data)).entries["b"].data_offset + len(LARGE)
    struct.pack_into("<I", data, directory + 46 + 1 + 42, 20)
    with pytest.raises(ContainerError):
        open_ranged(bytes(data))


def test_damage_is_found_when_a_member_is_read() -> None:
    for name in ("first", "deflated", "described"):
        damaged = replace(DATA, LOCAL.entries[name].data_offset + 50, b"\xff\xfe\xfd")
        container = open_ranged(damaged)[1]
        assert any(row.name == name for row in container.list_unchecked())
        with pytest.raises(ContainerError):
            container.read(name)


# -- slices -------------------------------------------------------------------------------------------


def test_a_slice_of_a_ranged_source_is_one() -> None:
    source = RemoteSource(RecordedFile(DATA))
    part = slice_source(slice_source(source, 100, 5000), 50, 1000)
    assert bytes(part.view(10, 5)) == DATA[160:165]
    assert find_ranged(part) == (source, 150)
    assert is_by_range(part)
    assert not is_by_range(source.load())


def test_where_members_meet_is_fetched_in_one_call() -> None:
    data = make_many_tensors(5, 300_000)
    file, container = open_ranged(data)
    count = len(file.calls)
    container.prefetch()
    assert len(file.calls) == count + 1
    for name in container:
        container.entry(name)
    assert len(file.calls) == count + 1
    inner = Container(container.source("policy.pth"), names="record")
    inner.prefetch()
    Container(data).prefetch()
    assert len(file.calls) == count + 2
