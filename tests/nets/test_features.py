"""From observations to features: encodings, images, dicts, VecNormalize, and extractors that the caller supplies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sbformat
from sbformat import RunningMeanStd, UnsupportedError, ValidationError, VecNormalize
from sbformat.nets.arguments import Agent
from tests.nets.agents import (
    NEWEST,
    build,
    dense,
    draw,
    draw_weights,
    find_policy,
    lone,
    make_agent,
    saved_policy,
    weights_of,
    with_class,
    with_policy_class,
)
from tests.policies.run.models import box, dict_space, discrete, images, multi_binary, multi_discrete

GENERATOR = np.random.default_rng(3)
IMAGE = images(1, 36, 36)


def logits(archive: sbformat.Archive, observation: Any, **options: Any) -> np.ndarray:
    found = sbformat.load_policy(archive, **options).outputs(observation)["logits"]
    return np.atleast_2d(found)


def linear_agent(space: Any, **kwargs: Any) -> sbformat.Archive:
    return make_agent(observations=space, actions=discrete(4), net_arch=[], **kwargs)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("space", "observation", "features"),
    [
        (box(2, 2), [[1, 2], [3, 4]], [1, 2, 3, 4]),
        (box(3, dtype="float64"), [1, 0.1, 2], [1, 0.1, 2]),
        (box(2, dtype="int64", low=0, high=9), [3, 4], [3, 4]),
        (box(2, dtype="uint8", low=0, high=255), [3, 255], [3, 255]),
        (discrete(4), 2, [0, 0, 1, 0]),
        (discrete(4, start=1), 2, [0, 0, 1, 0]),
        (multi_discrete(2, 3), [1, 0], [0, 1, 1, 0, 0]),
        (multi_binary(3), [1, 0, 1], [1, 0, 1]),
        (multi_binary(2, 2), [[1, 0], [0, 1]], [1, 0, 0, 1]),
    ],
)
def test_an_observation_is_encoded_by_its_space(space: Any, observation: Any, features: list[float]) -> None:
    archive = linear_agent(space)
    expected = dense(weights_of(archive), "action_net", np.array([features], "f4"))
    close(logits(archive, np.array(observation, np.asarray(observation).dtype)), expected)


@pytest.mark.parametrize("normalizes", [True, False])
def test_an_image_is_divided_by_255(normalizes: bool) -> None:  # noqa: FBT001 -- parametrized
    archive = linear_agent(IMAGE, normalize_images=normalizes)
    image = GENERATOR.integers(0, 255, (1, 36, 36), np.uint8)
    features = image.astype("f4").reshape(1, -1) / (255 if normalizes else 1)
    found = logits(archive, image)
    np.testing.assert_allclose(found, dense(weights_of(archive), "action_net", features), rtol=1e-4, atol=1e-4)


def test_bytes_that_are_not_an_image_are_not_divided() -> None:
    space = box(1, 4, 4, dtype="uint8", low=0, high=254)
    graph = build(linear_agent(space)).graph
    assert "Div" not in [node.op for node in graph.nodes]


def test_a_dict_is_concatenated_in_the_order_of_its_space() -> None:
    space = dict_space(z=box(2), n=discrete(3), a=multi_binary(2))
    archive = make_agent("MultiInputActorCriticPolicy", space, discrete(4), net_arch=[])
    features = np.array([[5, 6, 0, 1, 0, 1, 0]], "f4")
    found = logits(archive, {"a": np.array([1, 0]), "n": 1, "z": np.array([5.0, 6.0])})
    close(found, dense(weights_of(archive), "action_net", features))
    graph = build(archive).graph
    assert [(item.name, item.key) for item in graph.inputs] == [
        ("observation.z", "z"), ("observation.n", "n"), ("observation.a", "a"),
    ]  # fmt: skip


def test_a_dict_of_images_has_a_network_for_each() -> None:
    space = dict_space(one=IMAGE, x=box(2), two=IMAGE)
    graph = build(make_agent("MultiInputActorCriticPolicy", space, discrete(2))).graph
    modules = [node.module for node in graph.nodes if node.op == "Conv"]
    assert modules == [f"pi_features_extractor.extractors.{key}.cnn.{at}" for key in ("one", "two") for at in (0, 2, 4)]


def test_images_that_are_scaled_already_have_a_network_but_are_not_divided() -> None:
    space = dict_space(one=box(1, 36, 36, low=0, high=1))
    archive = make_agent("MultiInputActorCriticPolicy", space, discrete(2), normalize_images=False)
    operators = [node.op for node in build(archive).graph.nodes]
    assert (operators.count("Conv"), operators.count("Div")) == (3, 0)


# -- VecNormalize -------------------------------------------------------------------------------------


def statistics(*shape: int, seed: int = 0) -> RunningMeanStd:
    generator = np.random.default_rng(seed)
    return RunningMeanStd(generator.normal(size=shape), generator.uniform(0.5, 2, shape), 100.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_statistics_apply_in_float64(dtype: str) -> None:
    archive = linear_agent(box(3, dtype=dtype, low=-9, high=9))
    made = VecNormalize(obs_rms=statistics(3), norm_reward=False, clip_obs=1.5, epsilon=1e-3)
    observation = (9 * draw(5, 3)).astype(dtype)
    expected = dense(weights_of(archive), "action_net", made.normalize_obs(observation))
    close(logits(archive, observation, vecnormalize=made), expected)
    addresses = {weight.address for weight in build(archive, vecnormalize=made).graph.weights.values()}
    assert {"vecnormalize:obs_rms/mean", "vecnormalize:obs_rms/var"} <= addresses


def test_only_some_keys_are_normalized() -> None:
    space = dict_space(a=box(2), b=box(2))
    archive = make_agent("MultiInputActorCriticPolicy", space, discrete(4), net_arch=[])
    by_key = {"a": statistics(2), "b": statistics(2, seed=1)}
    made = VecNormalize(obs_rms=by_key, norm_reward=False, norm_obs_keys=("b",))
    observation = {"a": draw(5, 2), "b": draw(5, 2, seed=2)}
    normalized = made.normalize_obs(observation)
    features = np.concatenate([normalized["a"], normalized["b"]], 1)
    close(logits(archive, observation, vecnormalize=made), dense(weights_of(archive), "action_net", features))


def test_statistics_of_images_with_the_channels_last() -> None:
    space = images(2, 4, 5)
    archive = linear_agent(space)
    made = VecNormalize(obs_rms=statistics(4, 5, 2), norm_reward=False)
    image = GENERATOR.integers(0, 255, (3, 4, 5, 2), np.uint8)
    features = made.normalize_obs(image).transpose(0, 3, 1, 2).reshape(3, -1) / np.float32(255)
    policy = build(archive, vecnormalize=made)
    assert [node.op for node in policy.graph.nodes].count("Transpose") == 2
    found = logits(archive, image.transpose(0, 3, 1, 2), vecnormalize=made)
    close(found, dense(weights_of(archive), "action_net", features))


def test_an_image_of_floats_is_normalized_as_it_is() -> None:
    archive = linear_agent(images(2, 4, 5))
    made = VecNormalize(obs_rms=statistics(4, 5, 2), norm_reward=False)
    image = GENERATOR.uniform(0, 255, (3, 4, 5, 2))
    features = made.normalize_obs(image).transpose(0, 3, 1, 2).reshape(3, -1) / np.float32(255)
    found = logits(archive, image.transpose(0, 3, 1, 2), vecnormalize=made)
    close(found, dense(weights_of(archive), "action_net", features))


def test_only_images_are_transposed_for_their_statistics() -> None:
    made = VecNormalize(obs_rms=statistics(4, 5, 2), norm_reward=False)
    with pytest.raises(ValidationError, match=r"expected statistics of the shape \(2, 4, 5\), got \(4, 5, 2\)"):
        build(linear_agent(box(2, 4, 5)), vecnormalize=made)


def test_statistics_of_what_sb3_does_not_normalize() -> None:
    made = VecNormalize(obs_rms=statistics(3), norm_reward=False)
    with pytest.raises(ValidationError, match="expected no statistics of a MultiBinary observation"):
        build(linear_agent(multi_binary(3)), vecnormalize=made)
    space = dict_space(a=box(2), b=multi_binary(3))
    archive = make_agent("MultiInputActorCriticPolicy", space, discrete(4), net_arch=[])
    by_key = {"a": statistics(2), "b": statistics(3)}
    with pytest.raises(ValidationError, match="expected no statistics of a MultiBinary observation"):
        build(archive, vecnormalize=VecNormalize(obs_rms=by_key, norm_reward=False))
    only = VecNormalize(obs_rms=by_key, norm_reward=False, norm_obs_keys=("a",))
    assert build(archive, vecnormalize=only).graph.outputs["action"] == "action"


def test_statistics_of_another_shape() -> None:
    made = VecNormalize(obs_rms=statistics(4), norm_reward=False)
    with pytest.raises(ValidationError, match=r"expected statistics of the shape \(3,\), got \(4,\)"):
        build(linear_agent(box(3)), vecnormalize=made)
    by_key = VecNormalize(obs_rms={"a": statistics(3)}, norm_reward=False)
    with pytest.raises(ValidationError, match="expected statistics of an array, as the observation space is"):
        build(linear_agent(box(3)), vecnormalize=by_key)


def test_statistics_that_normalize_no_observations() -> None:
    made = VecNormalize(norm_obs=False, norm_reward=False)
    archive = linear_agent(box(3))
    assert build(archive, vecnormalize=made).graph == build(archive).graph


@pytest.mark.parametrize(("value", "was"), [(None, False), ({":type:": "<class 'numpy.ndarray'>"}, True)])
def test_data_says_that_an_agent_was_trained_behind_vecnormalize(value: Any, was: bool) -> None:  # noqa: FBT001
    assert build(make_agent(data={"_last_original_obs": value})).was_normalized is was


# -- modules of the caller ----------------------------------------------------------------------------


def custom_agent(policy: str, actions: Any = None, features: int = 5) -> sbformat.Archive:
    """An agent whose features extractor is not one of SB3: its tensors are named as it likes."""
    agent = Agent(find_policy(policy), box(features), actions or box(2), {}, use_sde=False, release=NEWEST)
    weights = draw_weights(agent)
    extractors = {
        "ActorCriticPolicy": ("features_extractor", "pi_features_extractor", "vf_features_extractor"),
        "sac.SACPolicy": ("actor.features_extractor", "critic.features_extractor", "critic_target.features_extractor"),
        "dqn.DQNPolicy": ("q_net.features_extractor", "q_net_target.features_extractor"),
    }[policy]
    one = draw(features, 3)
    weights.update({f"{name}.body.weight": one for name in extractors[:1]})
    shares = policy == "ActorCriticPolicy"
    weights.update({f"{name}.body.weight": one if shares else draw(features, 3, seed=9) for name in extractors[1:]})
    archive = make_agent(policy, box(3), agent.action_space, weights=weights)
    return with_class(archive, "features_extractor_class", "mine.Extractor")


def test_an_unknown_extractor_is_refused_by_name_with_what_can_be_had() -> None:
    with pytest.raises(UnsupportedError, match=r"mine\.Extractor.*read_parameters.*modules=.*policy_class=") as caught:
        build(custom_agent("ActorCriticPolicy"))
    assert caught.value.entry == "data"


@pytest.mark.parametrize("supplied", ["mlp_extractor", "mlp_extractor.policy_net"])
def test_an_unknown_extractor_without_tensors_is_not_taken_for_sb3s(supplied: str) -> None:
    archive = with_class(make_agent(actions=discrete(4)), "features_extractor_class", "mine.Scale")
    with pytest.raises(UnsupportedError, match=r"features_extractor_class is mine\.Scale"):
        build(archive, modules=frozenset({supplied}))
    with pytest.raises(UnsupportedError, match=r"features_extractor_class is mine\.Scale"):
        build(with_policy_class(archive, "mine.Policy"), policy_class="ActorCriticPolicy")
    assert build(archive, modules=frozenset({"features_extractor", supplied})).graph.outputs["action"] == "action"


def test_a_supplied_extractor_gets_what_sb3_passes_it() -> None:
    archive = custom_agent("ActorCriticPolicy", actions=discrete(4))
    weights, observation = weights_of(archive), draw(6, 3)
    seen: list[Any] = []

    def extract(value: np.ndarray) -> np.ndarray:
        seen.append(value)
        return np.asarray(value @ weights["features_extractor.body.weight"].T)

    policy = sbformat.load_policy(archive, modules={"features_extractor": extract})
    found = policy.outputs(observation)
    latent = {"policy_net": extract(observation), "value_net": extract(observation)}
    for at, name in ((0, "policy_net"), (2, "policy_net"), (0, "value_net"), (2, "value_net")):
        latent[name] = np.tanh(dense(weights, f"mlp_extractor.{name}.{at}", latent[name]))
    close(found["logits"], dense(weights, "action_net", latent["policy_net"]))
    close(found["value"], dense(weights, "value_net", latent["value_net"]))
    assert (seen[0].shape, seen[0].dtype) == ((6, 3), np.float32)
    (node,) = [node for node in policy.graph.nodes if node.op == "Call"]
    assert node.shape == (5,)


def test_an_extractor_of_the_actor_alone_leaves_out_what_the_critic_says() -> None:
    archive = custom_agent("sac.SACPolicy")
    assert list(build(archive, modules=frozenset({"features_extractor"})).graph.outputs) == [
        "action",
        "mean",
        "log_std",
    ]
    both = build(archive, modules=frozenset({"actor.features_extractor", "critic.features_extractor"})).graph
    assert "q_values" in both.outputs
    assert [node.shape for node in both.nodes if node.op == "Call"] == [(5,), (5,)]


def test_an_extractor_of_a_dict_gets_a_dict() -> None:
    space = dict_space(b=box(2), a=discrete(3))
    archive = make_agent("MultiInputActorCriticPolicy", space, discrete(4), net_arch=[])
    (node,) = [
        node for node in build(archive, modules=frozenset({"features_extractor"})).graph.nodes if node.op == "Call"
    ]
    assert (node.attributes["keys"], node.shape) == (("b", "a"), (5,))


@pytest.mark.parametrize(("name", "outputs"), [("mlp_extractor", 3), ("mlp_extractor.policy_net", 4)])
def test_supplied_hidden_layers(name: str, outputs: int) -> None:
    archive, observation = make_agent(actions=discrete(4), net_arch=[6]), draw(5, 3)
    policy = sbformat.load_policy(archive, modules={name: lambda value: np.tile(value, (1, 2))})
    found = policy.outputs(observation)
    assert len(found) == outputs
    close(found["logits"], dense(weights_of(archive), "action_net", np.tile(observation, (1, 2))))


def test_a_supplied_activation() -> None:
    plain, observation = make_agent(actions=discrete(4)), draw(5, 3)
    archive = with_class(plain, "activation_fn", "mine.Snake")
    with pytest.raises(UnsupportedError, match=r"mine\.Snake"):
        build(archive)
    found = logits(archive, observation, modules={"activation_fn": np.tanh})
    close(found, logits(plain, observation))


# -- what is beside a supplied module -----------------------------------------------------------------


def calls_of(archive: sbformat.Archive, *modules: str, **given: Any) -> list[str]:
    """The functions that a graph calls, and whether it has what the critic says."""
    graph = build(archive, modules=frozenset(modules), **given).graph
    called = [node.attributes["function"] for node in graph.nodes if node.op == "Call"]
    return [*called, *(name for name in graph.outputs if name in ("value", "q_values"))]


def test_a_critic_keeps_its_own_extractor_beside_a_supplied_one() -> None:
    space = images(1, 36, 36)
    kwargs = {"normalize_images": True, "activation_fn": "ReLU"}
    given = {"observation_space": space, "action_space": box(2), "policy_kwargs": kwargs}
    for policy in ("sac.CnnPolicy", "td3.CnnPolicy"):
        archive = lone(make_agent(policy, space, box(2), features_extractor_kwargs={"features_dim": 6}))
        graph = build(archive, modules=frozenset({"features_extractor"}), **given).graph
        assert [node.module for node in graph.nodes if node.op == "Conv"] == [
            f"critic.features_extractor.cnn.{position}" for position in (0, 2, 4)
        ]
        weights = {k: v for k, v in weights_of(archive).items() if k != "critic.features_extractor.cnn.0.bias"}
        with pytest.raises(ValidationError, match=r"'critic.features_extractor.cnn.0.bias' is missing"):
            build(archive.replace(parameters={"policy": weights}), **given)


def test_extractors_without_tensors_are_shared_as_data_says() -> None:
    unshared = make_agent("sac.SACPolicy", share_features_extractor=False)
    actor, critic = "actor.features_extractor", "critic.features_extractor"
    assert calls_of(unshared, actor, critic) == [actor, critic, "q_values"]
    assert calls_of(unshared, actor) == [actor, "q_values"]
    assert calls_of(unshared, critic) == [critic, "q_values"]
    assert calls_of(unshared, "features_extractor") == ["features_extractor", "q_values"]
    on_policy = make_agent(actions=discrete(2), share_features_extractor=False)
    both = ("pi_features_extractor", "vf_features_extractor")
    assert calls_of(on_policy, *both) == [*both, "value"]
    with pytest.raises(ValueError, match="does not have the module 'vf_features_extractor'"):
        sbformat.load_policy(unshared, modules={"vf_features_extractor": abs})


def test_what_old_files_of_policy_save_have_beside_a_supplied_extractor() -> None:
    extractor = "features_extractor"
    for policy, release, kwargs, expected in (
        ("ActorCriticPolicy", (1, 6), {"net_arch": [5, {"pi": [4], "vf": [3]}]}, "value"),
        ("sac.SACPolicy", (0, 7), {"net_arch": [4]}, "q_values"),
    ):
        archive = make_agent(policy, release=release, **kwargs)  # type: ignore[arg-type]
        assert calls_of(saved_policy(archive, **kwargs), extractor) == [extractor, expected]


def test_an_unknown_activation_without_a_layer() -> None:
    archive = with_class(make_agent(actions=discrete(2), net_arch=[3]), "activation_fn", "mine.Act")
    assert calls_of(archive, "mlp_extractor") == ["mlp_extractor"]
    with pytest.raises(UnsupportedError, match=r"mine\.Act"):
        build(archive, modules=frozenset({"features_extractor"}))


def test_crossq_without_hidden_layers_of_the_actor() -> None:
    archive = lone(make_agent("crossq.CrossQPolicy", net_arch={"pi": [], "qf": [4]}))
    kwargs = {"activation_fn": "ReLU", "batch_norm_eps": 0.001}
    assert "q_values" in build(archive, action_space=box(2), policy_kwargs=kwargs).graph.outputs
