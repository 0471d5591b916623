"""Runs a command line, for ``tests/helpers/forks.py``: ``run_fresh MODULES PACKAGE,PACKAGE ARGUMENT...``.

These packages are as if they were not installed. The names of the modules that are imported at the end are written to
the file MODULES.
"""

from __future__ import annotations

import json
import sys
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


def main() -> None:
    """Run the command, and write the modules that are imported at its end."""
    modules, packages, *arguments = sys.argv[1:]
    missing = packages.split(",")
    for name in [name for name in sys.modules if name.startswith(REMOTE) or name.partition(".")[0] in missing]:
        del sys.modules[name]
    sys.meta_path.insert(0, Missing(missing))
    sys.argv[1:] = arguments
    try:
        sys.exit(sbformat.__main__.main())
    finally:
        with open(modules, "w", encoding="utf-8") as file:
            json.dump(list(sys.modules), file)


if __name__ == "__main__":
    main()
