"""The pages "Implement L0" and "Implement L1": they have what the vectors of their levels quote."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.runner.selection import is_within
from conformance.runner.vectors import read_vectors
from tests.helpers.bundled import ROOT
from tests.helpers.site_hooks import load_hook

if TYPE_CHECKING:
    from pathlib import Path

HOOK: Final = load_hook("included_sections")
PAGES: Final = {page: HOOK.expand_page(page) for page in HOOK.LEVELS}
OTHER_SECTIONS: Final = ("11",)
"""Sections that vectors of L0 and L1 quote, and that are not on their pages."""


def normalize_spaces(text: str) -> str:
    """Replace line ends, which are not significant in Markdown, by spaces."""
    return " ".join(text.split())


def test_the_pages_have_every_sentence_that_vectors_of_their_level_quote() -> None:
    missing = []
    for level in HOOK.LEVELS.values():
        text = normalize_spaces(" ".join(text for page, text in PAGES.items() if HOOK.LEVELS[page] <= level))
        vectors = [v for v in read_vectors(()) if v.get("level") == level and v["kind"] == "decode"]
        assert len(vectors) > 600
        missing += [v for v in vectors if normalize_spaces(v["sentence"]) not in text]
    assert [v["name"] for v in missing if v["section"] not in OTHER_SECTIONS] == []
    assert {v["section"] for v in missing} == set(OTHER_SECTIONS)


@pytest.mark.parametrize("level", HOOK.LEVELS.values())
def test_the_pages_have_what_the_vectors_of_limits_quote(level: int) -> None:
    text = normalize_spaces(" ".join(text for page, text in PAGES.items() if HOOK.LEVELS[page] <= level))
    vectors = [v for v in read_vectors(()) if "limits" in v.get("features", ()) and is_within(v, level, ["limits"])]
    assert len(vectors) > 60
    assert [v["name"] for v in vectors if normalize_spaces(v["sentence"]) not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_pages_select_vectors(page: str) -> None:
    commands = set(re.findall(r"--level \d(?: --section [\d.]*\d| --feature [a-z-]+)*", PAGES[page]))
    assert len(commands) > 3
    for command in commands:
        arguments = [sys.executable, "conformance/run.py", "--list", *command.split()]
        run = subprocess.run(arguments, cwd=ROOT, check=False, text=True, capture_output=True)
        assert run.returncode == 0, run.stderr
        assert len(run.stdout.splitlines()) > 10


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_leave_out_what_other_levels_need(page: str) -> None:
    assert "<!-- level" not in PAGES[page]
    assert "<!-- include" not in PAGES[page]
    assert ("### 5.1 Opcodes" in PAGES[page]) == (page == "implement/l1.md")
    assert "`_rebuild_from_type_v2`: the class is" not in PAGES["implement/l0.md"]
    assert "- Sparse: " not in PAGES[page]
    assert len(PAGES[page].split()) < 8000


def test_the_archive_of_a_release_has_what_the_pages_link_to(tmp_path: Path) -> None:
    program = ROOT / "docs" / "hooks" / "included_sections.py"
    subprocess.run([sys.executable, str(program), str(tmp_path)], check=True, cwd=tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"IMPLEMENT-L0.md", "IMPLEMENT-L1.md"}
    count = 0
    for name in names:
        text = (tmp_path / name).read_text("utf-8")
        for link in re.findall(r"\]\((?!https:)([^)#\s]+)(?:#[^)]*)?\)", text):
            count += 1
            assert link in names or (link.split("/")[0] in HOOK.ARCHIVED and os.path.exists(ROOT / link)), link
    assert count > 4


@pytest.mark.parametrize(
    ("document", "include", "message"),
    [
        ("## 1 A\nx\n", "2-b", "has no section #2-b"),
        ("## 1 A\n<!-- level 1 -->\nx\n", "1-a", "a mark without its end"),
        ("## 1 A\nx\n<!-- end level -->\n", "1-a", "not one of a pair"),
        ("## 1 A\n<!-- level 1 -->\n<!-- level 3 -->\n", "1-a", "not one of a pair"),
        ("## 1 A\nx\n", "1-a only level 1", "nothing of #1-a is marked"),
        ("## 1 A\n| `x` | 1 |\n", "1-a rows x y", "no rows y"),
    ],
)
def test_wrong_marks_end_the_build(
    document: str, include: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_page(tmp_path, document, include)
    monkeypatch.setattr(HOOK, "ROOT", tmp_path)
    HOOK._split_document.cache_clear()
    with pytest.raises(ValueError, match=message):
        HOOK.expand_page("implement/l0.md")


def test_a_section_is_included_without_marks_and_with_links_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = (
        "# Format\n## 1 A\n[t](tables/t.json) [b](#2-b)\n| `x` | 1 |\n| `y` | 2 |\n- `y`: what y\n  means\n"
        "<!-- level 1 -->\nlater\n<!-- end level -->\n<!-- level none -->\nnever\n<!-- end level -->\n"
        "### 1.1 C\nother\n"
    )
    monkeypatch.setattr(HOOK, "ROOT", tmp_path)
    results: list[Any] = []
    for include in ("1-a", "1-a rows x", "1-a only level 1"):
        HOOK._split_document.cache_clear()
        write_page(tmp_path, document, include)
        results.append([line for line in HOOK.expand_page("implement/l0.md").splitlines() if line])
    table = ["| `x` | 1 |", "| `y` | 2 |", "- `y`: what y", "  means"]
    head = ["# Page", "## 1 A", "[t](../../schema/tables/t.json) [b](#2-b)"]
    assert results == [[*head, *table], [*head, *table[:1]], ["# Page", "later"]]


def write_page(folder: Path, document: str, include: str) -> None:
    """Write a document, and a page that includes a section of it."""
    anchor, _, options = include.partition(" ")
    mark = f"include; {options}" if options else "include"
    for path, text in (
        ("schema/F.md", document),
        ("docs/implement/l0.md", f"# Page\n[F](../../schema/F.md#{anchor}) <!-- {mark} -->\n"),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_the_lines_of_the_pages_fit(page: str) -> None:
    lines = (ROOT / "docs" / page).read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > 120 and "<!-- include" not in line] == []
