"""The policies of SBX (Stable Baselines Jax), as its sources write them, and the graph of one (SBX.md 22.3).

In: an archive of SBX, whose state dict ``policy`` has the arrays of flax by path (:mod:`sbformat.formats.sbx.states`),
and whose pickled policy names the classes of its networks, their settings and activation
(:mod:`sbformat.formats.sbx.modules`); of the code in the pickle nothing is looked at. Out: a graph that computes what
``predict`` of SBX returns. ``ACTORS`` and ``CRITICS`` have a row for each class: its layers, and what they compute. SAC
with ``net_arch=[16]``, for 3 observations and 2 actions::

    Mlp               actor_state/params/params
      Dense_0         kernel (3, 16)  bias (16,)     Gemm, then the activation
      Dense_1         kernel (16, 2)  bias (2,)      Gemm: the mean
      Dense_2         kernel (16, 2)  bias (2,)      Gemm: log_std, clipped to -20 and 2

Sources: SBX ``common/policies.py``, ``common/jax_layers.py`` and ``policies.py`` of each algorithm, 0.3 to 0.28; flax
``linen/linear.py`` and ``linen/normalization.py``; jax ``_src/nn/functions.py``.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, quote
from sbformat.formats.normalized import was_normalized
from sbformat.formats.sbx import SbxArchive
from sbformat.known.changes import FILTERS
from sbformat.known.spaces import Space
from sbformat.known.types import Reference
from sbformat.nets.activations import Activation, Spec
from sbformat.nets.arguments import ACTIONS, OBSERVATIONS, NetworkError, read_number, require_choices
from sbformat.nets.distributions import Head, add_choices, add_gaussian, finish_action, require_outputs
from sbformat.nets.extractors import NATURE_LAYERS, OBSERVATION
from sbformat.nets.inference import WHAT_WORKS, read_given_kwargs
from sbformat.nets.modules import FLOAT, Flatten, Module, Network, Opaque, Scope, Tensor
from sbformat.nets.reading import describe_mismatches, find_mismatches
from sbformat.policies.builder import GraphBuilder
from sbformat.policies.graph import Sampling
from sbformat.policies.model import PolicyModel
from sbformat.policies.normalization import add_observation_input

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.formats.sbx.modules import Module as Settings
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.limits import Budget
    from sbformat.pkl.names import Pair
    from sbformat.policies.builder import Value
    from sbformat.policies.model import Given
    from sbformat.pth.values import TensorInfo

_POLICY: Final = "policy"
_MOST_LAYERS: Final = 1000
_MOST_CRITICS: Final = 256
_OWN_STATES: Final = ("qf1_state", "qf2_state")
"""The states of TQC's critics, which are not one array."""

ACTIVATIONS: Final[Mapping[str, Spec]] = {
    "gelu": Spec("GELU", {"approximate": "tanh"}),
    **{name.lower(): Spec(name) for name in ("CELU", "ELU", "Mish", "ReLU", "ReLU6", "SELU", "Sigmoid", "SiLU")},
    "softplus": Spec("Softplus"), "tanh": Spec("Tanh"), "swish": Spec("SiLU"), "leaky_relu": Spec("LeakyReLU"),
    "log_sigmoid": Spec("LogSigmoid"), "soft_sign": Spec("Softsign"), "hard_tanh": Spec("Hardtanh"),
    "hard_sigmoid": Spec("Hardsigmoid"), "hard_silu": Spec("Hardswish"), "hard_swish": Spec("Hardswish"),
}  # fmt: skip
"""Torch's activations by the name of jax's function, with jax's default arguments."""


# -- arrays -------------------------------------------------------------------------------------------


