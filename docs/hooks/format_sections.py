"""The numbered sections of FORMAT.md, and their anchors on GitHub and on the site."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

FORMAT: Final = Path(__file__).resolve().parents[2] / "schema" / "FORMAT.md"


@cache
def list_anchors() -> dict[str, str]:
    """Return the anchor of each numbered section of FORMAT.md."""
    headings = re.findall(r"^#+ ((\d+(?:\.\d+)?) .*)$", FORMAT.read_text("utf-8"), re.MULTILINE)
    return {number: re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title, number in headings}
