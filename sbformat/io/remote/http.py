"""Files of HTTP servers, by aiohttp, in the session that fsspec's file system is configured with.

In: a URL. Out: the bytes of ranges. The first request asks for the first bytes and learns everything else: the size
(``Content-Range``), the version (``ETag``, or ``Last-Modified``), whether the server knows ranges, and where redirects
lead. A server may contradict itself, send more than was asked for, or never end. So every later answer is compared with
the first one and with the request:

1. The status is 206, and ``Content-Range`` has exactly the range that was asked for, of a file of the same size. A
   server that answers 200 does not know ranges: the whole file is fetched once and stays in memory.
2. ``ETag`` or ``Last-Modified`` are those of the first one; ``If-Match`` asks for that, too.
3. No more bytes are read than were asked for, and no content is decompressed. An answer that is cut off is continued.
4. Redirects are followed one by one, from then on without those that led to the file. Credentials go to the origin that
   the user named, and nowhere else. The address that the user named is followed wherever it is; a redirect to another
   origin only to addresses of the internet, so that no server can have a program ask for what only it can reach
   (``http://169.254.169.254/``). This is checked on the addresses that the connection is then made to.

What may be temporary (no connection, a connection that is cut, 408, 425, 429 and 5xx) is tried again, four times in
all, after a time that doubles or that ``Retry-After`` gives; unless the time for the file is over before that
(:class:`~sbformat.io.remote.clients.Clock`). Connections, encryption, proxies and passwords are aiohttp's. Its own
reading of files and fsspec's are not used: they compare neither versions nor ranges, and send the headers of a session,
which may have tokens, to wherever a redirect leads.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.io.remote.clients import (
    Clock,
    changed,
    denied,
    failed,
    iter_chain,
    missing_packages,
    not_found,
    translate,
)
from sbformat.io.remote.source import OPENING_BYTES
from sbformat.io.urls import Url, as_url, find_scheme, hide_secrets
from sbformat.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp import ClientResponse, ClientSession
    from aiohttp.abc import AbstractResolver
    from yarl import URL

    from sbformat.io.remote.source import Range

MOST_REDIRECTS: Final = 8
_TRIES: Final = 4
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 20.0
_TOGETHER: Final = 6  # requests that are under way at the same time
_PIECE_BYTES: Final = 1 << 18
_TEMPORARY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_EXPIRED: Final = frozenset({400, 401, 403, 404, 410})
"""Answers of the server that redirects lead to, whose URLs are signed for a time, that are asked for again."""
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII)
_EMPTY_RANGE: Final = re.compile(r"bytes \*/0+", re.ASCII)  # Content-Range of the answer to a range of an empty file
_ENCODED: Final = re.compile(r"(?:[!-$&-~]|%[0-9A-Fa-f]{2})+")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_OF_CLOUDS: Final = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20"))
)
"""Addresses of services in the networks of clouds, and others of which releases of Python do not agree."""
_INTERNET: Final = ipaddress.ip_network("2000::/3")  # all addresses of version 6 that were assigned to the internet
_ADVICE: Final = "pass Url(..., private_redirects=True) or --private-redirects to follow it"


class _TemporaryError(Exception):
    """A failure that may be temporary."""

    def __init__(self, cause: Exception, wait: float | None = None) -> None:
        super().__init__()
        self.cause = cause
        self.wait = wait


class HttpFile:
    """A file of an HTTP server; see :class:`~sbformat.io.remote.source.RangedFile`.

    :param headers: for the origin of the URL: credentials
    :param limits: ``total_bytes`` limits a file from a server without ranges
    """

    __slots__ = (
        "_allows_private", "_clock", "_direct", "_etag", "_fs", "_headers", "_modified", "_named", "_others", "_scheme",
        "name", "size", "start", "whole",
    )  # fmt: skip

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        name: str | None = None,
        scheme: str | None = None,
        first_bytes: int = OPENING_BYTES,
    ) -> None:
        self.name = name or hide_secrets(url)
        self._scheme = scheme or find_scheme(url)
        self._headers = headers or {}
        options = as_url(url)
        self._clock = Clock(options.timeout)
        self._allows_private = options.private_redirects
        self._fs, self._others = _open_file_systems(options)
        try:
            self._named = _parse_url(url, needs_host=True)
        except ValueError:
            raise UnsupportedError(f"expected a URL with the name of a server, got {quote(self.name)}") from None
        self._direct: URL | None = None  # where the redirects led, which is asked first from then on
        self.size = 0
        self._etag: str | None = None
        self._modified: str | None = None
        self.whole: bytearray | None = None
        body = self._run(self._retry(self._open, limits, first_bytes))
        self.start = bytes(body[:first_bytes])

    @property
    def version(self) -> str | None:
        """The ETag, or the time of the last change."""
        return self._etag or self._modified

    def fetch(self, ranges: Sequence[Range]) -> list[bytearray]:
        """Return the bytes of ranges; several are fetched together."""
        if self.whole is not None:
            return [self.whole[start:stop] for start, stop in ranges]
        found: list[bytearray] = self._run(self._fetch_all(ranges))
        return found

    def _run(self, work: Any) -> Any:
        """Run a coroutine in the thread in which fsspec has its event loop."""
        from fsspec.asyn import sync

        async def run() -> Any:
            self._clock.start()
            try:
                return await work
            finally:
                self._clock.stop()

        try:
            return sync(self._fs.loop, run)
        except (SbformatError, FileNotFoundError, PermissionError):
            raise
        except Exception as error:  # whatever a client raises
            if isinstance(error, OSError) and error.filename == self.name:
                raise
            raise translate(error, self._scheme, self.name) from None

    async def _fetch_all(self, ranges: Sequence[Range]) -> list[bytearray]:
        limit = asyncio.Semaphore(_TOGETHER)

        async def fetch(start: int, stop: int) -> bytearray:
            data = bytearray()
            async with limit:
                await self._retry(self._add_range, data, start, stop)
            return data

        tasks = [asyncio.ensure_future(fetch(start, stop)) for start, stop in ranges]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _retry(self, work: Any, *args: Any) -> Any:
        """Call a function that makes a request, again if what failed may be temporary."""
        import aiohttp

        for number in range(_TRIES):
            try:
                return await work(*args)
            except _TemporaryError as error:
                cause, wait = error.cause, error.wait
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, asyncio.TimeoutError) as error:
                cause, wait = translate(error, self._scheme, self.name), None
            seconds = min(_FIRST_WAIT * 2**number if wait is None else wait, _LONGEST_WAIT)
            if number + 1 == _TRIES or seconds >= self._clock.seconds_left():
                break
            await _wait(seconds)
        raise cause from None

    # -- requests -------------------------------------------------------------------------------------

    async def _send(self, start: int, stop: int) -> ClientResponse:
        """Send a request for a range and follow redirects; the caller closes the response."""
        url, was_redirected = self._direct or self._named, self._direct is not None
        for _ in range(MOST_REDIRECTS):
            response = await self._send_one(url, start, stop)
            if response.status in _REDIRECTS and "Location" in response.headers:
                target = self._find_target(url, response.headers["Location"])
                response.close()
                check_redirect(url, target, self._named, allows_private=self._allows_private)
                url = target
            elif was_redirected and response.status in _EXPIRED:
                response.close()
                url, self._direct, was_redirected = self._named, None, False
            else:
                if response.status in (200, 206):
                    self._direct = url if url != self._named else None
                return response
        raise failed(self.name, f"more than {MOST_REDIRECTS} redirects")

    async def _send_one(self, url: URL, start: int, stop: int) -> ClientResponse:
        import aiohttp

        headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        options: dict[str, Any] = {}
        is_named = _is_same_origin(url, self._named)
        if is_named:
            options = dict(self._fs.kwargs)
            headers = {**dict(options.pop("headers", None) or {}), **self._headers, **headers}
        if self._etag and not self._etag.startswith("W/") and url == (self._direct or self._named):
            headers["If-Match"] = self._etag
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._clock.timeout / 2)
        session: ClientSession = await (self._fs if is_named else self._others).set_session()
        request = session.get(url, headers=headers, **{"timeout": timeout, **options, "allow_redirects": False})
        try:
            return await asyncio.wait_for(request, self._clock.seconds_left())
        except aiohttp.ClientConnectionError as error:
            if any(isinstance(one, PrivateAddressError) for one in iter_chain(error)):
                raise _refuse_private(url) from None
            raise

    def _find_target(self, url: URL, location: str) -> URL:
        """Return the URL that a redirect names; within the origin it keeps the user's name and password."""
        try:
            target = url.join(_parse_url(location)).with_fragment(None)
            if target.user is None and _is_same_origin(target, self._named):
                target = target.with_user(self._named.user).with_password(self._named.password)
        except ValueError:
            raise UnsupportedError(f"{quote(self.name)} redirects to something that is not a URL") from None
        return target

    # -- answers --------------------------------------------------------------------------------------

    async def _open(self, limits: Limits, first_bytes: int) -> bytearray:
        """Ask for the first bytes and return them, or all from a server without ranges; set what later is compared."""
        response = await self._send(0, first_bytes)
        body = bytearray()
        try:
            headers = response.headers
            is_empty = response.status == 416 and _EMPTY_RANGE.fullmatch(headers.get("Content-Range", ""))
            if not is_empty:
                self._check_status(response)
            if response.status == 206:
                size = self._read_content_range(response, 0, first_bytes, None)
                await self._add_body(response, body, min(size, first_bytes))
            else:
                if not is_empty:
                    limits.check("total_bytes", response.content_length or 0)
                    await self._add_body(response, body, response.content_length, limits)
                size, self.whole = len(body), body
            self.size, self._etag, self._modified = size, headers.get("ETag"), headers.get("Last-Modified")
            return body
        finally:
            response.close()

    async def _add_range(self, data: bytearray, start: int, stop: int) -> None:
        """Fetch what is missing of a range and add it to ``data``, also if it is cut off."""
        start += len(data)
        response = await self._send(start, stop)
        try:
            if response.status in (412, 416):
                raise changed(self.name)
            self._check_status(response)
            if response.status == 200:
                text = f"the server no longer answers with ranges: expected bytes {start} to {stop}, got the whole file"
                raise failed(self.name, text)
            if self._read_content_range(response, start, stop, self.size) != self.size:
                raise changed(self.name)
            await self._add_body(response, data, stop - start)
        finally:
            response.close()

    def _check_status(self, response: ClientResponse) -> None:
        """Refuse an answer without the file, about another version of it, or with a body that is compressed."""
        status = response.status
        if status in (404, 410):
            raise not_found(self.name)
        if status in (401, 403):
            raise denied(self.name, self._scheme)
        if status not in (200, 206):
            error = failed(self.name, f"the server answered with status {status}")
            if status not in _TEMPORARY:
                raise error
            wait = response.headers.get("Retry-After", "")
            is_number = wait.isascii() and wait.isdecimal() and len(wait) < 6
            raise _TemporaryError(error, float(wait) if is_number else None)
        if not self._is_same_version(response):
            raise changed(self.name)
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise failed(self.name, f"the server compresses the file ({quote(encoding, 40)}), which was not asked for")

    def _is_same_version(self, response: ClientResponse) -> bool:
        """Return whether an answer is about the version of the file that was opened, as far as its headers say.

        A strong ETag decides. A weak one may stay the same when bytes change, and some servers of a group give none;
        then the time of the last change decides. Where the first answer had one of both and this one has neither,
        nothing says that it is the same.
        """
        etag, time = response.headers.get("ETag"), response.headers.get("Last-Modified")
        if self._etag and etag:
            if self._etag != etag:
                return False
            if not etag.startswith("W/"):
                return True
        if self._modified:
            return self._modified == time
        return self._etag == etag or not self._etag

    def _read_content_range(self, response: ClientResponse, start: int, stop: int, size: int | None) -> int:
        """Return the size of the file, and check that the answer has the range that was asked for."""
        text = response.headers.get("Content-Range", "")
        found = _CONTENT_RANGE.fullmatch(text)
        total = size if found is None or found[3] == "*" else int(found[3])
        if found is None or total is None:
            self._refuse_answer("a Content-Range with the size of the file", quote(text, 60))
        if (int(found[1]), int(found[2]) + 1) != (start, min(stop, total)):
            self._refuse_answer(f"bytes {start} to {min(stop, total) - 1}", quote(text, 60))
        return total

    async def _add_body(
        self, response: ClientResponse, data: bytearray, length: int | None, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        """Add a body to ``data`` as it arrives, also if it is cut off.

        When nothing came for half of the time, there is time for another try.

        :param length: of the body; None if the server does not say it, so that ``limits`` end it
        """
        import aiohttp

        if response.content_length not in (None, length):
            self._refuse_answer(f"{length} bytes", f"a Content-Length of {response.content_length}")
        added = 0
        try:
            while True:
                seconds = min(self._clock.seconds_left(), self._clock.timeout / 2)
                chunk = await asyncio.wait_for(response.content.read(_PIECE_BYTES), seconds)
                if not chunk:
                    break
                self._clock.count(len(chunk))
                added += len(chunk)
                if length is None:
                    limits.check("total_bytes", added)
                elif added > length:
                    self._refuse_answer(f"{length} bytes", "more")
                data += chunk
        except aiohttp.ClientPayloadError:
            if length is None:  # otherwise, fewer bytes than the server declared
                raise
        if length is not None and added < length:
            text = f"the connection was cut: expected {length} bytes, got {added}"
            raise _TemporaryError(failed(self.name, text))

    def _refuse_answer(self, expected: str, actual: str) -> NoReturn:
        raise failed(self.name, f"the server's answer contradicts the request: expected {expected}, got {actual}")


async def _wait(seconds: float) -> None:
    await asyncio.sleep(seconds)


# -- sessions -----------------------------------------------------------------------------------------


def _open_file_systems(url: Url) -> tuple[Any, Any]:
    """Return fsspec's file system for the named origin, and one without credentials for all others; it keeps both."""
    scheme = find_scheme(url)
    try:
        import aiohttp  # noqa: F401 -- whether it is there
        import fsspec
    except ImportError as error:
        raise missing_packages(scheme, error.name) from None
    others = _open_any_session if url.private_redirects else _open_public_session
    named = fsspec.filesystem(scheme, **{"get_client": _open_named_session, **url.options})
    return named, fsspec.filesystem(scheme, get_client=others)


async def _open_named_session(**kwargs: Any) -> ClientSession:
    """Return a session with the user's ``client_kwargs``; what a server compresses stays so."""
    import aiohttp

    return aiohttp.ClientSession(**{**kwargs, "auto_decompress": False})


async def _open_any_session(**kwargs: Any) -> ClientSession:
    """Return a session without the user's credentials, which the configuration of fsspec adds to the keywords."""
    return await _open_named_session(loop=kwargs.get("loop"))


async def _open_public_session(**kwargs: Any) -> ClientSession:
    """Return such a session that reaches addresses of the internet only."""
    import aiohttp

    connector = aiohttp.TCPConnector(resolver=make_public_resolver())
    return await _open_named_session(loop=kwargs.get("loop"), connector=connector)


# -- redirects ----------------------------------------------------------------------------------------


class PrivateAddressError(OSError):
    """A name that is resolved to an address that is not one of the internet."""


def is_private(address: str) -> bool:
    """Return whether an IP address is not one of the internet: private, of this machine, of the link, or reserved."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_private(str(inner))
        if found not in _INTERNET:
            return True
    return not found.is_global or found.is_multicast or any(found in network for network in _OF_CLOUDS)


def _is_same_origin(first: URL, second: URL) -> bool:
    """Return whether credentials for one of two URLs are for both."""
    return (first.scheme, first.host, first.port) == (second.scheme, second.host, second.port)


def check_redirect(source: URL, target: URL, named: URL, *, allows_private: bool) -> None:
    """Refuse a redirect to another scheme, or to a private address that is written as one.

    :param source: the URL that answered with the redirect
    :param named: the URL that the user named, whose server is followed wherever it is
    :param allows_private: the user allows private addresses, and http from https
    """
    is_secure = target.scheme == "https" or (target.scheme == "http" and (source.scheme == "http" or allows_private))
    if not is_secure or not target.host:
        hint = _ADVICE if target.scheme == "http" else ""
        name = quote(hide_secrets(str(target)))
        message = f"the server redirects from {source.scheme} to another scheme, which is not followed: {name}"
        raise UnsupportedError(message, hint=hint)
    if allows_private or _is_same_origin(target, named):
        return
    host = target.host
    with suppress(OSError):  # as it is usually written: 127.1, 0x7f000001 and 2130706433 are 127.0.0.1
        host = socket.inet_ntoa(socket.inet_aton(host))
    try:
        refused = is_private(host)
    except ValueError:  # a name, which the resolver checks
        return
    if refused:
        raise _refuse_private(target)


def _refuse_private(target: URL) -> UnsupportedError:
    name = quote(hide_secrets(str(target)))
    message = f"the server redirects to a private address, which is not followed: {name}"
    return UnsupportedError(message, hint=_ADVICE)


def make_public_resolver() -> AbstractResolver:
    """Return a resolver of names that fails for names of private addresses."""
    from aiohttp.resolver import DefaultResolver

    class PublicResolver(DefaultResolver):  # type: ignore[valid-type, misc]
        """Resolves names to addresses of the internet."""

        async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[Any]:
            """Return the addresses of a name."""
            found = await super().resolve(host, port, family)
            if any(is_private(row["host"]) for row in found):
                raise PrivateAddressError
            return list(found)

    return PublicResolver()


def _parse_url(text: str, *, needs_host: bool = False) -> URL:
    """Return a URL. A signature is of the text as it is, so that it is not quoted anew."""
    from yarl import URL

    found = URL(text, encoded=_ENCODED.fullmatch(text) is not None).with_fragment(None)
    if not found.host and needs_host:
        raise ValueError
    _ = found.port  # which is parsed when it is used, as the host is
    return found
