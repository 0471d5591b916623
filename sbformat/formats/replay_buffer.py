"""Replay buffers of Stable-Baselines3, read without running anything and in little memory (REPLAY-BUFFERS.md 18).

``save_replay_buffer`` pickles the buffer: numbers, spaces, and arrays of ``buffer_size`` rows by ``n_envs``, which may
be larger than memory. Here the arrays stay in the file until one is requested, and the rows are split into
trajectories.

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

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, TypeVar

import numpy as np

from sbformat.archive.archive import Lazy
from sbformat.errors import quote
from sbformat.formats.opener import open_archive
from sbformat.formats.pickled import PickledArchive
from sbformat.immutable import Record
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.known.table import find
from sbformat.known.types import EnumMember, Instance, ObjectArray
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.values import refuse as refuse_tensor
from sbformat.pth.values import refuse_unsupported, segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.known.types import Reference


T = TypeVar("T")


def refuse(message: str) -> NoReturn:
    """Raise a :class:`~sbformat.TensorError` about a replay buffer."""
    refuse_tensor(f"invalid replay buffer: {message}")


def read_number(attributes: dict[str, Any], name: str) -> int | float:
    """Return a number; a numpy scalar becomes a Python number."""
    if name not in attributes:
        refuse(f"{name} is missing")
    try:
        return to_number(attributes[name], name)
    except UnrecognizedError:
        refuse(f"expected a number as {name}")


def read_int(attributes: dict[str, Any], name: str, least: int) -> int:
    """Return an integer of at least ``least``."""
    found = read_number(attributes, name)
    if type(found) is not int or not least <= found < 2**63:
        refuse(f"expected an integer >= {least} as {name}")
    return found


def read_flag(attributes: dict[str, Any], name: str, *, default: bool | None = None) -> bool:
    """Return a flag, or the default when it is missing."""
    if default is not None and name not in attributes:
        return default
    found = read_number(attributes, name)
    if isinstance(found, float) or found not in (0, 1):
        refuse(f"expected a bool as {name}")
    return bool(found)


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


_OBSERVATIONS: Final = "observations"
_NEXT: Final = "next_observations"
_REQUIRED: Final = (_OBSERVATIONS, "actions", "rewards", "dones")
_PIECE: Final = 1 << 16  # rows that are read in one piece
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


def find_layout(attributes: dict[str, Any], infos: dict[str, ArrayInfo]) -> Layout:
    """Return the layout of a buffer, of its attributes as they were pickled, and its arrays by name."""
    names = [name for name in _EPISODES if isinstance(attributes.get(name), dict)]
    if len(names) > 1:
        refuse(f"expected episodes in one attribute, got both {' and '.join(names)}")
    return _ByEpisode(names[0], attributes, infos) if names else _ByRow(attributes, infos)


class _ByRow:
    """Rows are steps, in a ring."""

    def __init__(self, attributes: dict[str, Any], infos: dict[str, ArrayInfo]) -> None:
        self._rows = read_int(attributes, "buffer_size", 1)
        self._envs = read_int(attributes, "n_envs", 1)
        self._pos = read_int(attributes, "pos", 0)
        self._is_full = read_flag(attributes, "full")
        self._is_shared = read_flag(attributes, "optimize_memory_usage", default=False)
        """Whether next observations are in the same array; in a full one the oldest row has the last of them."""
        self._arrays = infos
        if self._pos >= self._rows:
            refuse(f"expected pos below the {self._rows} rows, got {self._pos}")
        for attribute in (*_REQUIRED, *(() if self._is_shared else (_NEXT,))):
            if not any(_belongs(name, attribute) for name in self._arrays):
                refuse(f"expected an array as {attribute}")
        for attribute in _ROWS:
            is_array = any(_belongs(name, attribute) for name in self._arrays)
            if attributes.get(attribute) is not None and not is_array:
                refuse(f"expected an array, or a dict of arrays, as {attribute}")
        axes = (self._rows, self._envs)
        for name, info in self._arrays.items():
            if any(_belongs(name, attribute) for attribute in _ROWS) and not self._has_rows(name, info):
                refuse(f"expected {quote(name)} of a shape that begins with {axes}, got {info.shape}")
        for name, info in self._arrays.items():
            attribute = name.partition("/")[0]
            if attribute in ("rewards", "dones", "timeouts") and info.shape != axes:
                refuse(f"expected {quote(name)} of shape {axes}, got {info.shape}")
            if name != attribute and attribute in ("dones", "timeouts"):
                refuse(f"expected an array as {attribute}, got a dict of arrays")
        texts = attributes.get("infos")
        if texts is not None and not (isinstance(texts, ObjectArray) and texts.shape[:2] == axes):
            refuse(f"expected an array of objects of shape {axes} as infos")

    def _has_rows(self, name: str, info: ArrayInfo) -> bool:
        return info.shape[:2] == (self._rows, self._envs) or self._lacks_envs(name, info)

    def _lacks_envs(self, name: str, info: ArrayInfo) -> bool:
        """Return whether these are actions of a DictReplayBuffer before SB3 1.4, without an axis of environments."""
        return name == "actions" and self._envs == 1 and len(info.shape) == 2 and info.shape[0] == self._rows

    def size(self) -> int:
        return self._rows if self._is_full else self._pos

    def table(self, budget: Budget) -> dict[str, np.ndarray]:
        """Return the trajectories as columns; each is charged to ``expanded_items``."""
        first = self._pos if self._is_full else 0
        count = self.size()
        if self._is_full and self._is_shared:  # the next observation of the last step is in the oldest row
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

    def spans(self, table: dict[str, np.ndarray]) -> Iterator[Episode]:
        """Yield the steps of each environment, whose episodes follow one another, as one."""
        for env in np.unique(table["env"]).tolist():
            chosen = table["env"] == env
            yield Episode(env, int(table["start"][chosen][0]), int(table["length"][chosen].sum()), "unfinished")

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


class _ByEpisode:
    """Rows are episodes of one environment; that at ``pos`` is unfinished when ``current_idx`` is not 0."""

    def __init__(self, name: str, attributes: dict[str, Any], infos: dict[str, ArrayInfo]) -> None:
        self._episodes = read_int(attributes, "max_episode_stored", 1)
        self._longest = read_int(attributes, "max_episode_length", 1)
        self._pos = read_int(attributes, "pos", 0)
        self._is_full = read_flag(attributes, "full")
        self._unfinished = read_int(attributes, "current_idx", 0)
        prefix = f"{segment(name)}/"
        self._arrays = {key.removeprefix(prefix): info for key, info in infos.items() if key.startswith(prefix)}
        stored = infos.get("episode_lengths")
        if stored is None or stored.shape != (self._episodes,) or stored.dtype[1] not in "iu":
            refuse("expected an array of integers as episode_lengths, one per episode")
        lengths = np.asarray(stored.to_numpy())
        if ((lengths < 0) | (lengths > self._longest)).any():
            refuse(f"expected episode_lengths from 0 to {self._longest}")
        self._stored, self._size = stored, int(lengths.sum(dtype=np.int64))  # buffers in each other may share the array
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

    def size(self) -> int:
        return self._size

    def table(self, budget: Budget) -> dict[str, np.ndarray]:
        budget.spend("expanded_items", self._episodes)
        rows = np.arange(self._pos)
        if self._is_full:
            rows = (np.arange(self._episodes) + self._pos) % self._episodes
            rows = rows[1:] if self._unfinished else rows
        stored = np.asarray(self._stored.to_numpy())
        rows = rows[stored[rows] > 0]
        lengths = stored[rows].astype(np.int64)
        done = np.asarray(self._arrays["done"].to_numpy())[rows, lengths - 1, 0] != 0
        ends = np.where(done, _TERMINATED, _TIMEOUT)
        if self._unfinished:
            rows = np.append(rows, self._pos)
            lengths = np.append(lengths, self._unfinished)
            ends = np.append(ends, _UNFINISHED)
        return {"env": np.zeros_like(rows), "start": rows * self._longest, "length": lengths, "end": ends}

    def spans(self, table: dict[str, np.ndarray]) -> Iterator[Episode]:
        for start, length in zip(table["start"].tolist(), table["length"].tolist()):
            yield Episode(0, start, length, "unfinished")

    def positions(self, episode: Episode) -> np.ndarray:
        return np.arange(episode.start, episode.start + episode.length)

    def steps(self, episode: Episode) -> dict[str, np.ndarray]:
        row, column = divmod(episode.start, self._longest)
        found = {}
        for key, info in self._arrays.items():
            steps = _read_steps(info, row, column, episode.length)
            is_of_env = key in _STEPS and key != "action"
            found[_STEPS.get(key, key)] = steps[:, 0] if is_of_env else steps
        return found


Layout: TypeAlias = _ByRow | _ByEpisode
"""The positions of a buffer's steps; created and checked by :func:`find_layout`."""


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
    """The number of steps of an ``NStepReplayBuffer``, as ``gamma``; None for others."""
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

    def _repr_html_(self) -> str:
        """Return settings and arrays for notebooks, without reading an array."""
        from sbformat.notebook import MAX_ROWS, describe_value, render_output, render_table
        from sbformat.rendering import count_noun, format_size
        from sbformat.values.render import render_line

        hidden = ("type", "is_known", "arrays", "infos", "limits", "layout", "offline")
        facts = [(name, getattr(self, name)) for name in self.__dataclass_fields__ if name not in hidden]
        rows = [
            (name, render_line(value) if "space" in name else describe_value(value))
            for name, value in facts
            if value is not None
        ]
        header = ("array", "dtype", "shape", "size")
        arrays = [
            (name, info.dtype, " x ".join(map(str, info.shape)), format_size(len(info.buffer)))
            for name, info in islice(self.infos.items(), MAX_ROWS)
        ]
        title = (
            f"{self.type.name}: {self.size():,} of {self.buffer_size:,} rows, {count_noun(self.n_envs, 'environment')}"
        )
        tables = [render_table("", header, arrays, right=(3,), count=len(self.infos)), render_table("", (), rows)]
        return render_output(title, tables)

    def size(self) -> int:
        """Return the number of filled rows, as SB3's ``size``; when rows are episodes, the number of their steps."""
        return self.layout.size()

    def scalars(self) -> dict[str, np.ndarray]:
        """Return ``pos``, ``buffer_size`` and ``n_envs`` as int64 and ``full`` as bool, arrays of shape ``()``."""
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
            refuse_unsupported(
                "expected optimize_memory_usage: next observations are in next_observations, in the same rows"
            )
        return self.layout.positions(episode._replace(start=episode.start + 1))

    def steps(self, episode: Episode) -> dict[str, np.ndarray]:
        """Return the arrays of one episode, each of shape ``(episode.length, ...)``, without the axis of environments.

        Only its rows are read. With ``optimize_memory_usage`` the next observations come from the following rows.

        Example::

            buffer.steps(episode)["observations"]  # of shape (episode.length, *observation_space.shape)
        """
        return self.layout.steps(episode)

    def to_pandas(self) -> Any:
        """Return all steps as a ``pandas.DataFrame``: a row for each, one environment after the other in order of time.

        The columns are ``episode`` (its number), ``env``, ``end`` (of the episode), then the arrays of :meth:`steps`:
        one of several numbers a step is ``observations.0``, ``observations.1``, ...; of more than 256, such as an
        image, an array in one column. Values are as SB3 stores them: actions of a Box space are scaled to -1 and 1.

        :raises UnsupportedError: when pandas is not installed (extra ``dataset``)

        Example::

            buffer.to_pandas().groupby("episode")["rewards"].sum()
        """
        from sbformat.formats.steps import make_frame

        return make_frame(self)


