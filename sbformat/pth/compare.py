"""Comparison of decoded trees, and of weights with a template (FORMAT.md 9).

Two trees come in. Out comes whether they are equal, or their mismatches: one row each, and one error that lists them.
How far two tensors differ is in ``arrays``.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from sbformat.constants import PTH_SUFFIX
from sbformat.errors import UnsupportedError, ValidationError, escape, quote
from sbformat.immutable import Record
from sbformat.pkl.numpy import ArrayInfo, is_plain
from sbformat.pkl.tree import Call, Dict, FrozenSet, Global, Node, Set, children
from sbformat.pth.values import QuantizedTensor, SparseTensor, Storage, StorageId, TensorInfo, segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sbformat.limits import Budget


_KEYED: Final = (dict, OrderedDict)
_PARTS: Final = (list, tuple, Dict, FrozenSet, Set, SparseTensor, QuantizedTensor, StorageId)


def equal(
    first: object, second: object, first_budget: Budget, second_budget: Budget, *, compares_numbers: bool = True
) -> bool:
    """Return whether two decoded trees are equal.

    Containers of one kind with the same keys in the same order; numbers by their bits, so that NaN
    equals NaN; tensors and arrays by dtype, shape, flags and the bytes of their items, wherever those lie.

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


_Pairs: TypeAlias = "Iterable[tuple[Any, Any]] | None"  # pairs that are left to compare, or None if the values differ


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
        if not _same_tensor(left, right, first, second):
            return None
        mine, theirs = left.state or {}, right.state or {}
        return zip(mine.values(), theirs.values()) if list(mine) == list(theirs) else None
    return () if _equal_leaves(left, right, first, second) else None


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
    if isinstance(left, ArrayInfo) and not left.fields and is_plain(left.dtype):
        return _same_array(left, right)
    return bool(_bits(left) == _bits(right))


def _same_array(left: ArrayInfo, right: ArrayInfo) -> bool:
    """Return whether two arrays of numbers are equal, whatever their byte orders and the orders of their items."""
    from sbformat.pth.arrays import same_items

    facts = [(array.dtype[1:], array.shape, array.is_scalar, array.fields) for array in (left, right)]
    return facts[0] == facts[1] and same_items(left.as_stored(), right.as_stored())


def _same_tensor(left: TensorInfo, right: TensorInfo, first: Budget, second: Budget) -> bool:
    from sbformat.pth.arrays import same_bits

    fields = ("dtype", "shape", "requires_grad", "is_parameter")
    same = all(getattr(left, field) == getattr(right, field) for field in fields)
    return same and same_bits(left, right, first, second)


def _compare_spelled(left: object, right: object) -> _Pairs:
    """Return values in an inert node, or the call that encodes them with protocol 2."""
    from sbformat.pkl.encode import WITHOUT_OPCODE

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


S = TypeVar("S")
T = TypeVar("T")

_SHOWN: Final = 20
_HINTED: Final = 3  # names that the nearest one is sought for: it costs time with the template's size


_ADDED_OPTIONS: Final = frozenset(
    {"maximize", "foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay", "initial_lr"}
)
"""Options that later releases of torch gave optimizers, or schedulers do: a template of an older one lacks them."""


class Mismatch(Record):
    """One way in which weights do not fit their template."""

    loc: str
    """The tensor's path."""
    kind: Literal["missing", "unexpected", "shape", "dtype", "value", "contradiction"]
    message: str


def check_names(infos: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Mismatch]:
    """Yield the names that only one side has."""
    for path in infos:
        if path not in given:
            yield Mismatch(path, "missing", "is not given")
    unexpected = [path for path in given if path not in infos]
    for at, path in enumerate(unexpected):
        yield _unexpected(path, "tensor", infos if at < _HINTED else ())


def _unexpected(path: str, what: str, known: Iterable[str]) -> Mismatch:
    from difflib import get_close_matches

    close = get_close_matches(path[:60], list(known), n=1)
    hint = f"; did you mean {quote(close[0])}?" if close else ""
    return Mismatch(path, "unexpected", f"the template has no such {what}{hint}")


def leaf_misfits(
    template: Mapping[str, Any], given: Mapping[str, Any], is_equal: Callable[[Any, Any], bool]
) -> Iterator[Mismatch]:
    """Yield the given values, tensors apart, that the template does not have or that differ from its own.

    :param template: its values by path, tensors among them
    """
    hints = _HINTED
    for path, value in given.items():
        if path not in template:
            yield _unexpected(path, "value", template if hints > 0 else ())
            hints -= 1
        elif isinstance(template[path], TensorInfo):
            yield Mismatch(path, "dtype", f"expected a tensor, got a {type(value).__name__}")
        elif not is_equal(template[path], value):
            yield Mismatch(path, "value", "expected the template's value: only tensors may have others")


