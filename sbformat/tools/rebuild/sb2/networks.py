"""The networks of SB2 as those of SB3, a function for each family of algorithms.

In: an agent, whose network is a tree of :mod:`sbformat.nets.sb2`. Out: a ``ConvertedNetwork``, with the arrays in the
order of SB3's tree, arguments of SB3's policy, and rows about parameters.

- **Actor-critics** of SB2 may share layers between the policy and the value function. SB3 shares only a features
  extractor, so that a CNN stays shared, and the other layers are copied into both networks.
- **RecurrentPPO** has an LSTM after the features extractor, then the layers of ``net_arch``; so has SB2 where nothing
  but a CNN is before the LSTM. Policy and value function of SB2 share the LSTM: ``shared_lstm``.
- **SAC and TD3**: an actor, and two critics, which share a CNN as SB3's do. SAC of SB2 has no targets of its critics
  but the value of an observation, which SB3 does not have: the targets start as copies of the critics.
- **DQN** is dueling by default. SB3 has no such network: both towers become one of twice the width (:mod:`.folding`).
- **DDPG** is TD3 with one critic, which gets the actions after its first layer; observations are normalized
  (``normalize_observations``) and clipped to ``observation_range``, -5 to 5 by default; the critic's output may be a
  normalized return. The normalization goes into the weights, a layer of its own clips, and the head gets the scale of
  returns. That needs an activation such as ``relu``. If only the critic cannot be had, the agent gets a new critic.

Observations are those that SB3 gives to its networks: it sorts the parts of a Dict, and moves the channels of images
first (``preprocessing``: ``is_image_space``, ``is_image_space_channels_first``), whatever the policy is. So the columns
of first layers are reordered. It divides images by 255 unless ``normalize_images`` is False; any other scale of SB2
goes into the first convolution.
"""

from __future__ import annotations

from itertools import chain
from math import inf, isfinite, prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.constants import SB2_PARAMETERS_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.known.numpy import unpack_items
from sbformat.known.spaces import Box, DictSpace
from sbformat.known.types import Partial, Reference
from sbformat.nets import sb2
from sbformat.nets.arguments import flattened_size
from sbformat.nets.layers import ACTIVATIONS
from sbformat.nets.sb2_agents import GOAL_KEYS, find_network, read_range
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.operators import DTYPES
from sbformat.tools.rebuild.rebuild_report import Row, refuse
from sbformat.tools.rebuild.sb2 import folding
from sbformat.tools.rebuild.sb2.folding import Layers, Linear, Signal, Units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.known.spaces import Space
    from sbformat.nets.sb2_agents import Agent

# -- agents and their networks ------------------------------------------------------------------------


class Sb2Agent(Record):
    """An agent of SB2."""

    model: Agent
    """Its algorithm, policy, spaces and parameters."""
    archive: Archive
    data: Mapping[str, Any]
    """Every key, decoded; :class:`Undecodable` for a value that cannot be decoded."""
    used: set[str]
    """The names of the parameters that a converter read, and of those that it reported."""

    @property
    def algorithm(self) -> str:
        """The algorithm of SB2 that wrote the file: ``PPO2``, ``HER``, ..."""
        return self.model.algorithm

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all parameters, in the order of the file: ``model/pi_fc0/w:0``; a copy ends with ``#2``."""
        return tuple(self.model.tensors)

    def array(self, name: str, dtype: str = "float32") -> np.ndarray:
        """Return a parameter, shape as SB2 has it: (inputs, outputs) for the weights of a layer."""
        found = self.model.tensors[name].dtype
        if found not in DTYPES:
            refuse(f"expected numbers as the parameter {name}, got {found}", SB2_PARAMETERS_ENTRY)
        self.used.add(name)
        return np.asarray(self.archive.state_dict(SB2_PARAMETERS_ENTRY)[name], dtype=dtype)

    def drop_parameters(self, scope: str, message: str, *, is_finding: bool = False) -> list[Row]:
        """Return a row about the parameters of a scope that the result does not have; none if the file has none."""
        names = [name for name in self.parameters if name.startswith(f"{scope}/") and name not in self.used]
        self.used.update(names)
        return [Row(SB2_PARAMETERS_ENTRY, scope, "dropped", message, None, None, is_finding)] if names else []


