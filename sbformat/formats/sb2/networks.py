"""The networks of Stable Baselines 2 as the variables they make, in the order of their making (FORMAT.md 16.4).

TensorFlow keeps variables in the order in which the graph made them, and SB2 saves them in that order: so each function
here yields ``(name, shape)`` in the order of the calls in SB2's source, and nothing is computed but shapes. Source:
``policies.py`` of ``common``, ``deepq``, ``ddpg``, ``sac`` and ``td3``, ``common/distributions.py``,
``common/tf_layers.py`` and ``gail/adversary.py`` of stable-baselines 2.0 to 2.10. Two variables got other names on the
way, ``pi/logstd`` in 2.1 and DDPG's ``qf_output`` in 2.5.1: here they have the newer ones.
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
"""What SB2's own ``linear`` calls its two variables."""
DENSE: Final = ("kernel", "bias")
"""``tf.layers.dense``."""
CONNECTED: Final = ("weights", "biases")
"""``tf.contrib.layers.fully_connected``."""

LSTM: Final = "lstm1"
LSTM_VARIABLES: Final = 3
NORMED_LSTM_VARIABLES: Final = 9
CNN_VARIABLES: Final = 8
_CONVOLUTIONS: Final = (("c1", 8, 4, 32), ("c2", 4, 2, 64), ("c3", 3, 1, 64))
"""Of the CNN from the Nature paper: scope, size of the filter, stride, filters."""
_CNN_FEATURES: Final = 512


class Cnn(NamedTuple):
    """How the policy asks for the CNN of the Nature paper: what its keywords can change about shapes."""

    is_padded: bool = False
    """``pad="SAME"``."""
    has_flat_bias: bool = False
    """``one_dim_bias``."""


class Senses(NamedTuple):
    """What a network sees, and whether it looks through a CNN."""

    shape: Shape
    """Of an observation, one-hot where it is discrete."""
    cnn: Cnn | None

    @property
    def width(self) -> int:
        """The features that the layers get."""
        return prod(self.shape) if self.cnn is None else _CNN_FEATURES


class Step(NamedTuple):
    """A hidden layer of an actor-critic policy."""

    name: str
    branch: Branch
    width: int


class ActorCritic(NamedTuple):
    """A policy of ``common.policies``."""

    senses: Senses
    steps: tuple[Step, ...]
    is_normed: bool
    """An LSTM with layer normalisation."""
    actions: int
    is_gaussian: bool
    """A box of actions has a standard deviation beside the mean."""


class Mlp(NamedTuple):
    """A policy of DQN, DDPG, SAC or TD3: the same layers for each of its networks."""

    senses: Senses
    layers: tuple[int, ...]
    is_normed: bool
    actions: int
    is_dueling: bool = False
    """DQN alone."""


# -- layers -------------------------------------------------------------------------------------------


def layer(scope: str, words: tuple[str, str], inputs: int, outputs: int) -> Iterator[Variable]:
    """Weights and biases."""
    yield f"{scope}/{words[0]}:0", (inputs, outputs)
    yield f"{scope}/{words[1]}:0", (outputs,)


def _numbered(word: str, number: int) -> str:
    """A name that TensorFlow makes unique within its scope."""
    return f"{word}_{number}" if number else word


def _norm(scope: str, number: int, width: int) -> Iterator[Variable]:
    """``tf.contrib.layers.layer_norm``, the ``number``-th of its scope."""
    name = _numbered("LayerNorm", number)
    yield f"{scope}/{name}/beta:0", (width,)
    yield f"{scope}/{name}/gamma:0", (width,)


def _features(scope: str, senses: Senses) -> Iterator[Variable]:
    """The CNN, if there is one."""
    if senses.cnn is None:
        return
    height, width, channels = senses.shape
    for name, size, stride, filters in _CONVOLUTIONS:
        yield f"{scope}/{name}/w:0", (size, size, channels, filters)
        yield f"{scope}/{name}/b:0", (filters,) if senses.cnn.has_flat_bias else (1, filters, 1, 1)
        height, width = (_convolved(length, size, stride, senses.cnn) for length in (height, width))
        channels = filters
    yield from layer(f"{scope}/fc1", LINEAR, height * width * channels, _CNN_FEATURES)


