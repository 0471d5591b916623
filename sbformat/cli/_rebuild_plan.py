"""What ``rebuild`` of many files does with each: the files of a command line and their outputs, before any is written.

An output has the path that its input has below the folder of the command line; of several arguments, below the folder
that all of them are in. Agents become ``.zip`` files, SB2's two files of statistics one ``vecnormalize.pkl``.
"""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.archive.kinds import STATISTICS
from sbformat.cli import _files
from sbformat.constants import DATA_ENTRY
from sbformat.errors import COULD_NOT_OPEN, UnsupportedError, quote
from sbformat.folders.listing import ListedFile, classify_file, list_files
from sbformat.folders.names import AGENTS, describe_name
from sbformat.formats.vecnormalize.pickles import OBSERVATIONS_FILE, RETURNS_FILE, WHOLE_FILE
from sbformat.immutable import Record
from sbformat.io.opening import has_file, is_folder, is_remote, join_path, pin_folder
from sbformat.io.urls import last_name
from sbformat.tools.scan.sidecars import is_script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.limits import Limits

Step: TypeAlias = Literal["agent", "policy", "statistics", "copy", "leave"]
"""What is done with a file: rebuilt (an agent, a file of ``policy.save()``, statistics), copied, or left out."""
_POLICY: Final = "policy-file"
_PAIR: Final = (OBSERVATIONS_FILE, RETURNS_FILE)
_BUFFER: Final = "replay-buffer"
PROGRAM: Final = "programs are not copied"
_NOT_ASKED: Final = "not copied without --copy-others"
_BUFFER_NOT_ASKED: Final = "replay buffers are not rebuilt; --copy-buffers copies them as they are"


class Job(Record):
    """A file, and what is done with it."""

    path: str
    """The file, as the report names it."""
    source: str
    """What is read: the file, or the folder with SB2's two files of statistics."""
    output: str
    step: Step
    why: str
    """Why it is left out."""


class Plan(Record):
    """What is done with all files."""

    jobs: list[Job]
    failed: list[dict[str, Any]]
    """The reports of files that cannot be read, and of those whose output would be that of another file."""


def make_plan(paths: Sequence[str], output: str, limits: Limits, *, copy_others: bool, copy_buffers: bool) -> Plan:
    """Find the files, and decide what is done with each.

    :param paths: files and folders of the command line
    :param output: the folder to write
    :param copy_others: copy files that are neither agents nor statistics nor replay buffers
    :param copy_buffers: copy replay buffers
    """
    plan = Plan([], [])
    base = _find_base(paths)
    is_copied = {True: copy_others, _BUFFER: copy_buffers}
    for path in dict.fromkeys(paths):
        if _is_folder_of_files(path):
            start = os.curdir if len(paths) == 1 else _name_below(path, base)
            found = _list_folder(plan, path, start, output, limits)
        else:
            actual = _files.resolve_path(path)
            file = classify_file(actual, limits)
            if not _is_used(file, is_copied):  # it was named, so that leaving it out is a failure
                message = file.message or _explain(file)
                plan.failed.append({"path": path, "outcome": UnsupportedError.outcome, "message": message})
                continue
            found = [(path, _name_below(actual, base), file)]
        _add_files(plan, found, output, is_copied)
    return _refuse_same_outputs(plan)


def _list_folder(plan: Plan, path: str, start: str, output: str, limits: Limits) -> list[tuple[str, str, ListedFile]]:
    """Return the files of a folder of the command line, as :func:`_add_files` takes them.

    :param start: the path of the folder below the output
    """
    try:
        path = pin_folder(path) if is_remote(path) else path
        files = list_files(path, limits, [os.path.realpath(output)])
    except OSError as error:
        message = error.strerror or type(error).__name__
        plan.failed.append({"path": path, "outcome": COULD_NOT_OPEN, "message": message})
        return []
    if not any(file.kind in AGENTS | STATISTICS or file.outcome for file in files):
        plan.failed.append({"path": path, "outcome": "missing", "message": _files.NO_ARCHIVE})
    return [(join_path(path, file.name), os.path.normpath(join_path(start, file.name)), file) for file in files]


def _is_used(file: ListedFile, is_copied: dict[object, bool]) -> bool:
    """Return whether a file is rebuilt or copied, or reported as one that cannot be read."""
    return (
        bool(file.outcome) or file.kind in AGENTS | STATISTICS or is_copied[_BUFFER if file.kind == _BUFFER else True]
    )


def _find_base(paths: Sequence[str]) -> str:
    """Return the folder that the outputs' paths begin at."""
    local = [path for path in paths if not is_remote(path)]
    if len(local) == 1 and _is_folder_of_files(local[0]):
        return os.path.abspath(local[0])
    starts = [os.path.dirname(os.path.abspath(path)) for path in local]
    try:
        return os.path.commonpath(starts) if starts else ""
    except ValueError as error:  # on several drives
        message = "expected files on one drive"
        raise UnsupportedError(message) from error


