"""The pages "Implement L0" and "Implement L1": guidance in ``docs/implement/``, with sections of other documents.

A line of such a page that is a link and a comment is replaced by the section that it links to::

    [FORMAT.md 2.1](../../schema/FORMAT.md#21-end-record) <!-- include -->
    [FORMAT.md 2.5](../../schema/FORMAT.md#25-member-bytes) <!-- include; only level 1 -->
    [FORMAT.md 8](../../schema/FORMAT.md#8-limits) <!-- include; rows ratio json_bytes -->

A section is included without its subsections. Lines between marks are left out if the page is of a lower level::

    <!-- level 1 -->        or "level none": for no level (background, other features, other products)
    ...
    <!-- end level -->

``only level 1`` includes nothing but the lines marked so, and ``rows`` those rows of a table, and items of a list
about rows, that begin with these names. GitHub shows the links; the site shows the sections. For an archive without
the site, this writes both pages into a folder, as ``IMPLEMENT-L0.md`` and ``IMPLEMENT-L1.md``::

    python docs/hooks/included_sections.py FOLDER
"""

from __future__ import annotations

import posixpath
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from format_sections import MARK, ROOT, make_anchor

if TYPE_CHECKING:
    from collections.abc import Callable

BLOB: Final = "https://github.com/sbformat/sbformat/blob/main/"

LEVELS: Final = {"implement/l0.md": 0, "implement/l1.md": 1}
"""The pages, relative to ``docs/``, and their levels of conformance."""

ARCHIVED: Final = ("conformance", "schema", "LICENSE")
"""What the archive of a release has beside the two pages: links to other files lead to GitHub."""

_INCLUDE: Final = re.compile(r"^\[[^\]]*\]\(([^)#\s]+)#([^)\s]+)\) <!-- include(?:; (only|rows) (.+?))? -->$")
_HEADING: Final = re.compile(r"^(#+) (.*)$")
_FENCE: Final = re.compile(r"^ *```")
_ROW: Final = re.compile(r"^(?:\| |- )`(\w+)`(?: \||:)")
_RULE: Final = re.compile(r"^\|[-|]+\|$")
_LINK: Final = re.compile(r"(\]\()(?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?(\))")


class _Line(NamedTuple):
    """A line of a section, and the level that it is marked with: None if it is not within marks."""

    text: str
    level: str | None


def expand_page(page: str) -> str:
    """Return the Markdown of a page with the sections that it includes.

    :param page: relative to ``docs/``
    :return: Markdown as GitHub reads it; links are relative to the page
    :raises ValueError: if a section or a row that the page includes does not exist, or marks are not in pairs
    """
    source = f"docs/{page}"
    depth = 1
    lines = []
    for line in (ROOT / source).read_text("utf-8").splitlines():
        if found := _INCLUDE.match(line):
            lines += _include(source, found, LEVELS[page], depth)
            continue
        if heading := _HEADING.match(line):
            depth = len(heading[1])
        lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines) + "\n")


def list_anchors(markdown: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    return {make_anchor(heading[2]) for line in markdown.splitlines() if (heading := _HEADING.match(line))}


def write_pages(folder: Path) -> None:
    """Write the pages with their sections into a folder, with links for the archive of a release."""

    def resolve(path: str) -> str:
        page = path.removeprefix("docs/")
        is_archived = path.partition("/")[0] in ARCHIVED
        return name_file(page) if page in LEVELS else path if is_archived else BLOB + path

    folder.mkdir(parents=True, exist_ok=True)
    for page in LEVELS:
        text = _change_links(expand_page(page), posixpath.dirname(f"docs/{page}"), resolve)
        (folder / name_file(page)).write_text(text, "utf-8", newline="\n")


def name_file(page: str) -> str:
    """Return the name of a page in the archive of a release: ``IMPLEMENT-L0.md``."""
    return page.upper().replace("/", "-").replace(".MD", ".md")


def _include(source: str, found: re.Match[str], level: int, depth: int) -> list[str]:
    """Return the lines of a section for a page of a level, with its headings one level below the one above it."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
    section = _split_document(path).get(found[2])
    if section is None:
        raise ValueError(f"{source}: {path} has no section #{found[2]}")
    if found[3] == "only":
        lines = [line.text for line in section if line.level == found[4].removeprefix("level ")]
    else:
        lines = [
            line.text for line in section if line.level is None or (line.level.isdigit() and int(line.level) <= level)
        ]
    if found[3] == "rows":
        lines = _select_rows(lines, found[4].split())
    if not lines:
        raise ValueError(f"{source}: nothing of #{found[2]} is marked for level {level}")
    text = _HEADING.sub(lambda heading: f"{'#' * (depth + 1)} {heading[2]}", lines[0])
    body = "\n".join([text, *lines[1:]])
    target = posixpath.dirname(source)
    moved = _change_links(body, posixpath.dirname(path), lambda linked: posixpath.relpath(linked, target))
    return ["", *moved.splitlines(), ""]


@cache
def _split_document(path: str) -> dict[str, tuple[_Line, ...]]:
    """Return the sections of a document by their anchors, each with its heading and without its subsections."""
    sections: dict[str, list[_Line]] = {"": []}
    current, level, is_code = "", None, False
    for line in (ROOT / path).read_text("utf-8").splitlines():
        is_code ^= bool(_FENCE.match(line))
        if mark := MARK.match(line):
            if (mark[1] is None) == (level is None):
                raise ValueError(f"{path}: a mark that is not one of a pair: {line.strip()}")
            level = mark[1]
            continue
        heading = None if is_code else _HEADING.match(line)
        if heading:
            current = make_anchor(heading[2])
            sections[current] = []
        sections[current].append(_Line(line, level))
    if level is not None:
        raise ValueError(f"{path}: a mark without its end")
    return {anchor: tuple(lines) for anchor, lines in sections.items()}


def _select_rows(lines: list[str], names: list[str]) -> list[str]:
    """Leave out the rows of tables, and the items of lists about rows, that begin with another name."""
    named = [(row[1] if (row := _ROW.match(line)) else None) for line in lines]
    if missing := set(names) - set(named):
        raise ValueError(f"no rows {', '.join(sorted(missing))}")
    kept, name = [], None
    for line, own in zip(lines, named):
        name = own if own is not None else name if line.startswith("  ") else None  # the next lines of an item
        if name is None or name in names:
            kept.append(line)
    return kept


def _change_links(markdown: str, folder: str, change: Callable[[str], str]) -> str:
    """Change relative links: ``change`` gets the path in the repository that a link of a document in ``folder`` has."""

    def replace(found: re.Match[str]) -> str:
        before, target, fragment, after = found.groups(default="")
        if not target:
            return found[0]
        path = change(posixpath.normpath(posixpath.join(folder, target)))
        return f"{before}{path}{'/' if target.endswith('/') else ''}{fragment}{after}"

    return _LINK.sub(replace, markdown)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write_pages(Path(sys.argv[1]))
