"""Compare two tensors of one shape: equal or not, and the largest difference; with numpy, in chunks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.immutable import Record
from sbformat.pth.array_streams import runs_of_both
from sbformat.pth.arrays import little, numpy_dtype, to_array
from sbformat.pth.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.limits import Budget
    from sbformat.pth.values import TensorInfo

_PIECE: Final = 1 << 18
_LARGE: Final = 1 << 20
_SMALL: Final = 1e-200
"""A sum of squares below it may have lost the smaller ones to underflow."""
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
    """Return whether two tensors of one dtype and shape have the same items, bit for bit.

    Dimensions that both expand are compared once.
    """
    runs = _runs(left, right)
    if runs is not None:
        return not sum(mine != theirs for mine, theirs in runs)  # all chunks of both: later damage counts, too
    both = [step == other == 0 for step, other in zip(left.strides, right.strides)]
    arrays = [to_array(_as_integers(left), left_budget), to_array(_as_integers(right), right_budget)]
    index = tuple(slice(0, 1) if expanded else slice(None) for expanded in both)
    first, second = (array[index] for array in arrays)
    return first.tobytes() == second.tobytes()


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
    :raises SbformatError: when one of them cannot be made an array
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
    is_known = differing and not is_nan
    return Difference(
        differing,
        largest if is_known else None,
        differing if is_exact else beyond,
        left.numel,
        l2 if is_known else None,
        old_l2,
    )


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
    runs = _runs(left, right)
    if runs is not None:
        dtype = little(numpy_dtype(left.dtype))
        for mine, theirs in runs:
            yield np.frombuffer(mine, dtype), np.frombuffer(theirs, dtype)
        return
    first, second = to_array(left, left_budget), to_array(right, right_budget)
    pieces: Any = np.nditer([first, second], ["external_loop", "buffered", "zerosize_ok"], order="C", buffersize=_PIECE)
    for one, other in pieces:
        yield np.ascontiguousarray(one), np.ascontiguousarray(other)


def _runs(left: TensorInfo, right: TensorInfo) -> Iterator[tuple[bytes, bytes]] | None:
    """Yield the bytes of two large tensors in pairs of chunks, without keeping them in memory."""
    return runs_of_both(left, right) if left.nbytes >= _LARGE else None


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
    kind = mine.dtype.kind
    if kind in "iu":
        wide = _SUBTRACTED[kind]
        high, low = np.maximum(mine, theirs).astype(wide), np.minimum(mine, theirs).astype(wide)
        apart: np.ndarray = (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
        return apart
    wide = _SUBTRACTED.get(kind, np.float64)
    with np.errstate(all="ignore"):
        same = mine == theirs  # infinities of one sign, and the two zeros
        distance: np.ndarray = np.abs(mine.astype(wide) - theirs.astype(wide)).astype(np.float64)
    distance[same] = 0.0
    return distance
