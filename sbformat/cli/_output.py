"""Output: text for people and JSON for machines; rich is imported only when text goes to a terminal.

Everything printed is escaped: no file decides which bytes a terminal receives (FORMAT.md 10).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias

from sbformat import rendering
from sbformat.cli import _streams
from sbformat.cli._files import describe_failure
from sbformat.cli._layout import allot_widths, fold_text, list_fields
from sbformat.cli._options import is_quiet, is_verbose, wants_color
from sbformat.errors import escape
from sbformat.rendering import render_table, write_numbers

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

REPORT_VERSION: Final = 1
_REPORT_LINE: Final = "\n    "
"""The beginning of a line of a report, two levels down in its document."""
_NO_FILES: Final = "[]\n}"
"""The end of a document without reports."""
_CELL: Final = 100
_LISTED: Final = 3
_ROWS: Final = 1000

format_size = rendering.format_size
count_noun = rendering.count_noun


def print_json(
    command: str, files: Sequence[dict[str, Any] | str], *, stream: TextIO | None = None, **others: Any
) -> None:
    """Print one document by ``schema/report.schema.json``.

    :param files: reports, or texts of :func:`render_report`
    :param stream: where it goes; standard output by default
    :param others: other members of the document
    """
    reports = [file if isinstance(file, str) else render_report(file) for file in files]
    document = _dumps({"command": command, "report_version": REPORT_VERSION, **others, "files": []})
    text = f"[{_REPORT_LINE}{f',{_REPORT_LINE}'.join(reports)}{_REPORT_LINE[:-2]}]" if reports else "[]"
    (stream or sys.stdout).write(f"{document.removesuffix(_NO_FILES)}{text}{_NO_FILES.removeprefix('[]')}\n")


def render_report(report: dict[str, Any]) -> str:
    """Return the report of one file as it is in the document; workers render their reports in parallel."""
    return _dumps(report).replace("\n", _REPORT_LINE)


def print_document(document: dict[str, Any]) -> None:
    """Print any JSON document: one object."""
    sys.stdout.write(_dumps(document) + "\n")


def _dumps(value: object) -> str:
    return json.dumps(write_numbers(value), indent=2, allow_nan=False)


def shorten_rows(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Return the first rows of a long table: a file does not decide how much is printed."""
    most = _ROWS * 100 if is_verbose() else _ROWS
    if len(rows) <= most:
        return rows
    return [*rows[:most], (f"\u2026 and {len(rows) - most:,} more", *[""] * (len(rows[0]) - 1))]


VERDICT_STYLES: Final = {
    "clean": "green",
    "unknown": "yellow",
    "code": "yellow",
    "broken": "magenta",
    "dangerous (not known)": "bold dark_orange",
    "dangerous (harmful)": "bold white on red",
    "valid": "green",
    "invalid": "bold red",
    "not read": "magenta",
}
"""Styles of verdicts on a terminal: in the first column of a table, and of a :class:`Styled` text."""


class Styled(str):
    """A part of a line that has a style on a terminal: a word of ``VERDICT_STYLES``, or another key of it."""

    __slots__ = ()


class Plain:
    """Text to a pipe or file: aligned columns, no colour.

    :param stream: where it goes; standard output by default
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._has_printed = False

    def heading(self, *parts: str) -> None:
        """Print the name of a file."""
        self.line(*parts)

    def line(self, *parts: str) -> None:
        """Print a line of parts that are already escaped."""
        stream = self._stream or sys.stdout
        self._has_printed = True
        encoding = stream.encoding or "utf-8"
        stream.write("".join(parts).encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def table(
        self,
        title: str,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        right: Sequence[int] = (),
        longest: int = _CELL,
    ) -> None:
        """Print a table.

        :param right: columns that are right-aligned
        :param longest: characters of a cell at most; ten times as many with ``--verbose``
        """
        if is_verbose():
            longest *= 10
        if rows:
            self.draw(title, header, [[escape(cell, longest) for cell in row] for row in shorten_rows(rows)], right)

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Print a table whose cells are already escaped, after an empty line if there is something above it."""
        self.line(*(["\n"] if self._has_printed else []), f"  {title}")
        for line in render_table(header, rows, right):
            self.line(f"    {line}".rstrip())


