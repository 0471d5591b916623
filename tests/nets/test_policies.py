"""The graphs of SB3's policies: each class of each release, computed beside numpy as SB3's source says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sbformat
from sbformat import UnsupportedError
from sbformat.known.spaces import Box
from sbformat.nets.sb3 import POLICIES
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import mark_others
from tests.nets.agents import build, dense, draw, make_agent, weights_of
from tests.policies.run.models import box, dict_space, discrete, images, multi_binary, multi_discrete

RELEASES = [(0, 6), (0, 8), (0, 10), (1, 1), (1, 2), (1, 3), (1, 6), (1, 7), (1, 8), (2, 2), (2, 9)]
SPACES = {
    "FlattenExtractor": box(3),
    "NatureCNN": images(1, 36, 36),
    "CombinedExtractor": dict_space(b=box(2), a=images(1, 36, 36)),
}
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, **CLOSE)


def tanh_layers(weights: dict[str, np.ndarray], module: str, value: np.ndarray) -> np.ndarray:
    for at in (0, 2):
        value = np.tanh(dense(weights, f"{module}.{at}", value))
    return value


def relu_layers(weights: dict[str, np.ndarray], module: str, value: np.ndarray, *positions: int) -> np.ndarray:
    for at in positions:
        value = np.maximum(dense(weights, f"{module}.{at}", value), 0)
    return value


def existed(pair: tuple[str, str], release: tuple[int, int]) -> bool:
    if "crossq" in pair[0]:
        return release >= (2, 0)
    return POLICIES[pair].extractor[1] != "CombinedExtractor" or release >= (1, 1)


@pytest.mark.parametrize(
    ("pair", "release"),
    mark_others(
        ((pair, release) for pair in POLICIES for release in RELEASES if existed(pair, release)),
        12,
        group=lambda case: case[0],
    ),
)
def test_every_policy_of_every_release_acts(pair: tuple[str, str], release: tuple[int, int]) -> None:
    extractor = POLICIES[pair].extractor[1]
    is_box = any(f".{name}." in pair[0] for name in ("sac", "tqc", "td3", "crossq"))
    actions = box(2, 2) if is_box else discrete(3)
    archive = make_agent(f"{pair[0].split('.')[-2]}.{pair[1]}", SPACES[extractor], actions, release=release)
    policy = sbformat.load_policy(archive, seed=0)
    observation: Any = draw(3)
    if extractor == "NatureCNN":
        observation = np.random.default_rng(0).integers(0, 255, (1, 36, 36), np.uint8)
    if extractor == "CombinedExtractor":
        observation = {"a": np.zeros((1, 36, 36), np.uint8), "b": draw(2)}
    for deterministic in (True, False):
        action, _ = policy.predict(observation, deterministic=deterministic)
        assert (action.shape, action.dtype) == ((2, 2), np.float32) if is_box else ((), np.int64)
        assert np.all((action >= -1.5) & (action <= 2))
    assert all(np.isfinite(value).all() for value in policy.outputs(observation).values())
    assert policy.observation_space == archive.decode("observation_space")
    assert policy.inferred == ()


# -- on-policy ----------------------------------------------------------------------------------------


def test_an_actor_critic_with_choices() -> None:
    archive = make_agent(actions=discrete(4))
    weights, observation = weights_of(archive), draw(5, 3)
    policy = sbformat.load_policy(archive)
    logits = dense(weights, "action_net", tanh_layers(weights, "mlp_extractor.policy_net", observation))
    value = dense(weights, "value_net", tanh_layers(weights, "mlp_extractor.value_net", observation))
    found = policy.outputs(observation)
    assert list(found) == ["action", "logits", "probabilities", "value"]
    close(found["logits"], logits)
    close(found["value"], value)
    close(found["probabilities"], np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
    np.testing.assert_array_equal(policy.predict(observation, deterministic=True)[0], logits.argmax(1))


def test_shared_layers_before_1_8() -> None:
    archive = make_agent(release=(1, 6), actions=discrete(4), net_arch=[6, {"pi": [5], "vf": []}])
    weights, observation = weights_of(archive), draw(5, 3)
    shared = np.tanh(dense(weights, "mlp_extractor.shared_net.0", observation))
    found = sbformat.load_policy(archive).outputs(observation)
    latent = np.tanh(dense(weights, "mlp_extractor.policy_net.0", shared))
    close(found["logits"], dense(weights, "action_net", latent))
    close(found["value"], dense(weights, "value_net", shared))


TIES = [
    ((-0.03579478710889816, -0.035794783383607864), 0),
    ((0.03532085567712784, 0.03532085940241814), 0),
    ((1.0968999862670898, 1.0968998670578003), 0),
    ((0.04514830932021141, 0.04514831304550171), 0),
    ((0.10783745348453522, -0.3229217529296875, 0.10783746093511581), 0),
    ((0.5216795206069946, 0.5216794610023499, 0.058144692331552505, 0.33348995447158813), 0),
    ((1.0968998670578003, 1.0968999862670898), 1),
]
"""Logits, and the greatest of ``Categorical(logits=...).probs`` of torch 2.13."""


@check_each("case", TIES)
def test_the_first_of_logits_that_become_equal_when_torch_normalizes_them(case: tuple[tuple[float, ...], int]) -> None:
    logits, expected = case
    weights = dict(weights_of(make_agent(actions=discrete(len(logits)), net_arch=[4])))
    weights["action_net.weight"] = np.zeros_like(weights["action_net.weight"])
    weights["action_net.bias"] = np.array(logits, np.float32)
    archive = make_agent(actions=discrete(len(logits)), net_arch=[4], weights=weights)
    action, _ = sbformat.load_policy(archive).predict(np.zeros(3, np.float32), deterministic=True)
    assert action == expected


def test_the_graph_names_each_layer_and_its_module() -> None:
    graph = build(make_agent(actions=discrete(2), net_arch=[8])).graph
    assert [(node.op, node.module) for node in graph.nodes][:6] == [
        ("Gemm", "mlp_extractor.policy_net.0"),
        ("Tanh", "mlp_extractor.policy_net.1"),
        ("Gemm", "action_net"),
        ("ReduceLogSumExp", "action"),
        ("Sub", "action"),
        ("ArgMax", ""),
    ]
    weight = graph.weights["action_net.weight"]
    assert (weight.address, weight.shape) == ("policy.pth:action_net.weight", (2, 8))
    assert next(iter(graph.outputs.items())) == ("action", "action")
    assert graph.sampling._asdict() == {
        "kind": "categorical", "replaces": "action", "parameters": {"logits": "logits"}, "sizes": (2,), "rate": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("shares", [True, False])
def test_features_are_extracted_once_if_they_are_shared(shares: bool) -> None:  # noqa: FBT001 -- parametrized
    archive = make_agent("ActorCriticCnnPolicy", images(1, 36, 36), share_features_extractor=shares)
    nodes = build(archive).graph.nodes
    assert sum(node.op == "Conv" for node in nodes) == (3 if shares else 6)


def test_several_components() -> None:
    archive = make_agent(actions=multi_discrete(2, 3), net_arch=[])
    weights, observation = weights_of(archive), draw(5, 3)
    model = build(archive)
    assert model.graph.sampling.sizes == (2, 3)
    logits = dense(weights, "action_net", observation)
    found = sbformat.load_policy(archive).outputs(observation)
    expected = np.stack([logits[:, :2].argmax(1), logits[:, 2:].argmax(1)], 1)
    np.testing.assert_array_equal(found["action"], expected)
    close(found["probabilities"].sum(1), 2)


def test_bits_are_floats() -> None:
    archive = make_agent(actions=multi_binary(3), net_arch=[])
    weights, observation = weights_of(archive), draw(5, 3)
    action, _ = sbformat.load_policy(archive).predict(observation, deterministic=True)
    assert action.dtype == np.float32
    np.testing.assert_array_equal(action, dense(weights, "action_net", observation) > 0)


def test_masked_bits_have_two_logits_each() -> None:
    archive = make_agent("maskable.MaskableActorCriticPolicy", actions=multi_binary(3), net_arch=[])
    observation = draw(2, 3)
    logits = dense(weights_of(archive), "action_net", observation)
    policy = sbformat.load_policy(archive)
    action, _ = policy.predict(observation, deterministic=True)
    assert action.dtype == np.int64
    np.testing.assert_array_equal(action, logits.reshape(2, 3, 2).argmax(2))
    masks = np.tile([True, False], (2, 3))
    assert not policy.predict(observation, deterministic=True, action_masks=masks)[0].any()
    assert np.all(policy.outputs(observation, action_masks=masks)["logits"][:, 1::2] == np.float32(-1e8))


def test_recurrent_states_are_those_of_torch() -> None:
    archive = make_agent("recurrent.RecurrentActorCriticPolicy", lstm_hidden_size=4, n_lstm_layers=2, net_arch=[])
    weights, observation = weights_of(archive), draw(3, 3)
    states = {(name, at): draw(3, 4, seed=at) for name in "hc" for at in (0, 1)}
    start = np.array([0, 1, 0], "f4")
    value, hidden = observation, []
    for at in (0, 1):
        h, c = (states[name, at] * (1 - start[:, None]) for name in "hc")
        parts = [
            source @ weights[f"lstm_actor.weight_{way}_l{at}"].T + weights[f"lstm_actor.bias_{way}_l{at}"]
            for way, source in (("ih", value), ("hh", h))
        ]
        i, f, g, o = np.split(sum(parts), 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        value = np.tanh(c) / (1 + np.exp(-o))
        hidden.append(value)
    policy = sbformat.load_policy(archive)
    state = tuple(np.stack([states[name, at] for at in (0, 1)]) for name in "hc")
    action, after = policy.predict(observation, state, start, deterministic=True)
    close(after[0], np.stack(hidden))
    close(action, np.clip(dense(weights, "action_net", value), -1.5, 2))
    names = [item.name for item in policy.graph.inputs if item.role == "state"]
    assert names[:2] == ["lstm_actor.hidden_l0", "lstm_actor.cell_l0"]
    assert [item.name for item in policy.graph.states] == [
        "hidden", "cell", "hidden", "cell", "critic_hidden", "critic_cell", "critic_hidden", "critic_cell",
    ]  # fmt: skip


def test_the_critics_lstm_may_be_a_layer_or_the_actors() -> None:
    kind = "recurrent.RecurrentActorCriticPolicy"
    alone = build(make_agent(kind, enable_critic_lstm=False, lstm_hidden_size=4)).graph
    shared = build(make_agent(kind, enable_critic_lstm=False, shared_lstm=True, lstm_hidden_size=4)).graph
    assert any(node.module == "critic" for node in alone.nodes)
    assert not any(node.module == "critic" for node in shared.nodes)
    assert sum(node.op == "Sigmoid" for node in shared.nodes) == 3


@pytest.mark.parametrize("name", ["bidirectional", "proj_size", "batch_first"])
def test_an_lstm_with_which_sb3_cannot_predict(name: str) -> None:
    archive = make_agent(
        "recurrent.RecurrentActorCriticPolicy",
        lstm_hidden_size=4,
        lstm_kwargs={name: 2 if name == "proj_size" else True},
    )
    with pytest.raises(UnsupportedError, match=f"can neither train nor predict several environments with {name} in"):
        build(archive)


# -- off-policy ---------------------------------------------------------------------------------------


def sac_outputs(archive: sbformat.Archive, observation: np.ndarray) -> dict[str, np.ndarray]:
    weights = weights_of(archive)
    latent = relu_layers(weights, "actor.latent_pi", observation, 0, 2)
    mean = dense(weights, "actor.mu", latent)
    seen = np.concatenate([observation, np.tanh(mean)], axis=1)
    names = sorted({name.split(".")[1] for name in weights if name.startswith("critic.q")})
    critics = [dense(weights, f"critic.{name}.4", relu_layers(weights, f"critic.{name}", seen, 0, 2)) for name in names]
    return {
        "action": -1.5 + 0.5 * (np.tanh(mean) + 1) * 3.5,
        "mean": mean,
        "log_std": np.clip(dense(weights, "actor.log_std", latent), -20, 2),
        "critics": np.stack(critics, 1),
    }


@pytest.mark.parametrize("release", [(0, 7), (0, 9), (1, 5), (2, 9)])
def test_sac(release: tuple[int, int]) -> None:
    archive, observation = make_agent("sac.SACPolicy", release=release), draw(5, 3)
    found = sbformat.load_policy(archive).outputs(observation)
    expected = sac_outputs(archive, observation)
    assert list(found) == ["action", "mean", "log_std", "q_values"]
    for name in ("action", "mean", "log_std"):
        close(found[name], expected[name])
    close(found["q_values"], expected["critics"][:, :, 0])


def test_tqc_has_quantiles() -> None:
    archive, observation = make_agent("tqc.TQCPolicy", n_quantiles=6, n_critics=3), draw(5, 3)
    found = sbformat.load_policy(archive).outputs(observation)
    expected = sac_outputs(archive, observation)["critics"]
    assert found["quantiles"].shape == (5, 3, 6)
    close(found["quantiles"], expected)
    close(found["q_values"], expected.mean(2))


def test_td3_is_deterministic() -> None:
    archive, observation = make_agent("td3.TD3Policy", net_arch=[6]), draw(5, 3)
    weights = weights_of(archive)
    mean = np.tanh(dense(weights, "actor.mu.2", relu_layers(weights, "actor.mu", observation, 0)))
    found = sbformat.load_policy(archive).predict(observation)[0]
    close(found, -1.5 + 0.5 * (mean + 1) * 3.5)


def test_crossq_normalizes_with_the_statistics_of_the_file() -> None:
    archive = make_agent("crossq.CrossQPolicy", net_arch={"pi": [4], "qf": [3]}, batch_norm_eps=0.25)
    weights, observation = weights_of(archive), draw(5, 3)

    def renorm(module: str, value: np.ndarray) -> np.ndarray:
        scale, bias, mean, var = (weights[f"{module}.{name}"] for name in ("scale", "bias", "ra_mean", "ra_var"))
        return (value - mean) / np.sqrt(var + 0.25) * scale + bias

    latent = np.maximum(dense(weights, "actor.latent_pi.1", renorm("actor.latent_pi.0", observation)), 0)
    found = sbformat.load_policy(archive).outputs(observation)
    close(found["mean"], dense(weights, "actor.mu", renorm("actor.latent_pi.3", latent)))


def test_dqn_explores_with_the_rate_of_data() -> None:
    archive = make_agent("dqn.DQNPolicy", actions=discrete(3, 7), data={"exploration_rate": 0.05})
    weights, observation = weights_of(archive), draw(5, 3)
    values = dense(weights, "q_net.q_net.4", relu_layers(weights, "q_net.q_net", observation, 0, 2))
    model = build(archive)
    assert (model.graph.sampling.kind, model.graph.sampling.rate) == ("epsilon_greedy", 0.05)
    policy = sbformat.load_policy(archive)
    close(policy.outputs(observation)["q_values"], values)
    np.testing.assert_array_equal(policy.predict(observation, deterministic=True)[0], values.argmax(1))
    assert build(make_agent("dqn.DQNPolicy", actions=discrete(3))).graph.sampling.kind == "none"


def test_qrdqn_takes_the_mean_of_quantiles() -> None:
    archive = make_agent("qrdqn.QRDQNPolicy", actions=discrete(3), n_quantiles=4, net_arch=[])
    observation = draw(5, 3)
    quantiles = dense(weights_of(archive), "quantile_net.quantile_net.0", observation).reshape(5, 4, 3)
    found = sbformat.load_policy(archive).outputs(observation)
    close(found["quantiles"], quantiles)
    close(found["q_values"], quantiles.mean(1))


@pytest.mark.parametrize(
    ("release", "policy", "kwargs", "squashed", "unscaled"),
    [
        ((2, 9), "ARSPolicy", {}, True, True),
        ((2, 9), "ARSPolicy", {"squash_output": False}, False, False),
        ((1, 6), "ARSPolicy", {"squash_output": False}, True, False),
        ((2, 9), "ARSLinearPolicy", {}, False, False),
        ((1, 6), "ARSLinearPolicy", {}, False, False),
        ((1, 6), "ARSLinearPolicy", {"squash_output": True, "with_bias": True}, True, True),
    ],
)
def test_ars_squashes_by_class_and_release(
    release: tuple[int, int], policy: str, kwargs: dict[str, Any], squashed: bool, unscaled: bool  # noqa: FBT001
) -> None:  # fmt: skip
    if policy == "ARSPolicy":
        kwargs = {"net_arch": [], **kwargs}
    archive, observation = make_agent(f"ars.{policy}", release=release, **kwargs), draw(5, 3)
    weights = weights_of(archive)
    value = dense(weights, "action_net" if "action_net.weight" in weights else "action_net.0", observation)
    value = np.tanh(value) if squashed else value
    expected = -1.5 + 0.5 * (value + 1) * 3.5 if unscaled else np.clip(value, -1.5, 2)
    close(sbformat.load_policy(archive).predict(observation)[0], expected)


# -- continuous actions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "made"),
    [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i2", "f4"), ("i4", "f8"), ("i8", "f8"), ("u1", "f4"), ("u8", "f8")],
)
@pytest.mark.parametrize("policy", ["ActorCriticPolicy", "sac.SACPolicy"])
def test_the_dtype_of_an_action_is_numpys(policy: str, dtype: str, made: str) -> None:
    space = box(2, low=0, high=3, dtype=dtype)
    archive, observation = make_agent(policy, actions=space, net_arch=[]), draw(5, 3)
    found, _ = sbformat.load_policy(archive).predict(observation, deterministic=True)
    assert isinstance(space, Box)
    low, high = np.asarray(space.low), np.asarray(space.high)
    weights = weights_of(archive)
    mean = dense(weights, "action_net" if policy == "ActorCriticPolicy" else "actor.mu", observation)
    expected = np.clip(mean, low, high)
    if policy != "ActorCriticPolicy":
        expected = low + (0.5 * (np.tanh(mean) + 1.0) * (high - low))
    assert found.dtype == expected.dtype == np.dtype(made)
    close(found, expected)


def test_squash_output_without_gsde_only_unscales_before_2_2() -> None:
    archive, observation = make_agent(release=(2, 1), squash_output=True, net_arch=[]), draw(5, 3)
    mean = dense(weights_of(archive), "action_net", observation)
    close(sbformat.load_policy(archive).predict(observation, deterministic=True)[0], -1.5 + 0.5 * (mean + 1) * 3.5)


@pytest.mark.parametrize("full_std", [True, False])
@pytest.mark.parametrize("use_expln", [True, False])
def test_gsde_of_an_actor_critic(full_std: bool, use_expln: bool) -> None:  # noqa: FBT001 -- parametrized
    archive = make_agent(
        use_sde=True, full_std=full_std, use_expln=use_expln, squash_output=True, net_arch=[4], actions=box(2)
    )
    weights, observation = weights_of(archive), draw(5, 3)
    latent = np.tanh(dense(weights, "mlp_extractor.policy_net.0", observation))
    mean, log_std = dense(weights, "action_net", latent), weights["log_std"]
    std = np.exp(log_std)
    if use_expln:
        std = np.where(log_std > 0, np.log1p(np.maximum(log_std, 0) + 1e-6) + 1, std)
    std = np.broadcast_to(std, (4, 2))
    policy = sbformat.load_policy(archive)
    found = policy.outputs(observation)
    close(found["log_std"], np.log(np.sqrt(latent**2 @ std**2 + 1e-6)))
    close(found["action"], -1.5 + 0.5 * (np.tanh(mean) + 1) * 3.5)
    sampling = policy.graph.sampling
    assert (sampling.kind, sampling.replaces, list(sampling.parameters)) == ("gsde", "mean", ["mean", "latent", "std"])
    node = next(node for node in policy.graph.nodes if node.name == sampling.parameters["std"])
    assert node.shape == (4, 2)


@pytest.mark.parametrize(("sizes", "seen"), [(None, "latent"), ([], "features"), ([7], "layers")])
def test_gsde_had_layers_of_its_own_until_1_2(sizes: list[int] | None, seen: str) -> None:
    for release, expected in (((1, 2), seen), ((1, 3), "latent")):
        kwargs = {"net_arch": [{"pi": [4], "vf": []}], "sde_net_arch": sizes}
        graph = build(make_agent(release=release, use_sde=True, **kwargs)).graph
        latent = graph.sampling.parameters["latent"]
        modules = {node.name: node.module for node in graph.nodes}
        assert modules.get(latent, latent) == {
            "latent": "mlp_extractor.policy_net.1", "features": "observation", "layers": "sde_features_extractor.1",
        }[expected]  # fmt: skip


@pytest.mark.parametrize("limit", [0.0, 0.1, 2.0])
def test_gsde_of_sac_clips_its_mean(limit: float) -> None:
    archive = make_agent("sac.SACPolicy", use_sde=True, net_arch=[4], clip_mean=limit)
    weights, observation = weights_of(archive), 9 * draw(5, 3)
    latent = relu_layers(weights, "actor.latent_pi", observation, 0)
    mean = dense(weights, "actor.mu.0" if limit else "actor.mu", latent)
    close(sbformat.load_policy(archive).outputs(observation)["mean"], np.clip(mean, -limit, limit) if limit else mean)
