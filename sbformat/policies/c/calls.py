"""Nodes as calls of functions in C, the memory of their results, and numbers as literals.

:class:`Writer` turns one node after another into statements, and collects the functions and constants that these use.
A node that works item by item over operands of other shapes, or moves items, becomes a call for each row of neighbours,
within as many loops as are needed: axes that are neighbours in memory in all operands are one.

:class:`Memory` decides where each value is: in an argument, in a constant, or in one of the arrays on the stack, which
values share. There is one array for each type of C. Three rules make them small:

- A node that moves nothing (a reshape, a range of a vector) has its result in the memory of its operand: a *view*.
- A node that works item by item writes over an operand that nothing needs afterwards.
- Memory is free again after the last use of all values in it. A value gets the first gap that is large enough.

Worked example, ``a = Gemm(x); b = Tanh(a); c = Gemm(b)`` of 64 items each: ``b`` takes the memory of ``a``, and ``c``
gets the next 64 items: 128 in all.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np

from sbformat.errors import UnsupportedError, quote
from sbformat.immutable import Record
from sbformat.policies.c import functions
from sbformat.policies.c.functions import C_TYPES
from sbformat.policies.operators import OPERATORS, C

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sbformat.policies.graph import Node
    from sbformat.policies.operators import Result, Shape
    from sbformat.policies.run.kernels import Array

INDENT: Final = "    "
LONGEST_SUM: Final = 64
"""Inputs of a layer that are added one after another; sums of more lose digits, and are made of several."""
_NAMES: Final = ("x", "y")
_REALS: Final = ("float", "double")

ARRAYS: Final = {
    "float": "floats", "uint8_t": "bytes", "int8_t": "signed_bytes", "uint16_t": "words", "int16_t": "signed_words",
    "uint32_t": "counts", "int32_t": "integers", "double": "doubles",
}  # fmt: skip
"""The array on the stack for each type: one for all types would be undefined behaviour."""

_PER_LINE: Final = 8
_CHUNK: Final = _PER_LINE << 10  # items that are texts at the same time: numpy's array of texts has 128 bytes for each
_PLAIN: Final = (np.float32(2e-4), np.float32(2e5))  # where every release of numpy writes a float32 without an exponent
_NOT_FINITE: Final = {"nan": "NAN", "-nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}


class _Operand(Record):
    """An array as a node reads or writes it: the items between neighbours along each axis of the result."""

    place: Place
    strides: Shape


class Writer:
    """Writes the statements of nodes.

    :param prefix: of the names of functions
    :param memory: where values are
    :param types: dtype and shape of each value
    :param turned: the places of weights of layers with the inputs first, by the name of the weights

    After all nodes are written, ``definitions`` has the functions that they use, each after those that it uses.
    """

    def __init__(self, prefix: str, memory: Memory, types: Mapping[str, Result], turned: Mapping[str, Place]) -> None:
        self.definitions: dict[str, str] = {}
        self.multiply_adds = 0
        self._prefix, self._memory, self._types, self._turned = prefix, memory, types, turned

    def write(self, node: Node) -> list[str]:
        """Return the statements of a node."""
        row = OPERATORS[node.op]
        column = row.c or C()
        if not (row.moves or column.doubles) and any(self._types[name][0] == "float64" for name in node.inputs):
            _refuse(node.op, "float64")
        write: Callable[[Node], list[str]] = getattr(self, f"write_{column.write}")
        return write(node)

    def copy(self, kind: str, size: int, target: object, source: object) -> str:
        """Return the statement that copies neighbours."""
        return _call(self._use("copy", kind), size, target, source, 1)

    def clear(self, kind: str, size: int, target: str) -> str:
        """Return the statement that makes neighbours zero."""
        return _call(self._use("clear", kind), size, target)

    # -- item by item ---------------------------------------------------------------------------------

    def write_elementwise(self, node: Node) -> list[str]:
        dtype, _ = self._types[node.inputs[0]]
        kind = C_TYPES[dtype]
        column = OPERATORS[node.op].c or C()
        expression = _find_expression(column, dtype) or _refuse(node.op, dtype)
        function = self._define_elementwise(node, kind, expression.format(type=kind), column.statements)
        if len(node.inputs) == 1:
            attributes = [write_float(node.attributes[name]) for name in sorted(node.attributes)]
            return [_call(function, prod(node.shape), *self._in_and_out(node), *attributes)]
        return self._loop(function, node)

    def _define_elementwise(self, node: Node, kind: str, expression: str, statements: str = "") -> str:
        names = _NAMES[: len(node.inputs)]
        steps = len(names) > 1
        parameters = "".join(f", const {kind} *{name}s" + f", int32_t {name}_step" * steps for name in names)
        parameters += "".join(f", float {name}" for name in sorted(node.attributes))
        reads = "".join(f"        const {kind} {name} = {name}s[i{f' * {name}_step' * steps}];\n" for name in names)
        return self._use(
            _snake(node.op), kind, "elementwise", result=C_TYPES[node.dtype], parameters=parameters,
            operands=reads, preparation=statements, expression=expression,
        )  # fmt: skip

    def write_cast(self, node: Node) -> list[str]:
        kind, target = C_TYPES[self._types[node.inputs[0]][0]], C_TYPES[node.dtype]
        if kind == target and node.dtype != "bool":
            return self.write_copy(node)
        if node.dtype == "bool":
            expression = "(uint8_t)(x != 0)"
        elif target in _REALS or kind not in _REALS:
            expression = f"({target})x"
        else:
            suffix = "f" if kind == "float" else ""
            template = functions.CASTS.get(target, functions.CASTS[""])
            expression = template.format(type=target, f=suffix, whole=functions.WHOLE.format(f=suffix))
        name = "bool" if node.dtype == "bool" else target.removesuffix("_t")
        function = self._define_elementwise(node._replace(op=f"To_{name}", attributes={}), kind, expression)
        return [_call(function, prod(node.shape), *self._in_and_out(node))]

    def write_where(self, node: Node) -> list[str]:
        return self._loop(self._use("where", C_TYPES[node.dtype]), node)

    def _result(self, node: Node) -> _Operand:
        return _Operand(self._memory.places[node.name], _strides(node.shape))

    def _loop(self, function: str, node: Node) -> list[str]:
        """Return the calls of a function for all items of a result, to which the shapes of operands broadcast."""
        operands = [self._result(node)]
        for name in node.inputs:
            shape = self._types[name][1]
            padded = (1,) * (len(node.shape) - len(shape)) + tuple(shape)
            strides = tuple(0 if size == 1 else stride for size, stride in zip(padded, _strides(padded)))
            operands.append(_Operand(self._memory.places[name], strides))
        return _write_loops(function, node.shape, operands)

    # -- moved ----------------------------------------------------------------------------------------

    def write_copy(self, node: Node) -> list[str]:
        return [self.copy(C_TYPES[node.dtype], prod(node.shape), *self._in_and_out(node))]

    def _move(self, node: Node, shape: Shape, target: _Operand, source: _Operand) -> list[str]:
        return _write_loops(self._use("copy", C_TYPES[node.dtype]), shape, [target, source])

    def write_transpose(self, node: Node) -> list[str]:
        name = node.inputs[0]
        strides = _strides(self._types[name][1])
        source = _Operand(self._memory.places[name], tuple(strides[axis] for axis in node.attributes["axes"]))
        return self._move(node, node.shape, self._result(node), source)

    def write_slice(self, node: Node) -> list[str]:
        name = node.inputs[0]
        strides = _strides(self._types[name][1])
        start = self._memory.places[name].move(node.attributes["start"] * strides[node.attributes["axis"]])
        return self._move(node, node.shape, self._result(node), _Operand(start, strides))

    def write_concat(self, node: Node) -> list[str]:
        lines = []
        target = self._result(node)
        for name in node.inputs:
            shape = self._types[name][1]
            if prod(shape):
                lines += self._move(node, shape, target, _Operand(self._memory.places[name], _strides(shape)))
            moved = shape[node.attributes["axis"]] * target.strides[node.attributes["axis"]]
            target = target._replace(place=target.place.move(moved))
        return lines

    def write_one_hot(self, node: Node) -> list[str]:
        depth = node.attributes["depth"]
        return [_call(self._use("one_hot"), prod(node.shape) // depth, depth, *self._in_and_out(node))]

    # -- layers and axes ------------------------------------------------------------------------------

    def _in_and_out(self, node: Node) -> tuple[Place, Place]:
        return self._memory.places[node.name], self._memory.places[node.inputs[0]]

    def _use_linear(self, *, is_long: bool) -> str:
        linear = self._use("linear", restrict=f"{self._prefix.upper()}_RESTRICT")
        return self._use("long_linear", linear=linear, longest=str(LONGEST_SUM)) if is_long else linear

    def write_linear(self, node: Node) -> list[str]:
        (inputs,), (outputs,) = self._types[node.inputs[0]][1], node.shape
        self.multiply_adds += inputs * outputs
        is_long = inputs > LONGEST_SUM
        scratch = [self._memory.scratch[node.name]] if is_long else []
        function = self._use_linear(is_long=is_long)
        return [_call(function, inputs, outputs, *self._in_and_out(node), *self._layer(node), *scratch)]

    def _layer(self, node: Node) -> tuple[Place, Place]:
        """Return the places of the weights and the bias, which is a null pointer if there is none."""
        places = self._memory.places
        weight = (self._turned if has_turned_weight(node) else places)[node.inputs[1]]
        return weight, places[node.inputs[2]] if len(node.inputs) > 2 else Place("0")

    def write_convolution(self, node: Node) -> list[str]:
        shape, (filters, _, *kernel) = self._types[node.inputs[0]][1], self._types[node.inputs[1]][1]
        down, across = node.shape[1:]
        top, left = node.attributes["pads"][:2]
        self.multiply_adds += prod(node.shape) * prod(kernel) * shape[0]
        function = self._use("convolution", linear=self._use_linear(is_long=True))
        sizes = (*shape, filters, *kernel, *node.attributes["strides"], top, left, down, across)
        scratch = self._memory.scratch[node.name]
        return [_call(function, *sizes, *self._in_and_out(node), *self._layer(node), scratch)]

    def write_normalization(self, node: Node) -> list[str]:
        parts = [self._memory.places[name] for name in node.inputs[1:]]
        epsilon = write_float(node.attributes["epsilon"])
        return [_call(self._use("layer_normalization"), node.shape[0], *self._in_and_out(node), *parts, epsilon)]

    def write_softmax(self, node: Node) -> list[str]:
        sizes = _split_axes(node.shape, node.attributes["axis"])
        return [_call(self._use(_snake(node.op)), *sizes, *self._in_and_out(node))]

    def write_reduction(self, node: Node) -> list[str]:
        dtype, shape = self._types[node.inputs[0]]
        kind = C_TYPES[dtype]
        parts = functions.FLOAT_PARTS if kind == "float" else functions.INTEGER_PARTS
        parts = {name: text.format(type=kind) for name, text in parts.items()}
        name = _snake(node.op)
        body = functions.write_part(name, type=kind, **parts)
        function = self._use(name, kind, "reduce", result=C_TYPES[node.dtype], body=body)
        return [_call(function, *_split_axes(shape, node.attributes["axis"]), *self._in_and_out(node))]

    def _use(self, name: str, kind: str = "float", part: str = "", **fields: str) -> str:
        """Return the name of a function for items of a type, and define it when it is first used.

        :param part: of ``functions.c``, if its name is another one
        """
        function = f"{self._prefix}_{name}" + f"_{kind.removesuffix('_t')}" * (kind != "float")
        if function not in self.definitions:
            self.definitions[function] = functions.write_part(part or name, function=function, type=kind, **fields)
        return function


def _count_scratch(node: Node, types: Mapping[str, Result]) -> int:
    """Return the floats that a node needs while it runs.

    A convolution has the patch and the results of a pixel there; both it and a large layer have a part of the sums.
    """
    if node.op == "Conv":
        return prod(types[node.inputs[1]][1][1:]) + 2 * node.shape[0]
    return node.shape[0] if node.op == "Gemm" and types[node.inputs[0]][1][0] > LONGEST_SUM else 0


def has_turned_weight(node: Node) -> bool:
    """Return whether a node is a layer whose weights have another order than in its function: the outputs first."""
    return node.op == "Conv" or (node.op == "Gemm" and node.attributes["transB"])


def _refuse(op: str, dtype: str) -> NoReturn:
    raise UnsupportedError(f"{quote(op)} of {dtype} cannot be exported to C")


def _find_expression(column: C, dtype: str) -> str:
    """Return the expression of an operator for a type; empty if there is none."""
    kind = C_TYPES[dtype]
    if kind in _REALS:
        return column.floats if kind == "float" else column.doubles
    if dtype == "bool":
        return column.integers if column.has_bools else ""
    return column.unsigned if column.unsigned and kind.startswith("u") else column.integers


def _call(function: str, *arguments: object) -> str:
    return f"{function}({', '.join(map(str, arguments))});"


def _snake(op: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() and at else letter.lower() for at, letter in enumerate(op))


def _strides(shape: Shape) -> Shape:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _split_axes(shape: Shape, axis: int) -> Shape:
    """Return the items before an axis, along it, and after it."""
    at = len(shape) + axis
    return prod(shape[:at]), shape[at], prod(shape[at + 1 :])


def _write_loops(function: str, shape: Shape, operands: Sequence[_Operand]) -> list[str]:
    """Return the calls of a function for all items of a shape; the first operand is the result."""
    sizes, strides = _merge_axes(shape, [operand.strides for operand in operands])
    depth = len(sizes) - 1
    lines = [f"{INDENT * at}for (int32_t i{at} = 0; i{at} < {sizes[at]}; i{at}++) {{" for at in range(depth)]
    places = []
    for operand, steps in zip(operands, strides):
        terms = [f" + i{at}" + f" * {step}" * (step != 1) for at, step in enumerate(steps[:-1]) if step]
        places.append("".join([str(operand.place), *terms]))
    arguments = [item for place, steps in zip(places[1:], strides[1:]) for item in (place, steps[-1])]
    lines.append(INDENT * depth + _call(function, sizes[-1], places[0], *arguments))
    return [*lines, *(f"{INDENT * at}}}" for at in reversed(range(depth)))]


def _merge_axes(shape: Shape, strides: Sequence[Shape]) -> tuple[list[int], list[list[int]]]:
    """Return fewer axes for the same items; along the last one the items of the result are neighbours."""
    sizes: list[int] = []
    made: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        here = [stride[axis] for stride in strides]
        if size == 1:
            continue
        if sizes and all(before[-1] == stride * size for before, stride in zip(made, here)):
            sizes[-1] *= size
            for before, stride in zip(made, here):
                before[-1] = stride
            continue
        sizes.append(size)
        for before, stride in zip(made, here):
            before.append(stride)
    if not sizes or made[0][-1] != 1:
        sizes.append(1)
        for before in made:
            before.append(0)
    return sizes, made


# -- memory -------------------------------------------------------------------------------------------


class Place(Record):
    """Memory of a value, as an expression of C and a number of items after it."""

    base: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.base} + {self.offset}" if self.offset else self.base

    def move(self, items: int) -> Place:
        """Return the place of an item further on."""
        return Place(self.base, self.offset + items)


class _Block:
    """A part of an array on the stack, which is in use until a node."""

    __slots__ = ("end", "offset", "until")

    def __init__(self, offset: int, size: int, until: int) -> None:
        self.offset, self.end, self.until = offset, offset + size, until


class Memory:
    """The places of all values.

    :param nodes: in order
    :param given: the places of inputs and constants, by name
    :param types: of all values: dtype and shape by name
    :param results: values that are read after the last node
    :param copied: nodes that must not be views
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        given: Mapping[str, Place],
        types: Mapping[str, Result],
        results: Iterable[str],
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
        self._used: dict[str, list[_Block]] = defaultdict(list)  # blocks by type, in order of their offsets
        views = {node.name: find_view(node, *types[node.inputs[0]]) for node in nodes if node.name not in copied}
        self._owners: dict[str, str] = {}
        self._last: dict[str, int] = {}  # the last use of any value in the memory of an owner
        for at, node in enumerate(nodes):
            is_view = views.get(node.name) is not None
            self._owners[node.name] = self._owner(node.inputs[0]) if is_view else node.name
            self._last.update({self._owner(name): at for name in (*node.inputs, node.name)})
        self._last.update({self._owner(name): len(nodes) for name in results})
        for at, node in enumerate(nodes):
            start = views.get(node.name)
            if start is not None:
                self.places[node.name] = self.places[node.inputs[0]].move(start)
            elif prod(node.shape):
                self.steps.append(node)
                self._place(at, node)
            else:
                self.places[node.name] = Place("0")

    def _owner(self, name: str) -> str:
        return self._owners.get(name, name)

    def _place(self, at: int, node: Node) -> None:
        operand = next((name for name in node.inputs if self._is_replaceable(at, node, name)), None)
        kind = C_TYPES[node.dtype]
        if operand is not None:
            block = self._blocks[self._owner(operand)]
            block.until = self._last[node.name]
            self.places[node.name] = self.places[operand]
        else:
            block = self._claim(at, kind, prod(node.shape), self._last[node.name])
            self.places[node.name] = Place(ARRAYS[kind], block.offset)
        self._blocks[node.name] = block
        scratch = _count_scratch(node, self._types)
        if scratch:
            self.scratch[node.name] = Place(ARRAYS["float"], self._claim(at, "float", scratch, at).offset)

    def _is_replaceable(self, at: int, node: Node, operand: str) -> bool:
        """Return whether a result may be written over an operand: item by item, and it is not read again."""
        owner, (dtype, shape) = self._owner(operand), self._types[operand]
        return (
            OPERATORS[node.op].in_place
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
    view = OPERATORS[node.op].view
    if view == "slice":
        axis = len(shape) + node.attributes["axis"]
        return node.attributes["start"] * prod(shape[axis + 1 :]) if prod(shape[:axis]) == 1 else None
    if view == "cast":
        is_view = C_TYPES[dtype] == C_TYPES[node.dtype] and (node.dtype != "bool" or dtype == "bool")
    elif view == "transposed":
        axes = [axis for axis in node.attributes["axes"] if shape[axis] != 1]  # those of size 1 may be anywhere
        is_view = axes == sorted(axes)
    else:
        is_view = view in ("same", "reshaped")
    return 0 if is_view else None


# -- numbers ------------------------------------------------------------------------------------------


def write_float(value: float) -> str:
    """Return the shortest literal that is the same number in float32."""
    return _write_floats(np.array([value]))[0]


def _write_floats(array: Array) -> list[str]:
    """Return the literals of a vector; they do not depend on the release of numpy."""
    with np.errstate(over="ignore"):
        floats = array.astype(np.float32)
    texts: list[str] = floats.astype(np.str_).tolist()
    magnitudes = np.abs(floats)
    is_plain = (magnitudes == 0) | ((magnitudes >= _PLAIN[0]) & (magnitudes < _PLAIN[1]))
    for at in np.flatnonzero(~is_plain).tolist():
        texts[at] = np.format_float_scientific(floats[at], trim="-", exp_digits=2)
    return [_NOT_FINITE.get(text) or f"{text}f" for text in texts]


def write_array(name: str, array: Array) -> str:
    """Return the definition of an array; an empty one has an item that nothing reads.

    :param name: an identifier
    """
    size, items = max(1, array.size), array.reshape(-1) if array.size else np.zeros(1, np.uint8)
    lines = [f"static const {C_TYPES[array.dtype.name]} {name}[{size}] = {{"]
    for start in range(0, size, _CHUNK):
        texts = _write_items(items[start : start + _CHUNK], name)
        lines += [f"    {', '.join(texts[at : at + _PER_LINE])}," for at in range(0, len(texts), _PER_LINE)]
    return "\n".join([*lines, "};", ""])


def _write_items(array: Array, name: str) -> list[str]:
    if array.dtype == np.float64:
        return [f"(double){_NOT_FINITE[text]}" if text in _NOT_FINITE else text for text in map(repr, array.tolist())]
    if array.dtype.kind == "f":
        return _write_floats(array)
    numbers = array.astype(object)
    if array.dtype.itemsize == 8:
        for number in numbers:
            if not -(2**31) <= number < 2**31:
                message = f"expected integers of 32 bits in {quote(name)}, got {number}: C source has no larger ones"
                raise UnsupportedError(message)
    return [
        "(-2147483647 - 1)" if number == -(2**31) else f"{int(number)}{'u' * (number >= 2**31)}" for number in numbers
    ]
