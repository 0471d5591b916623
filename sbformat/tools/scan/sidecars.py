"""Judge files next to an archive that run code: YAML with Python tags, and scripts (SCANNING.md 14.2).

rl_zoo3 loads ``args.yml`` and ``config.yml`` with ``yaml.UnsafeLoader``, which imports and calls what a tag names.
Whether ``!!python/name:os.system`` is a tag or part of a text depends on the grammar, and on the encoding that the
reader chooses: the bytes C2 85 end a comment in UTF-8, and do not in Windows-1252. So nothing is parsed: whatever is
spelled as a tag counts as one, anywhere in a file of any type and size, also in a comment or a quoted text.

A tag consists of ASCII characters, which are the same bytes in every encoding that is looked for, with up to three
zeros between them in UTF-16 and UTF-32. It is an *opening*, which stands for a *prefix*, and a *suffix*; the prefix in
a directive and the suffix may be escaped::

    !!%70ython/name:os.system                            !!    tag:yaml.org,2002:
    !<tag:yaml.org,2002:python/name:os.system>           !<    (nothing)
    %TAG !e! tag:yaml.org,2002:py
    --- !e!thon/name:os.system                           !e!   tag:yaml.org,2002:py

A directive adds an opening for the rest of the file, although YAML limits it to a document. The file is examined in
pieces, each with the end of the one before it. One regular expression finds the openings, each with what its prefix
lacks of :data:`NAMESPACE`. Nothing in it is repeated that contains a repetition, so time is linear and memory constant.

Sources: rl_zoo3 ``exp_manager.py`` (``_save_config``), ``utils.py``; PyYAML ``constructor.py``.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Final

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.io.source import iter_views
from sbformat.known.dangerous import explain_danger
from sbformat.known.table import find
from sbformat.tools.scan.findings import SHOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sbformat.io.source import Source
    from sbformat.tools.scan.findings import Finding, Location


NAMESPACE: Final = "tag:yaml.org,2002:python/"
"""The beginning of the tags of Python objects."""
MAX_OPENINGS: Final = 8
LONGEST: Final = 1024
"""Bytes of a suffix, and of each part of a directive, that are examined; no name that sbformat knows needs as many."""

_OVERLAP: Final = 8 * LONGEST
"""Bytes at the end of a piece that are examined with the next one; longer than a directive, an opening and a suffix."""
_MOST_SEEN: Final = 1000  # tags and directives that are remembered, so that they are examined once
_ZEROS: Final = r"\0{0,3}"
_URI: Final = r"#-;=?-Z_a-z~\[\]\0"
"""Characters of a tag, and of ruamel.yaml's, but not ``!``, which may begin another tag; and the zeros."""
_DIRECTIVE: Final = re.compile(
    rf"{_ZEROS.join('%TAG')}(?=(?P<rest>[ \t\0]{{1,{LONGEST}}}"
    rf"(?:(?P<handle>![\w\0-]{{0,{LONGEST}}}!?)[ \t\0]{{0,{LONGEST}}}(?P<prefix>[{_URI}!]{{0,{LONGEST}}}))?))".encode()
)
"""What follows is looked at and not taken: in UTF-16, the end of a comment can look like a part of a directive, after
which the real one stands."""
_MOST_DIRECTIVES: Final = 500
_TOO_LONG: Final = ("", "")
_AFTER_PREFIX: Final = "()"
"""First bytes of the line ends U+2028 and U+2029 in UTF-16 with the least significant byte first."""
_CONTROL: Final = re.compile(r"[\x01-\x08\x0b\x0c\x10-\x1a\x1c-\x1f\x7f]")
"""Control characters that no loader accepts and no encoding uses (ISO 2022: ESC, SO, SI)."""
_CHECKED_BYTES: Final = 4096
_ENCODINGS: Final = (
    (re.compile(rb"\0\0\xfe\xff|\0\0\0.", re.DOTALL), codecs.utf_32_be_decode),
    (re.compile(rb"\xff\xfe\0\0|.\0\0\0", re.DOTALL), codecs.utf_32_le_decode),
    (re.compile(rb"\xfe\xff|\0.", re.DOTALL), codecs.utf_16_be_decode),
    (re.compile(rb"\xff\xfe|.\0", re.DOTALL), codecs.utf_16_le_decode),
    (re.compile(rb""), codecs.latin_1_decode),
)
"""How a file starts (YAML 1.2.2, 5.2), and its decoder: a function, because codecs by name are imported when used. Only
the number of a line depends on it, and whether a large file is searched."""


class Tag(Record):
    """A place in a text that may be a tag of a Python object."""

    name: str
    """What follows :data:`NAMESPACE`, decoded: ``name:os.system``. Empty: a directive that is too long or one too many,
    so that its tags are not looked for."""
    line: int


