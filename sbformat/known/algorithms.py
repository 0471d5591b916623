"""The algorithms of SB3 and sb3-contrib, a row for each: what identifies it, its policies, optimizers and defaults.

A row is all that reading, validating and rebuilding need to know about an algorithm. One of an existing kind, such as a
variant of DQN, needs a row here and its keys in ``data.schema.json``; one with a network of its own also needs a row of
``NETWORKS`` in :mod:`sbformat.nets.sb3`. This module is imported whenever an archive is opened.

Sources: SB3 0.6 to 2.9 and sb3-contrib 0.9 to 2.9, ``common/base_class.py``, ``common/*_policy_algorithm.py``, the
constructor of every algorithm, and the end of each ``policies.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.immutable import Record
from sbformat.known.changes import BATCH_RENORM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.known.changes import Release
    from sbformat.pkl.tree import Pair

Kind: TypeAlias = Literal["actor_critic", "q", "critics", "ars"]
"""One network for both, a Q-network, an actor and critics, or a network whose weights are searched."""

_OPTIMIZERS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "actor_critic": ("policy.optimizer",),
    "q": ("policy.optimizer",),
    "critics": ("actor.optimizer", "critic.optimizer"),
    "ars": (),
}


class PolicyClasses(Record):
    """The policy classes of one or more algorithms."""

    module: str
    names: str
    """For vectors, images and dicts, as far as there are any, separated by spaces."""
    kind: Kind
    aliases: str = "MlpPolicy CnnPolicy MultiInputPolicy"
    """SB3's short names of these classes, in the same order."""
    network: str = ""
    """The key of ``NETWORKS`` of the classes that have no row of their own there; by default the first name."""
    others: str = ""
    """More classes of the module that an archive may name: networks and base classes."""
    since: Release | None = None
    """The release of SB3 that added them."""

    @property
    def by_alias(self) -> dict[str, Pair]:
        """The classes by SB3's short names, the one for vectors first."""
        return {alias: (self.module, name) for alias, name in zip(self.aliases.split(), self.names.split())}


