"""The keys of ``data`` that all algorithms of SB2 have, and what becomes of keys that no rule names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, Keys, Sb2Agent

_NETWORK: Final = ("policy", "policy_kwargs", "observation_space", "action_space")
"""Keys that became the network: their rows are those of SB3's keys."""
NOT_TRAINED_WITH: Final = {
    "n_cpu_tf_sess": "the number of threads of TensorFlow",
    "_vectorize_action": "SB3 determines it from the environment",
    "full_tensorboard_log": "logs of TensorFlow",
    "_init_setup_model": "an argument of SB2's constructor",
}
"""Keys that no agent trains with, and why they are dropped."""


def convert_common_keys(agent: Sb2Agent, network: ConvertedNetwork, keys: Keys) -> None:
    """Convert the keys that are the same in all algorithms, then report every key that is left."""
    keys.rename("gamma")
    keys.rename("verbose")
    keys.rename("seed")
    keys.rename("n_envs")
    keys.rename("num_timesteps")
    keys.rename("tensorboard_log")
    for key in _NETWORK:
        keys.note_done(key)
    for key, why in NOT_TRAINED_WITH.items():
        keys.drop(key, why, is_finding=False)
    for key in agent.data:
        if key not in keys.done:
            keys.drop(key, f"{network.algorithm} of SB3 has nothing like it", is_finding=not key.startswith("_"))
