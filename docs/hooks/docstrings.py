"""Makes Markdown of the docstrings, which are reST as Sphinx reads it: an extension of griffe for mkdocstrings.

``:param name:`` and the other fields are read by griffe itself. What is converted here::

    :class:`~sbformat.Serialized`, :func:`read`   ->  links to public names, code for other names
    a paragraph that ends in ``::``, indented     ->  a fenced block
    >>> archive.data["gamma"]                     ->  a fenced block
    FORMAT.md 6.2                                 ->  a link to the section
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from typing import Any, Final

import griffe

import sbformat

sys.path.insert(0, os.path.dirname(__file__))  # griffe loads this module by path
from format_sections import DOCUMENTS, list_sections

_ROLE: Final = re.compile(r":(?:class|func|meth|mod|attr|data|exc|type):`(~?)([^`]+)`")
_LITERAL: Final = re.compile(r"^(.*?)::\n\n((?:(?: {4}.*)?\n)*(?: {4}.*)\n?)", re.MULTILINE)
_DOCTEST: Final = re.compile(r"^>>> .*(?:\n(?!\s*$).+)*", re.MULTILINE)
_SECTION: Final = re.compile(rf"\b((?:{'|'.join(DOCUMENTS)})\.md) (\d+(?:\.\d+)?)((?:(?:, | and | to )\d+(?:\.\d+)?)*)")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_PYTHON: Final = re.compile(r"import |[\w.\[\]\"']+ = |[\w.]+\(|for |with |try:|class |#")


def link_name(found: re.Match[str]) -> str:
    """Return a link to a public name, or the name as code."""
    is_short, name = found[1], found[2].removeprefix("sbformat.")
    shown = name.rpartition(".")[2] if is_short else found[2]
    if name.partition(".")[0] in sbformat.__all__:
        return f"[`{shown}`][sbformat.{name}]"
    return f"`{shown}`"


def fence_literal(found: re.Match[str]) -> str:
    """Return an indented literal block as a fenced one."""
    text = textwrap.dedent(found[2]).strip("\n")
    language = "python" if _PYTHON.match(text) else "text"
    before = f"{found[1]}:\n\n" if found[1].strip() else ""
    return f"{before}```{language}\n{text}\n```\n"


def link_section(found: re.Match[str]) -> str:
    """Return links to the sections of the specification that a sentence cites."""
    sections = list_sections()
    others = _NUMBER.sub(lambda number: f"[{number[0]}][{sections[number[0]].anchor}]", found[3])
    return f"[{found[1]} {found[2]}][{sections[found[2]].anchor}]{others}"


def convert_docstring(text: str) -> str:
    """Convert a docstring."""
    text = _LITERAL.sub(fence_literal, text)
    text = _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
    return _SECTION.sub(link_section, _ROLE.sub(link_name, text))


class MarkdownDocstrings(griffe.Extension):
    """Converts every docstring when it is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ARG002 -- griffe passes more
        if obj.docstring is not None:
            obj.docstring.value = convert_docstring(obj.docstring.value)
