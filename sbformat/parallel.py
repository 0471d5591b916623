"""Work on many items in several processes, or by any executor; results come back in the order of the items.

Theory of operation. A bounded number of items is under way: while one takes long, workers go on with those after it,
and no more are taken from the iterable. If a worker is killed, its item is tried again, and the run goes on:

* :class:`concurrent.futures.ProcessPoolExecutor` fails as a whole when one of its processes is killed. The items that
  had no result are tried again one by one, in a process of their own; then another pool goes on with the rest.
* An executor of a cluster, such as Dask's, goes on with other workers, and says which items it could not finish: each
  is submitted again when it is its turn.

An item that fails each time gets the result of ``lost``. What several processes need is imported when there are any.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future

T = TypeVar("T")
R = TypeVar("R")

_SUBMITTED: Final = 16
"""Items submitted for each process: while one takes long, the other processes go on with those after it."""
_SUBMITTED_ELSEWHERE: Final = 64  # items under way in an executor of which the number of workers is not given
_TRIES: Final = 2
"""How often an item is tried alone: the system may have ended the process for another reason, such as memory."""
_MOST_PROCESSES: Final = 61  # the most that :class:`ProcessPoolExecutor` accepts on Windows
_KILLED: Final = "KilledWorker"
"""The error with which Dask reports an item whose workers were killed; it is not imported here."""
_CONNECTED: Final = "running"  # the status of a client of Dask whose scheduler can be asked
_ASKED_EVERY: Final = 2.0  # seconds
WORKER_TIMEOUT: Final = 30.0
"""Seconds after which a cluster without workers does no more work."""


class WorkersError(Exception):
    """There is nothing to do the work: a cluster cannot be reached, or has no workers that can do it."""


def processors() -> int:
    """Return how many processes can run at the same time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_order(
    work: Callable[[T], R],
    items: Iterable[T],
    *,
    lost: Callable[[T], R],
    processes: int = 1,
    executor: Executor | None = None,
    workers: int | None = None,
    worker_timeout: float = WORKER_TIMEOUT,
) -> Iterator[R]:
    """Apply ``work`` to each item and return the results in the order of the items.

    Processes start immediately, not when the first result is requested: a caller that starts a thread does so after
    this call, because a process with threads cannot be forked safely. ::

        for total in map_in_order(sum, [[1, 2], [3]], processes=2, lost=lambda item: None):
            print(total)

    :param work: called in another process when there are several: it, the items and the results must be picklable
    :param items: consumed as results are taken
    :param lost: gives the result of an item whose process was killed each time
    :param processes: how many, without an executor; with one, the work is done in this process
    :param executor: does the work; the caller shuts it down. One that fails as a whole is replaced by processes here
    :param workers: how many the executor has, which decides how many items are under way
    :param worker_timeout: seconds that a cluster of Dask may be without workers, or its scheduler without an answer
    """
    if executor is None and processes <= 1:
        return (work(item) for item in items)  # unlike map, an error of any kind ends it as an error
    if executor is not None:
        under_way = _SUBMITTED_ELSEWHERE if workers is None else _SUBMITTED * workers
        client = getattr(executor, "_client", None)
        pool: _Given = _Given(executor) if client is None else _DaskClient(executor, client, worker_timeout)
    else:
        pool = _Pool(min(processes, _MOST_PROCESSES))
        under_way = _SUBMITTED * pool.processes
    run = _Run(work, lost, iter(items), pool, under_way)
    run.submit()
    return run.results()


class _Run(Generic[T, R]):
    """One call of :func:`map_in_order`: what was submitted, in order, and who works on it."""

    def __init__(
        self, work: Callable[[T], R], lost: Callable[[T], R], items: Iterator[T], pool: _Given, under_way: int
    ) -> None:
        self._work = work
        self._lost = lost
        self._items = items
        self._pool = pool
        self._under_way = under_way
        self._submitted: deque[tuple[T, Future[R]]] = deque()

    def submit(self) -> None:
        """Submit the next items, as many as may be under way."""
        for item in islice(self._items, self._under_way - len(self._submitted)):
            self._submitted.append((item, self._pool.submit(self._work, item)))

    def results(self) -> Iterator[R]:
        """Yield the results; the processes end with the generator, however it ends."""
        from concurrent.futures import BrokenExecutor

        try:
            while self._submitted:
                item, future = self._submitted[0]
                try:
                    result = self._pool.wait(future)
                except BrokenExecutor:
                    self._recover()
                    continue
                except Exception as error:
                    if not _is_of_cluster(error):
                        raise
                    result = self._try_again(item, error)
                self._submitted.popleft()
                yield result
                self.submit()
        except BaseException:
            self._pool.kill(future for _, future in self._submitted)
            raise
        finally:
            self._pool.close()

    def _try_again(self, item: T, error: BaseException) -> R:
        """Submit an item again that the cluster could not finish; one that it cancels each time has ended."""
        for _ in range(_TRIES):
            try:
                return self._pool.wait(self._pool.submit(self._work, item))
            except Exception as again:
                if not _is_of_cluster(again):
                    raise
                error = again
        if type(error).__name__ == _KILLED:
            return self._lost(item)
        raise WorkersError(f"the cluster does no more work: {type(error).__name__}") from None

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
        self._pool = _Pool(self._pool.processes)


