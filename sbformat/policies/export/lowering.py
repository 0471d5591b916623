"""``lower``: the part of a graph that an exported file contains, in float32, with its weights as arrays.

Theory of operation
-------------------
*In*: a :class:`~sbformat.policies.run.policy.Policy` and the names of outputs. *Out*: :class:`Lowered`: inputs and
outputs with their names in the file, nodes in order, and constants. ``onnx`` and ``c`` translate each node by its
operator and need nothing else. The stages:

1. **Choose**: the outputs; with ``raw`` the action before it is clipped or scaled to the bounds of the space. A
   recurrent state that an output depends on is an input, and its next value an output.
2. **Prune** what they do not need.
3. **Clip** an action that is scaled to its bounds (:mod:`~sbformat.policies.export.bounds`), and **fold** nodes that
   depend on weights alone, in float64 (:mod:`~sbformat.policies.export.folding`).
4. **Narrow** float64 to float32 (:mod:`~sbformat.policies.export.float32`).
5. **Drop** nodes that change nothing: copies, casts to the same dtype, one of two reshapes.

Worked example, SAC with one action between -2 and 2::

    mu       Gemm(latent, ...)                            mu       Gemm(latent, ...)
    squashed Tanh(mu)                                     squashed Tanh(mu)
    action   low + 0.5 * (squashed + 1) * (high - low)    action   Min(Max(-2 + 0.5 * (squashed + 1) * 4, -2), 2)

Invariants: no node is float64, except the subtraction of a mean from an input of float64 or large integers; operands
are inputs, constants or results of earlier nodes; a constant does not have a batch axis, every other value does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sbformat.errors import UnsupportedError, quote, require_names
from sbformat.policies.export.bounds import clip_to_bounds
from sbformat.policies.export.float32 import Narrowed
from sbformat.policies.export.folding import fold_constants
from sbformat.policies.export.interface import NEXT, Port, name_inputs, name_states, require_distinct
from sbformat.policies.export.metadata import describe_origin
from sbformat.policies.graph import BOUNDS
from sbformat.policies.loading import load_policy
from sbformat.policies.run.policy import Policy
from sbformat.policies.run.program import prune_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.policies.graph import Graph, Node
    from sbformat.policies.run.steps import Array


class Lowered(NamedTuple):
    """What an exported file computes."""

    inputs: tuple[Port, ...]
    """Observations in the order of the space, then masks, ``episode_start`` and states."""
    outputs: tuple[Port, ...]
    """In the requested order, then the next states. Their ``value`` may be a constant or an input."""
    nodes: tuple[Node, ...]
    """In order; a node's ``name`` is the name of its result."""
    constants: Mapping[str, Array]
    """The constants that nodes and outputs use, by name; C-contiguous."""
    metadata: Mapping[str, str]
    """See :func:`~sbformat.policies.export.metadata.describe_origin`."""

    @property
    def constant_count(self) -> int:
        """The number of items of all constants."""
        return sum(array.size for array in self.constants.values())


