"""The operators of a graph: one table, whose rows have all that any part of the package knows of an operator.

Names, attributes and meaning are ONNX's (https://onnx.ai/onnx/operators), except that a shape here is that of one item:
every value but a weight has a batch axis before it. An ``axis`` counts from the end of the shape, from -1.

A row has the rule for the shape of the result, what is true of the operator in every back end, and a column for each of
them, ``numpy``, ``c``, ``onnx`` and ``torch``: an expression, or the name of a function in its module. A back end
without a column for an operator computes its ``parts``: the function of the row that makes it of other operators
(:func:`decompose`).
So a new operator needs a rule, a meaning and ``parts``. Example, x * sigmoid(x)::

    "Swish": _unary(
        "x / (1 + e ** -x)", c=C("x / (1.0f + expf(-x))"), activation="SiLU",
        parts=lambda make, x: make.add("Mul", x, make.add("Sigmoid", x)),
    ),

POLICIES.md 19.2 has a line for each row, and ``schema/graph.schema.json`` its name.
"""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal

from sbformat.errors import UnsupportedError, quote
from sbformat.immutable import FrozenDict, Record
from sbformat.policies.graph import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    Rule = Callable[["Sequence[Operand]", Mapping[str, Any]], "Result"]

Shape = tuple[int, ...]

DTYPES: Final = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
)  # fmt: skip


class Operand(Record):
    """A value that an operator gets: its dtype and shape, and whether it is a weight."""

    dtype: str
    shape: Shape
    is_weight: bool
    name: str = ""
    """Name of the value; only parts need it."""


Result = tuple[str, Shape]


class C(Record):
    """An operator in C: expressions of the items ``x`` and ``y`` and the attributes, or what writes its calls."""

    floats: str = ""
    integers: str = ""
    """``{type}`` is that of the items. They wrap, because an overflow would be undefined behaviour."""
    unsigned: str = ""
    """Where it is not that of ``integers``."""
    doubles: str = ""
    """A mean is subtracted in double; nothing else is computed in it, only moved."""
    has_bools: bool = False
    """Whether ``integers`` is right for bools, too."""
    statements: str = ""
    write: str = "elementwise"
    """The method of :class:`sbformat.policies.c.calls.Writer`, after ``write_``."""


class Operator(Record):
    """A row of the table."""

    result: Rule
    """Returns dtype and shape; raises UnsupportedError when the operands do not fit."""
    operands: tuple[int, int]
    attributes: frozenset[str]
    meaning: str
    numpy: str = ""
    """The function of :mod:`sbformat.policies.run.kernels`; after ``np.``, that of numpy itself."""
    c: C | None = None
    onnx: int = 2**31
    """The opset of ONNX that introduced the operator of the same name, or its present form; by default none has it."""
    onnx_write: str = "add_plain"
    """The function of :mod:`sbformat.policies.onnx`: another one if operands or attributes differ."""
    torch: str = ""
    """An expression in PyTorch of the operands ``x``, ``y``, ``z``, the attributes and the result's ``shape``; of a
    reduction, the name of a method; or a function of :mod:`sbformat.policies.pytorch.expressions`, which begins with
    ``write_``."""
    activation: str = ""
    """The class of ``torch.nn`` that applies it."""
    arguments: Mapping[str, tuple[str, float] | float] = FrozenDict()
    """The attributes as that class has them: the name and the default of an argument, or a number."""
    parts: Callable[..., Operand] | None = None
    """Gets :class:`Parts`, operands and attributes, adds the nodes that compute the same, and returns the last one."""
    is_elementwise: bool = False
    """Whether the result has an item for each item of the operands, whose shapes broadcast."""
    in_place: bool = False
    """Whether the result may replace the first operand in memory."""
    view: str = ""
    """How the result is a view of the operand, if it is one: the function of :mod:`sbformat.policies.run.kernels` after
    ``view_``, and a case of :func:`sbformat.policies.c.calls.find_view`."""
    moves: bool = False
    """Whether items are only copied or converted, which every back end does with every dtype."""
    batch: Literal["one", "all", "none"] = "one"
    """The batch axis of an operand that does not depend on observations, in numpy: of size 1, of the size of the batch,
    or none, for operands after the first that can only be weights."""
    layer: str = ""
    """The name of a layer of this operator alone, in descriptions."""


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
    """Return the shape that shapes broadcast to, by numpy's rules."""
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


