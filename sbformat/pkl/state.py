"""The state of the inert pickle machine: stack, marks, memo and log, with CPython's rules (FORMAT.md 5.1 to 5.3).

``machine`` explains how they work together. Its loop keeps ``stack`` and ``built`` in local variables, and writes them
back before it calls a handler.
"""

from __future__ import annotations

import re
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from sbformat.constants import SURROGATE_PAIR
from sbformat.errors import LimitError, PickleError, quote
from sbformat.pkl.tree import COMPOSITES, Call, Dict, Extension, Global, Node, Set, Unread, Update

if TYPE_CHECKING:
    from struct import Struct

    from sbformat.limits import Limits
    from sbformat.pkl.tree import How, UpdateHow


FIX_IMPORTS_BELOW: Final = 3  # below this protocol CPython renames Python 2 modules before it imports (``fix_imports``)

_MODULES: Final = {**IMPORT_MAPPING, "Tix": "tkinter.tix"}
"""Python 2 modules and their names in Python 3. CPython 3.13 dropped the last one; decoding must not depend on the
interpreter."""

LONG: Final = 255  # text and bytes objects that are longer, in bytes, are counted separately
_SHORT_COST: Final = 24
"""Memory for a byte of a pickle outside long text and bytes objects, in bytes: a text of two letters takes 73."""
_BUILT_COST: Final = 320
"""Memory for a composite value, in bytes: a node, its row in the log, and the bookkeeping while it becomes a value."""
_FAR_COST: Final = 160  # memory for a memo entry that was stored out of order, in bytes
_TWO_BYTES: Final = rb"[\xc4-\xff]"
_FOUR_BYTES: Final = rb"[\xf0-\xff]"
"""Bytes that occur in the UTF-8 of text whose characters take two bytes of memory, or four."""


# Patterns are compiled when first used: text opcodes are rare, and compiling takes longer than reading an archive.
_ODD_INDEX: Final = rb"(?=.{1,4000}$)(?:\+?[0-9]+(?:_[0-9]+)*|-[0_]*0)"
_INDEX: Final = rb"0|[1-9][0-9]{0,18}"


