"""Adds pages to the site that are not in ``docs/``, and makes links work both on GitHub and on the site.

MkDocs calls the functions ``on_...``. What comes in: the Markdown of ``docs/``, written for GitHub, with links relative
to the file. What goes out: the same pages for Python-Markdown, and

- copies of documents that are kept elsewhere (:data:`COPIED`),
- pages that are generated from the code (:data:`GENERATED`),
- in the pages of :mod:`included_sections`, the sections that they include,
- the JSON Schemas (:data:`SCHEMAS`),
- the page "Try it" (:mod:`try_page`), which is not one of the theme.

A relative link is resolved as a path in the repository. If the site has a page of that file, the link leads to the
page, else to the file on GitHub::

    in docs/architecture.md    [FORMAT.md](../schema/FORMAT.md#1-the-archive)  ->  format.md#1-the-archive
    in docs/architecture.md    [noxfile](../noxfile.py)  ->  https://github.com/sbformat/sbformat/blob/main/noxfile.py
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from command_reference import render_commands
from environment_reference import render_environment
from format_sections import PAGES, list_sections, make_anchor, strip_marks
from github_markdown import map_text, normalize_lists
from included_sections import LEVELS, expand_page, list_anchors
from limit_reference import render_limits
from rule_reference import render_rules
from try_page import find_modules, make_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

ROOT: Final = Path(__file__).resolve().parents[2]
BLOB: Final = "https://github.com/sbformat/sbformat/blob/main/"

TRY: Final = "try/"
"""The folder of the page "Try it"."""

COPIED: Final = {
    **{page: f"schema/{document}.md" for page, document in PAGES.items()},
    "security.md": "SECURITY.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages of the site, and the documents that they are."""

GENERATED: Final[dict[str, Callable[[], str]]] = {
    "reference/commands.md": render_commands,
    "reference/environment.md": render_environment,
    "reference/limits.md": render_limits,
    "reference/rules.md": render_rules,
}
"""Pages of the site, and the functions that write them."""

SCHEMAS: Final = tuple(
    path.relative_to(ROOT).as_posix()
    for folder in ("schema", "schema/tables", "conformance")
    for path in sorted((ROOT / folder).glob("*.schema.json"))
)
"""The JSON Schemas: the site has each at the address of its ``$id``, from which editors fetch it."""

RANKS: Final = {
    "how-to/": 2.0,
    "tutorials/": 2.0,
    "reference/environment.md": 3.0,
    "reference/errors.md": 3.0,
    "reference/limits.md": 3.0,
    "reference/api.md": 1.0,
    "reference/": 1.5,
    "format": 0.1,
    "changelog.md": 0.2,
    "decisions/": 0.2,
    "architecture.md": 0.4,
    "contributing.md": 0.4,
}
"""How far up the search lists a page, by the beginning of its path; 1 for others."""

_SITE_PAGE: Final = {document: page for page, document in COPIED.items()}
_CITED: Final = re.compile(r"`[^`]*`|\bsections? (\d+(?:\.\d+)?)(?![.\d]*\d)|(?<=\()(\d+\.\d+)(?=[,;:)])")
"""Code, which stays as it is; or a section."""
_LINK: Final = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(\))")


