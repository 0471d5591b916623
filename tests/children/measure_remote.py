"""Reads URLs, and prints as JSON what each took: ``measure_remote.py``.

A line of standard input is a JSON list: whether calls are counted, a good URL, and for each work its name, its URL and
the limit ``total_bytes``. Each line has a fork of this process, in which the good URL is read first; all was imported
before.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import numpy as np  # noqa: F401 -- imported before the memory is measured

import sbformat
from tests.children.read_hostile_pth import forget, peak
from tests.helpers.count_work import CALLS_PER_SECOND, count_calls

if TYPE_CHECKING:
    from collections.abc import Callable

WORKS: Final[dict[str, Callable[..., object]]] = {
    "inspect": sbformat.inspect,
    "scan": sbformat.scan,
    "read": sbformat.read,
    "validate": sbformat.validate,
}


def measure(work: str, url: str, total_bytes: int, *, is_counted: bool) -> dict[str, object]:
    """Return the outcome of reading a URL, by how many bytes memory grew at most, and the seconds, as ``ask`` does."""
    forget()
    before, start = peak(), time.process_time()
    with count_calls(math.inf) if is_counted else nullcontext() as calls:
        try:
            WORKS[work](url, limits=sbformat.Limits(total_bytes=total_bytes))
            outcome = "ok"
        except sbformat.SbformatError as error:
            outcome = error.outcome
        except OSError as error:
            outcome = type(error).__name__
    seconds = time.process_time() - start if calls is None else calls.number / CALLS_PER_SECOND
    return {"outcome": outcome, "grown": peak() - before, "seconds": seconds}


def main() -> None:
    """Measure what each line says."""
    for line in sys.stdin:
        process = os.fork()
        if not process:
            try:
                is_counted, good, works = json.loads(line)
                for work in WORKS.values():
                    work(good)
                rows = [measure(*work, is_counted=is_counted) for work in works]
                sys.stdout.write(json.dumps(rows) + "\n")
                sys.stdout.flush()
            finally:
                os._exit(0)
        os.waitpid(process, 0)
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
