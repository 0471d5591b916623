"""Arguments of policies, as Python reads them (POLICIES.md 19.11), and networks that SB3 cannot build (FORMAT.md 6.8).

The agents are recorded ones with other arguments, which predict the same, or are refused.
"""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.build_objects import array as pickled_array
from conformance.generators.build_objects import numbers as array
from conformance.generators.build_objects import pack_items, scalar
from conformance.generators.build_pth import Apply, Name, dumps, ordered, storage, tensor
from conformance.generators.build_torch_zips import pth
from conformance.generators.policies import CNN, GIVEN, LSTM, change, entry, read_agent, read_json, serialize
from conformance.generators.policy_defaults import (
    ACTIONS,
    BIAS,
    CRITICS,
    IMAGE,
    LOGITS,
    NUMBERS,
    SCALED,
    VALUES,
    VECTOR,
    WITHOUT,
    archive,
    both,
    choice,
    cnn,
    critics,
    extractor,
    floats,
    gaussian,
    linear,
    mlp,
    numbers,
    on_policy,
    state_dict,
)
from conformance.generators.policy_details import with_activation
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.generators.vectors import Vector

NAMES: Final = 'A class accepts no other names than these ("invalid").'
SINCE: Final = "`share_features_extractor` (since 1.7) |"
NULL: Final = "An argument that is not given has its default. One that is null is given."
FLAGS: Final = "they count as Python's `bool` of it."
SIZES: Final = "Sizes are integers of Python or numpy, not bools or floats."
LEAST: Final = "Layers and quantiles may be 0;"
ARCH: Final = "`net_arch` of algorithms with critics is a list or, since 0.10, a dict; of others also a tuple."
OF_64_BITS: Final = "are numbers of at most 64 bits, of Python or numpy."
ANOTHER_KIND: Final = 'or an array of another kind is "invalid".'
OWN_OUTCOME: Final = "A fault within a serialized value that a policy needs has its own outcome (10)"
ACTION_SPACE: Final = 'A policy for another action space is "invalid"'
NO_GSDE: Final = "`use_sde` true if the policy has no gSDE (DQN, QRDQN, TD3, DDPG, MaskablePPO, ARS)"
MISSING: Final = "It refuses a state dict that has a missing or an additional name, or another shape."
FIRST_DICT: Final = "Since 1.8, a list that begins with a dict is that dict."
EVERY_RELEASE: Final = "An archive that names no release is compared with every release"
ALIASES: Final = "are other names of `features_extractor`'s tensors."
UNUSED: Final = "Target networks, other names of one features extractor, and all critics of SAC"
OTHERS: Final = {
    "optimizer_class": Name("torch.optim.adam", "Adam"),
    "optimizer_kwargs": {"eps": 1e-5},
    "device": "cpu",
}
COMMON: Final = {
    "activation_fn": Name("torch.nn.modules.activation", "ReLU"), "features_extractor_kwargs": None, "normalize_images": True,
    "features_extractor_class": Name("stable_baselines3.common.torch_layers", "FlattenExtractor"), **OTHERS,
}  # fmt: skip
TANH: Final = {**COMMON, "activation_fn": Name("torch.nn.modules.activation", "Tanh"), "ortho_init": True}
ON_POLICY: Final = {
    **TANH, "share_features_extractor": True, "log_std_init": 0.0, "full_std": True, "use_expln": False, "squash_output": False,
}  # fmt: skip
CRITIC: Final = {**COMMON, "net_arch": [8], "n_critics": 2, "share_features_extractor": False}
SAC: Final = {**CRITIC, "use_sde": False, "log_std_init": -3, "use_expln": False, "clip_mean": 2.0}
ALL: Final[Mapping[str, Mapping[str, object]]] = {
    "ppo": {**ON_POLICY, "net_arch": [8]},
    "maskable": {**TANH, "net_arch": [8], "share_features_extractor": True},
    "lstm": {**ON_POLICY, "net_arch": [8], "lstm_hidden_size": 5, "n_lstm_layers": 1, "shared_lstm": False,
             "enable_critic_lstm": True, "lstm_kwargs": {"bias": True, "batch_first": False, "dropout": 0.0,
                                                         "bidirectional": False, "proj_size": 0, "device": None, "dtype": None}},
    "dqn": {**COMMON, "net_arch": [8]},
    "qrdqn": {**COMMON, "net_arch": [8], "n_quantiles": 5},
    "sac": SAC,
    "td3": CRITIC,
    "tqc": {**SAC, "n_critics": 1, "n_quantiles": 3},
    "crossq": {**SAC, "batch_norm": True, "batch_norm_momentum": 0.01, "batch_norm_eps": 0.001, "renorm_warmup_steps": 9},
    "ars": {"net_arch": [8], "activation_fn": COMMON["activation_fn"], "with_bias": True, "squash_output": True, "device": "cpu"},
    "ars-linear": {"with_bias": False, "squash_output": False},
}  # fmt: skip
"""All arguments of each class, with values that an agent has."""
ARCHS: Final[Mapping[str, object]] = {"ppo": [{"pi": [8], "vf": [8]}]}
"""The hidden layers of an agent, as releases before 1.8 accept them."""
NOT_ACCEPTED: Final = (
    ("ppo", "n_critics", 2), ("ppo", "use_sde", False), ("ppo", "sde_net_arch", None), ("maskable", "full_std", True),
    ("dqn", "share_features_extractor", False), ("sac", "n_quantiles", 25), ("sac", "full_std", True),
    ("td3", "use_sde", False), ("ars", "normalize_images", True), ("ars-linear", "net_arch", []),
)  # fmt: skip


