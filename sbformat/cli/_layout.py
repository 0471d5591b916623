"""Layout of tables in a terminal: the widths of columns, or one field a line where words would be cut.

In: the cells of a table, and the columns of the terminal. Out: the widths of the columns, so that cells are folded at
spaces, or None, when a word would not fit its column::

    verdict    where             why                    at 60 columns    verdict  dangerous
    dangerous  data:lr_schedule  os.system is called                     where    data:lr_schedule at byte 2
               at byte 2                                                 why      os.system is called

The last column may cut words: it is the one of sentences, and of values, whose words can have any length. Where that
does not suffice, it is narrower, and then the other columns cut long words, after punctuation where they have some::

    /path/to/an/old/agent.zip    /path/to/an/old/
                                 agent.zip
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LAST: Final = 30
"""Characters that the last column has at least, if its cells are that long."""
_NARROW_LAST: Final = 16
"""The same, where the other columns need the space."""
_TALLEST: Final = 10
"""Lines of a cell of the narrow last column, at most."""
_LONG_WORDS: Final = ((24, 24, False), (24, 12, False), (24, 12, True))
"""Characters of a word that is not cut, in the first column and in others, and whether the last column cuts
all that are longer than its narrow width; tried in this order."""
_BREAKS: Final = frozenset("/\\_.,:;-=([{")
"""Characters after which a long word is cut."""


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
    words = [max((measure(word) for cell in cells for word in cell.split()), default=0) for cells in columns]
    for step, least in enumerate(_list_minimums(widths, words)):
        if sum(least) <= width:
            found = _narrow(widths, least, width)
            return found if not step or widths[-1] <= found[-1] * _TALLEST else None
    return None


def _list_minimums(widths: list[int], words: list[int]) -> Iterator[list[int]]:
    """Yield the least widths of the columns, from the most readable to the narrowest."""
    yield [*words[:-1], min(widths[-1], LAST)]
    last = min(widths[-1], max(min(words[-1], LAST), _NARROW_LAST))
    yield [*words[:-1], last]
    for first, other, cuts_last in _LONG_WORDS:
        cut = [min(word, other if index else first) for index, word in enumerate(words[:-1])]
        yield [*cut, min(last, _NARROW_LAST) if cuts_last else last]


def _narrow(widths: list[int], least: list[int], width: int) -> list[int]:
    """Return the widths of columns that are narrowed from the widest until all of them fit."""
    widths = list(widths)
    while sum(widths) > width:
        wide = sorted((index for index in range(len(widths)) if widths[index] > least[index]), key=widths.__getitem__)
        second = max([least[wide[-1]], *(widths[index] for index in wide[:-1])])
        excess = sum(widths) - width
        widths[wide[-1]] -= min(excess, max(1, widths[wide[-1]] - second))
    return widths


def fold_text(text: str, width: int, measure: Callable[[str], int] = len) -> str:
    """Return a text in lines of a width: between words, and in longer words after punctuation if there is some.

    :param measure: the number of columns of the terminal that a text needs
    """
    if measure(text) <= width:
        return text
    lines: list[str] = []
    for word in text.split():
        if lines and measure(lines[-1]) + 1 + measure(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines += _cut_word(word, width, measure)
    return "\n".join(lines)


def _cut_word(word: str, width: int, measure: Callable[[str], int]) -> list[str]:
    parts = []
    while measure(word) > width:
        end = 1
        while end < len(word) and measure(word[: end + 1]) <= width:
            end += 1
        after = next((at + 1 for at in range(end - 1, end // 3, -1) if word[at] in _BREAKS), end)
        parts.append(word[:after])
        word = word[after:]
    return [*parts, word]


def list_fields(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Return the names and values of the cells that are not empty, with a pair of empty texts between two rows."""
    found: list[tuple[str, str]] = []
    for row in rows:
        found += [("", "")] if found else []
        found += [(name, cell) for name, cell in zip(header, row) if cell]
    return found
