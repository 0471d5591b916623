"""Numbers as blobs hold them: Python's own, or numpy scalars."""

from __future__ import annotations

import struct
from typing import Final

from sbformat.pkl.numpy import ArrayInfo
from sbformat.values.context import Unrecognised

_CODES: Final = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f2": "e",
    "f4": "f", "f8": "d",
}  # fmt: skip


_BITS: Final = 64


def number(value: object, what: str) -> int | float:
    """Return a number, a numpy scalar as Python's.

    :raises Unrecognised: when it is none
    """
    if isinstance(value, (int, float)) and (isinstance(value, float) or value.bit_length() <= _BITS):
        return value
    if isinstance(value, ArrayInfo) and value.shape == () and value.dtype[1:] in _CODES:
        return unpacked(value)[0]
    message = f"{what} is no number"
    raise Unrecognised(message)


def binary64(value: object, what: str) -> int | float:
    """Return a number that Python and numpy calculate with alike: Python's own, or of float64.

    numpy calculates in the dtype of its scalars: with a float32 the results are other numbers, and whole ones overflow.

    :raises Unrecognised: when it is none
    """
    if isinstance(value, ArrayInfo) and value.dtype[1:] != "f8":
        message = f"{what} is not of float64: numpy calculates with it in another dtype"
        raise Unrecognised(message)
    return number(value, what)


def whole(value: object, what: str) -> int:
    """Return a whole number."""
    found = number(value, what)
    if type(found) is not int:
        message = f"{what} is no whole number"
        raise Unrecognised(message)
    return found


def unpacked(value: ArrayInfo) -> tuple[int | float, ...]:
    """Return the items of an array of plain numbers, in the order of its bytes."""
    code = _CODES.get(value.dtype[1:])
    if code is None:
        message = f"an array of {value.dtype} holds no plain numbers"
        raise Unrecognised(message)
    order = ">" if value.dtype[0] == ">" else "<"
    return struct.unpack(f"{order}{len(value.buffer) // struct.calcsize(code)}{code}", value.read())
