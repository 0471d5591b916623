"""The hyper-parameters of SB2's on-policy algorithms under SB3's names, with the same meaning.

Source: the loss and the training loop of each algorithm in stable-baselines 2.10, and of SB3 and sb3-contrib 2.9.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

from sbformat.known.spaces import Box
from sbformat.known.types import LinearSchedule, Reference
from sbformat.pkl.numpy import ArrayInfo

if TYPE_CHECKING:
    from sbformat.tools.rebuild.sb2.interface import Keys, Sb2Agent

_OPTIMIZER: Final = "policy_kwargs/optimizer_kwargs"
_RMSPROP_TF: Final = Reference("stable_baselines3.common.sb2_compat.rmsprop_tf_like", "RMSpropTFLike")
_RMSPROP: Final = Reference("torch.optim.rmsprop", "RMSprop")
_LARGEST: Final = 2**63
"""Of integers; no release counts as far."""
_UNCLIPPED: Final = 1e10
"""A norm that no gradient reaches: SB3 has no other way not to clip."""
_LINEAR: Final = {"linear": (0.0, 1.0), "double_linear_con": (0.125, 0.4375)}
"""End, as a part of the start, and end fraction of the schedules of ``common/schedules.py`` that are linear."""
_DROPS: Final = {
    "middle_drop": "1 - t until t = 0.25, then 0.075",
    "double_middle_drop": "1 - t until t = 0.25, 0.075 until t = 0.75, then 0.125",
}
"""Those that are not: the factor of the learning rate, by the part t of the training that is done."""

_NEAREST: Final = {"middle_drop": (1.19, 0.073, 0.36), "double_middle_drop": (1.2, 0.094, 0.35)}
"""The linear schedule nearest to them by least squares over the training: start, end, end fraction."""

_GAIL: Final = (
    "hidden_size_adversary", "adversary_entcoeff", "expert_dataset", "g_step", "d_step", "d_stepsize", "using_gail",
    "reward_giver", "pretrained_weight", "save_per_iter", "checkpoint_dir", "task_name",
)  # fmt: skip
"""Keys of GAIL, some of them of early releases alone."""


def read_number(value: object) -> float | int | None:
    """Return a finite number of Python or numpy as one of Python; None for anything else."""
    if isinstance(value, ArrayInfo) and value.is_scalar and value.dtype[1] in "fiu":
        value = value.to_numpy().item()
    is_number = (type(value) is int and abs(value) < _LARGEST) or (type(value) is float and isfinite(value))
    return value if is_number else None  # type: ignore[return-value]


# -- PPO ----------------------------------------------------------------------------------------------


def convert_ppo2_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Convert the hyper-parameters of PPO2 to PPO's."""
    for key in ("n_steps", "learning_rate", "ent_coef"):
        keys.rename(key)
    _convert_gradient_norm(keys)
    keys.rename("lam", "gae_lambda")
    keys.rename("noptepochs", "n_epochs")
    keys.rename("cliprange", "clip_range")
    _convert_value_clipping(agent, keys)
    _convert_batch_size(keys)
    coefficient = read_number(keys.get("vf_coef"))
    if coefficient is not None:
        note = f"half of {coefficient}: PPO2 halves the squared error of the value function in its loss"
        keys.set("vf_coef", coefficient / 2, "vf_coef", note)
    else:
        keys.drop_wrong("vf_coef", "a number", "0.5, the default of PPO")
    keys.set("normalize_advantage", True, None, "PPO2 always normalizes advantages")
    keys.set("target_kl", None, None, "PPO2 does not stop an update early")


def _convert_value_clipping(agent: Sb2Agent, keys: Keys) -> None:
    """Set ``clip_range_vf``: in SB2 None or no key means ``cliprange``, a negative number no clipping."""
    value = keys.get("cliprange_vf")
    number = read_number(value)
    if "cliprange_vf" in agent.data and value is not None:
        if number is not None and number < 0:
            keys.set("clip_range_vf", None, "cliprange_vf", f"None: {number}, a negative number, means no clipping")
        else:
            keys.rename("cliprange_vf", "clip_range_vf")
    elif "cliprange" in agent.data:
        source = "cliprange_vf" if "cliprange_vf" in agent.data else None
        note = "that of cliprange, with which PPO2 clips the value function, too"
        keys.set("clip_range_vf", agent.data["cliprange"], source, note)


