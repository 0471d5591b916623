"""``Body``: the nodes of a module as statements, one for each value that is used more than once."""

from __future__ import annotations

import ast
import copy
import heapq
import itertools
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from sbformat.immutable import Record
from sbformat.policies.graph import NORMALIZATION
from sbformat.policies.pytorch.expressions import (
    LONGEST,
    Operand,
    break_line,
    fill,
    make_call,
    make_literal,
    parse,
    render_shape,
    unparse,
    write_node,
)
from sbformat.policies.pytorch.modules import CHAIN, CLASS, FLAT, LEAF, Net, Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.policies.graph import Node

_INLINE: Final = 52
"""Characters of an expression that becomes a part of another one."""
_LONG: Final = 78
"""Characters of an expression whose operands are assigned first."""


# -- statements ---------------------------------------------------------------------------------------

_HINTS: Final = {
    "policy_net": "latent_pi", "value_net": "latent_vf", "latent_pi": "latent_pi", "features_extractor": "features",
    "pi_features_extractor": "pi_features", "vf_features_extractor": "vf_features", "lstm_actor": "latent_pi",
    "lstm_critic": "latent_vf", "critic": "q_values",
}  # fmt: skip
"""Variables for the results of modules."""


class Statement(Record):
    """An assignment, or the end of a function."""

    targets: tuple[str, ...]
    """Identifiers that :meth:`Body.write` replaces."""
    expression: ast.expr
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
        self, tree: Tree, net: Net, results: Sequence[str], values: Mapping[str, ast.expr] | None = None,
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
            self._add(item)

    def name(self, value: str, hint: str = "") -> str:
        """Return a new variable."""
        made = f"%{len(self.hints)}"
        self.hints[made] = hint or find_hint(self.tree, value)
        return made

    def operand(self, name: str) -> Operand:
        """Return a value as an expression in this module."""
        tree = self.tree
        shape, is_batch = tree.types[name][1], name not in tree.constant
        if name in self.values:
            return Operand(self.values[name], shape, is_batch)
        if name in tree.literals:
            return Operand(make_literal(tree.literals[name]), (), False)
        if name in tree.places:
            net, text = tree.places[name]
            parts = ["self", *net.path(self.net), net.attributes[text]]
            return Operand(parse(".".join(parts)), shape, False)
        node = tree.nodes[name]
        made = write_node(node, [self.operand(each) for each in node.inputs])
        if tree.reads[name] > 1 or self._measure(made) > _INLINE:
            hint = "std" if name == tree.graph.sampling.parameters.get("std") else ""
            made = self.assign(name, made, hint=hint)
        return Operand(made, shape, False)

    def describe(self, value: str) -> str:
        """Return the shape of a value for a comment."""
        shape = self.tree.types[value][1]
        return "(batch, size)" if shape == (self._size,) else render_shape(shape)

    def _measure(self, expression: ast.expr) -> int:
        """Return about how long an expression will be."""
        return len(unparse(_Rename(self.hints).visit(copy.deepcopy(expression))))

    def assign(self, value: str, expression: ast.expr, *, hint: str = "") -> ast.expr:
        """Add an assignment, and return the variable."""
        target = self.name(value, hint)
        comment = self.describe(value) if value not in self.tree.constant else ""
        self.statements.append(Statement((target,), expression, comment))
        self.values[value] = ast.Name(target, ast.Load())
        return self.values[value]

    def _add(self, item: Item) -> None:
        if item.net is None:
            node = item.nodes[0]
            if node.op == "Concat" and self._repeat(node):
                return
            made = write_node(node, [self.operand(name) for name in node.inputs])
            if self._measure(made) > self._room:
                bounded = self.tree.nodes.get(node.inputs[0])  # ``clamp`` is two nodes, which stay together
                if (
                    node.op == "Min"
                    and bounded is not None
                    and bounded.op == "Max"
                    and bounded.name in self._unassigned
                ):
                    self._assign_all(bounded.inputs)
                    self.values[bounded.name] = write_node(bounded, [self.operand(name) for name in bounded.inputs])
                else:
                    self._assign_all(node.inputs)
                made = write_node(node, [self.operand(name) for name in node.inputs])
            self._keep(node.name, made, is_short=self._measure(made) <= _INLINE)
            return
        callee = ".".join(["self", *item.net.path(self.net)])
        if item.net.states:
            self._call_lstm(item.net, item, callee)
            return
        made = make_call(callee, [self.operand(name).x for name in item.inputs])
        if len(item.outputs) == 1:
            (value,) = item.outputs
            users = [user for user in self.tree.users.get(value, []) if user.name in self.tree.forward]
            owners = [self.tree.owners.get(user.name) for user in users]
            is_used_here = all(
                owner is not None and owner.kind != LEAF and owner.is_within(self.net) for owner in owners
            )
            is_plain = item.net.kind in (LEAF, CHAIN)
            is_short = is_used_here and len(users) == 1 and is_plain and self._measure(made) <= _INLINE
            hint = _HINTS.get(item.net.name, "") if value not in self.tree.fields.values() else ""
            self._keep(value, made, is_short=is_short or (not users and value in self._results), hint=hint)
            return
        targets = tuple(self.name(value) for value in item.outputs)
        shapes = [self.describe(value) for value in item.outputs]
        comment = f"{shapes[0]} each" if len(set(shapes)) == 1 else ", ".join(shapes)
        self.statements.append(Statement(targets, made, comment))
        self.values.update((value, ast.Name(target, ast.Load())) for value, target in zip(item.outputs, targets))

    def _assign_all(self, names: Iterable[str]) -> None:
        """Assign the values that are not in a statement yet."""
        for name in names:
            if name in self._unassigned and not isinstance(self.values[name], ast.Name):
                self.assign(name, self.values[name])

    def _repeat(self, node: Node) -> bool:
        """Write the concatenation of what is computed from each part of a value as a loop; return whether it is one."""
        ranges: list[tuple[str, int, int]] = []
        made = [self._express_part(name, ranges) for name in node.inputs]
        found = list(dict.fromkeys(ranges))
        sizes = [end - start for _, start, end in found]
        starts = list(itertools.accumulate(sizes, initial=0))
        is_loop = (
            len(made) == len(found) > 1 and all(made) and len({unparse(part) for part in made if part}) == 1
            and len({base for base, _, _ in found}) == 1 and [start for _, start, _ in found] == starts[:-1]
            and starts[-1] == self.tree.types[found[0][0]][1][-1]
        )  # fmt: skip
        if not is_loop or made[0] is None:
            return False
        parts, results = self.name("", "parts"), self.name("", "results")
        size: Any = sizes[0] if len(set(sizes)) == 1 else sizes
        self.statements.append(Statement((parts,), fill("x.split(s, -1)", x=self.operand(found[0][0]).x, s=size)))
        loop: Any = fill("[part for part in parts]", parts=ast.Name(parts, ast.Load()))
        loop.elt = made[0]
        self.statements.append(Statement((results,), loop))
        whole = fill("torch.cat(x, axis)", x=ast.Name(results, ast.Load()), axis=node.attributes["axis"])
        self._keep(node.name, whole, is_short=True)
        return True

    def _express_part(self, name: str, ranges: list[tuple[str, int, int]]) -> ast.expr | None:
        """Return what is computed from a part of a value, if it is from one alone; and add the range of the part."""
        tree, node = self.tree, self.tree.nodes.get(name)
        if name in tree.literals:
            return make_literal(tree.literals[name])
        if node is None or name in tree.constant or tree.owners[name] is not self.net or node.op == "Concat":
            return None
        if node.op == "Slice" and node.attributes["axis"] == -1:
            ranges.append((node.inputs[0], node.attributes["start"], node.attributes["end"]))
            return ast.Name("part", ast.Load())
        parts = [self._express_part(each, ranges) for each in node.inputs]
        operands = [Operand(part, tree.types[each][1] if each not in tree.literals else (), each not in tree.literals)
                    for part, each in zip(parts, node.inputs) if part is not None]  # fmt: skip
        made = write_node(node, operands) if len(operands) == len(parts) else None
        return made if made is not None and self._measure(made) <= self._room else None

    def _keep(self, value: str, expression: ast.expr, *, is_short: bool, hint: str = "") -> None:
        """Keep a value as an expression that another one takes up, or assign it."""
        is_field = self.net is self.tree.root and value in self.tree.fields.values()
        is_only = [value] == list(self._results)
        is_only = is_only and self._count[value] == 1 and self._measure(expression) <= self._room
        if (is_only or (is_short and self._count[value] <= 1)) and not is_field:
            self.values[value] = expression
            self._unassigned.add(value)
        else:
            self.assign(value, expression, hint=hint)

    def _call_lstm(self, net: Net, item: Item, callee: str) -> None:
        value, keep = item.inputs[:2]
        names = [f"state:{name}" for name in net.states]
        sequence = fill("x.unsqueeze(0)", x=self.operand(value).x)
        states = [fill("k * s", k=self.operand(keep).x, s=self.values[name]) for name in names]
        made = make_call(callee, [sequence, ast.Tuple(states, ast.Load())])
        targets = tuple(self.name("", name) for name in net.states)
        self.statements.append(Statement(targets, made, "", "_, ({}, {})"))
        for name, target in zip(names, targets):
            self.values[name] = ast.Name(target, ast.Load())
        last = net.nodes[-1].name
        self._keep(last, fill("h[-1]", h=self.values[names[0]]), is_short=False)

    # -- text -----------------------------------------------------------------------------------------

    def write(self, taken: Iterable[str], parameters: Mapping[str, str] = {}) -> list[str]:
        """Return the lines: variables get their names here, so that a name is used again when its value is not.

        :param taken: names that no variable may have
        :param parameters: names of variables that are parameters of the function
        """
        self._drop_unused()
        last: dict[str, int] = {}
        for at, statement in enumerate(self.statements):
            for node in ast.walk(statement.expression):
                if isinstance(node, ast.Name):
                    last[node.id] = at
            for target in statement.targets:
                last.setdefault(target, at)
        holders = dict.fromkeys(taken, len(self.statements))
        holders.update({name: last.get(variable, -1) for variable, name in parameters.items()})
        names, lines = dict(parameters), []
        for at, statement in enumerate(self.statements):
            renamed: Any = _Rename(names).visit(copy.deepcopy(statement.expression))
            found = []
            for target in statement.targets:
                hint = self.hints[target]
                options = (hint if number == 1 else f"{hint}_{number}" for number in itertools.count(1))
                name = next(name for name in options if holders.get(name, -1) <= at and name not in found)
                found.append(name)
                holders[name], names[target] = last[target], name
                if last[target] == at:
                    holders[name] = at
            if statement.targets:
                left = (statement.pattern or ", ".join(["{}"] * len(found))).format(*found) + " = "
            else:
                left = "return "
            lines += break_line(" " * self._indent + left, renamed, statement.comment)
        return lines

    def _drop_unused(self) -> None:
        """Remove assignments that nothing reads: a loop reads the whole value instead of its parts."""
        read: set[str] = set()
        kept = []
        for statement in reversed(self.statements):
            if not statement.targets or "%result" in statement.targets or not read.isdisjoint(statement.targets):
                read.update(node.id for node in ast.walk(statement.expression) if isinstance(node, ast.Name))
                kept.append(statement)
        self.statements[:] = reversed(kept)


