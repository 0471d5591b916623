"""What a file of normalisation statistics says, as a value that normalises like SB3's own (FORMAT.md 17.3)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, TypeVar

from sbformat.errors import MissingEntryError, TensorError, UnsupportedError, escape, quote
from sbformat.pkl.numpy import ITEM_SIZES
from sbformat.values.types import Box, DictSpace, Value

if TYPE_CHECKING:
    import numpy as np

    from sbformat.values.types import Space

T = TypeVar("T")

Library: TypeAlias = Literal["stable_baselines3", "stable_baselines"]
"""SB3 or its predecessor, SB2."""
LIBRARIES: Final = ("stable_baselines3", "stable_baselines")

_NUMBERS: Final = "biuf"
"""Kinds of numpy's dtypes that can be normalised."""
_HELD: Final = "biufc"
"""Kinds that an observation may be of."""
_MOST_ENVS: Final = 2**31
_SHOWN: Final = 8
"""Keys in a repr."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RunningMeanStd:
    """Mean, variance and number of what was seen; equal bit for bit.

    :param mean: any shape; becomes a read-only float64 array
    :param var: of the same shape; kept as it is, be it negative or NaN
    :param count: how many were seen, plus SB3's 0.0001
    :raises TensorError: when the two are not numbers of one shape
    """

    mean: np.ndarray
    var: np.ndarray
    count: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _frozen(self.mean, "mean", "float64"))
        object.__setattr__(self, "var", _frozen(self.var, "var", "float64"))
        object.__setattr__(self, "count", _number(self.count, "count"))
        if self.mean.shape != self.var.shape:
            message = f"the mean has the shape {self.mean.shape}, the variance {self.var.shape}"
            raise TensorError(message)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of mean and variance."""
        return self.mean.shape

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return _same_fields(self, other)

    def __repr__(self) -> str:
        return f"<RunningMeanStd {self.shape} of {self.count!r}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class VecNormalize:
    """Normalisation statistics and settings, as SB3's ``VecNormalize`` has them; equal by value, arrays bit for bit.

    What it is made of fits together: whatever is to be normalised has statistics, of the shape of its space.

    :raises TensorError: for shapes that do not fit each other
    :raises UnsupportedError: for a setting of another type
    :raises MissingEntryError: when statistics are missing that the flags ask for
    """

    obs_rms: RunningMeanStd | dict[str, RunningMeanStd] | None = None
    """Of observations: one, or by key of a Dict space."""
    ret_rms: RunningMeanStd | None = None
    """Of discounted returns: without dimensions."""
    clip_obs: float = 10.0
    clip_reward: float = 10.0
    gamma: float = 0.99
    epsilon: float = 1e-8
    training: bool = True
    """Whether SB3 goes on updating the statistics."""
    norm_obs: bool = True
    norm_reward: bool = True
    norm_obs_keys: tuple[str, ...] | None = None
    """Which keys of a Dict space are normalised; all that have statistics when it is not said. None without keys."""
    num_envs: int | None = None
    observation_space: Space | None = None
    """A value of :mod:`sbformat.values.types` without its random generator; None where the file has none, or one that
    is not known."""
    action_space: Space | None = None
    library: Library = "stable_baselines3"
    """Which one wrote it."""
    old_obs: np.ndarray | dict[str, np.ndarray] | None = None
    """The last observation before it was normalised; None when it is neither an array nor arrays by key."""
    old_reward: np.ndarray | None = None

    def __post_init__(self) -> None:
        _settle(self)
        _check_statistics(self)
        _check_spaces(self)

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return _same_fields(self, other)

    def __repr__(self) -> str:
        shown = self.obs_rms
        if isinstance(shown, dict):
            keys = ", ".join(escape(key, 40) for key in list(shown)[:_SHOWN])
            obs = f"{{{keys}{', ...' if len(shown) > _SHOWN else ''}}}"
        else:
            obs = repr(shown)
        return f"<VecNormalize of {self.library}: obs_rms={obs}, ret_rms={self.ret_rms!r}>"

    # -- as SB3 does it (17.3) ------------------------------------------------------------------------

    def normalize_obs(self, obs: Any) -> Any:
        """Return the observation, or a batch of them, as the agent sees it: float32, bit for bit as SB3 2.9.

        :param obs: an array whose last dimensions are those of the statistics, or a dict of such; it is not changed.
            Keys that are not normalised come back as copies.
        :raises TensorError: when it is of another shape, or no numbers
        :raises MissingEntryError: when a key that is normalised is not there
        """
        return self._each(obs, self._normalized)

    def unnormalize_obs(self, obs: Any) -> Any:
        """Return what :meth:`normalize_obs` made it of, as far as nothing was clipped; not cast, as in SB3.

        :param obs: as in :meth:`normalize_obs`
        :raises SbformatError: as in :meth:`normalize_obs`
        """
        return self._each(obs, self._unnormalized)

    def normalize_reward(self, reward: Any) -> Any:
        """Return rewards as the agent learns from them: float32, bit for bit as SB3 2.9.

        :param reward: an array or a number; it is not changed
        :raises TensorError: when it is no numbers
        """
        import numpy as np

        reward = _numbers(reward, "the reward")
        with np.errstate(all="ignore"):
            if self.norm_reward:
                reward = np.clip(reward / self._reward_scale(), -self.clip_reward, self.clip_reward)
            return reward.astype(np.float32)

    def unnormalize_reward(self, reward: Any) -> Any:
        """Return what :meth:`normalize_reward` made it of, as far as nothing was clipped; not cast, as in SB3.

        :param reward: as in :meth:`normalize_reward`
        :raises TensorError: when it is no numbers
        """
        import numpy as np

        reward = _numbers(reward, "the reward")
        with np.errstate(all="ignore"):
            return reward * self._reward_scale() if self.norm_reward else reward.copy()

    def _reward_scale(self) -> Any:
        import numpy as np

        return np.sqrt(_there(self.ret_rms, "ret_rms").var + self.epsilon)

    def _normalized(self, obs: Any, statistics: RunningMeanStd) -> Any:
        import numpy as np

        scaled = (obs - statistics.mean) / np.sqrt(statistics.var + self.epsilon)
        return np.clip(scaled, -self.clip_obs, self.clip_obs).astype(np.float32)

    def _unnormalized(self, obs: Any, statistics: RunningMeanStd) -> Any:
        import numpy as np

        return (obs * np.sqrt(statistics.var + self.epsilon)) + statistics.mean

    def _each(self, obs: Any, change: Any) -> Any:
        import numpy as np

        if not self.norm_obs:
            return deepcopy(obs)
        if isinstance(self.obs_rms, dict) != isinstance(obs, dict):
            told, given = ("arrays by key", "one") if isinstance(self.obs_rms, dict) else ("one array", "a dict")
            message = f"the statistics are of {told}, the observation is {given}"
            raise TensorError(message)
        with np.errstate(all="ignore"):  # as SB3 computes it, whatever the file says
            if not isinstance(self.obs_rms, dict):
                statistics = _there(self.obs_rms, "obs_rms")
                return change(_fitting(obs, statistics, "the observation"), statistics)
            made = deepcopy(obs)
            for key in self.norm_obs_keys or ():
                if key not in obs:
                    raise MissingEntryError(key, present=map(str, obs), what="key in the observation")
                statistics = self.obs_rms[key]
                made[key] = change(_fitting(obs[key], statistics, f"{quote(key)} of the observation"), statistics)
        return made


