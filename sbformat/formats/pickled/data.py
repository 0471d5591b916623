"""Parts of a pickle as ``data`` would hold them: JSON values, and anything else as the pickle of that part alone.

That is what SB2 and SB3 do with the attributes of an algorithm when they write a zip.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import PickleError
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Global, Unread, walk
from sbformat.values.types import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.values import Decoder

_LEAST_PROTOCOL: Final = 4
_BITS_A_DIGIT: Final = 3.3
_PART: Final = 128
"""What a part that is encoded costs, in nodes that are looked at: it is decoded by itself later."""
_ENCODED: Final = 8
"""What a node that is encoded costs, in those that are looked at."""
_NUMBERS: Final = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f2": "e",
    "f4": "f", "f8": "d",
}  # fmt: skip
"""The format of a number in ``struct``, by numpy's code."""


class _NoJson(Exception):  # noqa: N818 -- a word within this module, never raised to a caller
    """JSON has no word for it."""


class DataBuilder:
    """One pickle whose parts become ``data``.

    :param pickle: decoded
    :param decoder: what was understood of it
    :param budget: the operation's
    """

    def __init__(self, pickle: Pickle, decoder: Decoder, budget: Budget) -> None:
        self._pickle = pickle
        self._recognition = decoder
        self._budget = budget
        self._visited = 0
        self._copied = 0

    def made(self, pairs: Iterable[tuple[object, object]]) -> dict[str, Any]:
        """Return parts by name.

        :param pairs: a name and a part of the tree
        :raises PickleError: when a name is no text, or stands twice
        :raises LimitError: when parts that are shared come to more than allowed
        """
        made: dict[str, Any] = {}
        for key, part in pairs:
            if type(key) is not str or key in made:
                message = "a name in it is no text, or stands twice"
                raise PickleError(message)
            try:
                made[key] = self._plain(self._recognition.value(part), 1)
            except _NoJson:
                made[key] = self._serialized(part)
        return made

    def _visit(self, count: int = 1) -> None:
        """Count what is gone through: in what a pickler writes, no more than the pickle has bytes."""
        self._visited += count
        if self._visited > self._pickle.size:
            self._budget.spend("pickle_nodes", self._visited - self._pickle.size)

    def _copy(self, size: int) -> None:
        """Count the bytes of text and numbers, which may be shared: JSON writes them out each time."""
        self._copied += size
        if self._copied > self._pickle.size:
            self._budget.spend("json_bytes", self._copied - self._pickle.size)

    def _plain(self, value: Any, depth: int) -> Any:
        self._visit()
        self._budget.spend("json_depth", depth)
        if type(value) is str:
            self._copy(len(value))
            return value
        if value is None or type(value) in (bool, float):
            return value
        if type(value) is int:
            self._copy(value.bit_length() >> 3)
            self._budget.spend("json_digits", int(value.bit_length() / _BITS_A_DIGIT))
            return value
        if type(value) in (list, tuple):
            return [self._plain(part, depth + 1) for part in value]
        if isinstance(value, dict) and all(type(key) is str for key in value):
            self._copy(sum(map(len, value)))
            return {key: self._plain(part, depth + 1) for key, part in value.items()}
        if isinstance(value, ArrayInfo) and value.is_scalar and value.dtype[1:] in _NUMBERS:
            order = ">" if value.dtype.startswith(">") else "<"
            return struct.unpack(order + _NUMBERS[value.dtype[1:]], value.read())[0]
        raise _NoJson

    def _serialized(self, part: object) -> Serialized:
        self._visit(_PART)
        for _ in walk(part):
            self._visit(_ENCODED)
        protocol: Any = max(_LEAST_PROTOCOL, self._pickle.protocol)
        raw = encode_pickle(part, protocol=protocol, reduce=self._bytes, setters=self._recognition.setters)
        self._budget.spend("blob_bytes", len(raw))
        self._budget.spend("blobs_bytes", len(raw))
        return Serialized(self._type_of(part), raw)

    def _bytes(self, value: object) -> bytes:
        """Read what was left in the file."""
        if not isinstance(value, Unread):
            message = f"an inert tree holds no {type(value).__name__}"
            raise TypeError(message)
        self._budget.spend("blob_bytes", len(value))
        return value.read()

    def _type_of(self, part: object) -> str | None:
        """The text that SB3 would write as ``:type:``, where the pickle tells it."""
        value = self._recognition.value(part)
        if isinstance(value, Function):
            return "<class 'function'>"
        if isinstance(value, ArrayInfo):
            return "<class 'numpy.ndarray'>"
        if isinstance(part, Call) and part.how == "NEWOBJ" and type(part.func) is Global:
            return f"<class '{part.func}'>"
        return None
