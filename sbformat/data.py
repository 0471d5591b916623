"""The entry ``data``: JSON as a dict of JSON values and opaque ``Serialized``, and back (FORMAT.md 3, WRITER.md 12.4).

This is the only JSON parser of the package: headers of ``.safetensors`` and the settings of bundles are read by
:func:`parse_object`. Bytes, depth, values and digits are counted before the text is parsed. NaN, Infinity and lone
surrogates are accepted, because SB3's ``json.dumps`` can write them. Blobs are not decoded here.

Of an entry above its limits, :func:`read_data` leaves out the largest values: each is a :class:`LargeValue`, which has
its place in the file, not its content (FORMAT.md 3.4).
"""

from __future__ import annotations

import binascii
import json
import re
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.constants import DATA_ENTRY, SERIALIZED_MARKER, TYPE_MARKER
from sbformat.errors import DataError, LimitError, SbformatError, quote
from sbformat.immutable import MUTABLE, FrozenDict, freeze
from sbformat.io.source import BytesSource, JoinedSource, iter_views, slice_source
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.rendering import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeGuard

    from sbformat.io.source import Source
    from sbformat.limits import LimitName

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
_OPENING: Final = "{\n    "  # what it is written with, before the first key and after the last value
_CLOSING: Final = "\n}"
_LARGEST_WALK: Final = 10_000_000  # most values of one key that are written: a list that contains itself has no end
_MOST_NODES: Final = 7  # values that one byte of JSON can count as
_MOST_SKIPPED: Final = 16  # of these times ``json_nodes``, most values of an entry, those that are left out included
_LARGE: Final = 64  # a value below this part of a limit is never left out
_HEAD_BYTES: Final = 1024  # of a value that may be left out, for its type
_SKIPPED_COST: Final = 8  # how much less work it is to find the end of a value than to decode it
_DECODED_COPIES: Final = 2  # of the bytes in a pickle, in what it is decoded to
_MEASURES: Final[tuple[LimitName, ...]] = ("json_bytes", "json_nodes", "memory_bytes")
_BLOB_LIMITS: Final = frozenset({"blob_bytes", "blobs_bytes"})
_TOP: Final = rb"[\[\]{},:]"
_BRACKET: Final = rb"[\[\]{}]"
_BRACKETS: Final = bytes.maketrans(b"[{]}", b"(())")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_NO_MARKS: Final = bytes(set(range(256)) - set(b"[]{},:"))
_STEPS: Final = {ord("("): 1, ord(")"): -1}  # what a bracket adds to the depth
_INSIDE: Final = 2  # depth of what is inside a value that is an array or an object
_TYPE: Final = rb'\{\s*":type:"\s*:\s*"([^"\\\x00-\x1f]*)"'
_BLOB: Final = _TYPE + rb'\s*,\s*":serialized:"\s*:\s*"'
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
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
        set_field(self, "hints", freeze(hints if hints.__class__ is dict else dict(hints or {})))
        set_field(self, "text", _canonical(pickle) if text is None else text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Serialized cannot be changed; make a new one instead of setting {name}")

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    @property
    def nbytes(self) -> int:
        """The bytes of the pickle; of a :class:`LargeValue`, those of its JSON text."""
        return len(self.pickle)

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


class LargeValue(Serialized):
    """A value of a key that is larger than the limits allow: where it is in ``data``, not its content.

    Everything else of the archive is read. What needs the value raises a :class:`~sbformat.LimitError` that names the
    limits with which it is read; :meth:`~sbformat.Archive.replace` and ``edit`` copy or drop it without decoding it.

    >>> archive.data["my_frames"]
    <LargeValue "<class 'numpy.ndarray'>" 225,792,200 bytes of JSON>

    :param key: its key
    :param type: the text of ``:type:`` if it is an object that begins with it; None otherwise
    :param start: position of the value's text in ``data``
    :param stop: the end of it
    :param needs: the limits that it exceeds, with values that are enough
    :param open_data: returns the bytes of ``data``; None when the value was sent to another process
    :param limits: with which it was read
    """

    __slots__ = ("_limits", "_open_data", "key", "nbytes", "needs", "start")

    _limits: Limits
    _open_data: Callable[[], Source] | None
    key: str
    nbytes: int
    needs: Mapping[LimitName, int]
    start: int

    def __init__(
        self,
        key: str,
        type: str | None,  # noqa: A002 -- SB3's own word
        start: int,
        stop: int,
        needs: Mapping[LimitName, int],
        open_data: Callable[[], Source] | None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        values = {"key": key, "type": type, "hints": FrozenDict(), "start": start, "nbytes": stop - start}
        for name, value in {**values, "needs": needs, "_open_data": open_data, "_limits": limits}.items():
            object.__setattr__(self, name, value)

    @property
    def error(self) -> LimitError:
        """The error of everything that needs the value."""
        limit, needed = next(iter(self.needs.items()))  # there is one: why it was left out
        made = LimitError(limit, allowed=getattr(self._limits, limit), actual=needed, entry=DATA_ENTRY)
        options = ", ".join(f"{name}={value}" for name, value in self.needs.items())
        made.message = f"{quote(self.key)} is left out, because it is large: {format_size(self.nbytes)}"
        made.hint = ""
        made.add_hint(f"if you trust the size, pass limits=Limits({options})")
        return made

    @property
    def pickle(self) -> bytes:  # type: ignore[override]
        """Not read: a :class:`~sbformat.LimitError`."""
        raise self.error

    text = pickle  # type: ignore[assignment]

    @property
    def is_canonical(self) -> bool:
        return True  # as far as is known

    def open_pickle(self, limits: Limits) -> tuple[Source, dict[str, Any]] | None:
        """Return the bytes of its pickle, decoded where they are read, and its hints.

        None unless it is written as SB3 writes it, with canonical base64 and hints that the limits allow.
        """
        text = self.source()
        found = re.match(_BLOB, bytes(text.view(0, _HEAD_BYTES)))
        if found is None:
            return None
        start = stop = found.end()
        padding = 0
        for chunk in iter_views(text, start, self.nbytes):
            piece, quotation_mark, _ = bytes(chunk).partition(b'"')
            stop += len(piece)
            padding += piece.count(b"=")
            if piece.translate(None, _BASE64):
                return None
            if quotation_mark:
                break
        last, rest = bytes(text.view(stop - 4, 4)), self.nbytes - stop - 1
        if (stop - start) % 4 or stop == start or padding != last.count(b"=") or rest > limits.json_bytes:
            return None
        try:
            if binascii.b2a_base64(binascii.a2b_base64(last), newline=False) != last:
                return None
            hints = parse_object(b'{"":0' + bytes(text.view(stop + 1, rest)), Budget(limits))
        except (binascii.Error, DataError, LimitError):
            return None
        if {SERIALIZED_MARKER, TYPE_MARKER} & hints.keys():  # a later one would replace the first
            return None
        return _Base64Source(slice_source(text, start, stop - start), padding), hints

    def source(self) -> Source:
        """Return the bytes of its JSON text, as it is in the file."""
        if self._open_data is None:
            raise self.error
        return slice_source(self._open_data(), self.start, self.nbytes)

    def __eq__(self, other: object) -> bool:
        """Return whether two large values have the same text, without keeping it."""
        if not isinstance(other, LargeValue):
            return False if isinstance(other, Serialized) else NotImplemented
        if self.nbytes != other.nbytes:
            return False
        one, another = (iter_views(value.source(), 0, self.nbytes) for value in (self, other))
        return all(map(memoryview.__eq__, one, another))

    __hash__ = None

    def __repr__(self) -> str:
        return f"<LargeValue {quote(self.type or 'without type', 80)} {self.nbytes:,} bytes of JSON>"

    def __reduce__(self) -> tuple[Any, ...]:
        return LargeValue, (
            self.key,
            self.type,
            self.start,
            self.start + self.nbytes,
            dict(self.needs),
            None,
            self._limits,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> LargeValue:
        return self

    def to_json(self) -> NoReturn:
        raise self.error


class _Base64Source:
    """The bytes that another source is the canonical base64 of, as a source."""

    __slots__ = ("_text", "size")

    def __init__(self, text: Source, padding: int) -> None:
        self._text = text
        self.size = text.size // 4 * 3 - padding

    def view(self, offset: int, length: int) -> memoryview:
        stop = min(offset + length, self.size)
        first = offset // 3
        text = self._text.view(4 * first, 4 * (-(-stop // 3) - first))
        return memoryview(binascii.a2b_base64(text))[offset - 3 * first : stop - 3 * first]


def has_pickle(value: object) -> TypeGuard[Serialized]:
    """Return whether a value of ``data`` is a pickle that was not left out."""
    return isinstance(value, Serialized) and not isinstance(value, LargeValue)


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
        items = parse_object(data, budget)
        for key, item in items.items():
            if type(item) in MUTABLE:  # most are numbers
                items[key] = _decode_value(key, item, budget)
        return FrozenDict(items)
    except RecursionError:
        _refuse("expected less nesting: this interpreter cannot follow it")


# -- large entries ------------------------------------------------------------------------------------


def is_large(size: int, limits: Limits) -> bool:
    """Return whether ``data`` of this size can exceed a limit of its size, so that values are left out."""
    most = min(limits.json_bytes, limits.blob_bytes, limits.blobs_bytes, limits.json_nodes // _MOST_NODES)
    return size > most


def decode_large(text: Iterable[bytes | memoryview], budget: Budget, open_data: Callable[[], Source]) -> FrozenDict:
    """Parse ``data`` like :func:`decode`; above its limits, the largest values are left out (FORMAT.md 3.4).

    :param text: all of its bytes, in chunks of any size
    :param open_data: returns them as a source, from which values that are left out are copied
    """
    splitter = _Splitter(budget)
    for chunk in text:
        splitter.add(bytes(chunk))
    try:
        items = parse_object(splitter.join(), budget)
    except DataError as error:
        error.offset = None  # it is of a text without the large values
        raise
    made = {}
    for (key, item), value in zip(items.items(), splitter.values):  # keys are unique: the n-th has the n-th value
        if value.text is not None:
            try:
                made[key] = _decode_value(key, item, budget)
                continue
            except LimitError as error:
                if error.limit not in _BLOB_LIMITS:
                    raise
                value.limit = error
        elif value.start == value.stop:
            _refuse(f"expected a JSON value for {quote(key)}, got nothing")
        made[key] = splitter.describe(key, value, open_data)
    return FrozenDict(made)


class _Value:
    """The text of one value in ``data``, None once it is left out; and what it costs to decode it."""

    __slots__ = ("costs", "head", "is_large", "limit", "start", "stop", "text")

    def __init__(self, start: int) -> None:
        self.start = self.stop = start
        self.text: list[bytes] | None = []
        self.head = b""
        self.costs = [0, 0, 0]
        """Its bytes, its values as ``json_nodes`` counts them, and the memory of these."""
        self.is_large = False
        self.limit: LimitError | None = None
        """Why its pickle is not decoded, although its text is kept."""


class _Splitter:
    """Splits the text of ``data`` into the values of its keys and what is between them, chunk by chunk.

    When the values that it keeps exceed a limit, it leaves out the one that is largest by that measure.
    """

    def __init__(self, budget: Budget) -> None:
        self._limits = limits = budget.limits
        self._budget = budget
        self._allowed = (limits.json_bytes, limits.json_nodes, budget.memory_allowed())
        self._kept, self._all = [0, 1, 0], [0, 1, 0]
        self._width = 1
        """Bytes per character of the decoded text."""
        self._between: list[list[bytes]] = [[]]
        """The text before each value, and after the last one."""
        self.values: list[_Value] = []
        self._large: list[_Value] = []
        """Those that can be left out: 1/64 of a limit or more."""
        self._value: _Value | None = None
        self._at = self._depth = 0
        self._in_string = False
        self._carried = b""

    def add(self, chunk: bytes) -> None:
        """Split the next chunk."""
        text = self._carried + chunk
        whole = len(text) - (len(text) - len(text.rstrip(b"\\"))) % 2  # an escape is never split between two chunks
        text, self._carried = text[:whole], text[whole:]
        if self._in_string and b'"' not in text and b"\\" not in text:  # most of a large pickle
            self._take(text, b"")
            return
        parts = text.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
        inside = self._in_string
        self._in_string ^= len(parts) % 2 == 0
        outside = b"".join(parts[inside::2])
        if self._value is not None and self._stays_inside(outside):
            self._take(text, outside)
            return
        outside = b"_".join(b"_" * len(part) if n % 2 != inside else part for n, part in enumerate(parts))
        begin = at = 0
        top, bracket = re.compile(_TOP), re.compile(_BRACKET)
        while found := (top if self._depth == 1 else bracket).search(outside, at):
            at = found.end()
            token = found[0]
            if token in b"[{":
                self._depth += 1
                continue
            if token in b"]}":
                self._depth -= 1
                if self._depth < 0:
                    _refuse("expected JSON, got brackets that do not match")
                is_end = self._depth == 0
            else:
                is_end = token == b","
            if is_end and self._value is not None:
                self._take(text[begin : at - 1], outside[begin : at - 1])
                self._value, begin = None, at - 1
                self._between.append([])
            elif token == b":" and self._value is None:
                self._take(text[begin:at], outside[begin:at])
                begin = at
                self._value = _Value(self._at)
                self.values.append(self._value)
        self._take(text[begin:], outside[begin:])

    def _stays_inside(self, outside: bytes) -> bool:
        """Return whether it is certain that the open value does not end in this text; if so, count its brackets."""
        brackets = outside.translate(_BRACKETS, _NO_BRACKETS)
        change = brackets.count(b"(") - brackets.count(b")")
        for _ in range(self._limits.json_depth):  # what is opened and closed within the text does not matter
            before, brackets = brackets, brackets.replace(b"()", b"")
            if len(before) == len(brackets):
                break
        if self._depth - brackets.count(b")") < _INSIDE:
            return False
        self._depth += change
        return True

    def _take(self, text: bytes, outside: bytes) -> None:
        """Add text to the value that is open, or to what is between values."""
        value = self._value
        commas, colons = outside.count(b","), outside.count(b":")
        containers = outside.count(b"[") + outside.count(b"{")
        parts = VALUE_BYTES * commas + PAIR_BYTES * colons + CONTAINER_BYTES * containers
        costs = (len(text), commas + CONTAINER_COST * containers, parts)
        self._all = [*map(sum, zip(self._all, costs))]
        if self._all[1] > _MOST_SKIPPED * self._limits.json_nodes:  # it takes too long to find where values end
            self._limits.check("json_nodes", self._all[1])
        self._budget.work(parts // _SKIPPED_COST)
        self._budget.keep(0)
        if not text.isascii():
            self._width = max(self._width, measure_width(text))
        if value is None:
            self._between[-1].append(text)
        else:
            if not value.head:
                value.start = value.stop = self._at + len(text) - len(text.lstrip())
            if len(value.head) < _HEAD_BYTES:
                value.head = (value.head + text[:_HEAD_BYTES]).lstrip()[:_HEAD_BYTES]
            value.stop = self._at + len(text.rstrip()) if text.rstrip() else value.stop
            value.costs = [*map(sum, zip(value.costs, costs))]
        self._at += len(text)
        if value is None or value.text is not None:
            self._kept = [*map(sum, zip(self._kept, costs))]
        if value is not None and value.text is not None:
            value.text.append(text)
            costs = self._measure(value.costs)
            if not value.is_large and any(_LARGE * cost >= most for cost, most in zip(costs, self._allowed)):
                value.is_large = True
                self._large.append(value)
        for n, most in enumerate(self._allowed):
            while self._measure(self._kept)[n] > most:
                self._leave_out(n)

    def _measure(self, costs: list[int]) -> tuple[int, int, int]:
        """Return what costs mean by ``json_bytes``, ``json_nodes`` and ``memory_bytes``."""
        size, nodes, parts = costs
        return size, nodes, (2 * self._width + 1) * size + parts  # the text, it again meanwhile, and a pickle in it

    def _leave_out(self, n: int) -> None:
        """Leave out the value that costs most by one measure."""
        value = max(self._large, key=lambda value: self._measure(value.costs)[n], default=None)
        if value is None:
            excess = self._measure(self._kept)[n] - self._allowed[n]
            self._limits.check(_MEASURES[n], excess + getattr(self._limits, _MEASURES[n]))
            return
        self._large.remove(value)
        value.text = None
        self._kept = [kept - cost for kept, cost in zip(self._kept, value.costs)]

    def join(self) -> bytes:
        """Return the text of ``data`` with ``null`` for each value that was left out."""
        made = [*self._between[0]]
        for value, after in zip(self.values, [*self._between[1:], []]):
            made += [b"null"] if value.text is None else value.text
            made += after
            if value.text is not None:
                value.text = []
        return b"".join([*made, self._carried])

    def describe(self, key: str, value: _Value, open_data: Callable[[], Source]) -> LargeValue:
        """Return what is left of a value that was left out, with the limits that it needs."""
        size, nodes, memory = self._measure(self._all)
        memory += self._limits.memory_bytes - self._allowed[2]  # without what the file's size allows
        needs: dict[LimitName, int] = {"json_bytes": size, "json_nodes": nodes, "memory_bytes": memory}
        if value.limit is not None or f'"{SERIALIZED_MARKER}"'.encode() in value.head:
            blob, blobs = value.costs[0] * 3 // 4, size * 3 // 4
            needs["memory_bytes"] += _DECODED_COPIES * blob
            needs |= {"blob_bytes": blob, "blobs_bytes": blobs, "pickle_bytes": blob}
        needs = {limit: needed for limit, needed in needs.items() if needed > getattr(self._limits, limit)}
        if value.limit is not None and value.limit.limit not in needs:  # of blobs in other files, too
            needs |= {"blobs_bytes": value.limit.actual + size * 3 // 4}
        found = re.match(_TYPE, value.head)
        type_ = found[1].decode("utf-8", "replace") if found else None
        return LargeValue(key, type_, value.start, value.stop, needs, open_data, self._limits)


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
        return _DECODER.decode(text)
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


def measure_width(text: bytes) -> int:
    """Return the bytes per character of a decoded text: Python stores each as wide as the widest one."""
    highest = max(text, default=0)
    return 4 if highest >= _FOUR_BYTES else 2 if highest >= _TWO_BYTES else 1


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
        if not piece.isascii():
            self.width = max(self.width, measure_width(piece))
        escapes = len(piece) - len(piece.replace(b"\\", b""))
        self.escapes += escapes
        if escapes and b'\\"' in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b'"' * self.in_string + b'"'.join(parts[self.in_string :: 2])  # a string ends a run of digits
        if escapes and b"\\" in outside:  # this is not JSON
            outside = outside.replace(b"\\\\", b"")
        self.in_string ^= len(parts) % 2 == 0
        marks = outside.translate(_BRACKETS, _NO_MARKS)
        self.commas += marks.count(b",")
        self.colons += marks.count(b":")
        self.containers += marks.count(b"(")
        depths = [*accumulate(map(_STEPS.__getitem__, marks.translate(None, b",:")), initial=self.depth)]
        self.depth, self.deepest = depths[-1], max(self.deepest, *depths)
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


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique)


def _decode_value(key: str, item: Any, budget: Budget) -> Any:
    if type(item) is not dict or SERIALIZED_MARKER not in item:
        return freeze(item)
    text, type_ = item.pop(SERIALIZED_MARKER), item.pop(TYPE_MARKER, None)
    if type(text) is not str or not (type_ is None or type(type_) is str):
        _refuse(f"{quote(key)}: expected strings as {SERIALIZED_MARKER} and {TYPE_MARKER}")
    size = len(text) * 3 // 4
    budget.spend("blob_bytes", size)
    budget.spend("blobs_bytes", size)
    budget.keep(size, meanwhile=len(text))
    try:
        pickle = binascii.a2b_base64(text.encode("utf-8"))  # as lenient as the decoder that SB3 calls
    except (binascii.Error, UnicodeEncodeError) as error:
        _refuse(f"{quote(key)}: {SERIALIZED_MARKER} is not base64: {str(error)[:80]}")
    return Serialized(type_, pickle, item, text=text)


def dumps(data: Mapping[str, Any]) -> bytes | JoinedSource:
    """Encode ``data`` as SB3 does: like ``json.dumps(..., indent=4)`` (WRITER.md 12.4).

    :param data: keys that are strings; JSON values (tuples become arrays) and :class:`Serialized` at the top level
    :return: its bytes; as a source if it has a :class:`LargeValue`, whose text is copied when it is read
    """
    for key, value in data.items():
        if isinstance(value, LargeValue):
            continue
        _check_value(key, value)
        reserved = value.hints if isinstance(value, Serialized) else value if isinstance(value, dict) else ()
        if SERIALIZED_MARKER in reserved or (TYPE_MARKER in reserved and isinstance(value, Serialized)):
            _refuse(f"{quote(key)} has a key {SERIALIZED_MARKER} or {TYPE_MARKER}; expected a Serialized for that")
    try:
        if not any(isinstance(value, LargeValue) for value in data.values()):
            return json.dumps(to_json(data), indent=_INDENT).encode("ascii")
        parts: list[Source] = []
        between = _OPENING
        for key, value in data.items():
            is_copied = isinstance(value, LargeValue)
            pair = json.dumps(to_json({key: None if is_copied else value}), indent=_INDENT)
            text = between + pair.removeprefix(_OPENING).removesuffix(_CLOSING)
            parts.append(BytesSource((text.removesuffix("null") if is_copied else text).encode("ascii")))
            if is_copied:
                parts.append(value.source())
            between = "," + _OPENING[1:]
        return JoinedSource([*parts, BytesSource(_CLOSING.encode("ascii"))])
    except (ValueError, RecursionError) as error:
        if isinstance(error, SbformatError):  # of the file that a large value is in
            raise
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
