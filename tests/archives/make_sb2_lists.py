"""Make the table of parameter lists of real Stable Baselines 2; run on Python 3.7, once a release.

    pip install tensorflow==1.15.5 "protobuf<3.21" "numpy<1.19" "cloudpickle<1.7" scipy pandas joblib gym==0.17.3
    git -C stable-baselines checkout v2.5.0
    PYTHONPATH=stable-baselines python tests/archives/make_sb2_lists.py v2.5.0 >> rows

Releases before 2.4 need ``async`` renamed, a keyword of Python since. Without mpi4py a module of that name that says it
is alone will do: nothing is trained. Each model is made and saved; the session that ``save`` asks for values gives
names and shapes instead. At last the rows of all releases are joined where they are equal:

    python tests/archives/make_sb2_lists.py join < rows > tests/nets/sb2_lists.txt
"""

# ruff: noqa: BLE001, T201 -- a program; what a release cannot make is told and left out

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from typing import Any

import gym
import numpy as np
import stable_baselines
import tensorflow as tf
from gym import spaces
from stable_baselines.common.vec_env import DummyVecEnv

SPACES = {
    "box4": spaces.Box(-1, 1, (4,), np.float32),
    "box2": spaces.Box(-1, 1, (2,), np.float32),
    "box2x3": spaces.Box(-1, 1, (2, 3), np.float32),
    "image": spaces.Box(0, 255, (44, 44, 3), np.uint8),
    "discrete5": spaces.Discrete(5),
    "discrete3": spaces.Discrete(3),
    "multi3x4": spaces.MultiDiscrete([3, 4]),
    "multi2x3": spaces.MultiDiscrete([2, 3]),
    "bits6": spaces.MultiBinary(6),
    "bits4": spaces.MultiBinary(4),
}
CLIPPED = {"A2C", "ACER", "ACKTR", "PPO2"}
OFF_POLICY = {"DQN": "deepq", "DDPG": "ddpg", "SAC": "sac", "TD3": "td3"}
ARCHITECTURES = (
    {"net_arch": [16, {"vf": [8, 9], "pi": [7]}]},
    {"net_arch": [16, 12]},
    {"net_arch": []},
    {"layers": [10, 11, 12]},
    {"net_arch": [{"pi": [5, 6]}]},
)
LSTM_ARCHITECTURES = (
    ("MlpLstmPolicy", {"n_lstm": 8, "layers": [12]}),
    ("MlpLstmPolicy", {"n_lstm": 8, "net_arch": [10, "lstm", {"vf": [5, 6], "pi": [7]}]}),
    ("MlpLnLstmPolicy", {"n_lstm": 8, "net_arch": ["lstm", 11, {"vf": [5]}]}),
)
NORMALISATIONS = (
    {"normalize_returns": True},
    {"normalize_observations": True},
    {"normalize_returns": True, "normalize_observations": True, "param_noise": "adaptive"},
    {"normalize_returns": True, "enable_popart": True},
)


def actor_critics() -> Any:
    """Rows of algorithm, policy, its keywords, observations, actions and the algorithm's keywords."""
    for name in ("PPO2", "A2C", "ACKTR", "ACER", "PPO1", "TRPO", "GAIL"):
        actions = ("discrete3",) if name == "ACER" else ("discrete3", "box2")
        for action in actions:
            yield name, "MlpPolicy", {}, "box4", action, {}
        yield name, "MlpPolicy", {}, "discrete5", "discrete3", {}
        yield name, "CnnPolicy", {}, "image", "discrete3", {}
        for keywords in ARCHITECTURES:
            yield name, "MlpPolicy", keywords, "box4", "discrete3", {}
        if name in ("PPO2", "PPO1", "TRPO"):
            for action in ("multi2x3", "bits4"):
                yield name, "MlpPolicy", {}, "box4", action, {}
            for observation in ("multi3x4", "bits6", "box2x3"):
                yield name, "MlpPolicy", {}, observation, "box2", {}
        if name in CLIPPED:
            for kind in ("Lstm", "LnLstm"):
                yield name, f"Mlp{kind}Policy", {"n_lstm": 8}, "box4", "discrete3", {}
                yield name, f"Mlp{kind}Policy", {}, "box4", actions[-1], {}
                yield name, f"Cnn{kind}Policy", {"n_lstm": 8}, "image", "discrete3", {}
            for policy, keywords in LSTM_ARCHITECTURES:
                yield name, policy, keywords, "box4", "discrete3", {}
    yield "PPO2", "CnnPolicy", {"pad": "SAME"}, "image", "box2", {}
    yield "PPO2", "CnnPolicy", {"one_dim_bias": True}, "image", "box2", {}


def others() -> Any:
    for policy in ("MlpPolicy", "LnMlpPolicy", "CnnPolicy", "LnCnnPolicy"):
        seen = "image" if "Cnn" in policy else "box4"
        for keywords in ({}, {"dueling": False}, {"layers": [8, 9, 10]}):
            yield "DQN", policy, keywords, seen, "discrete3", {}
        yield "DQN", policy, {}, seen, "discrete3", {"param_noise": True}
        for name in ("SAC", "TD3", "DDPG"):
            for keywords in ({}, {"layers": [8, 9, 10]}, {"layers": [8]}):
                yield name, policy, keywords, seen, "box2", {}
        yield "SAC", policy, {}, seen, "box2", {"ent_coef": "auto"}
        yield "SAC", policy, {}, seen, "box2", {"ent_coef": 0.1}
        yield "DDPG", policy, {}, seen, "box2", {"param_noise": "adaptive"}
        for keywords in NORMALISATIONS if seen == "box4" else ():
            yield "DDPG", policy, {}, seen, "box2", keywords
    for seen in ("discrete5", "multi3x4"):
        yield "DQN", "MlpPolicy", {}, seen, "discrete3", {}
    for policy in ("MlpPolicy", "LnMlpPolicy"):
        yield "DQN", policy, {"layers": []}, "box4", "discrete3", {}
    for name in ("SAC", "DDPG", "TD3"):
        yield name, "MlpPolicy", {}, "discrete5", "box2", {}
    yield "TD3", "MlpPolicy", {"layer_norm": True}, "box4", "box2", {}


