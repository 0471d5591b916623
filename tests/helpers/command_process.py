"""Command lines in processes other than that of the tests, which are configured by their environment.

To import Dask, or the clients of S3 and of the Hub, takes a second or more. The command lines of a module that have the
same environment therefore share a process::

    with CommandProcesses() as processes:
        status, out, err = processes.run("scan", "s3://bucket/a.zip", environment={"AWS_ENDPOINT_URL": url})
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Final, NamedTuple

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
        self._processes: dict[str, _CommandProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        errors = [process.close() for process in self._processes.values()]
        assert not any(errors), errors

    def run(self, *arguments: object, environment: Mapping[str, str]) -> Outcome:
        """Run a command in the process of an environment, which is started for its first command."""
        kept = {name: value for name, value in environment.items() if name != "PYTEST_CURRENT_TEST"}
        key = json.dumps(kept, sort_keys=True)
        if key not in self._processes:
            self._processes[key] = _CommandProcess(kept)
        return self._processes[key].run(*arguments)


class _CommandProcess:
    """A process of ``run_commands.py``, in which each warning is an error."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 -- closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT)},
        )

    def run(self, *arguments: object) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(map(str, arguments))) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process ended with status {self._process.wait()}: {self._read_errors()}"
        return Outcome(*json.loads(line))

    def close(self) -> str:
        """End the process; return what it wrote to standard error besides the errors of its commands."""
        self._process.communicate()
        errors = self._read_errors()
        self._errors.close()
        return errors or ("" if self._process.returncode == 0 else f"exit status {self._process.returncode}")

    def _read_errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()
