"""``sbformat completion``: what shells complete."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sbformat.cli import ALIASES, COMMANDS, main
from tests.helpers.bundled import PPO, ROOT
from tests.helpers.forks import run_fresh

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> str:
    """The script of a shell."""
    pytest.importorskip("shtab")
    assert main(["completion", request.param]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("script", ["bash", "zsh", "fish", "tcsh", "powershell"], indirect=True)
def test_every_command_and_its_options_are_in_the_script(script: str) -> None:
    for word in (*COMMANDS, *ALIASES, "fail-on", "vecnormalize", "unchecked-crc"):
        assert word in script


@pytest.mark.skipif(shutil.which("bash") is None or sys.platform == "win32", reason="needs bash")
@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ins"], ["inspect"]),
        (["un"], ["unbundle"]),
        (["up"], ["upgrade"]),
        (["upgrade", "x", "--on-unknown", "k"], ["keep"]),
        (["help", "pre"], ["predict"]),
        (["inspect", "--bl"], ["--blobs"]),
        (["scan", "--fail-on", ""], ["unknown", "code", "broken", "dangerous", "never"]),
        (["rebuild", "x", "--on-unknown", "k"], ["keep"]),
        (["diff", "ppo-cartpole"], ["ppo-cartpole-1.0.zip", "ppo-cartpole.zip"]),
        (["convert", "x", "-o", "sac"], ["sac-pendulum.zip"]),
        (["completion", "f"], ["fish"]),
    ],
)
def test_bash_completes(tmp_path: Path, script: str, words: list[str], expected: list[str]) -> None:
    (tmp_path / "script").write_text(
        f'{script}\nCOMP_WORDS=(sbformat "$@")\nCOMP_CWORD=$#\n_shtab_sbformat\nprintf \'%s\\n\' "${{COMPREPLY[@]}}"\n'
    )
    done = subprocess.run(
        ["bash", str(tmp_path / "script"), *words],
        capture_output=True,
        text=True,
        cwd=ROOT / "tests" / "archives",
        check=True,
    )
    assert done.stdout.split() == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_script(tmp_path: Path, shell: str) -> None:
    pytest.importorskip("shtab")
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    made = subprocess.run(
        [sys.executable, "-m", "sbformat", "completion", shell], capture_output=True, cwd=ROOT, check=True
    )
    (tmp_path / "script").write_bytes(made.stdout)
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_without_shtab_the_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    message = (
        'sbformat: to write completions, the package shtab is needed\n  hint: pip install "sbformat[completion]"\n'
    )
    assert capsys.readouterr() == ("", message)


def test_no_other_command_loads_shtab() -> None:
    done = run_fresh("scan", PPO)
    assert (done.returncode, "shtab" in done.modules) == (0, False)
