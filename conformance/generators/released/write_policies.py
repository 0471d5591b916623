"""Write small agents with the Stable-Baselines3 that is installed, observations, and what it predicts for them.

    PYTHONPATH=REPOSITORY python write_policies.py OUT_FOLDER [NAME...]

Writes for each agent ``policy-NAME.zip``, ``policy-NAME.input.json`` and ``policy-NAME.expect.json`` (conformance/README.md,
"Policies"). Python 3.11.7, torch 2.13.0, stable-baselines3 2.9.2, sb3-contrib 2.9.2, gymnasium 1.4.0, numpy 2.4.6 wrote what
is here. Weights are random multiples of 1/64, so that no action depends on the last bit. An archive has no descriptions of
classes, and its members are deflated. What is predicted is what SB3 predicts for that file, after it has loaded it. Three kinds of agents are made differently:

- ``released-*``: the archives of older releases that ``write.py`` wrote, of which only the input and the prediction are written.
  SB3 2.9 loads what sbformat rebuilds from them.
- ``shared-layers``: an agent of two equal first layers, renamed to the shared layer that SB3 had before 1.8.
- ``old-*``: agents whose tensors have the names of an older release, or that compute the same under other settings there.
- ``lone-*``: the ``policy.pth`` of another agent, and its spaces beside the observations.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import os
import pickle
import sys
import warnings
import zipfile
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
import sb3_contrib as contrib
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stable_baselines3.common.base_class import BaseAlgorithm

BATCH = 4
DATE = (1980, 1, 1, 0, 0, 0)
LEFT_OUT = [
    "rollout_buffer_class", "rollout_buffer_kwargs", "replay_buffer_class", "replay_buffer_kwargs", "lr_schedule",
    "learning_rate", "clip_range", "clip_range_vf", "ep_info_buffer", "ep_success_buffer", "_last_obs", "train_freq",
    "exploration_schedule", "action_noise", "_last_episode_starts", "start_time",
]  # fmt: skip
ON_POLICY = {"n_steps": 8}
PPO = {**ON_POLICY, "batch_size": 8}
OFF_POLICY = {"buffer_size": 16, "learning_starts": 4, "batch_size": 4}
EIGHT = {"net_arch": [8]}

VECTOR = spaces.Box(-np.inf, np.inf, (4,), np.float32)
PAIR = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 5], np.float32))
"""Bounds that are not symmetric."""
THREE = spaces.Discrete(3)
IMAGE = spaces.Box(0, 255, (1, 36, 36), np.uint8)
WIDE = spaces.Box(np.array([-1.1, 0.1], np.float32), np.array([1e6, 5000], np.float32))
PARTS = spaces.Dict({
    "speed": spaces.Box(-1, 1, (2,), np.float32), "gear": spaces.Discrete(3), "lights": spaces.MultiBinary(2),
    "axes": spaces.MultiDiscrete([2, 3]), "grid": spaces.Box(-1, 1, (2, 2), np.float32),
})  # fmt: skip
UNSORTED = spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Box(-1, 1, (3,), np.float32))])
WITH_IMAGE = spaces.Dict({"camera": IMAGE, "speed": spaces.Box(-1, 1, (2,), np.float32)})


class Case(NamedTuple):
    """An agent."""

    algorithm: type[BaseAlgorithm]
    policy: str
    observation_space: spaces.Space
    action_space: spaces.Space
    network: Mapping[str, Any] = EIGHT
    options: Mapping[str, Any] = {}
    statistics: Mapping[str, Any] | None = None
    """Arguments of VecNormalize."""
    reshape: Callable[[Any], Any] | None = None
    """Changes observations before they are predicted."""
    scale: float = 1.0
    """Of the weights."""
    is_tied: bool = False
    """Whether the first two logits are the greatest, and the second is greater by one unit in the last place; of three
    bits, whether the first is a half."""


def ppo(
    space: spaces.Space = VECTOR, actions: spaces.Space = THREE, network: Mapping[str, Any] = EIGHT, **others: Any
) -> Case:
    policy = "MultiInputPolicy" if isinstance(space, spaces.Dict) else "MlpPolicy"
    return Case(sb3.PPO, policy, space, actions, network, PPO, **others)


def off_policy(
    algorithm: type[BaseAlgorithm], actions: spaces.Space = PAIR, network: Mapping[str, Any] = EIGHT, **others: Any
) -> Case:
    return Case(algorithm, "MlpPolicy", VECTOR, actions, network, OFF_POLICY, **others)


def recurrent(**network: Any) -> Case:
    return Case(contrib.RecurrentPPO, "MlpLstmPolicy", VECTOR, THREE, {**EIGHT, "lstm_hidden_size": 5, **network}, PPO)


def masked(actions: spaces.Space, **others: Any) -> Case:
    return Case(contrib.MaskablePPO, "MlpPolicy", VECTOR, actions, EIGHT, PPO, **others)


def ars(policy: str, actions: spaces.Space, **network: Any) -> Case:
    return Case(contrib.ARS, policy, VECTOR, actions, network, {"n_delta": 1})


def activation(function: Any, **others: Any) -> Case:
    return ppo(actions=PAIR, network={**EIGHT, "activation_fn": function}, **others)


ACTIVATIONS = {
    "relu": nn.ReLU, "elu": nn.ELU, "celu": nn.CELU, "selu": nn.SELU, "leaky-relu": nn.LeakyReLU, "gelu": nn.GELU,
    "silu": nn.SiLU, "mish": nn.Mish, "softplus": nn.Softplus, "softsign": nn.Softsign, "hardtanh": nn.Hardtanh,
    "hardswish": nn.Hardswish, "hardsigmoid": nn.Hardsigmoid, "relu6": nn.ReLU6, "sigmoid": nn.Sigmoid,
    "log-sigmoid": nn.LogSigmoid, "tanhshrink": nn.Tanhshrink, "hardshrink": nn.Hardshrink,
    "softshrink": nn.Softshrink, "prelu": nn.PReLU, "rrelu": nn.RReLU, "identity": nn.Identity,
    "leaky-relu-partial": functools.partial(nn.LeakyReLU, negative_slope=0.25),
    "gelu-tanh": functools.partial(nn.GELU, approximate="tanh"), "dropout": nn.Dropout,
    "alpha-dropout": nn.AlphaDropout, "feature-alpha-dropout": nn.FeatureAlphaDropout, "flatten": nn.Flatten,
    "softmax": nn.Softmax, "log-softmax": nn.LogSoftmax, "softmin": nn.Softmin,
    **{f"{name}-of": functools.partial(function, *arguments) for name, function, *arguments in (
        ("elu", nn.ELU, 0.5), ("celu", nn.CELU, 0.5), ("leaky-relu", nn.LeakyReLU, 0.25), ("rrelu", nn.RReLU, 0.25, 0.5),
        ("softplus", nn.Softplus, 2.0, 1.0), ("hardtanh", nn.Hardtanh, -0.5, 2.0), ("hardshrink", nn.Hardshrink, 1.0),
        ("softshrink", nn.Softshrink, 0.25), ("gelu", nn.GELU, "tanh"), ("softmax", nn.Softmax, 1),
        ("log-softmax", nn.LogSoftmax, -1), ("softmin", nn.Softmin, None), ("prelu", nn.PReLU, 8),
    )},
}  # fmt: skip
CASES: dict[str, Case] = {
    "ppo": ppo(),
    "ppo-box": ppo(actions=PAIR),
    "ppo-box-shape": ppo(actions=spaces.Box(-1, 1, (2, 2), np.float32)),
    "ppo-box-float64": ppo(actions=spaces.Box(-1, 1, (2,), np.float64)),
    **{f"ppo-box-{dtype}": ppo(actions=spaces.Box(1, 5, (2,), np.dtype(dtype))) for dtype in (
        "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
    )},
    "ppo-multi-discrete": ppo(actions=spaces.MultiDiscrete([3, 2, 4])),
    "ppo-multi-binary": ppo(actions=spaces.MultiBinary(3)),
    "ppo-multi-binary-tied": ppo(actions=spaces.MultiBinary(3), is_tied=True),
    "ppo-discrete-start": ppo(actions=spaces.Discrete(3, start=5)),
    "ppo-tied": ppo(actions=spaces.MultiDiscrete([3, 2]), is_tied=True),
    "ppo-two-branches": ppo(network={"net_arch": {"pi": [8, 6], "vf": [5]}}),
    "ppo-no-layers": ppo(network={"net_arch": []}),
    "ppo-separate-extractors": ppo(network={**EIGHT, "share_features_extractor": False}),
    "ppo-observes-discrete": ppo(spaces.Discrete(5)),
    "ppo-observes-multi-discrete": ppo(spaces.MultiDiscrete([3, 4])),
    "ppo-observes-multi-binary": ppo(spaces.MultiBinary(4)),
    "ppo-observes-multi-binary-2d": ppo(spaces.MultiBinary([2, 3])),
    "ppo-observes-float64": ppo(spaces.Box(-1, 1, (2, 3), np.float64)),
    "ppo-observes-bytes": ppo(spaces.Box(0, 255, (4,), np.uint8), scale=1 / 64),
    "ppo-observes-dict": ppo(PARTS),
    "ppo-observes-unsorted-dict": ppo(UNSORTED),
    "ppo-gsde": ppo(actions=PAIR)._replace(options={**PPO, "use_sde": True}),
    "ppo-gsde-squashed": ppo(actions=PAIR, network={**EIGHT, "squash_output": True})._replace(options={**PPO, "use_sde": True}),
    "a2c": Case(sb3.A2C, "MlpPolicy", VECTOR, PAIR, EIGHT, ON_POLICY),
    "trpo": Case(contrib.TRPO, "MlpPolicy", VECTOR, PAIR, EIGHT, PPO),
    "dqn": off_policy(sb3.DQN, THREE),
    "dqn-discrete-start": off_policy(sb3.DQN, spaces.Discrete(3, start=-1)),
    "qrdqn": off_policy(contrib.QRDQN, THREE, {**EIGHT, "n_quantiles": 5}),
    "sac": off_policy(sb3.SAC),
    "sac-gsde": off_policy(sb3.SAC, network={**EIGHT, "clip_mean": 0.5})._replace(options={**OFF_POLICY, "use_sde": True}),
    "sac-wide": off_policy(sb3.SAC, WIDE, scale=4),
    "td3": off_policy(sb3.TD3),
    "ddpg": off_policy(sb3.DDPG),
    "tqc": off_policy(contrib.TQC, network={**EIGHT, "n_critics": 1, "n_quantiles": 3}),
    "crossq": off_policy(contrib.CrossQ),
    "ars": ars("MlpPolicy", PAIR, net_arch=[8]),
    "ars-clipped": ars("MlpPolicy", PAIR, net_arch=[8], squash_output=False),
    "ars-linear": ars("LinearPolicy", PAIR),
    "ars-linear-discrete": ars("LinearPolicy", THREE, with_bias=True),
    "maskable": masked(THREE),
    "maskable-tied": masked(THREE, is_tied=True),
    "maskable-multi-discrete": masked(spaces.MultiDiscrete([3, 2])),
    "maskable-multi-binary": masked(spaces.MultiBinary(2)),
    "lstm": recurrent(),
    "lstm-two-layers": recurrent(n_lstm_layers=2),
    "lstm-shared": recurrent(shared_lstm=True, enable_critic_lstm=False),
    "lstm-actor-only": recurrent(enable_critic_lstm=False),
    "ppo-normalized": ppo(statistics={}),
    "sac-normalized": off_policy(sb3.SAC, statistics={"clip_obs": 1.5, "epsilon": 0.01}),
    "ppo-normalized-keys": ppo(PARTS, statistics={"norm_obs_keys": ["speed", "grid"]}),
    "cnn": Case(sb3.PPO, "CnnPolicy", IMAGE, THREE, {"features_extractor_kwargs": {"features_dim": 8}}, PPO, scale=0.5),
    "cnn-channels-last": Case(
        sb3.DQN, "CnnPolicy", spaces.Box(0, 255, (2, 36, 40), np.uint8), THREE, {"features_extractor_kwargs": {"features_dim": 8}},
        OFF_POLICY, scale=0.5, reshape=lambda images: np.moveaxis(images, -3, -1),
    ),
    "cnn-multi-input": Case(
        sb3.PPO, "MultiInputPolicy", WITH_IMAGE, THREE, {**EIGHT, "features_extractor_kwargs": {"cnn_output_dim": 6}}, PPO,
        scale=0.5,
    ),
    "cnn-not-divided": Case(
        sb3.PPO, "CnnPolicy", spaces.Box(0, 1, (1, 36, 36), np.float32), THREE,
        {"normalize_images": False, "features_extractor_kwargs": {"features_dim": 8}}, PPO, scale=0.5,
    ),
    "ppo-observes-multi-binary-3d": ppo(spaces.MultiBinary([1, 2, 3])),
    **{f"no-image-{name}": ppo(space, scale=1 / 64) for name, space in (
        ("floats", spaces.Box(0, 255, (1, 2, 3), np.float32)), ("low", spaces.Box(1, 255, (1, 2, 3), np.uint8)),
        ("high", spaces.Box(0, 254, (1, 2, 3), np.uint8)), ("flat", spaces.Box(0, 255, (2, 3), np.uint8)),
    )},
    "image-flattened": ppo(spaces.Box(0, 255, (1, 2, 3), np.uint8)),
    "image-flattened-not-divided": ppo(
        spaces.Box(0, 255, (1, 2, 3), np.uint8), network={**EIGHT, "normalize_images": False}, scale=1 / 64
    ),
    **{f"activation-{name}": activation(function) for name, function in ACTIVATIONS.items()},
    "activation-gelu-large": activation(nn.GELU, scale=4),
    "ppo-large": ppo(actions=spaces.MultiDiscrete([3, 2]), scale=512),
    "ppo-gsde-full-std": ppo(actions=PAIR, network={**EIGHT, "full_std": False, "use_expln": True})._replace(
        options={**PPO, "use_sde": True}
    ),
    "sac-gsde-clipped": off_policy(sb3.SAC, scale=4)._replace(options={**OFF_POLICY, "use_sde": True}),
    "sac-gsde-unclipped": off_policy(sb3.SAC, network={**EIGHT, "clip_mean": 0.0}, scale=4)._replace(
        options={**OFF_POLICY, "use_sde": True}
    ),
    "sac-large": off_policy(sb3.SAC, scale=8),
    "crossq-not-normalized": off_policy(contrib.CrossQ, network={**EIGHT, "batch_norm": False}),
    "crossq-epsilon": off_policy(contrib.CrossQ, network={**EIGHT, "batch_norm_eps": 0.25}),
    "lstm-without-bias": recurrent(lstm_kwargs={"bias": False}),
    "sac-gsde-wide": off_policy(sb3.SAC, network={**EIGHT, "clip_mean": 1 << 53}, scale=4)._replace(
        options={**OFF_POLICY, "use_sde": True}
    ),
    "ars-biases": ars("MlpPolicy", PAIR, net_arch=[8], with_bias=False),
}  # fmt: skip


class Spaces(gym.Env):
    """An environment that has spaces, and nothing else."""

    def __init__(self, case: Case) -> None:
        self.observation_space = case.observation_space
        self.action_space = case.action_space

    def reset(self, **_: object) -> tuple[object, dict[str, object]]:
        return self.observation_space.sample(), {}

    def step(self, _: object) -> tuple[object, float, bool, bool, dict[str, object]]:
        return self.observation_space.sample(), 0.0, False, False, {}

    def action_masks(self) -> None:
        """MaskablePPO looks for it."""


# -- agents -------------------------------------------------------------------------------------------


def save_agent(case: Case, generator: np.random.Generator) -> tuple[bytes, VecNormalize | None]:
    """Return an archive with random weights, and statistics."""
    environment: Any = DummyVecEnv([lambda: Spaces(case)])
    if case.statistics is not None:
        environment = VecNormalize(environment, **case.statistics)
        randomize_statistics(environment, generator)
    options = {"policy_kwargs": dict(case.network), "seed": 0, "device": "cpu", **case.options}
    model = case.algorithm(case.policy, environment, **options)
    randomize_weights(model.policy.state_dict(), case, generator)
    made = io.BytesIO()
    model.save(made, exclude=LEFT_OUT)
    return shrink(made.getvalue()), environment if case.statistics is not None else None


def randomize_weights(tensors: Mapping[str, torch.Tensor], case: Case, generator: np.random.Generator) -> None:
    """Set each tensor to multiples of 1/64. Those of a CNN are mostly 0, so that they deflate."""
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32:
            continue
        items = np.round(generator.normal(0, 40 * case.scale, tuple(tensor.shape))) / 64
        if tensor.numel() > 1000:
            items *= generator.random(tuple(tensor.shape)) < 24 / np.prod(tensor.shape[1:])
        tensor.copy_(torch.as_tensor(np.abs(items) + 0.5 if name.endswith("ra_var") else items))
    if case.is_tied:
        tensors["action_net.weight"].zero_()
        tied = np.float32(0.1)
        tensors["action_net.bias"].fill_(-1)[:2] = torch.tensor([tied, np.nextafter(tied, np.float32(1))])
        if isinstance(case.action_space, spaces.MultiBinary):
            half = np.float32(1.5 * 2**-24)
            tensors["action_net.bias"][:] = torch.tensor([half, np.nextafter(half, np.float32(1)), -half])


def randomize_statistics(environment: VecNormalize, generator: np.random.Generator) -> None:
    found = environment.obs_rms
    for statistics in found.values() if isinstance(found, dict) else [found]:
        statistics.mean = np.round(generator.normal(0, 64, statistics.mean.shape)) / 64
        statistics.var = np.round(generator.uniform(8, 128, statistics.var.shape)) / 64


def shrink(archive: bytes) -> bytes:
    """Deflate the members, and leave out what SB3 adds to a pickle for people."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            raw = old.read(name)
            if name == "data":
                raw = json.dumps({key: strip(value) for key, value in json.loads(raw).items()}).encode()
            if name == "system_info.txt":
                continue
            new.writestr(zipfile.ZipInfo(name, DATE), raw, zipfile.ZIP_DEFLATED, 9)
    return made.getvalue()


