"""Arrays that are written without keeping them in memory: their items in chunks, little-endian, in C order.

Tensors whose items are not contiguous in a storage (expanded, conjugated and other computed ones) are created whole,
one array at a time.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from sbformat.immutable import Record
from sbformat.pth.context import check_indices
from sbformat.pth.values import DTYPES, PIECE_BYTES, SparseTensor, Storage, TensorInfo, check_bools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from sbformat.pth.values import Chunk

_LARGE: Final = 1 << 20
_BOOL: Final = "bool"
_COMPLEX32: Final = "complex32"
_NAMES: Final = {_COMPLEX32: "complex64", "qint8": "int8", "quint8": "uint8", "qint32": "int32"}
"""The dtype of the array, where torch has another name."""


class ArrayStream(Record):
    """An array to be written: its description, and a function that yields its items, all little-endian."""

    dtype: str
    """The name that numpy has for it, or ml_dtypes: ``float32``."""
    itemsize: int
    descr: Any
    """The dtype in a ``.npy`` header, ``<f4``; None if that format has no such dtype."""
    shape: tuple[int, ...]
    is_fortran: bool
    """The first axis runs fastest in :attr:`pieces`."""
    pieces: Callable[[], Iterator[Chunk]]
    """Yields the bytes of its items, once a call."""
    make: Callable[[], np.ndarray]
    """Returns it whole."""

    @property
    def nbytes(self) -> int:
        """Size of its items in bytes."""
        return math.prod(self.shape, start=self.itemsize)

    def in_c_order(self) -> Iterator[Chunk]:
        """Yield the bytes of its items in C order; items in another order are all read first."""
        return _computed(self.make) if self.is_fortran else self.pieces()


def stream_of(info: TensorInfo, make: Callable[[], np.ndarray]) -> ArrayStream:
    """Return a tensor as a stream; ``make`` returns its array."""
    order = _run_order(info)
    if order != "C":  # an array has to be created, so its dtype is checked before anything is written
        from sbformat.pth.arrays import numpy_dtype

        numpy_dtype(info.dtype)
    name = _NAMES.get(info.dtype, info.dtype)
    row = DTYPES[name]
    descr = f"{'|' if row.itemsize == 1 else '<'}{row.numpy}" if row.is_in_numpy else None
    pieces = partial(_computed, make) if order is None else partial(_run, info)
    return ArrayStream(name, row.itemsize, descr, info.shape, order == "F", pieces, make)


def _computed(make: Callable[[], np.ndarray]) -> Iterator[Chunk]:
    """Yield the items of an array that has to be created as a whole first."""
    from sbformat.pth.arrays import c_order

    return c_order(make())


def runs_of_both(left: TensorInfo, right: TensorInfo) -> Iterator[tuple[bytes, bytes]] | None:
    """Return the items of two tensors of one dtype and shape in pairs of chunks, without keeping a storage in memory.

    :return: None for small tensors, and if the items are not in the same order in their storages
    """
    order = _run_order(left)
    if left.nbytes < _LARGE or order is None or order != _run_order(right):
        return None
    pieces = _in_even_pieces(_run(left)), _in_even_pieces(_run(right))
    return zip_longest(*pieces, fillvalue=b"")  # so that both are exhausted: that is where they check their CRC


def _in_even_pieces(pieces: Iterator[Chunk]) -> Iterator[bytes]:
    """Yield the same bytes in chunks of ``PIECE_BYTES``; the last one may be shorter."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= PIECE_BYTES:
            yield bytes(held[:PIECE_BYTES])
            del held[:PIECE_BYTES]
    if held:
        yield bytes(held)


def _run_order(info: TensorInfo) -> str | None:
    """Return the order in which a tensor's items are contiguous in its storage, or None."""
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


def check_items(value: Any, array_of: Callable[[TensorInfo], np.ndarray]) -> None:
    """Check that the items of a value whose dtype is bool are 0 and 1, and the indices of a sparse tensor."""
    if isinstance(value, SparseTensor):
        check_indices(value, *map(array_of, value.indices))
        value = value.values
    if isinstance(value, Storage) and value.dtype == _BOOL:
        value = TensorInfo(_BOOL, (value.numel,), (1,), 0, value)
    if isinstance(value, TensorInfo) and value.dtype == _BOOL:
        for _ in stream_of(value, partial(array_of, value)).pieces():
            pass


def _run(info: TensorInfo) -> Iterator[Chunk]:
    """Yield the items of a tensor that is one run of its storage."""
    if not info.numel:
        info.storage.check()
        return
    row = DTYPES[info.dtype]
    start = info.offset * row.itemsize
    swap = 1 if info.storage.byte_order == "little" else row.swap
    for piece in info.storage.span(start, start + info.nbytes, swap):
        yield check_bools(piece, f"the bool storage {info.storage.key!r}") if info.dtype == _BOOL else piece