def numpy_scalar(code: str, value: float) -> Apply:
    """A scalar of numpy."""
    return scalar(pack_items(code, value), code)


FALSE: Final[Mapping[str, object]] = {
    "null": None, "0": 0, "0.0": 0.0, "empty-text": "", "empty-list": [], "empty-tuple": (), "empty-dict": {},
    "bool-scalar": numpy_scalar("b1", False), "float-scalar": numpy_scalar("f4", 0.0),
}  # fmt: skip
TRUE: Final[Mapping[str, object]] = {
    "2": 2, "nan": math.nan, "text": "no", "list": [0], "tuple": (0,), "dict": {"a": 0}, "scalar": numpy_scalar("i8", 1),
}  # fmt: skip


def with_arguments(name: str, kwargs: object, release: str | None = None, **data: Any) -> bytes:
    """The archive of a recorded agent with other arguments.

    :param release: that wrote it; by default the recorded one, and none if it is empty
    """
    entries = {} if release is None else {"_stable_baselines3_version": release.encode() or None}
    return change(name, {**WITHOUT, **entries}, policy_kwargs=serialize(dumps(kwargs)), **data)


def agrees(rule: Rule, name: str, agent: str, made: bytes, *arguments: str) -> Vector:
    """A vector of an archive that predicts what a recorded agent does."""
    features = LSTM if agent.startswith("lstm") else CNN if agent.startswith("cnn") else ()
    return rule.predicts(
        name, made, read_json(agent, "input"), read_json(agent, "expect"), *arguments, features=features
    )


def refused(rule: Rule, name: str, agent: str, made: bytes, outcome: str = "invalid", *arguments: str) -> Vector:
    """A vector of an archive that is refused."""
    features = LSTM if agent.startswith("lstm") else CNN if agent.startswith("cnn") else ()
    return rule.cannot_run(name, made, read_json(agent, "input"), outcome, *arguments, features=features)


BLACK: Final = {"steps": [{"observation": {"dtype": "|u1", "shape": [1, *IMAGE], "items": [0] * math.prod(IMAGE)}}]}
CHOICE: Final = {"policy": {"steps": [choice(LOGITS)]}}


def of_images(features: int, **data: Any) -> bytes:
    """An agent with a NatureCNN of so many features."""
    return archive("cnn", extractor(cnn("features_extractor", features)) | on_policy(features, ()), **data)


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from of_names()
    yield from of_values()
    yield from of_sizes()
    yield from of_faults()
    yield from of_spaces()
    yield from of_networks()
    yield from of_two_extractors()
    yield from of_releases()
    yield from of_activations()
    yield from of_lone_tensors()


