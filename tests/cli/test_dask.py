"""``--dask``: a real cluster on loopback, of a scheduler and two workers in processes of their own.

The commands run in processes of their own as well: what Dask leaves behind is no warning of these tests. To import Dask
takes each of them a second or two, so that the tests share a cluster, and most share the process of the commands.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.bundled import ARCHIVES, ROOT
from tests.helpers.command_process import CommandProcesses, Outcome
from tests.helpers.many_archives import write_statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytest.importorskip("distributed")

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",  # of 3: a worker that is killed takes seconds to come back
}
PATIENCE = 500
"""Seconds after which a process has hung. Each takes a few, or a minute where much else runs."""

KILL = """
import json
import os
import signal
from distributed.diagnostics.plugin import SchedulerPlugin

class Kill(SchedulerPlugin):
    # Kills processes when the spool has rows, at the end of a task: others are under way.

    def transition(self, key, start, finish, *_, **__):
        if finish == "memory" and os.path.exists("kill.json"):
            with open("kill.json") as file:
                plan = json.load(file)
            if os.path.exists(plan["spool"]) and os.path.getsize(plan["spool"]) > plan["size"]:
                os.unlink("kill.json")
                for pid in plan["pids"]:
                    os.kill(pid, signal.SIGKILL)

def dask_setup(scheduler):
    scheduler.add_plugin(Kill(), name="kill")
"""
WAIT = """
import sys
import distributed
with distributed.Client(sys.argv[1], timeout=400) as client:
    client.wait_for_workers(2, timeout=400)
"""


class Cluster:
    """A scheduler and two workers, which are there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "kill.py").write_text(KILL)
        self.scheduler = self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file",
            "scheduler.json", "--preload", "kill.py",
        )  # fmt: skip
        self.workers = [self.start_worker() for _ in range(2)]
        wait_until((folder / "scheduler.json").exists, self.scheduler)
        wait_until(lambda: (folder / "scheduler.json").read_text().endswith("}"), self.scheduler)
        self.address: str = json.loads((folder / "scheduler.json").read_text())["address"]
        assert run_command([sys.executable, "-W", "ignore", "-c", WAIT, self.address])[0] == 0

    def replace_workers(self) -> None:
        """Start another worker for each that was killed."""
        for index, process in enumerate(self.workers):
            if process.poll() is not None:
                self.workers[index] = self.start_worker()

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", *arguments]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, env=ENVIRONMENT, cwd=self._folder, **quiet)

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker, which waits for the scheduler."""
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
        return self._start("dask_worker", "--scheduler-file", "scheduler.json", *options)

    def kill_when_committed(self, spool: Path, *processes: subprocess.Popen[bytes]) -> None:
        """Let the scheduler kill processes as soon as the spool has rows.

        It has them before the last task ends: 200 rows are committed together, and 32 tasks are under way.
        """
        size = 250_000  # twice that of the sources alone
        plan = {"pids": [process.pid for process in processes], "spool": str(spool), "size": size}
        (self._folder / "plan.json").write_text(json.dumps(plan))
        (self._folder / "plan.json").rename(self._folder / "kill.json")

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


def wait_until(done: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert process is None or process.poll() is None
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.02)


class Clusters:
    """The cluster of these tests, which may end its parts."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._started: list[Cluster] = []

    def get(self) -> Cluster:
        """Return a cluster with a scheduler and two workers."""
        if not self._started or self._started[-1].scheduler.poll() is not None:
            self._started.append(Cluster(self._factory.mktemp("cluster")))
        self._started[-1].replace_workers()
        return self._started[-1]

    def close(self) -> None:
        for cluster in self._started:
            cluster.close()


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    made = Clusters(tmp_path_factory)
    yield made
    made.close()


@pytest.fixture
def cluster(clusters: Clusters) -> Cluster:
    return clusters.get()