def read_replay_buffer(source: Archive | SourceLike, *, limits: Limits = DEFAULT_LIMITS) -> ReplayBuffer:
    """Read a file that ``save_replay_buffer`` wrote; nothing in it is run (REPLAY-BUFFERS.md 18).

    The arrays of a file of more than 32 MiB, given as a path, stay in the file; it must not change while it is in use.

    :param source: a path, bytes, a binary file object, or what :func:`sbformat.read` returned for one
    :param limits: bounds on what the file may use; arrays are not counted
    :return: the buffer, with its arrays of shape ``(buffer_size, n_envs, ...)``
    :raises OSError: from the path, unchanged
    :raises PickleError: when the file is not a pickle
    :raises TensorError: when its arrays and numbers do not fit together
    :raises UnsupportedError: when the file is something else
    :raises LimitError: when it exceeds a limit

    Example::

        buffer = sbformat.read_replay_buffer("replay_buffer.pkl")
        for episode in buffer.episodes():
            rewards = buffer.steps(episode)["rewards"]  # float32, one per step
    """
    return replay_buffer_of(open_archive(source, Budget(limits)))


def replay_buffer_of(archive: Archive) -> ReplayBuffer:
    """Return the replay buffer in an archive that :func:`sbformat.read` returned."""
    value = _buffer_in(archive)
    if value is None or not isinstance(archive, PickledArchive):
        refuse_unsupported(f"expected a replay buffer, got a file of the kind {archive.format} or an unknown class")
    return _make_buffers(value, archive)


