"""Where the steps of a replay buffer stand, and which of them are one trajectory (FORMAT.md 18.3).

Two layouts: rows that are steps of all environments at a time, written round and round; and, in hindsight buffers
before SB3 1.8, rows that are episodes of one environment. Sources: SB3 ``common/buffers.py``,
``her/her_replay_buffer.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import quote
from sbformat.formats.replay_buffer.attributes import a_flag, a_whole, refuse
from sbformat.pth.addresses import segment
from sbformat.values.types import ObjectArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.formats.replay_buffer.values import Episode
    from sbformat.limits import Budget
    from sbformat.pkl.numpy import ArrayInfo

_OBSERVATIONS: Final = "observations"
_NEXT: Final = "next_observations"
_REQUIRED: Final = (_OBSERVATIONS, "actions", "rewards", "dones")
_PIECE: Final = 1 << 16
"""Rows that are read at once."""
_ROWS: Final = (*_REQUIRED, _NEXT, "timeouts", "ep_start", "ep_length")
"""What has a row a position, by attribute."""
_EPISODES: Final = ("_buffer", "buffer")
"""Where hindsight buffers keep episodes: of SB3 1.1 to 1.7, and before."""
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
"""What such an episode's parts are called in any other buffer."""
_TERMINATED, _TIMEOUT, _UNFINISHED = 0, 1, 2


class Layout(ABC):
    """The steps of a buffer; made by :func:`layout_of`, checked."""

    @abstractmethod
    def size(self) -> int:
        """Return what SB3's ``size`` does."""

    @abstractmethod
    def table(self, budget: Budget) -> dict[str, np.ndarray]:
        """Return the trajectories as columns; ``expanded_items`` is charged for each."""

    @abstractmethod
    def positions(self, episode: Episode) -> np.ndarray:
        """Return where the steps of an episode stand."""

    @abstractmethod
    def steps(self, episode: Episode) -> dict[str, np.ndarray]:
        """Return the arrays of an episode."""


def layout_of(attributes: dict[str, Any], infos: dict[str, ArrayInfo]) -> Layout:
    """Return the layout of a buffer.

    :param attributes: as they were pickled
    :param infos: its arrays by name
    :raises TensorError: when the arrays and numbers do not fit each other
    """
    names = [name for name in _EPISODES if isinstance(attributes.get(name), dict)]
    if len(names) > 1:
        refuse(f"episodes are in both {' and '.join(names)}")
    return _ByEpisode(names[0], attributes, infos) if names else _ByRow(attributes, infos)


class _ByRow(Layout):
    """Rows that are steps, written round and round."""

    def __init__(self, attributes: dict[str, Any], infos: dict[str, ArrayInfo]) -> None:
        self._rows = a_whole(attributes, "buffer_size", 1)
        self._envs = a_whole(attributes, "n_envs", 1)
        self._pos = a_whole(attributes, "pos", 0)
        self._is_full = a_flag(attributes, "full")
        self._is_shared = a_flag(attributes, "optimize_memory_usage", default=False)
        """One array for observations and next ones: of a full buffer the oldest row holds the newest's next."""
        self._arrays = infos
        self._check(attributes)

    def _check(self, attributes: dict[str, Any]) -> None:
        if self._pos >= self._rows:
            refuse(f"pos is {self._pos}, of {self._rows} rows")
        for attribute in (*_REQUIRED, *(() if self._is_shared else (_NEXT,))):
            if not any(_belongs(name, attribute) for name in self._arrays):
                refuse(f"{attribute} is no array")
        axes = (self._rows, self._envs)
        for name, info in self._arrays.items():
            if any(_belongs(name, attribute) for attribute in _ROWS) and not self._has_rows(name, info):
                refuse(f"{quote(name)} has the shape {info.shape}, not {axes} and more")
        for name in ("rewards", "dones", "timeouts"):
            if name in self._arrays and self._arrays[name].shape != axes:
                refuse(f"{name} has the shape {self._arrays[name].shape}, not {axes}")
        infos = attributes.get("infos")
        if isinstance(infos, ObjectArray) and infos.shape[:2] != axes:
            refuse(f"infos has the shape {infos.shape}, not {axes}")

    def _has_rows(self, name: str, info: ArrayInfo) -> bool:
        return info.shape[:2] == (self._rows, self._envs) or self._lacks_envs(name, info)

    def _lacks_envs(self, name: str, info: ArrayInfo) -> bool:
        """Say whether these are the actions of a DictReplayBuffer before SB3 1.4: rows of one environment, no axis."""
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
        budget.spend("expanded_items", int(np.count_nonzero(boundary)))  # each may be a byte of the file
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
        """Return flags by environment and time; a byte each, however wide they are in the file."""
        info = self._arrays[name]
        step = _PIECE if info.order == "C" and not info.axes else self._rows
        flags = np.empty((self._rows, self._envs), np.bool_)
        for start in range(0, self._rows, step):
            flags[start : start + step] = rows_of(info, start, min(start + step, self._rows)) != 0
        in_time: np.ndarray = np.roll(flags, -first, axis=0)[:count].T.copy()
        return in_time

    def positions(self, episode: Episode) -> np.ndarray:
        return np.arange(episode.start, episode.start + episode.length) % self._rows

    def steps(self, episode: Episode) -> dict[str, np.ndarray]:
        found = {}
        for name, info in self._arrays.items():
            if self._has_rows(name, info):
                rows = self._taken(info, episode)
                found[name] = rows if self._lacks_envs(name, info) else rows[:, episode.env]
        if self._is_shared:
            behind = episode._replace(start=episode.start + 1)
            for name in [name for name in found if _belongs(name, _OBSERVATIONS)]:
                found[f"next_{name}"] = self._taken(self._arrays[name], behind)[:, episode.env]
        return found

    def _taken(self, info: ArrayInfo, episode: Episode) -> np.ndarray:
        start = episode.start % self._rows
        over = start + episode.length - self._rows
        spans = [(start, start + episode.length)] if over <= 0 else [(start, self._rows), (0, over)]
        return np.concatenate([rows_of(info, first, stop) for first, stop in spans])


