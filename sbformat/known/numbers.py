"""Numbers in pickles: Python's own, or numpy scalars."""

from __future__ import annotations

import struct
from typing import Final

from sbformat.known.rows import UnrecognizedError, reject
from sbformat.pkl.numpy import ArrayInfo

_CODES: Final = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f2": "e",
    "f4": "f", "f8": "d",
}  # fmt: skip


_BITS: Final = 64


def to_number(value: object, what: str) -> int | float:
    """Return a number; a numpy scalar becomes a Python number.

    :param what: the name of the value, for the message
    :raises UnrecognizedError: when it is not a number
    """
    if isinstance(value, (int, float)) and (isinstance(value, float) or value.bit_length() <= _BITS):
        return value
    if isinstance(value, ArrayInfo) and value.shape == () and value.dtype[1:] in _CODES:
        return unpack_items(value)[0]
    message = f"expected a number as {what}"
    raise UnrecognizedError(message)


def to_float64(value: object, what: str) -> int | float:
    """Return a number with which Python and numpy compute the same results: a Python number, or float64.

    numpy computes in the dtype of its scalars: float32 rounds differently, and integers overflow.

    :raises UnrecognizedError: when it is not such a number
    """
    if isinstance(value, ArrayInfo) and value.dtype[1:] != "f8":
        reject(f"expected float64 as {what}, got {value.dtype}: numpy computes in the dtype of its scalars")
    return to_number(value, what)


def to_int(value: object, what: str) -> int:
    """Return an integer.

    :raises UnrecognizedError: when it is not one
    """
    found = to_number(value, what)
    if type(found) is not int:
        reject(f"expected an integer as {what}")
    return found


def unpack_items(value: ArrayInfo) -> tuple[int | float, ...]:
    """Return the items of an array of plain numbers, in the order of its bytes.

    :raises UnrecognizedError: for any other dtype
    """
    code = _CODES.get(value.dtype[1:])
    if code is None:
        reject(f"expected an array of plain numbers, got {value.dtype}")
    order = ">" if value.dtype[0] == ">" else "<"
    return struct.unpack(f"{order}{len(value.buffer) // struct.calcsize(code)}{code}", value.read())
