"""A replay buffer as a value: its settings, its arrays, and its trajectories (REPLAY-BUFFERS.md 18.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sbformat.errors import UnsupportedError
from sbformat.formats.replay_buffer.episodes import ENDS, Episode
from sbformat.immutable import Record
from sbformat.limits import Budget, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from sbformat.formats.replay_buffer.layout import Layout
    from sbformat.known.types import Reference
    from sbformat.pkl.numpy import ArrayInfo


class Hindsight(Record):
    """Further settings of a ``HerReplayBuffer``; None for an attribute that its release does not have."""

    goal_selection_strategy: object
    """The value of SB3's ``GoalSelectionStrategy``: 0 future, 1 final, 2 episode."""
    n_sampled_goal: int | None
    her_ratio: float | None
    copy_info_dict: bool | None
    """SB3 >= 1.8."""
    online_sampling: bool | None
    """SB3 1.1 to 1.7."""
    max_episode_length: int | None
    """SB3 < 1.8, as the next two."""
    max_episode_stored: int | None
    current_idx: int | None
    """The number of steps of the unfinished episode."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplayBuffer:
    """A replay buffer as it was saved (REPLAY-BUFFERS.md 18.3).

    Its arrays have the shape ``(buffer_size, n_envs, ...)``; those of a hindsight buffer before SB3 1.8 have the shape
    ``(max_episode_stored, max_episode_length, ...)``.

    Example::

        buffer = sbformat.read_replay_buffer("replay_buffer.pkl")
        buffer.size(), buffer.pos, buffer.full  # (1000, 0, True)
        buffer.arrays["rewards"][:10]  # float32, of shape (10, n_envs)
    """

    type: Reference
    """The class of the buffer."""
    is_known: bool
    """Whether that is a class of SB3; the attributes of any other class are read too."""
    buffer_size: int
    """The number of rows, each a transition per environment; before SB3 1.8 in a hindsight buffer, of transitions."""
    n_envs: int
    pos: int
    """The row that is written next; before SB3 1.8 in a hindsight buffer, the episode."""
    full: bool
    """Whether all rows are filled, so that the oldest are overwritten."""
    observation_space: Any
    """A space of :mod:`sbformat.known.types`, an inert node of an unknown class, or None."""
    action_space: Any
    optimize_memory_usage: bool
    """Whether the next observation is in the next row of ``observations``, and ``next_observations`` does not exist."""
    handle_timeout_termination: bool
    """Whether timeouts were distinguished from terminations; before SB3 1.1 they were not."""
    n_steps: int | None
    """Of an ``NStepReplayBuffer``, as ``gamma``; None for others."""
    gamma: float | None
    hindsight: Hindsight | None
    offline: ReplayBuffer | None
    """The second buffer of a hindsight buffer of SB3 1.1 to 1.7 with offline sampling."""
    arrays: Mapping[str, np.ndarray]
    """Arrays by name, ``observations`` or, in a dict, ``observations/<key>``: read-only; each access reads a large file
    again."""
    infos: Mapping[str, ArrayInfo]
    """The same without reading them: dtype, shape, and location of the bytes."""
    limits: Limits
    layout: Layout
    """Where its steps are in the arrays."""

    def __repr__(self) -> str:
        return f"<ReplayBuffer {self.type.name} {self.size()} of {self.buffer_size}, {self.n_envs} envs>"

    def size(self) -> int:
        """Return the number of filled rows, as SB3's ``size``; when rows are episodes, the number of their steps."""
        return self.layout.size()

    def scalars(self) -> dict[str, np.ndarray]:
        """Return ``pos``, ``buffer_size`` and ``n_envs`` as int64 and ``full`` as bool, arrays of shape ``()``."""
        import numpy as np

        numbers = {name: np.array(getattr(self, name), np.int64) for name in ("pos", "buffer_size", "n_envs")}
        return numbers | {"full": np.array(self.full)}

    def episodes(self) -> list[Episode]:
        """Return the trajectories: one environment after the other, each in order of time.

        A full buffer begins at ``pos``, and the first episode of each environment may lack its beginning. When timeouts
        were not recorded, an episode that ended by one counts as terminated.

        :raises LimitError: when there are more than ``Limits.reported_values``

        Example::

            [episode.length for episode in buffer.episodes() if episode.end == "terminated"]
        """
        table = self.episode_table()
        self.limits.check("reported_values", len(table["env"]))
        columns = [table[name].tolist() for name in ("env", "start", "length", "end")]
        return [Episode(env, start, length, ENDS[end]) for env, start, length, end in zip(*columns)]

    def episode_table(self) -> dict[str, np.ndarray]:
        """Return the trajectories as columns ``env``, ``start``, ``length`` and ``end``, each an int64 array.

        ``end`` is 0 for terminated, 1 for timeout, 2 for unfinished.

        :raises LimitError: when there are more than ``Limits.expanded_items``
        """
        return self.layout.table(Budget(self.limits))

    def positions(self, episode: Episode) -> np.ndarray:
        """Return the positions of an episode's steps in the arrays, in order of time.

        :return: int64 array of shape ``(episode.length,)``: rows, as in ``arrays["rewards"][positions, episode.env]``.
            When rows are episodes (hindsight before SB3 1.8), steps of the array with its first two axes merged
        """
        return self.layout.positions(episode)

    def next_positions(self, episode: Episode) -> np.ndarray:
        """Return the rows of ``observations`` that contain an episode's next observations.

        The row after the last step of a finished episode contains the first observation of the next episode: its own
        final observation is not saved.

        :return: int64 array of shape ``(episode.length,)``
        :raises UnsupportedError: when ``optimize_memory_usage`` is False: they are in ``next_observations``
        """
        if not self.optimize_memory_usage:
            message = "expected optimize_memory_usage: next observations are in next_observations, in the same rows"
            raise UnsupportedError(message)
        return self.layout.positions(episode._replace(start=episode.start + 1))

    def steps(self, episode: Episode) -> dict[str, np.ndarray]:
        """Return the arrays of one episode, each of shape ``(episode.length, ...)``, without the axis of environments.

        Only its rows are read. With ``optimize_memory_usage`` the next observations come from the following rows.

        Example::

            buffer.steps(episode)["observations"]  # of shape (episode.length, *observation_space.shape)
        """
        return self.layout.steps(episode)
