"""``diff``: compare two archives, entry by entry, down to the tensor and the key of ``data``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sbformat.constants import DATA_ENTRY, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.errors import LimitError, SbformatError
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.reader import read
from sbformat.tools.diff.parts import GROUPS, select_entries
from sbformat.tools.diff.plain_entries import compare_data, compare_text
from sbformat.tools.diff.report import Change, ChangeKind, DiffReport, StateDictComparison, UnreadableEntry
from sbformat.tools.diff.state_dicts import StateDictsComparer
from sbformat.tools.diff.tolerance import make_tolerance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Final

    from sbformat.archive.archive import Archive
    from sbformat.reader import ArchiveLike
    from sbformat.tools.diff.report import Side
    from sbformat.tools.diff.tolerance import Tolerance

__all__ = ["GROUPS", "Change", "ChangeKind", "DiffReport", "StateDictComparison", "UnreadableEntry", "diff"]

_CHARACTERS_PER_ROW: Final = 256
"""Characters of a location that count as one more reported row."""


def diff(
    old: ArchiveLike,
    new: ArchiveLike,
    *,
    only: Iterable[str] | str | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    progress: Callable[[int], None] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> DiffReport:
    """Compare two archives: hyperparameters by value, tensors bit for bit, everything else by its bytes.

    Entries that cannot be decoded are compared by their bytes, and listed in ``unreadable``. ::

        for change in sbformat.diff("before.zip", "after.zip", only=["weights"], rtol=1e-5).changes:
            print(change.entry, change.loc, change.message, change.relative_change)

    :param old: the first archive, or what :func:`sbformat.read` takes
    :param new: the second one
    :param only: what to compare: ``weights`` (the state dicts but those of optimizers), ``optimizers``, ``data``,
        ``system`` (the version and the system info), and names of entries; None compares everything
    :param rtol: numbers count as equal where ``|new - old| <= atol + rtol * |old|``: elements of tensors, numbers of
        ``data``, and numbers of state dicts, such as a learning rate
    :param atol: the absolute part of that tolerance; with both 0, tensors are compared bit for bit
    :param progress: called with the size of each entry of the second archive when it was compared
    :param limits: for reading
    :raises OSError: when a path cannot be opened
    :raises MissingEntryError: when neither archive has what ``only`` names
    :raises ValueError: for a tolerance that is negative or not finite
    :raises LimitError: for more changes than ``reported_values`` allows
    :raises SbformatError: when one of them is not an archive
    """
    tolerance = make_tolerance(rtol, atol)
    old, new = (read(source, limits=limits, on_unknown="inert") for source in (old, new))
    comparison = _Comparison(old, new, tolerance)
    budget = Budget(old.limits)
    changes: list[Change] = []
    for name in select_entries(only, old, new):
        for change in comparison.compare_entry(name):
            budget.spend("reported_values", 1 + len(change.loc) // _CHARACTERS_PER_ROW)
            changes.append(change)
        if progress is not None and name in new.entries:
            progress(new.entries[name].size)
    return DiffReport(tuple(changes), tuple(comparison.state_dicts), tuple(comparison.unreadable), comparison.close)


class _Comparison:
    """Two archives, and what is reported of them besides changes."""

    def __init__(self, old: Archive, new: Archive, tolerance: Tolerance) -> None:
        self._old = old
        self._new = new
        self._tolerance = tolerance
        self.state_dicts: list[StateDictComparison] = []
        self.unreadable: list[UnreadableEntry] = []
        self.close = 0

    def _count_close(self, count: int = 1) -> None:
        self.close += count

    def compare_entry(self, name: str) -> Iterator[Change]:
        """Yield the changes of an entry."""
        old, new = self._old, self._new
        if name not in new.contents:
            yield Change(name, "", "removed", "the second archive does not contain this entry")
            return
        if name not in old.contents:
            yield Change(name, "", "added", "the first archive does not contain this entry")
            return
        try:
            yield from self._compare_decoded(name)
        except SbformatError as error:
            self._find_unreadable(name)
            if old.raw(name) != new.raw(name):
                yield Change(name, "", "bytes", f"the bytes differ, and at least one side cannot be decoded: {error}")

    def _compare_decoded(self, name: str) -> Iterator[Change]:
        old, new = self._old, self._new
        if name == DATA_ENTRY:
            yield from compare_data(old.data, new.data, self._tolerance, on_close=self._count_close)
        elif name in old.state_dicts and name in new.state_dicts:
            comparer = StateDictsComparer(name, old.state_dict(name), new.state_dict(name), self._tolerance)
            yield from comparer.changes()
            self._count_close(comparer.count_close())
            with contextlib.suppress(LimitError):  # too many values to count, none of which differs
                self.state_dicts.append(comparer.summarize())
        else:
            yield from self._compare_bytes(name)
            self._find_unreadable(name)

    def _compare_bytes(self, name: str) -> Iterator[Change]:
        left, right = self._old.raw(name), self._new.raw(name)
        if left == right:
            return
        if name in (VERSION_ENTRY, SYSTEM_INFO_ENTRY):
            yield from compare_text(name, self._old, self._new)
        else:
            yield Change(name, "", "bytes", f"{len(left):,} bytes became {len(right):,} other bytes")

    def _find_unreadable(self, name: str) -> None:
        """List an entry for each side that cannot decode it."""
        sides: tuple[tuple[Side, Archive], ...] = (("first", self._old), ("second", self._new))
        for side, archive in sides:
            try:
                _decode(name, archive)
            except SbformatError as error:
                self.unreadable.append(UnreadableEntry(name, side, error.outcome, str(error)))


def _decode(name: str, archive: Archive) -> None:
    """Decode an entry with all its tensors.

    :raises SbformatError: when that fails
    """
    if name in archive.state_dicts:
        state_dict = archive.state_dict(name)
        budget = state_dict.new_budget()
        from sbformat.pth.arrays import storage_array

        for storage in state_dict.storages():
            storage_array(storage, budget)
    elif name == DATA_ENTRY:
        _ = archive.data
    else:
        archive.stored_entries.verify(name)
