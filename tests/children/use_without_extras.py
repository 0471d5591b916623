"""Runs the command line as if packages were not installed: ``use_without_extras.py PACKAGE,PACKAGE ARGUMENT...``."""

from __future__ import annotations

import sys
from typing import Any

import sbformat.__main__


class Missing:
    """A finder that does not find these packages."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(self, name: str, *_: Any) -> None:
        """Raise for a package that is missing; leave others to the next finder."""
        if name.partition(".")[0] in self.names:
            message = f"No module named {name!r}"
            raise ModuleNotFoundError(message, name=name)


sys.meta_path.insert(0, Missing(tuple(sys.argv[1].split(","))))
sys.argv[1:] = sys.argv[2:]
sys.exit(sbformat.__main__.main())
