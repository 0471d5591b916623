"""Zips that we write: our strict reader and Python's ``zipfile`` read the same members from them."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_zips import is_terminal_safe
from sbformat.container import writer as zip_writer
from sbformat.container.layout import (
    CENTRAL,
    DESCRIPTOR,
    DESCRIPTOR64,
    END,
    EXTRA,
    LOCAL,
    MAX16,
    MAX32,
    ZIP64_END,
    ZIP64_LOCATOR,
    Member,
)
from sbformat.container.reader import Container
from sbformat.container.writer import ContainerWriter, TorchZip
from sbformat.errors import ContainerError
from tests.helpers.sampling import more_examples, with_exhaustive
from tests.helpers.thresholds import ZIP64_MEMBERS, read_threshold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GIB: Final = 1 << 30


def held(name: str, data: bytes, *, pieces: int = 1) -> Member:
    """A member of bytes that are there already."""
    step = -(-len(data) // pieces) or 1
    return Member(name, len(data), lambda: [data[at : at + step] for at in range(0, len(data), step)])


def outer(members: Mapping[str, bytes], **options: Any) -> bytes:
    """The archive's zip of members."""
    file = io.BytesIO()
    writer = ContainerWriter(file)
    for name, data in members.items():
        writer.add(held(name, data, **options))
    writer.finish()
    return file.getvalue()


def inner(members: Mapping[str, bytes], **options: Any) -> bytes:
    """torch's zip of members, whose size was announced."""
    made = TorchZip([held(name, data, **options) for name, data in members.items()])
    raw = b"".join(made.chunks())
    assert len(raw) == made.size
    return raw


def contents(raw: bytes, names: Any) -> dict[str, bytes]:
    """All members as our strict reader and Python's lenient one read them."""
    container = Container(raw, names=names)
    found = {name: bytes(container.read(name)) for name in container}
    with zipfile.ZipFile(io.BytesIO(raw)) as opened:
        assert opened.testzip() is None
        assert {name: opened.read(name) for name in opened.namelist()} == found
        assert opened.namelist() == list(found)
    return found


class Sparse(io.RawIOBase):
    """A file that keeps headers and forgets members: what is large and zero takes no room."""

    def __init__(self) -> None:
        self.at = self.end = 0
        self.kept: dict[int, bytes] = {}

    def write(self, data: Any) -> int:
        if len(data) < 1 << 16:
            self.kept[self.at] = bytes(data)
        self.at += len(data)
        self.end = max(self.end, self.at)
        return len(data)

    def seek(self, at: int, whence: int = 0) -> int:
        assert whence == 0
        self.at = at
        return at


# -- the archive's zip --------------------------------------------------------------------------------

SOME: Final = {
    "data": b"{}",
    "policy.pth": bytes(range(256)) * 300,
    "empty": b"",
    "folder/": b"",
    "folder/\u00e9\u4e2d\U0001f600": b"unicode",
}


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_members_come_back_in_order(pieces: int) -> None:
    assert contents(outer(SOME, pieces=pieces), "path") == SOME


def test_headers_are_those_of_the_format() -> None:
    """WRITER.md 12.1: stored, version 20, 1980-01-01, no extras, comments and descriptors, 0o600."""
    with zipfile.ZipFile(io.BytesIO(outer(SOME))) as opened:
        assert opened.comment == b""
        for info in opened.infolist():
            assert info.compress_type == zipfile.ZIP_STORED
            assert (info.create_system, info.create_version, info.extract_version) == (3, 20, 20)
            assert (info.date_time, info.extra, info.comment) == ((1980, 1, 1, 0, 0, 0), b"", b"")
            assert info.flag_bits == (0 if info.filename.isascii() else 0x800)
            folder = info.filename.endswith("/")
            assert info.is_dir() == folder
            assert info.external_attr == ((0o40755 << 16 | 0x10) if folder else 0o600 << 16)


def test_python_writes_the_same_bytes() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        for name in ("data", "policy.pth", "empty"):
            opened.writestr(zipfile.ZipInfo(name), SOME[name])
    assert outer({name: SOME[name] for name in ("data", "policy.pth", "empty")}) == file.getvalue()


def test_a_member_whose_crc_is_zero() -> None:
    """A CRC of 0 is a CRC like any other: the local header says it already."""
    data = b"\x9d\x0a\xd9\x6d"
    assert zlib.crc32(data) == 0
    assert contents(outer({"data": data}), "path") == {"data": data}
    assert contents(inner({"archive/data": data, "archive/b": b"b"}), "record")["archive/data"] == data


