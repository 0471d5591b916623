"""Programs for tests: of graphs and policies without a file, and what node computes of them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from sbformat.policies.builder import PolicyModel
from sbformat.policies.javascript.export import make_program
from tests.helpers.javascript_policy import encode_array
from tests.policies.run.models import box, discrete

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.policies.graph import Graph
    from tests.helpers.javascript_policy import Node


def make_graph_program(graph: Graph) -> dict[str, Any]:
    """Return the program of a graph whose inputs are the parts of a Dict observation, by their names."""
    inputs = tuple(item._replace(key=item.name) for item in graph.inputs)
    return make_program(PolicyModel(graph._replace(inputs=inputs), box(1), discrete(1), None, "sb2", False))


def run_in_node(node: Node, graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute the outputs of a batch, observation by observation."""
    program = make_graph_program(graph)
    count = len(next(iter(inputs.values())))
    calls = [
        {"observation": {name: encode_array(array[row]) for name, array in inputs.items()}, "options": {}}
        for row in range(count)
    ]
    results = node.request(program, calls=calls)
    for result in results:
        assert isinstance(result, dict), result
    values = [*program["inputs"], *program["weights"], *program["nodes"]]
    made = {}
    for row in program["outputs"]:
        name, value = row["name"], values[row["value"]]
        items = [np.frombuffer(base64.b64decode(result["outputs"][name]["data"])) for result in results]
        made[name] = np.stack(items).reshape(count, *value["shape"]).astype(value["dtype"])
    return made
