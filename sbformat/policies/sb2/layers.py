"""The layers of Stable Baselines 2, as nodes of a graph.

TensorFlow's weights are (inputs, outputs), its filters (height, width, channels, filters), its images (height, width,
channels). ``Conv`` is ONNX's: filters (filters, channels, height, width), image (channels, height, width). So images
and filters are transposed; the filters once, by the back end.

Source: ``common/tf_layers.py`` (``a2c/utils.py`` before 2.8) and ``nature_cnn`` of ``common/policies.py``.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.formats.sb2.networks import CONVOLUTIONS, LINEAR, convolve, numbered
from sbformat.policies.graph import Input, State
from sbformat.policies.operators import DTYPES, require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.formats.sb2.networks import Cnn
    from sbformat.policies.builder import GraphBuilder, Value
    from sbformat.pth.values import TensorInfo

_NORM_EPSILON: Final = 1e-12
"""Of ``tf.contrib.layers.layer_norm``."""
_LSTM_EPSILON: Final = 1e-5
"""Of the layer normalization within an LSTM."""


class Layers(NamedTuple):
    """Adds layers to a graph, with the parameters of a file."""

    builder: GraphBuilder
    tensors: Mapping[str, TensorInfo]
    """The parameters by name."""

    def weight(self, name: str, dtype: str = "float32") -> Value:
        """Return a parameter, in the dtype of its variable.

        :raises UnsupportedError: when it is not numbers that numpy has
        """
        info = self.tensors[name]
        require(info.dtype in DTYPES, f"expected numbers as the parameter {name}, got {info.dtype}")
        made = self.builder.weight(name, info, f"parameters:{name}")
        return made if made.dtype == dtype else self.builder.add("Cast", made, to=dtype, module=name)

    def linear(self, scope: str, words: tuple[str, str], value: Value, name: str = "") -> Value:
        """Add ``x @ weights + bias``.

        :param words: the names of weights and bias: ``LINEAR``, ``DENSE`` or ``CONNECTED``
        :param name: of the result
        """
        weights, bias = (self.weight(f"{scope}/{word}:0") for word in words)
        return self.builder.add("Gemm", value, weights, bias, module=scope, name=name, transB=False)

    def normalize(self, scope: str, number: int, value: Value) -> Value:
        """Add the ``number``-th ``tf.contrib.layers.layer_norm`` of a scope."""
        name = f"{scope}/{numbered('LayerNorm', number)}"
        scale, bias = self.weight(f"{name}/gamma:0"), self.weight(f"{name}/beta:0")
        return self.builder.add("LayerNormalization", value, scale, bias, module=name, epsilon=_NORM_EPSILON)

    def flatten(self, value: Value) -> Value:
        """Add ``tf.layers.flatten``, in the order of TensorFlow's images."""
        if len(value.shape) == 1:
            return value
        return self.builder.add("Reshape", value, shape=(prod(value.shape),))

    def cnn(self, scope: str, cnn: Cnn, image: Value) -> Value:
        """Add the CNN of the Nature paper; its activations are always ``relu``.

        :param image: height, width, channels
        """
        add = self.builder.add
        value = add("Transpose", image, axes=(2, 0, 1), module=scope)
        for name, size, stride, filters in CONVOLUTIONS:
            module = f"{scope}/{name}"
            weights = add("Transpose", self.weight(f"{module}/w:0"), axes=(3, 2, 0, 1), module=module)
            bias = self.weight(f"{module}/b:0")
            if len(bias.shape) != 1:
                bias = add("Reshape", bias, shape=(filters,), module=module)
            sides = [_pad(length, size, stride) if cnn.is_padded else (0, 0) for length in value.shape[1:]]
            pads = tuple(side[end] for end in (0, 1) for side in sides)
            value = add("Conv", value, weights, bias, strides=(stride, stride), pads=pads, module=module)
            value = add("Relu", value, module=module)
        value = self.flatten(add("Transpose", value, axes=(1, 2, 0), module=scope))
        return add("Relu", self.linear(f"{scope}/fc1", LINEAR, value), module=f"{scope}/fc1")

    def lstm(self, scope: str, value: Value, *, is_normed: bool) -> Value:
        """Add one step of an LSTM, with its state: the cells, then the hidden values.

        :return: the hidden values
        """
        add = self.builder.add
        cells = self.tensors[f"{scope}/wh:0"].shape[0]
        cell, hidden = self._read_state(scope, cells)
        gates = add("Add", *(self._gate_input(scope, side, part, is_normed=is_normed) for side, part in
                             (("x", value), ("h", hidden))), module=scope)  # fmt: skip
        gates = add("Add", gates, self.weight(f"{scope}/b:0"), module=scope)
        parts = [
            add("Slice", gates, axis=-1, start=cells * number, end=cells * (number + 1), module=scope)
            for number in range(4)
        ]
        write, keep, read = (add("Sigmoid", part, module=scope) for part in parts[:3])
        written = add("Mul", write, add("Tanh", parts[3], module=scope), module=scope)
        cell = add("Add", add("Mul", keep, cell, module=scope), written, module=scope)
        shown = self._normalize_in_lstm(scope, "c", cell) if is_normed else cell
        hidden = add("Mul", read, add("Tanh", shown, module=scope), module=scope)
        after = add("Concat", cell, hidden, axis=-1, module=scope, name="next_state")
        self.builder.state(State("state", after.name, "state"))
        return hidden

    def _read_state(self, scope: str, cells: int) -> tuple[Value, Value]:
        """Return cells and hidden values, which are 0 where an episode starts."""
        add = self.builder.add
        state = self.builder.input(Input("state", "float32", (2 * cells,), 0.0, "state"))
        start = self.builder.input(Input("episode_start", "float32", (), 0.0, "episode_start"))
        goes_on = add("Sub", self.builder.constant(1.0), start, module=scope)
        state = add("Mul", state, add("Reshape", goes_on, shape=(1,), module=scope), module=scope)
        cell = add("Slice", state, axis=-1, start=0, end=cells, module=scope)
        return cell, add("Slice", state, axis=-1, start=cells, end=2 * cells, module=scope)

    def _gate_input(self, scope: str, side: str, value: Value, *, is_normed: bool) -> Value:
        made = self.builder.add("Gemm", value, self.weight(f"{scope}/w{side}:0"), module=scope, transB=False)
        return self._normalize_in_lstm(scope, side, made) if is_normed else made

    def _normalize_in_lstm(self, scope: str, side: str, value: Value) -> Value:
        scale, bias = self.weight(f"{scope}/g{side}:0"), self.weight(f"{scope}/b{side}:0")
        return self.builder.add("LayerNormalization", value, scale, bias, module=scope, epsilon=_LSTM_EPSILON)


def _pad(length: int, size: int, stride: int) -> tuple[int, int]:
    """Return the padding at both ends of a side of an image, for TensorFlow's ``SAME``: the odd one is at the end."""
    total = max((convolve(length, size, stride, is_padded=True) - 1) * stride + size - length, 0)
    return total // 2, total - total // 2
