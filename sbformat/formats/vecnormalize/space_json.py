"""Spaces as plain JSON and back, for the settings of a bundle (STATISTICS.md 17.6).

The fields of each kind of space come from its class in :mod:`sbformat.known.spaces`; one table has how each kind
of field is written and read. Random generators are left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from sbformat.data import CONTAINER_BYTES, CONTAINER_COST, PAIR_BYTES, VALUE_BYTES
from sbformat.errors import DataError, SbformatError, UnsupportedError
from sbformat.immutable import Record
from sbformat.known.numpy import unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.known.spaces import LIBRARIES, SPACE_TYPES, Space
from sbformat.pkl.numpy import ITEM_SIZES, ArrayInfo, checked_numel, item_size
from sbformat.rendering import write_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.known.spaces import FieldKind
    from sbformat.limits import Budget

_TEXT_DTYPE: Final = "<U0"
_WORDS: Final = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
"""Numbers that JSON cannot express."""
_CODES: Final = frozenset(code for code in ITEM_SIZES if code[0] != "c")
_RANK: Final = 64
_EXACT: Final = 2**53


class _Field(Record):
    """How a kind of field is written as JSON, and read within a budget."""

    write: Callable[[Any], Any]
    read: Callable[[Any, Budget], Any]


def refuse(message: str) -> NoReturn:
    """Raise a :class:`~sbformat.DataError`."""
    raise DataError(message)


def write_space(space: Any, budget: Budget) -> Any:
    """Return the JSON of a space.

    :raises UnsupportedError: for an array of anything but plain numbers
    :raises LimitError: when it is larger than a reader accepts
    """
    nodes, memory = _measure(space, {})
    budget.spend("json_nodes", nodes)
    budget.keep(0, meanwhile=memory)
    return _write(space)


_Size: TypeAlias = "tuple[int, int]"
"""What JSON counts for ``json_nodes`` and ``memory_bytes``, without its text (FORMAT.md 8.1)."""


def _measure(value: Any, known: dict[int, _Size]) -> _Size:
    """Return the size of the JSON of a space or a field.

    A space that is shared is written wherever it is used, and is measured once.
    """
    if isinstance(value, ArrayInfo):
        items = (0, 0) if _is_uniform(value) else _measure_list(len(value.read()) // item_size(value.dtype))
        return _add(_measure_object(3), _measure_list(len(value.shape)), items)
    if isinstance(value, dict):
        pairs = (_add(_measure_list(2), _measure(part, known)) for part in value.values())
        return _add(_measure_list(len(value)), *pairs)
    if type(value) is tuple:
        return _add(_measure_list(len(value)), *(_measure(part, known) for part in value))
    if not isinstance(value, Space):
        return 0, 0
    if id(value) not in known:
        fields = [_measure(getattr(value, name), known) for name in value.plain_fields]
        known[id(value)] = _add(_measure_object(2 + len(fields)), *fields)
    return known[id(value)]


def _measure_list(count: int) -> _Size:
    commas = max(count - 1, 0)
    return CONTAINER_COST + commas, CONTAINER_BYTES + VALUE_BYTES * commas


def _measure_object(count: int) -> _Size:
    return _add(_measure_list(count), (0, PAIR_BYTES * count))


def _add(*sizes: _Size) -> _Size:
    return sum(nodes for nodes, _ in sizes), sum(memory for _, memory in sizes)


def _write(space: Any) -> Any:
    if space is None:
        return None
    made = {"type": space.class_name, "library": space.library}
    for name, kind in space.plain_fields.items():
        made[name] = _FIELDS[kind].write(getattr(space, name))
    return made


def read_space(value: Any, budget: Budget) -> Any:
    """Return the space that :func:`write_space` wrote.

    :raises DataError: when a field is missing, unknown or of another type
    :raises LimitError: when it exceeds a limit
    """
    if value is None:
        return None
    if type(value) is not dict or type(value.get("type")) is not str or value["type"] not in SPACE_TYPES:
        refuse(f"expected a space, of the type {', '.join(SPACE_TYPES)}")
    kind: Any = SPACE_TYPES[value["type"]]
    if set(value) != {"type", "library", *kind.plain_fields}:
        refuse(f"expected the fields type, library, {', '.join(kind.plain_fields)} of a {kind.class_name} space")
    if value["library"] not in LIBRARIES:
        refuse("expected gym or gymnasium as the library of a space")
    fields = {name: _FIELDS[field].read(value[name], budget) for name, field in kind.plain_fields.items()}
    made = kind(library=value["library"], random=None, **fields)
    problem = made.find_problem()
    if problem:
        refuse(problem)
    return made


# -- fields -------------------------------------------------------------------------------------------


def _keep(value: Any) -> Any:
    return value


def _plain_reader(kind: type) -> Callable[[Any, Budget], Any]:
    def read(value: Any, _: Budget) -> Any:
        if type(value) is not kind:
            refuse(f"expected a field of type {kind.__name__} in a space, got {type(value).__name__}")
        return value

    return read


def _read_dtype(value: Any, _: Budget) -> str:
    if value == _TEXT_DTYPE or (type(value) is str and value[:1] in ("<", "|", ">") and value[1:] in ITEM_SIZES):
        return str(value)
    refuse("expected a dtype code of numpy in a space, such as <f4")


def read_shape(value: Any, _: Budget | None = None) -> tuple[int, ...]:
    """Return a shape from a list of sizes."""
    if type(value) is not list or len(value) > _RANK or any(type(size) is not int or size < 0 for size in value):
        refuse("expected a list of sizes as a shape")
    return tuple(value)


def _is_uniform(info: ArrayInfo) -> bool:
    """Return whether an array is written as a single item: it has several, whose bytes are the same."""
    buffer, size = info.read(), item_size(info.dtype)
    return len(buffer) > size and buffer[:size] * (len(buffer) // size) == buffer


def _write_array(info: ArrayInfo) -> dict[str, Any]:
    try:
        items = [write_number(item) for item in unpack_items(info)]
    except UnrecognizedError as error:
        raise UnsupportedError(str(error)) from None
    if _is_uniform(info):
        items = items[0]
    return {"dtype": info.dtype, "shape": list(info.shape), "items": items}


def _read_array(value: Any, budget: Budget) -> ArrayInfo:
    if type(value) is not dict or set(value) != {"dtype", "shape", "items"}:
        refuse("expected the fields dtype, shape and items of an array")
    dtype, shape, items = value["dtype"], read_shape(value["shape"]), value["items"]
    order = "|" if type(dtype) is str and ITEM_SIZES.get(dtype[1:]) == 1 else "<"
    if type(dtype) is not str or dtype[:1] != order or dtype[1:] not in _CODES:
        refuse("expected a little-endian dtype code of numpy for an array, such as <f4")
    try:
        numel = checked_numel(shape, ITEM_SIZES[dtype[1:]])
    except SbformatError as error:
        raise DataError(error.message) from None
    budget.spend("blobs_bytes", numel * ITEM_SIZES[dtype[1:]])
    if type(items) is list:
        if len(items) != numel:
            refuse(f"expected {numel} items in an array of shape {shape}, got {len(items)}")
        buffer = _pack_items(items, dtype)
    else:
        buffer = _pack_items([items], dtype) * numel
    return ArrayInfo(dtype, shape, "C", buffer, is_scalar=False)


def _pack_items(items: list[Any], dtype: str) -> bytes:
    """Return the bytes of numbers, each of which the dtype holds exactly."""
    import numpy as np

    kind = np.dtype(dtype).kind
    if kind == "f":
        numbers = np.array([read_number(item) for item in items], "<f8")
        with np.errstate(all="ignore"):
            made = numbers.astype(dtype)
        if not np.array_equal(made.astype("<f8"), numbers, equal_nan=True):
            refuse(f"a number does not fit into {dtype}")
        return made.tobytes()
    if any(type(item) is not (bool if kind == "b" else int) for item in items):
        refuse(f"expected items of one type in an array of {dtype}")
    if kind != "b" and items and (min(items) < np.iinfo(dtype).min or max(items) > np.iinfo(dtype).max):
        refuse(f"a number does not fit into {dtype}")
    return np.array(items, dtype).tobytes()


def read_number(value: Any) -> float:
    """Return the float that :func:`write_number` wrote, or that an integer equals."""
    if type(value) is str and value in _WORDS:
        return _WORDS[value]
    if type(value) is int and abs(value) <= _EXACT:
        value = float(value)
    if type(value) is not float or not math.isfinite(value):
        refuse("expected a number that a float holds exactly")
    return value


def _write_pairs(value: Mapping[str, Any]) -> list[Any]:
    return [[key, _write(part)] for key, part in value.items()]


def _read_pairs(value: Any, budget: Budget) -> dict[str, Any]:
    if type(value) is not list or any(type(pair) is not list or len(pair) != 2 for pair in value):
        refuse("expected pairs of a name and a space as the spaces of a Dict")
    if any(type(key) is not str for key, _ in value) or len({key for key, _ in value}) != len(value):
        refuse("expected unique text names for the spaces of a Dict")
    return {key: _read_one(part, budget) for key, part in value}


def _read_one(value: Any, budget: Budget) -> Any:
    if value is None:
        refuse("expected a space within a space, got null")
    return read_space(value, budget)


def _write_list(value: tuple[Any, ...]) -> list[Any]:
    return [_write(part) for part in value]


def _read_list(value: Any, budget: Budget) -> tuple[Any, ...]:
    if type(value) is not list:
        refuse("expected a list of spaces")
    return tuple(_read_one(part, budget) for part in value)


def _optional(field: _Field) -> _Field:
    """The same, or null for None."""
    return _Field(
        lambda value: None if value is None else field.write(value),
        lambda value, budget: None if value is None else field.read(value, budget),
    )


_FIELDS: Final[dict[FieldKind, _Field]] = {
    "int": _Field(_keep, _plain_reader(int)),
    "text": _Field(_keep, _plain_reader(str)),
    "bool": _Field(_keep, _plain_reader(bool)),
    "dtype": _Field(_keep, _read_dtype),
    "shape": _Field(list, read_shape),
    "array": _Field(_write_array, _read_array),
    "optional array": _optional(_Field(_write_array, _read_array)),
    "flags": _optional(_Field(_write_array, _read_array)),
    "space": _Field(_write, _read_one),
    "optional space": _optional(_Field(_write, _read_one)),
    "spaces": _Field(_write_list, _read_list),
    "named spaces": _Field(_write_pairs, _read_pairs),
}
"""How each kind of field is written and read."""
