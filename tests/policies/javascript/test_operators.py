"""Each operator in JavaScript against the kernels, and graphs of random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat import UnsupportedError
from sbformat.limits import Budget
from sbformat.policies.builder import GraphBuilder
from sbformat.policies.graph import Input, Sampling
from sbformat.policies.operators import OPERATORS
from tests.helpers.javascript_policy import RUNTIME, Node, run_node
from tests.helpers.sampling import more_examples
from tests.policies.javascript.models import make_graph_program, run_in_node
from tests.policies.run.graphs import UNARY, describe, interpret, make_graph, run_graph
from tests.policies.run.test_kernels import ALONG, BINARY, PARAMETERS, SHAPES, SPECIAL, numbers
from tests.policies.run.test_random_graphs import draw_inputs, graphs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.policies.graph import Graph

_node = pytest.fixture(scope="module", name="node")(run_node)
INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def check(node: Node, op: str, values: Sequence[np.ndarray], *weights: np.ndarray, **attributes: Any) -> None:
    """Compare a graph of one operator with the kernels."""
    graph, inputs = make_graph(op, values, weights, **attributes)
    found, expected = run_in_node(node, graph, inputs)["result"], run_graph(graph, inputs)["result"]
    assert found.dtype == expected.dtype
    what = f"{op} of {[(str(value.dtype), value.shape) for value in [*values, *weights]]} {attributes}"
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), 1e-5, 2e-6, err_msg=what)


def test_the_runtime_has_every_operator() -> None:
    text = RUNTIME.read_text("ascii")
    table = text[text.index("const BINARY = {") : text.index("\n};", text.index("const KERNELS = {"))]
    assert [op for op in OPERATORS if f"{op}:" not in table] == ["Call"]


def test_elementwise(node: Node) -> None:
    """Of normal numbers; infinities, NaN, zeros, and what overflows; and no items."""
    for op in UNARY:
        parameters = PARAMETERS.get(op, {})
        for x in (numbers(3, 2, 3) * 3, np.array([SPECIAL], np.float32), np.zeros((1, 0), np.float32)):
            with np.errstate(all="ignore"):
                check(node, op, [np.abs(x) if op in ("Log", "Sqrt") else x], **parameters)
        check(node, op, [np.abs(numbers(3))], **parameters)


def test_tanh_is_accurate_and_within_bounds(node: Node) -> None:
    near = np.linspace(0, 10, 20_000, dtype=np.float32)
    x = np.concatenate([near, -near, np.float32([1e-30, 1e30])])[None]
    found = run_in_node(node, *make_graph("Tanh", [x]))["result"]
    np.testing.assert_allclose(found, np.tanh(x.astype(np.float64)), 2e-7, 9e-8)
    assert np.abs(found).max() == 1


def test_elementwise_of_float64_is_exact(node: Node) -> None:
    x = np.random.default_rng(0).normal(size=(1, 50))
    for op in ("Tanh", "Exp", "Sigmoid", "Sqrt"):
        graph, inputs = make_graph(op, [np.abs(x)])
        np.testing.assert_allclose(
            run_in_node(node, graph, inputs)["result"], run_graph(graph, inputs)["result"], 1e-14, 1e-15
        )


def test_two_operands(node: Node) -> None:
    for op in BINARY:
        for x, y in SHAPES:
            check(node, op, [numbers(3, *x), numbers(3, *y, seed=1)])
            check(node, op, [numbers(3, *x)], numbers(*y, seed=1))
        pairs = np.array([[x, y] for x in SPECIAL for y in SPECIAL], np.float32).T
        if op != "PRelu":  # of infinities, numpy's depends on the sign of zero
            check(node, op, [pairs[:1], pairs[1:]])
        check(node, op, [np.zeros((1, 0), np.float32), np.zeros((1, 1), np.float32)])


def test_where(node: Node) -> None:
    x, y = numbers(4, 3), numbers(4, 2, 3, seed=1)
    check(node, "Where", [x > 0, x, y])
    check(node, "Where", [y > 0, y], np.array(-1e8, np.float32))
    check(node, "Where", [x[:, :1] > 0, x, y])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(node: Node, dtype: str) -> None:
    x, y = np.array([[7, 100, 3]], dtype), np.array([[2, 30, 3]], dtype)
    for op in ("Add", "Sub", "Div", "Max", "Min", "Greater"):
        if not (op == "Sub" and dtype == "uint64"):
            check(node, op, [x, y])
    check(node, "Mul", [x // 10, y])
    for op in ("ReduceSum", "ReduceMean", "ReduceMin", "ArgMax"):
        check(node, op, [x // 10], axis=-1)
    check(node, "Concat", [x, y], axis=-1)
    check(node, "Relu", [x])


def test_integers_of_32_bits_wrap_as_in_numpy(node: Node) -> None:
    x, y = np.array([[2**31 - 1, -(2**31), -7, 7, 0]], np.int32), np.array([[1, -1, 2, -2, 5]], np.int32)
    for op in ("Add", "Sub", "Mul"):
        check(node, op, [x, y])
    check(node, "Mul", [x, x])
    check(node, "Div", [x[:, 2:], y[:, 2:]])


def test_cast(node: Node) -> None:
    x, targets = np.abs(numbers(3, 5)) * 10, (*INTEGERS, "bool", "float32", "float64")
    for source in (*INTEGERS, "bool", "float32", "float64"):
        for to in targets:
            check(node, "Cast", [x.astype(source)], to=to)
    odd = np.array([[np.nan, np.inf, -np.inf, 1e30, -2.7, 2.7]], np.float32)
    check(node, "Cast", [odd], to="bool")
    found = run_in_node(node, *make_graph("Cast", [odd], to="int64"))["result"]
    assert found.tolist() == [[*[-(2**63)] * 4, -2, 2]]


def test_along_an_axis(node: Node) -> None:
    rows = [[1e4, -1e4, 0], [-np.inf, 0, 1], [3, 3, 1], [1, np.nan, 2], [np.nan, np.nan, 5], [np.inf, 0, np.nan]]
    rows += [[np.inf, np.inf, 0], [-np.inf, -np.inf, -np.inf]]
    for op in ALONG:
        for axis in (-1, -2, -3):
            check(node, op, [numbers(3, 4, 5, 2)], axis=axis)
            if "oftmax" not in op:
                check(node, op, [numbers(3, 4, 5, 2)], axis=axis, keepdims=True)
        check(node, op, [np.array(rows, np.float32)], axis=-1)


def test_rearranged(node: Node) -> None:
    x = numbers(2, 3, 4, 5)
    for axis, end in ((-1, 4), (-2, 3), (-3, 2)):
        check(node, "Slice", [x], axis=axis, start=1, end=end)
        check(node, "Concat", [x, x + 1, x], axis=axis)
    check(node, "Transpose", [x], axes=(2, 0, 1))
    check(node, "Reshape", [x], shape=(5, 12))
    check(node, "OneHot", [np.array([[0, 3], [5, -1]])], depth=6)
    check(node, "OneHot", [np.array([0, 6])], depth=6)


def test_layers(node: Node) -> None:
    x = numbers(3, 7)
    for outputs in (1, 4, 6, 9):
        check(node, "Gemm", [x], numbers(outputs, 7, seed=1), numbers(outputs, seed=2), transB=True)
        check(node, "Gemm", [x], numbers(7, outputs, seed=1), transB=False)
    for scale in (numbers(3, 7), np.ones((3, 7), np.float32), numbers(3, 7) * 1e-3 + 300):
        check(node, "LayerNormalization", [scale], numbers(7, seed=1), numbers(7, seed=2), epsilon=1.0)
    image = numbers(2, 3, 6, 7)
    for strides, pads in (((1, 1), (0, 0, 0, 0)), ((2, 3), (1, 0, 2, 3)), ((1, 2), (2, 2, 0, 0))):
        check(node, "Conv", [image], numbers(5, 3, 2, 3, seed=1), numbers(5, seed=2), strides=strides, pads=pads)
    check(node, "Conv", [image], numbers(4, 3, 6, 7, seed=1), strides=(1, 1), pads=(0, 0, 0, 0))


def test_items_that_are_not_numbers_spread_as_in_numpy(node: Node) -> None:
    x = np.array([[np.nan, 1, np.inf], [0, 1, np.inf], [-np.inf, 1, np.inf]], np.float32)
    check(node, "Gemm", [x], np.ones((5, 3), np.float32), transB=True)


def test_half_precision_is_refused() -> None:
    builder = GraphBuilder(Budget())
    x = builder.input(Input("x", "float16", (2,)))
    moved, computed = builder.add("Reshape", x, shape=(2, 1)), builder.add("Tanh", x, module="pi")
    assert make_graph_program(builder.build({"result": moved}, Sampling("none")))["nodes"]
    with pytest.raises(UnsupportedError, match="'pi' computes in float16, which JavaScript does not have"):
        make_graph_program(builder.build({"result": computed}, Sampling("none")))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_integers_that_javascript_does_not_have_are_refused(node: Node, dtype: str) -> None:
    x = np.array([[0]], dtype)
    check(node, "Add", [x], np.array([2**53 - 1], dtype))
    with pytest.raises(UnsupportedError, match="'w0': expected integers up to 2\\*\\*53, got 9007199254740994"):
        make_graph_program(make_graph("Add", [x], [np.array([2**53 + 2], dtype)])[0])


@more_examples(100)
@given(graph=graphs(), seed=st.integers(0, 99))
def test_random_graphs(node: Node, graph: Graph, seed: int) -> None:
    """Folding, views and repeated operands change nothing but rounding."""
    inputs = draw_inputs(graph, 2, seed)
    for name, expected in interpret(graph, inputs).items():
        np.testing.assert_allclose(run_in_node(node, graph, inputs)[name], expected, 1e-4, 1e-4)


def test_arrays_in_another_order_are_read(node: Node) -> None:
    """As statistics and bounds are stored: column by column, or with the first byte first."""
    array = numbers(2, 3)
    for info in (
        describe(array)._replace(order="F", buffer=array.tobytes("F")),
        describe(array)._replace(dtype=">f4", buffer=array.astype(">f4").tobytes()),
    ):
        builder = GraphBuilder(Budget())
        x = builder.input(Input("x", "float32", (2, 3)))
        graph = builder.build({"result": builder.add("Add", x, builder.weight("w", info, "test"))}, Sampling("none"))
        found = run_in_node(node, graph, {"x": np.zeros((1, 2, 3), np.float32)})["result"]
        assert (found[0] == array).all()
