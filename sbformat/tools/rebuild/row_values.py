"""The values that the rows of a report are about: before and after, as JSON and in one line each (REBUILDING.md 15).

A handler says what it did with a key; the values are added in the end, from the two archives. A row that already has
one of them keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError, escape
from sbformat.known.changes import HER_KEPT, RENAMED
from sbformat.known.types import Reference
from sbformat.pkl.tree import Global
from sbformat.tools.rebuild.algorithms import find_default, is_hyperparameter
from sbformat.values.render import ValueRenderer, render_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.archive.archive import Archive
    from sbformat.tools.rebuild.report import Row

_LINE: Final = 200
"""Characters of a value in one line."""
_MISSING: Final = object()


def add_values(rows: Iterable[Row], original: Archive, result: Archive, algorithm: str) -> tuple[Row, ...]:
    """Return rows with the values that they are about.

    :param rows: those on keys of ``data`` get values; ``new_key`` has to be set where the key of the result is another
        one, unless it was SB3 that renamed it
    :param original: the archive that was rebuilt, whose ``data`` has the keys of the rows
    :param result: the archive that was made
    :param algorithm: of the result
    """
    reader = _ValueReader(original, result, algorithm)
    return tuple(reader.add(row) if row.entry == DATA_ENTRY and row.key is not None else row for row in rows)


class _ValueReader:
    def __init__(self, original: Archive, result: Archive, algorithm: str) -> None:
        self._original = original
        self._result = result
        self._algorithm = algorithm
        self._renderer = ValueRenderer()
        self._decoded: dict[tuple[int, str], object] = {}

    def add(self, row: Row) -> Row:
        """Return a row on a key of ``data`` with its values."""
        key = row.key or ""
        new_key = row.new_key or self._find_new_key(key)
        old, new = self._look_up(self._original, key), self._look_up(self._result, new_key)
        default = find_default(self._algorithm, key) if row.action == "dropped" and new is _MISSING else _MISSING
        is_settled = row.new is not None
        return row._replace(
            was=_render(old, key) if row.was is None else row.was,
            now=_render(new, new_key) if row.now is None else row.now,
            old=self._render(old, key) if row.old is None else row.old,
            new=row.new if is_settled else self._render(default if new is _MISSING else new, new_key),
            new_key=new_key if new_key != key else None,
            is_hyperparameter=is_hyperparameter(new_key.partition("/")[0], self._algorithm),
        )

    def _find_new_key(self, key: str) -> str:
        """Return the key in the result; the same one unless SB3 renamed it."""
        moved = f"replay_buffer_kwargs/{key}" if key in HER_KEPT else RENAMED.get(key, key)
        is_moved = moved != key and key not in self._result.data and self._look_up(self._result, moved) is not _MISSING
        return moved if is_moved else key

    def _render(self, value: object, key: str) -> Any:
        return None if value is _MISSING else self._renderer.render(value, key)

    def _look_up(self, archive: Archive, place: str) -> object:
        """Return a value of ``data``, or one below it, or ``_MISSING``."""
        key, _, rest = place.partition("/")
        found = self._decode(archive, key)
        while rest:
            if isinstance(found, dict) and rest in found:
                return found[rest]
            name, _, rest = rest.partition("/")
            found = found.get(name, _MISSING) if isinstance(found, dict) else _MISSING
        return found

    def _decode(self, archive: Archive, key: str) -> object:
        place = id(archive), key
        if place not in self._decoded:
            try:
                self._decoded[place] = archive.decode(key) if key in archive.data else _MISSING
            except SbformatError:
                self._decoded[place] = _MISSING
        return self._decoded[place]


def _render(value: object, key: str) -> str | None:
    """Return a value in one line."""
    if value is _MISSING:
        return None
    return escape(str(value) if isinstance(value, (Global, Reference)) else render_line(value, key), _LINE)
