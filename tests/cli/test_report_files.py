"""``-o`` of the commands that print a report: the report in a file, completely or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sbformat.cli import _output, build_parser, main, validate
from tests.helpers.bundled import ARCHIVES, PPO, changed
from tests.helpers.forks import run_fresh
from tests.helpers.reports import parse_reports, unfold

if TYPE_CHECKING:
    from pathlib import Path

OLD = ARCHIVES / "ppo-cartpole-1.0.zip"
COMMANDS: list[tuple[int, list[object]]] = [
    (0, ["inspect", PPO]),
    (0, ["inspect", PPO, OLD]),
    (0, ["validate", PPO]),
    (0, ["scan", PPO]),
    (1, ["diff", PPO, OLD]),
    (0, ["predict", PPO, "--observation", "[0, 0, 0, 0]", "--seed", "1"]),
]


def read(path: Path) -> str:
    """The text of a file, which is UTF-8 with line feeds."""
    text = path.read_bytes().decode("utf-8")
    assert "\r" not in text
    return text


@pytest.mark.parametrize("suffix", [".json", ".CSV", ".txt", ".log", ""])
@pytest.mark.parametrize(("status", "command"), COMMANDS)
def test_the_file_has_what_the_format_prints(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[object], status: int, suffix: str
) -> None:
    words, output = list(map(str, command)), tmp_path / f"report{suffix}"
    assert main([*words, "--format", suffix[1:].lower().replace("txt", "").replace("log", "") or "text"]) == status
    expected = capsys.readouterr().out
    assert main([*words, "-o", str(output)]) == status
    summary = {"scan": "1 file, 1 clean", "validate": "1 file: 1 valid, 0 invalid"}.get(words[0], "written")
    assert (capsys.readouterr(), read(output)) == ((f"{output}: {summary}\n", ""), expected)
    assert main([*words, "-o", str(output), "--force", "--quiet"]) == status
    assert capsys.readouterr() == ("", "")
    assert main([*words, "-o", "-", "--format", "json"]) == status
    parse_reports(capsys.readouterr().out)


def test_every_command_that_prints_a_report_has_the_option() -> None:
    names = {
        name
        for name, parser in build_parser().commands.items()
        if any(action.dest == "report_output" for action in parser._actions)
    }
    assert names == {"inspect", "validate", "scan", "diff", "predict", "evaluate"}


def test_the_format_of_an_option_wins_and_one_that_is_missing_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "report.sarif"
    assert main(["scan", str(PPO), "-o", str(output)]) == 0
    assert json.loads(read(output))["version"] == "2.1.0"
    assert main(["validate", str(PPO), "-o", str(output), "--force", "--format", "text"]) == 0
    assert read(output) == f"{PPO}: valid\n"
    with pytest.raises(SystemExit):
        main(["validate", str(PPO), "-o", str(output), "--force"])
    message = f"-o {output}: expected .json, .csv, .txt, .log, .text, no suffix, or --format"
    assert message in capsys.readouterr().err
    assert read(output) == f"{PPO}: valid\n"


@pytest.mark.parametrize("name", ["scan.pdf", "scan.xml", "scan.csvv", "scan.parquet"])
def test_a_suffix_that_selects_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    with pytest.raises(SystemExit):
        main(["scan", str(PPO), "-o", str(tmp_path / name)])
    assert f"{name}: expected .json, .csv, .sarif, .txt, .log, .text, no suffix, or --format" in capsys.readouterr().err
    assert main(["scan", str(PPO), "-o", str(tmp_path / name), "--format", "text"]) == 0
    assert read(tmp_path / name).startswith(f"{PPO}: clean")


def test_a_file_that_exists_is_replaced_with_force_only(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    output.write_text("mine")
    assert main(["inspect", str(PPO), "-o", str(output)]) == 2
    assert capsys.readouterr() == ("", f"sbformat: {output} already exists\n  hint: --force overwrites it\n")
    assert read(output) == "mine"
    assert main(["inspect", str(PPO), "-o", str(output), "--force"]) == 0
    assert parse_reports(read(output))[0]["path"] == str(PPO)
    assert main(["inspect", str(PPO), "-o", str(tmp_path / "no" / "report.json")]) == 2
    assert "cannot write: there is no folder " in unfold(capsys.readouterr().err)
    assert os.listdir(tmp_path) == ["report.json"]


def test_an_input_is_not_the_output(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(PPO.read_bytes())
    for command in (["inspect", str(path)], ["diff", str(PPO), str(tmp_path / "a")]):
        assert main([*command, "-o", str(path), "--force", "--format", "text"]) == 2
        assert "the output and the input are the same file" in capsys.readouterr().err
    assert path.read_bytes() == PPO.read_bytes()


def test_a_report_on_failures_is_written_and_no_report_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.zip").write_bytes(changed(policy_pth=b"x"))
    nowhere, output = tmp_path / "nowhere.zip", tmp_path / "report.txt"
    assert main(["inspect", str(nowhere), "-o", str(output)]) == 2
    assert (output.exists(), "nowhere.zip: cannot open" in capsys.readouterr().err) == (False, True)
    assert main(["inspect", str(tmp_path / "bad.zip"), "-o", str(output)]) == 1
    assert "policy.pth" in read(output).partition("broken")[2]
    assert main(["inspect", str(nowhere), str(PPO), "-o", str(tmp_path / "report.json")]) == 2
    reports = parse_reports(read(tmp_path / "report.json"))
    assert [report["outcome"] for report in reports] == ["cannot open", "ok"]
    assert main(["validate", "--quiet", str(PPO), "-o", str(output), "--force"]) == 0
    assert read(output) == ""


@pytest.mark.parametrize(
    "words",
    [
        ["scan", "runs", "-o", "runs/a"],
        ["inspect", "runs", "-o", "runs/a"],
        ["predict", PPO, "--observation", "@m.json", "-o", "m.json"],
        ["predict", PPO, "--lines", "--observation", "@m.json", "-o", "m.json"],
        ["predict", PPO, "--observation", "[0, 0, 0, 0]", "--action-masks", "@m.json", "-o", "m.json"],
        ["scan", PPO, "--write-baseline", "m.json", "-o", "m.json"],
        ["scan", PPO, "--write-baseline", "new.json", "-o", "new.json"],
    ],
)
def test_no_file_of_the_command_line_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a").write_bytes(PPO.read_bytes())
    (tmp_path / "m.json").write_text("[0, 0, 0, 0]")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main([*map(str, words), "--force"]) == 2
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_report_on_a_folder_can_be_renewed_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(PPO.read_bytes())
    for _ in range(2):
        assert main(["scan", str(tmp_path), "-o", str(tmp_path / "scan.json"), "--force"]) == 0


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs a system with this name")
def test_the_file_of_standard_output_is_not_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    with log.open("a") as output:
        command = [sys.executable, "-m", "sbformat", "scan", str(PPO), "-o", "/dev/stdout", "--force"]
        assert subprocess.run(command, stdout=output, stderr=subprocess.DEVNULL, check=False).returncode == 2
    assert log.read_text() == "before\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_command_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    output = tmp_path / "report.txt"
    output.write_text("before")

    def interrupt(*_: object) -> None:
        sys.stdout.write("half")
        raise error

    monkeypatch.setattr(validate, "_print_all", interrupt)
    if error is KeyboardInterrupt:
        assert main(["validate", str(PPO), "-o", str(output), "--force"]) == 130
    else:
        with pytest.raises(error):
            main(["validate", str(PPO), "-o", str(output), "--force"])
    assert (os.listdir(tmp_path), read(output)) == (["report.txt"], "before")


def test_a_full_disk_is_the_fault_of_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    output = tmp_path / "report.txt"
    assert main(["validate", str(PPO), "-o", str(output)]) == 2
    assert capsys.readouterr() == ("", f"sbformat: {output}: cannot write: No space left on device\n")
    assert os.listdir(tmp_path) == []


def test_no_file_has_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(_output.make_printer(), _output.Rich)
    assert main(["inspect", str(PPO), "-o", str(tmp_path / "a"), "--color", "always"]) == 0
    assert "n_steps" in read(tmp_path / "a")
    assert "\x1b" not in read(tmp_path / "a")


def test_a_folder_that_is_examined_does_not_contain_the_unfinished_report(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(PPO.read_bytes())
    output = tmp_path / "report.json"
    assert main(["scan", str(tmp_path), "-o", str(output)]) == 0
    assert json.loads(read(output))["skipped"]["counts"] == {}


def test_a_report_that_is_printed_needs_no_temporary_file() -> None:
    done = run_fresh("scan", PPO)
    assert (done.returncode, "tempfile" in done.modules) == (0, False)
