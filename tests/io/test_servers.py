"""The HTTP server of the tests does what the names of its behaviours say, and counts it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from tests.helpers.http_behaviours import (
    Behaviour,
    Changes,
    Chunked,
    Closes,
    Cuts,
    Drips,
    Endless,
    Fails,
    FewerBytes,
    Gzip,
    HtmlPage,
    LongerLength,
    MoreBytes,
    NeedsPassword,
    NeedsToken,
    NeverAnswers,
    NoConditions,
    NoContentRange,
    NoETag,
    NoHead,
    NoLastModified,
    NoLength,
    NoRanges,
    OtherContentRange,
    OtherHeadLength,
    OtherStart,
    Redirect,
    RedirectLoop,
    WeakETag,
)
from tests.helpers.http_messages import make_file
from tests.helpers.http_server import HttpServer

DATA = bytes(range(256)) * 400
OTHER = DATA[::-1]
TAG = make_file(DATA).etag
PATH = "/agent.zip"


class Got(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


def fetch(server: HttpServer, path: str = PATH, method: str = "GET", **headers: str) -> Got:
    """Make one request on a connection of its own, without following redirects."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=500)
    with contextlib.closing(connection):
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        with contextlib.closing(response):
            return Got(response.status, response.read(), dict(response.getheaders()))


def serve(*behaviours: Behaviour) -> HttpServer:
    return HttpServer({PATH: DATA}, behaviour=behaviours)


@pytest.mark.parametrize(
    ("header", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=100-199", 100, 200),
        ("bytes=100-", 100, len(DATA)),
        ("bytes=-22", len(DATA) - 22, len(DATA)),
        ("bytes=-999999999", 0, len(DATA)),
        ("bytes=100-999999999", 100, len(DATA)),
    ],
)
def test_range_is_sent_and_counted(header: str, start: int, stop: int) -> None:
    with serve() as server:
        got = fetch(server, Range=header)
        assert (got.status, got.body) == (206, DATA[start:stop])
        assert got.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(DATA)}"
        assert got.headers["ETag"] == TAG
        (record,) = server.requests
        assert (record.method, record.path, record.range, record.status) == ("GET", PATH, (start, stop), 206)
        assert record.headers["range"] == header
        assert record.sent == server.bytes_sent == stop - start
        server.reset()
        assert server.requests == []


@pytest.mark.parametrize("header", [f"bytes={len(DATA)}-", "bytes=-0"])
def test_range_after_the_end_is_not_satisfiable(header: str) -> None:
    with serve() as server:
        got = fetch(server, Range=header)
    assert (got.status, got.body, got.headers["Content-Range"]) == (416, b"", f"bytes */{len(DATA)}")


@pytest.mark.parametrize("header", ["bytes=0-1,5-6", "bytes=9-8", "lines=0-1", "bytes=-"])
def test_other_ranges_are_ignored(header: str) -> None:
    with serve() as server:
        assert fetch(server, Range=header)[:2] == (200, DATA)


def test_head_has_the_headers_of_get() -> None:
    with serve() as server:
        head, get = fetch(server, method="HEAD"), fetch(server)
        assert (head.status, head.body, get.body) == (200, b"", DATA)
        assert head.headers == {**get.headers, "Date": head.headers["Date"]}
        assert (head.headers["Content-Length"], head.headers["Accept-Ranges"]) == (str(len(DATA)), "bytes")
        assert [record.sent for record in server.requests] == [0, len(DATA)]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If_Match": TAG}, 206),
        ({"If_Match": "*"}, 206),
        ({"If_Match": '"other"'}, 412),
        ({"If_Unmodified_Since": "Tue, 14 Nov 2023 22:13:20 GMT"}, 206),
        ({"If_Unmodified_Since": "Tue, 14 Nov 2023 22:13:19 GMT"}, 412),
        ({"If_Range": TAG}, 206),
        ({"If_Range": '"other"'}, 200),
        ({"If_None_Match": TAG}, 304),
        ({"If_None_Match": '"other"'}, 206),
    ],
)
def test_conditions(headers: dict[str, str], status: int) -> None:
    with serve() as server:
        assert fetch(server, Range="bytes=0-9", **headers).status == status
    with serve(NoConditions()) as server:
        assert fetch(server, Range="bytes=0-9", **headers).status == 206
    with serve(WeakETag()) as server:
        got = fetch(server, Range="bytes=0-9", **headers)
        assert got.headers["ETag"] == f"W/{TAG}"
        assert (
            got.status == {"If_Match": 412, "If_Range": 200}.get(next(iter(headers)), status) or "*" in headers.values()
        )


