"""``lower``: the part of a graph that exported files contain, in float32, beside the policy in its own dtypes."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.formats.vecnormalize import RunningMeanStd, VecNormalize
from sbformat.immutable import FrozenDict
from sbformat.limits import Budget
from sbformat.policies.export.files import describe_origin, name_inputs, summarize_origin
from sbformat.policies.export.lowering import Lowered, fold_constants, lower
from sbformat.policies.export.parts import find_raw_action
from sbformat.policies.graph import Graph, Input, Node, Sampling, Weight
from sbformat.policies.run.program import Program, Weights
from tests.helpers import policy_vectors
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC
from tests.helpers.recursion import allow_calls_within_one_another
from tests.helpers.sampling import mark_others
from tests.helpers.vector_files import write_vector
from tests.nets.agents import draw, make_agent, saved_policy
from tests.policies.run.graphs import describe
from tests.policies.run.models import Model, box, categorical, dict_space, discrete, gaussian, make_policy
from tests.policies.sampled import name_family

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sbformat.known.spaces import Space

SB2 = ROOT / "tests" / "nets" / "archives" / "sb2"
STATISTICS = ARCHIVES / "vecnormalize-pendulum.pkl"


def run_lowered(lowered: Lowered, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute the outputs of a batch, in the dtypes of the nodes."""
    graph = Graph(
        tuple(Input(port.value, port.dtype, port.shape) for port in lowered.inputs),
        lowered.nodes,
        {},
        {
            name: Weight(name, array.dtype.name, array.shape, "test", describe(array))
            for name, array in lowered.constants.items()
        },
        (),
        Sampling("none"),
        (),
    )
    program = Program(graph, [port.value for port in lowered.outputs], Weights(graph, Budget()))
    made = program.run({port.value: np.asarray(inputs[port.name]) for port in lowered.inputs})
    return {port.name: value for port, value in zip(lowered.outputs, made)}


def check_invariants(lowered: Lowered) -> None:
    """The invariants that back ends rely on."""
    dtypes = {port.value: port.dtype for port in lowered.inputs}
    dtypes.update({name: array.dtype.name for name, array in lowered.constants.items()})
    wide = {name for name, dtype in dtypes.items() if dtype == "float64"}
    for node in lowered.nodes:
        assert node.name not in dtypes
        assert all(name in dtypes for name in node.inputs), node
        assert not all(name in lowered.constants for name in node.inputs), node
        if node.dtype == "float64":
            assert node.op in ("Sub", "Cast"), node
        elif node.op != "Cast":
            assert not wide & set(node.inputs), node
        dtypes[node.name] = node.dtype
        wide |= {node.name} if node.dtype == "float64" else set()
    used = {name for node in lowered.nodes for name in node.inputs} | {port.value for port in lowered.outputs}
    assert set(lowered.constants) <= used
    assert {node.name for node in lowered.nodes} <= used
    assert all(array.flags.c_contiguous for array in lowered.constants.values())
    for port in lowered.outputs:
        assert dtypes[port.value] == port.dtype


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


# -- which part ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", mark_others(policy_vectors.ARCHIVES, 3, name=lambda name: name, group=name_family))
def test_the_invariants_hold_for_every_kind_of_policy(name: str) -> None:
    policy = policy_vectors.load_vector(name)
    for outputs in (("action",), tuple(policy.graph.outputs)):
        for options in ({}, {"raw": True}):
            lowered = lower(policy, outputs, **options)
            check_invariants(lowered)
            assert tuple(port.name for port in lowered.outputs)[: len(outputs)] == outputs
            assert len(lowered.nodes) <= len(policy.graph.nodes) + 2  # which clip an action that is scaled


def test_only_what_the_outputs_need_is_there() -> None:
    action = lower(PPO)
    assert [port.name for port in action.outputs] == ["action"]
    assert not any(name.startswith(("value_net", "mlp_extractor.value_net")) for name in action.constants)
    value = lower(PPO, ["value", "action"])
    assert [port.name for port in value.outputs] == ["value", "action"]
    assert {name for name in value.constants if name.startswith("value_net")} == {"value_net.weight", "value_net.bias"}
    assert len(action.nodes) < len(value.nodes)


