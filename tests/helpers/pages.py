"""Pages of documentation whose programs are run: files, commands in their order, and what these print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.helpers.bundled import ROOT

FENCE: Final = re.compile(
    r"((?:^<!-- test: .*? -->\n+)*)(?:^`([\w./-]+)`:\n\n)?^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
"""The marks, the name of a file, the language, and the text of a block."""
MARK: Final = re.compile(r"<!-- test: (.*?) -->")
COMMAND: Final = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
NUMBER: Final = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")
TOLERANCE: Final = 1e-5
INSTALLERS: Final = ("pip", "npm")
"""Commands that are not run: what they install is required of whoever runs the tests."""
JAVA: Final = 22
"""The first release with the foreign function API."""


class Block(NamedTuple):
    """A fenced block."""

    name: str | None
    """Of the file that it is, when the line before it is the name."""
    language: str
    text: str
    marks: tuple[str, ...] = ()
    """For the tests of ``run_pages.py``: of comments ``<!-- test: ... -->`` before the block."""


class Command(NamedTuple):
    """A command, and what the page shows that it prints."""

    line: str
    shown: str


def read_page(path: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = path.read_text("utf-8")
    return parse_blocks(text)


def parse_blocks(text: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    found = FENCE.findall(text)
    return [Block(name or None, language, code, tuple(MARK.findall(marks))) for marks, name, language, code in found]


def list_commands(block: Block) -> list[Command]:
    """Return the commands of a console block, with lines that end in a backslash joined."""
    assert block.text.startswith("$ "), block.text
    return [Command(line.replace("\\\n", ""), shown) for line, shown in COMMAND.findall(block.text)]


def list_programs(blocks: list[Block]) -> set[str]:
    """Return the names of the programs that the commands of a page start: ``gcc``, ``node``, ``./policy``, ..."""
    lines = [command.line for block in blocks if block.language == "console" for command in list_commands(block)]
    return {part.split()[0] for line in lines for part in re.split(r"\||&&", line)}


@cache
def find_java() -> Path | None:
    """Return the first ``java`` of the release 22 or a later one, of PATH, JAVA_HOME and the usual folder."""
    found = shutil.which("java")
    candidates = [Path(found)] if found else []
    if os.environ.get("JAVA_HOME"):
        candidates.append(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    candidates += sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    return next((path for path in candidates if read_java_release(path) >= JAVA), None)


def read_java_release(path: Path) -> int:
    """Return the release that a ``java`` reports; 0 when it does not run."""
    try:
        run = subprocess.run([path, "-version"], capture_output=True, text=True, check=False, timeout=500)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', run.stderr)
    return int(found[1]) if found else 0


def assert_same_text(printed: str, shown: str, what: str) -> None:
    """Compare texts: numbers with a decimal point within the tolerance; a line ``...`` is any number of lines."""
    difference = f"{what} printed\n{printed}\nand the page shows\n{shown}"
    parts = re.split(r"^ *\.\.\.$", NUMBER.sub("#", shown.rstrip()), flags=re.MULTILINE)
    assert re.fullmatch(".+?".join(map(re.escape, parts)), NUMBER.sub("#", printed.rstrip()), re.DOTALL), difference
    if len(parts) == 1:
        for found, expected in zip(map(float, NUMBER.findall(printed)), map(float, NUMBER.findall(shown))):
            assert abs(found - expected) <= TOLERANCE * max(1, abs(expected)), difference


def link_folder(link: Path, target: Path) -> None:
    """Make a link to a folder; on Windows a junction, which needs no rights."""
    if sys.platform == "win32":
        import _winapi

        _winapi.CreateJunction(str(target), str(link))
    else:
        link.symlink_to(target)


class Shell:
    """Runs the commands of a page in a folder.

    ``python`` is the running one, ``sbformat`` this repository's, ``java`` the one that was found. The folder has links
    to the repository's ``tests`` and ``conformance``, which the commands name.

    :param folder: an empty one
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bin = folder / ".bin"
        self._bin.mkdir()
        self._offer("python", f'"{sys.executable}"')
        self._offer("sbformat", f'"{sys.executable}" -m sbformat')
        java = find_java()
        if java is not None:
            self._offer("java", f'"{java}"')
        for name in ("tests", "conformance"):
            link_folder(folder / name, ROOT / name)

    def _offer(self, name: str, command: str) -> None:
        path = self._bin / name
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n', "utf-8")
        path.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the commands."""
        return {**os.environ, "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def write(self, block: Block) -> None:
        """Write a block that is a file."""
        assert block.name is not None
        path = self.folder / block.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, "utf-8")

    def run(self, line: str) -> str:
        """Run a command and return what it printed."""
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
            timeout=500,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout
