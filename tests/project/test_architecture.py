"""The house rules that machines can check: import contracts, types, lint, one unpickler, one front door."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sbformat
from tests.helpers.bundled import ROOT

SOURCES = sorted((ROOT / "sbformat").rglob("*.py"))


@pytest.mark.parametrize(
    "command",
    [
        ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        ["-m", "mypy"],
        ["-m", "ruff", "check", "--no-cache", "."],
        ["-m", "ruff", "format", "--no-cache", "--check", "."],
    ],
    ids=["import contracts", "types", "lint", "format"],
)
def test_the_tools_are_content(command: list[str], tmp_path: Path) -> None:
    if "mypy" in command and tuple(map(int, np.__version__.split(".")[:2])) < (2, 3):
        pytest.skip("numpy before 2.3 does not tell the types of all that is used")
    extra = ["--cache-dir", str(tmp_path)] if "mypy" in command else []
    done = subprocess.run(
        [sys.executable, *command, *extra], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_but_unsafe_can_unpickle_and_none_evaluates(path: Path) -> None:
    forbidden = {"pickle", "marshal", "torch", "dill", "cloudpickle"} - (
        {"pickle"} if path.name == "unsafe.py" else set()
    )
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not {alias.name.partition(".")[0] for alias in node.names} & forbidden
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] not in forbidden
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"eval", "exec", "compile", "__import__"}


def test_no_module_is_too_long() -> None:
    crowded = {path.name for path in SOURCES if len(path.read_text().splitlines()) > 500}
    assert not crowded


def test_type_checkers_see_the_names_that_are_there() -> None:
    stub = ast.parse((ROOT / "sbformat" / "__init__.pyi").read_text())
    found = {
        alias.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert found == {name: f"sbformat.{module}" for name, module in sbformat._MODULE_OF.items()}
    assert ["__version__", *found] == sbformat.__all__


def test_every_public_name_loads() -> None:
    for name in sbformat.__all__:
        assert getattr(sbformat, name) is not None
    assert set(dir(sbformat)) >= set(sbformat.__all__)
    with pytest.raises(AttributeError):
        sbformat.nothing  # noqa: B018


def test_a_function_and_its_module_never_share_a_dotted_name() -> None:
    packages = [path.parent for path in SOURCES if path.name == "__init__.py"]
    for package in packages:
        dotted = ".".join(package.relative_to(ROOT).parts)
        module = __import__(dotted, fromlist=["x"])
        for path in package.glob("[a-z]*.py"):
            found = getattr(module, path.stem, None)
            assert found is None or not callable(found), f"{dotted}.{path.stem}"
