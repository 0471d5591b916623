"""Errors on standard error: what is wrong, then what to do next in a line of its own; no line is long."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Final

import pytest

import sbformat
from sbformat.cli import _files, main
from tests.cli.test_commands import run_json
from tests.helpers.bundled import PPO, ROOT, changed
from tests.helpers.reports import run_failing, unfold

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = 200
SITE = "https://sbformat.github.io/sbformat/"


def fail(capsys: pytest.CaptureFixture[str], *args: object) -> list[str]:
    """Run a command that fails; the lines of its error."""
    lines = run_failing(capsys, *args).splitlines()
    return lines[next(at for at, line in enumerate(lines) if line.startswith("sbformat")) :]


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["inspect", "ppo-cartpole.zipp"], "did you mean 'ppo-cartpole.zip'?"),
        (["inspect", "nowhere/a.zip"], "there is no folder 'nowhere'"),
        (["inspect", "ppo-cartpole.zip", "--blobs", "polcy_class"], "did you mean 'policy_class'?"),
        (["inspect", "ppo-cartpole.zip", "--limit", "total_bytes=1k"],
         "if you trust the size, pass --limit total_bytes=VALUE"),
        (["edit", "ppo-cartpole.zip", "-o", "ppo-cartpole.zip", "--set", "gamma=0.5"], "--in-place writes over it"),
        (["edit", "ppo-cartpole.zip", "-o", "b.zip", "--set", "gamma=high"],
         "expected a number"),
        (["convert", "ppo-cartpole.zip", "-o", "there.safetensors"], "--force overwrites it"),
        (["convert", "ppo-cartpole.zip", "-o", "a.onnx"], "sbformat export does"),
        (["rebuild", "policy.pth", "-o", "a.zip"],
         "sbformat extract writes its tensors, sbformat convert a .pth of today's torch"),
        (["rebuild", "policy-box.pth", "-o", "a.zip"], "-o a.pth"),
        (["inspect", "page.zip"], "download it again"),
        (["inspect", "cut.zip"], "download or copy the file again"),
        (["inspect", "forged.zip"], f"{SITE}reference/errors/#containererror lists what to do"),
        (["migrate", "x"], "sbformat rebuild does that"),
        (["inspect"], "see sbformat inspect --help"),
    ],
)  # fmt: skip
def test_an_error_ends_with_what_to_do_next(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ppo-cartpole.zip", "policy-box.pth"):
        shutil.copy(ROOT / "tests" / "archives" / name, name)
    (tmp_path / "policy.pth").write_bytes(sbformat.read(PPO).raw("policy.pth"))
    (tmp_path / "cut.zip").write_bytes(PPO.read_bytes()[:9000])
    (tmp_path / "forged.zip").write_bytes(PPO.read_bytes().replace(b"data", b"dada", 1))
    (tmp_path / "page.zip").write_text("<!DOCTYPE html>")
    (tmp_path / "there.safetensors").touch()
    first, last = fail(capsys, *command)
    assert first.startswith("sbformat")
    assert hint not in first
    assert last == f"  hint: {hint}"


def test_json_has_the_hint_as_a_part_of_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    status, (report,) = run_json(capsys, "inspect", PPO, "--blobs", "polcy_class")
    assert (status, report["hint"]) == (2, "did you mean 'policy_class'?")
    assert report["message"].endswith(f"'polcy_class'; {report['hint']}")


def test_a_long_error_is_a_list_of_its_clauses() -> None:
    text = "sbformat: a.zip: invalid: " + "; ".join(f"weight {number} does not fit, see it" for number in range(9))
    lines = _files.lay_out(text, "do this, " * 40 + "or that").splitlines()
    assert lines[0] == "sbformat: a.zip: invalid: weight 0 does not fit, see it"
    assert lines[1:9] == [f"  - weight {number} does not fit, see it" for number in range(1, 9)]
    assert lines[9].startswith("  hint: do this, ")
    assert lines[10].startswith("        this, do this, ")
    assert max(map(len, lines)) <= LONGEST
    assert unfold("\n".join(lines)) == f"{text}; {'do this, ' * 40}or that"


def test_a_clause_is_broken_between_words_and_a_path_is_not() -> None:
    path = "x" * 300
    lines = _files.lay_out(f"sbformat: {path}: {'many words ' * 30}", "").splitlines()
    assert lines[:2] == ["sbformat:", f"    {path}:"]
    assert max(map(len, lines[2:])) <= LONGEST
    assert _files.lay_out("sbformat: short", "") == "sbformat: short\n"


def test_a_hint_is_left_out_when_the_error_has_another_message() -> None:
    def work() -> dict[str, object]:
        error = sbformat.MissingEntryError("a", present=["b"])
        error.message = "something else"
        raise error

    assert "hint" not in _files.report_errors("a.zip", work)


PAGE: Final = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
STATUSES: Final = {
    name: (int(row[2]), int(row[3]))
    for row in re.finditer(r"^\| (`\w+`.*?) \| (\d).*?\| (\d)", PAGE, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", row[1])
}
"""The exit statuses of the page: for a damaged entry, and for a damaged file."""
OPTIONS: Final = {
    "inspect": (), "validate": (), "scan": (), "diff": (PPO,), "report": ("-o", "a.html"), "catalog": ("-o", "a.csv"),
    "edit": ("--set", "gamma=0.5", "-o", "b.zip"), "convert": ("-o", "b.safetensors"), "extract": ("-o", "b.npz"),
    "rebuild": ("-o", "b.zip"), "predict": ("--observation", "[0, 0, 0, 0]"), "export": ("-o", "b.json"),
    "evaluate": ("--env", "CartPole-v1"),
}  # fmt: skip


def test_the_page_has_the_exit_status_of_these_commands() -> None:
    assert STATUSES.keys() == OPTIONS.keys()


@pytest.mark.parametrize("command", OPTIONS)
def test_the_exit_status_for_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    if command == "report":
        pytest.importorskip("jinja2")
    if command == "evaluate":
        pytest.importorskip("gymnasium")
    found = []
    for name, content in (("entry", changed(policy_pth=b"broken")), ("file", PPO.read_bytes()[:9000])):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        (tmp_path / name / "agent.zip").write_bytes(content)
        found.append(main([command, "agent.zip", *map(str, OPTIONS[command])]))
    capsys.readouterr()
    assert tuple(found) == STATUSES[command]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("gamma=abc", ["sbformat: --set gamma=abc: invalid: not a JSON value (expected JSON: Expecting value)",
                       "  hint: expected a number"]),
        ('policy_kwargs={"net_arhc": [8, 8]}',
         [f"sbformat: {PPO}: invalid: policy_kwargs/net_arhc: SB3 cannot make the network:",
          "ActorCriticPolicy has no argument of this name; did you mean net_arch?"]),
    ],
)  # fmt: skip
def test_what_set_has_wrong_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, value: str, error: list[str]
) -> None:
    lines = fail(capsys, "edit", PPO, "-o", tmp_path / "a.zip", "--set", value)
    assert " ".join(lines).split() == " ".join(error).split()


def test_a_new_warning_has_its_key(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["edit", str(PPO), "-o", str(tmp_path / "a.zip"), "--set", "gamma=9.98"]) == 0
    assert "new warning: data /gamma: expected a number in [0, 1]" in capsys.readouterr().out


def test_many_problems_are_lines_before_the_hint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = fail(capsys, "edit", PPO, "-o", tmp_path / "a.zip", "--set", 'policy_kwargs={"net_arch": [7, 7]}')
    assert lines[0] == f"sbformat: {PPO}: invalid: 10 problems"
    assert [line[:5] for line in lines[1:-1]] == ["  - '"] * 10
    assert lines[-1] == "  hint: --allow-mismatch writes it anyway"
    lines = fail(capsys, "edit", PPO, "-o", tmp_path / "a.zip", *("--set", "gamma=[]", "--set", "n_steps=-1") * 2,
                 "--set", 'batch_size="x"')  # fmt: skip
    assert {line.partition(": ")[0] for line in lines[1:]} == {"  - /gamma", "  - /n_steps", "  - /batch_size"}
