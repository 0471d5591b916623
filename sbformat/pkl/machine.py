"""The inert pickle machine: opcodes in, a tree out; nothing is imported, called or hashed (FORMAT.md 5).

A pickle is a program for a stack machine. CPython's unpickler executes it: it imports names, calls them, and hashes
what it puts into dicts. This machine gives each opcode the same meaning, but where CPython would import or call, it
pushes a node of :mod:`sbformat.pkl.tree` that describes the import or the call. Its state
(:mod:`~sbformat.pkl.state`) is:

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
    GLOBAL collections OrderedDict     [Global]                                 log: Global
    BINPUT 0                           [Global]                                 memo: [Global]
    EMPTY_TUPLE                        [Global, ()]
    REDUCE                             [Call(REDUCE, Global, ())]               log: Global, Call
    BINPUT 1                           [Call(REDUCE, Global, ())]               memo: [Global, Call]
    STOP                               []                                       the Call is the tree

Invariants: each opcode is executed in the loop or by one handler, never in two ways. A count that a limit bounds is
compared before the next opcode could pass it, or no opcode of so short a pickle can. An opcode reads its argument from
the frame that it is in: ``data`` is that frame, a slice, or the whole pickle. Nothing but PickleError and LimitError is
raised: IndexError means that a value or a mark is missing on the stack, StopIteration and struct.error that bytes are
missing (bytes are never indexed); they become PickleErrors in one place, :meth:`Machine.run`.

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
from functools import partial
from itertools import repeat
from operator import add
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.errors import PickleError, quote
from sbformat.immutable import Record
from sbformat.pkl.opcodes import BY_CODE
from sbformat.pkl.state import State, cut_short, make_call, make_global, refuse, too_long
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

_UINT1: Final = Struct("B")
_UINT2: Final = Struct("<H")
_INT4: Final = Struct("<i")
_UINT8: Final = Struct("<Q")

# Compiled when first used: text opcodes are rare, and compiling takes longer than reading an archive.
_INT: Final = rb"0|-?[1-9][0-9]*"
_FLOAT: Final = rb"(?i)-?(?:inf|nan|[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]{1,4})?)"
_BAD_ESCAPE: Final = rb"""\\(?!['"nrt]|x[0-9a-fA-F]{2})"""
_ANY_ESCAPE: Final = rb"(?s)\\(x[0-9a-fA-F]{2}|[0-7]{1,3}|.)"
_ODD_DIGITS: Final = 4000  # the most digits of a number that no pickler writes: CPython accepts few more
_ESCAPES: Final = {
    b"\n": b"", b"\\": b"\\", b"'": b"'", b'"': b'"', b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r",
    b"t": b"\t", b"v": b"\v",
}  # fmt: skip
_INFINITIES: Final = (float("inf"), float("-inf"))
_LINE_DIGITS: Final = 600  # below the lowest limit on digits that an interpreter can be configured with


def _pop(state: State) -> None:
    """Remove the mark. POP of a value is executed in the loop."""
    state.pop_mark()


def _pop_mark(state: State) -> None:
    state.discarded.extend(value for value in state.pop_mark() if type(value) in COMPOSITES)


def _dup(state: State) -> None:
    state.stack.append(state.refer(state.stack[-1]))


def _odd(state: State, text: bytes, parse: Callable[[bytes], object]) -> Any:
    """Return CPython's value of a number that no pickler writes, up to a NUL; None if CPython refuses it, too."""
    if not state.is_lenient:
        return None
    text = text.partition(b"\0")[0].strip()
    try:
        value = parse(text) if len(text) <= _ODD_DIGITS else 0  # its value has no effect on what follows
    except ValueError:
        return None
    state.is_odd = True
    return value


def _float(state: State) -> None:
    text = state.line()
    is_plain = re.fullmatch(_FLOAT, text) and (float(text) not in _INFINITIES or text[-1:] in b"fF")
    value = float(text) if is_plain else _odd(state, text, float)
    if value is None:
        refuse(f"expected a float, got {quote(text.decode('latin-1'))}", state.position)
    state.stack.append(value)


def _whole(state: State, text: bytes) -> int:
    is_long = len(text) > _LINE_DIGITS
    if not is_long and re.fullmatch(_INT, text):
        return int(text)
    odd: int | None = _odd(state, text, _any_base)
    if odd is None:
        message = f"expected an integer, got {quote(text.decode('latin-1'))}"
        if is_long:
            message = f"expected at most {_LINE_DIGITS} decimal digits (longer integers are binary), got {len(text)}"
        refuse(message, state.position)
    return odd


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


def _int(state: State) -> None:
    text = state.line()
    state.stack.append(text == b"01" if text in (b"00", b"01") else _whole(state, text))


def _long(state: State) -> None:
    state.stack.append(_whole(state, state.line().removesuffix(b"L")))


def _binint(state: State) -> None:
    state.stack.append(state.unpack(_INT4))


def _persid(state: State) -> None:
    state.push_built(Persistent(state.line().decode("ascii")))


def _escape(found: re.Match[bytes]) -> bytes:
    """Return what Python 2 replaces an escape by, also one that it never wrote."""
    text = found[1]
    if text[:1] == b"x" and len(text) == 3:
        return bytes([int(text[1:], 16)])
    if text[0] in b"01234567":
        return bytes([int(text, 8) & 0xFF])
    return _ESCAPES.get(text, found[0])


def _string(state: State) -> None:
    text = state.line()
    body = text[1:-1]
    is_quoted = len(text) >= 2 and text[:1] in (b"'", b'"') and text[:1] == text[-1:]
    # whether every backslash starts an escape that Python 2 wrote, in linear time and memory: pairs of them are removed
    if is_quoted and re.search(_BAD_ESCAPE, body.replace(b"\\\\", b"  ")):
        is_quoted = state.is_odd = state.is_lenient
        body = re.sub(_ANY_ESCAPE, _escape, body).replace(b"\\", b"\\\\")
    if not is_quoted:
        refuse("expected a quoted STRING with the escapes of Python 2, got another one", state.position)
    raw = codecs.escape_decode(body)[0]  # as CPython's own load_string
    state.stack.append(state.text(raw))


def _binstring(state: State) -> None:
    state.stack.append(state.text(state.counted(4, signed=True)))


def _short_binstring(state: State) -> None:
    state.stack.append(state.text(state.counted(1)))


def _unicode(state: State) -> None:
    state.stack.append(state.check_surrogates(state.line().decode("raw-unicode-escape")))


def _append(state: State) -> None:
    value = state.stack.pop()
    state.add_items("APPENDS", state.stack[-1], [value])


def _appends(state: State) -> None:
    items = state.pop_mark()
    state.add_items("APPENDS", state.stack[-1], items)


def _additems(state: State) -> None:
    items = state.pop_mark()
    state.add_items("ADDITEMS", state.stack[-1], items)


def _build(state: State) -> None:
    attributes = state.stack.pop()
    state.update("BUILD", state.stack[-1], attributes)


def _global(state: State) -> None:
    module, name = state.line(), state.line()
    state.push_call(make_global(state, module.decode(), name.decode()))


def _dict(state: State) -> None:
    items = state.pop_mark()
    pairs = Dict()
    state.set_items(pairs, items)
    state.built += len(items) >> 1
    state.push_built(pairs)


def _get(state: State) -> None:
    state.stack.append(state.refer(state.get(state.decimal())))


def _put(state: State) -> None:
    state.put(state.decimal(), state.stack[-1])


def _inst(state: State) -> None:
    _global(state)  # CPython's unpickler in Python imports before it looks for the mark
    func = state.stack.pop()
    args = tuple(state.pop_mark())
    state.built += bool(args)
    state.push_call(make_call("INST", func, args))


def _obj(state: State) -> None:
    items = state.pop_mark()
    state.built += len(items) > 1
    state.push_call(make_call("OBJ", items[0], tuple(items[1:])))


def _list(state: State) -> None:
    state.push_built(state.pop_mark())


def _empty_list(state: State) -> None:
    state.push_built([])


def _empty_set(state: State) -> None:
    state.push_built(Set())


def _frozenset(state: State) -> None:
    state.push_built(FrozenSet(state.pop_mark()))


def _tuple3(state: State) -> None:
    stack = state.stack
    last = stack.pop()
    middle = stack.pop()
    state.push_built((stack.pop(), middle, last))


def _newtrue(state: State) -> None:
    state.stack.append(True)


def _proto(state: State) -> None:
    protocol = state.unpack(_UINT1)
    if protocol > HIGHEST_PROTOCOL:
        refuse(f"expected protocol 0 to {HIGHEST_PROTOCOL}, got {protocol}", state.position - 1)
    state.protocol = protocol


def _newobj(state: State) -> None:
    args = state.stack.pop()
    state.push_call(make_call("NEWOBJ", state.stack.pop(), args))


def _newobj_ex(state: State) -> None:
    kwargs = state.stack.pop()
    args = state.stack.pop()
    if not isinstance(kwargs, (Dict, Node)):
        name = type(kwargs).__name__.lower()
        refuse(f"expected a dict of keywords for NEWOBJ_EX, got a {name}", state.position)
    state.push_call(make_call("NEWOBJ_EX", state.stack.pop(), args, kwargs))


def _extension(state: State, layout: Struct) -> None:
    start = state.position
    code = state.unpack(layout)
    if code <= 0:
        refuse(f"expected an extension code above 0, got {code}", start)
    state.push_call(Extension(code))


_ext1, _ext2, _ext4 = (partial(_extension, layout=layout) for layout in (_UINT1, _UINT2, _INT4))


def _long1(state: State) -> None:
    state.stack.append(int.from_bytes(state.counted(1), "little", signed=True))


def _long4(state: State) -> None:
    state.stack.append(int.from_bytes(state.counted(4, signed=True), "little", signed=True))


def _binbytes(state: State) -> None:
    state.stack.append(state.payload(4))


def _short_binbytes(state: State) -> None:
    state.stack.append(state.counted(1))


def _binbytes8(state: State) -> None:
    state.stack.append(state.payload(8))


def _bytearray8(state: State) -> None:
    raw = state.payload(8)
    state.push_built(bytearray(raw) if type(raw) is bytes else raw)


def _binunicode8(state: State) -> None:
    raw = state.counted(8)
    state.add_width(raw)
    state.check_memory(state.long)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = state.surrogate_text(raw)
    state.stack.append(text)


def _stack_global(state: State) -> None:
    name = state.stack.pop()
    module = state.stack.pop()
    if isinstance(module, str) and isinstance(name, str):
        state.push_call(make_global(state, module, name))
    elif isinstance(module, (str, Node)) and isinstance(name, (str, Node)):
        state.push_call(Call("STACK_GLOBAL", None, (module, name)))
    else:
        refuse("expected texts for the module and name of STACK_GLOBAL, got other values", state.position)


def _frame(state: State) -> None:
    size = state.unpack(_UINT8)
    if not state.is_unframed:
        state.enter_frame(size)


def _next_buffer(state: State) -> NoReturn:
    refuse("the pickle refers to an out-of-band buffer, which no archive contains", state.position)


def _readonly_buffer(state: State) -> None:
    buffer = state.stack[-1]
    if type(buffer) is bytearray:
        state.stack[-1] = state.freeze(buffer)
    elif type(buffer) is Unread:
        state.stack[-1] = buffer.freeze()
    elif not isinstance(buffer, (bytes, Node)):
        refuse(f"expected a buffer for READONLY_BUFFER, got a {type(buffer).__name__.lower()}", state.position)


HANDLERS: Final[dict[int, Callable[[State], None]]] = {
    code: globals()[f"_{row.name.lower()}"] for code, row in BY_CODE.items() if f"_{row.name.lower()}" in globals()
}
"""The functions above, by opcode. Every other opcode is executed in the loop."""


if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class _ByteIterator(Protocol):
        """CPython's iterator over bytes, which can return and set its position."""

        def __iter__(self) -> _ByteIterator: ...
        def __next__(self) -> int: ...
        def __length_hint__(self) -> int: ...
        def __setstate__(self, position: int) -> None: ...


_MOST_COST: Final = 2048  # more bytes of memory than an opcode without a long argument takes
_LEAST_ROOM: Final = 64
"""Opcodes between two comparisons of the counts: after each opcode, they would take ten times as long."""
_FLOAT8: Final = Struct(">d").unpack_from


class Pickle(Record):
    """The content of one pickle."""

    value: object  # the inert tree
    log: list[Node | Update]
    """Every import, call and change of a node, in the order in which CPython would execute them."""
    protocol: int  # the protocol of the last PROTO, or 0
    size: int  # the length in bytes, including STOP
    shared: frozenset[int]  # the ``id()`` of every composite value and node that occurs more than once
    flags: tuple[str, ...]
    """What is unusual, as sentences. A pickler of plain data leaves no values or marks on the stack and no frame beyond
    STOP, and does not change a value after a second reference to it (a value that contains itself needs that)."""
    discarded: tuple[object, ...] = ()
    """Values that were popped or left on the stack: an unpickler creates them nevertheless."""
    changed: frozenset[int] = frozenset()  # the ``id()`` of every value that was changed after a second reference to it


class Machine(State):
    """The loop over the opcodes of one pickle.

    :param room: how many bytes of memory its values may take
    """

    __slots__ = ("codes",)

    codes: _ByteIterator  # the bytes of the frame, or of the pickle, that are not yet read

    def run(self) -> Pickle:
        try:
            return self._run()
        except IndexError:
            message = "an opcode takes a value from an empty stack, or a mark that does not exist"
            raise PickleError(message, offset=self.reached()) from None
        except (StopIteration, struct.error):
            raise cut_short("the pickle or a frame is cut short", self.base + len(self.data)) from None
        except UnicodeDecodeError as error:
            raise PickleError(f"expected text in {error.encoding}, got other bytes") from None
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
                    refuse(f"expected a pickle opcode, got {code:#04x}", position - 1)
                self.position = position
                handler(self)
                position, stack, built = self.position, self.stack, self.built
                entries = -1 if far_memo else len(memo)
                # FRAME replaces ``data`` by a slice, so that the iterator over the old bytes is of no use
                if self.data is not data:
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
            raise cut_short("the pickle is cut short: it has no STOP", len(self.whole))
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
        shared, changed = frozenset(self.referred), frozenset(self.changed)
        flags = (
            (stack or any(self.marked), "values are left on the stack at STOP"),
            (self.marked, "marks are left on the stack at STOP"),
            (changed, "a value is changed after a second reference to it, as happens when a value contains itself"),
            (position < len(self.data) and self.base, "a frame extends beyond STOP"),
            (self.is_odd, "a number or text is encoded in an unusual way"),
        )
        odd = tuple(flag for is_set, flag in flags if is_set)
        left = [item for items in (*self.marked, stack) for item in items] if stack or self.marked else []
        dropped = (*self.discarded, *left)
        return Pickle(value, self.log, self.protocol, self.base + position, shared, odd, dropped, changed)
