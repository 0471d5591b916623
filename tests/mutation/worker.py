"""The process that collects the tests once, and forks for each request: ``worker.py IN OUT PACKAGE ARGUMENT...``.

IN and OUT are numbers of pipes, with a JSON object on each line; the arguments are those of pytest. The first object on
OUT is ``{"tests": [...], "reached": [...], "errors": N}``: the collected tests, the mutants that were reached by then,
the files that could not be imported. A request is ``{"mutant": N, "tests": [...]}``. Its answer is ``{"pid": N}``, an
object for each test until the first failure of a mutant, and ``{"end": STATUS}``.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

MEMORY = 8 << 30
"""What a process may allocate: a mutant of a limit must not take all memory of the machine."""


def measure_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


class Server:
    """A plugin of pytest that runs tests when they are requested."""

    def __init__(self, requests: int, answers: int, package: str) -> None:
        self.requests, self.answers = requests, answers
        self.outcome = ""
        self.runtime: Any = importlib.import_module(f"{package}._mutation")

    def send(self, **answer: Any) -> None:
        """Send an object; the parent and its child write to the same pipe."""
        text = json.dumps(answer).encode() + b"\n"
        while text:
            text = text[os.write(self.answers, text) :]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended."""
        if report.failed or (report.skipped and self.outcome != "failed"):
            self.outcome = report.outcome

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer requests instead of running all tests."""
        here = os.getcwd()  # some parameters are paths, and each worker has a folder of its own
        items = {item.nodeid.replace(here, "."): item for item in session.items}
        self.send(tests=list(items), reached=self.runtime.take_reached(), errors=session.testsfailed)
        gc.collect()
        gc.freeze()
        with open(self.requests, encoding="utf-8", closefd=False) as lines:
            for line in lines:
                request = json.loads(line)
                pid = os.fork()
                if not pid:
                    self.run_child(request["mutant"], items, request["tests"])
                _, status = os.waitpid(pid, 0)
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)  # what tests have started and left behind
                self.send(end=status)
        return True

    def run_child(self, mutant: int, items: dict[str, pytest.Item], tests: list[str]) -> None:
        """Run tests in this process, which ends here."""
        status = 1
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
            self.send(pid=os.getpid())
            self.runtime.activate(mutant)
            self.runtime.take_reached()
            for test, following in zip(tests, [*tests[1:], None]):
                before = measure_seconds()
                self.outcome = "passed"
                item, next_item = items[test], items[following] if following else None
                item.ihook.pytest_runtest_protocol(item=item, nextitem=next_item)
                seconds = round(measure_seconds() - before, 3)
                reached = self.runtime.take_reached()
                self.send(test=test, outcome=self.outcome, seconds=seconds, reached=reached)
                if self.outcome == "failed" and mutant != self.runtime.RECORD:
                    break
            status = 0
        finally:
            os._exit(status)


def main() -> int:
    """Start pytest as ``python -m pytest`` does."""
    requests, answers, package = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)
    sys.path[0] = os.getcwd()
    return int(pytest.main(sys.argv[4:], plugins=[Server(requests, answers, package)]))


if __name__ == "__main__":
    sys.exit(main())
