"""Parts of a pickle as values of ``data``: JSON values, and every other part as a pickle of its own.

SB2 and SB3 do the same with the attributes of an algorithm when they write a zip.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import PickleError
from sbformat.known.types import Function
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Global, Unread, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.values import Decoder

_LEAST_PROTOCOL: Final = 4
_BITS_A_DIGIT: Final = 3.3
_PART: Final = 128
"""Cost of encoding a part, in visited nodes, because it is decoded again later."""
_ENCODED: Final = 8
"""Cost of encoding a node, in visited nodes."""
_NUMBERS: Final = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f2": "e",
    "f4": "f", "f8": "d",
}  # fmt: skip
"""The ``struct`` format of a number by numpy's code."""


class _NotJson(Exception):  # noqa: N818 -- caught in this module
    """JSON cannot represent a value."""


class DataBuilder:
    """Converts the parts of a pickle to values of ``data``.

    :param pickle: the decoded pickle
    :param decoder: what was understood of it
    :param budget: the operation's
    """

    def __init__(self, pickle: Pickle, decoder: Decoder, budget: Budget) -> None:
        self._pickle = pickle
        self._recognition = decoder
        self._budget = budget
        self._visited = 0
        self._copied = 0

    def build(self, pairs: Iterable[tuple[object, object]]) -> dict[str, Any]:
        """Convert parts, by name.

        :param pairs: a name and a part of the tree
        :raises PickleError: if a name is not a string, or occurs twice
        :raises LimitError: if shared parts need more than allowed
        """
        made: dict[str, Any] = {}
        for key, part in pairs:
            if type(key) is not str or key in made:
                message = "expected distinct texts as the names of its attributes"
                raise PickleError(message)
            try:
                made[key] = self._plain(self._recognition.value(part), 1)
            except _NotJson:
                made[key] = self._serialized(part)
        return made

    def _visit(self, count: int = 1) -> None:
        """Count visited nodes: a pickler writes no more nodes than bytes."""
        self._visited += count
        if self._visited > self._pickle.size:
            self._budget.spend("pickle_nodes", self._visited - self._pickle.size)

    def _copy(self, size: int) -> None:
        """Count the bytes of strings and numbers: JSON repeats them if they are shared."""
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
        raise _NotJson

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
        """Read bytes that were left in the file."""
        if not isinstance(value, Unread):
            message = f"an inert tree holds no {type(value).__name__}"
            raise TypeError(message)
        self._budget.spend("blob_bytes", len(value))
        return value.read()

    def _type_of(self, part: object) -> str | None:
        """Return the text that SB3 would write as ``:type:``; None if the pickle does not contain the type."""
        value = self._recognition.value(part)
        if isinstance(value, Function):
            return "<class 'function'>"
        if isinstance(value, ArrayInfo):
            return "<class 'numpy.ndarray'>"
        if isinstance(part, Call) and part.how == "NEWOBJ" and type(part.func) is Global:
            return f"<class '{part.func}'>"
        return None
