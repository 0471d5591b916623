"""``sbformat.load_policy`` beside Stable-Baselines3: every algorithm, policy, space and option predicts the same."""

from __future__ import annotations

import io
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import numpy as np

import sbformat
from tests.helpers.shared_files import summarize_counts
from tests.interop.policy_agents import build_agent, build_normalizer, draw_observations, stack_observations
from tests.interop.policy_forms import check_forms, check_refusals
from tests.interop.policy_oracle import (
    COUNT,
    RealPolicy,
    assert_close,
    assert_same_action,
    assert_same_state,
    check_actions,
    check_outputs,
    check_sequence,
    choice_sizes,
    draw_masks,
)
from tests.interop.policy_sampling import check_noise_of_environments, check_samples
from tests.interop.policy_setups import NORMALIZED, SAVED, SETUPS
from tests.interop.rebuild_oracle import assert_same_space, made_space

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.filterwarnings("ignore")]

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_policies_matrix.py:")


def each(setups: Any) -> Any:
    return [pytest.param(setup, id=setup.id) for setup in setups]


@pytest.mark.parametrize("setup", each(SETUPS))
def test_an_agent_acts_as_in_sb3(setup: Any) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    assert policy.algorithm == setup.algorithm
    assert_same_space(made_space(policy.observation_space), real.observation_space)
    assert_same_space(made_space(policy.action_space), real.action_space)
    observations = draw_observations(real.observation_space, COUNT)
    COUNTED["observations"] += check_actions(real, policy, observations)
    check_outputs(real, policy, observations)
    COUNTED["agents"] += 1


SAMPLED: Final = [
    setup
    for setup in SETUPS
    if setup.label.startswith(("to_", "sde")) or setup.label in {"asymmetric-True-False", "her"}
]


@pytest.mark.parametrize("setup", each(SAMPLED))
def test_sampled_actions_agree_in_distribution(setup: Any) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    check_samples(real, policy)
    COUNTED["distributions"] += 1
    if real.uses_sde:
        check_noise_of_environments(real, policy)


RECURRENT: Final = [
    setup for setup in SETUPS if setup.algorithm == "RecurrentPPO" and not setup.label.startswith("from_")
]


@pytest.mark.parametrize("setup", each(RECURRENT))
def test_an_lstm_keeps_its_state(setup: Any) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    for count in (1, 3):
        check_sequence(real, policy, count)
        COUNTED["sequences of an LSTM"] += 1


MASKED: Final = [setup for setup in SETUPS if setup.algorithm == "MaskablePPO" and setup.label.startswith("to_")]


@pytest.mark.parametrize("setup", each(MASKED))
def test_masked_actions_are_not_chosen(setup: Any) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    observations = draw_observations(real.observation_space, COUNT)
    masks = draw_masks(real.action_space, COUNT)
    COUNTED["masked observations"] += check_actions(real, policy, observations, action_masks=masks)
    check_outputs(real, policy, observations, action_masks=masks)
    for seed in range(3):
        check_samples(real, policy, seed=seed, action_masks=masks[seed])
    batch = stack_observations(observations)
    for _ in range(20):
        for row, mask in zip(policy.predict(batch, action_masks=masks)[0], masks):
            assert is_allowed(row, mask, real.action_space)
    for wrong in (masks[:, :-1], masks[:-1], np.ones((3, 7), bool)):
        with pytest.raises(Exception):  # noqa: B017, PT011 -- torch has its own
            real.predict(batch, action_masks=wrong)
        with pytest.raises((sbformat.SbformatError, ValueError), match="expected"):
            policy.predict(batch, action_masks=wrong)


def is_allowed(action: Any, mask: Any, space: Any) -> bool:
    starts = np.cumsum([0, *choice_sizes(space)[:-1]])
    return bool(mask[(starts + np.reshape(action, -1)).astype(int)].all())


OBSERVED: Final = [
    setup
    for setup in SETUPS
    if setup.label.startswith("from_") or setup.label in {"dict", "first", "last", "floats", "multi_discrete", "her"}
]


@pytest.mark.parametrize("setup", each(OBSERVED))
def test_what_sb3_refuses_is_refused(setup: Any) -> None:
    agent = build_agent(setup)
    COUNTED["refused"] += check_refusals(RealPolicy(agent.model), sbformat.load_policy(agent.raw))


@pytest.mark.parametrize("setup", each(OBSERVED))
def test_what_sb3_takes_is_taken(setup: Any) -> None:
    agent = build_agent(setup)
    taken = check_forms(RealPolicy(agent.model), sbformat.load_policy(agent.raw))
    assert taken > 5
    COUNTED["other forms of observations"] += taken


