"""The networks of SB3's and sb3-contrib's policies, parameter by parameter.

Sources: SB3 ``common/policies.py``, ``common/distributions.py`` and ``*/policies.py`` of 0.6 to 2.9, sb3-contrib
``*/policies.py`` of 0.11 to 2.9.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.known.values import Box, Discrete, MultiBinary, MultiDiscrete
from sbformat.policies.extractors import NATURE, choices, features
from sbformat.policies.layers import (
    Parameter,
    Parameters,
    batch_renorm,
    linear,
    lstm,
    mlp,
    prefixed,
    renamed,
    sequential,
)
from sbformat.policies.sizes import (
    MOST_PARAMETERS,
    RELU,
    TANH,
    Arguments,
    NetworkError,
    Size,
    activation_of,
    sizes_of,
    wrong,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.known.values import Space
    from sbformat.names.pth import Pair
    from sbformat.policies.releases import Release

    _NetArch = list[int] | dict[str, list[int]]

_ACTIONS: Final = "action_space"
_NET_ARCH: Final = "net_arch"
_USE_SDE: Final = "use_sde"
_ON_POLICY_SIZES: Final = (64, 64)


class Agent(NamedTuple):
    """What decides on a policy's network."""

    policy_class: Pair
    """By its name of today."""
    observation_space: Space
    action_space: Space
    policy_kwargs: Mapping[str, Any]
    use_sde: bool
    """The algorithm's, which on-policy algorithms hand on to their policy."""
    release: Release
    """Of SB3."""


class Policy(NamedTuple):
    """A policy class."""

    network: Callable[[Agent, Policy], Parameters]
    extractor: Pair
    """Its default features extractor."""
    arguments: frozenset[str]
    """That it takes, in any release."""
    since: Mapping[str, Release]
    """The first release of arguments that came later."""
    until: Mapping[str, Release]
    """The first release without arguments that went."""

    def argument_names(self, release: Release) -> frozenset[str]:
        """Return the arguments that it takes in a release."""
        return frozenset(
            name
            for name in self.arguments
            if self.since.get(name, (0, 0)) <= release < self.until.get(name, (9999, 0))
        )


# -- what several have in common ----------------------------------------------------------------------


def _extracted(agent: Agent, policy: Policy) -> tuple[Pair, Parameters, Size]:
    """Return the class, the parameters and the size of the features extractor."""
    arguments = Arguments(agent.policy_kwargs)
    extractor = arguments.reference("features_extractor_class", policy.extractor)
    parameters, size = features(
        extractor,
        agent.observation_space,
        arguments.nested("features_extractor_kwargs"),
        agent.release,
        is_normalized=not arguments.flag("normalize_images", default=True),
    )
    return extractor, parameters, size


def _action_size(space: Space) -> Size:
    """Return the number of components of an action."""
    if isinstance(space, Box):
        return Size(prod(space.shape), _ACTIONS)
    if isinstance(space, Discrete):
        return Size(1, _ACTIONS)
    if isinstance(space, MultiDiscrete):
        return Size(len(choices(space, _ACTIONS)), _ACTIONS)
    if isinstance(space, MultiBinary):
        return _bits(space)
    raise _no_actions(space)


def _bits(space: MultiBinary) -> Size:
    if len(space.shape) != 1:
        raise NetworkError(_ACTIONS, f"expected a MultiBinary of one dimension, got the shape {space.shape}")
    return Size(space.shape[0], _ACTIONS)


def _no_actions(space: Space) -> NetworkError:
    name = type(space).__name__.removesuffix("Space")
    return NetworkError(_ACTIONS, f"the policy takes no actions of a {name}")


def _logits(space: Space) -> Size:
    """Return the number of outputs for a distribution over actions, or for their mean."""
    if isinstance(space, Discrete):
        return Size(space.n, _ACTIONS)
    if isinstance(space, MultiDiscrete):
        return Size(sum(choices(space, _ACTIONS)), _ACTIONS)
    return _action_size(space)


def _actions_of_q(space: Space) -> Size:
    if isinstance(space, Discrete):
        return Size(space.n, _ACTIONS)
    raise _no_actions(space)


def _sizes(value: object) -> list[Size]:
    return sizes_of(value, Arguments({}).key(_NET_ARCH))


