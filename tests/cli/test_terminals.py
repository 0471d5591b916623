"""Reports in a terminal: laid out as in a pipe where they fit, and the same file of ``-o`` as from a pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.catalogue.test_files import make_row, write
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, changed, with_data
from tests.helpers.terminals import requires_terminals, run_in_terminal

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = requires_terminals
LONG_TEXT = "a long text " * 30


def make_agent(path: Path, text: str) -> Path:
    path.write_bytes(with_data(lambda data: data.update(tensorboard_log=text)))
    return path


@pytest.mark.parametrize(
    ("words", "suffix"),
    [(("inspect", "--long", "b.zip"), "txt"), (("diff", "a.zip", "b.zip"), "txt"), (("diff", "a.zip", "b.zip"), "md")],
)
def test_a_file_of_a_report_does_not_depend_on_the_terminal(
    tmp_path: Path, words: tuple[str, ...], suffix: str
) -> None:
    make_agent(tmp_path / "a.zip", f"another {LONG_TEXT}")
    make_agent(tmp_path / "b.zip", LONG_TEXT)
    command = [sys.executable, "-m", "sbformat", *words, "-o", f"pipe.{suffix}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True)
    status, shown = run_in_terminal(*words, "-o", f"terminal.{suffix}", "--color", "always", cwd=tmp_path)
    assert (status, shown) == (done.returncode, f"terminal.{suffix}: written\n")
    text = (tmp_path / f"terminal.{suffix}").read_text("utf-8")
    assert text == (tmp_path / f"pipe.{suffix}").read_text("utf-8")
    assert max(map(len, text.splitlines())) > 110
    assert "\x1b" not in text


def test_a_table_that_fits_is_laid_out_as_in_a_pipe() -> None:
    pytest.importorskip("rich")
    for path in (PPO, ARCHIVES / "sac-pendulum.zip", ARCHIVES / "vecnormalize-pendulum.pkl"):
        command = [sys.executable, "-m", "sbformat", "inspect", path.name]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        plain = subprocess.run(command, cwd=ARCHIVES, env=environment, check=True, capture_output=True).stdout.decode()
        assert run_in_terminal("inspect", path.name, cwd=ARCHIVES, NO_COLOR="1") == (0, plain)


def test_a_wide_table_is_folded_below_its_title() -> None:
    pytest.importorskip("rich")
    status, shown = run_in_terminal("scan", ARCHIVES / "dangerous.zip", columns=80, NO_COLOR="1")
    lines = [line.rstrip() for line in shown.splitlines()]
    at = lines.index("  findings")
    assert (status, lines[at - 1]) == (1, "")
    assert lines[at + 1].split() == ["verdict", "where", "rule", "why"]
    assert all(line.startswith("    ") for line in lines[at + 1 : at + 8])
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("columns", [60, 100, 140])
def test_a_table_of_files_has_as_many_columns_as_fit(columns: int, tmp_path: Path) -> None:
    pytest.importorskip("rich")
    for seed, name in enumerate(("first.zip", "second-run/agent.zip", "damaged.zip")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        values = {"seed": seed, "gamma": 0.9 + seed / 100, "learning_rate": 0.1 + seed, "num_timesteps": 10**6 + seed}
        path.write_bytes(with_data(lambda data: data.update(values)))  # noqa: B023
    (tmp_path / "second-run" / "agent.zip").write_bytes(changed(policy_pth=b"x"))
    status, shown = run_in_terminal("inspect", ".", columns=columns, cwd=tmp_path, NO_COLOR="1")
    table = shown[shown.index("  3 files") :].partition("\n\n")[0].splitlines()
    assert (status, len(table)) == (1, 5)
    assert table[1].split()[:3] == ["file", "seed", "timesteps"]
    assert max(map(len, table)) <= columns
    listed = shown.partition("--columns shows others that differ: ")[2].replace(" ", "").replace("\n", ",").split(",")
    named = set(table[1].split()) | set(listed)
    assert named >= {"timesteps", "seed", "learning_rate", "gamma"}


def test_rows_of_a_catalogue_have_as_many_columns_as_fit(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    values = {"algorithm": "PPO", "env": "CartPole-v1", "seed": 3, "last_evaluation": 487.25, "verdict": "clean"}
    names = ("runs/logs/first/agent.zip", "runs/logs/second/agent.zip")
    write(tmp_path / "runs.csv", [make_row(name, **values, gamma=0.99) for name in names])
    status, shown = run_in_terminal("catalog", "runs.csv", columns=70, cwd=tmp_path, NO_COLOR="1")
    table, others = shown.split("\n\n")
    title, header, *rows = table.splitlines()
    assert (status, title) == (0, f"  2 rows of runs.csv, sources in {os.path.join('runs', 'logs')}")
    assert header.split() == ["source", "algorithm", "env", "seed", "last_evaluation"]
    assert [row.split() for row in rows] == [
        [f"{name}/agent.zip", "PPO", "CartPole-v1", "3", "487.25"] for name in ("first", "second")
    ]
    assert others.startswith("  --columns shows others: ")
    assert {"mean_reward", "gamma", "verdict"} <= set(others.replace(",", " ").split())
    chosen = ("catalog", "runs.csv", "--columns", "source,gamma")
    _, shown = run_in_terminal(*chosen, columns=70, cwd=tmp_path, NO_COLOR="1")
    assert [line.split() for line in shown.splitlines()[2:]] == [[name, "0.99"] for name in names]
    _, shown = run_in_terminal("catalog", "runs.csv", "--where", "gamma > 1", columns=70, cwd=tmp_path)
    assert "--columns" not in shown


def test_an_error_is_broken_at_the_width_of_the_terminal(tmp_path: Path) -> None:
    path = make_agent(tmp_path / "a.zip", "x")
    words = ("edit", path.name, "-o", "b.zip", "--set", f"gamma={'hello ' * 8}")
    command = [sys.executable, "-m", "sbformat", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    piped = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True).stderr.decode()
    assert len(piped.splitlines()) == 2
    status, shown = run_in_terminal(*words, stream="stderr", columns=60, cwd=tmp_path)
    lines = shown.splitlines()
    assert (status, max(map(len, lines)) <= 60, len(lines) > 2) == (2, True, True)
    assert [line.startswith("    ") for line in lines] == [False, *[True] * (len(lines) - 2), False]
    assert " ".join(shown.split()) == " ".join(piped.split())
    assert run_in_terminal(*words, stream="stderr", columns=300, cwd=tmp_path) == (2, piped)
