"""``Body``: the nodes of a module as statements, one for each value that is used more than once."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from sbformat.immutable import Record
from sbformat.known.changes import ACTOR_EXTRACTOR, CRITIC_EXTRACTOR
from sbformat.policies.graph import NORMALIZATION
from sbformat.policies.pytorch.expressions import (
    GLOBALS,
    LONGEST,
    WIDTH,
    Operand,
    break_line,
    fill,
    number_name,
    render_shape,
    write_literal,
    write_node,
)
from sbformat.policies.pytorch.modules import CHAIN, CLASS, FLAT, LEAF, LIST, Net, Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.policies.graph import Node

EPISODE_START: Final = "episode_start"
"""The ``module`` of nodes that say whether a state is kept."""
_INLINE: Final = 52
"""Characters of an expression that becomes a part of another one."""
_LONG: Final = 78
"""Characters of an expression whose operands are assigned first."""
_HINTS: Final = {
    "policy_net": "latent_pi", "value_net": "latent_vf", "latent_pi": "latent_pi", "features_extractor": "features",
    ACTOR_EXTRACTOR: "pi_features", CRITIC_EXTRACTOR: "vf_features", "lstm_actor": "latent_pi",
    "lstm_critic": "latent_vf", "critic": "q_values", "shared_net": "latent", "action_value": "action_value",
    "state_value": "state_value", "values_fn": "value", "vf": "value",
}  # fmt: skip
"""Variables for the results of modules."""
_VARIABLE: Final = re.compile(r'"[^"]*"|\b_\w+')
"""A string, or the mark of a variable: an underscore and letters or digits, which no name of a file begins with."""


class Statement(Record):
    """An assignment, or the end of a function."""

    targets: tuple[str, ...]
    """Marks of variables, which :meth:`Body.write` names."""
    expression: str
    comment: str = ""
    pattern: str = ""
    """How the targets are written, if not as a tuple."""


class Body:
    """The statements of a function of a module.

    :param results: the values that it returns
    :param values: expressions of values that exist, by name
    :param indent: of the lines
    :param size: a number of features that is called ``size`` in comments
    """

    def __init__(
        self, tree: Tree, net: Net, results: Sequence[str], values: Mapping[str, str] | None = None,
        indent: int = 8, size: int | None = None,
    ) -> None:  # fmt: skip
        self.tree, self.net = tree, net
        self.values = dict(values or {})
        self.statements: list[Statement] = []
        self.hints: dict[str, str] = {}
        """What each variable is called, if the name is free."""
        self._results, self._indent, self._size, self._room = results, indent, size, _LONG - indent
        self._unassigned: set[str] = set()  # values whose expressions are not in a statement yet
        self._count: Counter[str] = Counter()

    def add(self, nodes: Sequence[Node]) -> None:
        """Add the statements that compute nodes, or call the modules that do."""
        items = order_items(self.tree, self.net, nodes)
        self._count = Counter(name for item in items for name in item.inputs)
        self._count.update(self._results)
        for item in items:
            if item.net is None:
                self._add_node(item.nodes[0])
            elif item.net.states:
                self._call_lstm(item.net, item)
            else:
                self._call(item.net, item)

    def assign(self, hints: Sequence[str], expression: str, comment: str = "", pattern: str = "") -> tuple[str, ...]:
        """Add an assignment, and return its variables.

        :param hints: what they are called, if the names are free
        """
        targets = tuple(f"_{number}" for number in range(len(self.hints), len(self.hints) + len(hints)))
        self.hints.update(zip(targets, hints))
        self.statements.append(Statement(targets, expression, comment, pattern))
        return targets

    def finish(self, name: str, expression: str, comment: str = "") -> None:
        """End the function with the result: assigned to a name, or returned if there is none."""
        self.hints["_result"] = name
        self.statements.append(Statement(("_result",) * bool(name), expression, comment))

    def operand(self, name: str) -> Operand:
        """Return a value as an expression in this module."""
        tree = self.tree
        shape, is_batch = tree.types[name][1], name not in tree.constant
        if name in self.values:
            return Operand(self.values[name], shape, is_batch)
        if name in tree.literals:
            return Operand(write_literal(tree.literals[name]), (), False)
        if name in tree.places:
            net, text = tree.places[name]
            return Operand(f"{net.express(self.net)}.{net.attributes[text]}", shape, False)
        made, is_root = self._express(tree.nodes[name]), tree.nodes[name].op == "Sqrt"
        if tree.reads[name] > 1 or self._measure(made) > _INLINE or is_root:
            is_std = is_root or name == tree.graph.sampling.parameters.get("std")
            made = self._assign(name, made, hint="std" * is_std)
        return Operand(made, shape, False)

    def describe(self, value: str) -> str:
        """Return the shape of a value for a comment."""
        shape = self.tree.types[value][1]
        return "(batch, size)" if shape == (self._size,) else render_shape(shape)

    def _measure(self, expression: str) -> int:
        """Return about how long an expression will be."""
        return len(rename(expression, self.hints))

    def _express(self, node: Node) -> str:
        """Return what a node computes from its operands."""
        operands = [self.operand(name) for name in node.inputs]
        if node.inputs == (self.tree.latent,) * 2:
            operands = [operand._replace(x=fill("x.detach()", x=operand.x)) for operand in operands]
        return write_node(node, operands)

    def _assign(self, value: str, expression: str, *, hint: str = "") -> str:
        """Assign a value, and return the variable."""
        comment = self.describe(value) if value not in self.tree.constant else ""
        (self.values[value],) = self.assign([hint or find_hint(self.tree, value)], expression, comment)
        return self.values[value]

    def _keep(self, value: str, expression: str, *, is_short: bool, hint: str = "") -> None:
        """Keep a value as an expression that another one takes up, or assign it."""
        is_field = self.net is self.tree.root and value in self.tree.fields.values()
        is_only = [value] == list(self._results) and self._count[value] == 1
        if (is_only or (is_short and self._count[value] <= 1)) and not is_field:
            self.values[value] = expression
            self._unassigned.add(value)
        else:
            self._assign(value, expression, hint=hint)

    def _add_node(self, node: Node) -> None:
        """Keep or assign what a node computes."""
        if node.op == "Concat" and self._repeat(node):
            return
        made = self._express(node)
        if self._measure(made) > (_INLINE if node.op == "Max" else self._room):  # a Min will make it a clamp
            for name in node.inputs:
                if name in self._unassigned and not _VARIABLE.fullmatch(self.values[name]):
                    self._assign(name, self.values[name])
            made = self._express(node)
        users = self.tree.users.get(node.name, [])
        is_end = node.module.startswith(NORMALIZATION) and any(user.module != node.module for user in users)
        self._keep(node.name, made, is_short=self._measure(made) <= _INLINE and not is_end)

    def _repeat(self, node: Node) -> bool:
        """Write the concatenation of what is computed from each part of a value as a loop; return whether it is one."""
        ranges: list[tuple[str, int, int]] = []
        made = {self._express_part(name, ranges) for name in node.inputs}
        found = sorted(set(ranges), key=ranges.index)
        bases, starts, ends = ([*column] for column in zip(*found)) if found else ([], [], [])
        is_loop = (
            len(made) == len(set(bases)) == 1 and "" not in made and len(found) == len(node.inputs) > 1
            and [*starts, self.tree.types[bases[0]][1][-1]] == [0, *ends]
        )  # fmt: skip
        if is_loop:
            sizes = [end - start for start, end in zip(starts, ends)]
            size = sizes[0] if len(set(sizes)) == 1 else sizes
            (parts,) = self.assign(["parts"], fill("x.split(s, -1)", x=self.operand(bases[0]).x, s=size))
            (results,) = self.assign(["results"], f"[{made.pop()} for part in {parts}]")
            whole = fill("torch.cat(x, axis)", x=results, axis=node.attributes["axis"])
            self._keep(node.name, whole, is_short=True)
        return is_loop

    def _express_part(self, name: str, ranges: list[tuple[str, int, int]]) -> str:
        """Return what is computed from a part of a value, if it is from one alone; and add the range of the part."""
        tree, node = self.tree, self.tree.nodes.get(name)
        if name in tree.literals:
            return write_literal(tree.literals[name])
        if node is None or name in tree.constant or tree.owners[name] is not self.net or node.op == "Concat":
            return ""
        if node.op == "Slice" and node.attributes["axis"] == -1:
            ranges.append((node.inputs[0], node.attributes["start"], node.attributes["end"]))
            return "part"
        operands = [
            Operand(self._express_part(each, ranges), () if each in tree.literals else tree.types[each][1],
                    each not in tree.literals)
            for each in node.inputs
        ]  # fmt: skip
        made = write_node(node, operands) if all(operand.x for operand in operands) else ""
        return made if self._measure(made) <= self._room else ""

    def _call(self, net: Net, item: Item) -> None:
        """Add the call of a module."""
        callee = net.express(self.net)
        made = fill(f"{callee}(*operands)", operands=[self.operand(name).x for name in item.inputs])
        if len(item.outputs) == 1:
            (value,) = item.outputs
            users = [user for user in self.tree.users.get(value, []) if user.name in self.tree.forward]
            owner = self.tree.owners.get(users[0].name) if len(users) == 1 else None
            is_used_here = owner is not None and owner.kind != LEAF and owner.is_within(self.net)
            is_short = is_used_here and net.kind in (LEAF, CHAIN) and self._measure(made) <= _INLINE
            hint = _HINTS.get(net.name, "") if value not in self.tree.fields.values() else ""
            self._keep(value, made, is_short=is_short, hint=hint)
        else:
            shapes = [self.describe(value) for value in item.outputs]
            comment = f"{shapes[0]} each" if len(set(shapes)) == 1 else ", ".join(shapes)
            targets = self.assign([self._name_result(net, value) for value in item.outputs], made, comment)
            self.values.update(zip(item.outputs, targets))

    def _name_result(self, net: Net, value: str) -> str:
        """Return what one of several results of a module is called, otherwise by the module within that makes it."""
        found, owner = find_hint(self.tree, value), self.tree.owners[value]
        while found == "x" and owner is not net and owner.parent is not None:
            found, owner = _HINTS.get(owner.name, "x"), owner.parent
        return found

    def _call_lstm(self, net: Net, item: Item) -> None:
        """Add the call of an LSTM, on one step and states that are kept or zero."""
        callee = net.express(self.net)
        value, keep = (self.operand(name).x for name in item.inputs[:2])
        states = [f"state:{name}" for name in net.states]
        parts = {"x": value, "k": keep, "h": self.values[states[0]], "c": self.values[states[1]]}
        made = fill(f"{callee}(x.unsqueeze(0), (k * h, k * c))", **parts)
        self.values.update(zip(states, self.assign(net.states, made, pattern="_, ({}, {})")))
        self._keep(net.nodes[-1].name, f"{self.values[states[0]]}[-1]", is_short=False)

    # -- text -----------------------------------------------------------------------------------------

    def write(self, taken: Iterable[str], parameters: Mapping[str, str] = {}) -> str:
        """Return the lines: variables get their names here, so that a name is used again when its value is not.

        :param taken: names that no variable may have, beside those of the module
        :param parameters: names of variables that are parameters of the function
        """
        self._drop_unused()
        last: dict[str, int] = {}  # the statement that reads a variable last
        for at, statement in enumerate(self.statements):
            last.update(dict.fromkeys(list_variables(statement.expression), at))
            for target in statement.targets:
                last.setdefault(target, at)
        ends = {name: last.get(variable, -1) for variable, name in parameters.items()}  # where each name is free
        ends.update(dict.fromkeys({"self", *taken, *GLOBALS}, len(self.statements)))
        names, lines = dict(parameters), []
        for at, statement in enumerate(self.statements):
            text = rename(statement.expression, names)
            found: list[str] = []
            for target in statement.targets:
                taken = [name for name, end in ends.items() if end > at]
                names[target] = number_name(self.hints[target], [*taken, *found])
                ends[names[target]] = last[target]
                found.append(names[target])
            left = (statement.pattern or ", ".join(["{}"] * len(found))).format(*found)
            indent = " " * self._indent
            if len(found) > 1 and len(f"{indent}{left} = (") > WIDTH:
                lines += [f"{indent}(", *(f"{indent}    {name}," for name in found)]
                left = ")"
            lines += break_line(
                indent + (f"{left} = " if found else "return "),
                text,
                comment=f"  # {statement.comment}" * bool(statement.comment),
            )
        return "\n".join(lines)

    def _drop_unused(self) -> None:
        """Remove assignments that nothing reads: a loop reads the whole value instead of its parts."""
        read = {"_result"}
        kept = []
        for statement in reversed(self.statements):
            if not statement.targets or not read.isdisjoint(statement.targets):
                read.update(list_variables(statement.expression))
                kept.append(statement)
        self.statements[:] = reversed(kept)


def rename(expression: str, names: Mapping[str, str]) -> str:
    """Return an expression with names instead of marks of variables."""
    return _VARIABLE.sub(lambda found: names.get(found[0], found[0]), expression)


def list_variables(expression: str) -> list[str]:
    """Return the marks of the variables that an expression reads."""
    return [found for found in _VARIABLE.findall(expression) if found[0] == "_"]


def find_hint(tree: Tree, value: str) -> str:
    """Return what a variable of a value is called, by what the value is; ``x`` for most."""
    if value in tree.fields.values():
        return next(name for name, output in tree.fields.items() if output == value)
    if value in tree.places:
        net, text = tree.places[value]
        return net.attributes[text]
    node = tree.nodes.get(value)
    if node is None:
        item = next(item for item in tree.graph.inputs if item.name == value)
        words = re.findall(r"[A-Za-z0-9]+", item.key or "")
        return item.role if item.key is None else "_".join(["observation", *words])[:LONGEST].strip("_")
    second = tree.nodes.get(node.inputs[-1])
    if node.module == EPISODE_START:
        return "keep"
    if node.op == "Sub" and second is not None and second.op == "ReduceLogSumExp":
        return "log_probs"
    if value in tree.acting:
        is_choice = tree.graph.sampling.kind == "categorical" and node.dtype.startswith("float")
        return "masks" if node.dtype == "bool" else "logits" if is_choice else "action"
    if node.module.startswith(("observation", NORMALIZATION)):
        known = [name for name in node.inputs if name not in tree.constant]
        if known:
            return find_hint(tree, known[0])
    owner = tree.owners.get(value)
    while owner is not None and owner.kind == LEAF and owner.parent is not None and owner.parent.kind == CHAIN:
        owner = owner.parent
    return _HINTS.get(owner.name, "x") if owner is not None and owner.kind != CLASS else "x"


# -- the order of statements --------------------------------------------------------------------------


class Item(Record):
    """A node, or the call of a module."""

    net: Net | None
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def order_items(tree: Tree, net: Net, nodes: Sequence[Node]) -> list[Item]:
    """Return the nodes and modules that a module calls, in order; those that it enters twice become a part of it."""
    while True:
        groups: dict[Any, list[Node]] = {}
        for node in nodes:
            callee = _find_callee(tree.owners[node.name], net)
            groups.setdefault(node.name if callee is None or callee.is_layer else callee, []).append(node)
        makers = {node.name: key for key, group in groups.items() for node in group}
        reads = {
            key: {makers[name] for node in group for name in node.inputs if name in makers} - {key}
            for key, group in groups.items()
        }
        ordered = _sort(reads)
        if len(ordered) == len(groups):
            return [_make_item(tree, net, groups[key]) for key in ordered]
        for key in groups.keys() - set(ordered):
            if isinstance(key, Net):
                key.kind = FLAT


def _sort(reads: Mapping[Any, set[Any]]) -> list[Any]:
    """Return keys after those that they read, otherwise in their order; without those that read one another."""
    pending, done = dict(reads), dict[Any, Any]()
    while True:
        ready = next((key for key, others in pending.items() if others <= done.keys()), None)
        if ready is None:
            return list(done)
        done[ready] = pending.pop(ready)


def _make_item(tree: Tree, net: Net, nodes: Sequence[Node]) -> Item:
    """Return a node, or the nodes of one call."""
    callee, first = _find_callee(tree.owners[nodes[0].name], net), nodes[0]
    if callee is None:
        inputs = [name for name in first.inputs if name not in tree.constant]
        return Item(None, tuple(nodes), tuple(inputs), (first.name,))
    if callee.states:
        keep = first.inputs[0]  # of both states
        return Item(callee, tuple(nodes), (nodes[2].inputs[0], keep, keep), (nodes[-1].name,))
    inputs, outputs = tree.find_ends(callee, nodes)
    return Item(callee, tuple(nodes), tuple(inputs), (first.name,) if callee.is_layer else tuple(outputs))


def _find_callee(owner: Net, net: Net) -> Net | None:
    """Return the module that a function calls for a node; None if it computes the node itself."""
    found = None
    while owner is not net and owner.parent is not None:
        found = owner if owner.kind not in (FLAT, LIST) else found
        owner = owner.parent
    return found