def test_the_source_may_be_what_load_policy_takes() -> None:
    expected = lower(sbformat.load_policy(PPO))
    for source in (PPO, PPO.read_bytes(), sbformat.read(PPO)):
        made = lower(source)
        assert made._replace(constants={}) == expected._replace(constants={})
        assert all((made.constants[name] == array).all() for name, array in expected.constants.items())
    with pytest.raises(sbformat.UnsupportedError, match="expected an agent or its policy, got statistics"):
        lower(STATISTICS)


def test_wrong_outputs_are_named() -> None:
    available = "expected outputs among 'action', 'logits', 'probabilities', 'value', got 'nothing'"
    with pytest.raises(ValueError, match=available):
        lower(PPO, ["action", "nothing"])
    with pytest.raises(ValueError, match="expected at least one output, of 'action'"):
        lower(PPO, [])
    with pytest.raises(sbformat.UnsupportedError, match="'action' twice"):
        lower(PPO, ["action", "action"])
    wrong: Any = ["action", 3]
    for outputs in ("action", wrong, 3):
        with pytest.raises(TypeError):
            lower(PPO, outputs)


@pytest.mark.parametrize(
    ("path", "parameters"),
    [(PPO, "'logits'"), (SAC, "'mean', 'log_std'"), (write_vector("policy-released-dqn-1.6"), "'q_values'")],
)
def test_an_export_does_not_sample(path: Path, parameters: str) -> None:
    with pytest.raises(sbformat.UnsupportedError, match=f"export the outputs {parameters}.*, and sample from them"):
        lower(path, deterministic=False)


def test_an_agent_that_never_samples_says_so() -> None:
    with pytest.raises(sbformat.UnsupportedError, match="and the agent does not sample$"):
        lower(write_vector("policy-td3"), deterministic=False)


def test_functions_of_the_caller_are_refused_where_they_are_needed() -> None:
    policy = sbformat.load_policy(PPO, modules={"features_extractor": lambda x: x})
    with pytest.raises(sbformat.UnsupportedError, match="'features_extractor' is a function that modules= supplied"):
        lower(policy)
    critic = sbformat.load_policy(PPO, modules={"mlp_extractor.value_net": lambda x: np.zeros((len(x), 8), "f4")})
    assert lower(critic, ["logits"]).nodes
    with pytest.raises(sbformat.UnsupportedError, match=r"'mlp_extractor\.value_net' is a function"):
        lower(critic, ["logits", "value"])


def test_an_output_of_weights_alone_is_a_constant() -> None:
    policy = make_policy(gaussian(box(3), box(2)))
    lowered = lower(policy, ["log_std"])
    assert lowered.nodes == ()
    assert [port.value for port in lowered.outputs] == list(lowered.constants)
    assert [port.name for port in lowered.inputs] == ["observation"]
    close(lowered.constants[lowered.outputs[0].value], np.linspace(-1, 0.5, 2))


def test_an_output_may_be_an_input() -> None:
    model = Model(box(3), box(3))
    value = model.observe(model.observations)
    model.outputs = {"action": model.builder.add("Identity", value, name="action")}
    lowered = lower(make_policy(model.build(Sampling("none"))))
    assert (lowered.nodes, lowered.outputs[0].value) == ((), "observation")


@pytest.mark.parametrize(("layers", "levels"), [(100, 200), pytest.param(1500, 1000, marks=pytest.mark.exhaustive)])
def test_hundreds_of_layers(layers: int, levels: int) -> None:
    """More than functions can call one another."""
    archive = make_agent("sac.SACPolicy", net_arch=[1] * layers)
    with allow_calls_within_one_another(levels):
        policy = sbformat.load_policy(archive)
        assert len(policy.graph.nodes) > 2 * levels
        lowered = lower(policy)
        check_invariants(lowered)
    assert len(lowered.nodes) > max(levels, 2 * layers)


# -- bounds -------------------------------------------------------------------------------------------


