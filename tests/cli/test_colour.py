"""Colours, ``--verbose`` and errors that no command expects."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sbformat.cli import main
from tests.helpers.attacks import serialized
from tests.helpers.bundled import PPO, ROOT, changed, with_data
from tests.helpers.old_archives import OLD
from tests.helpers.reports import unfold

if TYPE_CHECKING:
    from pathlib import Path

SB2 = ROOT / "tests" / "nets" / "archives" / "sb2"
AGENTS = [OLD, *(SB2 / f"{name}.zip" for name in ("dqn-noise", "ppo2-elu-box64", "sac-auto", "td3-noise", "ddpg-walk"))]
GREEN = "\x1b[32m"
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("options", "environment", "is_coloured"),
    [
        ([], {}, False),
        (["--color", "always"], {}, True),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ([], {"NO_COLOR": ""}, False),
    ],
)
def test_options_and_environment_decide_about_colour_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    environment: dict[str, str],
    is_coloured: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    pytest.importorskip("rich")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["validate", str(PPO), *options]) == 0
    out = capsys.readouterr().out
    assert (f"{GREEN}valid" in out, "\x1b" in out) == (is_coloured, is_coloured)
    assert "".join(ESCAPE.sub("", out).split()) == f"{PPO}:valid"


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_verdicts_have_colours_in_a_terminal(environment: dict[str, str], is_coloured: bool) -> None:  # noqa: FBT001
    pytest.importorskip("rich")
    control, terminal = os.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    subprocess.run(
        [sys.executable, "-m", "sbformat", "scan", PPO],
        stdout=terminal,
        env={**variables, **environment},
        cwd=ROOT,
        check=True,
    )
    os.close(terminal)
    shown = os.read(control, 65536).decode()
    os.close(control)
    assert (f"{GREEN}clean" in shown) == is_coloured
    assert ("\x1b" in shown) == is_coloured
    assert "clean" in shown


def test_json_has_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(PPO), "--format", "json", "--color", "always"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_file_does_not_choose_escapes_with_colours(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "\x1b[2J[red]a.zip"
    path.write_bytes(changed(policy_pth=b"\x1b[2J"))
    for command in ("inspect", "scan", "validate"):
        main([command, str(path), "--color", "always"])
        out, err = capsys.readouterr()
        assert "\x1b" not in ESCAPE.sub("", out) + err
        assert "[red]a.zip" in "".join(ESCAPE.sub("", out).split())


def test_verbose_says_what_was_read_and_shortens_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["scan", "-v", str(PPO)]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"sha256 [0-9a-f]{64}\)", out)
    assert re.fullmatch(r"sbformat: exit status 0 after \d+\.\d\d s\n", err)
    assert main(["extract", "-v", str(PPO), "-o", str(tmp_path / "o.npz")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"sbformat: read {PPO}: Stable-Baselines3 archive, 6 entries, SB3 2.9.2, 28.7 KiB"
    with pytest.raises(SystemExit):
        main(["scan", "-q", "-v", str(PPO)])


def test_an_internal_error_is_one_line_that_says_where_to_report_it() -> None:
    code = (
        "import sys, sbformat.tools.scan as tool\n"
        "def scan(*args, **kwargs): raise KeyError('\\x1b[2J')\n"
        "tool.scan = scan\n"
        "from sbformat.cli import main\n"
        "sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "scan", "-v", PPO], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout, unfold(done.stderr).count("\n")) == (2, "", 1)
    assert unfold(done.stderr).startswith(
        "sbformat: internal error: KeyError in scan (<string>:2): '\\x1b[2J'; please report it"
    )


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_findings_are_folded_between_words_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, width: int
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", str(width))
    path = tmp_path / "evil.zip"
    path.write_bytes(with_data(lambda data: data.update(lr_schedule=serialized(b"cos\nsystem\n(S'true'\ntR."))))
    assert main(["scan", str(path), "--format", "json"]) == 1
    findings = json.loads(capsys.readouterr().out)["files"][0]["findings"]
    assert main(["scan", str(path), "--color", "always"]) == 1
    lines = ESCAPE.sub("", capsys.readouterr().out).partition("\n  findings")[2].splitlines()
    words = {word for line in lines for word in line.split()}
    expected = [word for row in findings for word in f"{row['rule']} data:lr_schedule {row['message']}".split()]
    assert [word for word in expected if word not in words] == []
    assert [line for line in lines if len(line) > width] == []
    assert len(lines) < 20


def test_a_terminal_of_no_columns_has_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "0")
    assert main(["inspect", str(PPO), "--color", "always"]) == 0
    assert "PPO" in ESCAPE.sub("", capsys.readouterr().out)


def print_in_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, *words: object
) -> list[str]:
    """Return the lines that a command prints in a terminal of a width."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main([*map(str, words), "--color", "always"])
    lines = ESCAPE.sub("", capsys.readouterr().out).splitlines()
    assert [line for line in lines if len(line) > width] == []
    return lines


@pytest.mark.parametrize("source", AGENTS, ids=lambda path: path.stem)
def test_hyperparameters_are_a_table_at_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path
) -> None:
    pytest.importorskip("rich")
    lines = print_in_terminal(capsys, monkeypatch, 80, "rebuild", source, "-o", tmp_path / "out.zip")
    assert ["hyper-parameter", "before", "now", "how"] in [line.split() for line in lines]
    assert ["learning_rate"] not in [line.split()[1:] for line in lines]  # one field a line
    assert len(lines) < 130


def test_a_folder_of_many_files_is_a_table_at_140_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("rich")
    folder = tmp_path / "runs"
    for index in range(14):
        path = folder / f"environment_with_a_long_name-v{index}" / f"environment_with_a_long_name-v{index}.zip"
        path.parent.mkdir(parents=True)
        path.write_bytes(OLD.read_bytes())
    lines = print_in_terminal(capsys, monkeypatch, 140, "rebuild", folder, "-o", tmp_path / "out")
    assert [line.split()[:2] for line in lines if " PPO " in line] != []
    assert len(lines) < 40
