"""Loads one file as SB3 or rl_zoo3 does: ``python benchmarks/load_child.py LOADER FILE``, in a process of its own.

Do not run it with files that you did not make: it executes what is in them.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


def load_archive(path: str) -> None:
    from stable_baselines3 import PPO

    PPO.load(path)


def load_statistics(path: str) -> None:
    import gymnasium
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    VecNormalize.load(path, DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]))


def load_buffer(path: str) -> None:
    from stable_baselines3.common.save_util import load_from_pkl

    load_from_pkl(path)  # what load_replay_buffer calls


def load_yaml(path: str) -> None:
    import yaml

    with open(path, encoding="utf-8") as file:
        yaml.load(file, Loader=yaml.UnsafeLoader)  # noqa: S506 -- as rl_zoo3 has it


LOADERS: Final[dict[str, Callable[[str], None]]] = {
    "archive": load_archive,
    "statistics": load_statistics,
    "buffer": load_buffer,
    "yaml": load_yaml,
}


if __name__ == "__main__":
    with suppress(Exception):  # what a payload returns is no agent; only whether it ran counts
        LOADERS[sys.argv[1]](sys.argv[2])
