"""``sbformat scan``: what loading a file would run or import.

In: files, and folders in which every file is examined. Out: a verdict with its findings for each file, as text, JSON,
CSV or SARIF; files of folders that have no verdict are counted with their reasons.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections import Counter
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.kinds import LFS_POINTER, describe_other
from sbformat.cli import _files, _many, _output, _progress
from sbformat.cli import _options as opt
from sbformat.constants import DATA_ENTRY
from sbformat.errors import MESSAGE_BYTES, SbformatError, UnsupportedError, escape
from sbformat.immutable import Record
from sbformat.io.opening import find_roots, is_folder, is_remote, open_source
from sbformat.io.patterns import NOTHING, Exclusion
from sbformat.io.urls import hide_secrets, join_url
from sbformat.limits import Budget
from sbformat.rendering import count_noun
from sbformat.tools.scan.findings import SKIP_REASONS, VERDICTS, Finding, ScanReport, Skipped
from sbformat.tools.scan.folders import Tree, is_unzipped_archive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from sbformat.limits import Limits
    from sbformat.tools.scan.baseline import Applied

CSV_COLUMNS: Final = (
    "path", "outcome", "file_verdict", "format", "size", "sha256", "verdict", "reason", "rule", "entry", "key",
    "offset", "line", "names", "message", "accepted",
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
_MOST: Final = 10  # files that are listed of each verdict that a baseline accepts
_CELL: Final = 100
_SENTENCE: Final = 600
_LINES: Final = 20  # findings of a file that are listed without ``--verbose``; of more, those of a kind are counted


SCAN: Final = opt.Command(
    example="sbformat scan --fail-on dangerous models/",
    description="Examine every pickle in archives, .pth files, pickles, bare data files, unzipped archives and "
    "trees of files, and give each file a verdict: clean, unknown, code, broken or dangerous. In a tree, hidden "
    "folders included, every file is examined, whatever its name; files without a verdict are counted, each with "
    "its reason. Links out of the tree are not followed. Exit status 1 when a verdict reaches --fail-on, 2 when "
    "there is nothing to judge, also in one of several folders.",
    options=(
        opt.option("paths", "PATH", f"files, folders of them, or patterns in quotes{opt.STDIN}", nargs="+"),
        opt.option(
            "--fail-on",
            "LEVEL",
            "the lowest verdict with exit status 1: unknown (default), code, broken, dangerous, or never",
            choices=(*VERDICTS[1:], NEVER),
            default=VERDICTS[1],
        ),
        opt.ALLOW,
        opt.one_of(
            opt.option("--baseline", "FILE", "findings that are accepted: they are shown, and do not fail the scan"),
            opt.option("--write-baseline", "FILE", "write a baseline that accepts what this scan finds"),
        ),
        opt.flag("--list-skipped", "list the files of folders that have no verdict, with the reasons"),
        opt.REPORT,
        opt.MANY,
        opt.common("sarif", "csv"),
    ),
)


def run_scan(args: argparse.Namespace) -> int:
    """Scan each file; 1 when a verdict reaches the level, 2 when a file could not be read."""
    import sbformat.tools.scan  # noqa: F401 -- processes that are forked share it

    _many.use_absolute_paths(args)
    limits = _files.make_limits(args)
    _files.check_allowed(args)
    items = _read_baseline(args, limits)
    if items is None:
        return _files.EXIT_COULD_NOT
    found = find_files(args.paths, _files.make_exclusion(args))
    work = partial(
        scan_one, roots=found.roots, limits=limits, allow=tuple(args.allow), lists_imports=args.format == "json"
    )
    reports, skipped = [], [row._asdict() for row in found.skipped]
    for report in _many.map_files(work, found.paths, args, label="scanning", done="scanned"):
        reason = report.pop("skipped_as", None)
        skipped += report.pop("skipped", ())
        if reason is not None:
            skipped.append({"path": report["path"], "reason": reason})
            continue
        if report["outcome"] == "ok":
            report["names"] = found.names.get(report["path"], [])
        reports.append(report)
    status = _report_empty_folders(found.folders, reports, skipped)
    _output.report_failures(reports)
    if args.write_baseline:
        status = max(status, _write_baseline(args, reports, items, skipped))
    applied = _apply_baseline(args, reports, items, skipped)
    status = max(status, _exit_status(reports, args.fail_on))
    args.report_summary = _count_verdicts(reports)
    _print_reports(args, reports, _count_skipped(skipped, with_files=args.list_skipped), applied, status)
    return status


def _print_reports(
    args: argparse.Namespace,
    reports: list[dict[str, Any]],
    summary: dict[str, Any],
    applied: Applied | None,
    status: int,
) -> None:
    """Print the reports in the format of the command line.

    :param summary: the files without a verdict
    :param applied: what the baseline accepts; None without one
    """
    is_summed_up = len(reports) != 1 or summary["counts"] or applied is not None
    result = _render_result(reports, args.fail_on, applied, status)
    args.report_result = result if is_summed_up or status else ""
    if args.format == "json":
        others: dict[str, Any] = {} if applied is None else {"baseline": applied._asdict()}
        _output.print_json("scan", reports, skipped=summary, **others)
    elif args.format == "csv":
        _FORM.print_csv(reports)
    elif args.format == "sarif":
        import sbformat
        from sbformat.tools.scan.sarif import render_sarif

        version = sbformat.__version__
        log = render_sarif(
            reports,
            summary,
            version=version,
            exit_code=status,
            root=os.getcwd(),
            has_baseline=applied is not None,
        )
        _output.print_document(log)
    else:
        printer = _output.make_printer()
        _print_text(printer, reports, summary)
        if is_summed_up and (status or not opt.is_quiet()):
            printer.line(result)


def _report_empty_folders(
    folders: Mapping[str, frozenset[str]], reports: list[dict[str, Any]], skipped: list[dict[str, str]]
) -> int:
    """Name the folders of the command line in which nothing was judged, and return the exit status of that.

    :param skipped: the files in folders that are not judged
    """
    judged = {report["path"] for report in reports}
    empty = [folder for folder, paths in folders.items() if judged.isdisjoint(paths)]
    if not reports:
        empty = [""]
    for name in empty:
        about = f"{escape(name, 1000)}: " if name else ""
        reasons = {row["reason"] for row in skipped if row["path"].startswith(name)}
        tail = f", but {LFS_POINTER}" if "lfs-pointer" in reasons else ""
        tail += "; --exclude leaves out files" if "excluded" in reasons else ""
        _files.write_remark(f"{about}nothing to judge: no archive, torch file or pickle was found{tail}")
    return _files.EXIT_COULD_NOT if empty else _files.EXIT_FINE


def _count_skipped(skipped: list[dict[str, str]], *, with_files: bool) -> dict[str, Any]:
    """Count the files without a verdict by their reasons, and list them where that is wanted."""
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
                source = _files.open_input(path, limits)
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
    return _files.EXIT_FINDINGS if _list_failing(reports, fail_on) else _files.EXIT_FINE


def _list_failing(reports: list[dict[str, Any]], fail_on: str) -> list[str]:
    """Return the files that have a verdict that reaches the level, apart from accepted findings."""
    reached = () if fail_on == NEVER else VERDICTS[VERDICTS.index(fail_on) :]
    return [
        report["path"]
        for report in reports
        if report["outcome"] == "ok" and any(verdict in reached for verdict in _list_counted(report))
    ]


def _list_counted(report: dict[str, Any]) -> list[str]:
    """Return the verdicts of a file that the exit status depends on: those of findings that are not accepted."""
    if report["omitted"]:  # findings that are not listed cannot be accepted
        return [report["verdict"]]
    return [VERDICTS[0], *(row["verdict"] for row in report["findings"] if not row.get("accepted"))]


# -- the baseline -------------------------------------------------------------------------------------


def _read_baseline(args: argparse.Namespace, limits: Limits) -> list[dict[str, Any]] | None:
    """Return the items of the baseline that is used, or written again; None after the error of one that is not."""
    path = args.baseline or args.write_baseline
    if args.write_baseline == _files.STANDARD_STREAM:
        raise opt.UsageError("argument --write-baseline: expected a file, got '-'")
    if path is None or (args.write_baseline and not os.path.lexists(path)):
        return []
    from sbformat.tools.scan.baseline import read_baseline

    def read() -> dict[str, Any]:
        opened = open_source(_files.open_input(path, limits), budget=Budget(limits))
        return {"items": read_baseline(bytes(opened.view(0, opened.size)), limits)}

    report = _files.report_errors(path, read)
    if path != _files.STANDARD_STREAM and not is_remote(path) and not os.path.lexists(path):
        report.setdefault("hint", f"--write-baseline {escape(shlex.quote(path), 1000)} makes it")
    _output.report_failures([report])
    return report.get("items")


def _write_baseline(
    args: argparse.Namespace,
    reports: list[dict[str, Any]],
    items: list[dict[str, Any]],
    skipped: list[dict[str, str]],
) -> int:
    """Write a baseline that accepts the findings, and return the exit status of that.

    :param items: those of the file that is replaced; they become those that are written
    :param skipped: the files in folders that are not judged
    """
    from sbformat.io.atomic import new_file, open_new
    from sbformat.tools.scan.baseline import make_baseline, render_baseline

    path = args.write_baseline
    if not reports or any(report["outcome"] != "ok" for report in reports):
        _files.write_remark(f"{escape(path, 1000)}: not written, because something could not be read")
        return _files.EXIT_COULD_NOT

    made = make_baseline(reports, items, partial(_was_scanned, args.paths, skipped))

    def write() -> dict[str, Any]:
        with new_file(path, overwrite=True) as temporary, open_new(temporary) as file:
            file.write(render_baseline(made))
        return {}

    report = _files.report_errors(path, write, outputs=[path])
    _output.report_failures([report])
    if report["outcome"] != "ok":
        return _files.EXIT_COULD_NOT
    _describe_baseline(path, reports, items, made)
    items[:] = made
    return _files.EXIT_FINE


def _describe_baseline(
    path: str, reports: list[dict[str, Any]], before: list[dict[str, Any]], made: list[dict[str, Any]]
) -> None:
    """Say on standard error what a baseline accepts that was written: of what is new, the verdicts and the files.

    :param before: the items of the file that was replaced
    """
    from sbformat.tools.scan.baseline import identify

    known, digests = set(map(identify, before)), {report["sha256"] for report in reports}
    files: dict[str, list[str]] = {}
    for report in filter(itemgetter("sha256"), reports):
        for row in sorted(report["findings"], key=_rank):
            if identify({**row, "sha256": report["sha256"]}) not in known:
                files.setdefault(_render_verdict(row), []).append(report["path"])
    new = sorted(files, key=list(_output.VERDICT_STYLES).index, reverse=True)
    listed = [f"{count_noun(len(files[word]), 'finding')} {word}, in {_list_files(files[word], _MOST)}" for word in new]
    total = sum(len(report["findings"]) for report in reports)
    written = sum(len(report["findings"]) for report in reports if report["sha256"])
    text = f"wrote {escape(path, 1000)}: {count_noun(written, 'accepted finding')}"
    text += f", {sum(map(len, files.values())):,} of them new" if before else ""
    if kept := sum(item["sha256"] not in digests for item in made):
        text += f"; kept {count_noun(kept, 'item')} of files that were not scanned"
    _output.warn(text, problems=listed)
    if total > written:
        what = count_noun(total - written, "finding")
        _output.warn(f"{what} of folders cannot be accepted, because a folder has no digest")
    if omitted := sum(report["omitted"] for report in reports):
        _output.warn(f"{count_noun(omitted, 'finding')} cannot be accepted, because a report does not list so many")


def _was_scanned(paths: list[str], skipped: list[dict[str, str]], path: str) -> bool:
    """Return whether a scan of some paths looked at a path, also if it found no file there."""

    def contains(top: str) -> bool:
        if is_remote(top) or is_remote(path):
            return f"{path}/".startswith(f"{top.rstrip('/')}/")
        return os.path.join(os.path.abspath(path), "").startswith(os.path.join(os.path.abspath(top), ""))

    excluded = (row["path"] for row in skipped if row["reason"] == "excluded")
    return any(map(contains, map(_files.name_input, paths))) and not any(map(contains, excluded))


def _apply_baseline(
    args: argparse.Namespace,
    reports: list[dict[str, Any]],
    items: list[dict[str, Any]],
    skipped: list[dict[str, str]],
) -> Applied | None:
    """Mark the findings that the baseline accepts; None without one. Items that accept nothing are remarks.

    The one about a file that changed is written with ``--quiet``, too, if the scan fails because of it.

    :param skipped: the files in folders that are not judged
    """
    path = args.baseline or args.write_baseline
    if path is None:
        return None
    from datetime import date

    from sbformat.tools.scan.baseline import apply_baseline

    applied = apply_baseline(reports, items, date.today())  # noqa: DTZ011 -- a date of the user's calendar
    name = escape(_files.name_input(path), 1000)
    count = count_noun(len(items), "item")
    changed, gone, others = _sort_unmatched(args, reports, applied.unmatched, skipped)
    paths = list(dict.fromkeys(map(_name_file, changed)))
    if paths and not (opt.is_quiet() and set(paths).isdisjoint(_list_failing(reports, args.fail_on))):
        its, it, they = ("its", "it", "it is") if len(paths) == 1 else ("their", "them", "they are")
        again = f"{_list_files(paths)} changed since {its} findings were accepted (other SHA-256): look at {it} again"
        words = [path, *paths] if len(paths) <= _SHOWN_NAMES else [path, "FILE"]
        accept = " ".join(["sbformat scan --write-baseline", *(escape(shlex.quote(word), 1000) for word in words)])
        is_file = path != _files.STANDARD_STREAM and not is_remote(path)
        _files.write_remark(f"{name}: {again}", f"when {they} fine: {accept}" if is_file else "")
    remarks = (
        (gone, "match no finding any more", f"remove them from {name}"),
        (others if args.baseline else [], "are of files that were not scanned", ""),
        (applied.expired, "expired", "change their date after another look at the findings, or remove them"),
    )
    for rows, what, hint in remarks:
        if rows:
            _output.warn(f"{name}: {len(rows):,} of {count} {what}: {_list_files(map(_name_file, rows))}", hint)
    return applied


def _sort_unmatched(
    args: argparse.Namespace,
    reports: list[dict[str, Any]],
    items: list[dict[str, Any]],
    skipped: list[dict[str, str]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the items of files that changed, those of findings that are gone, and those of files not scanned."""
    digests = {report.get("sha256") for report in reports}
    paths = {report["path"] for report in reports if report["outcome"] == "ok"}
    unread = {report["path"] for report in reports} - paths
    changed, gone, others = [], [], []
    for item in items:
        path = item.get("path")
        if item["sha256"] in digests:
            gone.append(item)
        elif path in paths:
            changed.append(item)
        elif path is None or path in unread or not _was_scanned(args.paths, skipped, path):
            others.append(item)
        else:
            gone.append(item)
    return changed, gone, others


