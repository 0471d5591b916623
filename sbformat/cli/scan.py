"""``sbformat scan``: what loading files would run, import or not understand."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _many, _output
from sbformat.errors import escape

if TYPE_CHECKING:
    import argparse

    from sbformat.limits import Limits
    from sbformat.tools.scan import ScanReport

VERDICTS: Final = ("clean", "unknown", "code", "broken", "dangerous")
"""Those of :mod:`sbformat.tools.scan.report`, which other commands need not load."""
_SHOWN_DIGITS: Final = 16
_SHOWN_NAMES: Final = 3
_CELL: Final = 100
_SENTENCE: Final = 600


def configure(subparsers: Any) -> None:  # noqa: ANN401 -- argparse gives no public type
    """Add the command."""
    parser = subparsers.add_parser(
        "scan",
        help="tell what loading files would run, import or not understand",
        description="Look into every pickle in archives, .pth files, pickles, bare data files, unzipped archives and "
        "trees of files, and give each file a verdict: clean, unknown, code, broken or dangerous. In a tree, every "
        "file that could be loaded is looked into, told by its content. Exit status 1 when a verdict reaches "
        "--fail-on.",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, or folders of them")
    parser.add_argument(
        "--fail-on",
        choices=VERDICTS[1:],
        default=VERDICTS[1],
        metavar="LEVEL",
        help="the least verdict that gives exit status 1: unknown (default), code, broken or dangerous",
    )
    parser.add_argument(
        "--allow", action="append", default=[], metavar="NAME", help="take a dotted name for known; repeatable"
    )
    _many.add_jobs_option(parser)
    _files.add_common_options(parser, "sarif")
    parser.set_defaults(run=run, refuse=parser.error)


def run(args: argparse.Namespace) -> int:
    """Scan each file; 1 when a verdict reaches the level, 2 when a file could not be read."""
    import sbformat.tools.scan  # noqa: F401 -- the processes need not load it
    from sbformat.cli import _tree

    limits = _files.limits(args)
    if args.allow:
        _check_allowed(args)
    found = _tree.find(args.paths, limits)
    work = partial(scan_one, limits=limits, allow=tuple(args.allow), lists_imports=args.format == "json")
    reports = []
    done = _many.each(work, found.paths, args, lost=lambda report: report, done="scanned")
    with _output.progress("scanning", len(found.paths)) as advance:
        for report in done:
            reports.append(report)
            advance(report["path"])
    status = _status(reports, args.fail_on)
    if args.format == "json":
        _output.print_json("scan", reports)
    elif args.format == "sarif":
        _print_sarif(reports, status)
    else:
        _print_text(_output.printer(), reports, found.skipped)
    return status


def _check_allowed(args: argparse.Namespace) -> None:
    """Refuse names that cannot be allowed before any file is opened."""
    from sbformat.tools.scan import scan

    try:
        scan(b"", allow=args.allow)
    except ValueError as error:
        args.refuse(f"argument --allow: {error}")


def scan_one(path: str, *, limits: Limits, allow: tuple[str, ...], lists_imports: bool) -> dict[str, Any]:
    """Scan one file; also what each process does.

    :param lists_imports: they are most of what a report holds, and there may be many reports
    :return: the file's report, as JSON has it
    """
    from sbformat.tools.scan import scan

    report = _files.guarded(path, lambda: _to_json(scan(path, limits=limits, allow=allow)))
    if not lists_imports:
        report.pop("imports", None)
    return report


def _status(reports: list[dict[str, Any]], fail_on: str) -> int:
    if any(report["outcome"] != "ok" for report in reports):
        return _files.EXIT_COULD_NOT
    worst = max((VERDICTS.index(report["verdict"]) for report in reports), default=0)
    return _files.EXIT_FINDINGS if worst >= VERDICTS.index(fail_on) else _files.EXIT_FINE


# -- JSON ---------------------------------------------------------------------------------------------


def _to_json(report: ScanReport) -> dict[str, Any]:
    return {
        "format": report.format,
        "verdict": report.verdict,
        "reason": report.reason,
        "findings": [
            {
                "rule": row.rule,
                "verdict": row.verdict,
                "reason": row.reason,
                "entry": row.entry,
                "key": row.key,
                "offset": row.offset,
                "names": list(row.names),
                "message": row.message,
            }
            for row in report.findings
        ],
        "omitted": report.omitted,
        "imports": list(report.imports),
        "pickles": report.pickles,
        "sha256": report.sha256,
        "size": report.size,
    }


def _print_sarif(reports: list[dict[str, Any]], status: int) -> None:
    import sbformat
    from sbformat.tools.scan.sarif import sarif_log

    _output.print_document(sarif_log(reports, version=sbformat.__version__, exit_code=status))


# -- text ---------------------------------------------------------------------------------------------


def _print_text(printer: _output.Plain, reports: list[dict[str, Any]], skipped: int) -> None:
    for report in reports:
        if report["outcome"] == "ok":
            _print_report(printer, report)
        else:
            _output.print_failure(printer, report)
    if len(reports) != 1 or skipped:
        printer.line(_summary(reports, skipped))


def _print_report(printer: _output.Plain, report: dict[str, Any]) -> None:
    digest = f" (sha256 {report['sha256'][:_SHOWN_DIGITS]}\u2026)" if report["sha256"] else ""
    printer.heading(f"{escape(report['path'], 1000)}: {_verdict(report)}{digest}")
    if not report["findings"]:
        return
    worst_first = sorted(report["findings"], key=lambda row: (-VERDICTS.index(row["verdict"]), row["reason"] or "not"))
    rows = [(_verdict(row), _where(row), row["rule"], _names(row), row["message"]) for row in worst_first]
    header = ("verdict", "where", "rule", "names", "why")
    printer.table("findings", header, rows, longest=_SENTENCE)
    if report["omitted"]:
        printer.line(f"    \u2026 and {report['omitted']:,} more that are not listed")
    printer.line()


def _verdict(row: dict[str, Any]) -> str:
    """Return a verdict in words; of what is dangerous, whether it is known to do harm or only not known."""
    word: str = row["verdict"]
    return word if word != "dangerous" else f"{word} ({row['reason'].replace('-', ' ')})"


def _where(row: dict[str, Any]) -> str:
    place = ":".join(filter(None, (row["entry"], row["key"]))) or "(the file)"
    return escape(place, _CELL) + ("" if row["offset"] is None else f" at byte {row['offset']}")


def _names(row: dict[str, Any]) -> str:
    shown = [escape(name, _CELL) for name in row["names"][:_SHOWN_NAMES]]
    more = len(row["names"]) - len(shown)
    return ", ".join(shown) + (f", \u2026 {more} more" if more else "")


def _summary(reports: list[dict[str, Any]], skipped: int) -> str:
    counts = Counter(_verdict(report) if "verdict" in report else "not read" for report in reports)
    parts = [f"{len(reports):,} file{'' if len(reports) == 1 else 's'}"]
    parts += [f"{counts[word]:,} {word}" for word in (*_output.VERDICT_STYLES, "not read") if counts[word]]
    if skipped:
        parts.append(f"{skipped:,} other{'' if skipped == 1 else 's'} skipped, with nothing in them to load")
    return ", ".join(parts)
