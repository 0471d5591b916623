"""Validate the line tables of code objects: well formed, and within the bytecode (VALUES.md 13.5).

The digest of a code object leaves its line table out, because patch releases of CPython write different tables for the
same bytecode. CPython trusts a table when it formats a traceback and when a debugger sets a line: one that covers more
than the bytecode makes it write past a buffer, and numbers that overflow are undefined. So a table is parsed here.

Two formats have been in use. CPython 3.6 to 3.10 has pairs of bytes: a difference of offsets, unsigned, and one of
lines, signed; in ``co_lnotab`` a pair begins a range, in 3.10's ``co_linetable`` it ends one, and a difference of -128
says that a range has no line. CPython >= 3.11 has entries: a byte with its high bit set, four bits for the kind and
three for the number of code units less one, and bytes without the high bit, whose number depends on the kind.
Sources: CPython ``Objects/lnotab_notes.txt`` of 3.6 to 3.10, ``Objects/locations.md`` of 3.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.known.code import Code

_MOST: Final = (1 << 31) - 1
"""The greatest value of C's ``int``."""
_NO_LINE: Final = -128
_UNIT: Final = 2
"""Bytes of a code unit."""
_ENTRY: Final = 0x80
_MORE: Final = 0x40
"""In a byte of a variable-length number: another follows."""
_VARINT_BITS: Final = 6
_SHORT, _ONE_LINE, _NO_COLUMNS, _LONG, _NONE = 0, 10, 13, 14, 15
"""The kinds of entries, by the least code that each has."""


def has_valid_line_table(code: Code) -> bool:
    """Return whether the line tables of a code object, and of those nested in it, are valid and fit the bytecode.

    Every line is one that C's ``int`` can hold, and at least 1.

    :param code: whose constants may share code objects
    """
    todo = [code]
    seen: set[int] = set()
    while todo:
        checked = todo.pop()
        if id(checked) in seen:
            continue
        seen.add(id(checked))
        parses = _entries_are_valid if checked.qualname is not None else _pairs_are_valid
        if checked.firstlineno < 1 or not parses(checked.linetable, len(checked.bytecode), checked.firstlineno):
            return False
        todo.extend(value for value in checked.constants if isinstance(value, type(code)))
    return True


def _pairs_are_valid(table: bytes, size: int, line: int) -> bool:
    """Check a table of CPython <= 3.10, which need not cover the last instructions.

    cloudpickle before 2.0 stores ``co_lnotab`` on CPython 3.10, which takes it for a ``co_linetable``.
    """
    if len(table) % 2 or sum(table[::2]) > size:
        return False
    for delta in memoryview(table[1::2]).cast("b"):
        line += delta if delta != _NO_LINE else 0
        if not 1 <= line <= _MOST:
            return False
    return True


def _entries_are_valid(table: bytes, size: int, line: int) -> bool:
    """Check a table of CPython >= 3.11, which covers the bytecode exactly."""
    position = units = 0
    while position < len(table):
        first = table[position]
        end = position + 1
        while end < len(table) and table[end] < _ENTRY:
            end += 1
        delta = _line_delta(first >> 3 & 15, table[position + 1 : end]) if first >= _ENTRY else None
        if delta is None or not 1 <= line + delta <= _MOST:
            return False
        line += delta
        units += (first & 7) + 1
        position = end
    return units * _UNIT == size


def _line_delta(kind: int, data: bytes) -> int | None:
    """Return the difference of lines that an entry's bytes contain, or None when they are not of its kind."""
    if kind == _NONE:
        return None if data else 0
    if kind < _NO_COLUMNS:
        expected = 1 if kind < _ONE_LINE else 2
        return max(kind - _ONE_LINE, 0) if len(data) == expected else None
    numbers = list(_varints(data))
    if len(numbers) != (1 if kind == _NO_COLUMNS else 4) or max(numbers) > _MOST:
        return None
    return -(numbers[0] >> 1) if numbers[0] & 1 else numbers[0] >> 1


def _varints(data: bytes) -> Iterator[int]:
    """Yield variable-length numbers; one that is cut short or too long is given a value that is never valid."""
    value = shift = 0
    for byte in data:
        value |= (byte & (_MORE - 1)) << shift
        shift += _VARINT_BITS
        if not byte & _MORE:
            yield value
            value = shift = 0
        elif value > _MOST or shift > _MOST.bit_length():
            break
    if shift:
        yield _MOST + 1
