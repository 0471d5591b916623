"""Write into pages what their commands print now: ``python -m tests.helpers.update_pages README.md docs/install.md``.

Only outputs that differ are replaced. Those with a line ``...`` are left to the writer, and reported. Read the
difference before you commit it: this program cannot know whether the new output is right.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.helpers.pages import Command, assert_same_text, list_commands, parse_blocks
from tests.helpers.run_pages import INSTALLERS, PageRunner, change_folder, find_missing


def update_page(path: Path) -> list[str]:
    """Run the blocks of a page in order and replace outputs; return the lines that need a person."""
    text, open_ends = path.read_text("utf-8"), []
    with tempfile.TemporaryDirectory() as folder, change_folder(Path(folder)):
        runner = PageRunner(Path(folder))
        for block in parse_blocks(text):
            if block.language != "console":
                try:
                    runner.run_block(block)
                except (AssertionError, Exception) as error:  # noqa: BLE001 -- it is reported, and the page goes on
                    open_ends.append(f"{path}: {error}")
                continue
            if find_missing(block) or any(mark.startswith("skip ") for mark in block.marks):
                continue
            changed = block.text
            for command in list_commands(block):
                changed, problem = _update_command(runner, command, changed)
                open_ends += [f"{path}: {problem}"] if problem else []
            text = text.replace(block.text, changed, 1)
    path.write_text(text, "utf-8")
    return open_ends


def _update_command(runner: PageRunner, command: Command, text: str) -> tuple[str, str]:
    """Return the text of a block with the output of a command in it, and what a person has to look at."""
    if command.line.split()[0] in INSTALLERS:
        return text, ""
    printed = runner.run_line(command.line)[1]
    if not command.shown.strip():
        return text, ""
    try:
        assert_same_text(printed, command.shown, command.line)
    except AssertionError as error:
        if re.search(r"^ *\.\.\.$", command.shown, re.MULTILINE):
            return text, str(error)
        return text.replace(command.shown, printed.rstrip() + "\n", 1), ""
    return text, ""


if __name__ == "__main__":
    problems = [line for name in sys.argv[1:] for line in update_page(Path(name).resolve())]
    sys.stderr.writelines(f"{line}\n" for line in problems)
    sys.exit(1 if problems else 0)
