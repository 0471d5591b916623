"""A file by URL is described, read, judged and refused as the same file on the disk is: one path, not two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

import sbformat
from conformance.runner.vectors import name_file, read_vectors
from sbformat import SbformatError
from tests.helpers.bundled import ARCHIVES
from tests.helpers.http_behaviours import NoRanges
from tests.helpers.http_server import HttpServer
from tests.helpers.large_agents import make_deflated_data, make_wide_sac
from tests.helpers.sampling import sample
from tests.helpers.vector_files import write_vector

if TYPE_CHECKING:
    from pathlib import Path

FILES: Final = sorted(path for path in ARCHIVES.iterdir() if path.suffix in {".zip", ".pth", ".pkl"})
PARTS: Final = ("few", "0", "1", "2")


@cache
def list_part(part: str) -> list[Path]:
    """A third of the files of the vectors: the few of the default run, or a part of the others."""
    rows = [
        (PurePosixPath(name_file(vector)), vector["name"]) for vector in read_vectors() if vector["kind"] == "decode"
    ]
    key: dict[str, Any] = {"name": lambda row: row[0].name, "group": lambda row: (row[0].parent.name, row[0].suffix)}
    some = sample([row for row in rows if row[0].suffix in {".zip", ".pth"}], 3, **key)
    few = sample(some, 16, **key)
    chosen = few if part == "few" else [row for row in some if row not in few][int(part) :: 3]
    return [write_vector(name) for _, name in chosen]


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with HttpServer() as started:
        yield started


def put(server: HttpServer, path: Path) -> str:
    """Serve a file; return its URL."""
    name = f"/{path.parent.name}/{path.name}"
    server.put(name, path.read_bytes())
    return server.url(name)


def attempt(work: Callable[[Any], Any], source: Any) -> tuple[str, Any]:
    """Return the outcome of a call, and its result or its message."""
    try:
        return "ok", work(source)
    except SbformatError as error:
        return error.outcome, str(error)


def read_everything(source: Any) -> list[Any]:
    """Read what a file has; what cannot be read is in the list as an error."""
    archive = sbformat.read(source, on_unknown="inert")
    plain = [name for name in archive.contents if name in archive.plain_entries]
    return [
        archive.format,
        list(archive.entries.values()),
        *(attempt(lambda name: repr(archive.decode_plain(name)), name) for name in plain),
        *(attempt(lambda name: repr(archive.state_dict(name).to_numpy()), name) for name in archive.state_dicts),
    ]


def compare(local: Path, url: str) -> None:
    """Compare what is read and reported of a file with what is of its URL."""
    assert attempt(read_everything, url) == attempt(read_everything, local)
    scanned, expected = sbformat.scan(url), sbformat.scan(local)
    assert scanned == expected
    problems = [attempt(lambda source: list(sbformat.iter_problems(source)), source) for source in (url, local)]
    assert problems[0] == problems[1]
    compare_descriptions(local, url)


def compare_descriptions(local: Path, url: str) -> None:
    """Compare the reports of ``inspect``: the same, or an error was deferred, and its entry is listed."""
    (outcome, remote), (expected, found) = attempt(sbformat.inspect, url), attempt(sbformat.inspect, local)
    if outcome != "ok":
        assert outcome == expected
        return
    listed = {row.entry for row in remote.not_checked}
    if expected != "ok":
        assert listed
        return
    assert found.not_checked == ()
    if simplify(remote) != simplify(found):
        broken = {row.entry.partition("/")[0] for row in {*found.broken} - {*remote.broken}}
        assert broken
        assert broken <= listed
        assert not {*remote.broken} - {*found.broken}


def simplify(report: Any) -> str:
    """Return the text of a report without what was not checked, and where the bytes of an entry start."""
    entries = tuple(row._replace(data_offset=0) for row in report.entries)
    return repr(tuple(report._replace(not_checked=(), entries=entries)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_bundled_archives(path: Path, server: HttpServer) -> None:
    compare(path, put(server, path))
    remote = sbformat.inspect(server.url(f"/archives/{path.name}"))
    assert repr(tuple(remote._replace(not_checked=()))) == repr(tuple(sbformat.inspect(path)))


@pytest.mark.parametrize("data", [make_wide_sac(100), make_deflated_data(100)], ids=["stored", "deflated"])
@pytest.mark.parametrize("ranges", [True, False])
def test_larger_archives(data: bytes, ranges: bool, tmp_path: Path) -> None:  # noqa: FBT001
    path = tmp_path / "agent.zip"
    path.write_bytes(data)
    with HttpServer(behaviour=() if ranges else NoRanges()) as server:
        compare(path, put(server, path))


@pytest.mark.filterwarnings("ignore:Empty unicode path:UserWarning")  # zipfile's, of Python 3.12 and later
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=() if part == "few" else pytest.mark.exhaustive) for part in PARTS]
)
def test_vectors(part: str, server: HttpServer) -> None:
    """Each is good, or broken in one way."""
    for path in list_part(part):
        url = put(server, path)
        try:
            compare(path, url)
        except AssertionError as error:
            message = f"{path}: {error}"
            raise AssertionError(message) from error


@pytest.mark.parametrize("parts", [PARTS[:1], pytest.param(PARTS, marks=pytest.mark.exhaustive)], ids=["few", "some"])
def test_faults_in_local_headers_are_deferred(parts: tuple[str, ...], server: HttpServer) -> None:
    """There are vectors that pass inspect by ranges, and are listed; reading them refuses them."""
    paths = [path for part in parts for path in list_part(part)]
    refused = [path for path in paths if attempt(sbformat.inspect, path)[0] != "ok"]
    deferred = [path for path in refused if attempt(sbformat.inspect, put(server, path))[0] == "ok"]
    assert {path.parent.name for path in deferred} == {"container"}
    for path in deferred:
        assert attempt(read_everything, put(server, path)) == attempt(read_everything, path)
