"""Policies that are run, or refused (POLICIES.md 19).

Agents, observations and what SB3 and SB2 predict for them were written by ``released/write_policies.py`` and
``released/write_sb2_policies.py``. What must be refused is made from them by one change.
"""

from __future__ import annotations

import base64
import io
import json
import math
import struct
import zipfile
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import recorded
from conformance.generators.build_bundles import (
    ARRAYS_ENTRY,
    RETURNS,
    SETTINGS,
    SETTINGS_ENTRY,
    discrete,
    json_array,
    means,
    safetensors,
)
from conformance.generators.build_objects import sample_array
from conformance.generators.build_pth import Name, dumps, ordered, storage, tensor
from conformance.generators.build_torch_zips import pth
from conformance.generators.build_zips import Member, build_zip, changed
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

CNN: Final = ("policy-cnn",)
LSTM: Final = ("policy-lstm",)
GIVEN: Final = ("policy-given",)
SB2: Final = ("policy-sb2",)

IMAGE: Final = "An *image* is a Box with three dimensions, the dtype uint8, and bounds 0 and 255."
IMAGE_MOVED: Final = (
    "has one of them after its last axis is moved before the two axes of height and width, it is moved."
)
ON_POLICY: Final = "`latent_pi` is `mlp_extractor.policy_net(features)`"
SQUASHED: Final = "of SAC, TD3, DDPG, TQC and CrossQ always"
SQUASHED_BOX: Final = "Tanh, unless the network ends with it, then `low + 0.5 * (x + 1) * (high - low)`"
CLIPPED: Final = "at least -`clip_mean` and at most `clip_mean` (2.0 by default), unless that is 0."
TIED: Final = "Rounding can make logits equal that nearly are; then the first one counts."
MASKED: Final = "a logit whose mask is 0 is replaced by -1e8."
CRITIC_PASSES: Final = (
    "The critic's features pass through `lstm_critic` or through the layer `critic`, whichever exists"
)
SAME: Final = "| `CELU`, `ELU`, `SELU`, `LeakyReLU`, `PReLU` | the same;"
RELU: Final = "| `ReLU`, `LogSoftmax`, `Softmax` | the same;"
PARTIAL: Final = "with torch's default arguments, or a `functools.partial` with arguments:"
DICT_ORDER: Final = "The keys of a Dict are in the order in which the space stores them"
DICT: Final = "| Dict | each key by its own space | |"
SB2_ON_POLICY: Final = "`model/shared_fcN.W`; `model/pi_fcN.W` and `model/vf_fcN.W`; `model/pi.W` and `model/vf.W`"
SB2_LSTM: Final = "An LSTM has `wx:0`, `wh:0` and `b:0`, and another order of gates than torch's"
SB2_ENCODED: Final = "Observations are encoded as in 19.3, without its rules for images"

