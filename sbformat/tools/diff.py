"""``diff``: compare two archives, entry by entry, down to the tensor and the key of ``data``."""

from __future__ import annotations

import contextlib
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat.archive.algorithm import class_reference
from sbformat.constants import DATA_ENTRY, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.data import Serialized, equal_json
from sbformat.errors import LimitError, SbformatError, escape
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
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
from sbformat.reader import read
from sbformat.values import decode
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.pth import StateDict
    from sbformat.reader import ArchiveLike

ChangeKind: TypeAlias = Literal[
    "added", "removed", "value", "type", "dtype", "shape", "flags", "order", "structure", "bytes"
]

_SHOWN: Final = 60
_CHARACTERS_PER_ROW: Final = 256
"""Characters of a location that count as one more reported row."""
_TENSORS: Final = (TensorInfo, SparseTensor, QuantizedTensor, MetaTensor)
_TORCH_NAMES: Final = (DTypeName, Layout, MemoryFormat)
_FLAGS: Final = ("requires_grad", "is_parameter")
_ABSENT: Final = object()


class Change(NamedTuple):
    """One difference between the first archive and the second."""

    entry: str
    loc: str
    """In ``data`` a JSON pointer, in a state dict the path of the tensor; empty for the whole entry."""
    kind: ChangeKind
    message: str
    """What changed, in words."""
    max_abs_difference: float | None = None
    """The largest difference of two elements, for tensors of the same dtype and shape; None where elements differ by
    NaN, and for any other change."""


class StateDictComparison(NamedTuple):
    """A state dict that both archives contain."""

    name: str
    equal: int
    """Number of tensors that are equal: bit for bit, and in dtype, shape and flags."""
    different: int
    """Number of tensors that differ, or that only one archive contains."""
    max_abs_difference: float | None
    """The largest difference of two elements of any of its tensors."""


class DiffReport(NamedTuple):
    """The differences of two archives; ``changes`` is empty exactly when they are equal (FORMAT.md 9)."""

    changes: tuple[Change, ...]
    state_dicts: tuple[StateDictComparison, ...]


