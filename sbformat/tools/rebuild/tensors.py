"""Tensors of a rebuilt state dict: copies of their own, other columns, other devices; no numpy."""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, quote
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.dtypes import DTYPES
from sbformat.pth.values import Device, QuantizedTensor, SparseTensor, Storage, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

_CPU: Final = "cpu"


def storage_of(data: bytes, dtype: str) -> Storage:
    """Return a storage of bytes that are here, little-endian."""
    numel = len(data) // DTYPES[dtype].itemsize
    return Storage("0", dtype, numel, _CPU, "little", lambda _: memoryview(data), "")


def scalar(value: float) -> TensorInfo:
    """Return a float32 tensor without dimensions, as torch >= 1.12 counts an optimizer's steps."""
    return TensorInfo("float32", (), (), 0, storage_of(struct.pack("<f", value), "float32"))


class Copies:
    """Equal tensors over storages of their own; what shared memory shares its copy, and bytes are read when written."""

    def __init__(self) -> None:
        self._storages: dict[int, tuple[Storage, Storage]] = {}
        """The copy, and the storage itself, so that no other gets its ``id()``."""

    def tensor(self, info: TensorInfo) -> TensorInfo:
        """Return a copy of a tensor."""
        return info._replace(storage=self.storage(info.storage))

    def storage(self, storage: Storage) -> Storage:
        """Return the copy of a storage, on the CPU."""
        if id(storage) not in self._storages:
            copy = Storage(
                storage.key, storage.dtype, storage.numel, _CPU, storage.byte_order, lambda _: storage.bytes(), ""
            )
            self._storages[id(storage)] = copy, storage
        return self._storages[id(storage)][0]


def with_columns(info: TensorInfo, columns: Sequence[int | None]) -> TensorInfo:
    """Return a matrix with other columns: each one of the old ones, or zeros.

    :param info: a contiguous matrix
    :param columns: by their numbers in the old matrix; None for zeros
    :raises UnsupportedError: for any other tensor
    """
    rows, width = info.shape
    size = DTYPES[info.dtype].itemsize
    is_whole = 0 < rows * width <= info.storage.numel and info.storage.dtype == info.dtype
    if not is_whole or info.strides != (width, 1) or info.storage.byte_order != "little" or info.conj or info.neg:
        message = f"a layer of the dtype {quote(info.dtype)} does not lie in memory row by row"
        raise UnsupportedError(message)
    data = info.storage.bytes()[info.offset * size :]
    made = bytearray()
    for row in range(rows):
        line = data[row * width * size : (row + 1) * width * size]
        for column in columns:
            made += bytes(size) if column is None else line[column * size : (column + 1) * size]
    return info._replace(
        shape=(rows, len(columns)),
        strides=(len(columns), 1),
        offset=0,
        storage=storage_of(bytes(made), info.dtype),
    )


class Moved:
    """Trees with every tensor on the CPU, and numbers of numpy as Python's; what shared memory still does."""

    def __init__(self) -> None:
        self._copies = Copies()
        self._made: dict[int, tuple[Any, Any]] = {}

    def value(self, value: Any) -> Any:
        """Return a tree anew."""
        known = self._made.get(id(value))
        if known is not None:
            return known[0]
        made = self._value(value)
        if made is not value:
            self._made[id(value)] = made, value
        return made

    def _value(self, value: Any) -> Any:
        if type(value) in (dict, OrderedDict):
            made = type(value)((key, self.value(part)) for key, part in value.items())
            if hasattr(value, "_metadata"):
                made._metadata = value._metadata  # noqa: SLF001 -- torch's own name
            return made
        if type(value) in (list, tuple):
            return type(value)([self.value(part) for part in value])
        if isinstance(value, TensorInfo):
            moved = value if value.storage.location == _CPU else self._copies.tensor(value)
            return moved._replace(state=None)
        if isinstance(value, (SparseTensor, QuantizedTensor)):
            return type(value)(*(self.value(part) for part in value))
        if isinstance(value, ArrayInfo) and value.is_scalar:
            return value.to_numpy().item()
        return Device(_CPU) if isinstance(value, Device) else value
