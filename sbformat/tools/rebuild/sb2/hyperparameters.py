"""The hyper-parameters of SB2 as keys of ``data`` of SB3, a function for each algorithm.

In: the decoded keys of an agent. Out: the settings and rows that :class:`Keys` collects: each key of SB2 is copied,
renamed, merged into another key, or dropped with a reason.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError, escape
from sbformat.immutable import Record
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.known.sb3 import HER_BUFFER
from sbformat.known.types import EnumMember, Instance, LinearSchedule, Reference, TrainFreq
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild.data_keys import FREQUENCY_UNIT
from sbformat.tools.rebuild.rebuild_report import Row, show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.archive import Archive
    from sbformat.tools.rebuild.rebuild_context import Advice
    from sbformat.tools.rebuild.sb2.networks import ConvertedNetwork, Sb2Agent

# -- keys ---------------------------------------------------------------------------------------------


class Undecodable:
    """The value of a key of ``data`` that cannot be decoded."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def decode_all(archive: Archive) -> dict[str, Any]:
    """Return every key of ``data``, decoded."""
    found: dict[str, Any] = {}
    for key in archive.data:
        try:
            found[key] = archive.decode(key)
        except SbformatError as error:
            found[key] = Undecodable(error.message)
    return found


class Setting(Record):
    """A key of ``data`` of the result."""

    value: object
    """As :func:`sbformat.values.decode` returns it."""
    source: str | None
    """SB2's name; None for what SB2 does without a key for it."""
    note: str
    """How the value or its meaning follows from SB2's."""


class Keys:
    """Collects the keys of ``data`` of the result, and the fate of each key of SB2."""

    def __init__(self, agent: Sb2Agent, advice: Advice) -> None:
        self.agent = agent
        self.advice = advice
        self.settings: dict[str, Setting] = {}
        """By SB3's name."""
        self.policy_kwargs: dict[str, object] = {}
        """Arguments of the policy that follow from keys of ``data``: of its optimizer."""
        self.rows: list[Row] = []
        """Rows of the keys that are dropped, and of those that became arguments of the policy."""
        self.done: set[str] = set()
        """The keys of SB2 that have a setting or a row."""

    def __contains__(self, key: str) -> bool:
        """Return whether the file has a key."""
        return key in self.agent.data

    def get(self, key: str, default: Any = None) -> Any:
        """Return the decoded value of a key of SB2, or the default when it is missing or cannot be decoded."""
        value = self.agent.data.get(key, default)
        return default if isinstance(value, Undecodable) else value

    def number(self, key: str, default: Any = None) -> float | int | None:
        """Return a finite number of Python or numpy as one of Python; None for anything else."""
        value = self.get(key, default)
        if isinstance(value, ArrayInfo) and value.is_scalar and value.dtype[1] in "fiu":
            value = value.to_numpy().item()
        if type(value) is float:
            return value if isfinite(value) else None
        return value if type(value) is int and abs(value) < 2**63 else None  # no release counts as far

    def copy(self, *keys: str, **renamed: str) -> None:
        """Set keys that SB3 has under the same names, then those with SB3's name as the value, if the file has them."""
        for source, key in ({key: key for key in keys} | renamed).items():
            self.rename(source, key)

    def rename(self, source: str, key: str, note: str = "") -> None:
        """Set a key of SB3 to the value of one of SB2; nothing when the file does not have it."""
        if source in self:
            self.set(key, self.agent.data[source], source, note)

    def set(self, key: str, value: object, source: str | None = None, note: str = "") -> None:
        """Set a key of SB3.

        :param source: the key of SB2 that it is from; None for what SB2 does without a key for it
        """
        self.settings[key] = Setting(value, source, note)
        if source is not None:
            self.done.add(source)

    def drop(self, source: str, message: str, instead: str | None = None, *, is_finding: bool = True) -> None:
        """Report that a key of SB2 is not in the result, and what SB3 uses; nothing when the file does not have it."""
        if source in self:
            value = self.agent.data[source]
            self.rows.append(Row(DATA_ENTRY, source, "dropped", message, instead, _show(value), is_finding))
            self.done.add(source)

    def merge(self, source: str, place: str, message: str = "") -> None:
        """Report that the value of a key of SB2 is part of another key; nothing when the file does not have it.

        :param place: the key of SB3, or a path below one: ``policy_kwargs/optimizer_kwargs/eps``
        """
        if source in self:
            self.rows.append(Row(DATA_ENTRY, source, "translated", message or f"part of {place}", new_key=place))
            self.done.add(source)

    def report_algorithm(self, message: str, instead: str) -> None:
        """Report that SB3 does not have the algorithm, and which one trains the result instead."""
        self.rows.append(Row(DATA_ENTRY, None, "dropped", message, instead, self.agent.algorithm, is_finding=True))


