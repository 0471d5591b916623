"""The inert pickle machine: opcodes in, a tree out; nothing is imported, called or hashed (FORMAT.md 5).

Theory of operation
-------------------

A pickle is a program for a stack machine. CPython's unpickler executes it: it imports names, calls them, and hashes
what it puts into dicts. This machine gives each opcode the same meaning, but where CPython would import or call, it
pushes a node of :mod:`sbformat.pkl.tree` that describes the import or the call.

In: the bytes of one pickle, the limits, and how much memory the values may take. Out: a :class:`Pickle`, which is the
tree, the log of every import, call and change, in the order in which CPython would do them, and whatever is unusual.

The state (:mod:`~sbformat.pkl.state`):

* ``stack`` holds the values above the last mark, ``marked`` the stacks below each mark. So MARK starts an empty list,
  and TUPLE makes a tuple of the whole of it; no opcode can take a value from below a mark.
* ``memo`` is a list as long as entries are stored in the order 0, 1, 2, as picklers do. An entry out of order goes to
  ``far_memo``, a dict whose keys are text: a file chooses the indexes, and could choose them to collide.
* ``log`` receives a row with each node that CPython would have imported or called, and with each change of a node. A
  value that is popped later has its row all the same.
* ``referred`` holds every composite value that was taken from the memo: it occurs twice in the tree. ``changed`` names
  those that were changed afterwards.
* ``built``, ``long``, ``long_cost`` count what the values take in memory.

For example, ``torch.save(collections.OrderedDict())`` writes::

    opcode                             stack afterwards                         memo, log
    PROTO 2
    GLOBAL collections OrderedDict     [Global]                                 log: Global
    BINPUT 0                           [Global]                                 memo: [Global]
    EMPTY_TUPLE                        [Global, ()]
    REDUCE                             [Call(REDUCE, Global, ())]               log: Global, Call
    BINPUT 1                           [Call(REDUCE, Global, ())]               memo: [Global, Call]
    STOP                               []                                       the Call is the tree

Invariants:

* Each opcode is executed here in the loop or by one handler, never in two ways.
* A count that a limit bounds is compared before the next opcode could pass it, or no opcode of so short a pickle can.
* An opcode reads its argument from the frame that it is in: ``data`` is that frame, a slice, or the whole pickle.
* The machine raises PickleError and LimitError, and nothing else. IndexError means that a value or a mark is missing on
  the stack, StopIteration and struct.error that bytes are missing: bytes are never indexed. They become PickleErrors in
  one place, :meth:`Machine.run`.

Why it is fast: opcodes are drawn from an iterator over the bytes, which takes half the time of indexing. Frequent
opcodes are executed in the loop itself, in the order of how often they occur in state dicts. The conditions are simple
equalities whose bodies are short, since CPython 3.11 only specializes comparisons that jump over less than 256 code
units. Most pickles are so short that no count can pass its limit, and then nothing is counted.
"""

from __future__ import annotations

import codecs
import re
import struct
from contextlib import suppress
from itertools import repeat
from operator import add
from struct import Struct
from typing import TYPE_CHECKING, Final, NoReturn

from sbformat.errors import PickleError, quote
from sbformat.immutable import Record
from sbformat.pkl.opcodes import BY_CODE
from sbformat.pkl.state import State, cut_short, make_call, make_global, too_long
from sbformat.pkl.tree import (
    COMPOSITES,
    Call,
    Dict,
    Extension,
    FrozenSet,
    Global,
    Node,
    Persistent,
    Set,
    Unread,
    Update,
)

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


if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class _ByteIterator(Protocol):
        """CPython's iterator over bytes, which can return and set its position."""

        def __iter__(self) -> _ByteIterator: ...
        def __next__(self) -> int: ...
        def __length_hint__(self) -> int: ...
        def __setstate__(self, position: int) -> None: ...


