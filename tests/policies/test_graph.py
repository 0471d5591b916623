"""``Graph.to_dict``: JSON by its schema, from which the network can be computed with the archive alone."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator, ValidationError

import sbformat
from sbformat.limits import Budget, Limits
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.builder import GraphBuilder
from sbformat.policies.graph import MAX_INLINE_ITEMS, Graph, Input, Sampling
from sbformat.policies.operators import DTYPES, OPERATORS
from sbformat.schema import load_schema
from tests.helpers.bundled import PPO
from tests.helpers.policy_graphs import ppo_graph

if TYPE_CHECKING:
    from collections.abc import Callable


SCHEMA = load_schema("graph")
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_json_follows_its_schema() -> None:
    graph = ppo_graph()
    made = json.loads(json.dumps(graph.to_dict(), allow_nan=False))
    VALIDATOR.validate(made)
    assert [node["op"] for node in made["nodes"]] == [node.op for node in graph.nodes]
    assert made["nodes"][0] == {
        "name": "mlp_extractor.policy_net.0/Gemm",
        "op": "Gemm",
        "inputs": ["observation", "mlp_extractor.policy_net.0.weight", "mlp_extractor.policy_net.0.bias"],
        "attributes": {"transB": True},
        "dtype": "float32",
        "shape": [8],
        "module": "mlp_extractor.policy_net.0",
    }
    assert made["weights"]["action_net.bias"] == {
        "dtype": "float32", "shape": [2], "address": "policy.pth:action_net.bias",
    }  # fmt: skip
    assert list(made["outputs"]) == ["action", "logits", "value"]
    assert made["sampling"]["kind"] == "categorical"
    assert made["parameter_count"] == 251


def test_the_schema_names_every_operator_dtype_and_attribute() -> None:
    definitions = SCHEMA["$defs"]
    assert definitions["Node"]["properties"]["op"]["enum"] == list(OPERATORS)
    assert definitions["Dtype"]["enum"] == list(DTYPES)
    attributes = {name for operator in OPERATORS.values() for name in operator.attributes}
    assert definitions["Node"]["properties"]["attributes"]["propertyNames"]["enum"] == sorted(attributes)
    for name, kind in (("Input", Input), ("Sampling", Sampling)):
        assert list(definitions[name]["properties"]) == list(kind._fields)
    assert set(SCHEMA["properties"]) == {
        *Graph._fields, "graph_version", "parameter_count", "metadata", "weights_file", "weights_sha256",
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made["nodes"][0].update(op="Eval"),
        lambda made: made["nodes"][0]["attributes"].update(code=1),
        lambda made: made["weights"]["action_net.bias"].update(address=None),
        lambda made: made.pop("sampling"),
        lambda made: made["sampling"].update(kind="dice"),
        lambda made: made["inputs"][0].update(shape=[-1]),
    ],
)
def test_the_schema_refuses_what_is_not_a_graph(change: Callable[[dict[str, Any]], None]) -> None:
    made = ppo_graph().to_dict()
    change(made)
    with pytest.raises(ValidationError):
        VALIDATOR.validate(made)


def compute(graph: dict[str, Any], observation: np.ndarray) -> dict[str, np.ndarray]:
    """What a stranger would write: only the JSON and the tensors of the archive."""
    tensors = sbformat.read(PPO).parameters["policy"]
    values: dict[str, np.ndarray] = {"observation": observation}
    for name, weight in graph["weights"].items():
        path = weight["address"].removeprefix("policy.pth:")
        values[name] = tensors.array(path)
    for node in graph["nodes"]:
        operands = [values[name] for name in node["inputs"]]
        if node["op"] == "Gemm":
            values[node["name"]] = operands[0] @ operands[1].T + operands[2]
        elif node["op"] == "Tanh":
            values[node["name"]] = np.tanh(operands[0])
        else:
            assert node["op"] == "ArgMax"
            values[node["name"]] = np.argmax(operands[0], node["attributes"]["axis"])
    return {name: values[node] for name, node in graph["outputs"].items()}


def test_the_network_can_be_computed_from_the_json() -> None:
    tensors = sbformat.read(PPO).parameters["policy"]
    weights = {name: tensors.array(name).astype("float64") for name in tensors.tensors()}
    observation = np.array([0.1, -0.2, 0.03, 0.4])
    hidden = observation
    for layer in ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2"):
        hidden = np.tanh(weights[f"{layer}.weight"] @ hidden + weights[f"{layer}.bias"])
    logits = weights["action_net.weight"] @ hidden + weights["action_net.bias"]
    found = compute(ppo_graph().to_dict(), observation)
    np.testing.assert_allclose(found["logits"], logits, rtol=1e-5)
    assert found["action"] == logits.argmax()
    assert found["value"].shape == (1,)


# -- arrays -------------------------------------------------------------------------------------------


def array_info(array: np.ndarray, order: str = "C", axes: tuple[int, ...] = ()) -> ArrayInfo:
    kind: Any = order
    return ArrayInfo(array.dtype.str, array.shape, kind, array.tobytes(kind), is_scalar=False, axes=axes)


def weight_json(info: ArrayInfo) -> dict[str, Any]:
    """The JSON of a graph's weight: the bound of a space."""
    builder = GraphBuilder(Budget(Limits()))
    observation = builder.input(Input("observation", "float32", info.shape))
    low = builder.add("Cast", builder.weight("low", info, "data:action_space/low"), to="float32")
    action = builder.add("Max", observation, low, name="action")
    made = builder.build({"action": action}, Sampling("none")).to_dict()
    VALIDATOR.validate(made)
    weight: dict[str, Any] = made["weights"]["low"]
    return weight


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2", "|u1", ">i2", "<i8", "|b1"])
def test_arrays_of_data_are_written_out(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    made = weight_json(array_info(array))
    assert np.array(made["items"]).reshape(2, 3).tolist() == array.tolist()
    assert made["shape"] == [2, 3]


def test_items_are_in_c_order_whatever_that_of_the_file() -> None:
    array = np.arange(24, dtype="<f4").reshape(2, 3, 4)
    assert weight_json(array_info(array, "F"))["items"] == array.ravel().tolist()
    for order in ("C", "F"):
        for axes in ((1, 2, 0), (2, 0, 1), (0, 2, 1)):
            stored = array.transpose(np.argsort(axes))  # transposing by axes gives the array
            kind: Any = order
            info = ArrayInfo("<f4", array.shape, kind, stored.tobytes(kind), is_scalar=False, axes=axes)
            assert info.to_numpy().tolist() == array.tolist()
            assert weight_json(info)["items"] == array.ravel().tolist()


def test_equal_numbers_are_one_and_many_others_are_left_in_the_file() -> None:
    assert weight_json(array_info(np.full(100_000, -np.inf, "<f4")))["items"] == "-Infinity"
    assert weight_json(array_info(np.full(1, 0.5, "<f4")))["items"] == [0.5]
    assert weight_json(array_info(np.zeros(0, "<f4")))["items"] == []
    most = np.arange(MAX_INLINE_ITEMS, dtype="<f4")
    assert len(weight_json(array_info(most))["items"]) == MAX_INLINE_ITEMS
    assert "items" not in weight_json(array_info(np.append(most, most[:1])))


def test_numbers_that_json_does_not_have_are_texts() -> None:
    builder = GraphBuilder(Budget(Limits()))
    observation = builder.input(Input("observation", "float32", (3,), default=math.nan))
    bound = builder.constant((-math.inf, math.nan, math.inf), shape=(3,))
    limited = builder.add("Shrink", observation, lambd=math.inf, bias=0.0)
    action = builder.add("Max", limited, bound, name="action")
    made = builder.build({"action": action}, Sampling("none")).to_dict()
    VALIDATOR.validate(made)
    json.dumps(made, allow_nan=False)
    (weight,) = made["weights"].values()
    assert (weight["address"], weight["items"]) == (None, ["-Infinity", "NaN", "Infinity"])
    assert made["inputs"][0]["default"] == "NaN"
    assert made["nodes"][0]["attributes"]["lambd"] == "Infinity"
