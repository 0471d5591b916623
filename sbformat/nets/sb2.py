"""The networks of Stable Baselines 2 (SB2) as trees of modules, in the order in which SB2 creates their variables.

As in :mod:`~sbformat.nets.sb3`, a network is written down once (SB2.md 16.4, POLICIES.md 19.9). Its constructor sets
the variables in the order of the calls in SB2's source, which is the order of a file without names
(:mod:`~sbformat.nets.sb2_orders`); ``act`` adds the nodes of the policy. TensorFlow's weights are (inputs, outputs),
its images and filters have the channels last; a scope may contain several groups of layers, beside each other. Two
variables were renamed, ``pi/logstd`` in 2.1 and DDPG's ``qf_output`` in 2.5.1: here they have the newer names. PPO2
with ``MlpPolicy``, 4 observations and 2 actions::

    ActorCriticPolicy
      pi_fc0   Linear   model/pi_fc0/w:0 (4, 64)   model/pi_fc0/b:0 (64)   Gemm, Tanh
      vf_fc0, pi_fc1, vf_fc1   in this order
      vf       Linear   model/vf/w:0 (64, 1)       ...                     Gemm, the value
      pi       Linear   model/pi/w:0 (64, 2)       ...                     Gemm, the logits
      q        Linear   model/q/w:0 (64, 2)        ...                     not used but in ACER

Source: ``policies.py`` of ``common``, ``deepq``, ``ddpg``, ``sac`` and ``td3``, ``common/distributions.py``,
``common/tf_layers.py`` and ``gail/adversary.py`` of stable-baselines 2.0 to 2.10.
"""

from __future__ import annotations

from abc import abstractmethod
from math import log, prod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from sbformat.immutable import Record
from sbformat.known.numpy import to_number, unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.known.types import Instance
from sbformat.nets import layers
from sbformat.nets.distributions import LOG_STD_RANGE, Head, add_choices, add_gaussian, finish_action, finish_gaussian
from sbformat.nets.layers import EPISODE_START, FLOAT, Activation, Module, ModuleDict, Scope, Spec, Tensor, clip
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.graph import Input, Sampling, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sbformat.known.spaces import Space
    from sbformat.nets.sb2_agents import Agent
    from sbformat.policies.builder import GraphBuilder, Value

Shape: TypeAlias = tuple[int, ...]
Variable: TypeAlias = tuple[str, Shape]

LINEAR: Final = ("w", "b")
DENSE: Final = ("kernel", "bias")
"""The variables of ``tf.layers.dense``."""
CONNECTED: Final = ("weights", "biases")
"""The variables of ``tf.contrib.layers.fully_connected``."""
CONVOLUTIONS: Final = (("c1", 8, 4, 32), ("c2", 4, 2, 64), ("c3", 3, 1, 64))
"""The CNN of the Nature paper: scope, filter size, stride, number of filters."""
LSTM_SCOPE: Final = "lstm1"
_CNN_FEATURES: Final = 512
_NO_DEVIATION: Final = -1000.0  # the logarithm of a standard deviation of 0: its exponential is 0 in every dtype
_NORMAL_NOISE: Final = [(f"stable_baselines.{module}.noise", "NormalActionNoise") for module in ("common", "ddpg")]
_EPSILON: Final = "deepq/eps:0"


# -- scopes and variables -----------------------------------------------------------------------------


class Place(Scope):
    """A scope of TensorFlow: ``model/pi_fc0``, with the variable ``model/pi_fc0/w:0``."""

    def __truediv__(self, name: object) -> Place:
        return Place(self.network, f"{self.path}/{name}")

    def weight(self, name: str) -> Value:
        return self.network.weight(f"{self.path}/{name}:0")

    @property
    def top(self) -> Scope:
        """The scope of nodes that are not part of a layer."""
        return Scope(self.network)


def list_variables(scope: str, module: Module) -> Iterator[Variable]:
    """Yield names and shapes of a network's variables, in the order in which SB2 creates them.

    >>> list(list_variables("model/vf", Linear(64, 1)))
    [('model/vf/w:0', (64, 1)), ('model/vf/b:0', (1,))]
    """
    return ((f"{scope}/{made.name.replace('.', '/')}:0", made.shape) for made in module.parameters())


