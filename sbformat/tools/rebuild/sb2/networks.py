"""The networks of SB2's actor-critic policies as SB3's ``ActorCriticPolicy``.

An actor-critic of SB2 may share layers between the policy and the value function. SB3 shares only a features
extractor, so that a CNN stays shared, and the other layers are copied into both networks.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.constants import SB2_PARAMETERS_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.known.numpy import unpack_items
from sbformat.nets.sb2 import (
    LSTM_SCOPE,
    Actor,
    ActorCriticPolicy,
    Critics,
    DDPGActor,
    DDPGCritic,
    DQNPolicy,
    FirstQNetwork,
    QNetwork,
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
    convert_branches,
    copied_row,
    describe_images,
    name_layer,
    name_layers,
    read_inputs,
    read_tower,
    refuse_layer_norm,
    require_variables,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.nets.sb2 import Variable
    from sbformat.tools.rebuild.sb2.conversion import Keys, Sb2Agent
    from sbformat.tools.rebuild.sb2.layers import Images, Inputs


SCOPE: Final = ActorCriticPolicy.scope
_DEFAULT_WIDTHS: Final = [64, 64]
_SUCCESSORS: Final = {"PPO1": "PPO", "PPO2": "PPO", "A2C": "A2C", "ACKTR": "A2C", "TRPO": "TRPO", "GAIL": "TRPO"}
"""The algorithm of SB3 by that of SB2."""


def convert_actor_critic(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the network of an on-policy algorithm."""
    net = find_network(agent.model)
    assert isinstance(net, ActorCriticPolicy)  # noqa: S101 -- the algorithm has no other
    if any(step.name == LSTM_SCOPE for step in net.steps):
        return convert_recurrent(agent, net)
    cnn = net.inputs.cnn
    images = describe_images(agent, cnn)
    arrays, widths = convert_branches(agent, net, net.steps, None if cnn else images)
    arguments = {**images.policy_kwargs, **convert_activation(agent, net.activation)}
    if cnn is None and any(layers != _DEFAULT_WIDTHS for layers in widths.values()):
        arguments["net_arch"] = widths
    policy = "MlpPolicy" if cnn is None else "CnnPolicy"
    rows = (*images.rows, *report_layers(agent, net))
    return ConvertedNetwork(_SUCCESSORS[agent.algorithm], policy, arguments, arrays, {}, rows, images.space)


def report_layers(agent: Sb2Agent, net: ActorCriticPolicy) -> list[Row]:
    """Return the rows of shared layers, and of the parameters that SB3 does not have."""
    shared = "in the policy network and in the value network, with the same weights; they are trained apart"
    rows = [parameter_row(f"{SCOPE}/{step.name}", shared) for step in net.steps if step.branch == "both"]
    rows += agent.drop_parameters(f"{SCOPE}/q", f"{agent.algorithm} neither trains nor uses it")
    rows += agent.drop_parameters("oldpi", "a copy of the policy before an update")
    rows += agent.drop_parameters(
        "adversary", "GAIL's classifier of transitions, which SB3 does not have", is_finding=True
    )
    return rows


_GATES: Final = (0, 1, 3, 2)
"""The gates of torch, by their position in SB2."""
_ALGORITHMS: Final = ("A2C", "PPO2")
"""The algorithms whose agents with an LSTM RecurrentPPO can train: A2C is PPO with one epoch of one batch."""


def convert_recurrent(agent: Sb2Agent, net: ActorCriticPolicy) -> ConvertedNetwork:
    """Return the network of a policy with an LSTM.

    :raises UnsupportedError: when RecurrentPPO does not have such a network
    """
    _refuse_others(agent, net)
    cnn = net.inputs.cnn
    images = describe_images(agent, cnn)
    arrays, widths = convert_branches(agent, net, net.steps[1:], None)
    arrays |= _convert_lstm(agent, None if cnn else images)
    arguments = {
        "net_arch": widths, "lstm_hidden_size": net.steps[0].width, "shared_lstm": True, "enable_critic_lstm": False,
        **images.policy_kwargs, **convert_activation(agent, net.activation),
    }  # fmt: skip
    policy = "MlpLstmPolicy" if cnn is None else "CnnLstmPolicy"
    rows = (*images.rows, *_list_recurrent_rows(agent, net))
    return ConvertedNetwork("RecurrentPPO", policy, arguments, arrays, {}, rows, images.space)