def _show(value: object) -> str:
    return escape(value.reason, 200) if isinstance(value, Undecodable) else show(value)


# -- hyper-parameters of on-policy algorithms ---------------------------------------------------------

_OPTIMIZER: Final = "policy_kwargs/optimizer_kwargs"
_RMSPROP_TF: Final = Reference("stable_baselines3.common.sb2_compat.rmsprop_tf_like", "RMSpropTFLike")
_RMSPROP: Final = Reference("torch.optim.rmsprop", "RMSprop")
_UNCLIPPED: Final = 1e10  # A norm that no gradient reaches: SB3 has no other way not to clip
_LINEAR: Final = {"linear": (0.0, 1.0), "double_linear_con": (0.125, 0.4375)}
"""End, as a part of the start, and end fraction of the schedules of ``common/schedules.py`` that are linear."""
_DROPS: Final = {
    "middle_drop": ("1 - t until t = 0.25, then 0.075", 1.19, 0.073, 0.36),
    "double_middle_drop": ("1 - t until t = 0.25, 0.075 until t = 0.75, then 0.125", 1.2, 0.094, 0.35),
}
"""Those that are not: the factor of the learning rate, by the part t of the training that is done; and the linear
schedule nearest to it by least squares: start, end, end fraction."""
_GAIL: Final = (
    "hidden_size_adversary", "adversary_entcoeff", "expert_dataset", "g_step", "d_step", "d_stepsize", "using_gail",
    "reward_giver", "pretrained_weight", "save_per_iter", "checkpoint_dir", "task_name",
)  # fmt: skip
"""Keys of GAIL, some of them of early releases alone."""


# -- PPO ----------------------------------------------------------------------------------------------


def convert_ppo2_keys(keys: Keys) -> None:
    """Convert the hyper-parameters of PPO2 to PPO's."""
    keys.copy("n_steps", "learning_rate", "ent_coef")
    _convert_gradient_norm(keys)
    keys.copy(lam="gae_lambda", noptepochs="n_epochs", cliprange="clip_range")
    source, number = "cliprange_vf", keys.number("cliprange_vf")
    if number is not None and number < 0:
        keys.set("clip_range_vf", None, source, f"None: {number}, a negative number, means no clipping")
    elif keys.get(source) is not None:
        keys.rename(source, "clip_range_vf")
    elif "cliprange" in keys:
        note = "that of cliprange, with which PPO2 clips the value function, too"
        keys.set("clip_range_vf", keys.agent.data["cliprange"], source if source in keys else None, note)
    _convert_batch_size(keys)
    coefficient = keys.number("vf_coef")
    if coefficient is not None:
        note = f"half of {coefficient}: PPO2 halves the squared error of the value function in its loss"
        keys.set("vf_coef", coefficient / 2, "vf_coef", note)
    else:
        keys.drop("vf_coef", "expected a number", "0.5, the default of PPO")
    keys.set("normalize_advantage", True, None, "PPO2 always normalizes advantages")
    keys.set("target_kl", None, None, "PPO2 does not stop an update early")


