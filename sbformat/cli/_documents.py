r"""Tables for papers and pages: the printers of ``--format markdown`` and ``--format latex``.

In: the tables that :class:`~sbformat.cli._output.Plain` prints as text, with cells escaped for a terminal. Out: the
same cells in Markdown as GitHub reads it, or in LaTeX with the package booktabs. Text of a file stays text: in Markdown
it becomes no HTML, link, mention, formula or further cell, in LaTeX no command.

Markdown has three ways to write a character that means something: a backslash (``\*``), an entity (``&lt;``), and a
code span. GitHub looks for links, mentions, references, emoji and formulas after it has removed the backslashes; only a
code span prevents those, so that a cell with one of them is a code span whole.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sbformat.cli._output import Plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GITHUB: Final = r"(?i)[@#$]|://|www\.|\bgh-\d|:[\w+-]+:"
"""Where GitHub finds an address, a mention, a reference, a formula, a link or an emoji."""
_MARKDOWN: Final = r"[\\`*\[\]|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
"""An underscore within a word means nothing: ``mean_reward`` stays readable."""
_BLOCK: Final = r"^(\d*)([-+>.)])"
"""What begins a list or a quotation where a line begins."""
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", "~": "&#126;"})

_LATEX: Final = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\symbol{34}",
})  # fmt: skip
_LIGATURE: Final = r"([-'`,?!])(?=[-'`,])"
"""Characters that TeX joins with the next one: two hyphens are a dash."""
_OPTION: Final = r"^[\[*]"
"""What a row would begin with, and the command before it would take as an option of its own."""
_NUMBER: Final = r"-?(?:\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|inf(?:inity)?|nan)"
_NUMBERS: Final = rf"(?i)({_NUMBER})(?: \u00b1 ({_NUMBER}))?( \(n=\d+\))?"
"""The cell of a number, or of a mean with its deviation and the number of values."""
_WORDS: Final = {"inf": r"\infty", "infinity": r"\infty", "nan": r"\mathrm{NaN}"}


class _Document(Plain):
    """Blocks with an empty line between them."""

    def _print_block(self, lines: Sequence[str]) -> None:
        for line in (*([""] if self._has_printed else []), *lines):
            super().line(line)


class Markdown(_Document):
    """Tables of GitHub's Markdown. The only table of a command has no title."""

    def line(self, *parts: str, style: str = "") -> None:  # noqa: ARG002 -- for terminals
        """Print a paragraph."""
        self._print_block([re.sub(_BLOCK, r"\1\\\2", escape_markdown("".join(parts)))])

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Print a table whose cells are already escaped for a terminal; one without a header has an empty one."""
        if self._has_printed:
            self._print_block([f"**{escape_markdown(title)}**"])
        cells = [list(map(escape_markdown, row)) for row in (header or [""] * len(rows[0]), *rows)]
        widths = [max(3, *map(len, column)) for column in zip(*cells)]
        cells.insert(1, ["-" * (width - 1) + (":" if at in right else "-") for at, width in enumerate(widths)])
        lines = []
        for row in cells:
            places = enumerate(zip(row, widths))
            parts = [cell.rjust(width) if at in right else cell.ljust(width) for at, (cell, width) in places]
            lines.append(f"| {' | '.join(parts)} |")
        self._print_block(lines)


def escape_markdown(text: str) -> str:
    r"""Return a text of one line so that it is read as itself, in a cell or a paragraph.

    >>> escape_markdown("a|b <i> [x](y)"), escape_markdown("me@example.org")
    ('a\\|b &lt;i> \\[x\\](y)', '`me@example.org`')
    """
    text = text.strip()
    if re.search(_GITHUB, text):
        fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
        space = " " * (text[0] == "`" or text[-1] == "`")
        code = text.replace("|", r"\|")
        return f"{fence}{space}{code}{space}{fence}"
    return re.sub(_MARKDOWN, r"\\\g<0>", text.translate(_ENTITIES))


class Latex(_Document):
    """A ``tabular`` for each table; lines of text and titles are comments."""

    def line(self, *parts: str, style: str = "") -> None:  # noqa: ARG002 -- for terminals
        """Print a comment."""
        self._print_block([f"% {''.join(parts).strip()}"])

    def draw(self, title: str, header: Sequence[str], rows: list[list[str]], right: Sequence[int]) -> None:
        """Print a table whose cells are already escaped for a terminal."""
        body = [
            [_render_number(cell) if at in right else escape_latex(cell) for at, cell in enumerate(row)] for row in rows
        ]
        places = "".join("r" if at in right else "l" for at in range(len(rows[0])))
        lines = [f"% {title}", rf"\begin{{tabular}}{{{places}}}", r"\toprule"]
        lines += [_join_latex(map(escape_latex, header)), r"\midrule"] if header else []
        self._print_block([*lines, *map(_join_latex, body), r"\bottomrule", r"\end{tabular}"])

    def _print_block(self, lines: Sequence[str]) -> None:
        super()._print_block([*([] if self._has_printed else [r"% \usepackage{booktabs}"]), *lines])


def escape_latex(text: str) -> str:
    r"""Return a text of one line so that it is typeset as itself, in a cell.

    >>> escape_latex("mean_reward"), escape_latex("[8, 8]"), escape_latex("a--b")
    ('mean\\_reward', '{[}8, 8]', 'a-{}-b')
    """
    typeset = re.sub(_LIGATURE, r"\1{}", text.strip().translate(_LATEX))
    return re.sub(_OPTION, r"{\g<0>}", typeset)


def _render_number(text: str) -> str:
    """Return the cell of a number: a formula if it has a sign, an exponent or a deviation."""
    found = re.fullmatch(_NUMBERS, text)
    if found is None:
        return escape_latex(text)
    number, deviation, count = found.groups("")
    if not deviation and re.fullmatch(r"[\d,.]+", number):
        return text
    formula = r" \pm ".join(map(_typeset_number, filter(None, (number, deviation))))
    return f"${formula}${count}"


def _typeset_number(number: str) -> str:
    sign, digits = "-" * number.startswith("-"), number.lower().removeprefix("-")
    if digits in _WORDS:
        return sign + _WORDS[digits]
    mantissa, _, exponent = digits.partition("e")
    power = rf" \times 10^{{{int(exponent)}}}" if exponent else ""
    return f"{sign}{mantissa.replace(',', '{,}')}{power}"


def _join_latex(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"
