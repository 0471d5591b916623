"""A remote file that is in memory, which counts the ranges that are fetched of it."""

from __future__ import annotations

from collections.abc import Sequence


class FileOfBytes:
    """A :class:`~sbformat.io.remote.source.RangedFile` over bytes.

    :param data: its contents
    """

    def __init__(self, data: bytes) -> None:
        self.name = "memory"
        self.version = "1"
        self.size = len(data)
        self.data = data
        self.ranges: list[tuple[int, int]] = []

    def is_by_range(self) -> bool:
        return True

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.ranges += ranges
        return [self.data[start:stop] for start, stop in ranges]
