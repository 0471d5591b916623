"""Environments of any space, three random steps an episode, and options that make one update quick."""

from __future__ import annotations

from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

STEPS: Final = 3
"""Of an episode."""


def sample(space: Any, random: np.random.Generator) -> Any:
    """A small observation: a Box may reach as far as float32 does."""
    if isinstance(space, spaces.Dict):
        return {key: sample(part, random) for key, part in space.spaces.items()}
    if not isinstance(space, spaces.Box):
        return space.sample()
    if space.dtype == np.uint8:
        return random.integers(space.low, space.high, endpoint=True, dtype=np.uint8)
    return np.clip(random.normal(size=space.shape), space.low, space.high).astype(space.dtype)


class Random(gymnasium.Env[Any, Any]):
    """Observations and rewards at random."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.random = np.random.default_rng(0)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return sample(self.observation_space, self.random), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.steps += 1
        return sample(self.observation_space, self.random), self.random.normal(), self.steps == STEPS, False, {}

    def action_masks(self) -> np.ndarray:
        if isinstance(self.action_space, spaces.MultiBinary):
            return np.ones(2 * int(np.prod(self.action_space.shape)), bool)
        return np.ones(int(np.sum(getattr(self.action_space, "nvec", getattr(self.action_space, "n", 0)))), bool)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        """For one goal or for many, as HerReplayBuffer asks."""
        distance = np.abs(np.asarray(achieved, np.float64) - np.asarray(desired, np.float64))
        return -distance.reshape(len(distance), -1).sum(-1) if distance.ndim > 1 else -distance.sum(-1)


def environment(observation_space: Any, action_space: Any, count: int = 1) -> Any:
    return DummyVecEnv([lambda: Random(observation_space, action_space)] * count)


def smaller(model: Any, count: int) -> dict[str, Any]:
    """Options for ``load`` with which one update takes a few steps."""
    options: dict[str, Any] = {"verbose": 0}
    if hasattr(model, "pop_size"):
        options.update(n_delta=2, n_top=2, pop_size=4, n_eval_episodes=1)
    elif hasattr(model, "buffer_size"):
        options.update(buffer_size=16 * count, batch_size=4, learning_starts=4 * count, gradient_steps=1)
        if model.train_freq.frequency > STEPS:
            options["train_freq"] = 4
    else:
        sizes = {"n_steps": 4, "batch_size": 4 * count, "n_epochs": 1}
        options.update({key: value for key, value in sizes.items() if hasattr(model, key)})
    if model.lr_schedule(1.0) == 0:  # as agents have it that the zoo loaded to look at
        options["learning_rate"] = 1e-3
    return options


def steps_of_one_update(model: Any, count: int) -> int:
    """As many as ``learn`` has to be asked for, and a few for the schedules not to have ended."""
    if hasattr(model, "pop_size"):
        return 1
    return 4 * count + 1 if not hasattr(model, "buffer_size") else 12 * count
