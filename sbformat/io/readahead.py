"""One step ahead: what a generator computes and what its consumer does with it, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

T = TypeVar("T")

AHEAD_BYTES: Final = 1 << 23
"""Fewer bytes are not worth a thread."""
_END: Final = object()


def ahead(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield the same items; while one is used, a thread makes the next.

    It pays where both sides leave the interpreter to others: checksums, reads and writes of large pieces. What goes
    wrong in the making is raised here, where the item would have come. The thread ends with this generator, however
    that ends, once the step that it is at is done.

    :param items: made in that thread, in order, and never two at once; where no thread can be had, in this one
    """
    steps = iter(items)
    try:
        maker = _Maker(steps)
    except RuntimeError:
        yield from steps
        return
    try:
        maker.asked.release()
        while (item := maker.take()) is not _END:
            maker.asked.release()
            yield item
    finally:
        maker.end()


class _Maker:
    """The thread, and what it made last."""

    def __init__(self, steps: Iterator[Any]) -> None:
        from threading import Semaphore, Thread

        self.asked = Semaphore(0)
        self._made = Semaphore(0)
        self._steps = steps
        self._item: Any = None
        self._error: BaseException | None = None
        self._is_over = False
        self._thread = Thread(target=self._run, name="sbformat-ahead", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # an interrupt, while it starts: nobody would end it
            self._is_over = True
            self.asked.release()
            raise

    def _run(self) -> None:
        while self.asked.acquire() and not self._is_over:
            try:
                self._item = next(self._steps, _END)
            except BaseException as error:  # noqa: BLE001 -- it is raised where the item would have come
                self._error = error
            self._made.release()

    def take(self) -> Any:
        """Wait for what was asked for."""
        self._made.acquire()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # it refers to frames that refer to this
        return self._item

    def end(self) -> None:
        """Let the thread go."""
        self._is_over = True
        self.asked.release()
        self._thread.join()
