"""Run the tests against mutants of the package, and print those that no test noticed.

    python -m tests.mutation --sample 300
    python -m tests.mutation --only known/sbx.py:114 tests/known tests/formats

Theory of operation
-------------------

A mutant is the package with one change: ``<=`` instead of ``<``, 47 instead of 46, a check or a call that is removed.
It is killed if a test that passes without the change fails, or does not end.

The suite takes a quarter of an hour, so it cannot run once for each mutant:

1. ``mutants.py`` chooses the mutants and writes all of them into one copy of the checkout, each as
   ``(x <= 3 if _is_active(17) else (x < 3))``. Each job has such a copy.
2. A worker of each job (``worker.py``) imports and collects all tests once. For each request it forks, and the child
   runs the tests that are named in the request. So a request costs milliseconds, and has no effect on the next one.
3. The baseline: each test file runs in a child, with no active mutant. Recorded are, for each test, whether it passes,
   its seconds of processor time, and the mutants whose code it reached, be it in a process that it started.
4. For each mutant, a child runs tests that reached it, those first that are likely to notice it: the tests of the
   folder that corresponds to the module, and fast ones. Other tests of the same files follow, since they may use the
   result of a fixture or of a cache. The sum of their seconds in the baseline is at most ``--seconds``.
5. A test that fails counts if it also fails alone, and passes alone without the mutant, or if it passes after the same
   tests without the mutant. Otherwise it depends on the order of tests, and the next tests run.

Code that is executed while modules are imported has been executed before the worker forks. A mutant of such code takes
a worker of its own, which imports everything again. It runs the tests of the same folder, then those of the folders
whose modules import from the changed one.
"""

from __future__ import annotations

import argparse
import json
import queue
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from tests.mutation import runtime
from tests.mutation.mutants import Mutant, find_importers, find_mutants, matches, sample_mutants, write_mutants
from tests.mutation.pool import Ended, Worker, copy_checkout, start_worker

CHECKOUT: Final = Path(__file__).resolve().parents[2]
STATES: Final = ("killed", "timeout", "survived", "over budget", "not covered")
LEAST_SECONDS: Final = 0.005
"""What a test costs at least, with what pytest does around it."""

ENDED: Final = {"failed": "killed", "timeout": "timeout"}
"""The outcomes of tests that kill a mutant."""

SURVIVORS: Final = STATES[2:]
_OF_DEFAULT_RUN: Final = re.compile(r'"-m", "([^"]+)"')
_MORE: Final = re.compile(r" and not (servers|exports|robustness)\b")
SELECTED: Final = _MORE.sub("", _OF_DEFAULT_RUN.findall((CHECKOUT / "pyproject.toml").read_text("utf-8"))[0])
"""The tests of the default run, and of the sessions servers, exports and robustness."""
LIKELY: Final = 25
"""Tests that run first, in the order of how likely they kill; the others run file by file, which is faster."""

LEFT_OUT: Final = "tests/project"
"""Text, types and releases of the unchanged checkout; the pages take minutes, and run commands."""
KEPT: Final = ("test_conformance.py", "test_public_api.py")
"""What is run of that folder."""


@dataclass
class Baseline:
    """What is known of the tests that pass without a mutant."""

    seconds: dict[str, float] = field(default_factory=dict)
    reached: dict[int, set[str]] = field(default_factory=dict)
    at_import: set[int] = field(default_factory=set)
    """The mutants that were reached while the tests were collected."""
    dropped: list[str] = field(default_factory=list)
    """The tests that fail without a mutant, in the copy."""

    def add(self, result: dict[str, Any]) -> None:
        """Add the result of a test."""
        if result["outcome"] == "passed":
            self.seconds[result["test"]] = result["seconds"]
            for mutant in result["reached"]:
                self.reached.setdefault(mutant, set()).add(result["test"])
        elif result["outcome"] != "skipped":
            self.dropped.append(result["test"])

    def allow(self, test: str) -> float:
        """Return the seconds after which a test counts as one that does not end, on a machine with other work."""
        return 120 + 20 * self.seconds.get(test, 60)


