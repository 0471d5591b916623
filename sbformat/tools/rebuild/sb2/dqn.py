"""The Q-network of SB2's DQN as SB3's.

SB2's is dueling unless ``dueling=False``: it adds the value of the observation to the scores of the actions. SB3 has
none such, so both towers become one network of twice the width (:mod:`.folding`), which computes the same values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.formats.sb2.networks import CONNECTED, LINEAR, deepq, first_deepq, numbered
from sbformat.known.spaces import Discrete
from sbformat.policies.sb2.activations import read_activation
from sbformat.policies.sb2.agents import unsupported_actions
from sbformat.policies.sb2.structures import find_mlp
from sbformat.tools.rebuild.sb2.activations import convert_activation
from sbformat.tools.rebuild.sb2.folding import Layers, Signal, add_plain, join_towers
from sbformat.tools.rebuild.sb2.inputs import read_inputs
from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, parameter_row
from sbformat.tools.rebuild.sb2.layers import (
    copied_row,
    has_variables,
    name_layers,
    read_linear,
    refuse_layer_norm,
)

if TYPE_CHECKING:
    import numpy as np

    from sbformat.formats.sb2.networks import Mlp
    from sbformat.tools.rebuild.report import Row
    from sbformat.tools.rebuild.sb2.folding import Linear
    from sbformat.tools.rebuild.sb2.inputs import Inputs
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

_SCOPE: Final = "deepq/model"
_TARGET: Final = "deepq/target_q_func/model"
_PERTURBED: Final = ("deepq/perturbed_model", "deepq/adaptive_model")
_ACTIVATION: Final = "relu"
"""The default of both."""


def convert_q_network(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the network of DQN.

    :raises UnsupportedError: for layer normalization, images that SB3 treats otherwise, and a dueling network after a
        CNN whose activation is not the CNN's
    """
    if not isinstance(agent.model.action_space, Discrete):
        raise unsupported_actions(agent.model)
    forms = (deepq, first_deepq)
    net, form = find_mlp(agent.model, _SCOPE, forms)
    refuse_layer_norm(is_normed=net.is_normed)
    activation = read_activation(agent.model.policy.settings.get("act_fun", _ACTIVATION))
    inputs = read_inputs(agent, net.inputs)
    arrays: dict[str, np.ndarray] = {}
    widths: list[int] = []
    has_target = has_variables(agent, forms[form](_TARGET, net))
    for module, scope in (("q_net", _SCOPE), ("q_net_target", _TARGET if has_target else _SCOPE)):
        layers = Layers(inputs.size, activation)
        _add_network(agent, layers, net, inputs, scope, is_first=form == 1)
        widths = layers.widths
        arrays |= inputs.convert_cnn(agent, scope if form == 1 else f"{scope}/action_value", module)
        arrays |= name_layers(f"{module}.q_net", layers.made)
    arguments = {"net_arch": widths, **convert_activation(agent, _ACTIVATION, _ACTIVATION), **inputs.policy_kwargs}
    rows = (*inputs.rows, *_list_rows(agent, net, has_target=has_target))
    return ConvertedNetwork("DQN", f"{inputs.kind}Policy", arguments, arrays, {}, rows, inputs.space)


def _add_network(agent: Sb2Agent, layers: Layers, net: Mlp, inputs: Inputs, scope: str, *, is_first: bool) -> None:
    features = Signal.select(inputs.columns)
    if is_first:  # 2.0: the head of actor-critic policies
        hidden = [f"{scope}/pi_fc{number}" for number in range(0 if net.inputs.cnn else len(net.layers))]
        add_plain(layers, features, [read_linear(agent, name, LINEAR) for name in (*hidden, f"{scope}/pi")])
        return
    # After a CNN the scores of the actions have no hidden layers of their own.
    actions = _read_tower(agent, f"{scope}/action_value", 0 if net.inputs.cnn else len(net.layers))
    if not net.is_dueling:
        add_plain(layers, features, actions)
        return
    join_towers(layers, features, actions, _read_tower(agent, f"{scope}/state_value", len(net.layers)))


def _read_tower(agent: Sb2Agent, scope: str, hidden: int) -> list[Linear]:
    """Return the layers in a scope.

    :param hidden: the number of layers before the head
    """
    names = [f"{scope}/{numbered('fully_connected', number)}" for number in range(hidden + 1)]
    return [read_linear(agent, name, CONNECTED) for name in names]


def _list_rows(agent: Sb2Agent, net: Mlp, *, has_target: bool) -> list[Row]:
    rows = agent.drop_parameters(f"{_SCOPE}/q", "DQN of SB2 2.0 does not use it")
    if net.is_dueling:
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
