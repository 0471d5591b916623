"""The mutants, and those of them that are listed as equivalent."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
SOURCE: Final = HERE.parent / "harness" / "javascript"
INSTRUMENTER: Final = "@stryker-mutator/instrumenter"


@dataclass(frozen=True)
class Mutant:
    """A change of one expression of the decoder."""

    id: str
    file: str
    line: int
    column: int
    mutator: str
    code: str
    """The line of the source without the white space around it."""
    original: str
    replacement: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What identifies the mutant after lines have moved."""
        return (self.file, self.code, self.original, self.replacement)

    def __str__(self) -> str:
        """Describe the mutant on one line."""
        return f"{self.file}:{self.line}:{self.column}: {self.original} -> {self.replacement}"


def find_modules(given: str | None) -> Path | None:
    """Find the folder of npm that has the instrumenter."""
    folder = given or os.environ.get("SBFORMAT_NODE_MODULES")
    return Path(folder) if folder and (Path(folder) / INSTRUMENTER).is_dir() else None


def write_mutants(modules: Path, folder: Path) -> tuple[Path, list[Mutant]]:
    """Write the decoder with all of its mutants below a folder; return its path, and the mutants.

    The decoder reads tables of ``schema``, so the copy has the same place relative to that folder.
    """
    target = folder / SOURCE.relative_to(HERE.parent.parent)
    target.mkdir(parents=True)
    (folder / "schema").symlink_to(HERE.parent.parent / "schema", target_is_directory=True)
    done = subprocess.run(
        ["node", str(HERE / "instrument.mjs"), str(modules), str(SOURCE), str(target)],  # noqa: S607 -- node of PATH
        stdout=subprocess.PIPE,
        check=True,
    )
    return target / "decode.js", [Mutant(**row) for row in json.loads(done.stdout)]


def read_equivalents() -> dict[tuple[str, str, str, str], str]:
    """Read ``equivalent.json``: the mutants that no vector can notice, with the reason."""
    groups: list[dict[str, Any]] = json.loads((HERE / "equivalent.json").read_text("utf-8"))
    return {
        (file, code, original, replacement): group["reason"]
        for group in groups
        for file, code, original, replacement in group["mutants"]
    }