def _convert_batch_size(keys: Keys) -> None:
    """Set the size of minibatches, of which SB2 stores the number."""
    parts: list[Any] = [keys.number("n_steps"), keys.number("n_envs", 1), keys.number("nminibatches")]
    steps, envs, batches = parts
    size = 0
    if all(type(part) is int and part > 0 for part in parts):
        size = steps * envs // batches
    if size > 0:
        note = f"{size} = n_steps {steps} * n_envs {envs} / nminibatches {batches}"
        keys.set("batch_size", size, "nminibatches", note)
    else:
        message = "expected a number of minibatches for n_steps * n_envs steps"
        keys.drop("nminibatches", message, "batch_size 64, the default")


def convert_ppo1_keys(keys: Keys) -> None:
    """Convert the hyper-parameters of PPO1 to PPO's."""
    keys.copy(timesteps_per_actorbatch="n_steps", optim_epochs="n_epochs", optim_batchsize="batch_size")
    keys.copy(entcoeff="ent_coef", lam="gae_lambda")
    schedule = keys.get("schedule", "constant")
    for source, key in (("optim_stepsize", "learning_rate"), ("clip_param", "clip_range")):
        number = keys.number(source)
        if number is not None and schedule == "linear":
            keys.set(key, LinearSchedule(float(number), 0.0, 1.0), source, "linear, as schedule says")
        else:
            keys.rename(source, key)
    if schedule in ("constant", "linear") and "schedule" in keys:
        keys.merge("schedule", "learning_rate", f"and of clip_range, {schedule}")
    epsilon = keys.number("adam_epsilon")
    if epsilon is not None:
        keys.policy_kwargs["optimizer_kwargs"] = {"eps": epsilon}
        keys.merge("adam_epsilon", f"{_OPTIMIZER}/eps")
    else:
        keys.drop("adam_epsilon", "expected a number", "1e-05")
    keys.set("vf_coef", 1.0, None, "PPO1 adds the squared error of the value function to its loss")
    keys.set("clip_range_vf", None, None, "PPO1 does not clip the value function")
    keys.set("max_grad_norm", _UNCLIPPED, None, "PPO1 does not clip gradients, and no gradient is as long as that")
    keys.set("normalize_advantage", True, None, "PPO1 normalizes those of a rollout, SB3 those of a minibatch")
    keys.set("target_kl", None, None, "PPO1 does not stop an update early")


# -- A2C, ACKTR ---------------------------------------------------------------------------------------


def convert_a2c_keys(keys: Keys) -> None:
    """Convert the hyper-parameters of A2C."""
    keys.copy("n_steps", "ent_coef", "vf_coef")
    _convert_gradient_norm(keys)
    _convert_lr_schedule(keys)
    options: dict[str, object] = {"alpha": 0.99, "eps": 1e-5, "weight_decay": 0}
    for source, option in (("alpha", "alpha"), ("epsilon", "eps"), ("momentum", "momentum")):
        number = keys.number(source)
        if number is not None:
            options[option] = number
            keys.merge(source, f"{_OPTIMIZER}/{option}", "of RMSpropTFLike, which computes as in TensorFlow")
        else:
            keys.drop(source, "expected a number", "the default of A2C")
    keys.policy_kwargs.update({"optimizer_class": _RMSPROP_TF, "optimizer_kwargs": options})
    keys.set("gae_lambda", 1.0, None, "A2C of SB2 uses the returns of n steps")
    keys.set("normalize_advantage", False, None, "A2C of SB2 does not normalize advantages")


