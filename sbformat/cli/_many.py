"""Commands on many files: ``--jobs`` and ``--dask``, and the work on each file in several processes."""

from __future__ import annotations

import argparse
import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat import parallel
from sbformat.cli import _files, _limits, _options, _progress, _streams
from sbformat.errors import escape
from sbformat.io.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

R = TypeVar("R")
T = TypeVar("T")

_MANY_FILES: Final = 32
_MANY_BYTES: Final = 1 << 26
"""Below both limits, starting processes (30 ms) takes as long as they save (2 to 9 ms an archive)."""
_MOST_JOBS: Final = 1024
_DIGITS: Final = 18
_PATHS: Final = ("paths", "output", "vecnormalize")
"""Names of arguments that are paths which workers read or write."""


def add_jobs_option(parser: argparse.ArgumentParser) -> None:
    """Add the options for the processes that do the work."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--jobs", type=_jobs, metavar="N", help="processes for many files; one for each processor by default"
    )
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="let the workers of a Dask scheduler do the work, or 'local': some on this machine (extra dask)",
    )
    parser.add_argument(
        "--worker-timeout",
        type=_limits.parse_seconds,
        default=parallel.WORKER_TIMEOUT,
        metavar="SECONDS",
        help=f"with --dask, end when there has been no worker for so long (default: {parallel.WORKER_TIMEOUT:g})",
    )


def use_absolute_paths(args: argparse.Namespace) -> None:
    """Make the paths of a command line absolute that workers on other machines read and write."""
    if args.dask is None:
        return
    for name in _PATHS:
        value = getattr(args, name, None)
        if value is not None:
            setattr(args, name, list(map(_make_absolute, value)) if isinstance(value, list) else _make_absolute(value))


def _make_absolute(path: str) -> str:
    return path if path == _streams.STANDARD_STREAM or is_url(path) else os.path.abspath(path)


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_JOBS:
        message = f"expected a number from 1 to {_MOST_JOBS}, got {escape(text)}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def parse_columns(text: str) -> list[str]:
    """Return the names of columns of an option.

    :raises argparse.ArgumentTypeError: without any
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        message = f"expected names of columns, got {escape(text)}"
        raise argparse.ArgumentTypeError(message)
    return names


def parse_count(text: str) -> int:
    """Return the number of an option, from 1.

    :raises argparse.ArgumentTypeError: for anything else
    """
    if not text.isdecimal() or len(text) > _DIGITS or not int(text):
        message = f"expected a number from 1, got {escape(text)}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def map_files(
    work: Callable[[str], R],
    paths: Sequence[str],
    args: argparse.Namespace,
    *,
    lost: Callable[[dict[str, Any]], R],
    done: str,
) -> Iterator[R]:
    """Call ``work`` on each file and return the results in the order of the files.

    Processes start immediately: call this before a progress bar starts a thread, and after importing what ``work``
    imports, which forked processes then share.

    :param work: its result is picklable and small: a report
    :param paths: the files
    :param lost: gives the result for the report of a file whose process was killed
    :param done: the verb of the work as a participle, for that report: ``scanned``
    """
    message = f"the process that {done} it was killed: it may need more memory than this machine has"
    return map_items(
        work,
        paths,
        args,
        processes=_count_processes(paths, args),
        lost=lambda path: lost({"path": path, "outcome": _files.PROCESS_ENDED, "message": message}),
    )


def map_items(
    work: Callable[[T], R],
    items: Iterable[T],
    args: argparse.Namespace,
    *,
    processes: int,
    lost: Callable[[T], R],
) -> Iterator[R]:
    """Call ``work`` on each item, by processes or by a cluster, and return the results in the order of the items.

    :param processes: how many; with one the work is done here, also if the command line names a cluster
    :param lost: gives the result of an item whose process was killed
    """
    if args.dask is None or processes == 1:
        return parallel.map_in_order(work, items, processes=processes, lost=lost)
    return _map_by_cluster(partial(_work_elsewhere, work, _options.get_options()), items, args, lost)


def _map_by_cluster(
    work: Callable[[T], R], items: Iterable[T], args: argparse.Namespace, lost: Callable[[T], R]
) -> Iterator[R]:
    from sbformat.cli import _dask

    timeout = args.worker_timeout
    with _dask.connect(args.dask, timeout) as (executor, workers):
        yield from parallel.map_in_order(
            work, items, lost=lost, executor=executor, workers=workers, worker_timeout=timeout
        )


def _work_elsewhere(work: Callable[[T], R], options: _options.Options, item: T) -> R:
    """Work on an item with the options of the command line; runs in a worker of a cluster."""
    _options.use_options(options)
    return work(item)


@contextlib.contextmanager
def count_files(label: str, paths: Sequence[str], args: argparse.Namespace) -> Iterator[Callable[[str], None]]:
    """Show a bar for files: of many, and of few large ones on which several processes work.

    On few files this process shows a bar for each, while it is read.
    """
    least = 2 if _count_processes(paths, args) > 1 else _progress.MANY_ITEMS
    with _progress.count_items(label, len(paths), least=least) as advance:
        yield advance


def _count_processes(paths: Sequence[str], args: argparse.Namespace) -> int:
    if args.dask is not None:
        return 1 if _streams.STANDARD_STREAM in paths else 2
    return min(args.jobs or parallel.processors(), len(paths)) if _is_worth_processes(paths) else 1


def _is_worth_processes(paths: Sequence[str]) -> bool:
    if _streams.STANDARD_STREAM in paths:  # which this process reads
        return False
    if len(paths) >= _MANY_FILES:
        return True
    size = 0
    for path in paths:
        with contextlib.suppress(OSError):  # opening it gives the error
            size += os.stat(_files.resolve_path(path)).st_size
    return size >= _MANY_BYTES
