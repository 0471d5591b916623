"""Repositories of the Hub: its own client and a stand-in for its API, with contents on another server."""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("huggingface_hub")
pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

import sbformat
from sbformat import UnsupportedError
from sbformat.io.opening import pin_folder
from sbformat.io.remote import hub as module
from sbformat.io.remote import open_remote
from sbformat.io.remote.hub import HubPath, find_repositories, list_repository, parse_hub_url, pin_commit
from sbformat.io.remote.listing import is_folder, iter_files, walk_folder
from sbformat.io.urls import Url
from tests.helpers.bundled import PPO, SAC, entries
from tests.helpers.command_process import CommandProcesses, Outcome
from tests.helpers.http_behaviours import Changes, Closes, Fails, NeverAnswers, Redirect
from tests.helpers.http_server import HttpServer
from tests.helpers.hub_server import HubServer
from tests.helpers.large_agents import make_many_tensors, make_wide_sac
from tests.helpers.remote_errors import catch, refuse_secrets
from tests.helpers.reports import parse_reports, unfold
from tests.helpers.run_folders import STATISTICS, make_hub

TOKEN = "hf_s3cr3tT0ken"  # noqa: S105 -- of the stand-in
DATA = make_many_tensors(3, 200_000)
PLAIN = {"ppo-CartPole-v1.zip": PPO.read_bytes(), "README.md": b"# PPO\n", "config.json": b"{}"}
NORMALIZED = {
    "sac-Pendulum-v1.zip": SAC.read_bytes(),
    "vec_normalize.pkl": STATISTICS,
    "README.md": b"# SAC\n",
    ".gitattributes": b"*.zip filter=lfs\n",
}


@contextlib.contextmanager
def start_hub() -> Iterator[HubServer]:
    with HubServer(token=TOKEN) as server:
        server.create("sb3/ppo-CartPole-v1", PLAIN, tags=("stable-baselines3", "CartPole-v1"))
        server.create("sb3/sac-Pendulum-v1", NORMALIZED, tags=("stable-baselines3", "Pendulum-v1"))
        server.create("ann/large", {"runs/a b+c #1.zip": DATA})
        server.create("ann/private", {"agent.zip": DATA}, private=True)
        server.create("ann/gated", {"agent.zip": DATA}, gated=True)
        yield server


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with start_hub() as server:
        yield server


@pytest.fixture
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client of the Hub try again immediately; it waits for 23 seconds in all."""
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)


@pytest.fixture
def silent_hub(monkeypatch: pytest.MonkeyPatch, _no_waits: None) -> Iterator[HubServer]:
    """A Hub that never answers; its clients, which are left alone, end with it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    known = set(threading.enumerate())
    with start_hub() as server:
        server.behaviour = NeverAnswers(500)
        yield server
    for thread in set(threading.enumerate()) - known:
        thread.join(60)
    gc.collect()  # of their sockets


def url(hub: HubServer, path: str, **options: Any) -> Url:
    return Url(f"hf://{path}", **{"endpoint": hub.url(), "token": False, **options})


# -- names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hf://a/b", HubPath("model", "a/b", None, "")),
        ("hf://a/b/", HubPath("model", "a/b", None, "")),
        ("hf://a/b@main/c/d.zip", HubPath("model", "a/b", "main", "c/d.zip")),
        ("hf://a/b@refs/pr/1/c.zip", HubPath("model", "a/b", "refs/pr/1", "c.zip")),
        ("hf://a/b@refs%2Fpr%2F1/c.zip", HubPath("model", "a/b", "refs/pr/1", "c.zip")),
        ("hf://datasets/a/b/c.zip", HubPath("dataset", "a/b", None, "c.zip")),
        ("hf://models/a/b/c.zip", HubPath("model", "a/b", None, "c.zip")),
        ("hf://spaces/a/b@x/c.zip", HubPath("space", "a/b", "x", "c.zip")),
        ("hf://a/b/c@d?e#f%20.zip", HubPath("model", "a/b", None, "c@d?e#f%20.zip")),
        ("hf://a", None),
        ("hf://a/", None),
        ("hf://?author=a", None),
    ],
)
def test_places(text: str, expected: HubPath | None) -> None:
    assert parse_hub_url(text) == expected


