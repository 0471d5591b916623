"""Files of catalogues: what is written is read back as the same rows, and written again as the same bytes."""

from __future__ import annotations

import csv
import json
import math
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sbformat.catalogue.rows import COLUMNS, SourceState, make_empty_row
from sbformat.catalogue.table_files import (
    MOST_COLUMNS,
    OTHER,
    SUFFIXES,
    drop_empty,
    find_columns,
    find_format,
    read_table,
)
from sbformat.errors import UnsupportedError
from tests.helpers.sampling import more_examples

if TYPE_CHECKING:
    from pathlib import Path


def make_row(name: str, /, **values: Any) -> dict[str, Any]:
    return {**make_empty_row(SourceState(name, 10, "1"), made_by="1"), **values}


def write(path: Path, rows: list[dict[str, Any]]) -> bytes:
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path.unlink(missing_ok=True)
    find_format(str(path)).write(str(path), iter(rows), find_columns(rows))
    return path.read_bytes()


def read(path: Path) -> list[dict[str, Any]]:
    return list(read_table(str(path)))


ROWS = [
    make_row("a.zip", size=3, algorithm_certain=True, mean_reward=1.5, gamma=0.99, ent_coef="auto", use_sde=True),
    make_row('b, "c"\n.zip', problem="=SUM(A1)", gamma=1, ent_coef=0.1, seed=2**63 - 1, text="true", name="-5"),
    make_row("-1.zip", gamma=math.inf, ent_coef="linear 0.1 -> 0", text="'x", name="", other_name="a;=1", mixed=True),
    make_row("\u00e4.zip", statistics="", target=-math.inf, mixed=2.5, text="=1;'=2", flag=False, name="Infinities"),
    make_row("d.zip", mixed="words", text="1e5", tiny=5e-324, gamma=1e300, use_sde=False, seed=-(2**63)),
]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_are_read_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"runs{suffix}"
    content = write(path, ROWS)
    found = read(path)
    assert found == [drop_empty(row) for row in ROWS]
    assert [list(row)[: len(COLUMNS)] for row in found] == [list(COLUMNS)] * len(ROWS)
    assert write(path, found) == content


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_number_that_is_not_one_is_read_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"runs{suffix}"
    content = write(path, [make_row("a.zip", gamma=math.nan), make_row("b.zip", gamma=0.5)])
    found = read(path)
    assert math.isnan(found[0]["gamma"])
    assert found[1]["gamma"] == 0.5
    assert write(path, found) == content


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8).filter(
        lambda text: text not in ("NaN", "Infinity", "-Infinity")
    ),
    st.sampled_from(["'", "''", "=", "';=", "true", "'true", "0", "-1e5", ";'=", "'=1", " =1", "'\"=1"]),
)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".sqlite"])
@more_examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(SCALARS, min_size=1, max_size=4))
def test_any_values_are_read_back(tmp_path: Path, suffix: str, values: list[Any]) -> None:
    rows = [make_row(f"{number}.zip", value=value) for number, value in enumerate(values)]
    path = tmp_path / f"runs{suffix}"
    content = write(path, rows)
    assert [row.get("value") for row in read(path)] == values
    assert write(path, read(path)) == content


def test_parquet_has_a_type_for_each_column(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write(tmp_path / "runs.parquet", ROWS)
    table = parquet.read_table(tmp_path / "runs.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    expected = {"size": "int64", "mean_reward": "double", "algorithm_certain": "bool", "gamma": "double"}
    expected |= {"seed": "int64", "use_sde": "bool", "text": "string"}
    assert {name: types[name] for name in expected} == expected
    assert (types["ent_coef"], types["ent_coef_text"]) == ("double", "string")
    assert table.column("ent_coef").to_pylist() == [None, 0.1, None, None, None]
    assert table.column("ent_coef_text").to_pylist() == ["auto", None, "linear 0.1 -> 0", None, None]


def test_the_name_of_a_second_column_is_not_that_of_another(tmp_path: Path) -> None:
    rows = [make_row("a.zip", x="text", x_text=1), make_row("b.zip", x=2, x_text=3)]
    write(tmp_path / "runs.parquet", rows)
    assert read(tmp_path / "runs.parquet") == rows


def test_a_spreadsheet_evaluates_no_text(tmp_path: Path) -> None:
    write(tmp_path / "runs.csv", [make_row("=1.zip", gamma="@x")])
    with (tmp_path / "runs.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["source"], line["gamma"]) == ("'=1.zip", "'@x")


def test_json_lines_are_strict_json(tmp_path: Path) -> None:
    write(tmp_path / "runs.jsonl", ROWS)
    content = (tmp_path / "runs.jsonl").read_text("utf-8")
    lines = [json.loads(line, parse_constant=pytest.fail) for line in content.split("\n")[:-1]]
    assert lines[2]["gamma"] == "Infinity"
    assert "seed" not in lines[0]
    assert lines[0]["error"] is None


def test_sqlite_has_one_table(tmp_path: Path) -> None:
    write(tmp_path / "runs.sqlite", ROWS)
    with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as database:
        assert database.execute("SELECT source FROM catalog WHERE gamma < 0.995").fetchall() == [("a.zip",)]
        assert database.execute("SELECT typeof(ent_coef) FROM catalog").fetchall()[:2] == [("text",), ("real",)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rare_columns_are_in_one(tmp_path: Path, suffix: str) -> None:
    rows = [make_row("a.zip", gamma=0.9, **{f"key{number}": number for number in range(MOST_COLUMNS)})]
    rows += [make_row("b.zip", gamma=0.8, rare="text", nothing=math.inf)]
    columns = find_columns(rows)
    assert len(columns.names) == len(COLUMNS) + MOST_COLUMNS + 1
    assert columns.names[-1] == OTHER
    assert "gamma" in columns.names
    assert find_columns(rows[::-1]) == columns
    assert find_columns(rows[::-1]).names == columns.names
    content = write(tmp_path / f"runs{suffix}", rows)
    assert read(tmp_path / f"runs{suffix}") == rows
    assert write(tmp_path / f"runs{suffix}", rows) == content


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", [b"", b"source,size\n", b"{}\n", b"\xff\xfe", b"PAR1" * 9, b"[" * 9999])
def test_other_files_are_refused(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"runs{suffix}"
    path.write_bytes(content)
    if suffix == ".jsonl" and not content:
        assert read(path) == []
        return
    with pytest.raises(UnsupportedError, match=r"is not a catalogue that sbformat wrote"):
        read(path)


def test_another_suffix_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"expected a file that ends with .parquet, .csv, .jsonl or .sqlite"):
        find_format("runs.xlsx")


def test_parquet_without_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnsupportedError, match=r'pip install "sbformat\[catalog\]"'):
        find_format("runs.parquet")
