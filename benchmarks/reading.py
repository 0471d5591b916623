"""Measurements of reading weights, cold (whole processes) and warm (one worker per subject, used in turn)."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from benchmarks.bench import MANY, pair_by_round
from benchmarks.files import TEMPLATE
from benchmarks.processes import Failed
from benchmarks.results import FASTEST, Line, compare
from benchmarks.rivals import IDEAL, MODELAUDIT, READERS, US

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.bench import Bench
    from benchmarks.processes import Ran
    from benchmarks.results import Samples

CALLS: Final = 5
MB: Final = 1_000_000
RIVALS: Final = [name for name, reader in READERS.items() if reader.is_rival]
SLOW: Final = [MODELAUDIT, *(name for name, reader in READERS.items() if reader.is_slow)]
SLOW_ROUNDS: Final = 2
Files = dict[str, dict[str, str]]
"""By subject, the files it reads by key; a key means the same content for every subject."""
READ: Final = "from benchmarks.once import read; read()"
FLOORS: Final = {"python -c pass": "pass", "import numpy": "import numpy"}


def peaks(ran: Mapping[str, Sequence[Ran]]) -> dict[str, int]:
    """Return the median of the peak memory of processes."""
    return {name: int(statistics.median(one.peak for one in runs)) for name, runs in ran.items() if runs}


def cold(bench: Bench, paths: list[str], rounds: int, goals: Mapping[str, float], note: str) -> list[Line]:
    """Measure whole processes that read the policies of these archives; for one archive, also the empty baselines."""
    bench.agreed("policy")  # finds out which readers work
    names = bench.readers()
    commands = {name: bench.python(READ, name, *paths) for name in names}
    if IDEAL in bench.versions:
        commands[IDEAL] = bench.python(READ, IDEAL, *bench.ideals(paths))
    if len(paths) == 1:
        commands.update({name: bench.python(code) for name, code in FLOORS.items()})
    ran, failed = bench.whole(commands, rounds, slow=dict.fromkeys(SLOW, SLOW_ROUNDS))
    lost = {**bench.missing(READERS), **failed}
    found = peaks(ran)
    lines = compare(
        bench.measure, pair_by_round(ran), us=US, goals=goals, rivals=RIVALS, peaks=found, missing=lost, note=note
    )  # fmt: skip
    if len(paths) == 1:
        lines.append(Line(bench.measure, "peak RSS", "B", found[US], limit=30 * MB))
    return lines


def cold_one(bench: Bench) -> list[Line]:
    return cold(bench, [str(TEMPLATE)], bench.rounds + 2, {"torch": 0.065, "ptloader": 0.80}, "")


def cold_many(bench: Bench) -> list[Line]:
    able = sorted(bench.agreed("policy"), key=lambda path: path in bench.bundled)  # the corpus first, if it exists
    paths = (able * MANY)[: 20 if bench.is_quick else MANY]
    return cold(bench, paths, bench.rounds, {FASTEST: 0.90}, f"{len(paths)} archives")


# -- warm ---------------------------------------------------------------------------------------------


def in_turn(
    bench: Bench, task: str, files: Files, *, rounds: int, calls: int = CALLS, is_held: bool = True
) -> tuple[Samples, dict[str, str]]:
    """Measure subjects in turn, file by file, round by round.

    :return: by subject and file, the median over rounds of the best of some calls; and the subjects that failed
    """
    found: dict[str, dict[str, list[float]]] = {name: {} for name in files}
    failed: dict[str, str] = {}
    for turn in range(rounds):
        for at, key in enumerate(files[US], 1):
            bench.tell(f"{bench.measure}: round {turn + 1} of {rounds}, file {at} of {len(files[US])}")
            for name, paths in files.items():
                if key not in paths or name in failed or (name in SLOW and turn >= SLOW_ROUNDS):
                    continue
                try:
                    best = bench.worker(name).seconds(task, paths[key], 1 if name in SLOW else calls, is_held=is_held)
                except Failed as error:
                    failed[name] = f"not available: {error}"
                    continue
                found[name].setdefault(key, []).append(best)
    samples = {
        name: {key: statistics.median(values) for key, values in rows.items()}
        for name, rows in found.items()
        if name not in failed
    }
    return samples, failed


def quick_files(bench: Bench, paths: Sequence[str]) -> Files:
    """Return the files of each reader that is not a slow one."""
    return {name: {path: path for path in paths} for name in bench.readers() if name not in SLOW}


def slow_files(bench: Bench, task: str, paths: Sequence[str]) -> Files:
    """Return the files of the slow readers: a few of the archives."""
    return {
        name: {path: path for path in bench.few_agreed(task, name, paths)} for name in bench.readers() if name in SLOW
    }


def ideal_files(bench: Bench, paths: Sequence[str]) -> Files:
    """Return the safetensors files that correspond to these archives."""
    return {IDEAL: dict(zip(paths, bench.ideals(paths)))} if IDEAL in bench.versions else {}


def warm_policy(bench: Bench) -> list[Line]:
    paths = bench.agreed("policy")
    files = {**quick_files(bench, paths), **slow_files(bench, "policy", paths), **ideal_files(bench, paths)}
    samples, failed = in_turn(bench, "policy", files, rounds=bench.rounds)
    lost = {**bench.missing(READERS), **failed}
    goals = {"torch": 0.28, FASTEST: 0.90}
    note = f"{len(paths)} archives"
    return compare(bench.measure, samples, us=US, goals=goals, rivals=RIVALS, missing=lost, note=note)


def warm_optimizer(bench: Bench) -> list[Line]:
    paths = bench.agreed("optimizer")
    files = {**quick_files(bench, paths), **slow_files(bench, "optimizer", paths)}
    samples, failed = in_turn(bench, "optimizer", files, rounds=bench.rounds)
    lost = {name: why for name, why in bench.missing(READERS).items() if name in RIVALS}
    note = f"{len(paths)} archives"
    return compare(
        bench.measure, samples, us=US, goals={"torch": 0.35}, rivals=RIVALS, missing={**lost, **failed}, note=note
    )


def warm_tensors(bench: Bench) -> list[Line]:
    count = 1000 if bench.is_quick else 10_000
    paths = [bench.file("tensors", count)]
    files = {**quick_files(bench, paths), **ideal_files(bench, paths)}
    return by_round(bench, "policy", files, f"{count:,} tensors")


def warm_data(bench: Bench) -> list[Line]:
    mebibytes = 4 if bench.is_quick else 40
    path = bench.file("data", mebibytes)
    return by_round(bench, "data", {name: {path: path} for name in (US, "json.loads")}, f"{mebibytes} MiB of data")


def by_round(bench: Bench, task: str, files: Files, note: str) -> list[Line]:
    """Compare over one file, where each round is a pair."""
    found: dict[str, dict[str, float]] = {name: {} for name in files}
    lost: dict[str, str] = {}
    for turn in range(max(3, bench.rounds // 2)):
        samples, failed = in_turn(bench, task, files, rounds=1, calls=2)
        lost.update(failed)
        for name, values in samples.items():
            found[name].update({str(turn): seconds for seconds in values.values()})
    lost = {**{name: why for name, why in bench.missing(READERS).items() if name in files}, **lost}
    return compare(bench.measure, found, us=US, rivals=RIVALS, missing=lost, note=note)
