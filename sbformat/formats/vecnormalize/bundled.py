"""Normalization statistics as plain data: the two entries that a bundle adds to an archive (STATISTICS.md 17.5, 17.6).

In: a ``VecNormalize``, or the entries of an archive. Out: the entries, or the value that they contain. Settings and
spaces are JSON, arrays are safetensors: a JSON parser and a safetensors reader are enough to read them, and nothing is
run. The fields of each kind of space come from its class in :mod:`sbformat.known.spaces`; one table has how each kind
of field is written and read. Random generators are left out.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from sbformat.constants import ARRAYS_ENTRY, DATA_ENTRY, SETTINGS_ENTRY
from sbformat.data import CONTAINER_BYTES, CONTAINER_COST, PAIR_BYTES, VALUE_BYTES, parse_object
from sbformat.errors import DataError, MissingEntryError, SbformatError, UnsupportedError, quote
from sbformat.formats.vecnormalize.values import EXACT, FLAGS, LIBRARIES, NUMBERS, RunningMeanStd, VecNormalize
from sbformat.known.numpy import unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.known.spaces import LIBRARIES as SPACE_LIBRARIES
from sbformat.known.spaces import SPACE_TYPES, Space
from sbformat.limits import Budget
from sbformat.pkl.numpy import ITEM_SIZES, ArrayInfo, checked_numel, item_size
from sbformat.pth.values import refuse, refuse_unsupported, segment
from sbformat.rendering import read_number, write_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from sbformat.archive.archive import Archive
    from sbformat.known.spaces import FieldKind
    from sbformat.limits import Limits

ENTRIES: Final = (SETTINGS_ENTRY, ARRAYS_ENTRY)
FORMAT_VERSION: Final = 1
_ONE: Final = "array"  # written for one array, or one set of statistics, instead of the list of keys of several
_STATISTICS: Final = ("obs_rms", "ret_rms")
_LAST: Final = ("old_obs", "old_reward")
_SPACES: Final = ("observation_space", "action_space")
_PARTS: Final = ("mean", "var", "count")
_FIELDS: Final = frozenset({
    "format_version", "library", "num_envs", *FLAGS, *NUMBERS, "norm_obs_keys", *_STATISTICS, *_LAST, *_SPACES,
})  # fmt: skip


def has_entries(archive: Archive) -> bool:
    """Return whether an archive is a bundle: it has at least one of the entries."""
    return any(name in archive.entries for name in ENTRIES)


def write_entries(value: VecNormalize, limits: Limits) -> dict[str, bytes]:
    """Return the entries of a bundle by name; equal values give equal bytes."""
    from safetensors.numpy import save

    settings = json.dumps(_write_settings(value, Budget(limits)), indent=4, allow_nan=False).encode()
    try:
        arrays = save(_write_arrays(value))
    except UnicodeEncodeError:
        raise UnsupportedError("a key of the observations is not valid UTF-8, which safetensors needs") from None
    try:
        is_exact = _read(settings, arrays, limits) == value
    except DataError:  # duplicate keys
        is_exact = False
    if not is_exact:
        refuse_unsupported("the entries of a bundle cannot express these statistics exactly")
    return {SETTINGS_ENTRY: settings, ARRAYS_ENTRY: arrays}


def read_entries(archive: Archive) -> VecNormalize:
    """Return the statistics of a bundle; every field and array is checked."""
    for name in ENTRIES:
        if name not in archive.entries:
            hint = ""
            if DATA_ENTRY in archive.entries and not has_entries(archive):
                hint = f"this is an agent of {archive.algorithm.name or 'an unknown algorithm'} without statistics"
            raise MissingEntryError(name, present=archive.entries, hint=hint)
    return _read(archive.extra[SETTINGS_ENTRY], archive.extra[ARRAYS_ENTRY], archive.limits)


def _read(settings: bytes, arrays: bytes, limits: Limits) -> VecNormalize:
    try:
        found = parse_object(memoryview(settings), Budget(limits))
        _check_settings(found)
        budget = Budget(limits)
        found |= {name: read_space(found[name], budget) for name in _SPACES}
        found |= {name: _read_float(found[name]) for name in NUMBERS}
    except SbformatError as error:
        raise error.within(SETTINGS_ENTRY) from None
    try:
        found |= _read_arrays(found, arrays, limits)
        del found["format_version"]
        return VecNormalize(**found)
    except SbformatError as error:
        raise error.within(ARRAYS_ENTRY) from None


def _refuse(message: str) -> NoReturn:
    raise DataError(message)


# -- settings -----------------------------------------------------------------------------------------


def _write_settings(value: VecNormalize, budget: Budget) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "library": value.library,
        "num_envs": value.num_envs,
        **{name: getattr(value, name) for name in FLAGS},
        **{name: write_number(getattr(value, name)) for name in NUMBERS},
        "norm_obs_keys": value.norm_obs_keys,
        **{name: _describe_kind(getattr(value, name)) for name in (*_STATISTICS, *_LAST)},
        **{name: write_space(getattr(value, name), budget) for name in _SPACES},
    }


def _describe_kind(value: object) -> str | list[str] | None:
    """Return None for no array, ``array`` for one, and the keys for several."""
    return list(value) if isinstance(value, dict) else None if value is None else _ONE


def _check_settings(found: dict[str, Any]) -> None:
    """Check the names and types of all fields, except those of spaces and numbers."""
    version = found.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        refuse_unsupported(f"expected a bundle of version {FORMAT_VERSION}, got a later one")
    if set(found) != _FIELDS:
        odd = min(set(found) ^ _FIELDS)
        _refuse(f"the field {quote(odd, 60)} is {'unknown' if odd in found else 'missing'}")
    rules = [
        ("format_version", type(version) is int and version == FORMAT_VERSION, str(FORMAT_VERSION)),
        ("library", found["library"] in LIBRARIES, " or ".join(LIBRARIES)),
        *((name, type(found[name]) is bool, "a bool") for name in FLAGS),
        ("num_envs", found["num_envs"] is None or type(found["num_envs"]) is int, "null or an integer"),
    ]
    for name in (*_STATISTICS, *_LAST):
        several = name in ("obs_rms", "old_obs") and _are_keys(found[name])
        rules.append((name, several or found[name] in (None, _ONE), f"null, '{_ONE}' or a list of keys"))
    keys = found["norm_obs_keys"]
    rules.append(("norm_obs_keys", keys is None or _are_keys(keys), "null or a list of keys"))
    for name, holds, expected in rules:
        if not holds:
            _refuse(f"expected {expected} as {name}")


def _are_keys(value: Any) -> bool:
    return type(value) is list and all(type(key) is str for key in value) and len(set(value)) == len(value)


# -- arrays -------------------------------------------------------------------------------------------


def _list_parts(value: VecNormalize) -> Iterator[tuple[str, str | None, Any]]:
    """Yield statistics and arrays with the name of their attribute and, for a Dict space, their key."""
    for base in (*_STATISTICS, *_LAST):
        found = getattr(value, base)
        if isinstance(found, dict):
            yield from ((base, key, part) for key, part in found.items())
        elif found is not None:
            yield base, None, found


def _write_arrays(value: VecNormalize) -> dict[str, Any]:
    import numpy as np

    made: dict[str, Any] = {}
    for base, key, part in _list_parts(value):
        name = base if key is None else f"{base}/{key}"
        if base in _STATISTICS:
            made |= {f"{name}.{item}": np.asarray(getattr(part, item), order="C") for item in _PARTS}
            continue
        made[name] = np.asarray(part, order="C")
        if made[name].dtype.kind not in "biuf":
            refuse_unsupported(f"expected {base} of a dtype that safetensors supports, got {made[name].dtype}")
    return made


def _read_arrays(found: dict[str, Any], arrays: bytes, limits: Limits) -> dict[str, Any]:
    from sbformat.arrayfiles.reader import read_safetensors

    held, metadata = read_safetensors(arrays, limits=limits, is_plain=True)
    if metadata:
        refuse("expected arrays without metadata in a bundle")
    made: dict[str, Any] = {}
    for base in (*_STATISTICS, *_LAST):
        kind = found[base]
        read = _take_statistics if base in _STATISTICS else _take_array
        if type(kind) is list:
            made[base] = {key: read(held, f"{base}/{key}") for key in kind}
        else:
            made[base] = None if kind is None else read(held, base)
    if held:
        refuse(f"the array {quote(next(iter(held)), 60)} does not belong to these settings")
    return made


def _take_array(held: dict[str, Any], name: str) -> Any:
    if name not in held:
        refuse(f"the array {quote(name, 60)} is missing")
    return held.pop(name)


def _take_statistics(held: dict[str, Any], name: str) -> RunningMeanStd:
    mean, var, count = (_take_array(held, f"{name}.{part}") for part in _PARTS)
    if any(array.dtype != "float64" for array in (mean, var, count)) or count.shape != ():
        refuse(f"the statistics {quote(name, 60)} are not float64, or their count is not one number")
    return RunningMeanStd(mean, var, count[()])


# -- arrays by name, as programs without sbformat read them ----------------------------------------------

_DTYPES: Final = {"num_envs": "int64", **dict.fromkeys(FLAGS, "bool"), **dict.fromkeys(NUMBERS, "float64")}


def make_settings(value: VecNormalize) -> dict[str, np.ndarray]:
    """Return the settings as arrays without dimensions: float64, bool, and ``num_envs`` as int64 if it is known."""
    import numpy as np

    made: dict[str, np.ndarray] = {}
    for name, dtype in _DTYPES.items():
        found = getattr(value, name)
        if found is not None:
            made[name] = np.array(found, dtype)
    return made


def make_arrays(value: VecNormalize) -> dict[str, np.ndarray]:
    """Return statistics, settings, and the last observation and reward if there are any.

    The names are those of the attributes: ``obs_rms/mean``, or ``obs_rms/KEY/mean`` for a Dict space, ``clip_obs``.
    """
    import numpy as np

    made: dict[str, Any] = {}
    for base, key, part in _list_parts(value):
        path = base if key is None else f"{base}/{segment(key)}"
        if base in _STATISTICS:
            made |= {f"{path}/{item}": np.asarray(getattr(part, item)) for item in _PARTS}
        else:
            made[path] = part
    return made | make_settings(value)


def make_number(value: float) -> np.ndarray | None:
    """Return a number as an array of float64, an integer that float64 cannot hold as None."""
    import numpy as np

    try:
        return np.array(float(value))
    except OverflowError:
        return None


def describe_settings(value: VecNormalize) -> dict[str, Any]:
    """Return the settings as JSON, with what is not a number: the library, and the keys that are normalized."""
    settings = {name: write_number(getattr(value, name)) for name in _DTYPES}
    keys = value.norm_obs_keys
    return {"library": value.library, **settings, "norm_obs_keys": None if keys is None else list(keys)}


# -- spaces -------------------------------------------------------------------------------------------

_CODES: Final = frozenset(code for code in ITEM_SIZES if code[0] != "c")
_Size: TypeAlias = "tuple[int, int]"
"""What JSON counts for ``json_nodes`` and ``memory_bytes``, without its text (FORMAT.md 8.1)."""


def write_space(space: Any, budget: Budget) -> Any:
    """Return the JSON of a space."""
    nodes, memory = _measure(space, {})  # before it is written: shared spaces may multiply
    budget.spend("json_nodes", nodes)
    budget.keep(0, meanwhile=memory)
    return _write_part(space)


def _measure(value: Any, known: dict[int, _Size]) -> _Size:
    """Return the size of the JSON of a space or a field.

    A space that is shared is written wherever it is used, and is measured once.
    """
    if isinstance(value, ArrayInfo):
        items = () if _is_uniform(value) else (_add_sizes(len(value.read()) // item_size(value.dtype)),)
        return _add_sizes(3, _add_sizes(len(value.shape)), *items, keys=3)
    if isinstance(value, dict):
        return _add_sizes(len(value), *(_add_sizes(2, _measure(part, known)) for part in value.values()))
    if type(value) is tuple:
        return _add_sizes(len(value), *(_measure(part, known) for part in value))
    if not isinstance(value, Space):
        return 0, 0
    if id(value) not in known:
        fields = [_measure(getattr(value, name), known) for name in value.plain_fields]
        known[id(value)] = _add_sizes(2 + len(fields), *fields, keys=2 + len(fields))
    return known[id(value)]


def _add_sizes(count: int, *parts: _Size, keys: int = 0) -> _Size:
    """Return the size of a list of so many values, or an object of so many keys, with those of its parts."""
    commas = max(count - 1, 0)
    nodes = CONTAINER_COST + commas + sum(part for part, _ in parts)
    return nodes, CONTAINER_BYTES + VALUE_BYTES * commas + PAIR_BYTES * keys + sum(part for _, part in parts)


def _write_part(value: Any) -> Any:
    """Return the JSON of a space or of a field."""
    if isinstance(value, Space):
        fields = {name: _write_part(getattr(value, name)) for name in value.plain_fields}
        return {"type": value.class_name, "library": value.library, **fields}
    if isinstance(value, ArrayInfo):
        return _write_array(value)
    if isinstance(value, dict):
        return [[key, _write_part(part)] for key, part in value.items()]
    return [_write_part(part) for part in value] if type(value) is tuple else value


def read_space(value: Any, budget: Budget) -> Any:
    """Return the space that :func:`write_space` wrote."""
    if value is None:
        return None
    if type(value) is not dict or type(value.get("type")) is not str or value["type"] not in SPACE_TYPES:
        _refuse(f"expected a space, of the type {', '.join(SPACE_TYPES)}")
    kind: Any = SPACE_TYPES[value["type"]]
    if set(value) != {"type", "library", *kind.plain_fields}:
        _refuse(f"expected the fields type, library, {', '.join(kind.plain_fields)} of a {kind.class_name} space")
    if value["library"] not in SPACE_LIBRARIES:
        _refuse("expected gym or gymnasium as the library of a space")
    fields = {name: _READERS[field](value[name], budget) for name, field in kind.plain_fields.items()}
    made = kind(library=value["library"], random=None, **fields)
    problem = made.find_problem()
    if problem:
        _refuse(problem)
    return made


def _read_inner_space(value: Any, budget: Budget) -> Any:
    if value is None:
        _refuse("expected a space within a space, got null")
    return read_space(value, budget)


def _read_list(value: Any, budget: Budget) -> tuple[Any, ...]:
    if type(value) is not list:
        _refuse("expected a list of spaces")
    return tuple(_read_inner_space(part, budget) for part in value)


def _read_pairs(value: Any, budget: Budget) -> dict[str, Any]:
    if type(value) is not list or any(type(pair) is not list or len(pair) != 2 for pair in value):
        _refuse("expected pairs of a name and a space as the spaces of a Dict")
    if any(type(key) is not str for key, _ in value) or len({key for key, _ in value}) != len(value):
        _refuse("expected unique text names for the spaces of a Dict")
    return {key: _read_inner_space(part, budget) for key, part in value}


def _read_dtype(value: Any, _: Budget) -> str:
    if value == "<U0" or (type(value) is str and value[:1] in ("<", "|", ">") and value[1:] in ITEM_SIZES):
        return str(value)
    _refuse("expected a dtype code of numpy in a space, such as <f4")


def _read_shape(value: Any, _: Budget) -> tuple[int, ...]:
    if type(value) is not list or len(value) > 64 or any(type(size) is not int or size < 0 for size in value):
        _refuse("expected a list of sizes as a shape")
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
    return {"dtype": info.dtype, "shape": list(info.shape), "items": items[0] if _is_uniform(info) else items}


def _read_array(value: Any, budget: Budget) -> ArrayInfo:
    if type(value) is not dict or set(value) != {"dtype", "shape", "items"}:
        _refuse("expected the fields dtype, shape and items of an array")
    dtype, shape, items = value["dtype"], _read_shape(value["shape"], budget), value["items"]
    order = "|" if type(dtype) is str and ITEM_SIZES.get(dtype[1:]) == 1 else "<"
    if type(dtype) is not str or dtype[:1] != order or dtype[1:] not in _CODES:
        _refuse("expected a little-endian dtype code of numpy for an array, such as <f4")
    try:
        numel = checked_numel(shape, ITEM_SIZES[dtype[1:]])
    except SbformatError as error:
        raise DataError(error.message) from None
    budget.spend("blobs_bytes", numel * ITEM_SIZES[dtype[1:]])
    if type(items) is not list:
        return ArrayInfo(dtype, shape, "C", _pack_items([items], dtype) * numel, is_scalar=False)
    if len(items) != numel:
        _refuse(f"expected {numel} items in an array of shape {shape}, got {len(items)}")
    return ArrayInfo(dtype, shape, "C", _pack_items(items, dtype), is_scalar=False)


def _pack_items(items: list[Any], dtype: str) -> bytes:
    """Return the bytes of numbers, each of which the dtype holds exactly."""
    import numpy as np

    kind = np.dtype(dtype).kind
    if kind == "f":
        numbers = np.array([_read_float(item) for item in items], "<f8")
        with np.errstate(all="ignore"):
            made = numbers.astype(dtype)
        if not np.array_equal(made.astype("<f8"), numbers, equal_nan=True):
            _refuse(f"a number does not fit into {dtype}")
        return made.tobytes()
    if any(type(item) is not (bool if kind == "b" else int) for item in items):
        _refuse(f"expected items of one type in an array of {dtype}")
    if kind != "b" and items and (min(items) < np.iinfo(dtype).min or max(items) > np.iinfo(dtype).max):
        _refuse(f"a number does not fit into {dtype}")
    return np.array(items, dtype).tobytes()


def _read_float(value: Any) -> float:
    """Return the float that :func:`~sbformat.rendering.write_number` wrote, or that an integer equals."""
    found = read_number(value)
    if type(value) is int and abs(value) <= EXACT:
        return float(value)
    if type(found) is not float or (type(value) is float and not math.isfinite(value)):
        _refuse("expected a number that a float holds exactly")
    return found


_Read: TypeAlias = "Callable[[Any, Budget], Any]"


def _plain(kind: type) -> _Read:
    def read(value: Any, _: Budget) -> Any:
        if type(value) is not kind:
            _refuse(f"expected a field of type {kind.__name__} in a space, got {type(value).__name__}")
        return value

    return read


def _optional(read: _Read) -> _Read:
    """Return the same, or null for None."""
    return lambda value, budget: None if value is None else read(value, budget)


_READERS: Final[dict[FieldKind, _Read]] = {
    "int": _plain(int),
    "text": _plain(str),
    "bool": _plain(bool),
    "dtype": _read_dtype,
    "shape": _read_shape,
    "array": _read_array,
    "optional array": _optional(_read_array),
    "flags": _optional(_read_array),
    "space": _read_inner_space,
    "optional space": read_space,
    "spaces": _read_list,
    "named spaces": _read_pairs,
}
"""How each kind of field is read; :func:`_write_part` writes all of them."""
