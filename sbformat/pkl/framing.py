"""How unpicklers differ when a frame ends inside an argument (FORMAT.md 5.1).

FRAME gives the length of the bytes that follow and belong together. Every opcode and its argument should be in one
frame. When an argument extends beyond the end of a frame, unpicklers differ:

* CPython's unpickler in Python fails;
* its unpickler in C, when it reads bytes, ignores frames: the argument continues after the end of the frame;
* its unpickler in C, when it reads a file, as torch does, keeps the frame in a buffer. It drops the rest of the buffer,
  and reads the argument from the bytes after the frame. After STOP it leaves the file at the end of the frame.

So if a frame ends between the opcode ``58`` and its length, the second unpickler reads another length than the third. A
scan judges each reading. This module only uses the layout of opcodes; ``machine`` executes the bytes of a reading.
"""

from __future__ import annotations

from typing import Final

from sbformat.immutable import Record
from sbformat.pkl.opcodes import BY_CODE

_FRAME: Final = 0x95
_STOP: Final = 0x2E
_SIZES: Final = {"": 0, "u1": 1, "u2": 2, "u4": 4, "i4": 4, "u8": 8, "f8": 8}
_MOST_CROSSINGS: Final = 1
"""The most frames that end inside an argument, in one reading. Picklers write none; each doubles the readings."""


class Reading(Record):
    """The bytes that an unpickler executes, without frames."""

    data: bytes
    starts: tuple[tuple[int, int], ...]
    """The start of each part of ``data``, in ``data`` and in the pickle."""
    end: int | None
    """The position where the unpickler stops: after STOP, or at the end of its frame. None without STOP."""

    def position(self, at: int) -> int:
        """Return the position in the pickle of a position in ``data``."""
        ours, theirs = next(pair for pair in reversed(self.starts) if pair[0] <= at)
        return theirs + at - ours


class Readings(Record):
    """All readings of a pickle whose frames are wrong."""

    readings: tuple[Reading, ...]
    is_complete: bool
    """False if there are more readings than these."""


def readings(data: bytes, most: int) -> Readings:
    """Return all readings of a pickle, which differ where a frame ends inside an argument.

    :param data: the pickle, and the bytes that follow it
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
        return Readings((), is_complete=True)
    unique = {reading.data: reading for reading in found}
    return Readings(tuple(unique.values()), is_complete)


class _Path:
    """One reading of the opcodes: the parts of the pickle that it consists of."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.opcode = 0
        """The position of the current opcode."""
        self.start = 0
        self.runs: list[tuple[int, int]] = []
        self.frame_end: int | None = None
        self.end: int | None = None
        self.crossings = 0
        self.is_framed = False
        self.fork: _Path | None = None
        """The other reading, after an argument that extends beyond the end of a frame."""

    def step(self) -> bool:
        """Skip one opcode and its argument; return whether another may follow."""
        if self.position == self.frame_end:
            self.frame_end = None
        if self.position >= len(self.data):
            return False
        self.opcode = self.position
        code = self.data[self.position]
        row = BY_CODE.get(code)
        self.position += 1
        if row is None or code == _STOP:
            self.end = None if row is None else self.frame_end or self.position
            return False
        kind = row.argument
        if code == _FRAME:
            return self._take(8) and self._enter(int.from_bytes(self._last(8), "little"))
        if kind.startswith("line"):
            return self._take_line() and (kind != "line2" or self._take_line())
        if kind in _SIZES:
            return self._take(_SIZES[kind])
        size = int(kind[1])
        return self._take(size) and self._take(int.from_bytes(self._last(size), "little", signed=kind.endswith("s")))

    def _last(self, size: int) -> bytes:
        return self.data[self.position - size : self.position]

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
        if size > len(self.data) - self.position:
            return True  # the unpickler in C fails, the other one continues
        if self.frame_end is not None and self.position + size <= self.frame_end:
            return True  # it is already in the buffer
        if self.frame_end is not None:
            self._cross()
        self.frame_end = self.position + size
        return True

    def _cross(self) -> None:
        """Drop the rest of the frame; on another path, read the same opcode as if there were no frame."""
        self.crossings += 1
        self.fork = _Path(self.data)
        self.fork.position, self.fork.start, self.fork.runs = self.opcode, self.start, list(self.runs)
        self.fork.crossings = self.crossings
        self.runs.append((self.start, self.position))
        self.start = self.position = self.frame_end or self.position
        self.frame_end = None

    def reading(self) -> Reading:
        """Return the parts, joined."""
        pieces, starts, size = [], [], 0
        for start, stop in (*self.runs, (self.start, self.position)):
            pieces.append(self.data[start:stop])
            starts.append((size, start))
            size += len(pieces[-1])
        return Reading(b"".join(pieces), tuple(starts), self.end)
