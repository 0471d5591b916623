"""Whether normalization statistics have the keys and shapes of an agent's observations (STATISTICS.md 17.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import ValidationError, escape, quote
from sbformat.known.spaces import Space
from sbformat.pth.compare import Mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.formats.vecnormalize.values import VecNormalize

_SHOWN: Final = 4


def require_fit(vecnormalize: VecNormalize, space: object, otherwise: str) -> None:
    """Refuse statistics that do not fit the observation space of an agent.

    :param otherwise: what the caller can do about it
    :raises ValidationError: when they do not; ``problems`` lists all mismatches
    """
    mismatches = list(find_mismatches(vecnormalize, space))
    if mismatches:
        listed = "; ".join(row.message for row in mismatches[:_SHOWN])
        left = len(mismatches) - _SHOWN
        more = f"; and {left} more" if left > 0 else ""
        message = f"the statistics do not fit the agent ({otherwise}): {listed}{more}"
        raise ValidationError(message, problems=mismatches)


def find_mismatches(vecnormalize: VecNormalize, space: object) -> Iterator[Mismatch]:
    """Yield the statistics whose keys or shapes are not those of an observation space.

    Images may have their channels last: SB3 moves them to the front after normalizing. Nothing is compared when
    observations are not normalized, or the space is unknown.
    """
    statistics = vecnormalize.obs_rms
    if not vecnormalize.norm_obs or statistics is None or not isinstance(space, Space):
        return
    if not isinstance(statistics, dict):
        if space.has_keys:
            yield Mismatch(
                "obs_rms", "shape", "expected statistics by key, as for a Dict space, got those of one array"
            )
        else:
            yield from _find_shape_mismatch("obs_rms", statistics.shape, space)
        return
    keys = vecnormalize.norm_obs_keys
    if not space.has_keys:
        if space.shape is not None:
            yield Mismatch(
                "obs_rms", "shape", "expected statistics of one array, got statistics by key, as for a Dict space"
            )
        return
    parts = space.parts()
    for key in statistics if keys is None else keys:
        path = f"obs_rms/{escape(key, 80)}"
        if key not in parts:
            yield Mismatch(path, "unexpected", f"the observations of the agent have no key {quote(key, 80)}")
        elif key in statistics:
            yield from _find_shape_mismatch(path, statistics[key].shape, parts[key])


def _find_shape_mismatch(path: str, shape: tuple[int, ...], space: Space) -> Iterator[Mismatch]:
    if space.shape is None:
        return
    has_channels_last = len(shape) == 3 and (shape[2], *shape[:2]) == space.shape
    if shape != space.shape and not has_channels_last:
        yield Mismatch(path, "shape", f"{path}: expected the shape {space.shape} of observation_space, got {shape}")
