"""How much float32 rounds: the graph of a policy, run in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sbformat.immutable import FrozenDict
from sbformat.policies.run.program import Folded, Plan, fold_nodes

if TYPE_CHECKING:
    from sbformat import Policy
    from sbformat.policies.graph import Node


def measure_rounding(policy: Policy, observations: Any, count: int) -> dict[str, float]:
    """Return the largest difference between each output and its value in float64, for a batch of observations.

    :param observations: a batch; of a Dict space arrays by key
    :param count: of observations
    """
    exact = compute_in_float64(policy, observations, count)
    found = policy.outputs(observations)
    return {name: float(np.abs(value - exact[name].astype(np.float64)).max()) for name, value in found.items()}


def measure_sensitivity(policy: Policy, observations: Any, count: int) -> dict[str, float]:
    """Return how far each output moves when every number of an observation moves by half of its last bit in float32.

    No float32 network is closer: the first sum rounds as much. Values of 1000 that cancel show it.
    """
    exact = compute_in_float64(policy, observations, count)
    random = np.random.default_rng(0)
    found = dict.fromkeys(exact, 0.0)
    for _ in range(4):
        moved = compute_in_float64(policy, _move_last_bits(observations, random), count)
        for name, value in exact.items():
            difference = np.abs(moved[name].astype(np.float64) - value)
            found[name] = max(found[name], float(difference.max())) if value.dtype.kind == "f" else 0.0
    return found


def _move_last_bits(value: Any, random: np.random.Generator) -> Any:
    if isinstance(value, dict):
        return {key: _move_last_bits(part, random) for key, part in value.items()}
    value = np.asarray(value)
    return value * (1 + random.choice((-1, 1), value.shape) * 2.0**-24) if value.dtype.kind == "f" else value


def compute_in_float64(policy: Policy, observations: Any, count: int) -> dict[str, np.ndarray]:
    """Return outputs and next states; other inputs have their defaults."""
    graph = policy.graph
    known = {name: policy.weights[name].astype(_widen(policy.weights[name].dtype.name)) for name in graph.weights}
    nodes = fold_nodes([_widen_node(node) for node in graph.nodes], known)
    values = {**graph.outputs, **{state.name: state.output for state in graph.states}}
    inputs = tuple(item._replace(dtype=_widen(item.dtype)) for item in graph.inputs)
    given = {
        item.name: np.asarray(observations if item.key is None else observations[item.key])
        if item.role == "observation"
        else np.full((count, *item.shape), item.default)
        for item in inputs
    }
    return dict(zip(values, Plan(Folded(inputs, nodes, known, tuple(values.values()), {}), count).run(given)))


def _widen_node(node: Node) -> Node:
    attributes = {name: _widen(value) if name == "to" else value for name, value in node.attributes.items()}
    return node._replace(dtype=_widen(node.dtype), attributes=FrozenDict(attributes))


def _widen(dtype: str) -> str:
    return "float64" if dtype.startswith("float") else dtype
