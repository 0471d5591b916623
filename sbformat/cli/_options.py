"""What ``--quiet``, ``--verbose`` and ``--color`` say about the output of a process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sbformat.immutable import Record

if TYPE_CHECKING:
    import argparse


class Options(Record):
    """The options of every command about output."""

    quiet: bool = False
    verbose: bool = False
    color: str = "auto"


_options = Options()


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="only results, findings and errors")
    volume.add_argument("-v", "--verbose", action="store_true", help="also what was read, and long texts in full")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="auto (default): in a terminal"
    )


def set_options(args: argparse.Namespace) -> None:
    """Follow the options of a command line from now on; a command may have none of them."""
    global _options  # noqa: PLW0603 -- a process has one command line
    given = {name: value for name, value in vars(args).items() if name in Options._fields}
    _options = Options(**given)


def get_options() -> Options:
    """Return the options, for :func:`use_options` in another process."""
    return _options


def use_options(options: Options) -> None:
    """Follow the options of another process's command line from now on."""
    global _options  # noqa: PLW0603 -- a process works for one command line at a time
    _options = options


def is_quiet() -> bool:
    """Return whether only results, findings and errors are written."""
    return _options.quiet


def is_verbose() -> bool:
    """Return whether everything is written: texts that are not shortened, and what was read."""
    return _options.verbose


def wants_color(*, is_terminal: bool) -> bool:
    """Return whether to write escape sequences.

    With ``--color auto`` the environment decides (https://no-color.org, https://force-color.org), then the terminal.

    :param is_terminal: the output is one
    """
    if _options.color != "auto":
        return _options.color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (is_terminal and os.environ.get("TERM") != "dumb")
