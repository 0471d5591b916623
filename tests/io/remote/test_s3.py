"""Objects of S3: moto's server, s3fs, and a server between them that counts, refuses, fails and cuts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("moto.server")
pytest.importorskip("s3fs")

import sbformat
from sbformat import ContainerError
from sbformat.cli import main
from sbformat.io.remote import open_remote
from sbformat.io.remote.listing import is_folder, iter_files, walk_folder
from sbformat.io.urls import Url
from tests.helpers.bundled import ARCHIVES, PPO, SAC, entries
from tests.helpers.command_process import CommandProcesses, Outcome
from tests.helpers.http_behaviours import Behaviour, Closes, Cuts, Fails, NeverAnswers
from tests.helpers.large_agents import make_many_tensors, make_wide_sac
from tests.helpers.remote_errors import catch, refuse_secrets
from tests.helpers.reports import parse_reports, unfold
from tests.helpers.s3_server import NeedsKey, Refuses, S3Server

DATA = make_many_tensors(3, 200_000)
SMALLER = make_wide_sac(300)
OTHER = DATA[:300_000] + bytes([DATA[300_000] ^ 1]) + DATA[300_001:]
TREE = {
    "runs/ppo/best.zip": PPO.read_bytes(),
    "runs/sac/b.zip": SAC.read_bytes(),
    "runs/sac/notes.txt": b"notes",
    "runs/a #1%20+.zip": PPO.read_bytes(),
    "runs/": b"",
    "runs/empty/": b"",
    "runs.zip": PPO.read_bytes(),
    **{f"runs/unzipped/{name}": content for name, content in entries().items()},
}
"""Objects of no bytes with a final slash are what some programs make for folders."""


@pytest.fixture(scope="module")
def started() -> Iterator[S3Server]:
    with S3Server() as server:
        for name, content in TREE.items():
            server.put_object("agents", name, content)
        server.put_object("agents", "agent.zip", DATA)
        server.put_object("agents", "public/agent.zip", DATA, public=True)
        yield server


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients wait for seconds before they try again."""
    sleep = asyncio.sleep
    monkeypatch.setattr("asyncio.sleep", lambda _, result=None: sleep(0, result))


