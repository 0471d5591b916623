"""Agents in C compute what ``Policy`` and the recorded libraries compute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.policies.c.functions import C_TYPES
from sbformat.policies.graph import Input, Sampling, State
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.policy_vectors import assert_predictions, load_vector
from tests.helpers.sb2_predictions import assert_same_recording, recorded_agents
from tests.nets.agents import make_agent
from tests.policies.c.models import export, export_together
from tests.policies.run.models import (
    Model,
    box,
    categorical,
    dict_space,
    discrete,
    make_policy,
    multi_discrete,
    numbers,
)
from tests.policies.sampled import MARKED_FOR_C, mark_sb2_agents

if TYPE_CHECKING:
    from tests.helpers.c_policy import CPolicy

SB2: Final = recorded_agents(Path(__file__).parents[2] / "nets" / "archives" / "sb2")


@pytest.mark.parametrize("path", [PPO, SAC, ARCHIVES / "ppo-cartpole-1.0.zip"], ids=lambda path: path.name)
def test_a_bundled_agent(tmp_path: Path, path: Path) -> None:
    policy = sbformat.load_policy(path)
    found = export(policy, tmp_path)
    observations = np.random.default_rng(0).normal(size=(7, *policy.graph.inputs[0].shape)).astype(np.float32)
    expected, made = policy.outputs(observations), found.outputs(observations)
    assert list(made) == list(policy.graph.outputs)
    for name, array in expected.items():
        assert made[name].shape == array.shape
        np.testing.assert_allclose(made[name], array, 1e-5, 1e-5)


@pytest.fixture(scope="module")
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CPolicy]:
    """The vectors and agents of this run, in one call of the compiler."""
    chosen: dict[str, sbformat.Policy] = {}
    for item in request.session.items:
        if item.path == request.path and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            case = item.callspec.params
            if "agent" in case:
                chosen[case["agent"].name] = sbformat.load_policy(case["agent"])
            elif "name" in case:
                chosen[case["name"]] = load_vector(case["name"])
    return export_together(chosen, tmp_path_factory.mktemp("exported"))


@pytest.mark.parametrize("name", MARKED_FOR_C)
def test_a_vector(exported: dict[str, CPolicy], name: str) -> None:
    assert_predictions(name, exported[name])


@pytest.mark.parametrize("agent", mark_sb2_agents(SB2, 4), ids=lambda path: path.name)
def test_an_agent_of_stable_baselines_2(exported: dict[str, CPolicy], agent: Path) -> None:
    assert_same_recording(exported[agent.name], agent)


# -- what is not in the vectors -----------------------------------------------------------------------


def assert_same_outputs(policy: sbformat.Policy, folder: Path, observations: Any, **options: Any) -> None:
    compare_outputs(policy, export(policy, folder), observations, **options)


def compare_outputs(policy: sbformat.Policy, made: CPolicy, observations: Any, **options: Any) -> None:
    for name, array in policy.outputs(observations, **options).items():
        found = made.outputs(observations, **options)[name]
        np.testing.assert_allclose(found, np.broadcast_to(array, found.shape), 1e-5, 1e-5, err_msg=name)


def test_statistics_are_applied(tmp_path: Path) -> None:
    """Where the mean is 10,000 deviations, the difference is computed with care: in double of what float32 has not."""
    policies, observations = {}, {}
    noise = np.random.default_rng(0).normal(size=(50, 3))
    for dtype in ("float32", "float64", "int32", "int64", "uint32"):
        space = box(3, low=0 if dtype == "uint32" else -2000, high=2.0**31 - 200, dtype=dtype)
        mean, deviation = np.array([1000.0, 999.123456, -0.1]), np.array([0.1, 0.1, 1e-3])
        if dtype != "float32":  # seconds since 1970
            mean, deviation = np.array([1.7e9, 1.7e9 + 0.1, 1e5]), np.array([30.0, 5.0, 0.1])
        rms = sbformat.RunningMeanStd(mean, deviation**2, 1e4)
        statistics = sbformat.VecNormalize(obs_rms=rms, norm_reward=False, epsilon=0.0)
        agent = make_agent(observations=space, actions=box(2))
        policies[dtype] = sbformat.load_policy(agent, vecnormalize=statistics)
        observations[dtype] = (mean + deviation * noise).astype(dtype)
    for at, (dtype, made) in enumerate(export_together(policies, tmp_path).items()):
        compare_outputs(policies[dtype], made, observations[dtype])
        assert f"const {C_TYPES[dtype]} *observation," in (tmp_path / f"p{at}.h").read_text()
        source = (tmp_path / f"p{at}.c").read_text()
        assert ("means are subtracted in double" in source) == (dtype != "float32")


@pytest.mark.parametrize("outputs", [("action",), ("value", "action")], ids=str)
def test_states_from_step_to_step(tmp_path: Path, outputs: tuple[str, ...]) -> None:
    """Three environments, some of which start an episode; the states of actor and critic, or of the actor alone."""
    agent = make_agent(
        "recurrent.RecurrentActorCriticPolicy", box(3), box(2), n_lstm_layers=2, lstm_hidden_size=4, net_arch=[]
    )
    policy = sbformat.load_policy(agent)
    made = export(policy, tmp_path, ("-O2",), outputs=outputs)
    random = np.random.default_rng(0)
    expected_state = found_state = None
    for _ in range(12):
        observations, starts = random.normal(size=(3, 3)).astype(np.float32), random.random(3) < 0.3
        expected, expected_state = policy.predict(observations, expected_state, starts, deterministic=True)
        found, found_state = made.predict(observations, found_state, starts)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
        for one, other in zip(found_state, expected_state):
            np.testing.assert_allclose(one, other, 1e-5, 1e-5)


def test_states_that_change_places(tmp_path: Path) -> None:
    """No state is overwritten before it is read, when the next one is a part of another one, or that itself."""
    model = Model(box(2), box(2))
    observation, add = model.features(), model.builder.add
    first, second, third = (model.builder.input(Input(name, "float32", (2,), 0.0, "state")) for name in ("a", "b", "c"))
    total = add("Add", add("Add", add("Add", first, second), third), observation)
    model.outputs = {"action": total, "again": observation}
    turned = add("Reshape", add("Reshape", first, shape=(1, 2)), shape=(2,), name="turned")
    states = [State("a", "b", "hidden"), State("b", turned.name, "cell"), State("c", total.name, "critic_hidden")]
    policy = make_policy(model.build(Sampling("none"), states))
    made = export(policy, tmp_path)
    state = [np.full((1, 2), number, np.float32) for number in (1, 10, 100)]
    inputs = {"observation": np.zeros((1, 2), np.float32), **dict(zip(("hidden", "cell", "critic_hidden"), state))}
    found = made.run(inputs, 1)
    assert found["action"].tolist() == [[111, 111]]
    following = [found[f"next_{name}"].tolist() for name in ("hidden", "cell", "critic_hidden")]
    assert following == [[[10, 10]], [[1, 1]], [[111, 111]]]


@pytest.mark.parametrize("actions", [discrete(4), multi_discrete(2, 3, 4)], ids=lambda space: type(space).__name__)
def test_masks(tmp_path: Path, actions: Any) -> None:
    policy = make_policy(categorical(box(3), actions, masked=True))
    made = export(policy, tmp_path)
    observations = numbers(40, 3)
    masks = np.random.default_rng(0).random((40, policy.graph.output("logits").shape[0])) < 0.5
    expected, _ = policy.predict(observations, deterministic=True, action_masks=masks)
    assert np.array_equal(made.predict(observations, action_masks=masks)[0], expected)


def test_observations_of_all_spaces(tmp_path: Path) -> None:
    space = dict_space(a=box(2, 2), b=discrete(3), c=multi_discrete(2, 5), d=box(3, low=0, high=255, dtype="uint8"))
    policy = make_policy(categorical(space, discrete(4)))
    random = np.random.default_rng(0)
    observations = {
        "a": random.normal(size=(9, 2, 2)).astype(np.float32), "b": random.integers(0, 3, 9),
        "c": random.integers(0, [2, 5], (9, 2)), "d": random.integers(0, 256, (9, 3)).astype(np.uint8),
    }  # fmt: skip
    assert_same_outputs(policy, tmp_path, observations)


def test_outputs_that_do_not_depend_on_the_observation(tmp_path: Path) -> None:
    """An observation, a part of it, and weights, as they are."""
    model = Model(box(4), box(2))
    observation = model.features()
    part = model.builder.add("Slice", observation, axis=-1, start=1, end=3)
    weight = model.builder.add("Neg", model.weight("w", numbers(2, 3)))
    model.outputs = {"action": part, "same": observation, "constant": weight}
    assert_same_outputs(make_policy(model.build(Sampling("none"))), tmp_path, numbers(3, 4))


def test_a_deep_network(tmp_path: Path) -> None:
    """Twelve layers of an LSTM: as many states, and names that stay distinct."""
    agent = make_agent("recurrent.RecurrentActorCriticPolicy", n_lstm_layers=12, lstm_hidden_size=1, net_arch=[])
    policy = sbformat.load_policy(agent)
    assert_same_outputs(policy, tmp_path, np.zeros((2, *policy.graph.inputs[0].shape), np.float32))
