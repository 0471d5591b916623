"""Catalogue 10,000 archives: by one process, by two, and by a Dask cluster of which a worker is killed; and search it.

The archives are made of one of the repository; gamma and seed differ. It takes ten minutes or more, and runs only when
it is named. The workers of the cluster need the packages dask and distributed. Searches are measured by themselves, on
a table of as many rows, beside DuckDB, which reads the same file and answers the same query.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import math
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.bench import pair_by_round
from benchmarks.files import ROOT
from benchmarks.processes import Failed
from benchmarks.results import Line, compare
from benchmarks.rivals import US

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.bench import Bench
    from benchmarks.processes import Ran

SOURCE: Final = ROOT / "tests" / "archives" / "ppo-cartpole.zip"
FOLDERS: Final = 8
PER_FOLDER: Final = 1250
QUICK: Final = 40
RATE: Final = 100.0
"""The goal: small archives a second, by one process."""
EXPONENT: Final = 1.05
"""The goal: of the seconds as a power of the number of archives."""
SAMPLED_EVERY: Final = 0.2
MAKE: Final = """
import sys
from pathlib import Path
import sbformat

source, folder, first, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
archive = sbformat.read(source)
for number in range(first, first + count):
    data = {**archive.data, "seed": number, "gamma": 1 - 1 / (number + 2)}
    (folder / f"agent_{number:06}.zip").write_bytes(sbformat.writes(archive.replace(data=data)))
"""


class Cost(NamedTuple):
    """What one run took."""

    seconds: float
    peaks: tuple[int, ...]
    """Peak resident memory of each process, in bytes, the largest first."""
    content: bytes


def catalog(bench: Bench) -> list[Line]:
    """Return the rate, the memory and the exponent, and whether the rows are the same."""
    folders = make_archives(bench)
    count = QUICK if bench.is_quick else PER_FOLDER
    lines, seconds = [], []
    for few in (1, 2, 4, 8):
        cost = run(bench, folders[:few], f"one-{few}", ["--jobs", "1"])
        seconds.append(cost.seconds)
        lines.append(describe(bench, f"{few * count:,} archives, 1 process", few * count, cost, limit=RATE))
    slope = math.log(seconds[-1] / seconds[0]) / math.log(8)
    lines.append(Line(bench.measure, "exponent", "", slope, limit=EXPONENT, note="of seconds, from an eighth to all"))
    alone = cost.content
    cost = run(bench, folders, "two", ["--jobs", "2"])
    lines.append(describe(bench, "2 processes", FOLDERS * count, cost, note=require_same(alone, cost)))
    if importlib.util.find_spec("distributed") is None:
        return [*lines, Line(bench.measure, "Dask", "", None, note="distributed is not installed")]
    cost = run_cluster(bench, folders, seconds=seconds[-1] / 5)
    lines.append(describe(bench, "Dask, 2 workers, 1 killed", FOLDERS * count, cost, note=require_same(alone, cost)))
    return lines


def describe(bench: Bench, of: str, count: int, cost: Cost, *, note: str = "", limit: float | None = None) -> Line:
    """Return the line of a run: its rate; the goal is a least one, so that it is only in the note."""
    peaks = ", ".join(f"{peak / (1 << 20):.0f}" for peak in cost.peaks[:4])
    goal = f"; goal: {limit:g} or more" if limit is not None else ""
    note = f"{cost.seconds:.1f} s, peak MiB of each process: {peaks}{goal}" + (f"; {note}" if note else "")
    return Line(bench.measure, of, "archives/s", count / cost.seconds, our_peak=cost.peaks[0], note=note)


def require_same(alone: bytes, cost: Cost) -> str:
    """Return whether a run wrote the same file as one process.

    :raises Failed: if it did not
    """
    if cost.content != alone:
        message = "the rows are not those of one process"
        raise Failed(message)
    return "the same bytes as 1 process"


def make_archives(bench: Bench) -> list[str]:
    """Return the folders of the archives, which are made if they are not there."""
    count = QUICK if bench.is_quick else PER_FOLDER
    folders = []
    for number in range(FOLDERS):
        folder = Path(bench.folder) / f"catalogue-{count}-{number}"
        if not folder.exists():
            bench.tell(f"{bench.measure}: making {count:,} archives")
            unfinished = folder.with_suffix(".unfinished")
            unfinished.mkdir(parents=True, exist_ok=True)
            arguments = [str(SOURCE), str(unfinished), str(number * count), str(count)]
            subprocess.run([sys.executable, "-c", MAKE, *arguments], cwd=ROOT, check=True)
            unfinished.rename(folder)
        folders.append(str(folder))
    return folders


def run(bench: Bench, folders: list[str], name: str, options: list[str], others: tuple[int, ...] = ()) -> Cost:
    """Catalogue folders, and sample the memory of the command and of its processes.

    :param others: processes that work for it
    """
    output = Path(bench.folder) / f"{name}.csv"
    output.unlink(missing_ok=True)
    bench.tell(f"{bench.measure}: {name}")
    command = bench.sbformat("catalog", *folders, "-o", str(output), *options)
    begun = time.perf_counter()
    with subprocess.Popen(
        command, cwd=ROOT, env=bench.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        peaks: dict[int, int] = {}
        sampler = Thread(target=sample_peaks, args=(process, peaks, others))
        sampler.start()
        errors = process.stderr.read() if process.stderr is not None else b""
        process.wait()
    seconds = time.perf_counter() - begun
    sampler.join()
    if process.returncode:
        message = f"exit code {process.returncode}: {errors.decode('utf-8', 'replace')[-200:]}"
        raise Failed(message)
    return Cost(seconds, tuple(sorted(peaks.values(), reverse=True)) or (0,), output.read_bytes())


def sample_peaks(process: subprocess.Popen[bytes], peaks: dict[int, int], others: tuple[int, ...]) -> None:
    """Keep the peak memory of a process and of those that it starts, until it ends."""
    while process.poll() is None:
        parents = {pid: read_status(pid) for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))}
        for pid, (parent, peak) in parents.items():
            if process.pid in (pid, parent) or pid in others:
                peaks[pid] = max(peaks.get(pid, 0), peak)
        time.sleep(SAMPLED_EVERY)


def read_status(pid: int) -> tuple[int, int]:
    """Return the parent of a process, and its peak memory in bytes; zeros for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return 0, 0
    found = dict(line.partition(":")[::2] for line in lines)
    return int(found.get("PPid", "0")), int(found.get("VmHWM", "0 kB").split()[0]) << 10


