"""``sbformat diff``: compare two archives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _output
from sbformat.errors import escape

if TYPE_CHECKING:
    import argparse

_LISTED: Final = 10


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "diff",
        example="sbformat diff before.zip after.zip",
        help="compare two archives",
        description="Compare two archives: hyper-parameters, tensors (dtype, shape, values), entries and versions. "
        "Exit status 1 when they differ.",
    )
    parser.add_argument("path", metavar="A", help="an archive or a .pth file")
    parser.add_argument("other", metavar="B", help="the archive to compare it with")
    _files.add_reading_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare; 1 when they differ, 2 when one could not be read."""

    def work() -> dict[str, Any]:
        from sbformat.tools.diff import diff

        old = _files.read_archive(args.path, args, on_unknown="inert")
        new = _files.name_in_errors(args.other, lambda: _files.read_archive(args.other, args, on_unknown="inert"))
        report = diff(old, new)
        return {
            "other": args.other,
            "equal": not report.changes,
            "changes": list_changes(report.changes),
            "state_dicts": [row._asdict() for row in report.state_dicts],
        }

    report = _files.report_errors(args.path, work)
    _output.print_report(args, report, _print_text)
    if report["outcome"] != "ok":
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINE if report["equal"] else _files.EXIT_FINDINGS


def list_changes(changes: Any) -> list[dict[str, Any]]:
    """Return changes as a report has them."""
    return [change._asdict() for change in changes]


def print_changes(printer: _output.Plain, changes: list[dict[str, Any]]) -> None:
    """Print changes as a table for each entry."""
    tables: dict[str, list[tuple[str, str, str]]] = {}
    for row in changes:
        cells = (row["loc"] or "(all of it)", row["kind"], row["message"])
        tables.setdefault(row["entry"], []).append(cells)
    for entry, rows in tables.items():
        printer.table(escape(entry), ("where", "what", "how"), _shorten_changes(rows))


def _shorten_changes(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Name only some of many tensors that came or went: dropping an optimizer removes all that it held."""
    left = Counter(kind for _, kind, _ in rows)
    many = {kind for kind in ("added", "removed") if left[kind] > _LISTED}
    shown: Counter[str] = Counter()
    made = []
    for row in rows:
        kind = row[1]
        shown[kind] += 1
        if kind not in many or shown[kind] < _LISTED:
            made.append(row)
        elif shown[kind] == _LISTED:
            made.append((f"\u2026 {left[kind] - _LISTED + 1} more", kind, ""))
    return made


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    path = escape(report["path"], 1000)
    count = len(report["changes"])
    what = "equal" if report["equal"] else _output.count_noun(count, "difference")
    printer.line(f"{path} -> {escape(report['other'], 1000)}: {what}")
    print_changes(printer, report["changes"])
    rows = [
        (
            escape(row["name"]),
            str(row["equal"]),
            str(row["different"]),
            "" if row["max_abs_difference"] is None else f"{row['max_abs_difference']:.6g}",
        )
        for row in report["state_dicts"]
        if row["different"]
    ]
    header = ("state dict", "equal", "different", "max abs difference")
    printer.table("tensors", header, rows, right=(1, 2, 3))
