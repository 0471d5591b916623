"""``--dask ADDRESS``: the workers of a Dask cluster, or of one on this machine (extra ``dask``)."""

from __future__ import annotations

import contextlib
import logging
import warnings
from typing import TYPE_CHECKING, Any, Final

from sbformat import __version__, parallel
from sbformat.errors import escape
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

LOCAL: Final = "local"
"""The address for workers on this machine, which begin and end with the command."""


class Cluster(Record):
    """The workers of a cluster."""

    executor: Executor
    workers: int
    """How many tasks they can work on at the same time."""


@contextlib.contextmanager
def connect(address: str, timeout: float) -> Iterator[Cluster]:
    """Connect to a cluster as long as the block runs.

    :param address: of the scheduler, such as ``tcp://127.0.0.1:8786``, or ``local``
    :param timeout: seconds to wait for the scheduler, and for its first worker
    :raises WorkersError: without Dask, and when the scheduler cannot be reached, or has no workers with this release of
        sbformat
    """
    try:
        import distributed
    except ImportError:
        message = "for --dask, the package distributed is needed: pip install 'sbformat[dask]'"
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
        yield Cluster(client.get_executor(pure=False), workers)


@contextlib.contextmanager
def _open_client(distributed: Any, address: str, timeout: float) -> Iterator[Any]:
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
    """Check that each worker has this release.

    :raises WorkersError: which names the first worker that has not
    """
    for worker, version in sorted(found.items()):
        if version != __version__:
            has = f"it has {escape(str(version))}" if isinstance(version, str) else f"it answers {escape(str(version))}"
            message = f"the Dask worker {escape(worker)} needs sbformat {__version__}: {has}"
            raise parallel.WorkersError(message)