class State:
    """The stack, memo and log of one pickle, and what opcodes do to them. The parameters are those of ``Machine``."""

    __slots__ = (
        "base", "built", "changed", "changes", "data", "discarded", "encoding", "far_memo", "faults", "frozen",
        "is_counted", "is_lenient", "is_odd", "is_small", "is_uncertain", "is_unframed", "limits", "log", "long",
        "long_cost", "marked", "memo", "position", "protocol", "referred", "room", "stack", "whole",
    )  # fmt: skip

    def __init__(self, data: bytes, limits: Limits, encoding: str, room: int) -> None:
        self.whole = data
        self.data = data  # the frame, or the whole pickle outside frames
        self.base = 0  # the offset of the frame in the pickle; 0 outside frames
        self.position = 0  # the offset in ``data`` of the argument that a handler takes
        self.limits = limits
        self.room = room
        size = len(data)
        self.is_small = _SHORT_COST * size + _BUILT_COST * min(size, limits.pickle_nodes) <= room
        """The values certainly fit into memory, except wide text and far memo entries: no need to count meanwhile."""
        self.is_counted = not self.is_small or 2 * size > min(
            limits.pickle_opcodes, limits.pickle_stack, limits.pickle_memo, limits.pickle_nodes
        )
        """A count may exceed its limit. A byte is at most one opcode, which adds at most two to each count."""
        self.long = self.long_cost = 0  # the size of long text and bytes objects in the pickle, and in memory
        self.encoding = encoding
        self.is_lenient = False
        """Accept numbers and escapes that CPython accepts and no pickler writes, and note that they are unusual."""
        self.is_odd = False
        """A number, text or change is encoded as no pickler encodes it. This, and the following, only if lenient."""
        self.is_uncertain = False
        """A value was changed in a way that is not followed here: what a call receives is unknown."""
        self.faults: list[str] = []  # what CPython refuses, although this machine continues
        self.changes: list[tuple[object, int]] = []
        """Values that were changed after a second reference to them, and bytearrays that were changed at all, each with
        the length of the log at that moment: an earlier call received the value as it was before."""
        self.frozen: dict[int, tuple[bytearray, bytes]] = {}
        """Bytearrays by identity, with the bytes that READONLY_BUFFER made of them."""
        self.discarded: list[object] = []  # composite values that were popped: an unpickler creates them nevertheless
        self.is_unframed = False  # Ignore FRAME, as some unpicklers do where a frame is wrong (``framing``)
        self.referred: dict[int, object] = {}
        """Composite values that were taken from the memo or duplicated, by identity. They are kept alive here, so that
        no other value can have that identity."""
        self.changed: set[int] = set()
        """Those of them that were changed: a call may have received such an argument before the change."""
        self.stack: list[object] = []  # the values above the last mark
        self.marked: list[list[object]] = []  # the values below each mark
        self.memo: list[object] = []  # entries 0 to n-1, as long as they are stored in order
        self.far_memo: dict[str, object] = {}
        """Entries that were stored out of order. The keys are text, whose hash no file can choose."""
        self.built = 0  # the number of composite values so far
        self.protocol = 0
        self.log: list[Node | Update] = []

    def check_surrogates(self, text: str) -> str:
        """Return text, unless it contains two surrogates that are one character in UTF-16 (FORMAT.md 5.1)."""
        if re.search(SURROGATE_PAIR, text):
            if not self.is_lenient:
                refuse("expected text without a pair of surrogates, got one")
            self.is_odd = True
        return text

    def surrogate_text(self, raw: bytes) -> str:
        """Decode text that is not strict UTF-8: lone surrogates are allowed."""
        return self.check_surrogates(raw.decode("utf-8", "surrogatepass"))

    # -- memo and stack -------------------------------------------------------------------------------

    def put(self, index: int, value: object) -> None:
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
        if index < len(self.memo):
            return self.memo[index]
        try:
            return self.far_memo[str(index)]
        except KeyError:
            raise PickleError(f"the memo has no entry {index}") from None

    def pop_mark(self) -> list[object]:
        """Remove the last mark, and return the values above it."""
        items = self.stack
        self.stack = self.marked.pop()
        return items

    def push_built(self, value: object) -> None:
        self.built += 1
        self.stack.append(value)

    def push_call(self, call: Call | Global | Extension) -> None:
        """Push a node that CPython would have imported or called, and log it."""
        self.log.append(call)
        self.push_built(call)

    def freeze(self, buffer: bytearray) -> bytes:
        """Return the bytes of a bytearray, copied once: a view in CPython, whose changes ``changes`` notes."""
        if id(buffer) not in self.frozen:
            self.frozen[id(buffer)] = buffer, bytes(buffer)
        return self.frozen[id(buffer)][1]

    # -- memory ---------------------------------------------------------------------------------------

    def cost(self, position: int) -> int:
        """Return an upper bound of the memory that the values take, in bytes."""
        short = _SHORT_COST * max(position - self.long, 0)
        return short + self.long_cost + _BUILT_COST * self.built + _FAR_COST * len(self.far_memo)

    def add_long(self, size: int, raw: bytes | None = None) -> None:
        """Count a long text or bytes object, before it is created.

        :param size: its length in the pickle, in bytes
        :param raw: the UTF-8, if it is text
        """
        self.long += size
        self.long_cost += size
        if raw is not None:
            self.add_width(raw)
        self.check_memory(self.long)

    def add_width(self, raw: bytes) -> None:
        """Count the memory of text beyond that of its UTF-8: one wide character makes all of them wide."""
        if not raw.isascii():
            width = 4 if re.search(_FOUR_BYTES, raw) else 2 if re.search(_TWO_BYTES, raw) else 1
            self.long_cost += (width - 1) * len(raw)

    def check_memory(self, position: int) -> int:
        left = self.room - self.cost(position)
        if left < 0:
            self.exceeded("memory_bytes", self.limits.memory_bytes - left)
        return left

    # -- changes --------------------------------------------------------------------------------------

    def update(self, how: UpdateHow, target: object, value: object) -> None:
        """Log a change of a node. No other value has the method that the opcode would call."""
        if not isinstance(target, Node):
            if self.is_lenient:
                self.change_plain(how, target, value)
                return
            refuse(f"expected a value that {how} can change, got a {type(target).__name__.lower()}")
        self.note_change(target)
        change = Update(how, target, value)
        if target.updates is None:
            target.updates = []
        target.updates.append(change)
        self.log.append(change)
        self.built += 1

    def note_change(self, target: object) -> None:
        """Note the change of a value, if there was a second reference to it before."""
        if id(target) in self.referred:
            self.changed.add(id(target))
            if self.is_lenient:
                self.changes.append((target, len(self.log)))

    def change_plain(self, how: UpdateHow, target: Any, value: Any) -> None:
        """Change a value that is not a node as CPython does, and note the change or the fault."""
        if _is_without_effect(how, value):
            self.is_odd = True
        elif how == "APPENDS" and _is_bytearray(target):
            if type(target) is not bytearray or any(isinstance(item, Node) for item in value):
                self.note_odd_change(target, is_uncertain=True)
            elif all(_is_byte(item) for item in value):
                target.extend(value)
                self.note_odd_change(target)
            else:
                self.faults.append("APPENDS of a value that is not an integer below 256 to a bytearray")
        elif how == "SETITEMS" and (type(target) is list or _is_bytearray(target)):
            for key, item in value:
                self.set_item(target, key, item)
        else:
            kind = type(target).__name__.lower()
            self.faults.append(f"{how} on a value of type {kind}, which every unpickler refuses")

    def set_item(self, target: Any, key: object, item: object) -> None:
        if isinstance(key, Node) or type(target) is Unread or (type(target) is bytearray and isinstance(item, Node)):
            self.note_odd_change(target, is_uncertain=True)  # a slice, or a number that only the unpickler computes
        elif (
            not isinstance(key, int)
            or not -len(target) <= key < len(target)
            or (type(target) is bytearray and not _is_byte(item))
        ):
            self.faults.append("SETITEMS with an index or item that a list or bytearray refuses")
        else:
            target[key] = item
            self.note_odd_change(target)

    def note_odd_change(self, target: object, *, is_uncertain: bool = False) -> None:
        self.is_odd = True
        self.changes.append((target, len(self.log)))
        if is_uncertain or id(target) in self.frozen:
            self.is_uncertain = True

    def refer(self, value: object) -> object:
        """Note a second reference to a value, and return the value."""
        if type(value) in COMPOSITES:
            self.referred[id(value)] = value
        return value

    def set_items(self, target: object, items: list[object]) -> None:
        """Execute SETITEM or SETITEMS with keys and values, alternating."""
        if len(items) & 1:
            refuse("expected pairs of key and value for SETITEMS, got an odd number of values")
        pairs = zip(items[::2], items[1::2])
        if type(target) is Dict:
            self.note_change(target)
            target.extend(pairs)
        else:
            self.update("SETITEMS", target, list(pairs))

    def add_items(self, how: Literal["APPENDS", "ADDITEMS"], target: object, items: list[object]) -> None:
        if type(target) is (list if how == "APPENDS" else Set):
            self.note_change(target)
            target.extend(items)
        else:
            self.update(how, target, items)

    def text(self, raw: bytes) -> str:
        """Decode an 8-bit string of Python 2 with the encoding that the caller chose."""
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

    # -- arguments: they are taken at ``position``, which moves -----------------------------------------

    def unpack(self, layout: Struct) -> Any:
        start = self.position
        self.position = start + layout.size
        return layout.unpack_from(self.data, start)[0]

    def line(self) -> bytes:
        """Take a line of text; return it without its newline."""
        start = self.position
        stop = self.data.find(b"\n", start)
        if stop < 0:
            raise cut_short("expected a line of text, got no newline", start)
        self.position = stop + 1
        return self.data[start:stop]

    def counted(self, size: int, *, signed: bool = False) -> bytes:
        """Take the bytes that follow a length of ``size`` bytes."""
        start = self.position + size
        length = int.from_bytes(self.data[self.position : start], "little", signed=signed)
        stop = start + length
        if not start <= stop <= len(self.data):
            too_long(start, stop)
        if length > LONG:
            self.add_long(length)
        self.position = stop
        return self.data[start:stop]

    def long_text(self, start: int) -> int:
        """Count a text of more than 255 bytes that starts after its length, and return the position after it."""
        stop = start + int.from_bytes(self.data[start - 4 : start], "little")
        if stop > len(self.data):
            too_long(start, stop)
        self.add_long(stop - start, self.data[start:stop])
        return stop

    def payload(self, size: int) -> bytes | Unread:
        """Take a bytes object that follows its length; ``out_of_core`` overrides this."""
        return self.counted(size)

    def decimal(self) -> int:
        """Take the memo index in a line of text."""
        text = self.line()
        if re.fullmatch(_INDEX, text):
            return int(text)
        index = text.partition(b"\0")[0].strip()
        if not self.is_lenient or not re.fullmatch(_ODD_INDEX, index):
            refuse(f"expected a memo index, got {quote(text.decode('latin-1'))}", self.position)
        self.is_odd = True
        return abs(int(index))  # of negative numbers CPython accepts -0 alone

    # -- limits and frames ----------------------------------------------------------------------------

    def exceeded(self, limit: str, actual: int) -> NoReturn:
        raise LimitError(limit, allowed=getattr(self.limits, limit), actual=actual)

    def enter_frame(self, size: int) -> None:
        """Continue in a frame: a slice, so that no opcode can read beyond it."""
        start = self.position
        if self.base:
            refuse("a frame starts inside another frame", start)
        if size > len(self.whole) - start:
            too_long(start, start + size)
        self.data = self.whole[start : start + size]
        self.base = start
        self.position = 0


