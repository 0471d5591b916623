"""Read ahead: a thread computes the next item of a generator while the consumer uses the current one.

It pays where both sides release the interpreter lock: checksums, reads and writes of large chunks. Checking a zip of
512 MiB in a file takes 1.0 s instead of 1.7, and writing one 1.6 s instead of 3.2 (two busy cores).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

T = TypeVar("T")

READ_AHEAD_BYTES: Final = 1 << 23
"""Fewer bytes than these are read without a thread, which would take longer to start."""
_END: Final = object()


def read_ahead(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield the same items; while one is used, a thread computes the next.

    An error while computing an item is raised here, in the place of the item. The thread ends when this generator does,
    after its current step.

    :param items: computed in the thread, in order, one at a time; when no thread can be started, in this one
    """
    steps = iter(items)
    try:
        worker = _Worker(steps)
    except RuntimeError:
        yield from steps
        return
    try:
        worker.requested.release()
        while (item := worker.take()) is not _END:
            worker.requested.release()
            yield item
    finally:
        worker.end()


class _Worker:
    """The thread, and its last item."""

    def __init__(self, steps: Iterator[Any]) -> None:
        from threading import Semaphore, Thread

        self.requested = Semaphore(0)
        self._done = Semaphore(0)
        self._steps = steps
        self._item: Any = None
        self._error: BaseException | None = None
        self._is_over = False
        self._thread = Thread(target=self._run, name="sbformat-read-ahead", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # an interrupt while it starts: nothing else would end it
            self._is_over = True
            self.requested.release()
            raise

    def _run(self) -> None:
        while self.requested.acquire() and not self._is_over:
            try:
                self._item = next(self._steps, _END)
            except BaseException as error:  # noqa: BLE001 -- raised in the place of the item
                self._error = error
            self._done.release()

    def take(self) -> Any:
        """Wait for the requested item."""
        self._done.acquire()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback refers to frames that refer to this object
        return self._item

    def end(self) -> None:
        """End the thread."""
        self._is_over = True
        self.requested.release()
        self._thread.join()
