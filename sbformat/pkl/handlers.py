"""The less frequent opcodes, one function each, in the order of the table in ``opcodes``.

Contract: a handler receives the state and the position after the opcode's byte, and returns the position after its
argument. It lets two errors pass, which ``Machine.run`` turns into PickleErrors: IndexError means that a value or a
mark is missing on the stack, and struct.error that the pickle ends early. So a handler never indexes ``data``, whose
IndexError would have the wrong meaning; it unpacks or slices it.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final, NoReturn

from sbformat.errors import PickleError, quote
from sbformat.pkl.opcodes import BY_CODE
from sbformat.pkl.state import State, cut_short, make_call, make_global
from sbformat.pkl.tree import COMPOSITES, Call, Dict, Extension, FrozenSet, Node, Persistent, Set, Unread

if TYPE_CHECKING:
    from collections.abc import Callable

HIGHEST_PROTOCOL: Final = 5

_UINT1: Final = Struct("B").unpack_from
_UINT2: Final = Struct("<H").unpack_from
_INT4: Final = Struct("<i").unpack_from
_UINT8: Final = Struct("<Q").unpack_from

# Compiled when first used: text opcodes are rare, and compiling takes longer than reading an archive.
_INT: Final = rb"0|-?[1-9][0-9]*"
_FLOAT: Final = rb"(?i)-?(?:inf|nan|[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]{1,4})?)"
_BAD_ESCAPE: Final = rb"""\\(?!['"nrt]|x[0-9a-fA-F]{2})"""
_ODD_DIGITS: Final = 4000  # the most digits of a number that no pickler writes: CPython accepts few more
_ESCAPES: Final = {
    b"\n": b"", b"\\": b"\\", b"'": b"'", b'"': b'"', b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r",
    b"t": b"\t", b"v": b"\v",
}  # fmt: skip
_INFINITIES: Final = (float("inf"), float("-inf"))
_LINE_DIGITS: Final = 600  # below the lowest limit on digits that an interpreter can be configured with


def _pop(state: State, position: int) -> int:
    """Remove the mark. POP of a value is executed in the loop."""
    state.pop_mark()
    return position


def _pop_mark(state: State, position: int) -> int:
    state.discarded.extend(value for value in state.pop_mark() if type(value) in COMPOSITES)
    return position


def _dup(state: State, position: int) -> int:
    state.stack.append(state.refer(state.stack[-1]))
    return position


def _odd(state: State, text: bytes, parse: Callable[[bytes], object]) -> object:
    """Return CPython's value of a number that no pickler writes, up to a NUL; None if CPython refuses it, too."""
    if not state.is_lenient:
        return None
    text = text.partition(b"\0")[0].strip()
    try:
        value = parse(text) if len(text) <= _ODD_DIGITS else 0  # its value has no effect on what follows
    except ValueError:
        return None
    state.notes.is_odd = True
    return value


def _float(state: State, position: int) -> int:
    text, position = state.line(position)
    if not re.fullmatch(_FLOAT, text) or (float(text) in _INFINITIES and text[-1:] not in b"fF"):
        odd = _odd(state, text, float)
        if odd is not None:
            state.stack.append(odd)
            return position
        message = f"expected a float, got {quote(text.decode('latin-1'))}"
        raise PickleError(message, offset=position)
    state.stack.append(float(text))
    return position


def _whole(state: State, text: bytes, position: int) -> int:
    is_long = len(text) > _LINE_DIGITS
    if is_long or not re.fullmatch(_INT, text):
        odd = _odd(state, text, _any_base)
        if isinstance(odd, int):
            return odd
        message = f"expected an integer, got {quote(text.decode('latin-1'))}"
        if is_long:
            message = f"expected at most {_LINE_DIGITS} decimal digits (longer integers are binary), got {len(text)}"
        raise PickleError(message, offset=position)
    return int(text)


def _any_base(text: bytes) -> int:
    """Return a number as CPython reads it; no digits are 0.

    Up to 3.13, C's strtol and Python's int read other bases: ``010`` is 8, and ``08`` is refused. Since 3.14 the base
    is 10, so that ``08`` is 8. The value has no effect on what follows, but whether there is one has.
    """
    text = text or b"0"
    for base in (0, 8) if text.lstrip(b"+-").startswith(b"0") else (0,):
        with suppress(ValueError):
            return int(text, base)
    return int(text)


def _int(state: State, position: int) -> int:
    text, position = state.line(position)
    state.stack.append(text == b"01" if text in (b"00", b"01") else _whole(state, text, position))
    return position


def _long(state: State, position: int) -> int:
    text, position = state.line(position)
    state.stack.append(_whole(state, text.removesuffix(b"L"), position))
    return position


def _binint(state: State, position: int) -> int:
    state.stack.append(_INT4(state.data, position)[0])
    return position + 4


def _persid(state: State, position: int) -> int:
    text, position = state.line(position)
    state.push_built(Persistent(text.decode("ascii")))
    return position


def _is_well_escaped(body: bytes) -> bool:
    """Return whether every backslash starts an escape that Python 2 wrote, in linear time and memory."""
    return not re.search(_BAD_ESCAPE, body.replace(b"\\\\", b"  "))


def _unescape(body: bytes) -> bytes:
    """Replace the escapes of a text as Python 2 does, including those that it never wrote."""
    return re.sub(rb"(?s)\\(x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", _escape, body)


def _escape(found: re.Match[bytes]) -> bytes:
    text = found[1]
    if text[:1] == b"x" and len(text) == 3:
        return bytes([int(text[1:], 16)])
    if text[0] in b"01234567":
        return bytes([int(text, 8) & 0xFF])
    return _ESCAPES.get(text, found[0])


def _string(state: State, position: int) -> int:
    text, position = state.line(position)
    body = text[1:-1]
    is_quoted = len(text) >= 2 and text[:1] in (b"'", b'"') and text[:1] == text[-1:]
    if is_quoted and not _is_well_escaped(body):
        is_quoted = state.notes.is_odd = state.is_lenient
        body = _unescape(body).replace(b"\\", b"\\\\")
    if not is_quoted:
        message = "expected a quoted STRING with the escapes of Python 2, got another one"
        raise PickleError(message, offset=position)
    raw = codecs.escape_decode(body)[0]  # as CPython's own load_string
    state.stack.append(state.text(raw))
    return position


def _binstring(state: State, position: int) -> int:
    raw, position = state.counted(position, 4, signed=True)
    state.stack.append(state.text(raw))
    return position


def _short_binstring(state: State, position: int) -> int:
    raw, position = state.counted(position, 1)
    state.stack.append(state.text(raw))
    return position


def _unicode(state: State, position: int) -> int:
    text, position = state.line(position)
    state.stack.append(state.check_surrogates(text.decode("raw-unicode-escape")))
    return position


def _append(state: State, position: int) -> int:
    value = state.stack.pop()
    state.append_items(state.stack[-1], [value])
    return position


def _build(state: State, position: int) -> int:
    attributes = state.stack.pop()
    state.update("BUILD", state.stack[-1], attributes)
    return position


def _global(state: State, position: int) -> int:
    data = state.data
    end = data.find(b"\n", position)
    stop = data.find(b"\n", end + 1)
    if end < 0 or stop < 0:
        message = "expected a line of text, got no newline"
        raise cut_short(message, position if end < 0 else end + 1)
    state.push_call(make_global(state, data[position:end].decode(), data[end + 1 : stop].decode()))
    return stop + 1


def _dict(state: State, position: int) -> int:
    items = state.pop_mark()
    pairs = Dict()
    state.set_items(pairs, items)
    state.built += len(items) >> 1
    state.push_built(pairs)
    return position


def _appends(state: State, position: int) -> int:
    items = state.pop_mark()
    state.append_items(state.stack[-1], items)
    return position


def _get(state: State, position: int) -> int:
    index, position = state.decimal(position)
    state.stack.append(state.refer(state.get(index)))
    return position


def _inst(state: State, position: int) -> int:
    position = _global(state, position)  # CPython's unpickler in Python imports before it looks for the mark
    func = state.stack.pop()
    args = tuple(state.pop_mark())
    state.built += bool(args)
    state.push_call(make_call("INST", func, args))
    return position


def _list(state: State, position: int) -> int:
    state.push_built(state.pop_mark())
    return position


def _empty_list(state: State, position: int) -> int:
    state.push_built([])
    return position


def _obj(state: State, position: int) -> int:
    items = state.pop_mark()
    state.built += len(items) > 1
    state.push_call(make_call("OBJ", items[0], tuple(items[1:])))
    return position


def _put(state: State, position: int) -> int:
    index, position = state.decimal(position)
    state.put(index, state.stack[-1])
    return position


def _proto(state: State, position: int) -> int:
    protocol = _UINT1(state.data, position)[0]
    if protocol > HIGHEST_PROTOCOL:
        message = f"expected protocol 0 to {HIGHEST_PROTOCOL}, got {protocol}"
        raise PickleError(message, offset=position)
    state.protocol = protocol
    return position + 1


def _newobj(state: State, position: int) -> int:
    args = state.stack.pop()
    state.push_call(make_call("NEWOBJ", state.stack.pop(), args))
    return position


def _extension(state: State, position: int, code: int, size: int) -> int:
    if code <= 0:
        message = f"expected an extension code above 0, got {code}"
        raise PickleError(message, offset=position)
    state.push_call(Extension(code))
    return position + size


def _ext1(state: State, position: int) -> int:
    return _extension(state, position, _UINT1(state.data, position)[0], 1)


def _ext2(state: State, position: int) -> int:
    return _extension(state, position, _UINT2(state.data, position)[0], 2)


def _ext4(state: State, position: int) -> int:
    return _extension(state, position, _INT4(state.data, position)[0], 4)


def _tuple3(state: State, position: int) -> int:
    stack = state.stack
    last = stack.pop()
    middle = stack.pop()
    state.push_built((stack.pop(), middle, last))
    return position


def _newtrue(state: State, position: int) -> int:
    state.stack.append(True)
    return position


def _long1(state: State, position: int) -> int:
    raw, position = state.counted(position, 1)
    state.stack.append(int.from_bytes(raw, "little", signed=True))
    return position


def _long4(state: State, position: int) -> int:
    raw, position = state.counted(position, 4, signed=True)
    state.stack.append(int.from_bytes(raw, "little", signed=True))
    return position


def _binbytes(state: State, position: int) -> int:
    raw, position = state.payload(position, 4)
    state.stack.append(raw)
    return position


def _short_binbytes(state: State, position: int) -> int:
    raw, position = state.counted(position, 1)
    state.stack.append(raw)
    return position


def _binunicode8(state: State, position: int) -> int:
    raw, position = state.counted(position, 8)
    state.add_width(raw)
    state.check_memory(state.long)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = state.surrogate_text(raw)
    state.stack.append(text)
    return position


def _binbytes8(state: State, position: int) -> int:
    raw, position = state.payload(position, 8)
    state.stack.append(raw)
    return position


def _empty_set(state: State, position: int) -> int:
    state.push_built(Set())
    return position


def _additems(state: State, position: int) -> int:
    items = state.pop_mark()
    state.add_items(state.stack[-1], items)
    return position


def _frozenset(state: State, position: int) -> int:
    state.push_built(FrozenSet(state.pop_mark()))
    return position


def _newobj_ex(state: State, position: int) -> int:
    kwargs = state.stack.pop()
    args = state.stack.pop()
    if not isinstance(kwargs, (Dict, Node)):
        message = f"expected a dict of keywords for NEWOBJ_EX, got a {type(kwargs).__name__.lower()}"
        raise PickleError(message, offset=position)
    state.push_call(make_call("NEWOBJ_EX", state.stack.pop(), args, kwargs))
    return position


def _stack_global(state: State, position: int) -> int:
    name = state.stack.pop()
    module = state.stack.pop()
    if isinstance(module, str) and isinstance(name, str):
        state.push_call(make_global(state, module, name))
    elif isinstance(module, (str, Node)) and isinstance(name, (str, Node)):
        state.push_call(Call("STACK_GLOBAL", None, (module, name)))
    else:
        message = "expected texts for the module and name of STACK_GLOBAL, got other values"
        raise PickleError(message, offset=position)
    return position


def _frame(state: State, position: int) -> int:
    size = _UINT8(state.data, position)[0]
    if state.is_unframed:
        return position + 8
    state.enter_frame(position + 8, size)
    return 0


def _bytearray8(state: State, position: int) -> int:
    raw, position = state.payload(position, 8)
    state.push_built(bytearray(raw) if type(raw) is bytes else raw)
    return position


def _next_buffer(state: State, position: int) -> NoReturn:  # noqa: ARG001 -- the handlers' signature
    message = "the pickle refers to an out-of-band buffer, which no archive contains"
    raise PickleError(message, offset=position)


def _readonly_buffer(state: State, position: int) -> int:
    buffer = state.stack[-1]
    if type(buffer) is bytearray:
        state.stack[-1] = state.freeze(buffer)
    elif type(buffer) is Unread:
        state.stack[-1] = buffer.freeze()
    elif not isinstance(buffer, (bytes, Node)):
        message = f"expected a buffer for READONLY_BUFFER, got a {type(buffer).__name__.lower()}"
        raise PickleError(message, offset=position)
    return position


IN_LINE: Final = frozenset({
    "BINPUT", "MEMOIZE", "BINGET", "BININT1", "BINUNICODE", "MARK", "REDUCE", "TUPLE", "EMPTY_TUPLE", "EMPTY_DICT",
    "NEWFALSE", "BINPERSID", "TUPLE1", "TUPLE2", "SHORT_BINUNICODE", "BINFLOAT", "SETITEM", "SETITEMS", "BININT2",
    "NONE", "STOP", "LONG_BINPUT", "LONG_BINGET",
})  # fmt: skip
"""Opcodes that ``machine`` executes in its loop. Every other one has a function of its name above."""

HANDLERS: Final[dict[int, Callable[[State, int], int]]] = {
    code: globals()[f"_{row.name.lower()}"] for code, row in BY_CODE.items() if row.name not in IN_LINE
}
