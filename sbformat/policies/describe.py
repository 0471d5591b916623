"""Summaries of a graph for people: layers with shapes and activations, heads, steps before and after, and as text.

In: a graph. Out: a :class:`Summary` (:func:`summarize`), its tables (:func:`list_tables`), a line for each part
(:func:`list_parts`), or one text (:func:`describe`). Nodes are small: an LSTM has a dozen. Those that one module of the
policy consists of are one :class:`Layer`, and an activation belongs to the layer before it. What no trained weight
precedes prepares observations; what no layer follows chooses the action.
"""

from __future__ import annotations

import itertools
import re
from math import prod
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.graph import NORMALIZATION, find_users
from sbformat.policies.operators import COMPOSED, OPERATORS
from sbformat.pth.values import TensorInfo
from sbformat.rendering import render_table, write_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.policies.graph import Graph, Input, Node, Sampling, State
    from sbformat.policies.operators import Shape


_ACTIVATIONS: Final = {op: row.activation for op, row in OPERATORS.items() if row.activation}
_PARAMETERS: Final = {"log_std": "log standard deviation"}
"""What a parameter is that is an output as it is stored."""
_ATTRIBUTES: Final = 4


class Layer(Record):
    """A layer: the nodes of one module of the policy, with the activation that follows."""

    name: str
    """The module, as in the state dict; of a node without one, its own name."""
    operation: str
    """``linear``, ``convolution 8 x 8, stride 4``, ``LSTM``, ..., or the operators."""
    inputs: tuple[str, ...]
    """The layers, inputs of the graph and steps that it reads."""
    input_shapes: tuple[Shape, ...]
    shape: Shape
    activation: str | None
    weights: tuple[str, ...]
    parameter_count: int
    outputs: tuple[str, ...]
    """The outputs of the graph that are its result."""


class Step(Record):
    """A node before the first layer or after the last one."""

    name: str
    operation: str
    """As an expression: ``ArgMax(logits)``."""
    dtype: str
    shape: Shape


class Head(Record):
    """An output of the graph."""

    name: str
    dtype: str
    shape: Shape
    source: str
    """The layer, step or input whose result it is."""


class Summary(Record):
    """A graph, as people describe a network; without references to the tensors of a file."""

    inputs: tuple[Input, ...]
    preprocessing: tuple[Step, ...]
    layers: tuple[Layer, ...]
    heads: tuple[Head, ...]
    postprocessing: tuple[Step, ...]
    """The steps after the last layer: the choice of the action, squashing, clipping."""
    states: tuple[State, ...]
    sampling: Sampling
    inferred: tuple[str, ...]
    parameter_count: int


class _Group(Record):
    """Nodes that are one layer."""

    name: str
    nodes: list[Node]


def summarize(graph: Graph) -> Summary:
    """Return the layers and steps of a graph."""
    return _Summarizer(graph).summarize()


