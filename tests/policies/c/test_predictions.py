"""Agents in C compute what ``Policy`` and the recorded libraries compute."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest

import sbformat
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.policy_vectors import VECTORS, assert_predictions, load_vector
from tests.helpers.sb2_predictions import assert_same_recording, recorded_agents
from tests.policies.c.models import export

SB2: Final = recorded_agents(Path(__file__).parents[1] / "sb2" / "archives")


@pytest.mark.parametrize("path", [PPO, SAC, ARCHIVES / "ppo-cartpole-1.0.zip"], ids=lambda path: path.name)
def test_a_bundled_agent(tmp_path: Path, path: Path) -> None:
    policy = sbformat.load_policy(path)
    found = export(policy, tmp_path)
    observations = np.random.default_rng(0).normal(size=(7, *policy.graph.inputs[0].shape)).astype(np.float32)
    expected, made = policy.outputs(observations), found.outputs(observations)
    assert list(made) == list(policy.graph.outputs)
    for name, array in expected.items():
        assert made[name].shape == array.shape
        np.testing.assert_allclose(made[name], array, 1e-5, 1e-5)


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector(tmp_path: Path, name: str) -> None:
    assert_predictions(name, export(load_vector(name), tmp_path))


@pytest.mark.parametrize("agent", SB2, ids=lambda path: path.name)
def test_an_agent_of_stable_baselines_2(tmp_path: Path, agent: Path) -> None:
    assert_same_recording(export(sbformat.load_policy(agent), tmp_path), agent)
