"""The operators of a graph: one table, with the rule for the shape of each result, and a column for each back end.

Names, attributes and meaning are ONNX's (https://onnx.ai/onnx/operators), except that a shape here is that of one item:
every value but a weight has a batch axis before it. An ``axis`` counts from the end of the shape, from -1, so that it
never means the batch.

A back end walks the nodes of a graph and looks each operator up here: numpy's column names a function of
:mod:`sbformat.policies.run.kernels`, ONNX's the operator with the opset that introduced it. A new operator is one row,
one function in each back end, and a line in POLICIES.md 19.2.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Shape = tuple[int, ...]

DTYPES: Final = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
)  # fmt: skip
"""The dtypes of values, by numpy's names."""


class Operand(NamedTuple):
    """What an operator gets: the dtype and shape of a value, and whether it is a weight."""

    dtype: str
    shape: Shape
    is_weight: bool


Result = tuple[str, Shape]
"""Dtype and shape of what an operator returns."""


class Operator(NamedTuple):
    """A row of the table."""

    result: Callable[[Sequence[Operand], Mapping[str, Any]], Result]
    """Returns dtype and shape; raises UnsupportedError when the operands do not fit."""
    operands: tuple[int, int]
    """The least and the most operands."""
    attributes: frozenset[str]
    meaning: str
    onnx: str
    """The operator of ONNX; with a colon and the opset that introduced it."""
    numpy: str
    """The function of :mod:`sbformat.policies.run.kernels`."""


def require(condition: bool, message: str) -> None:  # noqa: FBT001 -- reads as an assertion
    """Raise UnsupportedError with a message unless a condition is true."""
    if not condition:
        raise UnsupportedError(message)


# -- rules for shapes ---------------------------------------------------------------------------------


def _same(operands: Sequence[Operand], _: Mapping[str, Any]) -> Result:
    return operands[0].dtype, operands[0].shape


def _broadcast(operands: Sequence[Operand], _: Mapping[str, Any]) -> Result:
    dtypes = {operand.dtype for operand in operands}
    require(len(dtypes) == 1, f"expected operands of one dtype, got {', '.join(sorted(dtypes))}")
    return operands[0].dtype, broadcast_shapes([operand.shape for operand in operands])


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """Return the shape that shapes broadcast to, by numpy's rules.

    :raises UnsupportedError: when they do not fit
    """
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    made = []
    for sizes in zip(*padded):
        others = {size for size in sizes if size != 1}
        require(len(others) <= 1, f"expected shapes that broadcast, got {' and '.join(map(str, shapes))}")
        made.append(others.pop() if others else 1)
    return tuple(made)


