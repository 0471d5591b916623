"""The text of the specification: its sentences are short, and vectors show what it requires at which level."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from conformance.runner.selection import read_features
from conformance.runner.vectors import read_vectors
from tests.helpers.bundled import ROOT
from tests.helpers.site_hooks import load_hook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENTS: Final = sorted((ROOT / "schema").glob("*.md"))
LONGEST: Final = 40
"""The most words that a sentence may have."""
REQUIRED: Final = re.compile(r"\b(?:MUST|REQUIRED|SHALL)\b")
SECTIONS: Final = load_hook("format_sections").list_sections()
VECTORS: Final = list(read_vectors())


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of paragraphs and list items, without code blocks, tables, headings and comments.

    A sentence ends at a full stop, question mark or exclamation mark before white space, and where a paragraph or a
    list item ends; so a colon that introduces a list ends one, too.
    """
    text = re.sub(r"<!--.*?-->|^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        starts_item = re.match(r" *(?:[-*]|\d+\.) ", line)
        is_code = not block and not starts_item and line.startswith("    ")
        if starts_item or is_code or not line.strip() or re.match(r" *[|#]", line):
            yield from re.split(r"(?<=[.!?]) ", " ".join(block)) if block else ()
            block = []
        if line.strip() and not is_code and not re.match(r" *[|#]", line):
            block.append(line.strip())


def normalize_spaces(text: str) -> str:
    return " ".join(text.split())


# -- sentences ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_no_sentence_is_long(document: Path) -> None:
    sentences = list(split_sentences(document.read_text("utf-8")))
    assert len(sentences) > 10
    assert [sentence for sentence in sentences if len(sentence.split()) > LONGEST] == []


def test_every_must_is_quoted_by_a_vector() -> None:
    """The quote contains the word, so the vector shows this requirement, not another one of the same sentence."""
    quotes: dict[str, set[str]] = {}
    for vector in VECTORS:
        quotes.setdefault(vector["section"], set()).add(normalize_spaces(vector["sentence"]))
    unquoted = []
    for number, section in SECTIONS.items():
        text = normalize_spaces(section.text)
        quoted = [place.span() for quote in quotes.get(number, ()) for place in re.finditer(re.escape(quote), text)]
        start = 0
        for sentence in map(normalize_spaces, split_sentences(section.text)):
            start = text.index(sentence, start)
            places = [(start + word.start(), start + word.end()) for word in REQUIRED.finditer(sentence)]
            if places and not any(a <= first and last <= b for first, last in places for a, b in quoted):
                unquoted.append((number, sentence))
    assert unquoted == []


def test_only_numbered_sections_require_something() -> None:
    """The words in quotation marks are those that FORMAT.md defines."""
    whole = "".join(path.read_text("utf-8") for path in DOCUMENTS)
    numbered = "".join(section.text for section in SECTIONS.values())
    count = [len(REQUIRED.findall(re.sub(r'"[A-Z\s]+"|with MUST', "", text))) for text in (whole, numbered)]
    assert count[0] == count[1] > 0


# -- levels and features ------------------------------------------------------------------------------


def parse_sections(text: str) -> set[str]:
    """Return the sections that ``1 to 4, 8, without 1.4`` means, with the subsections."""
    included, _, excluded = text.partition("without")
    chosen = _parse_list(included) - _parse_list(excluded)
    assert chosen, text
    return chosen


def _parse_list(text: str) -> set[str]:
    numbers = list(SECTIONS)
    found = set()
    for first, last in re.findall(r"(\d+(?:\.\d+)?)(?: to (\d+(?:\.\d+)?))?", text):
        assert first in SECTIONS, first
        ends = [number for number in numbers if f"{number}.".startswith(f"{last or first}.")]
        found |= set(numbers[numbers.index(first) : numbers.index(ends[-1]) + 1])
    return found


def read_table(heading: str) -> dict[str, list[str]]:
    """Return the rows of the table in "Conformance" whose first column has this heading, by their first cells."""
    text = (ROOT / "schema" / "FORMAT.md").read_text("utf-8")
    table = re.search(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, heading
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()]
    return {first: others for first, *others in rows}


def list_level_sections() -> list[set[str]]:
    return [parse_sections(sections) for _, sections, _ in read_table("level").values()]


def list_feature_sections() -> dict[str, set[str]]:
    rows = read_table("feature").items()
    return {feature: parse_sections(row[0]) for names, row in rows for feature in re.findall(r"`([\w-]+)`", names)}


def test_each_feature_has_a_level_or_sections() -> None:
    text = (ROOT / "schema" / "FORMAT.md").read_text("utf-8")
    features = read_features()
    sections = list_feature_sections()
    assert sections.keys() == {name for name, (_, _, level, *_) in features.items() if level is None}
    for name, (section, *_) in features.items():
        assert parse_sections(section) & sections.get(name, set.union(*list_level_sections())), name
        assert f"`{name}`" in text or name == "core"


def test_each_section_is_in_a_level_or_a_feature_or_has_no_vectors() -> None:
    """A section without vectors is listed with the reason, unless its subsections have all of them."""
    used = {vector["section"] for vector in VECTORS}
    listed = set().union(*(parse_sections(row) for row in read_table("sections")))
    conforming = set().union(*list_level_sections(), *list_feature_sections().values())
    assert used & listed == set()
    for number in SECTIONS:
        below = {other for other in SECTIONS if other.startswith(f"{number}.")}
        assert number in used | listed or (below <= used | listed and below & used), number
        assert number in conforming | listed or (below and below <= conforming | listed), number


def test_no_vector_cites_a_section_outside_its_level_and_features() -> None:
    """Vectors for writers cite section 12 at every level."""
    levels = list_level_sections()
    features = list_feature_sections()
    outside = []
    for vector in VECTORS:
        allowed = set().union(*levels[: vector.get("level", 3) + 1])
        allowed |= set().union(*(features.get(name, set()) for name in vector.get("features", ())))
        if vector["kind"] == "encode":
            allowed = parse_sections("12")
        if vector["section"] not in allowed:
            outside.append((vector["name"], vector["section"]))
    assert outside == []
