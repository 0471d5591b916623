"""Folders as rl_zoo3, the Hugging Face tools and SB3's callbacks write them, made of the bundled files."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tests.helpers.bundled import ARCHIVES, PPO, SAC, zipped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

AGENT: Final = PPO.read_bytes()
PENDULUM: Final = SAC.read_bytes()
"""An agent that observes what the statistics are of."""
STATISTICS: Final = (ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes()
BUFFER: Final = (ARCHIVES / "replay-buffer-cartpole.pkl").read_bytes()
CONFIG: Final = b"""!!python/object/apply:collections.OrderedDict
- - - n_envs
    - 4
  - - normalize
    - '{''norm_obs'': True, ''norm_reward'': False}'
  - - n_timesteps
    - 20000.0
"""
"""As rl_zoo3 writes it."""


def make_folder(top: Path, files: Mapping[str, bytes]) -> Path:
    """Write files, with the folders that they are in."""
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return top


def make_evaluations(**arrays: Any) -> bytes:
    """An ``evaluations.npz`` as EvalCallback writes it; None leaves an array out."""
    file = io.BytesIO()
    found = {"timesteps": np.array([100, 200, 300]), "results": np.array([[1.0, 2], [5, 6], [3, 4]]), **arrays}
    np.savez(file, **{name: array for name, array in found.items() if array is not None})
    return file.getvalue()


def make_zoo(top: Path) -> Path:
    """A run of rl_zoo3 with checkpoints."""
    checkpoints = {
        f"rl_model{what}_{steps}_steps.{suffix}": content
        for steps in (1000, 200, 30000)
        for what, suffix, content in (
            ("", "zip", PENDULUM), ("_vecnormalize", "pkl", STATISTICS), ("_replay_buffer", "pkl", BUFFER),
        )
    }  # fmt: skip
    return make_folder(top, {
        "best_model.zip": PENDULUM,
        "Pendulum-v1.zip": PENDULUM,
        **checkpoints,
        "Pendulum-v1/vecnormalize.pkl": STATISTICS,
        "Pendulum-v1/config.yml": CONFIG,
        "Pendulum-v1/args.yml": b"algo: sac\nenv: Pendulum-v1\nseed: 7\n",
        "0.monitor.csv": b"#{}\nr,l,t\n",
    })  # fmt: skip


def make_hub(top: Path) -> Path:
    """A repository of the Hugging Face tools."""
    make_folder(top, {
        "sac-Pendulum.zip": PENDULUM,
        "vec_normalize.pkl": STATISTICS,
        "results.json": b'{"mean_reward": -150.5, "std_reward": 2.5, "is_deterministic": true, "n_eval_episodes": 10}',
        "README.md": b"# An agent\n",
        "train_eval_metrics.zip": zipped({"0.monitor.csv": b"r,l,t\n"}),
        ".gitattributes": b"*.zip filter=lfs\n",
    })  # fmt: skip
    with zipfile.ZipFile(SAC) as file:
        file.extractall(top / "sac-Pendulum")
    return top
