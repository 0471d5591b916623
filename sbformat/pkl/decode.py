"""Decode pickles into inert trees, within a budget (FORMAT.md 5). The opcodes are executed in ``machine``.

Scans decode as far as possible, in every way in which unpicklers read a pickle (SCANNING.md 14.1).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sbformat.errors import LimitError, PickleError, SbformatError
from sbformat.immutable import Record
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.machine import Machine, Pickle
from sbformat.pkl.opcodes import Reading, readings
from sbformat.pkl.state import refuse

if TYPE_CHECKING:
    from sbformat.io.source import Cursor
    from sbformat.pkl.encode import Protocol
    from sbformat.pkl.tree import Node, Update


__all__ = ["Pickle", "decode_next", "decode_pickle", "loads"]

_WINDOW: Final = 1 << 16
"""Bytes in which the end of a pickle is looked for first; then in four times as many, and so on."""
COPIES: Final = 2
"""Copies of a pickle in memory while it is decoded: the bytes that the machine reads, and a frame of them."""


def loads(data: bytes | bytearray | memoryview, *, limits: Limits = DEFAULT_LIMITS) -> object:
    r"""Decode one pickle into an inert tree.

    >>> loads(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.").func
    Global('os', 'system')

    :param data: the pickle; nothing may follow its STOP
    :return: plain values and the nodes of :mod:`sbformat.pkl.tree`
    """
    return decode_pickle(data, Budget(limits)).value


def dumps(tree: object, *, protocol: Protocol = 4) -> bytes:
    r"""Encode an inert tree, the mirror of :func:`loads`.

    >>> dumps([1, None])
    b'\x80\x04]\x94(K\x01Ne.'
    """
    from sbformat.pkl.encode import encode_pickle  # most programs only read

    return encode_pickle(tree, protocol=protocol)


def decode_pickle(data: bytes | bytearray | memoryview, budget: Budget, *, encoding: str = "ascii") -> Pickle:
    """Decode one pickle as :func:`loads` does, with its log, and charge an operation's budget.

    :param encoding: the encoding of Python 2's 8-bit strings: ASCII as in ``pickle.loads``, UTF-8 as in ``torch.load``
    """
    budget.spend("pickle_bytes", len(data))
    budget.keep(0, meanwhile=COPIES * len(data))
    whole = data if type(data) is bytes else bytes(data)
    machine = Machine(whole, budget.limits, encoding, budget.memory_left())
    try:
        pickle = machine.run()
    except BaseException:
        budget.work(machine.cost(machine.reached()))
        raise
    cost = machine.cost(pickle.size)
    try:
        budget.keep(cost)
    finally:
        budget.work(cost)
    if pickle.size != len(whole):
        refuse(f"{len(whole) - pickle.size} bytes follow the STOP of the pickle", pickle.size)
    return pickle


def decode_next(cursor: Cursor, budget: Budget) -> Pickle:
    """Decode the pickle that starts at the cursor, and move the cursor past its STOP.

    Only the bytes that the pickle needs are copied: gigabytes of storages may follow.
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


_FRAME: Final = b"\x95"


class Attempt(Record):
    """A pickle as far as it can be read: an unpickler imports and calls what precedes a fault."""

    pickle: Pickle | None
    log: list[Node | Update]
    error: SbformatError | None
    reached: int  # the number of bytes that were read
    built: int = 0  # the number of composite values
    ends: tuple[int, ...] = ()
    """Positions where another pickle may start: after STOP, and at the end of a frame that extends beyond it."""
    faults: tuple[str, ...] = ()  # what CPython refuses, although it was read here
    changes: tuple[tuple[object, int], ...] = ()
    """Plain values that were changed after a second reference, with the length of the log at that moment."""
    is_uncertain: bool = False  # a plain value was changed in a way that is not followed here
    is_ambiguous: bool = False  # there are more ways to read its frames than those in ``others``
    reading: Reading | None = None  # the bytes that were executed, if they are not those of the pickle in order
    others: tuple[Attempt, ...] = ()  # the readings of other unpicklers, where a frame is wrong

    @property
    def readings(self) -> tuple[Attempt, ...]:
        """This attempt and the others."""
        return (self, *self.others)

    @property
    def all_ends(self) -> list[int]:
        """Positions where another pickle may start after any of the readings, in order."""
        return sorted({end for reading in self.readings for end in reading.ends})


def attempt(data: bytes, budget: Budget, *, encoding: str = "ascii") -> Attempt:
    """Decode one pickle from the start of ``data`` as far as possible; faults are returned, not raised.

    Where a frame is wrong, each way in which an unpickler may continue is decoded, too. Numbers and texts are read as
    CPython reads them, even in forms that no pickler writes.
    """
    try:
        budget.spend("pickle_bytes", len(data))
    except SbformatError as error:
        return Attempt(None, [], error, 0)
    found = _attempt(data, budget, encoding)
    if found.error is None or isinstance(found.error, LimitError) or _FRAME not in data:
        return found  # where a frame is wrong, the first reading ends, before any limit
    ways, is_complete = readings(data, budget.limits.pickle_opcodes)
    others = [_attempt(way.data, budget, encoding, way) for way in ways]
    is_more = [other for other in others if other.log or other.pickle is not None]
    return found._replace(others=tuple(is_more), is_ambiguous=not is_complete)


def trace(data: bytes, found: Attempt, budget: Budget, *, encoding: str = "ascii") -> list[int]:
    """Return the offset of the opcode that caused each row of an attempt's log, from the bytes of the attempt."""
    offsets: list[int] = []
    read = data if found.reading is None else found.reading.data
    machine = _lenient_machine(read, budget, encoding, found.reading)
    machine.log = _Trace(machine, offsets)
    with suppress(SbformatError):
        machine.run()
    return offsets if found.reading is None else [found.reading.position(offset) for offset in offsets]


def _lenient_machine(data: bytes, budget: Budget, encoding: str, reading: Reading | None) -> Machine:
    machine = Machine(data, budget.limits, encoding, budget.memory_left())
    machine.is_lenient = True
    machine.is_unframed = reading is not None
    return machine


def _attempt(data: bytes, budget: Budget, encoding: str, reading: Reading | None = None) -> Attempt:
    machine = _lenient_machine(data, budget, encoding, reading)
    pickle, error = None, None
    try:
        pickle = machine.run()
        reached, ends = pickle.size, {pickle.size, machine.base + len(machine.data) if machine.base else pickle.size}
    except SbformatError as fault:
        error, ends = fault.again(), set()
        reached = machine.reached()
    if reading is not None:
        reached = reading.position(reached)
        ends = {reading.position(pickle.size), reading.end or reached} if pickle is not None else set()
    return Attempt(
        pickle=pickle,
        log=machine.log,
        error=error,
        reached=reached,
        built=machine.built,
        ends=tuple(sorted(ends)),
        faults=tuple(dict.fromkeys(machine.faults)),
        changes=tuple(machine.changes),
        is_uncertain=machine.is_uncertain,
        reading=reading,
    )


class _Trace(list["Node | Update"]):
    """A log that notes the machine's position instead of each row."""

    def __init__(self, machine: Machine, offsets: list[int]) -> None:
        super().__init__()
        self._machine = machine
        self._offsets = offsets

    def append(self, _: Node | Update) -> None:
        machine = self._machine
        self._offsets.append(machine.base + len(machine.data) - machine.codes.__length_hint__() - 1)
