"""Write small archives with the Stable-Baselines3 that is installed, and what a decoder prints for each.

    python write.py OUT_FOLDER

One run makes the files of one release; the others need an environment of their own:

| files                                  | Python | torch  | SB3    | numpy  | cloudpickle | gym, gymnasium |
|----------------------------------------|--------|--------|--------|--------|-------------|----------------|
| ppo-0.6                                | 3.7.16 | 1.4.0  | 0.6.0  | 1.18.5 | 1.3.0       | gym 0.17.3     |
| sac-0.8, policy-torch-1.4 (`.pth`)     | 3.7.16 | 1.4.0  | 0.8.0  | 1.18.5 | 1.3.0       | gym 0.17.3     |
| td3-0.10                               | 3.8.18 | 1.7.1  | 0.10.0 | 1.19.5 | 1.6.0       | gym 0.17.3     |
| a2c-1.0                                | 3.8.18 | 1.7.1  | 1.0    | 1.19.5 | 1.6.0       | gym 0.17.3     |
| ppo-1.3                                | 3.9.18 | 1.12.1 | 1.3.0  | 1.22.4 | 2.2.0       | gym 0.21.0     |
| dqn-1.6                                | 3.9.18 | 1.12.1 | 1.6.2  | 1.22.4 | 2.2.0       | gym 0.21.0     |
| sac-2.0                                | 3.10.13 | 2.4.1 | 2.0.0  | 1.26.4 | 3.0.0       | 0.29.1         |
| a2c-2.3                                | 3.10.13 | 2.4.1 | 2.3.2  | 1.26.4 | 3.0.0       | 0.29.1         |
| ppo-2.6                                | 3.10.13 | 2.4.1 | 2.6.0  | 1.26.4 | 3.0.0       | 0.29.1         |
| ppo-2.9, sac-2.9, ars-2.9 (sb3-contrib | 3.11.7 | 2.13.0 | 2.9.2  | 2.4.6  | 3.1.2       | 1.4.0          |
| 2.9.2), policy-torch-2.13 (`.pth`)     |        |        |        |        |             |                |

Functions are pickled with the path of their source, so the releases before 2.7 lay in a folder that is nobody's:

    env/bin/pip install torch==1.7.1 numpy==1.19.5 gym==0.17.3 cloudpickle==1.6.0 pandas matplotlib
    env/bin/pip install --no-deps --target /home/user/sb3-1.0 stable-baselines3==1.0
    PYTHONPATH=/home/user/sb3-1.0 env/bin/python write.py OUT_FOLDER

(gym 0.21 installs with setuptools 65.5.0, wheel 0.37.1 and ``--no-build-isolation --no-deps``.) The bytes are others
each time: times, storage keys and random numbers differ. What is here is kept, not made anew.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from typing import TYPE_CHECKING

import expect
import numpy as np
import stable_baselines3 as sb3
import torch

try:
    import gymnasium as gym
except ImportError:
    import gym

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

IS_OLD_GYM = gym.__name__ == "gym"
PENDULUM = "Pendulum-v0" if gym.__version__.startswith("0.17") else "Pendulum-v1"
ON_POLICY = {"n_steps": 8, "seed": 0}
PPO = {**ON_POLICY, "batch_size": 8, "n_epochs": 1}
OFF_POLICY = {"buffer_size": 64, "learning_starts": 4, "batch_size": 4, "seed": 0}
BARE = {"net_arch": []}
"""Networks without hidden layers."""
SMALL = {**BARE, "n_critics": 1}


class TwoParts(gym.Env):
    """An environment whose observations are dicts."""

    observation_space = gym.spaces.Dict(
        {"pixel": gym.spaces.MultiDiscrete([2, 3]), "speed": gym.spaces.Box(-1.0, 1.0, (2,), np.float32)}
    )
    action_space = gym.spaces.Discrete(2)

    def reset(self, **_: object) -> object:
        self._steps = 0
        return self._seen() if IS_OLD_GYM else (self._seen(), {})

    def step(self, action: int) -> tuple[object, ...]:
        self._steps += 1
        end = (self._steps == 5,) if IS_OLD_GYM else (self._steps == 5, False)
        return (self._seen(), float(action), *end, {})

    def _seen(self) -> dict[str, np.ndarray]:
        return {"pixel": np.array([1, 2]), "speed": np.array([0.5, -0.25], np.float32)}


def ppo(environment: str | gym.Env = "CartPole-v1", policy: str = "MlpPolicy", net: dict = BARE) -> BaseAlgorithm:
    return sb3.PPO(policy, environment, policy_kwargs=dict(net), **PPO).learn(8)


def sac(net: dict, **options: float) -> BaseAlgorithm:
    return sb3.SAC("MlpPolicy", PENDULUM, policy_kwargs=dict(net), **OFF_POLICY, **options).learn(8)


def old_ppo() -> BaseAlgorithm:
    return ppo(net={"net_arch": [{"pi": [2], "vf": [2]}]})


def dict_ppo() -> BaseAlgorithm:
    return ppo(TwoParts(), "MultiInputPolicy")


def dict_ppo_with_momentum() -> BaseAlgorithm:
    net = {**BARE, "optimizer_class": torch.optim.SGD, "optimizer_kwargs": {"momentum": 0.9}}
    return ppo(TwoParts(), "MultiInputPolicy", net)


def old_sac() -> BaseAlgorithm:
    return sac(BARE)


def sac_with_sgd() -> BaseAlgorithm:
    """Two optimizers without a state; that of the entropy coefficient is Adam all the same."""
    return sac({**SMALL, "optimizer_class": torch.optim.SGD})


def td3() -> BaseAlgorithm:
    noise = sb3.common.noise.NormalActionNoise(np.zeros(1), np.full(1, 0.1))
    return sb3.TD3("MlpPolicy", PENDULUM, policy_kwargs=dict(SMALL), action_noise=noise, **OFF_POLICY).learn(200)


def a2c_with_numpy() -> BaseAlgorithm:
    """Its schedule gives a ``numpy.float64``, which is then the learning rate in its optimizer."""
    rate = functools.partial(np.add, 7e-4)
    return sb3.A2C("MlpPolicy", "CartPole-v1", rate, policy_kwargs=dict(BARE), **ON_POLICY).learn(8)


def a2c() -> BaseAlgorithm:
    options = {"normalize_advantage": True, **ON_POLICY}
    return sb3.A2C("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": {"pi": [2], "vf": []}}, **options).learn(8)


def dqn() -> BaseAlgorithm:
    return sb3.DQN("MlpPolicy", "CartPole-v1", policy_kwargs=dict(BARE), **OFF_POLICY).learn(8)


def ars() -> BaseAlgorithm:
    import sb3_contrib

    return sb3_contrib.ARS("LinearPolicy", "CartPole-v1", n_delta=1, seed=0).learn(8)


RELEASES = {
    "0.6": {"ppo": old_ppo},
    "0.8": {"sac": old_sac},
    "0.10": {"td3": td3},
    "1.0": {"a2c": a2c_with_numpy},
    "1.3": {"ppo": dict_ppo},
    "1.6": {"dqn": dqn},
    "2.0": {"sac": functools.partial(sac, SMALL, ent_coef=0.1)},
    "2.3": {"a2c": a2c},
    "2.6": {"ppo": dict_ppo_with_momentum},
    "2.9": {"ppo": ppo, "sac": sac_with_sgd, "ars": ars},
}
LARGE = ["replay_buffer_class", "lr_schedule", "_last_obs", "_last_original_obs", "ep_info_buffer"]
LEFT_OUT = {"sac-2.0": LARGE, "sac-2.9": LARGE}
"""What ``save`` is asked to leave out, where the archive would be too large for a vector."""
STATE_DICTS = {"0.8": old_sac, "2.9": dqn}
"""Whose policy is saved without SB3, too."""


def main() -> None:
    """Train for a moment and save, with a plain system in place of the one that happens to run this."""
    platform.platform = lambda *_, **__: "Linux-6.1-x86_64-with-glibc2.36"
    platform.version = lambda: "#1 SMP"
    torch.set_num_threads(1)
    release = ".".join(sb3.__version__.split(".")[:2])
    folder = sys.argv[1]
    for algorithm, make in RELEASES[release].items():
        name = f"{algorithm}-{release}"
        path = os.path.join(folder, f"released-{name}.zip")
        make().save(path, exclude=LEFT_OUT.get(name))
        expect.write(path)
    if release in STATE_DICTS:
        name = "policy-torch-" + ".".join(torch.__version__.split(".")[:2])
        path = os.path.join(folder, f"released-{name}.pth")
        torch.save(STATE_DICTS[release]().policy.state_dict(), path)
        expect.write(path)


if __name__ == "__main__":
    main()
