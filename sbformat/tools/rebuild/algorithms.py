"""The algorithms of the targets, and what their keys of ``data`` are to SB3 (REBUILDING.md 15.2).

Sources: SB3 and sb3-contrib 2.0 to 2.9, ``common/base_class.py``, ``common/*_policy_algorithm.py``, and the
constructors of every algorithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.known.changes import REMOVED
from sbformat.known.spaces import DictSpace, Space
from sbformat.known.types import Reference
from sbformat.policies.shapes import POLICIES
from sbformat.policies.shapes.extractors import is_image
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
        has_image = isinstance(space, Space) and is_image(space, is_normalized=False)
        kind = "MultiInput" if isinstance(space, DictSpace) else "Cnn" if has_image else "Mlp"
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
