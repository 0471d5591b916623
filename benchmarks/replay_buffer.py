"""Extract a replay buffer of 2 GiB that real SB3 saved, and tell the time and the memory that it took.

Needs stable-baselines3, 7 GiB of disk (``TMPDIR`` says where) and 3 GiB of memory, to make the buffer::

    python benchmarks/replay_buffer.py [GIBIBYTES]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

_CHILD: Final = Path(__file__).parent.parent / "tests" / "replay_child.py"
_SHAPE: Final = (4, 84, 84)
_ROW: Final = 4 * 84 * 84
_GIB: Final = 1 << 30
_MIB: Final = 1 << 20

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


def main() -> None:
    """Make it, extract it to each format, print a line each."""
    rows = int(float(sys.argv[1] if len(sys.argv) > 1 else 2) * _GIB) // (2 * _ROW)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "replay_buffer.pkl")
        subprocess.run([sys.executable, "-c", MAKE, path, str(rows)], check=True)
        size, largest = os.path.getsize(path), rows * _ROW
        sys.stdout.write(f"{size / _GIB:.2f} GiB, its largest array {largest / _MIB:,.0f} MiB\n")
        for output in ("o.safetensors", "o.npz", "o", None):
            target = [] if output is None else [os.path.join(folder, output)]
            begun = time.perf_counter()
            done = subprocess.run([sys.executable, str(_CHILD), path, *target], check=True, capture_output=True)
            seconds = time.perf_counter() - begun
            report = json.loads(done.stdout)
            what = output or f"{report['episodes']} episodes"
            sys.stdout.write(f"{what}: {seconds:.1f} s, peak {report['peak'] / _MIB:.0f} MiB\n")
            for made in target:
                subprocess.run(["rm", "-r", made], check=True)


main()