def is_of_sb3(archive: Archive) -> bool:
    """Return whether an archive is a replay buffer of one of SB3's classes."""
    value = _buffer_in(archive)
    return value is not None and find(value.type.pair).is_plain


def _buffer_in(archive: Archive) -> Instance | None:
    value = archive.value if isinstance(archive, PickledArchive) and archive.format == "replay-buffer" else None
    return value if isinstance(value, Instance) else None


def _make_buffers(value: Instance, archive: PickledArchive) -> ReplayBuffer:
    """Return a buffer with the one that it filled, if it sampled offline, which may have one of its own, and so on."""
    filled, inner = [_make_buffer(value, archive)], archive.nested_objects("replay_buffer", "replay-buffer")
    while isinstance(filled[-1].layout, _ByEpisode) and _hindsight(value.attributes).online_sampling is False:
        found = next(inner, None)
        if found is None:
            refuse("expected a replay buffer as replay_buffer, because it sampled offline")
        value = found
        filled.append(_make_buffer(value, archive))
    made = filled.pop()
    while filled:
        made = replace(filled.pop(), offline=made)
    return made


def _make_buffer(value: Instance, archive: PickledArchive) -> ReplayBuffer:
    attributes = value.attributes
    infos = _arrays(attributes)
    layout = find_layout(attributes, infos)
    hindsight = _hindsight(attributes)
    return ReplayBuffer(
        type=value.type,
        is_known=find(value.type.pair).is_plain,
        buffer_size=read_int(attributes, "buffer_size", 1),
        n_envs=read_int(attributes, "n_envs", 1),
        pos=read_int(attributes, "pos", 0),
        full=read_flag(attributes, "full"),
        observation_space=attributes.get("observation_space"),
        action_space=attributes.get("action_space"),
        optimize_memory_usage=read_flag(attributes, "optimize_memory_usage", default=False),
        handle_timeout_termination=read_flag(attributes, "handle_timeout_termination", default=False),
        n_steps=_read_any(read_int, attributes, "n_steps", 1),
        gamma=_read_any(read_number, attributes, "gamma"),
        hindsight=hindsight if "her_ratio" in attributes else None,
        offline=None,
        arrays=Lazy({name: name for name in infos}, lambda name: np.asarray(infos[name].to_numpy()), "array"),
        infos=infos,
        limits=archive.limits,
        layout=layout,
    )


