"""Mutation testing of the package, with a package of a few lines."""

from __future__ import annotations

import ast
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.bundled import ROOT
from tests.mutation.__main__ import KEPT, LEFT_OUT, main, measure_nearness
from tests.mutation.mutants import find_importers, find_mutants, instrument, sample_mutants

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the command forks")

MODULE = '''"""Numbers."""

from __future__ import annotations

LIMIT: float = 10.5


def check(number: int) -> int:
    """Refuse a large number."""
    if number > LIMIT:
        message = f"expected a number <= {LIMIT}"
        raise ValueError(message)
    return number


def halve(number: int) -> int:
    return number // 2


if __name__ == "__main__":
    print(halve(16))
'''
TESTS = """
import subprocess, sys
import pytest
from numbers_of_tests.check import LIMIT, check

def test_check():
    assert check(3) == 3
    with pytest.raises(ValueError):
        check(20)

def test_limit():
    assert LIMIT == 10.5

def test_halve():
    command = [sys.executable, "-m", "numbers_of_tests.check"]
    assert subprocess.run(command, capture_output=True).stdout == b"8\\n"

def test_fails_without_a_mutant():
    assert False
"""
CHECK = "    if number > LIMIT:"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    files = {"numbers_of_tests/__init__.py": "", "numbers_of_tests/check.py": MODULE, "tests/test_check.py": TESTS}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def run(capsys: pytest.CaptureFixture[str], checkout: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run the command; return its exit code and what it printed."""
    common = ("--checkout", str(checkout), "--package", "numbers_of_tests", "--jobs", "1", "--format", "json")
    code = main([*common, *arguments])
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, printed


def test_mutants_and_their_states(
    capsys: pytest.CaptureFixture[str], checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # hypothesis and others take longer than the tests
    if find_spec("xdist"):
        monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    lines = [MODULE.splitlines().index(line) + 1 for line in ("LIMIT: float = 10.5", CHECK, "    return number // 2")]
    only = [f"--only=check.py:{line}" for line in lines]
    code, printed = run(capsys, checkout, *only, "--log", str(tmp_path / "log"))
    states = {(row["original"], row["replacement"]): row["state"] for row in printed["mutants"]}
    assert states == {
        ("10.5", "11.5"): "killed",  # executed while the module is imported
        ("number > LIMIT", "False"): "killed",
        ("number > LIMIT", "number >= LIMIT"): "survived",
        ("number // 2", "number * 2"): "killed",  # in a process that a test starts
        ("2", "3"): "killed",
        ("2", "1"): "killed",
    }
    assert code == 1
    assert printed["dropped"] == ["tests/test_check.py::test_fails_without_a_mutant"]
    assert run(capsys, checkout, *only, "--log", str(tmp_path / "log")) == (code, printed)
    with pytest.raises(SystemExit) as ended:
        run(capsys, checkout, "--sample", "0")
    assert ended.value.code == 2
    assert main(["--checkout", str(checkout), "--package", "numbers_of_tests", "--file", "missing.py"]) == 2


def test_what_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        '"""A docstring."""\n'
        "from typing import TYPE_CHECKING, Literal\n"
        "if TYPE_CHECKING:\n    LEVEL = 1\n"
        '__all__ = ["name"]\n'
        'Kind: TypeAlias = Literal["a", "b"]\n'
        'def refuse(kind: Literal["a"] = None):\n    raise ValueError("it is bad", 1 + 1)\n'
        'refuse("a")\n',
        "utf-8",
    )
    assert list(find_mutants(tmp_path)) == []


def test_nested_mutants_keep_the_lines(tmp_path: Path) -> None:
    source = b'"""Text."""\n\nvalue = not (1 <\n    2  # a comment\n) and "\xc3\xa9" + f(3) == f"{4}"\n'
    (tmp_path / "module.py").write_bytes(source)
    mutants = list(find_mutants(tmp_path))
    assert {mutant.operator for mutant in mutants} == {
        "and/or",
        "boundary",
        "branches swapped",
        "comparison",
        "constant",
    }
    edited = instrument(source, list(enumerate(mutants)), "package._mutation")
    assert edited.count(b"\n") == source.count(b"\n")
    calls = [node for node in ast.walk(ast.parse(edited)) if ast.unparse(node).startswith("_is_active(")]
    assert len({ast.unparse(node) for node in calls if isinstance(node, ast.Call)}) == len(mutants)


def test_a_sample_is_the_same_after_a_change_of_other_lines(tmp_path: Path) -> None:
    def sample(text: str) -> set[str]:
        (tmp_path / "module.py").write_text(text, "utf-8")
        return {f"{mutant.code} {mutant.replacement}" for mutant in sample_mutants(find_mutants(tmp_path), 20, 0)}

    lines = [f"value_{number} = {number} < limit\n" for number in range(200)]
    before, after = sample("".join(lines)), sample("# moved\n" + "".join(lines[:100] + lines[101:]))
    assert len(before) == len(after) == 20
    assert len(before & after) >= 19


def test_modules_that_import_a_module(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "pkl").mkdir(parents=True)
    (package / "pkl" / "__init__.py").write_text("from package.pkl.state import State\n")
    (package / "pkl" / "state.py").write_text("")
    (package / "values.py").write_text("def decode():\n    from package.pkl import State\n")
    (package / "reader.py").write_text("import package.values\n")
    found = find_importers(package)
    assert found["pkl/state.py"] == {"pkl", "values"}
    assert found["values.py"] == {"values", "reader"}


def test_the_tests_of_the_same_folder_are_near() -> None:
    importers = frozenset({"pkl", "values"})
    names = "pkl/test_state pkl/state/test_x pkl/test_steps pkl/test_calls values/test_x pth/test_state"
    files = [f"{name}.py" for name in names.split()]
    assert [measure_nearness("pkl/state.py", f"tests/{file}", importers) for file in files] == [2, 2, 1.2, 1, 0.5, 0]


def test_the_files_that_are_kept_of_the_folder_that_is_left_out_exist() -> None:
    assert {path.name for path in (ROOT / LEFT_OUT).glob("test_*.py")} > set(KEPT)
