"""``sbformat validate``: check archives against the schema and the rules, and whether a release of SB3 loads them."""

from __future__ import annotations

import shlex
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _many, _output
from sbformat.cli import _options as opt
from sbformat.errors import SbformatError, escape
from sbformat.folders.listing import is_other_zip
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    import argparse

    from sbformat.archive.archive import Archive

CSV_COLUMNS: Final = ("path", "outcome", "level", "entry", "loc", "kind", "message")
"""A row for each problem, and with ``--target`` for each reason; one for a file without either."""
_NOT_READ: Final = "not read"
_SKIPPED: Final = "skipped"  # outcome of a zip of something else than an agent
_STATUS: Final = {"ok": _files.EXIT_FINE, _SKIPPED: _files.EXIT_FINE, "invalid": _files.EXIT_FINDINGS}

VALIDATE: Final = opt.Command(
    example="sbformat validate models/",
    description="Decode every entry, check every CRC, check data against its JSON Schema and the entries "
    "against each other. This is about the format, not about safety: scan reports what loading a file would run. With "
    "--target also say whether SB3's own load loads each agent whole there; if not, the exit status is 1.",
    options=(
        opt.FILES,
        opt.option(
            "--target",
            "RELEASE",
            "the release of SB3 to load the agents with, such as 2.9, or installed: that of this environment, with its "
            "Python and numpy; each reason why it does not load one whole has a command that helps",
        ),
        opt.repeated(
            "--allow",
            "NAME",
            "with --target, a class of your own that can be imported there, as it was saved; repeatable",
        ),
        opt.flag("--skip-others", "pass over zips that have no entry of an agent, such as those of documents"),
        opt.REPORT,
        opt.MANY,
        opt.reading("csv"),
    ),
)


def run_validate(args: argparse.Namespace) -> int:
    """Validate each file; return 1 when one has errors, 2 when one could not be read; a skipped one is neither."""
    from sbformat.schema import known_keys

    _many.use_absolute_paths(args)
    _files.check_allowed(args)
    paths = list(_files.expand_paths(args))
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
    args.report_summary = _count_outcomes(reports)
    return max(map(_find_status, reports), default=_files.EXIT_FINE)


def _find_status(report: dict[str, Any]) -> int:
    status = _STATUS.get(report["outcome"], _files.EXIT_COULD_NOT)
    is_whole = report.get("target", {}).get("loads_whole", True)
    return status if is_whole else max(status, _files.EXIT_FINDINGS)


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
        report = {
            "outcome": "invalid" if any(row.level == "error" for row in problems) else "ok",
            "problems": [row._asdict() for row in problems],
        }
        return report if args.target is None else {**report, "target": _check_target(archive, path, args)}

    return _files.report_errors(path, work)


def _check_target(archive: Archive, path: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return whether a release of SB3 loads an archive whole, as JSON has it, with commands for this file."""
    from sbformat.tools.check_target import check_target

    name = "FILE" if path == _files.STANDARD_STREAM else shlex.quote(_files.name_input(path))
    made = check_target(archive, target=args.target, allow=args.allow, name=name).to_json()
    for reason in made["reasons"]:
        reason["message"] = opt.name_option(reason["message"])
        reason["help"] = [opt.name_option(line) for line in reason["help"]]
    return made


def _print_all(reports: list[dict[str, Any]]) -> None:
    """Print the files that could be read, and how many there are of each kind."""
    printer = _output.make_printer()
    for report in reports:
        if "message" not in report and not (opt.is_quiet() and report["outcome"] == "ok"):
            _FORM.print_text(printer, report)
    if len(reports) > 1 and not opt.is_quiet():
        printer.line(_count_outcomes(reports))


def _count_outcomes(reports: list[dict[str, Any]]) -> str:
    """Return the number of files, and how many there are of each kind."""
    is_lost = [("message" in report and report["outcome"] != _SKIPPED) for report in reports]
    counts = Counter(_NOT_READ if lost else report["outcome"] for report, lost in zip(reports, is_lost))
    others = "".join(f", {counts[word]:,} {word}" for word in (_NOT_READ, _SKIPPED) if counts[word])
    loaded = Counter(report["target"]["loads_whole"] for report in reports if "target" in report)
    others += f"; {loaded[True]:,} loaded whole, {loaded[False]:,} not" if loaded else ""
    return f"{count_noun(len(reports), 'file')}: {counts['ok']:,} valid, {counts['invalid']:,} invalid{others}"


def _print_report(printer: _output.Plain, report: dict[str, Any]) -> None:
    verdict = "valid" if report["outcome"] == "ok" else str(report["outcome"])
    printer.line(f"{escape(report['path'], 1000)}: ", _output.Styled(verdict))
    for row in report["problems"]:
        place = escape(row["entry"]) + (f" {row['loc']}" if row["loc"] else "")
        printer.line(f"  {row['level']}: {place}: {escape(row['message'], 600)} [{row['kind']}]")
    if "target" in report:
        _print_target(printer, report["target"])


def _print_target(printer: _output.Plain, target: dict[str, Any]) -> None:
    """Print whether a release of SB3 loads a file whole, or the reasons; what helps against several comes last."""
    reasons, name = target["reasons"], f"SB3 {target['release']}"
    here = f" ({target['environment']})" if target["environment"] else ""
    if not reasons:
        printer.line(f"  {name} loads it whole{here}")
        return
    printer.line(f"  {name} does not load it whole{here}:")
    helps: dict[str, list[int]] = {}
    for number, reason in enumerate(reasons, 1):
        for line in reason["help"]:
            helps.setdefault(line, []).append(number)
    for number, reason in enumerate(reasons, 1):
        place = ", ".join(map(escape, reason["keys"])) or escape(reason["entry"])
        printer.line(f"  {number}. {place}: {escape(reason['message'], 600)} [{reason['cause']}]")
        for line in reason["help"]:
            if helps[line] == [number]:
                printer.line(f"       {escape(line, 1000)}")
    for line, numbers in helps.items():
        if len(numbers) > 1:
            all_of = "all" if len(numbers) == len(reasons) else ", ".join(map(str, numbers))
            printer.line(f"  against {all_of}:")
            printer.line(f"       {escape(line, 1000)}")


def _list_rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of CSV: problems, and the reasons of a target, a row for each key."""
    reasons = report.get("target", {}).get("reasons", ())
    rows = [
        {
            "level": "target",
            "entry": row["entry"],
            "loc": f"/{key}" if key else "",
            "kind": row["cause"],
            "message": row["message"],
        }
        for row in reasons
        for key in row["keys"] or [""]
    ]
    return [*report["problems"], *rows] or [{}]


_FORM: Final = _output.Form(_print_report, CSV_COLUMNS, _list_rows)
