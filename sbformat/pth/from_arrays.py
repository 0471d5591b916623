"""From numpy arrays to tensors as geometry, the mirror of ``arrays`` (WRITER.md 12.3); and into an existing state dict.

Arrays are referred to, not copied: their bytes are read when they are written. Arrays that overlap in memory without
gaps become tensors over one storage. A template is a state dict whose names, shapes and dtypes new weights must have;
names that share memory there share it in the result.
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from sbformat.errors import UnsupportedError, quote
from sbformat.immutable import Record
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import STORAGE_CLASSES, Node
from sbformat.pth.arrays import c_order, numpy_dtype
from sbformat.pth.compare import Mismatch, check_names, misfit, optimizer_misfits
from sbformat.pth.values import (
    DTYPES,
    QUANTIZED,
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
    check_bools,
    contiguous,
    cut,
    refuse_unsupported,
    segment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from sbformat.pth.values import Chunk


_CODES: Final = {np.dtype(row.numpy).str[1:]: row.name for row in reversed(DTYPES.values()) if row.is_in_numpy} | {
    "c8": "complex64", "i1": "int8", "u1": "uint8", "i4": "int32",
}  # fmt: skip
"""torch's dtypes by numpy's code, without complex32 and the quantized dtypes, whose codes belong to other dtypes."""
_BOOLS: Final = "a bool array"


def torch_dtype(dtype: np.dtype[Any], path: str | None = None) -> str:
    """Return torch's name of a numpy dtype; the path of its array is for the message."""
    name = dtype.name if dtype.name in DTYPES else _CODES.get(dtype.str[1:])
    if name is None or dtype.hasobject or dtype.names:
        place = "" if path is None else f"{quote(path)}: "
        refuse_unsupported(f"{place}torch has no dtype for numpy's {dtype}")
    return name


class _BoolStorage(Storage):
    """Memory of bools."""

    __slots__ = ()

    def _pieces(self, start: int, stop: int) -> Iterator[Chunk]:
        return (check_bools(piece, _BOOLS) for piece in super()._pieces(start, stop))


class _ScatteredStorage(Storage):
    """The items of an array that is not contiguous, in C order: copied in chunks, and never kept in memory."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray, dtype: str) -> None:
        self._array = array
        super().__init__(
            "", dtype, array.size if dtype else array.nbytes, "cpu", "little", lambda _: memoryview(b""), ""
        )

    def bytes(self) -> memoryview:
        """Return its bytes as a copy."""
        return memoryview(b"".join(self.chunks()))

    def _pieces(self, start: int, stop: int) -> Iterator[Chunk]:
        for piece in cut(c_order(self._array), start, stop):
            yield check_bools(piece, _BOOLS) if self.dtype == "bool" else piece


def describe(arrays: Sequence[np.ndarray]) -> list[TensorInfo]:
    """Describe arrays as tensors, without a copy if their items are contiguous or overlap with others.

    Arrays that overlap share a storage if they have one dtype and it contains no byte that belongs to none of them.
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
            found.update(_described_together(group, arrays))
    return [found[index] for index in range(len(arrays))]


def _bounds(array: np.ndarray) -> tuple[int, int] | None:
    """Return the first and last address of its items; None when torch has no strides for them, or it has none."""
    if not array.size:
        return None
    if any(step < 0 or step % array.itemsize for size, step in zip(array.shape, array.strides) if size > 1):
        return None
    low = _address(array)
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


