"""The S3 server of the tests is moto behind a server that counts, refuses and misbehaves, as s3fs sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")

from s3fs.utils import FileExpired  # noqa: E402

from tests.helpers.http_behaviours import Behaviour, Closes, Cuts, HtmlPage, OtherStart, Redirect  # noqa: E402
from tests.helpers.http_server import HttpServer  # noqa: E402
from tests.helpers.s3_server import NeedsKey, Refuses, S3Server  # noqa: E402

DATA = bytes(range(256)) * 400
PATH = "agents/runs/a b.zip"


@pytest.fixture(scope="module")
def started() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def server(started: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    started.behaviour = ()
    started.put_object("agents", "runs/a b.zip", DATA)
    started.reset()
    return started


def open_files(server: S3Server, **options: Any) -> Any:
    chosen = {"config_kwargs": {"retries": {"max_attempts": 0}}, **server.storage_options, **options}
    return s3fs.S3FileSystem(**chosen, skip_instance_cache=True)


def test_info_and_ranges_are_counted(server: S3Server) -> None:
    files = open_files(server)
    info = files.info(PATH)
    assert (info["size"], info["type"], info["VersionId"]) == (len(DATA), "file", None)
    assert files.cat_file(PATH, start=100, end=200) == DATA[100:200]
    assert files.cat_file(PATH, start=-22) == DATA[-22:]
    assert [(record.method, record.path, record.range) for record in server.requests] == [
        ("HEAD", f"/{PATH}", None),
        ("GET", f"/{PATH}", (100, 200)),
        ("GET", f"/{PATH}", (len(DATA) - 22, len(DATA))),
    ]
    assert server.bytes_sent == 122
    assert all(f"Credential={server.key}/" in str(record.authorization) for record in server.requests)


def test_lists(server: S3Server) -> None:
    server.put_object("lists", "a.zip", DATA)
    server.put_object("lists", "b/c.zip", DATA)
    server.put_object("lists", "b/d.zip", DATA)
    server.delete_object("lists", "b/d.zip")
    files = open_files(server)
    assert files.find("lists") == ["lists/a.zip", "lists/b/c.zip"]
    assert files.glob("lists/*.zip") == ["lists/a.zip"]


def test_a_changed_object(server: S3Server) -> None:
    files = open_files(server)
    before = files.info(PATH)["ETag"]
    with files.open(PATH, cache_type="none") as file:
        assert file.read(4) == DATA[:4]
        after = server.put_object("agents", "runs/a b.zip", DATA[::-1])
        assert after != before
        with pytest.raises(FileExpired):
            file.read(4)
    assert server.requests[-1].status == 412
    assert server.requests[-1].headers["if-match"] == before


def test_versions(server: S3Server) -> None:
    server.put_object("kept", "first.zip", b"")
    server.keep_versions("kept")
    server.put_object("kept", "a.zip", DATA)
    files = open_files(server, version_aware=True)
    version = files.info("kept/a.zip")["VersionId"]
    server.put_object("kept", "a.zip", DATA[::-1])
    assert files.cat_file("kept/a.zip", version_id=version, start=0, end=4) == DATA[:4]


def test_anonymous_requests(server: S3Server) -> None:
    server.put_object("public", "a.zip", DATA, public=True)
    files = s3fs.S3FileSystem(anon=True, endpoint_url=server.url(), skip_instance_cache=True)
    assert files.cat_file("public/a.zip", start=0, end=4) == DATA[:4]
    assert server.requests[-1].authorization is None
    with pytest.raises(PermissionError):
        files.info(PATH)


def test_what_does_not_exist(server: S3Server) -> None:
    files = open_files(server)
    for path in ("agents/missing.zip", "missing/a.zip"):
        for read in (files.info, files.cat_file):
            with pytest.raises(FileNotFoundError):
                read(path)


@pytest.mark.parametrize("behaviour", [Refuses(), Refuses(403, "ExpiredToken"), NeedsKey("other")])
def test_refusals(server: S3Server, behaviour: Behaviour) -> None:
    server.behaviour = behaviour
    files = open_files(server)
    with pytest.raises(PermissionError, match="by the test"):
        files.cat_file(PATH, start=0, end=4)
    with pytest.raises(PermissionError):
        files.info(PATH)
    server.behaviour = NeedsKey(server.key)
    assert files.cat_file(PATH) == DATA


@pytest.mark.parametrize("behaviour", [Refuses(503, "SlowDown", times=1), Closes(times=1), Cuts(10, times=1)])
def test_failures_that_s3fs_retries(server: S3Server, behaviour: Behaviour) -> None:
    server.behaviour = {f"/{PATH}": behaviour}
    assert open_files(server).cat_file(PATH, start=0, end=100) == DATA[:100]
    assert [record.status for record in server.requests][-1] == 206
    assert len(server.requests) > 1


def test_lies_that_s3fs_does_not_notice(server: S3Server) -> None:
    server.behaviour = {f"/{PATH}": OtherStart(3)}
    assert open_files(server).cat_file(PATH, start=100, end=200) == DATA[103:203]
    server.behaviour = HtmlPage()
    assert open_files(server).cat_file(PATH, start=100, end=104) == HtmlPage().page
    with HttpServer({"/other": DATA[::-1]}) as other:
        server.behaviour = Redirect(other.url("/other"), 307)
        assert open_files(server).cat_file(PATH, start=0, end=4) == DATA[::-1][:4]
        assert [record.authorization for record in other.requests] == [None]


@pytest.mark.exhaustive  # io/remote/test_s3.py runs commands so
def test_environment_of_a_child_process(server: S3Server, tmp_path: Any) -> None:
    program = (
        "import fsspec, json; files = fsspec.filesystem('s3'); "
        f"print(json.dumps([files.info('{PATH}')['size'], len(files.cat_file('{PATH}', start=0, end=4))]))"
    )
    environment = {"HOME": str(tmp_path), "PATH": "", **server.make_environment("other-key")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True)
    assert json.loads(done.stdout) == [len(DATA), 4]
    assert all("Credential=other-key/" in str(record.authorization) for record in server.requests)