class _Summarizer:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._shapes = {item.name: item.shape for item in graph.inputs}
        self._shapes.update((node.name, node.shape) for node in graph.nodes)
        self._shapes.update((name, weight.shape) for name, weight in graph.weights.items())
        self._trained = {name for name, weight in graph.weights.items() if isinstance(weight.source, TensorInfo)}
        self._constant = set(graph.weights)  # weights, and nodes that depend on weights alone
        self._names: dict[str, str] = {}  # the layer that made a value, which is displayed for it
        self._is_recurrent = {item.name for item in graph.inputs if item.role in ("state", "episode_start")}
        """States, the start of episodes, and nodes that depend on these alone: an LSTM reads them."""
        self._readers = find_users(graph.nodes)
        for node in graph.nodes:
            known = [name for name in node.inputs if name not in self._constant]
            if not known:
                self._constant.add(node.name)
            elif self._is_recurrent.issuperset(known):
                self._is_recurrent.add(node.name)

    def summarize(self) -> Summary:
        before, after = self._split()
        steps: tuple[list[Step], list[Step]] = ([], [])
        layers: list[Layer] = []
        made_by: dict[str, int] = {}
        for group in _group(self._graph.nodes, before | after):
            last = group.nodes[-1]
            if last.name in before or last.name in after:
                if last.name not in self._constant:
                    operation = self._express(last)
                    name = self._name_step(last)
                    steps[last.name in after].append(Step(name, operation, last.dtype, last.shape))
                continue
            at = self._find_activated(group, made_by)
            if at is None:
                at = len(layers)
                layers.append(self._describe(group))
            else:
                layers[at] = self._activate(layers[at], group)
            made_by[last.name] = at
            self._names.update({node.name: group.name for node in group.nodes})
            self._names[last.name] = layers[at].name
        graph, heads = self._graph, []
        for name, value in graph.outputs.items():
            head = graph.output(name)
            heads.append(Head(name, head.dtype, head.shape, self._names.get(value, value)))
        return Summary(
            graph.inputs, tuple(steps[0]), tuple(layers), tuple(heads), tuple(steps[1]),
            graph.states, graph.sampling, graph.inferred, graph.parameter_count,
        )  # fmt: skip

    def _name_step(self, node: Node) -> str:
        """Return the name of a step: its own, but for the result of VecNormalize."""
        module, _, key = node.module.partition(".")
        is_result = any(reader.module != node.module for reader in self._readers.get(node.name, ()))
        if module == NORMALIZATION and is_result:
            self._names[node.name] = f"normalized_observation{f'/{key}' if key else ''}"
        return self._names.get(node.name, node.name)

    def _split(self) -> tuple[set[str], set[str]]:
        """Return the nodes before the first layers, and those after the last ones."""
        nodes = self._graph.nodes
        trained = {node.name: node.module for node in nodes if not self._trained.isdisjoint(node.inputs)}
        modules = set(trained.values()) - {""}
        layers = {node.name for node in nodes if node.name in trained or node.module in modules}
        depends: set[str] = set()
        for node in nodes:
            if node.name in layers or not depends.isdisjoint(node.inputs):
                depends.add(node.name)
        needed: set[str] = set()
        for node in reversed(nodes):
            if node.name in layers or node.name in needed:
                needed.update(node.inputs)
        others = {node.name for node in nodes} - layers
        return others - depends, others & depends - needed

    def _find_activated(self, group: _Group, made_by: dict[str, int]) -> int | None:
        """Return the layer that a group is the activation of, if it is one."""
        first, outside = group.nodes[0], self._operands(group)
        if len(outside) != 1 or outside[0] not in made_by:
            return None
        (value,) = outside
        is_activation = (
            self._shapes[value] == group.nodes[-1].shape
            and (not self._tensors(group) or first.op == "PRelu")
            and (len(group.nodes) > 1 or first.op in _ACTIVATIONS)
            and len(self._readers[value]) <= sum(value in node.inputs for node in group.nodes)
            and not self._outputs(value)
        )
        return made_by[value] if is_activation else None

    def _activate(self, layer: Layer, group: _Group) -> Layer:
        operators = " ".join(node.op for node in group.nodes)
        activation = _ACTIVATIONS.get(operators) or COMPOSED.get(operators) or _list_operators(group)
        addresses, count = self._weigh(group)
        return layer._replace(
            activation=activation if layer.activation is None else f"{layer.activation}, {activation}",
            weights=layer.weights + addresses,
            parameter_count=layer.parameter_count + count,
            outputs=self._outputs(group.nodes[-1].name),
        )

    def _describe(self, group: _Group) -> Layer:
        outside, last = self._operands(group), group.nodes[-1]
        is_lstm = not self._is_recurrent.isdisjoint(outside)
        reads = {self._names.get(name, name): self._shapes[name] for name in outside
                 if not is_lstm or name not in self._is_recurrent}  # fmt: skip
        operation, activation = "LSTM", None
        if not is_lstm:
            activation = _ACTIVATIONS.get(last.op) if len(group.nodes) > 1 else None
            operation = self._name_operation(group._replace(nodes=group.nodes[:-1]) if activation else group)
        name, weights, count = group.name, *self._weigh(group)
        if not outside and len(group.nodes) == len(weights) == 1:  # a parameter that depends on no observation
            name = weights[0].rpartition(":")[2]
            operation = _PARAMETERS.get(name.rpartition(".")[2], "parameter")
        return Layer(
            name, operation, tuple(reads), tuple(reads.values()), last.shape, activation,
            weights, count, self._outputs(last.name),
        )  # fmt: skip

    def _name_operation(self, group: _Group) -> str:
        node = next((node for node in group.nodes if node.op == "Conv"), None)
        if node is not None:
            kernel = " x ".join(map(str, self._shapes[node.inputs[1]][2:]))
            strides, pads = node.attributes["strides"], node.attributes["pads"]
            padding = f", padding {_join_sizes(pads)}" if any(pads) else ""
            return f"convolution {kernel}, stride {_join_sizes(strides)}{padding}"
        if any(tensor.rpartition(".")[2] in ("running_mean", "ra_mean") for tensor in self._tensors(group)):
            return "batch normalization"
        return _list_operators(group)

    def _operands(self, group: _Group) -> list[str]:
        """Return the values from outside that a group reads, without weights."""
        own = {node.name for node in group.nodes}
        names = dict.fromkeys(name for node in group.nodes for name in node.inputs)
        return [name for name in names if name not in own and name not in self._constant]

    def _tensors(self, group: _Group) -> list[str]:
        return [name for name in dict.fromkeys(n for node in group.nodes for n in node.inputs) if name in self._trained]

    def _weigh(self, group: _Group) -> tuple[tuple[str, ...], int]:
        """Return the addresses of a group's tensors, and the number of their items."""
        weights = [self._graph.weights[name] for name in self._tensors(group)]
        return tuple(weight.address or weight.name for weight in weights), sum(prod(weight.shape) for weight in weights)

    def _outputs(self, name: str) -> tuple[str, ...]:
        return tuple(output for output, made_by in self._graph.outputs.items() if made_by == name)

    def _express(self, node: Node) -> str:
        operands = map(self._express_operand, node.inputs)
        attributes = (f"{key}={_express_value(value)}" for key, value in node.attributes.items())
        return f"{node.op}({', '.join([*operands, *attributes])})"

    def _express_operand(self, name: str) -> str:
        weight = self._graph.weights.get(name)
        if weight is None:
            return next(iter(self._outputs(name)), self._names.get(name, name))
        if isinstance(weight.source, (TensorInfo, ArrayInfo)) or not weight.source:
            return weight.address or name
        return _express_value(weight.source if len(set(weight.source)) > 1 else weight.source[0])


