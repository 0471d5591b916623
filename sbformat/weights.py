"""Arrays from files that other tools write: ``.safetensors`` and ``.npz``; the mirror of ``export``.

Both are read here, strictly and without copies: no pickle, no header that is evaluated, no hole and no overlap. An
``.npz`` goes through the strict zip, object arrays are refused.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

import numpy as np

from sbformat import data as data_entry
from sbformat.container import Container
from sbformat.errors import ContainerError, DataError, SbformatError, TensorError, UnsupportedError, quote
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.npy import read_header
from sbformat.names.pth import STORAGE_CLASSES
from sbformat.pth.array_storages import contiguous
from sbformat.pth.arrays import numpy_dtype
from sbformat.pth.dtypes import DTYPES
from sbformat.pth.unread import FileStorage
from sbformat.pth.values import TensorInfo
from sbformat.source import FileSource, PathSource, open_source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.source import Source, SourceLike


def read_arrays(path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS) -> dict[str, np.ndarray]:
    """Read all arrays of a ``.safetensors`` or ``.npz`` file.

    :param path: its suffix tells the format
    :param limits: what it may ask for
    :return: by name, in the order of the file; read-only
    :raises OSError: from the path, unchanged
    :raises ContainerError: when it is damaged
    :raises TensorError: when an array does not fit its bytes
    :raises UnsupportedError: for another suffix, object arrays, and dtypes that need an extra
    """
    suffix = os.path.splitext(os.fspath(path))[1]
    if suffix == ".safetensors":
        return read_safetensors(path, limits=limits)[0]
    if suffix == ".npz":
        return _read_npz(path, Budget(limits))
    message = f"{quote(os.fspath(path))}: weights are read from .safetensors and .npz files"
    raise UnsupportedError(message)


def _array(
    data: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...], budget: Budget, *, order: Literal["C", "F"] = "C"
) -> np.ndarray:
    """Return the array over these bytes, which must be exactly what it needs."""
    _check_shape(len(data), dtype.itemsize, shape, budget)
    try:
        array: np.ndarray = np.ndarray(shape, dtype, data, order=order)
    except ValueError as error:  # no items, and a size that no memory has
        message = f"numpy cannot hold it: {str(error)[:100]}"
        raise UnsupportedError(message) from None
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        message = "it is bool and holds bytes other than 0 and 1"
        raise TensorError(message)
    return array


def _check_shape(nbytes: int, itemsize: int, shape: tuple[int, ...], budget: Budget) -> None:
    budget.spend("tensor_rank", len(shape))
    size = itemsize
    for length in shape:
        size *= length
    if size != nbytes:
        message = f"its shape asks for {_number(size)} bytes, it has {nbytes}"
        raise TensorError(message)


def _number(value: int) -> str:
    return str(value) if value.bit_length() <= 64 else f"2^{value.bit_length() - 1} or more"


# -- safetensors --------------------------------------------------------------------------------------

_LENGTH_BYTES: Final = 8
_METADATA: Final = "__metadata__"
_DTYPES: Final = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "F16": "float16", "BF16": "bfloat16",
    "U32": "uint32", "I32": "int32", "F32": "float32", "U64": "uint64", "I64": "int64", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu",
}  # fmt: skip
"""torch's dtypes by the names that safetensors has for them."""


