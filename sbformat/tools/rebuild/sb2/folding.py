"""Networks of SB2 that SB3 does not have, as wider networks of SB3 that compute the same (REBUILDING.md 15.7).

Theory of operation
-------------------
SB3 has one kind of network after its features extractor: linear layers, with the same activation between them. SB2 has
others: two towers whose results are added (a dueling DQN), an action that is an input of the second layer (DDPG's
critic), an observation that is clipped first (DDPG). Each is computed by wider layers, in which some units do not
change a value but carry it to the next layer.

A :class:`Signal` is a vector as the layers above see it: each of its items is a sum of scaled units of the layer below,
and an offset. :class:`Layers` collects the layers. :meth:`Layers.add` appends one, whose units are linear functions of
signals, and returns the signals after the activation. What a signal is made of is folded into the weights of the layer
that reads it, so no layer is added for it.

A ReLU carries a value ``x`` as two units, ``x = relu(x) - relu(-x)``, and a value that is never negative as one. It
clips one as ``x + relu(low - x) - relu(x - high)``. All of this is exact, but for rounding in float32.

Worked example, DDPG's critic with one layer of 2 units, an observation of 1 number (o) and an action of 1 number (a)::

    SB2   h = relu(w o + b)              2 units
          q = u h + v a + c              the action is an input of the second layer
    SB3   [h, p, n] = relu([w o + b, a, -a])      4 units, of which p and n carry the action
          q = u h + v p - v n + c
"""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.immutable import Record
from sbformat.tools.rebuild.rebuild_report import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_WEIGHTS: Final = 1 << 25
"""Maximum number of weights of one layer that was widened: 128 MiB in float32."""
_RELU: Final = "relu"
_IDENTITY: Final = ("identity", "linear")
_POSITIVE: Final = ("relu", "leaky_relu", "elu")  # activations that do not change a value of at least 0
_PAIRED: Final = {"relu": 1.0, "leaky_relu": 1.2}
"""Activations of which ``f(x) - f(-x)`` is a multiple of x: the multiple."""


class Linear(Record):
    """A layer as torch has it, ``weight @ x + bias``."""

    weight: np.ndarray
    """(outputs, inputs)."""
    bias: np.ndarray
    """(outputs)."""


class Signal(Record):
    """A vector that consists of units of the layer below: the sum of all terms, and an offset."""

    terms: tuple[tuple[np.ndarray, np.ndarray], ...]
    """Units by number, and what each is multiplied with; arrays of the size of the vector."""
    offset: np.ndarray
    """Added to the sum."""

    @classmethod
    def select(cls, units: Sequence[int] | np.ndarray) -> Signal:
        """Return the vector that consists of these units."""
        numbers = np.asarray(units, np.int64)
        return cls(((numbers, np.ones(len(numbers))),), np.zeros(len(numbers)))

    @property
    def size(self) -> int:
        """The number of items."""
        return len(self.offset)

    def scale(self, factor: np.ndarray, offset: np.ndarray) -> Signal:
        """Return ``factor * self + offset``, item by item."""
        terms = tuple((units, scale * factor) for units, scale in self.terms)
        return Signal(terms, self.offset * factor + offset)

    def plus(self, other: Signal, factor: float) -> Signal:
        """Return ``self + factor * other``."""
        ones = np.ones(self.size)
        scaled = other.scale(factor * ones, 0 * ones)
        return Signal((*self.terms, *scaled.terms), self.offset + scaled.offset)


class Units(Record):
    """Units of a new layer: linear functions of signals."""

    parts: tuple[tuple[np.ndarray | int, Signal], ...]
    """Weights (units, size of the signal), and the signal that they are for; a number for so many times the signal."""
    bias: np.ndarray

    @classmethod
    def apply(cls, layer: Linear, *signals: Signal) -> Units:
        """Return what a layer of SB2 computes of signals, one after another."""
        ends = np.cumsum([signal.size for signal in signals])[:-1]
        weights = np.split(layer.weight.astype(np.float64), ends, axis=1)
        return cls(tuple(zip(weights, signals)), layer.bias.astype(np.float64))

    @classmethod
    def copy(cls, signal: Signal, *, sign: int = 1, bias: float | np.ndarray = 0.0) -> Units:
        """Return a signal itself, negated or with something added."""
        return cls(((sign, signal),), np.broadcast_to(bias, (signal.size,)).astype(np.float64))


class Carry(Record):
    """How a signal goes through a layer unchanged: the units that carry it, and what it is made of above them."""

    rows: tuple[Units, ...]
    scales: tuple[float, ...]
    offset: float = 0.0

    def receive(self, signals: Sequence[Signal]) -> Signal:
        """Return the signal that was carried, from the signals of the rows."""
        result = Signal((), np.full(signals[0].size, self.offset))
        for signal, scale in zip(signals, self.scales):
            result = result.plus(signal, scale)
        return result


