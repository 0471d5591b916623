"""Runs the steps of ``action.yml`` as GitHub's runner does, as far as this action needs it.

The inputs and the outputs of earlier steps are put into the environment of a step. Its script is written to a file that
bash runs with the options of ``shell: bash``. Steps that use other actions are skipped, and noted.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from sbformat.cli import main
from tests.helpers.bundled import ROOT
from tests.helpers.conformance_commands import run_program

ACTION: Final[dict[str, Any]] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
SCAN: Final = '"$PYTHON" -I "$GITHUB_ACTION_PATH/action/scan.py"'
"""The script of the step that scans."""
EXPRESSION: Final = re.compile(r"\$\{\{ (inputs|steps)\.([\w-]+)(?:\.outputs\.([\w-]+))? \}\}")
OUTPUT: Final = re.compile(r"^([\w-]+)(?:=(.*)|<<(.+)\n((?:.*\n)*?)\3)$", re.MULTILINE)
COMMAND: Final = re.compile(r"^\s*::([\w-]+)(?: ([^:\n]*))?::(.*)$")
OLD_COMMAND: Final = re.compile(r"##\[([\w-]+)(?: ([^\]]*))?\](.*)$")
"""The runner also executes commands of this form, anywhere in a line."""


class Command(NamedTuple):
    """A command of the runner in the output of a step."""

    name: str
    properties: dict[str, str]
    message: str


class ActionRun(NamedTuple):
    """What a run of the action left."""

    status: int
    """Exit status of the first step that failed, or 0."""
    printed: str
    outputs: dict[str, str]
    """Those of the step ``scan``."""
    summary: str
    used: list[str]
    """Actions that would have run."""

    @property
    def commands(self) -> list[Command]:
        """The commands that the runner would execute."""
        return list_commands(self.printed)


def list_commands(printed: str) -> list[Command]:
    """Return the commands in the output of a step, except in the parts where they are stopped."""
    found, token = [], ""
    for line in printed.splitlines():
        match = COMMAND.match(line) or OLD_COMMAND.search(line)
        if token:
            token = "" if line.strip() == f"::{token}::" else token
        elif match is not None and match[1] == "stop-commands":
            token = match[3]
        elif match is not None:
            pairs = (part.partition("=") for part in (match[2] or "").split(",") if part)
            properties = {name: decode(value) for name, _, value in pairs}
            found.append(Command(match[1], properties, decode(match[3])))
    assert not token, "commands are stopped until the end"
    return found


def decode(text: str) -> str:
    """Decode a property or message of a command."""
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text


class ActionRunner:
    """Runs the action.

    :param folder: an empty one, for the workspace and the files of the runner
    :param outputs: of steps that are not run, by their id
    """

    def __init__(self, folder: Path, outputs: dict[str, dict[str, str]]) -> None:
        self.workspace, self._temporary = folder / "workspace", folder / "temporary"
        self.workspace.mkdir()
        self._temporary.mkdir()
        self._given = outputs

    def run(self, **inputs: str) -> ActionRun:
        """Run the steps; the names of inputs have underscores in place of hyphens."""
        values = {name: row.get("default", "") for name, row in ACTION["inputs"].items()}
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert given.keys() <= values.keys()
        values |= given
        outputs, status, printed, used = dict(self._given), 0, "", []
        for number, step in enumerate(ACTION["runs"]["steps"]):
            name = step.get("id", str(number))
            if name in self._given or not self._applies(step.get("if", "success()"), values, outputs, status):
                continue
            if "uses" in step:
                used.append(step["uses"])
                continue
            environment = {key: expand(text, values, outputs) for key, text in step.get("env", {}).items()}
            done, outputs[name] = self._run_step(step["run"], environment, number)
            printed += done.stdout
            status = status or done.returncode
        summary = self._temporary / "summary"
        text = summary.read_text("utf-8") if summary.exists() else ""
        return ActionRun(status, printed, outputs.get("scan", {}), text, used)

    def _run_step(
        self, script: str, environment: dict[str, str], number: int
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
        path, output = self._temporary / f"{number}.sh", self._temporary / f"output-{number}"
        path.write_text(script, "utf-8")
        output.touch()
        given = {
            **environment,
            "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_WORKSPACE": str(self.workspace), "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self._temporary / "summary"), "RUNNER_TEMP": str(self._temporary),
        }  # fmt: skip
        return self._run_script(path, given), read_outputs(output)

    def _run_script(self, path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(path)], cwd=self.workspace, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, encoding="utf-8", errors="surrogateescape",
            env={**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, **environment},
        )  # fmt: skip

    def _applies(self, condition: str, inputs: dict[str, str], outputs: dict[str, dict[str, str]], status: int) -> bool:
        """Evaluate the condition of a step: ``always()``, and comparisons that are joined by ``&&``."""
        parts = condition.split(" && ")
        for part in parts:
            name, _, value = part.partition(" == ")
            if value and expand(f"${{{{ {name} }}}}", inputs, outputs) != value.strip("'"):
                return False
        return status == 0 or "always()" in parts


class QuickActionRunner(ActionRunner):
    """Runs the scan of the action in this process: to start bash and two Pythons takes longer than most scans."""

    def _run_script(self, path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        if path.read_text("utf-8") != SCAN:
            return super()._run_script(path, environment)
        printed = io.TextIOWrapper(io.BytesIO(), "utf-8")
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.chdir(self.workspace)
            patch.setattr("subprocess.run", run_sbformat)
            status = runpy.run_path(str(ROOT / "action" / "scan.py"))["main"]()
        printed.seek(0)
        return subprocess.CompletedProcess([str(path)], status, printed.read())


def run_sbformat(command: list[str], *, stdout: Any, cwd: str, **_: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command of ``python -I -m sbformat`` in this process."""
    assert command[:4] == [sys.executable, "-I", "-m", "sbformat"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        done = run_program(main, *command[4:])
    stdout.write(done.stdout.encode("utf-8"))
    return subprocess.CompletedProcess(command, done.returncode, None, done.stderr.encode("utf-8"))


def expand(text: str, inputs: dict[str, str], outputs: dict[str, dict[str, str]]) -> str:
    """Replace the expressions in the value of an environment variable."""

    def replace(found: re.Match[str]) -> str:
        return inputs[found[2]] if found[1] == "inputs" else outputs.get(found[2], {}).get(found[3], "")

    return EXPRESSION.sub(replace, str(text))


def read_outputs(path: Path) -> dict[str, str]:
    """Return what a step wrote into its file of outputs."""
    return {
        found[1]: found[4].removesuffix("\n") if found[3] else found[2]
        for found in OUTPUT.finditer(path.read_text("utf-8"))
    }
