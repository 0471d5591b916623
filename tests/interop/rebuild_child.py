"""Run as a program of its own: what SB3 of today makes of archives as they are.

``python rebuild_child.py PATH...`` prints a JSON object: by path ``whole``, ``not whole`` (SB3 warned) or ``fails``.
Each is loaded in a fork, since code of another Python that an archive carries may take the interpreter down.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import stable_baselines3 as sb3
import torch
from gymnasium import spaces

sys.path.insert(0, str(Path(__file__).parents[2]))

import sbformat
from tests.interop.rebuild_envs import environment
from tests.interop.rebuild_oracle import algorithm_class, made_space

OUTCOMES = ("whole", "not whole", "fails")
SECONDS = 60


def loads(path: str) -> int:
    """The number of the outcome."""
    archive = sbformat.read(path)
    name = archive.algorithm.name
    name = archive.decode("model_class").name if name == "HER" else name
    buffer = archive.data.get("replay_buffer_class")
    env = None
    if buffer is not None and b"HerReplayBuffer" in buffer.pickle:
        env = environment(*(made_space(archive.decode(f"{of}_space")) for of in ("observation", "action")))
    options = {"buffer_size": 16} if "buffer_size" in archive.data else {}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        algorithm_class(name).load(path, env, device="cpu", **options)
    return 1 if told else 0


def outcome(path: str) -> str:
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        code = 2
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            code = loads(path)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return OUTCOMES[code] if code in range(3) else "fails"


def warm_up() -> None:
    """Have torch import what it imports late before the forks, once for all."""
    env = environment(spaces.Box(-1, 1, (1,)), spaces.Discrete(2))
    sb3.PPO("MlpPolicy", env, n_steps=2, batch_size=2, device="cpu")


if __name__ == "__main__":
    torch.set_num_threads(1)
    warm_up()
    print(json.dumps({path: outcome(path) for path in sys.argv[1:]}))  # noqa: T201 -- that is how it answers