def diff(old: ArchiveLike, new: ArchiveLike, *, limits: Limits = DEFAULT_LIMITS) -> DiffReport:
    """Compare two archives: hyperparameters by value, tensors bit for bit, everything else by its bytes.

    Entries that cannot be decoded are compared by their bytes. ::

        for change in sbformat.diff("before.zip", "after.zip").changes:
            print(change.entry, change.loc, change.message)

    :param old: the first archive, or what :func:`sbformat.read` takes
    :param new: the second one
    :param limits: for reading
    :raises OSError: when a path cannot be opened
    :raises LimitError: for more changes than ``reported_values`` allows
    :raises SbformatError: when one of them is not an archive
    """
    old, new = (read(source, limits=limits, on_unknown="inert") for source in (old, new))
    budget = Budget(old.limits)
    changes: list[Change] = []
    compared: list[StateDictComparison] = []
    for name in (*(name for name in old.contents if name not in new.contents), *new.contents):
        for change in _compare_entry(name, old, new, compared):
            budget.spend("reported_values", 1 + len(change.loc) // _CHARACTERS_PER_ROW)
            changes.append(change)
    return DiffReport(tuple(changes), tuple(compared))


def _compare_entry(name: str, old: Archive, new: Archive, compared: list[StateDictComparison]) -> Iterator[Change]:
    if name not in new.contents:
        yield Change(name, "", "removed", "the second archive does not contain this entry")
    elif name not in old.contents:
        yield Change(name, "", "added", "the first archive does not contain this entry")
    else:
        try:
            yield from _compare_decoded(name, old, new, compared)
        except SbformatError as error:
            if old.raw(name) != new.raw(name):
                yield Change(name, "", "bytes", f"the bytes differ, and at least one side cannot be decoded: {error}")


def _compare_decoded(name: str, old: Archive, new: Archive, compared: list[StateDictComparison]) -> Iterator[Change]:
    if name == DATA_ENTRY:
        yield from _compare_data(old.data, new.data)
    elif name in old.state_dicts and name in new.state_dicts:
        left, right = old.state_dict(name), new.state_dict(name)
        rows = []
        if left is not right and left != right:
            for change in _compare_state_dicts(name, left, right):
                rows.append(change)
                yield change
        with contextlib.suppress(LimitError):  # too many values to count, none of which differs
            compared.append(_summarize(name, left, right, rows))
    else:
        left_bytes, right_bytes = old.raw(name), new.raw(name)
        if left_bytes == right_bytes:
            return
        if name in (VERSION_ENTRY, SYSTEM_INFO_ENTRY):
            yield from _compare_text(name, old, new)
        else:
            yield Change(name, "", "bytes", f"{len(left_bytes):,} bytes became {len(right_bytes):,} other bytes")


def _describe_change(left: str, right: str) -> str:
    return f"{left} became {right}" if left != right else f"{left} became a different one"


# -- data and text ------------------------------------------------------------------------------------


def _compare_data(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Compare objects key by key, their order included; a list is compared as a whole."""
    todo = [iter([("", old, new)])]
    while todo:
        for loc, left, right in todo[-1]:
            if isinstance(left, dict) and isinstance(right, dict):
                if [key for key in left if key in right] != [key for key in right if key in left]:
                    yield Change(DATA_ENTRY, loc, "order", "the order of the keys differs")
                todo.append(_unequal_members(loc, left, right))
                break
            if left is _ABSENT:
                yield Change(DATA_ENTRY, loc, "added", f"is now {_describe_json(right)}")
            elif right is _ABSENT:
                yield Change(DATA_ENTRY, loc, "removed", f"was {_describe_json(left)}")
            else:
                kind: ChangeKind = "value" if type(left) is type(right) else "type"
                yield Change(DATA_ENTRY, loc, kind, _describe_change(_describe_json(left), _describe_json(right)))
        else:
            todo.pop()


def _unequal_members(loc: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the members of two objects that are not equal, each with its location."""
    for key in {**left, **right}:
        one, other = left.get(key, _ABSENT), right.get(key, _ABSENT)
        if one is _ABSENT or other is _ABSENT or not equal_json(one, other):
            yield f"{loc}/{_escape_key(key)}", one, other


def _escape_key(key: str) -> str:
    """Return a key as a JSON pointer contains it."""
    return key.replace("~", "~0").replace("/", "~1")


def _describe_json(value: object) -> str:
    """Describe a value of ``data`` in a few words, without the bytes of a serialized value."""
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


def _compare_text(name: str, old: Archive, new: Archive) -> Iterator[Change]:
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
                yield _describe_field_change(name, key, left.get(key), right.get(key))
    if not found:
        yield Change(name, "", "bytes", "white space differs, or lines that are not fields do")


def _describe_field_change(name: str, key: str, left: str | None, right: str | None) -> Change:
    loc = f"/{_escape_key(key)}"
    if left is None:
        return Change(name, loc, "added", f"is now {escape(right or '')}")
    if right is None:
        return Change(name, loc, "removed", f"was {escape(left)}")
    return Change(name, loc, "value", f"{escape(left)} became {escape(right)}")


# -- state dicts --------------------------------------------------------------------------------------


def _compare_state_dicts(name: str, old: StateDict, new: StateDict) -> Iterator[Change]:
    """Yield the changes of two state dicts that are not equal: at least one."""
    budgets = old.new_budget(), new.new_budget()
    left, right = ({leaf.path: leaf.value for leaf in side.leaves()} for side in (old, new))
    found = False
    for path in {**left, **right}:
        for kind, message, distance in _compare_leaves(left.get(path, _ABSENT), right.get(path, _ABSENT), budgets):
            found = True
            yield Change(name, path, kind, message, distance)
    if [path for path in left if path in right] != [path for path in right if path in left]:
        found = True
        yield Change(name, "", "order", "the order of the tensors and values differs")
    if not found:
        yield Change(name, "", "structure", "the containers differ: another type of dict or list, or another _metadata")


_Row: TypeAlias = "tuple[ChangeKind, str, float | None]"


def _compare_leaves(left: Any, right: Any, budgets: tuple[Budget, Budget]) -> Iterator[_Row]:
    from sbformat.pth.compare import equal

    if left is _ABSENT:
        yield "added", f"is now {_describe_leaf(right)}", None
    elif right is _ABSENT:
        yield "removed", f"was {_describe_leaf(left)}", None
    elif equal(left, right, *budgets):
        return
    elif type(left) is not type(right):
        yield "type", _describe_change(_describe_leaf(left), _describe_leaf(right)), None
    elif isinstance(left, TensorInfo):
        yield from _compare_tensors(left, right, budgets)
    else:
        yield "value", _describe_change(_describe_leaf(left), _describe_leaf(right)), None


def _compare_tensors(left: TensorInfo, right: TensorInfo, budgets: tuple[Budget, Budget]) -> Iterator[_Row]:
    """Yield everything in which two tensors that are not equal differ."""
    from sbformat.pth.differences import difference

    if left.shape != right.shape:
        yield "shape", f"{_render_shape(left.shape)} became {_render_shape(right.shape)}", None
    if left.dtype != right.dtype:
        yield "dtype", f"{left.dtype} became {right.dtype}", None
    differing = 0
    if left.shape == right.shape and left.dtype == right.dtype:
        differing, largest = difference(left, right, *budgets)
        if differing:
            distance = "some of them by NaN" if largest is None else f"by at most {largest:.6g}"
            yield "value", f"{differing:,} of {left.numel:,} elements differ, {distance}", largest
    flags = [
        f"{flag} {getattr(left, flag)} became {getattr(right, flag)}"
        for flag in _FLAGS
        if getattr(left, flag) != getattr(right, flag)
    ]
    if flags:
        yield "flags", ", ".join(flags), None
    elif not differing and left[:2] == right[:2]:
        yield "flags", "the attributes differ", None


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


def _summarize(name: str, left: StateDict, right: StateDict, rows: list[Change]) -> StateDictComparison:
    paths = {**left.tensors(), **right.tensors()}
    touched = {row.loc for row in rows} & set(paths)
    distances = [row.max_abs_difference for row in rows if row.max_abs_difference is not None]
    return StateDictComparison(name, len(paths) - len(touched), len(touched), max(distances, default=None))
