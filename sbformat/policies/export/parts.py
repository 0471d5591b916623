"""The part of a graph that an exported file contains: the outputs, and what they depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.errors import UnsupportedError, quote, require_names
from sbformat.policies.export.files import name_states, require_distinct
from sbformat.policies.graph import BOUNDS, Graph, Sampling, prune_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.policies.graph import Node


def choose_outputs(graph: Graph, outputs: Iterable[str] | None, *, raw: bool) -> Graph:
    """Return the part of a graph that computes outputs; None for all.

    Observations remain inputs. With the output ``action``, so does what it is sampled from.
    """
    names = tuple(graph.outputs) if outputs is None else check_outputs(graph, outputs)
    values = {name: graph.outputs[name] for name in names}
    sampling = Sampling("none")
    if "action" in values:
        values["action"] = find_raw_action(graph) if raw else values["action"]
        sampling = graph.sampling
    nodes, wanted, _ = close_over_states(graph, (*values.values(), *sampling.parameters.values()))
    inputs = tuple(item for item in graph.inputs if item.role == "observation" or item.name in wanted)
    weights = {name: weight for name, weight in graph.weights.items() if name in wanted}
    states = tuple(state for state in graph.states if state.input in wanted)
    return Graph(inputs, nodes, values, weights, states, sampling, graph.inferred)


def check_outputs(graph: Graph, outputs: Iterable[str]) -> tuple[str, ...]:
    """Return the names of outputs."""
    names = require_names(outputs, "outputs")
    for name in names:
        if name not in graph.outputs:
            raise ValueError(f"expected outputs among {', '.join(map(quote, graph.outputs))}, got {quote(name)}")
    if not names:
        raise ValueError(f"expected at least one output, of {', '.join(map(quote, graph.outputs))}")
    require_distinct(names)
    return names


def find_raw_action(graph: Graph) -> str:
    """Return the value that an action is before it is clipped or scaled to the bounds of its space."""
    nodes = {node.name: node for node in graph.nodes}
    dependent = {item.name for item in graph.inputs}
    for node in graph.nodes:
        if not dependent.isdisjoint(node.inputs):
            dependent.add(node.name)
    name = graph.outputs["action"]
    while name in dependent and name in nodes and nodes[name].module == BOUNDS:
        name = next(operand for operand in nodes[name].inputs if operand in dependent)
    return name


def close_over_states(graph: Graph, values: tuple[str, ...]) -> tuple[tuple[Node, ...], set[str], dict[str, str]]:
    """Prune, and add the next values of all states that are needed; return these by their name in the file."""
    named = name_states(graph)
    chosen: dict[str, str] = {}
    while True:
        nodes, wanted = prune_nodes(graph.nodes, (*values, *chosen.values()))
        needed = {named[state.input]: state.output for state in graph.states if state.input in wanted}
        if needed == chosen:
            return nodes, wanted, chosen
        chosen = needed


def merge_nodes(graph: Graph) -> Graph:
    """Return a graph where nodes of a module that compute the same are one, as in layers that actor and critic share.

    What a draw replaces remains a node of its own.
    """
    merged: dict[str, str] = {}
    first: dict[tuple[object, ...], str] = {}
    nodes = []
    for node in graph.nodes:
        inputs = tuple(merged.get(name, name) for name in node.inputs)
        key = (node.module, node.op, inputs, repr(sorted(node.attributes.items())))
        name = node.name if node.name == graph.sampling.replaces else first.setdefault(key, node.name)
        if name == node.name:
            nodes.append(node._replace(inputs=inputs))
        else:
            merged[node.name] = name
    parameters = {name: merged.get(value, value) for name, value in graph.sampling.parameters.items()}
    return graph._replace(
        nodes=tuple(nodes),
        outputs={name: merged.get(value, value) for name, value in graph.outputs.items()},
        states=tuple(state._replace(output=merged.get(state.output, state.output)) for state in graph.states),
        sampling=graph.sampling._replace(parameters=parameters),
    )


def refuse_calls(nodes: Iterable[Node]) -> None:
    """Refuse functions of the caller's."""
    for node in nodes:
        if node.op == "Call":
            reason = "it runs in Python only, and cannot be exported"
            message = f"{quote(node.attributes['function'], 80)} is a function that modules= supplied: {reason}"
            raise UnsupportedError(message)
