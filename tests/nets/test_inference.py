"""A lone ``policy.pth``, and files of ``policy.save()``: what is inferred, and what the caller is asked for."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import sbformat
from sbformat import Archive, UnsupportedError, ValidationError
from sbformat.nets.sb3 import POLICIES
from tests.nets.agents import (
    build,
    draw,
    lone,
    make_agent,
    saved_policy,
    weights_of,
    with_class,
    with_policy_class,
)
from tests.policies.run.models import box, dict_space, discrete, images, multi_discrete

RELU: dict[str, Any] = {"policy_kwargs": {"activation_fn": "ReLU"}}
TANH: dict[str, Any] = {"policy_kwargs": {"activation_fn": "Tanh"}}
KINDS = [
    ("ActorCriticPolicy", discrete(3), TANH),
    ("ActorCriticPolicy", box(2), TANH),
    ("recurrent.RecurrentActorCriticPolicy", discrete(3), TANH),
    ("dqn.DQNPolicy", discrete(3), RELU),
    ("qrdqn.QRDQNPolicy", discrete(3), RELU),
    ("sac.SACPolicy", box(2), RELU),
    ("tqc.TQCPolicy", box(2), RELU),
    ("crossq.CrossQPolicy", box(2), {"policy_kwargs": {"activation_fn": "ReLU", "batch_norm_eps": 0.001}}),
    ("td3.TD3Policy", box(2), RELU),
    ("ars.ARSPolicy", discrete(3), RELU),
]


@pytest.mark.parametrize(("policy", "actions", "given"), KINDS)
def test_a_lone_state_dict_acts_as_its_archive(policy: str, actions: Any, given: dict[str, Any]) -> None:
    archive, observation = make_agent(policy, actions=actions), draw(5, 3)
    expected = sbformat.load_policy(archive)
    found = sbformat.load_policy(lone(archive), action_space=actions, **given)
    assert found.inferred[:1] == (f"the policy is {policy.rsplit('.', maxsplit=1)[-1]}, from the names of the tensors",)
    assert "the observation is a vector of 3 numbers, from the first layer" in found.inferred
    one, other = found.outputs(observation), expected.outputs(observation)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
    assert found.algorithm is None


def refusal(archive: Archive, **given: Any) -> str:
    with pytest.raises(UnsupportedError) as caught:
        build(archive, **given)
    return caught.value.message


@pytest.mark.parametrize(("policy", "actions", "given"), KINDS)
def test_what_no_tensor_shows_is_asked_for(policy: str, actions: Any, given: dict[str, Any]) -> None:
    message = refusal(lone(make_agent(policy, actions=actions)))
    kwargs = {name: value for name, value in given["policy_kwargs"].items() if name != "n_quantiles"}
    assert f"policy_kwargs={kwargs} to load_policy" in message
    assert ("action_space=..." in message) == (policy != "dqn.DQNPolicy")
    assert "observation_space" not in message


def test_an_argument_that_the_policy_does_not_have_is_refused() -> None:
    archive = lone(make_agent(actions=discrete(3)))
    kwargs = {"activation_fn": "Tanh", "normalise_images": False}
    message = refusal(archive, action_space=discrete(3), policy_kwargs=kwargs)
    assert message.startswith("expected arguments of ActorCriticPolicy in policy_kwargs, got 'normalise_images'; avail")


def test_what_shapes_determine_is_inferred() -> None:
    graph = build(lone(make_agent("dqn.DQNPolicy", actions=discrete(3))), **RELU).graph
    assert graph.inferred == (
        "the policy is DQNPolicy, from the names of the tensors",
        "the policy computes as in the newest release, since nothing names another",
        "the observation is a vector of 3 numbers, from the first layer",
        "the action is one of 3, from the last layer",
    )
    quantiles = build(
        lone(make_agent("qrdqn.QRDQNPolicy", actions=discrete(3), n_quantiles=5)),
        policy_kwargs={"activation_fn": "ReLU", "n_quantiles": 5},
    )
    assert quantiles.action_space.n == 3  # type: ignore[attr-defined]


def test_a_network_without_hidden_layers_needs_no_activation() -> None:
    archive = lone(make_agent(actions=discrete(3), net_arch=[]))
    assert "activation_fn" not in refusal(archive)
    assert build(archive, action_space=discrete(3)).graph.output("logits").shape == (3,)
    assert build(archive, action_space=multi_discrete(1, 2)).graph.sampling.sizes == (1, 2)


def test_images_and_dicts_need_their_space() -> None:
    space = images(1, 36, 36)
    archive = lone(make_agent("ActorCriticCnnPolicy", space, discrete(3)))
    assert refusal(archive, action_space=discrete(3)).endswith("pass observation_space=... to load_policy")
    message = refusal(archive, action_space=discrete(3), observation_space=space)
    assert "pass policy_kwargs={'normalize_images': True} to load_policy, with the agent's values" in message
    given: dict[str, Any] = {"action_space": discrete(3), "policy_kwargs": {"normalize_images": True}}
    assert build(archive, observation_space=space, **given).graph.inputs[0].shape == (1, 36, 36)
    parts = dict_space(a=space, b=box(2))
    archive = lone(make_agent("MultiInputActorCriticPolicy", parts, discrete(3), net_arch=[]))
    assert "observation_space=..." in refusal(archive, action_space=discrete(3))
    assert len(build(archive, observation_space=parts, **given).graph.inputs) == 2


def test_a_supplied_extractor_hides_the_size_of_the_observation() -> None:
    archive = lone(make_agent(actions=discrete(3)))
    given: dict[str, Any] = {"action_space": discrete(3), "modules": frozenset({"features_extractor"}), **TANH}
    assert "pass observation_space=... to load_policy" in refusal(archive, **given)
    assert build(archive, observation_space=box(7), **given).graph.inputs[0].shape == (7,)


def test_settings_of_gsde_and_of_ars() -> None:
    archive = lone(make_agent(use_sde=True))
    message = refusal(archive, action_space=box(2), **TANH)
    assert "pass policy_kwargs={'squash_output': False, 'use_expln': False} to load_policy, with" in message
    kwargs = {"activation_fn": "Tanh", "squash_output": False, "use_expln": False}
    model = build(archive, action_space=box(2), policy_kwargs=kwargs)
    assert model.graph.sampling.kind == "gsde"
    assert "gSDE, from the shape of log_std" in model.graph.inferred
    message = refusal(lone(make_agent("sac.SACPolicy", use_sde=True)), action_space=box(2), **RELU)
    assert "'clip_mean': 2.0" in message
    assert "'squash_output': True" in refusal(lone(make_agent("ars.ARSPolicy")), action_space=box(2), **RELU)


def test_a_masked_policy_has_the_names_of_one_that_is_not() -> None:
    archive = lone(make_agent("maskable.MaskableActorCriticPolicy", actions=discrete(3)))
    given = {"action_space": discrete(3), **TANH}
    assert [item.name for item in build(archive, **given).graph.inputs] == ["observation"]
    masked = build(archive, policy_class="MaskableActorCriticPolicy", **given)
    assert [item.name for item in masked.graph.inputs] == ["observation", "action_masks"]


def test_tensors_that_are_not_sb3s() -> None:
    archive = lone(make_agent(weights={"encoder.0.weight": np.zeros((2, 3), "f4")}))
    message = refusal(archive)
    assert "the tensors are not those of a policy of SB3 ('encoder.0.weight')" in message
    assert "read_parameters" in message
    weights = weights_of(make_agent(actions=discrete(3)))
    archive = lone(make_agent(weights={**weights, "attention.weight": np.zeros((3, 3), "f4")}))
    message = refusal(archive, action_space=discrete(3), **TANH)
    assert "ActorCriticPolicy does not have 'attention.weight'" in message


# -- files of policy.save() ---------------------------------------------------------------------------


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("squash_output", [True, False])
@pytest.mark.parametrize("net_arch", [[5], []])
def test_what_files_of_ars_omit(net_arch: list[int], squash_output: bool, with_bias: bool) -> None:  # noqa: FBT001
    given = {"with_bias": with_bias, "squash_output": squash_output}
    if net_arch:
        archive = make_agent("ars.ARSPolicy", net_arch=net_arch, **given)
    else:
        archive = make_agent("ars.ARSLinearPolicy", **given)
    saved, observation = saved_policy(archive, net_arch=net_arch), 9 * draw(5, 3)
    for more in ({}, {"policy_class": "ARSPolicy"}):
        message = refusal(saved, **more)
        assert (
            message
            == "policy.save() of ARS omits squash_output: pass policy_kwargs={'squash_output': ...} to load_policy"
        )
        found = sbformat.load_policy(saved, policy_kwargs={"squash_output": squash_output}, **more)
        expected = sbformat.load_policy(archive).predict(observation, deterministic=True)[0]
        np.testing.assert_array_equal(found.predict(observation, deterministic=True)[0], expected)


def test_files_of_ars_for_choices_are_not_asked_about() -> None:
    archive = make_agent("ars.ARSPolicy", actions=discrete(3), net_arch=[5])
    saved = saved_policy(archive, net_arch=[5])
    assert [node.op for node in build(saved).graph.nodes] == [node.op for node in build(archive).graph.nodes]


# -- the class of a policy ----------------------------------------------------------------------------


def test_a_custom_class_is_refused_by_name_unless_the_caller_knows_what_it_extends() -> None:
    plain, observation = make_agent(actions=discrete(3)), draw(5, 3)
    archive = with_policy_class(plain, "mine.Policy")
    assert refusal(archive).startswith("the network of the policy class mine.Policy is not known; ")
    found = sbformat.load_policy(archive, policy_class="ActorCriticPolicy").outputs(observation)
    np.testing.assert_array_equal(found["logits"], sbformat.load_policy(plain).outputs(observation)["logits"])
    with pytest.raises(UnsupportedError, match=r"DQNPolicy does not have 'mlp_extractor\.policy_net\.0\.weight'"):
        build(archive, policy_class="DQNPolicy")


def test_classes_that_are_not_known_run_as_sb3s_own_by_an_option_if_all_weights_fit() -> None:
    plain, observation = make_agent("ActorCriticCnnPolicy", images(1, 36, 36), discrete(3)), draw(2, 1, 36, 36)
    expected = sbformat.load_policy(plain).outputs(observation)["logits"]
    extractor, kwargs = "features_extractor_class", {"features_extractor_class": "NatureCNN"}
    custom = with_class(plain, extractor, "mine.Extractor")
    own = "names and shapes of all weights fit SB3's own, but it may compute something else: "
    as_policy = "policy_class='ActorCriticPolicy' (--policy-class ActorCriticPolicy)"
    as_extractor = f"policy_kwargs={kwargs} (--policy-kwargs '{json.dumps(kwargs)}')"
    for archive, option, given, which in (
        (with_policy_class(plain, "m.Policy"), as_policy, {"policy_class": "ActorCriticPolicy"}, "policy_class says"),
        (custom, as_extractor, {"policy_kwargs": kwargs}, f"{extractor} says"),
        (
            with_policy_class(custom, "mine.Policy"), f"{as_policy} with {as_extractor}",
            {"policy_class": "ActorCriticPolicy", "policy_kwargs": kwargs}, f"policy_class and {extractor} say",
        ),
    ):  # fmt: skip
        assert refusal(archive).endswith(f"{own}{option} runs it so")
        policy = sbformat.load_policy(archive, **given)  # type: ignore[arg-type]
        name = "ActorCriticPolicy" if "policy_class" in given else "ActorCriticCnnPolicy"
        assert policy.inferred == (f"the policy computes as {name}, with its defaults, since {which} so",)
        np.testing.assert_array_equal(policy.outputs(observation)["logits"], expected)
    weights = {**weights_of(plain), "features_extractor.more.weight": np.zeros((2, 2), "f4")}
    assert "weights fit" not in refusal(custom.replace(parameters={"policy": weights}))
    assert "available: FlattenExtractor, NatureCNN" in refusal(custom, policy_kwargs={extractor: "mine.Extractor"})


def test_layers_at_other_positions_are_not_sb3s() -> None:
    for name, renamed in (("0.weight", "1.weight"), ("2.weight", "1.weight"), ("2.weight", "3.weight")):
        plain = make_agent(actions=discrete(3), net_arch={"pi": [4, 4], "vf": []})
        module = "mlp_extractor.policy_net."
        moved = {key.replace(module + name[0], module + renamed[0]): value for key, value in weights_of(plain).items()}
        archive = with_policy_class(plain.replace(parameters={"policy": moved}), "mine.Policy")
        for found, given in ((archive, {"policy_class": "ActorCriticPolicy"}), (lone(archive), TANH)):
            message = refusal(found, action_space=discrete(3), **given)  # type: ignore[arg-type]
            assert "ActorCriticPolicy does not have 'mlp_extractor.policy_net." in message


def test_a_custom_class_is_reported_as_inferred() -> None:
    archive = with_policy_class(make_agent(actions=discrete(3)), "mine.Policy")
    (sentence,) = build(archive, policy_class="ActorCriticPolicy").graph.inferred
    assert sentence == "the policy computes as ActorCriticPolicy, with its defaults, since policy_class says so"
    assert build(make_agent(actions=discrete(3)), policy_class="ActorCriticPolicy").graph.inferred == ()


def test_a_custom_class_may_have_other_defaults() -> None:
    archive = with_policy_class(make_agent(actions=discrete(3), net_arch=[6]), "mine.Policy")
    archive = archive.replace(data={**archive.data, "policy_kwargs": {}})
    graph = build(archive, policy_class="ActorCriticPolicy").graph
    assert graph.weights["action_net.weight"].shape == (3, 6)


def test_arguments_that_are_not_understood_may_be_replaced() -> None:
    archive = with_class(make_agent(actions=discrete(3)), "activation_fn", "mine.Snake")
    assert "mine.Snake" in refusal(archive)
    assert build(archive, **TANH).graph.nodes == build(make_agent(actions=discrete(3))).graph.nodes


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("CnnPolicy", "sac.CnnPolicy"),
        ("CnnPolicy", "dqn.CnnPolicy"),
        ("MlpPolicy", "td3.TD3Policy"),
        ("stable_baselines3.dqn.policies.DQNPolicy", "dqn.DQNPolicy"),
    ],
)
def test_a_name_that_several_modules_have_is_that_of_the_tensors(name: str, policy: str) -> None:
    space = images(1, 36, 36) if "Cnn" in policy else box(3)
    actions = discrete(3) if "dqn" in policy else box(2)
    archive = with_policy_class(make_agent(policy, space, actions), "mine.Policy")
    archive = archive.replace(data={**archive.data, "policy_kwargs": {}})
    assert build(archive, policy_class=name).graph.outputs["action"] == "action"


def test_a_class_that_does_not_exist() -> None:
    message = refusal(make_agent(), policy_class="ActorCritic")
    assert message.startswith("expected the name of a policy class, got 'ActorCritic'; available: ActorCriticPolicy, ")
    assert all(name in message for _, name in POLICIES)


def test_other_tensors_than_data_describes_are_listed() -> None:
    archive = make_agent(actions=discrete(3))
    weights = weights_of(archive)
    del weights["value_net.bias"]
    weights["action_net.bias"] = np.zeros(4, "f4")
    with pytest.raises(ValidationError) as caught:
        build(archive.replace(parameters={"policy": weights}))
    message = caught.value.message
    assert "the tensors are not those of ActorCriticPolicy: " in message
    assert "'action_net.bias': expected the shape (3,) (from action_space), got (4,)" in message
    assert "'value_net.bias' is missing" in message
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("key", ["policy_class", "observation_space", "action_space"])
def test_keys_that_data_lacks_are_asked_for(key: str) -> None:
    plain = make_agent(actions=discrete(3))
    archive = plain.replace(data={name: value for name, value in plain.data.items() if name != key})
    assert refusal(archive) == f"data is incomplete: pass {key}=... to load_policy"
    given = {"policy_class": "ActorCriticPolicy", "observation_space": box(3), "action_space": discrete(3)}
    assert build(archive, **{key: given[key]}).graph.nodes == build(plain).graph.nodes