def _is_without_effect(how: UpdateHow, value: object) -> bool:
    """Return whether CPython ignores a change: one of no items, or to a state that is None."""
    if how != "BUILD":
        return not value
    state, slots = value if type(value) is tuple and len(value) == 2 else (value, None)
    return state is None and (slots is None or (type(slots) is Dict and not slots))


def _is_bytearray(target: object) -> bool:
    return type(target) is bytearray or (type(target) is Unread and target.is_bytearray)


def _is_byte(item: object) -> bool:
    return isinstance(item, int) and 0 <= item < 256


def refuse(message: str, offset: int | None = None) -> NoReturn:
    """Raise the error of this layer."""
    raise PickleError(message, offset=offset)


def too_long(start: int, stop: int) -> NoReturn:
    """Refuse an argument that is longer than the rest of the frame or pickle."""
    raise cut_short(f"expected an argument of {stop - start} bytes, but fewer bytes are left", start)


def cut_short(message: str, offset: int) -> PickleError:
    """Return an error that would not occur if more bytes followed."""
    error = PickleError(message, offset=offset)
    error.is_cut_short = True
    return error


def make_call(how: How, func: object, args: object, kwargs: object = None) -> Call:
    """Return the node of a call, if function and arguments have types that a call can have."""
    if type(func) is Global and type(args) is tuple:
        return Call(how, func, args, kwargs)
    if not isinstance(func, Node):
        refuse(f"expected a name or node for {how} to call, got a {type(func).__name__.lower()}")
    if type(args) is not tuple and not isinstance(args, Node):
        refuse(f"expected a tuple of arguments for {how}, got a {type(args).__name__.lower()}")
    return Call(how, func, args, kwargs)


def make_global(state: State, module: str, name: str) -> Global:
    """Return a name as CPython would look it up: below protocol 3, Python 2 names are renamed first."""
    if state.protocol < FIX_IMPORTS_BELOW:
        return Global(*rename(module, name))
    return Global(module, name)


def rename(module: str, name: str) -> tuple[str, str]:
    """Return the Python 3 name of a Python 2 name (FORMAT.md 5.4)."""
    return NAME_MAPPING.get((module, name)) or (_MODULES.get(module, module), name)
