"""Normalisation statistics and the real Stable-Baselines3: the same numbers both ways, and bundles that it loads.

``SBFORMAT_SB3_2_0`` names a Python interpreter that has SB3 2.0, and so on for every target from 1.6, as in
``test_rebuild_targets.py``.
"""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import copy
import glob
import json
import os
import subprocess
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

import sbformat
from sbformat import bundle, read_vecnormalize, rebuild_vecnormalize, unbundle, write_vecnormalize
from sbformat.known.changes import RELEASES
from tests.helpers.shared_files import CORPUS, generated_files, summarize_counts
from tests.interop.rebuild_envs import environment, sample

if TYPE_CHECKING:
    from pathlib import Path

HERE: Final = os.path.dirname(os.path.abspath(__file__))
TARGETS: Final = {
    str(target): path for target in RELEASES if (path := os.environ.get(f"SBFORMAT_SB3_{target.major}_{target.minor}"))
}
COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_vecnormalize_live.py:")

VECTOR: Final = spaces.Box(np.array([-1, -2, -np.inf], "f4"), np.array([1, 2, np.inf], "f4"))
WIDE: Final = spaces.Box(-np.inf, np.inf, (2, 2), np.float64)
IMAGE: Final = spaces.Box(0, 255, (8, 8, 1), np.uint8)
DICT: Final = spaces.Dict({"vector": VECTOR, "wide": WIDE, "choice": spaces.Discrete(3)})
GOALS: Final = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), VECTOR))
ACTIONS: Final = spaces.Box(-1, 1, (2,))

CASES: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "vector": (VECTOR, {}),
    "float64": (WIDE, {"clip_obs": 0.5, "clip_reward": 0.25, "epsilon": 1e-3, "gamma": 0.5}),
    "image": (IMAGE, {}),
    "keys": (DICT, {"norm_obs_keys": ["wide"]}),
    "both keys": (DICT, {"norm_obs_keys": ["wide", "vector"], "clip_obs": 3}),
    "goals": (GOALS, {}),
    "no observations": (spaces.Discrete(4), {"norm_obs": False}),
    "no rewards": (VECTOR, {"norm_reward": False}),
    "not training": (VECTOR, {"training": False}),
}


def trained(space: Any, options: dict[str, Any], steps: int = 40, count: int = 2) -> Any:
    """A real VecNormalize that has seen something."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = VecNormalize(environment(space, ACTIONS, count), **options)
    made.reset()
    for _ in range(steps):
        made.step(np.zeros((count, 2), np.float32))
    return made


def observations(space: Any, count: int) -> Any:
    random = np.random.default_rng(count)
    found = [sample(space, random) for _ in range(count)]
    if isinstance(space, spaces.Dict):
        return {key: np.stack([part[key] for part in found]) for key in space.spaces}
    return np.stack(found)


def same_bits(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return list(one) == list(other) and all(same_bits(one[key], other[key]) for key in one)
    one, other = np.asarray(one), np.asarray(other)
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def check_same(value: Any, real: Any, space: Any) -> None:
    """Both normalise, and take back, the same to the last bit."""
    for count in (1, 2, 7, 200):
        obs = observations(space, count)
        before = {key: part.copy() for key, part in obs.items()} if isinstance(obs, dict) else obs.copy()
        normal = value.normalize_obs(obs)
        assert same_bits(normal, real.normalize_obs(obs))
        assert same_bits(value.unnormalize_obs(normal), real.unnormalize_obs(normal))
        assert same_bits(obs, before)
        rewards = np.random.default_rng(count).normal(0, 20, count)
        for given in (rewards, rewards.astype(np.float32), rewards.astype(np.int64)):
            assert same_bits(value.normalize_reward(given), real.normalize_reward(given))
            assert same_bits(value.unnormalize_reward(given), real.unnormalize_reward(given))
        COUNTED["observations normalised as SB3 does"] += count


def loaded(path: Any, space: Any, count: int = 2) -> Any:
    """What SB3 loads, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return VecNormalize.load(str(path), environment(space, ACTIONS, count))


@pytest.mark.parametrize("name", CASES)
def test_both_normalise_the_same(name: str, tmp_path: Path) -> None:
    space, options = CASES[name]
    real = trained(space, options)
    real.save(str(tmp_path / "real.pkl"))
    value = read_vecnormalize(tmp_path / "real.pkl")
    check_same(value, real, space)
    assert same_bits(value.old_obs, real.get_original_obs())
    assert same_bits(value.old_reward, real.get_original_reward())
    write_vecnormalize(value, tmp_path / "ours.pkl")
    assert read_vecnormalize(tmp_path / "ours.pkl") == value
    again = loaded(tmp_path / "ours.pkl", space)
    check_same(value, again, space)
    assert again.observation_space == real.observation_space
    assert again.action_space == real.action_space
    state, expected = again.__getstate__(), real.__getstate__()
    assert set(state) == set(expected)
    for key in ("clip_obs", "clip_reward", "gamma", "epsilon", "training", "norm_obs", "norm_reward", "norm_obs_keys"):
        assert state[key] == expected[key]
    again.reset()
    for _ in range(5):
        again.step(np.zeros((2, 2), np.float32))
    again.save(str(tmp_path / "again.pkl"))
    assert read_vecnormalize(tmp_path / "again.pkl").num_envs == 2


