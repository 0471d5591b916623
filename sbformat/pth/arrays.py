"""Create numpy arrays from the descriptions of tensors, and compare them (FORMAT.md 6.4, 9).

In: a ``TensorInfo``. Out: an array, which is a read-only view of the archive's bytes. What a view cannot represent is
copied once, charged to the budget: another byte order, conj and neg bits, half-precision complex numbers,
``copy=True``. The second part says how far two tensors differ, in chunks.
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from sbformat.errors import UnsupportedError, need_extra
from sbformat.immutable import Record
from sbformat.pkl.numpy import ArrayInfo, array_buffer
from sbformat.pth.array_streams import runs_of_both
from sbformat.pth.context import check_indices
from sbformat.pth.values import (
    DTYPES,
    PIECE_BYTES,
    QuantizedTensor,
    SparseTensor,
    Storage,
    TensorInfo,
    check_bools,
    refuse_unsupported,
    swapped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.limits import Budget
    from sbformat.pth.values import Chunk


_NUMPY_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    row.name: np.dtype(row.numpy) for row in DTYPES.values() if row.is_in_numpy
}
_DIRECT: Final = {name: dtype for name, dtype in _NUMPY_DTYPES.items() if name not in ("bool", "complex32")}
_FLAGS: Final[Any] = ("external_loop", "buffered", "zerosize_ok")  # for numpy's iterator to yield items in chunks

Copies: TypeAlias = dict[tuple[int, int], np.ndarray]
"""Copies of storages for one call of :func:`materialize`, by ``id()`` and the bytes swapped together."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of a torch dtype."""
    found = _NUMPY_DTYPES.get(name)
    if found is None:
        try:
            import ml_dtypes
        except (ImportError, AttributeError):  # AttributeError: an ml_dtypes for another numpy
            raise need_extra(f"numpy has no {name}: to read it, ml_dtypes is needed", "dtypes") from None
        attribute = DTYPES[name].numpy.removeprefix("ml_dtypes.")
        if not hasattr(ml_dtypes, attribute):
            refuse_unsupported(
                f"the installed ml_dtypes has no {name}; the extra sbformat[dtypes] needs ml_dtypes >= 0.6"
            )
        found = _NUMPY_DTYPES[name] = np.dtype(getattr(ml_dtypes, attribute))
    return found


def to_array(info: TensorInfo, budget: Budget, *, copies: Copies | None = None) -> np.ndarray:
    """Make the array of a tensor.

    :param budget: charged when bytes are copied
    :param copies: where to keep copies of storages: the array is then writable and aligned; None for a
        read-only view
    :return: shape ``info.shape``; complex32 comes as complex64, quantized dtypes as their integers
    """
    name, shape, steps, offset, storage, _, _, conj, neg, _ = info
    dtype = _DIRECT.get(name)
    if (  # as nearly every tensor is: a contiguous view of its storage
        dtype is not None
        and copies is None
        and (steps == (1,) or (len(steps) == 2 and steps == (shape[1], 1)))
        and not (conj or neg or 0 in shape)
        and storage.byte_order == sys.byteorder
    ):
        direct: np.ndarray = np.ndarray(shape, dtype, array_buffer(storage.bytes()), offset * dtype.itemsize)
        return direct
    if 0 in steps and (conj or neg or name == "complex32"):
        # One item along each expanded dimension, so that each item is computed once.
        once = tuple(1 if step == 0 and size else size for size, step in zip(shape, steps))
        collapsed = info._replace(shape=once, strides=tuple(step or 1 for step in steps))
        array = to_array(collapsed, budget, copies=copies)
        strides = [0 if step == 0 else stride for step, stride in zip(steps, array.strides)]
        expanded: np.ndarray = np.lib.stride_tricks.as_strided(array, shape, strides, writeable=copies is not None)
        return expanded
    if name == "complex32":
        array = _half_complex(info, budget)
    else:
        array = _view(info, _NUMPY_DTYPES.get(name) or numpy_dtype(name), budget, copies)
    if name == "bool":
        check_bools(array.tobytes(), f"the bool storage {storage.key!r}")
    if conj or neg:
        budget.inflate(array.nbytes)
        array = np.conjugate(array) if conj else array
        array = np.asarray(np.negative(array) if neg else array)
    if copies is None and array.flags.writeable:
        array.flags.writeable = False
    return array


