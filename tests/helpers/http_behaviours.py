"""Behaviours of an HTTP server of the tests: one fault each, which can be combined.

Every behaviour takes ``after`` (it leaves the first requests of a path alone), ``times`` (how many requests it then
concerns; all, without it) and ``methods``::

    HttpServer({"/agent.zip": data}, behaviour=[Fails(503, times=2), Cuts(1000, after=3, times=1)])
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.helpers.http_messages import Answer, File, Request, make_file

ENDLESS: Final = 1 << 28
"""Bytes after which an endless body ends all the same, so that a client that reads it all fails and does not hang."""
LONGEST: Final = 60
"""Seconds after which a server that never answers closes the connection."""


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """A server that follows the RFC."""

    after: int = 0
    times: int | None = None
    methods: tuple[str, ...] = ("GET", "HEAD")

    def concerns(self, request: Request) -> bool:
        """Whether the request is among those that get this behaviour."""
        last = request.number if self.times is None else self.after + self.times
        return request.method in self.methods and self.after < request.number <= last

    def intercept(self, request: Request) -> Answer | None:
        """Return an answer that does not depend on the file."""
        return None

    def change_file(self, request: Request, file: File) -> File:
        """Return another file, or one of which the server knows less."""
        return file

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        """Return another answer than the right one."""
        return answer


# What a server lacks.


@dataclass(frozen=True)
class NoRanges(Behaviour):
    """Ranges are ignored: 200 with the whole file. ``advertised`` has Accept-Ranges promise them all the same."""

    advertised: bool = False

    def change_file(self, request: Request, file: File) -> File:
        return replace(file, has_ranges=False)

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return answer.with_headers(Accept_Ranges="bytes") if self.advertised else answer


class NoETag(Behaviour):
    """Only Last-Modified tells one version of a file from another."""

    def change_file(self, request: Request, file: File) -> File:
        return replace(file, etag=None)


class NoLastModified(Behaviour):
    """The ETag alone, or nothing in combination with NoETag, tells one version of a file from another."""

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return replace(
            answer, headers={name: value for name, value in answer.headers.items() if name != "Last-Modified"}
        )


class WeakETag(Behaviour):
    """The ETag is weak, so that If-Match and If-Range never match it."""

    def change_file(self, request: Request, file: File) -> File:
        return replace(file, etag=f"W/{file.etag}")


class NoConditions(Behaviour):
    """If-Match, If-Range and the like are ignored."""

    def change_file(self, request: Request, file: File) -> File:
        return replace(file, has_conditions=False)


@dataclass(frozen=True, kw_only=True)
class NoHead(Behaviour):
    """HEAD is refused, as for URLs that are signed for GET."""

    status: int = 405
    methods: tuple[str, ...] = ("HEAD",)

    def intercept(self, request: Request) -> Answer:
        return Answer(status=self.status, headers={"Allow": "GET"})


class Chunked(Behaviour):
    """The body has no Content-Length: it comes in chunks."""

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return replace(answer, framing="chunked")


class NoLength(Behaviour):
    """The body ends where the connection ends, as in HTTP/1.0."""

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return replace(answer, framing="close")


@dataclass(frozen=True)
class Gzip(Behaviour):
    """The body is compressed for clients that accept it, with a weak ETag and without ranges. ``always``: for all."""

    always: bool = False

    def _compresses(self, request: Request) -> bool:
        return self.always or "gzip" in request.headers.get("accept-encoding", "")

    def change_file(self, request: Request, file: File) -> File:
        return replace(file, has_ranges=False, etag=f"W/{file.etag}") if self._compresses(request) else file

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        if answer.status != 200 or not self._compresses(request):
            return answer
        packed = replace(answer, body=gzip.compress(file.content, mtime=0))
        return packed.with_headers(Content_Encoding="gzip", Vary="Accept-Encoding")


# A file that changes.


@dataclass(frozen=True)
class Changes(Behaviour):
    """The file is another one from request ``after`` + 1 on. ``keeps_etag``: the headers do not tell so."""

    to: bytes
    keeps_etag: bool = False

    def change_file(self, request: Request, file: File) -> File:
        if self.keeps_etag:
            return replace(file, content=self.to)
        return make_file(self.to, file.modified + 3600, file.content_type)


# Lies about lengths.


@dataclass(frozen=True)
class LongerLength(Behaviour):
    """Content-Length is larger than the body, after which the connection ends."""

    by: int

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return answer.with_headers(Content_Length=str(len(answer.body) + self.by))  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class OtherHeadLength(LongerLength):
    """HEAD reports another length than GET; ``by`` may be negative."""

    methods: tuple[str, ...] = ("HEAD",)


@dataclass(frozen=True)
class OtherContentRange(Behaviour):
    """Content-Range names another start (and stop) or another total than that of the body."""

    start: int = 0
    total: int = 0

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return set_content_range(answer, file, start=self.start, stop=self.start, total=self.total)


class NoContentRange(Behaviour):
    """A 206 does not say which part it is."""

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return replace(
            answer, headers={name: value for name, value in answer.headers.items() if name != "Content-Range"}
        )


@dataclass(frozen=True)
class OtherStart(Behaviour):
    """A 206 has bytes from another place. ``honest``: its Content-Range names that place."""

    by: int
    honest: bool = True

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        if answer.range is None:
            return answer
        start, stop = (place + self.by for place in answer.range)
        other = replace(answer, body=memoryview(file.content)[start:stop])
        return set_content_range(other, file, start=self.by, stop=self.by) if self.honest else other


@dataclass(frozen=True)
class FewerBytes(Behaviour):
    """A 206 has fewer bytes than requested, with that Content-Length.

    ``honest``: its Content-Range names what is sent, which the RFC allows."""

    by: int
    honest: bool = True

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        if answer.range is None:
            return answer
        start, stop = answer.range
        shorter = replace(answer, body=memoryview(file.content)[start : stop - self.by])
        return set_content_range(shorter, file, stop=-self.by) if self.honest else shorter


@dataclass(frozen=True)
class MoreBytes(Behaviour):
    """A 206 has more bytes than requested, with that Content-Length, and a Content-Range of what was requested."""

    by: int

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return replace(answer, body=bytes(answer.body) + bytes(self.by)) if answer.range else answer  # type: ignore[arg-type]


class Endless(Behaviour):
    """The body of an answer continues for as long as the client reads it, in chunks."""

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return replace(answer, framing="chunked", body=continue_body(bytes(answer.body)))  # type: ignore[arg-type]


def continue_body(body: bytes) -> Iterator[bytes]:
    """Yield the body, then zeros."""
    yield body
    for _ in range(ENDLESS >> 16):
        yield bytes(1 << 16)


def set_content_range(answer: Answer, file: File, *, start: int = 0, stop: int = 0, total: int = 0) -> Answer:
    """Return a 206 whose Content-Range differs from the requested range by the given numbers."""
    if answer.range is None:
        return answer
    first, end = answer.range
    text = f"bytes {first + start}-{end + stop - 1}/{len(file.content) + total}"
    return answer.with_headers(Content_Range=text)


# Failures.


@dataclass(frozen=True)
class Cuts(Behaviour):
    """The connection ends after so many bytes of the body, before its end."""

    size: int

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return replace(answer, cut_after=self.size)


@dataclass(frozen=True)
class Fails(Behaviour):
    """The server answers with an error: 503, or 429 with the seconds to wait, or 404."""

    status: int = 503
    retry_after: int | None = None

    def intercept(self, request: Request) -> Answer:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return Answer(status=self.status, headers={"Content-Type": "text/plain", **headers}, body=b"not now")


class Closes(Behaviour):
    """The connection ends without an answer."""

    def intercept(self, request: Request) -> Answer:
        return Answer(status=0)


@dataclass(frozen=True)
class NeverAnswers(Behaviour):
    """The connection stays open without an answer, until the client or the server ends or the seconds are over."""

    seconds: float = LONGEST

    def intercept(self, request: Request) -> Answer:
        return Answer(status=0, pause=self.seconds)


@dataclass(frozen=True)
class EndlessHead(Behaviour):
    """The head of the answer never ends: another header comes after each pause."""

    seconds: float = 0.01

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return replace(answer, head_pause=self.seconds)


@dataclass(frozen=True)
class Drips(Behaviour):
    """The body comes in pieces of ``size`` bytes with a pause before each."""

    size: int = 1
    seconds: float = 0.01

    def change_answer(self, request: Request, answer: Answer, file: File) -> Answer:
        return replace(answer, piece=self.size, pause=self.seconds)


@dataclass(frozen=True)
class HtmlPage(Behaviour):
    """A page for people in place of the file, with status 200: a sign-in form, or a portal of a network."""

    page: bytes = b"<!DOCTYPE html><title>Sign in</title><form></form>"

    def intercept(self, request: Request) -> Answer:
        return Answer(status=200, headers={"Content-Type": "text/html; charset=utf-8"}, body=self.page)


# Redirects and permissions.


@dataclass(frozen=True)
class Redirect(Behaviour):
    """A redirect to a path, a relative path, or a URL of any scheme."""

    location: str
    status: int = 302

    def intercept(self, request: Request) -> Answer:
        return Answer(status=self.status, headers={"Location": self.location})


class RedirectLoop(Behaviour):
    """Redirects to the same path with another query, without end."""

    def intercept(self, request: Request) -> Answer:
        return Answer(status=302, headers={"Location": f"{request.path}?try={request.number}"})


@dataclass(frozen=True)
class NeedsPassword(Behaviour):
    """Basic authentication: 401 without it, ``denied`` with another name or password."""

    user: str
    password: str
    denied: int = 403

    def intercept(self, request: Request) -> Answer | None:
        expected = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return demand(request, f"Basic {expected}", 'Basic realm="files"', self.denied)


@dataclass(frozen=True)
class NeedsToken(Behaviour):
    """A bearer token: 401 without one, ``denied`` with another."""

    token: str
    denied: int = 403

    def intercept(self, request: Request) -> Answer | None:
        return demand(request, f"Bearer {self.token}", "Bearer", self.denied)


def demand(request: Request, expected: str, challenge: str, denied: int) -> Answer | None:
    """Return 401 without the header Authorization, another status with a wrong one, None with the right one."""
    given = request.headers.get("authorization")
    if given is None:
        return Answer(status=401, headers={"WWW-Authenticate": challenge})
    return None if given == expected else Answer(status=denied)
