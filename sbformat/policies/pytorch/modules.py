"""``Tree``: the modules that the nodes of a graph are written as."""

from __future__ import annotations

import re
from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import UnsupportedError, quote
from sbformat.policies.export.parts import find_raw_action
from sbformat.policies.graph import NORMALIZATION, find_users, prune_nodes
from sbformat.policies.operators import COMPOSED, OPERATORS
from sbformat.policies.pytorch.expressions import make_identifier, write_literal
from sbformat.policies.run.program import fold_nodes
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sbformat.known.spaces import Space
    from sbformat.policies.graph import Graph, Node, Weight
    from sbformat.policies.operators import Shape
    from sbformat.policies.run.kernels import Array


# -- modules ------------------------------------------------------------------------------------------

FLAT, LEAF, CHAIN, LIST, CLASS = "flat", "leaf", "chain", "list", "class"
_DEEPEST: Final = 64
"""Names of modules around a tensor."""
STATISTICS: Final = frozenset(
    ["ra_mean", "ra_var", "running_mean", "running_var", "mean", "var", "steps", "count", "runningsum", "runningsumsq"]
)
"""Names of tensors that no optimizer changes."""
_LSTM: Final = (
    "Mul", "Mul", "Gemm", "Gemm", "Add", "Slice", "Slice", "Slice", "Slice", "Sigmoid", "Sigmoid", "Tanh", "Sigmoid",
    "Mul", "Mul", "Add", "Tanh", "Mul",
)  # fmt: skip
"""The operators of a layer of an LSTM, in order."""