def _name_below(path: str, base: str) -> str:
    """Return the path of an output below the folder of all outputs; of a URL its last name."""
    return last_name(path) if is_remote(path) else os.path.relpath(os.path.abspath(path), base)


def _is_folder_of_files(path: str) -> bool:
    return is_folder(path) and not has_file(path, DATA_ENTRY)


def _add_files(
    plan: Plan, found: list[tuple[str, str, ListedFile]], output: str, is_copied: dict[object, bool]
) -> None:
    """Add the files of one argument: the path of each, its path below the output, and what it is."""
    paths = {path for path, _, _ in found}
    for path, name, file in found:
        target = os.path.join(output, name)
        folder, last = os.path.split(target)
        if file.kind == "folder" and f"{path}.zip" in paths:
            why = f"an unzipped archive; {quote(f'{os.path.basename(path)}.zip')} beside it is rebuilt"
            plan.jobs.append(Job(path, path, target, "leave", why))
        elif file.kind in AGENTS:
            step: Step = "policy" if file.kind == _POLICY else "agent"
            plan.jobs.append(Job(path, path, _name_archive(target, file, path, paths), step, ""))
        elif file.kind == "running-mean-std" and last in _PAIR:
            _add_pair(plan, path, folder, paths)
        elif file.kind in STATISTICS:
            plan.jobs.append(Job(path, path, target, "statistics", ""))
        elif file.outcome:
            plan.failed.append({"path": path, "outcome": file.outcome, "message": file.message})
        elif is_copied[_BUFFER if file.kind == _BUFFER else True]:
            plan.jobs.append(Job(path, path, target, "copy", ""))
        else:
            plan.jobs.append(Job(path, path, target, "leave", _explain(file)))


def _name_archive(target: str, file: ListedFile, path: str, paths: set[str]) -> str:
    """Return the name of a rebuilt agent: SB3 loads ``.zip`` files; a file of ``policy.save()`` keeps its name.

    SB2's ``NAME.pkl`` becomes ``NAME.zip``, or ``NAME.pkl.zip`` if there is a ``NAME.zip``, too.
    """
    if file.kind == _POLICY or target.lower().endswith(".zip"):
        return target
    is_pickle = target.lower().endswith(".pkl") and f"{os.path.splitext(path)[0]}.zip" not in paths
    return f"{os.path.splitext(target)[0] if is_pickle else target}.zip"


def _add_pair(plan: Plan, path: str, folder: str, paths: set[str]) -> None:
    """Add SB2's files of statistics, once for both; a ``vecnormalize.pkl`` beside them has the same."""
    here, last = os.path.split(path)
    if os.path.join(here, WHOLE_FILE) in paths:
        plan.jobs.append(Job(path, path, os.path.join(folder, last), "leave", f"{WHOLE_FILE} beside it is rebuilt"))
        return
    has_both = all(os.path.join(here, name) in paths for name in _PAIR)
    if has_both and last == RETURNS_FILE:
        return
    source = (here or os.curdir) if has_both else path
    plan.jobs.append(Job(path, source, os.path.join(folder, WHOLE_FILE), "statistics", ""))


def _explain(file: ListedFile) -> str:
    """Return why a file is left out."""
    if file.kind == _BUFFER:
        return _BUFFER_NOT_ASKED
    if is_script(file.name, b""):
        return PROGRAM
    what = describe_name(file.name)
    return f"{what}: {_NOT_ASKED}" if what else _NOT_ASKED


def _refuse_same_outputs(plan: Plan) -> Plan:
    """Return the plan without files whose output is that of a file before them, or another file that is read.

    Names that differ in case or in their Unicode form only are the same: some file systems do not distinguish them.
    """
    inputs = {os.path.realpath(job.path): job for job in plan.jobs}
    first: dict[str, Job] = {}
    jobs = []
    for job in sorted(plan.jobs, key=lambda job: job.step == "copy"):  # what is rebuilt comes first
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFD", os.path.normcase(job.output)).casefold())
        read = inputs.get(os.path.realpath(job.output), job)
        if job.step != "leave" and read.path != job.path:
            message = f"the output {quote(job.output)} is the file {quote(read.path)}, which is read, too"
            plan.failed.append({"path": job.path, "outcome": UnsupportedError.outcome, "message": message})
            continue
        if job.step != "leave" and key in first:
            message = f"the output {quote(job.output)} would be that of {quote(first[key].path)}, too"
            plan.failed.append({"path": job.path, "outcome": UnsupportedError.outcome, "message": message})
            continue
        if job.step != "leave":
            first[key] = job
        jobs.append(job)
    return Plan(jobs, plan.failed)