@cache
def get_file(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


@cache
def measure_nearness(module: str, file: str, importers: frozenset[str]) -> float:
    """Count the folders and names that a module of the package and a file of tests have in common.

    :returns: more if the next names begin alike; 0.5 if they have none in common, and tests of this folder test a
        module that imports the former
    """
    parts = module.removesuffix(".py").split("/")
    others = file.removesuffix(".py").replace("/test_", "/").split("/")[1:]
    common = 0
    while common < min(len(parts), len(others)) and parts[common] == others[common]:
        common += 1
    if not common:
        return 0.5 * (others[0] in importers)
    pairs = zip("".join(parts[common : common + 1]), "".join(others[common : common + 1]))
    return common + min(len(list(takewhile(lambda pair: pair[0] == pair[1], pairs))), 9) / 10


@dataclass
class Run:
    """What all jobs share."""

    mutants: list[Mutant]
    baseline: Baseline
    budget: float
    package: str
    importers: dict[str, frozenset[str]]

    def measure_nearness(self, number: int, test: str) -> float:
        """Return a greater number for tests that are more likely to notice a mutant."""
        file = self.mutants[number].file
        return measure_nearness(file, get_file(test), self.importers[file])

    def choose_tests(self, number: int) -> tuple[list[str], bool]:
        """List the tests to run against a mutant, and whether some were left out."""
        mutant, direct = self.mutants[number], self.baseline.reached.get(number, set())
        if mutant.at_import or (number in self.baseline.at_import and not direct):
            candidates = [test for test in self.baseline.seconds if self.measure_nearness(number, test)]
        else:
            files = {get_file(test) for test in direct}
            candidates = [test for test in self.baseline.seconds if get_file(test) in files]
        candidates.sort(
            key=lambda test: (
                test not in direct, -self.measure_nearness(number, test), self.baseline.seconds[test], test,
            )
        )  # fmt: skip
        left = self.budget
        chosen: list[str] = []
        for test in candidates:
            seconds = max(self.baseline.seconds[test], LEAST_SECONDS)
            if seconds <= left or not chosen:
                left -= seconds
                chosen.append(test)
        order = {test: index for index, test in enumerate(self.baseline.seconds)}
        return [*chosen[:LIKELY], *sorted(chosen[LIKELY:], key=order.__getitem__)], len(chosen) < len(candidates)

    def try_tests(self, number: int, tests: Sequence[str], worker: Worker, unchanged: Worker) -> tuple[str, str]:
        """Run tests against a mutant; return its state, and the test that killed it."""
        waiting = list(tests)
        while waiting:
            results = worker.run(number, waiting, self.baseline.allow)
            last = results[-1]
            is_ended = last["outcome"] in ENDED
            if is_ended and self.confirm(number, waiting[: len(results)], worker, unchanged):
                return ENDED[last["outcome"]], last["test"]
            waiting = waiting[len(results) :]
        return "survived", ""

    def confirm(self, number: int, tests: Sequence[str], worker: Worker, unchanged: Worker) -> bool:
        """Whether the last test fails because of a mutant, and not because of its place among the tests."""

        def passes(by: Worker, mutant: int, tests: Sequence[str]) -> bool:
            return bool(by.run(mutant, tests, self.baseline.allow)[-1]["outcome"] == "passed")

        last = tests[-1:]
        if passes(unchanged, runtime.ORIGINAL, last) and not passes(worker, number, last):
            return True
        return passes(unchanged, runtime.ORIGINAL, tests)

    def judge(self, number: int, copy: Path, worker: Worker) -> tuple[str, str]:
        """Return the state of a mutant, and the test that killed it."""
        tests, is_cut = self.choose_tests(number)
        if not tests:
            return "not covered", ""
        state, test = "survived", ""
        if self.baseline.reached.get(number):
            state, test = self.try_tests(number, tests, worker, worker)
        if state == "survived" and number in self.baseline.at_import:
            near = [test for test in tests if self.measure_nearness(number, test) >= 1]
            far = [test for test in tests if self.measure_nearness(number, test) < 1]
            for part in (near, far):
                if part and state == "survived":
                    state, test = self.try_imported(number, part, copy, worker)
        return ("over budget" if state == "survived" and is_cut else state), test

    def try_imported(self, number: int, tests: Sequence[str], copy: Path, unchanged: Worker) -> tuple[str, str]:
        """Run tests in a process that imports the mutant."""
        try:
            with start_worker(copy, self.package, sorted({get_file(test) for test in tests}), number) as worker:
                missing = set(tests) - set(worker.collected["tests"])
                if worker.collected["errors"] or missing:
                    return "killed", "the collection of the tests"
                return self.try_tests(number, tests, worker, unchanged)
        except Ended:
            return "killed", "the start of pytest"


class Log:
    """The file of ``--log``: the mutants, the baseline, and a line for each mutant that has a state."""

    def __init__(self, path: Path | None, mutants: Sequence[Mutant]) -> None:
        """Read what an interrupted run has written.

        :raises ValueError: the file is of other mutants
        """
        self.path = path
        self.baseline: Baseline | None = None
        self.found: dict[int, tuple[str, str]] = {}
        keys = [list(mutant.key) for mutant in mutants]
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path and path.exists() else []
        if not rows:
            self.write(keys)
        elif rows[0] != keys:
            message = f"{path} is the log of other mutants"
            raise ValueError(message)
        if len(rows) > 1:
            tests, reached, at_import, dropped = rows[1]
            names = list(tests)
            sets = {int(number): {names[index] for index in indexes} for number, indexes in reached.items()}
            self.baseline = Baseline(tests, sets, set(at_import), dropped)
            self.found = {number: (state, test) for number, state, test in rows[2:]}

    def write(self, row: object) -> None:
        """Append a line."""
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def write_baseline(self, baseline: Baseline) -> None:
        """Append the baseline, unless it was read."""
        if not self.baseline:
            index = {test: index for index, test in enumerate(baseline.seconds)}
            reached = {number: [index[test] for test in tests] for number, tests in baseline.reached.items()}
            self.write([baseline.seconds, reached, sorted(baseline.at_import), baseline.dropped])


def list_arguments(checkout: Path, tests: Sequence[str]) -> list[str]:
    """List the arguments of pytest: the tests, and what is left out."""
    left_out = [path for path in sorted((checkout / LEFT_OUT).glob("test_*.py")) if path.name not in KEPT]
    return [
        "-m",
        SELECTED,
        *(tests or ["tests"]),
        *(f"--ignore={path.relative_to(checkout).as_posix()}" for path in left_out),
    ]


def make_baseline(workers: Sequence[Worker], note: Any) -> Baseline:
    """Run all tests without a mutant, the files of tests in parallel."""
    baseline = Baseline(at_import=set(workers[0].collected["reached"]))
    by_file: dict[str, list[str]] = {}
    for test in workers[0].collected["tests"]:
        by_file.setdefault(get_file(test), []).append(test)
    files: queue.SimpleQueue[str] = queue.SimpleQueue()
    for file in by_file:
        files.put(file)

    def work(worker: Worker) -> None:
        while True:
            try:
                file = files.get_nowait()
            except queue.Empty:
                return
            waiting = by_file[file]
            while waiting:  # again if a test ends the process
                results = worker.run(runtime.RECORD, waiting, baseline.allow)
                waiting = waiting[len(results) :]
                for result in results:
                    baseline.add(result)
            note(f"{len(by_file) - files.qsize()}/{len(by_file)} {file}")

    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(work, workers))
    order = {test: index for index, test in enumerate(workers[0].collected["tests"])}
    note(f"{len(baseline.dropped)} tests fail without a mutant: {' '.join(baseline.dropped)}")
    baseline.seconds = dict(sorted(baseline.seconds.items(), key=lambda item: order[item[0]]))
    return baseline


