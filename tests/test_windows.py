"""What Windows does otherwise: files without an identity, junctions, drives, pipes, and shells that expand nothing.

These tests imitate Windows on any system; ``.github/workflows/full.yml`` runs all tests there.
"""

from __future__ import annotations

import argparse
import errno
import ntpath
import os
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sbformat import parallel
from sbformat.arrayfiles import writer
from sbformat.catalogue import rows
from sbformat.cli import _files, _many, _rebuild_folder, main
from sbformat.errors import UnsupportedError
from sbformat.folders import trees
from sbformat.folders.listing import walk_files
from sbformat.folders.trees import expand_paths
from sbformat.io import opening
from sbformat.io.atomic import new_folder
from sbformat.io.urls import is_url, local_path
from sbformat.tools.scan import sarif
from sbformat.tools.scan.folders import Tree
from tests.helpers.bundled import PPO
from tests.helpers.reports import parse_reports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Item:
    """What ``os.scandir`` of Windows yields: its ``stat()`` does not identify a file, and junctions are folders."""

    def __init__(self, item: os.DirEntry[str]) -> None:
        self._item = item
        self.name, self.path = item.name, item.path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._item, name)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        found = list(self._item.stat(follow_symlinks=follow_symlinks))
        found[1:4] = [0, 0, 0]
        return os.stat_result(found)

    def is_junction(self) -> bool:
        return self.name == "junction"


@pytest.fixture
def windows_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let ``os.scandir`` do what it does on Windows."""
    scandir = os.scandir

    @contextmanager
    def scan(path: Any) -> Iterator[Iterator[Item]]:
        with scandir(path) as found:
            yield map(Item, found)

    monkeypatch.setattr(os, "scandir", scan)


@pytest.mark.usefixtures("windows_folders")
def test_scan_examines_every_file_of_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = ("a.pkl", "b.pkl", "sub/c.pkl")
    (tmp_path / "sub").mkdir()
    for name in names:
        (tmp_path / name).write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert main(["scan", str(tmp_path), "--format", "json", "--jobs", "1"]) == 1
    reports = parse_reports(capsys.readouterr().out)
    assert [(report["path"], report["verdict"]) for report in reports] == [
        (str(tmp_path / name), "dangerous") for name in names
    ]


@pytest.mark.usefixtures("windows_folders")
def test_a_junction_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "junction").mkdir()
    for name in ("a.zip", "junction/b.zip"):
        (tmp_path / name).write_bytes(PPO.read_bytes())
    tree = Tree(str(tmp_path), (os.path.realpath(tmp_path),), set(), finds_archives=True)
    assert tree.files == [str(tmp_path / "a.zip")]
    assert [(row.path, row.reason) for row in tree.skipped] == [(str(tmp_path / "junction"), "link")]
    assert list(walk_files(str(tmp_path))) == ["a.zip"]
    assert list(expand_paths([str(tmp_path)])) == [str(tmp_path / "a.zip")]


def test_files_that_have_no_identity_are_not_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"x")
    stat = os.stat

    def stat_fat(path: Any, **options: Any) -> os.stat_result:
        found = list(stat(path, **options))
        found[1:3] = [0, 5]
        return os.stat_result(found)

    monkeypatch.setattr(os, "stat", stat_fat)
    tree = Tree(str(tmp_path), (), set(), finds_archives=True)
    assert tree.files == [str(tmp_path / name) for name in "ab"]


def test_a_folder_of_arrays_is_replaced_by_every_python(tmp_path: Path) -> None:
    target = tmp_path / "weights"
    for _ in range(2):
        with new_folder(target, overwrite=True, replaceable_suffix=".npy") as folder:
            (folder / "a.npy").write_bytes(b"")
    assert os.listdir(target) == ["a.npy"]


@pytest.mark.parametrize("command", ["scan", "validate", "inspect"])
def test_processes_that_are_not_forks_do_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for number in range(_many._MANY_FILES):
        (tmp_path / f"{number}.zip").write_bytes(PPO.read_bytes())
    started: list[Any] = []
    prepare = parallel._Pool

    def make_pool(processes: int) -> Any:
        started.append(processes)
        return prepare(processes)

    monkeypatch.setattr(parallel, "_is_alone", lambda: False)
    monkeypatch.setattr(parallel, "_Pool", make_pool)
    printed = []
    for jobs in ("1", "2"):
        assert main([command, str(tmp_path), "--jobs", jobs]) == 0
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1]
    assert started == [2]


# -- paths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///C:/runs/a%20b.zip", "C:/runs/a b.zip"), ("file://localhost/d:/a.zip", "d:/a.zip"),
        ("file:///C:\\a.zip", "C:\\a.zip"), ("file:///runs/a.zip", "/runs/a.zip"), ("file:///C:a.zip", "/C:a.zip"),
    ],
)  # fmt: skip
def test_a_file_url_can_have_a_drive(monkeypatch: pytest.MonkeyPatch, url: str, path: str) -> None:
    assert local_path(url) == (path if path.startswith("/") or sys.platform == "win32" else f"/{path}")
    monkeypatch.setattr(sys, "platform", "win32")
    assert local_path(url) == path


@pytest.mark.parametrize("path", ["C:\\runs\\a.zip", "C:/runs/a.zip", "\\\\host\\share\\a.zip", "C:a.zip", "d://a.zip"])
def test_a_drive_is_not_a_scheme(path: str) -> None:
    assert not is_url(path)


@pytest.fixture
def windows_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let modules that compute with paths do so as on Windows; no file is opened."""
    path = SimpleNamespace(**{**vars(ntpath), "realpath": lambda path: path})
    for module in (opening, sarif, rows, trees, writer, _files, _rebuild_folder):
        monkeypatch.setattr(module, "os", SimpleNamespace(**{**vars(os), "path": path, "sep": "\\"}))


