"""Patterns of names: ``*`` is anything without a slash, ``**`` any folders, ``?`` a character, ``[abc]`` one of these.

Upper and lower case differ, and folders are separated by slashes, on every system.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MARKS: Final = "[*?[]"
_ONE: Final = "[^/]"


def has_marks(text: str) -> bool:
    """Return whether a text has characters that mean something in a pattern."""
    return find_start(text) != text


def find_start(text: str) -> str:
    """Return what is before the first character of a pattern that means something."""
    return re.split(_MARKS, text, maxsplit=1)[0]


def translate_pattern(text: str, *, question: str = _ONE) -> str:
    """Return a pattern of paths as a regular expression, which Python may refuse: ``[z-a]``.

    :param question: what ``?`` is; in a URL it is itself
    """
    *folders, last = text.split("/")
    parts = ["(?:[^/]+/)*" if part == "**" else f"{_translate(part, question)}/" for part in folders]
    parts.append(".+" if last == "**" else _translate(last, question))
    return "".join(parts)


def _translate(part: str, question: str) -> str:
    """Return the regular expression of what is between two slashes, which is never empty."""
    made = f"(?={_ONE})"
    for found in re.finditer(r"(?s)(?P<any>\*+)|\[(?P<not>!?)(?P<set>\]?[^\]]*)\]|.", part):
        if found["any"]:
            made += f"{_ONE}*"
        elif found["set"] is None:
            made += question if found[0] == "?" else re.escape(found[0])
        else:
            ranges = re.findall(r"(?s)(.)(?:-(.))?", found["set"])
            characters = (re.escape(first) + (f"-{re.escape(last)}" if last else "") for first, last in ranges)
            made += f"[{'^/' if found['not'] else ''}{''.join(characters)}]"
    return made


class Exclusion:
    """The files and folders that ``--exclude`` leaves out of a folder, by their paths below it.

    A pattern without a slash is compared with the name of each file and folder, at any depth. One with a slash is
    compared with the path from the top. One that ends with a slash matches folders only. A folder that matches is left
    out with everything below it.

    >>> Exclusion(["old/", "runs/*.tmp"]).covers("runs/old/a.zip")
    True

    :raises ValueError: for a pattern that is none
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = {text: re.compile(f"(?s:{self._translate(text)})") for text in patterns}
        self._unmatched, self._is_used = list(self._patterns), False

    @staticmethod
    def _translate(text: str) -> str:
        text = re.sub("/+", "/", text)
        path = text.removeprefix("./").strip("/")
        try:
            re.compile(translate_pattern(path))
        except re.error:
            path = ""
        if not path:
            message = f"expected a pattern such as *.tmp, old/ or runs/**/checkpoints, got {text}"
            raise ValueError(message)
        start = "" if "/" in text.rstrip("/") else "(?:.*/)?"
        return f"{start}{translate_pattern(path)}{'/.*' if text.endswith('/') else '(?:/.*)?'}"

    def covers(self, name: str) -> bool:
        """Return whether a file or folder is left out.

        :param name: its path below the folder, with slashes; of a folder with one at its end
        """
        if not name or not self._patterns:
            return False
        self._is_used = True
        matched = {text for text, pattern in self._patterns.items() if pattern.fullmatch(name)}
        if matched:
            self._unmatched = [text for text in self._unmatched if text not in matched]
        return bool(matched)

    @property
    def unmatched(self) -> list[str]:
        """The patterns that matched none of the names that were compared; none if there were no names."""
        return self._unmatched if self._is_used else []


NOTHING: Final = Exclusion()
"""Leaves nothing out."""
