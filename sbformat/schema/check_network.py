"""Check the policy and its optimizers against the network that ``data`` describes (FORMAT.md 6.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import DATA_ENTRY, POLICY_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, ValidationError
from sbformat.nets.wrappers import unwrap_policy
from sbformat.schema.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.archive.archive import Archive

_SBX_POLICY: Final = "policy"
_MOST_MISMATCHES: Final = 100


def check_sbx_network(archive: Archive) -> Iterator[Problem]:
    """Yield why the weights of an archive of SBX are not those of its networks, or why that is not known.

    :param archive: an archive of SBX
    """
    from sbformat.limits import Budget
    from sbformat.nets.sbx import build_sbx_policy
    from sbformat.policies.builder import Given

    try:
        build_sbx_policy(archive, Given(), Budget(archive.limits))
    except ValidationError as error:
        yield Problem(_SBX_POLICY, "", "mismatch", "error", error.message)
    except UnsupportedError as error:
        yield Problem(_SBX_POLICY, "", "unchecked", "info", f"names and shapes are not checked: {error.message}")
    except SbformatError:  # check_readable reports entries that cannot be decoded
        return


def list_wrappers(archive: Archive) -> Iterator[Problem]:
    """Yield the wrappers of torch that were removed from the names of the policy (FORMAT.md 6.8)."""
    for note in unwrap_policy(archive).notes:
        message = f"{note}; SB3's load does not do this: load with sbformat.sb3.load, or rebuild"
        yield Problem(POLICY_ENTRY, "", "mismatch", "warning", message)


def check_network(archive: Archive) -> Iterator[Problem]:
    """Yield the names and shapes of tensors that differ from those that ``data`` requires.

    :param archive: an archive of SB3
    """
    from sbformat.nets.arguments import NetworkError
    from sbformat.nets.reading import find_contradictions, find_optimizer_mismatches, match_network

    if DATA_ENTRY not in archive.entries or POLICY_ENTRY not in archive.state_dicts:
        return
    try:
        match = match_network(archive)
        policy = unwrap_policy(archive)
        found = [(POLICY_ENTRY, row) for row in match.mismatches]
        if not found:
            contradictions = find_contradictions(policy.state_dict, match.parameters)
            optimizers = find_optimizer_mismatches(archive, match)
            found = [*((POLICY_ENTRY, row) for row in contradictions), *optimizers]
    except NetworkError as error:
        if error.key.partition("/")[0] in archive.data:
            message = f"SB3 cannot make the network: {error.message}"
            yield Problem(DATA_ENTRY, f"/{error.key}", "mismatch", "error", message)
        return
    except UnsupportedError as error:
        yield Problem(POLICY_ENTRY, "", "unchecked", "info", f"names and shapes are not checked: {error.message}")
        return
    except SbformatError:  # check_readable reports entries that cannot be decoded
        return
    yield from list_wrappers(archive)
    for entry, row in found[:_MOST_MISMATCHES]:
        yield Problem(entry, "", "mismatch", "error", row.message)
    if len(found) > _MOST_MISMATCHES:
        message = f"{len(found) - _MOST_MISMATCHES:,} more names or shapes do not fit"
        yield Problem(found[-1][0], "", "mismatch", "error", message)