def _arrays(attributes: dict[str, Any]) -> dict[str, ArrayInfo]:
    """Return the arrays by name; those in a dict of arrays by the names of the dict and the array."""
    found: dict[str, ArrayInfo] = {}
    for name, value in attributes.items():
        if isinstance(value, ArrayInfo) and not value.is_scalar:
            found[segment(name)] = value
        elif isinstance(value, dict) and all(
            type(key) is str and isinstance(part, ArrayInfo) and not part.is_scalar for key, part in value.items()
        ):
            found |= {f"{segment(name)}/{segment(key)}": part for key, part in value.items()}
    return found


def _read_any(read: Callable[..., T], attributes: dict[str, Any], name: str, *least: int) -> T | None:
    """Return an attribute, or None when it is missing."""
    return read(attributes, name, *least) if name in attributes else None


def _hindsight(attributes: dict[str, Any]) -> Hindsight:
    strategy = attributes.get("goal_selection_strategy")
    return Hindsight(
        goal_selection_strategy=strategy.value if isinstance(strategy, EnumMember) else strategy,
        n_sampled_goal=_read_any(read_int, attributes, "n_sampled_goal", 0),
        her_ratio=_read_any(read_number, attributes, "her_ratio"),
        copy_info_dict=_read_any(read_flag, attributes, "copy_info_dict"),
        online_sampling=_read_any(read_flag, attributes, "online_sampling"),
        max_episode_length=_read_any(read_int, attributes, "max_episode_length", 0),
        max_episode_stored=_read_any(read_int, attributes, "max_episode_stored", 0),
        current_idx=_read_any(read_int, attributes, "current_idx", 0),
    )