def _group(nodes: Sequence[Node], apart: set[str]) -> list[_Group]:
    """Group neighbouring nodes of one module; the others are each for themselves."""
    groups: list[_Group] = []
    for node in nodes:
        module = "" if node.name in apart else node.module
        if module and groups and groups[-1].name == module:
            groups[-1].nodes.append(node)
        else:
            groups.append(_Group(module or node.name, [node]))
    return groups


def _list_operators(group: _Group) -> str:
    return ", ".join(dict.fromkeys(OPERATORS[node.op].layer or node.op for node in group.nodes))


def _join_sizes(sizes: Sequence[int]) -> str:
    """Return sizes as text; equal ones once."""
    return ", ".join(map(str, sizes if len(set(sizes)) > 1 else sizes[:1]))


def _express_value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        more = [f"... {len(value)} in all"] if len(value) > _ATTRIBUTES else []
        return f"[{', '.join([*map(_express_value, value[:_ATTRIBUTES]), *more])}]"
    return escape(str(write_number(value)))


# -- what depends on what -----------------------------------------------------------------------------

_NAMES: Final = r"[^\s(),\[\]=]+"


def resolve_steps(summary: Summary) -> dict[str, list[str]]:
    """Return the names that each step reads: its expression names layers, inputs, outputs and other steps."""
    sources = {head.name: head.source for head in summary.heads}
    found = {}
    for step in (*summary.preprocessing, *summary.postprocessing):
        names = re.findall(_NAMES, step.operation.partition("(")[2])
        found[step.name] = [sources.get(name, name) for name in names if sources.get(name, name) != step.name]
    return found


