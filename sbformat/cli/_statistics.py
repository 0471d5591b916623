"""Normalization statistics in ``inspect``: numbers as JSON, and as rows of a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sbformat.rendering import write_numbers

if TYPE_CHECKING:
    from sbformat.formats.vecnormalize import RunningMeanStd, VecNormalize

SETTINGS: Final = (
    "library", "training", "norm_obs", "norm_reward", "norm_obs_keys", "clip_obs", "clip_reward", "gamma", "epsilon",
)  # fmt: skip
_MOST_IN_JSON: Final = 10_000
"""Items of an array in JSON; ``extract`` writes all of any array."""
_MOST_SHOWN: Final = 8


def render_statistics(value: VecNormalize | None) -> dict[str, Any] | None:
    """Return settings, means and variances as JSON has them."""
    if value is None:
        return None
    rms = value.obs_rms
    observations = {key: _render_rms(part) for key, part in rms.items()} if isinstance(rms, dict) else _render_rms(rms)
    settings = {name: getattr(value, name) for name in SETTINGS}
    return {**settings, "obs_rms": observations, "ret_rms": _render_rms(value.ret_rms)}


def _render_rms(rms: RunningMeanStd | None) -> dict[str, Any] | None:
    if rms is None:
        return None
    is_short = rms.mean.size <= _MOST_IN_JSON
    arrays = {name: getattr(rms, name).tolist() if is_short else None for name in ("mean", "var")}
    return {"shape": rms.shape, "count": rms.count, **arrays}


def list_statistics(value: VecNormalize, *, with_settings: bool) -> list[tuple[str, str]]:
    """Return settings, means and variances as rows of a table: a name, and its value.

    :param with_settings: False for a file whose settings are in another table
    """
    rows = [(name, _render_setting(getattr(value, name))) for name in SETTINGS] if with_settings else []
    found = value.obs_rms if isinstance(value.obs_rms, dict) else {"": value.obs_rms}
    for key, rms in found.items():
        rows += _list_rms(f"obs_rms/{key}".removesuffix("/"), rms)
    return rows + _list_rms("ret_rms", value.ret_rms)


def _list_rms(name: str, rms: RunningMeanStd | None) -> list[tuple[str, str]]:
    if rms is None:
        return []
    arrays = [(f"{name}/mean", _render_array(rms.mean)), (f"{name}/var", _render_array(rms.var))]
    return [*arrays, (f"{name}/count", repr(rms.count))]


def _render_array(array: Any) -> str:
    """Return the first numbers of an array, and the range of a long one."""
    numbers = [f"{item:.6g}" for item in array.ravel()[:_MOST_SHOWN].tolist()]
    more = array.size - len(numbers)
    if not more:
        return ", ".join(numbers) or "no numbers"
    extent = f"from {array.min():.6g} to {array.max():.6g}"
    return f"{', '.join(numbers)}, … {more:,} more, {extent}"


def _render_setting(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(write_numbers(value))
