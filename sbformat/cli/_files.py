"""The files of a command line: standard streams, reading, writing, and the reports of errors.

* Standard output has the result of a command, and nothing else.
* Standard error has whatever makes the exit status 2, warnings, remarks and progress: ``sbformat:`` and what is wrong,
  then in indented lines what does not fit into the first, and last ``hint:`` and what to do next.
* ``-`` as an input file is standard input, read whole, which reports call ``<stdin>``. ``-`` as an output file is
  standard output; the summary of the command then goes to standard error. A terminal is refused as either.

In: paths and URLs, and the work on one file. Out: its report, a dict that is JSON. A file that fails has a report, too:
``path``, ``outcome`` and ``message``, and ``file`` when the error is about another one.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from sbformat.cli import _progress
from sbformat.cli._options import JsonText, UsageError, is_quiet, is_verbose, name_option
from sbformat.constants import ARCHIVE_SUFFIXES, DATA_ENTRY
from sbformat.errors import (
    ALREADY_EXISTS,
    COULD_NOT_OPEN,
    ContainerError,
    DataError,
    LimitError,
    MissingEntryError,
    PickleError,
    SbformatError,
    TensorError,
    UnsupportedError,
    ValidationError,
    escape,
    quote,
)
from sbformat.io.opening import is_folder, is_remote
from sbformat.io.patterns import Exclusion, has_marks
from sbformat.io.urls import Url, hide_secrets, is_url
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.rendering import count_noun, format_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.folders.agents import ChosenAgent
    from sbformat.pth.values import OnUnknown


T = TypeVar("T")

STANDARD_STREAM: Final = "-"
"""Standard input or standard output, as a file on a command line."""
_INPUT_NAME: Final = "<stdin>"
_OUTPUT_NAME: Final = "<stdout>"
_INPUTS: Final = ("paths", "path", "other", "vecnormalize", "weights", "observation", "baseline")
"""Names of arguments that are files to read; ``unbundle`` writes ``vecnormalize``."""
_COPIED_BYTES: Final = 1 << 20
_LONGEST_LINE: Final = 200  # characters of a line on standard error
_NARROWEST: Final = 40  # of a terminal: in a narrower one, or of unknown width, it folds the lines
_MOST_NAMES: Final = 1000  # in a folder, that are compared with a name that is not there
_COMPARED: Final = 60  # characters of that name: the time grows with its square

_WRITERS: Final = {
    **dict.fromkeys((".onnx", ".c", ".h", ".js", ".mjs", ".json", ".py"), ("export",)),
    **dict.fromkeys((".npz", ".npy"), ("extract",)),
    ".safetensors": ("extract", "convert"),
    ".pth": ("convert", "rebuild"),
    ".html": ("report",),
}
"""The commands that write a format, by suffix."""

_standard_input: list[bytes] = []  # the bytes that were read from standard input, which can be read only once
_not_of_agents: set[str] = set()  # JSON files and baselines: what to do about an agent is no hint for them


class OutputError(Exception):
    """Standard output failed: the cause is the OSError."""


def start(args: argparse.Namespace) -> None:
    """Forget the standard input of another run, check that the arguments name it once, and expand patterns."""
    _standard_input.clear()
    if args.command != "catalog":  # which also expands the patterns of its list
        expand_patterns(args)
    for name in _INPUTS:
        value = getattr(args, name, None)
        if isinstance(value, list):
            setattr(args, name, [add_url_options(one, args) for one in value])
        elif value is not None:
            setattr(args, name, add_url_options(value, args))
    baselines = filter(None, (getattr(args, name, None) for name in ("baseline", "write_baseline")))
    _not_of_agents.clear()
    _not_of_agents.update(map(name_input, (*list_json_files(args), *baselines)))
    if list_inputs(args).count(STANDARD_STREAM) > 1:
        raise UsageError("standard input can be read once: expected one '-' at most")


def expand_patterns(args: argparse.Namespace) -> None:
    """Replace patterns in quotes among the files by what they match, as a shell does without quotes."""
    if any(map(is_pattern, getattr(args, "paths", ()))):
        from sbformat.folders.trees import expand_pattern

        args.paths = [found for path in args.paths for found in (expand_pattern(path) if is_pattern(path) else [path])]


def is_pattern(path: str) -> bool:
    """Return whether a path is a pattern of local files: there is no file of this name."""
    return has_marks(path) and not is_remote(path) and not os.path.lexists(resolve_path(path))


def list_inputs(args: argparse.Namespace) -> list[str]:
    """Return the files and folders to read that a command line names."""
    found = [getattr(args, name, None) or [] for name in _INPUTS]
    return [path for value in found for path in (value if isinstance(value, list) else [value])]


def list_json_files(args: argparse.Namespace) -> list[str]:
    """Return the files that options name after ``@``."""
    values = (*vars(args).values(), *(value for _, value in getattr(args, "set", ())))
    return [text[1:] for text in values if isinstance(text, JsonText) and text.startswith("@")]


def add_url_options(value: T, args: argparse.Namespace) -> T | Url:
    """Return a URL with the options of the command line for URLs; anything else unchanged."""
    return Url(value, private_redirects=args.private_redirects, timeout=args.timeout) if is_url(value) else value


def name_input(path: str) -> str:
    """Return the name of an input file in reports; of a URL without secrets."""
    return _INPUT_NAME if path == STANDARD_STREAM else hide_secrets(path) if is_url(path) else path


def name_output(path: str) -> str:
    """Return the name of an output file in reports."""
    return _OUTPUT_NAME if path == STANDARD_STREAM else path


def open_input(path: str, limits: Limits = DEFAULT_LIMITS) -> str | bytes:
    """Return what the readers take: the path, or the bytes of standard input."""
    if path != STANDARD_STREAM:
        return path
    if sys.stdin is None or sys.stdin.isatty():
        message = "expected a file on standard input, got a terminal" if sys.stdin else "standard input is closed"
        raise UnsupportedError(message)
    if not _standard_input:
        budget, chunks = Budget(limits), []
        while chunk := sys.stdin.buffer.read(_COPIED_BYTES):
            budget.spend("total_bytes", len(chunk))
            chunks.append(chunk)
        _standard_input.append(b"".join(chunks))
    return _standard_input[0]


@contextlib.contextmanager
def open_output(path: str, suffix: str) -> Iterator[str]:
    """Yield the path to write to; of ``-`` a temporary file, which is copied to standard output when it is complete.

    :param path: the output of a command line
    :param suffix: the suffix of the temporary file: ``.zip``
    """
    if path != STANDARD_STREAM:
        yield path
        return
    if sys.stdout.isatty():
        hint = "redirect it to a file or a program, or name a file with -o"
        raise UnsupportedError(f"standard output is a terminal: {hint}", hint=hint)
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="sbformat-") as folder:
        temporary = os.path.join(folder, f"output{suffix}")
        yield temporary
        _copy_to_output(temporary)


def _copy_to_output(path: str) -> None:
    with open(path, "rb") as file:
        try:
            sys.stdout.flush()
            while chunk := file.read(_COPIED_BYTES):
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError from error


def find_result_stream(args: argparse.Namespace) -> TextIO:
    """Return where the report of a command goes: to standard error when its output file is standard output."""
    return sys.stderr if getattr(args, "output", None) == STANDARD_STREAM else sys.stdout


def write_remark(text: str, hint: str = "", problems: Sequence[str] = ()) -> None:
    """Write an error or a remark to standard error; when that is closed or broken, nothing.

    :param text: escaped where it comes from a file, as the other arguments are
    :param hint: what to do next
    :param problems: what the text sums up
    """
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(lay_out(f"sbformat: {text}", hint, problems))


def lay_out(text: str, hint: str, problems: Sequence[str] = ()) -> str:
    """Return the lines of an error, of its problems and of its hint, none longer than the terminal is wide.

    Of a text of more than :data:`_LONGEST_LINE` each clause has a line, so that several problems are a list.
    """
    width = _find_width()
    first, *clauses = text.split("; ") if len(text) > _LONGEST_LINE else [text]
    parts = [
        ("", first),
        *(("  - ", clause) for clause in (*clauses, *problems)),
        *([("  hint: ", hint)] if hint else ()),
    ]
    return "".join(f"{line}\n" for start, part in parts for line in _wrap(part, start, width))


def _find_width() -> int:
    """Return how many characters a line on standard error has at most: on a terminal its width."""
    columns = 0
    with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or not of the system
        columns = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 0
    return min(columns, _LONGEST_LINE) if columns >= _NARROWEST else _LONGEST_LINE


def _wrap(text: str, start: str, width: int) -> list[str]:
    """Return the lines of a clause, broken between words."""
    if len(start) + len(text) <= width:
        return [f"{start}{text}"]
    import textwrap

    return textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * max(len(start), 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def describe_system_error(error: OSError) -> str:
    """Return the text of an error of the operating system."""
    return escape(error.strerror or str(error) or type(error).__name__, 1000)


NO_ARCHIVE: Final = f"the folder has no archive: {', '.join(ARCHIVE_SUFFIXES)} or the file 'data' of an unzipped one"
"""Message for a folder in which there is nothing to read."""
_PLACE: Final = r"(at byte \d+): "  # where in a file something is, before a message
_ROWS: Final = ("problems", "findings", "rows")  # lists of a report that may have the message of an error
EXIT_FINE: Final = 0
EXIT_FINDINGS: Final = 1
EXIT_COULD_NOT: Final = 2
COULD_NOT_WRITE: Final = "cannot write"
"""Outcome of an output that exists, or that the operating system cannot write."""
_HINTS: Final = {
    cls.outcome: f"https://sbformat.github.io/sbformat/reference/errors/#{cls.__name__.lower()} lists what to do"
    for cls in (ContainerError, DataError, PickleError, TensorError)
}
"""What to do next where the error does not say it, by outcome."""
PROCESS_ENDED: Final = "process ended"
"""Outcome of a file whose worker process was killed."""


def read_archive(path: str, args: argparse.Namespace, on_unknown: OnUnknown = "error") -> Archive:
    """Read an archive with the options of the command line."""
    from sbformat.reader import read

    with _progress.count_file("reading", path) as progress:
        return _read(partial(read, progress=progress), path, args, on_unknown)


def read_in_place(
    path: str,
    args: argparse.Namespace,
    on_unknown: OnUnknown = "error",
    progress: Callable[[int], None] | None = None,
    *,
    warns: bool = True,
) -> Archive:
    """Read an archive with the options of the command line; a large one stays in its file.

    :param warns: name the files of a folder that are left out, on standard error
    """
    from sbformat.reader import read_in_place

    return _read(partial(read_in_place, progress=progress), path, args, on_unknown, warns=warns)


def _read(
    function: Callable[..., Archive], path: str, args: argparse.Namespace, on_unknown: OnUnknown, *, warns: bool = True
) -> Archive:
    """Read an archive, or of a folder the agent to prefer; with ``--verbose``, say what it is."""
    from sbformat.archive.entries import describe_left_out

    limits = make_limits(args)
    source = open_input(path, limits)
    try:
        archive = function(source, limits=limits, on_unknown=on_unknown, unchecked_crc=args.unchecked_crc)
    except MissingEntryError as error:
        if not (isinstance(source, str) and error.name == DATA_ENTRY and is_folder(source)):
            raise
        chosen = find_agent(path, args)
        if chosen is None:
            error.message = NO_ARCHIVE
            raise
        return name_in_errors(chosen.path, lambda: _read(function, chosen.path, args, on_unknown, warns=warns))
    left_out = describe_left_out(archive.stored_entries.left_out)
    if left_out and warns and not is_quiet():
        write_remark(f"{escape(name_input(path), 1000)}: {left_out}")
    if is_verbose():
        write_remark(f"read {escape(name_input(path), 1000)}: {_describe_archive(archive)}")
    return archive


def find_agent(path: str, args: argparse.Namespace, *, on_statistics: str = "") -> ChosenAgent | None:
    """Return the agent to prefer of a folder, after a remark that names it; None as :func:`find_in_folder`.

    :param on_statistics: added to the remark if the agent has statistics
    """
    from sbformat.folders.agents import find_in_folder

    chosen = find_in_folder(path, make_limits(args))
    if chosen is not None and not is_quiet():
        left = on_statistics if chosen.statistics is not None else ""
        write_remark(f"{escape(name_input(path), 1000)}: {chosen.remark}{left}")
    return chosen


def _describe_archive(archive: Archive) -> str:
    """Return what was read, for standard error."""
    from sbformat.archive.kinds import KIND_TITLES

    entries = archive.entries.values()
    words = [KIND_TITLES.get(archive.format, archive.format), count_noun(len(entries), "entry", "entries")]
    with contextlib.suppress(SbformatError):
        version = archive.stable_baselines3_version
        words += [f"SB3 {escape(version, 40)}"] if version else []
    return ", ".join([*words, format_size(sum(entry.size for entry in entries))])


def check_allowed(args: argparse.Namespace) -> None:
    """Refuse names of ``--allow`` that cannot be allowed, before any file is opened."""
    if args.allow:
        from sbformat.tools.scan import scan

        try:
            scan(b"", allow=args.allow)
        except ValueError as error:
            raise UsageError(f"argument --allow: {error}") from None


def write_archive(archive: Archive, output: str, *, overwrite: bool) -> None:
    """Write an archive to the output of a command line, with a progress bar."""
    from sbformat.writer import write

    total = sum(entry.size for entry in archive.entries.values())
    with open_output(output, ".zip") as target, _progress.count_bytes("writing", total) as advance:
        write(archive, target, overwrite=overwrite, progress=advance)


def make_limits(args: argparse.Namespace) -> Limits:
    """Return the limits that the command line gives."""
    return DEFAULT_LIMITS._replace(**dict(args.limit)) if args.limit else DEFAULT_LIMITS


class OtherFileError(Exception):
    """An error in another file than the first of a command; the cause is a SbformatError or an OSError.

    :param path: the other file
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def name_in_errors(path: str, work: Callable[[], T]) -> T:
    """Call ``work``, which reads a second file; the report of an error then names that file."""
    try:
        return work()
    except (SbformatError, OSError) as error:
        raise OtherFileError(path) from error


