"""Types and numbers of C: what an array of numpy is as ``static const``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.errors import UnsupportedError, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.policies.run.steps import Array

C_TYPES: Final[Mapping[str, str]] = {
    "bool": "uint8_t", "uint8": "uint8_t", "int8": "int8_t", "uint16": "uint16_t", "int16": "int16_t",
    "uint32": "uint32_t", "int32": "int32_t", "uint64": "int32_t", "int64": "int32_t",
    "float16": "float", "float32": "float", "float64": "float",
}  # fmt: skip
"""By numpy's names. Indices have 32 bits: 64 cost several instructions each where registers have 32."""
C_DTYPES: Final[Mapping[str, str]] = {
    "uint64": "int32", "int64": "int32", "float16": "float32", "float64": "float32",
}  # fmt: skip
"""The dtype that an array has in C, where it is another one."""
SIZES: Final[Mapping[str, int]] = {
    "uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4,
}  # fmt: skip
"""Bytes of an item, by type."""

_PER_LINE: Final = 8
_CHUNK: Final = _PER_LINE << 10
"""Items that are texts at the same time: numpy's array of texts has 128 bytes for each."""
_NOT_FINITE: Final = {"nan": "NAN", "-nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}


def write_float(value: float) -> str:
    """Return the shortest literal that is the same number in float32."""
    with np.errstate(over="ignore"):
        return _add_suffix(str(np.float32(value)))


def _add_suffix(text: str) -> str:
    return _NOT_FINITE.get(text) or f"{text}f"


def write_array(name: str, array: Array) -> str:
    """Return the definition of an array; an empty one has an item that nothing reads.

    :param name: an identifier
    :raises UnsupportedError: for an integer that 32 bits do not hold
    """
    size, items = max(1, array.size), array.reshape(-1) if array.size else np.zeros(1, np.uint8)
    lines = [f"static const {C_TYPES[array.dtype.name]} {name}[{size}] = {{"]
    for start in range(0, size, _CHUNK):
        texts = _write_items(items[start : start + _CHUNK], name)
        lines += [f"    {', '.join(texts[at : at + _PER_LINE])}," for at in range(0, len(texts), _PER_LINE)]
    return "\n".join([*lines, "};", ""])


def _write_items(array: Array, name: str) -> list[str]:
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            floats = array.astype(np.float32)
        texts = floats.astype(np.str_).tolist()
        return [f"{text}f" for text in texts] if np.isfinite(floats).all() else list(map(_add_suffix, texts))
    numbers = array.astype(object)
    if array.dtype.itemsize == 8:
        for number in numbers:
            if not -(2**31) <= number < 2**31:
                message = f"expected integers of 32 bits in {quote(name)}, got {number}: C source has no larger ones"
                raise UnsupportedError(message)
    return [
        "(-2147483647 - 1)" if number == -(2**31) else f"{int(number)}{'u' * (number >= 2**31)}" for number in numbers
    ]
