"""The trajectories of a replay buffer (REPLAY-BUFFERS.md 18.3)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from sbformat.immutable import Record

End: TypeAlias = Literal["terminated", "timeout", "unfinished"]
"""How an episode ends: ``unfinished`` when the buffer ends before the episode does."""

ENDS: Final[tuple[End, ...]] = ("terminated", "timeout", "unfinished")
"""By their numbers in :meth:`~sbformat.ReplayBuffer.episode_table`."""


class Episode(Record):
    """A trajectory of one environment, or the part of it that is still in the buffer.

    Example: ``Episode(env=0, start=36, length=9, end="terminated")``; :meth:`sbformat.ReplayBuffer.steps` gives its
    arrays.
    """

    env: int
    """The index of its environment, 0 to ``n_envs - 1``."""
    start: int
    """The position of its first step; see :meth:`~sbformat.ReplayBuffer.positions`."""
    length: int
    """The number of its steps."""
    end: End
