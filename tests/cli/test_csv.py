"""``--format csv``: cells of any value, and what a spreadsheet would do with them."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_zips import is_terminal_safe
from sbformat.cli._csv import encode_cell, print_csv


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


@given(st.lists(st.lists(st.one_of(st.none(), st.text(), st.floats(), st.integers()), min_size=3, max_size=3)))
def test_a_reader_of_csv_gets_the_cells_back(rows: list[list[Any]]) -> None:
    stream = io.StringIO()
    print_csv(["a", "b", "c"], (dict(zip("abc", row)) for row in rows), stream=stream)
    assert all(is_terminal_safe(line) for line in stream.getvalue().splitlines())
    read = list(csv.reader(io.StringIO(stream.getvalue())))
    assert read == [["a", "b", "c"], *([encode_cell(value) for value in row] for row in rows)]
