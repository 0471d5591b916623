"""The algorithm that wrote an archive (FORMAT.md 4.3)."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.build_zips import POLICY, Member, build_zip, state_dict_zip
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "ARS": ({"n_delta": 8, "delta_std": 0.1}, {"n_delta": 8, "pop_size": 16}),
    "HER": ({"model_class": None, "n_sampled_goal": 4},),
    "TQC": ({"top_quantiles_to_drop_per_net": 2, "target_entropy": -1.0, "ent_coef": "auto"},),
    "TRPO": ({"cg_max_steps": 10, "n_steps": 2048, "gae_lambda": 0.95, "vf_coef": 0.5},),
    "QRDQN": ({"n_quantiles": 200, "exploration_fraction": 0.1},),
    "DQN": ({"exploration_fraction": 0.1},),
    "CrossQ": ({"target_entropy": -1.0, "policy_delay": 3, "ent_coef": "auto"},),
    "SAC": ({"target_entropy": -1.0, "ent_coef": "auto"},),
    "TD3": ({"policy_delay": 2, "target_policy_noise": 0.2, "target_noise_clip": 0.5},),
    "A2C": ({"n_steps": 5, "gae_lambda": 1.0, "vf_coef": 0.5},),
}
"""Keys that determine one algorithm with certainty."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from by_keys()
    yield from by_policy()


def reference(module: str, name: str) -> bytes:
    """The pickle of a reference to a class."""
    texts = [text.encode() for text in (module, name)]
    sizes = [
        b"\x8c" + bytes([len(text)]) if len(text) < 256 else b"X" + len(text).to_bytes(4, "little") for text in texts
    ]
    return b"\x80\x04" + b"".join(size + text for size, text in zip(sizes, texts)) + b"\x93."


def serialized(pickle: bytes) -> dict[str, str]:
    """A pickle of a class as a value of ``data``."""
    return {":type:": "<class 'abc.ABCMeta'>", ":serialized:": base64.b64encode(pickle).decode("ascii")}


def blob(module: str, name: str) -> dict[str, str]:
    """A reference to a class, as SB3 saves it."""
    return serialized(reference(module, name))


def document(values: dict[str, Any]) -> bytes:
    """A bare ``data``."""
    return json.dumps(values).encode()


def expected_algorithm(name: str | None, *, certain: bool) -> dict[str, Any]:
    """The expected output of a decoder."""
    return {"algorithm": name, "certain": certain}


def by_keys() -> Iterator[Vector]:
    rule = Rule("4.3", "The first row whose keys are all in `data` determines the name")
    for name, documents in KEYS.items():
        for number, values in enumerate(documents):
            label = f"algorithm-{name.lower()}" + ("-by-pop-size" if number else "")
            yield rule.accepts(label, document(values), expected_algorithm(name, certain=True), "--algorithm")
    rule = Rule(
        "4.3", "A reader that reports one MUST report whether another algorithm could have written the same data"
    )
    nothing = document({"gamma": 0.99})
    yield rule.accepts("algorithm-nothing-tells", nothing, expected_algorithm(None, certain=False), "--algorithm")
    broken = b'{"n_epochs": 10'
    yield rule.refuses("algorithm-of-broken-data", broken, "data failure", "--algorithm")
    rule = Rule("4.3", "A2C if `n_epochs` is 1, otherwise PPO; not certain.")
    for epochs, name in ((1, "A2C"), (10, "PPO")):
        old = document({"n_epochs": epochs, "_current_progress": 0.5})
        yield rule.accepts(
            f"algorithm-0.6-{epochs}-epochs", old, expected_algorithm(name, certain=False), "--algorithm"
        )
    yield rule.accepts(
        "algorithm-0.6-true-epochs",
        document({"n_epochs": True, "_current_progress": 0.5}),
        expected_algorithm("PPO", certain=False),
        "--algorithm",
    )
    rule = Rule(
        "4.3", "TD3 with `policy_delay` 1 and `target_noise_clip` 0, the fixed values of DDPG: DDPG, not certain."
    )
    ddpg = document({"policy_delay": 1, "target_policy_noise": 0.1, "target_noise_clip": 0.0})
    yield rule.accepts("algorithm-ddpg", ddpg, expected_algorithm("DDPG", certain=False), "--algorithm")