@pytest.mark.parametrize(("header", "status"), [("If_Match", 412), ("If_Range", 200), ("If_None_Match", 304)])
def test_weak_etag(header: str, status: int) -> None:
    with serve(WeakETag()) as server:
        for tag in (TAG, f"W/{TAG}"):
            got = fetch(server, Range="bytes=0-9", **{header: tag})
            assert (got.status, got.headers["ETag"]) == (status, f"W/{TAG}")


def test_connections_persist() -> None:
    with serve() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=500)
        with contextlib.closing(connection):
            for _ in range(3):
                connection.request("GET", PATH)
                assert connection.getresponse().read() == DATA
                used = connection.sock
            assert connection.sock is used is not None
    assert len(server.requests) == 3


def test_what_a_server_lacks() -> None:
    with serve(NoRanges()) as server:
        got = fetch(server, Range="bytes=0-9")
        assert (got.status, got.body) == (200, DATA)
        assert "Accept-Ranges" not in got.headers
    with serve(NoRanges(advertised=True)) as server:
        got = fetch(server, Range="bytes=0-9")
        assert (got.status, got.headers["Accept-Ranges"]) == (200, "bytes")
    with serve(NoETag(), NoLastModified()) as server:
        got = fetch(server, Range="bytes=0-9")
        assert got.status == 206
        assert not {"ETag", "Last-Modified"} & set(got.headers)
    with serve(NoHead()) as server:
        assert (fetch(server, method="HEAD").status, fetch(server).status) == (405, 200)


def test_bodies_without_length() -> None:
    for behaviour in (Chunked(), NoLength()):
        with serve(behaviour) as server:
            got = fetch(server)
            assert (got.body, "Content-Length" in got.headers) == (DATA, False)
            assert server.bytes_sent == len(DATA)


def test_gzip() -> None:
    with serve(Gzip()) as server:
        got = fetch(server, Range="bytes=0-9", Accept_Encoding="gzip")
        assert (got.status, gzip.decompress(got.body), got.headers["Content-Encoding"]) == (200, DATA, "gzip")
        assert server.bytes_sent < len(DATA)
        assert fetch(server, Range="bytes=0-9", Accept_Encoding="identity").body == DATA[:10]
    with serve(Gzip(always=True)) as server:
        assert gzip.decompress(fetch(server, Accept_Encoding="identity").body) == DATA


@pytest.mark.parametrize("other", [OTHER, DATA + b"more"])
def test_file_changes(other: bytes) -> None:
    with serve(Changes(other, after=2)) as server:
        first = [fetch(server, Range="bytes=0-9", If_Match=TAG) for _ in range(3)]
        assert [(got.status, got.body) for got in first] == [(206, DATA[:10])] * 2 + [(412, b"")]
        assert fetch(server, Range="bytes=0-9", If_Range=TAG)[:2] == (200, other)
    with serve(Changes(other, keeps_etag=True)) as server:
        got = fetch(server, If_Match=TAG)
        assert (got.status, got.body, got.headers["ETag"]) == (200, other, TAG)
    with serve() as server:
        before = fetch(server)
        server.put(PATH, other)
        after = fetch(server)
        assert after.body == other
        assert all(before.headers[name] != after.headers[name] for name in ("ETag", "Last-Modified"))


