"""Programs that are no part of a package: the modules of a folder, imported as the programs beside them import them."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def import_from(folder: Path, name: str) -> Any:
    """Import a module of a folder, with the folder on the path."""
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
