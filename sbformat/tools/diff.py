"""What differs between two archives, entry by entry, down to the tensor and the key."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat.algorithm import class_reference
from sbformat.archive import is_state_dict
from sbformat.data import Serialized, equal_json
from sbformat.errors import SbformatError, escape
from sbformat.pth import MetaTensor, QuantizedTensor, SparseTensor, TensorInfo
from sbformat.spec import DATA_ENTRY, SYSTEM_INFO_ENTRY, VERSION_ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.archive import Archive
    from sbformat.limits import Budget
    from sbformat.pth import StateDict

ChangeKind: TypeAlias = Literal[
    "added", "removed", "value", "type", "dtype", "shape", "flags", "order", "structure", "bytes"
]

_SHOWN: Final = 60
_TENSORS: Final = (TensorInfo, SparseTensor, QuantizedTensor, MetaTensor)
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
    """
    gone = [name for name in old.entries if name not in new.entries]
    changes = [Change(name, "", "removed", "the second archive has no such entry") for name in gone]
    compared: list[Compared] = []
    for name in new.entries:
        if name not in old.entries:
            changes.append(Change(name, "", "added", "the first archive has no such entry"))
            continue
        try:
            changes += _entry_changes(name, old, new, compared)
        except SbformatError as error:
            if old.raw(name) != new.raw(name):
                changes.append(Change(name, "", "bytes", f"differs in its bytes; it cannot be decoded: {error}"))
    return DiffReport(tuple(changes), tuple(compared))


def _entry_changes(name: str, old: Archive, new: Archive, compared: list[Compared]) -> list[Change]:
    if name == DATA_ENTRY:
        return list(_data_changes(old.data, new.data))
    if is_state_dict(name):
        left, right = old.state_dict(name), new.state_dict(name)
        rows = [] if left is right else list(_state_dict_changes(name, left, right))
        compared.append(_summary(name, left, right, rows))
        return rows
    left_bytes, right_bytes = old.raw(name), new.raw(name)
    if left_bytes == right_bytes:
        return []
    if name in (VERSION_ENTRY, SYSTEM_INFO_ENTRY):
        return list(_text_changes(name, old, new))
    return [Change(name, "", "bytes", f"{len(left_bytes):,} bytes became {len(right_bytes):,} others")]


# -- data and text ------------------------------------------------------------------------------------