class Variables(Network):
    """The arrays of a network: ``params`` and ``batch_stats`` of a state of flax, or of one module in it.

    :param state: ``actor_state``
    :param module: the name of the module, with a slash at its end; empty for the whole network
    :param critics: the number of critics in each array, along its first axis; 0 for a network without this axis
    """

    def __init__(
        self, builder: GraphBuilder, tensors: Mapping[str, TensorInfo], state: str, module: str = "", critics: int = 0
    ) -> None:
        super().__init__(builder, tensors, _POLICY)
        self.axes = (critics,) * bool(critics)
        self.critic = 0
        """The critic whose part of the arrays is added."""
        self.start = f"{_find_parameters(tensors, state)}{module}"
        starts = (f"{state}/batch_stats/{module}", self.start)
        self.names = {name[len(start) :]: name for start in starts for name in tensors if name.startswith(start)}

    def weight(self, name: str) -> Value:
        """Add an array of float32 as a weight; of several critics, the part of one.

        :param name: ``actor_state/params/params/Dense_0/kernel``; of a statistic, too
        :raises UnsupportedError: for another dtype
        """
        full = self.names[name[len(self.start) :]]
        if self.tensors[full].dtype != FLOAT:
            message = f"expected {quote(full, 120)} to be of float32, got {self.tensors[full].dtype}"
            raise UnsupportedError(message)
        value, module = super().weight(full), name.rpartition("/")[0]
        if not self.axes:
            return value
        axis, start = -len(value.shape), self.critic
        part = self.builder.add("Slice", value, axis=axis, start=start, end=start + 1, module=module)
        return self.builder.add("Reshape", part, shape=value.shape[1:], module=module)

    def require_fit(self, network: Module, pair: Pair) -> None:
        """Compare the arrays with those of a network of a class.

        :raises ValidationError: when one is missing
        :raises UnsupportedError: when they differ otherwise: the class may be another one in the release of the file
        """
        opaque = tuple(path.replace(".", "/") for path in network.opaque_paths())
        expected = [
            part._replace(name=part.name.replace(".", "/"), shape=(*self.axes, *part.shape))
            for part in network.parameters()
        ]
        statistics = {part.name for part in expected if part.is_buffer}
        actual = {
            name: tuple(self.tensors[full].shape)
            for name, full in self.names.items()
            if name in statistics or (full.startswith(self.start) and not name.startswith(opaque))
        }
        if rows := find_mismatches(expected, actual):
            where = f"{quote(self.start.rstrip('/'), 80)} is not the network {quote('.'.join(pair), 120)}"
            message = f"{where}: {describe_mismatches(rows)}"
            if any(row.kind == "missing" for row in rows):
                raise ValidationError(message, problems=rows)
            message = f"{message}; {WHAT_WORKS}"
            raise UnsupportedError(message)


def _find_parameters(tensors: Mapping[str, TensorInfo], state: str) -> str:
    """Return what the names of a state's parameters begin with: flax has ``params`` in ``params``, CrossQ these alone."""
    nested = f"{state}/params/params/"
    return nested if any(name.startswith(nested) for name in tensors) else f"{state}/params/"


class Place(Scope):
    """Where a module of flax is: ``place / "Dense_0"``; its names and shapes are what settings do not say."""

    def __truediv__(self, name: object) -> Place:
        return Place(self.network, f"{self.path}/{name}")

    def stores(self, name: str) -> bool:
        """Return whether there is a parameter of a name: ``Dense_0/kernel``."""
        return (self / name).path in self.network.tensors

    def outputs(self, layer: str) -> int:
        """Return the number of outputs of a ``Dense``; 0 if there is none."""
        info = self.network.tensors.get((self / layer / "kernel").path)
        return info.shape[-1] if info is not None and info.shape else 0

    def count(self, layer: str) -> int:
        """Return how many layers there are, without a gap: of ``Dense_{}``, by their kernels."""
        names = (f"{layer.format(number)}/kernel" for number in range(_MOST_LAYERS))
        return next((number for number, name in enumerate(names) if not self.stores(name)), _MOST_LAYERS)


# -- layers -------------------------------------------------------------------------------------------


