"""Run by another process, with the SB3 of the tests: what its own ``load`` makes of archives that are trusted.

``python load_child.py JOBS.json`` takes a list of ``[path, algorithm]`` and writes a line of JSON for each: what was
lost or refused, an empty list if the archive was loaded whole. Each archive is loaded in a fork of its own, since
bytecode of another Python can end the process.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import sb3_contrib
import stable_baselines3
import torch
from stable_baselines3.common.save_util import load_from_zip_file, recursive_getattr

SCHEDULES = (
    "learning_rate",
    "lr_schedule",
    "clip_range",
    "clip_range_vf",
    "exploration_schedule",
    "delta_std_schedule",
)
PROGRESS = (1.0, 0.5, 0.0)


def load(path: str, algorithm: str) -> list[str]:
    """Load an archive as its author would; return what is missing."""
    kind = getattr(stable_baselines3, algorithm, None) or getattr(sb3_contrib, algorithm, None)
    if not hasattr(kind, "load"):
        return [f"no algorithm {algorithm}"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model: Any = kind.load(path, device="cpu")  # type: ignore[union-attr]
        data, parameters, _ = load_from_zip_file(path, device="cpu")
    lost = [str(row.message) for row in caught if "Could not deserialize" in str(row.message)]
    lost += [f"{key} is not an attribute" for key in data or () if key not in model.__dict__]
    found = model.get_parameters()
    for name, tree in parameters.items():
        if not name.endswith("optimizer"):
            lost += [f"{name}: {key}" for key, tensor in tree.items() if not torch.equal(tensor, found[name][key])]
            continue
        if len(tree["state"]) != len(found[name]["state"]):
            lost.append(f"{name}: states")
        optimizer = recursive_getattr(model, name)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    for key in SCHEDULES:
        schedule = model.__dict__.get(key)
        if callable(schedule):
            lost += [] if all(isinstance(float(schedule(progress)), float) for progress in PROGRESS) else [key]
    model.predict(model.observation_space.sample())
    return lost


def load_in_fork(path: str, algorithm: str) -> list[str]:
    """Return what :func:`load` does, or how the process ended."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            lost = load(path, algorithm)
        except BaseException as error:  # noqa: BLE001 -- whatever it is, it was not loaded
            lost = [f"{type(error).__name__}: {error}"]
        os.write(write_end, json.dumps(lost)[:4096].encode() if lost else b"[]")
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return [] if text == b"[]" else [text.decode() or "the process ended"]


if __name__ == "__main__":
    torch.set_num_threads(1)
    with open(sys.argv[1], encoding="utf-8") as jobs:
        for job in json.load(jobs):
            sys.stdout.write(json.dumps(load_in_fork(*job)) + "\n")
            sys.stdout.flush()
