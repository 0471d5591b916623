"""Describe numpy arrays as tensors over storages: arrays that overlap share one (WRITER.md 12.3)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import TensorError, UnsupportedError
from sbformat.pkl.names import STORAGE_CLASSES
from sbformat.pth.dtypes import DTYPES
from sbformat.pth.values import Storage, TensorInfo, contiguous

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sbformat.pth.values import Chunk

_CODES: Final = {np.dtype(row.numpy).str[1:]: row.name for row in reversed(DTYPES.values()) if row.is_in_numpy} | {
    "c8": "complex64", "i1": "int8", "u1": "uint8", "i4": "int32",
}  # fmt: skip
"""torch's dtypes by numpy's code, without complex32 and the quantized dtypes, whose codes belong to other dtypes."""
_PIECE: Final = 1 << 18


def torch_dtype(dtype: np.dtype[Any]) -> str:
    """Return torch's name of a numpy dtype.

    :raises UnsupportedError: when torch has none
    """
    name = dtype.name if dtype.name in DTYPES else _CODES.get(dtype.str[1:])
    if name is None or dtype.hasobject or dtype.names:
        message = f"torch has no dtype for numpy's {dtype}"
        raise UnsupportedError(message)
    return name


class _BoolStorage(Storage):
    """Memory of bools. A view of another dtype may have written other bytes into it, which readers refuse."""

    __slots__ = ()

    def chunks(self, swap: int = 1) -> Iterator[Chunk]:
        """Yield its bytes in chunks.

        :raises TensorError: for bytes other than 0 and 1
        """
        for piece in super().chunks(swap):
            _check_bools(piece)
            yield piece


def _check_bools(piece: Chunk) -> None:
    if (np.frombuffer(piece, np.uint8) > 1).any():
        message = "expected only bytes 0 and 1 in a bool array, got others"
        raise TensorError(message)


class _ScatteredStorage(Storage):
    """The items of an array that is not contiguous: copied in chunks, and never kept in memory."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray, dtype: str) -> None:
        self._array = array
        super().__init__("", dtype, array.size if dtype else array.nbytes, "cpu", "little", self._whole, "")

    def _whole(self, _: str) -> memoryview:
        return memoryview(b"".join(self.chunks()))

    def bytes(self) -> memoryview:
        """Return its bytes as a copy."""
        return self._whole("")

    def chunks(self, swap: int = 1) -> Iterator[Chunk]:  # noqa: ARG002 -- it is little-endian already
        """Yield its items in C order."""
        flags = ["external_loop", "buffered", "zerosize_ok"]
        dtype = self._array.dtype
        if dtype.itemsize > 1 and dtype.kind != "V":  # ml_dtypes has no other order
            dtype = dtype.newbyteorder("<")
        for piece in np.nditer(self._array, flags, order="C", op_dtypes=[dtype], casting="equiv", buffersize=_PIECE):  # type: ignore[call-overload]
            raw = np.ascontiguousarray(piece).view(np.uint8).tobytes()
            if self.dtype == "bool":
                _check_bools(raw)
            yield raw


def describe(arrays: Sequence[np.ndarray]) -> list[TensorInfo]:
    """Describe arrays as tensors, without a copy if their items are contiguous or overlap with others.

    Arrays that overlap share a storage if they have one dtype and it contains no byte that belongs to none of them.

    :param arrays: of dtypes that torch has
    :return: one tensor for each array, in order
    """
    found: dict[int, TensorInfo] = {}
    runs: dict[tuple[Any, ...], list[tuple[int, int, int]]] = {}
    for index, array in enumerate(arrays):
        bounds = _bounds(array)
        if bounds is None:
            found[index] = _scattered(array)
        else:
            low, high = bounds
            runs.setdefault((array.dtype.str, array.dtype.name, low % array.itemsize), []).append((low, high, index))
    for spans in runs.values():
        for group in _overlapping(sorted(spans)):
            found.update(_described_together(group, arrays))
    return [found[index] for index in range(len(arrays))]


def _bounds(array: np.ndarray) -> tuple[int, int] | None:
    """First and last address of its items; None when torch has no strides for them, or it has none."""
    if not array.size:
        return None
    if any(step < 0 or step % array.itemsize for size, step in zip(array.shape, array.strides) if size > 1):
        return None
    low = _address(array)
    extent = sum((size - 1) * step for size, step in zip(array.shape, array.strides))
    return low, low + extent + array.itemsize


