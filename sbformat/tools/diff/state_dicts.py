"""Compare two state dicts, tensor by tensor: what differs, by how much, and whether that is within a tolerance."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.pth import (
    Device,
    DTypeName,
    Layout,
    MemoryFormat,
    MetaTensor,
    QuantizedTensor,
    SparseTensor,
    TensorInfo,
)
from sbformat.pth.dtypes import DTYPES
from sbformat.tools.diff.plain_entries import describe_change
from sbformat.tools.diff.report import Change, StateDictComparison
from sbformat.values.render import render_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.limits import Budget
    from sbformat.pth import StateDict
    from sbformat.pth.compare import Difference
    from sbformat.tools.diff.report import ChangeKind
    from sbformat.tools.diff.tolerance import Tolerance

_SHOWN: Final = 60
_TENSORS: Final = (TensorInfo, SparseTensor, QuantizedTensor, MetaTensor)
_TORCH_NAMES: Final = (DTypeName, Layout, MemoryFormat)
_FLAGS: Final = ("requires_grad", "is_parameter")
_ITEMS: Final = 16
"""Elements of a tensor that are listed; a larger one is described by its dtype and shape."""
_ABSENT: Final = object()


class _Row(Record):
    """One difference of two values at one path."""

    kind: ChangeKind
    message: str
    numbers: Difference | None = None
    old: Any = None
    new: Any = None


class StateDictsComparer:
    """The comparison of two state dicts: its changes, and afterwards its summary.

    :param name: of the entry
    :param old: the state dict of the first archive
    :param new: that of the second
    :param tolerance: numbers that are close count as equal
    """

    def __init__(self, name: str, old: StateDict, new: StateDict, tolerance: Tolerance) -> None:
        self._name = name
        self._old = old
        self._new = new
        self._tolerance = tolerance
        self._budgets = old.new_budget(), new.new_budget()
        self._close: set[str] = set()
        self._rows: list[Change] = []

    def changes(self) -> Iterator[Change]:
        """Yield the changes; none exactly when the state dicts are equal within the tolerance."""
        if self._old is self._new or self._old == self._new:
            return
        for change in self._compare():
            self._rows.append(change)
            yield change

    def _compare(self) -> Iterator[Change]:
        left, right = ({leaf.path: leaf.value for leaf in side.leaves()} for side in (self._old, self._new))
        found = False
        for path in {**left, **right}:
            for row in self._compare_leaves(path, left, right):
                found = True
                yield _make_change(self._name, path, row)
        if [path for path in left if path in right] != [path for path in right if path in left]:
            found = True
            yield Change(self._name, "", "order", "the order of the tensors and values differs")
        if not found and not (self._close and self._have_equal_containers()):
            message = "the containers differ: another type of dict or list, or another _metadata"
            yield Change(self._name, "", "structure", message)

    def _have_equal_containers(self) -> bool:
        """Return whether state dicts, in which some numbers are close, differ in nothing else."""
        from sbformat.pth.compare import equal

        return equal(self._old.tree, self._new.tree, *self._budgets, compares_numbers=False)

    def _compare_leaves(self, path: str, lefts: Mapping[str, Any], rights: Mapping[str, Any]) -> Iterator[_Row]:
        from sbformat.pth.compare import equal

        left, right = lefts.get(path, _ABSENT), rights.get(path, _ABSENT)
        if left is _ABSENT:
            yield _Row("added", f"is now {_describe_leaf(right)}", new=_render_leaf(right))
        elif right is _ABSENT:
            yield _Row("removed", f"was {_describe_leaf(left)}", old=_render_leaf(left))
        elif equal(left, right, *self._budgets):
            return
        elif type(left) is type(right) and isinstance(left, TensorInfo):
            yield from self._compare_tensors(path, left, right)
        elif type(left) is float and not self._tolerance.is_exact and self._tolerance.is_close(left, right):
            self._close.add(path)
        else:
            kind: ChangeKind = "value" if type(left) is type(right) else "type"
            message = describe_change(_describe_leaf(left), _describe_leaf(right))
            yield _Row(kind, message, None, _render_leaf(left), _render_leaf(right))

    def _compare_tensors(self, path: str, left: TensorInfo, right: TensorInfo) -> Iterator[_Row]:
        """Yield everything in which two tensors that are not equal differ."""
        from sbformat.pth.compare import difference, equal

        values = _render_leaf(left), _render_leaf(right)
        if left.shape != right.shape:
            yield _Row("shape", f"{_render_shape(left.shape)} became {_render_shape(right.shape)}", None, *values)
        if left.dtype != right.dtype:
            yield _Row("dtype", f"{left.dtype} became {right.dtype}", None, *values)
        differing = 0
        if left.shape == right.shape and left.dtype == right.dtype:
            found = difference(left, right, *self._budgets, rtol=self._tolerance.rtol, atol=self._tolerance.atol)
            differing = found.differing
            if found.differing and not (found.beyond or self._tolerance.is_exact):
                self._close.add(path)
            elif found.differing:
                items = (
                    {**value, **_render_items(info, budget)}
                    for value, info, budget in zip(values, (left, right), self._budgets)
                )
                yield _Row("value", self._describe_difference(found, left.numel), found, *items)
        flags = [
            f"{flag} {getattr(left, flag)} became {getattr(right, flag)}"
            for flag in _FLAGS
            if getattr(left, flag) != getattr(right, flag)
        ]
        if flags:
            yield _Row("flags", ", ".join(flags), None, *values)
        elif (not differing or path in self._close) and not equal(left.state, right.state, *self._budgets):
            yield _Row("flags", "the attributes differ", None, *values)

    def _describe_difference(self, found: Difference, numel: int) -> str:
        if found.largest is None:
            distance = "some of them by NaN"
        elif math.isinf(found.largest):
            distance = f"some of them by more than {sys.float_info.max:.6g}"
        else:
            distance = f"by at most {found.largest:.6g}"
        if self._tolerance.is_exact:
            return f"{found.differing:,} of {numel:,} elements differ, {distance}"
        return f"{found.beyond:,} of {numel:,} elements differ by more than the tolerance, {distance}"

    def count_close(self) -> int:
        """Return how many tensors and numbers differ by no more than the tolerance, after the changes."""
        return len(self._close - {row.loc for row in self._rows})

    def summarize(self) -> StateDictComparison:
        """Return the numbers of tensors, after :meth:`changes` is at its end.

        :raises LimitError: for more values than ``leaves`` allows
        """
        paths = {**self._old.tensors(), **self._new.tensors()}
        touched = {row.loc for row in self._rows} & set(paths)
        close = (self._close & set(paths)) - touched
        numbers = [row for row in self._rows if row.differing]
        largest = [row.max_abs_difference for row in numbers if row.max_abs_difference is not None]
        norms = [row.l2_difference for row in numbers if row.l2_difference is not None]
        is_known = len(largest) == len(norms) == len(numbers)  # NaN is not less than any difference
        return StateDictComparison(
            self._name,
            len(paths) - len(touched) - len(close),
            len(touched),
            max(largest, default=None) if is_known else None,
            math.hypot(*norms) if norms and is_known else None,
            len(close),
        )


def _make_change(name: str, path: str, row: _Row) -> Change:
    change = Change(name, path, row.kind, row.message, old=row.old, new=row.new)
    found = row.numbers
    if found is None:
        return change
    return change._replace(
        max_abs_difference=found.largest,
        l2_difference=found.l2,
        relative_change=found.relative_change(),
        differing=found.beyond,
        numel=found.numel,
    )


def _render_leaf(value: Any) -> Any:
    """Return a value of a state dict as JSON: a tensor by its dtype, shape and flags."""
    if isinstance(value, TensorInfo):
        flags = {flag: getattr(value, flag) for flag in _FLAGS}
        return {"kind": "tensor", "dtype": value.dtype, "shape": list(value.shape), **flags}
    if value is None or isinstance(value, (bool, int, float, str)) or value in ({}, [], ()):
        return render_json(value)
    return {"kind": type(value).__name__, "text": _describe_leaf(value)}


def _render_items(info: TensorInfo, budget: Budget) -> dict[str, Any]:
    """Return the elements of a tensor of few numbers."""
    from sbformat.pth.arrays import to_array

    if info.numel > _ITEMS or not DTYPES[info.dtype].is_in_numpy:
        return {}
    array = to_array(info, budget)
    return {"items": array.ravel().tolist()} if array.dtype.kind in "biuf" else {}


def _render_shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _describe_leaf(value: Any) -> str:
    """Describe a value of a state dict in a few words."""
    if isinstance(value, TensorInfo):
        return f"a {'parameter' if value.is_parameter else 'tensor'} {value.dtype} {_render_shape(value.shape)}"
    if isinstance(value, _TENSORS):
        shape = (value.int_repr if isinstance(value, QuantizedTensor) else value).shape
        return f"a {type(value).__name__} {_render_shape(shape)}"
    if isinstance(value, (str, int, float, complex)) or value is None:
        if isinstance(value, int) and value.bit_length() > _SHOWN:
            return f"an integer of {value.bit_length()} bits"
        return escape(repr(value[: _SHOWN + 1] if isinstance(value, str) else value), _SHOWN)
    if isinstance(value, _TORCH_NAMES):
        return f"torch.{escape(value.name, _SHOWN)}"
    if isinstance(value, Device):
        return f"the device {escape(str(value.type), _SHOWN)}{'' if value.index is None else f':{value.index}'}"
    if not hasattr(value, "__len__"):
        return escape(repr(value), _SHOWN)
    article = "an" if isinstance(value, OrderedDict) else "a"
    return f"{article} {type(value).__name__} of {len(value)}"
