"""Copies of the checkout, one for each job, and the processes that run tests in them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.mutation import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

WORKER: Final = Path(__file__).with_name("worker.py")
NOT_COPIED: Final = (
    ".git", "__pycache__", ".*_cache", ".hypothesis", ".venv", "venv", ".nox", "node_modules", "build", "dist",
)  # fmt: skip
COLLECTING: Final = 1800
"""Seconds to collect the tests, on a machine with other work."""

ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Ended(Exception):  # noqa: N818 -- an expected event
    """The process ended without an answer."""


class Worker:
    """A process that has collected tests, and runs some of them for each request."""

    def __init__(self, copy: Path, package: str, tests: Sequence[str], mutant: int) -> None:
        """Start the process.

        :param mutant: the active mutant while the tests and the package are imported
        :raises Ended: pytest ended before it had collected
        """
        (copy / package / "_mutation.active").write_text(str(mutant), "ascii")
        read_request, self.requests = os.pipe()
        self.answers, write_answer = os.pipe()
        pipes = (read_request, write_answer)
        no_xdist = ["-n", "0"] if importlib.util.find_spec("xdist") else []
        options = ["-q", "-p", "no:cacheprovider", "--assert=plain", f"--basetemp={copy}.tmp", *no_xdist]
        self.log = Path(f"{copy}.log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER), *map(str, pipes), package, *options, *tests],
                cwd=copy, env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(copy)}, pass_fds=pipes,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        for descriptor in pipes:
            os.close(descriptor)
        self.lines = open(self.answers, encoding="utf-8")  # noqa: SIM115 -- closed by end()
        self.child = 0
        try:
            self.collected = self.receive(COLLECTING)
        except Ended:
            self.end()
            raise

    def receive(self, seconds: float) -> dict[str, Any]:
        """Wait for an object; kill what runs the tests after some time."""
        timer = threading.Timer(seconds, self.kill)
        timer.start()
        line = self.lines.readline()
        timer.cancel()
        if not line:
            raise Ended
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        """Kill the process that runs tests and what it has started, or the worker if there is none."""
        with suppress(ProcessLookupError):
            if self.child:
                os.killpg(self.child, signal.SIGKILL)
            else:
                self.process.kill()

    def run(self, mutant: int, tests: Sequence[str], allowed: Callable[[str], float]) -> list[dict[str, Any]]:
        """Run tests until the first one fails.

        :param allowed: the seconds after which a test is killed
        :returns: a result for each test that was run; if the process ended, the last outcome is "timeout" or "failed"
        :raises Ended: the worker ended
        """
        try:
            with open(self.requests, "w", encoding="utf-8", closefd=False) as file:
                file.write(json.dumps({"mutant": mutant, "tests": list(tests)}) + "\n")
        except BrokenPipeError:
            raise Ended from None
        self.child = self.receive(COLLECTING)["pid"]
        results: list[dict[str, Any]] = []
        while True:
            following = tests[len(results)] if len(results) < len(tests) else ""
            answer = self.receive(allowed(following))
            if "end" not in answer:
                results.append(answer)
                continue
            self.child = 0
            if answer["end"]:
                outcome = "timeout" if os.WIFSIGNALED(answer["end"]) else "failed"
                results.append({"test": following, "outcome": outcome, "seconds": 0.0, "reached": []})
            return results

    def end(self) -> None:
        """End the process."""
        if self.lines.closed:
            return
        self.kill()
        self.child = 0
        self.kill()
        self.process.wait()
        self.lines.close()
        os.close(self.requests)


@contextmanager
def start_worker(copy: Path, package: str, tests: Sequence[str], mutant: int = runtime.RECORD) -> Iterator[Worker]:
    """Start a worker, and end it."""
    worker = Worker(copy, package, tests, mutant)
    try:
        yield worker
    finally:
        worker.end()


def copy_checkout(checkout: Path, target: Path) -> None:
    """Copy a checkout without what tools have left in it."""
    shutil.copytree(checkout, target, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
