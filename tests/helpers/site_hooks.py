"""The modules of ``docs/hooks``, which make pages of the site."""

from __future__ import annotations

from typing import Any

from tests.helpers.bundled import ROOT
from tests.helpers.programs import import_from


def load_hook(name: str) -> Any:
    """Import a module of ``docs/hooks``, as MkDocs does: with its folder on the path."""
    return import_from(ROOT / "docs" / "hooks", name)