def _convolved(length: int, size: int, stride: int, cnn: Cnn) -> int:
    """How long a side of the picture is after a convolution."""
    return -(-length // stride) if cnn.is_padded else (length - size) // stride + 1


def _lstm(scope: str, inputs: int, cells: int, *, is_normed: bool) -> Iterator[Variable]:
    gates = 4 * cells
    yield f"{scope}/wx:0", (inputs, gates)
    yield f"{scope}/wh:0", (cells, gates)
    yield f"{scope}/b:0", (gates,)
    if is_normed:
        for name, width in zip(("gx", "bx", "gh", "bh", "gc", "bc"), (gates, gates, gates, gates, cells, cells)):
            yield f"{scope}/{name}:0", (width,)


def _dense(scope: str, inputs: int, mlp: Mlp, *, joined: int = 0) -> Iterator[Variable]:
    """The hidden layers ``fc0``, ``fc1``, ...

    :param joined: actions that join the output of the first layer, as DDPG's critic has it
    """
    for number, width in enumerate(mlp.layers):
        yield from layer(f"{scope}/fc{number}", DENSE, inputs, width)
        if mlp.is_normed:
            yield from _norm(scope, number, width)
        inputs = width if number else width + joined


def _last(mlp: Mlp) -> int:
    """The width of what the last hidden layer gives."""
    return mlp.layers[-1] if mlp.layers else mlp.senses.width


# -- actor-critic policies ----------------------------------------------------------------------------


def actor_critic(scope: str, net: ActorCritic) -> Iterator[Variable]:
    """A policy of A2C, ACER, ACKTR, GAIL, PPO1, PPO2 or TRPO."""
    yield from _features(scope, net.senses)
    policy = value = net.senses.width
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
    """GAIL's classifier of transitions."""
    widths = (inputs, hidden, hidden, 1)
    for number in range(3):
        yield from layer(f"adversary/{_numbered('fully_connected', number)}", CONNECTED, *widths[number : number + 2])


# -- DQN ----------------------------------------------------------------------------------------------


def deepq(scope: str, mlp: Mlp) -> Iterator[Variable]:
    """A policy of DQN since 2.1."""
    action, state = f"{scope}/action_value", f"{scope}/state_value"
    yield from _features(action, mlp.senses)
    # Behind a CNN the action scores have no hidden layers of their own.
    layered = mlp._replace(layers=()) if mlp.senses.cnn else mlp
    yield from _connected(action, layered, mlp.actions)
    if mlp.is_dueling:
        yield from _connected(state, mlp, 1)


def _connected(scope: str, mlp: Mlp, outputs: int) -> Iterator[Variable]:
    inputs = mlp.senses.width
    for number, width in enumerate(mlp.layers):
        yield from layer(f"{scope}/{_numbered('fully_connected', number)}", CONNECTED, inputs, width)
        if mlp.is_normed:
            yield from _norm(scope, number, width)
        inputs = width
    yield from layer(f"{scope}/{_numbered('fully_connected', len(mlp.layers))}", CONNECTED, inputs, outputs)


def first_deepq(scope: str, mlp: Mlp) -> Iterator[Variable]:
    """A policy of DQN in 2.0, which took its heads from the actor-critic policies."""
    yield from _features(scope, mlp.senses)
    layers = () if mlp.senses.cnn else mlp.layers
    inputs = mlp.senses.width
    for number, width in enumerate(layers):
        yield from layer(f"{scope}/pi_fc{number}", LINEAR, inputs, width)
        if mlp.is_normed:
            yield from _norm(scope, number, width)
        inputs = width
    yield from layer(f"{scope}/pi", LINEAR, inputs, mlp.actions)
    yield from layer(f"{scope}/q", LINEAR, inputs, mlp.actions)


# -- DDPG, SAC and TD3 --------------------------------------------------------------------------------


def ddpg_actor(scope: str, mlp: Mlp) -> Iterator[Variable]:
    """The actor of DDPG, whose output layer has the name of its scope."""
    yield from _features(scope, mlp.senses)
    yield from _dense(scope, mlp.senses.width, mlp)
    yield from layer(f"{scope}/pi", DENSE, _last(mlp), mlp.actions)


def ddpg_critic(scope: str, mlp: Mlp) -> Iterator[Variable]:
    """The critic of DDPG, whose actions join the output of the first layer."""
    yield from _features(scope, mlp.senses)
    yield from _dense(scope, mlp.senses.width, mlp, joined=mlp.actions)
    joined = mlp.actions if len(mlp.layers) == 1 else 0
    yield from layer(f"{scope}/qf_output", DENSE, _last(mlp) + joined, 1)


def actor(scope: str, mlp: Mlp, *, outputs: int) -> Iterator[Variable]:
    """The actor of SAC (two outputs: mean and deviation) or TD3 (one)."""
    yield from _features(scope, mlp.senses)
    yield from _dense(scope, mlp.senses.width, mlp)
    for number in range(outputs):
        yield from layer(f"{scope}/{_numbered('dense', number)}", DENSE, _last(mlp), mlp.actions)


def critics(scope: str, mlp: Mlp, names: tuple[str, ...]) -> Iterator[Variable]:
    """The critics of SAC and TD3: ``vf`` sees observations, ``qf1`` and ``qf2`` actions, too."""
    yield from _features(scope, mlp.senses)
    for name in names:
        inputs = mlp.senses.width + (0 if name == "vf" else mlp.actions)
        yield from _dense(f"{scope}/{name}", inputs, mlp)
        yield from layer(f"{scope}/{name}/{name}", DENSE, _last(mlp), 1)
