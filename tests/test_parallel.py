"""``map_in_order`` with executors of the caller: order, what is under way, and workers that are killed."""

from __future__ import annotations

from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sbformat import catalog
from sbformat.cli import main
from sbformat.parallel import WorkersError, map_in_order
from tests.helpers.work_for_processes import die_once, double, double_or_die, fail, lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


def test_an_executor_keeps_the_order() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(map_in_order(double, range(40), lost=lost, executor=pool)) == [2 * number for number in range(40)]


@pytest.mark.parametrize(("workers", "most"), [(None, 64), (1, 16), (3, 48)])
def test_a_bounded_number_of_items_is_under_way(workers: int | None, most: int) -> None:
    taken: list[int] = []

    def numbers() -> Iterable[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    with ThreadPoolExecutor(2) as pool:
        done = map_in_order(double, numbers(), lost=lost, executor=pool, workers=workers)
        for count in range(5):
            assert next(done) == 2 * count
            assert len(taken) <= most + count
        done.close()  # type: ignore[attr-defined]
    assert len(taken) < 100


def test_a_pool_that_is_broken_is_replaced() -> None:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        done = list(map_in_order(double_or_die, range(12), lost=lost, executor=pool))
    assert done == [-number if number % 7 == 3 else number * 2 for number in range(12)]


def test_a_process_that_is_ended_once_costs_nothing(tmp_path: Path) -> None:
    items = [(number, str(tmp_path)) for number in range(8)]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        assert list(map_in_order(die_once, items, lost=lost, executor=pool)) == list(range(8))


def test_an_error_of_the_work_is_raised() -> None:
    with ThreadPoolExecutor(2) as pool, pytest.raises(ZeroDivisionError):
        list(map_in_order(fail, [ZeroDivisionError] * 3, lost=lost, executor=pool))


def test_an_executor_that_was_shut_down_is_an_error() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(WorkersError, match="the executor takes no more work"):
        list(map_in_order(double, range(3), lost=lost, executor=pool))


KilledWorker = type("KilledWorker", (Exception,), {"__module__": "distributed.scheduler"})


class Failing(Executor):
    """An executor whose items fail a number of times."""

    def __init__(self, error: type[BaseException], failures: dict[int, int]) -> None:
        self.error, self.failures = error, failures
        self.submitted: list[int] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        item = args[0]
        self.submitted.append(item)
        future: Future[Any] = Future()
        if self.failures.get(item, 0) > 0:
            self.failures[item] -= 1
            future.set_exception(self.error())
        else:
            future.set_result(fn(*args))
        return future


@pytest.mark.parametrize("error", [KilledWorker, CancelledError])
def test_an_item_that_a_cluster_lost_is_submitted_again(error: type[BaseException]) -> None:
    executor = Failing(error, {2: 1, 3: 2})
    assert list(map_in_order(double, range(5), lost=lost, executor=executor)) == [0, 2, 4, 6, 8]
    assert [executor.submitted.count(item) for item in range(5)] == [1, 1, 2, 3, 1]


def test_an_item_that_kills_each_worker_is_lost() -> None:
    executor = Failing(KilledWorker, {2: 99})
    assert list(map_in_order(double, range(5), lost=lost, executor=executor)) == [0, 2, -2, 6, 8]
    assert executor.submitted.count(2) == 3


def test_a_cluster_that_cancels_everything_has_ended() -> None:
    with pytest.raises(WorkersError, match="the cluster does no more work"):
        list(map_in_order(double, range(5), lost=lost, executor=Failing(CancelledError, {2: 99})))


class FailingWithin(Executor):
    """Fails for the first item as Dask's executor does, when the result is computed again: in code of its own."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        self.calls += 1
        future: Future[Any] = Future()
        if self.calls > 1:
            future.set_result(work(*arguments))
            return future
        try:
            exec("typ, exc, tb = 5", {"__name__": "distributed.cfexecutor"})  # noqa: S102 -- a frame of that module
        except TypeError as error:
            future.set_exception(error)
        return future


def test_an_error_within_the_code_of_a_cluster_is_tried_again() -> None:
    executor = FailingWithin()
    assert list(map_in_order(double, range(3), lost=lost, executor=executor)) == [0, 2, 4]
    assert executor.calls == 4


class WithoutWorkers(Executor):
    """A client of Dask, and its executor: no item gets a result, and the scheduler answers as a test says.

    White-box: a real cluster takes seconds to start; it is in ``tests/cli/test_dask.py``.
    """

    scheduler = SimpleNamespace(ncores=None)

    def __init__(self, cores: dict[str, int] | Exception) -> None:
        self._client = self
        self._cores = cores
        self._statuses = iter(["running"] * 5)
        self.waited: list[float] = []

    @property
    def status(self) -> str:
        return next(self._statuses, "closed")  # a test that fails ends

    def submit(self, fn: Callable[..., Any], /, *_: Any, pure: bool = True, **__: Any) -> Future[Any]:
        assert not pure  # as the client is called, not its executor
        return Future()

    def sync(self, _: object, *, callback_timeout: float) -> dict[str, int]:
        self.waited.append(callback_timeout)
        if isinstance(self._cores, Exception):
            raise self._cores
        return self._cores

    def wait_for_workers(self, _: int, timeout: float) -> None:
        self.waited.append(timeout)
        raise TimeoutError


@pytest.mark.parametrize(
    ("cores", "calls", "message"),
    [
        ({}, 2, "no workers, or its scheduler did not answer, for 0.01 s: .* --worker-timeout"),
        (TimeoutError(), 1, "no workers, or its scheduler did not answer, for 0.01 s"),
        (OSError(), 1, "no workers, or its scheduler did not answer, for 0.01 s"),
        ({"tcp://worker": 1}, 5, "has ended"),
    ],
)
def test_a_cluster_without_workers_is_an_error(cores: dict[str, int] | Exception, calls: int, message: str) -> None:
    pytest.importorskip("distributed")
    client = WithoutWorkers(cores)
    with pytest.raises(WorkersError, match=message):
        list(map_in_order(double, range(5), lost=lost, executor=client, worker_timeout=0.01))
    assert client.waited == [0.01] * calls
    client = WithoutWorkers(cores)
    with pytest.raises(WorkersError, match=message):
        next(catalog([b"", b""], executor=client, worker_timeout=0.01))


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "1e9", "9999999", ""])
def test_the_time_without_workers_is_a_number(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["scan", "a.zip", f"--worker-timeout={text}"])
    assert "expected seconds, such as 30 or 0.5, got" in capsys.readouterr().err