def _view(info: TensorInfo, dtype: np.dtype[Any], budget: Budget, copies: Copies | None = None) -> np.ndarray:
    itemsize = dtype.itemsize
    name, shape, steps, offset, storage, _, _, _, _, _ = info
    if 0 in shape and len(shape) <= 32:
        storage.check()  # an empty tensor is read as every other
        return np.empty(shape, dtype)
    swap = 1 if storage.byte_order == sys.byteorder else DTYPES[name].swap
    if copies is None:
        buffer: Any = array_buffer(_native_bytes(storage, swap, budget))
    else:
        root, start = storage.part_of or (storage, 0)
        buffer = _copied(root, swap, budget, copies)[start : start + storage.nbytes]
    strides = [stride * itemsize if size > 1 else itemsize for size, stride in zip(shape, steps)]
    try:
        array: np.ndarray = np.ndarray(shape, dtype, buffer, offset * itemsize, strides)
    except ValueError as error:
        message = f"numpy cannot hold a tensor of {len(shape)} dimensions and {info.numel} items: {error}"
        raise UnsupportedError(message) from None
    return array


def _copied(storage: Storage, swap: int, budget: Budget, copies: Copies) -> np.ndarray:
    """Return the writable copy of a storage: one for all tensors over it, which share it as in the file."""
    copied = copies.get((id(storage), swap))
    if copied is None:
        buffer = _native_bytes(storage, swap, budget)
        budget.inflate(len(buffer))
        copied = copies[id(storage), swap] = np.frombuffer(buffer, np.uint8).copy()
    return copied


def _half_complex(info: TensorInfo, budget: Budget) -> np.ndarray:
    """Return a complex32 tensor as complex64, which represents all its values exactly."""
    steps = (*(2 * stride for stride in info.strides), 1)
    halves = info._replace(dtype="float16", shape=(*info.shape, 2), strides=steps, offset=2 * info.offset)
    budget.inflate(halves.numel * 4)
    wide: np.ndarray = np.ascontiguousarray(_view(halves, np.dtype("f2"), budget), dtype=np.float32)
    numbers: np.ndarray = wide.view(np.complex64)[..., 0]
    return numbers


def _native_bytes(storage: Storage, swap: int, budget: Budget) -> memoryview | bytes:
    """Return the bytes of a storage in native byte order: groups of ``swap`` bytes reversed, 1 for unchanged."""
    data = storage.bytes()
    if swap == 1:
        return data
    kept = storage.swapped or {}
    if swap in kept:
        return kept[swap]
    budget.inflate(len(data))
    native = swapped(data, swap)
    if storage.is_kept:
        storage.swapped = {**kept, swap: native}
    return native


def storage_array(storage: Storage, budget: Budget, *, copies: Copies | None = None) -> np.ndarray:
    """Make the one-dimensional array of a bare storage: uint8 when it is untyped."""
    dtype = storage.dtype or "uint8"
    return to_array(TensorInfo(dtype, (storage.numel,), (1,), 0, storage), budget, copies=copies)


def index_arrays(sparse: SparseTensor, budget: Budget, *, copies: Copies | None = None) -> tuple[np.ndarray, ...]:
    """Make the arrays of the indices of a sparse tensor, and check them."""
    indices = tuple(to_array(part, budget, copies=copies) for part in sparse.indices)
    check_indices(sparse, *indices)
    return indices


