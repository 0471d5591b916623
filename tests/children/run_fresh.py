"""Runs command lines as in new processes, for ``tests/helpers/fresh_process.py``: ``run_fresh.py [MODULE ...]``.

Each is run in a fork of this process, which has imported these modules and what every command does. A line of standard
input is a JSON list: the beginning of the names of the files that are written, packages that are as if they were not
installed, the arguments, and a file for standard input. A line of the output says that the command has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from importlib import import_module
from typing import Any

import sbformat.__main__
import sbformat.cli

REMOTE = "sbformat.io.remote"
"""It imports packages that may be missing, so that each command imports it anew."""


class Missing:
    """A finder that does not find these packages."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def find_spec(self, name: str, *_: Any) -> None:
        """Raise for a package that is missing; leave others to the next finder."""
        if name.partition(".")[0] in self.names:
            message = f"No module named {name!r}"
            raise ModuleNotFoundError(message, name=name)


def run(base: str, missing: list[str], arguments: list[str], stdin: str) -> None:
    """Run a command; write its output, its errors, its status and the modules that it imported."""
    os.dup2(os.open(stdin, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(base + name, os.O_CREAT | os.O_WRONLY), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- as long as the process
    for name in [name for name in sys.modules if name.startswith(REMOTE) or name.partition(".")[0] in missing]:
        del sys.modules[name]
    sys.meta_path.insert(0, Missing(missing))
    sys.argv[1:] = arguments
    try:
        status: object = sbformat.__main__.main()
    except SystemExit as end:
        status = end.code
    sys.stdout.flush()
    with open(base + "json", "w", encoding="utf-8") as file:
        json.dump([status, list(sys.modules)], file)


if __name__ == "__main__":
    for module in sys.argv[1:]:
        with contextlib.suppress(ImportError):
            import_module(module)
    for line in sys.stdin:
        process = os.fork()
        if not process:
            try:
                run(*json.loads(line))
            finally:
                os._exit(0)
        os.waitpid(process, 0)
        sys.stdout.write("\n")
        sys.stdout.flush()
