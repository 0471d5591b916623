"""Normalization statistics as values that normalize exactly as SB3 does (STATISTICS.md 17.3)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, TypeVar

from sbformat.errors import MissingEntryError, TensorError, UnsupportedError, ValidationError, escape, quote
from sbformat.known.spaces import Space
from sbformat.pkl.numpy import ITEM_SIZES, ArrayInfo
from sbformat.pth.compare import Mismatch
from sbformat.pth.values import refuse, refuse_unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from sbformat.notebook import Markup


T = TypeVar("T")

Library: TypeAlias = Literal["stable_baselines3", "stable_baselines"]
"""SB3, or its predecessor SB2."""
LIBRARIES: Final = ("stable_baselines3", "stable_baselines")
NUMBERS: Final = ("clip_obs", "clip_reward", "gamma", "epsilon")
FLAGS: Final = ("training", "norm_obs", "norm_reward")
EXACT: Final = 2**53
"""Every integer up to it is a float."""

_KINDS: Final = "biuf"  # kinds of numpy dtypes that can be normalized
_OBSERVATION_KINDS: Final = "biufc"  # kinds of numpy dtypes that an observation may have
_MOST_ENVS: Final = 2**31
_MOST_LEVELS: Final = 20  # levels of a space: its JSON (17.6) is then within the default limit of depth
_MOST_KEYS: Final = 8  # keys in a repr


class _Comparable:
    """Values that are equal if all their fields are, arrays bit for bit."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        names = self.__dataclass_fields__  # type: ignore[attr-defined]
        return type(other) is type(self) and all(_same(getattr(self, name), getattr(other, name)) for name in names)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RunningMeanStd(_Comparable):
    """Running mean and variance of observations or returns; compares bit for bit (STATISTICS.md 17.3).

    :param mean: array of any shape; becomes read-only float64
    :param var: array of the same shape; becomes read-only float64, and may be negative or NaN
    :param count: number of samples, plus the 0.0001 that SB3 starts with
    :raises TensorError: when mean and variance are not numeric arrays of one shape
    :raises UnsupportedError: when count is not a number

    Example::

        RunningMeanStd(mean=np.zeros(3), var=np.ones(3), count=100.0).shape  # (3,)
    """

    mean: np.ndarray
    var: np.ndarray
    count: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _freeze(self.mean, "mean", "float64"))
        object.__setattr__(self, "var", _freeze(self.var, "var", "float64"))
        object.__setattr__(self, "count", _number(self.count, "count"))
        if self.mean.shape != self.var.shape:
            refuse(f"expected mean and variance of one shape, got {self.mean.shape} and {self.var.shape}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of mean and variance."""
        return self.mean.shape

    def __repr__(self) -> str:
        return f"<RunningMeanStd {self.shape} of {self.count!r}>"

    def _repr_html_(self) -> str:
        """Return mean and variance for notebooks."""
        from sbformat.notebook import render_output

        return render_output(f"RunningMeanStd of {self.count:,.6g} samples", [_render_rows({"": self})])


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class VecNormalize(_Comparable):
    """Statistics and settings of SB3's ``VecNormalize``; compares by value, arrays bit for bit (STATISTICS.md 17.3).

    The parts are consistent: whatever is normalized has statistics, of the shape of its space.

    :raises TensorError: for shapes that do not fit together
    :raises UnsupportedError: for a setting of the wrong type, or a space of more than 20 levels
    :raises MissingEntryError: when statistics are missing that ``norm_obs`` or ``norm_reward`` need

    Example::

        statistics = sbformat.read_vecnormalize("vecnormalize.pkl")
        statistics.normalize_obs(observation)  # float32, as the agent sees it
    """

    obs_rms: RunningMeanStd | dict[str, RunningMeanStd] | None = None
    """Statistics of observations: one, or one per key of a Dict space."""
    ret_rms: RunningMeanStd | None = None
    """Statistics of discounted returns, of shape ``()``."""
    clip_obs: float = 10.0
    clip_reward: float = 10.0
    gamma: float = 0.99
    epsilon: float = 1e-8
    training: bool = True
    """Whether SB3 updates the statistics."""
    norm_obs: bool = True
    norm_reward: bool = True
    norm_obs_keys: tuple[str, ...] | None = None
    """Keys of a Dict space that are normalized; by default all that have statistics. None for other spaces."""
    num_envs: int | None = None
    observation_space: Space | None = None
    """The space without its random generator; None when the file has none, or an unknown one."""
    action_space: Space | None = None
    library: Library = "stable_baselines3"
    """The library that wrote it."""
    old_obs: np.ndarray | dict[str, np.ndarray] | None = None
    """The last observation before normalization; None when it is neither an array nor arrays by key."""
    old_reward: np.ndarray | None = None

    def __post_init__(self) -> None:
        _convert_fields(self)
        _check_statistics(self)
        _check_spaces(self)

    def __repr__(self) -> str:
        shown = self.obs_rms
        if isinstance(shown, dict):
            keys = ", ".join(escape(key, 40) for key in list(shown)[:_MOST_KEYS])
            obs = f"{{{keys}{', ...' if len(shown) > _MOST_KEYS else ''}}}"
        else:
            obs = repr(shown)
        return f"<VecNormalize of {self.library}: obs_rms={obs}, ret_rms={self.ret_rms!r}>"

    def _repr_html_(self) -> str:
        """Return settings and statistics for notebooks."""
        from sbformat.notebook import describe_value, render_output, render_table
        from sbformat.values.render import render_line

        found = self.obs_rms if isinstance(self.obs_rms, dict) else {"observation": self.obs_rms}
        statistics = {key: part for key, part in (*found.items(), ("return", self.ret_rms)) if part is not None}
        settings = (*NUMBERS, *FLAGS, "norm_obs_keys", "num_envs")
        facts = [(name, describe_value(getattr(self, name))) for name in settings if getattr(self, name) is not None]
        spaces = {name: getattr(self, name) for name in ("observation_space", "action_space")}
        facts += [(name, render_line(space)) for name, space in spaces.items() if space is not None]
        parts = [_render_rows(statistics), render_table("settings", (), facts)]
        return render_output(f"VecNormalize of {self.library}", parts)

    # -- normalization as in SB3 (17.3) ----------------------------------------------------------------

    def normalize_obs(self, obs: Any) -> Any:
        """Return an observation, or a batch of them, as the agent sees it, bit for bit as SB3 2.9.

        :param obs: numeric array whose last dimensions are the shape of the statistics, or a dict of such arrays; it
            is not changed
        :return: float32 array of the same shape, clipped to ``[-clip_obs, clip_obs]``; a dict for a dict, with copies
            of the arrays that are not normalized. Without ``norm_obs`` a copy of the input
        :raises TensorError: when it has another shape, or is not numeric
        :raises MissingEntryError: when a key that is normalized is missing

        Example::

            statistics.normalize_obs([1.0, 0.0, 0.0]).dtype  # float32
        """
        return self._each(obs, self._normalize)

    def unnormalize_obs(self, obs: Any) -> Any:
        """Invert :meth:`normalize_obs`, except where it clipped; the result is not cast, as in SB3.

        :param obs: as in :meth:`normalize_obs`
        :return: float64 array of the same shape, or a dict of such
        :raises SbformatError: as in :meth:`normalize_obs`
        """
        return self._each(obs, self._unnormalize)

    def normalize_reward(self, reward: Any) -> Any:
        """Return rewards as the agent is trained on them, bit for bit as SB3 2.9.

        :param reward: numeric array of any shape, or a number; it is not changed
        :return: float32 of the same shape, clipped to ``[-clip_reward, clip_reward]``; only cast without
            ``norm_reward``
        :raises TensorError: when it is not numeric
        """
        import numpy as np

        reward = _require_array(reward, "the reward")[()]
        with np.errstate(all="ignore"):
            if self.norm_reward:
                reward = np.clip(reward / self._reward_scale(), -self.clip_reward, self.clip_reward)
            return reward.astype(np.float32)

    def unnormalize_reward(self, reward: Any) -> Any:
        """Invert :meth:`normalize_reward`, except where it clipped; the result is not cast, as in SB3.

        :param reward: as in :meth:`normalize_reward`
        :raises TensorError: when it is not numeric
        """
        import numpy as np

        reward = _require_array(reward, "the reward")[()]
        with np.errstate(all="ignore"):
            return reward * self._reward_scale() if self.norm_reward else reward.copy()

    def _reward_scale(self) -> Any:
        import numpy as np

        return np.sqrt(_require(self.ret_rms, "ret_rms").var + self.epsilon)

    def _normalize(self, obs: Any, statistics: RunningMeanStd) -> Any:
        import numpy as np

        scaled = (obs - statistics.mean) / np.sqrt(statistics.var + self.epsilon)
        return np.clip(scaled, -self.clip_obs, self.clip_obs).astype(np.float32)

    def _unnormalize(self, obs: Any, statistics: RunningMeanStd) -> Any:
        import numpy as np

        return (obs * np.sqrt(statistics.var + self.epsilon)) + statistics.mean

    def _each(self, obs: Any, change: Any) -> Any:
        import numpy as np

        if not self.norm_obs:
            return deepcopy(obs)
        if isinstance(self.obs_rms, dict) != isinstance(obs, dict):
            wanted, given = ("a dict", "an array") if isinstance(self.obs_rms, dict) else ("an array", "a dict")
            refuse(f"expected {wanted} as the observation, as the statistics have it, got {given}")
        with np.errstate(all="ignore"):  # the file chooses the numbers: infinities and NaN are results, as in SB3
            if not isinstance(self.obs_rms, dict):
                statistics = _require(self.obs_rms, "obs_rms")
                return change(_check_shape(obs, statistics, "the observation"), statistics)
            made = deepcopy(obs)
            for key in self.norm_obs_keys or ():
                if key not in obs:
                    raise MissingEntryError(key, present=map(str, obs), what="key in the observation")
                statistics = self.obs_rms[key]
                made[key] = change(_check_shape(obs[key], statistics, f"{quote(key)} of the observation"), statistics)
        return made


def _render_rows(statistics: Mapping[str, RunningMeanStd]) -> Markup:
    """Return a table for notebooks with a row for each number that has statistics."""
    import numpy as np

    from sbformat.notebook import MAX_ROWS, render_table

    rows: list[tuple[str, ...]] = []
    for name, part in statistics.items():
        mean, var = part.mean.reshape(-1), part.var.reshape(-1)
        for at in range(min(mean.size, MAX_ROWS - len(rows))):
            index = ", ".join(map(str, np.unravel_index(at, part.shape))) if part.shape else ""
            numbers = (mean[at], var[at], np.sqrt(var[at]) if var[at] >= 0 else np.nan, part.count)
            rows.append((f"{name}[{index}]" if index else name, *(f"{number:,.6g}" for number in numbers)))
    count = sum(part.mean.size for part in statistics.values())
    header = ("statistics", "mean", "variance", "standard deviation", "samples")
    return render_table("", header, rows, right=range(1, 5), count=count)


# -- fields -------------------------------------------------------------------------------------------


def _convert_fields(value: VecNormalize) -> None:
    """Convert every field to its type."""
    made: dict[str, Any] = {name: _number(getattr(value, name), name) for name in NUMBERS}
    for name in FLAGS:
        if type(getattr(value, name)) is not bool:
            refuse_unsupported(f"expected a bool as {name}, got {type(getattr(value, name)).__name__}")
    if value.library not in LIBRARIES:
        refuse_unsupported(f"expected {' or '.join(LIBRARIES)} as library, got {quote(value.library, 40)}")
    if value.num_envs is not None and (type(value.num_envs) is not int or not 0 < value.num_envs < _MOST_ENVS):
        refuse_unsupported(f"expected an integer from 1 to {_MOST_ENVS - 1} as num_envs")
    obs_rms: Any = value.obs_rms
    if isinstance(obs_rms, Mapping):
        obs_rms = dict(obs_rms)
    keys = value.norm_obs_keys
    if keys is None and isinstance(obs_rms, dict):
        keys = tuple(obs_rms)
    every = (*(keys or ()), *(obs_rms if isinstance(obs_rms, dict) else ()))
    if isinstance(keys, str) or any(type(key) is not str for key in every):
        refuse_unsupported("expected text as the keys of observations")
    made |= {
        "obs_rms": obs_rms,
        "norm_obs_keys": None if keys is None else tuple(keys),
        "old_obs": _freeze_arrays(value.old_obs, "old_obs"),
        "old_reward": _freeze_arrays(value.old_reward, "old_reward"),
    }
    for name, part in made.items():
        object.__setattr__(value, name, part)


def _freeze_arrays(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _freeze(part, name) for key, part in value.items()}
    return None if value is None else _freeze(value, name)


def _check_statistics(value: VecNormalize) -> None:
    """Check that the statistics exist that ``norm_obs`` and ``norm_reward`` need."""
    found, keys = value.obs_rms, value.norm_obs_keys
    parts = found.values() if isinstance(found, dict) else () if found is None else (found,)
    if not all(isinstance(part, RunningMeanStd) for part in parts):
        refuse_unsupported("expected a RunningMeanStd as obs_rms, or a dict of such")
    if value.ret_rms is not None and not isinstance(value.ret_rms, RunningMeanStd):
        refuse_unsupported("expected a RunningMeanStd as ret_rms")
    if value.norm_obs:
        _require(found, "obs_rms")
        if keys is not None and not isinstance(found, dict):
            refuse_unsupported("expected statistics by key, since norm_obs_keys is set")
        for key in keys or ():
            if key not in found:  # type: ignore[operator]
                raise MissingEntryError(key, present=found, what="statistics of the key")  # type: ignore[arg-type]
    if value.norm_reward:
        _require(value.ret_rms, "ret_rms")
    if value.ret_rms is not None and value.ret_rms.shape != ():
        refuse(f"expected statistics of returns of shape (), got {value.ret_rms.shape}")


def _check_spaces(value: VecNormalize) -> None:
    """Check that statistics have the shapes of the observation space."""
    for name in ("observation_space", "action_space"):
        space: Any = getattr(value, name)
        if space is not None and not isinstance(space, Space):
            refuse_unsupported(f"expected a space as {name}")
        require_levels(space)
    found, outer = value.obs_rms, value.observation_space
    if found is None or outer is None:
        return
    if isinstance(found, dict) and not outer.has_keys:
        refuse("expected a Dict as the observation space, since there are statistics by key")
    spaces: Mapping[Any, Space | None] = outer.parts() if isinstance(found, dict) else {"": outer}
    for key, statistics in (found if isinstance(found, dict) else {"": found}).items():
        if key not in spaces:
            raise MissingEntryError(key, present=spaces, what="space of the key")
        space = spaces[key]
        if space is not None and space.bounds and space.shape != statistics.shape:
            of = f" of {quote(key)}" if key else ""
            refuse(f"expected statistics{of} of shape {space.shape}, that of the space, got {statistics.shape}")


def require_levels(space: Space | None) -> None:
    """Check that a space has at most 20 levels: one that contains others has one level more than its deepest part."""
    known: dict[int, int] = {}
    """The lowest level of each space by ``id()``: a shared one is visited again only at a lower one."""
    waiting = [(space, 1)]
    while waiting:
        part, level = waiting.pop()
        if level > _MOST_LEVELS:
            refuse_unsupported(f"a space has more than {_MOST_LEVELS} levels")
        if part is None or known.get(id(part), 0) >= level:
            continue
        known[id(part)] = level
        waiting += [(inner, level + 1) for inner in part.inner_spaces()]


def _require(value: T | None, name: str) -> T:
    if value is None:
        raise MissingEntryError(name, what="statistics")
    return value


def _number(value: Any, name: str) -> float:
    import numpy as np

    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        refuse_unsupported(f"expected a number as {name}")
    try:
        return float(value)
    except OverflowError:
        raise UnsupportedError(f"{name} is larger than any float") from None


def _freeze(value: Any, name: str, dtype: str | None = None) -> np.ndarray:
    """Return a read-only array that shares no memory with a writable one."""
    array = _require_array(value, name, _OBSERVATION_KINDS if dtype is None else _KINDS)
    if array.dtype.str[1:] not in ITEM_SIZES:
        _refuse_dtype(array, name)
    made: np.ndarray = array
    if (dtype is not None and array.dtype != dtype) or not isinstance(array.base, bytes) or array.flags.writeable:
        made = array.astype(array.dtype.newbyteorder("=") if dtype is None else dtype)  # a copy of its own
        made.flags.writeable = False
    return made


def _require_array(value: Any, name: str, kinds: str = _KINDS) -> Any:
    """Return a value as an array of numbers of these kinds."""
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError:
        raise TensorError(f"expected an array as {name}, got lists of different lengths") from None
    if array.dtype.hasobject:
        refuse(f"expected an array of numbers as {name}")
    if array.dtype.kind not in kinds:
        _refuse_dtype(array, name)
    return array


def _refuse_dtype(array: Any, name: str) -> NoReturn:
    refuse(f"expected numbers as {name}, got {quote(array.dtype, 40)}")


def _check_shape(obs: Any, statistics: RunningMeanStd, name: str) -> Any:
    array = _require_array(obs, name)[()]
    rank = len(statistics.shape)
    if array.ndim < rank or array.shape[array.ndim - rank :] != statistics.shape:
        refuse(f"expected {name} of a shape that ends with {statistics.shape}, got {array.shape}")
    return array


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if hasattr(one, "tobytes") and hasattr(other, "tobytes"):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)  # noqa: PLR0124 -- NaN
    return type(one) is type(other) and bool(one == other)


