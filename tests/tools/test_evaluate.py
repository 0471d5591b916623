"""``evaluate``: episodes as SB3 counts them, spaces that do not fit, and errors that say what is missing."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest

import sbformat
from sbformat import UnsupportedError, ValidationError
from sbformat.known.spaces import convert_space
from sbformat.tools.evaluate import ChannelsOrder, FrameStack, convert_observation
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.environments import CARTPOLE, Box, CountingEnv, Dict, Discrete, Wrapper
from tests.helpers.many_cases import check_each

STATISTICS = ARCHIVES / "vecnormalize-pendulum.pkl"


class Spy:
    """A policy that remembers what it was asked."""

    def __init__(self, policy: sbformat.Policy, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[dict[str, Any]] = []
        self.policy = policy
        predict = type(policy).predict

        def remember(
            policy: Any, observation: Any, state: Any, episode_start: Any, deterministic: Any, **others: Any
        ) -> Any:
            observation = observation.copy() if hasattr(observation, "copy") else observation
            self.calls.append(
                {
                    "observation": observation, "state": state, "episode_start": episode_start.tolist(),
                    "deterministic": deterministic, **others,
                }
            )  # fmt: skip
            return predict(policy, observation, None, episode_start, deterministic)[0], len(self.calls)

        monkeypatch.setattr(type(policy), "predict", remember)


def test_rewards_and_lengths_are_those_of_the_episodes() -> None:
    env = CountingEnv((3, 5, 1, 7))
    report = sbformat.evaluate(PPO, env, episodes=3)
    assert report.lengths == (3, 5, 1)
    assert report.rewards == (4.5, 7.5, 1.5)
    assert (report.mean_reward, report.mean_length) == (4.5, 3.0)
    assert report.std_reward == pytest.approx(np.std([4.5, 7.5, 1.5]))
    assert report.std_length == pytest.approx(np.std([3, 5, 1]))
    assert (report.deterministic, report.seed, report.uses_action_masks) == (True, None, False)
    assert env.seeds == [None] * 3
    assert all(action in (0, 1) for action in env.actions)


def test_a_state_is_carried_and_the_start_of_an_episode_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(sbformat.load_policy(PPO), monkeypatch)
    sbformat.evaluate(spy.policy, CountingEnv((2, 3)), episodes=2)
    assert [call["episode_start"] for call in spy.calls] == [[True], [False], [True], [False], [False]]
    assert [call["state"] for call in spy.calls] == [None, 1, 2, 3, 4]
    assert [call["observation"].tolist() for call in spy.calls[:3]] == [[[0.0] * 4], [[1.0] * 4], [[0.0] * 4]]
    assert {call["deterministic"] for call in spy.calls} == {True}


def test_actions_are_sampled_with_a_seed() -> None:
    taken = []
    for seed in (1, 1, 2):
        env = CountingEnv((60,))
        report = sbformat.evaluate(PPO, env, episodes=1, seed=seed, deterministic=False)
        assert (report.seed, report.deterministic, env.seeds) == (seed, False, [seed])
        taken.append(list(map(int, env.actions)))
    assert taken[0] == taken[1] != taken[2]


def test_the_seed_is_for_the_first_episode() -> None:
    env = CountingEnv((1, 1, 1))
    sbformat.evaluate(PPO, env, episodes=3, seed=5)
    assert env.seeds == [5, None, None]


def test_episodes_end_at_the_time_limit_and_progress_is_told() -> None:
    done: list[int] = []
    report = sbformat.evaluate(PPO, CountingEnv((10, 2, 10)), episodes=3, max_steps=4, progress=done.append)
    assert report.lengths == (4, 2, 4)
    assert done == [1, 1, 1]


def test_frames_are_stacked_before_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(sbformat.load_policy(PPO), monkeypatch)
    sbformat.evaluate(spy.policy, CountingEnv((3, 1), Box(-9, 9, (2,))), episodes=2, frame_stack=2)
    assert [call["observation"].tolist() for call in spy.calls] == [
        [[0, 0, 0, 0]], [[0, 0, 1, 1]], [[1, 1, 2, 2]], [[0, 0, 0, 0]],
    ]  # fmt: skip


def test_frames_are_normalized_before_they_are_stacked(monkeypatch: pytest.MonkeyPatch) -> None:
    mean = sbformat.RunningMeanStd(np.array([1.0, 2.0]), np.array([1.0, 4.0]), 10.0)
    statistics = dataclasses.replace(
        sbformat.read_vecnormalize(STATISTICS), obs_rms=mean, observation_space=None, epsilon=0.0
    )
    spy = Spy(sbformat.load_policy(PPO), monkeypatch)
    env = CountingEnv((3,), Box(-9, 9, (2,)))
    sbformat.evaluate(PPO, env, episodes=1, frame_stack=2, vecnormalize=statistics)
    assert [call["observation"].tolist() for call in spy.calls] == [
        [[0, 0, -1, -1]], [[-1, -1, 0, -0.5]], [[0, -0.5, 1, 0]],
    ]  # fmt: skip
    with pytest.raises(ValidationError, match="those of one frame, or of all that are stacked"):
        sbformat.evaluate(PPO, env, frame_stack=2, vecnormalize=STATISTICS)


def test_statistics_of_the_stacked_shape_are_applied_after_stacking() -> None:
    mean = sbformat.RunningMeanStd(np.array([1.0, 2.0, 3.0, 4.0]), np.full(4, 4.0), 10.0)
    statistics = dataclasses.replace(sbformat.read_vecnormalize(STATISTICS), obs_rms=mean, observation_space=None)
    policy = sbformat.load_policy(PPO, vecnormalize=statistics)
    plain = sbformat.load_policy(PPO)
    seen = [[0, 0, 0, 0]] + [[number, number, number + 1, number + 1] for number in range(9)]
    expected = [policy.predict(observation, deterministic=True)[0] for observation in seen]
    assert expected != [plain.predict(observation, deterministic=True)[0] for observation in seen]
    env = CountingEnv((10,), Box(-99, 99, (2,)))
    sbformat.evaluate(PPO, env, episodes=1, frame_stack=2, vecnormalize=statistics)
    assert env.actions == expected


class FloatsEnv(CountingEnv):
    """Observations are floats, whatever the space says."""

    def observe(self) -> Any:
        if isinstance(self.observation_space, Dict):
            return {"more": 5, **{key: np.full(4, 1.7) for key in self.observation_space.spaces}}
        return [self.step_number + 0.7] * 4


def test_observations_get_the_dtype_of_their_space(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(sbformat.load_policy(PPO), monkeypatch)
    for dtype, rest in (("uint8", 0), ("int32", 0), ("float32", np.float32(0.7)), ("float64", 0.7)):
        spy.calls.clear()
        sbformat.evaluate(spy.policy, FloatsEnv((2,), Box(0, 9, (4,), dtype)), episodes=1)
        assert [call["observation"].dtype for call in spy.calls] == [dtype] * 2
        assert spy.calls[0]["observation"].tolist() == [[rest] * 4]


def test_each_key_gets_the_dtype_of_its_space() -> None:
    space = convert_space(Dict({"a": Box(0, 9, (4,), "uint8"), "b": Box(0, 9, (2, 4))}), "space")
    made = convert_observation(FloatsEnv(observation_space=Dict({"a": None, "b": None})).observe(), space)
    assert list(made) == ["a", "b"]
    assert (made["a"].tolist(), made["a"].dtype) == ([1] * 4, np.uint8)
    assert (made["b"].shape, made["b"].dtype) == ((2, 4), np.float32)  # repeated, as SB3 does


@pytest.mark.parametrize("observation", [np.zeros(3), [1, 2, 3], {"a": 1}, "abcd", [[1, 2], [3]]])
def test_an_observation_that_does_not_fit_its_space_is_refused(observation: Any) -> None:
    env = CountingEnv()
    env.observe = lambda: observation  # type: ignore[method-assign]
    with pytest.raises(ValidationError, match=r"an observation of the environment does not fit its space Box\("):
        sbformat.evaluate(PPO, env, episodes=1)
    with pytest.raises(ValidationError, match="does not fit its space Dict"):
        convert_observation(observation, convert_space(Dict({"b": CARTPOLE}), "space"))


@check_each(
    ("env", "words"),
    [
        (CountingEnv(observation_space=Box(-1, 1, (3,))), ("observation space", r"Box\(-1.0, 1.0, \(3,\), <f4\)")),
        (CountingEnv(observation_space=Discrete(4)), ("observation space", "Discrete")),
        (CountingEnv(observation_space=Dict({"a": CARTPOLE})), ("observation space", "Dict")),
        (CountingEnv(action_space=Discrete(3)), ("action space", r"expected Discrete\(2\), got Discrete\(3\)")),
        (CountingEnv(action_space=Discrete(2, start=1)), ("action space", r"Discrete\(2, start=1\)")),
        (CountingEnv(action_space=Box(-1, 1, (2,))), ("action space", "Box")),
    ],
)
def test_an_environment_that_does_not_fit_is_refused_with_both_spaces(env: Any, words: tuple[str, str]) -> None:
    with pytest.raises(ValidationError, match=rf"the {words[0]} of the environment does not fit.*{words[1]}"):
        sbformat.evaluate(PPO, env, episodes=1)
    assert env.actions == []


def test_the_bounds_of_actions_matter() -> None:
    space = Box([-1, -1, -8], [1, 1, 8], (3,))
    env = CountingEnv((1,), space, Box(-2, 2, (1,)))
    assert sbformat.evaluate(SAC, env, episodes=1, vecnormalize=STATISTICS).lengths == (1,)
    with pytest.raises(ValidationError, match="action space"):
        sbformat.evaluate(SAC, CountingEnv((1,), space, Box(-1, 1, (1,))), episodes=1, vecnormalize=False)


def test_masks_are_found_behind_wrappers() -> None:
    from sbformat.tools.evaluate import _find_masks

    class Masked(CountingEnv):
        def action_masks(self) -> list[bool]:
            return [True, False]

    env = Masked()
    found = _find_masks(Wrapper(Wrapper(env)))
    assert found is not None
    assert found() == [True, False]
    assert _find_masks(Wrapper(CountingEnv())) is None


@check_each(
    ("arguments", "error", "message"),
    [
        ({"episodes": 0}, ValueError, "episodes to be at least 1, got 0"),
        ({"max_steps": -1}, ValueError, "max_steps to be at least 1"),
        ({"frame_stack": "4"}, TypeError, "frame_stack to be a number"),
        ({"episodes": True}, TypeError, "episodes to be a number, got True"),
        ({"episodes": None}, TypeError, "episodes to be a number, got None"),
        ({"episodes": 2.0}, TypeError, "episodes to be a number, got float"),
        ({"frame_stack": 2, "channels_order": "First"}, ValueError, "'first' or 'last' as channels_order, got 'First'"),
        ({"frame_stack": 2, "channels_order": {"a": "first"}}, ValueError, "'first' or 'last' as channels_order"),
        ({"channels_order": "first"}, ValueError, "channels_order: expected frame_stack with it"),
        ({"env_kwargs": {"a": 1}}, TypeError, "an id of gymnasium with env_kwargs"),
    ],
)
def test_a_wrong_argument_is_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sbformat.evaluate(PPO, CountingEnv(), **arguments)


def test_a_policy_has_its_statistics_already() -> None:
    with pytest.raises(TypeError, match="vecnormalize: a policy has its own"):
        sbformat.evaluate(sbformat.load_policy(PPO), CountingEnv(), vecnormalize=False)
    with pytest.raises(TypeError, match="an id of gymnasium or an environment"):
        sbformat.evaluate(PPO, 5)


def test_a_vectorized_environment_is_refused() -> None:
    env = CountingEnv()
    env.num_envs = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="expected one environment, got CountingEnv, which is vectorized"):
        sbformat.evaluate(PPO, env)
    assert env.seeds == []


def test_without_gymnasium_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(UnsupportedError, match=r'pip install "sbformat\[gym\]"'):
        sbformat.evaluate(PPO, "CartPole-v1")


def make(space: Any, frames: int, order: ChannelsOrder | None = None) -> FrameStack:
    return FrameStack(convert_space(space, "observation_space"), frames, order)


def test_zeros_come_before_the_first_frame_and_the_newest_is_last() -> None:
    stack = make(Box(0, 9, (2,)), 3)
    assert stack.reset([1, 2]).tolist() == [0, 0, 0, 0, 1, 2]
    assert stack.add([3, 4]).tolist() == [0, 0, 1, 2, 3, 4]
    assert stack.add([5, 6]).tolist() == [1, 2, 3, 4, 5, 6]
    assert stack.add([7, 8]).tolist() == [3, 4, 5, 6, 7, 8]
    assert stack.reset([9, 9]).tolist() == [0, 0, 0, 0, 9, 9]


def test_a_stack_that_was_returned_does_not_change() -> None:
    stack = make(Box(0, 9, (1,)), 2)
    first = stack.reset([1])
    stack.add([2])
    stack.reset([3])
    assert first.tolist() == [0, 1]


@check_each(
    ("space", "order", "shape"),
    [
        (Box(0, 255, (84, 84, 1), "uint8"), None, (84, 84, 4)),
        (Box(0, 255, (1, 84, 84), "uint8"), None, (4, 84, 84)),
        (Box(0, 255, (3, 84, 84), "uint8"), "last", (3, 84, 336)),
        (Box(0, 255, (84, 84, 3), "uint8"), "first", (336, 84, 3)),
        (Box(0, 1, (3, 84, 84)), None, (3, 84, 336)),  # not an image: floats
        (Box(0, 1, (2, 5)), None, (2, 20)),
        (Box(0, 1, (2, 5)), "first", (8, 5)),
    ],
)
def test_the_axis_is_that_of_the_channels(space: Box, order: ChannelsOrder | None, shape: tuple[int, ...]) -> None:
    stack = make(space, 4, order)
    assert stack.space.shape == shape  # type: ignore[attr-defined]
    newest = np.ones(space.shape, space.dtype)
    made = stack.reset(newest)
    assert (made.shape, made.dtype, made.sum()) == (shape, space.dtype, newest.size)
    assert stack.space.is_image() == convert_space(space, "observation_space").is_image()


def test_bounds_are_repeated_with_the_frames() -> None:
    space: Any = make(Box([0, 1], [2, 3], (2,)), 2).space
    assert np.asarray(space.low).tolist() == [0, 1, 0, 1]
    assert np.asarray(space.high).tolist() == [2, 3, 2, 3]


def test_each_key_has_its_own_stack() -> None:
    stack = make(Dict({"a": Box(0, 9, (1,)), "b": Box(0, 255, (1, 2, 2), "uint8")}), 2)
    image = np.ones((1, 2, 2), "uint8")
    assert stack.reset({"a": [5], "b": image})["a"].tolist() == [0, 5]
    made = stack.add({"a": [6], "b": image})
    assert made["a"].tolist() == [5, 6]
    assert made["b"].shape == (2, 2, 2)


@pytest.mark.parametrize("space", [Discrete(3), Dict({"a": Discrete(2)}), Box(0, 1, ())])
def test_only_frames_that_have_an_axis_can_be_stacked(space: Any) -> None:
    with pytest.raises(UnsupportedError, match="frames of a Box can be stacked"):
        make(space, 2)
