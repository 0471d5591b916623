"""The keys of ``data`` that all algorithms of SB2 have, and what becomes of keys that no rule names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.types import Reference

if TYPE_CHECKING:
    from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, Keys, Sb2Agent

NOT_TRAINED_WITH: Final = {
    "n_cpu_tf_sess": "the number of threads of TensorFlow",
    "nprocs": "the number of threads of TensorFlow",
    "_vectorize_action": "SB3 determines it from the environment",
    "full_tensorboard_log": "logs of TensorFlow",
    "_init_setup_model": "an argument of SB2's constructor",
}
"""Keys that no agent trains with, and why they are dropped."""


def convert_common_keys(agent: Sb2Agent, network: ConvertedNetwork, keys: Keys) -> None:
    """Convert the keys that are the same in all algorithms, then report every key that is left."""
    _convert_network_keys(agent, network, keys)
    keys.rename("gamma")
    keys.rename("verbose")
    keys.rename("seed")
    keys.rename("n_envs")
    keys.rename("num_timesteps")
    keys.rename("tensorboard_log")
    for key, why in NOT_TRAINED_WITH.items():
        keys.drop(key, why, is_finding=False)
    for key in agent.data:
        if key not in keys.done:
            keys.drop(key, f"{network.algorithm} of SB3 has nothing like it", is_finding=not key.startswith("_"))


def _convert_network_keys(agent: Sb2Agent, network: ConvertedNetwork, keys: Keys) -> None:
    """Set the keys that decide on the network."""
    model = agent.model
    policy_class = Reference(*ALGORITHMS[network.algorithm].policies[network.policy_class])
    keys.set("policy_class", policy_class, "policy", "; ".join(model.inferred))
    space, note = model.goal_space or model.observation_space, ""
    if network.observation_space is not None:
        space, note = network.observation_space, "channels first, as in SB3"
    keys.set("observation_space", space, "observation_space", note)
    keys.set("action_space", model.action_space, "action_space")
    source = "policy_kwargs" if "policy_kwargs" in agent.data else None
    keys.set("policy_kwargs", {**network.policy_kwargs, **keys.policy_kwargs}, source)
