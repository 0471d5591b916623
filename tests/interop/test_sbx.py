"""Agents of SBX act as in SBX itself: every policy, trained for a few steps by the package, where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat

sbx = pytest.importorskip("sbx")
gym = pytest.importorskip("gymnasium")

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.filterwarnings("ignore")]
ACTIONS: Final = gym.spaces.Box(np.array([-2.0, -1.0], np.float32), np.array([2.0, 3.0], np.float32))
VECTOR: Final = gym.spaces.Box(-1.0, 3.0, (3,), np.float32)
CHOICES: Final = gym.spaces.Discrete(4)
SMALL: Final = {"net_arch": [16, 12]}
ON_POLICY: Final = {"n_steps": 32, "batch_size": 16, "n_epochs": 1}
CASES: Final[dict[str, tuple[str, str, Any, Any, dict[str, Any]]]] = {
    "ppo-box": ("PPO", "MlpPolicy", VECTOR, ACTIONS, {**ON_POLICY, "policy_kwargs": SMALL}),
    "ppo-discrete": ("PPO", "MlpPolicy", VECTOR, CHOICES, ON_POLICY),
    "ppo-multidiscrete": ("PPO", "MlpPolicy", VECTOR, gym.spaces.MultiDiscrete([3, 2]), ON_POLICY),
    "ppo-multibinary": ("PPO", "MlpPolicy", VECTOR, gym.spaces.MultiBinary(3), ON_POLICY),
    "ppo-numbers": ("PPO", "MlpPolicy", gym.spaces.Discrete(5), CHOICES, ON_POLICY),
    "ppo-cnn": ("PPO", "CnnPolicy", gym.spaces.Box(0, 255, (3, 40, 40), np.uint8), CHOICES, ON_POLICY),
    "sac": ("SAC", "MlpPolicy", VECTOR, ACTIONS, {"policy_kwargs": SMALL}),
    "sac-norm": ("SAC", "MlpPolicy", VECTOR, ACTIONS, {"policy_kwargs": {"layer_norm": True, "dropout_rate": 0.01}}),
    "sac-simba": ("SAC", "SimbaPolicy", VECTOR, ACTIONS, {"policy_kwargs": {"net_arch": [8, 8]}}),
    "tqc": ("TQC", "MlpPolicy", VECTOR, ACTIONS, {"policy_kwargs": SMALL}),
    "td3": ("TD3", "MlpPolicy", VECTOR, ACTIONS, {"policy_kwargs": SMALL}),
    "ddpg": ("DDPG", "MlpPolicy", VECTOR, ACTIONS, {"policy_kwargs": SMALL}),
    "dqn": ("DQN", "MlpPolicy", VECTOR, CHOICES, {"policy_kwargs": {"net_arch": [16]}}),
    "crossq": ("CrossQ", "MlpPolicy", VECTOR, ACTIONS, {"policy_kwargs": SMALL}),
    "crossq-simba": ("CrossQ", "SimbaPolicy", VECTOR, ACTIONS, {"policy_kwargs": {"net_arch": [8]}}),
}


class Random(gym.Env):  # type: ignore[misc]
    """Random observations, in episodes of 20 steps."""

    def __init__(self, observations: Any, actions: Any) -> None:
        self.observation_space, self.action_space, self.steps = observations, actions, 0

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observation_space.sample(), float(np.sum(action)), False, self.steps >= 20, {}


@pytest.mark.parametrize("name", CASES)
def test_an_agent_acts_as_in_sbx(name: str, tmp_path: Path) -> None:
    algorithm, policy, observations, actions, arguments = CASES[name]
    given = {**arguments, "policy_kwargs": dict(arguments.get("policy_kwargs", {}))}
    if algorithm != "PPO":
        given = {**given, "learning_starts": 20, "buffer_size": 100}
    model = getattr(sbx, algorithm)(policy, Random(observations, actions), seed=3, **given)
    model.learn(40)
    model.save(tmp_path / "agent.zip")
    seen = np.array([observations.sample() for _ in range(50)])
    expected, _ = model.predict(seen, deterministic=True)
    loaded = sbformat.load_policy(tmp_path / "agent.zip")
    found, _ = loaded.predict(seen, deterministic=True)
    assert loaded.algorithm == algorithm
    assert found.shape == expected.shape
    assert np.allclose(found, expected, rtol=0, atol=1e-5)
    assert sbformat.validate(tmp_path / "agent.zip") == ()
    assert sbformat.scan(tmp_path / "agent.zip").verdict == "code"