def strip(value: Any) -> Any:
    if isinstance(value, dict) and ":serialized:" in value:
        return {key: value[key] for key in (":type:", ":serialized:")}
    return value


# -- observations -------------------------------------------------------------------------------------


def make_steps(case: Case, generator: np.random.Generator) -> list[dict[str, Any]]:
    """A batch of observations and a single one; for an LSTM several batches, with new episodes."""
    batch = stack([sample(case.observation_space, generator) for _ in range(BATCH)])
    steps: list[dict[str, Any]] = [{"observation": batch}]
    if case.algorithm is contrib.RecurrentPPO:
        steps[0]["episode_start"] = np.ones(BATCH, bool)
        for starts in ([0, 0, 0, 0], [0, 1, 0, 1]):
            batch = stack([sample(case.observation_space, generator) for _ in range(BATCH)])
            steps.append({"observation": batch, "episode_start": np.array(starts, bool)})
    elif case.algorithm is contrib.MaskablePPO:
        steps.append({"observation": batch, "action_masks": make_masks(case.action_space, generator)})
    else:
        steps.append({"observation": sample(case.observation_space, generator)})
    if case.reshape is not None:
        for step in steps:
            step["observation"] = case.reshape(step["observation"])
    return steps


def sample(space: spaces.Space, generator: np.random.Generator) -> Any:
    """An observation: of a Box multiples of 1/64."""
    if isinstance(space, spaces.Dict):
        return {key: sample(part, generator) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return np.array(generator.integers(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return generator.integers(space.nvec)
    if isinstance(space, spaces.MultiBinary):
        return generator.integers(0, 2, space.shape).astype(np.int8)
    if space.dtype == np.uint8:
        return generator.integers(0, 256, space.shape).astype(np.uint8)
    bound = min(2.0, float(space.high.flat[0]))
    return (np.round(generator.uniform(-bound, bound, space.shape) * 64) / 64).astype(space.dtype)


def stack(items: list[Any]) -> Any:
    if isinstance(items[0], dict):
        return {key: np.stack([item[key] for item in items]) for key in items[0]}
    return np.stack(items)


def make_masks(space: spaces.Space, generator: np.random.Generator) -> np.ndarray:
    """Masks of which each component allows one action."""
    sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else list(getattr(space, "nvec", [2] * space.shape[0]))
    rows = []
    for _ in range(BATCH):
        parts = [np.zeros(size, bool) for size in sizes]
        for part in parts:
            part[generator.integers(len(part))] = True
        rows.append(np.concatenate(parts))
    return np.stack(rows)


# -- agents that are made differently -----------------------------------------------------------------


SHARED_LAYERS = ppo(network={"net_arch": {"pi": [8, 4], "vf": [8, 5]}})
RENAMED = {"policy_net.0": "shared_net.0", "policy_net.2": "policy_net.0", "value_net.2": "value_net.0"}


def share_layers(archive: bytes) -> tuple[bytes, bytes]:
    """Make the first layers of both branches equal; return that agent, and the same one as SB3 1.6 had it."""
    entries = read_entries(archive)
    tensors = torch.load(io.BytesIO(entries["policy.pth"]))
    for part in ("weight", "bias"):
        tensors[f"mlp_extractor.value_net.0.{part}"] = tensors[f"mlp_extractor.policy_net.0.{part}"]
    new = write_entries({**entries, "policy.pth": save_tensors(tensors)})
    old = {}
    for name, tensor in tensors.items():
        _, _, part = name.partition("mlp_extractor.")
        layer, _, last = part.rpartition(".")
        if layer != "value_net.0":
            old[f"mlp_extractor.{RENAMED[layer]}.{last}" if layer in RENAMED else name] = tensor
    data = json.loads(entries["data"])
    data["policy_kwargs"] = {"net_arch": [8, {"pi": [4], "vf": [5]}]}
    changed = {
        "policy.pth": save_tensors(old),
        "data": json.dumps(data).encode(),
        "_stable_baselines3_version": b"1.6.2",
    }
    return new, write_entries({**entries, **changed})


def read_entries(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def write_entries(entries: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as opened:
        for name, raw in entries.items():
            opened.writestr(zipfile.ZipInfo(name, DATE), raw, zipfile.ZIP_DEFLATED, 9)
    return made.getvalue()


def save_tensors(tensors: Mapping[str, torch.Tensor]) -> bytes:
    made = io.BytesIO()
    torch.save(dict(tensors), made)
    return made.getvalue()


RELEASED: dict[str, type[BaseAlgorithm]] = {
    "ppo-0.6": sb3.PPO, "sac-0.8": sb3.SAC, "td3-0.10": sb3.TD3, "a2c-1.0": sb3.A2C, "ppo-1.3": sb3.PPO, "dqn-1.6": sb3.DQN,
    "sac-2.0": sb3.SAC, "ppo-2.6": sb3.PPO, "ars-2.9": contrib.ARS,
}  # fmt: skip


def write_released(name: str, folder: str) -> None:
    """Write what SB3 predicts with an archive of an older release."""
    import sbformat
    from conformance.generators.recorded import read_file

    old = read_file(f"released-{name}")
    new = sbformat.writes(sbformat.rebuild(old).archive)
    algorithm = RELEASED[name]
    loaded = algorithm.load(io.BytesIO(new), device="cpu", custom_objects=UNNEEDED)
    case = Case(algorithm, "", loaded.observation_space, loaded.action_space)
    generator = np.random.default_rng(list(name.encode()))
    steps = make_steps(case, generator)
    write_texts(f"released-{name}", {"steps": tag(steps)}, predict_steps(case, new, steps, None), folder)


def write_shared_layers(name: str, folder: str) -> None:
    """Write an agent with a shared layer."""
    generator = np.random.default_rng(list(name.encode()))
    new, old = share_layers(save_agent(SHARED_LAYERS, generator)[0])
    steps = make_steps(SHARED_LAYERS, generator)
    write_texts(name, {"steps": tag(steps)}, predict_steps(SHARED_LAYERS, new, steps, None), folder)
    write_file(f"{name}.zip", old, folder)


class Era(NamedTuple):
    """An agent as an older release had it."""

    case: Case
    renamed: Mapping[str, str]
    """Parts of the names of tensors, old by new."""
    release: str | None
    """None: of the releases that did not write it."""
    kwargs: Mapping[str, Any] = {}
    """Other arguments of the policy, with which that release computes the same."""


UNIT = spaces.Box(-1, 1, (2,), np.float32)
"""Bounds with which an action that is squashed is neither scaled nor clipped."""
ERAS = {
    "old-critics": Era(off_policy(sb3.SAC), {"qf0": "q1_net", "qf1": "q2_net"}, None),
    "old-ars": Era(ars("MlpPolicy", UNIT, net_arch=[8], squash_output=True), {}, "1.6.2", {"squash_output": False}),
    "old-ars-linear": Era(ars("LinearPolicy", PAIR), {"action_net.0": "action_net"}, "1.6.2"),
}


def write_era(name: str, folder: str) -> None:
    """Write an agent with the names of an older release."""
    era = ERAS[name]
    generator = np.random.default_rng(list(name.encode()))
    archive, _ = save_agent(era.case, generator)
    steps = make_steps(era.case, generator)
    write_texts(name, {"steps": tag(steps)}, predict_steps(era.case, archive, steps, None), folder)
    entries = read_entries(archive)
    tensors = {}
    for tensor_name, tensor in torch.load(io.BytesIO(entries["policy.pth"])).items():
        for new, old in era.renamed.items():
            tensor_name = tensor_name.replace(new, old)  # noqa: PLW2901 -- changed step by step
        tensors[tensor_name] = tensor
    data = json.loads(entries["data"])
    data["policy_kwargs"] = {**data["policy_kwargs"], **era.kwargs}
    release = {} if era.release is None else {"_stable_baselines3_version": era.release.encode()}
    kept = {key: raw for key, raw in entries.items() if key != "_stable_baselines3_version"}
    changed = {"policy.pth": save_tensors(tensors), "data": json.dumps(data).encode(), **release}
    write_file(f"{name}.zip", write_entries({**kept, **changed}), folder)


LONE = {"ppo-box": "Tanh", "dqn": "ReLU", "td3": "ReLU", "sac": "ReLU"}
"""Cases whose ``policy.pth`` is written, with their activation."""


def write_lone(name: str, folder: str) -> None:
    """Write the state dict of an agent alone."""
    from conformance.generators.build_bundles import box

    case = CASES[name]
    generator = np.random.default_rng(list(name.encode()))
    archive, _ = save_agent(case, generator)
    steps = make_steps(case, generator)
    actions = case.action_space
    given = (
        {"type": "Discrete", "library": "gymnasium", "n": int(actions.n), "start": 0, "dtype": "<i8"}
        if isinstance(actions, spaces.Discrete)
        else box(actions.low.tolist(), actions.high.tolist())
    )
    free = {f"bounded_{side}": {"dtype": "|b1", "shape": [4], "items": False} for side in ("below", "above")}
    observations = box([-np.inf] * 4, [np.inf] * 4, **free)
    kwargs = {"activation_fn": LONE[name]}
    asked = {"observation_space": observations, "action_space": given, "policy_kwargs": kwargs, "steps": tag(steps)}
    write_texts(f"lone-{name}", asked, predict_steps(case, archive, steps, None), folder)
    write_file(f"lone-{name}.pth", read_entries(archive)["policy.pth"], folder)


# -- predictions --------------------------------------------------------------------------------------


def predict_steps(
    case: Case, archive: bytes, steps: list[dict[str, Any]], statistics: VecNormalize | None
) -> list[dict[str, Any]]:
    """What SB3 predicts with the archive that it loads."""
    model = case.algorithm.load(io.BytesIO(archive), device="cpu", custom_objects=UNNEEDED)
    state, made = None, []
    for step in steps:
        observation = step["observation"]
        if statistics is not None:
            observation = statistics.normalize_obs(observation)
        options = {key: step[key] for key in ("episode_start", "action_masks") if key in step}
        found = {"outputs": find_outputs(model, observation, state, options)} if is_batch(case, observation) else {}
        action, state = (
            model.predict(observation, state=state, deterministic=True, **options)
            if "action_masks" not in options
            else (model.predict(observation, deterministic=True, **options))
        )
        made.append({"action": action, **({"state": list(state)} if state is not None else {}), **found})
    return made


def is_batch(case: Case, observation: Any) -> bool:
    if isinstance(observation, dict):
        key, space = next(iter(case.observation_space.spaces.items()))
        return np.ndim(observation[key]) > len(space.shape)
    return np.ndim(observation) > len(case.observation_space.shape)


def find_outputs(
    model: BaseAlgorithm, observation: Any, state: Any, options: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The outputs of 19.7."""
    policy = model.policy
    policy.set_training_mode(False)
    tensors, _ = policy.obs_to_tensor(observation)
    with torch.no_grad():
        found = OUTPUTS[type(model).__name__](policy, tensors, state, options)
    return {name: tensor.detach().numpy() for name, tensor in found.items()}


def on_policy_outputs(policy: Any, observation: Any, _: Any, options: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    distribution = policy.get_distribution(observation)
    if "action_masks" in options:
        distribution.apply_masking(options["action_masks"])
    features = policy.vf_features_extractor(preprocess(policy, observation))
    value = policy.value_net(policy.mlp_extractor.forward_critic(features))
    latent = policy.mlp_extractor.forward_actor(policy.pi_features_extractor(preprocess(policy, observation)))
    spread = {"log_std": distribution.distribution.stddev.log()} if getattr(policy, "use_sde", False) else {}
    return {**action_outputs(policy, latent, options), **spread, "value": value}


def preprocess(policy: Any, observation: Any) -> Any:
    from stable_baselines3.common.preprocessing import preprocess_obs

    return preprocess_obs(observation, policy.observation_space, normalize_images=policy.normalize_images)


def action_outputs(policy: Any, latent: torch.Tensor, options: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    scores = policy.action_net(latent)
    if isinstance(policy.action_space, spaces.Box):
        log_std = policy.log_std
        return {
            "mean": scores,
            **({} if getattr(policy, "use_sde", False) else {"log_std": log_std.expand(scores.shape)}),
        }
    if "action_masks" in options:
        scores = torch.where(torch.as_tensor(options["action_masks"]), scores, torch.tensor(-1e8))
    return {"logits": scores}


def recurrent_outputs(policy: Any, observation: Any, state: Any, options: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    if state is None:
        zeros = np.zeros((policy.lstm_actor.num_layers, BATCH, policy.lstm_actor.hidden_size), np.float32)
        state = zeros, zeros
    states = tuple(map(torch.as_tensor, state))
    starts = torch.as_tensor(options["episode_start"], dtype=torch.float32)
    features = preprocess(policy, observation).flatten(1)
    latent, _ = policy._process_sequence(features, states, starts, policy.lstm_actor)
    return action_outputs(policy, policy.mlp_extractor.forward_actor(latent), {})


def sac_outputs(policy: Any, observation: Any, _: Any, __: Any) -> dict[str, torch.Tensor]:
    mean, log_std, kwargs = policy.actor.get_action_dist_params(observation)
    if kwargs:
        log_std = policy.actor.action_dist.proba_distribution(mean, log_std, **kwargs).distribution.stddev.log()
    return {"mean": mean, "log_std": log_std, **critic_outputs(policy, observation)}


def critic_outputs(policy: Any, observation: Any) -> dict[str, torch.Tensor]:
    """What the critics return for the deterministic action."""
    values = policy.critic(observation, policy.actor(observation, deterministic=True))
    return {"q_values": torch.cat(values, dim=1)}


def tqc_outputs(policy: Any, observation: Any, _: Any, __: Any) -> dict[str, torch.Tensor]:
    mean, log_std, _ = policy.actor.get_action_dist_params(observation)
    quantiles = policy.critic(observation, policy.actor(observation, deterministic=True))
    return {"mean": mean, "log_std": log_std, "quantiles": quantiles, "q_values": quantiles.mean(dim=2)}


def td3_outputs(policy: Any, observation: Any, _: Any, __: Any) -> dict[str, torch.Tensor]:
    return {"q_values": torch.cat(policy.critic(observation, policy.actor(observation)), dim=1)}


def dqn_outputs(policy: Any, observation: Any, _: Any, __: Any) -> dict[str, torch.Tensor]:
    return {"q_values": policy.q_net(observation)}


def qrdqn_outputs(policy: Any, observation: Any, _: Any, __: Any) -> dict[str, torch.Tensor]:
    quantiles = policy.quantile_net(observation)
    return {"quantiles": quantiles, "q_values": quantiles.mean(dim=1)}


def no_outputs(*_: Any) -> dict[str, torch.Tensor]:
    return {}


OUTPUTS: dict[str, Callable[..., dict[str, torch.Tensor]]] = {
    "PPO": on_policy_outputs, "A2C": on_policy_outputs, "TRPO": on_policy_outputs, "MaskablePPO": on_policy_outputs,
    "RecurrentPPO": recurrent_outputs, "SAC": sac_outputs, "TQC": tqc_outputs, "CrossQ": sac_outputs, "TD3": td3_outputs,
    "DDPG": td3_outputs, "DQN": dqn_outputs, "QRDQN": qrdqn_outputs, "ARS": no_outputs,
}  # fmt: skip


UNNEEDED = {
    "learning_rate": 0.0, "lr_schedule": lambda _: 0.0, "clip_range": lambda _: 0.2, "exploration_schedule": lambda _: 0.0,
}  # fmt: skip
"""What is left out of the archives, and needed to train alone."""


# -- files --------------------------------------------------------------------------------------------


def tag(value: Any) -> Any:
    """Arrays as in STATISTICS.md 17.6."""
    if isinstance(value, dict):
        return {key: tag(part) for key, part in value.items()}
    if isinstance(value, list):
        return [tag(part) for part in value]
    array = np.asarray(value)
    return {"dtype": array.dtype.newbyteorder("<").str, "shape": list(array.shape), "items": array.ravel().tolist()}


def write_case(name: str, case: Case, folder: str) -> None:
    generator = np.random.default_rng(list(name.encode()))
    torch.manual_seed(0)
    archive, statistics = save_agent(case, generator)
    steps = make_steps(case, generator)
    found = predict_steps(case, archive, steps, statistics)
    asked: dict[str, Any] = {"steps": tag(steps)}
    if statistics is not None:
        statistics.venv = None
        asked["vecnormalize"] = base64.b64encode(pickle.dumps(statistics)).decode()
    write_texts(name, asked, found, folder)
    write_file(f"{name}.zip", archive, folder)


def write_texts(name: str, asked: Mapping[str, Any], found: list[dict[str, Any]], folder: str) -> None:
    """Write the two JSON files of an agent."""
    for suffix, text in (("input", asked), ("expect", {"policy": {"steps": tag(found)}})):
        write_file(f"{name}.{suffix}.json", (json.dumps(text) + "\n").encode(), folder)


def write_file(name: str, data: bytes, folder: str) -> None:
    with open(os.path.join(folder, f"policy-{name}"), "wb") as file:
        file.write(data)


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder, *wanted = sys.argv[1:]
    made: dict[str, Callable[[], None]] = {
        name: functools.partial(write_case, name, case, folder) for name, case in CASES.items()
    }
    made |= {f"released-{name}": functools.partial(write_released, name, folder) for name in RELEASED}
    made["shared-layers"] = functools.partial(write_shared_layers, "shared-layers", folder)
    made |= {name: functools.partial(write_era, name, folder) for name in ERAS}
    made |= {f"lone-{name}": functools.partial(write_lone, name, folder) for name in LONE}
    for name in wanted or made:
        made[name]()
        print(name)


if __name__ == "__main__":
    main()
