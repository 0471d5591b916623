"""``translate``: the nodes of a lowered graph as operators of ONNX.

Theory of operation
-------------------
The operators of a graph are ONNX's, and most nodes become one step of the same name with the same attributes. What
differs is here:

- A shape of a graph is that of one item; a value of a model has the batch as its first axis, a constant does not.
  An axis that counts from the end is the same in both. Operands with fewer axes than the result get new ones after
  the batch, not before it, as broadcasting would.
- Some operators take as operands what are attributes in a graph, since various opsets.
- What the opset does not have is composed of other operators.
- Runtimes compute few operators with small integers: such operands are cast to wider ones, and the result back.

Worked example, for x of the shape (batch, 3) and y of (batch, 2, 3)::

    sum  Add(x, y)                  sum/Unsqueeze  Unsqueeze(x, [1])            (batch, 1, 3)
                                    sum            Add(sum/Unsqueeze, y)        (batch, 2, 3)

Sources: https://onnx.ai/onnx/operators; ``docs/OperatorKernels.md`` of onnxruntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.policies.onnx.clips import find_clips
from sbformat.policies.onnx.writer import Value, Writer
from sbformat.policies.operators import OPERATORS
from sbformat.policies.run.kernels import ELEMENTWISE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.graph import Node

_AXES_AS_OPERAND: Final = {"ReduceSum": 13, "ReduceMean": 18, "ReduceMin": 18, "ReduceLogSumExp": 18}
"""The opset since which the axes of a reduction are an operand."""

_MOVING: Final = frozenset({"Identity", "Cast", "Transpose", "Reshape", "Concat", "Slice"})
"""Operators that runtimes have for all dtypes."""

_WIDER: Final = {
    "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64",
}  # fmt: skip
"""The dtype in which other operators compute with integers that runtimes do not have there."""


def translate(lowered: Lowered, opset: int, batch: int | None) -> Writer:
    """Return the steps and initializers of a model.

    :param lowered: the graph
    :param opset: from 13
    :param batch: the size of a batch; None when it is not fixed
    """
    writer = Writer(lowered, opset, batch)
    clips = find_clips(lowered)
    skipped = {clip.inner for clip in clips.values()}
    for node in lowered.nodes:
        if node.name in clips:
            value, *bounds = clips[node.name][1:]
            names = [writer.add_numbers(bound, "bound") for bound in bounds]
            writer.add_result(node, "Clip", [writer.find(value).name, *names])
        elif node.name not in skipped:
            _translate_node(writer, node)
    writer.add_outputs()
    return writer


def _translate_node(writer: Writer, node: Node) -> None:
    values = [writer.find(name) for name in node.inputs]
    op, _, since = OPERATORS[node.op].onnx.partition(":")
    wide = None if op in _MOVING else _WIDER.get(values[-1].dtype)
    if 0 in node.shape:
        _make_empty(writer, node)
    elif wide is not None:
        _compute_wide(writer, node, values, wide)
    elif int(since) > writer.opset:
        _COMPOSED[op](writer, node, values)
    elif op in _SPECIAL:
        _SPECIAL[op](writer, node, values)
    else:
        _add_plain(writer, node, values)


def _add_plain(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """Add a step of the same operands and attributes."""
    writer.add_result(node, _name(node), _refer(writer, node, values), **node.attributes)


def _name(node: Node) -> str:
    return OPERATORS[node.op].onnx.partition(":")[0]


def _refer(writer: Writer, node: Node, values: Sequence[Value]) -> list[str]:
    """Return the names of operands; those of an elementwise operator have as many axes as the result, or broadcast."""
    is_elementwise = node.op in ELEMENTWISE
    return [_add_axes(writer, node, value) if is_elementwise else writer.refer(value) for value in values]


def _add_axes(writer: Writer, node: Node, value: Value) -> str:
    missing = len(node.shape) - len(value.shape)
    if value.array is not None or not missing:
        return writer.refer(value)
    return writer.add_part(node, "Unsqueeze", [value.name, writer.add_axes(range(1, 1 + missing))])


def _make_empty(writer: Writer, node: Node) -> None:
    """Make a value without items, of which a Reshape to 0 would mean something else."""
    empty = writer.add_numbers(np.empty((1, *node.shape), node.dtype), "empty")
    writer.add_result(node, "Expand", [empty, writer.add_shape(node.shape, node.name)])


def _compute_wide(writer: Writer, node: Node, values: Sequence[Value], wide: str) -> None:
    """Compute with wider integers; a result of the same dtype is cast back, as C does."""
    narrow = values[-1].dtype
    made = []
    for value in values:
        if value.dtype != narrow:  # the condition of Where
            made.append(value)
        elif value.array is not None:
            made.append(value._replace(name=f"{value.name}/{wide}", array=value.array.astype(wide), dtype=wide))
        else:
            made.append(value._replace(name=writer.add_part(node, "Cast", [value.name], to=wide), dtype=wide))
    if node.dtype != narrow:
        _SPECIAL.get(node.op, _add_plain)(writer, node, made)
        return
    inner = node._replace(name=f"{node.name}/{wide}", dtype=wide)
    _SPECIAL.get(node.op, _add_plain)(writer, inner, made)
    writer.add_result(node, "Cast", [writer.find(inner.name).name], to=narrow)


# -- operators that differ ----------------------------------------------------------------------------


def _slope(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """PRelu; the slope of ONNX does not change the shape of x."""
    x, slope = values
    if x.array is None and x.shape == node.shape:
        _add_plain(writer, node, values)
        return
    names = _refer(writer, node, [x, slope])
    zero = writer.add_numbers(np.zeros((), node.dtype), "number")
    is_below = writer.add_part(node, "Less", [names[0], zero])
    below = writer.add_part(node, "Mul", names)
    writer.add_result(node, "Where", [is_below, below, names[0]])


def _one_hot(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """An index that is too large gives zeros; ONNX counts a negative one from the end, but no space contains one."""
    depth = writer.add_numbers(np.array(node.attributes["depth"], np.int64), "depth")
    items = writer.add_numbers(np.array([0, 1], node.dtype), "off and on")
    writer.add_result(node, "OneHot", [writer.refer(values[0]), depth, items], axis=-1)


def _transpose(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    axes = (0, *(axis + 1 for axis in node.attributes["axes"]))
    writer.add_result(node, "Transpose", [writer.refer(values[0])], perm=axes)


def _reshape(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """The size 0 means that of the operand: the batch."""
    writer.add_result(node, "Reshape", [writer.refer(values[0]), writer.add_axes((0, *node.shape), "shape")])


def _concat(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    names = [_repeat(writer, node, value) if value.array is not None else value.name for value in values]
    writer.add_result(node, "Concat", names, **node.attributes)


def _repeat(writer: Writer, node: Node, value: Value) -> str:
    """Repeat a constant for each item of the batch."""
    return writer.add_part(node, "Expand", [writer.refer(value), writer.add_shape(value.shape, node.name)])


def _slice(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    ends = [writer.add_axes([node.attributes[name]], name) for name in ("start", "end", "axis")]
    writer.add_result(node, "Slice", [writer.refer(values[0]), *ends])


def _reduce(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    axis, keepdims = node.attributes["axis"], node.attributes.get("keepdims", False)
    name = writer.refer(values[0])
    if node.op == "ReduceMean" and np.dtype(node.dtype).kind != "f":  # runtimes have it for floats
        total = writer.add_part(node, "ReduceSum", [name, writer.add_axes([axis])], keepdims=keepdims)
        count = writer.add_numbers(np.array(values[0].shape[axis], node.dtype), "count")
        writer.add_result(node, "Div", [total, count])
    elif writer.opset >= _AXES_AS_OPERAND[node.op]:
        writer.add_result(node, node.op, [name, writer.add_axes([axis])], keepdims=keepdims)
    else:
        writer.add_result(node, node.op, [name], axes=[axis], keepdims=keepdims)


def _arg_max(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    keepdims = node.attributes.get("keepdims", False)
    writer.add_result(node, "ArgMax", [writer.refer(values[0])], axis=node.attributes["axis"], keepdims=keepdims)


def _normalize(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """LayerNormalization; scale and bias of ONNX do not have a batch axis."""
    x, *parts = values
    if x.array is None and all(part.array is not None for part in parts):
        _add_plain(writer, node, values)
    else:
        _compose_normalization(writer, node, values)


# -- operators composed of others ---------------------------------------------------------------------


def _compose_normalization(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    x, scale, bias = (writer.refer(value) for value in values)
    epsilon = writer.add_numbers(np.array(node.attributes["epsilon"], node.dtype), "epsilon")
    difference = writer.add_part(node, "Sub", [x, _mean(writer, node, x)])
    square = writer.add_part(node, "Mul", [difference, difference])
    variance = writer.add_part(node, "Add", [_mean(writer, node, square), epsilon])
    deviation = writer.add_part(node, "Sqrt", [variance])
    quotient = writer.add_part(node, "Div", [difference, deviation])
    scaled = writer.add_part(node, "Mul", [quotient, scale])
    writer.add_result(node, "Add", [scaled, bias])


def _mean(writer: Writer, node: Node, name: str) -> str:
    if writer.opset >= _AXES_AS_OPERAND["ReduceMean"]:
        return writer.add_part(node, "ReduceMean", [name, writer.add_axes([-1])], keepdims=True)
    return writer.add_part(node, "ReduceMean", [name], axes=[-1], keepdims=True)


_SPECIAL: Final[Mapping[str, Callable[[Writer, Node, Sequence[Value]], None]]] = {
    "PRelu": _slope,
    "OneHot": _one_hot,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Concat": _concat,
    "Slice": _slice,
    "ReduceSum": _reduce,
    "ReduceMean": _reduce,
    "ReduceMin": _reduce,
    "ReduceLogSumExp": _reduce,
    "ArgMax": _arg_max,
    "LayerNormalization": _normalize,
}
"""Operators with other operands or attributes than in a graph."""

_COMPOSED: Final[Mapping[str, Callable[[Writer, Node, Sequence[Value]], None]]] = {
    "LayerNormalization": _compose_normalization,
}
"""What replaces operators that are newer than the opset."""
