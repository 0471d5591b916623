"""One piece of work after another, or in several processes: what comes back is the same, in the same order.

A process that dies takes the piece of work that it was at with it and nothing else. Everything that processes need is
imported only when there are any.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection
    from queue import SimpleQueue

T = TypeVar("T")
R = TypeVar("R")

_AHEAD: Final = 2
"""Pieces of work that a process is given at once: it begins with the second while the first is on its way back."""
_EARLY: Final = 16
"""Pieces of work for each process that may be done before their turn: behind one that takes long, others go on."""
_TRIES: Final = 2
"""How often a process may die of a piece of work: of the first, another may be to blame that needed the memory."""

_OURS: Final[set[Connection]] = set()
"""The ends of pipes that are this process's: one that is forked has them too, and must let them go to see the end."""


def processors() -> int:
    """Return how many processes can run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(work: Callable[[T], R], items: Iterable[T], *, processes: int, lost: Callable[[T], R]) -> Iterator[R]:
    """Return what the work makes of each item, in the order of the items.

    Processes start at once, not when the first result is asked for: whoever starts a thread does so after this.

    :param work: done in another process when there are several, so it and its results can be pickled
    :param items: what it is done on
    :param processes: how many; with one, the work is done here
    :param lost: gives the result for an item whose process died
    """
    if processes > 1:
        return _Pool(work, lost, processes).results(items)
    return map(work, items)


class _Pool(Generic[T, R]):
    """Processes that end when the results have been had, and with whoever asks for them."""

    def __init__(self, work: Callable[[T], R], lost: Callable[[T], R], processes: int) -> None:
        self._work = work
        self._lost = lost
        self._processes = [_Process(work) for _ in range(processes)]
        self._handed_out = 0
        self._early: dict[int, R] = {}
        """Results, by the turn of their item."""
        self._deaths: dict[int, int] = {}
        """How many processes died of an item, by its turn."""

    def results(self, items: Iterable[T]) -> Iterator[R]:
        """Yield the results; the processes end with that, however it ends."""
        source = iter(items)
        turn = 0
        try:
            while True:
                self._hand_out(source, turn + _EARLY * len(self._processes))
                if turn in self._early:
                    yield self._early.pop(turn)
                    turn += 1
                elif not self._wait():
                    return
        except BaseException:
            for process in self._processes:
                process.kill()
            raise
        finally:
            for process in self._processes:
                process.close()
            for process in self._processes:
                process.end()

    def _hand_out(self, source: Iterator[T], end: int) -> None:
        """Give those with the least to do what comes next, as far as a turn."""
        while self._handed_out < end:
            process = min(self._processes, key=lambda process: len(process.given))
            if len(process.given) >= _AHEAD:
                return
            for item in source:
                process.give(self._handed_out, item)
                self._handed_out += 1
                break
            else:
                return

    def _wait(self) -> bool:
        """Take the results that come next, whosever turn it is; False when there are none to come."""
        from multiprocessing.connection import wait

        busy: dict[Any, _Process[T, R]] = {process.results: process for process in self._processes if process.given}
        for ready in wait(list(busy)) if busy else ():
            process = busy[ready]
            answer = process.take()
            if answer is None:
                self._replace(process)
                continue
            result, error, trace = answer
            if error is not None:
                raise error from RuntimeError(trace)
            turn, _ = process.given.popleft()
            self._early[turn] = result
        return bool(busy)

    def _replace(self, dead: _Process[T, R]) -> None:
        """Let another process do what a dead one was given, but for what it died of."""
        dead.end()
        turn, item = dead.given[0]
        self._deaths[turn] = self._deaths.get(turn, 0) + 1
        if self._deaths[turn] == _TRIES:
            self._early[turn] = self._lost(item)
            dead.given.popleft()
        other = _Process(self._work)
        self._processes[self._processes.index(dead)] = other
        for following in dead.given:
            other.give(*following)


class _Process(Generic[T, R]):
    """One process, and what it has been given to do."""

    def __init__(self, work: Callable[[T], R]) -> None:
        from multiprocessing import get_context

        context: Any = get_context("fork" if _is_alone() else "spawn")
        self.given: deque[tuple[int, T]] = deque()
        """What it is at, and what it does next, each with its turn."""
        self.results: Connection
        theirs, self._items = context.Pipe(duplex=False)
        self.results, answers = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(work, theirs, answers), daemon=True)
        _OURS.update((self._items, self.results))
        with _without_interrupts():
            self._process.start()
        theirs.close()
        answers.close()

    def give(self, turn: int, item: T) -> None:
        """Have it do a piece of work after those that it has."""
        self.given.append((turn, item))
        with contextlib.suppress(OSError):  # it is dead, which shows when its result is waited for
            self._items.send(item)

    def take(self) -> Any:
        """Return its next answer; None when it is dead."""
        try:
            return self.results.recv()
        except (EOFError, OSError):
            return None

    def kill(self) -> None:
        """End it, whatever it is at."""
        self._process.kill()

    def close(self) -> None:
        """Tell it that there is no more to do."""
        self._items.close()

    def end(self) -> None:
        """Wait for its end."""
        self.close()
        self._process.join()
        self.results.close()
        _OURS.difference_update((self._items, self.results))


def _is_alone() -> bool:
    """Say whether this process has one thread: then a fork is safe, and has at once what a new process must load."""
    try:
        return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back while a process starts, which inherits that: it is for this one, whenever it comes."""
    import signal

    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- in the other process -----------------------------------------------------------------------------


def _serve(work: Callable[[T], R], items: Connection, results: Connection) -> None:
    import signal
    from queue import SimpleQueue
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in _OURS:
        end.close()
    queue: SimpleQueue[T] = SimpleQueue()
    Thread(target=_receive, args=(items, queue), daemon=True).start()
    while True:
        try:
            answer: tuple[R | None, Exception | None, str] = work(queue.get()), None, ""
        except Exception as error:  # noqa: BLE001 -- raised again where the results are asked for
            import traceback

            answer = None, error, traceback.format_exc()
        results.send(answer)


def _receive(items: Connection, queue: SimpleQueue[Any]) -> None:
    """Take items as they come, so that nobody waits to hand them out; end when no more will: also with the parent."""
    while True:
        try:
            queue.put(items.recv())
        except (EOFError, OSError):
            os._exit(0)
