"""Requests, answers and files of the HTTP servers of the tests, with ranges and conditions as RFC 9110 has them."""

from __future__ import annotations

import email.utils
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal
from urllib.parse import unquote

Range = tuple[int, int]
"""The first byte, and the byte after the last."""
Framing = Literal["length", "chunked", "close"]
"""How the client knows the end of a body: its length, chunks, or the end of the connection."""

SINGLE_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")
UNSATISFIABLE: Final = (-1, -1)
FIRST_CHANGE: Final = 1_700_000_000
"""Seconds since 1970 in the Last-Modified of a file that has not changed."""


@dataclass(frozen=True, kw_only=True)
class File:
    """What is stored under a path, and which headers the server knows for it."""

    content: bytes
    etag: str | None
    """With its quotes, or None for a server without ETags."""
    modified: int = FIRST_CHANGE
    content_type: str = "application/zip"
    has_ranges: bool = True
    has_conditions: bool = True
    """If-Match, If-None-Match, If-Range and If-Unmodified-Since are obeyed."""

    def list_headers(self) -> dict[str, str]:
        """Return the headers that describe the file."""
        headers = {
            "Content-Type": self.content_type,
            "Last-Modified": email.utils.formatdate(self.modified, usegmt=True),
        }
        if self.etag is not None:
            headers["ETag"] = self.etag
        if self.has_ranges:
            headers["Accept-Ranges"] = "bytes"
        return headers


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request, with the names of its headers in lower case."""

    method: str
    raw_path: str
    """As it was sent, without the query."""
    query: str
    headers: Mapping[str, str]
    number: int
    """The first request of a path is number 1, whatever its method."""
    body: bytes = b""

    @property
    def path(self) -> str:
        """The decoded path, without the query."""
        return unquote(self.raw_path)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer. ``status`` 0 closes the connection without one."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | memoryview | Iterable[bytes] = b""
    framing: Framing = "length"
    range: Range | None = None
    """The bytes of the file that the client requested, if the server took notice of that."""
    cut_after: int | None = None
    """The connection is closed after so many bytes of the body."""
    piece: int = 1 << 16
    pause: float = 0
    """Seconds to wait before each piece; before the answer, if the status is 0."""
    head_pause: float = 0
    """The head never ends, and has another header after each so many seconds."""

    def with_headers(self, **headers: str) -> Answer:
        """Return the answer with other headers; ``_`` in a name is ``-``."""
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **changed})


def make_file(content: bytes, modified: int = FIRST_CHANGE, content_type: str = "application/zip") -> File:
    """Return a file with a strong ETag of its content."""
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return File(content=content, etag=etag, modified=modified, content_type=content_type)


def answer_file(request: Request, file: File) -> Answer:
    """Return what an honest server answers to GET and HEAD."""
    headers = file.list_headers()
    size = len(file.content)
    status = find_failed_condition(request, file) if file.has_conditions else None
    if status is not None:
        return Answer(status=status, headers=headers)
    found = parse_range(request.headers.get("range", ""), size) if file.has_ranges else None
    if found is None or not is_range_wanted(request, file):
        return Answer(status=200, headers=headers, body=file.content)
    if found == UNSATISFIABLE:
        return Answer(status=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    start, stop = found
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return Answer(status=206, headers=headers, body=memoryview(file.content)[start:stop], range=found)


def parse_range(header: str, size: int) -> Range | None:
    """Return the range of a file of ``size`` bytes, ``UNSATISFIABLE``, or None without a single valid one."""
    match = SINGLE_RANGE.fullmatch(header.replace(" ", ""))
    if not match or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        return (max(0, size - int(last)), size) if int(last) and size else UNSATISFIABLE
    if last and int(last) < int(first):
        return None
    stop = min(size, int(last) + 1) if last else size
    return (int(first), stop) if int(first) < size else UNSATISFIABLE


def find_failed_condition(request: Request, file: File) -> int | None:
    """Return 412 or 304 if a condition of the request demands it."""
    wanted = request.headers.get("if-match")
    unchanged_since = request.headers.get("if-unmodified-since")
    if wanted is not None:
        if wanted != "*" and not is_same_etag(wanted, file.etag):
            return 412
    elif unchanged_since is not None and file.modified > parse_date(unchanged_since):
        return 412
    known = request.headers.get("if-none-match")
    if known is not None and file.etag is not None:
        tags = [tag.strip().removeprefix("W/") for tag in known.split(",")]
        return 304 if known == "*" or file.etag.removeprefix("W/") in tags else None
    changed_since = request.headers.get("if-modified-since")
    return 304 if changed_since is not None and file.modified <= parse_date(changed_since) else None


def is_same_etag(header: str, etag: str | None) -> bool:
    """Whether the ETag is among those of a header; weak ones never are."""
    return etag is not None and not etag.startswith("W/") and etag in [tag.strip() for tag in header.split(",")]


def is_range_wanted(request: Request, file: File) -> bool:
    """Whether the file is the one that If-Range names, if it names one."""
    header = request.headers.get("if-range")
    if header is None or not file.has_conditions:
        return True
    return is_same_etag(header, file.etag) if header.startswith(('"', "W/")) else file.modified == parse_date(header)


def parse_date(header: str) -> float:
    """Return the seconds since 1970 of a date in a header."""
    return email.utils.parsedate_to_datetime(header).timestamp()
