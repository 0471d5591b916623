"""Decode pickles that are larger than memory: the same trees; large bytes stay in the file (REPLAY-BUFFERS.md 18.1).

A replay buffer is a pickle of a few thousand opcodes around gigabytes of arrays. Decoding has two steps:

1. :class:`_Walk` reads the opcodes from the file, using only the lengths of their arguments, and copies them into a
   *reduced* pickle. Of a bytes object of ``threshold`` bytes or more it copies the opcode and the length; instead of
   the bytes, it adds an :class:`~sbformat.pkl.tree.Unread` with their position to ``leaves``.
2. :class:`_ReducedMachine`, which is the machine of ``machine``, executes the reduced pickle. Where it reads the length
   of such a bytes object, it takes the next of the ``leaves`` as the value.

For example, with a threshold of 4::

    pickle     80 05   8e 04 00 00 00 00 00 00 00 'abcd'   94   2e        PROTO BINBYTES8 "abcd" MEMOIZE STOP
    reduced    80 05   8e 04 00 00 00 00 00 00 00          94   2e
    leaves     [Unread(offset 11, 4 bytes)]                               and so is the tree

A hindsight buffer contains an empty dict for each of its million steps. A run of EMPTY_DICT MEMOIZE is left out as
well: the reduced pickle has one marker for it, ``leaves`` the number of dicts, and the tree one dict instead of all of
them. If an opcode changes one of them or refers to it, the pickle is decoded again without this shortcut.

Invariants: the walk raises no PickleError; where it cannot continue, it copies the bytes at which the machine will
fail, and the offset of that error is converted to that in the file. Only the bytes of the reduced pickle are charged as
``pickle_bytes``. The walk and the machine meet the ``leaves`` in the same order. A FRAME has the length of its content
in the reduced pickle, so that frames are checked there as well.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import SbformatError
from sbformat.pkl.machine import Machine
from sbformat.pkl.opcodes import FRAME, HEADS, LINES, OPCODES, SIGNED, STOP, WIDTHS
from sbformat.pkl.state import refuse
from sbformat.pkl.tree import Dict, Unread

if TYPE_CHECKING:
    from sbformat.io.source import Source
    from sbformat.limits import Budget
    from sbformat.pkl.machine import Pickle

LARGE: Final = 1 << 16
"""Bytes objects of at least this size stay in the file. CPython writes the same ones outside frames."""

_WINDOW: Final = 1 << 16
"""Bytes to read at a time: not more than the threshold, so that what is left out is not read in vain."""
_COPIES: Final = 3
"""Copies of the reduced pickle in memory: while it grows, the bytes for the machine, and a frame of them."""
_BYTEARRAY8: Final = 0x96
_PAYLOADS: Final = frozenset(row.code for row in OPCODES if row.name in ("BINBYTES", "BINBYTES8", "BYTEARRAY8"))
_STOPS: Final = frozenset({STOP, FRAME})  # the opcodes that end a run of opcodes that are copied whole
_LONGEST_HEAD: Final = max(HEADS)
_LENGTH8: Final = Struct("<Q")
_EMPTY_DICT: Final = 0x7D
_EMPTIES: Final = rb"(?:\}\x94)+"
_LEAST_EMPTIES: Final = 64
_EMPTIES_A_NODE: Final = 16  # empty dicts that together count as one node: they take two references each
_RUN: Final = b"\x8e" + b"\xff" * 8  # the marker for a run of them: a bytes object that is larger than any file


def decode_large(
    source: Source,
    budget: Budget,
    *,
    encoding: str = "ascii",
    threshold: int = LARGE,
    least_empties: int | None = _LEAST_EMPTIES,
) -> Pickle:
    """Decode one pickle, and leave its large bytes in the file.

    The result is that of :func:`~sbformat.pkl.decode.decode_pickle`, except that each bytes object of ``threshold``
    bytes or more is ``Unread``, that ``size`` does not count those, and that empty dicts may be the same object.

    :param least_empties: the shortest run of empty dicts that becomes one dict; None for no run
    """
    walk = _Walk(source, budget, threshold, least_empties)
    walk.run()
    budget.keep(0, meanwhile=_COPIES * len(walk.reduced))
    machine = _ReducedMachine(bytes(walk.reduced), budget, encoding, walk)
    try:
        pickle = machine.run()
    except SbformatError as error:
        if not machine.touched_empties():
            if error.offset is not None:
                error.offset += walk.cuts[bisect_right(walk.cuts, (error.offset, source.size)) - 1][1]
            raise
    if machine.touched_empties():
        return decode_large(source, budget, encoding=encoding, threshold=threshold, least_empties=None)
    budget.keep(machine.cost(len(walk.reduced)))
    if walk.position != source.size:
        refuse(f"{source.size - walk.position} bytes follow the STOP of the pickle", walk.position)
    return pickle._replace(size=source.size - sum(len(leaf) for leaf in walk.leaves if isinstance(leaf, Unread)))


class _ReducedMachine(Machine):
    """The machine for a reduced pickle."""

    __slots__ = ("_empty", "_is_lost", "_leaves", "_threshold")

    def __init__(self, data: bytes, budget: Budget, encoding: str, walk: _Walk) -> None:
        limits = budget.limits._replace(pickle_memo=budget.limits.pickle_memo + walk.empties)
        super().__init__(data, limits, encoding, budget.memory_left())
        self._leaves = deque(walk.leaves)
        self._threshold = walk.threshold
        self._empty = Dict()  # the dict that represents every empty dict that was left out
        self._is_lost = False

    def payload(self, size: int) -> bytes | Unread:
        start = self.position + size
        if not self._leaves or int.from_bytes(self.data[self.position : start], "little") < self._threshold:
            return self.counted(size)
        self.position = start
        leaf = self._leaves.popleft()
        return self._empties(leaf) if isinstance(leaf, int) else leaf

    def _empties(self, count: int) -> Any:
        """Push ``count`` empty dicts except the last one, which is returned, and store all in the memo."""
        depth = len(self.stack) + count
        if depth > self.limits.pickle_stack:
            self.exceeded("pickle_stack", depth)
        self._is_lost = self._is_lost or bool(self.far_memo)
        self.stack += [self._empty] * (count - 1)
        self.memo += [self._empty] * count
        return self._empty

    def touched_empties(self) -> bool:
        """Return whether an opcode changed or referred to one of the empty dicts, which are one object here."""
        return self._is_lost or bool(self._empty) or id(self._empty) in self.referred


class _Walk:
    """The walk over a pickle's opcodes that makes the reduced pickle."""

    def __init__(self, source: Source, budget: Budget, threshold: int, least_empties: int | None) -> None:
        self.source = source
        self.threshold = threshold
        self.reduced = bytearray()
        self.leaves: list[Unread | int] = []  # what was left out, in order: bytes, or a number of empty dicts
        self.empties = 0
        self.position = 0  # the offset of the next opcode in the source
        self._budget = budget
        self._run_of_empties = b"}\x94" * (least_empties + 1) if least_empties else None
        self._opcodes_left = budget.limits.pickle_opcodes
        self._end = source.size  # the end of the frame, or of the source outside frames
        self._frame: int | None = None  # the offset of the frame's content in the reduced pickle
        self._window = b""
        self._start = 0  # the offset of the window in the source
        self.cuts: list[tuple[int, int]] = [(0, 0)]
        """Offsets in the reduced pickle, each with the number of bytes that were left out before it."""

    def run(self) -> None:
        """Walk to STOP, or to the opcode at which the machine will fail."""
        goes_on = True
        while goes_on:
            if self.position == self._end:
                self._leave_frame()
            self._plain_run()
            goes_on = self._opcodes_left >= 0 and self.position < self.source.size
            if goes_on and self.position < self._end:
                goes_on = self._step()
        self._leave_frame()

    def _plain_run(self) -> None:
        """Copy opcodes that are copied whole, up to the end of the window."""
        window, start, size = self._ahead()
        threshold, left, run = self.threshold, self._opcodes_left, self._run_of_empties
        at = start
        # this loop sees every opcode of a million steps: its state is in local variables, and it copies once
        while at < size and left >= 0:
            code = window[at]
            after = at + HEADS[code]
            width = WIDTHS[code]
            if code == _EMPTY_DICT and run and window.startswith(run, at, size):
                break
            if code in LINES:
                for _ in range(LINES[code]):
                    after = window.find(b"\n", after, size) + 1 or size + 1
            elif width:
                length = int.from_bytes(window[after - width : after], "little")
                after += length
                if code in _PAYLOADS and length >= threshold:
                    break
            if after > size or after == at or code in _STOPS:
                break
            at = after
            left -= 1
        self._opcodes_left = left
        self._keep(at - start)

    def _step(self) -> bool:
        """Process one opcode of any kind; return whether the walk can continue."""
        window, at, size = self._ahead(_LONGEST_HEAD)
        code = window[at]
        left = self._end - self.position
        self._opcodes_left -= 1
        run = self._run_of_empties
        if code == _EMPTY_DICT and run and window.startswith(run, at, size):
            self._leave_out_empties(window, at, size)
            return True
        if code in LINES:
            return all(self._keep_line() for _ in range(LINES[code]))
        head = HEADS[code] or 1
        if head > left:
            self._keep(left)
            return False
        if code == FRAME:
            return self._enter_frame(int.from_bytes(window[at + 1 : at + head], "little"))
        width = WIDTHS[code]
        length = int.from_bytes(window[at + head - width : at + head], "little", signed=code in SIGNED)
        if not 0 <= length <= left - head:
            self._keep(head)
            return False
        if code in _PAYLOADS and length >= self.threshold:
            self._keep(head)
            self._leave_out(Unread(self.source, self.position, length, is_bytearray=code == _BYTEARRAY8), length)
            return True
        self._keep(head + length)
        return bool(HEADS[code]) and code != STOP

    def _ahead(self, least: int = 1) -> tuple[bytes, int, int]:
        """Return bytes of the source, and the positions in them of the next opcode and of the end of the frame.

        :param least: how many bytes there are from the next opcode on, unless the source ends
        """
        at = self.position - self._start
        if at + least > len(self._window) and self._start + len(self._window) < self.source.size:
            self._window = bytes(self.source.view(self.position, min(_WINDOW, self.source.size - self.position)))
            self._start, at = self.position, 0
        return self._window, at, min(len(self._window), self._end - self._start)

    # -- the reduced pickle ---------------------------------------------------------------------------

    def _keep(self, size: int) -> None:
        self._budget.spend("pickle_bytes", len(self.reduced) + size)
        at = self.position - self._start
        is_read = at + size <= len(self._window)
        self.reduced += self._window[at : at + size] if is_read else self.source.view(self.position, size)
        self.position += size

    def _keep_line(self) -> bool:
        """Copy the rest of a line of text; return whether it has an end."""
        while self.position < self._end:
            window, at, size = self._ahead()
            stop = window.find(b"\n", at, size) + 1
            self._keep((stop or size) - at)
            if stop:
                return True
        return False

    def _leave_out(self, leaf: Unread | int, size: int) -> None:
        """Skip bytes, and note what the machine will take in their place."""
        self.leaves.append(leaf)
        self.position += size
        self.cuts.append((len(self.reduced), self.position - len(self.reduced)))

    def _leave_out_empties(self, window: bytes, at: int, size: int) -> None:
        """Leave out a run of empty dicts except the last one, as items may follow for that."""
        found = re.compile(_EMPTIES).match(window, at, size)
        count = len(found[0]) // 2 - 1 if found else 0
        self.empties += count
        self._budget.spend("pickle_nodes", self.empties // _EMPTIES_A_NODE)
        self.reduced += _RUN
        self._leave_out(count, 2 * count)

    # -- frames ---------------------------------------------------------------------------------------

    def _enter_frame(self, size: int) -> bool:
        """Copy FRAME and its length, which is corrected at the end of the frame; return whether the frame is valid."""
        start = self.position + HEADS[FRAME]
        fits = self._frame is None and size <= self.source.size - start
        self._keep(HEADS[FRAME])
        if fits:
            self._frame = len(self.reduced)
            self._end = start + size
        return fits

    def _leave_frame(self) -> None:
        if self._frame is not None:
            _LENGTH8.pack_into(self.reduced, self._frame - 8, len(self.reduced) - self._frame)
        self._frame = None
        self._end = self.source.size
