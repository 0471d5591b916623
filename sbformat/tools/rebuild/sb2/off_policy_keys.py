"""The hyper-parameters of SB2's off-policy algorithms under SB3's names, with the same meaning.

SB2 does not save all of them. What it uses when it loads a file, the default of its constructor, is set then, so that
the agent trains as in SB2, not with SB3's defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.known.sb3 import HER_BUFFER
from sbformat.known.types import EnumMember, Reference, TrainFreq
from sbformat.tools.rebuild.sb2.noise import convert_noise

if TYPE_CHECKING:
    from sbformat.tools.rebuild.sb2.interface import Keys, Sb2Agent

_FREQUENCY_UNIT: Final = Reference("stable_baselines3.common.type_aliases", "TrainFrequencyUnit")
_NOT_SAVED: Final = "SB2 does not save it, and loads a file with its default"
_NO_PRIORITIES: Final = "SB3 has no replay buffer with priorities"
_PRIORITIES: Final = (
    "prioritized_replay_alpha", "prioritized_replay_beta0", "prioritized_replay_beta_iters", "prioritized_replay_eps",
)  # fmt: skip
_CHECKPOINTS: Final = ("checkpoint_freq", "checkpoint_path")
_EPSILON: Final = "deepq/eps:0"
_DQN_BUFFER: Final = 50_000
_DQN_GRADIENT_NORM: Final = 10
_TD3_GRADIENT_STEPS: Final = 100
_MOST_STEPS: Final = 2**31
_DDPG_NOT_TRAINED_WITH: Final = {
    "nb_eval_steps": "steps of an evaluation during training: EvalCallback of SB3 evaluates",
    "memory_policy": "the class of the replay buffer, which SB3 has its own of",
    "memory_limit": "the older name of buffer_size",
    "param_noise_adaption_interval": "an option of param_noise",
}


def convert_dqn_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Convert the hyper-parameters of DQN."""
    for key in ("learning_rate", "batch_size", "learning_starts", "exploration_fraction", "exploration_final_eps"):
        keys.rename(key)
    _set_or_default(keys, "exploration_initial_eps", 1.0)
    _set_or_default(keys, "buffer_size", _DQN_BUFFER)
    keys.rename("target_network_update_freq", "target_update_interval")
    _set_train_freq(keys, "train_freq")
    keys.set("gradient_steps", 1, None, "SB2 makes one step each time")
    keys.set("tau", 1.0, None, "SB2 copies the network to its target")
    keys.set("max_grad_norm", _DQN_GRADIENT_NORM, None, "SB2's limit, there of each tensor alone")
    _set_exploration_rate(agent, keys)
    is_double = keys.get("double_q") is True
    message = "double Q-learning, which SB3 has not" if is_double else "SB3 has no double Q-learning either"
    keys.drop("double_q", message, "DQN's own target" if is_double else None, is_finding=is_double)
    has_priorities = keys.get("prioritized_replay") is True
    instead = "a uniform replay buffer" if has_priorities else None
    for key in ("prioritized_replay", *_PRIORITIES):
        keys.drop(key, _NO_PRIORITIES, instead, is_finding=has_priorities)
    has_noise = keys.get("param_noise") is True
    message = "SB3 has no noise in parameters"
    keys.drop("param_noise", message, "an epsilon-greedy policy" if has_noise else None, is_finding=has_noise)
    for key in _CHECKPOINTS:
        keys.drop(key, "CheckpointCallback of SB3 saves checkpoints", is_finding=False)
    _convert_her_keys(agent, keys)


def convert_sac_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Convert the hyper-parameters of SAC."""
    for key in ("learning_rate", "buffer_size", "batch_size", "learning_starts", "tau", "ent_coef"):
        keys.rename(key)
    keys.set("target_entropy", _to_float(keys.get("target_entropy", "auto")), "target_entropy")
    _set_train_freq(keys, "train_freq")
    _set_or_default(keys, "gradient_steps", 1)
    _set_or_default(keys, "target_update_interval", 1)
    _convert_exploration(keys)
    _convert_her_keys(agent, keys)


def convert_td3_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Convert the hyper-parameters of TD3."""
    for key in ("learning_rate", "buffer_size", "batch_size", "learning_starts", "tau"):
        keys.rename(key)
    for key in ("policy_delay", "target_policy_noise", "target_noise_clip"):
        keys.rename(key)
    _set_train_freq(keys, "train_freq")
    _set_or_default(keys, "gradient_steps", _TD3_GRADIENT_STEPS)
    _convert_exploration(keys)
    _convert_her_keys(agent, keys)


