"""Run by another interpreter, with an SB3 1.x and gym: the actions of agents as they are.

``python old_sb3_child.py JOBS.json`` takes a list of ``{"path", "algorithm", "observations", "keys", "actions"}`` and
prints a line of JSON for each: ``null`` when the actions are in the file ``actions`` (``.npy``), else why the release
cannot load the agent. ``observations`` is an ``.npz`` of 50 observations by key, of one key for those that are no dict.
Schedules, which do not act, are left out: those of another Python would be in the way.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np
import sb3_contrib
import stable_baselines3
import torch

WITHOUT = {
    "lr_schedule": lambda _: 0.0,
    "learning_rate": 0.0,
    "clip_range": lambda _: 0.0,
    "clip_range_vf": None,
    "exploration_schedule": lambda _: 0.0,
    "delta_std_schedule": lambda _: 0.0,
    "replay_buffer_class": None,
    "replay_buffer_kwargs": {},
    "buffer_size": 16,
}
"""What an agent does not act with, and SB3 1.x may fail to load."""


def act(job: dict[str, Any]) -> None:
    """Write the actions of an agent."""
    kind = getattr(stable_baselines3, job["algorithm"], None) or getattr(sb3_contrib, job["algorithm"])
    model = kind.load(job["path"], device="cpu", custom_objects=WITHOUT)
    with np.load(job["observations"]) as found:
        arrays = {key: found[key] for key in found.files}
    whole = arrays if job["keys"] else arrays["observation"]
    np.save(job["actions"], predict(model, whole, recurrent=job["algorithm"] == "RecurrentPPO"))


def predict(model: Any, observations: Any, *, recurrent: bool) -> Any:
    """All actions at once; of a recurrent agent one after the other, each with the state that the last one left."""
    if not recurrent:
        return model.predict(observations, deterministic=True)[0]
    made, state = [], None
    count = len(next(iter(observations.values())) if isinstance(observations, dict) else observations)
    for index in range(count):
        one = slice(index, index + 1)
        part = {k: v[one] for k, v in observations.items()} if isinstance(observations, dict) else observations[one]
        action, state = model.predict(part, state, np.array([index == 0]), deterministic=True)
        made.append(action)
    return np.concatenate(made)


def attempt(job: dict[str, Any]) -> str | None:
    """Return why the agent cannot be loaded, or None."""
    try:
        act(job)
    except Exception as error:  # noqa: BLE001 -- whatever that release fails with is the answer
        return f"{type(error).__name__}: {error}"[:300]
    return None


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with open(sys.argv[1]) as opened:
        jobs = json.load(opened)
    for row in jobs:
        print(json.dumps(attempt(row)), flush=True)  # noqa: T201 -- that is how it answers
