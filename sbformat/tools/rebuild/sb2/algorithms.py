"""The conversions by algorithm of SB2: the functions that convert its network and its hyper-parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.immutable import Record
from sbformat.tools.rebuild.sb2.continuous import convert_sac, convert_td3
from sbformat.tools.rebuild.sb2.ddpg import convert_ddpg
from sbformat.tools.rebuild.sb2.dqn import convert_q_network
from sbformat.tools.rebuild.sb2.off_policy_keys import (
    convert_ddpg_keys,
    convert_dqn_keys,
    convert_sac_keys,
    convert_td3_keys,
)
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


class Conversion(Record):
    """How the agents of an algorithm are converted."""

    network: Callable[[Sb2Agent], ConvertedNetwork]
    keys: Callable[[Sb2Agent, Keys], None]


CONVERSIONS: Final = {
    "A2C": Conversion(convert_actor_critic, convert_a2c_keys),
    "ACKTR": Conversion(convert_actor_critic, convert_acktr_keys),
    "DDPG": Conversion(convert_ddpg, convert_ddpg_keys),
    "DQN": Conversion(convert_q_network, convert_dqn_keys),
    "GAIL": Conversion(convert_actor_critic, convert_trpo_keys),
    "PPO1": Conversion(convert_actor_critic, convert_ppo1_keys),
    "PPO2": Conversion(convert_actor_critic, convert_ppo2_keys),
    "SAC": Conversion(convert_sac, convert_sac_keys),
    "TD3": Conversion(convert_td3, convert_td3_keys),
    "TRPO": Conversion(convert_actor_critic, convert_trpo_keys),
}
"""By the name of the algorithm; HER is converted as the algorithm that it wraps."""

REFUSED: Final = {
    "ACER": "SB3 has no ACER, nor another algorithm that learns a value of each action from a replay of trajectories",
}
"""Why the agents of an algorithm are not converted."""
