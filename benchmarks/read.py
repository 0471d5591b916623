"""Compare sbformat with torch on reading policies, in one interleaved run: ratios, not times.

    python benchmarks/read.py ARCHIVE...

Warm: in one process, the archive's bytes to all policy tensors as arrays, CRCs checked by sbformat; per archive
the best of several rounds of both, in turn, five calls each. Cold: whole processes, the median of several, on the
first archive, with the bytecode cached, as an installation has it. Needs torch (the extra ``bench``); installs nothing.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = 5
COLD_OURS = "import sys, sbformat; sbformat.read(sys.argv[1]).parameters['policy'].to_numpy()"
COLD_TORCH = (
    "import io, sys, zipfile, torch; "
    "d = zipfile.ZipFile(sys.argv[1]).read('policy.pth'); "
    "[t.detach().numpy() for t in torch.load(io.BytesIO(d), weights_only=True, map_location='cpu').values()]"
)


def with_sbformat(data: bytes) -> object:
    """The archive's policy, read by us."""
    import sbformat

    return sbformat.reads(data).parameters["policy"].to_numpy()


def with_torch(data: bytes) -> object:
    """The archive's policy, read as SB3 does."""
    import torch

    entry = zipfile.ZipFile(io.BytesIO(data)).read("policy.pth")
    loaded = torch.load(io.BytesIO(entry), weights_only=True, map_location="cpu")
    return {name: tensor.detach().numpy() for name, tensor in loaded.items()}


def seconds(function: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def warm(data: bytes, rounds: int) -> tuple[float, float]:
    """The best time of both, measured in turn, a few calls of each at a time: what is warm stays warm."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for side, read in enumerate((with_sbformat, with_torch)):
            best[side] = min(best[side], *(seconds(lambda read=read: read(data)) for _ in range(CALLS)))
    return best[0], best[1]


def cold(path: Path, rounds: int) -> tuple[float, float]:
    """The median time of whole processes, in turn."""
    commands = [[sys.executable, "-c", code, str(path)] for code in (COLD_OURS, COLD_TORCH)]
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        times = [  # the first round fills the cache
            [seconds(lambda c=command: subprocess.run(c, check=True, env=env)) for command in commands]
            for _ in range(rounds + 1)
        ]
    return statistics.median(row[0] for row in times[1:]), statistics.median(row[1] for row in times[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Compare sbformat with torch.load on reading policies.")
    parser.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    parser.add_argument("--rounds", type=int, default=6, help="rounds a warm measurement (default 6)")
    args = parser.parse_args()
    ratios, ours = [], []
    for path in args.archives:
        mine, theirs = warm(path.read_bytes(), args.rounds)
        ratios.append(mine / theirs)
        ours.append(mine)
    print(f"archives        {len(ratios)}")
    print(f"warm, sbformat  median {statistics.median(ours) * 1e6:.0f} us")
    print(f"warm, ratio     median {statistics.median(ratios):.3f} (least {min(ratios):.3f}, most {max(ratios):.3f})")
    mine, theirs = cold(args.archives[0], 7)
    print(f"cold, sbformat  median {mine * 1e3:.0f} ms")
    print(f"cold, ratio     {mine / theirs:.3f}")


if __name__ == "__main__":
    main()
