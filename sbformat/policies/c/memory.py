"""Where each value is: in an argument, in a constant, or in one of the arrays on the stack, which values share.

Theory of operation
-------------------
*In*: nodes in order. *Out*: a :class:`Place` for each value, and the size of one array for each type of C. Three rules
make the arrays small:

- A node that moves nothing (a reshape, a range of a vector) has its result in the memory of its operand: a *view*.
- A node that works item by item writes over an operand that nothing needs afterwards.
- Memory is free again after the last use of all values in it. A value gets the first gap that is large enough.

Worked example, ``a = Gemm(x); b = Tanh(a); c = Gemm(b)`` of 64 items each: ``b`` takes the memory of ``a``, and ``c``
gets the next 64 items: 128 in all.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.policies.c.numbers import C_TYPES
from sbformat.policies.run.kernels import IN_PLACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.policies.graph import Node
    from sbformat.policies.operators import Result, Shape

ARRAYS: Final = {
    "float": "floats", "uint8_t": "bytes", "int8_t": "signed_bytes", "uint16_t": "words", "int16_t": "signed_words",
    "uint32_t": "counts", "int32_t": "integers", "double": "doubles",
}  # fmt: skip
"""The array on the stack for each type: one for all types would be undefined behaviour."""


class Place(NamedTuple):
    """Memory of a value, as an expression of C and a number of items after it."""

    base: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.base} + {self.offset}" if self.offset else self.base

    def move(self, items: int) -> Place:
        """Return the place of an item further on."""
        return Place(self.base, self.offset + items)


class _Block:
    """A part of an array on the stack."""

    __slots__ = ("end", "offset", "until")

    def __init__(self, offset: int, size: int, until: int) -> None:
        self.offset, self.end, self.until = offset, offset + size, until


class Memory:
    """The places of all values.

    :param nodes: in order
    :param given: the places of inputs and constants, by name
    :param types: of all values: dtype and shape by name
    :param results: values that are read after the last node
    :param scratch: items of type float that a node needs while it runs, by its name
    :param copied: nodes that must not be views
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        given: Mapping[str, Place],
        types: Mapping[str, Result],
        results: Iterable[str],
        scratch: Mapping[str, int],
        copied: frozenset[str],
    ) -> None:
        self.places: dict[str, Place] = dict(given)
        self.scratch: dict[str, Place] = {}
        self.sizes: dict[str, int] = defaultdict(int)
        """Items of the array of each type that is needed."""
        self.steps: list[Node] = []
        """The nodes that compute or move something."""
        self._types = types
        self._blocks: dict[str, _Block] = {}
        self._used: dict[str, list[_Block]] = defaultdict(list)
        """Blocks by type, in order of their offsets."""
        views = {node.name: find_view(node, *types[node.inputs[0]]) for node in nodes if node.name not in copied}
        self._owners: dict[str, str] = {}
        for node in nodes:
            is_view = views.get(node.name) is not None
            self._owners[node.name] = self._owner(node.inputs[0]) if is_view else node.name
        self._last: dict[str, int] = {}
        """The last use of any value in the memory of an owner."""
        for at, node in enumerate(nodes):
            self._last.update({self._owner(name): at for name in (*node.inputs, node.name)})
        self._last.update({self._owner(name): len(nodes) for name in results})
        for at, node in enumerate(nodes):
            start = views.get(node.name)
            if start is not None:
                self.places[node.name] = self.places[node.inputs[0]].move(start)
            elif prod(node.shape):
                self.steps.append(node)
                self._place(at, node, scratch.get(node.name, 0))
            else:
                self.places[node.name] = Place("0")

    def _owner(self, name: str) -> str:
        return self._owners.get(name, name)

    def _place(self, at: int, node: Node, scratch: int) -> None:
        operand = next((name for name in node.inputs if self._is_replaceable(at, node, name)), None)
        if operand is not None:
            block = self._blocks[self._owner(operand)]
            block.until = self._last[node.name]
            self.places[node.name] = self.places[operand]
        else:
            kind = C_TYPES[node.dtype]
            block = self._claim(at, kind, prod(node.shape), self._last[node.name])
            self.places[node.name] = Place(ARRAYS[kind], block.offset)
        self._blocks[node.name] = block
        if scratch:
            self.scratch[node.name] = Place(ARRAYS["float"], self._claim(at, "float", scratch, at).offset)

    def _is_replaceable(self, at: int, node: Node, operand: str) -> bool:
        """Return whether a result may be written over an operand: item by item, and it is not read again."""
        owner, (dtype, shape) = self._owner(operand), self._types[operand]
        return (
            node.op in IN_PLACE
            and owner in self._blocks
            and self._last[owner] <= at
            and C_TYPES[dtype] == C_TYPES[node.dtype]
            and prod(shape) == prod(node.shape)
            and all(self._owner(name) != owner for name in node.inputs if name != operand)
        )

    def _claim(self, at: int, kind: str, size: int, until: int) -> _Block:
        """Return memory that is free from a node on."""
        used = [block for block in self._used[kind] if block.until >= at]
        offset = position = 0
        while position < len(used) and used[position].offset - offset < size:
            offset = used[position].end
            position += 1
        made = _Block(offset, size, until)
        used.insert(position, made)
        self._used[kind] = used
        self.sizes[kind] = max(self.sizes[kind], made.end)
        return made


def find_view(node: Node, dtype: str, shape: Shape) -> int | None:
    """Return where in its first operand a result is; None when it has to be computed or copied.

    :param dtype: of the operand
    :param shape: of the operand
    """
    if node.op in ("Identity", "Reshape"):
        return 0
    if node.op == "Cast":
        is_same = C_TYPES[dtype] == C_TYPES[node.dtype]
        return 0 if is_same and (node.dtype != "bool" or dtype == "bool") else None
    if node.op == "Slice":
        axis = len(shape) + node.attributes["axis"]
        return node.attributes["start"] * prod(shape[axis + 1 :]) if prod(shape[:axis]) == 1 else None
    if node.op == "Transpose":  # axes of size 1 may be anywhere
        axes = [axis for axis in node.attributes["axes"] if shape[axis] != 1]
        return 0 if axes == sorted(axes) else None
    return None
