"""Describe numpy arrays from other files as tensors, for a StateDict (SB2.md 16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from sbformat.errors import UnsupportedError, quote
from sbformat.pth.dtypes import DTYPES, QUANTIZED
from sbformat.pth.values import Storage, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable

_TORCH: Final = {
    row.numpy: row.name for row in DTYPES.values() if row.name not in QUANTIZED and row.name != "complex32"
}
"""torch's dtypes by numpy's codes without the byte order."""
_LOCATION: Final = "cpu"


def tensor_info(
    code: str,
    shape: tuple[int, ...],
    order: Literal["C", "F"],
    load: Callable[[str], memoryview],
    *,
    key: str = "",
    axes: tuple[int, ...] = (),
) -> TensorInfo:
    """Describe an array whose bytes are known to fit its shape.

    :param code: of the dtype, in the array interface: ``<f4``
    :param shape: of the array
    :param order: how the bytes run through the shape
    :param load: returns the bytes for ``key``; called once
    :param axes: the position of each axis of the shape in the order of the bytes, if that is different
    :raises UnsupportedError: for a dtype that torch does not have
    """
    dtype = _TORCH.get(code.lstrip("<>|="))
    if dtype is None:
        message = f"a state dict cannot contain an array of the dtype {quote(code, 40)}"
        raise UnsupportedError(message)
    numel = 1
    for size in shape:
        numel *= size
    storage = Storage(key, dtype, numel, _LOCATION, "big" if code.startswith(">") else "little", load, key)
    return TensorInfo(dtype, shape, _strides(shape, order, axes), 0, storage)


def _strides(shape: tuple[int, ...], order: Literal["C", "F"], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides in elements; sizes of 0 count as 1, as torch has it."""
    if axes:
        base = tuple(shape[axes.index(axis)] for axis in range(len(axes)))
        inner = _strides(base, "C", ())
        return tuple(inner[axis] for axis in axes)
    made = []
    stride = 1
    for size in shape if order == "F" else reversed(shape):
        made.append(stride)
        stride *= size or 1
    return tuple(made if order == "F" else reversed(made))
