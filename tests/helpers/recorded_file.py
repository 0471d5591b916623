"""A remote file that is in memory and records the ranges that are fetched."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sbformat.io.remote.source import Range


class RecordedFile:
    """Implements ``RangedFile``. ``whole`` is for a server without ranges, ``cut`` for answers that are too short."""

    name = "memory://file"
    version = "1"

    def __init__(self, data: bytes, *, whole: bool = False, cut: int = 0) -> None:
        self.data = data
        self.size = len(data)
        self.whole = data if whole else None
        self.cut = cut
        self.calls: list[list[Range]] = []
        self.busy = threading.Lock()

    def fetch(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of ranges."""
        assert self.busy.acquire(blocking=False), "two threads fetch at the same time"
        try:
            self.calls.append(list(ranges))
            for start, stop in ranges:
                assert 0 <= start < stop <= self.size
            return [self.data[start : stop - self.cut] for start, stop in ranges]
        finally:
            self.busy.release()

    @property
    def ranges(self) -> list[Range]:
        """The ranges of all calls."""
        return [row for call in self.calls for row in call]

    @property
    def fetched(self) -> int:
        """Number of bytes of all ranges."""
        return sum(stop - start for start, stop in self.ranges)