class ConvertedNetwork(Record):
    """A network for SB3."""

    algorithm: str
    """Its name in SB3 or sb3-contrib."""
    policy_class: str
    """SB3's short name: ``MlpPolicy``, ``CnnPolicy``, ``MlpLstmPolicy``, ..."""
    policy_kwargs: Mapping[str, object]
    """Decoded arguments of the policy where they are not SB3's defaults."""
    arrays: Sequence[np.ndarray]
    """Every tensor of the policy, float32, in the order of SB3's state dict; one with several names is there once."""
    variables: Mapping[str, np.ndarray] = {}
    """``pytorch_variables.pth``: ``log_ent_coef``, float32, shape (1,)."""
    rows: tuple[Row, ...] = ()
    """What became of parameters and arguments that SB3 does not have."""
    observation_space: Space | None = None
    """The space that SB3 saves, where it is not the file's: of images, channels first."""


def parameter_row(name: str, message: str) -> Row:
    """Return a row about a parameter, or a scope of them, that the result has in another form."""
    return Row(SB2_PARAMETERS_ENTRY, name, "translated", message)


_CHANNELS_FIRST: Final = (2, 0, 1)

# -- observations -------------------------------------------------------------------------------------


class Inputs(Record):
    """The observations of SB2 and those of SB3."""

    kind: str
    """``Mlp``, ``Cnn`` or ``MultiInput``: the start of the name of SB3's policy."""
    space: Space | None
    """The observation space that SB3 saves; None if it is the file's."""
    columns: np.ndarray
    """The position in SB3's flattened observation of each item of SB2's; int64. Of a CNN, those of its features."""
    policy_kwargs: Mapping[str, object] = {}
    """Arguments that the policy needs so that the networks get the observations as in SB2."""
    rows: tuple[Row, ...] = ()
    cnn: sb2.Cnn | None = None

    @property
    def size(self) -> int:
        """The number of items, of a CNN its features."""
        return len(self.columns)


def read_inputs(agent: Sb2Agent, inputs: sb2.InputStage) -> Inputs:
    """Return how SB3 gives an agent its observations."""
    cnn, columns = inputs.cnn, np.arange(inputs.width)
    if agent.model.goal_space is not None and cnn is None:
        return _read_goals(agent.model.goal_space, inputs.width)
    space = agent.model.observation_space
    is_bytes = space.is_image()
    if not isinstance(space, Box) or len(space.shape) != len(_CHANNELS_FIRST) or (cnn is None and not is_bytes):
        return Inputs("Mlp" if cnn is None else "Cnn", None, columns, cnn=cnn)
    is_transposed = space.shape.index(min(space.shape)) != 0
    unscaled = {"normalize_images": False}
    if cnn is None:
        if not is_transposed:
            return Inputs("Mlp", None, columns, unscaled)
        columns[_order_channels(space.shape)] = np.arange(inputs.width)
        return Inputs("Mlp", _transpose(space), columns, unscaled)
    transposed, rows = _transpose(space), []
    if not is_bytes or not is_transposed:
        message = "SB3 transposes only images of bytes from 0 to 255 whose height is not their shortest side"
        shown = f"observations of the shape {transposed.shape}: transpose those of the environment"
        rows.append(Row("data", "observation_space", "translated", message, shown, str(space.shape), is_finding=True))
    return Inputs("Cnn", transposed, columns, {} if is_bytes else unscaled, tuple(rows), cnn)


def _read_goals(space: Space, width: int) -> Inputs:
    """Return the parts of a goal environment's observation in the order of SB3's Dict, which sorts its keys."""
    sizes = {}
    parts = space.parts()
    for key in GOAL_KEYS:
        part = parts.get(key)
        if part is None:
            refuse(f"the goal environment's observation has no part {key!r}")
        if part.is_image():
            refuse(f"SB3 makes a CNN for the images of the part {key!r}")
        sizes[key] = int(flattened_size(part, key))
    total = sum(sizes.values())
    if total != width:
        refuse(f"the parts of the goal environment's observation have {total} items, its network gets {width}")
    starts = {key: sum(sizes[other] for other in sizes if other < key) for key in sizes}
    columns = np.concatenate([np.arange(starts[key], starts[key] + size) for key, size in sizes.items()])
    ordered = {key: parts[key] for key in sorted(sizes)}
    return Inputs("MultiInput", DictSpace("gymnasium", ordered, None), columns)


def _order_channels(shape: Sequence[int]) -> np.ndarray:
    """Return the positions of an image's items, of the shape height, width, channels, with the channels first."""
    order: np.ndarray = np.arange(prod(shape)).reshape(shape).transpose(_CHANNELS_FIRST).reshape(-1)
    return order


