"""Which mutant is active. ``mutants.py`` copies this module into the instrumented package, as ``_mutation.py``.

The number of the active mutant is in a file beside the module and not in an environment variable, since tests start
processes with environments of their own. This is the only module of this folder that those processes import.
"""

from __future__ import annotations

import os

RECORD = -1
"""No mutant is active, and a mutant whose code is executed is noted."""

ORIGINAL = -2
"""No mutant is active."""

_ACTIVE_FILE = f"{os.path.dirname(os.path.abspath(__file__))}/_mutation.active"
_REACHED_FILE = f"{os.path.dirname(os.path.abspath(__file__))}/_mutation.reached"
_reached: set[int] = set()
_active = ORIGINAL
_descriptor = -1


def is_active(mutant: int) -> bool:
    """Whether the code of a mutant is to be executed, instead of the original."""
    if _active == RECORD and mutant not in _reached:
        _reached.add(mutant)
        os.write(_descriptor, b"%d\n" % mutant)
    return mutant == _active


def activate(mutant: int) -> None:
    """Select the mutant of this process and of those that are started later."""
    global _active  # noqa: PLW0603 -- read with every execution of a mutant
    _active = mutant
    with open(_ACTIVE_FILE, "w", encoding="ascii") as file:
        file.write(str(mutant))


def take_reached() -> list[int]:
    """Return the mutants that were reached since the last call, by this process and by its children."""
    with open(_REACHED_FILE, "r+b") as file:
        found = sorted({int(line) for line in file})
        file.truncate(0)
    _reached.clear()
    return found


def _start() -> None:
    global _active, _descriptor  # noqa: PLW0603 -- set once
    if os.path.exists(_ACTIVE_FILE):
        with open(_ACTIVE_FILE, encoding="ascii") as file:
            _active = int(file.read())
        _descriptor = os.open(_REACHED_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


_start()
