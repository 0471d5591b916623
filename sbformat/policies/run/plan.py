"""``Plan``: the memory and the steps that run a folded graph for a fixed number of rows (see ``program``)."""

from __future__ import annotations

from contextvars import Context
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.policies.graph import find_users
from sbformat.policies.operators import OPERATORS
from sbformat.policies.run import kernels
from sbformat.policies.run.kernels import ELEMENTWISE, IN_PLACE, VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sbformat.policies.graph import Input, Node
    from sbformat.policies.run.program import Folded
    from sbformat.policies.run.steps import Array, Step

_MATRIX_OPERATORS: Final = ("Gemm", "Conv")
"""Operators whose second and third operand are weights without a batch axis."""


class Plan:
    """Memory for a number of rows, and the steps over it. One thread at a time may run it.

    :param folded: the graph
    :param rows: the size of the batch
    """

    def __init__(self, folded: Folded, rows: int) -> None:
        memory = _Memory(folded, rows)
        steps: list[Step] = []
        for at, node in enumerate(folded.nodes):
            out, operands = memory.allocate(at, node)
            if operands is not None:
                steps += bind_node(node, out, operands, folded.functions)
        self._steps = tuple(steps)
        arrays = memory.arrays
        self._loads = tuple((item.name, arrays[item.name].shape, arrays[item.name]) for item in folded.inputs)
        self._results = [
            folded.constants[name] if name in folded.constants else arrays[name] for name in folded.outputs
        ]
        has_calls = any(node.op == "Call" for node in folded.nodes)
        self._context = None if has_calls else _make_quiet_context()

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Compute the outputs of one block of rows.

        :raises ValueError: when an input is missing or has another shape
        """
        if self._context is not None:
            return self._context.run(self._compute, inputs)
        with np.errstate(all="ignore"):
            return self._compute(inputs)

    def _compute(self, inputs: Mapping[str, Array]) -> list[Array]:
        for name, shape, buffer in self._loads:
            array = inputs.get(name)
            if array is None or array.shape != shape:
                got = "none" if array is None else f"one of {array.shape}"
                message = f"expected an array of the shape {shape} as {name}, got {got}"
                raise ValueError(message)
            buffer[...] = array
        for step in self._steps:
            step()
        return [result.copy() for result in self._results]


def _make_quiet_context() -> Context | None:
    """Return a context in which numpy does not warn: it is entered in a tenth of the time of ``numpy.errstate``.

    Only one thread can be in it, as in a plan. numpy keeps this setting in the context since 2.0.
    """
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        return None
    context = Context()
    context.run(partial(np.seterr, all="ignore"))
    return context


class _Memory:
    """The arrays of a plan. A result shares those of its operand when it is a view, or when nothing else needs them."""

    def __init__(self, folded: Folded, rows: int) -> None:
        self._constants, self._rows = folded.constants, rows
        users = find_users(folded.nodes)
        self.arrays = {
            item.name: np.empty((rows, *item.shape), _choose_dtype(item, folded, users.get(item.name, ())))
            for item in folded.inputs
        }
        self._owners = {name: name for name in self.arrays}
        """The value that memory was allocated for, by the values that are in it."""
        self._last_uses: dict[str, float] = {name: at for at, node in enumerate(folded.nodes) for name in node.inputs}
        self._last_uses.update(dict.fromkeys(folded.outputs, inf))
        self._used_until = {name: self._last_uses.get(name, -1) for name in self.arrays}
        """The last use of any value that is in the memory of an owner."""

    def allocate(self, at: int, node: Node) -> tuple[Array, list[Array] | None]:
        """Return the array of a result and those of the operands; no operands when the result is a view of one."""
        name, first = node.name, node.inputs[0]
        made = VIEWS[node.op](self.arrays[first], **node.attributes) if node.op in VIEWS else None
        if node.op == "Cast" and self.arrays[first].dtype == node.dtype:
            made = self.arrays[first]
        operands = None
        owner = self._owners.get(first, name)
        if made is None:
            operands = [self._shape_operand(node, position) for position in range(len(node.inputs))]
            if self._is_replaceable(at, node):
                made = self.arrays[first]
            else:
                made, owner = _empty_result(node, operands, self._rows), name
        self.arrays[name], self._owners[name] = made, owner
        self._used_until[owner] = max(self._used_until.get(owner, -1), self._last_uses.get(name, -1))
        return made, operands

    def _shape_operand(self, node: Node, position: int) -> Array:
        constant = self._constants.get(node.inputs[position])
        if constant is not None:
            return shape_constant(node, position, constant, self._rows)
        value = self.arrays[node.inputs[position]]
        return _add_axes(value, node) if node.op in ELEMENTWISE else value

    def _is_replaceable(self, at: int, node: Node) -> bool:
        """Return whether the result may be written over the first operand."""
        first, *others = node.inputs
        array = self.arrays.get(first)
        if array is None or node.op not in IN_PLACE or array.shape[1:] != node.shape or array.dtype != node.dtype:
            return False
        owner = self._owners[first]
        if any(self._owners.get(other) == owner for other in others):
            return False
        return self._used_until[owner] <= at


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
    if node.op in ELEMENTWISE and operands[0].shape == (rows, *node.shape):
        return np.empty_like(operands[0], node.dtype)
    return np.empty((rows, *node.shape), node.dtype)


def shape_constant(node: Node, position: int, constant: Array, rows: int) -> Array:
    """Return an operand that does not depend on the observation, as a kernel expects it: with a batch axis.

    :param position: among the operands
    """
    if node.op in _MATRIX_OPERATORS and position:
        return constant
    value = constant[np.newaxis]
    if node.op in ("Concat", "Call"):
        return np.broadcast_to(value, (rows, *constant.shape))
    return _add_axes(value, node) if node.op in ELEMENTWISE else value


def _add_axes(value: Array, node: Node) -> Array:
    """Return a view of the rank of the result, with new axes after that of the batch, so that items broadcast."""
    missing = len(node.shape) + 1 - value.ndim
    return value.reshape(len(value), *(1,) * missing, *value.shape[1:]) if missing else value


def bind_node(
    node: Node, out: Array, operands: Sequence[Array], functions: Mapping[str, Callable[..., Any]]
) -> Iterable[Step]:
    """Return the steps of a node.

    :param out: memory for the result
    :param operands: as the kernel expects them
    :param functions: for ``Call``, by name
    """
    attributes: dict[str, Any] = dict(node.attributes)
    if node.op == "Call":
        attributes["name"] = attributes["function"]
        attributes["function"] = functions[attributes["function"]]
    if node.op in ELEMENTWISE:
        out, *operands = _drop_axes(out, *operands)
    kernel = getattr(kernels, OPERATORS[node.op].numpy)
    steps: Iterable[Step] = kernel(out, *operands, **attributes)
    return steps


def _drop_axes(out: Array, *operands: Array) -> list[Array]:
    """Return views without the axes of size 1, which slow numpy down; ``out`` stays the same object as an operand."""
    axes = tuple(axis for axis, size in enumerate(out.shape) if size == 1)
    if not axes:
        return [out, *operands]
    made = np.squeeze(out, axes)
    return [made, *(made if operand is out else np.squeeze(operand, axes) for operand in operands)]