def _transpose(space: Box) -> Box:
    """Return a space of images with the channels first."""

    def transpose(bounds: Any) -> Any:
        if bounds is None:
            return None
        array = np.ascontiguousarray(np.transpose(bounds.to_numpy(), _CHANNELS_FIRST))
        return ArrayInfo(array.dtype.str, array.shape, "C", array.tobytes(), is_scalar=False)

    height, width, channels = space.shape
    low, high, *flags = map(transpose, (space.low, space.high, space.bounded_below, space.bounded_above))
    return Box(space.library, (channels, height, width), space.dtype, low, high, None, *flags)


# -- layers -------------------------------------------------------------------------------------------


def flatten(layers: Iterable[Linear]) -> list[np.ndarray]:
    """Return the weight and the bias of each layer."""
    return list(chain.from_iterable(layers))


def read_linear(agent: Sb2Agent, scope: str, layer: sb2.Linear, inputs: Inputs | None = None) -> Linear:
    """Return a layer; ``inputs`` are for one that gets the observations."""
    weight, bias = (agent.array(f"{scope}/{word}:0") for word in layer.names)
    if inputs is not None:
        weight = order_rows(weight, inputs)
    return Linear(np.ascontiguousarray(weight.T), bias.reshape(-1))


def order_rows(weight: np.ndarray, inputs: Inputs) -> np.ndarray:
    """Return the weights of a first layer, a row for each item of SB2's observation, in the order of SB3's."""
    made = np.empty_like(weight)
    made[inputs.columns] = weight
    return made


def read_tower(agent: Sb2Agent, scope: str, tower: sb2.Tower, *heads: str) -> list[Linear]:
    """Return the hidden layers of a network, then its heads; by default all."""
    names = (*tower.names, *(heads or tower.heads))
    return [read_linear(agent, f"{scope}/{name}", tower.layer(name)) for name in names]


def read_cnn(agent: Sb2Agent, cnn: sb2.Cnn | None, scope: str) -> list[np.ndarray]:
    """Return the CNN of the Nature paper as SB3's ``NatureCNN``; nothing without a CNN.

    Filters are (height, width, channels, filters) in SB2, (filters, channels, height, width) in torch. The features of
    an image are in the order height, width, channels in SB2, and channels, height, width in SB3.

    :param scope: of the layers: ``model``
    """
    if cnn is None:
        return []
    if cnn.is_padded:
        refuse('its CNN pads images (pad="SAME"), which SB3\'s NatureCNN does not')
    sides, channels = agent.model.observation_space.shape[:2], 0
    arrays: list[np.ndarray] = []
    scale, shift = _find_scale(agent)
    for name, size, stride, filters in sb2.CONVOLUTIONS:
        weights = agent.array(f"{scope}/{name}/w:0").transpose(3, 2, 0, 1).astype(np.float64)
        bias = agent.array(f"{scope}/{name}/b:0").reshape(-1).astype(np.float64)
        if not arrays:
            bias = bias + weights.sum(axis=(1, 2, 3)) * shift
            weights = weights * scale
        arrays += [np.ascontiguousarray(weights, dtype=np.float32), bias.astype(np.float32)]
        sides = tuple(sb2.convolve(side, size, stride, is_padded=False) for side in sides)
        channels = filters
    weights = agent.array(f"{scope}/fc1/w:0")[_order_channels((*sides, channels))]
    return [*arrays, np.ascontiguousarray(weights.T), agent.array(f"{scope}/fc1/b:0").reshape(-1)]


def _find_scale(agent: Sb2Agent) -> tuple[float, float]:
    """Return what SB2 multiplies observations by, and adds, before the CNN, except for SB3's division by 255.

    SB2 computes ``(x - low) / (high - low)`` unless a bound is infinite or both are equal everywhere.
    """
    space = agent.model.observation_space
    if space.bounds is None or space.is_image():
        return 1.0, 0.0
    low, high = map(unpack_items, space.bounds)
    if any(abs(bound) == inf for bound in (*low, *high)) or low == high:
        return 1.0, 0.0
    if len(set(low)) > 1 or len(set(high)) > 1:
        refuse("it scales images by bounds that differ between pixels, which SB3 does not")
    lower, upper = (bound.to_numpy().reshape(-1)[:1] for bound in space.bounds)
    with np.errstate(over="ignore"):  # integers overflow in SB2, too
        extent = float((upper - lower)[0])
    if extent == 0:
        refuse("the bounds of its images overflow")
    return 1.0 / extent, -float(lower[0]) / extent


