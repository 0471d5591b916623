"""The Python harness in a clone: it tests the installed package, and that of the clone only if none is installed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.helpers.bundled import ROOT

HERE: Final = ROOT / "conformance"
BARE: Final = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def copy_clone(folder: Path) -> None:
    """The folders of a clone that the first command of the README needs, with few vectors."""
    folder.mkdir(exist_ok=True)
    (folder / "sbformat").symlink_to(ROOT / "sbformat")
    shutil.copytree(HERE, folder / "conformance", ignore=shutil.ignore_patterns("vectors", "generators", "mutation"))
    (folder / "conformance" / "vectors").mkdir()
    lines = (HERE / "vectors" / "1.1.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "conformance" / "vectors" / "1.1.jsonl").write_bytes(b"".join(lines[::15]))


def test_the_first_command_works_on_a_clone(tmp_path: Path) -> None:
    """The dependencies are on the path, but not the package: the child runs without site-packages."""
    copy_clone(tmp_path)
    packages = tmp_path / "packages"
    packages.mkdir()
    for path in Path(np.__file__).parent.parent.iterdir():
        if not path.name.startswith(("sbformat", "__editable__")):
            (packages / path.name).symlink_to(path)
    command = ["run.py", "--decoder", shlex.join([sys.executable, "-S", "harness/python/decode.py"])]
    alone = subprocess.run(
        [sys.executable, "-S", "-c", "import sbformat"], cwd=tmp_path / "conformance", env=BARE, check=False,
        capture_output=True,
    )  # fmt: skip
    assert b"No module named 'sbformat'" in alone.stderr
    for environment, expected in ((BARE | {"PYTHONPATH": str(packages)}, 0), (BARE, 1)):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path / "conformance", env=environment, check=False, text=True,
            capture_output=True,
        )  # fmt: skip
        assert done.returncode == expected, done.stdout + done.stderr
    assert "crash: exit code 70: ModuleNotFoundError: No module named 'numpy'" in done.stdout


@pytest.mark.parametrize("path", ["", "clone"])
def test_an_installed_package_is_tested_instead_of_the_clone(path: str, tmp_path: Path) -> None:
    """Only with the clone on ``PYTHONPATH`` the clone is tested."""
    clone = tmp_path / "clone"
    copy_clone(clone)
    venv.create(tmp_path / "venv", symlinks=os.name != "nt")
    package = next((tmp_path / "venv").rglob("site-packages")) / "sbformat"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('installed')\n", encoding="ascii")
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    command = ["run.py", "--only", "form-zip", "--decoder", shlex.join([str(python), "harness/python/decode.py"])]
    environment = BARE | ({"PYTHONPATH": str(tmp_path / path)} if path else {})
    done = subprocess.run(
        [sys.executable, *command], cwd=clone / "conformance", env=environment, check=False, text=True,
        capture_output=True,
    )  # fmt: skip
    assert ("crash: exit code 1: RuntimeError: installed" in done.stdout) == (not path), done.stdout + done.stderr
