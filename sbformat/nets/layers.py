"""The modules that networks consist of: torch's layers and activations, and how a policy is made of them.

A module sets its tensors and parts as attributes, as in torch, in the order of its constructor in SB3. ``state_dict()``
has the tensors of a module, then those of its parts. A part that has two names is one module: its second names are
aliases. ``forward`` adds nodes to a graph; a :class:`Scope` says where the module is.

Which activations there are, and the names of their arguments, is in their rows (:mod:`sbformat.known.torch`);
``ACTIVATION_NODES`` has what each computes in evaluation mode: dropout is the identity, and RReLU a LeakyReLU with the
mean of its slopes.

Sources: torch ``nn/modules``, SB3 ``common/torch_layers.py``, sb3-contrib ``common/torch_layers.py``, imitation
``util/networks.py``.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf, isfinite, pi, prod, sqrt
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, ValidationError, quote
from sbformat.immutable import FrozenDict, Record
from sbformat.known.changes import NEWEST, rename, stored_names
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.known.table import list_place
from sbformat.known.types import Partial, Reference
from sbformat.nets.arguments import LARGEST_FLOAT32, NetworkError, describe_value, read_size, unknown_value_error
from sbformat.policies.builder import BFLOAT16
from sbformat.policies.graph import Input, State
from sbformat.policies.operators import DTYPES, OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sbformat.known.changes import Release
    from sbformat.nets.arguments import Agent, Arguments, Size
    from sbformat.pkl.tree import Pair
    from sbformat.policies.builder import GraphBuilder, Value
    from sbformat.pth.values import TensorInfo


FLOAT: Final = "float32"
"""The dtype of SB3's networks: ``load_state_dict`` converts every tensor to it."""
EPISODE_START: Final = "episode_start"
_GATES: Final = ("Sigmoid", "Sigmoid", "Tanh", "Sigmoid")
"""The functions of the input, forget, cell and output gate of an LSTM, in this order in each matrix."""


class Parameter(Record):
    """A tensor of a state dict."""

    name: str
    shape: tuple[int, ...]
    is_buffer: bool = False
    """Whether it is part of the state, but no optimizer changes it."""
    same_as: str | None = None
    """For a second name of a tensor, its first name; None for any other."""


class Tensor(Record):
    """A tensor of a module: an attribute of it."""

    shape: tuple[int, ...]
    is_buffer: bool = False


# -- where modules add nodes --------------------------------------------------------------------------


class Network:
    """The graph of a policy under construction, and the stored tensors by name.

    :param release: of SB3, whose names the tensors have
    :param origins: the names in the file of tensors that have others there
    """

    def __init__(
        self,
        builder: GraphBuilder,
        tensors: Mapping[str, TensorInfo],
        entry: str,
        release: Release = NEWEST,
        origins: Mapping[str, str] = FrozenDict(),
    ) -> None:
        self.builder = builder
        self.tensors = tensors
        self.results: dict[object, Value] = {}
        """Results that several modules use, by what they are."""
        self._entry = entry
        self._origins = origins
        self._renamed = stored_names(release)

    def weight(self, name: str, dtype: str = FLOAT) -> Value:
        """Add a tensor as a weight, in float32 as SB3 loads it, or in another dtype of its variable."""
        name = rename(name, self._renamed)
        source = self.tensors.get(name)
        if source is None:
            raise ValidationError(f"expected the tensor {quote(name, 120)} in the state dict", entry=self._entry)
        if source.dtype not in (*DTYPES, BFLOAT16):
            message = f"expected {quote(name, 120)} to have one of the dtypes {', '.join(DTYPES)}, got {source.dtype}"
            raise UnsupportedError(message, entry=self._entry)
        made = self.builder.weight(name, source, f"{self._entry}:{self._origins.get(name, name)}")
        return self.builder.cast(made, dtype, name)

    def identify(self, module: str) -> frozenset[object]:
        """Return what is equal for two names of one module: the places of its tensors in the file."""
        start = f"{rename(module, self._renamed)}."
        infos = [(name[len(start) :], info) for name, info in self.tensors.items() if name.startswith(start)]
        return frozenset((name, *locate(info)) for name, info in infos)


def locate(info: TensorInfo) -> tuple[object, ...]:
    """Return the place of a tensor in the file: what is equal for two names of one tensor."""
    return id(info.storage), info.offset, info.shape, info.strides


