"""Reads URLs, and prints as JSON what each took: ``measure_remote.py GOOD WORK URL TOTAL_BYTES [WORK URL ...]``.

A process of its own: what it takes is its own. All is imported, and a good URL read, before that.
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
from tests.helpers.count_work import CALLS_PER_SECOND, COUNTED, count_calls

if TYPE_CHECKING:
    from collections.abc import Callable

WORKS: Final[dict[str, Callable[..., object]]] = {
    "inspect": sbformat.inspect,
    "scan": sbformat.scan,
    "read": sbformat.read,
    "validate": sbformat.validate,
}


def measure(work: str, url: str, total_bytes: int) -> dict[str, object]:
    """Return the outcome of reading a URL, by how many bytes memory grew at most, and the seconds, as ``ask`` does."""
    forget()
    before, start = peak(), time.process_time()
    with count_calls(math.inf) if COUNTED in os.environ else nullcontext() as calls:
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
    """Measure each."""
    good, *rest = sys.argv[1:]
    for work in WORKS.values():
        work(good)
    rows = [measure(work, url, int(total)) for work, url, total in zip(rest[::3], rest[1::3], rest[2::3])]
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    main()