@pytest.mark.parametrize(
    "text", ["hf://", "hf:///a/b", "hf://a//b", "hf://a@x/b/c", "hf://a/b?token=S3CRET", "hf://a/@b"]
)
def test_what_is_not_a_place_is_refused(text: str) -> None:
    error = catch(lambda: parse_hub_url(text), "S3CRET")
    assert "hf://USER/REPOSITORY" in str(error)


# -- files --------------------------------------------------------------------------------------------


def test_a_file_is_read_by_ranges_from_the_commit(hub: HubServer) -> None:
    source = open_remote(url(hub, "ann/large/runs/a b+c #1.zip"))
    assert (source.size, source.is_by_range(), source.name) == (len(DATA), True, "hf://ann/large/runs/a b+c #1.zip")
    assert bytes(source.view(300_000, 5)) == DATA[300_000:300_005]
    commit = hub.repositories["ann/large"].refs["main"]
    assert [record.path for record in hub.requests] == [
        "/api/models/ann/large", f"/ann/large/resolve/{commit}/runs/a b+c #1.zip",
    ]  # fmt: skip
    assert len(hub.cdn.requests) == 2


@pytest.mark.parametrize("width", [700, pytest.param(2180, marks=pytest.mark.exhaustive)])  # 21 and 200 MiB
def test_counts_of_a_large_archive(hub: HubServer, width: int) -> None:
    data = make_wide_sac(width)
    hub.create("ann/200mb", {"agent.zip": data})
    named = url(hub, "ann/200mb/agent.zip")
    report = sbformat.inspect(named)
    assert report._replace(not_checked=()) == sbformat.inspect(data)
    assert len(hub.requests) + len(hub.cdn.requests) <= 12
    assert hub.bytes_sent + hub.cdn.bytes_sent <= 300_000
    hub.cdn.reset()
    with sbformat.safe_open(named) as file:
        tensor = file.get_tensor("actor.latent_pi.2.weight")
    assert hub.cdn.bytes_sent <= tensor.nbytes + 200_000


@pytest.mark.parametrize("work", [sbformat.read, sbformat.scan, sbformat.validate])
def test_what_judges_the_bytes_fetches_each_once(work: Any, hub: HubServer) -> None:
    data = make_wide_sac(300)
    hub.create("ann/4mb", {"agent.zip": data})
    work(url(hub, "ann/4mb/agent.zip"))
    assert hub.cdn.bytes_sent == len(data)


def test_small_files_are_redirected_within_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with HubServer(token=TOKEN, redirects_small_files=True) as server:
        server.create("a/b", {"results.json": b'{"a": 1}'}, private=True)
        source = open_remote(url(server, "a/b/results.json", token=TOKEN))
        assert bytes(source.view(0, 100)) == b'{"a": 1}'
        assert {record.authorization for record in server.requests} == {f"Bearer {TOKEN}"}


def test_a_url_that_expires_is_signed_again(hub: HubServer) -> None:
    source = open_remote(url(hub, "ann/large/runs/a b+c #1.zip"))
    hub.cdn.expire()
    assert bytes(source.view(300_000, 5)) == DATA[300_000:300_005]
    assert [record.status for record in hub.cdn.requests] == [206, 403, 206]


# -- versions -----------------------------------------------------------------------------------------


def test_a_commit_between_two_reads_is_not_seen(hub: HubServer) -> None:
    source = open_remote(url(hub, "ann/large/runs/a b+c #1.zip"))
    hub.commit("ann/large", {"runs/a b+c #1.zip": DATA[::-1]})
    assert bytes(source.view(0, len(DATA))) == DATA
    hub.commit("ann/large", {"runs/a b+c #1.zip": None})
    assert bytes(source.load().view(300_000, 5)) == DATA[300_000:300_005]


def test_a_folder_is_one_commit(hub: HubServer) -> None:
    first = hub.repositories["sb3/sac-Pendulum-v1"].refs["main"]
    pinned = pin_folder(url(hub, "sb3/sac-Pendulum-v1"))
    assert pinned == f"hf://sb3/sac-Pendulum-v1@{first}"
    assert isinstance(pinned, Url)
    hub.commit("sb3/sac-Pendulum-v1", {"sac-Pendulum-v1.zip": SAC.read_bytes()[:-100]})
    assert sbformat.load_policy(pinned).predict([0.1, 0.2, 0.3])
    assert sbformat.scan(pinned).verdict == "clean"
    assert sbformat.scan(url(hub, "sb3/sac-Pendulum-v1")).verdict == "broken"
    assert pin_commit(pinned) == pinned