class Scope(Record):
    """Where a module is: ``scope / "actor" / "mu"``."""

    network: Network
    path: str = ""

    def __truediv__(self, name: object) -> Scope:
        return Scope(self.network, f"{self.path}.{name}" if self.path else str(name))

    def has(self, module: str) -> bool:
        """Return whether there are tensors of a module within this one."""
        return bool(self.network.identify((self / module).path))

    def weight(self, name: str) -> Value:
        """Add a tensor of the module as a weight, in float32."""
        return self.network.weight((self / name).path)

    def add(self, op: str, *operands: Value, module: str | None = None, **attributes: Any) -> Value:
        """Add a node for the module; see :meth:`~sbformat.policies.builder.GraphBuilder.add`."""
        place = self.path if module is None else module
        return self.network.builder.add(op, *operands, module=place, **attributes)

    def constant(self, number: float, dtype: str = FLOAT) -> Value:
        """Add a number."""
        return self.network.builder.constant(number, dtype)

    def flatten(self, value: Value) -> Value:
        """Add ``Flatten``: the items in C order; a vector is returned as it is."""
        return value if len(value.shape) == 1 else self.add("Reshape", value, shape=(prod(value.shape),))


# -- modules ------------------------------------------------------------------------------------------


class Module:
    """A part of a network: tensors and parts as attributes, and what it computes of its input."""

    def parts(self) -> Mapping[str, Module]:
        """Return the modules that it consists of, by name."""
        return {name: part for name, part in vars(self).items() if isinstance(part, Module)}

    is_group = False
    """Whether it has no name of its own: its parts are beside those of the module that it is part of."""
    is_opaque = False
    """Whether tensors below its name are not compared: it is not known, or a function of the caller replaces it."""

    def opaque_paths(self, start: str = "") -> list[str]:
        """Return what the names of tensors that are not compared begin with."""
        if self.is_opaque:
            return [start]
        return [path for name, part in self.parts().items() for path in part.opaque_paths(f"{start}{name}.")]

    def parameters(self) -> list[Parameter]:
        """Return the tensors of its state dict, in the order of ``state_dict()``."""
        made: list[Parameter] = []
        self._collect("", made, {})
        return made

    def _collect(self, start: str, made: list[Parameter], starts: dict[int, str]) -> None:
        first = starts.setdefault(id(self), start)
        for name, tensor in vars(self).items():
            if type(tensor) is Tensor:
                same_as = None if first == start else first + name
                made.append(Parameter(start + name, tensor.shape, tensor.is_buffer, same_as))
        for name, part in self.parts().items():
            part._collect(start if part.is_group else f"{start}{name}.", made, starts)  # noqa: SLF001

    def forward(self, scope: Scope, value: Value) -> Value:
        """Add the nodes that compute the module's result of a vector; of convolutions, of an image, channels first."""
        raise NotImplementedError


class Opaque(Module):
    """A module that is not known, in a part of the network that the caller does not need."""

    is_opaque = True


class Supplied(Opaque):
    """A module that the caller supplies as a function of arrays; it returns ``size`` numbers, or as many as it gets."""

    def __init__(self, function: str, size: int | None = None) -> None:
        self.function = function
        self.size = size

    def forward(self, scope: Scope, value: Value) -> Value:
        return self.call(scope, [value])

    def call(self, scope: Scope, operands: Sequence[Value], keys: Iterable[str] = ()) -> Value:
        """Add the call; when the function receives a dict, ``keys`` has the key of each operand."""
        size = operands[0].shape[0] if self.size is None else self.size
        return scope.add("Call", *operands, function=self.function, keys=tuple(keys), dtype=FLOAT, shape=(size,))


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules

    def parts(self) -> Mapping[str, Module]:
        return self._modules


class Sequential(ModuleDict):
    """Modules by position, each of which gets the result of the one before; without any, the input is the result."""

    def __init__(self, modules: Iterable[Module]) -> None:
        super().__init__({str(position): module for position, module in enumerate(modules)})

    def forward(self, scope: Scope, value: Value, *, name: str = "") -> Value:
        """Add the nodes of all modules; the result gets a name where the last one is a linear layer."""
        last = str(len(self._modules) - 1)
        for position, module in self._modules.items():
            if position == last and isinstance(module, Linear):
                return module.forward(scope / position, value, name=name)
            value = module.forward(scope / position, value)
        return value