def _saved_sizes(agent: Agent) -> Any:  # noqa: ANN401 -- of any type
    """Return ``net_arch`` as ``load`` hands it on: since 1.8 a dict, when a list begins with one."""
    value = agent.policy_kwargs.get(_NET_ARCH)
    if agent.release >= (1, 8) and isinstance(value, list) and value and isinstance(value[0], dict):
        return value[0]
    return value


# -- PPO and its relatives ----------------------------------------------------------------------------


class _Branches(NamedTuple):
    """The hidden layers of policy and value network."""

    shared: list[Size]
    pi: list[Size]
    vf: list[Size]


def actor_critic(agent: Agent, policy: Policy) -> Parameters:
    """``ActorCriticPolicy``: policy and value network over one features extractor."""
    extractor, extracted, size = _extracted(agent, policy)
    return _actor_critic(agent, extractor, extracted, size)


def maskable(agent: Agent, policy: Policy) -> Parameters:
    """``MaskableActorCriticPolicy``: the same, for actions that can be masked."""
    if isinstance(agent.action_space, Box):
        raise _no_actions(agent.action_space)
    extractor, extracted, size = _extracted(agent, policy)
    logits = _logits(agent.action_space)
    if isinstance(agent.action_space, MultiBinary):
        logits = logits * 2  # one for each value of a bit
    return _actor_critic(agent._replace(use_sde=False), extractor, extracted, size, logits)


def recurrent(agent: Agent, policy: Policy) -> Parameters:
    """``RecurrentActorCriticPolicy``: an LSTM before policy and value network."""
    arguments = Arguments(agent.policy_kwargs)
    extractor, extracted, size = _extracted(agent, policy)
    hidden = arguments.size("lstm_hidden_size", 256, least=1)
    layers = arguments.size("n_lstm_layers", 1, least=1)
    if layers > MOST_PARAMETERS:
        raise NetworkError(arguments.key("n_lstm_layers"), f"{layers:,} layers are more than any network has")
    is_shared = arguments.flag("shared_lstm", default=False)
    has_critic = arguments.flag("enable_critic_lstm", default=True)
    if is_shared and has_critic:
        raise NetworkError(arguments.key("shared_lstm"), "a shared LSTM needs enable_critic_lstm to be false")
    if is_shared and not arguments.flag("share_features_extractor", default=True):
        raise NetworkError(arguments.key("shared_lstm"), "a shared LSTM needs a shared features extractor")
    made = _actor_critic(agent, extractor, extracted, hidden)
    network = _lstm(arguments.nested("lstm_kwargs"), size, hidden, layers)
    made += prefixed("lstm_actor", network)
    if has_critic:
        made += prefixed("lstm_critic", network)
    elif not is_shared:
        made += prefixed("critic", linear(size, hidden))
    return made


def _lstm(arguments: Arguments, inputs: Size, hidden: Size, layers: Size) -> Parameters:
    names = ("bias", "batch_first", "dropout", "bidirectional", "proj_size", "device", "dtype")
    arguments.refuse_others(names, "LSTM")
    projection = arguments.size("proj_size", 0)
    if projection >= hidden:
        raise NetworkError(arguments.key("proj_size"), f"expected less than lstm_hidden_size {hidden}")
    return lstm(
        inputs,
        hidden,
        layers,
        bias=arguments.flag("bias", default=True),
        bidirectional=arguments.flag("bidirectional", default=False),
        projection=projection,
    )


def _actor_critic(
    agent: Agent, extractor: Pair, extracted: Parameters, inputs: Size, logits: Size | None = None
) -> Parameters:
    arguments = Arguments(agent.policy_kwargs)
    activation = activation_of(arguments, TANH)
    branches = _branches(agent, extractor)
    split = branches.shared[-1] if branches.shared else inputs
    pi, vf = ((sizes or [split])[-1] for sizes in (branches.pi, branches.vf))
    noise, seen = _noise_layers(agent, activation, inputs, pi)
    return [
        *_log_std(agent, arguments, seen),
        *_extractor_names(agent, arguments, extracted),
        *prefixed("mlp_extractor.shared_net", sequential(mlp(inputs, None, branches.shared, activation))),
        *prefixed("mlp_extractor.policy_net", sequential(mlp(split, None, branches.pi, activation))),
        *prefixed("mlp_extractor.value_net", sequential(mlp(split, None, branches.vf, activation))),
        *noise,
        *prefixed("action_net", linear(pi, _logits(agent.action_space) if logits is None else logits)),
        *prefixed("value_net", linear(vf, 1)),
    ]


