"""Graphs for tests, and a plain interpreter of graphs to compare with: loops over items, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from sbformat.limits import Budget
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.builder import GraphBuilder, Value
from sbformat.policies.export.files import Port
from sbformat.policies.export.lowering import Lowered
from sbformat.policies.graph import Graph, Input, Node, Sampling
from sbformat.policies.run.program import Program, Weights, fold_nodes


def describe(array: np.ndarray) -> ArrayInfo:
    """Return an array as a file has it."""
    return ArrayInfo(array.dtype.str, array.shape, "C", np.ascontiguousarray(array).tobytes(), is_scalar=False)


def make_graph(
    op: str, values: Sequence[np.ndarray], weights: Sequence[np.ndarray] = (), **attributes: Any
) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return a graph of one node, and its inputs.

    :param values: operands with a batch axis
    :param weights: operands after them, without
    """
    builder = GraphBuilder(Budget())
    operands = [builder.input(Input(f"x{at}", str(x.dtype), x.shape[1:])) for at, x in enumerate(values)]
    operands += [builder.weight(f"w{at}", describe(w), "test") for at, w in enumerate(weights)]
    result = builder.add(op, *operands, name="result", **attributes)
    return builder.build({"result": result}, Sampling("none")), {f"x{at}": x for at, x in enumerate(values)}


def run_graph(graph: Graph, inputs: Mapping[str, np.ndarray], **options: Any) -> dict[str, np.ndarray]:
    """Run a graph with the program, and return the outputs by name."""
    program = Program(graph, list(graph.outputs.values()), Weights(graph, Budget()), **options)
    return dict(zip(graph.outputs, program.run(inputs)))


def run_node(
    op: str, values: Sequence[np.ndarray], weights: Sequence[np.ndarray] = (), **attributes: Any
) -> np.ndarray:
    """Run a graph of one node."""
    graph, inputs = make_graph(op, values, weights, **attributes)
    made = run_graph(graph, inputs)["result"]
    assert made.dtype == graph.nodes[-1].dtype
    assert made.shape == (len(values[0]), *graph.nodes[-1].shape)
    return made


def lower_graph(graph: Graph) -> Lowered:
    """Return a graph that no file contains, as ``lower`` returns that of a policy; nothing is narrowed."""
    weights = Weights(graph, Budget())
    constants = {name: weights[name] for name in graph.weights}
    nodes = fold_nodes(graph.nodes, constants)
    described = {item.name: (item.dtype, item.shape) for item in (*graph.inputs, *graph.nodes)}
    described |= {name: (array.dtype.name, array.shape) for name, array in constants.items()}
    inputs = tuple(Port(item.name, item.name, item.dtype, item.shape, item.role) for item in graph.inputs)
    outputs = tuple(Port(name, value, *described[value], "output") for name, value in graph.outputs.items())
    return Lowered(inputs, outputs, nodes, constants, {"sbformat_version": "0"})


# -- a plain interpreter ------------------------------------------------------------------------------


