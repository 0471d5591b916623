"""Patterns of ``--exclude``: which files and folders of a folder they cover."""

from __future__ import annotations

import pytest

from sbformat.io.patterns import NOTHING, Exclusion, find_start, has_marks

NAMES = [
    "a.zip",
    "old/",
    "old/a.zip",
    "runs/",
    "runs/a.tmp",
    "runs/old/",
    "runs/old/b/",
    "runs/old/b/c.zip",
    "runs/x/old",
]
"""Files, and folders with a slash at their end."""


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["a.zip"], ["a.zip", "old/a.zip"]),
        (["/a.zip"], ["a.zip"]),
        (["./a.zip"], ["a.zip"]),
        (["runs//old/"], ["runs/old/", "runs/old/b/", "runs/old/b/c.zip"]),
        (["*.tmp", "b"], ["runs/a.tmp", "runs/old/b/", "runs/old/b/c.zip"]),
        (["old"], ["old/", "old/a.zip", "runs/old/", "runs/old/b/", "runs/old/b/c.zip", "runs/x/old"]),
        (["old/"], ["old/", "old/a.zip", "runs/old/", "runs/old/b/", "runs/old/b/c.zip"]),
        (["/old/"], ["old/", "old/a.zip"]),
        (["runs/old"], ["runs/old/", "runs/old/b/", "runs/old/b/c.zip"]),
        (["runs/*"], ["runs/a.tmp", "runs/old/", "runs/old/b/", "runs/old/b/c.zip", "runs/x/old"]),
        (["runs/**"], ["runs/a.tmp", "runs/old/", "runs/old/b/", "runs/old/b/c.zip", "runs/x/old"]),
        (["**/old/*"], ["old/a.zip", "runs/old/b/", "runs/old/b/c.zip"]),
        (["?.zip"], ["a.zip", "old/a.zip", "runs/old/b/c.zip"]),
        (["[!a].zip"], ["runs/old/b/c.zip"]),
        (["A.ZIP", "zip", "a"], []),
        (["[a"], []),
        (["*"], NAMES),
        ([], []),
    ],
)
def test_what_patterns_cover(patterns: list[str], expected: list[str]) -> None:
    exclusion = Exclusion(patterns)
    assert [name for name in NAMES if exclusion.covers(name)] == expected


@pytest.mark.parametrize("name", NAMES)
def test_what_is_below_a_covered_folder_is_covered(name: str) -> None:
    for pattern in ("old", "old/", "runs/", "*", "**", "runs/*", "b"):
        exclusion = Exclusion([pattern])
        above = [name[: at + 1] for at, letter in enumerate(name[:-1]) if letter == "/"]
        if any(map(exclusion.covers, above)):
            assert exclusion.covers(name)


def test_the_folder_itself_is_never_covered() -> None:
    assert not Exclusion(["*", "**"]).covers("")
    assert not any(map(NOTHING.covers, NAMES))


@pytest.mark.parametrize("pattern", ["", "/", "//", "[z-a]"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"expected a pattern such as \*\.tmp"):
        Exclusion([pattern])


def test_the_start_of_a_pattern_means_itself() -> None:
    assert [find_start(text) for text in ("a/b", "a/*.zip", "[a]", "a?")] == ["a/b", "a/", "", "a"]
    assert [has_marks(text) for text in ("a/b", "a*", "")] == [False, True, False]
