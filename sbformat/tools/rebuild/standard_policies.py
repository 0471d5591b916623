"""The policy that SB3 itself has for an algorithm and an observation space (FORMAT.md 15.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.errors import UnsupportedError
from sbformat.policies.extractors import is_image
from sbformat.values.types import DictSpace, Reference, Space

if TYPE_CHECKING:
    from sbformat.tools.rebuild.context import Job


def standard_policy(job: Job) -> Reference | None:
    """Return the policy class, or None when the algorithm has none for such observations."""
    try:
        space = job.meaning("observation_space")
    except UnsupportedError:
        return None
    has_image = isinstance(space, Space) and is_image(space, is_normalized=False)
    kind = "MultiInput" if isinstance(space, DictSpace) else "Cnn" if has_image else "Mlp"
    pair = next((pair for alias, pair in job.family.policies.items() if alias.startswith(kind)), None)
    return None if pair is None else Reference(*pair)
