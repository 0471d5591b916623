"""``Program``: runs a graph with numpy.

Theory of operation
-------------------
*In*: a :class:`~sbformat.policies.graph.Graph`, the names of the values that are wanted, and :class:`Weights`.
*Out*: a function from arrays to arrays. There are three stages, each done once and kept:

1. **Prune** (:class:`Program`): the nodes that the wanted values need, back to the inputs, or to the values that the
   caller supplies instead (``given``): a drawn action, say.
2. **Fold** (:func:`fold_nodes`): nodes whose operands are weights alone are computed now. An input that has a default
   and is not given is such a weight; so there is one folded form for each set of optional inputs that is used.
3. **Bind** (:class:`~sbformat.policies.run.plan.Plan`): memory is allocated for a number of rows (observations), and
   each node becomes steps over that memory, by its kernel. To run is to copy the inputs in, do the steps, and copy the
   results out.

A large batch runs in blocks of rows whose values fit into the processor's cache, over one plan. A plan is used by one
thread at a time: it is taken from a list while it runs, and another is made when the list is empty.

Worked example: a layer of 8 units over 4 observations, for one row::

    graph    hidden  Gemm(observation, weight, bias)     action  ArgMax(hidden)
    memory   observation (1, 4)   hidden (1, 8)   action (1,)
    steps    weight.dot(observation[0], hidden[0])   numpy.add(hidden[0], bias, hidden[0])   hidden.argmax(-1, action)

Invariants: weights, inputs and the archive are never written; a result is the caller's own; one row of a batch gives
what it gives alone, but for rounding.
"""

from __future__ import annotations

import sys
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sbformat.errors import UnsupportedError, quote
from sbformat.policies.graph import Input
from sbformat.policies.run.plan import Plan, bind_node, shape_constant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sbformat.policies.graph import Graph, Node
    from sbformat.policies.run.steps import Array
    from sbformat.policies.run.weights import Weights

_BLOCK_BYTES: Final = 1 << 19
"""Values of a block of rows: a part of the cache that each core has (1 to 2 MiB today)."""
_FEW_ROWS: Final = 16
"""Rows of a block that does not fit into the cache, as of images."""
_LARGE_BLOCK_BYTES: Final = 1 << 25
"""Values of such a block."""
_MOST_ROWS: Final = 512
_BATCH_SIZES: Final = 8
"""Sizes of batches for which plans are kept."""


class Folded(NamedTuple):
    """The nodes that depend on the given inputs, and the values that do not."""

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    """Weights, defaults of inputs, and results of nodes that only depend on these; without a batch axis."""
    outputs: tuple[str, ...]
    functions: Mapping[str, Callable[..., Any]]


class Program:
    """A function from arrays to arrays that a graph describes; several threads may run it at the same time.

    :param graph: the graph
    :param outputs: names of nodes, inputs or weights
    :param weights: of the same graph
    :param functions: what computes ``Call`` nodes, by name: functions of arrays with a batch axis
    :param given: names of nodes whose values the caller supplies; what only they need is not computed
    :raises UnsupportedError: when a function is missing
    :raises SbformatError: when a weight cannot be read

    Example::

        weights = Weights(graph, budget)
        program = Program(graph, [graph.outputs["action"], graph.outputs["q_values"]], weights)
        action, q_values = program.run({"observation": observations})
    """

    def __init__(
        self,
        graph: Graph,
        outputs: Sequence[str],
        weights: Weights,
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        given: Iterable[str] = (),
    ) -> None:
        self._outputs, self._weights, self._functions = tuple(outputs), weights, dict(functions or {})
        supplied = frozenset(given)
        self._nodes, wanted = prune_nodes(graph, self._outputs, supplied)
        inputs = [item for item in graph.inputs if item.name in wanted]
        inputs += [Input(node.name, node.dtype, node.shape) for node in graph.nodes if node.name in supplied & wanted]
        self._inputs = tuple(inputs)
        self._optional = tuple(item.name for item in inputs if item.default is not None)
        for node in self._nodes:
            if node.op == "Call" and node.attributes["function"] not in self._functions:
                message = f"expected a function for {quote(node.attributes['function'])}, got none"
                raise UnsupportedError(message)
        self._forms: dict[tuple[str, ...], _Form] = {}
        self._form(())

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What :meth:`run` takes; those with a default may be left out."""
        return self._inputs

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Compute the outputs.

        :param inputs: arrays with a batch axis, by name; other names are ignored. A dtype that differs is converted
        :return: new arrays with a batch axis, in the order of ``outputs``; a value that depends on weights alone
            comes without a batch axis
        :raises ValueError: when an input is missing or has another shape
        """
        given = tuple(name for name in self._optional if name in inputs) if self._optional else ()
        form = self._forms.get(given) or self._form(given)
        try:
            plans = form.plans[len(inputs[form.first])]
            plan = plans.pop()
        except (KeyError, IndexError):
            return form.run(inputs)
        results = plan.run(inputs)
        plans.append(plan)  # not when it failed: a function of the caller's may have kept it running
        return results

    def _form(self, given: tuple[str, ...]) -> _Form:
        form = self._forms[given] = _Form(self._fold(frozenset(given)))
        return form

    def _fold(self, given: frozenset[str]) -> Folded:
        known: dict[str, Array] = {}
        inputs = []
        for item in self._inputs:
            if item.default is None or item.name in given:
                inputs.append(item)
            else:
                known[item.name] = _read_only(np.full(item.shape, item.default, item.dtype))
        operands = {name for node in self._nodes for name in node.inputs} | set(self._outputs)
        known.update({name: self._weights[name] for name in operands if name in self._weights})
        nodes = fold_nodes(self._nodes, known)
        return Folded(tuple(inputs), nodes, known, self._outputs, self._functions)


