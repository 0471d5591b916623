"""A part of a large product of test cases, the same in every run; ``SBFORMAT_ALL=1`` takes all."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeVar
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Case = TypeVar("Case")

HAS_ALL: Final = bool(os.environ.get("SBFORMAT_ALL"))
"""Whether every test takes all its cases; continuous integration on GitHub does."""


def sample(
    cases: Iterable[Case], one_in: int, *, name: Callable[[Case], str], group: Callable[[Case], object]
) -> list[Case]:
    """Choose one in so many cases of each group, and at least one, by a digest of their names.

    :returns: the chosen cases in the order of ``cases``; all of them with ``SBFORMAT_ALL=1``
    """
    known = list(cases)
    if HAS_ALL:
        return known
    groups: dict[object, list[int]] = defaultdict(list)
    for number, case in enumerate(known):
        groups[group(case)].append(number)
    chosen: set[int] = set()
    for numbers in groups.values():
        numbers.sort(key=lambda number: crc32(name(known[number]).encode()))
        chosen.update(numbers[: -(-len(numbers) // one_in)])
    return [case for number, case in enumerate(known) if number in chosen]
