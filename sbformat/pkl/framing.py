"""What unpicklers read when a frame ends inside an argument (FORMAT.md 5.1).

A FRAME announces how many bytes follow that belong together, and every opcode with its argument is meant to be in one
frame. When an argument reaches past the end of a frame, unpicklers differ:

* the one in pure Python fails;
* CPython's C unpickler, given bytes, pays no attention to frames: the argument goes on behind the end of the frame;
* the C unpickler on a file, as torch calls it, holds the frame in a buffer: it drops the rest of the buffer and takes
  the argument from what follows the frame. After STOP it leaves the file at the end of the frame.

So ``95 | 05 .. | 58 "ab"`` and a frame that ends between the opcode ``58`` and its length has one length for the second
reading and another for the third. A scan judges each. Only the layout of opcodes is looked at here; the machine in
``decode`` executes what a reading gives.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sbformat.pkl.opcodes import BY_CODE

_FRAME: Final = 0x95
_STOP: Final = 0x2E
_SIZES: Final = {"": 0, "u1": 1, "u2": 2, "u4": 4, "i4": 4, "u8": 8, "f8": 8}
_MOST_CROSSINGS: Final = 1
"""Frames that end inside an argument, in one reading. No pickler writes any; each doubles the number of readings."""


class Reading(NamedTuple):
    """The bytes that an unpickler executes, frames passed over."""

    data: bytes
    starts: tuple[tuple[int, int], ...]
    """Where each run of ``data`` begins, in ``data`` and in the pickle."""
    end: int | None
    """Where in the pickle an unpickler stops reading: after STOP, or at the end of its frame. None without a STOP."""

    def position(self, at: int) -> int:
        """Return the position in the pickle of a position in ``data``."""
        ours, theirs = next(pair for pair in reversed(self.starts) if pair[0] <= at)
        return theirs + at - ours


class Readings(NamedTuple):
    """Each way to read a pickle whose frames are wrong."""

    readings: tuple[Reading, ...]
    is_complete: bool
    """False when there are more than are looked at."""


def readings(data: bytes, most: int) -> Readings:
    """Return each way to read a pickle, by what is done where a frame ends inside an argument.

    :param data: the pickle, and whatever follows it
    :param most: opcodes that are looked at
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
    """One way through the opcodes: the runs of bytes that it takes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.opcode = 0
        """Where the opcode that is looked at is."""
        self.start = 0
        self.runs: list[tuple[int, int]] = []
        self.frame_end: int | None = None
        self.end: int | None = None
        self.crossings = 0
        self.is_framed = False
        self.fork: _Path | None = None
        """The other way, after an argument that reaches past the end of a frame."""

    def step(self) -> bool:
        """Pass over one opcode with its argument; say whether another may follow."""
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
            return True  # the C unpickler fails, the other one goes on
        if self.frame_end is not None and self.position + size <= self.frame_end:
            return True  # it is in the buffer already
        if self.frame_end is not None:
            self._cross()
        self.frame_end = self.position + size
        return True

    def _cross(self) -> None:
        """Drop what is left of the frame; on another path the same opcode is read as if there were no frame."""
        self.crossings += 1
        self.fork = _Path(self.data)
        self.fork.position, self.fork.start, self.fork.runs = self.opcode, self.start, list(self.runs)
        self.fork.crossings = self.crossings
        self.runs.append((self.start, self.position))
        self.start = self.position = self.frame_end or self.position
        self.frame_end = None

    def reading(self) -> Reading:
        """Return the bytes of the runs, one after another."""
        pieces, starts, size = [], [], 0
        for start, stop in (*self.runs, (self.start, self.position)):
            pieces.append(self.data[start:stop])
            starts.append((size, start))
            size += len(pieces[-1])
        return Reading(b"".join(pieces), tuple(starts), self.end)
