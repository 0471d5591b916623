"""What the answers of HTTP servers must say, and how their bodies are read.

A server may contradict itself, send more than was asked for, or never end. So every number in an answer is compared
with the request, and no body is read past its length, or for longer than a slow connection takes.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, NoReturn

from sbformat.errors import quote
from sbformat.io.remote.errors import denied, failed, not_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientResponse

    from sbformat.io.remote.time_limits import Clock
    from sbformat.limits import Limits

_TEMPORARY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII)
EMPTY_RANGE: Final = re.compile(r"bytes \*/0+", re.ASCII)
"""Content-Range of the answer to a range of an empty file."""
_PIECE_BYTES: Final = 1 << 18


class TemporaryError(Exception):
    """What may go well at the next try.

    :param cause: the error to raise after the last one
    :param wait: seconds that the server asks to wait
    """

    def __init__(self, cause: Exception, wait: float | None = None) -> None:
        super().__init__()
        self.cause = cause
        self.wait = wait


def refuse_status(response: ClientResponse, name: str, scheme: str) -> Exception:
    """Return the error for an answer without the file.

    :param name: of the file in messages
    :param scheme: of the URL that the user named, for messages about credentials
    """
    status = response.status
    if status in (404, 410):
        return not_found(name)
    if status in (401, 403):
        return denied(name, scheme)
    error = failed(name, f"the server answered with status {status}")
    if status not in _TEMPORARY:
        return error
    wait = response.headers.get("Retry-After", "")
    return TemporaryError(error, float(wait) if wait.isascii() and wait.isdecimal() and len(wait) < 6 else None)


def is_same_version(response: ClientResponse, etag: str | None, modified: str | None) -> bool:
    """Return whether an answer is about the version of the file that was opened, as far as its headers say.

    A strong ETag decides. A weak one may stay the same when bytes change, and some servers of a group give none; then
    the time of the last change decides. Where the first answer had one of both and this one has neither, nothing says
    that it is the same.

    :param etag: of the first answer
    :param modified: the time of the first answer
    """
    found, time = response.headers.get("ETag"), response.headers.get("Last-Modified")
    if etag and found:
        if etag != found:
            return False
        if not etag.startswith("W/"):
            return True
    if modified:
        return modified == time
    return etag == found or not etag


def check_encoding(response: ClientResponse, name: str) -> None:
    """Refuse a body that is compressed, which was not asked for.

    :raises OSError: if it is
    """
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise failed(name, f"the server compresses the file ({quote(encoding, 40)}), which was not asked for")


def read_content_range(response: ClientResponse, start: int, stop: int, size: int | None, name: str) -> int:
    """Return the size of the file, and check that the answer has the range that was asked for.

    :param start: first byte that was asked for
    :param stop: the one after the last
    :param size: of the file, if it is known
    :raises OSError: if it has another
    """
    text = response.headers.get("Content-Range", "")
    found = _CONTENT_RANGE.fullmatch(text)
    total = size if found is None or found[3] == "*" else int(found[3])
    if found is None or total is None:
        refuse_answer(name, "a Content-Range with the size of the file", quote(text, 60))
    if (int(found[1]), int(found[2]) + 1) != (start, min(stop, total)):
        refuse_answer(name, f"bytes {start} to {min(stop, total) - 1}", quote(text, 60))
    return total


def refuse_answer(name: str, expected: str, actual: str) -> NoReturn:
    """Raise the error for an answer that is not what was asked for."""
    raise failed(name, f"the server's answer contradicts the request: expected {expected}, got {actual}")


async def read_whole(response: ClientResponse, limits: Limits, name: str, clock: Clock) -> bytearray:
    """Return the body of an answer with the whole file.

    :param limits: ``total_bytes`` limits it
    :param clock: of the file
    :raises LimitError: if it has more bytes
    :raises TemporaryError: if it is cut off
    :raises asyncio.TimeoutError: if it takes too long
    """
    data = bytearray()
    length = response.content_length
    if length is not None:
        limits.check("total_bytes", length)
        await add_body(response, data, length, name, clock)
        return data
    async for chunk in _iter_chunks(response, clock):
        limits.check("total_bytes", len(data) + len(chunk))
        data += chunk
    return data


async def add_body(response: ClientResponse, data: bytearray, length: int, name: str, clock: Clock) -> None:
    """Add a body to ``data`` as it arrives, also if it is cut off.

    :param length: of the body
    :param clock: of the file
    :raises OSError: if it has another length
    :raises TemporaryError: if it is cut off
    :raises asyncio.TimeoutError: if it takes too long
    """
    import aiohttp

    declared = response.content_length
    if declared is not None and declared != length:
        refuse_answer(name, f"{length} bytes", f"a Content-Length of {declared}")
    added = 0
    try:
        async for chunk in _iter_chunks(response, clock):
            added += len(chunk)
            if added > length:
                refuse_answer(name, f"{length} bytes", "more")
            data += chunk
    except aiohttp.ClientPayloadError:
        pass  # fewer bytes than the server declared
    if added < length:
        raise TemporaryError(failed(name, f"the connection was cut: expected {length} bytes, got {added}"))


async def _iter_chunks(response: ClientResponse, clock: Clock) -> AsyncIterator[bytes]:
    """Yield a body as it arrives. When nothing came for half of the time, there is time for another try.

    :raises asyncio.TimeoutError: if it takes too long
    """
    while True:
        seconds = min(clock.seconds_left(), clock.timeout / 2)
        chunk = await asyncio.wait_for(response.content.read(_PIECE_BYTES), seconds)
        if not chunk:
            return
        clock.count(len(chunk))
        yield chunk


__all__ = [
    "EMPTY_RANGE",
    "TemporaryError",
    "add_body",
    "check_encoding",
    "is_same_version",
    "read_content_range",
    "read_whole",
    "refuse_answer",
    "refuse_status",
]