def numbered(word: str, number: int) -> str:
    """Return a name that TensorFlow makes unique within its scope."""
    return f"{word}_{number}" if number else word


class Group(ModuleDict):
    """Modules that have no scope of their own; two groups may have a name in common, as ``fc1``."""

    is_group = True


# -- activations --------------------------------------------------------------------------------------


class Function(Module):
    """An activation of TensorFlow that torch does not have."""

    def __init__(self, op: str, **attributes: Any) -> None:
        self._op, self._attributes = op, attributes

    def forward(self, scope: Scope, value: Value) -> Value:
        return scope.add(self._op, value, **self._attributes)


_OF_TORCH: Final = {
    "elu": "ELU", "identity": "Identity", "linear": "Identity", "relu": "ReLU", "relu6": "ReLU6", "selu": "SELU",
    "sigmoid": "Sigmoid", "softplus": "Softplus", "softsign": "Softsign", "swish": "SiLU", "tanh": "Tanh",
}  # fmt: skip
ACTIVATIONS: Final[Mapping[str, Activation | Function]] = {
    **{name: Activation(Spec(torch)) for name, torch in _OF_TORCH.items()},
    "leaky_relu": Activation(Spec("LeakyReLU", {"negative_slope": 0.2})),
    "log_softmax": Activation(Spec("LogSoftmax", {"dim": -1})),
    "softmax": Activation(Spec("Softmax", {"dim": -1})),
    "exp": Function("Exp"),
    "exponential": Function("Exp"),
    "hard_sigmoid": Function("HardSigmoid", alpha=0.2, beta=0.5),
}
"""By the name of TensorFlow's function: torch's activation with its arguments, or what torch does not have."""


# -- layers -------------------------------------------------------------------------------------------


class Linear(layers.Linear):
    """``x @ weights + bias``."""

    outputs_first = False

    def __init__(self, inputs: int, outputs: int, words: tuple[str, str] = LINEAR) -> None:
        self.names = words
        super().__init__(inputs, outputs)

    def forward_number(self, scope: Place, value: Value) -> Value:
        """Add a layer of one output, the value of the observation: a number."""
        return scope.top.add("Reshape", self.forward(scope, value), shape=(), name="value")