def run_command(command: list[Any], cwd: Path = ROOT) -> tuple[int, str, str]:
    """Run a command; one that hangs is killed with its workers, which would keep its output open."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, env=ENVIRONMENT, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            wait_until(lambda: bool(os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)))
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # its number is not another process's before it is waited for
            status = process.wait()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return status, texts[0], texts[1]


def run(*arguments: object, cwd: Path = ROOT) -> tuple[int, str, str]:
    return run_command([sys.executable, "-m", "sbformat", *map(str, arguments)], cwd)


@pytest.mark.exhaustive
def test_a_worker_that_is_killed_costs_a_try(cluster: Cluster, tmp_path: Path) -> None:
    write_statistics(tmp_path / "runs", 300)
    (tmp_path / "runs" / "statistics_00099.pkl").write_bytes(b"no zip")
    assert run("catalog", "runs", "-o", "one.csv", "--jobs", 1, cwd=tmp_path)[0] == 1
    cluster.kill_when_committed(tmp_path / "out.csv.partial", cluster.workers[0])
    status, out, err = run("catalog", "runs", "-o", "out.csv", "--dask", cluster.address, cwd=tmp_path)
    assert (status, err) == (1, "")
    assert cluster.workers[0].wait(PATIENCE) == -signal.SIGKILL
    assert "300 rows" in out
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


COMMANDS = ("scan", "validate", "inspect")
WRONG = ("nonsense://x", "no address", "tcp://")


def find_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "dask"


@pytest.fixture(scope="module")
def outcomes(clusters: Clusters, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The status, output and errors of command lines that one process runs, with a cluster and without."""
    address = clusters.get().address
    folder = find_folder(tmp_path_factory)
    folder.mkdir()
    lines: dict[str, list[object]] = {}
    for command in COMMANDS:
        lines[f"{command} alone"] = [command, ARCHIVES, "--format", "json", "--jobs", 1]
        lines[f"{command} by workers"] = [command, "tests/archives", "--format", "json", "--dask", address]
    lines["rebuild alone"] = ["rebuild", ARCHIVES, "-o", folder / "one", "--jobs", 1]
    lines["rebuild by workers"] = ["rebuild", ARCHIVES, "-o", folder / "two", "--dask", address]
    for wrong in WRONG:
        lines[wrong] = ["scan", ARCHIVES, "--dask", wrong]
    lines["local"] = ["catalog", ARCHIVES, "-o", folder / "out.csv", "--dask", "local"]
    with CommandProcesses() as processes, socket.socket() as other:  # Dask shows its dashboard on a port
        with contextlib.suppress(OSError):
            other.bind(("127.0.0.1", 8787))
            other.listen()
        return {name: processes.run(*line, environment=ENVIRONMENT) for name, line in lines.items()}


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", COMMANDS)
def test_other_commands_have_the_same_reports(outcomes: dict[str, Outcome], command: str) -> None:
    assert outcomes[f"{command} by workers"] == outcomes[f"{command} alone"]
    assert outcomes[f"{command} alone"][1]


@pytest.mark.exhaustive
def test_rebuild_writes_the_same_files(outcomes: dict[str, Outcome], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = find_folder(tmp_path_factory)
    expected, found = outcomes["rebuild alone"], outcomes["rebuild by workers"]
    assert (found[0], found[2]) == (expected[0], expected[2])
    names = sorted(path.name for path in (folder / "one").iterdir())
    assert names == sorted(path.name for path in (folder / "two").iterdir())
    assert names
    for name in names:
        assert (folder / "one" / name).read_bytes() == (folder / "two" / name).read_bytes()


KILLER = """
import sys
import distributed
from sbformat.parallel import map_in_order
from tests.helpers.work_for_processes import double_or_die, lost

def give_up_early(dask_scheduler):
    dask_scheduler.allowed_failures = 0  # each failure costs a worker

with distributed.Client(sys.argv[1]) as client:
    client.run_on_scheduler(give_up_early)
    done = map_in_order(double_or_die, range(7), lost=lost, executor=client.get_executor(), workers=2)
    print(list(done))
"""


@contextlib.contextmanager
def replaced_workers(cluster: Cluster) -> Iterator[None]:
    """Start another worker for each that is killed, which the nannies of Dask fail to do now and then."""
    ended = threading.Event()

    def replace() -> None:
        while not ended.wait(0.1):
            cluster.replace_workers()

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.exhaustive
def test_an_item_that_kills_its_workers_is_lost_alone(cluster: Cluster) -> None:
    with replaced_workers(cluster):
        _, out, err = run_command([sys.executable, "-c", KILLER, cluster.address])
    expected = [-number if number % 7 == 3 else number * 2 for number in range(7)]
    assert out.splitlines()[-1:] == [str(expected)], err[-2000:]


@pytest.mark.exhaustive
def test_workers_of_this_machine_begin_and_end_with_the_command(outcomes: dict[str, Outcome]) -> None:
    status, out, err = outcomes["local"]
    assert (status, err) == (0, "")
    assert "6 rows" in out


@pytest.mark.exhaustive
def test_a_scheduler_that_is_not_there_is_one_line() -> None:
    with socket.socket() as probe:  # a port of ours, on which nothing listens
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        status, out, err = run("scan", ARCHIVES, "--dask", address, "--worker-timeout", 1)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("sbformat: --dask tcp://127.0.0.1:")
    assert err.endswith(" after 1 s\n")


@pytest.mark.exhaustive
@pytest.mark.parametrize("address", WRONG)
def test_a_wrong_address_is_one_line(outcomes: dict[str, Outcome], address: str) -> None:
    status, out, err = outcomes[address]
    assert (status, out, err.count("\n"), "Traceback" in err) == (2, "", 1, False)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("part", "words"), [("scheduler", "the "), ("workers", "the cluster has had no workers")])
def test_a_cluster_that_ends_is_an_error(cluster: Cluster, tmp_path: Path, part: str, words: str) -> None:
    write_statistics(tmp_path / "runs", 300)
    spool = tmp_path / "out.csv.partial"
    cluster.kill_when_committed(spool, *(cluster.workers if part == "workers" else [cluster.scheduler]))
    command = ("catalog", "runs", "-o", "out.csv")
    status, out, err = run(*command, "--dask", cluster.address, "--worker-timeout", 1, cwd=tmp_path)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith(f"sbformat: {words}")
    assert spool.exists()
    status, out, _ = run(*command, cwd=tmp_path)
    assert (status, "known from before" in out) == (0, True)


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from sbformat.cli import main

    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["scan", str(ARCHIVES), "--dask", "local"]) == 2
    assert 'pip install "sbformat[dask]"' in capsys.readouterr().err