class Dense(Module):
    """``x @ kernel + bias``."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool) -> None:
        self.kernel = Tensor((inputs, outputs))
        if bias:
            self.bias = Tensor((outputs,))

    def forward(self, scope: Scope, value: Value, *, name: str = "") -> Value:
        operands = [scope.weight(part) for part in ("kernel", "bias") if hasattr(self, part)]
        return scope.add("Gemm", value, *operands, transB=False, name=name)


class Conv(Module):
    """A convolution with a square kernel (height, width, channels, filters), without padding, of channels first."""

    def __init__(self, channels: int, filters: int, edge: int, stride: int) -> None:
        self.kernel = Tensor((edge, edge, channels, filters))
        self.bias = Tensor((filters,))
        self.strides = (stride, stride)

    def forward(self, scope: Scope, value: Value) -> Value:
        kernel = scope.add("Transpose", scope.weight("kernel"), axes=(3, 2, 0, 1))
        return scope.add("Conv", value, kernel, scope.weight("bias"), strides=self.strides, pads=(0, 0, 0, 0))


class LayerNorm(Module):
    """Over the last axis."""

    def __init__(self, size: int) -> None:
        self.scale = self.bias = Tensor((size,))

    def forward(self, scope: Scope, value: Value) -> Value:
        return scope.add("LayerNormalization", value, scope.weight("scale"), scope.weight("bias"), epsilon=1e-6)


class BatchRenorm(Module):
    """In evaluation: ``(x - mean) * (scale / sqrt(var + epsilon)) + bias``."""

    def __init__(self, size: int) -> None:
        self.mean = self.var = Tensor((size,), is_buffer=True)
        self.scale = self.bias = Tensor((size,))

    def forward(self, scope: Scope, value: Value) -> Value:
        mean, variance, scale, bias = map(scope.weight, ("mean", "var", "scale", "bias"))
        deviation = scope.add("Sqrt", scope.add("Add", variance, scope.constant(1e-3)))
        factor = scope.add("Div", scale, deviation)
        return scope.add("Add", scope.add("Mul", scope.add("Sub", value, mean), factor), bias)


class ChannelsLast(Flatten):
    """The items of an image in the order height, width, channels."""

    def forward(self, scope: Scope, value: Value) -> Value:
        return scope.flatten(scope.add("Transpose", value, axes=(1, 2, 0)))


class Compact(Module):
    """A chain of layers with the names of their classes, numbered in the order of their calls, as flax names them.

    :param place: where it is
    :param activation: what ``activate`` adds
    """

    def __init__(self, place: Place, activation: Spec) -> None:
        self.place, self.activation = place, activation
        self.chain: list[tuple[str, Module]] = []
        self._numbers: Counter[str] = Counter()

    def call(self, layer: Module) -> None:
        """Append a layer to the chain."""
        self.chain.append((self.add(layer), layer))

    def add(self, layer: Module) -> str:
        """Add a layer, and return its name."""
        kind = type(layer).__name__
        name = f"{kind}_{self._numbers[kind]}"
        self._numbers[kind] += 1
        setattr(self, name, layer)
        return name

    def dense(self, inputs: int, outputs: int | None = None) -> int:
        """Append a ``Dense`` layer, and return its number of outputs.

        :param outputs: by default those of the kernel
        """
        layer = self.make_dense(inputs, outputs)
        self.call(layer)
        return layer.kernel.shape[-1]

    def make_dense(self, inputs: int, outputs: int | None = None) -> Dense:
        """Return the next ``Dense`` layer, with a bias if there is one."""
        name = f"Dense_{self._numbers['Dense']}"
        size = self.place.outputs(name) if outputs is None else outputs
        return Dense(inputs, size, bias=self.place.stores(f"{name}/bias"))

    def activate(self) -> None:
        """Append the activation, a function, which has no name of its own."""
        name = next(name for name, layer in reversed(self.chain) if isinstance(layer, (Dense, Conv)))
        self.chain.append((name, Activation(self.activation)))

    def forward(self, scope: Scope, value: Value) -> Value:
        for name, layer in self.chain:
            value = layer.forward(scope / name, value)
        return value


class NatureCNN(Compact):
    """Bytes over 255, three convolutions, and a layer; the image has channels first."""

    def __init__(self, place: Place, activation: Spec, shape: tuple[int, ...]) -> None:
        super().__init__(place, activation)
        if len(shape) != 3:
            message = f"expected images for NatureCNN, got observations of the shape {shape}"
            raise UnsupportedError(message)
        channels, *edges = shape
        for (edge, stride), filters in zip(NATURE_LAYERS, FILTERS):
            self.call(Conv(channels, filters, edge, stride))
            self.activate()
            channels, edges = filters, [(size - edge) // stride + 1 for size in edges]
        self.chain.append(("Dense_0", ChannelsLast()))
        self.features = self.dense(channels * prod(edges))
        self.activate()

    def forward(self, scope: Scope, value: Value) -> Value:
        return super().forward(scope, (scope / "Conv_0").add("Div", value, scope.constant(255.0)))


class SimbaResidualBlock(Compact):
    """``x + Dense_1(activation(Dense_0(norm(x))))``."""

    def __init__(self, place: Place, activation: Spec, size: int, norm: type[LayerNorm | BatchRenorm]) -> None:
        super().__init__(place, activation)
        self.call(norm(size))
        inner = self.dense(size)
        self.activate()
        self.dense(inner, size)

    def forward(self, scope: Scope, value: Value) -> Value:
        return (scope / "Dense_1").add("Add", value, super().forward(scope, value))


# -- networks -----------------------------------------------------------------------------------------


class Mlp(Compact):
    """Layers with activations, then one or two ``Dense`` layers of the same input, the heads.

    :param settings: of the class; ``net_arch`` has the outputs of the layers, where the file has it
    :param shape: of the observation, and of a critic of that with the action
    :param heads: the number of heads
    """

    is_normalized = False
    """Whether ``BatchRenorm`` is before the first layer, and after each."""

    def __init__(
        self, variables: Variables, activation: Spec, settings: Mapping[str, Any], shape: tuple[int, ...], heads: int
    ) -> None:
        place = Place(variables, variables.start.rstrip("/"))
        super().__init__(place, activation)
        self.variables, self.settings = variables, settings
        if place.stores("NatureCNN_0/Dense_0/kernel"):
            cnn = NatureCNN(place / "NatureCNN_0", activation, shape)
            self.call(cnn)
            inputs = cnn.features
        else:
            self.chain.append(("Dense_0", Flatten()))
            inputs = prod(shape)
        latent = self.make_layers(inputs, place.count("Dense_{}") - heads)
        self.outputs = place.outputs(f"Dense_{self._numbers['Dense']}")
        made = [self.make_dense(latent, self.outputs) for _ in range(heads)]
        self.heads = [(self.add(layer), layer) for layer in made]

    def make_layers(self, inputs: int, count: int) -> int:
        """Add the layers before the heads, and return the number of their outputs.

        :param count: of the ``Dense`` layers
        :raises NetworkError: when they are not those of ``net_arch``
        """
        sizes = [self.place.outputs(f"Dense_{number}") for number in range(count)]
        expected = self.settings.get("net_arch")
        if type(expected) in (list, tuple) and list(expected) != sizes:
            raise NetworkError("net_arch", f"expected the layers {list(expected)} in {self.place.path}, got {sizes}")
        is_normalized = self.is_normalized and self.settings.get("use_batch_norm", True) is True
        if is_normalized:
            self.call(BatchRenorm(inputs))
        elif self.settings.get("use_batch_norm") is False:
            self.BatchRenorm_0 = Opaque()  # CrossQ makes it without using it
        has_norms = self.place.stores("LayerNorm_0/scale")
        for size in sizes:
            inputs = self.dense(inputs, size)
            if has_norms:
                self.call(LayerNorm(inputs))
            self.activate()
            if is_normalized:
                self.call(BatchRenorm(inputs))
        return inputs

    def forward_head(self, latent: Value, number: int = 0, name: str = "") -> Value:
        """Add a head, on what ``forward`` returns."""
        part, layer = self.heads[number]
        return layer.forward(self.place / part, latent, name=name)


class RenormedMlp(Mlp):
    """Of CrossQ, with norms."""

    is_normalized = True


class Simba(Mlp):
    """A layer, residual blocks, each with a norm before it, and a norm; with CrossQ's norms, there is one before all."""

    def make_layers(self, inputs: int, count: int) -> int:  # noqa: ARG002
        is_normalized = self.place.stores("BatchRenorm_0/scale")
        norm = BatchRenorm if is_normalized else LayerNorm
        if is_normalized:
            self.call(norm(inputs))
        size = self.dense(inputs)
        for number in range(self.place.count("SimbaResidualBlock_{}/Dense_0")):
            place = self.place / f"SimbaResidualBlock_{number}"
            self.call(SimbaResidualBlock(place, self.activation, size, norm))
        self.call(norm(size))
        return size


