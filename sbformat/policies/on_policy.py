"""The networks of PPO, A2C, TRPO, MaskablePPO and RecurrentPPO.

Sources: SB3 ``common/policies.py`` and ``common/distributions.py`` of 0.6 to 2.9, sb3-contrib ``common/maskable`` and
``common/recurrent`` of 1.3 to 2.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.agents import (
    NET_ARCH,
    USE_SDE,
    action_size,
    extracted_features,
    layer_sizes,
    logits_of,
    no_actions,
    noise_layers,
    saved_net_arch,
)
from sbformat.policies.extractors import NATURE
from sbformat.policies.layers import Parameter, linear, lstm, mlp, prefixed, renamed, sequential
from sbformat.policies.sizes import MOST_PARAMETERS, TANH, Arguments, NetworkError, Size, activation_of, shown, wrong
from sbformat.values.types import Box, MultiBinary

if TYPE_CHECKING:
    from sbformat.globals.torch import Pair
    from sbformat.policies.agents import Agent, Policy
    from sbformat.policies.layers import Parameters

_ON_POLICY_SIZES: Final = (64, 64)


class _Branches(NamedTuple):
    """The hidden layers of policy and value network."""

    shared: list[Size]
    pi: list[Size]
    vf: list[Size]


def actor_critic(agent: Agent, policy: Policy) -> Parameters:
    """``ActorCriticPolicy``: policy and value network over one features extractor."""
    extractor, extracted, size = extracted_features(agent, policy)
    return _actor_critic(agent, extractor, extracted, size)


def maskable(agent: Agent, policy: Policy) -> Parameters:
    """``MaskableActorCriticPolicy``: the same, for actions that can be masked."""
    if isinstance(agent.action_space, Box):
        raise no_actions(agent.action_space)
    extractor, extracted, size = extracted_features(agent, policy)
    logits = logits_of(agent.action_space)
    if isinstance(agent.action_space, MultiBinary):
        logits = logits * 2  # one for each value of a bit
    return _actor_critic(agent._replace(use_sde=False), extractor, extracted, size, logits)


def recurrent(agent: Agent, policy: Policy) -> Parameters:
    """``RecurrentActorCriticPolicy``: an LSTM before policy and value network."""
    arguments = Arguments(agent.policy_kwargs)
    extractor, extracted, size = extracted_features(agent, policy)
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
    dropout = arguments.values.get("dropout", 0.0)
    if isinstance(dropout, bool) or (isinstance(dropout, (int, float)) and not 0 <= dropout <= 1):
        raise NetworkError(arguments.key("dropout"), f"expected a number from 0 to 1, got {shown(dropout)}")
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
    noise, seen = noise_layers(agent, activation, inputs, pi)
    return [
        *_log_std(agent, arguments, seen),
        *_extractor_names(agent, arguments, extracted),
        *prefixed("mlp_extractor.shared_net", sequential(mlp(inputs, None, branches.shared, activation))),
        *prefixed("mlp_extractor.policy_net", sequential(mlp(split, None, branches.pi, activation))),
        *prefixed("mlp_extractor.value_net", sequential(mlp(split, None, branches.vf, activation))),
        *noise,
        *prefixed("action_net", linear(pi, logits_of(agent.action_space) if logits is None else logits)),
        *prefixed("value_net", linear(vf, 1)),
    ]


def _log_std(agent: Agent, arguments: Arguments, latent: Size) -> Parameters:
    """The standard deviation of continuous actions, one for each or, with gSDE, a matrix."""
    if not agent.use_sde and agent.release >= (2, 2) and arguments.flag("squash_output", default=False):
        raise NetworkError(arguments.key("squash_output"), "squash_output needs use_sde")
    if not isinstance(agent.action_space, Box):
        if agent.use_sde:
            raise NetworkError(USE_SDE, "gSDE takes actions of a Box only")
        return []
    size = action_size(agent.action_space)
    arguments.require_number("log_std_init")
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


def _branches(agent: Agent, extractor: Pair) -> _Branches:
    """Return the layers that ``net_arch`` asks for."""
    value = saved_net_arch(agent)
    key = Arguments({}).key(NET_ARCH)
    if value is None:
        sizes = [] if extractor == NATURE else layer_sizes(list(_ON_POLICY_SIZES))
        return _Branches([], sizes, sizes)
    if agent.release >= (1, 7) and isinstance(value, list) and value and isinstance(value[0], dict):
        value = value[0]
    if isinstance(value, dict) and agent.release >= (1, 7):
        if agent.release < (1, 8) and not {"pi", "vf"} <= value.keys():
            raise NetworkError(key, "expected pi and vf, as SB3 1.7 does")
        return _Branches([], layer_sizes(value.get("pi", [])), layer_sizes(value.get("vf", [])))
    if agent.release >= (1, 8):
        if not isinstance(value, (list, tuple, ArrayInfo)):
            raise wrong(value, key, "a list of layer sizes, or a dict of two")
        return _Branches([], layer_sizes(value), layer_sizes(value))
    if not isinstance(value, (list, tuple)):
        raise wrong(value, key, "a list of layer sizes, or of some and a dict of two")
    split = next((at for at, layer in enumerate(value) if isinstance(layer, dict)), len(value))
    own = value[split] if split < len(value) else {}
    return _Branches(layer_sizes(value[:split]), layer_sizes(own.get("pi", [])), layer_sizes(own.get("vf", [])))
