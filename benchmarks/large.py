"""Measurements with an archive of 512 MiB: opening lazily, reading, writing, extracting and converting."""

from __future__ import annotations

import json
import os
import statistics
from typing import TYPE_CHECKING, Any, Final

from benchmarks.bench import pair_by_round
from benchmarks.files import SMALL, TEMPLATE
from benchmarks.processes import Failed
from benchmarks.reading import MB, READ, peaks
from benchmarks.results import Line, compare
from benchmarks.rivals import IDEAL, MAPPED, US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.bench import Bench
    from benchmarks.processes import Ran

OPEN: Final = "from benchmarks.once import open_lazily; open_lazily()"
FLOOR: Final = "import numpy"
SYNCED: Final = (
    "import os, shutil, sys; shutil.copyfile(sys.argv[1], sys.argv[2]); os.fsync(os.open(sys.argv[2], os.O_RDWR))"
)


def large(bench: Bench) -> tuple[str, str]:
    """Return the large archive, and its size as text."""
    mebibytes = 32 if bench.is_quick else 512
    return bench.file("policy", mebibytes), f"{mebibytes} MiB"


def few(bench: Bench) -> int:
    return max(3, bench.rounds // 2)


def open_large(bench: Bench) -> list[Line]:
    path, note = large(bench)
    commands = {US: bench.python(OPEN, US, path, SMALL), FLOOR: bench.python(OPEN, "numpy", path, SMALL)}
    lost = {}
    if IDEAL in bench.versions:
        commands[IDEAL] = bench.python(OPEN, IDEAL, bench.ideal(path), SMALL)
    else:
        lost[IDEAL] = "not installed"
    if "torch" in bench.versions:
        commands[MAPPED] = bench.python(OPEN, MAPPED, bench.source(MAPPED, path), SMALL)
    ran, _ = bench.whole(commands, bench.rounds)
    reports = {name: [json.loads(one.output) for one in runs] for name, runs in ran.items()}
    lines = []
    for of, at in (("time, the first", 0), ("time, again", 1)):
        samples = {
            name: {str(turn): one["seconds"][at] for turn, one in enumerate(rows)}
            for name, rows in reports.items()
            if name != FLOOR
        }
        lines += compare(bench.measure, samples, us=US, missing=lost, of=of, note=note)
        if at == 0:
            ours = statistics.median(samples[US].values())
            lines.append(Line(bench.measure, of, "s", ours, limit=0.005, note=note))
    own, floor = (int(statistics.median(one["anonymous"] for one in reports[name])) for name in (US, FLOOR))
    return [*lines, above_floor(bench, own, floor, 8 * MB)]


def above_floor(bench: Bench, own: int, floor: int, limit: int | None) -> Line:
    """Return a line for the private memory, less that of ``import numpy``."""
    note = f"{own / MB:.0f} MB less the {floor / MB:.0f} MB of import numpy"
    return Line(bench.measure, "private memory", "B", max(own - floor, 0), limit=limit, note=note)


def read_large(bench: Bench) -> list[Line]:
    path, note = large(bench)
    names = [US, "torch", MAPPED]
    lost = bench.missing(names)
    samples = time_calls(bench, "policy", path, [name for name in names if name not in lost], is_held=False)
    commands = {name: bench.python(READ, name, bench.source(name, path)) for name in samples}
    ran, _ = bench.whole(commands, 1)
    goals = {"torch": 0.5}
    return compare(bench.measure, samples, us=US, goals=goals, peaks=peaks(ran), missing=lost, note=note)


def write_large(bench: Bench) -> list[Line]:
    path, note = large(bench)
    names = [US, "torch", "torch, synced"]
    lost = bench.missing(["torch"])
    if lost:
        names = [US]
    output = str(bench.folder / "written.zip")
    samples = time_calls(bench, "write", path, names, is_held=False, output=output)
    lines = compare(bench.measure, samples, us=US, goals={"torch, synced": 1.1}, missing=lost, note=note)
    return [line._replace(note=f"{line.note}; ours is on the disk, and read again") for line in lines]


def time_calls(
    bench: Bench, task: str, path: str, names: Sequence[str], *, is_held: bool, output: str = ""
) -> dict[str, dict[str, float]]:
    """Measure the seconds of single calls in turn; the workers are ended afterwards, which frees their memory."""
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for name in names:  # imports, and whatever makes the first call slower
        if name != MAPPED:
            bench.worker(name).seconds(task, str(TEMPLATE), 1, output=output)
    for turn in range(few(bench) + 1):
        for name in names:
            bench.tell(f"{bench.measure}: {name}, round {turn} of {few(bench)}")
            seconds = bench.worker(name).seconds(task, bench.source(name, path), 1, is_held=is_held, output=output)
            if turn:
                found[name][str(turn)] = seconds
    bench.close(names)
    if output:
        os.remove(output)
    return found


# -- commands -----------------------------------------------------------------------------------------


def extract_large(bench: Bench) -> list[Line]:
    return command_large(bench, "extract", {"copy, synced": 1.2}, 64 * MB)


def convert_large(bench: Bench) -> list[Line]:
    return command_large(bench, "convert", {}, None)


def command_large(bench: Bench, verb: str, goals: dict[str, float], limit: int | None) -> list[Line]:
    """Measure a command that writes a safetensors file, and copying as many bytes."""
    path, note = large(bench)
    output = str(bench.folder / "made.safetensors")

    def before() -> None:
        if os.path.exists(output):
            os.remove(output)
        os.sync()  # so that the disk has finished the previous one

    commands = {
        US: bench.sbformat(verb, path, "-o", output),
        "cp": ["/bin/cp", path, output],
        "copy, synced": bench.python(SYNCED, path, output),
    }
    ran, failed = bench.whole(commands, few(bench), before=before)
    if US in failed:
        raise Failed(failed[US])
    watched, _ = bench.whole({US: commands[US], FLOOR: bench.python(FLOOR)}, 2, before=before, is_sampled=True)
    before()
    own, floor = (highest(watched[name]) for name in (US, FLOOR))
    lines = compare(bench.measure, pair_by_round(ran), us=US, goals=goals, peaks=peaks(ran), missing=failed, note=note)
    return [*lines, above_floor(bench, own, floor, limit)]


def highest(runs: Sequence[Ran]) -> int:
    """Return the largest private memory of a process over its runs."""
    found: Any = max(one.anonymous for one in runs)
    return int(found)
