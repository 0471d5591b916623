"""Exported policies beside SB3, and beside the policy of sbformat that they were exported from.

The checks are those of ``policy_oracle``: SB3's results are the truth first, then those of ``Policy``, with the same
tolerance.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import sbformat
from tests.interop.policy_agents import build_agent, build_normalizer, draw_observations, stack_observations
from tests.interop.policy_oracle import (
    COUNT,
    RELATIVE,
    ROUNDING,
    RealPolicy,
    assert_close,
    assert_same_action,
    check_actions,
    check_sequence,
    compare_outputs,
    one_mask,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.helpers.c_program import CProgram
    from tests.helpers.exported_policy import ExportedPolicy
    from tests.interop.policy_agents import Setup

BATCH: Final = 7
STATES: Final = ("hidden", "cell", "critic_hidden", "critic_cell")


class Predictor:
    """What predicts actions, with as much of ``RealPolicy`` as ``check_actions`` needs.

    :param predicts: an agent of SB3 or a policy of sbformat
    :param real: the same agent in SB3
    :param rounding: the errors of SB3, by output
    """

    def __init__(self, predicts: Any, real: RealPolicy, rounding: dict[str, float]) -> None:
        self.predict, self.is_recurrent, self.rounding = predicts.predict, real.is_recurrent, rounding

    def measure_rounding(self, *_: Any, **__: Any) -> dict[str, float]:
        return self.rounding


def measure_rounding(real: RealPolicy, observations: list[Any], **masks: Any) -> dict[str, float]:
    """Return the errors of SB3 over all observations; where an action is clipped, that of the mean is not hidden."""
    found = real.measure_rounding(stack_observations(observations), **masks)
    return {**found, "action": max(found.get("action", 0.0), found.get("mean", 0.0))}


class NormalizedReal(RealPolicy):
    """An agent of SB3 that gets observations through ``VecNormalize``.

    :param normalizer: the ``VecNormalize`` of SB3
    """

    def __init__(self, model: Any, normalizer: Any) -> None:
        super().__init__(model)
        self.normalizer = normalizer

    def predict(self, observation: Any, *args: Any, **kwargs: Any) -> Any:
        return super().predict(self.normalizer.normalize_obs(observation), *args, **kwargs)

    def outputs(self, observation: Any, *given: Any, **masks: Any) -> dict[str, Any]:
        return super().outputs(self.normalizer.normalize_obs(observation), *given, **masks)

    def measure_rounding(self, batch: Any, *given: Any, **masks: Any) -> dict[str, float]:
        return RealPolicy(self.model).measure_rounding(self.normalizer.normalize_obs(batch), *given, **masks)


def check_export(
    real: RealPolicy,
    policy: Any,
    exported: ExportedPolicy,
    observations: Any = None,
    sensitivity: Mapping[str, float] = MappingProxyType({}),
    **masks: Any,
) -> int:
    """Compare actions, singly and in batches of 1, 2 and 7, and all outputs; return the number of observations.

    :param observations: 50 of them; drawn from the space by default
    :param sensitivity: errors that are allowed besides those of SB3, by output
    :param masks: ``action_masks`` for each observation
    """
    observations = observations or draw_observations(real.observation_space, COUNT)
    rounding = measure_rounding(real, observations, **masks)
    rounding.update({name: max(error, rounding.get(name, 0.0)) for name, error in sensitivity.items()})
    few = {name: rows[:BATCH] for name, rows in masks.items()}
    for predicts in (real, policy):
        check_actions(Predictor(predicts, real, rounding), exported, observations[:BATCH], **few)
    for one, given in ((stack_observations(observations), masks), (observations[0], one_mask(masks, 0))):
        compare_outputs(real, exported, one, rounding=rounding, **given)
        compare_with_policy(policy, exported, one, rounding, **given)
    return len(observations)


def compare_with_policy(
    policy: Any, exported: ExportedPolicy, observation: Any, rounding: Mapping[str, float], *given: Any, **masks: Any
) -> dict[str, Any]:
    """Compare all outputs with those of ``Policy``, and return them.

    :param rounding: the errors of SB3, by output
    """
    expected = policy.outputs(observation, *given, **masks)
    found = exported.outputs(observation, *given, **masks)
    assert policy.graph.outputs.keys() <= found.keys() <= expected.keys()  # a program does not print states
    for name, value in found.items():
        assert np.shape(value) == np.shape(expected[name]), name
        assert_close(value, expected[name], name, RELATIVE + ROUNDING * rounding.get(name, 0.0))
    return found


def check_action_alone(real: RealPolicy, exported: ExportedPolicy) -> None:
    """Compare a file whose only output is the action, and the next states of an LSTM."""
    observations = draw_observations(real.observation_space, BATCH, seed=1)
    check_actions(Predictor(real, real, measure_rounding(real, observations)), exported, observations)
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
    observations = draw_observations(setup.observation, COUNT)  # SB3 normalizes images before it transposes them
    return check_export(NormalizedReal(agent.model, normalizer), policy, export(policy), observations)


def check_program(real: RealPolicy, policy: Any, program: CProgram, **masks: Any) -> int:
    """Compare what a program prints for a batch of 50 observations; return their number."""
    observations = draw_observations(real.observation_space, COUNT)
    batch, rounding = stack_observations(observations), measure_rounding(real, observations, **masks)
    compare_outputs(real, program, batch, rounding=rounding, **masks)
    compare_with_policy(policy, program, batch, rounding, **masks)
    found = program.predict(batch, **masks)[0]
    for predicts in (real, policy):
        assert_same_action(found, predicts.predict(batch, deterministic=True, **masks)[0], "action", rounding["action"])
    return COUNT


def check_program_episodes(policy: Any, program: CProgram, space: Any) -> int:
    """Compare a program that keeps its state over 50 steps with new episodes in between; return 1, for one sequence."""
    observations = draw_observations(space, COUNT)
    starts = np.random.default_rng(0).random(COUNT) < 0.15
    found = program.run_episodes(stack_observations(observations), starts)
    state: Any = None
    for step, observation in enumerate(observations):
        expected = policy.outputs(stack_observations([observation]), state, starts[[step]])
        for name in policy.graph.outputs:
            assert_close(found[name][step], expected[name][0], f"{name} of step {step}")
        state = tuple(expected[name] for name in STATES if name in expected)
    return 1
