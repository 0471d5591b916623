"""Where the steps of a replay buffer are in its arrays, and which of them form one trajectory (REPLAY-BUFFERS.md 18.3).

**Theory of operation.** Input: the pickled attributes of a buffer (numbers, flags) and its arrays, not yet read.
Output: a :class:`Layout`, which finds the episodes and the rows of each. There are two layouts:

* By row (:class:`_ByRow`): arrays of shape ``(buffer_size, n_envs, ...)``, used as a ring. SB3 writes one step of every
  environment to row ``pos`` and advances; at the end it sets ``full`` and continues at row 0. So a full buffer begins
  at ``pos``, and the steps of an environment are the items of its column, from there round to ``pos - 1``.
* By episode (:class:`_ByEpisode`), in hindsight buffers before SB3 1.8: arrays of shape ``(max_episode_stored,
  max_episode_length, ...)`` of one environment, each row an episode of ``episode_lengths[row]`` steps. Row ``pos`` is
  the unfinished episode, when ``current_idx`` is not 0.

An episode ends at a step whose ``dones`` is set, and by a timeout where ``timeouts`` is set too; the last one of each
environment is unfinished. With ``optimize_memory_usage`` there is no ``next_observations``: row ``i + 1`` of
``observations`` contains the next observation of step ``i``, and a full buffer has overwritten the step at ``pos``.

Invariants, checked before anything is read: the shapes agree with each other and with the numbers. Only the rows of a
requested episode are read, and flags in pieces: the arrays may be larger than memory.

Example, ``buffer_size=5, n_envs=1, full=True, pos=2``::

    row     0  1  2  3  4        in order of time: rows 2 3 4 0 1
    dones   0  1  0  1  0
    episodes  Episode(env=0, start=2, length=2, end="terminated")    rows 2, 3
              Episode(env=0, start=4, length=3, end="terminated")    rows 4, 0, 1

Sources: SB3 ``common/buffers.py``, ``her/her_replay_buffer.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import quote
from sbformat.formats.replay_buffer.attributes import read_flag, read_int, refuse
from sbformat.known.types import ObjectArray
from sbformat.pth.addresses import segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.formats.replay_buffer.episodes import Episode
    from sbformat.limits import Budget
    from sbformat.pkl.numpy import ArrayInfo

_OBSERVATIONS: Final = "observations"
_NEXT: Final = "next_observations"
_REQUIRED: Final = (_OBSERVATIONS, "actions", "rewards", "dones")
_PIECE: Final = 1 << 16
"""Rows that are read in one piece."""
_ROWS: Final = (*_REQUIRED, _NEXT, "timeouts", "ep_start", "ep_length")
"""Attributes whose arrays have one row per position."""
_EPISODES: Final = ("_buffer", "buffer")
"""The attribute with the episodes of a hindsight buffer: in SB3 1.1 to 1.7, and before."""
_STEPS: Final = {
    "observation": "observations/observation",
    "achieved_goal": "observations/achieved_goal",
    "desired_goal": "observations/desired_goal",
    "next_obs": "next_observations/observation",
    "next_achieved_goal": "next_observations/achieved_goal",
    "next_desired_goal": "next_observations/desired_goal",
    "action": "actions",
    "reward": "rewards",
    "done": "dones",
}
"""The arrays of such an episode, with their names in any other buffer."""
_TERMINATED, _TIMEOUT, _UNFINISHED = 0, 1, 2


class Layout(ABC):
    """The positions of a buffer's steps; created and checked by :func:`find_layout`."""

    @abstractmethod
    def size(self) -> int:
        """Return the result of SB3's ``size``."""

    @abstractmethod
    def table(self, budget: Budget) -> dict[str, np.ndarray]:
        """Return the trajectories as columns; each is charged to ``expanded_items``."""

    @abstractmethod
    def positions(self, episode: Episode) -> np.ndarray:
        """Return the positions of an episode's steps."""

    @abstractmethod
    def steps(self, episode: Episode) -> dict[str, np.ndarray]:
        """Return the arrays of an episode."""


def find_layout(attributes: dict[str, Any], infos: dict[str, ArrayInfo]) -> Layout:
    """Return the layout of a buffer.

    :param attributes: as they were pickled
    :param infos: its arrays by name
    :raises TensorError: when the arrays and numbers do not fit together
    """
    names = [name for name in _EPISODES if isinstance(attributes.get(name), dict)]
    if len(names) > 1:
        refuse(f"expected episodes in one attribute, got both {' and '.join(names)}")
    return _ByEpisode(names[0], attributes, infos) if names else _ByRow(attributes, infos)


