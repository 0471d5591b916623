"""Spaces as plain JSON and back: what a bundle's settings hold of them (FORMAT.md 17.6).

One table for both directions: the fields of each space, and how each is spelled. Random generators have no place in it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from sbformat.errors import DataError, SbformatError, UnsupportedError
from sbformat.pkl.numpy import ITEM_SIZES, ArrayInfo, checked_numel, item_size
from sbformat.values.context import UnrecognizedError
from sbformat.values.numbers import unpack_items
from sbformat.values.types import (
    Box,
    DictSpace,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    TupleSpace,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sbformat.limits import Budget

_LIBRARIES: Final = ("gym", "gymnasium")
_TEXT_DTYPE: Final = "<U0"
_WORDS: Final = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
"""What JSON has no number for."""
_CODES: Final = frozenset(code for code in ITEM_SIZES if code[0] != "c")
_RANK: Final = 64
_EXACT: Final = 2**53
_NODE: Final = 7
"""Nodes that a list or object counts as (``Limits.json_nodes``)."""


class _Spelling(NamedTuple):
    """How a field is spelled, and read again within a budget."""

    write: Callable[[Any], Any]
    read: Callable[[Any, Budget], Any]


def refuse(message: str) -> NoReturn:
    """Refuse what is no such JSON."""
    raise DataError(message)


def write_space(space: Any, budget: Budget) -> Any:
    """Return the JSON of a space.

    :raises UnsupportedError: for an array of no plain numbers
    :raises LimitError: when it is larger than a reader takes
    """
    budget.spend("json_nodes", _weight(space, {}))
    return _write(space)


def _weight(value: Any, known: dict[int, int]) -> int:
    """Return what its JSON asks for: parts that are shared are written as often as they are used, and counted once."""
    if id(value) not in known:
        parts: Iterable[Any] = ()
        if isinstance(value, dict):
            parts = value.values()
        elif isinstance(value, Value) or type(value) is tuple:
            parts = value
        items = len(value.read()) // item_size(value.dtype) if isinstance(value, ArrayInfo) else 0
        known[id(value)] = _NODE + items + sum(_weight(part, known) for part in parts)
    return known[id(value)]


def _write(space: Any) -> Any:
    if space is None:
        return None
    name = next(name for name, (cls, _) in _SPACES.items() if type(space) is cls)
    made = {"type": name, "library": space.library}
    for field, spelling in _SPACES[name][1].items():
        made[field] = spelling.write(getattr(space, field))
    return made


def read_space(value: Any, budget: Budget) -> Any:
    """Return the space that :func:`write_space` wrote.

    :raises DataError: when a field is missing, of another type, or one too many
    :raises LimitError: when it asks for more than allowed
    """
    if value is None:
        return None
    if type(value) is not dict or type(value.get("type")) is not str or value["type"] not in _SPACES:
        refuse("a space is none of those that there are")
    cls, spellings = _SPACES[value["type"]]
    if set(value) != {"type", "library", *spellings}:
        refuse(f"a {value['type']} does not have the fields {', '.join(spellings)}, and no others")
    if value["library"] not in _LIBRARIES:
        refuse("a space is of no library that there is")
    fields = {name: spelling.read(value[name], budget) for name, spelling in spellings.items()}
    made = cls(library=value["library"], random=None, **fields)
    _check(made)
    return made


def _check(space: Any) -> None:
    """Check that the parts of a space fit each other, as the recogniser of pickles does."""
    if isinstance(space, Box):
        for bound in (space.low, space.high, space.bounded_below, space.bounded_above):
            if bound is not None and bound.shape != space.shape:
                refuse("the bounds of a Box are not of its shape")
    if isinstance(space, MultiDiscrete) and space.start is not None and space.start.shape != space.nvec.shape:
        refuse("start of a MultiDiscrete is not of the shape of nvec")


# -- fields -------------------------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _read_plain(kind: type) -> Callable[[Any, Budget], Any]:
    def read(value: Any, _: Budget) -> Any:
        if type(value) is not kind:
            refuse(f"a field of a space is no {kind.__name__}")
        return value

    return read


def _read_dtype(value: Any, _: Budget) -> str:
    if value == _TEXT_DTYPE or (type(value) is str and value[:1] in ("<", "|", ">") and value[1:] in ITEM_SIZES):
        return str(value)
    refuse("the dtype of a space is none of numpy's")


def read_shape(value: Any, _: Budget | None = None) -> tuple[int, ...]:
    """Return a shape from a list of sizes."""
    if type(value) is not list or len(value) > _RANK or any(type(size) is not int or size < 0 for size in value):
        refuse("a shape is no list of sizes")
    return tuple(value)


def _write_array(info: ArrayInfo) -> dict[str, Any]:
    try:
        items = [spell_number(item) for item in unpack_items(info)]
    except UnrecognizedError as error:
        raise UnsupportedError(str(error)) from None
    buffer = info.read()
    if len(items) > 1 and buffer[: item_size(info.dtype)] * len(items) == buffer:
        items = items[0]
    return {"dtype": info.dtype, "shape": list(info.shape), "items": items}


def _read_array(value: Any, budget: Budget) -> ArrayInfo:
    if type(value) is not dict or set(value) != {"dtype", "shape", "items"}:
        refuse("an array is not given by dtype, shape and items")
    dtype, shape, items = value["dtype"], read_shape(value["shape"]), value["items"]
    order = "|" if type(dtype) is str and ITEM_SIZES.get(dtype[1:]) == 1 else "<"
    if type(dtype) is not str or dtype[:1] != order or dtype[1:] not in _CODES:
        refuse("the dtype of an array is none of numpy's, little-endian")
    try:
        numel = checked_numel(shape, ITEM_SIZES[dtype[1:]])
    except SbformatError as error:
        raise DataError(error.message) from None
    budget.spend("blobs_bytes", numel * ITEM_SIZES[dtype[1:]])
    if type(items) is list:
        if len(items) != numel:
            refuse(f"an array of shape {shape} has {len(items)} items")
        buffer = _packed(items, dtype)
    else:
        buffer = _packed([items], dtype) * numel
    return ArrayInfo(dtype, shape, "C", buffer, is_scalar=False)


def _packed(items: list[Any], dtype: str) -> bytes:
    """The bytes of these numbers, each of which the dtype holds exactly."""
    import numpy as np

    kind = np.dtype(dtype).kind
    if kind == "f":
        numbers = np.array([read_number(item) for item in items], "<f8")
        with np.errstate(all="ignore"):
            made = numbers.astype(dtype)
        if not np.array_equal(made.astype("<f8"), numbers, equal_nan=True):
            refuse(f"a number is none of {dtype}")
        return made.tobytes()
    if any(type(item) is not (bool if kind == "b" else int) for item in items):
        refuse(f"an item of an array of {dtype} is of another type")
    if kind != "b" and items and (min(items) < np.iinfo(dtype).min or max(items) > np.iinfo(dtype).max):
        refuse(f"a number is none of {dtype}")
    return np.array(items, dtype).tobytes()


def spell_number(value: float) -> Any:
    """Return a number as JSON has it; text for those that it has not."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    return value