class Layers:
    """The layers of a network of SB3, first to last.

    :param inputs: the number of inputs
    :param activation: the name of the activation after each layer but the last, as TensorFlow has it
    """

    def __init__(self, inputs: int, activation: str) -> None:
        self.made: list[Linear] = []
        """The layers so far, in float32."""
        self._activation = activation
        self._width = inputs

    @property
    def widths(self) -> list[int]:
        """The widths of the hidden layers, as ``net_arch`` contains them, when the last layer has been added."""
        return [len(layer.bias) for layer in self.made[:-1]]

    def add(self, *rows: Units) -> list[Signal]:
        """Append a layer, and return a signal for the units of each row, after the activation."""
        outputs = sum(len(row.bias) for row in rows)
        if outputs * self._width > MOST_WEIGHTS:
            size = f"{outputs:,} times {self._width:,} weights"
            refuse(f"it would need a layer of {size}, more than {MOST_WEIGHTS:,}")
        weight, biases, signals = np.zeros((outputs, self._width)), [], []
        start = 0
        for row in rows:
            end = start + len(row.bias)
            offset = np.zeros(len(row.bias))
            for weights, signal in row.parts:
                # a copy has no matrix: of an image it would be larger than the layer
                is_copy = isinstance(weights, int)
                offset += weights * signal.offset if is_copy else weights @ signal.offset
                for units, scale in signal.terms:
                    weight[range(start, end) if is_copy else slice(start, end), units] += weights * scale
            biases.append(row.bias + offset)
            signals.append(Signal.select(range(start, end)))
            start = end
        self.made.append(Linear(weight.astype(np.float32), np.concatenate(biases).astype(np.float32)))
        self._width = outputs
        return signals

    def carry(self, signal: Signal, low: float) -> Carry:
        """Return how the next layer carries a signal.

        :param low: a lower bound of its items; may be infinite
        """
        name = self._activation
        if name in _IDENTITY or (name in _POSITIVE and low >= 0):
            return Carry((Units.copy(signal),), (1.0,))
        if name in _PAIRED:
            scale = 1 / _PAIRED[name]
            return Carry((Units.copy(signal), Units.copy(signal, sign=-1)), (scale, -scale))
        if name not in _POSITIVE or not isfinite(low):
            refuse(f"no unit with the activation {name} carries a value unchanged to the next layer")
        return Carry((Units.copy(signal, bias=-low),), (1.0,), low)

    @property
    def can_clip(self) -> bool:
        """Whether a layer can clip its inputs."""
        return self._activation == _RELU


# -- the networks -------------------------------------------------------------------------------------


def add_plain(layers: Layers, signal: Signal, network: Sequence[Linear]) -> None:
    """Add layers one after another, the last of which is the head."""
    for layer in network:
        (signal,) = layers.add(Units.apply(layer, signal))


def join_towers(layers: Layers, features: Signal, actions: Sequence[Linear], value: Sequence[Linear]) -> None:
    """Add a dueling network: ``q = value + scores - mean(scores)``.

    The towers are beside each other in each layer. Where one of them has fewer layers, as SB2's has after a CNN, its
    input is carried along; it is the output of a ReLU.

    :param actions: the layers of the scores, the head last
    :param value: the layers of the value of the observation, the head last
    """
    (*hidden_actions, head), (*hidden_value, value_head) = actions, value
    scores, state = features, features
    for number, layer in enumerate(hidden_value):
        at = number - (len(hidden_value) - len(hidden_actions))
        if at >= 0:
            scores, state = layers.add(Units.apply(hidden_actions[at], scores), Units.apply(layer, state))
        else:
            carry = layers.carry(scores, 0.0)
            state, *carried = layers.add(Units.apply(layer, state), *carry.rows)
            scores = carry.receive(carried)
    weight, bias = (part.astype(np.float64) for part in head)
    value_weight, value_bias = (np.repeat(part, len(bias), axis=0) for part in value_head)
    joined = np.hstack((weight - weight.mean(axis=0), value_weight))
    layers.add(Units.apply(Linear(joined, bias - bias.mean() + value_bias), scores, state))


def clip(layers: Layers, signal: Signal, low: float, high: float, carry: Carry | None = None) -> list[Signal]:
    """Add a layer that clips a signal: ``min(max(signal, low), high)``.

    It computes ``x + relu(low - x) - relu(x - high)``, where x is carried: within the bounds nothing is rounded.

    :param low: infinite when there is no bound, as ``high``
    :param carry: of another signal
    :return: the clipped signal, and the other one
    """
    if not layers.can_clip:
        refuse("SB3 does not clip observations, and only layers with the activation relu can do it")
    itself = layers.carry(signal, -inf)
    rows = [
        Units.copy(signal, sign=sign, bias=-sign * bound) for sign, bound in ((1, high), (-1, low)) if isfinite(bound)
    ]
    made = layers.add(*itself.rows, *rows, *(() if carry is None else carry.rows))
    end = len(itself.rows)
    result = itself.receive(made[:end])
    beyond = made[end : end + len(rows)]
    if isfinite(high):
        result = result.plus(beyond[0], -1.0)
    if isfinite(low):
        result = result.plus(beyond[-1], 1.0)
    return [result] if carry is None else [result, carry.receive(made[end + len(rows) :])]


def add_late_actions(layers: Layers, features: Signal, actions: Signal, network: Sequence[Linear]) -> None:
    """Add the critic of DDPG, which gets the actions after its first layer.

    :param actions: from -1 to 1
    :param network: its layers; the second has as many more inputs as there are actions
    """
    first, *others = network
    if not others:  # such a critic does not depend on the action
        layers.add(Units.apply(first, features))
        return
    carry = layers.carry(actions, -1.0)
    hidden, *carried = layers.add(Units.apply(first, features), *carry.rows)
    second, *rest = others
    (hidden,) = layers.add(Units.apply(second, hidden, carry.receive(carried)))
    add_plain(layers, hidden, rest)
