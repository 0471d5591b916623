"""Rules about the package that a program can check: one unpickler, the list of public names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from typing import Final

import pytest

import sbformat
from tests.helpers.bundled import ROOT

SOURCES = sorted((ROOT / "sbformat").rglob("*.py"))


ALLOWED: Final = {"sbformat/unsafe.py": {"pickle"}}
FORBIDDEN: Final = {"pickle", "_pickle", "marshal", "torch", "dill", "cloudpickle"}
EVALUATING: Final = {"eval", "exec", "compile", "__import__"}
SUSPECT: Final = re.compile(
    rf"\b(?:import|from)\b.*\b(?:{'|'.join(FORBIDDEN)})\b|(?<![\w.])(?:{'|'.join(EVALUATING)})\b|\\\n|[^\0-\x7f]"
)
"""In every module with a fault: only these are parsed. Names of other characters can be those in ASCII."""


def find_faults(tree: ast.AST, forbidden: set[str]) -> list[int]:
    """The lines of a module that import what may unpickle, or evaluate a text."""
    found = []
    for node in ast.walk(tree):
        names: set[str] = set()
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names} & forbidden
        elif isinstance(node, ast.ImportFrom):
            names = {(node.module or "").partition(".")[0]} & forbidden
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = {node.func.id} & EVALUATING
        found += [node.lineno for _ in names]  # type: ignore[attr-defined]
    return found


def test_no_module_but_unsafe_can_unpickle_and_none_evaluates() -> None:
    assert len(SOURCES) > 100
    faults = []
    for path in SOURCES:
        name, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        if SUSPECT.search(text):
            lines = find_faults(ast.parse(text), FORBIDDEN - ALLOWED.get(name, set()))
            faults += [f"{name}:{line}" for line in lines]
    assert faults == []


@pytest.mark.parametrize(
    "code", ["import pickle.x", "from torch import load", "def f(): eval('1')", "import a, dill", "\uff45xec('1')"]
)
def test_a_fault_is_found(code: str) -> None:
    assert SUSPECT.search(code)
    assert find_faults(ast.parse(f"import json\n{code}"), FORBIDDEN) == [2]


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
    with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
        sbformat.nothing  # noqa: B018


@pytest.mark.parametrize("name", sbformat._ELSEWHERE)
def test_a_name_of_another_library_is_answered_with_ours(name: str) -> None:
    with pytest.raises(AttributeError, match=r"; .*sbformat\.") as caught:
        sbformat.__getattr__(name)  # a module may have been imported
    assert set(re.findall(r"sbformat\.(\w+)", str(caught.value))) <= {*sbformat.__all__, "pkl", "pth", "sb3", "unsafe"}


def test_a_module_that_was_not_imported_is_named() -> None:
    program = "import sbformat\ntry: sbformat.sb3.load\nexcept AttributeError as error: print(error)"
    text = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert text == "module 'sbformat' has no attribute 'sb3'; it is a module: import sbformat.sb3\n"
    __import__("sbformat.unsafe")
    assert sbformat.unsafe.__name__ == "sbformat.unsafe"  # type: ignore[attr-defined]


def test_a_function_and_its_module_never_share_a_dotted_name() -> None:
    packages = [path.parent for path in SOURCES if path.name == "__init__.py"]
    for package in packages:
        dotted = ".".join(package.relative_to(ROOT).parts)
        module = __import__(dotted, fromlist=["x"])
        for path in package.glob("[a-z]*.py"):
            found = getattr(module, path.stem, None)
            assert found is None or not callable(found), f"{dotted}.{path.stem}"
