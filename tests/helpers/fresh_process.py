"""Command lines that each begin with nothing imported, and with packages that are as if they were not installed."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

PROGRAM: Final = ROOT / "tests" / "children" / "run_fresh.py"


class Fresh(NamedTuple):
    """What a command left."""

    returncode: int
    stdout: bytes
    stderr: bytes
    modules: list[str]
    """The modules that are imported at its end."""

    @property
    def err(self) -> str:
        """The errors as text."""
        return self.stderr.decode()

    @property
    def packages(self) -> set[str]:
        """The first parts of the names of the modules."""
        return {name.partition(".")[0] for name in self.modules}


def run_fresh(
    *arguments: object, missing: Iterable[str] = (), imported: Iterable[str] = (), stdin: bytes | None = None
) -> Fresh:
    """Run a command line.

    :param missing: packages that are as if they were not installed
    :param imported: modules that are imported once, for all commands in which they are not missing
    """
    process = start(tuple(imported))
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in")
        source.write_bytes(stdin or b"")
        case = [f"{folder}/", list(missing), list(map(str, arguments)), os.devnull if stdin is None else str(source)]
        process.stdin.write(json.dumps(case) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "\n", f"{PROGRAM} has ended"
        out, err = (Path(folder, name).read_bytes() for name in ("out", "err"))
        assert Path(folder, "json").exists(), err.decode()
        status, modules = json.loads(Path(folder, "json").read_text("utf-8"))
    return Fresh(status, out, err, modules)


@functools.cache
def start(imported: tuple[str, ...]) -> subprocess.Popen[str]:
    """Start the process that is forked for each command; it ends with the tests."""
    if not hasattr(os, "fork"):
        pytest.skip("the system cannot fork")
    command = [sys.executable, str(PROGRAM), *imported]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    atexit.register(process.communicate)
    return process