class Flatten(Module):
    """The items in C order."""

    def forward(self, scope: Scope, value: Value) -> Value:
        return scope.flatten(value)


class Linear(Module):
    """A linear layer, with or without a bias."""

    names: tuple[str, str] = ("weight", "bias")
    outputs_first = True
    """Whether the weight is (outputs, inputs); (inputs, outputs) in TensorFlow and flax."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        shapes = (outputs, inputs) if self.outputs_first else (inputs, outputs), (outputs,)
        for name, shape in zip(self.names, shapes if bias else shapes[:1]):
            setattr(self, name, Tensor(shape))

    def forward(self, scope: Scope, value: Value, *, name: str = "") -> Value:
        operands = [scope.weight(part) for part in self.names if hasattr(self, part)]
        return scope.add("Gemm", value, *operands, transB=self.outputs_first, name=name)


class Conv2d(Module):
    """A convolution of an image, channels first, with a square kernel, without padding."""

    names: tuple[str, str] = ("weight", "bias")
    outputs_first = True
    """Whether the kernel is ONNX's (outputs, inputs, height, width); (height, width, inputs, outputs) elsewhere."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        edges = (kernel, kernel)
        shape = (outputs, inputs, *edges) if self.outputs_first else (*edges, inputs, outputs)
        for name, made in zip(self.names, (Tensor(shape), Tensor((outputs,)))):
            setattr(self, name, made)
        self.stride = stride

    def forward(self, scope: Scope, value: Value) -> Value:
        kernel, bias = map(scope.weight, self.names)
        if not self.outputs_first:  # back ends transpose it once
            kernel = scope.add("Transpose", kernel, axes=(3, 2, 0, 1))
        strides = (self.stride, self.stride)
        return scope.add("Conv", value, kernel, bias, strides=strides, pads=(0, 0, 0, 0))


class BatchRenorm(Module):
    """``BatchRenorm1d`` of sb3-contrib; in evaluation a batch normalisation with the running statistics."""

    def __init__(self, size: int, arguments: Arguments) -> None:
        self.scale = self.bias = Tensor((size,))
        self.ra_mean = self.ra_var = Tensor((size,), is_buffer=True)
        self.steps = Tensor((), is_buffer=True)
        self._arguments = arguments

    def forward(self, scope: Scope, value: Value) -> Value:
        scale, bias, mean, variance = map(scope.weight, ("scale", "bias", "ra_mean", "ra_var"))
        epsilon = scope.constant(self._arguments.number("batch_norm_eps", 0.001))
        centered = scope.add("Sub", value, mean)
        deviation = scope.add("Sqrt", scope.add("Add", variance, epsilon))
        scaled = scope.add("Mul", scope.add("Div", centered, deviation), scale)
        return scope.add("Add", scaled, bias)


class RunningNorm(Module):
    """``RunningNorm`` and ``EMANorm`` of imitation: ``(x - mean) / sqrt(var + 1e-5)``; training uses the counters."""

    def __init__(self, size: Size, counters: Iterable[str]) -> None:
        self.running_mean = self.running_var = Tensor((size,), is_buffer=True)
        for name in counters:
            setattr(self, name, Tensor((), is_buffer=True))

    def forward(self, scope: Scope, value: Value) -> Value:
        mean, variance = scope.weight("running_mean"), scope.weight("running_var")
        spread = scope.add("Add", variance, scope.constant(1e-5))
        centered = scope.add("Sub", value, mean)
        return scope.add("Div", centered, scope.add("Sqrt", spread))