@pytest.mark.parametrize("size", [0, 1, 2, 4])
def test_a_member_of_another_size_than_announced_is_refused(size: int) -> None:
    """It may be a file that changed meanwhile: nothing of another size is finished."""
    member = Member("data", 3, lambda: [b"x" * size])
    with pytest.raises(ContainerError, match=f"expected 3 bytes, got {size}") as caught:
        ContainerWriter(io.BytesIO()).add(member)
    assert caught.value.entry == "data"
    with pytest.raises(ContainerError, match=f"expected 3 bytes, got {size}") as caught:
        b"".join(TorchZip([member]).chunks())
    assert caught.value.entry == "data"


@pytest.mark.parametrize(
    "name",
    ["", "/a", "../a", "a/../b", "a\\b", "c:a", "a\nb", "a\x00", "con", "NUL.txt", "a.", "a ", "a//b", ".", "\u202ea",
     "\ud800", "x" * 1025, "\uff0e\uff0e/a"],
)  # fmt: skip
def test_names_that_a_reader_refuses_are_not_written(name: str) -> None:
    file = io.BytesIO()
    writer = ContainerWriter(file)
    with pytest.raises(ContainerError) as caught:
        writer.add(held(name, b""))
    assert is_terminal_safe(str(caught.value))
    assert file.getvalue() == b""


@pytest.mark.parametrize("names", [("Data", "data"), ("a", "a/b"), ("\u00e9", "e\u0301"), ("a/", "A")])
def test_names_that_meet_on_some_file_system_are_refused(names: tuple[str, str]) -> None:
    with pytest.raises(ContainerError):
        outer(dict.fromkeys(names, b""))


def test_one_name_twice_is_refused_before_it_is_written() -> None:
    writer = ContainerWriter(io.BytesIO())
    member = held("data", b"{}")
    writer.add(member)
    for again in (member, held("".join(["da", "ta"]), b"")):  # noqa: FLY002 -- another object of the same text
        with pytest.raises(ContainerError, match="two members of this name"):
            writer.add(again)
    writer.finish()


def test_a_folder_with_bytes_and_a_zip_without_members_are_refused() -> None:
    with pytest.raises(ContainerError, match="folder"):
        outer({"folder/": b"x"})
    with pytest.raises(ContainerError, match="at least one entry"):
        outer({})


