"""``sbformat completion``: a script that completes commands, options and files in a shell."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from sbformat.cli import _files
from sbformat.cli import _options as opt

if TYPE_CHECKING:
    import argparse

_SHELLS: Final = ("bash", "zsh", "fish", "tcsh", "powershell")
_FILES: Final = frozenset({"FILE", "PATH", "A", "B", "OUT", "STATS"})  # names of arguments that are files
COMPLETION: Final = opt.Command(
    example='eval "$(sbformat completion bash)"',
    description="Write a script that completes commands, options, their values and files in a shell. The script "
    "does not start sbformat: write it again after an update.",
    options=(opt.option("shell", "SHELL", ", ".join(_SHELLS), choices=_SHELLS),),
)


def run_completion(args: argparse.Namespace) -> int:
    """Write the script; return 2 when the package that makes it is missing."""
    try:
        import shtab
    except ModuleNotFoundError:
        _files.write_remark("to write completions, the package shtab is needed: pip install 'sbformat[completion]'")
        return _files.EXIT_COULD_NOT
    from sbformat.cli import build_parser

    parser = build_parser()
    for command in parser.commands.values():
        for action in command._actions:  # noqa: SLF001 -- argparse lists them nowhere else
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    sys.stdout.write(f"{shtab.complete(parser, args.shell).rstrip()}\n")
    return _files.EXIT_FINE
