"""The parts of archives that a comparison can be limited to: groups of entries, and single ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import DATA_ENTRY, OPTIMIZER_WORD, PTH_SUFFIX, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.errors import MissingEntryError, require_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.archive.archive import Archive

WEIGHTS: Final = "weights"
OPTIMIZERS: Final = "optimizers"
SYSTEM: Final = "system"
GROUPS: Final = (WEIGHTS, OPTIMIZERS, DATA_ENTRY, SYSTEM)
"""``weights``: the state dicts but those of optimizers; ``system``: the version and the system info."""


def select_entries(only: Iterable[str] | str | None, old: Archive, new: Archive) -> tuple[str, ...]:
    """Return the names of the entries to compare: those that only the first has, then those of the second.

    :param only: groups, or entries with or without ``.pth``; None for all
    :raises MissingEntryError: when neither archive has one of them
    :raises TypeError: when a name is not a str
    :raises ValueError: when there is none
    """
    names = (*(name for name in old.contents if name not in new.contents), *new.contents)
    if only is None:
        return names
    members = _list_members(names, {*old.state_dicts, *new.state_dicts})
    selected: set[str] = set()
    parts = (only,) if isinstance(only, str) else require_names(only, "only")
    if not parts:
        message = "expected at least one name in only; None compares everything"
        raise ValueError(message)
    for part in parts:
        if not members.get(part):
            present = [name for name, found in members.items() if found]
            raise MissingEntryError(part, present=present, what="part of either archive")
        selected.update(members[part])
    return tuple(name for name in names if name in selected)


def _list_members(names: tuple[str, ...], state_dicts: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the entries of each part by its name: of groups, and of entries under both of their names."""
    optimizers = {name for name in state_dicts if OPTIMIZER_WORD in name}
    groups = {
        WEIGHTS: state_dicts - optimizers,
        OPTIMIZERS: optimizers,
        DATA_ENTRY: {DATA_ENTRY},
        SYSTEM: {VERSION_ENTRY, SYSTEM_INFO_ENTRY},
    }
    members = {group: tuple(name for name in names if name in found) for group, found in groups.items()}
    for name in names:
        members.setdefault(name, (name,))
        members.setdefault(name.removesuffix(PTH_SUFFIX), (name,))
    return members
