"""Command lines that each begin with nothing imported, and with packages that are as if they were not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

PROGRAM: Final = ROOT / "tests" / "children" / "run_fresh.py"


class Fresh(NamedTuple):
    """What a command left."""

    status: int
    out: str
    err: str
    modules: list[str]
    """The modules that are imported at its end."""

    @property
    def packages(self) -> set[str]:
        """The first parts of their names."""
        return {name.partition(".")[0] for name in self.modules}


def run_fresh(*commands: Iterable[object], missing: Iterable[str] = ()) -> list[Fresh]:
    """Run command lines, all with the same packages missing."""
    return run_all_fresh([(missing, command) for command in commands])


def run_all_fresh(
    cases: Iterable[tuple[Iterable[str], Iterable[object]]], *, imported: Iterable[str] = ()
) -> list[Fresh]:
    """Run command lines, each with its missing packages.

    :param imported: modules that are imported once, for the cases in which they are not missing
    """
    given = [(list(missing), list(map(str, arguments))) for missing, arguments in cases]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, PROGRAM, folder, json.dumps([list(imported), given])],
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=500,
        )
        return [read_fresh(Path(folder), number) for number in range(len(given))]


def read_fresh(folder: Path, number: int) -> Fresh:
    """Read what one of them left."""
    out, err = ((folder / f"{number}.{name}").read_text("utf-8") for name in ("out", "err"))
    status, modules = json.loads((folder / f"{number}.json").read_text("utf-8"))
    return Fresh(status, out, err, modules)