@pytest.fixture
def server(started: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    started.behaviour = ()
    started.reset()
    yield started
    started.behaviour = ()


def url(server: S3Server, path: str = "agents/agent.zip", **options: Any) -> Url:
    return Url(f"s3://{path}", **{**server.storage_options, **options})


def refuse(server: S3Server, path: str = "agents/agent.zip", **options: Any) -> Exception:
    """Reading it is one error, without the keys."""
    named = url(server, path, **options)
    secrets = [value for value in (named.options["key"], named.options["secret"]) if value]
    error = catch(lambda: sbformat.read(named), *secrets)
    assert f"s3://{path}" in str(error)
    return error


# -- files --------------------------------------------------------------------------------------------


def test_a_file_is_read_by_ranges(server: S3Server) -> None:
    source = open_remote(url(server))
    assert (source.size, source.is_by_range(), source.name) == (len(DATA), True, "s3://agents/agent.zip")
    assert bytes(source.view(300_000, 5)) == DATA[300_000:300_005]
    assert source.version
    assert [record.method for record in server.requests] == ["HEAD", "GET"]
    assert server.requests[1].headers["if-match"] == source.version


def test_an_archive_is_read_and_judged_as_a_local_one(server: S3Server) -> None:
    named = url(server)
    assert sbformat.read(named).parameters["policy"].to_numpy().keys() == read_local().keys()
    assert sbformat.scan(named) == sbformat.scan(DATA)
    assert sbformat.inspect(named)._replace(not_checked=()) == sbformat.inspect(DATA)
    for path in ARCHIVES.iterdir():
        if path.suffix in {".zip", ".pkl", ".pth"}:
            server.put_object("agents", f"bundled/{path.name}", path.read_bytes())
            remote = sbformat.inspect(url(server, f"agents/bundled/{path.name}"))
            assert repr(tuple(remote._replace(not_checked=()))) == repr(tuple(sbformat.inspect(path)))


def read_local() -> Any:
    return sbformat.reads(DATA).parameters["policy"].to_numpy()


@pytest.mark.parametrize("path", ["agents/runs/ppo/best", "agents/runs/a #1%20+.zip"])
def test_names_are_those_of_the_objects(path: str, server: S3Server) -> None:
    """No escape is decoded; a name without suffix falls back to .zip."""
    assert sbformat.read(url(server, path)).format == "sb3"


@pytest.mark.parametrize("width", [700, pytest.param(2180, marks=pytest.mark.exhaustive)])  # 21 and 200 MiB
def test_counts_of_a_large_archive(server: S3Server, width: int) -> None:
    data = make_wide_sac(width)
    server.put_object("large", "agent.zip", data)
    named = url(server, "large/agent.zip")
    report = sbformat.inspect(named)
    assert report._replace(not_checked=()) == sbformat.inspect(data)
    assert len(server.requests) <= 12
    assert server.bytes_sent <= 300_000
    server.reset()
    with sbformat.safe_open(named) as file:
        tensor = file.get_tensor("actor.latent_pi.2.weight")
    assert server.bytes_sent <= tensor.nbytes + 200_000
    assert len(server.requests) <= 12
    server.delete_object("large", "agent.zip")


@pytest.mark.parametrize("work", [sbformat.read, sbformat.scan, sbformat.validate])
def test_what_judges_the_bytes_fetches_each_once(work: Callable[[str], object], server: S3Server) -> None:
    server.put_object("large", "agent.zip", SMALLER)
    work(url(server, "large/agent.zip"))
    assert server.bytes_sent == len(SMALLER)
    assert len(server.requests) <= 5


# -- what fails ---------------------------------------------------------------------------------------


def test_a_missing_object_and_a_missing_bucket(server: S3Server) -> None:
    for path in ("agents/missing.zip", "missing/agent.zip"):
        error = refuse(server, path)
        assert isinstance(error, FileNotFoundError)
        assert error.filename == f"s3://{path}"


@pytest.mark.parametrize("path", ["agents/agent.zip", "agents/runs/"])
def test_a_wrong_key_is_denied(path: str, server: S3Server) -> None:
    server.behaviour = NeedsKey("right")
    for options in ({}, {"anon": True, "key": None, "secret": None}):
        error = catch(lambda options=options: sbformat.scan(url(server, path, **options)), server.secret)  # type: ignore[misc]
        assert isinstance(error, PermissionError)
        assert "AWS" in str(error)
    assert sbformat.scan(url(server, path, key="right")).verdict == "clean"


def test_a_public_object_needs_no_key(server: S3Server) -> None:
    named = url(server, "agents/public/agent.zip", anon=True, key=None, secret=None)
    assert sbformat.read(named).format == "sb3"
    assert all(record.authorization is None for record in server.requests)


@pytest.mark.parametrize(
    "failure", [Refuses(503, "SlowDown"), Refuses(500, "InternalError"), Fails(503), Closes(), Cuts(1000)], ids=str
)
@pytest.mark.parametrize("after", [0, 1])
def test_a_failure_that_passes_is_not_seen(failure: Behaviour, after: int, server: S3Server) -> None:
    object.__setattr__(failure, "after", after)
    object.__setattr__(failure, "times", 1)
    server.behaviour = failure
    assert sbformat.read(url(server)).format == "sb3"


@pytest.mark.parametrize("failure", [Refuses(503, "SlowDown"), Fails(500), Refuses(400, "Strange")], ids=str)
def test_a_failure_that_lasts_is_one_error(failure: Behaviour, server: S3Server) -> None:
    server.behaviour = failure
    error = refuse(server)
    assert isinstance(error, OSError)
    assert "status" in str(error)
    assert len(server.requests) <= 100  # s3fs and aiohttp try again, each a few times


def test_a_server_that_never_answers_is_a_timeout(server: S3Server) -> None:
    server.behaviour = NeverAnswers(500)
    for path in ("agents/agent.zip", "agents/runs/"):
        error = catch(lambda path=path: [sbformat.scan(row.url) for row in iter_files(url(server, path, timeout=0.2))])  # type: ignore[misc]
        assert isinstance(error, TimeoutError)
        assert "did not answer in time" in str(error)


@pytest.mark.parametrize("failure", [Closes(after=1), Cuts(1000, after=1), Fails(503, after=1)], ids=str)
def test_a_failure_while_it_is_read_is_one_error(failure: Behaviour, server: S3Server) -> None:
    """With fewer tries than usual, by an option that s3fs hands to botocore."""
    server.behaviour = {"/agents/agent.zip": failure}
    assert isinstance(refuse(server, config_kwargs={"retries": {"max_attempts": 0}}), OSError)
    assert len(server.requests) <= 100  # s3fs and aiohttp try again, each a few times


def test_a_server_that_is_not_there_is_one_error() -> None:
    named = Url("s3://agents/agent.zip", key="k3y", secret="s3cr3t", endpoint_url="http://127.0.0.1:9")  # noqa: S106
    error = catch(lambda: sbformat.read(named), "k3y", "s3cr3t")
    assert isinstance(error, OSError)
    assert "refused" in str(error)


@pytest.mark.parametrize("to", [OTHER, DATA + b"x", DATA[:-200_000]], ids=len)
def test_an_object_that_changes_is_refused(to: bytes, server: S3Server) -> None:
    server.put_object("agents", "changing.zip", DATA)
    source = open_remote(url(server, "agents/changing.zip"))
    source.view(0, 10)
    server.put_object("agents", "changing.zip", to)
    error = catch(lambda: source.view(300_000, 10))
    assert isinstance(error, ContainerError)
    assert "has changed since it was opened" in str(error)
    server.delete_object("agents", "changing.zip")
    assert isinstance(catch(lambda: source.view(500_000, 10)), (FileNotFoundError, ContainerError))


# -- folders and patterns -----------------------------------------------------------------------------

RUNS = ["runs/a #1%20+.zip", "runs/ppo/best.zip", "runs/sac/b.zip", "runs/unzipped"]


def list_all(named: str) -> list[str]:
    return [row.url.removeprefix("s3://agents/") for row in iter_files(named)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("agents/runs/", RUNS),
        ("agents/runs", RUNS),
        ("agents/runs/sac", ["runs/sac/b.zip"]),
        ("agents/runs/unzipped", ["runs/unzipped"]),
        ("agents/runs/empty", []),
        ("agents/runs/**/*.zip", RUNS[:3]),
        ("agents/runs/**", [*RUNS[:3], "runs/sac/notes.txt", "runs/unzipped"]),
        ("agents/runs/*/*.zip", RUNS[1:3]),
        ("agents/runs/[ps]*", RUNS[1:3]),
        ("agents/runs/p*", RUNS[1:2]),
        ("agents/runs/*.zip", RUNS[:1]),
        ("agents/runs/*.pkl", []),
        ("agents/runs/ppo/best.zip", ["runs/ppo/best.zip"]),
    ],
)
def test_what_a_url_stands_for(path: str, expected: list[str], server: S3Server) -> None:
    found = list_all(url(server, path))
    assert sorted(found) == sorted(expected)
    assert all(isinstance(row.url, Url) and row.url.options for row in iter_files(url(server, path)))


