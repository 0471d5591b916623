"""Tables as Markdown and LaTeX: a renderer shows the text of each cell, whatever it is."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat.cli import main
from sbformat.cli._documents import Latex, Markdown, escape_latex, escape_markdown
from tests.helpers.bundled import PPO, ROOT, SAC, with_data

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
HOSTILE = (
    "a|b", "\\|", "\\", "||", "`", "a`b``c", "`|`@", "<script>", "<!-- x", "&lt;", "&#124;", "[x](y)", "![x](y)",
    "[8, 8]", "*b*", "_i_", "a__b", "~~x~~", "---", "- x", "# x", "> x", "https://a.b/c|d", "me@a.b", "$x$", "%", "#1",
    "^^M", "{", "}", "\\end{tabular}", "\\input{x}", "*", "--", "''", "?`", '"a', "\u00e9 \u2192 \u4e2d",
)  # fmt: skip
MARKS = "\\|`<>*_~[]()!&;#@$:/.w-+={}^%,?'\"a1 \u00e9"
TEXTS = st.text(st.sampled_from(MARKS), min_size=1).map(str.strip).filter(bool)


class Stream(io.StringIO):
    encoding = "utf-8"


def draw(kind: type[Markdown | Latex], rows: Sequence[Sequence[Any]], **options: Any) -> str:
    stream = Stream()
    kind(stream).table("a title", ("name", "|_x_"), rows, **options)
    return stream.getvalue()


# -- Markdown -----------------------------------------------------------------------------------------


def read_markdown(text: str) -> list[list[str]]:
    """Return the cells of tables as a renderer shows them; anything but text and code fails the test."""
    parser = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    rows: list[list[str]] = []
    for token in parser.parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            assert {part.type for part in token.children} <= {"text", "code_inline", "text_special"}
            rows[-1].append("".join(part.content for part in token.children))
        else:
            assert re.fullmatch("(table|thead|tbody|tr|th|td)_(open|close)", token.type)
    return rows


def test_a_renderer_of_markdown_shows_the_cells() -> None:
    rows = [[text, "end"] for text in HOSTILE]
    assert read_markdown(draw(Markdown, rows)) == [["name", "|_x_"], *rows]


@given(st.lists(TEXTS, min_size=1))
def test_any_text_is_one_cell_of_markdown(texts: list[str]) -> None:
    assert read_markdown(draw(Markdown, [[text, 1] for text in texts]))[1:] == [[text, "1"] for text in texts]


@pytest.mark.parametrize(
    "text", ["http://a.b", "WWW.a.b", "me@a.b", "@me", "#1", "GH-1", "$x$", ":smile:", "`@`", "a ``|`` @"]
)
def test_what_github_would_make_a_link_or_a_formula_of_is_code(text: str) -> None:
    assert re.fullmatch(r"(`+)( ?).*[^`]?\2\1", escape_markdown(text))
    assert read_markdown(draw(Markdown, [[text, ""]]))[1] == [text, ""]


@pytest.mark.parametrize(
    "text", ["- x", "+ x", "1. x", "2) x", "> x", "# x", "---", "***", "| x |", "```", "~~~", "<b>"]
)
def test_a_line_of_text_is_a_paragraph_of_markdown(text: str) -> None:
    parser = pytest.importorskip("markdown_it").MarkdownIt("commonmark")
    stream = Stream()
    Markdown(stream).line(text)
    begin, inline, end = parser.parse(stream.getvalue())
    assert (begin.type, end.type) == ("paragraph_open", "paragraph_close")
    assert "".join(part.content for part in inline.children) == text


def test_numbers_are_aligned_to_the_right_in_markdown() -> None:
    assert draw(Markdown, [("a", 1.5), ("b", -20)], right=[1]).splitlines() == [
        "| name | \\|\\_x\\_ |", "| ---- | ------: |", "| a    |     1.5 |", "| b    |     -20 |",
    ]  # fmt: skip


# -- LaTeX --------------------------------------------------------------------------------------------

COMMANDS = {
    "textbackslash{}": "\\", "textasciitilde{}": "~", "textasciicircum{}": "^", "textless{}": "<", "textgreater{}": ">",
    "textbar{}": "|", "symbol{34}": '"', **{char: char for char in "{}$&#_%"},
}  # fmt: skip
TOKEN = re.compile(r"\\([a-z]+\{\d*\}|.)|(\{\})|^\{([\[*])\}|([^\\{}$&#_%~^])")


def read_latex(text: str) -> str:
    """Return what TeX shows of a text; a character that TeX has another meaning for fails the test."""
    assert not re.search(r"--|''|``|[?!]`|,,|^[\[*]", text)
    found, place = "", 0
    while place < len(text):
        token = TOKEN.match(text, place)
        assert token is not None, text[place:]
        found += COMMANDS[token[1]] if token[1] else token[3] or token[4] or ""
        place = token.end()
    return found


@given(TEXTS | st.sampled_from(HOSTILE))
def test_tex_shows_the_text_of_a_cell(text: str) -> None:
    assert read_latex(escape_latex(text)) == text


def test_numbers_are_formulas_in_latex() -> None:
    numbers = {
        "12": "12", "1,000": "1,000", "-1.5": "$-1.5$", "-1,000": "$-1{,}000$", "1e-05": r"$1 \times 10^{-5}$",
        "-2.5e+20": r"$-2.5 \times 10^{20}$", "nan": r"$\mathrm{NaN}$", "-inf": r"$-\infty$",
        "500.0 \u00b1 12.3": r"$500.0 \pm 12.3$", "-1 \u00b1 inf (n=3)": r"$-1 \pm \infty$ (n=3)",
        "linear 1 -> 0": r"linear 1 -\textgreater{} 0",
    }  # fmt: skip
    lines = draw(Latex, [("-1", number) for number in numbers], right=[1]).splitlines()
    assert lines[:5] == [
        r"% \usepackage{booktabs}", "% a title", r"\begin{tabular}{lr}", r"\toprule", r"name & \textbar{}\_x\_ \\",
    ]  # fmt: skip
    assert lines[5:] == [
        r"\midrule", *(rf"-1 & {formula} \\" for formula in numbers.values()), r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip


def test_latex_compiles(tmp_path: Path) -> None:
    found = shutil.which("kpsewhich") and subprocess.run(["kpsewhich", "booktabs.sty"], stdout=-1, check=False).stdout
    if shutil.which("pdflatex") is None or not found:
        pytest.skip("needs pdflatex and booktabs")
    texts = [text for text in HOSTILE if text.isascii()]
    stream = Stream()
    printer = Latex(stream)
    printer.line("\\end{document}")
    for title in texts:
        printer.table(title, ["[a]", "_"], [[text, "-1e-05 \u00b1 inf"] for text in texts], right=[1])
    beginning = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "a.tex").write_text(f"{beginning}{stream.getvalue()}\\end{{document}}\n", "utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "a.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


# -- commands -----------------------------------------------------------------------------------------


def test_inspect_has_the_columns_and_rows_of_its_text(tmp_path: Path, capsys: Capture) -> None:
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK")
    paths = [PPO, SAC, broken]
    assert main(["inspect", *map(str, paths)]) == 2
    text = capsys.readouterr().out.splitlines()
    assert main(["inspect", *map(str, paths), "--format", "markdown"]) == 2
    out, err = capsys.readouterr()
    header, *rows = read_markdown(out)
    assert (header, err.count("sbformat: ")) == (text[1].split(), 1)
    assert [[cell for cell in row if cell] for row in rows] == [line.split() for line in text[2:4]]
    assert main(["inspect", str(PPO), "--format", "latex", "--columns", "gamma,algorithm"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        r"\begin{tabular}{lrl}", r"\toprule", r"file & gamma & algorithm \\", r"\midrule", rf"{PPO} & 0.99 & PPO \\",
        r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip


def test_diff_has_a_table_for_each_entry(tmp_path: Path, capsys: Capture) -> None:
    other = tmp_path / "other.zip"
    other.write_bytes(with_data(lambda data: data.update({"gamma": 0.5, "a|<b>": "[x](y)"})))
    assert main(["diff", str(PPO), str(other), "--format", "markdown"]) == 1
    line, title, *table = capsys.readouterr().out.rstrip().split("\n\n")
    assert (line, title, len(table)) == (f"{PPO} -> {other}: 2 differences", "**data**", 1)
    assert read_markdown(table[0]) == [
        ["where", "what", "how"], ["/gamma", "value", "0.99 became 0.5"], ["/a|<b>", "added", 'is now "[x](y)"'],
    ]  # fmt: skip
    assert main(["diff", str(PPO), str(other), "--format", "latex"]) == 1
    head, table[0] = capsys.readouterr().out.split("\n\n")
    assert head.splitlines() == [r"% \usepackage{booktabs}", f"% {line}"]
    assert table[0].splitlines()[5] == r"/gamma & value & 0.99 became 0.5 \\"
    assert main(["diff", str(PPO), str(PPO), "--format", "markdown"]) == 0
    assert capsys.readouterr().out == f"{PPO} -> {PPO}: equal\n"


def test_documents_are_utf_8_with_line_feeds_whatever_the_system_has(tmp_path: Path) -> None:
    path = tmp_path / "g\u00f6\u00f6d.zip"
    path.write_bytes(PPO.read_bytes())
    for name in ("markdown", "latex"):
        done = subprocess.run(
            [sys.executable, "-m", "sbformat", "inspect", str(path), "--format", name, "--columns", "seed"],
            env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, cwd=ROOT, check=True,
        )  # fmt: skip
        assert (path.name.encode() in done.stdout, b"\r" in done.stdout) == (True, False)
