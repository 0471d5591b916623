"""What decides on a policy's network, and what the networks of several policies have in common.

Sources: SB3 ``common/policies.py`` and ``common/preprocessing.py``, 0.6 to 2.9.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.policies.extractors import choices, features
from sbformat.policies.layers import mlp, prefixed, sequential
from sbformat.policies.sizes import Arguments, NetworkError, Size, sizes_of
from sbformat.values.types import Box, Discrete, MultiBinary, MultiDiscrete

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.globals.torch import Pair
    from sbformat.policies.layers import Parameters
    from sbformat.policies.releases import Release
    from sbformat.values.types import Space

ACTIONS: Final = "action_space"
NET_ARCH: Final = "net_arch"
USE_SDE: Final = "use_sde"


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
            name for name in self.arguments if self.since.get(name, (0, 0)) <= release < self.until.get(name, (9999, 0))
        )


def extracted_features(agent: Agent, policy: Policy) -> tuple[Pair, Parameters, Size]:
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


def action_size(space: Space) -> Size:
    """Return the number of components of an action."""
    if isinstance(space, Box):
        return Size(prod(space.shape), ACTIONS)
    if isinstance(space, Discrete):
        return Size(1, ACTIONS)
    if isinstance(space, MultiDiscrete):
        return Size(len(choices(space, ACTIONS)), ACTIONS)
    if isinstance(space, MultiBinary):
        return _bits(space)
    raise no_actions(space)


def _bits(space: MultiBinary) -> Size:
    if len(space.shape) != 1:
        raise NetworkError(ACTIONS, f"expected a MultiBinary of one dimension, got the shape {space.shape}")
    return Size(space.shape[0], ACTIONS)


def no_actions(space: Space) -> NetworkError:
    """Return the error for actions that a policy does not take."""
    name = type(space).__name__.removesuffix("Space")
    return NetworkError(ACTIONS, f"the policy takes no actions of a {name}")


def logits_of(space: Space) -> Size:
    """Return the number of outputs for a distribution over actions, or for their mean."""
    if isinstance(space, Discrete):
        return Size(space.n, ACTIONS)
    if isinstance(space, MultiDiscrete):
        return Size(sum(choices(space, ACTIONS)), ACTIONS)
    return action_size(space)


def layer_sizes(value: object) -> list[Size]:
    """Return what ``net_arch`` asks for, or a part of it, as sizes."""
    return sizes_of(value, Arguments({}).key(NET_ARCH))


def saved_net_arch(agent: Agent) -> Any:
    """Return ``net_arch`` as ``load`` hands it on: since 1.8 a dict, when a list begins with one."""
    value = agent.policy_kwargs.get(NET_ARCH)
    if agent.release >= (1, 8) and isinstance(value, list) and value and isinstance(value[0], dict):
        return value[0]
    return value


def noise_layers(agent: Agent, activation: Parameters, inputs: Size, latent: Size) -> tuple[Parameters, Size]:
    """The layers that gSDE had of its own until 1.2, and the size of what it sees."""
    value = agent.policy_kwargs.get("sde_net_arch")
    if value is None or agent.release >= (1, 3):
        return [], latent
    sizes = sizes_of(value, Arguments({}).key("sde_net_arch"))
    layers = prefixed("sde_features_extractor", sequential(mlp(inputs, None, sizes, activation)))
    return layers, (sizes or [inputs])[-1]
