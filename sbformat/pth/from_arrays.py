"""From numpy arrays to tensors as geometry: the mirror of ``arrays`` (FORMAT.md 12.3).

Arrays are referred to, not copied: their bytes are read when they are written. Arrays that overlap in memory become
tensors over one storage.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import UnsupportedError, quote
from sbformat.numpy_pickles import ArrayInfo
from sbformat.pkl.tree import Node
from sbformat.pth.dtypes import DTYPES
from sbformat.names import STORAGE_CLASSES
from sbformat.pth.state_dict import StateDict, segment
from sbformat.pth.values import (
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
    from collections.abc import Iterator, Sequence

    from sbformat.pth.values import Chunk

_CODES: Final = {np.dtype(row.numpy).str[1:]: row.name for row in reversed(DTYPES.values()) if "." not in row.numpy} | {
    "c8": "complex64", "i1": "int8", "u1": "uint8", "i4": "int32",
}  # fmt: skip
"""torch's dtype by numpy's code: where two share one, the one that is no half, no quantized dtype."""
_QUANTIZED: Final = {"int8": "qint8", "uint8": "quint8", "int32": "qint32"}
_KEPT: Final = (TensorInfo, Storage, MetaTensor, Size, Device, DTypeName, Layout, MemoryFormat, ArrayInfo, Node)
_PLAIN: Final[tuple[Any, ...]] = (bool, int, float, complex, str, bytes, bytearray, set, frozenset)
_DEEPEST: Final = 200
_PIECE: Final = 1 << 18


def torch_dtype(dtype: np.dtype[Any]) -> str:
    """Return torch's name of a numpy dtype.

    :raises UnsupportedError: when torch has none
    """
    name = dtype.name if dtype.name in DTYPES else _CODES.get(dtype.str[1:])
    if name is None or dtype.hasobject or dtype.names:
        message = f"torch has no dtype for numpy's {dtype}"
        raise UnsupportedError(message)
    return name


class _ScatteredStorage(Storage):
    """The items of an array that are not one run of memory: put in a row piece by piece, and never held."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray, dtype: str) -> None:
        self._array = array
        super().__init__("", dtype, _numel(array, dtype), "cpu", "little", self._whole, "")

    def _whole(self, _: str) -> memoryview:
        return memoryview(b"".join(self.chunks()))

    def bytes(self) -> memoryview:
        """Return its bytes, made anew."""
        return self._whole("")

    def chunks(self, swap: int = 1) -> Iterator[Chunk]:  # noqa: ARG002 -- it is little-endian already
        """Yield its items in C order."""
        flags = ["external_loop", "buffered", "zerosize_ok"]
        dtype = self._array.dtype.newbyteorder("<") if self._array.dtype.kind != "V" else self._array.dtype
        for piece in np.nditer(self._array, flags, order="C", op_dtypes=[dtype], casting="equiv", buffersize=_PIECE):  # type: ignore[call-overload]
            yield np.ascontiguousarray(piece).view(np.uint8).tobytes()


def _numel(array: np.ndarray, dtype: str) -> int:
    return array.size if dtype in STORAGE_CLASSES else array.nbytes


def state_dict_of(value: object) -> Any:  # noqa: ANN401 -- a tree
    """Return the tree of a state dict whose tensors are numpy arrays.

    :param value: what :meth:`StateDict.to_numpy` gives: mappings, lists and tuples of arrays and plain values. What has
        ``__array__`` counts as an array, a numpy scalar as the number it is.
    :raises UnsupportedError: for a value or dtype that a ``.pth`` cannot hold
    """
    walk = _Walk()
    walk.collect(value, "", 0)
    walk.describe()
    return walk.convert(value)


def tensors_of(arrays: Mapping[str, np.ndarray]) -> dict[str, TensorInfo]:
    """Describe arrays by name.

    :raises UnsupportedError: for a dtype that torch does not have
    """
    for name, array in arrays.items():
        _require_dtype(name, array)
    return dict(zip(arrays, describe(list(arrays.values()))))


def _require_dtype(name: str, array: np.ndarray) -> None:
    try:
        torch_dtype(array.dtype)
    except UnsupportedError as error:
        message = f"{quote(name)}: {error.message}"
        raise UnsupportedError(message) from None