# -- policies -----------------------------------------------------------------------------------------


class Policy:
    """A policy of SBX: its observation in a graph, and what adds its networks.

    :raises UnsupportedError: when a space is not known, or SBX does not accept it
    """

    def __init__(self, archive: SbxArchive, given: Given, budget: Budget) -> None:
        self.archive, self.given, self.builder = archive, given, GraphBuilder(budget)
        self.observation_space = _read_space(archive, OBSERVATIONS, given.observation_space)
        self.action_space = _read_space(archive, ACTIONS, given.action_space)
        self.tensors: Mapping[str, TensorInfo] = archive.state_dict(_POLICY).tensors()
        self.observation = _add_observation(self.builder, self.observation_space, given.vecnormalize)
        self.modules = archive.read_modules()

    def act(self) -> tuple[Head, Value | None]:
        """Add the network that acts.

        :return: its outputs, and the deterministic action before it is scaled to the bounds, if critics are of actions
        """
        name, space = "actor" if "actor" in self.modules else "qf", self.action_space
        module = self.modules.get(name)
        if module is None:
            message = f"expected the network actor or qf in the pickled policy of SBX; {WHAT_WORKS}"
            raise UnsupportedError(message, entry=DATA_ENTRY)
        if module.pair not in ACTORS:
            message = f"the network of the class {quote('.'.join(module.pair), 200)} is not known; {WHAT_WORKS}"
            raise UnsupportedError(message)
        role, layers = ACTORS[module.pair]
        if space.distribution not in role.actions:
            message = f"{self.archive.algorithm.name} of SBX has no {space.class_name} actions"
            raise UnsupportedError(message, entry=DATA_ENTRY)
        has_log_std = role is _PPO and space.distribution == "gaussian"
        shape = self.observation.shape
        network = self._make(module, layers, shape, f"{name}_state", heads=role.heads, has_log_std=has_log_std)
        return role.act(self, network, network.forward(network.place, self.observation))

    def evaluate(self, action: Value | None) -> dict[str, Value]:
        """Add the values of the critics; one that does not fit is left out, and the graph says so.

        :param action: that critics of actions get
        """
        name = "vf" if "vf" in self.modules else "qf"
        module = self.modules.get(name)
        if module is None or module.pair not in CRITICS or (name == "qf" and action is None):
            return {}
        try:
            return self._evaluate_actions(module, action) if action is not None else self._evaluate_state(module)
        except SbformatError as error:
            self.builder.infer(f"{name}: the critic is left out: {error.message}")
            return {}

    def _evaluate_state(self, module: Settings) -> dict[str, Value]:
        critic = self._make(module, CRITICS[module.pair], self.observation.shape, "vf_state")
        return {"value": critic.forward_head(critic.forward(critic.place, self.observation), name="value")}

    def _evaluate_actions(self, module: Settings, action: Value) -> dict[str, Value]:
        """Add the values of all critics; of TQC, their quantiles too."""
        place = Scope(Network(self.builder, {}, _POLICY), "qf_state")
        seen, layers = place.add("Concat", place.flatten(self.observation), action, axis=-1), CRITICS[module.pair]
        states = [state for state in _OWN_STATES if any(name.startswith(f"{state}/") for name in self.tensors)]
        values = []
        for state in states or ["qf_state"]:
            part, count = ("", 0) if states else _find_critics(self.tensors, state)
            critic = self._make(module, layers, seen.shape, state, part, count)
            for number in range(count or 1):
                critic.variables.critic = number
                values.append(critic.forward_head(critic.forward(critic.place, seen)))
        add = partial(self.builder.add, module="qf")
        if self.archive.algorithm.name != "TQC":
            return {"q_values": add("Concat", *values, axis=-1, name="q_values")}
        rows = [add("Reshape", value, shape=(1, *value.shape)) for value in values]
        quantiles = add("Concat", *rows, axis=-2, name="quantiles")
        return {"q_values": add("ReduceMean", quantiles, axis=-1, name="q_values"), "quantiles": quantiles}

    def _make(
        self,
        module: Settings,
        layers: type[Mlp],
        shape: tuple[int, ...],
        *where: Any,
        heads: int = 1,
        has_log_std: bool = False,
    ) -> Mlp:
        """Return a network, which the arrays fit.

        :param shape: of its input
        :param where: of the arrays; see :class:`Variables`
        :param has_log_std: whether it has the deviation of each action beside its layers
        """
        variables = Variables(self.builder, self.tensors, *where)
        network = layers(variables, self._find_activation(module), module.settings, shape, heads)
        if has_log_std:
            network.log_std = Tensor((network.outputs,))
        variables.require_fit(network, module.pair)
        return network

    def _find_activation(self, module: Settings) -> Spec:
        """Return the activation of a network; that of the caller comes first.

        :raises UnsupportedError: for a function that is not known
        """
        given = read_given_kwargs(self.given).get("activation_fn")
        if isinstance(given, Reference):
            return Spec(given.name)
        default = "tanh" if module.pair[0] == "sbx.ppo.policies" else "relu"
        name = default if module.activation == "" else module.activation
        if name is None or name not in ACTIVATIONS:
            shown = name or "a function that is not of jax"
            message = (
                f"activation_fn is {shown}, which is not known: pass the name of its class in torch.nn, as in "
                "policy_kwargs={'activation_fn': 'ReLU'}"
            )
            raise UnsupportedError(message)
        return ACTIVATIONS[name]


