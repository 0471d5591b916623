"""Replay buffers that real SB3 collects and saves: the same arrays, and the episodes that were recorded meanwhile.

Run with real torch and stable-baselines3: ``python -m pytest -m interop tests/interop/test_replay_live.py``.
"""

from __future__ import annotations

import pickle
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

import gymnasium
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.her import HerReplayBuffer

import sbformat
from sbformat.arrayfiles.writer import write_arrays
from sbformat.formats.replay_buffer import Episode, read_replay_buffer
from sbformat.tools.extract import extract
from sbformat.tools.scan import scan

if TYPE_CHECKING:
    from pathlib import Path

_BUFFER: Final = 240


class Step(NamedTuple):
    """What a recording environment did: each observation has a number of its own."""

    number: float
    next_number: float
    reward: float
    end: str


class Recorder(gymnasium.Env[Any, Any]):
    """An environment whose episodes end at random, by termination or by timeout, and that writes down its steps."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.random = np.random.default_rng(seed)
        self.number = 0
        self.steps: list[Step] = []
        self.left = 0
        plain = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.observation_space: Any = plain
        if kind == "dict":
            self.observation_space = spaces.Dict({"a": plain, "b/c": spaces.Box(0, 255, (2, 3), np.uint8)})
        if kind == "goal":
            names = ("achieved_goal", "desired_goal", "observation")
            self.observation_space = spaces.Dict(dict.fromkeys(names, plain))
        self.action_space: Any = spaces.Box(-1, 1, (1,)) if kind == "goal" else spaces.Discrete(3)

    def observe(self) -> Any:
        plain = np.array([self.number, -self.number], np.float64)
        if self.kind == "dict":
            return {"a": plain, "b/c": np.full((2, 3), self.number % 256, np.uint8)}
        if self.kind == "goal":
            return {"achieved_goal": plain + 1, "desired_goal": plain + 2, "observation": plain}
        return plain

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.number += 1
        self.left = int(self.random.integers(1, 15))
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        before = self.number
        self.number += 1
        self.left -= 1
        reward = float(np.float32(self.random.standard_normal()))
        is_over, is_late = not self.left, bool(self.random.integers(2))
        end = ("timeout" if is_late else "terminated") if is_over else ""
        self.steps.append(Step(before, self.number, reward, end))
        return self.observe(), reward, is_over and not is_late, is_over and is_late, {"n": before}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.zeros(len(achieved), np.float32)


def collected(path: Path, kind: str, n_envs: int, steps: int, **options: Any) -> tuple[Any, list[Recorder]]:
    """Have SB3 fill a buffer and save it."""
    recorders = [Recorder(kind, seed) for seed in range(n_envs)]
    env = DummyVecEnv([lambda recorder=recorder: recorder for recorder in recorders])  # type: ignore[misc]
    algorithm, policy = (SAC, "MultiInputPolicy") if kind == "goal" else (DQN, "MlpPolicy")
    policy = "MultiInputPolicy" if kind == "dict" else policy
    model: Any = algorithm(policy, env, buffer_size=_BUFFER, learning_starts=10**9, device="cpu", **options)
    model.learn(steps)
    model.save_replay_buffer(path)
    return model.replay_buffer, recorders


def cut(steps: list[Step]) -> list[tuple[list[Step], str]]:
    """Steps as episodes."""
    episodes: list[tuple[list[Step], str]] = []
    current: list[Step] = []
    for step in steps:
        current.append(step)
        if step.end:
            episodes.append((current, step.end))
            current = []
    return [*episodes, (current, "unfinished")] if current else episodes


def as_arrays(state: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a real buffer by our names."""
    found = {}
    for name, value in state.items():
        if isinstance(value, np.ndarray) and value.dtype != object:
            found[name] = value
        elif isinstance(value, dict):
            parts = {key: part for key, part in value.items() if isinstance(part, np.ndarray)}
            found.update({f"{name}/{key.replace('/', '~1')}": part for key, part in parts.items()})
    return found


CASES: Final = {
    "plain": ("box", ReplayBuffer, {}),
    "dict": ("dict", DictReplayBuffer, {}),
    "n-step": ("box", NStepReplayBuffer, {"n_steps": 3}),
    "shared": (
        "box",
        ReplayBuffer,
        {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}},
    ),
    "hindsight": ("goal", HerReplayBuffer, {"replay_buffer_class": HerReplayBuffer}),
    "hindsight-infos": (
        "goal",
        HerReplayBuffer,
        {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": {"copy_info_dict": True}},
    ),
}
FILLS: Final = {"empty-ish": 60, "exactly": _BUFFER, "over": 333, "twice": 2 * _BUFFER, "far": 700}


