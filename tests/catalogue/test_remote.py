"""Catalogues of remote archives: what is fetched, what is taken over, and how sources are named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from tests.helpers.bundled import zipped
from tests.helpers.command_process import CommandProcesses, Outcome
from tests.helpers.http_server import HttpServer

if TYPE_CHECKING:
    from tests.helpers.hub_server import HubServer
    from tests.helpers.s3_server import S3Server

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

ARCHIVES = Path(__file__).parents[1] / "archives"
PPO = (ARCHIVES / "ppo-cartpole.zip").read_bytes()
SAC = (ARCHIVES / "sac-pendulum.zip").read_bytes()
STATISTICS = (ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes()


@pytest.fixture(scope="module")
def processes() -> Iterator[CommandProcesses]:
    with CommandProcesses() as started:
        yield started


@pytest.fixture
def run_catalog(processes: CommandProcesses) -> Callable[..., Outcome]:
    """Run the command in another process, which has its own connections."""

    def run(*arguments: object, env: dict[str, str] | None = None) -> Outcome:
        return processes.run("catalog", *arguments, environment={**os.environ, **(env or {})})

    return run


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Server]:
    """A server whose buckets belong to one test each."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    from tests.helpers.s3_server import S3Server

    with S3Server() as server:
        yield server


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_of_urls_are_those_of_the_files(tmp_path: Path) -> None:
    with HttpServer({"/ppo.zip": PPO, "/sac.zip": SAC}) as server:
        remote = list(sbformat.catalog([server.url("/ppo.zip"), server.url("/sac.zip")]))
    local = list(sbformat.catalog([ARCHIVES / "ppo-cartpole.zip", ARCHIVES / "sac-pendulum.zip"]))
    assert [row["source"].rpartition("/")[2] for row in remote] == ["ppo.zip", "sac.zip"]
    for here, there in zip(local, remote):
        assert there["version"] != here["version"]
        for row in (here, there):
            for name in ("source", "version", "statistics"):
                row.pop(name)
        assert there == here


def test_what_has_not_changed_is_not_fetched_again(tmp_path: Path, run_catalog: Callable[..., Outcome]) -> None:
    output = tmp_path / "runs.jsonl"
    with HttpServer({"/a.zip": PPO, "/b.zip": SAC}) as server:
        urls = [server.url("/a.zip"), server.url("/b.zip")]
        assert run_catalog(*urls, "-o", output).returncode == 0
        first = output.read_bytes()
        server.reset()
        done = run_catalog(*urls, "-o", output)
        assert "0 read, 2 known from before" in done.stdout, done.stderr
        assert output.read_bytes() == first
        assert len(server.requests) == 2  # the state of each
        server.put("/b.zip", PPO)
        done = run_catalog(*urls, "-o", output)
        assert "1 read, 1 known from before" in done.stdout, done.stderr
    assert [row["algorithm"] for row in read_rows(output)] == ["PPO", "PPO"]


def test_a_missing_file_is_a_row_and_tokens_are_nowhere(tmp_path: Path, run_catalog: Callable[..., Outcome]) -> None:
    output = tmp_path / "runs.jsonl"
    listed = tmp_path / "list.txt"
    with HttpServer({"/a.zip": PPO}) as server:
        listed.write_text(f"{server.url('/a.zip')}?token=hunter2&id=1\n{server.url('/none.zip')}?token=hunter2\n")
        done = run_catalog("--list", listed, "-o", output)
    assert done.returncode == 1
    rows = read_rows(output)
    assert [row["outcome"] for row in rows] == ["ok", "cannot open"]
    assert rows[1]["error"] == "not found"
    assert "hunter2" not in done.stdout + done.stderr + output.read_text()
    assert len({row["source"] for row in rows}) == 2


def test_a_server_that_fails_leaves_the_catalogue_as_it_is(tmp_path: Path, run_catalog: Callable[..., Outcome]) -> None:
    """A folder that cannot be listed now has not lost its archives."""
    output = tmp_path / "runs.jsonl"
    assert run_catalog(ARCHIVES / "ppo-cartpole.zip", "-o", output).returncode == 0
    before = output.read_bytes()
    pytest.importorskip("huggingface_hub")
    env = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}
    done = run_catalog("hf://sb3", "-o", output, env=env)
    assert done.returncode == 2
    assert output.read_bytes() == before
    assert "Traceback" not in done.stderr


