"""The headers of array files: bytes in, dtypes, shapes and places out, without numpy.

The header of a ``.npy`` is the source text of a Python dict, which numpy parses as Python; here one pattern matches all
that numpy writes, and nothing is evaluated (SB2.md 16.2). Source: numpy ``lib/_format_impl.py``. That of a
``.safetensors`` is strict JSON.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from sbformat.constants import NPY_MAGIC
from sbformat.data import parse_object
from sbformat.errors import ContainerError, DataError, SbformatError, quote
from sbformat.immutable import Record
from sbformat.io.source import FileSource
from sbformat.limits import Budget, Limits
from sbformat.pkl.tree import STORAGE_CLASSES
from sbformat.pth.file_storage import FileStorage
from sbformat.pth.values import DTYPES, STORAGE_ITEMSIZES, TensorInfo, contiguous, refuse, refuse_unsupported

if TYPE_CHECKING:
    import os

    from sbformat.io.source import Source


_NPY_LENGTH_BYTES: Final = {1: 2, 2: 4, 3: 4}  # bytes of the header's length by version
_FIXED_BYTES: Final = 12
_HEADER_BYTES: Final = 1 << 16
HEAD_BYTES: Final = _FIXED_BYTES + _HEADER_BYTES
"""The largest size of a header, with what comes before it."""
_PYTHON_2: Final = 2  # the last version whose sizes may have Python 2's L
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
    """
    head = bytes(data[:_FIXED_BYTES])
    counted = _NPY_LENGTH_BYTES.get(head[6]) if len(head) == _FIXED_BYTES and head.startswith(NPY_MAGIC) else None
    if counted is None:
        refuse("expected the signature of a .npy file of version 1 to 3")
    length = int.from_bytes(head[8 : 8 + counted], "little")
    start = 8 + counted + length
    if length > _HEADER_BYTES or start > len(data):
        refuse(f"a header of {length} bytes is longer than the file, or than {_HEADER_BYTES} bytes")
    text = bytes(data[8 + counted : start]).decode("latin-1")
    if not _HEADER.fullmatch(text):
        refuse_unsupported("its header does not describe an array of plain numbers; arrays of objects need a pickle")
    found: dict[str, str] = {}
    for item in re.finditer(_ITEM, text):
        found.update({key: value for key, value in item.groupdict().items() if value is not None})
    if len(found) != 3 or ("L" in found["shape"] and head[6] > _PYTHON_2):
        refuse_unsupported("expected descr, fortran_order and shape in its header, each once")
    if not _DESCR.fullmatch(found["descr"]):
        refuse_unsupported(
            f"expected plain numbers, got the dtype {quote(found['descr'], 40)}; arrays of objects need a pickle"
        )
    sizes = tuple(int(size.strip(" L")) for size in found["shape"].split(",") if size.strip())
    return NpyHeader(found["descr"], sizes, found["order"] == "True", start)


_LENGTH_BYTES: Final = 8
_ROW_KEYS: Final = ("dtype", "shape", "data_offsets")
CODES: Final = {
    # begin words: generated from schema/tables/dtypes.json by schema/generate_tables.py
    "uint64": "U64", "int64": "I64", "float64": "F64", "complex64": "C64", "float32": "F32", "uint32": "U32",
    "int32": "I32", "bfloat16": "BF16", "float16": "F16", "uint16": "U16", "int16": "I16",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "int8": "I8", "uint8": "U8", "bool": "BOOL",
    # end words
}  # fmt: skip
"""What the format calls the dtypes of torch and numpy, in the order in which its library writes them: the widest items
first, so that all are aligned."""
_DTYPES: Final = {code: name for name, code in CODES.items()}


