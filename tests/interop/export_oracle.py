"""Exported policies beside SB3, and beside the policy of sbformat that they were exported from.

The checks are those of ``policy_oracle``: SB3's results are the truth first, then those of ``Policy``, with the same
tolerance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first

import sbformat
from tests.interop.policy_agents import build_agent, build_normalizer, draw_observations, stack_observations
from tests.interop.policy_oracle import (
    COUNT,
    RELATIVE,
    ROUNDING,
    RealPolicy,
    assert_close,
    check_actions,
    check_outputs,
    check_sequence,
    one_mask,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.helpers.exported_policy import ExportedPolicy
    from tests.interop.policy_agents import Setup

BATCH: Final = 7
STATES: Final = ("hidden", "cell", "critic_hidden", "critic_cell")


class Original:
    """A policy of sbformat with as much of ``RealPolicy`` as ``check_actions`` needs.

    :param real: the same agent in SB3, whose rounding is allowed
    :param policy: what was exported
    """

    def __init__(self, real: RealPolicy, policy: Any) -> None:
        self.real, self.policy = real, policy
        self.is_recurrent = real.is_recurrent

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        return self.policy.predict(*args, **kwargs)

    def measure_rounding(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        return self.real.measure_rounding(*args, **kwargs)


class NormalizedReal(RealPolicy):
    """An agent of SB3 that gets observations through ``VecNormalize``.

    SB3 normalizes images before it transposes them. An exported policy takes those that are transposed.

    :param normalizer: the ``VecNormalize`` of SB3
    """

    def __init__(self, model: Any, normalizer: Any) -> None:
        super().__init__(model)
        self.normalizer = normalizer

    def normalize(self, observation: Any) -> Any:
        space = self.normalizer.observation_space
        if is_image_space(space) and not is_image_space_channels_first(space):
            observation = np.moveaxis(observation, -3, -1)
        return self.normalizer.normalize_obs(observation)

    def predict(self, observation: Any, *args: Any, **kwargs: Any) -> Any:
        return super().predict(self.normalize(observation), *args, **kwargs)

    def outputs(self, observation: Any, *given: Any, **masks: Any) -> dict[str, Any]:
        return super().outputs(self.normalize(observation), *given, **masks)

    def measure_rounding(self, batch: Any, *given: Any, **masks: Any) -> dict[str, float]:
        return RealPolicy(self.model).measure_rounding(self.normalize(batch), *given, **masks)


def check_export(
    real: RealPolicy, policy: Any, exported: ExportedPolicy, observations: Any = None, **masks: Any
) -> int:
    """Compare actions, singly and in batches of 1, 2 and 7, and all outputs; return the number of observations.

    :param observations: 50 of them; drawn from the space by default
    :param masks: ``action_masks`` for each observation
    """
    observations = draw_observations(real.observation_space, COUNT) if observations is None else observations
    few = {name: rows[:BATCH] for name, rows in masks.items()}
    for truth in (real, Original(real, policy)):
        check_actions(truth, exported, observations[:BATCH], **few)
    check_outputs(real, exported, observations, **masks)
    rounding = real.measure_rounding(stack_observations(observations), **masks)
    compare_with_policy(policy, exported, stack_observations(observations), rounding, **masks)
    compare_with_policy(policy, exported, observations[0], rounding, **one_mask(masks, 0))
    return len(observations)


def compare_with_policy(
    policy: Any, exported: ExportedPolicy, observation: Any, rounding: Mapping[str, float], *given: Any, **masks: Any
) -> dict[str, Any]:
    """Compare all outputs with those of ``Policy``, and return them.

    :param rounding: the errors of SB3, by output
    """
    expected = policy.outputs(observation, *given, **masks)
    found = exported.outputs(observation, *given, **masks)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert np.shape(found[name]) == np.shape(value), name
        assert_close(found[name], value, name, RELATIVE + ROUNDING * rounding.get(name, 0.0))
    return found


def check_action_alone(real: RealPolicy, exported: ExportedPolicy) -> None:
    """Compare a file whose only output is the action, and the next states of an LSTM."""
    check_actions(real, exported, draw_observations(real.observation_space, BATCH, seed=1))
    names = {port.name for port in exported.report.outputs if not port.name.startswith("next_")}
    assert names == {"action"}


def check_recurrence(real: RealPolicy, policy: Any, exported: ExportedPolicy) -> int:
    """Compare sequences of 50 steps with new episodes in between; return how many."""
    counts = (1, 3)
    for count in counts:
        check_sequence(real, exported, count)
        compare_sequence(policy, exported, real.observation_space, count)
    return len(counts)


def compare_sequence(policy: Any, exported: ExportedPolicy, space: Any, count: int, steps: int = COUNT) -> None:
    """Compare the outputs of ``Policy`` over steps of environments whose episodes end; each keeps its own states."""
    random = np.random.default_rng(count)
    starts = np.ones(count, bool)
    states: list[Any] = [None, None]
    for step in range(steps):
        batch = stack_observations(draw_observations(space, count, seed=step))
        made = [one.outputs(batch, state, starts) for one, state in zip((policy, exported), states)]
        for name, value in made[0].items():
            assert_close(made[1][name], value, f"{name} of step {step}")
        states = [tuple(one[name] for name in STATES if name in one) for one in made]
        starts = random.random(count) < 0.15


def check_normalized(setup: Setup, options: dict[str, Any], folder: Path, export: Callable[[Any], Any]) -> int:
    """Compare an agent whose observations SB3's ``VecNormalize`` normalizes; return the number of observations.

    :param options: of ``VecNormalize``
    :param folder: for its file
    :param export: returns the exported policy
    """
    agent, normalizer = build_agent(setup), build_normalizer(setup, options)
    normalizer.save(str(folder / "vecnormalize.pkl"))
    policy = sbformat.load_policy(agent.raw, vecnormalize=folder / "vecnormalize.pkl")
    return check_export(NormalizedReal(agent.model, normalizer), policy, export(policy))
