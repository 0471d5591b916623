"""Standard input, output and error: results and errors are apart, and ``-`` is a file."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

import sbformat
from sbformat.cli import COMMANDS, build_parser, main
from tests.helpers.bundled import PPO, ROOT, SAC, entries, with_data
from tests.helpers.forks import Fresh, run_fresh
from tests.helpers.reports import parse_reports, unfold

if TYPE_CHECKING:
    from pathlib import Path

STATISTICS: Final = ROOT / "tests" / "archives" / "vecnormalize-pendulum.pkl"


def run(*args: object, stdin: bytes | None = None, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "sbformat", *map(str, args)],
        check=False,
        cwd=ROOT,
        timeout=500,
        **({"input": stdin} if stdin is not None else {}),
        **({} if options else {"capture_output": True}),
        **options,
    )


def fork(*args: object, stdin: bytes = b"") -> Fresh:
    """Run the command line in a fork of a process that has imported what is most expensive."""
    return run_fresh(
        *args, stdin=stdin, imported=("numpy", "safetensors", "sbformat.tools.rebuild", "sbformat.tools.scan")
    )


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["inspect"], ["validate"], ["scan"], ["extract", "-o", "o.npz"], ["diff", str(PPO)], ["rebuild", "-o", "o.zip"],
        ["edit", "-o", "o.zip", "--set", "gamma=1"], ["convert", "-o", "o.pth"], ["export", "-o", "o.c"],
        ["bundle", "-o", "o.zip", "--vecnormalize", str(STATISTICS)], ["predict", "--observation", "[1]"],
        ["unbundle", "-o", "o.zip", "--vecnormalize", "p.pkl"], ["evaluate", "--env", "CartPole-v1"],
    ],
    ids=lambda command: command[0],
)  # fmt: skip
@pytest.mark.parametrize("words", ["text", "json"])
def test_an_error_is_one_line_on_standard_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command[0], "nowhere.zip", *command[1:], "--format", words]) == 2
    out, err = capsys.readouterr()
    assert err == "sbformat: nowhere.zip: cannot open: No such file or directory\n"
    if words == "json":
        (report,) = parse_reports(out)
        assert (report["path"], report["outcome"]) == ("nowhere.zip", "cannot open")
    else:
        assert out == ""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("there.zip", "sbformat: there.zip already exists\n  hint: --force overwrites it"),
        ("no/where/o.zip", "sbformat: no/where/o.zip: cannot write: there is no folder 'no/where'"),
        ("there.zip/o.zip", "sbformat: there.zip/o.zip: cannot write: Not a directory"),
    ],
)
def test_errors_in_writing_blame_the_output(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.zip").write_text("mine")
    for command in (["edit", "--set", "gamma=0.5"], ["convert"], ["rebuild"]):
        assert main([*command, str(PPO), "-o", output]) == 2
        assert capsys.readouterr() == ("", f"{expected}\n")
        assert main([*command, str(PPO), "-o", output, "--format", "json"]) == 2
        (report,) = parse_reports(capsys.readouterr().out)
        assert (report["path"], report["file"], report["outcome"]) == (str(PPO), output, "cannot write")
    assert os.listdir(tmp_path) == ["there.zip"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="needs a user whose rights are limited")
def test_a_folder_without_permission_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert main(["convert", str(PPO), "-o", str(tmp_path / "o.zip")]) == 2
    assert capsys.readouterr().err == f"sbformat: {tmp_path / 'o.zip'}: cannot write: Permission denied\n"


@pytest.mark.parametrize("target", ["o.npz", "o.safetensors", "folder"])
def test_a_disk_that_is_full_is_the_fault_of_the_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    assert main(["extract", str(PPO), "-o", str(tmp_path / target)]) == 2
    assert capsys.readouterr().err == f"sbformat: {tmp_path / target}: cannot write: No space left on device\n"
    assert os.listdir(tmp_path) == []


def test_a_folder_with_other_files_is_not_replaced(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    assert main(["extract", str(PPO), "-o", str(folder), "--force"]) == 2
    assert capsys.readouterr().err == f"sbformat: {folder} contains files other than .npy; it is not replaced\n"


@pytest.mark.parametrize("content", [None, b"hello"])
def test_the_second_file_is_blamed_for_its_errors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None
) -> None:
    bad = tmp_path / "bad.npz"
    if content is not None:
        bad.write_bytes(content)
    for command in (
        ["diff", PPO, bad],
        ["edit", PPO, "-o", tmp_path / "o.zip", "--weights", bad],
        ["bundle", SAC, "-o", tmp_path / "o.zip", "--vecnormalize", bad],
        ["predict", SAC, "--observation", "[0, 0, 0]", "--vecnormalize", bad],
    ):
        assert main([str(part) for part in command]) == 2
        assert capsys.readouterr().err.startswith(f"sbformat: {bad}: ")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device")
@pytest.mark.parametrize("command", [["inspect", PPO], ["extract", PPO, "-o", "-"]])
def test_standard_output_that_is_full_is_named(command: list[object]) -> None:
    with open("/dev/full", "wb") as full:
        done = run(*command, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-1].startswith("sbformat: standard output: cannot write: No space left")
    assert b"Traceback" not in done.stderr


def test_a_file_that_was_not_read_is_not_called_invalid(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["validate", str(PPO), str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().out == f"{PPO}: valid\n2 files: 1 valid, 0 invalid, 1 not read\n"


# -- standard input and output ------------------------------------------------------------------------


NO_STDIN: Final = {
    ("edit", "--weights"), ("unbundle", "--vecnormalize"), ("scan", "--baseline"), ("scan", "--write-baseline")
}  # fmt: skip
"""Arguments that are files, but not standard input: the suffix is the format, or they are kept or written."""


def test_the_help_says_what_can_be_standard_input() -> None:
    found, others = set(), set()
    for name, parser in build_parser().commands.items():
        for action in parser._actions:
            if action.metavar in ("FILE", "PATH", "A", "B", "STATS") or action.dest == "observation":
                place = (name, (action.option_strings or [str(action.metavar)])[0])
                (found if "standard input" in str(action.help) else others).add(place)
    assert others == NO_STDIN
    assert {name for name, _ in found} == {*COMMANDS} - {"completion", "help"}


@pytest.mark.parametrize("command", ["inspect", "validate", "scan"])
def test_an_archive_comes_from_standard_input(command: str) -> None:
    done = fork(command, "-", "--format", "json", stdin=PPO.read_bytes())
    (report,) = parse_reports(done.stdout.decode())
    assert (done.returncode, report["path"], report["outcome"], done.stderr) == (0, "<stdin>", "ok", b"")


def test_standard_input_is_one_of_many_files() -> None:
    done = fork("scan", PPO, "-", *[STATISTICS] * 40, "--format", "json", "--jobs", 2, stdin=entries()["policy.pth"])
    reports = parse_reports(done.stdout.decode())
    assert [report["path"] for report in reports[:2]] == [str(PPO), "<stdin>"]
    assert [report["format"] for report in reports[:2]] == ["sb3", "torch-zip"]


def test_archives_go_through_pipes() -> None:
    edited = fork("edit", "-", "-o", "-", "--set", "gamma=0.5", stdin=PPO.read_bytes())
    assert (edited.returncode, edited.stderr.decode().splitlines()[0]) == (0, "<stdout>: 1 change")
    assert sbformat.reads(edited.stdout).data["gamma"] == 0.5
    rebuilt = fork("rebuild", "-", "-o", "-", stdin=edited.stdout).stdout
    assert sbformat.scan(rebuilt).verdict == "clean"
    portable = fork("convert", "-", "-o", "-", "--to", "safetensors", stdin=rebuilt).stdout
    again = fork("convert", "-", "-o", "-", "--to", "zip", stdin=portable).stdout
    assert sbformat.diff(again, rebuilt).changes == ()
    weights = fork("extract", "-", "-o", "-", stdin=again)
    assert weights.stdout[8:9] == b"{"
    assert weights.stderr == b"<stdout>: 12 tensors, 1004 B\n"


@pytest.mark.parametrize("command", [["extract", PPO, "-o", "-"], ["inspect", PPO], ["scan", PPO, "--format", "csv"]])
def test_a_pipe_whose_reader_has_enough_is_not_an_error_to_report(command: list[object]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(*command, stdout=writer, stderr=subprocess.PIPE)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (2, b"")


def test_statistics_go_through_pipes() -> None:
    rebuilt = fork("rebuild", "-", "-o", "-", stdin=STATISTICS.read_bytes())
    bundled = fork("bundle", SAC, "--vecnormalize", "-", "-o", "-", stdin=rebuilt.stdout)
    assert bundled.returncode == 0
    assert sbformat.reads(bundled.stdout).algorithm.name == "SAC"
    done = fork("diff", "-", SAC, "--format", "json", stdin=bundled.stdout)
    (report,) = parse_reports(done.stdout.decode())
    assert (done.returncode, report["path"]) == (1, "<stdin>")


def test_the_summary_of_what_goes_to_standard_output_is_on_standard_error() -> None:
    done = fork("extract", PPO, "-o", "-", "--format", "json")
    (report,) = parse_reports(done.stderr.decode())
    assert (report["output"], len(report["tensors"])) == ("<stdout>", 12)
    assert done.stdout[8:9] == b"{"
    assert fork("extract", PPO, "-o", "-", "--quiet").stderr == b""


def test_standard_input_that_is_not_an_archive_is_named() -> None:
    done = fork("edit", "-", "-o", "-", "--set", "gamma=0.5", stdin=b"hello")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"sbformat: <stdin>: expected an archive, got ")
    limited = fork("inspect", "-", "--limit", "total_bytes=1000", stdin=PPO.read_bytes())
    assert limited.stderr.startswith(b"sbformat: <stdin>: limit exceeded: ")


def test_standard_input_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["diff", "-", "-"], ["bundle", "-", "--vecnormalize", "-", "-o", "x.zip"]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert (ended.value.code, "standard input can be read once" in capsys.readouterr().err) == (2, True)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_a_terminal_is_neither_input_nor_output() -> None:
    control, terminal = os.openpty()
    try:
        written = run("extract", PPO, "-o", "-", stdout=terminal, stderr=subprocess.PIPE)
        code = "import sys; from sbformat.cli import main; sys.exit(main(['inspect', '-']))"
        read = subprocess.run([sys.executable, "-c", code], stdin=terminal, capture_output=True, cwd=ROOT, check=False)
    finally:
        os.close(terminal)
        os.close(control)
    assert (written.returncode, b"standard output is a terminal" in written.stderr) == (2, True)
    assert (read.returncode, b"got a terminal" in read.stderr) == (2, True)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_an_observation_does_not_come_from_a_terminal_or_a_closed_stream(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    control, terminal = os.openpty()
    with open(terminal, encoding="utf-8") as stdin:
        reasons = {stdin: "expected a file on standard input, got a terminal", None: "standard input is closed"}
        for stream, reason in reasons.items():
            monkeypatch.setattr("sys.stdin", stream)
            assert main(["predict", str(PPO), "--observation", "-"]) == 2
            assert capsys.readouterr() == ("", f"sbformat: <stdin>: unsupported: {reason}\n")
    os.close(control)


def test_an_observation_on_standard_input_is_within_the_limit() -> None:
    options = ("predict", PPO, "--observation", "-", "--limit", "total_bytes=1MB")
    done = fork(*options, stdin=b" " * (1 << 21))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"sbformat: <stdin>: limit exceeded: " in done.stderr
    assert fork(*options, stdin=b"[1, 2, 3, 4]").returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="needs a shell of POSIX")
def test_standard_output_that_is_closed_is_said() -> None:
    command = f"exec '{sys.executable}' -m sbformat inspect '{PPO}' >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, cwd=ROOT, check=False, timeout=500)
    assert done.returncode == 2
    assert done.stderr == b"sbformat: standard output is closed\n  hint: redirect it to a file, or to /dev/null\n"


def test_two_outputs_do_not_fit_into_one_stream(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["unbundle", str(SAC), "-o", "-", "--vecnormalize", str(tmp_path / "v.pkl")]) == 2
    assert "standard output takes one" in capsys.readouterr().err
    assert main(["export", str(PPO), "-o", "-"]) == 2
    assert capsys.readouterr().err.startswith("sbformat: <stdout>: unsupported: expected an output that ends in .onnx")
    with pytest.raises(SystemExit):
        main(["convert", str(PPO), "-o", "-"])
    assert "--to: expected it with the output -" in capsys.readouterr().err


def test_an_empty_path_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", ""]) == 2
    assert capsys.readouterr().err == "sbformat: '': cannot open: No such file or directory\n"


def test_a_file_named_like_the_message_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "at").write_bytes(b"hello")
    assert main(["inspect", "at"]) == 2
    assert capsys.readouterr().err.startswith("sbformat: at: expected an archive")


def test_a_file_that_is_cut_off_is_said_to_be_before_where_that_was_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "cut.zip"
    path.write_bytes(PPO.read_bytes()[:9000])
    assert main(["inspect", str(path)]) == 2
    assert unfold(capsys.readouterr().err) == (
        f"sbformat: {path}: the end of the zip is missing: the file was cut off, or bytes were appended "
        "(container failure at byte 9000); download or copy the file again\n"
    )
    assert main(["inspect", str(path), "--format", "json"]) == 2
    (report,) = json.loads(capsys.readouterr().out)["files"]
    assert report["outcome"] == "container failure"
    assert report["message"].startswith("at byte 9000: the end of the zip is missing")


# -- quiet --------------------------------------------------------------------------------------------


def test_quiet_leaves_findings_and_errors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.pkl"
    bad.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert main(["scan", "-q", str(PPO), str(bad), str(tmp_path / "nowhere")]) == 2
    out, err = capsys.readouterr()
    assert (out.startswith(f"{bad}: dangerous (harmful)"), str(PPO) in out, "3 files" in out) == (True, False, False)
    assert err == f"sbformat: {tmp_path / 'nowhere'}: cannot open: No such file or directory\n"
    assert (main(["validate", "-q", str(PPO), str(SAC)]), capsys.readouterr()) == (0, ("", ""))
    assert (main(["extract", "-q", str(PPO), "-o", str(tmp_path / "o.npz")]), capsys.readouterr()) == (0, ("", ""))
    change = ["edit", "-q", str(PPO), "-o", str(tmp_path / "o.zip"), "--set", "gamma=0.5"]
    assert (main(change), capsys.readouterr()) == (0, ("", ""))
    document = main(["validate", "-q", str(PPO), "--format", "json"]), capsys.readouterr().out
    assert (document[0], json.loads(document[1])["files"][0]["outcome"]) == (0, "ok")


LONG = "x" * 150


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_a_cell_is_whole_in_a_pipe_and_cut_on_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(with_data(lambda data: data.update(mine=LONG)))
    command = [sys.executable, "-m", "sbformat", "inspect", "--long", str(path)]
    piped = subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT, check=True).stdout.decode()
    assert LONG in piped
    control, terminal = os.openpty()
    environment = {**os.environ, "COLUMNS": "400"}
    with subprocess.Popen(command, stdout=terminal, cwd=ROOT, env=environment) as process:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # the end of the terminal
            while piece := os.read(control, 65536):
                shown += piece
        assert process.wait() == 0
    os.close(control)
    assert f"{LONG[:100]}\u2026".encode() in shown
    assert LONG.encode() not in shown
