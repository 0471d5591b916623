"""Build the HTML that a notebook displays for a value: tables, badges and folded parts for ``_repr_html_``.

A notebook inserts this HTML into its own page, next to everything else that the reader of the page can do. So:

- Text is escaped where it enters: a plain ``str`` is always text, and only :class:`Markup` is HTML.
- There are no scripts, style sheets, links, images or ids, and no event attributes.
- Notebooks typeset ``$...$`` as mathematics, whose commands can make links; two classes turn that off.
- Colours are those of the page, light or dark. Only badges have their own, text and background together.
- The output is bounded: long cells are shortened, long tables end with the number of rows that follow.
"""

from __future__ import annotations

from html import escape as escape_html
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.immutable import shorten
from sbformat.rendering import format_size

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

MAX_ROWS: Final = 50
"""Rows of one table; the others are counted."""
_CELL: Final = 200
_CLASSES: Final = "sbformat tex2jax_ignore mathjax_ignore"  # the second and third are what MathJax 2 and 3 leave alone

BADGES: Final = {
    "clean": "#1a7f37",
    "unknown": "#6e5494",
    "code": "#8a5700",
    "broken": "#b04000",
    "dangerous": "#c0161f",
}
"""The background of a badge by its word; the text is white, with a contrast of at least 4.5 to each."""
_BADGE: Final = "color:#fff;padding:1px 6px;border-radius:4px;font-weight:bold;white-space:nowrap;background:"
_CELL_STYLE: Final = (
    "vertical-align:top;max-width:40em;overflow-wrap:break-word;white-space:normal;padding:2px 8px;text-align:"
)


class Markup(str):
    """HTML that is safe to insert; every other ``str`` is text."""

    __slots__ = ()


def escape_text(text: str, limit: int = _CELL) -> Markup:
    """Return text as HTML: shortened, invisible characters as backslash escapes, and escaped.

    :param text: any text, also with lone surrogates; :class:`Markup` is returned unchanged
    :param limit: number of characters after which it is shortened
    """
    return text if isinstance(text, Markup) else Markup(escape_html(escape(text, limit)))


def render_badge(word: str) -> Markup:
    """Return a word as a label, in the colour of ``BADGES``."""
    return Markup(f'<span style="{_BADGE}{BADGES[word]}">{escape_text(word)}</span>')


def render_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = (), count: int = 0
) -> Markup:
    """Return a table; nothing when it has no rows.

    :param title: the caption; empty for none
    :param header: the titles of the columns; without one, the first cell of each row is its title
    :param rows: the cells; of more than ``MAX_ROWS`` the first
    :param right: columns that are right-aligned
    :param count: the number of rows that exist, when ``rows`` are only the first of them
    """
    if not rows:
        return Markup()
    lines = [_render_row(header, header, right, "th")] if header else []
    lines += [_render_row(header, row, right, "td") for row in rows[:MAX_ROWS]]
    omitted = max(count, len(rows)) - min(len(rows), MAX_ROWS)
    if omitted:
        note = f"\u2026 and {omitted:,} more"
        lines.append(f'<tr><td colspan="{len(rows[0])}" style="{_CELL_STYLE}left">{escape_text(note)}</td></tr>')
    caption = (
        f'<caption style="caption-side:top;text-align:left;font-weight:bold;color:inherit">{escape_text(title)}'
        "</caption>"
    )
    return Markup(f'<table style="margin:4px 0">{caption if title else ""}{"".join(lines)}</table>')


def _render_row(header: Sequence[str], row: Sequence[str], right: Collection[int], tag: str) -> str:
    cells = []
    for column, cell in enumerate(row):
        name, scope = (tag, ' scope="col"' if tag == "th" else "")
        if not header and column == 0:
            name, scope = "th", ' scope="row"'
        align = "right" if column in right else "left"
        cells.append(f'<{name}{scope} style="{_CELL_STYLE}{align}">{escape_text(cell)}</{name}>')
    return f"<tr>{''.join(cells)}</tr>"


def fold(title: str, parts: Iterable[Markup]) -> Markup:
    """Return parts that are shown when the reader opens them; nothing when all are empty."""
    content = "".join(parts)
    if not content:
        return Markup()
    return Markup(f'<details><summary style="cursor:pointer">{escape_text(title)}</summary>{content}</details>')


def render_paragraph(text: str) -> Markup:
    """Return a paragraph of text or of :class:`Markup`."""
    return Markup(f'<p style="margin:4px 0">{escape_text(text)}</p>')


def render_output(title: str, parts: Iterable[Markup]) -> str:
    """Return the whole output of one value.

    :param title: the first line, text or :class:`Markup`
    :param parts: tables and paragraphs; empty ones are left out
    """
    return (
        f'<div class="{_CLASSES}" style="overflow-x:auto"><div style="font-weight:bold">{escape_text(title)}</div>'
        f"{''.join(parts)}</div>"
    )


# -- records ------------------------------------------------------------------------------------------

_NAMES: Final = 8  # texts of a field that are listed
_SIZES: Final = ("nbytes", "size")  # fields that are numbers of bytes


def render_record(record: Any) -> str:
    """Return the output of a :class:`~sbformat.immutable.Record`: its plain fields, and below them the others.

    A tuple of records is a table, a mapping is folded, and what has HTML of its own, such as an archive, is at the end.
    """
    facts, tables, folded, displayed = [], [], [], []
    for name, item in record._asdict().items():
        label = name.replace("_", " ")
        kinds = {type(part) for part in item} if type(item) is tuple else set()
        if len(kinds) == 1 and hasattr(item[0], "_fields"):
            tables.append(render_records(label, item))
        elif hasattr(type(item), "_repr_html_") and not isinstance(item, dict):
            displayed.append(Markup(item._repr_html_()))
        elif hasattr(type(item), "items"):
            folded.append(fold(f"{label} ({len(item):,})", [render_items(item)]))
        else:
            facts.append((label, format_size(item) if name in _SIZES else describe_value(item)))
    return render_output(type(record).__name__, [render_table("", (), facts), *tables, *folded, *displayed])


def render_records(title: str, rows: Sequence[Any]) -> Markup:
    """Return a table of records of one class, a column for each field; nothing without records."""
    if not rows:
        return Markup()
    header = [name.replace("_", " ") for name in rows[0]._fields]
    cells = [[describe_value(cell) for cell in row] for row in rows[:MAX_ROWS]]
    return render_table(title, header, cells, count=len(rows))


def render_items(items: Mapping[Any, Any]) -> Markup:
    """Return a table of the names and values of a mapping."""
    rows = [(describe_value(name), describe_value(item)) for name, item in islice(items.items(), MAX_ROWS)]
    return render_table("", ("name", "value"), rows, count=len(items))


def describe_value(value: Any) -> str:
    """Return the text of a cell."""
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, bytes):
        return format_size(len(value))
    if isinstance(value, str):
        return value
    if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
        more = [f"\u2026 {len(value):,} in all"] if len(value) > _NAMES else []
        return ", ".join([*value[:_NAMES], *more])
    return shorten(value)