_GATES: Final = (0, 1, 3, 2)  # the gates of torch, by their position in SB2


def read_lstm(agent: Sb2Agent, scope: str, inputs: Inputs) -> list[np.ndarray]:
    """Return an LSTM as torch has it: the same cell, with its gates in another order and two biases instead of one.

    SB2      input, forget, output, candidate      x @ wx + h @ wh + b
    torch    input, forget, candidate, output      weight_ih @ x + bias_ih + weight_hh @ h + bias_hh
    """

    def order_gates(rows: np.ndarray) -> np.ndarray:
        parts = np.split(rows, len(_GATES))
        return np.ascontiguousarray(np.concatenate([parts[gate] for gate in _GATES]))

    weights = order_rows(agent.array(f"{scope}/wx:0"), inputs)
    bias = order_gates(agent.array(f"{scope}/b:0").reshape(-1))
    return [order_gates(weights.T), order_gates(agent.array(f"{scope}/wh:0").T), bias, np.zeros_like(bias)]


def convert_activation(agent: Sb2Agent, default: str) -> dict[str, object]:
    """Return ``activation_fn`` among the arguments of SB3's policy; none if it is the default."""
    name = agent.model.read_activation(default)
    found = sb2.ACTIVATIONS[name]
    if isinstance(found, sb2.Function):
        refuse(f"its activation {name} is not a class of torch.nn")
    pair = next(pair for pair in ACTIVATIONS if pair[1] == found.spec.name)
    arguments = dict(found.spec.arguments)
    made = Partial(Reference(*pair), (), arguments) if arguments else Reference(*pair)
    return {} if name == default else {"activation_fn": made}


# -- what a file has to have --------------------------------------------------------------------------


def require_variables(agent: Sb2Agent, variables: Iterable[sb2.Variable]) -> None:
    """Check that the file has all of these variables, with these shapes."""
    for name, shape in variables:
        info = agent.model.tensors.get(name)
        if info is None or tuple(info.shape) != shape:
            shown = "it is missing" if info is None else f"got {tuple(info.shape)}"
            refuse(f"expected the parameter {name} of the shape {shape}, {shown}")


def copied_row(name: str, instead: str) -> Row:
    """Return a row about networks of a scope that the file does not have completely, and what the result has."""
    return Row(SB2_PARAMETERS_ENTRY, name, "dropped", "the file does not have all of it", instead, is_finding=True)


# -- actor-critics ------------------------------------------------------------------------------------

_SCOPE: Final = sb2.ActorCriticPolicy.scope
_SUCCESSORS: Final = {"PPO1": "PPO", "PPO2": "PPO", "A2C": "A2C", "ACKTR": "A2C", "TRPO": "TRPO", "GAIL": "TRPO"}
"""The algorithm of SB3 by that of SB2."""