def resolve_path(path: str) -> str:
    """Return the file at a path: ``name`` falls back to ``name.zip``, as in SB3; a URL is returned unchanged."""
    if is_remote(path):
        return path
    return path if path == STANDARD_STREAM or os.path.exists(path) else f"{path}.zip"


def require_suffix(command: str, output: str, *, suffixes: Sequence[str] = ()) -> None:
    """Check that an output is not in a format that another command writes.

    :param suffixes: those that it can have, if it has one; without them every other is accepted
    """
    suffix = os.path.splitext(output)[1].lower()
    commands = _WRITERS.get(suffix, (command,))
    if command not in commands or (suffix and suffixes and suffix not in suffixes):
        others = " and ".join(f"sbformat {name}" for name in commands)
        hint = f"{others} {'do' if len(commands) > 1 else 'does'}"
        if command in commands:
            hint = f"it writes {' and '.join(suffixes)}"
        message = f"sbformat {command} does not write {escape(suffix, 60)} files"
        raise OtherFileError(output) from UnsupportedError(message, hint=hint)


def refuse_same_file(path: str, output: str, *, hint: str = "") -> None:
    """Check that an output is not the input."""
    path = resolve_path(path)
    if STANDARD_STREAM in (path, output) or not os.path.exists(path) or not os.path.exists(output):
        return
    folder = os.path.dirname(os.path.realpath(output))
    if os.path.isdir(path) and os.path.isfile(output) and os.path.samefile(path, folder):
        raise UnsupportedError("the output is a file inside the input folder", hint=hint)
    if os.path.samefile(path, output):
        raise UnsupportedError("the output and the input are the same file", hint=hint)