def _refuse_others(agent: Sb2Agent, net: ActorCriticPolicy) -> None:
    """Refuse what RecurrentPPO does not have.

    :raises UnsupportedError: with the reason
    """
    before = [step.name for step in net.steps[: [step.name for step in net.steps].index(LSTM_SCOPE)]]
    message = ""
    if net.is_normed:
        message = "its LSTM is normalized (LnLstm), and SB3 has no such cell"
    elif before:
        message = f"it has layers before its LSTM ({', '.join(before)}), and RecurrentPPO has only a features extractor"
    elif agent.algorithm not in _ALGORITHMS:
        message = "its policy has an LSTM, which SB3 has for PPO alone"
    if message:
        raise UnsupportedError(message)


def _convert_lstm(agent: Sb2Agent, images: Images | None) -> dict[str, np.ndarray]:
    """Return the LSTM as torch has it.

    :param images: for an LSTM that gets the observation itself
    """
    weights = agent.array(f"{SCOPE}/{LSTM_SCOPE}/wx:0")
    if images is not None:
        weights = images.order(weights)
    bias = _order_gates(agent.array(f"{SCOPE}/{LSTM_SCOPE}/b:0").reshape(-1))
    return {
        "lstm_actor.weight_ih_l0": _order_gates(weights.T),
        "lstm_actor.weight_hh_l0": _order_gates(agent.array(f"{SCOPE}/{LSTM_SCOPE}/wh:0").T),
        "lstm_actor.bias_ih_l0": bias,
        "lstm_actor.bias_hh_l0": np.zeros_like(bias),
    }


def _order_gates(rows: np.ndarray) -> np.ndarray:
    """Return rows of gates, one gate after another, in torch's order."""
    parts = np.split(rows, len(_GATES))
    return np.ascontiguousarray(np.concatenate([parts[gate] for gate in _GATES]))


def _list_recurrent_rows(agent: Sb2Agent, net: ActorCriticPolicy) -> list[Row]:
    """Return the rows of shared layers, and of the parameters that SB3 does not have."""
    message = "the same cell, with the gates in torch's order; the value function does not train it in SB3"
    rows = [parameter_row(f"{SCOPE}/{LSTM_SCOPE}", message)]
    shared = "in the policy network and in the value network, with the same weights; they are trained apart"
    rows += [parameter_row(f"{SCOPE}/{step.name}", shared) for step in net.steps[1:] if step.branch == "both"]
    return rows + agent.drop_parameters(f"{SCOPE}/q", f"{agent.algorithm} neither trains nor uses it")


