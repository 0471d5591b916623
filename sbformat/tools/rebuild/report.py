"""The report of a rebuild: a row for each key of ``data`` and each entry (REBUILDING.md 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.pkl.names import Pair

Action: TypeAlias = Literal["kept", "translated", "dropped"]

DEFAULT_NOTE: Final = "the default of {}: the file has no such key"
"""The message on a key of the result that the file does not have, with the name of the algorithm."""


class Row(Record):
    """What became of a key of ``data`` or of an entry."""

    entry: str
    key: str | None
    """A key of ``data``, or a path below it (``policy_kwargs/device``); a variable of ``pytorch_variables.pth``; None
    for the entry itself."""
    action: Action
    """``kept``: equal. ``translated``: the same meaning in another form. ``dropped``: not in the result."""
    message: str
    """What was done, or why it was dropped."""
    instead: str | None = None
    """What SB3 uses instead of what was dropped."""
    was: str | None = None
    """The original value, in one line, if it can be decoded."""
    is_finding: bool = False
    """Whether the agent computes or trains differently without it."""
    now: str | None = None
    """The value in the result, in one line; None if the result does not contain the key."""
    old: Any = None
    """The original value as JSON: numbers, texts, lists and dicts as they are, and an object with its ``kind`` for what
    JSON does not have (``{"kind": "LinearSchedule", "start": 0.001, ...}``). None where there is none, or it cannot be
    decoded."""
    new: Any = None
    """The value in the result, likewise; of what was dropped, the value that SB3 uses then, if it is known."""
    new_key: str | None = None
    """The key in the result that has the value, where it is another one."""
    is_hyperparameter: bool = False
    """Whether the algorithm trains with the value, or makes its networks from it."""


class Required(Record):
    """A class or function outside SB3 that loading the result imports."""

    key: str
    """A key of ``data``, or a path below it."""
    name: str
    """The dotted name."""
    pair: Pair
    """Module and name."""

    def to_json(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"key": self.key, "name": self.name}


class RebuildReport(Record):
    """The report of a rebuild: every key of ``data`` and every entry has a row."""

    algorithm: str
    """The algorithm that loads the result."""
    written_by: str | None
    """The version of SB3 that wrote the original; None before 0.9."""
    target: str
    """The version of SB3 that the result is for: ``2.9.2``."""
    rows: tuple[Row, ...]
    requires: tuple[Required, ...]
    """What loading the result imports, and therefore trusts."""
    sb2_algorithm: str | None = None
    """The algorithm of Stable Baselines 2 that wrote the original: ``PPO2``; None for an archive of SB3."""

    @property
    def hyperparameters(self) -> tuple[Row, ...]:
        """The rows of the values that the algorithm trains with, or makes its networks from."""
        return tuple(row for row in self.rows if row.is_hyperparameter)

    @property
    def findings(self) -> tuple[Row, ...]:
        """The rows of what the agent computes or trains with and that is different now."""
        return tuple(row for row in self.rows if row.is_finding)

    def counts(self) -> Mapping[str, int]:
        """Return the number of rows by action."""
        actions = [row.action for row in self.rows]
        return {action: actions.count(action) for action in ("kept", "translated", "dropped")}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: the ``rebuild`` report of ``schema/report.schema.json``."""
        rows = [row._asdict() for row in self.rows]
        requires = [required.to_json() for required in self.requires]
        return {**self._asdict(), "rows": rows, "requires": requires, "counts": self.counts()}

    def __repr__(self) -> str:
        from sbformat.tools.rebuild.display import describe

        return describe(self)

    def _repr_html_(self) -> str:
        """Return what became of each key and entry for notebooks."""
        from sbformat.tools.rebuild.display import render

        return render(self)
