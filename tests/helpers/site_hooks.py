"""The modules of ``docs/hooks``, which make pages of the site."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tests.helpers.bundled import ROOT


def load_hook(name: str) -> Any:
    """Import a module of ``docs/hooks``, as MkDocs does: with its folder on the path."""
    folder = str(ROOT / "docs" / "hooks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)
