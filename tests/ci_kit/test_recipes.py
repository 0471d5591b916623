"""The recipes of docs/how-to/scan-in-ci.md: inputs and hooks that exist, and scripts that do what the page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from sbformat.cli import build_parser
from tests.helpers.bundled import PPO, ROOT
from tests.helpers.pages import Block, Shell, read_page

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the commands are those of a POSIX shell")

PAGE: Final = ROOT / "docs" / "how-to" / "scan-in-ci.md"
BLOCKS: Final = read_page(PAGE)
NAMED: Final[dict[str, Block]] = {block.name: block for block in BLOCKS if block.name is not None}
ACTION: Final[dict[str, Any]] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
EVIL: Final = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."


def list_rows(heading: str) -> list[list[str]]:
    """The cells of the table with this first heading."""
    table = PAGE.read_text("utf-8").partition(f"\n| {heading} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_workflow_gives_the_action_inputs_that_it_has() -> None:
    (job,) = yaml.safe_load(NAMED[".github/workflows/scan.yml"].text)["jobs"].values()
    (step,) = [step for step in job["steps"] if step["uses"].startswith("sbformat/sbformat@")]
    assert set(step["with"]) <= set(ACTION["inputs"])


def test_the_tables_have_the_inputs_and_outputs_of_the_action() -> None:
    inputs = {name.strip("`"): default for name, default, _ in list_rows("input")}
    assert set(inputs) == set(ACTION["inputs"])
    defaults = {name: default.strip("`") for name, default in inputs.items() if default.startswith("`")}
    assert defaults == {name: row["default"] for name, row in ACTION["inputs"].items() if row["default"]}
    outputs = set(re.findall(r"`([\w-]+)`", " ".join(cells[0] for cells in list_rows("output"))))
    assert outputs == set(ACTION["outputs"])


def test_the_table_of_levels_is_that_of_the_command() -> None:
    levels = [re.findall(r"`(\w+)`", cells[0])[0] for cells in list_rows("`--fail-on`")]
    for level in levels:
        assert build_parser().parse_args(["scan", "--fail-on", level, "x"]).fail_on == level
    assert len(levels) == 5


def test_the_steps_without_the_action_are_steps() -> None:
    steps = next(block for block in BLOCKS if "codeql-action" in block.text and block.name is None)
    first, second = yaml.safe_load(steps.text)
    assert second["uses"].startswith("github/codeql-action/upload-sarif@")
    assert f"> {second['with']['sarif_file']}" in first["run"]


def test_the_configuration_of_pre_commit_names_hooks_that_exist(tmp_path: Path) -> None:
    hooks = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
    (repository,) = yaml.safe_load(NAMED[".pre-commit-config.yaml"].text)["repos"]
    assert [hook["id"] for hook in repository["hooks"]] == sorted(hooks)
    suffixes = next(cells[2] for cells in list_rows("hook") if "scan" in cells[0])
    scan = next(hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()) if "scan" in hook["id"])
    assert re.findall(r"`\.(\w+)`", suffixes) == re.findall(r"\w+(?=[|)])", scan["files"].partition(".(")[2])
    library = pytest.importorskip("pre_commit.clientlib")
    (tmp_path / "config.yaml").write_text(NAMED[".pre-commit-config.yaml"].text, "utf-8")
    assert library.load_config(str(tmp_path / "config.yaml"))["repos"] != []


@pytest.mark.ci_kit
@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("github-actions", "action.yml"),
        ("github-workflows", ".github/workflows/test.yml"),
        ("dependabot", ".github/dependabot.yml"),
        ("github-workflows", "page:.github/workflows/scan.yml"),
        ("gitlab-ci", "page:.gitlab-ci.yml"),
    ],
)
def test_the_files_for_continuous_integration_keep_their_schemas(schema: str, name: str, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    path = ROOT / name
    if name.startswith("page:"):
        path = tmp_path / "recipe.yml"
        path.write_text(NAMED[name.removeprefix("page:")].text, "utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout


# -- scripts ------------------------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder with the files of the page and a folder of models."""
    made = Shell(tmp_path)
    for block in NAMED.values():
        made.write(block)
    (tmp_path / "models").mkdir()
    shutil.copy(PPO, tmp_path / "models" / "good.zip")
    return made


def run_lines(shell: Shell, lines: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the commands of a job as GitLab does: one script that ends at the first error; without those of pip."""
    script = "\n".join(line for line in lines if not line.startswith("pip "))
    assert len(script.splitlines()) == len(lines) - 1
    return subprocess.run(
        ["/bin/sh", "-e", "-c", script], cwd=shell.folder, env=shell.environment, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_the_job_of_gitlab_fails_for_a_dangerous_file_and_reports_it(shell: Shell) -> None:
    job = yaml.safe_load(NAMED[".gitlab-ci.yml"].text)["scan-agents"]
    report = shell.folder / job["artifacts"]["reports"]["codequality"]
    done = run_lines(shell, job["script"])
    assert done.returncode == 0, done.stdout
    assert json.loads(report.read_text("utf-8")) == []

    (shell.folder / "models" / "evil one.pkl").write_bytes(EVIL)
    done = run_lines(shell, job["script"])
    assert done.returncode == 1
    assert "evil one.pkl: dangerous (harmful)" in done.stdout
    rows = json.loads(report.read_text("utf-8"))
    assert len({row["fingerprint"] for row in rows}) == len(rows) == 2
    for row in rows:
        assert set(row) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert (row["severity"], row["check_name"]) == ("blocker", "sbformat/dangerous-name")
        assert row["location"] == {"path": "models/evil one.pkl", "lines": {"begin": 1}}
    assert [name for name in job["artifacts"]["paths"] if not (shell.folder / name).exists()] == []

    shutil.rmtree(shell.folder / "models")
    assert run_lines(shell, job["script"]).returncode == 2


def test_the_steps_of_jenkins_write_the_log_that_is_recorded(shell: Shell) -> None:
    text = NAMED["Jenkinsfile"].text
    assert text.count("{") == text.count("}")
    install, scan = re.findall(r"sh '(.*)'", text)
    assert install.endswith("pip install sbformat")
    program = install.partition("python -m venv ")[2].split()[0] + "/bin/"
    (shell.folder / "models" / "evil.pkl").write_bytes(EVIL)
    done = subprocess.run(
        ["/bin/sh", "-xe", "-c", scan.removeprefix(program)], cwd=shell.folder, env=shell.environment, check=False
    )
    assert done.returncode == 1
    (pattern,) = re.findall(r"sarif\(pattern: '(.*?)'", text)
    log = json.loads((shell.folder / pattern).read_text("utf-8"))
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is True


def test_the_arguments_for_docker_are_those_of_the_command() -> None:
    (line,) = re.findall(r"^\$ docker run .* sbformat (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert build_parser().parse_args(line.split()).command == "scan"
