"""Entries that lie outside any zip: an unzipped archive, a lone ``.pth``, a bare ``data``.

The same interface as :class:`~sbformat.container.Container`, without its CRCs: there are none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sbformat.container import CHUNK_BYTES
from sbformat.entry_names import check_name, check_path, check_paths
from sbformat.errors import MissingEntryError
from sbformat.source import open_source
from sbformat.zip_layout import STORED, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.limits import Budget
    from sbformat.source import Path, Source


class LooseEntries:
    """Named sources.

    :param sources: the bytes of each entry, in order
    :param budget: the operation's
    """

    __slots__ = ("_budget", "_sources", "entries")

    entries: dict[str, Entry]

    def __init__(self, sources: dict[str, Source], budget: Budget) -> None:
        self._sources = sources
        self._budget = budget
        self.entries = {
            name: Entry(name, 0, 0, source.size, source.size, 0, STORED) for name, source in sources.items()
        }

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def entry(self, name: str) -> Entry:
        """Return what is known of an entry."""
        try:
            return self.entries[name]
        except KeyError:
            raise MissingEntryError(name, present=self.entries) from None

    def read(self, name: str, *, limit: str | None = None) -> memoryview:
        """Return an entry's bytes."""
        if limit is not None:
            self._budget.spend(limit, self.entry(name).size)
        return self.view(name)

    def view(self, name: str) -> memoryview:
        """Return an entry's bytes; nothing checks them."""
        size = self.entry(name).size
        return self._sources[name].view(0, size)

    def stream(self, name: str, chunk_bytes: int = CHUNK_BYTES) -> Iterator[memoryview | bytes]:
        """Yield an entry's bytes in chunks."""
        view = self.view(name)
        return (view[start : start + chunk_bytes] for start in range(0, len(view), chunk_bytes))


def open_folder(path: Path, budget: Budget, *, mapped: bool = False) -> LooseEntries:
    """Open a folder that an archive was unzipped into: the files directly in it.

    Files whose names start with a dot, and folders, belong to something else and are left out.

    :param path: the folder
    :param budget: the operation's
    :param mapped: map the files instead of reading them
    :raises ContainerError: for names that no archive could have
    :raises LimitError: for more files than an archive may have entries
    """
    with os.scandir(path) as found:
        files = sorted((item.name, item.path) for item in found if item.is_file() and not item.name.startswith("."))
    budget.spend("outer_entries", len(files))
    for name, _ in files:
        check_path(check_name(os.fsencode(name)))
    check_paths(name for name, _ in files)
    return LooseEntries({name: open_source(file, mapped=mapped, budget=budget) for name, file in files}, budget)
