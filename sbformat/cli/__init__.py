"""The command line: ``sbformat inspect | validate | scan | extract | diff | edit | convert | rebuild | bundle | ...``.

Each command is a module with ``configure(subparsers)`` and ``run(args) -> int``. Exit status: 0 success,
1 findings, 2 failure.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from importlib import import_module
from itertools import takewhile
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import sbformat
from sbformat.cli import _streams
from sbformat.cli._files import EXIT_COULD_NOT
from sbformat.cli._options import is_verbose, set_options
from sbformat.errors import escape, quote
from sbformat.parallel import WorkersError

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS: Final = (
    "inspect", "validate", "scan", "extract", "diff", "edit", "convert", "rebuild", "bundle", "unbundle", "predict",
    "evaluate", "export", "report", "catalog", "completion",
)  # fmt: skip
_EXIT_INTERRUPTED: Final = 130
_ISSUES: Final = "https://github.com/sbformat/sbformat/issues"


class _Formatter(argparse.HelpFormatter):
    """Help of one width everywhere, so that the README can quote it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=96)


class Parser(argparse.ArgumentParser):
    """The parser of the whole command line, with the parsers of its commands."""

    commands: dict[str, argparse.ArgumentParser]


def build_parser(first: str | None = None) -> Parser:
    """Return the parser of the whole command line.

    :param first: the first argument: if it is a command, the modules of the other commands are not imported
    """
    parser = Parser(
        prog="sbformat",
        description="Read, check, scan, compare, edit, convert, rebuild and bundle Stable-Baselines3 archives, and run "
        "or export their agents; put what is known of many into one table. No code in a file is ever executed.",
        epilog="Exit status: 0 success, 1 findings, 2 failure.",
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="version", version=f"sbformat {sbformat.__version__}")
    subparsers = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=argparse.ArgumentParser
    )
    parser.commands = subparsers.choices
    for command in (first,) if first in _COMMANDS else _COMMANDS:
        import_module(f"sbformat.cli.{command}").configure(_Subparsers(subparsers))
    return parser


class _Subparsers:
    """Adds commands whose help has the same form and ends with an example."""

    def __init__(self, subparsers: Any) -> None:
        self._subparsers = subparsers

    def add_parser(self, name: str, *, example: str, **kwargs: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = self._subparsers.add_parser(
            name, epilog=f"Example: {example}", formatter_class=_Formatter, **kwargs
        )
        return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    :param argv: the arguments; those of the process when None
    """
    if sys.stdout is None:
        _streams.write_remark("standard output is closed: redirect it to a file, or to /dev/null")
        return EXIT_COULD_NOT
    if hasattr(sys.stdout, "reconfigure"):  # a terminal that cannot show a character gets its escape
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:] if argv is None else list(argv)
    begin = perf_counter()
    try:
        args = _parse_arguments(arguments)
        set_options(args)
        status: int = args.run(args)
        sys.stdout.flush()
        if is_verbose():
            _streams.write_remark(f"exit status {status} after {perf_counter() - begin:.2f} s")
    except BrokenPipeError:  # the reader of a pipe had enough
        _drop_output()
        return EXIT_COULD_NOT
    except (OSError, _streams.OutputError) as error:  # files have their own errors: this is standard output
        _streams.write_remark(_describe_output_error(error))
        _drop_output()
        return EXIT_COULD_NOT
    except WorkersError as error:
        _streams.write_remark(str(error))
        return EXIT_COULD_NOT
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except Exception as error:  # a bug: users of the command line get one line, callers of this function the error
        if argv is not None:
            raise
        _streams.write_remark(_describe_bug(error))
        return EXIT_COULD_NOT
    return status


def _describe_output_error(error: Exception) -> str:
    """Return the line about an error of the operating system: of a file that it names, or of standard output."""
    cause = error.__cause__ if isinstance(error, _streams.OutputError) else error
    if not isinstance(cause, OSError):
        return str(cause)
    text = _streams.describe_system_error(cause)
    if cause.filename is None:
        return f"standard output: cannot write: {text}"
    return f"{escape(str(cause.filename), 1000)}: {text}"


def _describe_bug(error: Exception) -> str:
    """Return the line about an error that no command expects: what it is, where, and where to report it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    place = f" in {code.co_name} ({os.path.basename(code.co_filename)}:{trace.tb_lineno})" if trace and code else ""
    what = f"{type(error).__name__}{place}: {escape(str(error), 300)}"
    return f"internal error: {what}; please report it at {_ISSUES}, with the file if you can"


def _parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments; an error says what could be meant.

    :raises SystemExit: for arguments that are wrong, and for --help
    """
    parser = build_parser(*arguments[:1])
    if not arguments:
        parser.error(f"expected a command: {', '.join(_COMMANDS)}")
    if arguments[0] not in _COMMANDS and not arguments[0].startswith("-"):
        from sbformat.cli._hints import explain_command

        parser.error(explain_command(arguments[0], _COMMANDS))
    for argument in takewhile(lambda argument: argument != "--", arguments):
        if argument[:1] == "-" and len(argument) > 1 and os.path.lexists(argument):
            name = quote(argument)
            parser.error(f"{name} is an option, and a file here: '--' before the names of files makes them files")
    args, extra = parser.parse_known_args(arguments)
    if extra:
        from sbformat.cli._hints import explain_options

        command = parser.commands[args.command]
        command.error(explain_options(extra, command))
    wrong = _streams.start(args)
    if wrong:
        parser.error(wrong)
    return args


def _drop_output() -> None:
    """Redirect standard output to nowhere: the interpreter flushes it again when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