def convert_recurrent_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Complete the hyper-parameters of an agent with an LSTM.

    With one epoch of one batch, the policy is the one that collected the batch. Then the ratio of PPO's loss is 1, its
    gradient is that of A2C, and nothing is clipped.
    """
    if agent.algorithm != "A2C":
        return
    message = "SB3 has no A2C with an LSTM"
    keys.report_algorithm(message, "RecurrentPPO, with one epoch of one batch: the same steps of the policy")
    keys.set("n_epochs", 1, None, "A2C takes one step for each batch")
    steps, count = keys.get("n_steps"), keys.get("n_envs", 1)
    if type(steps) is int and type(count) is int:
        keys.set("batch_size", steps * count, None, f"n_steps {steps} * n_envs {count}: one batch")
    keys.set("clip_range", 0.2, None, "nothing is clipped in the first step of a batch")
    keys.set("clip_range_vf", None, None, "A2C does not clip the value function")
    keys.set("target_kl", None, None, "A2C does not stop an update early")


_MODEL: Final = "model"
_TARGET: Final = "target"
_PI: Final = "pi"
_CRITICS: Final = ("qf1", "qf2")
_VALUES: Final = "values_fn"
_COEFFICIENT: Final = "model/log_ent_coef:0"
_LEARNED: Final = "log_ent_coef"


class _Continuous:
    """The parts of an agent that its networks are made from.

    :param agent: of SAC or TD3
    :raises UnsupportedError: for layer normalization, and images that SB3 treats otherwise
    """

    def __init__(self, agent: Sb2Agent) -> None:
        found = find_network(agent.model)
        assert isinstance(found, Actor)  # noqa: S101 -- these algorithms have no other
        self.agent, self.actor, self.mlp = agent, found, found.mlp
        refuse_layer_norm(is_normed=self.mlp.is_normed)
        self.critics = Critics(self.mlp, _CRITICS)
        self.activation = agent.model.read_activation(found.activation)
        self.inputs: Inputs = read_inputs(agent, found.inputs)

    def list_critics(self, scope: str) -> Iterator[Variable]:
        """Yield the variables of the critics.

        :param scope: ``model`` or ``target``
        """
        return list_variables(f"{scope}/{_VALUES}", self.critics)

    def convert_critics(self, scope: str, module: str) -> dict[str, np.ndarray]:
        """Return both critics.

        :param scope: ``model`` or ``target``
        :param module: ``critic`` or ``critic_target``
        """
        within = f"{scope}/{_VALUES}"
        made = self.inputs.convert_cnn(self.agent, within, module)
        for number, name in enumerate(_CRITICS):
            network = read_tower(self.agent, f"{within}/{name}", self.critics.critics[name])
            layers = Layers(self.inputs.size + self.mlp.actions, self.activation)
            actions = np.arange(self.mlp.actions) + self.inputs.size
            add_plain(layers, Signal.select(np.concatenate([self.inputs.columns, actions])), network)
            made |= name_layers(f"{module}.qf{number}", layers.made)
        return made

    def make(
        self, algorithm: str, arrays: dict[str, np.ndarray], rows: list[Row], variables: dict[str, np.ndarray]
    ) -> ConvertedNetwork:
        """Return the network of an algorithm."""
        arguments: dict[str, object] = {"net_arch": list(self.mlp.layers), **self.inputs.policy_kwargs}
        arguments |= convert_activation(self.agent, self.actor.activation)
        every = (*self.inputs.rows, *rows)
        policy = f"{self.inputs.kind}Policy"
        return ConvertedNetwork(algorithm, policy, arguments, arrays, variables, every, self.inputs.space)


def convert_sac(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the networks of SAC.

    :raises UnsupportedError: as :class:`_Network`
    """
    network = _Continuous(agent)
    scope = f"{_MODEL}/{_PI}"
    require_variables(agent, network.list_critics(_MODEL))
    *hidden, mean, log_std = read_tower(agent, scope, network.actor)
    hidden, heads = _convert_first(network, hidden), [mean, log_std]
    if not hidden:
        heads = [_reorder(network, head) for head in heads]
    arrays = {
        **network.inputs.convert_cnn(agent, scope, "actor"),
        **name_layers("actor.latent_pi", hidden),
        **name_layer("actor.mu", heads[0]),
        **name_layer("actor.log_std", heads[1]),
    }
    for module in ("critic", "critic_target"):
        arrays |= network.convert_critics(_MODEL, module)
    message = "the value of an observation, which SAC of SB3 does not learn"
    rows = agent.drop_parameters(f"{_MODEL}/{_VALUES}/vf", message)
    rows += agent.drop_parameters(_TARGET, f"the target of {message}")
    copies = "critic_target starts as a copy of the critics: SAC of SB2 has no targets of them"
    rows.append(parameter_row(f"{_MODEL}/{_VALUES}", copies))
    return network.make("SAC", arrays, rows, _read_coefficient(agent))


def _read_coefficient(agent: Sb2Agent) -> dict[str, np.ndarray]:
    """Return the entropy coefficient, if the agent learns it."""
    has_coefficient = agent.model.has_variables([(_COEFFICIENT, ())])
    return {_LEARNED: agent.array(_COEFFICIENT).reshape(1)} if has_coefficient else {}