def _row(result: Rule, operands: int | tuple[int, int], meaning: str, attributes: str = "", **columns: Any) -> Operator:
    least_and_most = (operands, operands) if isinstance(operands, int) else operands
    return Operator(result, least_and_most, frozenset(attributes.split()), meaning, **columns)


def _unary(meaning: str, attributes: str = "", **columns: Any) -> Operator:
    columns = {"is_elementwise": True, "in_place": True, **columns}
    return _row(_same, 1, meaning, attributes, **columns)


def _binary(meaning: str, **columns: Any) -> Operator:
    columns = {"is_elementwise": True, "in_place": True, **columns}
    return _row(_broadcast, 2, meaning, **columns)


def _reduction(meaning: str, numpy: str, torch: str, result: Rule = _reduce) -> Operator:
    c = C(write="reduction")
    return _row(result, 1, meaning, "axis keepdims", numpy=numpy, c=c, onnx=13, onnx_write="add_reduction", torch=torch)


def _normalize(make: Parts, x: Operand, scale: Operand, bias: Operand, *, epsilon: float) -> Operand:
    difference = make.add("Sub", x, make.add("ReduceMean", x, axis=-1, keepdims=True))
    square = make.add("Mul", difference, difference)
    mean = make.add("ReduceMean", square, axis=-1, keepdims=True)
    deviation = make.add("Sqrt", make.add("Add", mean, make.constant("epsilon", epsilon)))
    return make.add("Add", make.add("Mul", make.add("Div", difference, deviation), scale), bias)


_ANY: Final = 2**31
_COPY: Final = C(write="copy")
_TANH: Final = """\
        const float bounded = x < -7.90531111f ? -7.90531111f : x > 7.90531111f ? 7.90531111f : x;
        const float square = bounded * bounded;
        float above = -2.76076847742355e-16f, below = 1.19825839466702e-06f;
        above = above * square + 2.00018790482477e-13f;
        above = above * square - 8.60467152213735e-11f;
        above = above * square + 5.12229709037114e-08f;
        above = above * square + 1.48572235717979e-05f;
        above = above * square + 6.37261928875436e-04f;
        above = above * square + 4.89352455891786e-03f;
        below = below * square + 1.18534705686654e-04f;
        below = below * square + 2.26843463243900e-03f;
        below = below * square + 4.89352518554385e-03f;
"""
"""tanh is x * P(x ** 2) / Q(x ** 2) with Eigen's coefficients, with an error of 4e-7: ``tanhf`` takes ten times as
long, because compilers do not vectorize it."""