def find_sources(names: Iterable[str], steps: Mapping[str, Sequence[str]], at: Mapping[str, int]) -> list[int]:
    """Return the numbers that values depend on: their own, or those that their steps depend on.

    :param steps: from :func:`resolve_steps`
    :param at: a number for each name
    """
    found: set[int] = set()
    seen: set[str] = set()
    todo = list(names)
    while todo:
        part = todo.pop()
        if part in seen:
            continue
        seen.add(part)
        if part in at:
            found.add(at[part])
        else:
            todo.extend(steps.get(part, ()))
    return sorted(found)


# -- the parts of a network, in a line each -----------------------------------------------------------

POLICY: Final = "policy"
FEATURES: Final = "features"
_OF_ACTION: Final = frozenset({"mean", "log_std", "logits", "scores"})  # outputs that the action is drawn from
_LONGEST: Final = 64  # layers of a part that its line names
_SIZED: Final = ("linear", "convolution")  # operations that need no name beside the shape of their result
_OF_OTHERS: Final = frozenset({"action", "probabilities"})  # outputs that are computed from other outputs, if any


class _Chain(Record):
    """Layers of which each reads the one before it alone, and is the only one that reads it."""

    layers: list[Layer]
    sources: list[int]
    """The chains that its first layer reads."""
    heads: dict[str, None]
    """The outputs of the network that depend on its layers, without other layers between."""


def list_parts(summary: Summary) -> list[tuple[str, str]]:
    """Return a line for each part of a network: its name, and the sizes of its layers, ``4 -> 8 -> 8 -> 2 Tanh``.

    A part is called ``policy`` if the action is drawn from it, by its output otherwise (``value``), and ``features`` if
    several parts read it. Equal parts, such as two critics, are one line.
    """
    chains = _find_chains(summary)
    names = [""] * len(chains)
    begins = [False] * len(chains)  # of each chain: whether its layers are the first ones of the parts that read it
    readers: list[list[int]] = [[] for _ in chains]
    for at in reversed(range(len(chains))):
        for source in chains[at].sources:
            readers[source].append(at)
        read_as = {names[reader] for reader in readers[at]}
        is_only = all(chains[reader].sources == [at] for reader in readers[at])
        begins[at] = not chains[at].heads and len(read_as) == 1 and is_only
        names[at] = _name_part(chains[at]) if chains[at].heads or not readers[at] else FEATURES
        names[at] = read_as.pop() if begins[at] else names[at]
    parts: dict[tuple[str, str], int] = {}
    drawn: set[tuple[int, ...]] = set()
    beginnings: list[list[Layer]] = []  # of each chain, the layers of its part up to its last one
    for at, chain in enumerate(chains):
        sources = tuple(chain.sources)
        before = beginnings[sources[0]] if len(sources) == 1 and begins[sources[0]] else []
        beginnings.append([*before, *chain.layers][:_LONGEST])
        if begins[at] or (names[at] == POLICY and sources and sources in drawn):
            continue  # the latter is another parameter of the distribution, such as log_std
        if names[at] == POLICY:
            drawn.add(sources)
        if any(layer.weights for layer in beginnings[at]):
            key = names[at], _render_chain(beginnings[at])
            parts[key] = parts.get(key, 0) + 1
    ordered = sorted(parts, key=lambda key: (key[0] != FEATURES, key[0] != POLICY))
    return [(name, text + f", {parts[name, text]} of these" * (parts[name, text] > 1)) for name, text in ordered]


