"""Archives as old releases and strangers wrote them, made of the bundled ones by one change; no SB3, no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import sbformat
from sbformat import Archive, Serialized, pkl
from sbformat.pkl import Global
from sbformat.tools.rebuild import RebuildReport, rebuild
from tests.helpers.build_blobs import tree
from tests.helpers.bundled import ARCHIVES, PPO, SAC, set_data

if TYPE_CHECKING:
    from sbformat.tools.rebuild import Row

OLD: Final = ARCHIVES / "ppo-cartpole-1.0.zip"
BASES: Final = {"ppo": sbformat.read(PPO), "sac": sbformat.read(SAC), "old": sbformat.read(OLD)}

FRESH: Final = {
    name: base.replace(
        parameters={
            entry: {**state_dict.to_numpy(), "state": {}}
            for entry, state_dict in base.parameters.items()
            if entry.endswith("optimizer")
        },
    )
    for name, base in BASES.items()
}
"""The same with optimizers that made no step: a third of each archive is not rebuilt in each test."""


def blob(content: object, kind: str = "<class 'x'>") -> Serialized:
    """A serialized value that says a tree."""
    return Serialized(kind, pkl.dumps(tree(content)))


def reference(module: str, name: str) -> Serialized:
    return blob(Global(module, name), "<class 'abc.ABCMeta'>")


def with_keys(base: str = "ppo", **values: Any) -> Archive:
    """A bundled archive with fresh optimizers and other values in ``data``; Ellipsis removes one."""
    data = {**FRESH[base].data, **values}
    return set_data(FRESH[base], {key: value for key, value in data.items() if value is not ...})


def rebuilt(archive: Archive, **options: Any) -> tuple[Archive, dict[str, Row], RebuildReport]:
    """The result as it is read again, the rows by their place, and the report."""
    made, report = rebuild(archive, **options)
    again = sbformat.reads(sbformat.writes(made))
    assert again == made
    rows = {row.key or row.entry: row for row in report.rows}
    return again, rows, report
