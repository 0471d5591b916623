"""``rebuild`` of many files: a folder, or several files, into a folder, in several processes.

In: the files of a command line. First a plan says what is done with each, and which output it has, before any is
written; then each is rebuilt or copied. One that cannot be rebuilt does not stop the others. Other files are copied on
request, each only if ``scan`` finds nothing in it, and it is not a program. Out: a row for each file.

An output has the path that its input has below the folder of the command line; of several arguments, below the folder
that all of them are in. Agents become ``.zip`` files, SB2's two files of statistics one ``vecnormalize.pkl``.
"""

from __future__ import annotations

import argparse
import os
import unicodedata
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.archive.kinds import STATISTICS
from sbformat.cli import _files, _many, _output
from sbformat.cli import _options as opt
from sbformat.cli.rebuild import (
    WORDS,
    count_words,
    describe_release,
    print_text,
    rebuild_agent,
    rebuild_file,
    rebuild_statistics,
)
from sbformat.constants import DATA_ENTRY, OBSERVATIONS_FILE, RETURNS_FILE, WHOLE_FILE
from sbformat.errors import ALREADY_EXISTS, COULD_NOT_OPEN, ContainerError, UnsupportedError, escape, quote
from sbformat.folders.listing import ListedFile, classify_file, list_files
from sbformat.folders.names import AGENTS, describe_name
from sbformat.immutable import Record
from sbformat.io.opening import has_file, is_folder, is_remote, is_within, join_path, open_url, pin_folder, read_start
from sbformat.io.patterns import NOTHING, Exclusion
from sbformat.io.source import iter_views
from sbformat.io.urls import is_url, last_name
from sbformat.rendering import count_noun
from sbformat.tools.scan.sidecars import is_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sbformat.limits import Limits


Step: TypeAlias = Literal["agent", "policy", "statistics", "copy"]
"""The treatment of a file: rebuilt (an agent, a file of ``policy.save()``, statistics), or copied."""
_POLICY: Final = "policy-file"
_PAIR: Final = (OBSERVATIONS_FILE, RETURNS_FILE)
_BUFFER: Final = "replay-buffer"
_PROGRAM: Final = "programs are not copied"
_NOT_ASKED: Final = "not copied without --copy-others"
_BUFFER_NOT_ASKED: Final = "replay buffers are not rebuilt; --copy-buffers copies them as they are"


_PLAIN_FORMATS: Final = frozenset({"text", "html", "empty", "unknown", "lfs-pointer"})
"""Formats of files that are not archives: that the scan does not judge their bytes is not a finding."""
_NOT_JUDGED: Final = "unknown-entry"
_PIECE: Final = 1 << 20
_LONGEST: Final = 160


class Job(Record):
    """A file, and what is done with it."""

    path: str
    """The file, as the report names it."""
    source: str
    """The input: the file, or the folder with SB2's two files of statistics."""
    output: str
    step: Step


class Plan:
    """The jobs for all files, before any is written.

    :param output: the folder to write
    :param copied: kinds of files to copy: replay buffers, and True for those that are neither agents nor statistics
    """

    def __init__(self, output: str, copied: frozenset[str | bool]) -> None:
        self.output = output
        self._copied = copied
        self.jobs: list[Job] = []
        self.left: dict[str, str] = {}
        """Files that are left out, and why."""
        self.failed: list[dict[str, Any]] = []
        """The reports of files that cannot be read, and of those whose output would be that of another file."""

    def fail(self, path: str, outcome: str, message: str) -> None:
        """Report a file of which nothing is written."""
        self.failed.append({"path": path, "outcome": outcome, "message": message})

    def is_copied(self, file: ListedFile) -> bool:
        """Return whether a file that is not rebuilt is copied."""
        return (file.kind if file.kind == _BUFFER else True) in self._copied

    def add(self, found: list[tuple[str, str, ListedFile]]) -> None:
        """Add the files of one argument: the path of each, its path below the output, and what it is."""
        paths = {path for path, _, _ in found}
        for path, name, file in found:
            target = os.path.join(self.output, name)
            if file.kind == "folder" and f"{path}.zip" in paths:
                beside = quote(f"{os.path.basename(path)}.zip")
                self.left[path] = f"an unzipped archive; {beside} beside it is rebuilt"
            elif file.kind in AGENTS:
                step: Step = "policy" if file.kind == _POLICY else "agent"
                self.jobs.append(Job(path, path, _name_archive(target, file, path, paths), step))
            elif file.kind == "running-mean-std" and os.path.basename(target) in _PAIR:
                self._add_pair(path, target, paths)
            elif file.kind in STATISTICS:
                self.jobs.append(Job(path, path, target, "statistics"))
            elif file.outcome:
                self.fail(path, file.outcome, file.message)
            elif self.is_copied(file):
                self.jobs.append(Job(path, path, target, "copy"))
            else:
                self.left[path] = _explain(file)

    def _add_pair(self, path: str, target: str, paths: set[str]) -> None:
        """Add SB2's files of statistics, once for both; a ``vecnormalize.pkl`` beside them has the same."""
        here, last = os.path.split(path)
        has_both = all(os.path.join(here, name) in paths for name in _PAIR)
        if os.path.join(here, WHOLE_FILE) in paths:
            self.left[path] = f"{WHOLE_FILE} beside it is rebuilt"
        elif not has_both or last != RETURNS_FILE:
            source = (here or os.curdir) if has_both else path
            self.jobs.append(Job(path, source, os.path.join(os.path.dirname(target), WHOLE_FILE), "statistics"))

    def refuse_same_outputs(self) -> None:
        """Leave out files whose output is that of a file before them, or another file that is read.

        Names that differ in case or in their Unicode form only are the same: some file systems do not distinguish them.
        """
        inputs = {os.path.realpath(path): path for path in (*self.left, *(job.path for job in self.jobs))}
        first: dict[str, str] = {}
        jobs = []
        for job in sorted(self.jobs, key=lambda job: job.step == "copy"):  # what is rebuilt comes first
            key = unicodedata.normalize("NFC", unicodedata.normalize("NFD", os.path.normcase(job.output)).casefold())
            read = inputs.get(os.path.realpath(job.output), job.path)
            if read == job.path and key not in first:
                jobs.append(job)
                first[key] = job.path
                continue
            what = f"would be that of {quote(first.get(key, ''))}, too"
            if read != job.path:
                what = f"is the file {quote(read)}, which is read, too"
            self.fail(job.path, UnsupportedError.outcome, f"the output {quote(job.output)} {what}")
        self.jobs = jobs


