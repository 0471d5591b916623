"""``load_replay_buffer``: a replay buffer of any release as SB3's own, for a model (REPLAY-BUFFERS.md 18).

In: the arrays and numbers of a file, which :mod:`sbformat.formats.replay_buffer` read without executing anything. Out:
a buffer of SB3 that its own constructor made for the spaces of the model, with those arrays in place of its empty ones.
A class is never imported by a name of the file: it is one of SB3's four, or the model's own ``replay_buffer_class``.

A hindsight buffer before SB3 1.8 has episodes in its rows; they become steps in their order. Example, two episodes of
2 and 3 steps and one unfinished step, in a buffer of 8 steps::

    row        0  1  2  3  4  5  6  7        pos 6, _current_ep_start 5
    ep_start   0  0  2  2  2  5  0  0
    ep_length  2  2  3  3  3  0  0  0
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.formats.pickled import PickledArchive
from sbformat.formats.replay_buffer import replay_buffer_of
from sbformat.io.opening import is_remote
from sbformat.known.types import ObjectArray
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.values import segment
from sbformat.reader import read
from sbformat.sb3.installed import find_installed_release
from sbformat.tools.rebuild.data_keys import GOAL_STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.archive import Archive
    from sbformat.formats.replay_buffer import ReplayBuffer
    from sbformat.io.opening import SourceLike

_BUFFERS: Final = "stable_baselines3.common.buffers"
_HER: Final = "HerReplayBuffer"
_MODULES: Final = {
    "ReplayBuffer": _BUFFERS,
    "DictReplayBuffer": _BUFFERS,
    "NStepReplayBuffer": _BUFFERS,
    _HER: "stable_baselines3.her.her_replay_buffer",
}
"""SB3's classes by name, and the modules that they are saved under."""
_OLD_MODULES: Final = {"stable_baselines3.her.her_replay_buffer", "stable_baselines3.her.replay_buffer"}
_NUMBERS: Final = "biuf"
_OPTIONAL: Final = "timeouts"  # an array that SB3 did not have before 1.1
_OF_EPISODES: Final = ("ep_start", "ep_length")