class _ByEpisode(Layout):
    """Rows that are episodes, of one environment; the one at ``pos`` is under way when ``current_idx`` is not 0."""

    def __init__(self, name: str, attributes: dict[str, Any], infos: dict[str, ArrayInfo]) -> None:
        self._episodes = a_whole(attributes, "max_episode_stored", 1)
        self._longest = a_whole(attributes, "max_episode_length", 1)
        self._pos = a_whole(attributes, "pos", 0)
        self._is_full = a_flag(attributes, "full")
        self._under_way = a_whole(attributes, "current_idx", 0)
        prefix = f"{segment(name)}/"
        self._arrays = {key.removeprefix(prefix): info for key, info in infos.items() if key.startswith(prefix)}
        self._lengths = self._checked_lengths(infos)
        axes = (self._episodes, self._longest)
        for key, info in self._arrays.items():
            if info.shape[:2] != axes or (key in _STEPS and len(info.shape) < 3):
                refuse(f"{quote(key)} has the shape {info.shape}, not {axes} and more")
        if "done" not in self._arrays or self._arrays["done"].shape != (*axes, 1):
            refuse("episodes have no array of ends")
        if self._pos >= self._episodes or self._under_way > self._longest:
            refuse(f"pos is {self._pos}, of {self._episodes} episodes, or current_idx more than an episode's steps")

    def _checked_lengths(self, infos: dict[str, ArrayInfo]) -> np.ndarray:
        info = infos.get("episode_lengths")
        if info is None or info.shape != (self._episodes,) or info.dtype[1] not in "iu":
            refuse("episode_lengths is no array of whole numbers, one an episode")
        lengths = np.asarray(info.to_numpy())
        if ((lengths < 0) | (lengths > self._longest)).any():
            refuse("episode_lengths are out of range")
        return lengths.astype(np.int64)

    def size(self) -> int:
        return int(self._lengths.sum())

    def table(self, budget: Budget) -> dict[str, np.ndarray]:
        budget.spend("expanded_items", self._episodes)
        rows = np.arange(self._pos)
        if self._is_full:
            rows = (np.arange(self._episodes) + self._pos) % self._episodes
            rows = rows[1:] if self._under_way else rows
        rows = rows[self._lengths[rows] > 0]
        lengths = self._lengths[rows]
        done = np.asarray(self._arrays["done"].to_numpy())[rows, lengths - 1, 0] != 0
        ends = np.where(done, _TERMINATED, _TIMEOUT)
        if self._under_way:
            rows = np.append(rows, self._pos)
            lengths = np.append(lengths, self._under_way)
            ends = np.append(ends, _UNFINISHED)
        return {"env": np.zeros_like(rows), "start": rows * self._longest, "length": lengths, "end": ends}

    def positions(self, episode: Episode) -> np.ndarray:
        return np.arange(episode.start, episode.start + episode.length)

    def steps(self, episode: Episode) -> dict[str, np.ndarray]:
        return dict(self._taken(episode))

    def _taken(self, episode: Episode) -> Iterator[tuple[str, np.ndarray]]:
        row, column = divmod(episode.start, self._longest)
        for key, info in self._arrays.items():
            steps = _flat_rows(info, row, column, episode.length)
            is_of_env = key in _STEPS and key != "action"
            yield _STEPS.get(key, key), steps[:, 0] if is_of_env else steps


def _belongs(name: str, attribute: str) -> bool:
    return name == attribute or name.startswith(f"{attribute}/")


def rows_of(info: ArrayInfo, start: int, stop: int) -> np.ndarray:
    """Return rows of an array; of one that was left in its file, no others are read where they are one run of it."""
    if info.order != "C" or info.axes or not info.buffer:
        return np.asarray(info.to_numpy())[start:stop]
    size = len(info.buffer) // info.shape[0]
    part = info.buffer[start * size : stop * size]
    return np.asarray(info._replace(shape=(stop - start, *info.shape[1:]), buffer=part).to_numpy())


def _flat_rows(info: ArrayInfo, row: int, start: int, length: int) -> np.ndarray:
    """Return steps of one episode."""
    if info.order != "C" or info.axes:
        return np.asarray(info.to_numpy())[row, start : start + length]
    flat = info._replace(shape=(info.shape[0] * info.shape[1], *info.shape[2:]))
    first = row * info.shape[1] + start
    return rows_of(flat, first, first + length)
