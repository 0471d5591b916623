"""Redirects lead within the origin and to the internet, not to other schemes and not into private networks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

from aiohttp.resolver import DefaultResolver
from yarl import URL

import sbformat
from sbformat import UnsupportedError
from sbformat.io.remote import http
from sbformat.io.remote.http import (
    MOST_REDIRECTS,
    PrivateAddressError,
    check_redirect,
    is_private,
    make_public_resolver,
)
from sbformat.io.urls import Url, hide_secrets
from tests.helpers.bundled import PPO
from tests.helpers.http_behaviours import Behaviour, Fails, NeedsPassword, NeedsToken, Redirect, RedirectLoop
from tests.helpers.http_server import HttpServer
from tests.helpers.large_agents import make_many_tensors
from tests.helpers.remote_errors import catch

DATA = make_many_tensors(2, 100_000)
PATH = "/agent.zip"
SECRET = "t0ken-of-the-user"  # noqa: S105
SIGNED = "Signature=s1gned"
REFUSED = "--private-redirects"


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(_: float) -> None:
        return

    monkeypatch.setattr(http, "_wait", wait)


@contextmanager
def redirecting(location: str, **options: Any) -> Iterator[HttpServer]:
    """A server that redirects to a place; ``{port}`` in it is that of the server itself."""
    with HttpServer({"/there.zip": DATA}) as server:
        place = location.format(port=server.port)
        server.behaviour = {PATH: Redirect(place, **options)}
        yield server


# -- followed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location", ["/there.zip", "there.zip", "//127.0.0.1:{port}/there.zip", "http://127.0.0.1:{port}/there.zip#part"]
)
def test_a_redirect_within_the_origin_is_followed(location: str, status: int) -> None:
    with redirecting(location, status=status) as server:
        report = sbformat.inspect(server.url(PATH))
        assert report._replace(not_checked=()) == sbformat.inspect(DATA)
        paths = [record.path for record in server.requests]
    assert paths.count(PATH) == 1
    assert set(paths[1:]) == {"/there.zip"}


@pytest.mark.parametrize("location", ["/there.zip", "http://127.0.0.1:{port}/there.zip"])
def test_credentials_stay_within_the_origin(location: str) -> None:
    with HttpServer({"/there.zip": DATA}) as server:
        needs = NeedsPassword("ann", SECRET)
        server.behaviour = {PATH: [needs, Redirect(location.format(port=server.port))], "/there.zip": needs}
        named = server.url(PATH).replace("://", f"://ann:{SECRET}@")
        assert sbformat.read(named).format == "sb3"
        assert all(record.authorization for record in server.requests)


def test_a_signed_url_that_has_expired_is_asked_for_again() -> None:
    class Signs(Behaviour):
        def intercept(self, request: Any) -> Any:
            from tests.helpers.http_messages import Answer

            return Answer(status=302, headers={"Location": f"/there.zip?n={request.number}"})

    with HttpServer({"/there.zip": DATA}) as server:
        server.behaviour = {PATH: Signs(), "/there.zip": Fails(403, after=1, times=1)}
        archive = sbformat.read(server.url(PATH))
        assert archive.parameters["policy"].to_numpy()
        queries = [record.query for record in server.requests if record.path == "/there.zip"]
        assert queries == ["n=1", "n=1", "n=2"]


def test_a_redirect_that_leads_to_nothing_is_not_found() -> None:
    with redirecting("/nowhere") as server:
        error = catch(lambda: sbformat.read(server.url(PATH)))
        assert isinstance(error, FileNotFoundError)
        assert error.filename == server.url(PATH)


# -- without end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", [RedirectLoop(), Redirect(PATH)], ids=str)
def test_a_loop_ends(behaviour: Behaviour) -> None:
    with HttpServer({PATH: DATA}, behaviour=behaviour) as server:
        error = catch(lambda: sbformat.read(server.url(PATH)))
        assert f"more than {MOST_REDIRECTS} redirects" in str(error)
        assert len(server.requests) == MOST_REDIRECTS


@pytest.mark.parametrize("location", ["http://[", "http://127.0.0.1:99999/", "http://127.0.0.1:x/", "http://[::1/x"])
def test_a_redirect_to_what_is_not_a_url_is_one_error(location: str) -> None:
    with redirecting(location) as server:
        assert isinstance(catch(lambda: sbformat.read(server.url(PATH))), UnsupportedError)
        assert len(server.requests) == 1


# -- refused ------------------------------------------------------------------------------------------

PRIVATE = [
    "http://127.0.0.1:{port}/x", "//127.0.0.1:{port}/x", "http://127.1:{port}/x", "http://127.0.1:{port}/x",
    "http://0x7f000001:{port}/x", "http://0x7f.1:{port}/x", "http://2130706433:{port}/x", "http://017700000001:{port}/x",
    "http://0177.0.0.1:{port}/x", "http://0:{port}/x", "http://0.0.0.0:{port}/x", "http://[::1]:{port}/x",
    "http://[::]:{port}/x", "http://[::ffff:127.0.0.1]:{port}/x", "http://[::ffff:7f00:1]:{port}/x",
    "http://[0:0:0:0:0:0:0:1]:{port}/x", "http://[::127.0.0.1]:{port}/x", "http://[64:ff9b::127.0.0.1]:{port}/x",
    "http://localhost:{port}/x", "http://LOCALHOST:{port}/x",
    "http://user:pw@127.0.0.1:{port}/x", "http://①②⑦.⓪.⓪.①:{port}/x", "http://127。0。0。1:{port}/x",
    "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/x", "http://192.168.1.1/x", "http://172.16.0.1/x",
    "http://100.64.0.1/x", "http://[fe80::1]/x", "http://[fe80::1%25eth0]/x", "http://[fd00::1]/x", "http://[ff02::1]/x",
    "http://224.0.0.1/x", "http://255.255.255.255/x", "http://[2002:7f00:1::]/x", "http://[64:ff9b:1::1]/x",
    "https://127.0.0.1:{port}/x", "https://localhost:{port}/x",
]  # fmt: skip


@pytest.mark.parametrize("location", PRIVATE)
def test_a_redirect_to_a_private_address_is_refused(location: str) -> None:
    with HttpServer({"/x": DATA}) as other, HttpServer() as server:
        target = f"{location.format(port=other.port)}?{SIGNED}"
        # as servers send it: http.server encodes headers in Latin-1
        server.behaviour = Redirect(target.encode().decode("latin-1"))
        error = catch(lambda: sbformat.read(server.url(PATH)), "s1gned", "pw@")
        assert isinstance(error, UnsupportedError)
        assert "private address" in str(error)
        assert REFUSED in str(error)
        assert other.requests == []
        assert len(server.requests) == 1


def test_a_name_with_a_final_dot_does_not_reach_this_machine() -> None:
    """Some systems know localhost by that name, and others do not."""
    with HttpServer({"/x": DATA}) as other, HttpServer() as server:
        server.behaviour = Redirect(f"http://localhost.:{other.port}/x")
        catch(lambda: sbformat.read(server.url(PATH)))
        assert other.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_redirect_after_the_first_answer_is_refused_as_well(host: str) -> None:
    with HttpServer({"/x": DATA}, host=host) as other, HttpServer({PATH: DATA}) as server:
        server.behaviour = Redirect(other.url("/x"), after=1)
        error = catch(lambda: sbformat.read(server.url(PATH)))
        assert "private address" in str(error)
        assert other.requests == []


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "s3://bucket/key", "hf://user/repository/x.zip",
        "data:application/zip,PK", "javascript:alert(1)", "memory://x", "local:///etc/passwd", "FILE:///etc/passwd",
        "http+unix:///x", "ws://127.0.0.1/",
    ],
)  # fmt: skip
@pytest.mark.parametrize("private_redirects", [False, True])
def test_a_redirect_to_another_scheme_is_refused(location: str, private_redirects: bool) -> None:  # noqa: FBT001
    with redirecting(location) as server:
        error = catch(lambda: sbformat.read(Url(server.url(PATH), private_redirects=private_redirects)))
        assert isinstance(error, UnsupportedError)
        assert "another scheme" in str(error)
        assert REFUSED not in str(error)
        assert len(server.requests) == 1


def test_http_from_https_is_refused_unless_it_is_allowed() -> None:
    secure, plain = URL("https://example.com/a"), URL("http://example.com/a?Signature=s1gned")
    error = catch(lambda: check_redirect(secure, plain, secure, allows_private=False), "s1gned")
    assert "from https to another scheme" in str(error)
    assert REFUSED in str(error)
    check_redirect(secure, plain, secure, allows_private=True)
    check_redirect(plain, secure, plain, allows_private=False)
    assert "another scheme" in str(catch(lambda: check_redirect(secure, plain, plain, allows_private=False)))


@pytest.mark.parametrize("row", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])
def test_addresses_of_the_internet(row: str) -> None:
    assert not is_private(row)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1"])
def test_a_resolver_returns_addresses_of_the_internet(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_names(monkeypatch, {"good.example": [address]})

    async def resolve() -> list[Any]:
        resolver = make_public_resolver()
        found = await resolver.resolve("good.example", 443)
        await resolver.close()
        return found

    assert [row["host"] for row in asyncio.run(resolve())] == [address]


def answer_names(monkeypatch: pytest.MonkeyPatch, names: dict[str, list[str]]) -> list[str]:
    """Have names resolved to addresses; return the list of the names that were asked for."""
    asked: list[str] = []

    async def resolve(_: Any, host: str, port: int = 0, family: Any = 0) -> list[dict[str, Any]]:
        asked.append(host)
        return [
            {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": 0}
            for address in names[host]
        ]

    monkeypatch.setattr(DefaultResolver, "resolve", resolve)
    return asked


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"], ["10.1.2.3"], ["169.254.169.254"], ["::1"], ["fd00:ec2::254"], ["::ffff:127.0.0.1"],
        ["93.184.216.34", "127.0.0.1"],
    ],
    ids=str,
)  # fmt: skip
def test_a_name_of_a_private_address_is_refused(addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    host = f"h{abs(hash(tuple(addresses)))}.example"
    asked = answer_names(monkeypatch, {host: addresses})
    with HttpServer({"/x": DATA}) as other, HttpServer() as server:
        server.behaviour = Redirect(f"http://{host}:{other.port}/x?{SIGNED}")
        error = catch(lambda: sbformat.read(server.url(PATH)), "s1gned")
        assert isinstance(error, UnsupportedError)
        assert "private address" in str(error)
        assert host in str(error)
        assert other.requests == []
        assert len(server.requests) == 1
    assert asked == [host]


def test_a_private_name_raises_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_names(monkeypatch, {"bad.example": ["127.0.0.1"]})

    async def resolve() -> None:
        resolver = make_public_resolver()
        try:
            await resolver.resolve("bad.example")
        finally:
            await resolver.close()

    with pytest.raises(PrivateAddressError):
        asyncio.run(resolve())


# -- allowed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["127.0.0.1", "localhost"])
def test_a_redirect_to_a_private_address_is_followed_if_it_is_allowed(target: str) -> None:
    with HttpServer({"/x": DATA}) as other, HttpServer() as server:
        server.behaviour = Redirect(other.url("/x", host=target))
        url = Url(server.url(PATH), private_redirects=True)
        assert sbformat.inspect(url)._replace(not_checked=()) == sbformat.inspect(DATA)
        assert other.requests
        assert len(server.requests) == 1


OPTIONS = {
    "headers": {"headers": {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET, "Cookie": f"a={SECRET}"}},
    "client_kwargs": {
        "client_kwargs": {
            "headers": {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET},
            "cookies": {"a": SECRET},
        }
    },
}


@pytest.mark.parametrize("form", OPTIONS)
def test_credentials_of_options_are_not_sent_to_another_origin(form: str) -> None:
    with HttpServer({"/x": DATA}) as other, HttpServer() as server:
        server.behaviour = [NeedsToken(SECRET), Redirect(other.url("/x", host="localhost"))]
        url = Url(server.url(PATH), private_redirects=True, **OPTIONS[form])
        assert sbformat.read(url).parameters["policy"].to_numpy()
        assert server.requests[0].authorization == f"Bearer {SECRET}"
        assert other.requests
        for record in other.requests:
            assert SECRET not in str(record)


def test_credentials_of_the_configuration_are_not_sent_to_another_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec.config

    monkeypatch.setitem(fsspec.config.conf, "http", OPTIONS["client_kwargs"])
    with HttpServer({"/x": DATA}) as other, HttpServer() as server:
        server.behaviour = [NeedsToken(SECRET), Redirect(other.url("/x"))]
        assert sbformat.read(Url(server.url(PATH), private_redirects=True)).parameters["policy"].to_numpy()
        assert server.requests[0].authorization == f"Bearer {SECRET}"
        assert all(SECRET not in str(record) for record in other.requests)
        assert "private address" in str(catch(lambda: sbformat.read(server.url(PATH)), SECRET))


def test_a_password_in_the_url_is_not_sent_to_another_origin() -> None:
    with HttpServer({"/x": DATA}) as other, HttpServer() as server:
        server.behaviour = [NeedsPassword("ann", SECRET), Redirect(other.url("/x"))]
        named = server.url(PATH).replace("://", f"://ann:{SECRET}@")
        assert sbformat.read(Url(named, private_redirects=True)).parameters["policy"].to_numpy()
        assert [record.authorization for record in other.requests] == [None] * len(other.requests)


def test_a_redirect_back_to_the_origin_has_credentials_again() -> None:
    with HttpServer() as other, HttpServer({"/there.zip": DATA}) as server:
        other.behaviour = Redirect(server.url("/there.zip"))
        server.behaviour = {
            PATH: [NeedsToken(SECRET), Redirect(other.url("/x"))],
            "/there.zip": NeedsToken(SECRET),
        }
        url = Url(server.url(PATH), private_redirects=True, headers={"Authorization": f"Bearer {SECRET}"})
        assert sbformat.read(url).format == "sb3"
        assert [record.authorization for record in other.requests] == [None]


def test_another_scheme_is_another_origin() -> None:
    with HttpServer({PATH: PPO.read_bytes()}) as server:
        server.behaviour = Redirect(f"https://127.0.0.1:{server.port}{PATH}")
        error = catch(lambda: sbformat.read(server.url(PATH)))
        assert "private address" in str(error)
        assert hide_secrets(f"https://127.0.0.1:{server.port}{PATH}") in str(error)
