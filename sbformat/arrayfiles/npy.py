"""The header of a ``.npy``, parsed without numpy and without evaluating it (SB2.md 16.2).

It is the source text of a Python dict, which numpy parses as Python; one pattern matches all that numpy writes.
Source: numpy ``lib/_format_impl.py``.
"""

from __future__ import annotations

import re
from typing import Final

from sbformat.constants import NPY_MAGIC
from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.immutable import Record

_LENGTH_BYTES: Final = {1: 2, 2: 4, 3: 4}
"""Bytes of the header's length by version."""
_FIXED_BYTES: Final = 12
_HEADER_BYTES: Final = 1 << 16
HEAD_BYTES: Final = _FIXED_BYTES + _HEADER_BYTES
"""The largest size of a header, with what comes before it."""
_KEYS: Final = 3
_PYTHON_2: Final = 2
"""The last version whose sizes may have Python 2's L."""
_SIZE: Final = "(?:0|[1-9][0-9]{0,18})L?"
_ITEM: Final = (
    r"'(?:descr' *: *'(?P<descr>[^'\n]*)'"
    r"|fortran_order' *: *(?P<order>True|False)"
    rf"|shape' *: *\((?P<shape>(?:{_SIZE},|{_SIZE}(?:, ?{_SIZE})+(?:, ?)?)?)\))"
)
_PLAIN_ITEM: Final = re.sub(r"\?P<\w+>", "?:", _ITEM)
_HEADER: Final = re.compile(rf"\{{ *{_PLAIN_ITEM}(?: *, *{_PLAIN_ITEM}){{2}} *,? *\}}[ \n]*")
_DESCR: Final = re.compile(r"[<>=|]?[biufc][0-9]{1,2}")


class NpyHeader(Record):
    """The dtype, shape and order of the array in a ``.npy``."""

    descr: str
    """numpy's code of the dtype, ``<f4``: of plain numbers, though numpy need not have it."""
    shape: tuple[int, ...]
    is_fortran: bool
    start: int
    """Offset of the array's first byte."""


def read_header(data: memoryview) -> NpyHeader:
    """Read the header of a ``.npy``.

    :param data: all of it, or its first ``HEAD_BYTES``
    :raises TensorError: when it is not a header that numpy writes
    :raises UnsupportedError: for arrays of objects, which are pickled, and other arrays that are not plain numbers
    """
    head = bytes(data[:_FIXED_BYTES])
    counted = _LENGTH_BYTES.get(head[6]) if len(head) == _FIXED_BYTES and head.startswith(NPY_MAGIC) else None
    if counted is None:
        message = "expected the signature of a .npy file of version 1 to 3"
        raise TensorError(message)
    length = int.from_bytes(head[8 : 8 + counted], "little")
    start = 8 + counted + length
    if length > _HEADER_BYTES or start > len(data):
        message = f"a header of {length} bytes is longer than the file, or than {_HEADER_BYTES} bytes"
        raise TensorError(message)
    return _parsed(bytes(data[8 + counted : start]).decode("latin-1"), head[6], start)


def _parsed(text: str, version: int, start: int) -> NpyHeader:
    if not _HEADER.fullmatch(text):
        message = "its header does not describe an array of plain numbers; arrays of objects need a pickle"
        raise UnsupportedError(message)
    found: dict[str, str] = {}
    for item in re.finditer(_ITEM, text):
        found.update({key: value for key, value in item.groupdict().items() if value is not None})
    if len(found) != _KEYS or ("L" in found["shape"] and version > _PYTHON_2):
        message = "expected descr, fortran_order and shape in its header, each once"
        raise UnsupportedError(message)
    if not _DESCR.fullmatch(found["descr"]):
        message = f"expected plain numbers, got the dtype {quote(found['descr'], 40)}; arrays of objects need a pickle"
        raise UnsupportedError(message)
    sizes = tuple(int(size.strip(" L")) for size in found["shape"].split(",") if size.strip())
    return NpyHeader(found["descr"], sizes, found["order"] == "True", start)
