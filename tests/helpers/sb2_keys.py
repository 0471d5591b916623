"""The keys of ``data`` that each algorithm of Stable Baselines 2 writes, by release, and ``data`` made of them.

The table is that of the ``save`` methods at the tags of its repository, 2.0.0 to 2.10.1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sbformat import pkl
from sbformat.data import Serialized

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMON: Final = "gamma verbose policy observation_space action_space n_envs _vectorize_action"
"""What all write in every release."""

HISTORY: Final = {
    "A2C": """
        2.0 n_steps vf_coef ent_coef max_grad_norm learning_rate alpha epsilon lr_schedule
        2.4 policy_kwargs
        2.9 n_cpu_tf_sess seed
    """,
    "ACER": """
        2.0 n_steps q_coef ent_coef max_grad_norm learning_rate lr_schedule rprop_alpha rprop_epsilon replay_ratio
            replay_start
        2.4 policy_kwargs
        2.9 n_cpu_tf_sess seed
    """,
    "ACKTR": """
        2.0 nprocs n_steps vf_coef ent_coef vf_fisher_coef max_grad_norm learning_rate kfac_clip lr_schedule
        2.4 policy_kwargs
        2.8 gae_lambda kfac_update
        2.9 n_cpu_tf_sess seed -nprocs
    """,
    "DDPG": """
        2.0 nb_eval_steps param_noise_adaption_interval nb_train_steps nb_rollout_steps param_noise action_noise tau
            normalize_returns enable_popart normalize_observations batch_size observation_range return_range
            critic_l2_reg actor_lr critic_lr clip_norm reward_scale memory_limit memory_policy
        2.4 policy_kwargs
        2.6 buffer_size random_exploration -memory_policy
        2.9 n_cpu_tf_sess seed
    """,
    "DQN": """
        2.0 checkpoint_path param_noise learning_starts train_freq prioritized_replay prioritized_replay_eps
            batch_size target_network_update_freq checkpoint_freq prioritized_replay_alpha prioritized_replay_beta0
            prioritized_replay_beta_iters exploration_final_eps exploration_fraction learning_rate
        2.4 policy_kwargs
        2.8 double_q -checkpoint_path -checkpoint_freq
        2.9 n_cpu_tf_sess seed
    """,
    "HER": """
        2.6 n_sampled_goal goal_selection_strategy model_class her_obs_space her_action_space
    """,
    "PPO1": """
        2.0 timesteps_per_actorbatch clip_param entcoeff optim_epochs optim_stepsize optim_batchsize lam
            adam_epsilon schedule
        2.4 policy_kwargs
        2.9 n_cpu_tf_sess seed
    """,
    "PPO2": """
        2.0 n_steps vf_coef ent_coef max_grad_norm learning_rate lam nminibatches noptepochs cliprange
        2.4 policy_kwargs
        2.6 cliprange_vf
        2.9 n_cpu_tf_sess seed
    """,
    "SAC": """
        2.4 learning_rate buffer_size learning_starts train_freq batch_size tau ent_coef target_entropy
            policy_kwargs
        2.6 action_noise random_exploration
        2.9 n_cpu_tf_sess seed
    """,
    "TD3": """
        2.7 learning_rate buffer_size learning_starts train_freq batch_size tau policy_delay target_noise_clip
            target_policy_noise action_noise random_exploration policy_kwargs
        2.9 n_cpu_tf_sess seed
    """,
    "TRPO": """
        2.0 timesteps_per_batch max_kl cg_iters lam entcoeff cg_damping vf_stepsize vf_iters pretrained_weight
            reward_giver expert_dataset save_per_iter checkpoint_dir g_step d_step task_name d_stepsize using_gail
        2.4 policy_kwargs
        2.5 hidden_size_adversary adversary_entcoeff -pretrained_weight -reward_giver -save_per_iter -checkpoint_dir
            -task_name
        2.9 n_cpu_tf_sess seed
    """,
}
"""Behind each release the keys that it added, and those it dropped; GAIL writes TRPO's."""

HER_KEYS: Final = tuple(HISTORY["HER"].split()[1:])
WRAPPED: Final = ("DDPG", "DQN", "SAC", "TD3")
"""The models that HER wraps, whose keys it adds its own to."""

ALGORITHMS: Final = (*HISTORY, "GAIL")