class KnownAlgorithm(Record):
    """The row of an algorithm: all that is known about it."""

    name: str
    module: str
    """The module of its class."""
    classes: PolicyClasses
    learning_rate: float
    """The default of the constructor."""
    defaults: Mapping[str, Any]
    """The other values that the constructor sets when ``data`` has none, by key of ``data``."""
    keys: tuple[tuple[str, ...], ...] = ()
    """Keys of ``data`` that it writes: any of these groups identifies it. Without a group it writes those of ``like``,
    and its policy class identifies it."""
    precedence: int = 0
    """The keys of algorithms with a greater number are looked for first: they are the more specific ones."""
    like: str = ""
    """The algorithm as which it is identified where keys and policy class are not enough."""
    fixes: tuple[str, ...] = ()
    """Keys that ``like`` takes as arguments, and that have the default in every archive of this algorithm."""
    older_packages: tuple[str, ...] = ()
    """Other modules that had its policy classes."""
    policy_kwargs: Mapping[str, Any] = {}
    """The policy's arguments when ``data`` has no ``policy_kwargs``."""
    others: Mapping[str, Any] = {}
    """Defaults of further arguments of the constructor, whose values in ``data`` are made from them."""

    @property
    def kind(self) -> Kind:
        """The kind of its policies."""
        return self.classes.kind

    @property
    def policies(self) -> dict[str, Pair]:
        """The policy classes by SB3's short names: ``MlpPolicy``, ..."""
        return self.classes.by_alias

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The defaults of the constructor, by key of ``data``; without what agents keep of their run."""
        settings = {key: value for key, value in self.defaults.items() if key not in _OF_RUN}
        return {"learning_rate": self.learning_rate, **settings, **_OBJECTS, **self.others}

    def rollout_buffer(self, *, is_dict: bool) -> Pair:
        """The class of the rollout buffer, of an algorithm that has one."""
        module = self.classes.module.removesuffix("policies") + "buffers"
        prefix = next(iter(self.policies.values()))[1].removesuffix("ActorCriticPolicy")
        return module, f"{prefix}{'Dict' if is_dict else ''}RolloutBuffer"


# -- policies -----------------------------------------------------------------------------------------

_BESIDE: Final = "CnnPolicy MultiInputPolicy"
ACTOR_CRITIC: Final = PolicyClasses(
    "stable_baselines3.common.policies", "ActorCriticPolicy ActorCriticCnnPolicy MultiInputActorCriticPolicy",
    "actor_critic", others="BaseModel BasePolicy ContinuousCritic",
)  # fmt: skip
_MASKABLE: Final = PolicyClasses(
    "sb3_contrib.common.maskable.policies",
    "MaskableActorCriticPolicy MaskableActorCriticCnnPolicy MaskableMultiInputActorCriticPolicy", "actor_critic",
)  # fmt: skip
_RECURRENT: Final = PolicyClasses(
    "sb3_contrib.common.recurrent.policies",
    "RecurrentActorCriticPolicy RecurrentActorCriticCnnPolicy RecurrentMultiInputActorCriticPolicy", "actor_critic",
    aliases="MlpLstmPolicy CnnLstmPolicy MultiInputLstmPolicy",
)  # fmt: skip
_DQN: Final = PolicyClasses("stable_baselines3.dqn.policies", f"DQNPolicy {_BESIDE}", "q", others="QNetwork")
_QRDQN: Final = PolicyClasses("sb3_contrib.qrdqn.policies", f"QRDQNPolicy {_BESIDE}", "q", others="QuantileNetwork")
_SAC: Final = PolicyClasses("stable_baselines3.sac.policies", f"SACPolicy {_BESIDE}", "critics", others="Actor")
_TD3: Final = PolicyClasses("stable_baselines3.td3.policies", f"TD3Policy {_BESIDE}", "critics", others="Actor")
_TQC: Final = PolicyClasses("sb3_contrib.tqc.policies", f"TQCPolicy {_BESIDE}", "critics", others="Actor Critic")
_CROSSQ: Final = PolicyClasses(
    "sb3_contrib.crossq.policies", "CrossQPolicy", "critics", others="Actor CrossQCritic", since=BATCH_RENORM
)
_ARS: Final = PolicyClasses(
    "sb3_contrib.ars.policies", "ARSPolicy ARSLinearPolicy", "ars", aliases="MlpPolicy LinearPolicy"
)

# -- the values that constructors set when data has none ----------------------------------------------

_COMMON: Final[Mapping[str, Any]] = {
    "_stats_window_size": 100, "seed": None, "use_sde": False, "sde_sample_freq": -1, "verbose": 0,
    "num_timesteps": 0, "_total_timesteps": 0, "_num_timesteps_at_start": 0, "_n_updates": 0, "_episode_num": 0,
    "start_time": 0.0, "n_envs": 1,
}  # fmt: skip
_OF_RUN: Final = frozenset({
    "seed", "verbose", "num_timesteps", "_total_timesteps", "_num_timesteps_at_start", "_n_updates", "_episode_num",
    "start_time", "n_envs", "exploration_rate",
})  # fmt: skip
"""Keys of these and the following values that are not hyper-parameters."""
_OBJECTS: Final[Mapping[str, Any]] = dict.fromkeys((
    "policy_kwargs", "replay_buffer_class", "replay_buffer_kwargs", "rollout_buffer_class", "rollout_buffer_kwargs",
))  # fmt: skip
"""Arguments of every constructor that are None by default."""
_CLIPPED: Final[Mapping[str, Any]] = {"clip_range": 0.2, "clip_range_vf": None}
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

# -- algorithms ---------------------------------------------------------------------------------------

_ROWS: Final = (
    KnownAlgorithm("PPO", "stable_baselines3.ppo.ppo", ACTOR_CRITIC, 3e-4, _ON_POLICY, keys=(("n_epochs",),),
                   others=_CLIPPED, older_packages=("stable_baselines3.ppo.policies",)),  # SB3 0.6
    KnownAlgorithm("A2C", "stable_baselines3.a2c.a2c", ACTOR_CRITIC, 7e-4,
                   {**_ON_POLICY, "n_steps": 5, "gae_lambda": 1.0, "normalize_advantage": False},
                   keys=(("n_steps", "gae_lambda", "vf_coef"),), like="PPO",
                   older_packages=("stable_baselines3.a2c.policies",)),
    KnownAlgorithm("TRPO", "sb3_contrib.trpo.trpo", ACTOR_CRITIC, 1e-3, {
        **_ON_POLICY, "batch_size": 128, "ent_coef": 0.0, "vf_coef": 0.0, "max_grad_norm": 0.0, "target_kl": 0.01,
        "cg_max_steps": 15, "cg_damping": 0.1, "line_search_shrinking_factor": 0.8, "line_search_max_iter": 10,
        "n_critic_updates": 10, "sub_sampling_factor": 1,
    }, keys=(("cg_max_steps",),), precedence=3, like="PPO", older_packages=("sb3_contrib.trpo.policies",)),
    KnownAlgorithm("MaskablePPO", "sb3_contrib.ppo_mask.ppo_mask", _MASKABLE, 3e-4, _ON_POLICY, like="PPO",
                   others=_CLIPPED, older_packages=("sb3_contrib.ppo_mask.policies",)),
    KnownAlgorithm("RecurrentPPO", "sb3_contrib.ppo_recurrent.ppo_recurrent", _RECURRENT, 3e-4,
                   {**_ON_POLICY, "n_steps": 128, "batch_size": 128}, like="PPO",
                   others=_CLIPPED, older_packages=("sb3_contrib.ppo_recurrent.policies",)),
    KnownAlgorithm("DQN", "stable_baselines3.dqn.dqn", _DQN, 1e-4,
                   {**_Q, "exploration_fraction": 0.1, "exploration_final_eps": 0.05, "max_grad_norm": 10},
                   keys=(("exploration_fraction",),), precedence=2),
    KnownAlgorithm("QRDQN", "sb3_contrib.qrdqn.qrdqn", _QRDQN, 5e-5,
                   {**_Q, "exploration_fraction": 0.005, "exploration_final_eps": 0.01, "max_grad_norm": None},
                   keys=(("n_quantiles",),), precedence=3),
    KnownAlgorithm("SAC", "stable_baselines3.sac.sac", _SAC, 3e-4, _ENTROPY, keys=(("target_entropy", "ent_coef"),),
                   precedence=1),
    KnownAlgorithm("TD3", "stable_baselines3.td3.td3", _TD3, 1e-3,
                   {**_OFF_POLICY, "policy_delay": 2, "target_policy_noise": 0.2, "target_noise_clip": 0.5},
                   keys=(("policy_delay", "target_policy_noise"),), precedence=1),
    KnownAlgorithm("DDPG", "stable_baselines3.ddpg.ddpg", _TD3, 1e-3,  # a TD3 without its tricks
                   {**_OFF_POLICY, "policy_delay": 1, "target_policy_noise": 0.1, "target_noise_clip": 0.0},
                   like="TD3", fixes=("policy_delay", "target_noise_clip"), policy_kwargs={"n_critics": 1}),
    KnownAlgorithm("TQC", "sb3_contrib.tqc.tqc", _TQC, 3e-4, {**_ENTROPY, "top_quantiles_to_drop_per_net": 2},
                   keys=(("top_quantiles_to_drop_per_net",),), precedence=4, like="SAC"),
    KnownAlgorithm("CrossQ", "sb3_contrib.crossq.crossq", _CROSSQ, 1e-3, {**_ENTROPY, "tau": 1.0, "policy_delay": 3},
                   keys=(("target_entropy", "policy_delay"),), precedence=2, like="SAC"),
    KnownAlgorithm("ARS", "sb3_contrib.ars.ars", _ARS, 2e-2, {
        **_COMMON, "n_delta": 8, "delta_std": 0.05, "zero_policy": True, "alive_bonus_offset": 0, "n_eval_episodes": 1,
    }, keys=(("n_delta", "delta_std"), ("n_delta", "pop_size")), precedence=6, others={"n_top": None}),
)  # fmt: skip
ALGORITHMS: Final = {row.name: row for row in _ROWS}
"""The algorithms by name."""

HER: Final[Pair] = ("stable_baselines3.her.her", "HER")
"""Before SB3 1.1 a wrapper of another algorithm, whose keys are among its own."""
_WRITTEN: Final = [(row.precedence, row.name, keys) for row in _ROWS for keys in row.keys]
_WRITTEN.append((5, "HER", ("model_class", "n_sampled_goal")))
SIGNATURES: Final = tuple((name, keys) for _, name, keys in sorted(_WRITTEN, key=lambda written: -written[0]))
"""Keys of ``data`` by the algorithm that writes them, the most specific ones first."""
OPTIMIZERS: Final = {row.name: _OPTIMIZERS[row.kind] for row in _ROWS}
"""The optimizers that ``load`` of each algorithm requires (FORMAT.md 1.2)."""
ENTROPY_LEARNERS: Final = frozenset(row.name for row in _ROWS if "target_entropy" in row.defaults)
"""Algorithms that can learn the entropy coefficient."""
POLICY_CLASSES: Final = tuple(dict.fromkeys(row.classes for row in _ROWS))
"""The policy classes, those that several algorithms share once."""


def list_relatives(name: str) -> list[str]:
    """Return the other algorithms that may have written an archive whose algorithm, ``name``, is not certain."""
    row = ALGORITHMS.get(name)
    own = [row.like] if row is not None and row.like else []
    return own + [other.name for other in _ROWS if other.like == name]
