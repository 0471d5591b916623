"""The networks of PPO, A2C, TRPO, MaskablePPO and RecurrentPPO.

Sources: SB3 ``common/policies.py`` and ``common/distributions.py`` of 0.6 to 2.9, sb3-contrib ``common/maskable`` and
``common/recurrent`` of 1.3 to 2.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.known import changes
from sbformat.known.sb3 import NATURE
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.shapes.activations import TANH, activation_parameters
from sbformat.policies.shapes.agents import (
    NET_ARCH,
    action_size,
    action_space_error,
    make_extractor,
    make_noise_layers,
    output_size,
    read_layer_sizes,
    read_net_arch,
)
from sbformat.policies.shapes.arguments import Arguments
from sbformat.policies.shapes.layers import Parameter, add_alias, add_prefix, linear, lstm, mlp, sequential
from sbformat.policies.shapes.sizes import MAX_LAYERS, NetworkError, Size, describe_value, wrong_value_error

if TYPE_CHECKING:
    from sbformat.pkl.names import Pair
    from sbformat.policies.shapes.agents import Agent, Policy
    from sbformat.policies.shapes.layers import Parameters

_DEFAULT_SIZES: Final = (64, 64)


class _Branches(NamedTuple):
    """The hidden layers of the policy and value networks."""

    shared: list[Size]
    pi: list[Size]
    vf: list[Size]


def actor_critic(agent: Agent, policy: Policy) -> Parameters:
    """``ActorCriticPolicy``: a policy and a value network after a features extractor."""
    extractor, extracted, size = make_extractor(agent, policy)
    return _actor_critic(agent, extractor, extracted, size)


def maskable(agent: Agent, policy: Policy) -> Parameters:
    """``MaskableActorCriticPolicy``: as ``ActorCriticPolicy``, for actions that can be masked."""
    if agent.action_space.distribution == "gaussian":
        raise action_space_error(agent.action_space)
    extractor, extracted, size = make_extractor(agent, policy)
    logits = output_size(agent.action_space)
    if agent.action_space.distribution == "bernoulli":
        logits = logits * 2  # one for each value of a bit
    return _actor_critic(agent._replace(use_sde=False), extractor, extracted, size, logits)


def recurrent(agent: Agent, policy: Policy) -> Parameters:
    """``RecurrentActorCriticPolicy``: an LSTM between the features extractor and the two networks."""
    arguments = Arguments(agent.policy_kwargs)
    extractor, extracted, size = make_extractor(agent, policy)
    hidden = arguments.size("lstm_hidden_size", 256, least=1)
    layers = arguments.size("n_lstm_layers", 1, least=1)
    if layers > MAX_LAYERS:
        raise NetworkError(arguments.key("n_lstm_layers"), f"expected at most {MAX_LAYERS:,} layers, got {layers:,}")
    is_shared = arguments.flag("shared_lstm", default=False)
    has_critic = arguments.flag("enable_critic_lstm", default=True)
    if is_shared and has_critic:
        raise NetworkError(arguments.key("shared_lstm"), "a shared LSTM needs enable_critic_lstm=False")
    if is_shared and not arguments.flag("share_features_extractor", default=True):
        raise NetworkError(arguments.key("shared_lstm"), "a shared LSTM needs share_features_extractor=True")
    made = _actor_critic(agent, extractor, extracted, hidden)
    network = _lstm(arguments.nested("lstm_kwargs"), size, hidden, layers)
    made += add_prefix("lstm_actor", network)
    if has_critic:
        made += add_prefix("lstm_critic", network)
    elif not is_shared:
        made += add_prefix("critic", linear(size, hidden))
    return made


def _lstm(arguments: Arguments, inputs: Size, hidden: Size, layers: Size) -> Parameters:
    names = ("bias", "batch_first", "dropout", "bidirectional", "proj_size", "device", "dtype")
    arguments.refuse_others(names, "LSTM")
    projection = arguments.size("proj_size", 0)
    if projection >= hidden:
        message = f"expected less than lstm_hidden_size ({hidden}), got {projection}"
        raise NetworkError(arguments.key("proj_size"), message)
    dropout = arguments.values.get("dropout", 0.0)
    if isinstance(dropout, bool) or (isinstance(dropout, (int, float)) and not 0 <= dropout <= 1):
        raise NetworkError(arguments.key("dropout"), f"expected a number from 0 to 1, got {describe_value(dropout)}")
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
    activation = activation_parameters(arguments, TANH)
    branches = _branches(agent, extractor)
    split = branches.shared[-1] if branches.shared else inputs
    pi, vf = ((sizes or [split])[-1] for sizes in (branches.pi, branches.vf))
    noise, seen = make_noise_layers(agent, activation, inputs, pi)
    return [
        *_log_std(agent, arguments, seen),
        *_extractor_names(agent, arguments, extracted),
        *add_prefix(changes.SHARED_LAYERS, sequential(mlp(inputs, None, branches.shared, activation))),
        *add_prefix("mlp_extractor.policy_net", sequential(mlp(split, None, branches.pi, activation))),
        *add_prefix("mlp_extractor.value_net", sequential(mlp(split, None, branches.vf, activation))),
        *noise,
        *add_prefix("action_net", linear(pi, output_size(agent.action_space) if logits is None else logits)),
        *add_prefix("value_net", linear(vf, 1)),
    ]


def _log_std(agent: Agent, arguments: Arguments, latent: Size) -> Parameters:
    """The standard deviation of continuous actions: one for each action, or a matrix with gSDE."""
    refuses = not agent.use_sde and agent.release >= changes.SQUASH_NEEDS_GSDE
    if refuses and arguments.flag("squash_output", default=False):
        raise NetworkError(arguments.key("squash_output"), "squash_output needs use_sde=True")
    if agent.action_space.distribution != "gaussian":
        return []
    size = action_size(agent.action_space)
    arguments.require_number("log_std_init")
    if not agent.use_sde:
        return [Parameter("log_std", (size,))]
    return [Parameter("log_std", (latent, size if arguments.flag("full_std", default=True) else 1))]


def _extractor_names(agent: Agent, arguments: Arguments, extracted: Parameters) -> Parameters:
    """The features extractor, under each of its names."""
    made = add_prefix("features_extractor", extracted)
    if agent.release < changes.BRANCH_EXTRACTORS:
        return made
    made += add_alias(changes.ACTOR_EXTRACTOR, "features_extractor", extracted)
    if arguments.flag("share_features_extractor", default=True):
        return made + add_alias(changes.CRITIC_EXTRACTOR, "features_extractor", extracted)
    return made + add_prefix(changes.CRITIC_EXTRACTOR, extracted)


def _branches(agent: Agent, extractor: Pair) -> _Branches:
    """Return the hidden layers that ``net_arch`` describes."""
    value = read_net_arch(agent)
    if value is None:
        sizes = [] if extractor == NATURE else read_layer_sizes(_DEFAULT_SIZES)
        return _Branches([], sizes, sizes)
    takes_dict, shares = agent.release >= changes.PI_AND_VF, agent.release < changes.NO_SHARED_LAYERS
    if takes_dict and isinstance(value, list) and value and isinstance(value[0], dict):
        value = value[0]
    if takes_dict and isinstance(value, dict):
        if shares and not {"pi", "vf"} <= value.keys():
            raise NetworkError(NET_ARCH, f"expected the keys pi and vf, which SB3 {changes.PI_AND_VF} needs")
        return _Branches([], read_layer_sizes(value.get("pi", [])), read_layer_sizes(value.get("vf", [])))
    if not shares:
        if not isinstance(value, (list, tuple, ArrayInfo)):
            raise wrong_value_error(value, NET_ARCH, "a list of layer sizes, or a dict of two lists")
        return _Branches([], read_layer_sizes(value), read_layer_sizes(value))
    if not isinstance(value, (list, tuple)):
        raise wrong_value_error(value, NET_ARCH, "a list of layer sizes, or of sizes and then a dict of two lists")
    split = next((at for at, layer in enumerate(value) if isinstance(layer, dict)), len(value))
    own = value[split] if split < len(value) else {}
    return _Branches(*map(read_layer_sizes, (value[:split], own.get("pi", []), own.get("vf", []))))
