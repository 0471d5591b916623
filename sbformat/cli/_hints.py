"""What to do instead: the command that writes a format, the nearest name of a command or an option."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from sbformat.cli._files import OtherFileError
from sbformat.errors import UnsupportedError, escape, quote

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterable, Sequence

_WRITERS: Final = {
    ".onnx": ("export",),
    ".c": ("export",),
    ".h": ("export",),
    ".json": ("export",),
    ".npz": ("extract",),
    ".npy": ("extract",),
    ".safetensors": ("extract", "convert"),
    ".pth": ("convert", "rebuild"),
    ".html": ("report",),
}
"""The commands that write a format, by suffix."""
_OTHER_WORDS: Final = {
    **dict.fromkeys(("upgrade", "update", "migrate", "modernize", "port", "repair", "fix"), "rebuild"),
    **dict.fromkeys(("info", "show", "list", "cat", "print"), "inspect"),
    **dict.fromkeys(("check", "verify", "lint"), "validate"),
    **dict.fromkeys(("compare", "cmp"), "diff"),
    **dict.fromkeys(("set", "change", "modify"), "edit"),
    **dict.fromkeys(("run", "act", "enjoy"), "predict"),
}
"""What else people call a command."""
_NUMBERS: Final = re.compile(r"[\s\d.,;eE+-]+")
_SHORTEST: Final = 3


def require_suffix(command: str, output: str) -> None:
    """Check that an output is not in a format that another command writes.

    :raises OtherFileError: which blames the output, and names the other command
    """
    suffix = os.path.splitext(output)[1].lower()
    commands = _WRITERS.get(suffix, (command,))
    if command not in commands:
        others = " and ".join(f"sbformat {name}" for name in commands)
        message = f"sbformat {command} does not write {suffix} files; {others} {'do' if len(commands) > 1 else 'does'}"
        raise OtherFileError(output) from UnsupportedError(message)


def explain_json(option: str, text: str) -> str:
    """Return how to write what is not JSON; empty when nothing is known.

    >>> explain_json("--observation", "0.1, 0.2")
    "; put the numbers in brackets: --observation '[0.1, 0.2]'"
    """
    if _NUMBERS.fullmatch(text) and any(map(str.isdigit, text)):
        numbers = re.split(r"[\s,;]+", text.strip(" ,;\n\t"))
        shown = escape(", ".join(numbers[:4]), 60) + (", ..." if len(numbers) > 4 else "")
        return f"; put the numbers in brackets: {option} '[{shown}]'"
    if os.path.exists(text):
        return f"; {quote(text)} is a file: {option} reads .npy and .npz files, and - is JSON from standard input"
    return ""


def explain_command(word: str, commands: Collection[str]) -> str:
    """Return the error for a word that is not a command."""
    if os.path.exists(word) or os.path.exists(f"{word}.zip"):
        return f"expected a command before the file: sbformat inspect {escape(word)}"
    other = _OTHER_WORDS.get(word.lower())
    if other is not None:
        return f"there is no command {quote(word, 60)}; sbformat {other} does that"
    close = find_nearest(word, commands)
    hint = f"did you mean {close}?" if close else f"available: {', '.join(commands)}"
    return f"there is no command {quote(word, 60)}; {hint}"


def explain_options(extra: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """Return the error for arguments that a command does not have."""
    known = [name for action in parser._actions for name in action.option_strings]  # noqa: SLF001 -- argparse lists them nowhere else
    found = (find_nearest(word.partition("=")[0], known) for word in extra if word.startswith("--"))
    hint = "".join(f"; did you mean {name}?" for name in found if name)
    return f"unrecognized arguments: {' '.join(map(escape, extra))}{hint}"


def find_nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that is most like a word: the one it begins, or one with few other letters."""
    import difflib

    names = list(names)
    begun = [name for name in names if len(word) >= _SHORTEST and name.startswith(word.lower())]
    close = begun or difflib.get_close_matches(word.lower()[:60], names, n=1)
    return close[0] if close else None