def of_names() -> Iterator[Vector]:
    rule = Rule("19.11", NAMES)
    for agent, kwargs in ALL.items():
        yield agrees(rule, f"policy-all-arguments-{agent}", agent, with_arguments(agent, kwargs))
    for agent, name, value in NOT_ACCEPTED:
        made = with_arguments(agent, {**ALL[agent], name: value})
        yield refused(rule, f"policy-other-argument-{agent}-{name}", agent, made)
    nested = {"ppo": ("features_extractor_kwargs", {"features_dim": 4}), "lstm": ("lstm_kwargs", {"hidden": 5})}
    for agent, (name, value) in nested.items():
        made = with_arguments(agent, {**ALL[agent], name: value})
        yield refused(rule, f"policy-other-argument-in-{name}-{agent}", agent, made)
    for name, options in {
        "all": {"features_dim": 8, "normalized_image": False}, "other": {"features_dim": 8, "cnn_output_dim": 8},
    }.items():  # fmt: skip
        made, features = of_images(8, policy_kwargs={"features_extractor_kwargs": options}), (*CNN,)
        if name == "all":
            yield rule.predicts("policy-all-arguments-cnn", made, BLACK, CHOICE, features=features)
        else:
            yield rule.cannot_run("policy-other-argument-cnn", made, BLACK, "invalid", features=features)
    yield refused(rule, "policy-argument-without-text", "ppo", with_arguments("ppo", {"net_arch": [8], 1: 1}))
    rule = Rule("19.11", SINCE)
    for agent, name, value, before, first in (
        ("ppo", "share_features_extractor", True, "1.6.2", "1.7.0"), ("sac", "share_features_extractor", False, "0.9.0", "0.10.0"),
        ("ars", "with_bias", True, "1.6.0", "1.7.0"), ("sac", "n_critics", 2, "0.7.0", None),
    ):  # fmt: skip
        arch = ARCHS.get(agent, [8])
        made = with_arguments(agent, {"net_arch": arch, name: value}, before)
        yield refused(rule, f"policy-argument-{name}-before-{agent}", agent, made)
        if first:
            made = with_arguments(agent, {"net_arch": arch, name: value}, first)
            yield agrees(rule, f"policy-argument-{name}-since-{agent}", agent, made)
    for agent in ("ppo", "sac"):
        kwargs = {"net_arch": ARCHS.get(agent, [8]), "sde_net_arch": None}
        made = with_arguments(agent, kwargs, "1.6.2")
        yield agrees(rule, f"policy-argument-sde_net_arch-before-{agent}", agent, made)
        made = with_arguments(agent, kwargs, "1.7.0")
        yield refused(rule, f"policy-argument-sde_net_arch-since-{agent}", agent, made)


def of_values() -> Iterator[Vector]:
    rule = Rule("19.11", NULL)
    kwargs = dict.fromkeys(("net_arch", "features_extractor_kwargs", "optimizer_kwargs"))
    asked = {"steps": [{"observation": floats(1.0, -2.0, 3.0, -4.0)}]}
    made = archive("ppo", on_policy(VECTOR, (64, 64)), policy_kwargs=kwargs)
    yield rule.predicts("policy-argument-null", made, asked, {"policy": {"steps": [choice(LOGITS)]}})
    made = with_arguments("lstm", {"net_arch": [8], "lstm_hidden_size": 5, "lstm_kwargs": None})
    yield agrees(rule, "policy-argument-null-lstm", "lstm", made)
    for agent, name in (("lstm", "lstm_hidden_size"), ("tqc", "n_critics"), ("sac", "activation_fn"),
                        ("crossq", "batch_norm_eps"), ("dqn", "features_extractor_class")):  # fmt: skip
        yield refused(rule, f"policy-null-{name}", agent, with_arguments(agent, {**ALL[agent], name: None}))
    rule = Rule("19.11", FLAGS)
    for values, agent in ((FALSE, "image-flattened-not-divided"), (TRUE, "image-flattened")):
        for name, value in values.items():
            made = with_arguments(agent, {"net_arch": [8], "normalize_images": value})
            yield agrees(rule, f"policy-flag-{name}", agent, made)
    for name, value in {"bytes": b"x", "object": Apply(Name("my_project", "function"), ())}.items():
        made = with_arguments("ppo", {"net_arch": [8], "normalize_images": value})
        yield refused(rule, f"policy-flag-{name}", "ppo", made, "unsupported")
    for name, value in {"1": 1, "text": "x"}.items():
        yield agrees(rule, f"policy-use-sde-{name}", "ppo-gsde", change("ppo-gsde", WITHOUT, use_sde=value))
    for name, value in {"0": 0, "null": None, "0.0": 0.0}.items():
        yield agrees(rule, f"policy-use-sde-{name}", "ppo", change("ppo", WITHOUT, use_sde=value))
    for agent, kwargs in {
        "ppo-gsde-full-std": {"full_std": 0, "use_expln": 1}, "ars-clipped": {"squash_output": 0},
        "lstm-shared": {"lstm_hidden_size": 5, "shared_lstm": 1, "enable_critic_lstm": 0}, "ars-biases": {"with_bias": None},
        "lstm-actor-only": {"lstm_hidden_size": 5, "enable_critic_lstm": None}, "ppo-separate-extractors": {
            "share_features_extractor": ""}, "crossq-not-normalized": {"batch_norm": []}, "ppo-gsde-squashed": {"squash_output": 1},
        "lstm-without-bias": {"lstm_hidden_size": 5, "lstm_kwargs": {"bias": 0}},
    }.items():  # fmt: skip
        yield agrees(rule, f"policy-flags-of-{agent}", agent, with_arguments(agent, {"net_arch": [8], **kwargs}))


