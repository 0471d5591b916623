"""README and pages are complete: commands, functions, extras; and the specification has the tables of the code."""

from __future__ import annotations

import ast
import re
from inspect import isfunction
from typing import TYPE_CHECKING

import pytest

import sbformat
from conformance.runner.vectors import decode_file
from sbformat.cli import ALIASES, COMMANDS
from tests.helpers import policy_vectors
from tests.helpers.bundled import ROOT
from tests.helpers.pages import read_page
from tests.helpers.site_hooks import load_hook

if TYPE_CHECKING:
    from pathlib import Path

README = (ROOT / "README.md").read_text("utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
PAGES = {path: path.read_text("utf-8") for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]}
SITE = "https://sbformat.github.io/sbformat/"


def test_the_noxfile_runs_the_commands_of_the_readme() -> None:
    commands = re.findall(r"^\$ (.*)$", README, re.MULTILINE)
    strings = {
        node.value
        for node in ast.walk(ast.parse((ROOT / "noxfile.py").read_text("utf-8")))
        if isinstance(node, ast.Constant)
    }
    assert commands[:3] == [
        "git clone https://github.com/sbformat/sbformat && cd sbformat",
        'pip install ".[cli]" && sbformat inspect tests/archives/ppo-cartpole.zip',
        'pip install -e ".[test]" && python -m pytest -n auto',
    ]
    assert set(commands[1:3]) <= strings


def test_the_readme_is_short_and_its_links_are_absolute() -> None:
    assert len(README.splitlines()) <= 140
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_lines_of_the_home_page_fit_a_window() -> None:
    lines = PAGES[ROOT / "docs" / "index.md"].splitlines()
    assert [line for line in lines if len(line) > 90 and not line.startswith("|")] == []


@pytest.mark.lint
def test_the_links_of_the_readme_lead_to_pages_and_files() -> None:
    pages = load_hook("site_pages").list_pages() | {"try.md"}
    for link in re.findall(r"https://[^)\s>]+", README):
        path = link.partition("#")[0]
        if path.startswith(SITE):
            page = path.removeprefix(SITE).rstrip("/")
            assert {f"{page}.md", f"{page}/README.md"} & pages or not page, link
        elif "/blob/main/" in path or "raw.githubusercontent.com" in path:
            assert (ROOT / path.partition("/main/")[2]).exists(), link


def test_the_readme_names_the_supported_pythons() -> None:
    versions = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
    assert f"[![Python {versions[0]} to {versions[-1]}]" in README
    assert f"badge/python-{versions[0]}%20to%20{versions[-1]}-" in README


def test_the_readme_has_the_commands_of_the_help() -> None:
    header, _, *rows = read_rows(README.partition("## Commands\n\n")[2].partition("\n\n")[0])
    assert header == ["", "command", "what it does"]
    named = [re.findall(r"`(\w+)`", cell) for _, cell, _ in rows]
    assert [name for names in named for name in names if name not in ALIASES] == list(COMMANDS)
    assert [name for names in named for name in names if name in ALIASES] == list(ALIASES)
    group = ""
    for (title, _, text), (name, *others) in zip(rows, named):
        group = title or group
        assert COMMANDS[name][1] == group, name
        if set(others) <= set(ALIASES):  # other rows are about two commands
            assert text.replace("`", "") == COMMANDS[name][2], name


def test_every_command_is_shown_on_a_page() -> None:
    shown = {
        name
        for path in PAGES
        for block in read_page(path)
        for name in re.findall(r"^\$ (?:.* )?sbformat (\w+)", block.text, re.MULTILINE)
    }
    assert {*COMMANDS, *ALIASES} - shown == set()


def test_every_public_function_is_shown_on_a_page() -> None:
    code = re.sub(r"^:::.*$", "", "\n".join(PAGES.values()), flags=re.MULTILINE)
    names = set(re.findall(r"\bsbformat\.(\w+)", code)) | set(re.findall(r"`(\w+)(?:\(.*?\))?`", code))
    names |= set(", ".join(re.findall(r"^from sbformat import (.*)$", code, re.MULTILINE)).split(", "))
    functions = {name for name in dir(sbformat) if isfunction(getattr(sbformat, name))}
    assert len(functions) > 20
    assert functions - names == set()


def test_the_home_page_has_verdicts_of_the_comparison() -> None:
    comparison = read_rows(PAGES[ROOT / "docs" / "comparison.md"])
    header, _, *rows = read_rows(PAGES[ROOT / "docs" / "index.md"].partition("| scanner |")[2])
    files = ("agent of SB3 2.9", "command in `data`", "command in `vecnormalize.pkl`", "the same, through gymnasium")
    assert header[1:] == list(files[1:])
    scanners = next(row for row in comparison if row[0] == "file")[2:]
    verdicts = {row[0]: dict(zip(scanners, row[2:])) for row in comparison}
    shown = {row[0].strip("*"): row[1:] for row in rows[: len(scanners)]}
    assert shown == {name: [verdicts[file][name] for file in files] for name in scanners}


