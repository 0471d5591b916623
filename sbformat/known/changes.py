"""Releases of SB3 that pickles can be written for, and the classes of each (VALUES.md 13.7).

Sources: SB3's and sb3-contrib's changelogs and packages, 2.0 to 2.9.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sbformat.errors import UnsupportedError, quote, require_type


class Target(NamedTuple):
    """A release of SB3 without its patch number; compares as releases do."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def version(self) -> str:
        """Its last patch release."""
        return RELEASES[self]


def parse_release(version: str) -> Target | None:
    """Return the release at the start of a version, ``2.7`` of ``2.7.1a0``; None if there is none."""
    match = re.match(_RELEASE, version)
    return Target(int(match[1]), int(match[2])) if match else None


_RELEASE: Final = r"([0-9]{1,3})\.([0-9]{1,3})"
RELEASES: Final = {
    Target(2, 0): "2.0.0",
    Target(2, 1): "2.1.0",
    Target(2, 2): "2.2.1",
    Target(2, 3): "2.3.2",
    Target(2, 4): "2.4.1",
    Target(2, 5): "2.5.0",
    Target(2, 6): "2.6.0",
    Target(2, 7): "2.7.1",
    Target(2, 8): "2.8.0",
    Target(2, 9): "2.9.2",
}
"""Every target, with its last patch release."""
NEWEST: Final = max(RELEASES)

SCHEDULE_CLASSES: Final = Target(2, 7)
"""The first release whose schedules are objects of SB3 classes; before, they were functions."""
ONE_NETWORK_OPTIMIZER: Final = Target(2, 4)
"""The first release whose optimizer of DQN and QRDQN has the parameters of the online network alone."""

BATCH_RENORM: Final = Target(2, 4)
"""The first release of sb3-contrib with CrossQ and its layers."""


def parse_target(text: str | Target) -> Target:
    """Return the target that a version such as ``2.9`` or ``2.9.2`` names.

    :raises UnsupportedError: when it is not a known release of SB3 2
    """
    if isinstance(text, Target):
        target: Target | None = text
    else:
        require_type(text, str, "a release of SB3 such as '2.9'")
        match = re.fullmatch(r"([1-9])\.(0|[1-9][0-9]?)(?:\.[0-9]{1,2})?", text)
        target = Target(int(match[1]), int(match[2])) if match else None
    if target not in RELEASES:
        message = f"{quote(str(text), 40)} is not a target: expected SB3 {min(RELEASES)} to {NEWEST}"
        raise UnsupportedError(message)
    return target
