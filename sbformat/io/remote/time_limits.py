"""How long a server may take: the clock of a file, and calls of clients that have none.

A server that never answers, or sends a byte now and then, must not hold a program for minutes; a large file over a slow
connection is not an error. So there are two limits, both from the ``timeout`` of a :class:`~sbformat.io.urls.Url`:

* Nothing came for ``timeout`` seconds, whatever was tried again and wherever redirects led.
* All requests for a file took ``timeout`` seconds longer than its bytes take at the slowest rate.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

SLOWEST: Final = 1 << 14
"""Bytes a second at which a file of any size may come."""


class Clock:
    """The time that the requests for one file take; see the module.

    :param timeout: in seconds
    """

    __slots__ = ("_end", "_last", "_left", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = self._left = timeout
        self._end = self._last = 0.0

    def start(self) -> None:
        """Begin requests; the time since the last ones does not count."""
        self._last = monotonic()
        self._end = self._last + self._left

    def stop(self) -> None:
        """End them."""
        self._left = self._end - monotonic()

    def count(self, size: int) -> None:
        """Count bytes that came."""
        self._last = monotonic()
        self._end += size / SLOWEST

    def seconds_left(self) -> float:
        """Return how long the next bytes may take; 0 or less when the time is over."""
        return min(self._end, self._last + self.timeout) - monotonic()


def collect_in_time(work: Callable[[], Iterable[T]], seconds: float) -> list[T]:
    """Return what a client's function yields, which runs in a thread that is left alone when it takes too long.

    :param work: opens something, or lists it page by page
    :param seconds: until the end, or else until the next item
    :raises TimeoutError: when that time is over
    :raises Exception: what ``work`` raises
    """
    found: list[T] = []
    end: Future[None] = Future()

    def run() -> None:
        try:
            for item in work():  # to extend a list by them would add none before the last
                found.append(item)  # noqa: PERF402
            end.set_result(None)
        except BaseException as error:  # noqa: BLE001 -- raised again below
            end.set_exception(error)

    Thread(target=run, daemon=True).start()
    count = 0
    while not wait([end], seconds).done:
        if len(found) == count and not end.done():
            raise TimeoutError
        count = len(found)
    end.result()
    return found


__all__ = ["SLOWEST", "Clock", "collect_in_time"]
