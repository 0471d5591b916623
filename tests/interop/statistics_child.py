"""Run by another interpreter, with an SB3 of the release that statistics were written for: tells what it loads.

``python statistics_child.py JOBS.json`` takes a list of ``{"path", "obs"}`` and prints its release, then a line of JSON
for every job. Every warning is an error.
"""

from __future__ import annotations

import json
import pickle
import sys
import traceback
import warnings
from typing import Any

import numpy as np
import stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

try:
    import gymnasium
except ImportError:  # SB3 before 2.0
    import gym as gymnasium


class Empty(gymnasium.Env):
    """Has spaces, and does nothing."""

    render_mode = None

    def __init__(self, observation: Any, action: Any) -> None:
        self.observation_space = observation
        self.action_space = action


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return np.asarray(value).astype(np.float64).tolist()


def answer(job: dict[str, Any]) -> dict[str, Any]:
    with open(job["path"], "rb") as file:
        held = pickle.load(file)
    spaces = held.observation_space, held.action_space
    env = VecNormalize.load(job["path"], DummyVecEnv([lambda: Empty(*spaces)]))
    obs = job["obs"]
    obs = {key: np.array(part) for key, part in obs.items()} if isinstance(obs, dict) else np.array(obs)
    rewards = env.normalize_reward(np.array([-3.0, 0.5, 100.0])).astype(np.float32)
    return {"obs": plain(env.normalize_obs(obs)), "reward": plain(rewards)}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    sys.stdout.write(json.dumps(stable_baselines3.__version__) + "\n")
    warnings.simplefilter("error")
    for job in jobs:
        try:
            sys.stdout.write(json.dumps(answer(job)) + "\n")
        except Exception:  # noqa: BLE001 -- whatever it is, it is told
            sys.stdout.write(json.dumps({"error": traceback.format_exc()[-2000:]}) + "\n")


if __name__ == "__main__":
    main()
