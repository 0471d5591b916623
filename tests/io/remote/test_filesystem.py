"""File systems of fsspec that know versions, sizes or nothing, whose files change, and whose errors have secrets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fsspec")

import fsspec

import sbformat
from sbformat import ContainerError, UnsupportedError
from sbformat.io.remote import clients, open_remote
from sbformat.io.remote.clients import translate
from sbformat.io.urls import Url
from tests.helpers.large_agents import make_many_tensors
from tests.helpers.remote_errors import catch

DATA = make_many_tensors(3, 200_000)
OTHER = DATA[:300_000] + bytes([DATA[300_000] ^ 1]) + DATA[300_001:]
SECRET = "s3cr3t-of-the-client"  # noqa: S105
FILES: dict[str, bytes] = {}


class OneFileSystem(fsspec.spec.AbstractFileSystem):  # type: ignore[misc]
    """Files of a dict, with what a test wants the file system to say of them."""

    protocol = "onefile"
    cachable = False

    def __init__(self, says: dict[str, Any] | None = None, error: BaseException | None = None, **_: Any) -> None:
        super().__init__()
        self.says = says or {}
        self.error = error
        self.calls: list[str] = []

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        self.calls.append("info")
        name = self._strip_protocol(path)
        if self.error is not None:
            raise self.error
        if name not in FILES:
            raise FileNotFoundError(path)
        found = {"name": name, "size": len(FILES[name]), "type": "file", "etag": str(hash(FILES[name]))}
        return {key: value for key, value in {**found, **self.says}.items() if value is not None}

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return OneFile(self, path, mode, cache_type="none", size=len(FILES[self._strip_protocol(path)]))


class OneFile(fsspec.spec.AbstractBufferedFile):  # type: ignore[misc]
    """A file of it."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        self.fs.calls.append("read")
        name = self.fs._strip_protocol(self.path)
        if name not in FILES:
            raise FileNotFoundError(self.path)
        return FILES[name][start:end]


@pytest.fixture(autouse=True)
def url() -> Iterator[str]:
    fsspec.register_implementation("onefile", OneFileSystem, clobber=True)
    FILES["a.zip"] = DATA
    yield "onefile://a.zip"
    FILES.clear()


def open_with(url: str, **options: Any) -> Any:
    return open_remote(Url(url, **options))


def test_a_file_is_read_by_ranges(url: str) -> None:
    source = open_with(url)
    assert (source.size, source.is_by_range(), source.name) == (len(DATA), True, url)
    assert bytes(source.view(300_000, 5)) == DATA[300_000:300_005]
    assert bytes(source.load().view(0, len(DATA))) == DATA
    assert sbformat.inspect(url)._replace(not_checked=()) == sbformat.inspect(DATA)


@pytest.mark.parametrize(
    ("says", "to"),
    [
        ({}, OTHER), ({}, DATA + b"x"), ({}, DATA[:-200_000]),
        ({"etag": None}, DATA + b"x"), ({"etag": None}, DATA[:-200_000]), ({"etag": None, "mtime": 5}, DATA + b"x"),
    ],
    ids=lambda value: str(value if isinstance(value, dict) else len(value)),
)  # fmt: skip
def test_a_file_that_has_changed_is_refused(url: str, says: dict[str, Any], to: bytes) -> None:
    source = open_with(url, says=says)
    FILES["a.zip"] = to
    error = catch(lambda: source.view(0, source.size))
    assert isinstance(error, ContainerError)
    assert "has changed since it was opened" in str(error) or "was cut off or has changed" in str(error)


def test_a_file_that_is_deleted_meanwhile_is_not_found(url: str) -> None:
    source = open_with(url)
    del FILES["a.zip"]
    assert isinstance(catch(lambda: source.view(0, 5)), FileNotFoundError)


def test_the_memory_file_system_tells_versions_by_their_time() -> None:
    files = fsspec.filesystem("memory")
    files.pipe("/filesystem/a.zip", DATA)
    source = open_remote("memory://filesystem/a.zip")
    assert bytes(source.view(0, 5)) == DATA[:5]
    files.pipe("/filesystem/a.zip", OTHER)
    assert isinstance(catch(lambda: source.view(300_000, 5)), ContainerError)
    files.rm("/filesystem", recursive=True)


@pytest.mark.parametrize("size", ["5", -1, None, 1.5, True])
def test_a_size_that_is_not_one_is_one_error(url: str, size: Any) -> None:
    says = {"size": size} if size is not None else {"size": "unknown"}
    assert isinstance(catch(lambda: open_with(url, says=says)), OSError)


def test_bytes_past_the_end_of_what_the_file_system_says(url: str) -> None:
    source = open_with(url, says={"size": len(DATA) + 100})
    assert isinstance(catch(lambda: source.view(len(DATA), 50)), ContainerError)