def convert_ddpg_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Convert the hyper-parameters of DDPG to those of SB3's, which are TD3's without a delay and noise in targets."""
    for key in ("batch_size", "tau"):
        keys.rename(key)
    if "buffer_size" in agent.data:
        keys.rename("buffer_size")
    else:  # before 2.6
        keys.rename("memory_limit", "buffer_size")
    keys.rename("nb_train_steps", "gradient_steps")
    _set_train_freq(keys, "nb_rollout_steps")
    keys.set("learning_starts", 0, None, "SB2 takes no random actions before it trains")
    keys.set("policy_delay", 1, None, "DDPG trains the actor in each step")
    keys.set("target_noise_clip", 0.0, None, "DDPG has no noise in its targets")
    _convert_learning_rates(keys)
    _convert_exploration(keys)
    has_noise = keys.get("param_noise") is not None
    keys.drop("param_noise", "SB3 has no noise in parameters", is_finding=has_noise)
    for key, message in _DDPG_NOT_TRAINED_WITH.items():
        keys.drop(key, message, is_finding=False)
    _convert_normalization(agent, keys)
    _convert_her_keys(agent, keys)


def _convert_learning_rates(keys: Keys) -> None:
    """Set the learning rate, of which SB3 has one for actor and critic: the smaller one of the actor."""
    actor, critic = keys.get("actor_lr"), keys.get("critic_lr")
    keys.rename("actor_lr", "learning_rate")
    if actor == critic:
        keys.merge("critic_lr", "learning_rate", "for actor and critic")
        return
    message = "SB3 has one learning rate for actor and critic"
    keys.drop("critic_lr", message, f"actor_lr, {actor}")


def _convert_normalization(agent: Sb2Agent, keys: Keys) -> None:
    """Report what DDPG does with observations, rewards and gradients."""
    for key, part in (("normalize_observations", "input/obs_rms"), ("normalize_returns", "input/ret_rms")):
        if keys.get(key) is not True:
            keys.drop(key, "nothing is normalized, as in SB3", is_finding=False)
            continue
        has_statistics = any(name.startswith(part) for name in agent.parameters)
        message = "the statistics are part of the layers" if has_statistics else "the file has no statistics"
        keys.drop(key, f"{message}, and training does not change them", "VecNormalize, for new ones")
    message = "a layer of the networks clips the observations, if any of the space can be beyond"
    keys.merge("observation_range", "policy_kwargs/net_arch", message)
    neutral = {
        "enable_popart": (False, "SB3 has no Pop-Art"),
        "return_range": ([float("-inf"), float("inf")], "SB3 does not clip the values of its critics"),
        "critic_l2_reg": (0.0, "SB3 has no regularization of the critic; weight_decay of the optimizer is near to it"),
        "clip_norm": (None, "SB3's DDPG does not clip gradients"),
        "reward_scale": (1.0, "SB3 does not scale rewards: a wrapper of the environment does"),
    }
    for key, (value, message) in neutral.items():
        given = keys.get(key, value)
        given = list(given) if isinstance(given, tuple) else given
        keys.drop(key, message, is_finding=given != value)


# -- what several algorithms have ---------------------------------------------------------------------


def _set_or_default(keys: Keys, key: str, default: object) -> None:
    """Set a key to the value of the file, or to SB2's default."""
    if keys.get(key) is None:
        keys.set(key, default, None, _NOT_SAVED)
    else:
        keys.rename(key)


def _set_train_freq(keys: Keys, source: str) -> None:
    value = keys.get(source)
    if type(value) is int and 0 < value < _MOST_STEPS:
        keys.set("train_freq", TrainFreq(value, EnumMember(_FREQUENCY_UNIT, "step")), source)
    else:
        keys.drop(source, "expected a number of steps", "every step")
        keys.set("train_freq", TrainFreq(1, EnumMember(_FREQUENCY_UNIT, "step")))


def _set_exploration_rate(agent: Sb2Agent, keys: Keys) -> None:
    """Set the rate of random actions to the one that training had last."""
    info = agent.model.tensors.get(_EPSILON)
    if info is not None and not info.shape:
        rate = float(agent.array(_EPSILON, "float64"))
        if 0 <= rate <= 1:
            keys.set("exploration_rate", rate, None, f"{_EPSILON}: the rate that training had last")


def _convert_exploration(keys: Keys) -> None:
    """Convert the noise of actions; SB3 has no random actions after the start."""
    if "action_noise" in keys.present:
        keys.set("action_noise", convert_noise(keys.value("action_noise")), "action_noise")
    rate = keys.get("random_exploration")
    is_used = rate not in (None, 0, 0.0)
    message = "SB3 takes random actions only before learning_starts"
    keys.drop("random_exploration", message, "none" if is_used else None, is_finding=is_used)


def _convert_her_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Convert HER's own keys: in SB3 it is a replay buffer, which has them as arguments."""
    if agent.algorithm != "HER":
        return
    keys.set("replay_buffer_class", Reference(*HER_BUFFER), "model_class", "HER is a replay buffer in SB3")
    arguments = {key: keys.get(key) for key in ("n_sampled_goal", "goal_selection_strategy")}
    keys.set("replay_buffer_kwargs", {key: value for key, value in arguments.items() if value is not None},
             "n_sampled_goal", "arguments of HerReplayBuffer")  # fmt: skip
    keys.merge("goal_selection_strategy", "replay_buffer_kwargs/goal_selection_strategy")
    keys.merge("her_obs_space", "observation_space")
    keys.merge("her_action_space", "action_space")


def _to_float(value: object) -> object:
    """Return a number of numpy as one of Python; another value unchanged."""
    try:
        return value if isinstance(value, str) else float(to_number(value, "a number"))
    except UnrecognizedError:
        return value
