"""The networks of SB2's actor-critic policies as SB3's ``ActorCriticPolicy``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError
from sbformat.policies.sb2.structures import find_actor_critic
from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, parameter_row

if TYPE_CHECKING:
    import numpy as np

    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

_SCOPE: Final = "model"


def convert_actor_critic(agent: Sb2Agent) -> ConvertedNetwork:
    """Return the network of PPO2 for PPO."""
    net = find_actor_critic(agent.model, _SCOPE)
    if net.inputs.cnn is not None or any(step.branch == "both" for step in net.steps):
        message = "not converted yet"
        raise UnsupportedError(message)
    arrays: dict[str, np.ndarray] = {}
    if net.is_gaussian:
        arrays["log_std"] = agent.array("model/pi/logstd:0").reshape(-1)
    widths: dict[str, list[int]] = {"pi": [], "vf": []}
    for branch, module in (("pi", "policy_net"), ("vf", "value_net")):
        for step in net.steps:
            if step.branch == branch:
                number = 2 * len(widths[branch])
                add_linear(agent, arrays, f"mlp_extractor.{module}.{number}", f"{_SCOPE}/{step.name}")
                widths[branch].append(step.width)
    add_linear(agent, arrays, "action_net", f"{_SCOPE}/pi")
    add_linear(agent, arrays, "value_net", f"{_SCOPE}/vf")
    rows = (parameter_row(f"{_SCOPE}/q", f"{agent.algorithm} does not use it"),)
    return ConvertedNetwork("PPO", "MlpPolicy", {"net_arch": widths}, arrays, rows=rows)


def add_linear(
    agent: Sb2Agent, arrays: dict[str, np.ndarray], name: str, scope: str, words: tuple[str, str] = ("w", "b")
) -> None:
    """Add a layer: SB2's weights are (inputs, outputs), torch's (outputs, inputs).

    :param words: the names of weights and bias in SB2: ``LINEAR``, ``DENSE`` or ``CONNECTED`` of ``networks``
    """
    arrays[f"{name}.weight"] = agent.array(f"{scope}/{words[0]}:0").T.copy()
    arrays[f"{name}.bias"] = agent.array(f"{scope}/{words[1]}:0").reshape(-1)