def prune_nodes(
    graph: Graph, outputs: Sequence[str], given: frozenset[str] = frozenset()
) -> tuple[tuple[Node, ...], set[str]]:
    """Return the nodes that outputs need, and the names of all values among them.

    :param given: names of nodes whose values are supplied
    """
    wanted = set(outputs)
    kept = []
    for node in reversed(graph.nodes):
        if node.name in wanted and node.name not in given:
            kept.append(node)
            wanted.update(node.inputs)
    return tuple(reversed(kept)), wanted


def fold_nodes(nodes: Sequence[Node], known: dict[str, Array]) -> tuple[Node, ...]:
    """Compute the nodes whose operands are known, and return the others.

    :param known: arrays without a batch axis by name; the results are added
    """
    kept = []
    for node in nodes:
        if node.op == "Call" or not all(name in known for name in node.inputs):
            kept.append(node)
            continue
        out = np.empty((1, *node.shape), node.dtype)
        with np.errstate(all="ignore"):
            operands = [shape_constant(node, at, known[name], 1) for at, name in enumerate(node.inputs)]
            for step in bind_node(node, out, operands, {}):
                step()
        known[node.name] = _read_only(out[0, ...])
    return tuple(kept)


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _count_rows(size: int) -> int:
    """Return the rows of a block, by the bytes of one: few enough for the cache, enough to use each weight often."""
    size = max(1, size)
    rows = max(_BLOCK_BYTES // size, min(_FEW_ROWS, _LARGE_BLOCK_BYTES // size))
    return min(max(1, rows), _MOST_ROWS)


class _Form:
    """A folded form of a program, with its plans by number of rows."""

    def __init__(self, folded: Folded) -> None:
        self._folded = folded
        self.first = folded.inputs[0].name if folded.inputs else ""
        """The input that determines the size of the batch."""
        self.plans: dict[int, list[Plan]] = {}
        """Plans that are not running."""
        values: list[Input | Node] = [*folded.inputs, *folded.nodes]
        size = sum(prod(value.shape) * np.dtype(value.dtype).itemsize for value in values)
        has_calls = any(node.op == "Call" for node in folded.nodes)
        self._rows = sys.maxsize if has_calls else _count_rows(size)
        """Of a block; a function of the caller's gets the whole batch."""

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Compute the outputs, with a new plan or in blocks."""
        folded = self._folded
        if all(name in folded.constants for name in folded.outputs):
            return [folded.constants[name].copy() for name in folded.outputs]
        if self.first not in inputs:
            message = f"expected the inputs {', '.join(item.name for item in folded.inputs)}, got {', '.join(inputs)}"
            raise ValueError(message)
        count = len(inputs[self.first])
        if count <= self._rows:
            return self._run_block(inputs, count)
        return self._run_blocks(inputs, count)

    def _run_block(self, inputs: Mapping[str, Array], count: int) -> list[Array]:
        if count not in self.plans and len(self.plans) >= _BATCH_SIZES:
            self.plans.clear()
        plans = self.plans.setdefault(count, [])
        try:
            plan = plans.pop()
        except IndexError:
            plan = Plan(self._folded, count)
        results = plan.run(inputs)
        plans.append(plan)
        return results

    def _run_blocks(self, inputs: Mapping[str, Array], count: int) -> list[Array]:
        names = [item.name for item in self._folded.inputs if item.name in inputs]
        made: list[Array] = []
        for start in range(0, count, self._rows):
            end = min(start + self._rows, count)
            results = self._run_block({name: inputs[name][start:end] for name in names}, end - start)
            if not made:
                made = [
                    result if name in self._folded.constants else np.empty((count, *result.shape[1:]), result.dtype)
                    for name, result in zip(self._folded.outputs, results)
                ]
            for name, whole, result in zip(self._folded.outputs, made, results):
                if name not in self._folded.constants:
                    whole[start:end] = result
        return made
