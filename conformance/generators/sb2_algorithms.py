"""The algorithm of Stable Baselines 2 that wrote a file, and the rules for its statistics (SB2.md 16.5, 16.6)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.algorithms import blob, expected_algorithm
from conformance.generators.build_bundles import ASKED, OBSERVATIONS, expected_statistics
from conformance.generators.build_objects import SB2, SB2_RUNNING, doubles, instance, running_mean
from conformance.generators.build_pth import dumps
from conformance.generators.sb2_zips import agent
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

OPTIONS: Final = ("--other-formats", "--algorithm")
KEYS: Final[dict[str, tuple[str, ...]]] = {
    "HER": ("model_class", "n_sampled_goal"), "ACKTR": ("kfac_clip", "vf_fisher_coef"),
    "ACER": ("q_coef", "replay_ratio"), "PPO2": ("noptepochs", "nminibatches"),
    "PPO1": ("timesteps_per_actorbatch", "clip_param"), "DDPG": ("nb_rollout_steps", "actor_lr"),
    "TD3": ("policy_delay", "target_policy_noise"), "SAC": ("ent_coef", "target_entropy"),
    "DQN": ("prioritized_replay", "exploration_fraction"), "A2C": ("alpha", "epsilon", "lr_schedule"),
}  # fmt: skip


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from by_keys()
    yield from by_policy()
    yield from statistics()


def document(keys: tuple[str, ...], **others: Any) -> bytes:
    """The ``data`` of a zip that has these keys."""
    return json.dumps({**dict.fromkeys(keys, 1), **others}).encode()


def concludes(rule: Rule, name: str, data: bytes, algorithm: str | None, *, certain: bool = True) -> Vector:
    """A file, and the algorithm that wrote it."""
    return rule.accepts(f"sb2-algorithm-{name}", data, expected_algorithm(algorithm, certain=certain), *OPTIONS)


def by_keys() -> Iterator[Vector]:
    rule = Rule("16.5", "from the first row whose keys are all in `data`")
    for name, keys in KEYS.items():
        yield concludes(rule, name.lower(), agent(data=document(keys)), name)
    keys = KEYS["A2C"][:2]
    yield concludes(rule, "of-a-part-of-a-row", agent(data=document(keys)), None, certain=False)
    yield concludes(rule, "of-a-pickle", dumps(({"q_coef": 0.5, "replay_ratio": 4}, [])), "ACER")
    yield rule.refuses("sb2-algorithm-of-broken-data", agent(data=b"{"), "data failure", *OPTIONS)
    yield rule.refuses("sb2-algorithm-not-asked-for", agent(), "unsupported", "--algorithm")
    rule = Rule("16.5", "HER MUST come first, because it also has the keys of the model that it wraps")
    for model in ("SAC", "TD3", "DDPG", "DQN"):
        both = document((*KEYS[model], *KEYS["HER"]))
        yield concludes(rule, f"her-over-{model.lower()}", agent(data=both), "HER")
    rule = Rule("16.5", "makes it GAIL if it is true and TRPO if it is false, both certain")
    keys = ("timesteps_per_batch", "max_kl")
    yield concludes(rule, "gail", agent(data=document(keys, using_gail=True)), "GAIL")
    yield concludes(rule, "trpo", agent(data=document(keys, using_gail=False)), "TRPO")
    rule = Rule("16.5", "If it is absent or neither, the result is TRPO, not certain")
    yield concludes(rule, "trpo-or-gail", agent(data=document(keys)), "TRPO", certain=False)
    yield concludes(rule, "trpo-of-null", agent(data=document(keys, using_gail=None)), "TRPO", certain=False)


def by_policy() -> Iterator[Vector]:
    rule = Rule("16.5", "If no row matches, the module of `policy` (a blob that contains one global) names DQN")
    modules = {"DQN": "deepq", "DDPG": "ddpg", "SAC": "sac", "TD3": "td3"}
    for name, module in modules.items():
        made = json.dumps({"policy": blob(f"stable_baselines.{module}.policies", "MlpPolicy")}).encode()
        yield concludes(rule, f"by-policy-{name.lower()}", agent(data=made), name, certain=False)
    made = json.dumps({"policy": blob("stable_baselines.sac.policies", "Own.Policy")}).encode()
    yield concludes(rule, "by-policy-of-a-dotted-name", agent(data=made), "SAC", certain=False)
    made = json.dumps({"policy": blob("stable_baselines.sac", "policies.MlpPolicy")}).encode()
    yield concludes(rule, "by-no-policy-of-a-dotted-name", agent(data=made), None, certain=False)
    rule = Rule("16.5", "All others share `stable_baselines.common.policies`, which identifies none of them")
    made = json.dumps({"policy": blob("stable_baselines.common.policies", "MlpPolicy")}).encode()
    yield concludes(rule, "by-policy-of-many", agent(data=made), None, certain=False)
    made = json.dumps({"policy": blob("agent", "MlpPolicy")}).encode()
    yield concludes(rule, "by-policy-of-ones-own", agent(data=made), None, certain=False)


def statistics() -> Iterator[Vector]:
    rule = Rule("16.6", "Every mean of running statistics MUST have a variance of its shape and a count.")
    mean = doubles(1, 2)
    only = {"norm_reward": False, "ret_rms": None, "library": SB2}
    whole = dumps(running_mean(mean, doubles(3, 4), 5.0, SB2_RUNNING))
    yield rule.accepts("sb2-statistics", whole, expected_statistics(OBSERVATIONS, **only), ASKED)
    yield rule.refuses(
        "sb2-statistics-of-two-shapes", dumps(running_mean(mean, doubles(3), 5.0, SB2_RUNNING)), "tensor failure", ASKED
    )
    for name, parts in {"var": {"mean": mean, "count": 5.0}, "count": {"mean": mean, "var": doubles(3, 4)}}.items():
        yield rule.refuses(f"sb2-statistics-without-{name}", dumps(instance(SB2_RUNNING, parts)), "missing", ASKED)