@pytest.mark.usefixtures("windows_paths")
def test_paths_are_joined_and_compared_with_backslashes() -> None:
    assert opening.join_path("C:\\runs", "ppo/a.zip") == "C:\\runs\\ppo\\a.zip"
    assert opening.base_name("C:\\runs/ppo\\a.zip") == "a.zip"
    assert opening.is_within("C:\\runs\\a.zip", ["C:\\runs"])
    assert opening.is_within("C:\\a.zip", ["C:\\"])
    assert not opening.is_within("C:\\runs-2\\a.zip", ["C:\\runs"])


@pytest.mark.usefixtures("windows_paths")
def test_folders_are_found_with_backslashes() -> None:
    assert rows.find_folder(["C:\\runs\\ppo\\a.zip", "C:\\runs\\sac\\b.zip"]) == (
        "C:\\runs", ["ppo\\a.zip", "sac\\b.zip"]
    )  # fmt: skip
    assert rows.find_folder(["C:\\a.zip", "D:\\b.zip"])[0] == ""
    assert trees._split("C:\\runs/ppo\\best_model.zip") == ("C:\\runs\\ppo", "best_model.zip")
    assert trees._split("https://host/runs/a.zip") == ("https://host/runs", "a.zip")
    assert _files._is_within("C:\\out\\a.npy", "C:\\out")
    assert not _files._is_within("C:\\out-2\\a.npy", "C:\\out")
    assert writer.detect_format("C:\\runs\\v1.0\\") == "npy-folder"


@pytest.mark.usefixtures("windows_paths")
def test_outputs_of_files_on_several_drives_have_no_common_folder() -> None:
    paths = ["C:\\runs\\a.zip", "c:/runs/b.zip"]
    assert _rebuild_folder._find_base(paths).lower() == "c:\\runs"
    assert _rebuild_folder._name_below(paths[1], "C:\\runs") == "b.zip"
    with pytest.raises(UnsupportedError, match="expected files on one drive"):
        _rebuild_folder._find_base([*paths, "D:\\c.zip"])


@pytest.mark.usefixtures("windows_paths")
@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("C:\\repo\\runs\\a b.zip", "runs/a%20b.zip"), ("c:/Repo/a.zip", "a.zip"), (".\\runs\\a.zip", "runs/a.zip"),
        ("runs/a.zip", "runs/a.zip"),
    ],
)  # fmt: skip
def test_sarif_has_relative_uris_with_slashes(path: str, uri: str) -> None:
    assert sarif._Paths("C:\\repo").locate(path) == {"uri": uri, "uriBaseId": "%SRCROOT%"}


# -- shells and pipes ---------------------------------------------------------------------------------


def test_patterns_are_expanded_where_the_shell_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.zip", "a.zip", "[1].zip", "c.pkl"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    given = ["*.zip", "x*.zip", "[1].zip", "c.pkl", "https://host/*.zip"]
    args = argparse.Namespace(paths=list(given), command="scan", private_redirects=False, timeout=1.0)
    _files.start(args)
    assert args.paths == ["[1].zip", "a.zip", "b.zip", *given[1:]]


@pytest.mark.parametrize(("number", "expected"), [(errno.EINVAL, ""), (errno.ENOSPC, "cannot write: No space left")])
def test_a_pipe_whose_reader_has_enough_is_not_an_error_to_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int, expected: str
) -> None:
    def refuse(_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr("sbformat.cli._drop_output", lambda: None)
    monkeypatch.setattr(sys.stdout, "write", refuse)
    assert main(["scan", str(PPO), "--color", "never"]) == 2
    assert capsys.readouterr().err.startswith(f"sbformat: standard output: {expected}" if expected else "")
