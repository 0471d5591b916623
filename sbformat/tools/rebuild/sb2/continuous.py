"""The networks of SB2's SAC and TD3 as SB3's: an actor, and two critics of its actions.

SB2's critics share a CNN, as SB3's do, and the actor has its own. SAC of SB2 has no targets of its critics but one of a
third network, the value of an observation, which SB3 does not have: the targets start as copies of the critics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.nets.sb2 import Actor, Critics, list_variables
from sbformat.nets.sb2_agents import find_network
from sbformat.tools.rebuild.sb2.folding import Layers, Row, Signal, add_plain
from sbformat.tools.rebuild.sb2.inputs import read_inputs
from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, parameter_row
from sbformat.tools.rebuild.sb2.layers import (
    convert_activation,
    copied_row,
    name_layer,
    name_layers,
    read_tower,
    refuse_layer_norm,
    require_variables,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.nets.sb2 import Variable
    from sbformat.tools.rebuild.report import Row as ReportRow
    from sbformat.tools.rebuild.sb2.folding import Linear
    from sbformat.tools.rebuild.sb2.inputs import Inputs
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

_MODEL: Final = "model"
_TARGET: Final = "target"
_PI: Final = "pi"
_CRITICS: Final = ("qf1", "qf2")
_VALUES: Final = "values_fn"
_COEFFICIENT: Final = "model/log_ent_coef:0"
_LEARNED: Final = "log_ent_coef"


class _Network:
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
        self, algorithm: str, arrays: dict[str, np.ndarray], rows: list[ReportRow], variables: dict[str, np.ndarray]
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
    network = _Network(agent)
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
    network = _Network(agent)
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


def _convert_first(network: _Network, layers: list[Linear]) -> list[Linear]:
    """Return layers of which the first one gets SB3's observations."""
    return [_reorder(network, layers[0]), *layers[1:]] if layers else []


def _reorder(network: _Network, layer: Linear) -> Linear:
    """Return a layer of SB2 that gets SB3's observations."""
    layers = Layers(network.inputs.size, network.activation)
    layers.add(Row.apply(layer, Signal.select(network.inputs.columns)))
    return layers.made[0]
