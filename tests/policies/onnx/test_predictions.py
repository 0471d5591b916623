"""Agents in onnxruntime compute what ``Policy`` and the recorded libraries compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sbformat
from tests.helpers.bundled import PPO, SAC
from tests.policies.onnx.models import export


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("path", [PPO, SAC], ids=lambda path: path.name)
def test_a_bundled_agent(tmp_path: Path, path: Path, count: int) -> None:
    policy = sbformat.load_policy(path)
    model = export(policy, tmp_path)
    observations = np.random.default_rng(0).normal(size=(count, *policy.graph.inputs[0].shape)).astype(np.float32)
    expected, found = policy.outputs(observations), model.outputs(observations)
    assert list(found) == list(policy.graph.outputs)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-5)
