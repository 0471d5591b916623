"""Nodes as calls of functions in C.

:class:`Writer` turns one node after another into statements, and collects the functions and constants that these use.
A node that works item by item over operands of other shapes, or moves items, becomes a call for each row of neighbours,
within as many loops as are needed: axes that are neighbours in memory in all operands are one.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from sbformat.errors import UnsupportedError, quote
from sbformat.policies.c import functions
from sbformat.policies.c.memory import Place
from sbformat.policies.c.numbers import C_TYPES, write_float

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sbformat.policies.c.memory import Memory
    from sbformat.policies.graph import Node
    from sbformat.policies.operators import Result, Shape

INDENT: Final = "    "
LONGEST_SUM: Final = 64
"""Inputs of a layer that are added one after another; sums of more lose digits, and are made of several."""
_NAMES: Final = ("x", "y")
_REALS: Final = ("float", "double")
_DOUBLES: Final = frozenset({"Sub", "Cast", "Where", "Identity", "Reshape", "Transpose", "Concat", "Slice"})
"""Operators that have a function for double."""


class _Operand(NamedTuple):
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
        """Return the statements of a node.

        :raises UnsupportedError: for an operator over a type that has no function
        """
        known: dict[str, Callable[[Node], list[str]]] = {
            "Identity": self._write_copy, "Reshape": self._write_copy, "Cast": self._write_cast,
            "Where": self._write_where, "OneHot": self._write_one_hot, "Transpose": self._write_transpose,
            "Concat": self._write_concat, "Slice": self._write_slice, "Gemm": self._write_linear,
            "Conv": self._write_convolution, "LayerNormalization": self._write_normalization,
            "Softmax": self._write_softmax, "LogSoftmax": self._write_softmax,
        }  # fmt: skip
        if node.op not in _DOUBLES and any(self._types[name][0] == "float64" for name in node.inputs):
            _refuse(node.op, "float64")
        if node.op in known:
            return known[node.op](node)
        if node.op in functions.REDUCTIONS:
            return self._write_reduction(node)
        return self._write_elementwise(node)

    def copy(self, kind: str, size: int, target: str, source: str) -> str:
        """Return the statement that copies neighbours."""
        return f"{self._use('copy', functions.FUNCTIONS['copy'], kind)}({size}, {target}, {source}, 1);"

    def clear(self, kind: str, size: int, target: str) -> str:
        """Return the statement that makes neighbours zero."""
        return f"{self._use('clear', functions.FUNCTIONS['clear'], kind)}({size}, {target});"

    # -- item by item ---------------------------------------------------------------------------------

    def _write_elementwise(self, node: Node) -> list[str]:
        dtype, _ = self._types[node.inputs[0]]
        kind = C_TYPES[dtype]
        is_unary = len(node.inputs) == 1
        table = _find_expressions(kind, is_unary=is_unary)
        if node.op not in table or (dtype == "bool" and node.op not in ("Max", "Min", "Greater")):
            _refuse(node.op, dtype)
        names = _NAMES[: len(node.inputs)]
        function = self._define_elementwise(node, kind, table[node.op].format(type=kind), names)
        attributes = [write_float(node.attributes[name]) for name in sorted(node.attributes)]
        operands = [self._broadcast(node, name) for name in node.inputs]
        if is_unary:
            x = operands[0].place
            return [_call(function, prod(node.shape), self._memory.places[node.name], x, *attributes)]
        return self._loop(function, node.shape, [self._result(node), *operands])

    def _define_elementwise(self, node: Node, kind: str, expression: str, names: Sequence[str]) -> str:
        steps = len(names) > 1
        parameters = "".join(f", const {kind} *{name}s" + f", int32_t {name}_step" * steps for name in names)
        parameters += "".join(f", float {name}" for name in sorted(node.attributes) if node.op != "Cast")
        reads = "".join(f"        const {kind} {name} = {name}s[i{f' * {name}_step' * steps}];\n" for name in names)
        return self._use(
            _snake(node.op), functions.ELEMENTWISE_BODY, kind, result=C_TYPES[node.dtype], parameters=parameters,
            operands=reads, preparation=functions.PREPARATIONS.get(node.op, ""), expression=expression,
        )  # fmt: skip

    def _write_cast(self, node: Node) -> list[str]:
        kind, target = C_TYPES[self._types[node.inputs[0]][0]], C_TYPES[node.dtype]
        x, out = self._memory.places[node.inputs[0]], self._memory.places[node.name]
        size = prod(node.shape)
        if kind == target and node.dtype != "bool":
            return [self.copy(kind, size, str(out), str(x))]
        if node.dtype == "bool":
            expression = "(uint8_t)(x != 0)"
        elif target in _REALS or kind not in _REALS:
            expression = f"({target})x"
        else:
            suffix = "f" if kind == "float" else ""
            template = functions.CASTS.get(target, functions.CASTS[""])
            expression = template.format(type=target, f=suffix, whole=functions.WHOLE.format(f=suffix))
        named = node._replace(op=f"To_{node.dtype if node.dtype == 'bool' else target.removesuffix('_t')}")
        return [_call(self._define_elementwise(named._replace(attributes={}), kind, expression, ("x",)), size, out, x)]

    def _write_where(self, node: Node) -> list[str]:
        function = self._use("where", functions.FUNCTIONS["where"], C_TYPES[node.dtype])
        return self._loop(
            function, node.shape, [self._result(node), *(self._broadcast(node, name) for name in node.inputs)]
        )

    def _result(self, node: Node) -> _Operand:
        return _Operand(self._memory.places[node.name], _strides(node.shape))

    def _broadcast(self, node: Node, name: str) -> _Operand:
        shape = self._types[name][1]
        padded = (1,) * (len(node.shape) - len(shape)) + tuple(shape)
        strides = tuple(0 if size == 1 else stride for size, stride in zip(padded, _strides(padded)))
        return _Operand(self._memory.places[name], strides)

    def _loop(self, function: str, shape: Shape, operands: Sequence[_Operand]) -> list[str]:
        """Return the calls of a function for all items of a shape; the first operand is the result."""
        sizes, strides = _merge_axes(shape, [operand.strides for operand in operands])
        lines, terms = [], ["" for _ in operands]
        for at, size in enumerate(sizes[:-1]):
            index = f"i{at}"
            lines.append(f"{INDENT * at}for (int32_t {index} = 0; {index} < {size}; {index}++) {{")
            terms = [term + _term(index, stride[at]) for term, stride in zip(terms, strides)]
        places = [f"{operand.place}{term}" for operand, term in zip(operands, terms)]
        arguments = [item for place, stride in zip(places[1:], strides[1:]) for item in (place, stride[-1])]
        depth = len(sizes) - 1
        lines.append(INDENT * depth + _call(function, sizes[-1], places[0], *arguments))
        return [*lines, *(f"{INDENT * at}}}" for at in reversed(range(depth)))]

    # -- moved ----------------------------------------------------------------------------------------

    def _write_copy(self, node: Node) -> list[str]:
        source = self._memory.places[node.inputs[0]]
        return [self.copy(C_TYPES[node.dtype], prod(node.shape), str(self._memory.places[node.name]), str(source))]

    def _move(self, node: Node, shape: Shape, target: _Operand, source: _Operand) -> list[str]:
        return self._loop(self._use("copy", functions.FUNCTIONS["copy"], C_TYPES[node.dtype]), shape, [target, source])

    def _write_transpose(self, node: Node) -> list[str]:
        name = node.inputs[0]
        strides = _strides(self._types[name][1])
        source = _Operand(self._memory.places[name], tuple(strides[axis] for axis in node.attributes["axes"]))
        return self._move(node, node.shape, self._result(node), source)

    def _write_slice(self, node: Node) -> list[str]:
        name = node.inputs[0]
        strides = _strides(self._types[name][1])
        start = self._memory.places[name].move(node.attributes["start"] * strides[node.attributes["axis"]])
        return self._move(node, node.shape, self._result(node), _Operand(start, strides))

    def _write_concat(self, node: Node) -> list[str]:
        lines = []
        target = self._result(node)
        for name in node.inputs:
            shape = self._types[name][1]
            if prod(shape):
                source = _Operand(self._memory.places[name], _strides(shape))
                lines += self._move(node, shape, target, source)
            moved = shape[node.attributes["axis"]] * target.strides[node.attributes["axis"]]
            target = target._replace(place=target.place.move(moved))
        return lines

    def _write_one_hot(self, node: Node) -> list[str]:
        function = self._use("one_hot", functions.FUNCTIONS["one_hot"])
        depth = node.attributes["depth"]
        return [_call(function, prod(node.shape) // depth, depth, *self._in_and_out(node))]

    # -- layers and axes ------------------------------------------------------------------------------

    def _in_and_out(self, node: Node) -> tuple[Place, Place]:
        return self._memory.places[node.name], self._memory.places[node.inputs[0]]

    def _use_linear(self) -> str:
        return self._use("linear", functions.FUNCTIONS["linear"], restrict=f"{self._prefix.upper()}_RESTRICT")

    def _use_long_linear(self) -> str:
        linear = self._use_linear()
        return self._use("long_linear", functions.FUNCTIONS["long_linear"], linear=linear, longest=str(LONGEST_SUM))

    def _write_linear(self, node: Node) -> list[str]:
        (inputs,), (outputs,) = self._types[node.inputs[0]][1], node.shape
        self.multiply_adds += inputs * outputs
        arguments = [inputs, outputs, *self._in_and_out(node), *self._layer(node)]
        if inputs <= LONGEST_SUM:
            return [_call(self._use_linear(), *arguments)]
        return [_call(self._use_long_linear(), *arguments, self._memory.scratch[node.name])]

    def _layer(self, node: Node) -> tuple[Place, Place]:
        """Return the places of the weights and the bias, which is a null pointer if there is none."""
        places = self._memory.places
        weight = (self._turned if has_turned_weight(node) else places)[node.inputs[1]]
        return weight, places[node.inputs[2]] if len(node.inputs) > 2 else Place("0")

    def _write_convolution(self, node: Node) -> list[str]:
        shape, (filters, _, *kernel) = self._types[node.inputs[0]][1], self._types[node.inputs[1]][1]
        down, across = node.shape[1:]
        top, left = node.attributes["pads"][:2]
        self.multiply_adds += prod(node.shape) * prod(kernel) * shape[0]
        function = self._use("convolution", functions.FUNCTIONS["convolution"], linear=self._use_long_linear())
        sizes = (*shape, filters, *kernel, *node.attributes["strides"], top, left, down, across)
        scratch = self._memory.scratch[node.name]
        return [_call(function, *sizes, *self._in_and_out(node), *self._layer(node), scratch)]

    def _write_normalization(self, node: Node) -> list[str]:
        function = self._use("layer_normalization", functions.FUNCTIONS["layer_normalization"])
        parts = [self._memory.places[name] for name in node.inputs[1:]]
        epsilon = write_float(node.attributes["epsilon"])
        return [_call(function, node.shape[0], *self._in_and_out(node), *parts, epsilon)]

    def _write_softmax(self, node: Node) -> list[str]:
        name = _snake(node.op)
        function = self._use(name, functions.FUNCTIONS[name])
        return [_call(function, *_split_axes(node.shape, node.attributes["axis"]), *self._in_and_out(node))]

    def _write_reduction(self, node: Node) -> list[str]:
        dtype, shape = self._types[node.inputs[0]]
        kind = C_TYPES[dtype]
        parts = functions.FLOAT_PARTS if kind == "float" else functions.INTEGER_PARTS
        parts = {name: text.format(type=kind) for name, text in parts.items()}
        body = functions.REDUCTIONS[node.op].format(type=kind, **parts)
        function = self._use(
            _snake(node.op), functions.FUNCTIONS["reduce"], kind, result=C_TYPES[node.dtype], body=body
        )
        return [_call(function, *_split_axes(shape, node.attributes["axis"]), *self._in_and_out(node))]

    # -- functions ------------------------------------------------------------------------------------

    def _use(self, name: str, template: str, kind: str = "float", **fields: str) -> str:
        """Return the name of a function for items of a type, and define it when it is first used."""
        function = f"{self._prefix}_{name}" + f"_{kind.removesuffix('_t')}" * (kind != "float")
        if function not in self.definitions:
            self.definitions[function] = template.format(function=function, type=kind, **fields)
        return function


def count_scratch(node: Node, types: Mapping[str, Result]) -> int:
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
    message = f"{quote(op)} of {dtype} cannot be exported to C"
    raise UnsupportedError(message)


def _find_expressions(kind: str, *, is_unary: bool) -> Mapping[str, str]:
    if kind == "double":
        return functions.BINARY_DOUBLES
    if not is_unary:
        return functions.BINARY if kind == "float" else functions.BINARY_INTEGERS
    if kind == "float":
        return functions.UNARY
    return functions.UNARY_UNSIGNED if kind.startswith("u") else functions.UNARY_SIGNED


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


def _term(index: str, stride: int) -> str:
    return "" if not stride else f" + {index}" if stride == 1 else f" + {index} * {stride}"


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
