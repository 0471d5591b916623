"""Processes: measured from start to end, or kept as workers that answer one question at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.files import ROOT

SPAWNER: Final = str(Path(__file__).with_name("spawner.py"))


QUIET: Final = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "NO_ANALYTICS": "1"}
"""modelaudit reports nothing of its use."""


class Failed(Exception):  # noqa: N818 -- an answer, not a fault
    """A subject could not perform its task."""


class Ran(NamedTuple):
    """The cost of one process."""

    seconds: float
    peak: int
    """Peak resident memory in bytes."""
    anonymous: int
    """Peak private memory in bytes (``RssAnon``); 0 if it was not sampled."""
    exit_code: int
    output: bytes


def environment(cache: str) -> dict[str, str]:
    """Return this process's environment, with bytecode cached in a separate folder, as for an installed package.

    Matrix products run on one thread, as the others do: what many processors gain depends on the machine.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **QUIET, "PYTHONPYCACHEPREFIX": cache, "OMP_NUM_THREADS": "1"}


def run(command: list[str], env: dict[str, str], *, is_sampled: bool = False, accepted: tuple[int, ...] = (0,)) -> Ran:
    """Run a command from the root of the repository.

    :param is_sampled: also sample the private memory, which makes the process slower
    :raises Failed: for an exit code that is not accepted
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = os.path.join(folder, "answer")
        spawner = [sys.executable, "-S", "-E", SPAWNER, answer, "1" if is_sampled else "0"]
        done = subprocess.run([*spawner, *command], cwd=ROOT, env=env, capture_output=True, check=False)
        if done.returncode:
            raise Failed(last_line(done.stderr))
        seconds, peak, anonymous, exit_code = Path(answer).read_text(encoding="ascii").split()
    if int(exit_code) not in accepted:
        message = f"exit code {exit_code}: {last_line(done.stderr)}"
        raise Failed(message)
    return Ran(float(seconds), int(peak), int(anonymous), int(exit_code), done.stdout)


def last_line(text: bytes) -> str:
    """Return the last line of the output of a process, shortened."""
    return (text.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"])[-1][:200]


class Worker:
    """A process that performs the tasks of one subject; see ``worker``."""

    def __init__(self, subject: str, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", subject],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, task: str, path: str, *, is_held: bool = True, **more: Any) -> dict[str, Any]:
        """Return the answer.

        :raises Failed: if the worker returned an error or ended
        """
        if self.process.stdin is None or self.process.stdout is None:
            raise TypeError
        try:
            self.process.stdin.write(json.dumps({"task": task, "path": path, "is_held": is_held, **more}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            message = "its process ended"
            raise Failed(message)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def seconds(self, task: str, path: str, calls: int, *, is_held: bool = True, output: str = "") -> float:
        """Return the best of several calls."""
        return min(self.ask(task, path, is_held=is_held, calls=calls, output=output)["seconds"])

    def close(self) -> None:
        """Ask the process to end, and wait."""
        self.process.communicate()
