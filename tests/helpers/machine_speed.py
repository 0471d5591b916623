"""How slow this machine is at this moment: budgets of time hold on the machine that they were set on."""

from __future__ import annotations

import time
from typing import Final

_NUMBERS: Final = 100_000
_SECONDS: Final = 0.023
"""What the loop took there, with CPython 3.11 and nothing else to do."""


def pace() -> float:
    """How many times slower than that machine this one is now, in time of its processor; at least 1."""
    began = time.process_time()
    made = [(number, str(number)) for number in range(_NUMBERS)]
    sum(number for number, _ in made)
    return max(1.0, (time.process_time() - began) / _SECONDS)
