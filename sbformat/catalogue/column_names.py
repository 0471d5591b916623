"""Names of columns that SQL takes without quotes, made of the keys of ``data``.

Keys come from files: whatever they are, the names are short, made of letters, digits and underscores, in lower case
because SQL does not distinguish cases, and none is that of another column.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST: Final = 64
"""Characters of a name."""
_OTHER: Final = re.compile(r"[^a-z0-9_]")
_PREFIX: Final = "data_"
_RESERVED: Final = frozenset({
    "add", "all", "alter", "and", "as", "autoincrement", "between", "case", "catalog", "check", "collate",
    "commit", "constraint", "create", "default", "deferrable", "delete", "distinct", "drop", "else", "escape",
    "except", "exists", "foreign", "from", "group", "having", "in", "index", "insert", "intersect", "into",
    "is", "isnull", "join", "limit", "not", "notnull", "null", "oid", "on", "or", "order", "other", "primary",
    "references", "returning", "rowid", "select", "set", "table", "then", "to", "transaction", "union",
    "unique", "update", "using", "values", "when", "where", "_rowid_",
})  # fmt: skip
"""Words of SQL that are not names, and names that a table of a catalogue has anyway."""


def name_columns(keys: Iterable[str], taken: frozenset[str]) -> dict[str, str]:
    """Return the name of the column of each key.

    >>> name_columns(["gamma", "policy_kwargs.net_arch", "Gamma", "size"], frozenset({"size"}))
    {'gamma': 'gamma', 'policy_kwargs.net_arch': 'policy_kwargs_net_arch', 'Gamma': 'gamma_2', 'size': 'data_size'}

    :param keys: of one file, each once; a key that is a name already gets it, whatever the others are
    :param taken: names of columns that are not made of keys
    """
    listed = list(keys)
    plain = {key: _name(key, taken) for key in listed}
    used = {name for key, name in plain.items() if key == name}
    names: dict[str, str] = {}
    for key in listed:
        name = plain[key]
        if key != name:
            name = _find_unused(name, used)
            used.add(name)
        names[key] = name
    return names


@lru_cache(maxsize=4096)
def _name(key: str, taken: frozenset[str]) -> str:
    """Return the name that a key has if no other key of its file has it."""
    name = _OTHER.sub("_", key.lower())[:_LONGEST]
    if not name or name[0].isdigit() or name in taken or name in _RESERVED:
        name = f"{_PREFIX}{name}"
    return name


def _find_unused(name: str, used: set[str]) -> str:
    found, number = name, 1
    while found in used:
        number += 1
        found = f"{name}_{number}"
    return found