class GaussianLinear(Linear):
    """The mean of an action, and the standard deviation that does not depend on the observation."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.logstd = Tensor((1, outputs))


class LayerNorm(Module):
    """``tf.contrib.layers.layer_norm``."""

    def __init__(self, size: int) -> None:
        self.beta = self.gamma = Tensor((size,))

    def forward(self, scope: Scope, value: Value) -> Value:
        operands = map(scope.weight, ("gamma", "beta"))
        return scope.add("LayerNormalization", value, *operands, epsilon=1e-12)


class Conv(Module):
    """A convolution of an image with the channels first, followed by ``relu``.

    ``Conv`` is ONNX's: filters (filters, channels, height, width). So filters are transposed once, by the back end.
    """

    def __init__(self, size: int, stride: int, channels: int, filters: int, cnn: Cnn) -> None:
        self.w = Tensor((size, size, channels, filters))
        self.b = Tensor((filters,) if cnn.has_flat_bias else (1, filters, 1, 1))
        self._size, self._stride, self._is_padded = size, stride, cnn.is_padded

    def forward(self, scope: Scope, value: Value) -> Value:
        size, stride = self._size, self._stride
        weights, bias = scope.add("Transpose", scope.weight("w"), axes=(3, 2, 0, 1)), scope.weight("b")
        if len(bias.shape) != 1:
            bias = scope.add("Reshape", bias, shape=(self.b.shape[1],))
        before: tuple[int, ...] = (0, 0)
        after = before
        if self._is_padded:  # TensorFlow's SAME: the odd one is at the end
            steps = [convolve(side, size, stride, is_padded=True) - 1 for side in value.shape[1:]]
            totals = [max(step * stride + size - side, 0) for step, side in zip(steps, value.shape[1:])]
            before = tuple(total // 2 for total in totals)
            after = tuple(total - total // 2 for total in totals)
        strides = (stride, stride)
        return scope.add("Relu", scope.add("Conv", value, weights, bias, strides=strides, pads=before + after))


def convolve(length: int, size: int, stride: int, *, is_padded: bool) -> int:
    """Return the length of a side of the image after a convolution."""
    return -(-length // stride) if is_padded else (length - size) // stride + 1


class LSTM(Module):
    """One step of an LSTM, whose state is its cells, then its hidden values; 0 where an episode starts.

    The gates are in the order write (``in``), keep (``forget``), read (``out``), candidate. With layer normalization
    both products are normalized, and the cells before they are read; the state has them as they were.
    """

    def __init__(self, inputs: int, cells: int, *, is_normed: bool) -> None:
        gates = 4 * cells
        self.outputs, self._is_normed = cells, is_normed
        self.wx, self.wh, self.b = Tensor((inputs, gates)), Tensor((cells, gates)), Tensor((gates,))
        if is_normed:
            self.gx = self.bx = self.gh = self.bh = Tensor((gates,))
            self.gc = self.bc = Tensor((cells,))

    def forward(self, scope: Scope, value: Value) -> Value:
        """Add the step; return the hidden values."""
        add, builder, cells = scope.add, scope.network.builder, self.outputs
        state = builder.input(Input("state", FLOAT, (2 * cells,), 0.0, "state"))
        start = builder.input(Input(EPISODE_START, FLOAT, (), 0.0, "episode_start"))
        goes_on = add("Sub", scope.constant(1.0), start)
        state = add("Mul", state, add("Reshape", goes_on, shape=(1,)))
        cell = add("Slice", state, axis=-1, start=0, end=cells)
        hidden = add("Slice", state, axis=-1, start=cells, end=2 * cells)
        gates = add("Add", self._multiply(scope, "x", value), self._multiply(scope, "h", hidden))
        gates = add("Add", gates, scope.weight("b"))
        parts = [add("Slice", gates, axis=-1, start=cells * at, end=cells * (at + 1)) for at in range(4)]
        write, keep, read = (add("Sigmoid", part) for part in parts[:3])
        written = add("Mul", write, add("Tanh", parts[3]))
        cell = add("Add", add("Mul", keep, cell), written)
        hidden = add("Mul", read, add("Tanh", self._normalize(scope, "c", cell)))
        after = add("Concat", cell, hidden, axis=-1, name="next_state")
        builder.state(State("state", after.name, "state"))
        return hidden

    def _multiply(self, scope: Scope, side: str, value: Value) -> Value:
        return self._normalize(scope, side, scope.add("Gemm", value, scope.weight(f"w{side}"), transB=False))

    def _normalize(self, scope: Scope, side: str, value: Value) -> Value:
        if not self._is_normed:
            return value
        operands = map(scope.weight, (f"g{side}", f"b{side}"))
        return scope.add("LayerNormalization", value, *operands, epsilon=1e-5)


# -- groups of layers ---------------------------------------------------------------------------------


class Cnn(Record):
    """The CNN of the Nature paper, with the keywords of a policy that change shapes."""

    is_padded: bool = False
    """``pad="SAME"``."""
    has_flat_bias: bool = False
    """``one_dim_bias``."""


class InputStage(Record):
    """The input of a network, with a CNN or without."""

    shape: Shape
    """Shape of an observation, one-hot when it is discrete; images have the channels last."""
    cnn: Cnn | None

    @property
    def width(self) -> int:
        """The number of features that the layers get."""
        return prod(self.shape) if self.cnn is None else _CNN_FEATURES


class Features(Group):
    """``nature_cnn``, whose activation is always ``relu``; without a CNN, the flat observation."""

    def __init__(self, inputs: InputStage) -> None:
        layers: dict[str, Module] = {}
        if inputs.cnn is not None:
            *sides, channels = inputs.shape
            for name, size, stride, filters in CONVOLUTIONS:
                layers[name] = Conv(size, stride, channels, filters, inputs.cnn)
                sides = [convolve(side, size, stride, is_padded=inputs.cnn.is_padded) for side in sides]
                channels = filters
            layers["fc1"] = Linear(prod(sides) * channels, _CNN_FEATURES)
        super().__init__(layers)

    def forward(self, scope: Scope, value: Value) -> Value:
        top, layers = Scope(scope.network), self.parts()
        if not layers:
            return top.flatten(value)
        value = scope.add("Transpose", value, axes=(2, 0, 1))
        for name in ("c1", "c2", "c3"):
            value = layers[name].forward(scope / name, value)
        value = top.flatten(scope.add("Transpose", value, axes=(1, 2, 0)))
        return (scope / "fc1").add("Relu", layers["fc1"].forward(scope / "fc1", value))


# -- policies of A2C, ACER, ACKTR, GAIL, PPO1, PPO2, TRPO ---------------------------------------------


class Policy(Module):
    """A network that acts."""

    scope: ClassVar[str]
    activation: ClassVar[str] = "relu"
    """The default of ``act_fun``."""
    inputs: InputStage

    @abstractmethod
    def act(self, scope: Place, agent: Agent, observation: Value, activation: Module) -> Head:
        """Add the policy, with an activation after hidden layers, at the scope of its variables."""


class Step(Record):
    """A hidden layer of an actor-critic policy."""

    name: str
    branch: Literal["both", "pi", "vf"]
    width: int


class ActorCriticPolicy(Policy):
    """A policy of ``common.policies``.

    :param steps: the hidden layers and the LSTM in the order in which SB2 creates them
    :param is_gaussian: whether there is a standard deviation: for a Box of actions
    """

    scope = "model"
    activation = "tanh"

    def __init__(
        self, inputs: InputStage, steps: Sequence[Step], *, is_normed: bool, actions: int, is_gaussian: bool
    ) -> None:
        self.inputs, self.steps, self.is_normed, self.actions = inputs, tuple(steps), is_normed, actions
        self.features = Features(inputs)
        policy = value = inputs.width
        for name, branch, width in steps:
            size = value if branch == "vf" else policy
            setattr(self, name, LSTM(size, width, is_normed=is_normed) if name == LSTM_SCOPE else Linear(size, width))
            policy = policy if branch == "vf" else width
            value = value if branch == "pi" else width
        self.vf = Linear(value, 1)
        self.pi = GaussianLinear(policy, actions) if is_gaussian else Linear(policy, actions)
        self.q = Linear(value, actions)

    def act(self, scope: Place, agent: Agent, observation: Value, activation: Module) -> Head:
        policy = value = self.features.forward(scope, observation)
        for name, branch, _ in self.steps:
            made = getattr(self, name).forward(scope / name, value if branch == "vf" else policy)
            made = made if name == LSTM_SCOPE else activation.forward(scope / name, made)
            policy = policy if branch == "vf" else made
            value = value if branch == "pi" else made
        outputs, sampling = self._add_actions(scope, agent.action_space, policy)
        if agent.algorithm == "ACER":  # it learns the value of each action
            outputs["q_values"] = self.q.forward(scope / "q", value, name="q_values")
            expected = scope.top.add("Mul", outputs["probabilities"], outputs["q_values"])
            outputs["value"] = scope.top.add("ReduceSum", expected, axis=-1, name="value")
        else:
            outputs["value"] = self.vf.forward_number(scope / "vf", value)
        return Head(outputs, sampling)

    def _add_actions(self, scope: Place, space: Space, latent: Value) -> tuple[dict[str, Value], Sampling]:
        """Add the action, and what the policy's head says about it."""
        pi, top = scope / "pi", scope.top
        if space.distribution == "gaussian":
            mean = self.pi.forward(pi, latent, name="mean")
            log_std = top.add("Reshape", pi.weight("logstd"), shape=mean.shape, name="log_std")
            action = finish_action(top.network.builder, space, mean, squashed=False)
            return {"action": action, "mean": mean, "log_std": log_std}, add_gaussian(mean, log_std).sampling
        logits = self.pi.forward(pi, latent, name="logits")
        if space.distribution == "bernoulli":  # float32, 0 for a probability of one half
            probabilities = top.add("Sigmoid", logits, name="probabilities")
            action = top.add("Round", probabilities, name="action")
            sampling = Sampling("bernoulli", "action", {"logits": logits.name})
            return {"action": action, "probabilities": probabilities, "logits": logits}, sampling
        outputs, sampling = add_choices(top, space, logits, masked=False, is_normalized=False)
        return {name: outputs[name] for name in ("action", "probabilities", "logits")}, sampling


