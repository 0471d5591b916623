"""The inert pickle machine: opcodes in, a tree out, nothing imported, called or hashed.

Each opcode means what it means to CPython 3's ``pickle`` (FORMAT.md 5.1); what CPython would import or
call becomes a node of :mod:`sbformat.pkl.tree` and a line of the log.
"""

from __future__ import annotations

import struct
from itertools import repeat
from operator import add
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.errors import PickleError
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.handlers import HANDLERS
from sbformat.pkl.state import REFERRED, State, cut_short, make_call, too_long
from sbformat.pkl.tree import Call, Dict, Global, Node, Persistent, Update

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from sbformat.io.cursor import Cursor

    class _ByteIterator(Protocol):
        """What CPython's iterator over bytes can do besides."""

        def __iter__(self) -> _ByteIterator: ...
        def __next__(self) -> int: ...
        def __length_hint__(self) -> int: ...
        def __setstate__(self, position: int) -> None: ...


_WINDOW: Final = 1 << 16
_COPIES: Final = 2
"""Of a pickle: the bytes that the machine reads, and a frame of them."""
_MOST_COST: Final = 2048
"""More than what an opcode without a long argument takes in memory."""
_LEAST_ROOM: Final = 64
"""Opcodes between two looks at the counts: right at a limit, a look an opcode would cost ten times as much."""
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
    shared: frozenset[int]
    """The ``id()`` of every composite value and node that stands in more than one place."""
    flags: tuple[str, ...]
    """What a pickler of plain data never does: leave values or marks on the stack at STOP or a frame past it,
    or change a value after it was referred to a second time (what holds itself needs that)."""
    discarded: tuple[object, ...] = ()
    """Values that were popped or left on the stack: unpicklers make them all the same."""
    changed: frozenset[int] = frozenset()
    """The ``id()`` of every value that was changed after it was referred to a second time."""


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
    budget.keep(0, meanwhile=_COPIES * len(data))
    whole = data if type(data) is bytes else bytes(data)
    machine = Machine(whole, budget.limits, encoding, budget.memory_left())
    try:
        pickle = machine.run()
    except BaseException:
        budget.work(machine.cost(machine.reached()))
        raise
    cost = machine.cost(pickle.size)
    budget.work(cost)
    budget.keep(cost)
    if pickle.size != len(whole):
        message = f"{len(whole) - pickle.size} bytes follow the STOP of the pickle"
        raise PickleError(message, offset=pickle.size)
    return pickle


def decode_next(cursor: Cursor, budget: Budget) -> Pickle:
    """Decode one pickle of several from where the cursor stands; leave the cursor behind its STOP.

    Only the bytes that the pickle needs are copied: what follows may be gigabytes of storages.
    """
    allowed = budget.limits.pickle_bytes
    window = _WINDOW
    while True:
        data = bytes(cursor.view[cursor.position : cursor.position + min(window, allowed)])
        try:
            machine = Machine(data, budget.limits, "utf-8", budget.memory_left())
            pickle = machine.run()
        except PickleError as error:
            if error.is_cut_short and len(data) < cursor.left:
                if len(data) == allowed:
                    budget.spend("pickle_bytes", allowed + 1)
                window *= 4
                continue
            if error.offset is not None:
                error.offset += cursor.position
            raise
        budget.keep(machine.cost(pickle.size))
        cursor.position += pickle.size
        return pickle


class Machine(State):
    """The loop over one pickle's opcodes."""

    __slots__ = ("codes",)

    codes: _ByteIterator
    """The opcodes of the frame, or of all, that are left."""

    def run(self) -> Pickle:
        """Decode up to STOP, turning every way to fail into PickleError."""
        try:
            return self._run()
        except (IndexError, StopIteration, struct.error):
            message = "the pickle or a frame of it is cut short, or an opcode takes from an empty stack or past a mark"
            raise cut_short(message, self.base + len(self.data)) from None
        except UnicodeDecodeError as error:
            message = f"a text is not {error.encoding}"
            raise PickleError(message) from None
        except PickleError as error:
            if error.offset is not None:
                error.offset += self.base
            raise

    def _run(self) -> Pickle:  # noqa: C901, PLR0912, PLR0915 -- a call an opcode costs half as much again
        """Execute opcodes: the frequent ones in line, by falling frequency, the others by table.

        The opcodes are drawn from an iterator over the bytes, which costs half of indexing them; where a position is
        needed, the iterator gives and takes it. Where a count could pass its limit, the loop runs as many opcodes as
        the tightest count has room for, then looks again: each opcode adds at most one to each count, or two. A
        condition is fast as long as what it jumps over is less than 256 code units (CPython 3.11): no body in line is
        longer, and a range is tested only where few opcodes are in it.
        """
        data = self.data
        stack = self.stack
        marked = self.marked
        memo = self.memo
        far_memo = self.far_memo
        referred = self.referred
        log = self.log
        has_parts = REFERRED
        marks_allowed = self.limits.pickle_marks
        take = next
        new = object.__new__  # two thirds of the price of calling the class
        entries = len(memo)  # -1 once some came out of order
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
                    except UnicodeDecodeError:  # rare, and costs a fifth when it is asked of every text
                        stack.append(text.decode("utf-8", "surrogatepass"))
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
                        built += type(target) is not Dict  # a change, besides the pair
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
                    stack.append(data[start:stop].decode("utf-8", "surrogatepass"))
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
                if code == 0x30 and stack:  # POP, but of a mark
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
                    message = f"{code:#04x} is no pickle opcode"
                    raise PickleError(message, offset=position - 1)
                position = handler(self, position)
                stack, built = self.stack, self.built
                entries = -1 if far_memo else len(memo)
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
            codes = iter(data)  # type: ignore[assignment]
            self.codes = codes
            codes.__setstate__(position)

    def reached(self) -> int:
        """Return how many bytes were read."""
        return self.base + len(self.data) - self.codes.__length_hint__()

    # -- limits, frames, the end ----------------------------------------------------------------------

    def _room(self, executed: int, above_mark: int) -> int:
        """How many opcodes may run before a count has to be looked at again."""
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
        """Go on behind the frame; return where that is."""
        if not self.base:
            message = "the pickle is cut short: there is no STOP"
            raise cut_short(message, len(self.whole))
        position = self.base + len(self.data)
        self.data = self.whole
        self.base = 0
        return position

    def _finish(self, stack: list[object], position: int) -> Pickle:
        if self.is_counted:  # since the last look
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
            flags.append("a value is changed after it was referred to a second time, as what holds itself is")
        if position < len(self.data) and self.base:
            flags.append("a frame reaches past STOP")
        if self.is_odd:
            flags.append("a number or text is spelled in a way of its own")
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
