"""README and the pages of ``docs/`` are true: every block runs, in order and alone, and prints what the page shows.

``nox -s docs`` runs all pages, and their blocks alone; ``nox -s lint`` checks their types.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.helpers.bundled import ROOT
from tests.helpers.pages import list_commands, parse_blocks, read_page
from tests.helpers.run_pages import find_missing, list_chain, list_runnable, run_blocks
from tests.helpers.site_hooks import load_hook

if TYPE_CHECKING:
    from pathlib import Path

PAGES: Final = {
    path.relative_to(ROOT).as_posix(): read_page(path)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if path.parent.name != "export"  # test_export_pages.py
}
GENERATED: Final = {f"docs/{name}": render() for name, render in load_hook("site_pages").GENERATED.items()}
PAGES.update((name, parse_blocks(text)) for name, text in GENERATED.items())
ALONE: Final = [
    (name, number)
    for name, blocks in PAGES.items()
    for number in list_runnable(blocks)
    if list_chain(blocks, number) != blocks[: number + 1]  # otherwise it runs so in the order of the page
]
DEFAULT: Final = ("README.md", "docs/how-to/catalogue.md", "docs/how-to/old-agent.md")
"""The pages of the default run; ``nox -s docs`` runs all."""
PORTABLE: Final = "README.md"
"""The page whose commands are those of any shell; the others have some of a POSIX shell."""
MARKS: Final = re.compile(r"continues|exit \d+|first .+|needs [\w. -]+|skip .+")


def on_posix(name: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a test that runs the commands of a page."""
    reason = "the commands are those of a POSIX shell"
    return [pytest.mark.skipif(sys.platform == "win32" and name != PORTABLE, reason=reason)]


def test_the_commands_of_the_readme_are_those_of_any_shell() -> None:
    blocks = [block for block in PAGES[PORTABLE] if block.language == "console"]
    lines = [command.line for block in blocks for command in list_commands(block)]
    assert len(lines) > 4
    assert [line for line in lines if re.search(r"['$`\\|<>;*~(){}%^!]", line)] == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[*on_posix(name), *([] if name in DEFAULT else [pytest.mark.docs])])
        for name, blocks in PAGES.items()
        if list_runnable(blocks)
    ],
)
def test_the_blocks_of_a_page_run_in_order(name: str, tmp_path: Path) -> None:
    run_blocks(PAGES[name], tmp_path)


@pytest.mark.docs
@pytest.mark.parametrize(("name", "number"), [pytest.param(*case, marks=on_posix(case[0])) for case in ALONE])
def test_a_block_runs_alone(name: str, number: int, tmp_path: Path) -> None:
    blocks = PAGES[name]
    chain = list_chain(blocks, number)
    if number + 1 < len(blocks) and blocks[number + 1].language == "output":
        chain.append(blocks[number + 1])
    run_blocks(chain, tmp_path)


@pytest.mark.lint
@pytest.mark.parametrize("name", PAGES)
def test_the_marks_of_a_page_are_known_and_its_blocks_are_not_indented(name: str) -> None:
    text = GENERATED[name] if name in GENERATED else (ROOT / name).read_text("utf-8")
    assert [mark for block in PAGES[name] for mark in block.marks if not MARKS.fullmatch(mark)] == []
    assert len(re.findall(r"<!-- test:", text)) == sum(len(block.marks) for block in PAGES[name]), (
        "a mark without block"
    )
    assert not re.search(r"^ +```(?:console|python|output)$", text, re.MULTILINE), "an indented block is not run"


@pytest.mark.lint
def test_python_on_the_pages_passes_mypy_strict(tmp_path: Path) -> None:
    count = 0
    for name, blocks in PAGES.items():
        for number, block in enumerate(blocks):
            if block.language != "python" or find_missing(block):
                continue
            chain = [part for part in list_chain(blocks, number) if part.language == "python" and part.name is None]
            if not any(map(find_missing, chain)):
                path = tmp_path / f"{re.sub(r'[^a-z0-9]', '_', name)}_{number}.py"
                path.write_text("\n".join(part.text for part in chain), "utf-8")
                count += 1
    assert count > 20
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    run = subprocess.run(
        [*command, *map(str, sorted(tmp_path.glob("*.py")))], cwd=ROOT, capture_output=True, text=True, check=False,
        env={"MYPY_CACHE_DIR": str(tmp_path / "cache"), **os.environ, "MYPYPATH": str(ROOT)},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


FAULTS: Final = {
    "a command that fails": "```console\n$ sbformat validate nothing.zip\n```\n",
    "a command that prints something else": "```console\n$ sbformat --version\nsbformat 99\n```\n",
    "a pipe that fails": "```console\n$ echo a | grep b\n```\n",
    "a program that fails": "```python\n1 / 0\n```\n",
    "a wrong value": "```python\n1 + 1  # 3\n```\n",
    "a wrong output": "```python\nprint(1)\n```\n\n```output\n2\n```\n",
    "a command before the block fails": "<!-- test: first sbformat inspect a.zip -->\n```console\n$ sbformat -h\n```\n",
    "a wrong exit status": "<!-- test: exit 1 -->\n```console\n$ sbformat --version\n```\n",
}


@pytest.mark.parametrize("page", FAULTS.values(), ids=FAULTS)
def test_a_wrong_page_fails(page: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ZeroDivisionError)):
        run_blocks(parse_blocks(page), tmp_path)


RIGHT: Final = """
<!-- test: exit 1 -->
```console
$ sbformat inspect tests/archives/ppo-cartpole.zip | head -1
tests/archives/ppo-cartpole.zip
$ ls missing
...
```

`program.py`:

```python
print("from a file")
```

```console
$ python program.py
from a file
```

```python
value = 1
print(value)
```

```output
1
```

<!-- test: continues -->
```python
value + 1  # 2
```

<!-- test: skip it would fail -->
```console
$ false
```

<!-- test: needs a_module_that_does_not_exist -->
```console
$ false
```
"""


def test_a_right_page_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SBFORMAT_PAGES", raising=False)
    blocks = parse_blocks(RIGHT.replace("$ ls missing\n...", "$ test -e missing"))
    assert [block.language for block in blocks].count("console") == 4
    assert list_runnable(blocks) == [0, 2, 3, 5, 6, 7]
    assert list_chain(blocks, 5) == blocks[:6]
    assert list_chain(blocks, 3) == [blocks[1], blocks[3]]
    run_blocks(blocks, tmp_path)
