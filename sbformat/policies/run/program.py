"""``Program``: runs a graph with numpy.

*In*: a :class:`~sbformat.policies.graph.Graph`, the names of the values that are wanted, and :class:`Weights`.
*Out*: a function from arrays to arrays. There are three stages, each done once and kept:

1. **Prune** (:class:`Program`): the nodes that the wanted values need, back to the inputs, or to the values that the
   caller supplies instead (``given``): a drawn action, say.
2. **Fold** (:func:`fold_nodes`): nodes whose operands are weights alone are computed now. An input that has a default
   and is not given is such a weight; so there is one folded form for each set of optional inputs that is used.
3. **Bind** (:class:`Plan`): memory is allocated for a number of rows (observations), and
   each node becomes steps over that memory, by its kernel. To run is to copy the inputs in, do the steps, and copy the
   results out.

A large batch runs in blocks of rows whose values fit into the processor's cache. A plan is used by one thread at a
time: it is taken from a list while it runs, and another is made when the list is empty. A layer of 8 units over 4
observations, for one row::

    graph    hidden  Gemm(observation, weight, bias)     action  ArgMax(hidden)
    memory   observation (1, 4)   hidden (1, 8)   action (1,)
    steps    weight.dot(observation[0], hidden[0])   numpy.add(hidden[0], bias, hidden[0])   hidden.argmax(-1, action)

Invariants: weights, inputs and the archive are never written; a result is the caller's own; one row of a batch gives
what it gives alone, but for rounding.
"""

from __future__ import annotations

import sys
from contextvars import Context
from functools import partial
from math import inf, prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import UnsupportedError, quote
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.graph import Input, find_users, prune_nodes
from sbformat.policies.operators import OPERATORS, Operand, decompose
from sbformat.policies.run import kernels
from sbformat.pth.arrays import to_array
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sbformat.limits import Budget
    from sbformat.policies.graph import Graph, Node, Weight
    from sbformat.policies.run.kernels import Array, Step

_FILTER_RANK: Final = 4
_PATCH_ORDER: Final = (2, 3, 1, 0)
"""The axes of filters (filters, channels, height, width), in the order that ``kernels.conv`` has them in memory."""
_BLOCK_BYTES: Final = 1 << 19  # values of a block of rows: a part of the cache that each core has (1 to 2 MiB today)
_FEW_ROWS: Final = 16  # rows of a block that does not fit into the cache, as of images
_LARGE_BLOCK_BYTES: Final = 1 << 25  # values of such a block
_MOST_ROWS: Final = 512
_BATCH_SIZES: Final = 8  # sizes of batches for which plans are kept


class Program:
    """A function from arrays to arrays that a graph describes; several threads may run it at the same time.

    :param outputs: names of nodes, inputs or weights
    :param functions: what computes ``Call`` nodes, by name: functions of arrays with a batch axis
    :param given: names of nodes whose values the caller supplies; what only they need is not computed

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
        self._nodes, wanted = prune_nodes(graph.nodes, self._outputs, supplied)
        inputs = [item for item in graph.inputs if item.name in wanted]
        inputs += [Input(node.name, node.dtype, node.shape) for node in graph.nodes if node.name in supplied & wanted]
        self._inputs = tuple(inputs)
        self._optional = tuple(item.name for item in inputs if item.default is not None)
        for node in self._nodes:
            if node.op == "Call" and node.attributes["function"] not in self._functions:
                raise UnsupportedError(f"expected a function for {quote(node.attributes['function'])}, got none")
        self._forms: dict[tuple[str, ...], Folded] = {}
        self._form(())

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs that :meth:`run` takes; those with a default may be left out."""
        return self._inputs

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Compute the outputs.

        :param inputs: arrays with a batch axis, by name; other names are ignored. A dtype that differs is converted
        :return: new arrays with a batch axis, in the order of ``outputs``; a value that depends on weights alone
            comes without a batch axis
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

    def _form(self, given: tuple[str, ...]) -> Folded:
        """Return the folded form for the optional inputs that are given, made once."""
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
        made = self._forms[given] = Folded(tuple(inputs), nodes, known, self._outputs, self._functions)
        return made


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