def _convert_lr_schedule(keys: Keys) -> None:
    """Set the learning rate: in SB2 a number, times the schedule that ``lr_schedule`` names."""
    name, rate = keys.get("lr_schedule", "constant"), keys.number("learning_rate")
    if rate is not None and isinstance(name, str) and name in _LINEAR:
        end, fraction = _LINEAR[name]
        schedule = LinearSchedule(float(rate), rate * end, fraction)
        keys.set("learning_rate", schedule, "learning_rate", f"{rate}, and lr_schedule is {name}")
        keys.merge("lr_schedule", "learning_rate", name)
        return
    keys.copy("learning_rate")
    if name == "constant":
        keys.merge("lr_schedule", "learning_rate", name)
    elif isinstance(name, str) and name in _DROPS:
        factor, start, end, fraction = _DROPS[name]
        first, last = (float(f"{part * (rate or 0):.3g}") for part in (start, end))
        advice = keys.advice.set_schedule("learning_rate", LinearSchedule(first, last, fraction))
        instead = f"the constant learning_rate {rate}; {advice} comes nearest"
        keys.drop("lr_schedule", f"SB3 has no such schedule: {factor}", instead)
    elif "lr_schedule" in keys:
        keys.drop("lr_schedule", "not a schedule of SB2", "a constant learning_rate")


def convert_acktr_keys(keys: Keys) -> None:
    """Convert the hyper-parameters of ACKTR to A2C's: all but those of its optimizer."""
    keys.report_algorithm("ACKTR trains with K-FAC, which SB3 does not have", "A2C, which trains with RMSprop")
    keys.copy("n_steps", "ent_coef", "vf_coef")
    _convert_gradient_norm(keys)
    message = "a learning rate of K-FAC, which is not one of RMSprop"
    for key in ("learning_rate", "lr_schedule"):
        keys.drop(key, message, "0.0007, the default of A2C")
    keys.set("learning_rate", 7e-4)  # with the row above
    for key in ("kfac_clip", "kfac_update", "vf_fisher_coef", "async_eigen_decomp"):
        keys.drop(key, "an option of K-FAC")
    options = {"alpha": 0.99, "eps": 1e-5, "weight_decay": 0}
    keys.policy_kwargs.update({"optimizer_class": _RMSPROP, "optimizer_kwargs": options})
    source = next((key for key in ("gae_lambda", "lam") if key in keys), None)
    factor = None if source is None else keys.number(source)
    is_used = factor is not None and factor >= 0  # early releases wrote a lam of -1
    keys.set("gae_lambda", factor if is_used else 1.0, source, "" if is_used else "the returns of n steps")
    is_continuous = keys.agent.model.action_space.distribution == "gaussian"
    keys.set("normalize_advantage", is_continuous, None, "ACKTR normalizes advantages of continuous actions")


def convert_recurrent_keys(keys: Keys) -> None:
    """Complete the hyper-parameters of an agent with an LSTM.

    With one epoch of one batch, the policy is the one that collected the batch. Then the ratio of PPO's loss is 1, its
    gradient is that of A2C, and nothing is clipped.
    """
    if keys.agent.algorithm != "A2C":
        return
    message = "SB3 has no A2C with an LSTM"
    keys.report_algorithm(message, "RecurrentPPO, with one epoch of one batch: the same steps of the policy")
    keys.set("n_epochs", 1, None, "A2C takes one step for each batch")
    steps, count = keys.get("n_steps"), keys.get("n_envs", 1)
    if type(steps) is int and type(count) is int:
        keys.set("batch_size", steps * count, None, f"n_steps {steps} * n_envs {count}: one batch")
    keys.set("clip_range", 0.2, None, "nothing is clipped in the first step of a batch")
    keys.set("clip_range_vf", None, None, "A2C does not clip the value function")
    keys.set("target_kl", None, None, "A2C does not stop an update early")


# -- TRPO, GAIL ---------------------------------------------------------------------------------------


