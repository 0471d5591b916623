"""Options that the commands share, the files on a command line, and how one is read."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat.constants import DATA_ENTRY
from sbformat.errors import LimitError, SbformatError, UnsupportedError, ValidationError, escape
from sbformat.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sbformat.archive.archive import Archive
    from sbformat.pth.values import OnUnknown

T = TypeVar("T")

ARCHIVE_SUFFIXES: Final = (".zip", ".pth", ".pkl")
_DEPTHS: Final = ("json_depth", "value_depth")
_DEEPEST: Final = 200
EXIT_FINE: Final = 0
EXIT_FINDINGS: Final = 1
EXIT_COULD_NOT: Final = 2
COULD_NOT_OPEN: Final = "cannot open"
"""Outcome of a path that the operating system cannot open."""
PROCESS_ENDED: Final = "process ended"
"""Outcome of a file whose worker process was killed."""


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that reads archives."""
    add_common_options(parser)
    parser.add_argument("--unchecked-crc", action="store_true", help="also read a .pth that torch saved without CRCs")


def add_common_options(parser: argparse.ArgumentParser, *other_formats: str) -> None:
    """Add the options of every command.

    :param other_formats: output formats besides text and JSON
    """
    formats = ("text", "json", *other_formats)
    words = ("text for people (default)", "JSON", *(word.upper() for word in other_formats))
    parser.add_argument("--format", choices=formats, default="text", help=f"{', '.join(words[:-1])} or {words[-1]}")
    parser.add_argument(
        "--limit", action="append", default=[], metavar="NAME=VALUE", type=_limit, help="change a limit; repeatable"
    )


def _limit(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    name = name.replace("-", "_")
    if name not in Limits._fields:
        message = f"unknown limit {escape(name)}; available: {', '.join(Limits._fields)}"
        raise argparse.ArgumentTypeError(message)
    try:
        number = int(value.replace("_", ""))
    except ValueError:
        message = f"expected a whole number, got {escape(value)}"
        raise argparse.ArgumentTypeError(message) from None
    if name in _DEPTHS and number > _DEEPEST:
        message = f"{name} can be at most {_DEEPEST}: reports are not nested deeper"
        raise argparse.ArgumentTypeError(message)
    return name, number


def read_archive(path: str, args: argparse.Namespace, on_unknown: OnUnknown = "error") -> Archive:
    """Read an archive with the options of the command line."""
    from sbformat.reader import read

    return read(path, limits=make_limits(args), on_unknown=on_unknown, unchecked_crc=args.unchecked_crc)


def read_in_place(path: str, args: argparse.Namespace, on_unknown: OnUnknown = "error") -> Archive:
    """Read an archive with the options of the command line; a large one stays in its file."""
    from sbformat.reader import read_in_place

    return read_in_place(path, limits=make_limits(args), on_unknown=on_unknown, unchecked_crc=args.unchecked_crc)


def make_limits(args: argparse.Namespace) -> Limits:
    """Return the limits that the command line gives."""
    return Limits()._replace(**dict(args.limit))


def name_in_errors(path: str, work: Callable[[], T]) -> T:
    """Call ``work``, which reads a second file; the text of an error names that file."""
    try:
        return work()
    except SbformatError as error:
        error.message = f"{escape(path, 1000)}: {error}"
        error.entry = error.offset = None
        raise


def resolve_path(path: str) -> str:
    """Return the file at a path: ``name`` falls back to ``name.zip``, as in SB3."""
    return path if os.path.exists(path) else f"{path}.zip"


def refuse_same_file(path: str, output: str, *, hint: str = "") -> None:
    """Check that an output is not the input.

    :raises UnsupportedError: when both are the same file
    """
    path = resolve_path(path)
    if not os.path.exists(path) or not os.path.exists(output):
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
        if not os.path.isdir(path) or os.path.isfile(os.path.join(path, DATA_ENTRY)):
            yield path
            continue
        found = False
        for folder, below, files in os.walk(path):
            below[:] = sorted(name for name in below if not name.startswith("."))
            if DATA_ENTRY in files:
                found = True
                yield folder
                below.clear()
                continue
            for name in sorted(files):
                file = os.path.join(folder, name)
                if name.endswith(ARCHIVE_SUFFIXES) and os.path.isfile(file):
                    found = True
                    yield file
        if not found:
            yield path  # reading it gives the error


def report_errors(path: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Call ``work`` on one file and return its report; an error becomes the report, so that other files are read."""
    try:
        return {"path": path, "outcome": "ok", **work()}
    except ValidationError as error:
        rows = [{"loc": row.loc, "kind": row.kind, "message": row.message} for row in error.problems]
        return {"path": path, "outcome": error.outcome, "message": str(error), "problems": rows}
    except SbformatError as error:
        return {"path": path, "outcome": error.outcome, "message": str(error)}
    except MemoryError:
        message = "out of memory: this machine has less than the file needs"
        return {"path": path, "outcome": LimitError.outcome, "message": message}
    except OSError as error:
        other = f"{escape(str(error.filename), 1000)}: " if error.filename not in (None, path) else ""
        hint = "; --force overwrites it" if isinstance(error, FileExistsError) else ""
        return {"path": path, "outcome": COULD_NOT_OPEN, "message": f"{other}{error.strerror or error}{hint}"}