def test_lies_about_lengths() -> None:
    with serve(LongerLength(5)) as server, pytest.raises(http.client.IncompleteRead) as caught:
        fetch(server)
    assert (caught.value.partial, caught.value.expected) == (DATA, 5)
    with serve(OtherHeadLength(-5)) as server:
        head, get = fetch(server, method="HEAD"), fetch(server)
    assert (head.headers["Content-Length"], get.body) == (str(len(DATA) - 5), DATA)


@pytest.mark.parametrize(
    ("behaviour", "body", "content_range"),
    [
        (OtherContentRange(start=3), DATA[100:200], f"bytes 103-202/{len(DATA)}"),
        (OtherContentRange(total=-1), DATA[100:200], f"bytes 100-199/{len(DATA) - 1}"),
        (NoContentRange(), DATA[100:200], None),
        (OtherStart(3), DATA[103:203], f"bytes 103-202/{len(DATA)}"),
        (OtherStart(3, honest=False), DATA[103:203], f"bytes 100-199/{len(DATA)}"),
        (FewerBytes(10), DATA[100:190], f"bytes 100-189/{len(DATA)}"),
        (FewerBytes(10, honest=False), DATA[100:190], f"bytes 100-199/{len(DATA)}"),
        (MoreBytes(10), DATA[100:200] + bytes(10), f"bytes 100-199/{len(DATA)}"),
    ],
)
def test_lies_about_ranges(behaviour: Behaviour, body: bytes, content_range: str | None) -> None:
    with serve(behaviour) as server:
        got = fetch(server, Range="bytes=100-199")
    assert (got.status, got.body, got.headers.get("Content-Range")) == (206, body, content_range)
    assert got.headers["Content-Length"] == str(len(body))


def test_endless_body_ends_when_the_client_closes() -> None:
    with serve(Endless()) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=500)
        connection.request("GET", PATH, headers={"Range": "bytes=0-9"})
        response = connection.getresponse()
        assert response.read(1000) == DATA[:10] + bytes(990)
        response.close()
        connection.close()
    assert server.bytes_sent < 1 << 25  # what the buffers of the sockets hold


def test_cuts_first_requests_only() -> None:
    with serve(Cuts(1000, times=2)) as server:
        for _ in range(2):
            with pytest.raises(http.client.IncompleteRead) as caught:
                fetch(server)
            assert caught.value.partial == DATA[:1000]
        assert fetch(server).body == DATA
        assert [record.sent for record in server.requests] == [1000, 1000, len(DATA)]
    with serve(Cuts(0), Chunked()) as server, pytest.raises(http.client.IncompleteRead):
        fetch(server)


def test_failures() -> None:
    with serve(Fails(429, retry_after=3, after=1, times=2)) as server:
        found = [fetch(server) for _ in range(4)]
        assert [got.status for got in found] == [200, 429, 429, 200]
        assert found[1].headers["Retry-After"] == "3"
    with serve(Closes(times=1)) as server:
        with pytest.raises(http.client.RemoteDisconnected):
            fetch(server)
        assert fetch(server).status == 200
        assert [record.status for record in server.requests] == [0, 200]
    with serve() as server:
        assert fetch(server, "/other.zip").status == 404
    with serve(HtmlPage()) as server:
        assert fetch(server).headers["Content-Type"].startswith("text/html")


