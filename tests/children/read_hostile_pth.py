"""Reads hostile ``.pth`` files from standard input, in every way there is, and prints what each cost as JSON.

Runs as a process of its own (``pth_checks.weigh``): a crash, a hang or the memory it takes must not be the
test run's. Anything but an answer or an ``SbformatError`` ends it with a traceback.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from sbformat import Limits, SbformatError, pth
from tests.helpers.count_work import CALLS_PER_SECOND, COUNTED, count_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


def files() -> Iterator[bytes]:
    """The files on standard input, each behind its length."""
    while head := sys.stdin.buffer.read(8):
        yield sys.stdin.buffer.read(struct.unpack("<Q", head)[0])


def main() -> None:
    """Decode each file, then ask for everything in it; each row is one question."""
    options: dict[str, Any] = json.loads(sys.argv[1])
    options["limits"] = Limits(**options.get("limits", {}))
    np.zeros(1).tobytes()
    rows: list[dict[str, Any]] = []
    for number, data in enumerate(files()):
        for what, outcome, shown, seconds, grown in questions(data, options):
            row = {"what": what, "outcome": outcome, "shown": shown, "seconds": seconds, "grown": grown}
            rows.append({"file": number, **row})
    sys.stdout.write(json.dumps(rows))


def questions(data: bytes, options: dict[str, Any]) -> Iterator[tuple[str, str, int, float, int]]:
    """What each question came to: its name, the outcome, the length of the message, seconds, bytes."""
    found: list[pth.StateDict] = []
    yield ask("decode", lambda: found.append(pth.loads(data, **options)))
    if found:
        state_dict = found[0]
        again = pth.loads(data, **options)
        yield ask("tensors", state_dict.tensors)
        yield ask("repr", lambda: repr(state_dict))
        yield ask("check", state_dict.check)
        yield ask("to_numpy", state_dict.to_numpy)
        yield ask("equal", lambda: state_dict == again)


def ask(what: str, question: Callable[[], object]) -> tuple[str, str, int, float, int]:
    """Ask one question; anything but an answer or an error of ours passes through.

    The seconds are of processor time. With the environment variable ``COUNTED`` they are computed from calls.
    """
    forget()
    before, start = peak(), time.process_time()
    with count_calls(math.inf) if COUNTED in os.environ else nullcontext() as calls:
        try:
            question()
            outcome, shown = "read", 0
        except SbformatError as error:
            outcome = error.outcome
            shown = len(str(error))
    seconds = time.process_time() - start if calls is None else calls.number / CALLS_PER_SECOND
    return what, outcome, shown, seconds, peak() - before


if __name__ == "__main__":
    main()
