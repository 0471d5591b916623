"""``Graph``: what a policy computes, as inert data (POLICIES.md 19).

Inputs, nodes in order, outputs, and weights. A node names an operator of :mod:`~sbformat.policies.operators`; there is
nothing to call in it. Weights are references to tensors of the archive, which are read when a back end needs them, so
that a graph is made without numpy. DQN with one hidden layer of 8, for 4 observations and 2 actions::

    inputs   observation float32 (4)
    nodes    q_net.q_net.0  Gemm(observation, q_net.q_net.0.weight, q_net.q_net.0.bias)   float32 (8)
             q_net.q_net.1  Relu(q_net.q_net.0)                                          float32 (8)
             q_values       Gemm(q_net.q_net.1, q_net.q_net.2.weight, ...)               float32 (2)
             action         ArgMax(q_values, axis=-1)                                    int64 ()
    outputs  action, q_values

Invariants: a name is given once; operands are inputs, weights, or results of earlier nodes; every dtype and shape
follows from the operator's rule. :class:`~sbformat.policies.builder.GraphBuilder` keeps them.
"""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal

from sbformat.immutable import Record
from sbformat.known.numpy import unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.pkl.numpy import ArrayInfo, item_size
from sbformat.pth.values import TensorInfo
from sbformat.rendering import write_number, write_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.policies.builder import Family
    from sbformat.policies.operators import Shape


BOUNDS: Final = "bounds"
"""The ``module`` of nodes that clip or scale an action to the bounds of its space."""
NORMALIZATION: Final = "vecnormalize"
"""The ``module`` of nodes that normalize an observation; a dot and the key follow if it is a part of a Dict."""


class Tensor(Record):
    """An input or output, or the result of a node."""

    name: str
    dtype: str
    """numpy's name: ``float32``, ``uint8``, ..."""
    shape: Shape
    """Shape of one item; a batch axis precedes it."""


class Input(Record):
    """An input of a graph."""

    name: str
    dtype: str
    shape: Shape
    default: float | None = None
    """The value of all items when the input is not given; None for an input that is required."""
    role: Literal["observation", "state", "episode_start", "action_masks"] = "observation"
    key: str | None = None
    """The key of a Dict observation."""


class State(Record):
    """A recurrent state: an input, and the output that is its next value."""

    input: str
    output: str
    name: str
    """Its kind: ``hidden``, ``cell``, ``critic_hidden``, ``critic_cell``; ``state`` in Stable Baselines 2."""


class Node(Record):
    """An operation. Its result has its name."""

    name: str
    op: str
    """A key of ``OPERATORS``."""
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    dtype: str
    shape: Shape
    """Shape of the result for one item; of the whole result when all operands are weights."""
    module: str = ""
    """The module of the policy that it is part of, by its name in the state dict."""


class Weight(Record):
    """An array that does not depend on the observation."""

    name: str
    dtype: str
    shape: Shape
    address: str | None
    """Where it is: ``policy.pth:action_net.weight``, ``data:action_space/low``; None for a number of the format.

    A tensor that was computed from others (FORMAT.md 6.8) has the name of SB3, which the file does not contain.
    """
    source: TensorInfo | ArrayInfo | tuple[float, ...]
    """A tensor or array of a file, or the items in C order."""


class Sampling(Record):
    """How an action is drawn when ``deterministic`` is false: what is drawn replaces the result of one node.

    ``kind`` determines the names in ``parameters``, all of them nodes or weights of the graph:

    - ``gaussian``: ``mean`` and ``log_std``; the draw is ``mean + exp(log_std) * noise``.
    - ``gsde``: ``mean``, ``latent`` (the features that the noise depends on) and ``std`` (latent, actions): the draw is
      ``mean + latent @ (std * noise)``, with noise that is drawn once, until it is reset.
    - ``categorical``: ``logits``; ``sizes`` has the number of choices of each component. The draw has the shape of
      ``replaces``.
    - ``bernoulli``: ``logits``; the draw is 0 or 1.
    - ``epsilon_greedy``: with the probability ``rate`` a random action replaces the result for the whole batch.
    - ``none``: the action is deterministic.
    """

    kind: Literal["gaussian", "gsde", "categorical", "bernoulli", "epsilon_greedy", "none"]
    replaces: str = ""
    """The node whose result is replaced by the draw."""
    parameters: Mapping[str, str] = {}
    sizes: tuple[int, ...] = ()
    rate: float = 0.0


