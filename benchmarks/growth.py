"""How the cost grows with the size, and a plot of it: linear growth has the exponent 1."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.results import Curve, Line
from benchmarks.rivals import US

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    upper = points[len(points) // 2 :] if len(points) > 3 else points
    sizes = [math.log(size) for size, _ in upper]
    seconds = [math.log(second) for _, second in upper]
    return statistics.linear_regression(sizes, seconds).slope


def lines(measure: str, found: Sequence[Curve]) -> list[Line]:
    """Return a line of the table for each curve."""
    made = []
    for curve in found:
        (least, _), (most, seconds) = curve.points[0], curve.points[-1]
        note = f"{least:,} to {most:,} {curve.unit}; at most {seconds:.3g} s"
        made.append(Line(measure, f"exponent: {curve.name}", "", exponent(curve.points), limit=STEEPEST, note=note))
    return made


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
