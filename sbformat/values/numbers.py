"""Numbers as blobs hold them: Python's own, or numpy scalars."""

from __future__ import annotations

import struct
from typing import Final

from sbformat.pkl.numpy import ArrayInfo
from sbformat.values.context import UnrecognizedError, reject

_CODES: Final = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f2": "e",
    "f4": "f", "f8": "d",
}  # fmt: skip


_BITS: Final = 64


def to_number(value: object, what: str) -> int | float:
    """Return a number, a numpy scalar as Python's.

    :raises UnrecognizedError: when it is none
    """
    if isinstance(value, (int, float)) and (isinstance(value, float) or value.bit_length() <= _BITS):
        return value
    if isinstance(value, ArrayInfo) and value.shape == () and value.dtype[1:] in _CODES:
        return unpack_items(value)[0]
    message = f"{what} is no number"
    raise UnrecognizedError(message)


def to_float64(value: object, what: str) -> int | float:
    """Return a number that Python and numpy calculate with alike: Python's own, or of float64.

    numpy calculates in the dtype of its scalars: with a float32 the results are other numbers, and whole ones overflow.

    :raises UnrecognizedError: when it is none
    """
    if isinstance(value, ArrayInfo) and value.dtype[1:] != "f8":
        reject(f"{what} is not of float64: numpy calculates with it in another dtype")
    return to_number(value, what)


def to_int(value: object, what: str) -> int:
    """Return a whole number."""
    found = to_number(value, what)
    if type(found) is not int:
        reject(f"{what} is no whole number")
    return found


def unpack_items(value: ArrayInfo) -> tuple[int | float, ...]:
    """Return the items of an array of plain numbers, in the order of its bytes."""
    code = _CODES.get(value.dtype[1:])
    if code is None:
        reject(f"an array of {value.dtype} holds no plain numbers")
    order = ">" if value.dtype[0] == ">" else "<"
    return struct.unpack(f"{order}{len(value.buffer) // struct.calcsize(code)}{code}", value.read())
