"""The types and functions of C source: one for each operator and type that a policy uses.

The functions are in ``functions.c``; those of elementwise operators have the expressions of
:data:`~sbformat.policies.operators.OPERATORS`.

The contract of all functions: ``n`` items of the result ``out``; operands are not written, but elementwise functions
allow ``out`` to be one of them. An operand with a step is read at ``i * step``: 1, 0 for one number, or another stride.
NaN and infinities give what ``run/kernels.py`` gives, and overflow too, item by item; sums (of layers, means) have
another order there, so that one may overflow and the other not. Integers wrap, and no float that an integer type does
not hold is converted: both would be undefined behaviour in C.
"""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

from sbformat.policies.export.files import read_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

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

CASTS: Final[Mapping[str, str]] = {
    "uint32_t": "x >= 0.0{f} && x < 4294967296.0{f} ? (uint32_t)x : (uint32_t)({whole})",
    "": "({type})({whole})",
}
"""Of floats, by the type of the result; integers that ``x`` has no number for are the least. ``{f}`` is the suffix."""
WHOLE: Final = "x >= -2147483648.0{f} && x < 2147483648.0{f} ? (int32_t)x : (-2147483647 - 1)"

FLOAT_PARTS: Final[Mapping[str, str]] = {
    "add": "+= items[i * inner]",
    "mean": "sum / (float)n",
    "is_nan": " || item != item",
    "is_first_nan": " || (item != item && greatest == greatest)",
}
INTEGER_PARTS: Final[Mapping[str, str]] = {
    "add": "= ({type})((uint32_t)sum + (uint32_t)items[i * inner])",
    "mean": "(int64_t)sum / n",
    "is_nan": "",
    "is_first_nan": "",
}


_PARTS: Final = Path(__file__).with_suffix(".c")


def write_part(part: str, /, **fields: str) -> str:
    """Return a part of C source.

    :param part: its name in ``functions.c``
    :param fields: what stands for ``$NAME``
    """
    return Template(read_parts(_PARTS)[part]).substitute(fields)
