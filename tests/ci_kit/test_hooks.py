"""The hooks for pre-commit: their files, and the hooks themselves, installed and run by pre-commit."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from sbformat.cli import build_parser, main
from tests.helpers.bundled import PPO, ROOT, zipped

yaml = pytest.importorskip("yaml")

HOOKS: Final[list[dict[str, Any]]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
EVIL: Final = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
PACKAGE: Final = ("sbformat", "schema", "README.md", "LICENSE", "pyproject.toml", ".pre-commit-hooks.yaml")
"""What the package is built from, and the hooks."""


def test_the_hooks_are_commands() -> None:
    assert [hook["id"] for hook in HOOKS] == ["sbformat-scan", "sbformat-validate"]
    for hook in HOOKS:
        parser = build_parser()
        files = ["a.zip", "--allow=x.zip", "-q.zip"]
        args = parser.parse_args([*hook["entry"].split()[1:], *hook["args"], *files])
        assert args.paths == files
        assert hook["entry"].split()[0] == "sbformat"
        assert args.command == hook["id"].removeprefix("sbformat-")
        assert hook["language"] == "python"


@pytest.mark.parametrize(
    ("name", "hooks"),
    [
        ("models/a.zip", 2), ("A.ZIP", 2), ("a.pth", 1), ("a.pt", 1), ("vecnormalize.pkl", 1), ("a.npz", 1),
        ("a.safetensors", 1), ("zip", 0), ("a.zip.md", 0), ("train.py", 0), ("a.gz", 0),
    ],
)  # fmt: skip
def test_the_hooks_run_on_files_that_agents_consist_of(name: str, hooks: int) -> None:
    assert sum(re.search(hook["files"], name) is not None for hook in HOOKS) == hooks


def test_a_file_with_the_name_of_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("--allow=os.system.zip", "-q.zip", "--fail-on=never"):
        Path(name).write_bytes(EVIL)
        assert main(["scan", "--", name]) == 1
        assert name in capsys.readouterr().out
        with pytest.raises(SystemExit) as caught:
            main(["scan", name])
        assert caught.value.code == 2
        assert "is an option, and a file here\n  hint: '--' before the names" in capsys.readouterr().err


# -- with pre-commit ----------------------------------------------------------------------------------


def run_git(folder: Path, *arguments: str) -> str:
    """Run git without the configuration of this machine; return what it printed."""
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments], cwd=folder, text=True, check=True,
        stdout=subprocess.PIPE, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
    )  # fmt: skip
    return done.stdout.strip()


class Repository:
    """A repository of models that uses the hooks, and the repository that it gets them from.

    :param folder: an empty one
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        hooks, self.models = folder / "sbformat", folder / "models"
        for name in PACKAGE:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            hooks.mkdir(exist_ok=True)
            copy(ROOT / name, hooks / name)
        run_git(hooks, "init", "--quiet")
        run_git(hooks, "add", "--all")
        run_git(hooks, "commit", "--quiet", "--message", "hooks")
        self.models.mkdir()
        run_git(self.models, "init", "--quiet")
        configuration = {
            "repos": [{
                "repo": hooks.as_uri(),
                "rev": run_git(hooks, "rev-parse", "HEAD"),
                "hooks": [{"id": hook["id"]} for hook in HOOKS],
            }],
        }  # fmt: skip
        (self.models / ".pre-commit-config.yaml").write_text(json.dumps(configuration), "utf-8")

    def run(self, *hooks: str) -> subprocess.CompletedProcess[str]:
        """Run hooks on all files."""
        run_git(self.models, "add", "--all")
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color", "never", *hooks],
            cwd=self.models, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            env={**os.environ, "PRE_COMMIT_HOME": str(self._folder / "cache")},
        )  # fmt: skip


@pytest.mark.ci_kit
def test_pre_commit_installs_and_runs_the_hooks(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    repository = Repository(tmp_path)
    shutil.copy(PPO, repository.models / "good agent.zip")
    (repository.models / "notes.txt").write_text("text\n", "utf-8")
    (repository.models / "documents.zip").write_bytes(zipped({"documents/notes.txt": b"text"}))
    run = repository.run("sbformat-validate")
    assert run.returncode == 0, run.stdout
    (repository.models / "documents.zip").unlink()
    run = repository.run()
    assert run.returncode == 0, run.stdout
    assert re.findall(r"^(.+?)\.+Passed$", run.stdout, re.MULTILINE) == ["scan agents for code", "validate agents"]

    (repository.models / "statistics.PKL").write_bytes(EVIL)
    run = repository.run()
    assert run.returncode == 1
    assert re.search(r"^scan agents for code\.+Failed$", run.stdout, re.MULTILINE), run.stdout
    assert re.search(r"^validate agents\.+Passed$", run.stdout, re.MULTILINE)
    assert "statistics.PKL: dangerous (harmful)" in run.stdout

    (repository.models / "statistics.PKL").unlink()
    (repository.models / "broken.zip").write_bytes(PPO.read_bytes()[:-100])
    run = repository.run("sbformat-validate")
    assert run.returncode == 1
    assert "broken.zip" in run.stdout