def by_policy() -> Iterator[Vector]:
    rule = Rule(
        "4.3",
        "PPO is certain with a class of `stable_baselines3.common.policies` or `stable_baselines3.ppo.policies`, and not with any other.",
    )
    for label, module, name, certain in (
        ("ppo", "stable_baselines3.common.policies", "PPO", True),
        ("ppo-0.6", "stable_baselines3.ppo.policies", "PPO", True),
        ("ppo-own-policy", "__main__", "PPO", False),
        ("maskable", "sb3_contrib.common.maskable.policies", "MaskablePPO", True),
        ("maskable-old", "sb3_contrib.ppo_mask.policies", "MaskablePPO", True),
        ("recurrent", "sb3_contrib.common.recurrent.policies", "RecurrentPPO", True),
        ("recurrent-old", "sb3_contrib.ppo_recurrent.policies", "RecurrentPPO", True),
    ):
        made = document({"n_epochs": 10, "policy_class": blob(module, "Policy")})
        yield rule.accepts(f"algorithm-{label}", made, expected_algorithm(name, certain=certain), "--algorithm")
    rule = Rule("4.3", "Any other blob under that key, and one that section 5 refuses, names no class")
    pickle = reference("stable_baselines3.common.policies", "Policy")
    long = reference("stable_baselines3.common.policies", "P" * (4096 - len(pickle) + len("Policy") - 3))
    for label, raw, certain in (
        ("cut", pickle[:-1], False), ("behind", pickle + b"x", False), ("tuple", pickle[:-1] + b"\x85.", False), ("long", long, True),
        ("too-long", long[:-1] + b"N0.", False),
    ):  # fmt: skip
        made = document({"n_epochs": 10, "policy_class": serialized(raw)})
        yield rule.accepts(f"algorithm-policy-{label}", made, expected_algorithm("PPO", certain=certain), "--algorithm")
    rule = Rule("4.3", "A blob that 3.2 refuses is still a data failure, under any key.")
    for label, key, text in (("beside-broken-blob", "learning_rate", 5), ("of-broken-blob", "policy_class", "g")):
        broken = document({"n_epochs": 10, key: {":serialized:": text}})
        yield rule.refuses(f"algorithm-{label}", broken, "data failure", "--algorithm")
    rule = Rule("4.3", "Its module is that of the pair (5.4): a dotted name is one name.")
    for label, values, module, cls, name, certain in (
        ("ppo", {"n_epochs": 10}, "stable_baselines3.common.policies", "X.Y", "PPO", True),
        ("ppo-joined", {"n_epochs": 10}, "stable_baselines3.common", "policies.X", "PPO", False),
        ("maskable", {"n_epochs": 10}, "sb3_contrib.common.maskable.policies", "X.Y", "MaskablePPO", True),
        ("maskable-joined", {"n_epochs": 10}, "sb3_contrib.common.maskable", "policies.X", "PPO", False),
        ("module", {}, "stable_baselines3.sac.policies", "X.Y", "SAC", True),
        ("module-joined", {}, "stable_baselines3.ppo", "policies.X", None, False),
    ):
        made = document({**values, "policy_class": blob(module, cls)})
        yield rule.accepts(f"algorithm-dotted-{label}", made, expected_algorithm(name, certain=certain), "--algorithm")
    rule = Rule("4.3", "If no row matches, the module of `policy_class` names the algorithm")
    for module, name, certain in (
        ("stable_baselines3.sac.policies", "SAC", True), ("sb3_contrib.tqc.policies", "TQC", True),
        ("stable_baselines3.common.policies", "PPO", False),
    ):  # fmt: skip
        made = document({"policy_class": blob(module, "Policy")})
        label = f"algorithm-by-policy-{name.lower()}"
        yield rule.accepts(label, made, expected_algorithm(name, certain=certain), "--algorithm")
    rule = Rule("4.3", "with `ppo`, `a2c`, `dqn`, `sac` or `td3` for x, `sb3_contrib.<x>.policies` with")
    for module, name in {
        "stable_baselines3.ppo": "PPO", "stable_baselines3.a2c": "A2C", "stable_baselines3.dqn": "DQN",
        "stable_baselines3.td3": "TD3", "sb3_contrib.qrdqn": "QRDQN", "sb3_contrib.trpo": "TRPO", "sb3_contrib.ars": "ARS",
        "sb3_contrib.crossq": "CrossQ", "sb3_contrib.common.maskable": "MaskablePPO",
        "sb3_contrib.ppo_recurrent": "RecurrentPPO",
    }.items():  # fmt: skip
        made = document({"policy_class": blob(f"{module}.policies", "Policy")})
        label = f"algorithm-by-module-{module.rpartition('.')[2].replace('_', '-')}"
        yield rule.accepts(label, made, expected_algorithm(name, certain=True), "--algorithm")
    rule = Rule("4.3", "Otherwise the name is not known (null), and not certain.")
    for label, module in (
        ("common", "sb3_contrib.common.policies"),
        ("own", "agent.policies"),
        ("her", "stable_baselines3.her.policies"),
    ):
        made = document({"policy_class": blob(module, "Policy")})
        unknown = expected_algorithm(None, certain=False)
        yield rule.accepts(f"algorithm-by-no-module-{label}", made, unknown, "--algorithm")
    rule = Rule("4.3", "The module of its `policy_class` is `sbx.PACKAGE`, or begins with `sbx.PACKAGE.`.")
    for label, module, cls, is_sbx in (
        ("package", "sbx.a", "b", True), ("deeper", "sbx.a.b.c", "d", True), ("library", "sbx", "a.b", False),
        ("no-package", "sbx..a", "b", False), ("other-library", "sbx_a.b", "c", False), ("type", "<class 'sbx.a", "b'>", False),
    ):  # fmt: skip
        made = document({"n_epochs": 10, "policy_class": blob(module, cls)})
        found = expected_algorithm(None if is_sbx else "PPO", certain=False)
        yield rule.accepts(f"algorithm-of-sbx-by-{label}", made, found, "--algorithm")
    rule = Rule("4.3", "Its `policy` has the `:type:` `<class 'sbx.PACKAGE.NAME'>`.")
    for label, text, is_sbx in (
        ("whole", "<class 'sbx.a.b'>", True), ("dotted", "<class 'sbx.a.b.C'>", True), ("module", "sbx.a.b", False),
        ("without-a-name", "<class 'sbx.a'>", False), ("space", " <class 'sbx.a.b'>", False),
    ):  # fmt: skip
        policy = {":type:": text, ":serialized:": serialized(b"\x80\x04N.")[":serialized:"]}
        made = document({"n_epochs": 10, "policy": policy})
        found = expected_algorithm(None if is_sbx else "PPO", certain=False)
        yield rule.accepts(f"algorithm-of-sbx-type-{label}", made, found, "--algorithm")
    rule = Rule("4.3", "The name by this section is then null, not certain.")
    made = document({"n_epochs": 10, "policy_class": blob("sbx.ppo.policies", "PPOPolicy")})
    yield rule.accepts("algorithm-of-sbx", made, expected_algorithm(None, certain=False), "--algorithm")
    rule = Rule(
        "4.3",
        "Without `policy.pth`, which SBX does not write, it is read by section 22; with it, as an archive of SB3.",
    )
    made = build_zip(Member(b"data", made), Member(b"policy.pth", state_dict_zip(POLICY)))
    yield rule.accepts("algorithm-of-sbx-with-a-policy", made, expected_algorithm(None, certain=False), "--algorithm")
    rule = Rule("4.3", "If the module names none, `ent_coef_optimizer.pth` suggests SAC, not certain.")
    made = build_zip(Member(b"data", b"{}"), Member(b"ent_coef_optimizer.pth", b""))
    yield rule.accepts("algorithm-by-entropy-optimizer", made, expected_algorithm("SAC", certain=False), "--algorithm")
