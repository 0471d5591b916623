"""The networks of SAC, TQC, CrossQ, TD3 and DDPG: an actor and critics.

Sources: SB3 ``sac/policies.py``, ``td3/policies.py`` and ``common/policies.py`` of 0.6 to 2.9, sb3-contrib
``tqc/policies.py`` and ``crossq/policies.py`` of 0.11 to 2.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sbformat.known import changes
from sbformat.known.sb3 import NATURE
from sbformat.policies.shapes.activations import RELU, activation_parameters
from sbformat.policies.shapes.agents import (
    NET_ARCH,
    USE_SDE,
    action_size,
    make_extractor,
    make_noise_layers,
    read_layer_sizes,
    read_net_arch,
)
from sbformat.policies.shapes.arguments import Arguments
from sbformat.policies.shapes.layers import Parameter, add_prefix, batch_renorm, linear, mlp, sequential
from sbformat.policies.shapes.sizes import MAX_LAYERS, NetworkError, Size, wrong_value_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.policies.shapes.agents import Agent, Policy
    from sbformat.policies.shapes.layers import Parameters

    _NetArch = list[int] | dict[str, list[int]]


class _Parts(NamedTuple):
    """What an actor and its critics are made of."""

    extracted: Parameters
    features: Size
    actor: list[Size]
    critic: list[Size]
    activation: Parameters
    renorm: bool = False
    """Whether a batch renormalisation precedes each layer."""


def _read_parts(agent: Agent, policy: Policy, default: _NetArch, images: _NetArch) -> _Parts:
    extractor, extracted, size = make_extractor(agent, policy)
    value = read_net_arch(agent)
    if value is None and extractor == NATURE:
        value = images if agent.release >= changes.LAYERS_AFTER_CNN else []
    elif value is None:
        value = default
    takes_dict = agent.release >= changes.PI_AND_QF
    if isinstance(value, dict) and takes_dict:
        if not {"pi", "qf"} <= value.keys():
            raise NetworkError(NET_ARCH, "expected the keys pi and qf, for actor and critics")
        actor, critic = read_layer_sizes(value["pi"]), read_layer_sizes(value["qf"])
    elif isinstance(value, list) or (isinstance(value, tuple) and not takes_dict):
        actor = critic = read_layer_sizes(value)
    else:
        raise wrong_value_error(value, NET_ARCH, "a list of layer sizes, or a dict of two lists")
    return _Parts(extracted, size, actor, critic, activation_parameters(Arguments(agent.policy_kwargs), RELU))


def sac(agent: Agent, policy: Policy) -> Parameters:
    """``SACPolicy``: a Gaussian actor, critics, and their targets."""
    return _actor_critics(agent, _read_parts(agent, policy, [256, 256], [256, 256]), Size(1, ""))


def tqc(agent: Agent, policy: Policy) -> Parameters:
    """``TQCPolicy``: as SAC's, with critics that return quantiles."""
    parts = _read_parts(agent, policy, [256, 256], [256, 256])
    return _actor_critics(agent, parts, Arguments(agent.policy_kwargs).size("n_quantiles", 25))


def crossq(agent: Agent, policy: Policy) -> Parameters:
    """``CrossQPolicy``: as SAC's, with batch renormalisation and without targets."""
    default = {"pi": [256, 256], "qf": [1024, 1024]}
    renorm = Arguments(agent.policy_kwargs).flag("batch_norm", default=True)
    parts = _read_parts(agent, policy, default, default)._replace(renorm=renorm)
    return [parameter for parameter in _actor_critics(agent, parts, Size(1, "")) if "target" not in parameter.name]


def _actor_critics(agent: Agent, parts: _Parts, outputs: Size) -> Parameters:
    critic = _critic(agent, parts, outputs)
    actor = _gaussian_actor(agent, parts)
    modules = {"actor": actor, "critic": critic, "critic_target": critic}
    return _with_extractors(agent, parts, modules, {"critic": "actor"})


