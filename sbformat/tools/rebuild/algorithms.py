"""What keys of ``data`` are to the algorithms of SB3, and what it uses without them (REBUILDING.md 15.2).

Sources: SB3 and sb3-contrib 2.0 to 2.9, ``common/base_class.py``, ``common/*_policy_algorithm.py``, and the
constructors of every algorithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import REMOVED
from sbformat.known.spaces import Space
from sbformat.known.types import Reference
from sbformat.schema import known_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.pkl.names import Pair


def find_standard_policy(policies: Mapping[str, Pair], space: object) -> Reference | None:
    """Return the policy class that SB3 itself has for an observation space, or None.

    :param policies: the policy classes of an algorithm, by SB3's short names
    """
    kind = "Mlp"
    if isinstance(space, Space):
        kind = "MultiInput" if space.has_keys else "Cnn" if space.is_image() else "Mlp"
    pair = next((pair for alias, pair in policies.items() if alias.startswith(kind)), None)
    return None if pair is None else Reference(*pair)


_SCHEDULES: Final[Mapping[str, float | None]] = {"clip_range": 0.2, "clip_range_vf": None, "delta_std_schedule": 0.05}


def find_default(algorithm: str, key: str) -> Any:
    """Return the value that SB3 uses when a key is missing from ``data``; None if it is not known."""
    if key == "learning_rate":
        return ALGORITHMS[algorithm].learning_rate
    return {**ALGORITHMS[algorithm].defaults, **_SCHEDULES}.get(key)


def describe_default(algorithm: str, key: str) -> str:
    """Return what SB3 uses when a key is missing from ``data``, for the report."""
    values = ALGORITHMS[algorithm].defaults
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
