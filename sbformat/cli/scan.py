"""``sbformat scan``: what loading a file would run or import."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.kinds import LFS_POINTER, describe_other
from sbformat.cli import _files, _many, _output, _progress, _streams
from sbformat.cli._options import is_quiet, is_verbose
from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, escape

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from sbformat.limits import Limits
    from sbformat.tools.scan import ScanReport

VERDICTS: Final = ("clean", "unknown", "code", "broken", "dangerous")
"""Those of :mod:`sbformat.tools.scan.findings`, which other commands need not load."""
CSV_COLUMNS: Final = (
    "path", "outcome", "file_verdict", "format", "size", "sha256", "verdict", "reason", "rule", "entry", "key",
    "offset", "line", "names", "message",
)  # fmt: skip
"""A row for each finding; one for a file without findings."""
NEVER: Final = "never"
"""A level that no verdict reaches."""
_WORST: Final = VERDICTS[-1]
_REASONS: Final = {
    "harmful": "loading the file may run code, reach files, open connections or end the process",
    "not-known": "loading the file uses something that sbformat does not know; --allow NAME accepts a name",
}
_SIMPLE_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN_DIGITS: Final = 16
_SHOWN_NAMES: Final = 3
_CELL: Final = 100
_SENTENCE: Final = 600
_LINES: Final = 20
"""Findings of a file that are listed without ``--verbose``; of more, those of a kind are counted."""


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "scan",
        example="sbformat scan --fail-on dangerous models/",
        help="show what loading files would run or import",
        description="Examine every pickle in archives, .pth files, pickles, bare data files, unzipped archives and "
        "trees of files, and give each file a verdict: clean, unknown, code, broken or dangerous. In a tree, hidden "
        "folders included, every file is examined, whatever its name; files without a verdict are counted, each with "
        "its reason. Links out of the tree are not followed. Exit status 1 when a verdict reaches --fail-on, 2 when "
        "there is nothing to judge, also in one of several folders.",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, or folders of them")
    parser.add_argument(
        "--fail-on",
        choices=(*VERDICTS[1:], NEVER),
        default=VERDICTS[1],
        metavar="LEVEL",
        help="the lowest verdict with exit status 1: unknown (default), code, broken or dangerous",
    )
    parser.add_argument(
        "--allow", action="append", default=[], metavar="NAME", help="treat a dotted name as known; repeatable"
    )
    parser.add_argument(
        "--list-skipped", action="store_true", help="list the files of folders that have no verdict, with the reasons"
    )
    _many.add_jobs_option(parser)
    _files.add_common_options(parser, "sarif", "csv")
    parser.set_defaults(run=run, refuse=parser.error)


def run(args: argparse.Namespace) -> int:
    """Scan each file; 1 when a verdict reaches the level, 2 when a file could not be read."""
    import sbformat.tools.scan  # noqa: F401 -- imported before processes are forked
    from sbformat.cli import _tree

    _many.use_absolute_paths(args)
    limits = _files.make_limits(args)
    if args.allow:
        _files.check_allowed(args)
    found = _tree.find_files(args.paths)
    work = partial(
        scan_one, roots=found.roots, limits=limits, allow=tuple(args.allow), lists_imports=args.format == "json"
    )
    reports, skipped = [], [row._asdict() for row in found.skipped]
    done = _many.map_files(work, found.paths, args, lost=lambda report: report, done="scanned")
    with _many.count_files("scanning", found.paths, args) as advance:
        for report in done:
            advance(report["path"])
            reason = report.pop("skipped_as", None)
            skipped += report.pop("skipped", ())
            if reason is not None:
                skipped.append({"path": report["path"], "reason": reason})
                continue
            if report["outcome"] == "ok":
                report["names"] = found.names.get(report["path"], [])
            reports.append(report)
    pointers = [row["path"] for row in skipped if row["reason"] == "lfs-pointer"]
    status = max(_exit_status(reports, args.fail_on), _report_empty_folders(found.folders, reports, pointers))
    for report in reports:
        if report["outcome"] != "ok":
            _output.report_failure(report, lists_problems=False)
    summary = _count_skipped(skipped, with_files=args.list_skipped)
    if args.format == "json":
        _output.print_json("scan", reports, skipped=summary)
    elif args.format == "csv":
        from sbformat.cli import _csv

        _csv.print_reports(reports, CSV_COLUMNS, _list_rows)
    elif args.format == "sarif":
        _print_sarif(reports, summary, status)
    else:
        _print_text(_output.make_printer(), reports, summary)
    return status


def _report_empty_folders(
    folders: Mapping[str, frozenset[str]], reports: list[dict[str, Any]], pointers: list[str]
) -> int:
    """Name the folders of the command line in which nothing was judged, and return the exit status of that.

    :param pointers: the files in folders that are pointers of Git LFS
    """
    judged = {report["path"] for report in reports}
    empty = [folder for folder, paths in folders.items() if judged.isdisjoint(paths)]
    if not reports:
        empty = [""]
    for name in empty:
        about = f"{escape(name, 1000)}: " if name else ""
        tail = f", but {LFS_POINTER}" if any(path.startswith(name) for path in pointers) else ""
        _streams.write_remark(f"{about}nothing to judge: no archive, torch file or pickle was found{tail}")
    return _files.EXIT_COULD_NOT if empty else _files.EXIT_FINE


def _count_skipped(skipped: list[dict[str, str]], *, with_files: bool) -> dict[str, Any]:
    """Count the files without a verdict by their reasons, and list them where that is wanted."""
    from sbformat.tools.scan.findings import SKIP_REASONS

    counts = Counter(row["reason"] for row in skipped)
    summary: dict[str, Any] = {"counts": {reason: counts[reason] for reason in SKIP_REASONS if counts[reason]}}
    if with_files:
        summary["files"] = sorted(skipped, key=lambda row: row["path"])
    return summary


def scan_one(
    path: str, *, roots: dict[str, tuple[str, ...]], limits: Limits, allow: tuple[str, ...], lists_imports: bool
) -> dict[str, Any]:
    """Scan one file; runs in a worker process when there are many.

    :param roots: of files that were found in a folder, where links may lead to
    :param lists_imports: keep the list of imports, which is most of a report
    :return: the file's report, as JSON has it; or, under ``skipped_as``, why it has no verdict
    """
    from sbformat.tools.scan import scan, scan_in_tree

    def work() -> dict[str, Any]:
        with _progress.count_file("scanning", path, passes=2) as progress:
            if path not in roots:
                source = _streams.open_input(path, limits)
                found = scan(source, limits=limits, allow=allow, progress=progress)
                if describe_other(found.format) and [row.rule for row in found.findings] == ["unknown-entry"]:
                    raise UnsupportedError(found.findings[0].message)
                return _to_json(found)
            done = scan_in_tree(path, roots[path], limits=limits, allow=allow, progress=progress)
            return {"skipped_as": done} if isinstance(done, str) else _to_json(done)

    report = _files.report_errors(path, work)
    if not lists_imports:
        report.pop("imports", None)
    return report


def _exit_status(reports: list[dict[str, Any]], fail_on: str) -> int:
    if not reports or any(report["outcome"] != "ok" for report in reports):
        return _files.EXIT_COULD_NOT
    if fail_on == NEVER:
        return _files.EXIT_FINE
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
                "line": row.line,
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
        "skipped": [row._asdict() for row in report.skipped],
    }


def _list_rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of CSV."""
    file = {"file_verdict": report["verdict"], **{key: report[key] for key in ("format", "size", "sha256")}}
    rows = [{**file, **row, "names": " ".join(row["names"])} for row in report["findings"]]
    return rows or [file]


