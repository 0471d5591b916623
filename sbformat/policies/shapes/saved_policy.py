"""The network of a file written by ``policy.save()``: it has the policy's arguments, not its class (FORMAT.md 6.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.known.changes import ERAS
from sbformat.nets.wrappers import unwrap_policy
from sbformat.policies.shapes.agents import USE_SDE, Agent
from sbformat.policies.shapes.arguments import is_true
from sbformat.policies.shapes.mismatches import find_mismatches, read_shapes
from sbformat.policies.shapes.parameters import NetworkMatch, decode_value, list_parameters, read_space
from sbformat.policies.shapes.policy_classes import POLICIES
from sbformat.policies.shapes.sizes import NetworkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.pkl.names import Pair
    from sbformat.policies.shapes.mismatches import Mismatch

_OBSERVATIONS: Final = "observation_space"
_ACTIONS: Final = "action_space"
_NOT_ARGUMENTS: Final = frozenset({_OBSERVATIONS, _ACTIONS, "lr_schedule"})


def require_known_network(archive: Archive) -> None:
    """Refuse a file of ``policy.save()`` whose names and shapes fit no policy of SB3 with its arguments.

    The file may still be correct: the policy may be a custom one.

    :param archive: of the format ``policy-file``
    :raises SbformatError: as :func:`match_saved_policy`
    """
    match_saved_policy(archive)


def match_saved_policy(archive: Archive, replaced: Mapping[str, Any] | None = None) -> NetworkMatch:
    """Return the network of a file of ``policy.save()``: that of the first policy whose names and shapes fit.

    Policies with the fewest arguments that the file does not have come first: the masked actor-critic's arguments are
    among those of ``ActorCriticPolicy``.

    :param archive: of the format ``policy-file``
    :param replaced: fields of the agent that are not read; see :func:`~sbformat.policies.shapes.read_agent`
    :raises UnsupportedError: when no policy fits; the message describes how the nearest one differs
    :raises SbformatError: when an entry cannot be read
    """
    policy = unwrap_policy(archive)
    actual = read_shapes(policy.state_dict)
    nearest: tuple[int, str] | None = None
    unknown: UnsupportedError | None = None
    for agent in list_saved_agents(archive, replaced or {}):
        try:
            parameters = list_parameters(agent)
        except NetworkError as error:
            nearest = nearest or (len(actual) + 1, f"{error.key}: {error.message}")
            continue
        except UnsupportedError as error:  # in this release, or in this policy
            unknown = unknown or error
            continue
        mismatches = find_mismatches({parameter.name: parameter.shape for parameter in parameters}, actual)
        if not mismatches:
            return NetworkMatch(agent, parameters, ())
        if nearest is None or len(mismatches) < nearest[0]:
            nearest = len(mismatches), _describe_nearest(agent.policy_class, mismatches)
    if unknown is not None and nearest is None:
        raise unknown
    policy.require_all()
    why = f"; {nearest[1]}" if nearest else ""
    message = f"the file does not name its policy class, and no policy of SB3 with these arguments fits{why}"
    raise UnsupportedError(message, entry=DATA_ENTRY)


def _describe_nearest(policy_class: Pair, mismatches: tuple[Mismatch, ...]) -> str:
    more = f", and {len(mismatches) - 1:,} more" if len(mismatches) > 1 else ""
    return f"the nearest is {policy_class[1]}, which differs: {mismatches[0].message}{more}"


def list_saved_agents(archive: Archive, replaced: Mapping[str, Any]) -> Iterator[Agent]:
    """Yield an agent for every policy and release that accepts the arguments of a file of ``policy.save()``.

    :param replaced: as in :func:`match_saved_policy`
    :raises SbformatError: when an argument cannot be read
    """
    arguments = {key: decode_value(archive, key) for key in archive.data if key not in _NOT_ARGUMENTS}
    arguments.update(replaced.get("policy_kwargs", {}))
    for pair, policy in sorted(POLICIES.items(), key=lambda item: len(item[1].arguments - arguments.keys())):
        if replaced.get("policy_class") not in (None, pair):
            continue
        is_on_policy = "full_std" in policy.arguments
        use_sde = is_on_policy and is_true(arguments.get(USE_SDE), USE_SDE)
        kwargs = {key: value for key, value in arguments.items() if not (is_on_policy and key == USE_SDE)}
        for release in ERAS:
            if kwargs.keys() <= policy.argument_names(release):
                observations, actions = (
                    replaced.get(key) or read_space(archive, key, pair) for key in (_OBSERVATIONS, _ACTIONS)
                )
                yield Agent(pair, observations, actions, kwargs, use_sde, release)