def make_exclusion(args: argparse.Namespace) -> Exclusion:
    """Return what the command line leaves out of folders; the same for all of a command, so that it knows its use."""
    if not hasattr(args, "exclusion"):
        args.exclusion = Exclusion(args.exclude)
    found: Exclusion = args.exclusion
    return found


def warn_of_exclusions(args: argparse.Namespace) -> None:
    """Name the patterns of ``--exclude`` that match nothing in the folders of a command that ended."""
    for text in args.exclusion.unmatched if hasattr(args, "exclusion") and not is_quiet() else ():
        hint = "a pattern with a slash is matched from the folder that is named"
        write_remark(f"--exclude {escape(text, 1000)} matches nothing", hint if "/" in text.rstrip("/") else "")


def expand_paths(args: argparse.Namespace) -> Iterator[str]:
    """Yield the files to read: of a folder the archives below it, unless it is an unzipped archive."""
    for path in args.paths:
        if is_remote(path) or os.path.isdir(path):
            from sbformat.folders import trees

            yield from trees.expand_paths([path], make_exclusion(args))
        else:
            yield path


def report_errors(path: str, work: Callable[[], dict[str, Any]], *, outputs: Sequence[str] = ()) -> dict[str, Any]:
    """Call ``work`` on one file and return its report; an error becomes the report, so that other files are read.

    :param outputs: the files that the command writes: their errors are reported as such
    :return: with ``file`` when the error is about another file than ``path``
    """
    name = name_input(path)
    try:
        report = {"path": name, "outcome": "ok", **work()}
    except OtherFileError as error:
        other = name_output(error.path) if error.path in outputs else name_input(error.path)
        failure = _describe_failure(error.path, error.__cause__, outputs)
        return {"path": name, "file": other, **failure} if other != name else {"path": name, **failure}
    except BrokenPipeError:  # of standard output: no file is at fault
        raise
    except (SbformatError, MemoryError, OSError) as error:
        return {"path": name, **_describe_failure(path, error, outputs)}
    if report.get("output") == STANDARD_STREAM:
        report["output"] = name_output(report["output"])
    for name in _ROWS:
        for row in report[name] if isinstance(report.get(name), list) else ():  # a catalogue counts its rows
            if isinstance(row.get("message"), str):
                row["message"] = name_option(row["message"])
    return report


