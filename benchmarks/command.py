"""The command line: ``python -m benchmarks``, run in the root of the repository (README.md)."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import growth, history, page, report
from benchmarks.bench import Bench
from benchmarks.files import ROOT
from benchmarks.measures import MEASURES
from benchmarks.processes import Failed
from benchmarks.results import Line

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE: Final = Path(__file__).resolve().parent
ROUNDS: Final = 7
QUICK_ROUNDS: Final = 2
CLEAR: Final = "\r\x1b[K"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure sbformat beside what is installed of torch, ptloader, safetensors, tinygrad, picklescan "
        "and fickling, in one interleaved run. Nothing is installed.",
    )
    made.add_argument("--list", action="store_true", help="print the names of the measurements and exit")
    made.add_argument("--only", default="", metavar="NAME[,NAME]", help="make these measurements only")
    made.add_argument("--quick", action="store_true", help="few archives and rounds, 32 instead of 512 MiB")
    made.add_argument("--rounds", type=int, metavar="N", help=f"rounds of every measurement (default: {ROUNDS})")
    made.add_argument("--instructions", action="store_true", help="the same as --only instructions")
    made.add_argument(
        "--history", default="", metavar="NAME", help="count instructions, and write them to a column of history.md"
    )
    made.add_argument(
        "--page", action="store_true", help="measure what docs/speed.md has, and write that page and results.json"
    )
    made.add_argument("--against", default="", metavar="REVISION", help="also count the instructions of that commit")
    made.add_argument(
        "--output", type=Path, default=HERE / "results", metavar="DIR", help="folder of table.md, results.json"
    )
    made.add_argument("--plot", type=Path, metavar="FILE", help="file of the plot (default: benchmarks/growth.svg)")
    made.add_argument("--keep", type=Path, metavar="DIR", help="keep generated files there, and reuse them")
    return made


def select_measures(options: argparse.Namespace, made: argparse.ArgumentParser) -> list[str]:
    """Return the names of the measurements to make."""
    if options.instructions or options.against or options.history:
        return ["instructions"]
    names = [name for name in options.only.split(",") if name]
    for name in names:
        if name not in MEASURES:
            made.error(f"unknown measurement {name!r}; available: {', '.join(MEASURES)}")
    if options.page and not names:
        wanted = {row.measure for row in page.ROWS}
        return [name for name, measure in MEASURES.items() if measure.is_default and name in wanted]
    return names or [name for name, measure in MEASURES.items() if measure.is_default]


def tell(text: str) -> None:
    """Show the progress, in one line of a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(CLEAR + text[:100])
        sys.stderr.flush()


def run_measures(bench: Bench, names: Sequence[str]) -> list[Line]:
    """Make the measurements one after the other; one that fails becomes a line with its error."""
    lines = []
    for name in names:
        bench.measure = name
        try:
            lines += MEASURES[name].take(bench)
        except (Failed, OSError, subprocess.SubprocessError) as error:
            lines.append(Line(name, "-", "s", None, note=f"failed: {error}"))
        bench.close()
    tell("")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; return 0 even if a goal is missed, because the machine may be slower."""
    made = parser()
    options = made.parse_args(arguments)
    if options.list:
        for measure in MEASURES.values():
            print(f"{measure.name:18} {measure.about}{'' if measure.is_default else '; only when it is named'}")
        return 0
    names = select_measures(options, made)
    rounds = max(1, options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(folder.resolve(), rounds=rounds, is_quick=options.quick, tell=tell, against=options.against)
        try:
            lines = run_measures(bench, names)
        finally:
            bench.close()
    write_results(bench, lines, options)
    return 0


def write_results(bench: Bench, lines: Sequence[Line], options: argparse.Namespace) -> None:
    """Print the table, and write the documents and the plot."""
    about = report.environment(bench.versions, len(bench.archives))
    print(report.text(lines))
    print(report.summary(lines), end="")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "table.md").write_text(report.markdown(lines, about), "utf-8")
    (options.output / "results.json").write_text(report.document(lines, bench.curves, about), "utf-8")
    if options.history:
        history.write(lines, options.history, options.against)
    if options.page or options.history:
        old, before = page.read_results()
        kept = before if options.history and before else about
        page.RESULTS.write_text(report.document(page.merge(old, lines), (), kept), "utf-8", newline="\n")
        page.write_page()
    if bench.curves and "matplotlib" not in bench.versions:
        print(growth.NO_MATPLOTLIB)
    elif bench.curves:
        default = options.output / "growth.svg" if options.quick else HERE / "growth.svg"
        growth.plot(bench.curves, str(options.plot or default))
    print(f"written to {relative(options.output)}: table.md, results.json")


def relative(path: Path) -> str:
    """Return a path relative to the root of the repository."""
    return str(path.resolve().relative_to(ROOT)) if path.resolve().is_relative_to(ROOT) else str(path)
