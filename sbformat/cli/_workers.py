"""One piece of work after another, or in several processes: what comes back is the same, in the same order.

A process that dies takes its piece of work with it and nothing else. Everything that processes need is imported only
when there are any.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future, ProcessPoolExecutor

T = TypeVar("T")
R = TypeVar("R")

_WAITING_PER_PROCESS: Final = 4
"""Pieces of work handed out ahead: enough that no process waits, few enough that a long list is not copied."""


def processors() -> int:
    """Return how many processes can run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(work: Callable[[T], R], items: Iterable[T], *, processes: int, lost: Callable[[T], R]) -> Iterator[R]:
    """Yield what the work makes of each item, in the order of the items.

    :param work: done in another process when there are several, so it and its results can be pickled
    :param items: what it is done on
    :param processes: how many; with one, the work is done here
    :param lost: gives the result for an item whose process died
    """
    if processes > 1:
        yield from _in_processes(work, items, processes, lost)
    else:
        yield from map(work, items)


def _in_processes(work: Callable[[T], R], items: Iterable[T], processes: int, lost: Callable[[T], R]) -> Iterator[R]:
    from concurrent.futures.process import BrokenProcessPool

    source = iter(items)
    waiting: deque[tuple[T, Future[R] | None]] = deque()
    with _Pool(processes) as pool:
        while True:
            for item in source:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) >= processes * _WAITING_PER_PROCESS:
                    break
            if not waiting:
                return
            item, future = waiting.popleft()
            try:
                if future is None:
                    raise BrokenProcessPool
                result = future.result()
            except BrokenProcessPool:
                yield from pool.one_by_one(work, [(item, future), *waiting], lost)
                waiting.clear()
            else:
                yield result


class _Pool:
    """Processes that end with this block, however it ends.

    :param processes: how many
    """

    def __init__(self, processes: int) -> None:
        from multiprocessing import active_children

        self._processes = processes
        self._others = {process.pid for process in active_children()}
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> _Pool:  # noqa: PYI034 -- Self is not in Python 3.10
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._kill()
        self._close()

    def _close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
        self._executor = None

    def _kill(self) -> None:
        from multiprocessing import active_children

        for process in active_children():
            if process.pid not in self._others:
                process.kill()

    def submit(self, work: Callable[[T], R], item: T, *, processes: int | None = None) -> Future[R] | None:
        """Hand out a piece of work; None when a process has died since."""
        from concurrent.futures import ProcessPoolExecutor
        from concurrent.futures.process import BrokenProcessPool
        from multiprocessing import get_context

        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                processes or self._processes, mp_context=get_context("spawn"), initializer=_start
            )
        try:
            return self._executor.submit(work, item)
        except BrokenProcessPool:
            return None

    def one_by_one(
        self, work: Callable[[T], R], left: Iterable[tuple[T, Future[R] | None]], lost: Callable[[T], R]
    ) -> Iterator[R]:
        """After a process has died: keep what was done, and do the rest alone, so that it shows whose fault it was."""
        from concurrent.futures.process import BrokenProcessPool

        self._close()
        for item, done in left:
            if done is not None and done.done() and not done.cancelled() and done.exception() is None:
                yield done.result()
                continue
            alone = self.submit(work, item, processes=1)
            try:
                if alone is None:
                    raise BrokenProcessPool
                result = alone.result()
            except BrokenProcessPool:
                self._close()
                result = lost(item)
            yield result
        self._close()


def _start() -> None:
    """Make a process end with the one that started it, and leave Ctrl-C to that."""
    import signal
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
