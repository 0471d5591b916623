"""SB2's action noise as SB3's, which has the same attributes and a dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.known.types import Instance, Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODULES: Final = ("stable_baselines.common.noise", "stable_baselines.ddpg.noise")
_ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "NormalActionNoise": ("_mu", "_sigma"),
    "OrnsteinUhlenbeckActionNoise": ("_theta", "_mu", "_sigma", "_dt", "initial_noise", "noise_prev"),
}
_DTYPE: Final = Reference("numpy", "float32")


def convert_noise(value: object) -> object:
    """Return noise of SB3 for noise of SB2; another value unchanged.

    :param value: as :func:`sbformat.values.decode` returns it
    """
    if not isinstance(value, Instance) or value.type.module not in _MODULES:
        return value
    names = _ATTRIBUTES.get(value.type.name)
    if names is None or set(value.attributes) != set(names):
        return value
    return Instance(
        Reference("stable_baselines3.common.noise", value.type.name), {**value.attributes, "_dtype": _DTYPE}
    )