def c_order(array: np.ndarray) -> Iterator[Chunk]:
    """Yield the bytes of an array's items in pieces: little-endian, the last axis fastest."""
    dtype = little(array.dtype)
    if not array.nbytes:
        return
    if array.flags.c_contiguous and array.dtype == dtype:
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, len(flat), PIECE_BYTES):
            yield flat[start : start + PIECE_BYTES].data
        return
    size = PIECE_BYTES // dtype.itemsize
    for piece in np.nditer(array, _FLAGS, order="C", op_dtypes=[dtype], casting="equiv", buffersize=size):
        yield np.ascontiguousarray(piece).view(np.uint8).tobytes()


def same_items(left: np.ndarray, right: np.ndarray) -> bool:
    """Return whether two arrays of one dtype and shape have the same items, bit for bit, whatever their byte orders."""
    if not left.nbytes:
        return True
    dtype = little(left.dtype)
    size = max(PIECE_BYTES // dtype.itemsize, 1)
    pieces: Any = np.nditer([left, right], _FLAGS, order="C", op_dtypes=[dtype] * 2, casting="equiv", buffersize=size)
    return all(np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes() for one, other in pieces)


def little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the little-endian form of a dtype; those of ml_dtypes have no other."""
    return dtype.newbyteorder("<") if dtype.itemsize > 1 and dtype.kind != "V" else dtype


def materialize(value: object, budget: Budget, *, copy: bool = False) -> Any:
    """Return a decoded tree with arrays where it had tensors; parts that are shared stay shared.

    The tree is at most ``value_depth`` deep and holds no cycle (``decode`` saw to that).
    """
    copies: Copies | None = {} if copy else None
    if type(value) in _KEYED and _NO_TENSORS.isdisjoint(map(type, value.values())):  # type: ignore[attr-defined]
        return _flat(value, budget, copies)  # type: ignore[arg-type]
    leaves = _leaves(budget, copies)
    if type(value) in leaves:
        return leaves[type(value)](value)
    return _nested(value, leaves) if type(value) in _CONTAINERS else value


_KEYED: Final = (dict, OrderedDict)
_CONTAINERS: Final = frozenset({*_KEYED, list, tuple})
_NO_TENSORS: Final = _CONTAINERS | {Storage, ArrayInfo, SparseTensor, QuantizedTensor}
"""Types whose arrays are not created from one tensor."""


def _leaves(budget: Budget, copies: Copies | None) -> dict[type, Callable[[Any], object]]:
    return {
        TensorInfo: lambda info: to_array(info, budget, copies=copies),
        Storage: lambda storage: storage_array(storage, budget, copies=copies),
        ArrayInfo: lambda info: info.to_numpy(),
        SparseTensor: lambda sparse: sparse._replace(
            indices=index_arrays(sparse, budget, copies=copies), values=to_array(sparse.values, budget, copies=copies)
        ),
        QuantizedTensor: lambda quantized: QuantizedTensor(
            *(to_array(part, budget, copies=copies) if type(part) is TensorInfo else part for part in quantized)  # type: ignore[arg-type]
        ),
    }


def _flat(value: dict[Any, Any], budget: Budget, copies: Copies | None) -> dict[Any, Any]:
    """Create the arrays of a dict of tensors, as policies are, in one pass."""
    done: dict[int, np.ndarray] = {}
    made = type(value)()
    for key, part in value.items():
        if type(part) is TensorInfo and id(part) not in done:
            done[id(part)] = to_array(part, budget, copies=copies)
        made[key] = done.get(id(part), part)
    _keep_metadata(value, made)
    return made


def _keep_metadata(value: object, made: object) -> None:
    """Copy the metadata of one dict to another: the caller may change the copy."""
    metadata = getattr(value, "_metadata", None)
    if metadata is not None:
        made._metadata = _copied_metadata(metadata)  # type: ignore[attr-defined]  # noqa: SLF001 -- torch's own name


def _copied_metadata(metadata: Any) -> Any:
    """Copy ``{module: {"version": n}}``, as torch writes it, in a fifth of the time for other trees."""
    if type(metadata) is not OrderedDict:
        return _nested(metadata, {}) if type(metadata) in _CONTAINERS else metadata
    copied = metadata.copy()
    for module, facts in metadata.items():
        # one item that is a version, and no container: () is one
        if type(facts) is not dict or len(facts) != 1 or type(facts.get("version", ())) in _CONTAINERS:
            return _nested(metadata, {})
        copied[module] = facts.copy()
    return copied


def _nested(root: object, leaves: dict[type, Callable[[Any], object]]) -> object:
    """Return a copy of containers in containers, with what a function makes of each leaf; it does not recurse."""
    done: dict[int, object] = {}
    todo: list[Any] = [root]
    while todo:
        value = todo[-1]
        parts = value.values() if isinstance(value, dict) else value
        inner = [part for part in parts if type(part) in _CONTAINERS and id(part) not in done]
        if inner:
            todo += inner
            continue
        todo.pop()
        if id(value) in done:
            continue
        for part in parts:
            if type(part) in leaves and id(part) not in done:
                done[id(part)] = leaves[type(part)](part)
        made = [done.get(id(part), part) for part in parts]
        if isinstance(value, dict):
            done[id(value)] = copy = type(value)(zip(value, made))
            _keep_metadata(value, copy)
        else:
            done[id(value)] = type(value)(made)
    return done[id(root)]


_SMALL: Final = 1e-200  # A sum of squares below it may have lost the smaller ones to underflow
_SUBTRACTED: Final = {"u": np.uint64, "i": np.int64, "c": np.complex128}
"""The dtypes in which items of a kind are subtracted; float64 for all others."""


class Difference(Record):
    """The items of two tensors, compared."""

    differing: int
    """Items that differ in a bit."""
    largest: float | None
    """The largest absolute difference, 0 between zeros of two signs; None when nothing differs, and when one difference
    is no number: a NaN on one side, say."""
    beyond: int
    """Items that differ by more than the tolerance: without one, those that differ in a bit."""
    numel: int
    """Items of each tensor."""
    l2: float | None
    """Euclidean norm of the difference; None like ``largest``."""
    old_l2: float
    """Euclidean norm of the first tensor; NaN if it has one."""

    def relative_change(self) -> float | None:
        """Return the norm of the difference divided by that of the first tensor.

        It is infinite if the norm of the first tensor is zero, or that of the difference infinite; None when nothing
        differs, and when the quotient is no number.
        """
        if self.l2 is None:
            return None
        if not self.old_l2:
            return math.inf if self.l2 else 0.0
        quotient = self.l2 / self.old_l2
        return None if math.isnan(quotient) else quotient


def same_bits(left: TensorInfo, right: TensorInfo, left_budget: Budget, right_budget: Budget) -> bool:
    """Return whether two tensors of one dtype and shape have the same items, bit for bit."""
    runs = runs_of_both(left, right)
    if runs is not None:
        return not sum(mine != theirs for mine, theirs in runs)  # all chunks of both: later damage counts, too
    first, second = to_array(_as_integers(left), left_budget), to_array(_as_integers(right), right_budget)
    # Dimensions that both expand are compared once.
    steps = zip(left.strides, right.strides)
    index = tuple(slice(0, 1) if step == other == 0 else slice(None) for step, other in steps)
    return first[index].tobytes() == second[index].tobytes()


def _as_integers(info: TensorInfo) -> TensorInfo:
    """Return the same bits as integers, if numpy lacks the dtype: the comparison needs no extra package."""
    row = DTYPES[info.dtype]
    return info if info.neg or row.is_in_numpy else info._replace(dtype=f"uint{8 * row.itemsize}")


def difference(
    left: TensorInfo, right: TensorInfo, left_budget: Budget, right_budget: Budget, *, rtol: float = 0, atol: float = 0
) -> Difference:
    """Compare two tensors of one dtype and shape, item by item, in one pass over both.

    :param rtol: items are close where ``|right - left| <= atol + rtol * |left|``, and where both are NaN
    :param atol: the absolute part of that tolerance
    """
    is_exact = not rtol and not atol
    differing = beyond = 0
    largest = l2 = old_l2 = 0.0
    is_nan = False
    for mine, theirs in _pieces(left, right, left_budget, right_budget):
        old_l2 = _add_norms(old_l2, _norm(_magnitude(mine)))
        raw = (mine.view(np.uint8) != theirs.view(np.uint8)).reshape(mine.size, -1).any(axis=1)
        if not raw.any():
            continue
        differing += int(raw.sum())
        old, new = mine[raw], theirs[raw]
        distance = _distance(old, new)
        if not is_exact:
            close = _is_close(old, new, distance, rtol, atol)
            beyond += int((~close).sum())
            distance[np.isnan(distance) & close] = 0.0
        is_nan = is_nan or bool(np.isnan(distance).any())
        largest = max(largest, float(np.nanmax(distance)) if not np.isnan(distance).all() else 0.0)
        l2 = _add_norms(l2, _norm(distance))
    beyond = differing if is_exact else beyond
    is_known = differing and not is_nan
    return Difference(differing, largest if is_known else None, beyond, left.numel, l2 if is_known else None, old_l2)


def _is_close(old: np.ndarray, new: np.ndarray, distance: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """Return which items are within the tolerance: an infinity is close to itself only, a NaN to any NaN."""
    with np.errstate(all="ignore"):
        allowed = atol + rtol * _magnitude(old)
        close: np.ndarray = (distance <= allowed) & np.isfinite(distance)
        if old.dtype.kind not in "iub":
            close |= np.isnan(_widen(old)) & np.isnan(_widen(new))
    return close


def _norm(values: np.ndarray) -> float:
    """Return the Euclidean norm of magnitudes, without overflow where the result is finite."""
    with np.errstate(all="ignore"):
        squares = float(np.square(values).sum())
        if _SMALL < squares < math.inf:
            return math.sqrt(squares)
        scale = float(values.max(initial=0.0))
        if not scale or not math.isfinite(scale):
            return scale
        return scale * math.sqrt(float(np.square(values / scale).sum()))


def _add_norms(one: float, other: float) -> float:
    """Return the norm of two parts together; NaN if one is, which ``math.hypot`` forgets beside an infinity."""
    return math.nan if math.isnan(one) or math.isnan(other) else math.hypot(one, other)


def _pieces(
    left: TensorInfo, right: TensorInfo, left_budget: Budget, right_budget: Budget
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the items of both in pairs of chunks."""
    runs = runs_of_both(left, right)
    if runs is not None:
        dtype = little(numpy_dtype(left.dtype))
        for mine, theirs in runs:
            yield np.frombuffer(mine, dtype), np.frombuffer(theirs, dtype)
        return
    both = [to_array(left, left_budget), to_array(right, right_budget)]
    pieces: Any = np.nditer(both, _FLAGS, order="C", buffersize=1 << 18)
    for one, other in pieces:
        yield np.ascontiguousarray(one), np.ascontiguousarray(other)


def _widen(values: np.ndarray) -> np.ndarray:
    return values.astype(_SUBTRACTED.get(values.dtype.kind, np.float64))


def _magnitude(values: np.ndarray) -> np.ndarray:
    """Return absolute values, as float64."""
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64) if values.dtype.kind in "iu" else _widen(values)
        made: np.ndarray = np.abs(wide).astype(np.float64, copy=False)
    return made


def _distance(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Absolute differences, as float64; of whole numbers without overflow."""
    distance: np.ndarray
    if mine.dtype.kind in "iu":
        high, low = _widen(np.maximum(mine, theirs)), _widen(np.minimum(mine, theirs))
        distance = (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
        return distance
    with np.errstate(all="ignore"):
        same = mine == theirs  # infinities of one sign, and the two zeros
        distance = np.abs(_widen(mine) - _widen(theirs)).astype(np.float64)
    distance[same] = 0.0
    return distance
