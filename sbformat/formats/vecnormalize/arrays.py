"""Normalization statistics as arrays by name, as programs without sbformat read them.

The names are those of the attributes: ``obs_rms/mean``, or ``obs_rms/KEY/mean`` for a Dict space, ``ret_rms/count``,
``clip_obs``. Numbers are arrays without dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.pth.addresses import segment
from sbformat.rendering import write_number

if TYPE_CHECKING:
    from sbformat.formats.vecnormalize.values import VecNormalize

_SETTINGS: Final = {
    "num_envs": np.int64,
    "training": np.bool_,
    "norm_obs": np.bool_,
    "norm_reward": np.bool_,
    "clip_obs": np.float64,
    "clip_reward": np.float64,
    "gamma": np.float64,
    "epsilon": np.float64,
}
_PARTS: Final = ("mean", "var", "count")
_MOST_ENVIRONMENTS: Final = 2**63 - 1


def make_settings(value: VecNormalize) -> dict[str, np.ndarray]:
    """Return the settings: float64, bool, and ``num_envs`` as int64 if it is known."""
    made: dict[str, np.ndarray] = {}
    for name, dtype in _SETTINGS.items():
        found = getattr(value, name)
        if found is not None and (name != "num_envs" or abs(found) <= _MOST_ENVIRONMENTS):
            made[name] = np.array(found, dtype)
    return made


def make_arrays(value: VecNormalize) -> dict[str, np.ndarray]:
    """Return statistics, settings, and the last observation and reward if there are any."""
    made: dict[str, Any] = {}
    for name in ("obs_rms", "ret_rms"):
        for path, statistics in _list_members(name, getattr(value, name)):
            made |= {f"{path}/{part}": np.asarray(getattr(statistics, part)) for part in _PARTS}
    for name in ("old_obs", "old_reward"):
        made |= dict(_list_members(name, getattr(value, name)))
    return made | make_settings(value)


def _list_members(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return a value, or the values of a Dict space, with their paths; none for None."""
    if isinstance(value, dict):
        return [(f"{name}/{segment(key)}", part) for key, part in value.items()]
    return [] if value is None else [(name, value)]


def make_number(value: float) -> np.ndarray | None:
    """Return a number as an array of float64, an integer that float64 cannot hold as None."""
    try:
        return np.array(float(value))
    except OverflowError:
        return None


def describe_settings(value: VecNormalize) -> dict[str, Any]:
    """Return the settings as JSON, with what is not a number: the library, and the keys that are normalized."""
    settings = {name: write_number(getattr(value, name)) for name in _SETTINGS}
    keys = value.norm_obs_keys
    return {"library": value.library, **settings, "norm_obs_keys": None if keys is None else list(keys)}
