"""Standard input, output and error: ``-`` as a file, and where results, summaries and errors go.

* Standard output has the result of a command, and nothing else.
* Standard error has whatever makes the exit status 2, warnings, remarks and progress. Lines begin with ``sbformat:``.
* ``-`` as an input file is standard input, read whole, which reports call ``<stdin>``. ``-`` as an output file is
  standard output; the summary of the command then goes to standard error. A terminal is refused as either.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

from sbformat.errors import UnsupportedError, escape
from sbformat.io.urls import Url, hide_secrets, is_url
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

T = TypeVar("T")

STANDARD_STREAM: Final = "-"
"""Standard input or standard output, as a file on a command line."""
_INPUT_NAME: Final = "<stdin>"
_OUTPUT_NAME: Final = "<stdout>"
_INPUTS: Final = ("paths", "path", "other", "vecnormalize", "weights", "observation")
"""Names of arguments that are files to read; ``unbundle`` writes ``vecnormalize``."""
_COPIED_BYTES: Final = 1 << 20

_read: list[bytes] = []
"""What was read from standard input: it can be read only once."""


class OutputError(Exception):
    """Standard output failed: the cause is the OSError."""


def start(args: argparse.Namespace) -> str | None:
    """Forget the standard input of another run, and check that the arguments name it once.

    :return: what is wrong with the arguments
    """
    _read.clear()
    given: list[object] = []
    for name in _INPUTS:
        value = getattr(args, name, None)
        if value is not None:
            value = (
                [add_url_options(one, args) for one in value]
                if isinstance(value, list)
                else add_url_options(value, args)
            )
            setattr(args, name, value)
        given += value if isinstance(value, list) else [value]
    if given.count(STANDARD_STREAM) > 1:
        return "standard input can be read once: expected one '-' at most"
    return None


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
    """Return what the readers take: the path, or the bytes of standard input.

    :raises UnsupportedError: when standard input is a terminal or closed
    :raises LimitError: when it has more bytes than ``total_bytes``
    """
    if path != STANDARD_STREAM:
        return path
    if sys.stdin is None or sys.stdin.isatty():
        message = "expected a file on standard input, got a terminal" if sys.stdin else "standard input is closed"
        raise UnsupportedError(message)
    if not _read:
        _read.append(_read_whole(Budget(limits)))
    return _read[0]


def _read_whole(budget: Budget) -> bytes:
    chunks = []
    while chunk := sys.stdin.buffer.read(_COPIED_BYTES):
        budget.spend("total_bytes", len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


@contextlib.contextmanager
def open_output(path: str, suffix: str) -> Iterator[str]:
    """Yield the path to write to; of ``-`` a temporary file, which is copied to standard output when it is complete.

    :param path: the output of a command line
    :param suffix: the suffix of the temporary file: ``.zip``
    :raises UnsupportedError: when standard output is a terminal
    """
    if path != STANDARD_STREAM:
        yield path
        return
    if sys.stdout.isatty():
        message = "standard output is a terminal: redirect it to a file or a program, or name a file with -o"
        raise UnsupportedError(message)
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


def write_remark(text: str) -> None:
    """Write a line to standard error; when that is closed or broken, nothing.

    :param text: escaped where it comes from a file
    """
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"sbformat: {text}\n")


def describe_system_error(error: OSError) -> str:
    """Return the text of an error of the operating system."""
    return escape(error.strerror or str(error) or type(error).__name__, 1000)