class Adversary(Module):
    """GAIL's classifier of transitions."""

    def __init__(self, inputs: int, hidden: int) -> None:
        for at, size in enumerate(zip((inputs, hidden, hidden), (hidden, hidden, 1))):
            setattr(self, numbered("fully_connected", at), Linear(*size, CONNECTED))


# -- the policies of DQN, SAC, TD3 and DDPG -----------------------------------------------------------


class Mlp(Record):
    """The arguments of a policy of DQN, DDPG, SAC or TD3: the same for each of its networks."""

    inputs: InputStage
    layers: tuple[int, ...]
    is_normed: bool
    actions: int
    is_dueling: bool = False
    """For DQN only."""


class Tower(Module):
    """Features, hidden layers, each with layer normalization or without, and heads, all in one scope.

    :param name: the name of a hidden layer with ``{}`` for its number; without, TensorFlow numbers them
    :param with_features: whether the features are in its scope
    :param more: the number of inputs beside the features
    :param joined: number of actions that are concatenated with the output of the first layer
    """

    def __init__(
        self, mlp: Mlp, name: str, words: tuple[str, str], heads: Mapping[str, int], *,
        layers: Sequence[int] | None = None, with_features: bool = True, more: int = 0, joined: int = 0,
    ) -> None:  # fmt: skip
        self.mlp, self.inputs, self.heads = mlp, mlp.inputs, tuple(heads)
        widths = mlp.layers if layers is None else layers
        if with_features:
            self.features = Features(mlp.inputs)
        self.names = [name.format(at) if "{" in name else numbered(name, at) for at in range(len(widths))]
        hidden: dict[str, Module] = {}
        inputs = mlp.inputs.width + more
        for at, width in enumerate(widths):
            hidden[self.names[at]] = Linear(inputs, width, words)
            if mlp.is_normed:
                hidden[numbered("LayerNorm", at)] = LayerNorm(width)
            inputs = width if at else width + joined
        self.hidden = Group(hidden)
        for head, outputs in heads.items():
            setattr(self, head, Linear(inputs, outputs, words))

    def layer(self, name: str) -> Linear:
        """Return a hidden layer or a head."""
        return getattr(self, name) if name in self.heads else self.hidden.parts()[name]  # type: ignore[return-value]

    def add_hidden(self, scope: Scope, value: Value, activation: Module) -> Value:
        """Add the hidden layers after features."""
        for at, name in enumerate(self.names):
            value = self.layer(name).forward(scope / name, value)
            norm = numbered("LayerNorm", at)
            value = self.hidden.parts()[norm].forward(scope / norm, value) if self.mlp.is_normed else value
            value = activation.forward(scope / name, value)
        return value

    def add_head(self, scope: Scope, latent: Value, head: str, name: str = "") -> Value:
        """Add a head, whose result gets a name."""
        return self.layer(head).forward(scope / head, latent, name=name)