class LSTM(Module):
    """An LSTM of any number of layers: four gates in each matrix; with a projection the hidden state is smaller.

    ``forward`` is one step, with the states as inputs ``lstm_actor.hidden_l0`` and ``lstm_actor.cell_l0``, 0 when they
    are not given, which ``RecurrentActorCriticPolicy._process_sequence`` multiplies by 0 where an episode starts.
    """

    def __init__(self, inputs: int, hidden: int, layers: int, arguments: Arguments) -> None:
        names = ("bias", "batch_first", "dropout", "bidirectional", "proj_size", "device", "dtype")
        arguments.refuse_others(names, "LSTM")
        if (projection := arguments.size("proj_size", 0)) >= hidden:
            message = f"expected less than lstm_hidden_size ({hidden}), got {projection}"
            raise NetworkError(arguments.key("proj_size"), message)
        dropout = arguments.values.get("dropout", 0.0)
        if isinstance(dropout, bool) or not 0 <= arguments.number("dropout", 0.0) <= 1:
            message = f"expected a number from 0 to 1, got {describe_value(dropout)}"
            raise NetworkError(arguments.key("dropout"), message)
        bias, bidirectional = arguments.flag("bias", default=True), arguments.flag("bidirectional", default=False)
        self.layers = layers
        self._arguments = arguments
        self._refused = {"bidirectional": bidirectional, "proj_size": bool(projection)}
        state = projection or hidden
        for layer in range(layers):
            for of in (f"l{layer}", f"l{layer}_reverse") if bidirectional else (f"l{layer}",):
                setattr(self, f"weight_ih_{of}", Tensor((4 * hidden, inputs)))
                setattr(self, f"weight_hh_{of}", Tensor((4 * hidden, state)))
                for way in ("ih", "hh") if bias else ():
                    setattr(self, f"bias_{way}_{of}", Tensor((4 * hidden,)))
                if projection:
                    setattr(self, f"weight_hr_{of}", Tensor((projection, hidden)))
            inputs = state * (2 if bidirectional else 1)

    def forward(self, scope: Scope, value: Value) -> Value:
        """Add all layers, and return the hidden state of the last one."""
        refused = {**self._refused, "batch_first": self._arguments.flag("batch_first", default=False)}
        if found := [variant for variant, is_given in refused.items() if is_given]:
            message = f"sb3-contrib can neither train nor predict several environments with {found[0]} in lstm_kwargs"
            raise UnsupportedError(message)
        for layer in range(self.layers):
            value = self._add_layer(scope, layer, value)
        return value

    def _add_layer(self, scope: Scope, layer: int, value: Value) -> Value:
        place, network = scope / f"l{layer}", scope.network
        builder = network.builder
        if EPISODE_START not in network.results:  # multiplies all states: 0 where an episode starts, otherwise 1
            top = Scope(network, EPISODE_START)
            start = builder.input(Input(EPISODE_START, FLOAT, (), default=0.0, role="episode_start"))
            going_on = top.add("Sub", top.constant(1.0), start)
            network.results[EPISODE_START] = top.add("Reshape", going_on, shape=(1,))
        size = vars(self)[f"weight_hh_l{layer}"].shape[-1]
        names = [f"{scope.path}.{state}_l{layer}" for state in ("hidden", "cell")]
        hidden, cell = (builder.input(Input(name, FLOAT, (size,), default=0.0, role="state")) for name in names)
        kept, old = (place.add("Mul", network.results[EPISODE_START], state) for state in (hidden, cell))
        products = []
        for way, source in (("ih", value), ("hh", kept)):
            names = [f"{part}_{way}_l{layer}" for part in ("weight", "bias")]
            operands = [scope.weight(part) for part in names if hasattr(self, part)]
            products.append(place.add("Gemm", source, *operands, transB=True))
        gates = place.add("Add", *products)
        raw = [place.add("Slice", gates, axis=-1, start=at * size, end=(at + 1) * size) for at in range(len(_GATES))]
        enter, forget, new, leave = (place.add(op, gate) for op, gate in zip(_GATES, raw))
        remembered, added = place.add("Mul", forget, old), place.add("Mul", enter, new)
        next_cell = place.add("Add", remembered, added, name=f"{place.path}/cell")
        next_hidden = place.add("Mul", leave, place.add("Tanh", next_cell), name=f"{place.path}/hidden")
        whose = "critic_" if scope.path.endswith("critic") else ""
        for state, before, after in (("hidden", hidden, next_hidden), ("cell", cell, next_cell)):
            builder.state(State(before.name, after.name, f"{whose}{state}"))
        return next_hidden


# -- activations --------------------------------------------------------------------------------------

ACTIVATIONS: Final[Mapping[Pair, tuple[str, ...]]] = {
    pair: tuple(row.arguments) for pair, row in list_place("activation_fn").items()
}
"""Activations, with the arguments that a partial may give them; none of them needs one."""
RELU: Final = ("torch.nn.modules.activation", "ReLU")
TANH: Final = ("torch.nn.modules.activation", "Tanh")
FLATTEN_LAYER: Final = ("torch.nn.modules.flatten", "Flatten")
"""Not an activation, but SB3 accepts it in the place of one, and it has no parameters."""
_KEY: Final = "policy_kwargs/activation_fn"


