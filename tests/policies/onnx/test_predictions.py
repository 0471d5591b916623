"""Agents in onnxruntime compute what ``Policy`` and the recorded libraries compute."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest

import sbformat
from sbformat.policies.onnx.export import OPSETS
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.policy_vectors import VECTORS, assert_predictions, load_vector
from tests.helpers.sb2_predictions import assert_same_recording, recorded_agents
from tests.policies.onnx.models import export

SB2: Final = recorded_agents(Path(__file__).parents[1] / "sb2" / "archives")
EVERY_OPSET: Final = (
    "policy-sac-gsde", "policy-cnn-multi-input", "policy-lstm-two-layers", "policy-maskable-multi-discrete",
    "policy-ppo-observes-multi-discrete", "policy-sb2-ppo2-lstm-normalized", "policy-sb2-dqn-normalized", "policy-tqc",
    "policy-qrdqn", "policy-ppo-normalized", "policy-activation-gelu",
)  # fmt: skip
"""Vectors that together have all operators whose form depends on the opset."""


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("path", [PPO, SAC, ARCHIVES / "ppo-cartpole-1.0.zip"], ids=lambda path: path.name)
def test_a_bundled_agent(tmp_path: Path, path: Path, count: int) -> None:
    policy = sbformat.load_policy(path)
    model = export(policy, tmp_path)
    observations = np.random.default_rng(0).normal(size=(count, *policy.graph.inputs[0].shape)).astype(np.float32)
    expected, found = policy.outputs(observations), model.outputs(observations)
    assert list(found) == list(policy.graph.outputs)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-5)


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector(tmp_path: Path, name: str) -> None:
    assert_predictions(name, export(load_vector(name), tmp_path))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", EVERY_OPSET)
def test_every_opset(tmp_path: Path, name: str, opset: int) -> None:
    model = export(load_vector(name), tmp_path, opset=opset)
    assert_predictions(name, model)


@pytest.mark.parametrize("agent", SB2, ids=lambda path: path.name)
def test_an_agent_of_stable_baselines_2(tmp_path: Path, agent: Path) -> None:
    assert_same_recording(export(sbformat.load_policy(agent), tmp_path), agent)
