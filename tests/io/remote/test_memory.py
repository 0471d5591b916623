"""What reading URLs takes of memory and time, whatever the server sends."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

from conformance.generators.build_zips import Member, build_zip
from tests.helpers.bundled import PPO
from tests.helpers.count_work import stay_within
from tests.helpers.forks import run_fork
from tests.helpers.http_behaviours import Chunked, Endless, NoLength, NoRanges, OtherContentRange
from tests.helpers.http_server import HttpServer
from tests.helpers.large_agents import MIB, make_many_tensors
from tests.helpers.sampling import with_exhaustive

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the system tells no peak")

Measure = Callable[..., list[dict[str, Any]]]
COUNT = 32
"""Tensors of a MiB in ``/large.zip``."""
BASE_BYTES = 64 * MIB
"""What any file may take besides three times its own size."""
GIB = 1 << 30
SECONDS = 20.0
"""What each may take of one processor: a hundred thousand members are listed, and 200 MB read."""


def make_directory(count: int) -> bytes:
    """A zip of many members of no bytes, whose directory has megabytes."""
    return build_zip(*(Member(b"record/%0200d" % number) for number in range(count)))


def claim_directory(length: int) -> bytes:
    """A file whose end record claims a directory of so many bytes."""
    data = bytearray(build_zip(Member(b"data", bytes(length))))
    end = len(data) - 22
    struct.pack_into("<HHII", data, end + 8, 1, 1, length, end - length)
    return bytes(data)


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    large = make_many_tensors(COUNT)
    with HttpServer({"/good.zip": PPO.read_bytes(), "/large.zip": large, "/zeros": bytes(MIB)}) as started:
        for count in (3000, 10_000, 20_000):
            started.put(f"/{count}.zip", make_directory(count))
        started.put("/without-length", bytes(MIB))
        started.put("/claims.zip", claim_directory(15 * MIB))
        yield started


@pytest.fixture
def measure(server: HttpServer) -> Measure:
    """Do works with paths in a process of its own, one after another."""

    def measure(*works: tuple[str, str], total_bytes: int = 4 * GIB) -> list[dict[str, Any]]:
        given = [word for work, path in works for word in (work, server.url(path), total_bytes)]

        def run(environment: dict[str, str]) -> list[dict[str, Any]]:
            direct = {**environment, "NO_PROXY": "127.0.0.1"}
            done = run_fork("measure_remote", server.url("/good.zip"), *given, environment=direct)
            assert done.returncode == 0, done.stderr.decode()[-2000:]
            rows: list[dict[str, Any]] = json.loads(done.stdout)
            assert len(rows) == len(works)
            return rows

        return stay_within(run, lambda rows: max(row["seconds"] for row in rows), SECONDS)

    return measure


def test_a_large_archive_takes_little_to_describe_and_its_size_to_read(server: HttpServer, measure: Measure) -> None:
    server.behaviour = ()
    size = len(server.files["/large.zip"].content)
    described, *others = measure(*((work, "/large.zip") for work in ("inspect", "read", "scan")))
    assert (described["outcome"], described["grown"] < size // 4) == ("ok", True), described
    for row in others:
        assert (row["outcome"], row["grown"] < 1.5 * size + 32 * MIB) == ("ok", True), row


@pytest.mark.parametrize("path", with_exhaustive(["/3000.zip", "/claims.zip"], ["/10000.zip", "/20000.zip"]))
def test_directories_of_megabytes_are_bounded(path: str, server: HttpServer, measure: Measure) -> None:
    server.behaviour = ()
    size = len(server.files[path].content)
    for row in measure(*((work, path) for work in ("inspect", "scan", "read"))):
        assert row["grown"] < 3 * size + BASE_BYTES, row


def test_an_endless_body_is_bounded_by_total_bytes(server: HttpServer, measure: Measure) -> None:
    server.behaviour = {"/zeros": (NoRanges(), Endless()), "/without-length": (NoRanges(), Endless(), NoLength())}
    works = [(work, path) for path in server.behaviour for work in ("inspect", "scan")]
    for work, row in zip(works, measure(*works, total_bytes=32 * MIB)):
        assert row["grown"] < 3 * 32 * MIB, (work, row)
        assert row["outcome"] in {"limit exceeded", "ok"}, (work, row)


def test_a_size_that_a_server_makes_up_takes_nothing(server: HttpServer, measure: Measure) -> None:
    size = len(server.files["/large.zip"].content)
    server.behaviour = {
        "/endless.zip": Endless(),
        "/total.zip": OtherContentRange(total=3 * GIB),
        "/chunked.zip": (OtherContentRange(total=3 * GIB), Chunked()),
    }
    for path in server.behaviour:
        server.put(path, server.files["/large.zip"].content)
    works = [(work, path) for path in server.behaviour for work in ("inspect", "scan", "read")]
    for work, row in zip(works, measure(*works)):
        assert row["grown"] < size + BASE_BYTES, (work, row)  # what was sent before it contradicted itself
        assert row["outcome"] != "ok", (work, row)