def test_revisions_are_branches_tags_and_commits(hub: HubServer) -> None:
    name = "sb3/ppo-CartPole-v1"
    first = hub.repositories[name].refs["main"]
    hub.tag(name, "v1")
    hub.commit(name, {"ppo-CartPole-v1.zip": SAC.read_bytes()})
    hub.commit(name, {"ppo-CartPole-v1.zip": DATA}, ref="refs/pr/1")
    algorithms = [
        sbformat.inspect(url(hub, f"{name}{revision}/ppo-CartPole-v1.zip")).algorithm.name  # type: ignore[union-attr]
        for revision in ("", "@main", "@v1", f"@{first}")
    ]
    assert algorithms == ["SAC", "SAC", "PPO", "PPO"]
    assert sbformat.read(url(hub, f"{name}@refs/pr/1/ppo-CartPole-v1.zip")).parameters["policy"].to_numpy()
    error = catch(lambda: sbformat.read(url(hub, f"{name}@v2/ppo-CartPole-v1.zip")))
    assert isinstance(error, FileNotFoundError)


def test_contents_that_are_not_those_of_the_commit_are_refused(hub: HubServer) -> None:
    hub.cdn.behaviour = Changes(DATA[::-1], after=1)
    error = catch(lambda: sbformat.read(url(hub, "ann/large/runs/a b+c #1.zip")))
    assert "has changed since it was opened" in str(error)


# -- tokens -------------------------------------------------------------------------------------------


def test_a_token_opens_what_is_private_and_is_not_sent_to_the_contents(hub: HubServer) -> None:
    for name in ("private", "gated"):
        named = url(hub, f"ann/{name}/agent.zip", token=TOKEN)
        assert sbformat.read(named).parameters["policy"].to_numpy()
        assert TOKEN not in repr(named)
    assert {record.authorization for record in hub.requests} == {f"Bearer {TOKEN}"}
    assert hub.cdn.requests
    assert all(TOKEN not in str(record) for record in hub.cdn.requests)


def test_without_the_token_it_is_not_found_or_denied(hub: HubServer) -> None:
    error = catch(lambda: sbformat.read(url(hub, "ann/private/agent.zip")))
    assert isinstance(error, FileNotFoundError)
    assert "or private; credentials come from 'hf auth login' or the environment variable HF_TOKEN" in str(error)
    for path, token in (("ann/gated/agent.zip", False), ("ann/private/agent.zip", "hf_wr0ng")):
        error = catch(lambda path=path, token=token: sbformat.read(url(hub, path, token=token)), "hf_wr0ng")  # type: ignore[misc]
        assert isinstance(error, PermissionError)
        assert "HF_TOKEN" in str(error)
    assert not hub.cdn.requests


@pytest.mark.parametrize("behaviour", [Fails(500), Fails(503), Closes(), Fails(418)], ids=str)
@pytest.mark.parametrize("path", ["sb3/ppo-CartPole-v1", "sb3/ppo-CartPole-v1/ppo-CartPole-v1.zip", "?author=sb3"])
@pytest.mark.usefixtures("_no_waits")
def test_a_hub_that_fails_is_one_error(behaviour: Any, path: str, hub: HubServer) -> None:
    hub.behaviour = behaviour
    error = catch(lambda: [sbformat.scan(row.url) for row in iter_files(url(hub, path, token=TOKEN))], TOKEN)
    assert isinstance(error, OSError)
    assert f"hf://{path}" in str(error)


@pytest.mark.parametrize("path", ["sb3/ppo-CartPole-v1", "sb3/ppo-CartPole-v1/ppo-CartPole-v1.zip", "?author=sb3"])
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_hub_that_never_answers_is_a_timeout(path: str, silent_hub: HubServer) -> None:
    named = url(silent_hub, path, token=TOKEN, timeout=0.2)
    error = catch(lambda: [sbformat.scan(row.url) for row in iter_files(named)], TOKEN)
    assert isinstance(error, TimeoutError)
    assert "did not answer in time" in str(error)


