"""Equality of decoded trees: by value, tensors bit for bit (FORMAT.md 9)."""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.pkl.tree import Call, Dict, FrozenSet, Global, Node, Set, children
from sbformat.pth.values import QuantizedTensor, SparseTensor, Storage, StorageId, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.limits import Budget

_KEYED: Final = (dict, OrderedDict)
_PARTS: Final = (list, tuple, Dict, FrozenSet, Set, SparseTensor, QuantizedTensor, StorageId)


def equal(
    first: object, second: object, first_budget: Budget, second_budget: Budget, *, compares_numbers: bool = True
) -> bool:
    """Return whether two decoded trees are equal.

    Containers of one kind with the same keys in the same order; numbers by their bits, so that NaN
    equals NaN; tensors by dtype, shape, flags and the bytes of their items, wherever those lie.

    :param compares_numbers: False counts any two floats as equal, and any two tensors: what contains them is compared
    """
    todo: list[tuple[Any, Any]] = [(first, second)]
    seen: dict[tuple[int, int], tuple[Any, Any]] = {}  # kept alive, as ids of temporary ones would be reused
    while todo:
        left, right = todo.pop()
        if left is right or (id(left), id(right)) in seen:
            continue
        if not compares_numbers and type(left) is type(right) and isinstance(left, (float, TensorInfo)):
            continue
        if isinstance(left, (*_KEYED, *_PARTS, Node)):
            seen[id(left), id(right)] = left, right
        pairs = _compare(left, right, first_budget, second_budget)
        if pairs is None:
            return False
        todo.extend(pairs)
    return True


_Pairs: TypeAlias = "Iterable[tuple[Any, Any]] | None"
"""Pairs that are left to compare, or None if the values differ."""


def _compare(left: Any, right: Any, first: Budget, second: Budget) -> _Pairs:
    if type(left) is not type(right):
        return _compare_spelled(left, right)
    if type(left) in _KEYED:
        if list(map(_bits, left)) != list(map(_bits, right)):
            return None
        metadata = (getattr(left, "_metadata", None), getattr(right, "_metadata", None))
        return [*zip(left.values(), right.values()), metadata]
    if type(left) in _PARTS:
        return zip(left, right) if len(left) == len(right) else None
    if isinstance(left, Node):
        parts, others = children(left), children(right)
        return zip(parts, others) if _facts(left) == _facts(right) and len(parts) == len(others) else None
    if isinstance(left, TensorInfo):
        return _compare_states(left, right) if _same_tensor(left, right, first, second) else None
    return () if _equal_leaves(left, right, first, second) else None


def _compare_states(left: TensorInfo, right: TensorInfo) -> _Pairs:
    if left.state is None or right.state is None:
        return () if left.state is right.state else None
    return zip(left.state.values(), right.state.values()) if list(left.state) == list(right.state) else None


def _bits(value: object) -> object:
    """A scalar with its type, floats by their bits."""
    if type(value) in (float, complex):
        number = complex(value)  # type: ignore[call-overload]
        return type(value), struct.pack("<2d", number.real, number.imag)
    if type(value) is tuple:  # a key: a few plain values
        return type(value), tuple(map(_bits, value))
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset(map(_bits, value))
    return type(value), value


def _equal_leaves(left: Any, right: Any, first: Budget, second: Budget) -> bool:
    if isinstance(left, Storage):
        from sbformat.pth.arrays import storage_array

        same = left.dtype == right.dtype and left.nbytes == right.nbytes
        return same and storage_array(left, first).tobytes() == storage_array(right, second).tobytes()
    return bool(_bits(left) == _bits(right))


def _same_tensor(left: TensorInfo, right: TensorInfo, first: Budget, second: Budget) -> bool:
    from sbformat.pth.differences import same_bits

    for field in ("dtype", "shape", "requires_grad", "is_parameter"):
        if getattr(left, field) != getattr(right, field):
            return False
    return same_bits(left, right, first, second)


def _compare_spelled(left: object, right: object) -> _Pairs:
    """Return values in an inert node, or the call that encodes them with protocol 2."""
    from sbformat.pkl.canonical import WITHOUT_OPCODE

    if type(left) is Call and type(right) in WITHOUT_OPCODE:
        return [(left, WITHOUT_OPCODE[type(right)](right))]
    if type(right) is Call and type(left) in WITHOUT_OPCODE:
        return [(WITHOUT_OPCODE[type(left)](left), right)]
    return None


def _facts(node: Node) -> tuple[object, ...]:
    """Return the facts about an inert node besides its children, and how those are divided into changes."""
    changes = [(update.how, len(update.value) if update.how != "BUILD" else 1) for update in node.updates or ()]  # type: ignore[arg-type]
    own = node.pair if isinstance(node, Global) else node.how if isinstance(node, Call) else getattr(node, "code", None)
    return own, *changes