def run_cluster(bench: Bench, folders: list[str], *, seconds: float) -> Cost:
    """Catalogue folders by a scheduler and two workers in processes of their own.

    :param seconds: after which a worker is killed
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
    quiet = {"env": bench.env, "cwd": ROOT, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [subprocess.Popen([*dask, "--no-dashboard"], **quiet)]  # type: ignore[call-overload]
    started += [subprocess.Popen([*worker, "--no-dashboard"], **quiet) for _ in range(2)]  # type: ignore[call-overload]
    killer = Thread(target=kill_later, args=(started[-1], seconds))
    killer.start()
    try:
        return run(bench, folders, "dask", ["--dask", address], tuple(process.pid for process in started))
    finally:
        for process in started:
            process.kill()
            process.wait()
        killer.join()


def kill_later(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Kill a process after some time."""
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)


# -- searching ----------------------------------------------------------------------------------------

TABLE: Final = """
import sys
import sbformat
from sbformat.catalogue.table_files import find_columns, find_format

source, output, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
(row,) = sbformat.catalog(source)
rows = [{**row, "source": f"agent_{at:06}.zip", "seed": at, "gamma": 1 - 1 / (at + 2)} for at in range(count)]
find_format(output).write(output, rows, find_columns(rows))
"""
DUCKDB: Final = """
import csv, sys
import duckdb

found = duckdb.execute(sys.argv[1])
writer = csv.writer(sys.stdout, lineterminator="\\n")
writer.writerow([column[0] for column in found.description])
writer.writerows(found.fetchall())
"""
QUERIES: Final = {
    "rows": (
        ("--where", "algorithm = 'PPO' and gamma < 0.999", "--columns", "source,seed,gamma"),
        "SELECT source, seed, gamma FROM '{}' WHERE algorithm = 'PPO' and gamma < 0.999",
    ),
    "groups": (
        ("--group-by", "algorithm,env", "--columns", "gamma"),
        "SELECT algorithm, env, count(*), avg(gamma), stddev_samp(gamma), count(gamma) FROM '{}' GROUP BY ALL",
    ),
}
"""Of each query, the options of the command, and the same as SQL."""
DIGITS: Final = 9
"""In which results are compared: sums of floating-point numbers depend on their order."""


def query(bench: Bench) -> list[Line]:
    """Return the time of whole processes that search a table, beside DuckDB."""
    count = FOLDERS * (QUICK if bench.is_quick else PER_FOLDER)
    lines = []
    for suffix in (".csv", ".parquet", ".jsonl"):
        if suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
            continue
        table = Path(bench.folder) / f"table-{count}{suffix}"
        if not table.exists():
            subprocess.run([sys.executable, "-c", TABLE, str(SOURCE), str(table), str(count)], cwd=ROOT, check=True)
        for name, (options, select) in QUERIES.items():
            commands = {US: bench.sbformat("catalog", str(table), *options, "--format", "csv")}
            missing = {"duckdb": "not installed"}
            if importlib.util.find_spec("duckdb") is not None:
                commands["duckdb"], missing = bench.python(DUCKDB, select.format(table)), {}
            ran, failed = bench.whole(commands, bench.rounds)
            require_same_rows(ran)
            note = f"{count:,} rows: start, the same query on the same file, the same rows printed as CSV"
            lines += compare(
                bench.measure, pair_by_round(ran), us=US, of=f"{name} of {suffix}", missing=missing | failed, note=note
            )
    return lines


def require_same_rows(ran: Mapping[str, list[Ran]]) -> None:
    """Check that all subjects printed the same values, in the same order.

    :raises Failed: if they did not
    """
    printed = [runs[0].output.decode() for runs in ran.values() if runs]
    tables = [[list(map(read_cell, row)) for row in csv.reader(io.StringIO(text))][1:] for text in printed]
    if any(table != tables[0] for table in tables):
        message = "the rows of the subjects differ"
        raise Failed(message)


def read_cell(cell: str) -> float | str:
    """Return a cell as a number with a few digits, or as text."""
    try:
        return float(f"{float(cell):.{DIGITS}g}")
    except ValueError:
        return cell
