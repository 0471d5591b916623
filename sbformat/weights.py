"""Arrays from files that other tools write: ``.safetensors`` and ``.npz``; the mirror of ``export``.

No pickle is read: an ``.npz`` goes through the strict zip and numpy's own header reader, and object arrays are refused.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.container import Container
from sbformat.errors import ContainerError, SbformatError, TensorError, UnsupportedError, quote
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pth.arrays import numpy_dtype
from sbformat.source import open_source

if TYPE_CHECKING:
    from collections.abc import Callable

WEIGHT_SUFFIXES: Final = (".safetensors", ".npz")

_NPY_SUFFIX: Final = ".npy"
_HEADER_BYTES: Final = 1 << 16
_HEADERS: Final[dict[tuple[int, int], Callable[..., Any]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_TORCH_NAMES: Final = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "F16": "float16", "BF16": "bfloat16",
    "U32": "uint32", "I32": "int32", "F32": "float32", "U64": "uint64", "I64": "int64", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu",
}  # fmt: skip
"""torch's dtypes by the names that safetensors has for them."""


def read_arrays(path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS) -> dict[str, np.ndarray]:
    """Read all arrays of a ``.safetensors`` or ``.npz`` file.

    :param path: its suffix tells the format
    :param limits: what it may ask for
    :return: by name, in the order of the file
    :raises OSError: from the path, unchanged
    :raises ContainerError: when it is damaged
    :raises UnsupportedError: for another suffix, object arrays, and dtypes that need an extra
    """
    suffix = os.path.splitext(os.fspath(path))[1]
    if suffix == ".safetensors":
        return read_safetensors(path, limits=limits)[0]
    if suffix == ".npz":
        return _read_npz(path, Budget(limits))
    message = f"{quote(os.fspath(path))}: weights are read from .safetensors and .npz files"
    raise UnsupportedError(message)


# -- safetensors --------------------------------------------------------------------------------------


def read_safetensors(
    path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read the arrays of a ``.safetensors`` file, and its metadata.

    :param path: the file
    :param limits: what it may ask for
    :raises ContainerError: when it is damaged
    """
    from safetensors import SafetensorError, safe_open

    Budget(limits).inflate(os.stat(path).st_size)
    try:
        with safe_open(path, framework="np") as file:
            metadata = dict(file.metadata() or {})
            facts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 -- it is no mapping
            dtypes = {name: str(part.get_dtype()) for name, part in facts.items()}
            known = {name: file.get_tensor(name) for name, dtype in dtypes.items() if not _is_narrow(dtype)}
        return known if len(known) == len(dtypes) else _with_narrow(path, dtypes, known), metadata
    except SafetensorError as error:
        message = f"not a whole safetensors file: {str(error)[:200]}"
        raise ContainerError(message) from None


def _is_narrow(dtype: str) -> bool:
    """A dtype that numpy lacks: the library knows its bytes, but not in every release an array of it."""
    return dtype.startswith(("BF", "F8"))


def _with_narrow(
    path: str | os.PathLike[str], dtypes: dict[str, str], known: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    from safetensors import deserialize

    with open(path, "rb") as file:
        raw = dict(deserialize(file.read()))  # type: ignore[no-untyped-call]
    made = {}
    for name, dtype in dtypes.items():
        if name in known:
            made[name] = known[name]
            continue
        if dtype not in _TORCH_NAMES:
            message = f"{quote(name)} is {dtype}, which numpy cannot hold"
            raise UnsupportedError(message)
        flat = np.frombuffer(raw[name]["data"], np.uint8)
        made[name] = flat.view(numpy_dtype(_TORCH_NAMES[dtype])).reshape(raw[name]["shape"])
    return made


# -- npz ----------------------------------------------------------------------------------------------


def _read_npz(path: str | os.PathLike[str], budget: Budget) -> dict[str, np.ndarray]:
    opened = open_source(path, budget=budget)
    container = Container(opened, budget=budget, names="record", entry_limit="inner_entries")
    arrays = {}
    for name in container:
        try:
            if not name.endswith(_NPY_SUFFIX):
                message = "it is no .npy, so this is no .npz"
                raise UnsupportedError(message)
            arrays[name.removesuffix(_NPY_SUFFIX)] = _npy(container.read(name))
        except SbformatError as error:
            raise error if error.entry == name else error.within(name) from None
    return arrays


def _npy(data: memoryview) -> np.ndarray:
    """The array of a ``.npy``: a view of its bytes, which must be exactly those that its header asks for."""
    head = io.BytesIO(bytes(data[:_HEADER_BYTES]))
    try:
        read_header = _HEADERS[np.lib.format.read_magic(head)]
        shape, is_fortran, dtype = read_header(head)
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError) as error:
        message = f"its .npy header cannot be read: {str(error)[:100]}"
        raise TensorError(message) from None
    if dtype.hasobject or dtype.names or dtype.subdtype:
        message = f"it holds {quote(dtype)}, not plain numbers; objects would have to be unpickled"
        raise UnsupportedError(message)
    size = dtype.itemsize
    for length in shape:
        size *= length
    items = data[head.tell() :]
    if any(length < 0 for length in shape) or size != len(items):
        message = f"its header asks for {size} bytes, it has {len(items)}"
        raise TensorError(message)
    try:
        array: np.ndarray = np.ndarray(shape, dtype, items, order="F" if is_fortran else "C")
    except ValueError as error:
        message = f"numpy cannot hold it: {error}"
        raise UnsupportedError(message) from None
    return array
