"""The entry ``data``: JSON as a dict of JSON values and opaque ``Serialized``, and back (FORMAT.md 3, WRITER.md 12.4).

This is the only JSON parser of the package: headers of ``.safetensors`` and the settings of bundles are read by
:func:`parse_object`. Bytes, depth, values and digits are counted before the text is parsed. NaN, Infinity and lone
surrogates are accepted, because SB3's ``json.dumps`` can write them. Blobs are not decoded here.
"""

from __future__ import annotations

import binascii
import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.constants import SERIALIZED_MARKER, TYPE_MARKER
from sbformat.errors import DataError, quote
from sbformat.immutable import FrozenDict, freeze
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONTAINER_COST: Final = 7
VALUE_BYTES: Final = 96
"""Memory of one value in bytes, without its text, rounded up; so are the next ones."""
PAIR_BYTES: Final = 200
CONTAINER_BYTES: Final = 300
_ESCAPE_BYTES: Final = 72  # needed only until the string with the escape is complete
_PIECE: Final = 1 << 16
_DIGITS: Final = b"0123456789"
_FOUR_BYTES: Final = 0xF0  # the lowest first byte of UTF-8 for U+10000 and above; the next one, for U+0100 and above
_TWO_BYTES: Final = 0xC4
_BOM: Final = b"\xef\xbb\xbf"
_INDENT: Final = 4
_LARGEST_WALK: Final = 10_000_000  # most values of one key that are written: a list that contains itself has no end
_DEEPEST: Final = 500
"""Levels of a value that is written. Python's encoder keeps the indentation of each level, which takes memory that
grows with the square of the depth; until 3.13 it refuses 1,000 levels."""


class Serialized:
    """A value that SB3 pickled: the pair ``:type:`` and ``:serialized:``, not decoded (FORMAT.md 3.2).

    >>> archive.data["observation_space"]
    <Serialized "<class 'gymnasium.spaces.box.Box'>" 508 bytes>

    :param type: the text of ``:type:``, such as ``<class 'gymnasium.spaces.box.Box'>``; None if missing
    :param pickle: the bytes that SB3 would unpickle
    :param hints: the other keys of the object, informative only, as JSON values
    :param text: the base64 text of the file; None for the canonical base64 of ``pickle``
    """

    __slots__ = ("hints", "pickle", "text", "type")

    type: str | None
    pickle: bytes
    hints: Mapping[str, Any]
    text: str

    def __init__(
        self,
        type: str | None,  # noqa: A002 -- SB3's own word
        pickle: bytes,
        hints: Mapping[str, Any] | None = None,
        *,
        text: str | None = None,
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "type", type)
        set_field(self, "pickle", pickle)
        set_field(self, "hints", freeze(dict(hints or {})))
        set_field(self, "text", _canonical(pickle) if text is None else text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Serialized cannot be changed; make a new one instead of setting {name}")

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    @property
    def is_canonical(self) -> bool:
        """Whether the base64 text is what an encoder writes; a lenient decoder accepts more."""
        return self.text == _canonical(self.pickle)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Serialized):
            return NotImplemented
        return (self.type, self.pickle) == (other.type, other.pickle) and equal_json(self.hints, other.hints)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Serialized {quote(self.type or 'without type', 80)} {len(self.pickle)} bytes>"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Serialized, text=self.text), (self.type, self.pickle, dict(self.hints))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the file."""
        marker = {} if self.type is None else {TYPE_MARKER: self.type}
        return {**marker, SERIALIZED_MARKER: self.text, **self.hints}


def _canonical(pickle: bytes) -> str:
    return binascii.b2a_base64(pickle, newline=False).decode("ascii")


def loads(data: bytes | bytearray | memoryview, *, limits: Limits = DEFAULT_LIMITS) -> FrozenDict:
    """Parse the bytes of ``data``.

    :param data: UTF-8 JSON without a byte order mark; an object
    :param limits: the largest sizes and counts to accept
    :return: its keys in order, immutable; objects with ``:serialized:`` become :class:`Serialized`, at the top level
        only, as in SB3
    """
    return decode(data, Budget(limits))


def decode(data: bytes | bytearray | memoryview, budget: Budget) -> FrozenDict:
    """Parse ``data`` like :func:`loads`, within the budget of an operation."""
    try:
        return FrozenDict({key: _decode_value(key, item, budget) for key, item in parse_object(data, budget).items()})
    except RecursionError:
        _refuse("expected less nesting: this interpreter cannot follow it")