_LISTED: Final = 4


def require_fit(vecnormalize: VecNormalize, space: object, otherwise: str) -> None:
    """Refuse statistics that do not fit the observation space of an agent.

    :param otherwise: what the caller can do about it
    """
    mismatches = list(find_mismatches(vecnormalize, space))
    if mismatches:
        listed = "; ".join(row.message for row in mismatches[:_LISTED])
        left = len(mismatches) - _LISTED
        more = f"; and {left} more" if left > 0 else ""
        raise ValidationError(f"the statistics do not fit the agent ({otherwise}): {listed}{more}", problems=mismatches)


def find_mismatches(vecnormalize: VecNormalize, space: object) -> Iterator[Mismatch]:
    """Yield the statistics whose keys or shapes are not those of an observation space.

    Images may have their channels last: SB3 moves them to the front after normalizing. Nothing is compared when
    observations are not normalized, or the space is unknown.
    """
    statistics = vecnormalize.obs_rms
    if not vecnormalize.norm_obs or statistics is None or not isinstance(space, Space):
        return
    if isinstance(statistics, dict) != space.has_keys:
        message = "expected statistics by key, as for a Dict space, got those of one array"
        if not space.has_keys:
            message = "expected statistics of one array, got statistics by key, as for a Dict space"
        if space.has_keys or space.shape is not None:
            yield Mismatch("obs_rms", "shape", message)
        return
    if not isinstance(statistics, dict):
        yield from _find_shape_mismatch("obs_rms", statistics.shape, space)
        return
    keys = vecnormalize.norm_obs_keys
    parts = space.parts()
    for key in statistics if keys is None else keys:
        path = f"obs_rms/{escape(key, 80)}"
        if key not in parts:
            yield Mismatch(path, "unexpected", f"the observations of the agent have no key {quote(key, 80)}")
        elif key in statistics:
            yield from _find_shape_mismatch(path, statistics[key].shape, parts[key])


