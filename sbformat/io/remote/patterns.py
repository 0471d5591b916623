"""Patterns of names: ``*`` is anything without a slash, ``**`` any folders, ``[abc]`` one of these characters.

>>> compile_pattern("**/best*.zip").fullmatch("runs/ppo/best_model.zip") is not None
True
"""

from __future__ import annotations

import re
from typing import Final

from sbformat.errors import UnsupportedError, quote

_ANY_FOLDERS: Final = "**"
_SET: Final = re.compile(r"\[(?P<not>!?)(?P<set>\]?[^\]]*)\]")


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern.

    :raises UnsupportedError: for a set of characters that is not one, such as ``[z-a]``
    """
    *folders, last = text.split("/")
    parts = ["(?:[^/]+/)*" if part == _ANY_FOLDERS else f"{_translate(part)}/" for part in folders]
    parts.append(".+" if last == _ANY_FOLDERS else _translate(last))
    try:
        return re.compile(f"(?s:{''.join(parts)})\\Z")
    except re.error:
        message = f"expected a pattern such as *.zip or runs/[a-c]*, got {quote(text)}"
        raise UnsupportedError(message) from None


def _translate(part: str) -> str:
    """Return the regular expression of what is between two slashes."""
    made = []
    at = 0
    while at < len(part):
        found = _SET.match(part, at)
        if part[at] == "*":
            made.append("[^/]*")
            while part[at : at + 1] == "*":
                at += 1
        elif found is not None:
            made.append(f"[{'^/' if found['not'] else ''}{_translate_set(found['set'])}]")
            at = found.end()
        else:
            made.append(re.escape(part[at]))
            at += 1
    return "".join(made)


def _translate_set(text: str) -> str:
    """Return characters and ranges of characters as a set of a regular expression has them."""
    made = []
    at = 0
    while at < len(text):
        first, is_range = re.escape(text[at]), text[at + 1 : at + 2] == "-" and at + 2 < len(text)
        made.append(f"{first}-{re.escape(text[at + 2])}" if is_range else first)
        at += 3 if is_range else 1
    return "".join(made)


__all__ = ["compile_pattern"]