# -- statistics of observations -----------------------------------------------------------------------


@pytest.mark.parametrize("label", NORMALIZED)
def test_statistics_are_applied(label: str, tmp_path: Path) -> None:
    setup, options = NORMALIZED[label]
    agent, normalizer = build_agent(setup), build_normalizer(setup, options)
    normalizer.save(str(tmp_path / "vecnormalize.pkl"))
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw, vecnormalize=tmp_path / "vecnormalize.pkl")
    observations = draw_observations(setup.observation, COUNT)
    batch = stack_observations(observations)
    expected = real.predict(normalizer.normalize_obs(batch), deterministic=True)
    found = policy.predict(batch, deterministic=True)
    assert_same_action(found[0], expected[0], "batch")
    assert_same_state(found[1], expected[1])
    for one in observations:
        expected_one = real.predict(normalizer.normalize_obs(one), deterministic=True)[0]
        assert_same_action(policy.predict(one, deterministic=True)[0], expected_one, "one")
    outputs = policy.outputs(batch)
    for key, value in real.outputs(normalizer.normalize_obs(batch)).items():
        if key in outputs and key != "logits":
            assert_close(outputs[key], value, key)
    COUNTED["observations behind VecNormalize"] += COUNT


# -- what the other tools make of an agent that was just saved ----------------------------------------


@pytest.mark.parametrize("setup", each(SAVED))
def test_a_rebuilt_agent_acts_the_same_in_sb3(setup: Any) -> None:
    """An agent of the installed release is clean and valid, and what ``rebuild`` makes of it for that is the agent."""
    agent = build_agent(setup)
    assert sbformat.scan(agent.raw).verdict == "clean"
    assert sbformat.validate(agent.raw) == ()
    rebuilt, report = sbformat.rebuild(agent.raw)
    assert {row.entry for row in report.rows if row.action == "dropped"} <= {"system_info.txt"}
    env = agent.model.get_env() if setup.has_goals else None
    loaded = type(agent.model).load(io.BytesIO(sbformat.writes(rebuilt)), env, device="cpu")
    state_dict = loaded.policy.state_dict()
    assert list(state_dict) == list(agent.model.policy.state_dict())
    for name, tensor in agent.model.policy.state_dict().items():
        assert state_dict[name].equal(tensor), name
    for observation in draw_observations(agent.model.observation_space, COUNT):
        expected, found = (
            RealPolicy(model).predict(observation, deterministic=True) for model in (agent.model, loaded)
        )
        assert np.array_equal(found[0], expected[0])
    COUNTED["rebuilt agents"] += 1


# -- policies without an archive ----------------------------------------------------------------------

ALONE: Final = [setup for setup in SETUPS if setup.label in {"from_float32", "from_discrete", "first", "dict"}]


def invisible_arguments(setup: Any) -> dict[str, Any]:
    """The arguments of a policy that no tensor shows, as the setup has them."""
    is_on_policy = setup.algorithm in {"PPO", "A2C", "TRPO", "MaskablePPO", "RecurrentPPO"}
    found: dict[str, Any] = {"activation_fn": "Tanh" if is_on_policy else "ReLU"}
    if setup.label in {"first", "dict"}:
        found["normalize_images"] = True
    if setup.algorithm == "CrossQ":
        found["batch_norm_eps"] = 0.001
    if setup.algorithm == "ARS":
        found["squash_output"] = True
    return found


@pytest.mark.parametrize("setup", each(ALONE))
def test_a_policy_without_data_acts_the_same(setup: Any) -> None:
    """A lone ``policy.pth`` needs what no tensor shows; a file of ``policy.save()`` has it, except of ARS."""
    agent = build_agent(setup)
    real = RealPolicy(agent.model)
    weights = sbformat.reads(agent.raw).raw("policy.pth")
    with pytest.raises(sbformat.UnsupportedError, match="activation_fn"):
        sbformat.load_policy(weights, observation_space=real.observation_space, action_space=real.action_space)
    policy = sbformat.load_policy(
        weights,
        observation_space=real.observation_space,
        action_space=real.action_space,
        policy_kwargs=invisible_arguments(setup),
    )
    assert policy.inferred
    observations = draw_observations(real.observation_space, 10)
    check_actions(real, policy, observations)
    check_outputs(real, policy, observations)
    if not real.is_recurrent:  # SB3 forgets the arguments of the LSTM
        held = io.BytesIO()
        real.policy.save(held)
        given = {"policy_kwargs": {"squash_output": True}} if setup.algorithm == "ARS" else {}  # its file omits this
        check_actions(real, sbformat.load_policy(held.getvalue(), **given), observations)
    COUNTED["policies without data"] += 1
