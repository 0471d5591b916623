"""The policy that SB3 itself has for an algorithm and an observation space (FORMAT.md 15.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError
from sbformat.known.numbers import unpacked
from sbformat.known.values import Box, DictSpace, Reference

if TYPE_CHECKING:
    from sbformat.tools.rebuild.job import Job

_IMAGE_AXES: Final = 3
_BRIGHTEST: Final = 255


def standard_policy(job: Job) -> Reference | None:
    """Return the policy class, or None when the algorithm has none for such observations."""
    try:
        space = job.meaning("observation_space")
    except UnsupportedError:
        return None
    kind = "MultiInput" if isinstance(space, DictSpace) else "Cnn" if _is_image(space) else "Mlp"
    pair = next((pair for alias, pair in job.family.policies.items() if alias.startswith(kind)), None)
    return None if pair is None else Reference(*pair)


def _is_image(space: object) -> bool:
    """Say whether SB3 takes a space for one of images: bytes from 0 to 255 in three axes."""
    return (
        isinstance(space, Box)
        and len(space.shape) == _IMAGE_AXES
        and space.dtype[1:] == "u1"
        and set(unpacked(space.low)) == {0}
        and set(unpacked(space.high)) == {_BRIGHTEST}
    )
