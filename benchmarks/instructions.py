"""Instructions of hot paths and whole processes, counted by valgrind's callgrind whatever the load of the machine."""

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
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.files import ROOT, TEMPLATE
from benchmarks.hot_paths import ABSENT, PATHS
from benchmarks.processes import Failed, last_line
from benchmarks.results import Line, Spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.bench import Bench

CALLS: Final = 5
ONE_THREAD: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""One thread: the threads of numpy's libraries wait for each other, and waiting would be counted."""
CALLGRIND: Final = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
SCRIPT: Final = str(Path(__file__).with_name("hot_paths.py"))
COLLECTED: Final = re.compile(rb"Collected : (\d+)")
NO_VALGRIND: Final = "valgrind is not installed"
SAC: Final = TEMPLATE.with_name("sac-pendulum.zip")
RECORDS: Final = {TEMPLATE: 18, SAC: 38}
"""The records of the zip of the policy."""
COMMAND: Final = "import sys; from sbformat.__main__ import main; sys.exit(main())"
"""What the installed command runs."""


class Row(NamedTuple):
    """What is counted."""

    name: str
    path: str = ""
    """A hot path; empty for a whole process."""
    archive: Path = TEMPLATE
    goal: float | None = None
    """The most instructions."""
    arguments: tuple[str, ...] = ()
    """Of the process: those of the command, after the code that runs it."""
    parts: int = 1
    """Of how many equal parts a call consists; one of them is counted."""


def whole(name: str, goal: float | None, *arguments: str, code: str = COMMAND) -> Row:
    """Return the row of a process, which runs the command with these arguments."""
    return Row(name, goal=goal, arguments=("-c", code, *arguments))


_GOALS: Final = {"read, policy to arrays": 2.5e6, "policy, its values": 0.4e6, "data": 0.8e6, "scan": 30e6,
                 "validate": 14e6}  # fmt: skip
ROWS: Final = (
    whole("process: python -c pass", None, code="pass"),
    whole("process: --version", 110e6, "--version"),
    whole("process: --help", 110e6, "--help"),
    whole("process: inspect --format json", 220e6, "inspect", "--format", "json", str(TEMPLATE)),
    whole("process: scan", None, "scan", "--format", "json", str(TEMPLATE)),
    whole("process: validate", None, "validate", "--format", "json", str(TEMPLATE)),
    *(Row(name, name, goal=_GOALS.get(name)) for name in PATHS if name != "inner zip"),
    Row("inner zip, a record", "inner zip", goal=20e3, parts=RECORDS[TEMPLATE]),
    Row("SAC: inner zip, a record", "inner zip", SAC, 20e3, parts=RECORDS[SAC]),
    *(
        Row(f"SAC: {name}", name, SAC, goal)
        for name, goal in (("read, policy to arrays", 5.4e6), ("data", None), ("scan", None), ("validate", None))
    ),
)


class Counter:
    """Counts the instructions of rows of one package.

    :param package: the folder that contains sbformat
    :param cache: a folder for bytecode, so that compiling is not counted
    """

    def __init__(self, package: Path, cache: str) -> None:
        self.package = package
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        python = {"PYTHONPATH": str(package), "PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": cache}
        self.env = {**kept, **python, **ONE_THREAD}

    def run(self, arguments: Sequence[str], *before: str) -> subprocess.CompletedProcess[bytes]:
        """Run a process of Python."""
        command = [*before, sys.executable, *arguments]
        done = subprocess.run(command, env=self.env, cwd=self.package, capture_output=True, check=False)
        if done.returncode not in (0, ABSENT):
            raise Failed(last_line(done.stderr))
        return done

    def collected(self, arguments: Sequence[str]) -> int:
        """Return all instructions of a process."""
        found = COLLECTED.search(self.run(arguments, *CALLGRIND).stderr)
        if found is None:
            message = "callgrind reported no count"
            raise Failed(message)
        return int(found[1])

    def count(self, row: Row) -> float | None:
        """Return the instructions of a process, or of one call without start-up; None if the package has no such path.

        A process runs once before, which also fills the bytecode cache.
        """
        if not row.path:
            self.run(row.arguments)
            return self.collected(row.arguments)
        few, many = ([SCRIPT, row.path, str(row.archive), str(calls)] for calls in (CALLS, 2 * CALLS))
        if self.run(few).returncode == ABSENT:
            return None
        return (self.collected(many) - self.collected(few)) / CALLS / row.parts


def count_all(bench: Bench, package: Path) -> dict[str, float | None]:
    """Count every row of a package; processes that run in parallel do not change a count."""
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        counter = Counter(package, cache)
        futures = {row.name: pool.submit(counter.count, row) for row in ROWS}
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
    """Return a line for each row, with another commit's count if one was named."""
    if shutil.which("valgrind") is None:
        return [Line(bench.measure, "instructions", "instructions", None, note=NO_VALGRIND)]
    with copy_of_the_work_tree() as package:
        ours = count_all(bench, package)
    theirs: dict[str, float | None] = {}
    if bench.against:
        with tree_of(bench.against) as package:
            theirs = count_all(bench, package)
    lines = []
    for row in ROWS:
        count, other = ours[row.name], theirs.get(row.name)
        if count is not None:
            lines.append(Line(bench.measure, row.name, "instructions", count, limit=row.goal))
        if count is not None and bench.against:
            ratio = None if other is None else Spread(*[count / other] * 3)
            note = "it has no such path" if other is None else ""
            lines.append(Line(bench.measure, row.name, "instructions", count, bench.against, other, ratio, note=note))
    return lines
