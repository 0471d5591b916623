"""The inert pickle machine: opcodes in, a tree out, nothing imported, called or hashed.

Each opcode means what it means to CPython 3's ``pickle`` (FORMAT.md 5.1); what CPython would import or
call becomes a node of :mod:`sbformat.pkl.tree` and a line of the log. Contract of the handlers: take
``(machine, position)``, with the opcode's byte behind ``position``; return the position behind its
argument. Python's IndexError and struct.error stand for a pickle that ends early or takes from an empty
stack; one place turns them into ours.
"""

from __future__ import annotations

import re
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from itertools import islice, repeat
from operator import add
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from sbformat.errors import LimitError, PickleError, quote
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.opcodes import BY_CODE
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set, Update

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.cursor import Cursor
    from sbformat.pkl.tree import How, UpdateHow

HIGHEST_PROTOCOL: Final = 5
FIX_IMPORTS_BELOW: Final = 3
"""Below this protocol CPython renames Python 2 modules before it imports (``fix_imports``)."""

_WINDOW: Final = 1 << 16

_INT4: Final = Struct("<i").unpack_from
_UINT4: Final = Struct("<I").unpack_from
_UINT8: Final = Struct("<Q").unpack_from
_FLOAT8: Final = Struct(">d").unpack_from


class Pickle(NamedTuple):
    """What one pickle says."""

    value: object
    """The inert tree."""
    log: list[Node | Update]
    """Every import, call and change of a node, in the order in which CPython would do them."""
    protocol: int
    """The last PROTO, or 0."""
    size: int
    """Bytes up to and with STOP."""
    flags: tuple[str, ...]
    """What a pickler never leaves behind: values or marks on the stack at STOP, a frame past it."""


def loads(data: bytes | bytearray | memoryview, *, limits: Limits = DEFAULT_LIMITS) -> object:
    """Decode one pickle that is all of ``data`` into an inert tree.

    :param data: the pickle; nothing may follow its STOP
    :param limits: what it may ask for
    :return: plain values and the nodes of :mod:`sbformat.pkl.tree`
    :raises PickleError: when it is no pickle, is cut short, or has bytes behind it (FORMAT.md 5)
    :raises LimitError: when it asks for more than allowed
    """
    return decode_pickle(data, Budget(limits)).value


def decode_pickle(data: bytes | bytearray | memoryview, budget: Budget, *, encoding: str = "ascii") -> Pickle:
    """Like :func:`loads`, with the log and within an operation's budget.

    :param encoding: of Python 2's 8-bit strings: ASCII, as ``pickle.loads`` has it, UTF-8 for ``torch.load``
    """
    budget.spend("pickle_bytes", len(data))
    whole = bytes(data)
    pickle = _Machine(whole, budget.limits, encoding).run()
    if pickle.size != len(whole):
        message = f"{len(whole) - pickle.size} bytes follow the STOP of the pickle"
        raise PickleError(message, offset=pickle.size)
    return pickle


def decode_next(cursor: Cursor, budget: Budget) -> Pickle:
    """Decode one pickle of several from where the cursor stands; leave the cursor behind its STOP.

    Only the bytes that the pickle needs are copied: what follows may be gigabytes of storages.
    """
    window = _WINDOW
    while True:
        data = bytes(cursor.view[cursor.position : cursor.position + window])
        try:
            pickle = _Machine(data, budget.limits, "utf-8").run()
        except PickleError as error:
            if window < cursor.left and window < budget.limits.pickle_bytes:
                window *= 4
                continue
            if error.offset is not None:
                error.offset += cursor.position
            raise
        budget.spend("pickle_bytes", pickle.size)
        cursor.position += pickle.size
        return pickle