def _name_file(item: dict[str, Any]) -> str:
    return str(item.get("path", item["sha256"]))


def _list_files(paths: Iterable[str], most: int = _SHOWN_NAMES) -> str:
    """Return the first of the paths, each once, and how many more there are."""
    files = list(dict.fromkeys(paths))
    more = f" and {len(files) - most:,} more" if len(files) > most else ""
    return ", ".join(escape(file, 1000) for file in files[:most]) + more


# -- JSON ---------------------------------------------------------------------------------------------


def _to_json(report: ScanReport) -> dict[str, Any]:
    """Return a report as JSON has it: all fields in their order."""
    findings = [{name: getattr(row, name) for name in Finding.__annotations__} for row in report.findings]
    fields = {name: getattr(report, name) for name in ScanReport.__annotations__}
    return {**fields, "findings": findings, "skipped": [row._asdict() for row in report.skipped]}


def _list_rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of CSV."""
    file = {"file_verdict": report["verdict"], **{key: report[key] for key in ("format", "size", "sha256")}}
    rows = [{**file, **row, "names": " ".join(row["names"])} for row in report["findings"]]
    return rows or [file]


# -- text ---------------------------------------------------------------------------------------------


def _print_text(printer: _output.Plain, reports: list[dict[str, Any]], skipped: dict[str, Any]) -> None:
    quiet = opt.is_quiet()
    for report in reports:
        if report["outcome"] == "ok" and not (quiet and report["verdict"] == "clean"):
            _print_report(printer, report)
    reasons = {row["reason"] for report in reports for row in report.get("findings", ()) if row["verdict"] == _WORST}
    for reason in (reason for reason in _REASONS if reason in reasons and not quiet):
        printer.line(f"{_WORST} ({reason.replace('-', ' ')}): {_REASONS[reason]}")
    if (len(reports) != 1 or skipped["counts"]) and not quiet:
        printer.line(_count_verdicts(reports))
    if skipped["counts"] and not quiet:
        parts = [f"{count:,} {SKIP_REASONS[reason][count > 1]}" for reason, count in skipped["counts"].items()]
        hint = "" if "files" in skipped else " (--list-skipped lists them)"
        printer.line(f"without a verdict: {'; '.join(parts)}{hint}")
    for row in skipped.get("files", ()):
        printer.line(f"  {row['reason']}: {escape(row['path'], 1000)}")


def _count_verdicts(reports: list[dict[str, Any]]) -> str:
    """Return the number of files, and of those with each verdict."""
    counts = Counter(_render_verdict(report) if "verdict" in report else "not read" for report in reports)
    parts = [f"{counts[word]:,} {word}" for word in _output.VERDICT_STYLES if counts[word]]
    return ", ".join([count_noun(len(reports), "file"), *parts])


def _render_result(reports: list[dict[str, Any]], fail_on: str, applied: Applied | None, status: int) -> str:
    """Return the line that says whether a scan passes or fails, and because of which files."""
    unread = [report["path"] for report in reports if report["outcome"] != "ok"]
    failing = _list_failing(reports, fail_on)
    parts = [_list_files(failing, 1)] if failing else []
    parts += [f"not read: {_list_files(unread, 1)}"] if unread else []
    parts = parts or (["exit status 2"] if status == _files.EXIT_COULD_NOT else [])
    level = f"--fail-on {fail_on}"
    if applied is not None:
        findings = sum(len(report.get("findings", ())) + report.get("omitted", 0) for report in reports)
        level += f", {applied.accepted:,} of {count_noun(findings, 'finding')} accepted by the baseline"
    return ": ".join([f"result: {'fails' if status else 'passes'} ({level})", *filter(None, ["; ".join(parts)])])


def _print_report(printer: _output.Plain, report: dict[str, Any]) -> None:
    digest = report["sha256"] or ""
    digest = digest if opt.is_verbose() or not digest else f"{digest[:_SHOWN_DIGITS]}\u2026"
    path, verdict = f"{escape(report['path'], 1000)}: ", _output.Styled(_render_verdict(report))
    printer.line(path, verdict, f" (sha256 {digest})" if digest else "", style="bold")
    for name in report["names"]:
        printer.line(f"    also {escape(name, 1000)}")
    if not report["findings"]:
        return
    worst_first = sorted(report["findings"], key=_rank)
    listed = [(row, 0) for row in worst_first] if opt.shows_whole() else group_findings(worst_first)
    rows = [_list_cells(row, more) for row, more in listed]
    header = ("verdict", "baseline", "where", "rule", "why")
    printer.table("findings", header, rows, longest=_SENTENCE, leaves_out=(1,))
    if len(listed) < len(worst_first):
        shown = sum(more or 1 for _, more in listed)
        rest = f"\u2026 and {len(worst_first) - shown:,} more of other kinds; " if shown < len(worst_first) else ""
        printer.line(f"  {rest}--verbose or --format json lists all {len(worst_first):,}")
    if report["omitted"]:
        printer.line(f"    \u2026 and {report['omitted']:,} more that are not listed")
    _print_advice(printer, report, worst_first)
    printer.line()


def _list_cells(row: dict[str, Any], more: int) -> tuple[str, ...]:
    """Return the cells of a finding, or those that count further findings of its kind.

    :param more: how many there are; 0 for the finding itself
    """
    place = escape(":".join(filter(None, (row["entry"], row["key"]))) or "(the file)", _longest())
    status = "accepted" if row.get("accepted") else ""
    if more:
        return (_render_verdict(row), status, place, row["rule"], f"\u2026 and {more:,} more of the kind")
    place += "" if row["offset"] is None else f" at byte {row['offset']}"
    return (_render_verdict(row), status, place, row["rule"], f"{row['message']}{_render_names(row)}")


def _rank(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key that sorts findings: the worst first, those that are accepted last."""
    return (row.get("accepted", False), -VERDICTS.index(row["verdict"]), row["reason"] or "not")


