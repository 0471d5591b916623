"""Curves of several runs: which are one line, and what a line and its band are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sbformat.catalogue.rows import Cell, FileRow, RunCurve
from sbformat.folders.logs import Curve
from sbformat.html_report.curves import MOST_FIGURES, average_curves, make_curves
from sbformat.html_report.plots import SERIES, Plots
from sbformat.html_report.table_page import render_table
from tests.helpers.bundled import PPO, SAC
from tests.helpers.run_folders import make_evaluations, make_folder
from tests.html_report.test_page import ATTACK, assert_is_harmless, write_page

if TYPE_CHECKING:
    from pathlib import Path

CURVE = Curve((10, 20, 30), (1.0, 2.0, 3.0))


def make_row(name: str, curve: Curve = CURVE, *, logs: str = "", kind: str = "evaluations", **cells: str) -> FileRow:
    run = RunCurve((logs or f"{name}.csv",), kind, curve)
    texts = {key: Cell(text) for key, text in cells.items()}
    return FileRow(name=name, cells=texts, remarks=(), omitted=0, failure=None, is_broken=False, run=run)


def list_lines(rows: list[FileRow]) -> dict[str, list[tuple[str, int]]]:
    """The lines of each figure, with their numbers of runs."""
    figures = make_curves(rows, Plots())["figures"]
    return {figure.title: [(row.name, row.runs) for row in figure.rows] for figure in figures}


def test_runs_of_an_algorithm_in_an_environment_are_one_line() -> None:
    rows = [make_row(f"{env}{algorithm}{seed}", env=env, algorithm=algorithm)
            for env in ("x", "y") for algorithm in ("PPO", "SAC") for seed in range(3)]  # fmt: skip
    assert list_lines(rows[:-1]) == {"x": [("PPO", 3), ("SAC", 3)], "y": [("PPO", 3), ("SAC", 2)]}


def test_checkpoints_of_a_run_are_one_run_and_one_run_is_no_figure() -> None:
    rows = [make_row(f"{at}.zip", logs="run/0.monitor.csv", env="x", algorithm="PPO") for at in range(5)]
    assert list_lines(rows) == {}
    assert list_lines([*rows, make_row("b", env="x", algorithm="PPO")]) == {"x": [("PPO", 2)]}


def test_runs_whose_environment_is_not_known_are_not_averaged() -> None:
    assert list_lines([make_row(name, algorithm="PPO") for name in "ab"]) == {
        "Environment not known": [("a", 1), ("b", 1)]
    }


def test_lines_without_a_colour_and_figures_beyond_the_first_are_counted() -> None:
    (figure,) = make_curves([make_row(f"{at}") for at in range(9)], Plots())["figures"]
    assert (len(figure.rows), figure.omitted) == (len(SERIES), 3)
    found = make_curves([make_row(f"{at}", env=f"{at}") for at in range(MOST_FIGURES + 2)], Plots())
    assert (len(found["figures"]), found["omitted"]) == (MOST_FIGURES, 2)


def test_a_line_is_the_mean_of_the_runs_that_have_the_step() -> None:
    one, other = Curve((10, 20, 30), (1.0, 2.0, 3.0)), Curve((20, 10), (6.0, 5.0))
    line = average_curves([one, other])
    assert (line.steps, line.values) == ([10, 20, 30], [3, 4, 3])
    assert (line.low, line.high) == ([1, 2, 3], [5, 6, 3])
    between = average_curves([one, Curve((15, 25), (1.5, 2.5))])
    assert (between.steps, between.values) == ([10, 15, 20, 25, 30], [1, 1.5, 2, 2.5, 3])
    apart = average_curves([Curve((1,), (1.0,)), Curve((100,), (2.0,))])
    assert (apart.steps, apart.values) == ([1, 100], [1, 2])
    assert average_curves([one]).low == []


def test_a_long_line_is_thinned_and_keeps_its_ends() -> None:
    curves = [Curve(tuple(range(at, 900, 2)), tuple(map(float, range(at, 900, 2)))) for at in (0, 1)]
    line = average_curves(curves)
    assert len(line.steps) <= 60
    assert (line.steps[0], line.steps[-1]) == (0, 899)


@pytest.mark.parametrize("rewards", [(1e299, -1e299), (0.0, 0.0), (1e-310, 0.0), (5.0, 5.0)])
@pytest.mark.parametrize("steps", [(0, 0), (1 << 62, 1 << 62), (-5, 7)])
def test_odd_curves_are_drawn(steps: tuple[int, ...], rewards: tuple[float, ...]) -> None:
    rows = [make_row(name, Curve(steps, rewards), env="x", algorithm="PPO") for name in "ab"]
    (figure,) = make_curves(rows, Plots())["figures"]
    assert not {"nan", "inf"} & set(str(figure.svg).casefold().replace('"', " ").split())
    assert all(math.isfinite(row.last) for row in figure.rows)


def test_texts_of_logs_are_escaped() -> None:
    page = render_table([make_row(ATTACK + name, env=ATTACK, algorithm=ATTACK) for name in "abc"])
    assert_is_harmless(page)
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_the_page_of_many_has_the_curves_of_the_logs_beside_the_agents(tmp_path: Path) -> None:
    files: dict[str, Any] = {}
    for at, agent in enumerate((PPO, PPO, SAC)):
        results = [[1.0 + at], [2.0 + at], [9.0 + at]]
        files |= {f"{at}/agent.zip": agent.read_bytes(), f"{at}/args.yml": b"env: Maze-v0\nseed: %d\n" % at}
        files[f"{at}/evaluations.npz"] = make_evaluations(results=np.array(results))
    make_folder(tmp_path, files)
    sources = [tmp_path / name for name in files if name.endswith(".zip")]
    page = write_page(sources, tmp_path)
    assert write_page(sources, tmp_path) == page
    assert_is_harmless(page)
    assert "Mean reward of evaluations in Maze-v0, at the end: PPO 9.5 at step 300, SAC 11 at step 300" in page
    assert "PPO (2 runs)" in page
    assert "Of several runs the line is the mean" in page