def convert_actor_critic(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the network of an on-policy algorithm."""
    net: Any = find_network(agent.model)
    has_lstm = any(step.name == sb2.LSTM_SCOPE for step in net.steps)
    if has_lstm:
        _refuse_other_lstm(agent, net)
    inputs = read_inputs(agent, net.inputs)
    arrays, widths = _convert_branches(agent, net, net.steps[has_lstm:], None if has_lstm else inputs)
    arguments: dict[str, object] = {**inputs.policy_kwargs, **convert_activation(agent, net.activation)}
    algorithm, policy, rows = _SUCCESSORS[agent.algorithm], f"{inputs.kind}Policy", []
    if has_lstm:
        algorithm, policy = "RecurrentPPO", f"{inputs.kind}LstmPolicy"
        arrays += read_lstm(agent, f"{_SCOPE}/{sb2.LSTM_SCOPE}", inputs)
        arguments = {
            "net_arch": widths, "lstm_hidden_size": net.steps[0].width, "shared_lstm": True,
            "enable_critic_lstm": False, **arguments,
        }  # fmt: skip
        message = "the same cell, with the gates in torch's order; the value function does not train it in SB3"
        rows.append(parameter_row(f"{_SCOPE}/{sb2.LSTM_SCOPE}", message))
    elif inputs.cnn is None and any(layers != [64, 64] for layers in widths.values()):
        arguments["net_arch"] = widths
    shared = "in the policy network and in the value network, with the same weights; they are trained apart"
    names = [step.name for step in net.steps if step.branch == "both" and step.name != sb2.LSTM_SCOPE]
    rows += [parameter_row(f"{_SCOPE}/{name}", shared) for name in names]
    rows += agent.drop_parameters(f"{_SCOPE}/q", f"{agent.algorithm} neither trains nor uses it")
    if not has_lstm:
        rows += agent.drop_parameters("oldpi", "a copy of the policy before an update")
        message = "GAIL's classifier of transitions, which SB3 does not have"
        rows += agent.drop_parameters("adversary", message, is_finding=True)
    return ConvertedNetwork(algorithm, policy, arguments, arrays, {}, (*inputs.rows, *rows), inputs.space)


def _convert_branches(
    agent: Sb2Agent, net: sb2.ActorCriticPolicy, steps: Sequence[sb2.Step], inputs: Inputs | None
) -> tuple[list[np.ndarray], dict[str, list[int]]]:
    """Return an actor-critic without its LSTM, and the widths of its hidden layers."""
    is_gaussian = isinstance(net.pi, sb2.GaussianLinear)
    arrays = [agent.array(f"{net.scope}/pi/logstd:0").reshape(-1)] if is_gaussian else []
    arrays += read_cnn(agent, net.inputs.cnn, net.scope)
    hidden: list[Linear] = []
    heads: list[Linear] = []
    widths: dict[str, list[int]] = {}
    for branch in ("pi", "vf"):
        own = [step for step in steps if step.branch in ("both", branch)]
        names = [*(step.name for step in own), branch]
        *layers, head = [
            read_linear(agent, f"{net.scope}/{name}", getattr(net, name), inputs if name == names[0] else None)
            for name in names
        ]
        hidden += layers
        heads.append(head)
        widths[branch] = [step.width for step in own]
    return [*arrays, *flatten([*hidden, *heads])], widths


def _refuse_other_lstm(agent: Sb2Agent, net: sb2.ActorCriticPolicy) -> None:
    """Refuse what RecurrentPPO does not have."""
    names = [step.name for step in net.steps]
    before = ", ".join(names[: names.index(sb2.LSTM_SCOPE)])
    if net.is_normed:
        refuse("its LSTM is normalized (LnLstm), and SB3 has no such cell")
    if before:
        refuse(f"it has layers before its LSTM ({before}), and RecurrentPPO has only a features extractor")
    if agent.algorithm not in ("A2C", "PPO2"):  # A2C is PPO with one epoch of one batch
        refuse("its policy has an LSTM, which SB3 has for PPO alone")


# -- what off-policy agents have in common ------------------------------------------------------------


class _OffPolicy(Record):
    """An off-policy agent, and how SB3 gives its networks the observations."""

    agent: Sb2Agent
    net: Any
    inputs: Inputs
    activation: str

    def start(self, more: int = 0) -> Layers:
        """Return the layers of a network that gets the observations and more inputs."""
        return Layers(self.inputs.size + more, self.activation)

    def read_cnn(self, scope: str) -> list[np.ndarray]:
        """Return the features extractor of a network; nothing without a CNN."""
        return read_cnn(self.agent, self.inputs.cnn, scope)

    def finish(
        self, algorithm: str, arguments: dict[str, object], arrays: list[np.ndarray], rows: list[Row], **variables: Any
    ) -> ConvertedNetwork:
        """Return the network of SB3's algorithm."""
        policy, every = f"{self.inputs.kind}Policy", (*self.inputs.rows, *rows)
        return ConvertedNetwork(algorithm, policy, arguments, arrays, variables, every, self.inputs.space)


def _read(agent: Sb2Agent) -> _OffPolicy:
    """Return an off-policy agent."""
    net: Any = find_network(agent.model)
    if net.mlp.is_normed:
        refuse("its layers are normalized (LayerNorm), and SB3 has no policy with such layers")
    return _OffPolicy(agent, net, read_inputs(agent, net.inputs), agent.model.read_activation(net.activation))


# -- SAC, TD3 -----------------------------------------------------------------------------------------

_CRITICS: Final = ("qf1", "qf2")
_COEFFICIENT: Final = "model/log_ent_coef:0"


def convert_sac(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the networks of SAC."""
    source = _read(agent)
    require_variables(agent, _list_critics(source, "model"))
    arrays = source.read_cnn("model/pi")
    arrays += flatten(_order_first(source, read_tower(agent, "model/pi", source.net), heads=2))
    arrays += [part for _ in range(2) for part in _convert_critics(source, "model")]
    message = "the value of an observation, which SAC of SB3 does not learn"
    rows = agent.drop_parameters("model/values_fn/vf", message)
    rows += agent.drop_parameters("target", f"the target of {message}")
    copies = "critic_target starts as a copy of the critics: SAC of SB2 has no targets of them"
    rows.append(parameter_row("model/values_fn", copies))
    learns = agent.model.has_variables([(_COEFFICIENT, ())])
    variables = {"log_ent_coef": agent.array(_COEFFICIENT).reshape(1)} if learns else {}
    return source.finish("SAC", _list_arguments(source), arrays, rows, **variables)


def convert_td3(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the networks of TD3."""
    source = _read(agent)
    targets = (*sb2.list_variables("target/pi", source.net), *_list_critics(source, "target"))
    has_target = agent.model.has_variables(targets)
    require_variables(agent, _list_critics(source, "model"))
    arrays: list[np.ndarray] = []
    scopes = ("model", "target" if has_target else "model")
    for scope in scopes:
        arrays += source.read_cnn(f"{scope}/pi")
        arrays += flatten(_order_first(source, read_tower(agent, f"{scope}/pi", source.net), heads=1))
    for scope in scopes:
        arrays += _convert_critics(source, scope)
    rows = [] if has_target else [copied_row("target", "copies of the networks that are trained")]
    return source.finish("TD3", _list_arguments(source), arrays, rows)


def _list_arguments(source: _OffPolicy) -> dict[str, object]:
    arguments: dict[str, object] = {"net_arch": list(source.net.mlp.layers), **source.inputs.policy_kwargs}
    return arguments | convert_activation(source.agent, source.net.activation)


def _list_critics(source: _OffPolicy, scope: str) -> list[sb2.Variable]:
    return list(sb2.list_variables(f"{scope}/values_fn", sb2.Critics(source.net.mlp, _CRITICS)))


def _convert_critics(source: _OffPolicy, scope: str) -> list[np.ndarray]:
    """Return both critics: of ``model`` or ``target``."""
    mlp, size = source.net.mlp, source.inputs.size
    arrays = source.read_cnn(f"{scope}/values_fn")
    for name, tower in sb2.Critics(mlp, _CRITICS).critics.items():
        layers = source.start(mlp.actions)
        columns = np.concatenate([source.inputs.columns, np.arange(mlp.actions) + size])
        folding.add_plain(layers, Signal.select(columns), read_tower(source.agent, f"{scope}/values_fn/{name}", tower))
        arrays += flatten(layers.made)
    return arrays


def _order_first(source: _OffPolicy, layers: list[Linear], heads: int) -> list[Linear]:
    """Return layers of which those that get the observation get SB3's: the first, or the heads if there is no other."""
    first = 1 if len(layers) > heads else heads
    made = []
    for layer in layers[:first]:
        ordered = source.start()
        ordered.add(Units.apply(layer, Signal.select(source.inputs.columns)))
        made += ordered.made
    return [*made, *layers[first:]]


# -- DQN ----------------------------------------------------------------------------------------------

_TARGET_Q: Final = "deepq/target_q_func/model"


def convert_q_network(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the network of DQN."""
    source, scope = _read(agent), sb2.DQNPolicy.scope
    net = source.net
    arrays: list[np.ndarray] = []
    widths: list[int] = []
    has_target = agent.model.has_variables(sb2.list_variables(_TARGET_Q, net))
    for place in (scope, _TARGET_Q if has_target else scope):
        layers, features = source.start(), Signal.select(source.inputs.columns)
        if isinstance(net, sb2.FirstQNetwork):
            owner = place
            folding.add_plain(layers, features, read_tower(agent, place, net, "pi"))
        else:
            owner = f"{place}/action_value"
            actions = read_tower(agent, owner, net.action_value)
            if net.mlp.is_dueling:
                value = read_tower(agent, f"{place}/state_value", net.state_value)
                folding.join_towers(layers, features, actions, value)
            else:
                folding.add_plain(layers, features, actions)
        widths = layers.widths
        arrays += [*source.read_cnn(owner), *flatten(layers.made)]
    arguments = {"net_arch": widths, **convert_activation(agent, net.activation), **source.inputs.policy_kwargs}
    rows = agent.drop_parameters(f"{scope}/q", "DQN of SB2 2.0 does not use it")
    if net.mlp.is_dueling:
        trained = "training changes all its weights, also those between the towers, which are 0 now"
        message = f"one network computes the sum of both towers, with the same values; {trained}"
        rows.append(parameter_row(f"{scope}/state_value", message))
    if not has_target:
        rows.append(copied_row(_TARGET_Q, "a copy of the Q-network"))
    for perturbed in ("deepq/perturbed_model", "deepq/adaptive_model"):
        rows += agent.drop_parameters(perturbed, "a network with noise in its parameters, which SB3 does not have")
    rows += agent.drop_parameters(_TARGET_Q, "parameters of the target that its network does not have")
    return source.finish("DQN", arguments, arrays, rows)


# -- DDPG ---------------------------------------------------------------------------------------------

_OBSERVATIONS: Final = "input/obs_rms"
_RETURNS: Final = "input/ret_rms"


_Statistics = tuple[np.ndarray, np.ndarray]  # mean and standard deviation, float64


class _Ddpg(Record):
    """The settings from which the networks of DDPG are made."""

    source: _OffPolicy
    critic: sb2.DDPGCritic
    statistics: _Statistics | None
    """The statistics of observations."""
    bounds: tuple[float, float]
    """What observations are clipped to; infinite where the space makes it void."""
    returns: _Statistics | None

    @property
    def clips(self) -> bool:
        """Whether a layer clips the observations."""
        return any(map(isfinite, self.bounds))

    def list_variables(self, scope: str) -> list[sb2.Variable]:
        """Return the variables of actor and critic."""
        return [*sb2.list_variables(f"{scope}/pi", self.source.net), *sb2.list_variables(f"{scope}/qf", self.critic)]

    def observe(self) -> Signal:
        """Return the observation before it is clipped."""
        signal = Signal.select(self.source.inputs.columns)
        if self.statistics is None:
            return signal
        mean, deviation = self.statistics
        return signal.scale(1 / deviation, -mean / deviation)

    def make_actor(self, scope: str) -> Layers:
        """Return the layers of an actor."""
        layers, signal = self.source.start(), self.observe()
        if self.clips:
            (signal,) = folding.clip(layers, signal, *self.bounds)
        folding.add_plain(layers, signal, read_tower(self.source.agent, scope, self.source.net))
        return layers

    def make_critic(self, scope: str) -> Layers:
        """Return the layers of a critic."""
        size, count = self.source.inputs.size, self.source.net.mlp.actions
        layers = self.source.start(count)
        signal, actions = self.observe(), Signal.select(range(size, size + count))
        if self.clips:
            signal, actions = folding.clip(layers, signal, *self.bounds, layers.carry(actions, -1.0))
        *hidden, head = read_tower(self.source.agent, scope, self.critic)
        if self.returns is not None:
            mean, deviation = self.returns
            head = Linear(head.weight * deviation, head.bias * deviation + mean)
        folding.add_late_actions(layers, signal, actions, [*hidden, head])
        return layers

    def make_new_critic(self, _: str) -> Layers:
        """Return a new critic, the same for each call."""
        random, mlp = np.random.default_rng(0), self.source.net.mlp
        layers = self.source.start(mlp.actions)
        signal = Signal.select(range(self.source.inputs.size + mlp.actions))
        for outputs in (*mlp.layers, 1):
            limit = 1 / np.sqrt(signal.size)
            weight, bias = (random.uniform(-limit, limit, shape) for shape in ((outputs, signal.size), (outputs,)))
            (signal,) = layers.add(Units.apply(Linear(weight, bias), signal))
        return layers


def convert_ddpg(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the networks of DDPG."""
    source, rows = _read(agent), []
    if source.inputs.cnn is not None and any(name.startswith(f"{_OBSERVATIONS}/") for name in agent.parameters):
        refuse("it normalizes images with statistics of each pixel, and SB3 does not")
    statistics = _read_statistics(agent, "normalize_observations", _OBSERVATIONS, source.inputs.size)
    bounds = _find_bounds(source, statistics)
    returns = _read_statistics(agent, "normalize_returns", _RETURNS, 1)
    ddpg = _Ddpg(source, sb2.DDPGCritic(source.net.mlp), statistics, bounds, returns)
    if ddpg.clips:
        low, high = ddpg.bounds
        message = f"a layer before the others clips the observations to {low} and {high}: the same function"
        rows.append(parameter_row("model/pi", message))
    if ddpg.statistics is not None:
        rows.append(parameter_row(_OBSERVATIONS, "is part of the first layer; training does not change it"))
    for scope in ("noise", "noise_adapt"):
        rows += agent.drop_parameters(scope, "an actor with noise in its parameters, which SB3 does not have")
    require_variables(agent, ddpg.list_variables("model"))
    scopes = ("model", "target")
    if not agent.model.has_variables(ddpg.list_variables("target")):
        scopes = ("model", "model")
        rows.append(copied_row("target", "copies of the networks that are trained"))
    arrays: list[np.ndarray] = []
    widths: dict[str, list[int]] = {}
    for part in ("pi", "qf"):
        make = ddpg.make_actor if part == "pi" else _choose_critic(ddpg, rows)
        for scope in scopes:
            layers = make(f"{scope}/{part}")
            widths[part] = layers.widths
            arrays += [*source.read_cnn(f"{scope}/{part}"), *flatten(layers.made)]
    arguments = {"net_arch": widths, "n_critics": 1, **source.inputs.policy_kwargs}
    arguments |= convert_activation(agent, sb2.DDPGActor.activation)
    return source.finish("DDPG", arguments, arrays, rows)


def _choose_critic(ddpg: _Ddpg, rows: list[Row]) -> Any:
    """Return the function that makes a critic: a new one if SB3 cannot have SB2's, and a row says why not."""
    try:
        ddpg.make_critic("model/qf")
    except UnsupportedError as error:
        instead = "new weights, of the distribution that torch starts with"
        message = f"the critic: {error.message}"
        rows.append(Row(SB2_PARAMETERS_ENTRY, "model/qf", "dropped", message, instead, is_finding=True))
        return ddpg.make_new_critic
    rows.append(parameter_row("model/qf", "units of the first layer carry the actions, which the second one gets"))
    if ddpg.returns is not None:
        rows.append(parameter_row(_RETURNS, "is part of the head of the critic; training does not change it"))
    return ddpg.make_critic


def _read_statistics(agent: Sb2Agent, key: str, scope: str, size: int) -> _Statistics | None:
    """Return statistics as ``common/mpi_running_mean_std.py`` computes them from sums; None when there are none.

    :param size: the number of items that they are for; one number is for all
    """
    names = [f"{scope}/{name}:0" for name in ("count", "runningsum", "runningsumsq")]
    if agent.data.get(key) is not True or not any(name in agent.model.tensors for name in names):
        return None
    shape = tuple(agent.model.tensors[names[1]].shape) if names[1] in agent.model.tensors else ()
    require_variables(agent, zip(names, ((), shape, shape)))
    count, total, squares = (agent.array(name, "float64") for name in names)
    with np.errstate(all="ignore"):
        mean, square = ((part / count).astype(np.float32) for part in (total, squares))
        deviation = np.sqrt(np.maximum(square - mean * mean, np.float32(1e-2)))  # SB2's least variance
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
        refuse(f"{scope}: the statistics are not finite")
    if shape and mean.size != size:
        refuse(f"{scope}: expected statistics of {size} items, got the shape {shape}")
    mean, deviation = (np.broadcast_to(part.reshape(-1), (size,)).astype(np.float64) for part in (mean, deviation))
    return mean, deviation


def _find_bounds(source: _OffPolicy, statistics: _Statistics | None) -> tuple[float, float]:
    """Return what observations have to be clipped to; infinite where none can be beyond.

    Environments exceed the bounds of their spaces, so those are taken into account only where no layer can clip.
    """
    agent, inputs = source.agent, source.inputs
    least, most = read_range(agent.data.get("observation_range", (-5.0, 5.0)))
    bounds = agent.model.observation_space.bounds
    is_certain = inputs.cnn is not None or bounds is None  # scaled, or zeros and ones
    if not is_certain and source.start().can_clip:
        return least, most
    if is_certain or bounds is None:
        low, high = np.zeros(inputs.size), np.ones(inputs.size)
    else:
        low, high = (np.array(unpack_items(bound), np.float64) for bound in bounds)
    if statistics is not None:
        mean, deviation = statistics
        low, high = (low - mean) / deviation, (high - mean) / deviation
    is_above, is_below = np.min(low, initial=0.0) >= least, np.max(high, initial=0.0) <= most
    return (-np.inf if is_above else least, np.inf if is_below else most)