PREDICTED: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "ppo": ("19.7", ON_POLICY, ()),
    "ppo-box": ("19.8", "| Box, not squashed | clipped to `low` and `high` |", ()),
    "ppo-box-shape": ("19.8", "The action has the shape of its space.", ()),
    "ppo-box-float64": ("19.8", "the dtype that numpy gives to an operation of float32 with the dtype of the bounds", ()),
    **{f"ppo-box-{dtype}": ("19.8", "the dtype that numpy gives to an operation of float32 with the dtype of the bounds", ())
       for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16")},
    "ppo-multi-discrete": ("19.8", "| MultiDiscrete | ArgMax of each component, normalized |", ()),
    "ppo-tied": ("19.8", TIED, ()),
    "maskable-tied": ("19.8", TIED, ()),
    "ppo-multi-binary": ("19.8", "| MultiBinary | 1 where the logit is above 1.5 * 2^-24, else 0;", ()),
    "ppo-multi-binary-tied": ("19.8", "Up to 1.5 * 2^-24, the Sigmoid of a logit is a half in float32", ()),
    "ppo-discrete-start": ("19.8", "`start` of a Discrete or MultiDiscrete is not added: SB3 ignores it.", ()),
    "ppo-two-branches": ("19.5", "The layers of a module are applied in the order of their numbers `N`.", ()),
    "ppo-no-layers": ("19.5", "A module without tensors returns its input.", ()),
    "ppo-separate-extractors": ("19.4", "`pi_features_extractor` and `vf_features_extractor`.", ()),
    "ppo-observes-discrete": ("19.3", "| Discrete | cast to int64, then OneHot with `depth` `n` | (`n`) |", ()),
    "ppo-observes-multi-discrete": ("19.3", "then each component OneHot with its own `nvec`; one after another", ()),
    "ppo-observes-multi-binary": ("19.3", "| MultiBinary | cast to float32 | that of the space |", ()),
    "ppo-observes-multi-binary-2d": ("19.4", "the encoded observation, flattened in C order", ()),
    "ppo-observes-float64": ("19.3", "| Box | cast to float32;", ()),
    "ppo-observes-bytes": ("19.3", IMAGE, ()),
    "ppo-observes-dict": ("19.3", DICT, ()),
    "ppo-observes-unsorted-dict": (
        "19.4", DICT_ORDER, (),
    ),
    "ppo-gsde": ("19.7", "With gSDE, `log_std` is `log(latent^2 std^2 + 1e-6) / 2` (19.8).", ()),
    "ppo-gsde-full-std": ("19.8", "a single column (`full_std` false) applies to all.", ()),
    "ppo-large": ("19.7", "`probabilities` is Softmax of each component", ()),
    "ppo-gsde-squashed": ("19.8", "of on-policy policies if `squash_output` is true and gSDE is used", ()),
    "a2c": ("19.7", ON_POLICY, ()),
    "trpo": ("19.7", ON_POLICY, ()),
    "dqn": ("19.7", "| DQN | `q_net.q_net(features)` | `q_values` |", ()),
    "dqn-discrete-start": ("19.8", "`start` of a Discrete or MultiDiscrete is not added: SB3 ignores it.", ()),
    "qrdqn": ("19.7", "| QR-DQN | `quantile_net.quantile_net(features)` | `quantiles`", ()),
    "sac": ("19.8", SQUASHED, ()),
    "sac-wide": ("19.8", SQUASHED_BOX, ()),
    "sac-gsde": ("19.7", CLIPPED, ()),
    **{f"sac-gsde-{name}": ("19.7", CLIPPED, ()) for name in ("clipped", "unclipped", "wide")},
    "sac-large": ("19.7", "`actor.log_std(actor.latent_pi(features))`, at least -20 and at most 2.", ()),
    "td3": ("19.5", "In TD3 and DDPG, Tanh follows the last layer of `actor.mu`.", ()),
    "ddpg": ("19.8", SQUASHED_BOX, ()),
    "tqc": ("19.7", "TQC has several quantiles for each: `quantiles` has the shape (critics, quantiles)", ()),
    "crossq": ("19.5", "CrossQ has batch renormalizations among its layers, those with a tensor `ra_mean`.", ()),
    "crossq-epsilon": ("19.5", "with `batch_norm_eps` 0.001 by default.", ()),
    "crossq-not-normalized": ("19.5", "CrossQ has batch renormalizations among its layers, those with a tensor `ra_mean`.", ()),
    "ars-biases": ("19.5", "A layer is a Gemm of the tensors `N.weight` and `N.bias`, of which the bias may be absent.", ()),
    "ars": ("19.8", "of ARS over a Box if `squash_output` is true, which is the default except for `ARSLinearPolicy`.", ()),
    "ars-clipped": ("19.8", "| Box, not squashed | clipped to `low` and `high` |", ()),
    "ars-linear": ("19.5", "A layer is a Gemm of the tensors `N.weight` and `N.bias`, of which the bias may be absent.", ()),
    "ars-linear-discrete": ("19.7", "| ARS, Discrete | `action_net(features)` | `scores` |", ()),
    "maskable": ("19.8", MASKED, ()),
    "maskable-multi-discrete": ("19.8", MASKED, ()),
    "maskable-multi-binary": ("19.8", "of MaskablePPO ArgMax of each pair, normalized |", ()),
    "lstm": ("19.6", "Where `episode_start` is 1, `h` and `c` are multiplied by 0 before the step", LSTM),
    "lstm-two-layers": ("19.6", "`h'` is the input of the next layer, and the output of the last one.", LSTM),
    "lstm-shared": ("19.6", "if neither does, the output of `lstm_actor` is used", LSTM),
    "lstm-without-bias": ("19.6", "Biases may be absent.", LSTM),
    "lstm-actor-only": ("19.6", CRITIC_PASSES, LSTM),
    "ppo-normalized": ("19.3", "Normalization statistics, if there are any, apply to the observation as it is given", ()),
    "sac-normalized": ("19.3", "Normalization statistics, if there are any, apply to the observation as it is given", ()),
    "ppo-normalized-keys": ("19.3", "each of a Dict to its own key.", ()),
    "cnn": ("19.4", "`NatureCNN`: Conv and Relu three times", CNN),
    "cnn-channels-last": ("19.3", IMAGE_MOVED, CNN),
    "cnn-multi-input": ("19.4", "of each key of the Dict in order: a NatureCNN (`extractors.KEY`) if the state dict has one", CNN),
    "cnn-not-divided": ("19.3", "an image is divided by 255, unless `normalize_images` is false", CNN),
    "ppo-observes-multi-binary-3d": ("19.3", "| MultiBinary | cast to float32 | that of the space |", ()),
    **{f"no-image-{name}": ("19.3", IMAGE, ()) for name in ("floats", "low", "high", "flat")},
    "image-flattened": ("19.3", "an image is divided by 255, unless `normalize_images` is false", ()),
    "image-flattened-not-divided": ("19.3", "an image is divided by 255, unless `normalize_images` is false", ()),
    **{f"activation-{name}": ("19.5", RELU if name == "relu" else SAME, ()) for name in (
        "relu", "elu", "celu", "selu", "leaky-relu", "leaky-relu-partial", "prelu",
    )},
    **{f"activation-{name}": ("19.5", "| `GELU` | x (1 + Erf(x / sqrt 2)) / 2;", ()) for name in ("gelu", "gelu-tanh")},
    **{f"activation-{name}": ("19.5", "| `SiLU`, `Mish` |", ()) for name in ("silu", "mish")},
    **{f"activation-{name}": ("19.5", "| `Hardtanh`, `ReLU6` |", ()) for name in ("hardtanh", "relu6")},
    **{f"activation-{name}": ("19.5", "| `Hardsigmoid`, `Hardswish` |", ()) for name in ("hardsigmoid", "hardswish")},
    **{f"activation-{name}": ("19.5", "| `LogSigmoid`, `Tanhshrink`, `Softmin` |", ()) for name in (
        "log-sigmoid", "tanhshrink",
    )},
    **{f"activation-{name}": ("19.5", "| `Hardshrink`, `Softshrink` |", ()) for name in ("hardshrink", "softshrink")},
    **{f"activation-{name}": ("19.5", "the operator of that name; `Flatten` is an Identity |", ()) for name in (
        "sigmoid", "softsign", "identity",
    )},
    "activation-softplus": ("19.5", "Softplus(`beta` x) / `beta` (1), but x where `beta` x > `threshold` (20) |", ()),
    "activation-rrelu": ("19.5", "LeakyRelu with the mean of `lower` (1/8) and `upper` (1/3) |", ()),
    **{f"activation-{name}": ("19.5", "| `Dropout`, `AlphaDropout`, `FeatureAlphaDropout` | x |", ()) for name in (
        "dropout", "alpha-dropout", "feature-alpha-dropout",
    )},
    "activation-flatten": ("19.5", "the operator of that name; `Flatten` is an Identity |", ()),
    **{f"activation-{name}": ("19.5", RELU, ()) for name in ("softmax", "log-softmax")},
    "activation-softmin": ("19.5", "| `LogSigmoid`, `Tanhshrink`, `Softmin` |", ()),
    "activation-gelu-large": ("19.5", "| `GELU` | x (1 + Erf(x / sqrt 2)) / 2;", ()),
    **{f"activation-{name}-of": ("19.5", PARTIAL, ()) for name in (
        "elu", "celu", "leaky-relu", "rrelu", "softplus", "hardtanh", "hardshrink", "softshrink", "gelu", "softmax",
        "log-softmax", "softmin",
    )},
    "activation-prelu-of": ("19.5", "The `weight` of a PReLU has `num_parameters` items (1)", ()),
    "shared-layers": (
        "19.7", "both continue the layers of `mlp_extractor.shared_net`.", (),
    ),
    "old-critics": ("19.7", "(before 0.8 `critic.q1_net`, `critic.q2_net`)", ()),
    "old-ars": ("19.8", "Before 1.7, `ARSPolicy` over a Box applied Tanh also if `squash_output` was false", ()),
    "old-ars-linear": ("19.7", "Before 1.7, `ARSLinearPolicy` has a single layer `action_net`, without a number.", ()),
    "released-ppo-0.6": ("19", "Where an older release computes something else, the rule says so", ("legacy",)),
    "released-sac-0.8": ("19.8", SQUASHED, ("legacy",)),
    "released-td3-0.10": ("19.8", SQUASHED, ()),
    "released-a2c-1.0": ("19.7", ON_POLICY, ("numpy-values",)),
    "released-ppo-1.3": ("19.4", DICT_ORDER, ()),
    "released-dqn-1.6": ("19.7", "| DQN | `q_net.q_net(features)` | `q_values` |", ()),
    "released-sac-2.0": ("19.8", SQUASHED, ()),
    "released-ppo-2.6": ("19.3", DICT, ()),
    "released-ars-2.9": ("19.7", "| ARS, Discrete | `action_net(features)` | `scores` |", ()),
    "lone-ppo-box": ("19.10", "`value_net` PPO's", GIVEN),
    "lone-dqn": ("19.10", "What names and shapes do not determine MUST be supplied by the caller", GIVEN),
    "lone-td3": ("19.10", "`actor.mu` TD3's", GIVEN),
    "lone-sac": ("19.10", "`actor.log_std` SAC's", GIVEN),
    **{f"sb2-{name}": ("19.9", SB2_ON_POLICY, SB2) for name in (
        "ppo2", "ppo2-box", "ppo2-multi-discrete", "ppo2-multi-binary", "ppo2-shared-layers", "a2c-box", "acer",
    )},
    **{f"sb2-{name}": ("19.9", SB2_ENCODED, SB2) for name in ("ppo2-observes-discrete", "ppo2-observes-multi-discrete")},
    "sb2-ppo2-relu": ("19.9", "The activation of hidden layers is `act_fun` of `policy_kwargs`", SB2),
    "sb2-ppo2-lstm": ("19.9", SB2_LSTM, SB2),
    "sb2-ppo2-lstm-normalized": ("19.9", "In `Ln` policies the gates are `ln(x wx, gx, bx) + ln(h wh, gh, bh) + b`", SB2),
    "sb2-dqn": ("19.9", "Dueling: the q-values are the values of the actions minus their mean", SB2),
    "sb2-dqn-not-dueling": ("19.9", "DQN: `deepq/model/action_value/fully_connected.L`", SB2),
    "sb2-dqn-normalized": ("19.9", "In `Ln` policies of DQN, SAC, TD3 and DDPG, LayerNormalization", SB2),
    "sb2-sac": ("19.9", "SAC: `model/pi/fcN.K`; mean `model/pi/dense.K`", SB2),
    "sb2-sac-normalized": ("19.9", "In `Ln` policies of DQN, SAC, TD3 and DDPG, LayerNormalization", SB2),
    "sb2-td3": ("19.9", "TD3: `model/pi/fcN.K`; `model/pi/dense.K` with Tanh. Action: squashed", SB2),
}  # fmt: skip
"""Section, sentence and features of each recorded agent."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from predicted()
    yield from bundled()
    yield from inferred()
    yield from contradictions()
    yield from unknown()
    yield from limited()


def predicted() -> Iterator[Vector]:
    for name, (section, sentence, features) in PREDICTED.items():
        rule = Rule(section, sentence, *features)
        arguments = ("--other-formats",) if features is SB2 else ()
        asked, found = read_json(name, "input"), read_json(name, "expect")
        yield rule.predicts(f"policy-{name}", read_agent(name), asked, found, *arguments)


def read_agent(name: str) -> bytes:
    """The file of a recorded agent."""
    return recorded.read_file(name if name.startswith("released-") else f"policy-{name}")


def read_json(name: str, part: str) -> Any:
    """The observations of a recorded agent, or what it predicts for them."""
    return recorded.read_json(f"policy-{name}", part)


# -- a bundle -----------------------------------------------------------------------------------------

MEANS: Final = (1.0, -2.0, 0.5, 4.0)


def bundled() -> Iterator[Vector]:
    """Observations that the statistics of a bundle turn into those of an agent without: (2 x + mean - mean) / 2."""
    rule = Rule("19.3", "(17.5: unless it is a bundle)", "statistics")
    yield rule.predicts(
        "policy-bundled-statistics", bundle("ppo", ("",)), double("ppo", ("",)), read_json("ppo", "expect")
    )
    agent, keys = "ppo-observes-dict", ("grid", "speed")
    made = bundle(agent, keys, norm_obs_keys=keys, obs_rms=keys)
    yield rule.predicts("policy-bundled-statistics-by-key", made, double(agent, keys), read_json(agent, "expect"))
    made = bundle("ppo", (), norm_obs=False, obs_rms=None)
    yield rule.predicts("policy-bundled-statistics-none", made, read_json("ppo", "input"), read_json("ppo", "expect"))
    rule = Rule("17.5", "Both MUST be present, or neither;", "statistics")
    halves = {SETTINGS_ENTRY: json.dumps(SETTINGS).encode(), ARRAYS_ENTRY: safetensors(RETURNS)}
    for name, raw in halves.items():
        made = change("ppo", {name: raw})
        yield rule.cannot_run(f"policy-bundled-{name[13:]}-alone", made, read_json("ppo", "input"), "missing")
    single = {SETTINGS_ENTRY: json.dumps(SETTINGS).encode(), ARRAYS_ENTRY: safetensors(RETURNS | SINGLE)}
    rule = Rule("17.5", "All are F64; mean and variance have the same shape", "statistics")
    yield rule.cannot_run(
        "policy-bundled-statistics-float32", change("ppo", single), read_json("ppo", "input"), "tensor failure"
    )


SINGLE: Final = means("obs_rms", MEANS, (3.0,) * len(MEANS), 5) | {"obs_rms.mean": sample_array("f4", *MEANS)}
SHAPES: Final = {"": (4,), "grid": (2, 2), "speed": (2,)}
"""Of observations by key."""


def bundle(name: str, keys: Iterable[str], **settings: Any) -> bytes:
    """The archive of a recorded agent with statistics of these keys.

    :param settings: of the bundle
    """
    arrays = dict(RETURNS)
    for key in keys:
        count = math.prod(SHAPES[key])
        path = f"obs_rms/{key}".rstrip("/")
        arrays |= means(path, MEANS[:count], (3.0,) * count, 5, shape=SHAPES[key])
    document = {**SETTINGS, "epsilon": 1.0, "clip_obs": 100.0, **settings}
    return change(name, {SETTINGS_ENTRY: json.dumps(document).encode(), ARRAYS_ENTRY: safetensors(arrays)})


def double(name: str, keys: Iterable[str]) -> Any:
    """The observations of a recorded agent, of which those of some keys are doubled and moved by the means."""
    asked = read_json(name, "input")
    for step in asked["steps"]:
        for key in keys:
            array = step["observation"][key] if key else step["observation"]
            means_of_key = MEANS[: math.prod(SHAPES[key])]
            array["items"] = [2 * item + means_of_key[at % len(means_of_key)] for at, item in enumerate(array["items"])]
    return asked


# -- a lone state dict --------------------------------------------------------------------------------


def inferred() -> Iterator[Vector]:
    rule = Rule("19.10", "the action of DQN is a Discrete with as many choices as the last layer has outputs", *GIVEN)
    asked = read_json("lone-dqn", "input")
    less = {key: asked[key] for key in ("policy_kwargs", "steps")}
    yield rule.predicts("policy-lone-dqn-inferred", read_agent("lone-dqn"), less, read_json("lone-dqn", "expect"))
    rule = Rule("19.10", "What names and shapes do not determine MUST be supplied by the caller", *GIVEN)
    yield rule.cannot_run("policy-lone-no-activation", read_agent("lone-dqn"), {"steps": asked["steps"]}, "unsupported")
    yield from inferred_images()
    asked = read_json("lone-ppo-box", "input")
    less = {key: asked[key] for key in ("policy_kwargs", "steps")}
    yield rule.cannot_run("policy-lone-no-action-space", read_agent("lone-ppo-box"), less, "unsupported")


def inferred_images() -> Iterator[Vector]:
    """State dicts alone, of agents with other spaces: bounds of one item, of bytes and of float64; and no such space."""
    rule = Rule("19.10", "and `normalize_images` where the observation has images.", *GIVEN)
    shape = [1, 2, 3]
    bounds = {"low": json_array("u1", 0, shape), "high": json_array("u1", 255, shape), "dtype": "|u1", "shape": shape}
    sides = {f"bounded_{side}": json_array("b1", True, shape) for side in ("below", "above")}
    spaces = {
        "observation_space": {"type": "Box", "library": "gymnasium", **bounds, **sides}, "action_space": discrete(3),
    }  # fmt: skip
    activation = {"activation_fn": "Tanh"}
    for name, is_divided in (("image-flattened", True), ("image-flattened-not-divided", False)):
        kwargs = {"policy_kwargs": {**activation, "normalize_images": is_divided}}
        given = {**spaces, **kwargs, "steps": read_json(name, "input")["steps"]}
        yield rule.predicts(f"policy-lone-{name}", entry(name, "policy.pth"), given, read_json(name, "expect"))
    given = {**given, "policy_kwargs": activation}
    yield rule.cannot_run("policy-lone-image", entry("image-flattened", "policy.pth"), given, "unsupported")
    asked, weights = read_json("ppo-box-float64", "input"), entry("ppo-box-float64", "policy.pth")
    bounds = {"low": json_array("f8", -1, [2]), "high": json_array("f8", 1, [2]), "dtype": "<f8", "shape": [2]}
    sides = {f"bounded_{side}": json_array("b1", True, [2]) for side in ("below", "above")}
    given = {
        "policy_kwargs": activation,
        "steps": asked["steps"],
        "action_space": {"type": "Box", "library": "gymnasium", **bounds, **sides},
    }
    rule = Rule("19.10", "the action space of all but DQN;", *GIVEN)
    yield rule.predicts("policy-lone-float64", weights, given, read_json("ppo-box-float64", "expect"))


# -- archives that are refused ------------------------------------------------------------------------


def change(
    name: str, entries: Mapping[str, bytes | None] | None = None, *, without: Sequence[str] = (), **data: Any
) -> bytes:
    """The archive of a recorded agent with other entries (None: without one) and other values of ``data``.

    :param without: keys that ``data`` has not
    """
    with zipfile.ZipFile(io.BytesIO(read_agent(name))) as opened:
        found = {entry: opened.read(entry) for entry in opened.namelist()}
    values = {**json.loads(found["data"]), **data}
    found["data"] = json.dumps({key: value for key, value in values.items() if key not in without}).encode()
    made = {**found, **(entries or {})}
    return build_zip(*[Member(entry.encode(), raw) for entry, raw in made.items() if raw is not None])


def entry(name: str, wanted: str) -> bytes:
    """An entry of the archive of a recorded agent."""
    with zipfile.ZipFile(io.BytesIO(read_agent(name))) as opened:
        return opened.read(wanted)


def serialize(pickle: bytes) -> dict[str, str]:
    """A serialized value of ``data``."""
    return {":type:": "<class 'type'>", ":serialized:": base64.b64encode(pickle).decode()}


def contradictions() -> Iterator[Vector]:
    rule = Rule("19", 'A runner MUST check names and shapes of the state dict by 6.8 first ("invalid").')
    asked = read_json("ppo", "input")
    same = change("ppo")
    yield rule.predicts("policy-checked", same, asked, read_json("ppo", "expect"))
    for what, layers in {"size": [9], "depth": [8, 8]}.items():
        made = change("ppo", policy_kwargs={"net_arch": layers})
        yield rule.cannot_run(f"policy-contradiction-{what}", made, asked, "invalid")
    rule = Rule("6.8", 'a validator and a runner MUST report "invalid" for such a state dict.')
    archives = {
        "arguments": change("ppo", policy_kwargs=[8]),
        "tensor-missing": change("ppo-box", {"policy.pth": entry("ppo", "policy.pth")}),
        "tensor-too-many": change("ppo", {"policy.pth": entry("ppo-box", "policy.pth")}),
        "algorithm": change("ppo", {"policy.pth": entry("dqn", "policy.pth")}),
    }
    for what, data in archives.items():
        yield rule.cannot_run(f"policy-contradiction-{what}", data, asked, "invalid")
    rule = Rule("19.9", "which MUST be those of the file.", *SB2)
    asked = read_json("sb2-ppo2", "input")
    arguments = ("--other-formats",)
    yield rule.predicts("policy-sb2-checked", change("sb2-ppo2"), asked, read_json("sb2-ppo2", "expect"), *arguments)
    made = change("sb2-ppo2", policy_kwargs={"layers": [9]})
    yield rule.cannot_run("policy-sb2-contradiction", made, asked, "invalid", *arguments)
    rule = Rule("10", "an entry, key or tensor that was requested does not exist")
    asked = read_json("ppo", "input")
    yield rule.cannot_run("policy-missing", change("ppo", {"policy.pth": None}), asked, "missing")


def unknown() -> Iterator[Vector]:
    asked = read_json("ppo", "input")
    custom = Name("my_project.policies", "CustomPolicy")
    rule = Rule("19.4", 'An extractor of another class is refused as "unsupported"')
    kwargs = {"features_extractor_class": Name("my_project.extractors", "CustomExtractor"), "net_arch": [8]}
    yield rule.cannot_run(
        "policy-unknown-extractor", change("ppo", policy_kwargs=serialize(dumps(kwargs))), asked, "unsupported"
    )
    rule = Rule("19.5", "so is every class that is not in this table.")
    activations = {"activation": Name("my_project.layers", "Snake"), "glu": Name("torch.nn.modules.activation", "GLU")}
    for name, activation in activations.items():
        kwargs = {"activation_fn": activation, "net_arch": [8]}
        made = change("ppo", policy_kwargs=serialize(dumps(kwargs)))
        yield rule.cannot_run(f"policy-unknown-{name}", made, asked, "unsupported")
    rule = Rule(
        "6.8",
        "If another author wrote the class, the features extractor or the activation, names and shapes are not known.",
    )
    yield rule.cannot_run(
        "policy-unknown-class", change("ppo", policy_class=serialize(dumps(custom))), asked, "unsupported"
    )


# -- limits -------------------------------------------------------------------------------------------

ROWS: Final = 1 << 31


def limited() -> Iterator[Vector]:
    rule = Rule("19.1", "A runner MUST compare them with the limit before it allocates memory for them.")
    asked = read_json("ppo", "input")
    enough, few = (("--limit", f"policy_items={number}") for number in (40_000, 8))
    yield rule.predicts("limit-policy-items-enough", read_agent("ppo"), asked, read_json("ppo", "expect"), *enough)
    yield rule.cannot_run("limit-policy-items-too-few", read_agent("ppo"), asked, "limit exceeded", *few)
    yield rule.cannot_run("limit-policy-items-of-a-layer", wide_archive(), asked, "limit exceeded")
    less = ("--limit", "policy_items=1000000")
    yield rule.cannot_run(
        "limit-policy-items-of-a-smaller-layer", wide_archive(1 << 20), asked, "limit exceeded", *less
    )
    yield rule.cannot_run("limit-policy-items-of-a-choice", choice_archive(), asked, "limit exceeded")
    yield from counted_settings()


def counted_settings() -> Iterator[Vector]:
    """Counts of layers and parts, exactly at a limit and above it."""
    rule = Rule("8.1", "compared by themselves, before anything of that size is made:")
    for name, agent, limit, most in (
        ("layers", "dqn", "policy_items", 32_768),
        ("critics", "sac", "policy_items", 4 * 32_768),
        ("lstm-layers", "lstm-shared", "policy_items", 32_768),
        ("parts", "ppo-observes-dict", "other_keys", 5),
    ):
        data, asked = read_agent(agent), read_json(agent, "input")
        features = LSTM if agent.startswith("lstm") else ()
        at, above = (("--limit", f"{limit}={number}") for number in (most, most - 1))
        yield rule.predicts(f"limit-of-{name}-at", data, asked, read_json(agent, "expect"), *at, features=features)
        yield rule.cannot_run(f"limit-of-{name}-above", data, asked, "limit exceeded", *above, features=features)
    data = change("lstm", policy_kwargs=serialize(dumps({"net_arch": [8], "n_lstm_layers": 2049})))
    yield rule.cannot_run(
        "limit-of-many-lstm-layers", data, read_json("lstm", "input"), "limit exceeded", features=LSTM
    )


def expanded(rows: int, columns: int | None, key: str = "0") -> Any:
    """A tensor of equal items: one number with strides of 0."""
    shape = (rows,) if columns is None else (rows, columns)
    return tensor(storage(1, key), shape, (0,) * len(shape))


def layers(features: int, hidden: int, actions: int) -> bytes:
    """The state dict of a PPO with one hidden layer in each branch, over one number."""
    tensors: dict[str, Any] = {}
    for branch in ("policy_net", "value_net"):
        tensors[f"mlp_extractor.{branch}.0.weight"] = expanded(hidden, features)
        tensors[f"mlp_extractor.{branch}.0.bias"] = expanded(hidden, None)
    for name, outputs in (("action_net", actions), ("value_net", 1)):
        tensors[f"{name}.weight"] = expanded(outputs, hidden)
        tensors[f"{name}.bias"] = expanded(outputs, None)
    return pth(ordered(tensors), {"0": struct.pack("<f", 1)})


def wide_archive(size: int = ROWS) -> bytes:
    """A hidden layer of 2^31 numbers, as the settings say too."""
    return change("ppo", {"policy.pth": layers(4, size, 3)}, policy_kwargs={"net_arch": [size]})


def choice_archive() -> bytes:
    """An observation of one of 2^31 choices."""
    text = json.loads(entry("ppo-observes-discrete", "data"))["observation_space"][":serialized:"]
    five, many = (b"C\x08" + struct.pack("<q", number) for number in (5, ROWS))
    space = serialize(changed(base64.b64decode(text), five, many))
    return change("ppo-observes-discrete", {"policy.pth": layers(ROWS, 8, 3)}, observation_space=space)