def resolve_link(target: str, page: str, pages: Collection[str]) -> str:
    """Return the address on the site of what a relative link in a page leads to.

    :param target: the link, without a fragment
    :param page: the page that has it, relative to ``docs/``
    :param pages: all pages and files of the site, relative to ``docs/``
    :return: a link relative to the page, or an address on GitHub; unchanged if there is no such file
    """
    if target in GENERATED or posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) in pages:
        return target
    source = COPIED.get(page, f"docs/{page}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    found = _SITE_PAGE.get(path, path.removeprefix("docs/"))
    if found in pages or found in GENERATED:
        return posixpath.relpath(found, posixpath.dirname(page) or ".")
    return BLOB + path if (ROOT / path).exists() else target


def link_sections(text: str, page: str, anchors: Collection[str] = ()) -> str:
    """Make links of the section numbers in a page of the specification: ``section 8``, ``(12.6)``.

    :param text: a line
    :param page: the page that has it, relative to ``docs/``
    :param anchors: of the sections that the page includes
    """

    def link(found: re.Match[str]) -> str:
        section = list_sections().get(found[1] or found[2])
        if section is None:
            return found[0]
        if section.anchor in anchors:
            return f"[{found[0]}](#{name_anchor(section.anchor, page)})"
        path = "" if section.page == page else posixpath.relpath(section.page, posixpath.dirname(page) or ".")
        return f"[{found[0]}]({path}#{section.anchor})"

    return _CITED.sub(link, text)


def name_anchor(anchor: str, page: str) -> str:
    """Return another anchor for a section that a page includes, because links of docstrings need unique ones."""
    return f"{posixpath.basename(page).removesuffix('.md')}-{anchor}"


def link_included(markdown: str, page: str) -> str:
    """Do the same for a page that includes sections, and give their headings anchors of their own."""
    included = list_anchors(markdown) & {section.anchor for section in list_sections().values()}

    def convert(text: str) -> str:
        if not text.startswith("#"):
            return link_sections(text, page, included)
        anchor = make_anchor(text)
        return f"{text} {{ #{name_anchor(anchor, page)} }}" if anchor in included else text

    return map_text(markdown, convert)


def convert_page(markdown: str, page: str, pages: Collection[str]) -> str:
    """Convert a page from GitHub's Markdown to that of the site."""

    def replace(found: re.Match[str]) -> str:
        before, target, fragment, after = found.groups(default="")
        return before + resolve_link(target, page, pages) + fragment + after

    markdown = map_text(strip_marks(markdown), lambda text: _LINK.sub(replace, text))
    if page in PAGES:
        markdown = map_text(markdown, lambda text: text if text.startswith("#") else link_sections(text, page))
    if page in LEVELS:
        markdown = link_included(markdown, page)
    return normalize_lists(markdown)


def add_date(markdown: str, day: str) -> str:
    """Add the day of the last change, if it is known, to the line of the specification that has its version."""
    return re.sub(r"^(Version [\d.]+\d)\.$", rf"\1, as of {day}." if day else r"\1.", markdown, flags=re.MULTILINE)


def read_date() -> str:
    """Return the day of the last commit to ``schema/``, or nothing without git or the history."""
    command = ["git", "log", "-1", "--format=%cs", "--", "schema"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 -- constant
    except OSError:
        return ""
    return done.stdout.strip()


def prune_nav(items: Any, pages: Collection[str]) -> Any:
    """Leave out the pages of the navigation that do not exist, and sections without pages."""
    if isinstance(items, list):
        return [kept for kept in (prune_nav(item, pages) for item in items) if kept]
    if isinstance(items, dict):
        return {title: kept for title, kept in ((key, prune_nav(item, pages)) for key, item in items.items()) if kept}
    return items if items in pages else None


def list_pages() -> set[str]:
    """Return the pages of the site: those of ``docs/``, the copies and the generated ones."""
    found = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    return found | set(COPIED) | set(GENERATED)


def on_config(config: Any) -> Any:
    """Leave pages that are not written yet out of the navigation."""
    os.chdir(ROOT)  # the paths of mkdocstrings are relative to it
    config.nav = prune_nav(config.nav, list_pages())
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add the copied and the generated pages, the schemas, and the page "Try it"."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_uri.startswith(TRY)]:
        files.remove(file)
    for name, content in make_files(find_modules()).items():
        files.append(File.generated(config, f"{TRY}{name}", content=content))

    for path in SCHEMAS:
        files.append(File.generated(config, path, content=(ROOT / path).read_text("utf-8")))
    for page, document in COPIED.items():
        files.append(File.generated(config, page, content=(ROOT / document).read_text("utf-8")))
    for page, render in GENERATED.items():
        files.append(File.generated(config, page, content=render()))
    return files


def on_nav(nav: Any, *, config: Any, files: Any) -> Any:  # noqa: ARG001 -- MkDocs passes them
    """Add "Try it" to the navigation, which otherwise links to pages of Markdown alone."""
    from mkdocs.structure.nav import Link

    nav.items.insert(1, Link("Try it", TRY))
    return nav


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 -- MkDocs passes them
    """Convert a page before it is rendered, and say where the search lists it."""
    rank = next((rank for start, rank in RANKS.items() if page.file.src_uri.startswith(start)), None)
    if rank is not None:
        page.meta.setdefault("search", {"boost": rank})
    path = page.file.src_uri
    if path in PAGES:
        markdown = add_date(markdown, read_date())
    return convert_page(expand_page(path) if path in LEVELS else markdown, path, {file.src_uri for file in files})
