"""Pickles decoded as far as possible, in every way in which unpicklers read them, for scans (SCANNING.md 14.1)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sbformat.errors import LimitError, SbformatError
from sbformat.immutable import Record
from sbformat.pkl.framing import Reading, readings
from sbformat.pkl.machine import Machine

if TYPE_CHECKING:
    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.pkl.tree import Node, Update

_FRAME: Final = b"\x95"


class Attempt(Record):
    """A pickle as far as it can be read: an unpickler imports and calls what precedes a fault."""

    pickle: Pickle | None
    log: list[Node | Update]
    error: SbformatError | None
    reached: int
    """The number of bytes that were read."""
    built: int = 0
    """The number of composite values."""
    ends: tuple[int, ...] = ()
    """Positions where another pickle may start: after STOP, and at the end of a frame that extends beyond it."""
    faults: tuple[str, ...] = ()
    """What CPython refuses, although it was read here."""
    changes: tuple[tuple[object, int], ...] = ()
    """Plain values that were changed after a second reference, with the length of the log at that moment."""
    is_uncertain: bool = False
    """A plain value was changed in a way that is not followed here."""
    is_ambiguous: bool = False
    """There are more ways to read its frames than those in ``others``."""
    reading: Reading | None = None
    """The bytes that were executed, if they are not those of the pickle in order."""
    others: tuple[Attempt, ...] = ()
    """The readings of other unpicklers, where a frame is wrong."""

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

    :param data: the pickle, and the bytes that follow it
    :param budget: the budget of the operation
    :param encoding: as in :func:`~sbformat.pkl.decode.decode_pickle`
    """
    try:
        budget.spend("pickle_bytes", len(data))
    except SbformatError as error:
        return Attempt(None, [], error, 0)
    found = _attempt(data, budget, encoding)
    if found.error is None or isinstance(found.error, LimitError) or _FRAME not in data:
        return found  # where a frame is wrong, the first reading ends, before any limit
    ways = readings(data, budget.limits.pickle_opcodes)
    others = [_attempt(way.data, budget, encoding, way) for way in ways.readings]
    is_more = [other for other in others if other.log or other.pickle is not None]
    return found._replace(others=tuple(is_more), is_ambiguous=not ways.is_complete)


def trace(data: bytes, found: Attempt, budget: Budget, *, encoding: str = "ascii") -> list[int]:
    """Return the offset of the opcode that caused each row of an attempt's log.

    :param data: the bytes of the attempt
    :param found: the attempt
    :param budget: the budget of the operation
    :param encoding: the encoding of the attempt
    """
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
        faults=tuple(dict.fromkeys(machine.notes.faults)),
        changes=tuple(machine.notes.changes),
        is_uncertain=machine.notes.is_uncertain,
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