def test_rows_have_sizes_and_versions(server: S3Server) -> None:
    rows = {row.url.rpartition("/")[2]: row for row in iter_files(url(server, "agents/runs/"))}
    assert rows["best.zip"].size == len(TREE["runs/ppo/best.zip"])
    assert rows["unzipped"].size == sum(map(len, entries().values()))
    assert all(row.version for row in rows.values())
    named = list(iter_files(url(server, "agents/runs/ppo/best.zip")))
    assert named == [(url(server, "agents/runs/ppo/best.zip"), None, None, None)]


def test_no_request_is_made_for_a_file_that_is_named(server: S3Server) -> None:
    assert not is_folder(url(server, "agents/runs/ppo/best.zip"))
    list(iter_files(url(server, "agents/runs/ppo/best.zip")))
    assert server.requests == []


def test_each_folder_is_listed_once(server: S3Server) -> None:
    list(iter_files(url(server, "agents/runs/*")))
    queries = [record.query for record in server.requests]
    assert len(queries) == len(set(queries)) <= 6


def test_a_folder_that_does_not_exist(server: S3Server) -> None:
    for path in ("agents/missing/", "missing/runs/"):
        error = catch(lambda path=path: list(walk_folder(url(server, path))))  # type: ignore[misc]
        assert isinstance(error, FileNotFoundError)


def test_folders_are_judged_and_described(server: S3Server) -> None:
    report = sbformat.scan(url(server, "agents/runs/"))
    assert (report.verdict, report.format) == ("clean", "folder")
    assert sbformat.inspect(url(server, "agents/runs/unzipped")).format == "folder"
    assert sbformat.read(url(server, "agents/runs/unzipped")) == sbformat.read(PPO)
    folder = sbformat.inspect_folder(url(server, "agents/runs/ppo"))
    assert [row.path.rpartition("/")[2] for row in folder.agents] == ["best.zip"]


def test_an_agent_of_a_bucket_acts(server: S3Server) -> None:
    for name, content in (("best_model.zip", SAC), ("vecnormalize.pkl", ARCHIVES / "vecnormalize-pendulum.pkl")):
        server.put_object("agents", f"acting/{name}", content.read_bytes())
    policy = sbformat.load_policy(url(server, "agents/acting"))
    local = sbformat.load_policy(SAC, vecnormalize=ARCHIVES / "vecnormalize-pendulum.pkl")
    observation = [0.1, 0.2, 0.3]
    actions = [agent.predict(observation, deterministic=True)[0] for agent in (policy, local)]
    assert actions[0] == pytest.approx(actions[1])