def load_replay_buffer(
    model: Any,
    source: Archive | SourceLike,
    truncate_last_traj: bool = True,  # noqa: FBT001, FBT002 -- the arguments of SB3's method, in its order
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Set a model's replay buffer as its ``load_replay_buffer`` does, from a file of any release, or an untrusted one.

    The file is read without executing anything (:func:`sbformat.read_replay_buffer`)::

        model = sbformat.sb3.load(SAC, "agent.zip", env=env)
        sbformat.sb3.load_replay_buffer(model, "replay_buffer.pkl")
        model.learn(10_000, reset_num_timesteps=False)

    :param model: an off-policy model of SB3; ``HerReplayBuffer`` requires that it has an environment
    :param source: a path, with or without ``.pkl``, bytes, a binary file, or an archive
    :param truncate_last_traj: as in SB3: whether an unfinished episode of a ``HerReplayBuffer`` ends here
    :param limits: as in :func:`sbformat.read_replay_buffer`
    :raises UnsupportedError: when SB3 is not installed, when the installed release has no such buffer, when its class
        is neither SB3's nor the model's own, and when its arrays do not fit the model's spaces
    :raises SbformatError: when the file cannot be read
    """
    find_installed_release()
    archive = read(_find_file(source), limits=limits)
    found = replay_buffer_of(archive)
    value: Any = archive.value if isinstance(archive, PickledArchive) else None
    infos = value.attributes.get("infos")  # of a hindsight buffer, a dict per step
    made = _make_buffer(found, infos if isinstance(infos, ObjectArray) else None, model)
    if truncate_last_traj and hasattr(made, "truncate_last_trajectory"):
        made.truncate_last_trajectory()
    made.device = model.device  # the constructor replaces one that is not available
    model.replay_buffer = made


def _find_file(source: Archive | SourceLike) -> Archive | SourceLike:
    """Return a path with ``.pkl`` when it does not exist without, as SB3 does."""
    if isinstance(source, (str, os.PathLike)) and not is_remote(source) and not os.path.exists(source):
        with_suffix = f"{os.fsdecode(source)}.pkl"
        if os.path.exists(with_suffix):
            return with_suffix
    return source


# -- the buffer ---------------------------------------------------------------------------------------


def _make_buffer(found: ReplayBuffer, infos: ObjectArray | None, model: Any) -> Any:
    """Return a buffer of SB3 with the arrays of a file."""
    arrays: Mapping[str, np.ndarray] = found.arrays
    rows, pos, full = found.buffer_size, found.pos, found.full
    has_episodes_in_rows = found.hindsight is not None and found.hindsight.max_episode_stored is not None
    if has_episodes_in_rows:
        rows, count, arrays = _list_steps(found)
        pos, full = count % rows, count == rows
    made, is_own = _construct(found, rows, model)
    axes = rows, found.n_envs
    for name, empty in list(vars(made).items()):
        if isinstance(empty, np.ndarray) and empty.dtype != object:
            setattr(made, name, _take_array(arrays, segment(name), empty, axes, is_own=is_own))
        elif isinstance(empty, dict) and any(isinstance(part, np.ndarray) for part in empty.values()):
            parts = {
                key: _take_array(arrays, f"{segment(name)}/{segment(key)}", part, axes, is_own=is_own)
                for key, part in empty.items()
            }
            setattr(made, name, parts)
    if hasattr(made, "infos"):
        made.infos = _make_infos(infos, axes)
        _check_episodes(made, rows)
    made.buffer_size, made.pos, made.full = rows, pos, full
    return made


def _construct(found: ReplayBuffer, rows: int, model: Any) -> tuple[Any, bool]:
    """Return a buffer without content, and whether its class is the model's own.

    One of SB3's has one row, since all its arrays are then replaced.
    """
    cls, is_own = _find_class(found, model)
    names = ("optimize_memory_usage", "handle_timeout_termination")
    arguments: dict[str, Any] = {name: getattr(found, name) for name in names}
    if is_own:
        arguments |= dict(model.replay_buffer_kwargs or {})
    elif found.n_steps is not None:
        arguments |= {"n_steps": found.n_steps, "gamma": found.gamma}
    if not is_own and cls.__name__ == _HER:
        arguments |= _make_her_arguments(found)
    if hasattr(cls, "set_env"):
        if model.env is None:
            raise UnsupportedError("a HerReplayBuffer needs an environment: pass env when loading the model")
        arguments["env"] = model.env
    count = (rows if is_own else 1) * found.n_envs
    spaces = model.observation_space, model.action_space
    try:
        made = cls(count, *spaces, device=model.device, n_envs=found.n_envs, **arguments)
    except (AssertionError, TypeError, ValueError) as error:
        message = f"{cls.__name__} refuses the settings of the file for the model's spaces: {error}"
        raise UnsupportedError(message) from error
    return made, is_own


def _find_class(found: ReplayBuffer, model: Any) -> tuple[Any, bool]:
    """Return the class of a buffer, and whether it is the model's own instead of SB3's."""
    own = getattr(model, "replay_buffer_class", None)
    module, name = found.type.pair
    if name in _MODULES and (module == _MODULES[name] or (name == _HER and module in _OLD_MODULES)):
        from stable_baselines3.common import buffers
        from stable_baselines3.her import HerReplayBuffer

        cls = HerReplayBuffer if name == _HER else getattr(buffers, name, None)
        if cls is None:
            raise UnsupportedError(f"the installed Stable-Baselines3 has no {name}")
        return cls, False
    if own is not None and (own.__module__, own.__qualname__) == (module, name):
        return own, True
    message = f"expected a replay buffer of SB3, or of the model's replay_buffer_class, got {quote(str(found.type))}"
    raise UnsupportedError(message)


def _make_her_arguments(found: ReplayBuffer) -> dict[str, Any]:
    """Return the arguments of a hindsight buffer: before SB3 1.1 it had a ratio instead of a number of goals."""
    settings = found.hindsight
    if settings is None:
        return {}
    made: dict[str, Any] = {"copy_info_dict": bool(settings.copy_info_dict)}
    count, ratio = settings.n_sampled_goal, settings.her_ratio
    if count is None and ratio is not None and 0 <= ratio < 1:
        count = round(ratio / (1 - ratio))
    if count is not None:
        made["n_sampled_goal"] = count
    strategy = settings.goal_selection_strategy
    if type(strategy) is int and strategy in range(len(GOAL_STRATEGIES)):
        made["goal_selection_strategy"] = GOAL_STRATEGIES[strategy]
    return made


# -- arrays -------------------------------------------------------------------------------------------


def _take_array(
    arrays: Mapping[str, np.ndarray], name: str, empty: np.ndarray, axes: tuple[int, int], *, is_own: bool
) -> np.ndarray:
    """Return an array of the file that can be written to; zeros when the release that saved it did not have it.

    :param empty: the array that the constructor made in its place
    :param axes: rows and environments
    :param is_own: whether the class is the model's own, whose other arrays may be missing and are kept
    """
    if name not in arrays and is_own:
        return empty
    has_rows = empty.ndim > 1 and not is_own
    shape = (*axes, *empty.shape[2:]) if has_rows else empty.shape
    if name not in arrays:
        if name == _OPTIONAL:
            return np.zeros(shape, empty.dtype)
        raise UnsupportedError(f"expected an array {quote(name)} of shape {shape} for the spaces of the model")
    array = arrays[name]
    if has_rows and array.shape == (axes[0], *shape[2:]) and axes[1] == 1:  # actions before SB3 1.4
        array = array.reshape(shape)
    if array.shape != shape or array.dtype.kind not in _NUMBERS:
        expected = f"expected {quote(name)} to be numbers of shape {shape} for the spaces of the model"
        raise UnsupportedError(f"{expected}, got {array.dtype} of shape {array.shape}")
    return array if array.flags.writeable else array.copy()


def _make_infos(infos: ObjectArray | None, axes: tuple[int, int]) -> np.ndarray:
    """Return a dict for each step: that of the file if it consists of plain values, else an empty one."""
    made = np.empty(axes, object)
    items = infos.items if infos is not None and infos.shape == axes else [None] * made.size
    for index, item in enumerate(items):
        plain = _make_plain(item) if isinstance(item, dict) else {}
        made.flat[index] = plain if isinstance(plain, dict) else {}
    return made


def _make_plain(value: object) -> Any:
    """Return what a decoded value of an info is for Python: numbers, text, arrays and containers; None for others."""
    if isinstance(value, ArrayInfo):
        array = np.asarray(value.to_numpy())
        return array[()] if value.is_scalar else array.copy()
    if isinstance(value, dict):
        return {key: _make_plain(part) for key, part in value.items() if isinstance(key, (str, int))}
    if type(value) in (list, tuple):
        return type(value)(_make_plain(part) for part in value)  # type: ignore[attr-defined, call-arg]
    return value if type(value) in (bool, int, float, str) else None


def _check_episodes(made: Any, rows: int) -> None:
    """Check the rows where the episodes of a hindsight buffer begin, and their lengths: SB3 indexes with them."""
    for name, most in (("ep_start", rows - 1), ("ep_length", rows), ("_current_ep_start", rows - 1)):
        array = getattr(made, name, None)
        if array is not None and array.size and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() > most):
            raise TensorError(f"invalid replay buffer: expected {name} to be integers from 0 to {most}")


def _list_steps(found: ReplayBuffer) -> tuple[int, int, dict[str, np.ndarray]]:
    """Return the rows, steps and arrays of a buffer of steps for one whose rows are episodes (HER before SB3 1.8)."""
    settings: Any = found.hindsight
    rows = max(1, min(found.buffer_size, settings.max_episode_stored * settings.max_episode_length), found.size())
    made: dict[str, np.ndarray] = {name: np.zeros((rows, 1), np.int64) for name in _OF_EPISODES}
    made["timeouts"] = np.zeros((rows, 1), np.float32)
    start = 0
    open_start = None
    for episode in found.episodes():
        stop = start + episode.length
        if stop > rows:
            raise TensorError(f"invalid replay buffer: expected at most {rows} steps")
        for name, steps in found.steps(episode).items():
            if name not in made:
                made[name] = np.zeros((rows, 1, *steps.shape[1:]), steps.dtype)
            made[name][start:stop, 0] = steps
        made["ep_start"][start:stop] = start
        if episode.end == "unfinished":
            open_start = start
        else:
            made["ep_length"][start:stop] = episode.length
            made["dones"].reshape(rows, -1)[stop - 1] = 1
            made["timeouts"][stop - 1] = episode.end == "timeout"
        start = stop
    made["_current_ep_start"] = np.array([start % rows if open_start is None else open_start], np.int64)
    return rows, start, made
