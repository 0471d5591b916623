"""What differs between two archives, entry by entry, down to the tensor and the key."""

from __future__ import annotations

import contextlib
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat.archive.algorithm import class_reference
from sbformat.constants import DATA_ENTRY, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.data import Serialized, equal_json
from sbformat.errors import LimitError, SbformatError, escape
from sbformat.limits import Budget
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
from sbformat.values import decode
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.pth import StateDict

ChangeKind: TypeAlias = Literal[
    "added", "removed", "value", "type", "dtype", "shape", "flags", "order", "structure", "bytes"
]

_SHOWN: Final = 60
_PATH_COST: Final = 256
"""Characters of a place that count as one more row."""
_TENSORS: Final = (TensorInfo, SparseTensor, QuantizedTensor, MetaTensor)
_NAMED: Final = (DTypeName, Layout, MemoryFormat)
_FLAGS: Final = ("requires_grad", "is_parameter")
_ABSENT: Final = object()


class Change(NamedTuple):
    """One difference, from the first archive to the second."""

    entry: str
    loc: str
    """In ``data`` a JSON pointer, in a state dict the tensor's path; empty for the whole entry."""
    kind: ChangeKind
    message: str
    """A sentence."""
    max_abs_difference: float | None = None
    """Of two tensors of one dtype and shape; None where there is no such number (NaN, say)."""


class Compared(NamedTuple):
    """A state dict that both have."""

    name: str
    equal: int
    """Tensors that are equal, bit for bit, and in dtype, shape and flags."""
    different: int
    """Tensors that are not, or that one lacks."""
    max_abs_difference: float | None
    """The largest of all."""


class DiffReport(NamedTuple):
    """All that differs; nothing exactly when the archives are equal (FORMAT.md 9)."""

    changes: tuple[Change, ...]
    state_dicts: tuple[Compared, ...]


