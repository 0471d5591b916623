"""The specification: its documents, their numbered sections, and the anchors of those on GitHub and on the site."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]

DOCUMENTS: Final = (
    "FORMAT",
    "WRITER",
    "VALUES",
    "SCANNING",
    "REBUILDING",
    "SB2",
    "STATISTICS",
    "REPLAY-BUFFERS",
    "POLICIES",
    "FOLDERS",
    "SBX",
    "EXAMPLES",
)
"""The documents in ``schema/``, without ``.md``. Sections are numbered through all but the last, which has none."""

PAGES: Final = {f"format/{name.lower()}.md" if name != "FORMAT" else "format.md": name for name in DOCUMENTS}
"""The pages of the site, and the documents that they are."""


MARK: Final = re.compile(r"^ *<!-- (?:level (\w+)|(end level)) -->$")
"""A line before or after text that only readers of a level need: :mod:`included_sections`."""


class Section(NamedTuple):
    """A numbered section."""

    document: str
    """Such as ``WRITER``."""
    anchor: str
    text: str
    """Its lines, with the heading, without its subsections."""

    @property
    def page(self) -> str:
        """The page of the site, relative to ``docs/``."""
        return next(page for page, name in PAGES.items() if name == self.document)


def make_anchor(heading: str) -> str:
    """Return the anchor of a heading, with or without its ``#``, on GitHub and on the site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def strip_marks(markdown: str) -> str:
    """Remove the lines that mark levels."""
    return "".join(line for line in markdown.splitlines(keepends=True) if not MARK.match(line.rstrip("\n")))


@cache
def list_sections() -> dict[str, Section]:
    """Return the numbered sections of all documents by their numbers."""
    found = {}
    for document in DOCUMENTS:
        text = strip_marks((ROOT / "schema" / f"{document}.md").read_text("utf-8"))
        for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
            if heading := re.match(r"#+ ((\d+(?:\.\d+)?) .*)\n", part):
                found[heading[2]] = Section(document, make_anchor(heading[1]), part)
    return found
