"""Tensors of a template that share memory: all names of a tensor get one value, as do items that views share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from sbformat.errors import quote
from sbformat.immutable import Record
from sbformat.pth.compare import Mismatch
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class _View(Record):
    """A part of a storage, and the paths of the tensors over it."""

    info: TensorInfo
    paths: list[str]

    @property
    def end(self) -> int:
        """The number of items of the storage up to its last one."""
        info = self.info
        return info.offset + 1 + sum((size - 1) * stride for size, stride in zip(info.shape, info.strides))

    def of(self, flat: np.ndarray) -> np.ndarray:
        """Return the items of this view in a storage."""
        steps = tuple(stride * flat.itemsize for stride in self.info.strides)
        return as_strided(flat[self.info.offset :], self.info.shape, steps)


def share(infos: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> Iterator[Mismatch]:
    """Complete the arrays of tensors with several names, and of views that other tensors cover.

    :param infos: the template's tensors by path
    :param arrays: new ones by path, in the template's shapes and dtypes; those of other names are added
    :return: the contradictions: items that are shared in the template and have different bits here
    """
    for views in _storages(infos):
        for view in views:
            yield from _same(view.paths, arrays)
        plain = [view for view in views if view.info.numel and not (view.info.conj or view.info.neg)]
        if _overlap(plain) and any(view.paths[0] in arrays for view in plain):
            yield from _common(plain, arrays)


def _storages(infos: Mapping[str, Any]) -> list[list[_View]]:
    """Return the views of each storage."""
    found: dict[tuple[int, str], dict[tuple[Any, ...], _View]] = {}
    for path, info in infos.items():
        if isinstance(info, TensorInfo):
            views = found.setdefault((id(info.storage), info.dtype), {})
            geometry = info.offset, info.shape, info.strides, info.conj, info.neg
            views.setdefault(geometry, _View(info, [])).paths.append(path)
    return [list(views.values()) for views in found.values()]


def _same(paths: list[str], arrays: dict[str, np.ndarray]) -> Iterator[Mismatch]:
    """Give all names of a tensor its array."""
    first = next((path for path in paths if path in arrays), None)
    if first is None:
        return
    for path in paths:
        if path in arrays and not _bits_equal(arrays[path], arrays[first]):
            message = (
                f"contradicts {quote(first)}: they are the same tensor in the template, and have different values here"
            )
            yield Mismatch(path, "contradiction", message)
        arrays[path] = arrays[first]


def _bits_equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one is other or one.tobytes() == other.tobytes()


def _overlap(views: list[_View]) -> bool:
    """Return whether two views may have items in common."""
    end = 0
    for view in sorted(views, key=lambda view: view.info.offset):
        if view.info.offset < end:
            return True
        end = max(end, view.end)
    return False


def _common(views: list[_View], arrays: dict[str, np.ndarray]) -> Iterator[Mismatch]:
    """Write the arrays of overlapping views into one storage, and read all views from it."""
    given = [view for view in views if view.paths[0] in arrays]
    flat = np.zeros(max(view.end for view in views), arrays[given[0].paths[0]].dtype)
    owners = np.zeros(len(flat), np.int32)
    """By item: the number of the view that gave it, from 1."""
    for number, view in enumerate(given, 1):
        array, path = arrays[view.paths[0]], view.paths[0]
        items, own = view.of(flat), view.of(owners)
        differs = (_bits(items) != _bits(array)).any(-1) & (own > 0)
        if differs.any():
            other = given[own[differs][0] - 1].paths[0]
            message = f"contradicts {quote(other)}: they overlap in the template, and have different values there"
            yield Mismatch(path, "contradiction", message)
        items[...] = array
        own[...] = number
    for view in views:
        items = view.of(flat)
        array = arrays.get(view.paths[0])  # type: ignore[assignment]
        if (view.of(owners) > 0).all() if array is None else _bits_equal(items, array):
            arrays.update(dict.fromkeys(view.paths, items))


def _bits(array: np.ndarray) -> np.ndarray:
    """Return the bytes of each item, in a last axis."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.itemsize)