def test_slow_servers_end_with_the_block() -> None:
    """Whatever they wait for: a server that waited for its threads would end after 500 seconds."""
    with serve(Drips(10, 500)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=500)
        with contextlib.closing(connection):
            connection.request("GET", PATH)
            response = connection.getresponse()
            connection.sock.settimeout(0.1)
            with contextlib.closing(response), pytest.raises(TimeoutError):
                response.read(1)
    with serve(NeverAnswers(500)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=500)
        with contextlib.closing(connection):
            connection.request("GET", PATH)
            connection.sock.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.getresponse()
    with serve(Drips(len(DATA) // 4, 0.01)) as server:
        assert fetch(server).body == DATA


def open_url(url: str, **headers: str) -> tuple[str, bytes]:
    """Follow redirects as urllib does, without the proxies of the environment."""
    request = Request(url, headers=headers)  # noqa: S310 - a URL of the test
    with build_opener(ProxyHandler({})).open(request, timeout=500) as response:
        return response.url, response.read()


@pytest.mark.parametrize("status", [301, 302, 303, 307])
@pytest.mark.parametrize("location", ["/b.zip", "b.zip", "other"])
def test_redirects(status: int, location: str) -> None:
    with HttpServer({"/b.zip": OTHER}) as other, HttpServer({"/b.zip": DATA}) as server:
        target = other.url("/b.zip") if location == "other" else location
        server.behaviour = {PATH: Redirect(target, status)}
        url, body = open_url(server.url(PATH), Authorization="Bearer secret")
        last = other if location == "other" else server
        assert (url, body) == (last.url("/b.zip"), OTHER if location == "other" else DATA)
        assert (server.requests[0].status, server.requests[0].authorization) == (status, "Bearer secret")
        assert last.requests[-1].authorization == "Bearer secret"  # urllib gives it to everybody


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/a.zip", "http://169.254.169.254/"])
def test_redirects_to_other_places(location: str) -> None:
    with serve(Redirect(location, 308)) as server:
        got = fetch(server)
        assert (got.status, got.headers["Location"]) == (308, location)


def test_endless_redirects() -> None:
    with serve(RedirectLoop()) as server:
        with pytest.raises(HTTPError) as caught:
            open_url(server.url(PATH))
        caught.value.close()
        assert len({record.query for record in server.requests}) == len(server.requests) > 5


@pytest.mark.parametrize(
    ("behaviour", "right", "wrong"),
    [
        (NeedsToken("secret"), "Bearer secret", "Bearer other"),
        (NeedsPassword("ann", "secret"), "Basic YW5uOnNlY3JldA==", "Basic b3RoZXI="),
    ],
)
def test_permissions(behaviour: Behaviour, right: str, wrong: str) -> None:
    with serve(behaviour) as server:
        without = fetch(server)
        assert (without.status, without.headers["WWW-Authenticate"].split()[0]) == (401, right.split(maxsplit=1)[0])
        assert (fetch(server, Authorization=wrong).status, fetch(server, Authorization=right).status) == (403, 200)


def test_pages_of_links_and_hosts() -> None:
    with HttpServer({"/runs/a.zip": DATA, "/runs/b/c d.zip": DATA}) as server:
        assert fetch(server, "/runs/").body.count(b"<a href=") == 2
        assert open_url(server.url("/runs/b/c d.zip", host="localhost"))[1] == DATA
        assert urlsplit(server.url("/x")).port == server.port
        assert fetch(server, "/other/").status == 404


def test_errors_of_the_server_reach_the_test() -> None:
    class Wrong(Behaviour):
        def change_answer(self, *_: Any) -> Any:
            message = "wrong"
            raise ValueError(message)

    with pytest.raises(ValueError, match="wrong"), serve(Wrong()) as server, contextlib.suppress(OSError):
        fetch(server)


def test_with_the_client_of_fsspec() -> None:
    pytest.importorskip("aiohttp")
    fsspec = pytest.importorskip("fsspec")
    with serve() as server:
        files = fsspec.filesystem("http", skip_instance_cache=True)
        assert files.info(server.url(PATH))["ETag"] == TAG
        assert files.cat_file(server.url(PATH), start=100, end=200) == DATA[100:200]
        assert [(record.method, record.range) for record in server.requests] == [("HEAD", None), ("GET", (100, 200))]
