"""The networks of SB2's SAC and TD3 as SB3's: an actor, and two critics of its actions.

SB2's critics share a CNN, as SB3's do, and the actor has its own. SAC of SB2 has no targets of its critics but one of a
third network, the value of an observation, which SB3 does not have: the targets start as copies of the critics.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.formats.sb2.networks import DENSE, actor, critics
from sbformat.known.spaces import Box
from sbformat.policies.sb2.activations import read_activation
from sbformat.policies.sb2.agents import unsupported_actions
from sbformat.policies.sb2.structures import find_mlp
from sbformat.tools.rebuild.sb2.activations import convert_activation
from sbformat.tools.rebuild.sb2.folding import Layers, Row, Signal, add_plain
from sbformat.tools.rebuild.sb2.inputs import read_inputs
from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, parameter_row
from sbformat.tools.rebuild.sb2.layers import (
    copied_row,
    has_variables,
    name_layer,
    name_layers,
    read_linear,
    refuse_layer_norm,
    require_variables,
)  # fmt: skip

if TYPE_CHECKING:
    from sbformat.formats.sb2.networks import Mlp
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
_ACTIVATION: Final = "relu"
"""The default of both."""


class _Network:
    """The parts of an agent that its networks are made from.

    :param agent: of SAC or TD3
    :param outputs: the number of layers after the last hidden one of the actor
    :raises UnsupportedError: for layer normalization, and images that SB3 treats otherwise
    """

    def __init__(self, agent: Sb2Agent, outputs: int) -> None:
        if not isinstance(agent.model.action_space, Box):
            raise unsupported_actions(agent.model)
        self.agent = agent
        self.net: Mlp = find_mlp(agent.model, f"{_MODEL}/{_PI}", (partial(actor, outputs=outputs),)).net
        refuse_layer_norm(is_normed=self.net.is_normed)
        self.activation = read_activation(agent.model.policy.settings.get("act_fun", _ACTIVATION))
        self.inputs: Inputs = read_inputs(agent, self.net.inputs)

    def list_hidden(self, scope: str) -> list[Linear]:
        """Return the hidden layers in a scope."""
        return [read_linear(self.agent, f"{scope}/fc{number}", DENSE) for number in range(len(self.net.layers))]

    def convert_critics(self, scope: str, module: str) -> dict[str, np.ndarray]:
        """Return both critics.

        :param scope: ``model`` or ``target``
        :param module: ``critic`` or ``critic_target``
        """
        within = f"{scope}/{_VALUES}"
        made = self.inputs.convert_cnn(self.agent, within, module)
        for number, name in enumerate(_CRITICS):
            network = [*self.list_hidden(f"{within}/{name}"), read_linear(self.agent, f"{within}/{name}/{name}", DENSE)]
            layers = Layers(self.inputs.size + self.net.actions, self.activation)
            actions = np.arange(self.net.actions) + self.inputs.size
            add_plain(layers, Signal.select(np.concatenate([self.inputs.columns, actions])), network)
            made |= name_layers(f"{module}.qf{number}", layers.made)
        return made

    def make(
        self, algorithm: str, arrays: dict[str, np.ndarray], rows: list[ReportRow], variables: dict[str, np.ndarray]
    ) -> ConvertedNetwork:
        """Return the network of an algorithm."""
        arguments: dict[str, object] = {"net_arch": list(self.net.layers), **self.inputs.policy_kwargs}
        arguments |= convert_activation(self.agent, _ACTIVATION, _ACTIVATION)
        every = (*self.inputs.rows, *rows)
        policy = f"{self.inputs.kind}Policy"
        return ConvertedNetwork(algorithm, policy, arguments, arrays, variables, every, self.inputs.space)


def convert_sac(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the networks of SAC.

    :raises UnsupportedError: as :class:`_Network`
    """
    network = _Network(agent, 2)
    scope = f"{_MODEL}/{_PI}"
    require_variables(agent, critics(f"{_MODEL}/{_VALUES}", network.net, _CRITICS))
    hidden = _convert_first(network, network.list_hidden(scope))
    heads = [read_linear(agent, f"{scope}/{name}", DENSE) for name in ("dense", "dense_1")]
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
    has_coefficient = has_variables(agent, [(_COEFFICIENT, ())])
    return {_LEARNED: agent.array(_COEFFICIENT).reshape(1)} if has_coefficient else {}


def convert_td3(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the networks of TD3.

    :raises UnsupportedError: as :class:`_Network`
    """
    network = _Network(agent, 1)
    has_target = has_variables(agent, _list_td3(_TARGET, network.net))
    require_variables(agent, _list_td3(_MODEL, network.net))
    scopes = {"": _MODEL, "_target": _TARGET if has_target else _MODEL}
    arrays: dict[str, np.ndarray] = {}
    for suffix, scope in scopes.items():
        layers = [*network.list_hidden(f"{scope}/{_PI}"), read_linear(agent, f"{scope}/{_PI}/dense", DENSE)]
        arrays |= network.inputs.convert_cnn(agent, f"{scope}/{_PI}", f"actor{suffix}")
        arrays |= name_layers(f"actor{suffix}.mu", _convert_first(network, layers))
    for suffix, scope in scopes.items():
        arrays |= network.convert_critics(scope, f"critic{suffix}")
    rows = [] if has_target else [copied_row(_TARGET, "copies of the networks that are trained")]
    return network.make("TD3", arrays, rows, {})


def _list_td3(scope: str, net: Mlp) -> list[tuple[str, tuple[int, ...]]]:
    return [*actor(f"{scope}/{_PI}", net, outputs=1), *critics(f"{scope}/{_VALUES}", net, _CRITICS)]


def _convert_first(network: _Network, layers: list[Linear]) -> list[Linear]:
    """Return layers of which the first one gets SB3's observations."""
    return [_reorder(network, layers[0]), *layers[1:]] if layers else []


def _reorder(network: _Network, layer: Linear) -> Linear:
    """Return a layer of SB2 that gets SB3's observations."""
    layers = Layers(network.inputs.size, network.activation)
    layers.add(Row.apply(layer, Signal.select(network.inputs.columns)))
    return layers.made[0]
