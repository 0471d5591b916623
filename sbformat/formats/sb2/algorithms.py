"""Infer which algorithm of Stable Baselines 2 wrote a file: no entry names it (SB2.md 16.5).

Each algorithm writes keys of ``data`` that no other has, except GAIL, a TRPO with a flag, and HER, which adds its keys
to those of the model that it wraps. Source: the ``save`` of each algorithm in stable-baselines 2.0 to 2.10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.hyperparameters import Algorithm, class_reference

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
"""Keys of ``data`` that an algorithm writes in every release; HER first, because it has those of its model too."""

_GAIL_FLAG: Final = "using_gail"
OWN_POLICIES: Final = {
    "DQN": "stable_baselines.deepq.policies",
    "DDPG": "stable_baselines.ddpg.policies",
    "SAC": "stable_baselines.sac.policies",
    "TD3": "stable_baselines.td3.policies",
}
"""The module of policies that only one algorithm uses; HER uses those of its model."""
SHARED_POLICIES: Final = "stable_baselines.common.policies"
"""The module of the policies of all others."""


def infer_algorithm(data: Mapping[str, Any]) -> Algorithm:
    """Return the algorithm that ``data`` is from, with the evidence.

    :param data: as :func:`sbformat.data.loads` returns it; from a pickle, with values that are not JSON serialized
    """
    policy = class_reference(data.get("policy"))
    evidence = [f"policy is {policy}"] if policy else []
    for name, keys in SIGNATURES:
        if all(key in data for key in keys):
            evidence.append(f"data has {', '.join(keys)}")
            return _refine(name, data, evidence)
    return _from_policy(policy, evidence)


def _refine(name: str, data: Mapping[str, Any], evidence: list[str]) -> Algorithm:
    """Distinguish GAIL from TRPO, and add the model that HER wraps to the evidence."""
    if name == "HER":
        model = class_reference(data["model_class"])
        evidence += [f"model_class is {model}"] if model else []
    if name != "TRPO":
        return Algorithm(name, True, tuple(evidence))
    flag = data.get(_GAIL_FLAG)
    if not isinstance(flag, bool):
        return Algorithm("TRPO", False, (*evidence, f"{_GAIL_FLAG} is missing: GAIL writes the same keys"))
    return Algorithm("GAIL" if flag else "TRPO", True, (*evidence, f"{_GAIL_FLAG} is {str(flag).lower()}"))


def _from_policy(policy: str | None, evidence: list[str]) -> Algorithm:
    """Return the algorithm by the module of the policy, which identifies only off-policy algorithms."""
    module = policy.rpartition(".")[0] if policy else ""
    if module == SHARED_POLICIES:
        evidence.append("A2C, ACER, ACKTR, GAIL, PPO1, PPO2 and TRPO share its policies")
    name = next((name for name, own in OWN_POLICIES.items() if own == module), None)
    if name is not None:
        evidence.append(f"only {name}, and HER over it, has policies of {module}")
    return Algorithm(name, False, tuple(evidence))
