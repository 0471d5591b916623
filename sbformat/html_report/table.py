"""The page about many files: a table of their rows.

The page contains the whole table; its script sorts, filters and hides columns, and without it everything is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.catalogue.columns import make_table
from sbformat.html_report.page import read_template, render_page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.catalogue.rows import FileRow


def render_table(rows: Iterable[FileRow], *, title: str | None = None) -> str:
    """Return the page about many files.

    :param rows: of :func:`sbformat.catalogue.rows.collect_row`, in the order of the files
    :param title: of the page; by default the number of files
    """
    table = make_table(rows)
    heading = title or f"{len(table.rows):,} files"
    return render_page(
        "table.html.jinja",
        {"table": table, "heading": heading},
        title=f"{heading} \u2013 sbformat report",
        style=read_template("table.css"),
        scripts=["table.js"],
    )
