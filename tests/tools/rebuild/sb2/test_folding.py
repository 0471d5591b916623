"""Networks that SB3 does not have, as wider ones: the same values, computed in numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pytest

import sbformat
from sbformat.tools.rebuild.sb2 import folding
from sbformat.tools.rebuild.sb2.folding import Layers, Linear, Signal, Units, add_late_actions, clip, join_towers
from tests.helpers.many_cases import check_each

FUNCTIONS: Final[dict[str, Callable[[np.ndarray], np.ndarray]]] = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x < 0, 0.2 * x, x),
    "elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "identity": lambda x: x,
    "linear": lambda x: x,
}
"""Activations that carry a value."""
COUNT: Final = 50
RANDOM: Final = np.random.default_rng(0)


def make_layers(*widths: int) -> list[Linear]:
    """Return layers between these widths."""
    return [
        Linear(RANDOM.normal(size=(outputs, inputs)), RANDOM.normal(size=outputs))
        for inputs, outputs in itertools.pairwise(widths)
    ]


def run(layers: Sequence[Linear], values: np.ndarray, activation: str) -> np.ndarray:
    """Return the outputs for a batch: the activation is between the layers."""
    for number, layer in enumerate(layers):
        values = FUNCTIONS[activation](values) if number else values
        values = values @ layer.weight.T.astype(np.float64) + layer.bias
    return values


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, 1e-5, 1e-4)


@check_each("activation", [*FUNCTIONS, "tanh"])
@check_each("hidden", [(), (6,), (6, 4)])
def test_towers_beside_each_other_are_a_dueling_network(activation: str, hidden: tuple[int, ...]) -> None:
    actions, value = make_layers(5, *hidden, 3), make_layers(5, *hidden, 1)
    layers = Layers(5, activation)
    join_towers(layers, Signal.select(range(5)), actions, value)
    seen = RANDOM.normal(size=(COUNT, 5))
    FUNCTIONS.setdefault("tanh", np.tanh)
    scores, state = run(actions, seen, activation), run(value, seen, activation)
    close(run(layers.made, seen, activation), state + scores - scores.mean(axis=1, keepdims=True))
    assert layers.widths == [2 * width for width in hidden]


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "elu", "identity"])
def test_features_of_a_cnn_are_carried_to_scores_without_hidden_layers(activation: str) -> None:
    actions, value = make_layers(5, 3), make_layers(5, 6, 4, 1)
    layers = Layers(5, activation)
    join_towers(layers, Signal.select(range(5)), actions, value)
    seen = np.abs(RANDOM.normal(size=(COUNT, 5)))
    scores, state = run(actions, seen, activation), run(value, seen, activation)
    close(run(layers.made, seen, activation), state + scores - scores.mean(axis=1, keepdims=True))


@check_each("activation", ["relu", "leaky_relu", "elu", "identity"])
@check_each("hidden", [(6,), (6, 4), (6, 4, 3)])
def test_actions_are_carried_to_the_second_layer_of_a_critic(activation: str, hidden: tuple[int, ...]) -> None:
    first, *rest = make_layers(5, *hidden, 1)
    second = Linear(RANDOM.normal(size=(len(rest[0].bias), hidden[0] + 2)), rest[0].bias)
    layers = Layers(7, activation)
    add_late_actions(layers, Signal.select(range(5)), Signal.select((5, 6)), [first, second, *rest[1:]])
    seen, actions = RANDOM.normal(size=(COUNT, 5)), RANDOM.uniform(-1, 1, (COUNT, 2))
    inner = np.concatenate([FUNCTIONS[activation](run([first], seen, activation)), actions], axis=1)
    expected = run([second, *rest[1:]], inner, activation)
    close(run(layers.made, np.concatenate([seen, actions], axis=1), activation), expected)


def test_a_critic_without_hidden_layers_does_not_depend_on_the_action() -> None:
    (head,) = make_layers(5, 1)
    layers = Layers(7, "relu")
    add_late_actions(layers, Signal.select(range(5)), Signal.select((5, 6)), [head])
    assert not layers.made[0].weight[:, 5:].any()


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu6", "selu", "softplus"])
def test_an_activation_that_changes_every_value_carries_none(activation: str) -> None:
    with pytest.raises(sbformat.UnsupportedError, match=f"no unit with the activation {activation} carries"):
        Layers(2, activation).carry(Signal.select((0, 1)), -1.0)


@pytest.mark.parametrize(("low", "high"), [(-5.0, 5.0), (1.0, 2.0), (-np.inf, 0.5), (-0.5, np.inf)])
def test_a_layer_clips(low: float, high: float) -> None:
    layers = Layers(3, "relu")
    (signal,) = clip(layers, Signal.select(range(3)).scale(np.full(3, 2.0), np.ones(3)), low, high)
    layers.add(Units.copy(signal))
    seen = RANDOM.normal(size=(COUNT, 3)) * 9
    close(run(layers.made, seen, "relu"), np.clip(2 * seen + 1, low, high))


def test_within_the_bounds_clipping_rounds_nothing() -> None:
    layers = Layers(1, "relu")
    (signal,) = clip(layers, Signal.select([0]), -5.0, 5.0)
    layers.add(Units.copy(signal))
    seen = RANDOM.uniform(-5, 5, (COUNT, 1)).astype(np.float32)
    values = seen
    for number, layer in enumerate(layers.made):
        values = np.maximum(values, 0) if number else values
        values = values @ layer.weight.T + layer.bias
    inside = (np.abs(seen) < 4.99)[:, 0]
    np.testing.assert_array_equal(values[inside], seen[inside])


def test_only_relu_clips() -> None:
    with pytest.raises(sbformat.UnsupportedError, match="SB3 does not clip observations"):
        clip(Layers(1, "tanh"), Signal.select([0]), -1.0, 1.0)


def test_a_layer_that_is_too_large_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_WEIGHTS", 99)
    layers = Layers(10, "relu")
    assert layers.add(Units.apply(Linear(np.zeros((9, 10)), np.zeros(9)), Signal.select(range(10))))
    with pytest.raises(sbformat.UnsupportedError, match="12 times 9 weights, more than 99"):
        layers.add(Units.apply(Linear(np.zeros((12, 9)), np.zeros(12)), Signal.select(range(9))))