def convert_trpo_keys(keys: Keys) -> None:
    """Convert the hyper-parameters of TRPO."""
    keys.copy(timesteps_per_batch="n_steps", lam="gae_lambda")
    keys.rename("max_kl", "target_kl", "SB2's line search accepts 1.5 times as much, SB3's does not")
    keys.copy(cg_iters="cg_max_steps", cg_damping="cg_damping")
    keys.rename("vf_stepsize", "learning_rate", "of the value function")
    keys.rename("vf_iters", "n_critic_updates")
    is_finding = keys.number("entcoeff") != 0
    keys.drop("entcoeff", "TRPO of SB3 has no bonus for entropy", "0.0", is_finding=is_finding)
    keys.policy_kwargs["optimizer_kwargs"] = {"eps": 1e-8}
    keys.set("batch_size", 128, None, "the minibatches of the value function in SB2's TRPO")
    keys.set("line_search_max_iter", 10, None, "the steps of SB2's line search")
    keys.set("line_search_shrinking_factor", 0.5, None, "that of SB2's line search")
    keys.set("sub_sampling_factor", 5, None, "SB2 takes each fifth step for the Fisher matrix")
    keys.set("normalize_advantage", True, None, "TRPO of SB2 normalizes advantages")
    is_gail = keys.agent.algorithm == "GAIL"
    if is_gail:
        message = "GAIL learns from demonstrations, which SB3 does not"
        keys.report_algorithm(message, "TRPO, which learns from rewards; the package imitation has GAIL for SB3")
    for key in _GAIL:  # TRPO writes them, too
        keys.drop(key, "an option of GAIL", is_finding=is_gail)


# -- keys of several ----------------------------------------------------------------------------------


def _convert_gradient_norm(keys: Keys) -> None:
    """Set ``max_grad_norm``: in SB2 None means that gradients are not clipped."""
    if keys.get("max_grad_norm", 0.0) is None:
        note = "None means no clipping, and no gradient is as long as that"
        keys.set("max_grad_norm", _UNCLIPPED, "max_grad_norm", note)
    else:
        keys.copy("max_grad_norm")


_PRIORITIES: Final = (
    "prioritized_replay", "prioritized_replay_alpha", "prioritized_replay_beta0", "prioritized_replay_beta_iters",
    "prioritized_replay_eps",
)  # fmt: skip
_EPSILON: Final = "deepq/eps:0"
_DDPG_NOT_TRAINED_WITH: Final = {
    "nb_eval_steps": "steps of an evaluation during training: EvalCallback of SB3 evaluates",
    "memory_policy": "the class of the replay buffer, which SB3 has its own of",
    "memory_limit": "the older name of buffer_size",
    "param_noise_adaption_interval": "an option of param_noise",
}


def convert_dqn_keys(keys: Keys) -> None:
    """Convert the hyper-parameters of DQN."""
    keys.copy("learning_rate", "batch_size", "learning_starts", "exploration_fraction", "exploration_final_eps")
    _set_or_default(keys, "exploration_initial_eps", 1.0)
    _set_or_default(keys, "buffer_size", 50_000)
    keys.rename("target_network_update_freq", "target_update_interval")
    _set_train_freq(keys, "train_freq")
    keys.set("gradient_steps", 1, None, "SB2 makes one step each time")
    keys.set("tau", 1.0, None, "SB2 copies the network to its target")
    keys.set("max_grad_norm", 10, None, "SB2's limit, there of each tensor alone")
    info = keys.agent.model.tensors.get(_EPSILON)
    rate = float(keys.agent.array(_EPSILON, "float64")) if info is not None and not info.shape else -1.0
    if 0 <= rate <= 1:
        keys.set("exploration_rate", rate, None, f"{_EPSILON}: the rate that training had last")
    is_double = keys.get("double_q") is True
    message = "double Q-learning, which SB3 has not" if is_double else "SB3 has no double Q-learning either"
    keys.drop("double_q", message, "DQN's own target" if is_double else None, is_finding=is_double)
    has_priorities = keys.get("prioritized_replay") is True
    instead = "a uniform replay buffer" if has_priorities else None
    for key in _PRIORITIES:
        keys.drop(key, "SB3 has no replay buffer with priorities", instead, is_finding=has_priorities)
    has_noise = keys.get("param_noise") is True
    message = "SB3 has no noise in parameters"
    keys.drop("param_noise", message, "an epsilon-greedy policy" if has_noise else None, is_finding=has_noise)
    for key in ("checkpoint_freq", "checkpoint_path"):
        keys.drop(key, "CheckpointCallback of SB3 saves checkpoints", is_finding=False)


