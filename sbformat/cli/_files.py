"""Options that the commands share, the files on a command line, and how one is read."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat.cli import _progress, _streams
from sbformat.cli._limits import add_limit_option, name_option, parse_seconds
from sbformat.cli._options import add_output_options, is_verbose
from sbformat.constants import ARCHIVE_SUFFIXES, DATA_ENTRY
from sbformat.errors import (
    COULD_NOT_OPEN,
    ContainerError,
    LimitError,
    MissingEntryError,
    SbformatError,
    UnsupportedError,
    ValidationError,
    escape,
    quote,
)
from sbformat.io.opening import is_folder, is_remote
from sbformat.io.urls import TIMEOUT
from sbformat.limits import Limits
from sbformat.rendering import count_noun, format_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.pth.values import OnUnknown

T = TypeVar("T")

ALREADY_EXISTS: Final = "already exists"
"""Text of the FileExistsError for an output that can be overwritten."""

NO_ARCHIVE: Final = f"the folder has no archive: {', '.join(ARCHIVE_SUFFIXES)} or the file 'data' of an unzipped one"
"""Message for a folder in which there is nothing to read."""
_PLACE: Final = r"(at byte \d+): "
"""Where in a file something is, before a message."""
_ROWS: Final = ("problems", "findings")
"""Parts of a report that may have the message of an error."""
EXIT_FINE: Final = 0
EXIT_FINDINGS: Final = 1
EXIT_COULD_NOT: Final = 2
COULD_NOT_WRITE: Final = "cannot write"
"""Outcome of an output that exists, or that the operating system cannot write."""
PROCESS_ENDED: Final = "process ended"
"""Outcome of a file whose worker process was killed."""


def add_reading_options(parser: argparse.ArgumentParser, *other_formats: str) -> None:
    """Add the options of every command that reads archives.

    :param other_formats: output formats besides text and JSON
    """
    add_common_options(parser, *other_formats)
    parser.add_argument("--unchecked-crc", action="store_true", help="also read a .pth that torch saved without CRCs")


def add_common_options(parser: argparse.ArgumentParser, *other_formats: str) -> None:
    """Add the options of every command.

    :param other_formats: output formats besides text and JSON
    """
    formats = ("text", "json", *other_formats)
    words = ("text for people (default)", "JSON", *(word.upper() for word in other_formats))
    parser.add_argument("--format", choices=formats, default="text", help=f"{', '.join(words[:-1])} or {words[-1]}")
    add_output_options(parser)
    add_limit_option(parser)
    parser.add_argument(
        "--private-redirects",
        action="store_true",
        help="of URLs: follow redirects to private addresses, and from https to http",
    )
    parser.add_argument(
        "--timeout",
        type=parse_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"of URLs: how long a server may send nothing, or too little (default: {TIMEOUT:g})",
    )


def read_archive(path: str, args: argparse.Namespace, on_unknown: OnUnknown = "error") -> Archive:
    """Read an archive with the options of the command line."""
    from sbformat.reader import read

    with _progress.count_file("reading", path) as progress:
        return _read(partial(read, progress=progress), path, args, on_unknown)


def read_in_place(path: str, args: argparse.Namespace, on_unknown: OnUnknown = "error") -> Archive:
    """Read an archive with the options of the command line; a large one stays in its file."""
    from sbformat.reader import read_in_place

    return _read(read_in_place, path, args, on_unknown)


def _read(function: Callable[..., Archive], path: str, args: argparse.Namespace, on_unknown: OnUnknown) -> Archive:
    """Read an archive; with ``--verbose``, say what it is."""
    limits = make_limits(args)
    source = _streams.open_input(path, limits)
    try:
        archive = function(source, limits=limits, on_unknown=on_unknown, unchecked_crc=args.unchecked_crc)
    except MissingEntryError as error:
        if isinstance(source, str) and error.name == DATA_ENTRY and is_folder(source):
            error.message = NO_ARCHIVE
        raise
    if is_verbose():
        _report_read(_streams.name_input(path), archive)
    return archive


def _report_read(name: str, archive: Archive) -> None:
    """Say on standard error what was read."""
    from sbformat.archive.kinds import KIND_TITLES

    entries = archive.entries.values()
    words = [KIND_TITLES.get(archive.format, archive.format), count_noun(len(entries), "entry", "entries")]
    words += [f"SB3 {version}"] if (version := _find_version(archive)) else []
    words += [format_size(sum(entry.size for entry in entries))]
    _streams.write_remark(f"read {escape(name, 1000)}: {', '.join(words)}")


def _find_version(archive: Archive) -> str | None:
    try:
        return escape(archive.stable_baselines3_version or "", 40)
    except SbformatError:
        return None


def check_allowed(args: argparse.Namespace) -> None:
    """Refuse names of ``--allow`` that cannot be allowed, before any file is opened."""
    from sbformat.tools.scan import scan

    try:
        scan(b"", allow=args.allow)
    except ValueError as error:
        args.refuse(f"argument --allow: {error}")


def make_limits(args: argparse.Namespace) -> Limits:
    """Return the limits that the command line gives."""
    return Limits()._replace(**dict(args.limit))


class OtherFileError(Exception):
    """An error in another file than the first of a command; the cause is a SbformatError or an OSError.

    :param path: the other file
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def name_in_errors(path: str, work: Callable[[], T]) -> T:
    """Call ``work``, which reads a second file; the report of an error then names that file.

    :raises OtherFileError: for a SbformatError or an OSError
    """
    try:
        return work()
    except (SbformatError, OSError) as error:
        raise OtherFileError(path) from error


