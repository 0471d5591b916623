"""Which attributes are arrays, and what they are in a state dict: themselves, statistics, or either by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import TensorError, quote
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Unread
from sbformat.pth import TensorInfo
from sbformat.pth.file_storage import UnreadStorage
from sbformat.pth.numpy_tensors import tensor_info
from sbformat.values.types import Instance

if TYPE_CHECKING:
    from sbformat.limits import Budget

_STATISTICS: Final = "RunningMeanStd"
_SHARED: Final = 8
"""How often all arrays may be shared before that counts as a bomb, as in a ``.pth`` (FORMAT.md 8)."""


def holds_arrays(value: object) -> bool:
    """Say whether an attribute belongs to the arrays: an array, statistics, or a dict of either."""
    if isinstance(value, dict) and value:
        return all(type(key) is str and _is_array(part) for key, part in value.items())
    return _is_array(value)


def _is_array(value: object) -> bool:
    if isinstance(value, ArrayInfo):
        return not value.is_scalar
    return isinstance(value, TensorInfo) or (isinstance(value, Instance) and value.type.name == _STATISTICS)


class Tensors:
    """The arrays of one pickle as tensors: an array that stands in several places is one storage.

    :param budget: the operation's
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._made: dict[int, tuple[ArrayInfo, TensorInfo]] = {}
        """By the ``id()`` of each array, with that itself, so that no other gets it."""
        self._items = 0
        self._distinct = 0

    def of(self, value: Any) -> Any:
        """Return the part of a state dict that an attribute is, or a parameter.

        :raises UnsupportedError: for a dtype that is no number torch has
        :raises LimitError: when arrays that are shared come to more than a reader of a ``.pth`` allows, too
        """
        if isinstance(value, dict):
            return {key: self.of(part) for key, part in value.items()}
        if isinstance(value, Instance):
            return self.statistics(value)
        return self._tensor(value) if isinstance(value, ArrayInfo) else value

    def statistics(self, value: Any) -> dict[str, Any]:
        """Return the mean, variance and count of a running mean, each a tensor or a number.

        :raises TensorError: when one is neither
        """
        made: dict[str, Any] = {}
        for name, part in (value.attributes if isinstance(value, Instance) else {}).items():
            if not isinstance(part, (ArrayInfo, int, float)):
                message = f"{quote(name, 40)} of a running mean is neither an array nor a number"
                raise TensorError(message)
            made[name] = self.of(part)
        if not made:
            message = "a running mean has no statistics"
            raise TensorError(message)
        return made

    def _tensor(self, array: ArrayInfo) -> TensorInfo:
        """Its bytes are not copied, nor held when they were left in the file."""
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