def build_sbx_policy(archive: Archive, given: Given, budget: Budget) -> PolicyModel:
    """Return the policy of an archive of SBX as a graph.

    :param archive: as :func:`sbformat.formats.opener.open_archive` returns it
    :param given: what the caller supplies beside the file; its ``policy_class`` is not used: the file names the classes
        of its networks
    :param budget: what the operation may use
    :raises UnsupportedError: when a network, an activation or a space is not known; the message names it
    :raises ValidationError: when the file contradicts itself
    :raises SbformatError: when it cannot be read

    Example::

        model = build_sbx_policy(open_archive("sbx_sac.zip", budget), Given(), budget)
        model.graph.outputs   # {"action": ..., "mean": ..., "log_std": ..., "q_values": ...}
    """
    if not isinstance(archive, SbxArchive):
        message = f"expected an archive of SBX, got the format {archive.format}"
        raise UnsupportedError(message)
    try:
        policy = Policy(archive, given, budget)
        head, action = policy.act()
        graph = policy.builder.build({**head.outputs, **policy.evaluate(action)}, head.sampling)
    except NetworkError as error:
        message = f"{error.key}: {error.message}"
        raise ValidationError(message, entry=error.entry) from None
    spaces = policy.observation_space, policy.action_space
    return PolicyModel(graph, *spaces, archive.algorithm.name, "sb3", was_normalized(archive, spaces[0]), archive)


