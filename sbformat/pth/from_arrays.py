"""From numpy arrays to tensors as geometry: the mirror of ``arrays`` (WRITER.md 12.3).

Arrays are referred to, not copied: their bytes are read when they are written. Arrays that overlap in memory without
gaps become tensors over one storage.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import UnsupportedError, quote
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Node
from sbformat.pth.addresses import segment
from sbformat.pth.array_storages import describe, torch_dtype
from sbformat.pth.dtypes import QUANTIZED
from sbformat.pth.values import (
    Decoded,
    Device,
    DTypeName,
    Layout,
    MemoryFormat,
    MetaTensor,
    QuantizedTensor,
    Size,
    SparseTensor,
    Storage,
    TensorInfo,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_QUANTIZED: Final = {"int8": "qint8", "uint8": "quint8", "int32": "qint32"}
_KEPT: Final = (TensorInfo, Storage, MetaTensor, Size, Device, DTypeName, Layout, MemoryFormat, ArrayInfo, Node)
_PLAIN: Final[tuple[Any, ...]] = (bool, int, float, complex, str, bytes, bytearray, set, frozenset)
_KEYS: Final[tuple[Any, ...]] = (type(None), bool, int, float, str, bytes)
_KEY_PARTS: Final = 8
_PARTS: Final = frozenset({"indices", "values", "int_repr", "scale", "zero_point"})
_MADE: Final = frozenset({dict, OrderedDict, list, tuple, QuantizedTensor, SparseTensor})
_DEEPEST: Final = 200


def state_dict_of(value: object, tensors: Collection[str] = ()) -> Any:
    """Return the tree of a state dict whose tensors are numpy arrays.

    :param value: what :meth:`StateDict.to_numpy` gives: mappings, lists and tuples of arrays and plain values. What has
        ``__array__`` counts as an array, a numpy scalar as the number it is.
    :param tensors: paths where a numpy scalar is an array, too: arithmetic makes one of an array without dimensions
    :raises UnsupportedError: for a value or dtype that a ``.pth`` cannot contain
    """
    walk = _Walk(tensors)
    plain, _ = walk.plain(value, "")
    walk.describe()
    return walk.filled(plain)


def as_array(value: Any, path: str) -> np.ndarray:
    """Return a value as an array; a torch tensor without its gradient.

    :raises UnsupportedError: when it cannot be converted, with its path
    """
    if np.ma.is_masked(value):
        message = f"{quote(path)} is a masked array, and a .pth cannot contain masks"
        raise UnsupportedError(message)
    try:
        return np.asarray(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError) as error:
        message = f"{quote(path)} cannot be converted to an array: {str(error)[:200]}"
        raise UnsupportedError(message) from None


def _require_dtype(name: str, array: np.ndarray | np.generic) -> None:
    try:
        torch_dtype(array.dtype)
    except UnsupportedError as error:
        message = f"{quote(name)}: {error.message}"
        raise UnsupportedError(message) from None


class _Walk:
    """Convert one tree: copy it into plain containers, describe its arrays together, and put the tensors in.

    The parts of a value are read once: a mapping may create them at each access, as an ``NpzFile`` does.
    """

    def __init__(self, tensors: Collection[str]) -> None:
        self._tensors = tensors
        self._done: dict[int, tuple[Any, int, object]] = {}
        """By identity: what was made of a value, its levels of containers, and the value, so that no other gets its
        ``id()``."""
        self._arrays: dict[int, np.ndarray] = {}
        self._infos: dict[int, TensorInfo] = {}
        self._filled: dict[int, Any] = {}

    # -- the given values -----------------------------------------------------------------------------

    def plain(self, value: Any, path: str, depth: int = 0) -> tuple[Any, int]:
        """Return plain containers of arrays and values, and the number of nested levels.

        :raises UnsupportedError: for a value that a ``.pth`` cannot contain, with its path
        """
        done = self._done.get(id(value))
        if depth + (done[1] if done else 0) > _DEEPEST:
            message = f"nested more than {_DEEPEST} levels deep, or contains itself: {quote(path)}"
            raise UnsupportedError(message)
        if done is None:
            made, levels = self._made(value, path, depth)
            done = self._done[id(value)] = made, levels, value
        return done[:2]

    def _made(self, value: Any, path: str, depth: int) -> tuple[Any, int]:
        if isinstance(value, Decoded):
            self._filled[id(value.tree)] = value.tree
            return value.tree, 0
        if value is None or isinstance(value, _KEPT):
            self._filled[id(value)] = value
            return value, 0
        if _is_array(value) or (isinstance(value, np.generic) and path in self._tensors):
            return self._array(value, path), 0
        if isinstance(value, np.generic):
            return _number(value, path), 0
        if isinstance(value, Mapping):
            return self._mapping(value, path, depth)
        if isinstance(value, (QuantizedTensor, SparseTensor)):
            parts = value._asdict()
            for name in _PARTS & set(parts):
                parts[name], _ = self.plain(parts[name], path, depth)
            return type(value)(**parts), 0
        if isinstance(value, (list, tuple)):
            return self._sequence(value, path, depth)
        return _leaf(value, path), 0

    def _array(self, value: Any, path: str) -> np.ndarray:
        array = as_array(value, path)
        _require_dtype(path, array)
        self._arrays[id(array)] = array
        return array

    def _mapping(self, value: Mapping[Any, Any], path: str, depth: int) -> tuple[dict[Any, Any], int]:
        made: dict[Any, Any] = OrderedDict() if isinstance(value, OrderedDict) else {}
        prefix = f"{path}/" if path else ""
        levels = 0
        for key, part in value.items():
            name = _plain_key(key, path)
            made[name], below = self.plain(part, prefix + segment(name), depth + 1)
            levels = max(levels, below)
        metadata = getattr(value, "_metadata", None)
        if metadata is not None and isinstance(made, OrderedDict):
            made._metadata, below = self.plain(metadata, f"{prefix}_metadata", depth + 1)  # type: ignore[attr-defined]  # noqa: SLF001 -- torch's own name
            levels = max(levels, below)
        return made, levels + 1

    def _sequence(self, value: Sequence[Any], path: str, depth: int) -> tuple[Sequence[Any], int]:
        made = []
        prefix = f"{path}/" if path else ""
        levels = 0
        for index, part in enumerate(value):
            item, below = self.plain(part, f"{prefix}[{index}]", depth + 1)
            made.append(item)
            levels = max(levels, below)
        return made if isinstance(value, list) else tuple(made), levels + 1

    # -- and with tensors -----------------------------------------------------------------------------

    def describe(self) -> None:
        """Describe all arrays; arrays that overlap share one storage."""
        self._infos = dict(zip(self._arrays, describe(list(self._arrays.values()))))

    def filled(self, value: Any) -> Any:
        """Return the result of :meth:`plain` with tensors instead of arrays; shared parts stay shared."""
        kind = type(value)
        if kind is np.ndarray:
            return self._infos[id(value)]
        if id(value) in self._filled or kind not in _MADE:
            return self._filled.get(id(value), value)
        made: Any
        if kind is dict or kind is OrderedDict:
            made = kind()
            for key, part in value.items():
                made[key] = self.filled(part)
            if hasattr(value, "_metadata"):
                made._metadata = self.filled(value._metadata)  # noqa: SLF001 -- torch's own name
        elif kind is list or kind is tuple:
            made = kind(map(self.filled, value))
        else:
            made = kind(*map(self.filled, value))
            if kind is QuantizedTensor:
                made = made._replace(int_repr=_as_quantized(made.int_repr))
        self._filled[id(value)] = made
        return made


def _is_array(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return True
    return not isinstance(value, (np.generic, *_PLAIN, Mapping)) and hasattr(value, "__array__")


def _number(value: np.generic, path: str) -> object:
    """Return a numpy scalar as the equal Python value; dates and times would become plain numbers."""
    if value.dtype.kind not in "US":
        _require_dtype(path, value)
    return value.item()


def _leaf(value: Any, path: str) -> object:
    for kind in _PLAIN:
        if isinstance(value, kind):
            return kind(_plain_key(item, path) for item in value) if kind in (set, frozenset) else kind(value)
    message = f"{quote(path)} is a {type(value).__name__}, which a .pth cannot contain"
    raise UnsupportedError(message)


def _plain_key(key: Any, path: str) -> Any:
    """Check a key or a member of a set, which a reader hashes (FORMAT.md 6.6)."""
    if type(key) is tuple and len(key) <= _KEY_PARTS:
        return tuple(_plain_part(part, path) for part in key)
    return _plain_part(key, path)


def _plain_part(key: Any, path: str) -> Any:
    if isinstance(key, np.generic):
        key = _number(key, path)
    for kind in _KEYS:
        if isinstance(key, kind):
            return kind(key) if key is not None else None
    message = f"{quote(path)} has a key or member of type {type(key).__name__}, which a .pth cannot contain"
    raise UnsupportedError(message)


def _as_quantized(info: Any) -> Any:
    """Return the same integers in a storage of torch's quantized dtype."""
    if info.dtype not in _QUANTIZED:
        if info.dtype not in QUANTIZED:
            message = f"expected int8, uint8 or int32 as the integers of a quantized tensor, got {info.dtype}"
            raise UnsupportedError(message)
        return info
    old = info.storage
    name = _QUANTIZED[info.dtype]
    storage = Storage("", name, old.numel, "cpu", old.byte_order, lambda _: old.bytes(), "")
    return info._replace(dtype=name, storage=storage)
