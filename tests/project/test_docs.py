"""The README is true: its commands print what it shows, its code runs, its options exist."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shlex
import subprocess
import sys
from inspect import isfunction
from typing import TYPE_CHECKING

import sbformat
from sbformat.cli import build_parser, main
from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

README = (ROOT / "README.md").read_text("utf-8")
CONSOLE = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
PYTHON = [
    block
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    if "stable_baselines3 import" not in block  # the interop tests run those
]
COMMANDS = (
    "inspect", "extract", "validate", "scan", "diff", "edit", "convert", "rebuild", "bundle", "unbundle", "predict",
    "export", "report",
)  # fmt: skip
"""All but ``evaluate``, which needs gymnasium: the interop tests run it."""
SHOWN = [
    (command, output)
    for block in CONSOLE
    for command, output in re.findall(
        rf"^\$ (sbformat (?:(?:{'|'.join(COMMANDS)}) .*|--help))\n((?:(?!\$ ).*\n)*)",
        block,
        re.MULTILINE,
    )
    if output.strip()
]


def test_commands_print_what_the_readme_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    for command, output in SHOWN:  # in order: some work on what those before them wrote
        with contextlib.suppress(SystemExit):  # of --help
            main(shlex.split(command)[1:])
        printed = capsys.readouterr().out.rstrip()
        shown = ".+?".join(map(re.escape, re.split(r"^ *\.\.\.$", output.rstrip(), flags=re.MULTILINE)))
        assert re.fullmatch(shown, printed, re.DOTALL), f"{command}\n{printed}"


def test_every_command_is_shown() -> None:
    assert {command.split()[1] for command, _ in SHOWN} == {*COMMANDS, "--help"}


def test_every_public_function_is_shown() -> None:
    code = "\n".join(PYTHON)
    names = set(re.findall(r"`(?:sbformat\.)?(\w+)(?:\(.*?\))?`", README)) | set(re.findall(r"\bsbformat\.(\w+)", code))
    names |= set(", ".join(re.findall(r"^from sbformat import (.*)$", code, re.MULTILINE)).split(", "))
    functions = {name for name in dir(sbformat) if isfunction(getattr(sbformat, name))}
    assert len(functions) > 20
    assert functions <= names


def test_the_noxfile_runs_the_commands_of_the_readme() -> None:
    commands = re.findall(r"^\$ (.*)$", README, re.MULTILINE)
    strings = {
        node.value
        for node in ast.walk(ast.parse((ROOT / "noxfile.py").read_text("utf-8")))
        if isinstance(node, ast.Constant)
    }
    assert commands[0] == "pip install '.[cli]' && sbformat inspect tests/archives/ppo-cartpole.zip"
    assert "pip install -e '.[test]' && python -m pytest" in commands
    assert {commands[0], "pip install -e '.[test]' && python -m pytest"} <= strings


def test_the_code_runs_and_gives_what_its_comments_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    checked = 0
    for block in PYTHON:
        scope: dict[str, object] = {}
        exec(block, scope)  # noqa: S102 -- the README's own code
        for expression, comment in re.findall(r"^(\S.*?)\s+# (.+)$", block, re.MULTILINE):
            if comment.startswith(("'", "(", "[", "<", "True")) or comment[0].isdigit():
                shown = repr(eval(expression, scope))  # noqa: S307 -- the README's own code
                assert shown == comment.removesuffix(", without numpy"), expression
                checked += 1
    assert checked >= 20


def test_the_code_passes_mypy_strict(tmp_path: Path) -> None:
    for number, block in enumerate(PYTHON):
        (tmp_path / f"block_{number}.py").write_text(block, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    run = subprocess.run(
        [*command, "--cache-dir", str(tmp_path / "cache"), *map(str, sorted(tmp_path.glob("*.py")))],
        cwd=ROOT, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_option_is_documented() -> None:
    parser = build_parser()
    commands = next(action for action in parser._actions if action.dest == "command").choices
    assert isinstance(commands, dict)
    for name, command in commands.items():
        assert f"sbformat {name}" in README
        for action in command._actions:
            for option in action.option_strings:
                if option.startswith("--") and option != "--help":
                    assert option in README, f"{name} {option}"


def test_every_section_of_the_format_that_is_cited_is_there() -> None:
    text = (ROOT / "schema" / "FORMAT.md").read_text("utf-8")
    sections = set(re.findall(r"^#+ (\d+(?:\.\d+)?)", text, re.MULTILINE))
    folders = ("sbformat", "conformance", "tests")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for numbers in re.findall(r"FORMAT\.md ((?:\d+(?:\.\d+)?(?:, | to )?)+)", path.read_text("utf-8")):
            for number in re.findall(r"\d+(?:\.\d+)?", numbers):
                assert number in sections, f"{path.name} cites FORMAT.md {number}"
    cited = set(re.findall(r"(?<![\d.])19\.\d+", text))
    assert len(cited) > 5
    assert cited <= sections


def read_table(section: str, number: int = 0) -> list[list[str]]:
    """Return the cells of a table of FORMAT.md, without its two first lines."""
    text = (ROOT / "schema" / "FORMAT.md").read_text("utf-8")
    body = re.split(r"^#", text[text.index(f"### {section} ") + 3 :], maxsplit=1, flags=re.MULTILINE)[0]
    table = re.findall(r"(?:^\|.*\n)+", body, re.MULTILINE)[number]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()[2:]]
    return [[cell.strip().replace(r"\|", "|") for cell in row] for row in rows]


def test_the_operators_of_the_format_are_those_of_the_code() -> None:
    from sbformat.policies.operators import OPERATORS

    found = {}
    for name, operator in OPERATORS.items():
        least, most = operator.operands
        several = f"{least} or {most}" if most == least + 1 else f"{least} or more"
        attributes = ", ".join(f"`{attribute}`" for attribute in sorted(operator.attributes))
        found[f"`{name}`"] = [str(least) if least == most else several, attributes, operator.meaning]
    assert {name: cells for name, *cells in read_table("19.2")} == found


def test_the_activations_of_the_format_are_those_of_the_code() -> None:
    from sbformat.policies.shapes.activations import ACTIVATIONS, FLATTEN_LAYER

    known = {name for _, name in (*ACTIVATIONS, FLATTEN_LAYER)}
    named = {name for row in read_table("19.5") for name in re.findall(r"`(\w+)`", row[0])}
    assert known - named == {"GLU", "Softmax2d"}
    assert named <= known


def test_the_outputs_of_the_format_are_those_of_the_code() -> None:
    rows = read_table("19.7")
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row[2])}
    found = set()
    for path in (ROOT / "conformance" / "vectors" / "valid").glob("policy-*.zip"):
        if "-sb2-" not in path.name:
            found |= set(sbformat.policy_graph(path).outputs)
    assert found == documented | {"action"}


def test_every_limit_is_in_the_format() -> None:
    from sbformat import Limits

    text = (ROOT / "schema" / "FORMAT.md").read_text("utf-8")
    for name in Limits._fields:
        assert f"`{name}`" in text, name


def test_the_text_names_no_machine_and_no_registry() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(ROOT / "sbformat").rglob("*.py"), *ROOT.glob("schema/*")]:
        text = path.read_text("utf-8")
        assert not re.search(r"(?:/home|/root|/work)/|pypi\.org|files\.pythonhosted", text), path