def test_numbers_go_on_from_where_they_were(tmp_path: Path) -> None:
    real = trained(VECTOR, {})
    real.save(str(tmp_path / "real.pkl"))
    write_vecnormalize(read_vecnormalize(tmp_path / "real.pkl"), tmp_path / "ours.pkl")
    both = [loaded(tmp_path / name, VECTOR) for name in ("real.pkl", "ours.pkl")]
    for env in both:
        env.reset()
        for _ in range(20):
            env.step(np.zeros((2, 2), np.float32))
    for name in ("obs_rms", "ret_rms"):
        one, other = (getattr(env, name) for env in both)
        assert same_bits(one.mean, other.mean)
        assert same_bits(one.var, other.var)
        assert one.count == other.count


def test_statistics_alone_are_loaded(tmp_path: Path) -> None:
    statistics = RunningMeanStd(shape=(3,))
    statistics.update(np.random.default_rng(0).normal(3, 2, (50, 3)))
    value = sbformat.VecNormalize(
        obs_rms=sbformat.RunningMeanStd(statistics.mean, statistics.var, statistics.count), norm_reward=False
    )
    write_vecnormalize(value, tmp_path / "ours.pkl")
    again = loaded(tmp_path / "ours.pkl", VECTOR)
    check_same(value, again, VECTOR)
    assert again.observation_space == VECTOR
    assert again.action_space == ACTIONS
    again.reset()
    again.step(np.zeros((2, 2), np.float32))
    again.training = False
    assert again.ret_rms.count > 1


# -- files of every release ---------------------------------------------------------------------------

FILES: Final = [str(path) for path in generated_files("vecnormalize*.pkl", "[0-9]*", "sb2")] + sorted(
    path for path in glob.glob(str(CORPUS / "side" / "*vec*normalize*.pkl"))
)


def space_like(path: Any) -> Any:
    """The observation space of a file, made by gymnasium's own unpickling of what we write."""
    import pickle

    with open(path, "rb") as file:
        return pickle.load(file)


@pytest.mark.skipif(not FILES, reason="no files beside the project")
@pytest.mark.parametrize("path", FILES, ids=os.path.basename)
def test_files_of_every_release_load_today(path: str, tmp_path: Path) -> None:
    value, report = rebuild_vecnormalize(path)
    assert all(row.message or row.action == "kept" for row in report.rows)
    write_vecnormalize(value, tmp_path / "ours.pkl")
    held = space_like(tmp_path / "ours.pkl")
    env = environment(held.observation_space, held.action_space)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        real = VecNormalize.load(str(tmp_path / "ours.pkl"), env)
    check_same(value, real, held.observation_space)
    COUNTED["files of every release that SB3 loads"] += 1


# -- bundles ------------------------------------------------------------------------------------------

SMALL: Final = {"policy_kwargs": {"net_arch": [8]}, "device": "cpu", "seed": 0}
ON_POLICY: Final = {**SMALL, "n_steps": 8, "gae_lambda": 0.9}
OFF_POLICY: Final = {**SMALL, "buffer_size": 64, "batch_size": 4, "learning_starts": 4}
AGENTS: Final[dict[str, tuple[Any, str, Any, dict[str, Any]]]] = {
    "PPO": (sb3.PPO, "MlpPolicy", VECTOR, {**ON_POLICY, "batch_size": 8, "n_epochs": 1}),
    "A2C": (sb3.A2C, "MlpPolicy", VECTOR, ON_POLICY),
    "DQN": (sb3.DQN, "MlpPolicy", VECTOR, {**OFF_POLICY, "train_freq": 4}),
    "SAC": (sb3.SAC, "MlpPolicy", VECTOR, OFF_POLICY),
    "TD3": (sb3.TD3, "MlpPolicy", VECTOR, OFF_POLICY),
    "DDPG": (sb3.DDPG, "MlpPolicy", VECTOR, OFF_POLICY),
    "TQC": (contrib.TQC, "MlpPolicy", VECTOR, OFF_POLICY),
    "QRDQN": (contrib.QRDQN, "MlpPolicy", VECTOR, {**OFF_POLICY, "train_freq": 4}),
    "TRPO": (contrib.TRPO, "MlpPolicy", VECTOR, {**ON_POLICY, "batch_size": 8}),
    "ARS": (contrib.ARS, "MlpPolicy", VECTOR, {**SMALL, "n_delta": 2, "n_top": 2}),
    "RecurrentPPO": (
        contrib.RecurrentPPO,
        "MlpLstmPolicy",
        VECTOR,
        {
            **ON_POLICY,
            "batch_size": 8,
            "n_epochs": 1,
            "policy_kwargs": {"net_arch": [8], "lstm_hidden_size": 8},
        },
    ),
    "SAC of a Dict": (sb3.SAC, "MultiInputPolicy", DICT, OFF_POLICY),
    "PPO of a Dict": (sb3.PPO, "MultiInputPolicy", DICT, {**ON_POLICY, "batch_size": 8, "n_epochs": 1}),
}


