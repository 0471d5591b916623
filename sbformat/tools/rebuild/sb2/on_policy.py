"""The networks of SB2's actor-critic policies as SB3's ``ActorCriticPolicy``.

An actor-critic of SB2 may share layers between the policy and the value function. SB3 shares only a features
extractor, so that a CNN stays shared, and the other layers are copied into both networks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.nets.sb2 import LSTM_SCOPE, ActorCriticPolicy
from sbformat.nets.sb2_agents import find_network
from sbformat.tools.rebuild.sb2.images import describe_images
from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, parameter_row
from sbformat.tools.rebuild.sb2.layers import convert_activation, convert_branches
from sbformat.tools.rebuild.sb2.recurrent import convert_recurrent

if TYPE_CHECKING:
    from sbformat.tools.rebuild.report import Row
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

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
