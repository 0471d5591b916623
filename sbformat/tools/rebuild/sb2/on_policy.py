"""The networks of SB2's actor-critic policies as SB3's ``ActorCriticPolicy``.

An actor-critic of SB2 may share layers between the policy and the value function. SB3 shares only a features
extractor, so that a CNN stays shared, and the other layers are copied into both networks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.formats.sb2.networks import LSTM
from sbformat.policies.sb2.structures import find_actor_critic
from sbformat.tools.rebuild.sb2.activations import convert_activation
from sbformat.tools.rebuild.sb2.images import convert_cnn, describe_images
from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, parameter_row
from sbformat.tools.rebuild.sb2.recurrent import convert_recurrent

if TYPE_CHECKING:
    from sbformat.formats.sb2.networks import ActorCritic
    from sbformat.tools.rebuild.report import Row
    from sbformat.tools.rebuild.sb2.images import Images
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

SCOPE: Final = "model"
_ACTIVATION: Final = "tanh"
"""The default of both."""
_BRANCHES: Final = (("pi", "policy_net"), ("vf", "value_net"))
_DEFAULT_WIDTHS: Final = [64, 64]
_SUCCESSORS: Final = {"PPO1": "PPO", "PPO2": "PPO", "A2C": "A2C", "ACKTR": "A2C", "TRPO": "TRPO", "GAIL": "TRPO"}
"""The algorithm of SB3 by that of SB2."""


def convert_actor_critic(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the network of an on-policy algorithm."""
    net = find_actor_critic(agent.model, SCOPE)
    if any(step.name == LSTM for step in net.steps):
        return convert_recurrent(agent, net)
    images = describe_images(agent, net.inputs.cnn)
    arrays: dict[str, np.ndarray] = {}
    if net.is_gaussian:
        arrays["log_std"] = agent.array(f"{SCOPE}/pi/logstd:0").reshape(-1)
    if net.inputs.cnn is not None:
        arrays.update(convert_cnn(agent, net.inputs.cnn, SCOPE, "features_extractor"))
    widths = _convert_layers(agent, net, images, arrays)
    is_direct = net.inputs.cnn is None and not widths["pi"], net.inputs.cnn is None and not widths["vf"]
    for name, scope, is_first in (("action_net", "pi", is_direct[0]), ("value_net", "vf", is_direct[1])):
        add_linear(agent, arrays, name, f"{SCOPE}/{scope}", images=images if is_first else None)
    arguments = {**images.policy_kwargs, **convert_activation(agent, _ACTIVATION, _ACTIVATION)}
    if net.inputs.cnn is None and any(layers != _DEFAULT_WIDTHS for layers in widths.values()):
        arguments["net_arch"] = widths
    return ConvertedNetwork(
        _SUCCESSORS[agent.algorithm],
        "MlpPolicy" if net.inputs.cnn is None else "CnnPolicy",
        arguments,
        arrays,
        rows=(*images.rows, *report_layers(agent, net)),
        observation_space=images.space,
    )


def _convert_layers(
    agent: Sb2Agent, net: ActorCritic, images: Images, arrays: dict[str, np.ndarray]
) -> dict[str, list[int]]:
    """Add the hidden layers of both networks, the shared ones to each; return their widths."""
    widths: dict[str, list[int]] = {}
    for branch, module in _BRANCHES:
        own = widths[branch] = []
        for step in net.steps:
            if step.branch in ("both", branch):
                name = f"mlp_extractor.{module}.{2 * len(own)}"
                is_first = not own and net.inputs.cnn is None
                add_linear(agent, arrays, name, f"{SCOPE}/{step.name}", images=images if is_first else None)
                own.append(step.width)
    return widths


def add_linear(
    agent: Sb2Agent,
    arrays: dict[str, np.ndarray],
    name: str,
    scope: str,
    words: tuple[str, str] = ("w", "b"),
    *,
    images: Images | None = None,
) -> None:
    """Add a layer: SB2's weights are (inputs, outputs), torch's (outputs, inputs).

    :param words: the names of weights and bias in SB2: ``LINEAR``, ``DENSE`` or ``CONNECTED`` of ``networks``
    :param images: of the agent, for a layer whose inputs are the flat observation
    """
    weights = agent.array(f"{scope}/{words[0]}:0")
    if images is not None:
        weights = images.order(weights)
    arrays[f"{name}.weight"] = np.ascontiguousarray(weights.T)
    arrays[f"{name}.bias"] = agent.array(f"{scope}/{words[1]}:0").reshape(-1)


def report_layers(agent: Sb2Agent, net: ActorCritic) -> list[Row]:
    """Return the rows of shared layers, and of the parameters that SB3 does not have."""
    shared = "in the policy network and in the value network, with the same weights; they are trained apart"
    rows = [parameter_row(f"{SCOPE}/{step.name}", shared) for step in net.steps if step.branch == "both"]
    rows += agent.drop_parameters(f"{SCOPE}/q", f"{agent.algorithm} neither trains nor uses it")
    rows += agent.drop_parameters("oldpi", "a copy of the policy before an update")
    rows += agent.drop_parameters(
        "adversary", "GAIL's classifier of transitions, which SB3 does not have", is_finding=True
    )
    return rows