REPEATED: Final = Tag("", 0)


def contains_tags(source: Source) -> bool:
    """Return whether there is a tag in a file, unless a loader refuses its first bytes: they have control characters.

    Source: PyYAML ``reader.py`` (``check_printable``, of 4,096 characters at a time).
    """
    head = bytes(source.view(0, min(source.size, _CHECKED_BYTES)))
    text = _choose_decoder(head)(head, "replace")[0]
    return _CONTROL.search(text) is None and any(True for _ in iter_python_tags(source))


def iter_python_tags(source: Source) -> Iterator[Tag]:
    """Yield whatever may be a tag of a Python object, and ``REPEATED`` for each that is spelled like an earlier one."""
    openings = [*_OPENINGS]
    pairs: set[tuple[str, str]] = set()
    finder, lines, seen = _FINDER, _Lines(source), set[bytes]()
    data, read, is_cut, directives = memoryview(b""), 0, False, 0
    for piece in iter_views(source, 0, source.size):
        data = memoryview(bytes(data[-_OVERLAP:]) + piece) if read else piece
        read += len(piece)
        end = len(data) if read == source.size else len(data) - _OVERLAP
        for directive in _DIRECTIVE.finditer(data):
            if directive.start() >= end or is_cut:
                break
            directives += 1
            pair = _TOO_LONG if directives > _MOST_DIRECTIVES else _read_directive(directive)
            if pair is None or pair in pairs:
                continue
            pairs.add(pair)
            if pair == _TOO_LONG or len(openings) == MAX_OPENINGS:
                from copy import copy

                is_cut = True
                yield Tag("", copy(lines).count_to(directive.start(), data))
            else:
                openings.append(_Opening(*pair))
                openings.sort(key=lambda opening: -len(opening.text))
                finder = _compile_finder(openings)
                seen.clear()
        for found in finder.finditer(data):
            if found.start() >= end:
                break
            is_followed = bytes(data[found.end() : found.end() + 1]) == b"!"
            text = found[0] + b"!" * is_followed
            if text in seen:
                yield REPEATED
                continue
            if len(seen) < _MOST_SEEN:
                seen.add(text)
            for name in filter(None, (opening.read_name(text) for opening in openings)):
                yield Tag(name, lines.count_to(found.start(), data))
        if read < source.size:
            lines.end_piece(end, data)


class _Opening:
    """The first characters of a tag.

    :param text: ``!!``, ``!<``, or the handle of a directive
    :param prefix: what it stands for, decoded
    """

    __slots__ = ("_regex", "_start", "pattern", "text")

    def __init__(self, text: str, prefix: str) -> None:
        self.text = text
        parts = [re.escape(char) for char in text]
        for char in NAMESPACE[len(prefix) :]:
            digits = (f"[{digit}{digit.upper()}]" for digit in f"{ord(char):02x}")
            parts.append(f"(?:{re.escape(char)}|{_ZEROS.join(('%', *digits))})")
        first = f"{_URI}!" if prefix.startswith(NAMESPACE) else _URI
        self.pattern = f"{_ZEROS.join(parts)}({_ZEROS}[{first}][{_URI}]{{0,{LONGEST - 1}}})"
        """An expression for the opening, what the prefix lacks of the namespace, and the rest of the suffix."""
        self._regex = re.compile(self.pattern.encode())
        self._start = prefix[len(NAMESPACE) :]

    def read_name(self, text: bytes) -> str:
        """Return what follows the namespace in a tag and the character after it; empty if it has another opening."""
        found = self._regex.match(text)
        if found is None or not (suffix := _decode(found[1])):
            return ""
        return self._start + _unquote(suffix) + ("!" if text.startswith(b"!", found.end()) else "")


def _compile_finder(openings: Iterable[_Opening]) -> re.Pattern[bytes]:
    """Return an expression for all openings, the longest first: what it finds contains the tags of shorter ones."""
    return re.compile("|".join(opening.pattern for opening in openings).encode())


def _unquote(text: str) -> str:
    from urllib.parse import unquote

    return unquote(text)


_OPENINGS: Final = (_Opening("!!", "tag:yaml.org,2002:"), _Opening("!<", ""))
"""The openings of a file without a directive."""
_FINDER: Final = _compile_finder(_OPENINGS)


def _read_directive(found: re.Match[bytes]) -> tuple[str, str] | None:
    """Return the handle and the prefix of a directive whose tags may name Python objects; None for others."""
    if len(found["rest"]) >= LONGEST:
        return _TOO_LONG
    prefix = _unquote(_decode(found["prefix"] or b"")).rstrip(_AFTER_PREFIX)
    is_python = prefix and (prefix.startswith(NAMESPACE) or NAMESPACE.startswith(prefix))
    return (_decode(found["handle"]), prefix) if is_python else None