@pytest.mark.parametrize(
    ("error", "expected", "word"),
    [
        (FileNotFoundError(2, SECRET), FileNotFoundError, "not found"),
        (PermissionError(13, SECRET), PermissionError, "access denied"),
        (OSError(5, f"https://h/?sig={SECRET}"), OSError, "input/output error"),
        (ValueError(SECRET), OSError, "ValueError"),
        (RuntimeError(f"Authorization: {SECRET}"), OSError, "RuntimeError"),
        (ImportError(f"no {SECRET}", name="adlfs"), UnsupportedError, "adlfs"),
        (TimeoutError(SECRET), TimeoutError, "in time"),
        (KeyError(SECRET), OSError, "KeyError"),
    ],
)
def test_errors_of_clients_are_ours_and_have_no_secrets(
    url: str, error: BaseException, expected: type[Exception], word: str
) -> None:
    found = catch(lambda: open_with(url, error=error), SECRET)
    assert isinstance(found, expected)
    assert word in str(found)
    source = open_with(url)
    source._file._fs.error = error
    found = catch(lambda: source.view(0, 5), SECRET)
    assert isinstance(found, expected)


def test_errors_that_are_chained_are_looked_through() -> None:
    class BotoError(Exception):
        response = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}

    error = OSError(22, SECRET)
    error.__cause__ = BotoError(SECRET)
    found = translate(error, "s3", "s3://bucket/a.zip")
    assert isinstance(found, PermissionError)
    assert "AWS" in str(found)
    looped = ValueError()
    looped.__cause__ = KeyError()
    looped.__cause__.__cause__ = looped
    assert isinstance(translate(looped, "x", "x://y"), OSError)


def test_errors_are_told_by_the_names_of_their_classes() -> None:
    """As those of clients that this project does not know."""
    for names, expected in {
        ("NotFoundError", "NoSuchKey", "NoSuchBucket", "RepositoryNotFoundError"): FileNotFoundError,
        ("PermissionDenied", "Forbidden", "Unauthorized", "AccessDenied"): PermissionError,
        ("GatedRepoError", "NoCredentialsError", "InvalidAccessKeyId"): PermissionError,
        ("ReadTimeoutError",): TimeoutError,
        ("FileExpired",): ContainerError,
    }.items():
        for name in names:
            assert type(translate(type(name, (Exception,), {})(), "x", "x://y")) is expected, name


def test_interrupts_are_not_errors_of_a_file_system(url: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        open_with(url, error=KeyboardInterrupt())


def test_what_has_no_connection_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    unknown = type("ClientConnectorDNSError", (OSError,), {"__module__": "aiohttp.client_exceptions"})(-2, "x")
    unknown.os_error = socket.gaierror(-2, "Name or service not known")
    expected = "the name of the server is not known: check the URL and the network"
    assert translate(unknown, "https", "https://x/a.zip").strerror == expected  # type: ignore[attr-defined]
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    expected += "; files of https:// URLs are fetched without the proxy of https_proxy"
    assert translate(unknown, "https", "https://x/a.zip").strerror == expected  # type: ignore[attr-defined]
    late = type("ServerTimeoutError", (Exception,), {"__module__": "aiohttp.client_exceptions"})()
    assert str(translate(late, "hf", "hf://x/y")).endswith("without the proxy of https_proxy: 'hf://x/y'")
    offline = type("OfflineModeIsEnabled", (ConnectionError,), {})()
    assert "HF_HUB_OFFLINE is set: unset it" in str(translate(offline, "hf", "hf://x/y"))


@pytest.mark.parametrize("call", ["info", "read"])
def test_a_client_that_does_not_return_is_left_alone(call: str) -> None:
    FILES["a.zip"] = DATA
    never = threading.Event()

    def wait(self: OneFileSystem, path: str, **options: Any) -> Any:
        never.wait(500)

    stuck = type("Stuck", (OneFileSystem,), {"info" if call == "info" else "_open": wait, "protocol": "stuck"})
    fsspec.register_implementation("stuck", stuck, clobber=True)
    error = catch(lambda: sbformat.read(Url("stuck://a.zip", timeout=0.05)))
    assert isinstance(error, TimeoutError)
    assert "in time" in str(error)
    never.set()


def test_the_time_of_a_list_begins_again_with_each_item(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, added = threading.Semaphore(0), threading.Semaphore(0)
    waited: list[float] = []
    wait = clients.wait

    def count(numbers: int) -> Iterator[int]:
        for number in range(numbers):
            asked.acquire()
            yield number
            added.release()

    def wait_for_item(futures: Any, seconds: float) -> Any:
        waited.append(seconds)
        if len(waited) > 3:
            return wait(futures, 500)
        asked.release()
        added.acquire()
        return wait(futures, 0)

    with pytest.raises(ZeroDivisionError):
        clients.collect_in_time(lambda: [1 // 0], 500)
    monkeypatch.setattr(clients, "wait", wait_for_item)
    assert clients.collect_in_time(lambda: count(3), 30) == [0, 1, 2]
    assert set(waited) == {30}
