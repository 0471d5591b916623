"""What a rebuild did, row by row (FORMAT.md 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.globals.torch import Pair

Action: TypeAlias = Literal["kept", "translated", "dropped"]


class Row(NamedTuple):
    """What became of a key of ``data``, or of an entry."""

    entry: str
    key: str | None
    """Of ``data``, a place below it with slashes (``policy_kwargs/device``); a variable of ``pytorch_variables.pth``;
    None for the entry itself."""
    action: Action
    """``kept``: as it was. ``translated``: the same in other words. ``dropped``: not in the result."""
    message: str
    """What was done, or why it was dropped."""
    instead: str | None = None
    """What SB3 uses in the place of what was dropped."""
    was: str | None = None
    """What the original had, in a line, as far as it can be read."""
    is_finding: bool = False
    """Whether the agent computes something else without it, or trains in another way."""


class Required(NamedTuple):
    """A class outside SB3 that the loader imports."""

    key: str
    """Of ``data``; a place below it with slashes."""
    name: str
    """Dotted."""
    pair: Pair
    """Module and name."""

    def to_json(self) -> dict[str, str]:
        """Return it as the report has it."""
        return {"key": self.key, "name": self.name}


class RebuildReport(NamedTuple):
    """The account of a rebuild: every key of ``data`` and every entry has a row."""

    algorithm: str
    """Which one loads the result."""
    written_by: str | None
    """The release of SB3 that wrote the original; None before 0.9."""
    target: str
    """The release of SB3 that the result is for, ``2.9.2``."""
    rows: tuple[Row, ...]
    requires: tuple[Required, ...]
    """What the loader has to be able to import, and trusts then."""

    @property
    def findings(self) -> tuple[Row, ...]:
        """What was dropped or replaced that the agent computes or trains with."""
        return tuple(row for row in self.rows if row.is_finding)

    def counts(self) -> Mapping[str, int]:
        """Return the number of rows by action."""
        actions = [row.action for row in self.rows]
        return {action: actions.count(action) for action in ("kept", "translated", "dropped")}

    def to_json(self) -> dict[str, Any]:
        """Return it as the ``rebuild`` report of ``schema/report.schema.json``."""
        rows = [row._asdict() for row in self.rows]
        requires = [required.to_json() for required in self.requires]
        return {**self._asdict(), "rows": rows, "requires": requires, "counts": self.counts()}
