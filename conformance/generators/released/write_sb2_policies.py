"""Write small agents with the Stable Baselines 2 that is installed, observations, and what it predicts for them.

    python write_sb2_policies.py OUT_FOLDER [NAME...]

Writes for each agent ``policy-sb2-NAME.zip``, ``.input.json`` and ``.expect.json`` (conformance/README.md, "Policies").
Python 3.7.16, tensorflow 1.15.5, stable-baselines 2.10.2, gym 0.17.3 and numpy 1.18.5 wrote what is here. Weights are random
multiples of 1/64. What is predicted is what SB2 predicts with the agent that it loads from that file.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
import zipfile
from typing import Any, NamedTuple

warnings.simplefilter("ignore")
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import gym  # noqa: E402 -- after the warnings
import numpy as np  # noqa: E402
import stable_baselines as sb2  # noqa: E402
import tensorflow as tf  # noqa: E402
from gym import spaces  # noqa: E402
from stable_baselines.common.vec_env import DummyVecEnv  # noqa: E402

tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)

BATCH = 4
ON_POLICY = (sb2.PPO2, sb2.A2C, sb2.ACER)
DATE = (1980, 1, 1, 0, 0, 0)
VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
PAIR = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 5], np.float32))
THREE = spaces.Discrete(3)
LAYERS = {"layers": [8]}
LSTM = {"layers": [6], "n_lstm": 5}


class Case(NamedTuple):
    """An agent."""

    algorithm: type
    policy: str
    observation_space: spaces.Space
    action_space: spaces.Space
    network: dict[str, Any]
    """Arguments of the policy."""
    options: dict[str, Any]
    """Arguments of the algorithm."""


def case(
    algorithm: type,
    policy: str = "MlpPolicy",
    *,
    observations: spaces.Space = VECTOR,
    actions: spaces.Space = THREE,
    network: dict[str, Any] = LAYERS,
    **options: Any,
) -> Case:
    return Case(algorithm, policy, observations, actions, network, options)


CASES = {
    "ppo2": case(sb2.PPO2, nminibatches=1),
    "ppo2-box": case(sb2.PPO2, actions=PAIR, nminibatches=1),
    "ppo2-multi-discrete": case(sb2.PPO2, actions=spaces.MultiDiscrete([3, 2]), nminibatches=1),
    "ppo2-multi-binary": case(sb2.PPO2, actions=spaces.MultiBinary(3), nminibatches=1),
    "ppo2-observes-discrete": case(sb2.PPO2, observations=spaces.Discrete(4), nminibatches=1),
    "ppo2-observes-multi-discrete": case(sb2.PPO2, observations=spaces.MultiDiscrete([2, 3]), nminibatches=1),
    "ppo2-shared-layers": case(sb2.PPO2, network={"net_arch": [8, {"pi": [4], "vf": [5]}]}, nminibatches=1),
    "ppo2-relu": case(sb2.PPO2, network=dict(LAYERS, act_fun=tf.nn.relu), nminibatches=1),
    "ppo2-lstm": case(sb2.PPO2, "MlpLstmPolicy", network=LSTM, nminibatches=1),
    "ppo2-lstm-normalized": case(sb2.PPO2, "MlpLnLstmPolicy", network=LSTM, nminibatches=1),
    "a2c-box": case(sb2.A2C, actions=PAIR),
    "acer": case(sb2.ACER, replay_ratio=0),
    "dqn": case(sb2.DQN),
    "dqn-not-dueling": case(sb2.DQN, network=dict(LAYERS, dueling=False)),
    "dqn-normalized": case(sb2.DQN, "LnMlpPolicy"),
    "sac": case(sb2.SAC, actions=PAIR, buffer_size=8),
    "sac-normalized": case(sb2.SAC, "LnMlpPolicy", actions=PAIR, buffer_size=8),
    "td3": case(sb2.TD3, actions=PAIR, buffer_size=8),
}


class Spaces(gym.Env):
    """An environment that has spaces, and nothing else."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(self) -> Any:
        return self.observation_space.sample()

    def step(self, _: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        return self.observation_space.sample(), 0.0, False, {}


def make_environment(chosen: Case) -> DummyVecEnv:
    count = BATCH if chosen.algorithm in ON_POLICY else 1
    return DummyVecEnv([lambda: Spaces(chosen.observation_space, chosen.action_space)] * count)


def save_agent(chosen: Case, path: str, generator: np.random.Generator) -> None:
    """Write an agent with random weights, its members deflated."""
    model = chosen.algorithm(
        chosen.policy, make_environment(chosen), policy_kwargs=dict(chosen.network), seed=0, **chosen.options
    )
    values = model.get_parameters()
    model.load_parameters(
        {
            name: (np.round(generator.normal(0, 40, array.shape)) / 64).astype(array.dtype)
            for name, array in values.items()
        }
    )
    model.save(path)
    with zipfile.ZipFile(path) as old:
        entries = [(name, old.read(name)) for name in old.namelist()]
    with zipfile.ZipFile(path, "w") as new:
        for name, raw in entries:
            new.writestr(zipfile.ZipInfo(name, DATE), raw, zipfile.ZIP_DEFLATED)


def sample(space: spaces.Space, generator: np.random.Generator) -> Any:
    """Return an observation: of a Box multiples of 1/64."""
    if isinstance(space, spaces.Discrete):
        return np.array(generator.integers(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return generator.integers(space.nvec)
    return (np.round(generator.uniform(-2, 2, space.shape) * 64) / 64).astype(space.dtype)


def make_steps(chosen: Case, generator: np.random.Generator) -> list[dict[str, Any]]:
    """Return a batch of observations and a single one; for an LSTM several batches, with new episodes."""
    space = chosen.observation_space

    def batch() -> np.ndarray:
        return np.stack([sample(space, generator) for _ in range(BATCH)])

    if "Lstm" in chosen.policy:
        starts = ([1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1])
        return [{"observation": batch(), "episode_start": np.array(row, bool)} for row in starts]
    return [{"observation": batch()}, {"observation": sample(space, generator)}]


def predict_steps(chosen: Case, path: str, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what SB2 predicts with the agent that it loads."""
    model = chosen.algorithm.load(path, env=make_environment(chosen))
    state: Any = None
    made = []
    for step in steps:
        starts = step.get("episode_start")
        row: dict[str, Any] = {}
        is_batch = step["observation"].ndim > len(chosen.observation_space.shape)
        if is_batch and chosen.algorithm in ON_POLICY and isinstance(chosen.action_space, spaces.Discrete):
            row["outputs"] = {"probabilities": model.action_probability(step["observation"], state, starts)}
        action, state = model.predict(step["observation"], state, starts, deterministic=True)
        row["action"] = action
        if state is not None:
            row["state"] = [state]
        made.append(row)
    return made


def tag(value: Any) -> Any:
    """Return arrays as in STATISTICS.md 17.6."""
    if isinstance(value, dict):
        return {key: tag(part) for key, part in value.items()}
    if isinstance(value, list):
        return [tag(part) for part in value]
    array = np.asarray(value)
    return {"dtype": array.dtype.newbyteorder("<").str, "shape": list(array.shape), "items": array.ravel().tolist()}


def main() -> None:
    """Write the agents."""
    folder, wanted = sys.argv[1], sys.argv[2:]
    for name in wanted or CASES:
        generator = np.random.default_rng(list(name.encode()))
        stem = os.path.join(folder, "policy-sb2-" + name)
        save_agent(CASES[name], stem + ".zip", generator)
        steps = make_steps(CASES[name], generator)
        expect = {"policy": {"steps": tag(predict_steps(CASES[name], stem + ".zip", steps))}}
        for suffix, text in ((".input.json", {"steps": tag(steps)}), (".expect.json", expect)):
            with open(stem + suffix, "w") as file:
                file.write(json.dumps(text) + "\n")
        print(name, os.path.getsize(stem + ".zip"))


if __name__ == "__main__":
    main()
