"""URLs on the command line: what takes them, what is shown of them, and that local paths reach no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import sbformat
from sbformat.cli import main
from sbformat.io.urls import hide_secrets
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC
from tests.helpers.forks import run_fresh
from tests.helpers.http_behaviours import Fails, NeedsPassword, NeverAnswers, Redirect
from tests.helpers.http_server import HttpServer
from tests.helpers.large_agents import make_many_tensors
from tests.helpers.remote_errors import refuse_secrets
from tests.helpers.reports import parse_reports, unfold
from tests.helpers.sampling import with_exhaustive

STATISTICS = ARCHIVES / "vecnormalize-pendulum.pkl"
BUFFER = ARCHIVES / "replay-buffer-cartpole.pkl"
SECRETS = ("pa55w0rd", "s1gnature", "Basic ", "us3r")
LARGE = make_many_tensors(3, 200_000)


# -- no network for local paths -----------------------------------------------------------------------


def test_local_paths_reach_no_network_and_import_nothing_for_it(tmp_path: Path) -> None:
    """An audit hook sees every socket, name and request, of every command and function."""
    process = subprocess.run(
        [sys.executable, ROOT / "tests" / "children" / "watch_network.py", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=500,
    )
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    assert found["events"] == []
    assert found["imported"] == []
    assert found["commands"] == found["known"]
    failed = {words: row for words, row in found["statuses"].items() if row[0] == 2}
    assert all(re.match("evaluate|completion|inspect .*missing|catalog|report", words) for words in failed), failed


def test_the_hook_sees_a_network(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    program = (
        "import sys; seen = []; sys.addaudithook(lambda event, _: seen.append(event));"
        "import sbformat\n"
        "try: sbformat.read(sys.argv[1])\n"
        "except OSError: pass\n"
        "print('socket.connect' in seen)"
    )
    with HttpServer({}) as server:  # a server that is not there is asked again for seconds
        command = [sys.executable, "-c", program, server.url("/a.zip")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=500)
    assert done.stdout == "True\n"


# -- missing packages ---------------------------------------------------------------------------------


WITHOUT = (
    ("fsspec,aiohttp,s3fs,huggingface_hub", "https://host/a.zip", "fsspec and aiohttp"),
    ("aiohttp", "http://host/a.zip", "fsspec and aiohttp"),
    ("fsspec", "http://host/a.zip", "fsspec and aiohttp"),
    ("s3fs", "s3://bucket/a.zip", "fsspec and s3fs"),
    ("fsspec", "s3://bucket/a.zip", "fsspec and s3fs"),
    ("s3fs", "s3://bucket/runs/", "fsspec and s3fs"),
    ("huggingface_hub", "hf://user/name", "fsspec and huggingface_hub"),
    ("huggingface_hub", "hf://user/name/a.zip", "fsspec and huggingface_hub"),
    ("huggingface_hub", "hf://user", "fsspec and huggingface_hub"),
    ("fsspec", "memory://a.zip", "fsspec"),
    ("fsspec", "gs://bucket/a.zip", "fsspec"),
)
"""Packages that are missing, a URL, and the packages that are named."""


@pytest.mark.parametrize("scanned", with_exhaustive([WITHOUT[5:6]], [WITHOUT]), ids=len)
def test_what_is_missing_is_named_in_one_line(scanned: Sequence[tuple[str, str, str]]) -> None:
    cases = [("inspect", row) for row in WITHOUT] + [("scan", row) for row in scanned]
    imported = ("fsspec.asyn", "fsspec.implementations.http", "aiohttp")
    for command, (missing, url, named) in cases:
        done = run_fresh(command, url, missing=missing.split(","), imported=imported)
        assert (done.returncode, done.stdout) == (2, b""), (command, missing, url, done.err)
        assert unfold(done.err).count("\n") == 1, (command, missing, url, done.err)
        assert named in done.err, (command, missing, url, done.err)
        assert 'pip install "sbformat[remote]"' in done.err, (command, missing, url, done.err)


def test_a_file_system_of_another_package_is_named() -> None:
    pytest.importorskip("fsspec")
    done = run_fresh("inspect", "gs://bucket/a.zip", missing=("gcsfs", "google"))
    assert done.returncode == 2
    assert unfold(done.err).count("\n") == 1
    assert "gcsfs" in done.err


def test_local_files_need_none_of_them() -> None:
    for command in (("inspect", PPO), ("scan", PPO), ("validate", f"file://{PPO}")):
        done = run_fresh(*command, missing=("fsspec", "aiohttp", "s3fs", "huggingface_hub", "yarl"))
        assert (done.returncode, done.err) == (0, "")


# -- secrets ------------------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    pytest.importorskip("aiohttp")
    pytest.importorskip("fsspec")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    files = {
        "/ppo.zip": PPO, "/sac.zip": SAC, "/statistics.pkl": STATISTICS, "/buffer.pkl": BUFFER,
    }  # fmt: skip
    with HttpServer({name: path.read_bytes() for name, path in files.items()}) as started:
        started.put("/bad.zip", PPO.read_bytes()[:-50])
        started.put("/large.zip", LARGE)
        started.behaviour = NeedsPassword("us3r", "pa55w0rd")
        yield started


def sign(server: HttpServer, path: str, password: str = "pa55w0rd") -> str:  # noqa: S107 -- of the test
    """Return a URL with a name, a password, and a signature."""
    return server.url(path).replace("://", f"://us3r:{password}@") + "?X-Signature=s1gnature"


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Run a command; what it prints has no secret."""
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    refuse_secrets(out + err, SECRETS)
    return status, out, err