def make_plan(
    paths: Sequence[str],
    output: str,
    limits: Limits,
    *,
    copy_others: bool,
    copy_buffers: bool,
    exclude: Exclusion = NOTHING,
) -> Plan:
    """Find the files, and decide what is done with each.

    :param paths: files and folders of the command line
    :param output: the folder to write
    :param copy_others: copy files that are neither agents nor statistics nor replay buffers
    :param copy_buffers: copy replay buffers
    :param exclude: what is left out of folders
    """
    plan = Plan(output, frozenset([True] * copy_others + [_BUFFER] * copy_buffers))
    base = _find_base(paths)
    for path in dict.fromkeys(paths):
        if _is_folder_of_files(path):
            start = os.curdir if len(paths) == 1 else _name_below(path, base)
            plan.add(_list_folder(plan, path, start, limits, exclude))
            continue
        actual = _files.resolve_path(path)
        file = classify_file(actual, limits)
        if file.outcome or file.kind in AGENTS | STATISTICS or plan.is_copied(file):
            plan.add([(path, _name_below(actual, base), file)])
        else:  # it was named, so that leaving it out is a failure
            plan.fail(path, UnsupportedError.outcome, file.message or _explain(file))
    plan.refuse_same_outputs()
    return plan


def _list_folder(
    plan: Plan, path: str, start: str, limits: Limits, exclude: Exclusion
) -> list[tuple[str, str, ListedFile]]:
    """Return the files of a folder of the command line, as ``Plan.add`` takes them.

    :param start: the path of the folder below the output
    """
    try:
        path = pin_folder(path) if is_remote(path) else path
        files = list_files(path, limits, [os.path.realpath(plan.output)], exclude)
    except OSError as error:
        plan.fail(path, COULD_NOT_OPEN, error.strerror or type(error).__name__)
        return []
    if not any(file.kind in AGENTS | STATISTICS or file.outcome for file in files):
        plan.fail(path, "missing", _files.NO_ARCHIVE)
    return [(join_path(path, file.name), os.path.normpath(join_path(start, file.name)), file) for file in files]


def _find_base(paths: Sequence[str]) -> str:
    """Return the folder that the outputs' paths begin at."""
    local = [path for path in paths if not is_remote(path)]
    if len(local) == 1 and _is_folder_of_files(local[0]):
        return os.path.abspath(local[0])
    starts = [os.path.dirname(os.path.abspath(path)) for path in local]
    try:
        return os.path.commonpath(starts) if starts else ""
    except ValueError as error:  # on several drives
        raise UnsupportedError("expected files on one drive") from error


def _name_below(path: str, base: str) -> str:
    """Return the path of an output below the folder of all outputs; of a URL its last name."""
    return last_name(path) if is_remote(path) else os.path.relpath(os.path.abspath(path), base)


def _is_folder_of_files(path: str) -> bool:
    return is_folder(path) and not has_file(path, DATA_ENTRY)


