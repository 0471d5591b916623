"""``python -m benchmarks.scanners``: what scanners of model files report for files of Stable-Baselines3.

Each scanner is installed into a virtual environment of its own, as its authors publish it, and run by its command line
with its defaults, on the same files. The tables are those of ``docs/comparison.md``.

One cell is what the scanner itself reports, in its own words, reduced to: a verdict or the worst severity; ``nothing
found``; ``not read`` when it reports that it skipped the file or could not parse it; ``crash``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.scanned_files import PROOF, ScannedFile, make_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
NOTHING: Final = "nothing found"
NOT_READ: Final = "not read"
CRASH: Final = "crash"
ATTEMPTS: Final = 3
RUNS: Final = "runs in SB3"
"""The column with the releases of SB3 that run the command in a file when they load it."""


class Done(NamedTuple):
    """A scanner that has run."""

    status: int
    output: str
    errors: str


class Scanner(NamedTuple):
    """A scanner, how it is installed and run, and how its report is reduced to a cell."""

    name: str
    packages: tuple[str, ...]
    arguments: tuple[str, ...]
    """Before the path."""
    summarize: Callable[[Done], str]
    takes_folders: bool = True


def summarize_sbformat(done: Done) -> str:
    (file, *_) = json.loads(done.output)["files"]
    return str(file["verdict"]).replace("_", " ")


def summarize_picklescan(done: Done) -> str:
    if "Scanned files: 0" in done.output:
        return NOT_READ
    return {0: NOTHING, 1: "infected"}.get(done.status, CRASH)


def summarize_modelscan(done: Done) -> str:
    text = done.output + done.errors
    if done.status == 1:
        found = (name for name in ("CRITICAL", "HIGH", "MEDIUM", "LOW") if f"--- {name} ---" in text)
        return next(found, "issue").lower()
    is_refused = done.status == 3 or "does not support nested zip" in text
    return NOT_READ if is_refused else {0: NOTHING}.get(done.status, CRASH)


def summarize_fickling(done: Done) -> str:
    if "Traceback" in done.errors:
        return CRASH
    return {0: NOTHING, 1: "unsafe", 2: NOT_READ}.get(done.status, CRASH)


def summarize_modelaudit(done: Done) -> str:
    if done.status not in {0, 1}:
        return CRASH
    found = {issue["severity"] for issue in json.loads(done.output)["issues"]}
    return next((name for name in ("critical", "warning") if name in found), NOTHING)


SCANNERS: Final = (
    Scanner("sbformat", (), ("scan", "--format", "json"), summarize_sbformat),
    Scanner("picklescan", ("picklescan==1.0.5",), ("--path",), summarize_picklescan),
    Scanner("modelscan", ("modelscan==0.8.8",), ("-p",), summarize_modelscan),
    Scanner(
        "fickling",
        ("fickling==0.1.12", "typing_extensions"),  # which this release of fickling imports and does not require
        ("--check-safety",),
        summarize_fickling,
        takes_folders=False,
    ),
    Scanner("modelaudit", ("modelaudit==0.2.54",), ("scan", "--no-cache", "--format", "json"), summarize_modelaudit),
)
NAMES: Final = tuple(scanner.name for scanner in SCANNERS)
ENVIRONMENT: Final = {**os.environ, "PROMPTFOO_DISABLE_TELEMETRY": "1", "NO_ANALYTICS": "1", "PYTHONPATH": str(ROOT)}


def install(scanner: Scanner, folder: Path) -> None:
    """Create the environment of a scanner, unless it is there."""
    if not scanner.packages or (folder / scanner.name / "bin" / scanner.name).exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(folder / scanner.name)], check=True)
    pip = [str(folder / scanner.name / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *scanner.packages], check=True)


def scan(scanner: Scanner, path: Path, environments: Path, workplace: Path) -> Done:
    """Run a scanner on one path."""
    start = [sys.executable, "-m", "sbformat"]
    if scanner.packages:
        start = [str((environments / scanner.name / "bin" / scanner.name).absolute())]
    run = subprocess.run(
        [*start, *scanner.arguments, str(path)], cwd=workplace, env=ENVIRONMENT, capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip
    return Done(run.returncode, run.stdout, run.stderr)


def summarize_file(scanner: Scanner, path: Path, environments: Path, workplace: Path) -> str:
    """Return the cell of a scanner and a path; run it again after a crash, because one stops on a busy machine."""
    for _ in range(ATTEMPTS):
        done = scan(scanner, path, environments, workplace)
        cell = scanner.summarize(done)
        if cell != CRASH:
            return cell
    print(f"{scanner.name} {path.name}: exit status {done.status}\n{done.errors[-1000:]}", file=sys.stderr)
    return CRASH


def summarize(scanner: Scanner, path: Path, environments: Path, workplace: Path) -> str:
    """Return the cell of a scanner and a file; the worst of the entries where it takes no folders."""
    if not path.is_dir() or scanner.takes_folders:
        return summarize_file(scanner, path, environments, workplace)
    cells = {
        summarize_file(scanner, part, environments, workplace) for part in sorted(path.rglob("*.pth"))
    }  # fmt: skip
    return min(cells, key=[CRASH, NOT_READ, NOTHING].index) if cells <= {CRASH, NOT_READ, NOTHING} else "unsafe"


def runs_when_loaded(file: ScannedFile, python: str, workplace: Path) -> bool:
    """Whether the command in a file runs when its library loads it."""
    proof = workplace / PROOF
    proof.unlink(missing_ok=True)
    subprocess.run(
        [python, str(ROOT / "benchmarks" / "load_child.py"), str(file.loader), str(file.path)],
        cwd=workplace, capture_output=True, check=True, timeout=600,
    )  # fmt: skip
    return proof.exists()


def render_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def find_sb3(python: str) -> str:
    """Return the release of SB3 that a Python has."""
    code = "from importlib.metadata import version; print(version('stable-baselines3'))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def compare_on_files(environments: Path, pythons: Sequence[str], workplace: Path) -> str:
    """Return the table of files and scanners."""
    folder = workplace / "files"
    folder.mkdir()
    releases = {python: find_sb3(python) for python in pythons}
    rows = []
    for file in make_files(folder):
        cells = [summarize(scanner, file.path, environments, workplace) for scanner in SCANNERS]
        ran = [releases[python] for python in pythons if file.loader and runs_when_loaded(file, python, workplace)]
        rows.append([file.title, *([", ".join(ran) or ("no" if file.loader else "")] if pythons else []), *cells])
    return render_table(["file", *([RUNS] if pythons else []), *NAMES], rows)


def drop_runs(table: str) -> str:
    """Return a table without the column of what loading runs."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    kept = [at for at, name in enumerate(rows[0]) if name != RUNS]
    return render_table([rows[0][at] for at in kept], [[row[at] for at in kept] for row in rows[2:]])


