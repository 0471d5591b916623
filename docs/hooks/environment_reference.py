"""The page of environment variables: those that the command line reads, with the options that they are values of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from command_reference import escape_cell, name_argument, render_help
from limit_reference import render_size

from sbformat.cli import build_parser
from sbformat.cli._options import LIMIT_PREFIX, PREFIX, VARIABLES
from sbformat.limits import Limits

if TYPE_CHECKING:
    import argparse

_INTRODUCTION: Final = """# Environment variables

What belongs to a machine or a terminal can be set once, for all commands:

```console
$ export SBFORMAT_LIMIT_JSON_BYTES=128MB SBFORMAT_JOBS=4
$ sbformat inspect tests/archives/
```

In PowerShell, that is `$env:SBFORMAT_JOBS = "4"`, in cmd `set SBFORMAT_JOBS=4`.

An option of the command line replaces its variable, and an empty variable is as none. A wrong value is an error that
names the variable; so is a limit that does not exist. Only the command line reads these variables: how `sbformat.read`
and the rest of the Python package read a file depends on their arguments alone.

| variable | instead of | value |
|---|---|---|
"""
_SWITCH: Final = "`1` or `0`: "
_COLOURS: Final = (
    ("NO_COLOR", "--color never", "any text: no colours, unless `--color` or `SBFORMAT_COLOR` says otherwise"),
    ("FORCE_COLOR", "--color always", "any text: colours in a pipe, too, unless one of the others says otherwise"),
)
_LIMITS: Final = """
Every [limit](limits.md) has a variable, which takes the values of `--limit`:

| variable | instead of | default |
|---|---|---|
"""


def find_option(name: str) -> argparse.Action:
    """Return an option by the name of its value."""
    commands = build_parser().commands.values()
    return next(action for command in commands for action in command._actions if action.dest == name)  # noqa: SLF001


def render_environment() -> str:
    """Return the page."""
    rows = []
    for name in VARIABLES:
        action = find_option(name)
        written = name_argument(action).split(", ")[-1]
        text = escape_cell(render_help(action, "sbformat"))
        rows.append(f"| `{PREFIX}{name.upper()}` | `{written}` | {_SWITCH if action.nargs == 0 else ''}{text} |")
    rows += [f"| `{name}` | `{option}` | {text} |" for name, option, text in _COLOURS]
    limits = [
        f"| `{LIMIT_PREFIX}{name.upper()}` | [`--limit {name}=VALUE`](limits.md#{name}) | {render_size(name, value)} |"
        for name, value in Limits()._asdict().items()
    ]
    return _INTRODUCTION + "\n".join(rows) + "\n" + _LIMITS + "\n".join(limits) + "\n"