def _log_std(agent: Agent, arguments: Arguments, latent: Size) -> Parameters:
    """The standard deviation of continuous actions, one for each or, with gSDE, a matrix."""
    if not agent.use_sde and agent.release >= (2, 2) and arguments.flag("squash_output", default=False):
        raise NetworkError(arguments.key("squash_output"), "squash_output needs use_sde")
    if not isinstance(agent.action_space, Box):
        if agent.use_sde:
            raise NetworkError(_USE_SDE, "gSDE takes actions of a Box only")
        return []
    size = _action_size(agent.action_space)
    if not agent.use_sde:
        return [Parameter("log_std", (size,))]
    return [Parameter("log_std", (latent, size if arguments.flag("full_std", default=True) else 1))]


def _extractor_names(agent: Agent, arguments: Arguments, extracted: Parameters) -> Parameters:
    """The features extractor, by three names since 1.7."""
    made = prefixed("features_extractor", extracted)
    if agent.release < (1, 7):
        return made
    made += renamed("pi_features_extractor", "features_extractor", extracted)
    if arguments.flag("share_features_extractor", default=True):
        return made + renamed("vf_features_extractor", "features_extractor", extracted)
    return made + prefixed("vf_features_extractor", extracted)


def _noise_layers(agent: Agent, activation: Parameters, inputs: Size, latent: Size) -> tuple[Parameters, Size]:
    """The layers that gSDE had of its own until 1.2, and the size of what it sees."""
    value = agent.policy_kwargs.get("sde_net_arch")
    if value is None or agent.release >= (1, 3):
        return [], latent
    sizes = sizes_of(value, Arguments({}).key("sde_net_arch"))
    layers = prefixed("sde_features_extractor", sequential(mlp(inputs, None, sizes, activation)))
    return layers, (sizes or [inputs])[-1]


def _branches(agent: Agent, extractor: Pair) -> _Branches:
    """Return the layers that ``net_arch`` asks for."""
    value = _saved_sizes(agent)
    key = Arguments({}).key(_NET_ARCH)
    if value is None:
        sizes = [] if extractor == NATURE else _sizes(list(_ON_POLICY_SIZES))
        return _Branches([], sizes, sizes)
    if agent.release >= (1, 7) and isinstance(value, list) and value and isinstance(value[0], dict):
        value = value[0]
    if isinstance(value, dict) and agent.release >= (1, 7):
        if agent.release < (1, 8) and not {"pi", "vf"} <= value.keys():
            raise NetworkError(key, "expected pi and vf, as SB3 1.7 does")
        return _Branches([], _sizes(value.get("pi", [])), _sizes(value.get("vf", [])))
    if not isinstance(value, (list, tuple)):
        raise wrong(value, key, "a list of layer sizes, or a dict of two")
    if agent.release >= (1, 8):
        return _Branches([], _sizes(value), _sizes(value))
    split = next((at for at, layer in enumerate(value) if isinstance(layer, dict)), len(value))
    own = value[split] if split < len(value) else {}
    return _Branches(_sizes(value[:split]), _sizes(own.get("pi", [])), _sizes(own.get("vf", [])))


# -- DQN, QR-DQN --------------------------------------------------------------------------------------


def q_network(agent: Agent, policy: Policy) -> Parameters:
    """``DQNPolicy``: a network, and its target."""
    return _value_network(agent, policy, "q_net", _actions_of_q(agent.action_space))


def quantile_network(agent: Agent, policy: Policy) -> Parameters:
    """``QRDQNPolicy``: the same with quantiles of each action's value."""
    quantiles = Arguments(agent.policy_kwargs).size("n_quantiles", 200)
    return _value_network(agent, policy, "quantile_net", _actions_of_q(agent.action_space) * quantiles)