def describe_other_spaces(vecnormalize: VecNormalize, spaces: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each space of an agent that is another than that of the statistics.

    Observations are compared where they have the same shape: :func:`find_mismatches` is about the others, which a
    wrapper may have changed.

    :param spaces: by key of ``data``; those that are not known are not compared
    """
    from sbformat.values.render import render_line

    for name, space in spaces.items():
        found = getattr(vecnormalize, name)
        if not isinstance(space, Space) or not isinstance(found, Space) or _is_same_space(found, space):
            continue
        ones, others = found.parts(), space.parts()
        shared = ones.keys() & others.keys()
        if name == "action_space" or any(
            ones[key].shape == others[key].shape and not _is_same_space(ones[key], others[key]) for key in shared
        ):
            texts = [render_line(one, name) for one in (found, space)]
            which = f"{texts[0]} instead of {texts[1]}" if texts[0] != texts[1] else f"{texts[0]} with other bounds"
            yield f"the statistics are of another space: {name}: {which}"


def _is_same_space(one: Any, other: Any) -> bool:
    """Return whether two spaces are equal, whichever library they are of; shared parts are compared once."""
    seen: set[tuple[int, int]] = set()
    waiting = [(one, other)]
    while waiting:
        left, right = waiting.pop()
        if (id(left), id(right)) in seen:
            continue
        seen.add((id(left), id(right)))
        if isinstance(left, Space) and type(left) is type(right):
            names = [name for name, kind in left.plain_fields.items() if kind != "flags"]
            waiting += [(getattr(left, name), getattr(right, name)) for name in names]
        elif isinstance(left, ArrayInfo) and isinstance(right, ArrayInfo):
            if (left.dtype, left.shape, left.read()) != (right.dtype, right.shape, right.read()):
                return False
        elif isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
            waiting += [(left[key], right[key]) for key in left]
        elif isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
            waiting += zip(left, right)
        elif left is not right and (isinstance(left, (Space, dict, tuple)) or left != right):
            return False
    return True


def _find_shape_mismatch(path: str, shape: tuple[int, ...], space: Space) -> Iterator[Mismatch]:
    if space.shape is None:
        return
    has_channels_last = len(shape) == 3 and (shape[2], *shape[:2]) == space.shape
    if shape != space.shape and not has_channels_last:
        yield Mismatch(path, "shape", f"{path}: expected the shape {space.shape} of observation_space, got {shape}")
