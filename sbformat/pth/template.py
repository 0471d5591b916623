"""New weights in the shape of a state dict that is there: names, shapes and dtypes are checked against it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import UnsupportedError
from sbformat.pth.arrays import numpy_dtype
from sbformat.pth.from_arrays import describe, torch_dtype
from sbformat.pth.misfits import Mismatch, check_names, misfit
from sbformat.pth.state_dict import segment
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbformat.pth.state_dict import StateDict

_LEVELS: Final = ("bool", "int", "float", "complex")
"""A dtype may become one of its own level or a higher one."""


def with_arrays(template: StateDict, arrays: Mapping[str, Any]) -> StateDict:
    """Return the template with other tensors; all else in it, order and flags included, stays.

    :param template: a state dict, of an archive say
    :param arrays: by path, as in ``template.tensors()``; each of the template's shape, and of a dtype that becomes its
        dtype without another kind of number (float64 becomes float32, float does not become int). A name may be left
        out when the template has the same tensor under another one.
    :raises ValidationError: when names, shapes or dtypes do not fit: all that do not are in ``problems``
    """
    infos = template.tensors()
    given = {path: np.asarray(array) for path, array in arrays.items()}
    twins = _twins(infos)
    for path, first in twins.items():
        same = next((other for other in [first, *twins] if twins.get(other, other) == first and other in given), None)
        if path not in given and same is not None:
            given[path] = given[same]
        if first not in given and same is not None:
            given[first] = given[same]
    mismatches = [*check_names(infos, given), *_check_tensors(infos, given)]
    if mismatches:
        raise misfit(mismatches, template.entry)
    return _replaced(template, infos, given, twins)


def _twins(infos: Mapping[str, Any]) -> dict[str, str]:
    """The paths whose tensor is also that of an earlier path, with that one."""
    first: dict[tuple[Any, ...], str] = {}
    twins = {}
    for path, info in infos.items():
        if isinstance(info, TensorInfo):
            owner = first.setdefault((id(info.storage), info.dtype, info.offset, info.shape, info.strides), path)
            if owner != path:
                twins[path] = owner
    return twins


def _check_tensors(infos: Mapping[str, Any], given: Mapping[str, np.ndarray]) -> Iterable[Mismatch]:
    for path, array in given.items():
        info = infos.get(path)
        if info is None:
            continue
        if not isinstance(info, TensorInfo) or info.dtype == "complex32":
            kind = type(info).__name__ if not isinstance(info, TensorInfo) else info.dtype
            yield Mismatch(path, "dtype", f"the template has a {kind} here, which no array can replace")
        elif array.shape != info.shape:
            yield Mismatch(path, "shape", f"has shape {array.shape} where {info.shape} belongs")
        elif not _fits(array.dtype, info.dtype):
            yield Mismatch(path, "dtype", f"is {array.dtype}, which does not become {info.dtype}")


def _fits(dtype: np.dtype[Any], wanted: str) -> bool:
    try:
        name = torch_dtype(dtype)
    except UnsupportedError:
        return False
    return name == wanted or _LEVELS.index(_level(name)) <= _LEVELS.index(_level(wanted))


def _level(name: str) -> str:
    return next((level for level in _LEVELS if level in name), "int")


def _replaced(
    template: StateDict, infos: Mapping[str, Any], given: Mapping[str, np.ndarray], twins: Mapping[str, str]
) -> StateDict:
    made: dict[str, np.ndarray] = {}
    for path, info in infos.items():
        array = given[path].astype(numpy_dtype(info.dtype), copy=False)
        twin = made.get(twins.get(path, ""))
        is_same = twin is not None and (twin is array or twin.tobytes() == array.tobytes())
        made[path] = twin if is_same and twin is not None else array
    described = describe(list(made.values()))
    tensors = {
        path: info._replace(requires_grad=old.requires_grad, is_parameter=old.is_parameter, state=old.state)
        for (path, old), info in zip(infos.items(), described)
    }
    return template.with_tree(_rebuilt(template.tree, "", tensors))


def _rebuilt(value: Any, path: str, tensors: Mapping[str, TensorInfo]) -> Any:  # noqa: ANN401
    """The tree with its tensors replaced by path; no deeper than ``value_depth``, as its reader saw to."""
    if path in tensors and not isinstance(value, (dict, list)):
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
