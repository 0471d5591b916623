"""Tables of Unicode for FORMAT.md 2.6, from ``unicodedata`` of the interpreter that runs ``generate_tables.py``.

Rows map a character to one or more characters. A row with a count is a run: the first character and each that follows
it at the given step are mapped to a character at the same distance.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]

VERSION: Final = "14.0.0"
"""The version that the tables have: that of CPython 3.11, in which they are generated."""
HANGUL: Final = range(0xAC00, 0xD7A4)
"""Syllables, which are composed by arithmetic."""
_STEPS: Final = (1, 2)


def write_points(text: str) -> str:
    """Return a text as code points: ``U+0073 U+0073``."""
    return " ".join(f"U+{ord(character):04X}" for character in text)


def all_characters() -> Iterator[str]:
    """Yield every character except surrogates, which no name contains, and Hangul syllables."""
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code <= 0xDFFF and code not in HANGUL:
            yield chr(code)


@cache
def list_case_folding() -> list[Row]:
    """Return the rows of full case folding."""
    return compress({character: character.casefold() for character in all_characters()})


@cache
def list_nfkc() -> list[Row]:
    """Return the rows of NFKC: what characters are decomposed to, combining classes, and pairs that are composed."""
    decomposed = compress({character: unicodedata.normalize("NFKD", character) for character in all_characters()})
    return [{"kind": kind, **row} for kind, rows in (
        ("decomposition", decomposed), ("class", _classes()), ("composition", _compositions()),
    ) for row in rows]  # fmt: skip


def _compositions() -> list[Row]:
    """Return the pairs that are composed: canonical decompositions that NFC keeps composed."""
    rows = []
    for character in all_characters():
        mapping = unicodedata.decomposition(character)
        parts = "".join(chr(int(part, 16)) for part in mapping.split()) if mapping and mapping[0] != "<" else ""
        if len(parts) == 2 and unicodedata.normalize("NFC", character) == character:
            rows.append({"from": write_points(parts), "to": write_points(character)})
    return rows


def _classes() -> list[Row]:
    """Return the ranges of characters that have one combining class, without class 0."""
    rows: list[Row] = []
    last = (-1, 0)
    for character in all_characters():
        combining = unicodedata.combining(character)
        if combining and (ord(character) - 1, combining) == last:
            rows[-1]["count"] += 1
        elif combining:
            rows.append({"from": write_points(character), "count": 1, "class": combining})
        last = (ord(character), combining)
    return rows


def compress(mapping: dict[str, str]) -> list[Row]:
    """Return the rows of a mapping: runs of single characters, and the others, in the order of the characters."""
    single = {ord(a): ord(b) for a, b in mapping.items() if len(b) == 1 and a != b}
    rows = {ord(a): {"from": write_points(a), "to": write_points(b)} for a, b in mapping.items() if len(b) > 1}
    while single:
        first = next(iter(single))
        count, step = max((_run(single, first, step), -step) for step in _STEPS)
        codes = range(first, first + count * -step, -step)
        row: Row = {"from": write_points(chr(first)), "to": write_points(chr(single[first]))}
        rows[first] = {**row, "count": count, "step": -step} if count > 1 else row
        for code in codes:
            del single[code]
    return [rows[first] for first in sorted(rows)]


def _run(single: dict[int, int], first: int, step: int) -> int:
    """Return how many characters from the first one on are mapped to characters at its distance."""
    distance = single[first] - first
    count = 1
    while single.get(first + count * step) == first + count * step + distance:
        count += 1
    return count