class _ByRow(Layout):
    """Rows are steps, in a ring."""

    def __init__(self, attributes: dict[str, Any], infos: dict[str, ArrayInfo]) -> None:
        self._rows = read_int(attributes, "buffer_size", 1)
        self._envs = read_int(attributes, "n_envs", 1)
        self._pos = read_int(attributes, "pos", 0)
        self._is_full = read_flag(attributes, "full")
        self._is_shared = read_flag(attributes, "optimize_memory_usage", default=False)
        """Whether next observations are in the same array; in a full one the oldest row has the last of them."""
        self._arrays = infos
        self._check(attributes)

    def _check(self, attributes: dict[str, Any]) -> None:
        if self._pos >= self._rows:
            refuse(f"expected pos below the {self._rows} rows, got {self._pos}")
        for attribute in (*_REQUIRED, *(() if self._is_shared else (_NEXT,))):
            if not any(_belongs(name, attribute) for name in self._arrays):
                refuse(f"expected an array as {attribute}")
        axes = (self._rows, self._envs)
        for name, info in self._arrays.items():
            if any(_belongs(name, attribute) for attribute in _ROWS) and not self._has_rows(name, info):
                refuse(f"expected {quote(name)} of a shape that begins with {axes}, got {info.shape}")
        for name in ("rewards", "dones", "timeouts"):
            if name in self._arrays and self._arrays[name].shape != axes:
                refuse(f"expected {name} of shape {axes}, got {self._arrays[name].shape}")
        infos = attributes.get("infos")
        if isinstance(infos, ObjectArray) and infos.shape[:2] != axes:
            refuse(f"expected infos of shape {axes}, got {infos.shape}")

    def _has_rows(self, name: str, info: ArrayInfo) -> bool:
        return info.shape[:2] == (self._rows, self._envs) or self._lacks_envs(name, info)

    def _lacks_envs(self, name: str, info: ArrayInfo) -> bool:
        """Return whether these are actions of a DictReplayBuffer before SB3 1.4, without an axis of environments."""
        return name == "actions" and self._envs == 1 and len(info.shape) == 2 and info.shape[0] == self._rows

    def size(self) -> int:
        return self._rows if self._is_full else self._pos

    def table(self, budget: Budget) -> dict[str, np.ndarray]:
        first = self._pos if self._is_full else 0
        count = self.size()
        if self._is_full and self._is_shared:
            first, count = first + 1, count - 1
        budget.spend("member_bytes", self._rows * self._envs)
        done = self._in_time("dones", first, count)
        boundary = done.copy()
        boundary[:, -1:] = True
        budget.spend("expanded_items", int(np.count_nonzero(boundary)))  # a byte of the file may make one
        last = np.flatnonzero(boundary)
        starts = np.concatenate((last[:0], [0], last[:-1] + 1))[: len(last)]
        ends = np.where(done.reshape(-1)[last], _TERMINATED, _UNFINISHED)
        if "timeouts" in self._arrays:
            late = self._in_time("timeouts", first, count).reshape(-1)[last]
            ends[late & (ends == _TERMINATED)] = _TIMEOUT
        env = last // max(count, 1)
        return {
            "env": env,
            "start": (first + starts - env * count) % self._rows,
            "length": last + 1 - starts,
            "end": ends,
        }

    def _in_time(self, name: str, first: int, count: int) -> np.ndarray:
        """Return flags by environment and time, as bools of one byte each."""
        info = self._arrays[name]
        step = _PIECE if info.order == "C" and not info.axes else self._rows
        flags = np.empty((self._rows, self._envs), np.bool_)
        for start in range(0, self._rows, step):
            flags[start : start + step] = read_rows(info, start, min(start + step, self._rows)) != 0
        in_time: np.ndarray = np.roll(flags, -first, axis=0)[:count].T.copy()
        return in_time

    def positions(self, episode: Episode) -> np.ndarray:
        return np.arange(episode.start, episode.start + episode.length) % self._rows

    def steps(self, episode: Episode) -> dict[str, np.ndarray]:
        found = {}
        for name, info in self._arrays.items():
            if self._has_rows(name, info):
                rows = self._read_episode(info, episode)
                found[name] = rows if self._lacks_envs(name, info) else rows[:, episode.env]
        if self._is_shared:
            following = episode._replace(start=episode.start + 1)
            for name in [name for name in found if _belongs(name, _OBSERVATIONS)]:
                found[f"next_{name}"] = self._read_episode(self._arrays[name], following)[:, episode.env]
        return found

    def _read_episode(self, info: ArrayInfo, episode: Episode) -> np.ndarray:
        start = episode.start % self._rows
        over = start + episode.length - self._rows
        spans = [(start, start + episode.length)] if over <= 0 else [(start, self._rows), (0, over)]
        return np.concatenate([read_rows(info, first, stop) for first, stop in spans])