class DQNPolicy(Policy):
    """A policy of DQN, which chooses the action of the greatest value."""

    scope = "deepq/model"
    mlp: Mlp

    @abstractmethod
    def evaluate(self, scope: Place, observation: Value, activation: Module) -> Value:
        """Add the values of all actions."""

    def act(self, scope: Place, agent: Agent, observation: Value, activation: Module) -> Head:
        values = self.evaluate(scope, observation, activation)
        outputs, sampling = add_choices(scope.top, agent.action_space, values, masked=False, is_normalized=False)
        return Head({**{name: outputs[name] for name in ("action", "probabilities")}, "q_values": values}, sampling)


class QNetwork(DQNPolicy):
    """Since 2.1; a dueling one has a value that the mean of the scores is shifted to."""

    def __init__(self, mlp: Mlp) -> None:
        self.mlp, self.inputs = mlp, mlp.inputs
        scored = () if mlp.inputs.cnn else mlp.layers  # after a CNN the scores have no hidden layers of their own
        self.action_value = self._make_tower(scored, mlp.actions, with_features=True)
        if mlp.is_dueling:
            self.state_value = self._make_tower(mlp.layers, 1, with_features=False)

    def _make_tower(self, layers: Sequence[int], outputs: int, *, with_features: bool) -> Tower:
        word = "fully_connected"
        heads = {numbered(word, len(layers)): outputs}
        return Tower(self.mlp, word, CONNECTED, heads, layers=layers, with_features=with_features)

    def evaluate(self, scope: Place, observation: Value, activation: Module) -> Value:
        place, tower, top = scope / "action_value", self.action_value, scope.top
        features = tower.features.forward(place, observation)
        latent = tower.add_hidden(place, features, activation)
        scores = tower.add_head(place, latent, tower.heads[0], name="" if self.mlp.is_dueling else "q_values")
        if not self.mlp.is_dueling:
            return scores
        place, tower = scope / "state_value", self.state_value
        value = tower.add_head(place, tower.add_hidden(place, features, activation), tower.heads[0])
        centered = top.add("Sub", scores, top.add("ReduceMean", scores, axis=-1, keepdims=True))
        return top.add("Add", value, centered, name="q_values")


