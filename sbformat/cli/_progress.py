"""Progress bars on standard error: for many items, for many bytes, and while a large file is read.

A bar is shown on a terminal, with rich, without ``--quiet``, and for work that takes a second or more. There is one at
a time: within another bar, and in a worker process, nothing is shown.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

from sbformat.cli import _options
from sbformat.io.opening import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANY_ITEMS: Final = 50
_MANY_BYTES: Final = 1 << 26

_shown: list[str] = []  # the label of the bar that is shown, if any


@contextlib.contextmanager
def count_items(label: str, total: int, *, least: int = MANY_ITEMS) -> Iterator[Callable[[], None]]:
    """Show a bar for many items; yield a function to call after each.

    :param label: the text beside the bar
    :param total: the number at the end
    :param least: the number from which it is shown
    """
    with _show(label, total, is_bytes=False, is_long=total >= least) as advance:
        yield lambda: advance(1) if advance is not None else None


@contextlib.contextmanager
def count_bytes(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar for many bytes; yield a function to call with the number of those that were processed.

    :param label: the text beside the bar
    :param total: the number at the end
    """
    with _show(label, total, is_bytes=True, is_long=total >= _MANY_BYTES) as advance:
        yield advance or (lambda _: None)


@contextlib.contextmanager
def count_file(label: str, path: object, *, passes: int = 1) -> Iterator[Callable[[int], None] | None]:
    """Show a bar while the bytes of a large file are read; yield the function to call, or None without a bar.

    :param label: the text beside the bar
    :param path: a path; anything else is not a large file
    :param passes: how often each byte is counted
    """
    size = _find_size(path) if isinstance(path, (str, os.PathLike)) and _can_show() else 0
    is_url = is_remote(path)  # whose size is not known before it is opened
    with _show(label, None if is_url else size * passes, is_bytes=True, is_long=is_url or size >= _MANY_BYTES) as found:
        yield found


def _find_size(path: str | os.PathLike[str]) -> int:
    """Return the size of a file, which the readers also find without its suffix ``.zip``; 0 for what is not a file."""
    for candidate in (path, f"{os.fspath(path)}.zip"):
        with contextlib.suppress(OSError, ValueError):
            return os.path.getsize(candidate) if os.path.isfile(candidate) else 0
    return 0


def _can_show() -> bool:
    if _shown or _options.is_quiet() or sys.stderr is None or not sys.stderr.isatty():
        return False
    multiprocessing = sys.modules.get("multiprocessing")  # importing it takes time, and a worker has it
    return multiprocessing is None or multiprocessing.parent_process() is None


@contextlib.contextmanager
def _show(label: str, total: int | None, *, is_bytes: bool, is_long: bool) -> Iterator[Callable[[int], None] | None]:
    if not is_long or not _can_show():
        yield None
        return
    _shown.append(label)
    try:
        with _draw(label, total, is_bytes=is_bytes) as advance:
            yield advance
    finally:
        _shown.clear()


@contextlib.contextmanager
def _draw(label: str, total: int | None, *, is_bytes: bool) -> Iterator[Callable[[int], None] | None]:
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        yield None
        return
    count = progress.DownloadColumn(binary_units=True) if is_bytes else progress.MofNCompleteColumn()
    text, left = progress.TextColumn("{task.description}"), progress.TimeRemainingColumn()
    with progress.Progress(
        text, progress.BarColumn(), count, left, console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(label, total=total)
        yield lambda amount: bar.advance(task, amount)
