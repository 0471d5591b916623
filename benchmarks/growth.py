"""How the cost grows with the size, and a plot of it: linear growth has the exponent 1.

Seconds are plotted. Instructions, which depend neither on caches nor on the load of the machine, decide whether growth
is linear: ``python -m benchmarks --only growth-instructions``. The process that is counted is
``python -m benchmarks.growth OPERATION PATH CALLS``.
"""

from __future__ import annotations

import gc
import math
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.files import ROOT, TEMPLATE
from benchmarks.instructions import CALLGRIND, COLLECTED, NO_VALGRIND, ONE_THREAD
from benchmarks.processes import Failed, last_line, run
from benchmarks.results import Curve, Line
from benchmarks.rivals import US

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.bench import Bench

STEEPEST: Final = 1.2
"""The largest exponent that counts as linear: caches that overflow and new memory pages give 1.1 to 1.2."""
ROUNDS: Final = 3
CALLS: Final = 5
ENOUGH: Final = 0.3
"""A call that takes longer, in seconds, is made once per round."""


class Dimension(NamedTuple):
    """The operations whose files grow."""

    name: str
    unit: str
    kind: str
    task: str
    sizes: tuple[int, ...]


COUNTS: Final = (10, 30, 100, 300, 1000, 3000, 10_000)
BLOBS: Final = (16, 64, 256, 1024, 4096, 16_384, 32_768, 65_536)
DIMENSIONS: Final = (
    Dimension("tensors, read", "tensors", "tensors", "read-wide", (*COUNTS, 30_000, 100_000)),
    Dimension("entries, read", "entries", "entries", "entries", COUNTS),
    Dimension("blob, decoded", "KiB", "blob", "blob", BLOBS),
    Dimension("blob, scanned", "KiB", "blob", "scan-wide", BLOBS),
)
ARCHIVES: Final = (10, 20, 50, 100, 200, 300)
QUICK: Final = 5
"""Sizes of a quick run."""


def curves(bench: Bench) -> list[Curve]:
    """Measure all curves."""
    return [*(warm_curve(bench, dimension) for dimension in DIMENSIONS), archives_curve(bench)]


def warm_curve(bench: Bench, dimension: Dimension) -> Curve:
    """Measure the best of a few calls at each size, in rounds over all sizes to spread slow moments."""
    sizes = dimension.sizes[:QUICK] if bench.is_quick else dimension.sizes
    best = dict.fromkeys(sizes, math.inf)
    for turn in range(ROUNDS):
        for size in sizes:
            bench.tell(f"{bench.measure}: {dimension.name}, {size:,}, round {turn + 1} of {ROUNDS}")
            calls = CALLS if best[size] < ENOUGH else 1
            seconds = bench.worker(US).seconds(dimension.task, bench.file(dimension.kind, size), calls)
            best[size] = min(best[size], seconds)
    bench.close([US])
    return Curve(dimension.name, dimension.unit, tuple(best.items()))


def archives_curve(bench: Bench) -> Curve:
    """Measure whole processes that scan more and more archives, without workers; the best of a few."""
    sizes = ARCHIVES[:2] if bench.is_quick else ARCHIVES
    commands = {str(size): bench.sbformat("scan", "--jobs", "1", *copies(bench, size)) for size in sizes}
    ran, _ = bench.whole(commands, ROUNDS, accepted=(0, 1))
    points = tuple((int(size), min(one.seconds for one in runs)) for size, runs in ran.items())
    return Curve("archives, scanned", "archives", points)


