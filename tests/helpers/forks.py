"""Programs of ``tests/children`` in forks of a process that has imported what they need: each has memory of its own.

To start Python, and to import numpy and the package, takes longer than most of these programs.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.helpers.bundled import ROOT
from tests.helpers.count_work import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Left(NamedTuple):
    """What a program left."""

    returncode: int
    stdout: bytes
    stderr: bytes


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


def run_fork(
    name: str,
    *arguments: object,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    imported: Iterable[str] = (),
) -> Left:
    """Run a program; where the system cannot fork, in a process of its own. It is ended after ``PATIENCE`` seconds.

    :param name: of a module of ``tests/children`` with a function ``main``
    :param environment: variables that are set for it
    :param imported: modules that the process which is forked imports besides, if they are installed
    """
    words, variables = list(map(str, arguments)), dict(environment or {})
    with TemporaryDirectory() as folder:
        paths = [Path(folder, word) for word in ("in", "out", "err")]
        for path, content in zip(paths, (stdin, b"", b"")):
            path.write_bytes(content)
        if hasattr(os, "fork"):
            parent = _start_parent(name, *imported)
            assert parent.stdin is not None
            assert parent.stdout is not None
            print(json.dumps([words, variables, list(map(str, paths))]), file=parent.stdin, flush=True)
            status = int(parent.stdout.readline())
        else:
            with paths[0].open("rb") as source, paths[1].open("wb") as out, paths[2].open("wb") as errors:
                command = [sys.executable, "-m", f"tests.children.{name}", *words]
                files: Any = {"stdin": source, "stdout": out, "stderr": errors}
                status = subprocess.call(command, cwd=ROOT, env={**os.environ, **variables}, timeout=PATIENCE, **files)
        return Left(status, paths[1].read_bytes(), paths[2].read_bytes())


def run_fresh(
    *arguments: object, missing: Iterable[str] = (), imported: Iterable[str] = (), stdin: bytes = b""
) -> Fresh:
    """Run a command line that begins with nothing imported but this.

    :param missing: packages that are as if they were not installed
    :param imported: modules that are imported once, for all commands in which they are not missing
    """
    with TemporaryDirectory() as folder:
        modules = Path(folder, "modules.json")
        left = run_fork("run_fresh", modules, ",".join(missing), *arguments, stdin=stdin, imported=imported)
        assert modules.exists(), left.stderr.decode()
        return Fresh(*left, json.loads(modules.read_text("utf-8")))


@functools.cache
def _start_parent(*names: str) -> subprocess.Popen[str]:
    """Start the process that is forked for each run of a program; it ends with the tests."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.children.fork_program", *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a fork has one thread
    )
    atexit.register(process.communicate)
    return process
