"""``sbformat report``: a page of HTML to look at."""

from __future__ import annotations

import os
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _many, _output
from sbformat.cli import _options as opt
from sbformat.errors import COULD_NOT_OPEN, MissingEntryError, escape
from sbformat.io.atomic import check_new_file
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from sbformat.catalogue.collect import FileData
    from sbformat.catalogue.rows import FileRow
    from sbformat.html_report.actions_panel import ActionsPanel
    from sbformat.limits import Limits

REPORT: Final = opt.Command(
    example="sbformat report agent.zip -o agent.html",
    description="Write one page of HTML, to look at in a browser: about one file, a comparison of two, or a table "
    "of more to sort and filter. The page loads nothing from elsewhere. Exit status 1 when a file or an entry is "
    "broken: the page shows it with the reason. Exit status 2 when a file cannot be opened or is empty: of one or "
    "two files there is then no page.",
    options=(
        opt.FILES,
        opt.output_file("the page, .html"),
        opt.flag(
            "--interactive",
            "a page of one agent with its policy in it, and a panel: controls for the observation, and the actions; of "
            "a folder the agent that predict runs",
        ),
        opt.option(
            "--vecnormalize",
            "STATS",
            "with --interactive, the statistics it was trained with, by default those of a bundle or beside the agent; "
            f"none: observations are normalized already{opt.STDIN}",
        ),
        opt.option("--title", "TEXT", "the title of the page"),
        opt.repeated("--allow", "NAME", "treat a name as known; repeatable"),
        opt.MANY,
        opt.FORCE,
        opt.common(),
    ),
)


def run_report(args: argparse.Namespace) -> int:
    """Write the page; 1 when a file or an entry is broken, 2 when there is no page, or a file is not in it."""
    from sbformat.folders.trees import is_zip_of_logs

    if args.vecnormalize is not None and not args.interactive:
        raise opt.UsageError("--vecnormalize goes with --interactive")
    _many.use_absolute_paths(args)
    paths: list[str] = args.paths
    if not args.interactive:
        paths = [path for path in _files.expand_paths(args) if path in args.paths or not is_zip_of_logs(path)]
    name = _files.name_output(args.output)
    failed: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy and matplotlib, about numbers of files: the page shows them
        outcome = _files.report_errors(name, lambda: write_page(paths, args, failed), outputs=[args.output])
    is_written = outcome["outcome"] == "ok"
    reports = [outcome, *failed] if is_written or not failed else failed
    for report in reports:
        if report["outcome"] != "ok":
            _output.report_failure(report, lists_problems=args.format == "text")
    if args.format == "json":
        _output.print_json(args.command, reports, stream=_files.find_result_stream(args))
    elif is_written and (outcome["broken"] or not opt.is_quiet()):
        _print_text(_output.make_printer(_files.find_result_stream(args)), outcome)
    if failed or not is_written:
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINDINGS if outcome["broken"] else _files.EXIT_FINE


def write_page(paths: list[str], args: argparse.Namespace, failed: list[dict[str, Any]]) -> dict[str, Any]:
    """Collect the files, write the page, and return what the command reports.

    :param failed: the reports of files of which nothing can be shown are added to it; the outcome is not ``ok`` when
        because of them there is no page
    """
    from sbformat.html_report.page import require_packages
    from sbformat.html_report.report import find_missing, is_complete, require_one, select_files, write_report

    _files.require_suffix("report", args.output, suffixes=(".html", ".htm"))
    require_packages()
    for path in paths:
        _files.refuse_same_file(path, args.output)
    if args.output != _files.STANDARD_STREAM:
        check_new_file(args.output, overwrite=args.force)
    if args.interactive:
        require_one(paths)
        chosen = _files.find_agent(paths[0], args)
        paths = [paths[0] if chosen is None else chosen.path]
    found = collect_files(paths, args)
    lost = [file for file in found if file.failure is not None and file.failure.outcome == _files.PROCESS_ENDED]
    failed += map(_report_failed, [*find_missing(found), *lost])
    if not is_complete(found):
        return {"outcome": COULD_NOT_OPEN}
    panel = None
    if args.interactive:
        [file] = select_files(found)
        panel = _files.name_in_errors(paths[0], lambda: _make_panel(file, args))
    with _files.open_output(args.output, ".html") as output:
        written = write_report(found, output, title=args.title, overwrite=args.force, panel=panel)
    missing = {report["path"] for report in failed}
    broken = [pair for pair in zip(written.broken, written.reasons) if pair[0] not in missing]
    return {
        "nbytes": written.nbytes,
        "files": list(written.files),
        "broken": [name for name, _ in broken],
        "reasons": [reason for _, reason in broken],
    }


def _make_panel(file: FileData, args: argparse.Namespace) -> ActionsPanel:
    """Return the policy of the one file, with the statistics of the command line or those that belong to it."""
    from sbformat.cli.agents import find_statistics
    from sbformat.html_report.actions_panel import make_panel

    return make_panel(file, vecnormalize=find_statistics(args), limits=_files.make_limits(args))


def _report_failed(file: FileData | FileRow) -> dict[str, Any]:
    """Return the report of a file of which nothing can be shown."""
    failure = file.failure
    return {"path": file.name, "outcome": failure.outcome, "message": failure.message} if failure is not None else {}


def collect_files(paths: list[str], args: argparse.Namespace) -> list[FileData] | list[FileRow]:
    """Read, inspect and scan each file; of many, keep only their rows, which are made by several processes."""
    from sbformat.catalogue.rows import make_lost_row
    from sbformat.html_report.report import FEWEST_IN_TABLE

    collect = partial(_collect_file, limits=_files.make_limits(args), allow=tuple(args.allow))
    if len(paths) < FEWEST_IN_TABLE:
        return [collect(path) for path in paths]
    import sbformat.tools.inspect
    import sbformat.tools.scan  # noqa: F401 -- imported before processes are forked

    work = partial(_collect_row, collect)
    return list(_many.map_files(work, paths, args, label="reading", done="read", lost=make_lost_row))


def _collect_file(path: str, limits: Limits, allow: tuple[str, ...]) -> FileData:
    """Collect a file, or standard input."""
    from sbformat.catalogue.collect import add_training, collect_file, find_beside

    source = _files.open_input(path, limits)
    found = collect_file(source, name=_files.name_input(path), limits=limits, allow=allow)
    if found.failure is None:
        return found if path == _files.STANDARD_STREAM else add_training(found, find_beside(path, limits), limits)
    message = opt.name_option(found.failure.message)
    if found.failure.outcome == MissingEntryError.outcome and os.path.isdir(path):
        message = _files.NO_ARCHIVE
    return found._replace(failure=found.failure._replace(message=message))


def _collect_row(collect: Callable[[str], FileData], path: str) -> FileRow:
    """Collect a file, and keep its row; runs in a worker process when there are many."""
    from sbformat.catalogue.rows import collect_row

    return collect_row(collect(path))


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    count = count_noun(len(report["files"]), "file")
    printer.line(f"{escape(report['path'], 1000)}: a page about {count}")
    for name, reason in zip(report["broken"], report["reasons"]):
        printer.line(f"  broken: {escape(name, 1000)}: {reason}")
