"""The values that the constructors of SB3 2 and sb3-contrib 2 set when ``data`` has none (REBUILDING.md 15.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.tools.rebuild.algorithms import ALGORITHMS

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMMON: Final[Mapping[str, Any]] = {
    "_stats_window_size": 100, "seed": None, "use_sde": False, "sde_sample_freq": -1, "verbose": 0,
    "num_timesteps": 0, "_total_timesteps": 0, "_num_timesteps_at_start": 0, "_n_updates": 0, "_episode_num": 0,
    "start_time": 0.0, "n_envs": 1,
}  # fmt: skip
_ON_POLICY: Final[Mapping[str, Any]] = {
    **_COMMON, "n_steps": 2048, "batch_size": 64, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95, "ent_coef": 0.0,
    "vf_coef": 0.5, "max_grad_norm": 0.5, "normalize_advantage": True, "target_kl": None,
}  # fmt: skip
_OFF_POLICY: Final[Mapping[str, Any]] = {
    **_COMMON, "buffer_size": 1_000_000, "learning_starts": 100, "batch_size": 256, "tau": 0.005, "gamma": 0.99,
    "train_freq": 1, "gradient_steps": 1, "n_steps": 1, "optimize_memory_usage": False, "action_noise": None,
    "use_sde_at_warmup": False,
}  # fmt: skip
_ENTROPY: Final[Mapping[str, Any]] = {
    **_OFF_POLICY, "ent_coef": "auto", "target_entropy": "auto", "target_update_interval": 1,
}  # fmt: skip
_Q: Final[Mapping[str, Any]] = {
    **_OFF_POLICY, "batch_size": 32, "tau": 1.0, "train_freq": 4, "target_update_interval": 10_000,
    "exploration_initial_eps": 1.0, "exploration_rate": 0.0,
}  # fmt: skip

CONSTRUCTOR_VALUES: Final[Mapping[str, Mapping[str, Any]]] = {
    "PPO": _ON_POLICY,
    "MaskablePPO": _ON_POLICY,
    "RecurrentPPO": {**_ON_POLICY, "n_steps": 128, "batch_size": 128},
    "A2C": {**_ON_POLICY, "n_steps": 5, "gae_lambda": 1.0, "normalize_advantage": False},
    "TRPO": {
        **_ON_POLICY, "batch_size": 128, "ent_coef": 0.0, "vf_coef": 0.0, "max_grad_norm": 0.0, "target_kl": 0.01,
        "cg_max_steps": 15, "cg_damping": 0.1, "line_search_shrinking_factor": 0.8, "line_search_max_iter": 10,
        "n_critic_updates": 10, "sub_sampling_factor": 1,
    },
    "SAC": _ENTROPY,
    "TQC": {**_ENTROPY, "top_quantiles_to_drop_per_net": 2},
    "CrossQ": {**_ENTROPY, "policy_delay": 3},
    "TD3": {**_OFF_POLICY, "policy_delay": 2, "target_policy_noise": 0.2, "target_noise_clip": 0.5},
    "DDPG": {**_OFF_POLICY, "policy_delay": 1, "target_policy_noise": 0.1, "target_noise_clip": 0.0},
    "DQN": {**_Q, "exploration_fraction": 0.1, "exploration_final_eps": 0.05, "max_grad_norm": 10},
    "QRDQN": {**_Q, "exploration_fraction": 0.005, "exploration_final_eps": 0.01, "max_grad_norm": None},
    "ARS": {
        **_COMMON, "n_delta": 8, "delta_std": 0.05, "zero_policy": True, "alive_bonus_offset": 0, "n_eval_episodes": 1,
    },
}  # fmt: skip
"""Values by algorithm and key of ``data``."""


_SCHEDULES: Final[Mapping[str, float | None]] = {"clip_range": 0.2, "clip_range_vf": None, "delta_std_schedule": 0.05}


def find_default(algorithm: str, key: str) -> Any:
    """Return the value that SB3 uses when a key is missing from ``data``; None if it is not known."""
    if key == "learning_rate":
        return ALGORITHMS[algorithm].learning_rate
    return {**CONSTRUCTOR_VALUES[algorithm], **_SCHEDULES}.get(key)


def describe_default(algorithm: str, key: str) -> str:
    """Return what SB3 uses when a key is missing from ``data``, for the report."""
    values = CONSTRUCTOR_VALUES[algorithm]
    return f"{values[key]}, the default of {algorithm}" if key in values else f"the default of {algorithm}"
