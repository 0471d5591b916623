"""Entries outside any zip: the files of a folder, or single sources, with the interface of a container."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sbformat
from conformance.generators.build_zips import is_terminal_safe
from sbformat.archive.entries import FileEntries, SystemInfo, open_folder, parse_system_info, parse_version
from sbformat.container.reader import Entry
from sbformat.errors import ContainerError, DataError, LimitError, MissingEntryError
from sbformat.io.source import BytesSource
from sbformat.limits import Budget, Limits
from tests.helpers.sampling import more_examples

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")


def loose(**sources: bytes) -> FileEntries:
    return FileEntries({name: BytesSource(data) for name, data in sources.items()}, Budget(Limits(version_bytes=3)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.pth").write_bytes(b"pickle")
    (tmp_path / "data").write_bytes(b"{}")
    return tmp_path


# -- the interface of a container ---------------------------------------------------------------------


def test_named_sources_are_a_mapping_in_their_order() -> None:
    entries = loose(b=b"1", a=b"22")
    assert list(entries) == ["b", "a"]
    assert len(entries) == 2
    assert "a" in entries
    assert "c" not in entries
    assert 5 not in entries
    assert entries.entry("a") == Entry("a", 0, 0, 2, 2, 0, 0)


def test_bytes_are_views_not_copies() -> None:
    data = b"content"
    entries = loose(a=data)
    for view in (entries.read("a"), entries.view("a")):
        assert view == data
        assert view.obj is data


def test_a_reader_may_cap_an_entry() -> None:
    assert loose(a=b"123").read("a", limit="version_bytes") == b"123"
    with pytest.raises(LimitError) as caught:
        loose(a=b"1234").read("a", limit="version_bytes")
    assert (caught.value.limit, caught.value.actual) == ("version_bytes", 4)


@pytest.mark.parametrize("chunk_bytes", [1, 3, 7, 100])
def test_entries_are_streamed_in_chunks(chunk_bytes: int) -> None:
    chunks = list(loose(a=b"content").stream("a", chunk_bytes))
    assert b"".join(chunks) == b"content"
    assert max(map(len, chunks)) <= chunk_bytes
    assert list(loose(a=b"").stream("a")) == []


@pytest.mark.parametrize("ask", ["entry", "read", "view", "stream"])
def test_an_entry_that_is_not_there_suggests_the_nearest_one(ask: str) -> None:
    with pytest.raises(MissingEntryError, match="did you mean 'policy'"):
        getattr(loose(policy=b"", data=b""), ask)("polcy")


# -- folders ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("kind", [str, Path])
def test_the_files_of_a_folder_are_its_entries_by_name(folder: Path, kind: Any, mapped: bool) -> None:  # noqa: FBT001
    entries = open_folder(kind(folder), Budget(), mapped=mapped)
    assert {name: bytes(entries.read(name)) for name in entries} == {"data": b"{}", "policy.pth": b"pickle"}
    assert list(entries) == ["data", "policy.pth"]


def test_folders_and_hidden_files_are_left_out(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "data").write_bytes(b"")
    (folder / ".gitattributes").write_bytes(b"")
    assert list(open_folder(folder, Budget())) == ["data", "policy.pth"]


def test_an_empty_folder_has_no_entries(tmp_path: Path) -> None:
    assert list(open_folder(tmp_path, Budget())) == []


@pytest.mark.parametrize("mapped", [False, True])
def test_an_empty_file_is_an_empty_entry(tmp_path: Path, mapped: bool) -> None:  # noqa: FBT001
    (tmp_path / "data").touch()
    entries = open_folder(tmp_path, Budget(), mapped=mapped)
    assert entries.entry("data").size == 0
    assert entries.read("data") == b""


def test_files_are_counted_before_they_are_opened(folder: Path) -> None:
    assert len(open_folder(folder, Budget(Limits(outer_entries=2)))) == 2
    with pytest.raises(LimitError) as caught:
        open_folder(folder, Budget(Limits(outer_entries=1)))
    assert (caught.value.limit, caught.value.actual) == ("outer_entries", 2)


@posix
@pytest.mark.parametrize("name", ["a\nb", "a\\b", "nul", "a:b", "a.", "\u202e"])
def test_files_with_names_that_no_archive_could_have_are_left_out(folder: Path, name: str) -> None:
    (folder / name).touch()
    entries = open_folder(folder, Budget())
    assert set(entries) == {"data", "policy.pth"}
    assert entries.left_out == [name]


@posix
def test_files_that_cannot_be_entries_are_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b'{"policy_class": null}')
    assert sbformat.read(tmp_path).notes == ()
    for name in ("run 12:30.pth", *(f"a:{n}" for n in range(9))):
        (tmp_path / name).touch()
    (note,) = sbformat.read(tmp_path).notes
    assert note.startswith("left out, because an entry cannot have such a name: 'a:0', 'a:1', ")
    assert note.endswith("'a:7', ...")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux takes any bytes as names")
def test_files_with_names_that_are_not_utf8_are_left_out(folder: Path) -> None:
    with open(os.fsencode(folder) + b"/caf\xe9", "wb"):
        pass
    assert set(open_folder(folder, Budget())) == {"data", "policy.pth"}


def test_other_files_are_not_opened_before_they_are_asked_for(folder: Path) -> None:
    (folder / "notes.txt").write_text("old")
    entries = open_folder(folder, Budget())
    (folder / "notes.txt").write_text("new")
    (folder / "data").write_text("changed")
    assert bytes(entries.read("notes.txt")) == b"new"
    assert bytes(entries.read("data")) != b"changed"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems fold case themselves")
def test_names_that_meet_when_case_is_folded_are_refused(folder: Path) -> None:
    (folder / "DATA").touch()
    with pytest.raises(ContainerError, match="are equal when case is folded"):
        open_folder(folder, Budget())


@posix
def test_pipes_and_links_to_folders_are_left_out(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to(folder.parent, target_is_directory=True)
    (folder / "dangling").symlink_to(folder / "nowhere")
    assert list(open_folder(folder, Budget())) == ["data", "policy.pth"]


def test_a_folder_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_folder(tmp_path / "nowhere", Budget())


SINCE_1_7 = """\
- OS: Linux-6.1.0-x86_64-with-glibc2.36 # 1 SMP: PREEMPT_DYNAMIC
- Python: 3.11.2
- Stable-Baselines3: 2.3.2
- PyTorch: 2.3.0+cpu
- GPU Enabled: False
- Numpy: 1.26.4
- Cloudpickle: 3.0.0
- Gymnasium: 0.29.1
"""
BEFORE_1_7 = SINCE_1_7.replace("- ", "")


@pytest.mark.parametrize("text", [SINCE_1_7, BEFORE_1_7, SINCE_1_7.replace("\n", "\r\n")])
def test_lines_of_key_and_value_are_fields_with_or_without_a_bullet(text: str) -> None:
    found = parse_system_info(text.encode())
    assert found.fields == {
        "OS": "Linux-6.1.0-x86_64-with-glibc2.36 # 1 SMP: PREEMPT_DYNAMIC",
        "Python": "3.11.2",
        "Stable-Baselines3": "2.3.2",
        "PyTorch": "2.3.0+cpu",
        "GPU Enabled": "False",
        "Numpy": "1.26.4",
        "Cloudpickle": "3.0.0",
        "Gymnasium": "0.29.1",
    }
    assert found.text == text


@pytest.mark.parametrize(
    "text", ["", "\n\n", "no colon", "colon:without space", "- bullet", ":", "\x00\x01", "a : "[:2]]
)
def test_lines_of_any_other_form_stay_in_the_text_only(text: str) -> None:
    assert parse_system_info(text.encode()) == SystemInfo({}, text)


def test_the_first_of_two_equal_keys_counts() -> None:
    assert parse_system_info(b"- OS: a\n- OS: b\n").fields == {"OS": "a"}


def test_keys_and_values_are_stripped_and_values_may_be_empty_or_hold_colons() -> None:
    assert parse_system_info(b"-  OS :  a: b  \nPython: \n").fields == {"OS": "a: b", "Python": ""}


@pytest.mark.parametrize(("raw", "offset"), [(b"\xff", 0), (b"OS: caf\xe9\n", 7), (b"OS: \xed\xa0\x80", 4)])
def test_system_info_that_is_not_utf8_is_refused_at_its_byte(raw: bytes, offset: int) -> None:
    with pytest.raises(DataError, match="expected UTF-8") as caught:
        parse_system_info(raw)
    assert caught.value.offset == offset


@pytest.mark.parametrize("version", ["2.3.2", "1.0rc0", "1.3.1a9", "2.4.0a11", "0.9.0", "anything printable", ""])
def test_a_version_is_printable_ascii(version: str) -> None:
    assert parse_version(version.encode()) == version
    assert parse_version(f" {version}\r\n".encode()) == version


@pytest.mark.parametrize("raw", ["2.3.\u00b2", "2.3\n2.4", "2.3\x00", "\x1b[31m2.3", "2.3\u202e", "\u0662.3", "2\t3"])
def test_a_version_that_is_not_is_refused(raw: str) -> None:
    with pytest.raises(DataError, match="printable ASCII") as caught:
        parse_version(raw.encode())
    assert is_terminal_safe(str(caught.value))


@pytest.mark.parametrize("raw", [b"\xff", b"2.3\xa0", b"\xfe\xff\x002"])
def test_a_version_that_is_not_utf8_is_refused(raw: bytes) -> None:
    with pytest.raises(DataError, match="expected UTF-8"):
        parse_version(raw)


@more_examples(100)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_read_or_a_data_error(raw: bytes) -> None:
    for parse in (parse_system_info, parse_version):
        try:
            parse(raw)
        except DataError as error:
            assert is_terminal_safe(str(error))  # noqa: PT017
