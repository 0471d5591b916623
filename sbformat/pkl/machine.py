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

* Each opcode is executed here or by one function in :mod:`~sbformat.pkl.handlers`, never in two ways.
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

import struct
from itertools import repeat
from operator import add
from struct import Struct
from typing import TYPE_CHECKING, Final

from sbformat.errors import PickleError
from sbformat.immutable import Record
from sbformat.pkl.handlers import HANDLERS
from sbformat.pkl.state import State, cut_short, make_call, too_long
from sbformat.pkl.tree import COMPOSITES, Call, Dict, Global, Node, Persistent, Update

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
        """Decode up to STOP.

        :raises PickleError: when an opcode cannot be executed, or there is no STOP
        :raises LimitError: when a limit is exceeded
        """
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