def read_rows(text: str) -> list[list[str]]:
    """Read the rows of the tables of a text; the first line may begin within a row."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.endswith("|")]


def test_every_extra_for_users_is_on_the_page_of_installation() -> None:
    extras = re.search(r"^\[project.optional-dependencies\]\n(.*?)\n\[", PYPROJECT, re.MULTILINE | re.DOTALL)
    assert extras is not None
    names = set(re.findall(r"^(\w+) = ", extras[1], re.MULTILINE)) - {
        "test",
        "lint",
        "docs",
        "interop",
        "fuzz",
        "bench",
    }
    assert len(names) > 5
    page = PAGES[ROOT / "docs" / "install.md"]
    assert {name for name in names if f"| `{name}` |" not in page} == set()


def test_every_section_of_the_format_that_is_cited_is_there() -> None:
    hook = load_hook("format_sections")
    sections = hook.list_sections()
    cited = re.compile(rf"\b({'|'.join(hook.DOCUMENTS)})\.md ((?:\d+(?:\.\d+)?(?:, | and | to )?)+)")
    folders = ("sbformat", "conformance", "tests", "docs", "benchmarks")
    paths = (
        path for folder in folders for suffix in ("py", "js", "md") for path in (ROOT / folder).rglob(f"*.{suffix}")
    )
    for path in paths:
        for document, numbers in cited.findall(path.read_text("utf-8")):
            for number in re.findall(r"\d+(?:\.\d+)?", numbers):
                assert number in sections, f"{path.name} cites {document}.md {number}"
                assert sections[number].document == document, f"{path.name} cites {document}.md {number}"
    within = {number for section in sections.values() for number in re.findall(r"(?<![\d.])19\.\d+", section.text)}
    assert len(within) > 5
    assert within <= sections.keys()


def test_the_documents_of_the_format_are_listed_with_their_sections() -> None:
    hook = load_hook("format_sections")
    found = set((ROOT / "schema").glob("*.md"))
    assert found == {ROOT / "schema" / f"{name}.md" for name in hook.DOCUMENTS}
    front = (ROOT / "schema" / "FORMAT.md").read_text("utf-8").partition("\n## 1 ")[0]
    listed = {row[0]: row[1] for row in read_rows(front) if len(row) > 2}
    wanted: dict[str, list[str]] = {}
    for number, section in hook.list_sections().items():
        if "." not in number:
            wanted.setdefault(f"[{section.document}.md]({section.document}.md)", []).append(number)
    for link, numbers in wanted.items():
        shown = numbers[0] if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        assert listed[link] == shown, link


def test_the_lines_of_the_format_are_short() -> None:
    paths = [*(ROOT / "schema").glob("*.md"), ROOT / "conformance" / "README.md"]
    found = [
        (path.name, at)
        for path in paths
        for at, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > 120
    ]
    assert found == []


def read_table(section: str, number: int = 0) -> list[list[str]]:
    """Return the cells of a table of the specification, without its two first lines."""
    body = load_hook("format_sections").list_sections()[section].text
    table = re.findall(r"(?:^\|.*\n)+", body, re.MULTILINE)[number]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()[2:]]
    return [[cell.strip().replace(r"\|", "|") for cell in row] for row in rows]


def test_the_operators_of_the_format_are_those_of_the_code() -> None:
    from sbformat.policies.operators import OPERATORS

    found = {}
    for name, operator in OPERATORS.items():
        least, most = operator.operands
        several = f"{least} or {most}" if most == least + 1 else f"{least} or more"
        attributes = ", ".join(f"`{attribute}`" for attribute in sorted(operator.attributes))
        found[f"`{name}`"] = [str(least) if least == most else several, attributes, operator.meaning]
    assert {name: cells for name, *cells in read_table("19.2")} == found


def test_the_activations_of_the_format_are_those_of_the_code() -> None:
    from sbformat.nets.layers import ACTIVATIONS, FLATTEN_LAYER

    known = {name for _, name in (*ACTIVATIONS, FLATTEN_LAYER)}
    named = {name for row in read_table("19.5") for name in re.findall(r"`(\w+)`", row[0])}
    assert known - named == {"GLU", "Softmax2d"}
    assert named <= known


def test_the_outputs_of_the_format_are_those_of_the_code() -> None:
    rows = read_table("19.7")
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row[2])}
    found = set()
    for name in policy_vectors.ARCHIVES:
        if "-sb2-" not in name:
            found |= set(sbformat.policy_graph(decode_file(policy_vectors.VECTORS[name])).outputs)
    assert found == documented | {"action"}


def test_every_limit_is_in_the_format() -> None:
    from sbformat import Limits

    text = load_hook("format_sections").list_sections()["8"].text
    for name in Limits._fields:
        assert f"`{name}`" in text, name


def list_schema() -> list[Path]:
    return [path for path in (ROOT / "schema").rglob("*.*") if path.is_file() and path.suffix != ".pyc"]


def test_the_text_names_no_machine_and_no_registry() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(ROOT / "sbformat").rglob("*.py"), *list_schema()]:
        text = path.read_text("utf-8")
        assert not re.search(r"(?:/home|/root|/work)/|pypi\.org|files\.pythonhosted", text), path
