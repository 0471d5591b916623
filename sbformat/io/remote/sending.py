"""Requests for ranges of one file: redirects followed one by one, and credentials sent to one origin only."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, quote
from sbformat.io.remote.errors import failed
from sbformat.io.remote.redirects import (
    MOST_REDIRECTS,
    check_redirect,
    find_private,
    is_same_origin,
    refuse_private,
)
from sbformat.io.remote.sessions import open_file_systems
from sbformat.io.urls import Url, find_scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

    from sbformat.io.remote.time_limits import Clock

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_EXPIRED: Final = frozenset({400, 401, 403, 404, 410})
"""Answers of the server that redirects lead to, whose URLs are signed for a time, that are asked for again."""
_ENCODED: Final = re.compile(r"(?:[!-$&-~]|%[0-9A-Fa-f]{2})+")


class Sender:
    """Sends requests for one file.

    :param url: with the scheme http or https, with the options of the file system
    :param headers: for the origin of the URL: credentials
    :param name: what messages call the file
    :param clock: of the file
    :raises UnsupportedError: for something that is not a URL, and without the packages
    """

    __slots__ = ("_allows_private", "_clock", "_direct", "_fs", "_headers", "_name", "_named", "_others")

    def __init__(self, url: str, headers: Mapping[str, str], name: str, clock: Clock) -> None:
        options = dict(url.options) if isinstance(url, Url) else {}
        self._allows_private = isinstance(url, Url) and url.private_redirects
        self._fs, self._others = open_file_systems(find_scheme(url), options, allows_private=self._allows_private)
        self._headers = dict(headers)
        self._name = name
        self._clock = clock
        named = parse_url(url)
        if named is None or not named.host:
            message = f"expected a URL with the name of a server, got {quote(name)}"
            raise UnsupportedError(message)
        self._named = named
        self._direct: URL | None = None
        """Where the redirects led, which is asked first from then on."""

    @property
    def loop(self) -> Any:
        """The event loop of fsspec, in a thread of its own."""
        return self._fs.loop

    async def send(self, start: int, stop: int, etag: str | None) -> ClientResponse:
        """Send a request for a range and follow redirects; the caller closes the response.

        :param etag: of the file that was opened, which the server must still have
        :raises UnsupportedError: for a redirect that is refused
        :raises OSError: for too many redirects
        :raises asyncio.TimeoutError: if they take too long
        """
        url, was_redirected = self._direct or self._named, self._direct is not None
        for _ in range(MOST_REDIRECTS):
            response = await self._send_one(url, start, stop, etag)
            if response.status in _REDIRECTS and "Location" in response.headers:
                target = self._find_target(url, response.headers["Location"])
                response.close()
                check_redirect(url, target, self._named, allows_private=self._allows_private)
                url = target
                continue
            if was_redirected and response.status in _EXPIRED:
                response.close()
                url, self._direct, was_redirected = self._named, None, False
                continue
            if response.status in (200, 206):
                self._direct = url if url != self._named else None
            return response
        raise failed(self._name, f"more than {MOST_REDIRECTS} redirects")

    async def _send_one(self, url: URL, start: int, stop: int, etag: str | None) -> ClientResponse:
        import aiohttp

        is_named = is_same_origin(url, self._named)
        session: ClientSession = await (self._fs if is_named else self._others).set_session()
        headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        options: dict[str, Any] = {}
        if is_named:
            options = {**self._fs.kwargs, "allow_redirects": False}
            headers = {**dict(options.pop("headers", None) or {}), **self._headers, **headers}
        if etag and not etag.startswith("W/") and url == (self._direct or self._named):
            headers["If-Match"] = etag
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._clock.timeout / 2)
        options = {"timeout": timeout, "allow_redirects": False, **options}
        try:
            return await asyncio.wait_for(session.get(url, headers=headers, **options), self._clock.seconds_left())
        except aiohttp.ClientConnectionError as error:
            if find_private(error):
                raise refuse_private(str(url)) from None
            raise

    def _find_target(self, url: URL, location: str) -> URL:
        """Return the URL that a redirect names."""
        target = parse_url(location)
        try:
            joined = url.join(target).with_fragment(None) if target is not None else None
            if joined is not None and joined.user is None and is_same_origin(joined, self._named):
                joined = joined.with_user(self._named.user).with_password(self._named.password)
        except ValueError:
            joined = None
        if joined is None:
            message = f"{quote(self._name)} redirects to something that is not a URL"
            raise UnsupportedError(message)
        return joined


def parse_url(text: str) -> URL | None:
    """Return a URL; None if it is not one. A signature is of the text as it is, so that it is not quoted anew."""
    from yarl import URL

    try:
        found = URL(text, encoded=_ENCODED.fullmatch(text) is not None).with_fragment(None)
        _ = found.host, found.port  # which are parsed when they are used
    except ValueError:
        return None
    return found


__all__ = ["Sender", "parse_url"]
