"""Whether an agent was trained behind VecNormalize, which ``data`` does not state.

On-policy algorithms and ARS set ``_last_original_obs`` for such an environment only (``BaseAlgorithm._setup_learn``).
It may normalize rewards alone: then ``_last_obs`` is the same array, unless the agent has taken a step since.
Off-policy ones always set it (``OffPolicyAlgorithm._store_transition``): to the observation before ``_last_obs``, or
behind VecNormalize to ``_last_obs`` before it was normalized. The two are told apart where that is certain: normalized
observations are float32, whatever the environment returns, and do not stay within the bounds of the space.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.kinds import SB3_ARCHIVES
from sbformat.errors import SbformatError
from sbformat.known.numpy import unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.known.spaces import Space
from sbformat.pkl.numpy import ArrayInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.archive.archive import Archive
    from sbformat.known.spaces import Bounds

_OFF_POLICY: Final = "learning_starts"  # A key that off-policy algorithms have in every release
_ORIGINAL: Final = "_last_original_obs"
_NORMALIZED: Final = "f4"
_WHOLE: Final = ("b", "i", "u")  # kinds of dtypes that no normalized observation has
_MARGIN: Final = 1e-3  # of a bound: environments round differently than their space


def is_surely_normalized(archive: Archive) -> bool:
    """Return whether it is certain that the observations of an agent were normalized."""
    if archive.format not in SB3_ARCHIVES or archive.data.get(_ORIGINAL) is None:
        return False
    try:
        space = archive.decode("observation_space")
    except (SbformatError, KeyError):
        return False
    return isinstance(space, Space) and was_normalized(archive, space)


def was_normalized(archive: Archive, space: Space) -> bool:
    """Return whether the observations of an agent, of this space, were normalized, as far as that is certain."""
    data = archive.data
    if data.get(_ORIGINAL) is None:
        return False
    is_off_policy = _OFF_POLICY in data
    try:
        original, last = archive.decode(_ORIGINAL), archive.decode("_last_obs")
        if is_off_policy:
            return any(_is_normalized(*parts) for parts in _pair_parts(original, last, space))
        return not _is_unchanged(original, last)
    except (SbformatError, UnrecognizedError, KeyError):
        return not is_off_policy


def _is_unchanged(original: Any, last: Any) -> bool:
    """Return whether it is certain that the last observation, with all its parts, is not normalized."""
    if isinstance(original, dict) and isinstance(last, dict) and last:
        return original.keys() == last.keys() and all(_is_same_array(original[key], last[key]) for key in last)
    return _is_same_array(original, last)


def _is_same_array(original: Any, last: Any) -> bool:
    """Return whether two arrays in memory are equal, or the last one has a dtype that no normalized one has.

    Equal arrays of zeros are not certain: a first observation of zeros is its own mean.
    """
    if not isinstance(original, ArrayInfo) or not isinstance(last, ArrayInfo) or not isinstance(last.buffer, bytes):
        return False
    if last.dtype[1:2] in _WHOLE:
        return True
    return original == last and last.buffer.count(0) < len(last.buffer)


def _pair_parts(original: Any, last: Any, space: Space) -> Iterator[tuple[ArrayInfo, ArrayInfo, Bounds]]:
    """Yield the two arrays of each observation that has bounds, and these."""
    parts = [(original, last, space)]
    if space.has_keys and isinstance(original, dict) and isinstance(last, dict):
        parts = [(original.get(key), last.get(key), part) for key, part in space.parts().items()]
    for one, other, part in parts:
        if isinstance(one, ArrayInfo) and isinstance(other, ArrayInfo) and part.bounds:
            yield one, other, part.bounds


def _is_normalized(original: ArrayInfo, last: ArrayInfo, bounds: Bounds) -> bool:
    if last.dtype[1:] != _NORMALIZED or original.shape != last.shape or not last.buffer:
        return False
    if original.dtype[1:] != _NORMALIZED:
        return True
    arrays = (original, last, *bounds)
    if any(array.order != "C" or array.axes for array in arrays):
        return False
    before, after, low, high = map(unpack_items, arrays)
    return any(
        (new < least - _MARGIN or new > most + _MARGIN) and least <= old <= most
        for old, new, least, most in zip(before, after, cycle(low), cycle(high))
    )
