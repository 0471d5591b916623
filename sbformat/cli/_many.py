"""Commands on many files: the work on each file, in several processes (``--jobs``) or by a cluster (``--dask``).

In: a function of one file and the files of a command line. Out: its results, in the order of the files.
"""

from __future__ import annotations

import contextlib
import gc
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat import __version__, parallel
from sbformat.cli import _files, _options, _progress
from sbformat.errors import escape
from sbformat.io.urls import is_url

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor

R = TypeVar("R")
T = TypeVar("T")

_MANY_FILES: Final = 32
_MANY_BYTES: Final = 1 << 26
"""Below both limits, starting processes (30 ms) takes as long as they save (2 to 9 ms an archive)."""
_COLLECTED: Final = 700
"""New objects between two looks for garbage, as usual in Python: the process of the command line begins with more."""
_PATHS: Final = ("paths", "output", "vecnormalize")  # names of arguments that are paths which workers read or write
LOCAL: Final = "local"
"""The address for workers on this machine, which begin and end with the command."""


def use_absolute_paths(args: argparse.Namespace) -> None:
    """Make the paths of a command line absolute that workers on other machines read and write."""
    if args.dask is None:
        return
    for name in _PATHS:
        value = getattr(args, name, None)
        if value is not None:
            setattr(args, name, list(map(_make_absolute, value)) if isinstance(value, list) else _make_absolute(value))


def _make_absolute(path: str) -> str:
    return path if path == _files.STANDARD_STREAM or is_url(path) else os.path.abspath(path)


def map_files(
    work: Callable[[str], R],
    paths: Sequence[str],
    args: argparse.Namespace,
    *,
    label: str,
    done: str,
    lost: Callable[[dict[str, Any]], Any] = lambda report: report,
    has_bar: bool = True,
) -> Iterator[R]:
    """Call ``work`` on each file and yield the results in the order of the files.

    Processes start before the progress bar, which is a thread; import before what ``work`` imports, which forked
    processes then share. There is a bar for many files, and for few large ones on which several processes work: on few
    files this process shows a bar for each, while it is read.

    :param work: its result is picklable and small: a report
    :param label: the text of the bar: ``scanning``
    :param done: the verb of the work as a participle, for the report of a file whose process was killed: ``scanned``
    :param lost: gives the result for such a report
    :param has_bar: False if results are printed as they come
    """
    message = f"the process that {done} it was killed: it may need more memory than this machine has"
    processes = _count_processes(paths, args)
    found = map_items(
        work,
        paths,
        args,
        processes=processes,
        lost=lambda path: lost({"path": path, "outcome": _files.PROCESS_ENDED, "message": message}),
    )
    least = 2 if processes > 1 else _progress.MANY_ITEMS
    with _progress.count_items(label, len(paths) if has_bar else 0, least=least) as advance:
        for result in found:
            advance()
            yield result


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
    if gc.get_threshold()[0] > _COLLECTED:
        gc.freeze()  # what was imported stays, and is not looked at again
        gc.set_threshold(_COLLECTED)
    if args.dask is None or processes == 1:
        return parallel.map_in_order(work, items, processes=processes, lost=lost)
    return _map_by_cluster(partial(_work_elsewhere, work, _options.get_options()), items, args, lost)


def _map_by_cluster(
    work: Callable[[T], R], items: Iterable[T], args: argparse.Namespace, lost: Callable[[T], R]
) -> Iterator[R]:
    timeout = args.worker_timeout
    with connect(args.dask, timeout) as (executor, workers):
        yield from parallel.map_in_order(
            work, items, lost=lost, executor=executor, workers=workers, worker_timeout=timeout
        )


def _work_elsewhere(work: Callable[[T], R], options: _options.OutputOptions, item: T) -> R:
    """Work on an item with the options of the command line; runs in a worker of a cluster."""
    _options.use_options(options)
    return work(item)


def _count_processes(paths: Sequence[str], args: argparse.Namespace) -> int:
    if _files.STANDARD_STREAM in paths:  # which this process reads
        return 1
    if args.dask is not None:
        return 2
    size = 0
    for path in paths if len(paths) < _MANY_FILES else ():
        with contextlib.suppress(OSError):  # opening it gives the error
            size += os.stat(_files.resolve_path(path)).st_size
    is_worth = len(paths) >= _MANY_FILES or size >= _MANY_BYTES
    return min(args.jobs or parallel.processors(), len(paths)) if is_worth else 1


# -- Dask ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def connect(address: str, timeout: float) -> Iterator[tuple[Executor, int]]:
    """Connect to a cluster as long as the block runs; yield its executor, and how many tasks it works on at a time.

    :param address: of the scheduler, such as ``tcp://127.0.0.1:8786``, or ``local``
    :param timeout: seconds to wait for the scheduler, and for its first worker
    """
    try:
        import distributed
    except ImportError:
        message = 'for --dask, the package distributed is needed\npip install "sbformat[dask]"'
        raise parallel.WorkersError(message) from None
    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet_logging())
        try:
            client = stack.enter_context(_open_client(distributed, address, timeout))
            client.wait_for_workers(1, timeout=timeout)
        except (OSError, ValueError, TimeoutError, distributed.TimeoutError) as error:
            raise _explain(address, error) from None
        _check_versions(client.run(_find_version, on_error="return"))
        workers = sum(client.nthreads().values())
        yield client.get_executor(pure=False), workers


@contextlib.contextmanager
def _open_client(distributed: Any, address: str, timeout: float) -> Iterator[Any]:
    import logging

    if address != LOCAL:
        from importlib import import_module

        comm, core = import_module("distributed.comm"), import_module("distributed.core")
        # a client with a wrong address ends badly
        comm.get_address_host_port(core.coerce_to_address(address), strict=True)
        with distributed.Client(address, timeout=timeout, set_as_default=False) as client:
            yield client
        return
    with (
        distributed.LocalCluster(
            n_workers=parallel.processors(), threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
            host="127.0.0.1", silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        yield client


@contextlib.contextmanager
def _quiet_logging() -> Iterator[None]:
    """Keep the logs and warnings of Dask from standard error; what goes wrong is an error of the command."""
    import logging
    import warnings

    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _explain(address: str, error: BaseException) -> parallel.WorkersError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return parallel.WorkersError(f"--dask {escape(address)}: no scheduler with workers: {escape(lines[0], 300)}")


def _find_version() -> str:
    """Return the release of sbformat; runs on each worker."""
    import sbformat

    return sbformat.__version__


def _check_versions(found: dict[str, Any]) -> None:
    """Check that each worker has this release."""
    for worker, version in sorted(found.items()):
        if version != __version__:
            has = f"it has {escape(str(version))}" if isinstance(version, str) else f"it answers {escape(str(version))}"
            raise parallel.WorkersError(f"the Dask worker {escape(worker)} needs sbformat {__version__}: {has}")
