"""The networks of DQN, QR-DQN and ARS: one, and its target.

Sources: SB3 ``dqn/policies.py`` of 0.8 to 2.9, sb3-contrib ``qrdqn/policies.py`` and ``ars/policies.py`` of 0.11 to
2.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.policies.agents import (
    ACTIONS,
    extracted_features,
    layer_sizes,
    logits_of,
    no_actions,
    saved_net_arch,
)
from sbformat.policies.extractors import NATURE
from sbformat.policies.layers import linear, mlp, prefixed, sequential
from sbformat.policies.sizes import RELU, Arguments, Size, activation_of
from sbformat.values.types import Box, Discrete

if TYPE_CHECKING:
    from sbformat.policies.agents import Agent, Policy
    from sbformat.policies.layers import Parameters
    from sbformat.values.types import Space


def _actions_of_q(space: Space) -> Size:
    if isinstance(space, Discrete):
        return Size(space.n, ACTIONS)
    raise no_actions(space)


def q_network(agent: Agent, policy: Policy) -> Parameters:
    """``DQNPolicy``: a network, and its target."""
    return _value_network(agent, policy, "q_net", _actions_of_q(agent.action_space))


def quantile_network(agent: Agent, policy: Policy) -> Parameters:
    """``QRDQNPolicy``: the same with quantiles of each action's value."""
    quantiles = Arguments(agent.policy_kwargs).whole("n_quantiles", 200)
    return _value_network(agent, policy, "quantile_net", _actions_of_q(agent.action_space) * quantiles)


def _value_network(agent: Agent, policy: Policy, name: str, outputs: Size) -> Parameters:
    extractor, extracted, size = extracted_features(agent, policy)
    value = saved_net_arch(agent)
    sizes = layer_sizes(([] if extractor == NATURE else [64, 64]) if value is None else value)
    activation = activation_of(Arguments(agent.policy_kwargs), RELU)
    network = [
        *prefixed("features_extractor", extracted),
        *prefixed(name, sequential(mlp(size, outputs, sizes, activation))),
    ]
    return [*prefixed(name, network), *prefixed(f"{name}_target", network)]


def ars(agent: Agent, policy: Policy) -> Parameters:
    """``ARSPolicy``: one network, with or without biases."""
    return _ars(agent, policy, [64, 64], bias=True)


def ars_linear(agent: Agent, policy: Policy) -> Parameters:
    """``ARSLinearPolicy``: one layer, by itself before 1.7."""
    if agent.release >= (1, 7):
        return _ars(agent, policy, [], bias=False)
    arguments = Arguments(agent.policy_kwargs)
    _, _, size = extracted_features(agent, policy)
    layer = linear(size, _ars_outputs(agent.action_space), bias=arguments.flag("with_bias", default=False))
    is_squashed = isinstance(agent.action_space, Box) and arguments.flag("squash_output", default=False)
    return prefixed("action_net", sequential([layer]) if is_squashed else layer)


def _ars(agent: Agent, policy: Policy, default: list[int], *, bias: bool) -> Parameters:
    arguments = Arguments(agent.policy_kwargs)
    _, _, size = extracted_features(agent, policy)
    value = saved_net_arch(agent)
    sizes = layer_sizes(default if value is None else value)
    activation = activation_of(arguments, RELU)
    outputs = _ars_outputs(agent.action_space)
    bias = arguments.flag("with_bias", default=bias)
    return prefixed("action_net", sequential(mlp(size, outputs, sizes, activation, bias=bias)))


def _ars_outputs(space: Space) -> Size:
    if isinstance(space, (Box, Discrete)):
        return logits_of(space)
    raise no_actions(space)
