"""What decides on a policy's network (``Agent``), what a policy class accepts, and the parts that networks share.

Sources: SB3 ``common/policies.py`` and ``common/preprocessing.py``, 0.6 to 2.9.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.known import changes
from sbformat.policies.shapes.arguments import KWARGS, Arguments
from sbformat.policies.shapes.extractors import choice_counts, extractor_parameters
from sbformat.policies.shapes.layers import add_prefix, mlp, sequential
from sbformat.policies.shapes.sizes import NetworkError, Size, read_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.known.changes import Release
    from sbformat.known.spaces import Space
    from sbformat.pkl.names import Pair
    from sbformat.policies.shapes.layers import Parameters

ACTIONS: Final = "action_space"
NET_ARCH: Final = f"{KWARGS}/net_arch"
USE_SDE: Final = "use_sde"


class Agent(NamedTuple):
    """What decides on a policy's network."""

    policy_class: Pair
    """The module and name of the class, as they are today."""
    observation_space: Space
    action_space: Space
    policy_kwargs: Mapping[str, Any]
    use_sde: bool
    """The algorithm's ``use_sde``, which on-policy algorithms pass to their policy."""
    release: Release
    """The release of SB3 that makes the network."""


class Policy(NamedTuple):
    """A policy class."""

    network: Callable[[Agent, Policy], Parameters]
    """Returns the parameters of the whole policy."""
    extractor: Pair
    """The default features extractor."""
    arguments: frozenset[str]
    """The arguments that it accepts, in any release."""
    since: Mapping[str, Release]
    """The first release of the arguments that came later."""
    until: Mapping[str, Release]
    """The first release without the arguments that were removed."""

    def argument_names(self, release: Release) -> frozenset[str]:
        """Return the arguments that it accepts in a release."""
        gone = {name for name, until in self.until.items() if release >= until}
        return self.arguments - gone - {name for name, since in self.since.items() if release < since}


def make_extractor(agent: Agent, policy: Policy) -> tuple[Pair, Parameters, Size]:
    """Return the class of the features extractor, its parameters, and the number of features."""
    arguments = Arguments(agent.policy_kwargs)
    extractor = arguments.reference("features_extractor_class", policy.extractor)
    parameters, size = extractor_parameters(
        extractor,
        agent.observation_space,
        arguments.nested("features_extractor_kwargs"),
        agent.release,
        is_normalized=not arguments.flag("normalize_images", default=True),
    )
    return extractor, parameters, size


def action_size(space: Space) -> Size:
    """Return the number of components of an action."""
    if not space.distribution:
        raise action_space_error(space)
    if space.distribution in ("multi-categorical", "bernoulli") and len(space.shape) != 1:
        message = f"expected a {space.class_name} of one dimension, got the shape {space.shape}"
        raise NetworkError(ACTIONS, message)
    return Size(prod(space.shape), ACTIONS)


def action_space_error(space: Space) -> NetworkError:
    """Return the error for an action space that a policy does not support."""
    return NetworkError(ACTIONS, f"the policy does not support {space.class_name} actions")


def output_size(space: Space) -> Size:
    """Return the number of outputs for a distribution over actions: logits, or the mean of continuous ones."""
    action_size(space)
    choice_counts(space, ACTIONS)
    return Size(space.flat_size(), ACTIONS)


def read_layer_sizes(value: object) -> list[Size]:
    """Return ``net_arch``, or a part of it, as sizes."""
    return read_sizes(value, NET_ARCH)


def read_net_arch(agent: Agent) -> Any:
    """Return ``net_arch`` as SB3's ``load`` passes it on: a list that begins with a dict may be that dict."""
    value = agent.policy_kwargs.get("net_arch")
    if agent.release >= changes.NO_SHARED_LAYERS and isinstance(value, list) and value and isinstance(value[0], dict):
        return value[0]
    return value


def make_noise_layers(agent: Agent, activation: Parameters, inputs: Size, latent: Size) -> tuple[Parameters, Size]:
    """Return the layers that gSDE has for itself, and the number of features that its noise depends on."""
    if not has_noise_layers(agent):
        return [], latent
    sizes = read_sizes(agent.policy_kwargs[changes.NOISE_ARGUMENT], f"{KWARGS}/{changes.NOISE_ARGUMENT}")
    layers = add_prefix(changes.NOISE_LAYERS, sequential(mlp(inputs, None, sizes, activation)))
    return layers, (sizes or [inputs])[-1]


def has_noise_layers(agent: Agent) -> bool:
    """Return whether gSDE has layers for itself, which may be none: its noise then depends on the features."""
    return agent.release < changes.NO_NOISE_LAYERS and agent.policy_kwargs.get(changes.NOISE_ARGUMENT) is not None