COMMANDS: list[list[str]] = [
    ["inspect", "/ppo.zip"],
    ["inspect", "/ppo.zip", "/sac.zip", "/large.zip", "/missing.zip"],
    ["inspect", "/statistics.pkl", "/buffer.pkl"],
    ["inspect", "/ppo.zip", "--format", "json"],
    ["inspect", "/ppo.zip", "/bad.zip", "--format", "csv"],
    ["inspect", "/ppo.zip", "--verbose"],
    ["inspect", "/bad.zip"],
    ["inspect", "/missing.zip", "--format", "json"],
    ["validate", "/ppo.zip", "/bad.zip", "/missing.zip"],
    ["validate", "/ppo.zip", "/bad.zip", "--format", "json"],
    ["scan", "/ppo.zip", "/bad.zip", "/missing.zip", "/statistics.pkl"],
    ["scan", "/ppo.zip", "/bad.zip", "--format", "json"],
    ["scan", "/ppo.zip", "/bad.zip", "--format", "sarif"],
    ["scan", "/ppo.zip", "/bad.zip", "--format", "csv"],
    ["extract", "/ppo.zip", "-o", "OUT.npz"],
    ["extract", "/bad.zip", "-o", "OUT.npz"],
    ["diff", "/ppo.zip", "/sac.zip"],
    ["diff", "/ppo.zip", "/missing.zip", "--format", "json"],
    ["edit", "/ppo.zip", "--set", "gamma=0.5", "-o", "OUT.zip"],
    ["convert", "/ppo.zip", "-o", "OUT.safetensors"],
    ["convert", "/large.zip", "-o", "OUT.pth"],
    ["rebuild", "/ppo.zip", "-o", "OUT.zip"],
    ["rebuild", "/ppo.zip", "-o", "OUT2.zip", "--format", "json"],
    ["bundle", "/sac.zip", "--vecnormalize", "/statistics.pkl", "-o", "OUT.zip"],
    ["predict", "/ppo.zip", "--observation", "[0, 0, 0, 0]"],
    ["predict", "/missing.zip", "--observation", "[0, 0, 0, 0]"],
    ["export", "/ppo.zip", "-o", "OUT.json"],
    ["export", "/ppo.zip", "-o", "OUT.c"],
    ["report", "/ppo.zip", "-o", "OUT.html"],
    ["report", "/ppo.zip", "/sac.zip", "/bad.zip", "-o", "OUT.html"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_shows_a_secret(
    words: list[str],
    server: HttpServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if words[0] == "report":  # to draw all plots takes a second
        monkeypatch.setattr("sbformat.html_report.archive_page.MOST_PLOTS", 2)
    for password in ("pa55w0rd-wr0ng", "pa55w0rd"):
        arguments: list[Any] = []
        for word in words:
            is_file = word.startswith("/")
            arguments.append(sign(server, word, password) if is_file else word.replace("OUT", str(tmp_path / "out")))
        status, out, err = run(capsys, *arguments)
        assert status in {0, 1, 2}
        if password != "pa55w0rd":  # noqa: S105
            assert status == 2
            assert "access denied" in out + err
        elif not any(word in {"/bad.zip", "/missing.zip"} for word in words):
            assert status == (1 if words[0] == "diff" else 0), (out, err)
        for path in tmp_path.rglob("*"):
            if path.is_file():
                refuse_secrets(path.read_bytes().decode("latin-1"), SECRETS)


def test_reports_name_a_url_without_its_secrets(server: HttpServer, capsys: pytest.CaptureFixture[str]) -> None:
    named = sign(server, "/ppo.zip")
    status, out, _ = run(capsys, "inspect", named, sign(server, "/missing.zip"), "--format", "json")
    first, second = parse_reports(out)
    assert (status, first["path"], second["path"]) == (
        2,
        hide_secrets(named),
        hide_secrets(sign(server, "/missing.zip")),
    )
    assert first["not_checked"] == []
    assert (second["outcome"], second["message"]) == ("cannot open", "not found")


# -- what commands do with URLs -----------------------------------------------------------------------


@pytest.fixture
def plain(server: HttpServer) -> HttpServer:
    server.behaviour = ()
    return server


def test_what_was_not_checked_is_shown(plain: HttpServer, capsys: pytest.CaptureFixture[str]) -> None:
    url = plain.url("/large.zip")
    _, out, _ = run(capsys, "inspect", url, "--long")
    assert "not checked, because it was not fetched" in out
    assert "the CRC-32 of 3 of its 6 records was not checked" in out
    _, out, _ = run(capsys, "inspect", url, "--format", "json")
    (report,) = parse_reports(out)
    assert {row["entry"] for row in report["not_checked"]} == {"policy.pth"}
    _, out, _ = run(capsys, "inspect", PPO, "--format", "json")
    assert parse_reports(out)[0]["not_checked"] == []


def test_results_are_those_of_the_local_file(
    plain: HttpServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"convert": "c.safetensors", "extract": "e.npz", "rebuild": "r.zip", "export": "p.json"}
    for command, name in names.items():
        for source, folder in ((PPO, "local"), (plain.url("/ppo.zip"), "remote")):
            (tmp_path / folder).mkdir(exist_ok=True)
            status, _, err = run(capsys, command, source, "-o", tmp_path / folder / name)
            assert status == 0, err
        assert (tmp_path / "local" / name).read_bytes() == (tmp_path / "remote" / name).read_bytes()


def test_large_archives_are_converted_and_extracted_by_ranges(
    plain: HttpServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local = tmp_path / "large.zip"
    local.write_bytes(LARGE)
    for command, name in (("convert", "c.pth"), ("extract", "e.safetensors"), ("convert", "c.safetensors")):
        for source, folder in ((local, "local"), (plain.url("/large.zip"), "remote")):
            (tmp_path / folder).mkdir(exist_ok=True)
            assert run(capsys, command, source, "-o", tmp_path / folder / name)[0] == 0
        assert (tmp_path / "local" / name).read_bytes() == (tmp_path / "remote" / name).read_bytes()


def test_damage_is_found_before_anything_is_written(
    plain: HttpServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain.put("/large.zip", LARGE[:300_000] + b"\xff" + LARGE[300_001:])
    for command, name in (("convert", "c.pth"), ("extract", "e.safetensors"), ("rebuild", "r.zip")):
        status, _, err = run(capsys, command, plain.url("/large.zip"), "-o", tmp_path / name)
        assert (status, "CRC-32" in err) == (2, True), err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["edit", "SOURCE", "--set", "gamma=0.5", "-o", "https://127.0.0.1:9/out.zip"],
        ["convert", "SOURCE", "-o", "s3://bucket/out.safetensors"],
        ["export", "SOURCE", "-o", "hf://user/name/out.json"],
        ["extract", "SOURCE", "-o", "http://127.0.0.1:9/out.npz"],
        ["report", "SOURCE", "-o", "http://127.0.0.1:9/out.html"],
        ["rebuild", "SOURCE", "-o", "http://127.0.0.1:9/out.zip"],
        ["bundle", "SOURCE", "--vecnormalize", str(STATISTICS), "-o", "http://127.0.0.1:9/out.zip"],
        ["edit", "SOURCE", "--set", "gamma=0.5", "--in-place"],
    ],
    ids=lambda words: f"{words[0]} {words[-1]}",
)
def test_urls_are_not_written(
    words: list[str],
    plain: HttpServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "/sac.zip" if words[0] == "bundle" else "/ppo.zip"
    status, out, err = run(capsys, *(plain.url(name) if word == "SOURCE" else word for word in words))
    assert (status, out) == (2, "")
    assert unfold(err).count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    assert {record.method for record in plain.requests} <= {"GET"}


def test_private_redirects_are_refused_unless_they_are_allowed(
    plain: HttpServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with HttpServer({"/x": LARGE}) as other:
        plain.behaviour = {"/ppo.zip": Redirect(f"{other.url('/x')}?sig=s1gnature")}
        for command in ("inspect", "scan", "validate"):
            status, out, err = run(capsys, command, plain.url("/ppo.zip"))
            assert (status, out, unfold(err).count("\n")) == (2, "", 1)
            assert "private address" in err
            assert "--private-redirects" in err
            assert other.requests == []
        for command in ("inspect", "scan"):
            assert run(capsys, command, plain.url("/ppo.zip"), "--private-redirects")[0] == 0
        assert other.requests
        table = tmp_path / "out.csv"
        assert run(capsys, "catalog", plain.url("/ppo.zip"), "-o", table)[0] == 1
        assert run(capsys, "catalog", plain.url("/ppo.zip"), "-o", table, "--private-redirects")[0] == 0
        status, _, err = run(capsys, "diff", plain.url("/ppo.zip"), PPO, "--private-redirects")
        assert status == 1, err


def test_a_second_file_may_be_a_url_and_its_error_names_it(
    plain: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(
        capsys, "predict", SAC, "--vecnormalize", plain.url("/nothing.pkl"), "--observation", "[0, 0, 0]"
    )
    assert status == 2
    assert plain.url("/nothing.pkl") in err
    status, _, err = run(
        capsys, "predict", SAC, "--vecnormalize", plain.url("/statistics.pkl"), "--observation", "[0, 0, 0]"
    )
    assert status == 0, err


def test_one_url_that_fails_leaves_the_others(plain: HttpServer, capsys: pytest.CaptureFixture[str]) -> None:
    plain.behaviour = {"/sac.zip": Fails(403)}
    status, out, err = run(capsys, "scan", plain.url("/ppo.zip"), plain.url("/sac.zip"), PPO, "--jobs", "1")
    assert status == 2
    assert out.count("clean") >= 2
    assert unfold(err).count("\n") == 1


def test_worker_processes_read_urls(plain: HttpServer, capsys: pytest.CaptureFixture[str]) -> None:
    urls = [plain.url(name) for name in ("/ppo.zip", "/sac.zip", "/large.zip")]
    status, out, err = run(capsys, "scan", *urls, "--jobs", "2", "--format", "json")
    assert status == 0, err
    assert [row["path"] for row in parse_reports(out)] == urls


def test_a_url_has_the_name_of_its_last_part() -> None:
    assert sbformat.inspect(f"file://{PPO}") == sbformat.inspect(PPO)


def test_a_server_that_never_answers_is_one_line_and_one_row(
    plain: HttpServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain.behaviour = NeverAnswers(500)
    url = plain.url("/ppo.zip")
    status, out, err = run(capsys, "inspect", url, "--timeout", "0.2")
    assert (status, out, unfold(err).count("\n")) == (2, "", 1)
    assert "--timeout SECONDS" in err
    listed = tmp_path / "list.txt"
    listed.write_text(f"{url}\n{PPO}\n")
    status, out, err = run(capsys, "catalog", "--list", listed, "-o", tmp_path / "o.csv", "--timeout", "0.2")
    assert (status, "did not answer in time" in out) == (1, True), (out, err)
    plain.behaviour = ()
    assert run(capsys, "catalog", "--list", listed, "-o", tmp_path / "o.csv")[0] == 0
