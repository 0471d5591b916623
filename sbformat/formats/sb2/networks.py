"""The variables of Stable Baselines 2 networks, in the order in which SB2 creates them (SB2.md 16.4).

TensorFlow keeps variables in the order of their creation, and SB2 saves them in that order. So each function here
yields ``(name, shape)`` in the order of the calls in SB2's source; only shapes are computed. Source:
``policies.py`` of ``common``, ``deepq``, ``ddpg``, ``sac`` and ``td3``, ``common/distributions.py``,
``common/tf_layers.py`` and ``gail/adversary.py`` of stable-baselines 2.0 to 2.10. Two variables were renamed,
``pi/logstd`` in 2.1 and DDPG's ``qf_output`` in 2.5.1: here they have the newer names.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Shape: TypeAlias = tuple[int, ...]
Variable: TypeAlias = tuple[str, Shape]
Branch: TypeAlias = Literal["both", "pi", "vf"]

LINEAR: Final = ("w", "b")
"""The variables of SB2's ``linear``."""
DENSE: Final = ("kernel", "bias")
"""The variables of ``tf.layers.dense``."""
CONNECTED: Final = ("weights", "biases")
"""The variables of ``tf.contrib.layers.fully_connected``."""

LSTM: Final = "lstm1"
LSTM_VARIABLES: Final = 3
NORMED_LSTM_VARIABLES: Final = 9
CNN_VARIABLES: Final = 8
CONVOLUTIONS: Final = (("c1", 8, 4, 32), ("c2", 4, 2, 64), ("c3", 3, 1, 64))
"""The CNN of the Nature paper: scope, filter size, stride, number of filters."""
_CNN_FEATURES: Final = 512


class Cnn(NamedTuple):
    """The CNN of the Nature paper, with the keywords of a policy that change shapes."""

    is_padded: bool = False
    """``pad="SAME"``."""
    has_flat_bias: bool = False
    """``one_dim_bias``."""


class Input(NamedTuple):
    """The input of a network, with a CNN or without."""

    shape: Shape
    """Shape of an observation, one-hot when it is discrete."""
    cnn: Cnn | None

    @property
    def width(self) -> int:
        """The number of features that the layers get."""
        return prod(self.shape) if self.cnn is None else _CNN_FEATURES


class Step(NamedTuple):
    """A hidden layer of an actor-critic policy."""

    name: str
    branch: Branch
    width: int


class ActorCritic(NamedTuple):
    """A policy of ``common.policies``."""

    inputs: Input
    steps: tuple[Step, ...]
    is_normed: bool
    """Whether the LSTM has layer normalization."""
    actions: int
    is_gaussian: bool
    """Whether there is a standard deviation: for a Box of actions."""


class Mlp(NamedTuple):
    """A policy of DQN, DDPG, SAC or TD3: the same layers for each of its networks."""

    inputs: Input
    layers: tuple[int, ...]
    is_normed: bool
    actions: int
    is_dueling: bool = False
    """For DQN only."""


# -- layers -------------------------------------------------------------------------------------------


def layer(scope: str, words: tuple[str, str], inputs: int, outputs: int) -> Iterator[Variable]:
    """Yield weights and biases of a layer."""
    yield f"{scope}/{words[0]}:0", (inputs, outputs)
    yield f"{scope}/{words[1]}:0", (outputs,)


def numbered(word: str, number: int) -> str:
    """Return a name that TensorFlow makes unique within its scope."""
    return f"{word}_{number}" if number else word


def _layer_norm(scope: str, number: int, width: int) -> Iterator[Variable]:
    """Yield ``tf.contrib.layers.layer_norm``, the ``number``-th in its scope."""
    name = numbered("LayerNorm", number)
    yield f"{scope}/{name}/beta:0", (width,)
    yield f"{scope}/{name}/gamma:0", (width,)


def _features(scope: str, inputs: Input) -> Iterator[Variable]:
    """Yield the CNN, if there is one."""
    if inputs.cnn is None:
        return
    height, width, channels = inputs.shape
    for name, size, stride, filters in CONVOLUTIONS:
        yield f"{scope}/{name}/w:0", (size, size, channels, filters)
        yield f"{scope}/{name}/b:0", (filters,) if inputs.cnn.has_flat_bias else (1, filters, 1, 1)
        height, width = (convolve(length, size, stride, is_padded=inputs.cnn.is_padded) for length in (height, width))
        channels = filters
    yield from layer(f"{scope}/fc1", LINEAR, height * width * channels, _CNN_FEATURES)


