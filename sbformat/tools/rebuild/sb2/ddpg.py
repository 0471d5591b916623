"""The networks of SB2's DDPG as those of SB3, which are TD3's with one critic.

SB2's differ in three ways, all of which become part of wider layers (:mod:`.folding`):

- The critic gets the actions after its first layer.
- Observations are normalized with statistics of the file if ``normalize_observations``, and in every case clipped to
  ``observation_range``, -5 to 5 by default. The normalization goes into the weights, and a layer of its own clips.
- The critic's output is a normalized return if ``normalize_returns``: its head gets the scale.

Each network needs an activation that allows this; ``relu``, SB2's default, does. If only the critic cannot be had, the
agent acts as before and gets a new critic.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.constants import SB2_PARAMETERS_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.known.numpy import unpack_items
from sbformat.nets.sb2 import DDPGActor, DDPGCritic, list_variables
from sbformat.nets.sb2_agents import find_network, read_range
from sbformat.tools.rebuild.report import Row as ReportRow
from sbformat.tools.rebuild.sb2.folding import Layers, Linear, Row, Signal, add_late_actions, add_plain, clip
from sbformat.tools.rebuild.sb2.inputs import read_inputs
from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, parameter_row
from sbformat.tools.rebuild.sb2.layers import (
    convert_activation,
    copied_row,
    name_layers,
    read_tower,
    refuse_layer_norm,
    require_variables,
)

if TYPE_CHECKING:
    from sbformat.nets.sb2 import Variable
    from sbformat.tools.rebuild.sb2.inputs import Inputs
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

_SCOPES: Final = {"": "model", "_target": "target"}
_DEFAULT_RANGE: Final = (-5.0, 5.0)
_LEAST_VARIANCE: Final = 1e-2
_OBSERVATIONS: Final = "input/obs_rms"
_RETURNS: Final = "input/ret_rms"
_PERTURBED: Final = ("noise", "noise_adapt")


class _Statistics(Record):
    """Mean and standard deviation, float64."""

    mean: np.ndarray
    deviation: np.ndarray


class _Network(Record):
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
    rows = _list_rows(network)
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


def _name(network: _Network, layers: Layers, scope: str, module: str, name: str) -> dict[str, np.ndarray]:
    made = name_layers(f"{module}.{name}", layers.made)
    return network.inputs.convert_cnn(network.agent, scope, module) | made


# -- the layers ---------------------------------------------------------------------------------------


def _convert_actor(network: _Network, scope: str) -> Layers:
    layers = Layers(network.inputs.size, network.activation)
    signal = network.observe()
    if network.clips:
        (signal,) = clip(layers, signal, *network.bounds)
    add_plain(layers, signal, read_tower(network.agent, scope, network.actor))
    return layers


def _convert_critic(network: _Network, scope: str) -> Layers:
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


def _can_convert_critic(network: _Network, rows: list[ReportRow]) -> bool:
    """Return whether SB3 can have the critic; otherwise a row says why not."""
    try:
        _convert_critic(network, "model/qf")
    except UnsupportedError as error:
        instead = "new weights, of the distribution that torch starts with"
        message = f"the critic: {error.message}"
        rows.append(ReportRow(SB2_PARAMETERS_ENTRY, "model/qf", "dropped", message, instead, is_finding=True))
        return False
    rows.append(parameter_row("model/qf", "units of the first layer carry the actions, which the second one gets"))
    if network.returns is not None:
        rows.append(parameter_row(_RETURNS, "is part of the head of the critic; training does not change it"))
    return True


def _make_critic(network: _Network, _: str) -> Layers:
    """Return a new critic, the same for each call."""
    random = np.random.default_rng(0)
    inputs = network.inputs.size + network.actor.mlp.actions
    layers = Layers(inputs, network.activation)
    signal = Signal.select(range(inputs))
    for outputs in (*network.actor.mlp.layers, 1):
        limit = 1 / np.sqrt(signal.size)
        shapes = (outputs, signal.size), (outputs,)
        (signal,) = layers.add(Row.apply(Linear(*(random.uniform(-limit, limit, shape) for shape in shapes)), signal))
    return layers


# -- what SB2 does with observations and returns ------------------------------------------------------


def _read_network(agent: Sb2Agent) -> _Network:
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
    return _Network(agent, actor, DDPGCritic(actor.mlp), activation, inputs, statistics, bounds, returns)


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


def _list_rows(network: _Network) -> list[ReportRow]:
    agent, rows = network.agent, []
    if network.clips:
        low, high = network.bounds
        message = f"a layer before the others clips the observations to {low} and {high}: the same function"
        rows.append(parameter_row("model/pi", message))
    if network.statistics is not None:
        rows.append(parameter_row(_OBSERVATIONS, "is part of the first layer; training does not change it"))
    for scope in _PERTURBED:
        rows += agent.drop_parameters(scope, "an actor with noise in its parameters, which SB3 does not have")
    return rows