class FirstQNetwork(Tower, DQNPolicy):
    """In 2.0: the heads are those of the actor-critic policies."""

    def __init__(self, mlp: Mlp) -> None:
        heads = {"pi": mlp.actions, "q": mlp.actions}
        super().__init__(mlp, "pi_fc{}", LINEAR, heads, layers=() if mlp.inputs.cnn else None)

    def evaluate(self, scope: Place, observation: Value, activation: Module) -> Value:
        latent = self.add_hidden(scope, self.features.forward(scope, observation), activation)
        return self.add_head(scope, latent, "pi", "q_values")

    def act(self, scope: Place, agent: Agent, observation: Value, activation: Module) -> Head:
        """Draw a random action at the rate that training had reached, otherwise the greatest."""
        outputs, _ = super().act(scope, agent, observation, activation)
        if _EPSILON not in agent.tensors or agent.tensors[_EPSILON].shape:
            return Head(outputs, Sampling("none"))
        top, action = scope.top, outputs["action"]
        rate = scope.network.weight(_EPSILON)
        greatest = top.add("OneHot", action, depth=agent.action_space.flat_size())
        chosen = top.add("Mul", greatest, top.add("Sub", top.constant(1.0), rate))
        spread = top.add("Div", rate, top.constant(float(greatest.shape[0])))
        logits = top.add("Log", top.add("Add", chosen, spread))
        return Head(outputs, Sampling("categorical", action.name, {"logits": logits.name}, logits.shape))


class Critics(Module):
    """The critics of SAC and TD3: ``vf`` gets observations, ``qf1`` and ``qf2`` actions too."""

    def __init__(self, mlp: Mlp, names: Sequence[str]) -> None:
        self.features = Features(mlp.inputs)
        self.critics = {
            name: Tower(mlp, "fc{}", DENSE, {name: 1}, with_features=False, more=0 if name == "vf" else mlp.actions)
            for name in names
        }
        self.towers = Group(self.critics)


class DDPGCritic(Tower):
    """Gets the actions beside the output of its first layer."""

    def __init__(self, mlp: Mlp) -> None:
        super().__init__(mlp, "fc{}", DENSE, {"qf_output": 1}, joined=mlp.actions)


class Actor(Tower, Policy):
    """Features, hidden layers, and heads of one output for each action."""

    scope = "model/pi"
    outputs: ClassVar[tuple[str, ...]] = ("dense",)
    """The names of its heads."""

    def __init__(self, mlp: Mlp) -> None:
        super().__init__(mlp, "fc{}", DENSE, dict.fromkeys(self.outputs, mlp.actions))

    def add_squashed(self, scope: Scope, observation: Value, activation: Module) -> Value:
        """Add the whole actor, up to the action from -1 to 1."""
        latent = self.add_hidden(scope, self.features.forward(scope, observation), activation)
        return (scope / self.heads[0]).add("Tanh", self.add_head(scope, latent, self.heads[0]))


