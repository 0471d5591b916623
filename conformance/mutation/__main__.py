"""Run the vectors against mutants of the JavaScript decoder, and print those that no vector noticed.

python -m conformance.mutation --modules node_modules --file zip.js

``conformance/README.md`` describes it. Exit codes: 0, no mutant survived except those in ``equivalent.json``; 1, some did,
or an entry of that file is out of date; 2, wrong arguments, or no mutant is selected.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from conformance.mutation.mutants import INSTRUMENTER, Mutant, find_modules, read_equivalents, write_mutants
from conformance.mutation.workers import Ended, Worker, make_baseline
from conformance.runner.comparison import compare_predictions, is_same
from conformance.runner.vectors import encode_json, read_second_file, read_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.runner.vectors import Vector

LIKELY: Final = 40
"""Vectors of the first request for a mutant: most mutants are killed by a few."""

OTHERS: Final = 400
"""Vectors of a later request: a mutant that does not end is noticed after the time for one request."""

STATES: Final = ("killed", "timeout", "equivalent", "survived", "not covered")
UNKNOWN_ARGUMENT: Final = 2


@dataclass
class Run:
    """What all workers share."""

    vectors: list[Vector]
    baseline: dict[str, Any]
    equivalents: dict[tuple[str, str, str, str], str]
    kills: dict[str, Counter[int]] = field(default_factory=dict)
    """By file, the vectors that killed a mutant."""
    sections: dict[str, Counter[str]] = field(default_factory=dict)
    """By file, the sections of these vectors."""

    def order(self, mutant: Mutant) -> list[int]:
        """List the vectors that reach a mutant, those first that probably kill it.

        These are the vectors that killed other mutants of its file, then those of the same sections, then the fast ones.
        """
        at_load = mutant.id in self.baseline["atLoad"]
        reached = range(len(self.vectors)) if at_load else self.baseline["reached"].get(mutant.id, [])
        kills, sections = (
            self.kills.setdefault(mutant.file, Counter()),
            self.sections.setdefault(mutant.file, Counter()),
        )
        times = self.baseline["times"]

        def key(index: int) -> tuple[int, int, float]:
            return (-kills[index], -sections[self.vectors[index]["section"]], times[index])

        return sorted(reached, key=key)

    def count_kill(self, file: str, index: int) -> None:
        """Count a vector that killed a mutant."""
        self.kills[file][index] += 1
        self.sections[file][self.vectors[index]["section"]] += 1

    def is_noticed(self, index: int, found: dict[str, Any]) -> bool:
        """Whether ``run.py`` would reject an answer that differs from the baseline."""
        vector, known = self.vectors[index], self.baseline["answers"][index]
        if found["code"] != 0 or known["code"] != 0:
            return True
        try:
            wanted, got = json.loads(known["text"]), json.loads(found["text"])
        except (TypeError, ValueError):
            return True
        if vector["kind"] == "policy":
            return bool(compare_predictions(wanted, got, vector["tolerance"]))
        return not is_same(wanted, got)

    def judge(self, mutant: Mutant, worker: Worker) -> str:
        """Run the vectors against a mutant; return its state."""
        if mutant.key in self.equivalents:
            return "equivalent"
        waiting = self.order(mutant)
        if not waiting:
            return "not covered"
        size = LIKELY
        while waiting:
            part, rest = waiting[:size], waiting[size:]
            try:
                found = worker.ask(mutant.id, part, sum(self.baseline["times"][index] for index in part) / 1000)
            except Ended:
                return "timeout"
            index = found.get("vector")
            if "crash" in found or (index is not None and self.is_noticed(index, found)):
                self.count_kill(mutant.file, part[0] if index is None else index)
                return "killed"
            waiting = rest if index is None else [*part[part.index(index) + 1 :], *rest]
            size = OTHERS
        return "survived"


def list_vectors() -> list[Vector]:
    """List the vectors of decoders."""
    return [vector for vector in read_vectors() if vector["kind"] != "encode"]


def write_requests(vectors: Sequence[Vector], folder: Path) -> Path:
    """Write requests of the batch protocol for vectors, as a JSON array, and the files that --predict and --equal name."""
    requests = []
    for vector in vectors:
        arguments = vector.get("arguments", [])
        if (beside := read_second_file(vector)) is not None:
            option, content = beside
            path = folder / f"{vector['name']}.second"
            path.write_bytes(content)
            arguments = [option, str(path), *arguments]
        requests.append({"arguments": arguments, "base64": vector["base64"]})
    (folder / "vectors.json").write_bytes(encode_json(requests))
    return folder / "vectors.json"


def drop_skipped(baseline: dict[str, Any]) -> None:
    """Remove the vectors with features that the decoder lacks."""
    skipped = {index for index, known in enumerate(baseline["answers"]) if known["code"] == UNKNOWN_ARGUMENT}
    baseline["reached"] = {
        mutant: [index for index in indexes if index not in skipped] for mutant, indexes in baseline["reached"].items()
    }
    baseline["atLoad"] = set(baseline["atLoad"])
    baseline["skipped"] = skipped


def run_mutants(run: Run, mutants: Sequence[Mutant], folder: Path, decoder: Path, jobs: int) -> dict[str, list[Mutant]]:
    """Run the vectors against the mutants; return these by state."""
    workers = [Worker(decoder, folder / "vectors.json", folder / "baseline.json") for _ in range(jobs)]
    free = list(workers)

    def judge(mutant: Mutant) -> str:
        worker = free.pop()
        try:
            return run.judge(mutant, worker)
        finally:
            free.append(worker)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            states = list(pool.map(judge, mutants))
    finally:
        for worker in workers:
            worker.end()
    return {state: [mutant for mutant, found in zip(mutants, states) if found == state] for state in STATES}


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="conformance.mutation", description="Run the vectors against mutants.")
    parser.add_argument("--modules", metavar="FOLDER", help=f"node_modules with {INSTRUMENTER}")
    parser.add_argument("--file", action="append", metavar="PATTERN", help="mutants of these files: zip.js, policy/*")
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="of --sample (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of standard output (default: text)")
    options = parser.parse_args(arguments)
    if options.sample is not None and options.sample < 1:
        parser.error(f"expected a number >= 1 for --sample, got {options.sample}")
    options.modules = find_modules(options.modules) or parser.error(
        f"no {INSTRUMENTER}: npm install it, then pass --modules, or set SBFORMAT_NODE_MODULES"
    )
    return options


def select_mutants(mutants: Sequence[Mutant], options: argparse.Namespace) -> list[Mutant]:
    """Select the mutants to run."""
    patterns = options.file or ["*"]
    selected = [m for m in mutants if any(fnmatch.fnmatchcase(m.file, pattern) for pattern in patterns)]
    if options.sample is None or options.sample >= len(selected):
        return selected
    return random.Random(options.seed).sample(selected, options.sample)  # noqa: S311 -- no secret


def print_text(found: dict[str, list[Mutant]], stale: Sequence[tuple[str, str, str, str]]) -> None:
    """Print the survivors, and the number of mutants by file and state."""
    for state in ("survived", "not covered"):
        for mutant in sorted(found[state], key=lambda mutant: (mutant.file, mutant.line, mutant.column)):
            print(f"{state}: {mutant} [{mutant.mutator}]")
    for key in stale:
        print(f"equivalent.json has no such mutant: {json.dumps(key)}")
    counts = Counter((mutant.file, state) for state, mutants in found.items() for mutant in mutants)
    print(f"{'':24}" + "".join(f"{state:>12}" for state in STATES))
    for row in [*sorted({file for file, _ in counts}), "all"]:
        cells = [sum(n for (file, state), n in counts.items() if state == wanted and row in (file, "all"))
                 for wanted in STATES]  # fmt: skip
        print(f"{row:24}" + "".join(f"{cell:>12}" for cell in cells))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the vectors against the mutants; return 0 if none survived."""
    sys.setrecursionlimit(10_000)
    options = parse_arguments(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        decoder, mutants = write_mutants(options.modules, folder)
        selected = select_mutants(mutants, options)
        if not selected:
            print("conformance.mutation: no mutant matches --file", file=sys.stderr)
            return 2
        vectors = list_vectors()
        (folder / "baseline.json").write_bytes(make_baseline(decoder, write_requests(vectors, folder)))
        baseline = json.loads((folder / "baseline.json").read_bytes())
        drop_skipped(baseline)
        run = Run(vectors, baseline, read_equivalents())
        found = run_mutants(run, selected, folder, decoder, options.jobs)
    stale = sorted(run.equivalents.keys() - {mutant.key for mutant in mutants})
    if options.format == "json":
        states = {state: [asdict(mutant) for mutant in rows] for state, rows in found.items()}
        print(json.dumps({"mutants": states, "stale": stale}, indent=1))
    else:
        print_text(found, stale)
    return int(bool(found["survived"] or found["not covered"] or stale))


if __name__ == "__main__":
    sys.exit(main())
