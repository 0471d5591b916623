"""Pages of HTML: templates in which everything is escaped, and a policy that allows nothing but the page itself.

A page is one file. Its style, scripts and pictures are in it, and its Content-Security-Policy allows the style and the
scripts by their SHA-256 alone: a browser loads nothing, and runs nothing that a file may have brought in. Whatever a
template prints is escaped for HTML, and characters that are invisible or change the direction of text are printed as
backslash escapes, as in a terminal (FORMAT.md 10).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import logging
import os
import re
import unicodedata
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import sbformat
from sbformat.errors import escape, need_extra
from sbformat.rendering import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jinja2 import Environment

    from sbformat.catalogue.rows import Cell

_LONGEST_TEXT: Final = 2000  # characters of one text from a file; longer ones are truncated
_BREAK: Final = re.compile(
    r"(?<=[._/,:(])(?=[^\W\d])(?!(?<=\.)[a-z\d]{1,4}(?![\w.]))|(?<=[a-z]{2})(?=[A-Z][a-z]+(?![a-z-]))"
)
"""Where a long name can be broken: after a separator, but not before a suffix such as ``zip``; and before a capital
letter, but not in an environment such as ``CartPole-v1``."""
_REDUNDANT_IN_STYLE: Final = re.compile(r"/\*.*?\*/|(?<=[{};:,])\s+|\s+(?=[{}])|;(?=\s*\})", re.DOTALL)
_REDUNDANT_IN_SCRIPT: Final = re.compile(r"^\s*//.*\n|^\s+", re.MULTILINE)
"""Indentation and comments, which pages are written without."""
_LARGE: Final = 1e9  # rewards from which on powers of ten are written
_MOST_MARKS: Final = 3  # combining characters in a row that are printed: scripts of real languages need two or three

_BACKEND: Final = "MPLBACKEND"


def require_packages() -> None:
    """Refuse to begin without the packages of the extra ``report``."""
    try:
        import jinja2  # noqa: F401 -- whether it is there

        with quiet_matplotlib():
            import matplotlib as mpl  # noqa: F401 -- whether it is there
    except ImportError as error:
        raise need_extra(f"to write pages, the package {error.name} is needed", "report") from None


@contextlib.contextmanager
def quiet_matplotlib() -> Iterator[None]:
    """Keep matplotlib from logging to standard error, and from reading the name of a backend, which no page needs.

    It logs that it makes a cache of fonts, say, or that it may not write to the home folder.
    """
    logger = logging.getLogger("matplotlib")
    level, backend = logger.level, os.environ.pop(_BACKEND, None)
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if backend is not None:
            os.environ[_BACKEND] = backend


def render_page(
    template: str, context: dict[str, Any], *, title: str, style: str = "", scripts: Sequence[str] = ()
) -> str:
    """Return a page.

    :param template: the name of a template, which extends ``base.html.jinja``
    :param context: what it prints
    :param style: rules of CSS besides those of all pages
    :param scripts: programs of JavaScript, in which nothing comes from a file
    """
    rules = _REDUNDANT_IN_STYLE.sub("", read_template("style.css") + style)
    programs = [_REDUNDANT_IN_SCRIPT.sub("", script) for script in scripts]
    return _make_environment().get_template(template).render(
        **context, page_title=title, page_style=mark_safe(rules), page_scripts=list(map(mark_safe, programs)),
        policy=make_policy(rules, programs), version=sbformat.__version__,
    )  # fmt: skip


def make_policy(style: str, scripts: Sequence[str]) -> str:
    """Return the Content-Security-Policy of a page with this style and these scripts.

    >>> make_policy("p {}", [])
    "default-src 'none'; style-src 'sha256-...'; base-uri 'none'; form-action 'none'"
    """
    parts = ["default-src 'none'", f"style-src {_hash_source(style)}"]
    if scripts:
        parts.append(f"script-src {' '.join(map(_hash_source, scripts))}")
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def _hash_source(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def read_template(name: str) -> str:
    """Return a file beside the templates as text, with newlines as a browser reads them."""
    return files(__package__).joinpath("templates").joinpath(name).read_text("utf-8").replace("\r\n", "\n")


def mark_safe(text: str) -> Any:
    """Mark the project's own style, script or drawing as HTML that is not escaped."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 -- files of this package, in which no text of an archive is


@cache
def _make_environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(read_template), autoescape=True, undefined=StrictUndefined, finalize=_finalize,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"number": format_number, "size": format_size, "shape": format_shape, "breaks": allow_breaks}
    environment.tests["plain"] = is_plain
    return environment


def _finalize(value: Any) -> Any:
    """Return what a template prints for a value: text from a file as printable text."""
    if value is None:
        return ""
    return escape_text(value) if type(value) is str else value


def escape_text(text: str, limit: int = _LONGEST_TEXT) -> str:
    """Return text from a file as printable text: as :func:`sbformat.errors.escape`, and without piles of accents.

    Combining characters are drawn over the one before them, many of them over the lines above and below, and a browser
    cannot break a line between them: those beyond the first three in a row become backslash escapes.

    :param text: any text
    :param limit: number of characters after which it is truncated
    """
    printable = escape(text, limit)
    if printable.isascii():
        return printable
    made, row = [], 0
    for character in printable:
        row = row + 1 if unicodedata.category(character).startswith("M") else 0
        made.append(character if row <= _MOST_MARKS else character.encode("unicode_escape").decode("ascii"))
    return "".join(made)


def allow_breaks(text: str) -> Any:
    """Return a text from a file as HTML whose lines can be broken after dots, underscores and the like."""
    from markupsafe import Markup

    return Markup("<wbr>").join(_BREAK.split(_finalize(text)))


def format_number(value: float | None) -> str:
    """Return a number with few digits: ``12,345`` or ``0.000124``."""
    if value is None:
        return "\u2013"
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:.4g}"
    return text.replace("-", "\u2212", 1) if text.startswith("-") else text


def format_reward(value: float, decimals: int = 0) -> str:
    """Return a reward with two decimals at most; of less than 1, with four digits.

    >>> format_reward(1079.236), format_reward(500.0), format_reward(500.0, 2)
    ('1,079.24', '500', '500.00')

    :param decimals: that it has at least, so that those of a column are below each other
    """
    has_digits = 0 < abs(value) < 1 or abs(value) >= _LARGE
    text = f"{value:.4g}" if has_digits else f"{value + 0.0:,.2f}".rstrip("0").rstrip(".")
    text = text.replace("-", "\u2212", 1) if text.startswith("-") else text
    missing = decimals - count_decimals(text) if text[-1].isdigit() and "e" not in text else 0
    return text if missing <= 0 else f"{text}{'' if '.' in text else '.'}{'0' * missing}"


def count_decimals(text: str) -> int:
    """Return the number of digits after the point."""
    return len(text.partition("e")[0].partition(".")[2])


def is_plain(cell: Cell) -> bool:
    """Return whether the text of a cell is its number, apart from commas, so that a page contains it once."""
    try:
        return float(cell.text.replace(",", "")) == cell.number
    except ValueError:
        return False


def format_shape(shape: Sequence[int]) -> str:
    """Return a shape, with multiplication signs."""
    return " \u00d7 ".join(map(str, shape)) or "scalar"
