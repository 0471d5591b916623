"""Policies with the default settings of SB3 (FORMAT.md 6.8): each weight is 0 and each bias 1/4.

Their tensors have one number each in the file, with strides of 0. The result follows from the biases: a layer returns 1/4
whatever the input is, and a batch renormalization 0.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.build_bundles import discrete
from conformance.generators.build_pth import ordered, storage, tensor
from conformance.generators.build_torch_zips import pth
from conformance.generators.policies import CNN, GIVEN, LSTM, change, entry, read_json, serialize
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from conformance.generators.vectors import Vector

Shapes = dict[str, tuple[int, ...]]

BIAS: Final = 0.25
SCALED: Final = math.tanh(BIAS)
VECTOR: Final = 4
ACTIONS: Final = 3
NUMBERS: Final = 2
"""Items of the observation, choices, and items of an action that is a Box from (-2, 0) to (2, 5)."""
IMAGE: Final = (1, 36, 36)
WITHOUT: Final = {
    f"{module}.pth": None
    for module in ("pytorch_variables", "policy.optimizer", "actor.optimizer", "critic.optimizer", "ent_coef_optimizer")
}
"""Entries that the policy does not need."""


def linear(name: str, inputs: int, outputs: int) -> Shapes:
    """A layer."""
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def mlp(module: str, inputs: int, sizes: Sequence[int], step: int = 2) -> Shapes:
    """Layers with an activation after each."""
    made: Shapes = {}
    for number, size in enumerate(sizes):
        made |= linear(f"{module}.{number * step}", inputs, size)
        inputs = size
    return made


def normalized(module: str, inputs: int, sizes: Sequence[int], outputs: int | None = None) -> Shapes:
    """Layers with a batch renormalization before each, and after the last hidden one."""
    made: Shapes = {}
    for number, size in enumerate((*sizes, outputs)):
        for part in ("scale", "bias", "ra_mean", "ra_var"):
            made[f"{module}.{3 * number}.{part}"] = (inputs,)
        made[f"{module}.{3 * number}.steps"] = ()
        if size is not None:
            made |= linear(f"{module}.{3 * number + 1}", inputs, size)
            inputs = size
    return made


def cnn(module: str, features: int, remaining: int = 64, channels: int = 1) -> Shapes:
    """A NatureCNN of an image of 36 x 36, of which 64 numbers remain."""
    made: Shapes = {}
    for number, filters, kernel in ((0, 32, 8), (2, 64, 4), (4, 64, 3)):
        made |= {f"{module}.cnn.{number}.weight": (filters, channels, kernel, kernel)}
        made |= {f"{module}.cnn.{number}.bias": (filters,)}
        channels = filters
    return made | linear(f"{module}.linear.0", remaining, features)


def lstm(module: str, inputs: int, hidden: int) -> Shapes:
    """An LSTM of one layer."""
    return {
        f"{module}.weight_ih_l0": (4 * hidden, inputs), f"{module}.weight_hh_l0": (4 * hidden, hidden),
        f"{module}.bias_ih_l0": (4 * hidden,), f"{module}.bias_hh_l0": (4 * hidden,),
    }  # fmt: skip


def both(online: str, target: str, shapes: Shapes) -> Shapes:
    """Tensors of a network and of its target."""
    return shapes | {name.replace(online, target, 1): shape for name, shape in shapes.items()}


def on_policy(inputs: int, sizes: Sequence[int]) -> Shapes:
    branches = mlp("mlp_extractor.policy_net", inputs, sizes) | mlp("mlp_extractor.value_net", inputs, sizes)
    last = sizes[-1] if sizes else inputs
    return branches | linear("action_net", last, ACTIONS) | linear("value_net", last, 1)


def extractor(shapes: Shapes) -> Shapes:
    """An extractor of an on-policy policy, under its three names."""
    names = ("pi_features_extractor", "vf_features_extractor")
    return shapes | {name.replace("features_extractor", other, 1): shapes[name] for other in names for name in shapes}


def critics(inputs: int, sizes: Sequence[int], outputs: int = 1) -> Shapes:
    made: Shapes = {}
    for number in range(2):
        made |= mlp(f"critic.qf{number}", inputs, (*sizes, outputs))
    return both("critic", "critic_target", made)


def gaussian(module: str, inputs: int) -> Shapes:
    return linear(f"{module}.mu", inputs, NUMBERS) | linear(f"{module}.log_std", inputs, NUMBERS)


def crossq() -> Shapes:
    made = normalized("actor.latent_pi", VECTOR, (256, 256)) | gaussian("actor", 256)
    return made | normalized("critic.qf0", VECTOR + NUMBERS, (1024, 1024), 1)


def state_dict(shapes: Shapes) -> bytes:
    """A state dict of these tensors."""
    storages = {"0": struct.pack("<f", 0), "1": struct.pack("<f", BIAS), "2": bytes(8)}
    pairs = {}
    for key, shape in shapes.items():
        is_normalization = f"{key.rpartition('.')[0]}.ra_mean" in shapes
        number = "1" if "bias" in key and not is_normalization else "0"
        of = storage(1, "2", "LongStorage") if key.endswith(".steps") else storage(1, number)
        pairs[key] = tensor(of, shape, (0,) * len(shape))
    return pth(ordered(pairs), storages)


def archive(name: str, shapes: Shapes, **data: Any) -> bytes:
    """The archive of a recorded agent with these tensors, and the default settings of its policy.

    :param data: other settings
    """
    return change(name, {"policy.pth": state_dict(shapes), **WITHOUT}, **{"policy_kwargs": {}, **data})


def floats(*items: float, shape: Sequence[int] | None = None) -> dict[str, Any]:
    """An array of float32; of a batch of one by default."""
    return {"dtype": "<f4", "shape": list(shape or (1, len(items))), "items": list(items)}


def choice(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The first of several equal choices."""
    return {"action": {"dtype": "<i8", "shape": [1], "items": [0]}, "outputs": outputs}


