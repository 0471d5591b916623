"""``load_policy`` for SBX: agents that SBX wrote, with what its ``predict`` returned, and networks made of arrays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.cli import main
from sbformat.limits import DEFAULT_LIMITS, Budget
from sbformat.nets.layers import Spec
from sbformat.nets.sbx import NormedMlp, Variables
from sbformat.policies.builder import GraphBuilder
from tests.helpers.sbx import activation, made_object, sbx_archive, train_state

if TYPE_CHECKING:
    from collections.abc import Callable

ARCHIVES = sorted((Path(__file__).parent / "archives" / "sbx").glob("*.zip"))
OBSERVATIONS = np.array([[0.5, -0.2, 0.9], [-1.0, 0.1, 3.0]], np.float32)
"""Of Pendulum, whose actions are from -2 to 2."""
Layer = dict[str, np.ndarray]


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.stem)
def test_an_agent_acts_as_in_sbx(path: Path) -> None:
    policy = sbformat.load_policy(path)
    expected = np.load(path.with_suffix(".predict.npz"))
    actions, state = policy.predict(expected["observations"], deterministic=True)
    assert state is None
    assert actions.shape == expected["actions"].shape
    assert np.allclose(actions, expected["actions"], rtol=0, atol=1e-6)
    outputs = policy.outputs(expected["observations"])
    for name, key in (("q", "q_values"), ("v", "value")):
        if name in expected:
            assert np.allclose(outputs[key].reshape(-1), expected[name].reshape(-1), rtol=0, atol=1e-6)
    assert (policy.algorithm, policy.inferred) == ({"dqn": "DQN", "ppo-box": "PPO"}[path.stem], ())


# -- networks made of arrays --------------------------------------------------------------------------

RANDOM = np.random.default_rng(7)


def layer(inputs: int, outputs: int, *critics: int) -> Layer:
    """A ``Dense`` of flax, or one for each critic."""
    kernel = RANDOM.standard_normal((*critics, inputs, outputs)).astype(np.float32) * 0.4
    return {"kernel": kernel, "bias": RANDOM.standard_normal((*critics, outputs)).astype(np.float32) * 0.1}


def norm(size: int) -> Layer:
    """A norm of flax."""
    return {
        "scale": (1 + 0.1 * RANDOM.standard_normal(size)).astype(np.float32),
        "bias": np.full(size, 0.2, np.float32),
    }


def statistics(size: int) -> Layer:
    """The statistics of a ``BatchRenorm``."""
    return {"mean": RANDOM.standard_normal(size).astype(np.float32), "var": np.full(size, 1.7, np.float32)}


def dense(value: np.ndarray, part: Layer, critic: int | None = None) -> np.ndarray:
    kernel, bias = part["kernel"], part["bias"]
    return value @ kernel + bias if critic is None else value @ kernel[critic] + bias[critic]


def relu(value: np.ndarray) -> np.ndarray:
    return np.maximum(value, 0)


def renorm(value: np.ndarray, part: Layer, seen: Layer) -> np.ndarray:
    return (value - seen["mean"]) / np.sqrt(seen["var"] + 1e-3) * part["scale"] + part["bias"]


def layer_norm(value: np.ndarray, part: Layer) -> np.ndarray:
    centred = value - value.mean(-1, keepdims=True)
    return centred / np.sqrt(value.var(-1, keepdims=True) + 1e-6) * part["scale"] + part["bias"]


def actor(pair: tuple[str, str], fn: object = None, **settings: Any) -> object:
    """The module that acts."""
    return made_object(pair, {"activation_fn": fn or activation(), "action_dim": 1, **settings})


SQUASHED = ("sbx.common.policies", "SquashedGaussianActor")


def sac(params: dict[str, Any] | None = None, module: object = None, **policy: Any) -> bytes:
    """SAC with one hidden layer of 5."""
    made = params or {"Dense_0": layer(3, 5), "Dense_1": layer(5, 1), "Dense_2": layer(5, 1)}
    return sbx_archive(
        "sac",
        {"actor": module or actor(SQUASHED, net_arch=[5]), "actor_state": train_state({"params": made}), **policy},
    )


def test_the_squashed_actor_and_its_critics() -> None:
    params = {"Dense_0": layer(3, 5), "Dense_1": layer(5, 1), "Dense_2": layer(5, 1)}
    critic = {"Dense_0": layer(4, 6, 2), "Dense_1": layer(6, 1, 2)}
    critics = train_state({"params": {"VmapContinuousCritic_0": critic}}, target_params=None)
    qf = made_object(("sbx.common.policies", "VectorCritic"), {"activation_fn": activation("silu"), "net_arch": [6]})
    policy = sbformat.load_policy(sac(params, qf=qf, qf_state=critics))
    hidden = relu(dense(OBSERVATIONS, params["Dense_0"]))
    mean = dense(hidden, params["Dense_1"])
    outputs = policy.outputs(OBSERVATIONS)
    assert np.allclose(outputs["mean"], mean, atol=1e-6)
    assert np.allclose(outputs["log_std"], np.clip(dense(hidden, params["Dense_2"]), -20, 2), atol=1e-6)
    assert np.allclose(outputs["action"], 2 * np.tanh(mean), atol=1e-6)
    seen = np.concatenate([OBSERVATIONS, np.tanh(mean)], -1)
    values = []
    for number in range(2):
        inner = dense(seen, critic["Dense_0"], number)
        values.append(dense(inner / (1 + np.exp(-inner)), critic["Dense_1"], number))
    assert np.allclose(outputs["q_values"], np.concatenate(values, -1), atol=1e-6)
    action, _ = policy.predict(OBSERVATIONS[0])
    assert action.shape == (1,)
    assert not np.array_equal(action, outputs["action"][0])


def test_the_actor_of_crossq_normalizes_with_its_statistics() -> None:
    params: dict[str, Any] = {
        "BatchRenorm_0": norm(3), "Dense_0": layer(3, 5), "BatchRenorm_1": norm(5), "Dense_1": layer(5, 1),
        "Dense_2": layer(5, 1),
    }  # fmt: skip
    stats = {"BatchRenorm_0": statistics(3), "BatchRenorm_1": statistics(5)}
    module = actor(("sbx.crossq.policies", "Actor"), net_arch=[5], use_batch_norm=True)
    policy = sbformat.load_policy(
        sbx_archive("crossq", {"actor": module, "actor_state": train_state(params, batch_stats=stats)})
    )
    value = renorm(OBSERVATIONS, params["BatchRenorm_0"], stats["BatchRenorm_0"])
    value = renorm(relu(dense(value, params["Dense_0"])), params["BatchRenorm_1"], stats["BatchRenorm_1"])
    expected = 2 * np.tanh(dense(value, params["Dense_1"]))
    assert np.allclose(policy.predict(OBSERVATIONS, deterministic=True)[0], expected, atol=1e-6)
    assert policy.algorithm == "CrossQ"


def test_the_residual_blocks_of_simba() -> None:
    block = {"LayerNorm_0": norm(4), "Dense_0": layer(4, 16), "Dense_1": layer(16, 4)}
    params: dict[str, Any] = {
        "Dense_0": layer(3, 4), "SimbaResidualBlock_0": block, "LayerNorm_0": norm(4), "Dense_1": layer(4, 1),
        "Dense_2": layer(4, 1),
    }  # fmt: skip
    module = actor(("sbx.common.policies", "SimbaSquashedGaussianActor"), net_arch=[4])
    policy = sbformat.load_policy(sac(params, module))
    value = dense(OBSERVATIONS, params["Dense_0"])
    inner = dense(relu(dense(layer_norm(value, block["LayerNorm_0"]), block["Dense_0"])), block["Dense_1"])
    expected = 2 * np.tanh(dense(layer_norm(value + inner, params["LayerNorm_0"]), params["Dense_1"]))
    assert np.allclose(policy.predict(OBSERVATIONS, deterministic=True)[0], expected, atol=1e-5)


def test_td3_before_activations_were_arguments() -> None:
    params = {"Dense_0": layer(3, 5), "Dense_1": layer(5, 1)}
    module = made_object(("sbx.td3.policies", "Actor"), {"net_arch": [5], "action_dim": 1})
    source = sbx_archive("td3", {"actor": module, "actor_state": train_state({"params": params})})
    policy = sbformat.load_policy(source)
    expected = 2 * np.tanh(dense(relu(dense(OBSERVATIONS, params["Dense_0"])), params["Dense_1"]))
    assert np.allclose(policy.predict(OBSERVATIONS)[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("tanh", np.tanh),
        ("elu", lambda x: np.where(x > 0, x, np.expm1(x))),
        ("leaky_relu", lambda x: np.where(x > 0, x, 0.01 * x)),
        ("gelu", lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
        ("softplus", lambda x: np.logaddexp(x, 0)),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ],
)
def test_activations_of_jax(name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    params = {"Dense_0": layer(3, 5), "Dense_1": layer(5, 1), "Dense_2": layer(5, 1)}
    policy = sbformat.load_policy(sac(params, actor(SQUASHED, activation(name), net_arch=[5])))
    expected = dense(function(dense(OBSERVATIONS, params["Dense_0"])), params["Dense_1"])
    assert np.allclose(policy.outputs(OBSERVATIONS)["mean"], expected, atol=1e-5)


def test_the_caller_supplies_an_activation_that_is_not_of_jax() -> None:
    source = sac(module=actor(SQUASHED, activation("relu", "mine.functions"), net_arch=[5]))
    with pytest.raises(sbformat.UnsupportedError, match="pass the name of its class in torch.nn"):
        sbformat.load_policy(source)
    policy = sbformat.load_policy(source, policy_kwargs={"activation_fn": "ReLU"})
    expected = sbformat.load_policy(sac(module=actor(SQUASHED, net_arch=[5])))
    assert policy.graph.nodes[0].op == expected.graph.nodes[0].op


GOOD = {"Dense_0": layer(3, 5), "Dense_1": layer(5, 1), "Dense_2": layer(5, 1)}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (sac({**GOOD, "Dense_3": layer(5, 1)}), "expected the layers"),
        (sac({**GOOD, "LayerNorm_9": norm(5)}), "LayerNorm_9/scale' is unexpected"),
        (sac({**GOOD, "Dense_0": layer(4, 5)}), r"expected the shape \(3, 5\), got \(4, 5\)"),
        (sac({**GOOD, "Dense_1": layer(5, 2)}), "expected an output for each of the 1 choices"),
        (sac({**GOOD, "Dense_2": layer(5, 2)}), "expected an output for each of the 1 choices"),
        (sac({"Dense_0": layer(3, 5)}), r"expected the layers \[5\]"),
        (sac({"Dense_0": layer(3, 5)}, actor(SQUASHED)), "Dense_1/kernel' is missing"),
        (sac({**GOOD, "Dense_0": {"bias": np.zeros(5, np.float32)}}), r"expected the layers \[5\]"),
        (sac({**GOOD, "Dense_0": {**GOOD["Dense_0"], "kernel": np.zeros((3, 5))}}), "float32, got float64"),
        (sac(module=actor(("mine", "Actor"), net_arch=[5])), "mine.Actor' is not known"),
        (sac(module=actor(SQUASHED, net_arch=[6])), "net_arch"),
        (sbx_archive("sac", {"actor_state": train_state({"params": GOOD})}), "expected the network actor or qf"),
        (sbx_archive("sac", {"actor": actor(SQUASHED, net_arch=[5])}), "expected an object with the states of flax"),
        (sac({**GOOD, "Dense_0": {**GOOD["Dense_0"], "kernel": None}}), r"expected the layers \[5\]"),
    ],
)
def test_a_network_that_contradicts_itself_is_refused(source: bytes, message: str) -> None:
    with pytest.raises(sbformat.SbformatError, match=message):
        sbformat.load_policy(source)


def test_a_network_has_its_parameters_in_the_order_of_the_calls() -> None:
    shapes = {"Dense_0/kernel": (3, 5), "Dense_0/bias": (5,), "Dense_1/kernel": (5, 1), "BatchRenorm_0/scale": (3,)}
    tensors: Any = {f"actor_state/params/{name}": SimpleNamespace(shape=shape) for name, shape in shapes.items()}
    variables = Variables(GraphBuilder(Budget(DEFAULT_LIMITS)), tensors, "actor_state")
    network = NormedMlp(variables, Spec("ReLU"), {"net_arch": [5]}, (3,), 1)
    found = [(part.name, part.shape, part.is_buffer) for part in network.parameters()]
    norms = [("scale", False), ("bias", False), ("mean", True), ("var", True)]
    assert found == [
        *((f"BatchRenorm_0.{name}", (3,), is_buffer) for name, is_buffer in norms),
        ("Dense_0.kernel", (3, 5), False),
        ("Dense_0.bias", (5,), False),
        *((f"BatchRenorm_1.{name}", (5,), is_buffer) for name, is_buffer in norms),
        ("Dense_1.kernel", (5, 1), False),
    ]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"VmapCritic_0": layer(4, 1)},
        {"VmapCritic_0": {"Dense_0": layer(9, 1, 2)}},
        {"VmapCritic_0": {"Dense_0": layer(4, 1, 2), "Other_0": layer(4, 1, 2)}},
    ],
)
def test_a_critic_that_does_not_fit_is_left_out(params: dict[str, Any]) -> None:
    qf = made_object(("sbx.common.policies", "VectorCritic"), {"activation_fn": activation()})
    policy = sbformat.load_policy(sac(GOOD, qf=qf, qf_state=train_state({"params": params})))
    assert "q_values" not in policy.outputs(OBSERVATIONS)
    (sentence,) = policy.inferred
    assert sentence.startswith("qf: the critic is left out")


def test_the_agent_is_exported_and_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dqn, _) = ARCHIVES
    assert main(["export", str(dqn), "-o", str(tmp_path / "policy.json")]) == 0
    assert main(["predict", str(dqn), "--observation", "[0.1, 0.2, 0.3]"]) == 0
    assert main(["inspect", str(dqn)]) == 0
    assert "SBX (Stable Baselines Jax) archive" in capsys.readouterr().out
