"""Tensors of a rebuilt state dict: copies in new storages, selected columns, all on the CPU; without numpy."""

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


def make_storage(data: bytes, dtype: str) -> Storage:
    """Return a storage of little-endian bytes in memory."""
    numel = len(data) // DTYPES[dtype].itemsize
    return Storage("0", dtype, numel, _CPU, "little", lambda _: memoryview(data), "")


def make_scalar(value: float) -> TensorInfo:
    """Return a float32 tensor without dimensions; torch >= 1.12 counts an optimizer's steps in one."""
    return TensorInfo("float32", (), (), 0, make_storage(struct.pack("<f", value), "float32"))


class StorageCopies:
    """Copies of tensors in new storages on the CPU, read when they are written; shared memory stays shared."""

    def __init__(self) -> None:
        self._storages: dict[int, tuple[Storage, Storage]] = {}
        """The copy by the ``id()`` of the storage, and the storage itself, so that no other gets its ``id()``."""

    def copy(self, info: TensorInfo) -> TensorInfo:
        """Return a copy of a tensor."""
        return info._replace(storage=self._copy_storage(info.storage))

    def _copy_storage(self, storage: Storage) -> Storage:
        if id(storage) not in self._storages:
            copy = Storage(
                storage.key, storage.dtype, storage.numel, _CPU, storage.byte_order, lambda _: storage.bytes(), ""
            )
            self._storages[id(storage)] = copy, storage
        return self._storages[id(storage)][0]


def select_columns(info: TensorInfo, columns: Sequence[int | None]) -> TensorInfo:
    """Return a matrix with the given columns.

    :param info: a contiguous matrix
    :param columns: the numbers of old columns; None for zeros
    :raises UnsupportedError: when it is not a contiguous little-endian matrix
    """
    rows, width = info.shape
    size = DTYPES[info.dtype].itemsize
    is_whole = 0 < rows * width <= info.storage.numel and info.storage.dtype == info.dtype
    if not is_whole or info.strides != (width, 1) or info.storage.byte_order != "little" or info.conj or info.neg:
        message = (
            f"expected a contiguous little-endian matrix, got a layer of the dtype {quote(info.dtype)} in another form"
        )
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
        storage=make_storage(bytes(made), info.dtype),
    )


class CpuCopies:
    """Copies of trees with every tensor on the CPU, and numpy's scalars as Python numbers; shared memory stays so."""

    def __init__(self) -> None:
        self._storages = StorageCopies()
        self._made: dict[int, tuple[Any, Any]] = {}
        """The copy by the ``id()`` of the original, and the original, so that no other gets its ``id()``."""

    def copy(self, value: Any) -> Any:
        """Return the copy of a tree."""
        known = self._made.get(id(value))
        if known is not None:
            return known[0]
        made = self._copy(value)
        if made is not value:
            self._made[id(value)] = made, value
        return made

    def _copy(self, value: Any) -> Any:
        if type(value) in (dict, OrderedDict):
            made = type(value)((key, self.copy(part)) for key, part in value.items())
            if hasattr(value, "_metadata"):
                made._metadata = value._metadata  # noqa: SLF001 -- torch's own name
            return made
        if type(value) in (list, tuple):
            return type(value)([self.copy(part) for part in value])
        if isinstance(value, TensorInfo):
            moved = value if value.storage.location == _CPU else self._storages.copy(value)
            return moved._replace(state=None)
        if isinstance(value, (SparseTensor, QuantizedTensor)):
            return type(value)(*(self.copy(part) for part in value))
        if isinstance(value, ArrayInfo) and value.is_scalar:
            return value.to_numpy().item()
        return Device(_CPU) if isinstance(value, Device) else value