def read_tensors(opened: Source, budget: Budget) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """Describe the tensors of a ``.safetensors`` file, whose bytes stay there, and return its metadata."""
    rows, metadata, start = parse_header(opened, budget)
    tensors = {}
    for name, (dtype, shape, (begin, end)) in rows.items():
        try:
            torch_name = dtype_of(dtype)
            check_shape(end - begin, DTYPES[torch_name].itemsize, shape, budget)
        except SbformatError as error:
            raise error.within(name) from None
        storage_dtype = torch_name if torch_name in STORAGE_CLASSES else ""
        numel = (end - begin) // STORAGE_ITEMSIZES[storage_dtype]
        storage = FileStorage(opened, start + begin, storage_dtype, numel)
        tensors[name] = TensorInfo(torch_name, shape, contiguous(shape), 0, storage)
    return tensors, metadata


_ANY_HEADER: Final = Limits()._replace(json_bytes=2**31, json_nodes=2**31, leaves=2**31)
"""For headers that were written here."""


def check_safetensors(path: str | os.PathLike[str]) -> None:
    """Read the header of a file that was just written, of any size."""
    parse_header(FileSource(path, limits=_ANY_HEADER), Budget(_ANY_HEADER))


Row: TypeAlias = "tuple[str, tuple[int, ...], tuple[int, int]]"
"""A tensor's dtype as the format names it, its shape, and its span in the bytes after the header."""


def parse_header(opened: Source, budget: Budget) -> tuple[dict[str, Row], dict[str, str], int]:
    """Return the tensors in the order of their bytes, the metadata, and the offset of the first byte."""
    if opened.size < _LENGTH_BYTES:
        _refuse(f"it has {opened.size} bytes")
    length = int.from_bytes(opened.view(0, _LENGTH_BYTES), "little")
    start = _LENGTH_BYTES + length
    if start > opened.size:
        _refuse(f"its header has {length:,} bytes, more than the file of {opened.size:,}")
    try:
        header = parse_object(opened.view(_LENGTH_BYTES, length), budget)
    except DataError as error:
        _refuse(f"its header is not JSON: {error.message}")
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or any(type(text) is not str for text in metadata.values()):
        _refuse("expected texts as the values of its metadata")
    budget.spend("leaves", len(header))
    rows = sorted(((name, _row(name, row)) for name, row in header.items()), key=lambda item: item[1][2])
    size = opened.size - start
    spans = [(0, 0), *(span for _, (_, _, span) in rows), (size, size)]
    if any(end != begin for (_, end), (begin, _) in pairwise(spans)):
        _refuse("its tensors overlap, or leave a gap between them")
    return dict(rows), metadata, start


def _refuse(message: str) -> NoReturn:
    whole = f"not a whole safetensors file: {message}"
    raise ContainerError(whole)


def _row(name: str, row: object) -> Row:
    """Return a tensor's dtype, shape and span of bytes, each of the type that it must have."""
    if type(row) is not dict:
        _refuse(f"expected an object that describes the tensor {quote(name)}")
    dtype, shape, span = (row.get(key, ()) for key in _ROW_KEYS)
    if type(dtype) is not str or not _are_sizes(shape) or not _are_sizes(span) or len(span) != 2:
        _refuse(f"expected a text, sizes and two offsets as {', '.join(_ROW_KEYS)} of {quote(name)}")
    begin, end = span
    if begin > end:
        _refuse(f"the offsets of {quote(name)} end before they begin")
    if any("\ud800" <= character <= "\udfff" for character in name):
        _refuse("expected Unicode text as the names of tensors")
    return dtype, tuple(shape), (begin, end)


def _are_sizes(value: Any) -> bool:
    return type(value) is list and all(type(size) is int and size >= 0 for size in value)


def dtype_of(name: str) -> str:
    """Return what torch calls a dtype of the format."""
    if name not in _DTYPES:
        refuse_unsupported(f"numpy has no dtype for {quote(name, 40)}")
    return _DTYPES[name]


def check_shape(nbytes: int, itemsize: int, shape: tuple[int, ...], budget: Budget) -> None:
    """Check that an array of a shape needs exactly the bytes that it has."""
    budget.spend("tensor_rank", len(shape))
    size = math.prod(shape, start=itemsize)
    if size != nbytes:
        needed = str(size) if size.bit_length() <= 64 else f"2^{size.bit_length() - 1} or more"
        refuse(f"expected {needed} bytes for its shape, got {nbytes}")
