"""Environments without gymnasium: its interface, and spaces that have its names and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np


class Box:
    """As gymnasium's."""

    def __init__(self, low: Any, high: Any, shape: tuple[int, ...], dtype: str = "float32") -> None:
        self.low, self.high = (np.broadcast_to(np.asarray(bound, dtype), shape) for bound in (low, high))
        self.shape, self.dtype = shape, np.dtype(dtype)


class Discrete:
    """As gymnasium's."""

    def __init__(self, n: int, start: int = 0) -> None:
        self.n, self.start, self.shape, self.dtype = n, start, (), np.dtype("int64")


class Dict:
    """As gymnasium's."""

    def __init__(self, spaces: dict[str, Any]) -> None:
        self.spaces = spaces


CARTPOLE = Box([-4.8, -np.inf, -0.42, -np.inf], [4.8, np.inf, 0.42, np.inf], (4,))
"""The space of the bundled PPO agent, with the bounds of another release."""


class CountingEnv:
    """Observations are the number of the step; an episode ends after some steps; the reward is the action.

    :param lengths: the steps of each episode
    """

    def __init__(
        self, lengths: tuple[int, ...] = (3, 5), observation_space: Any = CARTPOLE, action_space: Any = None
    ) -> None:
        self.observation_space = observation_space
        self.action_space = Discrete(2) if action_space is None else action_space
        self.seeds: list[int | None] = []
        self.actions: list[Any] = []
        self._lengths = iter(lengths)

    def observe(self) -> Any:
        return np.full(self.observation_space.shape, self.step_number, self.observation_space.dtype)

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        self.left = next(self._lengths)
        self.step_number = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        self.step_number += 1
        self.left -= 1
        return self.observe(), 1.5, self.left == 0, False, {}


class Wrapper:
    """As gymnasium's: the environment inside is ``env``."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, *, seed: int | None = None) -> Any:
        return self.env.reset(seed=seed)

    def step(self, action: Any) -> Any:
        return self.env.step(action)