def parse_object(data: bytes | bytearray | memoryview, budget: Budget) -> dict[str, Any]:
    """Parse a JSON object, strictly, like :func:`parse`."""
    value = parse(data, budget)
    if type(value) is not dict:
        _refuse("expected a JSON object, got another JSON value")
    return value


def parse(data: bytes | bytearray | memoryview, budget: Budget) -> Any:
    """Parse any JSON value by the rules of FORMAT.md 3.1."""
    budget.spend("json_bytes", len(data))
    view = memoryview(data)
    if bytes(view[:3]) == _BOM:
        _refuse("expected JSON, got a byte order mark", 0)
    deepest = check_counts(view, budget)
    try:
        text = str(view, "utf-8")
    except UnicodeDecodeError as error:
        _refuse(f"expected UTF-8: {error.reason}", error.start)
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        _refuse(f"expected JSON: {error.msg}", len(text[: error.pos].encode("utf-8")))
    except DataError:
        raise
    except RecursionError:
        _refuse(f"expected less nesting, got {deepest} levels, more than this interpreter can parse")
    except ValueError as error:  # a number that the interpreter's own cap on digits refuses
        _refuse(f"expected JSON that Python can parse: {error}")


def _refuse(message: str, offset: int | None = None) -> NoReturn:
    raise DataError(message, offset=offset)


def check_counts(data: memoryview, budget: Budget) -> int:
    """Count depth, values, digits and memory before anything is parsed, in linear time; return the depth."""
    allowed = budget.limits.json_digits
    counts = _Counts()
    for piece in _pieces(data):
        counts.add(piece, allowed)
    budget.spend("json_nodes", 1 + counts.commas + CONTAINER_COST * counts.containers)
    budget.spend("json_depth", counts.deepest)
    budget.spend("json_digits", max(counts.longest, counts.digits))
    text = counts.width * len(data)
    values = VALUE_BYTES * counts.commas + PAIR_BYTES * counts.colons + CONTAINER_BYTES * counts.containers
    budget.keep(text + values, meanwhile=text + _ESCAPE_BYTES * counts.escapes)
    budget.work(values)
    return counts.deepest


def _pieces(data: memoryview) -> Iterator[bytes]:
    """Yield the text in pieces; an escape is never split between two of them."""
    at = 0
    while at < len(data):
        piece = bytes(data[at : at + _PIECE])
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = bytes(data[at : at + _PIECE + 1])
        yield piece
        at += len(piece)


class _Counts:
    """Running counts over a JSON text."""

    def __init__(self) -> None:
        self.commas = self.colons = self.containers = self.escapes = 0
        self.depth = self.deepest = 0
        self.longest = self.digits = 0
        """Digits of the longest number, and of the number at the end of the last piece."""
        self.in_string = False
        self.width = 1
        """Bytes per character of the decoded text."""

    def add(self, piece: bytes, digits_allowed: int) -> None:
        """Count the next piece: without escapes, every second part between quotation marks is outside strings."""
        if not piece.isascii():  # Python stores each character as wide as the widest one
            highest = max(piece)
            self.width = max(self.width, 4 if highest >= _FOUR_BYTES else 2 if highest >= _TWO_BYTES else 1)
        if b"\\" in piece:
            self.escapes += piece.count(b"\\")
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[self.in_string :: 2])
        self.in_string ^= len(parts) % 2 == 0
        self.commas += outside.count(b",")
        self.colons += outside.count(b":")
        self.containers += outside.count(b"[") + outside.count(b"{")
        for bracket in re.findall(rb"[\[\]{}]", outside):
            self.depth += 1 if bracket in b"[{" else -1
            self.deepest = max(self.deepest, self.depth)
        rest = outside.lstrip(_DIGITS)
        self.digits += len(outside) - len(rest)
        if rest:
            is_long = len(rest) > digits_allowed
            runs = re.findall(b"(?<![0-9])[0-9]{%d,}" % (digits_allowed + 1), rest) if is_long else ()
            self.longest = max(self.longest, self.digits, *map(len, runs))
            self.digits = len(rest) - len(rest.rstrip(_DIGITS))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        _refuse(f"expected unique keys in an object, got {quote(twice)} twice")
    return made