def _find_chains(summary: Summary) -> list[_Chain]:
    """Return the layers in chains, each after those that it reads."""
    aside = {item.name for item in summary.inputs if item.role != "observation"}
    layers = [layer for layer in summary.layers if layer.inputs]
    at: dict[str, int] = {}
    sources, counts = [], [0] * len(layers)
    for number, layer in enumerate(layers):
        sources.append([at[name] for name in layer.inputs if name in at])
        for source in sources[-1]:
            counts[source] += 1
        at[layer.name] = number
    chains: list[_Chain] = []
    chain_of: list[int] = []
    for layer, read in zip(layers, sources):
        is_next = len(read) == 1 and counts[read[0]] == 1 and len([n for n in layer.inputs if n not in aside]) == 1
        if is_next:
            chain_of.append(chain_of[read[0]])
            chains[chain_of[-1]].layers.append(layer)
        else:
            chain_of.append(len(chains))
            chains.append(_Chain([layer], list(dict.fromkeys(chain_of[source] for source in read)), {}))
    steps = resolve_steps(summary)
    for head in summary.heads:
        for source in find_sources([head.source], steps, at):
            chains[chain_of[source]].heads[head.name] = None
    return chains


def _name_part(chain: _Chain) -> str:
    """Return the name of a part by its outputs; one without any computes what a drawn action is made from."""
    names = [name for name in chain.heads if name not in _OF_OTHERS]
    return POLICY if not names or not _OF_ACTION.isdisjoint(names) else names[0]


def _render_chain(layers: Sequence[Layer]) -> str:
    """Return the shapes of layers that have weights, and the activations; a join of several inputs is the first one."""
    shape = layers[0].input_shapes[0] if len(layers[0].input_shapes) == 1 else layers[0].shape
    shown = [render_shape(shape)]
    words: dict[str, None] = {}
    for layer in layers:
        is_sized = layer.operation.startswith(_SIZED)
        if layer.weights and (is_sized or layer.shape != shape):
            shown.append(("" if is_sized else f"{layer.operation} ") + render_shape(layer.shape))
        elif layer.operation.endswith("normalization"):
            words[layer.operation] = None
        if layer.activation and "," not in layer.activation:  # several operators are no activation
            words[layer.activation] = None
        shape = layer.shape
    return " ".join(filter(None, (" -> ".join(shown), ", ".join(words))))


# -- tables -------------------------------------------------------------------------------------------

_ROWS: Final = 1000
_SAMPLING: Final = {
    "gaussian": "{mean} + exp({log_std}) * noise",
    "gsde": "{mean} + {latent} @ ({std} * noise), with noise that is drawn once",
    "categorical": "a choice with the probabilities softmax({logits})",
    "bernoulli": "1 with the probability sigmoid({logits}), else 0",
    "epsilon_greedy": "with the probability {rate}, a random action",
    "none": "none: the action is deterministic",
}
"""Phrases for how an action is drawn, by the kind of ``Sampling``."""


