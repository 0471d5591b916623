"""Agents in onnxruntime compute what ``Policy`` and the recorded libraries compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.nets.sb3 import POLICIES
from sbformat.policies.onnx import OPSETS
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.policy_vectors import assert_predictions, load_vector
from tests.helpers.recursion import allow_calls_within_one_another
from tests.helpers.sampling import mark_others
from tests.helpers.sb2_predictions import assert_same_recording, recorded_agents
from tests.nets.agents import make_agent
from tests.policies.onnx.models import export
from tests.policies.run.models import box, dict_space, discrete, images
from tests.policies.sampled import MARKED_VECTORS, mark_sb2_agents

SB2: Final = recorded_agents(Path(__file__).parents[2] / "nets" / "archives" / "sb2")
EVERY_OPSET: Final = (
    "policy-sac-gsde", "policy-cnn-multi-input", "policy-lstm-two-layers", "policy-maskable-multi-discrete",
    "policy-ppo-observes-multi-discrete", "policy-sb2-ppo2-lstm-normalized", "policy-sb2-dqn-normalized", "policy-tqc",
    "policy-qrdqn", "policy-ppo-normalized", "policy-activation-gelu",
)  # fmt: skip
"""Vectors that together have all operators whose form depends on the opset."""
MIDDLE: Final = sorted(OPSETS)[1:-1]
RANDOM: Final = np.random.default_rng(0)
IMAGES: Final = RANDOM.integers(0, 256, (3, 1, 36, 36), np.uint8)
STATES: Final = RANDOM.normal(size=(3, 3)).astype(np.float32)
OBSERVATIONS: Final[dict[str, tuple[Any, Any]]] = {
    "FlattenExtractor": (box(3), STATES),
    "NatureCNN": (images(1, 36, 36), IMAGES),
    "CombinedExtractor": (dict_space(b=box(3), a=images(1, 36, 36)), {"a": IMAGES, "b": STATES}),
}
"""A space and observations, by the extractor."""
SMALL: Final[dict[str, Any]] = {"net_arch": [8, 7], "lstm_hidden_size": 6}
"""Sizes of layers, of policies that have them."""


@pytest.mark.parametrize(
    ("path", "count"),
    [(PPO, 1), (PPO, 7), (SAC, 0), (SAC, 1), (SAC, 7), (ARCHIVES / "ppo-cartpole-1.0.zip", 7)],
    ids=lambda case: getattr(case, "name", case),
)
def test_a_bundled_agent(tmp_path: Path, path: Path, count: int) -> None:
    policy = sbformat.load_policy(path)
    model = export(policy, tmp_path)
    observations = np.random.default_rng(0).normal(size=(count, *policy.graph.inputs[0].shape)).astype(np.float32)
    expected, found = policy.outputs(observations), model.outputs(observations)
    assert list(found) == list(policy.graph.outputs)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-5)


def assert_same_outputs(policy: sbformat.Policy, folder: Path, observations: Any) -> None:
    expected, found = policy.outputs(observations), export(policy, folder).outputs(observations)
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-5, err_msg=name)


@pytest.mark.parametrize("pair", POLICIES, ids=".".join)
def test_every_policy(tmp_path: Path, pair: tuple[str, str]) -> None:
    is_box = any(f".{name}." in pair[0] for name in ("sac", "tqc", "td3", "crossq"))
    space, observations = OBSERVATIONS[POLICIES[pair].extractor[1]]
    actions = box(2, 2) if is_box else discrete(3)
    small = {key: value for key, value in SMALL.items() if key in POLICIES[pair].arguments}
    policy = sbformat.load_policy(make_agent(f"{pair[0].split('.')[-2]}.{pair[1]}", space, actions, **small))
    assert_same_outputs(policy, tmp_path, observations)


@pytest.mark.parametrize(
    ("policy", "dtype", "low", "high"),
    mark_others(
        (
            (policy, dtype, low, high)
            for policy in ("ActorCriticPolicy", "sac.SACPolicy", "td3.TD3Policy")
            for dtype in ("float32", "float64")
            for low, high in (
                (-np.inf, np.inf), (-np.inf, 1), (2, -1), (0, 0), (-0.1, 0.1), (-1e-300, 1e-300), (-1e38, 3e38),
                (0, 255),
            )
        ),
        3,
        group=lambda case: case[2:],
    ),
)  # fmt: skip
def test_bounds_of_actions(tmp_path: Path, policy: str, dtype: str, low: float, high: float) -> None:
    agent = make_agent(policy, box(3), box(2, low=low, high=high, dtype=dtype))
    observations = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    assert_same_outputs(sbformat.load_policy(agent), tmp_path, observations)


@pytest.mark.parametrize(("layers", "levels"), [(150, 250), pytest.param(1500, 1000, marks=pytest.mark.exhaustive)])
def test_hundreds_of_layers(tmp_path: Path, layers: int, levels: int) -> None:
    """More nodes than functions can call one another."""
    agent = make_agent("ars.ARSPolicy", box(2), box(2), net_arch=[2] * layers)
    with allow_calls_within_one_another(levels):
        policy = sbformat.load_policy(agent)
        assert len(policy.graph.nodes) > levels
        assert_same_outputs(policy, tmp_path, np.ones((2, 2), np.float32))


@pytest.mark.parametrize("name", MARKED_VECTORS)
def test_a_vector(tmp_path: Path, name: str) -> None:
    assert_predictions(name, export(load_vector(name), tmp_path))


@pytest.mark.parametrize(
    ("name", "opset"),
    [
        *mark_others(((name, opset) for name in EVERY_OPSET for opset in MIDDLE), 3, group=lambda case: case[0]),
        *((name, opset) for name in EVERY_OPSET for opset in (min(OPSETS), max(OPSETS))),
    ],
)
def test_every_opset(tmp_path: Path, name: str, opset: int) -> None:
    model = export(load_vector(name), tmp_path, opset=opset)
    assert_predictions(name, model)


@pytest.mark.parametrize("agent", mark_sb2_agents(SB2), ids=lambda path: path.name)
def test_an_agent_of_stable_baselines_2(tmp_path: Path, agent: Path) -> None:
    assert_same_recording(export(sbformat.load_policy(agent), tmp_path), agent)
