"""``Network``: the tensors of a policy by name, and the nodes of its modules, as the builders of policies share them.

Source: SB3 ``common/torch_layers.py`` (``create_mlp``, ``NatureCNN``), sb3-contrib ``common/torch_layers.py``
(``BatchRenorm``).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, ValidationError, quote
from sbformat.policies.builder import BFLOAT16
from sbformat.policies.operators import DTYPES
from sbformat.policies.sb3.activations import add_activation
from sbformat.policies.shapes.layers import NATURE_CNN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.policies.builder import GraphBuilder, Value
    from sbformat.policies.sb3.settings import Settings
    from sbformat.pth.values import TensorInfo

FLOAT: Final = "float32"
"""The dtype of SB3's networks: ``load_state_dict`` converts every tensor to it."""
_NORM_EPSILON: Final = 1e-5
"""Of ``BaseNorm`` in imitation ``util/networks.py``."""
_NO_PADS: Final = (0, 0, 0, 0)
_MATRIX: Final = 2
_MAX_NUMBER_LENGTH: Final = 6
"""Digits of the position of a module in a ``Sequential``."""


class Network:
    """A policy's modules under construction.

    :param builder: collects the nodes
    :param tensors: the state dict
    :param entry: the entry of the state dict, for the addresses of weights
    :param modules: the names of the modules that the caller supplies
    :param origins: the names in the file of tensors that have others there
    """

    settings: Settings
    """What the tensors do not determine; set once it is read, for which the tensors are needed."""

    def __init__(
        self,
        builder: GraphBuilder,
        tensors: Mapping[str, TensorInfo],
        entry: str,
        modules: frozenset[str],
        origins: Mapping[str, str],
    ) -> None:
        self.builder = builder
        self.tensors = tensors
        self.modules = modules
        self.used: set[str] = set()
        """The names of tensors that are part of the graph."""
        self.called: set[str] = set()
        """The modules of the caller that are part of the graph."""
        self.recurrent: dict[str, Value] = {}
        """The results of LSTMs by module, and what multiplies their states."""
        self._entry = entry
        self._origins = origins
        self._names = sorted(tensors)

    # -- tensors --------------------------------------------------------------------------------------

    def has(self, module: str) -> bool:
        """Return whether a module has tensors."""
        return bool(self.names(module, most=1))

    def names(self, module: str, *, most: int | None = None) -> list[str]:
        """Return the names of a module's tensors, sorted.

        :param most: the number of names after which to stop
        """
        prefix = f"{module}."
        found: list[str] = []
        for at in range(bisect_left(self._names, prefix), len(self._names)):
            if not self._names[at].startswith(prefix) or len(found) == most:
                break
            found.append(self._names[at])
        return found

    def identify(self, module: str) -> object:
        """Return what is equal for two names of one module: the places of its tensors in the file."""
        infos = [(name[len(module) :], self.tensors[name]) for name in self.names(module)]
        return tuple((name, id(info.storage), info.offset, info.shape, info.strides) for name, info in infos)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor.

        :raises ValidationError: when it is missing
        """
        if name not in self.tensors:
            message = f"expected the tensor {quote(name, 120)} in the state dict"
            raise ValidationError(message, entry=self._entry)
        return tuple(self.tensors[name].shape)

    def weight(self, name: str) -> Value:
        """Add a tensor as a weight, in float32 as SB3 loads it.

        :raises ValidationError: when it is missing
        :raises UnsupportedError: for a dtype that is not known in a network
        """
        self.shape(name)
        source = self.tensors[name]
        if source.dtype not in (*DTYPES, BFLOAT16):
            message = f"expected {quote(name, 120)} to have one of the dtypes {', '.join(DTYPES)}, got {source.dtype}"
            raise UnsupportedError(message, entry=self._entry)
        self.used.add(name)
        made = self.builder.weight(name, source, f"{self._entry}:{self._origins.get(name, name)}")
        return made if made.dtype == FLOAT else self.add("Cast", made, to=FLOAT, module=name)

    def add(self, op: str, *operands: Value, **attributes: Any) -> Value:
        """Add a node; see :meth:`~sbformat.policies.builder.GraphBuilder.add`."""
        return self.builder.add(op, *operands, **attributes)

    def constant(self, number: float, dtype: str = FLOAT) -> Value:
        """Add a number."""
        return self.builder.constant(number, dtype)

    # -- modules --------------------------------------------------------------------------------------

    def call(self, function: str, module: str, operands: Sequence[Value], size: int, keys: Iterable[str] = ()) -> Value:
        """Add a call of a function that the caller supplies, which returns a vector.

        :param function: the name under which it is supplied
        :param module: the module that it replaces; its tensors are not part of the graph
        :param size: the items of the vector
        :param keys: when the function receives a dict: the key of each operand
        """
        self.used.update(self.names(module))
        self.called.add(function)
        return self.add(
            "Call", *operands, module=module, function=function, keys=tuple(keys), dtype=FLOAT, shape=(size,)
        )

    def linear(self, module: str, value: Value, *, name: str = "") -> Value:
        """``Linear``, with or without a bias.

        :param name: of the result
        """
        operands = [self.weight(f"{module}.weight")]
        if f"{module}.bias" in self.tensors:
            operands.append(self.weight(f"{module}.bias"))
        return self.add("Gemm", value, *operands, transB=True, module=module, name=name)

    def activation(self, module: str, value: Value) -> Value:
        """``activation_fn``; the tensors below the module are those of a PReLU."""
        if "activation_fn" in self.modules:
            return self.call("activation_fn", module, [value], value.shape[0])
        return add_activation(self, self.settings.activation(), value, module)

    def sequential(self, module: str, value: Value, *, has_output: bool, name: str = "") -> Value:
        """``Sequential`` of what ``create_mlp`` returns: linear layers, each but the output followed by an activation.

        A module without tensors returns its input, unless it has an output.

        :param has_output: whether the last linear layer is an output, which no activation follows
        :param name: of the result of the output layer
        :raises ValidationError: when the output is missing
        """
        layers = self._layers(module)
        linear = [number for number in layers if len(layers[number].get("weight", ())) == _MATRIX]
        if has_output and not linear:
            message = f"expected the layers {quote(module, 120)} in the state dict"
            raise ValidationError(message, entry=self._entry)
        last = linear[-1] if has_output else -1
        positions = frozenset(linear)
        following = 0
        """The position of the next layer: an activation has one, too, and anything else was made by another author."""
        for number, parts in layers.items():
            part = f"{module}.{number}"
            if "ra_mean" in parts and number == following:
                value = self._batch_renorm(part, value)
                following += 1
            elif number in positions and number == following:
                is_output = number == last
                value = self.linear(part, value, name=name if is_output else "")
                if not is_output:
                    value = self.activation(f"{module}.{number + 1}", value)
                following += 2
            elif number != following - 1 or number in positions:
                message = f"{quote(part, 120)} is not a layer that SB3 makes"
                raise UnsupportedError(message, entry=self._entry)
        return value

    def input_size(self, module: str) -> int | None:
        """Return the number of inputs of a module that begins with a layer; None when it has no tensors."""
        for name in (f"{module}.weight_ih_l0", f"{module}.weight"):
            if name in self.tensors and len(self.shape(name)) == _MATRIX:
                return self.shape(name)[1]
        for parts in self._layers(module).values():
            sizes = parts.get("ra_mean") or parts.get("weight")
            return sizes[-1] if sizes else None
        return None

    def require_input_size(self, module: str) -> int:
        """Return the number of inputs of a module that begins with a layer.

        :raises ValidationError: when it has none
        """
        size = self.input_size(module)
        if size is None:
            message = f"expected the layer {quote(module, 120)} in the state dict"
            raise ValidationError(message, entry=self._entry)
        return size

    def matrices(self, module: str) -> list[tuple[int, ...]]:
        """Return the shapes of the linear layers of a ``Sequential``, in order."""
        shapes = (parts.get("weight", ()) for parts in self._layers(module).values())
        return [shape for shape in shapes if len(shape) == _MATRIX]

    def _layers(self, module: str) -> dict[int, dict[str, tuple[int, ...]]]:
        """Return the shapes of a ``Sequential``'s tensors: by position, in order, and by name."""
        made: dict[int, dict[str, tuple[int, ...]]] = {}
        for name in self.names(module):
            number, _, part = name[len(module) + 1 :].partition(".")
            if not (number.isascii() and number.isdecimal() and len(number) <= _MAX_NUMBER_LENGTH):
                continue  # a tensor beside the layers: refused with those that are not used
            made.setdefault(int(number), {})[part] = self.shape(name)
        return dict(sorted(made.items()))

    def _batch_renorm(self, module: str, value: Value) -> Value:
        """``BatchRenorm1d`` in evaluation: the running statistics, as in a batch normalisation."""
        scale, bias, mean, variance = (
            self.weight(f"{module}.{name}") for name in ("scale", "bias", "ra_mean", "ra_var")
        )
        self.used.add(f"{module}.steps")  # a counter of training
        epsilon = self.constant(self.settings.number("batch_norm_eps", 0.001))
        centered = self.add("Sub", value, mean, module=module)
        deviation = self.add("Sqrt", self.add("Add", variance, epsilon, module=module), module=module)
        scaled = self.add("Mul", self.add("Div", centered, deviation, module=module), scale, module=module)
        return self.add("Add", scaled, bias, module=module)

    def running_norm(self, module: str, value: Value) -> Value:
        """``RunningNorm`` and ``EMANorm`` of imitation: ``(x - running_mean) / sqrt(running_var + 1e-5)``."""
        mean, variance = (self.weight(f"{module}.{name}") for name in ("running_mean", "running_var"))
        spread = self.add("Add", variance, self.constant(_NORM_EPSILON), module=module)
        centered = self.add("Sub", value, mean, module=module)
        return self.add("Div", centered, self.add("Sqrt", spread, module=module), module=module)

    def nature_cnn(self, module: str, image: Value) -> Value:
        """``NatureCNN``: three convolutions and a linear layer, with a ReLU after each.

        :param image: channels first
        """
        for position, (kernel, stride) in enumerate(NATURE_CNN):
            part = f"{module}.cnn.{2 * position}"
            weight = self.weight(f"{part}.weight")
            if weight.shape[2:] != (kernel, kernel):
                message = f"{quote(part, 120)}: expected a kernel of {kernel} x {kernel}, got {weight.shape[2:]}"
                raise ValidationError(message, entry=self._entry)
            bias = self.weight(f"{part}.bias")
            image = self.add("Conv", image, weight, bias, strides=(stride, stride), pads=_NO_PADS, module=part)
            image = self.add("Relu", image, module=f"{module}.cnn.{2 * position + 1}")
        features = self.flatten(image, f"{module}.cnn.6")
        return self.add("Relu", self.linear(f"{module}.linear.0", features), module=f"{module}.linear.1")

    def flatten(self, value: Value, module: str) -> Value:
        """``Flatten``: the items in C order; a vector is returned as it is."""
        if len(value.shape) == 1:
            return value
        size = 1
        for length in value.shape:
            size *= length
        return self.add("Reshape", value, shape=(size,), module=module)