class _ByEpisode(Layout):
    """Rows are episodes of one environment; that at ``pos`` is unfinished when ``current_idx`` is not 0."""

    def __init__(self, name: str, attributes: dict[str, Any], infos: dict[str, ArrayInfo]) -> None:
        self._episodes = read_int(attributes, "max_episode_stored", 1)
        self._longest = read_int(attributes, "max_episode_length", 1)
        self._pos = read_int(attributes, "pos", 0)
        self._is_full = read_flag(attributes, "full")
        self._unfinished = read_int(attributes, "current_idx", 0)
        prefix = f"{segment(name)}/"
        self._arrays = {key.removeprefix(prefix): info for key, info in infos.items() if key.startswith(prefix)}
        self._lengths = self._read_lengths(infos)
        axes = (self._episodes, self._longest)
        for key, info in self._arrays.items():
            if info.shape[:2] != axes or (key in _STEPS and len(info.shape) < 3):
                refuse(f"expected {quote(key)} of a shape that begins with {axes}, got {info.shape}")
        if "done" not in self._arrays or self._arrays["done"].shape != (*axes, 1):
            refuse(f"expected done of shape {(*axes, 1)} in the episodes")
        if self._pos >= self._episodes or self._unfinished > self._longest:
            refuse(
                f"expected pos below {self._episodes} and current_idx of at most {self._longest}, "
                f"got {self._pos} and {self._unfinished}"
            )

    def _read_lengths(self, infos: dict[str, ArrayInfo]) -> np.ndarray:
        info = infos.get("episode_lengths")
        if info is None or info.shape != (self._episodes,) or info.dtype[1] not in "iu":
            refuse("expected an array of integers as episode_lengths, one per episode")
        lengths = np.asarray(info.to_numpy())
        if ((lengths < 0) | (lengths > self._longest)).any():
            refuse(f"expected episode_lengths from 0 to {self._longest}")
        return lengths.astype(np.int64)

    def size(self) -> int:
        return int(self._lengths.sum())

    def table(self, budget: Budget) -> dict[str, np.ndarray]:
        budget.spend("expanded_items", self._episodes)
        rows = np.arange(self._pos)
        if self._is_full:
            rows = (np.arange(self._episodes) + self._pos) % self._episodes
            rows = rows[1:] if self._unfinished else rows
        rows = rows[self._lengths[rows] > 0]
        lengths = self._lengths[rows]
        done = np.asarray(self._arrays["done"].to_numpy())[rows, lengths - 1, 0] != 0
        ends = np.where(done, _TERMINATED, _TIMEOUT)
        if self._unfinished:
            rows = np.append(rows, self._pos)
            lengths = np.append(lengths, self._unfinished)
            ends = np.append(ends, _UNFINISHED)
        return {"env": np.zeros_like(rows), "start": rows * self._longest, "length": lengths, "end": ends}

    def positions(self, episode: Episode) -> np.ndarray:
        return np.arange(episode.start, episode.start + episode.length)

    def steps(self, episode: Episode) -> dict[str, np.ndarray]:
        return dict(self._read_episode(episode))

    def _read_episode(self, episode: Episode) -> Iterator[tuple[str, np.ndarray]]:
        row, column = divmod(episode.start, self._longest)
        for key, info in self._arrays.items():
            steps = _read_steps(info, row, column, episode.length)
            is_of_env = key in _STEPS and key != "action"
            yield _STEPS.get(key, key), steps[:, 0] if is_of_env else steps


def _belongs(name: str, attribute: str) -> bool:
    return name == attribute or name.startswith(f"{attribute}/")


def read_rows(info: ArrayInfo, start: int, stop: int) -> np.ndarray:
    """Return rows of an array; of one that was left in its file, only they are read if they are contiguous."""
    if info.order != "C" or info.axes or not info.buffer:
        return np.asarray(info.to_numpy())[start:stop]
    size = len(info.buffer) // info.shape[0]
    part = info.buffer[start * size : stop * size]
    return np.asarray(info._replace(shape=(stop - start, *info.shape[1:]), buffer=part).to_numpy())


def _read_steps(info: ArrayInfo, row: int, start: int, length: int) -> np.ndarray:
    """Return steps of one episode, of an array whose rows are episodes."""
    if info.order != "C" or info.axes:
        return np.asarray(info.to_numpy())[row, start : start + length]
    flat = info._replace(shape=(info.shape[0] * info.shape[1], *info.shape[2:]))
    first = row * info.shape[1] + start
    return read_rows(flat, first, first + length)
