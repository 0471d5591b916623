"""The columns of a table of many files: facts, and the hyper-parameters that differ.

:func:`make_table` divides what the rows have into columns, which differ between files, and values that all files share.
"""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from typing import TYPE_CHECKING, Final

from sbformat.catalogue.rows import FACTS, GROUPS
from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.io.urls import find_scheme, is_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.catalogue.rows import FileRow

_NAME: Final = 300
"""Characters of the name of a file."""
_MOST_COLUMNS: Final = 150
_SHOWN_COLUMNS: Final = 12
"""Hyper-parameters that a page shows at first; the others can be added."""
_HIDDEN_FACTS: Final = frozenset({"kind", "episodes", "observation_space", "action_space"})
_CHOICES: Final = tuple(key for group in ("Optimization", "Policy", "Replay and rollout") for key in GROUPS[group])
"""The hyper-parameters in their order, without what agents keep of their run."""
_NOT_SHOWN: Final = ("_schedule", "_kwargs", "_class", "train_freq", "action_noise")
"""Ends of the names of hyper-parameters that say the same as others, or more than a cell should contain."""
_NET_ARCH: Final = "policy_kwargs.net_arch"


class Column(Record):
    """A column of the table."""

    key: str
    title: str
    is_number: bool
    is_shown: bool
    """Whether it is shown when the page opens."""


class FileTable(Record):
    """Rows and columns of a page about many files."""

    folder: str
    """The folder in which all files are, to which their names are relative; or empty."""
    rows: tuple[FileRow, ...]
    """With names relative to the folder."""
    columns: tuple[Column, ...]
    shared: tuple[tuple[str, str], ...]
    """Titles and values that all readable files have in common."""
    omitted_columns: int
    """Number of columns beyond the first 150, which are left out."""
    verdicts: tuple[tuple[str, int], ...]
    """Number of files of each verdict, from worst to best."""


def make_table(rows: Iterable[FileRow]) -> FileTable:
    """Return the table of the rows: columns for what differs, and apart from these what is the same in all files."""
    listed = list(rows)
    folder, names = _find_folder([row.name for row in listed])
    readable = [row for row in listed if row.failure is None]
    values: dict[str, Counter[str]] = {key: Counter() for key in FACTS}
    for row in listed:
        for key, cell in row.cells.items():
            values.setdefault(key, Counter())[cell.text] += 1
    shared, differing = [], []
    for key, counts in values.items():
        if key != "verdict" and len(readable) > 1 and list(counts.values()) == [len(readable)]:
            shared.append((FACTS.get(key, key), next(iter(counts))))
        elif counts:
            differing.append(key)
    sizes = {key: sum(values[key].values()) for key in differing}
    kept = _keep_columns(differing, sizes)
    chosen = _choose_columns(kept, sizes)
    columns = []
    for key in kept:
        cells = [row.cells[key] for row in listed if key in row.cells]
        is_number = key != "verdict" and all(cell.number is not None or cell.text == "null" for cell in cells)
        columns.append(Column(key=key, title=FACTS.get(key, key), is_number=is_number, is_shown=key in chosen))
    verdicts = Counter(row.cells["verdict"] for row in listed if "verdict" in row.cells)
    worst_first = sorted(verdicts, key=lambda cell: (-(cell.number or 0), cell.text))
    return FileTable(
        folder=folder,
        rows=tuple(row._replace(name=name) for row, name in zip(listed, names)),
        columns=tuple(columns),
        shared=tuple(shared),
        omitted_columns=len(differing) - len(kept),
        verdicts=tuple((cell.text, verdicts[cell]) for cell in worst_first),
    )


def _find_folder(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the folder in which all files are, and their names relative to it, escaped."""
    folder = ""
    if len(names) > 1 and all(map(is_url, names)):
        schemes = {find_scheme(name) for name in names}
        if len(schemes) == 1:
            paths = [posixpath.dirname(name.partition("://")[2]) for name in names]
            folder = f"{schemes.pop()}://{posixpath.commonpath(paths)}"
    elif len(names) > 1 and all("/" in name or os.sep in name for name in names) and not any(map(is_url, names)):
        try:
            folder = os.path.commonpath([os.path.dirname(name) for name in names])
        except ValueError:  # absolute and relative paths, or several drives
            folder = ""
    below = [name[len(folder) :].lstrip("/" + os.sep) if folder else name for name in names]
    return escape(folder, _NAME), [escape(name, _NAME) for name in below]


def _keep_columns(keys: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    """Return the columns that the page has, in their order: if there are too many, those of most files."""
    ordered = sorted(keys, key=order_column)
    if len(ordered) <= _MOST_COLUMNS:
        return ordered
    most = sorted(ordered, key=lambda key: (key not in FACTS, -counts[key]))[:_MOST_COLUMNS]
    return [key for key in ordered if key in set(most)]


def order_column(key: str) -> tuple[int, int]:
    """Facts, hyper-parameters as on the page of one file, other keys, and what agents keep of their run."""
    known = key.partition(".")[0]
    if key in FACTS:
        return 0, list(FACTS).index(key)
    if known in _CHOICES:
        return 1, _CHOICES.index(known)
    return (3 if key.startswith("_") or key in GROUPS["Run"] else 2), 0


def _choose_columns(keys: Sequence[str], counts: Mapping[str, int]) -> frozenset[str]:
    """Return the columns that are shown at first: the hyper-parameters of most files."""
    facts = [key for key in keys if key in FACTS and key not in _HIDDEN_FACTS]
    choices = [key for key in keys if (key in _CHOICES and not key.endswith(_NOT_SHOWN)) or key == _NET_ARCH]
    choices.sort(key=lambda key: -counts[key])
    return frozenset((*facts, *choices[:_SHOWN_COLUMNS]))
