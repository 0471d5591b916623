"""Output: text for people, JSON and CSV for programs; rich is imported only when text goes to a terminal.

In: the report of a command, a dict that is its JSON, or the reports of several files. Out: the report as the command
line requests it, and the exit status. A :class:`Form` describes how a report becomes text and rows of CSV.

Everything printed is escaped: no file decides which bytes a terminal receives (FORMAT.md 10). CSV is UTF-8 with commas
and line feeds, and always has a header. Numbers are written as Python reads them back, and as ``NaN``, ``Infinity`` and
``-Infinity``; true and false in lower case; no value as nothing; lists and objects as JSON. A spreadsheet evaluates
text that begins with ``=``, ``+``, ``-`` or ``@``: an apostrophe is put before it, also after a semicolon, at which
some spreadsheets divide a line.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from json.encoder import encode_basestring_ascii
from typing import IO, TYPE_CHECKING, Any, Final, TextIO, TypeAlias

from sbformat.cli import _files
from sbformat.cli._options import is_quiet, is_report_name, shows_whole, wants_color
from sbformat.errors import MESSAGE_BYTES, UnsupportedError, escape
from sbformat.immutable import Record
from sbformat.io.opening import is_within
from sbformat.rendering import protect_text, render_table, write_number, write_numbers

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Report: TypeAlias = dict[str, Any]

REPORT_VERSION: Final = 1
_REPORT_LINE: Final = "\n    "  # the beginning of a line of a report, two levels down in its document
_WORDS: Final = {None: "null", True: "true", False: "false"}
_NO_FILES: Final = "[]\n}"  # the end of a document without reports
_SHOWN: Final = 100  # characters of a cell of a table
_LISTED: Final = 3
_ROWS: Final = 1000
_SHORT: Final = 24  # characters of a column that is not folded in a terminal
_NARROW: Final = 12
"""Characters that each other column has at least; a terminal without room for them has a field a line."""
_LEAST_NAME: Final = 24  # characters that the first column has at least, if its names have as many
_GAP: Final = 2  # characters between columns
_INDENT: Final = "    "  # before the lines of a table
_COPIED_BYTES: Final = 1 << 20
_CELL: Final = 32_000  # characters of a cell of CSV; Excel has room for 32,767
_NUMBER: Final = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_ESCAPE_SEQUENCE: Final = r"\x1b\[[0-?]*[ -/]*[@-~]"  # of a terminal
_LONGEST_INTEGER: Final = 4000  # bits of an integer that Python converts to decimal digits without refusing


# -- JSON ---------------------------------------------------------------------------------------------


def print_json(command: str, files: Sequence[Report | str], *, stream: TextIO | None = None, **others: Any) -> None:
    """Print one document by ``schema/report.schema.json``.

    :param files: reports, or texts of :func:`render_report`
    :param stream: where it goes; standard output by default
    :param others: other members of the document
    """
    reports = [file if isinstance(file, str) else render_report(file) for file in files]
    document = _dumps({"command": command, "report_version": REPORT_VERSION, **others, "files": []})
    text = f"[{_REPORT_LINE}{f',{_REPORT_LINE}'.join(reports)}{_REPORT_LINE[:-2]}]" if reports else "[]"
    (stream or sys.stdout).write(f"{document.removesuffix(_NO_FILES)}{text}{_NO_FILES.removeprefix('[]')}\n")


def render_report(report: Report) -> str:
    """Return the report of one file as it is in the document; workers render their reports in parallel."""
    return _dumps(report).replace("\n", _REPORT_LINE)


def print_document(document: dict[str, Any]) -> None:
    """Print any JSON document: one object."""
    sys.stdout.write(_dumps(document) + "\n")


def _dumps(value: Any, line: str = "\n") -> str:
    """Return ``json.dumps(write_numbers(value), indent=2)``, for which json does not use its encoder in C.

    :param value: its keys are texts
    :param line: the end of a line, and the indent of the next
    """
    kind = type(value)
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is int:
        return str(value)
    if kind is bool or value is None:
        return _WORDS[value]
    if not isinstance(value, (dict, list, tuple)):
        return json.dumps(write_number(value))
    inner = f"{line}  "
    if isinstance(value, dict):
        parts = [f"{encode_basestring_ascii(key)}: {_dumps(part, inner)}" for key, part in value.items()]
        return f"{{{inner}{f',{inner}'.join(parts)}{line}}}" if parts else "{}"
    parts = [_dumps(part, inner) for part in value]
    return f"[{inner}{f',{inner}'.join(parts)}{line}]" if parts else "[]"


# -- CSV ----------------------------------------------------------------------------------------------


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, stream: TextIO | None = None) -> None:
    """Print a table.

    :param columns: the header
    :param rows: values by column; a missing one is an empty cell
    :param stream: where it goes; standard output by default
    """
    import csv

    if stream is None:
        _use_utf_8()
    writer = csv.writer(stream or sys.stdout, lineterminator="\n")
    writer.writerow([encode_cell(column) for column in columns])
    writer.writerows([encode_cell(row.get(column)) for column in columns] for row in rows)


def _use_utf_8() -> None:
    """Write standard output as UTF-8 with line feeds from now on, whatever the locale and the system are."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def encode_cell(value: Any) -> str:
    """Return a value as the text of a cell.

    >>> encode_cell("=SUM(A1)"), encode_cell(-1.5), encode_cell(None), encode_cell([1, 2])
    ("'=SUM(A1)", '-1.5', '', '[1, 2]')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _LONGEST_INTEGER else hex(value)[:_CELL]
    if isinstance(value, float):
        return str(write_number(value))
    if isinstance(value, (list, tuple, dict)):
        value = json.dumps(write_numbers(value), ensure_ascii=False)
    text = str(value)
    if len(text) <= _CELL and re.fullmatch(_NUMBER, text):
        return text
    return protect_text(escape(text, _CELL))


# -- text ---------------------------------------------------------------------------------------------

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


def render_verdict(verdict: str, reason: str | None) -> str:
    """Return a verdict of ``scan``; of ``dangerous`` with its reason: harmful, or not known."""
    return verdict if reason is None or verdict != "dangerous" else f"{verdict} ({reason.replace('-', ' ')})"


def find_room(width: int, names: int) -> int:
    """Return how many characters of a line of a terminal there are for all columns but the first.

    :param names: characters of the longest name in the first column, in which longer ones may be folded
    """
    return width - len(_INDENT) - min(names, max(_LEAST_NAME, width // 2))


def keep_narrow(widths: Mapping[str, int], left: int) -> list[str]:
    """Return the columns for which there is room, the first ones first.

    :param widths: of the columns, without the gap before each
    :param left: characters of a line
    """
    kept: list[str] = []
    for name, width in widths.items():
        if width + _GAP <= left:
            kept.append(name)
            left -= width + _GAP
    return kept


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
        self.width: int | None = None
        """Characters of a line of a terminal; None where a line may be longer."""

    def line(self, *parts: str, style: str = "") -> None:  # noqa: ARG002 -- for terminals
        """Print a line of parts that are already escaped.

        :param style: that of the parts that have none on a terminal
        """
        stream = self._stream or sys.stdout
        self._has_printed = True
        encoding = stream.encoding or "utf-8"
        stream.write("".join(parts).encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def table(
        self,
        title: str,
        header: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        right: Sequence[int] = (),
        longest: int = _SHOWN,
        leaves_out: Sequence[int] = (),
    ) -> None:
        """Print a table; nothing without rows.

        :param header: the titles of the columns; empty for none
        :param rows: the cells; None is an empty one
        :param right: columns that are right-aligned
        :param longest: characters of a cell at most; ten times as many where texts are written whole
        :param leaves_out: columns that are left out if all of their cells are empty
        """
        rows = list(rows)
        if not rows:
            return
        most = _ROWS
        if shows_whole():
            most, longest = most * 100, max(longest * 10, MESSAGE_BYTES)
        cells = [["" if cell is None else str(cell) for cell in row] for row in rows[:most]]
        if len(rows) > most:  # a file does not decide how much is printed
            cells.append([f"\u2026 and {len(rows) - most:,} more", *[""] * (len(cells[0]) - 1)])
        kept = [at for at in range(len(cells[0])) if at not in leaves_out or any(row[at] for row in cells)]
        self.draw(
            title,
            [header[at] for at in kept] if header else [],
            [[escape(row[at], longest) for at in kept] for row in cells],
            [place for place, at in enumerate(kept) if at in right],
        )

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Print a table whose cells are already escaped, after an empty line if there is something above it."""
        self.line(*(["\n"] if self._has_printed else []), f"  {title}")
        for line in render_table(header, rows, right):
            self.line(f"{_INDENT}{line}".rstrip())