def _describe_failure(path: str, error: BaseException | None, outputs: Sequence[str]) -> dict[str, Any]:
    """Return the outcome of an error, its message, and the file that it is about if that is not ``path``."""
    if isinstance(error, SbformatError):
        failure: dict[str, Any] = {"outcome": error.outcome, "message": name_option(str(error))}
        if error.hint and error.hint in error.message:  # it may have been given another message
            failure["hint"] = name_option(error.hint)
        if isinstance(error, ValidationError):
            failure["problems"] = [{"loc": row.loc, "kind": row.kind, "message": row.message} for row in error.problems]
        return failure
    if isinstance(error, OSError):
        return _describe_system_error(path, error, outputs)
    return {"outcome": LimitError.outcome, "message": "out of memory: this machine has less than the file needs"}


def _describe_system_error(path: str, error: OSError, outputs: Sequence[str]) -> dict[str, Any]:
    """Return the report of an error of the operating system: of an output, of ``path``, or of a third file."""
    text = describe_system_error(error)
    if isinstance(error, FileNotFoundError) and is_pattern(path):
        text = _describe_pattern(path)
    output = next((output for output in outputs if _is_within(error.filename, output)), None)
    if output is None:
        failure = {"outcome": COULD_NOT_OPEN, "message": text}
        names = (None, path, f"{path}.zip", name_input(path))
        other = {} if error.filename in names else {"file": str(error.filename)}
        if isinstance(error, FileNotFoundError) and (hint := _suggest_path(other.get("file", path))):
            failure["hint"] = hint
        return other | failure
    failure = {"file": output, "outcome": COULD_NOT_WRITE, "message": text}
    if isinstance(error, FileExistsError):
        failure["message"] = f"{escape(output, 1000)} {text}"
        if text == ALREADY_EXISTS:
            failure["hint"] = "--force overwrites it"
            failure["message"] = f"{escape(output, 1000)} already exists; {failure['hint']}"
    elif isinstance(error, FileNotFoundError) and not os.path.isdir(os.path.dirname(output) or os.curdir):
        failure["message"] = f"there is no folder {quote(os.path.dirname(output))}"
    return failure