def diff(old: Archive, new: Archive) -> DiffReport:
    """Compare two archives.

    Entries that cannot be decoded are compared by their bytes.

    :param old: the first
    :param new: the second
    :raises LimitError: for more changes than ``reported_values`` allows
    """
    budget = Budget(old.limits)
    changes: list[Change] = []
    compared: list[Compared] = []
    for name in (*(name for name in old.contents if name not in new.contents), *new.contents):
        for change in _entry_changes(name, old, new, compared):
            budget.spend("reported_values", 1 + len(change.loc) // _PATH_COST)
            changes.append(change)
    return DiffReport(tuple(changes), tuple(compared))


def _entry_changes(name: str, old: Archive, new: Archive, compared: list[Compared]) -> Iterator[Change]:
    if name not in new.contents:
        yield Change(name, "", "removed", "the second archive has no such entry")
    elif name not in old.contents:
        yield Change(name, "", "added", "the first archive has no such entry")
    else:
        try:
            yield from _decoded_changes(name, old, new, compared)
        except SbformatError as error:
            if old.raw(name) != new.raw(name):
                yield Change(name, "", "bytes", f"differs in its bytes; not both can be decoded: {error}")


def _decoded_changes(name: str, old: Archive, new: Archive, compared: list[Compared]) -> Iterator[Change]:
    if name == DATA_ENTRY:
        yield from _data_changes(old.data, new.data)
    elif name in old.state_dicts and name in new.state_dicts:
        left, right = old.state_dict(name), new.state_dict(name)
        rows = []
        if left is not right and left != right:
            for change in _state_dict_changes(name, left, right):
                rows.append(change)
                yield change
        with contextlib.suppress(LimitError):  # too many values to count, and none that differs
            compared.append(_summary(name, left, right, rows))
    else:
        left_bytes, right_bytes = old.raw(name), new.raw(name)
        if left_bytes == right_bytes:
            return
        if name in (VERSION_ENTRY, SYSTEM_INFO_ENTRY):
            yield from _text_changes(name, old, new)
        else:
            yield Change(name, "", "bytes", f"{len(left_bytes):,} bytes became {len(right_bytes):,} others")


def _became(left: str, right: str) -> str:
    return f"{left} became {right}" if left != right else f"{left} became another"


# -- data and text ------------------------------------------------------------------------------------


def _data_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Objects are entered, lists are not; the order of keys counts."""
    todo = [iter([("", old, new)])]
    while todo:
        for loc, left, right in todo[-1]:
            if isinstance(left, dict) and isinstance(right, dict):
                if [key for key in left if key in right] != [key for key in right if key in left]:
                    yield Change(DATA_ENTRY, loc, "order", "the keys stand in another order")
                todo.append(_parts(loc, left, right))
                break
            if left is _ABSENT:
                yield Change(DATA_ENTRY, loc, "added", f"is now {_shown(right)}")
            elif right is _ABSENT:
                yield Change(DATA_ENTRY, loc, "removed", f"was {_shown(left)}")
            else:
                kind: ChangeKind = "value" if type(left) is type(right) else "type"
                yield Change(DATA_ENTRY, loc, kind, _became(_shown(left), _shown(right)))
        else:
            todo.pop()


def _parts(loc: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The parts of two objects that are not equal, each with its place."""
    for key in {**left, **right}:
        one, other = left.get(key, _ABSENT), right.get(key, _ABSENT)
        if one is _ABSENT or other is _ABSENT or not equal_json(one, other):
            yield f"{loc}/{_token(key)}", one, other


def _token(key: str) -> str:
    """A key's part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _shown(value: object) -> str:
    """Name a value of ``data`` in short: never the bytes of a blob."""
    if isinstance(value, Serialized):
        reference = class_reference(value)
        if reference is not None:
            return f"the class {escape(reference)}"
        size = f"{len(value.pickle):,} bytes"
        try:
            return f"{render_line(decode(value))}, pickled in {size}"
        except SbformatError:
            return f"a broken pickle of {size}"
    return escape(json.dumps(value), _SHOWN)


def _text_changes(name: str, old: Archive, new: Archive) -> Iterator[Change]:
    found = False
    if name == VERSION_ENTRY:
        versions = str(old.stable_baselines3_version), str(new.stable_baselines3_version)
        if versions[0] != versions[1]:
            found = True
            yield Change(name, "", "value", f"{escape(versions[0])} became {escape(versions[1])}")
    elif old.system_info and new.system_info:
        left, right = old.system_info.fields, new.system_info.fields
        for key in {**left, **right}:
            if left.get(key) != right.get(key):
                found = True
                yield _field_change(name, key, left.get(key), right.get(key))
    if not found:
        yield Change(name, "", "bytes", "differs in white space or in lines that are no field")


def _field_change(name: str, key: str, left: str | None, right: str | None) -> Change:
    loc = f"/{_token(key)}"
    if left is None:
        return Change(name, loc, "added", f"is now {escape(right or '')}")
    if right is None:
        return Change(name, loc, "removed", f"was {escape(left)}")
    return Change(name, loc, "value", f"{escape(left)} became {escape(right)}")


# -- state dicts --------------------------------------------------------------------------------------


def _state_dict_changes(name: str, old: StateDict, new: StateDict) -> Iterator[Change]:
    """Changes of two that are not equal: at least one."""
    budgets = old.new_budget(), new.new_budget()
    left, right = ({leaf.path: leaf.value for leaf in side.leaves()} for side in (old, new))
    found = False
    for path in {**left, **right}:
        for kind, message, distance in _leaf_changes(left.get(path, _ABSENT), right.get(path, _ABSENT), budgets):
            found = True
            yield Change(name, path, kind, message, distance)
    if [path for path in left if path in right] != [path for path in right if path in left]:
        found = True
        yield Change(name, "", "order", "the tensors and values stand in another order")
    if not found:
        yield Change(name, "", "structure", "the containers differ: another kind of dict or list, or another _metadata")


_Row: TypeAlias = "tuple[ChangeKind, str, float | None]"


def _leaf_changes(left: Any, right: Any, budgets: tuple[Budget, Budget]) -> Iterator[_Row]:
    from sbformat.pth.compare import equal

    if left is _ABSENT:
        yield "added", f"is now {_described(right)}", None
    elif right is _ABSENT:
        yield "removed", f"was {_described(left)}", None
    elif equal(left, right, *budgets):
        return
    elif type(left) is not type(right):
        yield "type", _became(_described(left), _described(right)), None
    elif isinstance(left, TensorInfo):
        yield from _tensor_changes(left, right, budgets)
    else:
        yield "value", _became(_described(left), _described(right)), None


def _tensor_changes(left: TensorInfo, right: TensorInfo, budgets: tuple[Budget, Budget]) -> Iterator[_Row]:
    """All in which two tensors that are not equal differ."""
    from sbformat.pth.differences import difference

    if left.shape != right.shape:
        yield "shape", f"{_sizes(left.shape)} became {_sizes(right.shape)}", None
    if left.dtype != right.dtype:
        yield "dtype", f"{left.dtype} became {right.dtype}", None
    differing = 0
    if left.shape == right.shape and left.dtype == right.dtype:
        differing, largest = difference(left, right, *budgets)
        if differing:
            far = "some by what is no number" if largest is None else f"at most {largest:.6g} apart"
            yield "value", f"{differing:,} of {left.numel:,} items differ, {far}", largest
    flags = [
        f"{flag} {getattr(left, flag)} became {getattr(right, flag)}"
        for flag in _FLAGS
        if getattr(left, flag) != getattr(right, flag)
    ]
    if flags:
        yield "flags", ", ".join(flags), None
    elif not differing and left[:2] == right[:2]:
        yield "flags", "differs in its attributes", None


def _sizes(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _described(value: Any) -> str:
    """Name a value of a state dict in short."""
    if isinstance(value, TensorInfo):
        return f"a {'parameter' if value.is_parameter else 'tensor'} {value.dtype} {_sizes(value.shape)}"
    if isinstance(value, _TENSORS):
        shape = (value.int_repr if isinstance(value, QuantizedTensor) else value).shape
        return f"a {type(value).__name__} {_sizes(shape)}"
    if isinstance(value, (str, int, float, complex)) or value is None:
        if isinstance(value, int) and value.bit_length() > _SHOWN:
            return f"a number of {value.bit_length()} bits"
        return escape(repr(value[: _SHOWN + 1] if isinstance(value, str) else value), _SHOWN)
    if isinstance(value, _NAMED):
        return f"torch.{escape(value.name, _SHOWN)}"
    if isinstance(value, Device):
        return f"the device {escape(str(value.type), _SHOWN)}{'' if value.index is None else f':{value.index}'}"
    if not hasattr(value, "__len__"):
        return escape(repr(value), _SHOWN)
    article = "an" if isinstance(value, OrderedDict) else "a"
    return f"{article} {type(value).__name__} of {len(value)}"


def _summary(name: str, left: StateDict, right: StateDict, rows: list[Change]) -> Compared:
    paths = {**left.tensors(), **right.tensors()}
    touched = {row.loc for row in rows} & set(paths)
    distances = [row.max_abs_difference for row in rows if row.max_abs_difference is not None]
    return Compared(name, len(paths) - len(touched), len(touched), max(distances, default=None))