def of_sizes() -> Iterator[Vector]:
    rule = Rule("19.11", SIZES)
    for name, value in {
        "scalar": [numpy_scalar("i8", 8)], "array": array("u1", 8), "array-item": [array("i4", 8, shape=())],
        "tuple": (8,),
    }.items():  # fmt: skip
        yield agrees(rule, f"policy-sizes-{name}", "ppo", with_arguments("ppo", {"net_arch": value}))
    for name, value in {
        "float": [8.0], "float-scalar": [numpy_scalar("f4", 8)], "float-array": array("f8", 8), "negative": [-1],
        "array-of-2-dimensions": array("i8", 8, shape=(1, 1)), "text": "8", "number": 8, "list": [[8]], "bool": [True],
        "complex-array": pickled_array((1,), bytes(8), "c8"),
    }.items():  # fmt: skip
        yield refused(rule, f"policy-sizes-{name}", "ppo", with_arguments("ppo", {"net_arch": value}))
    made = with_arguments("ppo", {"net_arch": [Apply(Name("my_project", "function"), ())]})
    yield refused(
        Rule("19.11", "An object that a reader does not know"), "policy-sizes-object", "ppo", made, "unsupported"
    )
    kwargs = {**ALL["tqc"], "n_critics": True}
    yield agrees(Rule("19.11", "`n_critics` and `n_quantiles` of QR-DQN may be bools."), "policy-critics-bool", "tqc",
                 with_arguments("tqc", kwargs))  # fmt: skip
    rule = Rule("19.11", LEAST)
    asked = {"steps": [{"observation": floats(1.0, -2.0, 3.0, -4.0)}]}
    made = archive("ppo", on_policy(VECTOR, (0,)), policy_kwargs={"net_arch": [0]})
    yield rule.predicts("policy-layer-of-0", made, asked, {"policy": {"steps": [choice(LOGITS)]}})
    for agent, name, value in (("lstm", "lstm_hidden_size", 0), ("lstm", "n_lstm_layers", 0), ("sac", "n_critics", 0)):
        yield refused(rule, f"policy-{name}-of-0", agent, with_arguments(agent, {**ALL[agent], name: value}))
    made = of_images(0, policy_kwargs={"features_extractor_kwargs": {"features_dim": 0}})
    yield rule.cannot_run("policy-features-of-0", made, BLACK, "invalid", features=CNN)
    rule = Rule("19.11", ARCH)
    yield agrees(rule, "policy-dqn-of-a-tuple", "dqn", with_arguments("dqn", {"net_arch": (8,)}))
    yield agrees(rule, "policy-sac-of-a-tuple-0.9", "sac", with_arguments("sac", {"net_arch": (8,)}, "0.9.0"))
    yield agrees(rule, "policy-sac-of-a-dict", "sac", with_arguments("sac", {"net_arch": {"pi": [8], "qf": (8,)}}))
    for agent, name, value in (
        ("sac", "tuple", (8,)), ("sac", "dict-of-pi", {"pi": [8]}), ("sac", "dict-of-qf", {"qf": [8]}), ("dqn", "dict", {"pi": [8]}),
        ("sac", "text", "8"),
    ):  # fmt: skip
        yield refused(rule, f"policy-{agent}-of-a-{name}", agent, with_arguments(agent, {"net_arch": value}))
    yield refused(
        rule, "policy-sac-of-a-dict-0.9", "sac", with_arguments("sac", {"net_arch": {"pi": [8], "qf": [8]}}, "0.9.0")
    )