def _name_archive(target: str, file: ListedFile, path: str, paths: set[str]) -> str:
    """Return the name of a rebuilt agent: SB3 loads ``.zip`` files; a file of ``policy.save()`` keeps its name.

    SB2's ``NAME.pkl`` becomes ``NAME.zip``, or ``NAME.pkl.zip`` if there is a ``NAME.zip``, too.
    """
    if file.kind == _POLICY or target.lower().endswith(".zip"):
        return target
    is_pickle = target.lower().endswith(".pkl") and f"{os.path.splitext(path)[0]}.zip" not in paths
    return f"{os.path.splitext(target)[0] if is_pickle else target}.zip"


def _explain(file: ListedFile) -> str:
    """Return why a file is left out."""
    if file.kind == _BUFFER:
        return _BUFFER_NOT_ASKED
    if is_script(file.name, b""):
        return _PROGRAM
    what = describe_name(file.name)
    return f"{what}: {_NOT_ASKED}" if what else _NOT_ASKED


# -- writing ------------------------------------------------------------------------------------------


def run_many(args: argparse.Namespace) -> int:
    """Rebuild and copy all files; return 1 when an agent has something else now, 2 when a file was not written."""
    reports, others = _write_all(args, args.paths, args.output)
    _output.report_failures(reports)
    _warn_of_unused(args, reports)
    if args.format == "json":
        _output.print_json(args.command, reports, others=others)
    else:
        _print_many(args, args.output, reports, others)
        printer = _output.make_printer()
        for report in reports if args.long else ():
            if report["outcome"] == "ok":
                printer.line()
                print_text(printer, report)
    if any(report["outcome"] != "ok" for report in reports):
        return _files.EXIT_COULD_NOT
    has_findings = any(row["is_finding"] for report in reports for row in report["rows"])
    return _files.EXIT_FINDINGS if has_findings else _files.EXIT_FINE


