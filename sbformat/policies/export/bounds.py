"""Scaling an action to the bounds of its space, as one product and one sum.

SB3 and SB2 compute ``low + 0.5 * (x + 1) * (high - low)``, in five steps. That is ``factor * x + summand``, with
constants that follow from its values at 0 and 1, so bounds of -1 and 1 cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sbformat.immutable import FrozenDict
from sbformat.policies.graph import BOUNDS, Node
from sbformat.policies.run.program import fold_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.policies.run.steps import Array


def combine_bounds(nodes: Sequence[Node], constants: dict[str, Array], raw: str) -> tuple[Node, ...]:
    """Replace the steps that scale an action to bounds; those that clip it remain.

    :param nodes: without those that are constants
    :param constants: by name; the factor and the summand are added
    :param raw: the value that is scaled
    """
    steps = [node for node in nodes if node.module == BOUNDS]
    if raw in constants or not steps or steps[-1].op != "Add":
        return tuple(nodes)
    last = steps[-1]
    at_zero, at_one = (_evaluate(steps, constants, raw, number) for number in (0, 1))
    with np.errstate(all="ignore"):
        factor = at_one - at_zero
    if not (np.isfinite(factor).all() and np.isfinite(at_zero).all()):
        return tuple(nodes)
    made = []
    value = raw
    for op, array, neutral in (("Mul", factor, 1), ("Add", at_zero, 0)):
        if (array != neutral).any():
            number = f"{last.name}/{op} by bounds"
            constants[number] = array
            made.append(Node(f"{last.name}/{op}", op, (value, number), FrozenDict(), last.dtype, last.shape, BOUNDS))
            value = made[-1].name
    made.append(Node(last.name, "Identity", (value,), FrozenDict(), last.dtype, last.shape, BOUNDS))
    others = [node for node in nodes if node.module != BOUNDS]
    at = max((at + 1 for at, node in enumerate(others) if node.name == raw), default=0)
    return (*others[:at], *made, *others[at:])


def _evaluate(steps: Sequence[Node], constants: dict[str, Array], raw: str, number: float) -> Array:
    """Return the action for a value of which all items are one number."""
    known = {**constants, raw: np.full(steps[-1].shape, number, np.float32)}
    fold_nodes(steps, known)
    return known[steps[-1].name]
