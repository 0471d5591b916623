"""Runs commands over one file, and prints what each cost as JSON: ``measure_memory.py FILE GOOD FOLDER COMMAND...``.

A process of its own: what it takes is its own. All is imported, and every command run over a good file, before that.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import pkgutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sbformat
import sbformat.cli
from tests.children.read_hostile_pth import ask

if TYPE_CHECKING:
    from collections.abc import Callable


def read_all(path: str) -> int:
    """Read everything in a file, and hold it."""
    archive = sbformat.read(path)
    held: list[Any] = []
    questions: list[Callable[[], object]] = [lambda: archive.data, archive.hyperparameters]
    questions += [lambda name=name: archive.parameters[name].to_numpy() for name in archive.parameters]  # type: ignore[misc]
    questions += [lambda name=name: archive.extra[name] for name in archive.extra]  # type: ignore[misc]
    for question in questions:
        with contextlib.suppress(sbformat.SbformatError):
            held.append(question())
    return len(held)


def run(command: str, path: str, good: str, folder: Path) -> object:
    """Run one command over a file."""
    words = {
        "inspect": ["inspect", path, "--format", "json"],
        "scan": ["scan", path],
        "validate": ["validate", path],
        "diff": ["diff", path, good],
        "convert": ["convert", path, "-o", folder / "c.safetensors", "--force"],
        "extract": ["extract", path, "-o", folder / "e.npz", "--entry", "all", "--force"],
        "edit": ["edit", path, "--set", "gamma=0.5", "-o", folder / "e.zip", "--force"],
        "rebuild": ["rebuild", path, "-o", folder / "r.zip", "--force"],
        "weights": ["edit", good, "--weights", path, "-o", folder / "w.zip", "--force"],
    }
    if command == "read":
        return read_all(path)
    if command == "scan bytes":
        return sbformat.scan(Path(path).read_bytes())
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return sbformat.cli.main([str(word) for word in words[command]])


def main() -> None:
    """Weigh each command."""
    path, good, folder, *commands = sys.argv[1:]
    for module in pkgutil.walk_packages(sbformat.__path__, "sbformat."):
        if not module.name.startswith(("sbformat.__main__", "sbformat.sb3")):
            importlib.import_module(module.name)
    for command in commands:
        run(command, good, good, Path(folder))
    rows = {}
    for command in commands:
        _, outcome, _, seconds, grown = ask(command, lambda c=command: run(c, path, good, Path(folder)))  # type: ignore[misc]
        rows[command] = {"outcome": outcome, "seconds": seconds, "grown": grown}
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    main()