def group_findings(findings: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """Return the findings that are listed, each with 0; or, after the first of a kind, the number of the others.

    A kind is a rule in a value with a verdict. Of each kind, those with different names come first.

    :param findings: in their order, the worst first
    """
    if len(findings) <= _LINES:
        return [(row, 0) for row in findings]
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in findings:
        kind = (_render_verdict(row), row.get("accepted"), row["entry"], row["key"], row["rule"])
        kinds.setdefault(kind, []).append(row)
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


def _print_advice(printer: _output.Plain, report: dict[str, Any], findings: list[dict[str, Any]]) -> None:
    """Print the command that shows all of the dangerous values of ``data``, which messages show in part."""
    found = (row["key"] for row in findings if row["entry"] == DATA_ENTRY and row["verdict"] == _WORST)
    keys = [key for key in dict.fromkeys(found) if _SIMPLE_KEY.fullmatch(key)]
    path = report["path"]
    if keys and report["format"] == "sb3" and path != _files.STANDARD_STREAM and not opt.is_quiet():
        options = " ".join(f"--blobs {key}" for key in keys[:_SHOWN_NAMES])
        printer.line(f"  sbformat inspect {escape(shlex.quote(path), 1000)} {options} shows all that is called")


def _render_verdict(row: dict[str, Any]) -> str:
    return _output.render_verdict(row["verdict"], row["reason"])


def _longest() -> int:
    """Return the number of characters of a name or place."""
    return MESSAGE_BYTES if opt.shows_whole() else _CELL


def _render_names(row: dict[str, Any]) -> str:
    """Return the names that the message of a finding does not contain, to follow it."""
    names = [name for name in row["names"] if escape(name, _CELL) not in row["message"]]
    return f": {_list_files(names, len(names) if opt.shows_whole() else _SHOWN_NAMES)}" if names else ""


_FORM: Final = _output.Form(_print_report, CSV_COLUMNS, _list_rows)


# -- files of the command line ------------------------------------------------------------------------


class Found(Record):
    """The files that the paths of a command line name."""

    paths: list[str]
    """Files, and folders that are an unzipped archive, in the same order on every system."""
    roots: dict[str, tuple[str, ...]]
    """For each path that was found in a folder, the folders that its links may point into."""
    names: dict[str, list[str]]
    """Other names of files."""
    skipped: list[Skipped]
    """Files in folders that are not judged, each with its reason."""
    folders: dict[str, frozenset[str]]
    """Folders that the command line names, with those of ``paths`` that are only in them; without those of which
    another path names a file, too."""


def find_files(paths: Iterable[str], exclude: Exclusion = NOTHING) -> Found:
    """Find the files to scan.

    A file that is named is scanned, whatever it is, also through a link. In a folder every file below is scanned, each
    once; see :mod:`sbformat.tools.scan.folders`.

    :param paths: files and folders
    :param exclude: what is left out of folders
    """
    paths, found, seen = list(paths), Found([], {}, {}, [], {}), set()
    for path in paths:
        if not is_remote(path) and not os.path.isdir(path):
            with contextlib.suppress(OSError):  # opening it gives the error
                status = os.stat(path)
                seen.add((status.st_dev, status.st_ino))
    for path in paths:
        if is_remote(path):
            _add_url(path, found, exclude)
            continue
        if not os.path.isdir(path):
            found.paths.append(path)
            continue
        roots = find_roots(path)
        tree = Tree(path, roots, seen, finds_archives=True, exclude=exclude)
        found.paths.extend([*tree.unreadable, *tree.files])
        found.roots.update(dict.fromkeys(tree.files, roots))
        found.names.update(tree.names)
        found.skipped.extend(tree.skipped)
        if not any(row.reason == "link" for row in tree.skipped):
            found.folders[path] = frozenset((*tree.unreadable, *tree.files))
    return found


def _add_url(url: str, found: Found, exclude: Exclusion) -> None:
    """Add a remote file, or all files of a remote folder; an unzipped archive, with all below it, is one file.

    Of a pattern, and of a query of the Hub, the archives are added.
    """
    from sbformat.folders.trees import is_excluded_url
    from sbformat.io.remote.listing import is_pattern, iter_files, pin_folder, walk_folder

    try:
        if is_pattern(url):
            names = [row.name or row.url for row in iter_files(url)] or [url]
            left_out = [name for name in names if is_excluded_url(url, name, exclude)]
            found.paths.extend(name for name in names if name not in left_out)
            found.skipped.extend(Skipped(hide_secrets(name), "excluded") for name in left_out)
            return
        if not is_folder(url):
            found.paths.append(url)
            return
        pinned, files, left_out, archive = pin_folder(url), [], [], None
        for folder in walk_folder(pinned):
            if archive is not None and f"{folder.name}/".startswith(archive):
                continue
            if exclude.covers(f"{folder.name}/"):
                left_out.append(folder.name)
                continue
            names = [row.name for row in folder.files]
            if is_unzipped_archive({name.rpartition("/")[2] for name in names}):
                archive = f"{folder.name}/" if folder.name else ""
                names = [folder.name]
            else:
                left_out += filter(exclude.covers, names)
            files += [join_url(pinned, name) if name else pinned for name in names if name not in left_out]
    except (OSError, SbformatError):  # opening it gives the error
        found.paths.append(url)
        return
    found.skipped.extend(Skipped(hide_secrets(join_url(pinned, name)), "excluded") for name in left_out)
    found.paths.extend(files)
    found.roots.update(dict.fromkeys(files, ()))
    found.folders[hide_secrets(url)] = frozenset(map(hide_secrets, files))