def _convert_batch_size(keys: Keys) -> None:
    parts = [
        read_number(keys.get(key, default))
        for key, default in (("n_steps", None), ("n_envs", 1), ("nminibatches", None))
    ]
    steps, envs, batches = parts
    if all(type(part) is int and part > 0 for part in parts):
        size = steps * envs // batches  # type: ignore[operator]
        if size > 0:
            note = f"{size} = n_steps {steps} * n_envs {envs} / nminibatches {batches}"
            keys.set("batch_size", size, "nminibatches", note)
            return
    keys.drop_wrong("nminibatches", "a number of minibatches for n_steps * n_envs steps", "batch_size 64, the default")


def convert_ppo1_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Convert the hyper-parameters of PPO1 to PPO's."""
    keys.rename("timesteps_per_actorbatch", "n_steps")
    keys.rename("optim_epochs", "n_epochs")
    keys.rename("optim_batchsize", "batch_size")
    keys.rename("entcoeff", "ent_coef")
    keys.rename("lam", "gae_lambda")
    _convert_annealed(agent, keys)
    epsilon = read_number(keys.get("adam_epsilon"))
    if epsilon is not None:
        keys.policy_kwargs["optimizer_kwargs"] = {"eps": epsilon}
        keys.merge("adam_epsilon", f"{_OPTIMIZER}/eps")
    else:
        keys.drop_wrong("adam_epsilon", "a number", "1e-05")
    keys.set("vf_coef", 1.0, None, "PPO1 adds the squared error of the value function to its loss")
    keys.set("clip_range_vf", None, None, "PPO1 does not clip the value function")
    keys.set("max_grad_norm", _UNCLIPPED, None, "PPO1 does not clip gradients, and no gradient is as long as that")
    keys.set("normalize_advantage", True, None, "PPO1 normalizes those of a rollout, SB3 those of a minibatch")
    keys.set("target_kl", None, None, "PPO1 does not stop an update early")


def _convert_annealed(agent: Sb2Agent, keys: Keys) -> None:
    """Set the learning rate and clip range of PPO1, which ``schedule`` applies to both."""
    schedule = keys.get("schedule", "constant")
    for source, key in (("optim_stepsize", "learning_rate"), ("clip_param", "clip_range")):
        number = read_number(keys.get(source))
        if number is not None and schedule == "linear":
            keys.set(key, LinearSchedule(float(number), 0.0, 1.0), source, "linear, as schedule says")
        else:
            keys.rename(source, key)
    if schedule in ("constant", "linear") and "schedule" in agent.data:
        keys.merge("schedule", "learning_rate", f"and of clip_range, {schedule}")


# -- A2C, ACKTR ---------------------------------------------------------------------------------------