def _read_space(archive: SbxArchive, key: str, given: Space | None) -> Space:
    space = given if given is not None else archive.decode(key)
    if not isinstance(space, Space):
        message = f"{key} is not known: pass {key}=... to load_policy"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    require_choices(space, key)
    return space


def _add_observation(builder: GraphBuilder, space: Space, statistics: VecNormalize | None) -> Value:
    """Add the inputs, and ``prepare_obs``, which encodes nothing: the parts of a Dict are concatenated.

    :return: of float32, in the shape of the space; of a Discrete a vector of one number
    :raises UnsupportedError: for a space that SBX does not accept
    """
    parts = []
    for key, part in space.parts().items():
        name = OBSERVATION if key is None else f"{OBSERVATION}.{key}"
        value = add_observation_input(builder, part, name, key, statistics, "SBX")
        parts.append(value if value.dtype == FLOAT else builder.add("Cast", value, to=FLOAT, module=name))
    if not space.has_keys:
        return parts[0] if parts[0].shape else builder.add("Reshape", parts[0], shape=(1,), module=OBSERVATION)
    if not parts or any(len(part.shape) != 1 for part in parts):
        message = "expected vectors as the parts of a Dict observation, which SBX concatenates"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    return builder.add("Concat", *parts, axis=-1, module=OBSERVATION) if len(parts) > 1 else parts[0]


