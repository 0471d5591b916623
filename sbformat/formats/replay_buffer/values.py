"""A replay buffer as a value: what it says of itself, its arrays, and its trajectories (FORMAT.md 18.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from sbformat.errors import UnsupportedError
from sbformat.limits import Budget, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from sbformat.formats.replay_buffer.layout import Layout
    from sbformat.pkl.numpy import ArrayInfo
    from sbformat.values.types import Reference

End: TypeAlias = Literal["terminated", "timeout", "unfinished"]
"""How an episode ends: ``unfinished`` where the buffer ends before the episode does."""

ENDS: Final[tuple[End, ...]] = ("terminated", "timeout", "unfinished")
"""By their numbers in :meth:`ReplayBuffer.episode_table`."""


class Episode(NamedTuple):
    """A trajectory, or what the buffer still has of it."""

    env: int
    start: int
    """The position of its first step; see :meth:`ReplayBuffer.positions`."""
    length: int
    """In steps."""
    end: End


class Hindsight(NamedTuple):
    """What a ``HerReplayBuffer`` has besides; None where its release has no such attribute."""

    goal_selection_strategy: object
    """The number of SB3's ``GoalSelectionStrategy``: 0 future, 1 final, 2 episode."""
    n_sampled_goal: int | None
    her_ratio: float | None
    copy_info_dict: bool | None
    """SB3 >= 1.8."""
    online_sampling: bool | None
    """SB3 1.1 to 1.7."""
    max_episode_length: int | None
    """Before 1.8, as the next two."""
    max_episode_stored: int | None
    current_idx: int | None
    """Steps of the episode that is under way."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplayBuffer:
    """A replay buffer as it was saved."""

    type: Reference
    """Its class."""
    is_known: bool
    """Whether that is one of SB3's; of another class the attributes were read all the same."""
    buffer_size: int
    """Rows: transitions of one environment. Of a hindsight buffer before SB3 1.8 transitions in all."""
    n_envs: int
    pos: int
    """The row that is written next; before 1.8 in a hindsight buffer, the episode."""
    full: bool
    """Whether rows are overwritten by now."""
    observation_space: object
    """As :mod:`sbformat.values.types` has spaces."""
    action_space: object
    optimize_memory_usage: bool
    """Whether the next observation is that of the row behind, and ``next_observations`` is not there."""
    handle_timeout_termination: bool
    """Whether timeouts were told from terminations; before 1.1 they were not."""
    n_steps: int | None
    """Of an ``NStepReplayBuffer``, with gamma."""
    gamma: float | None
    hindsight: Hindsight | None
    offline: ReplayBuffer | None
    """The buffer that a hindsight buffer of SB3 1.1 to 1.7 filled with goals of its own, when it sampled offline."""
    arrays: Mapping[str, np.ndarray]
    """By name, ``observations`` or, of a dict, ``observations/<key>``: read-only, read anew at each look-up when the
    file is large."""
    infos: Mapping[str, ArrayInfo]
    """The same, not made: dtype, shape, and where the bytes are."""
    limits: Limits
    layout: Layout
    """Where its steps stand."""

    def __repr__(self) -> str:
        return f"<ReplayBuffer {self.type.name} {self.size()} of {self.buffer_size}, {self.n_envs} envs>"

    def size(self) -> int:
        """Return the rows that are filled, as SB3's ``size`` does; where rows are episodes, their steps."""
        return self.layout.size()

    def scalars(self) -> dict[str, np.ndarray]:
        """Return ``pos``, ``full``, ``buffer_size`` and ``n_envs`` as arrays without dimensions: int64, one bool."""
        import numpy as np

        numbers = {name: np.array(getattr(self, name), np.int64) for name in ("pos", "buffer_size", "n_envs")}
        return numbers | {"full": np.array(self.full)}

    def episodes(self) -> list[Episode]:
        """Return the trajectories, those of each environment in the order of time, one environment after the other.

        A full buffer begins at ``pos``, and the first episode of each environment may have lost its beginning. Where
        timeouts were not recorded, an episode that ended by one counts as terminated.

        :raises LimitError: when there are more than ``reported_values``
        """
        table = self.episode_table()
        self.limits.check("reported_values", len(table["env"]))
        columns = [table[name].tolist() for name in ("env", "start", "length", "end")]
        return [Episode(env, start, length, ENDS[end]) for env, start, length, end in zip(*columns)]

    def episode_table(self) -> dict[str, np.ndarray]:
        """Return the trajectories as columns ``env``, ``start``, ``length`` and ``end``, int64 each.

        ``end`` is 0 for terminated, 1 for timeout, 2 for unfinished.

        :raises LimitError: when there are more than ``expanded_items``
        """
        return self.layout.table(Budget(self.limits))

    def positions(self, episode: Episode) -> np.ndarray:
        """Return where the steps of an episode stand, int64, in the order of time.

        :return: rows of the arrays, ``arrays["rewards"][positions, episode.env]``. Where an array holds episodes
            (hindsight before SB3 1.8), steps of the array with its first two axes made one
        """
        return self.layout.positions(episode)

    def next_positions(self, episode: Episode) -> np.ndarray:
        """Return the rows of ``observations`` that hold an episode's next observations, int64.

        Behind the last step of an episode that has ended stands, as soon as it was made, the first observation of the
        next one: its own last observation is lost.

        :raises UnsupportedError: when they stand in an array of their own: ``optimize_memory_usage`` is False
        """
        if not self.optimize_memory_usage:
            message = "next observations stand in next_observations, in the same rows"
            raise UnsupportedError(message)
        return self.layout.positions(episode._replace(start=episode.start + 1))

    def steps(self, episode: Episode) -> dict[str, np.ndarray]:
        """Return the arrays of one episode: each with a row a step, without the axis of environments.

        Only its rows are read. With ``optimize_memory_usage`` the next observations come from the rows behind.
        """
        return self.layout.steps(episode)