def convert_sac_keys(keys: Keys) -> None:
    """Convert the hyper-parameters of SAC."""
    keys.copy("learning_rate", "buffer_size", "batch_size", "learning_starts", "tau", "ent_coef")
    keys.set("target_entropy", _to_float(keys.get("target_entropy", "auto")), "target_entropy")
    _set_train_freq(keys, "train_freq")
    _set_or_default(keys, "gradient_steps", 1)
    _set_or_default(keys, "target_update_interval", 1)
    _convert_exploration(keys)


def convert_td3_keys(keys: Keys) -> None:
    """Convert the hyper-parameters of TD3."""
    keys.copy("learning_rate", "buffer_size", "batch_size", "learning_starts", "tau", "policy_delay")
    keys.copy("target_policy_noise", "target_noise_clip")
    _set_train_freq(keys, "train_freq")
    _set_or_default(keys, "gradient_steps", 100)
    _convert_exploration(keys)


def convert_ddpg_keys(keys: Keys) -> None:
    """Convert the hyper-parameters of DDPG to those of SB3's, which are TD3's without a delay and noise in targets."""
    keys.copy("batch_size", "tau")
    if "buffer_size" in keys:
        keys.copy("buffer_size")
    else:  # before 2.6
        keys.rename("memory_limit", "buffer_size")
    keys.rename("nb_train_steps", "gradient_steps")
    _set_train_freq(keys, "nb_rollout_steps")
    keys.set("learning_starts", 0, None, "SB2 takes no random actions before it trains")
    keys.set("policy_delay", 1, None, "DDPG trains the actor in each step")
    keys.set("target_noise_clip", 0.0, None, "DDPG has no noise in its targets")
    keys.rename("actor_lr", "learning_rate")  # SB3 has one for both
    actor = keys.get("actor_lr")
    if actor == keys.get("critic_lr"):
        keys.merge("critic_lr", "learning_rate", "for actor and critic")
    else:
        keys.drop("critic_lr", "SB3 has one learning rate for actor and critic", f"actor_lr, {actor}")
    _convert_exploration(keys)
    has_noise = keys.get("param_noise") is not None
    keys.drop("param_noise", "SB3 has no noise in parameters", is_finding=has_noise)
    for key, message in _DDPG_NOT_TRAINED_WITH.items():
        keys.drop(key, message, is_finding=False)
    _convert_normalization(keys)


def _convert_normalization(keys: Keys) -> None:
    """Report what DDPG does with observations, rewards and gradients."""
    for key, part in (("normalize_observations", "input/obs_rms"), ("normalize_returns", "input/ret_rms")):
        if keys.get(key) is not True:
            keys.drop(key, "nothing is normalized, as in SB3", is_finding=False)
            continue
        has_statistics = any(name.startswith(part) for name in keys.agent.parameters)
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
        keys.set(key, default, None, "SB2 does not save it, and loads a file with its default")
    else:
        keys.copy(key)


def _set_train_freq(keys: Keys, source: str) -> None:
    value = keys.get(source)
    if type(value) is int and 0 < value < 2**31:
        keys.set("train_freq", TrainFreq(value, EnumMember(FREQUENCY_UNIT, "step")), source)
    else:
        keys.drop(source, "expected a number of steps", "every step")
        keys.set("train_freq", TrainFreq(1, EnumMember(FREQUENCY_UNIT, "step")))