def is_in_page(table: str, page: str) -> bool:
    """Whether a page has the table; what loading runs is compared only if the table has it."""
    shown = next(part for part in page.split("\n\n") if part.startswith("| file |"))
    return table == shown if RUNS in table else table == drop_runs(shown)


def measure_children() -> float:
    """Return the seconds that the processor has worked for child processes that have ended."""
    return sum(os.times()[2:4])


def compare_on_agents(environments: Path, agents: Sequence[Path], workplace: Path) -> str:
    """Return the table of what the scanners report for real archives, with the median time of the processor for one."""
    rows = []
    for scanner in SCANNERS:
        cells, times = [], []
        for path in agents:
            begin = measure_children()
            cells.append(summarize(scanner, path, environments, workplace))
            times.append(measure_children() - begin)
        counts = {cell: cells.count(cell) for cell in sorted(set(cells))}
        text = ", ".join(f"{count} {cell}" for cell, count in counts.items())
        rows.append([scanner.name, text, f"{statistics.median(times):.2g} s"])
    return render_table(["scanner", f"reports for {len(agents)} archives", "processor time for one"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the scanners, run them and print the tables."""
    parser = argparse.ArgumentParser(description="Compare scanners of model files on files of Stable-Baselines3.")
    parser.add_argument("--environments", type=Path, help="folder of the scanners' environments, which is kept")
    parser.add_argument("--sb3", action="append", default=[], help="a Python with Stable-Baselines3, to load the files")
    parser.add_argument("--agents", type=Path, help="a folder of real archives (.zip), for the second table")
    parser.add_argument("--check", type=Path, help="a page that must have the first table")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        workplace = Path(name)
        environments = options.environments or workplace / "environments"
        for scanner in SCANNERS:
            install(scanner, environments)
        table = compare_on_files(environments, options.sb3, workplace)
        print(table)
        if options.agents is not None:
            agents = sorted(path.absolute() for path in options.agents.rglob("*.zip"))
            print("\n" + compare_on_agents(environments, agents, workplace))
        if options.check is not None and not is_in_page(table, options.check.read_text("utf-8")):
            print(f"{options.check} has another table")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
