"""Conditions of SQL on a catalogue: what they find, and that they only read."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

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
    import sqlite3

    from sbformat.catalogue import table_files

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
