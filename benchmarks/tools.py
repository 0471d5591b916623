"""Measurements of ``inspect``, ``scan``, ``validate`` and ``rebuild``, as whole processes and warm."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from benchmarks.bench import FEW, MANY, pair_by_round
from benchmarks.files import TEMPLATE
from benchmarks.processes import Failed, run
from benchmarks.reading import MB, SLOW, in_turn, peaks
from benchmarks.results import Line, compare
from benchmarks.rivals import SCANNERS, US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.bench import Bench

FLOOR: Final = "python -c pass"
ANY_VERDICT: Final = (0, 1)


def inspect(bench: Bench) -> list[Line]:
    commands = {
        US: bench.sbformat("inspect", "--format", "json", str(TEMPLATE)),
        FLOOR: bench.python("pass"),
    }
    ran, _ = bench.whole(commands, bench.rounds + 4)
    found = peaks(ran)
    lines = compare(bench.measure, pair_by_round(ran), us=US, goals={FLOOR: 4.5}, peaks=found)
    return [*lines, Line(bench.measure, "peak RSS", "B", found[US], limit=20 * MB)]


def scan(bench: Bench) -> list[Line]:
    lost = {
        name: "not installed"
        for name, scanner in SCANNERS.items()
        if scanner.module is not None and scanner.module not in bench.versions
    }
    paths = {path: path for path in bench.agreed("policy")}
    few = dict(list(paths.items())[:FEW])
    files = {name: few if name in SLOW else paths for name in SCANNERS if name not in lost}
    samples, failed = in_turn(bench, "scan", files, rounds=max(2, bench.rounds // 2), calls=2)
    lines = compare(bench.measure, samples, us=US, missing={**lost, **failed}, note=f"{len(paths)} archives")
    lines = [line._replace(note=f"{line.note}; it looks into {SCANNERS[line.rival].looks_into}") for line in lines]
    return [*lines, absolute(bench, samples[US], 0.005)]


def validate(bench: Bench) -> list[Line]:
    return [measure_ours(bench, "validate", 0.0015)]


def rebuild(bench: Bench) -> list[Line]:
    return [measure_ours(bench, "rebuild", 0.02)]


def measure_ours(bench: Bench, task: str, limit: float) -> Line:
    """Return a line for a task that only sbformat can do, over the archives for which it raises no error."""
    paths = {}
    for path in bench.archives:
        try:
            bench.worker(US).seconds(task, path, 1)
        except Failed:
            continue  # invalid and unknown files raise an exception, which is not what is measured
        paths[path] = path
    samples, _ = in_turn(bench, task, {US: paths}, rounds=max(2, bench.rounds // 2))
    return absolute(bench, samples[US], limit)


def absolute(bench: Bench, values: dict[str, float], limit: float) -> Line:
    """Return a line for a time of sbformat with its own goal."""
    note = f"{len(values)} archives, the slowest {max(values.values()) * 1e3:.1f} ms"
    return Line(bench.measure, "time of one", "s", statistics.median(values.values()), limit=limit, note=note)


# -- many at once -------------------------------------------------------------------------------------


def scan_many(bench: Bench) -> list[Line]:
    paths = bench.many(20 if bench.is_quick else MANY)
    ran, _ = bench.whole({US: bench.sbformat("scan", *paths)}, max(3, bench.rounds // 2), accepted=ANY_VERDICT)
    note = f"{len(paths)} archives, as many processes as processors"
    seconds = statistics.median(one.seconds for one in ran[US])
    return [Line(bench.measure, "time", "s", seconds, limit=1.5, our_peak=peaks(ran)[US], note=note)]


def scan_jobs(bench: Bench) -> list[Line]:
    return jobs(bench, ["scan"])


def inspect_jobs(bench: Bench) -> list[Line]:
    try:
        text = run(bench.sbformat("inspect", "--help"), bench.env).output
    except Failed as error:
        text = str(error).encode()
    if b"--jobs" not in text:
        return [Line(bench.measure, "time", "s", None, note="inspect has no --jobs")]
    return jobs(bench, ["inspect", "--format", "json"])


def jobs(bench: Bench, command: Sequence[str]) -> list[Line]:
    """Compare two processes with one, over many archives."""
    paths = bench.many(20 if bench.is_quick else MANY)
    commands = {name: bench.sbformat(*command, *name.split(), *paths) for name in ("--jobs 2", "--jobs 1")}
    ran, _ = bench.whole(commands, max(3, bench.rounds // 2), accepted=ANY_VERDICT)
    note = f"{len(paths)} archives; ours is with --jobs 2"
    return compare(bench.measure, pair_by_round(ran), us="--jobs 2", peaks=peaks(ran), note=note)