def convolve(length: int, size: int, stride: int, *, is_padded: bool) -> int:
    """Return the length of a side of the image after a convolution."""
    return -(-length // stride) if is_padded else (length - size) // stride + 1


def _lstm(scope: str, inputs: int, cells: int, *, is_normed: bool) -> Iterator[Variable]:
    gates = 4 * cells
    yield f"{scope}/wx:0", (inputs, gates)
    yield f"{scope}/wh:0", (cells, gates)
    yield f"{scope}/b:0", (gates,)
    if is_normed:
        for name, width in zip(("gx", "bx", "gh", "bh", "gc", "bc"), (gates, gates, gates, gates, cells, cells)):
            yield f"{scope}/{name}:0", (width,)


def _dense(scope: str, inputs: int, mlp: Mlp, *, joined: int = 0) -> Iterator[Variable]:
    """Yield the hidden layers ``fc0``, ``fc1``, ...

    :param joined: number of actions that are concatenated with the output of the first layer, in DDPG's critic
    """
    for number, width in enumerate(mlp.layers):
        yield from layer(f"{scope}/fc{number}", DENSE, inputs, width)
        if mlp.is_normed:
            yield from _layer_norm(scope, number, width)
        inputs = width if number else width + joined


def _last(mlp: Mlp) -> int:
    """Return the number of outputs of the last hidden layer."""
    return mlp.layers[-1] if mlp.layers else mlp.inputs.width


# -- actor-critic policies ----------------------------------------------------------------------------


def actor_critic(scope: str, net: ActorCritic) -> Iterator[Variable]:
    """Yield a policy of A2C, ACER, ACKTR, GAIL, PPO1, PPO2 or TRPO."""
    yield from _features(scope, net.inputs)
    policy = value = net.inputs.width
    for name, branch, width in net.steps:
        inputs = value if branch == "vf" else policy
        if name == LSTM:
            yield from _lstm(f"{scope}/{name}", inputs, width, is_normed=net.is_normed)
        else:
            yield from layer(f"{scope}/{name}", LINEAR, inputs, width)
        policy = policy if branch == "vf" else width
        value = value if branch == "pi" else width
    yield from layer(f"{scope}/vf", LINEAR, value, 1)
    yield from layer(f"{scope}/pi", LINEAR, policy, net.actions)
    if net.is_gaussian:
        yield f"{scope}/pi/logstd:0", (1, net.actions)
    yield from layer(f"{scope}/q", LINEAR, value, net.actions)


def adversary(inputs: int, hidden: int) -> Iterator[Variable]:
    """Yield GAIL's classifier of transitions."""
    widths = (inputs, hidden, hidden, 1)
    for number in range(3):
        yield from layer(f"adversary/{numbered('fully_connected', number)}", CONNECTED, *widths[number : number + 2])


# -- DQN ----------------------------------------------------------------------------------------------


def deepq(scope: str, mlp: Mlp) -> Iterator[Variable]:
    """Yield a policy of DQN since 2.1."""
    action, state = f"{scope}/action_value", f"{scope}/state_value"
    yield from _features(action, mlp.inputs)
    # After a CNN the action scores have no hidden layers of their own.
    layered = mlp._replace(layers=()) if mlp.inputs.cnn else mlp
    yield from _connected(action, layered, mlp.actions)
    if mlp.is_dueling:
        yield from _connected(state, mlp, 1)


def _connected(scope: str, mlp: Mlp, outputs: int) -> Iterator[Variable]:
    inputs = mlp.inputs.width
    for number, width in enumerate(mlp.layers):
        yield from layer(f"{scope}/{numbered('fully_connected', number)}", CONNECTED, inputs, width)
        if mlp.is_normed:
            yield from _layer_norm(scope, number, width)
        inputs = width
    yield from layer(f"{scope}/{numbered('fully_connected', len(mlp.layers))}", CONNECTED, inputs, outputs)


def first_deepq(scope: str, mlp: Mlp) -> Iterator[Variable]:
    """Yield a policy of DQN in 2.0, whose heads are those of the actor-critic policies."""
    yield from _features(scope, mlp.inputs)
    layers = () if mlp.inputs.cnn else mlp.layers
    inputs = mlp.inputs.width
    for number, width in enumerate(layers):
        yield from layer(f"{scope}/pi_fc{number}", LINEAR, inputs, width)
        if mlp.is_normed:
            yield from _layer_norm(scope, number, width)
        inputs = width
    yield from layer(f"{scope}/pi", LINEAR, inputs, mlp.actions)
    yield from layer(f"{scope}/q", LINEAR, inputs, mlp.actions)


# -- DDPG, SAC and TD3 --------------------------------------------------------------------------------


def ddpg_actor(scope: str, mlp: Mlp) -> Iterator[Variable]:
    """Yield the actor of DDPG, whose output layer has the name of its scope."""
    yield from _features(scope, mlp.inputs)
    yield from _dense(scope, mlp.inputs.width, mlp)
    yield from layer(f"{scope}/pi", DENSE, _last(mlp), mlp.actions)


def ddpg_critic(scope: str, mlp: Mlp) -> Iterator[Variable]:
    """Yield the critic of DDPG, whose actions are concatenated with the output of the first layer."""
    yield from _features(scope, mlp.inputs)
    yield from _dense(scope, mlp.inputs.width, mlp, joined=mlp.actions)
    joined = mlp.actions if len(mlp.layers) == 1 else 0
    yield from layer(f"{scope}/qf_output", DENSE, _last(mlp) + joined, 1)


def actor(scope: str, mlp: Mlp, *, outputs: int) -> Iterator[Variable]:
    """Yield the actor of SAC (two outputs: mean and deviation) or TD3 (one)."""
    yield from _features(scope, mlp.inputs)
    yield from _dense(scope, mlp.inputs.width, mlp)
    for number in range(outputs):
        yield from layer(f"{scope}/{numbered('dense', number)}", DENSE, _last(mlp), mlp.actions)


def critics(scope: str, mlp: Mlp, names: tuple[str, ...]) -> Iterator[Variable]:
    """Yield the critics of SAC and TD3: ``vf`` gets observations, ``qf1`` and ``qf2`` actions too."""
    yield from _features(scope, mlp.inputs)
    for name in names:
        inputs = mlp.inputs.width + (0 if name == "vf" else mlp.actions)
        yield from _dense(f"{scope}/{name}", inputs, mlp)
        yield from layer(f"{scope}/{name}/{name}", DENSE, _last(mlp), 1)