def numbers(mean: float, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """An action that is scaled to its bounds."""
    return {"action": floats(2 * mean, 2.5 * (mean + 1)), "outputs": outputs}


LOGITS: Final = {"logits": floats(*[BIAS] * ACTIONS), "value": floats(BIAS)}
VALUES: Final = {"q_values": floats(*[BIAS] * ACTIONS)}
CRITICS: Final = {"q_values": floats(BIAS, BIAS)}
GAUSSIAN: Final = {"mean": floats(BIAS, BIAS), "log_std": floats(BIAS, BIAS), **CRITICS}

LAYERS: Final = "Defaults of `net_arch`: 64, 64 for PPO and related algorithms, DQN, QRDQN and ARS;"
WITH_CNN: Final = "With `NatureCNN` there are no hidden layers, except 256, 256 for algorithms with critics since 1.6."
FEATURES: Final = "with `features_dim` outputs, 512 by default."
PARTS: Final = "`CombinedExtractor` has a NatureCNN with `cnn_output_dim` outputs, 256 by default"


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    asked = {"steps": [{"observation": floats(1.0, -2.0, 3.0, -4.0)}]}
    cases: tuple[tuple[str, str, Shapes, dict[str, Any]], ...] = (
        ("ppo", LAYERS, on_policy(VECTOR, (64, 64)), choice(LOGITS)),
        ("dqn", LAYERS, both("q_net", "q_net_target", mlp("q_net.q_net", VECTOR, (64, 64, ACTIONS))), choice(VALUES)),
        ("qrdqn", LAYERS, both("quantile_net", "quantile_net_target",
         mlp("quantile_net.quantile_net", VECTOR, (64, 64, 200 * ACTIONS))), choice(VALUES)),
        ("ars", LAYERS, mlp("action_net", VECTOR, (64, 64, NUMBERS)), numbers(SCALED, {})),
        ("sac", "256, 256 for SAC and TQC;", mlp("actor.latent_pi", VECTOR, (256, 256)) | gaussian("actor", 256)
         | critics(VECTOR + NUMBERS, (256, 256)), numbers(SCALED, GAUSSIAN)),
        ("tqc", "256, 256 for SAC and TQC;", mlp("actor.latent_pi", VECTOR, (256, 256)) | gaussian("actor", 256)
         | critics(VECTOR + NUMBERS, (256, 256), 25),
         numbers(SCALED, {**GAUSSIAN, "quantiles": floats(*[BIAS] * 50, shape=(1, 2, 25))})),
        ("td3", "400, 300 for TD3 and DDPG;", both("actor", "actor_target", mlp("actor.mu", VECTOR, (400, 300, NUMBERS)))
         | critics(VECTOR + NUMBERS, (400, 300)), numbers(SCALED, CRITICS)),
    )  # fmt: skip
    for name, sentence, shapes, step in cases:
        found = {"policy": {"steps": [step]}}
        yield Rule("6.8", sentence).predicts(f"policy-defaults-{name}", archive(name, shapes), asked, found)
    made = archive("crossq", crossq(), policy_kwargs={"n_critics": 1})
    found = {"policy": {"steps": [numbers(SCALED, {**GAUSSIAN, "q_values": floats(BIAS)})]}}
    yield Rule("6.8", "256, 256 and 1024, 1024 for CrossQ.").predicts("policy-defaults-crossq", made, asked, found)
    made = change("ppo", {"policy.pth": state_dict(on_policy(VECTOR, (64, 64))), **WITHOUT}, without=("policy_kwargs",))
    found = {"policy": {"steps": [choice(LOGITS)]}}
    yield Rule("6.8", LAYERS).predicts("policy-defaults-no-arguments", made, asked, found)
    yield from recurrent(asked)
    yield from images()
    yield from small_images()
    yield from lone(asked)


def lone(asked: Any) -> Iterator[Vector]:
    """State dicts alone, with several hidden layers or none."""
    rule = Rule("19.10", "What names and shapes do not determine MUST be supplied by the caller", *GIVEN)
    box = read_json("lone-td3", "input")["action_space"]
    deterministic = both("actor", "actor_target", mlp("actor.mu", VECTOR, (*(3, 2) * 3, NUMBERS)))
    cases: tuple[tuple[str, Shapes, Any, dict[str, Any]], ...] = (
        ("ppo", linear("action_net", 2, ACTIONS) | mlp("mlp_extractor.policy_net", VECTOR, (3, 2) * 3)
         | mlp("mlp_extractor.value_net", VECTOR, (5, 4, 3) * 2) | linear("value_net", 3, 1), discrete(ACTIONS), choice(LOGITS)),
        ("dqn", both("q_net", "q_net_target", mlp("q_net.q_net", VECTOR, (*(3, 2) * 3, ACTIONS))), None, choice(VALUES)),
        ("sac", mlp("actor.latent_pi", VECTOR, (3, 2) * 3) | gaussian("actor", 2) | critics(VECTOR + NUMBERS, (5, 4) * 3),
         box, numbers(SCALED, GAUSSIAN)),
        ("td3", deterministic | critics(VECTOR + NUMBERS, (5, 4) * 3), box, numbers(SCALED, CRITICS)),
    )  # fmt: skip
    for name, shapes, space, step in cases:
        given = {"policy_kwargs": {"activation_fn": "ReLU"}, **asked}
        given |= {} if space is None else {"action_space": space}
        yield rule.predicts(f"policy-lone-{name}-layers", state_dict(shapes), given, {"policy": {"steps": [step]}})
    given = {**asked, "action_space": discrete(ACTIONS)}
    found = {"policy": {"steps": [choice(LOGITS)]}}
    observed = {**given, "observation_space": read_json("lone-td3", "input")["observation_space"]}
    yield rule.predicts("policy-lone-no-layers", state_dict(on_policy(VECTOR, ())), observed, found)
    yield rule.cannot_run(
        "policy-lone-of-other-names", state_dict(linear("net.0", VECTOR, ACTIONS)), given, "unsupported"
    )


def recurrent(asked: Any) -> Iterator[Vector]:
    shapes = {**on_policy(256, (64, 64)), **lstm("lstm_actor", VECTOR, 256), **lstm("lstm_critic", VECTOR, 256)}
    gate = 1 / (1 + math.exp(-2 * BIAS))
    cell = gate * math.tanh(2 * BIAS)
    state = [floats(*[item] * 256, shape=(1, 1, 256)) for item in (gate * math.tanh(cell), cell)]
    rule = Rule("6.8", "An LSTM has `weight_ih_lN` (4 x hidden, inputs)", *LSTM)
    found = {"policy": {"steps": [{**choice(LOGITS), "state": state}]}}
    yield rule.predicts("policy-defaults-lstm", archive("lstm", shapes), asked, found)
    rule = Rule("19.6", "Three other arguments are refused", *LSTM)
    backward = {f"{name}_reverse": shape for name, shape in lstm("lstm_actor", VECTOR, 2).items()}
    projection = {"lstm_actor.weight_hh_l0": (8, 1), "lstm_actor.weight_hr_l0": (1, 2)}
    for name, value, more in (
        ("bidirectional", True, backward), ("proj_size", 1, projection), ("batch_first", True, {}),
    ):  # fmt: skip
        shapes = {**on_policy(2, ()), **lstm("lstm_actor", VECTOR, 2), **more}
        shapes |= {key.replace("actor", "critic"): shape for key, shape in shapes.items() if key.startswith("lstm")}
        kwargs = {"net_arch": [], "lstm_hidden_size": 2, "lstm_kwargs": {name: value}}
        made = archive("lstm", shapes, policy_kwargs=kwargs)
        yield rule.cannot_run(f"policy-lstm-{name.replace('_', '-')}", made, asked, "unsupported")


def images() -> Iterator[Vector]:
    image = {"dtype": "|u1", "shape": [1, *IMAGE], "items": [0] * math.prod(IMAGE)}
    asked = {"steps": [{"observation": image}]}
    shapes = extractor(cnn("features_extractor", 512)) | on_policy(512, ())
    found = {"policy": {"steps": [choice(LOGITS)]}}
    yield Rule("6.8", FEATURES, *CNN).predicts("policy-defaults-cnn", archive("cnn", shapes), asked, found)
    space = {"observation_space": json.loads(entry("cnn", "data"))["observation_space"]}
    shapes = both("q_net", "q_net_target", cnn("q_net.features_extractor", 512) | mlp("q_net.q_net", 512, (ACTIONS,)))
    made = archive("dqn", shapes, policy_class=policy("stable_baselines3.dqn", "CnnPolicy"), **space)
    found = {"policy": {"steps": [choice(VALUES)]}}
    yield Rule("6.8", WITH_CNN, *CNN).predicts("policy-defaults-cnn-dqn", made, asked, found)
    actor = cnn("actor.features_extractor", 512) | mlp("actor.mu", 512, (256, 256, NUMBERS))
    critic = both("critic", "critic_target", cnn("critic.features_extractor", 512))
    shapes = both("actor", "actor_target", actor) | critic | critics(512 + NUMBERS, (256, 256))
    made = archive("td3", shapes, policy_class=policy("stable_baselines3.td3", "CnnPolicy"), **space)
    found = {"policy": {"steps": [numbers(SCALED, CRITICS)]}}
    yield Rule("6.8", WITH_CNN, *CNN).predicts("policy-defaults-cnn-td3", made, asked, found)
    actor = cnn("actor.features_extractor", 512) | mlp("actor.latent_pi", 512, (256, 256)) | gaussian("actor", 256)
    made = archive("sac", actor | critic | critics(512 + NUMBERS, (256, 256)), **space,
                   policy_class=policy("stable_baselines3.sac", "CnnPolicy"))  # fmt: skip
    found = {"policy": {"steps": [numbers(SCALED, GAUSSIAN)]}}
    yield Rule("6.8", WITH_CNN, *CNN).predicts("policy-defaults-cnn-sac", made, asked, found)
    asked = {"steps": [{"observation": {"camera": image, "speed": floats(1.0, -1.0)}}]}
    shapes = extractor(cnn("features_extractor.extractors.camera", 256)) | on_policy(258, (64, 64))
    found = {"policy": {"steps": [choice(LOGITS)]}}
    made = archive("cnn-multi-input", shapes)
    yield Rule("6.8", PARTS, *CNN).predicts("policy-defaults-cnn-multi-input", made, asked, found)


def small_images() -> Iterator[Vector]:
    """Images of which a convolution leaves no row or no column, with the weights that its formula yields then."""
    rule = Rule("6.8", "an image that is too small", *CNN)
    shapes = extractor(cnn("features_extractor", 512, 64 * -4 * -4)) | on_policy(512, ())
    asked = read_json("image-flattened", "input")
    made = archive("image-flattened", shapes, policy_class=policy("stable_baselines3.common", "ActorCriticCnnPolicy"))
    yield rule.cannot_run("policy-image-of-2-rows", made, asked, "invalid")
    space = json.loads(entry("cnn-channels-last", "data"))["observation_space"][":serialized:"]
    narrow = base64.b64decode(space).replace(b"K\x02K\x24K\x28\x87", b"K\x02K\x2dK\x20\x87")
    shapes = both(
        "q_net", "q_net_target", cnn("q_net.features_extractor", 512, 0, 2) | mlp("q_net.q_net", 512, (ACTIONS,))
    )
    made = archive("cnn-channels-last", shapes, observation_space=serialize(narrow))
    asked = {"steps": [{"observation": {"dtype": "|u1", "shape": [2, 45, 32], "items": [0] * 2880}}]}
    yield rule.cannot_run("policy-image-of-32-columns", made, asked, "invalid")


def policy(module: str, name: str) -> dict[str, str]:
    """A serialized class of policies."""
    return serialize(f"c{module}.policies\n{name}\n.".encode())
