"""Every activation of ``torch.nn`` that SB3 accepts, beside its formula in torch's documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import UnsupportedError
from sbformat.known.types import Partial, Reference
from sbformat.nets.layers import ACTIVATION_NODES, ACTIVATIONS
from tests.nets.agents import build, dense, draw, lone, make_agent, weights_of
from tests.policies.run.models import discrete

Formula = Callable[[np.ndarray], np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def elu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.where(x > 0, x, alpha * (np.exp(x) - 1))


def gelu_of_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def same(x: np.ndarray) -> np.ndarray:
    return x


FORMULAS: Final[list[tuple[str, dict[str, Any], Formula]]] = [
    ("AlphaDropout", {"p": 0.9}, same),
    ("CELU", {}, elu),
    ("CELU", {"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * (np.exp(x / 2) - 1))),
    ("Dropout", {}, same),
    ("ELU", {}, elu),
    ("ELU", {"alpha": 0.5, "inplace": True}, lambda x: elu(x, 0.5)),
    ("FeatureAlphaDropout", {}, same),
    ("GELU", {"approximate": "tanh"}, gelu_of_tanh),
    ("Hardshrink", {}, lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    ("Hardshrink", {"lambd": 0.1}, lambda x: np.where(np.abs(x) > 0.1, x, 0)),
    ("Hardsigmoid", {}, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    ("Hardswish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("Hardtanh", {}, lambda x: np.clip(x, -1, 1)),
    ("Hardtanh", {"min_val": -0.2, "max_val": 0.3}, lambda x: np.clip(x, -0.2, 0.3)),
    ("Identity", {}, same),
    ("LeakyReLU", {}, lambda x: np.where(x > 0, x, 0.01 * x)),
    ("LeakyReLU", {"negative_slope": 1}, same),
    ("LogSigmoid", {}, lambda x: np.log(sigmoid(x))),
    ("LogSoftmax", {"dim": -1}, lambda x: np.log(softmax(x))),
    ("Mish", {}, lambda x: x * np.tanh(softplus(x))),
    ("RReLU", {}, lambda x: np.where(x > 0, x, x * (1 / 8 + 1 / 3) / 2)),
    ("RReLU", {"lower": 0.5, "upper": 0.7}, lambda x: np.where(x > 0, x, 0.6 * x)),
    ("ReLU", {}, lambda x: np.maximum(x, 0)),
    ("ReLU6", {}, lambda x: np.clip(x, 0, 6)),
    ("SELU", {}, lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)),
    ("SiLU", {}, lambda x: x * sigmoid(x)),
    ("Sigmoid", {}, sigmoid),
    ("Softmax", {}, softmax),
    ("Softmax", {"dim": 1}, softmax),
    ("Softmin", {}, lambda x: softmax(-x)),
    ("Softplus", {}, softplus),
    ("Softplus", {"beta": 2, "threshold": 1}, lambda x: np.where(2 * x > 1, x, softplus(2 * x) / 2)),
    ("Softshrink", {}, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    ("Softsign", {}, lambda x: x / (1 + np.abs(x))),
    ("Tanh", {}, np.tanh),
    ("Tanhshrink", {}, lambda x: x - np.tanh(x)),
]
REFUSED: Final = [("GLU", {}), ("Softmax2d", {}), ("Softmax", {"dim": 0}), ("LogSoftmax", {"dim": -2})]


def reference(name: str) -> Reference:
    pair = next(pair for pair in ACTIVATIONS if pair[1] == name)
    return Reference(*pair)


def agent_with(name: str, arguments: dict[str, Any]) -> sbformat.Archive:
    function: Any = reference(name)
    return make_agent(
        actions=discrete(4), net_arch=[6], activation_fn=Partial(function, (), arguments) if arguments else function
    )


@pytest.mark.parametrize(("name", "arguments", "formula"), FORMULAS)
def test_an_activation_is_that_of_torch(name: str, arguments: dict[str, Any], formula: Formula) -> None:
    archive, observation = agent_with(name, arguments), 3 * draw(20, 3)
    weights = weights_of(archive)
    hidden = dense(weights, "mlp_extractor.policy_net.0", observation.astype("f8"))
    found = sbformat.load_policy(archive).outputs(observation)["logits"]
    np.testing.assert_allclose(found, dense(weights, "action_net", formula(hidden)), rtol=1e-4, atol=1e-5)


def test_gelu_is_exact_at_points_of_the_normal_distribution() -> None:
    weights = {
        "mlp_extractor.policy_net.0.weight": np.eye(3), "mlp_extractor.policy_net.0.bias": np.zeros(3),
        "mlp_extractor.value_net.0.weight": np.eye(3), "mlp_extractor.value_net.0.bias": np.zeros(3),
        "action_net.weight": np.eye(3), "action_net.bias": np.zeros(3), "value_net.weight": np.ones((1, 3)),
        "value_net.bias": np.zeros(1),
    }  # fmt: skip
    archive = make_agent(
        actions=discrete(3), net_arch=[3], activation_fn=reference("GELU"),
        weights={name: value.astype("f4") for name, value in weights.items()},
    )  # fmt: skip
    found = sbformat.load_policy(archive).outputs(np.array([1.0, -1.0, 1.959964]))["logits"]
    np.testing.assert_allclose(np.ravel(found), [0.841344746, -0.158655254, 1.959964 * 0.975], rtol=1e-5)


@pytest.mark.parametrize("count", [1, 6])
def test_prelu_has_slopes_in_the_state_dict(count: int) -> None:
    archive = make_agent(
        actions=discrete(4), net_arch=[6], activation_fn=Partial(reference("PReLU"), (), {"num_parameters": count})
    )
    weights, observation = weights_of(archive), draw(20, 3)
    hidden = dense(weights, "mlp_extractor.policy_net.0", observation)
    slope = weights["mlp_extractor.policy_net.1.weight"]
    assert slope.shape == (count,)
    found = sbformat.load_policy(archive).outputs(observation)["logits"]
    expected = dense(weights, "action_net", np.where(hidden > 0, hidden, slope * hidden))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "arguments"), REFUSED)
def test_an_activation_that_cannot_work_on_vectors_is_refused_by_name(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=f"activation_fn is {name}: it"):
        build(agent_with(name, arguments))


def test_an_argument_that_is_not_a_number() -> None:
    with pytest.raises(UnsupportedError, match="LeakyReLU: expected a number as negative_slope"):
        build(agent_with("LeakyReLU", {"negative_slope": "steep"}))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("LeakyReLU", {"negative_slope": 10**400}, id="huge"),
        ("ELU", {"alpha": 1e39}),
        ("CELU", {"alpha": 0}),
        ("Hardtanh", {"min_val": 1, "max_val": 1}),
        ("Softshrink", {"lambd": -1}),
        ("Softshrink", {"lambd": float("nan")}),
        ("RReLU", {"lower": 1, "upper": 0}),
        ("RReLU", {"upper": float("inf")}),
    ],
)
def test_arguments_that_torch_refuses(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=f"activation_fn is {name}: expected "):
        build(agent_with(name, arguments))


def test_an_argument_that_is_another_type_of_number() -> None:
    nodes = build(agent_with("LeakyReLU", {"negative_slope": True})).graph.nodes
    assert {node.attributes["alpha"] for node in nodes if node.op == "LeakyRelu"} == {1.0}


def test_every_activation_has_a_row() -> None:
    tested = {name for name, *_ in FORMULAS} | {name for name, _ in REFUSED} | {"PReLU", "Flatten"}
    assert tested == set(ACTIVATION_NODES) == {name for _, name in ACTIVATIONS} | {"Flatten"}


def test_an_activation_may_be_given_by_its_name() -> None:
    archive, observation = agent_with("ELU", {}), draw(5, 3)
    expected = sbformat.load_policy(archive).outputs(observation)["logits"]
    policy = sbformat.load_policy(lone(archive), action_space=discrete(4), policy_kwargs={"activation_fn": "ELU"})
    np.testing.assert_array_equal(policy.outputs(observation)["logits"], expected)
    with pytest.raises(UnsupportedError, match="expected an activation of torch.nn, got 'Elu'; available: "):
        sbformat.load_policy(archive, policy_kwargs={"activation_fn": "Elu"})