def lower(
    source: Policy | Archive | SourceLike,
    outputs: Iterable[str] = ("action",),
    *,
    raw: bool = False,
    deterministic: bool = True,
) -> Lowered:
    """Return the part of a policy's graph that computes outputs, in float32.

    :param source: a loaded policy, or what :func:`sbformat.load_policy` takes
    :param outputs: names of outputs of its graph, such as ``action``, ``value``, ``logits``
    :param raw: leave out what clips or scales a continuous action to the bounds of its space
    :param deterministic: False is refused: an exported file has no random numbers
    :raises ValueError: for an output that the policy does not have, with those that it has
    :raises UnsupportedError: for sampled actions, and for modules that the caller supplied as functions

    Example::

        lowered = lower(sbformat.load_policy("agent.zip"), ("action", "value"))
        [port.name for port in lowered.inputs], len(lowered.nodes)
    """
    policy = open_policy(source)
    graph = policy.graph
    names = check_outputs(graph, outputs)
    if not deterministic:
        raise UnsupportedError(explain_sampling(graph))
    values = {name: graph.outputs[name] for name in names}
    raw_action = find_raw_action(graph)
    if raw and "action" in values:
        values["action"] = raw_action
    nodes, wanted, next_states = close_over_states(graph, tuple(values.values()))
    refuse_calls(nodes)
    constants: dict[str, Array] = {name: policy.weights[name] for name in graph.weights if name in wanted}
    nodes = fold_constants(clip_to_bounds(nodes, constants), constants)
    narrowed = Narrowed(nodes, graph.inputs, constants)
    values.update({f"{NEXT}{name}": value for name, value in next_states.items()})
    ports = _name_outputs(graph, {name: narrowed.find(value) for name, value in values.items()}, narrowed)
    kept = _drop_unused(narrowed.nodes, {port.value for port in ports})
    used = {name for node in kept for name in node.inputs} | {port.value for port in ports}
    return Lowered(
        name_inputs(graph, wanted, values),
        ports,
        kept,
        {name: array for name, array in narrowed.constants.items() if name in used},
        describe_origin(policy),
    )


def open_policy(source: Policy | Archive | SourceLike) -> Policy:
    """Return a policy unchanged, and load anything else.

    :raises SbformatError: as :func:`sbformat.load_policy`
    """
    return source if isinstance(source, Policy) else load_policy(source)


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


def check_outputs(graph: Graph, outputs: Iterable[str]) -> tuple[str, ...]:
    """Return the names of outputs.

    :raises ValueError: for none, and for one that the graph does not have
    """
    names = require_names(outputs, "outputs")
    for name in names:
        if name not in graph.outputs:
            message = f"expected outputs among {', '.join(map(quote, graph.outputs))}, got {quote(name)}"
            raise ValueError(message)
    if not names:
        message = f"expected at least one output, of {', '.join(map(quote, graph.outputs))}"
        raise ValueError(message)
    require_distinct(names)
    return names


def explain_sampling(graph: Graph) -> str:
    """Return why no export samples, and from which outputs the caller can."""
    parameters = [name for name in ("mean", "log_std", "logits", "q_values") if name in graph.outputs]
    message = "an exported policy is deterministic: it has no random numbers"
    if graph.sampling.kind == "none" or not parameters:
        return f"{message}, and the agent does not sample"
    return f"{message}; export the outputs {', '.join(map(quote, parameters))}, and sample from them where it runs"


def close_over_states(graph: Graph, values: tuple[str, ...]) -> tuple[tuple[Node, ...], set[str], dict[str, str]]:
    """Prune, and add the next values of all states that are needed; return these by their name in the file."""
    named = name_states(graph)
    chosen: dict[str, str] = {}
    while True:
        nodes, wanted = prune_nodes(graph, (*values, *chosen.values()))
        needed = {named[state.input]: state.output for state in graph.states if state.input in wanted}
        if needed == chosen:
            return nodes, wanted, chosen
        chosen = needed


def refuse_calls(nodes: Iterable[Node]) -> None:
    """Refuse functions of the caller's.

    :raises UnsupportedError: with the name of the first
    """
    for node in nodes:
        if node.op == "Call":
            message = (
                f"{quote(node.attributes['function'], 80)} is a function that modules= supplied: it runs in Python "
                "only, and cannot be exported"
            )
            raise UnsupportedError(message)


def _name_outputs(graph: Graph, values: Mapping[str, str], narrowed: Narrowed) -> tuple[Port, ...]:
    described = {item.name: (item.dtype, item.shape) for item in graph.inputs}
    described.update({node.name: (node.dtype, node.shape) for node in narrowed.nodes})
    described.update({name: (array.dtype.name, array.shape) for name, array in narrowed.constants.items()})
    return tuple(Port(name, value, *described[value], "output") for name, value in values.items())


def _drop_unused(nodes: Sequence[Node], outputs: set[str]) -> tuple[Node, ...]:
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if node.name in wanted:
            kept.append(node)
            wanted.update(node.inputs)
    return tuple(reversed(kept))