def run_mutants(
    options: argparse.Namespace, mutants: list[Mutant], folder: Path, note: Any
) -> tuple[dict[int, tuple[str, str]], Baseline]:
    """Run the tests; return the state of each mutant and the test that killed it, by number, and the baseline."""
    log = Log(options.log, mutants)
    if log.baseline and len(log.found) == len(mutants):
        return log.found, log.baseline
    copies = [folder / str(job) for job in range(options.jobs)]
    for copy in copies:
        copy_checkout(options.checkout, copy)
        write_mutants(copy / options.package, mutants)
    importers = find_importers(options.checkout / options.package)
    arguments = list_arguments(options.checkout, options.tests)
    workers: list[Worker] = []
    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            workers += pool.map(lambda copy: Worker(copy, options.package, arguments, runtime.RECORD), copies)
        for worker in workers:
            if worker.collected["errors"] or worker.collected["tests"] != workers[0].collected["tests"]:
                message = f"the tests cannot be collected\n{worker.log.read_text('utf-8', 'replace')}"
                raise Ended(message)
        baseline = log.baseline or make_baseline(workers, note)
        log.write_baseline(baseline)
        run = Run(mutants, baseline, options.seconds, options.package, importers)
        free = list(zip(copies, workers))

        def judge(number: int) -> tuple[str, str]:
            if number in log.found:
                return log.found[number]
            copy, worker = free.pop()
            try:
                found = run.judge(number, copy, worker)
            except Ended:  # something has killed the worker
                worker.end()
                worker = Worker(copy, options.package, arguments, runtime.RECORD)
                workers.append(worker)
                found = run.judge(number, copy, worker)
            finally:
                free.append((copy, worker))
            note(f"{number + 1}/{len(mutants)} {found[0]}: {mutants[number]} {found[1]}")
            log.write([number, *found])
            return found

        with ThreadPoolExecutor(options.jobs) as pool:
            return dict(enumerate(pool.map(judge, range(len(mutants))))), baseline
    finally:
        for worker in workers:
            worker.end()


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="tests.mutation", description="Run the tests against mutants of sbformat.")
    parser.add_argument("tests", nargs="*", metavar="TESTS", help="files or folders of tests (default: all)")
    parser.add_argument("--file", action="append", metavar="PATTERN", help="mutants of these files: data.py, pkl/*")
    parser.add_argument(
        "--only", action="append", default=[], metavar="FILE:LINE", help="every mutant of these lines, no sample"
    )
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="mutants, on N lines (default: 300)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of --sample (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="of tests for a mutant (default: 60)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="continue the run that wrote this file")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of standard output (default: text)")
    parser.add_argument("--checkout", type=Path, default=CHECKOUT, metavar="FOLDER", help="whose package and tests")
    parser.add_argument("--package", default="sbformat", metavar="NAME", help="(default: sbformat)")
    options = parser.parse_args(arguments)
    for name in ("sample", "jobs", "seconds"):
        if getattr(options, name) <= 0:
            parser.error(f"expected a number > 0 for --{name}, got {getattr(options, name)}")
    return options


