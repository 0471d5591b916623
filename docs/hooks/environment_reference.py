"""The page of environment variables: those that the command line reads, with the options that they are values of."""

from __future__ import annotations

from typing import Final

from command_reference import escape_cell

from sbformat.cli import build_parser
from sbformat.cli._tables import list_limit_variables, list_variables

_INTRODUCTION: Final = """# Environment variables

What belongs to a machine or a terminal can be set once, for all commands:

```console
$ export SBFORMAT_LIMIT_JSON_BYTES=128MB SBFORMAT_JOBS=4
$ sbformat inspect tests/archives/
```

In PowerShell, that is `$env:SBFORMAT_JOBS = "4"`, in cmd `set SBFORMAT_JOBS=4`.

An option of the command line replaces its variable, and an empty variable is as none. A wrong value is an error that
names the variable; so is a limit that does not exist. A name that is nearly one of these, such as `SBFORMAT_COLOUR`, is
a warning. `sbformat help environment` prints these tables.

Only the command line reads these variables: how `sbformat.read`
and the rest of the Python package read a file depends on their arguments alone.

| variable | instead of | value |
|---|---|---|
"""
_LIMITS: Final = """
Every [limit](limits.md) has a variable, which takes the values of `--limit`:

| variable | instead of | default |
|---|---|---|
"""


def render_environment() -> str:
    """Return the page."""
    commands = build_parser().commands.values()
    rows = [f"| `{name}` | `{option}` | {escape_cell(text)} |" for name, option, text in list_variables(commands)]
    limits = [
        f"| `{variable}` | [`--limit {name}=VALUE`](limits.md#{name}) | {size} |"
        for variable, name, size in list_limit_variables()
    ]
    return _INTRODUCTION + "\n".join(rows) + "\n" + _LIMITS + "\n".join(limits) + "\n"
