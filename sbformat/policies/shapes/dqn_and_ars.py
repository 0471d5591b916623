"""The networks of DQN, QR-DQN and ARS: one network; DQN and QR-DQN also have its target.

Sources: SB3 ``dqn/policies.py`` of 0.8 to 2.9, sb3-contrib ``qrdqn/policies.py`` and ``ars/policies.py`` of 0.11 to
2.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.known import changes
from sbformat.known.sb3 import NATURE
from sbformat.policies.shapes.activations import RELU, activation_parameters
from sbformat.policies.shapes.agents import (
    action_space_error,
    make_extractor,
    output_size,
    read_layer_sizes,
    read_net_arch,
)
from sbformat.policies.shapes.arguments import Arguments
from sbformat.policies.shapes.layers import add_prefix, linear, mlp, sequential

if TYPE_CHECKING:
    from sbformat.known.spaces import Space
    from sbformat.policies.shapes.agents import Agent, Policy
    from sbformat.policies.shapes.layers import Parameters
    from sbformat.policies.shapes.sizes import Size


def q_network(agent: Agent, policy: Policy) -> Parameters:
    """``DQNPolicy``: a Q-network, and its target."""
    return _value_network(agent, policy, "q_net", _q_outputs(agent.action_space))


def quantile_network(agent: Agent, policy: Policy) -> Parameters:
    """``QRDQNPolicy``: a network of quantiles of each action's value, and its target."""
    quantiles = Arguments(agent.policy_kwargs).number_of("n_quantiles", 200)
    return _value_network(agent, policy, "quantile_net", _q_outputs(agent.action_space) * quantiles)


def _q_outputs(space: Space) -> Size:
    if space.distribution == "categorical":
        return output_size(space)
    raise action_space_error(space)


def _value_network(agent: Agent, policy: Policy, name: str, outputs: Size) -> Parameters:
    extractor, extracted, size = make_extractor(agent, policy)
    value = read_net_arch(agent)
    sizes = read_layer_sizes(([] if extractor == NATURE else [64, 64]) if value is None else value)
    activation = activation_parameters(Arguments(agent.policy_kwargs), RELU)
    network = [
        *add_prefix("features_extractor", extracted),
        *add_prefix(name, sequential(mlp(size, outputs, sizes, activation))),
    ]
    return [*add_prefix(name, network), *add_prefix(f"{name}_target", network)]


def ars(agent: Agent, policy: Policy) -> Parameters:
    """``ARSPolicy``: one network, with or without biases."""
    return _ars(agent, policy, [64, 64], bias=True)


def ars_linear(agent: Agent, policy: Policy) -> Parameters:
    """``ARSLinearPolicy``: one layer, in a ``Sequential`` or not."""
    if agent.release >= changes.ARS_SEQUENCE:
        return _ars(agent, policy, [], bias=False)
    arguments = Arguments(agent.policy_kwargs)
    _, _, size = make_extractor(agent, policy)
    layer = linear(size, _ars_outputs(agent.action_space), bias=arguments.flag("with_bias", default=False))
    is_squashed = agent.action_space.distribution == "gaussian" and arguments.flag("squash_output", default=False)
    return add_prefix("action_net", sequential([layer]) if is_squashed else layer)


def _ars(agent: Agent, policy: Policy, default: list[int], *, bias: bool) -> Parameters:
    arguments = Arguments(agent.policy_kwargs)
    _, _, size = make_extractor(agent, policy)
    value = read_net_arch(agent)
    sizes = read_layer_sizes(default if value is None else value)
    activation = activation_parameters(arguments, RELU)
    outputs = _ars_outputs(agent.action_space)
    bias = arguments.flag("with_bias", default=bias)
    return add_prefix("action_net", sequential(mlp(size, outputs, sizes, activation, bias=bias)))


def _ars_outputs(space: Space) -> Size:
    if space.distribution in ("gaussian", "categorical"):
        return output_size(space)
    raise action_space_error(space)
