"""``sbformat validate``: check archives against the schema and the rules."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _many, _output
from sbformat.cli._options import is_quiet
from sbformat.errors import SbformatError, escape
from sbformat.folders.listing import is_other_zip

if TYPE_CHECKING:
    import argparse


CSV_COLUMNS: Final = ("path", "outcome", "level", "entry", "loc", "kind", "message")
"""A row for each problem; one for a file without problems."""
_NOT_READ: Final = "not read"
_SKIPPED: Final = "skipped"
"""Outcome of a zip of something else than an agent."""


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "validate",
        example="sbformat validate models/",
        help="check archives against the schema and the rules",
        description="Decode every entry, check every CRC, check data against its JSON Schema and the entries "
        "against each other. This is about the format, not about safety: scan reports what loading a file would run.",
    )
    parser.add_argument("paths", nargs="+", metavar="FILE", help="archives, .pth and .pkl files, or folders of them")
    parser.add_argument(
        "--skip-others",
        action="store_true",
        help="pass over zips that have no entry of an agent, such as those of documents",
    )
    _many.add_jobs_option(parser)
    _files.add_reading_options(parser, "csv")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Validate each file; return 1 when one has errors, 2 when one could not be read; a skipped one is neither."""
    from sbformat.schema import known_keys

    _many.use_absolute_paths(args)
    paths = list(_files.expand_paths(args.paths))
    if len(paths) > 1:
        known_keys(None)  # imports jsonschema before processes are forked
    reports = []
    found = _many.map_files(partial(validate_one, args=args), paths, args, lost=lambda report: report, done="validated")
    with _many.count_files("validating", paths, args) as advance:
        for report in found:
            reports.append(report)
            advance(report["path"])
    for report in reports:
        if report["outcome"] == _SKIPPED:
            _output.warn(_files.describe_failure(report))
        elif "message" in report:
            _output.report_failure(report, lists_problems=False)
    if args.format == "json":
        _output.print_json("validate", reports)
    elif args.format == "csv":
        from sbformat.cli import _csv

        _csv.print_reports(reports, CSV_COLUMNS, lambda report: report["problems"] or [{}])
    else:
        _print_text(reports)
    known = {"ok": _files.EXIT_FINE, _SKIPPED: _files.EXIT_FINE, "invalid": _files.EXIT_FINDINGS}
    return max((known.get(report["outcome"], _files.EXIT_COULD_NOT) for report in reports), default=_files.EXIT_FINE)


def validate_one(path: str, args: argparse.Namespace) -> dict[str, Any]:
    """Validate one file; runs in a worker process when there are many.

    :return: the file's report, as JSON has it
    """
    from sbformat.schema import iter_problems

    def work() -> dict[str, Any]:
        try:
            archive = _files.read_archive(path, args)
        except SbformatError as error:
            if args.skip_others and is_other_zip(_files.resolve_path(path)):
                return {"outcome": _SKIPPED, "message": str(error)}
            raise
        problems = list(iter_problems(archive))
        return {
            "outcome": "invalid" if any(row.level == "error" for row in problems) else "ok",
            "problems": [row._asdict() for row in problems],
        }

    return _files.report_errors(path, work)


def _print_text(reports: list[dict[str, Any]]) -> None:
    printer = _output.make_printer()
    for report in reports:
        path = escape(report["path"], 1000)
        if "message" in report or (is_quiet() and report["outcome"] == "ok"):
            continue
        verdict = "valid" if report["outcome"] == "ok" else str(report["outcome"])
        printer.line(f"{path}: ", _output.Styled(verdict))
        for row in report["problems"]:
            place = escape(row["entry"]) + (f" {row['loc']}" if row["loc"] else "")
            printer.line(f"  {row['level']}: {place}: {escape(row['message'], 600)} [{row['kind']}]")
    if len(reports) > 1 and not is_quiet():
        counts = Counter(_count_as(report) for report in reports)
        others = "".join(f", {counts[word]:,} {word}" for word in (_NOT_READ, _SKIPPED) if counts[word])
        printer.line(f"{len(reports):,} files: {counts['ok']:,} valid, {counts['invalid']:,} invalid{others}")


def _count_as(report: dict[str, Any]) -> str:
    return _NOT_READ if "message" in report and report["outcome"] != _SKIPPED else str(report["outcome"])
