"""The calls that numpy pickles arrays, scalars and dtypes as (WRITER.md 12.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.pkl.names import NUMPY_DTYPE, NUMPY_NDARRAY, NUMPY_RECONSTRUCT_NAME
from sbformat.pkl.tree import Call, Global, Update

if TYPE_CHECKING:
    from sbformat.pkl.numpy import ArrayInfo

_MULTIARRAY: Final = "numpy.core.multiarray"
"""Its name before numpy 2, which both know."""


def to_tree(info: ArrayInfo) -> Call:
    """Return the call that numpy pickles an array or scalar as."""
    if info.is_scalar:
        return Call("REDUCE", Global(_MULTIARRAY, "scalar"), (dtype_tree(info.dtype), info.read()))
    array = Call("REDUCE", Global(_MULTIARRAY, NUMPY_RECONSTRUCT_NAME), (Global(*NUMPY_NDARRAY), (0,), b"b"))
    state = (1, info.shape, dtype_tree(info.dtype), info.order == "F", info.read())
    array.updates = [Update("BUILD", array, state)]
    return array


def dtype_tree(code: str) -> Call:
    """Return the call that numpy pickles a dtype of numbers as.

    :param code: in the array interface, ``<f4``
    """
    dtype = Call("REDUCE", Global(*NUMPY_DTYPE), (code[1:], False, True))
    dtype.updates = [Update("BUILD", dtype, (3, code[0], None, None, None, -1, -1, 0))]
    return dtype
