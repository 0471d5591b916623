"""``--dask``: a real cluster on loopback, of a scheduler and two workers in processes of their own.

The commands run in processes of their own as well: what Dask leaves behind is no warning of these tests.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.bundled import ARCHIVES, ROOT
from tests.helpers.many_archives import write_archives

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("distributed")

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


class Cluster:
    """A scheduler and two workers."""

    def __init__(self, folder: Path) -> None:
        self.address = f"tcp://127.0.0.1:{find_port()}"
        self._folder = folder
        port = self.address.rpartition(":")[2]
        self.scheduler = self._start("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        self.workers = [self._start_worker() for _ in range(2)]

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", *arguments]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, env=ENVIRONMENT, cwd=self._folder, **quiet)

    def _start_worker(self) -> subprocess.Popen[bytes]:
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
        return self._start("dask_worker", self.address, *options)

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


def start(*arguments: object, cwd: Path = ROOT) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sbformat", *map(str, arguments)]
    return subprocess.Popen(
        command, env=ENVIRONMENT, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(*arguments: object, cwd: Path = ROOT) -> tuple[int, str, str]:
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_a_worker_that_is_killed_costs_a_try(cluster: Cluster, tmp_path: Path) -> None:
    write_archives(tmp_path / "runs", 300)
    (tmp_path / "runs" / "agent_00099.zip").write_bytes(b"no zip")
    assert run("catalog", "runs", "-o", "one.csv", "--jobs", 1, cwd=tmp_path)[0] == 1
    process = start("catalog", "runs", "-o", "out.csv", "--dask", cluster.address, cwd=tmp_path)
    spool = tmp_path / "out.csv.partial"
    deadline = time.monotonic() + 60
    while not (spool.exists() and spool.stat().st_size > 100_000):  # some rows are committed, others under way
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    cluster.workers[0].send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (1, "")
    assert "300 rows" in out
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


@pytest.mark.parametrize("command", ["scan", "validate", "inspect"])
def test_other_commands_have_the_same_reports(cluster: Cluster, command: str) -> None:
    expected = run(command, ARCHIVES, "--format", "json", "--jobs", 1)
    assert run(command, "tests/archives", "--format", "json", "--dask", cluster.address) == expected


def test_rebuild_writes_the_same_files(cluster: Cluster, tmp_path: Path) -> None:
    expected = run("rebuild", ARCHIVES, "-o", tmp_path / "one", "--jobs", 1)
    found = run("rebuild", ARCHIVES, "-o", tmp_path / "two", "--dask", cluster.address)
    assert (found[0], found[2]) == (expected[0], expected[2])
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "two").iterdir())
    assert names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


KILLER = """
import concurrent.futures, os, signal, sys, time
import distributed
from sbformat.parallel import map_in_order
from tests.helpers.work_for_processes import double_or_die, lost

if __name__ == "__main__":
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            done = map_in_order(double_or_die, range(12), lost=lost, executor=client.get_executor(), workers=2)
            print(list(done))
"""


def test_an_item_that_kills_its_workers_is_lost_alone(tmp_path: Path) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    done = subprocess.run(
        [sys.executable, tmp_path / "killer.py"], env=ENVIRONMENT, cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    expected = [-number if number % 7 == 3 else number * 2 for number in range(12)]
    assert done.stdout.splitlines()[-1:] == [str(expected)], done.stderr[-2000:]


def test_workers_of_this_machine_begin_and_end_with_the_command(tmp_path: Path) -> None:
    with socket.socket() as other:  # the port that Dask shows its dashboard on may be taken
        with contextlib.suppress(OSError):
            other.bind(("127.0.0.1", 8787))
            other.listen()
        status, out, err = run("catalog", ARCHIVES, "-o", tmp_path / "out.csv", "--dask", "local")
    assert (status, err) == (0, "")
    assert "6 rows" in out


def test_a_scheduler_that_is_not_there_is_one_line() -> None:
    begun = time.monotonic()
    status, out, err = run("scan", ARCHIVES, "--dask", f"tcp://127.0.0.1:{find_port()}")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("sbformat: --dask tcp://127.0.0.1:")
    assert time.monotonic() - begun < 40


@pytest.mark.parametrize("address", ["nonsense://x", "no address", "tcp://"])
def test_a_wrong_address_is_one_line(address: str) -> None:
    status, out, err = run("scan", ARCHIVES, "--dask", address)
    assert (status, out, err.count("\n"), "Traceback" in err) == (2, "", 1, False)


def test_a_scheduler_that_ends_is_an_error(cluster: Cluster, tmp_path: Path) -> None:
    write_archives(tmp_path / "runs", 300)
    process = start("catalog", "runs", "-o", "out.csv", "--dask", cluster.address, cwd=tmp_path)
    spool = tmp_path / "out.csv.partial"
    while not (spool.exists() and spool.stat().st_size > 100_000):
        assert process.poll() is None
        time.sleep(0.02)
    cluster.scheduler.kill()
    out, err = process.communicate(timeout=200)
    assert (process.returncode, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("sbformat: ")
    assert "internal error" not in err
    assert spool.exists()
    status, out, _ = run("catalog", "runs", "-o", "out.csv", cwd=tmp_path)
    assert (status, "known from before" in out) == (0, True)


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from sbformat.cli import main

    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["scan", str(ARCHIVES), "--dask", "local"]) == 2
    assert "pip install 'sbformat[dask]'" in capsys.readouterr().err
