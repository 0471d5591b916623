"""Runs command lines as in new processes, for ``tests/helpers/fresh_process.py``: ``run_fresh.py FOLDER JSON``.

JSON is a list of modules and one of cases: packages that are as if they were not installed, and arguments. Each case is
run in a fork of this process, which has imported these modules and what every command does. What commands leave are
files of FOLDER.
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
"""It imports packages that may be missing, so that each case imports it anew."""


class Missing:
    """A finder that does not find these packages."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def find_spec(self, name: str, *_: Any) -> None:
        """Raise for a package that is missing; leave others to the next finder."""
        if name.partition(".")[0] in self.names:
            message = f"No module named {name!r}"
            raise ModuleNotFoundError(message, name=name)


def run(base: str, missing: list[str], arguments: list[str]) -> None:
    """Run a command; write its output, its errors, its status and the modules that it imported."""
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(base + name, os.O_CREAT | os.O_WRONLY), number)
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
    imported, cases = json.loads(sys.argv[2])
    for module in imported:
        with contextlib.suppress(ImportError):
            import_module(module)
    for position, case in enumerate(cases):
        process = os.fork()
        if not process:
            try:
                run(f"{sys.argv[1]}/{position}.", *case)
            finally:
                os._exit(0)
        os.waitpid(process, 0)