def make_bounds(low: list[float], high: list[float], dtype: str = "float32") -> Space:
    made = box(len(low), dtype=dtype)
    parts = [describe(np.array(bound, dtype)) for bound in (low, high)]
    return type(made)("gymnasium", (len(low),), np.dtype(dtype).str, *parts, None)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_action_is_scaled_to_bounds_in_the_order_of_stable_baselines3(dtype: str) -> None:
    low, high = np.array([[-1, -2, 0, 3, 0.1, -1.1], [1, 2, 1, 3, 5000, 1e6]], dtype)
    space = make_bounds(low.tolist(), high.tolist(), dtype)
    policy = sbformat.load_policy(make_agent("td3.TD3Policy", box(3), space, net_arch=[]))
    lowered = lower(policy)
    raw = lower(policy, raw=True)
    assert [node.op for node in lowered.nodes[len(raw.nodes) :]] == ["Add", "Mul", "Mul", "Add", "Max", "Min"]
    observation = np.concatenate([draw(20, 3), 1e4 * draw(20, 3)])
    found = run_lowered(lowered, {"observation": observation})["action"]
    squashed = run_lowered(raw, {"observation": observation})["action"]
    expected = low + 0.5 * (squashed + np.float32(1)) * (high - low)
    assert found.dtype == squashed.dtype == np.float32
    assert {-1, 1} <= set(squashed.flat)
    if dtype == "float32":
        np.testing.assert_array_equal(found, np.clip(expected, low, high))
    assert (abs(found - expected) <= 1e-7 * (high - low)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_saturated_action_is_within_the_bounds(dtype: str) -> None:
    random = np.random.default_rng(0)
    low, high = np.sort(random.normal(size=(2, 300)) * 10.0 ** random.integers(-3, 4, 300), 0).astype(dtype)
    space = make_bounds(low.tolist(), high.tolist(), dtype)
    lowered = lower(make_agent("td3.TD3Policy", box(3), space, net_arch=[]))
    action = run_lowered(lowered, {"observation": 1e6 * draw(20, 3)})["action"].astype(np.float64)
    assert (action >= low).all()
    assert (action <= high).all()
    near = 1e-6 * np.abs([low, high]).max(0)
    assert ((action.min(0) <= low + near) & (action.max(0) >= high - near)).mean() > 0.9


def test_bounds_without_end_are_left_as_they_are() -> None:
    infinite = [float("inf")] * 2
    policy = sbformat.load_policy(
        make_agent("sac.SACPolicy", box(3), make_bounds([-np.inf] * 2, infinite), net_arch=[4])
    )
    observation = draw(5, 3)
    found = run_lowered(lower(policy), {"observation": observation})["action"]
    np.testing.assert_array_equal(found, policy.predict(observation, deterministic=True)[0])
    clipped = sbformat.load_policy(make_agent(actions=make_bounds([-np.inf] * 2, infinite)))
    found = run_lowered(lower(clipped), {"observation": observation})["action"]
    close(found, clipped.predict(observation, deterministic=True)[0])


def test_an_action_is_clipped_where_a_runtime_computes_a_tanh_above_1() -> None:
    """onnxruntime computes 1.0000002; components whose bounds are an infinite distance apart are left as they are."""
    low, high = [-1, 0.1, -1.1, 3e38, -3e38], [1, 5000, 1e6, -3e38, np.inf]
    lowered = lower(make_agent("td3.TD3Policy", box(3), make_bounds(low, high), net_arch=[]))
    scaling = [node for node in lowered.nodes if node.module == "bounds"]
    squashed = np.float32(1.0000002) * np.array([[-1], [1]], np.float32)
    value = np.broadcast_to(squashed, (2, 5))
    operators = {"Add": np.add, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum}
    with np.errstate(all="ignore"):
        for node in scaling:
            (operand,) = (lowered.constants[name] for name in node.inputs if name in lowered.constants)
            value = operators[node.op](value, operand)
    np.testing.assert_array_equal(value[:, :3], np.array([low[:3], high[:3]], np.float32))
    assert not np.isfinite(value[:, 3:]).any()


def test_outputs_beside_a_scaled_action_are_not_scaled() -> None:
    policy = sbformat.load_policy(make_agent("sac.SACPolicy", box(3), make_bounds([0, -3], [1, 5]), net_arch=[4]))
    observation = draw(5, 3)
    expected = policy.outputs(observation)
    for name, value in run_lowered(lower(policy, list(expected)), {"observation": observation}).items():
        close(np.broadcast_to(value, expected[name].shape), expected[name])


@pytest.mark.parametrize(("low", "high"), [(-0.1, 0.1), (0.1, 0.3), (-1e-50, 1e-50), (-1 / 3, 2 / 3), (-1e300, 1e300)])
def test_bounds_are_rounded_inwards(low: float, high: float) -> None:
    actions = make_bounds([low, low], [high, high], "float64")
    policy = sbformat.load_policy(make_agent(observations=box(3), actions=actions, net_arch=[]))
    observation = 1e4 * draw(50, 3)
    found = run_lowered(lower(policy), {"observation": observation})["action"]
    assert found.dtype == np.float32
    assert (found.astype("f8") >= low).all()
    assert (found.astype("f8") <= high).all()
    close(found, policy.predict(observation, deterministic=True)[0])
    if abs(high) < 1e10:  # a bound that the observations reach
        assert (found.min(), found.max()) == (round_inwards(low, -1), round_inwards(high, 1))


def round_inwards(bound: float, outwards: int) -> np.float32:
    """Return the nearest float32 that is not beyond a bound."""
    made = np.float32(bound)
    return np.nextafter(made, np.float32(-outwards)) if (float(made) - bound) * outwards > 0 else made


def test_a_raw_action_is_the_mean() -> None:
    policy = sbformat.load_policy(make_agent(observations=box(3), actions=make_bounds([-0.1] * 2, [0.1] * 2)))
    observation = 100 * draw(5, 3)
    made = run_lowered(lower(policy, ["action", "mean"], raw=True), {"observation": observation})
    np.testing.assert_array_equal(made["action"], made["mean"])
    assert np.abs(made["action"]).max() > 0.1
    assert find_raw_action(policy.graph) == policy.graph.outputs["mean"]
    assert lower(PPO, raw=True).nodes == lower(PPO).nodes  # a Discrete has no bounds


# -- float32 ------------------------------------------------------------------------------------------


def normalized(dtype: str, mean: float, deviation: float, size: int = 4, epsilon: float = 1e-8) -> sbformat.Policy:
    """Return a policy whose mean is the normalized observation, but for a matrix."""
    spread = np.linspace(1, 2, size)
    moments = RunningMeanStd(mean * spread, (deviation * spread) ** 2, 100.0)
    statistics = VecNormalize(obs_rms=moments, norm_reward=False, epsilon=epsilon)
    observations = box(size, low=-(2.0**31 - 200), high=2.0**31 - 200, dtype=dtype)
    archive = make_agent(observations=observations, actions=box(size, low=-100, high=100), net_arch=[])
    return sbformat.load_policy(archive, vecnormalize=statistics)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint32"])
@pytest.mark.parametrize(("mean", "deviation"), [(1000, 0.1), (0.1, 1e-3), (5e8, 30.0), (-1e6, 1e-2), (0, 1)])
def test_digits_of_the_mean_are_not_lost(dtype: str, mean: float, deviation: float) -> None:
    if dtype == "uint32" and mean < 0:
        pytest.skip("no such observation")
    policy = normalized(dtype, mean, deviation)
    spread = np.linspace(1, 2, 4)
    drawn = np.random.default_rng(0).normal(size=(200, 4))
    observation = np.maximum(spread * (mean + deviation * drawn), -np.inf if dtype != "uint32" else 0).astype(dtype)
    lowered = lower(policy, ["mean", "action"])
    check_invariants(lowered)
    made = run_lowered(lowered, {"observation": observation})
    for name, expected in policy.outputs(observation).items():
        if name in made:
            close(made[name], expected)


def test_a_mean_that_float32_represents_is_subtracted_in_one_step() -> None:
    exact = lower(normalized("float32", 0.5, 1.0, 1))
    inexact = lower(normalized("float32", 0.1, 1.0, 1))
    assert [node.op for node in exact.nodes].count("Sub") == 1
    assert [node.op for node in inexact.nodes].count("Sub") == 2
    assert len(inexact.nodes) == len(exact.nodes) + 1


def test_an_observation_of_float64_is_narrowed_after_the_difference() -> None:
    wide = lower(normalized("float64", 1000, 0.1))
    assert [(node.op, node.dtype) for node in wide.nodes[:2]] == [("Sub", "float64"), ("Cast", "float32")]
    assert [port.dtype for port in wide.inputs] == ["float64"]


def test_an_observation_of_float64_without_statistics_is_cast() -> None:
    policy = sbformat.load_policy(make_agent(observations=box(3, dtype="float64"), net_arch=[]))
    assert [(node.op, node.dtype) for node in lower(policy).nodes[:1]] == [("Cast", "float32")]


def test_constants_that_float32_does_not_have_become_infinite() -> None:
    policy = normalized("float32", 0, 1e80)
    observation = draw(5, 4)
    found = run_lowered(lower(policy), {"observation": observation})["action"]
    close(found, policy.predict(observation, deterministic=True)[0])


@pytest.mark.parametrize(("mean", "deviation"), [(4e38, 1), (0, 1e-60)])
def test_statistics_that_float32_does_not_have_are_refused(mean: float, deviation: float) -> None:
    policy = normalized("float32", mean, deviation, epsilon=1e-200)
    with pytest.raises(sbformat.UnsupportedError, match="'vecnormalize': expected numbers that float32 has, got"):
        lower(policy)


def test_constants_are_folded_in_float64_and_rounded_once() -> None:
    """numpy's functions of float32 differ between processors, and an agent has the same bytes everywhere."""
    numbers = np.linspace(-3, 3, 501, dtype=np.float32)
    constants = {"x": numbers}
    assert fold_constants([Node("y", "Exp", ("x",), FrozenDict(), "float32", numbers.shape)], constants) == ()
    assert constants["y"].dtype == np.float32
    np.testing.assert_array_equal(constants["y"], np.exp(numbers.astype(np.float64)).astype(np.float32))


# -- inputs and outputs -------------------------------------------------------------------------------


def test_parts_of_a_dict_have_the_names_of_their_keys() -> None:
    keys = ("a", "action", "observation", "value", "", "next_hidden", "a b\n", "logits")
    policy = make_policy(categorical(dict_space(**{key: box(1) for key in keys}), discrete(3)))
    ports = lower(policy, ["action", "logits"]).inputs
    assert {port.key: port.name for port in ports} == {
        "a": "a", "action": "observation.action", "observation": "observation", "value": "value",
        "": "observation.", "next_hidden": "next_hidden", "a b\n": "a b\n", "logits": "observation.logits",
    }  # fmt: skip
    assert [port.role for port in ports] == ["observation"] * len(keys)


def test_keys_that_cannot_be_told_apart_are_refused() -> None:
    space = dict_space(**{key: box(1) for key in ("action", "observation.action")})
    policy = make_policy(categorical(space, discrete(3)))
    with pytest.raises(sbformat.UnsupportedError, match=r"different names, got 'observation\.action' twice"):
        lower(policy)


def test_keys_may_be_those_of_states() -> None:
    graph = make_policy(categorical(dict_space(action_masks=box(1), b=box(1)), discrete(3), masked=True)).graph
    ports = name_inputs(graph, ["action_masks"], ["action"])
    assert [port.name for port in ports] == ["observation.action_masks", "b", "action_masks"]


def test_masks_are_an_input_if_an_output_needs_them() -> None:
    model = categorical(box(3), discrete(4), masked=True)
    assert [port.name for port in lower(make_policy(model)).inputs] == ["observation", "action_masks"]
    outputs = {**model.graph.outputs, "unmasked": "unmasked"}
    policy = make_policy(model._replace(graph=model.graph._replace(outputs=outputs)))
    assert [port.name for port in lower(policy, ["unmasked"]).inputs] == ["observation"]


@pytest.mark.parametrize(
    ("layers", "options", "outputs", "states"),
    [
        (1, {}, ["action"], ["hidden", "cell"]),
        (1, {}, ["action", "value"], ["hidden", "cell", "critic_hidden", "critic_cell"]),
        (1, {}, ["value"], ["critic_hidden", "critic_cell"]),
        (2, {}, ["action"], ["hidden.0", "cell.0", "hidden.1", "cell.1"]),
        (1, {"shared_lstm": True, "enable_critic_lstm": False}, ["value"], ["hidden", "cell"]),
        (1, {"enable_critic_lstm": False}, ["value"], []),
    ],
)
def test_states_that_an_output_needs_are_inputs_and_outputs(
    layers: int, options: dict[str, Any], outputs: list[str], states: list[str]
) -> None:
    archive = make_agent(
        "recurrent.RecurrentActorCriticPolicy", box(3), box(2), n_lstm_layers=layers, lstm_hidden_size=4, **options
    )
    policy = sbformat.load_policy(archive)
    lowered = lower(policy, outputs)
    check_invariants(lowered)
    inputs = [port.name for port in lowered.inputs]
    assert inputs[0] == "observation"
    assert sorted(inputs[1:]) == sorted([*states, *(["episode_start"] if states else [])])
    next_states = [port.name for port in lowered.outputs[len(outputs) :]]
    assert sorted(next_states) == sorted(f"next_{name}" for name in states)


def test_the_state_of_sb2_has_its_own_name() -> None:
    lowered = lower(write_vector("policy-sb2-ppo2-lstm"), ["value"])
    assert [port.name for port in lowered.inputs] == ["observation", "state", "episode_start"]
    assert [port.name for port in lowered.outputs] == ["value", "next_state"]


# -- metadata -----------------------------------------------------------------------------------------


def test_metadata_describe_the_agent() -> None:
    metadata = lower(PPO).metadata
    assert list(metadata) == [
        "algorithm", "stable_baselines3_version", "observation_space", "action_space", "sha256", "normalized",
        "sbformat_version",
    ]  # fmt: skip
    assert metadata["algorithm"] == "PPO"
    assert metadata["stable_baselines3_version"] == "2.9.2"
    assert metadata["sha256"] == hashlib.sha256(PPO.read_bytes()).hexdigest()
    assert metadata["normalized"] == "false"
    assert metadata["sbformat_version"] == sbformat.__version__
    space = json.loads(metadata["observation_space"], parse_constant=pytest.fail)
    assert (space["kind"], space["shape"], space["low"]["items"][1]) == ("Box", [4], "-Infinity")
    assert json.loads(metadata["action_space"])["n"] == 2
    assert summarize_origin(metadata) == (
        f"PPO policy of Stable-Baselines3 2.9.2, from a file with the SHA-256 {metadata['sha256']}; "
        f"exported by sbformat {sbformat.__version__}"
    )


def test_metadata_say_whether_observations_are_normalized() -> None:
    with_statistics = sbformat.load_policy(SAC, vecnormalize=STATISTICS)
    assert describe_origin(with_statistics.model)["normalized"] == "true"
    rewards = VecNormalize(norm_obs=False, ret_rms=RunningMeanStd(np.array(0.0), np.array(1.0), 9.0))
    assert describe_origin(sbformat.load_policy(SAC, vecnormalize=rewards).model)["normalized"] == "false"


def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    assert list(describe_origin(make_policy(gaussian(box(3), box(2))).model)) == [
        "algorithm", "observation_space", "action_space", "normalized", "sbformat_version",
    ]  # fmt: skip
    sbformat.convert(sbformat.read(PPO), tmp_path / "policy.pth")
    space = sbformat.read(PPO).decode("action_space")
    policy = sbformat.load_policy(tmp_path / "policy.pth", action_space=space, policy_kwargs={"activation_fn": "Tanh"})
    metadata = describe_origin(policy.model)
    assert {"algorithm", "stable_baselines3_version"}.isdisjoint(metadata)
    assert json.loads(metadata["inferred"]) == list(policy.inferred) != []
    assert metadata["sha256"] == hashlib.sha256((tmp_path / "policy.pth").read_bytes()).hexdigest()
    assert summarize_origin(metadata).startswith("unknown policy, from a file with the SHA-256 ")


@pytest.mark.parametrize("path", [SAC, SB2 / "her-sac.zip", write_vector("policy-sb2-ppo2")])
def test_the_digest_is_that_of_the_file(path: Path) -> None:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for source in (path, path.read_bytes(), sbformat.read(path)):
        assert describe_origin(sbformat.load_policy(source).model)["sha256"] == digest


def test_an_archive_that_is_not_a_file_has_no_digest(tmp_path: Path) -> None:
    archive = sbformat.read(PPO)
    for name in archive.entries:
        (tmp_path / name).write_bytes(b"".join(archive.stream(name)))
    edited = sbformat.edit(PPO, assign={"gamma": 0.5}).archive
    policy_file = saved_policy(make_agent())
    for source in (tmp_path, edited, policy_file):
        assert "sha256" not in describe_origin(sbformat.load_policy(source).model)


def test_an_edited_archive_that_was_written_has_the_digest_of_the_new_file(tmp_path: Path) -> None:
    sbformat.write(sbformat.edit(PPO, assign={"gamma": 0.5}).archive, tmp_path / "new.zip")
    found = describe_origin(sbformat.load_policy(tmp_path / "new.zip").model)["sha256"]
    assert found == hashlib.sha256((tmp_path / "new.zip").read_bytes()).hexdigest()


def test_a_file_that_changes_after_it_was_loaded(tmp_path: Path) -> None:
    path = tmp_path / "agent.zip"
    path.write_bytes(PPO.read_bytes())
    policy = sbformat.load_policy(path)
    path.write_bytes(SAC.read_bytes())
    assert describe_origin(policy.model)["sha256"] == hashlib.sha256(PPO.read_bytes()).hexdigest()