class Net:
    """A module of the result: a layer, a chain or list of modules, or a class."""

    def __init__(self, name: str = "", parent: Net | None = None) -> None:
        self.name, self.parent = name, parent
        self.children: dict[str, Net] = {}
        self.parameters: dict[str, str] = {}
        """Values by the names of parameters and buffers."""
        self.nodes: list[Node] = []
        """Without those of its children."""
        self.kind = CLASS
        self.constructor = ""
        """Of a layer: the expression that makes it."""
        self.attribute = name
        self.attributes: dict[str, str] = {}
        """Of parameters, by their names."""
        self.is_layer = False
        """Whether it is called for each of its nodes, whose operands after the first are its weights."""
        self.weights: dict[str, str] = {}
        """Of a layer: values by the names that torch has for them."""
        self.states: tuple[str, ...] = ()
        """Of an LSTM: the names of its states."""

    def find(self, path: Sequence[str]) -> Net:
        """Return a module within it, which is made if there is none."""
        return self.children.setdefault(path[0], Net(path[0], self)).find(path[1:]) if path else self

    def walk(self) -> Iterator[Net]:
        """Yield the module and all within it."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def path(self) -> tuple[str, ...]:
        """Return the attributes from the root."""
        return () if self.parent is None else (*self.parent.path(), self.attribute)

    def express(self, start: Net) -> str:
        """Return the expression of it in a method of a module around it."""
        if self.parent is None or self is start:
            return "self"
        item = f"[{self.attribute}]" if self.parent.kind == LIST else f".{self.attribute}"
        return self.parent.express(start) + item

    def is_within(self, other: Net) -> bool:
        """Return whether it is the other module or within it."""
        return self is other or (self.parent is not None and self.parent.is_within(other))

    @property
    def label(self) -> str:
        """The name without numbers after it."""
        return self.name if not self.name.isdigit() or self.parent is None else self.parent.label


class Tree:
    """The modules of a policy, and which node belongs to which."""

    def __init__(self, graph: Graph, action_space: Space) -> None:
        self.graph, self.action_space, self.root = graph, action_space, Net()
        self.nodes = {node.name: node for node in graph.nodes}
        self.order = {node.name: at for at, node in enumerate(graph.nodes)}
        self.types: dict[str, tuple[str, Shape]] = {item.name: (item.dtype, item.shape) for item in graph.inputs}
        self.types.update({name: (weight.dtype, weight.shape) for name, weight in graph.weights.items()})
        self.types.update({node.name: (node.dtype, node.shape) for node in graph.nodes})
        self.constant = set(graph.weights)
        """Weights, and nodes that depend on weights alone."""
        for node in graph.nodes:
            if self.constant.issuperset(node.inputs):
                self.constant.add(node.name)
        self.users = find_users(graph.nodes)
        self.latent = graph.sampling.parameters.get("latent") if "log_std" in graph.weights else None
        """The features that the noise of gSDE depends on, where SB3 does not learn them by it: not in SAC."""
        self.reads = Counter(name for node in graph.nodes for name in node.inputs)
        self.owners: dict[str, Net] = {}
        self.places: dict[str, tuple[Net, str]] = {}
        """The module and name of each weight that is a parameter or buffer."""
        self.stored: dict[str, str] = {}
        """Values by the keys of the state dict."""
        self._bounds: set[str] = set()  # parameters that are the bounds of the action space
        self._turned: set[str] = set()  # weights that torch.nn has transposed
        self._folded: set[str] = set()  # nodes that only bring a weight into the form of torch.nn
        self._renamed: dict[tuple[str, ...], tuple[str, ...]] = {}  # where numbered modules have their weights
        tensors = [name for name, weight in graph.weights.items() if isinstance(weight.source, TensorInfo)]
        self._separator = "." if any("." in name for name in tensors) else "/"
        for name in tensors:
            if (depth := len(self._split(name)) - 1) > _DEEPEST:
                raise UnsupportedError(f"expected at most {_DEEPEST} nested modules, got {depth}: {quote(name, 80)}")
        self._find_act()
        self._find_lstms()
        self._find_layers()
        self.literals = {name: number for name, weight in graph.weights.items()
                         if (number := self._find_number(name, weight)) is not None}  # fmt: skip
        self._place_weights()
        self._assign_nodes()
        self._move_nodes()
        self._find_chains()
        self._name_attributes()

    def _split(self, text: str) -> tuple[str, ...]:
        """Return the modules around a tensor, and its name: of SB3 with dots, of SB2 and SBX with slashes."""
        return tuple(filter(None, text.removesuffix(":0").split(self._separator)))

    def _find_act(self) -> None:
        """Decide what ``forward`` computes, and what ``act`` computes from it."""
        graph, sampling = self.graph, self.graph.sampling
        self.fields: dict[str, str] = {name: value for name, value in graph.outputs.items() if name != "action"}
        self.acting: set[str] = set()
        self.drawn = {sampling.replaces} - {"", *self.constant}
        for node in graph.nodes:
            if not self.drawn.isdisjoint(node.inputs):
                self.drawn.add(node.name)
        if "action" not in graph.outputs:
            self.forward = self._find_needed()
            return
        for name, value in sampling.parameters.items():
            if value not in self.fields.values() and value not in self.constant:
                self.fields[name] = value
        frontier = self._trace_action()
        roles = {item.name: item.role for item in graph.inputs}
        weights = {name for name, weight in graph.weights.items() if isinstance(weight.source, TensorInfo)}
        reads = {name for node in self.acting for name in self.nodes[node].inputs}
        if any(name in weights or roles.get(name, "action_masks") != "action_masks" for name in reads):
            self.fields["raw_action"] = find_raw_action(graph)
            frontier = self._trace_action()
        first = "unmasked" if "action_masks" in roles.values() else "raw_action"
        names = [first, *(f"value_{number}" for number in range(2, len(frontier) + 2))]
        others = [value for value in frontier if value not in self.fields.values() and value in self.nodes]
        self.fields |= zip([name for name in names if name not in self.fields], others)

    def _find_needed(self) -> set[str]:
        """Return the nodes that ``forward`` computes."""
        nodes, _ = prune_nodes(self.graph.nodes, [*self.fields.values(), *(row.output for row in self.graph.states)])
        return {node.name for node in nodes}

    def _trace_action(self) -> list[str]:
        """Set the nodes of ``forward`` and ``act``; return the results of the one that the other reads."""
        self.forward, self.acting = self._find_needed(), set()
        drawn = self.drawn - {self.graph.sampling.replaces}
        frontier: dict[str, None] = {}
        pending = [self.graph.outputs["action"]]
        while pending:
            name = pending.pop()
            if name in self.acting or name in self.constant:
                continue
            node = self.nodes.get(name)
            is_moved = node is not None and OPERATORS[node.op].moves and len(node.inputs) == 1
            is_moved = is_moved and name not in self.fields.values()
            if node is None or (name in self.forward and name not in drawn and not is_moved):
                frontier[name] = None
            else:
                self.acting.add(name)
                pending += reversed(node.inputs)
        return list(frontier)

    # -- layers ---------------------------------------------------------------------------------------

    def _find_lstms(self) -> None:
        """Make an ``nn.LSTM`` of the nodes of all its layers."""
        groups: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            groups.setdefault(node.module, []).append(node)
        states: dict[str, list[str]] = {}
        for state in self.graph.states:
            states.setdefault(state.name, []).append(state.input)
        for module in [name.removesuffix(".l0") for name in groups if name.endswith(".l0")]:
            layers: list[list[Node]] = []
            while f"{module}.l{len(layers)}" in groups:
                layers.append(groups[f"{module}.l{len(layers)}"])
            if all(tuple(node.op for node in layer) == _LSTM for layer in layers):
                self._add_lstm(module, layers, states)

    def _add_lstm(self, module: str, layers: Sequence[Sequence[Node]], states: Mapping[str, list[str]]) -> None:
        """Make an ``nn.LSTM`` of layers, if each reads the one before and torch has the same names of their weights."""
        inputs = [[layer[at].inputs[1] for layer in layers] for at in (0, 1)]
        names = tuple(name for wanted in inputs for name, found in states.items() if found == wanted)
        first = layers[0][2]
        values = [first.inputs[0], *(layer[-1].name for layer in layers)]
        weights = {
            f"{part}_{way}_l{at}": operand
            for at, layer in enumerate(layers)
            for way, gemm in zip(("ih", "hh"), layer[2:4])
            for part, operand in zip(("weight", "bias"), gemm.inputs[1:])
        }
        is_chain = [layer[2].inputs[0] for layer in layers] == values[:-1]
        is_known = all(value == f"{module}.{name}" for name, value in weights.items())
        keeps = {node.inputs[0] for layer in layers for node in layer[:2]}
        path = self._split(module)
        is_float = self.types[values[-1]][0] == "float32"
        if is_chain and is_known and is_float and len(path) == len(keeps) == 1 and len(names) == 2:
            rows, size = self.types[first.inputs[1]][1]
            options = f", num_layers={len(layers)}" * (len(layers) > 1) + ", bias=False" * (len(first.inputs) == 2)
            nodes = [node for layer in layers for node in layer]
            self._add_leaf(path, nodes, f"nn.LSTM({size}, {rows // 4}{options})", weights).states = names

    def _add_leaf(self, path: Sequence[str], nodes: list[Node], constructor: str, weights: dict[str, str]) -> Net:
        """Make nodes a module of torch, and return it."""
        net = self.root.find(path)
        net.kind, net.nodes, net.constructor, net.weights = LEAF, nodes, constructor, weights
        self.owners.update((node.name, net) for node in nodes)
        return net

    def _find_layers(self) -> None:
        """Make a module of torch of the nodes of a layer: those with the same weights, which nothing else reads."""
        found: dict[tuple[Any, ...], list[Node]] = {}
        for node in self.graph.nodes:
            if node.name not in self.owners and node.op in ("Gemm", "Conv", "LayerNormalization", "PRelu"):
                attributes = str(sorted(node.attributes.items()))
                found.setdefault((node.op, node.inputs[1:], attributes), []).append(node)
        layers = []
        for (_, operands, _), nodes in found.items():
            chains = [self._trace_weight(name) for name in operands]
            own = {node.name for node in nodes}
            is_own = all({user.name for user in self.users[name]} <= own for name in operands)
            constructor = self._make_layer(nodes[0])
            reads_weight = nodes[0].inputs[0] in self.constant
            if constructor and all(chains) and is_own and not reads_weight and len(set(operands)) == len(operands):
                layers.append((nodes, constructor, chains))
        paths = []
        for nodes, _, chains in layers:
            around = {self._split(chain[0])[:-1] for chain in chains}
            path = around.pop() if len(around) == 1 else self._split(nodes[0].module or nodes[0].name)
            paths.append(path or ("layer",))
        counts, around = Counter(paths), {path[:size] for path in paths for size in range(len(path))}
        for path, (nodes, constructor, chains) in zip(paths, layers):
            own_path = (*path, *self._split(chains[0][0])[-1:]) if counts[path] > 1 or path in around else path
            while self.root.find(own_path).kind == LEAF or self.root.find(own_path).children:
                own_path = (*own_path[:-1], f"{own_path[-1]}_")
            weights = dict(zip(("weight", "bias"), nodes[0].inputs[1:]))
            self._add_leaf(own_path, nodes, constructor, weights).is_layer = True
            *module, number = self._split(nodes[0].module) or ("",)
            if number == own_path[-1] and number.isdigit():
                self._renamed[tuple(module)] = own_path[:-1]
            if nodes[0].op == "Gemm" and not nodes[0].attributes["transB"]:
                self._turned.add(weights["weight"])
            self._folded.update(name for chain in chains for name in chain[1:])

    def _trace_weight(self, name: str) -> list[str]:
        """Return the tensor that a value is a form of, and the nodes in between; nothing if it is not."""
        between = []
        while name in self.nodes and OPERATORS[self.nodes[name].op].moves and len(self.nodes[name].inputs) == 1:
            between.append(name)
            (name,) = self.nodes[name].inputs
        weight = self.graph.weights.get(name)
        return [name, *between] if weight is not None and isinstance(weight.source, TensorInfo) else []

    def _make_layer(self, node: Node) -> str:
        """Return the expression of a layer; nothing if torch.nn does not have it."""
        shape, dtype = self.types[node.inputs[1]][1], node.dtype
        options = "" if dtype == "float32" else f", dtype=torch.{dtype}"
        no_bias = ", bias=False" * (len(node.inputs) == 2)
        if node.op == "Gemm":
            outputs, inputs = shape if node.attributes["transB"] else shape[::-1]
            return f"nn.Linear({inputs}, {outputs}{no_bias}{options})"
        if node.op == "Conv":
            top, left, bottom, right = node.attributes["pads"]
            if (top, left) != (bottom, right):
                return ""
            numbers = {"kernel_size": shape[2:], "stride": tuple(node.attributes["strides"]), "padding": (top, left)}
            for name, pair in numbers.items():
                if pair != ((0, 0) if name == "padding" else (1, 1)) or name == "kernel_size":
                    no_bias = f"{no_bias}, {name}={pair[0] if pair[0] == pair[1] else pair}"
            return f"nn.Conv2d({shape[1]}, {shape[0]}{no_bias}{options})"
        if node.op == "LayerNormalization":
            epsilon = node.attributes["epsilon"]
            given = f", eps={write_literal(epsilon)}" if epsilon != 1e-5 else ""
            return f"nn.LayerNorm({shape[0]}{given}{options})"
        if len(node.shape) == len(shape) == 1 and shape[0] in (1, node.shape[0]):
            return f"nn.PReLU({shape[0]}{options})" if shape[0] != 1 or options else "nn.PReLU()"
        return ""

    # -- weights and nodes ----------------------------------------------------------------------------

    def _find_number(self, name: str, weight: Weight) -> float | None:
        """Return the number that a weight is in every item, if it can be written as one."""
        source = weight.source
        if not isinstance(source, tuple) or len(set(map(repr, source))) != 1:
            return None
        users = self.users.get(name, [])
        is_wide = all(
            OPERATORS[user.op].is_elementwise
            and any(self.types[other][1] == user.shape for other in user.inputs if other not in self.constant)
            for user in users
        )
        if weight.shape and not is_wide:
            return None
        kind = float if weight.dtype.startswith("float") else bool if weight.dtype == "bool" else int
        return kind(source[0])

    def _place_weights(self) -> None:
        """Give each weight that is not part of a layer a place in the tree."""
        outside = {name for node in self.graph.nodes for name in node.inputs
                   if node.name not in self.owners and node.name not in self._folded}  # fmt: skip
        outside |= {*self.graph.outputs.values(), *self.graph.sampling.parameters.values()}
        for name, weight in self.graph.weights.items():
            if name not in outside or name in self.literals:
                continue
            net, path = self.root, self._split(name)
            if isinstance(weight.source, TensorInfo):
                while len(path) > 1 and net.find(path[:1]).kind != LEAF:
                    net, path = net.find(path[:1]), path[1:]
                text = "_".join(path)
            else:
                words = re.findall(r"[A-Za-z0-9]+", (weight.address or "constant").partition(":")[2] or "constant")
                is_bound = weight.address in ("data:action_space/low", "data:action_space/high")
                text = f"action_{words[-1]}" if is_bound else "_".join(["stored", *words])
                self._bounds |= {text} if is_bound else set()
                if weight.address and weight.address.startswith(f"{NORMALIZATION}:"):
                    text = "_".join(["observation", *words[2:]])
            while text in net.parameters or text in net.children:
                text += "_"
            net.parameters[text] = name
            self.places[name] = net, text

    def _assign_nodes(self) -> None:
        """Give each other node a module: the innermost one of its name that exists."""
        activations: dict[tuple[str, ...], list[Node]] = {}
        for node in self.graph.nodes:
            if node.name in self.owners or node.name in self.constant:
                continue
            whole, net = self._split(node.module), self.root
            path = whole = (*self._renamed.get(whole[:-1], whole[:-1]), *whole[-1:])
            if node.name in self.acting or node.name not in self.forward or not path:
                path = ()
            while path and path[0] in net.children and net.children[path[0]].kind != LEAF:
                net, path = net.children[path[0]], path[1:]
            if len(path) == 1 and re.fullmatch("[0-9]{1,6}", path[0]) and path[0] not in net.children and net.parent:
                activations.setdefault(whole, []).append(node)
            else:
                net.nodes.append(node)
                self.owners[node.name] = net
        for path, nodes in activations.items():
            net = self._add_leaf(path, nodes, self._make_activation(nodes), {})
            net.kind = LEAF if net.constructor else CLASS

    def _move_nodes(self) -> None:
        """Move a node without a module to where its operands are made and its result is used, and nothing else is."""
        for node in self.graph.nodes:
            if self.owners.get(node.name) is not self.root or node.name not in self.forward:
                continue
            if node.name in self.acting or node.name in self.fields.values():
                continue
            others = [user.name for user in self.users.get(node.name, [])]
            others += [name for name in node.inputs if name not in self.constant]
            around = [self.owners[name] for name in others if name in self.owners]
            net: Net | None = around[0] if len(around) == len(others) else None
            while net is not None and not (net.kind == CLASS and all(one.is_within(net) for one in around)):
                net = net.parent
            if net is not None and net is not self.root:
                self.root.nodes.remove(node)
                net.nodes.append(node)
                self.owners[node.name] = net

    def _make_activation(self, nodes: Sequence[Node]) -> str:
        """Return the expression of the activation that nodes are; nothing if torch.nn does not have it."""
        operators, node = " ".join(node.op for node in nodes), nodes[0]
        numbers = [self.literals[name] for one in nodes for name in one.inputs if name in self.literals]
        row = OPERATORS[node.op]
        if operators == "Reshape":
            return "nn.Flatten()" if len(node.shape) == 1 else ""
        if operators in ("Softmax", "LogSoftmax"):
            return f"nn.{row.activation}({node.attributes['axis']})"
        if operators == "Shrink":
            lambd, bias = node.attributes["lambd"], node.attributes["bias"]
            kind = "nn.Softshrink" if bias == lambd else "nn.Hardshrink"
            return f"{kind}({lambd!r})" if bias in (0, lambd) and isfinite(lambd) else ""
        if operators == "Max Min" and len(numbers) == 2 and numbers[0] < numbers[1] and all(map(isfinite, numbers)):
            return "nn.ReLU6()" if numbers == [0, 6] else f"nn.Hardtanh({numbers[0]!r}, {numbers[1]!r})"
        if operators == "Mul Softplus Div Greater Where" and all(map(isfinite, numbers)):
            return f"nn.Softplus(beta={numbers[0]!r}, threshold={numbers[2]!r})"
        if len(nodes) == 1 and row.activation and node.op != "PRelu":
            given = []
            for name, expected in row.arguments.items():
                value = node.attributes[name]
                if isinstance(expected, tuple):
                    given += [f"{expected[0]}={value!r}"] * (value != expected[1])
                elif value != expected:
                    return ""
            return f"nn.{row.activation}({', '.join(given)})" if isfinite(sum(node.attributes.values())) else ""
        made = COMPOSED.get(operators, "")
        return f"nn.{made}" + "()" * (")" not in made) if made else ""

    def list_nodes(self, net: Net) -> list[Node]:
        """Return the nodes of a module and those within it that ``forward`` computes, in order."""
        nodes = [node for one in net.walk() for node in one.nodes if node.name in self.forward]
        return sorted(nodes, key=lambda node: self.order[node.name])

    def find_ends(self, net: Net, nodes: Sequence[Node]) -> tuple[list[str], list[str]]:
        """Return the values from outside that nodes of a module read, and those of theirs that are used outside."""
        own = {node.name for node in nodes}
        needed = {*self.fields.values(), *(state.output for state in self.graph.states)}
        inputs: dict[str, None] = {}
        outputs = []
        for node in nodes:
            read = node.inputs[:1] if self.owners[node.name].is_layer else node.inputs
            inputs.update((outer, None) for name in read for outer in self._find_outer(name, net, own))
            if node.name in needed or any(
                user.name in self.forward and user.name not in own for user in self.users.get(node.name, [])
            ):
                outputs.append(node.name)
        return list(inputs), outputs

    def _find_outer(self, name: str, net: Net, own: set[str]) -> list[str]:
        """Return the values from outside that an operand depends on: weights of other modules, and results."""
        if name in self.places:
            return [] if self.places[name][0].is_within(net) else [name]
        if name in own or name in self.graph.weights:
            return []
        if name in self.constant:
            return [outer for operand in self.nodes[name].inputs for outer in self._find_outer(operand, net, own)]
        return [name]

    def _find_chains(self) -> None:
        """Make numbered modules an ``nn.Sequential`` if each reads the one before, otherwise an ``nn.ModuleList``."""
        for net in reversed(list(self.root.walk())):
            numbers = sorted(int(name) for name in net.children if re.fullmatch("0|[1-9][0-9]{0,5}", name))
            is_plain = len(numbers) == len(net.children) > 0 and not net.parameters and net.parent
            if not is_plain or numbers[-1] > 4 * len(numbers) + 8:
                continue
            children, nodes = net.children, self.list_nodes(net)
            net.children = {}
            for number in range(numbers[-1] + 1):
                child = net.children[str(number)] = children.get(str(number)) or Net(str(number), net)
                if str(number) not in children:
                    child.kind, child.constructor = LEAF, "nn.Identity()"
            parts = [(child, self.list_nodes(child)) for child in children.values()]
            parts.sort(key=lambda part: int(part[0].name))
            last = self._make_activation(net.nodes) if net.nodes else ""
            parts += [(net, net.nodes)] * bool(last)
            ends = [self.find_ends(*part) for part in parts]
            is_whole = not net.nodes or last
            is_chain = all(len(inputs) == len(outputs) == 1 for inputs, outputs in ends)
            is_chain = is_chain and [inputs for inputs, _ in ends[1:]] == [outputs for _, outputs in ends[:-1]]
            net.kind = CHAIN if is_whole and is_chain and self.find_ends(net, nodes)[1] == ends[-1][1] else LIST
            if net.kind == CHAIN and last:
                self._add_leaf((*net.path(), str(len(net.children))), net.nodes, last, {})
                net.nodes = []

    def _name_attributes(self) -> None:
        """Give parameters and modules the names of attributes."""
        for net in self.root.walk():
            if net.kind in (CHAIN, LIST):
                continue
            taken: set[str] = set()
            for text in net.parameters:
                is_own = net is self.root and text in self._bounds
                net.attributes[text] = text if is_own else make_identifier(text, "tensor", taken)
                taken.add(net.attributes[text])
            for child in net.children.values():
                child.attribute = make_identifier(child.name, "module", taken)
                taken.add(child.attribute)
        for net in self.root.walk():
            own_values = {net.attributes[text]: value for text, value in net.parameters.items()}
            for name, value in {**net.weights, **own_values}.items():
                self.stored[".".join([*net.path(), name])] = value

    def is_trained(self, name: str) -> bool:
        """Return whether a weight is a parameter."""
        weight = self.graph.weights[name]
        is_tensor = isinstance(weight.source, TensorInfo) and weight.dtype.startswith("float")
        return is_tensor and self._split(name)[-1] not in STATISTICS

    def read_state(self, weights: Mapping[str, Array] | Any) -> dict[str, Array]:
        """Return the state dict."""
        folded = [node for node in self.graph.nodes if node.name in self._folded]
        own = {node.name for node in folded}
        known: dict[str, Array] = {name: weights[name] for node in folded for name in node.inputs if name not in own}
        fold_nodes(folded, known)
        made = {}
        for key, value in self.stored.items():
            array = known[value] if value in known else weights[value]
            array = array.T if value in self._turned else array
            made[key] = np.ascontiguousarray(array).reshape(array.shape)
        return made
