"""Runs command lines one after another, so that what they import is imported once.

Each line of standard input is a JSON list, the arguments of a command; each line of the output is a JSON list of its
status, output and errors. ``tests/helpers/command_process.py`` starts it.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

from sbformat.cli import main


def run(arguments: list[str]) -> tuple[int, str, str]:
    """Run a command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    return status, out.getvalue(), err.getvalue()


if __name__ == "__main__":  # workers import this module
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
        sys.stdout.flush()
