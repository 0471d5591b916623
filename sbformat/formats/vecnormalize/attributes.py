"""Convert the attributes of a pickled ``VecNormalize`` or ``RunningMeanStd`` of any release (STATISTICS.md 17.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from sbformat.errors import MissingEntryError, SbformatError, TensorError, UnsupportedError, quote
from sbformat.formats.vecnormalize.values import LIBRARIES, RunningMeanStd, VecNormalize, require_levels
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.known.spaces import Space
from sbformat.known.types import Instance
from sbformat.pkl.numpy import ITEM_SIZES, ArrayInfo

if TYPE_CHECKING:
    from sbformat.formats.vecnormalize.values import Library

Arrays: TypeAlias = "Any | dict[str, Any] | None"
"""A numpy array, numpy arrays by key, or None."""

_EXACT: Final = 2**53
"""Every integer up to it is a float."""
_NUMBERS: Final = ("clip_obs", "clip_reward", "gamma", "epsilon")
_FLAGS: Final = ("training", "norm_obs", "norm_reward")


def class_of(value: object) -> str:
    """Return ``VecNormalize`` or ``RunningMeanStd`` for an object of SB3 or SB2, or an empty text for others."""
    if not isinstance(value, Instance) or library_of(value) not in LIBRARIES:
        return ""
    return value.type.name if value.type.name in ("VecNormalize", "RunningMeanStd") else ""


def library_of(value: Instance) -> Library:
    """Return the library that defines its class."""
    return value.type.module.partition(".")[0]  # type: ignore[return-value]


def statistics_of(value: object, name: str) -> RunningMeanStd:
    """Return the value of a ``RunningMeanStd``.

    :param name: of the attribute, for messages
    :raises MissingEntryError: when it lacks one of its three attributes
    :raises TensorError: when mean and variance are not float64 of one shape, or count is not a number
    """
    if class_of(value) != "RunningMeanStd":
        _refuse(f"expected a RunningMeanStd as {name}")
    held: dict[str, Any] = value.attributes  # type: ignore[attr-defined]
    mean, var = (_floats(_attribute(held, part), f"{name}.{part}") for part in ("mean", "var"))
    count = _number(_attribute(held, "count"), f"{name}.count")
    try:
        return RunningMeanStd(mean, var, count)
    except TensorError as error:
        error.message = f"{name}: {error.message}"
        raise


def vecnormalize_of(value: Instance) -> VecNormalize:
    """Return the value of a ``VecNormalize`` of any release.

    :raises MissingEntryError: when it lacks an attribute that every release writes
    :raises TensorError: when an attribute has a type or shape that SB3 does not write
    """
    held = value.attributes
    if "old_reward" in held and "old_rews" in held:
        _refuse("expected one of old_reward and old_rews, got both")
    statistics = held.get("obs_rms")
    obs_rms = statistics if statistics is None else _by_key(statistics, "obs_rms", statistics_of)
    returns = held.get("ret_rms")
    settings: dict[str, Any] = {name: _number(_attribute(held, name), name) for name in _NUMBERS}
    settings.update({name: _flag(_attribute(held, name), name) for name in _FLAGS})
    return VecNormalize(
        obs_rms=obs_rms,
        ret_rms=None if returns is None else statistics_of(returns, "ret_rms"),
        **settings,
        norm_obs_keys=_keys(held, obs_rms),
        num_envs=_whole(held["num_envs"], "num_envs") if "num_envs" in held else None,
        observation_space=space_of(held.get("observation_space")),
        action_space=space_of(held.get("action_space")),
        library=library_of(value),
        old_obs=arrays_of(held.get("old_obs")),
        old_reward=_array(held.get("old_reward", held.get("old_rews"))),
    )


def _refuse(message: str) -> NoReturn:
    raise TensorError(message)


def _attribute(held: dict[str, Any], name: str) -> Any:
    if name not in held:
        raise MissingEntryError(name, present=held, what="attribute")
    return held[name]


def _by_key(value: Any, name: str, make: Any) -> Any:
    if not isinstance(value, dict):
        return make(value, name)
    if any(type(key) is not str for key in value):
        _refuse(f"expected text as the keys of {name}")
    return {key: make(part, f"{name} of {quote(key, 60)}") for key, part in value.items()}


def _keys(held: dict[str, Any], obs_rms: object) -> tuple[str, ...] | None:
    """Return the keys that are normalized; before SB3 1.4, which has no such attribute, all keys of the space."""
    if "norm_obs_keys" not in held and isinstance(obs_rms, dict):
        space = held.get("observation_space")
        every = tuple(space.parts() if isinstance(space, Space) and space.has_keys else obs_rms)
        if set(every) != set(obs_rms):
            _refuse("the statistics and the space have different keys, and norm_obs_keys is missing")
        return every
    keys = held.get("norm_obs_keys")
    if keys is None:
        if isinstance(obs_rms, dict):
            _refuse("expected norm_obs_keys, since there are statistics by key")
        return None
    if type(keys) not in (list, tuple, set, frozenset) or any(type(key) is not str for key in keys):
        _refuse("expected text as norm_obs_keys")
    return tuple(keys) if isinstance(keys, (list, tuple)) else tuple(sorted(keys))


def _plain_number(value: object, name: str) -> int | float:
    try:
        found = to_number(value, name)
    except UnrecognizedError as error:
        raise TensorError(str(error)) from None
    if isinstance(found, bool):
        _refuse(f"expected a number as {name}")
    return found


def _number(value: object, name: str) -> float:
    found = _plain_number(value, name)
    if isinstance(found, int) and abs(found) > _EXACT:
        _refuse(f"expected a number that a float holds exactly as {name}")
    return float(found)


def _whole(value: object, name: str) -> int:
    found = value if type(value) is int else _plain_number(value, name)
    if not isinstance(found, int):
        _refuse(f"expected an integer as {name}")
    return found


def _flag(value: object, name: str) -> bool:
    if isinstance(value, ArrayInfo) and value.shape == () and value.dtype == "|b1":
        return value.read() != b"\0"
    if type(value) is not bool:
        _refuse(f"expected a bool as {name}")
    return value


def _floats(value: object, name: str) -> Any:
    """Return statistics as float64, the dtype of SB3: with another one the results would differ."""
    if type(value) is float:
        return value
    if not isinstance(value, ArrayInfo) or value.fields or value.dtype[1:] != "f8":
        _refuse(f"expected an array of float64 as {name}")
    return value.to_numpy()


def arrays_of(value: object) -> Arrays:
    """Return the arrays of an observation, or None when it contains anything else."""
    if not isinstance(value, dict):
        return _array(value)
    made = {key: _array(part) for key, part in value.items()}
    return made if all(type(key) is str and part is not None for key, part in made.items()) else None


def _array(value: object) -> Any:
    if not isinstance(value, ArrayInfo) or value.fields or value.dtype[1:] not in ITEM_SIZES:
        return None
    try:
        return value.to_numpy()
    except SbformatError:
        return None


# -- spaces -------------------------------------------------------------------------------------------


def space_of(value: object) -> Space | None:
    """Return a space without random generators, with arrays in C order; None for a value that is not a known space."""
    if not isinstance(value, Space):
        return None
    require_levels(value)
    return _Converter().convert(value)  # type: ignore[no-any-return]


class _Converter:
    """Converts one space; shared parts stay shared."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        """The converted parts by ``id()``."""

    def convert(self, value: Any) -> Any:
        """Return a converted part."""
        if id(value) not in self._made:
            self._made[id(value)] = self._convert_parts(value)
        return self._made[id(value)]

    def _convert_parts(self, value: Any) -> Any:
        if isinstance(value, Space):
            parts = {name: self.convert(getattr(value, name)) for name in value.plain_fields}
            return type(value)(library=value.library, random=None, **parts)
        if isinstance(value, ArrayInfo):
            return _dense(value)
        if isinstance(value, dict):
            return {key: self.convert(part) for key, part in value.items()}
        return tuple(map(self.convert, value)) if type(value) is tuple else value


def _dense(info: ArrayInfo) -> ArrayInfo:
    """Return the same items in C order and little-endian."""
    if info.fields or info.dtype[1:] not in ITEM_SIZES:
        message = f"expected arrays of plain numbers in a space, got {quote(info.dtype, 40)}"
        raise UnsupportedError(message)
    order = "|" if ITEM_SIZES[info.dtype[1:]] == 1 else "<"
    dtype = order + info.dtype[1:]
    if (info.dtype, info.order, info.axes) == (dtype, "C", ()):
        return info._replace(buffer=info.read(), is_scalar=False)
    items = info.to_numpy()
    return ArrayInfo(dtype, info.shape, "C", items.astype(dtype).tobytes(), is_scalar=False)
