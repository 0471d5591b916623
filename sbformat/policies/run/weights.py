"""The weights of a graph as arrays: views of the archive where the layout allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.arrays import to_array
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from sbformat.limits import Budget
    from sbformat.policies.graph import Graph, Weight
    from sbformat.policies.run.steps import Array

_FILTER_RANK: Final = 4
_PATCH_ORDER: Final = (2, 3, 1, 0)
"""The axes of filters (filters, channels, height, width), in the order that ``layers.conv`` has them in memory."""


class Weights:
    """The weights of a graph by name, read once: several programs over one graph share them.

    Arrays are read-only. One is a view of the archive unless it would be slow: numpy's matrix product copies an operand
    that is not aligned, or has no axis without gaps, at each call. Such a tensor is copied once, and so are filters of
    convolutions, into the order in memory that the product of patches needs.

    :param graph: whose weights
    :param budget: charged when bytes are copied
    """

    def __init__(self, graph: Graph, budget: Budget) -> None:
        self._described, self._budget = graph.weights, budget
        self._made: dict[str, Array] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._described

    def __getitem__(self, name: str) -> Array:
        """Return an array of the weight's dtype and shape.

        :raises ContainerError: when the CRC of its record is wrong
        :raises TensorError: for bytes that are not valid items
        """
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._read(self._described[name])
        return made

    def _read(self, weight: Weight) -> Array:
        dtype = np.dtype(weight.dtype)
        read: Array
        if isinstance(weight.source, TensorInfo):
            read = _read_tensor(weight.source, self._budget)
        elif isinstance(weight.source, ArrayInfo):
            read = np.asarray(weight.source.to_numpy())
        else:
            items = np.array(weight.source, dtype)
            read = items.reshape(weight.shape) if items.size != 1 else np.broadcast_to(items.reshape(()), weight.shape)
        if read.dtype == dtype and _is_fast(read):
            read = read.view()
        else:
            self._budget.inflate(read.size * dtype.itemsize)
            order = _PATCH_ORDER if read.ndim == _FILTER_RANK else tuple(range(read.ndim))
            read = np.array(read.transpose(order), dtype, order="C").transpose(np.argsort(order))
        read.flags.writeable = False
        return read


def _is_fast(array: Array) -> bool:
    """Return whether numpy's matrix product takes an array as it is."""
    is_dense = array.flags.c_contiguous or array.flags.f_contiguous
    return array.flags.aligned and is_dense and array.ndim != _FILTER_RANK


def _read_tensor(info: TensorInfo, budget: Budget) -> Array:
    """Return the array of a tensor; bfloat16, which numpy does not have, as float32 (its upper half)."""
    if info.dtype != "bfloat16":
        return to_array(info, budget)
    budget.inflate(4 * info.numel)
    wide = to_array(info._replace(dtype="uint16", conj=False, neg=False), budget).astype(np.uint32) << np.uint32(16)
    array: Array = wide.view(np.float32)
    return -array if info.neg else array