# -- the command line ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes() -> Iterator[CommandProcesses]:
    with CommandProcesses() as started:
        yield started


@pytest.fixture
def run(processes: CommandProcesses, server: S3Server) -> Callable[..., Outcome]:
    """Run a command in another process, configured by the environment alone."""

    def run(*arguments: str, key: str | None = None) -> Outcome:
        environment = {**server.make_environment(key), "PATH": "/usr/bin:/bin"}
        done = processes.run(*arguments, environment=environment)
        refuse_secrets(done.stdout + done.stderr, [server.secret, key or server.key])
        return done

    return run


def test_commands_take_urls_and_the_configuration_of_the_environment(run: Callable[..., Outcome]) -> None:
    status, out, err = run("inspect", "s3://agents/agent.zip", "s3://agents/runs/", "--format", "json")
    assert (status, err) == (0, "")
    paths = [row["path"] for row in parse_reports(out)]
    assert paths[0] == "s3://agents/agent.zip"
    status, out, err = run("scan", "s3://agents/runs/", "--format", "json")
    assert status == 0, (out, err)
    assert {row["path"] for row in parse_reports(out)} >= {f"s3://agents/{name}" for name in RUNS}


def test_errors_of_commands_are_one_line(server: S3Server, run: Callable[..., Outcome]) -> None:
    for arguments in (["inspect", "s3://agents/missing.zip"], ["validate", "s3://missing/a.zip"]):
        status, out, err = run(*arguments)
        assert (status, out) == (2, "")
        assert unfold(err).count("\n") == 1
        assert "not found" in err
    server.behaviour = NeedsKey("right")
    status, out, err = run("scan", "s3://agents/agent.zip", key="AKIAWRONGKEY")
    assert (status, out, unfold(err).count("\n")) == (2, "", 1)
    assert "access denied" in err


def test_json_of_errors_has_no_secrets(server: S3Server, run: Callable[..., Outcome]) -> None:
    server.behaviour = Refuses(403, "InvalidAccessKeyId")
    status, out, _ = run("inspect", "s3://agents/agent.zip", "--format", "json", key="AKIAWRONGKEY")
    assert status == 2
    (report,) = parse_reports(out)
    assert report["outcome"] == "cannot open"


def test_options_reach_the_command_line_in_process(
    server: S3Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.make_environment().items():
        monkeypatch.setenv(name, value)
    assert main(["inspect", "s3://agents/agent.zip"]) == 0
    out, err = capsys.readouterr()
    assert "PPO" in out
    assert "not checked" in out
    refuse_secrets(out + err, [server.secret])


def test_what_is_excluded_of_a_bucket_is_not_fetched(server: S3Server, run: Callable[..., Outcome]) -> None:
    patterns = ("--exclude", "ppo/", "--exclude", "*#*", "--exclude", "unzipped/", "--exclude", "empty")
    for command, found in (("validate", ["sac/b.zip"]), ("scan", ["sac/b.zip", "sac/notes.txt"])):
        server.reset()
        status, out, err = run(command, "s3://agents/runs/", *patterns, "--format", "json")
        assert (status, err) == (0, "sbformat: --exclude empty matches nothing\n")  # a bucket has no empty folders
        reports = {row["path"] for row in parse_reports(out)}
        assert reports == {f"s3://agents/runs/{name}" for name in found if name.endswith(".zip")}
        fetched = {row.path.partition("?")[0] for row in server.requests if "list-type" not in row.path}
        assert any("b.zip" in path for path in fetched)
        assert not [path for path in fetched if any(word in path for word in ("ppo", "unzipped", "%231"))], fetched
    status, out, _ = run("scan", "s3://agents/runs/*/*.zip", *patterns, "--list-skipped", "--format", "json")
    assert [row["path"] for row in parse_reports(out)] == ["s3://agents/runs/sac/b.zip"]
    skipped = json.loads(out)["skipped"]["files"]
    assert skipped == [{"path": "s3://agents/runs/ppo/best.zip", "reason": "excluded"}]


def test_commands_take_patterns(run: Callable[..., Outcome]) -> None:
    for command in ("scan", "inspect"):
        status, out, err = run(command, "s3://agents/runs/*/*.zip", "--format", "json")
        assert status == 0, err
        paths = [row["path"] for row in parse_reports(out)]
        assert paths == ["s3://agents/runs/ppo/best.zip", "s3://agents/runs/sac/b.zip"]
        status, out, err = run(command, "s3://agents/runs/*.nothing")
        assert (status, out, unfold(err).count("\n")) == (2, "", 1)