class _Rename(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node


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
    hint = ""
    if node.module == EPISODE_START:
        hint = "keep"
    elif node.op == "Sub" and second is not None and second.op == "ReduceLogSumExp":
        hint = "log_probs"
    elif value in tree.acting:
        hint = "action"
    elif node.module.startswith(("observation", NORMALIZATION)):
        known = [name for name in node.inputs if name not in tree.constant]
        hint = find_hint(tree, known[0]) if known else ""
    owner = tree.owners.get(value)
    while owner is not None and owner.kind == LEAF and owner.parent is not None and owner.parent.kind == CHAIN:
        owner = owner.parent
    return hint or (_HINTS.get(owner.name, "") if owner is not None and owner.kind != CLASS else "") or "x"


EPISODE_START: Final = "episode_start"
"""The ``module`` of nodes that say whether a state is kept."""


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
        items = {key: _make_item(tree, net, group) for key, group in groups.items()}
        ordered = _sort_items(items, makers)
        if len(ordered) == len(items):
            return list(ordered.values())
        for key in items.keys() - ordered.keys():
            if isinstance(key, Net):
                key.kind = FLAT


def _sort_items(items: Mapping[Any, Item], makers: Mapping[str, Any]) -> dict[Any, Item]:
    """Return items after those that they read, otherwise in their order; without those that read one another."""
    keys = list(items)
    places = {key: place for place, key in enumerate(keys)}
    reads = [{places[makers[name]] for name in _list_read(items[key]) if name in makers} for key in keys]
    readers: list[list[int]] = [[] for _ in keys]
    for place, others in enumerate(reads):
        for other in others:
            readers[other].append(place)
    missing = [len(others) for others in reads]
    ready = [place for place, count in enumerate(missing) if not count]  # sorted, and so a heap
    ordered: dict[Any, Item] = {}
    while ready:
        place = heapq.heappop(ready)
        ordered[keys[place]] = items[keys[place]]
        for reader in readers[place]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return ordered


def _make_item(tree: Tree, net: Net, nodes: Sequence[Node]) -> Item:
    callee, first = _find_callee(tree.owners[nodes[0].name], net), nodes[0]
    if callee is None:
        return Item(
            None, tuple(nodes), tuple(name for name in first.inputs if name not in tree.constant), (first.name,)
        )
    if callee.states:
        keep = first.inputs[0]  # of both states
        return Item(callee, tuple(nodes), (nodes[2].inputs[0], keep, keep), (nodes[-1].name,))
    inputs, outputs = tree.find_ends(callee, nodes)
    return Item(callee, tuple(nodes), tuple(inputs), (first.name,) if callee.is_layer else tuple(outputs))


def _list_read(item: Item) -> Iterable[str]:
    own = {node.name for node in item.nodes}
    return [name for node in item.nodes for name in node.inputs if name not in own]


def _find_callee(owner: Net, net: Net) -> Net | None:
    """Return the module that a function calls for a node; None if it computes the node itself."""
    path: list[Net] = []
    at: Net | None = owner
    while at is not None and at is not net:
        path.append(at)
        at = at.parent
    return next((one for one in reversed(path) if one.kind != FLAT), None)
