"""The state of the inert pickle machine, and what its opcodes do to it.

Stack, marks, memo and log, with CPython's rules for each (FORMAT.md 5.1 to 5.3). The loop in ``decode``
keeps the hot parts of it in local variables and writes them back before a handler runs.
"""

from __future__ import annotations

import re
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from typing import TYPE_CHECKING, Final, NoReturn

from sbformat.errors import LimitError, PickleError, quote
from sbformat.pkl.changes import change_plain
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set, Update

if TYPE_CHECKING:
    from sbformat.limits import Limits
    from sbformat.pkl.tree import How, Unread, UpdateHow

FIX_IMPORTS_BELOW: Final = 3
"""Below this protocol CPython renames Python 2 modules before it imports (``fix_imports``)."""

_MODULES: Final = {**IMPORT_MAPPING, "Tix": "tkinter.tix"}
"""Modules of Python 2 by their names in 3; CPython 3.13 dropped the last, and no reading depends on the interpreter."""

LONG: Final = 255
"""A text or bytes object beyond this is counted by itself."""
_SHORT_COST: Final = 24
"""What a byte of a pickle can take in memory where no long text or bytes object is: a text of two letters takes 73."""
_BUILT_COST: Final = 320
"""What a composite value takes: a node, its row in the log, and what is noted of it while it becomes a value."""
_FAR_COST: Final = 160
"""What an entry of the memo takes that came out of order."""
_TWO_BYTES: Final = rb"[\xc4-\xff]"
_FOUR_BYTES: Final = rb"[\xf0-\xff]"
"""What UTF-8 has of text whose characters take two bytes in memory, or four."""

REFERRED: Final = frozenset({list, tuple, Dict, Set, FrozenSet, Call, Persistent, Extension})
"""What has parts or can be changed. A Global can be changed too, but is what it names wherever it stands."""

# Patterns are compiled when first used: text opcodes are rare, and compiling costs more than an archive.
_ODD_INDEX: Final = rb"(?=.{1,4000}$)(?:\+?[0-9]+(?:_[0-9]+)*|-[0_]*0)"
_INDEX: Final = rb"0|[1-9][0-9]{0,18}"