def _compare(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    return "bool", _broadcast(operands, attributes)[1]


def _where(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    condition, *values = operands
    require(condition.dtype == "bool", f"expected a condition of bools, got {condition.dtype}")
    dtype, _ = _broadcast(values, attributes)
    return dtype, broadcast_shapes([operand.shape for operand in operands])


def _cast(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    require(attributes["to"] in DTYPES, f"expected a dtype, got {attributes['to']}")
    return attributes["to"], operands[0].shape


def _one_hot(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    (indices,) = operands
    require(indices.dtype == "int64", f"expected int64 indices, got {indices.dtype}")
    return "float32", (*indices.shape, attributes["depth"])


def _transpose(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    (value,) = operands
    axes = attributes["axes"]
    require(sorted(axes) == list(range(len(value.shape))), f"expected each axis of {value.shape} once, got {axes}")
    return value.dtype, tuple(value.shape[axis] for axis in axes)


def _reshape(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    (value,) = operands
    shape = tuple(attributes["shape"])
    require(prod(shape) == prod(value.shape), f"expected {prod(value.shape):,} items, got the shape {shape}")
    return value.dtype, shape


def _concat(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    axis = attributes["axis"]
    shapes = [operand.shape for operand in operands]
    rank = len(shapes[0])
    require(-rank <= axis < 0, f"expected an axis of {shapes[0]}, got {axis}")
    rests = {(*shape[:axis], *shape[len(shape) + axis + 1 :]) if len(shape) == rank else None for shape in shapes}
    require(len(rests) == 1, f"expected shapes that are equal but for one axis, got {' and '.join(map(str, shapes))}")
    require(len({operand.dtype for operand in operands}) == 1, "expected operands of one dtype")
    made = list(shapes[0])
    made[axis] = sum(shape[axis] for shape in shapes)
    return operands[0].dtype, tuple(made)


def _slice(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    (value,) = operands
    axis, start, end = attributes["axis"], attributes["start"], attributes["end"]
    require(-len(value.shape) <= axis < 0, f"expected an axis of {value.shape}, got {axis}")
    require(0 <= start < end <= value.shape[axis], f"expected a range of {value.shape[axis]}, got {start} to {end}")
    made = list(value.shape)
    made[axis] = end - start
    return value.dtype, tuple(made)


def _gemm(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    value, weight = operands[:2]
    require(weight.is_weight and len(weight.shape) == 2, f"expected a matrix of weights, got {weight.shape}")
    require(len(value.shape) == 1, f"expected a vector as the input of a layer, got {value.shape}")
    outputs, inputs = weight.shape if attributes["transB"] else weight.shape[::-1]
    require(value.shape == (inputs,), f"expected {inputs:,} inputs of a layer, got {value.shape[0]:,}")
    require(value.dtype == weight.dtype, f"expected weights of {value.dtype}, got {weight.dtype}")
    if len(operands) > 2:
        bias = operands[2]
        require(bias.is_weight and bias.shape == (outputs,), f"expected a bias of ({outputs},), got {bias.shape}")
        require(bias.dtype == value.dtype, f"expected a bias of {value.dtype}, got {bias.dtype}")
    return value.dtype, (outputs,)


def _conv(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    value, weight = operands[:2]
    require(weight.is_weight and len(weight.shape) == 4, f"expected weights of four dimensions, got {weight.shape}")
    require(len(value.shape) == 3, f"expected an image of three dimensions, got {value.shape}")
    filters, channels, *kernel = weight.shape
    require(value.shape[0] == channels, f"expected {channels:,} channels, got {value.shape[0]:,}")
    require(value.dtype == weight.dtype, f"expected weights of {value.dtype}, got {weight.dtype}")
    strides, pads = attributes["strides"], attributes["pads"]
    require(min(strides) >= 1 and min(pads) >= 0, f"expected positive strides, got {strides} and the pads {pads}")
    padded = [value.shape[1] + pads[0] + pads[2], value.shape[2] + pads[1] + pads[3]]
    edges = [(size - length) // stride + 1 for size, length, stride in zip(padded, kernel, strides)]
    require(min(*kernel, *edges) >= 1, f"an image of the shape {value.shape} is too small for a kernel of {kernel}")
    if len(operands) > 2:
        require(operands[2].shape == (filters,), f"expected a bias of ({filters},), got {operands[2].shape}")
    return value.dtype, (filters, *edges)


def _normalization(operands: Sequence[Operand], _: Mapping[str, Any]) -> Result:
    value, *parts = operands
    require(len(value.shape) == 1, f"expected a vector, got {value.shape}")
    for part in parts:
        require(part.shape == value.shape, f"expected a weight of the shape {value.shape}, got {part.shape}")
    return value.dtype, value.shape


def _reduce(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    (value,) = operands
    axis = attributes["axis"]
    require(-len(value.shape) <= axis < 0, f"expected an axis of {value.shape}, got {axis}")
    shape = list(value.shape)
    require(shape[axis] > 0, f"expected at least one item along the axis, got the shape {value.shape}")
    shape[axis] = 1
    if not attributes.get("keepdims", False):
        del shape[axis]
    return value.dtype, tuple(shape)


def _arg_max(operands: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    return "int64", _reduce(operands, attributes)[1]


def _call(_: Sequence[Operand], attributes: Mapping[str, Any]) -> Result:
    return attributes["dtype"], tuple(attributes["shape"])


# -- the table ----------------------------------------------------------------------------------------


def _reduction(
    result: Callable[[Sequence[Operand], Mapping[str, Any]], Result], meaning: str, onnx: str, numpy: str
) -> Operator:
    return Operator(result, (1, 1), frozenset({"axis", "keepdims"}), meaning, onnx, numpy)


def _unary(meaning: str, onnx: str, numpy: str, *attributes: str) -> Operator:
    return Operator(_same, (1, 1), frozenset(attributes), meaning, onnx, numpy)


def _binary(meaning: str, onnx: str, numpy: str) -> Operator:
    return Operator(_broadcast, (2, 2), frozenset(), meaning, onnx, numpy)


OPERATORS: Final[Mapping[str, Operator]] = {
    "Identity": _unary("x", "Identity:1", "identity"),
    "Cast": Operator(_cast, (1, 1), frozenset({"to"}), "x as another dtype", "Cast:9", "cast"),
    "Add": _binary("x + y", "Add:7", "add"),
    "Sub": _binary("x - y", "Sub:7", "subtract"),
    "Mul": _binary("x * y", "Mul:7", "multiply"),
    "Div": _binary("x / y", "Div:7", "divide"),
    "Max": _binary("the greater of x and y", "Max:8", "maximum"),
    "Min": _binary("the lesser of x and y", "Min:8", "minimum"),
    "Greater": Operator(_compare, (2, 2), frozenset(), "x > y", "Greater:9", "greater"),
    "Where": Operator(_where, (3, 3), frozenset(), "y where x is true, z elsewhere", "Where:9", "where"),
    "Neg": _unary("-x", "Neg:6", "negative"),
    "Abs": _unary("the absolute value", "Abs:6", "absolute"),
    "Exp": _unary("e ** x", "Exp:6", "exp"),
    "Log": _unary("the natural logarithm", "Log:6", "log"),
    "Sqrt": _unary("the square root", "Sqrt:6", "sqrt"),
    "Round": _unary("the nearest integer, halves to even", "Round:11", "round"),
    "Relu": _unary("max(x, 0)", "Relu:6", "relu"),
    "Tanh": _unary("the hyperbolic tangent", "Tanh:6", "tanh"),
    "Sigmoid": _unary("1 / (1 + e ** -x)", "Sigmoid:6", "sigmoid"),
    "Softplus": _unary("log(1 + e ** x)", "Softplus:1", "softplus"),
    "Softsign": _unary("x / (1 + |x|)", "Softsign:1", "softsign"),
    "Elu": _unary("x, or alpha * (e ** x - 1) below 0", "Elu:6", "elu", "alpha"),
    "Celu": _unary("x, or alpha * (e ** (x / alpha) - 1) below 0", "Celu:12", "celu", "alpha"),
    "Selu": _unary("gamma * x, or gamma * alpha * (e ** x - 1) below 0", "Selu:6", "selu", "alpha", "gamma"),
    "LeakyRelu": _unary("x, or alpha * x below 0", "LeakyRelu:6", "leaky_relu", "alpha"),
    "PRelu": _binary("x, or y * x below 0", "PRelu:9", "prelu"),
    "Erf": _unary("the error function", "Erf:9", "erf"),
    "HardSigmoid": _unary("alpha * x + beta, from 0 to 1", "HardSigmoid:6", "hard_sigmoid", "alpha", "beta"),
    "Shrink": _unary("x - bias above lambd, x + bias below -lambd, else 0", "Shrink:9", "shrink", "lambd", "bias"),
    "Softmax": _unary("e ** x over its sum along an axis", "Softmax:13", "softmax", "axis"),
    "LogSoftmax": _unary("the logarithm of Softmax", "LogSoftmax:13", "log_softmax", "axis"),
    "OneHot": Operator(
        _one_hot, (1, 1), frozenset({"depth"}), "1 at the index, 0 elsewhere, along a new last axis", "OneHot:11",
        "one_hot",
    ),
    "Transpose": Operator(
        _transpose, (1, 1), frozenset({"axes"}), "axes in another order, from 0, without the batch", "Transpose:1",
        "transpose",
    ),
    "Reshape": Operator(
        _reshape, (1, 1), frozenset({"shape"}), "the same items, in C order, in another shape", "Reshape:5", "reshape"
    ),
    "Concat": Operator(
        _concat, (1, 2**31), frozenset({"axis"}), "operands one after another along an axis", "Concat:4", "concat"
    ),
    "Slice": Operator(
        _slice, (1, 1), frozenset({"axis", "start", "end"}), "a range along an axis", "Slice:10", "slice_axis"
    ),
    "Gemm": Operator(
        _gemm, (2, 3), frozenset({"transB"}),
        "a linear layer: x times the weights, (outputs, inputs) if transB, plus the bias", "Gemm:11", "gemm",
    ),
    "Conv": Operator(
        _conv, (2, 3), frozenset({"strides", "pads"}),
        "a convolution of an image, weights and a bias, see below", "Conv:11", "conv",
    ),
    "LayerNormalization": Operator(
        _normalization, (3, 3), frozenset({"epsilon"}),
        "(x - mean) / sqrt(variance + epsilon) * scale + bias, over the last axis", "LayerNormalization:17",
        "layer_normalization",
    ),
    "ReduceSum": _reduction(_reduce, "the sum along an axis", "ReduceSum:13", "reduce_sum"),
    "ReduceMean": _reduction(_reduce, "the mean along an axis", "ReduceMean:13", "reduce_mean"),
    "ReduceMin": _reduction(_reduce, "the least along an axis", "ReduceMin:13", "reduce_min"),
    "ReduceLogSumExp": _reduction(
        _reduce, "the logarithm of the sum of e ** x along an axis", "ReduceLogSumExp:13", "reduce_log_sum_exp"
    ),
    "ArgMax": _reduction(_arg_max, "the index of the first greatest item", "ArgMax:13", "arg_max"),
    "Call": Operator(
        _call, (1, 2**31), frozenset({"function", "keys", "dtype", "shape"}),
        "a function that the caller supplies, see below", "", "call",
    ),
}  # fmt: skip
"""The operators, by name."""