def of_faults() -> Iterator[Vector]:
    rule = Rule("19.11", OF_64_BITS)
    kwargs = {"net_arch": [8], "use_sde": True}
    for name, value in {"scalar": numpy_scalar("f8", 0.5), "item": array("f4", 0.5, shape=())}.items():
        yield agrees(
            rule, f"policy-clip-mean-{name}", "sac-gsde", with_arguments("sac-gsde", {**kwargs, "clip_mean": value})
        )
    for name, value in {"text": "0.5", "of-65-bits": 1 << 64, "of-complex": scalar(bytes(8), "c8"),
                        "too-large": 1e39}.items():  # fmt: skip
        yield refused(
            rule, f"policy-clip-mean-{name}", "sac-gsde", with_arguments("sac-gsde", {**kwargs, "clip_mean": value})
        )
    yield agrees(rule, "policy-exploration-rate-null", "dqn", change("dqn", WITHOUT, exploration_rate=None))
    yield refused(rule, "policy-exploration-rate-text", "dqn", change("dqn", WITHOUT, exploration_rate="0.1"))
    rule = Rule("19.11", ANOTHER_KIND)
    for key in ("activation_fn", "features_extractor_class"):
        for name, value in {"text": "ReLU", "number": 1, "tuple": (), "bytes": b"", "array": array("u1", 8)}.items():
            made = with_arguments("ppo", {"net_arch": [8], key: value})
            yield refused(rule, f"policy-{key}-{name}", "ppo", made)
    for key, name, value in (("policy_class", "null", None), ("observation_space", "dict", {"n": 3}), ("action_space", "text", "Box"),
                             ("policy_kwargs", "null", None)):  # fmt: skip
        yield refused(rule, f"policy-{key}-{name}", "ppo", change("ppo", **{key: value}))
    for key in ("optimizer_kwargs", "features_extractor_kwargs"):
        yield refused(rule, f"policy-{key}-list", "ppo", with_arguments("ppo", {"net_arch": [8], key: [1]}))
    for key in ("policy_class", "observation_space", "action_space"):
        yield refused(rule, f"policy-without-{key}", "ppo", change("ppo", WITHOUT, without=(key,)), "unsupported")
    rule = Rule("19.11", OWN_OUTCOME)
    yield refused(
        rule,
        "policy-arguments-broken",
        "ppo",
        change("ppo", WITHOUT, policy_kwargs=serialize(b"\x80\x02}q")),
        "pickle failure",
    )
    held: list[Any] = []
    for _ in range(9):
        held = [held]
    made = with_arguments("ppo", {"net_arch": [8], "optimizer_kwargs": {"x": held}})
    for depth, name in ((12, "at"), (11, "above")):
        limit = ("--limit", f"value_depth={depth}")
        if name == "at":
            yield agrees(rule, f"policy-arguments-depth-{name}", "ppo", made, *limit)
        else:
            yield refused(rule, f"policy-arguments-depth-{name}", "ppo", made, "limit exceeded", *limit)
    rule = Rule("8", "values of one `.pth` by path, when they are listed (8.1)")
    yield agrees(rule, "policy-lists-no-values", "ppo", read_agent("ppo"), "--limit", "leaves=1")


def of_spaces() -> Iterator[Vector]:
    rule = Rule("19.7", ACTION_SPACE)
    spaces = {name: json.loads(entry(agent, "data"))["action_space"] for name, agent in (
        ("box", "ppo-box"), ("discrete", "ppo"), ("multi-discrete", "ppo-multi-discrete"), ("multi-binary", "ppo-multi-binary"),
    )}  # fmt: skip
    for agent, name in (("maskable", "box"), ("sac", "discrete"), ("td3", "multi-binary"), ("dqn", "box"), ("qrdqn", "multi-discrete"),
                        ("ars", "multi-discrete"), ("ars-linear", "multi-binary")):  # fmt: skip
        yield refused(rule, f"policy-{agent}-of-{name}", agent, change(agent, WITHOUT, action_space=spaces[name]))
    space = json.loads(entry("ppo-observes-multi-binary-2d", "data"))["observation_space"]
    yield refused(rule, "policy-ppo-of-multi-binary-2d", "ppo", change("ppo", WITHOUT, action_space=space))