class Spec(Record):
    """A value of ``activation_fn``: the name of a class in ``torch.nn``, and the arguments that a partial gives it."""

    name: str
    arguments: Mapping[str, Any] = {}

    def number(self, name: str, default: float) -> float:
        """Return an argument that is a number; NaN and infinity are, as for torch."""
        try:
            value = float(to_number(self.arguments.get(name, default), name))
        except UnrecognizedError as error:
            raise self.refuse(str(error)) from None
        self.require(f"a number of float32 as {name}, got {value!r}", is_true=not LARGEST_FLOAT32 < abs(value) < inf)
        return value

    def require(self, expected: str, *, is_true: bool) -> None:
        """Refuse arguments that torch refuses."""
        if not is_true:
            raise self.refuse(f"expected {expected}")

    def refuse(self, reason: str) -> UnsupportedError:
        """Return the error for an activation that has no graph."""
        return UnsupportedError(f"{_KEY} is {self.name}: {reason}", entry=DATA_ENTRY)


def read_activation(agent: Agent, default: Pair) -> Callable[[], Module]:
    """Return what makes a module of the policy's ``activation_fn``, which has a default."""
    if "activation_fn" in agent.supplied:
        return lambda: Supplied("activation_fn")
    if not agent.supplied:  # what it cannot be is refused even where no layer has one
        Activation(_read_spec(agent, default))
    return lambda: Activation(_read_spec(agent, default))


def _read_spec(agent: Agent, default: Pair) -> Spec:
    value: Any = agent.policy_kwargs.get("activation_fn", Reference(*default))
    given: dict[str, Any] = {}
    if type(value) is Partial:
        pair = value.function.pair if isinstance(value.function, Reference) else ("", "")
        given = {**dict(zip(ACTIVATIONS.get(pair, ()), value.args)), **value.keywords}
        value = value.function
    if not isinstance(value, Reference) or (value.pair not in ACTIVATIONS and value.pair != FLATTEN_LAYER):
        raise unknown_value_error(value, _KEY)
    for name, part in given.items():
        with suppress(UnrecognizedError):
            given[name] = to_number(part, "argument")
    return Spec(value.name, given)