class Rich(Plain):
    """Text to a terminal.

    :param stream: where it goes; standard output by default
    :param color: write escape sequences
    """

    def __init__(self, stream: TextIO | None = None, *, color: bool = True) -> None:
        from rich.console import Console

        super().__init__(stream)
        self._console = (
            Console(file=stream, highlight=False, force_terminal=True, no_color=False)
            if color
            else Console(file=stream, highlight=False, color_system=None)
        )
        if not self._console.width:  # rich takes COLUMNS=0 for a width
            self._console.width = shutil.get_terminal_size().columns

    def heading(self, *parts: str) -> None:
        """Print the name of a file."""
        self._print(parts, "bold")

    def line(self, *parts: str) -> None:
        """Print a line of parts that are already escaped."""
        self._print(parts, "")

    def _print(self, parts: Sequence[str], usual: str) -> None:
        from rich.text import Text

        styles = (VERDICT_STYLES.get(part, usual) if isinstance(part, Styled) else usual for part in parts)
        self._console.print(Text.assemble(*zip(parts, styles)))

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Print a table whose cells are already escaped."""
        from rich import box
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        columns = len(rows[0])
        frame = 3 * columns + 1 if header else 2 * columns
        widths = allot_widths(header, rows, self._console.width - frame, cell_len)
        if widths is None and header:
            return self._draw_fields(title, list_fields(header, rows))
        table = Table(
            title=Text(title, style="bold cyan"),
            title_justify="left",
            box=box.SIMPLE_HEAD if header else None,
            show_header=bool(header),
            padding=(0, 1),
        )
        for column in range(columns):
            name = header[column] if header else ""
            justify: Literal["left", "right"] = "right" if column in right else "left"
            table.add_column(name, justify=justify, overflow="fold", width=widths[column] if widths else None)
        for row in rows:
            cells = [fold_text(cell, width, cell_len) for cell, width in zip(row, widths)] if widths else row
            table.add_row(Text(cells[0], style=VERDICT_STYLES.get(row[0], "")), *map(Text, cells[1:]))
        return self._console.print(table)

    def _draw_fields(self, title: str, fields: list[tuple[str, str]]) -> None:
        """Print the cells of a table below each other, for a terminal that is too narrow for it."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(title, style="bold cyan"), title_justify="left", box=None, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in fields:
            table.add_row(Text(name, style="bold"), Text.assemble((value, VERDICT_STYLES.get(value, ""))))
        self._console.print(table)


Recorded: TypeAlias = "list[tuple[Any, ...]]"
"""What a :class:`Recorder` keeps: the name of a method of :class:`Plain`, and its arguments."""


class Recorder(Plain):
    """Text kept in memory, which another process prints."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: Recorded = []

    def heading(self, *parts: str) -> None:
        """Keep the name of a file."""
        self.recorded.append(("heading", *parts))

    def line(self, *parts: str) -> None:
        """Keep a line that is already escaped."""
        self.recorded.append(("line", *parts))

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Keep a table."""
        self.recorded.append(("draw", title, header, rows, right))


def print_recorded(printer: Plain, shown: Iterable[tuple[Any, ...]]) -> None:
    """Print what a :class:`Recorder` kept."""
    for name, *values in shown:
        getattr(printer, name)(*values)


def report_failure(report: dict[str, Any], *, lists_problems: bool) -> None:
    """Write the error of a file that failed to standard error.

    :param lists_problems: if there are many, as a table: when standard output does not have them as JSON
    """
    line = describe_failure(report)
    rows = report.get("problems", [])
    if len(rows) < _LISTED or not lists_problems:
        _streams.write_remark(line)
        return
    _streams.write_remark(
        f"{escape(report.get('file', report['path']), 1000)}: {report['outcome']}: {len(rows)} problems"
    )
    if sys.stderr is not None:
        cells = [tuple(map(str, row.values())) for row in rows]
        make_printer(sys.stderr).table("problems", ("where", "kind", "problem"), cells)


def warn(text: str) -> None:
    """Write a warning or remark to standard error, unless ``--quiet`` is given.

    :param text: escaped where it comes from a file
    """
    if not is_quiet():
        _streams.write_remark(text)


def print_report(
    args: argparse.Namespace,
    report: dict[str, Any],
    print_text: Callable[[Plain, dict[str, Any]], None],
    *,
    is_finding: bool = False,
) -> None:
    """Print the report of a command on one file: the result as text or JSON, an error on standard error.

    With ``--quiet`` the text of a command that writes a file is left out, unless it is a finding.

    :param print_text: prints a report without an error as text
    :param is_finding: the exit status is 1
    """
    stream = _streams.find_result_stream(args)
    if report["outcome"] != "ok":
        report_failure(report, lists_problems=args.format == "text")
    if args.format == "json":
        print_json(args.command, [report], stream=stream)
    elif report["outcome"] == "ok" and (is_finding or not (is_quiet() and hasattr(args, "output"))):
        print_text(make_printer(stream), report)


def make_printer(stream: TextIO | None = None) -> Plain:
    """Return the printer for a stream: rich on a terminal, plain text elsewhere.

    ``--color`` decides; with ``auto`` the environment variables NO_COLOR and FORCE_COLOR do, then the terminal.

    :param stream: standard output by default
    """
    stream = stream or sys.stdout
    is_terminal = stream.isatty()
    color = wants_color(is_terminal=is_terminal)
    if is_terminal or color:
        with contextlib.suppress(ImportError):
            return Rich(stream, color=color)
    return Plain(stream)
