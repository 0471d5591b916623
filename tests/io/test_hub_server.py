"""The stand-in for the Hub answers as the Hub's own client expects, and counts what that client asks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest

huggingface_hub = pytest.importorskip("huggingface_hub")

from huggingface_hub import HfApi, HfFileSystem, get_hf_file_metadata, hf_hub_url  # noqa: E402
from huggingface_hub.utils import (  # noqa: E402
    EntryNotFoundError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.helpers.http_behaviours import Fails, NoRanges, Redirect  # noqa: E402
from tests.helpers.hub_server import HubServer  # noqa: E402

DATA = bytes(range(256)) * 400
NAME = "ppo-CartPole-v1.zip"
REPOSITORY = "sb3/ppo-CartPole-v1"
PATH = f"{REPOSITORY}/{NAME}"
FILES = {"README.md": b"# PPO\n", "config.json": b"{}", NAME: DATA, "replay/a/b.mp4": b"video", "a b+c.txt": b"text"}
T = TypeVar("T")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with HubServer() as server:
        server.create(REPOSITORY, FILES, tags=("stable-baselines3", "CartPole-v1"))
        server.create("ann/private", {"agent.zip": DATA}, private=True)
        yield server


def open_files(hub: HubServer, token: str | None = None) -> HfFileSystem:
    return HfFileSystem(endpoint=hub.url(), token=token or False, skip_instance_cache=True)


def open_api(hub: HubServer, token: str | None = None) -> HfApi:
    return HfApi(endpoint=hub.url(), token=token or False)


def fetch_path(hub: HubServer, path: str) -> bytes:
    with build_opener(ProxyHandler({})).open(hub.url() + path, timeout=500) as response:
        content: bytes = response.read()
        return content


def find_error(kind: type[T], error: BaseException | None) -> T:
    """Return the error of a kind among the causes of another."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    assert error is not None
    return error


def test_info_and_range_of_a_large_file(hub: HubServer) -> None:
    files = open_files(hub)
    info = files.info(PATH)
    assert (info["size"], info["type"], info["lfs"].size) == (len(DATA), "file", len(DATA))
    with files.open(PATH, cache_type="none") as file:
        file.seek(100)
        assert file.read(100) == DATA[100:200]
    paths = [record.path.removeprefix(f"/api/models/{REPOSITORY}") for record in hub.requests]
    assert paths == ["", "/tree/main", f"/{REPOSITORY}/resolve/main/{NAME}"]
    assert [(record.range, record.sent) for record in hub.cdn.requests] == [((100, 200), 100)]


def test_small_files(hub: HubServer) -> None:
    assert open_files(hub).cat_file(f"{REPOSITORY}/a b+c.txt") == b"text"
    assert hub.cdn.requests == []
    hub.redirects_small_files = True
    assert open_files(hub).cat_file(f"{REPOSITORY}/README.md") == FILES["README.md"]
    assert [record.status for record in hub.requests[-2:]] == [307, 200]


@pytest.mark.parametrize("name", [NAME, "config.json"])
def test_metadata_of_a_file(hub: HubServer, name: str) -> None:
    found = get_hf_file_metadata(hf_hub_url(REPOSITORY, name, endpoint=hub.url()), token=False)
    (file,) = open_api(hub).get_paths_info(REPOSITORY, name)
    assert found.commit_hash == hub.repositories[REPOSITORY].refs["main"]
    assert (found.size, found.etag) == (len(FILES[name]), file.lfs.sha256 if file.lfs else file.blob_id)
    assert [record.method for record in hub.requests] == ["HEAD", "POST"]


def test_description_of_a_repository(hub: HubServer) -> None:
    api = open_api(hub)
    first = hub.repositories[REPOSITORY].refs["main"]
    model = api.model_info(REPOSITORY, files_metadata=True)
    assert (model.id, model.sha, model.author) == (REPOSITORY, first, "sb3")
    assert {file.rfilename: file.size for file in model.siblings} == {name: len(data) for name, data in FILES.items()}
    hub.tag(REPOSITORY, "v1.0")
    second = hub.commit(REPOSITORY, {NAME: DATA[::-1], "config.json": None})
    hub.commit(REPOSITORY, {"new.txt": b""}, ref="refs/pr/1")
    assert [api.model_info(REPOSITORY, revision=name).sha for name in ("main", "v1.0", first)] == [second, first, first]
    refs = api.list_repo_refs(REPOSITORY)
    assert [(ref.name, ref.target_commit) for ref in refs.branches + refs.tags] == [("main", second), ("v1.0", first)]
    assert "new.txt" in api.list_repo_files(REPOSITORY, revision="refs/pr/1")
    (file,) = api.get_paths_info(REPOSITORY, ["README.md", "missing"], expand=True)
    assert (file.last_commit.oid, file.lfs) == (first, None)


def test_trees_in_pages(hub: HubServer) -> None:
    hub.page = 2
    entries = open_api(hub).list_repo_tree(REPOSITORY, recursive=True)
    assert [entry.path for entry in entries] == sorted([*FILES, "replay", "replay/a"])
    assert len(hub.requests) == 4
    files = open_files(hub)
    assert files.find(REPOSITORY) == sorted(f"{REPOSITORY}/{name}" for name in FILES)
    assert files.ls(f"{REPOSITORY}/replay", detail=False) == [f"{REPOSITORY}/replay/a"]
    assert files.glob(f"{REPOSITORY}/*.zip") == [PATH]