class _Walk:
    """One tree: first its arrays are found, then described together, then put where they stood."""

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[object, np.ndarray]] = {}
        """By the identity of what gave it, which is held, too."""
        self._infos: dict[int, TensorInfo] = {}
        self._done: dict[int, object] = {}

    def collect(self, value: Any, path: str, depth: int) -> None:  # noqa: ANN401
        """Find the arrays, and refuse what a ``.pth`` cannot hold by its path."""
        if depth > _DEEPEST:
            message = f"nested more than {_DEEPEST} deep, or holds itself: {quote(path)}"
            raise UnsupportedError(message)
        if id(value) in self._arrays:
            return
        if _is_array(value):
            array = np.asarray(value)
            _require_dtype(path, array)
            self._arrays[id(value)] = value, array
            return
        for key, part in _parts(value, path):
            self.collect(part, f"{path}/{key}" if path else key, depth + 1)

    def describe(self) -> None:
        """Describe all arrays: those that overlap, over one storage."""
        described = describe([array for _, array in self._arrays.values()])
        self._infos = dict(zip(self._arrays, described))

    def convert(self, value: Any) -> Any:  # noqa: ANN401
        """Return the value with tensors for arrays; what is shared stays shared."""
        info = self._infos.get(id(value))
        if info is not None:
            return info
        if id(value) in self._done:
            return self._done[id(value)]
        made = self._converted(value)
        if isinstance(value, (Mapping, list, tuple)):
            self._done[id(value)] = made
        return made

    def _converted(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, StateDict):
            return value.tree
        if value is None or isinstance(value, _KEPT):
            return value
        if isinstance(value, QuantizedTensor):
            info = _as_quantized(self.convert(value.int_repr))
            return value._replace(
                int_repr=info, scale=self._number(value.scale), zero_point=self._number(value.zero_point)
            )
        if isinstance(value, SparseTensor):
            return value._replace(indices=tuple(map(self.convert, value.indices)), values=self.convert(value.values))
        if isinstance(value, np.generic):
            return self._number(value)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, (list, tuple)):
            return (list if isinstance(value, list) else tuple)(map(self.convert, value))
        return next(kind(value) for kind in _PLAIN if isinstance(value, kind))

    def _mapping(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        made: dict[Any, Any] = OrderedDict() if isinstance(value, OrderedDict) else {}
        made.update((_plain_key(key), self.convert(part)) for key, part in value.items())
        metadata = getattr(value, "_metadata", None)
        if metadata is not None and isinstance(made, OrderedDict):
            made._metadata = self.convert(metadata)  # type: ignore[attr-defined]  # noqa: SLF001 -- torch's own name
        return made

    def _number(self, value: Any) -> Any:  # noqa: ANN401
        return value.item() if isinstance(value, np.generic) else self.convert(value)


def _is_array(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return True
    return not isinstance(value, (np.generic, *_PLAIN, Mapping)) and hasattr(value, "__array__")


def _plain_key(key: Any) -> Any:  # noqa: ANN401
    if isinstance(key, np.generic):
        key = key.item()
    if key is None or isinstance(key, tuple):
        return key
    return next((kind(key) for kind in _PLAIN[:6] if isinstance(key, kind)), key)


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """The parts of a container; an error for what is neither container nor value."""
    if value is None or isinstance(value, (*_KEPT, *_PLAIN, np.generic, StateDict)):
        return
    if isinstance(value, (QuantizedTensor, SparseTensor)):
        for part in value:
            if _is_array(part) or type(part) is tuple:
                yield "", part
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield segment(_plain_key(key)), part
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield f"[{index}]", part
    else:
        message = f"{quote(path)} is a {type(value).__name__}, which a .pth cannot hold"
        raise UnsupportedError(message)


def _as_quantized(info: Any) -> Any:  # noqa: ANN401 -- a TensorInfo
    """The same integers in a storage of torch's quantized dtype."""
    if info.dtype not in _QUANTIZED:
        return info
    old = info.storage
    name = _QUANTIZED[info.dtype]
    storage = Storage("", name, old.numel, "cpu", old.byte_order, lambda _: old.bytes(), "")
    return info._replace(dtype=name, storage=storage)


# -- arrays over storages -----------------------------------------------------------------------------


def describe(arrays: Sequence[np.ndarray]) -> list[TensorInfo]:
    """Describe arrays as tensors: zero-copy where their items are one run of memory, or overlap with others'.

    Two that overlap share a storage when they have one dtype, and when that holds no more bytes than they do.

    :param arrays: of dtypes that torch has
    :return: one tensor an array, in order
    """
    found: dict[int, TensorInfo] = {}
    runs: dict[tuple[Any, ...], list[tuple[int, int, int]]] = {}
    for index, array in enumerate(arrays):
        bounds = _bounds(array)
        if bounds is None:
            found[index] = _scattered(array)
        else:
            low, high = bounds
            runs.setdefault((array.dtype.str, array.dtype.name, low % array.itemsize), []).append((low, high, index))
    for spans in runs.values():
        for group in _overlapping(sorted(spans)):
            found.update(_described_together([(index, arrays[index]) for _, _, index in group], group))
    return [found[index] for index in range(len(arrays))]


def _bounds(array: np.ndarray) -> tuple[int, int] | None:
    """First and last address of its items; None when torch has no strides for them, or it has none."""
    if not array.size:
        return None
    if any(step < 0 or step % array.itemsize for size, step in zip(array.shape, array.strides) if size > 1):
        return None
    low = array.__array_interface__["data"][0] if array.dtype.kind != "V" else array.ctypes.data
    extent = sum((size - 1) * step for size, step in zip(array.shape, array.strides))
    return low, low + extent + array.itemsize


def _overlapping(spans: list[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    group: list[tuple[int, int, int]] = []
    end = 0
    for span in spans:
        if group and span[0] >= end:
            yield group
            group = []
        group.append(span)
        end = max(end, span[1]) if len(group) > 1 else span[1]
    if group:
        yield group


def _described_together(
    members: list[tuple[int, np.ndarray]], spans: list[tuple[int, int, int]]
) -> dict[int, TensorInfo]:
    low, high = spans[0][0], max(span[1] for span in spans)
    distinct = {_place(array): array for _, array in members}
    if high - low > sum(_distinct_bytes(array) for array in distinct.values()):
        return {index: _scattered(array) for index, array in members}
    first = members[0][1]
    storage = _run(first, (high - low) // first.itemsize)
    return {
        index: _tensor(array, storage, (span[0] - low) // array.itemsize)
        for (index, array), span in zip(members, spans)
    }


def _place(array: np.ndarray) -> tuple[Any, ...]:
    return array.ctypes.data, array.shape, array.strides


def _distinct_bytes(array: np.ndarray) -> int:
    """Bytes of its items, those that are expanded once."""
    product = array.itemsize
    for size, step in zip(array.shape, array.strides):
        product *= size if step else 1
    return product


def _run(first: np.ndarray, numel: int) -> Storage:
    """Return a storage over the memory that begins with an array's first item."""
    flat = np.lib.stride_tricks.as_strided(first, (numel,), (first.itemsize,), writeable=False)
    raw = memoryview(flat.view(np.uint8).data)
    name = torch_dtype(first.dtype)
    is_native = first.dtype.isnative
    order = sys.byteorder if is_native else {"little": "big", "big": "little"}[sys.byteorder]
    typed = name in STORAGE_CLASSES
    return Storage("", name if typed else "", numel if typed else len(raw), "cpu", order, lambda _: raw, "")


def _tensor(array: np.ndarray, storage: Storage, offset: int) -> TensorInfo:
    strides = _contiguous(array.shape)
    if not array.flags.c_contiguous:
        strides = tuple(
            step // array.itemsize if size > 1 else plain
            for size, step, plain in zip(array.shape, array.strides, strides)
        )
    return TensorInfo(torch_dtype(array.dtype), array.shape, strides, offset, storage)


def _scattered(array: np.ndarray) -> TensorInfo:
    name = torch_dtype(array.dtype)
    storage = _ScatteredStorage(array, name if name in STORAGE_CLASSES else "")
    return TensorInfo(name, array.shape, _contiguous(array.shape), 0, storage)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """C-order strides in items, as torch has them: a size of 0 counts as 1."""
    steps = []
    step = 1
    for size in reversed(shape):
        steps.append(step)
        step *= size or 1
    return tuple(reversed(steps))
