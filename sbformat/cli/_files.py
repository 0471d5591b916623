"""What the commands share: their common options, the files they are given, and how one is read."""

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
"""The outcome of a path that the operating system refuses."""
PROCESS_ENDED: Final = "process ended"
"""The outcome of a file whose process the operating system ended."""


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add what every command that reads archives takes."""
    add_common_options(parser)
    parser.add_argument(
        "--unchecked-crc", action="store_true", help="read a .pth that torch saved without CRCs all the same"
    )


def add_common_options(parser: argparse.ArgumentParser, *other_formats: str) -> None:
    """Add what every command takes.

    :param other_formats: what the command can print besides text and JSON
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
        message = f"no limit is named {escape(name)}; there are {', '.join(Limits._fields)}"
        raise argparse.ArgumentTypeError(message)
    try:
        number = int(value.replace("_", ""))
    except ValueError:
        message = f"{escape(value)} is no whole number"
        raise argparse.ArgumentTypeError(message) from None
    if name in _DEPTHS and number > _DEEPEST:
        message = f"{name} can be {_DEEPEST} at most: no report is nested deeper"
        raise argparse.ArgumentTypeError(message)
    return name, number


def read_archive(path: str, args: argparse.Namespace, on_unknown: OnUnknown = "error") -> Archive:
    """Read an archive as the command line asks."""
    from sbformat.reader import read

    return read(path, limits=limits(args), on_unknown=on_unknown, unchecked_crc=args.unchecked_crc)


def read_in_place(path: str, args: argparse.Namespace, on_unknown: OnUnknown = "error") -> Archive:
    """Read an archive as the command line asks, without holding it when it is large."""
    from sbformat.reader import read_in_place

    return read_in_place(path, limits=limits(args), on_unknown=on_unknown, unchecked_crc=args.unchecked_crc)


def limits(args: argparse.Namespace) -> Limits:
    """Return the limits that the command line asks for."""
    return Limits()._replace(**dict(args.limit))


def named(path: str, work: Callable[[], T]) -> T:
    """Do the work on a second file: what goes wrong there names it."""
    try:
        return work()
    except SbformatError as error:
        error.message = f"{escape(path, 1000)}: {error}"
        error.entry = error.offset = None
        raise


def found(path: str) -> str:
    """Return the file that a path means: ``name`` falls back to ``name.zip``, as when it is read."""
    return path if os.path.exists(path) else f"{path}.zip"


def refuse_same(path: str, output: str, *, hint: str = "") -> None:
    """Refuse an output that is the file that a path means.

    :raises UnsupportedError: when it is
    """
    path = found(path)
    if not os.path.exists(path) or not os.path.exists(output):
        return
    folder = os.path.dirname(os.path.realpath(output))
    if os.path.isdir(path) and os.path.isfile(output) and os.path.samefile(path, folder):
        message = f"the output is a file of the input{hint}"
        raise UnsupportedError(message)
    if os.path.samefile(path, output):
        message = f"the output is the input{hint}"
        raise UnsupportedError(message)


def expand(paths: Iterable[str]) -> Iterator[str]:
    """Yield the files to read: a folder stands for the archives below it, unless it is one itself."""
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
            yield path  # to be told that it is no archive


def guarded(path: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do the work on one file; what goes wrong becomes its report, so that the rest goes on."""
    try:
        return {"path": path, "outcome": "ok", **work()}
    except ValidationError as error:
        rows = [{"loc": row.loc, "kind": row.kind, "message": row.message} for row in error.problems]
        return {"path": path, "outcome": error.outcome, "message": str(error), "problems": rows}
    except SbformatError as error:
        return {"path": path, "outcome": error.outcome, "message": str(error)}
    except MemoryError:
        message = "this machine has not the memory that it asks for"
        return {"path": path, "outcome": LimitError.outcome, "message": message}
    except OSError as error:
        other = f"{escape(str(error.filename), 1000)}: " if error.filename not in (None, path) else ""
        hint = "; --force overwrites it" if isinstance(error, FileExistsError) else ""
        return {"path": path, "outcome": COULD_NOT_OPEN, "message": f"{other}{error.strerror or error}{hint}"}
