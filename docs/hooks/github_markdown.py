"""What GitHub and Python-Markdown, which renders the site, read differently: lists.

GitHub follows CommonMark: a list may follow a paragraph without an empty line, and what belongs to an item is indented
as far as the item's text. Python-Markdown needs an empty line, and four spaces for each level::

    Three rules:                    Three rules:

    1. one                          1. one
       - nested               ->
                                        - nested
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_FENCE: Final = re.compile(r"^(\s*)(`{3,}|~{3,})")
_ITEM: Final = re.compile(r"^( *)([-*+]|\d{1,9}[.)])( +)(?=\S)")
_INDENT: Final = 4
_FIRST: Final = ("-", "*", "+", "1.", "1)")
"""The markers of lists that may follow a paragraph without an empty line."""


def map_text(markdown: str, function: Callable[[str], str]) -> str:
    """Apply a function to each line that is not within a fenced block."""
    lines, fence = [], ""
    for line in markdown.split("\n"):
        found = _FENCE.match(line)
        is_text = not fence and found is None
        if found is not None and not fence:
            fence = found[2]
        elif fence and found is not None and line.strip() == fence:
            fence = ""
        lines.append(function(line) if is_text else line)
    return "\n".join(lines)


def normalize_lists(markdown: str) -> str:
    """Indent the content of list items by four spaces for each level, and put an empty line before each list."""
    lines: list[str] = []
    columns: list[int] = []  # where the text of each open item begins
    fence = ""
    for line in markdown.split("\n"):
        marker = _FENCE.match(line)
        follows_text = bool(lines) and bool(lines[-1].strip())
        if fence:
            fence = "" if marker is not None and line.strip() == fence else fence
            lines.append(_shift(line, columns))
            continue
        item = _ITEM.match(line)
        if item is not None and follows_text and not columns and item[2] not in _FIRST:
            item = None  # a number at the start of a line of a paragraph
        if line.strip() and (item is not None or marker is not None or not follows_text):
            columns = [column for column in columns if column <= _measure_indent(line)]
        fence = marker[2] if marker is not None else ""
        if item is not None and follows_text and _is_paragraph(lines[-1], len(columns)):
            lines.append("")
        lines.append(_shift(line, columns))
        if item is not None:
            columns.append(item.end())
    return "\n".join(lines)


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_paragraph(line: str, depth: int) -> bool:
    """Whether a line, already shifted, is text that would continue into a list of this depth."""
    return _ITEM.match(line) is None and _measure_indent(line) <= _INDENT * depth


def _shift(line: str, columns: list[int]) -> str:
    """Replace the indentation that the open items need by four spaces for each of them."""
    if not columns or not line.strip():
        return line
    return " " * (_INDENT * len(columns) + max(_measure_indent(line) - columns[-1], 0)) + line.lstrip(" ")