# -- what a value is made of --------------------------------------------------------------------------


def _settle(value: VecNormalize) -> None:
    """Give every field its one type."""
    numbers = {name: _number(getattr(value, name), name) for name in ("clip_obs", "clip_reward", "gamma", "epsilon")}
    for name in ("training", "norm_obs", "norm_reward"):
        if type(getattr(value, name)) is not bool:
            _refuse(f"{name} is no bool")
    if value.library not in LIBRARIES:
        _refuse(f"{quote(value.library, 40)} is no library that has a VecNormalize")
    if value.num_envs is not None and (type(value.num_envs) is not int or not 0 < value.num_envs < _MOST_ENVS):
        _refuse("num_envs is no number of environments")
    obs_rms: Any = value.obs_rms
    if isinstance(obs_rms, Mapping):
        obs_rms = dict(obs_rms)
    keys = value.norm_obs_keys
    if keys is None and isinstance(obs_rms, dict):
        keys = tuple(obs_rms)
    if isinstance(keys, str) or any(type(key) is not str for key in (*(keys or ()), *_keys(obs_rms))):
        _refuse("a key of the observations is no text")
    made = {
        **numbers,
        "obs_rms": obs_rms,
        "norm_obs_keys": None if keys is None else tuple(keys),
        "old_obs": _held(value.old_obs, "old_obs"),
        "old_reward": _held(value.old_reward, "old_reward"),
    }
    for name, part in made.items():
        object.__setattr__(value, name, part)


def _held(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _frozen(part, name) for key, part in value.items()}
    return None if value is None else _frozen(value, name)


def _keys(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, dict) else ()


