"""Agents in onnxruntime for node and for browsers compute what ``Policy`` and the recorded libraries compute."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

import sbformat
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.node_policy import NODE_MODULES, PACKAGES, Node, NodePolicy
from tests.helpers.policy_vectors import VECTORS, assert_predictions, load_vector
from tests.helpers.sb2_predictions import assert_same_recording, recorded_agents

if TYPE_CHECKING:
    from collections.abc import Iterator

if not NODE_MODULES or shutil.which("node") is None:
    pytest.skip("SBFORMAT_NODE_MODULES names no packages for node", allow_module_level=True)

BUNDLED: Final = (PPO, SAC, ARCHIVES / "ppo-cartpole-1.0.zip")
SB2: Final = recorded_agents(Path(__file__).parents[2] / "nets" / "archives" / "sb2")
TOLERANCE: Final = 1e-5


@pytest.fixture(scope="module", params=PACKAGES)
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    process = Node(request.param)
    yield process
    process.close()


def export(policy: sbformat.Policy, folder: Path, node: Node) -> NodePolicy:
    """Export all outputs of a policy, and return what node computes with the model."""
    path = folder / "policy.onnx"
    return NodePolicy(policy, node, path, sbformat.export_onnx(policy, path, outputs=list(policy.graph.outputs)))


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_a_bundled_agent(tmp_path: Path, node: Node, path: Path, count: int) -> None:
    policy = sbformat.load_policy(path)
    model = export(policy, tmp_path, node)
    observations = np.random.default_rng(0).normal(size=(count, *policy.graph.inputs[0].shape)).astype(np.float32)
    found = model.outputs(observations)
    for name, array in policy.outputs(observations).items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_allclose(found[name], array, TOLERANCE, TOLERANCE)


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector(tmp_path: Path, node: Node, name: str) -> None:
    assert_predictions(name, export(load_vector(name), tmp_path, node))


@pytest.mark.parametrize("agent", SB2, ids=lambda path: path.name)
def test_an_agent_of_stable_baselines_2(tmp_path: Path, node: Node, agent: Path) -> None:
    assert_same_recording(export(sbformat.load_policy(agent), tmp_path, node), agent)