class Env(gym.Env):
    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self) -> Any:
        return self.observation_space.sample()

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, {}


class Session:
    """Gives names and shapes for values."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(fetches, list) and all(isinstance(variable, tf.Variable) for variable in fetches):
            return rows_of(fetches)
        return self.real.run(fetches, *args, **kwargs)


class NoExpert:
    init_pointer = log_info = prepare_pickling = lambda *_: None


def rows_of(variables: Any) -> Any:
    return [(variable.name[: -len(":0")], tuple(variable.shape.as_list())) for variable in variables]


def saved(model: Any) -> Any:
    """What a pickle of the model would hold."""
    if hasattr(model, "get_parameter_list"):  # since 2.6
        return rows_of(model.get_parameter_list())
    model = getattr(model, "trpo", model)
    found: dict = {}
    model.sess = Session(model.sess)
    type(model)._save_to_file = staticmethod(lambda _, data=None, params=None, **__: found.update(params=params))
    model.save("nowhere")
    return found["params"]


def made(name: str, policy: str, keywords: Any, seen: str, action: str, settings: Any) -> Any:
    """Make the model; its keywords stand in a subclass of the policy where the release has no ``policy_kwargs``."""
    module = f"{OFF_POLICY[name]}.policies" if name in OFF_POLICY else "common.policies"
    cls = getattr(stable_baselines, name)
    kind = getattr(__import__(f"stable_baselines.{module}", fromlist=["policies"]), policy)
    known = inspect.signature(cls.__init__).parameters
    settings = dict(settings)
    if keywords and ("policy_kwargs" in known or name == "GAIL"):
        settings["policy_kwargs"] = keywords
    elif keywords:
        kind = type("Custom", (kind,), {"__init__": functools.partialmethod(kind.__init__, **keywords)})
    if settings.get("param_noise") == "adaptive":
        from stable_baselines.ddpg.noise import AdaptiveParamNoiseSpec

        settings["param_noise"] = AdaptiveParamNoiseSpec()
    env: Any = Env(SPACES[seen], SPACES[action])
    if name in CLIPPED:
        settings["n_steps"] = 4
        one = env
        env = DummyVecEnv([lambda: one])
        if name == "PPO2" and "Lstm" in policy:
            settings["nminibatches"] = 1
    for size in ("memory_limit", "buffer_size"):
        if name in OFF_POLICY and size in known:
            settings[size] = 10
            break
    if name == "GAIL":
        return cls(kind, env, expert_dataset=NoExpert(), **settings)
    return cls(kind, env, **settings)


def shortened(rows: Any) -> str:
    """Write a list as ``tests/nets/sb2_lists.txt`` has it."""
    words: list = []
    at, parent = 0, ""
    while at < len(rows):
        copy = next(copies(rows, at), None)
        if copy is not None:
            words.append(copy[0])
            at += copy[1]
            parent = ""
            continue
        name, shape = rows[at]
        folder, _, leaf = name.rpartition("/")
        above = parent.rpartition("/")[0]
        if folder == parent:
            name = leaf
        elif above and folder.rpartition("/")[0] == above:
            name = f"..{name[len(above) :]}"
        words.append(f"{name}={'x'.join(map(str, shape)) or '-'}")
        parent = folder
        at += 1
    return " ".join(words)


def copies(rows: Any, at: int) -> Any:
    """Where a list repeats, under another scope or the same, what it had: the word for it, and how many rows."""
    if at > 1 and rows[at : 2 * at] == rows[:at]:
        yield "twice", at
    first = rows[at][0].split("/")
    for length in range(len(first) - 1, 0, -1):
        scope = "/".join(first[:length])
        for source in sorted({name[: end.start()] for name, _ in rows[:at] for end in re.finditer("/", name)}):
            source_rows = list(dict.fromkeys(row for row in rows[:at] if row[0].startswith(f"{source}/")))
            moved = [(scope + name[len(source) :], shape) for name, shape in source_rows]
            if len(moved) > 3 and rows[at : at + len(moved)] == moved:
                yield f"{scope}:={source}", len(moved)


def joined(lines: Any) -> Any:
    """One line for what is equal: releases and algorithms, then policy, spaces, keywords and list."""
    found: dict = {}
    for line in lines:
        release, name, *row = line.rstrip("\n").split("\t")
        found.setdefault("\t".join(row), {}).setdefault(json.loads(name), []).append(release)
    for row, names in found.items():
        together: dict = {}
        for name, releases in names.items():
            together.setdefault(" ".join(releases), []).append(name)
        for releases, same in together.items():
            yield "\t".join([releases, " ".join(same), row])


def main() -> None:
    release = sys.argv[1]
    if release == "join":
        print(*joined(sys.stdin), sep="\n")
        return
    for row in (*actor_critics(), *others()):
        try:
            model = made(*row)
        except Exception as error:  # what a release cannot do
            print(release, *row[:2], error, file=sys.stderr)
            continue
        print("\t".join([release, *(json.dumps(cell) for cell in row), shortened(saved(model))]))
        model = getattr(model, "trpo", model)
        model.sess.close()


if __name__ == "__main__":
    main()
