"""The columns of a catalogue: those of every row, then the hyper-parameters of most files, and the rest as JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbformat.catalogue.columns import order_column
from sbformat.catalogue.flat_rows import COLUMNS
from sbformat.rendering import read_number, write_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.catalogue.flat_rows import Row
    from sbformat.catalogue.rows import Scalar

MOST_COLUMNS: Final = 900
"""Hyper-parameters that are columns. A table of SQLite has at most 2,000, and Parquet may need two for each."""
OTHER: Final = "other"
"""The column with the values that have none of their own, as JSON."""
_COUNTED: Final = 50_000
"""Names that are counted in memory; of more, those that are rare are forgotten."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a catalogue."""

    name: str
    types: frozenset[type]
    """Of its values: int, float, bool and str."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a catalogue, in their order."""

    listed: tuple[Column, ...]
    has_other: bool
    """Whether rows have values that are in no column of their own."""

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [column.name for column in self.listed] + ([OTHER] if self.has_other else [])

    def arrange(self, row: Row) -> list[Scalar]:
        """Return the values of a row in the order of the names."""
        values = [row.get(column.name) for column in self.listed]
        if self.has_other:
            known = {column.name for column in self.listed}
            rest = {name: write_number(value) for name, value in row.items() if name not in known and value is not None}
            values.append(json.dumps(rest, ensure_ascii=False, sort_keys=True) if rest else None)
        return values


def find_columns(rows: Iterable[Row]) -> Columns:
    """Return the columns of rows, which does not depend on their order unless there are very many names."""
    types: dict[str, set[type]] = {name: {kind} for name, kind in COLUMNS.items()}
    counts: Counter[str] = Counter()
    is_cut = False
    for row in rows:
        for name, value in row.items():
            if value is None or name in COLUMNS:
                continue
            counts[name] += 1
            types.setdefault(name, set()).add(type(value))
        if len(counts) > _COUNTED:
            is_cut = True
            rare = {name for name, _ in counts.most_common()[_COUNTED // 2 :]}
            for name in rare:
                del counts[name], types[name]
    kept = sorted(counts, key=lambda name: (-counts[name], name))[:MOST_COLUMNS]
    names = [*COLUMNS, *sorted(kept, key=lambda name: (*order_column(name), name))]
    listed = tuple(Column(name, frozenset(types[name])) for name in names)
    return Columns(listed, is_cut or len(counts) > len(kept))


def join_other(row: Row) -> Row:
    """Return a row that was read with the values of its column ``other`` as columns of their own."""
    rest = row.pop(OTHER, None)
    if isinstance(rest, str):
        row.update((name, read_number(value)) for name, value in dict(json.loads(rest)).items())
    return row


def drop_empty(row: Row) -> Row:
    """Return a row without the hyper-parameters that have no value."""
    return {name: value for name, value in row.items() if value is not None or name in COLUMNS}


def read_row(names: list[str], values: Iterable[Scalar]) -> Row:
    """Return a row of a table."""
    return drop_empty(join_other(dict(zip(names, values))))
