"""The policies of SBX (Stable Baselines Jax), as its sources write them, and the graph of one (SBX.md 22.3).

In: an archive of SBX, whose state dict ``policy`` has the arrays of flax by path (:mod:`sbformat.formats.sbx`),
and whose pickled policy names the classes of its networks, their settings and activation
(:mod:`sbformat.formats.sbx`); of the code in the pickle nothing is looked at. Out: a graph that computes what
``predict`` of SBX returns. ``ACTORS`` and ``CRITICS`` have a row for each class. SAC with ``net_arch=[16]``, for 3
observations and 2 actions::

    Mlp               actor_state/params/params
      Dense_0         kernel (3, 16)  bias (16,)     Gemm, then the activation
      Dense_1         kernel (16, 2)  bias (2,)      Gemm: the mean
      Dense_2         kernel (16, 2)  bias (2,)      Gemm: log_std, clipped to -20 and 2

Sources: SBX ``common/policies.py``, ``common/jax_layers.py`` and ``policies.py`` of each algorithm, 0.3 to 0.28; flax
``linen/linear.py`` and ``linen/normalization.py``; jax ``_src/nn/functions.py``.
"""

from __future__ import annotations

from collections import Counter
from itertools import count as count_from
from math import prod
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, quote
from sbformat.formats.normalized import was_normalized
from sbformat.formats.sbx import SbxArchive
from sbformat.known.changes import FILTERS
from sbformat.known.spaces import Space
from sbformat.known.types import Reference
from sbformat.nets.arguments import ACTIONS, OBSERVATIONS, NetworkError, read_number, refuse_network, require_choices
from sbformat.nets.building import read_given_kwargs
from sbformat.nets.distributions import (
    LOG_STD_RANGE,
    Head,
    add_choices,
    add_gaussian,
    average_quantiles,
    choose_greatest,
    finish_deterministic,
    finish_gaussian,
    require_outputs,
)
from sbformat.nets.extractors import NATURE_LAYERS, OBSERVATION, add_observation_input
from sbformat.nets.layers import (
    FLOAT,
    Activation,
    Conv2d,
    Flatten,
    Linear,
    Module,
    Network,
    Opaque,
    Scope,
    Spec,
    Tensor,
    clip,
)
from sbformat.nets.reading import describe_mismatches, find_mismatches
from sbformat.policies.builder import GraphBuilder, PolicyModel, check_layers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.archive import Archive
    from sbformat.formats.sbx import Module as Settings
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.limits import Budget
    from sbformat.pkl.tree import Pair
    from sbformat.policies.builder import Given, Value
    from sbformat.policies.operators import Shape
    from sbformat.pth.values import TensorInfo