@pytest.mark.usefixtures("_no_waits")
def test_a_hub_that_is_not_there_is_one_error() -> None:
    for path in ("a/b", "a/b/c.zip", "a"):
        named = Url(f"hf://{path}", endpoint="http://127.0.0.1:9", token=TOKEN)
        error = catch(lambda named=named: [sbformat.scan(row.url) for row in iter_files(named)], TOKEN)  # type: ignore[misc]
        assert isinstance(error, OSError)


def test_what_the_contents_redirect_to_is_checked_unless_the_hub_is_private(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in is on this machine, so that its redirects may lead there; those of the real Hub may not."""
    with HttpServer({"/x": DATA}) as other:
        hub.cdn.behaviour = Redirect(other.url("/x"))
        named = url(hub, "ann/private/agent.zip", token=TOKEN)
        assert sbformat.read(named).parameters["policy"].to_numpy()
        assert all(TOKEN not in str(record) for record in other.requests)
        other.reset()
        monkeypatch.setattr(module, "_is_private_host", lambda _: False)
        error = catch(lambda: sbformat.read(named), TOKEN, "Signature=s1")
        assert "private address" in str(error)
        assert other.requests == []


def test_whether_a_hub_is_private() -> None:
    assert module._is_private_host("http://127.0.0.1:80")
    assert module._is_private_host("http://[::1]:80")
    assert not module._is_private_host("https://8.8.8.8")
    assert not module._is_private_host("https://")


# -- repositories -------------------------------------------------------------------------------------


def test_folders(hub: HubServer) -> None:
    assert is_folder(url(hub, "sb3/ppo-CartPole-v1"))
    assert is_folder(url(hub, "ann/large/runs"))
    assert not is_folder(url(hub, "sb3/ppo-CartPole-v1/README.md"))
    assert isinstance(catch(lambda: is_folder(url(hub, "ann/large/other"))), FileNotFoundError)
    assert [folder.name for folder in walk_folder(url(hub, "ann/large"))] == ["", "runs"]
    rows = list(list_repository(url(hub, "sb3/ppo-CartPole-v1")))
    assert [row.name for row in rows] == ["README.md", "config.json", "ppo-CartPole-v1.zip"]
    assert [row.size for row in rows] == [6, 2, len(PLAIN["ppo-CartPole-v1.zip"])]


def test_files_of_a_folder_have_other_names_than_those_of_its_siblings(hub: HubServer) -> None:
    hub.create("ann/nested", {"a/x.zip": DATA, "a/b/y.zip": DATA, "ab/z.zip": DATA})
    assert list_all(hub, "ann/nested/a") == ["ann/nested/a/x.zip", "ann/nested/a/b/y.zip"]
    assert list_all(hub, "ann/nested@main/a/") == ["ann/nested@main/a/x.zip", "ann/nested@main/a/b/y.zip"]


def list_all(hub: HubServer, path: str, **options: Any) -> list[str]:
    return [(row.name or row.url).removeprefix("hf://") for row in iter_files(url(hub, path, **options))]


LARGE, LISTED = "ann/large/runs/a b+c #1.zip", ["sb3/ppo-CartPole-v1/ppo-CartPole-v1.zip"]
BOTH = [*LISTED, "sb3/sac-Pendulum-v1/sac-Pendulum-v1.zip", "sb3/sac-Pendulum-v1/vec_normalize.pkl"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("sb3", BOTH),
        ("sb3/", BOTH),
        ("?author=sb3", BOTH),
        ("?author=sb3&tag=CartPole-v1", LISTED),
        ("?tag=stable-baselines3&tag=CartPole-v1", LISTED),
        ("?tag=nothing", []),
        ("?author=sb3&limit=1", LISTED),
        ("sb3/ppo-*", LISTED),
        ("sb3/*/*.zip", BOTH[:2]),
        ("sb3/*-v1/*.pkl", BOTH[2:]),
        ("sb3/ppo-CartPole-v1/*.zip", LISTED),
        ("ann/large/**/*.zip", [LARGE]),
        ("ann/large/r*", [LARGE]),
        ("ann/large", [LARGE]),
        (LARGE, [LARGE]),
    ],
)
def test_what_a_url_stands_for(path: str, expected: list[str], hub: HubServer) -> None:
    assert list_all(hub, path) == expected


def test_private_repositories_are_listed_with_the_token(hub: HubServer) -> None:
    assert list_all(hub, "ann") == ["ann/gated/agent.zip", LARGE]
    assert "ann/private/agent.zip" in list_all(hub, "ann", token=TOKEN)


def test_lists_of_several_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with HubServer(page=3) as server:
        for number in range(10):
            server.create(f"ann/agent{number}", {f"{name}.zip": b"PK" for name in range(7)})
        assert len(list_all(server, "ann")) == 70
        assert len(list(find_repositories(url(server, "ann")))) == 10


@pytest.mark.parametrize("path", ["?", "?owner=sb3", "?author=sb3&token=S3CRET", "?limit=many", "s*/x", "s*"])
def test_queries_of_other_words_are_refused(path: str, hub: HubServer) -> None:
    error = catch(lambda: list_all(hub, path), "S3CRET")
    assert isinstance(error, UnsupportedError)
    assert hub.requests == []


@pytest.mark.parametrize("path", ["sb3/missing", "missing/missing", "sb3/ppo-CartPole-v1@v9"])
def test_a_repository_that_does_not_exist(path: str, hub: HubServer) -> None:
    assert isinstance(catch(lambda: list_all(hub, path)), FileNotFoundError)
    assert isinstance(catch(lambda: sbformat.load_policy(url(hub, path))), FileNotFoundError)


# -- what is done with a repository -------------------------------------------------------------------


def test_an_agent_acts_with_and_without_statistics(hub: HubServer) -> None:
    policy = sbformat.load_policy(url(hub, "sb3/ppo-CartPole-v1"))
    local = sbformat.load_policy(PPO)
    assert act(policy, 4) == act(local, 4)
    normalized = sbformat.load_policy(url(hub, "sb3/sac-Pendulum-v1"))
    assert act(normalized, 3) == act(sbformat.load_policy(SAC, vecnormalize=STATISTICS), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert act(normalized, 3) != act(sbformat.load_policy(SAC, vecnormalize=False), 3)


def act(policy: Any, size: int) -> Any:
    return policy.predict([0.1] * size, deterministic=True)[0].tolist()


def test_a_repository_is_judged_whole(hub: HubServer, tmp_path: Path) -> None:
    make_hub(tmp_path)
    files = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    hub.create("ann/zoo", files)
    report, local = sbformat.scan(url(hub, "ann/zoo")), sbformat.scan(tmp_path)
    assert (report.verdict, report.pickles, report.imports) == (local.verdict, local.pickles, local.imports)
    found = sbformat.inspect_folder(url(hub, "ann/zoo"))
    assert len(found.agents) == len(sbformat.inspect_folder(tmp_path).agents)
    hub.create("ann/evil", {**files, "evil.pkl": b"cos\nsystem\n(S'true'\ntR."})
    assert sbformat.scan(url(hub, "ann/evil")).verdict == "dangerous"


def test_an_unzipped_archive_of_a_repository_is_read(hub: HubServer) -> None:
    hub.create("ann/unzipped", {f"agent/{name}": content for name, content in entries().items()})
    assert sbformat.read(url(hub, "ann/unzipped/agent")) == sbformat.read(PPO)
    assert list_all(hub, "ann/unzipped") == ["ann/unzipped/agent"]
    hub.create("ann/top", entries())
    assert sbformat.read(url(hub, "ann/top")) == sbformat.read(PPO)
    assert list_all(hub, "ann/top") == ["ann/top"]
    assert act(sbformat.load_policy(url(hub, "ann/top")), 4) == act(sbformat.load_policy(PPO), 4)


# -- the command line ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hub_of_commands() -> Iterator[HubServer]:
    """One for all command lines, which share processes: the client reads its address when it is imported."""
    with start_hub() as server:
        yield server


@pytest.fixture(scope="module")
def processes() -> Iterator[CommandProcesses]:
    with CommandProcesses() as started:
        yield started


@pytest.fixture
def run(
    processes: CommandProcesses, hub_of_commands: HubServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Outcome]]:
    """Run a command in another process, configured by the environment alone."""
    hub = hub_of_commands
    home = str(tmp_path_factory.getbasetemp())

    def run(*arguments: object, token: str | None = None) -> Outcome:
        environment = {**hub.make_environment(token), "PATH": "/usr/bin:/bin", "HOME": home}
        done = processes.run(*arguments, environment=environment)
        refuse_secrets(done.stdout + done.stderr, [TOKEN, "Signature=s1"])
        assert all(TOKEN not in str(record) for record in hub.cdn.requests)
        return done

    yield run
    hub.behaviour = ()


def test_commands_take_repositories(hub_of_commands: HubServer, run: Callable[..., Outcome]) -> None:
    status, out, err = run("inspect", "hf://sb3/ppo-CartPole-v1/ppo-CartPole-v1.zip")
    assert (status, err) == (0, "")
    assert "PPO" in out
    status, out, err = run("scan", "hf://sb3/sac-Pendulum-v1", "--format", "json")
    assert status == 0, err
    commit = hub_of_commands.repositories["sb3/sac-Pendulum-v1"].refs["main"]
    assert f"hf://sb3/sac-Pendulum-v1@{commit}/sac-Pendulum-v1.zip" in {row["path"] for row in parse_reports(out)}
    status, out, err = run("validate", "hf://sb3/ppo-CartPole-v1/ppo-CartPole-v1.zip")
    assert status == 0, err


def test_a_repository_is_exported_and_rebuilt(run: Callable[..., Outcome], tmp_path: Path) -> None:
    status, out, err = run("export", "hf://sb3/sac-Pendulum-v1", "-o", tmp_path / "agent.c")
    assert status == 0, (out, err)
    assert (tmp_path / "agent.c").stat().st_size > 1000
    status, out, err = run("rebuild", "hf://sb3/sac-Pendulum-v1", "-o", tmp_path / "rebuilt")
    assert status == 0, (out, err)
    made = {path.name for path in (tmp_path / "rebuilt").rglob("*") if path.is_file()}
    assert {"sac-Pendulum-v1.zip", "vec_normalize.pkl"} <= made
    status, out, err = run("rebuild", "hf://sb3/ppo-CartPole-v1/ppo-CartPole-v1.zip", "-o", tmp_path / "p.zip")
    assert status == 0, (out, err)
    assert sbformat.read(tmp_path / "p.zip").algorithm.name == "PPO"


def test_tokens_of_the_environment_are_used_and_not_shown(run: Callable[..., Outcome]) -> None:
    named = "hf://ann/private/agent.zip"
    status, out, err = run("inspect", named, "--format", "json", token=TOKEN)
    assert status == 0, err
    assert parse_reports(out)[0]["path"] == named
    status, out, err = run("inspect", named)
    assert (status, out, unfold(err).count("\n")) == (2, "", 1)
    assert "or private" in err
    status, out, err = run("inspect", named, "--format", "json", token="hf_wr0ng")  # noqa: S106
    assert (status, unfold(err).count("\n")) == (2, 1)
    assert parse_reports(out)[0]["outcome"] == "cannot open"
    refuse_secrets(out + err, ["hf_wr0ng"])


def test_commands_take_queries_and_patterns(hub_of_commands: HubServer, run: Callable[..., Outcome]) -> None:
    for named, expected in (("hf://sb3", BOTH), ("hf://?tag=CartPole-v1", LISTED), ("hf://sb3/*-v1/*.pkl", BOTH[2:])):
        for command in ("scan", "inspect"):
            status, out, err = run(command, named, "--format", "json")
            assert status == 0, err
            assert [row["path"] for row in parse_reports(out)] == [f"hf://{name}" for name in expected]
    for named, word in (("hf://?tag=nothing", "finds 0 repositories"), ("hf://?owner=x", "expected a query of")):
        status, out, err = run("scan", named)
        assert (status, out, unfold(err).count("\n")) == (2, "", 1)
        assert word in err
    hub_of_commands.behaviour = Fails(418)
    for command in ("scan", "inspect"):
        status, _, err = run(command, "hf://sb3")
        assert (status, "status 418" in err, unfold(err).count("\n")) == (2, True, 1)
