"""Each kernel against a plain one: loops over items, in float64."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest

from sbformat.limits import Budget
from sbformat.policies.builder import GraphBuilder
from sbformat.policies.graph import Input, Node, Sampling
from sbformat.policies.operators import OPERATORS
from sbformat.policies.run.program import Program, Weights, bind_node
from tests.helpers import thresholds
from tests.helpers.many_cases import check_all

from .graphs import OTHERS, UNARY, interpret, make_graph, run_graph

PARAMETERS: dict[str, dict[str, Any]] = {
    "Elu": {"alpha": 1.5},
    "Celu": {"alpha": 0.7},
    "Selu": {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805},
    "LeakyRelu": {"alpha": 0.01},
    "HardSigmoid": {"alpha": 1 / 6, "beta": 0.5},
    "Shrink": {"lambd": 0.5, "bias": 0.25},
}
BINARY = ["Add", "Sub", "Mul", "Div", "Max", "Min", "Greater", "PRelu"]
ALONG = ["Softmax", "LogSoftmax", "ReduceSum", "ReduceMean", "ReduceMin", "ReduceLogSumExp", "ArgMax"]
SHAPES = [((4,), (4,)), ((2, 4), (4,)), ((4,), (2, 4)), ((2, 1), (3,)), ((), (3,)), ((3,), ()), ((1,), (1, 1))]
SPECIAL = [0.0, -0.0, 1e-30, 0.5, -0.5, 20.0, -20.0, 89.0, -89.0, 1e4, -1e4, 3e38, -3e38, np.inf, -np.inf, np.nan]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check(op: str, values: list[np.ndarray], weights: list[np.ndarray] | None = None, **attributes: Any) -> None:
    """Compare with the plain interpreter, for several sizes of the batch.

    Sums of products may also differ by one rounding of the sum of their magnitudes: BLAS adds in an order of its own.
    """
    for rows in (1, 2, len(values[0])):
        graph, inputs = make_graph(op, [value[:rows] for value in values], weights or [], **attributes)
        before = {name: value.copy() for name, value in inputs.items()}
        made, expected = run_graph(graph, inputs)["result"], interpret(graph, inputs)["result"]
        assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
        tolerance = 2e-6
        if op in ("Conv", "Gemm"):
            positive, magnitudes = make_graph(
                op, [abs(inputs[name]) for name in inputs], [*map(abs, weights or [])], **attributes
            )
            sums = interpret(positive, magnitudes)["result"]
            tolerance += float(np.finfo(np.float32).eps) * float(sums.max(initial=0.0))
        np.testing.assert_allclose(made, expected, rtol=2e-6, atol=tolerance)
        assert all(np.array_equal(before[name], inputs[name], equal_nan=True) for name in inputs)


def test_every_operator_is_compared_with_a_plain_one() -> None:
    assert set(OPERATORS) == {*UNARY, *OTHERS, "Call"}


def check_elementwise(op: str, size: int) -> None:
    x = numbers(3, size) * 3
    check(op, [np.abs(x) if op in ("Log", "Sqrt") else x], **PARAMETERS.get(op, {}))


def test_elementwise() -> None:
    check_all(check_elementwise, itertools.product(UNARY, [1, 5, 700]))


def check_special_numbers(op: str, repeated: int) -> None:
    x = np.array([SPECIAL * repeated], np.float32)
    check(op, [x], **PARAMETERS.get(op, {}))


def test_special_numbers() -> None:
    check_all(check_special_numbers, itertools.product(UNARY, [1, 60]))


def test_erf_is_accurate() -> None:
    check("Erf", [np.linspace(-6, 6, 3001, dtype=np.float32)[None]])


def check_two_operands(op: str, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    check(op, [numbers(3, *x), numbers(3, *y, seed=1)])
    check(op, [numbers(3, *x)], [numbers(*y, seed=1)])


def test_two_operands() -> None:
    check_all(check_two_operands, ((op, x, y) for op in BINARY for x, y in SHAPES))


def check_bounds_of_special_numbers(op: str, bound: float, size: int) -> None:
    x = np.resize(np.array([SPECIAL], np.float32), (1, size))
    check(op, [x], [np.array(bound, np.float32)])
    check(op, [x], [np.append(x[0, 1:], np.float32(bound))])


def test_bounds_of_special_numbers() -> None:
    check_all(check_bounds_of_special_numbers, itertools.product(["Max", "Min"], SPECIAL, [len(SPECIAL), 800]))


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_bounds_that_are_computed_may_be_nan(op: str) -> None:
    check(op, [numbers(1, 4), np.array([[np.nan]], np.float32)])


def test_where() -> None:
    x, y = numbers(4, 3), numbers(4, 2, 3, seed=1)
    check("Where", [x > 0, x, y])
    check("Where", [y > 0, y], [np.array(-1e8, np.float32)])


def test_integers() -> None:
    x, y = np.array([[7, -7, 3]]), np.array([[2, 2, 3]])
    check("Add", [x, y])
    check("Div", [x, y])
    check("Max", [x], [np.array([1, 2, 3])])
    check("ReduceSum", [x], axis=-1)


@pytest.mark.parametrize(
    ("source", "to"), [("uint8", "float32"), ("float64", "float32"), ("bool", "int64"), ("float32", "int32")]
)
def test_cast(source: str, to: str) -> None:
    check("Cast", [(numbers(3, 5) * 10).astype(source)], to=to)


def check_along_an_axis(op: str, axis: int) -> None:
    check(op, [numbers(3, 4, 5, 2)], axis=axis)
    if op not in ("Softmax", "LogSoftmax"):
        check(op, [numbers(3, 4, 5, 2)], axis=axis, keepdims=True)


def test_along_an_axis() -> None:
    check_all(check_along_an_axis, itertools.product(ALONG, [-1, -2, -3]))


def check_special_numbers_along_an_axis(op: str, row: list[float]) -> None:
    check(op, [np.array([row], np.float32)], axis=-1)


def test_special_numbers_along_an_axis() -> None:
    rows = (
        [1e4, -1e4, 0], [-np.inf, 0, 1], [np.inf, 0, 1], [np.nan, 0, 1], [0, np.nan, np.inf], [-np.inf] * 3
    )  # fmt: skip
    check_all(check_special_numbers_along_an_axis, itertools.product([op for op in ALONG if op != "ReduceMean"], rows))


def test_arg_max_is_the_first_greatest() -> None:
    check("ArgMax", [np.array([[1, 3, 3, 2], [0, 0, 0, 0]], np.float32)], axis=-1)


def test_layer_normalization() -> None:
    check("LayerNormalization", [numbers(3, 6)], [numbers(6, seed=1), numbers(6, seed=2)], epsilon=1e-5)
    check("LayerNormalization", [np.ones((3, 6), np.float32)], [numbers(6), numbers(6, seed=2)], epsilon=1e-12)


def test_one_hot() -> None:
    check("OneHot", [np.array([0, 3, 5, -1, 6])], depth=6)
    check("OneHot", [np.array([[0, 3], [5, 2]])], depth=6)


def test_rearranged() -> None:
    x = numbers(3, 2, 4, 5)
    check("Transpose", [x], axes=(2, 0, 1))
    check("Reshape", [x], shape=(8, 5))
    check("Reshape", [x], shape=(1, 40))
    check("Slice", [x], axis=-2, start=1, end=3)
    check("Concat", [x, x[:, :1]], axis=-3)
    check("Concat", [x], [x[0, :, :1]], axis=-2)
    check("Reshape", [numbers(3)], shape=(1, 1))


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), [(4, 3), (1, 1), (0, 2), (2, 0), (70, 65)])
def test_gemm(inputs: int, outputs: int, *, transposed: bool) -> None:
    shape = (outputs, inputs) if transposed else (inputs, outputs)
    x, weight = numbers(5, inputs), numbers(*shape, seed=1)
    check("Gemm", [x], [weight], transB=transposed)
    check("Gemm", [x], [weight, numbers(outputs, seed=2)], transB=transposed)


def check_conv(kernel: tuple[int, int], strides: tuple[int, int], pads: tuple[int, ...]) -> None:
    x, weight = numbers(3, 2, 6, 7), numbers(5, 2, *kernel, seed=1)
    check("Conv", [x], [weight], strides=strides, pads=pads)
    check("Conv", [x], [weight, numbers(5, seed=2)], strides=strides, pads=pads)


def test_conv() -> None:
    sizes, strides = [(1, 1), (3, 2), (6, 7)], [(1, 1), (2, 3), (4, 4)]
    check_all(check_conv, itertools.product(sizes, strides, [(0, 0, 0, 0), (1, 2, 0, 3), (1, 1, 1, 1)]))


@pytest.mark.parametrize("items", [1, 20, 100, 300])
def test_a_convolution_in_pieces_is_the_same(items: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds.CONVOLUTION_ITEMS, items)
    x, weight = numbers(5, 2, 6, 7), numbers(5, 2, 3, 2, seed=1)
    check("Conv", [x], [weight, numbers(5, seed=2)], strides=(1, 2), pads=(1, 0, 0, 1))


@pytest.mark.parametrize(("kernel", "image"), [((1, 6000), (1, 12000)), ((60, 50), (100, 100)), ((1, 1), (300, 300))])
def test_the_memory_of_a_convolution_is_bounded(kernel: tuple[int, int], image: tuple[int, int]) -> None:
    """All patches of the first would take 144 MB; a file can ask for far more than its size."""
    graph, inputs = make_graph(
        "Conv", [numbers(4, 1, *image)], [numbers(1, 1, *kernel)], strides=(1, 1), pads=(0, 0, 0, 0)
    )
    program = Program(graph, ["result"], Weights(graph, Budget()))
    tracemalloc.start()
    try:
        (made,) = program.run(inputs)
        assert tracemalloc.get_traced_memory()[1] < 8 * sum(array.nbytes for array in (*inputs.values(), made)) + 1e6
    finally:
        tracemalloc.stop()
    last = (inputs["x0"][-1, 0, -kernel[0] :, -kernel[1] :].astype(float) * numbers(*kernel)).sum()
    assert made[-1, 0, -1, -1] == pytest.approx(last, rel=1e-3, abs=1e-2)


def check_the_result_may_replace_the_operand(op: str) -> None:
    x = np.abs(numbers(3, 6)) if op in ("Log", "Sqrt") else numbers(3, 6)
    others = [numbers(3, 6, seed=at) for at in range(1, OPERATORS[op].operands[0])]
    attributes = {**PARAMETERS.get(op, {}), **({"axis": -1} if "axis" in OPERATORS[op].attributes else {})}
    attributes |= {"epsilon": 1e-5} if op == "LayerNormalization" else {}
    node = Node("out", op, (), attributes, "float32", (6,))
    separate, copies = np.empty_like(x), [other.copy() for other in others]
    for out in (separate, x):
        for step in bind_node(node, out, [x, *others], {}):
            step()
    assert np.array_equal(separate, x)
    assert all(map(np.array_equal, copies, others))


def test_the_result_may_replace_the_operand() -> None:
    check_all(
        check_the_result_may_replace_the_operand, ((op,) for op, row in OPERATORS.items() if row.in_place and row.numpy)
    )


def check_columns_of_a_matrix(op: str, width: int) -> None:
    """Operators in place in views with gaps, as in the gates of an LSTM with one unit."""
    builder = GraphBuilder(Budget())
    x = builder.input(Input("x", "float32", (width,)))
    total = builder.add("Abs", x)
    parts = [builder.add("Slice", total, axis=-1, start=at, end=at + 1) for at in range(width)]
    made = [builder.add(op, part, **PARAMETERS.get(op, {})) for part in parts]
    graph = builder.build({str(at): value for at, value in enumerate(made)}, Sampling("none"))
    inputs = {"x": numbers(5, width)}
    for name, expected in interpret(graph, inputs).items():
        np.testing.assert_allclose(run_graph(graph, inputs)[name], expected, 1e-5, 1e-6)


def test_columns_of_a_matrix() -> None:
    check_all(check_columns_of_a_matrix, itertools.product(UNARY, [2, 4, 8]))