_NOISE: Final[Mapping[str, frozenset[str]]] = {
    "NormalActionNoise": frozenset({"_mu", "_sigma"}),
    "OrnsteinUhlenbeckActionNoise": frozenset({"_theta", "_mu", "_sigma", "_dt", "initial_noise", "noise_prev"}),
}
"""The attributes of SB2's noise by its class; SB3's also has a dtype."""


def _convert_exploration(keys: Keys) -> None:
    """Convert the noise of actions, whose classes have other modules; SB3 has no random actions after the start."""
    if "action_noise" in keys:
        noise = keys.agent.data["action_noise"]
        modules = ("stable_baselines.common.noise", "stable_baselines.ddpg.noise")
        is_known = isinstance(noise, Instance) and noise.type.module in modules
        if is_known and noise.attributes.keys() == _NOISE.get(noise.type.name):
            made = Reference("stable_baselines3.common.noise", noise.type.name)
            noise = Instance(made, {**noise.attributes, "_dtype": Reference("numpy", "float32")})
        keys.set("action_noise", noise, "action_noise")
    rate = keys.get("random_exploration")
    is_used = rate not in (None, 0, 0.0)
    message = "SB3 takes random actions only before learning_starts"
    keys.drop("random_exploration", message, "none" if is_used else None, is_finding=is_used)


def _to_float(value: object) -> object:
    """Return a number of numpy as one of Python; another value unchanged."""
    try:
        return value if isinstance(value, str) else float(to_number(value, "a number"))
    except UnrecognizedError:
        return value


_NOT_TRAINED_WITH: Final = {
    "n_cpu_tf_sess": "the number of threads of TensorFlow",
    "nprocs": "the number of threads of TensorFlow",
    "_vectorize_action": "SB3 determines it from the environment",
    "full_tensorboard_log": "logs of TensorFlow",
    "_init_setup_model": "an argument of SB2's constructor",
}
"""Keys that no agent trains with, and why they are dropped."""


def convert_common_keys(network: ConvertedNetwork, keys: Keys) -> None:
    """Convert the keys that are the same in all algorithms, then report every key that is left."""
    if keys.agent.algorithm == "HER":  # in SB3 it is a replay buffer, which has HER's own keys as arguments
        keys.set("replay_buffer_class", Reference(*HER_BUFFER), "model_class", "HER is a replay buffer in SB3")
        names = ("n_sampled_goal", "goal_selection_strategy")
        arguments = {key: keys.get(key) for key in names if keys.get(key) is not None}
        keys.set("replay_buffer_kwargs", arguments, "n_sampled_goal", "arguments of HerReplayBuffer")
        keys.merge("goal_selection_strategy", "replay_buffer_kwargs/goal_selection_strategy")
        keys.merge("her_obs_space", "observation_space")
        keys.merge("her_action_space", "action_space")
    model = keys.agent.model
    policy_class = Reference(*ALGORITHMS[network.algorithm].policies[network.policy_class])
    keys.set("policy_class", policy_class, "policy", model.inferred)
    space, note = model.goal_space or model.observation_space, ""
    if network.observation_space is not None:
        space, note = network.observation_space, "channels first, as in SB3"
    keys.set("observation_space", space, "observation_space", note)
    keys.set("action_space", model.action_space, "action_space")
    source = "policy_kwargs" if "policy_kwargs" in keys else None
    keys.set("policy_kwargs", {**network.policy_kwargs, **keys.policy_kwargs}, source)
    keys.copy("gamma", "verbose", "seed", "n_envs", "num_timesteps", "tensorboard_log")
    for key, why in _NOT_TRAINED_WITH.items():
        keys.drop(key, why, is_finding=False)
    for key in keys.agent.data:
        if key not in keys.done:
            keys.drop(key, f"{network.algorithm} of SB3 has nothing like it", is_finding=not key.startswith("_"))