class Rich(Plain):
    """Text to a terminal, whose tables rich lays out.

    :param stream: where it goes; standard output by default
    :param color: write escape sequences
    """

    def __init__(self, stream: TextIO | None = None, *, color: bool = True) -> None:
        from rich.console import Console

        super().__init__(stream)
        colors: dict[str, Any] = {"force_terminal": True, "no_color": False} if color else {"color_system": None}
        self._console = Console(file=stream, highlight=False, **colors)
        if not self._console.width:  # rich takes COLUMNS=0 for a width
            import shutil

            self._console.width = shutil.get_terminal_size().columns
        self.width = self._console.width

    def line(self, *parts: str, style: str = "") -> None:
        """Print a line of parts that are already escaped."""
        from rich.text import Text

        self._has_printed = True
        styles = (VERDICT_STYLES.get(part, style) if isinstance(part, Styled) else style for part in parts)
        self._console.print(Text.assemble(*zip(parts, styles)))

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Print a table whose cells are already escaped.

        A table that is narrow enough is as in a pipe. Of a wider one, short columns are as wide as their cells, so that
        their words are not cut; rich folds the others. Where these have too little room, the cells of a row are below
        one another, each with the title of its column.
        """
        from rich.cells import cell_len

        self.line(*(["\n"] if self._has_printed else []), f"  {title}", style="bold cyan")
        widths = [max(map(cell_len, cells)) for cells in zip(*([header] if header else []), *rows)]
        is_aligned = all(cell_len(cell) == len(cell) for row in rows for cell in row)
        if is_aligned and len(_INDENT) + sum(widths) + 2 * (len(widths) - 1) <= self._console.width:
            lines = render_table(header, rows, right)
            styles = [*(["bold"] if header else []), *(VERDICT_STYLES.get(row[0], "") for row in rows)]
            for line, style in zip(lines, styles):
                self.line(f"{_INDENT}{line}".rstrip(), style=style)
        else:
            self._fold(header, rows, right, widths)

    def _fold(self, header: Sequence[str], rows: list[list[str]], right: Sequence[int], widths: list[int]) -> None:
        """Print a table that is wider than the terminal."""
        from rich import box
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        least = sum(width if width <= _SHORT else _NARROW for width in widths) + 2 * len(widths) + len(_INDENT)
        is_record = bool(header) and least > self._console.width
        table = Table(
            box=box.SIMPLE_HEAD if header and not is_record else None,
            show_header=bool(header) and not is_record,
            show_edge=False,
            pad_edge=False,
            padding=(0, 2, 0, 0) if is_record or not header else (0, 1, 0, 0),
        )
        if is_record:
            fields = [[name, cell] for row in rows for name, cell in [("", ""), *zip(header, row)] if cell or not name]
            header, rows, right, widths = ["", ""], fields[1:], [], [0, _SHORT + 1]
        for at, width in enumerate(widths):
            justify: Any = "right" if at in right else "left"
            table.add_column(header[at] if header else "", justify=justify, overflow="fold", no_wrap=width <= _SHORT)
        for row in rows:
            styles = [VERDICT_STYLES.get(row[0], ""), *(VERDICT_STYLES.get(cell, "") * is_record for cell in row[1:])]
            table.add_row(*map(Text, row, styles))
        self._console.print(Padding(table, (0, 0, 0, len(_INDENT))))


Recorded: TypeAlias = "list[tuple[Any, ...]]"
"""Calls of methods of :class:`Plain`: the name, and the arguments in order and by name."""


class Recorder(Plain):
    """Text kept in memory, which another process prints."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: Recorded = []

    def line(self, *parts: str, style: str = "") -> None:
        """Keep a line that is already escaped."""
        self.recorded.append(("line", parts, {"style": style}))

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Keep a table."""
        self.recorded.append(("draw", (title, header, rows, right), {}))


def print_recorded(printer: Plain, shown: Iterable[tuple[Any, ...]]) -> None:
    """Print what a :class:`Recorder` kept."""
    for name, values, options in shown:
        getattr(printer, name)(*values, **options)


def make_printer(stream: TextIO | None = None, form: str = "text") -> Plain:
    """Return the printer for a stream: of text, rich on a terminal, plain text elsewhere.

    ``--color`` decides; with ``auto`` the environment variables NO_COLOR and FORCE_COLOR do, then the terminal.

    :param stream: standard output by default
    :param form: ``text``, ``markdown`` or ``latex``
    """
    if form != "text":
        from sbformat.cli._documents import Latex, Markdown

        if stream is None:
            _use_utf_8()
        return Markdown(stream) if form == "markdown" else Latex(stream)
    stream = stream or sys.stdout
    if isinstance(stream, ReportFile):
        return Plain(stream)
    is_terminal = stream.isatty()
    color = wants_color(is_terminal=is_terminal)
    if is_terminal or color:
        with contextlib.suppress(ImportError):
            return Rich(stream, color=color)
    printer = Plain(stream)
    if is_terminal:
        import shutil

        printer.width = shutil.get_terminal_size().columns
    return printer


# -- reports ------------------------------------------------------------------------------------------


class ReportFile(io.TextIOWrapper):
    """The report of a command that goes to a file: in UTF-8, with line feeds, and without colours."""


def run_to_file(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a command, write what it prints to the file of ``-o``, and return the exit status.

    A temporary file of the system has the report until the command ends, so that a folder that is examined does not
    contain it. A command that could not do its work and printed nothing leaves the output as it was. What the file has
    is a line on standard output: ``args.report_summary``, if the command sets it. So is ``args.report_result``, which
    ``--quiet`` leaves out only of a command that succeeds.
    """
    from tempfile import TemporaryFile

    output = args.report_output
    failure = _files.report_errors(output, lambda: _check_report_file(args), outputs=[output])
    if failure["outcome"] == "ok":
        with TemporaryFile() as kept, ReportFile(kept, "utf-8", "backslashreplace", newline="\n") as printed:
            with contextlib.redirect_stdout(printed):
                status = run(args)
            printed.flush()
            if status == _files.EXIT_COULD_NOT and not kept.tell():
                return status
            failure = _files.report_errors(output, lambda: _save_report(kept, args), outputs=[output])
        if failure["outcome"] == "ok":
            printer, result = make_printer(), getattr(args, "report_result", "")
            if not is_quiet():
                printer.line(f"{escape(output, 1000)}: {getattr(args, 'report_summary', 'written')}")
            if result and (status or not is_quiet()):
                printer.line(result)
            return status
    report_failure(failure, lists_problems=False)
    return _files.EXIT_COULD_NOT


