"""The operators in numpy against those of torch, with the numbers that are hard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.policies.run.graphs import run_node

torch = pytest.importorskip("torch")
functional = torch.nn.functional

SPECIAL = [0.0, -0.0, 1e-40, 1e-6, 0.5, -0.5, 20.0, -20.0, 88.0, -88.0, 1e4, -1e4, 3e38, -3e38, np.inf, -np.inf, np.nan]
UNARY: list[tuple[str, dict[str, Any], Callable[[Any], Any]]] = [
    ("Neg", {}, torch.neg),
    ("Abs", {}, torch.abs),
    ("Exp", {}, torch.exp),
    ("Log", {}, torch.log),
    ("Sqrt", {}, torch.sqrt),
    ("Round", {}, torch.round),
    ("Relu", {}, torch.relu),
    ("Tanh", {}, torch.tanh),
    ("Sigmoid", {}, torch.sigmoid),
    ("Softplus", {}, functional.softplus),
    ("Softsign", {}, functional.softsign),
    ("Elu", {"alpha": 1.0}, functional.elu),
    ("Elu", {"alpha": 0.3}, lambda x: functional.elu(x, 0.3)),
    ("Celu", {"alpha": 1.0}, functional.celu),
    ("Celu", {"alpha": 2.5}, lambda x: functional.celu(x, 2.5)),
    ("Selu", {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}, torch.selu),
    ("LeakyRelu", {"alpha": 0.01}, functional.leaky_relu),
    ("Erf", {}, torch.erf),
    ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, functional.hardsigmoid),
    ("Shrink", {"lambd": 0.5, "bias": 0.0}, functional.hardshrink),
    ("Shrink", {"lambd": 0.5, "bias": 0.5}, functional.softshrink),
    ("Softmax", {"axis": -1}, lambda x: torch.softmax(x, -1)),
    ("LogSoftmax", {"axis": -1}, lambda x: torch.log_softmax(x, -1)),
    ("ReduceMean", {"axis": -1}, lambda x: x.mean(-1)),
    ("ReduceMin", {"axis": -1}, lambda x: x.amin(-1)),
    ("ArgMax", {"axis": -1}, lambda x: x.argmax(-1)),
]


def rows() -> np.ndarray:
    """Return ordinary numbers, hard ones, and rows in which one number is hard."""
    random = np.random.default_rng(0).standard_normal((40, len(SPECIAL))).astype(np.float32) * 4
    random[0] = SPECIAL
    for at, number in enumerate(SPECIAL):
        random[1 + at, at] = number
    return random


@pytest.mark.parametrize("repeated", [1, 60])
@pytest.mark.parametrize(("op", "attributes", "function"), UNARY)
def test_one_operand(op: str, attributes: dict[str, Any], function: Callable[[Any], Any], repeated: int) -> None:
    x = np.tile(rows(), repeated)
    expected = function(torch.from_numpy(x.copy())).numpy()
    for count in (1, len(x)):
        made = run_node(op, [x[:count]], **attributes)
        np.testing.assert_allclose(made, expected[:count], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "function"),
    [("Max", torch.maximum), ("Min", torch.minimum), ("Add", torch.add), ("Sub", torch.sub), ("Mul", torch.mul),
     ("Div", torch.div), ("Greater", torch.gt)],
)  # fmt: skip
def test_two_operands(op: str, function: Callable[[Any, Any], Any]) -> None:
    pairs = np.array([(one, other) for one in SPECIAL for other in SPECIAL], np.float32)
    x, y = pairs[None, :, 0].copy(), pairs[None, :, 1].copy()
    expected = function(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    assert np.array_equal(run_node(op, [x, y]), expected, equal_nan=True)
    assert np.array_equal(run_node(op, [x], [y[0]]), expected, equal_nan=True)


def test_layers() -> None:
    random = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    x, weight, bias = draw(7, 33), draw(20, 33), draw(20)
    expected = functional.linear(*map(torch.from_numpy, (x, weight, bias))).numpy()
    np.testing.assert_allclose(run_node("Gemm", [x], [weight, bias], transB=True), expected, rtol=1e-5, atol=1e-5)
    expected = functional.layer_norm(torch.from_numpy(x), (33,), *map(torch.from_numpy, weight[:2])).numpy()
    made = run_node("LayerNormalization", [x], list(weight[:2]), epsilon=1e-5)
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)
    image, filters = draw(3, 4, 36, 30), draw(6, 4, 5, 3)
    expected = functional.conv2d(torch.from_numpy(image), torch.from_numpy(filters), stride=(3, 2), padding=(2, 1))
    made = run_node("Conv", [image], [filters], strides=(3, 2), pads=(2, 1, 2, 1))
    np.testing.assert_allclose(made, expected.numpy(), rtol=1e-4, atol=1e-4)
