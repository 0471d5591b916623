"""Runs a program in forks of this process, for ``tests/helpers/forks.py``: ``fork_program NAME [MODULE ...]``.

The program is a module of this folder; it and the others are imported once. Each line of standard input is a JSON list:
arguments, variables of the environment, and the paths of standard input, output and error. Each line of the output is
an exit status.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module

from tests.helpers.count_work import PATIENCE


def main() -> None:
    """Run the program for each line."""
    program = import_module(f"tests.children.{sys.argv[1]}")
    for name in sys.argv[2:]:
        with suppress(ImportError):
            import_module(name)
    for line in sys.stdin:
        arguments, environment, paths = json.loads(line)
        process = os.fork()
        if process == 0:
            signal.alarm(PATIENCE)
            for number, path in enumerate(paths):
                os.dup2(os.open(path, os.O_RDWR), number)
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- as long as the process
            sys.argv[1:] = arguments
            os.environ.update(environment)
            program.main()
            sys.exit()
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
