"""The algorithms of the targets: policies, defaults, and what keys of ``data`` are to SB3 (REBUILDING.md 15.2).

Sources: SB3 and sb3-contrib 2.0 to 2.9, ``common/base_class.py``, ``common/*_policy_algorithm.py``, and the
constructors of every algorithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.known.changes import REMOVED
from sbformat.known.spaces import Space
from sbformat.known.types import Reference
from sbformat.nets.sb3 import POLICIES
from sbformat.schema import known_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbformat.pkl.names import Pair


class Family(NamedTuple):
    """What an algorithm shares with others."""

    kind: str
    """``actor_critic`` (one network for both), ``q`` (a Q-network), ``critics`` (an actor and critics), or ``ars``."""
    policies: Mapping[str, Pair]
    """The policy classes by SB3's short names: ``MlpPolicy``, ..."""
    learning_rate: float
    """The default of the constructor."""

    def find_standard_policy(self, space: object) -> Reference | None:
        """Return the policy class that SB3 itself has for an observation space, or None."""
        kind = "Mlp"
        if isinstance(space, Space):
            kind = "MultiInput" if space.has_keys else "Cnn" if space.is_image() else "Mlp"
        pair = next((pair for alias, pair in self.policies.items() if alias.startswith(kind)), None)
        return None if pair is None else Reference(*pair)


_ALIASES: Final = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")


def _list_policies(module: str, aliases: Iterable[str] = _ALIASES) -> dict[str, Pair]:
    """Return the policy classes of a module by SB3's short names, which are in the order of ``POLICIES``."""
    return dict(zip(aliases, (pair for pair in POLICIES if pair[0] == module)))


_ACTOR_CRITIC: Final = _list_policies("stable_baselines3.common.policies")
_MASKABLE: Final = _list_policies("sb3_contrib.common.maskable.policies")
_RECURRENT: Final = _list_policies(
    "sb3_contrib.common.recurrent.policies", (alias.replace("Policy", "LstmPolicy") for alias in _ALIASES)
)

ALGORITHMS: Final[dict[str, Family]] = {
    "PPO": Family("actor_critic", _ACTOR_CRITIC, 3e-4),
    "A2C": Family("actor_critic", _ACTOR_CRITIC, 7e-4),
    "TRPO": Family("actor_critic", _ACTOR_CRITIC, 1e-3),
    "MaskablePPO": Family("actor_critic", _MASKABLE, 3e-4),
    "RecurrentPPO": Family("actor_critic", _RECURRENT, 3e-4),
    "DQN": Family("q", _list_policies("stable_baselines3.dqn.policies"), 1e-4),
    "QRDQN": Family("q", _list_policies("sb3_contrib.qrdqn.policies"), 5e-5),
    "SAC": Family("critics", _list_policies("stable_baselines3.sac.policies"), 3e-4),
    "TD3": Family("critics", _list_policies("stable_baselines3.td3.policies"), 1e-3),
    "DDPG": Family("critics", _list_policies("stable_baselines3.td3.policies"), 1e-3),
    "TQC": Family("critics", _list_policies("sb3_contrib.tqc.policies"), 3e-4),
    "CrossQ": Family("critics", _list_policies("sb3_contrib.crossq.policies"), 1e-3),
    "ARS": Family("ars", _list_policies("sb3_contrib.ars.policies", ("MlpPolicy", "LinearPolicy")), 2e-2),
}
"""The algorithms of the targets, by name."""

# -- the values that constructors set when data has none ----------------------------------------------

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


# -- keys of data -------------------------------------------------------------------------------------

RECREATED: Final = {
    "lr_schedule": "learning_rate",
    "exploration_schedule": "exploration_initial_eps, exploration_final_eps and exploration_fraction",
    "batch_norm_stats": "the critics",
    "batch_norm_stats_target": "the target networks",
    "actor_batch_norm_stats": "the actor",
    "actor_batch_norm_stats_target": "the target networks",
    "critic_batch_norm_stats": "the critics",
    "critic_batch_norm_stats_target": "the target networks",
    "weights": "the policy",
    "_last_lstm_states": "zeros",
}
"""Keys whose values SB3's ``load`` creates again, and what it creates them from."""

METHODS: Final = frozenset(
    """
    _abc_impl _compute_actor_grad _convert_train_freq _create_aliases _do_one_update _dump_logs _excluded_save_params
    _get_policy_from_name _get_torch_save_params _init_callback _maybe_recommend_cpu _mimic_monitor_wrapper _on_step
    _sample_action _setup_learn _setup_lr_schedule _setup_model _store_transition _trigger_callback
    _update_current_progress_remaining _update_info_buffer _update_learning_rate _wrap_env collect_rollouts dump_logs
    evaluate_candidates get_env get_parameters get_vec_normalize_env hessian_vector_product learn load
    load_replay_buffer logger policy_aliases predict save save_replay_buffer set_env set_logger set_parameters
    set_random_seed train
    """.split()  # noqa: SIM905 -- a name a line is no better
)
"""Methods and properties of the algorithms: a key with such a name would replace it on the agent."""

TEXT_KEYS: Final = frozenset({"ent_coef", "target_entropy"})
"""Keys whose value can be a text in SB3."""

EXCLUDED: Final = frozenset(
    {
        "env", "eval_env", "device", "policy", "actor", "actor_target", "critic", "critic_target", "q_net",
        "q_net_target", "quantile_net", "quantile_net_target", "replay_buffer", "rollout_buffer", "_episode_storage",
        "_vec_normalize_env", "_logger", "_custom_logger",
    }
)  # fmt: skip
"""Attributes that SB3 does not save: a key with such a name would replace the agent's own."""

_BOOKKEEPING: Final = frozenset(
    {
        "device", "verbose", "num_timesteps", "start_time", "tensorboard_log", "ep_info_buffer", "ep_success_buffer",
        "eval_env", "n_envs", "exploration_rate", "log_ent_coef", "ent_coef_optimizer", "processes", "old_count",
        "n_params", "policy_class", "observation_space", "action_space",
    }
)  # fmt: skip


def is_hyperparameter(key: str, algorithm: str) -> bool:
    """Return whether the algorithm trains with a key of ``data``, or makes its networks from it."""
    return (
        key in known_keys(algorithm)
        and not key.startswith("_")
        and not (key in _BOOKKEEPING or key in EXCLUDED or key in REMOVED or key in RECREATED)
    )


# -- buffers ------------------------------------------------------------------------------------------

GOAL_STRATEGIES: Final = ("future", "final", "episode")
"""The names of ``GoalSelectionStrategy``, by value."""
