"""Numbers of every size are summarized and drawn, and nothing about them reaches standard error."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import sbformat
from sbformat.catalogue.collect import collect_episodes
from sbformat.html_report.archive_page import average
from sbformat.html_report.plots import Plots
from sbformat.html_report.weights import describe_numbers
from tests.helpers.bundled import PPO, ROOT
from tests.helpers.many_cases import check_each
from tests.html_report.test_sections import STATISTICS, render, with_settings

if TYPE_CHECKING:
    from pathlib import Path


@check_each("power", [-1070, -600, -500, 0, 500, 600, 1020])
def test_mean_and_deviation_do_not_depend_on_the_size_of_the_numbers(power: int) -> None:
    array = np.ldexp(np.array([-3.0, 1.0, 2.0, 4.0] * 4), power)
    found = describe_numbers(array)
    assert found is not None
    assert found.mean == np.ldexp(1.0, power)
    assert found.std == np.ldexp(np.sqrt(6.5), power)
    assert found.histogram is not None
    assert found.histogram.counts == (4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 4)


def test_the_largest_floats_have_a_deviation() -> None:
    largest = np.finfo(np.float64).max
    found = describe_numbers(np.array([largest, -largest] * 8))
    assert found is not None
    assert (found.mean, found.std) == (0, pytest.approx(largest))


def test_numbers_of_a_wider_dtype_do_not_warn() -> None:
    found = describe_numbers(np.array([np.finfo(np.longdouble).max, 1.0]))
    assert found is not None
    assert found.maximum is not None


ODD_NUMBERS = (
    1e16, 9007199254740993.0, 1e17, -1e17, 1e154, 1e155, 1e300, -1e300, 1e-155, 1e-300, 1e-310, 5e-324, 0.0, 1.0,
)  # fmt: skip


HUGE = (1.7e308, -1.7e308)
EVERY_PAIR = (*itertools.combinations_with_replacement(ODD_NUMBERS, 2), *itertools.product(HUGE, ODD_NUMBERS))
PAIRS = (*zip(ODD_NUMBERS[:7], ODD_NUMBERS[7:]), (1.7e308, 1.0), (-1.7e308, 1e300))
"""Each number once, with one of another size."""


@pytest.mark.parametrize(
    "pairs", [PAIRS, pytest.param(EVERY_PAIR, marks=pytest.mark.exhaustive)], ids=["some", "every pair"]
)
def test_plots_of_odd_numbers_do_not_warn(pairs: tuple[tuple[float, float], ...]) -> None:
    plots = Plots()
    for first, second in pairs:
        series = [first, second] * 10
        drawn = plots.draw_series(series, average(series) if abs(first) < 1e301 else (), label="")
        assert "nan" not in drawn.casefold()
        assert "inf" not in drawn.casefold()
        assert plots.draw_intervals([first, second], [abs(first), abs(second)], label="")
        assert plots.draw_bars(["a", "b"], [abs(first), abs(second) or 1.0], label="")
        found = describe_numbers(np.array(series))
        assert found is not None
        if found.histogram is not None:
            assert plots.draw_histogram(found.histogram, label=found.describe())


def test_the_ticks_of_huge_and_tiny_numbers_are_those_of_the_numbers() -> None:
    for power, tick in (("1e300", "1e+300"), ("1e-300", "1e\u2212300"), ("1e17", "1e+17")):
        drawn = str(Plots().draw_series([0.0, float(power)] * 10, (), label=""))
        assert f">{tick}<" in drawn
    assert ">1e+307%<" in str(Plots().draw_bars(["a"], [1e305], label=""))


def test_a_moving_average_does_not_keep_what_has_left_its_window() -> None:
    assert average([1e17, *[1.0] * 30])[-1] == 1.0
    assert average([1.0, 2.0, 3.0, 6.0], 2) == [1.0, 1.5, 2.5, 4.5]
    assert average([1.0] * 19) == []


def test_matplotlib_does_not_log_and_reads_no_backend(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {
        **os.environ, "MPLBACKEND": "nope", "MPLCONFIGDIR": str(tmp_path / "file" / "nope"), "HOME": "/nonexistent",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, "-W", "error", "-m", "sbformat", "report", str(STATISTICS), "-o", "page.html"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "page.html: a page about 1 file\n", "")


def test_rewards_that_are_no_numbers_or_overflow_do_not_warn() -> None:
    rows = [{"r": 1.0, "l": 10**17, "t": 0.0}, {"r": 1e299, "l": 5, "t": 0.0}]
    found = collect_episodes(with_settings(ep_info_buffer=rows))
    assert found is not None
    assert (found.rewards, found.lengths) == ((1e299,), (5,))


@pytest.mark.usefixtures("few_plots")
def test_complex_tensors_have_a_remark() -> None:
    archive = sbformat.read(PPO)
    made = archive.replace(parameters={"policy": {"a": np.zeros(9, np.complex64)}})
    assert "complex numbers: not summarized" in render(sbformat.writes(made))
