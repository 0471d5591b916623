"""Runs the blocks of a page as a reader would: commands, programs, and what they print.

What is run, and compared with the page:

- ``console``: each line that begins with ``$``, by ``/bin/sh``. The lines after it are what it prints on a terminal,
  where ``...`` is any number of lines; a command without such lines may print anything.
- ``python``: the block as a program. An expression with a comment on its line, ``archive.sha256()  # '5f2c'``, has that
  ``repr``, if the comment begins as a value does.
- ``output``, after a Python block: what that block prints.
- A block of any language after a line with a file name in backquotes and a colon is written to that file.

Other languages (``text``, ``yaml``, ``toml``) are not run, and neither are commands that install or download
(``INSTALLERS``); of ``pip install ... && sbformat ...`` the second part is.

Every block runs after all blocks before it in one folder, and, unless it needs them, alone in an empty one. The folder
has a link to the ``tests`` of the repository, for ``tests/archives/``. A comment on the line before a block, which the
page does not show, changes that:

- ``<!-- test: continues -->``: the block needs the blocks before it, and is not run alone. Blocks of Python then share
  their names.
- ``<!-- test: first sbformat ... -->``: a command that runs before the block, and makes a file that the page has not.
- ``<!-- test: exit 1 -->``: the last command ends with this status instead of 0.
- ``<!-- test: needs pandas docker -->``: skipped unless these modules or programs are installed. Modules that a block
  of Python imports need no mark. With the environment variable ``SBFORMAT_PAGES=all`` a missing one is a failure.
- ``<!-- test: skip it downloads -->``: never run; the reason is for readers of the source.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import warnings
from typing import TYPE_CHECKING, Any, Final

import pytest

from sbformat.cli import main
from tests.helpers.pages import Block, Command, Shell, assert_same_text, list_commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

INSTALLERS: Final = ("pip", "npm", "git", "curl", "wget", "pre-commit", "docker", "apt-get", "huggingface-cli")
"""Commands that are not run: they install or download."""
PROGRAMS: Final = {"chromium", "docker", "gcc", "java", "node", "npm", "pre-commit"}
"""What pages may need and that ``SBFORMAT_PAGES=all`` does not require."""
VALUE: Final = re.compile(r"['\"(\[{<\d-]|True\b|False\b|None\b|array\(|b'")
"""How a comment begins that is the value of the expression before it."""
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"$`]*\"")
_SHELL: Final = re.compile(r"[|<>;&$`*?~(){}]")


def list_chain(blocks: Sequence[Block], index: int) -> list[Block]:
    """Return the blocks that a block needs to run alone, and itself: all before it if it continues them, else files."""
    block = blocks[index]
    if "continues" in block.marks:
        return list(blocks[: index + 1])
    return [*(before for before in blocks[:index] if before.name is not None), block]


def list_runnable(blocks: Sequence[Block]) -> list[int]:
    """Return the numbers of the blocks that have something to run."""
    return [
        number for number, block in enumerate(blocks)
        if (block.language == "python" and block.name is None) or (block.language == "console" and _list_lines(block))
    ]  # fmt: skip


def _list_lines(block: Block) -> list[Command]:
    found = []
    for command in list_commands(block):
        first, _, second = command.line.partition(" && ")
        if first.split()[0] not in INSTALLERS:
            found.append(command)
        elif second.startswith("sbformat "):
            found.append(command._replace(line=second))
    return found


def find_missing(block: Block) -> list[str]:
    """Return the modules and programs that a block needs and that are not installed."""
    needed = {name for mark in block.marks if mark.startswith("needs ") for name in mark.split()[1:]}
    modules = list_imports(block.text) if block.language == "python" else set()
    return sorted(
        {name for name in modules if importlib.util.find_spec(name) is None}
        | {name for name in needed if importlib.util.find_spec(name) is None and shutil.which(name) is None}
    )


def list_imports(code: str) -> set[str]:
    """Return the top-level modules that a program imports."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def run_blocks(blocks: Sequence[Block], folder: Path) -> None:
    """Run blocks in order in an empty folder.

    :raises AssertionError: if a command or program fails, or prints something else than the page shows
    """
    runner = PageRunner(folder)
    with change_folder(folder):
        for block in blocks:
            runner.run_block(block)
    if runner.skipped and not runner.checked:
        pytest.skip("; ".join(sorted(runner.skipped)))


