"""The conversions by algorithm of SB2: the functions that convert its network and its hyper-parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.tools.rebuild.sb2.on_policy import convert_actor_critic
from sbformat.tools.rebuild.sb2.on_policy_keys import (
    convert_a2c_keys,
    convert_acktr_keys,
    convert_ppo1_keys,
    convert_ppo2_keys,
    convert_trpo_keys,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, Keys, Sb2Agent


class Conversion(NamedTuple):
    """How the agents of an algorithm are converted."""

    network: Callable[[Sb2Agent], ConvertedNetwork]
    keys: Callable[[Sb2Agent, Keys], None]


CONVERSIONS: Final = {
    "A2C": Conversion(convert_actor_critic, convert_a2c_keys),
    "ACKTR": Conversion(convert_actor_critic, convert_acktr_keys),
    "GAIL": Conversion(convert_actor_critic, convert_trpo_keys),
    "PPO1": Conversion(convert_actor_critic, convert_ppo1_keys),
    "PPO2": Conversion(convert_actor_critic, convert_ppo2_keys),
    "TRPO": Conversion(convert_actor_critic, convert_trpo_keys),
}
"""By the name of the algorithm; HER is converted as the algorithm that it wraps."""

REFUSED: Final = {
    "ACER": "SB3 has no ACER, nor another algorithm that learns a value of each action from a replay of trajectories",
}
"""Why the agents of an algorithm are not converted."""
