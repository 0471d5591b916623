"""Schedules that users wrote: their bytecode becomes SB3's own (VALUES.md 13.5, REBUILDING.md 15.2)."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest

import sbformat
from sbformat import ConstantSchedule, LinearSchedule, UnsupportedError
from sbformat.cli import main
from sbformat.known.types import FloatSchedule
from sbformat.tools.rebuild import rebuild
from sbformat.values.render import render_json, render_line
from tests.helpers.build_schedules import build_schedule
from tests.helpers.old_archives import rebuilt, with_keys
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from pathlib import Path

LINEAR: Final = "p * 0.25"
SQUARE: Final = "0.25 * p ** 2"
PRINTS: Final = "print(p)"
KEYS: Final = ("learning_rate", "clip_range", "clip_range_vf", "delta_std_schedule")
TARGETS: Final = ("2.0", "2.6", "2.7", "2.9")
PAIRS: Final = [
    *((KEYS[n], TARGETS[m], (n + m) % 2 == 1) for n in range(4) for m in range(4) if m in (n, n - 1, 3)),
    ("learning_rate", "2.7", False),
    ("learning_rate", "2.9", False),
]
"""Each key and each release in a ``FloatSchedule`` and alone, and each key for the newest release."""


def unwrapped(value: Any) -> Any:
    return value.schedule if isinstance(value, FloatSchedule) else value


def verdict(archive: sbformat.Archive) -> str:
    return sbformat.scan(sbformat.writes(archive)).verdict


# -- constant and linear ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", with_exhaustive(PAIRS, product(KEYS, TARGETS, (False, True))), ids=str)
def test_a_linear_function_becomes_sb3s_linear_schedule(case: tuple[str, str, bool]) -> None:
    key, target, in_floats = case
    archive = with_keys(**{key: build_schedule(LINEAR, in_floats=in_floats)})
    made, rows, report = rebuilt(archive, target=target)
    assert unwrapped(made.decode(key)) == LinearSchedule(0.25, 0.0, 1.0)
    assert isinstance(made.decode(key), FloatSchedule) == (target >= "2.7" and (in_floats or key != "learning_rate"))
    assert (rows[key].action, rows[key].message) == ("translated", "linear 0.25 -> 0.0 (understood from bytecode)")
    assert report.findings == ()
    assert (verdict(archive), verdict(made)) == ("code", "clean")
    assert [problem for problem in sbformat.iter_problems(made) if problem.level == "error"] == []


@pytest.mark.parametrize("key", KEYS)
def test_a_constant_function_becomes_a_number_except_where_sb3_calls_it(key: str) -> None:
    made, rows, report = rebuilt(with_keys(**{key: build_schedule("value / 2", {"value": 0.5})}))
    assert unwrapped(made.decode(key)) == (ConstantSchedule(0.25) if key == "delta_std_schedule" else 0.25)
    assert "understood from bytecode" in rows[key].message
    assert report.findings == ()


def test_a_line_that_ends_early_keeps_its_end_fraction() -> None:
    made, _, _ = rebuilt(with_keys(learning_rate=build_schedule("max(2 * p - 1, 0.0) * rate", {"rate": 0.5})))
    assert made.decode("learning_rate") == LinearSchedule(0.5, 0.0, 0.5)


@pytest.mark.parametrize("on_unknown", ["drop", "keep", "error"])
def test_what_is_understood_is_not_unknown(on_unknown: Any) -> None:
    archive = with_keys(learning_rate=build_schedule(LINEAR), lr_schedule=build_schedule(LINEAR, in_floats=True))
    made, rows, _ = rebuilt(archive, on_unknown=on_unknown)
    assert made.decode("learning_rate") == LinearSchedule(0.25, 0.0, 1.0)
    assert rows["lr_schedule"].action == "translated"
    assert "lr_schedule" not in made.data
    assert verdict(made) == "clean"


@pytest.mark.parametrize("source", ["-1.0", "-0.5 * p", "p * 1e999", "float('nan')", "p - 2"])
def test_numbers_that_torch_refuses_are_dropped(source: str) -> None:
    made, rows, _ = rebuilt(with_keys(learning_rate=build_schedule(source)))
    assert "learning_rate" not in made.data
    assert rows["learning_rate"].is_finding


# -- other functions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS[:3])
def test_another_pure_function_is_dropped_with_samples_and_the_nearest_option(key: str, tmp_path: Path) -> None:
    archive = with_keys(**{key: build_schedule(SQUARE)})
    made, rows, _ = rebuilt(archive)
    assert key not in made.data
    row = rows[key]
    assert (row.action, row.is_finding) == ("dropped", True)
    assert "0.25, 0.141, 0.0625, 0.0156, 0" in row.message
    option = row.message.rpartition("the nearest is --set ")[2].strip("'")
    value = json.loads(option.partition("=")[2])
    path = tmp_path / "old.zip"
    sbformat.write(archive, path)
    assert main(["rebuild", str(path), "-o", str(tmp_path / "new.zip"), "--set", option]) == 0
    assert unwrapped(sbformat.read(tmp_path / "new.zip").decode(key)) == LinearSchedule(*value["linear"])


def test_another_pure_function_is_refused_on_request() -> None:
    archive = with_keys(learning_rate=build_schedule(SQUARE), lr_schedule=build_schedule(SQUARE))
    with pytest.raises(UnsupportedError, match="learning_rate: .* the nearest is --set 'learning_rate="):
        rebuild(archive, on_unknown="error")


def test_a_function_that_is_not_understood_is_dropped_with_the_reason() -> None:
    made, rows, _ = rebuilt(with_keys(learning_rate=build_schedule(PRINTS)))
    assert "learning_rate" not in made.data
    assert rows["learning_rate"].is_finding
    assert "print" in rows["learning_rate"].message
    assert "--set learning_rate=NUMBER" in rows["learning_rate"].message


# -- what people see ----------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = []
    for name, source in (("line", LINEAR), ("square", SQUARE), ("prints", PRINTS), ("constant", "0.125")):
        paths.append(str(tmp_path / f"{name}.zip"))
        sbformat.write(with_keys(learning_rate=build_schedule(source, in_floats=name == "line")), paths[-1])
    return paths


def test_inspect_renders_what_a_function_computes(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for path in files:
        main(["inspect", path, "--long"])
        lines = capsys.readouterr().out.splitlines()
        shown.append([line for line in lines if line.strip().startswith("learning_rate")][-1])  # below the page
    line, square, prints, constant = (text.split(None, 1)[1] for text in shown)
    assert line == "linear 0.25 -> 0.0 (understood from bytecode), from make.<locals>.schedule"
    assert square.startswith("0.25, 0.141, 0.0625, 0.0156, 0 during training (")
    assert " (understood from bytecode), from make." in square
    assert prints == "function make.<locals>.schedule (/home/me/train.py:2)"
    assert constant == "constant 0.125 (understood from bytecode), from make.<locals>.schedule"


def test_inspect_as_json_has_what_a_function_computes(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["inspect", *files, "--format", "json"])
    values = [
        row["data"]["learning_rate"]["serialized"]["value"] for row in json.loads(capsys.readouterr().out)["files"]
    ]
    line, square, prints, constant = (value["computes"] for value in values)
    assert [value["kind"] for value in values] == ["FloatSchedule", "function", "function", "function"]
    assert line == {"kind": "LinearSchedule", "start": 0.25, "end": 0.0, "end_fraction": 1.0}
    assert square["kind"] == "ComputedSchedule"
    assert square["samples"] == [0.25, 0.140625, 0.0625, 0.015625, 0.0]
    assert (prints["kind"], "print" in prints["text"]) == ("unknown", True)
    assert constant == {"kind": "ConstantSchedule", "value": 0.125}


def test_the_table_of_many_files_has_schedules(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["inspect", *files[:2], files[3], "--columns", "learning_rate", "--sort", "learning_rate", "--reverse"])
    rows = [line.split(None, 1)[1].strip() for line in capsys.readouterr().out.splitlines() if ".zip" in line]
    assert rows == ["linear 0.25 -> 0.0", "0.25, 0.141, 0.0625, 0.0156, 0", "0.125"]


def test_diff_compares_what_functions_compute(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", files[0], files[1], "--format", "json"]) == 1
    shown = json.loads(capsys.readouterr().out)["files"][0]["changes"][0]["message"]
    assert "linear 0.25 -> 0.0 (understood from bytecode)" in shown
    assert "0.25, 0.141, 0.0625, 0.0156, 0 during training" in shown


def test_the_verdict_of_scan_stays_code(files: list[str]) -> None:
    assert [sbformat.scan(path).verdict for path in files] == ["code"] * len(files)


def test_functions_under_other_keys_are_not_examined() -> None:
    """A file may contain thousands of functions, and each examination takes milliseconds."""
    archive = with_keys(mine=build_schedule(LINEAR), learning_rate=build_schedule(LINEAR))
    assert "computes" in render_json(archive.decode("learning_rate"), "learning_rate")
    assert "computes" not in render_json(archive.decode("mine"), "mine")
    assert render_line(archive.decode("mine"), "mine").startswith("function make.<locals>.schedule")
