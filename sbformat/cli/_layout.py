"""Layout of tables in a terminal: the widths of columns, or one field a line where words would be cut.

In: the cells of a table, and the columns of the terminal. Out: the widths of the columns, so that cells are folded at
spaces, or None, when a word would not fit its column::

    verdict    where             why                    at 60 columns    verdict  dangerous
    dangerous  data:lr_schedule  os.system is called                     where    data:lr_schedule at byte 2
               at byte 2                                                 why      os.system is called

The last column may cut words: it is the one of sentences, and of values, whose words can have any length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LAST: Final = 30
"""Characters that the last column has at least, if its cells are that long."""


def allot_widths(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int, measure: Callable[[str], int] = len
) -> list[int] | None:
    """Return the widths of the columns of a table, or None when words do not fit.

    :param header: empty for a table without one
    :param width: of all columns together
    :param measure: the number of columns of the terminal that a text needs
    """
    columns = list(zip(*([header] if header else []), *rows))
    widths = [max(map(measure, cells)) for cells in columns]
    least = [max((measure(word) for cell in cells for word in cell.split()), default=0) for cells in columns]
    least[-1] = min(widths[-1], LAST)
    if sum(least) > width:
        return None
    while sum(widths) > width:
        wide = sorted((index for index in range(len(widths)) if widths[index] > least[index]), key=widths.__getitem__)
        second = max([least[wide[-1]], *(widths[index] for index in wide[:-1])])
        excess = sum(widths) - width
        widths[wide[-1]] -= min(excess, max(1, widths[wide[-1]] - second))
    return widths


def list_fields(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Return the names and values of the cells that are not empty, with a pair of empty texts between two rows."""
    found: list[tuple[str, str]] = []
    for row in rows:
        found += [("", "")] if found else []
        found += [(name, cell) for name, cell in zip(header, row) if cell]
    return found
