"""Output: text for people and JSON for machines; rich is imported only when text goes to a terminal.

Everything printed is escaped: no file decides which bytes a terminal receives (FORMAT.md 10).
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat import rendering
from sbformat.errors import escape
from sbformat.rendering import render_table, write_numbers

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

REPORT_VERSION: Final = 1
_REPORT_LINE: Final = "\n    "
"""The beginning of a line of a report, two levels down in its document."""
_NO_FILES: Final = "[]\n}"
"""The end of a document without reports."""
_CELL: Final = 100
_LONG_WORK: Final = 50
_LISTED: Final = 3
_MANY_BYTES: Final = 1 << 26
_ROWS: Final = 1000

format_size = rendering.format_size
count_noun = rendering.count_noun


def print_json(command: str, files: Sequence[dict[str, Any] | str], **others: Any) -> None:
    """Print one document by ``schema/report.schema.json``.

    :param files: reports, or texts of :func:`render_report`
    :param others: other members of the document
    """
    reports = [file if isinstance(file, str) else render_report(file) for file in files]
    document = _dumps({"command": command, "report_version": REPORT_VERSION, **others, "files": []})
    text = f"[{_REPORT_LINE}{f',{_REPORT_LINE}'.join(reports)}{_REPORT_LINE[:-2]}]" if reports else "[]"
    sys.stdout.write(f"{document.removesuffix(_NO_FILES)}{text}{_NO_FILES.removeprefix('[]')}\n")


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
    if len(rows) <= _ROWS:
        return rows
    return [*rows[:_ROWS], (f"\u2026 and {len(rows) - _ROWS:,} more", *[""] * (len(rows[0]) - 1))]


VERDICT_STYLES: Final = {
    "clean": "green",
    "unknown": "yellow",
    "code": "yellow",
    "broken": "magenta",
    "dangerous (not known)": "bold dark_orange",
    "dangerous (harmful)": "bold white on red",
}
"""Styles of a scan's verdicts on a terminal, in the first column of a table."""


class Plain:
    """Text to a pipe or file: aligned columns, no colour."""

    def heading(self, text: str) -> None:
        """Print the name of a file."""
        self.line(text)

    def line(self, text: str = "") -> None:
        """Print a line that is already escaped."""
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")

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
        :param longest: characters of a cell at most
        """
        if rows:
            self.draw(title, header, [[escape(cell, longest) for cell in row] for row in shorten_rows(rows)], right)

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Print a table whose cells are already escaped."""
        self.line(f"\n  {title}")
        for line in render_table(header, rows, right):
            self.line(f"    {line}".rstrip())


class Rich(Plain):
    """Text to a terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)

    def heading(self, text: str) -> None:
        """Print the name of a file."""
        from rich.text import Text

        self._console.print(Text(text, style="bold"))

    def line(self, text: str = "") -> None:
        """Print a line that is already escaped."""
        from rich.text import Text

        self._console.print(Text(text))

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Print a table whose cells are already escaped."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=Text(title, style="bold cyan"),
            title_justify="left",
            box=box.SIMPLE_HEAD if header else None,
            show_header=bool(header),
            padding=(0, 1),
        )
        for column in range(len(rows[0])):
            name = header[column] if header else ""
            table.add_column(name, justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            table.add_row(Text(row[0], style=VERDICT_STYLES.get(row[0], "")), *map(Text, row[1:]))
        self._console.print(table)


Recorded: TypeAlias = "list[tuple[Any, ...]]"
"""What a :class:`Recorder` keeps: the name of a method of :class:`Plain`, and its arguments."""


class Recorder(Plain):
    """Text kept in memory, which another process prints."""

    def __init__(self) -> None:
        self.recorded: Recorded = []

    def heading(self, text: str) -> None:
        """Keep the name of a file."""
        self.recorded.append(("heading", text))

    def line(self, text: str = "") -> None:
        """Keep a line that is already escaped."""
        self.recorded.append(("line", text))

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Keep a table."""
        self.recorded.append(("draw", title, header, rows, right))


def print_recorded(printer: Plain, shown: Iterable[tuple[Any, ...]]) -> None:
    """Print what a :class:`Recorder` kept."""
    for name, *values in shown:
        getattr(printer, name)(*values)


def print_failure(printer: Plain, report: dict[str, Any]) -> None:
    """Print the report of a file that failed: its error, or a table of its problems."""
    head = f"{escape(report['path'], 1000)}: {report['outcome']}"
    rows = report.get("problems", [])
    if len(rows) < _LISTED:
        printer.line(f"{head}: {report['message']}")
        return
    printer.line(f"{head}: {len(rows)} problems")
    printer.table("problems", ("where", "kind", "problem"), [tuple(map(str, row.values())) for row in rows])


def print_report(
    args: argparse.Namespace, report: dict[str, Any], print_text: Callable[[Plain, dict[str, Any]], None]
) -> None:
    """Print the report of a command on one file, as text or JSON.

    :param print_text: prints a report without an error as text
    """
    if args.format == "json":
        print_json(args.command, [report])
    elif report["outcome"] == "ok":
        print_text(make_printer(), report)
    else:
        print_failure(make_printer(), report)


def make_printer() -> Plain:
    """Return the printer for standard output: rich on a terminal, plain text elsewhere."""
    if sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            return Rich()
    return Plain()


@contextlib.contextmanager
def progress(label: str, total: int, *, least: int = _LONG_WORK) -> Iterator[Callable[[str], None]]:
    """Show a progress bar for many items on a terminal; nothing elsewhere or for few.

    :param label: the text beside the bar
    :param total: the number at the end
    :param least: the number from which it is shown
    """
    with _bar(label, total, shown=total >= least) as advance:
        yield lambda _: advance(1)


@contextlib.contextmanager
def bytes_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar for many bytes on a terminal; nothing elsewhere or for few.

    :param label: the text beside the bar
    :param total: the number at the end
    """
    with _bar(label, total, shown=total >= _MANY_BYTES) as advance:
        yield advance


@contextlib.contextmanager
def _bar(label: str, total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield lambda _: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda amount: bar.advance(task, amount)