def convert_td3(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the networks of TD3.

    :raises UnsupportedError: as :class:`_Network`
    """
    network = _Continuous(agent)
    targets = (*list_variables(f"{_TARGET}/{_PI}", network.actor), *network.list_critics(_TARGET))
    has_target = agent.model.has_variables(targets)
    require_variables(agent, network.list_critics(_MODEL))
    scopes = {"": _MODEL, "_target": _TARGET if has_target else _MODEL}
    arrays: dict[str, np.ndarray] = {}
    for suffix, scope in scopes.items():
        layers = read_tower(agent, f"{scope}/{_PI}", network.actor)
        arrays |= network.inputs.convert_cnn(agent, f"{scope}/{_PI}", f"actor{suffix}")
        arrays |= name_layers(f"actor{suffix}.mu", _convert_first(network, layers))
    for suffix, scope in scopes.items():
        arrays |= network.convert_critics(scope, f"critic{suffix}")
    rows = [] if has_target else [copied_row(_TARGET, "copies of the networks that are trained")]
    return network.make("TD3", arrays, rows, {})


def _convert_first(network: _Continuous, layers: list[Linear]) -> list[Linear]:
    """Return layers of which the first one gets SB3's observations."""
    return [_reorder(network, layers[0]), *layers[1:]] if layers else []


def _reorder(network: _Continuous, layer: Linear) -> Linear:
    """Return a layer of SB2 that gets SB3's observations."""
    layers = Layers(network.inputs.size, network.activation)
    layers.add(Units.apply(layer, Signal.select(network.inputs.columns)))
    return layers.made[0]


_SCOPE_Q: Final = DQNPolicy.scope
_TARGET_Q: Final = "deepq/target_q_func/model"
_PERTURBED: Final = ("deepq/perturbed_model", "deepq/adaptive_model")


def convert_q_network(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the network of DQN.

    :raises UnsupportedError: for layer normalization, images that SB3 treats otherwise, and a dueling network after a
        CNN whose activation is not the CNN's
    """
    net = find_network(agent.model)
    assert isinstance(net, (QNetwork, FirstQNetwork))  # noqa: S101 -- the algorithm has no other
    refuse_layer_norm(is_normed=net.mlp.is_normed)
    activation = agent.model.read_activation(net.activation)
    inputs = read_inputs(agent, net.inputs)
    arrays: dict[str, np.ndarray] = {}
    widths: list[int] = []
    has_target = agent.model.has_variables(list_variables(_TARGET_Q, net))
    for module, scope in (("q_net", _SCOPE_Q), ("q_net_target", _TARGET_Q if has_target else _SCOPE_Q)):
        layers = Layers(inputs.size, activation)
        _add_network(agent, layers, net, inputs, scope)
        widths = layers.widths
        owner = scope if isinstance(net, FirstQNetwork) else f"{scope}/action_value"
        arrays |= inputs.convert_cnn(agent, owner, module)
        arrays |= name_layers(f"{module}.q_net", layers.made)
    arguments = {"net_arch": widths, **convert_activation(agent, net.activation), **inputs.policy_kwargs}
    rows = (*inputs.rows, *_list_dqn_rows(agent, net, has_target=has_target))
    return ConvertedNetwork("DQN", f"{inputs.kind}Policy", arguments, arrays, {}, rows, inputs.space)


def _add_network(agent: Sb2Agent, layers: Layers, net: QNetwork | FirstQNetwork, inputs: Inputs, scope: str) -> None:
    features = Signal.select(inputs.columns)
    if isinstance(net, FirstQNetwork):
        add_plain(layers, features, read_tower(agent, scope, net, "pi"))
        return
    actions = read_tower(agent, f"{scope}/action_value", net.action_value)
    if not net.mlp.is_dueling:
        add_plain(layers, features, actions)
        return
    value = read_tower(agent, f"{scope}/state_value", net.state_value)
    join_towers(layers, features, actions, value)


def _list_dqn_rows(agent: Sb2Agent, net: DQNPolicy, *, has_target: bool) -> list[Row]:
    rows = agent.drop_parameters(f"{_SCOPE_Q}/q", "DQN of SB2 2.0 does not use it")
    if net.mlp.is_dueling:
        message = (
            "one network computes the sum of both towers, with the same values; training changes all its weights, "
            "also those between the towers, which are 0 now"
        )
        rows.append(parameter_row(f"{_SCOPE_Q}/state_value", message))
    if not has_target:
        rows.append(copied_row(_TARGET_Q, "a copy of the Q-network"))
    for scope in _PERTURBED:
        rows += agent.drop_parameters(scope, "a network with noise in its parameters, which SB3 does not have")
    rows += agent.drop_parameters(_TARGET_Q, "parameters of the target that its network does not have")
    return rows


_SCOPES: Final = {"": "model", "_target": "target"}
_DEFAULT_RANGE: Final = (-5.0, 5.0)
_LEAST_VARIANCE: Final = 1e-2
_OBSERVATIONS: Final = "input/obs_rms"
_RETURNS: Final = "input/ret_rms"


class _Statistics(Record):
    """Mean and standard deviation, float64."""

    mean: np.ndarray
    deviation: np.ndarray


class _Ddpg(Record):
    """What the networks are made from."""

    agent: Sb2Agent
    actor: DDPGActor
    critic: DDPGCritic
    activation: str
    inputs: Inputs
    statistics: _Statistics | None
    """Of observations."""
    bounds: tuple[float, float]
    """What observations are clipped to; infinite where the space makes it void."""
    returns: _Statistics | None

    @property
    def clips(self) -> bool:
        """Whether a layer clips the observations."""
        return any(map(isfinite, self.bounds))

    def list_variables(self, scope: str) -> list[Variable]:
        """Return the variables of actor and critic."""
        return [*list_variables(f"{scope}/pi", self.actor), *list_variables(f"{scope}/qf", self.critic)]

    def observe(self) -> Signal:
        """Return the observation before it is clipped."""
        signal = Signal.select(self.inputs.columns)
        if self.statistics is None:
            return signal
        mean, deviation = self.statistics
        return signal.scale(1 / deviation, -mean / deviation)


def convert_ddpg(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the networks of DDPG.

    :raises UnsupportedError: for layer normalization, images that SB3 treats otherwise, and an activation that does not
        clip observations that SB2 clips
    """
    network = _read_network(agent)
    rows = _list_ddpg_rows(network)
    require_variables(agent, network.list_variables("model"))
    scopes = dict(_SCOPES)
    if not agent.model.has_variables(network.list_variables("target")):
        scopes["_target"] = "model"
        rows.append(copied_row("target", "copies of the networks that are trained"))
    arrays: dict[str, np.ndarray] = {}
    widths: dict[str, list[int]] = {}
    for suffix, scope in scopes.items():
        layers = _convert_actor(network, f"{scope}/pi")
        widths["pi"] = layers.widths
        arrays |= _name(network, layers, f"{scope}/pi", f"actor{suffix}", "mu")
    convert = _convert_critic if _can_convert_critic(network, rows) else _make_critic
    for suffix, scope in scopes.items():
        layers = convert(network, f"{scope}/qf")
        widths["qf"] = layers.widths
        arrays |= _name(network, layers, f"{scope}/qf", f"critic{suffix}", "qf0")
    arguments = {"net_arch": widths, "n_critics": 1, **network.inputs.policy_kwargs}
    arguments |= convert_activation(agent, DDPGActor.activation)
    every = (*network.inputs.rows, *rows)
    policy = f"{network.inputs.kind}Policy"
    return ConvertedNetwork("DDPG", policy, arguments, arrays, {}, every, network.inputs.space)


def _name(network: _Ddpg, layers: Layers, scope: str, module: str, name: str) -> dict[str, np.ndarray]:
    made = name_layers(f"{module}.{name}", layers.made)
    return network.inputs.convert_cnn(network.agent, scope, module) | made


# -- the layers ---------------------------------------------------------------------------------------


def _convert_actor(network: _Ddpg, scope: str) -> Layers:
    layers = Layers(network.inputs.size, network.activation)
    signal = network.observe()
    if network.clips:
        (signal,) = clip(layers, signal, *network.bounds)
    add_plain(layers, signal, read_tower(network.agent, scope, network.actor))
    return layers


def _convert_critic(network: _Ddpg, scope: str) -> Layers:
    size, count = network.inputs.size, network.actor.mlp.actions
    layers = Layers(size + count, network.activation)
    signal, actions = network.observe(), Signal.select(range(size, size + count))
    if network.clips:
        signal, actions = clip(layers, signal, *network.bounds, layers.carry(actions, -1.0))
    *hidden, head = read_tower(network.agent, scope, network.critic)
    if network.returns is not None:
        mean, deviation = network.returns
        head = Linear(head.weight * deviation, head.bias * deviation + mean)
    add_late_actions(layers, signal, actions, [*hidden, head])
    return layers


def _can_convert_critic(network: _Ddpg, rows: list[Row]) -> bool:
    """Return whether SB3 can have the critic; otherwise a row says why not."""
    try:
        _convert_critic(network, "model/qf")
    except UnsupportedError as error:
        instead = "new weights, of the distribution that torch starts with"
        message = f"the critic: {error.message}"
        rows.append(Row(SB2_PARAMETERS_ENTRY, "model/qf", "dropped", message, instead, is_finding=True))
        return False
    rows.append(parameter_row("model/qf", "units of the first layer carry the actions, which the second one gets"))
    if network.returns is not None:
        rows.append(parameter_row(_RETURNS, "is part of the head of the critic; training does not change it"))
    return True


def _make_critic(network: _Ddpg, _: str) -> Layers:
    """Return a new critic, the same for each call."""
    random = np.random.default_rng(0)
    inputs = network.inputs.size + network.actor.mlp.actions
    layers = Layers(inputs, network.activation)
    signal = Signal.select(range(inputs))
    for outputs in (*network.actor.mlp.layers, 1):
        limit = 1 / np.sqrt(signal.size)
        shapes = (outputs, signal.size), (outputs,)
        (signal,) = layers.add(Units.apply(Linear(*(random.uniform(-limit, limit, shape) for shape in shapes)), signal))
    return layers


# -- what SB2 does with observations and returns ------------------------------------------------------


def _read_network(agent: Sb2Agent) -> _Ddpg:
    actor = find_network(agent.model)
    assert isinstance(actor, DDPGActor)  # noqa: S101 -- the algorithm has no other
    refuse_layer_norm(is_normed=actor.mlp.is_normed)
    inputs = read_inputs(agent, actor.inputs)
    if inputs.cnn is not None and any(name.startswith(f"{_OBSERVATIONS}/") for name in agent.model.tensors):
        message = "it normalizes images with statistics of each pixel, and SB3 does not"
        raise UnsupportedError(message)
    statistics = _read_statistics(agent, "normalize_observations", _OBSERVATIONS, inputs.size)
    activation = agent.model.read_activation(actor.activation)
    bounds = _find_bounds(agent, inputs, statistics, activation)
    returns = _read_statistics(agent, "normalize_returns", _RETURNS, 1)
    return _Ddpg(agent, actor, DDPGCritic(actor.mlp), activation, inputs, statistics, bounds, returns)


def _read_statistics(agent: Sb2Agent, key: str, scope: str, size: int) -> _Statistics | None:
    """Return statistics as ``common/mpi_running_mean_std.py`` computes them from sums; None when there are none.

    :param size: the number of items that they are for; one number is for all
    :raises UnsupportedError: when a part is missing, or is for another number of items
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


def _find_bounds(
    agent: Sb2Agent, inputs: Inputs, statistics: _Statistics | None, activation: str
) -> tuple[float, float]:
    """Return what observations have to be clipped to; infinite where none can be beyond.

    Environments exceed the bounds of their spaces, so those are taken into account only where no layer can clip.
    """
    least, most = read_range(agent.data.get("observation_range", _DEFAULT_RANGE))
    is_certain = inputs.cnn is not None or agent.model.observation_space.bounds is None
    if is_certain or not Layers(inputs.size, activation).can_clip:
        low, high = _find_extent(agent, inputs, statistics)
        return (-np.inf if low >= least else least, np.inf if high <= most else most)
    return least, most


def _find_extent(agent: Sb2Agent, inputs: Inputs, statistics: _Statistics | None) -> tuple[float, float]:
    """Return the least and the greatest item of the observations of the space, after normalization."""
    bounds = agent.model.observation_space.bounds
    if inputs.cnn is not None or bounds is None:  # scaled, or zeros and ones
        low, high = np.zeros(inputs.size), np.ones(inputs.size)
    else:
        low, high = (np.array(unpack_items(bound), np.float64) for bound in bounds)
    if statistics is not None:
        mean, deviation = statistics
        low, high = (low - mean) / deviation, (high - mean) / deviation
    return float(np.min(low, initial=0.0)), float(np.max(high, initial=0.0))


def _list_ddpg_rows(network: _Ddpg) -> list[Row]:
    agent, rows = network.agent, []
    if network.clips:
        low, high = network.bounds
        message = f"a layer before the others clips the observations to {low} and {high}: the same function"
        rows.append(parameter_row("model/pi", message))
    if network.statistics is not None:
        rows.append(parameter_row(_OBSERVATIONS, "is part of the first layer; training does not change it"))
    for scope in ("noise", "noise_adapt"):
        rows += agent.drop_parameters(scope, "an actor with noise in its parameters, which SB3 does not have")
    return rows
