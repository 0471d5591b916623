"""The table of the 68 pickle opcodes, protocols 0 to 5 (FORMAT.md 5.1).

One row for each opcode: its byte, its name in CPython's ``pickletools``, the protocol that introduced it, the layout
of its argument, and its effect on the stack (``before -- after``, ``|`` is a mark). The handlers of the machine, the
encoder and the disassembler use this table. ``schema/tables/opcodes.json`` has the rows for readers in any language.

The second part is about frames. FRAME gives the length of the bytes that follow and belong together. Every opcode and
its argument should be in one frame. When an argument extends beyond the end of a frame, unpicklers differ:

* CPython's unpickler in Python fails;
* its unpickler in C, when it reads bytes, ignores frames: the argument continues after the end of the frame;
* its unpickler in C, when it reads a file, as torch does, keeps the frame in a buffer. It drops the rest of the buffer,
  and reads the argument from the bytes after the frame. After STOP it leaves the file at the end of the frame.

So if a frame ends between the opcode ``58`` and its length, the second unpickler reads another length than the third. A
scan judges each reading. This module only uses the layout of opcodes: ``machine`` executes the bytes of a reading.
"""

from __future__ import annotations

from typing import Final

from sbformat.immutable import Record


class Opcode(Record):
    """A row of the table."""

    code: int
    name: str
    protocol: int
    argument: str
    """Empty: no argument. u1 u2 u4 u8 i4 f8: a number. line, line2: one line of text, or two. s1 s4 s8: bytes after an
    unsigned length of 1, 4 or 8 bytes. i4s: bytes after a signed length of 4 bytes."""
    effect: str