def _check_statistics(value: VecNormalize) -> None:
    """Check that there is what the flags ask for."""
    found = value.obs_rms
    parts = found.values() if isinstance(found, dict) else (found,)
    is_by_key = isinstance(found, dict)
    if any(not isinstance(part, RunningMeanStd) and (part is not None or is_by_key) for part in parts):
        _refuse("obs_rms is no RunningMeanStd, nor some by key")
    if value.ret_rms is not None and not isinstance(value.ret_rms, RunningMeanStd):
        _refuse("ret_rms is no RunningMeanStd")
    if value.norm_obs:
        _there(found, "obs_rms")
        _check_keys(value.norm_obs_keys, found)
    if value.norm_reward:
        _there(value.ret_rms, "ret_rms")
    if value.ret_rms is not None and value.ret_rms.shape != ():
        message = f"the statistics of returns have the shape {value.ret_rms.shape}, not ()"
        raise TensorError(message)


def _check_keys(keys: tuple[str, ...] | None, found: object) -> None:
    if keys is not None and not isinstance(found, dict):
        _refuse("norm_obs_keys belongs to statistics by key")
    for key in keys or ():
        if key not in found:  # type: ignore[operator]
            raise MissingEntryError(key, present=found, what="statistics of the key")  # type: ignore[arg-type]


def _check_spaces(value: VecNormalize) -> None:
    """Check that statistics have the shapes of the observation space."""
    for name in ("observation_space", "action_space"):
        space: Any = getattr(value, name)
        if space is not None and not (isinstance(space, Value) and hasattr(space, "random")):
            _refuse(f"{name} is no space")
    found, outer = value.obs_rms, value.observation_space
    spaces: Mapping[str, object] = {"": outer}
    if isinstance(found, dict) and outer is not None:
        if not isinstance(outer, DictSpace):
            message = "there are statistics by key, and the observation space is no Dict"
            raise TensorError(message)
        spaces = outer.spaces
    for key, statistics in (found if isinstance(found, dict) else {"": found}).items():
        if outer is not None and key not in spaces:
            raise MissingEntryError(key, present=spaces, what="space of the key")
        space = spaces.get(key)
        if statistics is not None and isinstance(space, Box) and space.shape != statistics.shape:
            of = f" of {quote(key)}" if key else ""
            message = f"the statistics{of} have the shape {statistics.shape}, the space {space.shape}"
            raise TensorError(message)


def _refuse(message: str) -> NoReturn:
    raise UnsupportedError(message)


def _there(value: T | None, name: str) -> T:
    if value is None:
        raise MissingEntryError(name, what="statistics")
    return value


def _number(value: Any, name: str) -> float:
    import numpy as np

    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        _refuse(f"{name} is no number")
    try:
        return float(value)
    except OverflowError:
        message = f"{name} is larger than any float"
        raise UnsupportedError(message) from None


def _frozen(value: Any, name: str, dtype: str | None = None) -> np.ndarray:
    """Return a read-only array that nothing else can change."""
    array = _array(value, name)
    if array.dtype.kind not in (_HELD if dtype is None else _NUMBERS) or array.dtype.str[1:] not in ITEM_SIZES:
        message = f"{name} is {quote(array.dtype, 40)}, not numbers"
        raise TensorError(message)
    made: np.ndarray = array
    if (dtype is not None and array.dtype != dtype) or not isinstance(array.base, bytes) or array.flags.writeable:
        made = array.astype(array.dtype.newbyteorder("=") if dtype is None else dtype)  # a copy of its own
        made.flags.writeable = False
    return made


def _array(value: Any, name: str) -> Any:
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError:
        message = f"{name} is no array: its parts differ in length"
        raise TensorError(message) from None
    if array.dtype.hasobject:
        message = f"{name} is no array of numbers"
        raise TensorError(message)
    return array


def _numbers(value: Any, name: str) -> Any:
    array = _array(value, name)
    if array.dtype.kind not in _NUMBERS:
        message = f"{name} is {quote(array.dtype, 40)}, not numbers"
        raise TensorError(message)
    return array[()] if array.ndim == 0 else array


def _fitting(obs: Any, statistics: RunningMeanStd, name: str) -> Any:
    array = _numbers(obs, name)
    rank = len(statistics.shape)
    if array.ndim < rank or array.shape[array.ndim - rank :] != statistics.shape:
        message = f"{name} has the shape {array.shape}, which does not end with {statistics.shape}"
        raise TensorError(message)
    return array


def _same_fields(one: Any, other: object) -> bool:
    names = one.__slots__
    return type(other) is type(one) and all(_same(getattr(one, name), getattr(other, name)) for name in names)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if hasattr(one, "tobytes") and hasattr(other, "tobytes"):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)  # noqa: PLR0124 -- NaN
    return type(one) is type(other) and bool(one == other)
