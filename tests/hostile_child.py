"""Reads a hostile ``.pth`` from standard input, in every way there is, and prints what each cost as JSON.

Runs as a process of its own (``pth_checks.weigh``): a crash, a hang or the memory it takes must not be the
test run's. Anything but an answer or an ``SbformatError`` ends it with a traceback.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from sbformat import SbformatError, pth

if TYPE_CHECKING:
    from collections.abc import Callable


def peak() -> int:
    """The most bytes that were resident since the last :func:`forget`; 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except OSError:
        return 0


def forget() -> None:
    """Let the peak be what is resident now."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def main() -> None:
    """Decode, then ask for everything; each row is one question."""
    options: dict[str, Any] = json.loads(sys.argv[1])
    data = sys.stdin.buffer.read()
    np.zeros(1).tobytes()
    rows: list[dict[str, Any]] = []
    found: list[pth.StateDict] = []

    def ask(what: str, question: Callable[[], object]) -> None:
        forget()
        before, start = peak(), time.process_time()
        try:
            question()
            outcome, shown = "read", 0
        except SbformatError as error:
            outcome = error.outcome
            shown = len(str(error))
        seconds = time.process_time() - start
        rows.append({"what": what, "outcome": outcome, "shown": shown, "seconds": seconds, "grown": peak() - before})

    ask("decode", lambda: found.append(pth.loads(data, **options)))
    if found:
        state_dict = found[0]
        again = pth.loads(data, **options)
        ask("tensors", state_dict.tensors)
        ask("repr", lambda: repr(state_dict))
        ask("check", state_dict.check)
        ask("to_numpy", state_dict.to_numpy)
        ask("equal", lambda: state_dict == again)
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    main()