def _described_together(group: list[tuple[int, int, int]], arrays: Sequence[np.ndarray]) -> dict[int, TensorInfo]:
    """Describe arrays that overlap over one storage; when they leave gaps together, those of them without any."""
    low, high = group[0][0], max(stop for _, stop, _ in group)
    places = {index: (start, arrays[index].shape, arrays[index].strides) for start, _, index in group}
    if _cover([arrays[index] for index in {place: index for index, place in places.items()}.values()], low, high):
        first = arrays[group[0][2]]
        storage = _run(first, (high - low) // first.itemsize)
        return {index: _tensor(arrays[index], storage, (start - low) // first.itemsize) for start, _, index in group}
    # Bytes between the arrays belong to other values of the program: they must not get into a file.
    found: dict[int, TensorInfo] = {}
    for part in _overlapping([span for span in group if _is_dense(arrays[span[2]])]):
        found.update(_described_together(part, arrays))
    apart: dict[tuple[Any, ...], TensorInfo] = {}
    for index in places.keys() - found.keys():
        found[index] = apart.setdefault(places[index], _scattered(arrays[index]))
    return found


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0] if array.dtype.kind != "V" else array.ctypes.data


def _cover(arrays: list[np.ndarray], low: int, high: int) -> bool:
    """Return whether overlapping arrays cover all bytes between two addresses: other bytes must not be saved."""
    if all(map(_is_dense, arrays)):
        return True
    itemsize = arrays[0].itemsize
    # Expanded items count once: an upper bound, which saves the marks below for most arrays with gaps.
    distinct = (math.prod(size for size, step in zip(array.shape, array.strides) if step) for array in arrays)
    if sum(distinct) * itemsize < high - low:
        return False
    marks = np.zeros((high - low) // itemsize, bool)
    for array in arrays:
        steps = [step // itemsize if size > 1 else 0 for size, step in zip(array.shape, array.strides)]
        start = (_address(array) - low) // itemsize
        as_strided(marks[start:], array.shape, steps)[...] = True
    return bool(marks.all())


def _is_dense(array: np.ndarray) -> bool:
    """Return whether the items of an array, in some order, are contiguous in memory."""
    expected = array.itemsize
    for step, size in sorted((step, size) for size, step in zip(array.shape, array.strides) if size > 1 and step):
        if step != expected:
            return False
        expected *= size
    return True


def _run(first: np.ndarray, numel: int) -> Storage:
    """Return a storage over the memory that begins with an array's first item."""
    items = first.view(f"V{first.itemsize}")  # numpy has no array interface for ml_dtypes
    flat = as_strided(items, (numel,), (first.itemsize,), writeable=False)
    raw = memoryview(flat.view(np.uint8).data)
    name = torch_dtype(first.dtype)
    order = sys.byteorder if first.dtype.isnative else {"little": "big", "big": "little"}[sys.byteorder]
    typed = name in STORAGE_CLASSES
    kind = _BoolStorage if name == "bool" else Storage
    return kind("", name if typed else "", numel if typed else len(raw), "cpu", order, lambda _: raw, "")


def _tensor(array: np.ndarray, storage: Storage, offset: int) -> TensorInfo:
    strides = contiguous(array.shape)
    if not array.flags.c_contiguous:
        strides = tuple(
            step // array.itemsize if size > 1 else plain
            for size, step, plain in zip(array.shape, array.strides, strides)
        )
    return TensorInfo(torch_dtype(array.dtype), array.shape, strides, offset, storage)


def _scattered(array: np.ndarray) -> TensorInfo:
    name = torch_dtype(array.dtype)
    expanded = [step == 0 and size > 1 for size, step in zip(array.shape, array.strides)]
    once = array[tuple(slice(0, 1) if is_expanded else slice(None) for is_expanded in expanded)]
    storage = _ScatteredStorage(once, name if name in STORAGE_CLASSES else "")
    steps = (0 if is_expanded else step for is_expanded, step in zip(expanded, contiguous(once.shape)))
    return TensorInfo(name, array.shape, tuple(steps), 0, storage)


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

    :param tensors: paths where a numpy scalar is an array, too: arithmetic makes one of an array without dimensions
    """
    walk = _Walk(tensors)
    plain, _ = walk.plain(value, "")
    walk.infos = dict(zip(walk.arrays, describe(list(walk.arrays.values()))))
    return walk.filled(plain)


def as_array(value: Any, path: str) -> np.ndarray:
    """Return a value as an array; a torch tensor without its gradient."""
    if np.ma.is_masked(value):
        refuse_unsupported(f"{quote(path)} is a masked array, and a .pth cannot contain masks")
    try:
        return np.asarray(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnsupportedError(f"{quote(path)} cannot be converted to an array: {str(error)[:200]}") from None


class _Walk:
    """Convert one tree: copy it into plain containers, describe its arrays together, and put the tensors in.

    The parts of a value are read once: a mapping may create them at each access, as an ``NpzFile`` does.
    """

    def __init__(self, tensors: Collection[str]) -> None:
        self._tensors = tensors
        self._done: dict[int, tuple[Any, int, object]] = {}
        """By identity: what was made of a value, its levels of containers, and the value, so that no other gets its
        ``id()``."""
        self.arrays: dict[int, np.ndarray] = {}
        self.infos: dict[int, TensorInfo] = {}
        """The tensor of each array by its ``id()``."""
        self._filled: dict[int, Any] = {}

    # -- the given values -----------------------------------------------------------------------------

    def plain(self, value: Any, path: str, depth: int = 0) -> tuple[Any, int]:
        """Return plain containers of arrays and values, and the number of nested levels."""
        done = self._done.get(id(value))
        if depth + (done[1] if done else 0) > _DEEPEST:
            refuse_unsupported(f"nested more than {_DEEPEST} levels deep, or contains itself: {quote(path)}")
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
            array = as_array(value, path)
            torch_dtype(array.dtype, path)
            self.arrays[id(array)] = array
            return array, 0
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

    def filled(self, value: Any) -> Any:
        """Return the result of :meth:`plain` with tensors instead of arrays; shared parts stay shared."""
        kind = type(value)
        if kind is np.ndarray:
            return self.infos[id(value)]
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
        torch_dtype(value.dtype, path)
    return value.item()


def _leaf(value: Any, path: str) -> object:
    for kind in _PLAIN:
        if isinstance(value, kind):
            return kind(_plain_key(item, path) for item in value) if kind in (set, frozenset) else kind(value)
    return refuse_unsupported(f"{quote(path)} is a {type(value).__name__}, which a .pth cannot contain")


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
    return refuse_unsupported(
        f"{quote(path)} has a key or member of type {type(key).__name__}, which a .pth cannot contain"
    )


def _as_quantized(info: Any) -> Any:
    """Return the same integers in a storage of torch's quantized dtype."""
    if info.dtype in QUANTIZED:
        return info
    if info.dtype not in _QUANTIZED:
        refuse_unsupported(f"expected int8, uint8 or int32 as the integers of a quantized tensor, got {info.dtype}")
    old = info.storage
    name = _QUANTIZED[info.dtype]
    storage = Storage("", name, old.numel, "cpu", old.byte_order, lambda _: old.bytes(), "")
    return info._replace(dtype=name, storage=storage)


class _View(Record):
    """A part of a storage, and the paths of the tensors over it."""

    info: TensorInfo
    paths: list[str]

    @property
    def end(self) -> int:
        """The number of items of the storage up to its last one."""
        info = self.info
        return info.offset + 1 + sum((size - 1) * stride for size, stride in zip(info.shape, info.strides))

    def of(self, flat: np.ndarray) -> np.ndarray:
        """Return the items of this view in a storage."""
        steps = tuple(stride * flat.itemsize for stride in self.info.strides)
        return as_strided(flat[self.info.offset :], self.info.shape, steps)


def share(infos: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> Iterator[Mismatch]:
    """Complete the arrays of tensors with several names, and of views that other tensors cover.

    :param arrays: new ones by path, in the template's shapes and dtypes; those of other names are added
    :return: the contradictions: items that are shared in the template and have different bits here
    """
    for views in _storages(infos):
        for view in views:
            yield from _same(view.paths, arrays)
        plain = [view for view in views if view.info.numel and not (view.info.conj or view.info.neg)]
        if _overlap(plain) and any(view.paths[0] in arrays for view in plain):
            yield from _common(plain, arrays)


def _storages(infos: Mapping[str, Any]) -> list[list[_View]]:
    """Return the views of each storage."""
    found: dict[tuple[int, str], dict[tuple[Any, ...], _View]] = {}
    for path, info in infos.items():
        if isinstance(info, TensorInfo):
            views = found.setdefault((id(info.storage), info.dtype), {})
            geometry = info.offset, info.shape, info.strides, info.conj, info.neg
            views.setdefault(geometry, _View(info, [])).paths.append(path)
    return [list(views.values()) for views in found.values()]


def _same(paths: list[str], arrays: dict[str, np.ndarray]) -> Iterator[Mismatch]:
    """Give all names of a tensor its array."""
    first = next((path for path in paths if path in arrays), None)
    if first is None:
        return
    reason = f"contradicts {quote(first)}: they are the same tensor in the template, and have different values here"
    for path in paths:
        if path in arrays and not _bits_equal(arrays[path], arrays[first]):
            yield Mismatch(path, "contradiction", reason)
        arrays[path] = arrays[first]


def _bits_equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one is other or one.tobytes() == other.tobytes()


def _overlap(views: list[_View]) -> bool:
    """Return whether two views may have items in common."""
    end = 0
    for view in sorted(views, key=lambda view: view.info.offset):
        if view.info.offset < end:
            return True
        end = max(end, view.end)
    return False


def _common(views: list[_View], arrays: dict[str, np.ndarray]) -> Iterator[Mismatch]:
    """Write the arrays of overlapping views into one storage, and read all views from it."""
    # In the file there is one storage: what two arrays say of one of its items must be the same.
    given = [view for view in views if view.paths[0] in arrays]
    flat = np.zeros(max(view.end for view in views), arrays[given[0].paths[0]].dtype)
    owners = np.zeros(len(flat), np.int32)
    """By item: the number of the view that gave it, from 1."""
    for number, view in enumerate(given, 1):
        array, path = arrays[view.paths[0]], view.paths[0]
        items, own = view.of(flat), view.of(owners)
        differs = (_bits(items) != _bits(array)).any(-1) & (own > 0)
        if differs.any():
            other = given[own[differs][0] - 1].paths[0]
            message = f"contradicts {quote(other)}: they overlap in the template, and have different values there"
            yield Mismatch(path, "contradiction", message)
        items[...] = array
        own[...] = number
    for view in views:
        items = view.of(flat)
        array = arrays.get(view.paths[0])  # type: ignore[assignment]
        if (view.of(owners) > 0).all() if array is None else _bits_equal(items, array):
            arrays.update(dict.fromkeys(view.paths, items))


def _bits(array: np.ndarray) -> np.ndarray:
    """Return the bytes of each item, in a last axis."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.itemsize)


_LEVELS: Final = ("bool", "int", "float", "complex")  # A dtype may become one of its own level or a higher one


def with_arrays(
    template: Any,
    infos: Mapping[str, Any],
    arrays: Mapping[str, Any],
    entry: str | None,
    others: Iterable[Mismatch] = (),
) -> Any:
    """Return the template's tree with other tensors; everything else in it, order and flags included, stays.

    :param infos: its tensors by path
    :param arrays: by path; each of the template's shape, and of a dtype that becomes its
        dtype without another kind of number (float64 becomes float32, float does not become int), nor beyond its
        range. A name may be left out when the template has the same tensor under another one, or has a tensor there
        that is no array (sparse, quantized, complex32), which stays. Names of one tensor must not contradict one
        another.
    :param others: what is known not to fit
    """
    mismatches = list(others)
    fitting: dict[str, np.ndarray] = {}
    for path in infos:
        if path in arrays:
            found = _fitted(path, infos[path], arrays[path])
            if isinstance(found, Mismatch):
                mismatches.append(found)
            else:
                fitting[path] = found
    mismatches += share(infos, fitting)
    asked = {path: info for path, info in infos.items() if _is_replaceable(info) or path in arrays}
    mismatches += check_names(asked, {**arrays, **fitting})
    if mismatches:
        order = {path: at for at, path in enumerate(infos)}
        raise misfit(sorted(mismatches, key=lambda row: order.get(row.loc, len(order))), entry)
    paths = [path for path in infos if path in fitting]
    tensors = {}
    for path, info in zip(paths, describe([fitting[path] for path in paths])):
        old = infos[path]
        flags = dict(requires_grad=old.requires_grad, is_parameter=old.is_parameter, state=old.state)
        tensors[path] = info._replace(**flags)
    return _rebuilt(template, "", tensors)


def like_optimizer(
    template: object,
    infos: Mapping[str, Any],
    given: Any,
    tensors: Mapping[str, Any],
    array_of: Callable[[TensorInfo], np.ndarray],
) -> Any:
    """Return an optimizer's tree as given, for the parameters of the template, in its dtypes."""
    mismatches = optimizer_misfits(template, infos, given, tensors)
    cast: dict[str, np.ndarray] = {}
    for path, info in tensors.items():
        old = infos.get(path)
        if isinstance(info, TensorInfo) and isinstance(old, TensorInfo) and info.dtype != old.dtype:
            found = _fitted(path, old, array_of(info))
            if not isinstance(found, Mismatch):
                cast[path] = found
            elif info.shape == old.shape:  # else it is reported already
                mismatches.append(found)
    if mismatches:
        raise misfit(mismatches)
    return _rebuilt(given, "", dict(zip(cast, describe(list(cast.values()))))) if cast else given


def _is_replaceable(info: object) -> bool:
    return isinstance(info, TensorInfo) and info.dtype != "complex32"


def _fitted(path: str, info: Any, value: Any) -> np.ndarray | Mismatch:
    """Return the array in the dtype of the template's tensor, or the reason why it does not fit."""
    try:
        array = as_array(value, path)
    except UnsupportedError as error:
        return Mismatch(path, "dtype", error.message)
    if not _is_replaceable(info):
        kind = type(info).__name__ if not isinstance(info, TensorInfo) else info.dtype
        return Mismatch(path, "dtype", f"the template has a {kind} here, which an array cannot replace")
    if array.shape != info.shape:
        return Mismatch(path, "shape", f"expected shape {info.shape}, got {array.shape}")
    if not _fits(array.dtype, info.dtype):
        return Mismatch(path, "dtype", f"expected {info.dtype}, got {array.dtype}, which is not converted")
    if torch_dtype(array.dtype) == info.dtype:
        return array
    with np.errstate(all="ignore"):
        cast = array.astype(numpy_dtype(info.dtype))
        kept = cast == array if _level(info.dtype) == "int" else np.isfinite(cast) | ~np.isfinite(array)
    return cast if kept.all() else Mismatch(path, "dtype", f"contains numbers that are out of range for {info.dtype}")


def _fits(dtype: np.dtype[Any], wanted: str) -> bool:
    try:
        name = torch_dtype(dtype)
    except UnsupportedError:
        return False
    return name == wanted or _LEVELS.index(_level(name)) <= _LEVELS.index(_level(wanted))


def _level(name: str) -> str:
    return next((level for level in _LEVELS if level in name), "int")


def _rebuilt(value: Any, path: str, tensors: Mapping[str, TensorInfo]) -> Any:
    """Return the tree with its tensors replaced by path. Its reader has limited the depth to ``value_depth``."""
    if path in tensors:
        return tensors[path]
    prefix = f"{path}/" if path else ""
    if type(value) in (dict, OrderedDict):
        made = type(value)((key, _rebuilt(part, prefix + segment(key), tensors)) for key, part in value.items())
        if hasattr(value, "_metadata"):
            made._metadata = value._metadata  # noqa: SLF001 -- torch's own name
        return made
    if type(value) in (list, tuple):
        return type(value)(_rebuilt(part, f"{prefix}[{index}]", tensors) for index, part in enumerate(value))
    return value