def _data_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Objects are entered, lists are not; the order of keys counts."""
    todo: list[tuple[str, Any, Any]] = [("", old, new)]
    while todo:
        loc, left, right = todo.pop(0)
        if isinstance(left, dict) and isinstance(right, dict):
            todo += [
                (f"{loc}/{_token(key)}", left.get(key, _ABSENT), right.get(key, _ABSENT)) for key in {**left, **right}
            ]
            common = [key for key in right if key in left]
            if [key for key in left if key in right] != common:
                yield Change(DATA_ENTRY, loc, "order", "the keys stand in another order")
        elif left is _ABSENT:
            yield Change(DATA_ENTRY, loc, "added", f"is now {_shown(right)}")
        elif right is _ABSENT:
            yield Change(DATA_ENTRY, loc, "removed", f"was {_shown(left)}")
        elif not equal_json(left, right):
            kind: ChangeKind = "value" if type(left) is type(right) else "type"
            yield Change(DATA_ENTRY, loc, kind, f"{_shown(left)} became {_shown(right)}")


def _token(key: str) -> str:
    return escape(key, _SHOWN).replace("~", "~0").replace("/", "~1")


def _shown(value: object) -> str:
    """Name a value of ``data`` in short: never the bytes of a blob."""
    if isinstance(value, Serialized):
        reference = class_reference(value)
        if reference is not None:
            return f"the class {escape(reference)}"
        return f"a pickled {escape(value.type or 'value without type', _SHOWN)} of {len(value.pickle):,} bytes"
    return escape(json.dumps(value), _SHOWN)


def _text_changes(name: str, old: Archive, new: Archive) -> Iterator[Change]:
    if name == VERSION_ENTRY:
        versions = old.stable_baselines3_version, new.stable_baselines3_version
        if versions[0] != versions[1]:
            yield Change(name, "", "value", f"{escape(str(versions[0]))} became {escape(str(versions[1]))}")
            return
    elif old.system_info and new.system_info:
        left, right = old.system_info.fields, new.system_info.fields
        rows = [(key, left.get(key, "nothing"), right.get(key, "nothing")) for key in {**left, **right}]
        found = [
            Change(name, _token(key), "value", f"{escape(was)} became {escape(now)}")
            for key, was, now in rows
            if was != now
        ]
        if found:
            yield from found
            return
    yield Change(name, "", "bytes", "differs in white space or in lines that are no field")


# -- state dicts --------------------------------------------------------------------------------------


def _state_dict_changes(name: str, old: StateDict, new: StateDict) -> Iterator[Change]:
    budgets = old.new_budget(), new.new_budget()
    left, right = ({leaf.path: leaf.value for leaf in side.leaves()} for side in (old, new))
    found = False
    for path in {**left, **right}:
        change = _leaf_change(name, path, left.get(path, _ABSENT), right.get(path, _ABSENT), budgets)
        if change is not None:
            found = True
            yield change
    common = [path for path in right if path in left]
    if [path for path in left if path in right] != common:
        found = True
        yield Change(name, "", "order", "the tensors and values stand in another order")
    if not found and old != new:
        yield Change(name, "", "structure", "the containers differ: another kind of dict or list, or another _metadata")


def _leaf_change(name: str, path: str, left: Any, right: Any, budgets: tuple[Budget, Budget]) -> Change | None:  # noqa: ANN401
    if left is right:
        return None
    if left is _ABSENT:
        return Change(name, path, "added", f"is now {_described(right)}")
    if right is _ABSENT:
        return Change(name, path, "removed", f"was {_described(left)}")
    if isinstance(left, TensorInfo) and isinstance(right, TensorInfo):
        return _tensor_change(name, path, left, right, budgets)
    if type(left) is not type(right):
        return Change(name, path, "type", f"{_described(left)} became {_described(right)}")
    from sbformat.pth.compare import equal

    if equal(left, right, *budgets):
        return None
    return Change(name, path, "value", f"{_described(left)} became {_described(right)}")


def _tensor_change(
    name: str, path: str, left: TensorInfo, right: TensorInfo, budgets: tuple[Budget, Budget]
) -> Change | None:
    if left.shape != right.shape:
        return Change(name, path, "shape", f"{left.shape} became {right.shape}")
    if left.dtype != right.dtype:
        return Change(name, path, "dtype", f"{left.dtype} became {right.dtype}")
    from sbformat.pth.compare import equal
    from sbformat.pth.differences import difference

    differing, largest = difference(left, right, *budgets)
    if differing:
        far = "NaN stands against numbers" if largest is None else f"at most {largest:.6g} apart"
        return Change(name, path, "value", f"{differing:,} of {left.numel:,} items differ, {far}", largest)
    if not equal(left, right, *budgets):
        return Change(name, path, "flags", "differs in requires_grad, in being a Parameter, or in attributes")
    return None


def _described(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, _TENSORS):
        dtype = getattr(value, "dtype", "")
        shape = getattr(value, "shape", "")
        return f"a {type(value).__name__} {dtype} {shape}".replace("  ", " ").replace("TensorInfo", "tensor").rstrip()
    if isinstance(value, (dict, OrderedDict, list, tuple, set, frozenset, bytes, bytearray)):
        return f"a {type(value).__name__} of {len(value)}"
    return escape(repr(value), _SHOWN) if not isinstance(value, int) else escape(_number(value))


def _number(value: int) -> str:
    return str(value) if value.bit_length() <= _SHOWN else f"a number of {value.bit_length()} bits"


def _summary(name: str, left: StateDict, right: StateDict, rows: list[Change]) -> Compared:
    paths = {**left.tensors(), **right.tensors()}
    touched = {row.loc for row in rows} & set(paths)
    distances = [row.max_abs_difference for row in rows if row.max_abs_difference is not None]
    return Compared(name, len(paths) - len(touched), len(touched), max(distances, default=None))