def _value_network(agent: Agent, policy: Policy, name: str, outputs: Size) -> Parameters:
    extractor, extracted, size = _extracted(agent, policy)
    value = _saved_sizes(agent)
    sizes = _sizes(([] if extractor == NATURE else [64, 64]) if value is None else value)
    activation = activation_of(Arguments(agent.policy_kwargs), RELU)
    network = [
        *prefixed("features_extractor", extracted),
        *prefixed(name, sequential(mlp(size, outputs, sizes, activation))),
    ]
    return [*prefixed(name, network), *prefixed(f"{name}_target", network)]


# -- SAC, TD3 and their relatives ---------------------------------------------------------------------


class _Parts(NamedTuple):
    """What actor and critics are made of."""

    extracted: Parameters
    features: Size
    actor: list[Size]
    critic: list[Size]
    activation: Parameters
    renorm: bool = False
    """Whether a batch renormalisation is before each layer."""


def _parts(agent: Agent, policy: Policy, default: _NetArch, images: _NetArch) -> _Parts:
    extractor, extracted, size = _extracted(agent, policy)
    key = Arguments({}).key(_NET_ARCH)
    value = _saved_sizes(agent)
    if value is None and extractor == NATURE:
        value = images if agent.release >= (1, 6) else []
    elif value is None:
        value = default
    if isinstance(value, dict) and agent.release >= (0, 10):
        if not {"pi", "qf"} <= value.keys():
            raise NetworkError(key, "expected pi and qf, the layers of actor and critics")
        actor, critic = _sizes(value["pi"]), _sizes(value["qf"])
    elif isinstance(value, list) or (isinstance(value, tuple) and agent.release < (0, 10)):
        actor = critic = _sizes(value)
    else:
        raise wrong(value, key, "a list of layer sizes, or a dict of two")
    return _Parts(extracted, size, actor, critic, activation_of(Arguments(agent.policy_kwargs), RELU))


def sac(agent: Agent, policy: Policy) -> Parameters:
    """``SACPolicy``: a Gaussian actor, critics, and their targets."""
    return _actor_critics(agent, _parts(agent, policy, [256, 256], [256, 256]), Size(1, ""))


def tqc(agent: Agent, policy: Policy) -> Parameters:
    """``TQCPolicy``: SAC's with critics of quantiles."""
    parts = _parts(agent, policy, [256, 256], [256, 256])
    return _actor_critics(agent, parts, Arguments(agent.policy_kwargs).size("n_quantiles", 25))


def crossq(agent: Agent, policy: Policy) -> Parameters:
    """``CrossQPolicy``: SAC's with batch renormalisation, and without targets."""
    default = {"pi": [256, 256], "qf": [1024, 1024]}
    renorm = Arguments(agent.policy_kwargs).flag("batch_norm", default=True)
    parts = _parts(agent, policy, default, default)._replace(renorm=renorm)
    return [parameter for parameter in _actor_critics(agent, parts, Size(1, "")) if "target" not in parameter.name]


def _actor_critics(agent: Agent, parts: _Parts, outputs: Size) -> Parameters:
    critic = _critic(agent, parts, outputs)
    actor = _gaussian_actor(agent, parts)
    return _with_extractors(agent, parts, {"actor": actor, "critic": critic, "critic_target": critic}, {"critic": "actor"})


def td3(agent: Agent, policy: Policy) -> Parameters:
    """``TD3Policy``, of DDPG too: a deterministic actor, critics, and their targets."""
    parts = _parts(agent, policy, [400, 300], [256, 256])
    layers = mlp(parts.features, _action_size(agent.action_space), parts.actor, parts.activation)
    actor = [*prefixed("features_extractor", parts.extracted), *prefixed("mu", sequential(layers))]
    critic = _critic(agent, parts, Size(1, ""))
    modules = {"actor": actor, "actor_target": actor, "critic": critic, "critic_target": critic}
    return _with_extractors(agent, parts, modules, {"critic": "actor", "critic_target": "actor_target"})


def _with_extractors(
    agent: Agent, parts: _Parts, modules: Mapping[str, Parameters], shared: Mapping[str, str]
) -> Parameters:
    """Return modules by name; until 0.9 the features extractor of all was the policy's own."""
    made: Parameters = []
    if agent.release < (0, 10):
        made += prefixed("features_extractor", parts.extracted)
        shared = dict.fromkeys(modules, "")
    elif not shares_extractor(agent):
        shared = {}
    for name, module in modules.items():
        for parameter in prefixed(name, module):
            owner = shared.get(name)
            if owner is not None and parameter.name.startswith(f"{name}.features_extractor."):
                first = f"{owner}{parameter.name.removeprefix(name)}".removeprefix(".")
                made.append(parameter._replace(same_as=first))
            else:
                made.append(parameter)
    return made


