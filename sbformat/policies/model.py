"""What the builders of graphs take and return: ``sb3`` for Stable-Baselines3, ``sb2`` for Stable Baselines 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.archive import Archive
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Space
    from sbformat.policies.graph import Graph

Family: TypeAlias = Literal["sb3", "sb2"]


class Given(Record):
    """What the caller of ``load_policy`` supplies beside the file."""

    vecnormalize: VecNormalize | None = None
    """Statistics that observations are normalized with."""
    policy_class: str | None = None
    """The class to treat the policy as, as in ``ActorCriticPolicy``, where the file's is missing or not known."""
    observation_space: Space | None = None
    action_space: Space | None = None
    policy_kwargs: Mapping[str, Any] | None = None
    """Arguments of the policy, instead of the file's; a class by its name, as in ``torch.nn`` or SB3."""
    modules: frozenset[str] = frozenset()
    """The modules that the caller supplies as functions of arrays."""


class PolicyModel(Record):
    """A policy, ready for a back end."""

    graph: Graph
    observation_space: Space
    action_space: Space
    algorithm: str | None
    family: Family
    """Whose ``predict`` the policy follows: they differ in shapes and states."""
    was_normalized: bool
    """Whether the agent was trained behind VecNormalize."""
    archive: Archive | None = None
    """Where it comes from."""
