"""``Narrowed``: nodes in float64 as nodes in float32 that compute the same within float32's precision.

A graph has float64 where SB3 computes with numpy: in VecNormalize, and with the bounds of an action. Runtimes for
devices do not have it, and others are slow. Rounding every constant is not enough: the difference of an observation
and a mean of 1000 that deviates by 0.1 would lose four digits. So a mean that float32 does not represent is subtracted
in two parts, ``(x - high) - low``: near the mean the first difference is exact, and the second has the digits that
``high`` lacks. An input of float64 keeps its dtype, and its mean is subtracted before it is cast; an input of integers
that float32 does not represent is cast to float64 for that.

Bounds are rounded inwards, so that a clipped action is never outside of the space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.errors import UnsupportedError, quote
from sbformat.immutable import FrozenDict
from sbformat.policies.graph import BOUNDS, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.policies.graph import Input
    from sbformat.policies.run.steps import Array

_DOUBLE: Final = "float64"
SINGLE: Final = "float32"
_WIDE_INTEGERS: Final = frozenset({"int32", "uint32", "int64", "uint64"})
"""Integers that float32 does not represent from 2**24."""


class Narrowed:
    """Nodes and constants without float64, and without nodes that change nothing.

    :param nodes: in order; no operand of all constants
    :param inputs: of the graph; they keep their dtype
    :param constants: by name

    Example::

        narrowed = Narrowed(nodes, graph.inputs, constants)
        narrowed.nodes, narrowed.constants, narrowed.find(graph.outputs["action"])
    """

    def __init__(self, nodes: Sequence[Node], inputs: Iterable[Input], constants: Mapping[str, Array]) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {name: narrow_array(array) for name, array in constants.items()}
        self._exact = constants
        self._names: dict[str, str] = {}
        """The value that has replaced another one, by its name."""
        self._dtypes: dict[str, str] = {item.name: item.dtype for item in inputs}
        self._shapes: dict[str, tuple[int, ...]] = {item.name: item.shape for item in inputs}
        self._made: dict[str, Node] = {}
        self._doubles = frozenset(item.name for item in inputs if item.dtype == _DOUBLE)
        self._integers = frozenset(item.name for item in inputs if item.dtype in _WIDE_INTEGERS)
        for node in nodes:
            self._add(node)

    def find(self, name: str) -> str:
        """Return the name of the value that a value has become."""
        return self._names.get(name, name)

    def _add(self, node: Node) -> None:
        operands = [self.find(name) for name in node.inputs]
        dtype = SINGLE if node.dtype == _DOUBLE else node.dtype
        first = operands[0]
        if self._changes_nothing(node, first, dtype):
            self._names[node.name] = first
        elif node.op == "Sub" and node.dtype == _DOUBLE and node.inputs[1] in self._exact:
            self._require_range(node)
            self._subtract(node, first)
        elif node.op == "Cast":
            self._emit(node, [first], dtype, to=dtype)
        elif node.op == "Reshape" and first in self._made and self._made[first].op == "Reshape":
            self._emit(node, [self._made[first].inputs[0]], dtype, **node.attributes)
        else:
            if node.op == "Div" and node.dtype == _DOUBLE:
                self._require_range(node)
            if node.module == BOUNDS and node.op in ("Max", "Min"):
                operands[1] = self._round_inwards(node)
            self._emit(node, [self._single(name) for name in operands], dtype, **node.attributes)

    def _changes_nothing(self, node: Node, first: str, dtype: str) -> bool:
        if first in self.constants:
            return False
        is_same = self._dtypes[first] == dtype and self._shapes[first] == node.shape
        if node.op == "Transpose":
            return is_same and node.attributes["axes"] == tuple(range(len(node.shape)))
        return is_same and node.op in ("Identity", "Cast", "Reshape")

    def _subtract(self, node: Node, first: str) -> None:
        """Subtract a constant of float64: in float64 from an input, in two parts from another value."""
        exact = self._exact[node.inputs[1]]
        first = self._widen(first)
        if self._dtypes[first] == _DOUBLE:
            wide = f"{node.inputs[1]}/float64"
            self.constants[wide] = np.ascontiguousarray(exact)
            difference = node._replace(name=f"{node.name}/float64", inputs=(first, wide))
            self._keep(difference)
            self._emit(node._replace(op="Cast"), [difference.name], SINGLE, to=SINGLE)
            return
        high = self.constants[node.inputs[1]]
        with np.errstate(all="ignore"):
            rest = exact - high.astype(np.float64)
        low = narrow_array(np.where(np.isfinite(rest), rest, 0))
        first = self._single(first)
        if low.any():
            rough, part = f"{node.name}/rough", f"{node.inputs[1]}/rest"
            self.constants[part] = low
            self._emit(node._replace(name=rough), [first, node.inputs[1]], SINGLE)
            self._emit(node, [rough, part], SINGLE)
        else:
            self._emit(node, [first, node.inputs[1]], SINGLE)

    def _require_range(self, node: Node) -> None:
        """Refuse a mean that is infinite as float32, and a deviation that is 0.

        :raises UnsupportedError: with the number
        """
        name = node.inputs[1]
        if name not in self._exact:
            return
        exact, rounded = self._exact[name], self.constants[name]
        is_lost = (rounded == 0) & (exact != 0) if node.op == "Div" else np.isinf(rounded) & np.isfinite(exact)
        if is_lost.any():
            message = f"{quote(node.module or name, 80)}: expected numbers that float32 has, got {exact[is_lost][0]}"
            raise UnsupportedError(message)

    def _widen(self, name: str) -> str:
        """Return the name of a value as float64 if it was an input of large integers, which is cast to float32."""
        made = self._made.get(name)
        if made is None or made.op != "Cast" or made.inputs[0] not in self._integers:
            return name
        wide = made._replace(name=f"{name}/float64", dtype=_DOUBLE, attributes=FrozenDict({"to": _DOUBLE}))
        if wide.name not in self._made:
            self._keep(wide)
        return wide.name

    def _round_inwards(self, node: Node) -> str:
        """Return the name of a bound as float32 that is not beyond the bound of float64."""
        name = node.inputs[1]
        inner = round_inwards(self._exact[name], is_low=node.op == "Max")
        if (inner == self.constants[name]).all():
            return name
        self.constants[f"{name}/inner"] = inner
        return f"{name}/inner"

    def _single(self, name: str) -> str:
        """Return the name of an operand that is not float64."""
        if name not in self._doubles:
            return name
        cast = f"{name}/float32"
        if cast not in self._made:
            self._keep(Node(cast, "Cast", (name,), FrozenDict({"to": SINGLE}), SINGLE, self._shapes[name]))
        return cast

    def _emit(self, node: Node, operands: Sequence[str], dtype: str, **attributes: object) -> None:
        self._keep(node._replace(inputs=tuple(operands), dtype=dtype, attributes=FrozenDict(attributes)))

    def _keep(self, node: Node) -> None:
        self.nodes.append(node)
        self._made[node.name] = node
        self._dtypes[node.name], self._shapes[node.name] = node.dtype, node.shape


def round_inwards(bound: Array, *, is_low: bool) -> Array:
    """Return a bound as float32: the least that is not below a lower bound, or the greatest not above an upper one."""
    rounded = narrow_array(bound)
    is_beyond = rounded < bound if is_low else rounded > bound
    inner = np.nextafter(rounded, np.float32(np.inf if is_low else -np.inf), dtype=np.float32)
    return np.asarray(np.where(is_beyond, inner, rounded))


def narrow_array(array: Array) -> Array:
    """Return an array in C order, as float32 if it is float64; what is too large becomes infinite."""
    with np.errstate(all="ignore"):
        return np.asarray(array, np.float32 if array.dtype == np.float64 else array.dtype, order="C")
