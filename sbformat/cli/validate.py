"""``sbformat validate``: check archives against the schema and the rules."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _many, _output
from sbformat.cli import _options as opt
from sbformat.errors import SbformatError, escape
from sbformat.folders.listing import is_other_zip

if TYPE_CHECKING:
    import argparse

CSV_COLUMNS: Final = ("path", "outcome", "level", "entry", "loc", "kind", "message")
"""A row for each problem; one for a file without problems."""
_NOT_READ: Final = "not read"
_SKIPPED: Final = "skipped"  # outcome of a zip of something else than an agent
_STATUS: Final = {"ok": _files.EXIT_FINE, _SKIPPED: _files.EXIT_FINE, "invalid": _files.EXIT_FINDINGS}

VALIDATE: Final = opt.Command(
    example="sbformat validate models/",
    description="Decode every entry, check every CRC, check data against its JSON Schema and the entries "
    "against each other. This is about the format, not about safety: scan reports what loading a file would run.",
    options=(
        opt.FILES,
        opt.flag("--skip-others", "pass over zips that have no entry of an agent, such as those of documents"),
        opt.JOBS,
        opt.reading("csv"),
    ),
)


def run_validate(args: argparse.Namespace) -> int:
    """Validate each file; return 1 when one has errors, 2 when one could not be read; a skipped one is neither."""
    from sbformat.schema import known_keys

    _many.use_absolute_paths(args)
    paths = list(_files.expand_paths(args.paths))
    if len(paths) > 1:
        known_keys(None)  # imports jsonschema before processes are forked
    work = partial(validate_one, args=args)
    reports = list(_many.map_files(work, paths, args, label="validating", done="validated"))
    for report in reports:
        if report["outcome"] == _SKIPPED:
            _output.warn(_files.describe_failure(report))
        elif "message" in report:
            _output.report_failure(report, lists_problems=False)
    if args.format == "json":
        _output.print_json("validate", reports)
    elif args.format == "csv":
        _FORM.print_csv(reports)
    else:
        _print_all(reports)
    return max((_STATUS.get(report["outcome"], _files.EXIT_COULD_NOT) for report in reports), default=_files.EXIT_FINE)


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


def _print_all(reports: list[dict[str, Any]]) -> None:
    """Print the files that could be read, and how many there are of each kind."""
    printer = _output.make_printer()
    for report in reports:
        if "message" not in report and not (opt.is_quiet() and report["outcome"] == "ok"):
            _FORM.print_text(printer, report)
    if len(reports) > 1 and not opt.is_quiet():
        is_lost = [("message" in report and report["outcome"] != _SKIPPED) for report in reports]
        counts = Counter(_NOT_READ if lost else report["outcome"] for report, lost in zip(reports, is_lost))
        others = "".join(f", {counts[word]:,} {word}" for word in (_NOT_READ, _SKIPPED) if counts[word])
        printer.line(f"{len(reports):,} files: {counts['ok']:,} valid, {counts['invalid']:,} invalid{others}")


def _print_report(printer: _output.Plain, report: dict[str, Any]) -> None:
    verdict = "valid" if report["outcome"] == "ok" else str(report["outcome"])
    printer.line(f"{escape(report['path'], 1000)}: ", _output.Styled(verdict))
    for row in report["problems"]:
        place = escape(row["entry"]) + (f" {row['loc']}" if row["loc"] else "")
        printer.line(f"  {row['level']}: {place}: {escape(row['message'], 600)} [{row['kind']}]")


_FORM: Final = _output.Form(_print_report, CSV_COLUMNS, lambda report: report["problems"] or [{}])
