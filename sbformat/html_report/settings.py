"""Settings and spaces of an agent, as rows of tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from sbformat.archive.kinds import OBJECTS
from sbformat.catalogue.rows import GROUPS
from sbformat.data import Serialized
from sbformat.html_report.page import format_shape, format_size
from sbformat.immutable import Record
from sbformat.known.spaces import Space
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from sbformat.archive.hyperparameters import Hyperparameter
    from sbformat.tools.inspect import InspectReport

OTHERS: Final = "Other values"
"""The group of all other keys."""
_SPACES: Final = {"observation_space": "Observation", "action_space": "Action"}


class Setting(Record):
    """A value of ``data``."""

    name: str
    value: str
    note: str
    """How it is stored, unless as JSON; or why it could not be decoded."""


class SpaceRow(Record):
    """A space of the agent."""

    role: str
    """``Observation`` or ``Action``."""
    kind: str
    """``Box``, ``Discrete``, ..., or an empty text if the space is not known."""
    text: str
    parts: tuple[tuple[str, str], ...] = ()
    """Of a Dict or Tuple the name and the text of each space in it."""


def list_settings(report: InspectReport) -> dict[str, list[Setting]]:
    """Return the settings by group; groups without settings are left out, and files of one object have one group."""
    found = {key: value for key, value in (report.hyperparameters or {}).items() if key not in _SPACES}
    groups: dict[str, list[Setting]] = {}
    for group, keys in () if report.format in OBJECTS else GROUPS.items():
        groups[group] = [make_setting(key, found.pop(key)) for key in keys if key in found]
    groups[OTHERS] = [make_setting(key, value) for key, value in found.items()]
    return {group: rows for group, rows in groups.items() if rows}


def make_setting(name: str, found: Hyperparameter) -> Setting:
    """Return a value of ``data`` as text."""
    value = found.value
    if found.how == "json":
        return Setting(name, value if isinstance(value, str) else json.dumps(value), "")
    if isinstance(value, Serialized):
        return Setting(name, f"{value.type}, pickled, {format_size(len(value.pickle))}", found.why or "")
    return Setting(name, render_line(value, name), found.why or "")


def list_spaces(report: InspectReport) -> list[SpaceRow]:
    """Return the spaces of an agent."""
    rows = []
    for key, role in _SPACES.items():
        found = (report.hyperparameters or {}).get(key)
        if found is not None:
            setting = make_setting(key, found)
            space = found.value if isinstance(found.value, Space) else None
            kind = "" if space is None else space.class_name
            sized = f"{kind} of {format_shape(space.shape)}" if space is not None and space.shape else kind
            rows.append(SpaceRow(role, sized, setting.value, () if space is None else _list_parts(space)))
    return rows


def _list_parts(space: Space) -> tuple[tuple[str, str], ...]:
    parts = getattr(space, "spaces", ())
    pairs = parts.items() if isinstance(parts, dict) else enumerate(parts)
    return tuple((str(key), render_line(part)) for key, part in pairs)
