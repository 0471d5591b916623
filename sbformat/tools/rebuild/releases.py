"""What changed between the releases of SB3 and sb3-contrib, as far as an archive shows it (FORMAT.md 15.2).

Sources: the packages of SB3 0.6 to 2.9 and sb3-contrib 0.10 to 2.9, read: ``common/base_class.py``, ``common/*_policy_
algorithm.py``, the constructors of every algorithm, policy and buffer, and their changelogs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.schema import known_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.globals.torch import Pair


class Family(NamedTuple):
    """What an algorithm has in common with others."""

    kind: str
    """``actor_critic`` (one network for both), ``q`` (a Q-network), ``critics`` (actor and critics), ``ars``."""
    policies: Mapping[str, Pair]
    """The policy classes by their short names."""
    learning_rate: float
    """The constructor's default."""


def _policies(module: str, **classes: str) -> dict[str, Pair]:
    return {f"{alias}Policy": (module, name) for alias, name in classes.items()}


_ACTOR_CRITIC: Final = _policies(
    "stable_baselines3.common.policies",
    Mlp="ActorCriticPolicy", Cnn="ActorCriticCnnPolicy", MultiInput="MultiInputActorCriticPolicy",
)  # fmt: skip
_MASKABLE: Final = _policies(
    "sb3_contrib.common.maskable.policies",
    Mlp="MaskableActorCriticPolicy", Cnn="MaskableActorCriticCnnPolicy",
    MultiInput="MaskableMultiInputActorCriticPolicy",
)  # fmt: skip
_RECURRENT: Final = _policies(
    "sb3_contrib.common.recurrent.policies",
    MlpLstm="RecurrentActorCriticPolicy", CnnLstm="RecurrentActorCriticCnnPolicy",
    MultiInputLstm="RecurrentMultiInputActorCriticPolicy",
)  # fmt: skip


def _off_policy(package: str, name: str) -> dict[str, Pair]:
    return _policies(f"{package}.policies", Mlp=name, Cnn="CnnPolicy", MultiInput="MultiInputPolicy")


ALGORITHMS: Final[dict[str, Family]] = {
    "PPO": Family("actor_critic", _ACTOR_CRITIC, 3e-4),
    "A2C": Family("actor_critic", _ACTOR_CRITIC, 7e-4),
    "TRPO": Family("actor_critic", _ACTOR_CRITIC, 1e-3),
    "MaskablePPO": Family("actor_critic", _MASKABLE, 3e-4),
    "RecurrentPPO": Family("actor_critic", _RECURRENT, 3e-4),
    "DQN": Family("q", _off_policy("stable_baselines3.dqn", "DQNPolicy"), 1e-4),
    "QRDQN": Family("q", _off_policy("sb3_contrib.qrdqn", "QRDQNPolicy"), 5e-5),
    "SAC": Family("critics", _off_policy("stable_baselines3.sac", "SACPolicy"), 3e-4),
    "TD3": Family("critics", _off_policy("stable_baselines3.td3", "TD3Policy"), 1e-3),
    "DDPG": Family("critics", _off_policy("stable_baselines3.td3", "TD3Policy"), 1e-3),
    "TQC": Family("critics", _off_policy("sb3_contrib.tqc", "TQCPolicy"), 3e-4),
    "CrossQ": Family("critics", {"MlpPolicy": ("sb3_contrib.crossq.policies", "CrossQPolicy")}, 1e-3),
    "ARS": Family(
        "ars", _policies("sb3_contrib.ars.policies", Mlp="ARSPolicy", Linear="ARSLinearPolicy"), 2e-2
    ),
}  # fmt: skip
"""Every algorithm that the targets have."""

# -- keys of data -------------------------------------------------------------------------------------

RENAMED: Final = {
    "_current_progress": "_current_progress_remaining",  # 0.8
    "_last_dones": "_last_episode_starts",  # 1.1
}
"""Keys that have another name now."""

MADE_ANEW: Final = {
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
"""Blobs that SB3's ``load`` writes over, and what it makes them from."""

REMOVED: Final = {
    "tb_writer": "removed in SB3 0.8",
    "remove_time_limit_termination": "removed in SB3 1.5: replay buffers handle timeouts",
    "n_episodes_rollout": "part of train_freq since SB3 1.0",
    "model_class": "HER is a replay buffer since SB3 1.1, not an algorithm",
    "n_sampled_goal": "part of replay_buffer_kwargs since SB3 1.1",
    "goal_selection_strategy": "part of replay_buffer_kwargs since SB3 1.1",
    "online_sampling": "removed in SB3 2.0: goals are always sampled online",
    "max_episode_length": "removed in SB3 2.0: episodes are told by where they end",
}
"""Keys that no target has."""

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
"""What the algorithms define: a key of that name would take its place on the agent."""

TEXTS: Final = frozenset({"ent_coef", "target_entropy"})
"""Keys whose value SB3 itself has as a text."""

HER_KEPT: Final = ("model_class", "n_sampled_goal", "goal_selection_strategy")
"""Keys of HER before SB3 1.1 whose meaning lives on elsewhere."""

EXCLUDED: Final = frozenset(
    {
        "env", "eval_env", "device", "policy", "actor", "actor_target", "critic", "critic_target", "q_net",
        "q_net_target", "quantile_net", "quantile_net_target", "replay_buffer", "rollout_buffer", "_episode_storage",
        "_vec_normalize_env", "_logger", "_custom_logger",
    }
)  # fmt: skip
"""Attributes that SB3 leaves out when it saves: an archive that has them would put them in the place of its own."""

A2C_OF_0_6: Final = frozenset({"batch_size", "n_epochs", "clip_range", "clip_range_vf", "target_kl"})
"""Keys of PPO that A2C wrote in SB3 0.6, where it was one."""

DIVIDED_INTERVAL: Final = {"DQN": ((1, 4), (2, 0)), "QRDQN": ((2, 0), (2, 4))}
"""Releases that saved ``target_update_interval`` divided by ``n_envs``: since, and until."""

SCHEDULES: Final = frozenset({"learning_rate", "clip_range", "clip_range_vf", "delta_std_schedule"})
DEFAULTS: Final = {"clip_range": "0.2", "clip_range_vf": "no clipping", "delta_std_schedule": "0.05"}
"""The constructors' defaults of what may have to be dropped."""


_BOOKKEEPING: Final = frozenset(
    {
        "device", "verbose", "num_timesteps", "start_time", "tensorboard_log", "ep_info_buffer", "ep_success_buffer",
        "eval_env", "n_envs", "exploration_rate", "log_ent_coef", "ent_coef_optimizer", "processes", "old_count",
        "n_params", "policy_class", "observation_space", "action_space",
    }
)  # fmt: skip


def is_hyperparameter(key: str, algorithm: str) -> bool:
    """Say whether a key of ``data`` is one that the algorithm trains with, or makes its networks from."""
    return (
        key in known_keys(algorithm)
        and not key.startswith("_")
        and not (key in _BOOKKEEPING or key in EXCLUDED or key in REMOVED or key in MADE_ANEW)
    )


# -- buffers ------------------------------------------------------------------------------------------

GOAL_STRATEGIES: Final = ("future", "final", "episode")
"""``GoalSelectionStrategy`` by its values."""
HER_REMOVED: Final = ("online_sampling", "max_episode_length", "replay_buffer")
"""Arguments of HerReplayBuffer that SB3 2.0 does not take."""