def resolve_path(path: str) -> str:
    """Return the file at a path: ``name`` falls back to ``name.zip``, as in SB3; a URL is returned unchanged."""
    if is_remote(path):
        return path
    return path if path == _streams.STANDARD_STREAM or os.path.exists(path) else f"{path}.zip"


def refuse_same_file(path: str, output: str, *, hint: str = "") -> None:
    """Check that an output is not the input.

    :raises UnsupportedError: when both are the same file
    """
    path = resolve_path(path)
    if _streams.STANDARD_STREAM in (path, output) or not os.path.exists(path) or not os.path.exists(output):
        return
    folder = os.path.dirname(os.path.realpath(output))
    if os.path.isdir(path) and os.path.isfile(output) and os.path.samefile(path, folder):
        message = f"the output is a file inside the input folder{hint}"
        raise UnsupportedError(message)
    if os.path.samefile(path, output):
        message = f"the output and the input are the same file{hint}"
        raise UnsupportedError(message)


def expand_paths(paths: Iterable[str]) -> Iterator[str]:
    """Yield the files to read: of a folder the archives below it, unless it is an unzipped archive."""
    for path in paths:
        if is_remote(path) or os.path.isdir(path):
            from sbformat.folders import trees

            yield from trees.expand_paths([path])
        else:
            yield path


def report_errors(path: str, work: Callable[[], dict[str, Any]], *, outputs: Sequence[str] = ()) -> dict[str, Any]:
    """Call ``work`` on one file and return its report; an error becomes the report, so that other files are read.

    :param outputs: the files that the command writes: their errors are reported as such
    :return: with ``file`` when the error is about another file than ``path``
    """
    name = _streams.name_input(path)
    try:
        report = {"path": name, "outcome": "ok", **work()}
    except OtherFileError as error:
        other = _streams.name_output(error.path) if error.path in outputs else _streams.name_input(error.path)
        failure = _describe_failure(error.path, error.__cause__, outputs)
        return {"path": name, "file": other, **failure} if other != name else {"path": name, **failure}
    except BrokenPipeError:  # of standard output: no file is at fault
        raise
    except (SbformatError, MemoryError, OSError) as error:
        return {"path": name, **_describe_failure(path, error, outputs)}
    if report.get("output") == _streams.STANDARD_STREAM:
        report["output"] = _streams.name_output(report["output"])
    for name in _ROWS:
        for row in report.get(name, ()):
            row["message"] = name_option(row["message"])
    return report


def _describe_failure(path: str, error: BaseException | None, outputs: Sequence[str]) -> dict[str, Any]:
    """Return the outcome of an error, its message, and the file that it is about if that is not ``path``."""
    if isinstance(error, ValidationError):
        rows = [{"loc": row.loc, "kind": row.kind, "message": row.message} for row in error.problems]
        return {"outcome": error.outcome, "message": str(error), "problems": rows}
    if isinstance(error, SbformatError):
        return {"outcome": error.outcome, "message": name_option(str(error))}
    if isinstance(error, OSError):
        return _describe_system_error(path, error, outputs)
    return {"outcome": LimitError.outcome, "message": "out of memory: this machine has less than the file needs"}


def _describe_system_error(path: str, error: OSError, outputs: Sequence[str]) -> dict[str, Any]:
    """Return the report of an error of the operating system: of an output, of ``path``, or of a third file."""
    text = _streams.describe_system_error(error)
    output = next((output for output in outputs if _is_within(error.filename, output)), None)
    if output is None:
        message = {"outcome": COULD_NOT_OPEN, "message": text}
        names = (None, path, f"{path}.zip", _streams.name_input(path))
        return message if error.filename in names else {"file": str(error.filename), **message}
    if isinstance(error, FileExistsError):
        hint = "; --force overwrites it" if text == ALREADY_EXISTS else ""
        text = f"{escape(output, 1000)} {text}{hint}"
    elif isinstance(error, FileNotFoundError) and not os.path.isdir(os.path.dirname(output) or os.curdir):
        text = f"there is no folder {quote(os.path.dirname(output))}"
    return {"file": output, "outcome": COULD_NOT_WRITE, "message": text}


def _is_within(path: object, output: str) -> bool:
    """Return whether a path is an output, or in the folder that is the output."""
    if not isinstance(path, str):
        return False
    found, target = os.path.realpath(path), os.path.realpath(output)
    return found == target or found.startswith(target + os.sep)


def describe_failure(report: dict[str, Any]) -> str:
    """Return the line for the report of a file that failed: the file, the outcome and the message."""
    name = escape(report.get("file", report["path"]), 1000) or "''"
    if report["outcome"] == COULD_NOT_WRITE and report["message"].startswith(f"{name} "):
        return str(report["message"])
    if report["outcome"] == ContainerError.outcome:  # of a damaged or another file: what it has comes first
        place = re.match(_PLACE, report["message"])
        text = report["message"][place.end() :] if place else report["message"]
        return f"{name}: {text} ({report['outcome']}{f' {place[1]}' if place else ''})"
    return f"{name}: {report['outcome']}: {report['message']}"