def read_number(value: Any) -> float:
    """Return the float that :func:`spell_number` spelled; a whole number is one, too."""
    if type(value) is str and value in _WORDS:
        return _WORDS[value]
    if type(value) is int and abs(value) <= _EXACT:
        value = float(value)
    if type(value) is not float or not math.isfinite(value):
        refuse("where a number belongs is something else, or a whole number that no float holds")
    return value


def _write_parts(value: Mapping[str, Any]) -> list[Any]:
    return [[key, _write(part)] for key, part in value.items()]


def _read_parts(value: Any, budget: Budget) -> dict[str, Any]:
    if type(value) is not list or any(type(pair) is not list or len(pair) != 2 for pair in value):
        refuse("the spaces of a Dict are no pairs of a name and a space")
    if any(type(key) is not str for key, _ in value) or len({key for key, _ in value}) != len(value):
        refuse("the names of the spaces of a Dict are no texts, or one stands twice")
    return {key: _read_one(part, budget) for key, part in value}


def _read_one(value: Any, budget: Budget) -> Any:
    if value is None:
        refuse("a space is made of something that is no space")
    return read_space(value, budget)


def _write_list(value: tuple[Any, ...]) -> list[Any]:
    return [_write(part) for part in value]


def _read_list(value: Any, budget: Budget) -> tuple[Any, ...]:
    if type(value) is not list:
        refuse("the spaces of a space are no list")
    return tuple(_read_one(part, budget) for part in value)


def _optional(spelling: _Spelling) -> _Spelling:
    """The same, or null for None."""
    return _Spelling(
        lambda value: None if value is None else spelling.write(value),
        lambda value, budget: None if value is None else spelling.read(value, budget),
    )


_WHOLE: Final = _Spelling(_same, _read_plain(int))
_TEXT: Final = _Spelling(_same, _read_plain(str))
_BOOL: Final = _Spelling(_same, _read_plain(bool))
_DTYPE: Final = _Spelling(_same, _read_dtype)
_SHAPE: Final = _Spelling(list, read_shape)
_ARRAY: Final = _Spelling(_write_array, _read_array)
_SPACE: Final = _Spelling(_write, _read_one)
_PARTS: Final = _Spelling(_write_parts, _read_parts)
_LIST: Final = _Spelling(_write_list, _read_list)

_SPACES: Final[dict[str, tuple[Any, dict[str, _Spelling]]]] = {
    "Box": (Box, {
        "shape": _SHAPE, "dtype": _DTYPE, "low": _ARRAY, "high": _ARRAY,
        "bounded_below": _optional(_ARRAY), "bounded_above": _optional(_ARRAY),
    }),
    "Discrete": (Discrete, {"n": _WHOLE, "start": _WHOLE, "dtype": _DTYPE}),
    "MultiDiscrete": (MultiDiscrete, {"nvec": _ARRAY, "start": _optional(_ARRAY), "dtype": _DTYPE}),
    "MultiBinary": (MultiBinary, {"shape": _SHAPE, "dtype": _DTYPE}),
    "Dict": (DictSpace, {"spaces": _PARTS, "sort_keys": _BOOL}),
    "Tuple": (TupleSpace, {"spaces": _LIST}),
    "OneOf": (OneOf, {"spaces": _LIST}),
    "Text": (Text, {"min_length": _WHOLE, "max_length": _WHOLE, "characters": _TEXT}),
    "Sequence": (Sequence, {"feature_space": _SPACE, "stack": _BOOL}),
    "Graph": (Graph, {"node_space": _SPACE, "edge_space": _optional(_SPACE)}),
}  # fmt: skip
"""Each space by its name, with its fields in order; before them stand ``type`` and ``library``."""
