"""Releases of SB3 whose networks differ, and which of them may have written an archive."""

from __future__ import annotations

import re
from typing import Final

Release = tuple[int, int]
"""Major and minor version."""

NEWEST: Final[Release] = (2, 9)
ERAS: Final[tuple[Release, ...]] = (NEWEST, (2, 1), (1, 7), (1, 6), (1, 3), (1, 2), (0, 9), (0, 7))
"""One release for each group of releases with equal networks, the newest first."""
_LAST_MINOR: Final = {1: (0, 11), 2: (1, 8)}
"""The last minor release before each major one."""
_PRE_RELEASE: Final = r"(?:a|b|rc|\.?dev)[0-9]"
_NUMBERS: Final = r"([0-9]{1,6})\.([0-9]{1,6})"


def candidate_releases(version: str | None) -> tuple[Release, ...]:
    """Return the releases whose networks an archive may have, from the version that it names.

    >>> candidate_releases("1.6.2")
    ((1, 6),)

    :param version: ``_stable_baselines3_version``; None without that entry: every group of releases is then possible,
        since SB3 wrote no version before 0.9 and the entry may have been removed. A pre-release may have the networks
        of the release before it.
    """
    match = re.match(_NUMBERS, version or "")
    if match is None:
        return ERAS
    major, minor = int(match[1]), int(match[2])
    if not re.search(_PRE_RELEASE, version or ""):
        return ((major, minor),)
    return (major, minor), (major, minor - 1) if minor else _LAST_MINOR.get(major, NEWEST)