def optimizer_misfits(
    template: object, infos: Mapping[str, Any], given: object, tensors: Mapping[str, Any]
) -> list[Mismatch]:
    """List why an optimizer's tree is not for the parameters of the template; either may have no state.

    Its groups have the options that the template's have, its state is that of its own parameters. ``infos`` are the
    template's tensors by path, ``tensors`` those of the given tree.
    """
    mismatches = []
    theirs: dict[Any, Any]
    mine: dict[Any, Any]
    known: set[object] = set()
    for at, (theirs, mine) in enumerate(zip_longest(_groups(template), _groups(given), fillvalue={})):
        wanted, listed = len(_items(theirs.get("params"))), _items(mine.get("params"))
        known.update(key for key in listed if isinstance(key, (int, str)))
        if len(listed) != wanted:
            message = f"expected {wanted or 'no'} parameters, got {len(listed) or 'none'}"
            mismatches.append(Mismatch(f"param_groups/[{at}]/params", "shape", message))
        place = f"param_groups/[{at}]/"
        lacking = [key for key in theirs if mine and key not in mine and key != "params"]
        mismatches += [Mismatch(place + segment(key), "missing", "is not given") for key in lacking]
        mismatches += _others(place, "option", {key for key in mine if key not in _ADDED_OPTIONS}, theirs)
    for key in _state(given):
        if key not in known:
            mismatches.append(Mismatch(f"state/{segment(key)}", "unexpected", "does not belong to any parameter"))
    mismatches += _others("", "value", given if isinstance(given, dict) else {}, template)
    words = {word for moments in _state(template).values() if isinstance(moments, dict) for word in moments}
    for key, moments in _state(given).items() if words else ():
        place = f"state/{segment(key)}/"
        found = [word for word in moments if place + segment(word) not in tensors] if isinstance(moments, dict) else []
        mismatches += _others(place, "value", found, words)
    if infos and tensors:
        mismatches += check_names(infos, tensors)
        mismatches += [
            Mismatch(path, "shape", f"expected shape {_shape(infos[path])}, got {_shape(info)}")
            for path, info in tensors.items()
            if path in infos and _shape(info) != _shape(infos[path])
        ]
    return mismatches


def _others(place: str, what: str, given: Iterable[Any], template: Any) -> list[Mismatch]:
    """List the keys that a part of the template lacks, if it has keys."""
    if not isinstance(template, (dict, set)) or not template:
        return []
    names = [segment(key) for key in template]
    found = [_unexpected(segment(key), what, names) for key in given if key not in template]
    return [row._replace(loc=place + row.loc) for row in found]


def _groups(tree: object) -> list[dict[Any, Any]]:
    """Return the groups of an optimizer; an empty dict for a value that is not a group."""
    groups = tree.get("param_groups") if isinstance(tree, dict) else None
    return [group if isinstance(group, dict) else {} for group in _items(groups)]


def _state(tree: object) -> dict[Any, Any]:
    state = tree.get("state") if isinstance(tree, dict) else None
    return state if isinstance(state, dict) else {}


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _shape(info: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = info.int_repr.shape if isinstance(info, QuantizedTensor) else info.shape
    return shape


def fit_all(parts: Mapping[str, T], fit: Callable[[str, T], S], mismatches: Iterable[Mismatch] = ()) -> dict[str, S]:
    """Check the values for several state dicts, by SB3's names; one error lists everything that does not fit.

    :param fit: returns the state dict, or raises ValidationError
    :param mismatches: mismatches that are already known
    """
    found = list(mismatches)
    made = {}
    for name, part in parts.items():
        try:
            made[name] = fit(name, part)
        except ValidationError as error:
            found += [row._replace(loc=f"{name}:{row.loc}") for row in error.problems]
        except UnsupportedError as error:
            raise error if error.entry else error.within(name + PTH_SUFFIX) from None
    if found:
        raise misfit(found)
    return made


def misfit(mismatches: list[Mismatch], entry: str | None = None) -> ValidationError:
    """Return the error that lists the mismatches."""
    lines = [f"{escape(row.loc)}: {row.message}" for row in mismatches[:_SHOWN]]
    more = f"; and {len(mismatches) - _SHOWN} more" if len(mismatches) > _SHOWN else ""
    count = f"{len(mismatches)} values do" if len(mismatches) != 1 else "1 value does"
    message = f"{count} not fit the template: {'; '.join(lines)}{more}"
    return ValidationError(message, problems=mismatches, entry=entry)
