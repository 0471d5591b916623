"""Commands on many files: ``--jobs``, and the work on each file in several processes."""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat import parallel
from sbformat.cli import _files, _progress, _streams
from sbformat.errors import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

R = TypeVar("R")

_MANY_FILES: Final = 32
_MANY_BYTES: Final = 1 << 26
"""Below both limits, starting processes (30 ms) takes as long as they save (2 to 9 ms an archive)."""
_MOST_JOBS: Final = 1024


def add_jobs_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for the number of processes."""
    parser.add_argument(
        "--jobs", type=_jobs, metavar="N", help="processes for many files; one for each processor by default"
    )


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_JOBS:
        message = f"expected a number from 1 to {_MOST_JOBS}, got {escape(text)}"
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
    return parallel.map_in_order(
        work,
        paths,
        processes=_count_processes(paths, args),
        lost=lambda path: lost({"path": path, "outcome": _files.PROCESS_ENDED, "message": message}),
    )


@contextlib.contextmanager
def count_files(label: str, paths: Sequence[str], args: argparse.Namespace) -> Iterator[Callable[[str], None]]:
    """Show a bar for files: of many, and of few large ones on which several processes work.

    On few files this process shows a bar for each, while it is read.
    """
    least = 2 if _count_processes(paths, args) > 1 else _progress.MANY_ITEMS
    with _progress.count_items(label, len(paths), least=least) as advance:
        yield advance


def _count_processes(paths: Sequence[str], args: argparse.Namespace) -> int:
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
