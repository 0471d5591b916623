"""The targets, one a layer: each module has ``one_input(data)``, whose docstring is its law."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Final

import sbformat
from conformance.generators import build_zips

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES: Final = ("container", "data", "pkl", "pth", "archive", "policies", "computed")
_NEVER: Final = ("sbformat.__main__", "sbformat.unsafe", "sbformat.sb3", "sbformat.cli")
"""Rooms that no target enters: they unpickle, or talk to people."""


def load(name: str) -> Callable[[bytes], None]:
    """Return the ``one_input`` of a target, with all of the package imported that it could ever reach."""
    for module in pkgutil.walk_packages(sbformat.__path__, "sbformat."):
        if not module.name.startswith(_NEVER):
            import_module(module.name)
    one_input: Callable[[bytes], None] = import_module(f"tests.fuzz.targets.{name}").one_input
    return one_input


def warming() -> bytes:
    """An archive to start with: what is loaded and compiled once shall not be charged to an input."""
    return build_zips.sb3_archive()
