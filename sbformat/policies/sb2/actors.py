"""The policies of SAC, TD3 and DDPG: ``policies.py`` of each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from sbformat.formats.sb2.networks import DENSE, actor, critics, ddpg_actor
from sbformat.known.spaces import Box
from sbformat.policies.sb2.actions import add_noisy, add_squashed
from sbformat.policies.sb2.activations import activate, read_activation
from sbformat.policies.sb2.agents import unsupported_actions
from sbformat.policies.sb2.observations import encode_observation, normalize_for_ddpg
from sbformat.policies.sb2.structures import find_mlp

if TYPE_CHECKING:
    from sbformat.formats.sb2.networks import Mlp
    from sbformat.policies.builder import Value
    from sbformat.policies.graph import Sampling
    from sbformat.policies.sb2.agents import Agent
    from sbformat.policies.sb2.layers import Layers

_SCOPE: Final = "model/pi"
_CRITICS: Final = "model/values_fn"
_PERTURBED: Final = "noise/pi"
_DEFAULT_ACTIVATION: Final = "relu"
_LOG_STD_RANGE: Final = (-20.0, 2.0)


def add_actor(agent: Agent, layers: Layers) -> tuple[dict[str, Value], Sampling]:
    """Add a policy, and return its outputs and how actions are drawn."""
    if not isinstance(agent.action_space, Box):
        raise unsupported_actions(agent)
    add = {"SAC": _add_sac, "TD3": _add_td3, "DDPG": _add_ddpg}[agent.learner]
    return add(agent, layers, agent.action_space)


def _add_sac(agent: Agent, layers: Layers, space: Box) -> tuple[dict[str, Value], Sampling]:
    net = find_mlp(agent, _SCOPE, (partial(actor, outputs=2),)).net
    builder = layers.builder
    observation = encode_observation(agent, builder, is_scaled=net.inputs.cnn is not None)
    hidden = _add_hidden_layers(agent, layers, net, _SCOPE, observation)
    mean = layers.linear(f"{_SCOPE}/dense", DENSE, hidden, "mean")
    least, most = (builder.constant(bound) for bound in _LOG_STD_RANGE)
    log_std = builder.add("Max", layers.linear(f"{_SCOPE}/dense_1", DENSE, hidden), least)
    log_std = builder.add("Min", log_std, most, name="log_std")
    outputs: dict[str, Value] = {}
    sampling = add_squashed(builder, space, mean, log_std, outputs)
    outputs |= {"mean": mean, "log_std": log_std}
    expected = critics(_CRITICS, net, ("vf",))
    if all(name in agent.tensors and agent.tensors[name].shape == shape for name, shape in expected):
        hidden = _add_hidden_layers(agent, layers, net, _CRITICS, observation, within="/vf")
        head = layers.linear(f"{_CRITICS}/vf/vf", DENSE, hidden)
        outputs["value"] = builder.add("Reshape", head, shape=(), name="value")
    return outputs, sampling


def _add_td3(agent: Agent, layers: Layers, space: Box) -> tuple[dict[str, Value], Sampling]:
    net = find_mlp(agent, _SCOPE, (partial(actor, outputs=1),)).net
    observation = encode_observation(agent, layers.builder, is_scaled=net.inputs.cnn is not None)
    hidden = _add_hidden_layers(agent, layers, net, _SCOPE, observation)
    squashed = layers.builder.add("Tanh", layers.linear(f"{_SCOPE}/dense", DENSE, hidden), module=f"{_SCOPE}/dense")
    outputs: dict[str, Value] = {}
    noise = agent.data.get("action_noise")
    sampling = add_noisy(layers.builder, space, squashed, None, noise, outputs)
    return outputs, sampling


def _add_ddpg(agent: Agent, layers: Layers, space: Box) -> tuple[dict[str, Value], Sampling]:
    net = find_mlp(agent, _SCOPE, (ddpg_actor,)).net
    observation = encode_observation(agent, layers.builder, is_scaled=net.inputs.cnn is not None)
    observation = normalize_for_ddpg(agent, layers, observation)
    squashed = _add_ddpg_actor(agent, layers, net, _SCOPE, observation)
    perturbed = None
    if agent.data.get("param_noise") is not None:
        expected = ddpg_actor(_PERTURBED, net)
        if all(name in agent.tensors and agent.tensors[name].shape == shape for name, shape in expected):
            perturbed = _add_ddpg_actor(agent, layers, net, _PERTURBED, observation)
    outputs: dict[str, Value] = {}
    noise = agent.data.get("action_noise")
    sampling = add_noisy(layers.builder, space, squashed, perturbed, noise, outputs)
    return outputs, sampling


def _add_ddpg_actor(agent: Agent, layers: Layers, net: Mlp, scope: str, observation: Value) -> Value:
    hidden = _add_hidden_layers(agent, layers, net, scope, observation)
    return layers.builder.add("Tanh", layers.linear(f"{scope}/pi", DENSE, hidden), module=f"{scope}/pi")


def _add_hidden_layers(
    agent: Agent, layers: Layers, net: Mlp, scope: str, observation: Value, *, within: str = ""
) -> Value:
    """Add a CNN or nothing, then the layers ``fc0``, ``fc1``, ...

    :param within: the scope of the layers below that of the CNN
    """
    activation = read_activation(agent.policy.settings.get("act_fun", _DEFAULT_ACTIVATION))
    cnn = net.inputs.cnn
    value = layers.cnn(scope, cnn, observation) if cnn is not None else layers.flatten(observation)
    for number in range(len(net.layers)):
        name = f"{scope}{within}/fc{number}"
        value = layers.linear(name, DENSE, value)
        if net.is_normed:
            value = layers.normalize(f"{scope}{within}", number, value)
        value = activate(layers.builder, activation, value, name)
    return value
