"""Make the bundled statistics and replay buffer: needs stable-baselines3 (the extra ``interop``); run from the root.

    python tests/archives/make_beside.py

Small real files, of the environments of ``sac-pendulum.zip`` and ``ppo-cartpole.zip``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

HERE = Path(__file__).parent
STEPS = 100
ROWS = 64


def statistics() -> None:
    """Look at some observations and save."""
    env = VecNormalize(make_vec_env("Pendulum-v1", seed=0))
    env.reset()
    random = np.random.default_rng(0)
    for _ in range(STEPS):
        env.step(random.uniform(-2, 2, (1, 1)).astype(np.float32))
    env.observation_space.seed(0)
    env.action_space.seed(0)
    env.save(str(HERE / "vecnormalize-pendulum.pkl"))


def replay_buffer() -> None:
    """Fill a buffer round its end and save."""
    model = DQN("MlpPolicy", "CartPole-v1", buffer_size=ROWS, learning_starts=STEPS, seed=0, device="cpu")
    model.learn(STEPS)
    model.save_replay_buffer(HERE / "replay-buffer-cartpole.pkl")


if __name__ == "__main__":
    statistics()
    replay_buffer()