def of_networks() -> Iterator[Vector]:
    rule = Rule("6.8", NO_GSDE)
    for agent in ("dqn", "td3", "maskable", "ars", "ppo", "sac"):
        yield refused(rule, f"policy-gsde-of-{agent}", agent, change(agent, WITHOUT, use_sde=True))
    rule = Rule("6.8", "`log_std_init` that is not a number")
    for agent in ("ppo-box", "sac-gsde"):
        kwargs: dict[str, Any] = {"net_arch": [8]} | (
            {"use_sde": True, "clip_mean": 0.5} if agent == "sac-gsde" else {}
        )
        yield refused(
            rule, f"policy-log-std-init-text-{agent}", agent, with_arguments(agent, {**kwargs, "log_std_init": "0"})
        )
        made = with_arguments(agent, {**kwargs, "log_std_init": array("f4", 1, 2)})
        yield agrees(rule, f"policy-log-std-init-array-{agent}", agent, made)
    for agent in ("ppo", "sac"):
        yield agrees(
            rule,
            f"policy-log-std-init-unused-{agent}",
            agent,
            with_arguments(agent, {"net_arch": [8], "log_std_init": "0"}),
        )
    rule = Rule("6.8", "`optimizer_kwargs` does not contain `lr`, and the LSTM's `dropout` is from 0 to 1.")
    yield refused(
        rule, "policy-optimizer-lr", "ppo", with_arguments("ppo", {"net_arch": [8], "optimizer_kwargs": {"lr": 1}})
    )
    for name, value in {"above-1": 1.5, "below-0": -0.5, "text": "x", "bool": True}.items():
        made = with_arguments("lstm", {**ALL["lstm"], "lstm_kwargs": {"dropout": value}})
        yield refused(rule, f"policy-dropout-{name}", "lstm", made)
    yield agrees(
        rule, "policy-dropout-1", "lstm", with_arguments("lstm", {**ALL["lstm"], "lstm_kwargs": {"dropout": 1}})
    )
    rule = Rule("6.8", "`critic.W` (neither that nor `shared_lstm`)")
    yield refused(
        rule, "policy-shared-lstm-of-critic", "lstm", with_arguments("lstm", {**ALL["lstm"], "shared_lstm": True})
    )
    rule = Rule("6.8", MISSING)
    hidden = mlp("q_net.q_net", VECTOR, (8, ACTIONS))
    yield refused(rule, "policy-without-target", "dqn", archive("dqn", hidden, policy_kwargs={"net_arch": [8]}))
    actor = mlp("actor.mu", VECTOR, (8, NUMBERS)) | critics(VECTOR + NUMBERS, (8,))
    yield refused(rule, "policy-without-target-actor", "td3", archive("td3", actor, policy_kwargs={"net_arch": [8]}))
    small = linear("q_net_target.q_net.0", VECTOR, 7) | linear("q_net_target.q_net.2", 7, ACTIONS)
    made = archive("dqn", hidden | small, policy_kwargs={"net_arch": [8]})
    yield refused(rule, "policy-target-of-another-shape", "dqn", made)
    made = archive("crossq", both("critic", "critic_target", critics(VECTOR + NUMBERS, (8,)))
                   | mlp("actor.latent_pi", VECTOR, (8,)) | gaussian("actor", 8),
                   policy_kwargs={"net_arch": [8], "batch_norm": False})  # fmt: skip
    yield refused(rule, "policy-crossq-with-target", "crossq", made)
    rule = Rule("6.8", ALIASES, *CNN)
    for release in ("1.6.2", "1.7.0"):
        for which, names in {"without": dict, "with": extractor}.items():
            shapes = names(cnn("features_extractor", 512)) | on_policy(512, ())
            entries = {**WITHOUT, "policy.pth": state_dict(shapes), "_stable_baselines3_version": release.encode()}
            made, name = change("cnn", entries, policy_kwargs={}), f"policy-{which}-other-names-{release}"
            if (release == "1.7.0") == (which == "with"):
                yield rule.predicts(name, made, BLACK, CHOICE)
            else:
                yield rule.cannot_run(name, made, BLACK, "invalid")


def of_two_extractors() -> Iterator[Vector]:
    """Another features extractor of the critic: its features are 1, and the weights of the value are 1/4."""
    shapes = extractor(cnn("features_extractor", 8)) | on_policy(8, ())
    storages = {"0": struct.pack("<f", 0), "1": struct.pack("<f", BIAS), "2": struct.pack("<f", 1)}
    pairs = {}
    for name, shape in shapes.items():
        number = (
            "2"
            if name == "vf_features_extractor.linear.0.bias"
            else "1"
            if "bias" in name or name == "value_net.weight"
            else "0"
        )
        pairs[name] = tensor(storage(1, number), shape, (0,) * len(shape))
    kwargs = {"features_extractor_kwargs": {"features_dim": 8}, "share_features_extractor": False}
    made = change("cnn", {**WITHOUT, "policy.pth": pth(ordered(pairs), storages)}, policy_kwargs=kwargs)
    found = {"policy": {"steps": [choice({**LOGITS, "value": floats(8 * BIAS + BIAS)})]}}
    rule = Rule("19.4", "`pi_features_extractor` and `vf_features_extractor`.", *CNN)
    yield rule.predicts("policy-two-extractors", made, BLACK, found)


