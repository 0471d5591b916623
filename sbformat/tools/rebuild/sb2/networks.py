"""The networks of SB2 as those of SB3, a function for each family of algorithms.

In: an agent, whose network is a tree of :mod:`sbformat.nets.sb2`. Out: a ``ConvertedNetwork``, with the arrays in the
order of SB3's tree, arguments of SB3's policy, and rows about parameters.

- **Actor-critics** of SB2 may share layers between the policy and the value function. SB3 shares only a features
  extractor, so that a CNN stays shared, and the other layers are copied into both networks.
- **RecurrentPPO** has an LSTM after the features extractor, then the layers of ``net_arch``. So has SB2 where nothing
  but a CNN is before the LSTM: ``CnnLstmPolicy``, ``net_arch=["lstm", ...]``, ``layers=[]``. Policy and value function
  of SB2 share the LSTM: ``shared_lstm``.
- **SAC and TD3**: an actor, and two critics of its actions, which share a CNN as SB3's do. SAC of SB2 has no targets of
  its critics but one of a third network, the value of an observation, which SB3 does not have: the targets start as
  copies of the critics.
- **DQN** is dueling unless ``dueling=False``: it adds the value of the observation to the scores of the actions. SB3
  has none such, so both towers become one network of twice the width (:mod:`.folding`), which computes the same values.
- **DDPG** is TD3 with one critic. SB2's differs in three ways, all of which become part of wider layers: the critic
  gets the actions after its first layer; observations are normalized with statistics of the file if
  ``normalize_observations``, and in every case clipped to ``observation_range``, -5 to 5 by default; the critic's
  output is a normalized return if ``normalize_returns``. The normalization goes into the weights, a layer of its own
  clips, and the head gets the scale of returns. Each network needs an activation that allows this; ``relu``, SB2's
  default, does. If only the critic cannot be had, the agent acts as before and gets a new critic.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.constants import SB2_PARAMETERS_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.known.numpy import unpack_items
from sbformat.nets.sb2 import (
    LSTM_SCOPE,
    ActorCriticPolicy,
    Critics,
    DDPGActor,
    DDPGCritic,
    DQNPolicy,
    FirstQNetwork,
    GaussianLinear,
    list_variables,
)
from sbformat.nets.sb2_agents import find_network, read_range
from sbformat.tools.rebuild.rebuild_report import Row
from sbformat.tools.rebuild.sb2.conversion import ConvertedNetwork, parameter_row
from sbformat.tools.rebuild.sb2.folding import (
    Layers,
    Linear,
    Signal,
    Units,
    add_late_actions,
    add_plain,
    clip,
    join_towers,
)
from sbformat.tools.rebuild.sb2.layers import (
    convert_activation,
    copied_row,
    flatten,
    read_cnn,
    read_inputs,
    read_linear,
    read_lstm,
    read_tower,
    require_variables,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.nets.sb2 import Step, Variable
    from sbformat.tools.rebuild.sb2.conversion import Sb2Agent
    from sbformat.tools.rebuild.sb2.layers import Inputs

# -- actor-critics ------------------------------------------------------------------------------------

_SCOPE: Final = ActorCriticPolicy.scope
_DEFAULT_WIDTHS: Final = [64, 64]
_SUCCESSORS: Final = {"PPO1": "PPO", "PPO2": "PPO", "A2C": "A2C", "ACKTR": "A2C", "TRPO": "TRPO", "GAIL": "TRPO"}
"""The algorithm of SB3 by that of SB2."""


def convert_actor_critic(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the network of an on-policy algorithm."""
    net: Any = find_network(agent.model)
    has_lstm = any(step.name == LSTM_SCOPE for step in net.steps)
    if has_lstm:
        _refuse_other_lstm(agent, net)
    inputs = read_inputs(agent, net.inputs)
    arrays, widths = _convert_branches(agent, net, net.steps[has_lstm:], None if has_lstm else inputs)
    arguments: dict[str, object] = {**inputs.policy_kwargs, **convert_activation(agent, net.activation)}
    algorithm, policy, rows = _SUCCESSORS[agent.algorithm], f"{inputs.kind}Policy", []
    if has_lstm:
        algorithm, policy = "RecurrentPPO", f"{inputs.kind}LstmPolicy"
        arrays += read_lstm(agent, f"{_SCOPE}/{LSTM_SCOPE}", inputs)
        arguments = {
            "net_arch": widths, "lstm_hidden_size": net.steps[0].width, "shared_lstm": True,
            "enable_critic_lstm": False, **arguments,
        }  # fmt: skip
        message = "the same cell, with the gates in torch's order; the value function does not train it in SB3"
        rows.append(parameter_row(f"{_SCOPE}/{LSTM_SCOPE}", message))
    elif inputs.cnn is None and any(layers != _DEFAULT_WIDTHS for layers in widths.values()):
        arguments["net_arch"] = widths
    shared = "in the policy network and in the value network, with the same weights; they are trained apart"
    names = [step.name for step in net.steps if step.branch == "both" and step.name != LSTM_SCOPE]
    rows += [parameter_row(f"{_SCOPE}/{name}", shared) for name in names]
    rows += agent.drop_parameters(f"{_SCOPE}/q", f"{agent.algorithm} neither trains nor uses it")
    if not has_lstm:
        rows += agent.drop_parameters("oldpi", "a copy of the policy before an update")
        message = "GAIL's classifier of transitions, which SB3 does not have"
        rows += agent.drop_parameters("adversary", message, is_finding=True)
    return ConvertedNetwork(algorithm, policy, arguments, arrays, {}, (*inputs.rows, *rows), inputs.space)