def _is_of_cluster(error: BaseException) -> bool:
    """Return whether an error is one of the cluster, not of the work: an item was cancelled, or its worker killed.

    A result that is computed again, because its worker was killed, makes Dask's executor itself fail with a TypeError.
    """
    from concurrent.futures import CancelledError

    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    modules = (type(error).__module__, trace.tb_frame.f_globals.get("__name__", "") if trace is not None else "")
    return isinstance(error, CancelledError) or any(name.partition(".")[0] == "distributed" for name in modules)


class _Given:
    """An executor of the caller."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._submit: Callable[..., Future[Any]] = executor.submit
        self.processes = min(processors(), _MOST_PROCESSES)
        """How many processes replace an executor that fails as a whole."""

    def submit(self, work: Callable[[T], R], item: T) -> Future[R]:
        """Submit an item; in an executor that is broken its result is missing."""
        from concurrent.futures import BrokenExecutor

        try:
            return self._submit(work, item)
        except BrokenExecutor as error:
            return _make_future(error=error)
        except Exception as error:
            if not (isinstance(error, RuntimeError) or _is_of_cluster(error)):
                raise
            raise WorkersError(f"the executor takes no more work: {error}") from error

    def wait(self, future: Future[R]) -> R:
        return future.result()

    def close(self) -> None:
        """Leave the executor to its owner."""

    def kill(self, futures: Iterable[Future[R]]) -> None:
        """Cancel what waits, and leave what is running to its end."""
        for future in futures:
            with contextlib.suppress(Exception):  # a client of Dask that is closed
                future.cancel()


class _DaskClient(_Given):
    """The workers of a Dask client: its own futures get a result that is computed again, because a worker was killed.

    Those of its executor then fail, or never get one.
    """

    def __init__(self, executor: Executor, client: Any, worker_timeout: float) -> None:
        super().__init__(executor)
        self._client = client
        self._timeout = worker_timeout
        # pure: otherwise Dask takes a call with the same arguments for one that it has a result of
        self._submit = partial(client.submit, **{**getattr(executor, "_kwargs", {}), "pure": False})

    def wait(self, future: Future[R]) -> R:
        """Return a result. A cluster that has ended or has no workers gives none, so it is asked now and then."""
        while True:
            try:
                return future.result(timeout=min(_ASKED_EVERY, self._timeout))
            except Exception:
                if future.done():
                    raise
            status = getattr(self._client, "status", "closed")
            if status in ("closed", "closing"):
                raise WorkersError("the scheduler of the cluster has ended")
            if status == _CONNECTED and not self._has_workers():
                raise WorkersError(
                    f"the cluster has had no workers, or its scheduler did not answer, for {self._timeout:g} s: start "
                    "workers, then run it again; --worker-timeout, or worker_timeout in Python, is how long to wait"
                )

    def _has_workers(self) -> bool:
        """Return whether there are workers, also paused ones; if there are none, wait for the first."""
        import distributed

        client = self._client
        try:
            if not client.sync(client.scheduler.ncores, callback_timeout=self._timeout):
                client.wait_for_workers(1, timeout=self._timeout)
        except (TimeoutError, distributed.TimeoutError):
            return False
        except OSError:  # it connects again, or ends
            return bool(client.status != _CONNECTED)
        return True


def _is_alone() -> bool:
    """Return whether this process has one thread: it can be forked safely, which is faster than a new interpreter."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return len(os.listdir("/proc/self/task")) == 1
    return False


class _Pool(_Given):
    """A :class:`ProcessPoolExecutor` whose processes end with this process, and can be killed."""

    def __init__(self, processes: int) -> None:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        context: Any = multiprocessing.get_context("fork" if _is_alone() else "spawn")
        self._others = set(multiprocessing.active_children())
        super().__init__(ProcessPoolExecutor(processes, context, _prepare_worker))
        self.processes = processes

    def close(self) -> None:
        """Wait for the end of the processes."""
        self._executor.shutdown(cancel_futures=True)

    def kill(self, _: Iterable[Future[Any]] = ()) -> None:
        """End the processes, whatever they do.

        Their futures are not cancelled: ``terminate_broken`` of CPython before 3.12 fails on those that are (CPython
        ``Lib/concurrent/futures/process.py``).
        """
        import multiprocessing

        for process in set(multiprocessing.active_children()) - self._others:
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
    """Wait for a result; return whether its process was killed instead."""
    from concurrent.futures import BrokenExecutor, CancelledError

    try:
        return isinstance(future.exception(), BrokenExecutor)
    except CancelledError:
        return True


def _prepare_worker() -> None:
    """In a worker: leave Ctrl-C to the parent process, and end when it ends, also when it is killed."""
    import signal
    from multiprocessing import parent_process
    from threading import Thread

    def end_with_parent() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=end_with_parent, daemon=True).start()