def _find_critics(tensors: Mapping[str, TensorInfo], state: str) -> tuple[str, int]:
    """Return the name of the module that several critics are in, with a slash, and their number.

    :raises ValidationError: if there is none, or more than any agent has
    """
    start = _find_parameters(tensors, state)
    name = next((name for name in tensors if name.startswith(f"{start}Vmap")), "")
    count = (*tensors[name].shape, 0)[0] if name else 0
    if not 1 <= count <= _MOST_CRITICS:
        message = f"expected from 1 to {_MOST_CRITICS} critics in one array, got {count:,}"
        raise ValidationError(message)
    return name[len(start) :].partition("/")[0] + "/", count


# -- what a network computes ----------------------------------------------------------------------------


def _act_ppo(policy: Policy, network: Mlp, latent: Value) -> tuple[Head, Value | None]:
    """A Gaussian distribution, clipped to the bounds, or choices; a bit is a choice of two."""
    space = policy.action_space
    if space.distribution == "gaussian":
        mean = network.forward_head(latent, name="mean")
        require_outputs(mean, space.flat_size())
        return _finish(policy, mean, mean, network.place.weight("log_std"), squashed=False), None
    logits = network.forward_head(latent, name="logits")
    require_outputs(logits, space.flat_size() * (2 if space.distribution == "bernoulli" else 1))
    return add_choices(Scope(network.variables), space, logits, masked=False, is_normalized=False), None


def _act_squashed(policy: Policy, network: Mlp, latent: Value) -> tuple[Head, Value]:
    """A Gaussian distribution, squashed, whose deviation is the second head."""
    mean = network.forward_head(latent, name="mean")
    require_outputs(mean, policy.action_space.flat_size())
    place = network.place / network.heads[1][0]
    low, high = (
        read_number(network.settings.get(key, default), key)
        for key, default in (("log_std_min", -20.0), ("log_std_max", 2.0))
    )
    above = place.add("Max", network.forward_head(latent, 1), place.constant(low))
    log_std = place.add("Min", above, place.constant(high), name="log_std")
    scaled = (network.place / network.heads[0][0]).add("Tanh", mean)
    return _finish(policy, mean, scaled, log_std, squashed=True), scaled