class Table(Record):
    """A table of a description."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: tuple[int, ...] = ()


def describe(graph: Graph) -> str:
    """Return a graph as text: one table after another, escaped, with a line for each layer."""
    lines = []
    for table in list_tables(summarize(graph), with_weights=True):
        rows = [[escape(cell, 200) for cell in row] for row in table.rows[:_ROWS]]
        if rows:
            lines += ["", table.title, *(f"  {line}" for line in render_table(table.header, rows, table.right))]
        if len(table.rows) > _ROWS:
            lines.append(f"  \u2026 and {len(table.rows) - _ROWS:,} more")
    return "\n".join(lines[1:]) + "\n"


def list_tables(summary: Summary, *, with_weights: bool = False) -> list[Table]:
    """Return the tables of a description; cells are not escaped, and some tables have no rows."""
    weights = ("weights",) if with_weights else ()
    header = ("layer", "operation", "reads", "shape", "activation", "parameters", *weights)
    layers = _list_layers(summary.layers, with_weights=with_weights)
    inputs = [(item.name, item.dtype, render_shape(item.shape), _describe_role(item)) for item in summary.inputs]
    outputs = [(head.name, head.dtype, render_shape(head.shape), head.source) for head in summary.heads]
    states = [(row.name, row.input, row.output) for row in summary.states]
    return [
        Table("inputs", ("input", "dtype", "shape", "role"), inputs),
        _make_steps("pre-processing", summary.preprocessing),
        Table(f"layers ({summary.parameter_count:,} parameters)", header, layers, right=(5,)),
        Table("outputs", ("output", "dtype", "shape", "from"), outputs),
        _make_steps("post-processing", summary.postprocessing),
        Table("states", ("state", "input", "next value"), states),
        Table("sampling", (), [(summary.sampling.kind, describe_sampling(summary.sampling))]),
        Table("inferred", (), [(sentence,) for sentence in summary.inferred]),
    ]


def render_shape(shape: Shape) -> str:
    """Return a shape as text, ``4 x 84 x 84``."""
    return " x ".join(map(str, shape)) or "scalar"


def describe_sampling(sampling: Sampling) -> str:
    """Return how an action is drawn, as a phrase."""
    phrase = _SAMPLING[sampling.kind].format(rate=sampling.rate, **sampling.parameters)
    sizes = f", of {', '.join(map(str, sampling.sizes[:8]))} choices" if sampling.sizes else ""
    sizes = f"{sizes} in {len(sampling.sizes)} components" if len(sampling.sizes) > 1 else sizes
    replaces = f"; the draw replaces {sampling.replaces}" if sampling.replaces else ""
    return f"{phrase}{sizes}{replaces}"


def _join_addresses(addresses: Sequence[str]) -> str:
    """Return addresses as text; of one that begins as that before it, the last name: ``a:net.weight, .bias``."""
    shown = list(addresses[:1])
    for before, address in itertools.pairwise(addresses):
        start, dot, name = address.rpartition(".")
        shown.append(f".{name}" if dot and before.rpartition(".")[0] == start else address)
    return ", ".join(shown)


def _make_steps(title: str, steps: tuple[Step, ...]) -> Table:
    rows = [(step.name, step.operation, step.dtype, render_shape(step.shape)) for step in steps]
    return Table(title, ("step", "operation", "dtype", "shape"), rows)


def _list_layers(layers: Iterable[Layer], *, with_weights: bool) -> list[tuple[str, ...]]:
    """Return the rows of layers; parameters that several layers share are counted at the first of them."""
    rows: list[tuple[str, ...]] = []
    counted: set[str] = set()
    for layer in layers:
        is_shared = bool(layer.weights) and counted.issuperset(layer.weights)
        counted.update(layer.weights)
        rows.append(_list_cells(layer, is_shared=is_shared, with_weights=with_weights))
    return rows


def _list_cells(layer: Layer, *, is_shared: bool, with_weights: bool) -> tuple[str, ...]:
    before = ", ".join(dict.fromkeys(map(render_shape, layer.input_shapes)))
    after = render_shape(layer.shape)
    return (
        layer.name,
        layer.operation,
        ", ".join(layer.inputs),
        f"{before} -> {after}" if before else after,
        layer.activation or "",
        "shared" if is_shared else f"{layer.parameter_count:,}" if layer.weights else "",
        *([_join_addresses(layer.weights)] if with_weights else []),
    )


def _describe_role(item: Input) -> str:
    shown = item.role.replace("_", " ")
    shown += f" {item.key!r}" if item.key is not None else ""
    return shown if item.default is None else f"{shown}, by default {item.default:g}"