def _print_sarif(reports: list[dict[str, Any]], skipped: dict[str, Any], status: int) -> None:
    import sbformat
    from sbformat.tools.scan.sarif import render_sarif

    version = sbformat.__version__
    _output.print_document(render_sarif(reports, skipped, version=version, exit_code=status, root=os.getcwd()))


# -- text ---------------------------------------------------------------------------------------------


def _print_text(printer: _output.Plain, reports: list[dict[str, Any]], skipped: dict[str, Any]) -> None:
    quiet = is_quiet()
    for report in reports:
        if report["outcome"] == "ok" and not (quiet and report["verdict"] == "clean"):
            _print_report(printer, report)
    reasons = {row["reason"] for report in reports for row in report.get("findings", ()) if row["verdict"] == _WORST}
    for reason in (reason for reason in _REASONS if reason in reasons and not quiet):
        printer.line(f"{_WORST} ({reason.replace('-', ' ')}): {_REASONS[reason]}")
    if (len(reports) != 1 or skipped["counts"]) and not quiet:
        printer.line(_list_summary(reports))
    if skipped["counts"] and not quiet:
        printer.line(f"without a verdict: {_render_skipped(skipped)}")
    for row in skipped.get("files", ()):
        printer.line(f"  {row['reason']}: {escape(row['path'], 1000)}")


