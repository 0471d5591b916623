"""Run by another interpreter, with an SB3 of the release that archives were rebuilt for: tells what it loads of them.

``python target_child.py JOBS.json`` takes a list of ``{"path", "algorithm", "observation", "needs_env"}`` and prints
first the releases that it has, then a line of JSON for every job. Loading turns every warning into an error; learning,
which has warnings of its own, does not.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import pickle
import sys
import traceback
import warnings
from collections import OrderedDict
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector.utils import batch_space
except ImportError:  # SB3 before 2.0
    import gym as gymnasium
    from gym import spaces
    from gym.vector.utils import batch_space

SCHEDULES = ("lr_schedule", "clip_range", "clip_range_vf", "exploration_schedule", "delta_std_schedule")
PROGRESS = (1.0, 0.5, 0.0)
VARIABLES = ("log_ent_coef", "ent_coef_tensor")
EPISODE = 3
STEPS = 8
IS_GYM = gymnasium.__name__ == "gym"
"""Whether environments are those of gym 0.21, which return fewer values."""


class Small(gymnasium.Env):
    """Episodes of three steps, random observations and rewards; spaces as asked for."""

    def __init__(self, observation: Any, action: Any) -> None:
        self.observation_space = observation
        self.action_space = action
        self.steps = 0
        self.rng = np.random.RandomState(0)
        if IS_GYM:
            self.spec = SimpleNamespace(max_episode_steps=EPISODE)  # HerReplayBuffer before 1.8 reads it

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.steps = 0
        return self.observed() if IS_GYM else (self.observed(), {})

    def step(self, action: Any) -> Any:
        self.steps += 1
        found = self.observed(), float(self.rng.rand()), self.steps == EPISODE
        return (*found, {}) if IS_GYM else (*found, False, {})

    def observed(self) -> Any:
        """An observation within a few units of zero: what is sampled of an unbounded space need not be."""
        return tamed(self.observation_space.sample(), self.observation_space)

    def action_masks(self) -> Any:
        space = self.action_space
        if isinstance(space, spaces.MultiDiscrete):
            return np.ones(int(space.nvec.sum()), bool)
        return np.ones(2 * space.n if isinstance(space, spaces.MultiBinary) else int(space.n), bool)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.abs(achieved - desired).sum(-1).astype(np.float32)


def tamed(value: Any, space: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return OrderedDict((key, tamed(value[key], part)) for key, part in space.spaces.items())
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        return np.clip(np.clip(value, -10, 10), space.low, space.high).astype(space.dtype)
    return value


# -- spaces -------------------------------------------------------------------------------------------


def fresh(space: Any) -> Any:
    """A space of the same arguments, made here."""
    if isinstance(space, spaces.Box):
        return spaces.Box(space.low, space.high, dtype=space.dtype.type)
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n), **({} if IS_GYM else {"start": int(space.start)}))
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec, dtype=space.dtype.type)
    if isinstance(space, spaces.MultiBinary):
        return spaces.MultiBinary(space.n)
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([fresh(part) for part in space.spaces])
    made = {id(part): fresh(part) for part in space.spaces.values()}  # what is one object there is one here
    return spaces.Dict([(key, made[id(part)]) for key, part in space.spaces.items()])


def distinct(space: Any) -> int:
    """How many objects the parts of a Dict are."""
    return len({id(part) for part in space.spaces.values()}) if isinstance(space, spaces.Dict) else 0


def described_space(space: Any) -> Any:
    """What can be said of a space in JSON."""
    kind = type(space).__name__
    if isinstance(space, spaces.Box):
        bounds = [space.low, space.high, space.bounded_below, space.bounded_above]
        assert all(bound.shape == space.shape for bound in bounds)
        return [kind, space.dtype.name, list(space.shape), *(digest(bound) for bound in bounds)]
    if isinstance(space, spaces.Discrete):
        return [kind, int(space.n), int(getattr(space, "start", 0))]
    if isinstance(space, spaces.MultiDiscrete):
        return [kind, space.dtype.name, space.nvec.tolist()]
    if isinstance(space, spaces.MultiBinary):
        return [kind, list(space.shape)]
    if isinstance(space, spaces.Tuple):
        return [kind, [described_space(part) for part in space.spaces]]
    return [kind, [[key, described_space(part)] for key, part in space.spaces.items()]]


def faults(space: Any) -> list[str]:
    """What a space cannot do that one made here can."""
    other = fresh(space)
    found = []
    for name, copied in (
        ("itself", space),
        ("a deep copy", copy.deepcopy(space)),
        ("pickled again", pickle.loads(pickle.dumps(space))),
    ):
        if type(copied) is not type(other) or copied != other or other != copied:
            found.append(f"{name} is not equal to {other!r}")
        if repr(copied) != repr(other):
            found.append(f"{name} reads {copied!r}, not {other!r}")
        if (copied.shape, copied.dtype) != (other.shape, other.dtype):
            found.append(f"{name} has the shape {copied.shape} and dtype {copied.dtype}")
        copied.seed(5)
        other.seed(5)
        mine, theirs = copied.sample(), other.sample()
        if not copied.contains(theirs) or not other.contains(mine):
            found.append(f"{name} does not contain a sample")
        if str(mine) != str(theirs):
            found.append(f"{name} samples {mine}, not {theirs}")
        if str(copied.to_jsonable([mine])) != str(other.to_jsonable([mine])):
            found.append(f"{name} has another form in JSON")
    try:
        batch_space(space, 2)
        DummyVecEnv([partial(Small, space, spaces.Discrete(2))]).reset()
    except Exception as error:  # noqa: BLE001 -- whatever is raised
        found.append(f"no environment can have it: {type(error).__name__}: {error}")
    return found


# -- models -------------------------------------------------------------------------------------------


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def tensors(model: Any) -> dict[str, Any]:
    return {
        name: [str(tensor.dtype), list(tensor.shape), digest(tensor.detach().cpu().numpy())]
        for name, tensor in model.policy.state_dict().items()
    }


def noise(value: Any) -> Any:
    """An action noise: its class and parameters, those of the first environment."""
    if value is None:
        return None
    one = value.noises[0] if hasattr(value, "noises") else value
    sample = value()
    return [
        type(value).__name__, getattr(value, "n_envs", None), np.asarray(one._mu).tolist(),
        np.asarray(one._sigma).tolist(), list(sample.shape),
    ]  # fmt: skip


def observation(given: Any, space: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return OrderedDict((key, observation(given[key], part)) for key, part in space.spaces.items())
    return np.asarray(given, dtype=space.dtype)


def steps(model: Any) -> dict[str, list[float]]:
    """How often each optimizer updated each of its parameters."""
    state_dicts, _ = model._get_torch_save_params()
    found = {}
    for name in state_dicts:
        if name.endswith("optimizer"):
            optimizer = model
            for part in name.split("."):
                optimizer = getattr(optimizer, part)
            found[name] = [float(state["step"]) for state in optimizer.state.values() if "step" in state]
    return found


def schedules(model: Any) -> dict[str, Any]:
    found = {}
    for name in SCHEDULES:
        schedule = getattr(model, name, None)
        if schedule is not None:
            found[name] = [float(schedule(progress)) for progress in PROGRESS]
    return found


def described(model: Any, job: dict[str, Any]) -> dict[str, Any]:
    actions, _ = model.predict(observation(job["observation"], model.observation_space), deterministic=True)
    train_freq = getattr(model, "train_freq", None)
    buffer = getattr(model, "replay_buffer", None)
    return {
        "spaces": [described_space(model.observation_space), described_space(model.action_space)],
        "distinct": distinct(model.observation_space),
        "faults": faults(model.observation_space) + faults(model.action_space),
        "schedules": schedules(model),
        "tensors": tensors(model),
        "variables": {
            name: getattr(model, name).detach().numpy().tolist()
            for name in VARIABLES
            if getattr(model, name, None) is not None
        },
        "actions": np.asarray(actions).tolist(),
        "steps": steps(model),
        "groups": {
            name: [{key: part for key, part in group.items() if key != "params"} for group in state["param_groups"]]
            for name, state in model.get_parameters().items()
            if "optimizer" in name
        },
        "train_freq": None if train_freq is None else [train_freq.frequency, train_freq.unit.value],
        "noise": noise(getattr(model, "action_noise", None)),
        "buffer": None if buffer is None else type(buffer).__name__,
        "timesteps": model.num_timesteps,
    }


def learned(cls: Any, path: str, env: Any, model: Any) -> dict[str, Any]:
    """Learn for a few steps with small buffers, save, and load again."""
    small = {
        "n_steps": STEPS, "batch_size": STEPS, "n_epochs": 1, "buffer_size": 50 * env.num_envs,
        "learning_starts": 2 * EPISODE * env.num_envs, "gradient_steps": 1,
        "cg_max_steps": 2, "n_critic_updates": 1,
    }  # fmt: skip
    is_off_policy = hasattr(model, "buffer_size")
    if is_off_policy:
        del small["n_steps"]  # of its targets, since SB3 2.7
    kept = {name: value for name, value in small.items() if hasattr(model, name)}
    model = cls.load(path, env=env, device="cpu", **kept)
    before = tensors(model)
    model.learn((20 if is_off_policy else 3 * STEPS) * env.num_envs)
    after = tensors(model)
    return {
        "changed": sum(before[name] != tensor for name, tensor in after.items()),
        "finite": all(bool(torch.isfinite(tensor).all()) for tensor in model.policy.state_dict().values()),
        "again": again(model, env, after),
    }


def again(model: Any, env: Any, before: dict[str, Any]) -> str:
    """What is wrong with the model after it was saved and loaded once more."""
    buffer = io.BytesIO()
    try:
        model.save(buffer)
        loaded = type(model).load(buffer, env=env, device="cpu")
    except Exception:  # noqa: BLE001 -- whatever SB3 raises
        return traceback.format_exc()
    return "" if tensors(loaded) == before else "it has other tensors"


def answer(job: dict[str, Any]) -> dict[str, Any]:
    cls = getattr(stable_baselines3, job["algorithm"], None) or getattr(sb3_contrib, job["algorithm"])
    stage = "load"
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "Shared layers in the mlp_extractor", DeprecationWarning)  # SB3 1.7
            data, _, _ = stable_baselines3.common.save_util.load_from_zip_file(job["path"], device="cpu")
            made = partial(Small, fresh(data["observation_space"]), fresh(data["action_space"]))
            env = DummyVecEnv([made] * data.get("n_envs", 1))
            model = cls.load(job["path"], env=env if job["needs_env"] else None, device="cpu")
            stage = "describe"
            found = described(model, job)
        stage = "learn"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["learned"] = learned(cls, job["path"], env, model)
    except Exception:  # noqa: BLE001 -- whatever SB3 raises
        return {"path": job["path"], "stage": stage, "error": traceback.format_exc()}
    return {"path": job["path"], **found}


def main(jobs: str) -> None:
    torch.set_num_threads(1)
    with open(jobs, encoding="utf-8") as file:
        todo = json.load(file)
    versions = {
        module.__name__: module.__version__ for module in (stable_baselines3, sb3_contrib, gymnasium, np, torch)
    }
    answers = sys.stdout
    answers.write(json.dumps(versions) + "\n")
    with contextlib.redirect_stdout(sys.stderr):  # where a verbose agent talks
        for job in todo:
            answers.write(json.dumps(answer(job), default=str) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
