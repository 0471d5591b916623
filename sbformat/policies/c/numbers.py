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
    "float16": "float", "float32": "float", "float64": "double",
}  # fmt: skip
"""By numpy's names. Indices have 32 bits: 64 cost several instructions each where registers have 32."""
C_DTYPES: Final[Mapping[str, str]] = {"uint64": "int32", "int64": "int32", "float16": "float32"}
"""The dtype that an array has in C, where it is another one."""
SIZES: Final[Mapping[str, int]] = {
    "uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4,
    "double": 8,
}  # fmt: skip
"""Bytes of an item, by type."""

_PER_LINE: Final = 8
_CHUNK: Final = _PER_LINE << 10
"""Items that are texts at the same time: numpy's array of texts has 128 bytes for each."""
_PLAIN: Final = (np.float32(2e-4), np.float32(2e5))
"""Where every release of numpy writes a float32 without an exponent."""
_NOT_FINITE: Final = {"nan": "NAN", "-nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}


def write_float(value: float) -> str:
    """Return the shortest literal that is the same number in float32."""
    return _write_floats(np.array([value]))[0]


def _write_floats(array: Array) -> list[str]:
    """Return the literals of a vector; they do not depend on the release of numpy."""
    with np.errstate(over="ignore"):
        floats = array.astype(np.float32)
    texts: list[str] = floats.astype(np.str_).tolist()
    magnitudes = np.abs(floats)
    is_plain = (magnitudes == 0) | ((magnitudes >= _PLAIN[0]) & (magnitudes < _PLAIN[1]))
    for at in np.flatnonzero(~is_plain).tolist():
        texts[at] = np.format_float_scientific(floats[at], trim="-", exp_digits=2)
    return [f"{text}f" for text in texts] if np.isfinite(floats).all() else list(map(_add_suffix, texts))


def _write_doubles(array: Array) -> list[str]:
    return [f"(double){_NOT_FINITE[text]}" if text in _NOT_FINITE else text for text in map(repr, array.tolist())]


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
        return _write_doubles(array) if array.dtype == np.float64 else _write_floats(array)
    numbers = array.astype(object)
    if array.dtype.itemsize == 8:
        for number in numbers:
            if not -(2**31) <= number < 2**31:
                message = f"expected integers of 32 bits in {quote(name)}, got {number}: C source has no larger ones"
                raise UnsupportedError(message)
    return [
        "(-2147483647 - 1)" if number == -(2**31) else f"{int(number)}{'u' * (number >= 2**31)}" for number in numbers
    ]