def _convert_branches(
    agent: Sb2Agent, net: ActorCriticPolicy, steps: Sequence[Step], inputs: Inputs | None
) -> tuple[list[np.ndarray], dict[str, list[int]]]:
    """Return an actor-critic without its LSTM, and the widths of its hidden layers.

    :param steps: the hidden layers; those that are shared are in both networks
    :param inputs: of the agent, if the first layers get them
    """
    arrays: list[np.ndarray] = []
    hidden: list[Linear] = []
    heads: list[Linear] = []
    widths: dict[str, list[int]] = {}
    if isinstance(net.pi, GaussianLinear):
        arrays.append(agent.array(f"{net.scope}/pi/logstd:0").reshape(-1))
    arrays += read_cnn(agent, net.inputs.cnn, net.scope)
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


def _refuse_other_lstm(agent: Sb2Agent, net: ActorCriticPolicy) -> None:
    """Refuse what RecurrentPPO does not have."""
    names = [step.name for step in net.steps]
    before = names[: names.index(LSTM_SCOPE)]
    message = ""
    if net.is_normed:
        message = "its LSTM is normalized (LnLstm), and SB3 has no such cell"
    elif before:
        message = f"it has layers before its LSTM ({', '.join(before)}), and RecurrentPPO has only a features extractor"
    elif agent.algorithm not in ("A2C", "PPO2"):  # A2C is PPO with one epoch of one batch
        message = "its policy has an LSTM, which SB3 has for PPO alone"
    if message:
        raise UnsupportedError(message)


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
        self,
        algorithm: str,
        arguments: dict[str, object],
        arrays: list[np.ndarray],
        rows: list[Row],
        variables: dict[str, np.ndarray] | None = None,
    ) -> ConvertedNetwork:
        """Return the network of SB3's algorithm."""
        policy, every = f"{self.inputs.kind}Policy", (*self.inputs.rows, *rows)
        return ConvertedNetwork(algorithm, policy, arguments, arrays, variables or {}, every, self.inputs.space)


def _read(agent: Sb2Agent) -> _OffPolicy:
    """Return an off-policy agent."""
    net: Any = find_network(agent.model)
    if net.mlp.is_normed:
        message = "its layers are normalized (LayerNorm), and SB3 has no policy with such layers"
        raise UnsupportedError(message)
    activation = agent.model.read_activation(net.activation)
    return _OffPolicy(agent, net, read_inputs(agent, net.inputs), activation)


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
    return source.finish("SAC", _list_arguments(source), arrays, rows, variables)