def test_a_file_that_takes_less_at_a_time_gets_all_of_it() -> None:
    class Slow(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(memoryview(data)[:7])

    file = Slow()
    writer = ContainerWriter(file)
    writer.add(held("data", bytes(range(100))))
    writer.finish()
    assert file.getvalue() == outer({"data": bytes(range(100))})


@pytest.mark.parametrize("least", with_exhaustive([100], [MAX16]))
def test_the_zip64_end_records_stand_from_65535_members_on(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    assert read_threshold(ZIP64_MEMBERS) == MAX16 == 0xFFFF
    monkeypatch.setattr(ZIP64_MEMBERS, least)
    for count in (least - 1, least):
        writer = ContainerWriter(file := io.BytesIO())
        for at in range(count):
            writer.add(held(str(at), b""))
        writer.finish()
        raw = file.getvalue()
        shown = END.unpack(raw[-END.size :])[4]
        locator = raw[-END.size - ZIP64_LOCATOR.size : -END.size]
        assert shown == count
        assert (locator[:4] == b"PK\x06\x07") == (count == least)
        if count == least:
            record = ZIP64_END.unpack(raw[-END.size - ZIP64_LOCATOR.size - ZIP64_END.size :][: ZIP64_END.size])
            assert record[6:8] == (count, count)


NAMES = st.text(st.sampled_from("abz\u00e9\u4e2d_-"), min_size=1, max_size=6).map(lambda text: f"x{text}x")


@given(st.dictionaries(NAMES, st.binary(max_size=200), min_size=1, max_size=6), st.integers(1, 4))
@more_examples(60)
def test_any_members_are_read_back_and_written_the_same_again(members: dict[str, bytes], pieces: int) -> None:
    """What is written is what is read; equal members give equal bytes, however they came."""
    members = {f"{at}{name}": data for at, (name, data) in enumerate(members.items())}
    raw = outer(members)
    assert contents(raw, "path") == members
    assert outer(members, pieces=pieces) == raw
    raw = inner(members)
    assert contents(raw, "record") == members
    assert inner(members, pieces=pieces) == raw


# -- beyond 4 GiB -------------------------------------------------------------------------------------


def giant(name: str, size: int) -> Member:
    """A member of zeros that takes no room."""
    piece = bytes(1 << 24)

    def chunks() -> Iterator[memoryview]:
        for at in range(0, size, len(piece)):
            yield memoryview(piece)[: size - at]

    return Member(name, size, chunks)


@pytest.fixture
def _no_crc(monkeypatch: pytest.MonkeyPatch) -> None:
    """CRCs of gigabytes take seconds, and say nothing about headers."""
    monkeypatch.setattr(zip_writer.zlib, "crc32", lambda data, crc=0: (crc + len(data)) & MAX32)


@pytest.mark.usefixtures("_no_crc")
@pytest.mark.parametrize("size", [MAX32 - 1, MAX32, MAX32 + 1])
def test_an_archive_with_a_member_of_4_gib(size: int) -> None:
    """WRITER.md 12.1: from 0xFFFFFFFF bytes on the sizes stand in zip64 extras, and so do starts and end records."""
    file = Sparse()
    writer = ContainerWriter(file)  # type: ignore[arg-type]
    writer.add(giant("policy.pth", size))
    writer.add(held("last", b"x"))
    writer.finish()
    wide = size >= MAX32
    header = file.kept[0]
    fields = LOCAL.unpack(header[: LOCAL.size])
    assert fields[1] == (45 if wide else 20)
    assert fields[6] == size & MAX32  # the CRC that stands for it here
    assert fields[7:9] == ((MAX32, MAX32) if wide else (size, size))
    extra = header[LOCAL.size + len("policy.pth") :]
    assert extra == (EXTRA.pack(1, 16) + struct.pack("<2Q", size, size) if wide else b"")
    start = LOCAL.size + len("policy.pth") + len(extra) + size
    assert file.kept[start][:4] == b"PK\x03\x04"
    directory = start + LOCAL.size + len("last") + 1
    first = CENTRAL.unpack(file.kept[directory][: CENTRAL.size])
    assert first[2] == (45 if wide else 20)
    assert first[8:10] == ((MAX32, MAX32) if wide else (size, size))
    assert first[16] == 0
    central = file.kept[directory][CENTRAL.size + len("policy.pth") :]
    assert central == (EXTRA.pack(1, 16) + struct.pack("<2Q", size, size) if wide else b"")
    second = file.kept[directory + len(file.kept[directory])]
    assert CENTRAL.unpack(second[: CENTRAL.size])[16] == MAX32
    assert second[CENTRAL.size + len("last") :] == EXTRA.pack(1, 8) + struct.pack("<Q", start)
    end = file.kept[max(file.kept)]
    assert end[:4] == b"PK\x06\x06"
    assert END.unpack(end[-END.size :])[3:7] == (2, 2, len(file.kept[directory]) + len(second), MAX32)
    assert ZIP64_END.unpack(end[: ZIP64_END.size])[6:] == (2, 2, len(file.kept[directory]) + len(second), directory)


@pytest.mark.usefixtures("_no_crc")
@pytest.mark.parametrize("size", [MAX32 - 1, MAX32, 5 * GIB])
def test_a_torch_zip_with_a_record_of_4_gib_has_the_size_that_was_announced(size: int) -> None:
    """WRITER.md 12.2: two zeros in the local extra, a descriptor of 24 bytes, offsets in the directory's extras."""
    made = TorchZip([held("archive/data.pkl", b"x" * 99), giant("archive/data/0", size), held("archive/version", b"3")])
    at = 0
    headers = {}
    for chunk in made.chunks():
        if bytes(chunk[:4]).startswith(b"PK"):
            headers[at] = bytes(chunk)
        at += len(chunk)
    assert at == made.size
    locals_ = [(start, raw) for start, raw in headers.items() if raw.startswith(b"PK\x03\x04")]
    for start, raw in locals_:
        assert (start + len(raw)) % 64 == 0
    wide = size >= MAX32
    extra = locals_[1][1][LOCAL.size + len("archive/data/0") :]
    assert extra.startswith(EXTRA.pack(1, 16) + bytes(16) if wide else b"FB")
    assert LOCAL.unpack(locals_[1][1][: LOCAL.size])[6:9] == ((0, MAX32, MAX32) if wide else (0, 0, 0))
    descriptors = [raw for raw in headers.values() if raw.startswith(b"PK\x07\x08")]
    assert [len(raw) for raw in descriptors] == [16, DESCRIPTOR64.size if wide else DESCRIPTOR.size, 16]
    layout = DESCRIPTOR64 if wide else DESCRIPTOR
    assert layout.unpack(descriptors[1]) == (b"PK\x07\x08", size & MAX32, size, size)


@pytest.fixture
def _small_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 bytes count as 4 GiB: for the writer, not for its sentinels, and so for the same headers."""
    monkeypatch.setattr(zip_writer, "_is_wide", lambda size: size >= 1000)
    monkeypatch.setattr(zip_writer, "min", lambda size, sentinel: sentinel if size >= 1000 else size, raising=False)


@pytest.mark.usefixtures("_small_thresholds")
def test_zip64_headers_are_read_by_everything() -> None:
    members = {"small": b"x" * 999, "large": b"y" * 1000, "behind": b"z", "larger": bytes(5000), "empty": b""}
    assert contents(outer(members), "path") == members
    records = {f"archive/{name}": data for name, data in members.items()}
    assert contents(inner(records), "record") == records


# -- torch's zip --------------------------------------------------------------------------------------


def test_records_are_laid_out_as_torch_has_them() -> None:
    """WRITER.md 12.2: flags, zeros, padding, descriptors, both zip64 end records."""
    records = {"archive/data.pkl": b"abc", "archive/data/0": b"", "archive/data/1": bytes(64), "archive/version": b"3"}
    raw = inner(records)
    assert contents(raw, "record") == records
    for name, entry in Container(raw, names="record").entries.items():
        assert entry.data_offset % 64 == 0
        fields = LOCAL.unpack(raw[entry.offset : entry.offset + LOCAL.size])
        assert fields[1:9] == (0, 0x808 if records[name] else 0x800, 0, 0, 0, 0, 0, 0)
        extra = raw[entry.offset + LOCAL.size + len(name) : entry.data_offset]
        assert extra[:2] == b"FB"
        assert set(extra[4:]) <= set(b"Z")
        behind = entry.data_offset + entry.size
        assert (raw[behind : behind + 4] == b"PK\x07\x08") == bool(entry.size)
    assert raw[-END.size - ZIP64_LOCATOR.size :][:4] == b"PK\x06\x07"
    with zipfile.ZipFile(io.BytesIO(raw)) as opened:
        for info in opened.infolist():
            assert (info.create_system, info.create_version, info.extract_version, info.external_attr) == (0, 0, 0, 0)


@given(st.lists(st.tuples(st.integers(1, 120), st.integers(0, 300)), min_size=1, max_size=8))
@more_examples(100)
def test_the_size_is_known_before_the_bytes(shapes: list[tuple[int, int]]) -> None:
    """``TorchZip.size`` is exact for names and records of any length, and each record starts at a multiple of 64."""
    records = {f"{at}" + "n" * length: b"x" * size for at, (length, size) in enumerate(shapes)}
    raw = inner(records)
    container = Container(raw, names="record")
    assert {name: bytes(container.read(name)) for name in container} == records
    assert all(entry.data_offset % 64 == 0 for entry in container.entries.values())


def test_its_chunks_can_be_asked_for_again() -> None:
    made = TorchZip([held("archive/data.pkl", b"abc"), held("archive/data/0", bytes(1000), pieces=3)])
    assert b"".join(made.chunks()) == b"".join(made.chunks())


@pytest.mark.parametrize("name", ["", "a\nb", "\ud800", "x" * 1025, "\u202e"])
def test_record_names_that_a_reader_refuses_are_not_written(name: str) -> None:
    with pytest.raises(ContainerError):
        TorchZip([held(name, b"")])


def test_a_record_is_asked_for_only_when_its_turn_comes() -> None:
    asked = []

    def chunks(name: str) -> list[bytes]:
        asked.append(name)
        return [b"x"]

    stream = TorchZip([Member(name, 1, lambda name=name: chunks(name)) for name in "ab"]).chunks()  # type: ignore[misc]
    next(stream)
    assert asked == []
    next(stream)
    assert asked == ["a"]
    assert b"".join(stream)
    assert asked == ["a", "b"]
