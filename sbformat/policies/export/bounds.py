"""Scaling an action to the bounds of its space, without going beyond them by rounding.

SB3 and SB2 compute ``low + 0.5 * (x + 1) * (high - low)``, in five steps. For bounds up to 16 that is one product and
one sum, ``factor * x + summand``, with constants that follow from its values at -1 and 1, so bounds of -1 and 1 cost
nothing. For wider ones such a sum would lose the digits of the lesser bound: they have the steps of SB3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    made = []
    value = raw
    for op, array, suffix in _find_steps(low, high):
        number, name = f"{last.name}/{op}{suffix} by bounds", f"{last.name}/{op}{suffix}"
        constants[number] = array
        made.append(Node(name, op, (value, number), FrozenDict(), SINGLE, last.shape, BOUNDS))
        value = name
    made.append(Node(last.name, "Identity", (value,), FrozenDict(), SINGLE, last.shape, BOUNDS))
    others = [node for node in nodes if node.module != BOUNDS]
    at = max((at + 1 for at, node in enumerate(others) if node.name == raw), default=0)
    return (*others[:at], *made, *others[at:])


_WIDE: Final = 16
"""Up to here, the product and the sum are within 2e-6 of what SB3 computes."""


def _find_steps(low: Array, high: Array) -> list[tuple[str, Array, str]]:
    """Return the steps that take -1 and 1 as far as the bounds, and not beyond: operator, operand of float32, suffix.

    The bounds that float32 has are ``least`` and ``most``. A factor that is at most their distances from the summand
    gives a sum that is at most ``most`` before it is rounded, and so after. Nothing is between reversed bounds.
    """
    with np.errstate(all="ignore"):
        least, most = round_inwards(low, is_low=True), round_inwards(high, is_low=False)
        is_wide = max(np.abs(least).max(initial=0), np.abs(most).max(initial=0)) > _WIDE
        middle = ((low + high) / 2).astype(np.float32)
        summand = np.where(low <= high, np.clip(middle, least, most), middle)
        exact = (least if is_wide else summand).astype(np.float64)
        room = most - exact if is_wide else np.minimum(most - exact, exact - least)
        factor = round_inwards(np.where(low <= high, room, (high - low) / (1 if is_wide else 2)), is_low=False)
    if is_wide:
        one, half = (np.full(low.shape, number, np.float32) for number in (1, 0.5))
        return [("Add", one, " one"), ("Mul", half, " half"), ("Mul", factor, ""), ("Add", least, "")]
    steps = [("Mul", factor, 1), ("Add", summand, 0)]
    return [(op, array, "") for op, array, neutral in steps if (array != neutral).any()]
