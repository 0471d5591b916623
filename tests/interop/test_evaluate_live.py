"""``evaluate`` beside SB3's ``evaluate_policy``, and stacked frames beside ``VecFrameStack``."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.known.spaces import convert_space
from sbformat.tools.evaluate import FrameStack
from tests.helpers.bundled import ARCHIVES, PPO, SAC

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.filterwarnings("ignore")]

STATISTICS = ARCHIVES / "vecnormalize-pendulum.pkl"


def make_vec_env(env_id: str, **arguments: Any) -> Any:
    import gymnasium
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    return DummyVecEnv([lambda: Monitor(gymnasium.make(env_id, **arguments))])


def evaluate_sb3(model: Any, env: Any, episodes: int, seed: int, **arguments: Any) -> tuple[list[float], list[int]]:
    from stable_baselines3.common.evaluation import evaluate_policy

    env.seed(seed)
    return evaluate_policy(model, env, episodes, return_episode_rewards=True, **arguments)  # type: ignore[return-value]


def test_ppo_does_in_cartpole_what_it_does_in_sb3() -> None:
    import stable_baselines3

    model = stable_baselines3.PPO.load(PPO, device="cpu")
    rewards, lengths = evaluate_sb3(model, make_vec_env("CartPole-v1"), 20, 7)
    report = sbformat.evaluate(PPO, "CartPole-v1", episodes=20, seed=7)
    assert report.rewards == tuple(rewards)
    assert report.lengths == tuple(lengths)
    assert len(set(lengths)) > 3


def test_rewards_are_those_of_the_environment_behind_vecnormalize() -> None:
    import stable_baselines3
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize.load(str(STATISTICS), make_vec_env("Pendulum-v1"))
    env.training, env.norm_reward = False, False
    rewards, lengths = evaluate_sb3(stable_baselines3.SAC.load(SAC, device="cpu"), env, 3, 5)
    report = sbformat.evaluate(SAC, "Pendulum-v1", episodes=3, seed=5, vecnormalize=STATISTICS)
    assert report.lengths == tuple(lengths)
    np.testing.assert_allclose(report.rewards, rewards, rtol=1e-3)


def test_the_state_of_an_lstm_begins_anew_with_each_episode(tmp_path: Path) -> None:
    from sb3_contrib import RecurrentPPO

    model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", policy_kwargs={"lstm_hidden_size": 8}, seed=3, device="cpu")
    model.learn(256)
    model.save(tmp_path / "a.zip")
    rewards, _ = evaluate_sb3(model, make_vec_env("CartPole-v1"), 10, 2)
    report = sbformat.evaluate(tmp_path / "a.zip", "CartPole-v1", episodes=10, seed=2)
    assert report.rewards == tuple(rewards)


def test_masks_are_those_of_the_environment(tmp_path: Path) -> None:
    from sb3_contrib import MaskablePPO
    from sb3_contrib.common.envs import InvalidActionEnvDiscrete
    from sb3_contrib.common.maskable.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    def make() -> Any:
        return InvalidActionEnvDiscrete(dim=20, n_invalid_actions=10)

    model = MaskablePPO("MlpPolicy", make(), n_steps=64, seed=1, device="cpu")
    model.learn(128)
    model.save(tmp_path / "a.zip")
    env = DummyVecEnv([lambda: Monitor(make())])
    env.seed(4)
    rewards, lengths = evaluate_policy(model, env, 5, return_episode_rewards=True)
    own = make()
    own.reset(seed=4)
    report = sbformat.evaluate(tmp_path / "a.zip", own, episodes=5, seed=4)
    assert report.uses_action_masks
    assert report.lengths == tuple(lengths)  # type: ignore[arg-type]
    assert len(rewards) == 5  # type: ignore[arg-type]


def list_spaces() -> dict[str, Any]:
    from gymnasium import spaces

    image = spaces.Box(0, 255, (12, 10, 3), np.uint8)
    first = spaces.Box(0, 255, (1, 12, 10), np.uint8)
    vector = spaces.Box(-1, 1, (3,), np.float32)
    matrix = spaces.Box(-1, 1, (3, 4), np.float64)
    return {
        "image": image, "channels first": first, "vector": vector, "matrix": matrix,
        "floats": spaces.Box(0, 1, (3, 4, 4), np.float32), "dict": spaces.Dict({"a": image, "b": vector, "c": first}),
    }  # fmt: skip


@pytest.mark.parametrize("order", [None, "first", "last"])
@pytest.mark.parametrize("name", ["image", "channels first", "vector", "matrix", "floats", "dict"])
def test_frames_are_stacked_as_sb3_stacks_them(name: str, order: Any) -> None:
    from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

    space = list_spaces()[name]
    space.seed(0)
    theirs: Any = StackedObservations(1, 4, space, order)
    ours = FrameStack(convert_space(space, "space"), 4, order)
    for step in range(12):
        observation = space.sample()
        batch = {key: part[None] for key, part in observation.items()} if name == "dict" else observation[None]
        if step % 5 == 0:
            made, expected = ours.reset(observation), theirs.reset(batch)
        else:
            made, expected = ours.add(observation), theirs.update(batch, np.zeros(1, bool), [{}])[0]
        for key in expected if name == "dict" else [...]:
            np.testing.assert_array_equal(made[key], expected[key][0] if name == "dict" else expected[0])
    assert ours.space.to_gymnasium().shape == theirs.stacked_observation_space.shape


def test_frames_are_normalized_and_stacked_as_rl_zoo_does(tmp_path: Path) -> None:
    import stable_baselines3
    from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize

    inner = VecNormalize(make_vec_env("CartPole-v1"))
    env = VecFrameStack(inner, 3)
    model = stable_baselines3.PPO("MlpPolicy", env, n_steps=128, seed=2, device="cpu")
    model.learn(512)
    model.save(tmp_path / "a.zip")
    inner.save(str(tmp_path / "vecnormalize.pkl"))
    inner.training, inner.norm_reward = False, False
    rewards, _ = evaluate_sb3(model, env, 10, 3)
    report = sbformat.evaluate(
        tmp_path / "a.zip",
        "CartPole-v1",
        episodes=10,
        seed=3,
        frame_stack=3,
        vecnormalize=tmp_path / "vecnormalize.pkl",
    )
    assert report.rewards == tuple(rewards)
    assert len(set(rewards)) > 3


def make_env(space: Any) -> Any:
    """Make an environment whose observations are floats, whatever its space says; the reward depends on the actions."""
    import gymnasium
    from gymnasium import spaces

    class FloatsEnv(gymnasium.Env):  # type: ignore[type-arg,misc]
        observation_space = copy.deepcopy(space)  # VecNormalize changes the images in a Dict in place
        action_space = spaces.Box(-1, 1, (2,))

        def observe(self, part: Any) -> Any:
            if isinstance(part, spaces.Dict):
                return {key: self.observe(inner) for key, inner in part.spaces.items()}
            if isinstance(part, spaces.Discrete):
                return float(self.generator.integers(part.n)) + 0.7
            return self.generator.uniform(0, 200 if part.dtype == np.uint8 else 4, part.shape)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            if seed is not None:
                self.generator = np.random.default_rng(seed)
            self.steps = 0
            return self.observe(space), {}

        def step(self, action: Any) -> Any:
            self.steps += 1
            return self.observe(space), float(action @ [1, 3]), self.steps == 6, False, {}

    return FloatsEnv()


def make_cases() -> list[Any]:
    """Make cases: space, policy, wrappers from the inside out (a number of frames, or keys to normalize), order."""
    from gymnasium import spaces

    vector, integers = spaces.Box(-5, 5, (4,)), spaces.Box(-5, 5, (4,), np.int32)
    bytes_, matrix = spaces.Box(0, 200, (4,), np.uint8), spaces.Box(-5, 5, (2, 3), np.float64)
    image, first = spaces.Box(0, 255, (4, 5, 3), np.uint8), spaces.Box(0, 255, (1, 5, 4), np.uint8)
    large = spaces.Box(0, 255, (1, 36, 40), np.uint8)
    parts = spaces.Dict({"a": large, "b": integers, "c": vector})
    mixed = spaces.Dict({"a": bytes_, "b": spaces.Discrete(3), "c": vector})
    return [
        (bytes_, []), (integers, []), (vector, []), (mixed, []), (spaces.Discrete(3), []), (integers, [3]),
        (vector, ["all", 3]), (matrix, ["all", 2], "first"), (integers, ["all", 3]), (bytes_, ["all", 2]),
        (image, ["all", 3]), (first, ["all", 3]), (first, ["all", 2], "first"), (parts, [2]), (parts, ["all", 2]),
        (parts, [["c", "a"], 3]), (parts, [["b"], 2], "last"), (vector, [3, "all"]), (matrix, [2, "all"], "first"),
        (integers, [2, "all"]), (parts, [2, ["b", "c"]]), (mixed, [["a", "c"]]),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(22))
def test_observations_go_through_wrappers_as_in_sb3(number: int, tmp_path: Path) -> None:
    import stable_baselines3
    import torch
    from gymnasium import spaces
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

    space, wrappers, *order = make_cases()[number]
    env: Any = DummyVecEnv([lambda: Monitor(make_env(space))])
    statistics = None
    for wrapper in wrappers:
        if isinstance(wrapper, int):
            env = VecFrameStack(env, wrapper, *order)
        else:
            env = statistics = VecNormalize(env, norm_obs_keys=None if wrapper == "all" else wrapper)
    name = "MultiInputPolicy" if isinstance(space, spaces.Dict) else "MlpPolicy"
    settings = {"normalize_images": False}
    model = stable_baselines3.PPO(name, env, n_steps=32, batch_size=32, seed=1, policy_kwargs=settings, device="cpu")
    model.learn(32)
    with torch.no_grad():
        model.policy.action_net.weight.mul_(5)
    model.save(tmp_path / "a.zip")
    given: Any = False
    if statistics is not None:
        statistics.training = statistics.norm_reward = False
        given = tmp_path / "vecnormalize.pkl"
        statistics.save(str(given))
    rewards, _ = evaluate_sb3(model, model.get_env(), 4, 5)
    frames = next((wrapper for wrapper in wrappers if isinstance(wrapper, int)), None)
    report = sbformat.evaluate(
        tmp_path / "a.zip", make_env(space), episodes=4, seed=5, vecnormalize=given, frame_stack=frames,
        channels_order=order[0] if order else None,
    )  # fmt: skip
    np.testing.assert_allclose(report.rewards, rewards, atol=1e-4)
    assert len(set(rewards)) >= 3


def test_a_time_limit_and_arguments_reach_the_environment() -> None:
    report = sbformat.evaluate(
        SAC, "Pendulum-v1", episodes=2, vecnormalize=STATISTICS, max_steps=300, env_kwargs={"g": 9.81}
    )
    assert report.lengths == (300, 300)


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("Nothing-v0", "Nothing"),
        ("CartPole-v77", "version"),
        ("LunarLander-v2", "cannot make the environment"),
        ("", "cannot make the environment"),
        ("no_such_module:Env-v0", "no_such_module"),
    ],
)
def test_an_environment_that_is_not_there_is_one_error(env_id: str, message: str) -> None:
    with pytest.raises(sbformat.UnsupportedError, match=message):
        sbformat.evaluate(PPO, env_id)
