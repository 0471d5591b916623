"""Sampled actions of a policy beside those of real Stable-Baselines3, as distributions.

The tests compare two samples of fixed seeds. Their thresholds are beyond what chance does in a million runs; a
deviation that is wrong by a tenth, or another epsilon, is beyond them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from gymnasium import spaces

from tests.interop.policy_agents import draw_observations, repeat_observation, stack_observations
from tests.interop.policy_oracle import ALWAYS_DETERMINISTIC, EPSILON_GREEDY, assert_close, assert_same_action

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.policy_oracle import RealPolicy

DRAWS: Final = 20_000
SLOW_DRAWS: Final = 1000
"""Where each sample is a call."""
SIGMAS: Final = 6.5


def check_samples(real: RealPolicy, policy: Any, share: float = 1.0, seed: int = 5, **masks: Any) -> None:
    """Compare sampled actions of one observation as distributions.

    :param share: of the draws that are made otherwise
    :param masks: for that observation
    """
    observations = draw_observations(real.observation_space, 2, seed)
    draw = choose_drawing(real)
    count = max(40, int(share * (DRAWS if draw is draw_in_batch else SLOW_DRAWS)))
    policy.seed(1)
    found = draw(policy, observations, count, **masks)
    real.seed(2)
    expected = draw(real, observations, count, **masks)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if real.algorithm in ALWAYS_DETERMINISTIC:
        assert_same_action(found, expected, "samples of a deterministic policy")
    elif isinstance(real.action_space, spaces.Box):
        assert_same_continuous(found, expected)
    else:
        assert_same_choices(found, expected)
    policy.seed(1)
    again = draw(policy, observations, count if draw is draw_in_batch else 20, **masks)
    assert again.tobytes() == found[: len(again)].tobytes(), "the same seed, other samples"


def choose_drawing(real: RealPolicy) -> Callable[..., Any]:
    if real.algorithm in EPSILON_GREEDY:
        return draw_by_calls
    return draw_with_noise if real.uses_sde else draw_in_batch


def draw_in_batch(policy: Any, observations: list[Any], count: int, **masks: Any) -> Any:
    masks = {key: np.repeat(value[None], count, axis=0) for key, value in masks.items()}
    return policy.predict(repeat_observation(observations[0], count), **masks)[0]


def draw_by_calls(policy: Any, observations: list[Any], count: int) -> Any:
    """Epsilon-greedy: each call is one draw, with which all actions of a batch are random, or none."""
    batch = repeat_observation(observations[0], 2)
    rows = [[policy.predict(observations[0])[0], *policy.predict(batch)[0]] for _ in range(2 * count)]
    return np.array(rows)


def draw_with_noise(policy: Any, observations: list[Any], count: int) -> Any:
    """State-dependent noise is drawn by ``reset_noise`` and stays: both observations of one draw depend on it."""
    batch = stack_observations([observations[0], observations[1], observations[0]])
    drawn = []
    for _ in range(count):
        policy.reset_noise()
        actions = policy.predict(batch)[0]
        assert_close(actions[0], actions[2], "one observation in two rows")
        drawn.append(actions[:2])
    np.testing.assert_array_equal(policy.predict(batch)[0], actions)
    return np.array(drawn)


def check_noise_of_environments(real: RealPolicy, policy: Any) -> None:
    """With noise for each of three environments, a batch of three has different noise, and one of two has one."""
    one = draw_observations(real.observation_space, 1, seed=5)[0]
    for either in (real, policy):
        either.reset_noise(3)
        two, three = (either.predict(repeat_observation(one, rows))[0] for rows in (2, 3))
        assert_close(two[0], two[1], "noise of a batch of another size")
        assert len(np.unique(np.round(three, 4), axis=0)) == 3, type(either)


def assert_same_choices(found: Any, expected: Any) -> None:
    """Chi-square tests of two samples of one size: of each column, and of their combinations."""
    one, other = (values.reshape(len(values), -1) for values in (found, expected))
    for columns in (*([index] for index in range(one.shape[1])), slice(None)):
        rows = np.concatenate([one[:, columns], other[:, columns]])
        _, kinds = np.unique(rows, axis=0, return_inverse=True)
        counts = [np.bincount(part, minlength=kinds.max() + 1) for part in np.split(kinds.reshape(-1), [len(one)])]
        rare = sum(counts) < 10
        counts = [np.append(part[~rare], part[rare].sum()) for part in counts]
        total = np.maximum(sum(counts), 1)
        statistic = float((np.subtract(*counts).astype(float) ** 2 / total).sum())
        freedom = len(total) - 1
        assert statistic < freedom + 5 * np.sqrt(2 * freedom) + 22, (statistic, freedom, counts)


def assert_same_continuous(found: Any, expected: Any) -> None:
    """Compare mean, deviation and distribution (Kolmogorov-Smirnov) of each column, and of sums of columns.

    The sums tell of columns that depend on one another. How well a deviation is estimated depends on the kurtosis,
    which is large where most samples are clipped; where nearly all are, only the distributions are compared.
    """
    columns = np.array([part.reshape(len(part), -1) for part in (found, expected)], np.float64)
    rest = np.abs(columns - np.median(columns, axis=(0, 1))) > 1e-4
    moving = columns[:, :, rest.sum(axis=(0, 1)) >= 100]
    if moving.shape[2]:
        directions = np.random.default_rng(0).normal(size=(moving.shape[2], 6)) / moving.std(axis=(0, 1))[:, None]
        moving = np.concatenate([moving, moving @ directions], axis=2)
    assert_same_moments(moving)
    for one, other in zip(*(np.concatenate([columns, moving], axis=2).transpose(0, 2, 1))):
        assert ks_distance(one, other) < 2.7 * np.sqrt(2 / len(one))


def assert_same_moments(samples: Any) -> None:
    """Compare mean and deviation of each column of two samples, (2, rows, columns)."""
    error = SIGMAS * np.sqrt(2 / samples.shape[1])
    deviation = samples.std(axis=(0, 1))
    kurtosis = np.mean((samples - samples.mean(axis=(0, 1))) ** 4, axis=(0, 1)) / deviation**4
    assert np.all(np.abs(np.subtract(*samples.mean(axis=1))) <= error * deviation + 1e-6)
    relative = np.sqrt(kurtosis - 1) / 2
    assert np.all(np.abs(np.subtract(*samples.std(axis=1))) <= error * relative * deviation + 1e-6)


def ks_distance(one: Any, other: Any) -> float:
    """The largest difference of two empirical distribution functions; ties up to rounding count as ties."""
    step = 1e-5 * (np.abs(other).max() + 1e-12)
    one, other = np.round(one / step), np.round(other / step)
    places = np.unique(np.concatenate([one, other]))
    parts = [np.searchsorted(np.sort(values), places, side="right") / len(values) for values in (one, other)]
    return float(np.abs(np.subtract(*parts)).max())
