"""A catalogue as JSON Lines: an object in each line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sbformat.catalogue.files.columns import OTHER, drop_empty, join_other
from sbformat.catalogue.files.formats import refuse_file, require_columns
from sbformat.catalogue.flat_rows import COLUMNS
from sbformat.rendering import read_number, write_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.catalogue.files.columns import Columns
    from sbformat.catalogue.flat_rows import Row

_LONGEST: Final = 1 << 24
"""Characters of a line that is read."""


def require_packages() -> None:
    """Need nothing."""


def write(path: str, rows: Iterable[Row], columns: Columns) -> None:
    """Write a new file; see :class:`.formats.TableFormat`."""
    names = columns.names
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            pairs = zip(names, columns.arrange(row))
            shown = {name: write_number(value) for name, value in pairs if value is not None or name in COLUMNS}
            file.write(json.dumps(shown, ensure_ascii=False, allow_nan=False) + "\n")


def read(path: str) -> Iterator[Row]:
    """Yield the rows of a file; see :class:`.formats.TableFormat`."""
    with open(path, encoding="utf-8") as file:
        while line := file.readline(_LONGEST):
            yield _read_line(line, path)


def _read_line(line: str, path: str) -> Row:
    found: Any = json.loads(line)
    if not isinstance(found, dict) or any(isinstance(value, (list, dict)) for value in found.values()):
        raise refuse_file(path)
    require_columns(found, path)
    is_text = {name: COLUMNS.get(name) is str or name == OTHER for name in found}
    row = {name: value if is_text[name] else read_number(value) for name, value in found.items()}
    return drop_empty(join_other(row))
