"""How far two tensors of one shape lie apart: numpy, a piece at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sbformat.pth.arrays import to_array

if TYPE_CHECKING:
    from sbformat.limits import Budget
    from sbformat.pth.values import TensorInfo

_PIECE: Final = 1 << 18
_SUBTRACTED: Final = {"u": np.uint64, "i": np.int64, "c": np.complex128}
"""What items of a kind are subtracted as; all others as float64."""


class Difference(NamedTuple):
    """The items of two tensors, compared."""

    differing: int
    """Items that differ in a bit."""
    largest: float | None
    """The largest absolute difference, 0 between zeros of two signs; None when nothing differs, and when one difference
    is no number: a NaN on one side, say."""


def difference(left: TensorInfo, right: TensorInfo, left_budget: Budget, right_budget: Budget) -> Difference:
    """Compare two tensors of one dtype and shape, item by item.

    :raises SbformatError: when one of them cannot be made an array
    """
    first, second = to_array(left, left_budget), to_array(right, right_budget)
    differing, largest, is_nan = 0, 0.0, False
    pieces: Any = np.nditer([first, second], ["external_loop", "buffered", "zerosize_ok"], order="C", buffersize=_PIECE)
    for one, other in pieces:
        mine, theirs = np.ascontiguousarray(one), np.ascontiguousarray(other)
        raw = (mine.view(np.uint8) != theirs.view(np.uint8)).reshape(mine.size, -1).any(axis=1)
        if not raw.any():
            continue
        differing += int(raw.sum())
        distance = _distance(mine[raw], theirs[raw])
        is_nan = is_nan or bool(np.isnan(distance).any())
        largest = max(largest, float(np.nanmax(distance)) if not np.isnan(distance).all() else 0.0)
    return Difference(differing, None if is_nan or not differing else largest)


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