def print_text(mutants: Sequence[Mutant], found: dict[int, tuple[str, str]]) -> None:
    """Print the survivors, and the numbers by package and by operator."""
    for state in SURVIVORS:
        for number, mutant in enumerate(mutants):
            if found[number][0] == state:
                print(f"{state}: {mutant}")
    rows: Counter[tuple[str, str]] = Counter()
    for number, mutant in enumerate(mutants):
        for row in (f"1 {mutant.package}", f"2 {mutant.operator}", "3 all"):
            rows[row, found[number][0]] += 1
    print(f"{'':20}" + "".join(f"{state:>13}" for state in STATES) + f"{'kill rate':>13}")
    for row in sorted({row for row, _ in rows}):
        counts = [rows[row, state] for state in STATES]
        cells = [*map(str, counts), f"{sum(counts[:2]) / sum(counts):.0%}"]
        print(f"{row[2:]:20}" + "".join(f"{cell:>13}" for cell in cells))


def print_json(mutants: Sequence[Mutant], found: dict[int, tuple[str, str]], baseline: Baseline) -> None:
    """Print every mutant."""
    rows = [
        {**asdict(mutant), "state": found[number][0], "test": found[number][1]} for number, mutant in enumerate(mutants)
    ]
    killed = sum(row["state"] not in SURVIVORS for row in rows)
    summary = {
        "kill_rate": killed / len(rows),
        "tests": len(baseline.seconds),
        "seconds": round(sum(baseline.seconds.values())),
        "dropped": baseline.dropped,
        "mutants": rows,
    }
    print(json.dumps(summary, indent=1))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests against the mutants; return 0 if none survived."""
    options = parse_arguments(arguments)
    options.checkout = options.checkout.resolve()
    every = find_mutants(options.checkout / options.package)
    mutants = [mutant for mutant in every if matches(mutant, options.file or ["*"], options.only)]
    if not options.only:
        mutants = sample_mutants(mutants, options.sample, options.seed)
    if not mutants:
        print("tests.mutation: no mutant matches --file and --only", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="mutation") as name:
        try:
            found, baseline = run_mutants(
                options, mutants, Path(name), lambda text: print(text, file=sys.stderr, flush=True)
            )
        except (Ended, ValueError) as error:
            print(f"tests.mutation: {error}", file=sys.stderr)
            return 2
    if options.format == "json":
        print_json(mutants, found, baseline)
    else:
        print_text(mutants, found)
    return int(any(state in SURVIVORS for state, _ in found.values()))


if __name__ == "__main__":
    sys.exit(main())
