"""``rebuild`` of many files: a folder, or several files, into a folder, in several processes.

One file that cannot be rebuilt does not stop the others. Other files are copied on request, each only if ``scan`` finds
nothing in it, and it is not a program.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _many, _output, _streams
from sbformat.cli._options import is_quiet
from sbformat.cli._rebuild_file import rebuild_agent, rebuild_file, rebuild_statistics
from sbformat.cli._rebuild_plan import PROGRAM, Job, make_plan
from sbformat.cli._rebuild_text import WORDS, count_words, describe_release
from sbformat.errors import ContainerError, SbformatError, UnsupportedError, escape, quote
from sbformat.io.opening import is_remote, is_within, open_url, read_start
from sbformat.io.source import iter_views
from sbformat.io.urls import is_url

if TYPE_CHECKING:
    import argparse

    from sbformat.limits import Limits

_PLAIN_FORMATS: Final = frozenset({"text", "html", "empty", "unknown", "lfs-pointer"})
"""Formats of files that are not archives: that the scan does not judge their bytes is not a finding."""
_NOT_JUDGED: Final = "unknown-entry"
_PIECE: Final = 1 << 20
_LONGEST: Final = 160


def run_many(
    args: argparse.Namespace, paths: list[str], output: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rebuild and copy all files; return the reports of those that were rebuilt or failed, and those of the others.

    :param paths: files and folders
    :param output: the folder
    """
    import sbformat.tools.rebuild
    import sbformat.writer  # noqa: F401 -- imported before processes are forked

    try:
        _check_output(paths, output)
        plan = make_plan(
            paths, output, _files.make_limits(args), copy_others=args.copy_others, copy_buffers=args.copy_buffers
        )
    except (SbformatError, OSError) as error:
        return [_files.report_errors(paths[0], partial(_raise, error), outputs=[output])], []
    jobs = {job.path: job for job in plan.jobs if job.step != "leave"}
    work = partial(_run_job, jobs=jobs, args=args, root=os.path.realpath(output))
    done = _many.map_files(work, list(jobs), args, lost=lambda report: report, done="rebuilt")
    reports: list[dict[str, Any]] = [*plan.failed]
    others = [
        {"path": _streams.name_input(job.path), "copied": False, "message": job.why}
        for job in plan.jobs
        if job.step == "leave"
    ]
    with _many.count_files("rebuilding", list(jobs), args) as advance:
        for report in done:
            advance(report["path"])
            if "copied" in report:
                others.append({name: report[name] for name in ("path", "copied", "message")})
            else:
                reports.append(report)
    return sorted(reports, key=lambda report: report["path"]), sorted(others, key=lambda row: row["path"])


def _raise(error: Exception) -> dict[str, Any]:
    raise error


def _check_output(paths: list[str], output: str) -> None:
    """Refuse outputs that a folder cannot be written to.

    :raises UnsupportedError: for standard input or output, and for an output that is an input
    :raises OSError: when the output is a file
    """
    if is_url(output):
        raise OSError(30, "URLs can be read, not written: name a folder", output)
    if _streams.STANDARD_STREAM in (*paths, output):
        message = "of many files, the output is a folder, and standard input is not one of the files"
        raise UnsupportedError(message)
    if os.path.lexists(output) and not os.path.isdir(output):
        message = "is not a folder, which several files are written to"
        raise FileExistsError(17, message, output)
    for path in paths:
        if os.path.isdir(path) and os.path.isdir(output) and os.path.samefile(path, output):
            message = "the output and the input are the same folder"
            raise UnsupportedError(message)


def _run_job(path: str, jobs: dict[str, Job], args: argparse.Namespace, root: str) -> dict[str, Any]:
    """Rebuild or copy one file; runs in a worker process when there are many."""
    job = jobs[path]
    return _files.report_errors(path, lambda: _write_job(job, args, root), outputs=[job.output])