class State:
    """One pickle's stack, memo and log.

    :param data: the pickle, and whatever follows it
    :param limits: what it may ask for
    :param encoding: of Python 2's 8-bit strings
    :param room: how many bytes of memory it may take
    """

    __slots__ = (
        "base", "built", "changed", "changes", "data", "discarded", "encoding", "far_memo", "faults",
        "frozen_views", "is_counted", "is_lenient", "is_odd", "is_small", "is_uncertain", "is_unframed", "limits",
        "log", "long", "long_cost", "marked", "memo", "protocol", "referred", "room", "stack", "whole",
    )  # fmt: skip

    def __init__(self, data: bytes, limits: Limits, encoding: str, room: int) -> None:
        self.whole = data
        self.data = data
        """The frame, or all when in none."""
        self.base = 0
        """Where the frame begins; 0 when in none."""
        self.limits = limits
        self.room = room
        size = len(data)
        self.is_small = _SHORT_COST * size + _BUILT_COST * min(size, limits.pickle_nodes) <= room
        """Whatever it holds fits, but for wide texts and far entries of the memo: it need not be counted meanwhile."""
        self.is_counted = not self.is_small or 2 * size > min(
            limits.pickle_opcodes, limits.pickle_stack, limits.pickle_memo, limits.pickle_nodes
        )
        """A count may pass its limit: a byte is an opcode at most, and that adds no more than two to each."""
        self.long = self.long_cost = 0
        """Bytes of long texts and bytes objects, and what those take in memory."""
        self.encoding = encoding
        self.is_lenient = False
        """Take numbers and escapes that CPython takes and no pickler writes, and note that they are odd."""
        self.is_odd = False
        self.changes: list[tuple[object, int]] = []
        """Values that were changed after they were referred to a second time, and bytearrays that were changed at all,
        each with the length of the log at that moment: a call before it saw the value as it was (lenient only)."""
        self.is_uncertain = False
        """A value was changed in a way that is not followed here: what a call is given is not known (lenient only)."""
        self.faults: list[str] = []
        """What CPython refuses, though reading goes on here (lenient only)."""
        self.discarded: list[object] = []
        """Composite values that were popped: unpicklers make them all the same."""
        self.is_unframed = False
        """Pass over FRAME, as the unpickler in pure Python does when a frame is not what it says."""
        self.referred: dict[int, object] = {}
        """Values of those types, by identity, once they were taken from the memo or doubled; held here, so that
        no other value can come by their identity."""
        self.changed: set[int] = set()
        """Those of them that were changed: a call that one is an argument of would have seen it as it was before."""
        self.stack: list[object] = []
        """What lies above the last mark."""
        self.marked: list[list[object]] = []
        """The stacks below each mark."""
        self.memo: list[object] = []
        """Entries 0..n-1, while indexes come in order."""
        self.far_memo: dict[str, object] = {}
        """Entries that came out of order: keyed by text, whose hash no file can choose."""
        self.built = 0
        """Composite values made so far."""
        self.protocol = 0
        self.log: list[Node | Update] = []
        self.frozen_views: dict[int, tuple[bytearray, bytes]] = {}

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
            self.exceeded("pickle_memo_index", index)
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
        return items

    def push_built(self, value: object) -> None:
        """Push a composite value."""
        self.built += 1
        self.stack.append(value)

    def push_call(self, call: Call | Global | Extension) -> None:
        """Push what CPython would have imported or called, and log it."""
        self.log.append(call)
        self.push_built(call)

    def frozen(self, buffer: bytearray) -> bytes:
        """Return the bytes of a bytearray, copied once: the memo may give it many times.

        For CPython this is a view, which changes with the bytearray: ``changes`` treats that as uncertain.
        """
        known = self.frozen_views.get(id(buffer))
        if known is None:
            known = self.frozen_views[id(buffer)] = buffer, bytes(buffer)
        return known[1]

    # -- memory ---------------------------------------------------------------------------------------

    def cost(self, position: int) -> int:
        """Return what the values take that the pickle's first bytes made: no less, as a rule more.

        :param position: up to which it was read
        """
        short = _SHORT_COST * max(position - self.long, 0)
        return short + self.long_cost + _BUILT_COST * self.built + _FAR_COST * len(self.far_memo)

    def add_long(self, size: int, raw: bytes | None = None) -> None:
        """Count a long text or bytes object, before it is made.

        :param size: of it in the pickle
        :param raw: the UTF-8 of a text
        """
        self.long += size
        self.long_cost += size
        if raw is not None:
            self.add_width(raw)
        self.check_memory(self.long)

    def add_width(self, raw: bytes) -> None:
        """Count what text takes beyond its UTF-8: one wide character makes all of them wide."""
        if not raw.isascii():
            width = 4 if re.search(_FOUR_BYTES, raw) else 2 if re.search(_TWO_BYTES, raw) else 1
            self.long_cost += (width - 1) * len(raw)

    def check_memory(self, position: int) -> int:
        """Return how much more memory may be taken.

        :raises LimitError: when that is less than nothing
        """
        left = self.room - self.cost(position)
        if left < 0:
            self.exceeded("memory_bytes", self.limits.memory_bytes - left)
        return left

    # -- changes --------------------------------------------------------------------------------------

    def update(self, how: UpdateHow, target: object, value: object) -> None:
        """Note a change to a node; anything else has no such method."""
        if not isinstance(target, Node):
            if self.is_lenient:
                change_plain(self, how, target, value)
                return
            message = f"{how} on a value of type {type(target).__name__.lower()}"
            raise PickleError(message)
        self.note_change(target)
        change = Update(how, target, value)
        if target.updates is None:
            target.updates = []
        target.updates.append(change)
        self.log.append(change)
        self.built += 1

    def note_change(self, target: object) -> None:
        """Note the change of a value that was referred to a second time before."""
        if id(target) in self.referred:
            self.changed.add(id(target))
            if self.is_lenient:
                self.changes.append((target, len(self.log)))

    def refer(self, value: object) -> object:
        """Note that a value is referred to a second time, and return it."""
        if type(value) in REFERRED:
            self.referred[id(value)] = value
        return value

    def set_items(self, target: object, items: list[object]) -> None:
        """SETITEM(S): keys and values, alternating."""
        if len(items) & 1:
            message = "SETITEMS with a key that has no value"
            raise PickleError(message)
        pairs = zip(items[::2], items[1::2])
        if type(target) is Dict:
            self.note_change(target)
            target.extend(pairs)
        else:
            self.update("SETITEMS", target, list(pairs))

    def append_items(self, target: object, items: list[object]) -> None:
        """APPEND(S)."""
        if type(target) is list:
            self.note_change(target)
            target.extend(items)
        else:
            self.update("APPENDS", target, items)

    def add_items(self, target: object, items: list[object]) -> None:
        """ADDITEMS."""
        if type(target) is Set:
            self.note_change(target)
            target.extend(items)
        else:
            self.update("ADDITEMS", target, items)

    def text(self, raw: bytes) -> str:
        """Decode an 8-bit string of Python 2: what else it may mean is for whoever chooses the encoding."""
        if len(raw) > LONG:
            self.add_width(raw)
            self.check_memory(self.long)
        try:
            return raw.decode(self.encoding)
        except UnicodeDecodeError:
            if not self.is_lenient:
                raise
            self.is_odd = True
            return raw.decode("latin-1")

    # -- arguments ------------------------------------------------------------------------------------

    def line(self, position: int) -> tuple[bytes, int]:
        """Return the text line at ``position`` without its newline, and the position behind it."""
        stop = self.data.find(b"\n", position)
        if stop < 0:
            message = "a text argument has no end"
            raise cut_short(message, position)
        return self.data[position:stop], stop + 1

    def counted(self, position: int, size: int, *, signed: bool = False) -> tuple[bytes, int]:
        """Return the bytes behind a length of ``size`` bytes, and the position behind them."""
        start = position + size
        length = int.from_bytes(self.data[position:start], "little", signed=signed)
        stop = start + length
        if not start <= stop <= len(self.data):
            too_long(start, stop)
        if length > LONG:
            self.add_long(length)
        return self.data[start:stop], stop

    def long_text(self, start: int) -> int:
        """Count a text of more than 255 bytes, and return where it ends.

        :param start: behind its length
        """
        stop = start + int.from_bytes(self.data[start - 4 : start], "little")
        if stop > len(self.data):
            too_long(start, stop)
        self.add_long(stop - start, self.data[start:stop])
        return stop

    def payload(self, position: int, size: int) -> tuple[bytes | Unread, int]:
        """Return a bytes object behind its length, and the position behind it; ``large`` leaves some unread."""
        return self.counted(position, size)

    def decimal(self, position: int) -> tuple[int, int]:
        """Return the memo index in a text line."""
        text, position = self.line(position)
        if not re.fullmatch(_INDEX, text):
            index = text.partition(b"\0")[0].strip()
            if self.is_lenient and re.fullmatch(_ODD_INDEX, index):
                self.is_odd = True
                return abs(int(index)), position  # of those with a minus CPython takes 0 alone
            message = f"{quote(text.decode('latin-1'))} is no memo index"
            raise PickleError(message, offset=position)
        return int(text), position

    # -- limits and frames ----------------------------------------------------------------------------

    def exceeded(self, limit: str, actual: int) -> NoReturn:
        """Raise for a count that passed its limit."""
        raise LimitError(limit, allowed=getattr(self.limits, limit), actual=actual)

    def enter_frame(self, start: int, size: int) -> None:
        """Go on in a frame: a slice of its own, so that no opcode can reach out of it."""
        if self.base:
            message = "a frame lies within a frame"
            raise PickleError(message, offset=start)
        if size > len(self.whole) - start:
            too_long(start, start + size)
        self.data = self.whole[start : start + size]
        self.base = start


