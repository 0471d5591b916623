"""Files of HTTP servers, by aiohttp, in the session that fsspec's file system is configured with.

Theory of operation
-------------------
In: a URL. Out: the bytes of ranges. The first request asks for the first bytes and learns everything else: the size
(``Content-Range``), the version (``ETag``, or ``Last-Modified``), whether the server knows ranges, and where redirects
lead. Every later answer is compared with that:

1. The status is 206, and ``Content-Range`` has exactly the range that was asked for, of a file of the same size. A
   server that answers 200 does not know ranges: the whole file is fetched once and stays in memory.
2. ``ETag`` or ``Last-Modified`` are those of the first one; ``If-Match`` asks for that, too. Otherwise the file has
   changed.
3. No more bytes are read than were asked for, and no content is decompressed. An answer that is cut off is continued
   where it ended.
4. Redirects are followed one by one (:mod:`~sbformat.io.remote.sending`). Credentials go to the origin that the user
   named, and nowhere else.

What may be temporary (no connection, a connection that is cut, 408, 425, 429 and 5xx) is tried again, four times in
all, after a time that doubles or that ``Retry-After`` gives; unless the time for the file is over before that
(:mod:`~sbformat.io.remote.time_limits`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import SbformatError
from sbformat.immutable import Record
from sbformat.io.remote.answers import (
    EMPTY_RANGE,
    TemporaryError,
    add_body,
    check_encoding,
    is_same_version,
    read_content_range,
    read_whole,
    refuse_status,
)
from sbformat.io.remote.errors import changed, failed, translate
from sbformat.io.remote.sending import Sender
from sbformat.io.remote.source import OPENING_BYTES
from sbformat.io.remote.time_limits import Clock
from sbformat.io.urls import find_scheme, find_timeout, hide_secrets
from sbformat.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat.io.remote.source import Range

_TRIES: Final = 4
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 20.0
_TOGETHER: Final = 6
"""Requests that are under way at the same time."""


class _Answer(Record):
    """What the first answer said of the file."""

    size: int
    etag: str | None
    modified: str | None
    is_by_range: bool
    body: bytes | bytearray
    """The first bytes; all of them from a server without ranges."""


class HttpFile:
    """A file of an HTTP server; see :class:`~sbformat.io.remote.source.RangedFile`.

    :param url: with the scheme http or https; its ``timeout`` limits what servers take
    :param headers: for the origin of the URL: credentials
    :param limits: ``total_bytes`` limits a file from a server without ranges
    :param name: what messages call it
    :param scheme: of the URL that the user named, for messages about credentials
    :param first_bytes: how many bytes the first request asks for
    :raises OSError: if it cannot be opened
    :raises SbformatError: for a redirect that is refused, and an answer that contradicts itself
    """

    __slots__ = ("_clock", "_scheme", "_sender", "etag", "modified", "name", "size", "start", "whole")

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
        self._clock = Clock(find_timeout(url))
        self._sender = Sender(url, headers or {}, self.name, self._clock)
        self.size = 0
        self.etag: str | None = None
        self.modified: str | None = None
        answer = self._run(self._retry(self._open, limits, first_bytes))
        self.size, self.etag, self.modified = answer.size, answer.etag, answer.modified
        self.whole: bytes | bytearray | None = None if answer.is_by_range else answer.body
        self.start = bytes(answer.body[:first_bytes])

    @property
    def version(self) -> str | None:
        """The ETag, or the time of the last change."""
        return self.etag or self.modified

    def fetch(self, ranges: Sequence[Range]) -> list[bytes | bytearray]:
        """Return the bytes of ranges; several are fetched together."""
        if self.whole is not None:
            return [self.whole[start:stop] for start, stop in ranges]
        found: list[bytes | bytearray] = self._run(self._fetch_all(ranges))
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
            return sync(self._sender.loop, run)
        except (SbformatError, FileNotFoundError, PermissionError):
            raise
        except Exception as error:  # whatever a client raises
            if isinstance(error, OSError) and error.filename == self.name:
                raise
            raise translate(error, self._scheme, self.name) from None

    # -- requests -------------------------------------------------------------------------------------

    async def _fetch_all(self, ranges: Sequence[Range]) -> list[bytearray]:
        limit = asyncio.Semaphore(_TOGETHER)

        async def fetch(start: int, stop: int) -> bytearray:
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
            except TemporaryError as error:
                cause, wait = error.cause, error.wait
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, asyncio.TimeoutError) as error:
                cause, wait = translate(error, self._scheme, self.name), None
            seconds = min(_FIRST_WAIT * 2**number if wait is None else wait, _LONGEST_WAIT)
            if number + 1 == _TRIES or seconds >= self._clock.seconds_left():
                break
            await _wait(seconds)
        raise cause from None

    async def _fetch_range(self, start: int, stop: int) -> bytearray:
        """Return the bytes of a range; what is cut off is continued."""
        data = bytearray()

        async def fetch() -> None:
            await self._add_range(data, start + len(data), stop)

        await self._retry(fetch)
        return data

    async def _open(self, limits: Limits, first_bytes: int) -> _Answer:
        """Ask for the first bytes."""
        response = await self._sender.send(0, first_bytes, None)
        try:
            headers = response.headers
            etag, modified = headers.get("ETag"), headers.get("Last-Modified")
            if response.status == 416 and EMPTY_RANGE.fullmatch(headers.get("Content-Range", "")):
                return _Answer(0, etag, modified, is_by_range=False, body=b"")
            if response.status not in (200, 206):
                raise refuse_status(response, self.name, self._scheme)
            check_encoding(response, self.name)
            if response.status == 200:
                whole = await read_whole(response, limits, self.name, self._clock)
                return _Answer(len(whole), etag, modified, is_by_range=False, body=whole)
            size = read_content_range(response, 0, first_bytes, None, self.name)
            body = bytearray()
            await add_body(response, body, min(size, first_bytes), self.name, self._clock)
            return _Answer(size, etag, modified, is_by_range=True, body=body)
        finally:
            response.close()

    async def _add_range(self, data: bytearray, start: int, stop: int) -> None:
        """Fetch a range and add it to ``data``, also if it is cut off."""
        response = await self._sender.send(start, stop, self.etag)
        try:
            if response.status in (412, 416):
                raise changed(self.name)
            if response.status not in (200, 206):
                raise refuse_status(response, self.name, self._scheme)
            if not is_same_version(response, self.etag, self.modified):
                raise changed(self.name)
            check_encoding(response, self.name)
            if response.status == 200:
                message = (
                    f"the server no longer answers with ranges: expected bytes {start} to {stop}, got the whole file"
                )
                raise failed(self.name, message)
            if read_content_range(response, start, stop, self.size, self.name) != self.size:
                raise changed(self.name)
            await add_body(response, data, stop - start, self.name, self._clock)
        finally:
            response.close()


async def _wait(seconds: float) -> None:
    await asyncio.sleep(seconds)


__all__ = ["HttpFile"]
