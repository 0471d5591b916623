"""``read_arrays``: arrays from ``.safetensors`` and ``.npz`` files, the inverse of ``write_arrays``.

Both formats are read strictly and without copies: no pickle, no evaluated header, no gaps, no overlaps. An ``.npz`` is
read with the strict zip reader; object arrays are refused.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from sbformat.arrayfiles.headers import check_shape, dtype_of, parse_header, read_header
from sbformat.container.reader import Container
from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.io.opening import open_source
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.numpy import array_buffer
from sbformat.pth.arrays import little, numpy_dtype
from sbformat.pth.values import refuse, refuse_unsupported

if TYPE_CHECKING:
    from sbformat.io.opening import SourceLike
    from sbformat.io.source import Source


def read_arrays(path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS) -> dict[str, np.ndarray]:
    """Read all arrays of a ``.safetensors`` or ``.npz`` file.

    :return: the arrays by name, in the order of the file; read-only
    """
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix == ".safetensors":
        return read_safetensors(path, limits=limits)[0]
    if suffix != ".npz":
        refuse_unsupported(f"{quote(os.fspath(path))}: expected a .safetensors or .npz file")
    budget = Budget(limits)
    opened = open_source(path, budget=budget)
    budget.grant(opened.size)
    return read_npz(opened, budget)


def read_npz(opened: Source, budget: Budget) -> dict[str, np.ndarray]:
    """Return the arrays of an opened ``.npz``."""
    arrays = {}
    container = Container(opened, budget=budget, names="record")
    for name in container:
        try:
            if not name.endswith(_NPY_SUFFIX):
                refuse_unsupported("expected a .npz, whose members are named *.npy")
            arrays[name.removesuffix(_NPY_SUFFIX)] = _npy(container.read(name), budget)
        except SbformatError as error:
            raise error if error.entry == name else error.within(name) from None
    return arrays


def read_array(path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS) -> np.ndarray:
    """Return the array of a ``.npy`` file, which is read-only."""
    budget = Budget(limits)
    opened = open_source(path, budget=budget)
    budget.grant(opened.size)
    return _npy(opened.view(0, opened.size), budget)


def _array(
    data: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...], budget: Budget, *, order: Literal["C", "F"] = "C"
) -> np.ndarray:
    """Return the array over these bytes, which must be exactly what it needs."""
    check_shape(len(data), dtype.itemsize, shape, budget)
    try:
        array: np.ndarray = np.ndarray(shape, dtype, array_buffer(data), order=order)
    except ValueError as error:  # no items, and a size that no memory has
        raise UnsupportedError(f"numpy cannot represent it: {str(error)[:100]}") from None
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        refuse("expected the bytes 0 and 1 in an array of bool, got others")
    return array


_NPY_SUFFIX: Final = ".npy"
_NOT_PLAIN: Final = ("bfloat", "float8", "complex")


def read_safetensors(
    source: SourceLike, *, limits: Limits = DEFAULT_LIMITS, is_plain: bool = False
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read the arrays of a ``.safetensors`` file, and its metadata.

    The library's releases differ in the dtypes that they hand to numpy, and some fail on those they know; the format is
    a page, so it is read here.

    :param is_plain: refuse complex numbers, and dtypes that numpy itself does not have
    """
    budget = Budget(limits)
    opened = open_source(source, budget=budget)
    budget.grant(opened.size)
    rows, metadata, start = parse_header(opened, budget)
    arrays = {}
    for name, (dtype, shape, (begin, end)) in rows.items():
        try:
            torch_name = dtype_of(dtype)
            if is_plain and torch_name.startswith(_NOT_PLAIN):
                refuse_unsupported(f"expected real numbers of numpy, got {torch_name}")
            held = little(numpy_dtype(torch_name))
            arrays[name] = _array(opened.view(start + begin, end - begin), held, shape, budget)
        except SbformatError as error:
            raise error.within(name) from None
    return arrays, metadata


def _npy(data: memoryview, budget: Budget) -> np.ndarray:
    """The array of a ``.npy``: a view of its bytes."""
    descr, shape, is_fortran, start = read_header(data)
    try:
        dtype = np.dtype(descr)
    except TypeError:
        raise UnsupportedError(f"unknown numpy dtype {quote(descr, 40)}") from None
    return _array(data[start:], dtype, shape, budget, order="F" if is_fortran else "C")