@pytest.mark.parametrize(("case", "n_envs", "fill"), list(product(CASES, (1, 3), FILLS)))
def test_episodes_are_those_that_were_recorded(tmp_path: Path, case: str, n_envs: int, fill: str) -> None:
    kind, cls, options = CASES[case]
    path = tmp_path / "buffer.pkl"
    real, recorders = collected(path, kind, n_envs, FILLS[fill], **options)
    assert type(real) is cls
    found = read_replay_buffer(path)
    assert (str(found.type), found.is_known) == (f"{cls.__module__}.{cls.__name__}", True)
    for name in ("buffer_size", "n_envs", "pos", "full", "optimize_memory_usage", "handle_timeout_termination"):
        assert getattr(found, name) == getattr(real, name)
    assert found.size() == real.size()
    assert (found.n_steps, found.gamma) == (getattr(real, "n_steps", None), getattr(real, "gamma", None))
    arrays = as_arrays(vars(real))
    assert set(found.arrays) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)
        assert found.arrays[name].dtype == array.dtype
    check_episodes(found, recorders, is_told=real.handle_timeout_termination)


def check_episodes(found: Any, recorders: list[Recorder], *, is_told: bool) -> None:
    kept = found.size() - (found.full and found.optimize_memory_usage)
    episodes = found.episodes()
    for env, recorder in enumerate(recorders):
        expected = cut(recorder.steps[-kept:])
        mine = [episode for episode in episodes if episode.env == env]
        assert len(mine) == len(expected)
        for episode, (steps, end) in zip(mine, expected):
            assert episode.length == len(steps)
            assert episode.end == (end if is_told or end == "unfinished" else "terminated")
            check_steps(found, episode, steps)


def check_steps(found: Any, episode: Episode, steps: list[Step]) -> None:
    made = found.steps(episode)
    numbers = {name: array[:, 0].tolist() for name, array in made.items() if name.startswith(("obs", "next"))}
    plain = next(name for name in ("observations", "observations/a", "observations/observation") if name in numbers)
    assert numbers[plain] == [step.number for step in steps]
    # Of a shared array the row behind an episode's last is the next episode's first, as SB3 has it.
    sure = len(steps) - (found.optimize_memory_usage and episode.end != "unfinished")
    assert numbers[f"next_{plain}"][:sure] == [step.next_number for step in steps[:sure]]
    assert len(made["actions"]) == len(steps)
    assert made["rewards"].tolist() == [step.reward for step in steps]
    rows = found.positions(episode)
    assert found.arrays["rewards"][rows, episode.env].tolist() == [step.reward for step in steps]
    if found.optimize_memory_usage:
        behind = found.arrays[plain][found.next_positions(episode), episode.env, 0]
        assert behind.tolist()[:sure] == [step.next_number for step in steps[:sure]]


class Own(ReplayBuffer):
    """A user's own buffer."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.priorities = np.arange(self.buffer_size, dtype=np.float64)


def test_a_subclass_is_read_and_told(tmp_path: Path) -> None:
    path = tmp_path / "buffer.pkl"
    real, recorders = collected(path, "box", 2, 100, replay_buffer_class=Own)
    found = read_replay_buffer(path)
    assert (found.type.name, found.is_known) == ("Own", False)
    np.testing.assert_array_equal(found.arrays["priorities"], real.priorities)
    check_episodes(found, recorders, is_told=True)
    assert (scan(path).verdict, scan(path).reason) == ("dangerous", "not-known")


@pytest.mark.parametrize("case", CASES)
def test_scan_says_that_they_are_clean(tmp_path: Path, case: str) -> None:
    kind, _, options = CASES[case]
    collected(tmp_path / "buffer.pkl", kind, 1, 50, **options)
    assert scan(tmp_path / "buffer.pkl").verdict == "clean"


@pytest.mark.parametrize("name", ["o.safetensors", "o.npz", "o"])
def test_what_is_extracted_is_what_export_writes_of_real_arrays(tmp_path: Path, name: str) -> None:
    real, _ = collected(tmp_path / "buffer.pkl", "dict", 2, 400)
    extract(sbformat.read(tmp_path / "buffer.pkl"), tmp_path / name)
    write_arrays(as_arrays(vars(real)), tmp_path / f"real-{name}")
    if name == "o":
        written = tmp_path / name / "observations" / "a.npy"
        assert written.read_bytes() == (tmp_path / "real-o" / "observations" / "a.npy").read_bytes()
    else:
        from sbformat.arrayfiles.reader import read_arrays

        mine, theirs = read_arrays(tmp_path / name), read_arrays(tmp_path / f"real-{name}")
        assert {key: mine[key].tobytes() for key in theirs} == {key: part.tobytes() for key, part in theirs.items()}


def test_protocol_4_says_the_same(tmp_path: Path) -> None:
    real, _ = collected(tmp_path / "buffer.pkl", "box", 1, 100)
    for protocol in (2, 3, 4, 5):
        (tmp_path / "again.pkl").write_bytes(pickle.dumps(real, protocol))
        again = read_replay_buffer(tmp_path / "again.pkl")
        assert again.arrays["observations"].tobytes() == real.observations.tobytes()
        assert again.episodes() == read_replay_buffer(tmp_path / "buffer.pkl").episodes()