def _finish(policy: Policy, mean: Value, action: Value, log_std: Value, *, squashed: bool) -> Head:
    action = finish_action(policy.builder, policy.action_space, action, squashed=squashed)
    spread = policy.builder.add("Identity", log_std, name="log_std") if log_std.is_weight else log_std
    return Head({"action": action, "mean": mean, "log_std": spread}, add_gaussian(mean, log_std).sampling)


def _act_deterministic(policy: Policy, network: Mlp, latent: Value) -> tuple[Head, Value]:
    raw = network.forward_head(latent)
    require_outputs(raw, policy.action_space.flat_size())
    scaled = (network.place / network.heads[0][0]).add("Tanh", raw, name="mean")
    action = finish_action(policy.builder, policy.action_space, scaled, squashed=True)
    return Head({"action": action, "mean": scaled}, Sampling("none")), scaled


def _act_greedy(policy: Policy, network: Mlp, latent: Value) -> tuple[Head, None]:
    """The action of the greatest value, or at random with the rate that ``data`` has."""
    values = network.forward_head(latent, name="q_values")
    require_outputs(values, policy.action_space.flat_size())
    action = policy.builder.add("ArgMax", values, axis=-1, name="action")
    rate = read_number(policy.archive.data.get("exploration_rate", 0.0), "exploration_rate")
    drawn = Sampling("epsilon_greedy", action.name, sizes=values.shape, rate=rate) if rate else Sampling("none")
    return Head({"action": action, "q_values": values}, drawn), None


class Role(NamedTuple):
    """What a network that acts computes."""

    act: Callable[[Policy, Mlp, Value], tuple[Head, Value | None]]
    heads: int = 1
    actions: tuple[str, ...] = ("gaussian",)
    """The distributions of the action spaces that it is for."""


_PPO: Final = Role(_act_ppo, actions=("gaussian", "categorical", "multi-categorical", "bernoulli"))
_SQUASHED: Final = Role(_act_squashed, heads=2)
_DETERMINISTIC: Final = Role(_act_deterministic)
_GREEDY: Final = Role(_act_greedy, actions=("categorical",))
_ALGORITHMS: Final = ("common", "sac", "tqc", "droq")
"""The packages that had actors and critics of SAC and its relatives."""

ACTORS: Final[Mapping[Pair, tuple[Role, type[Mlp]]]] = {
    ("sbx.ppo.policies", "Actor"): (_PPO, Mlp),
    **{(f"sbx.{package}.policies", "Actor"): (_SQUASHED, Mlp) for package in _ALGORITHMS},
    ("sbx.common.policies", "SquashedGaussianActor"): (_SQUASHED, Mlp),
    ("sbx.common.policies", "SimbaSquashedGaussianActor"): (_SQUASHED, Simba),
    ("sbx.crossq.policies", "Actor"): (_SQUASHED, RenormedMlp),
    ("sbx.crossq.policies", "SimbaActor"): (_SQUASHED, Simba),
    ("sbx.td3.policies", "Actor"): (_DETERMINISTIC, Mlp),
    ("sbx.ddpg.policies", "Actor"): (_DETERMINISTIC, Mlp),
    ("sbx.dqn.policies", "QNetwork"): (_GREEDY, Mlp),
    ("sbx.dqn.policies", "CnnQNetwork"): (_GREEDY, Mlp),
}
"""The classes of the networks that act."""

CRITICS: Final[Mapping[Pair, type[Mlp]]] = {
    ("sbx.ppo.policies", "Critic"): Mlp,
    **{
        (f"sbx.{package}.policies", name): Mlp
        for package in (*_ALGORITHMS, "td3", "ddpg")
        for name in ("Critic", "VectorCritic", "ContinuousCritic")
    },
    ("sbx.common.policies", "SimbaContinuousCritic"): Simba,
    ("sbx.common.policies", "SimbaVectorCritic"): Simba,
    ("sbx.crossq.policies", "VectorCritic"): RenormedMlp,
    ("sbx.crossq.policies", "SimbaVectorCritic"): Simba,
}
"""The classes of critics."""
