"""The policies of DQN: ``deepq/policies.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.formats.sb2.networks import CONNECTED, LINEAR, deepq, first_deepq, numbered
from sbformat.known.spaces import Discrete
from sbformat.policies.graph import Sampling
from sbformat.policies.sb2.actions import ACTION, add_choice
from sbformat.policies.sb2.activations import activate, read_activation
from sbformat.policies.sb2.agents import unsupported_actions
from sbformat.policies.sb2.observations import encode_observation
from sbformat.policies.sb2.structures import find_mlp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.formats.sb2.networks import Mlp
    from sbformat.policies.builder import Value
    from sbformat.policies.sb2.agents import Agent
    from sbformat.policies.sb2.layers import Layers

_SCOPE: Final = "deepq/model"
_EPSILON: Final = "deepq/eps:0"
_DEFAULT_ACTIVATION: Final = "relu"
_RESULT: Final = "q_values"


def add_q_network(agent: Agent, layers: Layers) -> tuple[dict[str, Value], Sampling]:
    """Add a policy, and return its outputs and how actions are drawn."""
    if not isinstance(agent.action_space, Discrete):
        raise unsupported_actions(agent)
    net, form = find_mlp(agent, _SCOPE, (deepq, first_deepq))
    is_first = form == 1
    activation = read_activation(agent.policy.settings.get("act_fun", _DEFAULT_ACTIVATION))
    observation = encode_observation(agent, layers.builder, is_scaled=net.inputs.cnn is not None)
    scope = _SCOPE if is_first else f"{_SCOPE}/action_value"
    features = layers.flatten(observation)
    if net.inputs.cnn is not None:
        features = layers.cnn(scope, net.inputs.cnn, observation)
    add_layers = _add_first if is_first else _add_scores
    q_values = add_layers(layers, net, features, activation)
    outputs: dict[str, Value] = {}
    sampling = add_choice(layers.builder, q_values, outputs)
    outputs[_RESULT] = q_values
    return outputs, _explore(agent, layers, agent.action_space, outputs[ACTION]) if is_first else sampling


def _add_scores(layers: Layers, net: Mlp, features: Value, activation: str) -> Value:
    """Add the network of DQN since 2.1; a dueling one has a value that the mean of the scores is shifted to."""
    add = layers.builder.add
    # After a CNN the action scores have no hidden layers of their own.
    scored = net._replace(layers=()) if net.inputs.cnn else net
    if not net.is_dueling:
        return _add_connected(layers, f"{_SCOPE}/action_value", scored, features, activation, _RESULT)
    scores = _add_connected(layers, f"{_SCOPE}/action_value", scored, features, activation)
    value = _add_connected(layers, f"{_SCOPE}/state_value", net, features, activation)
    centered = add("Sub", scores, add("ReduceMean", scores, axis=-1, keepdims=True))
    return add("Add", value, centered, name=_RESULT)


def _add_connected(layers: Layers, scope: str, net: Mlp, value: Value, activation: str, name: str = "") -> Value:
    """Add hidden layers and a head, whose result gets a name."""
    *hidden, head = (f"{scope}/{numbered('fully_connected', number)}" for number in range(len(net.layers) + 1))
    value = _add_hidden(layers, scope, hidden, CONNECTED, net, value, activation)
    return layers.linear(head, CONNECTED, value, name)


def _add_first(layers: Layers, net: Mlp, value: Value, activation: str) -> Value:
    """Add the network of DQN in 2.0: the policy head of actor-critic policies."""
    hidden = [f"{_SCOPE}/pi_fc{number}" for number in range(0 if net.inputs.cnn else len(net.layers))]
    value = _add_hidden(layers, _SCOPE, hidden, LINEAR, net, value, activation)
    return layers.linear(f"{_SCOPE}/pi", LINEAR, value, _RESULT)


def _add_hidden(
    layers: Layers, scope: str, modules: Sequence[str], words: tuple[str, str], net: Mlp, value: Value, activation: str
) -> Value:
    """Add hidden layers, each with its normalization and activation."""
    for number, module in enumerate(modules):
        value = layers.linear(module, words, value)
        if net.is_normed:
            value = layers.normalize(scope, number, value)
        value = activate(layers.builder, activation, value, module)
    return value


def _explore(agent: Agent, layers: Layers, space: Discrete, action: Value) -> Sampling:
    """Return how 2.0 draws an action: a random one at the rate that training had reached, otherwise the greatest."""
    if _EPSILON not in agent.tensors or agent.tensors[_EPSILON].shape:
        return Sampling("none")
    add, constant = layers.builder.add, layers.builder.constant
    rate = layers.weight(_EPSILON)
    greatest = add("OneHot", action, depth=space.n)
    chosen = add("Mul", greatest, add("Sub", constant(1.0), rate))
    logits = add("Log", add("Add", chosen, add("Div", rate, constant(float(greatest.shape[0])))))
    return Sampling("categorical", ACTION, {"logits": logits.name}, logits.shape)
