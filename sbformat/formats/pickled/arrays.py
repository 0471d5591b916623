"""Arrays of a pickle as the tensors of a state dict: arrays, statistics, and dicts of either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import TensorError, quote
from sbformat.known.types import Instance
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Unread
from sbformat.pth import TensorInfo
from sbformat.pth.file_storage import UnreadStorage
from sbformat.pth.numpy_tensors import tensor_info

if TYPE_CHECKING:
    from sbformat.limits import Budget

_STATISTICS: Final = "RunningMeanStd"
_SHARED: Final = 8
"""Largest ratio of the bytes of all arrays, shared ones counted each time, to their distinct bytes (FORMAT.md 8)."""


def holds_arrays(value: object) -> bool:
    """Return whether an attribute is an array, statistics, or a dict of either."""
    if isinstance(value, dict) and value:
        return all(type(key) is str and _is_array(part) for key, part in value.items())
    return _is_array(value)


def _is_array(value: object) -> bool:
    if isinstance(value, ArrayInfo):
        return not value.is_scalar
    return isinstance(value, TensorInfo) or (isinstance(value, Instance) and value.type.name == _STATISTICS)


class Tensors:
    """Converts the arrays of a pickle to tensors: an array that occurs several times gets one storage.

    :param budget: the budget of the operation
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._made: dict[int, tuple[ArrayInfo, TensorInfo]] = {}
        """By the ``id()`` of each array; the array itself is kept so that its id is not reused."""
        self._items = 0
        self._distinct = 0

    def of(self, value: Any) -> Any:
        """Convert an attribute or a parameter to a part of a state dict.

        :raises UnsupportedError: for a dtype that torch does not have
        :raises LimitError: if shared arrays exceed the same limit as in a ``.pth``
        """
        if isinstance(value, dict):
            return {key: self.of(part) for key, part in value.items()}
        if isinstance(value, Instance):
            return self.statistics(value)
        return self._tensor(value) if isinstance(value, ArrayInfo) else value

    def statistics(self, value: Any) -> dict[str, Any]:
        """Convert a running mean: mean, variance and count, each to a tensor or a number.

        :raises TensorError: if one is neither
        """
        made: dict[str, Any] = {}
        for name, part in (value.attributes if isinstance(value, Instance) else {}).items():
            if not isinstance(part, (ArrayInfo, int, float)):
                message = f"{quote(name, 40)} of a running mean is neither an array nor a number"
                raise TensorError(message)
            made[name] = self.of(part)
        if not made:
            message = "expected mean, var and count in a running mean, got none"
            raise TensorError(message)
        return made

    def _tensor(self, array: ArrayInfo) -> TensorInfo:
        """Convert an array without copying it; bytes that were left in the file are not read."""
        known = self._made.get(id(array))
        if known is None:
            info = tensor_info(array.dtype, array.shape, array.order, lambda _: array.view(), axes=array.axes)
            if isinstance(array.buffer, Unread):
                info = info._replace(storage=UnreadStorage(array, info.dtype))
            known = self._made[id(array)] = array, info
            self._distinct += info.nbytes
        self._items += known[1].nbytes
        excess = self._items - _SHARED * self._distinct
        if excess > 0:
            self._budget.limits.check("expanded_items", excess)
        return known[1]
