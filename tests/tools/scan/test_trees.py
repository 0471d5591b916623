"""``scan`` of folders: what is examined, what is followed, and that every other file is counted with its reason."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

import sbformat
from sbformat.cli import main
from sbformat.errors import escape
from sbformat.io.opening import LARGE_FILE_BYTES
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.tools.scan.folders import is_large_and_unknown
from tests.helpers.bundled import ARCHIVES

PPO = (ARCHIVES / "ppo-cartpole.zip").read_bytes()
EVIL = b"cos\nsystem\n(S'true'\ntR."
HASH = "0123456789abcdef" * 4


def scanned(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, dict[str, str], dict[str, list[str]]]:
    """The status, the verdict of each file, and the files without one by reason; paths from the first folder."""
    status = main(["scan", *map(str, args), "--format", "json", "--list-skipped", "--jobs", "1"])
    document = json.loads(capsys.readouterr().out)
    top = next((arg for arg in args if os.path.isdir(str(arg))), ".")
    skipped: dict[str, list[str]] = {}
    for row in document["skipped"]["files"]:
        skipped.setdefault(row["reason"], []).append(os.path.relpath(row["path"], str(top)))
    assert {reason: len(rows) for reason, rows in skipped.items()} == document["skipped"]["counts"]
    return status, {os.path.relpath(row["path"], str(top)): row["verdict"] for row in document["files"]}, skipped


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def hub_cache(top: Path, content: bytes = PPO, name: str = "ppo.zip") -> Path:
    """The cache of one repository, as huggingface_hub writes it; returns its snapshot."""
    repository = top / ".cache" / "huggingface" / "hub" / "models--x--y"
    put(repository / "blobs" / HASH, content)
    snapshot = repository / "snapshots" / "rev"
    snapshot.mkdir(parents=True)
    (snapshot / name).symlink_to(f"../../blobs/{HASH}")
    return snapshot


def test_hidden_folders_are_entered_and_git_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in (".git/lfs/objects/a", ".cache/b", "real/.hidden"):
        put(tmp_path / name, EVIL)
    put(tmp_path / ".git/objects/pack", b"x\x9c\x01\x02")
    status, verdicts, skipped = scanned(capsys, tmp_path)
    assert status == 1
    assert verdicts == dict.fromkeys((".git/lfs/objects/a", ".cache/b", "real/.hidden"), "dangerous")
    assert skipped == {"other": [".git/objects/pack"]}
    found = {row.entry for row in sbformat.scan(tmp_path).findings}
    assert found == set(verdicts)


def test_links_and_special_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outside, tree = put(tmp_path / "outside.pkl", EVIL), tmp_path / "tree"
    put(tree / "real" / "b", EVIL)
    (tree / "loop").symlink_to(tree)
    (tree / "real" / "up").symlink_to("..")
    (tree / "itself").symlink_to("itself")
    (tree / "nowhere").symlink_to("gone")
    (tree / "link").symlink_to("real/b")
    (tree / "away").symlink_to(outside)
    (tree / "etc").symlink_to("/etc")
    os.link(tree / "real" / "b", tree / "real" / "c")
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(tree)
        made.bind("socket")
    expected = {
        "broken-link": ["itself", "nowhere"],
        "link": ["link", "loop", "real/c", "real/up"],
        "link-out": ["away", "etc"],
        "special": ["pipe", "socket"],
    }
    assert scanned(capsys, tree) == (1, {"real/b": "dangerous"}, expected)
    report = sbformat.scan(tree)
    rows: dict[str, list[str]] = {}
    for row in report.skipped:
        rows.setdefault(row.reason, []).append(os.path.relpath(row.path, tree))
    assert {reason: sorted(names) for reason, names in rows.items()} == expected
    assert {row.entry for row in report.findings} == {"real/b"}
    assert scanned(capsys, tree / "loop")[1] == {"real/b": "dangerous"}
    assert scanned(capsys, tree / "away")[1] == {os.path.relpath(tree / "away"): "dangerous"}  # it was given


def test_a_file_has_one_verdict_and_all_its_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    snapshot = hub_cache(tmp_path)
    other = snapshot.parent / "older"
    other.mkdir()
    (other / "ppo.zip").symlink_to(f"../../blobs/{HASH}")
    assert main(["scan", str(tmp_path), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (report,) = document["files"]
    assert Path(report["path"]).name == HASH
    assert sorted(report["names"]) == sorted(str(folder / "ppo.zip") for folder in (snapshot, other))
    assert document["skipped"] == {"counts": {"link": 2}}
    assert main(["scan", str(tmp_path)]) == 0
    assert f"    also {snapshot / 'ppo.zip'}\n" in capsys.readouterr().out


def test_a_snapshot_of_the_hubs_cache_is_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    snapshot = hub_cache(tmp_path, EVIL, "ppo.zip")
    (snapshot / "away").symlink_to(put(tmp_path / "outside", EVIL))
    assert scanned(capsys, snapshot) == (1, {"ppo.zip": "dangerous"}, {"link-out": ["away"]})
    assert [row.entry for row in sbformat.scan(snapshot).findings if row.verdict == "dangerous"]
    assert sbformat.scan(snapshot / "ppo.zip").verdict == "dangerous"


def test_an_unzipped_archive_whose_entries_are_links(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    archive = sbformat.reads(PPO)
    data = b'{"a": {":type:": "x", ":serialized:": "gAJjb3MKc3lzdGVtClgEAAAAdHJ1ZYVSLg=="}}'
    snapshot = hub_cache(tmp_path, data, "data")
    blobs = snapshot.parent.parent / "blobs"
    put(blobs / "policy", bytes(archive.raw("policy.pth")))
    (snapshot / "policy.pth").symlink_to("../../blobs/policy")
    assert scanned(capsys, snapshot)[1] == {".": "dangerous"}
    assert list(scanned(capsys, tmp_path)[1].values()).count("dangerous") >= 1
    moved = tmp_path / "unzipped"
    moved.mkdir()
    put(moved / "policy.pth", bytes(archive.raw("policy.pth")))
    put(moved / "_stable_baselines3_version", b"2.0.0")
    (moved / "data").symlink_to(blobs / HASH)
    report = sbformat.scan(moved)
    assert report.verdict == "unknown"  # it was not examined, and whoever loads the folder reads it
    assert [(row.reason, Path(row.path).name) for row in report.skipped] == [("link-out", "data")]


def test_scripts_are_listed_and_looked_into(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a.py", "b.ipynb", "run.SH"):
        put(tmp_path / name, b"text\n")
    put(tmp_path / "tool", b"\x7fELF\x02")
    put(tmp_path / "train", b"#!/usr/bin/env python\n")
    put(tmp_path / "evil.py", EVIL)
    put(tmp_path / "ppo.zip", PPO)
    assert scanned(capsys, tmp_path) == (
        1,
        {"evil.py": "dangerous", "ppo.zip": "clean"},
        {"script": ["a.py", "b.ipynb", "run.SH", "tool", "train"]},
    )
    main(["scan", str(tmp_path), "--format", "text"])
    assert "5 scripts next to the archive, not judged" in capsys.readouterr().out
    assert {Path(row.path).name for row in sbformat.scan(tmp_path).skipped} == {
        "a.py", "b.ipynb", "run.SH", "tool", "train", "evil.py",
    }  # fmt: skip


def test_a_large_file_is_large_and_unknown_only_when_nothing_can_be_in_it(tmp_path: Path) -> None:
    path = tmp_path / "video.bin"
    for head, is_over in ((b"\0\0\0\x18ftyp", True), (b"PK\x03\x04", False), (b"\x80\x04", False), (EVIL, False)):
        with path.open("wb") as file:
            file.write(head)
            file.truncate(LARGE_FILE_BYTES + 1)
        assert is_large_and_unknown(str(path), DEFAULT_LIMITS) is is_over
        named = path.with_suffix(".pkl")
        path.rename(named)
        assert not is_large_and_unknown(str(named), DEFAULT_LIMITS)
        named.rename(path)
    path.write_bytes(b"\0\0\0\x18ftyp")
    assert not is_large_and_unknown(str(path), DEFAULT_LIMITS)


def test_a_large_file_is_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    put(tmp_path / "ppo.zip", PPO)
    with put(tmp_path / "below" / "video", b"").open("wb") as file:
        file.write(b"\0\0\0\x18ftyp")
        file.truncate(LARGE_FILE_BYTES + 1)
    assert scanned(capsys, tmp_path) == (0, {"ppo.zip": "clean"}, {"large": ["below/video"]})
    assert [row.reason for row in sbformat.scan(tmp_path).skipped] == ["large"]


def test_pointers_of_git_lfs_are_counted_by_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "ppo.zip", PPO)
    put(tmp_path / "policy.zip", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    assert main(["scan", str(tmp_path)]) == 0
    assert "1 Git LFS pointer, whose file is not here: git lfs pull fetches it" in capsys.readouterr().out
    assert main(["scan", str(tmp_path / "policy.zip")]) == 2  # it was asked for by its name


def test_a_folder_without_a_file_is_not_clean(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    report = sbformat.scan(tmp_path)
    assert (report.verdict, [row.rule for row in report.findings]) == ("unknown", ["unknown-entry"])


def test_the_formats_all_carry_the_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    put(tmp_path / "ppo.zip", PPO)
    put(tmp_path / "a.txt", b"text")
    put(tmp_path / "b.py", b"1")

    def of(*options: str) -> Any:
        assert main(["scan", str(tmp_path), *options]) == 0
        return capsys.readouterr().out

    text = of()
    assert "1 script next to the archive, not judged; 1 other file, examined, with nothing in it" in text
    assert "a.txt" not in text
    assert f"  script: {tmp_path / 'b.py'}\n" in of("--list-skipped")
    counts = {"script": 1, "other": 1}
    assert json.loads(of("--format", "json"))["skipped"] == {"counts": counts}
    (invocation,) = json.loads(of("--format", "sarif"))["runs"][0]["invocations"]
    assert invocation["properties"] == {"skipped": counts, "omitted": 0}
    assert invocation["toolExecutionNotifications"] == []
    (invocation,) = json.loads(of("--format", "sarif", "--list-skipped"))["runs"][0]["invocations"]
    assert [row["level"] for row in invocation["toolExecutionNotifications"]] == ["note", "note"]


def test_a_folder_that_is_not_an_archive_may_hold_anything(tmp_path: Path) -> None:
    limits = Limits(outer_entries=20)
    for number in range(limits.outer_entries + 1):
        put(tmp_path / f"{number}.png", b"\x89PNG\r\n\x1a\n\0")
    put(tmp_path / "ppo.zip", PPO)
    assert sbformat.scan(tmp_path, limits=limits).verdict == "clean"
    put(tmp_path / "1.png", EVIL)
    assert {row.entry for row in sbformat.scan(tmp_path, limits=limits).findings} == {"1.png"}


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
@pytest.mark.parametrize(
    "name", ["a:1.pkl", "run 12:30.log", "con", "a\x1b[31m:b", "x\u202e:y", "bad\udcff", "a ", "a:b.pth"]
)
@pytest.mark.parametrize("other", ["data", "note.txt"])
def test_files_that_cannot_be_entries_are_examined(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, other: str
) -> None:
    folder = tmp_path / "agent"
    put(folder / other, b"{}")
    (folder / name).write_bytes(b"x")
    before = sbformat.scan(folder)
    (folder / name).write_bytes(EVIL)
    report = sbformat.scan(folder)
    assert (report.verdict, {row.entry for row in report.findings}) == ("dangerous", {escape(name)})
    assert report.pickles == before.pickles + 1
    assert report.size == before.size + len(EVIL) - 1
    found = "agent" if other == "data" else f"agent/{name}"
    status, verdicts, skipped = scanned(capsys, tmp_path)
    assert (status, verdicts[found]) == (1, "dangerous")
    assert name not in str(skipped)


def test_unfinished_outputs_are_skipped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    put(tmp_path / "ppo.zip", PPO)
    for name in (".0123456789abcdef.tmp", "runs/.fedcba9876543210.tmp"):
        put(tmp_path / name, PPO[:9000])
    skipped = {"temporary": [".0123456789abcdef.tmp", "runs/.fedcba9876543210.tmp"]}
    assert scanned(capsys, tmp_path) == (0, {"ppo.zip": "clean"}, skipped)
    put(tmp_path / "half.tmp", PPO[:9000])
    assert scanned(capsys, tmp_path)[1]["half.tmp"] != "clean"
