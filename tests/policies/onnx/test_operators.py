"""Each operator in onnxruntime against the kernels, and graphs of random ones."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat.policies.onnx import OPSETS
from tests.helpers.many_cases import check_all
from tests.helpers.sampling import more_examples, with_exhaustive
from tests.policies.onnx.models import run_model
from tests.policies.run.graphs import UNARY, make_graph, run_graph
from tests.policies.run.test_kernels import ALONG, BINARY, PARAMETERS, SHAPES, numbers
from tests.policies.run.test_random_graphs import draw_inputs, graphs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.policies.graph import Graph

LIMITS: Final = (OPSETS[0], 17, 18, OPSETS[-1])
"""Opsets between which the form of an operator changes."""
SPECIAL: Final = [0.0, -0.0, 1e-30, 0.5, -0.5, 2.5, 20.0, -20.0, 89.0, -89.0, 1e4, -1e4, 3e38, -3e38, np.inf, -np.inf]
INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def check(
    op: str,
    values: list[np.ndarray],
    weights: list[np.ndarray] | None = None,
    opsets: Iterable[int] = LIMITS,
    **attributes: Any,
) -> None:
    """Compare with the kernel, at several opsets."""
    graph, inputs = make_graph(op, values, weights or [], **attributes)
    expected = run_graph(graph, inputs)["result"]
    for opset in opsets:
        (found,) = run_model(graph, inputs, opset)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)


def check_elementwise(op: str, shape: tuple[int, ...]) -> None:
    x = numbers(3, *shape) * 3
    check(op, [np.abs(x) if op in ("Log", "Sqrt") else x], **PARAMETERS.get(op, {}))


def test_elementwise() -> None:
    check_all(check_elementwise, itertools.product(UNARY, [(), (5,), (2, 3)]))


def check_special_numbers(op: str) -> None:
    x = np.array([SPECIAL], np.float32)
    if op in ("Log", "Sqrt"):
        x = np.abs(x[:, :-2])  # older releases of onnxruntime have NaN as the root of infinity
    check(op, [x], **PARAMETERS.get(op, {}))


def test_special_numbers() -> None:
    check_all(check_special_numbers, ((op,) for op in UNARY))


def check_two_operands(op: str, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    check(op, [numbers(3, *x), numbers(3, *y, seed=1)])
    check(op, [numbers(3, *x)], [numbers(*y, seed=1)])


@pytest.mark.parametrize("step", with_exhaustive([2], [1]))
def test_two_operands(step: int) -> None:
    """In the default run, half of the shapes with each operator."""
    cases = ((op, x, y) for at, op in enumerate(BINARY) for x, y in SHAPES[at % step :: step])
    check_all(check_two_operands, cases)


def test_where() -> None:
    x, y = numbers(4, 3), numbers(4, 2, 3, seed=1)
    check("Where", [x > 0, x, y])
    check("Where", [y > 0, y], [np.array(-1e8, np.float32)])


@pytest.mark.parametrize("opsets", with_exhaustive([LIMITS[::3]], [LIMITS]))
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype: str, opsets: tuple[int, ...]) -> None:
    compare = partial(check, opsets=opsets)
    x, y = np.array([[7, 100, 3]], dtype), np.array([[2, 30, 3]], dtype)
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Greater"):
        compare(op, [x, y])
        compare(op, [x], [y[0]])
    compare("Where", [x > y, x, y])
    for op in ("ReduceSum", "ReduceMean", "ReduceMin", "ArgMax"):
        compare(op, [x // 10], axis=-1)
    compare("Abs", [x])
    compare("Transpose", [x[:, None]], axes=(1, 0))
    compare("Concat", [x, y], axis=-1)
    compare("Slice", [x], axis=-1, start=1, end=3)
    compare("Reshape", [x], shape=(3, 1))
    compare("Identity", [x])


def test_a_quotient_of_integers_is_truncated() -> None:
    check("Div", [np.array([[7, -7, 3]])], [np.array([2, 2, 3])])
    check("Div", [np.array([[7, -7, 3]], np.int8)], [np.array([2, 2, 3], np.int8)])


def check_cast(source: str, to: str) -> None:
    check("Cast", [(np.abs(numbers(3, 5)) * 10).astype(source)], to=to)


def test_cast() -> None:
    sources = (*INTEGERS, "bool", "float16", "float32", "float64")
    check_all(check_cast, itertools.product(sources, ["float32", "int64", "int32", "bool"]))


def check_along_an_axis(op: str, axis: int) -> None:
    check(op, [numbers(3, 4, 5, 2)], axis=axis)
    if op not in ("Softmax", "LogSoftmax"):
        check(op, [numbers(3, 4, 5, 2)], axis=axis, keepdims=True)


def test_along_an_axis() -> None:
    check_all(check_along_an_axis, itertools.product(ALONG, [-1, -2, -3]))


def check_special_numbers_along_an_axis(op: str, row: list[float]) -> None:
    check(op, [np.array([row], np.float32)], axis=-1)


def test_special_numbers_along_an_axis() -> None:
    ops, rows = ("Softmax", "LogSoftmax", "ReduceMin", "ArgMax"), ([1e4, -1e4, 0], [-np.inf, 0, 1], [3, 3, 1])
    check_all(check_special_numbers_along_an_axis, itertools.product(ops, rows))


def test_layer_normalization() -> None:
    weights = [numbers(6, seed=1), numbers(6, seed=2)]
    check("LayerNormalization", [numbers(3, 6)], weights, epsilon=1e-5)
    check("LayerNormalization", [np.ones((3, 6), np.float32)], weights, epsilon=1e-12)
    check("LayerNormalization", [numbers(3, 6), numbers(3, 6, seed=1)], weights[:1], epsilon=1e-5)


def test_one_hot() -> None:
    check("OneHot", [np.array([0, 3, 5, 6])], depth=6)
    check("OneHot", [np.array([[0, 3], [5, 2]])], depth=6)
    check("OneHot", [np.array([0, 1])], depth=1)


def test_rearranged() -> None:
    x = numbers(3, 2, 4, 5)
    check("Transpose", [x], axes=(2, 0, 1))
    check("Reshape", [x], shape=(8, 5))
    check("Reshape", [x[:, :1, :1, :1]], shape=())
    check("Reshape", [np.array([1.0, 2.0], np.float32)], shape=(1, 1))
    check("Slice", [x], axis=-2, start=1, end=3)
    check("Concat", [x, x], axis=-3)
    check("Concat", [x], [x[0]], axis=-2)


@pytest.mark.parametrize("transposed", [True, False])
def test_layers(transposed: bool) -> None:  # noqa: FBT001 -- an attribute
    matrix = numbers(4, 3) if transposed else numbers(3, 4)
    check("Gemm", [numbers(5, 3)], [matrix], transB=transposed)
    check("Gemm", [numbers(5, 3)], [matrix, numbers(4)], transB=transposed)


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 0, 2), (0, 3, 1, 0)])
def test_convolutions(pads: tuple[int, ...]) -> None:
    check("Conv", [numbers(2, 3, 9, 7)], [numbers(4, 3, 3, 2), numbers(4)], strides=(2, 1), pads=pads)
    check("Conv", [numbers(2, 3, 9, 7)], [numbers(4, 3, 3, 2)], strides=(1, 3), pads=pads)


def test_values_without_items() -> None:
    check("Reshape", [np.empty((3, 0, 2), np.float32)], shape=(2, 0))
    check("Transpose", [np.empty((3, 0, 2), np.float32)], axes=(1, 0))
    check("Add", [np.empty((3, 0), np.float32)], [np.ones(1, np.float32)])
    check("Concat", [np.empty((3, 0), np.float32), numbers(3, 2)], axis=-1)


@more_examples(150)
@given(graph=graphs(), count=st.integers(0, 3), seed=st.integers(0, 99), opset=st.sampled_from(OPSETS), data=st.data())
def test_random_graphs(graph: Graph, count: int, seed: int, opset: int, data: st.DataObject) -> None:
    """A model computes what the graph does, whatever operators follow one another."""
    inputs = draw_inputs(graph, count, seed)
    is_fixed = count > 0 and data.draw(st.booleans())
    expected = run_graph(graph, inputs)
    found = run_model(graph, inputs, opset, count if is_fixed else None)
    for array, (name, other) in zip(found, expected.items()):
        wanted = other if name in graph.outputs and other.shape == array.shape else np.repeat(other[None], count, 0)
        assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(array, wanted, 1e-4, 1e-4)