def of_releases() -> Iterator[Vector]:
    rule = Rule("6.8", FIRST_DICT)
    both_branches = {"pi": [8], "vf": [8]}
    first = [{":serialized:": 5}, both_branches]
    yield agrees(rule, "policy-arch-list-of-dict", "ppo", with_arguments("ppo", {"net_arch": [both_branches]}))
    yield agrees(
        rule, "policy-arch-list-of-dict-and-more", "ppo", with_arguments("ppo", {"net_arch": [both_branches, 5]})
    )
    yield refused(rule, "policy-arch-first-dict", "ppo", change("ppo", WITHOUT, policy_kwargs={"net_arch": first}))
    yield refused(rule, "policy-arch-of-null", "ppo", with_arguments("ppo", {"net_arch": {"pi": None, "vf": [8]}}))
    yield agrees(rule, "policy-arch-dict-1.7", "ppo", with_arguments("ppo", {"net_arch": both_branches}, "1.7.0"))
    for name, value in {"pi": {"pi": [8]}, "vf": {"vf": [8]}}.items():
        yield refused(
            rule, f"policy-arch-dict-of-{name}-1.7", "ppo", with_arguments("ppo", {"net_arch": value}, "1.7.0")
        )
    yield refused(rule, "policy-arch-dict-1.6", "ppo", with_arguments("ppo", {"net_arch": both_branches}, "1.6.2"))
    yield agrees(
        rule, "policy-arch-list-of-dict-1.6", "ppo", with_arguments("ppo", {"net_arch": [both_branches]}, "1.6.2")
    )
    yield refused(rule, "policy-arch-shared-1.6", "ppo", with_arguments("ppo", {"net_arch": [8]}, "1.6.2"))
    yield agrees(
        rule, "policy-arch-tuple-of-dict-1.7", "ppo", with_arguments("ppo", {"net_arch": (both_branches,)}, "1.7.0")
    )
    rule = Rule("6.8", EVERY_RELEASE)
    for agent in ("ppo", "sac", "shared-layers", "old-critics"):
        yield agrees(
            rule, f"policy-of-no-release-{agent}", agent, change(agent, {**WITHOUT, "_stable_baselines3_version": None})
        )
    made = change("shared-layers", {**WITHOUT, "_stable_baselines3_version": b"1.8.0a3"})
    yield agrees(
        Rule("6.8", "and a pre-release also with the release before it"),
        "policy-of-a-pre-release",
        "shared-layers",
        made,
    )
    made = change("shared-layers", {**WITHOUT, "_stable_baselines3_version": b"1.8.0"})
    yield refused(rule, "policy-of-a-release", "shared-layers", made)
    rule = Rule(
        "19.8",
        "Before 2.2, on-policy policies accepted `squash_output` without gSDE, and scaled their action without Tanh.",
    )
    kwargs = {"net_arch": [8], "squash_output": True}
    yield refused(rule, "policy-squashed-without-gsde", "ppo-box", with_arguments("ppo-box", kwargs, "2.2.0"))
    yield refused(rule, "policy-squashed-choices", "ppo", with_arguments("ppo", kwargs))
    yield agrees(rule, "policy-squashed-choices-2.1", "ppo", with_arguments("ppo", kwargs, "2.1.0"))
    shapes = {**mlp("mlp_extractor.policy_net", VECTOR, (8,)), **mlp("mlp_extractor.value_net", VECTOR, (8,)),
              **linear("action_net", 8, NUMBERS), **linear("value_net", 8, 1), "log_std": (NUMBERS,)}  # fmt: skip
    made = change(
        "ppo-box",
        {**WITHOUT, "policy.pth": state_dict(shapes), "_stable_baselines3_version": b"2.1.0"},
        policy_kwargs=kwargs,
    )
    outputs = {"mean": floats(BIAS, BIAS), "value": floats(BIAS)}
    asked = {"steps": [{"observation": floats(1.0, -2.0, 3.0, -4.0)}]}
    yield rule.predicts(
        "policy-squashed-without-gsde-2.1", made, asked, {"policy": {"steps": [numbers(BIAS, outputs)]}}
    )
    yield from of_noise_layers()


