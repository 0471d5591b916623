"""``sbformat completion`` and ``help``: what the command line has, for a shell that completes it, and for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from sbformat.cli import _files
from sbformat.cli import _options as opt

if TYPE_CHECKING:
    import argparse

_SHELLS: Final = ("bash", "zsh", "fish", "tcsh", "powershell")
_FILES: Final = frozenset({"FILE", "PATH", "A", "B", "OUT", "STATS"})  # names of arguments that are files
_COMMAND: Final = "COMMAND"  # name of the argument that is a command
_LONGEST: Final = 600  # characters of a cell
_FORMAT: Final = "https://sbformat.github.io/sbformat/format/"
_TABLES: Final = ("limits", "environment", "rules")
COMPLETION: Final = opt.Command(
    example='eval "$(sbformat completion bash)"',
    description="Write a script that completes commands, options, their values and files in a shell. The script "
    "does not start sbformat: write it again after an update.",
    options=(opt.option("shell", "SHELL", ", ".join(_SHELLS), choices=_SHELLS),),
)
HELP: Final = opt.Command(
    example="sbformat help scan",
    description="Print the help of all commands, or of one, as --help does; or a table: of the limits of readers, "
    "of the environment variables that set defaults, or of the rules of scan.",
    options=(
        opt.option(
            "name", _COMMAND, "a command, limits, environment or rules; without it, all commands are listed", nargs="?"
        ),
    ),
)


def run_completion(args: argparse.Namespace) -> int:
    """Write the script; return 2 when the package that makes it is missing."""
    try:
        import shtab
    except ModuleNotFoundError:
        _files.write_remark("to write completions, the package shtab is needed", 'pip install "sbformat[completion]"')
        return _files.EXIT_COULD_NOT
    from sbformat.cli import ALIASES, build_parser

    parser = build_parser()
    for command in parser.commands.values():
        for action in command._actions:  # noqa: SLF001 -- argparse lists them nowhere else
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.metavar == _COMMAND:
                action.choices = [*parser.commands, *ALIASES, *_TABLES]
    sys.stdout.write(f"{shtab.complete(parser, args.shell).rstrip()}\n")
    return _files.EXIT_FINE


def run_help(args: argparse.Namespace) -> int:
    """Print the help of all commands or of one, or a table."""
    from sbformat.cli import ALIASES, build_parser, explain_command

    if args.name in _TABLES:
        _print_tables(args.name)
        return _files.EXIT_FINE
    if args.name is None:
        build_parser("--help").print_help()
        return _files.EXIT_FINE
    name = ALIASES.get(args.name, args.name)
    parser = build_parser(name)
    if name not in parser.commands:
        raise opt.UsageError(explain_command(args.name, [*parser.commands, *_TABLES]))
    parser.commands[name].print_help()
    return _files.EXIT_FINE


def _print_tables(name: str) -> None:
    """Print the limits, the environment variables, or the rules of ``scan``."""
    from sbformat.cli import _output, _tables, build_parser

    printer = _output.make_printer()
    if name == "limits":
        header = ("limit", "default", "what it bounds")
        rows = [(limit, size, text.replace("``", "")) for limit, size, text in _tables.list_limits()]
        printer.line(f"A number alone in parentheses, such as (8.1), is a section of the format: {_FORMAT}")
        printer.table("limits, for --limit NAME=VALUE", header, rows, longest=_LONGEST)
        return
    if name == "rules":
        header = ("rule", "verdict", "what it means, and what to do")
        rows = [
            (rule, verdict, f"{found.meaning} {found.remedy}".replace("`", ""))
            for rule, verdict, found in _tables.list_rules()
        ]
        printer.table("rules of scan", header, rows, longest=_LONGEST)
        return
    parsers = build_parser().commands.values()
    header = ("variable", "instead of", "value")
    printer.table("environment variables", header, _tables.list_variables(parsers), longest=_LONGEST)
    rows = [(variable, f"--limit {limit}=VALUE", size) for variable, limit, size in _tables.list_limit_variables()]
    printer.table("of limits", ("variable", "instead of", "default"), rows)
