"""The Q-network of SB2's DQN as SB3's.

SB2's is dueling unless ``dueling=False``: it adds the value of the observation to the scores of the actions. SB3 has
none such, so both towers become one network of twice the width (:mod:`.folding`), which computes the same values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.nets.sb2 import DQNPolicy, FirstQNetwork, QNetwork, list_variables
from sbformat.nets.sb2_agents import find_network
from sbformat.tools.rebuild.sb2.folding import Layers, Signal, add_plain, join_towers
from sbformat.tools.rebuild.sb2.inputs import read_inputs
from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, parameter_row
from sbformat.tools.rebuild.sb2.layers import (
    convert_activation,
    copied_row,
    name_layers,
    read_tower,
    refuse_layer_norm,
)

if TYPE_CHECKING:
    import numpy as np

    from sbformat.tools.rebuild.report import Row
    from sbformat.tools.rebuild.sb2.inputs import Inputs
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

_SCOPE: Final = DQNPolicy.scope
_TARGET: Final = "deepq/target_q_func/model"
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
    has_target = agent.model.has_variables(list_variables(_TARGET, net))
    for module, scope in (("q_net", _SCOPE), ("q_net_target", _TARGET if has_target else _SCOPE)):
        layers = Layers(inputs.size, activation)
        _add_network(agent, layers, net, inputs, scope)
        widths = layers.widths
        owner = scope if isinstance(net, FirstQNetwork) else f"{scope}/action_value"
        arrays |= inputs.convert_cnn(agent, owner, module)
        arrays |= name_layers(f"{module}.q_net", layers.made)
    arguments = {"net_arch": widths, **convert_activation(agent, net.activation), **inputs.policy_kwargs}
    rows = (*inputs.rows, *_list_rows(agent, net, has_target=has_target))
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


def _list_rows(agent: Sb2Agent, net: DQNPolicy, *, has_target: bool) -> list[Row]:
    rows = agent.drop_parameters(f"{_SCOPE}/q", "DQN of SB2 2.0 does not use it")
    if net.mlp.is_dueling:
        message = (
            "one network computes the sum of both towers, with the same values; training changes all its weights, "
            "also those between the towers, which are 0 now"
        )
        rows.append(parameter_row(f"{_SCOPE}/state_value", message))
    if not has_target:
        rows.append(copied_row(_TARGET, "a copy of the Q-network"))
    for scope in _PERTURBED:
        rows += agent.drop_parameters(scope, "a network with noise in its parameters, which SB3 does not have")
    rows += agent.drop_parameters(_TARGET, "parameters of the target that its network does not have")
    return rows