def releases(algorithm: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each release that changed the keys of an algorithm, and all keys that it writes; not for HER."""
    keys = COMMON.split()
    release = None
    for word in HISTORY["TRPO" if algorithm == "GAIL" else algorithm].split():
        if word[0].isdigit():
            if release is not None:
                yield release, tuple(keys)
            release = word
        elif word.startswith("-"):
            keys.remove(word[1:])
        else:
            keys.append(word)
    assert release is not None
    yield release, tuple(keys)


def written(algorithm: str) -> set[str]:
    """All keys that an algorithm wrote in any release."""
    if algorithm == "HER":
        return set(HER_KEYS).union(*(written(model) for model in WRAPPED))
    return {key for _, keys in releases(algorithm) for key in keys}


def reference(module: str, name: str) -> Serialized:
    """A class, as it stands in ``data``."""
    return Serialized("<class 'abc.ABCMeta'>", pkl.dumps(pkl.Global(module, name)))


_SHARED: Final = "stable_baselines.common.policies"
_MODULES: Final = {"DQN": "deepq", "DDPG": "ddpg", "SAC": "sac", "TD3": "td3"}
SPACE: Final = Serialized("<class 'gym.spaces.box.Box'>", pkl.dumps(None), {"shape": [3]})

DEFAULTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("observation_space", "action_space", "her_obs_space", "her_action_space"), SPACE),
    **dict.fromkeys(("seed", "n_cpu_tf_sess", "action_noise", "clip_norm", "expert_dataset", "reward_giver"), None),
    **dict.fromkeys(("gae_lambda", "checkpoint_path", "prioritized_replay_beta_iters", "pretrained_weight"), None),
    **dict.fromkeys(("_vectorize_action", "normalize_returns", "enable_popart", "normalize_observations"), False),
    **dict.fromkeys(("prioritized_replay", "double_q"), True),
    "policy_kwargs": {},
    "lr_schedule": "double_linear_con",
    "schedule": "linear",
    "observation_range": [-5.0, 5.0],
    "return_range": [float("-inf"), float("inf")],
    "ent_coef": 0.01,
    "target_entropy": -3.0,
    "cliprange_vf": -1,
    "random_exploration": 0.0,
    "checkpoint_dir": "/tmp/gail/ckpt/",  # noqa: S108 -- SB2's default
    "task_name": "task_name",
    "memory_policy": reference("stable_baselines.ddpg.memory", "Memory"),
    "goal_selection_strategy": Serialized("<enum 'GoalSelectionStrategy'>", pkl.dumps(0)),
    **dict.fromkeys(("gamma", "alpha", "rprop_alpha", "lam", "tau"), 0.99),
    **dict.fromkeys(("prioritized_replay_alpha", "prioritized_replay_beta0", "exploration_fraction"), 0.5),
    "exploration_final_eps": 0.02,
}
"""A value of each key that is not a positive number of any kind."""


def data_of(algorithm: str, keys: tuple[str, ...], model: str = "SAC") -> dict[str, Any]:
    """``data`` with these keys and SB2's defaults, or the like.

    :param model: the one that HER wraps
    """
    made = {key: DEFAULTS.get(key, 1) for key in keys}
    module = _MODULES.get(model if algorithm == "HER" else algorithm)
    made["policy"] = reference(f"stable_baselines.{module}.policies" if module else _SHARED, "MlpPolicy")
    for key, value in (
        ("param_noise", False if "DQN" in (algorithm, model) else None),
        ("using_gail", algorithm == "GAIL"),
        ("model_class", reference(f"stable_baselines.{_MODULES[model]}.{model.lower()}", model)),
    ):
        made.update({key: value} if key in made else {})
    return made


def every_data() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the algorithm, the release and ``data`` of each algorithm and release, and of HER over each model."""
    for algorithm in ALGORITHMS:
        if algorithm != "HER":
            yield from ((algorithm, release, data_of(algorithm, keys)) for release, keys in releases(algorithm))
    for model in WRAPPED:
        for release, keys in releases(model):
            yield "HER", f"{model} {release}", data_of("HER", (*keys, *HER_KEYS), model)


def last_data(algorithm: str) -> dict[str, Any]:
    """``data`` of the last release; of HER over TD3."""
    return [data for name, _, data in every_data() if name == algorithm][-1]


def as_json(data: dict[str, Any]) -> bytes:
    """The entry ``data``."""
    return json.dumps(
        {key: value.to_json() if isinstance(value, Serialized) else value for key, value in data.items()}
    ).encode()