def interpret(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute the outputs observation by observation and node by node: nothing is folded or shared."""
    weights = Weights(graph, Budget())
    count = len(next(iter(inputs.values())))
    rows = []
    for row in range(count):
        values = {name: weights[name] for name in graph.weights}
        for item in graph.inputs:
            given = inputs[item.name][row] if item.name in inputs else np.full(item.shape, item.default)
            values[item.name] = given.astype(item.dtype)
        with np.errstate(all="ignore"):
            for node in graph.nodes:
                values[node.name] = compute_node(node, [values[name] for name in node.inputs])
        rows.append([values[name] for name in graph.outputs.values()])
    return {name: np.stack(parts) for name, parts in zip(graph.outputs, zip(*rows))}


def compute_node(node: Node, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Compute a node for one observation."""
    if node.op in UNARY:
        function = UNARY[node.op]
        flat = [function(float(item), **node.attributes) for item in operands[0].reshape(-1)]
        return np.array(flat, np.float64).reshape(node.shape).astype(node.dtype)
    wide = [operand.astype(np.float64) if operand.dtype.kind == "f" else operand for operand in operands]
    made = np.asarray(OTHERS[node.op](*wide, **node.attributes))
    assert made.shape == node.shape
    return made.astype(node.dtype)


def exp(x: float) -> float:
    return float(np.exp(np.float64(x)))


def expm1(x: float) -> float:
    return float(np.expm1(np.float64(x)))


def identity(x: float) -> float:
    return x


UNARY: Mapping[str, Callable[..., float]] = {
    "Identity": identity,
    "Neg": lambda x: -x,
    "Abs": abs,
    "Exp": exp,
    "Log": lambda x: float(np.log(np.float64(x))),
    "Sqrt": lambda x: float(np.sqrt(np.float64(x))),
    "Round": lambda x: round(x) if math.isfinite(x) else x,
    "Relu": lambda x: 0.0 if x < 0 else x,
    "Tanh": math.tanh,
    "Sigmoid": lambda x: 1 / (1 + exp(-x)),
    "Softplus": lambda x: x if x > 40 else math.log1p(exp(x)),
    "Softsign": lambda x: float(np.float64(x) / (1 + abs(x))),
    "Elu": lambda x, alpha: alpha * expm1(x) if x < 0 else x,
    "Celu": lambda x, alpha: alpha * expm1(x / alpha) if x < 0 else x,
    "Selu": lambda x, alpha, gamma: gamma * (alpha * expm1(x) if x < 0 else x),
    "LeakyRelu": lambda x, alpha: alpha * x if x < 0 else x,
    "Erf": math.erf,
    "HardSigmoid": lambda x, alpha, beta: x if math.isnan(x) else min(max(alpha * x + beta, 0.0), 1.0),
    "Shrink": lambda x, lambd, bias: x - bias if x > lambd else x + bias if x < -lambd else x if math.isnan(x) else 0.0,
}  # fmt: skip
"""Elementwise operators of one operand, for a number."""


def convolve(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None, *, strides: Sequence[int], pads: Sequence[int]
) -> np.ndarray:
    x = np.pad(x, [(0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    filters, _, height, width = weight.shape
    down = (x.shape[1] - height) // strides[0] + 1
    across = (x.shape[2] - width) // strides[1] + 1
    made = np.zeros((filters, down, across))
    for kind, row, column in product(range(filters), range(down), range(across)):
        top, left = row * strides[0], column * strides[1]
        made[kind, row, column] = (x[:, top : top + height, left : left + width] * weight[kind]).sum()
    return made if bias is None else made + bias[:, None, None]


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    power = np.exp(x - x.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def log_sum_exp(x: np.ndarray, axis: int, *, keepdims: bool = False) -> np.ndarray:
    """The logarithm of the sum of exponentials along an axis."""
    greatest = x.max(axis, keepdims=True)
    found: np.ndarray = np.log(np.exp(x - greatest).sum(axis, keepdims=True)) + greatest
    return found if keepdims else found.squeeze(axis)


def multiply_matrix(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | float = 0.0, *, transB: bool) -> np.ndarray:  # noqa: N803
    return x @ (weight.T if transB else weight) + bias


def normalize(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, *, epsilon: float) -> np.ndarray:
    return (x - x.mean()) / np.sqrt(x.var() + epsilon) * scale + bias


OTHERS: Mapping[str, Callable[..., Any]] = {
    "Cast": lambda x, to: x.astype(to),
    "Add": lambda x, y: x + y,
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Div": lambda x, y: x / y,
    "Max": np.maximum,
    "Min": np.minimum,
    "Greater": lambda x, y: x > y,
    "Where": np.where,
    "PRelu": lambda x, y: np.where(x < 0, x * y, x),
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "OneHot": lambda x, depth: np.stack([x == at for at in range(depth)], -1) if depth else np.empty((*x.shape, 0)),
    "Transpose": lambda x, axes: x.transpose(axes),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Slice": lambda x, axis, start, end: x.take(range(start, end), axis),
    "Gemm": multiply_matrix,
    "Conv": convolve,
    "LayerNormalization": normalize,
    "ReduceSum": lambda x, axis, keepdims=False: x.sum(axis, keepdims=keepdims),
    "ReduceMean": lambda x, axis, keepdims=False: x.mean(axis, keepdims=keepdims),
    "ReduceMin": lambda x, axis, keepdims=False: x.min(axis, keepdims=keepdims),
    "ReduceLogSumExp": log_sum_exp,
    "ArgMax": lambda x, axis, keepdims=False: x.argmax(axis, keepdims=keepdims),
}  # fmt: skip
"""The other operators, for one observation."""


def random_value(builder: GraphBuilder, name: str, *shape: int) -> Value:
    """Add a weight of normal numbers, which depend on the name."""
    generator = np.random.default_rng(sum(map(ord, name)))
    return builder.weight(name, describe(generator.standard_normal(shape).astype(np.float32)), "test")
