"""Extract a replay buffer of 2 GiB that SB3 saved, to each format, and measure time and memory.

It needs stable-baselines3, 7 GiB of disk and 3 GiB of memory to make the buffer, so it runs only when it is named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.files import ROOT
from benchmarks.processes import run
from benchmarks.results import Line

if TYPE_CHECKING:
    from benchmarks.bench import Bench

ROW: Final = 4 * 84 * 84
GIB: Final = 1 << 30
MAKE: Final = """
import sys
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.save_util import save_to_pkl

path, rows = sys.argv[1], int(sys.argv[2])
shape = (4, 84, 84)
buffer = ReplayBuffer(rows, spaces.Box(0, 255, shape, np.uint8), spaces.Discrete(4), device="cpu")
one = np.random.default_rng(0).integers(0, 256, (1, *shape), dtype=np.uint8)
for step in range(rows + rows // 3):
    one[0, 0, 0, :4] = np.frombuffer(np.int32(step).tobytes(), np.uint8)
    done = step % 500 == 499
    infos = [{"TimeLimit.truncated": bool(done and step % 1000 == 999)}]
    buffer.add(one, one, np.array([step % 4]), np.array([float(step)]), np.array([done]), infos)
save_to_pkl(path, buffer)
"""
READ: Final = """
import sys
from sbformat import read_replay_buffer

buffer = read_replay_buffer(sys.argv[1])
episodes = buffer.episodes()
rewards = sum(buffer.steps(episode)["rewards"].sum() for episode in episodes[:10])
"""


def replay_buffer(bench: Bench) -> list[Line]:
    """Return a line for each format, and one for finding the episodes."""
    if "stable_baselines3" not in bench.versions:
        return [Line(bench.measure, "time", "s", None, note="stable_baselines3 is not installed")]
    size = GIB // 32 if bench.is_quick else 2 * GIB
    path = make_buffer(bench, size // (2 * ROW))
    note = f"{os.path.getsize(path) / GIB:.2f} GiB, its largest array {size / 2 / GIB:.2f} GiB"
    lines = []
    for output in ("made.safetensors", "made.npz", "made"):
        target = bench.folder / output
        bench.tell(f"{bench.measure}: {output}")
        lines.append(measure_process(bench, f"to {output}", bench.sbformat("extract", path, "-o", str(target)), note))
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()
    return [*lines, measure_process(bench, "its episodes", bench.python(READ, path), note)]


def make_buffer(bench: Bench, rows: int) -> str:
    """Return the file of the buffer, which SB3 writes."""
    path = Path(bench.folder) / f"replay-buffer-{rows}.pkl"
    if not path.exists():
        bench.tell(f"{bench.measure}: making the buffer")
        unfinished = path.with_suffix(".unfinished.pkl")
        subprocess.run([sys.executable, "-c", MAKE, str(unfinished), str(rows)], cwd=ROOT, check=True)
        unfinished.rename(path)
    return str(path)


def measure_process(bench: Bench, of: str, command: list[str], note: str) -> Line:
    """Measure one whole process."""
    ran = run(command, bench.env)
    return Line(bench.measure, of, "s", ran.seconds, our_peak=ran.peak, note=note)
