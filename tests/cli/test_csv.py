"""``--format csv``: cells of any value, what a spreadsheet would do with them, and the tables of the commands."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sbformat
from conformance.generators.build_zips import BIDI
from sbformat.cli import _inspect_table, agents, diff, main, scan, validate
from sbformat.cli._output import encode_cell, print_csv
from tests.helpers.build_blobs import UTILS, new
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC, with_data
from tests.helpers.old_archives import blob, with_keys
from tests.helpers.reports import unfold
from tests.helpers.sampling import more_examples

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


def is_printable(line: str) -> bool:
    """Whether a line has no escape sequences and bidirectional controls; it may be long."""
    return line.isprintable() and not set(line) & set(BIDI)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (-3, "-3"),
        (-1.5, "-1.5"),
        (1e-08, "1e-08"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        ("text, with commas", "text, with commas"),
        ("two\nlines", "two\\nlines"),
        ("-1.5", "-1.5"),
        ("+1e3", "+1e3"),
        ([1, math.inf], '[1, "Infinity"]'),
        ({"a": [None]}, '{"a": [null]}'),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
    ],
)
def test_values_become_cells(value: Any, cell: str) -> None:
    assert encode_cell(value) == cell


@pytest.mark.parametrize(
    "text",
    [
        "=1+1", "+1+1", "-1+1", "@SUM(A1)", "=cmd|' /C calc'!A0", "  =1+1", "\t=1", "\r=1", "\n=1", '"=1', "'=1",
        "\uff1d1+1", "-", "a;=1+1", "a; @x", "\u00a0=1", "1;=2",
    ],
)  # fmt: skip
def test_text_is_never_a_formula(text: str) -> None:
    cell = encode_cell(text)
    assert cell.isprintable()
    for part in cell.split(";"):
        assert part.lstrip("\"' ")[:1] not in set("=+-@\uff1d") or "'" in part.partition(part.lstrip("\"' ")[0])[0]


def test_integers_of_any_length_are_cells() -> None:
    assert encode_cell(10**100) == str(10**100)
    assert encode_cell(1 << 20_000).startswith("0x1000")
    assert len(encode_cell(1 << 2_000_000)) == 32_000


def test_long_text_is_shortened() -> None:
    assert len(encode_cell("x" * 100_000)) == 32_001


def test_a_table_without_rows_has_its_header() -> None:
    stream = io.StringIO()
    print_csv(["path", "=1"], [], stream=stream)
    assert stream.getvalue() == "path,'=1\n"


@more_examples(100)
@given(st.lists(st.lists(st.one_of(st.none(), st.text(), st.floats(), st.integers()), min_size=3, max_size=3)))
def test_a_reader_of_csv_gets_the_cells_back(rows: list[list[Any]]) -> None:
    stream = io.StringIO()
    print_csv(["a", "b", "c"], (dict(zip("abc", row)) for row in rows), stream=stream)
    assert all(is_printable(line) for line in stream.getvalue().splitlines())
    read = list(csv.reader(io.StringIO(stream.getvalue())))
    assert read == [["a", "b", "c"], *([encode_cell(value) for value in row] for row in rows)]


# -- commands -----------------------------------------------------------------------------------------


def run(capsys: Capture, *args: object) -> tuple[int, list[dict[str, str]], str]:
    """Run a command; return the exit status, the rows, and standard error."""
    status = main([*map(str, args), "--format", "csv"])
    out, err = capsys.readouterr()
    assert all(map(is_printable, out.splitlines()))
    header, *cells = list(csv.reader(io.StringIO(out)))
    assert len(set(header)) == len(header)
    assert all(len(row) == len(header) for row in cells)
    return status, [dict(zip(header, row)) for row in cells], err


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.zip"
    path.write_text("hello")
    return path


def test_inspect_has_a_row_for_each_file(capsys: Capture, broken: Path) -> None:
    status, rows, err = run(capsys, "inspect", PPO, broken, SAC)
    assert (status, len(unfold(err).splitlines())) == (2, 1)
    assert [(row["path"], row["outcome"]) for row in rows] == [
        (str(PPO), "ok"), (str(broken), "container failure"), (str(SAC), "ok"),
    ]  # fmt: skip
    assert rows[1]["message"]
    assert rows[1]["algorithm"] == rows[1]["broken"] == ""
    assert (rows[0]["algorithm"], rows[0]["gamma"], rows[0]["parameters"], rows[0]["broken"]) == (
        "PPO", "0.99", "251", "0",
    )  # fmt: skip
    assert float(rows[0]["clip_range"]) == 0.2  # a schedule
    assert (rows[0]["use_sde"], rows[0]["target_kl"], rows[2]["clip_range"]) == ("false", "", "")
    assert rows[0]["policy_kwargs.net_arch"] == "[8, 8]"


def test_inspect_has_the_rewards_that_an_agent_keeps(capsys: Capture) -> None:
    _, (old, new), _ = run(capsys, "inspect", ARCHIVES / "ppo-cartpole-1.0.zip", PPO)
    assert (old["mean_reward"], old["episodes"], new["mean_reward"], new["episodes"]) == ("23", "1", "", "")


@pytest.mark.parametrize("name", ["FloatSchedule", None])
def test_schedules_are_sorted_as_the_numbers_that_they_begin_with(
    capsys: Capture, tmp_path: Path, name: str | None
) -> None:
    paths = []
    for index, (start, part) in enumerate([(0.0008, 1.0), (0.0001, 0.5), (None, 1.0)]):
        linear = new(UTILS, "LinearSchedule", {"start": start, "end": 0.0, "end_fraction": part})
        constant = new(UTILS, "ConstantSchedule", {"val": 0.0005})
        schedule = linear if start else constant
        rate = blob(new(UTILS, name, {"value_schedule": schedule}) if name else schedule)
        sbformat.write(with_keys(learning_rate=rate), tmp_path / f"{index}.zip")
        paths.append(tmp_path / f"{index}.zip")
    _, rows, _ = run(capsys, "inspect", *paths, PPO, "--sort", "learning_rate")
    cells = ["linear 0.0001 -> 0.0 in the first 50% of training", "0.0003", "0.0005", "linear 0.0008 -> 0.0"]
    assert [row["learning_rate"] for row in rows] == cells
    assert main(["inspect", *map(str, paths), str(PPO), "--columns", "learning_rate", "--sort", "learning_rate"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(None, 1)[1].strip() for line in lines if ".zip" in line] == cells


def test_inspect_sorts_and_chooses_columns(capsys: Capture, tmp_path: Path, broken: Path) -> None:
    paths = []
    for number, gamma in enumerate((0.5, 0.99, 0.125)):
        path = tmp_path / f"{number}.zip"
        path.write_bytes(with_data(lambda data, gamma=gamma: data.update(gamma=gamma)))
        paths.append(path)
    _, rows, _ = run(capsys, "inspect", broken, *paths, "--sort", "gamma", "--columns", "gamma, seed")
    assert list(rows[0]) == ["path", "outcome", "message", "gamma", "seed"]
    assert [row["gamma"] for row in rows] == ["0.125", "0.5", "0.99", ""]
    _, rows, _ = run(capsys, "inspect", broken, *paths, "--sort", "gamma", "--reverse")
    assert [row["gamma"] for row in rows] == ["0.99", "0.5", "0.125", ""]
    status, rows, err = run_without_table(capsys, "inspect", *paths, "--sort", "gama")
    assert (status, "there is no column 'gama'; did you mean 'gamma'?" in unfold(err)) == (2, True)


def test_columns_that_csv_always_has_can_be_chosen_without_a_value(capsys: Capture) -> None:
    status, rows, _ = run(capsys, "inspect", PPO, "--columns", "format,mean_reward,broken,outcome")
    assert (status, list(rows[0])) == (0, ["path", "outcome", "message", "format", "mean_reward", "broken"])
    assert rows[0]["mean_reward"] == ""
    assert run(capsys, "inspect", PPO, SAC, "--columns", "path", "--sort", "mean_reward")[0] == 0
    assert run_without_table(capsys, "inspect", PPO, "--columns", "verdict")[0] == 2


def test_csv_is_utf_8_with_line_feeds_whatever_the_system_has(tmp_path: Path) -> None:
    path = tmp_path / "gööd.zip"
    path.write_bytes(PPO.read_bytes())
    for encoding in ("latin-1", "ascii"):
        done = subprocess.run(
            [sys.executable, "-m", "sbformat", "inspect", str(path), "--format", "csv", "--columns", "seed"],
            env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, cwd=ROOT, check=True,
        )  # fmt: skip
        assert done.stdout == f"path,outcome,message,seed\n{path},ok,,0\n".encode()


@pytest.mark.parametrize("text", ["1" * 40_000, "-" + "1" * 40_000, "1." + "0" * 40_000, "x" * 40_000])
def test_a_cell_has_room_in_a_spreadsheet(text: str) -> None:
    assert len(encode_cell(text)) <= 32_767
    assert encode_cell("1" * 32_000) == "1" * 32_000


def run_without_table(capsys: Capture, *args: object) -> tuple[int, str, str]:
    status = main([*map(str, args), "--format", "csv"])
    return (status, *capsys.readouterr())


def test_a_key_of_data_does_not_hide_another_column(capsys: Capture, tmp_path: Path) -> None:
    names = {"path": "mine", "outcome": "ok?", "message": "x", "format": "y", "algorithm": "z", "broken": 7, "=1": "=2"}
    (tmp_path / "a.zip").write_bytes(with_data(lambda data: data.update(names)))
    _, (row,), _ = run(capsys, "inspect", tmp_path / "a.zip")
    assert (row["path"], row["outcome"], row["message"], row["format"]) == (str(tmp_path / "a.zip"), "ok", "", "sb3")
    assert (row["algorithm"], row["data.algorithm"], row["data.path"], row["data.broken"]) == ("PPO", "z", "mine", "7")
    assert row["'=1"] == "'=2"


def test_keys_of_hostile_files_are_neither_formulas_nor_commands_of_a_terminal(capsys: Capture, tmp_path: Path) -> None:
    keys = [
        "=1+1",
        "\x1b[31m",
        "a\nb",
        "\u202eabc",
        ",",
        '"',
        "",
        "x" * 5000,
        *(f"key{number}" for number in range(5000)),
    ]
    for number in range(2):
        values = {key: f"={number}\r{key[:10]}" for key in keys}
        (tmp_path / f"{number}.zip").write_bytes(with_data(lambda data, values=values: data.update(values)))
    status, rows, err = run(capsys, "inspect", tmp_path)
    assert (status, err, len(rows)) == (0, "", 2)
    assert len(rows[0]) < 500
    assert not any(cell.startswith(tuple("=+-@")) for row in rows for cell in (*row, *row.values()) if cell != "-1")
    assert main(["inspect", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert all(map(is_printable, out.splitlines()))
    assert max(map(len, out.splitlines())) < 1000


def test_validate_has_a_row_for_each_problem(capsys: Capture, tmp_path: Path, broken: Path) -> None:
    path = tmp_path / "bad.zip"
    path.write_bytes(with_data(lambda data: data.update(gamma="high", n_steps=-1)))
    status, rows, err = run(capsys, "validate", PPO, path, broken)
    assert (status, len(unfold(err).splitlines())) == (2, 1)
    assert {(row["path"], row["outcome"], row["loc"]) for row in rows if row["level"] in ("error", "")} == {
        (str(PPO), "ok", ""), (str(path), "invalid", "/n_steps"), (str(path), "invalid", "/gamma"),
        (str(broken), "container failure", ""),
    }  # fmt: skip


def test_scan_has_a_row_for_each_finding(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "bad.pkl"
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    status, rows, err = run(capsys, "scan", PPO, path, tmp_path / "none")
    assert (status, len(unfold(err).splitlines())) == (2, 1)
    assert [(row["path"], row["outcome"], row["file_verdict"], row["rule"] != "") for row in rows] == [
        (str(PPO), "ok", "clean", False), *[(str(path), "ok", "dangerous", True)] * (len(rows) - 2),
        (str(tmp_path / "none"), "cannot open", "", False),
    ]  # fmt: skip
    assert ("dangerous", "harmful", "os.system") in [(row["verdict"], row["reason"], row["names"]) for row in rows]


def test_diff_has_a_row_for_each_change(capsys: Capture, tmp_path: Path, broken: Path) -> None:
    other = tmp_path / "other.zip"
    archive = sbformat.read(PPO)
    weights = archive.parameters["policy"].to_numpy()
    bias = weights["action_net.bias"] + np.float32(1)
    sbformat.write(
        archive.replace(
            data={**archive.data, "gamma": 0.5}, parameters={"policy": {**weights, "action_net.bias": bias}}
        ),
        other,
    )
    status, rows, err = run(capsys, "diff", PPO, other)
    assert (status, err) == (1, "")
    assert [(row["entry"], row["loc"], row["differing"]) for row in rows] == [
        ("data", "/gamma", ""), ("policy.pth", "action_net.bias", "2"),
    ]  # fmt: skip
    assert float(rows[1]["l2_difference"]) == pytest.approx(math.sqrt(2))
    assert run(capsys, "diff", PPO, PPO)[:2] == (0, [])
    status, (row,), err = run(capsys, "diff", PPO, broken)
    assert (status, row["outcome"], row["message"].startswith(f"{broken}: ")) == (2, "container failure", True)
    assert unfold(err).count("\n") == 1


def test_predict_has_a_row_for_each_observation(capsys: Capture) -> None:
    status, rows, _ = run(capsys, "predict", PPO, "--observation", "[[0,0,0,0],[0.1,1,0,0]]", "--outputs")
    assert (status, [(row["index"], row["action"] in "01") for row in rows]) == (0, [("0", True), ("1", True)])
    assert {"logits[0]", "logits[1]", "value[0]"} <= set(rows[0])
    _, (row,), _ = run(capsys, "predict", SAC, "--observation", "[1,0,0]")
    assert -2 <= float(row["action[0]"]) <= 2
    status, (row,), err = run(capsys, "predict", SAC, "--observation", "[1]")
    assert (status, row["outcome"], unfold(err).count("\n")) == (2, "invalid", 1)


def test_the_page_lists_the_columns() -> None:
    page = (ROOT / "docs" / "reference" / "csv.md").read_text("utf-8")
    tables = {
        "inspect": _inspect_table.CSV_COLUMNS, "validate": validate.CSV_COLUMNS, "scan": scan.CSV_COLUMNS,
        "diff": diff.CSV_COLUMNS, "predict": agents.PREDICT_COLUMNS, "evaluate": agents.EVALUATE_COLUMNS,
    }  # fmt: skip
    for command, columns in tables.items():
        (line,) = re.findall(rf"^\| `{command}` \|.*\|.*\|$", page, re.MULTILINE)
        shown = re.findall(r"`([\w.]+)`", line.split("|")[3])
        assert tuple(shown[: len(columns)]) == columns
