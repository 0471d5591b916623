"""Clipping an action that is scaled to the bounds of its space.

SB3 and SB2 compute ``low + 0.5 * (x + 1) * (high - low)``, and so does an exported file, in that order: any other loses
digits where one bound is much larger than the other. Rounding may take the sum beyond a bound, and the ``Tanh`` of
onnxruntime is up to 1.0000002.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sbformat.immutable import FrozenDict
from sbformat.policies.graph import BOUNDS, Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.policies.run.steps import Array


def clip_to_bounds(nodes: Sequence[Node], constants: dict[str, Array]) -> tuple[Node, ...]:
    """Add what clips an action after it is scaled; one that is clipped alone remains.

    Components whose bounds are an infinite distance apart remain as well: they are infinite or NaN, as in SB3.

    :param nodes: in order
    :param constants: by name; the bounds are added
    """
    places = [at for at, node in enumerate(nodes) if node.module == BOUNDS]
    width = next((nodes[at] for at in places if nodes[at].op == "Sub"), None)
    if width is None:
        return tuple(nodes)
    at = places[-1]
    last = nodes[at]
    high, low = (constants[name].astype(last.dtype) for name in width.inputs)
    with np.errstate(all="ignore"):
        is_finite = np.isfinite(high - low)
    made = [last._replace(name=f"{last.name}/scaled")]
    for op, choose, end in (("Max", np.minimum, -np.inf), ("Min", np.maximum, np.inf)):  # bounds may be reversed
        name = last.name if op == "Min" else f"{last.name}/{op}"
        constants[f"{last.name}/{op} by bounds"] = np.where(is_finite, choose(low, high), end).astype(last.dtype)
        inputs = (made[-1].name, f"{last.name}/{op} by bounds")
        made.append(Node(name, op, inputs, FrozenDict(), last.dtype, last.shape, BOUNDS))
    return (*nodes[:at], *made, *nodes[at + 1 :])