def too_long(start: int, stop: int) -> NoReturn:
    """Refuse an argument that claims more bytes than are left."""
    message = f"an argument of {stop - start} bytes does not fit in what is left"
    raise cut_short(message, start)


def cut_short(message: str, offset: int) -> PickleError:
    """Return an error that more bytes could mend."""
    error = PickleError(message, offset=offset)
    error.is_cut_short = True
    return error


def make_call(how: How, func: object, args: object, kwargs: object = None) -> Call:
    """Return the call that an opcode asks for, when what it calls and with could be that."""
    if type(func) is Global and type(args) is tuple:
        return Call(how, func, args, kwargs)
    if not isinstance(func, Node):
        message = f"{how} calls a value of type {type(func).__name__.lower()}"
        raise PickleError(message)
    if type(args) is not tuple and not isinstance(args, Node):
        message = f"{how} with arguments of type {type(args).__name__.lower()}, not a tuple"
        raise PickleError(message)
    return Call(how, func, args, kwargs)


def make_global(state: State, module: str, name: str) -> Global:
    """Return the name as CPython would look it up: below protocol 3, Python 2 names are renamed first."""
    if state.protocol < FIX_IMPORTS_BELOW:
        return Global(*rename(module, name))
    return Global(module, name)


def rename(module: str, name: str) -> tuple[str, str]:
    """Return what Python 3 calls a name of Python 2 (FORMAT.md 5.4)."""
    return NAME_MAPPING.get((module, name)) or (_MODULES.get(module, module), name)
