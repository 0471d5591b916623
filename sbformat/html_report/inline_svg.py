"""SVG as matplotlib writes it, made fit for a page: no inline styles, no metadata, ids of its own.

What comes in is a document whose elements have ``style`` attributes, which a strict Content-Security-Policy forbids,
fixed colours, and ids that repeat from plot to plot. What goes out is an element for the middle of a page: each style
is a class, whose rule :class:`Classes` collects, and each colour of :data:`COLOURS` is a variable of the page's style
sheet, so that plots follow the light or the dark theme. ::

    <path d="M 0 70.000000" style="fill: #000004; stroke: none" id="patch_1"/>   becomes
    <path d="M0 70" class="p0"></path>   with the rule   .p0{fill:var(--series-1);stroke:none}
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from sbformat.html_report.page import escape_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

TEXT: Final = "#000001"
MUTED: Final = "#000002"
LINE: Final = "#000003"
SERIES_1: Final = "#000004"
SERIES_2: Final = "#000005"
COLOURS: Final = {
    TEXT: "var(--text)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    SERIES_1: "var(--series-1)",
    SERIES_2: "var(--series-2)",
}
"""The colours to draw with, and what they become."""

_OMITTED: Final = frozenset({"metadata", "style", "title"})
_KEPT: Final = ("d", "x", "y", "width", "height", "transform", "clip-path", "viewBox", "href", "id")
_NUMBER: Final = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")
_REFERENCE: Final = re.compile(r"#([\w.-]+)")


class Classes:
    """The classes that the styles of a page's plots became."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.plots = 0
        """Number of plots so far: the prefix of their ids."""

    def name(self, style: str) -> str:
        """Return the class of a style, such as ``fill: #000004; stroke: none``."""
        declarations = sorted(filter(None, map(_convert_declaration, style.split(";"))))
        return self._names.setdefault(";".join(declarations), f"p{len(self._names)}")

    @property
    def rules(self) -> str:
        """The rules of CSS, one a line."""
        return "".join(f".{name}{{{style}}}\n" for style, name in self._names.items())


def _convert_declaration(declaration: str) -> str | None:
    """Return a declaration with the page's colours, and without the name of a font."""
    name, _, value = (part.strip() for part in declaration.partition(":"))
    if name in ("", "font-family"):
        return None
    if name == "font":
        found = re.search(r"[\d.]+px", value)
        return f"font-size:{found[0]}" if found else None
    return f"{name}:{COLOURS.get(value.lower(), value)}"


def convert_svg(document: str, label: str, classes: Classes) -> Any:
    """Return a document of matplotlib as an element for a page.

    :param document: the SVG, of matplotlib; its text is escaped again
    :param label: what a screen reader says; any text
    :param classes: receives the styles
    """
    from xml.etree.ElementTree import fromstring

    from markupsafe import Markup, escape

    root = fromstring(document)  # noqa: S314 -- written by matplotlib
    prefix = f"f{classes.plots}-"
    classes.plots += 1
    used = {name for element in root.iter() for value in element.attrib.values() for name in _REFERENCE.findall(value)}
    content = "".join(part for child in root for part in _write(child, used, prefix, classes))
    return Markup('<svg class="plot" role="img" aria-label="{}" viewBox="{}">{}</svg>').format(
        escape_text(label), escape(_round(root.attrib["viewBox"])), Markup(content)  # noqa: S704 -- escaped by _write
    )  # fmt: skip


def _write(element: Element, used: set[str], prefix: str, classes: Classes) -> Iterator[str]:
    from markupsafe import escape

    tag = _local_name(element.tag)
    style = element.attrib.get("style", "")
    if tag in _OMITTED or style == "fill: none":
        return
    written = [part for child in element for part in _write(child, used, prefix, classes)]
    text = (element.text or "").strip()
    if tag in ("g", "defs") and not written:
        return
    attributes = {_local_name(name): value for name, value in element.attrib.items()}
    if attributes.get("id") not in used:
        attributes.pop("id", None)
    kept = {name: _round(value) for name, value in attributes.items() if name in _KEPT}
    kept = {name: _rename(name, value, prefix) for name, value in kept.items()}
    if style:
        kept["class"] = classes.name(style)
    attributes_text = "".join(f' {name}="{escape(value)}"' for name, value in kept.items())
    yield f"<{tag}{attributes_text}>{escape(text)}"
    yield from written
    yield f"</{tag}>"


def _local_name(name: str) -> str:
    return name.rpartition("}")[2]


def _rename(name: str, value: str, prefix: str) -> str:
    """Return an attribute whose ids are those of one plot."""
    if name == "id":
        return prefix + value
    return _REFERENCE.sub(lambda found: f"#{prefix}{found[1]}", value) if "#" in value else value


def _round(text: str) -> str:
    """Return coordinates with two decimals, on one line."""
    return _NUMBER.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), " ".join(text.split()))