def _write_all(
    args: argparse.Namespace, paths: list[str], output: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the reports of files that were rebuilt or failed, and those of the others.

    :param paths: files and folders
    :param output: the folder
    """
    import sbformat.tools.rebuild
    import sbformat.writer  # noqa: F401 -- imported before processes are forked

    plans: list[Plan] = []

    def plan_all() -> dict[str, Any]:
        _check_output(paths, output)
        copies = {"copy_others": args.copy_others, "copy_buffers": args.copy_buffers}
        exclude = _files.make_exclusion(args)
        plans.append(make_plan(paths, output, _files.make_limits(args), exclude=exclude, **copies))
        return {}

    failure = _files.report_errors(paths[0], plan_all, outputs=[output])
    if not plans:
        return [failure], []
    jobs = {job.path: job for job in plans[0].jobs}
    work = partial(_run_job, jobs=jobs, args=args, root=os.path.realpath(output))
    reports: list[dict[str, Any]] = [*plans[0].failed]
    left = plans[0].left.items()
    others = [{"path": _files.name_input(path), "copied": False, "message": why} for path, why in left]
    for report in _many.map_files(work, list(jobs), args, label="rebuilding", done="rebuilt"):
        if "copied" in report:
            others.append({name: report[name] for name in ("path", "copied", "message")})
        else:
            reports.append(report)
    return sorted(reports, key=lambda report: report["path"]), sorted(others, key=lambda row: row["path"])


def _check_output(paths: list[str], output: str) -> None:
    """Refuse outputs that a folder cannot be written to."""
    if is_url(output):
        raise OSError(30, "URLs can be read, not written: name a folder", output)
    if _files.STANDARD_STREAM in (*paths, output):
        raise UnsupportedError("of many files, the output is a folder, and standard input is not one of the files")
    if os.path.lexists(output) and not os.path.isdir(output):
        raise FileExistsError(17, "is not a folder, which several files are written to", output)
    for path in paths:
        if os.path.isdir(path) and os.path.isdir(output) and os.path.samefile(path, output):
            raise UnsupportedError("the output and the input are the same folder")


def _run_job(path: str, jobs: dict[str, Job], args: argparse.Namespace, root: str) -> dict[str, Any]:
    """Rebuild or copy one file; runs in a worker process when there are many."""
    job = jobs[path]
    return _files.report_errors(path, lambda: _write_job(job, args, root), outputs=[job.output])


def _write_job(job: Job, args: argparse.Namespace, root: str) -> dict[str, Any]:
    _files.refuse_same_file(job.path, job.output)
    if not is_within(job.output, (root,)):
        raise UnsupportedError(f"the output {quote(job.output)} is a link that leads out of the folder")
    if job.step == "copy":
        why = _find_objection(job.source, _files.make_limits(args))
        if why:
            return {"copied": False, "message": why}
        os.makedirs(os.path.dirname(job.output), exist_ok=True)
        _copy_file(job.source, job.output, overwrite=args.force)
        return {"copied": True, "message": ""}
    if not args.force and os.path.lexists(job.output):
        raise FileExistsError(17, ALREADY_EXISTS, job.output)
    os.makedirs(os.path.dirname(job.output), exist_ok=True)
    if job.step == "policy":
        try:
            return rebuild_file(job.source, job.output, args)
        except UnsupportedError as error:
            return {"copied": False, "message": str(error)}
    return (_rebuild_agent if job.step == "agent" else rebuild_statistics)(job.source, job.output, args)


def _rebuild_agent(source: str, output: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rebuild an agent; classes of ``--map`` that it does not carry are those of other agents."""
    from sbformat.tools.rebuild.trusted import NotCarriedError

    try:
        return rebuild_agent(source, output, args)
    except NotCarriedError as error:
        pairs = [pair for pair in args.map_names if pair[0] != error.name]
        return _rebuild_agent(source, output, argparse.Namespace(**{**vars(args), "map_names": pairs}))


def _warn_of_unused(args: argparse.Namespace, reports: list[dict[str, Any]]) -> None:
    """Warn of classes of ``--map`` that no agent carries."""
    written = [report for report in reports if report["outcome"] == "ok"]
    used = {required["name"] for report in written for required in report["requires"]}
    for name, target in dict(args.map_names).items():
        if written and target not in used:
            _output.warn(f"--map {escape(f'{name}={target}', 200)}: no agent has a class {quote(name)} as code in it")


def _find_objection(path: str, limits: Limits) -> str:
    """Return why a file is not copied: what the scan finds in it, or that it is a program; empty for others."""
    from sbformat.tools.scan import scan

    if is_script(path, read_start(path, 16)):
        return _PROGRAM
    report = scan(path, limits=limits)
    for finding in report.findings:
        if finding.rule != _NOT_JUDGED or report.format not in _PLAIN_FORMATS:
            return f"{report.verdict}: {finding.message}"
    return ""


def _copy_file(source: str, output: str, *, overwrite: bool) -> None:
    """Copy the bytes of a file, completely or not at all."""
    from sbformat.io.atomic import new_file, open_new

    remote = open_url(source) if is_remote(source) else None
    size = os.stat(source).st_size if remote is None else remote.size
    chunks = _read_pieces(source) if remote is None else iter_views(remote, 0, size)
    with new_file(output, overwrite=overwrite) as temporary:
        with open_new(temporary) as target:
            for chunk in chunks:
                target.write(chunk)
        if os.stat(temporary).st_size != size:
            raise ContainerError("the file changed while it was copied")


def _read_pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            yield piece


# -- text ---------------------------------------------------------------------------------------------


def _print_many(
    args: argparse.Namespace, output: str, reports: list[dict[str, Any]], others: list[dict[str, Any]]
) -> None:
    """Print a row for each file that was rebuilt, and the files that were copied or left out."""
    printer = _output.make_printer()
    written = [report for report in reports if report["outcome"] == "ok"]
    findings = sum(any(row["is_finding"] for row in report["rows"]) for report in written)
    if opt.is_quiet() and not findings:
        return
    failed = len(reports) - len(written)
    copied = [row for row in others if row["copied"]]
    parts = [f"{count_noun(len(written), 'file')} rebuilt"]
    parts += [f"{len(copied):,} copied"] if copied else []
    parts += [f"{len(others) - len(copied):,} not copied"] if len(others) > len(copied) else []
    parts += [f"{failed:,} failed"] if failed else []
    printer.line(f"{escape(output, 1000)}: {', '.join(parts)}")
    header = ("file", "algorithm", "written by", *WORDS, "differs")
    rows = [_list_cells(report, output) for report in written]
    printer.table("rebuilt", header, rows, right=(3, 4, 5, 6), longest=_LONGEST)
    bad = [
        (_shorten(report["path"], args.paths), f"{report['outcome']}: {report['message']}")
        for report in reports
        if report["outcome"] != "ok"
    ]
    printer.table("failed", ("file", "why"), bad, longest=_LONGEST)
    left = [(_shorten(row["path"], args.paths), row["message"]) for row in others if not row["copied"]]
    printer.table("not copied", ("file", "why"), left, longest=_LONGEST)


def _list_cells(report: dict[str, Any], output: str) -> tuple[Any, ...]:
    """Return the row of a file that was rebuilt."""
    findings = dict.fromkeys(str(row["key"] or row["entry"]) for row in report["rows"] if row["is_finding"])
    name = os.path.relpath(report["output"], output)
    found = count_words(report)
    counts = (found.get(word, 0) for word in WORDS)
    return (name, report["algorithm"], describe_release(report), *counts, ", ".join(findings))


def _shorten(path: str, paths: list[str]) -> str:
    """Return a path below the folder of the command line that it is in."""
    top = paths[0] if len(paths) == 1 else ""
    return os.path.relpath(path, top) if top and os.path.isdir(top) else path
