"""What is refused, what is inferred, and what the caller supplies, for files of Stable Baselines 2."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiDiscrete
from tests.helpers.changed_sb2_agents import (
    FOLDER,
    as_list,
    changed,
    reference,
    serialized,
    with_parameters,
    without_parameter,
)

if TYPE_CHECKING:
    from sbformat.policies.graph import Graph


def inputs_of(graph: Graph) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {item.name: (item.dtype, item.shape) for item in graph.inputs}


# -- the policy's class -------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["ppo2-elu-box64", "dqn-ln-tanh", "sac-softplus", "ppo2-lstm-arch", "ppo2-cnn-same"])
def test_a_users_class_is_refused_by_name(agent: str) -> None:
    source = changed(agent, lambda data: data.update(policy=reference("my.models", "Policy")))
    with pytest.raises(sbformat.UnsupportedError, match=r"'my\.models\.Policy' is not a class .* policy_class="):
        sbformat.policy_graph(source)


@pytest.mark.parametrize(
    ("agent", "name", "activation"),
    [
        ("ppo2-elu-box64", "MlpPolicy", "elu"),
        ("a2c-no-layers", "MlpPolicy", "tanh"),
        ("ppo2-lstm-arch", "stable_baselines.common.policies.MlpLstmPolicy", "relu"),
        ("a2c-lnlstm-arch", "LstmPolicy", "tanh"),
        ("dqn-ln-tanh", "FeedForwardPolicy", "tanh"),
        ("dqn-no-layers", "MlpPolicy", "relu"),
        ("sac-ln-box64", "LnMlpPolicy", "relu"),
        ("td3-selu-ln", "FeedForwardPolicy", "selu"),
        ("ddpg-perturbed", "LnMlpPolicy", "relu"),
        ("ppo2-cnn-same", "CnnPolicy", "tanh"),
    ],
)
def test_parameters_determine_the_layers_of_a_users_class(agent: str, name: str, activation: str) -> None:
    def change(data: dict[str, Any]) -> None:
        data.update(policy=reference("my.models", "Policy"), policy_kwargs={})

    graph = sbformat.policy_graph(changed(agent, change), policy_class=name, policy_kwargs={"act_fun": activation})
    expected = sbformat.policy_graph(FOLDER / f"{agent}.zip")
    assert graph.nodes == expected.nodes
    assert graph.outputs == expected.outputs
    assert any("my.models.Policy" in sentence for sentence in graph.inferred)


def test_a_class_of_rl_baselines_zoo_is_known() -> None:
    source = changed("a2c-no-layers", lambda data: data.update(policy=reference("utils.utils", "CustomMlpPolicy")))
    assert "CustomMlpPolicy" in sbformat.policy_graph(source).inferred[0]


def test_policy_class_must_be_one_of_the_algorithm() -> None:
    source = changed("a2c-no-layers", lambda data: data.pop("policy"))
    with pytest.raises(sbformat.UnsupportedError, match="expected policy_class to be a class of SB2's A2C, got 'LnMlp"):
        sbformat.policy_graph(source, policy_class="LnMlpPolicy")


# -- keywords -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["ppo2-keywords", "dqn-ln-tanh", "sac-softplus", "td3-noise", "ddpg-normalized"])
def test_parameters_that_contradict_keywords_are_refused(agent: str) -> None:
    def change(data: dict[str, Any]) -> None:
        data.update(policy_kwargs={"layers": [5], "feature_extraction": "mlp"} if "key" in agent else {"layers": [5]})

    with pytest.raises(sbformat.ValidationError, match="expected the shape") as caught:
        sbformat.policy_graph(changed(agent, change))
    assert caught.value.key == "policy_kwargs"  # type: ignore[attr-defined]


def test_a_missing_parameter_is_named() -> None:
    source = changed("ppo2-elu-box64", lambda data: data.update(policy_kwargs={"net_arch": [8, 7]}))
    with pytest.raises(sbformat.ValidationError, match="the parameter model/shared_fc1/w:0 is missing"):
        sbformat.policy_graph(source)


@pytest.mark.parametrize(
    ("function", "shown"), [(reference("my.models", "sine"), r"'my\.models\.sine'"), (5, "'int'"), (None, "'NoneType'")]
)
def test_an_unknown_activation_is_refused_by_name(function: Any, shown: str) -> None:
    if isinstance(function, dict):
        code = pickle.dumps({"layers": []}, 2)[:-1] + b"X\x07\0\0\0act_fun" + b"cmy.models\nsine\ns."
        source = changed("a2c-no-layers", lambda data: data.update(policy_kwargs=serialized(code)))
    else:
        keywords = {"layers": [], "act_fun": function}
        source = changed("a2c-no-layers", lambda data: data.update(policy_kwargs=keywords))
    with pytest.raises(sbformat.UnsupportedError, match=f"the activation {shown} is not known; available: elu"):
        sbformat.policy_graph(source)


def test_an_unknown_keyword_is_refused_by_name() -> None:
    source = changed("a2c-no-layers", lambda data: data.update(policy_kwargs={"cnn_extractor": 1}))
    with pytest.raises(sbformat.UnsupportedError, match="keyword 'cnn_extractor'"):
        sbformat.policy_graph(source)


# -- what the file lacks ------------------------------------------------------------------------------


def test_parameters_without_names_are_refused_with_the_reason() -> None:
    message = "without names|expected parameters with names, got them by index, for the file does not contain"
    source = as_list("a2c-no-layers")
    spaces = sbformat.read(FOLDER / "a2c-no-layers.zip")
    with pytest.raises(sbformat.UnsupportedError, match=message):
        sbformat.policy_graph(
            source, policy_class="MlpPolicy",
            observation_space=spaces.decode("observation_space"), action_space=spaces.decode("action_space"),
        )  # fmt: skip


@pytest.mark.parametrize("key", ["observation_space", "action_space"])
def test_a_missing_space_is_supplied(key: str) -> None:
    source = changed("ppo2-elu-box64", lambda data: data.pop(key))
    with pytest.raises(sbformat.UnsupportedError, match=f"as {key}, got 'NoneType'"):
        sbformat.policy_graph(source)
    original = sbformat.read(FOLDER / "ppo2-elu-box64.zip")
    given: dict[str, Any] = {key: original.decode(key)}
    assert sbformat.policy_graph(source, **given).nodes == sbformat.policy_graph(original).nodes


def test_an_unknown_algorithm_is_refused() -> None:
    source = changed("a2c-no-layers", lambda data: data.pop("lr_schedule"))
    with pytest.raises(sbformat.UnsupportedError, match="expected an algorithm of Stable Baselines 2"):
        sbformat.policy_graph(source)


def test_actions_that_an_algorithm_does_not_support_are_refused() -> None:
    for agent, space in (("dqn-ln-tanh", MultiDiscrete), ("sac-softplus", Discrete)):
        donor = "a2c-leaky-bits" if space is MultiDiscrete else "dqn-ln-tanh"
        given = sbformat.read(FOLDER / f"{donor}.zip").decode("action_space")
        assert isinstance(given, space)
        with pytest.raises(sbformat.ValidationError, match=f"does not support {given.class_name} actions"):
            sbformat.policy_graph(FOLDER / f"{agent}.zip", action_space=given)


# -- observations -------------------------------------------------------------------------------------


def test_inputs_have_the_dtype_of_the_space() -> None:
    graphs = {name: inputs_of(sbformat.policy_graph(FOLDER / f"{name}.zip")) for name in
              ("ppo2-elu-box64", "ppo2-relu6-image", "dqn-noise", "dqn-no-layers", "acer-swish")}  # fmt: skip
    assert graphs == {
        "ppo2-elu-box64": {"observation": ("float64", (2, 3))},
        "ppo2-relu6-image": {"observation": ("uint8", (3, 4, 2))},
        "dqn-noise": {"observation": ("int64", ())},
        "dqn-no-layers": {"observation": ("int32", (4,))},
        "acer-swish": {"observation": ("int64", (3,))},
    }


def test_her_takes_the_parts_of_an_observation_or_all_of_it() -> None:
    path = FOLDER / "her-sac.zip"
    archive = sbformat.read(path)
    policy = sbformat.load_policy(path)
    assert isinstance(policy.observation_space, DictSpace)
    assert policy.algorithm == "HER"
    assert [item.key for item in policy.graph.inputs] == ["observation", "achieved_goal", "desired_goal"]
    flat = sbformat.load_policy(path, observation_space=archive.decode("observation_space"))
    assert isinstance(flat.observation_space, Box)
    parts = {
        "observation": np.array([0.1, 0.2, 0.3]),
        "achieved_goal": np.array([0.4, 0.5]),
        "desired_goal": np.ones(2),
    }
    joined = np.concatenate([parts[key] for key in ("observation", "achieved_goal", "desired_goal")])
    one, other = (made.predict(seen, deterministic=True)[0] for made, seen in ((policy, parts), (flat, joined)))
    np.testing.assert_array_equal(one, other)


def test_statistics_normalize_observations() -> None:
    path = FOLDER / "ppo2-elu-box64.zip"
    mean, var = np.arange(6.0).reshape(2, 3) / 3, np.arange(1.0, 7.0).reshape(2, 3)
    statistics = sbformat.VecNormalize(
        obs_rms=sbformat.RunningMeanStd(mean, var, 10.0), clip_obs=1.5, epsilon=1e-3, norm_reward=False
    )
    seen = np.linspace(-3, 4, 6).reshape(2, 3)
    normalized = np.clip((seen - mean) / np.sqrt(var + 1e-3), -1.5, 1.5)
    made = sbformat.load_policy(path, vecnormalize=statistics).outputs(seen)
    expected = sbformat.load_policy(path).outputs(normalized)
    for name, value in expected.items():
        np.testing.assert_allclose(made[name], value, 1e-6, 1e-6)


def test_ddpg_without_saved_statistics_says_so() -> None:
    path = FOLDER / "ddpg-walk.zip"
    graph = sbformat.policy_graph(changed("ddpg-walk", lambda data: data.update(normalize_observations=True)))
    assert any("has no statistics" in sentence for sentence in graph.inferred)
    assert graph.nodes == sbformat.policy_graph(path).nodes


@pytest.mark.parametrize("part", ["count", "runningsum", "runningsumsq"])
def test_ddpg_with_a_part_of_its_statistics_is_refused(part: str) -> None:
    name = f"input/obs_rms/{part}:0"
    with pytest.raises(sbformat.UnsupportedError, match=f"the parameter {name} is missing"):
        sbformat.policy_graph(without_parameter("ddpg-normalized", name))


def test_a_parameter_of_complex_numbers_is_refused() -> None:
    source = with_parameters("a2c-no-layers", lambda found: found.update({"model/pi/b:0": np.zeros(3, np.complex64)}))
    with pytest.raises(sbformat.UnsupportedError, match="expected 'model/pi/b:0' to have one of .*, got complex64"):
        sbformat.policy_graph(source)


def test_parameters_of_another_float_are_converted() -> None:
    def change(found: dict[str, np.ndarray]) -> None:
        found.update({name: array.astype(np.float64) for name, array in found.items()})

    seen = np.linspace(-1, 1, 4)
    made = sbformat.load_policy(with_parameters("a2c-no-layers", change)).outputs(seen)
    expected = sbformat.load_policy(FOLDER / "a2c-no-layers.zip").outputs(seen)
    np.testing.assert_array_equal(made["logits"], expected["logits"])


@pytest.mark.parametrize("value", [5, [1], ["a", "b"], None, [-1, 10**400]])
def test_a_bad_range_of_ddpg_is_refused(value: Any) -> None:
    source = changed("ddpg-walk", lambda data: data.update(observation_range=value))
    with pytest.raises(sbformat.UnsupportedError, match="expected two numbers as observation_range"):
        sbformat.policy_graph(source)


def test_ddpg_does_not_clip_to_an_infinite_range() -> None:
    bounds = [float("-inf"), 2.0]
    graph = sbformat.policy_graph(changed("ddpg-walk", lambda data: data.update(observation_range=bounds)))
    assert [node.op for node in graph.nodes if node.module == "input/obs_rms"] == ["Min"]


# -- drawn actions ------------------------------------------------------------------------------------


def test_noise_that_depends_on_the_step_before_is_left_out_and_reported() -> None:
    policy = sbformat.load_policy(FOLDER / "ddpg-walk.zip")
    assert policy.graph.sampling.kind == "none"
    assert "OrnsteinUhlenbeckActionNoise" in policy.inferred[0]


def test_noise_that_cannot_be_decoded_leaves_the_deterministic_action() -> None:
    graph = sbformat.policy_graph(changed("td3-noise", lambda data: data.update(action_noise=serialized(b"\x80\x03"))))
    assert graph.sampling.kind == "none"
    assert "cannot be decoded" in graph.inferred[0]


def test_critics_and_targets_do_not_matter() -> None:
    graph = sbformat.policy_graph(FOLDER / "td3-noise.zip")
    assert {name.partition("/")[0] for name in graph.weights if "/" in name} == {"model", "data:action_space"}
    assert not any("values_fn" in name for name in graph.weights)


def test_the_graph_is_json() -> None:
    for path in sorted(FOLDER.glob("*.zip")):
        assert json.dumps(sbformat.policy_graph(path).to_dict(), allow_nan=False)
