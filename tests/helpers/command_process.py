"""Command lines in processes other than that of the tests, which are configured by their environment.

To import Dask, or the clients of S3 and of the Hub, takes a second or more. One process therefore imports what is most
expensive, for all tests of a run, and is forked for each environment; the command lines of a module that have the same
environment share a process::

    with CommandProcesses() as processes:
        status, out, err = processes.run("scan", "s3://bucket/a.zip", environment={"AWS_ENDPOINT_URL": url})
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

PROGRAM: Final = ROOT / "tests" / "children" / "run_commands.py"


class Outcome(NamedTuple):
    """What a command left, by the names of ``subprocess.CompletedProcess``."""

    returncode: int
    stdout: str
    stderr: str


class CommandProcesses:
    """A process for each environment, until the end of the ``with`` block."""

    def __init__(self) -> None:
        self._environments: list[dict[str, str]] = []

    def __enter__(self) -> Self:
        self._parent = start_parent()
        return self

    def __exit__(self, *_: object) -> None:
        statuses = [self._parent.ask(environment, None) for environment in self._environments]
        errors = self._parent.read_errors()
        assert not any(statuses), statuses
        assert not errors

    def run(self, *arguments: object, environment: Mapping[str, str]) -> Outcome:
        """Run a command in the process of an environment, which is started for its first command."""
        kept = {name: value for name, value in sorted(environment.items()) if name != "PYTEST_CURRENT_TEST"}
        kept["PYTHONPATH"] = str(ROOT)
        if kept not in self._environments:
            self._environments.append(kept)
        return Outcome(*self._parent.ask(kept, list(map(str, arguments))))


@functools.cache
def start_parent() -> _Parent:
    """Start the process that all others are forked from; it ends with the tests."""
    if not hasattr(os, "fork"):
        pytest.skip("the system cannot fork")
    parent = _Parent()
    atexit.register(parent.close)
    return parent


class _Parent:
    """A process of ``run_commands.py``, in which each warning is an error."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 -- closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def ask(self, environment: dict[str, str], arguments: list[str] | None) -> Any:
        """Return what the process of an environment answers: what a command left, or the exit status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([environment, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process ended with status {self._process.wait()}: {self.read_errors()}"
        return json.loads(line)

    def read_errors(self) -> str:
        """Return what was written to standard error since the last call, besides the errors of commands."""
        return self._errors.read()

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._errors.close()
