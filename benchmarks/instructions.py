"""Instructions of the hot paths, counted by valgrind's callgrind: independent of the load of the machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.files import ROOT, TEMPLATE
from benchmarks.hot_paths import ABSENT, PATHS
from benchmarks.processes import Failed, last_line
from benchmarks.results import Line, Spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench

CALLS: Final = 10
ONE_THREAD: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""One thread: the threads of numpy's libraries wait for each other, and waiting would be counted."""
CALLGRIND: Final = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
SCRIPT: Final = str(Path(__file__).with_name("hot_paths.py"))
COLLECTED: Final = re.compile(rb"Collected : (\d+)")
NO_VALGRIND: Final = "valgrind is not installed"


class Counter:
    """Counts the instructions of paths of one package.

    :param package: the folder that contains sbformat
    :param cache: a folder for bytecode, so that compiling is not counted
    """

    def __init__(self, package: Path, cache: str) -> None:
        self.package = package
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        python = {"PYTHONPATH": str(package), "PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": cache}
        self.env = {**kept, **python, **ONE_THREAD}

    def run(self, name: str, calls: int, *before: str) -> subprocess.CompletedProcess[bytes]:
        """Run a process that makes that many calls."""
        command = [*before, sys.executable, SCRIPT, name, str(TEMPLATE), str(calls)]
        done = subprocess.run(command, env=self.env, cwd=self.package, capture_output=True, check=False)
        if done.returncode not in (0, ABSENT):
            raise Failed(last_line(done.stderr))
        return done

    def collected(self, name: str, calls: int) -> int:
        """Return all instructions of a process that makes that many calls."""
        found = COLLECTED.search(self.run(name, calls, *CALLGRIND).stderr)
        if found is None:
            message = "callgrind reported no count"
            raise Failed(message)
        return int(found[1])

    def one_call(self, name: str) -> float | None:
        """Return the instructions of one call without start-up; None if the package does not have the path."""
        if self.run(name, 1).returncode == ABSENT:  # this also fills the bytecode cache
            return None
        return (self.collected(name, 2 * CALLS) - self.collected(name, CALLS)) / CALLS


def all_paths(bench: Bench, package: Path) -> dict[str, float | None]:
    """Count every path of a package; processes that run in parallel do not change a count."""
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        counter = Counter(package, cache)
        futures = {name: pool.submit(counter.one_call, name) for name in PATHS}
        found = {}
        for name, future in futures.items():
            bench.tell(f"{bench.measure}: {name}, {package.name}")
            found[name] = future.result()
    return found


@contextmanager
def copy_of_the_work_tree() -> Iterator[Path]:
    """Copy the package: an edit during the measurement would change the counts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "work tree"
        for name in ("sbformat", "schema"):
            shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
        yield path


@contextmanager
def tree_of(revision: str) -> Iterator[Path]:
    """A work tree of another commit, removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "revision"
        git = [shutil.which("git") or "git", "-C", str(ROOT), "worktree"]
        done = subprocess.run([*git, "add", "--detach", str(path), revision], capture_output=True, check=False)
        if done.returncode:
            raise Failed(last_line(done.stderr))
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], capture_output=True, check=True)


def instructions(bench: Bench) -> list[Line]:
    """Return a line for each hot path, with another commit's count if one was named."""
    if shutil.which("valgrind") is None:
        return [Line(bench.measure, "instructions", "instructions", None, note=NO_VALGRIND)]
    with copy_of_the_work_tree() as package:
        ours = all_paths(bench, package)
    theirs: dict[str, float | None] = {}
    if bench.against:
        with tree_of(bench.against) as package:
            theirs = all_paths(bench, package)
    return [line(bench, name, count, theirs.get(name)) for name, count in ours.items() if count is not None]


def line(bench: Bench, name: str, ours: float, theirs: float | None) -> Line:
    """Return the line of one path."""
    if not bench.against:
        return Line(bench.measure, name, "instructions", ours)
    if theirs is None:
        return Line(bench.measure, name, "instructions", ours, bench.against, note="it has no such path")
    ratio = ours / theirs
    return Line(bench.measure, name, "instructions", ours, bench.against, theirs, Spread(ratio, ratio, ratio))