def test_a_bucket_with_statistics(tmp_path: Path, bucket: S3Server, run_catalog: Callable[..., Outcome]) -> None:
    output, env = tmp_path / "runs.jsonl", bucket.make_environment()
    for number in range(3):
        bucket.put_object("bucket", f"runs/{number}/agent.zip", SAC)
    bucket.put_object("bucket", "runs/1/vecnormalize.pkl", STATISTICS)
    bucket.put_object(
        "bucket", "runs/2/train_eval_metrics.zip", zipped({"progress.csv": b"steps,eval/mean_reward\n5,2\n"})
    )
    done = run_catalog("s3://bucket/runs/", "-o", output, env=env)
    assert done.returncode == 0, done.stderr
    found = {row["source"]: row["statistics"] for row in read_rows(output)}
    assert found == {
        "s3://bucket/runs/0/agent.zip": None,
        "s3://bucket/runs/1/agent.zip": "vecnormalize.pkl",
        "s3://bucket/runs/1/vecnormalize.pkl": None,
        "s3://bucket/runs/2/agent.zip": None,
    }
    assert [row["best_evaluation"] for row in read_rows(output)] == [None, None, None, 2.0]
    assert "0 read, 4 known" in run_catalog("s3://bucket/runs/", "-o", output, env=env).stdout
    bucket.put_object("bucket", "runs/2/agent.zip", PPO)
    assert "1 read, 3 known" in run_catalog("s3://bucket/runs/", "-o", output, env=env).stdout


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    pytest.importorskip("huggingface_hub")
    from tests.helpers.hub_server import HubServer

    with HubServer(page=1) as server:
        server.create(
            "sb3/ppo-CartPole-v1", {"ppo-CartPole-v1.zip": PPO, "README.md": b"x"}, tags=["stable-baselines3"]
        )
        server.create("sb3/sac", {"sac.zip": SAC, "vec_normalize.pkl": STATISTICS}, tags=["stable-baselines3"])
        server.create("other/ppo", {"ppo.zip": PPO}, tags=[])
        yield server


@pytest.mark.parametrize("query", ["hf://sb3", "hf://?tag=stable-baselines3", "hf://?author=sb3&search=ppo"])
def test_queries_of_the_hub(tmp_path: Path, query: str, hub: HubServer, run_catalog: Callable[..., Outcome]) -> None:
    output, env = tmp_path / "runs.jsonl", hub.make_environment()
    done = run_catalog(query, "-o", output, "--jobs", "2", env=env)
    assert done.returncode == 0, done.stderr
    found = [(row["source"], row["statistics"]) for row in read_rows(output)]
    expected = [
        ("hf://sb3/ppo-CartPole-v1/ppo-CartPole-v1.zip", None),
        ("hf://sb3/sac/sac.zip", "vec_normalize.pkl"),
        ("hf://sb3/sac/vec_normalize.pkl", None),
    ]
    assert found == (expected[:1] if "search" in query else expected)
    assert f"0 read, {len(found)} known" in run_catalog(query, "-o", output, env=env).stdout


def test_every_object_of_a_bucket_is_judged(bucket: S3Server, processes: CommandProcesses) -> None:
    """Keys with empty parts, or with dots, are no paths of a folder, and are scanned all the same."""
    bucket.put_object("judged", "h/ok.zip", PPO)
    bucket.put_object("judged", "h//evil.pkl", b"\x80\x03cos\nsystem\nX\x04\x00\x00\x00true\x85R.")
    environment = {**os.environ, **bucket.make_environment()}
    status, out, err = processes.run("scan", "s3://judged/h/", environment=environment)
    assert status == 1, err
    assert "h//evil.pkl: dangerous" in out


def test_an_unzipped_archive_of_a_bucket_is_one_row(
    tmp_path: Path, bucket: S3Server, run_catalog: Callable[..., Outcome]
) -> None:
    import io
    import zipfile

    output = tmp_path / "runs.jsonl"
    with zipfile.ZipFile(io.BytesIO(PPO)) as file:
        for name in file.namelist():
            bucket.put_object("agents", f"top/{name}", file.read(name))
    bucket.put_object("agents", "top/extra/evil.zip", PPO)
    done = run_catalog("s3://agents/top", "-o", output, env=bucket.make_environment())
    assert done.returncode == 0, done.stderr
    assert [(row["source"], row["format"]) for row in read_rows(output)] == [("s3://agents/top", "folder")]


def test_a_source_that_is_not_there_leaves_the_table(tmp_path: Path, run_catalog: Callable[..., Outcome]) -> None:
    output = tmp_path / "runs.jsonl"
    assert run_catalog(ARCHIVES / "ppo-cartpole.zip", "-o", output).returncode == 0
    before = output.read_bytes()
    done = run_catalog(tmp_path / "typo", "-o", output)
    assert done.returncode == 2
    assert "no source can be read" in done.stderr
    assert output.read_bytes() == before
