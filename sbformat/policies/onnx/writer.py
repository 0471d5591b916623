"""``Writer``: the steps and initializers of a model in the making, as plain data that ``model`` makes protobufs of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sbformat.policies.onnx.names import Names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.graph import Node
    from sbformat.policies.operators import Shape
    from sbformat.policies.run.steps import Array

SHAPE_WITH_RANGE: Final = 15
"""The opset since which Shape returns a range of axes."""


class Step(NamedTuple):
    """A node of the model."""

    op: str
    inputs: tuple[str, ...]
    output: str
    name: str
    attributes: Mapping[str, Any]


class Value(NamedTuple):
    """An operand."""

    name: str
    """In the model; of a constant, in the lowered graph."""
    dtype: str
    shape: Shape
    """Of one item; of a constant the whole."""
    array: Array | None
    """Of a constant, which does not have a batch axis."""


class Writer:
    """Steps and initializers.

    :param lowered: inputs, outputs and constants
    :param opset: the version of ONNX's operators
    :param batch: the size of a batch; None when it is not fixed

    Example::

        writer = Writer(lowered, 17, None)
        hidden = writer.add_part(node, "Mul", [x, weight])
        writer.add_result(node, "Add", [hidden, bias])
    """

    def __init__(self, lowered: Lowered, opset: int, batch: int | None) -> None:
        self.opset = opset
        self.steps: list[Step] = []
        self.initializers: dict[str, Array] = {}
        self._lowered, self._batch = lowered, batch
        ports = [port.name for port in (*lowered.inputs, *lowered.outputs)]
        self._names, self._step_names = Names(ports), Names()
        self._values = {port.value: Value(port.name, port.dtype, port.shape, None) for port in lowered.inputs}
        self._results: dict[str, str] = {}
        """The first output that has each value, by the value's name."""
        for port in lowered.outputs:
            self._results.setdefault(port.value, port.name)
        self._initializer_names: dict[str, str] = {}
        self._numbers: dict[tuple[str, Shape, bytes], str] = {}
        self._batch_size = ""

    def find(self, name: str) -> Value:
        """Return an operand.

        :param name: in the lowered graph
        """
        array = self._lowered.constants.get(name)
        return self._values[name] if array is None else Value(name, array.dtype.name, array.shape, array)

    def refer(self, value: Value) -> str:
        """Return the name of an operand in the model; a constant becomes an initializer."""
        if value.array is None:
            return value.name
        if value.name not in self._initializer_names:
            made = self._initializer_names[value.name] = self._names.choose(value.name)
            self.initializers[made] = value.array
        return self._initializer_names[value.name]

    def add_numbers(self, array: Array, what: str) -> str:
        """Return the name of an initializer of a few numbers that the agent does not have; equal ones are one.

        :param what: they are, for the name
        """
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._numbers:
            self._numbers[key] = self._names.choose(f"{what} {array.tolist()}")
            self.initializers[self._numbers[key]] = array
        return self._numbers[key]

    def add_axes(self, axes: Sequence[int], what: str = "axes") -> str:
        """Return the name of an initializer of integers."""
        return self.add_numbers(np.array(axes, np.int64), what)

    def add_part(self, node: Node, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a step that computes a part of a node, and return the name of its result."""
        label = f"{_label(node)}/{op}"
        return self._add(op, inputs, self._names.choose(label), label, attributes)

    def add_result(self, node: Node, op: str, inputs: Sequence[str], **attributes: Any) -> None:
        """Add the step whose result is that of a node."""
        output = self._results.get(node.name) or self._names.choose(node.name)
        self._values[node.name] = Value(output, node.dtype, node.shape, None)
        self._add(op, inputs, output, _label(node, op), attributes)

    def add_outputs(self) -> None:
        """Add what makes outputs of inputs, of constants, and of values that are another output already."""
        for port in self._lowered.outputs:
            value = self.find(port.value)
            if value.array is not None:
                self._add("Expand", [self.refer(value), self.add_shape(port.shape, port.name)], port.name, port.name)
            elif value.name != port.name:
                self._add("Identity", [value.name], port.name, port.name)

    def add_shape(self, shape: Shape, label: str) -> str:
        """Return the name of the shape of a batch of items."""
        if self._batch is not None:
            return self.add_axes((self._batch, *shape), "shape")
        parts = [self._add_batch_size()]
        if not shape:
            return parts[0]
        parts.append(self.add_axes(shape, "shape"))
        return self._add("Concat", parts, self._names.choose(f"{label}/shape"), f"{label}/shape", {"axis": 0})

    def _add_batch_size(self) -> str:
        """Return the name of the size of the batch, with one axis."""
        if not self._batch_size:
            port, label = self._lowered.inputs[0], "batch size"
            output = self._names.choose(label)
            if self.opset >= SHAPE_WITH_RANGE:
                self._add("Shape", [port.name], output, label, {"start": 0, "end": 1})
            else:
                whole = self._add("Shape", [port.name], self._names.choose("shape of the batch"), "shape of the batch")
                self._add("Slice", [whole, *(self.add_axes([at]) for at in (0, 1))], output, label)
            self._batch_size = output
        return self._batch_size

    def _add(
        self, op: str, inputs: Sequence[str], output: str, label: str, attributes: Mapping[str, Any] | None = None
    ) -> str:
        self.steps.append(Step(op, tuple(inputs), output, self._step_names.choose(label), attributes or {}))
        return output


def _label(node: Node, op: str = "") -> str:
    """Return a readable name: the module and the operator."""
    return f"{node.module}/{op or node.op}" if node.module else node.name