def shares_extractor(agent: Agent) -> bool:
    """Return whether actor and critics have one features extractor, which was the default before 1.6."""
    return Arguments(agent.policy_kwargs).flag("share_features_extractor", default=agent.release < (1, 6))


def _gaussian_actor(agent: Agent, parts: _Parts) -> Parameters:
    """``Actor`` of SAC: mean and standard deviation of the actions."""
    arguments = Arguments(agent.policy_kwargs)
    latent = (parts.actor or [parts.features])[-1]
    size = _action_size(agent.action_space)
    modules = mlp(parts.features, None, parts.actor, parts.activation, renorm=parts.renorm)
    if parts.renorm and parts.actor:
        modules.append(batch_renorm(latent))
    mean = linear(latent, size)
    noise: Parameters = []
    if not arguments.flag(_USE_SDE, default=False):
        log_std, before = prefixed("log_std", linear(latent, size)), []
    else:
        noise, seen = _noise_layers(agent, parts.activation, parts.features, latent)
        log_std, before = [], [Parameter("log_std", (seen, size))]
        if _clips_mean(arguments):
            mean = prefixed("0", mean)
    return [
        *before,
        *prefixed("features_extractor", parts.extracted),
        *prefixed("latent_pi", sequential(modules)),
        *noise,
        *prefixed("mu", mean),
        *log_std,
    ]


def _clips_mean(arguments: Arguments) -> bool:
    value = arguments.values.get("clip_mean", 2.0)
    if not isinstance(value, (int, float)):
        raise wrong(value, arguments.key("clip_mean"), "a number")
    return value > 0.0


def _critic(agent: Agent, parts: _Parts, outputs: Size) -> Parameters:
    """``ContinuousCritic``: networks that value observation and action."""
    inputs = parts.features + _action_size(agent.action_space)
    layers = sequential(mlp(inputs, outputs, parts.critic, parts.activation, renorm=parts.renorm))
    names = ["q1_net", "q2_net"]
    if agent.release >= (0, 8):
        arguments = Arguments(agent.policy_kwargs)
        count = arguments.size("n_critics", 2, least=1)
        if count * (len(layers) + 1) > MOST_PARAMETERS:
            raise NetworkError(arguments.key("n_critics"), f"{count:,} critics are more than any network has")
        names = [f"qf{number}" for number in range(count)]
    made = prefixed("features_extractor", parts.extracted)
    for name in names:
        made += prefixed(name, layers)
    return made


# -- ARS ----------------------------------------------------------------------------------------------


def ars(agent: Agent, policy: Policy) -> Parameters:
    """``ARSPolicy``: one network, with or without biases."""
    return _ars(agent, policy, [64, 64], bias=True)


def ars_linear(agent: Agent, policy: Policy) -> Parameters:
    """``ARSLinearPolicy``: one layer, by itself before 1.7."""
    if agent.release >= (1, 7):
        return _ars(agent, policy, [], bias=False)
    arguments = Arguments(agent.policy_kwargs)
    _, _, size = _extracted(agent, policy)
    layer = linear(size, _ars_outputs(agent.action_space), bias=arguments.flag("with_bias", default=False))
    is_squashed = isinstance(agent.action_space, Box) and arguments.flag("squash_output", default=False)
    return prefixed("action_net", sequential([layer]) if is_squashed else layer)


def _ars(agent: Agent, policy: Policy, default: list[int], *, bias: bool) -> Parameters:
    arguments = Arguments(agent.policy_kwargs)
    _, _, size = _extracted(agent, policy)
    value = _saved_sizes(agent)
    sizes = _sizes(default if value is None else value)
    activation = activation_of(arguments, RELU)
    outputs = _ars_outputs(agent.action_space)
    bias = arguments.flag("with_bias", default=bias)
    return prefixed("action_net", sequential(mlp(size, outputs, sizes, activation, bias=bias)))


def _ars_outputs(space: Space) -> Size:
    if isinstance(space, (Box, Discrete)):
        return _logits(space)
    raise _no_actions(space)
