"""Put new weights into an existing state dict: names, shapes and dtypes are checked against it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import UnsupportedError
from sbformat.pth.addresses import segment
from sbformat.pth.array_storages import describe, torch_dtype
from sbformat.pth.arrays import numpy_dtype
from sbformat.pth.compare import Mismatch, check_names, misfit, optimizer_misfits
from sbformat.pth.from_arrays import as_array
from sbformat.pth.shared_storage import share
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_LEVELS: Final = ("bool", "int", "float", "complex")
"""A dtype may become one of its own level or a higher one."""


def with_arrays(
    template: Any,
    infos: Mapping[str, Any],
    arrays: Mapping[str, Any],
    entry: str | None,
    others: Iterable[Mismatch] = (),
) -> Any:
    """Return the template's tree with other tensors; everything else in it, order and flags included, stays.

    :param template: the tree of a state dict
    :param infos: its tensors by path
    :param arrays: by path; each of the template's shape, and of a dtype that becomes its
        dtype without another kind of number (float64 becomes float32, float does not become int), nor beyond its
        range. A name may be left out when the template has the same tensor under another one, or has a tensor there
        that is no array (sparse, quantized, complex32), which stays. Names of one tensor must not contradict one
        another.
    :param entry: its name, for messages
    :param others: what is known not to fit
    :raises ValidationError: when names, shapes or dtypes do not fit: all that do not are in ``problems``
    """
    mismatches = list(others)
    fitting: dict[str, np.ndarray] = {}
    for path in infos:
        if path in arrays:
            found = _fitted(path, infos[path], arrays[path])
            if isinstance(found, Mismatch):
                mismatches.append(found)
            else:
                fitting[path] = found
    mismatches += share(infos, fitting)
    asked = {path: info for path, info in infos.items() if _is_replaceable(info) or path in arrays}
    mismatches += check_names(asked, {**arrays, **fitting})
    if mismatches:
        order = {path: at for at, path in enumerate(infos)}
        raise misfit(sorted(mismatches, key=lambda row: order.get(row.loc, len(order))), entry)
    return _replaced(template, infos, {path: fitting[path] for path in infos if path in fitting})


def like_optimizer(
    template: object,
    infos: Mapping[str, Any],
    given: Any,
    tensors: Mapping[str, Any],
    array_of: Callable[[TensorInfo], np.ndarray],
) -> Any:
    """Return an optimizer's tree as given, for the parameters of the template, in its dtypes.

    :param template: the tree to compare with
    :param infos: its tensors by path
    :param given: the tree
    :param tensors: its tensors by path
    :param array_of: returns the array of a tensor
    :raises ValidationError: when it is for others, or lacks what the template's groups have: all is in ``problems``
    """
    mismatches = optimizer_misfits(template, infos, given, tensors)
    cast: dict[str, np.ndarray] = {}
    for path, info in tensors.items():
        old = infos.get(path)
        if isinstance(info, TensorInfo) and isinstance(old, TensorInfo) and info.dtype != old.dtype:
            found = _fitted(path, old, array_of(info))
            if not isinstance(found, Mismatch):
                cast[path] = found
            elif info.shape == old.shape:  # else it is reported already
                mismatches.append(found)
    if mismatches:
        raise misfit(mismatches)
    return _rebuilt(given, "", dict(zip(cast, describe(list(cast.values()))))) if cast else given


def _is_replaceable(info: object) -> bool:
    return isinstance(info, TensorInfo) and info.dtype != "complex32"


def _fitted(path: str, info: Any, value: Any) -> np.ndarray | Mismatch:
    """Return the array in the dtype of the template's tensor, or the reason why it does not fit."""
    try:
        array = as_array(value, path)
    except UnsupportedError as error:
        return Mismatch(path, "dtype", error.message)
    if not _is_replaceable(info):
        kind = type(info).__name__ if not isinstance(info, TensorInfo) else info.dtype
        return Mismatch(path, "dtype", f"the template has a {kind} here, which an array cannot replace")
    if array.shape != info.shape:
        return Mismatch(path, "shape", f"expected shape {info.shape}, got {array.shape}")
    if not _fits(array.dtype, info.dtype):
        return Mismatch(path, "dtype", f"expected {info.dtype}, got {array.dtype}, which is not converted")
    if torch_dtype(array.dtype) == info.dtype:
        return array
    with np.errstate(all="ignore"):
        cast = array.astype(numpy_dtype(info.dtype))
        kept = cast == array if _level(info.dtype) == "int" else np.isfinite(cast) | ~np.isfinite(array)
    return cast if kept.all() else Mismatch(path, "dtype", f"contains numbers that are out of range for {info.dtype}")


def _fits(dtype: np.dtype[Any], wanted: str) -> bool:
    try:
        name = torch_dtype(dtype)
    except UnsupportedError:
        return False
    return name == wanted or _LEVELS.index(_level(name)) <= _LEVELS.index(_level(wanted))


def _level(name: str) -> str:
    return next((level for level in _LEVELS if level in name), "int")


def _replaced(template: object, infos: Mapping[str, Any], given: Mapping[str, np.ndarray]) -> Any:
    tensors = {}
    for path, info in zip(given, describe(list(given.values()))):
        old = infos[path]
        flags = dict(requires_grad=old.requires_grad, is_parameter=old.is_parameter, state=old.state)
        tensors[path] = info._replace(**flags)
    return _rebuilt(template, "", tensors)


def _rebuilt(value: Any, path: str, tensors: Mapping[str, TensorInfo]) -> Any:
    """Return the tree with its tensors replaced by path. Its reader has limited the depth to ``value_depth``."""
    if path in tensors:
        return tensors[path]
    prefix = f"{path}/" if path else ""
    if type(value) in (dict, OrderedDict):
        made = type(value)((key, _rebuilt(part, prefix + segment(key), tensors)) for key, part in value.items())
        if hasattr(value, "_metadata"):
            made._metadata = value._metadata  # noqa: SLF001 -- torch's own name
        return made
    if type(value) in (list, tuple):
        return type(value)(_rebuilt(part, f"{prefix}[{index}]", tensors) for index, part in enumerate(value))
    return value
