"""The page that compares scanners has what sbformat reports for the same files; the scanners run in nox -s scanners."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

import sbformat
from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from pathlib import Path

sys.path.append(str(ROOT))  # benchmarks is run from the root, not installed

from benchmarks import scanned_files, scanners
from benchmarks.scanners import Done

PAGE: Final = (ROOT / "docs" / "comparison.md").read_text("utf-8")


def read_rows() -> dict[str, dict[str, str]]:
    """Return the rows of the first table, by their title."""
    table = next(part for part in PAGE.split("\n\n") if part.startswith("| file |"))
    header, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
    return {row[0]: dict(zip(header, row)) for row in rows}


def test_the_verdicts_of_the_page_are_those_of_scan(tmp_path: Path) -> None:
    rows = list(read_rows().values())
    files = scanned_files.make_files(tmp_path)
    assert [row["file"] for row in rows] == [file.title for file in files]
    for row, file in zip(rows, files):
        assert row["sbformat"] == sbformat.scan(file.path).verdict == ("dangerous" if file.is_harmful else "clean")


def test_the_page_has_a_column_for_every_scanner_and_its_version() -> None:
    header = next(iter(read_rows().values()))
    assert list(header) == ["file", scanners.RUNS, *scanners.NAMES]
    for scanner in scanners.SCANNERS:
        for package in scanner.packages[:1]:
            assert package.replace("==", " ") in PAGE


@pytest.mark.parametrize(
    ("scanner", "done", "cell"),
    [
        ("picklescan", Done(0, "Scanned files: 0\n", ""), scanners.NOT_READ),
        ("picklescan", Done(0, "Scanned files: 1\n", ""), scanners.NOTHING),
        ("picklescan", Done(1, "Scanned files: 1\n", ""), "infected"),
        ("modelscan", Done(3, "", "ModelScan does not support nested zip files."), scanners.NOT_READ),
        ("modelscan", Done(1, "--- HIGH ---\n", ""), "high"),
        ("modelscan", Done(2, "", ""), scanners.CRASH),
        ("fickling", Done(1, "", "Traceback (most recent call last):"), scanners.CRASH),
        ("fickling", Done(1, "", ""), "unsafe"),
        ("fickling", Done(2, "", ""), scanners.NOT_READ),
        ("modelaudit", Done(1, json.dumps({"issues": [{"severity": "warning"}]}), ""), "warning"),
        ("modelaudit", Done(0, json.dumps({"issues": []}), ""), scanners.NOTHING),
        ("modelaudit", Done(2, "", ""), scanners.CRASH),
    ],
)
def test_a_report_is_reduced_to_a_cell(scanner: str, done: Done, cell: str) -> None:
    (found,) = (found for found in scanners.SCANNERS if found.name == scanner)
    assert found.summarize(done) == cell


def test_a_table_that_differs_from_the_page_is_found() -> None:
    table = next(part for part in PAGE.split("\n\n") if part.startswith("| file |"))
    assert scanners.is_in_page(table, PAGE)
    assert scanners.is_in_page(scanners.drop_runs(table), PAGE)
    assert not scanners.is_in_page(table.replace("infected", "nothing found"), PAGE)
    assert not scanners.is_in_page(scanners.drop_runs(table).replace("infected", "nothing found"), PAGE)


@pytest.mark.interop
def test_sb3_runs_the_commands_that_the_page_says_it_runs(tmp_path: Path) -> None:
    from stable_baselines3 import __version__

    for file in scanned_files.make_files(tmp_path):
        if file.loader:
            shown = __version__ in read_rows()[file.title][scanners.RUNS]
            assert scanners.runs_when_loaded(file, sys.executable, tmp_path) == shown, file.title


def test_the_child_loads_nothing_unless_it_is_run(tmp_path: Path) -> None:
    code = "import benchmarks.load_child, sys; print(any('stable' in name for name in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == "False"