def _check_report_file(args: argparse.Namespace) -> dict[str, Any]:
    """Check before any work is done that the report can be written, and that its file is not an input."""
    from sbformat.io.atomic import check_new_file

    output = args.report_output
    for path in (*_files.list_inputs(args), *_files.list_json_files(args)):
        if not os.path.isdir(path):
            _files.refuse_same_file(path, output)
        elif os.path.isfile(output) and is_within(output, (os.path.realpath(path),)) and not is_report_name(output):
            raise UnsupportedError("the output is a file in a folder that the command reads")
    if os.path.abspath(output) == os.path.abspath(getattr(args, "write_baseline", None) or os.curdir):
        raise UnsupportedError("the output is the baseline that the command writes, too")
    with contextlib.suppress(OSError):  # a standard output that is closed
        if os.path.isfile(output) and os.path.samestat(os.stat(output), os.fstat(1)):
            raise UnsupportedError("the output is the standard output", hint="-o - writes to it")
    check_new_file(args.report_output, overwrite=args.force)
    return {}


def _save_report(kept: IO[bytes], args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.container.writer import write_all
    from sbformat.io.atomic import new_file, open_new

    kept.seek(0)
    with new_file(args.report_output, overwrite=args.force) as temporary, open_new(temporary) as file:
        while chunk := kept.read(_COPIED_BYTES):
            write_all(file, chunk)
    return {}


class Form(Record):
    """How the report of a command is written; as JSON, it is the report itself."""

    print_text: Callable[[Plain, Report], None]
    """Prints a report without an error, as text, Markdown or LaTeX."""
    columns: Sequence[str] = ()
    """The header of CSV, with ``path``, ``outcome`` and ``message``."""
    list_rows: Callable[[Report], Iterable[Mapping[str, Any]]] = lambda _: ()
    """Returns the rows of CSV of a report without an error; the path and the outcome are added."""

    def print_csv(self, reports: Iterable[Report]) -> None:
        """Print the reports of several files as one table, in which a file that failed has one row."""
        print_csv(self.columns, (row for report in reports for row in self._list_all(report)))

    def _list_all(self, report: Report) -> Iterable[Mapping[str, Any]]:
        name = {"path": report["path"], "outcome": report["outcome"]}
        if "message" in report:
            about = f"{report['file']}: " if "file" in report else ""
            return [{**name, "message": f"{about}{report['message']}"}]
        return ({**name, **row} for row in self.list_rows(report))


def report_warnings(
    path: str,
    work: Callable[[], Report],
    *,
    outputs: Sequence[str] = (),
    advise: Callable[[str], tuple[str, str]] = lambda text: (text, ""),
) -> tuple[Report, list[tuple[str, str]]]:
    """Return the report of a command on one file, and its warnings for users, each once, which are printed.

    Those for developers are left out, and so are escape sequences: gymnasium colours its own, also where no terminal
    shows them.

    :param advise: returns the text of a warning, and what to do about it
    """
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        report = _files.report_errors(path, work, outputs=outputs)
    texts = dict.fromkeys(re.sub(_ESCAPE_SEQUENCE, "", str(warning.message)) for warning in caught)
    found = [advise(text) for text in texts]
    for text, hint in found:
        warn(f"warning: {escape(text, 1000)}", escape(hint, 1000))
    return report, found


def run_one(args: argparse.Namespace, work: Callable[[], Report], form: Form, *outputs: str) -> int:
    """Do the work of a command on one file, print its report, and return the exit status.

    :param outputs: the files that the command writes
    """
    return finish(args, _files.report_errors(args.path, work, outputs=outputs), form)


def finish(args: argparse.Namespace, report: Report, form: Form, *, is_finding: bool = False) -> int:
    """Print the report of a command on one file, an error on standard error, and return the exit status.

    With ``--quiet`` the text of a command that writes a file is left out, unless it is a finding.

    :param is_finding: the exit status is 1
    """
    stream = _files.find_result_stream(args)
    is_fine = report["outcome"] == "ok"
    if args.format == "csv":
        form.print_csv([report])
    if not is_fine:
        report_failure(report, lists_problems=args.format == "text")
    if args.format == "json":
        print_json(args.command, [report], stream=stream)
    elif args.format != "csv" and is_fine and (is_finding or not (is_quiet() and hasattr(args, "output"))):
        form.print_text(make_printer(stream, args.format), report)
    return _files.EXIT_COULD_NOT if not is_fine else _files.EXIT_FINDINGS if is_finding else _files.EXIT_FINE


def report_failures(reports: Iterable[Report]) -> None:
    """Write the error of each file that failed to standard error, a line each."""
    for report in reports:
        if report["outcome"] != "ok":
            report_failure(report, lists_problems=False)


def report_failure(report: Report, *, lists_problems: bool) -> None:
    """Write the error of a file that failed to standard error.

    :param lists_problems: if there are many, a line each: when standard output does not have them as JSON
    """
    rows = report.get("problems", [])
    if len(rows) < _LISTED or not lists_problems:
        _files.write_failure(report)
        return
    name = escape(str(report.get("file", report["path"])), 1000)
    lines = list(map(_describe_problem, rows[:_ROWS]))
    lines += [f"\u2026 and {len(rows) - _ROWS:,} more"] if len(rows) > _ROWS else []
    _files.write_remark(f"{name}: {report['outcome']}: {len(rows)} problems", report.get("hint", ""), lines)


def _describe_problem(row: Mapping[str, Any]) -> str:
    """Return a problem, after its place unless the message names it."""
    place = escape(row["loc"], 1000)
    return str(row["message"]) if place in row["message"] else f"{place}: {row['message']}"


def warn(text: str, hint: str = "", problems: Sequence[str] = ()) -> None:
    """Write a warning or remark to standard error, unless ``--quiet`` is given; see :func:`_files.write_remark`."""
    if not is_quiet():
        _files.write_remark(text, hint, problems)