_WHAT_WORKS: Final = "its parameters can be read with read_parameters"
_PPO: Final = ("sbx.ppo.policies", "Actor")
ACTIVATIONS: Final[Mapping[str, Spec]] = {
    "gelu": Spec("GELU", {"approximate": "tanh"}), "hard_silu": Spec("Hardswish"), "swish": Spec("SiLU"),
    **{name.lower(): Spec(name) for name in ("CELU", "ELU", "Mish", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid")},
    "hard_sigmoid": Spec("Hardsigmoid"), "hard_swish": Spec("Hardswish"), "hard_tanh": Spec("Hardtanh"),
    "leaky_relu": Spec("LeakyReLU"), "log_sigmoid": Spec("LogSigmoid"), "soft_sign": Spec("Softsign"),
    "softplus": Spec("Softplus"), "tanh": Spec("Tanh"),
}  # fmt: skip
"""Torch's activations by the names of jax's functions, with jax's default arguments."""


# -- arrays -------------------------------------------------------------------------------------------


def _find_parameters(tensors: Mapping[str, TensorInfo], state: str) -> str:
    """Return what the names of a state's parameters begin with: CrossQ has no variables around them."""
    nested = f"{state}/params/params/"
    return nested if any(name.startswith(nested) for name in tensors) else f"{state}/params/"


class Variables(Network):
    """The arrays of a network: ``params`` and ``batch_stats`` of a state of flax.

    :param part: the name of a module in the state that has them, with a slash
    :param critics: how many critics the arrays are of, along their first axis; 0 for a network without this axis
    """

    def __init__(
        self, builder: GraphBuilder, tensors: Mapping[str, TensorInfo], state: str, part: str = "", critics: int = 0
    ) -> None:
        super().__init__(builder, tensors, "policy")
        self.start, self._statistics = _find_parameters(tensors, state) + part, f"{state}/batch_stats/{part}"
        self._axes, self.critic = (critics,) * bool(critics), 0

    def weight(self, name: str, dtype: str = FLOAT) -> Value:
        """Add an array as a weight, by its name as a parameter; of several critics, the part of the current one."""
        full = name if name in self.tensors else self._statistics + name[len(self.start) :]
        made, module, start = super().weight(full, dtype), name.rpartition("/")[0], self.critic
        if self.tensors[full].dtype != FLOAT:
            raise UnsupportedError(f"expected {quote(full, 120)} to be of float32, got {self.tensors[full].dtype}")
        if not self._axes:
            return made
        part = self.builder.add("Slice", made, axis=-len(made.shape), start=start, end=start + 1, module=module)
        return self.builder.add("Reshape", part, shape=made.shape[1:], module=module)

    def require_fit(self, network: Module, pair: Pair) -> None:
        """Compare the arrays with those of the network of a class."""
        expected = {}
        for part in network.parameters():
            name = (self._statistics if part.is_buffer else self.start) + part.name.replace(".", "/")
            expected[name] = part._replace(name=name, shape=(*self._axes, *part.shape))
        opaque = tuple(self.start + path.replace(".", "/") for path in network.opaque_paths())
        actual = {
            name: tuple(info.shape)
            for name, info in self.tensors.items()
            if name in expected or (name.startswith(self.start) and not name.startswith(opaque))
        }
        if rows := find_mismatches(expected.values(), actual):
            message = f"{quote('.'.join(pair), 120)} has other arrays: {describe_mismatches(rows)}"
            if any(row.kind == "missing" for row in rows):
                raise ValidationError(message, problems=rows)
            raise UnsupportedError(message, hint=_WHAT_WORKS)


class Place(Scope):
    """Where a module of flax is: ``place / "Dense_0"``, and what the names and shapes of its arrays say about it."""

    def __truediv__(self, name: object) -> Place:
        return Place(self.network, f"{self.path}/{name}")

    def stores(self, name: str) -> bool:
        """Return whether there is a parameter: ``Dense_0/kernel``."""
        return (self / name).path in self.network.tensors

    def outputs(self, layer: str) -> int:
        """Return the number of outputs of a ``Dense``; 0 if there is none."""
        info = self.network.tensors.get((self / layer / "kernel").path)
        return info.shape[-1] if info is not None and info.shape else 0

    def count(self, layer: str) -> int:
        """Return how many layers there are from 0, without a gap: of ``Dense_{}``, by their kernels."""
        return next(number for number in count_from(0) if not self.stores(f"{layer.format(number)}/kernel"))


# -- layers -------------------------------------------------------------------------------------------


class Dense(Linear):
    """``x @ kernel + bias``."""

    names = ("kernel", "bias")
    outputs_first = False


class Conv(Conv2d):
    """A convolution with a kernel (height, width, channels, filters)."""

    names = ("kernel", "bias")
    outputs_first = False


class ChannelsLast(Module):
    """The items of an image in the order height, width, channels."""

    def forward(self, scope: Scope, value: Value) -> Value:
        return scope.flatten(scope.add("Transpose", value, axes=(1, 2, 0)))


class LayerNorm(Module):
    """Over the last axis."""

    def __init__(self, size: int) -> None:
        self.scale = self.bias = Tensor((size,))

    def forward(self, scope: Scope, value: Value) -> Value:
        return scope.add("LayerNormalization", value, *map(scope.weight, ("scale", "bias")), epsilon=1e-6)


class BatchRenorm(LayerNorm):
    """In evaluation: ``(x - mean) * (scale / sqrt(var + epsilon)) + bias``."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.mean = self.var = Tensor((size,), is_buffer=True)

    def forward(self, scope: Scope, value: Value) -> Value:
        mean, variance, scale, bias = map(scope.weight, ("mean", "var", "scale", "bias"))
        deviation = scope.add("Sqrt", scope.add("Add", variance, scope.constant(1e-3)))
        factor = scope.add("Div", scale, deviation)
        return scope.add("Add", scope.add("Mul", scope.add("Sub", value, mean), factor), bias)


class Compact(Module):
    """A chain of layers with the names of their classes, numbered in the order in which flax calls them."""

    def __init__(self, place: Place, activation: Spec) -> None:
        self.place, self.activation = place, activation
        self.chain: list[tuple[str, Module]] = []
        self._numbers: Counter[str] = Counter()

    def add(self, layer: Module) -> str:
        """Add a layer after the chain, and return its name."""
        kind = type(layer).__name__
        self._numbers[kind] += 1
        name = f"{kind}_{self._numbers[kind] - 1}"
        setattr(self, name, layer)
        return name

    def call(self, layer: Module) -> None:
        """Append a layer to the chain."""
        self.chain.append((self.add(layer), layer))

    def make_dense(self, inputs: int) -> Dense:
        """Return the next ``Dense``, with the outputs of its kernel, and with a bias if there is one."""
        name = f"Dense_{self._numbers['Dense']}"
        return Dense(inputs, self.place.outputs(name), bias=self.place.stores(f"{name}/bias"))

    def activate(self, layer: str) -> None:
        """Append the activation after a layer; it has no name."""
        self.chain.append((layer, Activation(self.activation)))

    def forward(self, scope: Scope, value: Value) -> Value:
        for name, layer in self.chain:
            value = layer.forward(scope / name, value)
        return value


class NatureCNN(Compact):
    """Bytes over 255, three convolutions, and a layer."""

    def __init__(self, place: Place, activation: Spec, shape: Shape) -> None:
        super().__init__(place, activation)
        if len(shape) != 3:
            raise UnsupportedError(f"expected images for NatureCNN, got observations of the shape {shape}")
        channels, *edges = shape
        for number, (edge, stride) in enumerate(NATURE_LAYERS):
            self.call(Conv(channels, FILTERS[number], edge, stride))
            self.activate(f"Conv_{number}")
            channels, edges = FILTERS[number], [(size - edge) // stride + 1 for size in edges]
        self.chain.append(("Dense_0", ChannelsLast()))
        self.call(self.make_dense(channels * prod(edges)))
        self.activate("Dense_0")

    def forward(self, scope: Scope, value: Value) -> Value:
        return super().forward(scope, (scope / "Conv_0").add("Div", value, scope.constant(255.0)))


class SimbaResidualBlock(Compact):
    """``x + Dense_1(activation(Dense_0(norm(x))))``."""

    def __init__(self, place: Place, activation: Spec, size: int, norm: type[LayerNorm]) -> None:
        super().__init__(place, activation)
        self.call(norm(size))
        self.call(self.make_dense(size))
        self.activate("Dense_0")
        self.call(self.make_dense(place.outputs("Dense_0")))

    def forward(self, scope: Scope, value: Value) -> Value:
        return (scope / "Dense_1").add("Add", value, super().forward(scope, value))


class Mlp(Compact):
    """Layers with activations, then the heads, ``Dense`` layers of one input."""

    has_norms = False
    """Whether ``BatchRenorm`` is before the first layer, and after each."""
    depth: int | None = None
    """The number of layers before the heads, where it is always the same."""

    def __init__(
        self, variables: Variables, activation: Spec, settings: Mapping[str, Any], shape: Shape, heads: int
    ) -> None:
        super().__init__(Place(variables, variables.start.rstrip("/")), activation)
        self.variables, self.settings, inputs = variables, settings, prod(shape)
        if self.place.stores("NatureCNN_0/Dense_0/kernel"):
            self.call(NatureCNN(self.place / "NatureCNN_0", activation, shape))
            inputs = self.place.outputs("NatureCNN_0/Dense_0")
        else:
            self.chain.append(("Dense_0", Flatten()))
        depth = self.place.count("Dense_{}") - heads if self.depth is None else self.depth
        latent = self.make_layers(inputs, depth)
        self.heads = [self.add(self.make_dense(latent)) for _ in range(heads)]

    def make_layers(self, size: int, count: int) -> int:
        """Append ``count`` layers before the heads, for an input of a size; return the number of their outputs."""
        settings, sizes = self.settings, [self.place.outputs(f"Dense_{number}") for number in range(count)]
        expected = settings.get("net_arch", sizes)
        if type(expected) in (list, tuple) and list(expected) != sizes:
            message = f"expected the layers {list(expected)} in {quote(self.place.path, 80)}, got {sizes}"
            raise NetworkError("net_arch", message)
        has_norms = self.has_norms and settings.get("use_batch_norm", True) is True
        if has_norms:
            self.call(BatchRenorm(size))
        elif settings.get("use_batch_norm") is False:
            self.BatchRenorm_0 = Opaque()  # CrossQ makes it, and does not use it
        for number, outputs in enumerate(sizes):
            self.call(self.make_dense(size))
            if self.place.stores(f"LayerNorm_{number}/scale"):
                self.call(LayerNorm(outputs))
            self.activate(f"Dense_{number}")
            if has_norms:
                self.call(BatchRenorm(outputs))
            size = outputs
        return size

    def forward_head(self, latent: Value, number: int = 0, name: str = "") -> Value:
        """Add a head to what ``forward`` returns."""
        layer = self.heads[number]
        return getattr(self, layer).forward(self.place / layer, latent, name=name)  # type: ignore[no-any-return]


class NormedMlp(Mlp):
    """The networks of CrossQ."""

    has_norms = True


class QNetwork(Mlp):
    """The network of DQN, with two layers of ``n_units``."""

    depth = 2


class Simba(Mlp):
    """A layer, residual blocks, and a norm; where norms are ``BatchRenorm``, another one before all."""

    def make_layers(self, size: int, count: int) -> int:  # noqa: ARG002
        has_batch_norm = self.place.stores("BatchRenorm_0/scale")
        norm = BatchRenorm if has_batch_norm else LayerNorm
        if has_batch_norm:
            self.call(norm(size))
        self.call(self.make_dense(size))
        size = self.place.outputs("Dense_0")
        for number in range(self.place.count("SimbaResidualBlock_{}/Dense_0")):
            self.call(SimbaResidualBlock(self.place / f"SimbaResidualBlock_{number}", self.activation, size, norm))
        self.call(norm(size))
        return size


_SAC: Final = ("common", "sac", "tqc", "droq")
_ACTION_SPACES: Final = {"ppo": ("gaussian", "categorical", "multi-categorical", "bernoulli"), "q": ("categorical",)}
"""The distributions of the action spaces that an actor is for, which is a Box for any other."""

ACTORS: Final[Mapping[Pair, tuple[str, type[Mlp]]]] = {
    _PPO: ("ppo", Mlp),
    **{(f"sbx.{package}.policies", "Actor"): ("squashed", Mlp) for package in _SAC},
    ("sbx.common.policies", "SquashedGaussianActor"): ("squashed", Mlp),
    ("sbx.common.policies", "SimbaSquashedGaussianActor"): ("squashed", Simba),
    ("sbx.crossq.policies", "Actor"): ("squashed", NormedMlp),
    ("sbx.crossq.policies", "SimbaActor"): ("squashed", Simba),
    **{(f"sbx.{package}.policies", "Actor"): ("deterministic", Mlp) for package in ("td3", "ddpg")},
    ("sbx.dqn.policies", "QNetwork"): ("q", QNetwork),
    ("sbx.dqn.policies", "CnnQNetwork"): ("q", Mlp),
}
"""The classes of networks that act: what their results are, and their layers."""

CRITICS: Final[Mapping[Pair, type[Mlp]]] = {
    **{
        (f"sbx.{package}.policies", name): Mlp
        for package in (*_SAC, "td3", "ddpg")
        for name in ("Critic", "VectorCritic", "ContinuousCritic")
    },
    ("sbx.ppo.policies", "Critic"): Mlp,
    **{("sbx.common.policies", f"Simba{name}"): Simba for name in ("ContinuousCritic", "VectorCritic")},
    ("sbx.crossq.policies", "VectorCritic"): NormedMlp,
    ("sbx.crossq.policies", "SimbaVectorCritic"): Simba,
}


# -- policies -----------------------------------------------------------------------------------------


class Policy:
    """A policy of SBX: its observation in a graph, and what adds its networks."""

    def __init__(self, archive: SbxArchive, given: Given, budget: Budget) -> None:
        self.archive, self.given, self.builder = archive, given, GraphBuilder(budget)
        self.observations = _read_space(archive, OBSERVATIONS, given.observation_space)
        self.space = _read_space(archive, ACTIONS, given.action_space)
        self.tensors: Mapping[str, TensorInfo] = archive.state_dict("policy").tensors()
        self.observation = _add_observation(self.builder, self.observations, given.vecnormalize)
        self.modules = archive.read_modules()

    def make(
        self, module: Settings, layers: type[Mlp], shape: Shape, *where: Any, heads: int = 1, has_log_std: bool = False
    ) -> Mlp:
        """Return a network that the arrays fit."""
        variables = Variables(self.builder, self.tensors, *where)
        network = layers(variables, self._find_activation(module), module.settings, shape, heads)
        if has_log_std:
            network.log_std = Tensor((self.space.flat_size(),))  # type: ignore[attr-defined]
        variables.require_fit(network, module.pair)
        return network

    def _find_activation(self, module: Settings) -> Spec:
        """Return the activation of a network; the caller's comes first."""
        given = read_given_kwargs(self.given).get("activation_fn")
        if isinstance(given, Reference):
            return Spec(given.name)
        name = module.activation or "a function that is not of jax"
        if module.activation == "":
            name = "tanh" if module.pair[0] == _PPO[0] else "relu"
        if name not in ACTIVATIONS:
            example = "policy_kwargs={'activation_fn': 'ReLU'}"
            hint = f"pass the name of its class in torch.nn, as in {example}"
            raise UnsupportedError(f"activation_fn is {name}, which is not known: {hint}", hint=hint)
        return ACTIVATIONS[name]

    def act(self) -> tuple[Head, Value | None]:
        """Add the network that acts.

        :return: its outputs, and the deterministic action before it is scaled to the bounds, if critics are of actions
        """
        name, space = "actor" if "actor" in self.modules else "qf", self.space
        module = self.modules.get(name)
        if module is None or module.pair not in ACTORS:
            message = "expected the network actor or qf in the pickled policy of SBX"
            if module is not None:
                message = f"the network of the class {quote('.'.join(module.pair), 200)} is not known"
            raise UnsupportedError(message, entry=DATA_ENTRY if module is None else None, hint=_WHAT_WORKS)
        role, layers = ACTORS[module.pair]
        is_box, is_squashed = space.distribution == "gaussian", role == "squashed"
        state, heads, has_log_std = f"{name}_state", 2 if is_squashed else 1, role == "ppo" and is_box
        network = self.make(module, layers, self.observation.shape, state, heads=heads, has_log_std=has_log_std)
        if space.distribution not in _ACTION_SPACES.get(role, ("gaussian",)):
            message = f"{self.archive.algorithm.name} of SBX has no {space.class_name} actions"
            raise UnsupportedError(message, entry=DATA_ENTRY)
        latent = network.forward(network.place, self.observation)
        names = {"q": "q_values", "deterministic": ""}
        raw = network.forward_head(latent, name=names.get(role, "mean" if is_box else "logits"))
        require_outputs(raw, space.flat_size() * (2 if space.distribution == "bernoulli" else 1))
        scope, place = Scope(network.variables), network.place / network.heads[0]
        if role == "q":
            rate = read_number(self.archive.data.get("exploration_rate", 0.0), "exploration_rate")
            return choose_greatest(scope, {"q_values": raw}, rate), None
        if not is_box:
            return add_choices(scope, space, raw, masked=False, is_normalized=False), None
        if role == "deterministic":
            scaled = place.add("Tanh", raw, name="mean")
            return finish_deterministic(scope, space, scaled), scaled
        if not is_squashed:
            noise = add_gaussian(raw, network.place.weight("log_std"))
            return finish_gaussian(scope, space, noise, raw, raw, squashed=False), None
        keys = zip(("log_std_min", "log_std_max"), LOG_STD_RANGE)
        low, high = (read_number(network.settings.get(key, default), key) for key, default in keys)
        spread = network.forward_head(latent, 1)
        require_outputs(spread, space.flat_size())
        noise = add_gaussian(raw, clip(network.place / network.heads[1], spread, low, high, "log_std"))
        scaled = place.add("Tanh", raw)
        return finish_gaussian(scope, space, noise, raw, scaled, squashed=True), scaled

    def evaluate(self, action: Value | None) -> dict[str, Value]:
        """Add the values of the critics; one that does not fit is left out, and the graph says so."""
        name = "vf" if "vf" in self.modules else "qf"
        module = self.modules.get(name)
        if module is None or module.pair not in CRITICS or (name == "qf" and action is None):
            return {}
        try:
            if action is not None:
                return self._evaluate_actions(module, action)
            critic = self.make(module, CRITICS[module.pair], self.observation.shape, "vf_state")
            return {"value": critic.forward_head(critic.forward(critic.place, self.observation), name="value")}
        except SbformatError as error:
            self.builder.infer(f"{name}: the critic is left out: {error.message}")
            return {}

    def _evaluate_actions(self, module: Settings, action: Value) -> dict[str, Value]:
        """Add the values of all critics, in one array or in states of their own; of TQC, their quantiles too."""
        network = Network(self.builder, {}, "")
        scope, place = Scope(network, "qf_state"), Scope(network, "qf")
        seen = scope.add("Concat", scope.flatten(self.observation), action, axis=-1)
        states = {name.partition("/")[0] for name in self.tensors if "/" in name}
        own: list[str] = [state for state in ("qf1_state", "qf2_state") if state in states]  # of TQC
        values = []
        part, count = "", 0
        if not own:  # then one module has several critics, along the first axis of its arrays
            start = _find_parameters(self.tensors, "qf_state")
            name = next((name for name in self.tensors if name.startswith(f"{start}Vmap")), "")
            part, count = name[len(start) :].partition("/")[0] + "/", (*self.tensors[name].shape, 0)[0] if name else 0
            if count < 1:
                raise ValidationError("expected critics along the first axis of an array, got none")
            check_layers(count, self.builder.limits)
        for state in own or ["qf_state"]:
            critic = self.make(module, CRITICS[module.pair], seen.shape, state, part, count)
            for number in range(count or 1):
                critic.variables.critic = number
                values.append(critic.forward_head(critic.forward(critic.place, seen)))
        if self.archive.algorithm.name == "TQC":
            return average_quantiles(place, values)
        return {"q_values": place.add("Concat", *values, axis=-1, name="q_values")}


def _read_space(archive: SbxArchive, key: str, given: Space | None) -> Space:
    space = archive.decode(key) if given is None else given
    if not isinstance(space, Space):
        hint = f"pass {key}=... to load_policy"
        raise UnsupportedError(f"{key} is not known: {hint}", entry=DATA_ENTRY, hint=hint)
    require_choices(space, key)
    return space


def _add_observation(builder: GraphBuilder, space: Space, statistics: VecNormalize | None) -> Value:
    """Add the inputs as float32, a Discrete as a vector of one number; the parts of a Dict are concatenated."""
    parts = []
    for key, part in space.parts().items():
        name = OBSERVATION if key is None else f"{OBSERVATION}.{key}"
        parts.append(builder.cast(add_observation_input(builder, part, name, key, statistics, "SBX"), FLOAT, name))
    if not space.has_keys:
        return parts[0] if parts[0].shape else builder.add("Reshape", parts[0], shape=(1,), module=OBSERVATION)
    if not parts or any(len(part.shape) != 1 for part in parts):
        message = "expected vectors as the parts of a Dict observation, which SBX concatenates"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    return builder.add("Concat", *parts, axis=-1, module=OBSERVATION) if len(parts) > 1 else parts[0]


@refuse_network()
def build_sbx_policy(archive: Archive, given: Given, budget: Budget) -> PolicyModel:
    """Return the policy of an archive of SBX as a graph; the file, not the caller, names the classes of networks."""
    if not isinstance(archive, SbxArchive):
        raise UnsupportedError(f"expected an archive of SBX, got the format {archive.format}")
    policy = Policy(archive, given, budget)
    head, action = policy.act()
    graph = policy.builder.build({**head.outputs, **policy.evaluate(action)}, head.sampling)
    spaces = policy.observations, policy.space
    return PolicyModel(graph, *spaces, archive.algorithm.name, "sb3", was_normalized(archive, spaces[0]), archive)
