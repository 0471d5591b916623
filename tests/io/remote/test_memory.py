"""What reading URLs takes of memory and time, whatever the server sends."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

from conformance.generators.build_zips import Member, build_zip
from tests.helpers.bundled import PPO, ROOT
from tests.helpers.count_work import stay_within
from tests.helpers.http_behaviours import Chunked, Endless, NoLength, NoRanges, OtherContentRange
from tests.helpers.http_server import HttpServer
from tests.helpers.large_agents import MIB, make_many_tensors

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the system tells no peak")

COUNT = 64
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
        started.put("/directory.zip", make_directory(20_000))
        started.put("/without-length", bytes(MIB))
        started.put("/claims.zip", claim_directory(15 * MIB))
        yield started


def measure(server: HttpServer, *works: tuple[str, str], total_bytes: int = 4 * GIB) -> list[dict[str, Any]]:
    """Do works with paths in a process of its own, one after another."""
    arguments = [text for work, path in works for text in (work, server.url(path), str(total_bytes))]
    return stay_within(
        lambda environment: run_child([server.url("/good.zip"), *arguments], environment),
        lambda rows: max(row["seconds"] for row in rows),
        SECONDS,
    )


def run_child(arguments: list[str], environment: dict[str, str]) -> list[dict[str, Any]]:
    process = subprocess.run(
        [sys.executable, str(ROOT / "tests/children/measure_remote.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"},
        timeout=500,
    )
    assert process.returncode == 0, process.stderr
    rows: list[dict[str, Any]] = json.loads(process.stdout)
    assert len(rows) == len(arguments) // 3
    return rows


def test_a_large_archive_takes_little_to_describe_and_its_size_to_read(server: HttpServer) -> None:
    server.behaviour = ()
    size = len(server.files["/large.zip"].content)
    described, *others = measure(server, *((work, "/large.zip") for work in ("inspect", "read", "scan")))
    assert (described["outcome"], described["grown"] < size // 4) == ("ok", True), described
    for row in others:
        assert (row["outcome"], row["grown"] < 1.5 * size + 32 * MIB) == ("ok", True), row


@pytest.mark.parametrize("path", ["/directory.zip", "/claims.zip"])
def test_directories_of_megabytes_are_bounded(path: str, server: HttpServer) -> None:
    server.behaviour = ()
    size = len(server.files[path].content)
    for row in measure(server, *((work, path) for work in ("inspect", "scan", "read"))):
        assert row["grown"] < 3 * size + BASE_BYTES, row


def test_an_endless_body_is_bounded_by_total_bytes(server: HttpServer) -> None:
    server.behaviour = {"/zeros": (NoRanges(), Endless()), "/without-length": (NoRanges(), Endless(), NoLength())}
    works = [(work, path) for path in server.behaviour for work in ("inspect", "scan")]
    for work, row in zip(works, measure(server, *works, total_bytes=32 * MIB)):
        assert row["grown"] < 3 * 32 * MIB, (work, row)
        assert row["outcome"] in {"limit exceeded", "ok"}, (work, row)


def test_a_size_that_a_server_makes_up_takes_nothing(server: HttpServer) -> None:
    size = len(server.files["/large.zip"].content)
    server.behaviour = {
        "/endless.zip": Endless(),
        "/total.zip": OtherContentRange(total=3 * GIB),
        "/chunked.zip": (OtherContentRange(total=3 * GIB), Chunked()),
    }
    for path in server.behaviour:
        server.put(path, server.files["/large.zip"].content)
    works = [(work, path) for path in server.behaviour for work in ("inspect", "scan", "read")]
    for work, row in zip(works, measure(server, *works)):
        assert row["grown"] < size + BASE_BYTES, (work, row)  # what was sent before it contradicted itself
        assert row["outcome"] != "ok", (work, row)
