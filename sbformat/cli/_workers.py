"""Work on many items in several processes; results come back in the order of the items.

The processes are those of :class:`concurrent.futures.ProcessPoolExecutor`, which gives up as a whole when one of them
is killed. Here that costs one item: those that had no result are tried again one by one, in a process of their own, and
the one whose process is killed again gets the result of ``lost``. Everything that processes need is imported only
when there are any.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future, ProcessPoolExecutor
    from multiprocessing.process import BaseProcess

T = TypeVar("T")
R = TypeVar("R")

_SUBMITTED: Final = 16
"""Items submitted for each process: while one takes long, the other processes go on with those after it."""
_TRIES: Final = 2
"""How often an item is tried alone: the system may have ended the process for another reason, such as memory."""
_MOST_PROCESSES: Final = 61
"""What :class:`ProcessPoolExecutor` accepts on Windows."""


def processors() -> int:
    """Return how many processes can run at the same time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_order(work: Callable[[T], R], items: Iterable[T], *, processes: int, lost: Callable[[T], R]) -> Iterator[R]:
    """Apply ``work`` to each item and return the results in the order of the items.

    The processes start immediately, not when the first result is requested: a caller that starts a thread does so after
    this call, because a process with threads cannot be forked safely.

    :param work: called in another process when there are several: it, the items and the results must be picklable
    :param items: consumed as results are taken
    :param processes: how many; with one, the work is done in this process
    :param lost: gives the result of an item whose process was killed each time
    :raises Exception: any error that ``work`` raises
    """
    if processes <= 1:
        return map(work, items)
    run = _Run(work, lost, min(processes, _MOST_PROCESSES), iter(items))
    run.submit()
    return run.results()


class _Run(Generic[T, R]):
    """One call of :func:`map_in_order`: what was submitted, in order, and the processes that work on it."""

    def __init__(self, work: Callable[[T], R], lost: Callable[[T], R], processes: int, items: Iterator[T]) -> None:
        self._work = work
        self._lost = lost
        self._processes = processes
        self._items = items
        self._submitted: deque[tuple[T, Future[R]]] = deque()
        self._pool = _Pool(processes)

    def submit(self) -> None:
        """Submit the next items, as many as may be under way."""
        for item in self._items:
            self._submitted.append((item, self._pool.submit(self._work, item)))
            if len(self._submitted) >= _SUBMITTED * self._processes:
                return

    def results(self) -> Iterator[R]:
        """Yield the results; the processes end with the generator, however it ends."""
        from concurrent.futures.process import BrokenProcessPool

        try:
            while self._submitted:
                try:
                    result = self._submitted[0][1].result()
                except BrokenProcessPool:
                    self._recover()
                    continue
                self._submitted.popleft()
                yield result
                self.submit()
        except BaseException:
            self._pool.kill()
            raise
        finally:
            self._pool.close()

    def _recover(self) -> None:
        """Replace the processes, and get the missing results one by one: only an item that kills its own is lost."""
        self._pool.close()
        alone = _Pool(1)
        try:
            for index, (item, future) in enumerate(self._submitted):
                for _ in range(_TRIES):
                    if _is_missing(future):
                        future = alone.submit(self._work, item)  # noqa: PLW2901 -- the next try
                        if _is_missing(future):
                            alone.close()
                            alone = _Pool(1)
                self._submitted[index] = item, _make_future(self._lost(item)) if _is_missing(future) else future
        except BaseException:
            alone.kill()
            raise
        finally:
            alone.close()
        self._pool = _Pool(self._processes)


class _Pool:
    """A :class:`ProcessPoolExecutor` whose processes end with this process, and can be killed."""

    def __init__(self, processes: int) -> None:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        context: Any = multiprocessing.get_context("fork" if _is_alone() else "spawn")
        self._others = set(multiprocessing.active_children())
        self._executor: ProcessPoolExecutor = ProcessPoolExecutor(processes, context, _prepare_worker)

    def submit(self, work: Callable[[T], R], item: T) -> Future[R]:
        """Submit an item; in a pool that is broken its result is missing."""
        from concurrent.futures.process import BrokenProcessPool

        try:
            return self._executor.submit(work, item)
        except BrokenProcessPool as error:
            return _make_future(error=error)

    def close(self) -> None:
        """Wait for the end of the processes."""
        self._executor.shutdown(cancel_futures=True)

    def kill(self) -> None:
        """End the processes, whatever they do."""
        import multiprocessing

        mine: set[BaseProcess] = set(multiprocessing.active_children()) - self._others
        for process in mine:
            process.kill()


def _make_future(result: Any = None, error: Exception | None = None) -> Future[Any]:
    from concurrent.futures import Future

    future: Future[Any] = Future()
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
    return future


def _is_missing(future: Future[R]) -> bool:
    """Wait for a result, and say whether its process was killed."""
    from concurrent.futures import CancelledError
    from concurrent.futures.process import BrokenProcessPool

    try:
        return isinstance(future.exception(), BrokenProcessPool)
    except CancelledError:
        return True


def _is_alone() -> bool:
    """Say whether this process has one thread: then a fork is safe, and starts faster than a new interpreter."""
    try:
        return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


# -- in a worker --------------------------------------------------------------------------------------


def _prepare_worker() -> None:
    """Leave Ctrl-C to the parent process, and end when it ends, also when it is killed."""
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