OPERATORS: Final[Mapping[str, Operator]] = {
    "Identity": _unary("x", numpy="identity", c=_COPY, onnx=1, view="same", moves=True, torch="x"),
    "Cast": _row(
        _cast, 1, "x as another dtype", "to", numpy="cast", c=C(write="cast"), onnx=9,
        is_elementwise=True, view="cast", moves=True, torch="write_cast",
    ),
    "Add": _binary("x + y", numpy="np.add", c=C("x + y", "({type})((uint32_t)x + (uint32_t)y)"), onnx=7, torch="x + y"),
    "Sub": _binary(
        "x - y", numpy="np.subtract", c=C("x - y", "({type})((uint32_t)x - (uint32_t)y)", doubles="x - y"),
        onnx=7, torch="x - y",
    ),
    "Mul": _binary(
        "x * y", numpy="np.multiply", c=C("x * y", "({type})((uint32_t)x * (uint32_t)y)"), onnx=7, torch="x * y"
    ),
    "Div": _binary(
        "x / y", numpy="divide", c=C("x / y", "({type})(y == 0 ? 0 : (int64_t)x / (int64_t)y)"), onnx=7,
        torch="write_division",
    ),
    "Max": _binary(
        "the greater of x and y", numpy="maximum", onnx=8,
        c=C("x >= y || x != x ? x : y", "({type})(x >= y ? x : y)", has_bools=True), torch="write_bound",
    ),
    "Min": _binary(
        "the lesser of x and y", numpy="minimum", onnx=8,
        c=C("x <= y || x != x ? x : y", "({type})(x <= y ? x : y)", has_bools=True), torch="write_bound",
    ),
    "Greater": _row(
        _compare, 2, "x > y", numpy="np.greater", c=C("(uint8_t)(x > y)", "(uint8_t)(x > y)", has_bools=True),
        onnx=9, is_elementwise=True, torch="x > y",
    ),
    "Where": _row(
        _where, 3, "y where x is true, z elsewhere", numpy="where", c=C(write="where", doubles="x ? y : z"),
        onnx=9, is_elementwise=True, torch="write_choice",
    ),
    "Neg": _unary("-x", numpy="negative", c=C("-x", "({type})(0u - (uint32_t)x)"), onnx=6, torch="-x"),
    "Abs": _unary(
        "the absolute value", numpy="np.absolute", onnx=6,
        c=C("fabsf(x)", "({type})(x < 0 ? 0u - (uint32_t)x : (uint32_t)x)", "x"), torch="x.abs()",
    ),
    "Exp": _unary("e ** x", numpy="np.exp", c=C("expf(x)"), onnx=6, torch="x.exp()"),
    "Log": _unary("the natural logarithm", numpy="np.log", c=C("logf(x)"), onnx=6, torch="x.log()"),
    "Sqrt": _unary("the square root", numpy="np.sqrt", c=C("sqrtf(x)"), onnx=6, torch="x.sqrt()"),
    "Round": _unary(
        "the nearest integer, halves to even", numpy="np.rint", c=C("rintf(x)"), onnx=11, torch="x.round()"
    ),
    "Relu": _unary(
        "max(x, 0)", numpy="relu", c=C("x < 0.0f ? 0.0f : x", "({type})(x < 0 ? 0 : x)", "x"), onnx=6,
        activation="ReLU", torch="x.relu()",
    ),
    "Tanh": _unary(
        "the hyperbolic tangent", numpy="np.tanh", c=C("bounded * (above / below)", statements=_TANH), onnx=6,
        activation="Tanh", torch="x.tanh()",
    ),
    "Sigmoid": _unary(
        "1 / (1 + e ** -x)", numpy="sigmoid", c=C("1.0f / (1.0f + expf(-x))"), onnx=6,
        activation="Sigmoid", torch="x.sigmoid()",
    ),
    "Softplus": _unary(
        "log(1 + e ** x)", numpy="softplus", c=C("(x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x)))"), onnx=1,
        activation="Softplus", torch="F.softplus(x)",
    ),
    "Softsign": _unary(
        "x / (1 + |x|)", c=C("x / (1.0f + fabsf(x))"), onnx=1, activation="Softsign",
        parts=lambda make, x: make.add("Div", x, make.add("Add", make.add("Abs", x), make.constant("one", 1.0))),
        torch="F.softsign(x)",
    ),
    "Elu": _unary(
        "x, or alpha * (e ** x - 1) below 0", "alpha", numpy="elu", c=C("x < 0.0f ? alpha * expm1f(x) : x"),
        onnx=6, activation="ELU", arguments={"alpha": ("alpha", 1.0)}, torch="F.elu(x, alpha)",
    ),
    "Celu": _unary(
        "x, or alpha * (e ** (x / alpha) - 1) below 0", "alpha", numpy="celu",
        c=C("x < 0.0f ? alpha * expm1f(x / alpha) : x"), onnx=12,
        activation="CELU", arguments={"alpha": ("alpha", 1.0)}, torch="F.celu(x, alpha)",
    ),
    "Selu": _unary(
        "gamma * x, or gamma * alpha * (e ** x - 1) below 0", "alpha gamma", numpy="elu",
        c=C("gamma * (x < 0.0f ? alpha * expm1f(x) : x)"), onnx=6,
        activation="SELU", arguments={"alpha": 1.6732632423543772, "gamma": 1.0507009873554805},
        torch="gamma * F.elu(x, alpha)",
    ),
    "LeakyRelu": _unary(
        "x, or alpha * x below 0", "alpha", numpy="leaky_relu", c=C("x < 0.0f ? alpha * x : x"), onnx=6,
        activation="LeakyReLU", arguments={"alpha": ("negative_slope", 0.01)}, torch="F.leaky_relu(x, alpha)",
    ),
    "PRelu": _binary(
        "x, or y * x below 0", numpy="prelu", c=C("x < 0.0f ? x * y : x"), onnx=9, onnx_write="add_slope",
        activation="PReLU", torch="torch.where(x > 0, x, x * y)",
    ),
    "Erf": _unary("the error function", numpy="erf", c=C("erff(x)"), onnx=9, torch="x.erf()"),
    "HardSigmoid": _unary(
        "alpha * x + beta, from 0 to 1", "alpha beta", numpy="hard_sigmoid", onnx=6,
        c=C("x * alpha + beta < 0.0f ? 0.0f : x * alpha + beta > 1.0f ? 1.0f : x * alpha + beta"),
        activation="Hardsigmoid", arguments={"alpha": 1 / 6, "beta": 0.5},
        torch="(x * alpha + beta).clamp(0.0, 1.0)",
    ),
    "Shrink": _unary(
        "x - bias above lambd, x + bias below -lambd, else 0", "lambd bias", numpy="shrink", onnx=9,
        c=C("fabsf(x) <= lambd ? 0.0f : x > 0.0f ? x - bias : x < 0.0f ? x + bias : x"),
        torch="(x - bias * x.sign()).masked_fill(x.abs() <= lambd, 0.0)",
    ),
    "Softmax": _row(
        _same, 1, "e ** x over its sum along an axis", "axis", numpy="softmax", c=C(write="softmax"), onnx=13,
        activation="Softmax", in_place=True, torch="x.softmax(axis)",
    ),
    "LogSoftmax": _row(
        _same, 1, "the logarithm of Softmax", "axis", numpy="log_softmax", c=C(write="softmax"), onnx=13,
        activation="LogSoftmax", in_place=True, torch="x.log_softmax(axis)",
    ),
    "OneHot": _row(
        _one_hot, 1, "1 at the index, 0 elsewhere, along a new last axis", "depth", numpy="one_hot",
        c=C(write="one_hot"), onnx=11, onnx_write="add_one_hot", torch="F.one_hot(x, depth).float()",
    ),
    "Transpose": _row(
        _transpose, 1, "axes in another order, from 0, without the batch", "axes", numpy="transpose",
        c=C(write="transpose"), onnx=1, onnx_write="add_transpose", view="transposed", moves=True,
        torch="write_transpose",
    ),
    "Reshape": _row(
        _reshape, 1, "the same items, in C order, in another shape", "shape", numpy="reshape", c=_COPY,
        onnx=5, onnx_write="add_reshape", view="reshaped", moves=True, torch="write_reshape",
    ),
    "Concat": _row(
        _concat, (1, _ANY), "operands one after another along an axis", "axis", numpy="concat",
        c=C(write="concat"), onnx=4, onnx_write="add_concat", moves=True, batch="all", torch="write_concat",
    ),
    "Slice": _row(
        _slice, 1, "a range along an axis", "axis start end", numpy="slice_axis",
        c=C(write="slice"), onnx=10, onnx_write="add_slice", view="slice", moves=True, torch="write_slice",
    ),
    "Gemm": _row(
        _gemm, (2, 3), "a linear layer: x times the weights, (outputs, inputs) if transB, plus the bias", "transB",
        numpy="gemm", c=C(write="linear"), onnx=11, batch="none", layer="linear", torch="write_linear",
    ),
    "Conv": _row(
        _conv, (2, 3), "a convolution of an image, weights and a bias, see below", "strides pads", numpy="conv",
        c=C(write="convolution"), onnx=11, batch="none", torch="write_convolution",
    ),
    "LayerNormalization": _row(
        _normalization, 3, "(x - mean) / sqrt(variance + epsilon) * scale + bias, over the last axis", "epsilon",
        c=C(write="normalization"), onnx=17, onnx_write="add_normalization", parts=_normalize, in_place=True,
        layer="layer normalization", torch="F.layer_norm(x, shape, y, z, epsilon)",
    ),
    "ReduceSum": _reduction("the sum along an axis", "reduce_sum", "sum"),
    "ReduceMean": _reduction("the mean along an axis", "reduce_mean", "mean"),
    "ReduceMin": _reduction("the least along an axis", "reduce_min", "amin"),
    "ReduceLogSumExp": _reduction(
        "the logarithm of the sum of e ** x along an axis", "reduce_log_sum_exp", "logsumexp"
    ),
    "ArgMax": _reduction("the index of the first greatest item", "arg_max", "argmax", _arg_max),
    "Call": _row(
        _call, (1, _ANY), "a function that the caller supplies, see below", "function keys dtype shape", numpy="call",
        batch="all",
    ),
}  # fmt: skip
"""The operators, by name. ``Call`` runs in Python alone, and is never exported."""