OPCODES: Final = (
    # begin opcodes: generated from schema/tables/opcodes.json by schema/generate_tables.py
    Opcode(0x28, "MARK", 0, "", "-- |"),
    Opcode(0x2E, "STOP", 0, "", "value --"),
    Opcode(0x30, "POP", 0, "", "value --"),
    Opcode(0x31, "POP_MARK", 1, "", "| values --"),
    Opcode(0x32, "DUP", 0, "", "value -- value value"),
    Opcode(0x4E, "NONE", 0, "", "-- None"),
    Opcode(0x88, "NEWTRUE", 2, "", "-- True"),
    Opcode(0x89, "NEWFALSE", 2, "", "-- False"),
    Opcode(0x49, "INT", 0, "line", "-- int or bool"),
    Opcode(0x4C, "LONG", 0, "line", "-- int"),
    Opcode(0x4A, "BININT", 1, "i4", "-- int"),
    Opcode(0x4B, "BININT1", 1, "u1", "-- int"),
    Opcode(0x4D, "BININT2", 1, "u2", "-- int"),
    Opcode(0x8A, "LONG1", 2, "s1", "-- int"),
    Opcode(0x8B, "LONG4", 2, "i4s", "-- int"),
    Opcode(0x46, "FLOAT", 0, "line", "-- float"),
    Opcode(0x47, "BINFLOAT", 1, "f8", "-- float"),
    Opcode(0x53, "STRING", 0, "line", "-- text"),
    Opcode(0x54, "BINSTRING", 1, "i4s", "-- text"),
    Opcode(0x55, "SHORT_BINSTRING", 1, "s1", "-- text"),
    Opcode(0x56, "UNICODE", 0, "line", "-- text"),
    Opcode(0x58, "BINUNICODE", 1, "s4", "-- text"),
    Opcode(0x8C, "SHORT_BINUNICODE", 4, "s1", "-- text"),
    Opcode(0x8D, "BINUNICODE8", 4, "s8", "-- text"),
    Opcode(0x42, "BINBYTES", 3, "s4", "-- bytes"),
    Opcode(0x43, "SHORT_BINBYTES", 3, "s1", "-- bytes"),
    Opcode(0x8E, "BINBYTES8", 4, "s8", "-- bytes"),
    Opcode(0x96, "BYTEARRAY8", 5, "s8", "-- bytearray"),
    Opcode(0x29, "EMPTY_TUPLE", 1, "", "-- tuple"),
    Opcode(0x85, "TUPLE1", 2, "", "value -- tuple"),
    Opcode(0x86, "TUPLE2", 2, "", "value value -- tuple"),
    Opcode(0x87, "TUPLE3", 2, "", "value value value -- tuple"),
    Opcode(0x74, "TUPLE", 0, "", "| values -- tuple"),
    Opcode(0x5D, "EMPTY_LIST", 1, "", "-- list"),
    Opcode(0x6C, "LIST", 0, "", "| values -- list"),
    Opcode(0x61, "APPEND", 0, "", "list value -- list"),
    Opcode(0x65, "APPENDS", 1, "", "list | values -- list"),
    Opcode(0x7D, "EMPTY_DICT", 1, "", "-- dict"),
    Opcode(0x64, "DICT", 0, "", "| keys and values -- dict"),
    Opcode(0x73, "SETITEM", 0, "", "dict key value -- dict"),
    Opcode(0x75, "SETITEMS", 1, "", "dict | keys and values -- dict"),
    Opcode(0x8F, "EMPTY_SET", 4, "", "-- set"),
    Opcode(0x90, "ADDITEMS", 4, "", "set | values -- set"),
    Opcode(0x91, "FROZENSET", 4, "", "| values -- frozenset"),
    Opcode(0x70, "PUT", 0, "line", "value -- value"),
    Opcode(0x71, "BINPUT", 1, "u1", "value -- value"),
    Opcode(0x72, "LONG_BINPUT", 1, "u4", "value -- value"),
    Opcode(0x94, "MEMOIZE", 4, "", "value -- value"),
    Opcode(0x67, "GET", 0, "line", "-- value"),
    Opcode(0x68, "BINGET", 1, "u1", "-- value"),
    Opcode(0x6A, "LONG_BINGET", 1, "u4", "-- value"),
    Opcode(0x63, "GLOBAL", 0, "line2", "-- global"),
    Opcode(0x93, "STACK_GLOBAL", 4, "", "module name -- global"),
    Opcode(0x82, "EXT1", 2, "u1", "-- extension"),
    Opcode(0x83, "EXT2", 2, "u2", "-- extension"),
    Opcode(0x84, "EXT4", 2, "i4", "-- extension"),
    Opcode(0x52, "REDUCE", 0, "", "callable args -- call"),
    Opcode(0x69, "INST", 0, "line2", "| args -- call"),
    Opcode(0x6F, "OBJ", 1, "", "| class args -- call"),
    Opcode(0x81, "NEWOBJ", 2, "", "class args -- call"),
    Opcode(0x92, "NEWOBJ_EX", 4, "", "class args kwargs -- call"),
    Opcode(0x62, "BUILD", 0, "", "value state -- value"),
    Opcode(0x50, "PERSID", 0, "line", "-- persistent"),
    Opcode(0x51, "BINPERSID", 1, "", "id -- persistent"),
    Opcode(0x80, "PROTO", 2, "u1", "--"),
    Opcode(0x95, "FRAME", 4, "u8", "--"),
    Opcode(0x97, "NEXT_BUFFER", 5, "", "-- buffer"),
    Opcode(0x98, "READONLY_BUFFER", 5, "", "buffer -- buffer"),
    # end opcodes
)

BY_CODE: Final = {row.code: row for row in OPCODES}
FRAME: Final = 0x95
STOP: Final = 0x2E
_FIXED: Final = {"u1": 1, "u2": 2, "u4": 4, "u8": 8, "i4": 4, "f8": 8, "s1": 1, "s4": 4, "s8": 8, "i4s": 4}
LINES: Final = {row.code: 2 if row.argument == "line2" else 1 for row in OPCODES if row.argument.startswith("line")}
"""The number of lines of text in the argument, by opcode."""
HEADS: Final = [1 + _FIXED.get(BY_CODE[code].argument, 0) if code in BY_CODE else 0 for code in range(256)]
"""By opcode: the size of the opcode and of the fixed part of its argument; 0 if there is no such opcode."""
WIDTHS: Final = [
    _FIXED[BY_CODE[code].argument] if code in BY_CODE and "s" in BY_CODE[code].argument else 0 for code in range(256)
]
"""By opcode: the size of the length in its argument."""
SIGNED: Final = frozenset(row.code for row in OPCODES if row.argument == "i4s")  # the opcodes whose length is signed

_MOST_CROSSINGS: Final = 1
"""The most frames that end inside an argument, in one reading. Picklers write none; each doubles the readings."""


