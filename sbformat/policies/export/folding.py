"""``fold_constants``: the nodes that depend on weights alone, computed while a policy is exported.

They are computed in float64 and rounded once: numpy's functions of float32 differ in the last bit between processors,
and the same agent gives the same bytes everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.policies.run.program import fold_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat.policies.graph import Node
    from sbformat.policies.run.steps import Array

_SINGLE: Final = "float32"
_DOUBLE: Final = "float64"


def fold_constants(nodes: Sequence[Node], constants: dict[str, Array]) -> tuple[Node, ...]:
    """Return the nodes that depend on inputs.

    :param constants: by name; the results of the other nodes are added, in their dtype
    """
    known, kept, folded = set(constants), [], []
    for node in nodes:
        if known.issuperset(node.inputs):
            folded.append(node)
            known.add(node.name)
        else:
            kept.append(node)
    results = compute_in_float64(folded, constants)
    with np.errstate(all="ignore"):
        constants.update({node.name: results[node.name].astype(node.dtype) for node in folded})
    return tuple(kept)


def compute_in_float64(nodes: Sequence[Node], constants: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return the results of nodes whose operands are constants, or results of others, in float64 instead of float32.

    :param nodes: in order
    """
    used = {name for node in nodes for name in node.inputs}
    known = {name: _widen(constants[name]) for name in used if name in constants}
    fold_nodes([node._replace(dtype=_DOUBLE) if node.dtype == _SINGLE else node for node in nodes], known)
    return known


def _widen(array: Array) -> Array:
    return array.astype(_DOUBLE) if array.dtype == _SINGLE else array
