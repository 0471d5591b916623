"""Arrays that are written without being held: their items in pieces, little-endian, in the order of the file.

What no storage holds as one run of items (expanded, conjugated and other computed tensors) is made whole first, one
array at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sbformat.errors import TensorError
from sbformat.pth.arrays import numpy_dtype
from sbformat.pth.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.pth.values import Chunk, TensorInfo

_PIECE: Final = 1 << 20
_COMPLEX32: Final = "complex32"


class ArrayStream(NamedTuple):
    """An array to be written: what it is, and how to get at its items."""

    dtype: np.dtype[Any]
    """Little-endian."""
    shape: tuple[int, ...]
    is_fortran: bool
    """The first axis runs fastest in :attr:`pieces`."""
    pieces: Callable[[], Iterator[Chunk]]
    """Yields the bytes of its items, once a call."""
    make: Callable[[], np.ndarray]
    """Returns it whole."""

    @property
    def nbytes(self) -> int:
        """Bytes of its items."""
        product = self.dtype.itemsize
        for size in self.shape:
            product *= size
        return product

    def in_c_order(self) -> Iterator[Chunk]:
        """Yield the bytes of its items with the last axis fastest; where they run otherwise, all are read first."""
        return c_order(self.make()) if self.is_fortran else self.pieces()


def c_order(array: np.ndarray) -> Iterator[Chunk]:
    """Yield the bytes of an array's items in pieces: little-endian, the last axis fastest."""
    dtype = little(array.dtype)
    if not array.nbytes:
        return
    if array.flags.c_contiguous and array.dtype == dtype:
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, len(flat), _PIECE):
            yield flat[start : start + _PIECE].data
        return
    flags = ["external_loop", "buffered", "zerosize_ok"]
    size = _PIECE // dtype.itemsize
    for piece in np.nditer(array, flags, order="C", op_dtypes=[dtype], casting="equiv", buffersize=size):  # type: ignore[call-overload]
        yield np.ascontiguousarray(piece).view(np.uint8).tobytes()


def little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the little-endian form of a dtype; those of ml_dtypes have no other."""
    return dtype.newbyteorder("<") if dtype.itemsize > 1 and dtype.kind != "V" else dtype


def stream_of(info: TensorInfo, make: Callable[[], np.ndarray]) -> ArrayStream:
    """Return a tensor as a stream.

    :param info: the tensor
    :param make: returns its array
    :raises UnsupportedError: when its dtype needs an extra
    """
    dtype = np.dtype(np.complex64) if info.dtype == _COMPLEX32 else numpy_dtype(info.dtype)
    order = _run_order(info)
    if order is None:
        return ArrayStream(little(dtype), info.shape, False, lambda: c_order(make()), make)
    return ArrayStream(little(dtype), info.shape, order == "F", lambda: _run(info), make)


def runs_of_both(left: TensorInfo, right: TensorInfo) -> Iterator[tuple[bytes, bytes]] | None:
    """Return the items of two tensors of one dtype and shape side by side, in pieces; no storage is held for that.

    :return: None where their items do not run through their storages in one and the same order
    """
    order = _run_order(left)
    if order is None or order != _run_order(right):
        return None
    return zip(_in_even_pieces(_run(left)), _in_even_pieces(_run(right)))


def _in_even_pieces(pieces: Iterator[Chunk]) -> Iterator[bytes]:
    """Yield the same bytes, ``_PIECE`` at a time; the last piece has what is left."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= _PIECE:
            yield bytes(held[:_PIECE])
            del held[:_PIECE]
    if held:
        yield bytes(held)


def _run_order(info: TensorInfo) -> str | None:
    """Say in which order a tensor's items are one run of its storage, or None when they are not."""
    if info.conj or info.neg or info.dtype == _COMPLEX32:
        return None
    axes = [(size, step) for size, step in zip(info.shape, info.strides) if size != 1]
    if 0 in info.shape or _are_steps(reversed(axes)):
        return "C"
    return "F" if _are_steps(iter(axes)) else None


def _are_steps(axes: Iterator[tuple[int, int]]) -> bool:
    expected = 1
    for size, step in axes:
        if step != expected:
            return False
        expected *= size
    return True


def _run(info: TensorInfo) -> Iterator[Chunk]:
    """Yield the items of a tensor that is one run of its storage."""
    if not info.numel:
        return
    row = DTYPES[info.dtype]
    start = info.offset * row.itemsize
    swap = 1 if info.storage.byte_order == "little" else row.swap
    for piece in info.storage.span(start, start + info.nbytes, swap):
        if info.dtype == "bool" and bytes(piece).translate(None, b"\0\1"):
            message = f"the bool storage {info.storage.key!r} holds bytes other than 0 and 1"
            raise TensorError(message)
        yield piece