class Reading(Record):
    """The bytes that an unpickler executes, without frames."""

    data: bytes
    starts: tuple[tuple[int, int], ...]  # the start of each part of ``data``, in ``data`` and in the pickle
    end: int | None
    """The position where the unpickler stops: after STOP, or at the end of its frame. None without STOP."""

    def position(self, at: int) -> int:
        """Return the position in the pickle of a position in ``data``."""
        ours, theirs = next(pair for pair in reversed(self.starts) if pair[0] <= at)
        return theirs + at - ours


def readings(data: bytes, most: int) -> tuple[tuple[Reading, ...], bool]:
    """Return readings of a pickle, which differ where a frame ends inside an argument, and whether these are all.

    :param most: the most opcodes to read, of all readings together
    """
    paths = [_Path(data)]
    found: list[Reading] = []
    is_complete, is_framed = True, False
    while paths:
        path = paths.pop()
        goes_on = True
        while most > 0 and goes_on and path.crossings <= _MOST_CROSSINGS:
            most -= 1
            goes_on = path.step()
            if path.fork is not None:
                paths.append(path.fork)
                path.fork = None
        is_complete = is_complete and path.crossings <= _MOST_CROSSINGS and most > 0
        found.append(path.reading())
        is_framed = is_framed or path.is_framed
    if not is_framed:
        return (), True
    return tuple({reading.data: reading for reading in found}.values()), is_complete


class _Path:
    """One reading of the opcodes: the parts of the pickle that it consists of."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.opcode = 0  # the position of the current opcode
        self.start = 0
        self.runs: list[tuple[int, int]] = []
        self.frame_end: int | None = None
        self.end: int | None = None
        self.crossings = 0
        self.is_framed = False
        self.fork: _Path | None = None  # the other reading, after an argument that extends beyond the end of a frame

    def step(self) -> bool:
        """Skip one opcode and its argument; return whether another may follow."""
        if self.position == self.frame_end:
            self.frame_end = None
        if self.position >= len(self.data):
            return False
        self.opcode = self.position
        code = self.data[self.position]
        self.position += 1
        if not HEADS[code] or code == STOP:
            self.end = self.frame_end or self.position if code == STOP else None
            return False
        if code in LINES:
            return all(self._take_line() for _ in range(LINES[code]))
        size = WIDTHS[code]
        if not self._take(HEADS[code] - 1):
            return False
        if code == FRAME:
            return self._enter(self._last(8))
        return not size or self._take(self._last(size, signed=code in SIGNED))

    def _last(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.data[self.position - size : self.position], "little", signed=signed)

    def _take(self, size: int) -> bool:
        if size < 0:
            return False
        if size and self.frame_end is not None and self.position + size > self.frame_end:
            self._cross()
        self.position += size
        return self.position <= len(self.data)

    def _take_line(self) -> bool:
        stop = len(self.data) if self.frame_end is None else self.frame_end
        found = self.data.find(b"\n", self.position, stop)
        if found < 0 and self.frame_end is not None:
            self._cross()
            found = self.data.find(b"\n", self.position)
        self.position = found + 1 if found >= 0 else len(self.data)
        return found >= 0

    def _enter(self, size: int) -> bool:
        self.is_framed = True
        is_buffered = self.frame_end is not None and self.position + size <= self.frame_end
        if size <= len(self.data) - self.position and not is_buffered:
            if self.frame_end is not None:
                self._cross()
            self.frame_end = self.position + size
        return True  # if the frame is too long, the unpickler in C fails, the other one continues

    def _cross(self) -> None:
        """Drop the rest of the frame; on another path, read the same opcode as if there were no frame."""
        # from bytes CPython reads on after the frame, from a file, as torch does, it drops what is left of the frame
        self.crossings += 1
        self.fork = _Path(self.data)
        self.fork.position, self.fork.start, self.fork.runs = self.opcode, self.start, list(self.runs)
        self.fork.crossings = self.crossings
        self.runs.append((self.start, self.position))
        self.start = self.position = self.frame_end or self.position
        self.frame_end = None

    def reading(self) -> Reading:
        pieces, starts, size = [], [], 0
        for start, stop in (*self.runs, (self.start, self.position)):
            pieces.append(self.data[start:stop])
            starts.append((size, start))
            size += len(pieces[-1])
        return Reading(b"".join(pieces), tuple(starts), self.end)
