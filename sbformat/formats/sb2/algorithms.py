"""Which algorithm of Stable Baselines 2 wrote a file: inferred, for no entry says it (FORMAT.md 16.5).

Each algorithm writes keys of ``data`` that no other has, but for GAIL, a TRPO that says so itself, and HER, which adds
its own to those of the model it wraps. Source: the ``save`` of each algorithm in stable-baselines 2.0 to 2.10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.algorithm import Algorithm, class_reference

if TYPE_CHECKING:
    from collections.abc import Mapping

SIGNATURES: Final = (
    ("HER", ("model_class", "n_sampled_goal")),
    ("ACKTR", ("kfac_clip", "vf_fisher_coef")),
    ("ACER", ("q_coef", "replay_ratio")),
    ("PPO2", ("noptepochs", "nminibatches")),
    ("PPO1", ("timesteps_per_actorbatch", "clip_param")),
    ("TRPO", ("timesteps_per_batch", "max_kl")),
    ("DDPG", ("nb_rollout_steps", "actor_lr")),
    ("TD3", ("policy_delay", "target_policy_noise")),
    ("SAC", ("ent_coef", "target_entropy")),
    ("DQN", ("prioritized_replay", "exploration_fraction")),
    ("A2C", ("alpha", "epsilon", "lr_schedule")),
)
"""Keys of ``data`` that an algorithm writes in every release; HER first, for it has its model's, too."""

_GAIL_FLAG: Final = "using_gail"
OWN_POLICIES: Final = {
    "DQN": "stable_baselines.deepq.policies",
    "DDPG": "stable_baselines.ddpg.policies",
    "SAC": "stable_baselines.sac.policies",
    "TD3": "stable_baselines.td3.policies",
}
"""The module of the policies that an algorithm has for itself; HER takes its model's."""
SHARED_POLICIES: Final = "stable_baselines.common.policies"
"""Where those of all others are."""


def infer(data: Mapping[str, Any]) -> Algorithm:
    """Conclude the algorithm from ``data``.

    :param data: as :func:`sbformat.data.loads` gives it; of a pickle, with what JSON cannot hold serialized
    """
    policy = class_reference(data.get("policy"))
    evidence = [f"policy is {policy}"] if policy else []
    for name, keys in SIGNATURES:
        if all(key in data for key in keys):
            evidence.append(f"data has {', '.join(keys)}")
            return _refine(name, data, evidence)
    return _from_policy(policy, evidence)


def _refine(name: str, data: Mapping[str, Any], evidence: list[str]) -> Algorithm:
    """Tell GAIL from TRPO, and say what model HER wraps."""
    if name == "HER":
        model = class_reference(data["model_class"])
        evidence += [f"model_class is {model}"] if model else []
    if name != "TRPO":
        return Algorithm(name, True, tuple(evidence))
    flag = data.get(_GAIL_FLAG)
    if not isinstance(flag, bool):
        return Algorithm("TRPO", False, (*evidence, f"no {_GAIL_FLAG} is there: GAIL writes the same keys"))
    return Algorithm("GAIL" if flag else "TRPO", True, (*evidence, f"{_GAIL_FLAG} is {str(flag).lower()}"))


def _from_policy(policy: str | None, evidence: list[str]) -> Algorithm:
    """Without keys: the module of the policy names off-policy algorithms at most."""
    module = policy.rpartition(".")[0] if policy else ""
    if module == SHARED_POLICIES:
        evidence.append("A2C, ACER, ACKTR, GAIL, PPO1, PPO2 and TRPO share its policies")
    name = next((name for name, own in OWN_POLICIES.items() if own == module), None)
    if name is not None:
        evidence.append(f"only {name}, and HER over it, has policies of {module}")
    return Algorithm(name, False, tuple(evidence))
