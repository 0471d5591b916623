"""Code objects that were pickled by value, and the digest that identifies published code (VALUES.md 13.5).

They are read as data: no code object is ever created. The digest leaves the line table out, because patch releases of
CPython write different tables for the same bytecode. CPython trusts a table when it formats a traceback: one that
covers more than the bytecode makes it write past a buffer, and numbers that overflow are undefined. So it is parsed.

CPython 3.6 to 3.10 has pairs of bytes: a difference of offsets, unsigned, and one of lines, signed; in ``co_lnotab`` a
pair begins a range, in 3.10's ``co_linetable`` it ends one, and a difference of -128 says that a range has no line.
CPython >= 3.11 has entries: a byte with its high bit set, four bits for the kind and three for the number of code units
less one, and bytes without the high bit, whose number depends on the kind.
Sources: CPython ``Objects/lnotab_notes.txt`` of 3.6 to 3.10, ``Objects/locations.md`` of 3.11.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_NOT_EXECUTED: Final = frozenset({"filename", "firstlineno", "linetable"})
"""The parts that the digest leaves out: they differ between machines, releases of a library and patch releases of
CPython, and what the code computes does not depend on them."""

_UINT8: Final = struct.Struct("<Q").pack
_BITS: Final = 31  # bits of every number in a code object: a C ``int``

_TEXTS: Final = ("names", "varnames", "freevars", "cellvars")

_TYPES: Final = {
    "argcount": int, "posonlyargcount": int, "kwonlyargcount": int, "nlocals": int, "stacksize": int, "flags": int,
    "bytecode": bytes, "constants": tuple, "names": tuple, "varnames": tuple, "filename": str, "name": str,
    "qualname": str, "firstlineno": int, "linetable": bytes, "exceptiontable": bytes, "freevars": tuple,
    "cellvars": tuple,
}  # fmt: skip
"""The arguments of ``types.CodeType`` of CPython >= 3.11, in order, as in cloudpickle's ``_code_reduce``."""
_ABSENT: Final[dict[int, dict[str, object]]] = {
    18: {},
    16: {"qualname": None, "exceptiontable": b""},  # CPython 3.8 to 3.10
    15: {"posonlyargcount": 0, "qualname": None, "exceptiontable": b""},  # before
}
"""By the number of arguments those that a release does not have, with what is in their place."""
PYTHONS: Final = {18: "3.11 or later", 16: "3.8 to 3.10", 15: "3.7 or earlier"}
"""The releases of CPython by the number of arguments."""


class Code(Record):
    """The attributes of a code object, without the prefix ``co_``."""

    argcount: int
    posonlyargcount: int
    kwonlyargcount: int
    nlocals: int
    stacksize: int
    flags: int
    bytecode: bytes
    constants: tuple[object, ...]
    names: tuple[str, ...]
    varnames: tuple[str, ...]
    filename: str
    name: str
    qualname: str | None
    """None before CPython 3.11, whose code objects had none."""
    firstlineno: int
    linetable: bytes
    exceptiontable: bytes
    freevars: tuple[str, ...]
    cellvars: tuple[str, ...]
    digest: str | None
    """SHA-256, in hex, of all parts but ``filename``, ``firstlineno`` and ``linetable``; None when a constant is a
    frozenset, which has no order."""
    arguments: int = 18
    """The number of arguments of ``types.CodeType``: 15 before CPython 3.8, 16 before 3.11."""


class FunctionParts(Record):
    """The parts of a function that was pickled by value, in whichever form."""

    code: Code | None
    base_globals: object
    """``__package__``, ``__name__`` and ``__file__``, or the name of the module (cloudpickle < 1.2)."""
    closure: tuple[object, ...]
    state: Mapping[str, object]
    """Its attributes, such as ``__qualname__`` and ``__globals__``, and ``_cloudpickle_submodules``."""


def make_code(args: tuple[object, ...]) -> Code | None:
    """Return the code object of decoded arguments of ``types.CodeType``, or None when they are not valid."""
    absent = _ABSENT.get(len(args))
    if absent is None:
        return None
    parts = dict(zip([name for name in _TYPES if name not in absent], args))
    if any(type(value) is not _TYPES[name] for name, value in parts.items()):
        return None
    if any(isinstance(value, int) and value.bit_length() > _BITS for value in parts.values()):
        return None
    if any(type(item) is not str for name in _TEXTS for item in parts[name]):  # type: ignore[attr-defined]
        return None
    digest = _digest([item for name, value in parts.items() if name not in _NOT_EXECUTED for item in (name, value)])
    return Code(**{**absent, **parts}, digest=digest, arguments=len(args))  # type: ignore[arg-type]


def _digest(parts: list[object]) -> str | None:
    """Return a digest that differs for different values: each is a letter for its type, its length and its content."""
    import hashlib

    chunks = [b"sbformat code 2"]
    todo = parts[::-1]
    while todo:
        value = todo.pop()
        if type(value) is tuple:
            chunks.append(b"t" + _UINT8(len(value)))
            todo.extend(reversed(value))
            continue
        encoded = _plain(value)
        if encoded is None:
            return None
        chunks += encoded[:1], _UINT8(len(encoded) - 1), encoded[1:]
    return hashlib.sha256(b"".join(chunks)).hexdigest()


def _plain(value: object) -> bytes | None:
    """Return one constant as a letter and bytes; None for a type that no compiler puts among constants."""
    kind = type(value)
    if value is None or value is ... or kind is bool:
        return b"o" + repr(value).encode("ascii")
    if isinstance(value, Code):
        return value.digest and b"c" + value.digest.encode("ascii")  # type: ignore[return-value]
    if isinstance(value, int):
        return b"i" + value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if isinstance(value, float):
        return b"f" + struct.pack("<d", value)
    if isinstance(value, complex):
        return b"j" + struct.pack("<dd", value.real, value.imag)
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    return b"b" + value if isinstance(value, bytes) else None


_MOST: Final = (1 << 31) - 1  # the greatest value of C's ``int``
_NO_LINE: Final = -128
_UNIT: Final = 2  # bytes of a code unit
_ENTRY: Final = 0x80
_MORE: Final = 0x40  # in a byte of a variable-length number: another follows
_VARINT_BITS: Final = 6
_SHORT, _ONE_LINE, _NO_COLUMNS, _LONG, _NONE = 0, 10, 13, 14, 15
"""The kinds of entries, by the least code that each has."""


def has_valid_line_table(code: Code) -> bool:
    """Return whether the line tables of code and of nested code are valid and fit the bytecode, all lines >= 1."""
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
