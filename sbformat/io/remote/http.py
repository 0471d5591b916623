"""Files of HTTP servers, by aiohttp, in the session that fsspec's file system is configured with.

Theory of operation
-------------------
In: a URL. Out: the bytes of ranges. The first request asks for the first bytes and learns everything else: the size
(``Content-Range``), the version (``ETag``, or ``Last-Modified``), whether the server knows ranges, and where redirects
lead. Every later answer is compared with that:

1. The status is 206, and ``Content-Range`` has exactly the range that was asked for, of a file of the same size. A
   server that answers 200 does not know ranges: the whole file is fetched once and stays in memory.
2. ``ETag`` and ``Last-Modified``, if the answer has them, are those of the first one; ``If-Match`` asks for that, too.
   Otherwise the file has changed.
3. No more bytes are read than were asked for, and no content is decompressed. An answer that is cut off is continued
   where it ended.
4. Redirects are followed one by one (:mod:`~sbformat.io.remote.redirects`). Credentials go to the origin that the user
   named, and nowhere else.

What may be temporary (no connection, a connection that is cut, 408, 425, 429 and 5xx) is tried again, four times in
all, after a time that doubles or that ``Retry-After`` gives.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.io.remote.errors import changed, denied, failed, not_found, translate
from sbformat.io.remote.redirects import (
    MOST_REDIRECTS,
    PrivateAddressError,
    check_redirect,
    refuse_private,
)
from sbformat.io.remote.sessions import open_file_systems
from sbformat.io.remote.source import OPENING_BYTES
from sbformat.io.urls import Url, find_scheme, hide_secrets
from sbformat.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

    from sbformat.io.remote.source import Range

_TRIES: Final = 4
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 20.0
_TEMPORARY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_EMPTY_RANGE: Final = re.compile(r"bytes \*/0+")
_TOGETHER: Final = 6
"""Requests that are under way at the same time."""
_CONNECT_SECONDS: Final = 15
_READ_SECONDS: Final = 30
_SLOWEST: Final = 1 << 14
"""Bytes a second at which an answer takes too long, after a minute."""
_PIECE_BYTES: Final = 1 << 18


class _TemporaryError(Exception):
    """What may go well at the next try.

    :param cause: the error to raise after the last one
    :param wait: seconds that the server asks to wait
    """

    def __init__(self, cause: Exception, wait: float | None = None) -> None:
        super().__init__()
        self.cause = cause
        self.wait = wait


class _Answer(NamedTuple):
    """What the first answer said of the file."""

    size: int
    etag: str | None
    modified: str | None
    is_by_range: bool
    body: bytes
    """The first bytes; all of them from a server without ranges."""


class HttpFile:
    """A file of an HTTP server; see :class:`~sbformat.io.remote.source.RangedFile`.

    :param url: with the scheme http or https
    :param headers: for the origin of the URL: credentials
    :param limits: ``total_bytes`` limits a file from a server without ranges
    :param name: what messages call it
    :param scheme: of the URL that the user named, for messages about credentials
    :raises OSError: if it cannot be opened
    :raises SbformatError: for a redirect that is refused, and an answer that contradicts itself
    """

    __slots__ = (
        "_allows_private",
        "_direct",
        "_fs",
        "_headers",
        "_named",
        "_public",
        "_scheme",
        "_whole",
        "etag",
        "modified",
        "name",
        "size",
        "start",
    )

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        name: str | None = None,
        scheme: str | None = None,
    ) -> None:
        from yarl import URL

        self.name = name or hide_secrets(url)
        self._scheme = scheme or find_scheme(url)
        options = dict(url.options) if isinstance(url, Url) else {}
        self._allows_private = isinstance(url, Url) and url.private_redirects
        self._fs, self._public = open_file_systems(find_scheme(url), options)
        self._headers = dict(headers or {})
        self._named = URL(url).with_fragment(None)
        self._direct: URL | None = None
        """Where the redirects led, which is asked first from then on."""
        self.size = 0
        self.etag: str | None = None
        self.modified: str | None = None
        self._whole: bytes | None = None
        answer = self._run(self._retry(self._open, limits))
        self.size, self.etag, self.modified = answer.size, answer.etag, answer.modified
        self._whole = None if answer.is_by_range else answer.body
        self.start = answer.body

    @property
    def version(self) -> str | None:
        """The ETag, or the time of the last change."""
        return self.etag or self.modified

    def is_by_range(self) -> bool:
        """Return whether the server knows ranges."""
        return self._whole is None

    def fetch(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of ranges; several are fetched together."""
        if self._whole is not None:
            return [self._whole[start:stop] for start, stop in ranges]
        found: list[bytes] = self._run(self._fetch_all(ranges))
        return found

    def _run(self, work: Any) -> Any:
        """Run a coroutine in the thread in which fsspec has its event loop."""
        from fsspec.asyn import sync

        async def run() -> Any:
            return await work

        try:
            return sync(self._fs.loop, run)
        except (SbformatError, FileNotFoundError, PermissionError):
            raise
        except Exception as error:  # whatever a client raises
            if isinstance(error, OSError) and error.filename == self.name:
                raise
            raise translate(error, self._scheme, self.name) from None

    # -- requests -------------------------------------------------------------------------------------

    async def _fetch_all(self, ranges: Sequence[Range]) -> list[bytes]:
        limit = asyncio.Semaphore(_TOGETHER)

        async def fetch(start: int, stop: int) -> bytes:
            async with limit:
                return await self._fetch_range(start, stop)

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
                if _is_private(error):
                    raise refuse_private(self.name) from None
                cause, wait = translate(error, self._scheme, self.name), None
            if number + 1 < _TRIES:
                await asyncio.sleep(min(_FIRST_WAIT * 2**number if wait is None else wait, _LONGEST_WAIT))
        raise cause from None

    async def _fetch_range(self, start: int, stop: int) -> bytes:
        """Return the bytes of a range; what is cut off is continued."""
        data = bytearray()

        async def fetch() -> None:
            await self._add_range(data, start + len(data), stop)

        await self._retry(fetch)
        return bytes(data)

    async def _open(self, limits: Limits) -> _Answer:
        """Ask for the first bytes."""
        response = await self._send(0, OPENING_BYTES)
        try:
            headers = response.headers
            etag, modified = headers.get("ETag"), headers.get("Last-Modified")
            if response.status == 416 and _EMPTY_RANGE.fullmatch(headers.get("Content-Range", "")):
                return _Answer(0, etag, modified, is_by_range=False, body=b"")
            if response.status not in (200, 206):
                raise self._refuse_status(response)
            self._check_encoding(response)
            if response.status == 206:
                size = self._read_content_range(response, 0, OPENING_BYTES)
                body = await self._read_body(response, min(size, OPENING_BYTES))
                return _Answer(size, etag, modified, is_by_range=True, body=body)
            length = response.content_length
            limits.check("total_bytes", length or 0)
            body = await self._read_body(response, length, limits)
            return _Answer(len(body), etag, modified, is_by_range=False, body=body)
        finally:
            response.close()

    async def _add_range(self, data: bytearray, start: int, stop: int) -> None:
        """Fetch a range and add it to ``data``, also if it is cut off."""
        response = await self._send(start, stop)
        try:
            if response.status in (412, 416):
                raise changed(self.name)
            if response.status not in (200, 206):
                raise self._refuse_status(response)
            self._check_version(response)
            self._check_encoding(response)
            if response.status == 200:
                message = (
                    f"the server no longer answers with ranges: expected bytes {start} to {stop}, got the whole file"
                )
                raise failed(self.name, message)
            if self._read_content_range(response, start, stop) != self.size:
                raise changed(self.name)
            await self._add_body(response, data, stop - start)
        finally:
            response.close()

    async def _send(self, start: int, stop: int) -> ClientResponse:
        """Send a request for a range and follow redirects; the caller closes the response."""
        url, was_redirected = self._direct or self._named, self._direct is not None
        for _ in range(MOST_REDIRECTS):
            response = await self._send_one(url, start, stop)
            if response.status in _REDIRECTS and "Location" in response.headers:
                target = _join(url, response.headers["Location"], self.name)
                response.close()
                check_redirect(url, target, self._named, allows_private=self._allows_private)
                url = target
                continue
            if was_redirected and response.status in (400, 401, 403, 404, 410):  # a signature may have expired
                response.close()
                url, self._direct, was_redirected = self._named, None, False
                continue
            if response.status in (200, 206) and url != self._named:
                self._direct = url
            return response
        raise failed(self.name, f"more than {MOST_REDIRECTS} redirects")

    async def _send_one(self, url: URL, start: int, stop: int) -> ClientResponse:
        import aiohttp

        is_named = url.origin() == self._named.origin()
        session: ClientSession = await (self._fs if is_named or self._allows_private else self._public).set_session()
        headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        options: dict[str, Any] = {}
        if is_named:
            options = dict(self._fs.kwargs)
            headers = {**dict(options.pop("headers", None) or {}), **self._headers, **headers}
        if self.etag and not self.etag.startswith("W/") and url == (self._direct or self._named):
            headers["If-Match"] = self.etag
        timeout = aiohttp.ClientTimeout(
            total=60 + (stop - start) / _SLOWEST, sock_connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS
        )
        options.setdefault("timeout", timeout)
        try:
            return await session.get(url, headers=headers, allow_redirects=False, **options)
        except aiohttp.ClientConnectionError as error:
            if _is_private(error):
                raise refuse_private(str(url)) from None
            raise

    # -- answers --------------------------------------------------------------------------------------

    def _refuse_status(self, response: ClientResponse) -> Exception:
        status = response.status
        if status in (404, 410):
            return not_found(self.name)
        if status in (401, 403):
            return denied(self.name, self._scheme)
        error = failed(self.name, f"the server answered with status {status}")
        if status not in _TEMPORARY:
            return error
        wait = response.headers.get("Retry-After", "")
        return _TemporaryError(error, float(wait) if wait.isdecimal() and len(wait) < 6 else None)

    def _check_version(self, response: ClientResponse) -> None:
        """Compare an answer with the first one.

        :raises ContainerError: if it is of another version
        """
        etag, modified = response.headers.get("ETag"), response.headers.get("Last-Modified")
        if self.etag and etag:
            is_same = etag == self.etag
        else:
            is_same = not (self.modified and modified) or modified == self.modified
        if not is_same:
            raise changed(self.name)

    def _check_encoding(self, response: ClientResponse) -> None:
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise failed(self.name, f"the server compresses the file ({quote(encoding, 40)}), which was not asked for")

    def _read_content_range(self, response: ClientResponse, start: int, stop: int) -> int:
        """Return the size of the file, and check that the answer has the range that was asked for."""
        text = response.headers.get("Content-Range", "")
        found = _CONTENT_RANGE.fullmatch(text)
        if found is None:
            self._refuse_answer("a Content-Range with the size of the file", quote(text, 60))
        first, last = int(found[1]), int(found[2])
        size = self.size if found[3] == "*" else int(found[3])
        if (first, last + 1) != (start, min(stop, size)):
            self._refuse_answer(f"bytes {start} to {min(stop, size) - 1}", quote(text, 60))
        return size

    def _refuse_answer(self, expected: str, actual: str) -> NoReturn:
        raise failed(self.name, f"the server's answer contradicts the request: expected {expected}, got {actual}")

    async def _read_body(self, response: ClientResponse, length: int | None, limits: Limits | None = None) -> bytes:
        """Return the body of the first answer.

        :param length: in bytes; None if the server does not say
        :param limits: for a body whose length is not known
        """
        data = bytearray()
        if length is None:
            limits = limits or DEFAULT_LIMITS
            async for chunk in response.content.iter_chunked(_PIECE_BYTES):
                data += chunk
                limits.check("total_bytes", len(data))
            return bytes(data)
        await self._add_body(response, data, length)
        return bytes(data)

    async def _add_body(self, response: ClientResponse, data: bytearray, length: int) -> None:
        """Add a body to ``data`` as it arrives.

        :param length: of the body
        """
        import aiohttp

        declared = response.content_length
        if declared is not None and declared != length:
            self._refuse_answer(f"{length} bytes", f"a Content-Length of {declared}")
        added = 0
        try:
            while chunk := await response.content.read(_PIECE_BYTES):
                added += len(chunk)
                if added > length:
                    self._refuse_answer(f"{length} bytes", "more")
                data += chunk
        except aiohttp.ClientPayloadError:
            pass  # fewer bytes than the server declared
        if added < length:
            raise _TemporaryError(failed(self.name, f"the connection was cut: expected {length} bytes, got {added}"))


def _join(url: URL, location: str, name: str) -> URL:
    from yarl import URL

    try:
        return url.join(URL(location)).with_fragment(None)
    except ValueError:
        message = f"{quote(name)} redirects to something that is not a URL"
        raise UnsupportedError(message) from None


def _is_private(error: BaseException) -> bool:
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, PrivateAddressError) or isinstance(getattr(found, "os_error", None), PrivateAddressError):
            return True
        found = found.__cause__ or found.__context__
    return False


__all__ = ["HttpFile"]
