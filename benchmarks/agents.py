"""Agents whose predictions are measured: made by SB3, and not trained.

``python -m benchmarks.agents NAME OUTPUT``, in a process of its own, which imports torch.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple


class Agent(NamedTuple):
    """How an agent is made."""

    algorithm: str
    """A class of SB3."""
    policy: str
    observation: tuple[int, ...]
    """The shape of an observation: of an image if it has three dimensions."""
    actions: int
    is_continuous: bool = False
    arguments: dict[str, Any] = {}


OFF_POLICY: Final = {"buffer_size": 2, "policy_kwargs": {"net_arch": [64, 64]}}
AGENTS: Final = {
    "DQN": Agent("DQN", "MlpPolicy", (4,), 2, arguments=OFF_POLICY),
    "PPO": Agent("PPO", "MlpPolicy", (4,), 2),
    "SAC": Agent("SAC", "MlpPolicy", (3,), 1, is_continuous=True, arguments=OFF_POLICY),
    "A2C": Agent("A2C", "MlpPolicy", (3,), 1, is_continuous=True),
    "NatureCNN": Agent("DQN", "CnnPolicy", (4, 84, 84), 6, arguments={"buffer_size": 2}),
    "PPO-NatureCNN": Agent("PPO", "CnnPolicy", (4, 84, 84), 6, arguments={"n_steps": 2, "batch_size": 2}),
}
"""By name: networks of two layers of 64, and the convolutions for Atari games."""


def make_agent(name: str, output: str) -> None:
    """Write the archive of an agent."""
    import gymnasium
    import numpy as np
    import stable_baselines3
    import torch
    from gymnasium import spaces

    agent = AGENTS[name]

    class Environment(gymnasium.Env):  # type: ignore[misc]
        """One that has spaces, and is never stepped."""

        observation_space = (
            spaces.Box(0, 255, agent.observation, np.uint8)
            if len(agent.observation) == 3
            else spaces.Box(-1, 1, agent.observation)
        )
        action_space = spaces.Box(-1, 1, (agent.actions,)) if agent.is_continuous else spaces.Discrete(agent.actions)

    made = getattr(stable_baselines3, agent.algorithm)(
        agent.policy, Environment(), seed=0, device="cpu", **agent.arguments
    )
    for key, parameter in made.policy.named_parameters():
        if key.endswith("bias"):  # SB3 begins with zeros, which torch.onnx leaves out; training changes them
            torch.nn.init.uniform_(parameter, -0.1, 0.1)
    made.save(output)


if __name__ == "__main__":
    make_agent(*sys.argv[1:])