class _Machine:
    """One pickle's stack, memo and log. ``stack`` holds what lies above the last mark."""

    __slots__ = (
        "base", "below", "built", "data", "encoding", "far_memo", "is_short", "limits", "log", "marked", "memo",
        "protocol", "stack", "whole",
    )  # fmt: skip

    def __init__(self, data: bytes, limits: Limits, encoding: str) -> None:
        self.whole = data
        self.data = data
        """The frame, or all when in none."""
        self.base = 0
        """Where the frame begins; 0 when in none."""
        self.limits = limits
        self.is_short = len(data) <= limits.pickle_opcodes
        """No more bytes than opcodes are allowed: they need no count."""
        self.encoding = encoding
        self.stack: list[object] = []
        self.marked: list[list[object]] = []
        """The stacks below each mark."""
        self.below = 0
        """Values on them."""
        self.memo: list[object] = []
        """Entries 0..n-1, while indexes come in order."""
        self.far_memo: dict[str, object] = {}
        """Entries that came out of order: keyed by text, whose hash no file can choose."""
        self.built = 0
        """Composite values made so far."""
        self.protocol = 0
        self.log: list[Node | Update] = []

    def run(self) -> Pickle:
        """Decode up to STOP, turning every way to fail into PickleError."""
        try:
            return self._run()
        except KeyError as error:
            message = f"{error.args[0]:#04x} is no pickle opcode"
        except (IndexError, StopIteration, struct.error):
            message = "the pickle or a frame of it is cut short, or an opcode takes from an empty stack or past a mark"
        except UnicodeDecodeError as error:
            message = f"a text is not {error.encoding}"
        except PickleError as error:
            if error.offset is not None:
                error.offset += self.base
            raise
        raise PickleError(message, offset=self.base + len(self.data))

    def _run(self) -> Pickle:  # noqa: C901, PLR0912, PLR0915 -- a call an opcode costs half as much again
        """Execute opcodes: the frequent ones in line, by range and falling frequency, the others by table.

        The opcodes are drawn from an iterator over the bytes, which costs half of indexing them (44 to
        92 ns for BININT1); where a position is needed, the iterator gives and takes it. Limits on counts
        cost nothing an opcode: each opcode adds at most one to each count, so the loop runs as many
        opcodes as the tightest count has room for, then looks again.
        """
        data = self.data
        stack = self.stack
        marked = self.marked
        memo = self.memo
        far_memo = self.far_memo
        log = self.log
        marks_allowed = self.limits.pickle_marks
        below = built = executed = position = 0
        codes = iter(data)
        operand = codes.__next__
        size = len(data)
        while True:
            self.built = built
            room = self._room(executed, below + len(stack))
            steps = repeat(0, room)
            for code in islice(codes, room) if self.is_short else map(add, steps, codes):
                if code == 0x71:  # BINPUT
                    index = operand()
                    if index == len(memo) and not far_memo:
                        memo.append(stack[-1])
                    else:
                        self.put(index, stack[-1])
                    continue
                if code < 0x60:
                    if code == 0x4B:  # BININT1
                        stack.append(operand())
                        continue
                    if code == 0x58:  # BINUNICODE
                        start = size - codes.__length_hint__() + 4
                        stop = start + _UINT4(data, start - 4)[0]
                        if stop > size:
                            _too_long(start, stop)
                        stack.append(data[start:stop].decode("utf-8", "surrogatepass"))
                        codes.__setstate__(stop)
                        continue
                    if code == 0x28:  # MARK
                        marked.append(stack)
                        below += len(stack)
                        if len(marked) > marks_allowed:
                            self._exceeded("pickle_marks", len(marked))
                        stack = []
                        continue
                    if code == 0x52:  # REDUCE
                        args = stack.pop()
                        func = stack[-1]
                        plain = type(func) is Global and type(args) is tuple
                        call = Call("REDUCE", func, args) if plain else _call("REDUCE", func, args)
                        stack[-1] = call
                        log.append(call)
                        built += 1
                        continue
                    if code == 0x29:  # EMPTY_TUPLE
                        stack.append(())
                        continue
                    if code == 0x51:  # BINPERSID
                        stack[-1] = Persistent(stack[-1])
                        built += 1
                        continue
                    if code == 0x47:  # BINFLOAT
                        start = size - codes.__length_hint__()
                        stack.append(_FLOAT8(data, start)[0])
                        codes.__setstate__(start + 8)
                        continue
                    if code == 0x4D:  # BININT2
                        stack.append(operand() | operand() << 8)
                        continue
                    if code == 0x4E:  # NONE
                        stack.append(None)
                        continue
                    if code == 0x2E:  # STOP
                        return self._finish(stack, size - codes.__length_hint__())
                elif code < 0x80:
                    if code == 0x68:  # BINGET
                        index = operand()
                        stack.append(memo[index] if index < len(memo) else self.get(index))
                        continue
                    if code == 0x74:  # TUPLE
                        items = stack
                        stack = marked.pop()
                        below -= len(stack)
                        stack.append(tuple(items))
                        built += 1
                        continue
                    if code == 0x7D:  # EMPTY_DICT
                        stack.append(Dict())
                        built += 1
                        continue
                    if code == 0x73:  # SETITEM
                        value = stack.pop()
                        key = stack.pop()
                        if type(stack[-1]) is Dict:
                            stack[-1].append((key, value))
                        else:
                            self.update("SETITEMS", stack[-1], [(key, value)])
                        built += 1
                        continue
                    if code == 0x75:  # SETITEMS
                        items = stack
                        stack = marked.pop()
                        below -= len(stack)
                        self.set_items(stack[-1], items)
                        built += len(items) >> 1
                        continue
                else:
                    if code == 0x94:  # MEMOIZE
                        if far_memo:
                            self.put(len(memo) + len(far_memo), stack[-1])
                        else:
                            memo.append(stack[-1])
                        continue
                    if code == 0x8C:  # SHORT_BINUNICODE
                        length = operand()
                        start = size - codes.__length_hint__()
                        stop = start + length
                        if stop > size:
                            _too_long(start, stop)
                        stack.append(data[start:stop].decode("utf-8", "surrogatepass"))
                        codes.__setstate__(stop)
                        continue
                    if code == 0x89:  # NEWFALSE
                        stack.append(False)
                        continue
                    if code == 0x85:  # TUPLE1
                        stack[-1] = (stack[-1],)
                        built += 1
                        continue
                    if code == 0x86:  # TUPLE2
                        last = stack.pop()
                        stack[-1] = (stack[-1], last)
                        built += 1
                        continue
                self.stack, self.below, self.built = stack, below, built
                position = _HANDLERS[code](self, size - codes.__length_hint__())
                stack, below, built = self.stack, self.below, self.built
                if self.data is not data:  # a frame begins
                    break
                codes.__setstate__(position)
            executed += room - steps.__length_hint__()
            if self.data is data:
                if codes.__length_hint__():
                    continue  # a count has to be looked at
                position = self._leave_frame()
            data = self.data
            size = len(data)
            codes = iter(data)
            operand = codes.__next__
            codes.__setstate__(position)

    # -- limits, frames, the end ----------------------------------------------------------------------

    def _room(self, executed: int, depth: int) -> int:
        """How many opcodes may run before a count has to be looked at again."""
        limits = self.limits
        room = limits.pickle_opcodes - executed
        if room <= 0:
            self._exceeded("pickle_opcodes", executed + 1)
        for limit, count in (
            ("pickle_stack", depth),
            ("pickle_memo", len(self.memo) + len(self.far_memo)),
            ("pickle_nodes", self.built),
        ):
            left = getattr(limits, limit) - count
            if left < 0:
                self._exceeded(limit, count)
            room = min(room, left)
        return max(room, 1)

    def _exceeded(self, limit: str, actual: int) -> NoReturn:
        raise LimitError(limit, allowed=getattr(self.limits, limit), actual=actual)

    def enter_frame(self, start: int, size: int) -> None:
        """Go on in a frame: a slice of its own, so that no opcode can reach out of it."""
        if self.base:
            message = "a frame lies within a frame"
            raise PickleError(message, offset=start)
        if size > len(self.whole) - start:
            _too_long(start, start + size)
        self.data = self.whole[start : start + size]
        self.base = start

    def _leave_frame(self) -> int:
        """Go on behind the frame; return where that is."""
        if not self.base:
            message = "the pickle is cut short: there is no STOP"
            raise PickleError(message, offset=len(self.whole))
        position = self.base + len(self.data)
        self.data = self.whole
        self.base = 0
        return position

    def _finish(self, stack: list[object], position: int) -> Pickle:
        value = stack.pop()
        flags = []
        if stack or any(self.marked):
            flags.append("values are left on the stack at STOP")
        if self.marked:
            flags.append("marks are left on the stack at STOP")
        if position < len(self.data) and self.base:
            flags.append("a frame reaches past STOP")
        return Pickle(value, self.log, self.protocol, self.base + position, tuple(flags))

    # -- memo and stack -------------------------------------------------------------------------------

    def put(self, index: int, value: object) -> None:
        """Set a memo entry, in order or out of it."""
        memo = self.memo
        if index < len(memo):
            memo[index] = value
        elif index == len(memo):
            memo.append(value)
            self.far_memo.pop(str(index), None)
        elif index > self.limits.pickle_memo_index:
            self._exceeded("pickle_memo_index", index)
        else:
            self.far_memo[str(index)] = value

    def get(self, index: int) -> object:
        """Return a memo entry."""
        if index < len(self.memo):
            return self.memo[index]
        try:
            return self.far_memo[str(index)]
        except KeyError:
            message = f"the memo has no entry {index}"
            raise PickleError(message) from None

    def pop_mark(self) -> list[object]:
        """Return what lies above the last mark and drop the mark."""
        items = self.stack
        self.stack = self.marked.pop()
        self.below -= len(self.stack)
        return items

    def push_built(self, value: object) -> None:
        """Push a composite value."""
        self.built += 1
        self.stack.append(value)

    def push_call(self, call: Call | Global | Extension) -> None:
        """Push what CPython would have imported or called, and log it."""
        self.log.append(call)
        self.push_built(call)

    # -- changes --------------------------------------------------------------------------------------

    def update(self, how: UpdateHow, target: object, value: object) -> None:
        """Note a change to a node; anything else has no such method."""
        if not isinstance(target, Node):
            message = f"{how} on a value of type {type(target).__name__.lower()}"
            raise PickleError(message)
        change = Update(how, target, value)
        if target.updates is None:
            target.updates = []
        target.updates.append(change)
        self.log.append(change)
        self.built += 1

    def set_items(self, target: object, items: list[object]) -> None:
        """SETITEM(S): keys and values, alternating."""
        if len(items) & 1:
            message = "SETITEMS with a key that has no value"
            raise PickleError(message)
        pairs = zip(items[::2], items[1::2])
        if type(target) is Dict:
            target.extend(pairs)
        else:
            self.update("SETITEMS", target, list(pairs))

    def append_items(self, target: object, items: list[object]) -> None:
        """APPEND(S)."""
        if type(target) is list:
            target.extend(items)
        else:
            self.update("APPENDS", target, items)

    def add_items(self, target: object, items: list[object]) -> None:
        """ADDITEMS."""
        if type(target) is Set:
            target.extend(items)
        else:
            self.update("ADDITEMS", target, items)

    # -- arguments ------------------------------------------------------------------------------------

    def line(self, position: int) -> tuple[bytes, int]:
        """Return the text line at ``position`` without its newline, and the position behind it."""
        stop = self.data.find(b"\n", position)
        if stop < 0:
            message = "a text argument has no end"
            raise PickleError(message, offset=position)
        return self.data[position:stop], stop + 1

    def counted(self, position: int, size: int, *, signed: bool = False) -> tuple[bytes, int]:
        """Return the bytes behind a length of ``size`` bytes, and the position behind them."""
        start = position + size
        length = int.from_bytes(self.data[position:start], "little", signed=signed)
        stop = start + length
        if not start <= stop <= len(self.data):
            _too_long(start, stop)
        return self.data[start:stop], stop

    def decimal(self, position: int) -> tuple[int, int]:
        """Return the memo index in a text line."""
        text, position = self.line(position)
        if not _INDEX.fullmatch(text):
            message = f"{quote(text.decode('latin-1'))} is no memo index"
            raise PickleError(message, offset=position)
        return int(text), position


