"""A graph as plain JSON, by ``schema/graph.schema.json`` (POLICIES.md 19).

With it and the archive, anyone can compute what the policy does: nodes in order, each with its operator and operands,
and for each weight the address of its numbers in the archive, or the numbers themselves.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from sbformat.known.numpy import unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.pkl.numpy import ArrayInfo, item_size
from sbformat.pth.values import TensorInfo
from sbformat.rendering import write_number, write_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.policies.graph import Graph, Weight

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
        items = _shorten(source)
    return made if items is None else {**made, "items": items}


def _shorten(numbers: Sequence[float]) -> Any:
    """Return numbers as JSON: one number when there are several and all are equal (STATISTICS.md 17.6)."""
    items = [write_number(number) for number in numbers]
    return items[0] if len(items) > 1 and len(set(map(str, items))) == 1 else items


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
    return write_number(items[0]) if is_uniform else [write_number(items[at]) for at in _order(array)]


def _order(array: ArrayInfo) -> list[int]:
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
