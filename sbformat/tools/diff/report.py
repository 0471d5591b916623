"""What a comparison of two archives found."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.rendering import count_noun

ChangeKind: TypeAlias = Literal[
    "added", "removed", "value", "type", "dtype", "shape", "flags", "order", "structure", "bytes"
]
Side: TypeAlias = Literal["first", "second"]

_DISPLAYED: Final = 1000
"""Changes that a display looks at."""


class Change(Record):
    """One difference between the first archive and the second.

    The numbers after ``message`` are those of tensors of the same dtype and shape whose elements differ (kind
    ``value``), and None for any other change.
    """

    entry: str
    loc: str
    """In ``data`` a JSON pointer, in a state dict the path of the tensor; empty for the whole entry."""
    kind: ChangeKind
    message: str
    """What changed, in words."""
    max_abs_difference: float | None = None
    """The largest difference of two elements, infinite if it is more than a float can represent; None where elements
    differ by NaN."""
    l2_difference: float | None = None
    """The Euclidean norm of the difference of the two tensors, infinite if it is more than a float can represent; None
    where elements differ by NaN."""
    relative_change: float | None = None
    """``l2_difference`` divided by the norm of the first tensor, infinite if that is zero or the difference is
    infinite; None if one is not a number."""
    differing: int | None = None
    """Number of elements that differ; with a tolerance, by more than that."""
    numel: int | None = None
    """Number of elements of the tensor."""
    old: Any = None
    """The value in the first archive as JSON: numbers, texts, lists and dicts as they are, and an object with its
    ``kind`` for what JSON does not have (``{"kind": "tensor", "dtype": "float32", "shape": [4]}``). None where the
    first archive has no such value (``added``), and where entries or orders differ rather than values."""
    new: Any = None
    """The value in the second archive, likewise; None for ``removed``."""


class StateDictComparison(Record):
    """A state dict that both archives contain."""

    name: str
    equal: int
    """Number of tensors that are equal: bit for bit, and in dtype, shape and flags."""
    different: int
    """Number of tensors that differ, or that only one archive contains."""
    max_abs_difference: float | None
    """The largest difference of two elements of any of its tensors; None where elements of one differ by NaN, and where
    none differ."""
    l2_difference: float | None = None
    """The Euclidean norm of the differences of all its tensors together; None like ``max_abs_difference``."""
    close: int = 0
    """Number of tensors that differ, but by no more than the tolerance."""


class UnreadableEntry(Record):
    """An entry that one of the two archives cannot decode: a wrong CRC, say. It was compared by its bytes."""

    entry: str
    side: Side
    """``first`` or ``second``."""
    outcome: str
    """As in :attr:`sbformat.SbformatError.outcome`."""
    message: str


class DiffReport(Record):
    """The differences of two archives.

    ``changes`` is empty exactly when they are equal (FORMAT.md 9), or with ``only`` and tolerances, when what was
    compared is equal within these.
    """

    changes: tuple[Change, ...]
    state_dicts: tuple[StateDictComparison, ...]
    unreadable: tuple[UnreadableEntry, ...] = ()
    """Entries that cannot be decoded. Two of equal bytes are equal, also if the CRC of one is wrong."""
    close: int = 0
    """Number of tensors, numbers and values of ``data`` that differ, but by no more than the tolerance: they are not
    among the changes."""

    def __repr__(self) -> str:
        entries = ", ".join(dict.fromkeys(escape(change.entry, 60) for change in self.changes[:_DISPLAYED]))
        changes = count_noun(len(self.changes), "change") + (f" in {entries}" if entries else "")
        unreadable = count_noun(len(self.unreadable), "unreadable entry", "unreadable entries")
        return f"<DiffReport: {escape(changes)}, {unreadable}>"

    def _repr_html_(self) -> str:
        """Return the changes for notebooks."""
        from sbformat.notebook import render_output, render_paragraph, render_table

        rows = [(change.entry, change.loc, change.kind, change.message) for change in self.changes[:_DISPLAYED]]
        changes = render_table("", ("entry", "where", "kind", "what changed"), rows, count=len(self.changes))
        broken = [(row.entry, row.side, row.outcome, row.message) for row in self.unreadable[:_DISPLAYED]]
        header = ("entry", "archive", "outcome", "why")
        unreadable = render_table("cannot be decoded", header, broken, count=len(self.unreadable))
        title = f"DiffReport: {count_noun(len(self.changes), 'change')}"
        return render_output(title, [changes or render_paragraph("What was compared is equal."), unreadable])
