"""Patterns of names match what a shell would match."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat import UnsupportedError
from sbformat.io.remote.listing import compile_pattern
from tests.helpers.sampling import more_examples

NAMES = [
    "a.zip",
    "b.zip",
    "a.pkl",
    "runs/a.zip",
    "runs/ppo/a.zip",
    "runs/ppo/best/c.zip",
    "runs/a+b (1)?.zip",
    "runs/]x",
    "x^-",
]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", ["a.zip", "b.zip", "a.pkl", "x^-"]),
        ("*.zip", ["a.zip", "b.zip"]),
        ("[ab].zip", ["a.zip", "b.zip"]),
        ("[!a].zip", ["b.zip"]),
        ("[b-z].zip", ["b.zip"]),
        ("[!b-z].*", ["a.zip", "a.pkl"]),
        ("**", NAMES),
        ("**/*.zip", [name for name in NAMES if name.endswith(".zip")]),
        ("**/a.zip", ["a.zip", "runs/a.zip", "runs/ppo/a.zip"]),
        ("runs/**", [name for name in NAMES if name.startswith("runs/")]),
        ("runs/**/a.zip", ["runs/a.zip", "runs/ppo/a.zip"]),
        ("runs/*/*.zip", ["runs/ppo/a.zip"]),
        ("**/ppo/**/*.zip", ["runs/ppo/a.zip", "runs/ppo/best/c.zip"]),
        ("**.zip", ["a.zip", "b.zip"]),
        ("runs/a+b (1)?.zip", ["runs/a+b (1)?.zip"]),
        ("runs/[]x]x", ["runs/]x"]),
        ("x[\\^][-a]", ["x^-"]),
        ("x[^-][-]", ["x^-"]),
        ("[a", []),
        ("", []),
    ],
)
def test_what_a_pattern_matches(pattern: str, expected: list[str]) -> None:
    compiled = compile_pattern(pattern)
    assert [name for name in NAMES if compiled.match(name)] == expected


def test_a_set_that_is_not_one_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"expected a pattern such as .*'\[z-a\]'"):
        compile_pattern("[z-a]")


@more_examples(100)
@given(st.text("ab[]!-^\\*.&|~", max_size=8), st.text("ab[]!-^\\.", max_size=6))
def test_patterns_without_folders_are_those_of_fnmatch(pattern: str, name: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except UnsupportedError:
        return  # fnmatch matches nothing with it
    assert bool(name and compiled.match(name)) == bool(name and re.match(fnmatch.translate(pattern), name))