def _decode_value(key: str, item: Any, budget: Budget) -> Any:
    if type(item) is not dict or SERIALIZED_MARKER not in item:
        return freeze(item)
    text, type_ = item[SERIALIZED_MARKER], item.get(TYPE_MARKER)
    if type(text) is not str or not (type_ is None or type(type_) is str):
        _refuse(f"{quote(key)}: expected strings as {SERIALIZED_MARKER} and {TYPE_MARKER}")
    budget.spend("blob_bytes", len(text) * 3 // 4)
    budget.spend("blobs_bytes", len(text) * 3 // 4)
    budget.keep(len(text) * 3 // 4, meanwhile=len(text))
    try:
        pickle = binascii.a2b_base64(text.encode("utf-8"))  # as lenient as the decoder that SB3 calls
    except (binascii.Error, UnicodeEncodeError) as error:
        _refuse(f"{quote(key)}: {SERIALIZED_MARKER} is not base64: {str(error)[:80]}")
    hints = {name: hint for name, hint in item.items() if name not in (SERIALIZED_MARKER, TYPE_MARKER)}
    return Serialized(type_, pickle, hints, text=text)


def dumps(data: Mapping[str, Any]) -> bytes:
    """Encode ``data`` as SB3 does: like ``json.dumps(..., indent=4)`` (WRITER.md 12.4).

    :param data: keys that are strings; JSON values (tuples become arrays) and :class:`Serialized` at the top level
    """
    for key, value in data.items():
        _check_value(key, value)
        reserved = value.hints if isinstance(value, Serialized) else value if isinstance(value, dict) else ()
        if SERIALIZED_MARKER in reserved or (TYPE_MARKER in reserved and isinstance(value, Serialized)):
            _refuse(f"{quote(key)} has a key {SERIALIZED_MARKER} or {TYPE_MARKER}; expected a Serialized for that")
    try:
        return json.dumps(to_json(data), indent=_INDENT).encode("ascii")
    except (ValueError, RecursionError) as error:
        _refuse(f"JSON cannot represent it: {error}")


def _check_value(key: object, value: object) -> None:
    """Refuse values that JSON cannot represent, and keys that are not strings, whose type would change."""
    if not isinstance(key, str):
        _refuse(f"expected a string as key, got {quote(key)}")
    if isinstance(value, Serialized):
        try:
            is_same = value.is_canonical or binascii.a2b_base64(value.text.encode("utf-8")) == value.pickle
        except (binascii.Error, UnicodeEncodeError):
            is_same = False
        if not is_same:  # the file would contain another value
            _refuse(f"{quote(key)}: expected the base64 of its pickle as its text")
        value = value.to_json()
    todo: list[tuple[object, int]] = [(value, 0)]
    for _ in range(_LARGEST_WALK):
        if not todo:
            return
        if len(todo) > _LARGEST_WALK:
            break
        part, depth = todo.pop()
        if depth > _DEEPEST:
            _refuse(f"JSON cannot represent it: {quote(key)} has more than {_DEEPEST} levels, or contains itself")
        if isinstance(part, dict):
            if not all(isinstance(name, str) for name in part):
                _refuse(f"expected strings as keys of a dict in {quote(key)}")
            todo.extend((item, depth + 1) for item in part.values())
        elif isinstance(part, (list, tuple)):
            todo.extend((item, depth + 1) for item in part)
        elif part is not None and not isinstance(part, (bool, int, float, str)):
            _refuse(f"expected a JSON value in {quote(key)}, got a {type(part).__name__}")
    _refuse(f"{quote(key)} is too large, or contains itself")


def to_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON values of ``data``, each :class:`Serialized` as the object of the file."""
    return {key: value.to_json() if isinstance(value, Serialized) else value for key, value in data.items()}


def equal_json(left: object, right: object) -> bool:
    """Return whether two JSON values are equal: by type and order of keys, NaN equal to NaN.

    The walk is iterative, so that the depth of the values does not matter.
    """
    todo = [(left, right)]
    while todo:
        one, other = todo.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            if list(one) != list(other):
                return False
            todo.extend(zip(one.values(), other.values()))
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            todo.extend(zip(one, other))
        elif type(one) is not type(other) or (one != other and (one == one or other == other)):  # noqa: PLR0124 -- NaN
            return False
    return True
