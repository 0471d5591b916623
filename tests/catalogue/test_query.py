"""Conditions of SQL on a catalogue: what they find, and that they only read."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sqlite3
import statistics
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat.catalogue import table_files
from sbformat.catalogue.table_files import SUFFIXES, search
from sbformat.errors import MissingEntryError, UnsupportedError
from tests.catalogue.test_files import make_row, write

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [
    make_row("a.zip", algorithm="PPO", gamma=0.99, ent_coef="auto"),
    make_row("b.zip", algorithm="PPO", gamma=0.5, ent_coef=0.1),
    make_row("c.zip", algorithm="SAC", gamma=0.9),
    make_row("d.zip"),
]


def find(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    with search(str(path), columns=["source"], **options) as found:
        return [source for (source,) in found.rows]


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made: Path = tmp_path / f"runs{request.param}"
    write(made, ROWS)
    return made


def test_rows_meet_a_condition(path: Path) -> None:
    assert find(path, where="algorithm = 'PPO' and gamma < 0.9") == ["b.zip"]
    assert find(path, where="gamma > 0.6 -- a comment") == ["a.zip", "c.zip"]
    assert find(path, where="ent_coef = 'auto' or ent_coef < 1") == ["a.zip", "b.zip"]
    assert find(path, where="gamma = (SELECT max(gamma) FROM catalog)") == ["a.zip"]
    assert find(path) == ["a.zip", "b.zip", "c.zip", "d.zip"]


def test_rows_are_sorted_and_those_without_a_value_are_last(path: Path) -> None:
    assert find(path, sort="gamma") == ["b.zip", "c.zip", "a.zip", "d.zip"]
    assert find(path, sort="gamma", is_reversed=True, most=3) == ["a.zip", "c.zip", "b.zip"]
    assert find(path, is_reversed=True)[0] == "d.zip"


@pytest.mark.parametrize("options", [{"where": "gama < 1"}, {"sort": "gama"}, {"columns": ["gama"]}])
def test_a_wrong_column_suggests_the_nearest(path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(MissingEntryError, match="no column 'gama'; did you mean 'gamma'"), search(str(path), **options):
        pass


@pytest.mark.parametrize(
    "where",
    [
        "gamma <",
        "1); DROP TABLE catalog; --",
        "1) UNION SELECT load_extension('x') FROM catalog WHERE (1",
        "load_extension('x') IS NULL",
        "writefile('x', 'y')",
        "1; ATTACH 'other.sqlite' AS other",
        "nosuchfunction(1)",
    ],
)
def test_a_condition_only_reads(path: Path, where: str) -> None:
    before = path.read_bytes()
    with pytest.raises(UnsupportedError, match=r"^the condition is not SQL that SQLite accepts: [^\n]+$"):
        find(path, where=where)
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == [path]


def test_every_action_but_reading_is_refused(path: Path) -> None:
    with search(str(path)):
        pass
    actions = {getattr(sqlite3, name) for name in dir(sqlite3) if name.startswith("SQLITE_CREATE")}
    actions |= {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_INSERT, sqlite3.SQLITE_DELETE}
    for action in actions:
        assert table_files._authorize(action, None, None) == sqlite3.SQLITE_DENY


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        if suffix == ".parquet":
            pytest.importorskip("pyarrow")
        with pytest.raises(FileNotFoundError), search(str(tmp_path / f"no{suffix}")):
            pass


@pytest.mark.parametrize(
    "where", ['"gama" < 1', 'gamma < 1 and "gama" = \'"gamma"\'', '/* "x" */ "gama" IS NULL -- "y"']
)
def test_a_wrong_column_in_quotes_is_not_a_text(path: Path, where: str) -> None:
    with pytest.raises(MissingEntryError, match="no column 'gama'; did you mean 'gamma'"):
        find(path, where=where)


def test_columns_and_texts_in_quotes_are_found(path: Path) -> None:
    assert find(path, where="\"gamma\" < 0.9 and algorithm = 'PPO'") == ["b.zip"]
    assert find(path, where="'\"gama\"' = '\"gama\"' and [gamma] > 0.95 and `gamma` < 1") == ["a.zip"]
    with pytest.raises(MissingEntryError, match="texts are in single quotes"):
        find(path, where='algorithm = "PPO"')


def test_rows_that_are_not_taken_are_no_error(path: Path) -> None:
    with search(str(path)) as found:
        assert len(next(found.rows)) == len(found.columns)
    found.rows.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("suffix", "row"),
    [
        (".jsonl", {"seed": 1 << 70}),
        (".jsonl", {"name": "\ud800"}),
        (".jsonl", {"name": [1]}),
        (".jsonl", {"other": "[1, 2]"}),
        (".csv", {"Gamma": 1.0}),
        (".csv", {'x"': 1.0}),
    ],
)
def test_a_table_of_somebody_else_is_one_error_or_read(tmp_path: Path, suffix: str, row: dict[str, Any]) -> None:
    """Names of columns that SQL has a meaning for are columns; what SQLite cannot store is an error of ours."""
    path = tmp_path / f"runs{suffix}"
    rows = [ROWS[0], {**ROWS[1], **row}]
    if suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        write(path, rows)
    try:
        assert find(path) == ["a.zip", "b.zip"]
    except UnsupportedError as error:
        assert re.search("was cut off, or changed by another program|cannot be searched", error.message)  # noqa: PT017


def test_bytes_that_are_not_text_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    write(path, ROWS)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE catalog SET policy_class = CAST(x'41ff' AS TEXT)")
        database.commit()
    with search(str(path), columns=["policy_class"], most=1) as found:
        assert list(found.rows) == [("A\\xff",)]


# -- groups -------------------------------------------------------------------------------------------

SEEDS = [
    make_row("a1", env="A", algorithm="PPO", mean_reward=1.0, timesteps=100, ent_coef="auto", gamma=0.1),
    make_row("a2", env="A", algorithm="PPO", mean_reward=2.0, timesteps=100, ent_coef=0.1, gamma=0.1),
    make_row("a3", env="A", algorithm="PPO", mean_reward=6.0, timesteps=100, gamma=0.1),
    make_row("a4", env="A", algorithm="PPO", outcome="limit exceeded", gamma=0.1),
    make_row("b1", env="B", algorithm="SAC", mean_reward=math.nan, timesteps=200, gamma=0.9),
    make_row("b2", env="B", algorithm="SAC", mean_reward=3.0, timesteps=100, gamma=0.9),
    make_row("c1", env="B", algorithm="PPO", mean_reward=-5.5, timesteps=100),
    make_row("d1"),
]


@pytest.fixture(params=SUFFIXES)
def seeds(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made: Path = tmp_path / f"seeds{request.param}"
    write(made, SEEDS)
    return made


def group(path: Path, by: str, columns: str, **options: Any) -> list[tuple[Any, ...]]:
    with search(str(path), group_by=by.split(), columns=columns.split(), **options) as found:
        return list(found.rows)


def test_a_group_has_mean_deviation_of_the_sample_and_number_of_values(seeds: Path) -> None:
    with search(str(seeds), group_by=["env", "algorithm"], columns=["mean_reward", "env", "timesteps"]) as found:
        rows = list(found.rows)
    assert found.columns == (
        "env", "algorithm", "n", "mean_reward_mean", "mean_reward_std", "mean_reward_n",
        "timesteps_mean", "timesteps_std", "timesteps_n",
    )  # fmt: skip
    assert (found.measures, found.failed) == (("mean_reward", "timesteps"), 1)
    assert rows == [
        ("A", "PPO", 4, 3.0, pytest.approx(statistics.stdev([1, 2, 6])), 3, 100.0, 0.0, 3),
        ("B", "PPO", 1, -5.5, None, 1, 100.0, None, 1),
        ("B", "SAC", 2, "NaN", "NaN", 2, 150.0, pytest.approx(math.sqrt(5000)), 2),
        (None, None, 1, None, None, 0, None, None, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "envs"),
    [
        ({}, ["A", "B", None]),
        ({"is_reversed": True}, ["B", "A", None]),
        ({"sort": "mean_reward"}, ["B", "A", None]),
        ({"sort": "mean_reward", "is_reversed": True}, ["A", "B", None]),
        ({"sort": "mean_reward_n", "is_reversed": True, "most": 2}, ["A", "B"]),
        ({"sort": "n"}, [None, "B", "A"]),
        ({"sort": "timesteps", "is_reversed": True}, ["A", "B", None]),
        ({"sort": "algorithm"}, ["B", "A", None]),
        ({"sort": "gamma", "where": "gamma > 0.5"}, ["B"]),
    ],
)
def test_groups_are_made_after_the_condition_and_before_the_order(
    seeds: Path, options: dict[str, Any], envs: list[str | None]
) -> None:
    options = {"where": "source <> 'b1'", **options}
    assert [env for env, *_ in group(seeds, "env", "mean_reward gamma", **options)] == envs


def test_texts_of_a_group_are_shown_if_they_are_the_same(seeds: Path) -> None:
    assert group(seeds, "env", "algorithm ent_coef verdict") == [
        ("A", 4, "PPO", "2 values", None), ("B", 3, "2 values", None, None), (None, 1, None, None, None),
    ]  # fmt: skip


def test_equal_numbers_have_their_value_as_mean_and_no_deviation(seeds: Path) -> None:
    assert group(seeds, "env", "gamma")[0] == ("A", 4, 0.1, 0.0, 4)  # the sum of three is 0.30000000000000004


def test_columns_of_groups_are_those_of_numbers_also_without_rows(seeds: Path) -> None:
    with search(str(seeds), group_by=["env"], columns=["gamma", "algorithm"], where="gamma > 7") as found:
        assert (list(found.rows), found.columns) == (
            [],
            ("env", "n", "gamma_mean", "gamma_std", "gamma_n", "algorithm"),
        )


@pytest.mark.parametrize(
    ("options", "name"),
    [({"group_by": ["enw"]}, "env"), ({"columns": ["gama"]}, "gamma"), ({"sort": "mean_rewart"}, "mean_reward")],
)
def test_a_wrong_column_of_groups_suggests_the_nearest(seeds: Path, options: dict[str, Any], name: str) -> None:
    options = {"group_by": ["env"], "columns": ["mean_reward"], **options}
    with pytest.raises(MissingEntryError, match=f"did you mean '{name}'"), search(str(seeds), **options):
        pass


def test_columns_of_groups_with_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.sqlite", [make_row("a", n=1, gamma=0.5, gamma_mean="x")])
    for by, columns in (("n", "gamma"), ("env", "n gamma gamma_mean")):
        with pytest.raises(UnsupportedError, match="two columns of the groups have the name '(n|gamma_mean)'"):
            group(tmp_path / "a.sqlite", by, columns)
    assert group(tmp_path / "a.sqlite", "env", "n") == [(None, 1, 1.0, None, 1)]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20), st.sampled_from([0.0, 1e6]))
def test_mean_and_deviation_are_those_of_statistics(numbers: list[float], offset: float) -> None:
    numbers = [number + offset for number in numbers]
    mean, deviation = table_files._Mean(), table_files._Deviation()
    for number in numbers:
        mean.step(number)
        deviation.step(number)
    assert mean.finalize() == pytest.approx(statistics.fmean(numbers), rel=1e-9, abs=1e-9)
    assert deviation.finalize() == pytest.approx(statistics.stdev(numbers), rel=1e-6, abs=1e-6)


def test_infinities_and_large_numbers_are_no_error(tmp_path: Path) -> None:
    rows = [make_row("a", gamma=math.inf, seed=2**63 - 1), make_row("b", gamma=1, seed=-(2**63))]
    write(tmp_path / "a.sqlite", [*rows, make_row("c", env="x", gamma=1e308), make_row("d", env="x", gamma=-1e308)])
    (_, *large), (_, _, *infinite) = group(tmp_path / "a.sqlite", "env", "gamma seed")
    assert large == [2, 0.0, math.inf, 2, None, None, 0]
    assert infinite == ["NaN", "NaN", 2, pytest.approx(0, abs=1), pytest.approx(2**63 * math.sqrt(2)), 2]
