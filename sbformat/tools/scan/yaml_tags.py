"""Find the YAML tags that name Python objects, without constructing anything (SCANNING.md 14.2).

``yaml.UnsafeLoader`` imports and calls what such a tag names, and rl_zoo3 loads the ``args.yml`` and ``config.yml`` of
an agent with it. In comes text, out come the tags that a loader would resolve. A regular expression over lines is not
enough: ``!!python/`` in a comment, a quoted scalar or a block scalar is not a tag, and a tag can be written without
these characters (by a ``%TAG`` directive, ``%70`` for ``p``, ``!<...>``).

The lexer follows PyYAML's scanner where that decides on the start of a token: indentation, flow level, and where a
simple key may start. It enforces fewer rules than PyYAML, never more, so it stops at the error at which PyYAML's
scanner stops, or later, and finds every tag that PyYAML finds. Example::

    a: !!python/name:os.system ''    # -> tag:yaml.org,2002:python/name:os.system, line 1
    b: "!!python/name:os.system"     # a quoted scalar
    c: |
      !!python/name:os.system        a block scalar: its lines are indented more than its key
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PREFIX: Final = "tag:yaml.org,2002:python/"
"""The beginning of resolved tags of Python objects."""
MAX_TOKENS: Final = 150_000

_WIDE: Final = {codecs.BOM_UTF16_LE: codecs.utf_16_le_decode, codecs.BOM_UTF16_BE: codecs.utf_16_be_decode}
"""Functions, because codecs by name are imported at their first use."""
_STANDARD: Final = {"!": "!", "!!": "tag:yaml.org,2002:"}
_BREAKS: Final = re.compile("\r\n|[\r\x85\u2028\u2029]")
_NOT_PRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LIKELY: Final = tuple(map(re.compile, (
    rb"!!python/", rb",2002:", rb"%TAG", rb"![!<][^\s\"!<]{0,100}%[0-9A-Fa-f]{2}",
)))  # fmt: skip
"""Every text with such a tag contains one of these: without a directive, an escape is close to the ``!``."""
_SPACE: Final = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:#[^\n]*)?")
_WORD: Final = r"[0-9A-Za-z_-]"
_URI: Final = r"(?:[0-9A-Za-z;/?:@&=+$,_.!~*'()\[\]-]|%[0-9A-Fa-f]{2})+"
_TAG: Final = re.compile(rf"!(?:<(?P<verbatim>{_URI})(?=>)|(?P<handle>{_WORD}*!)?(?P<suffix>{_URI}))")
_LONE_TAG: Final = re.compile(r"!(?=[ \t\n]|\Z)")
_TAG_DIRECTIVE: Final = re.compile(rf"%TAG +(?P<handle>!(?:{_WORD}*!)?) +(?P<prefix>{_URI})(?=[ \n]|\Z)[^\n]*\n?")
_DIRECTIVE: Final = re.compile(rf"%(?!TAG[ \n]){_WORD}+(?=[ \n]|\Z)[^\n]*\n?")
_NAME: Final = re.compile(rf"[&*]{_WORD}+(?=[ \t\n?:,\]}}%@`]|\Z)")
_MARKER: Final = re.compile(r"(?:---|\.\.\.)(?=[ \t\n]|\Z)")
_QUOTED: Final = {
    "'": re.compile(r"'[^']*(?:''[^']*)*'"),
    '"': re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL),
}
_PLAIN: Final = re.compile(r"(?:[^ \t\n:]+|:(?![ \t\n]|\Z))+")
_FLOW_PLAIN: Final = re.compile(r"(?:[^ \t\n:,?\[\]{}]+|:(?![ \t\n,\[\]{}]|\Z))+")
_BLOCK_HEADER: Final = re.compile(r"[|>](?:[+-]?(?P<one>[1-9])?|(?P<two>[1-9])[+-])(?=[ \n]|\Z) *(?:#[^\n]*)?(?:\n|\Z)")
_INDICATORS: Final = frozenset("-?:,[]{}#&*!|>'\"%@`")
_LONGEST_KEY: Final = 1024


class Tag(NamedTuple):
    """A tag of a document."""

    name: str
    """Resolved: ``tag:yaml.org,2002:python/tuple``."""
    line: int
    """The line of the tag, from 1."""


class TooManyTokensError(ValueError):
    """The text contains more tokens than are examined."""


def may_hold_tags(data: bytes | memoryview) -> bool:
    """Return whether a file can contain such a tag, much faster than by reading its tokens."""
    if bytes(data[:2]) in _WIDE:
        return True
    end = _find_end(data)
    return any(pattern.search(data, 0, end) for pattern in _LIKELY)


def _find_end(data: bytes | memoryview) -> int:
    """Return where the first control character is, which is an error to a YAML loader: it reads nothing beyond it."""
    control = _CONTROL.search(data)
    return control.start() if control else len(data)


def iter_python_tags(data: bytes | memoryview) -> Iterator[Tag]:
    """Yield the tags of Python objects that a YAML loader finds in a file, up to the first error in it.

    :param data: a file of any type
    :raises TooManyTokensError: for more than :data:`MAX_TOKENS`
    """
    wide = _WIDE.get(bytes(data[:2]))
    text = wide(data, "replace", True)[0] if wide is not None else str(data[: _find_end(data)], "utf-8", "replace")
    text = text.removeprefix("\ufeff")
    end = _NOT_PRINTABLE.search(text)
    text = _BREAKS.sub("\n", text[: end.start()] if end else text)
    yield from (tag for tag in _Lexer(text).iter_tags() if tag.name.startswith(PREFIX))


class _Key(NamedTuple):
    """The position of a token that is a key if a colon follows."""

    line: int
    at: int
    column: int


class _StopError(Exception):
    """No token can begin with the character at this position."""


class _Lexer:
    """Splits YAML into tokens, as far as is needed to distinguish tags from text.

    :param text: printable characters, with lines that end in LF
    """

    __slots__ = ("_at", "_handles", "_indent", "_indents", "_keys", "_level", "_line", "_may_start_key", "_pending",
                 "_start", "_text")  # fmt: skip

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._start = 0
        """Start of the line."""
        self._indent = -1
        self._indents: list[int] = []
        self._level = 0
        """Number of open brackets."""
        self._keys: dict[int, _Key] = {}
        self._may_start_key = True
        self._handles = dict(_STANDARD)
        self._pending: dict[str, str] = {}
        """Handles of ``%TAG`` directives, which apply to the next document."""

    def iter_tags(self) -> Iterator[Tag]:
        """Yield every tag with a known handle."""
        for _ in range(MAX_TOKENS):
            try:
                self._find_token()
                if self._at >= len(self._text):
                    return
                tag = self._take_token()
            except _StopError:
                return
            if tag is not None:
                yield tag
        raise TooManyTokensError

    # -- positions ------------------------------------------------------------------------------------

    @property
    def _column(self) -> int:
        return self._at - self._start

    def _move(self, to: int) -> None:
        breaks = self._text.count("\n", self._at, to)
        if breaks:
            self._line += breaks
            self._start = self._text.rfind("\n", self._at, to) + 1
        self._at = to

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _StopError
        self._move(found.end())
        return found

    def _find_token(self) -> None:
        line = self._line
        self._match(_SPACE)
        if self._line != line and not self._level:
            self._may_start_key = True
        if not self._level:
            self._unwind(self._column)

    def _unwind(self, column: int) -> None:
        while self._indent > column:
            self._indent = self._indents.pop()

    def _add_indent(self, column: int) -> None:
        if self._indent < column:
            self._indents.append(self._indent)
            self._indent = column

    def _save_key(self) -> None:
        if self._may_start_key:
            self._keys[self._level] = _Key(self._line, self._at, self._column)

    # -- tokens ---------------------------------------------------------------------------------------

    def _take_token(self) -> Tag | None:
        char, following = self._text[self._at], self._text[self._at + 1 : self._at + 2] or "\n"
        if not self._column and char in "%-." and self._take_mark(char):
            return None
        if char == "!":
            return self._take_tag()
        if char in _TAKE:
            _TAKE[char](self)
        elif char in "-?:" and (following in " \t\n" or (self._level and char != "-")):
            _TAKE_ENTRY[char](self)
        elif char in "|>" and not self._level:
            self._take_block()
        elif (char in _INDICATORS or char == "\t") and not (char == "-" or (char in "?:" and not self._level)):
            raise _StopError
        else:
            self._take_plain()
        return None

    def _take_mark(self, char: str) -> bool:
        """Take a directive, or a marker of the start or end of a document."""
        if char == "%":
            found = self._match(_TAG_DIRECTIVE if self._text.startswith("%TAG", self._at) else _DIRECTIVE)
            if "handle" in found.re.groupindex:
                self._pending[found["handle"]] = _unescape(found["prefix"])
        elif _MARKER.match(self._text, self._at) is None:
            return False
        else:
            self._move(self._at + 3)
            if char == "-":
                self._handles, self._pending = _STANDARD | self._pending, {}
        if self._level:
            raise _StopError
        self._unwind(-1)
        self._keys.clear()
        self._may_start_key = False
        return True

    def _take_tag(self) -> Tag | None:
        line = self._line
        self._save_key()
        self._may_start_key = False
        if _LONE_TAG.match(self._text, self._at):
            self._move(self._at + 1)
            return None
        found = self._match(_TAG)
        if found["verbatim"] is not None:
            self._move(self._at + 1)
            return Tag(_unescape(found["verbatim"]), line)
        handle = "!" + (found["handle"] or "")
        if handle not in self._handles:
            raise _StopError
        return Tag(self._handles[handle] + _unescape(found["suffix"]), line)

    def open_bracket(self) -> None:
        """Take an opening bracket."""
        self._save_key()
        self._level += 1
        self._may_start_key = True
        self._at += 1

    def close_bracket(self) -> None:
        """Take a closing bracket."""
        if not self._level:
            raise _StopError
        self._keys.pop(self._level, None)
        self._level -= 1
        self._may_start_key = False
        self._at += 1

    def take_comma(self) -> None:
        """Take a comma between brackets."""
        if not self._level:
            raise _StopError
        self._keys.pop(self._level, None)
        self._may_start_key = True
        self._at += 1

    def take_item(self) -> None:
        """Take the dash of a list item, or another indicator with the same rules."""
        if not self._level:
            if not self._may_start_key:
                raise _StopError
            self._add_indent(self._column)
        self._keys.pop(self._level, None)
        self._may_start_key = True
        self._at += 1

    def take_key(self) -> None:
        """Take the question mark of a complex key."""
        self.take_item()
        self._may_start_key = not self._level

    def take_value(self) -> None:
        """Take the colon after a key."""
        key = self._keys.pop(self._level, None)
        if key is not None and key.line == self._line and self._at - key.at <= _LONGEST_KEY:
            if not self._level:
                self._add_indent(key.column)
            self._may_start_key = False
            self._at += 1
        else:
            self.take_key()

    def take_name(self) -> None:
        """Take an anchor or an alias."""
        self._save_key()
        self._may_start_key = False
        self._match(_NAME)

    def take_quoted(self) -> None:
        """Take a quoted scalar."""
        self._save_key()
        self._may_start_key = False
        self._match(_QUOTED[self._text[self._at]])

    def _take_plain(self) -> None:
        """Take a plain scalar, which continues over lines that are indented more than its parent."""
        self._save_key()
        self._may_start_key = False
        least, text, pattern = self._indent + 1, self._text, _FLOW_PLAIN if self._level else _PLAIN
        while text[self._at : self._at + 1] != "#" and (found := pattern.match(text, self._at)):
            self._at = found.end()
            self._may_start_key = False
            at, line = self._at, self._line
            self._skip_spaces()
            if text[self._at : self._at + 1] == "\n":
                self._may_start_key = True
                while text[self._at : self._at + 1] == "\n":
                    self._move(self._at + 1)
                    if _MARKER.match(text, self._at):
                        return
                    self._skip_spaces()
            if self._at == at or (self._line != line and not self._level and self._column < least):
                return

    def _skip_spaces(self) -> None:
        while self._text[self._at : self._at + 1] == " ":
            self._at += 1

    def _take_block(self) -> None:
        """Take a block scalar, which ends at the first line that is indented less than its first line."""
        self._keys.pop(self._level, None)
        self._may_start_key = True
        found = self._match(_BLOCK_HEADER)
        least, increment = max(self._indent + 1, 1), found["one"] or found["two"]
        if increment:
            indent = least + int(increment) - 1
            self._skip_breaks(indent)
        else:
            deepest = 0
            while self._text[self._at : self._at + 1] in (" ", "\n"):
                self._skip_spaces()
                deepest = max(deepest, self._column)
                if self._text[self._at : self._at + 1] == "\n":
                    self._move(self._at + 1)
            indent = max(least, deepest)
        while self._column == indent and self._at < len(self._text):
            end = self._text.find("\n", self._at)
            self._move(len(self._text) if end < 0 else end + 1)
            self._skip_breaks(indent)

    def _skip_breaks(self, indent: int) -> None:
        while True:
            while self._column < indent and self._text[self._at : self._at + 1] == " ":
                self._at += 1
            if self._text[self._at : self._at + 1] != "\n":
                return
            self._move(self._at + 1)


_TAKE: Final[dict[str, Callable[[_Lexer], None]]] = {
    "[": _Lexer.open_bracket,
    "{": _Lexer.open_bracket,
    "]": _Lexer.close_bracket,
    "}": _Lexer.close_bracket,
    ",": _Lexer.take_comma,
    "&": _Lexer.take_name,
    "*": _Lexer.take_name,
    "'": _Lexer.take_quoted,
    '"': _Lexer.take_quoted,
}
_TAKE_ENTRY: Final[dict[str, Callable[[_Lexer], None]]] = {
    "-": _Lexer.take_item,
    "?": _Lexer.take_key,
    ":": _Lexer.take_value,
}


def _unescape(text: str) -> str:
    """Return a URI with its escapes decoded: ``%70`` is ``p``."""
    if "%" not in text:
        return text
    return re.sub("(?:%..)+", lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), text)