def convert_a2c_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Convert the hyper-parameters of A2C."""
    for key in ("n_steps", "ent_coef", "vf_coef"):
        keys.rename(key)
    _convert_gradient_norm(keys)
    _convert_lr_schedule(agent, keys)
    options: dict[str, object] = {"alpha": 0.99, "eps": 1e-5, "weight_decay": 0}
    for source, option in (("alpha", "alpha"), ("epsilon", "eps"), ("momentum", "momentum")):
        number = read_number(keys.get(source))
        if number is not None:
            options[option] = number
            keys.merge(source, f"{_OPTIMIZER}/{option}", "of RMSpropTFLike, which computes as in TensorFlow")
        else:
            keys.drop_wrong(source, "a number", "the default of A2C")
    keys.policy_kwargs.update({"optimizer_class": _RMSPROP_TF, "optimizer_kwargs": options})
    keys.set("gae_lambda", 1.0, None, "A2C of SB2 uses the returns of n steps")
    keys.set("normalize_advantage", False, None, "A2C of SB2 does not normalize advantages")


def _convert_lr_schedule(agent: Sb2Agent, keys: Keys) -> None:
    """Set the learning rate: in SB2 a number, times the schedule that ``lr_schedule`` names."""
    name, rate = keys.get("lr_schedule", "constant"), read_number(keys.get("learning_rate"))
    if rate is not None and isinstance(name, str) and name in _LINEAR:
        end, fraction = _LINEAR[name]
        schedule = LinearSchedule(float(rate), rate * end, fraction)
        keys.set("learning_rate", schedule, "learning_rate", f"{rate}, and lr_schedule is {name}")
        keys.merge("lr_schedule", "learning_rate", name)
        return
    keys.rename("learning_rate")
    if name == "constant":
        keys.merge("lr_schedule", "learning_rate", name)
    elif isinstance(name, str) and name in _DROPS:
        keys.drop(
            "lr_schedule",
            f"SB3 has no such schedule: {_DROPS[name]}",
            f"the constant learning_rate {rate}; {_advise(keys, rate, name)}",
        )
    elif "lr_schedule" in agent.data:
        keys.drop("lr_schedule", "not a schedule of SB2", "a constant learning_rate")


def _advise(keys: Keys, rate: float | None, name: str) -> str:
    """Return the option that sets the linear schedule that comes nearest: least squares over the training."""
    start, end, fraction = _NEAREST[name]
    nearest = LinearSchedule(float(f"{start * (rate or 0):.3g}"), float(f"{end * (rate or 0):.3g}"), fraction)
    return f"{keys.advice.set_schedule('learning_rate', nearest)} comes nearest"


def convert_acktr_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Convert the hyper-parameters of ACKTR to A2C's: all but those of its optimizer."""
    keys.report_algorithm("ACKTR trains with K-FAC, which SB3 does not have", "A2C, which trains with RMSprop")
    for key in ("n_steps", "ent_coef", "vf_coef"):
        keys.rename(key)
    _convert_gradient_norm(keys)
    message = "a learning rate of K-FAC, which is not one of RMSprop"
    for key in ("learning_rate", "lr_schedule"):
        keys.drop(key, message, "0.0007, the default of A2C")
    keys.set("learning_rate", 7e-4)  # with the row above
    for key in ("kfac_clip", "kfac_update", "vf_fisher_coef", "async_eigen_decomp"):
        keys.drop(key, "an option of K-FAC")
    options = {"alpha": 0.99, "eps": 1e-5, "weight_decay": 0}
    keys.policy_kwargs.update({"optimizer_class": _RMSPROP, "optimizer_kwargs": options})
    source = next((key for key in ("gae_lambda", "lam") if key in agent.data), None)
    factor = None if source is None else read_number(keys.get(source))
    is_used = factor is not None and factor >= 0  # early releases wrote a lam of -1
    keys.set("gae_lambda", factor if is_used else 1.0, source, "" if is_used else "the returns of n steps")
    is_continuous = isinstance(agent.model.action_space, Box)
    keys.set("normalize_advantage", is_continuous, None, "ACKTR normalizes advantages of continuous actions")


# -- TRPO, GAIL ---------------------------------------------------------------------------------------


def convert_trpo_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Convert the hyper-parameters of TRPO."""
    keys.rename("timesteps_per_batch", "n_steps")
    keys.rename("lam", "gae_lambda")
    keys.rename("max_kl", "target_kl", "SB2's line search accepts 1.5 times as much, SB3's does not")
    keys.rename("cg_iters", "cg_max_steps")
    keys.rename("cg_damping")
    keys.rename("vf_stepsize", "learning_rate", "of the value function")
    keys.rename("vf_iters", "n_critic_updates")
    bonus = keys.get("entcoeff")
    is_zero = read_number(bonus) == 0
    keys.drop("entcoeff", "TRPO of SB3 has no bonus for entropy", "0.0", is_finding=not is_zero)
    keys.policy_kwargs["optimizer_kwargs"] = {"eps": 1e-8}
    keys.set("batch_size", 128, None, "the minibatches of the value function in SB2's TRPO")
    keys.set("line_search_max_iter", 10, None, "the steps of SB2's line search")
    keys.set("line_search_shrinking_factor", 0.5, None, "that of SB2's line search")
    keys.set("sub_sampling_factor", 5, None, "SB2 takes each fifth step for the Fisher matrix")
    keys.set("normalize_advantage", True, None, "TRPO of SB2 normalizes advantages")
    _drop_gail(agent, keys)


def _drop_gail(agent: Sb2Agent, keys: Keys) -> None:
    """Drop the keys of GAIL, which TRPO writes, too."""
    is_gail = agent.algorithm == "GAIL"
    if is_gail:
        message = "GAIL learns from demonstrations, which SB3 does not"
        keys.report_algorithm(message, "TRPO, which learns from rewards; the package imitation has GAIL for SB3")
    for key in _GAIL:
        keys.drop(key, "an option of GAIL", is_finding=is_gail)


# -- keys of several ----------------------------------------------------------------------------------


def _convert_gradient_norm(keys: Keys) -> None:
    """Set ``max_grad_norm``: in SB2 None means that gradients are not clipped."""
    if keys.get("max_grad_norm", 0.0) is None:
        keys.set(
            "max_grad_norm", _UNCLIPPED, "max_grad_norm", "None means no clipping, and no gradient is as long as that"
        )
    else:
        keys.rename("max_grad_norm")