class Activation(Module):
    """An activation; PReLU alone has a tensor."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        if spec.name == "PReLU":
            self.weight = Tensor((read_size(spec.arguments.get("num_parameters", 1), _KEY),))

    def forward(self, scope: Scope, value: Value) -> Value:
        return ACTIVATION_NODES[self.spec.name](scope, self.spec, value)


AddNodes: TypeAlias = "Callable[[Scope, Spec, Value], Value]"


def _operator(op: str) -> AddNodes:
    """An activation that is one operator: its row has the arguments of torch that are attributes."""

    def add(scope: Scope, spec: Spec, x: Value) -> Value:
        given: dict[str, Any] = dict(OPERATORS[op].arguments)
        given.update({name: spec.number(*value) for name, value in given.items() if isinstance(value, tuple)})
        return scope.add(op, x, **given)

    return add


def _times(op: str) -> AddNodes:
    """The input times an activation of it."""
    return lambda scope, spec, x: scope.add("Mul", x, _operator(op)(scope, spec, x))


def _refused(reason: str) -> AddNodes:
    def refuse(_: Scope, spec: Spec, x: Value) -> Value:  # noqa: ARG001
        raise spec.refuse(reason)

    return refuse


def clip(scope: Scope, x: Value, low: float, high: float, name: str = "") -> Value:
    """Add nodes that clip a value to a range; the result gets a name."""
    return scope.add("Min", scope.add("Max", x, scope.constant(low)), scope.constant(high), name=name)


def _hard_tanh(scope: Scope, spec: Spec, x: Value) -> Value:
    low, high = spec.number("min_val", -1.0), spec.number("max_val", 1.0)
    spec.require("max_val to be greater than min_val", is_true=not low >= high)
    return clip(scope, x, low, high)


def _softmax(scope: Scope, spec: Spec, x: Value) -> Value:
    """Along the only axis; torch takes it when ``dim`` is not given, too."""
    if spec.arguments.get("dim") not in (None, 1, -1):
        reason = "it mixes the observations of a batch"
        raise spec.refuse(reason)
    x = scope.add("Neg", x) if spec.name == "Softmin" else x
    return scope.add("LogSoftmax" if spec.name == "LogSoftmax" else "Softmax", x, axis=-1)


def _gelu(scope: Scope, spec: Spec, x: Value) -> Value:
    add, constant = scope.add, scope.constant
    spec.require("none or tanh as approximate", is_true=spec.arguments.get("approximate", "none") in ("none", "tanh"))
    if spec.arguments.get("approximate", "none") == "tanh":
        cube = add("Mul", add("Mul", x, x), x)
        inner = add("Add", x, add("Mul", cube, constant(0.044715)))
        curve = add("Tanh", add("Mul", inner, constant(sqrt(2 / pi))))
    else:
        curve = add("Erf", add("Mul", x, constant(sqrt(0.5))))
    half = add("Mul", x, constant(0.5))
    return add("Mul", half, add("Add", curve, constant(1.0)))


def _soft_shrink(scope: Scope, spec: Spec, x: Value) -> Value:
    lambd = spec.number("lambd", 0.5)
    spec.require("a finite lambd, 0 or more", is_true=0 <= lambd < inf)
    return scope.add("Shrink", x, lambd=lambd, bias=lambd)


def _random_relu(scope: Scope, spec: Spec, x: Value) -> Value:
    lower, upper = spec.number("lower", 1 / 8), spec.number("upper", 1 / 3)
    is_range = isfinite(lower) and isfinite(upper) and lower <= upper
    spec.require("finite numbers as lower and upper, in this order", is_true=is_range)
    return scope.add("LeakyRelu", x, alpha=(lower + upper) / 2)


def _celu(scope: Scope, spec: Spec, x: Value) -> Value:
    alpha = spec.number("alpha", 1.0)
    spec.require("alpha to be other than 0", is_true=alpha != 0)
    return scope.add("Celu", x, alpha=alpha)


_LINEAR_FROM: Final = 20.0  # where torch replaces Softplus by the identity, by default: there they are equal in float32


def _softplus(scope: Scope, spec: Spec, x: Value) -> Value:
    beta, threshold = spec.number("beta", 1.0), spec.number("threshold", _LINEAR_FROM)
    if beta == 1.0 and threshold == _LINEAR_FROM:
        return scope.add("Softplus", x)
    scaled = scope.add("Mul", x, scope.constant(beta))
    curve = scope.add("Div", scope.add("Softplus", scaled), scope.constant(beta))
    return scope.add("Where", scope.add("Greater", scaled, scope.constant(threshold)), x, curve)


ACTIVATION_NODES: Final[Mapping[str, AddNodes]] = {
    **{row.activation: _operator(op) for op, row in OPERATORS.items() if row.activation},
    **dict.fromkeys(("AlphaDropout", "Dropout", "FeatureAlphaDropout", "Flatten", "Identity"), lambda _, __, x: x),
    "CELU": _celu,
    "GELU": _gelu,
    "GLU": _refused("it halves the number of features, which no layer of SB3 expects"),
    "Hardshrink": lambda scope, spec, x: scope.add("Shrink", x, lambd=spec.number("lambd", 0.5), bias=0.0),
    "Hardswish": _times("HardSigmoid"),
    "Hardtanh": _hard_tanh,
    "LogSigmoid": lambda scope, _, x: scope.add("Neg", scope.add("Softplus", scope.add("Neg", x))),
    "LogSoftmax": _softmax,
    "Mish": lambda scope, _, x: scope.add("Mul", x, scope.add("Tanh", scope.add("Softplus", x))),
    "PReLU": lambda scope, _, x: scope.add("PRelu", x, scope.weight("weight")),
    "RReLU": _random_relu,
    "ReLU6": lambda scope, _, x: clip(scope, x, 0.0, 6.0),
    "SiLU": _times("Sigmoid"),
    "Softmax": _softmax,
    "Softmax2d": _refused("it needs images, and the layers of SB3 return vectors"),
    "Softmin": _softmax,
    "Softplus": _softplus,
    "Softshrink": _soft_shrink,
    "Tanhshrink": lambda scope, _, x: scope.add("Sub", x, scope.add("Tanh", x)),
}
"""The function that adds the nodes of an activation, by the name of its class."""