_MOST_COST: Final = 2048
"""More bytes of memory than an opcode without a long argument takes."""
_LEAST_ROOM: Final = 64
"""Opcodes between two comparisons of the counts: after each opcode, they would take ten times as long."""
_FLOAT8: Final = Struct(">d").unpack_from


class Pickle(Record):
    """The content of one pickle."""

    value: object
    """The inert tree."""
    log: list[Node | Update]
    """Every import, call and change of a node, in the order in which CPython would execute them."""
    protocol: int
    """The protocol of the last PROTO, or 0."""
    size: int
    """The length in bytes, including STOP."""
    shared: frozenset[int]
    """The ``id()`` of every composite value and node that occurs more than once."""
    flags: tuple[str, ...]
    """What is unusual, as sentences. A pickler of plain data leaves no values or marks on the stack and no frame beyond
    STOP, and does not change a value after a second reference to it (a value that contains itself needs that)."""
    discarded: tuple[object, ...] = ()
    """Values that were popped or left on the stack: an unpickler creates them nevertheless."""
    changed: frozenset[int] = frozenset()
    """The ``id()`` of every value that was changed after a second reference to it."""


class Machine(State):
    """The loop over the opcodes of one pickle.

    :param data: the pickle, and the bytes that follow it
    :param limits: the limits that it must keep
    :param encoding: the encoding of Python 2's 8-bit strings
    :param room: how many bytes of memory its values may take
    """

    __slots__ = ("codes",)

    codes: _ByteIterator
    """The bytes of the frame, or of the pickle, that are not yet read."""

    def run(self) -> Pickle:
        """Decode up to STOP."""
        try:
            return self._run()
        except IndexError:
            message = "an opcode takes a value from an empty stack, or a mark that does not exist"
            raise PickleError(message, offset=self.reached()) from None
        except (StopIteration, struct.error):
            message = "the pickle or a frame is cut short"
            raise cut_short(message, self.base + len(self.data)) from None
        except UnicodeDecodeError as error:
            message = f"expected text in {error.encoding}, got other bytes"
            raise PickleError(message) from None
        except PickleError as error:
            if error.offset is not None:
                error.offset += self.base
            raise

    def _run(self) -> Pickle:  # noqa: C901, PLR0912, PLR0915 -- a call for each opcode would take half as long again
        """Execute opcodes: frequent ones in this loop, the others by the table of handlers.

        Where a count could exceed its limit, the loop executes as many opcodes as the tightest limit certainly allows,
        then compares the counts again. Where a position is needed, the iterator returns it and is set to it.
        """
        data = self.data
        stack = self.stack
        marked = self.marked
        memo = self.memo
        far_memo = self.far_memo
        referred = self.referred
        log = self.log
        has_parts = COMPOSITES
        marks_allowed = self.limits.pickle_marks
        take = next
        new = object.__new__  # takes two thirds of the time of calling the class
        entries = len(memo)  # -1 once an entry was stored out of order
        built = executed = position = room = 0
        steps = repeat(0, 0)
        codes: _ByteIterator = iter(data)  # type: ignore[assignment]
        self.codes = codes
        size = len(data)
        while True:
            run: Iterator[int] = codes
            if self.is_counted:
                self.built = built
                room = self._room(executed, len(stack))
                steps = repeat(0, room)
                run = map(add, steps, codes)
            for code in run:
                if code == 0x71:  # BINPUT
                    index = take(codes)
                    if index == entries:
                        memo.append(stack[-1])
                        entries += 1
                        continue
                    self.put(index, stack[-1])
                    entries = -1 if far_memo else len(memo)
                    continue
                if code == 0x4B:  # BININT1
                    stack.append(take(codes))
                    continue
                if code == 0x68:  # BINGET
                    index = take(codes)
                    value = memo[index] if index < entries else self.get(index)
                    if type(value) in has_parts:
                        referred[id(value)] = value
                    stack.append(value)
                    continue
                if code == 0x58:  # BINUNICODE
                    length = take(codes)
                    is_long = take(codes) + take(codes) + take(codes)
                    start = size - codes.__length_hint__()
                    stop = start + length
                    if is_long:
                        stop = self.long_text(start)
                    if stop > size:
                        too_long(start, stop)
                    text = data[start:stop]
                    try:
                        stack.append(text.decode())
                    except UnicodeDecodeError:  # rare; as an argument for every text it would take a fifth longer
                        stack.append(self.surrogate_text(text))
                    codes.__setstate__(stop)
                    continue
                if code == 0x52:  # REDUCE
                    args = stack.pop()
                    func = stack.pop()
                    if type(func) is Global and type(args) is tuple:
                        call = new(Call)
                        call.updates = None
                        call.how = "REDUCE"
                        call.func = func
                        call.args = args
                        call.kwargs = None
                    else:
                        call = make_call("REDUCE", func, args)
                    stack.append(call)
                    log.append(call)
                    built += 1
                    continue
                if code == 0x28:  # MARK
                    marked.append(stack)
                    if len(marked) > marks_allowed:
                        self.exceeded("pickle_marks", len(marked))
                    stack = []
                    continue
                if code == 0x74:  # TUPLE
                    items = stack
                    stack = marked.pop()
                    stack.append(tuple(items))
                    built += 1
                    continue
                if code == 0x73:  # SETITEM
                    value = stack.pop()
                    key = stack.pop()
                    target = stack[-1]
                    if type(target) is Dict and not referred:
                        target.append((key, value))
                    else:
                        self.set_items(target, [key, value])
                        built += type(target) is not Dict  # the change counts besides the pair
                    built += 1
                    continue
                if code == 0x7D:  # EMPTY_DICT
                    stack.append(Dict())
                    built += 1
                    continue
                if code == 0x94:  # MEMOIZE
                    if far_memo:
                        self.put(len(memo) + len(far_memo), stack[-1])
                    else:
                        memo.append(stack[-1])
                        entries += 1
                    continue
                if code > 0x84:
                    if code == 0x86:  # TUPLE2
                        last = stack.pop()
                        stack.append((stack.pop(), last))
                        built += 1
                        continue
                    if code == 0x89:  # NEWFALSE
                        stack.append(False)
                        continue
                    if code == 0x85:  # TUPLE1
                        stack.append((stack.pop(),))
                        built += 1
                        continue
                if code == 0x72:  # LONG_BINPUT
                    index = take(codes) + 0x100 * take(codes) + 0x10000 * take(codes) + 0x1000000 * take(codes)
                    if index == entries:
                        memo.append(stack[-1])
                        entries += 1
                        continue
                    self.put(index, stack[-1])
                    entries = -1 if far_memo else len(memo)
                    continue
                if code == 0x8C:  # SHORT_BINUNICODE
                    length = take(codes)
                    start = size - codes.__length_hint__()
                    stop = start + length
                    if stop > size:
                        too_long(start, stop)
                    text = data[start:stop]
                    try:
                        stack.append(text.decode())
                    except UnicodeDecodeError:
                        stack.append(self.surrogate_text(text))
                    codes.__setstate__(stop)
                    continue
                if code == 0x29:  # EMPTY_TUPLE
                    stack.append(())
                    continue
                if code == 0x51:  # BINPERSID
                    reference = new(Persistent)
                    reference.updates = None
                    reference.id = stack.pop()
                    stack.append(reference)
                    built += 1
                    continue
                if code == 0x4D:  # BININT2
                    stack.append(take(codes) + 0x100 * take(codes))
                    continue
                if code == 0x6A:  # LONG_BINGET
                    index = take(codes) + 0x100 * take(codes) + 0x10000 * take(codes) + 0x1000000 * take(codes)
                    value = memo[index] if index < entries else self.get(index)
                    if type(value) in has_parts:
                        referred[id(value)] = value
                    stack.append(value)
                    continue
                if code == 0x4E:  # NONE
                    stack.append(None)
                    continue
                if code == 0x47:  # BINFLOAT
                    start = size - codes.__length_hint__()
                    stack.append(_FLOAT8(data, start)[0])
                    codes.__setstate__(start + 8)
                    continue
                if code == 0x75:  # SETITEMS
                    items = stack
                    stack = marked.pop()
                    self.set_items(stack[-1], items)
                    built += (len(items) >> 1) + (type(stack[-1]) is not Dict)
                    continue
                if code == 0x30 and stack:  # POP of a value, not of a mark
                    value = stack.pop()
                    if type(value) in has_parts:
                        self.discarded.append(value)
                    continue
                if code == 0x2E:  # STOP
                    self.built = built
                    return self._finish(stack, size - codes.__length_hint__())
                self.stack, self.built = stack, built
                position = size - codes.__length_hint__()
                handler = HANDLERS.get(code)
                if handler is None:
                    message = f"expected a pickle opcode, got {code:#04x}"
                    raise PickleError(message, offset=position - 1)
                position = handler(self, position)
                stack, built = self.stack, self.built
                entries = -1 if far_memo else len(memo)
                if self.data is not data:  # a frame starts
                    break
                codes.__setstate__(position)
            executed += room - steps.__length_hint__()
            if self.data is data:
                if codes.__length_hint__():
                    continue  # the counts have to be compared
                position = self._leave_frame()
            data = self.data
            size = len(data)
            codes = iter(data)  # type: ignore[assignment]
            self.codes = codes
            codes.__setstate__(position)

    def reached(self) -> int:
        """Return the number of bytes that were read."""
        return self.base + len(self.data) - self.codes.__length_hint__()

    # -- limits, frames, the end ----------------------------------------------------------------------

    def _room(self, executed: int, above_mark: int) -> int:
        """Return the number of opcodes that may be executed before the counts have to be compared again."""
        limits = self.limits
        depth = above_mark + sum(map(len, self.marked))
        opcodes = room = limits.pickle_opcodes - executed
        if room <= 0:
            self.exceeded("pickle_opcodes", executed + 1)
        for limit, count in (
            ("pickle_stack", depth),
            ("pickle_memo", len(self.memo) + 2 * len(self.far_memo)),
            ("pickle_nodes", self.built),
        ):
            left = getattr(limits, limit) - count
            if left < 0:
                self.exceeded(limit, count)
            room = min(room, left)
        if not self.is_small:
            room = min(room, self.check_memory(self.reached()) // _MOST_COST)
        return min(max(room, _LEAST_ROOM), opcodes)

    def _leave_frame(self) -> int:
        """Leave the frame, and return the position in the pickle where it ends."""
        if not self.base:
            message = "the pickle is cut short: it has no STOP"
            raise cut_short(message, len(self.whole))
        position = self.base + len(self.data)
        self.data = self.whole
        self.base = 0
        return position

    def _finish(self, stack: list[object], position: int) -> Pickle:
        if self.is_counted:  # since the last comparison
            for limit, count in (("pickle_memo", len(self.memo) + len(self.far_memo)), ("pickle_nodes", self.built)):
                if count > getattr(self.limits, limit):
                    self.exceeded(limit, count)
        value = stack.pop()
        flags = []
        if stack or any(self.marked):
            flags.append("values are left on the stack at STOP")
        if self.marked:
            flags.append("marks are left on the stack at STOP")
        if self.changed:
            flags.append("a value is changed after a second reference to it, as happens when a value contains itself")
        if position < len(self.data) and self.base:
            flags.append("a frame extends beyond STOP")
        if self.notes.is_odd:
            flags.append("a number or text is encoded in an unusual way")
        left = [item for items in (*self.marked, stack) for item in items] if stack or self.marked else []
        return Pickle(
            value,
            self.log,
            self.protocol,
            self.base + position,
            frozenset(self.referred),
            tuple(flags),
            (*self.discarded, *left),
            frozenset(self.changed),
        )