def copies(bench: Bench, count: int) -> list[str]:
    """Return the bundled archives in turn, so that a larger number is more of the same."""
    return [bench.bundled[at % len(bench.bundled)] for at in range(count)]


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """Return the least-squares slope between logarithms over the upper half, without the constant costs."""
    return fit(points[len(points) // 2 :] if len(points) > 3 else points)


def fit(points: Sequence[tuple[int, float]]) -> float:
    """Return the least-squares slope between logarithms."""
    sizes, costs = zip(*((math.log(size), math.log(cost)) for size, cost in points))
    return statistics.linear_regression(sizes, costs).slope


def lines(measure: str, found: Sequence[Curve]) -> list[Line]:
    """Return a line of the table for each curve."""
    made = []
    for curve in found:
        (least, _), (most, seconds) = curve.points[0], curve.points[-1]
        note = f"{least:,} to {most:,} {curve.unit}; at most {seconds:.3g} s"
        made.append(Line(measure, f"exponent: {curve.name}", "", exponent(curve.points), limit=STEEPEST, note=note))
    return made


# -- instructions -------------------------------------------------------------------------------------

STRICT: Final = 1.05
"""The largest exponent of instructions."""


class Counted(NamedTuple):
    """Operations whose instructions are counted at several sizes: the upper half of what people have."""

    name: str
    unit: str
    operations: tuple[str, ...]
    sizes: tuple[int, ...]


_ALL: Final = ("read", "inspect", "validate", "scan", "diff", "catalog")
COUNTED: Final = (
    Counted("tensors", "tensors", _ALL, (1000, 3000, 10_000, 30_000)),
    Counted("policy", "MiB", _ALL, (64, 256, 1024)),
    Counted("blob", "KiB", ("decode", "inspect", "validate", "scan", "catalog"), (1024, 4096, 16_384, 32_768)),
    Counted("entries", "entries", ("inspect", "validate", "scan"), (300, 1000, 3000)),
    Counted("files", "files", ("scan-files", "catalog-files"), (30, 100, 300)),
    Counted("files", "files", ("update-files",), (1000, 3000, 10_000)),
)  # fmt: skip
QUICK_SIZES: Final = {"tensors": (10, 30), "policy": (1, 4), "blob": (16, 64), "entries": (10, 30), "files": (2, 4)}


def prepare(operation: str, path: str) -> Callable[[], object]:
    """Return the call that is counted; it reads from the disk, with limits above the defaults."""
    import sbformat
    from benchmarks.files import WIDE
    from benchmarks.tasks import decode_blob, read_wide
    from sbformat.tools.diff import diff

    def command(name: str, *options: str) -> Callable[[], object]:
        from sbformat.cli import main as run_command

        return lambda: run_command([name, path, "--jobs", "1", "--quiet", *options])

    calls: dict[str, Callable[[], object]] = {
        "read": read_wide(US, path, ""),
        "inspect": lambda: sbformat.inspect(path, limits=WIDE),
        "validate": lambda: list(sbformat.iter_problems(path, limits=WIDE)),
        "scan": lambda: sbformat.scan(path, limits=WIDE),
        "diff": lambda: diff(path, path, limits=WIDE),
        "catalog": lambda: list(sbformat.catalog([path], limits=WIDE)),
        "decode": decode_blob(US, path, ""),
        "scan-files": command("scan"),
        "catalog-files": command("catalog", "-o", f"{path}.sqlite", "--fresh"),
        "update-files": command("catalog", "-o", f"{path}.sqlite"),
    }
    return calls[operation]


def growth_instructions(bench: Bench) -> list[Line]:
    """Return the exponents of instructions, and the memory of a tensor."""
    if shutil.which("valgrind") is None:
        return [Line(bench.measure, "exponents", "", None, note=NO_VALGRIND)]
    made = []
    for counted in COUNTED:
        sizes = QUICK_SIZES[counted.name] if bench.is_quick else counted.sizes
        make = make_files if counted.name == "files" else lambda bench, size, kind=counted.name: bench.file(kind, size)
        paths = {size: make(bench, size) for size in sizes}
        for operation in counted.operations:
            points = tuple((size, count_call(bench, operation, path)) for size, path in paths.items())
            (least, _), (most, count) = points[0], points[-1]
            note = f"{least:,} to {most:,} {counted.unit}; at most {count / 1e6:,.0f} M, {count / most:,.0f} for one"
            of = f"exponent: {counted.name}, {operation}"
            made.append(Line(bench.measure, of, "", fit(points), limit=STRICT, note=note))
            if counted.name == "tensors":
                made.append(tensor_memory(bench, operation, paths))
    return made


def make_files(bench: Bench, count: int) -> str:
    """Return a folder with that many archives, and bring its catalogue up to date.

    It is two folders below the other files: a catalogue of one of those lists what is beside it and one folder below.
    """
    folder = Path(bench.folder) / "files" / str(count)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / f"{number:06}.zip"
        if not path.exists():
            shutil.copyfile(TEMPLATE, path)
    subprocess.run(call("update-files", str(folder), 1), cwd=ROOT, env=bench.env, stdout=subprocess.DEVNULL, check=True)
    return str(folder)


def call(operation: str, path: str, calls: int) -> list[str]:
    """Return the command of the process that makes calls."""
    return [sys.executable, "-m", "benchmarks.growth", operation, path, str(calls)]


def count_call(bench: Bench, operation: str, path: str) -> float:
    """Return the instructions of one call, without those of the process that makes it."""
    found = []
    for calls in (0, 1):
        bench.tell(f"{bench.measure}: {operation} {Path(path).name}, {calls} calls")
        env = {**bench.env, **ONE_THREAD, "PYTHONHASHSEED": "0"}
        command = [*CALLGRIND, *call(operation, path, calls)]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False)
        count = COLLECTED.search(done.stderr)
        if done.returncode or count is None:
            raise Failed(last_line(done.stderr))
        found.append(int(count[1]))
    return float(found[1] - found[0])


def tensor_memory(bench: Bench, operation: str, paths: dict[int, str]) -> Line:
    """Return the peak memory that each further tensor takes."""
    sizes = sorted(paths)
    least, most = (run(call(operation, paths[size], 1), bench.env).peak for size in (sizes[0], sizes[-1]))
    note = f"peak resident memory, {sizes[0]:,} to {sizes[-1]:,} tensors of 64 bytes"
    return Line(
        bench.measure, f"memory of a tensor: {operation}", "bytes", (most - least) / (sizes[-1] - sizes[0]), note=note
    )


def main(operation: str, path: str, calls: str) -> None:
    """Make the calls, after one with a small archive that imports what they need.

    Garbage is not collected meanwhile: how often Python looks at all objects depends on how many there were before.
    """
    small = f"{path}.small"
    if operation.endswith("-files"):
        os.makedirs(small, exist_ok=True)
        shutil.copyfile(TEMPLATE, os.path.join(small, "0.zip"))
    else:
        small = str(TEMPLATE)
    warm = "read" if operation == "decode" else operation
    prepare(warm, small)()
    made = prepare(operation, path)
    gc.collect()
    gc.disable()
    for _ in range(int(calls)):
        made()


# -- the plot -----------------------------------------------------------------------------------------

NO_MATPLOTLIB: Final = "no plot: matplotlib is not installed (the extra bench has it)"


def plot(found: Sequence[Curve], output: str) -> None:
    """Draw the seconds against the sizes, and the seconds per unit below; the same numbers give the same bytes."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "sbformat", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(found), figsize=(3.2 * len(found), 6), layout="constrained", squeeze=False)
    for curve, (above, below) in zip(found, axes.T):
        sizes = [size for size, _ in curve.points]
        seconds = [second for _, second in curve.points]
        above.loglog(sizes, seconds, "o-", label=f"exponent {exponent(curve.points):.2f}")
        above.loglog(sizes, [seconds[-1] * size / sizes[-1] for size in sizes], ":", color="grey", label="linear")
        above.set_title(curve.name)
        above.legend()
        below.loglog(sizes, [second / size for size, second in curve.points], "o-")
        below.set_xlabel(curve.unit)
        for axis in (above, below):
            axis.tick_params(which="minor", bottom=False, left=False, labelbottom=False)
    axes[0][0].set_ylabel("seconds")
    axes[1][0].set_ylabel("seconds of one")
    figure.savefig(output, metadata={"Date": None, "Creator": None})
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