def _decode(text: bytes) -> str:
    return text.replace(b"\0", b"").decode("ascii")


def _choose_decoder(head: bytes) -> Callable[[bytes | memoryview, str], tuple[str, int]]:
    return next(decode for pattern, decode in _ENCODINGS if pattern.match(head))


class _Lines:
    """Counts the lines of a file that is read in pieces."""

    def __init__(self, source: Source) -> None:
        self._decode = _choose_decoder(bytes(source.view(0, min(source.size, 4))))
        self._at = 0
        self._number = 1
        self._is_after_cr = False

    def count_to(self, at: int, data: memoryview) -> int:
        """Return the line of a position in a piece, which is not before the last one."""
        text, size = self._decode(data[self._at : at], "replace")
        self._number += text.count("\n") + text.count("\r") - text.count("\r\n")
        self._number -= self._is_after_cr and text.startswith("\n")
        self._is_after_cr = text.endswith("\r") if text else self._is_after_cr
        self._at += size
        return self._number

    def end_piece(self, end: int, data: memoryview) -> None:
        """Count up to the position in a piece where the next one starts."""
        self.count_to(end, data)
        self._at -= end


_PLAIN: Final = frozenset({
    "none", "bool", "str", "unicode", "bytes", "int", "long", "float", "complex", "list", "tuple", "dict",
})  # fmt: skip
"""Tags of values that PyYAML creates from the text alone."""
_IMPORTS: Final = {"name": "is imported", "module": "is imported as a module"}
_CALLS: Final = {"object/apply": "is called", "object/new": "is called", "object": "is the class of an object"}
_NAMED: Final = ("torch.nn.", "torch.optim.")
"""Where classes are that may be named. Others may not, also if importing them is harmless: an ``OrderedDict`` is given
its attributes first, and then its attribute ``extend`` is called, which the text can have set to any name."""
_AFTER_TAG: Final = ",:;?'()[]"
"""Characters that follow a tag in a text. No name ends with them, so a loader fails if they are part of the tag."""

_SCRIPT_SUFFIXES: Final = (
    ".py", ".pyw", ".pyc", ".pyo", ".pyx", ".ipynb", ".so", ".pyd", ".dll", ".dylib", ".exe", ".sh", ".bash", ".zsh",
    ".fish", ".ksh", ".csh", ".bat", ".cmd", ".ps1", ".jar",
)  # fmt: skip
_SCRIPT_HEADS: Final = (
    b"#!", b"\x7fELF", b"MZ", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)  # fmt: skip
"""First bytes of scripts, and of programs for Linux, Windows and macOS."""


_SETTINGS_SUFFIXES: Final = (".yml", ".yaml", ".json")


def is_settings(name: str) -> bool:
    """Return whether a file is one of settings by its name: being a text is not a finding of such a file."""
    return name.lower().endswith(_SETTINGS_SUFFIXES)


def is_script(name: str, head: bytes) -> bool:
    """Return whether a file is a script or program, which is listed and not judged."""
    return head.startswith(_SCRIPT_HEADS) or name.lower().endswith(_SCRIPT_SUFFIXES)


def judge_tag(tag: Tag, location: Location, allow: frozenset[str]) -> Finding | None:
    """Judge a YAML tag by what ``yaml.UnsafeLoader`` does with it; None for one that is known."""
    tail = tag.name.rstrip(_AFTER_TAG)
    kind, colon, name = tail.partition(":")
    module, _, last = name.rpartition(".")
    pair, line = (module or "builtins", last), tag.line  # as PyYAML splits it
    if not tag.name:
        message = f"the %TAG directive in line {line} may name Python objects, and its tags were not examined"
        return location.finding("python-tag", message, line=line)
    if not colon or kind not in (*_IMPORTS, *_CALLS):
        if tail in _PLAIN:
            return None
        message = f"a YAML tag in line {line} creates a Python object in a way that sbformat does not know"
        return location.finding("python-tag", message, names=(tail,), line=line)
    is_called = kind in _CALLS
    row = find(("builtins", last) if module == "__builtin__" else pair)
    only_stores = "plain type" in row.uses or row.role == "ordered_dict"  # rl_zoo3 writes OrderedDict everywhere
    is_class_of_torch = kind == "name" and name.startswith(_NAMED) and find(pair).is_known
    if name in allow or (is_called and only_stores) or is_class_of_torch:
        return None
    why = explain_danger((name, "") if kind == "module" else pair)
    more = f", which imports {escape(pair[0], SHOWN)}" if module or is_called else ""
    more = f": it {why}" if why else more
    message = f"{escape(name, SHOWN)} {(_IMPORTS | _CALLS)[kind]} by a YAML tag in line {line}{more}"
    return location.finding("python-tag", message, names=(name,), reason="harmful" if why else None, line=line)