def _write_job(job: Job, args: argparse.Namespace, root: str) -> dict[str, Any]:
    _files.refuse_same_file(job.path, job.output)
    if not is_within(job.output, (root,)):
        message = f"the output {quote(job.output)} is a link that leads out of the folder"
        raise UnsupportedError(message)
    if job.step == "copy":
        why = _find_objection(job.source, _files.make_limits(args))
        if why:
            return {"copied": False, "message": why}
        os.makedirs(os.path.dirname(job.output), exist_ok=True)
        _copy_file(job.source, job.output, overwrite=args.force)
        return {"copied": True, "message": ""}
    if not args.force and os.path.lexists(job.output):
        raise FileExistsError(17, _files.ALREADY_EXISTS, job.output)
    os.makedirs(os.path.dirname(job.output), exist_ok=True)
    if job.step == "policy":
        try:
            return rebuild_file(job.source, job.output, args)
        except UnsupportedError as error:
            return {"copied": False, "message": str(error)}
    return (rebuild_agent if job.step == "agent" else rebuild_statistics)(job.source, job.output, args)


def _find_objection(path: str, limits: Limits) -> str:
    """Return why a file is not copied: what the scan finds in it, or that it is a program; empty for others."""
    from sbformat.tools.scan import scan
    from sbformat.tools.scan.sidecars import is_script

    if is_script(path, read_start(path, 16)):
        return PROGRAM
    report = scan(path, limits=limits)
    for finding in report.findings:
        if finding.rule != _NOT_JUDGED or report.format not in _PLAIN_FORMATS:
            return f"{report.verdict}: {finding.message}"
    return ""


def _copy_file(source: str, output: str, *, overwrite: bool) -> None:
    """Copy the bytes of a file, completely or not at all.

    :raises ContainerError: when it changes in the meantime
    """
    from sbformat.io.atomic import new_file, open_new

    if is_remote(source):
        remote = open_url(source)
        with new_file(output, overwrite=overwrite) as temporary, open_new(temporary) as copy:
            for chunk in iter_views(remote, 0, remote.size):
                copy.write(chunk)
        return
    size = os.stat(source).st_size
    with open(source, "rb") as file, new_file(output, overwrite=overwrite) as temporary:
        with open_new(temporary) as target:
            while piece := file.read(_PIECE):
                target.write(piece)
        if os.stat(temporary).st_size != size:
            message = "the file changed while it was copied"
            raise ContainerError(message)


# -- text ---------------------------------------------------------------------------------------------


def print_many(
    args: argparse.Namespace, output: str, reports: list[dict[str, Any]], others: list[dict[str, Any]]
) -> None:
    """Print a row for each file that was rebuilt, and the files that were copied or left out."""
    printer = _output.make_printer()
    written = [report for report in reports if report["outcome"] == "ok"]
    findings = sum(any(row["is_finding"] for row in report["rows"]) for report in written)
    if is_quiet() and not findings:
        return
    failed = len(reports) - len(written)
    copied = [row for row in others if row["copied"]]
    parts = [f"{_output.count_noun(len(written), 'file')} rebuilt"]
    parts += [f"{len(copied):,} copied"] if copied else []
    parts += [f"{len(others) - len(copied):,} not copied"] if len(others) > len(copied) else []
    parts += [f"{failed:,} failed"] if failed else []
    printer.line(f"{escape(output, 1000)}: {', '.join(parts)}")
    header, rows = _list_rows(written, output)
    printer.table("rebuilt", header, rows, right=(3, 4, 5, 6), longest=_LONGEST)
    bad = [
        (_shorten(report["path"], args.paths), f"{report['outcome']}: {report['message']}")
        for report in reports
        if report["outcome"] != "ok"
    ]
    printer.table("failed", ("file", "why"), bad, longest=_LONGEST)
    left = [(_shorten(row["path"], args.paths), row["message"]) for row in others if not row["copied"]]
    printer.table("not copied", ("file", "why"), left, longest=_LONGEST)


def _list_rows(written: list[dict[str, Any]], output: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows = []
    for report in written:
        findings = dict.fromkeys(str(row["key"] or row["entry"]) for row in report["rows"] if row["is_finding"])
        name = os.path.relpath(report["output"], output)
        found = count_words(report)
        counts = (str(found.get(word, 0)) for word in WORDS)
        rows.append((name, report["algorithm"], describe_release(report), *counts, ", ".join(findings)))
    return ("file", "algorithm", "written by", *WORDS, "now something else"), rows


def _shorten(path: str, paths: list[str]) -> str:
    """Return a path below the folder of the command line that it is in."""
    top = paths[0] if len(paths) == 1 else ""
    return os.path.relpath(path, top) if top and os.path.isdir(top) else path
