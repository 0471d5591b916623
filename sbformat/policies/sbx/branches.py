"""The layers of flax and of SBX as nodes of a graph.

Sources: flax ``linen/linear.py`` and ``linen/normalization.py``, SBX ``common/jax_layers.py``.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.errors import UnsupportedError, ValidationError, quote
from sbformat.nets.activations import Spec, add_activation
from sbformat.nets.modules import Network, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.policies.builder import GraphBuilder, Value
    from sbformat.pth.values import TensorInfo

_FLOAT: Final = "float32"
_NORM_EPSILON: Final = 1e-6
"""Of flax's ``LayerNorm``."""
_RENORM_EPSILON: Final = 1e-3
"""Of SBX's ``BatchRenorm``."""
_CNN_STRIDES: Final = (4, 2, 1)
_NO_PADS: Final = (0, 0, 0, 0)
_MOST_LAYERS: Final = 1000


class Weights(NamedTuple):
    """The weights of a policy by path, and those that a graph uses."""

    builder: GraphBuilder
    tensors: Mapping[str, TensorInfo]
    used: set[str]


class Branch(NamedTuple):
    """A module of flax: a path within the parameters of a state.

    ``Branch(weights, "actor_state", "params/params/", "", None, activation).dense("Dense_0", value)`` adds the layer
    with the weights ``actor_state/params/params/Dense_0/kernel`` and ``bias``.
    """

    weights: Weights
    state: str
    root: str
    """Of the parameters within the state: ``params/params/``, or ``params/`` in CrossQ."""
    path: str
    """Of the module within the parameters, with a slash at its end, or empty."""
    critic: int | None
    """The critic whose layers these are, of several in one array."""
    activation: Spec

    def child(self, name: str) -> Branch:
        """Return a module within this one."""
        return self._replace(path=f"{self.path}{name}/")

    def has(self, name: str) -> bool:
        """Return whether the module has a tensor: ``Dense_0/kernel``."""
        return self.path_of(name) in self.weights.tensors

    def count(self, layer: str) -> int:
        """Return how many layers of a class there are: of ``Dense``, those from ``Dense_0`` without a gap.

        :param layer: its class, with the tensor that it always has: ``Dense/kernel``
        """
        made, _, part = layer.partition("/")
        found = 0
        while found < _MOST_LAYERS and self.has(f"{made}_{found}/{part}"):
            found += 1
        return found

    def names(self) -> list[str]:
        """Return the names of all weights of the module."""
        prefix = self.path_of("")
        return [name for name in self.weights.tensors if name.startswith(prefix)]

    def weight(self, name: str, *, is_statistic: bool = False) -> Value:
        """Return a tensor of the module as a weight; of one critic, its part.

        :param name: ``Dense_0/kernel``
        :param is_statistic: whether it is in ``batch_stats``, not in ``params``
        :raises ValidationError: when it is missing
        :raises UnsupportedError: when it is not of float32
        """
        full = f"{self.state}/batch_stats/{self.path}{name}" if is_statistic else self.path_of(name)
        info = self.weights.tensors.get(full)
        if info is None:
            message = f"expected the tensor {quote(full, 120)} in the state dict policy"
            raise ValidationError(message)
        if info.dtype != _FLOAT:
            message = f"expected {quote(full, 120)} to be of float32, got {info.dtype}"
            raise UnsupportedError(message)
        self.weights.used.add(full)
        value = self.weights.builder.weight(full, info, f"policy:{full}")
        if self.critic is None:
            return value
        if not value.shape or self.critic >= value.shape[0]:
            message = f"expected a part for each critic in {quote(full, 120)}, got the shape {value.shape}"
            raise ValidationError(message)
        part = self.add("Slice", value, name, axis=-len(value.shape), start=self.critic, end=self.critic + 1)
        return self.add("Reshape", part, name, shape=value.shape[1:])

    def add(self, op: str, value: Value, module: str, *others: Value, **attributes: Any) -> Value:
        """Add a node for a layer of the module."""
        where = self.path_of(module.partition("/")[0])
        return self.weights.builder.add(op, value, *others, module=where, **attributes)

    def path_of(self, name: str) -> str:
        """Return the whole path of a tensor of the module."""
        return f"{self.state}/{self.root}{self.path}{name}"

    # -- layers ---------------------------------------------------------------------------------------

    def dense(self, layer: str, value: Value, *, name: str = "") -> Value:
        """``Dense``: ``x @ kernel + bias``.

        :param name: of the result
        """
        operands = [self.weight(f"{layer}/kernel")]
        if self.has(f"{layer}/bias"):
            operands.append(self.weight(f"{layer}/bias"))
        return self.add("Gemm", value, layer, *operands, transB=False, name=name)

    def activate(self, value: Value, layer: str) -> Value:
        """Add the activation after a layer."""
        scope = Scope(Network(self.weights.builder, {}, ""), self.path_of(layer))
        return add_activation(scope, self.activation, value)

    def layer_norm(self, layer: str, value: Value) -> Value:
        """``LayerNorm``, over the last axis."""
        scale, bias = self.weight(f"{layer}/scale"), self.weight(f"{layer}/bias")
        return self.add("LayerNormalization", value, layer, scale, bias, epsilon=_NORM_EPSILON)

    def batch_renorm(self, layer: str, value: Value) -> Value:
        """``BatchRenorm`` in evaluation: ``(x - mean) * (scale / sqrt(var + epsilon)) + bias``."""
        mean, variance = (self.weight(f"{layer}/{part}", is_statistic=True) for part in ("mean", "var"))
        scale, bias = self.weight(f"{layer}/scale"), self.weight(f"{layer}/bias")
        epsilon = self.weights.builder.constant(_RENORM_EPSILON)
        deviation = self.add("Sqrt", self.add("Add", variance, layer, epsilon), layer)
        factor = self.add("Div", scale, layer, deviation)
        centred = self.add("Sub", value, layer, mean)
        return self.add("Add", self.add("Mul", centred, layer, factor), layer, bias)

    def nature_cnn(self, image: Value) -> Value:
        """``NatureCNN``: bytes over 255, three convolutions without padding, a layer; the image has channels first."""
        branch = self.child("NatureCNN_0")
        if len(image.shape) != 3:
            message = f"expected images for NatureCNN, got observations of the shape {image.shape}"
            raise UnsupportedError(message)
        value = branch.add("Div", image, "Conv_0", self.weights.builder.constant(255.0))
        for number, stride in enumerate(_CNN_STRIDES):
            layer = f"Conv_{number}"
            kernel = branch.add("Transpose", branch.weight(f"{layer}/kernel"), layer, axes=(3, 2, 0, 1))
            bias = branch.weight(f"{layer}/bias")
            value = branch.add("Conv", value, layer, kernel, bias, strides=(stride, stride), pads=_NO_PADS)
            value = branch.activate(value, layer)
        value = branch.add("Transpose", value, "Dense_0", axes=(1, 2, 0))
        value = branch.add("Reshape", value, "Dense_0", shape=(prod(value.shape),))
        return branch.activate(branch.dense("Dense_0", value), "Dense_0")
