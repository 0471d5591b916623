"""The table of torch dtypes: size, numpy's code, and the unit of byte order (FORMAT.md 6.4)."""

from __future__ import annotations

from typing import Final

from sbformat.immutable import Record


class DType(Record):
    """A torch dtype."""

    name: str
    """As torch names it, without ``torch.``."""
    itemsize: int
    """Bytes an item."""
    numpy: str
    """numpy's dtype code; ``ml_dtypes.X`` for dtypes that numpy lacks; the integer type for quantized ones, and that of
    complex64, which can represent all values, for complex32."""
    swap: int
    """Bytes that are reversed together when the byte order differs."""

    @property
    def is_in_numpy(self) -> bool:
        """Whether numpy has it without ml_dtypes."""
        return not self.numpy.startswith("ml_dtypes.")


DTYPES: Final = {
    row.name: row
    for row in (
        # begin dtypes: generated from schema/tables/dtypes.json by schema/generate_tables.py
        DType("complex128", 16, "c16", 8),
        DType("uint64", 8, "u8", 8),
        DType("int64", 8, "i8", 8),
        DType("float64", 8, "f8", 8),
        DType("complex64", 8, "c8", 4),
        DType("float32", 4, "f4", 4),
        DType("uint32", 4, "u4", 4),
        DType("int32", 4, "i4", 4),
        DType("complex32", 4, "c8", 2),
        DType("qint32", 4, "i4", 4),
        DType("bfloat16", 2, "ml_dtypes.bfloat16", 2),
        DType("float16", 2, "f2", 2),
        DType("uint16", 2, "u2", 2),
        DType("int16", 2, "i2", 2),
        DType("float8_e5m2fnuz", 1, "ml_dtypes.float8_e5m2fnuz", 1),
        DType("float8_e4m3fnuz", 1, "ml_dtypes.float8_e4m3fnuz", 1),
        DType("float8_e8m0fnu", 1, "ml_dtypes.float8_e8m0fnu", 1),
        DType("float8_e4m3fn", 1, "ml_dtypes.float8_e4m3fn", 1),
        DType("float8_e5m2", 1, "ml_dtypes.float8_e5m2", 1),
        DType("int8", 1, "i1", 1),
        DType("uint8", 1, "u1", 1),
        DType("bool", 1, "b1", 1),
        DType("qint8", 1, "i1", 1),
        DType("quint8", 1, "u1", 1),
        # end dtypes
    )
}

QUANTIZED: Final = frozenset({
    # begin quantized: generated from schema/tables/dtypes.json by schema/generate_tables.py
    "qint32", "qint8", "quint8"
    # end quantized
})  # fmt: skip


def storage_itemsize(dtype: str) -> int:
    """Return the bytes of an element of a storage.

    :param dtype: torch's name, or ``""`` for an untyped storage, whose elements are bytes
    """
    return DTYPES[dtype].itemsize if dtype else 1