def _suggest_path(path: str) -> str:
    """Return what could be meant by a path that does not exist; empty if nothing is like it."""
    if is_url(path):
        return ""
    import difflib

    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or os.curdir) as found:
            names = [item.name for item in islice(found, _MOST_NAMES)]
    except OSError:
        return f"there is no folder {quote(folder)}"
    close = difflib.get_close_matches(name[:_COMPARED], names, n=1)
    return f"did you mean {quote(os.path.join(folder, close[0]))}?" if close else ""


def _describe_pattern(path: str) -> str:
    """Return the text of the error for a pattern where a file is expected."""
    from sbformat.folders.trees import expand_pattern

    is_unmatched = expand_pattern(path) == [path]
    return "no file matches this pattern" if is_unmatched else "expected a file, got a pattern: name one of its files"


def _is_within(path: object, output: str) -> bool:
    """Return whether a path is an output, or in the folder that is the output."""
    if not isinstance(path, str):
        return False
    found, target = os.path.realpath(path), os.path.realpath(output)
    return found == target or found.startswith(target + os.sep)


def describe_failure(report: dict[str, Any]) -> str:
    """Return the text for the report of a file that failed, without its hint: the file, the outcome, the message."""
    name = escape(report.get("file", report["path"]), 1000) or "''"
    text = remove_hint(report["message"], report.get("hint", ""))
    if report["outcome"] == COULD_NOT_WRITE and text.startswith(f"{name} "):
        return text
    if report["outcome"] == ContainerError.outcome:  # of a damaged or another file: what it has comes first
        place = re.match(_PLACE, text)
        text = text[place.end() :] if place else text
        return f"{name}: {text} ({report['outcome']}{f' {place[1]}' if place else ''})"
    return f"{name}: {report['outcome']}: {text}"


def remove_hint(message: str, hint: str) -> str:
    """Return the message of an error without the hint in it."""
    before, _, after = message.rpartition(hint) if hint else ("", "", message)
    return f"{before.rstrip('; :')}{after}"


def write_failure(report: dict[str, Any]) -> None:
    """Write the error of a file that failed, and what to do next, to standard error."""
    name = report.get("file", report["path"])
    is_of_agent = not name.startswith("--") and name not in _not_of_agents  # not of an option, such as --observation
    usual = _HINTS.get(report["outcome"], "") if is_of_agent else ""
    write_remark(describe_failure(report), report.get("hint") or usual)