def test_lists_of_models(hub: HubServer) -> None:
    for number in range(5):
        hub.create(f"bob/dqn-{number}", {"dqn.zip": DATA}, tags=("stable-baselines3",))
    hub.page = 2
    hub.reset()
    api = open_api(hub)
    names = [f"bob/dqn-{number}" for number in range(5)]
    assert [model.id for model in api.list_models(author="bob")] == names
    assert [record.query.count("cursor") for record in hub.requests] == [0, 1, 1]
    assert [model.id for model in api.list_models(filter="stable-baselines3")] == [REPOSITORY, *names]
    assert [model.id for model in api.list_models(filter=["stable-baselines3", "CartPole-v1"])] == [REPOSITORY]
    assert [model.id for model in api.list_models(search="DQN", limit=3)] == names[:3]
    (model,) = api.list_models(search="cartpole", full=True)
    assert {file.rfilename for file in model.siblings} == set(FILES)
    assert [model.id for model in open_api(hub, hub.token).list_models(author="ann")] == ["ann/private"]


def test_a_commit_changes_a_branch_and_no_pinned_file(hub: HubServer) -> None:
    first = hub.repositories[REPOSITORY].refs["main"]
    files = open_files(hub)
    pinned = f"{REPOSITORY}@{first}/{NAME}"
    assert files.url(pinned) == f"{hub.url()}/{REPOSITORY}/resolve/{first}/{NAME}"
    hub.commit(REPOSITORY, {NAME: DATA[::-1]})
    assert (files.cat_file(PATH), files.cat_file(pinned)) == (DATA[::-1], DATA)


def test_private_repositories_and_the_server_of_contents(hub: HubServer) -> None:
    assert open_files(hub, hub.token).cat_file("ann/private/agent.zip") == DATA
    assert {record.authorization for record in hub.requests} == {f"Bearer {hub.token}"}
    assert {record.authorization for record in hub.cdn.requests} == {None}  # the client keeps the token from others
    with pytest.raises(FileNotFoundError, match="repository not found") as caught:
        open_files(hub).info("ann/private/agent.zip")
    assert find_error(RepositoryNotFoundError, caught.value).response.status_code == 401
    with pytest.raises(HfHubHTTPError, match="Invalid credentials") as denied:
        open_files(hub, "hf_other").info("ann/private/agent.zip")
    assert denied.value.response.status_code == 401
    assert open_api(hub, hub.token).whoami()["name"] == "ann"


def test_what_does_not_exist(hub: HubServer) -> None:
    api = open_api(hub, hub.token)
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("sb3/missing")
    with pytest.raises(RevisionNotFoundError):
        api.model_info(REPOSITORY, revision="missing")
    with pytest.raises(EntryNotFoundError):
        list(api.list_repo_tree(REPOSITORY, "missing"))
    with pytest.raises(EntryNotFoundError):
        get_hf_file_metadata(hf_hub_url(REPOSITORY, "missing.zip", endpoint=hub.url()), token=False)
    for path in (f"{REPOSITORY}/missing.zip", f"{REPOSITORY}@missing/{NAME}", f"sb3/missing/{NAME}"):
        with pytest.raises(FileNotFoundError):
            open_files(hub).info(path)


def test_signed_urls_expire(hub: HubServer) -> None:
    found = get_hf_file_metadata(hf_hub_url(REPOSITORY, NAME, endpoint=hub.url()), token=False)
    path = found.location.removeprefix(hub.cdn.url())
    assert fetch_path(hub.cdn, path) == DATA
    hub.cdn.expire()
    for target in (path, path.partition("?")[0]):
        with pytest.raises(HTTPError) as caught:
            fetch_path(hub.cdn, target)
        caught.value.close()
        assert caught.value.code == 403
    assert open_files(hub).cat_file(PATH) == DATA


def test_behaviours(hub: HubServer) -> None:
    hub.cdn.behaviour = NoRanges()
    with open_files(hub).open(PATH, cache_type="none") as file:
        file.seek(100)
        assert file.read(100) == DATA  # the client does not notice
    hub.cdn.behaviour = Redirect("file:///etc/passwd")
    with pytest.raises(Exception, match="file://"):
        open_files(hub).cat_file(PATH)
    hub.behaviour = {f"/api/models/{REPOSITORY}": Fails(500)}
    with pytest.raises(HfHubHTTPError):
        open_api(hub).model_info(REPOSITORY)


@pytest.mark.exhaustive  # io/remote/test_hub.py runs commands so
@pytest.mark.parametrize("token", [None, "hf_secret"])
def test_environment_of_a_child_process(hub: HubServer, tmp_path: Any, token: str | None) -> None:
    program = (
        "import fsspec, json; files = fsspec.filesystem('hf'); "
        f"print(json.dumps([files.info('{PATH}')['size'], files.exists('ann/private/agent.zip')]))"
    )
    environment = {"HF_HOME": str(tmp_path), "PATH": "", **hub.make_environment(token)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True)
    assert json.loads(done.stdout) == [len(DATA), token is not None]
