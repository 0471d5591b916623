"""Check the parts of sparse tensors: torch accesses memory by the indices without a check (FORMAT.md 6.5)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from sbformat.errors import TensorError, UnsupportedError
from sbformat.pth.context import INT64

if TYPE_CHECKING:
    from typing import NoReturn

    import numpy as np

    from sbformat.pth.values import SparseTensor

_COO: Final = "sparse_coo"
_BY_COLUMN: Final = ("sparse_csc", "sparse_bsc")
_IN_BLOCKS: Final = ("sparse_bsr", "sparse_bsc")


def _refuse(message: str) -> NoReturn:
    message = f"{message}: torch would access memory outside the tensor"
    raise TensorError(message)


def check_shapes(sparse: SparseTensor) -> None:
    """Check that shapes and dtypes of the parts fit the size; the indices themselves are not read.

    :param sparse: whose parts are :class:`~sbformat.pth.values.TensorInfo`
    :raises TensorError: when they do not fit
    :raises UnsupportedError: for a batch of sparse tensors
    """
    if math.prod(sparse.shape) >= INT64:
        _refuse("a sparse tensor is too large for any memory")
    dtypes = {part.dtype for part in sparse.indices}
    if dtypes != {"int64"} and (sparse.layout == _COO or dtypes != {"int32"}):
        _refuse("the indices of a sparse tensor have another dtype than torch writes")
    if any(part.nbytes > part.storage.nbytes for part in sparse.indices):
        _refuse("indices of a sparse tensor share their memory")
    if not (_fits_coo(sparse) if sparse.layout == _COO else _fits_compressed(sparse)):
        _refuse("the parts of a sparse tensor do not fit its size")


def _fits_coo(sparse: SparseTensor) -> bool:
    shape, size = sparse.indices[0].shape, sparse.shape
    return len(shape) == 2 and shape[0] <= len(size) and sparse.values.shape == (shape[1], *size[shape[0] :])


def _fits_compressed(sparse: SparseTensor) -> bool:
    compressed, plain = (part.shape for part in sparse.indices)
    if len(compressed) == len(plain) > 1:
        message = "batches of sparse tensors are not supported"
        raise UnsupportedError(message)
    values, size = sparse.values.shape, sparse.shape
    blocks = _block_shape(sparse)
    if len(size) < 2 or len(blocks) != 2 or any(not block or count % block for count, block in zip(size, blocks)):
        return False
    inner = blocks if sparse.layout in _IN_BLOCKS else ()
    return (compressed, plain) == ((_counts(sparse)[0] + 1,), values[:1]) and values[1:] == (*inner, *size[2:])


def _block_shape(sparse: SparseTensor) -> tuple[int, ...]:
    return tuple(sparse.values.shape[1:3]) if sparse.layout in _IN_BLOCKS else (1, 1)


def _counts(sparse: SparseTensor) -> tuple[int, int]:
    """Return the number of rows and columns, or blocks of them; the compressed dimension first."""
    rows, columns = (count // block for count, block in zip(sparse.shape, _block_shape(sparse)))
    return (columns, rows) if sparse.layout in _BY_COLUMN else (rows, columns)


def check_indices(sparse: SparseTensor, *indices: np.ndarray) -> None:
    """Check the indices of a sparse tensor whose shapes fit.

    :param sparse: the tensor
    :param indices: its indices as arrays
    :raises TensorError: when one is outside the tensor, or the compressed ones are not in order
    """
    if sparse.layout == _COO:
        bounds = list(zip(indices[0], sparse.shape))
    else:
        compressed, plain = indices
        bounds = [(plain, _counts(sparse)[1])]
        if (compressed[0], compressed[-1]) != (0, len(plain)) or (compressed[1:] < compressed[:-1]).any():
            _refuse("the compressed indices of a sparse tensor do not ascend from 0 to the number of its values")
    if any(row.size and not 0 <= row.min() <= row.max() < count for row, count in bounds):
        _refuse("an index of a sparse tensor is outside its size")
