"""Scaling an action to the bounds of its space, as one product and one sum.

SB3 and SB2 compute ``low + 0.5 * (x + 1) * (high - low)``, in five steps. That is ``factor * x + summand``, with
constants that follow from its values at -1 and 1, so bounds of -1 and 1 cost nothing. They are chosen so that rounding
never takes an action beyond its bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sbformat.immutable import FrozenDict
from sbformat.policies.export.float32 import SINGLE, round_inwards
from sbformat.policies.export.folding import compute_in_float64
from sbformat.policies.graph import BOUNDS, Node
from sbformat.policies.run.program import fold_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.policies.run.steps import Array


def combine_bounds(nodes: Sequence[Node], constants: dict[str, Array], raw: str) -> tuple[Node, ...]:
    """Replace the steps that scale an action to bounds; those that clip it remain.

    :param nodes: in order
    :param constants: by name; the factor and the summand are added
    :param raw: the value that is scaled
    """
    steps = [node for node in nodes if node.module == BOUNDS]
    if raw in constants or not steps or steps[-1].op != "Add":
        return tuple(nodes)
    last = steps[-1]
    at_one = {**constants, raw: np.ones(last.shape, np.float32)}
    fold_nodes(steps, at_one)
    if not np.isfinite(at_one[last.name]).all():  # the width of the bounds overflows, or they are infinite
        return tuple(nodes)
    low, high = (
        compute_in_float64(steps, {**constants, raw: np.full(last.shape, number, np.float64)})[last.name]
        for number in (-1, 1)
    )
    factor, summand = _find_line(low, high)
    made = []
    value = raw
    for op, array, neutral in (("Mul", factor, 1), ("Add", summand, 0)):
        if (array != neutral).any():
            number = f"{last.name}/{op} by bounds"
            constants[number] = array
            made.append(Node(f"{last.name}/{op}", op, (value, number), FrozenDict(), SINGLE, last.shape, BOUNDS))
            value = made[-1].name
    made.append(Node(last.name, "Identity", (value,), FrozenDict(), SINGLE, last.shape, BOUNDS))
    others = [node for node in nodes if node.module != BOUNDS]
    at = max((at + 1 for at, node in enumerate(others) if node.name == raw), default=0)
    return (*others[:at], *made, *others[at:])


def _find_line(low: Array, high: Array) -> tuple[Array, Array]:
    """Return a factor and a summand of float32 that take -1 and 1 as far as the bounds, and not beyond.

    The bounds that float32 has are ``least`` and ``most``. A factor that is at most their distances from the summand
    gives a sum that is at most ``most`` before it is rounded, and so after. Nothing is between reversed bounds.
    """
    with np.errstate(all="ignore"):
        least, most = round_inwards(low, is_low=True), round_inwards(high, is_low=False)
        middle = ((low + high) / 2).astype(np.float32)
        summand = np.where(low <= high, np.clip(middle, least, most), middle)
        exact = summand.astype(np.float64)
        width = np.where(low <= high, np.minimum(most - exact, exact - least), (high - low) / 2)
    return round_inwards(width, is_low=False), summand
