"""Code objects that were pickled by value, and the digest that identifies published code (VALUES.md 13.5).

They are read as data: no code object is ever created.
"""

from __future__ import annotations

import struct
from typing import Final

from sbformat.immutable import Record

_NOT_EXECUTED: Final = frozenset({"filename", "firstlineno", "linetable"})
"""The parts that the digest leaves out: they differ between machines, releases of a library and patch releases of
CPython, and what the code computes does not depend on them."""

_UINT8: Final = struct.Struct("<Q").pack
_BITS: Final = 31
"""Bits of every number in a code object: a C ``int``."""

_TEXTS: Final = ("names", "varnames", "freevars", "cellvars")

_LAYOUTS: Final[dict[int, tuple[str, ...]]] = {
    15: (  # CPython <= 3.7
        "argcount", "kwonlyargcount", "nlocals", "stacksize", "flags", "bytecode", "constants", "names", "varnames",
        "filename", "name", "firstlineno", "linetable", "freevars", "cellvars",
    ),
    16: (  # CPython 3.8 to 3.10
        "argcount", "posonlyargcount", "kwonlyargcount", "nlocals", "stacksize", "flags", "bytecode", "constants",
        "names", "varnames", "filename", "name", "firstlineno", "linetable", "freevars", "cellvars",
    ),
    18: (  # CPython >= 3.11
        "argcount", "posonlyargcount", "kwonlyargcount", "nlocals", "stacksize", "flags", "bytecode", "constants",
        "names", "varnames", "filename", "name", "qualname", "firstlineno", "linetable", "exceptiontable", "freevars",
        "cellvars",
    ),
}  # fmt: skip
"""The arguments of ``types.CodeType`` by their number, as in cloudpickle's ``_code_reduce``."""

_TYPES: Final = {
    "argcount": int, "posonlyargcount": int, "kwonlyargcount": int, "nlocals": int, "stacksize": int, "flags": int,
    "bytecode": bytes, "constants": tuple, "names": tuple, "varnames": tuple, "filename": str, "name": str,
    "qualname": str, "firstlineno": int, "linetable": bytes, "exceptiontable": bytes, "freevars": tuple,
    "cellvars": tuple,
}  # fmt: skip


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
    name: object
    qualname: object
    module: object
    closure: tuple[object, ...]
    defaults: object
    keyword_defaults: object
    globals: object
    attributes: object
    annotations: object
    doc: object
    submodules: object


def make_code(args: tuple[object, ...]) -> Code | None:
    """Return the code object of these arguments of ``types.CodeType``, or None when they are not valid.

    :param args: with constants decoded; a nested code object is a :class:`Code`
    """
    layout = _LAYOUTS.get(len(args))
    if layout is None:
        return None
    parts = dict(zip(layout, args))
    if any(type(value) is not _TYPES[name] for name, value in parts.items()):
        return None
    if any(isinstance(value, int) and value.bit_length() > _BITS for value in parts.values()):
        return None
    if any(type(item) is not str for name in _TEXTS for item in parts[name]):  # type: ignore[attr-defined]
        return None
    digest = _digest([item for name, value in parts.items() if name not in _NOT_EXECUTED for item in (name, value)])
    absent: dict[str, object] = {"posonlyargcount": 0, "qualname": None, "exceptiontable": b""}
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
