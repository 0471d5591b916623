"""Text for people and JSON for machines. rich is imported only when text goes to a terminal.

Everything shown is escaped: no file chooses the bytes of a terminal (FORMAT.md 10).
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.errors import escape

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

REPORT_VERSION: Final = 1
_REPORT_LINE: Final = "\n    "
"""The beginning of a line of a report, two levels down in its document."""
_NO_FILES: Final = "[]\n}"
"""The end of a document without reports."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_CELL: Final = 100
_LONG_WORK: Final = 50
_LISTED: Final = 3
_MANY_BYTES: Final = 1 << 26
_ROWS: Final = 1000


def size(nbytes: int) -> str:
    """Say a number of bytes for people."""
    value = float(nbytes)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{nbytes} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return str(nbytes)


def print_json(command: str, files: Sequence[dict[str, Any] | str], **others: Any) -> None:
    """Print one document by ``schema/report.schema.json``.

    :param files: reports, or what :func:`rendered` made of them
    :param others: what the document holds besides
    """
    reports = [file if isinstance(file, str) else rendered(file) for file in files]
    document = _dumps({"command": command, "report_version": REPORT_VERSION, **others, "files": []})
    text = f"[{_REPORT_LINE}{f',{_REPORT_LINE}'.join(reports)}{_REPORT_LINE[:-2]}]" if reports else "[]"
    sys.stdout.write(f"{document.removesuffix(_NO_FILES)}{text}{_NO_FILES.removeprefix('[]')}\n")


def rendered(report: dict[str, Any]) -> str:
    """Return the report of a file as the text that it is in the document: many are made where the files are read."""
    return _dumps(report).replace("\n", _REPORT_LINE)


def print_document(document: dict[str, Any]) -> None:
    """Print any JSON document: one object."""
    sys.stdout.write(_dumps(document) + "\n")


def _dumps(value: object) -> str:
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    """Spell NaN and the infinities as text: JSON has no word for them. Depth is capped by the readers."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


def shortened(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Cut a table that nobody would read: no file chooses how much is printed."""
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
"""How a terminal shows the verdict of a scan, in the first column of a table."""


class Plain:
    """Text to a pipe or file: aligned columns, no colour."""

    def heading(self, text: str) -> None:
        """Print the name of a file."""
        self.line(text)

    def line(self, text: str = "") -> None:
        """Print one line that is safe already."""
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
        """Print a table; ``right`` are the columns of numbers, ``longest`` is how much of a cell is shown."""
        if rows:
            self.draw(title, header, [[escape(cell, longest) for cell in row] for row in shortened(rows)], right)

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Print a table whose cells are safe already."""
        cells = [list(header), *rows] if header else rows
        self.line(f"\n  {title}")
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        for row in cells:
            parts = [
                cell.rjust(width) if column in right else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths))
            ]
            self.line(("    " + "  ".join(parts)).rstrip())


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
        """Print one line that is safe already."""
        from rich.text import Text

        self._console.print(Text(text))

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Print a table whose cells are safe already."""
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


Shown: TypeAlias = "list[tuple[Any, ...]]"
"""What a :class:`Recorder` was told to print."""


class Recorder(Plain):
    """Text that another process prints."""

    def __init__(self) -> None:
        self.shown: Shown = []

    def heading(self, text: str) -> None:
        """Keep the name of a file."""
        self.shown.append(("heading", text))

    def line(self, text: str = "") -> None:
        """Keep one line that is safe already."""
        self.shown.append(("line", text))

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Keep a table."""
        self.shown.append(("draw", title, header, rows, right))


def print_shown(printer: Plain, shown: Iterable[tuple[Any, ...]]) -> None:
    """Print what was recorded."""
    for name, *values in shown:
        getattr(printer, name)(*values)


def print_failure(printer: Plain, report: dict[str, Any]) -> None:
    """Print the report of a file that something went wrong with; all that does not fit, one a line."""
    head = f"{escape(report['path'], 1000)}: {report['outcome']}"
    rows = report.get("problems", [])
    if len(rows) < _LISTED:
        printer.line(f"{head}: {report['message']}")
        return
    printer.line(f"{head}: {len(rows)} things do not fit")
    printer.table("what does not fit", ("where", "what", "how"), [tuple(map(str, row.values())) for row in rows])


def show(args: argparse.Namespace, report: dict[str, Any], print_text: Callable[[Plain, dict[str, Any]], None]) -> None:
    """Print the report of a command that works on one file, as was asked for.

    :param print_text: called when nothing went wrong, and text is wanted
    """
    if args.format == "json":
        print_json(args.command, [report])
    elif report["outcome"] == "ok":
        print_text(printer(), report)
    else:
        print_failure(printer(), report)


def printer() -> Plain:
    """Return the printer for wherever standard output goes."""
    if sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            return Rich()
    return Plain()


@contextlib.contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar on the terminal while many things are done; silent elsewhere and for few.

    :param label: what is done
    :param total: how many there are
    """
    with _bar(label, total, shown=total >= _LONG_WORK) as advance:
        yield lambda _: advance(1)


@contextlib.contextmanager
def bytes_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on the terminal while many bytes are written; silent elsewhere and for few.

    :param label: what is done
    :param total: how many there are
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
