"""The network of a file of ``policy.save()``, which has the policy's arguments and not its class (FORMAT.md 6.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import DATA_ENTRY, POLICY_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.policies.agents import USE_SDE, Agent
from sbformat.policies.mismatches import find_mismatches, shapes_of
from sbformat.policies.parameters import POLICIES, meaning_of, parameters_of, space_of
from sbformat.policies.releases import ERAS
from sbformat.policies.sizes import NetworkError, is_true

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.globals.torch import Pair
    from sbformat.policies.mismatches import Mismatch

_OBSERVATIONS: Final = "observation_space"
_ACTIONS: Final = "action_space"
_OF_NO_NETWORK: Final = frozenset({_OBSERVATIONS, _ACTIONS, "lr_schedule"})


def require_known_network(archive: Archive) -> None:
    """Refuse a file of ``policy.save()`` whose names and shapes are those of no policy of SB3 with its arguments.

    It may be right all the same: the policy may be another author's.

    :param archive: of the format ``policy-file``
    :raises UnsupportedError: when no policy fits; the message says what the nearest one has otherwise
    :raises SbformatError: for an entry that cannot be read
    """
    actual = shapes_of(archive.state_dict(POLICY_ENTRY))
    arguments = {key: meaning_of(archive, key) for key in archive.data if key not in _OF_NO_NETWORK}
    nearest: tuple[int, str] | None = None
    for agent in _candidates(archive, arguments):
        try:
            expected = {parameter.name: parameter.shape for parameter in parameters_of(agent)}
        except NetworkError as error:
            nearest = nearest or (len(actual) + 1, f"{error.key}: {error.message}")
            continue
        mismatches = find_mismatches(expected, actual)
        if not mismatches:
            return
        if nearest is None or len(mismatches) < nearest[0]:
            nearest = len(mismatches), _described(agent.policy_class, mismatches)
    why = f"; {nearest[1]}" if nearest else ""
    message = f"the file does not name its policy class, and no policy of SB3 with these arguments fits{why}"
    raise UnsupportedError(message, entry=DATA_ENTRY)


def _described(policy_class: Pair, mismatches: tuple[Mismatch, ...]) -> str:
    more = f", and {len(mismatches) - 1:,} more" if len(mismatches) > 1 else ""
    return f"from the nearest, {policy_class[1]}, differs: {mismatches[0].message}{more}"


def _candidates(archive: Archive, arguments: Mapping[str, object]) -> Iterator[Agent]:
    """Yield the agents of every policy and release that takes the arguments."""
    for pair, policy in POLICIES.items():
        is_on_policy = "full_std" in policy.arguments
        use_sde = is_on_policy and is_true(arguments.get(USE_SDE), USE_SDE)
        kwargs = {key: value for key, value in arguments.items() if not (is_on_policy and key == USE_SDE)}
        for release in ERAS:
            if kwargs.keys() <= policy.argument_names(release):
                observations, actions = (space_of(archive, key, pair) for key in (_OBSERVATIONS, _ACTIONS))
                yield Agent(pair, observations, actions, kwargs, use_sde, release)
