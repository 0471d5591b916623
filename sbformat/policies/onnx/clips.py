"""``find_clips``: a ``Max`` and a ``Min`` with one number each, which are one ``Clip``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.graph import Node
    from sbformat.policies.run.steps import Array


class Clip(NamedTuple):
    """Two nodes as one."""

    inner: str
    """The node that is computed first, which nothing else uses."""
    value: str
    """What it is computed of."""
    low: Array
    high: Array


def find_clips(lowered: Lowered) -> Mapping[str, Clip]:
    """Return the clips of a graph, by the name of the second node of each."""
    uses = Counter(name for node in lowered.nodes for name in node.inputs)
    uses.update(port.value for port in lowered.outputs)
    bounded: dict[str, tuple[Node, str, Array]] = {}
    """Nodes with a bound that is one number, with the other operand and the number."""
    clips = {}
    for node in lowered.nodes:
        found = _find_bound(node, lowered.constants)
        if found is None:
            continue
        value, bound = found
        bounded[node.name] = (node, value, bound)
        inner = bounded.get(value)
        if inner is None or inner[0].op == node.op or uses[value] > 1 or value in clips or inner[0].shape != node.shape:
            continue
        low, high = (inner[2], bound) if node.op == "Min" else (bound, inner[2])
        if node.op == "Min" or low <= high:  # a Clip has its upper bound last
            clips[node.name] = Clip(value, inner[1], low, high)
    return clips


def _find_bound(node: Node, constants: Mapping[str, Array]) -> tuple[str, Array] | None:
    """Return the operand that is bounded and the bound, if that is one number that does not change the shape."""
    if node.op not in ("Max", "Min") or node.dtype != "float32":
        return None
    for value, bound in (node.inputs, node.inputs[::-1]):
        array = constants.get(bound)
        if array is None or value in constants or not array.size or array.ndim > len(node.shape):
            continue
        number = array.reshape(-1)[0]
        if (array == number).all():
            return value, np.array(number)
    return None