def read_safetensors(
    source: SourceLike, *, limits: Limits = DEFAULT_LIMITS
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read the arrays of a ``.safetensors`` file, and its metadata.

    The library's releases differ in the dtypes that they hand to numpy, and some fail on those they know; the format is
    a page, so it is read here.

    :param source: a path, bytes, or a binary file object
    :param limits: what it may ask for; the header counts as JSON
    :raises ContainerError: when it is damaged: tensors must cover the bytes without hole and overlap
    """
    budget = Budget(limits)
    opened = open_source(source, budget=budget)
    rows, metadata, start = _header(opened, budget)
    arrays = {}
    for name, (dtype, shape, (begin, end)) in sorted(rows.items(), key=lambda item: item[1][2]):
        try:
            arrays[name] = _array(opened.view(start + begin, end - begin), _little(dtype), shape, budget)
        except SbformatError as error:
            raise error.within(name) from None
    return arrays, metadata


def tensors_in_place(
    path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS
) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """Describe the tensors of a ``.safetensors`` file, whose bytes stay there, and return its metadata.

    Until they were written elsewhere the file must not change: that it did is told as a ``ContainerError``.

    :param path: the file
    :param limits: as for :func:`read_safetensors`; the memory it takes does not grow with the tensors
    :raises ContainerError: as that does
    """
    budget = Budget(limits)
    opened = PathSource(path, limits=limits)
    rows, metadata, start = _header(opened, budget)
    tensors = {}
    for name, (dtype, shape, (begin, end)) in sorted(rows.items(), key=lambda item: item[1][2]):
        try:
            _check_shape(end - begin, _little(dtype).itemsize, shape, budget)
        except SbformatError as error:
            raise error.within(name) from None
        tensors[name] = _tensor(opened, start + begin, end - begin, _DTYPES[dtype], shape)
    return tensors, metadata


def _tensor(opened: Source, start: int, size: int, dtype: str, shape: tuple[int, ...]) -> TensorInfo:
    is_typed = dtype in STORAGE_CLASSES
    numel = size // DTYPES[dtype].itemsize if is_typed else size
    storage = FileStorage(opened, start, dtype if is_typed else "", numel, is_bool=dtype == "bool")
    return TensorInfo(dtype, shape, contiguous(shape), 0, storage)


_ANY_HEADER: Final = Limits()._replace(json_bytes=2**31, json_nodes=2**31, leaves=2**31)
"""For headers that were written here."""


def check_safetensors(path: str | os.PathLike[str]) -> None:
    """Read the header of a file that was just written, of any size.

    :raises ContainerError: when its tensors do not cover its bytes, or it cannot be read
    """
    with FileSource(path) as source:
        _header(source, Budget(_ANY_HEADER))


_Row: TypeAlias = "tuple[str, tuple[int, ...], tuple[int, int]]"
"""A tensor's dtype, shape, and span in the bytes behind the header."""


def _header(opened: Source, budget: Budget) -> tuple[dict[str, _Row], dict[str, str], int]:
    """Return the tensors and the metadata that a file describes, and where its bytes begin."""
    if opened.size < _LENGTH_BYTES:
        _refuse(f"it has {opened.size} bytes")
    length = int.from_bytes(opened.view(0, _LENGTH_BYTES), "little")
    start = _LENGTH_BYTES + length
    if start > opened.size:
        _refuse(f"its header would have {length:,} bytes, the file has {opened.size:,}")
    try:
        header = data_entry.decode(opened.view(_LENGTH_BYTES, length), budget)
    except DataError as error:
        _refuse(f"its header is no JSON: {error.message}")
    metadata = header.pop(_METADATA, {})
    if type(metadata) is not dict or any(type(text) is not str for text in metadata.values()):
        _refuse("its metadata is not text by name")
    budget.spend("leaves", len(header))
    rows = {name: _row(name, row) for name, row in header.items()}
    _check_cover((span for _, _, span in rows.values()), opened.size - start)
    return rows, metadata, start


def _refuse(message: str) -> NoReturn:
    whole = f"not a whole safetensors file: {message}"
    raise ContainerError(whole)


def _row(name: str, row: object) -> _Row:
    """A tensor's dtype, shape and span of bytes, each of the type that it must have."""
    if type(row) is not dict:
        _refuse(f"{quote(name)} is no description of a tensor")
    dtype, shape, span = (row.get(key, ()) for key in ("dtype", "shape", "data_offsets"))
    if type(dtype) is not str or not _are_sizes(shape) or not _are_sizes(span) or len(span) != 2:
        _refuse(f"{quote(name)} has no dtype, shape and offsets")
    begin, end = span
    if begin > end:
        _refuse(f"{quote(name)} ends before it begins")
    return dtype, tuple(shape), (begin, end)


def _are_sizes(value: Any) -> bool:  # noqa: ANN401 -- a JSON value
    return type(value) is list and all(type(size) is int and size >= 0 for size in value)


def _check_cover(spans: Iterable[tuple[int, int]], size: int) -> None:
    ordered = [(0, 0), *sorted(spans), (size, size)]
    if any(mine[1] != following[0] for mine, following in pairwise(ordered)):
        _refuse("its tensors do not cover its bytes one behind the other")


def _little(name: str) -> np.dtype[Any]:
    if name not in _DTYPES:
        message = f"it is {quote(name, 40)}, which numpy cannot hold"
        raise UnsupportedError(message)
    dtype = numpy_dtype(_DTYPES[name])
    return dtype if sys.byteorder == "little" else dtype.newbyteorder("<")


# -- npz ----------------------------------------------------------------------------------------------

_NPY_SUFFIX: Final = ".npy"


def _read_npz(path: str | os.PathLike[str], budget: Budget) -> dict[str, np.ndarray]:
    opened = open_source(path, budget=budget)
    container = Container(opened, budget=budget, names="record", entry_limit="inner_entries")
    arrays = {}
    for name in container:
        try:
            if not name.endswith(_NPY_SUFFIX):
                message = "it is no .npy, so this is no .npz"
                raise UnsupportedError(message)
            arrays[name.removesuffix(_NPY_SUFFIX)] = _npy(container.read(name), budget)
        except SbformatError as error:
            raise error if error.entry == name else error.within(name) from None
    return arrays


def _npy(data: memoryview, budget: Budget) -> np.ndarray:
    """The array of a ``.npy``: a view of its bytes."""
    descr, shape, is_fortran, start = read_header(data)
    try:
        dtype = np.dtype(descr)
    except TypeError:
        message = f"numpy has no dtype {quote(descr, 40)}"
        raise UnsupportedError(message) from None
    return _array(data[start:], dtype, shape, budget, order="F" if is_fortran else "C")
