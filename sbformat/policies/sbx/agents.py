"""What the graph of an SBX policy is made of: the archive, its networks, the observation and the caller's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sbformat.nets.inference import read_given_kwargs
from sbformat.policies.sbx.activations import find_activation
from sbformat.policies.sbx.branches import Branch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.formats.sbx import SbxArchive
    from sbformat.formats.sbx.modules import Module
    from sbformat.known.spaces import Space
    from sbformat.policies.builder import GraphBuilder, Value
    from sbformat.policies.model import Given
    from sbformat.policies.sbx.branches import Weights


class Agent(NamedTuple):
    """What the graph is made of."""

    archive: SbxArchive
    builder: GraphBuilder
    weights: Weights
    modules: Mapping[str, Module]
    given: Given
    observation: Value
    """As the networks get it."""
    action_space: Space


def open_branch(agent: Agent, state: str, module: Module) -> Branch:
    """Return the parameters of a state as a branch.

    flax has them in ``params`` of the variables of a module; CrossQ saves these alone.

    :param state: its name in the policy: ``actor_state``
    :param module: the network whose parameters they are
    :raises UnsupportedError: when its activation is not known
    """
    activation = find_activation(module, read_given_kwargs(agent.given).get("activation_fn"))
    prefix = f"{state}/params/params/"
    is_nested = any(name.startswith(prefix) for name in agent.weights.tensors)
    return Branch(agent.weights, state, "params/params/" if is_nested else "params/", "", None, activation)
