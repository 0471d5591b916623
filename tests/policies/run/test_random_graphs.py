"""Laws of programs over graphs of random nodes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat.limits import Budget
from sbformat.policies.builder import GraphBuilder, Value
from sbformat.policies.graph import Graph, Input, Sampling
from sbformat.policies.run.program import Program, Weights
from tests.helpers import thresholds
from tests.helpers.sampling import more_examples
from tests.policies.run.graphs import describe, interpret

ACTIVATIONS = ["Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "Neg", "Abs", "Identity"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]
SIZES = st.integers(1, 5)
Draw = st.DrawFn
NUMBERS = itertools.count()
"""Names of weights differ; nothing else depends on them."""


def draw_weight(draw: Draw, builder: GraphBuilder, *shape: int) -> Value:
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    name = f"weight {next(NUMBERS)}"
    return builder.weight(name, describe(generator.uniform(-1, 1, shape).astype(np.float32)), "test")


def draw_operand(draw: Draw, builder: GraphBuilder, values: list[Value], shape: tuple[int, ...]) -> Value:
    """Return a value or a weight that broadcasts with a shape."""
    fitting = [value for value in values if value.shape in (shape, shape[1:], (), (1,) * len(shape))]
    fitting.append(draw_weight(draw, builder, *draw(st.sampled_from([shape, shape[1:], ()]))))
    return draw(st.sampled_from(fitting))


def add_elementwise(draw: Draw, builder: GraphBuilder, values: list[Value], x: Value) -> Value:
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return builder.add(draw(st.sampled_from(ACTIVATIONS)), x)
    operands = [x, draw_operand(draw, builder, values, x.shape)]
    if draw(st.booleans()):
        operands.reverse()
    if kind == 1:
        return builder.add("Where", builder.add("Greater", *operands), *operands)
    return builder.add(draw(st.sampled_from(BINARY)), *operands)


def add_rearranged(draw: Draw, builder: GraphBuilder, values: list[Value], x: Value) -> Value:
    rank = len(x.shape)
    axis = draw(st.integers(-rank, -1))
    kind = draw(st.sampled_from(["Transpose", "Reshape", "Slice", "Concat"]))
    if kind == "Transpose":
        return builder.add(kind, x, axes=tuple(draw(st.permutations(range(rank)))))
    if kind == "Reshape":
        return builder.add(kind, x, shape=draw(st.sampled_from([(-1,), (1, -1), (-1, 1)]).map(lambda s: fill(s, x))))
    if kind == "Slice":
        start = draw(st.integers(0, x.shape[axis] - 1))
        return builder.add(kind, x, axis=axis, start=start, end=draw(st.integers(start + 1, x.shape[axis])))
    parts = [value for value in values if value.shape == x.shape] + [draw_weight(draw, builder, *x.shape)]
    return builder.add(kind, x, draw(st.sampled_from(parts)), axis=axis)


def fill(shape: tuple[int, ...], x: Value) -> tuple[int, ...]:
    return tuple(int(np.prod(x.shape)) if size < 0 else size for size in shape)


def add_layer(draw: Draw, builder: GraphBuilder, x: Value) -> Value:
    if len(x.shape) == 3:
        height, width = (draw(st.integers(1, min(3, size))) for size in x.shape[1:])
        filters = draw_weight(draw, builder, draw(SIZES), x.shape[0], height, width)
        strides, pads = draw(st.tuples(SIZES, SIZES)), draw(st.tuples(*[st.integers(0, 2)] * 4))
        return builder.add("Conv", x, filters, strides=strides, pads=pads)
    if len(x.shape) > 1:
        return builder.add(draw(st.sampled_from(["Softmax", "LogSoftmax"])), x, axis=-len(x.shape))
    outputs = draw(SIZES)
    matrix, bias = draw_weight(draw, builder, outputs, x.shape[0]), draw_weight(draw, builder, outputs)
    return builder.add("Gemm", x, matrix, *draw(st.sampled_from([(), (bias,)])), transB=True)


@st.composite
def graphs(draw: Draw) -> Graph:
    """Draw a graph of up to twelve nodes over vectors, matrices and images."""
    builder = GraphBuilder(Budget())
    shapes = draw(st.lists(st.lists(SIZES, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3))
    values = [builder.input(Input(f"x{at}", "float32", shape)) for at, shape in enumerate(shapes)]
    values.append(draw_weight(draw, builder, draw(SIZES)))
    for _ in range(draw(st.integers(1, 12))):
        x = draw(st.sampled_from([value for value in values if 1 <= len(value.shape) <= 4]))
        kind = draw(st.integers(0, 2))
        if kind == 0:
            values.append(add_elementwise(draw, builder, values, x))
        elif kind == 1:
            values.append(add_rearranged(draw, builder, values, x))
        elif x.is_weight and len(x.shape) in (1, 3):
            continue
        else:
            values.append(add_layer(draw, builder, x))
    nodes = [value for value in values if not value.is_weight]
    wanted = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3))
    return builder.build({f"result {at}": value for at, value in enumerate(wanted)}, Sampling("none"))


def draw_inputs(graph: Graph, count: int, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {item.name: generator.uniform(-2, 2, (count, *item.shape)).astype(np.float32) for item in graph.inputs}


@more_examples(100)
@given(graph=graphs(), count=st.integers(1, 9), rows=st.integers(1, 9), seed=st.integers(0, 99))
def test_a_program_gives_what_a_plain_interpreter_gives(graph: Graph, count: int, rows: int, seed: int) -> None:
    """Folding, views, results in place of operands, blocks and pieces of convolutions change nothing but rounding."""
    inputs = draw_inputs(graph, count, seed)
    before = {name: value.copy() for name, value in inputs.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds.BATCH_ROWS, rows)
        patch.setattr(thresholds.CONVOLUTION_ITEMS, 40)
        made = Program(graph, list(graph.outputs.values()), Weights(graph, Budget()))
        first, second = made.run(inputs), made.run(inputs)
    for name, one, again, expected in zip(graph.outputs, first, second, interpret(graph, inputs).values()):
        assert (one.dtype, one.shape) == (expected.dtype, expected.shape), name
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-4)
        assert np.array_equal(one, again)
    assert all(np.array_equal(before[name], inputs[name]) for name in inputs)


@more_examples(100)
@given(graph=graphs(), seed=st.integers(0, 99), data=st.data())
def test_a_value_that_is_supplied_is_not_computed(graph: Graph, seed: int, data: st.DataObject) -> None:
    """To run from a node on is to run from the inputs, when the node's own value is supplied."""
    if not graph.nodes:
        return
    inputs = draw_inputs(graph, 3, seed)
    weights, node = Weights(graph, Budget()), data.draw(st.sampled_from(graph.nodes))
    whole = Program(graph, [*graph.outputs.values(), node.name], weights).run(inputs)
    value = whole.pop()
    if value.ndim == len(node.shape):
        return  # it depends on weights alone
    rest = Program(graph, list(graph.outputs.values()), weights, given=[node.name])
    for one, other in zip(rest.run({**inputs, node.name: value}), whole):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