def _too_long(start: int, stop: int) -> NoReturn:
    message = f"an argument of {stop - start} bytes does not fit in what is left"
    raise PickleError(message, offset=start)


def _call(how: How, func: object, args: object, kwargs: object = None) -> Call:
    if type(func) is Global and type(args) is tuple:
        return Call(how, func, args, kwargs)
    if not isinstance(func, Node):
        message = f"{how} calls a value of type {type(func).__name__.lower()}"
        raise PickleError(message)
    if type(args) is not tuple and not isinstance(args, Node):
        message = f"{how} with arguments of type {type(args).__name__.lower()}, not a tuple"
        raise PickleError(message)
    return Call(how, func, args, kwargs)


def _import(machine: _Machine, module: str, name: str) -> Global:
    """The name as CPython would look it up: below protocol 3, Python 2 names are renamed first."""
    if machine.protocol < FIX_IMPORTS_BELOW:
        if (module, name) in NAME_MAPPING:
            module, name = NAME_MAPPING[module, name]
        elif module in IMPORT_MAPPING:
            module = IMPORT_MAPPING[module]
    return Global(module, name)


# -- the handlers of the less frequent opcodes, in the order of the table -----------------------------


_INDEX: Final = re.compile(rb"0|[1-9][0-9]{0,18}")
_INT: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(rb"-?(?:inf|nan|[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]{1,4})?)", re.IGNORECASE)
_QUOTED: Final = re.compile(rb"""(['"])((?:[^\\\n]|\\[\\'"nrt]|\\x[0-9a-fA-F]{2})*)\1""")
_ESCAPE: Final = re.compile(rb"\\(x..|.)", re.DOTALL)
_ESCAPES: Final = {b"\\": b"\\", b"'": b"'", b'"': b'"', b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_LINE_DIGITS: Final = 600  # below the least cap on digits that an interpreter can be given


def _pop(machine: _Machine, position: int) -> int:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.pop_mark()
    return position


def _pop_mark(machine: _Machine, position: int) -> int:
    machine.pop_mark()
    return position


def _dup(machine: _Machine, position: int) -> int:
    machine.stack.append(machine.stack[-1])
    return position


def _float(machine: _Machine, position: int) -> int:
    text, position = machine.line(position)
    if not _FLOAT.fullmatch(text):
        message = f"{quote(text.decode('latin-1'))} is no float"
        raise PickleError(message, offset=position)
    machine.stack.append(float(text))
    return position


def _whole(text: bytes, position: int) -> int:
    if not _INT.fullmatch(text):
        message = f"{quote(text.decode('latin-1'))} is no integer"
        raise PickleError(message, offset=position)
    if len(text) > _LINE_DIGITS:
        message = f"a number of {len(text)} decimal digits; a pickler writes long ones in binary"
        raise PickleError(message, offset=position)
    return int(text)


def _int(machine: _Machine, position: int) -> int:
    text, position = machine.line(position)
    machine.stack.append(text == b"01" if text in (b"00", b"01") else _whole(text, position))
    return position


def _long(machine: _Machine, position: int) -> int:
    text, position = machine.line(position)
    machine.stack.append(_whole(text.removesuffix(b"L"), position))
    return position


def _binint(machine: _Machine, position: int) -> int:
    machine.stack.append(_INT4(machine.data, position)[0])
    return position + 4


def _persid(machine: _Machine, position: int) -> int:
    text, position = machine.line(position)
    machine.push_built(Persistent(text.decode("ascii")))
    return position


def _string(machine: _Machine, position: int) -> int:
    text, position = machine.line(position)
    match = _QUOTED.fullmatch(text)
    if not match:
        message = "a STRING is not quoted, or holds an escape that Python 2 never wrote"
        raise PickleError(message, offset=position)
    raw = _ESCAPE.sub(lambda m: _ESCAPES.get(m[1]) or bytes([int(m[1][1:], 16)]), match[2])
    machine.stack.append(raw.decode(machine.encoding))
    return position


def _binstring(machine: _Machine, position: int) -> int:
    raw, position = machine.counted(position, 4, signed=True)
    machine.stack.append(raw.decode(machine.encoding))
    return position


def _short_binstring(machine: _Machine, position: int) -> int:
    raw, position = machine.counted(position, 1)
    machine.stack.append(raw.decode(machine.encoding))
    return position


def _unicode(machine: _Machine, position: int) -> int:
    text, position = machine.line(position)
    machine.stack.append(text.decode("raw-unicode-escape"))
    return position


def _append(machine: _Machine, position: int) -> int:
    value = machine.stack.pop()
    machine.append_items(machine.stack[-1], [value])
    return position


def _build(machine: _Machine, position: int) -> int:
    state = machine.stack.pop()
    machine.update("BUILD", machine.stack[-1], state)
    return position


def _global(machine: _Machine, position: int) -> int:
    module, position = machine.line(position)
    name, position = machine.line(position)
    machine.push_call(_import(machine, module.decode("utf-8"), name.decode("utf-8")))
    return position


def _dict(machine: _Machine, position: int) -> int:
    items = machine.pop_mark()
    pairs = Dict()
    machine.set_items(pairs, items)
    machine.built += len(items) >> 1
    machine.push_built(pairs)
    return position


def _appends(machine: _Machine, position: int) -> int:
    items = machine.pop_mark()
    machine.append_items(machine.stack[-1], items)
    return position


def _get(machine: _Machine, position: int) -> int:
    index, position = machine.decimal(position)
    machine.stack.append(machine.get(index))
    return position


def _inst(machine: _Machine, position: int) -> int:
    args = tuple(machine.pop_mark())
    position = _global(machine, position)
    machine.push_call(_call("INST", machine.stack.pop(), args))
    return position


def _long_binget(machine: _Machine, position: int) -> int:
    machine.stack.append(machine.get(_UINT4(machine.data, position)[0]))
    return position + 4


def _list(machine: _Machine, position: int) -> int:
    machine.push_built(machine.pop_mark())
    return position


def _empty_list(machine: _Machine, position: int) -> int:
    machine.push_built([])
    return position


def _obj(machine: _Machine, position: int) -> int:
    items = machine.pop_mark()
    machine.push_call(_call("OBJ", items[0], tuple(items[1:])))
    return position


def _put(machine: _Machine, position: int) -> int:
    index, position = machine.decimal(position)
    machine.put(index, machine.stack[-1])
    return position


def _long_binput(machine: _Machine, position: int) -> int:
    machine.put(_UINT4(machine.data, position)[0], machine.stack[-1])
    return position + 4


def _proto(machine: _Machine, position: int) -> int:
    protocol = machine.data[position]
    if protocol > HIGHEST_PROTOCOL:
        message = f"protocol {protocol} is not known; 0 to {HIGHEST_PROTOCOL} are"
        raise PickleError(message, offset=position)
    machine.protocol = protocol
    return position + 1


def _newobj(machine: _Machine, position: int) -> int:
    args = machine.stack.pop()
    machine.push_call(_call("NEWOBJ", machine.stack.pop(), args))
    return position


def _extension(machine: _Machine, position: int, code: int, size: int) -> int:
    if code <= 0:
        message = f"{code} is no extension code"
        raise PickleError(message, offset=position)
    machine.push_call(Extension(code))
    return position + size


def _ext1(machine: _Machine, position: int) -> int:
    return _extension(machine, position, machine.data[position], 1)


def _ext2(machine: _Machine, position: int) -> int:
    return _extension(machine, position, machine.data[position] | machine.data[position + 1] << 8, 2)


def _ext4(machine: _Machine, position: int) -> int:
    return _extension(machine, position, _INT4(machine.data, position)[0], 4)


def _tuple3(machine: _Machine, position: int) -> int:
    stack = machine.stack
    last = stack.pop()
    middle = stack.pop()
    machine.push_built((stack.pop(), middle, last))
    return position


def _newtrue(machine: _Machine, position: int) -> int:
    machine.stack.append(True)
    return position


def _long1(machine: _Machine, position: int) -> int:
    raw, position = machine.counted(position, 1)
    machine.stack.append(int.from_bytes(raw, "little", signed=True))
    return position


def _long4(machine: _Machine, position: int) -> int:
    raw, position = machine.counted(position, 4, signed=True)
    machine.stack.append(int.from_bytes(raw, "little", signed=True))
    return position


def _binbytes(machine: _Machine, position: int) -> int:
    raw, position = machine.counted(position, 4)
    machine.stack.append(raw)
    return position


def _short_binbytes(machine: _Machine, position: int) -> int:
    raw, position = machine.counted(position, 1)
    machine.stack.append(raw)
    return position


def _binunicode8(machine: _Machine, position: int) -> int:
    raw, position = machine.counted(position, 8)
    machine.stack.append(raw.decode("utf-8", "surrogatepass"))
    return position


def _binbytes8(machine: _Machine, position: int) -> int:
    raw, position = machine.counted(position, 8)
    machine.stack.append(raw)
    return position


def _empty_set(machine: _Machine, position: int) -> int:
    machine.push_built(Set())
    return position


def _additems(machine: _Machine, position: int) -> int:
    items = machine.pop_mark()
    machine.add_items(machine.stack[-1], items)
    return position


def _frozenset(machine: _Machine, position: int) -> int:
    machine.push_built(FrozenSet(machine.pop_mark()))
    return position


def _newobj_ex(machine: _Machine, position: int) -> int:
    kwargs = machine.stack.pop()
    args = machine.stack.pop()
    if not isinstance(kwargs, (Dict, Node)):
        message = f"NEWOBJ_EX with keywords of type {type(kwargs).__name__.lower()}, not a dict"
        raise PickleError(message, offset=position)
    machine.push_call(_call("NEWOBJ_EX", machine.stack.pop(), args, kwargs))
    return position


def _stack_global(machine: _Machine, position: int) -> int:
    name = machine.stack.pop()
    module = machine.stack.pop()
    if isinstance(module, str) and isinstance(name, str):
        machine.push_call(_import(machine, module, name))
    elif isinstance(module, (str, Node)) and isinstance(name, (str, Node)):
        machine.push_call(Call("STACK_GLOBAL", None, (module, name)))
    else:
        message = "STACK_GLOBAL takes a module and a name that are not text"
        raise PickleError(message, offset=position)
    return position


def _frame(machine: _Machine, position: int) -> int:
    machine.enter_frame(position + 8, _UINT8(machine.data, position)[0])
    return 0


def _bytearray8(machine: _Machine, position: int) -> int:
    raw, position = machine.counted(position, 8)
    machine.push_built(bytearray(raw))
    return position


def _next_buffer(machine: _Machine, position: int) -> NoReturn:
    message = f"the pickle refers to an out-of-band buffer, which no archive holds ({len(machine.stack)} on the stack)"
    raise PickleError(message, offset=position)


def _readonly_buffer(machine: _Machine, position: int) -> int:
    if isinstance(machine.stack[-1], bytearray):
        machine.stack[-1] = bytes(machine.stack[-1])
    elif not isinstance(machine.stack[-1], (bytes, Node)):
        message = f"READONLY_BUFFER on a value of type {type(machine.stack[-1]).__name__.lower()}"
        raise PickleError(message, offset=position)
    return position


_IN_LINE: Final = frozenset({
    "BINPUT", "MEMOIZE", "BINGET", "BININT1", "BINUNICODE", "MARK", "REDUCE", "TUPLE", "EMPTY_TUPLE", "EMPTY_DICT",
    "NEWFALSE", "BINPERSID", "TUPLE1", "TUPLE2", "SHORT_BINUNICODE", "BINFLOAT", "SETITEM", "SETITEMS", "BININT2", "NONE",
    "STOP",
})  # fmt: skip
"""Opcodes that the loop executes itself; every other one has a function of its name above."""

_HANDLERS: Final[dict[int, Callable[[_Machine, int], int]]] = {
    code: globals()[f"_{row.name.lower()}"] for code, row in BY_CODE.items() if row.name not in _IN_LINE
}