@contextlib.contextmanager
def change_folder(folder: Path) -> Iterator[None]:
    """Work in a folder, as ``contextlib.chdir`` of Python 3.11."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class PageRunner(Shell):
    """Runs blocks; knows what the block before has defined and printed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.checked = 0
        self.skipped: set[str] = set()
        self._scope: dict[str, Any] = {}
        self._printed: str | None = None
        self._was_skipped = False

    def run_block(self, block: Block) -> None:
        """Run a block, or note why it is skipped."""
        follows = block.language == "output" or (block.language == "python" and "continues" in block.marks)
        missing = find_missing(block)
        reasons = [f"{name} is not installed" for name in missing] + [m for m in block.marks if m.startswith("skip ")]
        if set(missing) - PROGRAMS and os.environ.get("SBFORMAT_PAGES") == "all":
            pytest.fail(f"a page needs {', '.join(missing)}:\n{block.text}")
        is_skipped = bool(reasons) or (follows and self._was_skipped)
        if block.language in ("python", "output"):
            self._was_skipped = is_skipped
        if is_skipped:
            self.skipped |= set(reasons)
        elif block.name is not None:
            self.write(block)
        elif block.language == "console":
            self._run_console(block)
        elif block.language == "python":
            self._run_python(block, continues="continues" in block.marks)
        elif block.language == "output":
            assert self._printed is not None, f"no program before the output\n{block.text}"
            assert_same_text(self._printed, block.text, "the program")

    def _run_console(self, block: Block) -> None:
        expected = [int(mark.split()[1]) for mark in block.marks if mark.startswith("exit ")]
        for line in (mark.removeprefix("first ") for mark in block.marks if mark.startswith("first ")):
            assert self.run_line(line)[0] == 0, line
        commands = _list_lines(block)
        for number, command in enumerate(commands):
            status, printed = self.run_line(command.line)
            wanted = expected[0] if expected and number == len(commands) - 1 else 0
            assert status == wanted, f"{command.line}\nexit status {status}, expected {wanted}\n{printed}"
            if command.shown.strip():
                assert_same_text(printed, command.shown, command.line)
            self.checked += 1

    def run_line(self, line: str) -> tuple[int, str]:
        """Run a command; return its exit status and what it prints on a terminal, errors included.

        A plain ``sbformat`` command runs in this process, which is ten times faster.
        """
        if line.startswith("sbformat ") and not _SHELL.search(_QUOTED.sub("", line)):
            return run_main(shlex.split(line)[1:])
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.STDOUT, check=False, timeout=600,
        )  # fmt: skip
        return done.returncode, done.stdout

    def _run_python(self, block: Block, *, continues: bool) -> None:
        if not continues:
            self._scope = {"__name__": "__main__"}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries; what sbformat warns of has its own tests
            exec(compile(block.text, "page", "exec", dont_inherit=True), self._scope)  # noqa: S102 -- the page's own code
        self._printed = printed.getvalue()
        for expression, comment in re.findall(r"^(\S.*?)\s+# (.+)$", block.text, re.MULTILINE):
            if VALUE.match(comment) and is_expression(expression):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    shown = repr(eval(expression, self._scope))  # noqa: S307 -- the page's own code
                assert_same_text(shown, comment, expression)
        self.checked += 1


def run_main(arguments: list[str]) -> tuple[int, str]:
    """Run the command line in this process; return the exit status and both streams as a terminal shows them."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            status = main(arguments)
        except SystemExit as stop:  # of argparse
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return status, printed.getvalue()


def is_expression(text: str) -> bool:
    """Whether a line is an expression, not a statement."""
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True
