"""The policies of A2C, ACER, ACKTR, GAIL, PPO1, PPO2 and TRPO: ``common/policies.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.formats.sb2.networks import LINEAR, LSTM
from sbformat.formats.sb2.policies import read_sizes
from sbformat.known.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from sbformat.policies.sb2.actions import add_bits, add_choice, add_choices, add_clipped
from sbformat.policies.sb2.activations import activate, read_activation
from sbformat.policies.sb2.agents import unsupported_actions
from sbformat.policies.sb2.observations import encode_observation
from sbformat.policies.sb2.structures import find_actor_critic

if TYPE_CHECKING:
    from sbformat.formats.sb2.networks import ActorCritic
    from sbformat.policies.builder import Value
    from sbformat.policies.graph import Sampling
    from sbformat.policies.sb2.agents import Agent
    from sbformat.policies.sb2.layers import Layers

_SCOPE: Final = "model"
_DEFAULT_ACTIVATION: Final = "tanh"


def add_actor_critic(agent: Agent, layers: Layers) -> tuple[dict[str, Value], Sampling]:
    """Add a policy, and return its outputs and how actions are drawn."""
    net = find_actor_critic(agent, _SCOPE)
    policy, value = _add_hidden_layers(agent, layers, net)
    outputs: dict[str, Value] = {}
    sampling = _add_actions(agent, layers, policy, outputs)
    if agent.algorithm == "ACER":
        _add_acer_values(layers, value, outputs)
    else:
        head = layers.linear(f"{_SCOPE}/vf", LINEAR, value)
        outputs["value"] = layers.builder.add("Reshape", head, shape=(), name="value")
    return outputs, sampling


def _add_hidden_layers(agent: Agent, layers: Layers, net: ActorCritic) -> tuple[Value, Value]:
    """Return what the heads of the policy and of the value function get."""
    activation = read_activation(agent.policy.settings.get("act_fun", _DEFAULT_ACTIVATION))
    cnn = net.inputs.cnn
    observation = encode_observation(agent, layers.builder, is_scaled=cnn is not None)
    features = layers.cnn(_SCOPE, cnn, observation) if cnn is not None else layers.flatten(observation)
    policy = value = features
    for name, branch, _ in net.steps:
        scope, inputs = f"{_SCOPE}/{name}", value if branch == "vf" else policy
        if name == LSTM:
            made = layers.lstm(scope, inputs, is_normed=net.is_normed)
        else:
            made = activate(layers.builder, activation, layers.linear(scope, LINEAR, inputs), scope)
        policy = policy if branch == "vf" else made
        value = value if branch == "pi" else made
    return policy, value


def _add_actions(agent: Agent, layers: Layers, policy: Value, outputs: dict[str, Value]) -> Sampling:
    """Add the action, and what the policy's head says about it."""
    builder, space = layers.builder, agent.action_space
    if isinstance(space, Box):
        mean = layers.linear(f"{_SCOPE}/pi", LINEAR, policy, "mean")
        log_std = builder.add("Reshape", layers.weight(f"{_SCOPE}/pi/logstd:0"), shape=mean.shape, name="log_std")
        sampling = add_clipped(builder, space, mean, log_std, outputs)
        outputs |= {"mean": mean, "log_std": log_std}
        return sampling
    logits = layers.linear(f"{_SCOPE}/pi", LINEAR, policy, "logits")
    if isinstance(space, Discrete):
        sampling = add_choice(builder, logits, outputs)
    elif isinstance(space, MultiDiscrete):
        sampling = add_choices(builder, read_sizes(space.nvec), logits, outputs)
    elif isinstance(space, MultiBinary):
        sampling = add_bits(builder, logits, outputs)
    else:
        raise unsupported_actions(agent)
    outputs["logits"] = logits
    return sampling


def _add_acer_values(layers: Layers, value: Value, outputs: dict[str, Value]) -> None:
    """Add the values that ACER learns: of each action; their expectation is the value of the observation."""
    builder = layers.builder
    q_values = layers.linear(f"{_SCOPE}/q", LINEAR, value, "q_values")
    expected = builder.add("Mul", outputs["probabilities"], q_values)
    outputs["q_values"] = q_values
    outputs["value"] = builder.add("ReduceSum", expected, axis=-1, name="value")