COMPOSED: Final[Mapping[str, str]] = {
    "Sigmoid Mul": "SiLU", "Softplus Tanh Mul": "Mish", "Neg Softplus Neg": "LogSigmoid", "Tanh Sub": "Tanhshrink",
    "HardSigmoid Mul": "Hardswish", "Mul Erf Mul Add Mul": "GELU", "Neg Softmax": "Softmin(-1)",
    "Mul Mul Mul Add Mul Tanh Mul Add Mul": 'GELU(approximate="tanh")',
}  # fmt: skip
"""Activations of ``torch.nn`` that are several operators, in order."""


# -- operators made of others -------------------------------------------------------------------------


class Parts:
    """The nodes that compute what one node computes, in order, and the numbers among their operands."""

    def __init__(self, label: str, dtype: str, taken: Container[str] = ()) -> None:
        self.nodes: list[Node] = []
        self.numbers: dict[str, tuple[str, float]] = {}
        """By their names: what each is, and the number."""
        self._label, self._dtype, self._taken = label, dtype, taken

    def add(self, op: str, *operands: Operand, **attributes: Any) -> Operand:
        """Add a node, and return its result."""
        dtype, shape = OPERATORS[op].result(operands, attributes)
        name, inputs = self._name(op), tuple(operand.name for operand in operands)
        self.nodes.append(Node(name, op, inputs, FrozenDict(attributes), dtype, shape))
        return Operand(dtype, shape, False, name)

    def constant(self, what: str, number: float) -> Operand:
        """Return a number as an operand."""
        name = self._name(what)
        self.numbers[name] = what, number
        return Operand(self._dtype, (), True, name)

    def _name(self, what: str) -> str:
        own = {*self.numbers, *(node.name for node in self.nodes)}
        names = (f"{self._label}/{what}" + f"_{at}" * (at > 1) for at in itertools.count(1))
        return next(name for name in names if name not in own and name not in self._taken)


def decompose(node: Node, operands: Sequence[Operand], back_end: str, taken: Container[str] = ()) -> Parts:
    """Return the nodes that compute what a node computes; the last one has its name and module."""
    make_parts = OPERATORS[node.op].parts
    if make_parts is None:
        message = f"{quote(node.op)} cannot be exported: {back_end} does not have it, and it has no parts here"
        raise UnsupportedError(message)
    named = [operand._replace(name=name) for operand, name in zip(operands, node.inputs)]
    parts = Parts(node.name, node.dtype, taken)
    make_parts(parts, *named, **node.attributes)
    parts.nodes[-1] = parts.nodes[-1]._replace(name=node.name, module=node.module)
    return parts
