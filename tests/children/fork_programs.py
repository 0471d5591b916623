"""Runs programs in forks of this process: what they import is imported once, and each has memory of its own.

Each line of standard input is a JSON list: a module of this folder, its arguments, variables of the environment, and
the paths of its standard input, output and error; each line of the output is an exit status.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module

from tests.helpers.count_work import PATIENCE

if __name__ == "__main__":
    for line in sys.stdin:
        name, arguments, environment, paths = json.loads(line)
        program = import_module(f"tests.children.{name}")
        pid = os.fork()
        if pid == 0:
            signal.alarm(PATIENCE)
            for number, path in enumerate(paths):
                os.dup2(os.open(path, os.O_RDWR), number)
            sys.argv[1:] = arguments
            os.environ.update(environment)
            program.main()
            sys.exit()
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        sys.stdout.flush()