def _print_report(printer: _output.Plain, report: dict[str, Any]) -> None:
    digest = f" (sha256 {_shorten_digest(report['sha256'])})" if report["sha256"] else ""
    printer.heading(f"{escape(report['path'], 1000)}: ", _output.Styled(_render_verdict(report)), digest)
    for name in report["names"]:
        printer.line(f"    also {escape(name, 1000)}")
    if not report["findings"]:
        return
    worst_first = sorted(report["findings"], key=lambda row: (-VERDICTS.index(row["verdict"]), row["reason"] or "not"))
    columns: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("verdict", _render_verdict),
        ("where", _render_location),
        ("rule", lambda row: str(row["rule"])),
        ("names", _render_names),
        ("why", lambda row: str(row["message"])),
    ]
    if all(escape(name, _CELL) in row["message"] for row in worst_first for name in row["names"]):
        columns = [column for column in columns if column[0] != "names"]
    listed = [(row, 0) for row in worst_first] if is_verbose() else group_findings(worst_first)
    rows = [
        tuple(render(row) for _, render in columns) if not more else _count_more(row, more, columns)
        for row, more in listed
    ]
    printer.table("findings", [name for name, _ in columns], rows, longest=_SENTENCE)
    if len(listed) < len(worst_first):
        shown = sum(more or 1 for _, more in listed)
        rest = f"\u2026 and {len(worst_first) - shown:,} more of other kinds; " if shown < len(worst_first) else ""
        printer.line(f"  {rest}--verbose or --format json lists all {len(worst_first):,}")
    if report["omitted"]:
        printer.line(f"    \u2026 and {report['omitted']:,} more that are not listed")
    _print_advice(printer, report, worst_first)
    printer.line()


def group_findings(findings: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """Return the findings that are listed, each with 0; or, after the first of a kind, the number of the others.

    A kind is a rule in a value with a verdict. Of each kind, those with different names come first.

    :param findings: in their order, the worst first
    """
    if len(findings) <= _LINES:
        return [(row, 0) for row in findings]
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in findings:
        kinds.setdefault((_render_verdict(row), row["entry"], row["key"], row["rule"]), []).append(row)
    for most in (3, 2, 1):
        listed: list[tuple[dict[str, Any], int]] = []
        for rows in kinds.values():
            few = most if len(rows) > most + 1 else len(rows)
            listed += [(row, 0) for row in _list_different_first(rows)[:few]]
            listed += [(rows[0], len(rows) - few)] if few < len(rows) else []
        if len(listed) <= _LINES:
            break
    return listed[:_LINES]


def _list_different_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return findings in their order, but those whose names were there before at the end."""
    names = [tuple(row["names"]) for row in rows]
    first = {name: index for index, name in reversed(list(enumerate(names)))}
    return [row for _, row in sorted(enumerate(rows), key=lambda pair: first[names[pair[0]]] != pair[0])]


def _count_more(row: dict[str, Any], more: int, columns: list[tuple[str, Any]]) -> tuple[str, ...]:
    """Return the cells that count further findings of a kind."""
    cells = {
        "verdict": _render_verdict(row),
        "where": _render_location({**row, "offset": None}),
        "rule": str(row["rule"]),
        "why": f"\u2026 and {more:,} more of the kind",
    }
    return tuple(cells.get(name, "") for name, _ in columns)


def _print_advice(printer: _output.Plain, report: dict[str, Any], findings: list[dict[str, Any]]) -> None:
    """Print the command that shows all of the dangerous values of ``data``, which messages show in part."""
    found = (row["key"] for row in findings if row["entry"] == DATA_ENTRY and row["verdict"] == _WORST)
    keys = [key for key in dict.fromkeys(found) if _SIMPLE_KEY.fullmatch(key)]
    path = report["path"]
    if keys and report["format"] == "sb3" and path != _streams.STANDARD_STREAM and not is_quiet():
        options = " ".join(f"--blobs {key}" for key in keys[:_SHOWN_NAMES])
        printer.line(f"  sbformat inspect {escape(shlex.quote(path), 1000)} {options} shows all that is called")


def _shorten_digest(digest: str) -> str:
    return digest if is_verbose() else f"{digest[:_SHOWN_DIGITS]}\u2026"


def _render_verdict(row: dict[str, Any]) -> str:
    """Return a verdict; of ``dangerous`` with its reason: harmful, or not known."""
    word: str = row["verdict"]
    return word if word != "dangerous" else f"{word} ({row['reason'].replace('-', ' ')})"


def _render_location(row: dict[str, Any]) -> str:
    place = ":".join(filter(None, (row["entry"], row["key"]))) or "(the file)"
    return escape(place, _CELL) + ("" if row["offset"] is None else f" at byte {row['offset']}")


def _render_names(row: dict[str, Any]) -> str:
    shown = [escape(name, _CELL) for name in row["names"][: None if is_verbose() else _SHOWN_NAMES]]
    more = len(row["names"]) - len(shown)
    return ", ".join(shown) + (f", \u2026 {more} more" if more else "")


def _list_summary(reports: list[dict[str, Any]]) -> str:
    counts = Counter(_render_verdict(report) if "verdict" in report else "not read" for report in reports)
    parts = [_output.count_noun(len(reports), "file")]
    parts += [f"{counts[word]:,} {word}" for word in _output.VERDICT_STYLES if counts[word]]
    return ", ".join(parts)


def _render_skipped(skipped: dict[str, Any]) -> str:
    from sbformat.tools.scan.findings import SKIP_REASONS

    counts = skipped["counts"]
    parts = [f"{count:,} {SKIP_REASONS[reason][count > 1]}" for reason, count in counts.items()]
    return "; ".join(parts) + ("" if "files" in skipped else " (--list-skipped lists them)")
