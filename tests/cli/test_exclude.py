"""``--exclude`` of the commands that take folders, and patterns in quotes in the place of files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat.cli import build_parser, main
from sbformat.folders.trees import expand_pattern
from tests.helpers.bundled import PPO, SAC, entries
from tests.helpers.many_archives import refuse_listing
from tests.helpers.reports import REPORT, parse_reports

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
EVIL = b"cos\nsystem\n(S'true'\ntR."


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with agents, one of them unzipped, and a dangerous file in a folder ``old``."""
    top = tmp_path / "runs"
    for name, content in (("a/x.zip", PPO.read_bytes()), ("b/best.zip", SAC.read_bytes()), ("b/old/evil.pkl", EVIL)):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)
    (top / "a" / "unzipped").mkdir()
    for name, content in entries().items():
        (top / "a" / "unzipped" / name).write_bytes(content)
    return top


def run_document(capsys: Capture, *args: object) -> tuple[int, dict[str, Any]]:
    """Run a command with --format json; its status and document, checked against the schema."""
    status = main([*map(str, args), "--format", "json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    REPORT.validate(document)
    return status, document


def list_paths(document: dict[str, Any], top: Path) -> list[str]:
    return [os.path.relpath(report["path"], top) for report in document["files"]]


def test_what_is_excluded_is_counted_and_not_clean(capsys: Capture, runs: Path) -> None:
    assert main(["scan", str(runs)]) == 1
    capsys.readouterr()
    status, document = run_document(capsys, "scan", runs, "--exclude", "old/", "--exclude", "x.*", "--list-skipped")
    assert (status, list_paths(document, runs)) == (0, ["a/unzipped", "b/best.zip"])
    assert document["skipped"]["counts"] == {"excluded": 2}
    assert document["skipped"]["files"] == [
        {"path": str(runs / name), "reason": "excluded"} for name in ("a/x.zip", "b/old")
    ]
    assert main(["scan", str(runs), "--exclude", "old"]) == 0
    out = capsys.readouterr().out
    assert "evil" not in out
    assert "without a verdict: 1 file or folder excluded, with all that is in it, not examined" in out
    assert main(["scan", str(runs), "--exclude", "old", "--format", "sarif", "--list-skipped"]) == 0
    (log,) = json.loads(capsys.readouterr().out)["runs"]
    assert log["invocations"][0]["properties"]["skipped"] == {"excluded": 1}


def test_a_scan_without_anything_left_is_a_failure(capsys: Capture, runs: Path) -> None:
    assert main(["scan", str(runs), "--exclude", "*"]) == 2
    out, err = capsys.readouterr()
    assert "clean" not in out
    assert err.startswith("sbformat: nothing to judge: ")
    assert err.endswith("; --exclude leaves out files\n")


def test_a_file_that_is_named_is_not_excluded(capsys: Capture, runs: Path) -> None:
    evil = runs / "b" / "old" / "evil.pkl"
    assert main(["scan", str(evil), "--exclude", "*"]) == 1
    assert main(["validate", str(runs / "a" / "x.zip"), "--exclude", "*"]) == 0
    capsys.readouterr()
    status, document = run_document(capsys, "scan", runs / "a", "--exclude", "data", "--exclude", "*.pth")
    assert (status, document["skipped"]["counts"]) == (0, {})  # an unzipped archive is one file


def test_a_link_to_an_excluded_file_is_examined_by_its_own_name(capsys: Capture, runs: Path) -> None:
    (runs / "a" / "link.pkl").symlink_to("../b/old/evil.pkl")
    status, document = run_document(capsys, "scan", runs, "--exclude", "old/")
    assert (status, "a/link.pkl" in list_paths(document, runs)) == (1, True)
    status, document = run_document(capsys, "scan", runs, "--exclude", "old/", "--exclude", "link.*")
    assert (status, document["skipped"]["counts"]) == (0, {"excluded": 2})


@pytest.mark.parametrize("command", ["inspect", "validate"])
def test_excluded_files_are_not_read(capsys: Capture, runs: Path, command: str) -> None:
    (runs / "b" / "old" / "bad.zip").write_bytes(b"PK")
    assert main([command, str(runs)]) == 2
    capsys.readouterr()
    status, document = run_document(capsys, command, runs, "--exclude", "/b/old", "--exclude", "unzipped/")
    assert (status, list_paths(document, runs)) == (0, ["a/x.zip", "b/best.zip"])
    agents = [agent["path"] for folder in document.get("folders", ()) for agent in folder["agents"]]
    assert agents == (["a/x.zip", "b/best.zip"] if command == "inspect" else [])


def test_excluded_files_are_not_rebuilt(capsys: Capture, runs: Path, tmp_path: Path) -> None:
    (runs / "b" / "old" / "bad.zip").write_bytes(b"PK")
    status, document = run_document(
        capsys, "rebuild", runs, "-o", tmp_path / "new", "--exclude", "old", "--exclude", "unzipped", "--copy-others"
    )
    assert (status, list_paths(document, runs)) == (0, ["a/x.zip", "b/best.zip"])
    assert document["others"] == []


def test_excluded_files_have_no_row(capsys: Capture, runs: Path, tmp_path: Path) -> None:
    table = tmp_path / "runs.jsonl"
    for pattern, expected in (
        ("old", ["a/unzipped", "a/x.zip", "b/best.zip"]),
        ("a", ["b/best.zip", "b/old/evil.pkl"]),
    ):
        main(["catalog", str(runs), "-o", str(table), "--exclude", pattern])
        rows = [json.loads(line)["source"] for line in table.read_text("utf-8").splitlines()]
        assert sorted(os.path.relpath(row, runs) for row in rows) == expected
    for pattern, exclude, expected in (
        ("**/*.zip", "b", ["a/x.zip"]),
        ("**/*.zip", "/a", ["b/best.zip"]),
        ("*", "a/", ["b/best.zip", "b/old/evil.pkl"]),
        ("**/*.zip", "old", ["a/x.zip", "b/best.zip"]),
    ):
        main(["catalog", str(runs / pattern), "-o", str(table), "--exclude", exclude])
        rows = [json.loads(line)["source"] for line in table.read_text("utf-8").splitlines()]
        assert sorted(os.path.relpath(row, runs) for row in rows) == expected
    with pytest.raises(SystemExit):
        main(["catalog", str(table), "--exclude", "a"])
    assert "--exclude: expected it with -o OUT" in capsys.readouterr().err


def test_excluded_files_are_not_on_the_page(capsys: Capture, runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    command = ["report", runs, "-o", tmp_path / "page.html", "--exclude", "old", "--exclude", "a/unzipped"]
    _, document = run_document(capsys, *command)
    assert [os.path.relpath(path, runs) for path in document["files"][0]["files"]] == ["a/x.zip", "b/best.zip"]


def test_the_library_leaves_out_the_same(runs: Path) -> None:
    found = sbformat.inspect_folder(runs, exclude=["old/", "unzipped"])
    assert [row.path for row in found.agents] == ["a/x.zip", "b/best.zip"]
    assert found.others == ()


@pytest.mark.parametrize("command", ["scan", "validate", "inspect"])
def test_a_pattern_that_matches_nothing_is_a_remark(capsys: Capture, runs: Path, command: str) -> None:
    options = [word for text in ("runs/b", "none", "old", "b/old/", "x.*") for word in ("--exclude", text)]
    assert main([command, str(runs), str(runs / "b"), *options]) == 0
    assert capsys.readouterr().err == (
        "sbformat: --exclude runs/b matches nothing\n"
        "  hint: a pattern with a slash is matched from the folder that is named\n"
        "sbformat: --exclude none matches nothing\n"
    )
    for words in ([str(runs), *options, "--quiet"], [str(runs / "a" / "x.zip"), *options]):
        assert main([command, *words]) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("pattern", ["[z-a]", "", "/"])
def test_what_is_no_pattern_is_refused(capsys: Capture, pattern: str) -> None:
    with pytest.raises(SystemExit):
        main(["scan", ".", "--exclude", pattern])
    assert "argument --exclude: expected a pattern such as *.tmp, old/ or " in capsys.readouterr().err


# -- patterns in the place of files -------------------------------------------------------------------


def test_commands_on_several_files_expand_patterns(capsys: Capture, runs: Path, tmp_path: Path) -> None:
    pattern = f"{runs}/**/*.zip"
    for command in ("inspect", "validate", "scan"):
        status, document = run_document(capsys, command, pattern, f"{runs}/[b]/best.???")
        expected = ["a/x.zip", "b/best.zip", "b/best.zip"]  # a shell repeats a name, too
        assert (status, list_paths(document, runs)) == (0, expected)
    _, document = run_document(capsys, "rebuild", pattern, "-o", tmp_path / "new")
    assert list_paths(document, runs) == ["a/x.zip", "b/best.zip"]
    assert main(["catalog", pattern, "-o", str(tmp_path / "t.jsonl")]) == 0
    assert len((tmp_path / "t.jsonl").read_text("utf-8").splitlines()) == 2


def test_every_command_on_several_files_takes_patterns() -> None:
    several = {
        name
        for name, parser in build_parser().commands.items()
        if any(action.dest == "paths" for action in parser._actions)
    }
    assert several == {"inspect", "report", "catalog", "scan", "validate", "rebuild"}


def test_a_folder_that_a_pattern_cannot_look_into_is_an_error(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, runs: Path
) -> None:
    refuse_listing(monkeypatch, runs / "b" / "old")
    status, document = run_document(capsys, "validate", f"{runs}/**/*.zip")
    found = [(report["path"], report["message"]) for report in document["files"] if report["outcome"] != "ok"]
    assert (status, found) == (2, [(str(runs / "b" / "old"), "Permission denied")])


def test_a_file_whose_name_is_a_pattern_is_that_file(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a[1].zip", "a1.zip"):
        (tmp_path / name).write_bytes(PPO.read_bytes())
    for word in ("a[1].zip", "a[1]"):
        assert main(["validate", word]) == 0
        assert capsys.readouterr().out == f"{word}: valid\n"
    assert main(["validate", "a[!2].zip"]) == 0
    assert capsys.readouterr().out == "a1.zip: valid\n"


def test_a_pattern_follows_no_links_into_other_folders(tmp_path: Path) -> None:
    for name in ("runs/a/x.zip", "runs/a/.hidden/y.zip", "runs/b/deep/z.zip", "other/w.zip"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "runs" / "out").symlink_to(tmp_path / "other")
    for number in range(40):
        (tmp_path / "runs" / f"again{number}").symlink_to(tmp_path / "runs")

    def expand(pattern: str) -> list[str]:
        return [os.path.relpath(path, tmp_path) for path in expand_pattern(str(tmp_path / pattern))]

    assert expand("runs/**/*.zip") == ["runs/a/x.zip", "runs/b/deep/z.zip"]
    assert expand("runs/**/**/x.*") == ["runs/a/x.zip"]
    assert expand("runs/[ab]/*.zip") == ["runs/a/x.zip"]
    assert expand("runs/a/.h*/*") == ["runs/a/.hidden/y.zip"]
    assert expand("runs/out/*") == ["runs/out/w.zip"]
    assert expand("r*/b/**") == ["runs/b"]
    assert expand("runs/*/nothing") == ["runs/*/nothing"]


@pytest.mark.parametrize("command", ["inspect", "validate", "scan"])
def test_a_pattern_that_matches_nothing_is_an_error(capsys: Capture, tmp_path: Path, command: str) -> None:
    assert main([command, f"{tmp_path}/*.zip", "--format", "json"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"sbformat: {tmp_path}/*.zip: cannot open: no file matches this pattern\n")
    (report,) = parse_reports(out)
    assert (report["outcome"], report["message"]) == ("cannot open", "no file matches this pattern")


def test_a_command_on_one_file_takes_no_pattern(capsys: Capture, runs: Path) -> None:
    assert main(["diff", f"{runs}/a/*.zip", str(PPO)]) == 2
    assert capsys.readouterr().err.splitlines()[0].endswith("expected a file, got a pattern: name one of its files")