@pytest.mark.parametrize("name", AGENTS)
def test_a_bundle_loads_and_learns_on(name: str, tmp_path: Path) -> None:
    """SB3 loads an agent from its bundle as from its archive, with statistics that went through both forms."""
    cls, policy, space, options = AGENTS[name]
    actions = spaces.Discrete(2) if cls in (sb3.DQN, contrib.QRDQN) else ACTIONS
    keys = {"norm_obs_keys": ["wide", "vector"]} if space is DICT else {}
    env = VecNormalize(environment(space, actions), **keys)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cls(policy, env, **copy.deepcopy(options))  # SB3 adds to policy_kwargs
        model.learn(24)
    model.save(tmp_path / "model.zip")
    env.save(str(tmp_path / "vecnormalize.pkl"))
    archive, value = sbformat.read(tmp_path / "model.zip"), read_vecnormalize(tmp_path / "vecnormalize.pkl")
    sbformat.write(bundle(archive, value), tmp_path / "bundle.zip")

    again, statistics = unbundle(sbformat.read(tmp_path / "bundle.zip"))
    assert again == archive
    assert statistics == value
    write_vecnormalize(statistics, tmp_path / "again.pkl")
    wrapped = VecNormalize.load(str(tmp_path / "again.pkl"), environment(space, actions))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh = cls.load(tmp_path / "bundle.zip", env=wrapped, device="cpu")
    for key, tensor in model.policy.state_dict().items():
        assert same_bits(fresh.policy.state_dict()[key].numpy(), tensor.numpy())
    obs = observations(space, 5)
    for one, other in zip(
        model.predict(env.normalize_obs(obs), deterministic=True),
        fresh.predict(wrapped.normalize_obs(obs), deterministic=True),
    ):
        assert (one is None and other is None) or same_bits(np.asarray(one), np.asarray(other))
    before = fresh.num_timesteps
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh.learn(16, reset_num_timesteps=False)
    assert fresh.num_timesteps > before
    count = wrapped.obs_rms["wide"].count if space is DICT else wrapped.obs_rms.count
    assert count > (value.obs_rms["wide"].count if isinstance(value.obs_rms, dict) else value.obs_rms.count)
    COUNTED["bundles that SB3 loads"] += 1


# -- older targets ------------------------------------------------------------------------------------


@pytest.mark.skipif(not TARGETS, reason="SBFORMAT_SB3_2_0 names no interpreter with SB3 2.0")
@pytest.mark.parametrize("target", TARGETS)
def test_older_releases_load_what_is_written_for_them(target: str, tmp_path: Path) -> None:
    """Each loads them without a warning, and gives the numbers that we give."""
    jobs = []
    for number, (name, (space, options)) in enumerate(CASES.items()):
        trained(space, options).save(str(tmp_path / f"{number}.real.pkl"))
        jobs.append(job_of(tmp_path / f"{number}.real.pkl", target, tmp_path / f"{number}.pkl", name))
    for number, path in enumerate(FILES, len(CASES)):
        jobs.append(job_of(path, target, tmp_path / f"{number}.pkl", path))
    (tmp_path / "jobs.json").write_text(json.dumps([job for job, _ in jobs]))
    ran = subprocess.run(
        [TARGETS[target], os.path.join(HERE, "statistics_child.py"), str(tmp_path / "jobs.json")],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    version, *answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert version.startswith(f"{target}.")
    for (job, expected), answer in zip(jobs, answers, strict=True):
        assert "error" not in answer, (job["name"], answer)
        assert answer == expected, job["name"]
        COUNTED[f"files that SB3 {version} loads"] += 1


def job_of(source: Any, target: str, path: Any, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A file written for a release, an observation, and what it should become."""
    value, _ = rebuild_vecnormalize(source, target=target)
    write_vecnormalize(value, f"{path}.now")  # the space of gym is not loaded here
    write_vecnormalize(value, path, target=target)
    obs = observations(space_like(f"{path}.now").observation_space, 3)
    held = {key: part.astype(np.float64).tolist() for key, part in obs.items()} if isinstance(obs, dict) else None
    given = held or np.asarray(obs).astype(np.float64).tolist()
    exact = {key: np.array(part) for key, part in held.items()} if held else np.array(given)
    made = value.normalize_obs(exact)
    expected = {
        "obs": {key: np.asarray(part).astype(np.float64).tolist() for key, part in made.items()}
        if isinstance(made, dict)
        else np.asarray(made).astype(np.float64).tolist(),
        "reward": value.normalize_reward(np.array([-3.0, 0.5, 100.0])).astype(np.float64).tolist(),
    }
    return {"path": str(path), "name": name, "obs": given}, expected