class SACActor(Actor):
    """A Gaussian policy, squashed by ``tanh``."""

    outputs = ("dense", "dense_1")

    def act(self, scope: Place, agent: Agent, observation: Value, activation: Module) -> Head:
        top = scope.top
        latent = self.add_hidden(scope, self.features.forward(scope, observation), activation)
        mean = self.add_head(scope, latent, "dense", "mean")
        noise = add_gaussian(mean, clip(top, self.add_head(scope, latent, "dense_1"), *LOG_STD_RANGE, "log_std"))
        head = finish_gaussian(top, agent.action_space, noise, mean, top.add("Tanh", mean), squashed=True)
        critics, place = Critics(self.mlp, ("vf",)), Place(scope.network, "model/values_fn")
        if not agent.has_variables(list_variables(place.path, critics)):
            return head
        critic, features = critics.critics["vf"], critics.features.forward(place, observation)
        latent = critic.add_hidden(place / "vf", features, activation)
        value = critic.layer("vf").forward_number(place / "vf" / "vf", latent)
        return head._replace(outputs={**head.outputs, "value": value})


class TD3Actor(Actor):
    """A deterministic policy."""

    def act(self, scope: Place, agent: Agent, observation: Value, activation: Module) -> Head:
        return self.add_noise(scope, agent, self.add_squashed(scope, observation, activation), None)

    def add_noise(self, scope: Place, agent: Agent, squashed: Value, perturbed: Value | None) -> Head:
        """Add the action of what the actor computes: with action noise unless it is deterministic, clipped, scaled."""
        builder, top, count = scope.network.builder, scope.top, squashed.shape[0]
        noise = read_noise(builder, agent.data.get("action_noise"), count)
        mean, acted, sampling = perturbed or squashed, squashed, Sampling("none")
        if noise is not None:
            mean, log_std = top.add("Add", mean, noise[0]), noise[1]
        elif perturbed is not None:
            log_std = builder.constant([_NO_DEVIATION] * count, shape=squashed.shape)
        if noise is not None or perturbed is not None:
            acted = clip(top, squashed, -1.0, 1.0)
            sampling = Sampling("gaussian", squashed.name, {"mean": mean.name, "log_std": log_std.name})
        return Head({"action": finish_action(builder, agent.action_space, acted, squashed=True)}, sampling)


class DDPGActor(TD3Actor):
    """A deterministic policy; with parameter noise, actions are drawn by a copy of it."""

    outputs = ("pi",)

    def act(self, scope: Place, agent: Agent, observation: Value, activation: Module) -> Head:
        squashed, perturbed = self.add_squashed(scope, observation, activation), None
        place = Place(scope.network, "noise/pi")
        if agent.data.get("param_noise") is not None and agent.has_variables(list_variables(place.path, self)):
            perturbed = self.add_squashed(place, observation, activation)
        return self.add_noise(scope, agent, squashed, perturbed)


def read_noise(builder: GraphBuilder, noise: object, size: int) -> tuple[Value, Value] | None:
    """Return the mean of the action noise and the logarithm of its standard deviation; None if there is none.

    Noise that depends on the step before is not applied, which the graph says.
    """
    if isinstance(noise, Instance) and noise.type.pair in _NORMAL_NOISE:
        means, deviations = (_read_numbers(noise.attributes.get(name), size) for name in ("_mu", "_sigma"))
        if means and deviations and min(deviations) >= 0:
            logarithms = [log(deviation) if deviation else _NO_DEVIATION for deviation in deviations]
            return builder.constant(means, shape=(size,)), builder.constant(logarithms, shape=(size,))
    if noise is not None:
        shown = noise.type.name if isinstance(noise, Instance) else "one that cannot be decoded"
        builder.infer(f"action_noise: {shown} is not applied, actions are drawn without it")
    return None


def _read_numbers(value: object, size: int) -> list[float]:
    """Return one number for each action; none if it is something else."""
    try:
        if isinstance(value, ArrayInfo) and value.shape in ((1,), (size,)):
            items = [float(item) for item in unpack_items(value)]
        else:
            items = [float(to_number(value, "noise"))]
    except UnrecognizedError:
        return []
    return items * size if len(items) == 1 else items


POLICIES: Final[Mapping[str, tuple[type[QNetwork | FirstQNetwork | Actor], ...]]] = {
    "DQN": (QNetwork, FirstQNetwork), "SAC": (SACActor,), "TD3": (TD3Actor,), "DDPG": (DDPGActor,),
}  # fmt: skip
"""The networks that act, by algorithm: one for each form that a release has. All others have ActorCriticPolicy."""
