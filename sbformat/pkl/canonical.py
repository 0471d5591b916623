"""The canonical encoding of single values: leaves, names, and types without an opcode (WRITER.md 12.3)."""

from __future__ import annotations

from _compat_pickle import REVERSE_IMPORT_MAPPING, REVERSE_NAME_MAPPING
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.errors import PickleError, quote
from sbformat.pkl.opcodes import OPCODES
from sbformat.pkl.state import FIX_IMPORTS_BELOW, rename
from sbformat.pkl.tree import Call, Dict, FrozenSet, Global, Set

if TYPE_CHECKING:
    from collections.abc import Callable

CODE: Final = {row.name: bytes([row.code]) for row in OPCODES}
"""Each opcode's byte by its name."""
MAX8: Final = 0xFF
MAX16: Final = 0xFFFF
INT4: Final = range(-(2**31), 2**31)
UINT2: Final = Struct("<H").pack
INT4_PACK: Final = Struct("<i").pack
_FLOAT8: Final = Struct(">d").pack
LEAVES: Final = frozenset({type(None), bool, int, float})
_VALUES: Final = LEAVES | {str, bytes, bytearray, tuple, list, Dict, Set, FrozenSet}
"""Types that cannot be called, nor be arguments, except tuple."""


def refuse(message: str) -> NoReturn:
    """Raise the error for a value that a pickle cannot encode."""
    raise PickleError(message)


def _called(name: str, *args: object) -> Call:
    return Call("REDUCE", Global("builtins", name), args)


def _bytes_as_text(value: bytes) -> Call:
    if not value:
        return _called("bytes")
    return Call("REDUCE", Global("_codecs", "encode"), (value.decode("latin-1"), "latin1"))


WITHOUT_OPCODE: Final[dict[type, Callable[[Any], Call]]] = {
    bytes: _bytes_as_text,
    bytearray: lambda value: (
        _called("bytearray", value.decode("latin-1"), "latin-1") if value else _called("bytearray")
    ),
    Set: lambda value: _called("set", list(value)),
    FrozenSet: lambda value: _called("frozenset", list(value)),
}


def leaf(value: Any) -> bytes:
    """Return the opcode of a value that has no parts."""
    if value is None:
        return CODE["NONE"]
    if type(value) is tuple:
        return CODE["EMPTY_TUPLE"]
    if value is True or value is False:
        return CODE["NEWTRUE" if value else "NEWFALSE"]
    if type(value) is float:
        return CODE["BINFLOAT"] + _FLOAT8(value)
    if 0 <= value <= MAX8:
        return CODE["BININT1"] + bytes([value])
    if 0 <= value <= MAX16:
        return CODE["BININT2"] + UINT2(value)
    if value in INT4:
        return CODE["BININT"] + INT4_PACK(value)
    raw: bytes = value.to_bytes((value.bit_length() >> 3) + 1, "little", signed=True)
    if value < 0 and len(raw) > 1 and raw[-1] == MAX8 and raw[-2] & 0x80:
        raw = raw[:-1]  # as CPython's encode_long: -128 takes one byte
    if len(raw) <= MAX8:
        return CODE["LONG1"] + bytes([len(raw)]) + raw
    return CODE["LONG4"] + INT4_PACK(len(raw)) + raw


def name_lines(name: Global, protocol: int) -> bytes:
    """Return module and name as two lines, below protocol 3 with their names in Python 2 (FORMAT.md 5.4)."""
    module, attribute = pair = name.pair
    if protocol < FIX_IMPORTS_BELOW:
        old = REVERSE_NAME_MAPPING.get(pair) or (REVERSE_IMPORT_MAPPING.get(module, module), attribute)
        renamed = next((known for known in (old, pair) if rename(*known) == pair), None)
        if renamed is None:
            refuse(f"protocol {protocol} cannot encode the name {quote(name)}: it would be read as a name of Python 2")
        module, attribute = renamed
    text = f"{module}\n{attribute}\n"
    if text.count("\n") != 2:
        refuse(f"protocol {protocol} has no opcode for a name that contains a newline: {quote(name)}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        refuse(f"protocol {protocol} has no opcode for a name that contains a lone surrogate: {quote(name)}")


def check_call(call: Call) -> None:
    """Refuse a call that no unpickler accepts (FORMAT.md 5.1), or that it reads as something else."""
    how, func, args = call.how, call.func, call.args
    if how == "STACK_GLOBAL":
        parts = args if type(args) is tuple and len(args) == 2 else (None,)
        if any(type(part) in _VALUES - {str} for part in parts) or set(map(type, parts)) == {str}:
            refuse("expected two texts or nodes for a computed name, at least one of them a node")
        return
    if type(func) in _VALUES or (type(args) in _VALUES and type(args) is not tuple):
        refuse(f"expected a node for {how} to call, and a tuple or node of arguments")
    if how == "NEWOBJ_EX" and type(call.kwargs) in _VALUES and type(call.kwargs) is not Dict:
        refuse("expected a dict or node of keywords for NEWOBJ_EX")
    if how in ("INST", "OBJ") and type(args) is not tuple:
        refuse(f"expected a tuple of arguments for {how}")
    if how == "INST" and (type(func) is not Global or func.updates):
        refuse("expected a name without changes for INST to call")