def of_noise_layers() -> Iterator[Vector]:
    """The layers that gSDE had for itself, where weights are 0 and biases 1/4."""
    rule = Rule("19.8", "before 1.3 with `sde_net_arch` the output of `sde_features_extractor`")
    asked = {"steps": [{"observation": floats(1.0, -2.0, 3.0, -4.0)}]}
    actor = mlp("actor.latent_pi", VECTOR, (8,)) | linear("actor.mu.0", 8, NUMBERS) | critics(VECTOR + NUMBERS, (8,))
    for name, sizes, seen in (("layers", [3], 3 * BIAS**2), ("no-layers", [], 30.0)):
        layers = mlp("actor.sde_features_extractor", VECTOR, sizes)
        shapes = {**actor, **layers, "actor.log_std": ((sizes or [VECTOR])[-1], NUMBERS)}
        kwargs = {"net_arch": [8], "sde_net_arch": sizes, "use_sde": True}
        made = change("sac-gsde", {**WITHOUT, "policy.pth": state_dict(shapes), "_stable_baselines3_version": b"1.2.0"},
                      use_sde=True, policy_kwargs=kwargs)  # fmt: skip
        log_std = floats(*[math.log(seen + 1e-6) / 2] * NUMBERS)
        step = numbers(SCALED, {"mean": floats(BIAS, BIAS), "log_std": log_std, **CRITICS})
        yield rule.predicts(f"policy-noise-of-{name}", made, asked, {"policy": {"steps": [step]}})


def of_activations() -> Iterator[Vector]:
    rule = Rule("19.5", 'an `approximate` of GELU that is neither "none" nor "tanh".')
    yield refused(
        rule, "policy-activation-gelu-approximate", "ppo", with_activation("GELU", {"approximate": "x"}), "unsupported"
    )
    rule = Rule("19.5", "Arguments are numbers that fit float32, infinite ones or NaN.")
    for name, value in {"text": "1", "null": None, "too-large": 1e39}.items():
        yield refused(
            rule, f"policy-activation-elu-of-{name}", "ppo", with_activation("ELU", {"alpha": value}), "unsupported"
        )
    rule = Rule("19.5", "Arguments are checked where a layer has the activation;")
    unused = {
        "glu": Name("torch.nn.modules.activation", "GLU"),
        "softmax-2d": Name("torch.nn.modules.activation", "Softmax2d"),
    }
    for name, value in unused.items():
        made = with_arguments("ppo-no-layers", {"net_arch": [], "activation_fn": value})
        yield agrees(rule, f"policy-activation-unused-{name}", "ppo-no-layers", made)
    made = with_arguments("ppo-no-layers", {"net_arch": [], "activation_fn": Name("my_project", "Snake")})
    yield refused(rule, "policy-activation-unused-unknown", "ppo-no-layers", made, "unsupported")
    made = with_arguments("ppo", {"net_arch": [8], "activation_fn": unused["softmax-2d"]})
    yield refused(Rule("19.5", "`GLU` and `Softmax2d`"), "policy-activation-softmax-2d", "ppo", made, "unsupported")


def of_lone_tensors() -> Iterator[Vector]:
    rule = Rule("19.10", UNUSED, *GIVEN)
    asked = {"steps": [{"observation": floats(1.0, -2.0, 3.0, -4.0)}], "policy_kwargs": {"activation_fn": "ReLU"}}
    made = state_dict(mlp("q_net.q_net", VECTOR, (8, ACTIONS)))
    yield rule.predicts("policy-lone-dqn-without-target", made, asked, {"policy": {"steps": [choice(VALUES)]}})
    made = state_dict(mlp("q_net.q_net", VECTOR, (8, ACTIONS)) | linear("q_net.other", VECTOR, 1))
    other = Rule("19.10", "names are left over that the network does not have", *GIVEN)
    yield other.cannot_run("policy-lone-dqn-and-more", made, asked, "unsupported")
    box = read_json("lone-td3", "input")["action_space"]
    made = state_dict(mlp("actor.mu", VECTOR, (8, NUMBERS)))
    found = {"policy": {"steps": [numbers(SCALED, {})]}}
    yield rule.predicts("policy-lone-td3-without-critics", made, {**asked, "action_space": box}, found)