def td3(agent: Agent, policy: Policy) -> Parameters:
    """``TD3Policy``, which DDPG uses too: a deterministic actor, critics, and their targets."""
    parts = _read_parts(agent, policy, [400, 300], [256, 256])
    layers = mlp(parts.features, action_size(agent.action_space), parts.actor, parts.activation)
    actor = [*add_prefix("features_extractor", parts.extracted), *add_prefix("mu", sequential(layers))]
    critic = _critic(agent, parts, Size(1, ""))
    modules = {"actor": actor, "actor_target": actor, "critic": critic, "critic_target": critic}
    return _with_extractors(agent, parts, modules, {"critic": "actor", "critic_target": "actor_target"})


def _with_extractors(
    agent: Agent, parts: _Parts, modules: Mapping[str, Parameters], shared: Mapping[str, str]
) -> Parameters:
    """Return all modules with their names; in old releases they all used one features extractor of the policy.

    :param modules: by name
    :param shared: modules whose features extractor is another module's, with the name of that one
    """
    made: Parameters = []
    if agent.release < changes.OWN_EXTRACTORS:
        made += add_prefix("features_extractor", parts.extracted)
        shared = dict.fromkeys(modules, "")
    elif not shares_extractor(agent):
        shared = {}
    for name, module in modules.items():
        for parameter in add_prefix(name, module):
            owner = shared.get(name)
            if owner is not None and parameter.name.startswith(f"{name}.features_extractor."):
                first = f"{owner}{parameter.name.removeprefix(name)}".removeprefix(".")
                made.append(parameter._replace(same_as=first))
            else:
                made.append(parameter)
    return made


def shares_extractor(agent: Agent) -> bool:
    """Return whether actor and critics share one features extractor."""
    default = agent.release < changes.UNSHARED_EXTRACTORS
    return Arguments(agent.policy_kwargs).flag("share_features_extractor", default=default)


def _gaussian_actor(agent: Agent, parts: _Parts) -> Parameters:
    """SAC's ``Actor``: mean and standard deviation of the actions."""
    arguments = Arguments(agent.policy_kwargs)
    latent = (parts.actor or [parts.features])[-1]
    size = action_size(agent.action_space)
    modules = mlp(parts.features, None, parts.actor, parts.activation, renorm=parts.renorm)
    if parts.renorm and parts.actor:
        modules.append(batch_renorm(latent))
    mean = linear(latent, size)
    noise: Parameters = []
    if not arguments.flag(USE_SDE, default=False):
        log_std, before = add_prefix("log_std", linear(latent, size)), []
    else:
        arguments.require_number("log_std_init")
        noise, seen = make_noise_layers(agent, parts.activation, parts.features, latent)
        log_std, before = [], [Parameter("log_std", (seen, size))]
        if _clips_mean(arguments):
            mean = add_prefix("0", mean)
    return [
        *before,
        *add_prefix("features_extractor", parts.extracted),
        *add_prefix("latent_pi", sequential(modules)),
        *noise,
        *add_prefix("mu", mean),
        *log_std,
    ]


def _clips_mean(arguments: Arguments) -> bool:
    value = arguments.values.get("clip_mean", 2.0)
    if not isinstance(value, (int, float)):
        raise wrong_value_error(value, arguments.key("clip_mean"), "a number")
    return value > 0.0


def _critic(agent: Agent, parts: _Parts, outputs: Size) -> Parameters:
    """``ContinuousCritic``: networks that return the value of an observation and an action."""
    inputs = parts.features + action_size(agent.action_space)
    layers = sequential(mlp(inputs, outputs, parts.critic, parts.activation, renorm=parts.renorm))
    names = list(changes.CRITICS)
    if agent.release >= changes.NUMBERED_CRITICS:
        arguments = Arguments(agent.policy_kwargs)
        count = arguments.number_of("n_critics", 2, least=1)
        if count * (len(layers) + 1) > MAX_LAYERS:
            message = f"expected critics of at most {MAX_LAYERS:,} tensors, got {count:,} critics"
            raise NetworkError(arguments.key("n_critics"), message)
        names = [f"qf{number}" for number in range(count)]
    made = add_prefix("features_extractor", parts.extracted)
    for name in names:
        made += add_prefix(name, layers)
    return made