def _overlapping(spans: list[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    group: list[tuple[int, int, int]] = []
    end = 0
    for span in spans:
        if group and span[0] >= end:
            yield group
            group = []
        group.append(span)
        end = max(end, span[1]) if len(group) > 1 else span[1]
    if group:
        yield group


def _described_together(group: list[tuple[int, int, int]], arrays: Sequence[np.ndarray]) -> dict[int, TensorInfo]:
    """One storage for arrays that overlap; one for those of them without gaps, when all together leave gaps."""
    low, high = group[0][0], max(stop for _, stop, _ in group)
    places = {index: (start, arrays[index].shape, arrays[index].strides) for start, _, index in group}
    if _cover([arrays[index] for index in {place: index for index, place in places.items()}.values()], low, high):
        first = arrays[group[0][2]]
        storage = _run(first, (high - low) // first.itemsize)
        return {index: _tensor(arrays[index], storage, (start - low) // first.itemsize) for start, _, index in group}
    found: dict[int, TensorInfo] = {}
    for part in _overlapping([span for span in group if _is_dense(arrays[span[2]])]):
        found.update(_described_together(part, arrays))
    apart: dict[tuple[Any, ...], TensorInfo] = {}
    for index in places.keys() - found.keys():
        found[index] = apart.setdefault(places[index], _scattered(arrays[index]))
    return found


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0] if array.dtype.kind != "V" else array.ctypes.data


def _cover(arrays: list[np.ndarray], low: int, high: int) -> bool:
    """Return whether overlapping arrays cover all bytes between two addresses: other bytes must not be saved."""
    if all(map(_is_dense, arrays)):
        return True
    if sum(map(_distinct_bytes, arrays)) < high - low:
        return False
    itemsize = arrays[0].itemsize
    marks = np.zeros((high - low) // itemsize, bool)
    for array in arrays:
        steps = [step // itemsize if size > 1 else 0 for size, step in zip(array.shape, array.strides)]
        start = (_address(array) - low) // itemsize
        np.lib.stride_tricks.as_strided(marks[start:], array.shape, steps)[...] = True
    return bool(marks.all())


def _is_dense(array: np.ndarray) -> bool:
    """Return whether the items of an array, in some order, are contiguous in memory."""
    expected = array.itemsize
    for step, size in sorted((step, size) for size, step in zip(array.shape, array.strides) if size > 1 and step):
        if step != expected:
            return False
        expected *= size
    return True


def _distinct_bytes(array: np.ndarray) -> int:
    """Return an upper bound of the bytes of its items, counting expanded ones once."""
    product = array.itemsize
    for size, step in zip(array.shape, array.strides):
        product *= size if step else 1
    return product


def _run(first: np.ndarray, numel: int) -> Storage:
    """Return a storage over the memory that begins with an array's first item."""
    items = first.view(f"V{first.itemsize}")  # numpy has no array interface for ml_dtypes
    flat = np.lib.stride_tricks.as_strided(items, (numel,), (first.itemsize,), writeable=False)
    raw = memoryview(flat.view(np.uint8).data)
    name = torch_dtype(first.dtype)
    is_native = first.dtype.isnative
    order = sys.byteorder if is_native else {"little": "big", "big": "little"}[sys.byteorder]
    typed = name in STORAGE_CLASSES
    kind = _BoolStorage if name == "bool" else Storage
    return kind("", name if typed else "", numel if typed else len(raw), "cpu", order, lambda _: raw, "")


def _tensor(array: np.ndarray, storage: Storage, offset: int) -> TensorInfo:
    strides = contiguous(array.shape)
    if not array.flags.c_contiguous:
        strides = tuple(
            step // array.itemsize if size > 1 else plain
            for size, step, plain in zip(array.shape, array.strides, strides)
        )
    return TensorInfo(torch_dtype(array.dtype), array.shape, strides, offset, storage)


def _scattered(array: np.ndarray) -> TensorInfo:
    name = torch_dtype(array.dtype)
    expanded = [step == 0 and size > 1 for size, step in zip(array.shape, array.strides)]
    once = array[tuple(slice(0, 1) if is_expanded else slice(None) for is_expanded in expanded)]
    storage = _ScatteredStorage(once, name if name in STORAGE_CLASSES else "")
    steps = (0 if is_expanded else step for is_expanded, step in zip(expanded, contiguous(once.shape)))
    return TensorInfo(name, array.shape, tuple(steps), 0, storage)
