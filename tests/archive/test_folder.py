"""Entries outside any zip: the files of a folder, or single sources, with the interface of a container."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sbformat.archive.entries import FileEntries, open_folder
from sbformat.container.reader import Entry
from sbformat.errors import ContainerError, LimitError, MissingEntryError
from sbformat.io.source import BytesSource
from sbformat.limits import Budget, Limits

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
    assert set(open_folder(folder, Budget())) == {"data", "policy.pth"}


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
