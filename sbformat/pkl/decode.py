"""Decode pickles into inert trees, within a budget (FORMAT.md 5). The opcodes are executed in ``machine``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import PickleError
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.machine import Machine, Pickle

if TYPE_CHECKING:
    from sbformat.io.source import Cursor

__all__ = ["Pickle", "decode_next", "decode_pickle", "loads"]

_WINDOW: Final = 1 << 16
"""Bytes in which the end of a pickle is looked for first; then in four times as many, and so on."""
_COPIES: Final = 2
"""Copies of a pickle in memory while it is decoded: the bytes that the machine reads, and a frame of them."""


def loads(data: bytes | bytearray | memoryview, *, limits: Limits = DEFAULT_LIMITS) -> object:
    r"""Decode one pickle into an inert tree.

    >>> loads(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.").func
    Global('os', 'system')

    :param data: the pickle; nothing may follow its STOP
    :param limits: the limits that the pickle must keep
    :return: plain values and the nodes of :mod:`sbformat.pkl.tree`
    :raises PickleError: when it is not a pickle, is cut short, or is followed by other bytes (FORMAT.md 5)
    :raises LimitError: when it exceeds a limit
    """
    return decode_pickle(data, Budget(limits)).value


def decode_pickle(data: bytes | bytearray | memoryview, budget: Budget, *, encoding: str = "ascii") -> Pickle:
    """Decode one pickle as :func:`loads` does, with its log, and charge an operation's budget.

    :param encoding: the encoding of Python 2's 8-bit strings: ASCII as in ``pickle.loads``, UTF-8 as in ``torch.load``
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
