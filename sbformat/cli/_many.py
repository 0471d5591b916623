"""What commands that report on many files share: ``--jobs``, the processes, and what becomes of a file lost to one."""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat.cli import _files, _workers
from sbformat.errors import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

R = TypeVar("R")

_MANY_FILES: Final = 32
_MANY_BYTES: Final = 1 << 26
"""Below both, starting processes may take as long as they save: 30 ms, and 2 to 9 ms an archive of a small policy."""
_MOST_JOBS: Final = 1024


def add_jobs_option(parser: argparse.ArgumentParser) -> None:
    """Add how many processes share the work."""
    parser.add_argument(
        "--jobs", type=_jobs, metavar="N", help="processes for many files; one for each processor by default"
    )


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_JOBS:
        message = f"{escape(text)} is no number from 1 to {_MOST_JOBS}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def each(
    work: Callable[[str], R],
    paths: Sequence[str],
    args: argparse.Namespace,
    *,
    lost: Callable[[dict[str, Any]], R],
    done: str,
) -> Iterator[R]:
    """Return what the work makes of each file, in their order, in as many processes as the command line asks for.

    They start at once: to be called before a bar is shown, and after what the work imports, which they then share.

    :param work: what it makes can be pickled and is small: a report, and nothing of the file
    :param paths: the files
    :param lost: makes the same of the report of a file whose process died
    :param done: what is done to a file, as a participle
    """
    message = f"the process that {done} it was ended from outside: it may need more memory than there is"
    return _workers.map_in_order(
        work,
        paths,
        processes=min(args.jobs or _workers.processors(), len(paths)) if _is_much(paths) else 1,
        lost=lambda path: lost({"path": path, "outcome": _files.PROCESS_ENDED, "message": message}),
    )


def _is_much(paths: Sequence[str]) -> bool:
    if len(paths) >= _MANY_FILES:
        return True
    size = 0
    for path in paths:
        with contextlib.suppress(OSError):  # whoever opens it tells why it cannot be
            size += os.stat(_files.found(path)).st_size
    return size >= _MANY_BYTES