class Graph(Record):
    """The computation of a policy. See the module's documentation for an example."""

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, str]
    """Node or input by the name of the output: ``action`` first, then ``logits``, ``mean``, ``value``, ..."""
    weights: Mapping[str, Weight]
    states: tuple[State, ...]
    sampling: Sampling
    inferred: tuple[str, ...]
    """A sentence for each fact that shapes determined instead of ``data``, and for each wrapper that was removed."""

    def __repr__(self) -> str:
        from sbformat.policies.show_policy import describe_graph

        return f"<Graph {describe_graph(self)}>"

    def _repr_html_(self) -> str:
        """Return inputs, layers and outputs for notebooks."""
        from sbformat.policies.show_policy import render_graph

        return render_graph(self)

    def output(self, name: str) -> Tensor:
        """Return an output's dtype and shape."""
        wanted = self.outputs[name]
        items: tuple[Node | Input, ...] = (*self.nodes, *self.inputs)
        found = next(item for item in items if item.name == wanted)
        return Tensor(name, found.dtype, found.shape)

    @property
    def parameter_count(self) -> int:
        """The number of items of all weights that are tensors of the policy."""
        return sum(prod(weight.shape) for weight in self.weights.values() if isinstance(weight.source, TensorInfo))

    def describe(self) -> str:
        """Return the graph as text: inputs, layers with shapes and activations, outputs, steps, sampling.

        Example::

            print(sbformat.load_policy("agent.zip").graph.describe())
        """
        from sbformat.policies.describe import describe

        return describe(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the graph as plain JSON, by ``schema/graph.schema.json``.

        Tensors are named by their address in the file. Numbers that JSON does not have are texts: ``Infinity``.

        Example::

            json.dump(sbformat.load_policy("agent.zip").graph.to_dict(), file)
        """
        return write_graph(self)


def find_users(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """Return the nodes that use each value, by its name; each node once."""
    users: dict[str, list[Node]] = {}
    for node in nodes:
        for name in dict.fromkeys(node.inputs):
            users.setdefault(name, []).append(node)
    return users


def prune_nodes(
    nodes: Sequence[Node], outputs: Sequence[str], given: frozenset[str] = frozenset()
) -> tuple[tuple[Node, ...], set[str]]:
    """Return the nodes that outputs need, and the names of all values among them.

    :param given: names of nodes whose values are supplied
    """
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if node.name in wanted and node.name not in given:
            kept.append(node)
            wanted.update(node.inputs)
    return tuple(reversed(kept)), wanted


_FLOATS: Final = ("float32", "float64")


def widen_inputs(graph: Graph, family: Family) -> Graph:
    """Return a graph whose inputs have the dtype that observations are converted to first.

    SB3 converts whatever it gets to float32, or with statistics to float64: an input of integers or float32 would cut
    an observation of another dtype before that. SB2 has inputs of the dtype of the space.
    """
    inputs = []
    users = find_users(graph.nodes)
    for item in graph.inputs:
        targets = {node.attributes["to"] if node.op == "Cast" else "" for node in users.get(item.name, ())}
        dtype = item.dtype
        if targets and targets <= set(_FLOATS) and item.role == "observation":
            wide = max(targets, key=_FLOATS.index)
            if wide == _FLOATS[-1] or (family == "sb3" and item.dtype not in _FLOATS):
                dtype = wide
        inputs.append(item._replace(dtype=dtype))
    return graph._replace(inputs=tuple(inputs))


GRAPH_VERSION: Final = 1
MAX_INLINE_ITEMS: Final = 4096
"""Items of an array of ``data`` that are written out; those of a larger one are read at its address."""


def write_graph(graph: Graph) -> dict[str, Any]:
    """Return a graph as JSON: numbers that JSON does not have are the texts NaN, Infinity and -Infinity."""
    return {
        "graph_version": GRAPH_VERSION,
        "inputs": [write_numbers(item._asdict()) for item in graph.inputs],
        "nodes": [write_numbers({**node._asdict(), "attributes": dict(node.attributes)}) for node in graph.nodes],
        "outputs": dict(graph.outputs),
        "weights": {name: _write_weight(weight) for name, weight in graph.weights.items()},
        "states": [state._asdict() for state in graph.states],
        "sampling": write_numbers({**graph.sampling._asdict(), "parameters": dict(graph.sampling.parameters)}),
        "inferred": list(graph.inferred),
        "parameter_count": graph.parameter_count,
    }


def _write_weight(weight: Weight) -> dict[str, Any]:
    made = {"dtype": weight.dtype, "shape": list(weight.shape), "address": weight.address}
    source = weight.source
    items: Any = None
    if isinstance(source, ArrayInfo):
        items = _list_items(source)
    elif not isinstance(source, TensorInfo):
        items = [write_number(number) for number in source]
        if len(items) > 1 and len(set(map(str, items))) == 1:  # STATISTICS.md 17.6
            items = items[0]
    return made if items is None else {**made, "items": items}


def _list_items(array: ArrayInfo) -> Any:
    """Return the items of an array in C order, or one number that all are equal to; None for too many."""
    size = item_size(array.dtype)
    buffer = array.buffer
    if not isinstance(buffer, bytes) or not size:  # too large for memory, or text of no characters
        return None
    count = len(buffer) // size
    is_uniform = count > 1 and buffer[:size] * count == buffer
    if count > MAX_INLINE_ITEMS and not is_uniform:
        return None
    try:
        items = unpack_items(array._replace(shape=(1,), buffer=buffer[:size]) if is_uniform else array)
    except UnrecognizedError:
        return None
    return write_number(items[0]) if is_uniform else [write_number(items[at]) for at in list_positions(array)]


def list_positions(array: ArrayInfo) -> list[int]:
    """Return the position in the buffer of each item in C order."""
    axes = array.axes or tuple(range(len(array.shape)))
    stored = [array.shape[axes.index(axis)] for axis in range(len(axes))]
    steps = [1] * len(stored)
    forward = range(1, len(stored)) if array.order == "F" else range(len(stored) - 2, -1, -1)
    for axis in forward:
        nearer = axis - 1 if array.order == "F" else axis + 1
        steps[axis] = steps[nearer] * stored[nearer]
    indexes = itertools.product(*map(range, array.shape))
    return [sum(index * steps[axis] for index, axis in zip(position, axes)) for position in indexes]