class Folded:
    """The nodes that depend on the given inputs, the values that do not, and plans by number of rows.

    :param constants: weights, defaults of inputs, and results of nodes that only depend on these, without a batch axis
    :param functions: for ``Call``, by name
    """

    def __init__(
        self,
        inputs: tuple[Input, ...],
        nodes: tuple[Node, ...],
        constants: Mapping[str, Array],
        outputs: tuple[str, ...],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.inputs, self.nodes, self.constants, self.outputs = inputs, nodes, constants, outputs
        self.functions, self.has_calls = functions, any(node.op == "Call" for node in nodes)
        self.first = inputs[0].name if inputs else ""
        """The input that determines the size of the batch."""
        self.plans: dict[int, list[Plan]] = {}
        """Plans that are not running."""
        values: list[Input | Node] = [*inputs, *nodes]
        size = max(1, sum(prod(value.shape) * np.dtype(value.dtype).itemsize for value in values))
        # few enough for the cache, enough to use each weight often
        rows = max(_BLOCK_BYTES // size, min(_FEW_ROWS, _LARGE_BLOCK_BYTES // size))
        self._rows = sys.maxsize if self.has_calls else min(max(1, rows), _MOST_ROWS)
        """Rows of a block; a function of the caller's gets the whole batch."""

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Compute the outputs, with a new plan or in blocks."""
        if all(name in self.constants for name in self.outputs):
            return [self.constants[name].copy() for name in self.outputs]
        if self.first not in inputs:
            message = f"expected the inputs {', '.join(item.name for item in self.inputs)}, got {', '.join(inputs)}"
            raise ValueError(message)
        count = len(inputs[self.first])
        if count <= self._rows:
            return self._run_block(inputs, count)
        made: list[Array] = []
        for start in range(0, count, self._rows):
            end = min(start + self._rows, count)
            block = {item.name: inputs[item.name][start:end] for item in self.inputs if item.name in inputs}
            results = self._run_block(block, end - start)
            made = made or [
                result if name in self.constants else np.empty((count, *result.shape[1:]), result.dtype)
                for name, result in zip(self.outputs, results)
            ]
            for name, whole, result in zip(self.outputs, made, results):
                if name not in self.constants:
                    whole[start:end] = result
        return made

    def _run_block(self, inputs: Mapping[str, Array], count: int) -> list[Array]:
        if count not in self.plans and len(self.plans) >= _BATCH_SIZES:
            self.plans.clear()
        plans = self.plans.setdefault(count, [])
        try:
            plan = plans.pop()
        except IndexError:
            plan = Plan(self, count)
        results = plan.run(inputs)
        plans.append(plan)
        return results


# -- plans: memory and steps ---------------------------------------------------------------------------


class Plan:
    """Memory for a number of rows, and the steps over it. One thread at a time may run it.

    A result shares the memory of its operand when it is a view, or when nothing else needs the operand.
    """

    def __init__(self, folded: Folded, rows: int) -> None:
        self._constants, self._rows = folded.constants, rows
        users = find_users(folded.nodes)
        arrays = self._arrays = {
            item.name: np.empty((rows, *item.shape), _choose_dtype(item, folded, users.get(item.name, ())))
            for item in folded.inputs
        }
        self._owners = {name: name for name in arrays}
        """The value that memory was allocated for, by the values that are in it."""
        self._last_uses: dict[str, float] = {name: at for at, node in enumerate(folded.nodes) for name in node.inputs}
        self._last_uses.update(dict.fromkeys(folded.outputs, inf))
        self._used_until = {name: self._last_uses.get(name, -1) for name in arrays}
        """The last use of any value that is in the memory of an owner."""
        steps: list[Step] = []
        for at, node in enumerate(folded.nodes):
            out, operands = self._allocate(at, node)
            if operands is not None:
                steps += bind_node(node, out, operands, folded.functions)
        self._steps = tuple(steps)
        self._loads = tuple((item.name, arrays[item.name].shape, arrays[item.name]) for item in folded.inputs)
        self._results = [
            folded.constants[name] if name in folded.constants else arrays[name] for name in folded.outputs
        ]
        self._context: Context | None = None
        """One in which numpy does not warn, entered in a tenth of the time of ``numpy.errstate``.

        Only one thread can be in it, as in a plan. numpy keeps this setting in the context since 2.0.
        """
        if not folded.has_calls and np.lib.NumpyVersion(np.__version__) >= "2.0.0":
            self._context = Context()
            self._context.run(partial(np.seterr, all="ignore"))

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Compute the outputs of one block of rows."""
        if self._context is not None:
            return self._context.run(self._compute, inputs)
        with np.errstate(all="ignore"):
            return self._compute(inputs)

    def _compute(self, inputs: Mapping[str, Array]) -> list[Array]:
        for name, shape, buffer in self._loads:
            array = inputs.get(name)
            if array is None or array.shape != shape:
                got = "none" if array is None else f"one of {array.shape}"
                raise ValueError(f"expected an array of the shape {shape} as {name}, got {got}")
            buffer[...] = array
        for step in self._steps:
            step()
        return [result.copy() for result in self._results]

    def _allocate(self, at: int, node: Node) -> tuple[Array, list[Array] | None]:
        """Return the array of a result and those of the operands; no operands when the result is a view of one."""
        name, first = node.name, node.inputs[0]
        view = OPERATORS[node.op].view
        made = getattr(kernels, f"view_{view}")(self._arrays[first], **node.attributes) if view else None
        operands = None
        owner = self._owners.get(first, name)
        if made is None:
            operands = []
            for position, operand in enumerate(node.inputs):
                constant = self._constants.get(operand)
                if constant is None:
                    operands.append(_add_axes(self._arrays[operand], node))
                else:
                    operands.append(shape_constant(node, position, constant, self._rows))
            if self._is_replaceable(at, node):
                made = self._arrays[first]
            else:
                made, owner = _empty_result(node, operands, self._rows), name
        self._arrays[name], self._owners[name] = made, owner
        self._used_until[owner] = max(self._used_until.get(owner, -1), self._last_uses.get(name, -1))
        return made, operands

    def _is_replaceable(self, at: int, node: Node) -> bool:
        """Return whether the result may be written over the first operand."""
        first, *others = node.inputs
        array, row, owner = self._arrays.get(first), OPERATORS[node.op], self._owners.get(first, "")
        return (
            array is not None
            and bool(row.in_place and row.numpy)
            and array.shape[1:] == node.shape
            and array.dtype == node.dtype
            and self._used_until[owner] <= at
            and all(self._owners.get(other) != owner for other in others)
        )


def _choose_dtype(item: Input, folded: Folded, users: Sequence[Node]) -> str:
    """Return the dtype that an input is converted to when it is copied in: that of a cast, if nothing else uses it."""
    if item.name in folded.outputs or len(users) != 1 or users[0].op != "Cast":
        return item.dtype
    narrow = users[0].dtype
    return narrow if (item.dtype, narrow) == ("float64", "float32") else item.dtype


def _empty_result(node: Node, operands: Sequence[Array], rows: int) -> Array:
    """Allocate a result; images are in memory with the channels last, as convolutions make them."""
    if node.op == "Conv":
        channels, height, width = node.shape
        image: Array = np.empty((rows, height, width, channels), node.dtype).transpose(0, 3, 1, 2)
        return image
    if OPERATORS[node.op].is_elementwise and operands[0].shape == (rows, *node.shape):
        return np.empty_like(operands[0], node.dtype)
    return np.empty((rows, *node.shape), node.dtype)


def shape_constant(node: Node, position: int, constant: Array, rows: int) -> Array:
    """Return an operand that does not depend on the observation, as a kernel expects it: with a batch axis.

    :param position: among the operands
    """
    batch = OPERATORS[node.op].batch
    if batch == "none" and position:
        return constant
    value = constant[np.newaxis]
    return np.broadcast_to(value, (rows, *constant.shape)) if batch == "all" else _add_axes(value, node)


def _add_axes(value: Array, node: Node) -> Array:
    """Return an operand; where items broadcast, with new axes after that of the batch, up to the rank of the result."""
    missing = len(node.shape) + 1 - value.ndim if OPERATORS[node.op].is_elementwise else 0
    return value.reshape(len(value), *(1,) * missing, *value.shape[1:]) if missing else value


def bind_node(
    node: Node, out: Array, operands: Sequence[Array], functions: Mapping[str, Callable[..., Any]]
) -> Iterable[Step]:
    """Return the steps of a node, for operands as its kernel expects them."""
    attributes: dict[str, Any] = dict(node.attributes)
    if node.op == "Call":
        attributes["name"] = attributes["function"]
        attributes["function"] = functions[attributes["function"]]
    row = OPERATORS[node.op]
    if not row.numpy:
        return _bind_parts(node, out, operands)
    if row.is_elementwise:
        out, *operands = _drop_axes(out, *operands)
    if row.numpy.startswith("np."):
        return [partial(getattr(np, row.numpy[len("np.") :]), *operands, out)]
    steps: Iterable[Step] = getattr(kernels, row.numpy)(out, *operands, **attributes)
    return steps


def _bind_parts(node: Node, out: Array, operands: Sequence[Array]) -> Iterable[Step]:
    """Return the steps of an operator that numpy computes as others."""
    described = [Operand(operand.dtype.name, operand.shape[1:], False) for operand in operands]
    parts = decompose(node, described, "numpy", node.inputs)
    arrays = dict(zip(node.inputs, operands))
    arrays.update({name: np.full(1, number, node.dtype) for name, (_, number) in parts.numbers.items()})
    for part in parts.nodes:
        made = out if part is parts.nodes[-1] else np.empty((len(out), *part.shape), part.dtype)
        arrays[part.name] = made
        yield from bind_node(part, made, [_add_axes(arrays[name], part) for name in part.inputs], {})


def _drop_axes(out: Array, *operands: Array) -> list[Array]:
    """Return views without the axes of size 1, which slow numpy down; ``out`` stays the same object as an operand."""
    axes = tuple(axis for axis, size in enumerate(out.shape) if size == 1)
    if not axes:
        return [out, *operands]
    made = np.squeeze(out, axes)
    return [made, *(made if operand is out else np.squeeze(operand, axes) for operand in operands)]


# -- weights -------------------------------------------------------------------------------------------


class Weights:
    """The weights of a graph by name, read once: several programs over one graph share them.

    Arrays are read-only. One is a view of the archive unless it would be slow: numpy's matrix product copies an operand
    that is not aligned, or has no axis without gaps, at each call. Such a tensor is copied once, and so are filters of
    convolutions, into the order in memory that the product of patches needs.

    :param graph: whose weights
    :param budget: charged when bytes are copied
    """

    def __init__(self, graph: Graph, budget: Budget) -> None:
        self._described, self._budget = graph.weights, budget
        self._made: dict[str, Array] = {}

    def __repr__(self) -> str:
        return f"<Weights: {len(self._described)} arrays, by the names in Graph.weights>"

    def __contains__(self, name: str) -> bool:
        return name in self._described

    def __getitem__(self, name: str) -> Array:
        """Return an array of the weight's dtype and shape."""
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._read(self._described[name])
        return made

    def _read(self, weight: Weight) -> Array:
        dtype = np.dtype(weight.dtype)
        read: Array
        if isinstance(weight.source, TensorInfo):
            read = _read_tensor(weight.source, self._budget)
        elif isinstance(weight.source, ArrayInfo):
            read = np.asarray(weight.source.to_numpy())
        else:
            items = np.array(weight.source, dtype)
            read = items.reshape(weight.shape) if items.size != 1 else np.broadcast_to(items.reshape(()), weight.shape)
        is_dense = (read.flags.c_contiguous or read.flags.f_contiguous) and read.flags.aligned
        if read.dtype == dtype and is_dense and read.ndim != _FILTER_RANK:
            read = read.view()
        else:
            self._budget.inflate(read.size * dtype.itemsize)
            order = _PATCH_ORDER if read.ndim == _FILTER_RANK else tuple(range(read.ndim))
            read = np.array(read.transpose(order), dtype, order="C").transpose(np.argsort(order))
        read.flags.writeable = False
        return read


def _read_tensor(info: TensorInfo, budget: Budget) -> Array:
    """Return the array of a tensor; bfloat16, which numpy does not have, as float32 (its upper half)."""
    if info.dtype != "bfloat16":
        return to_array(info, budget)
    budget.inflate(4 * info.numel)
    wide = to_array(info._replace(dtype="uint16", conj=False, neg=False), budget).astype(np.uint32) << np.uint32(16)
    array: Array = wide.view(np.float32)
    return -array if info.neg else array