def convert_td3(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the networks of TD3."""
    source = _read(agent)
    targets = (*list_variables("target/pi", source.net), *_list_critics(source, "target"))
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


def _list_critics(source: _OffPolicy, scope: str) -> list[Variable]:
    return list(list_variables(f"{scope}/values_fn", Critics(source.net.mlp, _CRITICS)))


def _convert_critics(source: _OffPolicy, scope: str) -> list[np.ndarray]:
    """Return both critics: of ``model`` or ``target``."""
    mlp, size = source.net.mlp, source.inputs.size
    arrays = source.read_cnn(f"{scope}/values_fn")
    for name, tower in Critics(mlp, _CRITICS).critics.items():
        layers = source.start(mlp.actions)
        columns = np.concatenate([source.inputs.columns, np.arange(mlp.actions) + size])
        add_plain(layers, Signal.select(columns), read_tower(source.agent, f"{scope}/values_fn/{name}", tower))
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
    source, scope = _read(agent), DQNPolicy.scope
    net = source.net
    arrays: list[np.ndarray] = []
    widths: list[int] = []
    has_target = agent.model.has_variables(list_variables(_TARGET_Q, net))
    for place in (scope, _TARGET_Q if has_target else scope):
        layers, features = source.start(), Signal.select(source.inputs.columns)
        if isinstance(net, FirstQNetwork):
            owner = place
            add_plain(layers, features, read_tower(agent, place, net, "pi"))
        else:
            owner = f"{place}/action_value"
            actions = read_tower(agent, owner, net.action_value)
            if net.mlp.is_dueling:
                value = read_tower(agent, f"{place}/state_value", net.state_value)
                join_towers(layers, features, actions, value)
            else:
                add_plain(layers, features, actions)
        widths = layers.widths
        arrays += [*source.read_cnn(owner), *flatten(layers.made)]
    arguments = {"net_arch": widths, **convert_activation(agent, net.activation), **source.inputs.policy_kwargs}
    rows = agent.drop_parameters(f"{scope}/q", "DQN of SB2 2.0 does not use it")
    if net.mlp.is_dueling:
        message = (
            "one network computes the sum of both towers, with the same values; training changes all its weights, "
            "also those between the towers, which are 0 now"
        )
        rows.append(parameter_row(f"{scope}/state_value", message))
    if not has_target:
        rows.append(copied_row(_TARGET_Q, "a copy of the Q-network"))
    for perturbed in ("deepq/perturbed_model", "deepq/adaptive_model"):
        rows += agent.drop_parameters(perturbed, "a network with noise in its parameters, which SB3 does not have")
    rows += agent.drop_parameters(_TARGET_Q, "parameters of the target that its network does not have")
    return source.finish("DQN", arguments, arrays, rows)


# -- DDPG ---------------------------------------------------------------------------------------------

_DEFAULT_RANGE: Final = (-5.0, 5.0)
_LEAST_VARIANCE: Final = 1e-2
_OBSERVATIONS: Final = "input/obs_rms"
_RETURNS: Final = "input/ret_rms"


class _Statistics(Record):
    """Mean and standard deviation, float64."""

    mean: np.ndarray
    deviation: np.ndarray


class _Ddpg(Record):
    """The settings from which the networks of DDPG are made."""

    source: _OffPolicy
    critic: DDPGCritic
    statistics: _Statistics | None
    """The statistics of observations."""
    bounds: tuple[float, float]
    """What observations are clipped to; infinite where the space makes it void."""
    returns: _Statistics | None

    @property
    def clips(self) -> bool:
        """Whether a layer clips the observations."""
        return any(map(isfinite, self.bounds))

    def list_variables(self, scope: str) -> list[Variable]:
        """Return the variables of actor and critic."""
        return [*list_variables(f"{scope}/pi", self.source.net), *list_variables(f"{scope}/qf", self.critic)]

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
            (signal,) = clip(layers, signal, *self.bounds)
        add_plain(layers, signal, read_tower(self.source.agent, scope, self.source.net))
        return layers

    def make_critic(self, scope: str) -> Layers:
        """Return the layers of a critic."""
        size, count = self.source.inputs.size, self.source.net.mlp.actions
        layers = self.source.start(count)
        signal, actions = self.observe(), Signal.select(range(size, size + count))
        if self.clips:
            signal, actions = clip(layers, signal, *self.bounds, layers.carry(actions, -1.0))
        *hidden, head = read_tower(self.source.agent, scope, self.critic)
        if self.returns is not None:
            mean, deviation = self.returns
            head = Linear(head.weight * deviation, head.bias * deviation + mean)
        add_late_actions(layers, signal, actions, [*hidden, head])
        return layers

    def make_new_critic(self, _: str) -> Layers:
        """Return a new critic, the same for each call."""
        random = np.random.default_rng(0)
        layers = self.source.start(self.source.net.mlp.actions)
        signal = Signal.select(range(self.source.inputs.size + self.source.net.mlp.actions))
        for outputs in (*self.source.net.mlp.layers, 1):
            limit = 1 / np.sqrt(signal.size)
            weight, bias = (random.uniform(-limit, limit, shape) for shape in ((outputs, signal.size), (outputs,)))
            (signal,) = layers.add(Units.apply(Linear(weight, bias), signal))
        return layers


def convert_ddpg(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the networks of DDPG."""
    ddpg = _read_ddpg(_read(agent))
    source, rows = ddpg.source, _list_ddpg_rows(ddpg)
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
    arguments |= convert_activation(agent, DDPGActor.activation)
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


def _read_ddpg(source: _OffPolicy) -> _Ddpg:
    """Return what SB2 does with observations and returns."""
    agent, inputs = source.agent, source.inputs
    if inputs.cnn is not None and any(name.startswith(f"{_OBSERVATIONS}/") for name in agent.model.tensors):
        message = "it normalizes images with statistics of each pixel, and SB3 does not"
        raise UnsupportedError(message)
    statistics = _read_statistics(agent, "normalize_observations", _OBSERVATIONS, inputs.size)
    bounds = _find_bounds(source, statistics)
    returns = _read_statistics(agent, "normalize_returns", _RETURNS, 1)
    return _Ddpg(source, DDPGCritic(source.net.mlp), statistics, bounds, returns)


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
        deviation = np.sqrt(np.maximum(square - mean * mean, np.float32(_LEAST_VARIANCE)))
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
        message = f"{scope}: the statistics are not finite"
        raise UnsupportedError(message)
    if shape and mean.size != size:
        message = f"{scope}: expected statistics of {size} items, got the shape {shape}"
        raise UnsupportedError(message)
    return _Statistics(*(np.broadcast_to(part.reshape(-1), (size,)).astype(np.float64) for part in (mean, deviation)))


def _find_bounds(source: _OffPolicy, statistics: _Statistics | None) -> tuple[float, float]:
    """Return what observations have to be clipped to; infinite where none can be beyond.

    Environments exceed the bounds of their spaces, so those are taken into account only where no layer can clip.
    """
    agent, inputs = source.agent, source.inputs
    least, most = read_range(agent.data.get("observation_range", _DEFAULT_RANGE))
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


def _list_ddpg_rows(ddpg: _Ddpg) -> list[Row]:
    rows = []
    if ddpg.clips:
        low, high = ddpg.bounds
        message = f"a layer before the others clips the observations to {low} and {high}: the same function"
        rows.append(parameter_row("model/pi", message))
    if ddpg.statistics is not None:
        rows.append(parameter_row(_OBSERVATIONS, "is part of the first layer; training does not change it"))
    for scope in ("noise", "noise_adapt"):
        message = "an actor with noise in its parameters, which SB3 does not have"
        rows += ddpg.source.agent.drop_parameters(scope, message)
    return rows
