"""Each operator in C against the kernels, and graphs of random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sbformat import UnsupportedError
from tests.helpers.c_policy import CPLUSPLUS, find_program
from tests.helpers.sampling import with_exhaustive
from tests.policies.c.models import QUICK, Case, run_cases
from tests.policies.run.graphs import UNARY, interpret, make_graph, run_graph
from tests.policies.run.test_kernels import PARAMETERS, numbers
from tests.policies.run.test_random_graphs import draw_inputs, graphs

if TYPE_CHECKING:
    from collections.abc import Sequence

SPECIAL: Final = [
    0.0, -0.0, 1e-30, 0.5, -0.5, 2.5, 20.0, -20.0, 89.0, -89.0, 1e4, -1e4, 3e38, -3e38, np.inf, -np.inf, np.nan,
]  # fmt: skip
INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
ALONG: Final = ("Softmax", "LogSoftmax", "ReduceSum", "ReduceMean", "ReduceMin", "ReduceLogSumExp", "ArgMax")
WHOLE: Final = ("-O0", "-fsanitize=undefined", "-fno-sanitize-recover=undefined")


def case(op: str, values: Sequence[np.ndarray], *weights: np.ndarray, **attributes: Any) -> Case:
    """A graph of one operator."""
    return Case(*make_graph(op, values, weights, **attributes))


def check(*cases: Case, flags: Sequence[str] = QUICK) -> None:
    """Compare all outputs with those of the kernels."""
    for found, (graph, inputs) in zip(run_cases(cases, flags=flags), cases):
        for array, (name, expected) in zip(found, run_graph(graph, inputs).items()):
            dtypes = [str(given.dtype) for given in inputs.values()]
            what = f"{[node.op for node in graph.nodes]} of {dtypes}, output {name}"
            assert array.shape[1:] == expected.shape[array.ndim - expected.ndim :][-array.ndim + 1 :] or array.ndim == 1
            np.testing.assert_allclose(array, np.broadcast_to(expected, array.shape), 1e-5, 2e-6, err_msg=what)


def positive(op: str, x: np.ndarray) -> np.ndarray:
    return np.abs(x) if op in ("Log", "Sqrt") else x


def test_elementwise() -> None:
    check(*(
        case(op, [positive(op, numbers(3, *shape) * 3)], **PARAMETERS.get(op, {}))
        for op in UNARY
        for shape in ((), (5,), (2, 3))
    ))  # fmt: skip


def test_special_numbers() -> None:
    """Infinities, NaN, zeros, and what overflows."""
    check(*(case(op, [np.array([SPECIAL], np.float32)], **PARAMETERS.get(op, {})) for op in UNARY), flags=WHOLE)
    pairs = np.array([[x, y] for x in SPECIAL for y in SPECIAL], np.float32).T
    check(
        *(case(op, [pairs[:1], pairs[1:]]) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Greater")), flags=WHOLE
    )


@pytest.mark.parametrize("flags", [("-O0",), ("-O3",)], ids=str)
def test_tanh_is_accurate_and_within_bounds(flags: tuple[str, ...]) -> None:
    """To 4 units in the last place of 1, and never beyond 1: what is scaled to bounds stays within them."""
    bits = np.random.default_rng(0).integers(0, 0x7F800000, 200_000, np.uint32).view(np.float32)
    near = np.linspace(0, 10, 200_000, dtype=np.float32)
    x = np.concatenate([bits, -bits, near, -near])[None]
    ((found,),) = run_cases([case("Tanh", [x])], flags=flags)
    np.testing.assert_allclose(found, np.tanh(x.astype(np.float64)), 0, 5e-7)
    np.testing.assert_allclose(found[np.abs(x) < 1e-3], x[np.abs(x) < 1e-3], 1e-6, 0)
    assert np.abs(found).max() == 1


@pytest.mark.parametrize("step", with_exhaustive([3], [1]))
def test_two_operands(step: int) -> None:
    """In the default run, a third of the shapes with each operator."""
    shapes = [
        ((4,), (4,)), ((2, 4), (4,)), ((4,), (2, 4)), ((2, 1), (3,)), ((), (3,)), ((3,), ()), ((1,), (1, 1)),
        ((2, 3, 4), (3, 1)), ((2, 1, 4), (3, 1)), ((1, 3, 1), (2, 1, 4)),
    ]  # fmt: skip
    check(*(
        made
        for at, op in enumerate(("Add", "Sub", "Mul", "Div", "Max", "Min", "Greater", "PRelu"))
        for x, y in shapes[at % step :: step]
        for made in (
            case(op, [numbers(3, *x), numbers(3, *y, seed=1)]),
            case(op, [numbers(3, *x)], numbers(*y, seed=1)),
        )
    ))  # fmt: skip


def test_where() -> None:
    x, y = numbers(4, 3), numbers(4, 2, 3, seed=1)
    check(
        case("Where", [x > 0, x, y]),
        case("Where", [y > 0, y], np.array(-1e8, np.float32)),
        case("Where", [x > 0, x.astype(np.int64), x.astype(np.int64) + 1]),
        case("Where", [x[:, :1] > 0, x, y]),
    )


def make_cases_of_integers(dtype: str) -> list[Case]:
    x, y = np.array([[7, 100, 3]], dtype), np.array([[2, 30, 3]], dtype)
    made = [case(op, [x, y]) for op in ("Add", "Sub", "Div", "Max", "Min", "Greater")]
    made += [case(op, [x], y[0]) for op in ("Add", "Sub", "Div", "Max", "Min", "Greater")]
    made += [case(op, [x // 10], axis=-1) for op in ("ReduceSum", "ReduceMean", "ReduceMin", "ArgMax")]
    return [
        *made, case("Mul", [x // 10, y]), case("Where", [x > y, x, y]), case("Abs", [x]), case("Relu", [x]),
        case("Transpose", [x[:, None]], axes=(1, 0)), case("Concat", [x, y], axis=-1), case("Identity", [x]),
        case("Slice", [x], axis=-1, start=1, end=3), case("Reshape", [x], shape=(3, 1)),
    ]  # fmt: skip


@pytest.mark.parametrize("step", with_exhaustive([3], [1]))
def test_integers(step: int) -> None:
    """In the default run, each operator of every third type, and a third of the operators of each type."""
    check(
        *(made for at, dtype in enumerate(INTEGERS) for made in make_cases_of_integers(dtype)[at % step :: step]),
        flags=WHOLE,
    )


def test_integers_wrap_as_in_numpy() -> None:
    x, y = np.array([[2**31 - 1, -(2**31), -7, 7, 0]], np.int32), np.array([[1, -1, 2, -2, 5]], np.int32)
    check(*(case(op, [x, y]) for op in ("Add", "Sub", "Mul")), case("Neg", [x]), case("Abs", [x]), flags=WHOLE)
    small = np.array([[127, -128, -7]], np.int8)
    check(case("Add", [small, small]), case("Mul", [small, small]), case("Neg", [small]), flags=WHOLE)
    check(case("Div", [x[:, 2:], y[:, 2:]]), flags=WHOLE)
    run_cases([case("Div", [x, y]), case("Div", [x, y * 0])], flags=WHOLE)  # no trap; numpy has no result to compare


@pytest.mark.parametrize("step", with_exhaustive([3], [1]))
def test_cast(step: int) -> None:
    """In the default run, a third of the types to which each type is converted."""
    x, targets = np.abs(numbers(3, 5)) * 10, (*INTEGERS, "bool", "float32")
    check(
        *(
            case("Cast", [x.astype(source)], to=to)
            for at, source in enumerate((*INTEGERS, "bool", "float16", "float32", "float64"))
            for to in targets[at % step :: step]
        ),
        flags=WHOLE,
    )


def test_numbers_that_an_integer_type_does_not_have() -> None:
    """No undefined behaviour; an index of these is out of every range."""
    x = np.array([[np.nan, np.inf, -np.inf, 3e9, -3e9, 2.0**31, 2.0**32, -(2.0**31)]], np.float32)
    found = run_cases([case("Cast", [x], to=to) for to in INTEGERS], flags=WHOLE)
    assert found[INTEGERS.index("int64")][0].tolist() == [[-(2**31)] * 8]
    wide = np.array([[2.0**31, 3e9, 4294967040.0, -1.0]], np.float32)
    check(case("Cast", [wide[:, :3]], to="uint32"), flags=WHOLE)
    check(case("Cast", [x], to="bool"))


def test_along_an_axis() -> None:
    x = numbers(3, 4, 5, 2)
    check(*(case(op, [x], axis=axis) for op in ALONG for axis in (-1, -2, -3)))
    check(*(case(op, [x], axis=axis, keepdims=True) for op in ALONG[2:] for axis in (-1, -2, -3)))


def test_special_numbers_along_an_axis() -> None:
    rows = [[1e4, -1e4, 0], [-np.inf, 0, 1], [3, 3, 1], [1, np.nan, 2], [np.nan, np.nan, 5], [np.inf, 0, np.nan]]
    rows += [[np.inf, np.inf, 0], [-np.inf, -np.inf, -np.inf]]
    check(*(case(op, [np.array(rows, np.float32)], axis=-1) for op in ALONG))


def test_layer_normalization() -> None:
    weights = [numbers(6, seed=1), numbers(6, seed=2)]
    check(
        case("LayerNormalization", [numbers(3, 6)], *weights, epsilon=1e-5),
        case("LayerNormalization", [np.ones((3, 6), np.float32)], *weights, epsilon=1e-12),
        case("LayerNormalization", [numbers(3, 6), numbers(3, 6, seed=1)], weights[0], epsilon=1e-5),
        case("LayerNormalization", [numbers(3, 6) * 1e-3 + 300], *weights, epsilon=1.0),
    )


def test_one_hot() -> None:
    check(
        case("OneHot", [np.array([0, 3, 5, 6, -1])], depth=6),
        case("OneHot", [np.array([[0, 3], [5, 2]])], depth=6),
        case("OneHot", [np.array([0, 1])], depth=1),
    )


def test_rearranged() -> None:
    x = numbers(3, 2, 4, 5)
    check(
        *(case("Transpose", [x], axes=axes) for axes in ((2, 0, 1), (0, 1, 2), (1, 0, 2), (0, 2, 1), (2, 1, 0))),
        case("Transpose", [x[:, :1]], axes=(1, 0, 2)), case("Transpose", [x[:, :, :1]], axes=(1, 2, 0)),
        case("Reshape", [x], shape=(8, 5)), case("Reshape", [x[:, :1, :1, :1]], shape=()),
        *(case("Slice", [x], axis=axis, start=1, end=2) for axis in (-1, -2, -3)),
        case("Slice", [x[:, 0, 0]], axis=-1, start=1, end=3),
        *(case("Concat", [x, x + 1], axis=axis) for axis in (-1, -2, -3)),
        case("Concat", [x], x[0], axis=-2), case("Concat", [x], axis=-1),
        case("Concat", [x[..., :1], x], axis=-1),
    )  # fmt: skip


def test_layers() -> None:
    made: list[Case] = []
    for inputs in (1, 3, 4, 9):
        for weight, transposed in ((numbers(4, inputs), True), (numbers(inputs, 4), False)):
            made += [
                case("Gemm", [numbers(5, inputs)], weight, transB=transposed),
                case("Gemm", [numbers(5, inputs)], weight, numbers(4), transB=transposed),
            ]
    check(*made, flags=("-O3",))


@pytest.mark.parametrize("step", with_exhaustive([2], [1]))
def test_convolutions(step: int) -> None:
    """In the default run, each of the strides with a bias or without."""
    x, weight = numbers(2, 3, 9, 7), numbers(4, 3, 3, 2)
    check(*([
        case("Conv", [x], weight, *bias, strides=strides, pads=pads)
        for pads in ((0, 0, 0, 0), (1, 0, 0, 2), (0, 3, 1, 0))
        for bias in ((), (numbers(4),))
        for strides in ((2, 1), (1, 3), (20, 20))
    ][::step]), flags=("-O3",))  # fmt: skip


def test_long_sums_are_accurate() -> None:
    """Layers of as many inputs as a large CNN has, against float64; the bound is a tenth of the tolerance."""
    x, weight = numbers(2, 6400), numbers(8, 6400, seed=1) / 80
    ((found,),) = run_cases([case("Gemm", [x], weight, transB=True)], flags=("-O3",))
    np.testing.assert_allclose(found, x.astype(np.float64) @ weight.astype(np.float64).T, 1e-6, 1e-6)


def test_values_without_items() -> None:
    empty = np.empty((3, 0), np.float32)
    check(
        case("Reshape", [np.empty((3, 0, 2), np.float32)], shape=(2, 0)),
        case("Transpose", [np.empty((3, 0, 2), np.float32)], axes=(1, 0)),
        case("Add", [empty], np.ones(1, np.float32)), case("Concat", [empty, numbers(3, 2)], axis=-1),
        case("Gemm", [empty], np.empty((2, 0), np.float32), numbers(2), transB=True),
        case("Gemm", [empty], np.empty((2, 0), np.float32), transB=True),
        case("Gemm", [numbers(3, 2)], np.empty((0, 2), np.float32), transB=True),
        case("OneHot", [np.array([0, 1])], depth=0), case("ReduceSum", [np.empty((3, 0, 2), np.float32)], axis=-1),
        case("Tanh", [empty]), case("Where", [empty > 0, empty, empty]),
    )  # fmt: skip


@pytest.mark.parametrize(("op", "dtype"), [("Exp", "int32"), ("Tanh", "uint8"), ("Add", "bool")])
def test_operators_that_have_no_meaning_are_refused(op: str, dtype: str) -> None:
    x = np.ones((1, 2), dtype)
    with pytest.raises(UnsupportedError, match=f"'{op}' of {dtype} cannot be exported to C"):
        run_cases([case(op, [x] * (2 if op == "Add" else 1))])


DRAWN: Final = st.lists(graphs(), min_size=12, max_size=12)
DRAWN_SLOWLY: Final = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}


@settings(max_examples=3, **DRAWN_SLOWLY)
@given(drawn=DRAWN, seed=st.integers(0, 99))
def test_random_graphs(drawn: list[Any], seed: int) -> None:
    compare_graphs("gcc", drawn, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@settings(max_examples=6, **DRAWN_SLOWLY)
@given(drawn=DRAWN, seed=st.integers(0, 99))
def test_more_random_graphs(compiler: str, drawn: list[Any], seed: int) -> None:
    compare_graphs(compiler, drawn, seed)


def compare_graphs(compiler: str, drawn: list[Any], seed: int) -> None:
    """Source computes what the graph does, whatever operators follow one another and share memory."""
    find_program(compiler)
    cases = [Case(graph, draw_inputs(graph, 2, seed)) for graph in drawn]
    for found, (graph, inputs) in zip(run_cases(cases, compiler), cases):
        for array, expected in zip(found, interpret(graph, inputs).values()):
            np.testing.assert_allclose(array, expected, 1e-4, 1e-4)


def test_cplusplus() -> None:
    find_program("g++")
    x = numbers(1, 2, 3)
    made = [case(op, [positive(op, x)], **PARAMETERS.get(op, {})) for op in UNARY]
    made += [case(op, [x], axis=-1) for op in ALONG]
    made += [case("Add", [x.astype(dtype)] * 2) for dtype in INTEGERS]
    made += [case("Cast", [x], to=to) for to in (*INTEGERS, "bool")]
    run_cases(made, "g++", CPLUSPLUS)
