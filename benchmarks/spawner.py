"""Run one command and report its cost: seconds, peak resident memory, peak private memory, exit code.

Run with ``-S -E``: until a child's ``exec``, its peak includes the memory of its parent, so the parent must be smaller
than any Python with site-packages. Arguments: the file for the result, ``1`` to sample the memory of the child (which
slows it down), the command.
"""

from __future__ import annotations

import os
import sys
import time

SAMPLED_EVERY = 0.002
KIB = 1024


def anonymous(pid: int) -> int:
    """Return the private memory of a process in bytes; 0 where the system does not report it."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            return next((int(line.split()[1]) * KIB for line in file if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0


def main() -> None:
    """Run it."""
    answer, sampled, *command = sys.argv[1:]
    highest = 0
    begun = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ)
    done, status, usage = os.wait4(pid, os.WNOHANG if sampled == "1" else 0)
    while not done:
        highest = max(highest, anonymous(pid))
        time.sleep(SAMPLED_EVERY)
        done, status, usage = os.wait4(pid, os.WNOHANG)
    seconds = time.perf_counter() - begun
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else KIB)
    with open(answer, "w", encoding="ascii") as file:
        file.write(f"{seconds!r} {peak} {highest} {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
